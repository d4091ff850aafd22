//! Every byte that leaves the process: what goes over a wire and what lies on a device.
//!
//! Owns: parse and build, one module a format. Explicit endianness, asserted sizes, reserved fields checked.
//! Invariant: any bytes may be given to a parser; it answers with a value or an error, and never reads past the end.
//! Never: does I/O, takes decisions, casts bytes to structures.
#![forbid(unsafe_code)]

#[macro_use]
mod bytes;
pub mod disk;
pub mod iscsi;
pub mod nvme;
pub mod nvme_tcp;
pub mod peer;
pub mod scsi;
pub mod token;
