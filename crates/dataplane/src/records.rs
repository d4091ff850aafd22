//! From the directory's records to what the data plane takes: what is served, and what groups and components are made
//! as.
//!
//! Invariants: the same records and observations give the same answer, whoever asks; a volume that has a layout stays in
//! sight when it cannot be served: a namespace that vanished would end what its hosts have mounted.
//! Never: decides whether a volume can be served (`cluster::serving`), reads a directory.

use crate::desired::{ComponentRef, HeldDesired, MirrorDesired, ObjectDesired, VolumeDesired};
use base::{ClusterId, NodeId, ObjectId, ResyncPace, VolumeId};
use cluster::record::{ComponentRecord, GroupRecord, NodeRecord, ObjectRecord, PolicyRecord, ReservationRecord, Stage, VolumeRecord};
use cluster::{NotServed, Observed, Path, PathState, Policy, Records, Usable, owner_elsewhere, owner_of, ownership_of, path_of, serving};
use format::disk::{Descriptor, descriptor::DESCRIPTOR_NAME_BYTES_MAX};
use object::{CopyAt, CopyPlace};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{ComponentNo, ComponentSpec, FormatSpec};

const _: () = assert!(cluster::NAME_BYTES_MAX <= DESCRIPTOR_NAME_BYTES_MAX, "a component can say how its volume is called");
const _: () = assert!(cluster::MIRRORS_MAX <= u16::MAX as usize, "and which mirror it is");

/// The volumes of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Those that hosts see, in the order of the records. One that is out of reach has no mirrors.
    pub volumes: Vec<VolumeDesired>,
    /// Their paths through this node.
    pub paths: BTreeMap<VolumeId, Path>,
    /// Why some that this node owns are out of reach, or not seen at all.
    pub out_of_reach: BTreeMap<VolumeId, NotServed>,
    /// What this node has of objects that other nodes own.
    pub held: Vec<HeldDesired>,
    /// Records of what is on several nodes, and on this one.
    pub objects: Vec<ObjectDesired>,
}

/// What `observed.node` is to serve of the volumes that are ready. Those that another node owns are in sight too; their paths say how far this one
/// can serve them.
pub fn served(records: &Records, observed: &Observed) -> Served {
    let objects: BTreeMap<ObjectId, &ObjectRecord> = records.objects.iter().map(|o| (o.id, o)).collect();
    let reservations: BTreeMap<VolumeId, &ReservationRecord> = records.reservations.iter().map(|r| (r.volume, r)).collect();
    let policies: BTreeMap<String, &PolicyRecord> = records.policies.iter().map(|p| (p.key(), p)).collect();
    let (mut served, mut ready) = (Served::default(), Vec::new());
    let id_of = |name: &String| records.nodes.iter().find(|n| n.name == *name && n.is_member())?.id;
    for volume in records.volumes.iter().filter(|v| v.stage == Stage::Ready) {
        let Some(object) = objects.get(&volume.object) else {
            served.out_of_reach.insert(volume.id, NotServed::NoLayout);
            continue;
        };
        let policy = policies.get(&volume.policy).map_or_else(Policy::default, |p| p.policy.clone());
        let preferred = volume.preferred_owner.as_ref().and_then(id_of);
        ready.push((object, Settings { preferred, slow_copies_leave: policy.slow_copies_leave, resync: volume.resync }));
        let path = path_of(object, records, observed);
        served.paths.insert(volume.id, path);
        let mirrors = match (path, serving(object, observed)) {
            // Hosts use other paths, and this node may take it over again.
            (Path::AWAY, Ok(mirrors)) => {
                served.out_of_reach.insert(volume.id, NotServed::LetGo);
                mirrors
            }
            (Path { state: PathState::Optimized, .. }, Ok(mirrors)) => mirrors,
            (Path::AWAY | Path { state: PathState::Optimized, .. }, Err(why)) => {
                served.out_of_reach.insert(volume.id, why);
                Vec::new()
            }
            // Its owner has them.
            (Path { state: PathState::NonOptimized | PathState::Inaccessible, .. }, _) => Vec::new(),
        };
        let mirrors =
            mirrors.into_iter().zip(&object.mirrors).map(|(here, all)| mirror(object, here, all, &records.nodes, &observed.node)).collect();
        let reservation = reservations.get(&volume.id).map(|r| Arc::new(r.state.clone()));
        let desired = VolumeDesired::from_records(volume, object, &policy, reservation, mirrors);
        // Also while it does not answer: what is on its way there is tried until its time is over, and not taken for failed.
        let owner = owner_elsewhere(object, records, &observed.node);
        served.volumes.push(VolumeDesired { owner, revision: records.view_revision(volume.id), ..desired });
    }
    served.objects = ready.iter().filter_map(|(object, settings)| owned(object, records, &observed.node, *settings)).collect();
    served.held = records.objects.iter().flat_map(|object| held(object, records, observed)).collect();
    served
}

