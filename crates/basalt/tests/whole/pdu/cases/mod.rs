//! The table, by subject.

mod admin;
mod auth;
mod capsule;
mod connect;
mod copy;
mod delivery;
mod digests;
mod discovery;
mod fused;
mod h2c_data;
mod handshake;
mod header;
mod io;
mod namespaces;
mod properties;
mod reservations;
mod timeouts;

use crate::pdu::case::Case;

/// Every case with its subject, in the order of the page.
pub fn all() -> Vec<(&'static str, Case)> {
    let subjects: [(&'static str, Vec<Case>); 17] = [
        ("Handshake", handshake::cases()),
        ("PDU headers", header::cases()),
        ("Digests", digests::cases()),
        ("Command capsules", capsule::cases()),
        ("Data to the controller", h2c_data::cases()),
        ("Connect", connect::cases()),
        ("Properties", properties::cases()),
        ("Admin commands", admin::cases()),
        ("I/O commands", io::cases()),
        ("Compare and Write", fused::cases()),
        ("Copy, Verify, Write Uncorrectable", copy::cases()),
        ("Reservations", reservations::cases()),
        ("Namespace management and Format", namespaces::cases()),
        ("Authentication", auth::cases()),
        ("Discovery controllers", discovery::cases()),
        ("Delivery and states", delivery::cases()),
        ("Time-outs", timeouts::cases()),
    ];
    subjects.into_iter().flat_map(|(of, list)| list.into_iter().map(move |c| (of, c))).collect()
}

/// `bytes` with byte `at` set to `value`.
fn with(mut bytes: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    bytes[at] = value;
    bytes
}

/// `bytes` with PLEN set to `value`.
fn with_plen(mut bytes: Vec<u8>, value: u32) -> Vec<u8> {
    bytes[4..8].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// A common header and `more` zero bytes.
fn bare(kind: u8, flags: u8, hlen: u8, pdo: u8, plen: u32) -> Vec<u8> {
    let mut bytes = vec![kind, flags, hlen, pdo];
    bytes.extend_from_slice(&plen.to_le_bytes());
    bytes.resize((plen as usize).clamp(8, 256), 0);
    bytes
}

/// A header of each type that a controller sends, and of some that there are not: nothing of it may come from a host.
const NOT_FROM_A_HOST: [(u8, &str, u8); 8] = [
    (0x01, "ICResp", 128),
    (0x03, "C2HTermReq", 24),
    (0x05, "CapsuleResp", 24),
    (0x07, "C2HData", 24),
    (0x09, "R2T", 24),
    (0x08, "type 08h", 24),
    (0x0A, "type 0Ah", 24),
    (0xFF, "type FFh", 24),
];
