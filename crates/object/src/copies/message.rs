//! What the owner asks of a copy on another node, and how it is answered.
//!
//! Invariant: a change has data if it is a write, and a checksum for each block of it.
//! Never: knows how it gets there.

use crate::io::Data;
use base::NodeId;
use base::SourceRun;
use base::unit::BLOCK_BYTES;
use format::peer::{Change, CopyOutcome, CopyRead, LIST_ENTRY_BYTES, List};
use store::CopyList;

/// What a copy is to do.
#[derive(Debug)]
pub enum CopyAsk {
    /// A change. Whoever sends it numbers the request.
    Change {
        /// What it says.
        change: Box<Change>,
        /// Of a write.
        data: Option<Data>,
    },
    /// A read.
    Read(CopyRead),
    /// Chunks of the copy. It is asked from core 0 to core 0.
    List(List),
}

impl CopyAsk {
    /// Bytes that it or its answer brings.
    pub fn cost(&self) -> u64 {
        match self {
            CopyAsk::Change { change, .. } => change.data_bytes().into(),
            CopyAsk::Read(read) => u64::from(read.blocks) * BLOCK_BYTES as u64,
            CopyAsk::List(list) => u64::from(list.most) * LIST_ENTRY_BYTES as u64,
        }
    }
}

/// How it went.
#[derive(Debug)]
pub struct CopyAnswer {
    /// The outcome.
    pub outcome: CopyOutcome,
    /// Of a read that is done: the blocks, with a checksum for each.
    pub data: Option<Data>,
    /// Of a read to copy that is done: what the first blocks hold.
    pub run: Option<SourceRun>,
    /// Of a list that is done.
    pub list: Option<CopyList>,
}

impl From<CopyOutcome> for CopyAnswer {
    fn from(outcome: CopyOutcome) -> Self {
        Self { outcome, data: None, run: None, list: None }
    }
}

/// A request of this node for a copy on another one.
#[derive(Debug)]
pub struct CopyCall {
    /// Which node.
    pub node: NodeId,
    /// The link that it is for, as [`CopyDoor::opened`](super::CopyDoor::opened) has numbered it: on a later one it is sent anew.
    pub link: u64,
    /// Given back with the answer.
    pub token: u64,
    /// What to do.
    pub ask: CopyAsk,
}
