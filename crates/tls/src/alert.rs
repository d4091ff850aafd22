//! Alert descriptions (RFC 8446, 6).

pub(crate) const UNEXPECTED_MESSAGE: u8 = 10;
pub(crate) const RECORD_OVERFLOW: u8 = 22;
pub(crate) const HANDSHAKE_FAILURE: u8 = 40;
pub(crate) const DECODE_ERROR: u8 = 50;
pub(crate) const DECRYPT_ERROR: u8 = 51;
pub(crate) const PROTOCOL_VERSION: u8 = 70;
pub(crate) const INTERNAL_ERROR: u8 = 80;
pub(crate) const MISSING_EXTENSION: u8 = 109;
pub(crate) const UNKNOWN_PSK_IDENTITY: u8 = 115;
