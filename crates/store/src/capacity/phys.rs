//! Where a chunk lies.
//!
//! Owns: [`Phys`].

/// A physical chunk of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phys {
    /// Number of the capacity device.
    pub device: u8,
    /// Number of the chunk in this shard's part of the device.
    pub chunk: u32,
}
