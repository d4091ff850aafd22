//! Limits of a directory, and the version of what the embedded one stores.

use crate::key::KEY_BYTES_MAX;
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

/// The schema that this release writes. 1: nodes under `host/`, no sessions, no nonces.
pub const SCHEMA_VERSION: u64 = 2;
