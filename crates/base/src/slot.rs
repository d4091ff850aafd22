//! Slots: the small number that a node has in its cluster, from which what must differ between nodes is made.
//!
//! Invariant: a slot is below [`NODES_MAX`].

use core::fmt;
use serde::{Deserialize, Serialize};

/// The most nodes of a cluster.
pub const NODES_MAX: u8 = 64;

/// The slot of a node: 0 to 63, of no other node of its cluster. Its controller IDs, ANA group and port IDs come from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct NodeSlot(u8);

impl NodeSlot {
    /// Of a node that is alone.
    pub const FIRST: NodeSlot = NodeSlot(0);
    /// The slot with this number; `None`: there is none.
    pub const fn new(number: u8) -> Option<NodeSlot> {
        if number < NODES_MAX { Some(NodeSlot(number)) } else { None }
    }
    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
    /// All slots, ascending.
    pub fn all() -> impl Iterator<Item = NodeSlot> {
        (0..NODES_MAX).map(NodeSlot)
    }
}

/// A number that is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no slot of a node; it can be 0 to 63")]
pub struct NoSlot(pub u8);

impl TryFrom<u8> for NodeSlot {
    type Error = NoSlot;
    fn try_from(number: u8) -> Result<Self, NoSlot> {
        NodeSlot::new(number).ok_or(NoSlot(number))
    }
}

impl From<NodeSlot> for u8 {
    fn from(slot: NodeSlot) -> u8 {
        slot.0
    }
}

impl fmt::Display for NodeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_sixty_four_slots_and_no_other_number_is_one() {
        assert_eq!((NodeSlot::all().count(), NodeSlot::all().next(), NodeSlot::all().last()), (64, NodeSlot::new(0), NodeSlot::new(63)));
        assert_eq!((NodeSlot::new(64), NodeSlot::try_from(255)), (None, Err(NoSlot(255))));
        assert!(NodeSlot::all().all(|s| NodeSlot::try_from(u8::from(s)) == Ok(s)));
    }
}
