//! From (component, chunk of the object) to the physical chunk: for each component a tree of three levels, the last of which has the 16 chunks of a
//! piece on one cache line.
//!
//! ```text
//!   component ─► list of regions (512 pieces, 512 MiB each) ─► leaf of each piece ─► 16 chunk numbers
//! ```
//!
//! Owns: the trees, and the leaves of all of them in one pool.
//! Invariants: a component's chunks all lie on one device; a leaf, region or component without chunks is given back. Nothing that is allocated moves, so
//! nothing stalls when it grows (but the lists of regions: 8 bytes for 512 MiB).
//! Never: decides which chunk is free.
//!
//! Cost: 4 bytes a chunk where all 16 chunks of a piece are allocated and 64 where one is; 2 KiB for each 512 MiB of a component that has any.
//!
//! A hash table in its place took 17 to 38 bytes a chunk and two cache misses for each look-up.

use super::phys::Phys;
use base::hooks::{self, SeededFault};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Chunks of a leaf: a piece.
const LEAF: usize = 16;
/// Leaves of a region.
const REGION: usize = 512;
/// Leaves that the pool grows by.
const GROW: usize = 1024;

/// As it is in this run.
#[inline]
fn grow() -> usize {
    hooks::tiny(GROW, 2)
}
/// No chunk, no leaf.
const NONE: u32 = u32::MAX;

/// Chunk numbers of a piece, on one cache line.
#[derive(Clone)]
#[repr(align(64))]
struct Leaf([u32; LEAF]);

struct Region {
    leaves: [u32; REGION],
    /// How many there are.
    used: u16,
}

struct Component {
    device: u8,
    regions: Vec<Option<Box<Region>>>,
    /// Regions that there are.
    used: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct Forward {
    components: HashMap<u32, Component, FixedState>,
    pool: Vec<Box<[Leaf]>>,
    spare: Vec<u32>,
    len: usize,
}

/// Where a chunk is in its component: region, leaf of it, place in that.
fn path(chunk: u64) -> (usize, usize, usize) {
    let piece = chunk as usize / LEAF;
    (piece / REGION, piece % REGION, chunk as usize % LEAF)
}

impl Forward {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn leaf(&mut self, no: u32) -> &mut [u32; LEAF] {
        &mut self.pool[no as usize / grow()][no as usize % grow()].0
    }

    pub(super) fn get(&self, component: u32, chunk: u64) -> Option<Phys> {
        let (region, leaf, place) = path(chunk);
        let component = self.components.get(&component)?;
        let no = component.regions.get(region)?.as_ref()?.leaves[leaf] as usize;
        // `NONE` is far behind the end of the pool.
        let chunk = self.pool.get(no / grow())?[no % grow()].0[place];
        (chunk != NONE).then_some(Phys { device: component.device, chunk })
    }

    /// Gives back what was there.
    pub(super) fn insert(&mut self, component: u32, chunk: u64, phys: Phys) -> Option<Phys> {
        debug_assert!(phys.chunk != NONE);
        let (region, leaf, place) = path(chunk);
        let new = || Component { device: phys.device, regions: Vec::new(), used: 0 };
        let tree = self.components.entry(component).or_insert_with(new);
        assert_eq!(tree.device, phys.device, "the chunks of a component lie on one device");
        if tree.regions.len() <= region {
            tree.regions.resize_with(region + 1, || None);
        }
        let at = tree.regions[region].get_or_insert_with(|| {
            tree.used += 1;
            Box::new(Region { leaves: [NONE; REGION], used: 0 })
        });
        if at.leaves[leaf] == NONE {
            let no = self.spare.pop().unwrap_or_else(|| {
                let over = u32::from(!self.pool.is_empty() && hooks::seeded(SeededFault::PoolsOverlap));
                let first = (self.pool.len() * grow()) as u32 - over;
                self.pool.push(vec![Leaf([NONE; LEAF]); grow()].into());
                self.spare.extend((first + 1..first + grow() as u32).rev());
                first
            });
            at.leaves[leaf] = no;
            at.used += 1;
        }
        let no = at.leaves[leaf];
        let old = core::mem::replace(&mut self.leaf(no)[place], phys.chunk);
        if old == NONE {
            self.len += 1;
            return None;
        }
        Some(Phys { chunk: old, ..phys })
    }

