#!/bin/bash
# What blktests' nvme group tries of discovery, connecting and resetting (002 to 005, 008, 016, 021, 022, 028, 030, 031, 048, 060).
#: smp 4
#: timeout 400
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576 SELF=$(cat /etc/nvme/hostnqn)
DISCOVERY=nqn.2014-08.org.nvmexpress.discovery
on_host volume_create v $((128 * MIB)) 4096 >/dev/null || die "volume create"
UUID=$(on_host volume_uuid v)
generation() { nvme discover -t tcp -a "$ADDR" -s "$DISCOVERY_PORT" | tee /tmp/log | sed -n 's/.*Generation counter \([0-9]*\).*/\1/p'; }
# newer NAME: the generation counter is higher than when this was last asked
newer() { local g; g=$(generation); check "$1 ($GENERATION, then $g)" [ "$g" -gt "$GENERATION" ]; GENERATION=$g; }
gone() { nvme disconnect -n "$NQN" >/dev/null; }
# identified NAME: the disk's UUID is the volume's, and names it
identified() {
  local d; d=$(device v) || { echo "FAIL $1: no device"; FAILURES=$((FAILURES + 1)); return; }
  equal "$1: uuid" "$(cat "/sys/block/${d#/dev/}/uuid")" "$UUID"
  equal "$1: wwid" "$(cat "/sys/block/${d#/dev/}/wwid")" "uuid.$UUID"
}

step "discovery logs"
GENERATION=$(generation)
on_host subsystems_create 40 || die "subsystems create"
newer "002: many subsystems are a new generation"
equal "002: a log of many pages has them all" "$(grep -c 'subnqn:.*:many[0-9]*$' /tmp/log)" 40
on_host subsystems_delete 40 || die "subsystems delete"
newer "002: as is their end"
on_host subsystem_create shy "$SELF-not" >/dev/null || die "subsystem create"
GENERATION=$(generation)
on_host basalt subsystem allow shy "$SELF" >/dev/null; newer "030: a host is allowed"
check "030: and sees it" grep -q ':shy$' /tmp/log
on_host basalt subsystem deny shy "$SELF" >/dev/null; newer "030: a host is no longer allowed"
check_fails "030: and does not see it" grep -q ':shy$' /tmp/log
# what this host sees is what its counter counts
on_host basalt subsystem allow shy "$SELF" >/dev/null; GENERATION=$(generation); on_host basalt subsystem delete shy --yes >/dev/null; newer "030: a subsystem is deleted"
check "003: a discovery controller that stays" nvme connect -t tcp -a "$ADDR" -s "$DISCOVERY_PORT" -n $DISCOVERY --keep-alive-tmo=2
sleep 5; check "003: is alive after its keep-alive time" is_live $DISCOVERY
nvme disconnect -n $DISCOVERY >/dev/null

step "many namespaces"
on_host volumes_create 24 $((4 * MIB)) || die "volumes create"
connect "$NQN" --nr-io-queues=4 >/dev/null || die "connect"
disks() { ls -d /sys/block/nvme*n* 2>/dev/null | grep -vc 'c[0-9]*n'; }
check "016: each is a disk" wait_until 20 eval '[ $(disks) = 25 ]'
on_host volumes_delete 24 || die "volumes delete"
check "016: until it is deleted" wait_until 20 eval '[ $(disks) = 1 ]'

step "identity, lists, resets"
identified "004, 008"
D=$(device v)
check "021: nvme list has it" eval "nvme list | grep -q '^$D '"
check "028: nvme list-subsys has it" eval "nvme list-subsys | grep -A2 '$NQN' | grep -q tcp"
C=$(controller "$NQN")
check "022: nvme reset" nvme reset "/dev/$C"
check "022: it is live again" wait_until 15 is_live "$NQN"
identified "022"
verified "022: and takes I/O" --filename="$D" --rw=randwrite --bs=4k --iodepth=4 --size=256k
echo 1 >"/sys/class/nvme/$C/reset_controller"; gone
check "005: a disconnect in the middle of a reset" wait_until 10 eval "! test -e /sys/class/nvme/$C"
for i in 1 2 3 4 5 6 7 8 9 10; do connect "$NQN" --nr-io-queues=2 >/dev/null && gone || break; done
check "031: controllers deleted at once after they were made" [ $i = 10 ]
check "031: leave nothing" eval "! ls -d /sys/class/nvme/nvme* 2>/dev/null"

step "another number of queues after a reconnect"
LOG_BAD=$LOG_BAD_KILLED
connect "$NQN" --nr-io-queues=4 --reconnect-delay=1 --keep-alive-tmo=5 >/dev/null || die "connect"
C=$(controller "$NQN")
for max in 4 5 4; do # one connection is the admin queue
  on_host connections_max $max; on_host daemon_kill; on_host daemon_start || die "daemon start"
  check "048: live with $max connections allowed" wait_until 20 is_live "$NQN"
  equal "048: queues" "$(cat "/sys/class/nvme/$C/queue_count")" $max
done
D=$(device v) && verified "048: I/O" --filename="$D" --rw=randwrite --bs=4k --iodepth=4 --size=256k
gone; on_host connections_max 1032

step "connects and disconnects while the target goes away again and again"
# a connect that meets no target is refused; what counts is that nothing hangs
rm -f /tmp/end; (while [ ! -e /tmp/end ]; do on_host daemon_kill; on_host daemon_start || break; sleep 2; done) >/dev/null 2>&1 & LOOP=$!
tried=0 connected=0; for i in 1 2 3 4 5 6; do
  timeout 30 nvme connect -t tcp -a "$ADDR" -s "$PORT" -n "$NQN" --keep-alive-tmo=2 --reconnect-delay=1 >/dev/null 2>&1 && connected=$((connected + 1))
  sleep 1.3; timeout 30 nvme disconnect -n "$NQN" >/dev/null 2>&1; [ $? = 124 ] || tried=$((tried + 1))
done
: >/tmp/end; wait $LOOP
LOG_ALLOWED='.' # a controller that is removed while it connects says so in many ways
echo "connected $connected times of 6"
equal "060: connects and disconnects that ended" $tried 6
check "060: and a connect at the end" wait_until 20 connect "$NQN" --nr-io-queues=2
identified "060"
finish
