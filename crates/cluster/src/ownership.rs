//! Between an object's record and what of it the machine of its owner reads and writes ([`OwnershipRecord`]).
//!
//! Owns: both ways: [`ownership_of`], [`with_ownership`].
//! Invariant: there and back changes nothing; what is no part of the ownership stays as it is.
//! Never: decides on a change.

use crate::paths::owner_of;
use crate::record::{ObjectRecord, OwnershipChange};
use base::{CopyRecord, NodeId, OwnerId, OwnershipRecord};

/// Who owns an object, and how the copies stand that it goes by. `id_of`: of a node, by its name; `None`: one of them is not known.
pub fn ownership_of(object: &ObjectRecord, id_of: impl Fn(&str) -> Option<NodeId>) -> Option<OwnershipRecord> {
    let mut copies = Vec::with_capacity(object.components().count());
    for (mirror, components) in object.mirrors.iter().enumerate() {
        for c in components.iter().filter(|c| c.is_used()) {
            let node = id_of(&c.node)?;
            copies.push(CopyRecord { mirror: mirror as u16, node, component: c.id, state: c.state, synced_to: c.synced_to });
        }
    }
    let OwnershipChange { owner_incarnation, nonce, restored } = object.change;
    let owner = OwnerId { node: id_of(owner_of(object)?)?, incarnation: owner_incarnation };
    Some(OwnershipRecord { ownership: object.ownership, owner, nonce, restored, copies })
}

/// The object with another ownership, and other states of its copies. `name_of`: of a node, by its id; `None`: the owner is not known, or a
/// component is
/// not one of the object.
pub fn with_ownership(
    object: &ObjectRecord,
    ownership: &OwnershipRecord,
    name_of: impl Fn(NodeId) -> Option<String>,
) -> Option<ObjectRecord> {
    let mut new = object.clone();
    let OwnershipRecord { owner, nonce, restored, copies, .. } = ownership;
    (new.owner, new.ownership) = (Some(name_of(owner.node)?), ownership.ownership);
    new.change = OwnershipChange { owner_incarnation: owner.incarnation, nonce: *nonce, restored: *restored };
    for copy in copies {
        let component = new.components_mut().find(|c| c.id == copy.component)?;
        (component.state, component.synced_to) = (copy.state, copy.synced_to);
    }
    Some(new)
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
