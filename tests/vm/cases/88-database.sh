#!/bin/bash
# A database on a volume of two copies while nodes die, hang and are cut off: SQLite on ext4, each transaction durable before it is counted. Nothing
# that was committed is lost, and the database and the file system find nothing wrong. Which rounds: guest/mirrors.sh.
#: nics 3
#: nodes 3
#: alone yes
#: apart yes
#: smp 4
#: timeout 900
#: layers database
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no nodes"; exit 0; }
. /vm/files/mirrors.sh
KEPT=1000 # entries; older ones are deleted

step "a database on a volume of two copies, and three paths to it"
a_volume m 3
check "it has two copies" quiet on_host basalt volume set m --policy two
whole 1
check "a file system" quiet mkfs.ext4 -q "$D"
check "it is mounted" mount "$D" /mnt
check "a database" quiet sqlite3 /mnt/db 'PRAGMA journal_mode=WAL; CREATE TABLE entries(n INTEGER PRIMARY KEY, data BLOB, sum TEXT); CREATE TABLE total(n INTEGER); INSERT INTO total VALUES(0);'
echo 0 >/tmp/committed

# Transactions, one after the other, until /tmp/enough is there. /tmp/committed: the last one that was answered; /tmp/longest: milliseconds.
writes() {
  local n took longest=0 from got
  n=$(cat /tmp/committed)
  coproc SQL { exec sqlite3 -batch /mnt/db 2>&1; }
  echo 'PRAGMA synchronous=FULL;' >&"${SQL[1]}"
  while [ ! -e /tmp/enough ]; do
    n=$((n + 1)); from=${EPOCHREALTIME/./}
    echo "BEGIN; INSERT INTO entries WITH x AS MATERIALIZED (SELECT randomblob(3000) AS b) SELECT $n, b, hex(sha3(b)) FROM x;" \
      "DELETE FROM entries WHERE n <= $((n - KEPT)); UPDATE total SET n = n + 1; COMMIT; SELECT 'committed $n';" >&"${SQL[1]}"
    read -r -t 120 -u "${SQL[0]}" got; [ "$got" = "committed $n" ] || { echo "transaction $n: ${got:-no answer in 120 s}"; return 1; }
    took=$(((${EPOCHREALTIME/./} - from) / 1000)); echo $n >/tmp/committed
    [ $took -le $longest ] || { longest=$took; echo $longest >/tmp/longest; }
  done
  echo '.exit' >&"${SQL[1]}"; wait "$SQL_PID"
}
sound() { # the database's own check, and that what was committed is there
  local n; n=$(cat /tmp/committed)
  equal "what the database says of itself" "$(sqlite3 /mnt/db 'PRAGMA integrity_check; SELECT count(*) FROM entries WHERE sum != hex(sha3(data)); SELECT n FROM total; SELECT min(n), max(n), count(*) FROM entries;' | paste -sd' ')" \
    "ok 0 $n $((n > KEPT ? n - KEPT + 1 : 1))|$n|$((n > KEPT ? KEPT : n))"
}
begin() { rm -f /tmp/enough /tmp/longest; writes & WRITER=$!; sleep 2; }
went() { # WHAT
  local rc=0 ms; : >/tmp/enough; wait $WRITER || rc=$?; ms=$(cat /tmp/longest); STALLS+=("$ms $1")
  equal "transactions go on: $1" "$rc" 0
  check "no transaction took longer than $STALL_MAX_MS ms; the longest one $ms ms, $(cat /tmp/committed) so far: $1" [ "$ms" -le "$STALL_MAX_MS" ]
  sound
}

rounds owner/kill owner/both

step "unmounted, checked, and mounted again"
check "it is unmounted" umount /mnt
check "the file system is sound" quiet e2fsck -fn "$D"
check "it is mounted" mount "$D" /mnt; sound; check "it is unmounted" umount /mnt
step "both copies hold the same"; same
measured
finish
