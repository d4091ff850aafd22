//! The drives of this node: which block devices there are, what they are, and who uses them.
//!
//! Owns: reading /sys, /proc and the first bytes of devices.
//! Invariants: nothing is ever written; what cannot be found out is said to be unknown, never free.
//! Never: opens a device for writing, decides what to do with a drive.
// Control plane: hashed maps and clocks would be fine here; the data plane does not depend on this crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod error;
mod scan;
mod signature;
mod uses;

pub use error::DriveError;
pub use scan::{Drive, DriveKind, NvmeNamespace, Scanner};
pub use signature::{SIGNATURE_PROBE_BYTES, signature};
pub use uses::Use;

#[cfg(test)]
mod tests;
