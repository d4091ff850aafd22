//! What is served: the immutable picture that control makes and every core holds.
//!
//! Invariant: a picture never changes; a new one has a higher generation.

use crate::chap::Credentials;
use crate::limits::UNITS_MAX;
use base::{HostId, NodeSlot, Visibility, VolumeId, WriteProtect};
use cluster::Path;
use cluster::record::PortalRecord;
use cluster::reservation::Access;
use frontend::{HostLimits, VolumeRef, VolumeView};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// All that is served.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Grows with each change.
    pub generation: u64,
    /// The slot of this node.
    pub slot: NodeSlot,
    /// The other nodes that serve the same targets.
    pub nodes: Vec<NodeView>,
    /// The targets.
    pub targets: Vec<TargetView>,
    /// Volumes by [`VolumeRef`]; `None` for one that is gone.
    pub volumes: Vec<Option<VolumeView>>,
    /// What is known of hosts, by name.
    pub hosts: BTreeMap<String, HostView>,
}

/// Where this node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// The address.
    pub addr: SocketAddr,
    /// The address that discovery tells hosts, where it is not the one that they reached; without a port: that of `addr`.
    pub advertise: Option<SocketAddr>,
}

impl From<SocketAddr> for ListenerSpec {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, advertise: None }
    }
}

/// Another node that serves the same targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its slot.
    pub slot: NodeSlot,
    /// Where hosts reach it.
    pub portals: Vec<PortalRecord>,
}

/// The portal group of the node with this slot, which is its relative target port too: not zero.
pub const fn portal_group(slot: NodeSlot) -> u16 {
    slot.number() as u16 + 1
}

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// What it authenticates with, by CHAP; `None`: its name is believed.
    pub credentials: Option<Arc<Credentials>>,
    /// The most connections it may have; a default when there is none.
    pub connections_max: Option<u32>,
    /// The most memory that its commands may hold on this node, in bytes; a default when there is none.
    pub memory_bytes_max: Option<u64>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// Its iSCSI name.
    pub name: String,
    /// Every host may log in.
    pub allow_any_host: bool,
    /// Names of the hosts that may.
    pub hosts: Vec<String>,
    /// Hosts have to prove who they are.
    pub authenticated: bool,
    /// By LUN, below [`UNITS_MAX`].
    pub units: BTreeMap<u32, UnitView>,
}

/// A logical unit of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitView {
    /// Its volume.
    pub volume: VolumeRef,
    /// The hosts that see it.
    pub hosts: Visibility,
    /// The path to it through this node.
    pub path: Path,
}

/// A logical unit as commands use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its LUN.
    pub lun: u32,
    /// The target port that it is reached by: see [`portal_group`].
    pub port: u16,
    /// Its volume.
    pub volume: VolumeRef,
    /// The volume's identity.
    pub id: VolumeId,
    /// log2 of the bytes of a block.
    pub shift: u32,
    /// Blocks.
    pub blocks: u64,
    /// It may not be written.
    pub read_only: bool,
    /// It is being formatted.
    pub formatting: bool,
    /// It takes space as it is written.
    pub thin: bool,
    /// Limits may hold back what is asked of it.
    pub limited: bool,
    /// What the host may do while there is a reservation.
    pub access: Access,
    /// Another host has taken it whole.
    pub taken: bool,
    /// The path to it through this node.
    pub path: Path,
    /// There are portals of other nodes.
    pub multi_port: bool,
}

impl Unit {
    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        1 << self.shift
    }
    /// Its serial number: the volume's identity in hexadecimal.
    pub fn serial(&self) -> String {
        self.id.as_bytes().iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl View {
    /// The target with this name.
    pub fn target(&self, name: &str) -> Option<&TargetView> {
        self.targets.iter().find(|t| t.name == name)
    }
    /// A unit of a target, as this host sees it. `None` when it does not, or the volume is gone.
    pub fn unit(&self, target: &str, lun: u32, host: &str, id: HostId) -> Option<Unit> {
        let unit = self.target(target)?.units.get(&lun).filter(|u| lun < UNITS_MAX && u.hosts.shows(host))?;
        let v = self.volumes.get(unit.volume.0 as usize)?.as_ref()?;
        if v.lba_bytes != 512 && v.lba_bytes != 4096 {
            return None;
        }
        let shift = v.lba_bytes.trailing_zeros();
        Some(Unit {
            lun,
            port: portal_group(self.slot),
            volume: unit.volume,
            id: v.id,
            shift,
            blocks: v.bytes >> shift,
            read_only: v.write_protect != WriteProtect::None,
            formatting: v.formatting,
            thin: v.thin,
            limited: v.limited,
            access: v.access(id),
            taken: v.reservation.as_ref().is_some_and(|r| r.is_taken_from(id)),
            path: unit.path,
            multi_port: !self.nodes.is_empty(),
        })
    }
    /// The LUNs of a target that a host sees, ascending.
    pub fn luns(&self, target: &str, host: &str) -> Vec<u32> {
        let units = self.target(target).map(|t| &t.units);
        let seen = units.into_iter().flatten().filter(|(lun, u)| **lun < UNITS_MAX && u.hosts.shows(host));
        seen.map(|(lun, _)| *lun).collect()
    }
    /// What a host may take: its own limits, or those of all.
    pub fn limits_of(&self, host: &str, all: HostLimits) -> HostLimits {
        let own = self.hosts.get(host);
        HostLimits {
            connections: own.and_then(|h| h.connections_max).unwrap_or(all.connections),
            memory: own.and_then(|h| h.memory_bytes_max).unwrap_or(all.memory),
        }
    }
}

impl TargetView {
    /// Whether a host may log in.
    pub fn allows(&self, host: &str) -> bool {
        self.allow_any_host || self.hosts.iter().any(|h| h == host)
    }
}
