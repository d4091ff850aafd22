#!/bin/bash
# Discovery on both listeners; connections with and without digests, with 1 and 4 queues; identity.
#: smp 4
. "$VM_LIB"
MIB=1048576
on_host volume_create data $((256 * MIB)) 4096 || die "volume create"

step "discovery"
for port in $DISCOVERY_PORT $PORT; do
  nvme discover -t tcp -a "$ADDR" -s "$port" >/tmp/log || { cat /tmp/log; die "discover at $port"; }
  check "the log of port $port names the subsystem" grep -q "subnqn: *$NQN\$" /tmp/log
  check "with an address that this host can reach" grep -q "traddr: *$ADDR\$" /tmp/log
  check "and the I/O port" grep -q "trsvcid: *$PORT\$" /tmp/log
done
check "connect-all by the discovery log" nvme connect-all -t tcp -a "$ADDR" -s "$DISCOVERY_PORT" --nr-io-queues=1
check "is live" wait_until 10 is_live "$NQN"
nvme disconnect -n "$NQN" >/dev/null; check "is gone after disconnect" wait_until 10 is_gone "$NQN"

step "identity"
connect "$NQN" --nr-io-queues=1 || die "connect"
D=$(device data) || die "no block device"
C=$(controller "$NQN"); cat "/sys/class/nvme/$C/"{model,serial,firmware_rev}
id() { cat "/sys/block/${D#/dev/}/"{uuid,nguid,wwid} 2>/dev/null; }
FIRST=$(id); echo "$FIRST"
equal "its size" "$(blockdev --getsize64 "$D")" $((256 * MIB))
equal "its logical block" "$(cat "/sys/block/${D#/dev/}/queue/logical_block_size")" 4096
check "discard is offered" [ "$(cat "/sys/block/${D#/dev/}/queue/discard_max_bytes")" -gt 0 ]
check "identify controller" eval "nvme id-ctrl /dev/$C >/tmp/id-ctrl"
check "identify namespace" eval "nvme id-ns $D >/tmp/id-ns"
check "the SMART log" eval "nvme smart-log /dev/$C >/tmp/smart"
check "the error log" eval "nvme error-log /dev/$C -e 1 >/tmp/error"
check "the firmware log" eval "nvme fw-log /dev/$C >/tmp/fw"
check_fails "a command that does not exist" nvme admin-passthru "/dev/$C" --opcode=0xff
nvme disconnect -n "$NQN" >/dev/null

round() { # round NAME QUEUES OPTION...: connect, write, connect anew, read what was written
  local name=$1 queues=$2; shift 2
  step "$name"
  connect "$NQN" --nr-io-queues="$queues" "$@" || { echo "FAIL connect, $name"; FAILURES=$((FAILURES + 1)); return; }
  D=$(device data) || die "no block device, $name"
  C=$(controller "$NQN")
  equal "$name: queues" "$(cat "/sys/class/nvme/$C/queue_count")" $((queues + 1))
  equal "$name: the same identity" "$(id)" "$FIRST"
  verified "$name: 4 KiB" --filename="$D" --rw=randwrite --bs=4k --iodepth=16 --size=2m --randseed=1
  verified "$name: 128 KiB" --filename="$D" --rw=randwrite --bs=128k --iodepth=8 --offset=8m --size=8m --randseed=2
  nvme disconnect -n "$NQN" >/dev/null
}
round "1 queue" 1
round "4 queues" 4
round "header digest" 1 --hdr-digest
round "data digest" 2 --data-digest
round "both digests, 4 queues" 4 --hdr-digest --data-digest
finish
