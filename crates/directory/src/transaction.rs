//! Transactions: what is to change, what must hold for it, and the limits.
//!
//! Invariant: every change is a compare-and-swap; there is no expectation that anything meets.

use crate::{
    CHANGE_BYTES, DirectoryError, KEY_BYTES_MAX, Key, Kind, Nonce, Revision, SessionId, TRANSACTION_BYTES_MAX, TRANSACTION_CHANGES_MAX,
    TooLarge,
};
use crate::{SESSION_TTL_MAX, SESSION_TTL_MIN, VALUE_BYTES_MAX};
use std::{collections::BTreeSet, time::Duration};

/// What a key must be for a transaction to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Not there.
    Absent,
    /// Last written by this revision.
    At(Revision),
}

impl Expect {
    /// Whether a key last written at `found` is as expected.
    pub fn holds(self, found: Option<Revision>) -> bool {
        match self {
            Self::Absent => found.is_none(),
            Self::At(revision) => found == Some(revision),
        }
    }
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
    /// It gets this value, and stays until it is removed.
    Put(Vec<u8>),
    /// It gets this value, and goes with the session.
    Bind(Vec<u8>, SessionId),
    /// It is removed.
    Delete,
    /// Nothing: only the expectation counts.
    Check,
}

impl Action {
    pub(crate) const fn value(&self) -> Option<&Vec<u8>> {
        match self {
            Self::Put(value) | Self::Bind(value, _) => Some(value),
            Self::Delete | Self::Check => None,
        }
    }
}

/// Changes that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// At most [`TRANSACTION_CHANGES_MAX`], each key once.
    pub changes: Vec<Change>,
    /// By which it is recognised when its outcome is not known.
    pub nonce: Option<Nonce>,
}

impl Transaction {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// The same, recognisable.
    pub fn with_nonce(self, nonce: Nonce) -> Self {
        Self { nonce: Some(nonce), ..self }
    }
    /// One more change.
    pub fn with(mut self, key: Key, expect: Expect, action: Action) -> Self {
        self.changes.push(Change { key, expect, action });
        self
    }
    /// It happens only while the node leads whose record was written at this revision.
    pub fn while_leading(self, since: Revision) -> Self {
        self.with(Key::new(Kind::Leader, cluster::record::LeaderRecord::ID), Expect::At(since), Action::Check)
    }
    /// Bytes that it takes in a request, at most: each key is there three times, where it is compared, changed, and read after a conflict.
    pub fn bytes(&self) -> usize {
        self.changes.iter().map(|c| 3 * c.key.bytes() + c.action.value().map_or(0, Vec::len) + CHANGE_BYTES).sum()
    }
    /// Whether it changes anything, if it happens. What only looks, or removes what must not be there, does not.
    pub fn changes_something(&self) -> bool {
        self.changes.iter().any(|c| !matches!((&c.action, c.expect), (Action::Check, _) | (Action::Delete, Expect::Absent)))
    }
    /// Whether any directory could take it.
    pub fn check(&self) -> Result<(), DirectoryError> {
        let too_large = |what| Err(DirectoryError::TooLarge(what));
        if self.changes.len() > TRANSACTION_CHANGES_MAX {
            return too_large(TooLarge::Changes(self.changes.len()));
        }
        let mut seen = BTreeSet::new();
        for change in &self.changes {
            if !seen.insert(&change.key) {
                return Err(DirectoryError::Twice(change.key.clone()));
            }
            if change.key.bytes() > KEY_BYTES_MAX {
                return too_large(TooLarge::Key(change.key.bytes()));
            }
            if let Some(value) = change.action.value().filter(|v| v.len() > VALUE_BYTES_MAX) {
                return too_large(TooLarge::Value { key: change.key.clone(), bytes: value.len() });
            }
        }
        match self.bytes() {
            bytes if bytes > TRANSACTION_BYTES_MAX => too_large(TooLarge::Transaction(bytes)),
            _ => Ok(()),
        }
    }
}

/// Whether a session may live that long.
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), DirectoryError> {
    if (SESSION_TTL_MIN..=SESSION_TTL_MAX).contains(&ttl) { Ok(()) } else { Err(DirectoryError::TooLarge(TooLarge::Ttl(ttl))) }
}
