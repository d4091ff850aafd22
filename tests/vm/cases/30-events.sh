#!/bin/bash
# Volumes that grow, appear and vanish are seen by a connected host at once, by event, without a rescan.
#: timeout 300
. "$VM_LIB"
MIB=1048576
SLOW=10 # seconds an event may take here
on_host volume_create grows $((256 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 || die "connect"
D=$(device grows) || die "no block device"

step "grow under a mounted file system"
mkfs.ext4 -q -F "$D" && mount -t ext4 "$D" /mnt || die "mkfs"
dd if=/dev/urandom of=/mnt/keep bs=64k count=16 2>/dev/null; SUM=$(sha256sum </mnt/keep)
check "volume grow" on_host volume_grow grows $((640 * MIB))
check "the new size is seen" wait_until $SLOW has_size "$D" $((640 * MIB))
check "resize2fs" eval "resize2fs $D >/tmp/resize 2>&1"
check "the file system has the room" [ "$(df -m /mnt | awk 'NR == 2 { print $2 }')" -gt 500 ]
equal "what was there is the same" "$(sha256sum </mnt/keep)" "$SUM"
verified "I/O past the old end" --filename=/mnt/new --rw=write --bs=128k --size=8m
umount /mnt; check "fsck" eval "e2fsck -fn $D >/dev/null 2>&1"
verified "I/O at the new end" --filename="$D" --rw=randwrite --bs=4k --offset=$((636 * MIB)) --size=1m

step "a new volume appears"
check "volume create" on_host volume_create second $((128 * MIB)) 4096
S=$(device second $SLOW) || S=''
check "it is there" test -b "$S"
verified "and takes I/O" --filename="$S" --rw=randwrite --bs=16k --iodepth=4 --size=2m
check "the first is still there" test -b "$D"

step "a deleted volume vanishes"
check "volume delete" on_host volume_delete second
check "it is gone" wait_until $SLOW eval "! test -b $S"
check "the first stays" has_size "$D" $((640 * MIB))
verified "and takes I/O" --filename="$D" --rw=randwrite --bs=4k --iodepth=4 --size=1m
check "a third volume" on_host volume_create third $((64 * MIB)) 4096
T=$(device third $SLOW) || T=''
check "appears" test -b "$T"

step "another volume under an NSID that the host has, again and again"
# what it reads of a volume that is taken away meanwhile fails
LOG_ALLOWED='identifiers changed for nsid|Buffer I/O error|unable to read'
nsid() { cat "/sys/class/block/${1##*/}/nsid"; }
N=$(nsid "$T"); check "volume create" on_host volume_create fourth $((64 * MIB)) 4096
O=$(device fourth $SLOW); check "the fourth appears" test -b "$O"
check "it is detached" on_host basalt subsystem detach default fourth --yes
wait_until $SLOW eval "! test -b $O"
for round in 1 2 3 4 5 6 7; do on_host remap "$N" third fourth && on_host remap "$N" fourth third || die "remap"; done
on_host remap "$N" third fourth || die "remap"
O=$(device fourth $SLOW) || O=''
check "the last one is seen" test -b "$O"
equal "under that NSID" "$(nsid "$O")" "$N"
verified "and takes I/O" --filename="$O" --rw=randwrite --bs=4k --iodepth=4 --size=1m
finish
