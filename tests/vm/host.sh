#!/bin/bash
# This machine's side of a case: runs the daemon, and does what the guest asks for (on_host in guest/lib.sh).
#
# `vm` starts it beside the guest.  It ends when the guest has ended.  It owns a folder of its own with the daemons'
# configuration, state and devices, and ends by id only what it started.  Exits with 1 when a daemon did not stop
# cleanly.  With VM_NODES above 1 it runs so many daemons and forms a cluster of them; node 1 is the one that is meant
# where a verb names none.  The last VM_WITNESSES of them are witnesses.  With VM_APART each of them has a network namespace of its own, so that nodes can be cut off.
# Needs: BASALT (the program), VM_CTL (the folder shared with the guest), VM_OUT (where logs are kept).
set -uo pipefail
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
DIR=$(mktemp -d "${TMPDIR:-/tmp}/basalt-vm-host.XXXXXX")
NODES=${VM_NODES:-1} DATA_NODES=$((${VM_NODES:-1} - ${VM_WITNESSES:-0})) PORTS=() DISCOVERY_PORTS=() ISCSI_PORTS=()
DAEMONS=() # process ids, by node
HOLDERS=() # with VM_APART: processes that keep the nodes' network namespaces
etcd_of() { pgrep -P "${DAEMONS[$1]}" -x etcd; } # NODE: the member of etcd that its daemon runs
. "$ROOT/tests/vm/administrators.sh"
cleanup() {
  local n pid
  ((${#ADMINISTRATORS[@]} == 0)) || kill "${ADMINISTRATORS[@]}" 2>/dev/null
  for n in "${!DAEMONS[@]}"; do
    # A daemon that is killed cannot end its member.
    pid=$(etcd_of "$n"); kill -9 "${DAEMONS[n]}" $pid 2>/dev/null; wait "${DAEMONS[n]}" 2>/dev/null
  done
  ((${#HOLDERS[@]} == 0)) || kill "${HOLDERS[@]}" 2>/dev/null
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

# --------------------------------------------------------------------------------- networks
#
# With VM_APART everything runs in a network namespace that `run` has made.  In it is a bridge, and the guest reaches the
# nodes through it; each node has a namespace with one link to the bridge.  Who finds whom is written down (permanent
# neighbours), so a cut is a wrong address: frames go to nobody, without a word to who sends them.

address_of() { if [[ -n ${VM_APART:-} ]]; then echo "10.77.0.$1"; else echo 127.0.0.1; fi; } # NODE
guest_address() { if [[ -n ${VM_APART:-} ]]; then address_of "$1"; else echo "10.0.$((1 + $1)).2"; fi; } # NODE: as the guest reaches it, by NIC N-1
enter() { ENTER=(); [[ -z ${VM_APART:-} ]] || ENTER=(nsenter --target "${HOLDERS[$1]}" --net); } # NODE: sets what a command there begins with
in_node() { local ENTER; enter "$1"; "${ENTER[@]}" "${@:2}"; } # NODE COMMAND... (a program)
knows() { in_node "$1" ip neigh replace "10.77.0.$2" lladdr "02:00:00:00:00:$3" nud permanent dev eth0; } # NODE OTHER MAC-END
hosts_know() { ip neigh replace "10.77.0.$1" lladdr "02:00:00:00:00:$2" nud permanent dev nodes; } # NODE MAC-END
make_networks() {
  local n
  [[ -n ${VM_APART:-} ]] || return 0
  ip link set lo up && ip link add nodes address 02:00:00:00:00:fe type bridge && ip addr add 10.77.0.254/24 dev nodes && ip link set nodes up || return 1
  for ((n = 1; n <= NODES; n++)); do
    unshare --net sleep infinity & HOLDERS[n]=$!
    while [[ $(readlink "/proc/${HOLDERS[n]}/ns/net") = "$(readlink /proc/self/ns/net)" ]]; do kill -0 "${HOLDERS[n]}" || return 1; sleep 0.01; done
    ip link add "node$n" type veth peer name eth0 address "02:00:00:00:00:0$n" netns "${HOLDERS[n]}" && ip link set "node$n" master nodes up &&
      in_node "$n" ip link set lo up && in_node "$n" ip addr add "10.77.0.$n/24" dev eth0 && in_node "$n" ip link set eth0 up || return 1
  done
  do_heal
}
do_cut() { # NODE in|out|both|off: what others send to it, what it sends to them, or both, is lost; off: hosts do not reach it either
  local n=$1 how=$2 other
  for ((other = 1; other <= NODES; other++)); do
    ((other != n)) || continue
    [[ $how = in ]] || knows "$n" "$other" ff
    [[ $how = out ]] || knows "$other" "$n" ff
  done
  [[ $how != off ]] || { hosts_know "$n" ff; knows "$n" 254 ff; }
}
do_cut_between() { knows "$1" "$2" ff; knows "$2" "$1" ff; } # NODE NODE: the link between the two
do_heal() { # all cuts
  local n other
  for ((n = 1; n <= NODES; n++)); do
    hosts_know "$n" "0$n"; knows "$n" 254 fe
    for ((other = 1; other <= NODES; other++)); do ((other == n)) || knows "$n" "$other" "0$other"; done
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

node_dir() { if (($1 == 1)); then echo "$DIR"; else echo "$DIR/node$1"; fi; }
node_log() { if (($1 == 1)); then echo "$VM_OUT/daemon.log"; else echo "$VM_OUT/daemon$1.log"; fi; }
basalt_on() { local n=$1; shift; "$BASALT" --socket "$(node_dir "$n")/data/api.sock" "$@"; }
basalt() { basalt_on 1 "$@"; }

listener() { # listener PORT KIND NIC: one portal; guests reach 127.0.0.1 as 10.0.(2+NIC).2, and nodes that are apart as what they are
  local at; at=$(address_of $(($3 + 1)))
  printf '[[listeners]]\naddr = "%s:%s"\nkind = "%s"\n' "$at" "$1" "$2"
  [[ -n ${VM_APART:-} ]] || printf 'advertise = "10.0.%s.2:%s"\n' $((2 + $3)) "$1"
}
write_config() { # of all nodes; guests reach node N by NIC N-1
  local n dir name
  PORTAL=$(free_port) PORT2=$(free_port)
  for ((n = 1; n <= NODES; n++)); do
    dir=$(node_dir "$n"); mkdir -p "$dir"
    if ((NODES == 1)); then name=vm; else name=node$n; fi
    PORTS[n]=$(free_port) DISCOVERY_PORTS[n]=$(free_port) ISCSI_PORTS[n]=$(free_port)
    # Destaging begins at once, so that the cases see capacity devices at work.
    cat >"$dir/basalt.toml" <<TOML
data_dir = "$dir/data"
[node]
name = "$name"
[cores]
count = $((NODES == 1 ? 2 : 1))
pin = false
[store]
destage_low_percent = 1
destage_high_percent = 50
[target]
host_connections_max = 1032
TOML
    [[ -z ${VM_LOG:-} ]] || printf '[log]\nlevel = "%s"\n' "$VM_LOG" >>"$dir/basalt.toml"
    if ((NODES > 1)); then printf '[cluster]\nbalance = false\netcd_programs = "%s"\n' "${ETCD_BIN:-$ROOT/target/tools/etcd/usr/bin}" >>"$dir/basalt.toml"; fi
    { listener "${PORTS[n]}" io $((n - 1)); listener "${DISCOVERY_PORTS[n]}" discovery $((n - 1)); } >>"$dir/basalt.toml"
    [[ -z ${VM_ISCSI:-} ]] || listener "${ISCSI_PORTS[n]}" iscsi $((n - 1)) >>"$dir/basalt.toml"
  done
  if ((${VM_NICS:-1} > 1 && NODES == 1)); then listener "$PORT2" io 1 >>"$DIR/basalt.toml"; fi
}

launch() { # NODE
  local n=$1 ENTER
  enter "$n"; "${ENTER[@]}" "$BASALT" serve --config "$(node_dir "$n")/basalt.toml" >>"$(node_log "$n")" 2>&1 </dev/null & DAEMONS[n]=$!
}
do_daemon_start() { launch "${1:-1}"; serves "${1:-1}"; } # [NODE]: waits until it serves
do_daemons_start() { local n; for n in "$@"; do launch "$n"; done; for n in "$@"; do serves "$n" || return 1; done; } # NODE..., in this order
serves() { # NODE: waits until it does
  local i n=$1
  for ((i = 0; i < 600; i++)); do
    if ! kill -0 "${DAEMONS[n]}" 2>/dev/null; then
      wait "${DAEMONS[n]}"; echo "the daemon ended at once with $?:"; tail -n 5 "$(node_log "$n")"; unset "DAEMONS[n]"; return 1
    fi
    if basalt_on "$n" status >/dev/null 2>&1; then return 0; fi
    if ((n > DATA_NODES)) && basalt_on "$n" cluster status >/dev/null 2>&1; then return 0; fi # that is all that a witness answers
    sleep 0.05
  done
  echo "the daemon does not serve after 30 s"; return 1
}
do_daemon_kill() { # [NODE], and its member of etcd with it
  local n=${1:-1} etcd; etcd=$(etcd_of "$n")
  kill -9 "${DAEMONS[n]}" $etcd && wait "${DAEMONS[n]}" 2>/dev/null; unset "DAEMONS[n]"; return 0
}
do_daemon_stop() { # [NODE]: SIGTERM; the daemon has to end by itself with 0
  local n=${1:-1} rc=0 i pid; pid=${DAEMONS[n]:-}; unset "DAEMONS[n]"
  kill -TERM "$pid" || { echo "the daemon is not there"; return 1; }
  for ((i = 0; i < 300; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  if ((i == 300)); then echo "the daemon has not ended in 30 s"; kill -9 "$pid"; fi
  wait "$pid" || rc=$?
  [[ $rc = 0 ]] || { echo "the daemon ended with $rc"; tail -n 5 "$(node_log "$n")"; }
  return "$rc"
}
do_daemon_signal() { kill "-$2" "${DAEMONS[$1]}"; } # NODE SIGNAL
do_etcd_signal() { kill "-$2" "$(etcd_of "$1")"; } # NODE SIGNAL: to the member of etcd that its daemon runs
etcd_says() { jq -r ".$2" "$(find "$(node_dir "$1")/data" -name etcd.json)"; } # NODE SETTING: of its member of etcd
etcdctl_on() { # NODE ARGUMENT...: as that node's daemon, with all members
  local of='"client-transport-security"' ends
  ends=$(find "$DIR" -name etcd.json -exec jq -r '."advertise-client-urls"' {} + | sort -u | paste -sd,)
  in_node "$1" env ETCDCTL_API=3 "${ETCD_BIN:-$ROOT/target/tools/etcd/usr/bin}/etcdctl" --endpoints="$ends" --cacert="$(etcd_says "$1" "$of.\"trusted-ca-file\"")" \
    --cert="$(etcd_says "$1" "$of.\"cert-file\"")" --key="$(etcd_says "$1" "$of.\"key-file\"")" "${@:2}"
}
do_etcd_lead() { # NODE: its member of etcd leads from now on
  local id; id=$(etcdctl_on "$1" member list | awk -F', ' -v name="$(etcd_says "$1" name)" '$3 == name { print $1 }')
  [[ -n $id ]] || { echo "no member of node $1"; return 1; }
  etcdctl_on "$1" move-leader "$id"
}
do_leader() { basalt_on "${1:-1}" node list --json | jq -r '.[] | select(.leads) | .name'; } # [NODE]: the control leader, as it knows
do_voters() { basalt_on "${1:-1}" cluster status --json | jq '[.members[] | select(.votes and .trouble == null)] | length'; }
do_daemon_cpu() { # processor time of the daemon and the time, both in ms
  local f; read -r -a f < <(sed 's/.*) //' "/proc/${DAEMONS[1]}/stat")
  echo "$(((f[11] + f[12]) * 1000 / $(getconf CLK_TCK))) $(($(date +%s%N) / 1000000))"
}
do_metric() { # NAME: the sum of a metric of the daemon over all its labels
  curl -sS --unix-socket "$DIR/data/api.sock" http://localhost/metrics | awk -v name="$1" '{ sub(/\{.*\}/, "") } $1 == name { sum += $2; n++ } END { printf "%.0f\n", sum; exit !n }'
}
do_daemon_work() { # processor time of the daemon in ms, bytes written to its cache devices
  local cpu; read -r cpu _ < <(do_daemon_cpu)
  echo "$cpu $(curl -s --unix-socket "$DIR/data/api.sock" http://localhost/metrics | awk '/^basalt_device_write_bytes.*cache/ { n += $NF } END { printf "%.0f", n }')"
}
do_daemon_log() { tail -n "${1:-20}" "$VM_OUT/daemon.log"; }

create_groups() { # on each node; sparse files; fewer shards than usual, since the files are small; of several nodes each has two devices for stripes
  local n dir more
  for ((n = 1; n <= DATA_NODES; n++)); do
    dir=$(node_dir "$n")
    more=(); ((NODES == 1)) || more=(--capacity "$dir/capacity1:${VM_CAPACITY:-4GiB}")
    basalt_on "$n" group create "g$n" --shards 4 --cache "$dir/cache:512MiB" --capacity "$dir/capacity0:${VM_CAPACITY:-4GiB}" "${more[@]}" || return 1
  done
}
form_cluster() { # of all nodes
  local n token invite join
  ((NODES > 1)) || return 0
  basalt cluster create --address "$(address_of 1):0" || return 1
  for ((n = 2; n <= NODES; n++)); do
    do_daemon_start "$n" || return 1
    if ((n <= DATA_NODES)); then invite=(node invite) join=(cluster join); else invite=(node invite --witness) join=(witness join); fi
    token=$(basalt "${invite[@]}" 2>/dev/null) && basalt_on "$n" "${join[@]}" "$token" --address "$(address_of "$n"):0" || return 1
  done
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
  basalt subsystem detach default "$2" --yes && basalt subsystem attach default "$3" --nsid "$1"
}
do_new_secret() { # HOST: the secret is in new.key of the shared folder, as on a command line others could see it
  basalt host set "$1" --dhchap-secret-file "$VM_CTL/new.key"
}
do_new_chap_secrets() { # HOST: those of the host and of targets, in chap.host and chap.target of the shared folder
  basalt host set "$1" --chap-secret-file "$VM_CTL/chap.host" --chap-target-secret-file "$VM_CTL/chap.target"
}
do_new_controller_secret() { basalt host set "$1" --dhchap-controller-secret-file "$VM_CTL/new.key"; }
do_subsystems_create() { local n; for ((n = 1; n <= $1; n++)); do basalt subsystem create "many$n" --allow-any-host >/dev/null || return 1; done; } # COUNT: many1, many2, ...
do_subsystems_delete() { local n; for ((n = 1; n <= $1; n++)); do basalt subsystem delete "many$n" --yes || return 1; done; }
do_volumes_create() { local n; for ((n = 1; n <= $1; n++)); do do_volume_create "v$n" "$2" >/dev/null || return 1; done; } # COUNT BYTES: v1, v2, ...
do_volumes_delete() { local n; for ((n = 1; n <= $1; n++)); do do_volume_delete "v$n" >/dev/null || return 1; done; }
do_remap_three() { # 0|1: namespaces 1 to 3 of the default subsystem are v1 to v3 (0) or v4 to v6 (1), and there are no others
  local n; for n in 1 2 3 4 5 6; do basalt subsystem detach default v$n --yes >/dev/null 2>&1; done
  for n in 1 2 3; do basalt subsystem attach default v$((n + 3 * $1)) --nsid $n >/dev/null || return 1; done
}
do_connections_max() { sed -i "s/^host_connections_max.*/host_connections_max = $1/" "$DIR/basalt.toml"; } # of a host, from the daemon's next start
do_host_settings() { cp -r "$ROOT/packaging/host" "$VM_CTL/host"; } # the settings that are shipped, in host of the shared folder
do_keep() { cp "$VM_CTL/$1" "$VM_OUT/"; } # a file of the shared folder goes to the logs
do_portal_add() { listener "$PORTAL" io 0 >>"$DIR/basalt.toml"; } # one more, from the daemon's next start
do_portal() { echo "$PORTAL"; }
do_drive_warns() { echo "qom-set /machine/peripheral/nvme$1 smart_critical_warning $2" >"$VM_CTL/mon.in"; } # DRIVE BITS: what a drive of QEMU's says in its health log from now on
do_link() { echo "set_link net$1 $2" >"$VM_CTL/mon.in"; } # NIC on|off: off, packets vanish without a word
do_basalt() { basalt "$@"; }
do_basalt_on() { basalt_on "$@"; } # NODE ARGUMENT...
do_volume_create_on() { # NODE NAME BYTES: a volume with its data there
  local new; new=$(printf '{"name":"%s","bytes":%s,"fault_domain":"node%s"}' "$2" "$3" "$1")
  curl -sS --fail-with-body --unix-socket "$DIR/data/api.sock" -H 'content-type: application/json' -d "$new" http://localhost/api/v1/volumes
}
do_owner_on() { basalt_on "$1" volume show "$2" --json | jq -re .owner; } # NODE VOLUME: as that node says
do_copies() { basalt_on "$1" volume show "$2" --json | jq -r '[.components[].state] | join(" ")'; } # NODE VOLUME: their states
do_copy_nodes() { basalt_on "$1" volume show "$2" --json | jq -r '.components[].node'; } # NODE VOLUME
do_stripes() { basalt_on "$1" volume show "$2" --json | jq -r 'if .moving then "laid out anew" else [.components[].stripe] | max + 1 end'; } # NODE VOLUME
do_owner() { basalt volume show "$1" --json | jq -r .owner; } # VOLUME: the name of the node

# -------------------------------------------------------------------------------------- run

: >"$VM_OUT/daemon.log"
write_config
if make_networks && do_daemon_start && form_cluster && create_groups; then
  NQN=$(basalt subsystem list --json | jq -r '.[] | select(.name == "default") | .nqn')
  env=("ADDR=10.0.2.2" "PORT=${PORTS[1]}" "ADDR2=10.0.3.2" "PORT2=$PORT2" "DISCOVERY_PORT=${DISCOVERY_PORTS[1]}" "NODES=$NODES" "DATA_NODES=$DATA_NODES"
    "NQN=$NQN" "KILLS=${KILLS:-}" "ROLES=${ROLES:-}" "ROUNDS=${ROUNDS:-}" "LEADER=${LEADER:-}" "EVERY=${EVERY:-}" "CHANGES=${CHANGES:-}" "HANDOVERS=${HANDOVERS:-}" "LARGE=${LARGE:-}" "KEEP_ALIVE=${KEEP_ALIVE:-}" "APART=${VM_APART:-}")
  for ((n = 1; n <= NODES; n++)); do env+=("ADDR_OF[$n]=$(guest_address "$n")" "PORT_OF[$n]=${PORTS[n]}" "DISCOVERY_PORT_OF[$n]=${DISCOVERY_PORTS[n]}" "ISCSI_PORT_OF[$n]=${ISCSI_PORTS[n]}"); done
  leave_env "${env[@]}"
else
  tail -n 20 "$VM_OUT"/daemon*.log; leave_env START_FAILED=1
fi
serve_requests
# What the daemon counted, for whoever looks for the cause of a case that failed.
curl -sS --max-time 5 --unix-socket "$DIR/data/api.sock" http://localhost/metrics >"$VM_OUT/metrics" 2>/dev/null

rc=0
for ((n = 1; n <= NODES; n++)); do
  if [[ -z ${DAEMONS[n]:-} ]]; then echo "the daemon $n does not run at the end"; rc=1
  elif ! kill -0 "${DAEMONS[n]}" 2>/dev/null; then wait "${DAEMONS[n]}"; echo "the daemon $n died with $?"; unset "DAEMONS[n]"; rc=1; fi
done
for n in "${!DAEMONS[@]}"; do do_daemon_stop "$n" || rc=1; done
if grep -aE 'panicked|overflow' "$VM_OUT"/daemon*.log; then rc=1; fi
exit $rc
