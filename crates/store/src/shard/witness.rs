//! What the epochs and masks of chunks have to say, kept apart from them: for tests and the simulator.
//!
//! Owns: [`Witness`], what has changed of each chunk since the shard was opened.
//! Invariant: it learns of a change where it takes effect, and asks nobody else.
//! Exists with the feature `hooks` only.

use crate::ComponentNo;
use crate::shard::state::{ChunkPart, State};
use base::{Epoch, Order};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of the newest change.
    epoch: Epoch,
    period_start: Epoch,
    /// Blocks that have changed since the period began.
    mask: u16,
    /// The chunk was there when the period began, and it began since the shard was opened: no other block may be in the mask.
    whole: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// The shard is open: what is replayed is not seen.
    pub live: bool,
    seen: BTreeMap<(u32, u64), Seen>,
}

impl State {
    /// A durable change takes effect on blocks of a chunk.
    pub fn witness_change(&mut self, component: ComponentNo, part: ChunkPart, order: &Order) {
        let Some(phys) = self.lookup(component, part.chunk).filter(|_| self.witness.live) else { return };
        let epoch = self.table.borrow().get(phys).epoch;
        let seen = self.witness.seen.entry((component.0, part.chunk)).or_default();
        if order.period_start > seen.period_start {
            // The first change of this period that this life sees; another one may have been before.
            let first = epoch < order.period_start;
            *seen = Seen { period_start: order.period_start, whole: epoch != Epoch(0) && first, ..*seen };
            seen.mask = 0;
        }
        seen.epoch = seen.epoch.max(order.epoch);
        seen.mask |= part.mask();
    }
    /// A chunk is free: what changed in it is over.
    pub fn witness_free(&mut self, component: ComponentNo, chunk: u64) {
        self.witness.seen.remove(&(component.0, chunk));
    }

    /// The chunks say what has changed.
    pub fn check_changes(&self) {
        let table = self.table.borrow();
        for (&(component, chunk), seen) in &self.witness.seen {
            let Some(phys) = table.lookup(ComponentNo(component), chunk) else { continue };
            let found = table.get(phys);
            assert_eq!(found.epoch, seen.epoch, "the epoch of chunk {chunk} of component {component}");
            assert_eq!(found.changed & seen.mask, seen.mask, "changed blocks of chunk {chunk} of component {component}");
            assert!(!seen.whole || found.changed == seen.mask, "chunk {chunk} of component {component} names blocks that have not changed");
        }
    }
}
