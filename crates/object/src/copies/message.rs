//! What the owner asks of a copy on another node, and how it is answered.
//!
//! Invariant: a change has data if it is a write, and a checksum for each block of it.
//! Never: knows how it gets there.

use crate::io::Data;
use base::NodeId;
use base::unit::BLOCK_BYTES;
use format::peer::{Change, CopyOutcome, CopyRead};

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
}

impl CopyAsk {
    /// Bytes that it or its answer brings.
    pub fn cost(&self) -> u64 {
        match self {
            CopyAsk::Change { change, .. } => change.data_bytes().into(),
            CopyAsk::Read(read) => u64::from(read.blocks) * BLOCK_BYTES as u64,
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
}

impl From<CopyOutcome> for CopyAnswer {
    fn from(outcome: CopyOutcome) -> Self {
        Self { outcome, data: None }
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
