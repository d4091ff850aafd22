//! One host's data plane: puts front end, object layer and store on cores, carries messages between the cores, and takes orders from
//! the control plane.
//!
//! Invariants: a core's state is touched by that core only; an order of the control plane is done on every core or reported as failed; no
//! I/O waits for an order.
//! Never: decides what should be served or where it should lie; keeps anything that must survive.
#![forbid(unsafe_code)]

mod core;
mod desired;
mod door;
mod error;
mod event;
mod handle;
mod helper;
mod message;
mod stats;

pub use crate::core::{CoreSeed, FrontEnd, core_seeds};
pub use desired::{ComponentRef, Desired, NamespaceDesired, ObjectLayout, Stripe, SubsystemDesired, VolumeDesired};
pub use error::HostError;
pub use event::{EVENTS_MAX, HostEvent};
pub use handle::{Host, HostConfig, Orders, Ticket};
pub use stats::{CoreSnapshot, GroupSnapshot, HostStats, ShardSnapshot};
// What a front end speaks.
pub use object::{Backend, Data, DataVec, Extent, IoDone, IoError, IoOp, IoRequest, VolumeRef, extents};
// What the orders are made of.
pub use nvmf::Options as TargetOptions;
pub use nvmf::{Ask, AskId, AskedBy, AuditEvent, AuditKind, HostView, ListenerKind, ListenerSpec, Refused, Reply, SessionInfo, ask};
pub use rt::{Device, DeviceInfo, OpenError, OpenOptions, limits::memory};
pub use store::{ComponentInfo, ComponentNo, ComponentSpec, FormatSpec, GroupInfo, Probe, Rules, Settings, ShardStats};
