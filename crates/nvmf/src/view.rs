//! What is served: the immutable picture that control makes and every core holds.
//!
//! Invariant: a picture never changes; a new one has a higher generation. A [`VolumeRef`] never means another volume.

use crate::limits::RETRY_IN_A_MOMENT;
use crate::options::Options;
pub use base::ListenerKind;
use base::hooks::{self, SeededFault};
use base::unit::CHUNK_BYTES;
use base::{HostId, NodeSlot, Security, Visibility, VolumeId, WriteProtect};
use cluster::PathState;
use cluster::record::PortalRecord;
use cluster::reservation::Access;
use format::nvme::{Status, StatusCode};
use frontend::HostLimits;
use frontend::VolumeView;
use object::{ChunksUsed, VolumeRef};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::{ConfiguredPsk, HostIdentity, TlsPsk};

/// All that is served.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Grows with each change.
    pub generation: u64,
    /// Subsystems.
    pub subsystems: Vec<SubsystemView>,
    /// Volumes by [`VolumeRef`]; `None` for one that is gone.
    pub volumes: Vec<Option<VolumeView>>,
    /// What is known of hosts, by NQN. One that is not here may connect where every host may.
    pub hosts: BTreeMap<String, HostView>,
    /// The other nodes that serve the same subsystems.
    pub nodes: Vec<NodeView>,
    /// The firmware revision that hosts see, ASCII, 8 characters are shown; empty: this release.
    pub firmware: String,
}

/// Another node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its slot.
    pub slot: NodeSlot,
    /// Where hosts reach it.
    pub portals: Vec<PortalRecord>,
}

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// What it authenticates with; `None`: it has no secret.
    pub credentials: Option<Arc<auth::Credentials>>,
    /// The keys by which it may connect over TLS.
    pub tls_psks: Vec<HostPsk>,
    /// The most connections it may have; a default when there is none.
    pub connections_max: Option<u32>,
    /// The most memory that its commands may hold on this server, in bytes; a default when there is none.
    pub memory_bytes_max: Option<u64>,
}

/// A pre-shared key of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPsk {
    /// The NQN of the one subsystem that it is for; `None`: for all, discovery included.
    pub subsystem: Option<String>,
    /// The key.
    pub psk: Arc<ConfiguredPsk>,
}

/// A subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemView {
    /// Its NQN.
    pub nqn: String,
    /// Serial number, ASCII, 20 characters are shown.
    pub serial: String,
    /// Model, ASCII, 40 characters are shown.
    pub model: String,
    /// Every host may connect.
    pub allow_any_host: bool,
    /// NQNs of the hosts that may connect.
    pub hosts: Vec<String>,
    /// By namespace ID, 1 to [`crate::limits::NAMESPACES_MAX`].
    pub namespaces: BTreeMap<u32, NamespaceView>,
    /// What its connections must at least have.
    pub security: Security,
    /// Its hosts may make, delete, attach, detach and format namespaces.
    pub manage_namespaces: bool,
}

/// A namespace of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Its volume.
    pub volume: VolumeRef,
    /// The hosts that see it: to their controllers it is attached.
    pub hosts: Visibility,
    /// Its path through this server.
    pub ana: Ana,
}

/// How a namespace can be reached through this server (base 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnaState {
    /// ANA Optimized.
    #[default]
    Optimized,
    /// ANA Non-Optimized: works, another path is better.
    NonOptimized,
    /// ANA Inaccessible: another path may work.
    Inaccessible,
    /// ANA Persistent Loss: not through this server any more.
    PersistentLoss,
    /// ANA Change: between two states.
    Change,
}

