//! How the owner of an object orders its changes: a number for each change of a mirror and lane, and the mark.
//!
//! ```text
//!   numbers given:   7  8  9  10  11  12          ended: 8, 9, 11
//!   mark = 7 ───────┘   (everything up to it has ended)   in doubt: 8 to 12
//! ```
//!
//! Owns: [`Orders`]: of each mirror and lane of this core, the numbers that were given and have not ended.
//! Invariants: numbers of a lane rise, as pairs; the mark never goes back, and never passes a change that has not ended; at most
//! [`IN_DOUBT_MAX`] changes of a lane are above it.
//! Never: looks at what a change does.

use crate::layout::ComponentAt;
use base::hooks::{self, CoverageMark, SeededFault};
use base::lane::{LANES, Lane};
use base::{Order, Ownership, Seq};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use store::OpKind;

/// Changes of a mirror and lane that may be above its mark. Further ones wait: a takeover has to look at each.
pub const IN_DOUBT_MAX: usize = 1024;

/// One mirror and lane.
#[derive(Debug, Default)]
struct LaneOrder {
    last: Seq,
    mark: Seq,
    /// Those above the mark, oldest first, and whether each has ended.
    open: VecDeque<(Seq, bool)>,
    /// Which of all changes the first of `open` is.
    first: u64,
    /// Parts that wait until the mark moves, oldest first, and what the store is to do.
    waiting: VecDeque<(u32, OpKind)>,
}

#[derive(Debug)]
struct MirrorOrder {
    ownership: Ownership,
    lanes: [LaneOrder; LANES as usize],
}

/// See the module. A mirror is named by its copy on this node.
#[derive(Debug)]
pub(crate) struct Orders(HashMap<ComponentAt, MirrorOrder, FixedState>);

impl Default for Orders {
    fn default() -> Self {
        Self(HashMap::with_hasher(FixedState::with_seed(11)))
    }
}

impl Orders {
    /// Gives a change its number. `ownership`: as far as the core knows that sent the part; it may be behind. `before`: how far the lane had come
    /// when this term began, on all copies. Comes with which change of the lane it is. `None`: too many of them are in doubt.
    pub fn begin(&mut self, mirror: ComponentAt, lane: Lane, ownership: Ownership, before: impl FnOnce() -> Seq) -> Option<(Order, u64)> {
        let new = || MirrorOrder { ownership, lanes: core::array::from_fn(|_| LaneOrder::default()) };
        let known = self.0.entry(mirror).or_insert_with(new);
        if ownership.epoch > known.ownership.epoch && !(hooks::seeded(SeededFault::EpochOfFirstPart)) {
            known.ownership = ownership;
        }
        let Ownership { epoch, term, period_start } = known.ownership;
        let at = &mut known.lanes[lane.index()];
        if at.last == Seq::default() && !hooks::seeded(SeededFault::MarkBeginsAnew) {
            at.mark = before();
        }
        if at.open.len() >= hooks::tiny(IN_DOUBT_MAX, 8) && !hooks::seeded(SeededFault::InDoubtUnbounded) {
            hooks::reached(CoverageMark::TooManyInDoubt);
            return None;
        }
        hooks::must(|| at.open.len() < hooks::tiny(IN_DOUBT_MAX, 8), "more changes of a lane are in doubt than may be");
        let counter = if at.last.term == term { at.last.counter } else { 0 };
        let twice = counter % 7 == 3 && hooks::seeded(SeededFault::NumberGivenTwice);
        at.last = Seq { term, counter: counter + u64::from(!twice) };
        let nth = at.first + at.open.len() as u64;
        at.open.push_back((at.last, false));
        Some((Order { epoch, period_start, seq: at.last, mark: at.mark }, nth))
    }

    /// A part for which there was no number waits until the mark has moved.
    pub fn wait(&mut self, mirror: ComponentAt, lane: Lane, part: u32, kind: OpKind) {
        let known = self.0.get_mut(&mirror).expect("a mirror that has changes in doubt");
        known.lanes[lane.index()].waiting.push_back((part, kind));
    }

    /// Change `nth` of the lane has ended. Returns a part that may begin now.
    pub fn ended(&mut self, mirror: ComponentAt, lane: Lane, nth: u64) -> Option<(u32, OpKind)> {
        let known = self.0.get_mut(&mirror)?; // it was deleted meanwhile
        let at = &mut known.lanes[lane.index()];
        let entry = at.open.get_mut(nth.checked_sub(at.first)? as usize)?;
        entry.1 = true;
        while let Some(&(seq, true)) = at.open.front() {
            at.mark = seq;
            at.first += 1;
            at.open.pop_front();
        }
        if hooks::seeded(SeededFault::MarkSkipsOpen) && at.open.get(1).is_some_and(|next| next.1) {
            at.mark = at.open[1].0;
        }
        if at.open.len() < hooks::tiny(IN_DOUBT_MAX, 8) { at.waiting.pop_front() } else { None }
    }

