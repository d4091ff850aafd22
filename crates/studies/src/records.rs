//! What the directory of a study says: nodes, a policy, groups, and volumes that lie where the study wants them.
//!
//! Invariant: where components lie is what a study compares, so the study says it; `cluster::place`, which goes by what
//! is free, is not asked.
//! Never: knows of devices more than their names and sizes.

use base::{ClusterId, ComponentId, GroupId, NodeId, NodeSlot, ObjectId, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, LinksRecord, NodeRecord, ObjectRecord, PolicyRecord, Stage, VolumeRecord};
use cluster::{Layout, MirrorSlots, Policy, Slot, component_bytes};
use directory::modelled::{Faults, Modelled};
use directory::{ModelledNode, Transaction};

const POLICY: &str = "default";
/// When everything was made: figures do not depend on a clock.
const CREATED_UNIX_S: u64 = 1;

/// The cluster of every study.
pub(crate) fn cluster_id() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}
/// A node's name.
pub(crate) fn name_of(node: usize) -> String {
    format!("node-{}", node + 1)
}
/// A node that is just starting, with a directory in which nothing goes wrong.
pub(crate) fn node() -> ModelledNode {
    nodes(1, 0).remove(0)
}
/// Nodes that are just starting, with one such directory.
pub(crate) fn nodes(count: usize, failures_to_tolerate: u8) -> Vec<ModelledNode> {
    let directory = Modelled::new(0, cluster_id(), Faults::NONE);
    let mut nodes: Vec<ModelledNode> = (0..count).map(|node| ModelledNode::new(&name_of(node), directory.clone())).collect();
    let policy = Policy { failures_to_tolerate, ..Policy::default() };
    write(&mut nodes[0], Transaction::new().create(&PolicyRecord::new(POLICY.into(), policy, CREATED_UNIX_S)));
    nodes
}
/// A node that is a member, and takes links of the others.
pub(crate) fn member(node: usize, links: LinksRecord) -> NodeRecord {
    NodeRecord {
        id: Some(NodeId::from_bytes([node as u8 + 1; 16])),
        slot: NodeSlot::new(node as u8),
        incarnation: 1,
        links: Some(links),
        ..NodeRecord::new(name_of(node), name_of(node), CREATED_UNIX_S)
    }
}

/// Writes what nobody else writes.
pub(crate) fn write(node: &mut ModelledNode, transaction: Transaction) {
    node.commit(transaction).expect("nobody else writes");
}

/// A group of a node that is being made. `devices`: cache first.
pub(crate) fn group((id, node, name): (GroupId, usize, String), shards: u8, mut devices: Vec<DeviceRecord>) -> GroupRecord {
    let capacity = devices.split_off(1);
    let cache = devices.remove(0);
    GroupRecord {
        id,
        name,
        node: name_of(node),
        stage: Stage::Creating,
        cache,
        capacity,
        changes: Default::default(),
        shards,
        created_unix_s: CREATED_UNIX_S,
    }
}

/// A copy of a volume: on which node, in which group, and the capacity device of each mirror.
pub(crate) type CopyOn = (usize, GroupId, Vec<u8>);

/// A volume that is to be made, with these copies, the owner's first. `component_id`: of a mirror, and a copy of it.
pub(crate) fn volume(
    (id, object, name): (VolumeId, ObjectId, String),
    bytes: u64,
    copies: &[CopyOn],
    component_id: impl Fn(usize, usize) -> ComponentId,
) -> (VolumeRecord, ObjectRecord) {
    let mirrors = copies[0].2.len();
    let bytes = (bytes, component_bytes(bytes, mirrors));
    let slot = |(node, group, on): &CopyOn, mirror: usize| Slot {
        node: name_of(*node),
        group: *group,
        capacity_index: on[mirror],
        bytes: bytes.1,
        reserve_chunks: 0,
    };
    let mirror = |mirror| MirrorSlots { copies: copies.iter().map(|copy| slot(copy, mirror)).collect() };
    let layout = Layout { mirrors: (0..mirrors).map(mirror).collect() };
    let volume = VolumeRecord::planned(id, name, bytes.0, POLICY.into(), object, CREATED_UNIX_S);
    (volume, ObjectRecord::planned(object, id, &layout, component_id))
}