    /// Gives back what was there.
    pub(super) fn remove(&mut self, component: u32, chunk: u64) -> Option<Phys> {
        let (region, leaf, place) = path(chunk);
        let old = self.get(component, chunk)?;
        self.len -= 1;
        let tree = self.components.get_mut(&component).expect("looked up above");
        let at = tree.regions[region].as_mut().expect("looked up above");
        let no = at.leaves[leaf];
        let entries = &mut self.pool[no as usize / grow()][no as usize % grow()].0;
        entries[place] = NONE;
        if entries.iter().all(|e| *e == NONE) {
            self.spare.push(no);
            at.leaves[leaf] = NONE;
            at.used -= 1;
            if at.used == u16::from(hooks::seeded(SeededFault::RegionFreedEarly)) {
                tree.regions[region] = None;
                tree.used -= 1;
            }
            if tree.used == 0 {
                self.components.remove(&component);
            }
        }
        Some(old)
    }

    /// Names the pieces of `first`, `first + step` and so on before `end` that have a chunk. Costs a look at each region between them, and
    /// at each leaf of those that there are.
    pub(super) fn pieces(&self, component: u32, first: u64, step: u64, end: u64, mut found: impl FnMut(u64)) {
        let Some(tree) = self.components.get(&component) else { return };
        let mut piece = first;
        while piece < end {
            let (region, leaf) = (piece as usize / REGION, piece as usize % REGION);
            match tree.regions.get(region) {
                None => return,
                Some(None) => {
                    let next = (region as u64 + 1) * REGION as u64;
                    piece += (next - piece).next_multiple_of(step);
                }
                Some(Some(region)) => {
                    if region.leaves[leaf] != NONE {
                        found(piece);
                    }
                    piece += step;
                }
            }
        }
    }

    /// No piece from this one on has a chunk.
    pub(super) fn pieces_end(&self, component: u32) -> u64 {
        self.components.get(&component).map_or(0, |tree| (tree.regions.len() * REGION) as u64)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_agrees_with_a_plain_map_over_a_long_random_history_and_ends_empty() {
        let (mut forward, mut model) = (Forward::new(), BTreeMap::new());
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for step in 0..200_000u32 {
            let component = random(3) as u32 + 1;
            // near each other, far apart, and at the very end of what a component can have
            let chunk = [random(64), random(64) * 100_003, (1 << 34) - 1 - random(40)][random(3) as usize];
            let phys = Phys { device: component as u8, chunk: step };
            if random(5) < 2 {
                assert_eq!(forward.remove(component, chunk), model.remove(&(component, chunk)));
            } else {
                assert_eq!(forward.insert(component, chunk, phys), model.insert((component, chunk), phys));
            }
            assert_eq!(forward.get(component, chunk), model.get(&(component, chunk)).copied());
            assert_eq!(forward.len(), model.len());
        }
        for ((component, chunk), phys) in core::mem::take(&mut model) {
            assert_eq!(forward.get(component, chunk), Some(phys));
            assert_eq!(forward.remove(component, chunk), Some(phys));
            assert_eq!(forward.get(component, chunk), None);
        }
        assert_eq!((forward.len(), forward.components.len()), (0, 0));
        assert_eq!(forward.spare.len(), forward.pool.len() * GROW, "every leaf was given back");
    }

    #[test]
    fn the_pieces_that_have_a_chunk_are_named_whatever_lies_between() {
        let mut forward = Forward::new();
        let have = [0u64, 1, 2, 510, 511, 512, 513, 1700, 100_000, 100_001, 16 << 20];
        for (i, piece) in have.iter().enumerate() {
            forward.insert(7, piece * LEAF as u64 + i as u64 % 16, Phys { device: 0, chunk: i as u32 });
        }
        let named = |component, first: u64, step: u64, end: u64| {
            let mut out = vec![];
            forward.pieces(component, first, step, end, |piece| out.push(piece));
            out
        };
        for (first, end) in [(0, 1 << 30), (1, 513), (511, 512), (514, 1700), (514, 1701), (2000, 100_001), (1 << 25, 1 << 30), (5, 5)] {
            for step in [1, 2, 3, 65, 512, 513, 1000] {
                let all = have.iter().copied().filter(|p| (first..end).contains(p) && (p - first) % step == 0).collect::<Vec<_>>();
                assert_eq!(named(7, first, step, end), all, "{first}..{end} by {step}");
            }
        }
        assert_eq!(named(8, 0, 1, 1 << 30), []);
    }

    #[test]
    fn a_component_may_come_back_on_another_device() {
        let mut forward = Forward::new();
        let on = |device| Phys { device, chunk: 9 };
        assert_eq!(forward.insert(5, 3, on(1)), None);
        assert_eq!(forward.remove(5, 3), Some(on(1)));
        assert_eq!(forward.insert(5, 3, on(2)), None);
        assert_eq!(forward.get(5, 3), Some(on(2)));
        assert_eq!((forward.get(5, 4), forward.get(5, 1 << 20), forward.get(6, 3)), (None, None, None));
    }
}
