//! The directory with records instead of bytes.

use crate::{Action, Change, Directory, DirectoryError, Entry, Expect, Key, Kind, Record, Revision, Transaction};
use std::ops::{Deref, DerefMut};

/// A record with the revision that wrote it; what changes are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// When it was last written.
    pub revision: Revision,
    /// The record.
    pub value: T,
}

impl<T> Deref for Versioned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> DerefMut for Versioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Reads with types, for every directory.
pub trait Typed {
    /// The record with this id.
    fn find<R: Record>(&self, id: &str) -> Result<Option<Versioned<R>>, DirectoryError>;
    /// All records of a type, by key.
    fn all<R: Record>(&self) -> Result<Vec<Versioned<R>>, DirectoryError>;
    /// What holds a unique name.
    fn named(&self, kind: Kind, name: &str) -> Result<Option<String>, DirectoryError>;
}

impl<D: Directory + ?Sized> Typed for D {
    fn find<R: Record>(&self, id: &str) -> Result<Option<Versioned<R>>, DirectoryError> {
        self.get(&Key::new(R::KIND, id))?.map(decode).transpose()
    }
    fn all<R: Record>(&self) -> Result<Vec<Versioned<R>>, DirectoryError> {
        self.list(R::KIND)?.into_iter().map(decode).collect()
    }
    fn named(&self, kind: Kind, name: &str) -> Result<Option<String>, DirectoryError> {
        let key = name_key(kind, name);
        Ok(self.get(&key)?.map(|e| String::from_utf8_lossy(&e.value).into_owned()))
    }
}

fn decode<R: Record>(entry: Entry) -> Result<Versioned<R>, DirectoryError> {
    let value = serde_json::from_slice(&entry.value)
        .map_err(|cause| DirectoryError::Record { key: entry.key.clone(), cause: cause.to_string() })?;
    Ok(Versioned { revision: entry.revision, value })
}

fn name_key(kind: Kind, name: &str) -> Key {
    // names are unique whatever their case, so that nobody confuses Data with data
    Key::new(Kind::Name, format!("{}/{}", kind.prefix(), name.to_ascii_lowercase()))
}

fn encode<R: Record>(record: &R) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

/// Building a transaction from records.
impl Transaction {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// A record that must not be there yet.
    pub fn create<R: Record>(mut self, record: &R) -> Self {
        self.push(Key::new(R::KIND, record.id()), Expect::Absent, Action::Put(encode(record)));
        self
    }
    /// A record changed since it was read.
    pub fn update<R: Record>(mut self, record: &Versioned<R>) -> Self {
        self.push(Key::new(R::KIND, record.value.id()), Expect::At(record.revision), Action::Put(encode(&record.value)));
        self
    }
    /// A record written whatever is there.
    pub fn put<R: Record>(mut self, record: &R) -> Self {
        self.push(Key::new(R::KIND, record.id()), Expect::Any, Action::Put(encode(record)));
        self
    }
    /// A record that goes.
    pub fn remove<R: Record>(mut self, record: &Versioned<R>) -> Self {
        self.push(Key::new(R::KIND, record.value.id()), Expect::At(record.revision), Action::Delete);
        self
    }
    /// A record that goes, if it is there.
    pub fn remove_id<R: Record>(mut self, id: &str) -> Self {
        self.push(Key::new(R::KIND, id), Expect::Any, Action::Delete);
        self
    }
    /// A name that nobody must have yet.
    pub fn take_name(mut self, kind: Kind, name: &str, id: &str) -> Self {
        self.push(name_key(kind, name), Expect::Absent, Action::Put(id.as_bytes().to_vec()));
        self
    }
    /// A name for which its owner has a new spelling: only upper and lower case differ.
    pub fn retake_name(mut self, kind: Kind, name: &str, id: &str) -> Self {
        self.push(name_key(kind, name), Expect::Any, Action::Put(id.as_bytes().to_vec()));
        self
    }
    /// A name that is free again.
    pub fn free_name(mut self, kind: Kind, name: &str) -> Self {
        self.push(name_key(kind, name), Expect::Any, Action::Delete);
        self
    }
    fn push(&mut self, key: Key, expect: Expect, action: Action) {
        self.changes.push(Change { key, expect, action });
    }
}
