//! The links of a core to one other node: which there should be, which session of each is the current one, what earlier sessions have left.
//!
//! ```text
//!            due            connected            closed
//!  Away ───────────► Dialing ───────────► link ───────────► Away (after a delay)
//!    └──────────────────────────────────────►┘ admitted, at the node that does not dial
//! ```
//!
//! Owns: a link for each class and lane; the numbers of sessions; the highest incarnation of the node that was seen; the delays.
//! Invariants: a place has one link that is not closed; sessions of a place rise, as pairs of incarnation and number; what earlier sessions have
//! left counts against the window of the current one.
//! Never: opens connections; reads a clock; has chance of its own.

use super::backoff::Backoff;
use super::credit::Held;
use super::limits::WINDOWS;
use super::request::{ServedId, SessionId};
use super::{CloseReason, ForwardError, Link, LinkEvent, NotBegun, Protection, Welcome};
use crate::io::DataVec;
use base::hooks::{self, SeededFault};
use base::{ClusterId, Instant, NodeId};
use format::peer::{Hello, Incarnation, LANES_MAX, LinkClass, Refusal, RefusalReason, Revision, SessionNo, Versions, Window};
use std::collections::VecDeque;
use std::ops::Range;

/// This node, as its peers know it.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The versions that it speaks.
    pub versions: Versions,
}

/// What the directory says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is a member.
    Member,
    /// There is none.
    Unknown,
    /// It was one.
    Removed,
}

/// Which link to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkPlace {
    /// What it is for.
    pub class: LinkClass,
    /// Which of the class.
    pub lane: u8,
}

/// An event of one of the links. The session is `None` for a link that never had one.
#[derive(Debug)]
pub struct PlaceEvent {
    /// Of which.
    pub place: LinkPlace,
    /// Of which session of it.
    pub session: Option<SessionId>,
    /// What.
    pub event: LinkEvent,
}

/// A request of an earlier session that this node has still.
#[derive(Clone, Copy, Debug)]
struct Left {
    id: ServedId,
    held: Held,
}

#[derive(Default)]
struct PlaceState {
    /// The last link; also one that is closed, until another comes.
    link: Option<Link>,
    dialing: bool,
    /// The link is closed, and that was counted.
    counted: bool,
    backoff: Backoff,
    /// The last session.
    last: SessionId,
    left: Vec<Left>,
    refused: Option<Refusal>,
}

/// See the module.
pub struct Peer {
    own: Own,
    node: NodeId,
    /// The highest that was seen.
    incarnation: Incarnation,
    lanes: u8,
    protection: Protection,
    /// By class, then lane.
    places: Vec<PlaceState>,
    events: VecDeque<PlaceEvent>,
    windows: [Window; 3],
    /// The places that are here; `None`: all.
    only: Option<LinkPlace>,
    /// Where the other node is, is known, and links are wanted.
    reachable: bool,
}

impl Peer {
    /// For a node with which there are so many lanes. `incarnation` is the highest that is known of it; 0 when none is.
    pub fn new(own: Own, node: NodeId, incarnation: Incarnation, lanes: u8, protection: Protection) -> Peer {
        assert!(own.node != node && (1..=LANES_MAX).contains(&lanes), "a link to another node, on {lanes} lanes");
        let places = (0..LinkClass::ALL.len() * usize::from(lanes)).map(|_| PlaceState::default()).collect();
        Peer { own, node, incarnation, lanes, protection, places, events: VecDeque::new(), windows: WINDOWS, only: None, reachable: true }
    }
    /// With windows of its own, by class.
    pub fn with_windows(self, windows: [Window; 3]) -> Peer {
        Peer { windows, ..self }
    }
    /// With this place only: the others are on other cores, or not in use.
    pub fn only(self, place: LinkPlace) -> Peer {
        Peer { only: Some(place), ..self }
    }
    fn is_here(&self, place: LinkPlace) -> bool {
        self.only.is_none_or(|only| only == place)
    }
    /// The places that are here.
    fn here(&self) -> Range<usize> {
        self.only.map_or(0..self.places.len(), |only| self.at(only)..self.at(only) + 1)
    }
    /// Whether there is an address to dial. While there is none, nothing is due.
    pub fn set_reachable(&mut self, reachable: bool) {
        self.reachable = reachable;
    }
    /// The other node.
    pub fn node(&self) -> NodeId {
        self.node
    }
    /// Whether this node dials: the one with the lower id does.
    pub fn dials(&self) -> bool {
        self.own.node < self.node
    }
    fn at(&self, place: LinkPlace) -> usize {
        assert!(place.lane < self.lanes, "lane {} of {}", place.lane, self.lanes);
        place.class as usize * usize::from(self.lanes) + usize::from(place.lane)
    }
    fn place(&self, at: usize) -> LinkPlace {
        let lanes = usize::from(self.lanes);
        LinkPlace { class: LinkClass::ALL[at / lanes], lane: (at % lanes) as u8 }
    }
    fn state(&mut self, place: LinkPlace) -> &mut PlaceState {
        let at = self.at(place);
        &mut self.places[at]
    }
    /// The link of a place, open or not.
    pub fn link(&mut self, place: LinkPlace) -> Option<&mut Link> {
        self.state(place).link.as_mut()
    }
    /// Whether the link of a place is open.
    pub fn is_open(&self, place: LinkPlace) -> bool {
        self.places[self.at(place)].link.as_ref().is_some_and(Link::is_open)
    }
    /// Why the place was refused, if that was the last that was heard there.
    pub fn refused(&self, place: LinkPlace) -> Option<Refusal> {
        self.places[self.at(place)].refused
    }

