//! One host's disk groups: a write buffer (log) on the cache device, chunks on capacity devices, and everything between.
//!
//! Owns: what lies on the devices of a group, and that it is right after a crash at any instant.
//! Invariant: what was acknowledged as durable is found again, or its loss is reported; never other data.
//! Never: knows about other hosts, or what the bytes mean. See `docs/on-disk-format.md`.
#![forbid(unsafe_code)]

#[cfg(feature = "bench")]
pub mod bench;
mod buffer;
pub mod capacity;
pub mod components;
mod destage;
pub mod geometry;
pub mod group;
mod index;
mod join;
mod pace;
#[cfg(feature = "hooks")]
pub mod probe;
mod recovery;
mod replica;
mod scrub;
mod shard;
mod slots;
mod stats;
pub mod superblock;
mod trouble;
mod usage;

#[cfg(test)]
mod tests;

pub use buffer::ATOMIC_BLOCKS;
pub use components::{ComponentInfo, ComponentNo, ComponentSpec, ComponentUpdate};
pub use geometry::{CapacityGeometry, Geometry, LogGeometry, memory_bytes};
pub use group::{
    Adding, FormatSpec, Group, GroupDevices, GroupError, GroupInfo, NewCapacity, Removing, format_group, open_group, open_group_with,
};
pub use pace::{Rules, Settings};
pub use replica::ReplicaView;
pub use shard::copies::{CopyChunk, CopyList, LIST_CHUNKS_MAX};
pub use shard::op::{CopySync, Crcs, OpKind, RangeContent, RangeOp, ShardDone, ShardOp, StoreError};
pub use shard::{OPERATIONS_MAX, Shard};
pub use stats::{BAD_BLOCKS_LISTED_MAX, BATCH_CLASSES, BadBlock, ShardStats};
pub use superblock::{Found, Probe, probe};
pub use usage::ChunksUsed;
