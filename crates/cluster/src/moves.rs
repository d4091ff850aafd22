//! Another layout for a volume that hosts use: the stripes that its policy asks for, or the disk groups that it is to lie on, and its object does not.
//!
//! ```text
//!  volume ─► object                        volume ─► object           volume ─► new object
//!             ─► its other place is made,            │ data  ▲                    ▲ swapped, while no request is under way
//!                with a new object                   └───────┘       other place ─► object ─► both are deleted
//!                                          other place ─► new object
//! ```
//!
//! Owns: [`new_layout`], [`swapped`], what there is to do about a volume that is laid out anew ([`Move::due`]).
//! Invariants: the new layout has a copy where the volume's owner is, and the stripes that the policy asks for; objects are swapped only when all copies
//! of the new one are in sync and one node owns both.
//! Never: moves data.

use crate::inventory::Inventory;
use crate::paths::owner_of;
use crate::place::{Layout, PlaceError, compliance, place};
use crate::policy::{Policy, Shortfall};
use crate::record::{ObjectRecord, Stage, VolumeRecord};
use base::CopyState;
use base::hooks::{self, SeededFault};

/// Where a volume is to lie that has other stripes than its policy asks for, or lies on other disk groups or devices than it is to. `None`: it lies as it is to, or
/// it cannot be had now.
/// `bytes_max`: to which it is to be able to grow.
///
/// # Errors
/// There is no room for it, or its owner has too few devices.
pub fn new_layout(
    inventory: &Inventory,
    policy: &Policy,
    volume: &VolumeRecord,
    object: &ObjectRecord,
    bytes_max: u64,
) -> Result<Option<Layout>, PlaceError> {
    if !has_other_layout(inventory, policy, volume, object) {
        return Ok(None);
    }
    let Some(owner) = owner_of(object) else { return Ok(None) };
    let inventory = &inventory.clone().on(&volume.groups);
    let mut near = inventory.clone();
    near.nodes.retain(|node| object.used().any(|c| c.node == node.name));
    let (mut refused, mut elsewhere) = (None, false);
    // Where it has copies already, its owner stays whoever that is. Elsewhere there has to be one at its owner.
    for inventory in [&near, inventory] {
        match place(inventory, policy, volume.bytes, bytes_max) {
            // By force it may have been placed on fewer devices: it would lie as it does now, but for devices that are to leave.
            Ok(placed) if lacks_stripes(inventory, policy, &placed.layout) && !lies_on_leaving(inventory, object) => {}
            Ok(placed) if placed.layout.mirrors.iter().flat_map(|m| &m.copies).any(|slot| slot.node == owner) => {
                return Ok(Some(placed.layout));
            }
            Ok(_) => elsewhere = true,
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        _ if policy.force_provisioning => Ok(None),
        Some(error) if !elsewhere || error != PlaceError::NoGroups => Err(error),
        _ if elsewhere => Err(PlaceError::NotAtOwner { owner: owner.to_owned() }),
        _ => Ok(None),
    }
}

/// Whether the layout of a volume has fewer stripes than its policy asks for, or was made for more, or is on other disk groups, or on a device that is
/// to leave.
pub fn has_other_layout(inventory: &Inventory, policy: &Policy, volume: &VolumeRecord, object: &ObjectRecord) -> bool {
    let off = |c: &crate::record::ComponentRecord| !volume.groups.is_empty() && !volume.groups.contains(&c.group);
    lacks_stripes(inventory, policy, &object.layout())
        || object.used().any(off)
        || lies_on_leaving(inventory, object)
        || volume.stripe_width.is_some_and(|width| width > policy.stripe_width) && object.mirrors.len() > policy.stripe_width.into()
}

fn lies_on_leaving(inventory: &Inventory, object: &ObjectRecord) -> bool {
    object.used().any(|c| inventory.leaving.contains(&(c.group, c.capacity_index)))
}

fn lacks_stripes(inventory: &Inventory, policy: &Policy, layout: &Layout) -> bool {
    compliance(policy, layout, inventory).iter().any(|s| matches!(s, Shortfall::StripeWidth { .. }))
}

/// What there is to do about a volume that is laid out anew, or about its other place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing by now.
    Wait,
    /// To the owner of both: the data goes to the other place.
    Fill,
    /// The owner of the volume is to own the other place, too.
    Follow,
    /// The volume is not to be laid out anew any more, or has no other place.
    GiveUp,
}

impl Move {
    /// `other`: what `volume` moves to, with its object, if there is such a volume; `wanted`: it still lies otherwise than it is to.
    pub fn due(volume: &VolumeRecord, object: &ObjectRecord, other: Option<(&VolumeRecord, &ObjectRecord)>, wanted: bool) -> Move {
        let Some((other, place)) = other.filter(|(other, _)| other.stage != Stage::Deleting && other.place_of == Some(volume.id)) else {
            return Move::GiveUp;
        };
        match () {
            () if !wanted || (other.bytes, other.lba_bytes, &other.groups) != (volume.bytes, volume.lba_bytes, &volume.groups) => {
                Move::GiveUp
            }
            () if volume.stage != Stage::Ready || other.stage != Stage::Ready => Move::Wait,
            () if owner_of(object) != owner_of(place) => Move::Follow,
            () if other.is_under_way() || volume.is_under_way() => Move::Wait,
            () => Move::Fill,
        }
    }
}

/// Both volumes and objects as they are when the volume has the new layout: the volume, its new object, what is left to be deleted, and its object.
/// `None`: they cannot be swapped now.
pub fn swapped(
    volume: &VolumeRecord,
    object: &ObjectRecord,
    other: &VolumeRecord,
    place: &ObjectRecord,
) -> Option<(VolumeRecord, ObjectRecord, VolumeRecord, ObjectRecord)> {
    let in_sync = place.components().all(|c| c.is_used() && c.state == CopyState::Active) || hooks::seeded(SeededFault::SwapOutOfSync);
    let are_those = volume.moves_to == Some(other.id) && volume.object == object.id && other.object == place.id;
    if !are_those || !in_sync || Move::due(volume, object, Some((other, place)), true) != Move::Fill {
        return None;
    }
    let (mut volume, mut object, mut other, mut place) = (volume.clone(), object.clone(), other.clone(), place.clone());
    core::mem::swap(&mut volume.object, &mut other.object);
    core::mem::swap(&mut object.volume, &mut place.volume);
    (volume.moves_to, volume.stripe_width) = (None, other.stripe_width);
    other.stage = Stage::Deleting;
    Some((volume, place, other, object))
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
