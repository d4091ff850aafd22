# Building what a guest is made of: a stock Debian kernel and an initramfs.  Sourced by `vm`.
#
# Owns everything below $CACHE.  Nothing is installed on this machine and root is not needed: apt works on a state of
# its own, with Debian 12's sources, so that any machine with apt (Debian, Ubuntu) gets the same guest.
# shellcheck shell=bash

MIRROR=${VM_MIRROR:-http://deb.debian.org}
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Packages whose programs go into the guest (apt works out their dependencies).
PACKAGES=(busybox-static bash kmod nvme-cli fio e2fsprogs xfsprogs util-linux mount)
# More for the cases that ask for it ("#: layers storage"): all that these packages hold, as an archive of its own
# behind the base.
declare -A LAYERS=(
  [storage]="lvm2 dmsetup thin-provisioning-tools cryptsetup-bin btrfs-progs mdadm"
  [multipath]="multipath-tools dmsetup udev"
  [blktests]="coreutils gzip gawk sed grep findutils diffutils bsdextrautils procps udev libc-bin"
  [iscsi]="open-iscsi sg3-utils"
  [database]="sqlite3"
  [disks]="qemu-utils coreutils diffutils"
  [systemd]="systemd udev nvme-cli" # the guest's process 1 is systemd then, and the case a service
)
# Where the loader finds libraries of the sysroot.
LIBPATH=$CACHE/sysroot/usr/lib/x86_64-linux-gnu:$CACHE/sysroot/usr/lib:$CACHE/sysroot/usr/lib/x86_64-linux-gnu/ceph:$CACHE/sysroot/usr/lib/x86_64-linux-gnu/systemd
# The guest's TLS programs come from Debian 13, since Debian 12 has no ktls-utils.  They are unpacked beside the others
# and run with their own loader and libraries.
TLS_SUITE=trixie
TLS_PACKAGES=(ktls-utils nvme-cli keyutils)
TLS_PROGRAMS=(/usr/sbin/tlshd /usr/sbin/nvme /usr/bin/keyctl) # in the guest: tlshd, tls-nvme, keyctl
# Programs copied from those packages, with the shared libraries that they need.
PROGRAMS=(
  /bin/bash /bin/kmod /usr/sbin/nvme /usr/bin/fio /sbin/mke2fs /sbin/e2fsck /sbin/resize2fs /sbin/mkfs.xfs /usr/sbin/xfs_repair
  /usr/sbin/xfs_io /usr/bin/lsblk /usr/bin/findmnt /sbin/blkid /sbin/blkdiscard /sbin/fstrim /bin/mount /bin/umount /bin/dmesg /sbin/losetup
)
# Kernel modules copied, with their dependencies; a name that a kernel lacks is skipped, so one list serves several
# kernels.  The guest loads them on demand.
MODULES=(
  virtio_pci virtio_net virtio_blk virtio-rng 9p 9pnet_virtio ext4 xfs loop configfs null_blk
  nvme nvme-core nvme-fabrics nvme-tcp nvmet nvmet-tcp nvme-auth nvme-keyring tls
  gcm ctr seqiv aes_generic aesni-intel ghash-generic ghash-clmulni-intel hmac
  crc32c_generic crc32c-intel crc32c-cryptoapi libcrc32c sha256_generic sha512_generic
  btrfs blake2b_generic xxhash_generic raid1 dm-thin-pool dm-snapshot dm-crypt xts cbc af_alg algif_skcipher algif_hash
  dm-mirror dm-multipath dm-round-robin dm-queue-length dm-service-time
  iscsi_tcp sd_mod sg scsi_dh_alua
)

apt_setup() { # apt_setup [SUITE] -> APT: options that make apt work below $CACHE, and fresh package lists
  local suite=${1:-bookworm} a=$CACHE/apt; [[ $suite = bookworm ]] || a=$CACHE/apt-$suite
  [[ -r $KEYRING ]] || die "no $KEYRING: install the package debian-archive-keyring"
  mkdir -p "$a"/{lists,debs}/partial "$a/parts"; : >"$a/status"
  {
    echo "deb [arch=amd64 signed-by=$KEYRING] $MIRROR/debian $suite main"
    echo "deb [arch=amd64 signed-by=$KEYRING] $MIRROR/debian $suite-updates main"
    echo "deb [arch=amd64 signed-by=$KEYRING] ${VM_MIRROR_SECURITY:-$MIRROR/debian-security} $suite-security main"
  } >"$a/sources.list"
  APT=(-qq -o APT::Get::Assume-Yes=true -o Dir::Etc::sourcelist="$a/sources.list" -o Dir::Etc::sourceparts="$a/parts" -o Dir::State::lists="$a/lists"
    -o Dir::State::status="$a/status" -o Dir::Cache::archives="$a/debs" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Debug::NoLocking=1 -o APT::Install-Recommends=false -o APT::Architecture=amd64 -o Acquire::Retries=3)
  [[ $(id -u) != 0 ]] || APT+=(-o APT::Sandbox::User=root)
  if [[ ${APT_FRESH:-} != *" $suite "* ]]; then
    say "reading the package lists of $MIRROR"
    apt-get "${APT[@]}" update >"$a/log" 2>&1 || { tail -5 "$a/log" >&2; die "apt-get update failed (is $MIRROR reachable? VM_MIRROR names another)"; }
    APT_FRESH+=" $suite "
  fi
}

unpack_deb() { # unpack_deb DEB DIR
  dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner \
    --exclude=./usr/share/{doc,man,locale,perl,icons}'*' --exclude='./usr/lib/python*' \
    --exclude='./lib/udev/hwdb.d*' --exclude='./usr/share/bash-completion*' -C "$2"
}

merged_usr() { # Debian is merged-/usr: the links come first, so that both spellings of a path land in one place
  local d; for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done
}

build_sysroot() { # -> $CACHE/sysroot: the packages, unpacked, never installed; $CACHE/packages: those of the layers, each by itself
  local all stamp deb p
  # shellcheck disable=SC2206
  all=("${PACKAGES[@]}" ${LAYERS[*]})
  stamp=$(printf '%s\n' "${all[@]}" | sort -u | sha256sum | cut -c1-16)
  [[ ! -e $CACHE/sysroot.$stamp ]] || return 0
  apt_setup
  say "downloading and unpacking ${all[*]}"
  rm -f "$CACHE"/apt/debs/*.deb
  apt-get "${APT[@]}" --download-only install "${all[@]}" >"$CACHE/apt/log" 2>&1 || { tail -5 "$CACHE/apt/log" >&2; die "apt-get could not download the guest's packages"; }
  rm -rf "$CACHE/sysroot.new" "$CACHE"/sysroot "$CACHE"/sysroot.*; mkdir -p "$CACHE/sysroot.new"
  merged_usr "$CACHE/sysroot.new"
  for deb in "$CACHE"/apt/debs/*.deb; do unpack_deb "$deb" "$CACHE/sysroot.new"; done
  rm -rf "$CACHE/packages"
  for p in ${LAYERS[*]}; do
    [[ ! -e $CACHE/packages/$p ]] || continue
    mkdir -p "$CACHE/packages/$p"; merged_usr "$CACHE/packages/$p"; unpack_deb "$(echo "$CACHE/apt/debs/${p}"_*.deb)" "$CACHE/packages/$p"
  done
  rm -f "$CACHE"/apt/debs/*.deb
  mv "$CACHE/sysroot.new" "$CACHE/sysroot"; touch "$CACHE/sysroot.$stamp"
}

build_tls_sysroot() { # -> $CACHE/tls-sysroot: what the host needs for TLS
  local stamp deb; stamp=$(printf '%s\n' "$TLS_SUITE" "${TLS_PACKAGES[@]}" | sha256sum | cut -c1-16)
  [[ ! -e $CACHE/tls-sysroot.$stamp ]] || return 0
  apt_setup "$TLS_SUITE"
  say "downloading and unpacking ${TLS_PACKAGES[*]} of Debian $TLS_SUITE"
  rm -f "$CACHE/apt-$TLS_SUITE"/debs/*.deb
  apt-get "${APT[@]}" --download-only install "${TLS_PACKAGES[@]}" >"$CACHE/apt-$TLS_SUITE/log" 2>&1 ||
    { tail -5 "$CACHE/apt-$TLS_SUITE/log" >&2; die "apt-get could not download the guest's packages for TLS"; }
  rm -rf "$CACHE/tls-sysroot.new" "$CACHE"/tls-sysroot "$CACHE"/tls-sysroot.*; mkdir -p "$CACHE/tls-sysroot.new"
  merged_usr "$CACHE/tls-sysroot.new"
  for deb in "$CACHE/apt-$TLS_SUITE"/debs/*.deb; do unpack_deb "$deb" "$CACHE/tls-sysroot.new"; done
  rm -f "$CACHE/apt-$TLS_SUITE"/debs/*.deb
  mv "$CACHE/tls-sysroot.new" "$CACHE/tls-sysroot"; touch "$CACHE/tls-sysroot.$stamp"
}

copy_tls_programs() { # copy_tls_programs ROOT: TLS_PROGRAMS with all their libraries into /opt/tls, and scripts that run them
  local root=$1 sys=$CACHE/tls-sysroot p name lib arrow libs to; to=$root/opt/tls
  mkdir -p "$to"
  for p in "${TLS_PROGRAMS[@]}"; do
    name=$(basename "$p"); [[ $name != nvme ]] || name=tls-nvme
    cp -L "$sys$p" "$to/$name.bin"; cp -L "$sys/lib64/ld-linux-x86-64.so.2" "$to/ld.so"
    libs=$("$sys/lib64/ld-linux-x86-64.so.2" --library-path "$sys/usr/lib/x86_64-linux-gnu" --list "$sys$p")
    while read -r _ arrow lib _; do
      [[ $arrow = '=>' && $lib = /* ]] || continue
      [[ -e $to/$(basename "$lib") ]] || cp -L "$lib" "$to/"
    done <<<"$libs"
    run_with_own_loader "$root" /opt/tls "$name"
  done
}

run_with_own_loader() { # run_with_own_loader ROOT DIR NAME: DIR/NAME.bin is a program of the guest, with the loader and the libraries in DIR
  printf '#!/bin/bash\nexec %s/ld.so --library-path %s %s/%s.bin "$@"\n' "$2" "$2" "$2" "$3" >"$1/usr/local/bin/$3"
  chmod 755 "$1/usr/local/bin/$3" "$1$2/$3.bin" "$1$2/ld.so"
}

own_program() { # own_program ROOT FILE NAME: a program of this machine, with this machine's loader and libraries, which may be others than the guest's
  local name=$3 to=/opt/$3 lib
  mkdir -p "$1$to" "$1/usr/local/bin"
  strip -o "$1$to/$name.bin" "$2" || die "$2 is no program"
  while read -r lib; do
    case $lib in */ld-linux*) cp -L "$lib" "$1$to/ld.so" ;; *) cp -L "$lib" "$1$to/" ;; esac
  done < <(ldd "$2" | grep -oE '/[^ ]+ \(0x' | cut -d' ' -f1)
  run_with_own_loader "$1" "$to" "$name"
}

