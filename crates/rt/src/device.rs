//! Devices: what the store reads and writes, whichever driver is behind.
//!
//! Owns: names, limits and counters of a device, how it is opened, what its errors mean.
//! Invariants: a [`Device`] can be used from every core; offsets and lengths are multiples of 4096; a device's size never changes.
//! Never: retries, caches, interprets.

use crate::{sim, uring};
use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use std::{path::Path, path::PathBuf, sync::Arc};

/// A device. A clone is the same device.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<DeviceShared>);

pub(crate) struct DeviceShared {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) info: DeviceInfo,
    pub(crate) counters: DeviceCounters,
    pub(crate) inner: Inner,
}

pub(crate) enum Inner {
    File(uring::FileDevice),
    Memory(uring::MemoryDevice),
    Sim(sim::SimDeviceRef),
}

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its size in bytes, a multiple of 4096.
    pub bytes: u64,
    /// Its logical block in bytes.
    pub block_bytes: u32,
    /// Whether completed writes may be lost with the power unless flushed.
    pub volatile_cache: bool,
    /// Whether it is a spinning disk.
    pub rotational: bool,
    /// Whether discard does anything.
    pub discard: bool,
    /// Whether the page cache is bypassed.
    pub direct: bool,
}

/// Whether a write must survive a loss of power once it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may be lost until a flush is complete.
    Volatile,
    /// It is on stable media when it completes.
    Durable,
}

/// The smallest device that can be opened, in bytes.
pub const DEVICE_BYTES_MIN: u64 = 1 << 20;

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// If there is nothing at the path: make a file of that many bytes.
    pub create_bytes: Option<u64>,
    /// Such a file has all its space from the start; else it is sparse and takes space as it is written.
    pub reserve: bool,
    /// Refuse what is smaller, in bytes.
    pub bytes_min: u64,
    /// Treat the device as if it kept what it has taken when the power goes, whatever it says (a drive with capacitors that hides it).
    pub assume_durable: bool,
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing there.
    #[error("{path}: there is nothing at this path; check the name, or create the file first")]
    Missing { path: PathBuf },
    /// Neither a block device nor a plain file.
    #[error("{path} is {what}, neither a block device nor a file")]
    NotADevice { path: PathBuf, what: &'static str },
    /// Another process holds it.
    #[error("{path} is in use by {by}; stop that first")]
    InUse { path: PathBuf, by: String },
    /// It, or a partition of it, is mounted.
    #[error("{path} is mounted at {at}; unmount it first, and be sure that you want its contents overwritten")]
    Mounted { path: PathBuf, at: PathBuf },
    /// Not allowed.
    #[error("{path}: permission denied; run as root or give this user access to the device")]
    Permission { path: PathBuf },
    /// Too small to use.
    #[error("{path} has {bytes} bytes, at least {bytes_min} are needed")]
    TooSmall { path: PathBuf, bytes: u64, bytes_min: u64 },
    /// Its size is not a multiple of 4096.
    #[error("{path} has {bytes} bytes, which is not a multiple of 4096; make it one")]
    Unaligned { path: PathBuf, bytes: u64 },
    /// It cannot be written.
    #[error("{path} is read-only; make it writable or choose another device")]
    ReadOnly { path: PathBuf },
    /// A device in memory for which there is not memory enough.
    #[error("there is no memory for a device of {}: {source}; make it smaller, or use a file", base::ByteSize(*bytes))]
    Memory { bytes: u64, source: std::io::Error },
    /// Anything else.
    #[error("{path}: cannot {what}: {source}")]
    Io { path: PathBuf, what: &'static str, source: std::io::Error },
}

/// Why a device operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// These blocks cannot be read or written; others may. Repair them from a copy.
    #[error("media error")]
    Media,
    /// Nothing is left to write to (a thin device or file system is full). The copy fails.
    #[error("the device is full")]
    NoSpace,
    /// The device went away. The copy fails.
    #[error("the device is gone")]
    Gone,
    /// It did not answer in time. The copy fails.
    #[error("the device did not answer in time")]
    TimedOut,
    /// The operation lies outside of the device, or is not aligned: a bug of the caller.
    #[error("outside of the device or not aligned")]
    OutOfRange,
    /// Anything else that the system says.
    #[error("the system says error {errno}")]
    Os {
        /// As in errno(3).
        errno: i32,
    },
}

impl DeviceError {
    /// From errno(3).
    pub fn from_errno(errno: i32) -> DeviceError {
        match errno {
            libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO | libc::EBADMSG => DeviceError::Media,
            libc::ENOSPC | libc::EDQUOT => DeviceError::NoSpace,
            libc::ENODEV | libc::ENXIO | libc::ENOLINK | libc::ENOMEDIUM | libc::ESHUTDOWN => DeviceError::Gone,
            libc::ETIMEDOUT => DeviceError::TimedOut,
            libc::EINVAL => DeviceError::OutOfRange,
            errno => DeviceError::Os { errno },
        }
    }
}

/// Buckets of a [`LatencyHistogram`].
pub const LATENCY_BUCKETS: usize = 40;

