//! The order of changes: what the owner of an object says with each change, and what every copy keeps of it.
//!
//! Owns: [`Seq`], [`Order`].
//! Invariant: a sequence number is a pair and is compared as a pair; a counter of an old term never counts against one of a new term.
//! Never: decides who the owner is.

use crate::unit::Epoch;
use core::fmt;

/// The place of a change among those of its mirror and lane: the epoch in which the owner's term began, and how many changes the owner has
/// ordered there since. Compared as a pair: who was away may hold a higher counter of an old term.
// Packed: it goes along with every change, from the owner to the log, twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(Rust, packed(4))]
pub struct Seq {
    /// The epoch in which the owner's term began.
    pub term: Epoch,
    /// From 1 in each term; 0: before the first change.
    pub counter: u64,
}

const _: () = assert!(size_of::<Order>() == 32);

impl Seq {
    /// As one number. (What compares the fields one after the other copies the pair to the stack and reads it back in other pieces than it wrote;
    /// such a read waits for every write before it.)
    #[inline]
    const fn number(self) -> u128 {
        (self.term.0 as u128) << 64 | self.counter as u128
    }
}

impl Ord for Seq {
    #[inline]
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.number().cmp(&other.number())
    }
    #[inline]
    fn max(self, other: Self) -> Self {
        if self.number() > other.number() { self } else { other }
    }
}

impl PartialOrd for Seq {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.number() < other.number()
    }
    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.number() >= other.number()
    }
    #[inline]
    fn gt(&self, other: &Self) -> bool {
        self.number() > other.number()
    }
    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.number() <= other.number()
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seq { term, counter } = *self;
        write!(f, "{term}.{counter}")
    }
}

/// What a change carries from its owner to each copy, into the log and to the chunk that it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The epoch of the object in which the change was made. A copy refuses what is older than it has accepted.
    pub epoch: Epoch,
    /// The epoch in which the object last stopped being in sync on all copies: what changed since is listed block by block.
    pub period_start: Epoch,
    /// The place of the change.
    pub seq: Seq,
    /// Everything up to here is durable on all copies that are in sync. Below `seq`.
    pub mark: Seq,
}

/// How the owner of an object orders its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ownership {
    /// The epoch of the object.
    pub epoch: Epoch,
    /// The epoch in which the owner's term began. At most `epoch`.
    #[serde(default = "first")]
    pub term: Epoch,
    /// The epoch in which the object last stopped being in sync on all copies. At most `epoch`.
    #[serde(default = "first")]
    pub period_start: Epoch,
}

/// Of records that were written before terms and periods were.
fn first() -> Epoch {
    Ownership::FIRST.epoch
}

impl Ownership {
    /// Of an object that was just made.
    pub const FIRST: Ownership = Ownership { epoch: Epoch(1), term: Epoch(1), period_start: Epoch(1) };

    /// A new owner, or a new life of the same one. `None` after 2^32 epochs.
    pub fn next_term(self) -> Option<Ownership> {
        let next = Epoch(self.epoch.0.checked_add(1)?);
        Some(Ownership { epoch: next, term: next, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_an_old_term_is_before_every_one_of_a_new_term() {
        let old = Seq { term: Epoch(3), counter: 900 };
        let new = Seq { term: Epoch(4), counter: 1 };
        assert!(old < new && Seq { counter: 0, ..new } > old && Seq::default() < old);
        assert_eq!(old.to_string(), "3.900");
    }
}
