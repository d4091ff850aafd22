//! What the cluster remembers: one type for each kind of record that the directory holds.
//!
//! Invariants: fields are only added, with a default, so that an older record is always understood; a record names others
//! by id, never by name.
//! Never: decides anything; knows how or where it is stored.

pub use crate::restored::{Heard, HeardCopy};
pub use crate::store::{EtcdRecord, StoreRecord};
use crate::{Layout, MirrorSlots, Policy, Slot};
use base::hooks::{self, SeededFault};
use base::unit::CHUNK_BYTES;
use base::{
    ComponentId, CopyState, Epoch, GroupId, Incarnation, ListenerKind, NodeId, NodeRole, NodeSlot, Nonce, ObjectId, Ownership, ResyncPace,
    Security, Visibility, VolumeId, WriteProtect,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// How records name it: never changes. The first node's is the name that it had when it was made, those of nodes that have joined their id.
    pub name: String,
    /// What people call it, where that is not `name`: see [`NodeRecord::shown_name`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Its identity, which a node that comes later under the same name does not have. `None`: it has not started since there are any.
    #[serde(default)]
    pub id: Option<NodeId>,
    /// Its slot, of no other node: see [`crate::free_slot`]. `None`: it has not started since there are any.
    #[serde(default)]
    pub slot: Option<NodeSlot>,
    /// How often its daemon has started.
    #[serde(default)]
    pub incarnation: u64,
    /// Nodes of one fault domain fail together.
    pub fault_domain: String,
    /// Whether it belongs to the cluster.
    #[serde(default)]
    pub state: NodeState,
    /// What it does.
    #[serde(default)]
    pub role: NodeRole,
    /// Where the other nodes reach it; `None`: it has never been in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Where the other members reach its member of etcd, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_peer: Option<SocketAddr>,
    /// Where hosts reach it, by ascending listener.
    #[serde(default)]
    pub portals: Vec<PortalRecord>,
    /// Where hosts reach it over iSCSI, by ascending listener.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iscsi_portals: Vec<PortalRecord>,
    /// Where it takes links of other nodes; `None`: it takes none, so nothing is passed on to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LinksRecord>,
    /// The release that it runs, as `1.2.3`; empty: not known.
    #[serde(default)]
    pub release: String,
    /// When it joined, in seconds since 1970.
    pub created_unix_s: u64,
}

impl NodeRecord {
    /// One that belongs to the cluster and has not started yet.
    pub fn new(name: String, fault_domain: String, created_unix_s: u64) -> NodeRecord {
        NodeRecord {
            name,
            display_name: None,
            id: None,
            slot: None,
            incarnation: 0,
            fault_domain,
            state: NodeState::Member,
            role: NodeRole::Data,
            address: None,
            etcd_peer: None,
            portals: Vec::new(),
            iscsi_portals: Vec::new(),
            links: None,
            release: String::new(),
            created_unix_s,
        }
    }
    /// It starts once more. `had`: the incarnation that it had last, as it knows itself: a directory that came back from a backup may know an earlier one.
    pub fn begin_life(&mut self, had: u64) {
        let had = if hooks::seeded(SeededFault::LifeForgotten) { 0 } else { had };
        self.incarnation = self.incarnation.max(had) + 1;
    }
    /// What people call it.
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
    /// Whether it belongs to the cluster. One that is down does.
    pub fn is_member(&self) -> bool {
        self.state == NodeState::Member
    }
}

/// Whether a node belongs to the cluster. Whether it is up is no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NodeState {
    /// It does, up or down.
    #[default]
    Member,
    /// It does not any more. Its record keeps its slot from others as long as there are free ones.
    Removed {
        /// Since when, in seconds since 1970.
        unix_s: u64,
    },
}

/// Where a node takes links of other nodes (`docs/peer-link.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksRecord {
    /// The address.
    pub addr: SocketAddr,
    /// Cores of its data plane: two nodes have as many links as the one with fewer has cores.
    pub cores: u8,
}

/// An address where hosts reach a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortalRecord {
    /// The address, as hosts use it.
    pub addr: SocketAddr,
    /// What is served there.
    pub kind: ListenerKind,
    /// What a connection must at least have there.
    #[serde(default)]
    pub security: Security,
    /// The listener behind it, in the order of the node's configuration, from 0.
    pub listener: u16,
    /// Bits of the network that the address lies in, where the listener is on all addresses of the node and this is one of several; `None`: the
    /// address was configured.
    #[serde(default)]
    pub network_bits: Option<u8>,
}

