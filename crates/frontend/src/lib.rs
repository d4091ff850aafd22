//! The contract of all front ends, above the volume router: the volumes that they export, who may do what with them, what each host may take and
//! what it did, what hosts' commands ask of the control plane, what goes to the audit log, and what a front end is to the core that drives it. See `docs/frontends.md`.
//!
//! A *unit* is a volume within an *export*: a namespace of an NVMe subsystem, a logical unit of an iSCSI target.
//!
//! Owns: the words that front ends, `dataplane` and `control` share.
//! Never: knows a protocol.
#![forbid(unsafe_code)]

mod audit;
mod control_request;
mod front_end;
mod hosts;
mod in_process;
mod pair;
mod quota;
mod ranges;
mod volumes;

pub use audit::{AuditEvent, AuditKind, AuditQueue};
pub use control_request::{ControlRequest, ControlRequestId, ControlVerb, Refused, Reply, RequestedBy};
pub use front_end::{FrontEnd, LinkChange, ListenError, WorkId};
pub use hosts::{ClassStats, Classes, CommandClass, HOSTS_COUNTED_MAX, HostCounters, HostPlace, HostTable};
pub use in_process::{Client, InProcess};
pub use pair::{Of, Pair};
pub use quota::{HostLimits, LEASE_BYTES, Place, Quotas, Reserve};
pub use ranges::{ByteRange, RangeCopy, RangeTrim};
pub use volumes::{SPACE_LOW_PERCENT, ServedVolume, UnknownVolume, VolumeView, Volumes};
// The door into a volume.
pub use object::router::REQUESTS_MAX;
pub use object::{Backend, Data, DataVec, Extent, IoDone, IoError, IoOp, IoRequest, VolumeRef, extents};
