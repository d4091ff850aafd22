#!/bin/bash
# What blktests' nvme group tries of namespaces that come and go under a host (052, 055, 058).
#: timeout 400
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has its own names"; exit 0; }
MIB=1048576
SLOW=15 # seconds an event may take here
connect "$NQN" --nr-io-queues=2 >/dev/null || die "connect"
C=/dev/$(controller "$NQN")

step "one at a time"
i=0; while [ $i -lt 12 ]; do
  on_host volume_create one $((16 * MIB)) >/dev/null || break
  U=$(on_host volume_uuid one); wait_until $SLOW by_uuid "$U" >/dev/null || { echo "not seen, round $i"; break; }
  on_host volume_delete one >/dev/null || break
  wait_until $SLOW eval "! by_uuid $U >/dev/null" || { echo "not gone, round $i"; break; }
  i=$((i + 1))
done
equal "052: made, seen, deleted, gone: rounds" $i 12

step "remapped faster than the host scans"
on_host volumes_create 6 $((16 * MIB)) || die "volumes create"
check "058: six are there" wait_until $SLOW device v6
for i in 0 1 2 3 4 5 6 7 8 9; do # three namespace IDs, and which of the six volumes are behind them
  on_host remap_three $((i % 2)) || die "remap"
done
right() { # the three disks that there are now are the volumes at these IDs
  local n u; [ "$(ls -d /sys/block/nvme*n* | grep -vc 'c[0-9]*n')" = 3 ] || return 1
  for n in 1 2 3; do u=$(on_host volume_uuid "v$((n + 3))"); [ "$(cat "$(dirname "$(grep -lx $n /sys/block/nvme*n*/nsid | grep -v 'c[0-9]*n' | head -n 1)")/uuid" 2>/dev/null)" = "$u" ] || return 1; done
}
check "058: the host has the last of it" wait_until 40 right
for n in 4 5 6; do D=$(device v$n) && verified "058: I/O on v$n" --filename="$D" --rw=randwrite --bs=4k --iodepth=4 --size=256k; done

step "a namespace goes away, and no event says so"
D=$(device v4) || die "no device"
ASKED=$(nvme get-feature "$C" -f 0xb | sed 's/.*://')
check "055: no events of namespaces" quiet nvme set-feature "$C" -f 0xb -v $((ASKED & ~0x100))
on_host volume_delete v4 >/dev/null || die "volume delete"
sleep 1; check "055: the host still has the disk" test -b "$D"
head -c 4096 /dev/urandom >/tmp/data
check "055: a write is refused, as to a namespace that is not active" eval "nvme write $D --start-block=1 --block-count=0 --data-size=4096 --data=/tmp/data >/tmp/said 2>&1; grep -qiE 'invalid field|0x?4?002' /tmp/said || { cat /tmp/said; false; }"
nvme ns-rescan "$C"
check "055: gone after a scan" wait_until $SLOW eval "! test -b $D"
# a namespace that goes while it is scanned is not there to be identified
LOG_ALLOWED='identifiers changed|Identify Descriptors failed|I/O error|Buffer I/O|operation not supported error|unable to read (RDB block|partition table)'
finish
