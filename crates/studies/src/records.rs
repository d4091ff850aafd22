//! What the directory of a study's node says: a policy, groups, and volumes that lie where the study wants them.
//!
//! Invariant: where components lie is what a study compares, so the study says it; `cluster::place`, which goes by what
//! is free, is not asked.
//! Never: knows of devices more than their names and sizes.

use base::{ClusterId, ComponentId, GroupId, ObjectId, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, ObjectRecord, PolicyRecord, Stage, VolumeRecord};
use cluster::{Layout, MirrorSlots, Policy, Slot, component_bytes};
use directory::modelled::{Faults, Modelled};
use directory::{ModelledNode, Transaction};

const NODE: &str = "study";
const POLICY: &str = "default";
/// When everything was made: figures do not depend on a clock.
const CREATED_UNIX_S: u64 = 1;

/// The cluster of every study.
pub(crate) fn cluster_id() -> ClusterId {
    ClusterId::from_bytes([1; 16])
}

/// A node that is just starting, with a directory in which nothing goes wrong.
pub(crate) fn node() -> ModelledNode {
    let mut node = ModelledNode::new(NODE, Modelled::new(0, cluster_id(), Faults::NONE));
    let policy = PolicyRecord::new(POLICY.into(), Policy::default(), CREATED_UNIX_S);
    write(&mut node, Transaction::new().create(&policy));
    node
}

/// Writes what nobody else writes.
pub(crate) fn write(node: &mut ModelledNode, transaction: Transaction) {
    node.commit(transaction).expect("nobody else writes");
}

/// A group that is being made. `devices`: cache first.
pub(crate) fn group(id: GroupId, name: String, shards: u8, mut devices: Vec<DeviceRecord>) -> GroupRecord {
    let capacity = devices.split_off(1);
    let cache = devices.remove(0);
    GroupRecord { id, name, node: NODE.into(), stage: Stage::Creating, cache, capacity, shards, created_unix_s: CREATED_UNIX_S }
}

/// A volume that is to be made, with one copy of each mirror. `on`: the group, and the capacity device of each mirror.
pub(crate) fn volume(
    (id, object, name): (VolumeId, ObjectId, String),
    bytes: u64,
    (group, on): (GroupId, Vec<u8>),
    component_id: impl Fn(usize) -> ComponentId,
) -> (VolumeRecord, ObjectRecord) {
    let bytes_each = component_bytes(bytes, on.len());
    let slot = |capacity_index| Slot { node: NODE.into(), group, capacity_index, bytes: bytes_each, reserve_chunks: 0 };
    let layout = Layout { mirrors: on.into_iter().map(|device| MirrorSlots { copies: vec![slot(device)] }).collect() };
    let volume = VolumeRecord::planned(id, name, bytes, POLICY.into(), object, CREATED_UNIX_S);
    (volume, ObjectRecord::planned(object, id, &layout, |mirror, _| component_id(mirror)))
}
