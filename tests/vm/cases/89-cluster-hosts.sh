#!/bin/bash
# Two hosts at three nodes: reservations, Compare and Write and write protection, by different paths at once, hold through every node.
#: nics 3
#: nodes 3
#: alone yes
#: smp 2
#: timeout 600
#: program compare-and-write
modprobe nvme-core multipath=N # each path is a block device of its own
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
# What fails here was asked for: a conflict is "critical nexus" (6.1) or "reservation conflict" error; to what was aborted, and to a write of
# what is protected, the kernel says "I/O error" or "critical medium error", which is looked at where it happens.
LOG_ALLOWED='Buffer I/O error|nexus error|[Rr]eservation [Cc]onflict|queue_size'
A_ID=33333333-2222-3333-4444-555555555551 B_ID=33333333-2222-3333-4444-555555555552
MIB=1048576
declare -A A B A_DISK B_DISK # of host A and B, by node: its controller there; VOLUME,NODE -> its block device

# host ID NODE: connects as this host, prints the controller's name
host() {
  local line
  exec 4<>/dev/nvme-fabrics
  printf 'transport=tcp,traddr=%s,trsvcid=%s,nqn=%s,nr_io_queues=1,keep_alive_tmo=30,hostnqn=nqn.2014-08.org.nvmexpress:uuid:%s,hostid=%s' \
    "${ADDR_OF[$2]}" "${PORT_OF[$2]}" "$NQN" "$1" "$1" >&4 || { exec 4>&-; return 1; }
  read -r line <&4; exec 4>&-
  echo "nvme${line#*instance=}" | cut -d, -f1
}
# disk CONTROLLER NSID: its block device
disk() {
  local d
  for d in /sys/class/nvme/"$1/$1"n*; do
    [ "$(cat "$d/nsid" 2>/dev/null)" = "$2" ] && [ -b "/dev/${d##*/}" ] && { echo "/dev/${d##*/}"; return 0; }
  done
  return 1
}
# reservation COMMAND DISK OPTION...: nvme-cli, which says nothing when it goes well
reservation() { local command=$1; shift; quiet nvme "resv-$command" "$@"; }
# said PATTERN COMMAND...: it fails, and says so
said() { local pattern=$1; shift; ! "$@" >/tmp/said 2>&1 && { grep -qiE "$pattern" /tmp/said || { tail -n 3 /tmp/said; false; }; }; }
CONFLICT='reservation conflict|0x?4?083' PROTECTED='write protected|0x?[42]?020'
head -c 4096 /dev/urandom >/tmp/block
# tried DISK read|write: R or W when it is done, - when a reservation forbids it, p when it is write protected
tried() {
  if nvme "$2" "$1" --start-block=0 --block-count=0 --data-size=4096 --data="/tmp/block${2#write}" >/tmp/tried 2>&1; then
    if [ "$2" = read ]; then echo R; else echo W; fi
  elif grep -qiE "$CONFLICT" /tmp/tried; then echo -
  elif grep -qiE "$PROTECTED" /tmp/tried; then echo p
  else echo "($(tail -n 1 /tmp/tried))"; fi
}
# may HOST VOLUME NODE...: what the host may do by each node, as "R-" for one that reads and does not write
may() {
  local -n disks=${1}_DISK; local volume=$2 n all=; shift 2
  for n; do all="$all $(tried "${disks[$volume,$n]}" read)$(tried "${disks[$volume,$n]}" write)"; done
  echo "${all# }"
}
# may_write HOST VOLUME NODE...: the same of writes alone
may_write() {
  local -n disks=${1}_DISK; local volume=$2 n all=; shift 2
  for n; do all="$all $(tried "${disks[$volume,$n]}" write)"; done
  echo "${all# }"
}
# soon NAME WANTED COMMAND...: it says so, after some seconds at the latest: what is allowed again, other nodes hear of a moment later (what is
# forbidden is forbidden at once: `equal`)
soon() {
  local name=$1 wanted=$2 got end=$((SECONDS + 5)); shift 2
  while got=$("$@"); [ "$got" != "$wanted" ] && [ $SECONDS -lt $end ]; do sleep 0.1; done
  equal "$name" "$got" "$wanted"
}
# report HOST VOLUME NODE...: the report, when each of these nodes says the same
report() {
  local -n disks=${1}_DISK; local volume=$2 n first= one; shift 2
  for n; do
    one=$(nvme resv-report "${disks[$volume,$n]}" --eds -o json | tr -d ' \n\t')
    [ -n "$one" ] && [ "${first:=$one}" = "$one" ] || { echo "node $n says $one, and not $first"; return; }
  done
  echo "$first"
}
# in_report NAME... -- HOST VOLUME NODE...: such values, when each of these nodes says the same
in_report() {
  local names=() r n out=
  while [ "$1" != -- ]; do names+=("$1"); shift; done; shift
  r=$(report "$@")
  for n in "${names[@]}"; do out="$out $(value "$r" "$n")"; done
  echo "${out# }"
}
value() { grep -oE "\"$2\":\"?[0-9a-fx]+" <<<"$1" | head -n 1 | sed 's/.*://; s/"//'; } # REPORT NAME: the first such value
sum() { if dd if="$1" of=/tmp/summed bs=1M count=4 iflag=direct status=none; then sha256sum </tmp/summed | cut -c 1-16; else echo "unreadable $RANDOM"; fi; } # DISK: of its first 4 MiB
# still NAME DISK OWNER'S-DISK: nothing is written there any more, by whatever path one looks
still() {
  local now; now=$(sum "$2"); sleep 1
  equal "$1: nothing lands afterwards" "$(sum "$2")" "$now"
  equal "$1: the same by the owner's node" "$(sum "$3")" "$now"
}
log_begins() { kernel_log_clean "$1: the kernel's log until here"; dmesg -C; } # NAME
# writes DISK NAME: fio writes there until an error ends it
writes() {
  fio --name="$2" --filename="$1" --ioengine=libaio --direct=1 --rw=randwrite --bssplit=4k/50:128k/50 --iodepth=16 --time_based --runtime=60 --size=4m >"/tmp/fio.$2" 2>&1 &
  W=$!; sleep 2
}
# refused NAME DISK: the writes have ended, by an error, and the kernel says of that disk alone that writes have failed
refused() {
  local rc=0; wait "$W" || rc=$?
  if [ $rc = 0 ]; then echo "FAIL $1: the writes went on"; FAILURES=$((FAILURES + 1)); else echo "ok   $1: the writes end with an error"; fi
  local allowed=$LOG_ALLOWED; LOG_ALLOWED="$LOG_ALLOWED|error, dev ${2#/dev/}, sector [0-9]+ op 0x1:\(WRITE\)"
  kernel_log_clean "$1: nothing else failed"; LOG_ALLOWED=$allowed; dmesg -C
}

