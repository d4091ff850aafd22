//! What the epochs and masks of chunks have to say, kept apart from them: for tests and the simulator.
//!
//! Owns: [`Witness`], what has changed of each chunk since the shard was opened.
//! Invariant: it learns of a change where it takes effect, and asks nobody else.
//! Exists with the feature `hooks` only.

use crate::ComponentNo;
use crate::capacity::{ChunkTable, Phys};
use crate::shard::chunk_part::ChunkPart;
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

impl Witness {
    /// A durable change takes effect on blocks of the chunk at `phys`.
    pub fn change(&mut self, table: &ChunkTable, phys: Phys, component: ComponentNo, part: ChunkPart, order: &Order) {
        let epoch = table.get(phys).epoch;
        let seen = self.seen.entry((component.0, part.chunk)).or_default();
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
    pub fn free(&mut self, component: ComponentNo, chunk: u64) {
        self.seen.remove(&(component.0, chunk));
    }

    /// The chunks say what has changed.
    pub fn check(&self, table: &ChunkTable) {
        for (&(component, chunk), seen) in &self.seen {
            let Some(phys) = table.lookup(ComponentNo(component), chunk) else { continue };
            let found = table.get(phys);
            assert_eq!(found.epoch, seen.epoch, "the epoch of chunk {chunk} of component {component}");
            assert_eq!(found.changed & seen.mask, seen.mask, "changed blocks of chunk {chunk} of component {component}");
            assert!(!seen.whole || found.changed == seen.mask, "chunk {chunk} of component {component} names blocks that have not changed");
        }
    }
}
