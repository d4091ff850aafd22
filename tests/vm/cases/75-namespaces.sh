#!/bin/bash
# nvme-cli's admin commands: identify, logs, features; namespaces made, attached, formatted, write protected, detached, deleted.
. "$VM_LIB"
MIB=1048576
SLOW=10 # seconds an event may take here
on_host volume_create data $((64 * MIB)) 4096 || die "volume create"
check "grant" on_host basalt subsystem set default --manage-namespaces --namespaces-max 4 --bytes-max 1GiB
connect "$NQN" --nr-io-queues=2 || die "connect"
D=$(device data) || die "no block device"
C=/dev/$(controller "$NQN")
ID=$(cat "/sys/class/nvme/${C#/dev/}/cntlid")

# says NAME PATTERN COMMAND...: the command succeeds and its output has PATTERN
says() {
  local name=$1 pattern=$2; shift 2
  if "$@" >/tmp/says 2>&1 && grep -qE -- "$pattern" /tmp/says; then echo "ok   $name"; else
    echo "FAIL $name: $*"; head -n 20 /tmp/says; FAILURES=$((FAILURES + 1))
  fi
}
# refuses NAME PATTERN COMMAND...: the command fails and says PATTERN
refuses() {
  local name=$1 pattern=$2; shift 2
  if ! "$@" >/tmp/says 2>&1 && grep -qiE -- "$pattern" /tmp/says; then echo "ok   $name"; else
    echo "FAIL $name: $*"; head -n 20 /tmp/says; FAILURES=$((FAILURES + 1))
  fi
}

step "identify"
says "id-ctrl" '^oacs +: 0xa$' nvme id-ctrl "$C"
says "id-ns" '^nsze +: 0x4000$' nvme id-ns "$C" -n 1
says "id-ns of what all have in common" 'lbaf +1 : ms:0 +lbads:12' nvme id-ns "$C" -n 0xffffffff
says "nvm-id-ctrl" 'wzsl' nvme nvm-id-ctrl "$C"
says "ns-descs" 'uuid' nvme ns-descs "$C" -n 1
says "list-ns" '\[ +0\]:0x1' nvme list-ns "$C"
says "list-ns --all" '\[ +0\]:0x1' nvme list-ns "$C" --all
says "list-ctrl" "$(printf '0x%x' "$ID")" nvme list-ctrl "$C"
says "list-ctrl of a namespace" "$(printf '0x%x' "$ID")" nvme list-ctrl "$C" -n 1
refuses "the UUID list" 'invalid field' nvme admin-passthru "$C" --opcode=0x06 --cdw10=0x17 --data-len=4096 -r

step "logs"
for lid in 0 1 2 3 4 5 0xc 0x12 0x13; do says "log $lid" . nvme get-log "$C" --log-id=$lid --log-len=512; done
refuses "a log that there is not" 'invalid log' nvme get-log "$C" --log-id=0x6 --log-len=512
says "error-log has that failure" 'status_field.*0x2?109|status_field.*Invalid Log' nvme error-log "$C" -e 2
verified "something to count" --filename="$D" --rw=randwrite --bs=4k --iodepth=4 --size=1m
says "smart-log counts" 'host_write_commands[[:space:]]*: *[1-9]' nvme smart-log "$C"
says "fw-log" 'frs1' nvme fw-log "$C"
says "ana-log" 'optimized' nvme ana-log "$C"

step "features"
for fid in 1 2 4 7 0xa 0xb 0xf; do
  for sel in 0 1 2 3; do says "feature $fid, select $sel" . nvme get-feature "$C" -f $fid -s $sel; done
done
says "feature 5 of a namespace" . nvme get-feature "$C" -f 5 -n 1
says "feature 0x16" . nvme get-feature "$C" -f 0x16 -l 512
refuses "the write cache that there is not" 'invalid field' nvme get-feature "$C" -f 6
refuses "saving" 'saveable' nvme set-feature "$C" -f 4 -v 300 --save
says "write protect" . nvme set-feature "$C" -f 0x84 -n 1 -v 1
check "the kernel sees it" wait_until $SLOW eval "[ \$(blockdev --getro $D) = 1 ]"
check "and the administrator" eval "on_host basalt volume show data | grep -qi 'read.only'"
says "no longer" . nvme set-feature "$C" -f 0x84 -n 1 -v 0
check "the kernel sees that" wait_until $SLOW eval "nvme ns-rescan $C; blockdev --setrw $D; [ \$(blockdev --getro $D) = 0 ]"

step "a namespace made by the host"
refuses "thin" 'thin' nvme create-ns "$C" -s 8192 -c 4096 -f 1
refuses "more than is granted" 'capacity' nvme create-ns "$C" -s 1048576 -c 1048576 -f 1
says "create-ns" 'nsid:2' nvme create-ns "$C" -s 8192 -c 8192 -f 1
check "it is a volume" eval "on_host basalt volume list | grep -q default-ns2"
says "it is allocated" '0x2' nvme list-ns "$C" --all
equal "and not attached" "$(nvme list-ns "$C" | grep -c 0x2)" 0
says "attach-ns" . nvme attach-ns "$C" -n 2 -c "$ID"
refuses "attach-ns again" 'already attached' nvme attach-ns "$C" -n 2 -c "$ID"
N=$(device default-ns2 $SLOW) || die "the new namespace does not appear"
verified "I/O" --filename="$N" --rw=randwrite --bs=4k --iodepth=4 --size=2m
says "format to 512-byte blocks" . nvme format "$C" -n 2 --lbaf=0 --force
check "the kernel sees the block size" wait_until $SLOW eval "[ \$(cat /sys/block/${N#/dev/}/queue/logical_block_size) = 512 ]"
check "all is zeroes" eval "cmp -n $((4 * MIB)) $N /dev/zero"
verified "I/O in 512-byte blocks" --filename="$N" --rw=randwrite --bs=512 --iodepth=4 --size=64k
says "detach-ns" . nvme detach-ns "$C" -n 2 -c "$ID"
check "it is gone" wait_until $SLOW eval "! test -b $N"
refuses "detach-ns again" 'not attached' nvme detach-ns "$C" -n 2 -c "$ID"
says "delete-ns" . nvme delete-ns "$C" -n 2
check "and the volume" eval "! on_host basalt volume list | grep -q default-ns2"
check "the grant ends" on_host basalt subsystem set default --no-manage-namespaces
refuses "then nothing is made" 'invalid.*(opcode|command)' nvme create-ns "$C" -s 8192 -c 8192 -f 1
verified "the first namespace works on" --filename="$D" --rw=randwrite --bs=4k --iodepth=4 --size=1m
finish