/// Where a device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeviceRecord {
    /// A file.
    File {
        /// Absolute.
        path: String,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// A block device or NVMe namespace.
    Block {
        /// Absolute; a stable name below `/dev/disk/by-id` where there is one.
        path: String,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// Memory of the daemon: empty after each start.
    Memory {
        /// Its size, in bytes.
        bytes: u64,
        /// All of it is taken at the start, not when it is first written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        populated: bool,
    },
}

impl DeviceRecord {
    /// Its size, in bytes.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::File { bytes, .. } | Self::Block { bytes, .. } | Self::Memory { bytes, .. } => *bytes,
        }
    }
    /// Its path; `None`: memory.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::File { path, .. } | Self::Block { path, .. } => Some(path),
            Self::Memory { .. } => None,
        }
    }
}

/// How far something has come. Left half-way by a crash, it is finished at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Being made.
    Creating,
    /// In use.
    Ready,
    /// Being removed.
    Deleting,
}

/// What becomes of a capacity device of a disk group. One of which nothing is said is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChange {
    /// It is being added.
    Joins,
    /// What lies on it goes elsewhere, then it leaves.
    Leaves,
    /// It is gone for good, with what lay on it: the group is opened without it, and volumes go on without what they had there, or are deleted.
    Lost,
    /// It has left: its number is free.
    Gone,
}

/// A disk group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Its id.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// The node that has its devices.
    #[serde(alias = "host")]
    pub node: String,
    /// How far it has come.
    pub stage: Stage,
    /// The device of the write buffer.
    pub cache: DeviceRecord,
    /// One to seven, each at its number.
    pub capacity: Vec<DeviceRecord>,
    /// What becomes of capacity devices, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<u8, DeviceChange>,
    /// A power of two, at most 16.
    pub shards: u8,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

impl GroupRecord {
    /// All devices but those that have left, or are lost; cache first.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceRecord> {
        let there = self.numbered().filter(|(.., change)| *change != Some(DeviceChange::Lost));
        std::iter::once(&self.cache).chain(there.map(|(_, device, _)| device))
    }
    /// The capacity devices but those that have left, with their numbers, and what becomes of them.
    pub fn numbered(&self) -> impl Iterator<Item = (u8, &DeviceRecord, Option<DeviceChange>)> {
        let all = self.capacity.iter().enumerate().map(|(n, device)| (n as u8, device, self.changes.get(&(n as u8)).copied()));
        all.filter(|(.., change)| *change != Some(DeviceChange::Gone))
    }
    /// A capacity device is being added: its number is one of a device that has left, or the next one.
    pub fn joins(&mut self, device: DeviceRecord) -> u8 {
        let free = self.changes.iter().find(|(_, change)| **change == DeviceChange::Gone).map(|(number, _)| *number);
        let number = free.unwrap_or(self.capacity.len() as u8);
        match self.capacity.get_mut(usize::from(number)) {
            Some(place) => *place = device,
            None => self.capacity.push(device),
        }
        self.changes.insert(number, DeviceChange::Joins);
        number
    }
    /// A capacity device has left, or has not come.
    pub fn has_left(&mut self, number: u8) {
        self.changes.insert(number, DeviceChange::Gone);
        while let Some(last) =
            self.capacity.len().checked_sub(1).filter(|last| self.changes.get(&(*last as u8)) == Some(&DeviceChange::Gone))
        {
            self.capacity.pop();
            self.changes.remove(&(last as u8));
        }
    }
    /// Whether what it holds is gone after a restart.
    pub fn is_volatile(&self) -> bool {
        self.devices().any(|d| matches!(d, DeviceRecord::Memory { .. }))
    }
}

/// A storage policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRecord {
    /// Its name.
    pub name: String,
    /// What it says.
    pub policy: Policy,
    /// What it said before a change that reserves other space than before; `None`: every volume that has it has followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Policy>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

