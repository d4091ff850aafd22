//! Why a structure on a device is refused.
//!
//! Never: says what to do about it; that depends on the place, which the reader knows.

/// Why bytes of a device are not what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// Fewer bytes than the structure has.
    #[error("too few bytes")]
    TooShort,
    /// The magic number is not there: nothing of this kind was ever written here.
    #[error("no magic number")]
    Magic,
    /// The checksum is wrong: a torn write, or corruption.
    #[error("wrong checksum")]
    Checksum,
    /// Written by an earlier format of the device, or by another group.
    #[error("written by another format of the device")]
    OtherFormat,
    /// The structure belongs elsewhere: a misdirected write.
    #[error("written for another place")]
    OtherPlace,
    /// A reserved field is not zero.
    #[error("reserved field at byte {at} is not zero")]
    Reserved {
        /// Its offset within the structure.
        at: u32,
    },
    /// A field has a value it must not have.
    #[error("field {field} is out of range")]
    Value {
        /// Its name.
        field: &'static str,
    },
    /// Written by a newer major version.
    #[error("format version {major} is newer than this program")]
    Newer {
        /// The version found.
        major: u16,
    },
}
