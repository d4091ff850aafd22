#!/bin/bash
# open-iscsi: discovery, file systems with verified data, trim, growth, reservations, copies, a kill of the daemon, digests, CHAP right and wrong.
#: timeout 600
#: layers iscsi
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target does not speak iSCSI"; exit 0; }
MIB=1048576 SELF=iqn.2026-11.example:guest T=iqn.2026-11.io.basalt:default P=$ADDR:${ISCSI_PORT_OF[1]}
# What hosts say of a session that ends is no defect, and it says nothing of NVMe.
LOG_BAD='I/O error|critical .* error|EXT4-fs (error|warning)|XFS.*(error|corrupt|Corruption|shutdown)'
modprobe -a iscsi_tcp sd_mod sg || die "no iSCSI in this kernel"
mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi
echo "InitiatorName=$SELF" >/etc/iscsi/initiatorname.iscsi
sed -i 's/^node.startup.*/node.startup = manual/; s/^iscsid.startup.*//' /etc/iscsi/iscsid.conf
setsid iscsid -f >/tmp/iscsid.log 2>&1 &

sessions() { iscsiadm -m session 2>/dev/null | grep -c .; }
set_node() { iscsiadm -m node -T $T -p "$P" -o update -n "$1" -v "$2"; } # KEY VALUE
login() { iscsiadm -m node -T $T -p "$P" --login; }
logout() { iscsiadm -m node -T $T -p "$P" --logout >/dev/null; }
disk() { local d; d=$(echo /sys/class/iscsi_session/session*/device/target*/*:*:*:"$1"/block/*); [ -e "$d" ] && echo "/dev/${d##*/}"; } # LUN
is_there() { disk "$1" >/dev/null && [ -b "$(disk "$1")" ]; }

on_host volume_create v $((256 * MIB)) 512 || die "volume create"
on_host volume_create w $((64 * MIB)) 512 || die "volume create"
check "it is served over iSCSI" on_host basalt subsystem set default --iscsi
step "discovery and login"
check "discovery" wait_until 20 eval "iscsiadm -m discovery -t sendtargets -p $P | grep -q ',1 $T'"
check "login" login
check "both LUNs are there" wait_until 20 eval 'is_there 1 && is_there 2'
D=$(disk 1) W=$(disk 2)
# as udev would; sg_xcopy wants them
mkdir -p /dev/block; for d in "$D" "$W"; do ln -s "$d" "/dev/block/$(cat "/sys/class/block/${d##*/}/dev")"; done
check "it says who it is" eval "sg_inq $D | grep -q BASALT"
check "one optimized path" eval "sg_rtpg --decode $D | grep -q 'active/optimized'"
check "log pages" eval "sg_logs --page=0xc $D | grep -qi 'used'"
check "XCOPY between the two" eval "sg_dd if=/dev/urandom of=$D bs=512 count=64 && sg_xcopy if=$D of=$W bs=512 count=64 && cmp -n 32768 $D $W"
check "UNMAP" eval "sg_unmap --lba=0 --num=64 --force $W || sg_unmap --lba=0 --num=64 $W"
check "reads as zeroes" cmp -n 32768 "$W" /dev/zero

step "reservations"
check "register" sg_persist --out --register --param-sark=0xa1 "$D"
check "reserve" sg_persist --out --reserve --param-rk=0xa1 --prout-type=5 "$D"
check "read full status names this host" eval "sg_persist --in --read-full-status $D | grep -q $SELF"
check "release" sg_persist --out --release --param-rk=0xa1 --prout-type=5 "$D"
check "clear" sg_persist --out --clear --param-rk=0xa1 "$D"

step "a file system"
check "mkfs" quiet mkfs.ext4 -q -F "$D"
mount -t ext4 "$D" /mnt || die "mount"
verified "ext4" --directory=/mnt --size=16m --rw=randwrite "$MIXED" --iodepth=8
check "fstrim" fstrim /mnt
umount /mnt
check "it is clean" quiet e2fsck -fn "$D"
check "it grows" on_host volume_grow v $((320 * MIB))
iscsiadm -m session --rescan >/dev/null
check "the host sees it" wait_until 20 has_size "$D" $((320 * MIB))

step "a kill"
survived "verified writes over a kill" --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=24m --rate=,4m
equal "one session" "$(sessions)" 1
logout

step "digests"
set_node 'node.conn[0].iscsi.HeaderDigest' CRC32C; set_node 'node.conn[0].iscsi.DataDigest' CRC32C
check "login" login
check "both are in force" eval "[ \$(iscsiadm -m session -P 2 | grep -c 'Digest: CRC32C') = 2 ]"
wait_until 20 is_there 1; D=$(disk 1)
verified "with digests" --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m
logout

step "CHAP"
on_host basalt host add me $SELF >/dev/null || die "host add"
echo secret-of-host-1 >"$VM_CTL/chap.host"; echo secret-of-target >"$VM_CTL/chap.target"
on_host new_chap_secrets me >/dev/null || die "secrets"
check_fails "without a secret it is refused" login
set_node node.session.auth.authmethod CHAP; set_node node.session.auth.username $SELF
set_node node.session.auth.password another-secret-1
check_fails "with another one it is refused" login
set_node node.session.auth.password secret-of-host-1
check "with its own it gets in" login
logout
set_node node.session.auth.username_in basalt; set_node node.session.auth.password_in another-secret-1
check_fails "a target with another secret is refused by the host" login
set_node node.session.auth.password_in secret-of-target
check "mutual" login
wait_until 20 is_there 1; D=$(disk 1)
verified "after it" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=2m
logout
equal "no session is left" "$(sessions)" 0

finish
