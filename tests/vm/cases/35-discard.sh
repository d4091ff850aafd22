#!/bin/bash
# Discards of what was never written: no record in the log, whatever their size; mkfs and fstrim of large thin volumes.
#: timeout 240
. "$VM_LIB"
[ -z "$REFERENCE" ] || { echo "ok   skipped: the reference target has no log"; exit 0; }
GIB=1073741824
on_host volume_create thin $((1024 * GIB)) 4096 || die "volume create"
connect "$NQN" --nr-io-queues=2 || die "connect"
D=$(device thin) || die "no block device"
logged() { on_host metric basalt_store_buffer_overhead_bytes_total; }
written() { on_host metric basalt_store_written_blocks_total; }
# cost COMMAND...: runs it; what it has the log take beside data is in BYTES, what it has the volume write in BLOCKS
cost() {
  local bytes blocks cpu rc; bytes=$(logged) blocks=$(written) cpu=($(on_host daemon_cpu))
  "$@"; rc=$?
  cpu+=($(on_host daemon_cpu)) BYTES=$(($(logged) - bytes)) BLOCKS=$(($(written) - blocks))
  echo "$1: $((cpu[3] - cpu[1])) ms, $((cpu[2] - cpu[0])) ms of the daemon's CPU, $BLOCKS blocks written, $BYTES bytes of log beside them"
  return $rc
}
below() { [ "$1" -lt "$2" ]; }

step "a volume that nobody has written to"
check "discard of all of it" cost blkdiscard "$D"
equal "takes no record" "$BYTES" 0
check "zeroes over 4 GiB" cost blkdiscard -z -o 0 -l $((4 * GIB)) "$D"
equal "take no record" "$BYTES" 0

step "XFS"
check "mkfs without discard" cost mkfs.xfs -q -f -K "$D"
check "discard of all of it" cost blkdiscard "$D"
check "costs what there was, not what there might be: $BYTES" below "$BYTES" $((4 << 20))
empty() { [ "$(on_host allocated thin)" = 0 ]; }
check "and takes it away" wait_until 20 empty
check "mkfs with discard" cost mkfs.xfs -q -f "$D"
check "costs no more than its writes: $BYTES for $BLOCKS blocks" below "$BYTES" $((BLOCKS * 8192 + 65536))
mount "$D" /mnt; sync
check "fstrim of a clean file system" cost fstrim /mnt
check "costs next to nothing: $BYTES" below "$BYTES" $((1 << 20))
check "a file" dd if=/dev/urandom of=/mnt/keep bs=64k count=32 conv=fsync status=none
SUM=$(sha256sum </mnt/keep)
check "fstrim beside it" fstrim /mnt
umount /mnt
check "clean" quiet xfs_repair -n "$D"
mount "$D" /mnt; equal "the file is as it was" "$(sha256sum </mnt/keep)" "$SUM"; umount /mnt

step "after a kill of the daemon"
check "kill and start" eval "on_host daemon_kill && on_host daemon_start"
LOG_ALLOWED='nvme.*([Rr]econnect|error recovery|[Ff]ailed)|I/O error'
wait_until 30 is_live "$NQN" || die "no reconnect"
mount "$D" /mnt; equal "the file is as it was" "$(sha256sum </mnt/keep)" "$SUM"; umount /mnt
finish
