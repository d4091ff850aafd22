//! What happens to an owner's machine, and what it wants done.
//!
//! Owns: [`Event`], [`Command`] and the values in them.
//! Invariant: a command names the epoch in which it holds; a change of the record is whole, with its nonce.
//! Never: says who carries a command out.

use base::lane::Lane;
use base::{BlockNo, ComponentId, CopyState, Epoch, NodeId, Nonce, OwnerId, Ownership, OwnershipRecord, ResyncPace, Seq};
pub use base::{BlockRange, LaneDoubt, ResyncProgress as Progress};

/// Chunks of one piece of a resync's list.
pub const LIST_CHUNKS_MAX: usize = 1024;
/// Ranges of a resync under way at once, whatever the pace.
pub const RANGES_MAX: usize = 64;

/// The revision of a record in the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A copy, where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyRef {
    /// Of which mirror.
    pub mirror: u16,
    /// On which node.
    pub node: NodeId,
    /// Its component.
    pub component: ComponentId,
}

impl From<&base::CopyRecord> for CopyRef {
    fn from(copy: &base::CopyRecord) -> Self {
        Self { mirror: copy.mirror, node: copy.node, component: copy.component }
    }
}

/// The answer of a copy to Fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// Which copy.
    pub from: ComponentId,
    /// The epoch of the Fence.
    pub epoch: Epoch,
    /// Of each lane that has something to say.
    pub lanes: Vec<LaneDoubt>,
    /// Of a copy that is out of sync.
    pub resync: Option<Progress>,
}

/// The outcome of a change of the record, as the directory answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made.
    Made(Revision),
    /// It was not, and will not be: the record had been changed.
    Refused,
    /// Not known.
    Lost,
}

/// What the links say of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It answers.
    Up,
    /// Silent for 0.7 s, or about to end: an owner does without it.
    Late,
    /// Silent for 1.2 s: whoever may take over from it does.
    Gone,
}

/// A chunk of a piece of the list, as source and copy have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedChunk {
    /// Which, counted in the object's address space.
    pub chunk: u64,
    /// Epoch of the last change, and mask, at the source; `None`: it is not there.
    pub source: Option<(Epoch, u16)>,
    /// The copy has it.
    pub there: bool,
    /// Blocks of it that were in doubt at the copy when it heard that it is out of sync, and were not copied since.
    pub own_doubt: u16,
}

/// A piece of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// From which chunk.
    pub from: u64,
    /// The epoch of the command.
    pub epoch: Epoch,
    /// In order, all from `from` on and below `next`. Those that neither has, and that were not in doubt, are left out.
    pub chunks: Vec<ListedChunk>,
    /// Where the next piece begins; `None`: this was the last.
    pub next: Option<u64>,
}

/// A range that a copy under resync gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeCopy {
    /// Which chunk.
    pub chunk: u64,
    /// Which blocks of it: one run of bits, or all.
    pub mask: u16,
    /// The copy that gets it.
    pub to: CopyRef,
    /// The epoch in which it was asked to join.
    pub invited: Epoch,
    /// The copy that has it. It is read under the range lock; a chunk that is not there is freed at the other.
    pub source: CopyRef,
    /// What holds once it is durable.
    pub progress: Progress,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// The record, read or as a watch gives it.
    Record {
        /// Its revision.
        revision: Revision,
        /// What it says.
        record: OwnershipRecord,
        /// It was read after [`Command::ReadRecord`], and not before.
        read: bool,
    },
    /// The directory answers a change, or does not.
    Changed {
        /// Which change.
        nonce: Nonce,
        /// What came of it.
        outcome: Outcome,
    },
    /// A copy answers a Fence.
    Fenced(Fenced),
    /// A copy on this node has accepted an epoch of another owner.
    Accepted {
        /// The epoch.
        epoch: Epoch,
        /// Whose.
        by: OwnerId,
    },
    /// A copy, or a node that grants, has accepted a higher epoch than this owner's.
    Outranked(Epoch),
    /// The directory says nothing to a change by which an active copy is to leave. An owner that waits for that lets the object go, so that hosts
    /// use another path. It takes it over again when it can, if nobody else has.
    LetsGo,
    /// What the links say of a node, when it changes.
    Node {
        /// Which node.
        node: NodeId,
        /// What they say.
        reach: Reach,
    },
    /// Connections to a node were reset: what was not answered is sent again.
    Reset(NodeId),
    /// A copy fails, or is late.
    CopyFails(ComponentId),
    /// It does not any more.
    CopyWorks(ComponentId),
    /// A copy takes much longer for changes than the others of its mirror, or does not any more.
    CopyPace {
        /// Which copy.
        copy: ComponentId,
        /// Whether it does.
        slow: bool,
    },
    /// This node is to own the object: after its restart, or since another one has given it up.
    TakeOver,
    /// A node has given the object up, and this one is to own it.
    Released(NodeId),
    /// Its turn among those that may take over has come.
    Turn,
    /// So many ranges of an agreement of a lane are on all copies.
    Agreed {
        /// The term of the command.
        term: Epoch,
        /// Of which mirror.
        mirror: u16,
        /// Of which lane.
        lane: Lane,
        /// How many.
        ranges: u32,
    },
    /// A copy that is out is to come back.
    BeginResync(ComponentId),
    /// Resync stands still, or goes on: also that of terms to come.
    PauseResync(bool),
    /// So many ranges may be under way, also in terms to come.
    PaceResync(usize),
    /// What was under way without the joining copy has ended.
    JoinDrained {
        /// Which copy.
        copy: ComponentId,
        /// The epoch of the command.
        invited: Epoch,
    },
    /// A piece of the list.
    Listed(Listed),
    /// A range is durable at the copy.
    Copied(RangeCopy),
    /// A range could not be read, or was not sent.
    NotCopied(RangeCopy),
    /// Another node, which has an active copy and is reached, is to own the object.
    HandOver(NodeId),
    /// It is not: the owner stays, if it has not drained yet.
    Stays,
    /// Nothing is under way any more, and nothing begins: the answer to the last [`Command::Drain`], by its number.
    Drained(u32),
}

