//! A node on a modelled directory: what it has observed of itself, and what `cluster::reconcile` decides from the
//! records, as the control plane of a node does it, without a thread. For whoever runs a node without a daemon: the
//! simulator, the studies, the micro-benchmarks.
//!
//! ```text
//!  begin_start ──► decide ◄──► Modelled (records; now and then a request or an answer is lost)
//!                    │ what is for the node's devices
//!                    ▼
//!             the caller, or `work` ──► group_opened, .. ──► decide
//! ```
//!
//! Owns: the node's way to the directory, which outlasts every death of the node, and what is observed since its start.
//! Invariants: an action is tried once a start; the outcome of a transaction is known before anything depends on it.
//! Never: decides what a node has to do; acts on devices by itself.

use crate::carry_out::{Outcome, carry_out};
use crate::modelled::Modelled;
use crate::record::{GroupRecord, NodeRecord, ObjectRecord, Stage, VolumeRecord};
use crate::{Attempt, Directory, DirectoryError, Nonce, Record, Revision, Transaction, Typed, Versioned, View};
use base::{ComponentId, Epoch, GroupId, ObjectId};
use cluster::{Action, Finish, GroupSeen, Observed, Records};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

/// How long it waits before it asks a directory again that has not answered. Virtual time of the directory alone.
const PAUSE: Duration = Duration::from_millis(100);

/// What a node does on its devices, for [`ModelledNode::work`].
pub trait NodeDevices {
    /// Why something could not be done.
    type Error;
    /// Makes a group, whatever its devices hold.
    fn format_group(&mut self, group: &GroupRecord) -> Result<(), Self::Error>;
    /// Opens a group. Gives the components on it: their numbers by id.
    fn open_group(&mut self, group: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, Self::Error>;
    /// Makes a copy of a mirror of a volume. Gives its number. Idempotent by the component's id.
    fn create_component(&mut self, volume: &VolumeRecord, object: &ObjectRecord, mirror: usize, copy: usize) -> Result<u32, Self::Error>;
}

/// See the module.
pub struct ModelledNode {
    directory: Modelled,
    nonces: u128,
    observed: Observed,
    /// It has not looked at the directory since it was started.
    begins: bool,
    tried: BTreeSet<Action>,
}

impl ModelledNode {
    /// A node of this name that is just starting.
    pub fn new(name: &str, directory: Modelled) -> ModelledNode {
        let observed = Observed { node: name.to_owned(), ..Observed::default() };
        ModelledNode { directory, nonces: first_nonce(name), observed, begins: true, tried: BTreeSet::new() }
    }

