//! The cluster's metadata: typed records under keys with revisions, changed by compare-and-swap.
//!
//! Owns: the interface [`Directory`], the keys of the records ([`record`]), the embedded store for one node ([`Embedded`]), a modelled one
//! for simulations ([`modelled`]), the actions that change records only ([`mod@carry_out`]), and the suite that both must pass ([`conformance`]).
//! Invariants: every change is a [`Transaction`]: all of it or nothing, each key guarded by what the caller last saw; a
//! revision is given once and only grows; what `commit` has returned survives power loss; a watch gives every change once, in order, or says
//! that it cannot.
//! Never: holds I/O up (the data plane does not know this crate), decides anything, takes an unknown outcome for a failure.
//!
//! Keys are flat strings below a kind, values are JSON, a transaction is etcd's compare/then, a watch starts behind a revision, a session is
//! a lease. Calls block; callers are control-plane threads.
// Control plane: wall clocks, threads and hashed maps are fine here; the data plane does not depend on this crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

pub mod carry_out;
pub mod commit;
pub mod conformance;
mod embedded;
mod error;
mod history;
mod key;
pub mod modelled;
pub mod record;
mod transaction;
mod typed;
mod view;

pub use carry_out::carry_out;
pub use commit::{Attempt, change, commit_known};
pub use embedded::{Clock, Embedded, FILE_NAME, SCHEMA_VERSION};
pub use error::{DirectoryError, Doing, TooLarge};
pub use key::{KEY_BYTES_MAX, Key, Kind};
pub use record::Record;
pub use transaction::{Action, Change, Expect, Nonce, SessionId, Transaction};
pub use typed::{HeldName, Typed, Versioned};
pub use view::View;

use std::time::Duration;

/// The largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most bytes of one transaction: keys, values and [`CHANGE_BYTES`] for each change. etcd takes 1.5 MiB a request.
pub const TRANSACTION_BYTES_MAX: usize = 3 << 19;
/// What a change costs beside its key and value: its key a second time in the comparison is counted apart, this is all else.
pub const CHANGE_BYTES: usize = 64;
/// The most changes of one transaction. etcd takes 128 by default.
pub const TRANSACTION_CHANGES_MAX: usize = 128;
/// The most keys that one session can hold: they go in one transaction when it ends.
pub const SESSION_KEYS_MAX: usize = TRANSACTION_CHANGES_MAX;
/// The most sessions at once.
pub const SESSIONS_MAX: usize = 1024;
/// The shortest and the longest life of a session that nobody keeps alive.
pub const SESSION_TTL_MIN: Duration = Duration::from_secs(1);
/// See [`SESSION_TTL_MIN`].
pub const SESSION_TTL_MAX: Duration = Duration::from_secs(3600);
/// A nonce is remembered for at least as many transactions with a nonce.
pub const NONCES_MIN: usize = 1024;

const _: () = assert!(VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX + CHANGE_BYTES <= TRANSACTION_BYTES_MAX, "the largest value can be written");

/// A point in the history of the directory. Grows by one with each transaction that changes something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

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
    /// Each key that it changed, once.
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
/// Reads are linearizable: they show every commit that was answered before they began.
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
    /// happened already gives the revision at which it happened, and changes nothing.
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError>;
    /// When the transaction with this nonce happened; `None`: it has not. Remembered for [`NONCES_MIN`] transactions.
    fn outcome(&self, nonce: Nonce) -> Result<Option<Revision>, DirectoryError>;
    /// The last revision given.
    fn revision(&self) -> Result<Revision, DirectoryError>;
    /// Begins a session, which ends `ttl` after it was last kept alive. The keys bound to it go with it, in one transaction.
    fn open_session(&self, ttl: Duration) -> Result<SessionId, DirectoryError>;
    /// Lets a session live for its whole time again. [`DirectoryError::NoSession`]: it has ended; its keys are gone.
    fn keep_alive(&self, session: SessionId) -> Result<(), DirectoryError>;
    /// Ends a session now. One that has ended is no error.
    fn end_session(&self, session: SessionId) -> Result<(), DirectoryError>;
    /// The cluster that it belongs to.
    fn cluster(&self) -> base::ClusterId;
}
