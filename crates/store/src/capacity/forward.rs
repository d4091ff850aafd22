//! From (component, chunk of the object) to the physical chunk: 64 hash maps, so that growing one is a short stall.
//!
//! Cost: 17 to 38 bytes an allocated chunk (a 16-byte pair and a control byte, at a load of 44 to 87 %).

use super::table::Phys;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

const MAPS: usize = 64;

/// See the module.
pub(super) struct Forward {
    maps: Vec<HashMap<u64, Phys, FixedState>>,
}

/// 26 bits of component, 34 bits of chunk.
fn key(component: u32, chunk: u64) -> u64 {
    debug_assert!(chunk < 1 << 34 && component < 1 << 26);
    u64::from(component) << 34 | chunk
}

/// A piece (16 chunks) stays in one map.
fn map_of(key: u64) -> usize {
    ((key >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize
}

impl Forward {
    pub(super) fn new() -> Self {
        Self { maps: (0..MAPS).map(|_| HashMap::with_hasher(FixedState::with_seed(0))).collect() }
    }
    pub(super) fn get(&self, component: u32, chunk: u64) -> Option<Phys> {
        let key = key(component, chunk);
        self.maps[map_of(key)].get(&key).copied()
    }
    pub(super) fn insert(&mut self, component: u32, chunk: u64, phys: Phys) -> Option<Phys> {
        let key = key(component, chunk);
        self.maps[map_of(key)].insert(key, phys)
    }
    pub(super) fn remove(&mut self, component: u32, chunk: u64) -> Option<Phys> {
        let key = key(component, chunk);
        self.maps[map_of(key)].remove(&key)
    }
    pub(super) fn len(&self) -> usize {
        self.maps.iter().map(HashMap::len).sum()
    }
}
