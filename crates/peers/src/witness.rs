//! That nothing begins at its owner after its host was answered that its link was lost: both ends note what they do, for the simulator.
//!
//! Owns: [`Witness`]. Invariant: without the feature `hooks` (production) it is nothing, and does nothing.
//! Never: part of a decision.

use base::{Instant, NodeId, VolumeId};
use object::IoOp;

/// A change that another node was asked for, as both ends know it. Two that are alike have the same stamp: one is as old as the other.
#[derive(Debug)]
pub(crate) struct Witness {
    #[cfg(feature = "hooks")]
    key: on::Key,
}

#[cfg(not(feature = "hooks"))]
impl Witness {
    /// Of a request of one node to another.
    #[inline(always)]
    pub fn of(_: [NodeId; 2], _: VolumeId, _: Instant, _: &IoOp) -> Witness {
        Witness {}
    }
    /// Its host is answered that it does not begin any more.
    #[inline(always)]
    pub fn is_answered(&self) {}
    /// It begins at its owner.
    #[inline(always)]
    pub fn begins(&self) {}
}

#[cfg(feature = "hooks")]
mod on {
    use super::*;
    use base::{IoVerb, crc32c};
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    pub(super) type Key = ([NodeId; 2], VolumeId, Instant, IoVerb, (u64, u64), u32);

    thread_local! {
        static ANSWERED: RefCell<BTreeSet<Key>> = const { RefCell::new(BTreeSet::new()) };
    }

    impl Witness {
        /// Of a request of one node to another.
        pub fn of(nodes: [NodeId; 2], volume: VolumeId, stamp: Instant, op: &IoOp) -> Witness {
            let data = match op {
                IoOp::Write { data, .. } => data.first(),
                IoOp::CompareWrite { both, .. } => Some(&both.data),
                _ => None,
            };
            Witness { key: (nodes, volume, stamp, op.verb(), op.range(), data.map_or(0, |d| crc32c(&d.buf))) }
        }
        /// Its host is answered that it does not begin any more.
        pub fn is_answered(&self) {
            ANSWERED.with_borrow_mut(|all| all.insert(self.key));
        }
        /// It begins at its owner.
        pub fn begins(&self) {
            let over = ANSWERED.with_borrow(|all| all.contains(&self.key));
            assert!(!over, "{:?} begins, though its host was answered that it does not any more", self.key);
        }
    }

    /// Another world begins on this thread.
    pub fn forget() {
        ANSWERED.with_borrow_mut(BTreeSet::clear);
    }
}
#[cfg(feature = "hooks")]
pub use on::forget;
