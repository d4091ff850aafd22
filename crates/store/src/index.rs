//! The log index of a shard: for each block whose newest version lies in the log, where and with which checksum.
//!
//! Owns: the map block -> ([`LogPos`], CRC). One entry is 16 bytes; see docs/store.md for the memory formula.
//! Invariants: an entry always points at the newest durable record of its block; it is removed only by a trim or when its
//! segment is released (after the same version is durable on capacity).
//! Never: does I/O; counts what is live (the segments do).
//!
//! The map is cut into many small ones by hash, so that growing one (a rehash) stalls an operation by microseconds, not
//! by the seconds that moving a hundred million entries at once would take. Within a map the 16 blocks of a chunk lie side by side, so that a
//! read or a destage of neighbours misses the processor's caches once for four of them.

use crate::ComponentNo;
use base::BlockNo;
use base::hooks::{self, SeededFault};
use base::unit::CHUNK_BLOCKS;
use core::hash::{BuildHasher, Hasher};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Bits of a [`Key`] that hold the block; the 26 above hold the component.
pub(crate) const KEY_BLOCK_BITS: u32 = 38;
/// Entries that a sub-map should hold when the log is full of single blocks.
const SUB_MAP_ENTRIES: u64 = 8192;
/// Bounds on the number of sub-maps.
const SUB_MAPS_MIN: u64 = 16;
const SUB_MAPS_MAX: u64 = 1 << 16;

/// A block of a component, in one word: component in the top 26 bits, block of the object below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(pub u64);

impl Key {
    /// The key of `block` of `component`. The caller has checked that both fit (26 and 38 bits).
    pub fn new(component: ComponentNo, block: BlockNo) -> Self {
        debug_assert!(component.0 < 1 << 26 && block.0 < 1 << KEY_BLOCK_BITS);
        Self(u64::from(component.0) << KEY_BLOCK_BITS | block.0)
    }
    pub fn component(self) -> ComponentNo {
        ComponentNo((self.0 >> KEY_BLOCK_BITS) as u32)
    }
    pub fn block(self) -> BlockNo {
        BlockNo(self.0 & ((1 << KEY_BLOCK_BITS) - 1))
    }
    /// The key of the first block of its chunk.
    pub fn chunk_begin(self) -> Self {
        Self(self.0 & !(CHUNK_BLOCKS - 1))
    }
    /// The key `n` blocks further on.
    pub fn plus(self, n: u32) -> Self {
        Self(self.0 + u64::from(n))
    }
}

/// A place in the shard's slice of the log, in blocks from its start (30 bits: 4 TiB), and two flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPos(u32);

const POS_UNCHECKED: u32 = 1 << 31;
const POS_DESTAGED: u32 = 1 << 30;
/// Blocks of the largest slice of a shard.
pub(crate) const SLICE_BLOCKS_MAX: u64 = 1 << 30;

impl LogPos {
    pub fn new(block: u32, unchecked: bool) -> Self {
        debug_assert!(u64::from(block) < SLICE_BLOCKS_MAX);
        Self(block | if unchecked { POS_UNCHECKED } else { 0 })
    }
    /// Block of the slice.
    pub fn block(self) -> u32 {
        self.0 & (POS_DESTAGED - 1)
    }
    /// The volume does not want its checksums verified.
    pub fn unchecked(self) -> bool {
        self.0 & POS_UNCHECKED != 0
    }
    /// Exactly this version also lies on capacity.
    pub fn destaged(self) -> bool {
        self.0 & POS_DESTAGED != 0
    }
}

/// What the index knows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub pos: LogPos,
    pub crc: u32,
}

/// Hashes a [`Key`] so that the blocks of a chunk follow each other in a table: its low bits are the chunk's place and, in the lowest four, the
/// block; its top bits, which the table compares first, differ from block to block.
#[derive(Clone, Copy, Default)]
struct Neighbours;

/// Of [`Neighbours`].
#[derive(Default)]
struct NeighbourHasher(u64);

/// Odd, with its bits well spread (the golden ratio).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl BuildHasher for Neighbours {
    type Hasher = NeighbourHasher;
    #[inline]
    fn build_hasher(&self) -> NeighbourHasher {
        NeighbourHasher::default()
    }
}

