#!/bin/bash
# The host's side of a case: runs the daemon, and does what the guest asks for (on_host in guest/lib.sh).
#
# Started by `vm` beside the guest, ends when the guest has ended.  Owns a folder of its own with the daemon's
# configuration, state and devices, and ends by id only what it started.  Exits with 1 when the daemon did not stop cleanly.
# Needs: BASALT (the program), VM_CTL (the folder shared with the guest), VM_OUT (where logs are kept).
set -uo pipefail
DIR=$(mktemp -d "${TMPDIR:-/tmp}/basalt-vm-host.XXXXXX")
DAEMON=''
cleanup() {
  if [[ -n $DAEMON ]]; then kill -9 "$DAEMON" 2>/dev/null; wait "$DAEMON" 2>/dev/null; fi
  rm -rf "$DIR"
}
trap cleanup EXIT; trap 'exit 1' INT TERM HUP

free_port() { # a port of 127.0.0.1 that nothing listens on, below the range that the kernel deals out
  local p
  while :; do
    p=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
  done
}

# --------------------------------------------------------------------------------- requests

leave_env() { # leave_env LINE...: what the guest may know
  printf '%s\n' "$@" >"$VM_CTL/env.new"; mv "$VM_CTL/env.new" "$VM_CTL/env"
}

