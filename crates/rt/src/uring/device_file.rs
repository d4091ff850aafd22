//! Files and block devices as devices: opening them safely, and what is to be known about them.
//!
//! Owns: the file descriptor of an open device, and with it the claim that keeps others out.
//! Invariant: while a `FileDevice` lives no other process that plays by the rules has the same device open: files carry an exclusive
//! `flock`, block devices are claimed with `O_EXCL`, which the kernel also denies to mounts, RAID and device mapper.
//! Never: does I/O on the path of a request (that is `ring`), writes to a device that existed before.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::device::{DEVICE_BYTES_MIN, DeviceInfo, OpenError, OpenOptions};

/// Everything is addressed in blocks of this size, and `O_DIRECT` needs no more than this.
const ALIGN: u64 = 4096;
/// The largest `i64` that is a whole number of blocks: beyond, `off_t` would overflow.
const FILE_BYTES_MAX: u64 = (i64::MAX as u64) / ALIGN * ALIGN;

const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKROGET: libc::c_ulong = 0x125e;
const BLKSSZGET: libc::c_ulong = 0x1268;

/// How space is given back. Tried in this order until one works on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DiscardBy {
    /// The block layer's own io_uring command (block devices, Linux 6.12).
    Command = 0,
    /// `fallocate` with `PUNCH_HOLE`.
    PunchHole = 1,
    /// The device cannot: a discard completes without doing anything.
    Nothing = 2,
}

/// An open file or block device.
#[derive(Debug)]
pub(crate) struct FileDevice {
    fd: OwnedFd,

    discard_by: AtomicU8,
}

impl FileDevice {
    /// Opens (and where the options say so creates) the device at `path`.
    pub(crate) fn open(path: &Path, opts: &OpenOptions) -> Result<(FileDevice, DeviceInfo), OpenError> {
        let (device, mut info) = Self::open_any(path, opts)?;
        if info.bytes < opts.bytes_min {
            return Err(OpenError::TooSmall { path: path.into(), bytes: info.bytes, bytes_min: opts.bytes_min });
        }
        if opts.assume_durable {
            info.volatile_cache = false;
        }
        Ok((device, info))
    }

    fn open_any(path: &Path, opts: &OpenOptions) -> Result<(FileDevice, DeviceInfo), OpenError> {
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => match opts.create_bytes {
                Some(bytes) => return create(path, bytes.max(opts.bytes_min), opts.reserve),
                None => return Err(OpenError::Missing { path: path.into() }),
            },
            Err(e) => return Err(open_error(path, "look at it", e)),
        };
        use std::os::unix::fs::FileTypeExt;
        let kind = meta.file_type();
        if kind.is_block_device() {
            open_block(path)
        } else if kind.is_file() {
            open_file(path)
        } else {
            let what = if kind.is_dir() {
                "a directory"
            } else if kind.is_char_device() {
                "a character device (for an NVMe drive use its namespace, such as /dev/nvme0n1)"
            } else {
                "a pipe or socket"
            };
            Err(OpenError::NotADevice { path: path.into(), what })
        }
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The way to discard that is believed to work.
    pub(crate) fn discard_by(&self) -> DiscardBy {
        match self.discard_by.load(Ordering::Relaxed) {
            0 => DiscardBy::Command,
            1 => DiscardBy::PunchHole,
            _ => DiscardBy::Nothing,
        }
    }

    /// After `failed` did not work: the way to try next. Cores that find out at once agree.
    pub(crate) fn discard_next(&self, failed: DiscardBy) -> DiscardBy {
        let next = if failed == DiscardBy::Command { DiscardBy::PunchHole } else { DiscardBy::Nothing };
        self.discard_by.fetch_max(next as u8, Ordering::Relaxed);
        self.discard_by()
    }

    /// Whether there is a way to discard at all.
    pub(crate) fn can_discard(&self) -> bool {
        self.discard_by() != DiscardBy::Nothing
    }
}

/// Creates a file, sparse or with its space; takes it away again when it cannot be given its size.
fn create(path: &Path, bytes: u64, reserve: bool) -> Result<(FileDevice, DeviceInfo), OpenError> {
    check_size(path, bytes)?;
    if bytes > FILE_BYTES_MAX {
        return Err(open_error(path, "make a file of that size", io::Error::from_raw_os_error(libc::EFBIG)));
    }
    let (fd, direct) = open_maybe_direct(path, libc::O_CREAT | libc::O_EXCL)?;
    let sized = lock(path, &fd).and_then(|()| {
        // SAFETY: plain system call on a descriptor we own; `bytes` fits `off_t` (checked above).
        let r = unsafe { libc::ftruncate64(fd.as_raw_fd(), bytes as i64) };
        check(path, "set its size", r)?;
        if reserve {
            allocate(path, &fd, bytes)?;
        }
        sync_parent(path)
    });
    if let Err(e) = sized {
        let _ = fs::remove_file(path);
        return Err(e);
    }
    finish_file(path, fd, direct, bytes)
}

