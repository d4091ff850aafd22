//! What is fuzzed: one function for each target, from bytes to "all that must hold held". See `docs/fuzzing.md`.
//!
//! Owns: the list of targets, and the bodies: how an input becomes calls, and what is asserted.
//! Invariants: a target is a function of its input alone, so an input that failed fails again; it asserts more than "no panic".
//! Never: reads a clock, a file, or randomness (`api` alone stands on the real data plane, and has files in a folder that vanishes); keeps anything
//! from one input to the next.
#![forbid(unsafe_code)]

pub mod api;
mod commands;
pub mod connection;
pub mod disk;
pub mod greeting;
pub mod handshake;
mod host;
mod input;
pub mod iscsi;
pub mod iscsi_session;
pub mod nvme;
pub mod pdu;
pub mod peer;
pub mod scsi;
pub mod session;
pub mod text;
mod volumes;

/// A target: its name, which is also that of its program and of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("disk_superblock", disk::superblock),
    ("disk_page", disk::page),
    ("disk_chunk", disk::chunk),
    ("disk_component", disk::component),
    ("disk_descriptor", disk::descriptor),
    ("disk_segment", disk::segment),
    ("disk_batch", disk::batch),
    ("disk_summary", disk::summary),
    ("disk_foreign", disk::foreign),
    ("nvme_command", nvme::command),
    ("nvme_fields", nvme::fields),
    ("nvme_identify", nvme::identify),
    ("nvme_log", nvme::log),
    ("nvme_reservation", nvme::reservation),
    ("nvme_auth", nvme::auth),
    ("nvme_connect", nvme::connect),
    ("nvme_tcp_pdu", pdu::pdu),
    ("scsi", scsi::scsi),
    ("iscsi", iscsi::iscsi),
    ("iscsi_session", iscsi_session::iscsi_session),
    ("peer_message", peer::message),
    ("peer_link", peer::link),
    ("peer_greeting", greeting::greeting),
    ("join_token", text::join_token),
    ("auth_secret", text::auth_secret),
    ("auth_exchange", handshake::auth_exchange),
    ("tls_psk", text::tls_psk),
    ("tls_identity", text::tls_identity),
    ("tls_hello", handshake::tls_hello),
    ("size", text::size),
    ("connection", connection::connection),
    ("session", session::session),
    ("session_bytes", session::session_bytes),
    ("config", text::config),
    ("config_keys", text::config_keys),
    ("api", api::api),
];
