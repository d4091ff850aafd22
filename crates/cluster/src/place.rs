//! Placement: which capacity devices hold the components of an object.
//!
//! Invariants: copies of a mirror are in different fault domains; the components of a fault domain are on one node, on different devices as long
//! as there are any left; no component is larger than [`COMPONENT_BYTES_MAX`]; a reservation is never promised twice, and placed where
//! there is room for it; what thin volumes are to hold counts before it is written; the answer does not depend on the order of the inventory.
//! Never: chooses identifiers, remembers anything.

use crate::{
    inventory::{Domain, Inventory, Located, Room},
    policy::{Policy, Shortfall},
};
use base::{
    ByteSize, GroupId,
    unit::{CHUNK_BYTES, COMPONENT_BYTES_MAX, PIECE_BYTES, VOLUME_BYTES_MAX},
};

/// The most mirrors of one object: a volume of the largest size, in components of the largest size.
pub const MIRRORS_MAX: usize = 256;
const _: () = assert!(MIRRORS_MAX as u64 * COMPONENT_BYTES_MAX > VOLUME_BYTES_MAX);

/// Where one component goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The node.
    pub node: String,
    /// The disk group.
    pub group: GroupId,
    /// The capacity device within the group.
    pub capacity_index: u8,
    /// The component's size, in bytes: a multiple of 1 MiB.
    pub bytes: u64,
    /// Chunks of 64 KiB set aside for it.
    pub reserve_chunks: u64,
}

/// The copies of one mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSlots {
    /// One slot a copy, each in another fault domain.
    pub copies: Vec<Slot>,
}

/// An object's layout: pieces of 1 MiB are dealt to the mirrors in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// At least one.
    pub mirrors: Vec<MirrorSlots>,
}

/// A layout, and what the policy asks that it does not give (only under force provisioning).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where the components go.
    pub layout: Layout,
    /// Empty: the layout complies with the policy.
    pub shortfalls: Vec<Shortfall>,
}

/// Why an object cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// There is no usable capacity device.
    #[error("there is no disk group to put it on; make one first with 'basalt group create'")]
    NoGroups,
    /// The policy asks for what the cluster cannot give.
    #[error("{}", words(.0))]
    Shortfalls(Vec<Shortfall>),
    /// The reservation does not fit.
    #[error(
        "{} of capacity must be reserved, and that does not fit: {} are free, over {devices} device(s) with an equal part on each that is used",
        ByteSize(*needed_bytes),
        ByteSize(*free_bytes)
    )]
    NoSpace {
        /// Bytes to reserve on one copy.
        needed_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
        /// Devices over which it could be spread.
        devices: usize,
    },
    /// A new layout has to be filled by the node that owns the volume.
    #[error("node {owner}, which owns the volume, has none of these disk groups, or no room on them")]
    NotAtOwner {
        /// The node: as records name it, or as people call it.
        owner: String,
    },
    /// Zero, or above the largest volume.
    #[error("the size must be between 1 MiB and {}", ByteSize(VOLUME_BYTES_MAX))]
    Size,
}

