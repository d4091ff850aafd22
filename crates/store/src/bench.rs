//! A door to the index of the log for the micro-benchmarks; part of the crate only with the feature `bench`.
//!
//! Invariant: does nothing that the index does not do.
//! Never: part of production.

use crate::ComponentNo;
use crate::index::{Key, Located, LogIndex, LogPos};
use base::BlockNo;

/// The index of a log: see `index.rs`.
pub struct Index(LogIndex);

impl Index {
    /// An empty index for a slice of so many blocks.
    pub fn new(slice_blocks: u64) -> Self {
        Self(LogIndex::new(slice_blocks))
    }
    /// The newest version of `block` is now at block `at` of the slice; whether there was one before.
    pub fn insert(&mut self, component: ComponentNo, block: BlockNo, at: u32) -> bool {
        self.0.insert(Key::new(component, block), Located { pos: LogPos::new(at, false), crc: at }).is_some()
    }
    /// Where the newest version of `block` is.
    pub fn get(&self, component: ComponentNo, block: BlockNo) -> Option<u32> {
        self.0.get(Key::new(component, block)).map(|found| found.pos.block())
    }
}