/// Takes the space of a new file on its file system, so that no later write finds it full.
fn allocate(path: &Path, fd: &OwnedFd, bytes: u64) -> Result<(), OpenError> {
    // Asked first: a file system that has too little takes all of it before it says so, and others would find it full.
    // SAFETY: all-zero bytes are a valid `statvfs64` (plain integers).
    let mut room: libc::statvfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: `room` is valid for the write of one `statvfs64`.
    check(path, "ask how much room there is", unsafe { libc::fstatvfs64(fd.as_raw_fd(), &mut room) })?;
    if bytes > room.f_bavail.saturating_mul(room.f_frsize) {
        return Err(open_error(path, "reserve its space", io::Error::from_raw_os_error(libc::ENOSPC)));
    }
    loop {
        // SAFETY: plain system call on a descriptor we own; `bytes` fits `off_t` (checked by the caller).
        if unsafe { libc::fallocate64(fd.as_raw_fd(), 0, 0, bytes as i64) } == 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP) => return Err(open_error(path, "reserve its space (this file system has sparse files only)", e)),
            _ => return Err(open_error(path, "reserve its space", e)),
        }
    }
}

fn open_file(path: &Path) -> Result<(FileDevice, DeviceInfo), OpenError> {
    let (fd, direct) = open_maybe_direct(path, 0)?;
    lock(path, &fd)?;
    // Only now that it is ours: another process may have been creating it a moment ago.
    let bytes = stat(path, &fd)?.st_size as u64;
    check_size(path, bytes)?;
    finish_file(path, fd, direct, bytes)
}

fn finish_file(path: &Path, fd: OwnedFd, direct: bool, bytes: u64) -> Result<(FileDevice, DeviceInfo), OpenError> {
    let (fd, direct) = if direct && !direct_works(&fd) { (clear_direct(path, fd)?, false) } else { (fd, direct) };
    let rotational = stat(path, &fd).map(|st| queue_flag(st.st_dev, "rotational")).unwrap_or(false);
    // A file's size and extents live in the file system's metadata, so even a drive without a volatile cache does not make
    // a plain write durable: only RWF_DSYNC or fdatasync does.
    let info = DeviceInfo { bytes, block_bytes: 512, volatile_cache: true, rotational, discard: true, direct };
    Ok((FileDevice { fd, discard_by: AtomicU8::new(DiscardBy::PunchHole as u8) }, info))
}

fn open_block(path: &Path) -> Result<(FileDevice, DeviceInfo), OpenError> {
    let fd = open_raw(path, libc::O_DIRECT | libc::O_EXCL).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => busy_block(path),
        _ => open_error(path, "open it", e),
    })?;
    let mut bytes: u64 = 0;
    // SAFETY: BLKGETSIZE64 writes one u64 through the pointer, which is valid for that.
    check(path, "ask for its size", unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64 as _, &mut bytes) })?;
    let mut block_bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int through the pointer, which is valid for that.
    check(path, "ask for its block size", unsafe { libc::ioctl(fd.as_raw_fd(), BLKSSZGET as _, &mut block_bytes) })?;
    let mut read_only: libc::c_int = 0;
    // SAFETY: BLKROGET writes one int through the pointer, which is valid for that.
    check(path, "ask whether it is read-only", unsafe { libc::ioctl(fd.as_raw_fd(), BLKROGET as _, &mut read_only) })?;
    if read_only != 0 {
        return Err(OpenError::ReadOnly { path: path.into() });
    }
    // Partitions and old drives need not end on a whole block; the rest is not used.
    let bytes = bytes / ALIGN * ALIGN;
    check_size(path, bytes)?;
    let dev = stat(path, &fd)?.st_rdev;
    let info = DeviceInfo {
        bytes,
        block_bytes: block_bytes as u32,
        // Unknown counts as volatile: a needless flush is slow, a missing one loses data.
        volatile_cache: queue_value(dev, "write_cache").is_none_or(|v| v != "write through"),
        rotational: queue_flag(dev, "rotational"),
        discard: queue_value(dev, "discard_max_bytes").is_some_and(|v| v != "0"),
        direct: true,
    };
    let discard_by = if info.discard { DiscardBy::Command } else { DiscardBy::Nothing };
    Ok((FileDevice { fd, discard_by: AtomicU8::new(discard_by as u8) }, info))
}

/// Opens with `O_DIRECT`, or without where the file system refuses it. The second value says which.
fn open_maybe_direct(path: &Path, flags: libc::c_int) -> Result<(OwnedFd, bool), OpenError> {
    match open_raw(path, flags | libc::O_DIRECT) {
        Ok(fd) => Ok((fd, true)),
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            // Some file systems have created the file before they refuse the flag.
            open_raw(path, flags & !libc::O_EXCL).map(|fd| (fd, false)).map_err(|e| open_error(path, "open it", e))
        }
        Err(e) => Err(open_error(path, "open it", e)),
    }
}

