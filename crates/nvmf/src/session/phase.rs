//! Where a connection stands, with what exists only there.
//!
//! ```text
//!            ICReq            Connect                    accepted
//!  AwaitIc ────────► Fresh ────────────► Connecting ────────────────► Live
//!     │                │ ◄──────────────────┘  │      refused           │
//!     └────────────────┴───────────────────────┴────────────────────────┴──► Ended
//!                       a fault, H2CTermReq, the end of the connection
//! ```
//!
//! Owns: the rules of headers, the submission queue's head, the kind of the queue and its identifiers in use.
//! Invariant: a connection goes from phase to phase by [`SessionPhase::enter`] only, which asserts that the step is legal. What has ended stays so.
//! Never: knows of commands.

use super::queue::{Queue, QueueKind};
use crate::limits::CAPSULE_DATA_MAX;
use format::nvme_tcp::{Digests, HeaderRules};

/// Slots of a connection before its Connect: one command, and room for a host that is wrong.
const FRESH_ENTRIES: u16 = 2;

/// What headers must obey before digests are agreed on.
const BEFORE_IC: &HeaderRules = &rules(Digests { header: false, data: false });

/// Where the connection stands.
pub(super) enum SessionPhase {
    /// Nothing but an ICReq may come.
    AwaitIc,
    /// Nothing but a Connect command has effect.
    Fresh(Link),
    /// A Connect command is being judged.
    Connecting(Link),
    /// A queue.
    Live(Box<Queue>),
    /// A termination request was sent or received, or the connection is gone; what comes is thrown away. With what was the queue.
    Ended(Option<Box<Queue>>),
}

/// What takes a connection from one phase to another.
pub(super) enum PhaseStep {
    /// An ICReq came.
    Initialize(Link),
    /// A Connect command is whole.
    Judge,
    /// It was refused.
    Refuse,
    /// It was accepted.
    Admit(QueueKind, Ring),
    /// A fault, a termination request, the end.
    End,
}

/// What the host and the target agreed on when the connection began, and the submission queue.
pub(super) struct Link {
    rules: HeaderRules,
    hpda: u8,
    pub(super) ring: Ring,
}

/// The submission queue, as far as responses must tell of it.
pub(super) struct Ring {
    entries: u16,
    head: u16,
    flow_control: bool,
}

impl SessionPhase {
    /// Goes on. Asserts that the phase has such a step.
    pub(super) fn enter(&mut self, step: PhaseStep) {
        use SessionPhase as Phase;
        *self = match (core::mem::replace(self, Phase::AwaitIc), step) {
            (Phase::AwaitIc, PhaseStep::Initialize(link)) => Phase::Fresh(link),
            (Phase::Fresh(link), PhaseStep::Judge) => Phase::Connecting(link),
            (Phase::Connecting(link), PhaseStep::Refuse) => Phase::Fresh(link),
            (Phase::Connecting(link), PhaseStep::Admit(kind, ring)) => Phase::Live(Box::new(Queue::new(link.with_ring(ring), kind))),
            (Phase::AwaitIc | Phase::Fresh(_) | Phase::Connecting(_), PhaseStep::End) => Phase::Ended(None),
            (Phase::Live(queue), PhaseStep::End) => Phase::Ended(Some(queue)),
            (Phase::Ended(queue), PhaseStep::End) => Phase::Ended(queue),
            (from, step) => panic!("a connection that is {} does not {}", from.name(), step.name()),
        };
    }
    fn name(&self) -> &'static str {
        match self {
            SessionPhase::AwaitIc => "waiting for an ICReq",
            SessionPhase::Fresh(_) => "fresh",
            SessionPhase::Connecting(_) => "connecting",
            SessionPhase::Live(_) => "live",
            SessionPhase::Ended(_) => "ended",
        }
    }

    /// What was agreed on; `None` before, and when it has ended without having been a queue.
    pub(super) fn link(&self) -> Option<&Link> {
        match self {
            SessionPhase::Live(queue) | SessionPhase::Ended(Some(queue)) => Some(&queue.link),
            SessionPhase::Fresh(link) | SessionPhase::Connecting(link) => Some(link),
            SessionPhase::AwaitIc | SessionPhase::Ended(None) => None,
        }
    }
    /// The same, while responses may be sent.
    #[inline]
    pub(super) fn open_link_mut(&mut self) -> Option<&mut Link> {
        match self {
            SessionPhase::Live(queue) => Some(&mut queue.link),
            SessionPhase::Fresh(link) | SessionPhase::Connecting(link) => Some(link),
            SessionPhase::AwaitIc | SessionPhase::Ended(_) => None,
        }
    }
    /// A command with this identifier is answered, which comes free. What responses must obey, while they may be sent.
    #[inline]
    pub(super) fn answered(&mut self, cid: u16) -> Option<&mut Link> {
        match self {
            SessionPhase::Live(queue) => {
                queue.free_cid(cid);
                Some(&mut queue.link)
            }
            SessionPhase::Fresh(link) | SessionPhase::Connecting(link) => Some(link),
            SessionPhase::AwaitIc | SessionPhase::Ended(_) => None,
        }
    }
    /// What the headers of the host must obey now, and whether an ICReq must come (else none may).
    #[inline]
    pub(super) fn rules(&self) -> (&HeaderRules, bool) {
        match self {
            SessionPhase::Live(queue) => (&queue.link.rules, false),
            SessionPhase::Fresh(link) | SessionPhase::Connecting(link) => (&link.rules, false),
            SessionPhase::AwaitIc => (BEFORE_IC, true),
            SessionPhase::Ended(_) => (BEFORE_IC, false),
        }
    }
    /// The queue that it is, or was when it ended.
    #[inline]
    pub(super) fn queue(&self) -> Option<&Queue> {
        if let SessionPhase::Live(queue) = self { Some(queue) } else { self.ended_queue() }
    }
    #[cold]
    fn ended_queue(&self) -> Option<&Queue> {
        if let SessionPhase::Ended(queue) = self { queue.as_deref() } else { None }
    }
    /// See [`SessionPhase::queue`].
    #[inline]
    pub(super) fn queue_mut(&mut self) -> Option<&mut Queue> {
        match self {
            SessionPhase::Live(queue) => Some(queue),
            SessionPhase::Ended(queue) => queue.as_deref_mut(),
            SessionPhase::AwaitIc | SessionPhase::Fresh(_) | SessionPhase::Connecting(_) => None,
        }
    }
    /// Whether nothing has effect any more.
    #[inline]
    pub(super) fn is_ended(&self) -> bool {
        matches!(self, SessionPhase::Ended(_))
    }
    /// Whether a Connect command may come.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self, SessionPhase::Fresh(_))
    }
    /// Whether a Connect command is being judged.
    #[inline]
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self, SessionPhase::Connecting(_))
    }
}

