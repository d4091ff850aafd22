//! The owner of one object at one node: who takes over and how, who gets changes, what is agreed on, who leaves and who comes back. The
//! protocol and its names are those of `docs/replication.md`.
//!
//! ```text
//!          TakeOver, Turn          change made               Fenced by all that stay
//!  Holder ───────────────► TakingOver ────────────► Fencing ─────────────────────────► Serving ─┐ Evict, BeginResync,
//!    ▲                         │ refused               │ Evict: who does not answer    ▲    │   │ FinishResync, ...
//!    └─────────────────────────┴── refused, Outranked, HandOver, own copy accepts another's epoch, or cannot accept this one
//! ```
//!
//! It is a machine without I/O: [`Event`]s in, [`Command`]s out. It has no clock: the links say who is silent, the grants are counted elsewhere.
//!
//! Owns: [`ObjectOwner`].
//! Invariants: one change of the record at a time, and nothing that depends on it is said before its outcome is known; nothing is served
//! before every copy that stays has accepted the epoch; memory is bounded (`doubt`, `resync`).
//! Never: holds data; counts changes under way; says which copy should come back, or which node should own an object.

mod change;
mod doubt;
mod event;
mod resync;
mod rules;
mod serving;
mod term;

pub use event::{
    BlockRange, Command, CopyRef, Event, Fenced, LIST_CHUNKS_MAX, LaneDoubt, Listed, ListedChunk, Outcome, Progress, RANGES_MAX, RangeCopy,
    Reach, Revision, Targets,
};
pub(crate) use serving::PACE;

use crate::order::IN_DOUBT_MAX;
use base::hooks::{self, SeededFault};
use base::{ComponentId, CopyRecord, CopyState, Epoch, NodeId, Nonce, OwnerId, OwnershipRecord};
use doubt::Doubt;
use rules::{Rule, Rules};
use serving::Service;
use std::collections::{BTreeMap, BTreeSet};
use term::{Pending, Term, Verdict};

/// What a holder has in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    Nothing,
    /// The owner is gone; others come first.
    WaitsTurn,
    /// It takes over when it has read the record.
    Reads(Why),
}

/// Why a holder takes over, whatever the record says when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It is asked to.
    Asked,
    /// The owner is gone, if it is still so.
    Gone,
    /// This node has given the object up, if it is still the owner.
    GivenUp(NodeId),
}

/// See the drawing.
#[derive(Debug)]
enum Role {
    Holder(Intent),
    TakingOver(Pending),
    /// Copies that have answered, and what they said.
    Fencing(Term, BTreeSet<ComponentId>, Doubt),
    Serving(Term, Service),
}

/// What this node is for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It owns nothing.
    Holder,
    /// Its change of the record is under way.
    TakingOver,
    /// It is the owner, and waits for copies.
    Fencing,
    /// It is the owner and serves.
    Serving,
}

/// See the module.
#[derive(Debug)]
pub struct ObjectOwner {
    me: OwnerId,
    rules: Rules,
    /// Of the next change.
    nonce: Nonce,
    /// The record as it was read last.
    known: Option<(Revision, OwnershipRecord)>,
    reach: BTreeMap<NodeId, Reach>,
    /// Copies that fail, though their node answers.
    failing: BTreeSet<ComponentId>,
    /// Whether a resync stands still, and its ranges under way.
    pace: (bool, usize),
    role: Role,
}

