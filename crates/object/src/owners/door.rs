//! Between the host of owners and who has the control links.
//!
//! Owns: [`ControlDoor`], [`ControlEvent`].
//! Never: knows links.

use super::Grants;
use crate::owner::{Fenced, Reach};
use base::{Epoch, Incarnation, Instant, NodeId, ObjectId, OwnerId};
use format::peer::{BadBlock, CopyFails, Fence, Load, Release};

/// What control links report to whoever owns objects on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// There is a new link with a node, in this life: what was not answered is sent again.
    Opened(NodeId, Incarnation),
    /// A node answers, is late or is gone.
    Reach(NodeId, Reach),
    /// The owner of a new epoch asks a copy on this node to accept it.
    Fence(OwnerId, Fence),
    /// The answer of a copy on another node.
    Fenced(NodeId, Fenced),
    /// Another node has accepted a higher epoch than this node has as the owner.
    Outranked(ObjectId, Epoch),
    /// Another node has given an object up: what waits for its grants may go on. And who is to own it.
    Released(NodeId, ObjectId, NodeId),
    /// A copy on another node has lost a block.
    BadBlock(NodeId, BadBlock),
    /// A copy on another node cannot accept an epoch of this node.
    CopyFails(NodeId, CopyFails),
    /// How much another node has to do.
    Load(NodeId, Load),
    /// A node is no member any more.
    Left(NodeId),
}

/// The control links of a node, for its host of owners.
pub trait ControlDoor {
    /// This node, in this life.
    fn own(&self) -> OwnerId;
    /// The next thing to know. From the first call on, what happens is kept for the next ones.
    fn pop_event(&mut self) -> Option<ControlEvent>;
    /// The machines of grants. `now`: by the clock of heartbeats, read afresh. What they have to say then is looked at in the next turn.
    fn grants(&mut self, now: Instant) -> Grants<'_>;
    /// Asks a copy on another node to accept an epoch. Without a link it is lost: see [`ControlEvent::Opened`].
    fn fence(&mut self, to: NodeId, fence: Fence);
    /// Answers an owner's Fence.
    fn fenced(&mut self, to: NodeId, fenced: &Fenced);
    /// Gives an object up. Its cores answer nothing of it any more.
    fn release(&mut self, to: NodeId, release: Release);
    /// A copy on this node has lost a block.
    fn bad_block(&mut self, to: NodeId, bad: BadBlock);
    /// A copy on this node cannot accept an epoch.
    fn copy_fails(&mut self, to: NodeId, fails: CopyFails);
    /// How much this node has to do.
    fn load(&mut self, to: NodeId, load: Load);
}
