#!/bin/bash
# The daemon is killed with -9, again and again, while fio writes and verifies: no error, no lost byte.
#: timeout 300
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576 KILLS=${KILLS:-3}
LOG_BAD=$LOG_BAD_KILLED
on_host volume_create raw $((256 * MIB)) 4096 || die "volume create"
on_host volume_create fs $((256 * MIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 --reconnect-delay=1 --ctrl-loss-tmo=120 --keep-alive-tmo=10 --data-digest || die "connect"
R=$(device raw) || die "no block device"; F=$(device fs) || die "no block device"
mkfs.ext4 -q -F "$F" && mount -t ext4 "$F" /mnt || die "mkfs"

step "$KILLS kills under load"
# One pass each, slow enough to last beyond the last kill, then all of it is read back: with verify_backlog and time_based this fio frees twice.
SECONDS_ALL=$((8 + 5 * KILLS))
fio --name=raw --filename="$R" --rw=randwrite "$MIXED" --iodepth=16 --ioengine=libaio --direct=1 --size=$((KILLS * 6 + 8))m \
  --rate_iops=60 --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 >/tmp/raw 2>&1 &
RAW=$!
fio --name=v --directory=/mnt --rw=randwrite --bs=4k --iodepth=1 --ioengine=psync --fsync=1 --size=$((SECONDS_ALL * 160))k \
  --rate_iops=40 --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 >/tmp/fs 2>&1 &
FS=$!
n=0; while [ $n -lt "$KILLS" ]; do
  n=$((n + 1)); sleep 2.5
  on_host daemon_kill || die "kill"
  [ $((n % 2)) = 0 ] || sleep 1
  on_host daemon_start || die "the daemon does not start again"
  wait_until 30 is_live "$NQN" || die "no reconnect after kill $n"
done
step "the end of it"
wait $RAW; rc=$?; grep -E 'READ|WRITE|err=' /tmp/raw; equal "fio on the bare device" $rc 0; [ $rc = 0 ] || tail -n 20 /tmp/raw
wait $FS; rc=$?; grep -E 'READ|WRITE|err=' /tmp/fs; equal "fio on the file system" $rc 0; [ $rc = 0 ] || tail -n 20 /tmp/fs
umount /mnt; check "fsck" eval "e2fsck -fn $F >/tmp/fsck 2>&1"

step "what was acknowledged before a kill is there after it"
verified "written and read back" --filename="$R" --rw=randwrite "$MIXED" --iodepth=16 --size=8m --randseed=11
dd if="$R" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum >/tmp/before
on_host daemon_kill; on_host daemon_start || die "the daemon does not start again"
wait_until 30 is_live "$NQN" || die "no reconnect"
equal "after kill -9" "$(dd if="$R" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)" "$(cat /tmp/before)"
check "a clean stop" on_host daemon_stop
on_host daemon_start || die "the daemon does not start again"
wait_until 30 is_live "$NQN" || die "no reconnect"
equal "after a clean stop" "$(dd if="$R" bs=1M count=8 iflag=direct 2>/dev/null | sha256sum)" "$(cat /tmp/before)"
finish
