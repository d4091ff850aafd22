//! What the directory of a simulated cluster of several nodes says at its beginning: nodes, groups, volumes with their owners.
//!
//! Invariant: an identifier is a single byte, many times; those of nodes, groups and volumes do not depend on anything but their number.
//! Never: changes anything later.

use super::plan::NodesPlan;
use crate::node_types::{IQN, NQN, volume_id};
use crate::plan::VolumePlan;
use base::{ClusterId, ComponentId, CopyState, GroupId, NodeId, NodeSlot, ObjectId, WriteProtect};
use cluster::Policy;
use cluster::record::*;
use directory::{DirectoryError, ModelledNode, Transaction};
use std::net::SocketAddr;

/// Bytes up to which a component reaches.
const COMPONENT_BYTES: u64 = 1 << 30;

/// The cluster.
pub fn cluster() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}
/// The name of a node.
pub fn name_of(node: usize) -> String {
    format!("n{}", node + 1)
}
/// The node that has a name.
pub fn node_called(name: &str) -> Option<usize> {
    name.strip_prefix('n')?.parse::<usize>().ok()?.checked_sub(1)
}
/// The disk group of a node.
pub fn group_of(node: usize) -> GroupId {
    GroupId::from_bytes([node as u8 + 1; 16])
}

fn node_record(plan: &NodesPlan, node: usize, links: SocketAddr) -> NodeRecord {
    NodeRecord {
        id: Some(NodeId::from_bytes([node as u8 + 1; 16])),
        slot: NodeSlot::new(node as u8),
        links: Some(LinksRecord { addr: links, cores: plan.nodes[node].cores as u8 }),
        ..NodeRecord::new(name_of(node), name_of(node), 1)
    }
}

fn group_record(plan: &NodesPlan, node: usize) -> GroupRecord {
    let device = |n: usize| DeviceRecord::Block { path: format!("/dev/simulated-{n}"), bytes: 1 << 30 };
    GroupRecord {
        id: group_of(node),
        name: format!("g{node}"),
        node: name_of(node),
        stage: Stage::Ready,
        cache: device(0),
        capacity: vec![device(1)],
        changes: Default::default(),
        shards: plan.nodes[node].shards,
        created_unix_s: 1,
    }
}

fn bytes_of(v: &VolumePlan) -> u64 {
    ((v.first_block + v.blocks) * u64::from(v.lba_bytes)).next_multiple_of(4096)
}

/// The object of a volume.
fn object_id(volume: usize) -> ObjectId {
    ObjectId::from_bytes([volume as u8 + 1; 16])
}
/// A component of a volume: of which mirror, on which node.
fn component_id(volume: usize, mirror: usize, node: usize) -> ComponentId {
    let mut id = [volume as u8 * 8 + mirror as u8 + 1; 16];
    id[0] = node as u8 + 1;
    ComponentId::from_bytes(id)
}

/// A volume that is to be made with copies on the groups of these nodes, of which the first is the owner.
fn volume_records(at: usize, v: &VolumePlan, nodes: &[usize]) -> (VolumeRecord, ObjectRecord, PolicyRecord) {
    let (id, object) = (volume_id(at), object_id(at));
    let copy = |mirror: usize, node: usize| ComponentRecord {
        id: component_id(at, mirror, node),
        node: name_of(node),
        group: group_of(node),
        capacity_index: 0,
        no: None,
        bytes: COMPONENT_BYTES,
        reserve_chunks: v.reserve_chunks,
        state: CopyState::Active,
        synced_to: base::Epoch(0),
        leaving: false,
    };
    let volume = VolumeRecord {
        lba_bytes: v.lba_bytes,
        write_protect: WriteProtect::None,
        ..VolumeRecord::planned(id, format!("v{at}"), bytes_of(v), format!("v{at}"), object, 1)
    };
    let mirrors = (0..v.stripes.len()).map(|mirror| nodes.iter().map(|node| copy(mirror, *node)).collect()).collect();
    let object = ObjectRecord::new(object, id, mirrors);
    let tolerated = nodes.len() as u8 - 1;
    let policy = Policy { iops_limit: v.iops_max, checksum: v.checksum, failures_to_tolerate: tolerated, ..Policy::default() };
    (volume, object, PolicyRecord::new(format!("v{at}"), policy, 1))
}

/// What hosts connect to: every volume is a namespace.
fn subsystem(volumes: usize) -> SubsystemRecord {
    SubsystemRecord {
        nqn: NQN.into(),
        name: "simulated".into(),
        serial: "S1".into(),
        allow_any_host: true,
        hosts: Default::default(),
        namespaces: (0..volumes).map(|at| (at as u32 + 1, NamespaceRecord::for_all(volume_id(at)))).collect(),
        security: Default::default(),
        iqn: Some(IQN.into()),
        namespace_grant: None,
        created_unix_s: 1,
    }
}

/// Writes all of it, as the first node. `links`: where each node takes links.
pub fn write(directory: &mut ModelledNode, plan: &NodesPlan, links: &[SocketAddr]) -> Result<(), DirectoryError> {
    let mut all = Transaction::new().create(&subsystem(plan.owners.len()));
    for (node, addr) in links.iter().enumerate() {
        all = all.create(&node_record(plan, node, *addr)).create(&group_record(plan, node));
    }
    for (at, v) in plan.base.volumes.iter().enumerate() {
        let (volume, object, policy) = volume_records(at, v, &plan.copies(at));
        all = all.create(&volume).create(&object).create(&policy);
    }
    directory.commit(all).map(drop)
}
