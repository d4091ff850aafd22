//! A mirror and its copies: the words of the records, of what is served, and of the object layer.
//!
//! ```text
//!  object ─ pieces of 1 MiB, dealt in turn (RAID-0) ─┬─► mirror 0 ─┬─ copy (a component of one node)
//!                                                    │    (RAID-1) └─ copy (a component of another node)
//!                                                    └─► mirror 1 ─┬─ ...
//! ```
//!
//! Owns: the rule that deals pieces to mirrors, [`CopyState`].
//! Invariant: the rule never changes (it is part of the format of the devices).
//! Never: decides which state a copy gets.

use crate::unit::PIECE_BYTES;
use serde::{Deserialize, Serialize};

/// The mirror that holds byte `offset` of an object of `mirrors`: piece `p` lies on mirror `p % mirrors`.
#[inline]
pub const fn mirror_of(offset: u64, mirrors: usize) -> usize {
    ((offset / PIECE_BYTES) % mirrors as u64) as usize
}

/// The state of a copy, which is a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// In sync.
    Active,
    /// Not reachable; may come back.
    Absent,
    /// Lost.
    Degraded,
    /// Behind.
    Stale,
    /// Catching up.
    Resyncing,
}

impl CopyState {
    /// Whether every change has to reach it before it is answered.
    pub const fn gets_changes(self) -> bool {
        matches!(self, Self::Active | Self::Resyncing)
    }
    /// Whether it may be read.
    pub const fn is_in_sync(self) -> bool {
        matches!(self, Self::Active)
    }
}

/// How fast copies that come back into sync get what they miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResyncPace {
    /// Not at all, until something else is said. They get what hosts write.
    Paused,
    /// A small part of the time, whether hosts ask for something or not.
    Low,
    /// As fast as it goes while hosts ask for nothing; beside them so that their latency hardly rises.
    #[default]
    Normal,
    /// As fast as it goes.
    High,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_part_of_the_format_and_stays_as_it_was() {
        let of = |mirrors| (0..8).map(|piece| mirror_of(piece * PIECE_BYTES + piece, mirrors)).collect::<Vec<_>>();
        assert_eq!(of(1), [0; 8]);
        assert_eq!(of(3), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(mirror_of(u64::MAX, 256), 255);
    }
}
