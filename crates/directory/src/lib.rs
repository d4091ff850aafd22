//! The cluster's metadata: typed records under keys with revisions, changed by compare-and-swap.
//!
//! Owns: the interface [`Directory`], the keys of the records ([`record`]), the embedded store for one node ([`Embedded`]), the one for several
//! on etcd ([`mod@etcd`]), a modelled one for simulations ([`modelled`]) and a node on it ([`ModelledNode`]), a copy that a watch keeps up to date
//! ([`Followed`]), the actions that change records only ([`mod@carry_out`]), and the suite that both directories must pass ([`conformance`]).
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
pub mod etcd;
mod followed;
mod history;
mod ids;
mod interface;
mod key;
mod limits;
pub mod modelled;
mod modelled_node;
mod ownerships;
pub mod presence;
pub mod record;
mod records;
mod restored;
mod transaction;
mod typed;
mod view;

pub use self::etcd::EtcdDirectory;
pub use carry_out::carry_out;
pub use commit::{Attempt, change, commit_known};
pub use embedded::{Clock, Embedded, FILE_NAME};
pub use error::{DirectoryError, Doing, TooLarge};
pub use followed::Followed;
pub use ids::{Nonce, Revision, SessionId};
pub use interface::{Changes, Directory, Entry, Event, Snapshot, Watch};
pub use key::{KEY_BYTES_MAX, Key, Kind};
pub use limits::{
    CHANGE_BYTES, NONCES_MIN, SCHEMA_VERSION, SESSION_KEYS_MAX, SESSION_TTL_MAX, SESSION_TTL_MIN, SESSIONS_MAX, TRANSACTION_BYTES_MAX,
    TRANSACTION_CHANGES_MAX, VALUE_BYTES_MAX,
};
pub use modelled_node::{ModelledNode, NodeDevices};
pub use ownerships::{FoundOwnership, OwnershipChanges, ownership_changes, ownerships};
pub use presence::Presence;
pub use record::Record;
pub use records::records;
pub use restored::note_store;
pub use transaction::{Action, Change, Expect, Transaction};
pub use typed::{HeldName, Typed, Versioned};
pub use view::View;
