# What the cases share; runs in the guest (bash).  In a case:  . "$VM_LIB"
# shellcheck shell=bash

# ------------------------------------------------------------------------------- reporting

# step TEXT: a heading with the guest's uptime
step() { echo "--- [$(cut -d' ' -f1 /proc/uptime)] $*"; }

# check NAME COMMAND...: run COMMAND, print ok or FAIL, count failures; `finish` exits by the count
FAILURES=0
check() {
  local name=$1; shift
  if "$@"; then echo "ok   $name"; else echo "FAIL $name"; FAILURES=$((FAILURES + 1)); fi
}
# check_fails NAME COMMAND...: the same, for a command that has to fail; check the reason as well, or a missing program passes
check_fails() {
  local name=$1; shift
  if "$@" >/dev/null 2>&1; then echo "FAIL $name (it succeeded)"; FAILURES=$((FAILURES + 1)); else echo "ok   $name"; fi
}
# equal NAME GOT WANTED
equal() { if [ "$2" = "$3" ]; then echo "ok   $1 ($2)"; else echo "FAIL $1: got '$2', wanted '$3'"; FAILURES=$((FAILURES + 1)); fi; }
# die TEXT: what follows makes no sense without this
die() { echo "FAIL $*"; dmesg | tail -n 30; exit 1; }

# finish: looks at the kernel's log while all is still connected, disconnects, looks again, exits by what was counted
finish() {
  step "the kernel's log"
  kernel_log_clean "the kernel's log is clean"
  nvme disconnect-all >/dev/null 2>&1
  kernel_log_clean "the kernel's log is clean after the end"
  if [ $FAILURES -gt 0 ]; then echo "what the kernel said of NVMe:"; dmesg | grep -aiE 'nvme|I/O' | tail -n 40; fi
  echo "failures: $FAILURES"; exit $((FAILURES > 0))
}

# What a connection that goes well never says.  A case that cuts one sets LOG_ALLOWED to a pattern.
LOG_BAD='I/O error|critical .* error|EXT4-fs (error|warning)|XFS.*(error|corrupt|Corruption|shutdown)|nvme.*(timeout|digest|corrupt|invalid|[Ff]ailed|error recovery|unexpected|bogus|duplicate|not match|mismatch|non-?zero|queue_size|unable|identifiers changed|[Rr]econnect)'
LOG_ALLOWED=

# cancelled_keep_alives: from a kernel log, leaves out what the kernel says of a Keep Alive that it cancels itself: it removes a controller (the
# administrator disconnects) while the command is on its way, which then ends with BLK_STS_TRANSPORT (4).  Only that message, and only between a
# controller's "Removing ctrl" and the next "new ctrl" of the same name: a Keep Alive that fails while connected stays in the log.
cancelled_keep_alives() {
  awk '
    { name = match($0, /nvme nvme[0-9]+: /) ? substr($0, RSTART, RLENGTH) : "" }
    name != "" && /: Removing ctrl: / { removing[name] = 1 }
    name != "" && /: new ctrl: / { delete removing[name] }
    name in removing && /: failed nvme_keep_alive_end_io error=4$/ { next }
    { print }'
}
# lost_read_ahead: where the daemon is killed, leaves out a read-ahead that was on its way on a path (dev nvmeXcYnZ, flags RAHEAD with all three of
# FAILFAST and the driver's, bit 25 or, on 6.1, 26): Linux tries none again (blk_noretry_request), and whoever needs the data reads it.
lost_read_ahead() {
  case $LOG_BAD in
    "$LOG_BAD_KILLED"*) grep -avE 'I/O error, dev nvme[0-9]+c[0-9]+n[0-9]+, sector [0-9]+ op 0x0:\(READ\) flags 0x[24]080700 ' ;;
    *) cat ;;
  esac
}
# kernel_log_bad: the lines of the log on standard input that should not be there
kernel_log_bad() {
  grep -av nvmet_ | cancelled_keep_alives | lost_read_ahead | grep -aE "$LOG_BAD" | { if [ -n "$LOG_ALLOWED" ]; then grep -avE "$LOG_ALLOWED"; else cat; fi; }
}
# What it must never say where the daemon is killed: it may say that it reconnects, but no I/O may fail.
LOG_BAD_KILLED='I/O error|critical .* error|EXT4-fs (error|warning)|XFS.*(error|corrupt|Corruption|shutdown)|nvme.*(Removing controller|corrupt|bogus|identifiers changed|digest error)'

# kernel_log_clean NAME: a check of the kernel's log
kernel_log_clean() {
  local bad; bad=$(dmesg | kernel_log_bad)
  if [ -z "$bad" ]; then echo "ok   $1"; return; fi
  echo "FAIL $1; it has:"; echo "$bad" | head -n 20; FAILURES=$((FAILURES + 1))
}

# wait_until SECONDS COMMAND...: try COMMAND every 0.2 s; fails when SECONDS of the guest's clock pass
wait_until() {
  local end; end=$(($(cut -d. -f1 /proc/uptime) + $1)); shift
  while ! "$@"; do
    [ "$(cut -d. -f1 /proc/uptime)" -le "$end" ] || { echo "gave up waiting for: $*" >&2; return 1; }
    sleep 0.2
  done
}