step "each host has a path through each node"
for n in 1 2 3; do check "volume v$n on node $n" wait_until 20 quiet on_host volume_create_on "$n" "v$n" $((64 * MIB)); done
for n in 1 2 3; do
  A[$n]=$(host $A_ID "$n") || die "connect host A to node $n"
  B[$n]=$(host $B_ID "$n") || die "connect host B to node $n"
done
for v in 1 2 3; do
  equal "the owner of v$v" "$(on_host owner "v$v")" "node$v"
  for n in 1 2 3; do
    wait_until 20 eval "disk ${A[$n]} $v >/dev/null && disk ${B[$n]} $v >/dev/null" || die "no block devices of v$v by node $n"
    A_DISK[$v,$n]=$(disk "${A[$n]}" "$v") B_DISK[$v,$n]=$(disk "${B[$n]}" "$v")
  done
done
for v in 1 2 3; do for h in A B; do soon "$h reads and writes v$v by every path" "RW RW RW" may $h $v 1 2 3; done; done

step "every type, reserved through one node, holds through the others at once (owner: node 1)"
# TYPE, what a registrant may do, what others may do
NAMES=([1]="Write Exclusive" [2]="Exclusive Access" [3]="Write Exclusive, Registrants Only" [4]="Exclusive Access, Registrants Only"
  [5]="Write Exclusive, All Registrants" [6]="Exclusive Access, All Registrants")
