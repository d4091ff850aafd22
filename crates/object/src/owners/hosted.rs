//! One object at this node: the machine of its owner, and what the node has said of it to the machines of grants.
//!
//! Owns: [`Hosted`].
//! Invariants: the counter owns what the machine fences or serves, before it has fenced anything; the granter is blocked as long as the
//! machine says so.
//! Never: decides on a change of the record.

use super::action::{Action, Grants};
use super::balance::Balance;
use super::limits::{FAILED, FAILED_MAX, JOINS, REST};
use crate::owner::{Command, Event, Fenced, ObjectOwner, OwnerState};
use base::hooks::{self, SeededFault};
use base::{ComponentId, CopyState, Epoch, Instant, NodeId, ObjectId, OwnershipRecord, ResyncPace};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What all cores have to say, each for itself.
#[derive(Debug, Default)]
struct Heard {
    of: Option<(Option<ComponentId>, u32)>,
    cores: BTreeSet<u16>,
}

impl Heard {
    /// A core has said it. Whether it was the last one.
    fn hears(&mut self, of: (Option<ComponentId>, u32), core: u16, cores: u16) -> bool {
        if self.of != Some(of) {
            (self.of, self.cores) = (Some(of), BTreeSet::new());
        }
        self.cores.insert(core) && self.cores.len() == usize::from(cores)
    }
}

/// A copy that has failed though its node answers.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// It does not come back before.
    until: Instant,
    times: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hosted {
    pub owner: ObjectOwner,
    /// The term and the epoch that the counter has.
    counted: Option<(Epoch, Epoch)>,
    blocked: bool,
    /// When its turn comes to take over.
    pub turn: Option<Instant>,
    /// Since when changes wait for a copy to leave.
    pub evicts: Option<Instant>,
    /// Since when it owns the object by the record, and does not serve it.
    pub away: Option<Instant>,
    /// The control plane has heard of that.
    pub said_away: bool,
    /// It takes nothing over of itself before.
    pub rests: Instant,
    /// Copies that have failed, and come back only after a while.
    failed: BTreeMap<ComponentId, Failure>,
    /// Copies that take much longer for changes than others, as these cores say.
    slow: BTreeMap<ComponentId, BTreeSet<u16>>,
    /// They are to leave.
    pub slow_leave: bool,
    /// How fast copies that come back get what they miss.
    pub resync_pace: ResyncPace,
    /// The copy that was asked to come back and has not answered, and since when.
    invited: Option<(ComponentId, Instant)>,
    /// The copy that was asked to come back.
    pub returning: Option<ComponentId>,
    /// The node that is to own it whenever it can.
    pub preferred: Option<NodeId>,
    /// Where it goes of itself.
    pub balance: Balance,
    /// The machine has heard that it is to go there.
    hands_over: bool,
    /// Since when it drains.
    pub leaves: Option<Instant>,
    /// It is not handed over before: it has not drained in time.
    pub stays: Instant,
    /// What copies have answered in this term, before it is served.
    fenced: BTreeMap<ComponentId, Epoch>,
    /// Commands to drain so far, of all terms: the machine counts those of one.
    drains: u32,
    /// The last one, as the cores and as the machine know it.
    draining: Option<(u32, u32)>,
    drained: Heard,
    joined: Heard,
    /// Copies of its record.
    pub components: Vec<ComponentId>,
}