impl ObjectOwner {
    /// On a node, in this life. `nonce`: random; changes take it and those after it.
    pub fn new(me: OwnerId, nonce: Nonce) -> Self {
        let (reach, failing) = (BTreeMap::new(), BTreeSet::new());
        Self { me, rules: Rules::default(), nonce, known: None, reach, failing, pace: (false, PACE), role: Role::Holder(Intent::Nothing) }
    }
    /// What the node is.
    pub const fn state(&self) -> OwnerState {
        match &self.role {
            Role::Holder(_) => OwnerState::Holder,
            Role::TakingOver(_) => OwnerState::TakingOver,
            Role::Fencing(..) => OwnerState::Fencing,
            Role::Serving(..) => OwnerState::Serving,
        }
    }
    /// The record that it goes by: as an owner its own, else the one that was read last.
    pub fn record(&self) -> Option<&OwnershipRecord> {
        match &self.role {
            Role::Fencing(term, ..) | Role::Serving(term, _) => Some(&term.record),
            _ => self.known.as_ref().map(|(_, record)| record),
        }
    }
    /// Whether the node may grant for this object: not while it takes over or fences.
    pub const fn may_grant(&self) -> bool {
        matches!(self.role, Role::Holder(_) | Role::Serving(..))
    }
    /// The copy under resync, and the first chunk that is not known to be complete.
    pub fn resync(&self) -> Option<(CopyRef, Option<u64>)> {
        let Role::Serving(_, service) = &self.role else { return None };
        service.resync.as_ref().map(|r| (r.copy, r.at()))
    }
    /// The copy that was asked to come back and has not answered.
    pub fn invited(&self) -> Option<ComponentId> {
        let Role::Serving(_, service) = &self.role else { return None };
        service.resync.as_ref().filter(|r| !r.has_joined()).map(|r| r.copy.component)
    }
    /// Whether changes wait for an active copy to leave, which the directory has not said yet.
    pub fn evicts(&self) -> bool {
        let Role::Serving(Term { record, pending: Some(pending), .. }, _) = &self.role else { return false };
        record.active().any(|c| pending.new.copy(c.component).is_some_and(|new| new.state != CopyState::Active))
    }
    /// Whether it drains: all that hosts ask of the object waits.
    pub fn drains(&self) -> bool {
        matches!(&self.role, Role::Serving(_, service) if service.leaving.is_some())
    }
    /// Whether the node owns the object by the record, and neither serves it nor is about to: it has only just started, or has let the object go.
    pub fn is_away(&self) -> bool {
        let owns = || self.known.as_ref().is_some_and(|(_, record)| record.owner.node == self.me.node);
        matches!(self.role, Role::Holder(_) | Role::TakingOver(_)) && owns()
    }
    /// Whether a copy is to leave as soon as it can.
    pub fn does_without(&self, copy: ComponentId) -> bool {
        self.failing.contains(&copy)
    }
    /// Whether nothing of an agreement is under way.
    pub fn has_agreed(&self) -> bool {
        matches!(&self.role, Role::Serving(_, service) if service.has_agreed())
    }

