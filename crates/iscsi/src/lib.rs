//! The iSCSI front end: login, sessions, SCSI devices, status codes. See `docs/iscsi.md`.
//!
//! Owns: what a host sees of a volume over iSCSI. One [`Target`] a core; the cores speak by [`TargetMsg`].
//! Invariants: memory is bounded by [`limits`]; a command is answered exactly once, or it was aborted, or its connection is gone; a hostile host harms
//! only its own connections.
//! Never: knows where data lives.
#![forbid(unsafe_code)]

mod alua;
mod chap;
mod desired;
mod framing;
mod front_end;
pub mod limits;
mod log;
pub mod login;
pub mod params;
pub mod session;
mod shared;
pub mod stats;
mod target;
mod unit;
pub mod view;

#[cfg(test)]
mod tests;

pub use chap::{Credentials, TargetProof};
pub use desired::{Desired, TargetDesired, UnitDesired};
pub use shared::{Shared, host_id_of};
pub use stats::{Figures, SessionInfo, Stats};
pub use target::{Target, TargetMsg};
pub use view::{HostView, ListenerSpec, NodeView, TargetView, UnitView, View};
