//! The order of overlapping operations in one lane.
//!
//! Owns: which ranges of which pieces are being changed, and who waits for them.
//! Invariants: what was read is answered when the changes that ran meanwhile have ended, where that is asked for (`settles`); two changes that overlap never run together; a read that overlaps a running change waits for it; whoever waits keeps its
//! place, so nothing starves and overlapping changes happen in the order in which they came.
//! Never: does I/O, looks at data.

use crate::io::VolumeRef;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::PIECE_BLOCKS;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Blocks of one piece of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The volume.
    pub volume: VolumeRef,
    /// First block, of the volume's address space.
    pub block: u64,
    /// Blocks; the range lies within one piece.
    pub blocks: u32,
}

impl Range {
    fn key(&self) -> u64 {
        (u64::from(self.volume.0) << 32) ^ (self.block / PIECE_BLOCKS)
    }
    fn overlaps(&self, other: &Range) -> bool {
        self.volume == other.volume
            && self.block < other.block + u64::from(other.blocks)
            && other.block < self.block + u64::from(self.blocks)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    range: Range,
    id: u32,
    changes: bool,
}

#[derive(Debug, Default)]
struct Piece {
    running: SmallVec<[Entry; 4]>,
    waiting: SmallVec<[Entry; 2]>,
    /// Reads that have ended, and the changes that may be in what they found.
    settling: Vec<(u32, SmallVec<[u32; 4]>)>,
}

/// The changes under way in the lanes of one core.
#[derive(Debug, Default)]
pub struct RangeLocks {
    pieces: HashMap<u64, Piece, FixedState>,
    waited: u64,
}

impl RangeLocks {
    /// Asks to begin operation `id`. `true`: begin now; `false`: it waits, and [`RangeLocks::end`] of another will name it.
    /// A change that may begin is running until [`RangeLocks::end`]; a read is not remembered once it runs.
    pub fn begin(&mut self, range: Range, id: u32, changes: bool) -> bool {
        if !changes && self.pieces.is_empty() {
            return true;
        }
        let entry = Entry { range, id, changes };
        if !changes {
            let Some(piece) = self.pieces.get_mut(&range.key()) else { return true };
            if !blocked(&entry, &piece.running, &piece.waiting) {
                return true;
            }
            hooks::reached(CoverageMark::ReadWaits);
            piece.waiting.push(entry);
            self.waited += 1;
            return false;
        }
        let piece = self.pieces.entry(range.key()).or_default();
        if blocked(&entry, &piece.running, &piece.waiting) && !hooks::seeded(SeededFault::ChangesTogether) {
            hooks::reached(CoverageMark::ChangeWaits);
            piece.waiting.push(entry);
            self.waited += 1;
            return false;
        }
        piece.running.push(entry);
        true
    }

    /// A change has ended. Calls `begin` for each operation that was waiting and begins now.
    ///
    /// # Panics
    /// When `id` is not running in that piece: a bug of the caller.
    #[inline(always)]
    pub fn end(&mut self, range: Range, id: u32, mut begin: impl FnMut(u32)) {
        let key = range.key();
        let piece = self.pieces.get_mut(&key).expect("the piece of a running change");
        let place = piece.running.iter().position(|e| e.id == id).expect("a running change");
        piece.running.swap_remove(place);
        if !piece.settling.is_empty() {
            settle(&mut piece.settling, id, &mut begin);
        }
        let mut next = 0;
        while next < piece.waiting.len() {
            let entry = piece.waiting[next];
            if blocked(&entry, &piece.running, &piece.waiting[..next]) {
                next += 1;
                continue;
            }
            piece.waiting.remove(next);
            if entry.changes {
                piece.running.push(entry);
            }
            begin(entry.id);
        }
        if piece.running.is_empty() {
            assert!(piece.waiting.is_empty() && piece.settling.is_empty(), "whoever waits, waits for a running change");
            self.pieces.remove(&key);
        }
    }

    /// Read `id` has found something: whether that will stay. `false`: a change that began after it runs still and may be in it; the
    /// [`RangeLocks::end`] of the last one of these names it. Changes that begin later are not waited for.
    pub fn settles(&mut self, range: Range, id: u32) -> bool {
        let Some(piece) = self.pieces.get_mut(&range.key()) else { return true };
        let changes: SmallVec<[u32; 4]> = piece.running.iter().filter(|e| e.range.overlaps(&range)).map(|e| e.id).collect();
        if changes.is_empty() {
            return true;
        }
        hooks::reached(CoverageMark::ReadSettles);
        piece.settling.push((id, changes));
        self.waited += 1;
        false
    }

    /// Names the pieces of a window in which a change of the volume runs or waits, in any order.
    pub fn pieces(&self, volume: VolumeRef, window: &std::ops::Range<u64>, mut found: impl FnMut(u64)) {
        for piece in self.pieces.values() {
            // Something runs in every piece that is here.
            let Some(Entry { range, .. }) = piece.running.first() else { continue };
            let at = range.block / PIECE_BLOCKS;
            if range.volume == volume && window.contains(&at) {
                found(at);
            }
        }
    }

