//! Verified load: writes patterns that say what they are, remembers what each unit may legally hold, and checks every read.
//!
//! Owns: the pattern ([`pattern`]), the model of a volume ([`model`]), its file ([`file`]) and the engine that drives a
//! target with both ([`load`]).
//! Invariants: a version is given once; a unit's legal contents follow from what was acknowledged, what was in flight
//! when a connection died, and what reads have shown; nothing else is forgiven.
//! Never: trusts the target for anything but bytes.

pub mod file;
pub mod load;
mod load_error;
pub mod model;
pub mod pattern;
mod session;
pub mod stream;

#[cfg(test)]
mod model_tests;

pub use load::{LoadSpec, LoadSummary, Progress, Report, run};
pub use load_error::LoadError;
pub use model::{Before, Change, Mismatch, Model, Outcome, ReadToken, Span};
pub use pattern::{Found, Pattern};
pub use stream::{Mix, Sizes};
