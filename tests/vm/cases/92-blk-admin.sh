#!/bin/bash
# What blktests' nvme group tries of commands by programs (023, 025 to 027, 046, 049, 054, 067).
#: timeout 300
#: kernels 6.12
#: program uring-admin
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target of this kernel has no reservations"; exit 0; }
MIB=1048576
on_host volume_create v $((64 * MIB)) 4096 >/dev/null || die "volume create"
connect "$NQN" --nr-io-queues=2 >/dev/null || die "connect"
D=$(device v) || die "no block device"
C=/dev/$(controller "$NQN") G=/dev/ng${D#/dev/nvme}
UUID=$(on_host volume_uuid v)

step "logs and lists"
check "023: smart-log by the disk" eval "nvme smart-log $D >/tmp/out && grep -qE '^critical_warning[[:space:]]*: 0' /tmp/out"
check "025: effects-log" quiet nvme effects-log "$C"
check "026: ns-descs" eval "nvme ns-descs $D | grep -qi '$UUID'"
check "027: ns-rescan" nvme ns-rescan "$C"
check "027: changes nothing" test -b "$D"

step "a user without rights reads where the device's mode lets him"
printf 'user:x:1000:1000:user:/tmp:/bin/sh\n' >>/etc/passwd; printf 'user:x:1000:\n' >>/etc/group
chmod o+r "$G"
as_user() { su user -c "$1"; }
check "046: reads" eval "as_user 'nvme io-passthru $G --opcode=2 --data-len=4096 --namespace-id=1 --read >/dev/null 2>&1'"
check_fails "046: does not write" as_user "head -c 4096 /dev/zero | nvme io-passthru $G --opcode=1 --data-len=4096 --namespace-id=1 --write"
check "046: id-ns" eval "as_user 'nvme id-ns $G >/dev/null'"
check "046: id-ctrl" eval "as_user 'nvme id-ctrl $G >/dev/null'"
chmod o-r "$G"
check_fails "046: nothing where it does not" as_user "nvme id-ns $G"

step "io_uring"
dd if=/dev/urandom of="$D" bs=1M count=1 oflag=direct status=none
uring() { local name=$1; shift; check "$name" quiet fio --name=u --filename="$G" --ioengine=io_uring_cmd --cmd_type=nvme --bs=4k --iodepth=16 --size=1m "$@"; }
uring "049: reads" --rw=randread --time_based --runtime=2
uring "049: with fixed buffers" --rw=randread --time_based --runtime=2 --fixedbufs
uring "049: writes and verifies" --rw=randwrite --verify=crc32c --do_verify=1 --verify_state_save=0
check "067: Identify through io_uring, many at once" /vm/files/uring-admin "$C"

step "reservations of one host"
value() { nvme resv-report "$D" --eds -o json | tr -d ' \n' | grep -oE "\"$1\":\"?[0-9a-fx-]+" | head -n 1 | sed 's/.*://; s/"//'; }
# holds NAME TYPE REGISTRANTS KEY: what the report says
holds() { equal "$1: type" "$(value rtype)" "$2"; equal "$1: registrants" "$(value regctl)" "$3"; [ -z "$4" ] || equal "$1: key" "$(($(value rkey)))" "$4"; }
resv() { local verb=$1; shift; check "054: $verb $*" quiet nvme "resv-$verb" "$D" "$@"; }
holds "054: nothing at first" 0 0 ''
FIRST=$(value gen)
resv register --nrkey=4 --rrega=0; holds "054: registered" 0 1 4
resv register --crkey=4 --nrkey=5 --rrega=2; holds "054: replaced" 0 1 5
resv register --crkey=5 --rrega=1; holds "054: unregistered" 0 0 ''
resv register --nrkey=4 --rrega=0
resv acquire --crkey=4 --rtype=1 --racqa=0; holds "054: acquired" 1 1 4
resv acquire --crkey=4 --prkey=4 --rtype=2 --racqa=1; holds "054: preempted itself" 2 1 4
resv release --crkey=4 --rtype=2 --rrela=0; holds "054: released" 0 1 4
resv acquire --crkey=4 --rtype=1 --racqa=0
resv release --crkey=4 --rrela=1; holds "054: cleared" 0 0 ''
check "054: generations went up ($FIRST, then $(value gen))" [ "$(value gen)" -gt "$FIRST" ]
check_fails "054: a wrong key registers nothing" nvme resv-register "$D" --crkey=7 --nrkey=8 --rrega=2
finish
