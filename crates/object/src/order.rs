//! How the owner of an object orders its changes: a number for each change of a mirror and lane, and the mark.
//!
//! ```text
//!   numbers given:   7  8  9  10  11  12          ended: 8, 9, 11
//!   mark = 7 ───────┘   (everything up to it has ended)   in doubt: 8 to 12
//! ```
//!
//! Owns: [`Sequencer`]: of each mirror and lane of this core, the numbers that were given and have not ended.
//! Invariants: numbers of a lane rise, as pairs; the mark never goes back, and never passes a change that has not ended; at most
//! [`IN_DOUBT_MAX`] changes of a lane are above it.
//! Never: looks at what a change does.

use crate::io::VolumeRef;
use crate::layout::{ComponentAt, GroupSlot};
use base::hooks::{self, CoverageMark, SeededFault};
use base::lane::{LANES, Lane};
use base::{Epoch, Order, Ownership, Seq};
use std::collections::VecDeque;
use store::{ComponentNo, OpKind};

/// Changes of a mirror and lane that may be above its mark. Further ones wait: a takeover has to look at each.
pub const IN_DOUBT_MAX: usize = 1024;

/// Of a mirror without a copy on this node.
pub(crate) const NOWHERE: ComponentAt = ComponentAt { group: GroupSlot(u16::MAX), no: ComponentNo(u32::MAX) };

/// A mirror and lane. The mirror is named by its volume, and has a copy `at` this node; [`NOWHERE`] if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MirrorLane {
    pub volume: VolumeRef,
    pub mirror: u16,
    pub at: ComponentAt,
    pub lane: Lane,
}

/// One mirror and lane.
#[derive(Debug, Default)]
struct LaneOrder {
    /// The last number that was given.
    last: Seq,
    mark: Seq,
    /// Changes of the terms before that of `last` that have not ended: the mark stays until they have.
    old: u32,
    /// Of the term of `last`: everything up to here has ended.
    contiguous: u64,
    /// Bit n: the change whose number has n as remainder has ended, though one before it has not.
    ended: [u64; IN_DOUBT_MAX / 64],
    /// Parts that wait until the mark moves, oldest first, and what the store is to do.
    waiting: VecDeque<(u32, OpKind)>,
    /// A number that no change has, of a lane whose mark is held: it does not end before. Counter 0: there is none.
    held: Seq,
}

impl LaneOrder {
    fn is_full(&self) -> bool {
        (self.last.counter - self.contiguous) as usize + self.old as usize >= hooks::tiny(IN_DOUBT_MAX, 8)
    }
    #[inline]
    fn begin(&mut self, owned: &Ownership) -> Given {
        let &Ownership { epoch, term, period_start } = owned;
        if self.is_full() && !hooks::seeded(SeededFault::InDoubtUnbounded) {
            hooks::reached(CoverageMark::TooManyInDoubt);
            return Given::TooMany;
        }
        hooks::must(|| !self.is_full(), "more changes of a lane are in doubt than may be");
        if self.last.term != term {
            if self.last == Seq::default() {
                return Given::First;
            }
            self.begin_term(term);
        }
        let twice = self.last.counter % 7 == 3 && hooks::seeded(SeededFault::NumberGivenTwice);
        self.last.counter += u64::from(!twice);
        Given::Number(Order { epoch, period_start, seq: self.last, mark: self.mark })
    }
    #[cold]
    fn begin_term(&mut self, term: Epoch) {
        let ended: u32 = self.ended.iter().map(|word| word.count_ones()).sum();
        self.old += (self.last.counter - self.contiguous) as u32 - ended;
        (self.last, self.contiguous, self.ended) = (Seq { term, counter: 0 }, 0, [0; IN_DOUBT_MAX / 64]);
    }
    /// The mark stands here from now on: until [`LaneOrder::let_go`] a number is open, of this term and as if of an older one.
    #[cold]
    fn hold(&mut self, term: Epoch, mark: Seq) {
        self.let_go();
        if self.last.term != term {
            self.begin_term(term);
        }
        self.last.counter += 1;
        (self.held, self.mark) = (self.last, mark);
        self.old += 1;
    }
    /// The mark moves again. False: it was not held.
    #[cold]
    fn let_go(&mut self) -> bool {
        let held = core::mem::take(&mut self.held);
        if held == Seq::default() {
            return false;
        }
        self.old -= 1;
        self.end(held);
        true
    }
    fn end(&mut self, seq: Seq) {
        if seq.term != self.last.term {
            self.old -= 1;
        } else if seq.counter == self.contiguous + 1 {
            self.contiguous += 1;
            while self.contiguous < self.last.counter && self.take(self.contiguous + 1) {
                self.contiguous += 1;
            }
        } else {
            let bit = seq.counter as usize % IN_DOUBT_MAX;
            self.ended[bit / 64] |= 1 << (bit % 64);
        }
        // With nothing of an old term left, the mark is at the end of the old terms, even before the first change of this one has ended.
        if self.old == 0 {
            self.mark = Seq { term: self.last.term, counter: self.contiguous };
        }
        if hooks::seeded(SeededFault::MarkSkipsOpen) && self.contiguous + 2 == seq.counter {
            self.mark = seq;
        }
    }
    /// Whether the change has ended though one before it had not; forgets that.
    fn take(&mut self, counter: u64) -> bool {
        let bit = counter as usize % IN_DOUBT_MAX;
        let (word, bit) = (&mut self.ended[bit / 64], 1 << (bit % 64));
        let is = *word & bit != 0;
        if is {
            *word &= !bit;
        }
        is
    }
}