impl Hosted {
    pub fn new(owner: ObjectOwner) -> Self {
        Self {
            owner,
            counted: None,
            blocked: false,
            turn: None,
            evicts: None,
            away: None,
            said_away: false,
            rests: Instant(0),
            failed: BTreeMap::new(),
            slow: BTreeMap::new(),
            slow_leave: false,
            resync_pace: ResyncPace::Normal,
            invited: None,
            returning: None,
            preferred: None,
            balance: Balance::default(),
            hands_over: false,
            leaves: None,
            stays: Instant(0),
            fenced: BTreeMap::new(),
            drains: 0,
            draining: None,
            drained: Heard::default(),
            joined: Heard::default(),
            components: Vec::new(),
        }
    }
    /// Whether it owns the object, or is about to.
    pub const fn is_busy(&self) -> bool {
        !matches!(self.owner.state(), OwnerState::Holder)
    }
    /// The record that it goes by as the owner.
    pub fn owned(&self) -> Option<&OwnershipRecord> {
        matches!(self.owner.state(), OwnerState::Fencing | OwnerState::Serving).then(|| self.owner.record()).flatten()
    }
    /// Whether an answer to Fence is one of a copy of that node, and says something new.
    pub fn hears(&mut self, from: NodeId, fenced: &Fenced) -> bool {
        let Some(record) = self.owned() else { return false };
        let its = record.copy(fenced.from).is_some_and(|copy| copy.node == from) || hooks::seeded(SeededFault::FencedByAnyone);
        if !its || fenced.epoch > record.epoch() {
            return false;
        }
        if self.owner.state() == OwnerState::Serving {
            return true;
        }
        // What is in doubt is united: a copy is heard once in each epoch.
        let before = self.fenced.insert(fenced.from, fenced.epoch);
        before.is_none_or(|before| before < fenced.epoch)
    }
    /// The cores are to drain: by a number that none of another term has.
    pub fn drains(&mut self, number: u32) -> Command {
        self.drains = self.drains.wrapping_add(1);
        self.draining = Some((self.drains, number));
        Command::Drain(self.drains)
    }
    /// What the cores say, each for itself, is said when the last one has.
    pub fn joins(&mut self, event: Event, core: u16, cores: u16, now: Instant) -> Option<Event> {
        match event {
            Event::Drained(said) => {
                let (_, number) = self.draining.filter(|(asked, _)| *asked == said)?;
                self.drained.hears((None, said), core, cores).then_some(Event::Drained(number))
            }
            Event::JoinDrained { copy, invited } => self.joined.hears((Some(copy), invited.0), core, cores).then_some(event),
            // Once, however many of its requests say so, and when the others have gone on without it.
            Event::CopyFails(copy) => self.is_news(copy).then(|| {
                self.fails(copy, now);
                event
            }),
            Event::CopyWorks(copy) => {
                self.failed.remove(&copy);
                Some(event)
            }
            Event::CopyPace { copy, slow } => self.paces(copy, slow, core, now).then_some(Event::CopyFails(copy)),
            event => Some(event),
        }
    }
    /// A core says that a copy is slow, or not any more. Whether it is to leave.
    fn paces(&mut self, copy: ComponentId, slow: bool, core: u16, now: Instant) -> bool {
        if !slow {
            if let Some(cores) = self.slow.get_mut(&copy) {
                cores.remove(&core);
            }
            self.slow.retain(|_, cores| !cores.is_empty());
            return false;
        }
        let others = self.owned().is_some_and(|r| r.copy(copy).is_some_and(|c| r.active_of(c.mirror).any(|o| o.component != copy)));
        if self.slow_leave && others {
            self.fails(copy, now);
            return true;
        }
        self.slow.entry(copy).or_default().insert(core);
        false
    }
    /// The copies that take much longer for changes than the others, of an object that this node serves.
    pub fn slow(&self) -> impl Iterator<Item = ComponentId> {
        self.slow.keys().copied()
    }
    /// The copies that fail though their nodes answer, and have not come back since.
    pub fn failed(&self) -> impl Iterator<Item = ComponentId> {
        let out = |c: &ComponentId| self.owned().is_some_and(|r| r.copy(*c).is_some_and(|c| c.state != CopyState::Active));
        self.failed.keys().copied().filter(move |copy| out(copy))
    }
    /// The node with an active copy that it is to go to now. `ends`: this node does, so wherever it is preferred.
    pub fn goes_to(&self, ends: bool, now: Instant) -> Option<NodeId> {
        let record = self.owned().filter(|_| self.owner.state() == OwnerState::Serving && self.stays <= now)?;
        let can = |to: &NodeId| record.owner.node != *to && record.active().any(|c| c.node == *to);
        self.preferred.filter(|_| !ends).or(self.balance.goes).filter(can)
    }
    /// Where it is to go, if the machine has not heard that; `again`: though it has.
    pub fn hands_over(&mut self, to: Option<NodeId>, again: bool) -> Option<NodeId> {
        let heard = core::mem::replace(&mut self.hands_over, to.is_some());
        to.filter(|_| again || !heard)
    }
    /// Whether this node serves it and could do so with a copy on a node that goes on.
    pub fn goes_on_without(&self, me: NodeId, ending: &BTreeSet<NodeId>) -> bool {
        self.owned().is_some_and(|record| record.active().any(|c| c.node != me && !ending.contains(&c.node)))
    }
    fn fails(&mut self, copy: ComponentId, now: Instant) {
        let failure = self.failed.entry(copy).or_insert(Failure { until: now, times: 0 });
        if now.since(failure.until) >= FAILED_MAX {
            failure.times = 0;
        }
        failure.until = now + (FAILED * (1 << failure.times.min(16))).min(FAILED_MAX);
        failure.times += 1;
    }
    /// A copy of a node cannot accept an epoch. Whether that is of this term, and news.
    pub fn cannot_accept(&mut self, from: NodeId, component: ComponentId, epoch: Epoch, now: Instant) -> bool {
        let Some(record) = self.owned() else { return false };
        let its = record.copy(component).is_some_and(|copy| copy.node == from);
        let news = its && (record.ownership.term..=record.epoch()).contains(&epoch) && self.is_news(component);
        if news {
            self.fails(component, now);
        }
        news
    }
    /// Whether a copy gets changes, and is not to leave anyhow.
    fn is_news(&self, copy: ComponentId) -> bool {
        let gets = |record: &OwnershipRecord| record.copy(copy).is_some_and(|copy| copy.state.gets_changes());
        self.owned().is_some_and(gets) && !self.owner.does_without(copy)
    }
    /// A node has begun anew: its copies may work again.
    pub fn restarted(&mut self, node: NodeId) {
        let record = self.owner.record();
        self.failed.retain(|copy, _| record.and_then(|record| record.copy(*copy)).is_some_and(|copy| copy.node != node));
    }
    /// The copy that was asked to come back so long ago that it fails.
    pub fn never_joined(&mut self, now: Instant) -> Option<ComponentId> {
        let invited = self.owner.invited();
        let before = self.invited.filter(|(copy, _)| Some(*copy) == invited);
        self.invited = before.or(invited.map(|copy| (copy, now)));
        let (copy, _) = self.invited.filter(|(_, since)| now.since(*since) >= JOINS)?;
        self.invited = None;
        self.fails(copy, now);
        Some(copy)
    }
    /// The copy that is to come back next, of those whose node is reached.
    pub fn comes_back(&self, now: Instant, is_up: impl Fn(NodeId) -> bool) -> Option<ComponentId> {
        if self.owner.state() != OwnerState::Serving || self.owner.resync().is_some() {
            return None;
        }
        let mut copies = self.owned()?.copies.iter();
        let out = |state| matches!(state, CopyState::Absent | CopyState::Stale);
        let rests = |c: &ComponentId| self.failed.get(c).is_some_and(|failure| now < failure.until);
        copies.find(|c| out(c.state) && !rests(&c.component) && is_up(c.node)).map(|c| c.component)
    }

