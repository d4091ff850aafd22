#!/bin/bash
# open-iscsi and dm-multipath on three nodes, with the settings of packaging/host: I/O goes on while the owner is handed over, dies, hangs and comes back.
# KILLS: so many kills of the owner instead of three.
#: nics 3
#: nodes 3
#: alone yes
#: smp 4
#: layers iscsi multipath
#: kernels 6.12
#: timeout 1500
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target does not speak iSCSI"; exit 0; }
MIB=1048576 T=iqn.2026-11.io.basalt:default
# A path's own failures are the point; the disk above must never see one.
LOG_BAD='I/O error, dev dm-|Buffer I/O error|critical .* error, dev dm-|EXT4-fs (error|warning)'
STALL_MAX_MS=30000 # a busy machine; what was measured is printed
modprobe -a iscsi_tcp sd_mod sg scsi_dh_alua dm-multipath dm-queue-length || die "no iSCSI in this kernel"
mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi /etc/multipath/conf.d
on_host host_settings || die "the settings of packaging/host"
echo "InitiatorName=iqn.2026-11.example:guest" >/etc/iscsi/initiatorname.iscsi
cat "$VM_CTL/host/iscsid.conf" >>/etc/iscsi/iscsid.conf
sed -i 's/^iscsid.startup.*//' /etc/iscsi/iscsid.conf
cp "$VM_CTL/host/multipath.conf" /etc/multipath.conf
/lib/systemd/systemd-udevd --daemon; udevadm trigger; udevadm settle
setsid iscsid -f >/tmp/iscsid.log 2>&1 &

step "a volume with two copies, and three paths to it"
on_host basalt policy create two --failures-to-tolerate 1 >/dev/null || die "policy create"
check "a volume" wait_until 20 quiet on_host basalt volume create m --size 64M --policy two
check "it is served over iSCSI" quiet on_host basalt subsystem set default --iscsi
check "discovery at node 2 names all nodes" wait_until 20 eval \
  '[ "$(iscsiadm -m discovery -t sendtargets -p ${ADDR_OF[2]}:${ISCSI_PORT_OF[2]} | grep -c "$T")" = 3 ]'
check "login at all of them" quiet iscsiadm -m node --login
disks() { local d; for d in /sys/class/iscsi_session/session*/device/target*/*:*:*:*/block/*; do [ -e "$d" ] && echo "${d##*/}"; done; }
check "three disks" wait_until 20 eval '[ "$(disks | wc -l)" = 3 ]'
multipathd -d -s >/tmp/multipathd 2>&1 & MULTIPATHD=$!
map() { local m; m=$(multipathd list maps raw format '%n' 2>/dev/null | head -n 1); [ -n "$m" ] && [ -b "/dev/mapper/$m" ] && echo "/dev/mapper/$m"; }
wait_until 40 eval 'map >/dev/null' || { tail -n 40 /tmp/multipathd; udevadm info "/dev/$(disks | head -n 1)" | grep -E 'ID_|DM_'; multipath -v3 -d | tail -n 60; die "no multipath device"; }
D=$(map)
active() { [ "$(multipathd show paths format '%t %o' 2>/dev/null | grep -c 'active running')" = "$1" ]; }
owner() { local node; node=$(on_host owner_on "$1" m) && echo "${node#node}"; }
slot_of() { # DISK: the node that it is reached by
  local s; s=$(readlink -f "/sys/block/$1/device/../../"); s=$(basename "$s")
  sed -n 's/.*,\([0-9]*\)$/\1/p' <<<"$(iscsiadm -m session -P 0 | sed -nE "s/.*\[${s#session}\] [^,]*(,[0-9]+).*/\1/p")"
}
best() { multipathd show paths format '%d %p' 2>/dev/null | awk '$2 == 50 { print $1 }'; }
follows() { local b; b=$(best); [ "$(wc -w <<<"$b")" = 1 ] && [ "$(slot_of "$b")" = "$(owner "${1:-1}")" ]; } # NODE that answers
check "three active paths" wait_until 40 active 3
check "the best path is that of the owner" wait_until 40 follows
multipath -ll

longest_ms() { # of fio's operations, with the time in which they were submitted: that waits too while no path answers
  sed -nE 's/^ +lat \(([num]sec)\):.*max= *([0-9.]+)(k?).*/\1 \2 \3/p' $FIO_OUT |
    awk '{ v = $2 * ($3 == "k" ? 1000 : 1); v /= $1 == "nsec" ? 1000000 : $1 == "usec" ? 1000 : 1; if (v > most) most = v } END { printf "%d\n", most }'
}
STALLS=() SEED=0
begin() { # fio, 2 s before what is to happen
  SEED=$((SEED + 1)); verify --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,1m --randseed="$SEED" & FIO=$!
  sleep 2; kill -0 $FIO 2>/dev/null || { echo "FAIL fio ended before"; FAILURES=$((FAILURES + 1)); }
}
went() { # WHAT NODE that answers
  local rc=0 ms; wait $FIO || rc=$?; fio_went "I/O goes on: $1" $rc; grep -E 'lat .*max=' $FIO_OUT; ms=$(longest_ms); STALLS+=("$ms")
  check "no operation took longer than $STALL_MAX_MS ms; the longest one $ms ms: $1" [ "$ms" -le $STALL_MAX_MS ]
  check "three active paths" wait_until 90 active 3
  check "both copies are in sync" wait_until 90 eval "[ \"\$(on_host copies $2 m)\" = 'active active' ]"
  check "the best path is that of the owner" wait_until 60 follows "$2"
}

step "it is handed over"
begin
for turn in 1 2; do
  for node in $(on_host copy_nodes 1 m); do check "to $node" quiet on_host basalt volume set m --owner "$node"; sleep 2; done
done
went "handed over 4 times" 1
on_host basalt volume set m --owner any >/dev/null

for ((kill = 1; kill <= ${KILLS:-3}; kill++)); do
  step "the owner is killed, time $kill"
  at=$(owner 1) || at=$(owner 2); other=$((at % 3 + 1))
  begin
  check "node $at is killed" on_host daemon_kill "$at"
  sleep 4; check "it starts again" on_host daemon_start "$at"
  went "a kill of the owner" $other
  check "node 1 answers" wait_until 60 quiet on_host owner_on 1 m
done

for s in 2 12; do
  step "the owner hangs for $s s"
  at=$(owner 1) other=$((at % 3 + 1))
  begin
  check "node $at hangs" on_host daemon_signal "$at" STOP
  sleep $s; check "it goes on" on_host daemon_signal "$at" CONT
  went "the owner hung for $s s" $other
  check "node 1 answers" wait_until 60 quiet on_host owner_on 1 m
done

echo "stalls in ms, sorted: $(printf '%s\n' "${STALLS[@]}" | sort -n | tr '\n' ' ')"
check "nothing holds it" wait_until 20 quiet multipath -f "$(basename "$D")"
kill $MULTIPATHD
quiet iscsiadm -m node --logout
if [ $FAILURES -gt 0 ]; then tail -n 60 /tmp/multipathd; dmesg | grep -aE 'alua|sd [0-9]|dm-|session|connection' | tail -n 60; fi
finish
