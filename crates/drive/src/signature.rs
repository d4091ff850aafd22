//! What the first bytes of a device say that it holds.
//!
//! Invariant: pure; the bytes are only looked at.

use format::disk::{foreign, superblock};

/// How much of the beginning of a device is looked at, in bytes.
pub const SIGNATURE_PROBE_BYTES: usize = 128 << 10;

/// What is found in the first bytes of a device of `device_bytes`; `None`: nothing known.
pub fn signature(head: &[u8], device_bytes: u64) -> Option<&'static str> {
    if superblock::looks_like_superblock(head) { Some("a Basalt disk group") } else { foreign::recognise(head, &[], device_bytes) }
}
