//! iSCSI (RFC 7143): headers of all PDUs, and the text of login and text PDUs.
//!
//! Owns: the layouts of section 11, the lengths of a PDU's parts, `key=value` text. Big-endian; digests are CRC-32C, low byte first.
//! Invariants: parsing never panics whatever the bytes; what is built parses to the same; lengths are known before memory is taken.
//! Never: decides anything, does I/O, keeps state.

mod header;
mod host;
mod target;
mod text;

#[cfg(test)]
mod tests;

pub use header::{AHS_BYTES_MAX, DIGEST_BYTES, HEADER_BYTES, Header, Malformed, NO_TAG, Parts, pad_bytes};
pub use host::{
    DataOut, HostPdu, LoginRequest, LogoutRequest, ManagementRequest, NopOut, ScsiCommand, SnackRequest, TextRequest, management,
};
pub use target::{
    AsyncMessage, DataIn, LoginResponse, LogoutResponse, ManagementResponse, NopIn, ReadyToTransfer, Reject, ScsiResponse, TargetPdu,
    TextResponse, management_response, reject,
};
pub use text::{KEY_BYTES_MAX, PAIRS_MAX, TextError, VALUE_BYTES_MAX, parse_pairs, push_pair};