impl Hasher for NeighbourHasher {
    #[inline]
    fn write_u64(&mut self, key: u64) {
        let product = u128::from((key >> 4) ^ 0x51_0E55) * u128::from(SPREAD);
        let chunk = product as u64 ^ (product >> 64) as u64;
        let block = key & 15;
        self.0 = (chunk & !15 | block) ^ block << 57;
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are single words");
    }
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The index. See the module.
pub(crate) struct LogIndex {
    maps: Vec<HashMap<u64, Located, Neighbours>>,
    hasher: FixedState,
    mask: u64,
    len: u64,
}

impl LogIndex {
    /// An empty index for a slice of `slice_blocks` blocks.
    pub fn new(slice_blocks: u64) -> Self {
        let maps = (slice_blocks / hooks::tiny(SUB_MAP_ENTRIES, 64)).next_power_of_two().clamp(SUB_MAPS_MIN, SUB_MAPS_MAX);
        let hasher = FixedState::with_seed(0xBA5A_1701);
        Self { maps: (0..maps).map(|_| HashMap::with_hasher(Neighbours)).collect(), hasher, mask: maps - 1, len: 0 }
    }

    /// The sub-map of a block.
    #[inline]
    pub fn map_of(&self, key: Key) -> usize {
        // All 16 blocks of a chunk share a sub-map: reads of neighbours and the gather of destage stay in one place.
        (self.hasher.hash_one(key.0 >> 4) & self.mask) as usize
    }

    /// How many blocks have their newest version in the log.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn get(&self, key: Key) -> Option<Located> {
        self.maps[self.map_of(key)].get(&key.0).copied()
    }

    /// Brings what there is of these blocks near the processor, all at once: one after the other, each would wait for its own cache misses.
    pub fn touch(&self, keys: impl Iterator<Item = Key>) {
        let seen = keys.fold(0, |seen, key| seen ^ self.get(key).map_or(0, |at| at.crc));
        core::hint::black_box(seen);
    }

    /// The newest version of `key` is now at `at`. Gives back where it was.
    pub fn insert(&mut self, key: Key, at: Located) -> Option<Located> {
        let map = self.map_of(key);
        let old = self.maps[map].insert(key.0, at);
        self.len += u64::from(old.is_none());
        old
    }

    /// The block is trimmed.
    pub fn remove(&mut self, key: Key) -> Option<Located> {
        let map = self.map_of(key);
        let old = self.maps[map].remove(&key.0);
        self.len -= u64::from(old.is_some());
        old
    }

    /// The version at `block` of the slice is on capacity as well. False when a newer one (or none) has taken its place.
    pub fn mark_destaged(&mut self, key: Key, block: u32) -> bool {
        let map = self.map_of(key);
        match self.maps[map].get_mut(&key.0) {
            Some(at) if at.pos.block() == block || hooks::seeded(SeededFault::NewerTakenForDestaged) => {
                at.pos.0 |= POS_DESTAGED;
                true
            }
            _ => false,
        }
    }

    /// The segment with `block` of the slice is released: forgets the entry if it still points there.
    pub fn release(&mut self, key: Key, block: u32) -> Option<Located> {
        let map = self.map_of(key);
        match self.maps[map].entry(key.0) {
            Entry::Occupied(entry) if entry.get().pos.block() == block || hooks::seeded(SeededFault::ReleaseForgetsNewer) => {
                self.len -= 1;
                Some(entry.remove())
            }
            _ => None,
        }
    }

