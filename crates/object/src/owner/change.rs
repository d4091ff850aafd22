//! Changes of the ownership record: each a pure function from the record as it is to the one that is wanted.
//!
//! Owns: what Evict, DropResync, BeginResync, FinishResync and TakeOver write.
//! Invariants: each raises the epoch by one; the last active copy of a mirror never leaves; a period starts only where the object was in
//! sync on
//! all copies.
//! Never: knows when a change is due.

use super::rules::{Rule, Rules};
use base::{ComponentId, CopyState, Epoch, OwnerId, OwnershipRecord};
use std::collections::BTreeSet;

/// The epoch after this one.
fn next(epoch: Epoch) -> Epoch {
    Epoch(epoch.0.checked_add(1).expect("fewer than 2^32 changes of one object"))
}

/// Copies leave: active ones are in sync up to the epoch before, those under resync keep what they had.
fn leave(new: &mut OwnershipRecord, copies: &BTreeSet<ComponentId>, rules: Rules) {
    let epoch = new.epoch();
    let starts = new.is_whole() && rules.has(Rule::PeriodStarts) || !rules.has(Rule::PeriodStartsOnce);
    let mut active_leave = false;
    for copy in new.copies.iter_mut().filter(|c| copies.contains(&c.component)) {
        if copy.state == CopyState::Active {
            copy.synced_to = epoch;
            active_leave = true;
        }
        copy.state = CopyState::Absent;
    }
    if active_leave && starts {
        new.ownership.period_start = next(epoch);
    }
}

/// Evict and DropResync, of any number of copies in one change.
pub(super) fn evict(record: &OwnershipRecord, copies: &BTreeSet<ComponentId>, rules: Rules) -> OwnershipRecord {
    let mut new = record.clone();
    leave(&mut new, copies, rules);
    for mirror in 0..new.mirrors() {
        assert!(new.active_of(mirror).next().is_some(), "the last active copy of a mirror never leaves");
    }
    new.ownership.epoch = next(record.epoch());
    new
}

/// BeginResync and FinishResync: a copy gets another state.
pub(super) fn with_state(record: &OwnershipRecord, copy: ComponentId, state: CopyState) -> OwnershipRecord {
    let mut new = record.clone();
    let at = new.copies.iter_mut().find(|c| c.component == copy).expect("a copy of the record");
    assert!(at.state != state && at.state != CopyState::Active, "from absent to resyncing, from resyncing to active");
    at.state = state;
    new.ownership.epoch = next(record.epoch());
    new
}

/// TakeOver: out of the active copies go those that are not reached; a copy under resync becomes absent. `None`: no active copy of some
/// mirror would
/// stay.
pub(super) fn take_over(
    record: &OwnershipRecord,
    me: OwnerId,
    reached: impl Fn(&base::CopyRecord) -> bool,
    rules: Rules,
) -> Option<OwnershipRecord> {
    let mut new = record.clone();
    let leaves = |c: &&base::CopyRecord| c.state == CopyState::Resyncing || c.state == CopyState::Active && !reached(c);
    let leaving = record.copies.iter().filter(leaves).map(|c| c.component).collect();
    leave(&mut new, &leaving, rules);
    if !rules.has(Rule::TakeOverInSync) {
        new.copies.iter_mut().filter(|c| c.node == me.node).for_each(|c| c.state = CopyState::Active);
    }
    if (0..new.mirrors()).any(|mirror| new.active_of(mirror).next().is_none()) {
        return None;
    }
    let epoch = next(record.epoch());
    (new.ownership.epoch, new.ownership.term) = (epoch, epoch);
    (new.owner, new.restored) = (me, false);
    Some(new)
}
