//! A copy's answer to Fence, in parts: it may name more than one message has room for.
//!
//! Owns: [`FencedParts`], of one link.
//! Invariants: lanes come in their order, each once, with its mark before its ranges; memory is that of one answer.
//! Never: judges an epoch.

use crate::order::IN_DOUBT_MAX;
use crate::owner::{BlockRange, Fenced, LaneDoubt, Progress};
use format::peer::{DOUBT_ENTRIES_MAX, DoubtEntry, FencedPart};

/// A part that does not go with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of an answer to Fence that does not go with those before it")]
pub struct WrongFenced;

/// The parts of an answer.
///
/// # Panics
/// When a lane has more ranges than there can be.
pub fn fenced_parts(fenced: &Fenced) -> Vec<FencedPart> {
    let mut doubt = Vec::new();
    for LaneDoubt { lane, mark, doubt: ranges } in &fenced.lanes {
        assert!(ranges.len() <= IN_DOUBT_MAX, "as much as can be in doubt");
        doubt.push(DoubtEntry::Mark(*lane, *mark));
        doubt.extend(ranges.iter().map(|range| DoubtEntry::Range(*lane, range.first, range.blocks)));
    }
    let resync = fenced.resync.map(|Progress { below, to }| (below, to));
    let count = doubt.len().div_ceil(DOUBT_ENTRIES_MAX).max(1);
    let part = |at: usize| {
        let entries = doubt.iter().skip(at * DOUBT_ENTRIES_MAX).take(DOUBT_ENTRIES_MAX).copied().collect();
        FencedPart { component: fenced.from, epoch: fenced.epoch, resync, more: at + 1 < count, doubt: entries }
    };
    (0..count).map(part).collect()
}

/// See the module.
#[derive(Debug, Default)]
pub struct FencedParts(Option<Fenced>);

impl FencedParts {
    /// A part has come: the answer, if it is whole.
    pub fn add(&mut self, part: &FencedPart) -> Result<Option<Fenced>, WrongFenced> {
        let FencedPart { component, epoch, resync, more, doubt } = part;
        let resync = resync.map(|(below, to)| Progress { below, to });
        let begun = self.0.take().unwrap_or_else(|| Fenced { from: *component, epoch: *epoch, lanes: Vec::new(), resync });
        if (begun.from, begun.epoch, begun.resync) != (*component, *epoch, resync) {
            return Err(WrongFenced);
        }
        let mut fenced = begun;
        for entry in doubt {
            let last = fenced.lanes.last_mut();
            match (entry, last) {
                (DoubtEntry::Mark(lane, _), Some(last)) if *lane <= last.lane => return Err(WrongFenced),
                (DoubtEntry::Mark(lane, mark), _) => fenced.lanes.push(LaneDoubt { lane: *lane, mark: *mark, doubt: Vec::new() }),
                (DoubtEntry::Range(lane, first, blocks), Some(last)) if *lane == last.lane && last.doubt.len() < IN_DOUBT_MAX => {
                    last.doubt.push(BlockRange { first: *first, blocks: *blocks });
                }
                (DoubtEntry::Range(..), _) => return Err(WrongFenced),
            }
        }
        // An empty part that is not the last one would let an answer never end.
        match (*more, doubt.is_empty()) {
            (true, true) => Err(WrongFenced),
            (true, false) => {
                self.0 = Some(fenced);
                Ok(None)
            }
            (false, _) => Ok(Some(fenced)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{BlockNo, ComponentId, Epoch, Lane, Seq};
    use proptest::prelude::*;

    fn fenced(lanes: Vec<(u8, u32)>, resync: bool) -> Fenced {
        let mut lanes: Vec<_> = lanes.into_iter().map(|(lane, ranges)| (Lane::new(lane).unwrap(), ranges)).collect();
        lanes.sort_unstable_by_key(|(lane, _)| *lane);
        lanes.dedup_by_key(|(lane, _)| *lane);
        let lane = |(lane, ranges): (Lane, u32)| {
            let doubt = (0..ranges).map(|n| BlockRange { first: BlockNo(u64::from(n) * 9), blocks: n + 1 }).collect();
            LaneDoubt { lane, mark: Seq { term: Epoch(4), counter: ranges.into() }, doubt }
        };
        let resync = resync.then_some(Progress { below: 77, to: Epoch(3) });
        Fenced { from: ComponentId::from_bytes([5; 16]), epoch: Epoch(9), lanes: lanes.into_iter().map(lane).collect(), resync }
    }

    proptest! {
        #[test]
        fn an_answer_is_whole_when_its_last_part_is_there(
            lanes in prop::collection::vec((0u8..16, 0..=IN_DOUBT_MAX as u32), 0..20), resync: bool,
        ) {
            let said = fenced(lanes, resync);
            let (parts, mut all) = (fenced_parts(&said), FencedParts::default());
            let (last, first) = parts.split_last().unwrap();
            for part in first {
                prop_assert_eq!(all.add(part), Ok(None));
            }
            prop_assert_eq!(all.add(last), Ok(Some(said)));
        }
    }

    #[test]
    fn parts_that_do_not_go_together_are_refused() {
        let said = fenced(vec![(2, 100), (5, 3)], false);
        let parts = fenced_parts(&said);
        assert_eq!(parts.len(), 2);
        let after = |parts: &[FencedPart]| {
            let mut all = FencedParts::default();
            parts.iter().map(|part| all.add(part)).collect::<Vec<_>>().pop().unwrap()
        };
        let with = |change: fn(&mut FencedPart)| {
            let mut part = parts[1].clone();
            change(&mut part);
            after(&[parts[0].clone(), part])
        };
        assert!(with(|_| {}).unwrap().is_some());
        assert_eq!(with(|part| part.component = ComponentId::from_bytes([6; 16])), Err(WrongFenced), "of another copy");
        assert_eq!(with(|part| part.epoch = Epoch(8)), Err(WrongFenced), "of another epoch");
        assert_eq!(with(|part| part.resync = Some((0, Epoch(0)))), Err(WrongFenced));
        assert_eq!(with(|part| part.doubt.insert(0, DoubtEntry::Mark(Lane::new(2).unwrap(), Seq::default()))), Err(WrongFenced), "twice");
        let other = |part: &mut FencedPart| part.doubt.insert(0, DoubtEntry::Range(Lane::new(3).unwrap(), BlockNo(1), 1));
        assert_eq!(with(other), Err(WrongFenced), "a range of a lane without a mark");
        assert_eq!(after(&parts[1..]), Err(WrongFenced), "a range before any mark");
        let empty = FencedPart { doubt: Vec::new(), more: true, ..parts[0].clone() };
        assert_eq!(after(&[empty]), Err(WrongFenced));
        let range = DoubtEntry::Range(Lane::new(2).unwrap(), BlockNo(1), 1);
        let more = FencedPart { doubt: vec![range; DOUBT_ENTRIES_MAX], ..parts[0].clone() };
        let many = [vec![parts[0].clone()], vec![more; IN_DOUBT_MAX / DOUBT_ENTRIES_MAX]].concat();
        assert_eq!(after(&many), Err(WrongFenced), "more than can be in doubt");
    }
}
