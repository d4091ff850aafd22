//! Where a link stands, with what exists only there.
//!
//! ```text
//!  Greeting ────────────────────┐ answer
//!                               ├─────────► Open ────────► Draining
//!  Awaiting ────────► Judging ──┘ admitted        goodbye      │ nothing left
//!      │      Hello      │                          │          │
//!      └─────────────────┴──── refused, a fault, ───┴──────────┴──► Closed
//!                              silence, a cut, a newer session
//! ```
//!
//! Owns: the session while there is one, and of a closed link what its session has left at this node.
//! Invariant: a link goes from phase to phase by [`LinkPhase::enter`] only, which asserts that the step is legal. What is closed stays so.
//! Never: writes messages.

use super::copies::CopyTraffic;
use super::credit::{Granting, Spending};
use super::fault::CloseReason;
use super::pending::Pending;
use super::request::SessionId;
use super::served::Served;
use base::Instant;
use format::peer::{Envelope, Hello, Incarnation, LinkClass, Totals};

/// Where the link stands.
#[derive(Debug)]
pub(super) enum LinkPhase {
    /// Hello was sent, and its answer must come.
    Greeting(Greeting),
    /// Hello must come until then.
    Awaiting(Instant),
    /// Hello has come and is being judged until then.
    Judging(Judging),
    /// Requests go both ways.
    Open(Box<Session>),
    /// No new requests; what is under way is answered.
    Draining(Box<Session>, Goodbyes),
    /// Nothing has effect any more.
    Closed(Ended),
}

/// What takes a link from one phase to another.
#[derive(Debug)]
pub(super) enum PhaseStep {
    /// Hello has come.
    Judge(Judging),
    /// Both sides know each other.
    Open(Box<Session>),
    /// Goodbye was sent, or has come.
    Drain(Goodbyes),
    /// The end.
    Close(CloseReason),
}

/// Of a link whose Hello was sent.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) until: Instant,
    pub(super) hello: Hello,
    pub(super) session: SessionId,
    /// The oldest incarnation of the acceptor that is believed.
    pub(super) incarnation_min: Incarnation,
    pub(super) granting: Granting,
}

/// Of a link whose Hello has come.
#[derive(Debug)]
pub(super) struct Judging {
    pub(super) until: Instant,
    pub(super) hello: Hello,
    pub(super) session: SessionId,
    /// What the dialer allows at first.
    pub(super) allowed: Totals,
}

/// Which Goodbyes there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goodbyes {
    Sent,
    Both,
}

/// An open link.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) class: LinkClass,
    pub(super) version: u8,
    /// Of the other node.
    pub(super) incarnation: Incarnation,
    /// Of this node.
    pub(super) own: Incarnation,
    /// The newest tick of the other node.
    pub(super) clock: Instant,
    /// When this one sent its clock last.
    pub(super) tick_sent: Instant,
    pub(super) granting: Granting,
    pub(super) spending: Spending,
    pub(super) pending: Pending,
    pub(super) served: Served,
    /// For copies.
    pub(super) copies: CopyTraffic,
}

/// What a closed link leaves behind.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) reason: CloseReason,
    /// The session, if there was one, and what of it is under way at this node.
    pub(super) left: Option<(SessionId, Served)>,
}

impl Session {
    /// What goes around the next message: it says what this node allows by now.
    #[inline]
    pub(super) fn envelope(&mut self) -> Envelope {
        Envelope { session: self.id.no, version: self.version, totals: self.granting.announce() }
    }
}

impl LinkPhase {
    /// Goes on. Asserts that the phase has such a step.
    pub(super) fn enter(&mut self, step: PhaseStep) {
        use LinkPhase as Phase;
        let nothing = Phase::Closed(Ended { reason: CloseReason::Drained, left: None });
        *self = match (core::mem::replace(self, nothing), step) {
            (Phase::Awaiting(_), PhaseStep::Judge(judging)) => Phase::Judging(judging),
            (Phase::Greeting(_) | Phase::Judging(_), PhaseStep::Open(session)) => Phase::Open(session),
            (Phase::Open(session), PhaseStep::Drain(said)) => Phase::Draining(session, said),
            (Phase::Draining(session, Goodbyes::Sent), PhaseStep::Drain(Goodbyes::Both)) => Phase::Draining(session, Goodbyes::Both),
            (Phase::Open(session) | Phase::Draining(session, _), PhaseStep::Close(reason)) => {
                let Session { id, mut served, pending, .. } = *session;
                assert!(pending.is_empty(), "every request is answered before its link closes");
                served.session_ended();
                Phase::Closed(Ended { reason, left: Some((id, served)) })
            }
            (Phase::Greeting(_) | Phase::Awaiting(_) | Phase::Judging(_), PhaseStep::Close(reason)) => {
                Phase::Closed(Ended { reason, left: None })
            }
            (from, step) => panic!("a link that is {} does not {}", from.name(), step.name()),
        };
    }
    fn name(&self) -> &'static str {
        match self {
            LinkPhase::Greeting(_) => "greeting",
            LinkPhase::Awaiting(_) => "waiting for a Hello",
            LinkPhase::Judging(_) => "being judged",
            LinkPhase::Open(_) => "open",
            LinkPhase::Draining(..) => "draining",
            LinkPhase::Closed(_) => "closed",
        }
    }
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, LinkPhase::Closed(_))
    }
    /// The session, while there is one.
    #[inline]
    pub(super) fn session(&self) -> Option<&Session> {
        match self {
            LinkPhase::Open(session) | LinkPhase::Draining(session, _) => Some(session),
            _ => None,
        }
    }
    /// The same.
    #[inline]
    pub(super) fn session_mut(&mut self) -> Option<&mut Session> {
        match self {
            LinkPhase::Open(session) | LinkPhase::Draining(session, _) => Some(session),
            _ => None,
        }
    }
    /// The session that this is, was, or is to be.
    pub(super) fn session_id(&self) -> Option<SessionId> {
        match self {
            LinkPhase::Greeting(greeting) => Some(greeting.session),
            LinkPhase::Judging(judging) => Some(judging.session),
            LinkPhase::Open(session) | LinkPhase::Draining(session, _) => Some(session.id),
            LinkPhase::Closed(ended) => ended.left.as_ref().map(|(id, _)| *id),
            LinkPhase::Awaiting(_) => None,
        }
    }
    /// The requests of the other node in this session, whether it is open or over.
    #[inline]
    pub(super) fn served_mut(&mut self, id: SessionId) -> Option<&mut Served> {
        match self {
            LinkPhase::Open(session) | LinkPhase::Draining(session, _) if session.id == id => Some(&mut session.served),
            LinkPhase::Closed(Ended { left: Some((of, served)), .. }) if *of == id => Some(served),
            _ => None,
        }
    }
}

impl PhaseStep {
    fn name(&self) -> &'static str {
        match self {
            PhaseStep::Judge(_) => "judge a Hello",
            PhaseStep::Open(_) => "open",
            PhaseStep::Drain(_) => "drain",
            PhaseStep::Close(_) => "close",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a link that is closed does not drain")]
    fn what_is_closed_stays_closed() {
        let mut phase = LinkPhase::Awaiting(Instant(0));
        phase.enter(PhaseStep::Close(CloseReason::Lost));
        phase.enter(PhaseStep::Drain(Goodbyes::Sent));
    }
}
