//! The state of the model: the directory, nodes with their memory, copies with what they keep, and what is on its way.
//!
//! ```text
//!            directory: Record                     node 0            node 1            node 2
//!   epoch, owner, copies, period   ◄── Cas ──   Node, Role         Node, Role        Node, Role      lost in a crash
//!                                               Copy  ◄── Message ──► Copy             Copy          durable
//! ```
//!
//! Owns: [`World`] and its parts.
//! Invariant: equal worlds behave alike: what differs only in what can have no effect any more is made equal (`World::settle`).
//! Never: changes a state.

use super::monitor::Monitor;
use arrayvec::ArrayVec;

/// Nodes at most, each with one copy.
pub const NODES: usize = 3;
/// Blocks of the lane at most.
pub const BLOCKS: usize = 2;
/// Changes of hosts at most. Change `w` writes the value `w`; 0 is what was there first.
pub const WRITES: usize = 4;

/// A node, and the copy on it.
pub type NodeNo = u8;
/// Bit n: node, block or value n.
pub type Mask = u8;
/// A change of a host, and the value it writes.
pub type Value = u8;

/// A sequence number: the epoch in which the owner's term began, and the count since. Compared as a pair.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u8, pub u8);

impl core::fmt::Debug for Seq {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The state of a copy in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyState {
    /// In sync.
    Active,
    /// Out, with the reason left out: absent, degraded and stale are one here.
    Absent,
    /// Gets changes, and is not read.
    Resyncing,
}

/// The ownership record of the object, in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    pub epoch: u8,
    pub owner: NodeNo,
    /// The incarnation of the owner. With the epoch it is the nonce of the change: only the owner, or who takes over, writes a record.
    pub owner_inc: u8,
    pub copies: [CopyState; NODES],
    /// The last epoch in which each copy was in sync.
    pub synced_to: [u8; NODES],
    /// The epoch in which the object last stopped being in sync on all copies.
    pub period_start: u8,
    /// The directory was restored from a backup, and not every copy has been heard since.
    pub restored: bool,
}

impl Record {
    /// Copies in this state.
    pub fn with(&self, state: CopyState) -> Mask {
        (0..NODES).filter(|&n| self.copies[n] == state).fold(0, |mask, n| mask | 1 << n)
    }
    pub fn active(&self) -> Mask {
        self.with(CopyState::Active)
    }
}

/// A compare-and-swap on its way to the directory: it counts only if nobody else was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cas {
    pub from: NodeNo,
    /// The record that it replaces, by epoch, and whether that was restored: together the revision.
    pub on: (u8, bool),
    pub new: Record,
}

/// What a chunk keeps. Epoch 0: it holds nothing, and there is no such chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// The epoch of the last change.
    pub epoch: u8,
    /// The blocks that changed in this period.
    pub mask: Mask,
}

/// A record of the log that may be in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogRecord {
    pub seq: Seq,
    pub blocks: Mask,
}

/// How far a resync had come, as the copy keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Progress {
    /// Chunks that are complete up to `to`.
    pub done: Mask,
    pub to: u8,
}

/// A copy. All of it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The highest epoch it has accepted, and whose.
    pub accepted: u8,
    pub by: NodeNo,
    pub content: [Value; BLOCKS],
    pub chunks: [Chunk; BLOCKS],
    /// What may be in doubt: above the mark.
    pub records: ArrayVec<LogRecord, 12>,
    pub mark: Seq,
    /// The highest number it has seen: only for a run without pairs.
    pub highest: Seq,
    /// It has heard that it is out of sync, and not that it is in sync again.
    pub resyncing: bool,
    /// Blocks that were in doubt when it heard so, and have not been copied since.
    pub own_doubt: Mask,
    pub progress: Progress,
}

impl Replica {
    /// Blocks in doubt.
    pub fn doubt(&self) -> Mask {
        self.records.iter().filter(|r| r.seq > self.mark).fold(0, |mask, r| mask | r.blocks)
    }
}

/// Of the grants of one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The granter remembers one that has not run out: to which incarnation, 0: none.
    pub given: u8,
    /// An answer on its way: the epoch that the granter had accepted; 0: none.
    pub answer: u8,
    /// The grantee counts it.
    pub counted: bool,
}

