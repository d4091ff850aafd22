//! Devices: what the store reads and writes, whichever driver is behind.
//!
//! Owns: names, limits and counters of a device, how it is opened.
//! Invariants: a [`Device`] can be used from every core; offsets and lengths are multiples of 4096; a device's size never changes.
//! Never: retries, caches, interprets.

mod counters;
mod error;
mod info;
mod open;

pub use counters::{DeviceCounters, LATENCY_BUCKETS, LatencyHistogram};
pub use error::DeviceError;
pub use info::{DeviceInfo, Durability};
pub use open::{DEVICE_BYTES_MIN, OpenError, OpenOptions};

use crate::sim::refs::SimDeviceRef;
use crate::uring::{FileDevice, MemoryDevice};
use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use std::{path::Path, sync::Arc};

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
    File(FileDevice),
    Memory(MemoryDevice),
    Sim(SimDeviceRef),
}

/// Ids of devices that are not simulated.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Device {
    /// Opens a file (O_DIRECT, locked against other processes; buffered where the file system refuses O_DIRECT, see
    /// [`DeviceInfo::direct`]) or a block device (O_DIRECT, exclusive).
    pub fn open(path: &Path, opts: &OpenOptions) -> Result<Device, OpenError> {
        let (file, info) = FileDevice::open(path, opts)?;
        Ok(Self::assemble(NEXT_ID.fetch_add(1, Relaxed), path.display().to_string(), info, Inner::File(file)))
    }

    /// A device in memory, of `bytes` rounded down to 4096, all zeroes, gone with its last handle. Its memory is taken as it is written; fails when
    /// the machine has not so much, together with what other devices in memory may still take.
    pub fn memory(bytes: u64) -> Result<Device, OpenError> {
        let bytes = bytes & !4095;
        let device = MemoryDevice::new(bytes).map_err(|source| OpenError::Memory { bytes, source })?;
        Ok(Self::in_memory(bytes, true, device))
    }

    /// As [`Device::memory`], with all its memory taken now: no access waits for a page, and none is given back before the end.
    pub fn populated_memory(bytes: u64) -> Result<Device, OpenError> {
        let bytes = bytes & !4095;
        let device = MemoryDevice::populated(bytes).map_err(|source| OpenError::Memory { bytes, source })?;
        Ok(Self::in_memory(bytes, false, device))
    }

    fn in_memory(bytes: u64, discard: bool, device: MemoryDevice) -> Device {
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
