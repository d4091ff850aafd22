#!/bin/bash
# Copies on two of three nodes, a host on all three paths: I/O goes on while nodes die, hang, are cut off and come back, and while copies and owners change.
# EVERY=yes: each kind of round, of which the worst are played else. KILLS: so many at random instead; ROLES=holder,third: not to the owner.
# ROUNDS=holder/30,owner/30: these. HANDOVERS: so many instead of 8.
#: nics 3
#: nodes 3
#: alone yes
#: apart yes
#: smp 4
#: timeout 1500
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
. /vm/files/mirrors.sh

step "a volume of one copy, and three paths to it"
on_host basalt policy create two --failures-to-tolerate 1 >/dev/null || die "policy create"
check "a volume" wait_until 20 quiet on_host volume_create m $((64 * MIB))
connect_paths 3
D=$(device m) || die "no block device"
VOLUMES=(m)

step "it gets a second copy, and goes from node to node"
begin "$D"; check "another policy" quiet on_host basalt volume set m --policy two
went "a copy is added"; whole 1
HANDOVERS=${HANDOVERS:-8} done=0
while [ $done -lt "$HANDOVERS" ]; do
  begin "$D"; before=$done
  while [ $done -lt "$HANDOVERS" ] && [ $((done - before)) -lt 8 ]; do
    for node in $(on_host copy_nodes 1 m); do check "handed over to $node" quiet on_host basalt volume set m --owner "$node"; done=$((done + 1)); sleep 0.5; done
  done
  went "handed over $((done - before)) times"
done
whole 1
on_host basalt volume set m --owner any >/dev/null

step "it is laid out anew, over two devices of each node and back, while it is used"
on_host basalt policy create wide --failures-to-tolerate 1 --stripe-width 2 >/dev/null || die "policy create"
stripes() { [ "$(on_host stripes 1 m)" = "$1" ]; }
for to in "wide 2" "two 1"; do
  begin "$D"; check "policy ${to% *}" wait_until 20 quiet on_host basalt volume set m --policy "${to% *}" --resync high
  check "stripes: ${to#* }" wait_until 60 stripes "${to#* }"
  went "laid out anew: stripes ${to#* }"
done
on_host basalt volume set m --resync normal >/dev/null
whole 1

round() { # WHICH HOW
  local which=$1 how=$2 owner at=1 other
  owner=$(number owner_on 1 m)
  case $which in
    owner) at=$owner ;;
    holder) for node in $(on_host copy_nodes 1 m); do [ "${node#node}" = "$owner" ] || at=${node#node}; done ;;
    third) for n in 1 2 3; do on_host copy_nodes 1 m | grep -q "node$n" || at=$n; done ;;
  esac
  other=$((at % 3 + 1))
  begin "$D"
  case $how in
    kill) check "node $at ($which) is killed" on_host daemon_kill "$at" ;;
    restart) check "node $at ($which) ends in order" on_host daemon_stop "$at" ;;
    in | out | both | off) check "node $at ($which) is cut off: $how" on_host cut "$at" "$how" ;;
    *) check "node $at ($which) hangs for $how s" on_host daemon_signal "$at" STOP ;;
  esac
  case $how in
    kill | restart) sleep 3; check "it starts again" on_host daemon_start "$at" ;;
    in | out | both | off) sleep 6; check "it is reached again" on_host heal ;;
    *) sleep "$how"; check "it goes on" on_host daemon_signal "$at" CONT ;;
  esac
  went "$which, $how"; whole "$other"
  check "node 1 answers" wait_until 60 quiet on_host owner_on 1 m
}
# same: each node with a copy owns the volume in turn, and reads its own: all copies hold the same, block by block
same() {
  local node first= one
  for node in $(on_host copy_nodes 1 m); do
    check "handed over to $node" quiet on_host basalt volume set m --owner "$node"
    check "$node owns it" wait_until 30 owned 1 m "${node#node}"
    sleep 1; one=$(dd if="$D" bs=1M iflag=direct status=none | sha256sum)
    equal "what the copy on $node holds" "$one" "${first:=$one}"
  done
  on_host basalt volume set m --owner any >/dev/null
}
IFS=, read -ra WHICH <<<"${ROLES:-holder,owner,third}"; HOWS=(kill restart 2 12 30 in out both off)
if [ -n "$ROUNDS" ]; then
  step "these rounds: $ROUNDS"
  for r in ${ROUNDS//,/ }; do round "${r%/*}" "${r#*/}"; done
elif [ -n "$KILLS" ]; then
  step "$KILLS rounds at random"
  for ((r = 0; r < KILLS; r++)); do round "${WHICH[RANDOM % ${#WHICH[@]}]}" "${HOWS[RANDOM % ${#HOWS[@]}]}"; done
elif [ -n "$EVERY" ]; then
  for which in "${WHICH[@]}"; do
    step "the $which dies, hangs and is cut off"
    for how in "${HOWS[@]}"; do round "$which" "$how"; done
  done
else
  step "nodes die and come back"; round holder kill; round owner kill
  step "a node hangs"; round owner 12
  step "nodes are cut off"; round holder in; round owner both
fi

step "both copies hold the same"; same

step "it has one copy again"
begin "$D"; check "another policy" quiet on_host basalt volume set m --policy default
went "a copy is taken away"
check "one copy is left" wait_until 60 copies 1 m active
measured
finish
