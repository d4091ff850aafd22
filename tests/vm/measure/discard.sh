#!/bin/bash
# What discards of space that was never written cost: mkfs.xfs on 16 TiB with and without them, mkfs.ext4 and fstrim on 1 TiB.
#: timeout 3600
#: capacity 16GiB
. "$VM_LIB"
TIB=1099511627776
LARGE=${LARGE:-16} # TiB
on_host volume_create large $((LARGE * TIB)) 4096 >/dev/null || die "volume create"
on_host volume_create small $TIB 4096 >/dev/null || die "volume create"
connect "$NQN" --nr-io-queues=2 >/dev/null || die "connect"
L=$(device large) && S=$(device small) || die "no block device"

# measured NAME COMMAND...: the guest's seconds, the daemon's processor time and what it wrote to the cache device (its log)
measured() {
  local name=$1 before after up rc=0; shift
  sync; sleep 3; on_host daemon_work >/tmp/before; up=$(cut -d' ' -f1 /proc/uptime)
  "$@" >/tmp/measured 2>&1 || rc=$?
  up=$(awk -v a="$up" '{ print $1 - a }' /proc/uptime); on_host daemon_work >/tmp/after
  awk -v n="$name" -v s="$up" 'NR == FNR { c = $1; b = $2; next } { printf "measured %s: %.1f s, %.2f s of processor time, %.1f MB of log\n", n, s, ($1 - c) / 1000, ($2 - b) / 1e6 }' /tmp/before /tmp/after
  [ $rc = 0 ] || { cat /tmp/measured; echo "FAIL $name"; FAILURES=$((FAILURES + 1)); }
}
# What as many commands cost that do nothing: mkfs.xfs discards 2 GiB at a time, ext4 a block group of 128 MiB.
measured "$((LARGE * 512)) reads of 4 KiB, one after the other" dd if="$L" of=/dev/null bs=4096 count=$((LARGE * 512)) iflag=direct
measured "mkfs.xfs -K, $LARGE TiB" mkfs.xfs -q -f -K "$L"
measured "mkfs.xfs, $LARGE TiB" mkfs.xfs -q -f "$L"
measured "mkfs.ext4, 1 TiB" mkfs.ext4 -q -F "$S"
mount -t ext4 "$S" /mnt || die "mount"
measured "fstrim of ext4, 1 TiB" fstrim /mnt
measured "fstrim again" fstrim /mnt
umount /mnt; mount -t ext4 "$S" /mnt
measured "fstrim after a mount" fstrim /mnt
umount /mnt
finish
