//! The host of the owners' machines on one node: it has one ([`ObjectOwner`]) for each object of which the node is the owner or has a
//! copy, brings them what happens, and carries what they want to the directory, the links, the copies and the cores.
//!
//! ```text
//!  records, outcomes ──►┐                    ┌──► Read, Change: of many objects at once (`queue`)
//!  links: Reach, Fence ─►│ Owners            ├──► Fence, Fenced, Release: to nodes
//!  own copies: accepted ►│  ObjectOwner, ... ├──► Accept: to copies of this node (`fences`)
//!  cores: CopyFails, .. ►┘   │               └──► Cell, Plane: to all cores
//!                            └─ Counter, Granter: called in the order that they want (`hosted`)
//! ```
//!
//! A machine without I/O or clock. It stands beside `owner` and `grant`, whose contracts with each other it keeps, and below `peers` and
//! `dataplane`, which carry its actions out: it needs nothing of them. No core of the data path calls it.
//!
//! Owns: [`Owners`].
//! Invariants: an object is counted before it is fenced, and not any more before a copy of this node accepts another owner's epoch or the object
//! is released; what is kept of an object goes with it; every queue has a limit (`limits`).
//! Never: makes an epoch durable, reads a clock.

mod action;
mod balance;
mod door;
mod fences;
mod hosted;
mod limits;
mod looks;
mod queue;

#[cfg(test)]
mod tests;

pub use action::{Action, Change, ChangeOutcome, Found, Grants, NotAccepted};
pub use balance::{Balancing, Requests, Why};
pub use door::{ControlDoor, ControlEvent};
pub use limits::{CHANGES_MAX, HOSTED_MAX, READS_MAX, RESYNCS_MAX};

use crate::grant::{CLAIMS_MAX, Verdict};
use crate::owner::{Command, CopyRef, Event, Fenced, ObjectOwner, Outcome, OwnerState, PACE, Reach, Revision};
use action::CopyKey;
use base::hooks::{self, SeededFault};
use base::{ComponentId, Epoch, Incarnation, Instant, NodeId, Nonce, ObjectId, OwnerId, OwnershipRecord, ResyncPace};
use fences::{Asked, Fences, NEVER};
use format::peer::{BadBlock, CopyFails, Fence, Load, Release};
use hosted::Hosted;
use limits::{ACCEPT_AGAIN, EARLY, LETS_GO, TURN};
use queue::{Batch, DirectoryQueue};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// See the module.
#[derive(Debug)]
pub struct Owners {
    me: OwnerId,
    cores: u16,
    /// Of the next machine.
    nonce: Nonce,
    objects: BTreeMap<ObjectId, Hosted>,
    /// Of which object a copy is, as records say.
    of: BTreeMap<ComponentId, ObjectId>,
    reach: BTreeMap<NodeId, Reach>,
    /// The latest lives that were seen.
    lives: BTreeMap<NodeId, Incarnation>,
    queue: DirectoryQueue,
    fences: Fences,
    actions: VecDeque<Action>,
    /// When all objects are looked at.
    looks: Instant,
    balancing: Balancing,
    /// When it is counted what hosts ask.
    counts: Instant,
    /// No object goes for the load before.
    spreads: Instant,
    /// What other nodes have to do.
    loads: BTreeMap<NodeId, u64>,
    /// This node is about to end: what can goes to others.
    ends: bool,
    /// Other nodes that are about to end, or have ended: nothing goes there.
    ending: BTreeSet<NodeId>,
    /// Objects that this node owns or takes over.
    busy: usize,
}