/// What a change gets that begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Number(Order),
    /// It is the first of its lane: [`Sequencer::begin_first`] is to be called.
    First,
    /// Too many are in doubt: it has to wait.
    TooMany,
}

#[derive(Debug)]
struct MirrorOrder {
    at: ComponentAt,
    /// It has, or had, copies elsewhere: its order stays, whatever becomes of the copy here.
    shared: bool,
    ownership: Ownership,
    lanes: Box<[LaneOrder]>,
}

impl MirrorOrder {
    /// Not the copy here that is asked for.
    #[cold]
    #[inline(never)]
    fn if_shared(&mut self) -> Option<&mut Self> {
        self.shared.then_some(self)
    }
}

/// See the module. By volume, then by mirror.
#[derive(Debug, Default)]
pub(crate) struct Sequencer(Vec<Vec<Option<MirrorOrder>>>);

impl Sequencer {
    #[inline]
    fn mirror(&mut self, of: &MirrorLane) -> Option<&mut MirrorOrder> {
        let known = self.0.get_mut(of.volume.0 as usize)?.get_mut(usize::from(of.mirror))?.as_mut();
        let known = known?;
        if known.at == of.at { Some(known) } else { known.if_shared() }
    }
    /// The order of a mirror is that of copies elsewhere too: it stays when the copy here goes, and there need be none.
    #[cold]
    pub fn share(&mut self, of: &MirrorLane, ownership: &Ownership) {
        let mirrors = self.0.get_mut(of.volume.0 as usize);
        match mirrors.and_then(|mirrors| mirrors.get_mut(usize::from(of.mirror))?.as_mut()) {
            Some(known) => known.shared = true,
            None => self.mirror_at(of, ownership).shared = true,
        }
    }
    /// The order of the mirror, made if there is none.
    fn mirror_at(&mut self, of: &MirrorLane, ownership: &Ownership) -> &mut MirrorOrder {
        let (volume, mirror) = (of.volume.0 as usize, usize::from(of.mirror));
        if self.0.len() <= volume {
            self.0.resize_with(volume + 1, Vec::new);
        }
        if self.0[volume].len() <= mirror {
            self.0[volume].resize_with(mirror + 1, || None);
        }
        let known = &mut self.0[volume][mirror];
        if known.as_ref().is_none_or(|known| known.at != of.at && !known.shared) {
            let lanes = (0..LANES).map(|_| LaneOrder::default()).collect();
            *known = Some(MirrorOrder { at: of.at, shared: false, ownership: *ownership, lanes });
        }
        known.as_mut().expect("just made")
    }
    /// What was in doubt in a lane is agreed on: its mark stands at `mark` until [`Sequencer::let_go`], and further changes have at most half of the
    /// numbers that there are until then ([`Sequencer::is_kept_free`]).
    #[cold]
    pub fn hold(&mut self, of: &MirrorLane, ownership: &Ownership, mark: Seq) {
        self.share(of, ownership);
        let known = self.mirror_at(of, ownership);
        if ownership.epoch > known.ownership.epoch {
            known.ownership = *ownership;
        }
        if !hooks::seeded(SeededFault::MarkNotHeld) {
            known.lanes[of.lane.index()].hold(ownership.term, mark);
        }
    }
    /// The agreement of a lane has ended.
    #[cold]
    pub fn let_go(&mut self, of: &MirrorLane) {
        if let Some(known) = self.mirror(of) {
            known.lanes[of.lane.index()].let_go();
        }
    }
    /// No agreement of a volume goes on.
    #[cold]
    pub fn let_go_all(&mut self, volume: VolumeRef) {
        let lanes = self.0.get_mut(volume.0 as usize).into_iter().flatten().flatten().flat_map(|mirror| mirror.lanes.iter_mut());
        lanes.for_each(|lane| _ = lane.let_go());
    }
    /// Whether the next number of a lane is kept for its agreement.
    #[cold]
    pub fn is_kept_free(&mut self, of: &MirrorLane) -> bool {
        let Some(known) = self.mirror(of) else { return false };
        let lane = &known.lanes[of.lane.index()];
        lane.held != Seq::default() && lane.last.counter as usize >= hooks::tiny(IN_DOUBT_MAX, 8) / 2
    }
    /// Parts of a lane that wait and may begin.
    #[cold]
    pub fn may_begin(&mut self, of: &MirrorLane) -> usize {
        self.mirror(of)
            .map_or(0, |known| Some(&known.lanes[of.lane.index()]).filter(|lane| !lane.is_full()).map_or(0, |lane| lane.waiting.len()))
    }
    /// A volume is gone, and with it the orders of its mirrors.
    #[cold]
    pub fn forget_volume(&mut self, volume: VolumeRef) {
        if let Some(mirrors) = self.0.get_mut(volume.0 as usize) {
            mirrors.clear();
        }
    }
    /// Gives a change its number. `ownership`: as far as the core knows that sent the part; it may be behind.
    #[inline(always)]
    pub fn begin(&mut self, of: &MirrorLane, ownership: &Ownership) -> Given {
        let Some(known) = self.mirror(of) else { return Given::First };
        if ownership.epoch > known.ownership.epoch && !(hooks::seeded(SeededFault::EpochOfFirstPart)) {
            known.ownership = *ownership;
        }
        known.lanes[of.lane.index()].begin(&known.ownership)
    }
    /// Gives the first change of a lane its number. `before`: how far the lane had come when this term began, on all copies.
    #[cold]
    pub fn begin_first(&mut self, of: &MirrorLane, ownership: &Ownership, before: Seq) -> Given {
        let known = self.mirror_at(of, ownership);
        let lane = &mut known.lanes[of.lane.index()];
        lane.begin_term(known.ownership.term);
        if !hooks::seeded(SeededFault::MarkBeginsAnew) {
            lane.mark = before;
        }
        lane.begin(&known.ownership)
    }

