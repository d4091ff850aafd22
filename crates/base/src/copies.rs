//! What a copy of a mirror says of itself, to whoever owns the object: the words of `docs/replication.md` for what is in doubt.
//!
//! Owns: [`BlockRange`], [`LaneDoubt`], [`ResyncProgress`].
//! Invariant: a range lies in one lane, and is not empty.
//! Never: decides what is in doubt.

use crate::lane::Lane;
use crate::order::Seq;
use crate::unit::{BlockNo, Epoch};

/// Blocks that follow on each other, of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRange {
    /// The first.
    pub first: BlockNo,
    /// How many; not 0.
    pub blocks: u32,
}

impl BlockRange {
    /// The block behind it.
    pub const fn end(&self) -> BlockNo {
        BlockNo(self.first.0 + self.blocks as u64)
    }
}

/// What a lane of a copy says when it is fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneDoubt {
    /// Which lane.
    pub lane: Lane,
    /// Its mark.
    pub mark: Seq,
    /// What is in doubt: at most 1024 ranges.
    pub doubt: Vec<BlockRange>,
}

/// What blocks of a copy hold, for who copies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceContent {
    /// Something to be read.
    Data,
    /// Nothing: zeroes.
    Nothing,
    /// Nothing that may be read.
    Uncorrectable,
}

/// The first of some blocks of a copy, as many as are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRun {
    /// What they hold.
    pub content: SourceContent,
    /// How many.
    pub blocks: u32,
    /// Epoch and mask of the first one's chunk; `None`: it is not there.
    pub chunk: Option<(Epoch, u16)>,
}

/// How far an earlier resync of a copy had come: chunks below `below` are complete up to an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncProgress {
    /// The first chunk that may not be.
    pub below: u64,
    /// Up to which epoch.
    pub to: Epoch,
}
