# Functions of the cases with volumes that have copies on several nodes: verified I/O while something happens, and how long its longest operation took.
# shellcheck shell=bash
MIB=1048576
LOG_BAD=$LOG_BAD_KILLED
STALL_MAX_MS=15000 # a busy machine; what was measured is printed
STALLS=() SEED=0

connect_paths() { # HOW-MANY: to the first nodes
  local n; PATHS=$1
  for ((n = 1; n <= PATHS; n++)); do
    nvme connect -t tcp -n "$NQN" --nr-io-queues=1 --keep-alive-tmo=2 --reconnect-delay=1 --ctrl-loss-tmo=600 -a "${ADDR_OF[n]}" -s "${PORT_OF[n]}" ||
      die "connect to node $n"
  done
  S=$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")
  check "all paths live" wait_until 20 live
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
  printf '%s\n' "${STALLS[@]}" | sed 's/^\([0-9]*\) \(owner\|holder\|third\),.*/\1 \2/; s/[0-9]* times$//' | sort -k2 -k1n |
    awk '{ ms = $1; $1 = ""; n[$0]++; all[$0, n[$0]] = ms } END { for (k in n) printf "measured%s: %d rounds, median %d, longest %d\n", k, n[k], all[k, int((n[k] + 1) / 2)], all[k, n[k]] }' | sort
}