impl AnaState {
    /// Its value in the ANA log (base figure 223).
    pub const fn value(self) -> u8 {
        match self {
            AnaState::Optimized => 1,
            AnaState::NonOptimized => 2,
            AnaState::Inaccessible => 3,
            AnaState::PersistentLoss => 4,
            AnaState::Change => 15,
        }
    }
    /// The status of commands that need the namespace's data or state; `None`: they are carried out (base 8.1.3).
    pub const fn refusal(self) -> Option<Status> {
        match self {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(Status::retry(StatusCode::ANA_INACCESSIBLE)),
            AnaState::PersistentLoss => Some(Status::retry(StatusCode::ANA_PERSISTENT_LOSS)),
            AnaState::Change => Some(Status::retry(StatusCode::ANA_TRANSITION)),
        }
    }
}

/// Where a namespace stands in Asymmetric Namespace Access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ana {
    /// Its group, 1 to [`crate::limits::ANA_GROUPS_MAX`]: one for each node that owns volumes, the same through every node. The namespaces of a
    /// group change their state together.
    pub group: u32,
    /// The state of the group.
    pub state: AnaState,
}

impl Default for Ana {
    fn default() -> Self {
        cluster::Path::ALONE.into()
    }
}

impl From<cluster::Path> for Ana {
    fn from(path: cluster::Path) -> Self {
        let state = match path.state {
            PathState::Optimized => AnaState::Optimized,
            PathState::NonOptimized => AnaState::NonOptimized,
            PathState::Inaccessible => AnaState::Inaccessible,
        };
        Self { group: path.group, state }
    }
}

/// A namespace as a queue uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its ID.
    pub nsid: u32,
    /// Its volume.
    pub volume: VolumeRef,
    /// log2 of the bytes of a logical block.
    pub shift: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// Whether it may be changed.
    pub write_protect: WriteProtect,
    /// Its identity.
    pub id: VolumeId,
    /// Its path through this server.
    pub ana: Ana,
    /// It is being formatted.
    pub formatting: bool,
    /// What the queue's host may do while there is a reservation. Full in lists that are not a queue's.
    pub access: Access,
}

impl View {
    /// The subsystem with this NQN.
    pub fn subsystem(&self, nqn: &str) -> Option<&SubsystemView> {
        self.subsystems.iter().find(|s| s.nqn == nqn)
    }
    /// A volume.
    pub fn volume(&self, at: VolumeRef) -> Option<&VolumeView> {
        self.volumes.get(at.0 as usize)?.as_ref()
    }
    /// Whether some hosts may not do with a volume what others may, or nobody may change it.
    pub fn is_restricted(&self, at: VolumeRef) -> bool {
        self.volume(at).is_some_and(|v| v.reservation.is_some() || v.write_protect.is_on())
    }
    /// Whether limits may hold back what is asked of a volume.
    pub fn is_limited(&self, at: VolumeRef) -> bool {
        self.volume(at).is_some_and(|v| v.limited)
    }
    /// What a host may do with a volume while there is a reservation.
    pub fn access(&self, at: VolumeRef, host: HostId) -> Access {
        self.volume(at).map_or(Access::FULL, |v| v.access(host))
    }
    /// Blocks of a namespace that have space, in steps of the chunks that space is given in; `None` when its volume is not thin. At every moment
    /// what the disk groups have allocated.
    pub fn used_blocks(&self, ns: &Namespace) -> Option<u64> {
        let volume = self.volume(ns.volume).filter(|v| v.thin)?;
        let chunks: u64 = volume.used.iter().map(ChunksUsed::get).sum();
        // Chunks behind the end of a volume that is no whole number of chunks, or was just made smaller, are not its blocks.
        Some(((chunks * CHUNK_BYTES) >> ns.shift).min(ns.blocks))
    }
    /// What a host may take: its own limits, or those of all.
    pub fn limits_of(&self, host_nqn: &str, options: &Options) -> HostLimits {
        let own = self.hosts.get(host_nqn);
        HostLimits {
            connections: own.and_then(|h| h.connections_max).unwrap_or(options.host_connections_max),
            memory: own.and_then(|h| h.memory_bytes_max).unwrap_or(options.host_memory_bytes_max),
        }
    }
    /// The namespaces of a subsystem that a host sees, by ascending ID.
    pub fn namespaces(&self, subsystem: &SubsystemView, host_nqn: &str) -> Vec<Namespace> {
        let seen = subsystem.namespaces.iter().filter(|(_, n)| n.hosts.shows(host_nqn));
        seen.filter_map(|(nsid, n)| self.namespace(*nsid, n)).collect()
    }
    /// The keys that a host may mean by a PSK identity: of those that it has for the subsystem named there, by each derivation in the field.
    pub fn tls_keys(&self, identity: &HostIdentity) -> Vec<TlsPsk> {
        let Some(host) = self.hosts.get(&identity.host_nqn) else { return Vec::new() };
        let meant = |p: &&HostPsk| p.subsystem.as_ref().is_none_or(|s| *s == identity.subsystem_nqn);
        let keys = host.tls_psks.iter().filter(meant).map(|p| p.psk.keys_for(identity));
        // Only the cryptographic library can fail here; then the key is as good as unknown.
        keys.filter_map(Result::ok).flatten().collect()
    }
    /// All namespaces of a subsystem, seen by somebody or not, by ascending ID.
    pub fn allocated_namespaces(&self, subsystem: &SubsystemView) -> Vec<Namespace> {
        subsystem.namespaces.iter().filter_map(|(nsid, n)| self.namespace(*nsid, n)).collect()
    }
    /// A namespace; `None` when its volume is gone or of an unknown block size.
    fn namespace(&self, nsid: u32, n: &NamespaceView) -> Option<Namespace> {
        let v = self.volume(n.volume)?;
        let sane = (v.lba_bytes == 512 || v.lba_bytes == 4096) && (1..=crate::limits::NAMESPACES_MAX).contains(&nsid);
        let shift = v.lba_bytes.trailing_zeros();
        let (write_protect, formatting) = (v.write_protect, v.formatting);
        let (blocks, access) = (v.bytes >> shift, Access::FULL);
        sane.then_some(Namespace { nsid, volume: n.volume, shift, blocks, write_protect, id: v.id, ana: n.ana, formatting, access })
    }
}

