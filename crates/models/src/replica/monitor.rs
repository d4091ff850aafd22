//! What must hold: a judge that sees everything and has no effect.
//!
//! Owns: [`Monitor`]; the invariants of a [`World`](super::World).
//! Invariant: a history of a block is linearizable exactly when no two values are each surely before the other. A value is surely before
//! another when a request that wrote or returned it had ended before one began that wrote or returned the other. (Values are written
//! once.)
//! Never: changes what the protocol does.

use super::state::{BLOCKS, CopyState, Mask, Role, Value, WRITES, World};
use super::{Bounds, bits};
use crate::explore::Broken;

/// The history of all blocks, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Monitor {
    /// Of each block: values of which a request has ended.
    finished: [Mask; BLOCKS],
    /// Of each block and value: values that are surely before it.
    before: [[Mask; WRITES + 1]; BLOCKS],
    /// Blocks of each copy that may have changed since it left.
    missed: [Mask; super::NODES],
    /// More than one copy was out at a time in this period, or one was out again before its resync had finished.
    overlap: bool,
}

/// An acknowledged change is not on a copy that is in sync.
pub const LOST: Broken = "an acknowledged write is lost";
/// Copies that are in sync differ where nothing is under way.
pub const DIFFER: Broken = "copies in sync differ";
/// A read returned what was not there any more, or what was taken back later.
pub const NOT_LINEAR: Broken = "reads are not linearizable";
/// A read is answered while a later owner serves.
pub const TWO_OWNERS: Broken = "two owners answer";
/// Resync copies what has not changed.
pub const INEXACT: Broken = "resync copies what has not changed";

impl Default for Monitor {
    fn default() -> Self {
        Self { finished: [1; BLOCKS], before: Default::default(), missed: Default::default(), overlap: false }
    }
}

impl Monitor {
    /// A change begins.
    pub fn begins(&mut self, value: Value, blocks: Mask, out_of_sync: Mask) {
        for b in bits(blocks) {
            self.before[b][usize::from(value)] |= self.finished[b];
        }
        for c in bits(out_of_sync) {
            self.missed[c] |= blocks;
        }
    }
    /// A change is answered.
    pub fn ends(&mut self, value: Value, blocks: Mask) -> Result<(), Broken> {
        for b in bits(blocks) {
            self.finished[b] |= 1 << value;
        }
        self.judge(LOST)
    }
    /// What has finished before a read that begins now.
    pub const fn finished(&self, block: usize) -> Mask {
        self.finished[block]
    }
    /// A read is answered.
    pub fn reads(&mut self, block: usize, value: Value, after: Mask) -> Result<(), Broken> {
        self.before[block][usize::from(value)] |= after & !(1 << value);
        self.finished[block] |= 1 << value;
        self.judge(NOT_LINEAR)
    }
    fn judge(&self, what: Broken) -> Result<(), Broken> {
        for (before, &finished) in self.before.iter().zip(&self.finished) {
            let mutual = |u: usize, v: usize| before[u] >> v & 1 == 1 && before[v] >> u & 1 == 1;
            if bits(finished).any(|u| (0..u).any(|v| mutual(u, v))) {
                return Err(what);
            }
        }
        Ok(())
    }
    /// Whether a value is surely not the last any more.
    fn is_old(&self, block: usize, value: Value) -> bool {
        bits(self.finished[block]).any(|u| self.before[block][u] >> value & 1 == 1)
    }
    /// Copies leave, or are dropped from their resync. `in_doubt`: blocks whose changes were under way anywhere.
    pub fn leave(&mut self, copies: Mask, dropped: Mask, in_doubt: Mask, others_out: Mask) {
        self.overlap |= dropped != 0 || copies != 0 && (others_out != 0 || copies.count_ones() > 1);
        for c in bits(copies | dropped) {
            self.missed[c] |= in_doubt;
        }
    }
    /// Copies that a change under way waits for no more.
    pub fn misses(&mut self, copies: Mask, blocks: Mask) {
        for c in bits(copies) {
            self.missed[c] |= blocks;
        }
    }
    /// A copy is active again.
    pub fn returns(&mut self, copy: usize, all: bool) {
        self.missed[copy] = 0;
        self.overlap &= !all;
    }
    /// Two copies change names.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.missed.swap(a, b);
    }
    /// Resync copies blocks.
    pub fn copies(&self, copy: usize, blocks: Mask) -> Result<(), Broken> {
        if !self.overlap && blocks & !self.missed[copy] != 0 { Err(INEXACT) } else { Ok(()) }
    }
}

impl World {
    /// What holds in every state.
    pub(super) fn check(&self, bounds: &Bounds) -> Result<(), Broken> {
        let active = self.record.active();
        // A restored record is not the truth before it was confirmed.
        if !self.record.restored {
            for c in bits(active) {
                if (0..bounds.blocks).any(|b| self.monitor.is_old(b, self.copies[c].content[b])) {
                    return Err(LOST);
                }
            }
        }
        self.check_equal(bounds)
    }
    /// Where nothing is under way, the copies in sync are equal.
    fn check_equal(&self, bounds: &Bounds) -> Result<(), Broken> {
        let node = &self.nodes[usize::from(self.record.owner)];
        let Role::Owner(owner) = &node.role else { return Ok(()) };
        if !owner.serving || owner.record != self.record || node.cas.is_some() {
            return Ok(());
        }
        let under_way = owner.ops.iter().fold(0, |mask, op| mask | op.blocks);
        for b in bits(!under_way & ((1 << bounds.blocks) - 1)) {
            let mut values = (0..bounds.nodes).filter(|&c| self.record.copies[c] == CopyState::Active).map(|c| self.copies[c].content[b]);
            let first = values.next();
            if values.any(|v| Some(v) != first) {
                return Err(DIFFER);
            }
        }
        Ok(())
    }
}
