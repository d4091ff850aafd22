//! How many chunks each component has, over all shards of its group: what a front end reports to hosts of a thin volume, at any moment and on any
//! core, without asking one.
//!
//! Owns: a count for each component, which the chunk tables of all shards keep and anybody may read.
//! Invariant: a count is the sum of what the tables of the group's shards have allocated to the component.
//! Never: decides anything; what is free or promised is the table's own.

use crate::ComponentNo;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The chunks of one component. A clone is the same count.
#[derive(Clone, Debug, Default)]
pub struct ChunksUsed(Arc<AtomicU64>);

impl ChunksUsed {
    /// How many it has.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
    /// It has got one.
    pub fn more(&self) {
        self.0.fetch_add(1, Relaxed);
    }
    /// It has one fewer.
    pub fn fewer(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl PartialEq for ChunksUsed {
    /// Whether it is the same count, whatever it says.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for ChunksUsed {}

/// The counts of a group's components. A clone is the same; the lock is taken when components come and go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(Arc<Mutex<BTreeMap<u32, ChunksUsed>>>);

impl Usage {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<u32, ChunksUsed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The count of a component.
    pub(crate) fn of(&self, no: ComponentNo) -> ChunksUsed {
        self.counts().entry(no.0).or_default().clone()
    }
    /// A component is no more, and its number is never given again.
    pub(crate) fn forget(&self, no: ComponentNo) {
        self.counts().remove(&no.0);
    }
}
