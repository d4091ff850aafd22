//! One connection of a core: its session, what lies below it, and how it closes.
//!
//! ```text
//!         the last answers are due            the session has ended
//!  Open ───────────────────────────► Finishing ─────────────────────► Lingering
//!   │ └──────────────────────────────────────────────────────────────►  │
//!   └───────────────────────────── Closed ◄─────────────────────────────┘
//! ```
//!
//! Invariants: it goes from phase to phase by [`Conn::enter`] only, which asserts that the step is legal; a connection that lingers has ended its
//! session, and has given up its queue; one that is closed stays so.
//! Never: talks to the network; the target does.

use super::admitting::Admitting;
use super::message::Door;
use crate::limits::{LINGER_BYTES_MAX, SENDS_MAX};
use crate::session::Session;
use base::{Duration, Instant, Security};
use connection::{Accepts, Connection, Layer};
use rt::{ConnId, Queue, Rt};
use std::net::SocketAddr;
use tls::HostIdentity;

/// One connection.
pub(super) struct Conn {
    pub(super) token: u64,
    pub(super) peer: SocketAddr,
    pub(super) session: Session,
    /// What lies below the session.
    pub(super) socket: Connection<HostIdentity>,
    pub(super) admitting: Admitting,
    phase: ConnPhase,
    /// It is on the list of connections where something happened.
    pub(super) dirty: bool,
}

/// How far a connection is with closing.
enum ConnPhase {
    /// It is read and written.
    Open,
    /// It is closed as soon as all that runs is answered and sent.
    Finishing,
    /// Its session has ended and its queue was given up; its peer may read why.
    Lingering(Linger),
    /// `rt` was asked to close it; it goes when its operations have come back.
    Closed,
}

/// The end of a connection whose session has ended.
struct Linger {
    /// It is closed at this time at the latest.
    until: Instant,
    /// It is closed as soon as all is sent.
    when_sent: bool,
    /// Bytes that came since.
    thrown_away: usize,
}

/// What takes a connection from one phase to another.
pub(super) enum ConnStep {
    /// What runs is to be answered, and nothing more.
    Finish,
    /// Its session has ended: it is closed at this time, or `when_sent` as soon as all is sent.
    Linger { until: Instant, when_sent: bool },
    /// `rt` is asked to close it.
    Close,
}

impl Conn {
    /// One that was just accepted.
    pub(super) fn new(id: ConnId, token: u64, peer: SocketAddr, door: Door, now: Instant) -> Self {
        let accepts = if door.security == Security::Encrypted { Accepts::Tls } else { Accepts::PlainOrTls };
        Conn {
            token,
            peer,
            session: Session::new(token),
            socket: Connection::new(id, Layer::accepted(accepts), SENDS_MAX, now),
            admitting: Admitting::new(door, now),
            phase: ConnPhase::Open,
            dirty: false,
        }
    }

    /// Goes on. Asserts that the phase has such a step. One that is closed has nothing to finish.
    pub(super) fn enter(&mut self, step: ConnStep) {
        use ConnPhase as Phase;
        self.phase = match (core::mem::replace(&mut self.phase, Phase::Closed), step) {
            (_, ConnStep::Close) | (Phase::Closed, ConnStep::Finish) => Phase::Closed,
            (Phase::Open | Phase::Finishing, ConnStep::Finish) => Phase::Finishing,
            (Phase::Lingering(l), ConnStep::Finish) => Phase::Lingering(Linger { when_sent: true, ..l }),
            (Phase::Open, ConnStep::Linger { until, when_sent }) => Phase::Lingering(Linger { until, when_sent, thrown_away: 0 }),
            (Phase::Finishing, ConnStep::Linger { until, .. }) => Phase::Lingering(Linger { until, when_sent: true, thrown_away: 0 }),
            // What lies below the session has failed too.
            (Phase::Lingering(l), ConnStep::Linger { until, when_sent }) => {
                Phase::Lingering(Linger { until, when_sent: l.when_sent || when_sent, ..l })
            }
            (Phase::Closed, ConnStep::Linger { .. }) => panic!("a connection that is closed does not linger"),
        };
        debug_assert!(!matches!(self.phase, Phase::Lingering(_)) || self.session.is_ended(), "it lingers and its session goes on");
    }
    /// Whether `rt` was asked to close it.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, ConnPhase::Closed)
    }
    /// Whether its queue, if it is one, was not given up.
    #[inline]
    pub(super) fn is_attached(&self) -> bool {
        matches!(self.phase, ConnPhase::Open | ConnPhase::Finishing)
    }
    /// Whether it is closed as soon as all that runs is answered and sent.
    #[inline]
    pub(super) fn closes_when_sent(&self) -> bool {
        match &self.phase {
            ConnPhase::Open | ConnPhase::Closed => false,
            ConnPhase::Finishing => true,
            ConnPhase::Lingering(l) => l.when_sent,
        }
    }
    /// Whether it has lingered long enough.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        matches!(&self.phase, ConnPhase::Lingering(l) if now >= l.until)
    }
    /// So many bytes came. Whether they are more than what is read of a peer whose session has ended.
    #[inline]
    pub(super) fn is_overrun_by(&mut self, bytes: usize) -> bool {
        let ConnPhase::Lingering(l) = &mut self.phase else { return false };
        l.thrown_away += bytes;
        l.thrown_away > LINGER_BYTES_MAX
    }

    /// Sends the next list that there is, while the network has not too much of it. When `last`, TLS says goodbye behind it. Whether one was sent.
    #[inline]
    pub(super) fn send(&mut self, rt: &Rt, queue: &Queue, cookie: u64, last: bool) -> bool {
        let Conn { socket, session, .. } = self;
        socket.send(rt, queue, cookie, last, || session.take_send())
    }
    /// Whether all that was to be sent is.
    #[inline]
    pub(super) fn has_sent_all(&self) -> bool {
        !self.socket.is_sending() && !self.session.has_send()
    }
    /// Whether nothing runs, and all that was to be sent is.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.session.running() == 0 && self.has_sent_all()
    }

    /// When what has come in part, a record or a PDU, began.
    pub(super) fn part_began(&self) -> Option<Instant> {
        self.session.pdu_began().into_iter().chain(self.socket.record_began()).min()
    }
    /// It was not read for so long: what has come in part has that much longer.
    pub(super) fn give_time(&mut self, time: Duration) {
        self.session.give_time(time);
        self.socket.give_time(time);
    }
    /// Its core did not look for so long: all its deadlines are that much later.
    pub(super) fn give_time_to_all(&mut self, time: Duration) {
        self.give_time(time);
        self.socket.give_idle_time(time);
        self.admitting.give_time(time);
    }
}