impl PhaseStep {
    fn name(&self) -> &'static str {
        match self {
            PhaseStep::Initialize(_) => "initialize",
            PhaseStep::Judge => "judge a Connect command",
            PhaseStep::Refuse => "refuse a Connect command",
            PhaseStep::Admit(..) => "become a queue",
            PhaseStep::End => "end",
        }
    }
}

impl Link {
    /// As an ICReq asks for: digests, and the alignment of data to the host (HPDA).
    pub(super) fn new(digests: Digests, hpda: u8) -> Self {
        Link { rules: rules(digests), hpda, ring: Ring::new(FRESH_ENTRIES, true) }
    }
    /// Goes on with the queue of an accepted Connect command. The head stays: that command was taken from it.
    fn with_ring(self, ring: Ring) -> Self {
        Link { ring: Ring { head: self.ring.head, ..ring }, ..self }
    }
    /// Digests in force.
    #[inline]
    pub(super) fn digests(&self) -> Digests {
        self.rules.digests
    }
    /// Alignment of data that the host asked for (HPDA).
    #[inline]
    pub(super) fn hpda(&self) -> u8 {
        self.hpda
    }
}

impl Ring {
    /// A queue of so many entries.
    pub(super) fn new(entries: u16, flow_control: bool) -> Self {
        Ring { entries, head: 0, flow_control }
    }
    /// Entries of the queue.
    #[inline]
    pub(super) fn entries(&self) -> u16 {
        self.entries
    }
    /// Whether responses tell the head.
    #[inline]
    pub(super) fn flow_control(&self) -> bool {
        self.flow_control
    }
    /// A command was taken from the queue: the new head, or FFFFh without flow control (base 6.3).
    #[inline]
    pub(super) fn advance(&mut self) -> u16 {
        if !self.flow_control {
            return 0xFFFF;
        }
        self.head = if self.head + 1 >= self.entries { 0 } else { self.head + 1 };
        self.head
    }
}

/// What headers of a host must obey.
const fn rules(digests: Digests) -> HeaderRules {
    HeaderRules { from_host: true, digests, pda: 0, capsule_data_max: CAPSULE_DATA_MAX, data_max: i32::MAX as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a connection that is ended does not become a queue")]
    fn what_has_ended_stays_ended() {
        let mut phase = SessionPhase::AwaitIc;
        phase.enter(PhaseStep::Initialize(Link::new(Digests::default(), 0)));
        phase.enter(PhaseStep::Judge);
        phase.enter(PhaseStep::End);
        let c = crate::shared::ControllerShared::new(1, 1, "s", "h", [1; 16], false);
        phase.enter(PhaseStep::Admit(QueueKind::Admin(std::sync::Arc::new(c)), Ring::new(32, true)));
    }
}