impl PolicyRecord {
    /// One that no volume has yet.
    pub fn new(name: String, policy: Policy, created_unix_s: u64) -> Self {
        Self { name, policy, before: None, created_unix_s }
    }
    /// What others name it by: its name in lower case.
    pub fn key(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// Its id: stable for its life.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its size as hosts see it, in bytes.
    pub bytes: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// Whether it may be changed.
    #[serde(default)]
    pub write_protect: WriteProtect,
    /// The key of its policy ([`PolicyRecord::key`]).
    pub policy: String,
    /// How it is laid out.
    pub object: ObjectId,
    /// How far it has come.
    pub stage: Stage,
    /// The NQN of the subsystem to attach it to when it is made.
    #[serde(default)]
    pub attach_to: Option<String>,
    /// The size that a resize under way is going to.
    #[serde(default)]
    pub resize_to: Option<u64>,
    /// The policy that it goes back to when the resize under way cannot be done: by its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_before: Option<String>,
    /// The node that is to own it whenever it can, as records name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_owner: Option<String>,
    /// How fast its copies that come back into sync get what they miss.
    #[serde(default, skip_serializing_if = "is_normal")]
    pub resync: ResyncPace,
    /// It is being formatted by a host: all content goes, and then a logical block has as many bytes.
    #[serde(default)]
    pub format_to: Option<u32>,
    /// The disk groups that it is to lie on; none: whichever.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<GroupId>,
    /// The stripe width that its layout was made for; `None`: it was made by a release that did not write that down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_width: Option<u8>,
    /// It is laid out anew: its data goes to the object of this volume, which no host sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<VolumeId>,
    /// It has the new layout of this volume, or had it: no host and no administrator sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place_of: Option<VolumeId>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

fn is_normal(pace: &ResyncPace) -> bool {
    *pace == ResyncPace::Normal
}

impl VolumeRecord {
    /// One that is to be made, of 4096-byte blocks, free to be written, in no subsystem.
    pub fn planned(id: VolumeId, name: String, bytes: u64, policy: String, object: ObjectId, created_unix_s: u64) -> VolumeRecord {
        VolumeRecord {
            id,
            name,
            bytes,
            lba_bytes: 4096,
            write_protect: WriteProtect::None,
            policy,
            object,
            stage: Stage::Creating,
            attach_to: None,
            resize_to: None,
            policy_before: None,
            preferred_owner: None,
            resync: ResyncPace::Normal,
            format_to: None,
            groups: BTreeSet::new(),
            stripe_width: None,
            moves_to: None,
            place_of: None,
            created_unix_s,
        }
    }
    /// Whether something of it is under way: it is being made, deleted, resized or formatted.
    pub fn is_under_way(&self) -> bool {
        self.stage != Stage::Ready || self.resize_to.is_some() || self.format_to.is_some()
    }
}

/// A component: a copy of a mirror of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentRecord {
    /// Its id.
    pub id: ComponentId,
    /// The node that has it.
    #[serde(alias = "host")]
    pub node: String,
    /// Its disk group.
    pub group: GroupId,
    /// The capacity device within the group.
    pub capacity_index: u8,
    /// Its number within the group; `None`: not made yet.
    pub no: Option<u32>,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Chunks set aside for it.
    pub reserve_chunks: u64,
    /// Its state.
    pub state: CopyState,
    /// The last epoch in which it was in sync, where it left since. 0: it never was, or never left.
    #[serde(default, skip_serializing_if = "is_never")]
    pub synced_to: Epoch,
    /// Its node deletes it, and the volume does without it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub leaving: bool,
}

/// Whether there was no such epoch.
const fn is_never(epoch: &Epoch) -> bool {
    epoch.0 == 0
}

/// What a change of an object's ownership says of itself. Nothing, where there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnershipChange {
    /// The incarnation of the node that owns the object; 0: whichever.
    #[serde(skip_serializing_if = "no_incarnation")]
    pub owner_incarnation: Incarnation,
    /// By which the change is known again when its answer was lost.
    #[serde(skip_serializing_if = "Nonce::is_none")]
    pub nonce: Nonce,
    /// The directory came back from a backup, and not every copy was heard since.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub restored: bool,
}

const fn no_incarnation(incarnation: &Incarnation) -> bool {
    incarnation.0 == 0
}