for row in "1 R- R-" "2 -- --" "3 RW R-" "4 RW --" "5 RW R-" "6 RW --"; do
  read -r type registrant other <<<"$row"
  at=$((1 + type % 3)) to=$((1 + (type + 1) % 3)) last=$((1 + (type + 2) % 3)) name=${NAMES[type]}
  check "$name: A registers by node $at" reservation register "${A_DISK[1,$at]}" --nrkey=0xa --rrega=0
  check "$name: A acquires by node $to" reservation acquire "${A_DISK[1,$to]}" --crkey=0xa --rtype="$type" --racqa=0
  equal "$name: B, not registered, by node $at and $last" "$(may B 1 "$at" "$last")" "$other $other"
  check "$name: B acquires nothing without a key" said "$CONFLICT" nvme resv-acquire "${B_DISK[1,$last]}" --crkey=0xb --rtype="$type" --racqa=0
  check "$name: B registers by node $last" reservation register "${B_DISK[1,$last]}" --nrkey=0xb --rrega=0
  soon "$name: B, registered, by node $to and $at" "$registrant $registrant" may B 1 "$to" "$at"
  equal "$name: A by every node" "$(may_write A 1 1 2 3)" "W W W"
  soon "$name: all nodes report the type and two registrants" "$type 2" in_report rtype regctl -- B 1 1 2 3
  check "$name: B does not acquire another type by node $at" said "$CONFLICT" nvme resv-acquire "${B_DISK[1,$at]}" --crkey=0xb --rtype=$((type % 6 + 1)) --racqa=0
  check "$name: a release of another type is refused" said 'invalid field' nvme resv-release "${A_DISK[1,$last]}" --crkey=0xa --rtype=$((type % 6 + 1)) --rrela=0
  check "$name: A releases by node $last" reservation release "${A_DISK[1,$last]}" --crkey=0xa --rtype="$type" --rrela=0
  soon "$name: then B writes by every node" "W W W" may_write B 1 1 2 3
  check "$name: B clears by node $to" reservation release "${B_DISK[1,$to]}" --crkey=0xb --rrela=1
  soon "$name: no registrant is left at any node" 0 in_report regctl -- A 1 1 2 3
done

# fenced NAME WRITER'S-NODE PREEMPTOR'S-NODE ACTION: B preempts A while A's writes are on their way to the owner, which is node 1
fenced() {
  local name=$1 at=$2 by=$3 action=$4
  check "$name: A and B register" eval "reservation register ${A_DISK[1,$at]} --nrkey=0xa --rrega=0 && reservation register ${B_DISK[1,$by]} --nrkey=0xb --rrega=0"
  check "$name: A acquires by node $at" reservation acquire "${A_DISK[1,$at]}" --crkey=0xa --rtype=1 --racqa=0
  log_begins "$name"; writes "${A_DISK[1,$at]}" fenced
  check "$name: A writes by node $at when it comes" kill -0 "$W"
  check "$name: B preempts by node $by" reservation acquire "${B_DISK[1,$by]}" --crkey=0xb --prkey=0xa --rtype=1 --racqa="$action"
  still "$name" "${B_DISK[1,$by]}" "${B_DISK[1,1]}"
  refused "$name" "${A_DISK[1,$at]}"
  equal "$name: A reads and does not write by any node" "$(may A 1 1 2 3)" "R- R- R-"
  soon "$name: B writes by every node" "W W W" may_write B 1 1 2 3
  soon "$name: all nodes report B alone" "1 1 11" in_report rtype regctl rkey -- A 1 1 2 3
  check "$name: B clears" reservation release "${B_DISK[1,1]}" --crkey=0xb --rrela=1
}
step "preempt while the other host's commands are on their way between nodes"
fenced "preempt and abort" 2 3 2
fenced "preempt and abort by the node that A writes by" 3 3 2
fenced "preempt" 2 1 1