impl Owners {
    /// On a node of so many cores, in this life. `nonce`: random.
    pub fn new(me: OwnerId, cores: u16, nonce: Nonce) -> Self {
        Self {
            me,
            cores,
            nonce,
            objects: BTreeMap::new(),
            of: BTreeMap::new(),
            reach: BTreeMap::new(),
            lives: BTreeMap::new(),
            queue: DirectoryQueue::default(),
            fences: Fences::default(),
            actions: VecDeque::new(),
            looks: Instant(0),
            balancing: Balancing::default(),
            counts: Instant(0),
            spreads: Instant(0),
            loads: BTreeMap::new(),
            ends: false,
            ending: BTreeSet::new(),
            busy: 0,
        }
    }
    /// What this node is for an object; `None`: nothing.
    pub fn state(&self, object: ObjectId) -> Option<OwnerState> {
        self.objects.get(&object).map(|hosted| hosted.owner.state())
    }
    /// The copy of an object that this node brings back into sync.
    pub fn resyncs(&self, object: ObjectId) -> Option<ComponentId> {
        self.objects.get(&object)?.owner.resync().map(|(copy, _)| copy.component)
    }
    /// The copies that this node brings back into sync, each with the first chunk that is not known to be complete; `None`: all are.
    pub fn resyncing(&self) -> impl Iterator<Item = (ComponentId, Option<u64>)> {
        self.objects.values().filter_map(|hosted| hosted.owner.resync()).map(|(copy, chunk)| (copy.component, chunk))
    }
    /// Copies that take much longer for changes than the others of their mirrors, of objects that this node serves.
    pub fn slow_copies(&self) -> impl Iterator<Item = ComponentId> {
        self.objects.values().flat_map(Hosted::slow)
    }
    /// Copies that are out because they fail or are slow, though their nodes answer, of objects that this node serves.
    pub fn failed_copies(&self) -> impl Iterator<Item = ComponentId> {
        self.objects.values().flat_map(Hosted::failed)
    }
    /// The record that this node goes by.
    pub fn record_of(&self, object: ObjectId) -> Option<&OwnershipRecord> {
        self.objects.get(&object)?.owner.record()
    }

    // ---- what is to be done -----------------------------------------------------------------------------------------

