//! The control links of a node: one with each other node, on its first core. What this node grants, and which grants it counts
//! (`docs/grants.md`).
//!
//! Owns: [`ControlLinks`]: the machines of grants, and what they have to report.
//! Invariant: what is said of an object before a heartbeat goes before it on the same link.
//! Never: accepts an epoch, takes over.

use crate::desired::OwnNode;
use crate::limits::CONTROL_EVENTS_MAX;
use crate::member::Line;
use base::{Epoch, Instant, NodeId, ObjectId, OwnerId};
use format::peer::{Control, Fence, FencedPart, Incarnation, Release};
use object::grant::{Counter, FencedParts, GrantCells, Granter, fenced_parts};
use object::owner::{Fenced, Reach};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What control links report to whoever owns objects on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// There is a new link with a node: what was not answered is sent again.
    Opened(NodeId),
    /// A node answers, is late or is gone.
    Reach(NodeId, Reach),
    /// The owner of a new epoch asks a copy on this node to accept it.
    Fence(OwnerId, Fence),
    /// The answer of a copy on another node.
    Fenced(NodeId, Fenced),
    /// Another node has accepted a higher epoch than this node has as the owner.
    Outranked(ObjectId, Epoch),
    /// Another node has given an object up: what waits for its grants may go on.
    Released(NodeId, ObjectId),
}

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
    pub granter: Granter,
    /// What is counted here.
    pub counter: Counter,
    events: VecDeque<ControlEvent>,
    /// Somebody takes the events.
    heard: bool,
    /// Something has come, or is to be said.
    pub(crate) stirred: bool,
    /// When there is something to do at the latest, by the clock of the loop.
    pub(crate) due: Instant,
}

impl ControlLinks {
    /// Of a node that has others since `now`, by the clock of heartbeats.
    pub(crate) fn new(own: OwnNode, cells: Arc<GrantCells>, now: Instant) -> ControlLinks {
        let (granter, counter) = (Granter::new(own.node, now), Counter::new(cells));
        ControlLinks {
            own,
            lines: BTreeMap::new(),
            granter,
            counter,
            events: VecDeque::new(),
            heard: false,
            stirred: true,
            due: Instant(0),
        }
    }
    pub(crate) fn line(&mut self, node: NodeId) -> Option<&mut Line> {
        self.lines.get_mut(&node).map(|control| &mut control.line)
    }
    pub(crate) fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.lines.values_mut().map(|control| &mut control.line)
    }

    /// The next thing to know. From the first call on, what happens is kept for the next ones.
    pub fn pop_event(&mut self) -> Option<ControlEvent> {
        self.heard = true;
        self.stirred |= self.is_full();
        self.events.pop_front()
    }
    pub(crate) fn report(&mut self, events: impl IntoIterator<Item = ControlEvent>) {
        if self.heard {
            self.events.extend(events);
        }
    }
    /// Whether nothing more is taken from links.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= CONTROL_EVENTS_MAX
    }
    /// Asks a copy on another node to accept an epoch. Without a link it is lost: see [`ControlEvent::Opened`].
    pub fn fence(&mut self, to: NodeId, fence: Fence) {
        self.say(to, &Control::Fence(fence));
    }
    /// Answers an owner's Fence.
    pub fn fenced(&mut self, to: NodeId, fenced: &Fenced) {
        fenced_parts(fenced).into_iter().for_each(|part: FencedPart| self.say(to, &Control::Fenced(part)));
    }
    /// Gives an object up. Its cores answer nothing of it any more.
    pub fn release(&mut self, to: NodeId, release: Release) {
        self.say(to, &Control::Release(release));
    }
    fn say(&mut self, to: NodeId, message: &Control) {
        if let Some(link) = self.line(to).and_then(Line::link) {
            link.say(message);
        }
    }
    /// What is to be done is looked at in this turn: an object is owned since now, or was given up.
    pub fn stir(&mut self) {
        self.stirred = true;
    }
}
