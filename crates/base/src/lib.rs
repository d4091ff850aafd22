//! The words that every other crate speaks: identifiers, units, limits, mirrors, lanes, checksums, sizes and times.
//!
//! Owns: types without behaviour beyond arithmetic, parsing and printing.
//! Invariant: everything here is pure and deterministic.
//! Never: does I/O, reads a clock, allocates on the path of an I/O.
#![forbid(unsafe_code)]

pub mod access;
pub mod checksum;
pub mod copies;
pub mod counters;
pub mod histogram;
pub mod hooks;
pub mod id;
pub mod lane;
pub mod mirror;
pub mod order;
pub mod ownership;
pub mod role;
pub mod secret;
pub mod size;
pub mod slot;
pub mod time;
pub mod unit;
pub mod verb;

pub use access::{ListenerKind, Security, Visibility, WriteProtect};
pub use checksum::{crc32, crc32c};
pub use copies::{BlockRange, LaneDoubt, ResyncProgress, SourceContent, SourceRun};
pub use histogram::Histogram;
pub use id::{ClusterId, ComponentId, DeviceUuid, GroupId, HostId, NodeId, ObjectId, VolumeId};
pub use lane::Lane;
pub use mirror::{CopyState, ResyncPace};
pub use order::{Order, Ownership, Seq};
pub use ownership::{CopyRecord, Nonce, OwnerId, OwnershipRecord};
pub use role::NodeRole;
pub use secret::SecretBytes;
pub use size::ByteSize;
pub use slot::{NODES_MAX, NodeSlot};
pub use time::{Duration, Instant};
pub use unit::{BLOCK_BYTES, BlockNo, Epoch, Incarnation, is_zero};
pub use verb::{IoClass, IoVerb};
