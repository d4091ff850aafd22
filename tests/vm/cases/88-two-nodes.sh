#!/bin/bash
# Two nodes with data and a witness, a host on both paths: I/O goes on while each of the three dies, hangs, is cut off and comes back.
# Which rounds: guest/mirrors.sh. The third node is the witness.
#: nics 3
#: nodes 3
#: alone yes
#: witnesses 1
#: apart yes
#: smp 4
#: timeout 900
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
. /vm/files/mirrors.sh

step "a volume with a copy on each node"
on_host basalt policy create two --failures-to-tolerate 1 >/dev/null || die "policy create"
check "a volume" wait_until 20 quiet on_host volume_create m $((64 * MIB))
connect_paths 2
D=$(device m) || die "no block device"
VOLUMES=(m)
begin "$D"; check "another policy" quiet on_host basalt volume set m --policy two
went "a copy is added"; whole 1

rounds m owner/kill third/kill owner/both
step "both copies hold the same"; same m
measured
finish
