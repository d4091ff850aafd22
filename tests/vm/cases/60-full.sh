#!/bin/bash
# Full devices: a clean out-of-space status, never a hang; what was acknowledged stays; trim gets out of it.
#: capacity 256MiB
#: timeout 240
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no capacity of its own"; exit 0; }
MIB=1048576
on_host volume_create kept $((64 * MIB)) 4096 || die "volume create"
on_host volume_create big $((4096 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 || die "connect"
K=$(device kept) || die "no block device"; B=$(device big) || die "no block device"
# the kernel reports the refused writes: that is what is asked for here, but nothing else
LOG_ALLOWED='critical space allocation error|blk_update_request|Buffer I/O error|lost async page write|Capacity Exceeded'

step "write until it is full"
verified "what has to stay" --filename="$K" --rw=randwrite "$MIXED" --iodepth=8 --size=8m
SUM=$(dd if="$K" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)
fill() { timeout 120 dd if=/vm/noise of="$B" bs=1M seek="$1" count="$2" oflag=direct conv=notrunc 2>/tmp/dd; }
dd if=/dev/urandom of=/vm/noise bs=1M count=64 2>/dev/null
n=0; rc=0
while [ $n -lt 4096 ]; do fill $n 64; rc=$?; [ $rc = 0 ] || break; n=$((n + 64)); done
echo "full after $n MiB: $(tr '\n' ' ' </tmp/dd)"
check "the end is an error, not a hang" [ $rc = 1 ]
check "which says that there is no space" grep -qi 'no space left' /tmp/dd
check "reads go on" dd if="$B" of=/dev/null bs=1M count=32 iflag=direct status=none
equal "what was acknowledged is there" "$(dd if="$B" bs=1M count=64 iflag=direct 2>/dev/null | sha256sum)" "$(sha256sum </vm/noise)"

step "trim gets out of it"
check "trim" blkdiscard "$B"
ok=1; for i in 1 2 3 4 5 6 7 8 9 10; do fill 0 64 && { ok=0; break; }; sleep 1; done
check "writing works again" [ $ok = 0 ]
verified "and verifies" --filename="$B" --rw=randwrite "$MIXED" --iodepth=8 --size=8m
equal "the other volume is as it was" "$(dd if="$K" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)" "$SUM"
check "a restart when it has been full" eval "on_host daemon_stop && on_host daemon_start"
LOG_ALLOWED="$LOG_ALLOWED|nvme.*([Rr]econnect|error recovery|[Ff]ailed)"
wait_until 30 is_live "$NQN" || die "no reconnect"
equal "and after it" "$(dd if="$K" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)" "$SUM"
finish
