//! Limits that hold for every directory, and the version of what the embedded one stores.
//!
//! Invariant: what is within them fits into one request of an etcd as it is by default, with all that `etcd` adds to it.

use crate::key::KEY_BYTES_MAX;
use std::time::Duration;

/// The largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The most bytes of one transaction ([`crate::Transaction::bytes`]). etcd takes 1,536 KiB a request by default.
pub const TRANSACTION_BYTES_MAX: usize = 1500 << 10;
/// What a change costs beside its value and its key, which counts three times: what is around them in a request.
pub const CHANGE_BYTES: usize = 256;
/// The most changes of one transaction. etcd takes 128 operations by default; some of them are not changes.
pub const TRANSACTION_CHANGES_MAX: usize = 120;
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

const _: () = assert!(VALUE_BYTES_MAX + 3 * KEY_BYTES_MAX + CHANGE_BYTES <= TRANSACTION_BYTES_MAX, "the largest value can be written");

/// The schema that this release writes. 1: nodes under `host/`, no sessions, no nonces.
pub const SCHEMA_VERSION: u64 = 2;