    /// Something happens.
    pub fn handle(&mut self, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Record { revision, record, read } => self.read(revision, record, read, out),
            Event::Changed { nonce, outcome } => self.changed(nonce, outcome, out),
            Event::Fenced(fenced) => self.fenced(&fenced, out),
            Event::Accepted { by, .. } if by.node != self.me.node => self.outranked(Epoch(u32::MAX), out),
            Event::Accepted { .. } => {}
            Event::Outranked(epoch) => self.outranked(epoch, out),
            Event::LetsGo if self.evicts() && !hooks::seeded(SeededFault::NeverLetsGo) => self.steps_down(out),
            Event::LetsGo => {}
            Event::Node { node, reach } => self.node(node, reach, out),
            Event::Reset(node) => self.reset(node, out),
            Event::CopyFails(copy) => {
                self.failing.insert(copy);
            }
            Event::CopyWorks(copy) => {
                self.failing.remove(&copy);
            }
            Event::PauseResync(paused) => {
                self.pace.0 = paused;
                self.paces();
            }
            Event::PaceResync(ranges) => {
                self.pace.1 = ranges;
                self.paces();
            }
            Event::TakeOver => self.intends(Intent::Reads(Why::Asked), out),
            Event::Released(by) => self.intends(Intent::Reads(Why::GivenUp(by)), out),
            Event::Turn if matches!(self.role, Role::Holder(Intent::WaitsTurn)) => self.intends(Intent::Reads(Why::Gone), out),
            Event::Turn => {}
            event => self.serves(event, out),
        }
        self.decide(out);
        match &mut self.role {
            Role::Fencing(term, ..) => term.say_grants(self.me.node, self.rules, out),
            Role::Serving(term, service) => {
                service.goes_on(term, self.me.node, self.rules, out);
                term.say_grants(self.me.node, self.rules, out);
            }
            Role::Holder(_) | Role::TakingOver(_) => {}
        }
    }

    /// A resync stands still, or goes on, from now on.
    const fn paces(&mut self) {
        if let Role::Serving(_, service) = &mut self.role {
            (service.paused, service.pace) = self.pace;
        }
    }
    /// What matters only to an owner that serves.
    fn serves(&mut self, event: Event, out: &mut Vec<Command>) {
        let (me, rules) = (self.me.node, self.rules);
        let Role::Serving(term, service) = &mut self.role else { return };
        match event {
            Event::Agreed { term: of, mirror, lane, ranges } if of == term.record.ownership.term => {
                service.agreed(mirror, lane, ranges, out)
            }
            Event::BeginResync(copy) => {
                self.failing.remove(&copy);
                let dropped = |c: &&CopyRecord| c.state == CopyState::Resyncing && service.resync.is_none();
                if let Some(dropped) = term.record.copy(copy).filter(dropped) {
                    assert!(!rules.has(Rule::DropRaisesEpoch), "a copy under resync that has none");
                    let dropped = dropped.into();
                    service.invites(term, dropped, out);
                } else {
                    service.returning.insert(copy);
                }
            }
            Event::JoinDrained { copy, invited } => {
                if let Some(resync) = service.resync.as_mut().filter(|r| (r.copy.component, r.invited) == (copy, invited)) {
                    resync.drained();
                }
            }
            Event::Listed(listed) => service.with_resync(term, me, rules, |resync, now| resync.listed(now, &listed)),
            Event::Copied(range) => service.with_resync(term, me, rules, |resync, _| resync.ended(&range, true)),
            Event::NotCopied(range) => service.with_resync(term, me, rules, |resync, _| resync.ended(&range, false)),
            Event::HandOver(to) if to != me && is_reached(to, me, &self.reach) && term.record.active().any(|c| c.node == to) => {
                service.leaves(to, out);
            }
            Event::Stays => service.stays(out),
            Event::Drained(number) => {
                if let Some(leaving) = service.leaving.as_mut().filter(|l| l.number == number) {
                    leaving.drained = true;
                }
            }
            _ => {}
        }
    }

    /// The record, as it is or was. A watch may be behind.
    fn read(&mut self, revision: Revision, record: OwnershipRecord, read: bool, out: &mut Vec<Command>) {
        let behind = |(r, k): &(Revision, OwnershipRecord)| record.epoch() < k.epoch() || revision < *r;
        if !record.restored && self.known.as_ref().is_some_and(behind) {
            return;
        }
        self.known = Some((revision, record.clone()));
        match &mut self.role {
            &mut Role::Holder(Intent::Reads(why)) if read => self.take_over(why, out),
            Role::Holder(_) => self.resumes(revision, record, out),
            Role::TakingOver(_) => self.judge(revision, &record, out),
            Role::Fencing(term, ..) | Role::Serving(term, _) => {
                if term.pending.is_some() {
                    return self.judge(revision, &record, out);
                }
                let same = record.nonce == term.record.nonce && record.epoch() == term.record.epoch() && !record.restored;
                if !same || revision > term.revision && !self.takes_layout(revision, &record, out) {
                    self.steps_down(out);
                }
            }
        }
    }
    /// The record is read while the outcome of a change is not known.
    fn judge(&mut self, revision: Revision, record: &OwnershipRecord, out: &mut Vec<Command>) {
        let rules = self.rules;
        let (Role::TakingOver(pending)
        | Role::Fencing(Term { pending: Some(pending), .. }, ..)
        | Role::Serving(Term { pending: Some(pending), .. }, _)) = &mut self.role
        else {
            return;
        };
        match pending.judge(revision, record, rules) {
            Verdict::Made => {
                // The layout may have been changed since.
                let as_made = pending.new == *record;
                self.made(revision, out);
                if !as_made && !self.takes_layout(revision, record, out) {
                    self.steps_down(out);
                }
            }
            Verdict::Passed => self.steps_down(out),
            Verdict::Open => {
                if core::mem::take(&mut pending.lost) {
                    out.push(pending.command());
                }
            }
            Verdict::Moved => match &mut self.role {
                Role::Fencing(term, ..) | Role::Serving(term, _) => {
                    term.pending = None;
                    if !self.takes_layout(revision, record, out) {
                        self.steps_down(out);
                    }
                }
                _ => self.take_over(Why::Asked, out),
            },
        }
    }
    fn takes_layout(&mut self, revision: Revision, record: &OwnershipRecord, out: &mut Vec<Command>) -> bool {
        let (me, rules) = (self.me.node, self.rules);
        let (Role::Fencing(term, ..) | Role::Serving(term, _)) = &mut self.role else { return false };
        let takes = term.takes_layout(revision, record);
        if takes {
            self.known = Some((revision, record.clone()));
        }
        if let (true, Role::Serving(term, service)) = (takes, &mut self.role) {
            service.adopts(term, out);
            out.push(Command::Targets(term.targets(me, service.joined(rules))));
            answers(term, false, out);
        }
        takes
    }
    /// The directory answers a change.
    fn changed(&mut self, nonce: Nonce, outcome: Outcome, out: &mut Vec<Command>) {
        let serving = matches!(self.role, Role::Serving(..));
        let (Role::TakingOver(pending)
        | Role::Fencing(Term { pending: Some(pending), .. }, ..)
        | Role::Serving(Term { pending: Some(pending), .. }, _)) = &mut self.role
        else {
            return;
        };
        if pending.new.nonce != nonce {
            return; // of an older one, whose outcome was read
        }
        match outcome {
            Outcome::Made(revision) => self.made(revision, out),
            Outcome::Lost if serving && !self.rules.has(Rule::UnknownIsNoFailure) => {
                if let Role::Serving(term, service) = &mut self.role {
                    (term.pending, service.paused) = (None, true);
                }
            }
            // Refused: another owner, or the layout was changed. The record says which.
            Outcome::Refused | Outcome::Lost => {
                pending.lost = true;
                out.push(Command::ReadRecord);
            }
        }
    }
    /// The change that was under way was made.
    fn made(&mut self, revision: Revision, out: &mut Vec<Command>) {
        match core::mem::replace(&mut self.role, Role::Holder(Intent::Nothing)) {
            Role::TakingOver(pending) => {
                self.known = Some((revision, pending.new.clone()));
                let term = Term::begin(revision, pending.new);
                out.extend(term.record.active().map(|c| term.fence(c.into(), false)));
                self.role = Role::Fencing(term, BTreeSet::new(), Doubt::default());
            }
            Role::Fencing(mut term, fenced, doubt) => {
                self.adopt(&mut term, revision);
                let to: Vec<CopyRef> = term.record.active().filter(|c| !fenced.contains(&c.component)).map(CopyRef::from).collect();
                out.extend(to.iter().map(|to| term.fence(*to, false)));
                term.tell_epoch(self.me.node, |copy| to.contains(copy), out);
                self.role = Role::Fencing(term, fenced, doubt);
                self.ends_fencing(out);
            }
            Role::Serving(mut term, mut service) => {
                self.adopt(&mut term, revision);
                service.adopts(&term, out);
                out.push(Command::Targets(term.targets(self.me.node, service.joined(self.rules))));
                term.tell_epoch(self.me.node, |_| false, out);
                if !self.rules.has(Rule::EpochHeardBeforeAnswer) {
                    answers(&term, true, out);
                }
                self.role = Role::Serving(term, service);
            }
            holder @ Role::Holder(_) => self.role = holder,
        }
    }
    /// The owner's record is the one that its change made.
    fn adopt(&mut self, term: &mut Term, revision: Revision) {
        let pending = term.pending.take().expect("a change was under way");
        self.known = Some((revision, pending.new.clone()));
        (term.revision, term.record) = (revision, pending.new);
        let out_of_it = |c: &ComponentId| term.record.copy(*c).is_none_or(|c| !c.state.gets_changes());
        self.failing.retain(|c| !out_of_it(c));
    }

    /// A copy has answered a Fence.
    fn fenced(&mut self, fenced: &Fenced, out: &mut Vec<Command>) {
        let rules = self.rules;
        let (Role::Fencing(term, ..) | Role::Serving(term, _)) = &mut self.role else { return };
        let Some(copy) = term.record.copy(fenced.from).copied() else { return };
        if fenced.epoch < term.record.ownership.term || fenced.epoch > term.record.epoch() {
            return; // of a term before
        }
        self.failing.remove(&fenced.from);
        let active = copy.state == CopyState::Active;
        let answers = if active { term.hears(&CopyRef::from(&copy), fenced.epoch) } else { None };
        let epoch = term.record.epoch();
        match &mut self.role {
            Role::Fencing(_, all, doubt) if active => {
                all.insert(fenced.from);
                doubt.hears(copy.mirror, &fenced.lanes, copy.node == self.me.node || rules.has(Rule::DoubtIsUnion));
                self.ends_fencing(out);
            }
            Role::Serving(_, service) => {
                out.extend(answers.map(|mirror| Command::Answer { mirror, epoch }));
                let invited = service.resync.as_ref().is_some_and(|r| (r.copy.component, r.invited) == (fenced.from, fenced.epoch));
                if let (true, Some(progress)) = (invited, fenced.resync) {
                    service.joins(progress, rules, out);
                }
            }
            _ => {}
        }
    }
    /// When all that stay have answered: the agreement begins, and the rest is served.
    fn ends_fencing(&mut self, out: &mut Vec<Command>) {
        let Role::Fencing(term, fenced, _) = &self.role else { return };
        let all = term.record.active().all(|c| fenced.contains(&c.component));
        if !all && (self.rules.has(Rule::FenceAllThatStay) || fenced.is_empty()) {
            return;
        }
        let Role::Fencing(term, _, doubt) = core::mem::replace(&mut self.role, Role::Holder(Intent::Nothing)) else { unreachable!() };
        out.push(Command::Targets(term.targets(self.me.node, None)));
        let mut agreeing = BTreeMap::new();
        for ((mirror, lane), union) in doubt.lanes().filter(|_| self.rules.has(Rule::Agree)) {
            let source = term.source(mirror, self.me.node);
            // With no other copy they end when that one has heard the epoch, and are not read before.
            let ranges = union.ranges();
            agreeing.insert((mirror, lane), ranges.len() as u32);
            out.push(Command::Agree { term: term.record.ownership.term, mirror, lane, base_mark: union.base_mark, source, ranges });
            if !self.rules.has(Rule::MarkWaitsForAgreement) {
                out.push(Command::MarkMoves { mirror, lane });
            }
        }
        out.push(Command::Serve);
        answers(&term, false, out);
        self.role = Role::Serving(term, Service::begin(agreeing, self.pace));
    }

    /// A node, or a copy on this node, has accepted a higher epoch, or another owner's.
    fn outranked(&mut self, epoch: Epoch, out: &mut Vec<Command>) {
        if let Role::Fencing(term, ..) | Role::Serving(term, _) = &self.role
            && epoch > term.record.epoch()
        {
            self.steps_down(out);
            out.push(Command::ReadRecord);
        }
    }
    fn steps_down(&mut self, out: &mut Vec<Command>) {
        if matches!(self.role, Role::Fencing(..) | Role::Serving(..)) {
            out.push(Command::Stop);
        }
        self.role = Role::Holder(Intent::Nothing);
    }

    /// The links say something else of a node.
    fn node(&mut self, node: NodeId, reach: Reach, out: &mut Vec<Command>) {
        self.reach.insert(node, reach);
        let owner = self.known.as_ref().map(|(_, record)| record).filter(|record| record.owner.node == node);
        match &mut self.role {
            Role::Holder(intent @ Intent::Nothing) if reach == Reach::Gone => {
                let Some(record) = owner else { return };
                if let Some(rank) = rank(record, self.me.node, &self.reach) {
                    *intent = Intent::WaitsTurn;
                    out.push(Command::WaitTurn { rank });
                }
            }
            Role::Holder(intent @ Intent::WaitsTurn) if reach == Reach::Up && owner.is_some() => *intent = Intent::Nothing,
            Role::Serving(_, service) if reach != Reach::Up && service.leaving.as_ref().is_some_and(|l| l.to == node) => service.stays(out),
            _ => {}
        }
    }
    /// What was sent to a node and is not answered is sent again.
    fn reset(&mut self, node: NodeId, out: &mut Vec<Command>) {
        let (me, rules) = (self.me.node, self.rules);
        match &mut self.role {
            Role::Fencing(term, fenced, _) => {
                let to = term.record.active().filter(|c| c.node == node && !fenced.contains(&c.component));
                out.extend(to.map(|c| term.fence(c.into(), false)));
                term.tell_epoch(me, |copy| copy.node != node || !fenced.contains(&copy.component), out);
            }
            Role::Serving(term, service) => {
                term.tell_epoch(me, |copy| copy.node != node, out);
                let invited = service.resync.as_ref().filter(|r| r.copy.node == node && !r.has_joined()).map(|r| (r.copy, r.invited));
                if let Some((copy, epoch)) = invited {
                    let period_start = term.record.ownership.period_start;
                    out.push(Command::Fence { to: copy, epoch, period_start, resync: true });
                }
                service.with_resync(term, me, rules, |resync, now| {
                    if resync.copy.node == node || now.source.node == node {
                        resync.ask_again(now, out);
                    }
                });
            }
            Role::Holder(_) | Role::TakingOver(_) => {}
        }
    }

    fn intends(&mut self, intent: Intent, out: &mut Vec<Command>) {
        if let Role::Holder(had) = &mut self.role {
            *had = intent;
            out.push(Command::ReadRecord);
        }
    }
    /// The record was read: asks for the ownership.
    fn take_over(&mut self, why: Why, out: &mut Vec<Command>) {
        self.role = Role::Holder(Intent::Nothing);
        let Some((on, record)) = &self.known else { return };
        let gone = self.reach.get(&record.owner.node) == Some(&Reach::Gone);
        let may = gone || why == Why::Asked || why == Why::GivenUp(record.owner.node);
        let holds = record.active().any(|c| c.node == self.me.node) || !self.rules.has(Rule::TakeOverInSync);
        if record.restored && self.rules.has(Rule::RestoredHearsAll) || !holds || !may {
            return;
        }
        let (me, failing) = (self.me, &self.failing);
        let reached = |c: &CopyRecord| !failing.contains(&c.component) && is_reached(c.node, me.node, &self.reach);
        if let Some(mut new) = change::take_over(record, me, reached, self.rules) {
            new.nonce = self.nonce;
            self.nonce = self.nonce.next();
            let pending = Pending { on: *on, new, lost: false };
            out.push(pending.command());
            self.role = Role::TakingOver(pending);
        }
    }
    /// Only without [`Rule::OwnerIsOneIncarnation`]: the owner of before a restart goes on.
    fn resumes(&mut self, revision: Revision, record: OwnershipRecord, out: &mut Vec<Command>) {
        if self.rules.has(Rule::OwnerIsOneIncarnation) || record.owner.node != self.me.node {
            return;
        }
        let mut term = Term::begin(revision, record);
        let epoch = term.record.epoch();
        term.heard.iter_mut().for_each(|heard| *heard = epoch);
        out.extend([Command::Targets(term.targets(self.me.node, None)), Command::Serve]);
        answers(&term, false, out);
        self.role = Role::Serving(term, Service::begin(BTreeMap::new(), self.pace));
    }

    /// The next change of the record, and whether the object is given up. One thing at a time.
    fn decide(&mut self, out: &mut Vec<Command>) {
        let (me, rules) = (self.me, self.rules);
        let serving = matches!(self.role, Role::Serving(..));
        let (Role::Fencing(term, ..) | Role::Serving(term, _)) = &self.role else { return };
        if term.pending.is_some() {
            return;
        }
        if let Some(next) = self.cannot_fence(term).filter(|_| !serving) {
            return self.gives_away(next, out);
        }
        let leaving = leave(&term.record, me.node, serving, &self.reach, &self.failing);
        if !leaving.is_empty() && !rules.has(Rule::DropRaisesEpoch) && self.drops_silently(&leaving, out) {
            return;
        }
        let new = if leaving.is_empty() { self.next_change() } else { self.record().map(|record| change::evict(record, &leaving, rules)) };
        let (Role::Fencing(term, ..) | Role::Serving(term, _)) = &mut self.role else { return };
        if let Some(mut new) = new {
            new.nonce = self.nonce;
            self.nonce = self.nonce.next();
            let pending = Pending { on: term.revision, new, lost: false };
            out.push(pending.command());
            if !rules.has(Rule::AnswerAfterCas) {
                let mut early = term.targets(me.node, None);
                early.copies.retain(|(copy, _)| !leaving.contains(&copy.component));
                out.push(Command::Targets(early));
                answers(term, true, out);
            }
            term.pending = Some(pending);
            return;
        }
        self.gives_up(out);
    }
    fn next_change(&mut self) -> Option<OwnershipRecord> {
        let Role::Serving(term, service) = &mut self.role else { return None };
        let (record, reach, me) = (&term.record, &self.reach, self.me.node);
        let comes_back = |c: ComponentId| record.copy(c).is_none_or(|c| is_reached(c.node, me, reach));
        service.next_change(term, comes_back, self.rules)
    }
    /// The own copy cannot accept the epoch: who is to own the object, having one that may.
    fn cannot_fence(&self, Term { record, .. }: &Term) -> Option<NodeId> {
        let can = |c: &CopyRecord| !self.failing.contains(&c.component) && is_reached(c.node, self.me.node, &self.reach);
        let mut own = record.active().filter(|c| c.node == self.me.node);
        let others = || record.active().filter(|c| c.node != self.me.node && can(c)).map(|c| c.node).min();
        own.any(|c| self.failing.contains(&c.component)).then(others).flatten()
    }
    /// It serves nothing, and has not: another node is to own the object.
    fn gives_away(&mut self, next: NodeId, out: &mut Vec<Command>) {
        let Role::Fencing(term, ..) = &self.role else { return };
        let release = term.release(self.me.node, term.record.epoch(), next);
        // When it takes over again it asks its copy again.
        let own: BTreeSet<ComponentId> = term.record.active().filter(|c| c.node == self.me.node).map(|c| c.component).collect();
        self.failing.retain(|copy| !own.contains(copy));
        self.steps_down(out);
        out.push(release);
    }
    /// HandOver: with nothing under way it serves no more, and then says so.
    fn gives_up(&mut self, out: &mut Vec<Command>) {
        let Role::Serving(term, service) = &mut self.role else { return };
        let can = |to: NodeId| term.record.active().any(|c| c.node == to);
        if service.leaving.as_ref().is_some_and(|l| !can(l.to)) {
            return service.stays(out);
        }
        let Some(leaving) = service.leaving.take_if(|l| l.drained) else { return };
        let epoch = if self.rules.has(Rule::ReleaseNamesEpoch) { term.record.epoch() } else { Epoch(u32::MAX) };
        let release = term.release(self.me.node, epoch, leaving.to);
        if self.rules.has(Rule::ReleaseEndsService) {
            self.steps_down(out);
        } else {
            out.push(Command::Resume);
        }
        out.push(release);
    }
    /// Only without [`Rule::DropRaisesEpoch`].
    fn drops_silently(&mut self, leaving: &BTreeSet<ComponentId>, out: &mut Vec<Command>) -> bool {
        let Role::Serving(term, service) = &mut self.role else { return false };
        if service.resync.as_ref().is_some_and(|r| leaving.contains(&r.copy.component)) {
            service.resync = None;
            out.push(Command::Targets(term.targets(self.me.node, None)));
            answers(term, true, out);
        }
        leaving.iter().all(|c| term.record.copy(*c).is_some_and(|c| c.state == CopyState::Resyncing))
    }
}