fn open_raw(path: &Path, flags: libc::c_int) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    loop {
        // SAFETY: `name` is a NUL-terminated string that outlives the call.
        let fd = unsafe { libc::open64(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | flags, 0o600 as libc::c_uint) };
        if fd >= 0 {
            // SAFETY: a fresh descriptor that nobody else owns.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// An exclusive lock for as long as the descriptor lives: two daemons never share a file.
fn lock(path: &Path, fd: &OwnedFd) -> Result<(), OpenError> {
    // SAFETY: plain system call on a descriptor we own.
    if unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::EWOULDBLOCK) => Err(OpenError::InUse { path: path.into(), by: "another daemon holds its lock".into() }),
        _ => Err(open_error(path, "lock it", e)),
    }
}

/// Whether a direct read of one block really works: some file systems accept the flag and refuse the I/O.
fn direct_works(fd: &OwnedFd) -> bool {
    let mut buf = crate::buf::Buf::alloc(ALIGN as usize);
    // SAFETY: the buffer is valid for writes of `ALIGN` bytes for the whole (synchronous) call.
    let n = unsafe { libc::pread64(fd.as_raw_fd(), buf.as_mut_ptr().cast(), ALIGN as usize, 0) };
    n >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
}

fn clear_direct(path: &Path, fd: OwnedFd) -> Result<OwnedFd, OpenError> {
    // SAFETY: plain system calls on a descriptor we own.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    check(path, "read its flags", flags)?;
    // SAFETY: as above.
    check(path, "open it buffered", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_DIRECT) })?;
    Ok(fd)
}

/// The name of a new file is durable only when its directory is.
fn sync_parent(path: &Path) -> Result<(), OpenError> {
    let parent = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
        _ => PathBuf::from("."),
    };
    fs::File::open(parent).and_then(|d| d.sync_all()).map_err(|e| open_error(path, "make its name durable", e))
}

fn check_size(path: &Path, bytes: u64) -> Result<(), OpenError> {
    if bytes < DEVICE_BYTES_MIN {
        return Err(OpenError::TooSmall { path: path.into(), bytes, bytes_min: DEVICE_BYTES_MIN });
    }
    if !bytes.is_multiple_of(ALIGN) {
        return Err(OpenError::Unaligned { path: path.into(), bytes });
    }
    Ok(())
}

fn stat(path: &Path, fd: &OwnedFd) -> Result<libc::stat64, OpenError> {
    // SAFETY: all-zero bytes are a valid `stat64` (plain integers).
    let mut st: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: `st` is valid for the write of one `stat64`.
    check(path, "look at it", unsafe { libc::fstat64(fd.as_raw_fd(), &mut st) })?;
    Ok(st)
}

fn check(path: &Path, what: &'static str, r: libc::c_int) -> Result<libc::c_int, OpenError> {
    if r < 0 { Err(open_error(path, what, io::Error::last_os_error())) } else { Ok(r) }
}

fn open_error(path: &Path, what: &'static str, e: io::Error) -> OpenError {
    let path = path.to_path_buf();
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => OpenError::Missing { path },
        Some(libc::EACCES | libc::EPERM) => OpenError::Permission { path },
        Some(libc::EROFS) => OpenError::ReadOnly { path },
        Some(libc::EISDIR) => OpenError::NotADevice { path, what: "a directory" },
        _ => OpenError::Io { path, what, source: e },
    }
}

/// Why the kernel denies the claim on a block device: mounted, part of something, or held by another daemon.
fn busy_block(path: &Path) -> OpenError {
    use std::os::unix::fs::MetadataExt;
    let by = |by: String| OpenError::InUse { path: path.into(), by };
    let Ok(meta) = fs::metadata(path) else {
        return by("an unknown user".into());
    };
    let number = device_number(meta.rdev());
    if let Some(at) = mounted_at(&number) {
        return OpenError::Mounted { path: path.into(), at: at.into() };
    }
    let sys = PathBuf::from(format!("/sys/dev/block/{number}"));
    if let Some(holder) = fs::read_dir(sys.join("holders")).ok().and_then(|mut d| d.next()).and_then(Result::ok) {
        return by(format!("the block device {}", holder.file_name().to_string_lossy()));
    }
    for part in fs::read_dir(&sys).into_iter().flatten().flatten() {
        if let Some(at) = fs::read_to_string(part.path().join("dev")).ok().and_then(|n| mounted_at(n.trim())) {
            return OpenError::Mounted { path: path.into(), at: format!("{at} (partition {})", part.file_name().to_string_lossy()).into() };
        }
    }
    by("another process (another daemon, swap, or a tool that has it open exclusively)".into())
}

/// Where the block device `number` (major:minor) is mounted in our mount namespace.
fn mounted_at(number: &str) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        (fields.next() == Some(number)).then(|| fields.nth(1).unwrap_or("?").to_string())
    })
}

fn device_number(dev: u64) -> String {
    format!("{}:{}", libc::major(dev), libc::minor(dev))
}

/// A value of the block layer's queue; a partition has none of its own and uses its drive's.
fn queue_value(dev: u64, name: &str) -> Option<String> {
    let sys = PathBuf::from(format!("/sys/dev/block/{}", device_number(dev)));
    ["queue", "../queue"].iter().find_map(|q| fs::read_to_string(sys.join(q).join(name)).ok()).map(|v| v.trim().to_string())
}

fn queue_flag(dev: u64, name: &str) -> bool {
    queue_value(dev, name).is_some_and(|v| v == "1")
}
