//! Another number of copies for an object that hosts use: what its policy asks for, and its layout does not have.
//!
//! ```text
//!  planned (absent, not made) ─► its node makes it ─► absent ─► resyncing ─► active
//!                                                     └────────────┴────────────┴──► leaving ─► its node deletes it ─► gone
//!
//!  lost: away for longer than its policy waits ─► another one is added ─► that is in sync ─► leaving; deleted if its node ever comes back
//! ```
//!
//! Owns: [`copies_change`], what that makes of an object, and [`without`].
//! Invariants: one copy is added to an object at a time, or several at once; what is added lies in a fault domain of its own; what is taken away leaves
//! as many copies in sync as the policy asks for, the owner's among them if it is one.
//! Never: moves data, changes the number of mirrors.

use crate::inventory::{Domain, Inventory, Room};
use crate::paths::owner_of;
use crate::place::{PlaceError, Slot, best, fill, reserve_chunks};
use crate::policy::{Policy, Shortfall};
use crate::record::{ComponentRecord, ObjectRecord};
use base::{ComponentId, CopyState, Epoch};
use std::collections::BTreeSet;

/// What is to be changed of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiesChange {
    /// Copies to be made: of each, its place in each mirror.
    Add(Vec<Vec<Slot>>),
    /// Components to be deleted: those of whole copies.
    Remove(Vec<ComponentId>),
}

/// What is to be changed so that an object has as many copies as its policy asks for; `None`: nothing, or not now, because the last change is under way
/// or those that are to stay are not in sync. `lost`: components that nobody waits for any more. Their copies do not count, and go once there are enough
/// others in sync.
///
/// # Errors
/// There is no room for more, or there are not enough fault domains. With force provisioning there are as many as there can be.
pub fn copies_change(
    inventory: &Inventory,
    policy: &Policy,
    object: &ObjectRecord,
    lost: &BTreeSet<ComponentId>,
) -> Result<Option<CopiesChange>, PlaceError> {
    let Some(copies) = copies_of(object, lost) else { return Ok(None) };
    let wanted = policy.copies();
    let never_made: Vec<&Copy<'_>> = copies.iter().filter(|c| !c.is_made && c.is_lost).collect();
    if !never_made.is_empty() {
        return Ok(Some(CopiesChange::Remove(never_made.into_iter().flat_map(Copy::ids).collect())));
    }
    let kept = copies.iter().filter(|c| !c.is_lost).count();
    match () {
        () if copies.iter().any(|c| !c.is_made) || copies.iter().all(|c| !c.is_in_sync) => Ok(None),
        () if kept < wanted => added(inventory, policy, object, lost, wanted - kept),
        () if copies.len() > wanted => Ok(removed(copies, wanted)),
        () => Ok(None),
    }
}

/// A copy of an object: a component of each mirror.
struct Copy<'a> {
    components: Vec<&'a ComponentRecord>,
    is_made: bool,
    is_in_sync: bool,
    is_lost: bool,
    is_owners: bool,
}

impl Copy<'_> {
    fn ids(&self) -> impl Iterator<Item = ComponentId> {
        self.components.iter().map(|c| c.id)
    }
}

/// The copies that an object is to have, in the order of its record. `None`: it has none, or those of its mirrors do not match yet.
fn copies_of<'a>(object: &'a ObjectRecord, lost: &BTreeSet<ComponentId>) -> Option<Vec<Copy<'a>>> {
    let stay: Vec<Vec<&ComponentRecord>> = object.mirrors.iter().map(|m| m.iter().filter(|c| !c.leaving).collect()).collect();
    let have = stay.first().map(Vec::len).filter(|have| *have > 0)?;
    let copy = |n: usize| {
        let components: Vec<&ComponentRecord> = stay.iter().map(|mirror| mirror[n]).collect();
        let all = |is: fn(&ComponentRecord) -> bool| components.iter().all(|c| is(c));
        Copy {
            is_made: all(ComponentRecord::is_used),
            is_in_sync: all(|c| c.state == CopyState::Active),
            is_lost: components.iter().any(|c| lost.contains(&c.id)),
            is_owners: components.iter().any(|c| Some(c.node.as_str()) == owner_of(object)),
            components,
        }
    };
    stay.iter().all(|mirror| mirror.len() == have).then(|| (0..have).map(copy).collect())
}

/// Those that stay are in sync: so a copy that is lost, or comes back too late, is kept as long as another one takes its place.
fn removed(mut copies: Vec<Copy<'_>>, wanted: usize) -> Option<CopiesChange> {
    copies.sort_by_key(|c| (!c.is_in_sync, c.is_lost, !c.is_owners));
    let leaving = copies.split_off(wanted);
    copies.iter().all(|c| c.is_in_sync).then(|| CopiesChange::Remove(leaving.iter().flat_map(Copy::ids).collect()))
}

