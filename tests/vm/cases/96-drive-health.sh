#!/bin/bash
# The daemon runs in the guest, on NVMe drives: `drive show` says of their health what nvme-cli says, and what they warn of; a disk group on them works.
#: serves yes
#: drives 2
#: timeout 420
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no drives"; exit 0; }
MIB=1048576
# QEMU's drives have no identifiers of the whole world's, and Linux says so.
LOG_ALLOWED='Ignoring bogus Namespace Identifiers'
modprobe nvme || die "no NVMe driver"
check "two drives" wait_until 20 test -b /dev/nvme0n1 -a -b /dev/nvme1n1
# Which of QEMU's drives it is: its serial number ends with that.
FIRST=$(grep -l vm-drive-1 /sys/class/nvme/nvme*/serial | cut -d/ -f5)n1

printf 'data_dir = "/tmp/data"\ncores.pin = false\ncores.count = 1\nlisteners = [{ addr = "127.0.0.1:4420" }]\n' >/tmp/basalt.toml
basalt serve --config /tmp/basalt.toml >/tmp/daemon.log 2>&1 & DAEMON=$!
export BASALT_API=/tmp/data/api.sock
wait_until 90 eval 'basalt status >/dev/null 2>&1' || { tail -n 20 /tmp/daemon.log; die "the daemon does not serve"; }

# of FILE NAME: a number of JSON, wherever it stands
of() { tr ',{}' '\n' <"$1" | sed -n "s/^ *\"$2\" *: *\"\{0,1\}\([0-9-]*\)\"\{0,1\} *$/\1/p"; }
looks() { basalt drive show "$1" --json >/tmp/ours && nvme smart-log "/dev/$1" -o json >/tmp/theirs; }
same() { # DRIVE: all that both say
  local ours theirs
  looks "$1" || die "it says nothing of $1"
  equal "temperature of $1, in °C" "$(of /tmp/ours temperature_celsius)" $(($(of /tmp/theirs temperature) - 273))
  # ours, theirs
  while read -r ours theirs; do
    equal "$ours of $1" "$(of /tmp/ours "$ours")" "$(of /tmp/theirs "$theirs")"
  done <<'END'
spare_percent avail_spare
spare_threshold_percent spare_thresh
used_percent percent_used
media_errors media_errors
error_log_entries num_err_log_entries
power_on_hours power_on_hours
power_cycles power_cycles
unsafe_shutdowns unsafe_shutdowns
warning_temperature_minutes warning_temp_time
critical_temperature_minutes critical_comp_time
END
  # Units of 1000 times 512 bytes; nobody reads or writes meanwhile.
  equal "bytes read from $1" "$(of /tmp/ours read_bytes)" $(($(of /tmp/theirs data_units_read) * 512000))
  equal "bytes written to $1" "$(of /tmp/ours written_bytes)" $(($(of /tmp/theirs data_units_written) * 512000))
}

step "two new drives"
check "both are listed, and free" eval '[ "$(basalt drive list --json | grep -c "\"use_state\": *\"free\"")" = 2 ]'
same nvme0n1; same nvme1n1
check "a temperature above 0 °C" [ "$(of /tmp/ours temperature_celsius)" -gt 0 ]
check "it warns of nothing" eval "basalt drive show $FIRST | grep -q 'warns of *nothing'"

step "after reads and writes"
dd if=/dev/urandom of="/dev/$FIRST" bs=1M count=8 oflag=direct 2>/dev/null && dd if="/dev/$FIRST" of=/dev/null bs=1M count=4 iflag=direct 2>/dev/null || die "dd"
same "$FIRST"
check "what was written counts" [ "$(of /tmp/ours written_bytes)" -ge $((8 * MIB)) ]
check "and what was read" [ "$(of /tmp/ours read_bytes)" -ge $((4 * MIB)) ]

step "the drive warns"
on_host drive_warns 1 5 || die "the emulator does not take it"
warned() { basalt drive show "$FIRST" >/tmp/shown && grep -q 'little spare' /tmp/shown && grep -q 'not reliable' /tmp/shown; }
check "drive show says of what" wait_until 10 warned
equal "as nvme-cli" "$(nvme smart-log "/dev/$FIRST" -o json >/tmp/theirs; of /tmp/theirs critical_warning)" 5
on_host drive_warns 1 0

step "a disk group on the drives"
check "it is made" quiet basalt group create g --cache /dev/nvme0n1 --capacity /dev/nvme1n1 --shards 1 --force
check "and a volume" quiet basalt volume create v --size 64MiB --subsystem default
check "the drive is used by it" eval "basalt drive show nvme1n1 | grep -q 'used by .*g'"
ADDR=127.0.0.1 PORT=4420
SELF=$(basalt subsystem show default --json | sed -n 's/.*"nqn": *"\([^"]*\)".*/\1/p' | head -n 1)
connect "$SELF" --nr-io-queues=1 || die "connect"
UUID=$(basalt volume show v --json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -n 1)
wait_until 20 eval "by_uuid $UUID >/dev/null" || die "no block device"
verified "and takes I/O" --filename="$(by_uuid "$UUID")" --rw=randwrite --bs=4k --iodepth=4 --size=2m
nvme disconnect -n "$SELF" >/dev/null
same nvme0n1; same nvme1n1
kill $DAEMON; rc=0; wait $DAEMON || rc=$?
equal "the daemon ends in order" $rc 0
finish
