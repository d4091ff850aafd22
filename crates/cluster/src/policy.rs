//! Storage policies: what an administrator asks of a volume.
//!
//! Owns: the vocabulary, its ranges, and what a given inventory cannot give.
//! Invariant: [`Policy::check`] looks at the policy alone; [`Policy::shortfalls`] looks at policy and inventory.
//! Never: decides where things go (see `place`).

use crate::inventory::{Inventory, Room};
use serde::{Deserialize, Serialize};

/// What one I/O counts as against [`Policy::iops_limit`]: each started 32 KiB is one.
pub const IOPS_LIMIT_UNIT_BYTES: u64 = 32 << 10;
/// The most capacity devices that one copy of an object can be asked to stripe over.
pub const STRIPE_WIDTH_MAX: u8 = 12;
/// The most node failures that can be asked to be tolerated.
pub const FAILURES_TO_TOLERATE_MAX: u8 = 3;
/// How long a copy that is away is waited for, in seconds, where nothing else is said: a server is repaired, or started with a new kernel, within an hour.
pub const REPAIR_AFTER_S: u64 = 3600;
/// The lowest limits that still let a host use its volume.
const IOPS_LIMIT_MIN: u64 = 10;
const BANDWIDTH_LIMIT_MIN: u64 = 1 << 20;

/// A storage policy without its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How many nodes may fail at once without the volume losing data or service: 0 to 3. Copies kept: one more.
    pub failures_to_tolerate: u8,
    /// Over how many capacity devices each copy is striped at least: 1 to 12.
    pub stripe_width: u8,
    /// Part of the volume's size set aside at once, in percent: 0 (thin) to 100 (thick).
    pub space_reservation_percent: u8,
    /// Part of the volume's size set aside in a read cache, in percent: 0 to 100.
    pub read_cache_reservation_percent: u8,
    /// I/Os a second of one volume, each started 32 KiB counting as one. `None`: no limit.
    pub iops_limit: Option<u64>,
    /// Bytes a second of one volume, reads and writes together. `None`: no limit.
    pub bandwidth_limit: Option<u64>,
    /// Whether a CRC-32C is kept for each 4 KiB block and verified at each read.
    pub checksum: bool,
    /// Create the volume with what is possible where the cluster cannot give all that is asked, and say so.
    pub force_provisioning: bool,
    /// A copy that takes much longer for changes than the others leaves, as one that fails. Else it stays, and is reported.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub slow_copies_leave: bool,
    /// A copy that is away for so many seconds is made anew on another node. `None`: it is waited for.
    #[serde(skip_serializing_if = "is_usual_wait")]
    pub repair_after_s: Option<u64>,
}

/// Whether copies that are away are made anew after the usual time.
fn is_usual_wait(repair_after_s: &Option<u64>) -> bool {
    *repair_after_s == Some(REPAIR_AFTER_S)
}

impl Default for Policy {
    /// What suits one node: one copy, thin, checksummed, without limits.
    fn default() -> Self {
        Self {
            failures_to_tolerate: 0,
            stripe_width: 1,
            space_reservation_percent: 0,
            read_cache_reservation_percent: 0,
            iops_limit: None,
            bandwidth_limit: None,
            checksum: true,
            force_provisioning: false,
            slow_copies_leave: false,
            repair_after_s: Some(REPAIR_AFTER_S),
        }
    }
}

/// A policy that no cluster could hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Above [`FAILURES_TO_TOLERATE_MAX`].
    #[error("failures to tolerate is {0}; it can be 0 to {FAILURES_TO_TOLERATE_MAX}")]
    FailuresToTolerate(u8),
    /// Zero, or above [`STRIPE_WIDTH_MAX`].
    #[error("stripe width is {0}; it can be 1 to {STRIPE_WIDTH_MAX}")]
    StripeWidth(u8),
    /// Above 100.
    #[error("space reservation is {0} %; it can be 0 (thin) to 100 (thick)")]
    SpaceReservation(u8),
    /// Above 100.
    #[error("read-cache reservation is {0} %; it can be 0 to 100")]
    ReadCacheReservation(u8),
    /// So low that hosts would time out.
    #[error("an IOPS limit of {0} is too low for a host to use the volume; give at least {IOPS_LIMIT_MIN}, or 'none'")]
    IopsLimit(u64),
    /// So low that hosts would time out.
    #[error("a bandwidth limit of {0} bytes a second is too low for a host to use the volume; give at least 1 MiB, or 'none'")]
    BandwidthLimit(u64),
}

