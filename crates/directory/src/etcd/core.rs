//! What every part of the directory on etcd uses: the client, whose etcd it is, what errors mean.
//!
//! Invariant: an answer of another etcd, or of an older one, is an error, from the first on that says so.

use super::layout::Layout;
use crate::{DirectoryError, Revision, TooLarge};
use ::etcd::{Client, EtcdError, Lost, Refusal, message::ResponseHeader};
use base::ClusterId;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

/// When a call ends at the latest.
pub(super) type Until = tokio::time::Instant;

/// A call of the directory takes that long, at most.
pub const CALL_MAX: Duration = Duration::from_secs(5);
/// A snapshot of everything takes that long, at most.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(30);

/// What was seen of an etcd: for a daemon to keep, and to notice when an older one, or another, is put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    /// etcd's id of its cluster.
    pub etcd: u64,
    /// The highest revision of an answer.
    pub revision: Revision,
}

/// See the head of this file.
pub(super) struct Core {
    pub client: Client,
    pub layout: Layout,
    pub cluster: ClusterId,
    /// etcd's id of its cluster; 0: no answer yet.
    etcd: AtomicU64,
    revision: AtomicI64,
    /// What last kept a call from being answered.
    trouble: Mutex<Option<String>>,
}

impl Core {
    pub fn new(client: Client, cluster: ClusterId, seen: Option<Seen>) -> Self {
        let revision = seen.map_or(0, |s| i64::try_from(s.revision.0).unwrap_or(i64::MAX));
        Self {
            client,
            layout: Layout::new(cluster),
            cluster,
            etcd: AtomicU64::new(seen.map_or(0, |s| s.etcd)),
            revision: AtomicI64::new(revision),
            trouble: Mutex::new(None),
        }
    }
    pub fn seen(&self) -> Seen {
        Seen { etcd: self.etcd.load(SeqCst), revision: super::layout::revision(self.seen_revision()) }
    }
    pub fn seen_revision(&self) -> i64 {
        self.revision.load(SeqCst)
    }
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    pub fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(|e| e.into_inner()) = trouble;
    }

    /// Whether the etcd that answers is the one of before.
    pub fn is_the_same(&self, header: Option<&ResponseHeader>) -> Result<ResponseHeader, DirectoryError> {
        let header = *header.ok_or_else(|| super::request::unreadable("it has no header"))?;
        match self.etcd.compare_exchange(0, header.cluster_id, SeqCst, SeqCst) {
            Err(seen) if seen != header.cluster_id => Err(DirectoryError::Replaced { seen, found: header.cluster_id }),
            _ => Ok(header),
        }
    }

    /// Takes note of a linearizable answer, whose call began when `before` was the highest revision seen. Gives its revision.
    pub fn observe(&self, before: i64, header: Option<&ResponseHeader>) -> Result<i64, DirectoryError> {
        let header = self.is_the_same(header)?;
        if header.revision < before {
            let [seen, found] = [before, header.revision].map(super::layout::revision);
            return Err(DirectoryError::Older { seen, found });
        }
        self.revision.fetch_max(header.revision, SeqCst);
        self.set_trouble(None);
        Ok(header.revision)
    }

    /// What an error of a call that changes nothing means.
    pub fn error_of_read(&self, error: EtcdError) -> DirectoryError {
        self.set_trouble(Some(error.to_string()));
        match error {
            EtcdError::Unreachable(_) => DirectoryError::Unavailable,
            EtcdError::Unknown(_) => DirectoryError::Unavailable,
            EtcdError::NoSpace => DirectoryError::Full,
            EtcdError::Refused(Refusal::NoLeader | Refusal::TooManyRequests | Refusal::Learner) => DirectoryError::Unavailable,
            EtcdError::Refused(Refusal::TooLarge) => DirectoryError::TooLarge(TooLarge::Transaction(::etcd::REQUEST_BYTES_MAX)),
            EtcdError::Refused(_) | EtcdError::Own(_) => DirectoryError::Refused { cause: error.to_string() },
        }
    }

    /// What an error of a transaction means. `None`: nothing yet, the quota is reached.
    pub fn error_of_change(&self, error: EtcdError) -> Option<DirectoryError> {
        match error {
            EtcdError::NoSpace => None,
            EtcdError::Unknown(lost) => {
                self.set_trouble(Some(lost.to_string()));
                Some(DirectoryError::Unknown { cause: lost.to_string() })
            }
            error => Some(self.error_of_read(error)),
        }
    }
}

/// Whether an answer was too large to be taken.
pub(super) fn is_too_large(error: &EtcdError) -> bool {
    matches!(error, EtcdError::Unknown(Lost::TooLarge))
}
