//! What an administrator sets of the front end.
//!
//! Invariant: whatever is set, the limits of [`crate::limits`] hold too.

use crate::limits::{
    ADDRESS_HANDSHAKES_MAX, CNTLID_MAX, CNTLID_MIN, HOST_CONNECTIONS_MAX, HOST_MEMORY_BYTES_MAX, MEMORY_BYTES_MAX, SLICE_CONTROLLERS,
    STATIC_CONTROLLERS,
};
use base::NodeSlot;
use base::hooks::{self, SeededFault};
use frontend::HostLimits;
use std::net::SocketAddr;

/// The controller IDs that this node gives. Those of two nodes of a cluster never have one in common, as hosts demand that use several paths
/// (base 2.0, 3.1: unique within an NVM subsystem): each node has the slice of its slot.
///
/// ```text
///  1 ─────── 1023 │ 1024 ───── 2046 │ ... │ 64450 ── 65472 │ 65473 ─ 65519 │ FFF0h ..
///  slot 0: dynamic, static  slot 1          slot 63           nobody          reserved
/// ```
///
/// Discovery controllers are in no NVM subsystem: their IDs come from outside of the slice, so that nobody who asks discovery takes one of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerIds {
    /// The lowest.
    pub first: u16,
    /// The highest; the topmost [`ControllerIds::statics`] of the slice are for static controllers.
    pub last: u16,
    /// How many are for static controllers.
    pub statics: u16,
}

impl Default for ControllerIds {
    fn default() -> Self {
        Self::of_slot(NodeSlot::FIRST)
    }
}

impl ControllerIds {
    /// The fewest IDs of a slice: one for each core, and as many again.
    pub const LEAST: u16 = 128;

    /// A slice; `None` when it is too small, too large, or leaves fewer than half for dynamic controllers.
    pub fn new(first: u16, last: u16, statics: u16) -> Option<Self> {
        let count = last.checked_sub(first)?.checked_add(1)?;
        let fits = first >= CNTLID_MIN && last <= CNTLID_MAX && count >= Self::LEAST && statics <= count / 2;
        fits.then_some(Self { first, last, statics })
    }
    /// The slice of a slot.
    pub fn of_slot(slot: NodeSlot) -> Self {
        let first = CNTLID_MIN + u16::from(slot.number()) * SLICE_CONTROLLERS;
        let more = u16::from(hooks::seeded(SeededFault::SlicesOverlap));
        Self { first, last: first + SLICE_CONTROLLERS - 1 + more, statics: STATIC_CONTROLLERS }
    }
    /// Whether every ID of it is in `other` too.
    pub fn is_within(&self, other: &Self) -> bool {
        self.first >= other.first && self.last <= other.last
    }
    /// The IDs of discovery controllers: those below or above the slice, whichever are more. Where it leaves too few, the slice itself.
    pub(crate) fn for_discovery(&self) -> Self {
        let (below, above) = (Self::new(CNTLID_MIN, self.first - 1, 0), Self::new(self.last.saturating_add(1), CNTLID_MAX, 0));
        let count = |ids: &Self| ids.last - ids.first;
        below.into_iter().chain(above).max_by_key(count).unwrap_or(*self)
    }
    /// The highest ID of dynamic controllers.
    pub(crate) fn last_dynamic(&self) -> u16 {
        self.last - self.statics
    }
    /// Whether a controller with this ID is static.
    pub(crate) fn is_static(&self, cntlid: u16) -> bool {
        cntlid > self.last_dynamic() && cntlid <= self.last
    }
    /// The dynamic ID after `last` for controllers of `core`: the next in its residue class, from the start again at the end.
    pub(crate) fn next(&self, last: u16, core: usize, cores: usize) -> u16 {
        let next = usize::from(last) + cores;
        if last >= self.first && next <= usize::from(self.last_dynamic()) {
            return next as u16;
        }
        let first = usize::from(self.first);
        (first + (core + cores - first % cores) % cores) as u16
    }
}

/// Another discovery service that is published to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// Where it is.
    pub addr: SocketAddr,
    /// Its NQN, when it is not the well-known one.
    pub nqn: Option<String>,
}

