//! How many changes are under way in each chunk.
//!
//! Owns: [`Busy`]. Never: knows what they are.

use crate::capacity::Phys;
use base::hooks::{self, SeededFault};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// How many changes are under way in a chunk. Only chunks with any are listed, so it is as small as the operations in flight.
#[derive(Debug)]
pub(crate) struct Busy(HashMap<Phys, u32, FixedState>);

impl Busy {
    pub fn new() -> Self {
        Self(HashMap::with_capacity_and_hasher(1024, FixedState::with_seed(0xB51)))
    }
    pub fn begin(&mut self, phys: Phys) {
        *self.0.entry(phys).or_insert(0) += 1;
    }
    /// Ends one [`Busy::begin`]; true when it was the last.
    pub fn end(&mut self, phys: Phys) -> bool {
        match self.0.entry(phys) {
            Entry::Occupied(mut entry) => {
                *entry.get_mut() -= 1;
                if *entry.get() > 0 && !hooks::seeded(SeededFault::BusyEndsEarly) {
                    return false;
                }
                entry.remove();
                true
            }
            Entry::Vacant(_) => unreachable!("ended more often than begun"),
        }
    }
    pub fn is_busy(&self, phys: Phys) -> bool {
        self.0.contains_key(&phys)
    }
    /// How many changes are under way in each chunk that has any.
    pub fn counts(&self) -> &HashMap<Phys, u32, FixedState> {
        &self.0
    }
    /// The chunks with anything under way.
    pub fn iter(&self) -> impl Iterator<Item = Phys> + '_ {
        self.0.keys().copied()
    }
}
