//! What goes to the directory: reads and changes, of many objects at once.
//!
//! Owns: [`DirectoryQueue`].
//! Invariants: an object is in one transaction at most that has not left; a read that began before it was asked for counts as none; after an
//! answer that was lost nothing is asked for a while.
//! Never: judges an outcome.

use super::action::{Action, Change};
use super::limits::{BATCHES_MAX, CHANGES_MAX, READS_MAX, TRY_AGAIN};
use base::{Instant, Nonce, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

/// What was asked.
#[derive(Debug)]
pub(super) enum Batch {
    Reads(Vec<ObjectId>),
    Changes(Vec<(ObjectId, Nonce)>),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DirectoryQueue {
    /// To be read.
    reads: BTreeSet<ObjectId>,
    /// Of each object that is being read: the question that was asked last.
    reading: BTreeMap<ObjectId, u64>,
    changes: BTreeMap<ObjectId, Change>,
    /// Changes of these were in the way of others: they go alone.
    alone: BTreeSet<ObjectId>,
    under_way: BTreeMap<u64, Batch>,
    asked: u64,
    not_before: Instant,
}

impl DirectoryQueue {
    /// A record is to be read, from now on.
    pub fn read(&mut self, object: ObjectId) {
        self.reads.insert(object);
    }
    /// Whether it is to be read, or is being read.
    pub fn reads(&self, object: ObjectId) -> bool {
        self.reads.contains(&object) || self.reading.contains_key(&object)
    }
    /// A record is to be changed. The last one counts.
    pub fn change(&mut self, change: Change) {
        self.changes.insert(change.object, change);
    }
    /// A change that has not left is not wanted any more.
    pub fn unchanged(&mut self, object: ObjectId) {
        self.changes.remove(&object);
    }
    /// The object is gone.
    pub fn forget(&mut self, object: ObjectId) {
        self.reads.remove(&object);
        self.reading.remove(&object);
        self.changes.remove(&object);
        self.alone.remove(&object);
    }
    /// Its changes go with others again, or alone.
    pub fn goes_alone(&mut self, object: ObjectId, alone: bool) {
        if alone {
            self.alone.insert(object);
        } else {
            self.alone.remove(&object);
        }
    }

    /// The next question.
    pub fn next(&mut self, now: Instant) -> Option<Action> {
        if self.not_before > now || self.reads.is_empty() && self.changes.is_empty() {
            return None;
        }
        let changes = self.under_way.values().filter(|batch| matches!(batch, Batch::Changes(_))).count();
        let reads = self.under_way.len() - changes;
        if changes < BATCHES_MAX && !self.changes.is_empty() {
            return Some(self.next_changes());
        }
        (reads < BATCHES_MAX && !self.reads.is_empty()).then(|| self.next_reads())
    }
    fn next_changes(&mut self) -> Action {
        let with_others: Vec<ObjectId> = self.changes.keys().filter(|o| !self.alone.contains(o)).take(CHANGES_MAX).copied().collect();
        let go = if with_others.is_empty() { self.changes.keys().take(1).copied().collect() } else { with_others };
        let changes: Vec<Change> = go.iter().filter_map(|object| self.changes.remove(object)).collect();
        let request = self.begins(Batch::Changes(changes.iter().map(|c| (c.object, c.new.nonce)).collect()));
        Action::Change { request, changes }
    }
    fn next_reads(&mut self) -> Action {
        let objects: Vec<ObjectId> = core::iter::from_fn(|| self.reads.pop_first()).take(READS_MAX).collect();
        let request = self.begins(Batch::Reads(objects.clone()));
        self.reading.extend(objects.iter().map(|object| (*object, request)));
        Action::Read { request, objects }
    }
    fn begins(&mut self, batch: Batch) -> u64 {
        self.asked += 1;
        self.under_way.insert(self.asked, batch);
        self.asked
    }

    /// A question is answered: what was asked.
    pub fn answered(&mut self, request: u64) -> Option<Batch> {
        self.under_way.remove(&request)
    }
    /// Whether what a question brought is as new as was asked for. It is not asked for any more then.
    pub fn is_fresh(&mut self, object: ObjectId, request: u64) -> bool {
        let last = self.reading.get(&object) == Some(&request);
        if last {
            self.reading.remove(&object);
        }
        last && !self.reads.contains(&object)
    }
    /// Records that could not be read are read again.
    pub fn reads_again(&mut self, objects: Vec<ObjectId>, request: u64) {
        for object in objects {
            if self.reading.get(&object) == Some(&request) {
                self.reading.remove(&object);
                self.reads.insert(object);
            }
        }
    }
    /// The directory has not answered: it is left alone for a while.
    pub fn backs_off(&mut self, now: Instant) {
        self.not_before = now + TRY_AGAIN;
    }
    /// When something may be asked that may not now.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        (self.not_before > now && !(self.reads.is_empty() && self.changes.is_empty())).then_some(self.not_before)
    }
    /// How much it keeps of objects.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.reads.len() + self.reading.len() + self.changes.len() + self.alone.len() + self.under_way.len()
    }
}
