#!/bin/bash
# Two hosts reserve a volume from each other, by one subsystem and by two: registrations, conflicts, preempt, reports, what a kill leaves.
modprobe nvme-core multipath=N # each host's connection is a block device of its own
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target of these kernels has no reservations"; exit 0; }
# a conflict is what is asked for here: the kernel reports it as "critical nexus" (6.1) or "reservation conflict" error
# (a fenced host's kernel also fails to look for partitions, and says so of a host that is not let in)
LOG_ALLOWED='Buffer I/O error|unable to read (RDB block|partition table)|Successfully reconnected|failed to connect queue: 0 ret=16772|nexus error|[Rr]eservation [Cc]onflict|Reconnecting|starting error recovery|queue_size'
A_ID=33333333-2222-3333-4444-555555555551 B_ID=33333333-2222-3333-4444-555555555552
UUID_NQN=nqn.2014-08.org.nvmexpress:uuid
MIB=1048576

# host ID NQN: connects as this host, prints the controller's name
host() {
  local line
  exec 4<>/dev/nvme-fabrics
  printf 'transport=tcp,traddr=%s,trsvcid=%s,nqn=%s,nr_io_queues=1,hostnqn=%s:%s,hostid=%s' "$ADDR" "$PORT" "$2" $UUID_NQN "$1" "$1" >&4 || { exec 4>&-; return 1; }
  read -r line <&4; exec 4>&-
  echo "nvme${line#*instance=}" | cut -d, -f1
}
# disk CONTROLLER: its first namespace
disk() { wait_until 15 eval "ls -d /sys/class/nvme/$1/$1n* >/dev/null 2>&1" || return 1; echo "/dev/$(basename "$(ls -d /sys/class/nvme/"$1/$1"n* | head -n 1)")"; }
leave() { echo 1 >"/sys/class/nvme/$1/delete_controller"; }
put() { dd if=/dev/urandom of="$1" bs=4096 count=1 oflag=direct conv=notrunc status=none; }
get() { dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct status=none; }
conflict_of_nvme() { nvme "$@" 2>&1 | grep -qiE 'reservation conflict|0x?4?083'; }
head -c 4096 /dev/urandom >/tmp/block
# conflict NAME get|put DISK: it fails, and with Reservation Conflict (the kernel does not print every error)
conflict() {
  local command=read; [ "$2" = get ] || command=write
  check_fails "$1" "$2" "$3"
  check "$1: because of the reservation" conflict_of_nvme $command "$3" --start-block=0 --block-count=0 --data-size=4096 --data=/tmp/block
}
# report DISK FILTER: a value of the report
report() { nvme resv-report "$1" --eds -o json | tr -d ' \n' | grep -oE "\"$2\":\"?[0-9a-fx-]+" | head -n 1 | sed 's/.*://; s/"//'; }

on_host volume_create shared $((64 * MIB)) 4096 || die "volume create"
A=$(host $A_ID "$NQN") || die "connect host A"
B=$(host $B_ID "$NQN") || die "connect host B"
DA=$(disk "$A") || die "no disk of A"
DB=$(disk "$B") || die "no disk of B"
echo "A is $DA, B is $DB"
check "both write" eval "put $DA && put $DB"

step "Write Exclusive"
check "who is not registered acquires nothing" conflict_of_nvme resv-acquire "$DA" --crkey=0xa --rtype=1 --racqa=0
check "A registers" quiet nvme resv-register "$DA" --nrkey=0xa --rrega=0 --cptpl=3
check "B registers" quiet nvme resv-register "$DB" --nrkey=0xb --rrega=0
check "A acquires" quiet nvme resv-acquire "$DA" --crkey=0xa --rtype=1 --racqa=0
check "A writes" put "$DA"
conflict "B does not write" put "$DB"
check "B reads" get "$DB"
equal "type in B's report" "$(report "$DB" rtype)" 1
equal "registrants" "$(report "$DB" regctl)" 2
equal "persists" "$(report "$DB" ptpls)" 1
check "B does not acquire" conflict_of_nvme resv-acquire "$DB" --crkey=0xb --rtype=1 --racqa=0
check "what the administrator sees" eval "on_host basalt volume show shared | grep -q 'Write Exclusive'"

step "preempt and abort while A writes"
fio --name=w --filename="$DA" --ioengine=libaio --direct=1 --rw=randwrite --bssplit=4k/50:128k/50 --iodepth=16 --time_based --runtime=30 --offset=1m --size=8m >/tmp/fio.a 2>&1 & W=$!
sleep 2; dmesg -C
check "B preempts" quiet nvme resv-acquire "$DB" --crkey=0xb --prkey=0xa --rtype=2 --racqa=2
wait $W && { echo "FAIL A's writes went on"; FAILURES=$((FAILURES + 1)); }
check "A's writes ended by the reservation" eval "dmesg | grep -qE 'nexus error|[Rr]eservation [Cc]onflict|sct 0x0 / sc 0x1b'"
# What A had sent and the daemon had not begun (data on the way) is aborted with status 0x1b, and of that the kernel says "I/O error".
ALLOWED_ELSEWHERE=$LOG_ALLOWED
if dmesg | grep -q 'sct 0x0 / sc 0x1b'; then LOG_ALLOWED="$LOG_ALLOWED|I/O error, dev ${DA#/dev/}, sector [0-9]+ op 0x1:\(WRITE\)"; fi
kernel_log_clean "nothing but A's writes failed"
LOG_ALLOWED=$ALLOWED_ELSEWHERE; dmesg -C
conflict "A does not read" get "$DA"
check "B writes" put "$DB"

step "the same volume by a second subsystem"
SECOND=$(on_host subsystem_create second $UUID_NQN:$A_ID) || die "subsystem create: $SECOND"
on_host basalt subsystem attach second shared || die "attach"
check_fails "B is not let into it" host $B_ID "$SECOND"
# one kernel takes a volume by one subsystem only ("duplicate IDs"), so both leave the first meanwhile
leave "$A"; leave "$B"
A2=$(host $A_ID "$SECOND") || die "connect A to the second"
DA2=$(disk "$A2") || die "no disk of A there"
conflict "A is fenced there too" get "$DA2"
equal "one reservation" "$(report "$DA2" rtype)" 2
leave "$A2"
A=$(host $A_ID "$NQN") && B=$(host $B_ID "$NQN") || die "connect again"
DA=$(disk "$A") && DB=$(disk "$B") || die "no disk"
check "B holds it still" put "$DB"

step "a volume that one host sees"
on_host volume_create private $((64 * MIB)) 4096 || die "volume create"
on_host basalt subsystem detach default private --yes >/dev/null || die "detach"
on_host basalt subsystem attach default private --host $UUID_NQN:$B_ID --nsid 9 >/dev/null || die "attach"
check "B sees it" wait_until 15 eval "grep -qx 9 /sys/class/nvme/$B/nvme*n*/nsid"
check_fails "A does not" eval "grep -qx 9 /sys/class/nvme/$A/nvme*n*/nsid"

step "the daemon is killed"
on_host daemon_kill && on_host daemon_start || die "kill"
wait_until 40 eval "[ \"\$(cat /sys/class/nvme/$A/state)\" = live ] && [ \"\$(cat /sys/class/nvme/$B/state)\" = live ]" || die "no reconnect"
conflict "A is still fenced" get "$DA"
check "B still writes" put "$DB"
check "the administrator clears it" on_host basalt volume clear-reservation shared --yes
check "A writes again" put "$DA"
equal "registrants" "$(report "$DA" regctl)" 0
finish
