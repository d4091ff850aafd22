//! Modelled hardware: named drives with their public figures, and the file that says what a modelled cluster consists of.
//!
//! Owns: [`drives`], [`cluster`], where volumes lie ([`place`]). How a drive works is `rt::sim::DriveSpeed`; what the figures mean: `docs/lab-models.md`.
//! Invariants: every figure says where it is from; a cluster that passed its check can be built.
//! Never: runs anything (that is `engine::simulated`).

pub mod cluster;
pub mod drives;
pub mod place;
