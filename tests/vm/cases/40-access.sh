#!/bin/bash
# Two subsystems, a host allow-list, and a volume with logical blocks of 512 bytes.
. "$VM_LIB"
MIB=1048576
SELF=$(cat /etc/nvme/hostnqn) OTHER=nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555
OPEN=$NQN
# what a refused connection says is not a defect
LOG_ALLOWED='[Cc]onnect|failed to connect|Connect Invalid|rejected'
on_host volume_create small $((384 * MIB)) 512 "$OPEN" || die "volume create"
CLOSED=$(on_host subsystem_create closed "$SELF") || die "subsystem create: $CLOSED"
on_host volume_create private $((128 * MIB)) 4096 "$CLOSED" || die "volume create"

step "allow-list"
check_fails "another host is refused" connect "$CLOSED" --hostnqn="$OTHER" --hostid=99999999-2222-3333-4444-555555555555
# 0x184 is Connect Invalid Host; the kernel prints it in decimal with the do-not-retry bit, or by name
check "because of its name" eval "dmesg | tail -n 8 | grep -iE 'nvme.*(connect|invalid host|not allowed)'"
check "this host is let in" connect "$CLOSED" --nr-io-queues=1
check "any host is let into the open one" connect "$OPEN" --nr-io-queues=1
P=$(device private) || die "no private volume"
S=$(device small) || die "no small volume"
equal "two subsystems" "$(ls -d /sys/class/nvme-subsystem/nvme-subsys* | wc -l)" 2
nvme discover -t tcp -a "$ADDR" -s "$DISCOVERY_PORT" --hostnqn="$OTHER" --hostid=99999999-2222-3333-4444-555555555555 >/tmp/log
check "another host's discovery log has the open one" grep -q "subnqn: *$OPEN\$" /tmp/log
check_fails "but not the closed one" grep -q "subnqn: *$CLOSED\$" /tmp/log

step "the volumes do not mix"
verified "private" --filename="$P" --rw=randwrite --bs=16k --iodepth=8 --size=4m
equal "logical block" "$(cat "/sys/block/${S#/dev/}/queue/logical_block_size")" 512
verified "512-byte blocks, at random" --filename="$S" --rw=randwrite --bs=512 --iodepth=16 --size=512k
verified "sizes that cut 4 KiB blocks" --filename="$S" --rw=randwrite --bssplit=512/30:1536/20:4096/20:6656/20:66048/10 --bs_unaligned --blockalign=512 --iodepth=16 --offset=1m --size=6m
verified "neighbours at once" --filename="$S" --rw=write --bs=512 --iodepth=32 --offset=8m --size=256k
cmp -s -n 65536 "$P" "$S" && { echo "FAIL the two volumes are the same"; FAILURES=$((FAILURES + 1)); }
mkfs.xfs -q -f "$S" && mount -t xfs "$S" /mnt || die "mkfs.xfs with 512-byte blocks"
verified "a file system on it" --directory=/mnt --rw=randwrite --bssplit=1k/50:4k/50 --iodepth=8 --size=2m
umount /mnt; check "checks clean" eval "xfs_repair -n $S >/dev/null 2>&1"
finish
