//! One node's data plane: puts a front end, the object layer and the store on cores, carries messages between the cores, and takes commands from
//! the control plane.
//!
//! Invariants: a core's state is touched by that core only; a command of the control plane is done on every core or reported as failed; no
//! I/O waits for a command.
//! Never: decides what should be served or where it should lie; keeps anything that must survive.
#![forbid(unsafe_code)]

mod command;
mod controller;
mod copies;
mod core;
mod core_state;
mod desired;
mod door;
mod error;
mod event;
mod fill;
mod handle;
mod message;
mod ownership;
mod records;
mod requests;
mod resolve;
mod stats;
mod worker;

pub use crate::core::{CoreSeed, Seeds, core_seeds};
pub use command::{CommandSender, Completion};
pub use copies::{AcceptedEpoch, CopyRefused, FenceCopy, ListForResync};
pub use desired::{ComponentRef, Desired, HeldDesired, MirrorDesired, ObjectDesired, ObjectLayout, VolumeDesired};
pub use error::DataPlaneError;
pub use event::{DataPlaneEvent, DirectoryAsk, EVENTS_MAX};
pub use fill::FillState;
pub use handle::{DataPlaneHandle, NodeConfig};
pub use records::{Served, component_spec, format_spec, served};
pub use stats::{CoreSnapshot, GroupSnapshot, NodeStats, ShardSnapshot};
// What the commands are made of.
pub use object::owner::Revision as RecordRevision;
pub use object::owners::{Balancing, Change, ChangeOutcome, Found};
pub use object::{ClassStats, CopyAt, CopyPlace, VolumeLimits, VolumeStats};
pub use rt::{Device, DeviceInfo, OpenError, OpenOptions, limits::memory};
pub use store::{
    ComponentInfo, ComponentNo, ComponentSpec, CopyChunk, CopyList, CopySync, FormatSpec, GroupInfo, Probe, Rules, Settings, ShardStats,
};
