//! A copy of the directory in memory, brought up to date by a watch.
//!
//! Invariants: is as the directory was at its revision; changes come in order and whole transactions at a time.
//! Never: asks the directory by itself.

use crate::typed::{decode, name_key};
use crate::{Changes, DirectoryError, Entry, Key, Kind, Record, Revision, Snapshot, Versioned};
use base::hooks::{self, SeededFault};
use std::collections::BTreeMap;

/// What the directory held at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    revision: Revision,
    entries: BTreeMap<Key, (Revision, Vec<u8>)>,
}

impl View {
    /// From a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        let entries = snapshot.entries.into_iter().map(|e| (e.key, (e.revision, e.value))).collect();
        Self { revision: snapshot.revision, entries }
    }
    /// Its revision.
    pub const fn revision(&self) -> Revision {
        self.revision
    }
    /// Passes over changes, so that something is missing from then on: only a seeded fault does that.
    pub fn skip_to(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }
    /// Takes what the next transaction changed.
    pub fn apply(&mut self, changes: Changes) {
        assert!(changes.revision > self.revision, "a watch gives changes in order, each once");
        self.revision = changes.revision;
        for event in changes.events {
            match event.value {
                Some(value) => drop(self.entries.insert(event.key, (changes.revision, value))),
                None if hooks::seeded(SeededFault::RemovalMissed) => {}
                None => drop(self.entries.remove(&event.key)),
            }
        }
    }
    /// All entries of a kind, by key.
    pub fn entries(&self, kind: Kind) -> impl Iterator<Item = Entry> {
        let of_kind = self.entries.range(Key::new(kind, "")..).take_while(move |(key, _)| key.kind == kind);
        of_kind.map(|(key, (revision, value))| Entry { key: key.clone(), revision: *revision, value: value.clone() })
    }
    /// The entry with this key.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.entries.get(key).map(|(revision, value)| Entry { key: key.clone(), revision: *revision, value: value.clone() })
    }
    /// The record with this id.
    pub fn find<R: Record>(&self, id: &str) -> Result<Option<Versioned<R>>, DirectoryError> {
        let key = Key::new(R::KIND, id);
        let found = self.entries.get(&key).map(|(revision, value)| Entry { key: key.clone(), revision: *revision, value: value.clone() });
        found.map(decode).transpose()
    }
    /// All records of a type, by key.
    pub fn all<R: Record>(&self) -> Result<Vec<Versioned<R>>, DirectoryError> {
        self.entries(R::KIND).map(decode).collect()
    }
    /// What holds a unique name.
    pub fn named(&self, kind: Kind, name: &str) -> Option<String> {
        self.entries.get(&name_key(kind, name)).map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}
