#!/bin/bash
# Full devices: a clean out-of-space status, never a hang; what was acknowledged stays; trim gets out of it; ext4 and XFS see ENOSPC and go on.
#: capacity 256MiB
#: timeout 900
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no capacity of its own"; exit 0; }
MIB=1048576
on_host volume_create kept $((64 * MIB)) 4096 || die "volume create"
on_host volume_create big $((4096 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 || die "connect"
K=$(device kept) || die "no block device"; B=$(device big) || die "no block device"
C=/dev/$(controller "$NQN")
# the kernel reports the refused writes: that is what is asked for here, but nothing else
LOG_ALLOWED='critical space allocation error|blk_update_request|Buffer I/O error|lost async page write|Capacity Exceeded'

step "what a thin namespace says of itself"
field() { nvme id-ns "$1" -o json | tr ',' '\n' | grep -oE "\"$2\" *: *[0-9]+" | grep -oE '[0-9]+$'; } # DEVICE FIELD
used() { echo $(($(field "$1" nuse) * 4096)); }
equal "it is thin" $(($(field "$B" nsfeat) & 1)) 1
equal "it may be written as a whole" "$(field "$B" ncap)" "$(field "$B" nsze)"
equal "nothing of it is used" "$(used "$B")" 0
verified "what has to stay" --filename="$K" --rw=randwrite "$MIXED" --iodepth=8 --size=8m
SUM=$(dd if="$K" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)
equal "what was written is used, at once" "$(used "$K")" "$(on_host allocated kept)"
check "which is what was written and little more" [ "$(used "$K")" -ge $((7 * MIB)) -a "$(used "$K")" -le $((9 * MIB)) ]
delays() { nvme id-ctrl "$C" | grep -E '^crdt[123]' | grep -oE '[0-9]+$' | tr '\n' ' '; }
equal "retry delays are stated" "$(delays)" "2 10 50 "
equal "and the kernel keeps to them" "$(nvme get-feature "$C" -f 0x16 -l 512 -b 2>/dev/null | od -An -tu1 -N1 | tr -d ' ')" 1

step "write until it is full"
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
equal "it is thin again" "$(used "$B")" 0
ok=1; for i in 1 2 3 4 5 6 7 8 9 10; do fill 0 64 && { ok=0; break; }; sleep 1; done
check "writing works again" [ $ok = 0 ]
verified "and verifies" --filename="$B" --rw=randwrite "$MIXED" --iodepth=8 --size=8m
equal "the other volume is as it was" "$(dd if="$K" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)" "$SUM"
blkdiscard "$B"

# What file systems say is theirs: they may stop (a journal without space) or go on.
FS_ALLOWED="$LOG_ALLOWED|EXT4-fs|JBD2|XFS|Aborting journal|metadata I/O error"
for fs in ext4 xfs; do
  step "$fs when there is no space below it"
  LOG_ALLOWED=$FS_ALLOWED
  # a block in each chunk takes the whole chunk: some 30 MiB are left, which the emulator writes in time
  on_host volume_create filler $((208 * MIB)) 4096 >/dev/null && F=$(device filler) || die "filler"
  quiet fio --name=f --ioengine=libaio --direct=1 --iodepth=8 --filename="$F" --rw=write:60k --bs=4k --size=208m --io_size=13m || die "filler"
  equal "most of the space is taken" "$(used "$F")" $((208 * MIB))
  on_host volume_create "of-$fs" $((1024 * MIB)) 4096 >/dev/null && D=$(device "of-$fs") || die "volume"
  quiet mkfs.$fs -q "$D" && mount -t $fs "$D" /mnt || die "mkfs"
  check "what is synced" dd if=/vm/noise of=/mnt/keep bs=1M count=8 conv=fsync status=none
  rc=0; for i in 1 2 3 4; do timeout 100 dd if=/vm/noise of=/mnt/more.$i bs=1M count=16 conv=fsync 2>/tmp/dd || { rc=$?; break; }; done
  equal "a sync without space is an error, not a hang" $rc 1
  # ext4 of 6.1 makes EIO of whatever its pages meet
  if [ "$fs $(uname -r | cut -d. -f1,2)" != "ext4 6.1" ]; then check "which says what it is" grep -qi 'no space left' /tmp/dd; fi
  check "the kernel knows what it is" eval "dmesg | grep -q 'critical space allocation error, dev $(basename "$D" | sed 's/n/c.n/2')'"
  # somebody makes room
  check "room is made" on_host volume_delete filler
  check "it is unmounted" timeout 60 umount /mnt
  if [ $fs = ext4 ]; then e2fsck -fy "$D" >/tmp/fsck 2>&1; check "fsck puts it right" [ $? -le 1 ]; fi
  check "it is mounted again" mount -t $fs "$D" /mnt
  check "what was synced is there" eval "head -c $((8 * MIB)) /vm/noise | cmp - /mnt/keep"
  rm -f /mnt/more.*; check "trim" fstrim /mnt
  check "and it takes data" dd if=/vm/noise of=/mnt/new bs=1M count=16 conv=fsync status=none
  check "it is unmounted" umount /mnt
  check "the volume is deleted" on_host volume_delete "of-$fs"
  wait_until 10 eval "! test -b $D"
done

step "a restart"
check "a restart when it has been full" eval "on_host daemon_stop && on_host daemon_start"
LOG_ALLOWED="$LOG_ALLOWED|nvme.*([Rr]econnect|error recovery|[Ff]ailed)"
wait_until 30 is_live "$NQN" || die "no reconnect"
equal "and after it" "$(dd if="$K" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)" "$SUM"
equal "what is used is known" "$(used "$K")" "$(on_host allocated kept)"
finish
