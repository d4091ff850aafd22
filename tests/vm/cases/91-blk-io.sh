#!/bin/bash
# What blktests' nvme group tries of I/O (010, 012, 014, 018, 019, 029, 040, 047, 053, 061).
#: timeout 400
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
on_host volume_create v $((320 * MIB)) 4096 >/dev/null || die "volume create"
connect "$NQN" --nr-io-queues=2 >/dev/null || die "connect"
D=$(device v) || die "no block device"
gone() { nvme disconnect -n "$NQN" >/dev/null; }

step "data"
verified "010: random writes in blocks of the disk" --filename="$D" --rw=randwrite --bs=4k --iodepth=16 --size=2m
check "012: mkfs.xfs" eval "mkfs.xfs -q -f $D && mount -t xfs $D /mnt"
verified "012: in a file system" --directory=/mnt --rw=randwrite --bs=4k --iodepth=16 --size=2m
umount /mnt; check "012: xfs_repair" quiet xfs_repair -n "$D"
dd if=/dev/urandom of="$D" bs=1M count=4 status=none
check "014: flush" nvme flush "$D"
BLOCKS=$(($(blockdev --getsize64 "$D") / 4096))
head -c 8192 /dev/urandom >/tmp/data
check "018: the last block is read" eval "nvme read $D --start-block=$((BLOCKS - 1)) --block-count=0 --data-size=4096 >/dev/null"
for past in "read $D --start-block=$BLOCKS --block-count=0 --data-size=4096" "read $D --start-block=$((BLOCKS - 1)) --block-count=1 --data-size=8192" \
  "write $D --start-block=$BLOCKS --block-count=0 --data-size=4096 --data=/tmp/data" "write $D --start-block=0xffffffffffffffff --block-count=1 --data-size=8192 --data=/tmp/data"; do
  check "018: LBA Out of Range: ${past%% *} past the end" eval "nvme $past 2>&1 >/dev/null | grep -qiE 'out of range|0x?4?080'"
done

step "discards by command, and reads and writes of a program"
tr '\0' 'x' </dev/zero | dd of="$D" bs=1M count=8 iflag=fullblock oflag=direct status=none
check "019: ten ranges" quiet nvme dsm "$D" --ad --slbs=100,200,300,400,500,600,700,800,900,1000 --blocks=10,10,10,10,10,10,10,10,10,10
is_zero() { dd if="$D" bs=4096 skip="$1" count=1 iflag=direct status=none | cmp -s -n 4096 - /dev/zero; }
for at in 100 109 1000 1009; do check "019: block $at is zeroes" is_zero $at; done
for at in 99 110 999 1010; do check "019: block $at is not" eval "! is_zero $at"; done
# of the transfers that go over 1 MiB (MDTS) the kernel is the one to say no
for at in "1 255" "1 256" "511 254" "511 64"; do
  read -r start count <<<"$at"; size=$((count * 4096)); dd if=/dev/urandom of=/tmp/in bs=$size count=1 iflag=fullblock status=none
  rm -f /tmp/back; check "029: $count blocks from $start" eval "nvme write $D --start-block=$start --block-count=$((count - 1)) --data-size=$size --data=/tmp/in >/dev/null 2>&1 &&
    nvme read $D --start-block=$start --block-count=$((count - 1)) --data-size=$size --data=/tmp/back >/dev/null 2>&1 && cmp /tmp/in /tmp/back"
done

step "queues for writes and for polling"
gone; connect "$NQN" --nr-io-queues=1 --nr-write-queues=1 >/dev/null || die "connect"
equal "047: a queue for writes" "$(cat "/sys/class/nvme/$(controller "$NQN")/queue_count")" 3
D=$(device v); verified "047: I/O" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=1m
gone; connect "$NQN" --nr-io-queues=1 --nr-write-queues=1 --nr-poll-queues=1 >/dev/null || die "connect"
equal "047: and one for polling" "$(cat "/sys/class/nvme/$(controller "$NQN")/queue_count")" 4
D=$(device v); verified "047: polled I/O" --filename="$D" --rw=randwrite --bs=4k --ioengine=pvsync2 --hipri --size=512k
gone

step "rescans and resets under load"
connect "$NQN" --nr-io-queues=2 --reconnect-delay=1 >/dev/null || die "connect"
D=$(device v) C=$(controller "$NQN")
verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,2m & FIO=$!
for i in 1 2 3 4 5 6 7 8; do echo 1 >"/sys/class/nvme/$C/rescan_controller"; sleep 0.4; done
rc=0; wait $FIO || rc=$?; fio_went "053: I/O while the controller is scanned again and again" $rc
verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,2m & FIO=$!
sleep 1.5; check "040: reset under load" nvme reset "/dev/$C"
rc=0; wait $FIO || rc=$?; fio_went "040: I/O goes on after it" $rc

step "the target goes away and comes back under load"
LOG_BAD=$LOG_BAD_KILLED
verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=14m --rate=,2m & FIO=$!
for i in 1 2 3; do
  sleep 0.7; on_host daemon_stop || die "daemon stop"
  check "061: the host notices, $i" wait_until 10 grep -q connecting "/sys/class/nvme/$C/state"
  on_host daemon_start || die "daemon start"
  check "061: and reconnects, $i" wait_until 20 is_live "$NQN"
done
rc=0; wait $FIO || rc=$?; fio_went "061: no I/O fails" $rc

step "the controller is deleted under load"
fio --name=r --filename="$D" --ioengine=libaio --direct=1 --rw=randread --bs=4k --iodepth=8 --time_based --runtime=60 >/tmp/read 2>&1 & FIO=$!
sleep 1.5; echo 1 >"/sys/class/nvme/$C/delete_controller"
wait $FIO; check "040: the program gets an error, and ends" [ $? != 0 ]
check "040: nothing is left" wait_until 10 eval "! test -e /sys/class/nvme/$C"
LOG_ALLOWED='I/O error|Buffer I/O|Removing controller'
finish