impl SubsystemView {
    /// Whether a host may connect.
    pub fn allows(&self, host_nqn: &str) -> bool {
        self.allow_any_host || self.hosts.iter().any(|h| h == host_nqn)
    }
}

impl Namespace {
    /// Whether what hosts get by Identify is the same; ANA states have their own log and event.
    pub fn is_like(&self, other: &Namespace) -> bool {
        let blocks = |n: &Namespace| if hooks::seeded(SeededFault::ResizeUnreported) { 0 } else { n.blocks };
        let plain = |n: &Namespace| Namespace { blocks: blocks(n), ana: Ana { state: AnaState::Optimized, ..n.ana }, ..*n };
        plain(self) == plain(other)
    }
    /// Why no command reaches its data now; `None`: commands do.
    pub fn closed(&self) -> Option<Status> {
        self.ana.state.refusal().or(self.formatting.then_some(Status::later(StatusCode::FORMAT_IN_PROGRESS, RETRY_IN_A_MOMENT)))
    }
    /// NGUID: the bytes of the volume's UUID.
    pub fn nguid(&self) -> [u8; 16] {
        let mut id = *self.id.as_bytes();
        if hooks::seeded(SeededFault::NamespaceIdsByState) {
            id[15] ^= self.ana.state.value();
        }
        id
    }
    /// EUI-64: the halves of the UUID folded, marked as locally administered and not a group.
    pub fn eui64(&self) -> [u8; 8] {
        let b = self.nguid();
        let mut out: [u8; 8] = core::array::from_fn(|i| b[i] ^ b[i + 8]);
        out[0] = out[0] & !1 | 2;
        out
    }
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// Where to listen.
    pub addr: SocketAddr,
    /// What it serves.
    pub kind: ListenerKind,
    /// The address that discovery tells hosts instead of `addr`: needed when `addr` is unspecified or translated on the way.
    pub advertise: Option<SocketAddr>,
    /// What its connections must at least have.
    pub security: Security,
}
