#!/bin/bash
# LUKS2 on a volume, with and without discards: verified I/O over a kill of the daemon, nothing readable beneath.
#: layers storage
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
LOG_BAD="$LOG_BAD_KILLED|device-mapper: .*(error|fail)"
export DM_DISABLE_UDEV=1
on_host volume_create secret $((400 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 --reconnect-delay=1 || die "connect"
D=$(device secret) || die "no block device"
allocated_below() { [ "$(on_host allocated secret)" -lt "$1" ]; }
printf 'a passphrase of a test' >/tmp/key
opened() { cryptsetup open --key-file /tmp/key "$@" "$D" c; } # opened OPTION...
check "luksFormat" quiet cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /tmp/key "$D"

step "without discards"
check "open" opened
C=/dev/mapper/c
equal "in blocks of the volume's size" "$(blockdev --getss $C)" 4096
survived "I/O over a kill" --filename=$C --rw=randwrite "$MIXED" --iodepth=8 --size=6m --rate=,2m
tr '\0' 'x' </dev/zero | dd of=$C bs=1M count=12 iflag=fullblock oflag=direct 2>/dev/null
check "what is beneath is not what was written" eval "! dd if=$D bs=1M skip=16 count=1 iflag=direct 2>/dev/null | grep -q xxxxxxxxxxxxxxxx"
check_fails "a discard is refused" blkdiscard $C
SUM=$(dd if=$C bs=1M count=12 iflag=direct 2>/dev/null | sha256sum)
check "close" cryptsetup close c

step "with discards"
printf 'not the passphrase' >/tmp/wrong
check_fails "a wrong passphrase opens nothing" cryptsetup open --key-file /tmp/wrong "$D" c
check "open" opened --allow-discards
equal "what was written is there" "$(dd if=$C bs=1M count=12 iflag=direct 2>/dev/null | sha256sum)" "$SUM"
FULL=$(on_host allocated secret)
check "discard" blkdiscard -o 0 -l $((12 * MIB)) $C
check "gives the volume's space back ($FULL bytes before)" wait_until 20 allocated_below $((FULL - 10 * MIB))
check "mkfs.xfs" eval "mkfs.xfs -q -f $C && mount -t xfs $C /mnt"
survived "a file system over a kill" --directory=/mnt --rw=randwrite "$MIXED" --iodepth=8 --size=6m --rate=,2m --fsync=16
check "fstrim" fstrim /mnt
umount /mnt; check "xfs_repair" quiet xfs_repair -n $C
check "close" cryptsetup close c
check "the header is in order" eval "cryptsetup luksDump $D | grep -q 'aes-xts-plain64'"
finish