    /// The next thing to do; after each call of the others, until there is none.
    ///
    /// Actions hold in this order: `Cell` and `Plane` are done when all cores have done them, `Fence`, `Fenced`, `Release`, `Accept` and
    /// `Change` go out when all before them were done. Each `Read`, `Change` and `Accept` is answered once, whatever happens. A message to a node
    /// without a link is lost.
    pub fn pop(&mut self, now: Instant) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.queue.next(now))
    }
    /// When [`Self::poll`] has something to do, at the latest.
    pub fn deadline(&self, now: Instant) -> Instant {
        let turn = self.objects.values().filter_map(|hosted| hosted.turn).min();
        let lets_go = self.objects.values().filter_map(|hosted| hosted.evicts).min().map(|since| since + LETS_GO);
        let leaves = self.objects.values().filter_map(|hosted| hosted.leaves).min().map(|since| since + limits::DRAINS);
        let away = self.objects.values().filter(|hosted| !hosted.said_away).filter_map(|hosted| hosted.away).min();
        [turn, lets_go, leaves, away.map(|since| since + limits::AWAY), self.fences.deadline(), self.queue.deadline(now)]
            .into_iter()
            .flatten()
            .fold(self.looks.min(self.counts), Instant::min)
    }
    /// Does what is due.
    pub fn poll(&mut self, g: &mut Grants<'_>) {
        self.ask_due(g);
        let turns = self.objects.iter().filter(|(_, hosted)| hosted.turn.is_some_and(|at| at <= g.now)).map(|(object, _)| *object);
        for object in turns.collect::<Vec<_>>() {
            let Some(hosted) = self.objects.get_mut(&object) else { continue };
            // With as many as it can own it lets others go first.
            hosted.turn = (self.busy >= CLAIMS_MAX).then_some(g.now + limits::LOOK);
            if hosted.turn.is_none() {
                self.step(g, object, Event::Turn);
            }
        }
        let stuck = self.objects.iter().filter(|(_, hosted)| hosted.evicts.is_some_and(|since| since + LETS_GO <= g.now));
        for object in stuck.map(|(object, _)| *object).collect::<Vec<_>>() {
            self.step(g, object, Event::LetsGo);
        }
        self.stay(g);
        if !hooks::seeded(SeededFault::AwayUnsaid) {
            for (object, hosted) in &mut self.objects {
                if !hosted.said_away && hosted.away.is_some_and(|since| since + limits::AWAY <= g.now) {
                    hosted.said_away = true;
                    self.actions.push_back(Action::Away { object: *object, away: true });
                }
            }
        }
        if self.counts <= g.now {
            self.counts = g.now + self.balancing.time(limits::COUNT);
            if self.balancing != Balancing::Off {
                self.actions.push_back(Action::Count);
            }
        }
        if self.looks <= g.now {
            self.looks = g.now + limits::LOOK;
            self.look(g);
        }
    }

    // ---- the directory ----------------------------------------------------------------------------------------------

    /// What a watch, or a snapshot, says of a record. False: the node has machines of as many objects as it may.
    pub fn record(&mut self, g: &mut Grants<'_>, object: ObjectId, revision: Revision, record: OwnershipRecord) -> bool {
        self.takes_record(g, object, revision, record, false)
    }
    fn takes_record(&mut self, g: &mut Grants<'_>, object: ObjectId, revision: Revision, record: OwnershipRecord, read: bool) -> bool {
        let me = self.me.node;
        let concerns = record.owner.node == me || record.copies.iter().any(|c| c.node == me);
        let is_new = !self.objects.contains_key(&object);
        if is_new && !concerns {
            return true;
        }
        if is_new {
            if self.objects.len() >= HOSTED_MAX {
                return false;
            }
            self.nonce = Nonce(self.nonce.0.wrapping_add(1 << 64));
            self.objects.insert(object, Hosted::new(ObjectOwner::new(self.me, self.nonce)));
        }
        let was_restored = self.restored(object).is_some();
        self.step(g, object, Event::Record { revision, record, read });
        if was_restored && self.restored(object).is_none() {
            self.fences.stirs(|(of, _)| *of == object, g.now);
            self.ask_due(g);
        }
        if is_new {
            self.says_reach(g, object);
        }
        self.names_copies(object);
        // It may own the object without any copy here.
        let hosted = &self.objects[&object];
        let has_any = |record: &OwnershipRecord| record.owner.node == me || record.copies.iter().any(|c| c.node == me);
        if !hosted.is_busy() && !hosted.owner.record().is_some_and(has_any) {
            self.forget(g, object);
            return true;
        }
        // What it has just asked for says nothing that it would ask for again at once: where it cannot take over, it looks now and then.
        if !read {
            self.look_at(g, object);
        }
        true
    }
    /// The record of an object that came back with a backup, as long as it is not known which copies are right.
    fn restored(&self, object: ObjectId) -> Option<&OwnershipRecord> {
        self.record_of(object).filter(|record| record.restored)
    }
    /// A new machine hears of all nodes: first of those that are up, so it knows who else may take over.
    fn says_reach(&mut self, g: &mut Grants<'_>, object: ObjectId) {
        let (up, silent): (Vec<_>, Vec<_>) = self.reach.iter().map(|(n, r)| (*n, *r)).partition(|(_, reach)| *reach == Reach::Up);
        for (node, reach) in up.into_iter().chain(silent) {
            self.step(g, object, Event::Node { node, reach });
        }
    }
    /// Of which object the copies of its record are.
    fn names_copies(&mut self, object: ObjectId) {
        let Some(hosted) = self.objects.get_mut(&object) else { return };
        let Some(record) = hosted.owner.record() else { return };
        if record.copies.len() == hosted.components.len() && record.copies.iter().zip(&hosted.components).all(|(c, k)| c.component == *k) {
            return;
        }
        let new: Vec<ComponentId> = record.copies.iter().map(|c| c.component).collect();
        for old in core::mem::replace(&mut hosted.components, new.clone()) {
            self.of.remove(&old);
        }
        self.of.extend(new.into_iter().map(|component| (component, object)));
    }
    /// The object is gone from the directory.
    pub fn removed(&mut self, g: &mut Grants<'_>, object: ObjectId) {
        if !hooks::seeded(SeededFault::RemovedObjectKept) {
            self.forget(g, object);
        }
    }
    fn forget(&mut self, g: &mut Grants<'_>, object: ObjectId) {
        if let Some(mut hosted) = self.objects.remove(&object) {
            self.busy -= usize::from(hosted.is_busy());
            hosted.ends(g, object, &mut self.actions);
            if hosted.said_away {
                self.actions.push_back(Action::Away { object, away: false });
            }
            for component in hosted.components {
                self.of.remove(&component);
            }
        }
        self.queue.forget(object);
        self.fences.forget(object);
    }

    /// The answer to [`Action::Read`]: records and their revisions, or `None` for one that is not there; `None` of all: they could not be
    /// read.
    pub fn read(&mut self, g: &mut Grants<'_>, request: u64, records: Option<Vec<(ObjectId, Found)>>) {
        let Some(Batch::Reads(objects)) = self.queue.answered(request) else { return };
        let Some(records) = records else {
            self.queue.reads_again(objects, request);
            return self.queue.backs_off(g.now);
        };
        for (object, found) in records {
            let read = self.queue.is_fresh(object, request);
            match found {
                Some((revision, record)) => {
                    self.takes_record(g, object, revision, record, read);
                }
                None => self.removed(g, object),
            }
        }
    }
    /// The answer to [`Action::Change`].
    pub fn changed(&mut self, g: &mut Grants<'_>, request: u64, outcome: ChangeOutcome) {
        let Some(Batch::Changes(changes)) = self.queue.answered(request) else { return };
        let outcome = match outcome {
            ChangeOutcome::Lost if hooks::seeded(SeededFault::LostBatchMade) => ChangeOutcome::Made(Revision(u64::MAX / 2)),
            outcome => outcome,
        };
        let of_each = match outcome {
            ChangeOutcome::Made(revision) => Outcome::Made(revision),
            ChangeOutcome::Refused(by) => {
                // Whoever was in the way of the others goes without them, until it gets through.
                if let Some(by) = by.filter(|by| self.objects.contains_key(by)) {
                    self.queue.goes_alone(by, true);
                }
                Outcome::Refused
            }
            ChangeOutcome::Lost => {
                self.queue.backs_off(g.now);
                Outcome::Lost
            }
        };
        let count = if of_each == Outcome::Refused && hooks::seeded(SeededFault::RefusedBatchDropped) { 1 } else { changes.len() };
        for (object, nonce) in changes.into_iter().take(count) {
            if matches!(of_each, Outcome::Made(_)) {
                self.queue.goes_alone(object, false);
            }
            self.step(g, object, Event::Changed { nonce, outcome: of_each });
        }
    }

    // ---- the links --------------------------------------------------------------------------------------------------

    /// A node answers, is late or is gone.
    pub fn reach(&mut self, g: &mut Grants<'_>, node: NodeId, reach: Reach) {
        self.reach.insert(node, reach);
        if reach == Reach::Gone {
            self.loads.remove(&node);
        }
        let (me, ending) = (self.me.node, self.ending.clone());
        let both_end = reach != Reach::Up && self.ends_with(node);
        self.all(g, |hosted| !both_end || hosted.goes_on_without(me, &ending), &Event::Node { node, reach });
    }
    /// Whether this node and another one end together: neither goes on without the other.
    fn ends_with(&self, node: NodeId) -> bool {
        self.ends && self.ending.contains(&node) && !hooks::seeded(SeededFault::LastCopiesPartAtTheEnd)
    }
    /// Whether another node can have objects of this one.
    fn is_to_have(&self, node: NodeId) -> bool {
        node != self.me.node && self.reach.get(&node) == Some(&Reach::Up) && !self.ending.contains(&node)
    }
    /// A node is no member any more.
    pub fn left(&mut self, node: NodeId) {
        self.reach.remove(&node);
        self.ending.remove(&node);
        self.lives.remove(&node);
        self.loads.remove(&node);
    }
    /// There is a new link with a node in this life: what was not answered is sent again.
    pub fn opened(&mut self, g: &mut Grants<'_>, node: NodeId, incarnation: Incarnation) {
        let life = self.lives.entry(node).or_insert(incarnation);
        if core::mem::replace(life, incarnation.max(*life)) < incarnation {
            self.objects.values_mut().for_each(|hosted| hosted.restarted(node));
        }
        self.ending.remove(&node);
        if self.ends {
            self.actions.push_back(Action::Load { to: node, load: Load::ENDS });
        }
        self.fences.stirs(|_| true, g.now);
        self.ask_due(g);
        self.all(g, Hosted::is_busy, &Event::Reset(node));
    }
    /// The owner of a new epoch asks a copy on this node to accept it.
    pub fn fence(&mut self, g: &mut Grants<'_>, by: OwnerId, fence: Fence) {
        self.ask(g, Asked { by, fence }, g.now + EARLY);
    }
    /// A copy on another node has answered.
    pub fn fenced(&mut self, g: &mut Grants<'_>, from: NodeId, fenced: Fenced) {
        let Some(object) = self.of.get(&fenced.from).copied() else { return };
        if self.objects.get_mut(&object).is_some_and(|hosted| hosted.hears(from, &fenced)) {
            self.step(g, object, Event::Fenced(fenced));
        }
    }
    /// A node grants nothing of an object, since it has accepted a higher epoch.
    pub fn outranked(&mut self, g: &mut Grants<'_>, object: ObjectId, epoch: Epoch) {
        self.step(g, object, Event::Outranked(epoch));
    }
    /// A node has given an object up. This node takes it over if it is to.
    pub fn released(&mut self, g: &mut Grants<'_>, object: ObjectId, from: NodeId, next: NodeId) {
        self.fences.stirs(|(of, _)| *of == object, g.now);
        self.ask_due(g);
        if next == self.me.node && self.busy < CLAIMS_MAX {
            self.step(g, object, Event::Released(from));
        }
    }

    /// A copy has lost a block, which another node has found on its own one, or this node. It is written again if this node owns the object.
    pub fn bad_block(&mut self, from: NodeId, bad: BadBlock) {
        let BadBlock { component, block } = bad;
        let Some(object) = self.of.get(&component).copied() else { return };
        let Some(record) = self.objects.get(&object).and_then(|hosted| hosted.owner.record()) else { return };
        let Some(copy) = record.copy(component).filter(|copy| copy.node == from) else { return };
        let (copy, owner) = (CopyRef::from(copy), record.owner.node);
        if self.state(object) == Some(OwnerState::Serving) {
            self.says_to_cores(object, Command::Repair { copy, block });
        } else if from == self.me.node && owner != from {
            self.actions.push_back(Action::BadBlock { to: owner, bad });
        }
    }

    /// A copy, on another node or on this one, cannot accept an epoch of this node: it leaves, if others can go on without it.
    pub fn copy_fails(&mut self, g: &mut Grants<'_>, from: NodeId, fails: CopyFails) {
        let CopyFails { component, epoch } = fails;
        let Some(object) = self.of.get(&component).copied() else { return };
        if self.objects.get_mut(&object).is_some_and(|hosted| hosted.cannot_accept(from, component, epoch, g.now)) {
            self.step(g, object, Event::CopyFails(component));
        }
    }

    // ---- copies of this node ----------------------------------------------------------------------------------------

    /// A copy is on this node, and this is what it has accepted. At its start for each one, before links open.
    pub fn component(&mut self, g: &mut Grants<'_>, object: ObjectId, component: ComponentId, accepted: Option<(Epoch, OwnerId)>) {
        g.granter.component(object, component, accepted);
        self.fences.stirs(|key| *key == (object, component), g.now);
        self.ask_due(g);
    }
    /// It is not any more.
    pub fn without(&mut self, g: &mut Grants<'_>, object: ObjectId, component: ComponentId) {
        g.granter.without(object, component);
    }
    /// The answer to [`Action::Accept`]: what the copy says once the epoch is durable, or why it is not.
    pub fn accepted(&mut self, g: &mut Grants<'_>, object: ObjectId, component: ComponentId, said: Result<Fenced, NotAccepted>) {
        let Some(asked) = self.fences.answered((object, component)) else { return };
        let Asked { by, fence } = asked;
        let this = |key: &CopyKey| *key == (object, component);
        match said {
            Err(why) => {
                if why == NotAccepted::Fails {
                    let fails = CopyFails { component, epoch: fence.epoch };
                    match by.node == self.me.node {
                        true => self.copy_fails(g, self.me.node, fails),
                        false => self.actions.push_back(Action::CopyFails { to: by.node, fails }),
                    }
                }
                g.granter.not_accepted(object, component);
                if self.objects.contains_key(&object) {
                    self.fences.waits(asked, NEVER, NEVER);
                }
                self.fences.stirs(this, g.now + ACCEPT_AGAIN);
            }
            Ok(fenced) => {
                g.granter.accepted(object, component, fence.epoch, by);
                if by.node != self.me.node {
                    self.actions.push_back(Action::Fenced { to: by.node, fenced });
                } else if by == self.me {
                    self.step(g, object, Event::Fenced(fenced));
                }
                self.fences.stirs(this, g.now);
                self.ask_due(g);
            }
        }
    }
    /// Fences whose time has come are asked again.
    fn ask_due(&mut self, g: &mut Grants<'_>) {
        if hooks::seeded(SeededFault::WaitingFenceForgotten) {
            return;
        }
        for key in self.fences.due(g.now) {
            if let Some((asked, until)) = self.fences.take(key) {
                self.ask(g, asked, until);
            }
        }
    }
    /// Asks whether a copy may accept an epoch. `until`: how long it waits for a copy that is not known.
    fn ask(&mut self, g: &mut Grants<'_>, asked: Asked, until: Instant) {
        let Asked { by, fence } = asked;
        // What a copy says of itself after a restore is what it had accepted before.
        if let Some(record) = self.restored(fence.object) {
            // This node hears later than its owner that it is known which copies are right. One from before is of an owner that is none.
            if fence.epoch > record.epoch() && !hooks::seeded(SeededFault::EarlyFenceDropped) {
                self.fences.waits(asked, NEVER, NEVER);
            }
            return;
        }
        let outdated = |record: &OwnershipRecord| by != self.me && record.epoch() >= fence.epoch;
        if self.objects.get(&fence.object).and_then(Hosted::owned).is_some_and(outdated) {
            return; // of an owner before this one
        }
        if self.fences.is_accepting(&asked) {
            return self.fences.waits(asked, NEVER, NEVER);
        }
        match g.granter.fence(fence.object, fence.component, fence.epoch, by, g.now) {
            Verdict::Refused(Epoch(0)) => {
                let known = self.of.get(&fence.component) == Some(&fence.object);
                if known || until > g.now {
                    self.fences.waits(asked, if known { NEVER } else { until }, until);
                }
            }
            Verdict::Refused(_) => {}
            Verdict::Wait(at) => self.fences.waits(asked, at.unwrap_or(NEVER), NEVER),
            Verdict::Accept => {
                if by.node != self.me.node && !hooks::seeded(SeededFault::AcceptedBeforeStop) {
                    self.step(g, fence.object, Event::Accepted { epoch: fence.epoch, by });
                }
                self.fences.accepts(asked);
                self.actions.push_back(Action::Accept { by, fence });
            }
        }
    }

    // ---- the cores and the administrator ----------------------------------------------------------------------------

    /// What a core says of an object's copies (`VolumeRouter::pop_copy_event`).
    pub fn plane(&mut self, g: &mut Grants<'_>, object: ObjectId, core: u16, event: Event) {
        let cores = self.cores;
        let event = self.objects.get_mut(&object).and_then(|hosted| hosted.joins(event, core, cores, g.now));
        if let Some(event) = event {
            self.step(g, object, event);
        }
    }
    /// This node is to own the object, whoever owns it now.
    pub fn take_over(&mut self, g: &mut Grants<'_>, object: ObjectId) {
        if self.busy < CLAIMS_MAX {
            self.step(g, object, Event::TakeOver);
        }
    }
    /// Another node is to own the object, whenever it can; `None`: whichever.
    pub fn prefers(&mut self, g: &mut Grants<'_>, object: ObjectId, node: Option<NodeId>) {
        if let Some(hosted) = self.objects.get_mut(&object) {
            hosted.preferred = node;
        }
        self.hands_over(g, object, false);
    }
    /// Whether copies of an object that take much longer for changes than the others are to leave.
    pub fn slow_copies_leave(&mut self, object: ObjectId, leave: bool) {
        if let Some(hosted) = self.objects.get_mut(&object) {
            hosted.slow_leave = leave;
        }
    }
    /// How fast copies of an object that come back get what they miss.
    pub fn resync_pace(&mut self, g: &mut Grants<'_>, object: ObjectId, pace: ResyncPace) {
        let Some(hosted) = self.objects.get_mut(&object).filter(|hosted| hosted.resync_pace != pace) else { return };
        hosted.resync_pace = pace;
        if hosted.owner.state() == OwnerState::Serving {
            self.says_to_cores(object, Command::ResyncPace(pace));
        }
        self.step(g, object, Event::PaceResync(if pace == ResyncPace::High { limits::RANGES_HIGH } else { PACE }));
        self.step(g, object, Event::PauseResync(pace == ResyncPace::Paused));
    }
    fn hands_over(&mut self, g: &mut Grants<'_>, object: ObjectId, again: bool) {
        let to = self.objects.get(&object).and_then(|hosted| hosted.goes_to(self.ends, g.now)).filter(|to| self.is_to_have(*to));
        let Some(hosted) = self.objects.get_mut(&object) else { return };
        if let Some(to) = hosted.hands_over(to, again) {
            self.step(g, object, Event::HandOver(to));
        }
    }

    // ---- the machines -----------------------------------------------------------------------------------------------

    /// Something happens to all of them that are so.
    fn all(&mut self, g: &mut Grants<'_>, which: impl Fn(&Hosted) -> bool, event: &Event) {
        let objects: Vec<ObjectId> = self.objects.iter().filter(|(_, hosted)| which(hosted)).map(|(object, _)| *object).collect();
        for object in objects {
            self.step(g, object, event.clone());
        }
    }
    /// Something happens to one of them.
    fn step(&mut self, g: &mut Grants<'_>, object: ObjectId, event: Event) {
        let Some(hosted) = self.objects.get_mut(&object) else { return };
        let (was, mut out) = (hosted.is_busy(), Vec::new());
        hosted.owner.handle(event, &mut out);
        hosted.settle(g, self.me.node, object, &mut out, &mut self.actions);
        hosted.evicts = hosted.owner.evicts().then(|| hosted.evicts.unwrap_or(g.now));
        hosted.leaves = hosted.owner.drains().then(|| hosted.leaves.unwrap_or(g.now));
        hosted.balance.serves(hosted.owner.state() == OwnerState::Serving, g.now);
        hosted.away = hosted.owner.is_away().then(|| hosted.away.unwrap_or(g.now));
        if hosted.away.is_none() && core::mem::take(&mut hosted.said_away) {
            self.actions.push_back(Action::Away { object, away: false });
        }
        let is = hosted.is_busy();
        self.busy = self.busy + usize::from(is) - usize::from(was);
        if !is {
            self.queue.unchanged(object);
        }
        for command in out {
            self.carry(g, object, command);
        }
        self.hands_over(g, object, false);
    }
    fn carry(&mut self, g: &mut Grants<'_>, object: ObjectId, command: Command) {
        match command {
            Command::ReadRecord => self.queue.read(object),
            Command::Change { on, new } => self.queue.change(Change { object, on, new }),
            Command::Fence { to, epoch, period_start, resync } => {
                let fence = Fence { object, component: to.component, epoch, period_start, resync };
                if to.node == self.me.node {
                    self.ask(g, Asked { by: self.me, fence }, NEVER);
                } else {
                    self.actions.push_back(Action::Fence { to: to.node, fence });
                }
            }
            Command::Release { nodes, epoch, next } => {
                let release = Release { object, epoch, next };
                self.actions.extend(nodes.into_iter().map(|to| Action::Release { to, release }));
            }
            Command::WaitTurn { rank } => {
                if let Some(hosted) = self.objects.get_mut(&object) {
                    hosted.turn = Some(g.now + TURN * rank as u32);
                }
            }
            command => self.says_to_cores(object, command),
        }
    }
    fn says_to_cores(&mut self, object: ObjectId, command: Command) {
        let Some(hosted) = self.objects.get_mut(&object) else { return };
        let pace = hosted.resync_pace;
        let mut say = |command| self.actions.push_back(Action::Plane { object, command });
        match command {
            Command::Drain(number) => say(hosted.drains(number)),
            Command::Serve => {
                say(Command::ResyncPace(pace));
                say(Command::Serve);
            }
            command => say(command),
        }
    }

    /// How much is kept: of objects, and of what was asked.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.objects.len() + self.of.len() + self.queue.kept() + self.fences.kept() + self.actions.len() + self.busy
    }
}
