//! A connection to another node, and what it is for.
//!
//! ```text
//!  accepted: Greeting ──Hello, proved──► Member ──its link is over──► closed
//!                └────refused──► Over ──it has said why──► closed
//!  dialed: Member
//! ```
//!
//! Never: knows what the bytes mean.

use crate::limits::SENDS_MAX;
use base::{Instant, NodeId};
use connection::{Connection, Layer};
use format::peer::{Hello, LinkClass};
use object::link::{Link, SessionId};
use rt::{ConnId, OwnedConn};
use std::net::SocketAddr;
use tls::PairIdentity;

/// What a connection is for.
pub(crate) enum Purpose {
    /// It was accepted, and says who it is.
    Greeting(Box<Greeting>),
    /// The link of a class with a node.
    Member(NodeId, LinkClass),
    /// A link that is over, and has something to say.
    Over(Box<Link>),
    /// Nothing.
    Nothing,
}

/// Who says who it is.
pub(crate) struct Greeting {
    pub(crate) link: Link,
    /// What it has said so far.
    pub(crate) bytes: Vec<u8>,
    /// Rises with each that comes.
    pub(crate) serial: u64,
    /// The pair that it named last.
    pub(crate) offered: Option<PairIdentity>,
    /// It has said it, and goes to another core once its sends have come back.
    pub(crate) moves: Option<usize>,
}

/// One connection.
pub(crate) struct Conn {
    pub(crate) socket: Connection<PairIdentity>,
    pub(crate) purpose: Purpose,
    pub(crate) addr: SocketAddr,
}

/// A connection on its way to another core, with what it has said.
pub struct Moving {
    pub(crate) conn: OwnedConn,
    pub(crate) layer: Layer<PairIdentity>,
    pub(crate) addr: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// What a Hello said, and on which session.
pub(crate) type Said = (Hello, SessionId);

impl Conn {
    pub fn new(id: ConnId, layer: Layer<PairIdentity>, addr: SocketAddr, purpose: Purpose, now: Instant) -> Conn {
        Conn { socket: Connection::new(id, layer, SENDS_MAX, now), purpose, addr }
    }
    /// Whether it is closed and all of its operations have come back.
    pub fn is_gone(&self) -> bool {
        self.socket.is_closed() && !self.socket.has_operations()
    }
    /// Whether all that was given to it is sent.
    pub fn has_sent_all(&self) -> bool {
        !self.socket.is_sending() && !self.socket.has_words()
    }
    /// The serial number of a greeting.
    pub fn serial(&self) -> Option<u64> {
        if let Purpose::Greeting(greeting) = &self.purpose { Some(greeting.serial) } else { None }
    }
}
