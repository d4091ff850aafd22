# shellcheck shell=bash
# Two administrators of a cluster who change it at the same time; host.sh reads this file, and has `node_dir`, `DIR`, `NODES`.
#
# Each makes ROUNDS rounds of four changes, one after the other, by the API of whichever node answers: a volume is made, grown and renamed; then a
# policy is made (in odd rounds), or the volume of the round before is deleted (in even ones).  Each change has an idempotency-key of its own.
# One whose answer is lost, or is that it may be done or not, is sent again with the same key, at the next node.
# $DIR/under_way.N is there while it waits for an answer; $DIR/administrator.N has a line for each answer; $DIR/wanted.N, at the end, what has to be there.
ADMINISTRATORS=() # process ids
SMALL=$((16 << 20)) GROWN=$((32 << 20))
ANSWERS_MAX=400 # to one change
THINKS=0.4 # seconds before a change, so that there is time for some kills

new_key() { od -An -v -N 16 -t x1 /dev/urandom | tr -d ' \n'; }

# changed WHO METHOD PATH [BODY [FILTER]]: makes a change until it is done, and so that FILTER (of jq) is true of the answer.  Fails when it is refused.
changed() {
  local who=$1 method=$2 path=$3 body=${4:-} filter=${5:-true} key status said n answer=$DIR/answer.$1
  key=$(new_key)
  sleep $THINKS
  for ((n = 0; n < ANSWERS_MAX; n++)); do
    rm -f "$answer"; : >"$DIR/under_way.$who"
    status=$(curl -sS -o "$answer" -w '%{http_code}' --max-time 200 --unix-socket "$(node_dir "$AT")/data/api.sock" -X "$method" \
      -H "idempotency-key: $key" -H 'content-type: application/json' ${body:+-d "$body"} "http://localhost/api/v1$path" 2>/dev/null)
    rm -f "$DIR/under_way.$who"
    said=$(jq -r '"\(.code // "-") \(.message // "-")"' "$answer" 2>/dev/null | head -n 1)
    echo "$(date +%T.%N | cut -c 1-12) $method $path $key node$AT $status ${said:--}" >>"$DIR/administrator.$who"
    case $status in
      2*)
        if [[ $status = 204 ]] || jq -e "$filter" "$answer" >/dev/null; then return 0; fi
        key=$(new_key) ;; # it was given up, and the answer is how it is now
      409) if [[ $said = "refused the request was taken"* ]]; then key=$(new_key); else return 1; fi ;;
      5* | 000) ;;
      *) return 1 ;;
    esac
    AT=$((AT % NODES + 1)); sleep 0.3
  done
  return 1
}

administrator() { # WHO ROUNDS
  local who=$1 rounds=$2 r name AT=$1; local -A id
  for ((r = 1; r <= rounds; r++)); do
    name=$who-$r
    changed "$who" POST /volumes "{\"name\":\"a$name\",\"bytes\":$SMALL,\"subsystem\":\"theirs\"}" || return 1
    id[$r]=$(jq -r .id "$DIR/answer.$who")
    changed "$who" POST "/volumes/a$name/resize" "{\"bytes\":$GROWN}" ".bytes == $GROWN" || return 1
    changed "$who" PATCH "/volumes/a$name" "{\"name\":\"b$name\"}" ".name == \"b$name\"" || return 1
    if ((r % 2)); then changed "$who" POST /policies "{\"name\":\"p$name\",\"iops_limit\":100}" || return 1; echo "policy p$name" >>"$DIR/wanted.$who"
    else changed "$who" DELETE "/volumes/b$who-$((r - 1))?force=true" || return 1; unset "id[$((r - 1))]"; fi
    echo "$r" >"$DIR/round.$who"
  done
  for r in "${!id[@]}"; do echo "volume b$who-$r ${id[$r]} $GROWN online attached 1 parts 1" >>"$DIR/wanted.$who"; done
}

do_administrators_begin() { # ROUNDS
  local who
  # Hosts of the case see none of their volumes.
  do_subsystem_create theirs >/dev/null || return 1
  for who in 1 2; do administrator "$who" "$1" </dev/null >"$VM_OUT/administrator.$who.log" 2>&1 & ADMINISTRATORS+=($!); done
}
do_daemon_kill_midway() { # NODE: while a change is under way, earlier or later
  local i
  for ((i = 0; i < 200; i++)); do
    if compgen -G "$DIR/under_way.*" >/dev/null; then break; fi
    sleep 0.01
  done
  sleep "0.$(printf '%03d' $((RANDOM % 150)))"; do_daemon_kill "$1"
}
do_administrators_left() { # how many are not through yet
  local pid left=0
  for pid in "${ADMINISTRATORS[@]}"; do if kill -0 "$pid" 2>/dev/null; then left=$((left + 1)); fi; done
  echo "$left"
}
do_administrators_went() { # each ended well; prints how many answers that took
  local pid rc=0
  for pid in "${ADMINISTRATORS[@]}"; do wait "$pid" || rc=1; done
  ADMINISTRATORS=(); cp "$DIR"/administrator.* "$VM_OUT/"
  if ((rc)); then for who in 1 2; do tail -n 5 "$DIR/administrator.$who"; done; return 1; fi
  cat "$DIR"/administrator.[12] | wc -l
}
do_administrators_check() { # NODE: what it says there is, is what was answered as done, and nothing is left to do
  local socket; socket=$(node_dir "$1")/data/api.sock
  ask() { curl -sS --fail-with-body --max-time 30 --unix-socket "$socket" "http://localhost/api/v1/$1"; }
  {
    ask volumes | jq -r '.[] | select(.name | test("^[ab][12]-")) |
      "volume \(.name) \(.id) \(.bytes) \(.state) attached \(.attachments | length) parts \(.components | length)"'
    ask policies | jq -r '.[] | select(.name != "default") | "policy \(.name)"'
    ask tasks | jq -r '.[] | "task \(.what): \(.error)"'
  } | sort | diff <(sort "$DIR"/wanted.[12]) - >"$DIR/differs" || { head -n 20 "$DIR/differs"; return 1; }
}
