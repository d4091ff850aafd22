//! A connection on its way between two cores, whichever driver is behind.
//!
//! Invariant: it belongs to no core; dropped, it is closed.

use crate::sim::refs::SimSocket;
use crate::uring::OwnedSocket;

/// A connection between two cores: taken from one with `Rt::detach`, given to another with `Rt::attach`. Dropping it closes it.
pub struct OwnedConn(pub(crate) OwnedConnInner);

pub(crate) enum OwnedConnInner {
    Uring(OwnedSocket),
    Sim(SimSocket),
}

impl core::fmt::Debug for OwnedConn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OwnedConn")
    }
}
