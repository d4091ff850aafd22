//! A directory that came back from a backup says what was, not what is: which copies of an object are in sync then, and what an administrator gives up
//! who goes on without all of them.
//!
//! ```text
//!  restored ──► each node with disk groups says what it has: heard ──► confirmed: those of the highest epoch are in sync ──► taken over
//!                              │ somebody is not heard, or has what the record does not know
//!                              └──► waits, or an administrator goes on without: gone_on
//! ```
//!
//! Owns: [`mark_restored`], [`says`], [`confirmed`], [`gone_on`].
//! Invariants: nothing is taken over, served or changed of an object between the mark and what ends it; a copy that may lack what was answered is in sync
//! only where an administrator has said so; what an administrator gives up never comes back.
//! Never: reads what copies hold.

use crate::paths::owner_of;
use crate::reconcile::{GroupSeen, Observed, Records};
use crate::record::{ComponentRecord, ObjectRecord, Stage};
use base::hooks::{self, SeededFault};
use base::{ComponentId, CopyState, Epoch, Incarnation, Nonce, Ownership};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What nodes have said of the copies of an object since the directory was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The nodes, by name, that have said all that they have of it.
    pub nodes: BTreeSet<String>,
    /// What they have.
    pub copies: Vec<HeardCopy>,
}

impl Heard {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.copies.is_empty()
    }
}

/// A component that a node has of an object, whether or not the record names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeardCopy {
    /// The node.
    pub node: String,
    /// The component.
    pub component: ComponentId,
    /// The highest epoch that it has accepted. 0: none, it was the only copy always.
    pub epoch: Epoch,
    /// The highest epoch that a change of it came with, where that is higher.
    #[serde(default, skip_serializing_if = "is_none")]
    pub taken: Epoch,
    /// It was being brought into sync: it holds some of what is newer than what it lacks.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub resyncing: bool,
}

fn is_none(epoch: &Epoch) -> bool {
    *epoch == Epoch(0)
}

/// Epochs that are left out with a restore: as many as there can have been since the backup, and more.
pub const EPOCHS_BETWEEN: u32 = 1 << 20;

/// The record came back from a backup: nothing of it counts before it was confirmed. False: it had been marked before.
pub fn mark_restored(object: &mut ObjectRecord) -> bool {
    if object.change.restored {
        return false;
    }
    object.ownership = raised(object.ownership, object.ownership.epoch.0.saturating_add(EPOCHS_BETWEEN));
    object.change.restored = true;
    (object.change.nonce, object.heard) = (Nonce::NONE, Heard::default());
    true
}

const fn raised(ownership: Ownership, epoch: u32) -> Ownership {
    Ownership { epoch: Epoch(epoch), ..ownership }
}

/// What this node has to say of a restored object: what it has of it, whether or not the record names it. `None`: nothing more, or not yet, because a disk
/// group of the node is not open.
pub fn says(object: &ObjectRecord, records: &Records, observed: &Observed) -> Option<Vec<HeardCopy>> {
    let mut groups = records.groups.iter().filter(|g| g.node == observed.node && g.stage == Stage::Ready).peekable();
    groups.peek()?;
    let all_open = groups.all(|g| matches!(observed.groups.get(&g.id), Some(GroupSeen::Open(_))) && observed.copies.contains_key(&g.id));
    if !object.change.restored || object.heard.nodes.contains(&observed.node) || !all_open {
        return None;
    }
    let here = observed.copies.values().flatten().filter(|copy| copy.object == object.id);
    let say = |copy: &crate::reconcile::CopySeen| HeardCopy {
        node: observed.node.clone(),
        component: copy.component,
        epoch: copy.epoch,
        taken: if copy.taken > copy.epoch { copy.taken } else { Epoch(0) },
        resyncing: copy.resyncing,
    };
    Some(here.map(say).collect())
}

