#!/bin/bash
# Copies on two of three nodes, a host on all three paths: I/O goes on while nodes die, hang, are cut off and come back, and while copies and owners change.
# Which rounds: guest/mirrors.sh. HANDOVERS: so many instead of 8.
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
a_volume m 3

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

rounds holder/kill owner/kill owner/12 holder/in owner/both
step "both copies hold the same"; same

step "it has one copy again"
begin "$D"; check "another policy" quiet on_host basalt volume set m --policy default
went "a copy is taken away"
check "one copy is left" wait_until 60 copies 1 m active
measured
finish