fn added(
    inventory: &Inventory,
    policy: &Policy,
    object: &ObjectRecord,
    lost: &BTreeSet<ComponentId>,
    missing: usize,
) -> Result<Option<CopiesChange>, PlaceError> {
    let domain = |c: &ComponentRecord| inventory.nodes.iter().find(|n| n.name == c.node).map_or(c.node.clone(), |n| n.fault_domain.clone());
    let stay = object.components().filter(|c| !c.leaving && !lost.contains(&c.id));
    let taken: BTreeSet<String> = stay.map(domain).collect();
    // A node has one copy of an object, also while one leaves.
    let has_none = |node: &str| object.components().all(|c| c.node != node);
    let mut others = inventory.clone();
    others.nodes.retain(|n| has_none(&n.name) && !taken.contains(&n.fault_domain));
    let free = others.fault_domains();
    let (needed, have) = (policy.copies(), taken.len() + free.len());
    if have < needed && !policy.force_provisioning {
        let shortfall = Shortfall::FaultDomains { failures: policy.failures_to_tolerate, needed, have };
        return Err(PlaceError::Shortfalls(vec![shortfall]));
    }
    let bytes = object.components().map(|c| c.bytes).max().unwrap_or(0);
    let reserve = reserve_chunks(bytes, policy.space_reservation_percent);
    let chosen = [Room::Outlook, Room::Free].map(|room| best(&free, policy.stripe_width.into(), missing, room));
    let place = |reserve| chosen.iter().find_map(|domains| fill(domains, object.mirrors.len(), bytes, reserve));
    match place(reserve) {
        Some(slots) if slots.is_empty() => Ok(None),
        Some(slots) => Ok(Some(CopiesChange::Add(slots))),
        None if policy.force_provisioning => Ok(place(0).map(CopiesChange::Add)),
        None => {
            let [_, domains] = &chosen;
            Err(PlaceError::NoSpace {
                needed_bytes: reserve * object.mirrors.len() as u64 * base::unit::CHUNK_BYTES,
                free_bytes: domains.iter().map(Domain::free_bytes).min().unwrap_or(0),
                devices: domains.iter().map(|d| d.devices.len()).min().unwrap_or(0),
            })
        }
    }
}

/// What becomes of an object when some of its components go, with a disk group or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Without {
    /// It goes on with its other copies.
    Kept(ObjectRecord),
    /// The same, and its owner has one of them: while that serves, another node is to own it first.
    Owned {
        /// The owner, as records name it.
        owner: String,
        /// What is kept.
        kept: ObjectRecord,
    },
    /// There is no other copy in sync of some mirror: it is lost.
    Lost,
}

/// An object without the components that `goes` names. What else there is of the same copies leaves.
pub fn without(object: &ObjectRecord, goes: impl Fn(&ComponentRecord) -> bool) -> Without {
    let mut kept = object.clone();
    let copies = object.mirrors.iter().map(Vec::len).max().unwrap_or(0);
    let going: Vec<usize> = (0..copies).filter(|n| object.mirrors.iter().any(|mirror| mirror.get(*n).is_some_and(&goes))).collect();
    for mirror in &mut kept.mirrors {
        mirror.iter_mut().enumerate().filter(|(n, _)| going.contains(n)).for_each(|(_, c)| c.leaving = true);
        mirror.retain(|c| !goes(c));
    }
    let stays = |mirror: &Vec<ComponentRecord>| mirror.iter().any(|c| c.is_used() && c.state == CopyState::Active);
    match owner_of(object) {
        _ if !kept.mirrors.iter().all(stays) => Without::Lost,
        Some(owner) if object.components().any(|c| c.node == owner && goes(c)) => Without::Owned { owner: owner.to_owned(), kept },
        _ => Without::Kept(kept),
    }
}

impl CopiesChange {
    /// Changes an object so. `new_id`: of a component that is to be made.
    pub fn apply(&self, object: &mut ObjectRecord, mut new_id: impl FnMut() -> ComponentId) {
        match self {
            CopiesChange::Add(copies) => {
                for slots in copies {
                    for (mirror, slot) in object.mirrors.iter_mut().zip(slots) {
                        let planned = ComponentRecord::planned(new_id(), slot);
                        mirror.push(ComponentRecord { state: CopyState::Absent, synced_to: Epoch(0), ..planned });
                    }
                }
            }
            CopiesChange::Remove(leaving) => {
                object.components_mut().filter(|c| leaving.contains(&c.id)).for_each(|c| c.leaving = true);
            }
        }
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