/// What all targets have may be answered, where an active copy of the mirror has accepted the epoch. `early`: anyhow, without a rule.
fn answers(term: &Term, early: bool, out: &mut Vec<Command>) {
    let epoch = term.record.epoch();
    let heard = |mirror: &u16| term.heard[usize::from(*mirror)] >= epoch || early;
    out.extend((0..term.record.mirrors()).filter(heard).map(|mirror| Command::Answer { mirror, epoch }));
}

fn is_reached(node: NodeId, me: NodeId, reach: &BTreeMap<NodeId, Reach>) -> bool {
    node == me || reach.get(&node) == Some(&Reach::Up)
}

/// Copies that an owner does without: of nodes that are silent, and those that fail, as long as another one stays in the mirror. Where all are
/// reached and all fail, one of them stays: the own one, if there is one.
fn leave(
    record: &OwnershipRecord,
    me: NodeId,
    serving: bool,
    reach: &BTreeMap<NodeId, Reach>,
    failing: &BTreeSet<ComponentId>,
) -> BTreeSet<ComponentId> {
    let silent = |node: NodeId| node != me && matches!(reach.get(&node), Some(Reach::Late | Reach::Gone));
    let fails = |c: &CopyRecord| (silent(c.node) || failing.contains(&c.component)) && (serving || c.node != me);
    let stays = |c: &CopyRecord| {
        let all_fail = record.active_of(c.mirror).all(|other| fails(other) && !silent(other.node));
        let last = record.active_of(c.mirror).min_by_key(|other| other.node != me).filter(|_| all_fail);
        record.active_of(c.mirror).any(|other| !fails(other)) || last.is_some_and(|last| last.component != c.component)
    };
    let leaves = |c: &&CopyRecord| c.state.gets_changes() && fails(c) && (c.state == CopyState::Resyncing || stays(c));
    record.copies.iter().filter(leaves).map(|c| c.component).collect()
}

/// How many nodes come before this one among those that may take over; `None`: it may not.
fn rank(record: &OwnershipRecord, me: NodeId, reach: &BTreeMap<NodeId, Reach>) -> Option<usize> {
    let candidates: BTreeSet<NodeId> = record.active().map(|c| c.node).filter(|node| is_reached(*node, me, reach)).collect();
    candidates.iter().position(|node| *node == me)
}

#[cfg(test)]
mod tests;