    /// A part for which there was no number waits until the mark has moved.
    pub fn wait(&mut self, of: &MirrorLane, part: u32, kind: OpKind) {
        let known = self.mirror(of).expect("a mirror that has changes in doubt");
        known.lanes[of.lane.index()].waiting.push_back((part, kind));
    }

    /// A change of the lane has ended. Whether a part that waits may begin now.
    #[inline(always)]
    pub fn ended(&mut self, of: &MirrorLane, seq: Seq) -> bool {
        let Some(mirror) = self.mirror(of) else { return false }; // it was deleted meanwhile
        let lane = &mut mirror.lanes[of.lane.index()];
        lane.end(seq);
        !lane.waiting.is_empty() && !lane.is_full()
    }

    /// The next part of the lane that waits.
    #[cold]
    pub fn next(&mut self, of: &MirrorLane) -> Option<(u32, OpKind)> {
        self.mirror(of)?.lanes[of.lane.index()].waiting.pop_front()
    }

    /// The component was deleted: forgets its order, and returns the parts that wait in it.
    pub fn forget(&mut self, component: ComponentAt) -> Vec<(u32, OpKind)> {
        let of_it = |mirror: &&mut Option<MirrorOrder>| mirror.as_ref().is_some_and(|m| m.at == component && !m.shared);
        let gone = self.0.iter_mut().flatten().filter(of_it).filter_map(Option::take);
        gone.flat_map(|mirror| mirror.lanes).flat_map(|lane| lane.waiting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: ComponentAt = ComponentAt { group: GroupSlot(0), no: ComponentNo(3) };

    fn owned(epoch: u32, term: u32) -> Ownership {
        Ownership { epoch: Epoch(epoch), term: Epoch(term), period_start: Epoch(1) }
    }
    fn lane(i: u8) -> MirrorLane {
        MirrorLane { volume: VolumeRef(2), mirror: 1, at: AT, lane: Lane::new(i).unwrap() }
    }
    fn seq(term: u32, counter: u64) -> Seq {
        Seq { term: Epoch(term), counter }
    }

    impl Sequencer {
        /// As the lanes do it.
        fn given(&mut self, of: &MirrorLane, owned: Ownership, before: impl FnOnce() -> Seq) -> Option<Order> {
            let given = match self.begin(of, &owned) {
                Given::First => self.begin_first(of, &owned, before()),
                given => given,
            };
            if let Given::Number(order) = given { Some(order) } else { None }
        }
    }

    #[test]
    fn the_mark_stands_before_the_first_that_has_not_ended() {
        let mut orders = Sequencer::default();
        let begin = |orders: &mut Sequencer| orders.given(&lane(5), owned(1, 1), Seq::default).unwrap();
        let begun: Vec<_> = (0..4).map(|_| begin(&mut orders)).collect();
        assert_eq!(begun.iter().map(|o| o.seq).collect::<Vec<_>>(), (1..=4).map(|n| seq(1, n)).collect::<Vec<_>>());
        orders.ended(&lane(5), begun[1].seq);
        orders.ended(&lane(5), begun[2].seq);
        assert_eq!(begin(&mut orders).mark, seq(1, 0));
        orders.ended(&lane(5), begun[0].seq);
        assert_eq!(begin(&mut orders).mark, seq(1, 3));
        let other = orders.given(&MirrorLane { mirror: 0, ..lane(5) }, owned(1, 1), Seq::default).unwrap();
        assert_eq!((other.seq, other.mark), (seq(1, 1), seq(0, 0)), "another mirror has an order of its own");
    }

    #[test]
    fn a_new_term_counts_from_one_and_its_mark_is_of_the_old_one_until_that_has_ended() {
        let mut orders = Sequencer::default();
        let first = orders.given(&lane(0), owned(1, 1), Seq::default).unwrap();
        let second = orders.given(&lane(0), owned(1, 1), Seq::default).unwrap();
        orders.ended(&lane(0), first.seq);
        let third = orders.given(&lane(0), owned(2, 1), Seq::default).unwrap();
        assert_eq!((third.epoch, third.seq), (Epoch(2), seq(1, 3)), "an epoch within a term goes on counting");
        let fourth = orders.given(&lane(0), owned(4, 4), Seq::default).unwrap();
        assert_eq!((fourth.seq, fourth.mark), (seq(4, 1), seq(1, 1)));
        orders.ended(&lane(0), third.seq);
        orders.ended(&lane(0), second.seq);
        let fifth = orders.given(&lane(0), owned(2, 1), Seq::default).unwrap();
        assert_eq!((fifth.epoch, fifth.seq, fifth.mark), (Epoch(4), seq(4, 2), seq(4, 0)), "who sent the part was behind");
    }

    #[test]
    fn the_mark_of_a_new_life_begins_where_the_copies_have_come_to() {
        let mut orders = Sequencer::default();
        let first = orders.given(&lane(5), owned(7, 7), || seq(4, 99)).unwrap();
        assert_eq!((first.seq, first.mark), (seq(7, 1), seq(4, 99)));
        let second = orders.given(&lane(5), owned(7, 7), || seq(7, 1)).unwrap();
        assert_eq!(second.mark, seq(4, 99), "what has not ended is not asked for again");
    }

    #[test]
    fn so_many_are_in_doubt_and_the_next_one_waits_for_the_mark() {
        let mut orders = Sequencer::default();
        let max = hooks::tiny(IN_DOUBT_MAX, 8) as u32;
        let places: Vec<_> = (0..max).map(|_| orders.given(&lane(1), owned(1, 1), Seq::default).unwrap().seq).collect();
        assert_eq!(orders.given(&lane(1), owned(1, 1), Seq::default), None);
        orders.wait(&lane(1), 7777, OpKind::Trim);
        assert!(orders.given(&lane(2), owned(1, 1), Seq::default).is_some(), "another lane goes on");
        assert!(orders.ended(&lane(1), places[0]));
        assert_eq!(orders.next(&lane(1)).map(|(part, _)| part), Some(7777));
        assert!(!orders.ended(&lane(1), places[2]));
        orders.wait(&lane(1), 8888, OpKind::Trim);
        orders.wait(&lane(3), 9999, OpKind::Trim);
        assert_eq!(orders.forget(AT).iter().map(|(part, _)| *part).collect::<Vec<_>>(), [8888, 9999], "nobody else begins them");
        assert!(!orders.ended(&lane(1), places[3]), "of what is gone");
    }

    fn a_mark_that_is_held_stands_until_the_agreement_has_ended() {
        let mut orders = Sequencer::default();
        let old = orders.given(&lane(2), owned(1, 1), Seq::default).unwrap();
        orders.ended(&lane(2), old.seq);
        orders.hold(&lane(2), &owned(5, 5), seq(3, 40));
        let begun: Vec<_> = (0..3).map(|_| orders.given(&lane(2), owned(5, 5), Seq::default).unwrap()).collect();
        assert!(begun.iter().all(|order| order.mark == seq(3, 40)), "{begun:?}");
        orders.ended(&lane(2), begun[0].seq);
        orders.ended(&lane(2), begun[2].seq);
        assert_eq!(orders.given(&lane(2), owned(6, 5), Seq::default).unwrap().mark, seq(3, 40));
        assert!(orders.is_kept_free(&lane(2)) == (hooks::tiny(IN_DOUBT_MAX, 8) == 8));
        orders.let_go(&lane(2));
        let next = orders.given(&lane(2), owned(6, 5), Seq::default).unwrap();
        assert_eq!(next.mark.term, Epoch(5));
        assert!(next.mark.counter + 1 == begun[1].seq.counter, "before the first that has not ended");
        orders.ended(&lane(2), begun[1].seq);
        orders.hold(&lane(2), &owned(9, 9), seq(5, 2));
        orders.hold(&lane(2), &owned(11, 11), seq(9, 1));
        let last = orders.given(&lane(2), owned(11, 11), Seq::default).unwrap();
        assert_eq!((last.seq.term, last.mark), (Epoch(11), seq(9, 1)));
        orders.let_go_all(VolumeRef(2));
        orders.ended(&lane(2), last.seq);
        assert_eq!(orders.given(&lane(2), owned(11, 11), Seq::default).unwrap().mark, seq(9, 1), "changes of old terms are open");
    }

    #[test]
    fn an_agreement_holds_the_mark() {
        a_mark_that_is_held_stands_until_the_agreement_has_ended();
    }

    #[cfg(feature = "hooks")]
    #[test]
    fn seeded_faults_are_noticed() {
        use base::hooks::notices;
        notices(SeededFault::MarkNotHeld, a_mark_that_is_held_stands_until_the_agreement_has_ended);
        notices(SeededFault::EpochOfFirstPart, a_new_term_counts_from_one_and_its_mark_is_of_the_old_one_until_that_has_ended);
    }
}