# ------------------------------------------------------------------------- the host's side

# on_host VERB ARG...: have the host side (host.sh) do something, print what it printed, return its status
REQUESTS=0
on_host() {
  local n rc; REQUESTS=$((REQUESTS + 1)); n=$BASHPID.$REQUESTS.$RANDOM
  printf '%s\0' "$@" >"$VM_CTL/$n.new"; mv "$VM_CTL/$n.new" "$VM_CTL/req.$n"
  wait_until 90 test -e "$VM_CTL/rc.$n" || { echo "the host side does not answer: $*"; return 120; }
  rc=$(cat "$VM_CTL/rc.$n"); cat "$VM_CTL/out.$n"
  return "$rc"
}

# The settings that the host side leaves here once the daemon serves: ADDR PORT DISCOVERY_PORT NQN
wait_until 180 test -e "$VM_CTL/env" || die "the host side has not started a target"
. "$VM_CTL/env"
[ -z "$START_FAILED" ] || die "the daemon did not start"
# Nodes that are apart have addresses of their own: node N by NIC N-1.
if [ -n "$APART" ]; then for n in $(seq "$NODES"); do ip route add "${ADDR_OF[n]}/32" via 10.0.$((1 + n)).2 dev eth$((n - 1)) || die "no way to node $n"; done; fi
if [ -n "$REFERENCE" ]; then . /vm/files/reference.sh; fi

# ----------------------------------------------------------------------------------- NVMe

modprobe nvme-tcp

# connect NQN OPTION...: nvme connect
connect() {
  local nqn=$1; shift
  nvme connect -t tcp -a "$ADDR" -s "$PORT" -n "$nqn" "$@" || return 1
}
# controller NQN: the name (nvme0) of a live controller of NQN
controller() {
  local c
  for c in /sys/class/nvme/nvme*; do
    [ "$(cat "$c/subsysnqn" 2>/dev/null)" = "$1" ] && [ "$(cat "$c/state" 2>/dev/null)" = live ] && { basename "$c"; return 0; }
  done
  return 1
}
is_live() { controller "$1" >/dev/null; }
is_gone() { ! is_live "$1"; }

# by_uuid UUID: the block device (/dev/nvme0n1) with that namespace UUID
by_uuid() {
  local d
  for d in /sys/class/block/nvme*n*; do
    case ${d##*/} in *c*n* | *p*) continue ;; esac
    [ "$(cat "$d/uuid" 2>/dev/null)" = "$1" ] && [ -b "/dev/${d##*/}" ] && { echo "/dev/${d##*/}"; return 0; }
  done
  return 1
}
# device VOLUME [SECONDS]: waits until the volume is a block device, prints its path
device() {
  local uuid; uuid=$(on_host volume_uuid "$1") || return 1
  wait_until "${2:-15}" eval "by_uuid $uuid >/dev/null" || return 1
  by_uuid "$uuid"
}
has_size() { [ "$(blockdev --getsize64 "$1")" = "$2" ]; }

# ------------------------------------------------------------------------------------- I/O

# verify OPTION...: fio that writes and then reads back and verifies all it wrote; what it says is in $FIO_OUT
FIO_OUT=/tmp/fio.out
verify() (
  # A stock kernel may send SIGPIPE to whoever submits I/O at the moment a connection goes away (docs/user-guide.md, Troubleshooting).
  trap '' PIPE
  exec fio --name=v --ioengine=libaio --direct=1 --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 --group_reporting "$@" >$FIO_OUT 2>&1
)
fio_went() { # fio_went NAME STATUS
  if [ "$2" = 0 ] && grep -q 'err= 0' $FIO_OUT; then
    echo "ok   $1 ($(grep -oE '(READ|WRITE|TRIM): bw=[^ ,]*' $FIO_OUT | tr '\n' ' '))"
  else
    echo "FAIL $1 (status $2)"; tail -n 25 $FIO_OUT; FAILURES=$((FAILURES + 1)); return 1
  fi
}
# verified NAME OPTION...: a check that verify goes well
verified() { local name=$1 rc=0; shift; verify "$@" || rc=$?; fio_went "$name" $rc; }
# survived NAME OPTION...: the same while the daemon is killed with -9 and started again; the options have to make it last some seconds
survived() {
  local name=$1 fio rc=0; shift
  verify "$@" & fio=$!
  sleep 2; kill -0 $fio 2>/dev/null || { echo "FAIL $name: fio ended before the kill"; FAILURES=$((FAILURES + 1)); }
  on_host daemon_kill || die "kill"
  on_host daemon_start || die "the daemon does not start again"
  wait $fio || rc=$?; fio_went "$name" $rc
}
# The mixture of block sizes that most cases use.
MIXED='--bssplit=4k/40:8k/20:16k/15:64k/15:128k/10'

# quiet COMMAND...: its output only when it fails
quiet() { "$@" >/tmp/quiet 2>&1 || { local rc=$?; tail -n 20 /tmp/quiet; return $rc; }; }