/// The nodes that have to say what they have: all that belong to the cluster and have disk groups.
pub fn nodes_to_hear(records: &Records) -> BTreeSet<String> {
    let is_member = |name: &String| records.nodes.iter().any(|n| n.name == *name && n.is_member());
    records.groups.iter().filter(|g| g.stage == Stage::Ready).map(|g| g.node.clone()).filter(is_member).collect()
}

/// Why a restored object waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// These nodes have not said what they have of it.
    Nodes(BTreeSet<String>),
    /// A copy that the record does not know is newer than those that it knows.
    Unknown(HeardCopy),
    /// No copy of this mirror is in sync.
    NoneInSync(usize),
}

/// A restored object, when all that was to be heard was heard: as it is now.
///
/// # Errors
/// It cannot be known, or no copy is right.
pub fn confirmed(object: &ObjectRecord, to_hear: &BTreeSet<String>) -> Result<ObjectRecord, Waits> {
    let missing: BTreeSet<String> = to_hear.difference(&object.heard.nodes).cloned().collect();
    let of_copies = object.components().map(|c| &c.node).filter(|node| !object.heard.nodes.contains(*node)).cloned();
    let missing: BTreeSet<String> = missing.into_iter().chain(of_copies).collect();
    if !missing.is_empty() {
        return Err(Waits::Nodes(missing));
    }
    let mut new = object.clone();
    let mut lowest = Epoch(u32::MAX);
    for (no, mirror) in new.mirrors.iter_mut().enumerate() {
        let heard = |c: &ComponentRecord| object.heard.copies.iter().find(|copy| copy.component == c.id);
        let highest = mirror.iter().filter(|c| c.is_used()).filter_map(heard).map(|copy| copy.epoch).max().unwrap_or_default();
        lowest = lowest.min(highest);
        for c in mirror.iter_mut() {
            match heard(c).filter(|_| c.is_used()) {
                Some(copy) if copy.resyncing && !hooks::seeded(SeededFault::HalfTakenForWhole) => c.state = CopyState::Absent,
                Some(copy) if copy.epoch == highest => c.state = CopyState::Active,
                Some(copy) => (c.state, c.synced_to) = (CopyState::Absent, copy.epoch),
                None => give_up(c),
            }
        }
        if !mirror.iter().any(|c| c.is_used() && c.state == CopyState::Active) {
            return Err(Waits::NoneInSync(no));
        }
    }
    if let Some(newer) =
        orphans(object).max_by_key(|copy| copy.epoch).filter(|copy| copy.epoch > lowest && !hooks::seeded(SeededFault::OrphansIgnored))
    {
        return Err(Waits::Unknown(newer.clone()));
    }
    Ok(settled(new))
}

/// Copies that were heard and that the record does not name.
fn orphans(object: &ObjectRecord) -> impl Iterator<Item = &HeardCopy> {
    let known: BTreeSet<ComponentId> = object.used().map(|c| c.id).collect();
    object.heard.copies.iter().filter(move |copy| !known.contains(&copy.component))
}

fn give_up(c: &mut ComponentRecord) {
    if hooks::seeded(SeededFault::UnheardKept) {
        return;
    }
    (c.leaving, c.state, c.synced_to) = (true, CopyState::Absent, Epoch(0));
}

/// It can be taken over: by the owner that it had, if that has a copy in sync, else by another node that has.
fn settled(mut object: ObjectRecord) -> ObjectRecord {
    let highest = object.heard.copies.iter().map(|copy| copy.epoch.max(copy.taken).0).max().unwrap_or(0);
    object.ownership = raised(object.ownership, object.ownership.epoch.0.max(highest.saturating_add(1)));
    let in_sync: Vec<&str> = object.used().filter(|c| c.state == CopyState::Active).map(|c| c.node.as_str()).collect();
    let stays = owner_of(&object).is_some_and(|owner| in_sync.contains(&owner));
    if !stays || object.owner.is_some() {
        object.owner = Some(if stays { owner_of(&object).unwrap_or_default() } else { in_sync[0] }.to_owned());
    }
    object.change.restored = false;
    (object.change.owner_incarnation, object.change.nonce, object.heard) = (Incarnation(0), Nonce::NONE, Heard::default());
    object
}

