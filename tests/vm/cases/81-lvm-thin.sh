#!/bin/bash
# LVM thin on a volume: thin disks with verified I/O and a snapshot, the daemon killed meanwhile, discards passed down.
#: layers storage
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
LOG_BAD="$LOG_BAD_KILLED|device-mapper: .*(error|fail|abort)"
export DM_DISABLE_UDEV=1 # no udev here: LVM makes the device files itself
printf 'devices {\n obtain_device_list_from_udev = 0\n external_device_info_source = "none"\n}\nactivation {\n udev_sync = 0\n udev_rules = 0\n monitoring = 0\n}\n' >/etc/lvm/lvm.conf
on_host volume_create pool $((1024 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 --reconnect-delay=1 || die "connect"
D=$(device pool) || die "no block device"
allocated_below() { [ "$(on_host allocated pool)" -lt "$1" ]; }

step "a thin pool"
check "pvcreate" quiet pvcreate "$D"
check "vgcreate" quiet vgcreate vg "$D"
check "lvcreate of the pool" quiet lvcreate --type thin-pool -L 512m -c 64k --discards passdown -Zy -n tp vg
check "two thin disks, larger than the pool together" eval "quiet lvcreate -V 400m -T vg/tp -n a && quiet lvcreate -V 400m -T vg/tp -n b"
A=/dev/vg/a B=/dev/vg/b
check "they are there" eval "test -b $A && test -b $B"

step "I/O while the daemon is killed"
survived "a thin disk over a kill" --filename=$A --rw=randwrite "$MIXED" --iodepth=8 --size=6m --rate=,2m
check "mkfs.ext4 on the other" eval "mkfs.ext4 -q -F $B && mount -t ext4 $B /mnt"
dd if=/dev/urandom of=/mnt/keep bs=64k count=64 2>/dev/null; sync; SUM=$(sha256sum </mnt/keep)
check "a snapshot" quiet lvcreate -s -kn vg/b -n s
dd if=/dev/urandom of=/mnt/keep bs=64k count=64 conv=notrunc 2>/dev/null; umount /mnt
check "the snapshot mounts" mount -t ext4 -o ro,noload /dev/vg/s /mnt
equal "and has what was there" "$(sha256sum </mnt/keep)" "$SUM"; umount /mnt
check "e2fsck" quiet e2fsck -fn $B

step "discards are passed down"
dd if=/dev/urandom of=$A bs=1M count=48 oflag=direct 2>/dev/null
FULL=$(on_host allocated pool)
check "blkdiscard of a thin disk" blkdiscard $A
check "gives the volume's space back ($FULL bytes before)" wait_until 20 allocated_below $((FULL - 40 * MIB))
check "and reads zeroes" cmp -n $((48 * MIB)) $A /dev/zero

step "all of it after a clean deactivation"
check "vgchange -an" quiet vgchange -an vg
check "thin_check of the metadata" eval "quiet lvchange -ay -y vg/tp_tmeta && thin_check /dev/mapper/vg-tp_tmeta >/tmp/thin 2>&1 && quiet lvchange -an vg/tp_tmeta"
check "vgchange -ay" quiet vgchange -ay vg
check "e2fsck again" quiet e2fsck -fn $B
quiet vgchange -an vg
finish
