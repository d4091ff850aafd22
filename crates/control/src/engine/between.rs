//! A directory that lets something happen between a decision and its commit, for tests.
//!
//! Owns: [`Between`]. Invariant: otherwise it is the directory behind it. Never: commits by itself.

use directory::{Directory, DirectoryError, Entry, Key, Kind, Nonce, Revision, SessionId, Snapshot, Transaction, Watch};
use std::time::Duration;

/// What happens before a transaction is committed.
type Before<D> = Box<dyn Fn(&D, &Transaction) + Send + Sync>;

/// A directory with somebody else who may always be faster.
pub(super) struct Between<D> {
    directory: D,
    before: Before<D>,
}

impl<D> Between<D> {
    pub(super) fn new(directory: D, before: impl Fn(&D, &Transaction) + Send + Sync + 'static) -> Self {
        Self { directory, before: Box::new(before) }
    }
}

impl<D: Directory> Directory for Between<D> {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        self.directory.get(key)
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        self.directory.list(kind)
    }
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        (self.before)(&self.directory, transaction);
        self.directory.commit(transaction)
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.directory.revision()
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        self.directory.watch(after)
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        self.directory.snapshot()
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        self.directory.outcome(nonce)
    }
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError> {
        self.directory.open_session(ttl)
    }
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.directory.keep_alive(session)
    }
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError> {
        self.directory.end_session(session)
    }
    fn store(&self) -> Result<u64, DirectoryError> {
        self.directory.store()
    }
    fn cluster(&self) -> base::ClusterId {
        self.directory.cluster()
    }
}