/// Latencies by power of two: bucket `i` counts those of 2^i to 2^(i+1) - 1 ns (bucket 0 also 0 ns, the last one all that is longer).
#[derive(Debug)]
pub struct LatencyHistogram([AtomicU64; LATENCY_BUCKETS]);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; LATENCY_BUCKETS])
    }
}

impl LatencyHistogram {
    /// Counts one.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.0[(ns.max(1).ilog2() as usize).min(LATENCY_BUCKETS - 1)].fetch_add(1, Relaxed);
    }
    /// The counts now.
    pub fn snapshot(&self) -> [u64; LATENCY_BUCKETS] {
        core::array::from_fn(|i| self.0[i].load(Relaxed))
    }
}

/// What a device did since it was opened, over all cores.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    /// Reads that ended.
    pub reads: AtomicU64,
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Writes that ended.
    pub writes: AtomicU64,
    /// Bytes written.
    pub write_bytes: AtomicU64,
    /// Flushes that ended.
    pub flushes: AtomicU64,
    /// Discards that ended.
    pub discards: AtomicU64,
    /// Operations of any kind that failed.
    pub errors: AtomicU64,
    /// From submission to completion.
    pub read_latency: LatencyHistogram,
    /// From submission to completion.
    pub write_latency: LatencyHistogram,
}

impl DeviceCounters {
    /// Counts a read that ended.
    #[inline]
    pub(crate) fn count_read(&self, bytes: u64, ns: u64, ok: bool) {
        self.reads.fetch_add(1, Relaxed);
        self.read_latency.record(ns);
        if ok {
            self.read_bytes.fetch_add(bytes, Relaxed);
        } else {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Counts a write that ended.
    #[inline]
    pub(crate) fn count_write(&self, bytes: u64, ns: u64, ok: bool) {
        self.writes.fetch_add(1, Relaxed);
        self.write_latency.record(ns);
        if ok {
            self.write_bytes.fetch_add(bytes, Relaxed);
        } else {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Counts a flush that ended.
    pub(crate) fn count_flush(&self, ok: bool) {
        self.flushes.fetch_add(1, Relaxed);
        if !ok {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Counts a discard that ended.
    pub(crate) fn count_discard(&self, ok: bool) {
        self.discards.fetch_add(1, Relaxed);
        if !ok {
            self.errors.fetch_add(1, Relaxed);
        }
    }
}

/// Ids of devices that are not simulated.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Device {
    /// Opens a file (O_DIRECT, locked against other processes; buffered where the file system refuses O_DIRECT, see
    /// [`DeviceInfo::direct`]) or a block device (O_DIRECT, exclusive).
    pub fn open(path: &Path, opts: &OpenOptions) -> Result<Device, OpenError> {
        let (file, info) = uring::FileDevice::open(path, opts)?;
        Ok(Self::assemble(NEXT_ID.fetch_add(1, Relaxed), path.display().to_string(), info, Inner::File(file)))
    }

    /// A device in memory, of `bytes` rounded down to 4096, all zeroes, gone with its last handle. Its memory is taken as it is written; fails when
    /// the machine has not so much, together with what other devices in memory may still take.
    pub fn memory(bytes: u64) -> Result<Device, OpenError> {
        let bytes = bytes & !4095;
        let device = uring::MemoryDevice::new(bytes).map_err(|source| OpenError::Memory { bytes, source })?;
        Ok(Self::in_memory(bytes, true, device))
    }

    /// As [`Device::memory`], with all its memory taken now: no access waits for a page, and none is given back before the end.
    pub fn populated_memory(bytes: u64) -> Result<Device, OpenError> {
        let bytes = bytes & !4095;
        let device = uring::MemoryDevice::populated(bytes).map_err(|source| OpenError::Memory { bytes, source })?;
        Ok(Self::in_memory(bytes, false, device))
    }

    fn in_memory(bytes: u64, discard: bool, device: uring::MemoryDevice) -> Device {
        let id = NEXT_ID.fetch_add(1, Relaxed);
        let info = DeviceInfo { bytes, block_bytes: 4096, volatile_cache: false, rotational: false, discard, direct: true };
        Self::assemble(id, format!("memory-{id}"), info, Inner::Memory(device))
    }

    pub(crate) fn assemble(id: u64, name: String, info: DeviceInfo, inner: Inner) -> Device {
        Device(Arc::new(DeviceShared { id, name, info, counters: DeviceCounters::default(), inner }))
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.info.bytes
    }
    /// Its path, or a made-up name.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// A number that no other device of the process (of the world, when simulated) has.
    pub fn id(&self) -> u64 {
        self.0.id
    }
    /// What it is like.
    pub fn info(&self) -> DeviceInfo {
        self.0.info
    }
    /// What it did.
    pub fn counters(&self) -> &DeviceCounters {
        &self.0.counters
    }

    /// Whether a transfer lies within the device and is aligned; both drivers check this first.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let aligned = (offset | len).is_multiple_of(base::BLOCK_BYTES as u64);
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.bytes());
        if aligned && inside { Ok(()) } else { Err(DeviceError::OutOfRange) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {} bytes)", self.0.name, self.0.info.bytes)
    }
}
