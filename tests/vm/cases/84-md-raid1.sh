#!/bin/bash
# md RAID-1 over two volumes: verified I/O over a kill of the daemon, resync, and a check that finds both halves equal.
#: layers storage
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
LOG_BAD="$LOG_BAD_KILLED|md.*(Disk failure|[Ee]rror)"
export MDADM_NO_UDEV=1
on_host volume_create one $((64 * MIB)) 4096 || die "volume create"
on_host volume_create two $((64 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 --reconnect-delay=1 || die "connect"
D1=$(device one) && D2=$(device two) || die "no block device"
modprobe raid1
idle() { [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
both() { grep -q '\[UU\]' /proc/mdstat; }
halves_equal() { # halves_equal NAME: md's own check, which reads both
  wait_until 90 idle; echo check >/sys/block/md0/md/sync_action
  wait_until 90 idle; equal "$1: mismatch_cnt" "$(cat /sys/block/md0/md/mismatch_cnt)" 0
}

step "a mirror"
check "mdadm --create" quiet mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --metadata=1.2 --bitmap=internal --size=24576 "$D1" "$D2"
check "the first resync ends" wait_until 90 idle
check "with both halves" both

step "I/O while the daemon is killed"
survived "I/O over a kill" --filename=/dev/md0 --rw=randwrite "$MIXED" --iodepth=8 --size=6m --rate=,2m
check "both halves are still there" both
halves_equal "after the kill"

step "a half fails, and comes back"
check "fail and remove" eval "quiet mdadm /dev/md0 --fail $D2 && quiet mdadm /dev/md0 --remove $D2"
LOG_BAD=${LOG_BAD/Disk failure|/} # that was asked for
verified "I/O on one half" --filename=/dev/md0 --rw=randwrite "$MIXED" --iodepth=8 --size=6m --randseed=5
check "add" quiet mdadm /dev/md0 --add "$D2"
survived "I/O over a kill while it resyncs" --filename=/dev/md0 --rw=randwrite "$MIXED" --iodepth=8 --offset=12m --size=6m --rate=,2m
check "the resync ends" wait_until 90 both
halves_equal "after the resync"

step "assembled anew"
SUM=$(dd if=/dev/md0 bs=1M count=20 iflag=direct 2>/dev/null | sha256sum)
check "stop" quiet mdadm --stop /dev/md0
check "assemble of the second half only" quiet mdadm --assemble --run /dev/md0 "$D2"
equal "what it has" "$(dd if=/dev/md0 bs=1M count=20 iflag=direct 2>/dev/null | sha256sum)" "$SUM"
quiet mdadm --stop /dev/md0
finish