/// What a policy asks that this cluster cannot give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Shortfall {
    /// Not enough nodes for the copies.
    #[error(
        "failures to tolerate = {failures} needs {needed} nodes (fault domains) with disk groups, to hold one copy each; this cluster has {have}"
    )]
    FaultDomains {
        /// What the policy asks.
        failures: u8,
        /// Fault domains needed.
        needed: usize,
        /// Fault domains with a usable disk group.
        have: usize,
    },
    /// Not enough capacity devices for the stripes.
    #[error("stripe width = {needed} needs {needed} capacity devices for each copy; there are {have}")]
    StripeWidth {
        /// Devices needed.
        needed: usize,
        /// Devices that there are in the best fault domain.
        have: usize,
    },
    /// No group keeps a read cache.
    #[error("read-cache reservation = {percent} % needs disk groups with a read cache; the disk groups here are all-flash and have none")]
    ReadCache {
        /// What the policy asks.
        percent: u8,
    },
    /// Not enough unreserved capacity. Only under force provisioning: otherwise it is an error of placement.
    #[error("space reservation = {percent} % needs {needed_bytes} bytes of capacity that is not reserved yet; {free_bytes} are left")]
    Reservation {
        /// What the policy asks.
        percent: u8,
        /// Bytes to reserve.
        needed_bytes: u64,
        /// Bytes left.
        free_bytes: u64,
    },
}

impl Policy {
    /// Whether each value is in its range.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.failures_to_tolerate > FAILURES_TO_TOLERATE_MAX {
            return Err(PolicyError::FailuresToTolerate(self.failures_to_tolerate));
        }
        if self.stripe_width == 0 || self.stripe_width > STRIPE_WIDTH_MAX {
            return Err(PolicyError::StripeWidth(self.stripe_width));
        }
        if self.space_reservation_percent > 100 {
            return Err(PolicyError::SpaceReservation(self.space_reservation_percent));
        }
        if self.read_cache_reservation_percent > 100 {
            return Err(PolicyError::ReadCacheReservation(self.read_cache_reservation_percent));
        }
        match self.iops_limit {
            Some(n) if n < IOPS_LIMIT_MIN => return Err(PolicyError::IopsLimit(n)),
            _ => {}
        }
        match self.bandwidth_limit {
            Some(n) if n < BANDWIDTH_LIMIT_MIN => return Err(PolicyError::BandwidthLimit(n)),
            _ => {}
        }
        Ok(())
    }

    /// Copies of the data that the policy asks for.
    pub const fn copies(&self) -> usize {
        self.failures_to_tolerate as usize + 1
    }

    /// What this inventory cannot give, whatever the size of the volume.
    pub fn shortfalls(&self, inventory: &Inventory) -> Vec<Shortfall> {
        let mut found = Vec::new();
        let domains = inventory.fault_domains();
        if domains.len() < self.copies() {
            found.push(Shortfall::FaultDomains { failures: self.failures_to_tolerate, needed: self.copies(), have: domains.len() });
        }
        let mut widths: Vec<usize> = domains.iter().map(|d| d.best_node(self.stripe_width as usize, Room::Outlook).devices.len()).collect();
        widths.sort_unstable_by(|a, b| b.cmp(a));
        // the narrowest of the domains that would hold a copy
        let have = widths.get(self.copies().min(widths.len().max(1)) - 1).copied().unwrap_or(0);
        if have < self.stripe_width as usize {
            found.push(Shortfall::StripeWidth { needed: self.stripe_width as usize, have });
        }
        if self.read_cache_reservation_percent > 0 && !inventory.has_read_cache() {
            found.push(Shortfall::ReadCache { percent: self.read_cache_reservation_percent });
        }
        found
    }
}
