//! Blocks that the log was found to hold, on their way into the index.
//!
//! Owns: where each of them lies, by the sub-map of the index that they go to, in the order of the log. What goes to one sub-map goes there
//! together: the sub-map is near the processor then, while blocks in the order of the log would each wait for memory.
//! Invariants: a sub-map gets its blocks in the order of the log; before anything else looks at a sub-map, or takes something out of it, it has
//! what was found until then ([`FoundBlocks::bring`]).
//! Never: holds more than [`HELD_MAX`] blocks.

use crate::ComponentNo;
use crate::buffer::log::Log;
use crate::index::{Key, Located};
use crate::shard::chunk_part::chunk_parts;
use base::BlockNo;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::CHUNK_BLOCKS;
use format::disk::log::Record;

/// Blocks that wait for the index, over all sub-maps: 256 MiB of memory. The chunks that get their place after the replay need more.
const HELD_MAX: usize = 16 << 20;

/// See the module.
pub(super) struct FoundBlocks {
    of_map: Vec<Vec<(Key, Located)>>,
    held: usize,
}

impl FoundBlocks {
    /// None yet, for the index of `log`.
    pub fn new(log: &Log) -> Self {
        Self { of_map: vec![Vec::new(); log.index().maps()], held: 0 }
    }
    /// The newest version of a block, as far as the replay has come.
    #[inline]
    pub fn add(&mut self, log: &mut Log, key: Key, at: Located) {
        self.of_map[log.index().map_of(key)].push((key, at));
        self.held += 1;
        if self.held >= hooks::tiny(HELD_MAX, 64) {
            self.bring_all(log);
        }
    }
    /// Brings into the index what was found of the chunks of a record, which takes something out of it.
    pub fn bring_of(&mut self, log: &mut Log, component: ComponentNo, record: &Record) {
        for part in chunk_parts(record.block, record.blocks).filter(|_| !hooks::seeded(SeededFault::RemovedBeforeFound)) {
            self.bring(log, log.index().map_of(Key::new(component, BlockNo(part.chunk * CHUNK_BLOCKS))));
        }
    }
    /// Brings what was found of a sub-map into the index.
    pub fn bring(&mut self, log: &mut Log, map: usize) {
        let found = core::mem::take(&mut self.of_map[map]);
        self.held -= found.len();
        let first_wins = hooks::seeded(SeededFault::FirstRecordWins);
        for (key, at) in found {
            if !first_wins || log.index().get(key).is_none() {
                log.insert(key, at);
            }
        }
    }
    #[cold]
    fn bring_all(&mut self, log: &mut Log) {
        hooks::reached(CoverageMark::FoundBlocksBrought);
        (0..self.of_map.len()).for_each(|map| self.bring(log, map));
    }
}
