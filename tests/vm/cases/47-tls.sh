#!/bin/bash
# TLS 1.3 with pre-shared keys: both hashes, both identities, wrong keys, and plain connections where TLS is asked for.
#: timeout 300
. "$VM_LIB"
if ! tr ',' '\n' </dev/nvme-fabrics | grep -q '^tls'; then
  echo "skipped: this kernel is built without CONFIG_NVME_TCP_TLS"; finish
fi
MIB=1048576 SELF=$(cat /etc/nvme/hostnqn)
# what a refused host says is not a defect
LOG_ALLOWED='[Ff]ailed|[Cc]onnect|[Ii]nvalid|rejected|TLS|tls|handshake'
on_host volume_create v $((64 * MIB)) || die "volume create"
on_host basalt host add me "$SELF" >/dev/null || die "host add"

modprobe -a nvme-keyring tls 2>/dev/null
printf '[debug]\nloglevel=1\ntls=0\nnl=0\n[authenticate]\nkeyrings=.nvme\n[authenticate.client]\n[authenticate.server]\n' >/etc/tlshd.conf
tlshd -s -c /etc/tlshd.conf >/tmp/tlshd.log 2>&1 & TLSHD=$!
sleep 1
kill -0 $TLSHD 2>/dev/null || { cat /tmp/tlshd.log; die "tlshd does not run"; }

# key TEXT VERSION: puts a key into the kernel's keyring, as the host's administrator does
key() { tls-nvme check-tls-key --keyring=.nvme --subsysnqn="$NQN" --hostnqn="$SELF" --identity="$2" --insert --keydata="$1" >/tmp/key.log 2>&1 || { cat /tmp/key.log; return 1; }; }
no_keys() { local k; for k in $(keyctl rlist %keyring:.nvme 2>/dev/null); do keyctl unlink "$k" %keyring:.nvme >/dev/null 2>&1; done; }
over_tls() { tls-nvme connect -t tcp -a "$ADDR" -s "$PORT" -n "$NQN" --hostnqn="$SELF" --hostid="$(cat /etc/nvme/hostid)" --nr-io-queues=1 --tls "$@" 2>&1; }
gone() { nvme disconnect -n "$NQN" >/dev/null 2>&1; }
seen() { on_host basalt host show me --json | grep -q '"encrypted": *true'; }

# GnuTLS knows of pre-shared keys with SHA-384 only since gnutls_psk_allocate_client_credentials2 (3.8.11)
BITS=256
if grep -qa gnutls_psk_allocate_client_credentials2 "$(command -v tlshd)"; then BITS="256 384"; else echo "skipped: keys for SHA-384, which this tlshd cannot use"; fi

step "the right key"
for bits in $BITS; do
  KEY=$(on_host basalt host set me --tls-psk-generate --hash $bits) || die "host set: $KEY"
  for version in 0 1; do
    no_keys
    key "$KEY" $version || die "the key cannot be put into the keyring"
    check "$bits bits, identity of version $version [$(cut -d' ' -f1 /proc/uptime)]" over_tls
    if [ $version = 1 ]; then
      check "the target knows it as encrypted" seen
      D=$(device v) || die "no block device"
      verified "I/O over TLS" --filename="$D" --rw=randwrite $MIXED --iodepth=8 --size=2m
    fi
    gone
  done
done

step "where TLS is demanded"
on_host basalt subsystem set default --security encrypted >/dev/null || die "subsystem set"
check_fails "a plain connection is refused" connect "$NQN" --nr-io-queues=1
check "as a host that is not allowed" eval "dmesg | tail -n 8 | grep -iE 'invalid host|not allowed|16772'"
check "over TLS it is let in" over_tls
gone
nvme discover -t tcp -a "$ADDR" -s "$DISCOVERY_PORT" >/tmp/log
check "discovery says so" grep -qE 'treq: *required|sectype: *tls13' /tmp/log

step "a wrong key"
WRONG=$(tls-nvme gen-tls-key --subsysnqn="$NQN" --hostnqn="$SELF" --identity=0 | grep NVMeTLSkey) || die "no key"
no_keys
key "$WRONG" 0 || die "the key cannot be put into the keyring"
check_fails "a wrong key under the right name is refused" over_tls
no_keys
key "$WRONG" 1 || die "the key cannot be put into the keyring"
check_fails "and one under its own name" over_tls
check "the audit log has both" eval "on_host basalt audit | grep -c authentication-failed | grep -qE '^[2-9]|^[0-9]{2}'"
no_keys
check_fails "no key at all is refused" over_tls
kill $TLSHD
finish
