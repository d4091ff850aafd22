//! What a shard has accepted of a component's changes: the highest epoch, and how far each lane has come.
//!
//! Owns: [`Member`].
//! Invariants: an accepted epoch never goes back; within a lane the numbers of changes rise; what a mark says is durable has ended here.
//! Never: decides what a change does.

use base::hooks::{self, SeededFault};
use base::lane::{LANES, Lane};
use base::{Epoch, Order, Seq};

/// How far a lane of a component has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneProgress {
    /// The newest change that was taken.
    pub taken: Seq,
    /// The newest change that has ended.
    pub ended: Seq,
    /// The highest mark that is in the log.
    pub mark: Seq,
}

/// A component, as a shard knows it.
#[derive(Debug)]
pub(crate) struct Member {
    accepted: Epoch,
    /// The lanes of this shard: every `step`th of all.
    lanes: Box<[LaneProgress]>,
    step: u8,
}

impl Member {
    /// Of a shard of so many, without any change so far.
    pub fn new(shards: u8) -> Member {
        Member { accepted: Epoch::default(), lanes: vec![LaneProgress::default(); usize::from(LANES / shards)].into(), step: shards }
    }
    /// How far a lane has come.
    pub fn lane(&self, lane: Lane) -> LaneProgress {
        self.lanes[lane.index() / usize::from(self.step)]
    }

    /// Takes a change, unless its epoch is over.
    pub fn accept(&mut self, lane: Lane, order: &Order) -> bool {
        if order.epoch < self.accepted && !hooks::seeded(SeededFault::OlderEpochTaken) {
            return false;
        }
        hooks::must(|| order.epoch >= self.accepted, "a change of an epoch that is over is taken");
        self.accepted = self.accepted.max(order.epoch);
        let at = &mut self.lanes[lane.index() / usize::from(self.step)];
        hooks::must(|| order.seq > at.taken, "the numbers of a lane's changes go back");
        hooks::must(|| order.mark < order.seq && order.mark >= at.mark, "a mark goes back, or names what comes later");
        hooks::must(|| order.mark <= at.ended || order.mark.counter == 0, "a mark names what has not ended");
        at.taken = order.seq;
        true
    }
    /// A change of the lane has ended, or was found in the log.
    pub fn ended(&mut self, lane: Lane, order: &Order, logged: bool) {
        self.accepted = self.accepted.max(order.epoch);
        let at = &mut self.lanes[lane.index() / usize::from(self.step)];
        at.taken = at.taken.max(order.seq);
        at.ended = at.ended.max(order.seq);
        if logged {
            at.mark = at.mark.max(order.mark);
        }
    }
}
