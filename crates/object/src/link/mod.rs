//! One link to another node: a state machine without I/O. Bytes and requests in; bytes, requests of the other node and answers out
//! (`docs/peer-link.md`).
//!
//! Where it stands is a [`phase::LinkPhase`]. [`Peer`] holds the links to one node, and decides which session is the current one.
//!
//! Owns: the credits both ways, the requests of this node that are not answered, and what of the other node's has come.
//! Invariants: a request of this node is answered once; one of the other node begins at most once, and only while its session lasts, it is
//! wanted, fresh, and judged by the view in force; memory is bounded by the windows; what lengths say is checked before memory is taken.
//! Never: does I/O, reads a clock, carries a request out.

mod backoff;
mod copies;
mod credit;
mod fault;
mod incoming;
pub mod limits;
mod outgoing;
mod peer;
mod pending;
mod phase;
mod receive;
mod request;
mod requests;
mod served;

#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod peer_tests;
#[cfg(test)]
mod wire_tests;

pub use credit::Held;
pub use fault::{CloseReason, LinkFault};
pub use peer::{LinkPlace, Own, Peer, PlaceEvent, Standing};
pub use request::{Answered, ForwardError, ForwardOp, ForwardRequest, Forwarded, ServedId, SessionId, Stamp};
pub use served::NotBegun;

use crate::copies::{CopyAnswer, CopyAsk};
use crate::io::DataVec;
use base::hooks::{self, SeededFault};
use base::{Instant, NodeId};
use copies::CopyTraffic;
use credit::{Granting, Spending};
use format::peer::{
    Control, Envelope, Goodbye, GoodbyeReason, Hello, HelloAnswer, Incarnation, LinkClass, Refusal, SessionNo, Tick, Window,
};
use incoming::Incoming;
use limits::{GREETING_MAX, SILENCE_MAX, TICK_EVERY};
use outgoing::Outgoing;
use pending::Pending;
use phase::{Goodbyes, Greeting, LinkPhase, PhaseStep, Session};
use rt::SendList;
use served::Served;
use std::collections::VecDeque;

/// What protects the bytes of a link on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: data is compared with its checksums when it arrives.
    Plain,
    /// TLS, which has done that already.
    Tls,
}

/// What a link has to report.
#[derive(Debug)]
pub enum LinkEvent {
    /// A Hello has come: [`Link::admit`] or [`Link::refuse`] it.
    Greeted(Hello, SessionId),
    /// Requests may be submitted.
    Opened {
        /// The other node's incarnation.
        incarnation: Incarnation,
        /// The version in force.
        version: u8,
    },
    /// A request of the other node.
    Forwarded(Forwarded),
    /// One of those is no longer wanted and has not begun: [`Link::let_go`] of it.
    Cancelled(ServedId),
    /// The answer to a request of this node.
    Answered(Answered),
    /// The other node asks something of a copy here: [`Link::answer_copy`].
    CopyAsked(ServedId, CopyAsk),
    /// The answer to what this node has asked of a copy there, with its token.
    CopyAnswered(u64, CopyAnswer),
    /// A message of a control link.
    Control(Control),
    /// Nothing has effect any more: send what there is, and close the connection. Comes last.
    Closed(CloseReason),
}

/// How a Hello is welcomed.
#[derive(Clone, Copy, Debug)]
pub struct Welcome {
    /// This node.
    pub from: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The version in force.
    pub version: u8,
    /// What the dialer may have under way.
    pub window: Window,
    /// What earlier sessions of the place have left under way here.
    pub left: Held,
}

/// One link.
pub struct Link {
    phase: LinkPhase,
    protection: Protection,
    incoming: Incoming,
    outgoing: Outgoing,
    events: VecDeque<LinkEvent>,
    /// When bytes came last.
    heard_at: Instant,
}

impl Link {
    fn new(now: Instant, protection: Protection, phase: LinkPhase) -> Link {
        Link { phase, protection, incoming: Incoming::new(), outgoing: Outgoing::new(), events: VecDeque::new(), heard_at: now }
    }
    /// A connection that this node has made: it says Hello, as this session. `left` is what earlier sessions of the place have left under way
    /// here; no older incarnation of the other node is believed than `incarnation_min`.
    pub fn dial(now: Instant, hello: Hello, no: SessionNo, left: Held, incarnation_min: Incarnation, protection: Protection) -> Link {
        let mut granting = Granting::new(hello.window, left);
        let session = SessionId { incarnation: hello.incarnation, no };
        let envelope = Envelope { session: no, version: hello.versions.newest, totals: granting.announce() };
        let greeting = Greeting { until: now + GREETING_MAX, hello, session, incarnation_min, granting };
        let mut link = Link::new(now, protection, LinkPhase::Greeting(greeting));
        link.outgoing.push(|out| hello.write(&envelope, out));
        link
    }
    /// A connection that was accepted: the other node says Hello.
    pub fn accept(now: Instant, protection: Protection) -> Link {
        Link::new(now, protection, LinkPhase::Awaiting(now + GREETING_MAX))
    }

