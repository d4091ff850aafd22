//! What the operator keeps in the directory, and what `cluster::reconcile` decides from it: as the control plane of a node does it, without a
//! thread.
//!
//! Owns: [`ModelledControl`]: a node (`directory::ModelledNode`) on a modelled directory, which outlasts every death of
//! the node and now and then loses a request or an answer.
//! Invariant: what is served is what the directory says, of objects whose term the node has begun.
//! Never: decides what a node has to do; knows what clients do.

use super::ids::{NODE, cluster, group};
use super::task::Record;
use base::{ObjectId, Ownership, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, ObjectRecord, ReservationRecord, Stage, VolumeRecord};
use cluster::reservation::State;
use cluster::{Action, Finish};
use dataplane::{ComponentInfo, VolumeDesired};
use directory::modelled::{Faults, Modelled};
use directory::{ModelledNode, Transaction};
use std::collections::BTreeMap;

/// See the module.
pub struct ModelledControl(ModelledNode);

/// How the paths of the machine's devices begin, before the place of each.
const DEVICES: &str = "/dev/simulated-";

/// A device of the machine, as the directory has it.
pub fn device_record(place: usize) -> DeviceRecord {
    DeviceRecord::Block { path: format!("{DEVICES}{place}"), bytes: 1 << 30 }
}
/// Which device of the machine a record is of.
pub fn place_in_machine(device: &DeviceRecord) -> usize {
    let place = device.path().and_then(|path| path.strip_prefix(DEVICES)?.parse().ok());
    place.expect("it was written by `device_record`")
}

/// The disk group, as the directory has it.
pub fn group_record(shards: u8, capacity_devices: usize) -> GroupRecord {
    GroupRecord {
        id: group(),
        name: "g0".into(),
        node: NODE.into(),
        stage: Stage::Ready,
        cache: device_record(0),
        capacity: (1..=capacity_devices).map(device_record).collect(),
        changes: Default::default(),
        shards,
        created_unix_s: 1,
    }
}

impl ModelledControl {
    /// A directory with the disk group and nothing else.
    pub fn new(seed: u64, shards: u8, capacity_devices: usize) -> ModelledControl {
        let faults = Faults {
            unavailable_permille: 20,
            lost_request_permille: 20,
            lost_answer_permille: 20,
            late_permille: 20,
            election_permille: 5,
            ..Faults::NONE
        };
        let mut node = ModelledNode::new(NODE, Modelled::new(seed, cluster(), faults));
        node.commit(Transaction::new().create(&group_record(shards, capacity_devices))).expect("nobody else writes");
        ModelledControl(node)
    }

    /// The node was started.
    pub fn node_started(&mut self) {
        self.0.begin_start();
    }
    /// The disk group was opened.
    pub fn group_opened(&mut self, components: &[ComponentInfo]) {
        self.0.group_opened(group(), components.iter().map(|c| (c.id, c.no.0)).collect());
    }
    /// What was to be done at the start is done, or under way.
    pub fn is_started(&mut self) {
        self.0.end_start();
    }
    /// Does what there is to do in the directory, and returns what there is to do for the node.
    pub fn decide(&mut self) -> Vec<Action> {
        self.0.decide()
    }
    /// The volumes to be finished, among those actions.
    pub fn to_finish(actions: &[Action]) -> BTreeMap<VolumeId, Finish> {
        let finish = |a: &Action| if let Action::Finish(volume, what) = a { Some((*volume, *what)) } else { None };
        actions.iter().filter_map(finish).collect()
    }

    /// A volume is as the operator wants it: its records say so.
    pub fn write(&mut self, record: &Record) {
        let node = &mut self.0;
        let (mut object, reservation) = (record.object_record(), record.desired.reservation.as_deref());
        let mut transaction = node.put(Transaction::new(), &record.volume_record());
        transaction = node.put(transaction, &record.policy_record());
        match node.find::<ObjectRecord>(object.id) {
            // What was found of components is not the operator's.
            Some(there) => {
                for (new, old) in object.components_mut().zip(there.value.components()) {
                    new.state = old.state;
                }
            }
            None => node.own(&object),
        }
        transaction = node.put(transaction, &object);
        if let Some(state) = reservation {
            transaction = node.put(transaction, &ReservationRecord { volume: record.desired.id, state: state.clone() });
        }
        node.commit(transaction).expect("nobody else writes");
    }
    /// A volume is deleted.
    pub fn remove(&mut self, record: &Record) {
        let (node, volume, object) = (&mut self.0, record.desired.id, record.desired.object.object);
        let mut gone = Transaction::new();
        gone = node.find::<VolumeRecord>(volume).iter().fold(gone, Transaction::remove);
        gone = node.find::<ObjectRecord>(object).iter().fold(gone, Transaction::remove);
        gone = node.find::<ReservationRecord>(volume).iter().fold(gone, Transaction::remove);
        node.commit(gone).expect("nobody else writes");
        node.disown(object);
    }

    /// The disk group.
    pub fn group(&mut self) -> GroupRecord {
        self.0.find::<GroupRecord>(group()).expect("it stays").value
    }
    /// Something of the disk group changes.
    pub fn change_group(&mut self, change: impl FnOnce(&mut GroupRecord)) {
        let mut record = self.group();
        change(&mut record);
        let transaction = self.0.put(Transaction::new(), &record);
        self.0.commit(transaction).expect("nobody else writes");
    }

    /// Whether the directory has a volume.
    pub fn is_there(&mut self, record: &Record) -> bool {
        self.0.find::<VolumeRecord>(record.desired.id).is_some()
    }
    /// How the changes of an object are ordered now; `None`: it was deleted.
    pub fn ownership(&mut self, object: ObjectId) -> Option<Ownership> {
        self.0.find::<ObjectRecord>(object).map(|o| o.value.ownership)
    }
    /// Who is registered.
    pub fn reservation(&mut self, volume: VolumeId) -> Option<State> {
        self.0.find::<ReservationRecord>(volume).map(|r| r.value.state)
    }

    /// What the node is to serve.
    pub fn served(&mut self) -> Vec<VolumeDesired> {
        dataplane::served(&self.0.records(), self.0.observed()).volumes
    }
}
