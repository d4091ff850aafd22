//! What a device is like, and what a write to one may ask of it.

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
