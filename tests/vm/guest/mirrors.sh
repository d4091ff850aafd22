# Functions of the cases with volumes that have copies on several nodes: verified I/O while something happens, and how long its longest operation took.
# shellcheck shell=bash
MIB=1048576
LOG_BAD=$LOG_BAD_KILLED
STALL_MAX_MS=15000 # a busy machine; what was measured is printed
STALLS=() SEED=0

connect_paths() { # HOW-MANY: to the first nodes. KEEP_ALIVE: seconds, for what docs/host-settings.md says
  local n keep=2; PATHS=$1
  case $(uname -r) in 6.1.*) keep=1 ;; esac
  for ((n = 1; n <= PATHS; n++)); do
    nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo="${KEEP_ALIVE:-$keep}" --reconnect-delay=1 --ctrl-loss-tmo=600 -a "${ADDR_OF[n]}" -s "${PORT_OF[n]}" ||
      die "connect to node $n"
  done
  S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
  check "all paths live" wait_until 20 live
}
# a_volume NAME PATHS: of one copy, and so many paths to it, and the policy `two`. V, D: it, and its block device; the rounds below are with it.
a_volume() {
  on_host basalt policy create two --failures-to-tolerate 1 >/dev/null || die "policy create"
  check "a volume" wait_until 20 quiet on_host volume_create "$1" $((64 * MIB))
  connect_paths "$2"
  V=$1; VOLUMES=("$V"); D=$(device "$V") || die "no block device"
}
live() { [ "$(cat "$S"/nvme*/state | grep -cx live)" = "$PATHS" ]; }

number() { local node; node=$(on_host "$@") && echo "${node#node}"; }
copies() { [ "$(on_host copies "$1" "$2")" = "$3" ]; } # NODE VOLUME STATES
owned() { [ "$(on_host owner_on "$1" "$2")" = "node$3" ]; } # ASKED-NODE VOLUME OWNER
voters() { [ "$(on_host voters "$1")" = "$2" ]; } # ASKED-NODE HOW-MANY
longest_ms() { # of fio's operations
  sed -nE 's/.* clat \(([num]sec)\):.*max= *([0-9.]+)(k?).*/\1 \2 \3/p' $FIO_OUT |
    awk '{ v = $2 * ($3 == "k" ? 1000 : 1); v /= $1 == "nsec" ? 1000000 : $1 == "usec" ? 1000 : 1; if (v > most) most = v } END { printf "%d\n", most }'
}
begin() { # DISK[:DISK]: fio, 2 s before what is to happen
  SEED=$((SEED + 1)); verify --filename="$1" --rw=randwrite "$MIXED" --iodepth=8 --size=8m --rate=,1m --randseed="$SEED" & FIO=$!
  sleep 2; goes_on
}
goes_on() { kill -0 $FIO 2>/dev/null || { echo "FAIL fio ended before"; FAILURES=$((FAILURES + 1)); }; }
went() { # WHAT [MS-AT-MOST]
  local rc=0 ms max=${2:-$STALL_MAX_MS}; wait $FIO || rc=$?; fio_went "I/O goes on: $1" $rc; ms=$(longest_ms); STALLS+=("$ms $1")
  check "no operation took longer than $max ms; the longest one $ms ms: $1" [ "$ms" -le "$max" ]
}
whole() { # seen by node $1: all that was away is back
  local v; for v in "${VOLUMES[@]}"; do check "both copies of $v are in sync" wait_until 90 copies "$1" "$v" "active active"; done
  check "all paths live" wait_until 90 live
}
measured() {
  step "the longest operation of each round, in ms"
  printf '%s\n' "${STALLS[@]}" | sed 's/[0-9]* times$//; s/^\([0-9]*\) \(owner\|holder\|third\),.*/&\n\1 \2/' | sort -k2 -k1n |
    awk '{ ms = $1; $1 = ""; n[$0]++; all[$0, n[$0]] = ms }
      function part(k, of) { return all[k, int((n[k] - 1) * of) + 1] }
      END { for (k in n) printf "measured%s: %d rounds, median %d, 90 %% within %d, longest %d\n", k, n[k], part(k, .5), part(k, .9), part(k, 1) }' | sort
}

# One round: the owner of V, which has two copies, the holder of the other one, or the third node dies (kill), is started again (restart), hangs for so
# many seconds or is cut off (in, out, both; off: from hosts, too). LEADER=yes: its member of etcd leads at that moment.
round() { # WHICH HOW
  local which=$1 how=$2 owner at=1 other
  owner=$(number owner_on 1 "$V")
  case $which in
    owner) at=$owner ;;
    holder) for node in $(on_host copy_nodes 1 "$V"); do [ "${node#node}" = "$owner" ] || at=${node#node}; done ;;
    third) for n in 1 2 3; do on_host copy_nodes 1 "$V" | grep -q "node$n" || at=$n; done ;;
  esac
  other=$((at < DATA_NODES ? at + 1 : 1))
  [ -z "$LEADER" ] || check "the member of node $at leads" wait_until 30 quiet on_host etcd_lead "$at"
  begin "$D"
  case $how in
    kill) check "node $at ($which) is killed" on_host daemon_kill "$at" ;;
    restart) check "node $at ($which) ends in order" on_host daemon_stop "$at" ;;
    in | out | both | off) check "node $at ($which) is cut off: $how" on_host cut "$at" "$how" ;;
    *) check "node $at ($which) hangs for $how s" on_host daemon_signal "$at" STOP ;;
  esac
  case $how in
    kill | restart) sleep 3; check "it starts again" on_host daemon_start "$at" ;;
    in | out | both | off) sleep 6; check "it is reached again" on_host heal ;;
    *) sleep "$how"; check "it goes on" on_host daemon_signal "$at" CONT ;;
  esac
  went "$which, $how"; whole "$other"
  check "node 1 answers" wait_until 60 quiet on_host owner_on 1 "$V"
}
# same: each node with a copy owns the volume in turn, and reads its own: all copies hold the same, block by block
same() {
  local node first= one
  for node in $(on_host copy_nodes 1 "$V"); do
    check "handed over to $node" quiet on_host basalt volume set "$V" --owner "$node"
    check "$node owns it" wait_until 30 owned 1 "$V" "${node#node}"
    sleep 1; one=$(dd if="$D" bs=1M iflag=direct status=none | sha256sum)
    equal "what the copy on $node holds" "$one" "${first:=$one}"
  done
  on_host basalt volume set "$V" --owner any >/dev/null
}
# rounds WHICH/HOW...: these, or those that are asked for. ROUNDS=holder/30,owner/30: these. KILLS: so many at random; ROLES=holder,third: not to
# the owner. EVERY=yes: one of each kind.
rounds() {
  local r which how hows=(kill restart 2 12 30 in out both off) roles
  IFS=, read -ra roles <<<"${ROLES:-holder,owner,third}"
  if [ -n "$ROUNDS" ]; then
    step "these rounds: $ROUNDS"
    for r in ${ROUNDS//,/ }; do round "${r%/*}" "${r#*/}"; done
  elif [ -n "$KILLS" ]; then
    step "$KILLS rounds at random"
    for ((r = 0; r < KILLS; r++)); do round "${roles[RANDOM % ${#roles[@]}]}" "${hows[RANDOM % ${#hows[@]}]}"; done
  elif [ -n "$EVERY" ]; then
    for which in "${roles[@]}"; do
      step "the $which dies, hangs and is cut off"
      for how in "${hows[@]}"; do round "$which" "$how"; done
    done
  else
    for r in "$@"; do step "one round: $r"; round "${r%/*}" "${r#*/}"; done
  fi
}
