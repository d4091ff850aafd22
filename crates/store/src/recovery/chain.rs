//! The chain of batches: each carries its number and the checksum of the one before.

/// Where the next batch stands in the chain.
pub(super) struct Chain {
    /// Its number.
    pub lsn: u64,
    /// The checksum of the batch before it.
    pub crc: u32,
}
