//! Capacity: which chunks are in use, by whom, and what their blocks must sum to.
//!
//! Owns: the chunk table of a shard in memory ([`ChunkTable`]), its pages on the capacity devices, the accounting of space
//! and reservations.
//! Invariants: see [`ChunkTable`].
//! Never: reads or writes data blocks; decides when a checkpoint is due.

pub mod checkpoint;
mod extents;
mod forward;
mod load;
mod phys;
mod table;

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;

pub use checkpoint::{CheckpointError, CheckpointReport, write_checkpoint};
pub use phys::Phys;
pub use table::{AllocateError, BlockContent, Checkpoint, Chunk, ChunkTable, DeviceSpace, Inconsistent, PageRef, Walk};
