//! What the operator keeps in the directory, and what `cluster::reconcile` decides from it: as the control plane of a node does it, without a
//! thread.
//!
//! Owns: [`ModelledControl`]: the modelled directory, which outlasts every death of the node and now and then loses a request or an answer; and what is
//! observed of the node since it started.
//! Invariant: what is served is what the directory says, of objects whose term the node has begun.
//! Never: decides what a node has to do; knows what clients do.

use super::ids::{NODE, cluster, group};
use super::task::Record;
use base::{ObjectId, Ownership, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, ObjectRecord, PolicyRecord, ReservationRecord, Stage, VolumeRecord};
use cluster::reservation::State;
use cluster::{Action, Finish, GroupSeen, Observed, Records};
use dataplane::{ComponentInfo, MirrorDesired, VolumeDesired};
use directory::carry_out::Outcome;
use directory::modelled::{Faults, Modelled};
use directory::{Attempt, Directory, DirectoryError, Nonce, Revision, Transaction, Typed, Versioned};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long the operator waits before it asks a directory again that has not answered. Virtual time of the directory alone.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module.
pub struct ModelledControl {
    directory: Modelled,
    now: Duration,
    nonces: u128,
    observed: Observed,
    tried: BTreeSet<Action>,
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
        let mut control = ModelledControl {
            directory: Modelled::new(seed, cluster(), faults),
            now: Duration::ZERO,
            nonces: 0,
            observed: Observed::default(),
            tried: BTreeSet::new(),
        };
        let device = |n: usize| DeviceRecord::Block { path: format!("/dev/simulated-{n}"), bytes: 1 << 30 };
        let record = GroupRecord {
            id: group(),
            name: "g0".into(),
            node: NODE.into(),
            stage: Stage::Ready,
            cache: device(0),
            capacity: (1..=capacity_devices).map(device).collect(),
            shards,
            created_unix_s: 1,
        };
        control.commit(Transaction::new().create(&record)).expect("nobody else writes");
        control
    }

    /// The node was started: of what it did before nothing is known but what is in the directory.
    pub fn node_started(&mut self) {
        self.observed = Observed { node: NODE.into(), restarted: true, ..Observed::default() };
        self.tried.clear();
    }
    /// The disk group was opened.
    pub fn group_opened(&mut self, components: &[ComponentInfo]) {
        let found = components.iter().map(|c| (c.id, c.no.0)).collect();
        self.observed.groups.insert(group(), GroupSeen::Open(found));
    }
    /// What was to be done at the start is done, or under way.
    pub fn is_started(&mut self) {
        self.observed.restarted = false;
    }

    /// Does what there is to do in the directory, and returns what there is to do for the node.
    pub fn decide(&mut self) -> Vec<Action> {
        let mut left = Vec::new();
        loop {
            let actions = cluster::reconcile(&self.records(), &self.observed);
            let new: Vec<Action> = actions.into_iter().filter(|a| self.tried.insert(a.clone())).collect();
            if new.is_empty() {
                return left;
            }
            for action in new {
                match self.carry_out(&action) {
                    Outcome::Begun(begun) => self.observed.terms.extend(begun),
                    Outcome::Changed(_) => {}
                    Outcome::NotHere => left.push(action),
                }
            }
        }
    }
    /// The volumes to be finished, among those actions.
    pub fn to_finish(actions: &[Action]) -> BTreeMap<VolumeId, Finish> {
        let finish = |a: &Action| if let Action::Finish(volume, what) = a { Some((*volume, *what)) } else { None };
        actions.iter().filter_map(finish).collect()
    }

    fn carry_out(&mut self, action: &Action) -> Outcome {
        let directory = self.directory.clone();
        loop {
            match directory::carry_out(&directory, action, |t| self.commit(t)) {
                Ok(outcome) => return outcome,
                Err(DirectoryError::Unavailable) => self.wait(),
                Err(error) => panic!("{action:?}: {error}"),
            }
        }
    }

    /// A volume is as the operator wants it: its records say so.
    pub fn write(&mut self, record: &Record) {
        let (mut object, reservation) = (record.object_record(), record.desired.reservation.as_deref());
        let mut transaction = self.put(Transaction::new(), &record.volume_record());
        transaction = self.put(transaction, &record.policy_record());
        match self.find::<ObjectRecord>(&object.id.to_string()) {
            // What was found of components is not the operator's.
            Some(there) => {
                for (new, old) in object.components_mut().zip(there.value.components()) {
                    new.state = old.state;
                }
            }
            None => {
                self.observed.terms.insert(object.id, object.ownership.term);
            }
        }
        transaction = self.put(transaction, &object);
        if let Some(state) = reservation {
            transaction = self.put(transaction, &ReservationRecord { volume: record.desired.id, state: state.clone() });
        }
        self.commit(transaction).expect("nobody else writes");
    }
    /// A volume is deleted.
    pub fn remove(&mut self, record: &Record) {
        let (volume, object) = (record.desired.id.to_string(), record.desired.object.object);
        let mut gone = Transaction::new();
        gone = self.find::<VolumeRecord>(&volume).iter().fold(gone, Transaction::remove);
        gone = self.find::<ObjectRecord>(&object.to_string()).iter().fold(gone, Transaction::remove);
        gone = self.find::<ReservationRecord>(&volume).iter().fold(gone, Transaction::remove);
        self.commit(gone).expect("nobody else writes");
        self.observed.terms.remove(&object);
    }

    /// Whether the directory has a volume.
    pub fn is_there(&mut self, record: &Record) -> bool {
        self.find::<VolumeRecord>(&record.desired.id.to_string()).is_some()
    }
    /// How the changes of an object are ordered now; `None`: it was deleted.
    pub fn ownership(&mut self, object: ObjectId) -> Option<Ownership> {
        self.find::<ObjectRecord>(&object.to_string()).map(|o| o.value.ownership)
    }
    /// Who is registered.
    pub fn reservation(&mut self, volume: VolumeId) -> Option<State> {
        self.find::<ReservationRecord>(&volume.to_string()).map(|r| r.value.state)
    }

    /// What the node is to serve.
    pub fn served(&mut self) -> Vec<VolumeDesired> {
        let records = self.records();
        let policies: BTreeMap<String, PolicyRecord> = self.all::<PolicyRecord>().into_iter().map(|p| (p.name.clone(), p)).collect();
        let volume = |volume: &VolumeRecord| {
            let object = records.objects.iter().find(|o| o.id == volume.object)?;
            let mirrors = cluster::serving(object, &self.observed).unwrap_or_default();
            let mirrors = mirrors.into_iter().map(MirrorDesired::of).collect();
            let reservation = records.reservations.iter().find(|r| r.volume == volume.id).map(|r| Arc::new(r.state.clone()));
            let policy = &policies.get(&volume.policy)?.policy;
            Some(VolumeDesired::from_records(volume, object, policy, reservation, mirrors))
        };
        records.volumes.iter().filter(|v| v.stage == Stage::Ready).filter_map(volume).collect()
    }

    fn records(&mut self) -> Records {
        Records { groups: self.all(), volumes: self.all(), objects: self.all(), reservations: self.all() }
    }
    fn put<R: directory::Record + Clone + PartialEq>(&mut self, transaction: Transaction, record: &R) -> Transaction {
        match self.find::<R>(&record.id()) {
            None => transaction.create(record),
            Some(there) if there.value == *record => transaction,
            Some(there) => transaction.update(&Versioned { revision: there.revision, value: record.clone() }),
        }
    }
    fn find<R: directory::Record>(&mut self, id: &str) -> Option<Versioned<R>> {
        self.read(|directory| directory.find(id))
    }
    fn all<R: directory::Record>(&mut self) -> Vec<R> {
        self.read(|directory| directory.all()).into_iter().map(|r| r.value).collect()
    }
    fn read<T>(&mut self, what: impl Fn(&Modelled) -> Result<T, DirectoryError>) -> T {
        loop {
            match what(&self.directory) {
                Ok(found) => return found,
                Err(DirectoryError::Unavailable) => self.wait(),
                Err(error) => panic!("the directory cannot be read: {error}"),
            }
        }
    }

    /// Commits, and does not rest before it is known whether it has happened.
    fn commit(&mut self, transaction: Transaction) -> Result<Revision, DirectoryError> {
        if transaction.changes.is_empty() {
            return Ok(self.read(Directory::revision));
        }
        self.nonces += 1;
        let mut attempt = Attempt::new(transaction, Nonce(self.nonces.to_le_bytes()));
        loop {
            match attempt.step(&self.directory) {
                None | Some(Err(DirectoryError::Unavailable | DirectoryError::Unknown { .. })) => self.wait(),
                Some(known) => return known,
            }
        }
    }
    fn wait(&mut self) {
        self.now += PAUSE;
        self.directory.advance(self.now);
    }
}
