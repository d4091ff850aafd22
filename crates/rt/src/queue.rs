//! Completion queues: where an operation's end is reported.
//!
//! Owns: the queue and the events in it.
//! Invariants: every operation that was submitted gives exactly one completion, in the queue it named; a queue keeps the order in
//! which its operations ended. Its length is bounded by the operations in flight.
//! Never: runs anything; the owner polls.

use crate::{Buf, BufVec, ConnId, Descriptor, DeviceError, EventId, NetError, SendList, TimerId, UnixConnId};
use core::cell::RefCell;
use std::{collections::VecDeque, net::SocketAddr, rc::Rc};

/// A queue of completions. A clone is the same queue.
#[derive(Clone)]
pub struct Queue(Rc<RefCell<VecDeque<Completion>>>);

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// What the submitter gave with the operation.
    pub cookie: u64,
    /// What happened.
    pub event: Event,
}

/// What happened. Each operation gives back the memory it was given, whether it succeeded or failed.
#[derive(Debug)]
pub enum Event {
    /// A device read ended: on success `buf` is filled to its length; on failure its contents are unspecified.
    Read { result: Result<(), DeviceError>, buf: Buf },
    /// A device write ended.
    Write { result: Result<(), DeviceError>, bufs: BufVec },
    /// A device flush ended.
    Flush { result: Result<(), DeviceError> },
    /// A discard ended.
    Discard { result: Result<(), DeviceError> },
    /// A timer fired.
    Timer(TimerId),
    /// A listener has a new connection; it belongs to this core.
    Accepted { conn: ConnId, peer: SocketAddr },
    /// A connect ended.
    Connected { result: Result<ConnId, NetError> },
    /// A receive ended with that many bytes at the start of `buf`; 0 says that the peer sends no more.
    Received { conn: ConnId, result: Result<usize, NetError>, buf: Buf },
    /// A send ended: on success all bytes were handed to the network, on failure an unknown part.
    Sent { conn: ConnId, result: Result<(), NetError>, list: SendList },
    /// A Unix listener has a new connection; it belongs to this core.
    UnixAccepted { conn: UnixConnId },
    /// A connect to a Unix socket ended.
    UnixConnected { result: Result<UnixConnId, NetError> },
    /// A receive ended, as for [`Event::Received`]; the descriptors came with these bytes. On an error there are none.
    UnixReceived { conn: UnixConnId, result: Result<usize, NetError>, buf: Buf, descriptors: Vec<Descriptor> },
    /// A send ended, as for [`Event::Sent`]; the descriptors that were to go with it are closed.
    UnixSent { conn: UnixConnId, result: Result<(), NetError>, list: SendList },
    /// An event was signalled, that many times (or by numbers that add up to it) since it was last reported.
    Signalled { event: EventId, result: Result<u64, NetError> },
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue(Rc::new(RefCell::new(VecDeque::new())))
    }

    /// The oldest completion that was not taken yet.
    #[inline]
    pub fn pop(&self) -> Option<Completion> {
        self.0.borrow_mut().pop_front()
    }

    /// Whether there is nothing to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// How many completions wait.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    #[inline]
    pub(crate) fn push(&self, cookie: u64, event: Event) {
        self.0.borrow_mut().push_back(Completion { cookie, event });
    }

    /// Drops what waits (when a simulated host dies).
    pub(crate) fn clear(&self) {
        let dropped = core::mem::take(&mut *self.0.borrow_mut());
        drop(dropped);
    }
}
