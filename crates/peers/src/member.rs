//! Another node, as one core has it: its link, and what of this node's requests waits for its end.
//!
//! Never: opens connections.

use crate::desired::{OwnNode, PeerDesired};
use crate::limits::{LINK_GONE, LOST_AFTER};
use crate::members::Turn;
use crate::stamps::Stamps;
use crate::witness::Witness;
use base::Instant;
use base::hooks::{self, SeededFault};
use format::peer::{LANES_MAX, LinkClass, Versions};
use frontend::LinkChange;
use object::link::{Link, LinkPlace, Own, Peer, Protection};
use object::{ForwardDone, ForwardOutcome, IoError};
use std::collections::VecDeque;

/// A link that this core has with a node, whatever it is for.
pub(crate) struct Line {
    pub(crate) desired: PeerDesired,
    pub(crate) peer: Peer,
    pub(crate) place: LinkPlace,
    /// The connection of its link.
    pub(crate) conn: Option<usize>,
}

/// See the module.
pub(crate) struct Member {
    pub(crate) line: Line,
    /// How many lanes there are with it.
    pub(crate) lanes: u8,
    pub(crate) stamps: Stamps,
    /// Changes that were there when the link closed: when nobody needs to fear them any more, whose router they are of, and which they are.
    lost: VecDeque<(Instant, usize, u32, Witness)>,
    reported: Reported,
    /// For [`crate::members::Members`].
    pub(crate) turn: Turn,
}

/// What the control plane was last given to know of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    Closed,
    Open,
    /// That it is open; it is closed since then.
    OpenUntil(Instant),
}

impl Line {
    /// For this place, of so many lanes.
    pub fn new(own: &OwnNode, desired: PeerDesired, place: LinkPlace, lanes: u8, protection: Protection) -> Line {
        let own = Own { cluster: own.cluster, node: own.node, incarnation: own.incarnation, versions: Versions::OURS };
        let peer = Peer::new(own, desired.node, desired.incarnation, lanes, protection).only(place);
        Line { desired, peer, place, conn: None }
    }
    /// Goes by this from now on.
    pub fn apply(&mut self, desired: PeerDesired, leaving: bool) {
        self.desired = desired;
        self.peer.set_reachable(desired.addr.is_some() && !leaving);
        self.peer.see_incarnation(desired.incarnation);
    }
    /// The link, open or not.
    pub fn link(&mut self) -> Option<&mut Link> {
        self.peer.link(self.place)
    }
    /// No new requests.
    pub fn drain(&mut self) {
        self.peer.set_reachable(false);
        if let Some(link) = self.link() {
            link.drain();
        }
    }
}

impl Member {
    /// On this core, which has a lane with it.
    pub fn new(own: &OwnNode, desired: PeerDesired, lanes: u8, lane: u8, protection: Protection) -> Member {
        let line = Line::new(own, desired, LinkPlace { class: LinkClass::Foreground, lane }, lanes, protection);
        Member { line, lanes, stamps: Stamps::default(), lost: VecDeque::new(), reported: Reported::Closed, turn: Turn::default() }
    }
    /// Whether requests can go there now.
    pub fn is_open(&self) -> bool {
        self.line.peer.is_open(self.line.place)
    }
    /// What the control plane is to know now. A link that is replaced soon does not change what hosts are to do.
    pub fn change(&mut self, now: Instant) -> Option<LinkChange> {
        let (reported, open) = match (self.reported, self.is_open()) {
            (Reported::Closed, true) => (Reported::Open, Some(true)),
            (Reported::OpenUntil(_), true) => (Reported::Open, None),
            (Reported::Open, false) => (Reported::OpenUntil(now), None),
            (Reported::OpenUntil(since), false) if now.since(since) >= LINK_GONE => {
                (Reported::Closed, (!hooks::seeded(SeededFault::LinkLossUnreported)).then_some(false))
            }
            (same, _) => (same, None),
        };
        self.reported = reported;
        open.filter(|open| !open || !hooks::seeded(SeededFault::LinkUnreported)).map(|open| self.link_change(open))
    }
    /// The same when there will be no link any more.
    pub fn ended(&mut self) -> Option<LinkChange> {
        let was = std::mem::replace(&mut self.reported, Reported::Closed);
        (was != Reported::Closed).then(|| self.link_change(false))
    }
    fn link_change(&self, open: bool) -> LinkChange {
        LinkChange { node: self.line.desired.node, lane: self.line.place.lane, lanes: self.lanes, open }
    }
    /// A change was with it when the link closed, which came at `came`.
    pub fn lose(&mut self, came: Instant, core: usize, id: u32, witness: Witness) {
        let over = if hooks::seeded(SeededFault::LostAnsweredAtOnce) { came } else { came + LOST_AFTER };
        self.lost.push_back((over, core, id, witness));
    }
    /// The next change that was lost and cannot happen any more.
    pub fn pop_lost(&mut self, now: Instant) -> Option<(usize, ForwardDone)> {
        let at = self.lost.iter().position(|(until, ..)| *until <= now)?;
        let (_, core, id, witness) = self.lost.remove(at)?;
        witness.is_answered();
        Some((core, ForwardDone { id, outcome: ForwardOutcome::Answered(Err(IoError::NoPath)) }))
    }
    /// By when something is to be done.
    pub fn deadline(&self) -> Option<Instant> {
        let lost = self.lost.iter().map(|(until, ..)| *until).min();
        let gone = if let Reported::OpenUntil(since) = self.reported { Some(since + LINK_GONE) } else { None };
        self.line.peer.deadline().into_iter().chain(lost).chain(gone).min()
    }
    pub fn is_quiet(&self) -> bool {
        self.lost.is_empty()
    }
}

/// Lanes between two nodes: each has a core of its own at both.
pub(crate) fn lanes(own_cores: usize, other_cores: u8) -> u8 {
    let own = u8::try_from(own_cores).unwrap_or(LANES_MAX);
    own.min(other_cores).clamp(1, LANES_MAX)
}
