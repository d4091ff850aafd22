//! The NVMe/TCP front end: sessions, controllers, discovery, access control, status codes. See `docs/nvme-tcp.md`.
//!
//! Owns: what a host sees of a volume. One [`Target`] a core; the cores speak by [`TargetMsg`].
//! Invariants: every malformed PDU ends in the specified termination or status; memory is bounded by [`limits`]; a command is
//! answered exactly once, or its connection is gone.
//! Never: knows where data lives.
#![forbid(unsafe_code)]

pub mod admin;
mod admin_context;
mod admission;
mod connect_request;
pub mod controller;
mod desired;
mod digest;
mod discovery;
mod feature_table;
mod front_end;
mod generation;
pub mod health;
pub mod limits;
pub mod notices;
pub mod options;
pub mod pages;
mod published_logs;
pub mod reservation;
pub mod session;
pub mod shared;
mod statics;
pub mod stats;
mod target;
pub mod view;

#[cfg(test)]
mod tests;

pub use desired::{Desired, MODEL, NamespaceDesired, SubsystemDesired};
pub use options::{ControllerIds, Options, Referral};
pub use shared::TargetShared;
pub use stats::{Figures, SessionInfo, TargetStats};
pub use target::{Target, TargetMsg};
pub use view::{Ana, AnaState, HostPsk, HostView, ListenerKind, ListenerSpec, NamespaceView, NodeView, SubsystemView, View};
