#!/bin/bash
# Device-mapper multipath with its daemon and udev, native multipath off: a path is cut, I/O goes on; a kill of the daemon is queued over.
#: nics 2
#: layers multipath
#: timeout 300
#: kernels 6.12
modprobe nvme-core multipath=N # each path is a block device of its own
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
# a path's own failures are the point; the disk above must never see one
LOG_BAD='I/O error, dev dm-|Buffer I/O error on dev dm-|critical .* error, dev dm-|nvme.*(Removing controller|corrupt|bogus|identifiers changed|digest error)'
/lib/systemd/systemd-udevd --daemon; udevadm trigger; udevadm settle
modprobe -a dm-multipath dm-service-time
printf 'defaults {\n find_multipaths no\n user_friendly_names no\n polling_interval 1\n no_path_retry queue\n path_grouping_policy failover\n}\n' >/etc/multipath.conf
mkdir -p /etc/multipath
on_host volume_create m $((128 * MIB)) 4096 || die "volume create"
path() { nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo=4 --reconnect-delay=1 --ctrl-loss-tmo=120 -a "$@"; }
check "connect by the first" path "$ADDR" -s "$PORT"
check "connect by the second" path "$ADDR2" -s "$PORT2"
check "each is a block device" wait_until 10 eval "test -b /dev/nvme0n1 && test -b /dev/nvme1n1"
equal "of the same identity" "$(cat /sys/block/nvme[01]n1/wwid | sort -u)" "$(cat /sys/block/nvme0n1/wwid)"
multipathd -d -s >/tmp/multipathd 2>&1 & DAEMON=$!
M=/dev/mapper/$(cat /sys/block/nvme0n1/wwid)
check "multipathd joins them" wait_until 30 test -b "$M"
active() { [ "$(multipathd show paths format '%t %o' 2>/dev/null | grep -c 'active running\|active live')" = "$1" ]; }
if ! wait_until 20 active 2; then multipathd show paths; multipath -ll; tail /tmp/multipathd; die "not two active paths"; fi

step "a path is cut"
verify --filename="$M" --rw=randwrite "$MIXED" --iodepth=8 --size=12m --rate=,2m & FIO=$!
sleep 2; check "cut" on_host link 0 off
check "multipathd notices" wait_until 40 active 1
rc=0; wait $FIO || rc=$?; fio_went "I/O goes on by the other path" $rc
check "connected again" on_host link 0 on
check "the path comes back" wait_until 60 active 2

step "the daemon is killed: no path is left for a while"
survived "I/O over a kill" --filename="$M" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,2m --randseed=9
check "both paths come back" wait_until 60 active 2
check "nothing holds it" wait_until 20 quiet multipath -f "$(basename "$M")"
kill $DAEMON
finish
