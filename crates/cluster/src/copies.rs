//! Another number of copies for an object that hosts use: what its policy asks for, and its layout does not have.
//!
//! ```text
//!  planned (absent, not made) ─► its node makes it ─► absent ─► resyncing ─► active
//!                                                     └────────────┴────────────┴──► leaving ─► its node deletes it ─► gone
//! ```
//!
//! Owns: [`copies_change`], what that makes of an object, and [`without`].
//! Invariants: one change of an object at a time; what is added lies in a fault domain of its own; a copy in sync stays in each mirror, the owner's if
//! it is one.
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
    /// Copies to be deleted: their places among the copies of each mirror.
    Remove(Vec<usize>),
}

/// What is to be changed so that an object has as many copies as its policy asks for; `None`: nothing, or not now, because the last change is under way
/// or those that are to stay are not in sync.
///
/// # Errors
/// There is no room for more, or there are not enough fault domains. With force provisioning there are as many as there can be.
pub fn copies_change(inventory: &Inventory, policy: &Policy, object: &ObjectRecord) -> Result<Option<CopiesChange>, PlaceError> {
    let Some(first) = object.mirrors.first() else { return Ok(None) };
    let (have, wanted) = (first.len(), policy.copies());
    let quiet = object.components().all(ComponentRecord::is_used) && object.mirrors.iter().all(|copies| copies.len() == have);
    match have.cmp(&wanted) {
        _ if !quiet || have == 0 => Ok(None),
        core::cmp::Ordering::Equal => Ok(None),
        core::cmp::Ordering::Greater => Ok(removed(object, have, wanted)),
        core::cmp::Ordering::Less => added(inventory, policy, object, wanted - have),
    }
}

fn removed(object: &ObjectRecord, have: usize, wanted: usize) -> Option<CopiesChange> {
    let active = |n: usize| object.mirrors.iter().all(|copies| copies[n].state == CopyState::Active);
    let owns = |n: usize| object.mirrors.iter().any(|copies| Some(copies[n].node.as_str()) == owner_of(object));
    let mut order: Vec<usize> = (0..have).collect();
    order.sort_by_key(|n| (!active(*n), !owns(*n), *n));
    let mut leaving = order.split_off(wanted);
    leaving.sort_unstable();
    order.iter().any(|n| active(*n)).then_some(CopiesChange::Remove(leaving))
}

fn added(inventory: &Inventory, policy: &Policy, object: &ObjectRecord, missing: usize) -> Result<Option<CopiesChange>, PlaceError> {
    let domain = |c: &ComponentRecord| inventory.nodes.iter().find(|n| n.name == c.node).map_or(c.node.clone(), |n| n.fault_domain.clone());
    let taken: BTreeSet<String> = object.components().map(domain).collect();
    let free: Vec<Domain> = inventory.fault_domains().into_iter().filter(|d| !taken.contains(&d.name)).collect();
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
            CopiesChange::Remove(copies) => {
                for mirror in &mut object.mirrors {
                    copies.iter().for_each(|n| mirror[*n].leaving = true);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
