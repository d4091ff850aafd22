//! What simulated devices are like.
//!
//! Never: holds what one does.

/// What a simulated device is like. Times are nanoseconds, (least, most).
#[derive(Clone, Debug)]
pub struct SimDeviceOptions {
    /// Its name; empty: made up.
    pub name: String,
    /// Whether completed writes may be lost with the power unless durable or flushed.
    pub volatile_cache: bool,
    /// Whether it says that it is a spinning disk.
    pub rotational: bool,
    /// Whether discard does anything.
    pub discard: bool,
    /// A read, besides its transfer.
    pub read_ns: (u64, u64),
    /// A write, besides its transfer.
    pub write_ns: (u64, u64),
    /// A flush, and what durability adds to a write when there is a volatile cache.
    pub flush_ns: (u64, u64),
    /// How fast data is transferred.
    pub bytes_per_s: u64,
    /// The modelled drive that it is a namespace of: the drive's figures count instead of those above, and all namespaces of it share them.
    pub drive: Option<SimDrive>,
    /// Where on that drive it begins, in bytes.
    pub drive_offset: u64,
    /// Equal blocks are kept in memory once: for large disks with few contents. Contents do not enter the trace then.
    pub compact: bool,
    /// Operations are not over in one instant: each sector of a read is sampled, and each of a write arrives, at an instant of its own.
    pub spread: bool,
    /// One in so many reads takes up to so many nanoseconds longer, without holding up later operations; 0 for none.
    pub late_reads: (u64, u64),
    /// The same for everything else.
    pub late_writes: (u64, u64),
}

/// A modelled drive of a world: see [`super::World::drive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimDrive(pub(crate) usize);

impl Default for SimDeviceOptions {
    /// A flash drive with a volatile cache.
    fn default() -> Self {
        SimDeviceOptions {
            name: String::new(),
            volatile_cache: true,
            rotational: false,
            discard: true,
            read_ns: (50_000, 120_000),
            write_ns: (8_000, 40_000),
            flush_ns: (20_000, 400_000),
            bytes_per_s: 3_000_000_000,
            drive: None,
            drive_offset: 0,
            compact: false,
            spread: false,
            late_reads: (0, 0),
            late_writes: (0, 0),
        }
    }
}
