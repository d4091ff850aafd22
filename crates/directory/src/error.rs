//! Why the directory did not do it, and what the caller must do.
//!
//! Invariant: [`DirectoryError::Unknown`] is the only error after which a transaction may have happened.

use crate::{KEY_BYTES_MAX, Key, Revision, SCHEMA_VERSION, SESSION_KEYS_MAX, SESSIONS_MAX, SessionId, TRANSACTION_BYTES_MAX};
use crate::{TRANSACTION_CHANGES_MAX, VALUE_BYTES_MAX};
use base::ClusterId;
use std::{fmt, path::PathBuf, time::Duration};

/// What was being done when the store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Reading.
    Read,
    /// Writing, before anything could have happened.
    Write,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "written",
        })
    }
}

/// A limit that a change goes beyond.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Too many changes.
    #[error("{0} keys at once; {TRANSACTION_CHANGES_MAX} is the most")]
    Changes(usize),
    /// Too many bytes in all.
    #[error("{0} bytes at once; {TRANSACTION_BYTES_MAX} is the most")]
    Transaction(usize),
    /// A value is too large.
    #[error("{bytes} bytes for {key}; {VALUE_BYTES_MAX} is the most")]
    Value {
        /// Its key.
        key: Key,
        /// Its bytes.
        bytes: usize,
    },
    /// A key is too long.
    #[error("a key of {0} bytes; {KEY_BYTES_MAX} is the most")]
    Key(usize),
    /// A session would hold too many keys.
    #[error("more than {SESSION_KEYS_MAX} keys of session {0}")]
    Session(SessionId),
    /// Too many sessions.
    #[error("more than {SESSIONS_MAX} sessions")]
    Sessions,
    /// A session's time is too short or too long.
    #[error("a session that lives for {0:?}")]
    Ttl(Duration),
}

/// Why the directory did not do it.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Somebody else changed the key first: read again and decide again.
    #[error("{key} was changed by somebody else meanwhile; try again")]
    Conflict {
        /// The key.
        key: Key,
    },
    /// It cannot be reached, or has no leader. Nothing happened: try again.
    #[error("the directory cannot be reached just now; try again")]
    Unavailable,
    /// The answer is lost: the transaction has happened, happens later, or never does. Read its nonce ([`crate::commit_known`]) before
    /// anything depends on it.
    #[error("whether the directory took the change is not known ({cause}); look again before you try again")]
    Unknown {
        /// Why.
        cause: String,
    },
    /// The history after that revision is gone: take a snapshot, and watch from there.
    #[error("the directory's history after revision {after:?} is gone; it begins at {first:?}: read everything anew")]
    Compacted {
        /// What was asked for.
        after: Revision,
        /// What there is: changes after this.
        first: Revision,
    },
    /// It is behind what was seen of it: it was put back from a backup. Stop, read everything anew and compare epochs.
    #[error("the directory is at revision {found:?}, and {seen:?} was seen of it: an older copy was put back; restart the daemon")]
    Older {
        /// What was seen.
        seen: Revision,
        /// Where it is.
        found: Revision,
    },
    /// The session has ended, and its keys are gone: begin another and write them anew.
    #[error("session {0} has ended")]
    NoSession(SessionId),
    /// A transaction names a key twice: a fault of the caller.
    #[error("a change of the directory names {0} twice")]
    Twice(Key),
    /// A transaction or value above the limits.
    #[error("a change of the directory is too large ({0})")]
    TooLarge(TooLarge),
    /// There is no room for changes, and nothing happened. Reads and watches go on.
    #[error("the directory's store has reached its quota and takes no changes; make room or raise the quota (docs/etcd.md)")]
    Full,
    /// The etcd that answers holds other clusters, or none: look at its endpoints.
    #[error("the etcd that answers does not hold cluster {wanted}; it holds {}", clusters(.found))]
    Foreign {
        /// The cluster that was looked for.
        wanted: ClusterId,
        /// Those that are there, or some of them.
        found: Vec<ClusterId>,
    },
    /// The etcd holds this cluster already, and it is to be made there.
    #[error(
        "the etcd holds cluster {cluster} already: another server is, or was, of the same cluster as this one, such as one that was copied"
    )]
    Occupied {
        /// The cluster.
        cluster: ClusterId,
    },
    /// Another etcd cluster answers than before: it was restored from a backup, or the endpoints lead elsewhere. Stop, read everything anew and
    /// compare epochs.
    #[error(
        "another etcd cluster ({found:x}) answers than before ({seen:x}): it was restored from a backup or replaced; restart the daemon"
    )]
    Replaced {
        /// The etcd cluster that was seen.
        seen: u64,
        /// The one that answers.
        found: u64,
    },
    /// Its history up to there is not the one that was seen: an older copy was put back and has grown since. Stop, read everything anew and compare
    /// epochs.
    #[error("the directory's history up to revision {at:?} is not the one that was seen: an older copy was put back; restart the daemon")]
    Diverged {
        /// The revision.
        at: Revision,
    },
    /// Another daemon has taken over this node's name as a writer. Nothing happened, and nothing will: stop.
    #[error("another daemon has started as {writer:?}; stop one of them")]
    Superseded {
        /// The name.
        writer: String,
    },
    /// The store does not accept the request, and nothing happened.
    #[error("the directory's store refuses: {cause}")]
    Refused {
        /// Why.
        cause: String,
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
    /// The store failed while it was used. Nothing happened.
    #[error("the directory cannot be {doing}: {cause}; check the disk that holds the data directory")]
    Storage {
        /// What was being done.
        doing: Doing,
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
}

impl DirectoryError {
    /// Whether the directory is not the one any more that this daemon has read: it has to stop, and to read everything anew.
    pub const fn ends_everything(&self) -> bool {
        matches!(self, Self::Older { .. } | Self::Replaced { .. } | Self::Diverged { .. } | Self::Superseded { .. })
    }
}

fn clusters(found: &[ClusterId]) -> String {
    if found.is_empty() { "none".to_owned() } else { found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") }
}
