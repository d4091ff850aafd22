//! What a Linux host says of its NVMe/TCP and iSCSI connections to Basalt, and what is to be changed of it. For the machine that connects, where no daemon
//! runs.
//!
//! ```text
//!  /sys, /proc (or a tree like them) ──► read ──► Host ──► judge ──► findings, each with what to do
//! ```
//!
//! Owns: the attributes of sysfs that matter ([`Host::read`]), the settings that Basalt wants ([`judge`]).
//! Invariants: nothing is ever written; what cannot be read is said to be unknown, never good.
//! Never: talks to a daemon or to a device.
// Nothing of this runs in the data plane.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod iscsi;
mod judge;
mod kernel;
mod read;

pub use iscsi::{Disk as IscsiDisk, Session as IscsiSession, SessionFault, Volume as IscsiVolume, VolumeFault};
pub use judge::{Advice, CTRL_LOSS_TMO, Finding, IO_POLICIES, KEEP_ALIVE_TMO_S, Level, PathFault, RECONNECT_DELAY_S, judge};
pub use kernel::{KERNEL_ISSUES, KernelIssue, KernelVersion};
pub use read::{Controller, Host, MODEL, Multipath, Path, ReadError, Subsystem, Timeout};

#[cfg(test)]
mod tests;
