//! An owner that serves: agreements that have not ended, the resync, and whether it gives the object up.
//!
//! Owns: [`Service`].
//! Invariants: one resync at a time; with a change of the record under way none is begun or finished.
//! Never: writes the record: it says what the next change should be.

use super::change;
use super::event::{Command, CopyRef, Progress};
use super::resync::{Now, Resync};
use super::rules::{Rule, Rules};
use super::term::Term;
use base::lane::Lane;
use base::{ComponentId, CopyState, NodeId, OwnershipRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Ranges of a resync under way, as long as nobody says another number.
pub(crate) const PACE: usize = 4;

/// Another node is to own the object.
#[derive(Debug)]
pub(super) struct Leaving {
    pub to: NodeId,
    /// Of the command to drain.
    pub number: u32,
    pub drained: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Service {
    /// Ranges of the agreement of each lane that have not ended.
    agreeing: BTreeMap<(u16, Lane), u32>,
    pub leaving: Option<Leaving>,
    /// Commands to drain so far.
    drains: u32,
    pub resync: Option<Box<Resync>>,
    /// Copies that are to come back.
    pub returning: BTreeSet<ComponentId>,
    pub paused: bool,
    pub pace: usize,
}

impl Service {
    /// With these agreements under way; whether a resync stands still, and its ranges.
    pub fn begin(agreeing: BTreeMap<(u16, Lane), u32>, (paused, pace): (bool, usize)) -> Self {
        Self { agreeing, leaving: None, drains: 0, resync: None, returning: BTreeSet::new(), paused, pace }
    }
    /// Ranges of a lane have ended. The mark moves when the last one has.
    pub fn agreed(&mut self, mirror: u16, lane: Lane, ranges: u32, out: &mut Vec<Command>) {
        let Some(left) = self.agreeing.get_mut(&(mirror, lane)) else { return };
        assert!(ranges <= *left, "more ranges have ended than were under way");
        *left -= ranges;
        if *left == 0 {
            self.agreeing.remove(&(mirror, lane));
            out.push(Command::MarkMoves { mirror, lane });
        }
    }
    /// Another node is to own the object, if it may.
    pub fn leaves(&mut self, to: NodeId, out: &mut Vec<Command>) {
        if self.leaving.is_none() {
            self.drains += 1;
            self.leaving = Some(Leaving { to, number: self.drains, drained: false });
            out.push(Command::Drain(self.drains));
        }
    }
    /// It stays.
    pub fn stays(&mut self, out: &mut Vec<Command>) {
        if self.leaving.take().is_some() {
            out.push(Command::Resume);
        }
    }
    /// The copy under resync, if it gets changes.
    pub fn joined(&self, rules: Rules) -> Option<CopyRef> {
        self.resync.as_ref().filter(|r| r.has_joined() && rules.has(Rule::ResyncingGetsChanges)).map(|r| r.copy)
    }
    /// The record was changed, or the layout: the resync is over, or one begins.
    pub fn adopts(&mut self, term: &Term, out: &mut Vec<Command>) {
        let state = |c: ComponentId| term.record.copy(c).map(|c| c.state);
        if self.resync.as_ref().is_some_and(|r| state(r.copy.component) != Some(CopyState::Resyncing)) {
            self.resync = None;
        }
        self.returning.retain(|c| state(*c).is_some_and(|s| s != CopyState::Active));
        if let (None, Some(copy)) = (&self.resync, term.record.copies.iter().find(|c| c.state == CopyState::Resyncing)) {
            self.invites(term, copy.into(), out);
        }
    }
    /// A copy is asked to join.
    pub fn invites(&mut self, term: &Term, copy: CopyRef, out: &mut Vec<Command>) {
        self.returning.remove(&copy.component);
        self.resync = Some(Box::new(Resync::invite(copy, term.record.epoch())));
        out.push(term.fence(copy, true));
    }
    /// A copy has answered that was asked to join.
    pub fn joins(&mut self, progress: Progress, rules: Rules, out: &mut Vec<Command>) {
        let Some(resync) = self.resync.as_mut().filter(|r| !r.has_joined()) else { return };
        resync.joins(progress, rules);
        if rules.has(Rule::ResyncingGetsChanges) {
            out.push(Command::Join { copy: resync.copy, invited: resync.invited });
        }
    }
    /// The change of the record that is due, if one is. `comes_back`: the copy's node is reached.
    pub fn next_change(&mut self, term: &Term, comes_back: impl Fn(ComponentId) -> bool, rules: Rules) -> Option<OwnershipRecord> {
        if self.paused || self.leaving.is_some() {
            return None;
        }
        if let Some(resync) = &self.resync {
            let finished = resync.is_finished() || !rules.has(Rule::ActiveAfterResync);
            return finished.then(|| change::with_state(&term.record, resync.copy.component, CopyState::Active));
        }
        let copy = *self.returning.iter().find(|c| comes_back(**c))?;
        let out_of_sync = |c: &&base::CopyRecord| matches!(c.state, CopyState::Absent | CopyState::Stale);
        self.returning.remove(&copy);
        let copy = term.record.copy(copy).filter(out_of_sync)?;
        Some(change::with_state(&term.record, copy.component, CopyState::Resyncing))
    }
    /// The resync goes on, as far as it may.
    pub fn goes_on(&mut self, term: &Term, me: NodeId, rules: Rules, out: &mut Vec<Command>) {
        if self.paused || self.leaving.is_some() {
            return;
        }
        self.with_resync(term, me, rules, |resync, now| resync.goes_on(now, out));
    }
    /// What a step of the resync depends on, for the step.
    pub fn with_resync(&mut self, term: &Term, me: NodeId, rules: Rules, step: impl FnOnce(&mut Resync, &Now<'_>)) {
        if let Some(resync) = &mut self.resync {
            let source = term.source(resync.copy.mirror, me);
            step(resync, &Now { record: &term.record, source, pace: self.pace, rules });
        }
    }
    /// Nothing of an agreement is under way.
    pub fn has_agreed(&self) -> bool {
        self.agreeing.is_empty()
    }
}
