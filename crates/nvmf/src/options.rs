//! What an administrator sets of the front end.
//!
//! Invariant: whatever is set, the limits of [`crate::limits`] hold too.

use crate::limits::{
    ADDRESS_HANDSHAKES_MAX, CNTLID_MAX, CNTLID_MIN, HOST_CONNECTIONS_MAX, HOST_MEMORY_BYTES_MAX, MEMORY_BYTES_MAX, STATIC_CONTROLLERS,
};
use std::net::SocketAddr;

/// The controller IDs that this server gives. Servers of one cluster that have slices that do not overlap never give the same ID, as hosts
/// demand that use several paths (base 2.0, 3.1: unique within an NVM subsystem).
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
        Self { first: CNTLID_MIN, last: CNTLID_MAX, statics: STATIC_CONTROLLERS }
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
    /// The controller IDs of this server.
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

impl Default for Options {
    fn default() -> Self {
        Self {
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
    fn slices_of_several_servers_share_no_id() {
        let slices: Vec<_> = (0..64).map(|n| ControllerIds::new(1 + n * 1023, (n + 1) * 1023, 128).unwrap()).collect();
        for pair in slices.windows(2) {
            assert!(pair[0].last < pair[1].first);
        }
        assert_eq!(ControllerIds::new(0, 1023, 0), None, "zero is no controller");
        assert_eq!(ControllerIds::new(1, 0xFFF0, 0), None, "reserved IDs");
        assert_eq!(ControllerIds::new(10, 9, 0), None);
        assert_eq!(ControllerIds::new(1, 64, 0), None, "too few for all cores");
        assert_eq!(ControllerIds::new(1, 200, 101), None, "more static than dynamic");
    }
}
