#!/bin/bash
# docs/coming-from.md: its commands, as they stand there, move disks of each kind onto volumes, which then hold the same.
#: layers storage disks
#: pages coming-from
#: timeout 600
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no volumes to make"; exit 0; }
MIB=1048576
# What the kernel says of the page's --ctrl-loss-tmo=-1.
LOG_ALLOWED='ctrl_loss_tmo < 0 will reconnect forever'
PAGE=/vm/files/coming-from.md
modprobe -a loop 2>/dev/null
# No udev here: LVM makes the device files itself.
export DM_DISABLE_UDEV=1
printf 'devices {\n obtain_device_list_from_udev = 0\n external_device_info_source = "none"\n}\nactivation {\n udev_sync = 0\n udev_rules = 0\n monitoring = 0\n}\n' >/etc/lvm/lvm.conf

# Every command of the page: what stands in blocks, without comments.
sed -n 's/^    *//p' "$PAGE" | sed 's/  *# .*//' | grep -E '^((basalt|modprobe|nvme|qemu-img|rbd|dd|cmp|drbdadm|blockdev|vgextend|pvmove|vgreduce) |D=)' |
  sort -u >/tmp/commands
: >/tmp/done
equal "the page has commands" "$([ "$(wc -l </tmp/commands)" -ge 15 ] && echo yes)" yes

beginning() { with=$1 awk 'index($0, ENVIRON["with"]) == 1' /tmp/commands; } # the commands that begin so
# on_page BEGINNING [SED-EXPRESSION]: runs the command of the page that begins so, with what is said there in the place of its names
on_page() {
  local line n
  line=$(beginning "$1"); n=$(grep -c . <<<"$line")
  if [ "$n" != 1 ]; then echo "FAIL the page has not one command that begins with '$1', but $n"; FAILURES=$((FAILURES + 1)); return 1; fi
  echo "$line" >>/tmp/done
  line=$(sed "${2:-}" <<<"$line")
  check "$line" quiet eval "$line"
}
not_here() { # BEGINNING WHY: a command of the page that needs what is not here
  beginning "$1" | tee -a /tmp/done | grep -q . || { echo "FAIL the page has no '$1'"; FAILURES=$((FAILURES + 1)); }
  echo "     not run, $2: $1"
}
basalt() { on_host basalt "$@"; }
new_volume() { # NAME [MIB]: as large as the disk, with 512-byte blocks; D is its device
  on_host volume_create "$1" $((${2:-16} * MIB)) 512 || die "volume create"
  D=$(device "$1") || die "no block device"
}
below() { [ "$(on_host allocated "$1")" -lt "$2" ]; } # VOLUME BYTES: is allocated

step "the volume, and the server that is to run the machine"
on_page "basalt volume create vm1" 's/100GiB/16MiB --lba 512/'
on_page "modprobe nvme-tcp"
on_page "nvme connect" "s/192.0.2.10/$ADDR/; s/4420/$PORT/"
on_page "nvme list"
D=$(device vm1) || die "no block device"
not_here "D=/dev/disk/by-id/nvme-uuid" "without udev"
equal "the id by which the page finds the device is the volume's" "$(cat "/sys/class/block/${D##*/}/uuid")" "$(on_host volume_uuid vm1)"

# A disk with a file system that is a quarter full, of random data.
cd /tmp || exit 1
truncate -s 16M disk
mkfs.ext4 -q -F disk && mount -o loop disk /mnt && dd if=/dev/urandom of=/mnt/data bs=1M count=4 2>/dev/null && umount /mnt || die "no disk to move"
SUM=$(sha256sum <disk)
moved() { # VOLUME: it holds the disk, byte by byte, and is as thin as that
  blockdev --flushbufs "$D"; equal "$1 holds the disk" "$(sha256sum <"$D")" "$SUM"
  check "and is as thin" wait_until 20 below "$1" $((12 * MIB))
}

step "from vSAN: a VMDK of a VM"
qemu-img convert -f raw -O vmdk -o subformat=streamOptimized disk vm1-disk1.vmdk || die "no VMDK"
on_page "qemu-img info vm1-disk1.vmdk"
on_page "qemu-img convert -p -n -t none -T none --target-is-zero -f vmdk"
on_page "qemu-img compare -f vmdk"
moved vm1
check_fails "a difference is found" eval 'dd if=/dev/urandom of=$D bs=512 seek=9000 count=1 oflag=direct 2>/dev/null; qemu-img compare -f vmdk -F raw vm1-disk1.vmdk $D'

step "from other files: qcow2"
new_volume vm2
qemu-img convert -c -f raw -O qcow2 disk vm1.qcow2 || die "no qcow2"
on_page "qemu-img convert -p -n -t none -T none --target-is-zero -f qcow2"
on_page "qemu-img compare -f qcow2"
moved vm2

step "from Ceph"
new_volume vm3
on_page "qemu-img convert -p -n -t none --target-is-zero -f raw" 's,rbd:pool/vm1,disk,'
on_page "qemu-img compare -f raw -F raw rbd:" 's,rbd:pool/vm1,disk,'
on_page "qemu-img compare -f raw -F raw SOURCE" 's,SOURCE,disk,'
moved vm3
new_volume vm4
OLD=$(losetup -f --show disk) || die "losetup"
not_here "rbd map" "without Ceph"
on_page "dd if=/dev/rbd0" "s,/dev/rbd0,$OLD,"
not_here "rbd unmap" "without Ceph"
moved vm4

step "from DRBD"
new_volume vm5
not_here "drbdadm status" "without DRBD"
on_page "blockdev --getsize64 /dev/drbd0" "s,/dev/drbd0,$OLD,"
on_page "dd if=/dev/drbd0" "s,/dev/drbd0,$OLD,"
drbdadm() { echo "$*" >/tmp/drbdadm; } # the page tells it that the old side is not used any more, once both are the same
on_page 'cmp -n $(blockdev --getsize64 /dev/drbd0)' "s,/dev/drbd0,$OLD,g"
equal "the old side is given up after the comparison" "$(cat /tmp/drbdadm)" "secondary vm1"
moved vm5
losetup -d "$OLD"

step "without a stop: LVM in the guest"
new_volume vm6 32
truncate -s 24M old; OLD=$(losetup -f --show old) || die "losetup"
quiet pvcreate "$OLD" && quiet vgcreate vg0 "$OLD" && quiet lvcreate -L 8m -n root vg0 && mkfs.ext4 -q /dev/vg0/root && mount -t ext4 /dev/vg0/root /mnt || die "no volume group"
dd if=/dev/urandom of=/mnt/data bs=64k count=32 2>/dev/null; SUM=$(sha256sum </mnt/data)
modprobe dm-mirror
on_page "vgextend vg0" "s,/dev/vdb,$D,"
on_page "pvmove /dev/vda3" "s,/dev/vda3,$OLD,; s,/dev/vdb,$D,"
on_page "vgreduce vg0" "s,/dev/vda3,$OLD,"
equal "the group lies on the volume alone" "$(pvs --noheadings -o pv_name -S vg_name=vg0 | tr -d ' ')" "$D"
umount /mnt; mount -t ext4 /dev/vg0/root /mnt
equal "and holds what it held" "$(sha256sum </mnt/data)" "$SUM"
umount /mnt; quiet vgchange -an vg0; losetup -d "$OLD"

equal "no command of the page was left out" "$(sort -u /tmp/done | comm -13 - /tmp/commands)" ""
finish
