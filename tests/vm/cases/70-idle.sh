#!/bin/bash
# Ten hosts are connected and idle: the daemon uses less than 1 % of a core.
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target is part of the kernel"; exit 0; }
on_host volume_create idle $((64 << 20)) 4096 || die "volume create"
for n in 0 1 2 3 4 5 6 7 8 9; do
  id=22222222-2222-3333-4444-55555555555$n
  # As nvme-cli does it, which itself takes a second host of one machine for the first.
  printf 'transport=tcp,traddr=%s,trsvcid=%s,nqn=%s,nr_io_queues=1,hostnqn=nqn.2014-08.org.nvmexpress:uuid:%s,hostid=%s' \
    "$ADDR" "$PORT" "$NQN" $id $id >/dev/nvme-fabrics || die "connect $n"
done
equal "connected" "$(ls -d /sys/class/nvme/nvme* | wc -l)" 10
D=$(device idle) || die "no block device"
verified "it works" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=1m
sleep 5 # what was written goes to capacity
on_host daemon_cpu >/tmp/cpu0; read -r cpu0 wall0 </tmp/cpu0
sleep 15
on_host daemon_cpu >/tmp/cpu1; read -r cpu1 wall1 </tmp/cpu1
echo "in $((wall1 - wall0)) ms the daemon used $((cpu1 - cpu0)) ms of processor time"
check "less than 1 % of a core" [ $(((cpu1 - cpu0) * 100)) -lt $((wall1 - wall0)) ]
finish
