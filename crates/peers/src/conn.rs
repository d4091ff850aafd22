//! A connection to another node, and what it is for.
//!
//! Invariants: at most one receive is under way, and so many sends as it may; once it is being closed nothing is begun on it; it goes when its
//! operations have come back.
//! Never: knows what the bytes mean.

use crate::limits::{RECEIVE_BYTES, SENDS_MAX};
use base::NodeId;
use object::link::Link;
use rt::{Buf, ConnId, Queue, Rt, SendList};

/// What a connection is for.
pub(crate) enum Purpose {
    /// It was accepted, and says who it is: the greeting, and its bytes as they came.
    Greeting(Box<Link>, Vec<u8>),
    /// The link with a node.
    Member(NodeId),
    /// A link that is over, and has something to say.
    Over(Box<Link>),
    /// Nothing.
    Nothing,
}

/// Where the bytes of a receive go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    /// Into a buffer of its own.
    Own,
    /// Into one of the link.
    Landing,
}

/// One connection.
pub(crate) struct Conn {
    pub(crate) id: ConnId,
    pub(crate) purpose: Purpose,
    receiving: Option<Receive>,
    sends: u8,
    closed: bool,
    spare: Option<Buf>,
}

impl Conn {
    pub fn new(id: ConnId, purpose: Purpose) -> Conn {
        Conn { id, purpose, receiving: None, sends: 0, closed: false, spare: None }
    }
    /// Whether it was asked to close.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
    /// Whether it is closed and all of its operations have come back.
    pub fn is_gone(&self) -> bool {
        self.closed && self.receiving.is_none() && self.sends == 0
    }
    /// Whether all that was given to it is sent.
    pub fn has_sent_all(&self) -> bool {
        self.sends == 0
    }
    /// Asks to close it.
    pub fn close(&mut self, rt: &Rt) {
        if !self.closed {
            self.closed = true;
            rt.close(self.id);
        }
    }
    /// Reads on, if it is not being read. `land`: where much data of one request goes.
    pub fn receive(&mut self, rt: &Rt, queue: &Queue, cookie: u64, land: Option<(Buf, std::ops::Range<usize>)>) {
        debug_assert!(self.receiving.is_none(), "one receive at a time");
        if self.closed {
            return;
        }
        self.receiving = Some(if land.is_some() { Receive::Landing } else { Receive::Own });
        match land {
            Some((buf, at)) => rt.recv_at(queue, cookie, self.id, at, buf),
            None => {
                let mut buf = self.spare.take().unwrap_or_else(|| Buf::alloc(RECEIVE_BYTES));
                buf.set_len(RECEIVE_BYTES);
                rt.recv(queue, cookie, self.id, buf);
            }
        }
    }
    pub fn is_receiving(&self) -> bool {
        self.receiving.is_some()
    }
    /// The receive has come back. Whether it was into a buffer of the link.
    pub fn received(&mut self) -> bool {
        self.receiving.take() == Some(Receive::Landing)
    }
    /// A buffer of its own, for the next receive.
    pub fn keep(&mut self, buf: Buf) {
        self.spare = Some(buf);
    }
    /// Whether the network takes another send.
    pub fn takes_send(&self) -> bool {
        !self.closed && self.sends < SENDS_MAX
    }
    pub fn send(&mut self, rt: &Rt, queue: &Queue, cookie: u64, list: SendList) {
        self.sends += 1;
        rt.send(queue, cookie, self.id, list);
    }
    /// A send has come back.
    pub fn sent(&mut self) {
        self.sends -= 1;
    }
}
