//! Who owns an object and how its copies stand, as its record in the directory says: the part that only the owner, or who takes over,
//! changes.
//!
//! Owns: [`OwnershipRecord`] and its parts.
//! Invariant: copies of one mirror stand together, mirrors in their order.
//! Never: decides on a change.

use crate::id::{ComponentId, NodeId};
use crate::mirror::CopyState;
use crate::order::Ownership;
use crate::unit::{Epoch, Incarnation};
use serde::{Deserialize, Serialize};

/// An owner: one life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnerId {
    /// The node.
    pub node: NodeId,
    /// Its incarnation; 0: whichever, for a record of before owners were named.
    pub incarnation: Incarnation,
}

/// Which change made a record what it is: 16 bytes that no other change has. A change whose answer was lost is known again by them.
/// In records it is text of 32 digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Nonce(pub u128);

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> String {
        format!("{:032x}", nonce.0)
    }
}

impl TryFrom<String> for Nonce {
    type Error = core::num::ParseIntError;
    fn try_from(text: String) -> Result<Nonce, Self::Error> {
        u128::from_str_radix(&text, 16).map(Nonce)
    }
}

impl Nonce {
    /// Of records that nobody has changed.
    pub const NONE: Nonce = Nonce(0);

    /// The one after it. The first one of a life is random, so no two lives meet.
    #[must_use]
    pub const fn next(self) -> Nonce {
        Nonce(self.0.wrapping_add(1))
    }
    /// Whether it is that of no change.
    pub const fn is_none(&self) -> bool {
        self.0 == 0
    }
}

/// A copy of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRecord {
    /// Which mirror of the object.
    pub mirror: u16,
    /// The node that has it.
    pub node: NodeId,
    /// The component.
    pub component: ComponentId,
    /// Its state.
    pub state: CopyState,
    /// The last epoch in which it was in sync, as far as it left since. 0: it never was.
    pub synced_to: Epoch,
}

/// Who owns an object, and how its copies stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipRecord {
    /// Epoch, the term's first epoch, and the one in which the object last stopped being in sync on all copies.
    pub ownership: Ownership,
    /// The owner.
    pub owner: OwnerId,
    /// Of the last change.
    pub nonce: Nonce,
    /// The directory came back from a backup, and not every copy was heard since.
    pub restored: bool,
    /// All copies, by mirror.
    pub copies: Vec<CopyRecord>,
}

impl OwnershipRecord {
    /// Its epoch.
    pub const fn epoch(&self) -> Epoch {
        self.ownership.epoch
    }
    /// How many mirrors it has.
    pub fn mirrors(&self) -> u16 {
        self.copies.last().map_or(0, |c| c.mirror + 1)
    }
    /// The copy that is this component.
    pub fn copy(&self, component: ComponentId) -> Option<&CopyRecord> {
        self.copies.iter().find(|c| c.component == component)
    }
    /// Copies in sync.
    pub fn active(&self) -> impl Iterator<Item = &CopyRecord> {
        self.copies.iter().filter(|c| c.state.is_in_sync())
    }
    /// Copies of a mirror that are in sync.
    pub fn active_of(&self, mirror: u16) -> impl Iterator<Item = &CopyRecord> {
        self.active().filter(move |c| c.mirror == mirror)
    }
    /// The copy of a mirror that is read at a node: its own one if that is in sync, else the first that is.
    pub fn source(&self, mirror: u16, node: NodeId) -> Option<&CopyRecord> {
        self.active_of(mirror).find(|c| c.node == node).or_else(|| self.active_of(mirror).next())
    }
    /// Whether it is in sync on all copies.
    pub fn is_whole(&self) -> bool {
        self.copies.iter().all(|c| c.state.is_in_sync())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(mirror: u16, node: u8, state: CopyState) -> CopyRecord {
        let component = ComponentId::from_bytes([mirror as u8 * 16 + node; 16]);
        CopyRecord { mirror, node: NodeId::from_bytes([node; 16]), component, state, synced_to: Epoch(0) }
    }

    #[test]
    fn the_own_copy_is_read_if_it_is_in_sync_and_else_another_one() {
        let copies = vec![
            copy(0, 1, CopyState::Active),
            copy(0, 2, CopyState::Active),
            copy(1, 1, CopyState::Absent),
            copy(1, 3, CopyState::Active),
        ];
        let owner = OwnerId { node: copies[1].node, incarnation: Incarnation(1) };
        let record = OwnershipRecord { ownership: Ownership::FIRST, owner, nonce: Nonce::NONE, restored: false, copies };
        let node = |n: u8| NodeId::from_bytes([n; 16]);
        let read = |mirror, at| record.source(mirror, node(at)).map(|c| c.node);
        assert_eq!(read(0, 2), Some(node(2)));
        assert_eq!((read(0, 3), read(1, 1), read(2, 1)), (Some(node(1)), Some(node(3)), None));
        assert!(!record.is_whole() && record.mirrors() == 2);
    }
}
