//! A copy of the directory in memory, brought up to date by a watch.
//!
//! Invariants: is as the directory was at its revision; changes come in order and whole transactions at a time. A record is parsed once, however
//! often it is asked for: who decides reads all of them after each change.
//! Never: asks the directory by itself.

use crate::typed::{name_key, parse};
use crate::{Changes, DirectoryError, Entry, Key, Kind, Record, Revision, Snapshot, Versioned};
use base::hooks::{self, SeededFault};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// What a key holds.
#[derive(Clone, Debug)]
struct Held {
    revision: Revision,
    value: Vec<u8>,
    /// The record in `value`, once somebody has asked for it.
    parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Held {
    fn new(revision: Revision, value: Vec<u8>) -> Self {
        Self { revision, value, parsed: OnceLock::new() }
    }
    fn entry(&self, key: &Key) -> Entry {
        Entry { key: key.clone(), revision: self.revision, value: self.value.clone() }
    }
    fn record<R: Record>(&self, key: &Key) -> Result<Versioned<R>, DirectoryError> {
        // A kind of key holds one type of record; were there two, the other one would be parsed each time.
        if let Some(value) = self.parsed.get().and_then(|parsed| parsed.downcast_ref::<R>()) {
            return Ok(Versioned { revision: self.revision, value: value.clone() });
        }
        let value: R = parse(key, &self.value)?;
        let _ = self.parsed.set(Arc::new(value.clone()));
        Ok(Versioned { revision: self.revision, value })
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        (self.revision, &self.value) == (other.revision, &other.value)
    }
}
impl Eq for Held {}

/// What the directory held at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    revision: Revision,
    entries: BTreeMap<Key, Held>,
}

impl View {
    /// From a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        let entries = snapshot.entries.into_iter().map(|e| (e.key, Held::new(e.revision, e.value))).collect();
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
                Some(value) => drop(self.entries.insert(event.key, Held::new(changes.revision, value))),
                None if hooks::seeded(SeededFault::RemovalMissed) => {}
                None => drop(self.entries.remove(&event.key)),
            }
        }
    }
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Held)> {
        self.entries.range(Key::new(kind, "")..).take_while(move |(key, _)| key.kind == kind)
    }
    /// All entries of a kind, by key.
    pub fn entries(&self, kind: Kind) -> impl Iterator<Item = Entry> {
        self.of_kind(kind).map(|(key, held)| held.entry(key))
    }
    /// The entry with this key.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.entries.get(key).map(|held| held.entry(key))
    }
    /// The record with this id.
    pub fn find<R: Record>(&self, id: &str) -> Result<Option<Versioned<R>>, DirectoryError> {
        let key = Key::new(R::KIND, id);
        self.entries.get(&key).map(|held| held.record(&key)).transpose()
    }
    /// All records of a type, by key.
    pub fn all<R: Record>(&self) -> Result<Vec<Versioned<R>>, DirectoryError> {
        self.of_kind(R::KIND).map(|(key, held)| held.record(key)).collect()
    }
    /// What holds a unique name.
    pub fn named(&self, kind: Kind, name: &str) -> Option<String> {
        self.entries.get(&name_key(kind, name)).map(|held| String::from_utf8_lossy(&held.value).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NodeRecord;
    use crate::{Event, typed::encode};

    #[test]
    fn a_record_is_parsed_once_and_anew_when_it_has_changed() {
        let node = |domain: &str| NodeRecord::new("a".into(), domain.into(), 7);
        let key = Key::new(Kind::Node, "a");
        let entry = Entry { key: key.clone(), revision: Revision(3), value: encode(&node("rack1")) };
        let mut view = View::new(Snapshot { revision: Revision(3), entries: vec![entry] });
        let (untouched, first) = (view.clone(), view.all::<NodeRecord>().unwrap());
        assert_eq!((&first[0].value, first[0].revision), (&node("rack1"), Revision(3)));
        assert!(view.entries[&key].parsed.get().is_some());
        assert_eq!(view.find::<NodeRecord>("a").unwrap().as_ref(), Some(&first[0]));
        assert_eq!(view, untouched, "what was asked for makes no difference");

        let changed = Event { key: key.clone(), value: Some(encode(&node("rack2"))) };
        view.apply(Changes { revision: Revision(4), events: vec![changed] });
        let second = view.find::<NodeRecord>("a").unwrap().unwrap();
        assert_eq!((second.value, second.revision), (node("rack2"), Revision(4)));

        view.apply(Changes { revision: Revision(5), events: vec![Event { key: key.clone(), value: Some(b"{".to_vec()) }] });
        for _ in 0..2 {
            assert!(matches!(view.all::<NodeRecord>(), Err(DirectoryError::Record { key: of, .. }) if of == key));
        }
    }
}
