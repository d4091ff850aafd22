//! What a shard has accepted of a component's changes: the highest epoch, and how far each lane had come when the shard was opened.
//!
//! Owns: [`Members`], the components of a shard; [`Known`], for a look at many changes in a row.
//! Invariants: an accepted epoch never goes back; within a lane the numbers of changes rise; what a mark says is durable has ended here. The
//! last two are looked at with the feature `hooks` only: whoever orders the changes keeps count of them.
//! Never: decides what a change does.

use crate::ComponentNo;
use crate::shard::op::StoreError;
use base::hooks::{self, SeededFault};
use base::lane::{LANES, Lane};
use base::{BlockNo, Epoch, Order, Seq};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// How far a lane of a component has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LaneProgress {
    /// The newest change that was taken.
    taken: Seq,
    /// The newest change that has ended.
    ended: Seq,
    /// The highest mark that is in the log.
    mark: Seq,
}

/// A component, as a shard knows it.
#[derive(Debug)]
struct Member {
    accepted: Epoch,
    /// The lanes of this shard: every `step`th of all.
    lanes: Box<[LaneProgress]>,
    step: u8,
}

impl Member {
    /// Of a shard of so many, without any change so far.
    fn new(shards: u8) -> Member {
        Member { accepted: Epoch::default(), lanes: vec![LaneProgress::default(); usize::from(LANES / shards)].into(), step: shards }
    }
    /// The newest change of a lane that the log had when the shard was opened.
    fn newest(&self, lane: Lane) -> Seq {
        self.lanes[lane.index() / usize::from(self.step)].ended
    }

    /// Takes a change, unless its epoch is over.
    fn accept(&mut self, lane: Lane, order: &Order) -> bool {
        if order.epoch < self.accepted && !hooks::seeded(SeededFault::OlderEpochTaken) {
            return false;
        }
        hooks::must(|| order.epoch >= self.accepted, "a change of an epoch that is over is taken");
        self.accepted = order.epoch;
        if cfg!(feature = "hooks") {
            let at = &mut self.lanes[lane.index() / usize::from(self.step)];
            hooks::must(|| order.seq > at.taken, "the numbers of a lane's changes go back");
            hooks::must(|| order.mark < order.seq && order.mark >= at.mark, "a mark goes back, or names what comes later");
            hooks::must(|| order.mark <= at.ended || order.mark == Seq { counter: 0, ..order.mark }, "a mark names what has not ended");
            at.taken = order.seq;
        }
        true
    }
    /// A change of the lane has ended, or was found in the log (`logged`).
    fn ended(&mut self, lane: Lane, order: &Order, logged: bool) {
        self.accepted = self.accepted.max(order.epoch);
        let at = &mut self.lanes[lane.index() / usize::from(self.step)];
        at.taken = at.taken.max(order.seq);
        at.ended = at.ended.max(order.seq);
        if logged {
            at.mark = at.mark.max(order.mark);
        }
    }
}

/// The components of a shard.
#[derive(Debug)]
pub(crate) struct Members {
    members: HashMap<u32, Member, FixedState>,
    /// Of the group.
    shards: u8,
}

impl Members {
    /// None yet, of a shard of so many.
    pub fn new(shards: u8) -> Self {
        Self { members: HashMap::with_hasher(FixedState::with_seed(5)), shards }
    }
    #[inline]
    pub fn has(&self, component: ComponentNo) -> bool {
        self.members.contains_key(&component.0)
    }
    /// There is such a component, without any change so far if it is new.
    pub fn add(&mut self, component: ComponentNo) {
        let shards = self.shards;
        self.members.entry(component.0).or_insert_with(|| Member::new(shards));
    }
    /// A component is no more. Whether there was one.
    pub fn remove(&mut self, component: ComponentNo) -> bool {
        self.members.remove(&component.0).is_some()
    }
    /// All of them, in an order that depends on nothing but their history.
    pub fn iter(&self) -> impl Iterator<Item = ComponentNo> + '_ {
        self.members.keys().map(|no| ComponentNo(*no))
    }
    /// The newest change of a lane that the log had when the shard was opened; `None`: there is no such component.
    pub fn newest(&self, component: ComponentNo, lane: Lane) -> Option<Seq> {
        self.members.get(&component.0).map(|member| member.newest(lane))
    }
    /// Takes a change of a component, or says why it cannot be taken.
    #[inline]
    pub fn accept(&mut self, component: ComponentNo, lane: Lane, order: &Order) -> Option<StoreError> {
        let Some(member) = self.members.get_mut(&component.0) else { return Some(StoreError::NoComponent) };
        (!member.accept(lane, order)).then_some(StoreError::StaleEpoch)
    }
    /// A change has ended; `logged`: its record is durable. Kept for what must hold, and by recovery. Whether there is such a component.
    pub fn ended(&mut self, component: ComponentNo, block: BlockNo, order: &Order, logged: bool) -> bool {
        let member = self.members.get_mut(&component.0);
        member.map(|member| member.ended(Lane::of(block), order, logged)).is_some()
    }
}

/// Whether the component of one change after the other is still there. Most often it is the one of the change before.
#[derive(Debug, Default)]
pub(crate) struct Known(Option<(ComponentNo, bool)>);

impl Known {
    #[inline]
    pub fn has(&mut self, component: ComponentNo, look: impl FnOnce() -> bool) -> bool {
        match self.0 {
            Some((of, has)) if of == component => has,
            _ => self.0.insert((component, look())).1,
        }
    }
}
