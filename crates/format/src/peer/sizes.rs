//! How long each body is: what the header needs to know of them.
//!
//! Invariant: a body's own layout is as long as is said here; its file asserts that.
//! Never: what is in a body.

/// Bytes of a Hello's body in this release.
pub const HELLO_BYTES: usize = 128;
/// Bytes of a HelloAnswer's body in this release.
pub const HELLO_ANSWER_BYTES: usize = 64;
/// Bytes of a Refusal's body in this release.
pub const REFUSAL_BYTES: usize = 16;
/// Bytes of a body of the greeting in any release.
pub const GREETING_BYTES_MAX: usize = 512;
pub(super) const TICK_BYTES: usize = 8;
pub(super) const GOODBYE_BYTES: usize = 8;
pub(super) const CANCEL_BYTES: usize = 8;
/// Bytes of a Forward's body without checksums.
pub const FORWARD_BYTES: usize = 128;
/// Bytes of a Done's body without checksums.
pub const DONE_BYTES: usize = 32;
/// Bytes of a Change's body without checksums.
pub const CHANGE_BYTES: usize = 128;
pub(super) const ACK_BYTES: usize = 48;
pub(super) const COPY_READ_BYTES: usize = 48;
/// Bytes of a CopyData's body without checksums.
pub const COPY_DATA_BYTES: usize = 32;
pub(super) const LIST_BYTES: usize = 48;
pub(super) const LISTED_BYTES: usize = 40;
pub(super) const BEAT_BYTES: usize = 16;
pub(super) const BEAT_ENTRY_BYTES: usize = 24;
pub(super) const RELEASE_BYTES: usize = 40;
pub(super) const BAD_BLOCK_BYTES: usize = 32;
pub(super) const COPY_FAILS_BYTES: usize = 24;
pub(super) const LOAD_BYTES: usize = 8;
pub(super) const FENCE_BYTES: usize = 48;
pub(super) const FENCED_BYTES: usize = 40;
pub(super) const DOUBT_BYTES: usize = 16;
/// Objects that a Heartbeat or a Grant names at most.
pub const BEAT_ENTRIES_MAX: usize = 40;
/// Marks and ranges of a part of Fenced at most.
pub const DOUBT_ENTRIES_MAX: usize = 64;