    /// Whether nothing has effect any more.
    pub fn is_closed(&self) -> bool {
        self.phase.is_closed()
    }
    /// Whether it is closed, and all of its events and bytes were taken.
    pub fn is_done(&self) -> bool {
        self.is_closed() && self.events.is_empty() && self.outgoing.is_empty()
    }
    /// Why it is closed.
    pub fn close_reason(&self) -> Option<CloseReason> {
        if let LinkPhase::Closed(ended) = &self.phase { Some(ended.reason) } else { None }
    }
    /// Whether requests may be submitted.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, LinkPhase::Open(_))
    }
    /// The session that it is, was, or is to be.
    pub fn session(&self) -> Option<SessionId> {
        self.phase.session_id()
    }
    /// The other node's incarnation, while there is a session.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.phase.session().map(|session| session.incarnation)
    }
    /// The other node's clock as it was last heard: for requests that come from now on (see [`Stamp`]).
    pub fn stamp(&self) -> Option<Stamp> {
        self.phase.session().map(|session| Stamp { incarnation: session.incarnation, clock: session.clock })
    }
    /// Whether nothing is under way, either way, and a whole window may be sent.
    pub fn is_idle(&self) -> bool {
        self.phase.session().is_none_or(|s| s.pending.is_empty() && s.served.is_empty() && s.copies.is_empty() && s.spending.is_whole())
    }

    /// The next event.
    pub fn pop_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }
    /// The next bytes to send, also of a link that is closed. Give the list to [`Link::sent`].
    pub fn take_output(&mut self) -> Option<SendList> {
        self.outgoing.take()
    }
    /// A list of [`Link::take_output`] was sent, or never will be.
    pub fn sent(&mut self, list: SendList) {
        self.outgoing.keep(list);
    }

    /// When [`Link::poll`] has something to do at the latest. `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            LinkPhase::Greeting(Greeting { until, .. }) | LinkPhase::Awaiting(until) => Some(*until),
            LinkPhase::Judging(judging) => Some(judging.until),
            LinkPhase::Open(session) | LinkPhase::Draining(session, _) => {
                Some((session.tick_sent + TICK_EVERY).min(self.heard_at + SILENCE_MAX))
            }
            LinkPhase::Closed(_) => None,
        }
    }
    /// Does what is due.
    pub fn poll(&mut self, now: Instant) {
        if self.deadline().is_none_or(|due| due > now) {
            return;
        }
        let silent = now.since(self.heard_at) >= SILENCE_MAX;
        let Some(session) = self.phase.session_mut() else { return self.close(CloseReason::NoGreeting) };
        if silent {
            return self.close(CloseReason::Silence);
        }
        session.tick_sent = now;
        push(session, &mut self.outgoing, |envelope, out| Tick { clock: now }.write(envelope, out));
        self.pump();
    }

    /// The Hello that was reported is right: the link is open, unless it has closed meanwhile.
    ///
    /// # Panics
    /// When none was reported.
    pub fn admit(&mut self, now: Instant, welcome: &Welcome) {
        if self.is_closed() {
            return;
        }
        let LinkPhase::Judging(judging) = &self.phase else { panic!("no Hello is being judged") };
        let (hello, id) = (judging.hello, judging.session);
        let Some(spending) = Spending::new(hello.window, judging.allowed) else { return self.fault(LinkFault::Credits) };
        let &Welcome { from, incarnation, version, window, left } = welcome;
        let mut session = Box::new(Session {
            id,
            class: hello.class,
            version,
            incarnation: hello.incarnation,
            own: incarnation,
            clock: hello.clock,
            tick_sent: now,
            granting: Granting::new(window, left),
            pending: Pending::new(spending.window().ops),
            spending,
            served: Served::new(window.ops),
            copies: CopyTraffic::default(),
        });
        let answer = HelloAnswer { from, incarnation, clock: now, version, window };
        push(&mut session, &mut self.outgoing, |envelope, out| answer.write(envelope, out));
        self.events.push_back(LinkEvent::Opened { incarnation: session.incarnation, version });
        self.phase.enter(PhaseStep::Open(session));
    }
    /// The Hello that was reported is wrong: the link closes, if it has not meanwhile.
    ///
    /// # Panics
    /// When none was reported.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.is_closed() {
            return;
        }
        let LinkPhase::Judging(judging) = &self.phase else { panic!("no Hello is being judged") };
        let envelope = Envelope { session: judging.session.no, version: judging.hello.versions.newest, totals: Default::default() };
        self.outgoing.push(|out| refusal.write(&envelope, out));
        self.close(CloseReason::Refusing(refusal));
    }

    /// Whether a control link takes messages: it is open, and what it has to send is no more than one send.
    pub fn may_say(&self) -> bool {
        self.is_open() && self.outgoing.is_short()
    }
    /// Sends a message of a control link. Of one that is not open nothing goes.
    pub fn say(&mut self, message: &Control) {
        if let LinkPhase::Open(session) = &mut self.phase {
            debug_assert_eq!(session.class, LinkClass::Control, "such messages have links of their own");
            push(session, &mut self.outgoing, |envelope, out| message.write(envelope, out));
        }
    }

    /// No new requests; the link closes when what is under way is answered. A link that is not open closes at once.
    pub fn drain(&mut self) {
        match &self.phase {
            LinkPhase::Open(_) => {
                self.say_goodbye();
                self.settle();
            }
            LinkPhase::Draining(..) | LinkPhase::Closed(_) => {}
            LinkPhase::Greeting(_) | LinkPhase::Awaiting(_) | LinkPhase::Judging(_) => self.close(CloseReason::Drained),
        }
    }
    /// Of an open link: no request is sent any more.
    fn say_goodbye(&mut self) {
        let Some(session) = self.phase.session_mut() else { return };
        push(session, &mut self.outgoing, |envelope, out| Goodbye { reason: GoodbyeReason::Drained }.write(envelope, out));
        let waiting = core::mem::take(session.pending.waiting());
        self.fail(waiting, ForwardError::Unsent);
        self.phase.enter(PhaseStep::Drain(Goodbyes::Sent));
    }
    /// Closes a link that has nothing left to do.
    fn settle(&mut self) {
        if let LinkPhase::Draining(session, Goodbyes::Both) = &self.phase
            && session.pending.is_empty()
            && session.served.is_empty()
            && session.copies.is_empty()
        {
            self.close(CloseReason::Drained);
        }
    }

    /// Closes the link: its requests are answered, and those of the other node that have not begun do not. Of a link that is closed already, the
    /// bytes that cannot be sent any more are given up if the connection is [`CloseReason::Lost`].
    pub fn close(&mut self, reason: CloseReason) {
        if reason == CloseReason::Lost {
            self.outgoing.give_up();
        }
        if self.is_closed() {
            return;
        }
        if let Some(session) = self.phase.session_mut() {
            let say = match reason {
                CloseReason::Fault(_) => Some(GoodbyeReason::Fault),
                CloseReason::Replaced => Some(GoodbyeReason::Replaced),
                CloseReason::Silence => Some(GoodbyeReason::Silence),
                _ => None,
            };
            if let Some(reason) = say {
                push(session, &mut self.outgoing, |envelope, out| Goodbye { reason }.write(envelope, out));
            }
            let sent = session.pending.drain_sent();
            let waiting = core::mem::take(session.pending.waiting());
            let unsent = hooks::seeded(SeededFault::SentTakenForUnsent);
            self.fail(sent, if unsent { ForwardError::Unsent } else { ForwardError::LinkLost });
            self.fail(waiting, ForwardError::Unsent);
        }
        self.phase.enter(PhaseStep::Close(reason));
        self.events.push_back(LinkEvent::Closed(reason));
    }
    fn fault(&mut self, fault: LinkFault) {
        self.close(CloseReason::Fault(fault));
    }
    fn fail(&mut self, requests: impl IntoIterator<Item = ForwardRequest>, why: ForwardError) {
        let answered = requests.into_iter().map(|request| Answered { request, result: Err(why), data: DataVec::new() });
        self.events.extend(answered.map(LinkEvent::Answered));
    }
}

/// Writes a message of the session.
#[inline]
fn push(session: &mut Session, outgoing: &mut Outgoing, write: impl FnOnce(&Envelope, &mut [u8]) -> usize) {
    let envelope = session.envelope();
    outgoing.push(|out| write(&envelope, out));
}