    /// The component was deleted.
    pub fn forget(&mut self, mirror: ComponentAt) {
        if let Some(gone) = self.0.remove(&mirror) {
            debug_assert!(gone.lanes.iter().all(|lane| lane.waiting.is_empty()), "parts of a component that is deleted wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::GroupSlot;
    use base::Epoch;
    use store::ComponentNo;

    const MIRROR: ComponentAt = ComponentAt { group: GroupSlot(0), no: ComponentNo(3) };

    fn owned(epoch: u32, term: u32) -> Ownership {
        Ownership { epoch: Epoch(epoch), term: Epoch(term), period_start: Epoch(1) }
    }
    fn lane(i: u8) -> Lane {
        Lane::new(i).unwrap()
    }
    fn seq(term: u32, counter: u64) -> Seq {
        Seq { term: Epoch(term), counter }
    }

    #[test]
    fn the_mark_stands_before_the_first_that_has_not_ended() {
        let mut orders = Orders::default();
        let begin = |orders: &mut Orders| orders.begin(MIRROR, lane(5), owned(1, 1), Seq::default).unwrap();
        let begun: Vec<_> = (0..4).map(|_| begin(&mut orders)).collect();
        assert_eq!(begun.iter().map(|(o, _)| o.seq).collect::<Vec<_>>(), (1..=4).map(|n| seq(1, n)).collect::<Vec<_>>());
        orders.ended(MIRROR, lane(5), begun[1].1);
        orders.ended(MIRROR, lane(5), begun[2].1);
        assert_eq!(begin(&mut orders).0.mark, seq(0, 0));
        orders.ended(MIRROR, lane(5), begun[0].1);
        assert_eq!(begin(&mut orders).0.mark, seq(1, 3));
        let other = orders.begin(ComponentAt { no: ComponentNo(4), ..MIRROR }, lane(5), owned(1, 1), Seq::default).unwrap().0;
        assert_eq!((other.seq, other.mark), (seq(1, 1), seq(0, 0)), "another mirror has an order of its own");
    }

    #[test]
    fn a_new_term_counts_from_one_and_its_mark_is_of_the_old_one_until_that_has_ended() {
        let mut orders = Orders::default();
        let (_, first) = orders.begin(MIRROR, lane(0), owned(1, 1), Seq::default).unwrap();
        let (_, second) = orders.begin(MIRROR, lane(0), owned(1, 1), Seq::default).unwrap();
        orders.ended(MIRROR, lane(0), first);
        let (third, third_place) = orders.begin(MIRROR, lane(0), owned(2, 1), Seq::default).unwrap();
        assert_eq!((third.epoch, third.seq), (Epoch(2), seq(1, 3)), "an epoch within a term goes on counting");
        let (fourth, _) = orders.begin(MIRROR, lane(0), owned(4, 4), Seq::default).unwrap();
        assert_eq!((fourth.seq, fourth.mark), (seq(4, 1), seq(1, 1)));
        orders.ended(MIRROR, lane(0), third_place);
        orders.ended(MIRROR, lane(0), second);
        let (fifth, _) = orders.begin(MIRROR, lane(0), owned(2, 1), Seq::default).unwrap();
        assert_eq!((fifth.epoch, fifth.seq, fifth.mark), (Epoch(4), seq(4, 2), seq(1, 3)), "who sent the part was behind");
    }

    #[test]
    fn the_mark_of_a_new_life_begins_where_the_copies_have_come_to() {
        let mut orders = Orders::default();
        let (first, _) = orders.begin(MIRROR, lane(5), owned(7, 7), || seq(4, 99)).unwrap();
        assert_eq!((first.seq, first.mark), (seq(7, 1), seq(4, 99)));
        let (second, _) = orders.begin(MIRROR, lane(5), owned(7, 7), || seq(7, 1)).unwrap();
        assert_eq!(second.mark, seq(4, 99), "what has not ended is not asked for again");
    }

    #[test]
    fn so_many_are_in_doubt_and_the_next_one_waits_for_the_mark() {
        let mut orders = Orders::default();
        let max = hooks::tiny(IN_DOUBT_MAX, 8) as u32;
        let places: Vec<_> = (0..max).map(|_| orders.begin(MIRROR, lane(1), owned(1, 1), Seq::default).unwrap().1).collect();
        assert_eq!(orders.begin(MIRROR, lane(1), owned(1, 1), Seq::default), None);
        orders.wait(MIRROR, lane(1), 7777, OpKind::Trim);
        assert!(orders.begin(MIRROR, lane(2), owned(1, 1), Seq::default).is_some(), "another lane goes on");
        assert_eq!(orders.ended(MIRROR, lane(1), places[0]).map(|(part, _)| part), Some(7777));
        assert!(orders.ended(MIRROR, lane(1), places[2]).is_none());
        orders.forget(MIRROR);
        assert!(orders.ended(MIRROR, lane(1), places[3]).is_none(), "of what is gone");
    }

    #[cfg(feature = "hooks")]
    #[test]
    fn seeded_faults_are_noticed() {
        use base::hooks::notices;
        notices(SeededFault::EpochOfFirstPart, a_new_term_counts_from_one_and_its_mark_is_of_the_old_one_until_that_has_ended);
    }
}
