# The verbs of host.sh, done with the kernel's own target in the guest itself (`run --reference`): shows that a case asks
# only for what a working target does.  It has no space accounting and nothing to kill: such checks are skipped.
# shellcheck shell=bash
C=/sys/kernel/config/nvmet
on_host() {
  local verb=$1 n; shift
  case $verb in
    volume_create) # NAME BYTES [LBA_BYTES [NQN]]
      mkdir -p /tmp/ref; truncate -s "$2" "/tmp/ref/$1"
      local dev; dev=$(losetup -f); losetup -b "${3:-4096}" "$dev" "/tmp/ref/$1" || return 1
      reference_subsystem "${4:-$NQN}"; n=$(($(ls "$C/subsystems/${4:-$NQN}/namespaces" | wc -l) + 1))
      mkdir "$C/subsystems/${4:-$NQN}/namespaces/$n" || return 1
      echo "$dev" >"$C/subsystems/${4:-$NQN}/namespaces/$n/device_path"; echo 1 >"$C/subsystems/${4:-$NQN}/namespaces/$n/enable"
      echo "$C/subsystems/${4:-$NQN}/namespaces/$n $dev" >"/tmp/ref/$1.at" ;;
    volume_grow) read -r n dev <"/tmp/ref/$1.at"; truncate -s "$2" "/tmp/ref/$1"; losetup -c "$dev"; echo 1 >"$n/revalidate_size" ;;
    volume_delete) read -r n dev <"/tmp/ref/$1.at"; echo 0 >"$n/enable"; rmdir "$n"; losetup -d "$dev" ;;
    volume_uuid) read -r n dev <"/tmp/ref/$1.at"; cat "$n/device_uuid" ;;
    allocated) echo $(($(stat -c %b "/tmp/ref/$1") * 512)) ;;
    subsystem_create) # NAME [HOSTNQN...]: prints its NQN
      n=${NQN%:*}:$1; reference_subsystem "$n"; shift; echo "$n"
      for h in "$@"; do echo 0 >"$C/subsystems/$n/attr_allow_any_host"; mkdir -p "$C/hosts/$h"; ln -s "$C/hosts/$h" "$C/subsystems/$n/allowed_hosts/"; done ;;
    daemon_log) : ;;
    *) echo "the reference target cannot: $verb"; return 99 ;;
  esac
}
reference_subsystem() {
  [ ! -e "$C/subsystems/$1" ] || return 0
  mkdir "$C/subsystems/$1"; echo 1 >"$C/subsystems/$1/attr_allow_any_host"; ln -s "$C/subsystems/$1" "$C/ports/1/subsystems/$1"
}
modprobe -a nvmet-tcp loop
mkdir -p "$C/ports/1"
echo tcp >"$C/ports/1/addr_trtype"; echo ipv4 >"$C/ports/1/addr_adrfam"
echo "$ADDR" >"$C/ports/1/addr_traddr"; echo "$PORT" >"$C/ports/1/addr_trsvcid"
reference_subsystem "$NQN"