impl ComponentRecord {
    /// One that is to be made there, with its volume.
    pub fn planned(id: ComponentId, slot: &Slot) -> ComponentRecord {
        ComponentRecord {
            id,
            node: slot.node.clone(),
            group: slot.group,
            capacity_index: slot.capacity_index,
            no: None,
            bytes: slot.bytes,
            reserve_chunks: slot.reserve_chunks,
            state: CopyState::Active,
            synced_to: Epoch(0),
            leaving: false,
        }
    }
    /// Whether its volume goes by it: a copy that is added later does not count before its node has made it, and one that leaves not any more.
    pub const fn is_used(&self) -> bool {
        !self.leaving && (self.no.is_some() || !matches!(self.state, CopyState::Absent))
    }
    /// Bytes set aside for it.
    pub const fn reserved_bytes(&self) -> u64 {
        self.reserve_chunks * CHUNK_BYTES
    }
}

/// How a volume is laid out: RAID-0 over `mirrors`, RAID-1 within each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// Its id.
    pub id: ObjectId,
    /// The volume that it is the data of.
    pub volume: VolumeId,
    /// The node that orders its changes, by name; `None`: the one that has its components ([`crate::owner_of`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its epoch, and since when it has its owner and all of its copies are not in sync any more.
    #[serde(flatten)]
    pub ownership: Ownership,
    /// Of the last change of the above, and of the states of its copies.
    #[serde(flatten)]
    pub change: OwnershipChange,
    /// While [`OwnershipChange::restored`]: what nodes have said of its copies since.
    #[serde(default, skip_serializing_if = "Heard::is_empty")]
    pub heard: Heard,
    /// The copies of each mirror. Pieces are dealt to the mirrors in turn ([`base::mirror::mirror_of`]).
    #[serde(alias = "stripes")]
    pub mirrors: Vec<Vec<ComponentRecord>>,
}

impl ObjectRecord {
    /// With these mirrors; nobody has owned it.
    pub fn new(id: ObjectId, volume: VolumeId, mirrors: Vec<Vec<ComponentRecord>>) -> ObjectRecord {
        let (change, heard) = Default::default();
        ObjectRecord { id, volume, owner: None, ownership: Ownership::FIRST, change, heard, mirrors }
    }
    /// With this layout; nothing of it is made yet. `id_of`: the id of the component that is a copy of a mirror.
    pub fn planned(id: ObjectId, volume: VolumeId, layout: &Layout, mut id_of: impl FnMut(usize, usize) -> ComponentId) -> ObjectRecord {
        let mut mirrors = Vec::with_capacity(layout.mirrors.len());
        for (mirror, slots) in layout.mirrors.iter().enumerate() {
            let component = |(copy, slot): (usize, &Slot)| ComponentRecord::planned(id_of(mirror, copy), slot);
            mirrors.push(slots.copies.iter().enumerate().map(component).collect());
        }
        ObjectRecord::new(id, volume, mirrors)
    }
    /// How it is laid out, as placement knows it.
    pub fn layout(&self) -> Layout {
        let slot = |c: &ComponentRecord| Slot {
            node: c.node.clone(),
            group: c.group,
            capacity_index: c.capacity_index,
            bytes: c.bytes,
            reserve_chunks: c.reserve_chunks,
        };
        Layout { mirrors: self.mirrors.iter().map(|m| MirrorSlots { copies: m.iter().map(slot).collect() }).collect() }
    }
    /// Its components: the copies of all mirrors.
    pub fn components(&self) -> impl Iterator<Item = &ComponentRecord> {
        self.mirrors.iter().flatten()
    }
    /// The components that its volume goes by.
    pub fn used(&self) -> impl Iterator<Item = &ComponentRecord> {
        self.components().filter(|c| c.is_used())
    }
    /// Whether all that its volume goes by is on this node. Of one that goes by nothing yet: all that there is.
    pub fn lies_on(&self, node: &str) -> bool {
        let any = self.used().next().is_some();
        self.components().filter(|c| !any || c.is_used()).all(|c| c.node == node)
    }
    /// Whether it lies, and always lay, on this node.
    pub fn is_alone_on(&self, node: &str) -> bool {
        self.owner.is_none() && self.lies_on(node)
    }
    /// The same, to be changed.
    pub fn components_mut(&mut self) -> impl Iterator<Item = &mut ComponentRecord> {
        self.mirrors.iter_mut().flatten()
    }
    /// Mirror and copy of each of its components, in order.
    pub fn places(&self) -> Vec<(usize, usize)> {
        let of_mirror = |(mirror, copies): (usize, &Vec<ComponentRecord>)| (0..copies.len()).map(move |copy| (mirror, copy));
        self.mirrors.iter().enumerate().flat_map(of_mirror).collect()
    }
}