step "both hosts count in one block by Compare and Write over different nodes (owner: node 2)"
EACH=100 LBA=1000
count() { dd if="$1" bs=4096 skip=$LBA count=1 iflag=direct status=none | od -An -v -t u8 -N 8 | tr -d ' '; } # DISK
check "the count begins at zero" quiet blkdiscard -z -o $((LBA * 4096)) -l 4096 "${A_DISK[2,2]}"
CAW=/vm/files/compare-and-write PIDS=()
$CAW "${ADDR_OF[1]}" "${PORT_OF[1]}" "$NQN" $A_ID 2 $LBA $EACH >/tmp/caw.1 2>&1 & PIDS+=($!)
$CAW "${ADDR_OF[3]}" "${PORT_OF[3]}" "$NQN" $B_ID 2 $LBA $EACH >/tmp/caw.2 2>&1 & PIDS+=($!)
$CAW "${ADDR_OF[2]}" "${PORT_OF[2]}" "$NQN" $B_ID 2 $LBA $EACH >/tmp/caw.3 2>&1 & PIDS+=($!)
seen=0 back=0 looks=0
while kill -0 "${PIDS[@]}" 2>/dev/null; do
  for n in 1 2 3; do
    for d in "${A_DISK[2,$n]}" "${B_DISK[2,$n]}"; do
      now=$(count "$d"); [ "$now" -ge "$seen" ] || { back=$((back + 1)); echo "$now after $seen by $d"; }; seen=$now looks=$((looks + 1))
    done
  done
done
failed=0; for p in "${PIDS[@]}"; do wait "$p" || failed=$((failed + 1)); done
[ $failed = 0 ] || cat /tmp/caw.*
equal "each Compare and Write got its answer" $failed 0
equal "the count never goes back, by whatever path ($looks looks)" $back 0
check "they were in each other's way ($(cat /tmp/caw.* | tr '\n' ' '))" [ "$(cat /tmp/caw.* | awk '{ n += $1 } END { print n }')" -gt 0 ]
for n in 1 2 3; do equal "no increment is lost, by node $n" "$(count "${A_DISK[2,$n]}") $(count "${B_DISK[2,$n]}")" "$((3 * EACH)) $((3 * EACH))"; done

step "write protection (owner: node 3)"
protect() { quiet nvme set-feature "/dev/$1" -f 0x84 -n 3 -v "$2"; } # CONTROLLER 0|1
for n in 1 2 3; do
  other=$((n % 3 + 1))
  check "A protects by node $n" protect "${A[$n]}" 1
  equal "A by every node" "$(may A 3 "$other" $((other % 3 + 1)) "$n")" "Rp Rp Rp"
  equal "B by every node" "$(may_write B 3 1 2 3)" "p p p"
  check "the administrator sees it at node $other" eval "on_host basalt_on $other volume show v3 | grep -qi 'read.only'"
  check "B ends it by node $other" protect "${B[$other]}" 0
  soon "B writes by every node" "W W W" may_write B 3 "$n" "$other" $((other % 3 + 1))
  soon "A writes by every node" "W W W" may_write A 3 1 2 3
done
check "the kernel knows that it may be written" wait_until 10 eval "nvme ns-rescan /dev/${A[1]}; blockdev --setrw ${A_DISK[3,1]}; [ \$(blockdev --getro ${A_DISK[3,1]}) = 0 ]"
log_begins protected; writes "${A_DISK[3,1]}" protected
check "A writes by node 1 when it comes" kill -0 "$W"
check "B protects by node 2 meanwhile" protect "${B[2]}" 1
still protected "${B_DISK[3,2]}" "${B_DISK[3,3]}"
refused protected "${A_DISK[3,1]}"
check "B ends it" protect "${B[2]}" 0
finish
