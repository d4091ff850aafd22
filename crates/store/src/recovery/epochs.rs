//! The epochs of chunks that get their place only after the replay.
//!
//! Owns: of each component the epoch of its first record in the log, which most chunks have; of the others the newest one.
//! Invariant: what is said of a chunk is not below the epoch of any record of it.
//! Never: asks whether a chunk is going to be made: what is known of others costs nothing but memory, and there are few.

use crate::ComponentNo;
use base::Epoch;
use base::hooks::{self, SeededFault};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// See the module.
pub(super) struct NewestEpochs {
    first: BTreeMap<ComponentNo, Epoch>,
    /// What was asked for last.
    last: Option<(ComponentNo, Epoch)>,
    others: HashMap<(ComponentNo, u64), Epoch, FixedState>,
}

impl Default for NewestEpochs {
    fn default() -> Self {
        Self { first: BTreeMap::new(), last: None, others: HashMap::with_hasher(FixedState::with_seed(7)) }
    }
}

impl NewestEpochs {
    /// A record of this component has this epoch: whether it is that of its first record.
    #[inline]
    pub fn is_first(&mut self, component: ComponentNo, epoch: Epoch) -> bool {
        if self.last != Some((component, epoch)) {
            let first = *self.first.entry(component).or_insert(epoch);
            if first != epoch {
                return false;
            }
            self.last = Some((component, epoch));
        }
        true
    }
    /// A record of this chunk has an epoch that is not that of the component's first record.
    pub fn note(&mut self, component: ComponentNo, chunk: u64, epoch: Epoch) {
        if hooks::seeded(SeededFault::FirstEpochReplayed) {
            return;
        }
        let newest = self.others.entry((component, chunk)).or_insert(epoch);
        *newest = epoch.max(*newest);
    }
    /// The newest epoch of a chunk that has a record in the log.
    pub fn newest(&self, component: ComponentNo, chunk: u64) -> Epoch {
        let first = self.first.get(&component).copied().unwrap_or(Epoch(0));
        self.others.get(&(component, chunk)).copied().map_or(first, |epoch| epoch.max(first))
    }
}
