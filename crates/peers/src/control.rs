//! The control links of a node: one with each other node, on its first core. What this node grants, and which grants it counts
//! (`docs/grants.md`).
//!
//! Owns: [`ControlLinks`]: the machines of grants, and what they have to report.
//! Invariant: what is said of an object before a heartbeat goes before it on the same link.
//! Never: accepts an epoch, takes over.

use crate::desired::OwnNode;
use crate::limits::CONTROL_EVENTS_MAX;
use crate::member::Line;
use base::hooks::{self, SeededFault};
use base::{Instant, NodeId, OwnerId};
use format::peer::{BadBlock, Control, CopyFails, Fence, FencedPart, Incarnation, Load, Release};
use object::grant::{Counter, FencedParts, Granter, fenced_parts};
use object::owner::Fenced;
use object::owners::{ControlDoor, ControlEvent, Grants};
use std::collections::{BTreeMap, VecDeque};

/// A control link.
pub(crate) struct ControlLine {
    pub(crate) line: Line,
    /// The other node's life, while the link is open.
    pub(crate) open: Option<Incarnation>,
    pub(crate) fenced: FencedParts,
}

/// See the module.
pub struct ControlLinks {
    pub(crate) own: OwnNode,
    pub(crate) lines: BTreeMap<NodeId, ControlLine>,
    /// What is granted here.
    pub(crate) granter: Granter,
    /// What is counted here.
    pub(crate) counter: Counter,
    events: VecDeque<ControlEvent>,
    /// Somebody takes the events.
    heard: bool,
    /// Something has come, or is to be said.
    pub(crate) stirred: bool,
    /// A link may have something to send.
    pub(crate) sends: bool,
    /// When there is something to do at the latest, by the clock of the loop.
    pub(crate) due: Instant,
}

impl ControlLinks {
    /// Of a node that has others since `now`, by the clock of heartbeats.
    pub(crate) fn new(own: OwnNode, now: Instant) -> ControlLinks {
        let (granter, counter) = (Granter::new(own.node, now), Counter::new());
        ControlLinks {
            own,
            lines: BTreeMap::new(),
            granter,
            counter,
            events: VecDeque::new(),
            heard: false,
            stirred: true,
            sends: true,
            due: Instant(0),
        }
    }
    pub(crate) fn line(&mut self, node: NodeId) -> Option<&mut Line> {
        self.lines.get_mut(&node).map(|control| &mut control.line)
    }
    pub(crate) fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.lines.values_mut().map(|control| &mut control.line)
    }

    /// What happens before somebody takes events is kept for who begins to: that a node answers is said once.
    pub(crate) fn report(&mut self, events: impl IntoIterator<Item = ControlEvent>) {
        let room = CONTROL_EVENTS_MAX.saturating_sub(self.events.len());
        let most = match self.heard {
            true => usize::MAX,
            false if hooks::seeded(SeededFault::EarlyEventsDropped) => 0,
            false => room,
        };
        self.events.extend(events.into_iter().take(most));
    }
    /// Whether nothing more is taken from links.
    pub(crate) fn is_full(&self) -> bool {
        self.heard && self.events.len() >= CONTROL_EVENTS_MAX
    }
    /// What is to be done is looked at in this turn.
    pub(crate) fn stir(&mut self) {
        (self.stirred, self.sends) = (true, true);
    }
    fn say(&mut self, to: NodeId, message: &Control) {
        self.sends = true;
        if let Some(link) = self.line(to).and_then(Line::link) {
            link.say(message);
        }
    }
}

impl ControlDoor for ControlLinks {
    fn own(&self) -> OwnerId {
        OwnerId { node: self.own.node, incarnation: self.own.incarnation }
    }
    fn pop_event(&mut self) -> Option<ControlEvent> {
        self.heard = true;
        self.stirred |= self.is_full();
        self.events.pop_front()
    }
    fn grants(&mut self, now: Instant) -> Grants<'_> {
        self.stirred = true;
        Grants { counter: &mut self.counter, granter: &mut self.granter, now }
    }
    fn fence(&mut self, to: NodeId, fence: Fence) {
        self.say(to, &Control::Fence(fence));
    }
    fn fenced(&mut self, to: NodeId, fenced: &Fenced) {
        fenced_parts(fenced).into_iter().for_each(|part: FencedPart| self.say(to, &Control::Fenced(part)));
    }
    fn release(&mut self, to: NodeId, release: Release) {
        self.say(to, &Control::Release(release));
    }
    fn bad_block(&mut self, to: NodeId, bad: BadBlock) {
        self.say(to, &Control::BadBlock(bad));
    }
    fn copy_fails(&mut self, to: NodeId, fails: CopyFails) {
        self.say(to, &Control::CopyFails(fails));
    }
    fn load(&mut self, to: NodeId, load: Load) {
        self.say(to, &Control::Load(load));
    }
}
