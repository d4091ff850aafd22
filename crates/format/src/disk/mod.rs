//! Every byte that Basalt keeps on a device: superblocks, pages of the tables, the log.
//!
//! Owns: parse and build of each structure, with explicit little-endian, CRC-32C, and checked reserved fields.
//! Invariant: what is built here parses here to the same value; what does not parse is refused with the reason.
//! Invariant: lengths and counts read from a device are bounded before anything is done with them.
//! Never: does I/O, decides what to do about damage, allocates more than the structure at hand needs.
//!
//! `docs/on-disk-format.md` shows the same as tables, with the argument why a crash at any point is safe.

mod bytes;
pub mod chunk;
pub mod component;
pub mod copies;
pub mod descriptor;
mod error;
pub mod foreign;
pub mod log;
pub mod page;
pub mod superblock;
mod tag;

#[cfg(test)]
mod tests;

pub use chunk::{CHUNKS_PER_PAGE, ChunkEntry};
pub use component::{COMPONENTS_PER_PAGE, ComponentRecord, ComponentState, DESCRIPTOR_BYTES_MAX};
pub use descriptor::Descriptor;
pub use error::DiskError;
pub use page::{PageAddress, PageHeader, PageKind};
pub use superblock::{Role, Superblock};
pub use tag::FormatTag;
