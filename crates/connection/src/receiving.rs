//! What comes in on a connection: the receive that is under way, or why there is none, and when something came last.
//!
//! Invariant: at most one receive is under way.

use base::{Duration, Instant};
use rt::Buf;

/// See the module.
pub(crate) struct Receiving {
    state: ReceiveState,
    /// The buffer of the last receive, for the next.
    spare: Option<Buf>,
    last_bytes: Instant,
    /// TLS records that have come, and when the one began of which only a part has.
    records: u64,
    record_began: Option<Instant>,
}

enum ReceiveState {
    /// None is under way.
    Idle,
    /// It is not read since then, because too much of it is under way.
    HeldBack(Instant),
    /// One is under way; into a buffer of the protocol's it puts its bytes from there on.
    UnderWay { landing: Option<usize> },
}

impl Receiving {
    pub(crate) fn new(now: Instant) -> Self {
        Receiving { state: ReceiveState::Idle, spare: None, last_bytes: now, records: 0, record_began: None }
    }
    /// Whether a receive has not come back.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state, ReceiveState::UnderWay { .. })
    }
    /// It is not to be read now.
    pub(crate) fn hold_back(&mut self, now: Instant) {
        match self.state {
            ReceiveState::Idle => self.state = ReceiveState::HeldBack(now),
            ReceiveState::HeldBack(_) => {}
            ReceiveState::UnderWay { .. } => debug_assert!(false, "it is being read"),
        }
    }
    /// It may be read again: how long it was not.
    #[inline]
    pub(crate) fn resume(&mut self, now: Instant) -> Option<Duration> {
        let ReceiveState::HeldBack(since) = self.state else { return None };
        self.state = ReceiveState::Idle;
        Some(now.since(since))
    }
    /// A receive begins, into a buffer of the protocol's from `landing` on, or into one of its own.
    #[inline]
    pub(crate) fn begin(&mut self, landing: Option<usize>) {
        debug_assert!(matches!(self.state, ReceiveState::Idle), "one receive at a time");
        self.state = ReceiveState::UnderWay { landing };
    }
    /// The receive has come back; where in a buffer of the protocol's its bytes are.
    #[inline]
    pub(crate) fn came_back(&mut self) -> Option<usize> {
        let ReceiveState::UnderWay { landing } = core::mem::replace(&mut self.state, ReceiveState::Idle) else {
            debug_assert!(false, "what comes back was under way");
            return None;
        };
        landing
    }
    /// A buffer of so many bytes.
    #[inline]
    pub(crate) fn take_buf(&mut self, bytes: usize) -> Buf {
        let mut buf = self.spare.take().filter(|b| b.capacity() == bytes).unwrap_or_else(|| Buf::alloc(bytes));
        buf.set_len(bytes);
        buf
    }
    /// Keeps a buffer for the next receive.
    #[inline]
    pub(crate) fn keep(&mut self, buf: Buf) {
        self.spare = Some(buf);
    }
    /// Bytes came now.
    #[inline]
    pub(crate) fn note_bytes(&mut self, now: Instant) {
        self.last_bytes = now;
    }
    /// When bytes came last.
    pub(crate) fn last_bytes(&self) -> Instant {
        self.last_bytes
    }
    /// So many TLS records are whole, and a `part` of another has come.
    pub(crate) fn note_records(&mut self, whole: u64, part: bool, now: Instant) {
        let same = part && self.record_began.is_some() && whole == self.records;
        if !same {
            (self.records, self.record_began) = (whole, part.then_some(now));
        }
    }
    /// When the TLS record began of which only a part has come.
    pub(crate) fn record_began(&self) -> Option<Instant> {
        self.record_began
    }
    /// The record that has come in part has so much longer.
    pub(crate) fn give_time(&mut self, time: Duration) {
        if let Some(began) = &mut self.record_began {
            *began += time;
        }
    }
    /// Who is silent may be so for so much longer.
    pub(crate) fn give_idle_time(&mut self, time: Duration) {
        self.last_bytes += time;
    }
}