serve_requests() { # until the guest has ended; a request is a file of arguments, each ended by a NUL
  local f n rc; local -a args
  while [[ ! -e $VM_CTL/ended ]]; do
    for f in "$VM_CTL"/req.*; do
      [[ -e $f ]] || continue
      n=${f##*/req.}; mapfile -d '' args <"$f"; rm -f "$f"
      echo "[$(date +%T)] ${args[*]}"
      if [[ $(type -t "do_${args[0]}") = function ]]; then "do_${args[0]}" "${args[@]:1}" >"$VM_CTL/out.$n" 2>&1; rc=$?
      else echo "host.sh has no verb ${args[0]}" >"$VM_CTL/out.$n"; rc=99; fi
      sed 's/^/    /' "$VM_CTL/out.$n"; [[ $rc = 0 ]] || echo "    status $rc"
      echo "$rc" >"$VM_CTL/rc.new"; mv "$VM_CTL/rc.new" "$VM_CTL/rc.$n"
    done
    sleep 0.05
  done
}

if [[ -n ${VM_REFERENCE:-} ]]; then # the target runs in the guest (guest/reference.sh)
  leave_env ADDR=127.0.0.1 PORT=4420 DISCOVERY_PORT=4420 NQN=nqn.2026-11.io.basalt:default REFERENCE=1
  while [[ ! -e $VM_CTL/ended ]]; do sleep 0.2; done
  exit 0
fi

# ------------------------------------------------------------------------------- the daemon

basalt() { "$BASALT" --socket "$DIR/data/api.sock" "$@"; }

write_config() {
  PORT=$(free_port) DISCOVERY_PORT=$(free_port)
  # Guests reach 127.0.0.1 as 10.0.2.2.  Destaging begins at once, so that the cases see capacity devices at work.
  cat >"$DIR/basalt.toml" <<TOML
data_dir = "$DIR/data"
[host]
name = "vm"
[cores]
count = 2
pin = false
[[listeners]]
addr = "127.0.0.1:$PORT"
kind = "io"
advertise = "10.0.2.2:$PORT"
[[listeners]]
addr = "127.0.0.1:$DISCOVERY_PORT"
kind = "discovery"
advertise = "10.0.2.2:$DISCOVERY_PORT"
[store]
destage_low_percent = 1
destage_high_percent = 50
TOML
}

do_daemon_start() { # waits until it serves
  local n
  "$BASALT" serve --config "$DIR/basalt.toml" >>"$VM_OUT/daemon.log" 2>&1 </dev/null & DAEMON=$!
  for ((n = 0; n < 600; n++)); do
    if ! kill -0 "$DAEMON" 2>/dev/null; then wait "$DAEMON"; echo "the daemon ended at once with $?:"; tail -n 5 "$VM_OUT/daemon.log"; DAEMON=''; return 1; fi
    if basalt status >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  echo "the daemon does not serve after 30 s"; return 1
}
do_daemon_kill() { kill -9 "$DAEMON" && wait "$DAEMON" 2>/dev/null; DAEMON=''; return 0; }
do_daemon_stop() { # SIGTERM; the daemon has to end by itself with 0
  local rc=0 n pid=$DAEMON; DAEMON=''
  kill -TERM "$pid" || { echo "the daemon is not there"; return 1; }
  for ((n = 0; n < 300; n++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  if ((n == 300)); then echo "the daemon has not ended in 30 s"; kill -9 "$pid"; fi
  wait "$pid" || rc=$?
  [[ $rc = 0 ]] || { echo "the daemon ended with $rc"; tail -n 5 "$VM_OUT/daemon.log"; }
  return "$rc"
}
do_daemon_cpu() { # processor time of the daemon and the time, both in ms
  local f; read -r -a f < <(sed 's/.*) //' "/proc/$DAEMON/stat")
  echo "$(((f[11] + f[12]) * 1000 / $(getconf CLK_TCK))) $(($(date +%s%N) / 1000000))"
}
do_daemon_log() { tail -n "${1:-20}" "$VM_OUT/daemon.log"; }

create_group() { # sparse files; fewer shards than usual, since the files are small
  basalt group create g1 --shards 4 --cache "$DIR/cache:512MiB" --capacity "$DIR/capacity0:${VM_CAPACITY:-4GiB}"
}

# ------------------------------------------------------- verbs of the cases, in the CLI's words

do_volume_create() { # NAME BYTES [LBA_BYTES [NQN]]
  basalt volume create "$1" --size "$2" --lba "${3:-4096}" ${4:+--subsystem "$4"}
}
do_volume_grow() { basalt volume grow "$1" --size "$2"; }
do_volume_delete() { basalt volume delete "$1" --force --yes; }
do_volume_uuid() { basalt volume show "$1" --json | jq -r .id; }
do_allocated() { basalt volume show "$1" --json | jq .used_bytes; }
do_subsystem_create() { # NAME [HOSTNQN...]: prints its NQN
  local name=$1 h hosts=(); shift
  for h in "$@"; do hosts+=(--host "$h"); done
  ((${#hosts[@]})) || hosts=(--allow-any-host)
  basalt subsystem create "$name" "${hosts[@]}" --json | jq -r .nqn
}
do_remap() { # NSID VOLUME NEW: another volume under the NSID, faster than a host looks
  basalt subsystem detach default "$2" && basalt subsystem attach default "$3" --nsid "$1"
}
do_new_secret() { # HOST: the secret is in new.key of the shared folder, as on a command line others could see it
  basalt host set "$1" --dhchap-secret-file "$VM_CTL/new.key"
}
do_basalt() { basalt "$@"; }

# -------------------------------------------------------------------------------------- run

: >"$VM_OUT/daemon.log"
write_config
if do_daemon_start && create_group; then
  NQN=$(basalt subsystem list --json | jq -r '.[] | select(.name == "default") | .nqn')
  leave_env ADDR=10.0.2.2 "PORT=$PORT" "DISCOVERY_PORT=$DISCOVERY_PORT" "NQN=$NQN" "KILLS=${KILLS:-}"
else
  tail -n 20 "$VM_OUT/daemon.log"; leave_env START_FAILED=1
fi
serve_requests

rc=0
if [[ -z $DAEMON ]]; then echo "the daemon does not run at the end"; rc=1
elif ! kill -0 "$DAEMON" 2>/dev/null; then wait "$DAEMON"; echo "the daemon died with $?"; DAEMON=''; rc=1
else do_daemon_stop || rc=1; fi
if grep -aE 'panicked|overflow' "$VM_OUT/daemon.log"; then rc=1; fi
exit $rc
