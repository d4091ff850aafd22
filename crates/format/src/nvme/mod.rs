//! NVMe: the bytes of commands, completions, identify data, logs, features and fabrics commands.
//!
//! Owns: the layouts of NVM Express Base Specification 2.0 ("base" below) and NVM Command Set Specification 1.0
//! ("nvm" below), little-endian throughout.
//! Invariants: parsing never panics whatever the bytes; writing a parsed structure gives the same fields back; sizes and
//! offsets are asserted when this compiles.
//! Never: decides anything, does I/O, keeps state.

#[macro_use]
mod layout;
pub mod admin;
pub mod auth;
pub mod fabrics;
pub mod feature;
pub mod identify;
pub mod io;
pub mod log;
pub mod opcode;
pub mod property;
pub mod queue;
pub mod reservation;
pub mod sgl;
pub mod status;
pub mod text;

#[cfg(test)]
mod auth_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;

pub use identify::IDENTIFY_BYTES;
pub use layout::Field;
pub use opcode::{AdminOpcode, FabricsType, IoOpcode};
pub use queue::{CQE_BYTES, Cqe, Fuse, Psdt, SQE_BYTES, Sqe};
pub use sgl::{Sgl, SglKind};
pub use status::{FabricsStatus, Status, StatusCode};

/// The namespace identifier that stands for all (base 3.2.1.2).
pub const NSID_ALL: u32 = 0xFFFF_FFFF;
