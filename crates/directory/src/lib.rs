//! The cluster's metadata: typed records under keys with revisions, changed by compare-and-swap.
//!
//! Owns: the interface [`Directory`], the records ([`record`]), and the embedded store for one host ([`Embedded`]).
//! Invariants: every change is a [`Transaction`]: all of it or nothing, each key guarded by what the caller last saw; a
//! revision is given once and only grows; what `commit` has returned survives power loss.
//! Never: holds I/O up (the data plane does not know this crate), decides anything.
//!
//! Made so that etcd can follow: keys are flat strings below a kind, values are JSON, a transaction is etcd's
//! compare/then, a watch starts at a revision. Calls block; callers are control-plane threads.
// Control plane: wall clocks, threads and hashed maps are fine here; the data plane does not depend on this crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod embedded;
pub mod record;
mod typed;

pub use embedded::{Embedded, FILE_NAME, SCHEMA_VERSION};
pub use record::Record;
pub use typed::{Typed, Versioned};

use std::{fmt, path::PathBuf, sync::mpsc};

/// The largest value, in bytes. etcd takes 1.5 MiB a request.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most changes of one transaction. etcd takes 128 by default.
pub const TRANSACTION_CHANGES_MAX: usize = 128;
/// Events that a slow watcher may leave unread before it is cut off.
pub const WATCH_EVENTS_MAX: usize = 1024;

/// A point in the history of the directory. Grows by one with each transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// What a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A server of the cluster.
    Host,
    /// A disk group.
    Group,
    /// A storage policy.
    Policy,
    /// A volume.
    Volume,
    /// How a volume is laid out.
    Object,
    /// Who is registered with a volume, and who holds a reservation.
    Reservation,
    /// A subsystem.
    Subsystem,
    /// A host NQN that an administrator has given a name.
    HostEntry,
    /// Something under way, or that failed and will be tried again.
    Task,
    /// A name that must be unique among its kind; the value is what it names.
    Name,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = [
        Kind::Host,
        Kind::Group,
        Kind::Policy,
        Kind::Volume,
        Kind::Object,
        Kind::Reservation,
        Kind::Subsystem,
        Kind::HostEntry,
        Kind::Task,
        Kind::Name,
    ];
    /// The first part of its keys.
    pub const fn prefix(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Group => "group",
            Kind::Policy => "policy",
            Kind::Volume => "volume",
            Kind::Object => "object",
            Kind::Reservation => "reservation",
            Kind::Subsystem => "subsystem",
            Kind::HostEntry => "host-entry",
            Kind::Task => "task",
            Kind::Name => "name",
        }
    }
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it names.
    pub kind: Kind,
    /// Its name among its kind.
    pub id: String,
}

impl Key {
    /// A key.
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
    fn parse(text: &str) -> Option<Self> {
        let (prefix, id) = text.split_once('/')?;
        Some(Self::new(Kind::ALL.into_iter().find(|k| k.prefix() == prefix)?, id))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.prefix(), self.id)
    }
}

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

/// What a key must be for a transaction to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Not there.
    Absent,
    /// Last written by this revision.
    At(Revision),
    /// Anything.
    Any,
}

/// A condition on a key and, unless it is only looked at, what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// What it must be.
    pub expect: Expect,
    /// What becomes of it.
    pub action: Action,
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It gets this value.
    Put(Vec<u8>),
    /// It is removed.
    Delete,
    /// Nothing: only the expectation counts.
    Check,
}

/// Changes that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// At most [`TRANSACTION_CHANGES_MAX`], each key once.
    pub changes: Vec<Change>,
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// The transaction's revision.
    pub revision: Revision,
    /// The key.
    pub key: Key,
    /// Its new value; `None`: removed.
    pub value: Option<Vec<u8>>,
}

/// Changes as they happen. Closed when its reader falls more than [`WATCH_EVENTS_MAX`] behind: list again, then watch again.
pub type Watch = mpsc::Receiver<WatchEvent>;

/// Why the directory did not do as told.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Somebody else changed the key first: read again and decide again.
    #[error("{key} was changed by somebody else meanwhile; try again")]
    Conflict {
        /// The key.
        key: Key,
    },
    /// Another process has the file open.
    #[error("the directory {} is in use by another daemon; stop it first, or give this one its own data directory", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Not a directory file, or damaged.
    #[error("the directory {} is damaged ({cause}); put back a copy of the file, or move it away and create the groups anew", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        cause: String,
    },
    /// Written by a newer release.
    #[error("the directory {} has schema {found}, newer than {SCHEMA_VERSION} which this release knows; install the newer release again", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// The file cannot be reached.
    #[error("the directory {} cannot be opened: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The store failed while it was used.
    #[error("the directory cannot be {doing}: {cause}; check the disk that holds the data directory")]
    Storage {
        /// "read" or "written".
        doing: &'static str,
        /// Why.
        cause: String,
    },
    /// A value that this release cannot read.
    #[error("the record {key} cannot be understood: {cause}")]
    Record {
        /// The key.
        key: Key,
        /// Why.
        cause: String,
    },
    /// A transaction or value above the limits.
    #[error("a change of the directory is too large ({what})")]
    TooLarge {
        /// What is too large.
        what: String,
    },
}

/// The cluster's metadata.
pub trait Directory: Send + Sync {
    /// One value.
    fn get(&self, key: &Key) -> Result<Option<Entry>, DirectoryError>;
    /// All values of a kind, by key.
    fn list(&self, kind: Kind) -> Result<Vec<Entry>, DirectoryError>;
    /// Makes all changes if every expectation holds, else none ([`DirectoryError::Conflict`]). Durable when it returns.
    fn commit(&self, transaction: &Transaction) -> Result<Revision, DirectoryError>;
    /// The last revision given.
    fn revision(&self) -> Result<Revision, DirectoryError>;
    /// All changes from now on.
    fn watch(&self) -> Result<Watch, DirectoryError>;
    /// The cluster that it belongs to.
    fn cluster(&self) -> base::ClusterId;
}
