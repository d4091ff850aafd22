//! What the host of owners wants done, and what it goes by.
//!
//! Owns: [`Action`], [`ChangeOutcome`], [`Grants`], [`Found`].
//! Invariant: an action is whole: who carries it out needs nothing of the host.
//! Never: says how it is carried out.

use super::balance::Why;
use crate::grant::{Counter, GrantCell, Granter};
use crate::owner::{Command, Revision};
use base::{ComponentId, Instant, NodeId, ObjectId, OwnerId, OwnershipRecord};
use format::peer::{BadBlock, CopyFails, Fence, Load, Release};
use std::sync::Arc;

/// The machines of grants of this node, and the time by their clock, read for this call.
pub struct Grants<'a> {
    /// What is counted here.
    pub counter: &'a mut Counter,
    /// What is granted here.
    pub granter: &'a mut Granter,
    /// Of a clock that goes on while the machine is suspended (`rt::Rt::boot_clock`).
    pub now: Instant,
}

/// A record as it was read, and its revision; `None`: it is not there.
pub type Found = Option<(Revision, OwnershipRecord)>;

/// A change of a record: if it is still of this revision, to this.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Of which object.
    pub object: ObjectId,
    /// If it is still this.
    pub on: Revision,
    /// To this.
    pub new: Box<OwnershipRecord>,
}

/// Why a copy of this node has not made an epoch durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAccepted {
    /// Not yet: it is asked again.
    NotNow,
    /// It cannot: its device has failed or hangs, or too much is in doubt in it. It is asked again as well: perhaps it can later.
    Fails,
}

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// All of its changes were made, with this revision.
    Made(Revision),
    /// None was, and none will be: a record had been changed; this one, as far as it is known.
    Refused(Option<ObjectId>),
    /// Not known.
    Lost,
}

/// What is to be done. See [`Owners::pop`](super::Owners::pop) for the order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Read these records in the directory, linearizably, and give [`Owners::read`](super::Owners::read) the answer.
    Read {
        /// The number of the question.
        request: u64,
        /// Which.
        objects: Vec<ObjectId>,
    },
    /// Make all of these changes in one transaction or none, and give [`Owners::changed`](super::Owners::changed) the outcome.
    Change {
        /// The number of the question.
        request: u64,
        /// Each of another object.
        changes: Vec<Change>,
    },
    /// Say this to a node on its control link.
    Fence {
        /// Which node.
        to: NodeId,
        /// Which copy, and what.
        fence: Fence,
    },
    /// Say this to a node on its control link.
    Fenced {
        /// Which node.
        to: NodeId,
        /// What the copy said.
        fenced: crate::owner::Fenced,
    },
    /// Say this to a node on its control link.
    Release {
        /// Which node.
        to: NodeId,
        /// What was given up.
        release: Release,
    },
    /// Say this to a node on its control link.
    BadBlock {
        /// Which node.
        to: NodeId,
        /// Which copy has lost which block.
        bad: BadBlock,
    },
    /// Say this to a node on its control link.
    CopyFails {
        /// Which node.
        to: NodeId,
        /// Which copy cannot accept which epoch.
        fails: CopyFails,
    },
    /// Say this to a node on its control link.
    Load {
        /// Which node.
        to: NodeId,
        /// What this node has to do.
        load: Load,
    },
    /// All cores are to say what hosts have asked since the last time: [`Owners::counted`](super::Owners::counted).
    Count,
    /// An object goes to another node of itself. For the log.
    Goes {
        /// Which object.
        object: ObjectId,
        /// Where.
        to: NodeId,
        /// Why.
        why: Why,
    },
    /// A copy on this node is to make the epoch durable, with Restamp, and to say what is in doubt:
    /// [`Owners::accepted`](super::Owners::accepted).
    Accept {
        /// Whose epoch.
        by: OwnerId,
        /// Which copy, and which epoch.
        fence: Fence,
    },
    /// Hosts are to use other paths to the object, though by the record it is this node's; or not any more. For the control plane.
    Away {
        /// Which object.
        object: ObjectId,
        /// Whether they are.
        away: bool,
    },
    /// All cores look at this before they answer reads of the object; `None`: they answer none.
    Cell {
        /// Which object.
        object: ObjectId,
        /// The cell.
        cell: Option<Arc<GrantCell>>,
    },
    /// Give the command to all cores.
    Plane {
        /// Which object.
        object: ObjectId,
        /// What to do.
        command: Command,
    },
}

/// A copy of this node, and the object it is of.
pub(super) type CopyKey = (ObjectId, ComponentId);
