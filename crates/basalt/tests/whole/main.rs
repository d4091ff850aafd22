//! The real daemon as a process of its own, as administrators and hosts meet it; one program, so that it is linked once.
//!
//! ```text
//! cargo test -p basalt --test whole                    # all of it
//! cargo test -p basalt --test whole kill_restart::     # one subject
//! ```
//!
//! Invariants: every daemon is ended by its process id, also when a test fails ([`harness`]); tests with a heavy load have the machine to
//! themselves ([`harness::turn`]); no port, file or process is shared between tests.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // real processes, real time

mod authentication;
mod cluster;
mod daemon;
mod devices;
mod faults;
mod flood;
mod guide;
mod harness;
mod io_commands;
mod iscsi;
mod kill_restart;
mod lab;
mod lab_agents;
mod mirrors;
mod moves;
mod nemesis;
mod output;
mod overload;
mod pdu;
mod questions;
mod recovery;
mod reservations;
mod resize;
mod tls;
mod token;
mod watching;
mod wrong_inputs;