    /// How many operations had to wait since the start.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// Whether nothing runs or waits.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// Change `id` has ended: reads that waited for no other one are answered.
#[cold]
fn settle(settling: &mut Vec<(u32, SmallVec<[u32; 4]>)>, id: u32, mut begin: impl FnMut(u32)) {
    settling.iter_mut().for_each(|(_, changes)| changes.retain(|change| *change != id));
    settling.extract_if(.., |(_, changes)| changes.is_empty()).for_each(|(read, _)| begin(read));
}

fn blocked(entry: &Entry, running: &[Entry], before: &[Entry]) -> bool {
    running.iter().any(|e| e.range.overlaps(&entry.range)) || before.iter().any(|e| e.changes && e.range.overlaps(&entry.range))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(block: u64, blocks: u32) -> Range {
        Range { volume: VolumeRef(1), block, blocks }
    }

    fn end(order: &mut RangeLocks, r: Range, id: u32) -> Vec<u32> {
        let mut begun = vec![];
        order.end(r, id, |id| begun.push(id));
        begun
    }

    #[test]
    fn an_overlapping_change_waits_and_others_pass() {
        let mut order = RangeLocks::default();
        assert!(order.begin(range(0, 4), 1, true));
        assert!(!order.begin(range(3, 2), 2, true));
        assert!(order.begin(range(8, 1), 3, true));
        assert!(!order.begin(range(0, 1), 4, false), "a read of a block being changed waits");
        assert!(order.begin(range(9, 1), 5, false));
        assert_eq!(end(&mut order, range(0, 4), 1), [2, 4]);
        assert_eq!(end(&mut order, range(3, 2), 2), []);
        assert_eq!(end(&mut order, range(8, 1), 3), []);
        assert!(order.is_idle());
    }

    #[test]
    fn what_was_read_waits_for_the_changes_that_ran_meanwhile_and_for_no_others() {
        let mut order = RangeLocks::default();
        assert!(order.begin(range(0, 8), 1, false) && order.settles(range(0, 8), 1));
        assert!(order.begin(range(0, 8), 1, false));
        assert!(order.begin(range(0, 1), 2, true) && order.begin(range(7, 1), 3, true) && order.begin(range(9, 1), 4, true));
        assert!(!order.settles(range(0, 8), 1), "two of them may be in it");
        assert!(order.begin(range(1, 1), 5, true) && !order.begin(range(0, 1), 6, true));
        assert_eq!(end(&mut order, range(9, 1), 4), []);
        assert_eq!(end(&mut order, range(0, 1), 2), [6]);
        assert_eq!(end(&mut order, range(7, 1), 3), [1], "later ones are not waited for");
        assert_eq!(end(&mut order, range(1, 1), 5), []);
        assert_eq!(end(&mut order, range(0, 1), 6), []);
        assert!(order.is_idle());
    }

    #[test]
    fn changes_of_the_same_block_happen_in_the_order_they_came() {
        let mut order = RangeLocks::default();
        assert!(order.begin(range(0, 1), 1, true));
        assert!(!order.begin(range(0, 1), 2, true));
        assert!(!order.begin(range(0, 1), 3, true));
        assert_eq!(end(&mut order, range(0, 1), 1), [2]);
        assert_eq!(end(&mut order, range(0, 1), 2), [3]);
        end(&mut order, range(0, 1), 3);
        assert!(order.is_idle());
    }

    #[test]
    fn another_volume_is_another_range() {
        let mut order = RangeLocks::default();
        assert!(order.begin(range(0, 1), 1, true));
        assert!(order.begin(Range { volume: VolumeRef(2), block: 0, blocks: 1 }, 2, true));
    }

    #[test]
    fn the_pieces_with_changes_are_named() {
        let mut order = RangeLocks::default();
        assert!(order.begin(range(0, 4), 1, true));
        assert!(order.begin(range(5 * PIECE_BLOCKS, 4), 2, true));
        assert!(order.begin(Range { volume: VolumeRef(2), block: PIECE_BLOCKS, blocks: 1 }, 3, true));
        assert!(order.begin(range(7 * PIECE_BLOCKS, 1), 4, false));
        let named = |order: &RangeLocks, window| {
            let mut out = vec![];
            order.pieces(VolumeRef(1), &window, |p| out.push(p));
            out.sort_unstable();
            out
        };
        assert_eq!(named(&order, 0..10), [0, 5]);
        assert_eq!(named(&order, 1..5), []);
        end(&mut order, range(5 * PIECE_BLOCKS, 4), 2);
        assert_eq!(named(&order, 0..10), [0]);
    }

    proptest! {
        #[test]
        fn no_two_overlapping_changes_run_together_and_all_end(ops in prop::collection::vec((0u64..20, 1u32..6, any::<bool>()), 1..80)) {
            let mut order = RangeLocks::default();
            let mut running: Vec<usize> = vec![];
            let mut done = vec![false; ops.len()];
            let r = |i: usize| range(ops[i].0, ops[i].1);
            let start = |i: usize, running: &mut Vec<usize>, done: &mut Vec<bool>| {
                for &j in running.iter() {
                    assert!(!r(i).overlaps(&r(j)), "{i} and {j}");
                }
                if ops[i].2 { running.push(i) } else { done[i] = true }
            };
            for (i, _) in ops.iter().enumerate() {
                if order.begin(r(i), i as u32, ops[i].2) { start(i, &mut running, &mut done); }
                if i % 3 == 2 && !running.is_empty() {
                    let j = running.remove(i % running.len());
                    done[j] = true;
                    let mut begun = vec![];
                    order.end(r(j), j as u32, |id| begun.push(id));
                    for b in begun { start(b as usize, &mut running, &mut done); }
                }
            }
            while let Some(j) = running.pop() {
                done[j] = true;
                let mut begun = vec![];
                order.end(r(j), j as u32, |id| begun.push(id));
                for b in begun { start(b as usize, &mut running, &mut done); }
            }
            prop_assert!(order.is_idle());
            prop_assert!(done.iter().all(|d| *d));
        }
    }
}