fn words(shortfalls: &[Shortfall]) -> String {
    shortfalls.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The size of each component of a volume of `bytes` over `mirrors`, in bytes: its share of the pieces.
pub const fn component_bytes(bytes: u64, mirrors: usize) -> u64 {
    bytes.div_ceil(PIECE_BYTES).div_ceil(mirrors as u64) * PIECE_BYTES
}

/// Lays out an object of `bytes` that may grow in place to `bytes_max`.
///
/// One mirror for each 255 GiB of `bytes_max`, and at least as many as the policy's stripe width. Most room first: what would be left if all that is
/// promised were written; where a reservation does not fit in that way, what is free now.
pub fn place(inventory: &Inventory, policy: &Policy, bytes: u64, bytes_max: u64) -> Result<Placement, PlaceError> {
    let bytes_max = bytes_max.clamp(bytes, VOLUME_BYTES_MAX.max(bytes));
    if bytes == 0 || bytes > VOLUME_BYTES_MAX {
        return Err(PlaceError::Size);
    }
    let domains = inventory.fault_domains();
    if domains.is_empty() {
        return Err(PlaceError::NoGroups);
    }
    let mut shortfalls = policy.shortfalls(inventory);
    if !shortfalls.is_empty() && !policy.force_provisioning {
        return Err(PlaceError::Shortfalls(shortfalls));
    }
    let chosen = [Room::Outlook, Room::Free].map(|room| best(&domains, policy.stripe_width.into(), policy.copies(), room));
    let (mirrors, copies) = match chosen.iter().find_map(|domains| reserved(domains, policy, bytes, bytes_max)) {
        Some(placed) => placed,
        None => {
            let [_, domains] = &chosen;
            let needed_bytes = reserve_chunks(bytes, policy.space_reservation_percent) * CHUNK_BYTES;
            let free_bytes = domains.iter().map(Domain::free_bytes).min().unwrap_or(0);
            if !policy.force_provisioning {
                return Err(PlaceError::NoSpace { needed_bytes, free_bytes, devices: width_of(domains) });
            }
            shortfalls.push(Shortfall::Reservation { percent: policy.space_reservation_percent, needed_bytes, free_bytes });
            let mirrors = mirrors_at_least(domains, policy, bytes_max);
            let copies = fill(domains, mirrors, component_bytes(bytes, mirrors), 0);
            (mirrors, copies.expect("without a reservation every device will do"))
        }
    };
    let mirrors = (0..mirrors).map(|m| MirrorSlots { copies: copies.iter().map(|copy| copy[m].clone()).collect() }).collect();
    let layout = Layout { mirrors };
    if shortfalls.is_empty() {
        // Devices enough, but too full for a reservation: components had to share some.
        shortfalls = compliance(policy, &layout, inventory);
        if !shortfalls.is_empty() && !policy.force_provisioning {
            return Err(PlaceError::Shortfalls(shortfalls));
        }
    }
    Ok(Placement { layout, shortfalls })
}

/// The nodes that are to hold so many copies, each of another fault domain: wide enough first, then most room, then by name.
pub(crate) fn best(domains: &[Domain], width: usize, copies: usize, room: Room) -> Vec<Domain> {
    let mut domains: Vec<Domain> = domains.iter().map(|d| d.best_node(width, room)).collect();
    domains.sort_by_key(|d| (d.devices.len() < width, core::cmp::Reverse(d.room(room)), d.name.clone()));
    domains.truncate(copies);
    domains
}

/// Devices that each copy can be striped over.
fn width_of(domains: &[Domain]) -> usize {
    domains.iter().map(|d| d.devices.len()).min().unwrap_or(1)
}

fn mirrors_at_least(domains: &[Domain], policy: &Policy, bytes_max: u64) -> usize {
    mirrors_for(bytes_max).max(width_of(domains).min(policy.stripe_width as usize)).max(1)
}

/// How many mirrors, and the slots of each copy, with their reservation. `None`: it does not fit.
fn reserved(domains: &[Domain], policy: &Policy, bytes: u64, bytes_max: u64) -> Option<(usize, Vec<Vec<Slot>>)> {
    let mirrors = mirrors_at_least(domains, policy, bytes_max);
    (mirrors..=mirrors.max(width_of(domains))).find_map(|mirrors| {
        // a reservation that fits on no single device may fit on several
        let component_bytes = component_bytes(bytes, mirrors);
        let reserve = reserve_chunks(component_bytes, policy.space_reservation_percent);
        fill(domains, mirrors, component_bytes, reserve).map(|copies| (mirrors, copies))
    })
}

/// How many components of the largest size hold `bytes`.
fn mirrors_for(bytes: u64) -> usize {
    let mut mirrors = bytes.div_ceil(COMPONENT_BYTES_MAX).max(1) as usize;
    while component_bytes(bytes, mirrors) > COMPONENT_BYTES_MAX {
        mirrors += 1;
    }
    mirrors
}

/// Chunks of 64 KiB to set aside for a component of this size under a reservation of `percent`.
pub fn reserve_chunks(component_bytes: u64, percent: u8) -> u64 {
    (component_bytes as u128 * percent as u128).div_ceil(100 * CHUNK_BYTES as u128) as u64
}

/// One list of slots a domain, one slot a mirror. `None`: the reservation does not fit.
pub(crate) fn fill(domains: &[Domain], mirrors: usize, bytes: u64, reserve_chunks: u64) -> Option<Vec<Vec<Slot>>> {
    domains.iter().map(|domain| fill_domain(domain, mirrors, bytes, reserve_chunks)).collect()
}

fn fill_domain(domain: &Domain, mirrors: usize, bytes: u64, reserve_chunks: u64) -> Option<Vec<Slot>> {
    struct Candidate<'a> {
        device: &'a Located,
        used: usize,
        /// What would be free if everything placed here were written: thin volumes may take it below zero.
        outlook: i128,
        unreserved: u64,
    }
    let mut candidates: Vec<Candidate<'_>> = domain
        .devices
        .iter()
        .map(|device| Candidate { device, used: 0, outlook: device.outlook_bytes, unreserved: device.free_bytes })
        .collect();
    let reserve_bytes = reserve_chunks * CHUNK_BYTES;
    let mut slots = Vec::with_capacity(mirrors);
    for _ in 0..mirrors {
        let best =
            candidates.iter_mut().filter(|c| c.unreserved >= reserve_bytes).min_by_key(|c| (c.used, core::cmp::Reverse(c.outlook)))?;
        best.used += 1;
        best.outlook -= bytes as i128;
        best.unreserved -= reserve_bytes;
        let Located { node, group, index, .. } = best.device;
        slots.push(Slot { node: node.clone(), group: *group, capacity_index: *index, bytes, reserve_chunks });
    }
    Some(slots)
}

