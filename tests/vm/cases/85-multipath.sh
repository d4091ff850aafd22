#!/bin/bash
# Native multipath: two portals of one daemon; a path is cut under load, I/O goes on; both come back after a kill of the daemon.
#: nics 2
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
LOG_BAD=$LOG_BAD_KILLED
on_host volume_create m $((128 * MIB)) 4096 || die "volume create"
path() { nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo=4 --reconnect-delay=1 --ctrl-loss-tmo=120 -a "$@"; }
check "the discovery log has both portals" eval "nvme discover -t tcp -a $ADDR -s $DISCOVERY_PORT >/tmp/log && grep -q 'traddr: *$ADDR\$' /tmp/log && grep -q 'traddr: *$ADDR2\$' /tmp/log"
check "connect by the first" path "$ADDR" -s "$PORT"
check "connect by the second" path "$ADDR2" -s "$PORT2"
D=$(device m) || die "no block device"
S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
live() { [ "$(cat "$S"/nvme*/state | grep -cx live)" = "$1" ]; }
check "two live paths" wait_until 10 live 2
equal "to one disk" "$(ls -d /sys/block/nvme*n* | grep -vc 'c[0-9]*n')" 1
equal "both optimized" "$(cat "$S"/nvme*/nvme*c*n*/ana_state | sort -u)" optimized
equal "they are different controllers" "$(cat "$S"/nvme*/cntlid | sort -u | wc -l)" 2

for policy in numa round-robin; do
  step "a path is cut, policy $policy"
  echo $policy >"$S/iopolicy"
  verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=12m --rate=,2m & FIO=$!
  sleep 2; check "cut" on_host link 0 off
  check "the host notices" wait_until 30 live 1
  rc=0; wait $FIO || rc=$?; fio_went "I/O goes on by the other path" $rc
  check "connected again" on_host link 0 on
  check "the path comes back" wait_until 60 live 2
done

step "the daemon is killed: no path is left for a while"
survived "I/O over a kill" --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,2m --randseed=9
check "both paths come back" wait_until 60 live 2
finish