    /// It was started: of what it did before nothing is known but what is in the directory.
    pub fn begin_start(&mut self) {
        let node = core::mem::take(&mut self.observed.node);
        self.observed = Observed { node, ..Observed::default() };
        self.begins = true;
        self.tried.clear();
    }
    /// What was to be done at the start is done, or under way.
    pub fn end_start(&mut self) {
        self.observed.restarted.clear();
    }
    /// A group was opened, with these components: their numbers by id.
    pub fn group_opened(&mut self, group: GroupId, components: BTreeMap<ComponentId, u32>) {
        self.observed.groups.insert(group, GroupSeen::Open(components));
    }
    /// It writes an object that was not there before: the first term is its own.
    pub fn own(&mut self, object: &ObjectRecord) {
        self.observed.terms.insert(object.id, object.ownership.term);
    }
    /// It begins these terms with what it is about to commit.
    pub fn begin_terms(&mut self, begun: impl IntoIterator<Item = (ObjectId, Epoch)>) {
        self.observed.terms.extend(begun);
    }
    /// Writes a volume that is to be made, which [`ModelledNode::work`] does.
    pub fn write_volume(&mut self, volume: &VolumeRecord, object: &ObjectRecord) -> Result<Revision, DirectoryError> {
        self.own(object);
        self.commit(Transaction::new().create(volume).create(object))
    }
    /// An object is gone.
    pub fn disown(&mut self, object: ObjectId) {
        self.observed.terms.remove(&object);
    }
    /// It can pass on requests to these nodes, by name.
    pub fn forwards_are(&mut self, nodes: BTreeSet<String>) {
        self.observed.forwards = nodes;
    }
    /// A moment that shows every change that was answered before.
    pub fn revision(&mut self) -> Revision {
        self.read(Directory::revision)
    }
    /// It was started once more: nobody takes what it did before for what it does now.
    pub fn begin_life(&mut self) {
        let name = self.observed.node.clone();
        loop {
            let mut node = self.known::<NodeRecord>(&name);
            node.begin_life(0);
            match self.commit(Transaction::new().update(&node)) {
                Ok(_) => return,
                Err(DirectoryError::Conflict { .. }) => {}
                Err(error) => panic!("the node's start cannot be written down: {error}"),
            }
        }
    }
    /// What it knows of itself.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Does what there is to do in the directory, and returns what there is to do on devices.
    pub fn decide(&mut self) -> Vec<Action> {
        let mut left = Vec::new();
        loop {
            let records = self.records();
            if core::mem::take(&mut self.begins) {
                self.observed.restarted = cluster::only_on(&records, &self.observed.node);
            }
            let actions = cluster::reconcile(&records, &self.observed);
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

    /// Opens and makes all that there is to open and to make.
    ///
    /// # Panics
    /// When something was left half removed, resized or formatted: that is for nodes that live longer.
    pub fn work<D: NodeDevices>(&mut self, devices: &mut D) -> Result<(), D::Error> {
        loop {
            let actions = self.decide();
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                match action {
                    Action::OpenGroup(id) => {
                        let found = devices.open_group(&self.known(id))?;
                        self.group_opened(id, found);
                    }
                    Action::RemakeGroup(id) => {
                        let group = self.known(id);
                        devices.format_group(&group)?;
                        let found = devices.open_group(&group)?;
                        self.group_opened(id, found);
                    }
                    Action::Finish(id, Finish::Create) => {
                        let volume = self.known(id);
                        self.make(volume, devices)?;
                    }
                    other => unreachable!("{other:?} is left of a life before"),
                }
            }
        }
    }

    /// From records to components to a volume that is ready.
    fn make<D: NodeDevices>(&mut self, mut volume: Versioned<VolumeRecord>, devices: &mut D) -> Result<(), D::Error> {
        let mut object = self.known::<ObjectRecord>(volume.object);
        for (mirror, copy) in object.places() {
            let c = &object.mirrors[mirror][copy];
            if c.no.is_none() && c.node == self.observed.node {
                let no = devices.create_component(&volume, &object, mirror, copy)?;
                let c = &mut object.mirrors[mirror][copy];
                c.no = Some(no);
                if let Some(GroupSeen::Open(components)) = self.observed.groups.get_mut(&c.group) {
                    components.insert(c.id, no);
                }
            }
        }
        let made = object.components().all(|c| c.no.is_some());
        let mut intent = Transaction::new().update(&object);
        if made {
            volume.stage = Stage::Ready;
            intent = intent.update(&volume);
        }
        self.commit(intent).expect("nobody else writes");
        Ok(())
    }

    /// All that is decided on.
    pub fn records(&mut self) -> Records {
        crate::records(&self.view()).expect("records can be read")
    }
    /// The directory as it is now.
    pub fn view(&mut self) -> View {
        View::new(self.read(|directory| directory.snapshot()))
    }
    /// The record with this id.
    pub fn find<R: Record>(&mut self, id: impl Display) -> Option<Versioned<R>> {
        let id = id.to_string();
        self.read(|directory| directory.find(&id))
    }
    fn known<R: Record>(&mut self, id: impl Display) -> Versioned<R> {
        self.find(id).expect("what is decided on is there")
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

    /// A transaction with which a record is as it is given, whether it is there or not.
    pub fn put<R: Record + Clone + PartialEq>(&mut self, transaction: Transaction, record: &R) -> Transaction {
        match self.find::<R>(record.id()) {
            None => transaction.create(record),
            Some(there) if there.value == *record => transaction,
            Some(there) => transaction.update(&Versioned { revision: there.revision, value: record.clone() }),
        }
    }
    /// Commits, and does not rest before it is known whether it has happened.
    pub fn commit(&mut self, transaction: Transaction) -> Result<Revision, DirectoryError> {
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
    fn carry_out(&mut self, action: &Action) -> Outcome {
        let directory = self.directory.clone();
        loop {
            match carry_out(&directory, action, |t| self.commit(t)) {
                Ok(outcome) => return outcome,
                Err(DirectoryError::Unavailable) => self.wait(),
                Err(error) => panic!("{action:?}: {error}"),
            }
        }
    }
    fn wait(&mut self) {
        self.directory.pass(PAUSE);
    }
}

/// Nonces of a node are no other node's: the upper half is made of its name (FNV-1a).
fn first_nonce(name: &str) -> u128 {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    u128::from(hash) << 64
}

#[cfg(test)]
#[path = "modelled_node_tests.rs"]
mod tests;
