//! What the copies that stay say is in doubt: of each lane the union, and the highest mark.
//!
//! Owns: [`Doubt`].
//! Invariants: ranges of a lane are apart and in order; a lane has at most [`UNION_MAX`] of them.
//! Never: drops a block that one copy named.

use super::IN_DOUBT_MAX;
use super::event::{BlockRange, LaneDoubt};
use base::lane::Lane;
use base::{BlockNo, Seq};
use std::collections::BTreeMap;

/// Copies of a mirror at most.
const COPIES_MAX: usize = 8;
/// Ranges of the union of a lane at most: those of each copy.
pub(super) const UNION_MAX: usize = COPIES_MAX * IN_DOUBT_MAX;

/// One lane.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LaneUnion {
    /// The highest mark that a copy has said.
    pub base_mark: Seq,
    /// From first block to the end of each range.
    ranges: BTreeMap<BlockNo, BlockNo>,
}

impl LaneUnion {
    fn add(&mut self, range: BlockRange) {
        let (mut first, mut end) = (range.first, range.end());
        // One that begins before and reaches into it, then all that begin within.
        let before = self.ranges.range(..=first).next_back().filter(|(_, e)| **e > first).map(|(f, _)| *f);
        let within = self.ranges.range(first..end).map(|(f, _)| *f);
        for at in before.into_iter().chain(within).collect::<Vec<_>>() {
            if let Some(e) = self.ranges.remove(&at) {
                (first, end) = (first.min(at), end.max(e));
            }
        }
        self.ranges.insert(first, end);
        assert!(self.ranges.len() <= UNION_MAX, "more in doubt than all copies may have");
    }
    /// The ranges, in order.
    pub fn ranges(&self) -> Vec<BlockRange> {
        self.ranges.iter().map(|(first, end)| BlockRange { first: *first, blocks: (end.0 - first.0) as u32 }).collect()
    }
}

/// See the module. By mirror and lane.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Doubt(BTreeMap<(u16, Lane), LaneUnion>);

impl Doubt {
    /// What a copy of a mirror says. `ranges`: they count, and not its marks alone.
    pub fn hears(&mut self, mirror: u16, said: &[LaneDoubt], ranges: bool) {
        for LaneDoubt { lane, mark, doubt } in said {
            assert!(doubt.len() <= IN_DOUBT_MAX, "a copy says that more is in doubt than may be");
            let union = self.0.entry((mirror, *lane)).or_default();
            union.base_mark = union.base_mark.max(*mark);
            if ranges {
                doubt.iter().for_each(|range| union.add(*range));
            }
        }
    }
    /// The lanes in which something is in doubt.
    pub fn lanes(self) -> impl Iterator<Item = ((u16, Lane), LaneUnion)> {
        self.0.into_iter().filter(|(_, union)| !union.ranges.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u64, blocks: u32) -> BlockRange {
        BlockRange { first: BlockNo(first), blocks }
    }

    proptest! {
        #[test]
        fn the_union_has_each_block_that_was_named_and_no_other(named in prop::collection::vec((0u64..60, 1u32..9), 0..20)) {
            let mut union = LaneUnion::default();
            let mut blocks = std::collections::BTreeSet::new();
            for (first, n) in named {
                union.add(range(first, n));
                blocks.extend(first..first + u64::from(n));
            }
            let ranges = union.ranges();
            prop_assert!(ranges.windows(2).all(|w| w[0].end() <= w[1].first));
            let found: Vec<u64> = ranges.iter().flat_map(|r| r.first.0..r.end().0).collect();
            prop_assert_eq!(found, blocks.into_iter().collect::<Vec<_>>());
        }
    }
}
