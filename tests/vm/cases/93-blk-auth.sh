#!/bin/bash
# What blktests' nvme group tries of authentication (041 to 045); every hash with every group is in 45-chap.
#: timeout 300
#: kernels 6.12
. "$VM_LIB"
MIB=1048576 SELF=$(cat /etc/nvme/hostnqn)
LOG_ALLOWED='[Ff]ailed|authentication|[Cc]onnect|[Ii]nvalid|rejected|status 401|Authentication Required'
on_host volume_create v $((64 * MIB)) >/dev/null || die "volume create"
on_host basalt host add me "$SELF" >/dev/null || die "host add"
key() { nvme gen-dhchap-key --nqn "$NQN" "$@" 2>/dev/null | grep -o 'DHHC[^ ]*'; }
secret() { printf '%s\n' "$1" >"$VM_CTL/new.key"; on_host new_secret me >/dev/null || die "no secret"; } # of the host
controller_secret() { printf '%s\n' "$1" >"$VM_CTL/new.key"; on_host new_controller_secret me >/dev/null || die "no secret"; }
chap() { connect "$NQN" --nr-io-queues=1 --dhchap-secret="$@"; }
gone() { nvme disconnect -n "$NQN" >/dev/null 2>&1; }
said() { dmesg | tail -n 25 | grep -qE "$1"; }

K=$(key) || die "no key"; secret "$K"
check_fails "041: without a secret" connect "$NQN" --nr-io-queues=1
check "041: with it" chap "$K"; gone
for hmac in 0 1 2 3; do K=$(key --hmac=$hmac); secret "$K"; check "042: a key transformed with hash $hmac" chap "$K"; gone; done
for length in 32 48 64; do K=$(key --key-length=$length); secret "$K"; check "042: a key of $length bytes" chap "$K"; gone; done
on_host basalt host set me --dhchap-group null >/dev/null
for h in sha256 sha384 sha512; do on_host basalt host set me --dhchap-hash $h >/dev/null; dmesg -C; check "043: $h" chap "$K"; check "043: was used" said "hmac\($h\)"; gone; done
on_host basalt host set me --dhchap-hash usual >/dev/null
for g in 2048 3072 4096 6144 8192; do on_host basalt host set me --dhchap-group ffdhe$g >/dev/null; dmesg -C; check "043: ffdhe$g" chap "$K"; check "043: was used" said "ffdhe$g"; gone; done
on_host basalt host set me --dhchap-group ffdhe2048 >/dev/null
CK=$(key) || die "no key"; controller_secret "$CK"
check "044: the host alone" chap "$K"; gone
check_fails "044: a wrong secret of the controller" chap "$K" --dhchap-ctrl-secret="$K"
check "044: both" chap "$K" --dhchap-ctrl-secret="$CK"
gone
check_fails "044: a damaged secret of the controller" chap "$K" --dhchap-ctrl-secret="${CK/:00:/:00:A}"

step "045: authentication of a live connection"
dmesg -C
check "045: connect" chap "$K" --dhchap-ctrl-secret="$CK"
D=$(device v) || die "no device"
C=/sys/class/nvme/$(controller "$NQN")
again() { # again NAME FILE SECRET PATTERN: a secret is written, the kernel authenticates anew
  dmesg -C; echo "$3" >"$C/$2" || FAILURES=$((FAILURES + 1))
  check "045: $1" wait_until 20 said "$4"
  check "045: still live" is_live "$NQN"
}
again "the same secret" dhchap_secret "$K" 'qid 0: authenticated'
K2=$(key); secret "$K2"; again "a new one" dhchap_secret "$K2" 'qid 0: authenticated'
CK2=$(key); controller_secret "$CK2"; again "a new one of the controller" dhchap_ctrl_secret "$CK2" 'qid 0: controller authenticated'
on_host basalt host set me --dhchap-group ffdhe8192 >/dev/null; again "another group" dhchap_secret "$K2" 'ffdhe8192'
on_host basalt host set me --dhchap-hash sha512 >/dev/null; again "another hash" dhchap_secret "$K2" 'sha512'
verified "045: I/O" --filename="$D" --rw=randwrite --bs=4k --iodepth=8 --size=1m
finish