/// A namespace of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "NamespaceForm")]
pub struct NamespaceRecord {
    /// Its volume.
    pub volume: VolumeId,
    /// Who sees it.
    pub hosts: Visibility,
    /// It may be attached to one host only (made by a host, not to be shared).
    #[serde(default)]
    pub exclusive: bool,
}

impl NamespaceRecord {
    /// One that every host sees.
    pub fn for_all(volume: VolumeId) -> Self {
        Self { volume, hosts: Visibility::All, exclusive: false }
    }
}

/// How it was written: once with the volume only.
#[derive(Deserialize)]
#[serde(untagged)]
enum NamespaceForm {
    Volume(VolumeId),
    Whole {
        volume: VolumeId,
        hosts: Visibility,
        #[serde(default)]
        exclusive: bool,
    },
}

impl From<NamespaceForm> for NamespaceRecord {
    fn from(form: NamespaceForm) -> Self {
        match form {
            NamespaceForm::Volume(volume) => Self::for_all(volume),
            NamespaceForm::Whole { volume, hosts, exclusive } => Self { volume, hosts, exclusive },
        }
    }
}

/// What the hosts of a subsystem may do with its namespaces by NVMe commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceGrant {
    /// The storage policy of the volumes they make, by its key.
    pub policy: String,
    /// The most namespaces that the subsystem may have.
    pub namespaces_max: u32,
    /// The most bytes that the subsystem's volumes may have together.
    pub bytes_max: u64,
}

/// The reservation of a volume, and its registrants; there is one as soon as a host has registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRecord {
    /// The volume.
    pub volume: VolumeId,
    /// What hosts have made of it.
    pub state: crate::reservation::State,
}

/// A subsystem: what hosts connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsystemRecord {
    /// Its NQN.
    pub nqn: String,
    /// Its name.
    pub name: String,
    /// Its serial number: 20 characters at most.
    pub serial: String,
    /// Its iSCSI name; `None`: it is not served over iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Whether every host may connect.
    pub allow_any_host: bool,
    /// Hosts that may connect, by NQN or iSCSI name.
    pub hosts: BTreeSet<String>,
    /// What they see, by namespace id, which is the LUN over iSCSI.
    pub namespaces: BTreeMap<u32, NamespaceRecord>,
    /// What connections must at least have.
    #[serde(default)]
    pub security: Security,
    /// Its hosts may make, delete, attach, detach and format namespaces, within this.
    #[serde(default)]
    pub namespace_grant: Option<NamespaceGrant>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

/// Where a secret is. It is never here as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SecretRecord {
    /// Encrypted with the key of this installation.
    Sealed {
        /// Base64.
        sealed: String,
    },
    /// In a file of the administrator's.
    File {
        /// Absolute.
        path: String,
    },
}

/// What a host and its controllers authenticate with (DH-HMAC-CHAP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhchapRecord {
    /// The host's secret.
    pub host: SecretRecord,
    /// The controllers' secret; `None`: they cannot prove themselves.
    #[serde(default)]
    pub controller: Option<SecretRecord>,
    /// Hash functions that are allowed, the most wanted first; none: the usual ones.
    #[serde(default)]
    pub hashes: Vec<String>,
    /// DH groups that are allowed, the most wanted first; none: the usual ones.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// A pre-shared key for TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsPskRecord {
    /// NQN of the one subsystem that it is for; `None`: for all.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// The key.
    pub psk: SecretRecord,
}

/// What a host authenticates with over iSCSI (CHAP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChapRecord {
    /// Its user name (CHAP_N).
    pub user: String,
    /// Its secret.
    pub secret: SecretRecord,
    /// What targets prove themselves with to it (mutual CHAP); `None`: they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ChapTargetRecord>,
}

/// What targets prove themselves with to a host (mutual CHAP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChapTargetRecord {
    /// Their user name (CHAP_N).
    pub user: String,
    /// Their secret.
    pub secret: SecretRecord,
}

/// What a host connects as, with a name that people know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntryRecord {
    /// The host's NQN, or its iSCSI name.
    pub nqn: String,
    /// Its name.
    pub name: String,
    /// What it authenticates with over iSCSI; `None`: it has no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapRecord>,
    /// What it authenticates with over NVMe/TCP; `None`: it has no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap: Option<DhchapRecord>,
    /// The keys by which it connects over TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls_psks: Vec<TlsPskRecord>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

