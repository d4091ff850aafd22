//! TLS 1.3 with external pre-shared keys: of hosts, as NVMe/TCP wants it (NVMe TCP Transport 1.0, 3.6.1), and of pairs of nodes; keys, identities,
//! and an engine that turns bytes into bytes. See `docs/security.md` and `docs/peer-link.md`.
//!
//! Owns: the interchange format of PSKs and what is derived from them; the keys of pairs of nodes; the handshake; records.
//! Invariants: a listener takes one kind of identity, so a host's key is none between nodes, and the other way round; TLS 1.3 only, psk_dhe_ke only, no certificate, ticket or early data; a client that does not hold a key of ours costs
//! a few hashes and no Diffie-Hellman; secrets are wiped when they are dropped and never printed.
//! Never: does I/O, knows what the bytes mean.

mod alert;
mod engine;
mod fault;
mod ffi;
mod hello;
mod identity;
mod kdf;
mod pair;
mod psk;

#[cfg(test)]
mod kinds_tests;

pub use engine::{Context, Engine, RECORD_BYTES_MAX};
pub use fault::{Alert, Fault};
pub use hello::HELLO_BYTES_MAX;
pub use identity::{Hash, HostIdentity, IDENTITY_BYTES_MAX, PskIdentity};
pub use pair::{CLUSTER_SECRET_BYTES, ClusterSecret, PAIR_IDENTITY_BYTES, PairError, PairIdentity};
pub use psk::{ConfiguredPsk, Derivation, PskError, TlsPsk};
