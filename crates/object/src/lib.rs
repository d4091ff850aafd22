//! The owner of each lane of each object: splits a request at pieces, brings every part to the core of its lane, puts overlapping
//! operations in order, keeps the limits of the policy, and hands whole blocks to the store.
//!
//! Invariant: a shard of the store never sees two overlapping operations of which one changes data; a write is answered only when every in-sync
//! copy of it is durable.
//! Never: chooses where components live, knows what a front end's protocol looks like.
#![forbid(unsafe_code)]

pub mod copies;
pub mod cores;
pub mod fill;
pub mod grant;
pub mod io;
pub mod lanes;
pub mod layout;
pub mod limit;
pub mod link;
mod order;
pub mod owner;
pub mod owners;
mod part;
mod pieces;
mod range_lock;
pub mod router;
mod stats;

pub use cores::{GroupRoute, LaneCores, TermCores};
pub use fill::{Fill, FillOrder, FillSays};
pub use io::{
    ATOMIC_BYTES_MAX, Backend, CompareWrite, Data, DataVec, Extent, Forward, ForwardDone, ForwardOutcome, IoDone, IoError, IoOp, IoRequest,
    VolumeRef, extents,
};
pub use layout::{ComponentAt, CopyAt, CopyPlace, GroupSlot, HeldCopy, LayoutView, Mirror, VolumeLayout};
pub use limit::{Limits, VolumeLimits};
pub use order::IN_DOUBT_MAX;
pub use part::RouterMsg;
pub use pieces::{Survey, Surveyed};
pub use router::VolumeRouter;
pub use stats::{ClassStats, RouterStats, VOLUMES_COUNTED_MAX, VolumeStats};
pub use store::ChunksUsed;
