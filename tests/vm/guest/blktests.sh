#!/bin/bash
# Runs blktests (a checkout is in /blktests) in the guest; arguments are the tests, by default all of the nvme group.
. "$VM_LIB"
SUBSYSTEM=nqn.2026-11.io.basalt:blktests SELF=$(cat /etc/nvme/hostnqn)
# blocks of 512 bytes, as the kernel's target has them over a loop device: tests count in them what a transfer may have
on_host basalt volume create blktests --size 352MiB --lba 512 --detached || die "volume create"
on_host volume_create device $((352 << 20)) 4096 || die "volume create"
on_host basalt host add me "$SELF" || die "host add"
on_host basalt subsystem create blktests --nqn $SUBSYSTEM --host me || die "subsystem create"
on_host basalt subsystem attach blktests blktests || die "attach"
UUID=$(on_host volume_uuid blktests) || die "no volume"
printf 'SUBSYSTEM=%s\nUUID=%s\n' $SUBSYSTEM "$UUID" >/run/blktests
printf 'user:x:1000:1000:user:/tmp:/bin/sh\n' >>/etc/passwd; printf 'user:x:1000:\n' >>/etc/group
printf '#!/bin/sh\nexec "$@"\n' >/usr/local/bin/sudo; chmod 755 /usr/local/bin/sudo
printf '#!/bin/sh\n' >/usr/local/bin/tput; chmod 755 /usr/local/bin/tput # colours
# blktests reads a version in numbers, and 6.12.117+deb12 is none
printf '#!/bin/sh\n/bin/busybox uname "$@" | sed "s/+deb[0-9]*//"\n' >/usr/local/bin/uname; chmod 755 /usr/local/bin/uname
cp /boot/config-* "/boot/config-$(/usr/local/bin/uname -r)"
modprobe -a loop nvmet-tcp # what a test finds loaded it does not unload again
cd /blktests || die "no blktests"
tests=("$@"); [ $# -gt 0 ] || tests=(nvme)
configuration() { printf 'NVME_TARGET_CONTROL=/usr/local/bin/target-control\nNVME_IMG_SIZE=352m\nTIMEOUT=10\nNORMAL_USER=user\n%s\n' "$1" >config; }

step "tests that set up a target"
on_host daemon_stop
configuration ''
./check "${tests[@]}"; rc=$?
devices=() # of a group, --device-only takes them; a test that is named it runs in any case
for t in "${tests[@]}"; do if [ -d "tests/$t" ] || grep -q '^test_device()' "tests/$t"; then devices+=("$t"); fi; done
step "tests of a device that there is"
on_host daemon_start || die "daemon start"
connect "$NQN" --nr-io-queues=2 || die "connect"
D=$(device device) || die "no device"
configuration "TEST_DEVS=($D)"
[ ${#devices[@]} = 0 ] || { ./check --device-only "${devices[@]}"; rc=$((rc + $?)); }
nvme disconnect-all
tar -cf "$VM_CTL/results.tar" results && on_host keep results.tar
exit $((rc > 0))
