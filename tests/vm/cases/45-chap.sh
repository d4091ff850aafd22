#!/bin/bash
# In-band authentication (DH-HMAC-CHAP): every hash with every group, one-way and mutual, wrong secrets, a new secret for a live connection.
#: timeout 400
. "$VM_LIB"
if ! modprobe nvme-auth 2>/dev/null; then
  echo "skipped: this kernel is built without CONFIG_NVME_HOST_AUTH"; finish
fi
MIB=1048576 SELF=$(cat /etc/nvme/hostnqn)
# what a refused host says is not a defect
LOG_ALLOWED='[Ff]ailed|authentication|[Cc]onnect|[Ii]nvalid|rejected|status 401|Authentication Required'
on_host volume_create v $((64 * MIB)) || die "volume create"
on_host basalt host add me "$SELF" >/dev/null || die "host add"
SECRET=$(on_host basalt host set me --dhchap-generate) || die "host set: $SECRET"

chap() { connect "$NQN" --nr-io-queues=1 --dhchap-secret="$@"; } # chap SECRET OPTION...
said() { dmesg | tail -n 25 | grep -qE "$1"; }
gone() { nvme disconnect -n "$NQN" >/dev/null 2>&1; }

step "every hash with every group"
for h in sha256 sha384 sha512; do
  for g in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do
    on_host basalt host set me --dhchap-hash $h --dhchap-group $g >/dev/null || die "host set $h $g"
    dmesg -C
    check "$h $g [$(cut -d' ' -f1 /proc/uptime)]" chap "$SECRET"
    check "that is what was used" said "authenticated with hash hmac\($h\) dhgroup $g"
    gone
  done
done

step "wrong secrets"
on_host basalt host set me --dhchap-hash usual --dhchap-group usual >/dev/null || die "host set"
WRONG=$(nvme gen-dhchap-key --hmac=1 --nqn "$SELF" 2>/dev/null | grep DHHC) || die "no key"
dmesg -C
check_fails "a wrong secret is refused" chap "$WRONG"
check "by authentication" said 'qid 0.*[Aa]uthentication.*failed|auth.*fail'
check_fails "no secret is refused" connect "$NQN" --nr-io-queues=1
check_fails "a controller that has no secret is refused by the host" chap "$SECRET" --dhchap-ctrl-secret="$WRONG"
NEW=$(nvme gen-dhchap-key --hmac=3 --key-length=64 --nqn "$SELF" 2>/dev/null | grep DHHC)

step "mutual"
CTRL=$(on_host basalt host set me --dhchap-controller-generate --hash 512) || die "controller secret: $CTRL"
check_fails "a wrong secret of the controller is noticed" chap "$SECRET" --dhchap-ctrl-secret="$WRONG"
dmesg -C
check "both sides" chap "$SECRET" --dhchap-ctrl-secret="$CTRL"
check "the host has verified the controller" said 'qid 0: controller authenticated'
D=$(device v) || die "no block device"
verified "I/O on authenticated queues" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=2m

step "a new secret"
printf '%s\n' "$NEW" >"$VM_CTL/new.key"
check "on the target" on_host new_secret me
verified "who is in stays in" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=1m
C=$(controller "$NQN") || die "not live"
dmesg -C
check "the kernel authenticates again" eval "echo '$NEW' >/sys/class/nvme/$C/dhchap_secret"
check "with success" wait_until 20 said 'qid 0: authenticated with hash'
check "it is still live" is_live "$NQN"
verified "I/O after it" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=1m
gone
check_fails "the old secret does not do any more" chap "$SECRET" --dhchap-ctrl-secret="$CTRL"
check "the new one does" chap "$NEW" --dhchap-ctrl-secret="$CTRL"
gone

step "a subsystem that asks for authentication"
check "set" on_host basalt subsystem set default --security authenticated
check "a host with its secret" chap "$NEW" --dhchap-ctrl-secret="$CTRL"
gone
check "the host's secret is taken away" on_host basalt host set me --no-dhchap
check_fails "a host without one is refused" connect "$NQN" --nr-io-queues=1
on_host basalt subsystem set default --security plain >/dev/null || die "subsystem set"
check "and let in where nothing is asked" connect "$NQN" --nr-io-queues=1
finish
