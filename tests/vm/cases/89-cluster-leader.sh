#!/bin/bash
# The control leader is killed again and again while two administrators make changes: each is there once, and verified I/O goes on.
# CHANGES: so many instead of 96, in rounds of 8.
#: nics 3
#: nodes 3
#: alone yes
#: smp 2
#: timeout 900
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
# It is long, and what it tries depends little on the host's kernel.
case $(uname -r) in 6.1.*) echo "ok   skipped: one kernel is enough"; exit 0 ;; esac
MIB=1048576 ROUNDS=$((${CHANGES:-96} / 8)) KILLS_MIN=2
LOG_BAD=$LOG_BAD_KILLED

step "a host with a path through each node"
check "a volume on node 3" wait_until 20 quiet on_host volume_create_on 3 v $((64 * MIB))
for n in 1 2 3; do
  nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo=4 --reconnect-delay=1 --ctrl-loss-tmo=600 -a "${ADDR_OF[n]}" -s "${PORT_OF[n]}" ||
    die "connect to node $n"
done
S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
live() { [ "$(cat "$S"/nvme*/state | grep -cx live)" = "$1" ]; }
check "three live paths" wait_until 20 live 3
D=$(device v) || die "no block device"

# leader [OTHER-THAN]: the number of the node that leads, as one that answers says
leader() {
  local n name
  for n in 1 2 3; do
    [ "$n" != "$1" ] || continue
    name=$(on_host leader "$n") && [ -n "$name" ] && [ "$name" != "node$1" ] && { echo "${name#node}"; return 0; }
  done
  return 1
}
voters() { [ "$(on_host voters "$1")" = "$2" ]; }
# verified I/O, one round after the other, until /tmp/enough is there
goes_on() {
  local rounds=0
  while [ ! -e /tmp/enough ]; do
    verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=4m --rate=,1m --randseed="$((rounds + 1))" || return 1
    rounds=$((rounds + 1)); echo $rounds >/tmp/rounds
  done
}
goes_on & IO=$!

step "two administrators, and the leader is killed"
check "they begin" on_host administrators_begin $ROUNDS
kills=0 leaders=
while [ "$(on_host administrators_left)" -gt 0 ]; do
  wait_until 40 eval 'leader >/tmp/leader' || die "nobody leads"
  L=$(cat /tmp/leader); leaders="$leaders $L"
  on_host daemon_kill_midway "$L" || die "kill node $L"
  kills=$((kills + 1))
  wait_until 40 eval "leader $L >/tmp/leader" || die "nobody leads after node $L"
  on_host daemon_start "$L" || die "node $L does not start again"
  wait_until 60 live 3 || die "the path through node $L does not come back"
  wait_until 60 voters "$L" 3 || die "the member of node $L does not vote again"
  kill -0 $IO 2>/dev/null || break
done
echo "killed, one after the other: nodes$leaders"
check "the leader was killed at least $KILLS_MIN times meanwhile ($kills)" [ $kills -ge $KILLS_MIN ]
ANSWERS=$(on_host administrators_went) || { echo "$ANSWERS"; ANSWERS=; }
check "each of the $((ROUNDS * 8)) changes was answered as done (${ANSWERS:-no} answers)" [ "${ANSWERS:-0}" -ge $((ROUNDS * 8)) ]
: >/tmp/enough; rc=0; wait $IO || rc=$?
fio_went "verified I/O went on all the time ($(cat /tmp/rounds) rounds of 4 MiB)" $rc
for n in 1 2 3; do check "by node $n, what was answered as done is there once, and nothing is half done" wait_until 60 quiet on_host administrators_check "$n"; done
finish