/// Something that could not be finished yet and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its id: what is done to what, such as `delete-volume/ID`.
    pub id: String,
    /// In words.
    pub what: String,
    /// Why it did not work the last time.
    pub error: String,
    /// What kind of error that is.
    #[serde(default)]
    pub why: TaskError,
    /// The node that tried it, by name; empty: a release that did not say.
    #[serde(default)]
    pub node: String,
    /// The revision of the record that it was tried with: an error of an older one says nothing of what was asked for since.
    #[serde(default)]
    pub tried: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was tried last, in seconds since 1970.
    pub last_unix_s: u64,
}

/// Why something could not be finished, by what has to be done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskError {
    /// There is no room: trying it again does not help.
    NoSpace,
    /// Not now: a disk group is offline, say.
    #[default]
    NotNow,
    /// A fault.
    Failed,
}

/// A request of an administrator that was decided: it is in the transaction of what was decided, so that it is done once, however often it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Its nonce, in hexadecimal digits.
    pub nonce: String,
    /// The node that decided it.
    pub node: String,
    /// When, in seconds since 1970.
    pub decided_unix_s: u64,
}

/// A disk group, as its node sees it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// The group.
    pub id: GroupId,
    /// Why it is offline; `None`: it is online.
    #[serde(default)]
    pub offline: Option<String>,
    /// Its capacity devices, while it is online.
    #[serde(default)]
    pub devices: Vec<DeviceReport>,
    /// Room in its write buffer, in bytes.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// Used of it.
    #[serde(default)]
    pub buffer_used_bytes: u64,
}

/// A capacity device, as its node sees it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its place among the group's capacity devices.
    pub index: u8,
    /// What it can hold, in bytes.
    pub bytes: u64,
    /// What is neither allocated nor reserved, in bytes.
    pub free_bytes: u64,
    /// What is allocated, in bytes.
    #[serde(default)]
    pub used_bytes: u64,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportHealth {
    /// It works, and needs attention.
    Warning,
    /// It does not work, or data is at risk.
    Error,
}

/// Something that is not well on a node, as that node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Which check.
    pub id: String,
    /// How bad it is.
    pub health: ReportHealth,
    /// What it is about.
    pub subject: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub action: String,
}

/// How far the new layout of a volume is, as the volume's owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// How much of its data is there, in percent.
    pub percent: u8,
    /// Seconds until all is there, at the speed so far, as of `reported_unix_s`; `None`: that cannot be said yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Why it does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a node that is up says of itself. It goes with the node's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceRecord {
    /// The node, as records name it.
    pub node: String,
    /// Which start of its daemon this is.
    pub incarnation: u64,
    /// The release that it runs, as `1.2.3`.
    pub release: String,
    /// Cores of its data plane.
    pub cores: u32,
    /// When its daemon started, in seconds since 1970.
    pub started_unix_s: u64,
    /// Its disk groups, by id.
    #[serde(default)]
    pub groups: Vec<GroupReport>,
    /// What is not well there.
    #[serde(default)]
    pub checks: Vec<CheckReport>,
    /// Copies that it brings back into sync, of those that are its own objects': how far, in percent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resyncs: BTreeMap<ComponentId, u8>,
    /// Of those, where it can be said: seconds until they are in sync, at the speed so far, as of `reported_unix_s`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resync_seconds: BTreeMap<ComponentId, u64>,
    /// Copies of its own objects that take much longer for changes than the others.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub slow_copies: BTreeSet<ComponentId>,
    /// Copies of its own objects that are out because they fail or are slow, though their nodes answer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failed_copies: BTreeSet<ComponentId>,
    /// Volumes of this node that are laid out anew.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub moves: BTreeMap<VolumeId, MoveReport>,
    /// When it has looked, in seconds since 1970.
    #[serde(default)]
    pub reported_unix_s: u64,
}

/// The node that leads: administrators' changes go to it. It goes with that node's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// The node, as records name it.
    pub node: String,
    /// Which start of its daemon this is.
    pub incarnation: u64,
}

impl LeaderRecord {
    /// There is one at most: this is its id.
    pub const ID: &str = "control";
}
