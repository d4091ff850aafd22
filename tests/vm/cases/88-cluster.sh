#!/bin/bash
# A cluster of three nodes: found by discovery alone, every volume by every path; I/O goes on while paths, nodes and members of etcd go.
#: nics 3
#: nodes 3
#: alone yes
#: smp 4
#: timeout 900
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
MIB=1048576
LOG_BAD=$LOG_BAD_KILLED
declare -A OWNED  # node -> a volume that it owns

step "a volume of each node"
for n in 1 2 3; do
  check "a volume on node $n" wait_until 20 quiet on_host volume_create_on "$n" "v$n" $((64 * MIB))
  OWNED[$(on_host owner "v$n")]=v$n
done
equal "each node owns one" "$(printf '%s\n' "${!OWNED[@]}" | sort | tr '\n' ' ')" "node1 node2 node3 "

step "discovery"
nvme discover -t tcp -a "${ADDR_OF[2]}" -s "${DISCOVERY_PORT_OF[2]}" >/tmp/log || { cat /tmp/log; die "discover"; }
for n in 1 2 3; do check "the log of node 2 names node $n" grep -q "traddr: *${ADDR_OF[n]}\$" /tmp/log; done
check "connect-all, of what node 2 says" nvme connect-all -t tcp -a "${ADDR_OF[2]}" -s "${DISCOVERY_PORT_OF[2]}" \
  --nr-io-queues=1 --keep-alive-tmo=4 --reconnect-delay=1 --ctrl-loss-tmo=600
S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
live() { [ "$(cat "$S"/nvme*/state | grep -cx live)" = "$1" ]; }
check "three live paths" wait_until 20 live 3
equal "they are different controllers" "$(cat "$S"/nvme*/cntlid | sort -u | wc -l)" 3
states() { # DEVICE: the states of its paths, sorted
  local name=${1#/dev/}; cat "$S"/nvme*/nvme"${S##*nvme-subsys}"c*n"${name##*n}"/ana_state 2>/dev/null | sort | tr '\n' ' '
}
declare -A DEV
for node in node1 node2 node3; do
  DEV[$node]=$(device "${OWNED[$node]}") || die "no block device for ${OWNED[$node]}"
  check "of ${OWNED[$node]}: one path is optimized, two are not" wait_until 20 \
    eval "[ \"\$(states ${DEV[$node]})\" = 'non-optimized non-optimized optimized ' ]"
done
nvme disconnect -n "$NQN" >/dev/null; check "is gone after disconnect" wait_until 20 is_gone "$NQN"

step "every path, on its own"
for n in 1 2 3; do
  check "connect to node $n alone" nvme connect -t tcp -n "$NQN" --nr-io-queues=2 -a "${ADDR_OF[n]}" -s "${PORT_OF[n]}"
  for node in node1 node2 node3; do
    D=$(device "${OWNED[$node]}") || die "no block device"
    verified "a volume of $node by node $n" --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=2m --randseed="$n"
    check "what was written by another path, discarded by this one" quiet blkdiscard -o $((32 * MIB)) -l $((4 * MIB)) "$D"
  done
  nvme disconnect -n "$NQN" >/dev/null
done

step "all paths: one is cut after the other"
for n in 1 2 3; do
  nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo=2 --reconnect-delay=1 --ctrl-loss-tmo=600 -a "${ADDR_OF[n]}" -s "${PORT_OF[n]}" ||
    die "connect to node $n"
done
S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
check "three live paths" wait_until 20 live 3
echo round-robin >"$S/iopolicy"
D=$(device "${OWNED[node1]}") || die "no block device"
for n in 1 2 3; do
  verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,1m --randseed="$n" & FIO=$!
  sleep 2; check "path $n is cut" on_host link $((n - 1)) off
  check "the host notices" wait_until 40 live 2
  rc=0; wait $FIO || rc=$?; fio_went "I/O goes on by the others" $rc
  check "connected again" on_host link $((n - 1)) on
  check "the path comes back" wait_until 60 live 3
done

during() { # during NAME VERB ARG...: fio on a volume of node 1 while the host's side does something, 2 s after it began
  local name=$1 fio rc=0; shift
  verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,1m --randseed="$RANDOM" & fio=$!
  sleep 2; kill -0 $fio 2>/dev/null || { echo "FAIL $name: fio ended before"; FAILURES=$((FAILURES + 1)); }
  check "$name" on_host "$@"
  wait $fio || rc=$?; fio_went "I/O goes on: $name" $rc
}
voters() { [ "$(on_host voters "$1")" = "$2" ]; }

step "nodes go that own nothing of what is used"
for n in 2 3; do
  during "node $n is killed" daemon_kill "$n"
  check "it starts again" on_host daemon_start "$n"
  check "its path comes back" wait_until 60 live 3
  check "its member of etcd votes again" wait_until 60 voters 1 3
done

step "members of etcd go"
for n in 1 2 3; do
  during "the member of node $n is killed" etcd_signal "$n" KILL
  check "it votes again" wait_until 60 voters 1 3
  during "the member of node $n stops" etcd_signal "$n" STOP
  check "a volume is made meanwhile" on_host volume_create "w$n" $((16 * MIB))
  check "it goes on" on_host etcd_signal "$n" CONT
  check "and votes" wait_until 60 voters 1 3
done
check "three live paths at the end" wait_until 60 live 3
finish
