//! A user-space NVMe/TCP and iSCSI client for tests, tools and the lab.
//!
//! Owns: the client side of a queue as a machine without I/O ([`queue`]), its driver over a socket ([`connection`]), a
//! controller with admin queue, keep-alive and events ([`controller`]), TLS ([`secured`]), discovery ([`discovery`]),
//! a hand-driven PDU client for bad input ([`raw`]), and the host side of iSCSI ([`iscsi`]).
//! Invariants: every wait has a deadline; every buffer and queue has a named limit.
//! Never: part of the data plane; generates a load, which is the lab's.
#![forbid(unsafe_code)]
// A client on the tool side: threads, sockets and clocks of the standard library are what it is made of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod authenticate;
pub mod connection;
pub mod controller;
pub mod discovery;
pub mod error;
pub mod io;
pub mod iscsi;
pub mod queue;
pub mod raw;
pub mod reservation;
pub mod rng;
pub mod secured;

pub use auth::{Credentials, DhGroup, HashId, Secret};
pub use controller::{Controller, ControllerOptions, HostIdentity};
pub use error::{Error, NamespaceFault, QueueError, UnitFault, Unsupported};
pub use format::nvme_tcp::Digests;
pub use io::{Io, IoDone, IoQueue, Namespace};
pub use secured::TlsOptions;