/// What a policy asks that an existing layout does not give. Empty: compliant.
pub fn compliance(policy: &Policy, layout: &Layout, inventory: &Inventory) -> Vec<Shortfall> {
    let mut found = Vec::new();
    let domain_of = |node: &str| inventory.nodes.iter().find(|h| h.name == node).map_or(node, |h| &h.fault_domain).to_owned();
    let copies = layout
        .mirrors
        .iter()
        .map(|m| m.copies.iter().map(|c| domain_of(&c.node)).collect::<std::collections::BTreeSet<_>>().len())
        .min()
        .unwrap_or(0);
    if copies < policy.copies() {
        found.push(Shortfall::FaultDomains { failures: policy.failures_to_tolerate, needed: policy.copies(), have: copies });
    }
    let devices = (0..copies)
        .map(|n| {
            let of_copy = layout.mirrors.iter().filter_map(|m| m.copies.get(n)).map(|c| (c.group, c.capacity_index));
            of_copy.collect::<std::collections::BTreeSet<_>>().len()
        })
        .min()
        .unwrap_or(0);
    if devices < policy.stripe_width as usize {
        found.push(Shortfall::StripeWidth { needed: policy.stripe_width as usize, have: devices });
    }
    if policy.read_cache_reservation_percent > 0 && !inventory.has_read_cache() {
        found.push(Shortfall::ReadCache { percent: policy.read_cache_reservation_percent });
    }
    let slots = || layout.mirrors.iter().flat_map(|m| &m.copies);
    let needed: u64 = slots().map(|c| reserve_chunks(c.bytes, policy.space_reservation_percent)).sum();
    let have: u64 = slots().map(|c| c.reserve_chunks).sum();
    if have < needed {
        let (needed_bytes, free_bytes) = (needed * CHUNK_BYTES, have * CHUNK_BYTES);
        found.push(Shortfall::Reservation { percent: policy.space_reservation_percent, needed_bytes, free_bytes });
    }
    found
}
