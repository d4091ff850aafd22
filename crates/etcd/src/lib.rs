//! etcd: a client of its v3 API, and its server as a child of the daemon.
//!
//! Owns: connections to endpoints over mutual TLS ([`Client`]), the messages ([`message`]), watches ([`WatchStream`]), what an error says of the
//! outcome ([`EtcdError`]), the server as Basalt runs it ([`server`]).
//! Invariants: whoever gets [`EtcdError::did_not_happen`] knows that nothing was done; every call has a deadline, every message and buffer a
//! limit; a connection is used only when its member has answered on it, has a leader, and has a version that is known to be right.
//! Never: takes a lost answer for a failure, tries a change a second time, knows what the keys mean.
// Control plane: wall clocks and threads are fine here; the data plane does not depend on this crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod client;
mod connection;
mod endpoint;
mod error;
pub mod external;
#[cfg(feature = "fixture")]
pub mod fixture;
mod grpc;
mod limits;
pub mod message;
mod recorded;
pub mod server;
mod tls;
mod version;
mod watch;

pub use client::{Client, Options};
pub use endpoint::{BadEndpoint, Endpoint};
pub use error::{CertificateFault, ConnectError, EtcdError, Lost, Refusal, Unreachable};
pub use limits::*;
pub use version::{BadVersion, Version};
pub use watch::{Batch, WatchStream};

/// The end of the range of all keys that begin with `prefix`.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All bytes are the largest: everything from here on.
    vec![0]
}
