//! The directory, and for requests that only read, what was last seen of it while it does not answer.
//!
//! ```text
//!  read ─► the directory ─► answer
//!              │ does not answer, or is not the one any more that was read
//!              ▼
//!          only reads: the copy that is followed, and how old it is
//!          else:       the error
//! ```
//!
//! Owns: [`LastSeen`], [`last_seen`]. Invariant: nothing is decided on what may be old. Never: writes to the copy.

use super::request;
use directory::{Directory, DirectoryError, Entry, Followed, Key, Kind, Nonce, Revision, SessionId, Snapshot, Transaction, View, Watch};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// See the module.
pub(super) struct LastSeen {
    directory: Arc<dyn Directory>,
    followed: Arc<Mutex<Followed>>,
}

impl LastSeen {
    pub(super) fn new(directory: Arc<dyn Directory>, followed: Arc<Mutex<Followed>>) -> Self {
        Self { directory, followed }
    }

    /// A read, from the copy when the directory does not answer and that will do.
    fn read<T>(
        &self,
        read: impl FnOnce(&dyn Directory) -> Result<T, DirectoryError>,
        seen: impl FnOnce(&View) -> T,
    ) -> Result<T, DirectoryError> {
        let error = match request::age() {
            // It did not answer a moment ago, for the same request.
            Some(_) => DirectoryError::Unavailable,
            None => match read(&*self.directory) {
                Err(error) if request::may_be_old() && (matches!(error, DirectoryError::Unavailable) || error.ends_everything()) => error,
                other => return other,
            },
        };
        Ok(seen(last_seen(&self.followed, error)?.view()))
    }
}

/// The copy that is followed, for a request that may go by what is old and hears how old it is. `error`: why it does not go by what is now.
pub(super) fn last_seen(followed: &Mutex<Followed>, error: DirectoryError) -> Result<MutexGuard<'_, Followed>, DirectoryError> {
    let followed = followed.lock().unwrap_or_else(|e| e.into_inner());
    let Some(as_of) = followed.as_of() else { return Err(error) };
    request::is_old(as_of.elapsed());
    Ok(followed)
}

impl Directory for LastSeen {
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError> {
        self.read(|d| d.get(key), |view| view.get(key))
    }
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError> {
        self.read(|d| d.list(kind), |view| view.entries(kind).collect())
    }
    fn snapshot(&self) -> Result<Snapshot, DirectoryError> {
        self.directory.snapshot()
    }
    fn watch(&self, after: Revision) -> Result<Box<dyn Watch>, DirectoryError> {
        self.directory.watch(after)
    }
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError> {
        self.directory.commit(transaction)
    }
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError> {
        self.directory.outcome(nonce)
    }
    fn revision(&self) -> Result<Revision, DirectoryError> {
        self.directory.revision()
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
