//! What every directory does, and what it gives.
//!
//! Owns: [`Directory`], [`Watch`] and the types that they speak of. Never: knows how it is done.

use crate::error::DirectoryError;
use crate::ids::{Nonce, Revision, SessionId};
use crate::key::{Key, Kind};
use crate::transaction::Transaction;
use std::time::Duration;

/// A value with the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub key: Key,
    /// When it was last written.
    pub revision: Revision,
    /// JSON.
    pub value: Vec<u8>,
}

/// All of the directory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment: a watch from here misses nothing and repeats nothing.
    pub revision: Revision,
    /// Every entry, by key.
    pub entries: Vec<Entry>,
}

/// What one transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The transaction's revision.
    pub revision: Revision,
    /// Each key that it changed, once. None: a transaction that changed nothing and has a revision all the same.
    pub events: Vec<Event>,
}

/// A key that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Key,
    /// Its new value; `None`: removed.
    pub value: Option<Vec<u8>>,
}

/// Changes as they happen, one transaction at a time.
///
/// After an error it gives that error for ever: take a snapshot and watch from there.
pub trait Watch: Send {
    /// The next transaction, if there is one by now.
    fn poll(&mut self) -> Result<Option<Changes>, DirectoryError>;
    /// The next transaction; waits for one as long as `timeout` says. A directory in virtual time does not wait.
    fn wait(&mut self, timeout: Duration) -> Result<Option<Changes>, DirectoryError>;
    /// Everything up to here has been given.
    fn revision(&self) -> Revision;
}

/// The cluster's metadata.
///
/// Reads are linearizable: they show every commit that was answered before they began. A watch reaches every revision that is handed out.
pub trait Directory: Send + Sync {
    /// One value.
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError>;
    /// All values of a kind, by key.
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError>;
    /// Everything, as of one revision.
    fn snapshot(&self) -> Result<Snapshot, DirectoryError>;
    /// All changes after a revision. [`DirectoryError::Compacted`]: its history is gone; [`DirectoryError::Older`]: it has not been yet.
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError>;
    /// Makes all changes if every expectation holds, else none ([`DirectoryError::Conflict`]). Durable when it returns. One with a nonce that has
    /// happened already gives the revision at which it happened, and changes nothing. One that changes nothing may have a revision of its own.
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError>;
    /// When the transaction with this nonce happened; `None`: it has not. Remembered for [`crate::NONCES_MIN`] transactions.
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError>;
    /// A moment that shows every commit which was answered before.
    fn revision(&self) -> Result<Revision, DirectoryError>;
    /// Begins a session, which ends when it was not kept alive for `ttl`, or some seconds later. The keys bound to it go with it, in one
    /// transaction.
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError>;
    /// Lets a session live for its whole time again. [`DirectoryError::NoSession`]: it has ended; its keys are gone.
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError>;
    /// Ends a session now. One that has ended is no error.
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError>;
    /// The number of the store that answers. One that was made from a backup has another number; 0 where that cannot be.
    fn store(&self) -> Result<u64, DirectoryError>;
    /// The cluster that it belongs to.
    fn cluster(&self) -> base::ClusterId;
}