fetch_kernel() { # KERNEL -> KDIR (boot/, lib/modules/), KVER, KIMG
  local pkg real
  case $KERNEL in
    */*) KDIR=$KERNEL ;;
    *)
      case $KERNEL in 6.1) pkg=linux-image-amd64 ;; [0-9]*) pkg=linux-image-$KERNEL-amd64 ;; *) pkg=$KERNEL ;; esac
      KDIR=$CACHE/kernel/$pkg
      if [[ ! -e $KDIR/.done ]]; then
        apt_setup
        real=$(apt-cache "${APT[@]}" depends "$pkg" | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
        say "downloading the kernel ${real:=$pkg}"
        rm -rf "$KDIR"; mkdir -p "$KDIR"
        (cd "$KDIR" && apt-get "${APT[@]}" download "$real" >"$CACHE/apt/log" 2>&1 && unpack_deb ./*.deb . && rm -f ./*.deb) ||
          { tail -5 "$CACHE/apt/log" >&2; die "no kernel package $real"; }
        touch "$KDIR/.done"
      fi ;;
  esac
  KVER=$(basename "$(echo "$KDIR"/lib/modules/*)")
  [[ -e $KDIR/boot/vmlinuz-$KVER ]] || die "no kernel in $KDIR"
  unpack_kernel "$KDIR/boot/vmlinuz-$KVER"
}

unpack_kernel() { # unpack_kernel VMLINUZ -> KIMG
  # Unpacked here (xz or zstd), since in the emulator the kernel's own unpacking costs seconds at every boot.
  # QEMU starts the ELF image directly by its PVH entry; without one the compressed image is used as it is.
  local z=$1 n off len unpack
  KIMG=$CACHE/vmlinux-$KVER
  [[ ! -e $KIMG ]] || return 0
  n=$(od -An -tu1 -j $((0x1f1)) -N1 "$z"); off=$(od -An -tu4 -j $((0x248)) -N4 "$z"); len=$(od -An -tu4 -j $((0x24c)) -N4 "$z")
  for unpack in 'zstd -qdc' 'xz -dc --single-stream' 'gzip -dc' 'lz4 -dc'; do
    tail -c +$(((n + 1) * 512 + off + 1)) "$z" | head -c "$((len))" | $unpack >"$KIMG.new" 2>/dev/null || true
    if [[ $(head -c 4 "$KIMG.new" | od -An -tx1 | tr -d ' ') = 7f454c46 ]]; then mv "$KIMG.new" "$KIMG"; return 0; fi
  done
  rm -f "$KIMG.new"; KIMG=$z
}

in_sysroot() { # in_sysroot ARGV0 PROGRAM ARGS: run a sysroot program with the sysroot's own libraries
  local name=$1 prog=$2; shift 2
  "$CACHE/sysroot/lib64/ld-linux-x86-64.so.2" --argv0 "$name" --library-path "$LIBPATH" "$CACHE/sysroot$prog" "$@"
}

copy_program() { # copy_program ROOT FILE: an ELF program of the sysroot, and the libraries that its loader finds
  mkdir -p "$1$(dirname "$2")"; cp -L "$CACHE/sysroot$2" "$1$2"; chmod 755 "$1$2"
  copy_libraries "$1" "$2"
}

copy_libraries() { # copy_libraries ROOT FILE: what an ELF file of the sysroot needs
  local root=$1 file=$2 sys=$CACHE/sysroot name arrow lib libs
  libs=$("$sys/lib64/ld-linux-x86-64.so.2" --library-path "$LIBPATH" --list "$sys$file" 2>/dev/null) || return 0 # static
  while read -r name arrow lib _; do # "libc.so.6 => /path/libc.so.6 (0x...)"; all go into one folder
    [[ $arrow = '=>' && $lib = /* ]] || continue
    name=$(basename "$name"); [[ $name != ld-linux* ]] || continue
    [[ -e $root/usr/lib/x86_64-linux-gnu/$name ]] || cp -L "$lib" "$root/usr/lib/x86_64-linux-gnu/$name"
  done <<<"$libs"
}

copy_modules() { # copy_modules ROOT: MODULES and what they depend on, unpacked
  local root=$1 all=$CACHE/modules-$KVER m f pat
  if [[ ! -e $all/lib/modules/$KVER/modules.dep ]]; then
    rm -rf "$all"; mkdir -p "$all/lib/modules"
    cp -rl "$KDIR/lib/modules/$KVER" "$all/lib/modules/" 2>/dev/null || cp -r "$KDIR/lib/modules/$KVER" "$all/lib/modules/"
    in_sysroot depmod /bin/kmod -b "$all" "$KVER"
  fi
  for m in "${MODULES[@]}"; do # modules.dep names a module's whole closure; file names use - and _ freely
    pat=$(echo "$m" | sed 's/[-_]/[-_]/g')
    grep -E "(^|/)$pat\.ko[^:]*:" "$all/lib/modules/$KVER/modules.dep" | tr -d : | tr ' ' '\n' || true
  done | sort -u | while read -r f; do
    [[ -n $f ]] || continue
    mkdir -p "$root/lib/modules/$KVER/$(dirname "$f")"
    case $f in
      *.xz) xz -dc "$all/lib/modules/$KVER/$f" >"$root/lib/modules/$KVER/${f%.xz}" ;;
      *.zst) zstd -qdc "$all/lib/modules/$KVER/$f" >"$root/lib/modules/$KVER/${f%.zst}" ;;
      *) cp "$all/lib/modules/$KVER/$f" "$root/lib/modules/$KVER/$f" ;;
    esac
  done
  cp "$all/lib/modules/$KVER"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$KVER/" 2>/dev/null || true
  in_sysroot depmod /bin/kmod -b "$root" "$KVER"
}

build_layer() { # build_layer NAME -> LAYER: an archive of what the layer's packages hold, with the libraries that they need
  local name=$1 key root p f
  [[ -n ${LAYERS[$name]:-} ]] || die "no layer $name (image.sh)"
  key=$(sha256sum <"$HERE/image.sh" | cut -c1-16); LAYER=$CACHE/layer-$name-$key.cpio
  [[ ! -e $LAYER ]] || return 0
  build_sysroot
  say "building the layer $name: ${LAYERS[$name]}"
  root=$(mktemp -d "$CACHE/root.XXXXXX"); chmod 755 "$root"; merged_usr "$root"; mkdir -p "$root/usr/lib/x86_64-linux-gnu"
  for p in ${LAYERS[$name]}; do cp -a --remove-destination "$CACHE/packages/$p/." "$root/"; done
  while IFS= read -r f; do copy_libraries "$root" "${f#"$root"}"; done < <(
    find "$root/usr" -type f -size +1k \( -perm -u+x -o -name '*.so*' \) -exec sh -c 'for f; do [ "$(head -c 4 "$f" | tail -c 3)" = ELF ] && echo "$f"; done' sh {} +)
  (cd "$root" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) >"$LAYER.new"
  rm -rf "$root" "$CACHE/layer-$name-"*.cpio; mv "$LAYER.new" "$LAYER"
  say "built $LAYER ($(du -h "$LAYER" | cut -f1))"
}

build_base() { # -> BASE: the initramfs without a test; not compressed, since the emulator unpacks slowly
  fetch_kernel
  local key; key=$({ echo "$KDIR $KVER"; cat "$HERE/image.sh" "$HERE/guest/init"; } | sha256sum | cut -c1-16)
  BASE=$CACHE/base-$KVER-$key.cpio
  [[ ! -e $BASE ]] || return 0
  build_sysroot; build_tls_sysroot
  say "building the guest image for kernel $KVER"
  local root p; root=$(mktemp -d "$CACHE/root.XXXXXX"); chmod 755 "$root"
  merged_usr "$root"
  mkdir -p "$root"/{dev,proc,sys,tmp,run,mnt,root,etc/nvme,vm} "$root/usr/lib/x86_64-linux-gnu" "$root/usr/local/bin"
  for p in "${PROGRAMS[@]}"; do [[ -e $CACHE/sysroot$p ]] || die "no program $p in the packages"; copy_program "$root" "$p"; done
  cp -L "$CACHE/sysroot/lib64/ld-linux-x86-64.so.2" "$root/usr/lib64/"
  cp "$CACHE/sysroot/bin/busybox" "$root/bin/busybox"
  for p in $("$root/bin/busybox" --list); do [[ -e $root/bin/$p || -e $root/sbin/$p || -e $root/usr/bin/$p ]] || ln -s /bin/busybox "$root/bin/$p"; done
  for p in modprobe insmod rmmod lsmod modinfo depmod; do rm -f "$root/bin/$p"; ln -sf /bin/kmod "$root/sbin/$p"; done
  ln -sf bash "$root/bin/sh" # busybox's shell would run its own applets in place of the real programs
  rm -f "$root"/bin/mke2fs; ln -sf mke2fs "$root/sbin/mkfs.ext4"

  cp "$CACHE/sysroot/etc/mke2fs.conf" "$root/etc/" 2>/dev/null || true
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"; printf 'root:x:0:\n' >"$root/etc/group"
  printf 'ext4\nxfs\n' >"$root/etc/filesystems" # mount tries these
  printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
  echo 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555' >"$root/etc/nvme/hostnqn"
  echo '11111111-2222-3333-4444-555555555555' >"$root/etc/nvme/hostid"
  copy_tls_programs "$root"
  copy_modules "$root"
  cp "$HERE/guest/init" "$root/init"; chmod 755 "$root/init"
  (cd "$root" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) >"$BASE.new"
  rm -rf "$root" "$CACHE/base-$KVER-"*.cpio; mv "$BASE.new" "$BASE"
  say "built $BASE ($(du -h "$BASE" | cut -f1))"
}
