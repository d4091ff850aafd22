//! Why bytes of another node are refused.
//!
//! Never: says what to do about it: whoever reads them ends the link.

/// Why bytes are no message of the peer link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The magic number is not there: this is another protocol, or the reader lost its place.
    #[error("no magic number")]
    Magic,
    /// The checksum of a header or of a body is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// A kind of message that this release does not know.
    #[error("message of kind {0}")]
    Kind(u8),
    /// A reserved field is not zero.
    #[error("reserved field at byte {at} is not zero")]
    Reserved {
        /// Its offset within the header or body.
        at: u32,
    },
    /// A length is out of its bound, or does not go with the rest.
    #[error("a length is out of bounds")]
    Length,
    /// A field has a value it must not have.
    #[error("field {field} is out of range")]
    Value {
        /// Its name.
        field: &'static str,
    },
}

/// Refuses anything but zeroes in `b[from..to]`.
pub(super) fn reserved(b: &[u8], from: usize, to: usize) -> Result<(), PeerError> {
    match b[from..to].iter().position(|&v| v != 0) {
        Some(i) => Err(PeerError::Reserved { at: (from + i) as u32 }),
        None => Ok(()),
    }
}

/// Refuses a field unless `ok`.
pub(super) fn check(ok: bool, field: &'static str) -> Result<(), PeerError> {
    if ok { Ok(()) } else { Err(PeerError::Value { field }) }
}