/// What becomes of a copy when an administrator goes on without those that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is what the volume holds from then on. Since this epoch it may lack what was written.
    Kept(Epoch),
    /// It is brought into sync with those.
    Follows,
    /// It is given up, and deleted if its node comes back.
    GivenUp,
}

/// What an administrator would do who goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneOn {
    /// The object then.
    pub object: ObjectRecord,
    /// What becomes of each copy.
    pub fates: BTreeMap<ComponentId, Fate>,
    /// Mirrors of which what is kept was being brought into sync: it is partly older and partly newer.
    pub mixed: BTreeSet<usize>,
}

/// Why nobody can go on so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotGoOn {
    /// There is nothing to go on from: the object can be served as it is, or is about to be.
    NotNeeded,
    /// Of this mirror no copy is there.
    NoCopy(usize),
}

/// Goes on with the copies that are there, whatever others have. `there`: of a component, whether its node is up and has it. `from`: with those of this
/// node, and no better ones.
///
/// # Errors
/// It is not needed, or impossible.
pub fn gone_on(object: &ObjectRecord, there: impl Fn(&ComponentRecord) -> bool, from: Option<&str>) -> Result<GoneOn, CannotGoOn> {
    let restored = object.change.restored;
    let in_sync_there = |mirror: &Vec<ComponentRecord>| mirror.iter().any(|c| c.is_used() && c.state == CopyState::Active && there(c));
    if !restored && object.mirrors.iter().all(in_sync_there) {
        return Err(CannotGoOn::NotNeeded);
    }
    let mut gone = GoneOn { object: object.clone(), fates: BTreeMap::new(), mixed: BTreeSet::new() };
    for (no, mirror) in gone.object.mirrors.iter_mut().enumerate() {
        // The epoch up to which a copy has everything, and whether it was being brought into sync.
        let stands = |c: &ComponentRecord| -> Option<(Epoch, bool)> {
            if !c.is_used() || !there(c) {
                return None;
            }
            if restored {
                let heard = object.heard.copies.iter().find(|copy| copy.component == c.id)?;
                return Some((heard.epoch, heard.resyncing));
            }
            Some(match c.state {
                CopyState::Active => (object.ownership.epoch, false),
                state => (c.synced_to, state == CopyState::Resyncing),
            })
        };
        let candidates = mirror.iter().filter(|c| from.is_none_or(|node| c.node == node)).filter_map(|c| Some((stands(c)?, c.id)));
        // Whole ones first, then the newest.
        let best = candidates.max_by_key(|((epoch, resyncing), id)| (!resyncing, *epoch, core::cmp::Reverse(*id)));
        let Some(((epoch, resyncing), _)) = best else { return Err(CannotGoOn::NoCopy(no)) };
        if resyncing {
            gone.mixed.insert(no);
        }
        let chosen = best.map(|(_, id)| id);
        for c in mirror.iter_mut() {
            let as_good = !resyncing && stands(c) == Some((epoch, false)) && (restored || c.state == CopyState::Active);
            let older = restored && !resyncing && stands(c).is_some_and(|(its, _)| its <= epoch);
            let fate = match () {
                () if Some(c.id) == chosen || as_good => {
                    (c.state, c.leaving) = (CopyState::Active, false);
                    Fate::Kept(epoch)
                }
                () if older => {
                    if let Some((its, false)) = stands(c) {
                        c.synced_to = its;
                    }
                    c.state = CopyState::Absent;
                    Fate::Follows
                }
                () => {
                    give_up(c);
                    Fate::GivenUp
                }
            };
            gone.fates.insert(c.id, fate);
        }
    }
    // What a node that is not there may have taken over meanwhile has a lower epoch.
    gone.object.ownership = raised(gone.object.ownership, gone.object.ownership.epoch.0.saturating_add(EPOCHS_BETWEEN));
    gone.object = settled(gone.object);
    Ok(gone)
}

#[cfg(test)]
#[path = "restored_tests.rs"]
mod tests;
