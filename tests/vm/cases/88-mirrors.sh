#!/bin/bash
# Copies on two of three nodes, a host on all three paths: I/O goes on while nodes die, hang, are cut off and come back, and while copies and owners change.
# KILLS: so many rounds at random instead of one of each kind. HANDOVERS: so many instead of 8.
#: nics 3
#: nodes 3
#: apart yes
#: smp 4
#: timeout 1500
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
MIB=1048576
LOG_BAD=$LOG_BAD_KILLED
STALL_MAX_MS=15000 # a busy machine; what was measured is printed

step "a volume of one copy, and three paths to it"
on_host basalt policy create two --failures-to-tolerate 1 >/dev/null || die "policy create"
check "a volume" wait_until 20 quiet on_host volume_create m $((64 * MIB))
for n in 1 2 3; do
  nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo=2 --reconnect-delay=1 --ctrl-loss-tmo=600 -a "${ADDR_OF[n]}" -s "${PORT_OF[n]}" ||
    die "connect to node $n"
done
S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
live() { [ "$(cat "$S"/nvme*/state | grep -cx live)" = "$1" ]; }
check "three live paths" wait_until 20 live 3
D=$(device m) || die "no block device"

number() { local node; node=$(on_host "$@") && echo "${node#node}"; }
copies() { [ "$(on_host copies "$1" m)" = "$2" ]; } # NODE STATES
longest_ms() { # of fio's operations
  sed -nE 's/.* clat \(([num]sec)\):.*max= *([0-9.]+)(k?).*/\1 \2 \3/p' $FIO_OUT |
    awk '{ v = $2 * ($3 == "k" ? 1000 : 1); v /= $1 == "nsec" ? 1000000 : $1 == "usec" ? 1000 : 1; if (v > most) most = v } END { printf "%d\n", most }'
}
STALLS=() SEED=0
begin() { # fio, 2 s before what is to happen
  SEED=$((SEED + 1)); verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,1m --randseed="$SEED" & FIO=$!
  sleep 2; kill -0 $FIO 2>/dev/null || { echo "FAIL fio ended before"; FAILURES=$((FAILURES + 1)); }
}
went() { # WHAT
  local rc=0 ms; wait $FIO || rc=$?; fio_went "I/O goes on: $1" $rc; ms=$(longest_ms); STALLS+=("$ms $1")
  check "no operation took longer than $STALL_MAX_MS ms; the longest one $ms ms: $1" [ "$ms" -le $STALL_MAX_MS ]
}
whole() { # seen by node $1: all that was away is back
  check "both copies are in sync" wait_until 90 copies "$1" "active active"
  check "three live paths" wait_until 90 live 3
}

step "it gets a second copy, and goes from node to node"
begin; check "another policy" quiet on_host basalt volume set m --policy two
went "a copy is added"; whole 1
HANDOVERS=${HANDOVERS:-8} done=0
while [ $done -lt "$HANDOVERS" ]; do
  begin; before=$done
  while [ $done -lt "$HANDOVERS" ] && [ $((done - before)) -lt 8 ]; do
    for node in $(on_host copy_nodes 1 m); do check "handed over to $node" quiet on_host basalt volume set m --owner "$node"; done=$((done + 1)); sleep 0.5; done
  done
  went "handed over $((done - before)) times"
done
whole 1
on_host basalt volume set m --owner any >/dev/null

round() { # WHICH HOW
  local which=$1 how=$2 owner at=1 other
  owner=$(number owner_on 1 m)
  case $which in
    owner) at=$owner ;;
    holder) for node in $(on_host copy_nodes 1 m); do [ "${node#node}" = "$owner" ] || at=${node#node}; done ;;
    third) for n in 1 2 3; do on_host copy_nodes 1 m | grep -q "node$n" || at=$n; done ;;
  esac
  other=$((at % 3 + 1))
  begin
  case $how in
    kill) check "node $at ($which) is killed" on_host daemon_kill "$at" ;;
    in | out | both | off) check "node $at ($which) is cut off: $how" on_host cut "$at" "$how" ;;
    *) check "node $at ($which) hangs for $how s" on_host daemon_signal "$at" STOP ;;
  esac
  case $how in
    kill) sleep 3; check "it starts again" on_host daemon_start "$at" ;;
    in | out | both | off) sleep 6; check "it is reached again" on_host heal ;;
    *) sleep "$how"; check "it goes on" on_host daemon_signal "$at" CONT ;;
  esac
  went "$which, $how"; whole "$other"
  check "node 1 answers" wait_until 60 quiet on_host owner_on 1 m
}
WHICH=(holder owner third) HOWS=(kill 2 12 in out both off)
if [ -n "$KILLS" ]; then
  step "$KILLS rounds at random"
  for ((r = 0; r < KILLS; r++)); do round "${WHICH[RANDOM % 3]}" "${HOWS[RANDOM % 7]}"; done
else
  step "nodes die and come back"; round holder kill; round owner kill; round third kill
  step "nodes hang"; round holder 2; round owner 2; round owner 12
  step "nodes are cut off"; round holder in; round holder out; round owner both; round owner off; round third off
fi

step "it has one copy again"
begin; check "another policy" quiet on_host basalt volume set m --policy default
went "a copy is taken away"
check "one copy is left" wait_until 60 copies 1 active
step "the longest operation of each round, in ms"
printf '%s\n' "${STALLS[@]}" | sed 's/^\([0-9]*\) \(owner\|holder\|third\),.*/\1 \2/; s/[0-9]* times$//' | sort -k2 -k1n |
  awk '{ ms = $1; $1 = ""; n[$0]++; all[$0, n[$0]] = ms } END { for (k in n) printf "measured%s: %d rounds, median %d, longest %d\n", k, n[k], all[k, int((n[k] + 1) / 2)], all[k, n[k]] }' | sort
finish
