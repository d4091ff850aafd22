#!/bin/bash
# ext4 and XFS with verified I/O of mixed sizes; trims; fstrim gives the space back; write zeroes.
#: timeout 240
. "$VM_LIB"
MIB=1048576
on_host volume_create fs $((2048 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 || die "connect"
D=$(device fs) || die "no block device"
below() { [ "$(on_host allocated fs)" -lt "$1" ]; }

step "verified I/O with trims on the bare device"
verified "random writes of mixed sizes" --filename="$D" --rw=randwrite "$MIXED" --iodepth=16 --size=8m
verified "overwrites" --filename="$D" --rw=randwrite "$MIXED" --iodepth=16 --size=8m --randseed=7
verified "trim, then write" --filename="$D" --rw=trimwrite --bs=64k --iodepth=4 --offset=16m --size=4m
verified "random trims and writes" --filename="$D" --rw=randtrimwrite --bs=16k --iodepth=8 --offset=16m --size=4m --randseed=3
check "write zeroes" blkdiscard -z -o 0 -l $((4 * MIB)) "$D"
check "reads zeroes" cmp -n $((4 * MIB)) "$D" /dev/zero
check "discard" blkdiscard -o $((4 * MIB)) -l $((28 * MIB)) "$D"
check "reads zeroes after discard" cmp -n $((32 * MIB)) "$D" /dev/zero

filesystem() { # filesystem NAME MKFS... -- CHECK...: file, verify, delete, fstrim, look at the space, check
  local name=$1 before full; shift
  local mkfs=(); while [ "$1" != -- ]; do mkfs+=("$1"); shift; done; shift
  step "$name"
  check "mkfs $name" "${mkfs[@]}" "$D"
  check "mount" mount -t "$name" "$D" /mnt
  sync; before=$(on_host allocated fs)
  verified "$name: files" --directory=/mnt --nrfiles=2 --rw=randwrite "$MIXED" --iodepth=8 --size=10m --fsync=32
  verified "$name: buffered" --directory=/mnt --rw=write --bs=64k --size=8m --direct=0 --end_fsync=1
  dd if=/dev/urandom of=/mnt/keep bs=64k count=32 2>/dev/null; sync
  full=$(on_host allocated fs)
  equal "$name: allocation grew" $((full >= before + 16 * MIB)) 1
  local sum; sum=$(sha256sum </mnt/keep)
  rm /mnt/v.*; sync
  check "$name: fstrim" fstrim /mnt
  check "$name: fstrim gave the space back" wait_until 20 below $((before + 8 * MIB))
  echo "allocated: $before before, $full full, $(on_host allocated fs) after fstrim"
  umount /mnt
  check "$name: checks clean" quiet "$@" "$D"
  mount -t "$name" "$D" /mnt; equal "$name: what stayed is the same" "$(sha256sum </mnt/keep)" "$sum"; umount /mnt
}
filesystem ext4 mkfs.ext4 -q -F -- e2fsck -fn
filesystem xfs mkfs.xfs -q -f -- xfs_repair -n
finish
