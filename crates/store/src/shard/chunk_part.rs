//! A run of blocks, cut at chunks.
//!
//! Owns: [`ChunkPart`], [`chunk_parts`].

use base::BlockNo;
use base::unit::CHUNK_BLOCKS;

/// The part of a run of blocks that lies in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPart {
    pub chunk: u64,
    /// First block within the chunk.
    pub first: u32,
    pub blocks: u32,
}

impl ChunkPart {
    pub fn mask(&self) -> u16 {
        (((1u32 << self.blocks) - 1) << self.first) as u16
    }
}

/// Cuts a run of blocks at chunks.
pub(crate) fn chunk_parts(block: BlockNo, blocks: u32) -> impl Iterator<Item = ChunkPart> {
    let end = block.0 + u64::from(blocks);
    let mut at = block.0;
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (chunk, first) = (at / CHUNK_BLOCKS, (at % CHUNK_BLOCKS) as u32);
        let n = (CHUNK_BLOCKS - u64::from(first)).min(end - at) as u32;
        at += u64::from(n);
        Some(ChunkPart { chunk, first, blocks: n })
    })
}