/// What a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A host's.
    Write,
    /// A host's: its chunks are freed.
    Trim,
    /// One copy's content of what is in doubt, for the others.
    Agree { free: bool },
    /// What a returning copy misses.
    Range { source: Chunk, progress: Progress },
}

/// A message between nodes. It may come at any time, in any order, or never: so cuts of every shape, pauses and resets need no action of
/// their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// A new owner, or the owner of a higher epoch, makes itself known. `resync`: the copy is out of sync.
    Fence { from: NodeNo, to: NodeNo, epoch: u8, period_start: u8, resync: bool },
    /// Its answer.
    Fenced { from: NodeNo, to: NodeNo, epoch: u8, mark: Seq, doubt: Mask },
    /// A change.
    Change {
        from: NodeNo,
        to: NodeNo,
        epoch: u8,
        period_start: u8,
        resync: bool,
        seq: Seq,
        mark: Seq,
        blocks: Mask,
        value: Value,
        what: What,
    },
    /// It is durable.
    Ack { from: NodeNo, to: NodeNo, inc: u8, seq: Seq },
    /// The sender will answer nothing any more in epochs up to this one.
    Release { from: NodeNo, to: NodeNo, epoch: u8 },
}

/// A change under way at its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op {
    pub seq: Seq,
    pub blocks: Mask,
    pub value: Value,
    pub what: What,
    /// Copies that have to have it, and those that have said so.
    pub targets: Mask,
    pub acked: Mask,
}

/// The resync that an owner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resync {
    pub copy: NodeNo,
    /// The epoch in which it was asked to join.
    pub epoch: u8,
    /// Blocks copied.
    pub copied: Mask,
    /// It has accepted the epoch and gets changes. What it missed then.
    pub listed: Option<Mask>,
}

/// An owner, in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub record: Record,
    pub term: u8,
    /// The last number given.
    pub last: u8,
    /// Of the terms before: everything up to here is on all copies.
    pub base_mark: Seq,
    /// All copies that stay are fenced.
    pub serving: bool,
    /// The highest epoch that an active copy is known to have accepted.
    pub known: u8,
    /// Copies that have answered the fence; what they said is in doubt.
    pub fenced: Mask,
    pub doubt: Mask,
    pub ops: ArrayVec<Op, 5>,
    pub resync: Option<Resync>,
}

/// What a node does for the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Holds a copy.
    Holder,
    /// Its compare-and-swap is under way.
    TakingOver,
    /// Owns it, as far as it knows.
    Owner(Owner),
}

/// A read at its owner: the data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    pub block: u8,
    pub value: Value,
    /// Grants were valid when the data came: only for a run without the rule.
    pub granted: bool,
    /// What was finished before it began.
    pub after: Mask,
    /// Changes up to this number that run still may be in its data.
    pub until: u8,
}

/// A node's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub inc: u8,
    pub role: Role,
    /// Its change of the directory whose outcome it does not know.
    pub cas: Option<Record>,
    pub read: Option<Read>,
    /// It may have given grants before its restart.
    pub waits: bool,
    /// The epoch up to which the owner has given the object up.
    pub released: u8,
    /// Cut off from all other nodes (only where messages come at once).
    pub cut: bool,
}

/// Faults and other things that happen so often at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    pub lost_answers: u8,
    pub resends: u8,
    pub reads: u8,
    pub cuts: u8,
    pub handovers: u8,
    pub grants: u8,
    pub restores: u8,
    /// Changes that hosts have begun.
    pub writes: u8,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub record: Record,
    pub cas: ArrayVec<Cas, 3>,
    pub nodes: [Node; NODES],
    pub copies: [Replica; NODES],
    pub messages: ArrayVec<Message, 14>,
    pub grants: [[Grant; NODES]; NODES],
    pub budget: Budget,
    /// While the record is one that was restored: what the copies that were heard had accepted, and whether they were out of sync.
    pub heard: [Option<(u8, bool)>; NODES],
    pub monitor: Monitor,
}
