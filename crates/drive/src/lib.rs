//! The drives of this node: which block devices there are, what they are, and who uses them.
//!
//! Owns: reading /sys, /proc, the first bytes of devices, and what NVMe drives say of their health.
//! Invariants: nothing is ever written; what cannot be found out is said to be unknown, never free.
//! Never: opens a device for writing, decides what to do with a drive.
// Control plane: hashed maps and clocks would be fine here; the data plane does not depend on this crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(unsafe_code)]

mod error;
mod scan;
mod signature;
// One ioctl.
#[allow(unsafe_code)]
mod smart;
mod uses;

pub use error::DriveError;
pub use format::nvme::log::Health;
pub use scan::{Drive, DriveKind, NvmeNamespace, Scanner};
pub use signature::{SIGNATURE_PROBE_BYTES, signature};
pub use smart::HealthError;
pub use uses::Use;

#[cfg(test)]
mod tests;