    /// Whether the control plane has changed the copies of what the node owned, and owns still: it was not to stop for good.
    fn has_new_copies(&self, me: NodeId) -> bool {
        let Some(record) = self.owner.record().filter(|record| record.owner.node == me) else { return false };
        !record.copies.iter().map(|c| &c.component).eq(&self.components)
    }

    /// The machines of grants hear what has become of the object, before anything goes out that depends on it.
    pub fn settle(&mut self, g: &mut Grants<'_>, me: NodeId, object: ObjectId, out: &mut Vec<Command>, actions: &mut VecDeque<Action>) {
        let now = self.owned().map(|record| (record.ownership.term, record.epoch()));
        if let Some((term, _)) = self.counted
            && now.is_none_or(|(now, _)| now != term)
        {
            g.counter.disown(object);
            actions.push_back(Action::Cell { object, cell: None });
            self.counted = None;
            self.slow.clear();
            // Whose copies were changed goes on with those at once.
            self.rests = if self.has_new_copies(me) { g.now } else { g.now + REST };
        }
        let early = hooks::seeded(SeededFault::FencedBeforeOwned) && self.owner.state() == OwnerState::Fencing;
        if let (Some((term, epoch)), false) = (now, early) {
            self.owns(g, me, object, term, epoch, actions);
        }
        if !self.slow.is_empty() {
            let active: BTreeSet<ComponentId> = self.owned().into_iter().flat_map(OwnershipRecord::active).map(|c| c.component).collect();
            self.slow.retain(|copy, _| active.contains(copy));
        }
        let blocks = !self.owner.may_grant() && !hooks::seeded(SeededFault::BlockForgotten);
        if core::mem::replace(&mut self.blocked, blocks) != blocks {
            g.granter.block(object, blocks);
        }
        if hooks::seeded(SeededFault::ChangeBeforeNeeds) && out.iter().any(|c| matches!(c, Command::Change { .. })) {
            out.retain(|command| !matches!(command, Command::GrantsOf(_)));
        }
        out.retain(|command| match command {
            Command::GrantsOf(nodes) => {
                g.counter.needs(object, nodes, g.now);
                false
            }
            _ => true,
        });
        if self.owner.state() == OwnerState::Holder {
            // It has given the object up in the same step: nobody waits for an answer.
            out.retain(|command| !matches!(command, Command::Fence { .. }));
        } else {
            self.turn = None;
        }
        if self.owner.state() != OwnerState::Serving {
            self.returning = None;
        }
    }
    fn owns(&mut self, g: &mut Grants<'_>, me: NodeId, object: ObjectId, term: Epoch, epoch: Epoch, actions: &mut VecDeque<Action>) {
        match self.counted {
            None => {
                let record = self.owned().expect("it owns the object");
                let nodes: BTreeSet<NodeId> = record.active().map(|c| c.node).filter(|node| *node != me).collect();
                let nodes: Vec<NodeId> = nodes.into_iter().collect();
                let cell = g.counter.own(object, epoch, &nodes, g.now);
                actions.push_back(Action::Cell { object, cell });
                self.fenced.clear();
            }
            Some((_, before)) if before != epoch => g.counter.raise(object, epoch),
            Some(_) => {}
        }
        self.counted = Some((term, epoch));
    }
    /// The object is not here any more.
    pub fn ends(&mut self, g: &mut Grants<'_>, object: ObjectId, actions: &mut VecDeque<Action>) {
        if self.counted.take().is_some() {
            g.counter.disown(object);
            actions.push_back(Action::Cell { object, cell: None });
            actions.push_back(Action::Plane { object, command: Command::Stop });
        }
        if core::mem::take(&mut self.blocked) {
            g.granter.block(object, false);
        }
    }
}
