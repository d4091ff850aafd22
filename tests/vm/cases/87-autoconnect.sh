#!/bin/bash
# Under systemd: nvmf-autoconnect by discovery.conf with --persistent; new subsystems and portals connect by event; a kill of the daemon.
#: layers systemd
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target cannot be killed"; exit 0; }
MIB=1048576
LOG_BAD=$LOG_BAD_KILLED
equal "process 1" "$(cat /proc/1/comm)" systemd
on_host volume_create first $((128 * MIB)) 4096 || die "volume create"
# as the user guide says it
echo "--transport=tcp --traddr=$ADDR --trsvcid=$DISCOVERY_PORT --persistent --reconnect-delay=1 --ctrl-loss-tmo=120" >/etc/nvme/discovery.conf
check "nvmf-autoconnect starts" systemctl start nvmf-autoconnect.service
check "the subsystem is connected" wait_until 20 is_live "$NQN"
D=$(device first) || die "no block device"
discovery() { grep -lx discovery /sys/class/nvme/*/cntrltype; }
equal "and one discovery controller stays" "$(discovery | wc -l)" 1
live_discovery() { [ "$(cat "$(dirname "$(discovery)")/state")" = live ]; }

step "what appears later"
SECOND=$(on_host subsystem_create second "$(cat /etc/nvme/hostnqn)") || die "subsystem create"
check "a new subsystem is connected by event" wait_until 20 is_live "$SECOND"
check "by nvmf-connect@, which udev started" wait_until 10 eval "journalctl --no-pager -o cat | grep -q 'nvmf-connect@.*trsvcid'"
on_host volume_create later $((64 * MIB)) 4096 "$SECOND" || die "volume create"
L=$(device later) || die "a new volume does not appear"
verified "and takes I/O" --filename="$L" --rw=randwrite "$MIXED" --iodepth=8 --size=4m

step "the daemon is killed, and comes back with one more portal"
on_host portal_add || die "portal add"
survived "I/O over a kill" --filename="$D" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,2m
check "both subsystems are connected" wait_until 40 eval "is_live $NQN && is_live $SECOND"
check "the discovery controller as well" wait_until 40 live_discovery
PORTAL=$(on_host portal)
check "the new portal is connected by the event after it" wait_until 30 grep -q "trsvcid=$PORTAL" /sys/class/nvme/*/address
verified "the other subsystem takes I/O" --filename="$L" --rw=randwrite "$MIXED" --iodepth=8 --size=4m --randseed=4
check "the service went well" eval "[ \"\$(systemctl show -P Result nvmf-autoconnect.service)\" = success ]"
finish
