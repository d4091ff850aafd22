//! The directory with records instead of bytes.

use crate::{Action, Directory, DirectoryError, Entry, Expect, Key, Kind, Record, Revision, Transaction};
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

pub(crate) fn decode<R: Record>(entry: Entry) -> Result<Versioned<R>, DirectoryError> {
    Ok(Versioned { revision: entry.revision, value: parse(&entry.key, &entry.value)? })
}

pub(crate) fn parse<R: Record>(key: &Key, value: &[u8]) -> Result<R, DirectoryError> {
    serde_json::from_slice(value).map_err(|cause| DirectoryError::Record { key: key.clone(), cause: cause.to_string() })
}

pub(crate) fn name_key(kind: Kind, name: &str) -> Key {
    // names are unique whatever their case, so that nobody confuses Data with data
    Key::new(Kind::Name, format!("{}/{}", kind.prefix(), name.to_ascii_lowercase()))
}

pub(crate) fn encode<R: Record>(record: &R) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

/// Who holds a unique name, and since when; what it is compared with when the name is given up or spelled anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldName {
    kind: Kind,
    name: String,
    revision: Revision,
}

impl HeldName {
    /// A name as the directory has it; `None`: nobody has it.
    pub fn find(directory: &(impl Directory + ?Sized), kind: Kind, name: &str) -> Result<Option<Self>, DirectoryError> {
        let found = directory.get(&name_key(kind, name))?;
        Ok(found.map(|e| Self { kind, name: name.to_owned(), revision: e.revision }))
    }
}

/// Building a transaction from records.
impl Transaction {
    /// A record that must not be there yet.
    pub fn create<R: Record>(self, record: &R) -> Self {
        self.with(Key::new(R::KIND, record.id()), Expect::Absent, Action::Put(encode(record)))
    }
    /// A record changed since it was read.
    pub fn update<R: Record>(self, record: &Versioned<R>) -> Self {
        self.with(Key::new(R::KIND, record.value.id()), Expect::At(record.revision), Action::Put(encode(&record.value)))
    }
    /// A record that is as it was read.
    pub fn expect<R: Record>(self, record: &Versioned<R>) -> Self {
        self.with(Key::new(R::KIND, record.value.id()), Expect::At(record.revision), Action::Check)
    }
    /// A record that is as it was read, and is written as it is: whoever else has read it conflicts, when both hold or change it. For decisions
    /// that depend on a record without changing it, where [`Transaction::expect`] is not enough: one that removes the record must see this one.
    pub fn hold<R: Record>(self, record: &Versioned<R>) -> Self {
        self.update(record)
    }
    /// A record that goes.
    pub fn remove<R: Record>(self, record: &Versioned<R>) -> Self {
        self.with(Key::new(R::KIND, record.value.id()), Expect::At(record.revision), Action::Delete)
    }
    /// A name that nobody must have yet.
    pub fn take_name(self, kind: Kind, name: &str, id: &str) -> Self {
        self.with(name_key(kind, name), Expect::Absent, Action::Put(id.as_bytes().to_vec()))
    }
    /// A name for which its owner has a new spelling: only upper and lower case differ.
    pub fn retake_name(self, held: &HeldName, id: &str) -> Self {
        self.with(name_key(held.kind, &held.name), Expect::At(held.revision), Action::Put(id.as_bytes().to_vec()))
    }
    /// A name that is free again. `None`: it was free, and must still be.
    pub fn free_name(self, held: &HeldName) -> Self {
        self.with(name_key(held.kind, &held.name), Expect::At(held.revision), Action::Delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modelled::{Faults, Modelled};
    use crate::record::NodeRecord;

    /// Two decisions that each read what the other depends on: one of them has to look again, whichever comes first.
    #[test]
    fn who_removes_what_somebody_holds_looks_again_and_so_does_who_holds_what_is_removed() {
        let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
        let node = |name: &str| NodeRecord::new(name.into(), "d".into(), 0);
        let conflicts = |t: Transaction| matches!(directory.commit(&t), Err(DirectoryError::Conflict { .. }));
        directory.commit(&Transaction::new().create(&node("a"))).unwrap();
        let read = || directory.find::<NodeRecord>("a").unwrap().unwrap();
        let (mine, others) = (read(), read());
        directory.commit(&Transaction::new().hold(&mine).create(&node("b"))).unwrap();
        assert_eq!(read().value, mine.value, "it is as it was");
        assert!(conflicts(Transaction::new().remove(&others)) && conflicts(Transaction::new().hold(&others).create(&node("c"))));
        let (mine, others) = (read(), read());
        directory.commit(&Transaction::new().remove(&mine)).unwrap();
        assert!(conflicts(Transaction::new().hold(&others).create(&node("c"))));
    }
}