/// Who gets changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// With what each change is sent.
    pub ownership: Ownership,
    /// Who gets changes that begin now. Those under way go on to those of them that they had.
    pub copies: Vec<(CopyRef, CopyState)>,
    /// Of each mirror: the copy that is read.
    pub read: Vec<CopyRef>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Read the record: linearizably, so that it is not older than this command.
    ReadRecord,
    /// Change the record: one change for an object, any number in one transaction.
    Change {
        /// If it is still this.
        on: Revision,
        /// To this.
        new: Box<OwnershipRecord>,
    },
    /// Ask a copy to accept the epoch, by its rule, and to say what is in doubt.
    Fence {
        /// Which copy.
        to: CopyRef,
        /// The epoch.
        epoch: Epoch,
        /// Since when the object is not in sync on all copies.
        period_start: Epoch,
        /// It is out of sync, and is to join.
        resync: bool,
    },
    /// Bring ranges of a lane to agreement: number all of them, then send the source's content to the others, if there are
    /// any. The mark of the lane stands at `base_mark`
    /// until [`Command::MarkMoves`].
    Agree {
        /// The owner's term.
        term: Epoch,
        /// Of which mirror.
        mirror: u16,
        /// Which lane.
        lane: Lane,
        /// The highest mark that a copy has said.
        base_mark: Seq,
        /// Whose content.
        source: CopyRef,
        /// Apart from each other, in order.
        ranges: Vec<BlockRange>,
    },
    /// The agreement of a lane has ended.
    MarkMoves {
        /// Of which mirror.
        mirror: u16,
        /// Which lane.
        lane: Lane,
    },
    /// The copies that get changes, and the epoch. Changes of a mirror are not answered before [`Command::Answer`] of this epoch or a later
    /// one.
    Targets(Targets),
    /// An active copy of the mirror has accepted the epoch: what all targets have may be answered.
    Answer {
        /// Which mirror.
        mirror: u16,
        /// Which epoch.
        epoch: Epoch,
    },
    /// Reads need the grants of these nodes, all of them.
    GrantsOf(Vec<NodeId>),
    /// Reads and changes of hosts are served from now on.
    Serve,
    /// Nothing is answered any more.
    Stop,
    /// Changes of the mirror that begin now go to this copy as well; say when those have ended that do not.
    Join {
        /// Which copy.
        copy: CopyRef,
        /// The epoch in which it was asked to join.
        invited: Epoch,
    },
    /// Say what source and copy have, from a chunk on, at most [`LIST_CHUNKS_MAX`]. The source accepts the epoch first, with Restamp.
    List {
        /// The copy that is read.
        source: CopyRef,
        /// The copy that is out of sync.
        copy: CopyRef,
        /// From which chunk.
        from: u64,
        /// The epoch.
        epoch: Epoch,
    },
    /// Copy a range, under the range lock.
    CopyRange(RangeCopy),
    /// Begin no request of a host any more; say when nothing is under way.
    Drain(u32),
    /// Begin requests again.
    Resume,
    /// A copy has lost a block, which is to be written again from another one.
    Repair {
        /// Which copy.
        copy: CopyRef,
        /// Which block, in the object's address space.
        block: BlockNo,
    },
    /// How fast copies get what they miss.
    ResyncPace(ResyncPace),
    /// The object is given up: nothing is answered in epochs up to this one.
    Release {
        /// To whom.
        nodes: Vec<NodeId>,
        /// Up to which.
        epoch: Epoch,
        /// Who is to own the object.
        next: NodeId,
    },
    /// Say [`Event::Turn`] after so many others had theirs.
    WaitTurn {
        /// How many come first.
        rank: usize,
    },
}
