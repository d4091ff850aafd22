//! What tells the formats of a device apart.
//!
//! Invariant: all devices of a group carry the same.
//! Never: says which device it is, or whose.

/// The random number that one format gave to a group. Every superblock, page, segment header, batch and summary carries
/// it, so that what an earlier format of the same device left behind is never taken for content of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatTag(pub u64);
