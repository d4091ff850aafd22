//! One connection: its operations of `rt`, and what lies between the network and the protocol.
//!
//! ```text
//!  open ──close──► closed ──its operations have come back──► over
//! ```
//!
//! Invariants: see the crate.

use crate::layer::{Came, Layer};
use crate::receiving::Receiving;
use base::{Duration, Instant};
use rt::{Buf, ConnId, OwnedConn, Queue, Rt, SendList};
use std::ops::Range;
use std::sync::Arc;
use tls::{Context, Fault, PskIdentity, TlsPsk};

/// See the module. `I`: the identities that TLS takes here.
pub struct Connection<I> {
    id: ConnId,
    layer: Layer<I>,
    receiving: Receiving,
    /// Sends that have not come back, and how many there may be.
    sends: u8,
    sends_max: u8,
    closed: bool,
}

impl<I: PskIdentity> Connection<I> {
    /// One that was accepted or made just now.
    pub fn new(id: ConnId, layer: Layer<I>, sends_max: u8, now: Instant) -> Self {
        Connection { id, layer, receiving: Receiving::new(now), sends: 0, sends_max, closed: false }
    }
    /// Its name at `rt`.
    pub fn id(&self) -> ConnId {
        self.id
    }
    /// Asks `rt` to close it, once.
    pub fn close(&mut self, rt: &Rt) {
        if !core::mem::replace(&mut self.closed, true) {
            rt.close(self.id);
        }
    }
    /// Whether it was asked to close.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed
    }
    /// Whether an operation of `rt` has not come back.
    pub fn has_operations(&self) -> bool {
        self.receiving.is_under_way() || self.sends > 0
    }
    /// Takes it from its core, for another: with [`Connection::new`] there it goes on.
    ///
    /// # Panics
    /// When an operation of it is under way.
    pub fn detach(self, rt: &Rt) -> (OwnedConn, Layer<I>) {
        assert!(!self.has_operations(), "what is under way comes back first");
        (rt.detach(self.id), self.layer)
    }

    // ---- what comes in ----------------------------------------------------------------------------------------------

    /// Whether a receive is under way.
    #[inline]
    pub fn is_receiving(&self) -> bool {
        self.receiving.is_under_way()
    }
    /// Receives, if it is not closed: so many bytes at most, into a buffer of its own.
    #[inline]
    pub fn receive(&mut self, rt: &Rt, queue: &Queue, cookie: u64, bytes: usize) {
        if !self.closed {
            let buf = self.receiving.take_buf(bytes);
            self.receiving.begin(None);
            rt.recv(queue, cookie, self.id, buf);
        }
    }
    /// Receives, if it is not closed, into a part of a buffer of the protocol's. Of a plain connection only: see [`Connection::is_plain`].
    #[inline]
    pub fn receive_at(&mut self, rt: &Rt, queue: &Queue, cookie: u64, at: Range<usize>, buf: Buf) {
        debug_assert!(self.is_plain(), "what TLS protects is decrypted first");
        if !self.closed {
            self.receiving.begin(Some(at.start));
            rt.recv_at(queue, cookie, self.id, at, buf);
        }
    }
    /// The receive has come back. From where on its bytes are in a buffer of the protocol's; `None`: it was into one of its own.
    #[inline]
    pub fn received(&mut self) -> Option<usize> {
        self.receiving.came_back()
    }
    /// Gives back a buffer of its own, for the next receive.
    #[inline]
    pub fn keep(&mut self, buf: Buf) {
        self.receiving.keep(buf);
    }
    /// Bytes came now.
    #[inline]
    pub fn note_bytes(&mut self, now: Instant) {
        self.receiving.note_bytes(now);
    }
    /// When bytes came last.
    pub fn last_bytes(&self) -> Instant {
        self.receiving.last_bytes()
    }
    /// It is not to be read now: the protocol has too much of it under way.
    pub fn hold_back(&mut self, now: Instant) {
        self.receiving.hold_back(now);
    }
    /// It may be read again: how long it was not.
    #[inline]
    pub fn resume(&mut self, now: Instant) -> Option<Duration> {
        self.receiving.resume(now)
    }
    /// Whether bytes are for the protocol as they come. Before the first has come this is not known.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.layer, Layer::Plain)
    }
    /// Takes bytes that came on a connection that is not known to be plain; see [`Layer::receive`].
    pub fn open(
        &mut self,
        bytes: &[u8],
        context: impl FnOnce() -> Option<Arc<Context>>,
        keys: impl FnMut(&I) -> Vec<TlsPsk>,
        now: Instant,
    ) -> Result<Came, Fault> {
        let came = self.layer.receive(bytes, context, keys)?;
        if let Came::Sealed { .. } = came {
            let (whole, part) = self.layer.records();
            self.receiving.note_records(whole, part, now);
        }
        Ok(came)
    }
    /// Decrypts up to a record into `to`: how many bytes, 0 when there is no more. `None`: the other end said goodbye.
    pub fn read(&mut self, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        self.layer.read(to)
    }

    // ---- what goes out ----------------------------------------------------------------------------------------------

    /// Sends the next list that there is: of TLS itself, or what `take` gives of the protocol, as long as the network has not too much of it.
    /// When `last` and there is nothing more, TLS says goodbye. Whether something was sent.
    #[inline]
    pub fn send(&mut self, rt: &Rt, queue: &Queue, cookie: u64, last: bool, take: impl FnOnce() -> Option<SendList>) -> bool {
        if self.sends == self.sends_max || self.closed {
            return false;
        }
        let Some(list) = self.layer.next_send(take, last) else { return false };
        self.sends += 1;
        rt.send(queue, cookie, self.id, list);
        true
    }
    /// A send has come back: what is the protocol's.
    #[inline]
    pub fn sent(&mut self, list: SendList) -> Option<SendList> {
        debug_assert!(self.sends > 0, "what comes back was sent");
        self.sends -= 1;
        self.layer.sent(list)
    }
    /// Whether the network has as much as it may.
    #[inline]
    pub fn sends_are_full(&self) -> bool {
        self.sends == self.sends_max
    }
    /// Whether the network has something.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.sends > 0
    }

    // ---- TLS --------------------------------------------------------------------------------------------------------

    /// Whose key it has proved; `None` when it is plain, and before the handshake is done.
    pub fn identity(&self) -> Option<&I> {
        self.layer.identity()
    }
    /// Whether something of TLS has come.
    pub fn has_heard_tls(&self) -> bool {
        self.layer.records() != (0, false)
    }
    /// Whether a TLS handshake is under way.
    pub fn is_beginning(&self) -> bool {
        self.layer.is_beginning()
    }
    /// Whether TLS has failed: nothing is sent or received any more, and it has not said goodbye.
    pub fn has_failed(&self) -> bool {
        self.layer.has_failed()
    }
    /// Whether TLS has something to say still.
    pub fn has_words(&self) -> bool {
        self.layer.has_words()
    }
    /// Whether TLS has still to say goodbye.
    pub fn owes_goodbye(&self) -> bool {
        self.layer.owes_goodbye()
    }
    /// When the TLS record began of which only a part has come.
    pub fn record_began(&self) -> Option<Instant> {
        self.receiving.record_began()
    }
    /// It was not read for so long: the record that has come in part has that much longer.
    pub fn give_time(&mut self, time: Duration) {
        self.receiving.give_time(time);
    }
    /// The other end may be silent for so much longer.
    pub fn give_idle_time(&mut self, time: Duration) {
        self.receiving.give_idle_time(time);
    }
}