    /// Every entry, in an order that depends on nothing but the history of the map.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Located)> + '_ {
        self.maps.iter().flat_map(|map| map.iter().map(|(key, at)| (Key(*key), *at)))
    }

    /// How many sub-maps there are, to walk the index in steps with [`LogIndex::iter_map`].
    pub fn maps(&self) -> usize {
        self.maps.len()
    }

    /// The entries of one sub-map.
    pub fn iter_map(&self, map: usize) -> impl Iterator<Item = (Key, Located)> + '_ {
        self.maps[map].iter().map(|(key, at)| (Key(*key), *at))
    }

    /// Memory of the tables, in bytes (capacity, not length).
    pub fn memory_bytes(&self) -> u64 {
        self.maps.iter().map(|map| map.allocation_size() as u64 + 48).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(component: u32, block: u64) -> Key {
        Key::new(ComponentNo(component), BlockNo(block))
    }
    fn at(block: u32) -> Located {
        Located { pos: LogPos::new(block, false), crc: block ^ 0xFFFF }
    }

    #[test]
    fn a_key_gives_back_what_went_in() {
        let k = key((1 << 26) - 1, (1 << 38) - 1);
        assert_eq!(k.component(), ComponentNo((1 << 26) - 1));
        assert_eq!(k.block(), BlockNo((1 << 38) - 1));
        assert_eq!(key(3, 7).plus(2), key(3, 9));
    }

    #[test]
    fn the_newest_insert_wins_and_the_old_place_comes_back() {
        let mut index = LogIndex::new(1 << 20);
        assert_eq!(index.insert(key(1, 5), at(10)), None);
        assert_eq!(index.insert(key(1, 5), at(20)), Some(at(10)));
        assert_eq!(index.get(key(1, 5)), Some(at(20)));
        assert_eq!(index.len(), 1);
        assert_eq!(index.remove(key(1, 5)), Some(at(20)));
        assert_eq!(index.remove(key(1, 5)), None);
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn a_release_spares_newer_versions() {
        let mut index = LogIndex::new(1 << 20);
        index.insert(key(1, 5), at(10));
        index.insert(key(1, 5), at(20));
        assert_eq!(index.release(key(1, 5), 10), None);
        assert_eq!(index.get(key(1, 5)), Some(at(20)));
        assert!(index.release(key(1, 5), 20).is_some());
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn a_destaged_mark_holds_for_that_version_only() {
        let mut index = LogIndex::new(1 << 20);
        index.insert(key(1, 5), at(10));
        assert!(!index.mark_destaged(key(1, 5), 11));
        assert!(index.mark_destaged(key(1, 5), 10));
        let found = index.get(key(1, 5)).unwrap();
        assert!(found.pos.destaged() && !found.pos.unchecked() && found.pos.block() == 10);
        index.insert(key(1, 5), at(12));
        assert!(!index.get(key(1, 5)).unwrap().pos.destaged());
        assert!(!index.mark_destaged(key(1, 6), 10));
    }

    #[test]
    fn the_blocks_of_a_chunk_lie_side_by_side_and_chunks_are_spread() {
        let hash = |k: Key| Neighbours.hash_one(k.0);
        let mut places = std::collections::BTreeSet::new();
        for chunk in 0..4096u64 {
            let first = hash(key(7, chunk * 16));
            for block in 1..16 {
                let h = hash(key(7, chunk * 16 + block));
                assert_eq!(h & 0xFFFF_FFFF, (first & 0xFFFF_FFFF) + block);
                assert_ne!(h >> 57, first >> 57);
            }
            places.insert(first & 0xFFFF);
        }
        // Of 4096 places 4096 chunks drawn at random hit 63 %.
        assert!(places.len() > 2400, "{}", places.len());
    }

    #[test]
    fn it_agrees_with_a_plain_map_over_a_long_random_history() {
        let mut index = LogIndex::new(1 << 16);
        let mut model = std::collections::BTreeMap::new();
        let mut state = 1u64;
        for step in 0..200_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let k = key((state >> 60) as u32, state >> 33 & 0xFFF);
            if state >> 20 & 7 == 0 {
                assert_eq!(index.remove(k), model.remove(&k));
            } else {
                assert_eq!(index.insert(k, at(step)), model.insert(k, at(step)));
            }
        }
        assert_eq!(index.len(), model.len() as u64);
        let mut all: Vec<_> = index.iter().map(|(k, l)| (k, l.crc)).collect();
        all.sort();
        assert_eq!(all, model.iter().map(|(k, l)| (*k, l.crc)).collect::<Vec<_>>());
        assert_eq!((0..index.maps()).map(|m| index.iter_map(m).count()).sum::<usize>(), model.len());
    }
}
