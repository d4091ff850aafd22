//! What an owner knows in its term: the record, its change of it whose outcome it waits for, and how far active copies have heard.
//!
//! Owns: [`Term`], [`Pending`].
//! Invariant: one change at a time; what is read again is judged by its nonce.
//! Never: takes an unknown outcome for a failure.

use super::event::{Command, CopyRef, Revision, Targets};
use super::rules::{Rule, Rules};
use base::{CopyState, Epoch, NodeId, OwnershipRecord};
use std::collections::BTreeSet;

/// A change of the record whose outcome is not known.
#[derive(Debug)]
pub(super) struct Pending {
    /// The revision that it replaces.
    pub on: Revision,
    /// What it writes.
    pub new: OwnershipRecord,
    /// Nothing more is heard of it: the record has to be read.
    pub lost: bool,
}

/// What a record says of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was made.
    Made,
    /// Somebody else changed the record: this node is not the owner.
    Passed,
    /// The record is the one that the change replaces.
    Open,
    /// The record is of the same owner and epoch, and yet another: the layout was changed. The change can not happen any more.
    Moved,
}

impl Pending {
    pub fn judge(&self, revision: Revision, record: &OwnershipRecord, rules: Rules) -> Verdict {
        let mine = record.nonce == self.new.nonce || !rules.has(Rule::NonceCompared) && record.epoch() == self.new.epoch();
        match () {
            () if record.restored && self.new.epoch() > record.epoch() => Verdict::Passed,
            () if mine => Verdict::Made,
            () if record.epoch() >= self.new.epoch() => Verdict::Passed,
            () if revision <= self.on => Verdict::Open,
            () => Verdict::Moved,
        }
    }
    /// The change, as it is asked for: the first time and whenever it is not known to have been made.
    pub fn command(&self) -> Command {
        Command::Change { on: self.on, new: Box::new(self.new.clone()) }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Term {
    pub revision: Revision,
    pub record: OwnershipRecord,
    pub pending: Option<Pending>,
    /// Of each mirror: the highest epoch that an active copy has accepted (`known` of the page).
    pub heard: Vec<Epoch>,
    /// The nodes whose grants reads need, as it was said last.
    pub grants: Option<Vec<NodeId>>,
}

impl Term {
    pub fn begin(revision: Revision, record: OwnershipRecord) -> Self {
        let heard = vec![Epoch(0); usize::from(record.mirrors())];
        Self { revision, record, pending: None, heard, grants: None }
    }
    /// An active copy has accepted an epoch. The mirror, if what waited for that may be answered now.
    pub fn hears(&mut self, from: &CopyRef, epoch: Epoch) -> Option<u16> {
        let now = self.record.epoch();
        let heard = &mut self.heard[usize::from(from.mirror)];
        let before = core::mem::replace(heard, epoch.max(*heard));
        (before < now && *heard >= now).then_some(from.mirror)
    }
    /// Fence to copies that have to hear the epoch before what waited for it is answered: of each mirror the own copy, or the active ones.
    pub fn tell_epoch(&self, me: NodeId, skip: impl Fn(&CopyRef) -> bool, out: &mut Vec<Command>) {
        for mirror in 0..self.record.mirrors() {
            if self.heard[usize::from(mirror)] >= self.record.epoch() {
                continue;
            }
            let own = self.record.active_of(mirror).find(|c| c.node == me);
            let to = self.record.active_of(mirror).filter(|c| own.is_none_or(|own| own.component == c.component));
            out.extend(to.map(CopyRef::from).filter(|to| !skip(to)).map(|to| self.fence(to, false)));
        }
    }
    /// Fence to a copy, in the present epoch.
    pub fn fence(&self, to: CopyRef, resync: bool) -> Command {
        let ownership = &self.record.ownership;
        Command::Fence { to, epoch: ownership.epoch, period_start: ownership.period_start, resync }
    }
    /// Release, to the nodes with active copies.
    pub fn release(&self, me: NodeId, epoch: Epoch, next: NodeId) -> Command {
        let nodes: BTreeSet<NodeId> = self.record.active().map(|c| c.node).filter(|node| *node != me).collect();
        Command::Release { nodes: nodes.into_iter().collect(), epoch, next }
    }
    /// Who gets changes: the active copies, and the one that has joined.
    pub fn targets(&self, me: NodeId, joined: Option<CopyRef>) -> Targets {
        let gets = |c: &&base::CopyRecord| c.state == CopyState::Active || joined.is_some_and(|j| j.component == c.component);
        let copies = self.record.copies.iter().filter(gets).map(|c| (CopyRef::from(c), c.state)).collect();
        let read = (0..self.record.mirrors()).map(|mirror| self.source(mirror, me)).collect();
        Targets { ownership: self.record.ownership, copies, read }
    }
    /// The copy of a mirror that is read.
    pub fn source(&self, mirror: u16, me: NodeId) -> CopyRef {
        self.record.source(mirror, me).expect("each mirror keeps an active copy").into()
    }
    /// Says the nodes whose grants a read needs, if they are others now: those of active copies, in the record and in the one that a change
    /// under way
    /// would make.
    pub fn say_grants(&mut self, me: NodeId, rules: Rules, out: &mut Vec<Command>) {
        let pending = self.pending.iter().filter(|_| rules.has(Rule::GrantsOfJoining)).flat_map(|p| p.new.active());
        let mut nodes: Vec<NodeId> = self.record.active().chain(pending).map(|c| c.node).filter(|node| *node != me).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if !rules.has(Rule::GrantsOfAll) {
            nodes.truncate(1);
        }
        if self.grants.as_ref() != Some(&nodes) {
            out.push(Command::GrantsOf(nodes.clone()));
            self.grants = Some(nodes);
        }
    }
    /// The control plane has changed the layout: copies that are out came or went. False: more than that changed, so this is no record to
    /// go on with.
    pub fn takes_layout(&mut self, revision: Revision, record: &OwnershipRecord) -> bool {
        let same = |c: &base::CopyRecord| record.copy(c.component).is_some_and(|new| new == c);
        let kept = self.record.active().all(same) && record.active().count() == self.record.active().count();
        if !kept || record.mirrors() != self.record.mirrors() || record.ownership != self.record.ownership {
            return false;
        }
        (self.revision, self.record) = (revision, record.clone());
        true
    }
}
