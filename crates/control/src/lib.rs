//! The control plane of one node: what an administrator asks becomes records in the directory, and records become what the
//! data plane serves.
//!
//! Owns: configuration, the engine ([`Control`]) that changes records and brings the data plane in line, health checks, metrics, the
//! REST API, forming a cluster and joining one ([`formation`]).
//! Invariants: a record is durable before the data plane acts on it, so a crash leaves work to finish, never work forgotten;
//! changes happen one at a time; what the directory does not know is reported, never deleted.
//! Never: touches the path of an I/O; holds one up.
// Control plane: wall clocks, threads and hashed maps are fine here; nothing of this runs on the data plane's cores.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod api;
pub mod audit;
pub mod cluster_client;
#[cfg(test)]
mod cluster_fixture;
#[cfg(test)]
mod cluster_tests;
pub mod config;
pub mod data_plane;
mod engine;
pub mod fake;
pub mod formation;
mod metrics;
pub mod plane;
pub mod portals;
mod problem;
pub mod vault;

pub use dataplane::memory;
pub use engine::{Control, DirectoryHealth, Identity, StartError, slot_of};
pub use problem::{Code, Problem};
