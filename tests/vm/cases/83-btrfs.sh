#!/bin/bash
# btrfs: its checksums find nothing after I/O with a kill of the daemon; a snapshot, discards, scrub and check.
#: layers storage
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
LOG_BAD="$LOG_BAD_KILLED|BTRFS.*(error|warning|critical|csum)"
on_host volume_create b $((512 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 --reconnect-delay=1 || die "connect"
D=$(device b) || die "no block device"
allocated_below() { [ "$(on_host allocated b)" -lt "$1" ]; }
check "mkfs.btrfs" quiet mkfs.btrfs -q -f "$D"
check "mount" mount -t btrfs "$D" /mnt

step "I/O while the daemon is killed"
survived "files over a kill" --directory=/mnt --nrfiles=2 --rw=randwrite "$MIXED" --iodepth=8 --size=6m --rate=,2m --fsync=32
dd if=/dev/urandom of=/mnt/keep bs=64k count=64 2>/dev/null; SUM=$(sha256sum </mnt/keep)
check "a snapshot" quiet btrfs subvolume snapshot -r /mnt /mnt/snap
dd if=/dev/urandom of=/mnt/keep bs=64k count=64 2>/dev/null; sync

step "scrub"
check "scrub" quiet btrfs scrub start -B /mnt
check "which read something and found nothing" eval "btrfs scrub status /mnt >/tmp/scrub && grep -q 'no errors found' /tmp/scrub && ! grep -q 'Total to scrub: *0' /tmp/scrub"
equal "device errors" "$(btrfs device stats /mnt | awk '{ n += $2 } END { print n }')" 0
equal "the snapshot has what was there" "$(sha256sum </mnt/snap/keep)" "$SUM"

step "discards"
dd if=/dev/urandom of=/mnt/large bs=1M count=48 2>/dev/null; sync
FULL=$(on_host allocated b)
rm /mnt/large; sync
check "fstrim" fstrim /mnt
check "gives the volume's space back ($FULL bytes before)" wait_until 20 allocated_below $((FULL - 40 * MIB))
umount /mnt
check "btrfs check" quiet btrfs check --readonly "$D"
check "and mounts again" mount -t btrfs "$D" /mnt
equal "with the snapshot" "$(sha256sum </mnt/snap/keep)" "$SUM"
umount /mnt
finish