/// What is set; see each field's limit in [`crate::limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The slot of this node in its cluster.
    pub slot: NodeSlot,
    /// The controller IDs of this node: the slice of its slot, or a part of it.
    pub controller_ids: ControllerIds,
    /// Connections of one host, unless its own limit says otherwise.
    pub host_connections_max: u32,
    /// Memory for the data of one host's commands, in bytes, unless its own limit says otherwise.
    pub host_memory_bytes_max: u64,
    /// Memory for the data of all hosts' commands, in bytes.
    pub memory_bytes_max: u64,
    /// Connections of one address, on one core, that have not got through their Connect command.
    pub address_handshakes_max: u32,
    /// Other discovery services.
    pub referrals: Vec<Referral>,
}

impl Options {
    /// The usual ones of the node with this slot.
    pub fn of_slot(slot: NodeSlot) -> Self {
        Self { slot, controller_ids: ControllerIds::of_slot(slot), ..Self::default() }
    }
    /// What a host may take that has no limits of its own.
    pub fn host_limits(&self) -> HostLimits {
        HostLimits { connections: self.host_connections_max, memory: self.host_memory_bytes_max }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slot: NodeSlot::FIRST,
            controller_ids: ControllerIds::default(),
            host_connections_max: HOST_CONNECTIONS_MAX,
            host_memory_bytes_max: HOST_MEMORY_BYTES_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
            address_handshakes_max: ADDRESS_HANDSHAKES_MAX,
            referrals: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::home_of;

    #[test]
    fn ids_of_a_core_are_found_again_and_stay_in_the_slice() {
        for ids in [ControllerIds::default(), ControllerIds::new(1024, 2046, 32).unwrap(), ControllerIds::new(65_392, 65_519, 64).unwrap()]
        {
            for cores in [1, 2, 3, 16, 64] {
                for core in 0..cores {
                    let mut last = 0;
                    for _ in 0..140_000 / cores {
                        last = ids.next(last, core, cores);
                        assert!((ids.first..=ids.last_dynamic()).contains(&last), "{last} of {ids:?}");
                        assert!(home_of(last, cores) == core && !ids.is_static(last), "{last} of {core}/{cores}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_slices_of_all_nodes_share_no_id_and_hold_none_that_is_reserved() {
        let slices: Vec<_> = NodeSlot::all().map(ControllerIds::of_slot).collect();
        for pair in slices.windows(2) {
            assert_eq!(pair[0].last + 1, pair[1].first, "{pair:?}");
        }
        for ids in &slices {
            assert_eq!(ControllerIds::new(ids.first, ids.last, ids.statics), Some(*ids), "it is one that an administrator could have set");
            assert_eq!(ids.last - ids.first + 1, 1023);
        }
        assert_eq!((slices[0].first, slices[63].last), (1, 65_472));
        assert_eq!(ControllerIds::default(), slices[0], "a node alone has the first");
    }

    #[test]
    fn discovery_takes_no_id_of_the_slice() {
        for slice in NodeSlot::all().map(ControllerIds::of_slot) {
            let ids = slice.for_discovery();
            assert!(ids.last < slice.first || ids.first > slice.last, "{ids:?} of {slice:?}");
            assert!(ids.first >= 1 && ids.last <= 0xFFEF && ids.last - ids.first > 30_000 && ids.statics == 0, "{ids:?}");
        }
        let all = ControllerIds::new(1, 0xFFEF, 0).unwrap();
        assert_eq!(all.for_discovery(), all, "there are no others");
    }

    #[test]
    fn a_slice_has_ids_that_there_are_and_enough_of_them() {
        assert_eq!(ControllerIds::new(0, 1023, 0), None, "zero is no controller");
        assert_eq!(ControllerIds::new(1, 0xFFF0, 0), None, "reserved IDs");
        assert_eq!(ControllerIds::new(10, 9, 0), None);
        assert_eq!(ControllerIds::new(1, 64, 0), None, "too few for all cores");
        assert_eq!(ControllerIds::new(1, 200, 101), None, "more static than dynamic");
        let part = ControllerIds::new(1100, 1300, 8).unwrap();
        let inside = NodeSlot::all().map(|slot| part.is_within(&ControllerIds::of_slot(slot)));
        assert!(inside.enumerate().all(|(slot, inside)| inside == (slot == 1)));
    }

    #[cfg(feature = "hooks")]
    #[test]
    fn seeded_faults_are_noticed() {
        base::hooks::notices(SeededFault::SlicesOverlap, the_slices_of_all_nodes_share_no_id_and_hold_none_that_is_reserved);
    }
}
