//! Every byte that Basalt keeps on a device: superblocks, pages of the tables, the log.
//!
//! Owns: parse and build of each structure, with explicit little-endian, CRC-32C, and checked reserved fields.
//! Invariant: what is built here parses here to the same value; what does not parse is refused with the reason.
//! Invariant: lengths and counts read from a device are bounded before anything is done with them.
//! Never: does I/O, decides what to do about damage, allocates more than the structure at hand needs.
//!
//! `docs/on-disk-format.md` shows the same as tables, with the argument why a crash at any point is safe.

#[macro_use]
mod bytes;
pub mod chunk;
pub mod component;
pub mod foreign;
pub mod log;
pub mod page;
pub mod superblock;

#[cfg(test)]
mod tests;

pub use chunk::{CHUNKS_PER_PAGE, ChunkEntry};
pub use component::{COMPONENTS_PER_PAGE, ComponentRecord, ComponentState, DESCRIPTOR_BYTES_MAX};
pub use page::{PageAddress, PageHeader, PageKind};
pub use superblock::{Role, Superblock};

/// The random number that one format gave to a group. Every superblock, page, segment header, batch and summary carries
/// it, so that what an earlier format of the same device left behind is never taken for content of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatTag(pub u64);

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
