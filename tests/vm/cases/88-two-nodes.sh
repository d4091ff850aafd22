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
a_volume m 2
begin "$D"; check "another policy" quiet on_host basalt volume set m --policy two
went "a copy is added"; whole 1

rounds owner/kill third/kill owner/both
step "both copies hold the same"; same
measured
finish