/// A mirror of an object that this node owns. `here`: its components that can be used.
fn mirror(object: &ObjectRecord, here: Vec<Usable>, all: &[ComponentRecord], nodes: &[NodeRecord], node: &str) -> MirrorDesired {
    let used = || all.iter().filter(|c| c.is_used());
    if object.owner.is_none() && used().all(|c| c.node == node) {
        return MirrorDesired::of(here);
    }
    let place = |c: &ComponentRecord| match here.iter().find(|usable| usable.id == c.id) {
        Some(usable) => Some(CopyPlace::Here(ComponentRef::of(usable))),
        None if c.node == node => None,
        None => Some(CopyPlace::On { node: nodes.iter().find(|n| n.name == c.node)?.id?, component: c.id }),
    };
    MirrorDesired { copies: used().filter_map(|c| Some(CopyAt { state: c.state, place: place(c)? })).collect(), alone: false }
}

/// What an administrator has chosen for the copies of a volume.
#[derive(Clone, Copy)]
struct Settings {
    preferred: Option<NodeId>,
    slow_copies_leave: bool,
    resync: ResyncPace,
}

/// The record of an object that has, or had, copies on several nodes, of which this is one.
fn owned(object: &ObjectRecord, records: &Records, node: &str, settings: Settings) -> Option<ObjectDesired> {
    let Settings { preferred, slow_copies_leave, resync } = settings;
    let here = object.used().any(|c| c.node == node) || owner_of(object) == Some(node);
    let made = object.used().all(|c| c.no.is_some());
    if !here || object.is_alone_on(node) || !made {
        return None;
    }
    let record = ownership_of(object, |name| records.nodes.iter().find(|n| n.name == name)?.id)?;
    Some(ObjectDesired { object: object.id, revision: records.object_revision(object.id), record, preferred, slow_copies_leave, resync })
}

/// What this node has of an object that another one owns.
fn held(object: &ObjectRecord, records: &Records, observed: &Observed) -> Vec<HeldDesired> {
    // By a record that was restored nobody owns it.
    let Some(owner) = owner_elsewhere(object, records, &observed.node).filter(|_| !object.change.restored) else { return Vec::new() };
    let here = object.used().filter(|c| c.node == observed.node);
    let found = |c: &ComponentRecord| {
        let no = c.no.filter(|no| observed.finds(c.group, c.id, *no))?;
        Some(ComponentRef { id: c.id, group: c.group, no: ComponentNo(no) })
    };
    here.filter_map(found).map(|component| HeldDesired { component, owner, epoch: object.ownership.epoch }).collect()
}

/// What a group is formatted as. `force`: whatever its devices hold.
pub fn format_spec(cluster: ClusterId, group: &GroupRecord, force: bool) -> FormatSpec {
    let GroupRecord { id, name, shards, created_unix_s, .. } = group;
    FormatSpec { cluster, group: *id, name: name.clone(), shards: *shards, created_unix_s: *created_unix_s, force }
}

/// What a copy of a mirror of a volume is made as.
///
/// # Panics
/// When `object` has no such copy.
pub fn component_spec(volume: &VolumeRecord, object: &ObjectRecord, mirror: usize, copy: usize) -> ComponentSpec {
    let c = &object.mirrors[mirror][copy];
    // What it says of its volume, for whoever finds it without its directory.
    let descriptor = Descriptor {
        // A new layout of a volume says what it is to be.
        volume: volume.place_of.unwrap_or(volume.id),
        bytes: volume.bytes,
        lba_bytes: volume.lba_bytes,
        stripe: mirror as u16,
        stripes: object.mirrors.len() as u16,
        copy: copy as u8,
        name: volume.name.clone(),
        policy: volume.policy.clone(),
    };
    ComponentSpec {
        id: c.id,
        object: object.id,
        capacity_index: c.capacity_index,
        bytes: c.bytes,
        reserve_chunks: c.reserve_chunks,
        descriptor: descriptor.build(),
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
