//! What a shard has accepted of a component's changes: the highest epoch, and how far each lane had come when the shard was opened.
//!
//! Owns: [`Members`], the components of a shard, and what those keep that are one copy of several; [`Known`], for a look at many changes in a row.
//! Invariants: an accepted epoch never goes back; within a lane the numbers of changes rise; what a mark says is durable has ended here. The
//! last two are looked at with the feature `hooks` only: whoever orders the changes keeps count of them.
//! Never: decides what a change does.

use crate::ComponentNo;
use crate::replica::{Refusal, Replica};
use crate::shard::op::StoreError;
use base::hooks::{self, SeededFault};
use base::lane::{LANES, Lane};
use base::{BlockNo, BlockRange, Epoch, Order, Seq};
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

/// What [`Member::accepted`] is where a [`Replica`] has the word: above every epoch that there is.
const ASK_REPLICA: Epoch = Epoch(u32::MAX);

/// A component, as a shard knows it.
#[derive(Debug)]
struct Member {
    accepted: Epoch,
    /// Of one copy of several: what it knows of its state. Nobody looks here for a component without others.
    replica: Option<Box<Replica>>,
    /// The lanes of this shard: every `step`th of all.
    lanes: Box<[LaneProgress]>,
    step: u8,
}

impl Member {
    /// Of a shard of so many, without any change so far.
    fn new(shards: u8) -> Member {
        Member {
            accepted: Epoch::default(),
            replica: None,
            lanes: vec![LaneProgress::default(); usize::from(LANES / shards)].into(),
            step: shards,
        }
    }
    /// The newest change of a lane that the log had when the shard was opened.
    fn newest(&self, lane: Lane) -> Seq {
        self.lanes[lane.index() / usize::from(self.step)].ended
    }

    /// Takes a change, unless its epoch is over, or a copy has to be asked.
    fn accept(&mut self, lane: Lane, order: &Order) -> bool {
        if order.epoch < self.accepted && (self.replica.is_some() || !hooks::seeded(SeededFault::OlderEpochTaken)) {
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
    /// Changes of copies, and notes of them, that are on their way into the log.
    open: usize,
    /// Changes of copies that are above a mark, and how many there may be.
    in_doubt: usize,
    in_doubt_max: usize,
    /// Components that are copies of several.
    replicas: usize,
}

impl Members {
    /// None yet, of a shard of so many, whose log has room for the notes of so many changes in doubt.
    pub fn new(shards: u8, in_doubt_max: usize) -> Self {
        Self { members: HashMap::with_hasher(FixedState::with_seed(5)), shards, open: 0, in_doubt: 0, in_doubt_max, replicas: 0 }
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
        let removed = self.members.remove(&component.0);
        if let Some(replica) = removed.as_ref().and_then(|member| member.replica.as_ref()) {
            self.in_doubt -= replica.open();
            self.open -= replica.under_way();
            self.replicas -= 1;
        }
        removed.is_some()
    }
    /// All of them, in an order that depends on nothing but their history.
    pub fn iter(&self) -> impl Iterator<Item = ComponentNo> + '_ {
        self.members.keys().map(|no| ComponentNo(*no))
    }
    /// The newest change of a lane that the log had when the shard was opened; `None`: there is no such component.
    pub fn newest(&self, component: ComponentNo, lane: Lane) -> Option<Seq> {
        self.members.get(&component.0).map(|member| member.newest(lane))
    }
    /// Takes a change of a component, or says why it is not carried out.
    #[inline]
    pub fn accept(&mut self, component: ComponentNo, order: &Order, block: BlockNo, blocks: u32) -> Option<Refusal> {
        let Some(member) = self.members.get_mut(&component.0) else { return Some(Refusal::Error(StoreError::NoComponent)) };
        if member.accept(Lane::of(block), order) { None } else { self.ask_replica(component, order, block, blocks) }
    }
    /// The same of a copy; of any other component, the epoch is over.
    #[cold]
    #[inline(never)]
    fn ask_replica(&mut self, component: ComponentNo, order: &Order, block: BlockNo, blocks: u32) -> Option<Refusal> {
        let room = self.in_doubt_max.saturating_sub(self.in_doubt);
        let judged = self.with_replica(component, |replica| replica.judge(order, block, blocks, room));
        judged.unwrap_or(Some(Refusal::Error(StoreError::StaleEpoch)))
    }
    /// A change has ended; `logged`: its record is durable. Kept for what must hold, and by recovery. Whether there is such a component.
    pub fn ended(&mut self, component: ComponentNo, block: BlockNo, order: &Order, logged: bool) -> bool {
        let member = self.members.get_mut(&component.0);
        member.map(|member| member.ended(Lane::of(block), order, logged)).is_some()
    }

    // ---- copies -----------------------------------------------------------------------------------------------------

    /// Whether a change of a copy, or a note of one, is on its way into the log.
    #[inline]
    pub fn has_open(&self) -> bool {
        self.open > 0
    }
    /// Whether there is a copy.
    #[inline]
    pub fn has_replicas(&self) -> bool {
        self.replicas > 0
    }
    /// So many notes set out, or have arrived.
    pub fn notes_set_out(&mut self, out: bool) {
        self.open = if out { self.open + 1 } else { self.open - 1 };
    }
    /// What a component keeps as one copy of several, if it is that.
    pub fn replica(&self, component: ComponentNo) -> Option<&Replica> {
        self.members.get(&component.0)?.replica.as_deref()
    }
    /// The highest epoch that was taken, with a change or as a copy; `None`: there is no such component.
    pub fn accepted(&self, component: ComponentNo) -> Option<Epoch> {
        let member = self.members.get(&component.0)?;
        Some(member.replica.as_deref().map_or(member.accepted, |replica| replica.view().accepted))
    }
    /// All of them, in the order of their numbers.
    pub fn replicas(&self) -> Vec<(ComponentNo, &Replica)> {
        let all = self.members.iter().filter_map(|(no, member)| Some((ComponentNo(*no), member.replica.as_deref()?)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(no, _)| *no);
        all
    }
    /// Something becomes of a copy. Nothing, if there is none.
    pub fn with_replica<T>(&mut self, component: ComponentNo, f: impl FnOnce(&mut Replica) -> T) -> Option<T> {
        let replica = self.members.get_mut(&component.0)?.replica.as_deref_mut()?;
        let (open, under_way) = (replica.open(), replica.under_way());
        let out = f(replica);
        self.in_doubt = self.in_doubt + replica.open() - open;
        self.open = self.open + replica.under_way() - under_way;
        Some(out)
    }
    /// From now on the component is one copy of several, if it was not.
    pub fn becomes_replica(&mut self, component: ComponentNo) {
        let shards = self.shards;
        let Some(member) = self.members.get_mut(&component.0).filter(|member| member.replica.is_none()) else { return };
        let accepted = core::mem::replace(&mut member.accepted, ASK_REPLICA);
        member.replica = Some(Box::new(Replica::new(accepted, shards)));
        self.replicas += 1;
    }
    /// A change of a copy is durable in this segment (or was found there), or has failed. Nothing, of any other component.
    pub fn of_copy_ended(&mut self, component: ComponentNo, order: &Order, range: BlockRange, logged: Option<u64>) {
        self.with_replica(component, |replica| match logged {
            Some(segment) => replica.is_durable(order, range, segment),
            None => replica.failed(order, range.first),
        });
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