    /// A place that is to be dialed now: its last link is closed, and its events and bytes were taken. It counts as being dialed: [`Peer::connected`] or [`Peer::not_connected`] has to follow.
    pub fn due(&mut self, now: Instant) -> Option<LinkPlace> {
        if !self.dials() || !self.reachable {
            return None;
        }
        let is_due = |at: &usize| {
            let p = &self.places[*at];
            !p.dialing && p.is_away() && p.backoff.is_due(now)
        };
        let at = self.here().find(is_due)?;
        self.places[at].dialing = true;
        Some(self.place(at))
    }
    /// When [`Peer::due`] or [`Peer::poll`] has something to do at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        let of = |p: &PlaceState| match &p.link {
            Some(link) if !link.is_closed() => link.deadline(),
            _ if self.dials() && self.reachable && !p.dialing && p.is_away() => Some(p.backoff.due()),
            _ => None,
        };
        self.places[self.here()].iter().filter_map(of).min()
    }
    /// There is a connection to the other node for a place that was due: the link says Hello.
    pub fn connected(&mut self, place: LinkPlace, now: Instant) {
        let (own, to, lanes, protection, incarnation) = (self.own, self.node, self.lanes, self.protection, self.incarnation);
        let window = self.windows[place.class as usize];
        let at = self.at(place);
        self.retire(at);
        let state = &mut self.places[at];
        let session = SessionNo(state.last.no.0 + 1);
        state.last = SessionId { incarnation: own.incarnation, no: session };
        let hello = Hello {
            cluster: own.cluster,
            from: own.node,
            to,
            incarnation: own.incarnation,
            clock: now,
            versions: own.versions,
            class: place.class,
            lane: place.lane,
            lanes,
            window,
        };
        (state.dialing, state.counted) = (false, false);
        state.link = Some(Link::dial(now, hello, session, state.held(), incarnation, protection));
    }
    /// There is no connection for a place that was due.
    pub fn not_connected(&mut self, place: LinkPlace, now: Instant, chance: u32) {
        let state = self.state(place);
        state.dialing = false;
        state.backoff.ended(now, chance);
    }

    /// A link that was accepted has said Hello as this node: it becomes the link of its place, in place of an older one.
    ///
    /// # Errors
    /// The link, if it was refused, and has a refusal to send, or has closed meanwhile.
    pub fn admit(
        &mut self,
        mut link: Link,
        hello: &Hello,
        session: SessionId,
        standing: Standing,
        now: Instant,
    ) -> Result<LinkPlace, Box<Link>> {
        if link.is_closed() {
            return Err(Box::new(link));
        }
        let version = match self.judge(hello, session, standing) {
            Ok(version) => version,
            Err(refusal) => {
                link.refuse(refusal);
                return Err(Box::new(link));
            }
        };
        self.see_incarnation(hello.incarnation);
        let place = LinkPlace { class: hello.class, lane: hello.lane };
        let at = self.at(place);
        self.retire(at);
        let state = &mut self.places[at];
        state.last = session;
        state.counted = false;
        let window = self.windows[place.class as usize];
        link.admit(now, &Welcome { from: self.own.node, incarnation: self.own.incarnation, version, window, left: state.held() });
        state.link = Some(link);
        Ok(place)
    }
    /// Whether a Hello is right, and the version that is in force then.
    fn judge(&self, hello: &Hello, session: SessionId, standing: Standing) -> Result<u8, Refusal> {
        let own = &self.own;
        let refuse = |reason, detail| Err(Refusal { reason, detail });
        if hello.cluster != own.cluster {
            return refuse(RefusalReason::OtherCluster, 0);
        }
        if hello.to != own.node {
            return refuse(RefusalReason::OtherNode, 0);
        }
        match standing {
            Standing::Member if hello.from == self.node => {}
            Standing::Member | Standing::Unknown => return refuse(RefusalReason::UnknownNode, 0),
            Standing::Removed => return refuse(RefusalReason::RemovedNode, 0),
        }
        let Some(version) = own.versions.common(hello.versions) else {
            return refuse(RefusalReason::NoCommonVersion, u64::from(own.versions.oldest) | u64::from(own.versions.newest) << 8);
        };
        if hello.lanes != self.lanes || self.dials() || !self.is_here(LinkPlace { class: hello.class, lane: hello.lane }) {
            return refuse(RefusalReason::Limits, 0);
        }
        if hello.incarnation < self.incarnation {
            return refuse(RefusalReason::OlderIncarnation, self.incarnation.0);
        }
        let last = self.places[self.at(LinkPlace { class: hello.class, lane: hello.lane })].last;
        if session <= last && !hooks::seeded(SeededFault::OlderSessionReplaces) {
            return refuse(RefusalReason::OlderSession, last.no.0);
        }
        Ok(version)
    }
    /// The other node is known to have begun this life: links to an older one close.
    pub fn see_incarnation(&mut self, incarnation: Incarnation) {
        if incarnation <= self.incarnation {
            return;
        }
        self.incarnation = incarnation;
        for link in self.places.iter_mut().filter_map(|p| p.link.as_mut()) {
            if link.incarnation().is_some_and(|of| of < incarnation) {
                link.close(CloseReason::Replaced);
            }
        }
    }
    /// The last link of a place makes room for another.
    fn retire(&mut self, at: usize) {
        let place = self.place(at);
        let state = &mut self.places[at];
        let Some(mut link) = state.link.take() else { return };
        link.close(CloseReason::Replaced);
        let session = link.session();
        while let Some(event) = link.pop_event() {
            self.events.push_back(PlaceEvent { place, session, event });
        }
        if !hooks::seeded(SeededFault::LeftForgotten) {
            state.left.extend(link.left().map(|(id, held)| Left { id, held }));
        }
    }

    /// Does what is due. `chance` gives a random number.
    pub fn poll(&mut self, now: Instant, mut chance: impl FnMut() -> u32) {
        let here = self.here();
        for state in &mut self.places[here] {
            let Some(link) = &mut state.link else { continue };
            link.poll(now);
            if link.is_closed() && !state.counted {
                state.counted = true;
                state.backoff.ended(now, chance());
            }
        }
    }
    /// The next event of a link.
    pub fn pop_event(&mut self, now: Instant) -> Option<PlaceEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        for at in self.here() {
            let place = self.place(at);
            let state = &mut self.places[at];
            let Some((session, event)) = state.link.as_mut().and_then(|link| link.pop_event().map(|event| (link.session(), event))) else {
                continue;
            };
            match &event {
                LinkEvent::Opened { incarnation, .. } => {
                    state.refused = None;
                    state.backoff.opened(now);
                    let incarnation = *incarnation;
                    self.see_incarnation(incarnation);
                }
                LinkEvent::Closed(CloseReason::Refused(refusal)) => state.refused = Some(*refusal),
                _ => {}
            }
            return Some(PlaceEvent { place, session, event });
        }
        None
    }

    /// See [`Link::may_begin`]: of a request of any session of the place.
    pub fn may_begin(&mut self, place: LinkPlace, id: ServedId, now: Instant, revision: Revision) -> Result<(), NotBegun> {
        let state = self.state(place);
        match &mut state.link {
            Some(link) if link.session() == Some(id.session) => link.may_begin(id, now, revision),
            _ if hooks::seeded(SeededFault::OldSessionBegins) => Ok(()),
            _ => {
                state.left_ended(id);
                Err(NotBegun::LinkLost)
            }
        }
    }
    /// See [`Link::is_wanted`].
    pub fn is_wanted(&mut self, place: LinkPlace, id: ServedId) -> bool {
        self.state(place).link.as_mut().is_some_and(|link| link.is_wanted(id))
    }
    /// See [`Link::answer`]: of a request of any session of the place. Of an ended one nobody hears the answer.
    pub fn answer(&mut self, place: LinkPlace, id: ServedId, result: Result<(), ForwardError>, data: DataVec) {
        let state = self.state(place);
        match &mut state.link {
            Some(link) if link.session() == Some(id.session) => link.answer(id, result, data),
            _ => state.left_ended(id),
        }
    }
    /// See [`Link::let_go`].
    pub fn let_go(&mut self, place: LinkPlace, id: ServedId) {
        let state = self.state(place);
        match &mut state.link {
            Some(link) if link.session() == Some(id.session) => link.let_go(id),
            _ => state.left_ended(id),
        }
    }
}

impl PlaceState {
    /// Whether there is no link, or one that is closed and has nothing left to say.
    fn is_away(&self) -> bool {
        self.link.as_ref().is_none_or(Link::is_done)
    }
    /// What earlier sessions have left under way.
    fn held(&self) -> Held {
        self.left.iter().fold(Held::default(), |sum, left| sum.plus(left.held))
    }
    /// A request of an earlier session is over.
    fn left_ended(&mut self, id: ServedId) {
        let Some(at) = self.left.iter().position(|left| left.id == id) else { return };
        let held = self.left.swap_remove(at).held;
        if let Some(link) = &mut self.link {
            link.left_ended(held);
        }
    }
}
