//! What the content of another copy does to the entry of its chunk.
//!
//! Owns: the rule of a Range (`docs/replication.md`, "Change of a chunk").
//! Never: changes content.

use super::{ChunkTable, Phys};
use base::Epoch;
use base::hooks::{self, SeededFault};

impl ChunkTable {
    /// Blocks of the chunk were copied from a chunk of this epoch and mask, by a change of `change` in the period since `period_start`.
    pub fn set_ranged(&mut self, at: Phys, (epoch, mask): (Epoch, u16), change: Epoch, period_start: Epoch) {
        let e = self.entry_mut(at);
        assert!(e.component != 0, "blocks of a free chunk were copied");
        // Replay: the page has seen a later change, and so this one.
        if e.epoch > change {
            return;
        }
        let before = (e.epoch, e.changed);
        // A chunk that was just made has no epoch, and nothing in its mask but what the source says.
        let since = match e.epoch {
            Epoch(0) => 0,
            epoch if epoch < period_start && !hooks::seeded(SeededFault::PeriodOfRangeKept) => 0,
            _ => e.changed,
        };
        e.changed = if hooks::seeded(SeededFault::RangeKeepsMask) { since } else { since | mask };
        if !hooks::seeded(SeededFault::RangeKeepsEpoch) {
            e.epoch = e.epoch.max(epoch);
        }
        if e.written != 0 && before != (e.epoch, e.changed) {
            self.mark_dirty(at);
        }
    }
}
