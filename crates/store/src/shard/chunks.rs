//! Chunks of writes under way: allocated when a write is admitted, kept while anything is under way, freed when empty.
//!
//! Owns: when a chunk is taken and freed; `busy` counts the changes under way.
//! Invariants: space is decided when a write is admitted, so a write that was admitted never runs out of space later and destaging
//! always has a place to go; a chunk with a change under way (a write on its way into the log, a destage write on its way to
//! capacity) is not freed, so nothing of an old owner can arrive in a new owner's chunk.
//! Never: does I/O.

use super::chunk_part::{ChunkPart, chunk_parts};
use super::op::StoreError;
use super::state::State;
use crate::ComponentNo;
use crate::capacity::{AllocateError, Phys};
use base::hooks::{self, CoverageMark, SeededFault};
use base::{BlockNo, Order};

impl State {
    /// Gives every chunk of a write a place, or none of them. The place, when it is a single chunk.
    pub fn place(&mut self, component: ComponentNo, block: BlockNo, blocks: u32) -> Result<Option<Phys>, StoreError> {
        let (mut placed, mut only) = (0, None);
        for part in chunk_parts(block, blocks) {
            match self.space.ensure(component, part.chunk) {
                Ok(phys) => {
                    self.space.change_begins(phys);
                    only = (part.blocks == blocks).then_some(phys);
                }
                Err(error) => {
                    hooks::reached(CoverageMark::NoPlace);
                    if placed > 0 && !hooks::seeded(SeededFault::PlacesKeptOnRefusal) {
                        self.release_places(component, block, placed);
                    }
                    return Err(match error {
                        AllocateError::NoSpace => StoreError::NoSpace,
                        AllocateError::NoComponent => StoreError::NoComponent,
                        AllocateError::DeviceFailed => StoreError::DeviceFailed,
                    });
                }
            }
            placed += part.blocks;
        }
        Ok(only)
    }

    /// A write has put content into a chunk: it is no longer kept for the write, but for what is in it.
    pub fn settle_part(&mut self, component: ComponentNo, part: ChunkPart, phys: Phys, order: &Order) {
        debug_assert!(self.content(component, part.chunk) != 0, "written, and empty");
        self.space.change_takes_effect(component, part, order);
        self.space.note_change(phys, part, order);
        self.space.change_ends(phys);
    }

    /// A write has ended, one way or the other: its chunks are no longer kept for it.
    pub fn unplace(&mut self, key: u32) {
        let op = &self.ops[key];
        let (component, block, blocks) = (op.component, op.block, op.blocks);
        self.release_places(component, block, blocks);
    }

    pub fn release_places(&mut self, component: ComponentNo, block: BlockNo, blocks: u32) {
        for part in chunk_parts(block, blocks) {
            let phys = self.space.lookup(component, part.chunk).expect("a busy chunk is not freed");
            self.end_busy(component, part.chunk, phys);
        }
    }

    /// One change under way in the chunk has ended.
    pub fn end_busy(&mut self, component: ComponentNo, chunk: u64, phys: Phys) {
        if self.space.change_ends(phys) && self.space.written(phys) == 0 {
            self.free_if_empty(component, chunk);
        }
    }

    /// Frees the chunk if nothing is in it and nothing is under way.
    pub fn free_if_empty(&mut self, component: ComponentNo, chunk: u64) {
        let Some(phys) = self.space.lookup(component, chunk) else { return };
        if self.space.written(phys) != 0 {
            return;
        }
        if self.space.is_busy(phys) && !hooks::seeded(SeededFault::BusyChunkFreed) {
            return hooks::reached(CoverageMark::BusyChunkKept);
        }
        if self.log.holds(component, chunk) == 0 {
            self.space.free(component, chunk, phys);
        }
    }
}
