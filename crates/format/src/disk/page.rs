//! A page of a table on a capacity device: 4 KiB with a header, kept in two slots.
//!
//! Page `p` of a table lies in slot A at byte `2 * p * 4096` of the table and slot B right after it. A new version goes to
//! the slot that does not hold the newest valid one, so a torn write leaves the old version readable.
//! Invariant: a page carries where it belongs; one found elsewhere is refused.
//! Never: knows what the body means.

use super::bytes::*;
use super::{DiskError, FormatTag};
use base::BLOCK_BYTES;

/// Bytes of a page.
pub const PAGE_BYTES: usize = BLOCK_BYTES;
/// Bytes of the header of a page.
pub const PAGE_HEADER_BYTES: usize = header::BYTES;
/// Bytes of a page that a table may use.
pub const PAGE_BODY_BYTES: usize = PAGE_BYTES - PAGE_HEADER_BYTES;
/// Bytes that a page takes on the device: its two slots.
pub const PAGE_SLOTS_BYTES: u64 = 2 * PAGE_BYTES as u64;

const MAGIC_VALUE: &[u8; 8] = b"BSLTpage";

layout!(header: 64 bytes {
    0: MAGIC[8], 8: CRC[4], 12: KIND[1], 13: DEVICE[1], 14: SHARD[1], 15: RESERVED_A[1], 16: TAG[8], 24: INDEX[8], 32: GENERATION[8],
    40: RESERVED_B[24],
});
layout!(head_body: 16 bytes { 0: PAGES_USED[8], 8: RESERVED[8] });

/// What a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Page 0 of a table of components: how many pages of the table are in use.
    ComponentHead,
    /// Records of components.
    Component,
    /// Page 0 of a table of chunks.
    ChunkHead,
    /// Entries of chunks.
    Chunk,
}

/// Where a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAddress {
    /// What it belongs to.
    pub kind: PageKind,
    /// Number of the capacity device in its group.
    pub device: u8,
    /// The shard (0 for components).
    pub shard: u8,
    /// Its place in the table.
    pub index: u64,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The format of the group.
    pub tag: FormatTag,
    /// Where it belongs.
    pub address: PageAddress,
    /// Grows with each version; the valid slot with the higher one counts. From 1.
    pub generation: u64,
}

impl PageHeader {
    /// Fills in the header of `page`, whose body is complete. Last step of making a page.
    pub fn seal(&self, page: &mut [u8]) {
        use header::*;
        let b = &mut page[..PAGE_BYTES];
        b[..BYTES].fill(0);
        put(b, MAGIC, MAGIC_VALUE);
        b[KIND] = match self.address.kind {
            PageKind::ComponentHead => 1,
            PageKind::Component => 2,
            PageKind::ChunkHead => 3,
            PageKind::Chunk => 4,
        };
        b[DEVICE] = self.address.device;
        b[SHARD] = self.address.shard;
        put_u64(b, TAG, self.tag.0);
        put_u64(b, INDEX, self.address.index);
        put_u64(b, GENERATION, self.generation);
        let crc = crc_around(b, CRC);
        put_u32(b, CRC, crc);
    }

    /// Reads the header of one slot, wherever it belongs.
    pub fn parse(page: &[u8], tag: FormatTag) -> Result<Self, DiskError> {
        use header::*;
        let b = page.get(..PAGE_BYTES).ok_or(DiskError::TooShort)?;
        if &b[MAGIC..MAGIC + 8] != MAGIC_VALUE {
            return Err(DiskError::Magic);
        }
        if crc_around(b, CRC) != u32_at(b, CRC) {
            return Err(DiskError::Checksum);
        }
        if u64_at(b, TAG) != tag.0 {
            return Err(DiskError::OtherFormat);
        }
        check(b[RESERVED_A] == 0, "page")?;
        reserved(b, RESERVED_B, BYTES)?;
        let kind = match b[KIND] {
            1 => PageKind::ComponentHead,
            2 => PageKind::Component,
            3 => PageKind::ChunkHead,
            4 => PageKind::Chunk,
            _ => return Err(DiskError::Value { field: "page kind" }),
        };
        let address = PageAddress { kind, device: b[DEVICE], shard: b[SHARD], index: u64_at(b, INDEX) };
        Ok(Self { tag, address, generation: u64_at(b, GENERATION) })
    }

    /// Checks one slot and returns the generation it holds.
    pub fn open(page: &[u8], tag: FormatTag, address: PageAddress) -> Result<u64, DiskError> {
        let found = Self::parse(page, tag)?;
        if found.address != address {
            return Err(DiskError::OtherPlace);
        }
        check(found.generation != 0, "page generation")?;
        Ok(found.generation)
    }
}

/// Which of the two slots of a page holds its newest valid version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// 0 = A, 1 = B.
    pub slot: u8,
    /// The generation found there.
    pub generation: u64,
    /// The other slot is neither valid nor blank: torn by a loss of power, or damaged on the media or on the way. Worth another reading.
    pub doubtful: bool,
}

/// Chooses between the two slots of a page. An error (that of slot A, or the worse one) when neither is valid.
pub fn newest(slots: &[u8], tag: FormatTag, address: PageAddress) -> Result<Newest, DiskError> {
    let slots = slots.get(..2 * PAGE_BYTES).ok_or(DiskError::TooShort)?;
    let (first, second) = slots.split_at(PAGE_BYTES);
    let a = PageHeader::open(first, tag, address);
    let b = PageHeader::open(second, tag, address);
    let damaged = |slot: &[u8], error: DiskError| error != DiskError::OtherFormat && !base::is_zero(slot);
    match (a, b) {
        (Ok(a), Ok(b)) if b > a => Ok(Newest { slot: 1, generation: b, doubtful: false }),
        (Ok(a), Ok(_)) => Ok(Newest { slot: 0, generation: a, doubtful: false }),
        (Ok(a), Err(e)) => Ok(Newest { slot: 0, generation: a, doubtful: damaged(second, e) }),
        (Err(e), Ok(b)) => Ok(Newest { slot: 1, generation: b, doubtful: damaged(first, e) }),
        (Err(DiskError::Magic | DiskError::OtherFormat), Err(e)) | (Err(e), Err(_)) => Err(e),
    }
}

/// The bytes of the chosen slot.
pub fn slot_bytes(slots: &[u8], slot: u8) -> &[u8] {
    &slots[usize::from(slot) * PAGE_BYTES..][..PAGE_BYTES]
}

/// The body of page 0 of a table: pages at or above `pages_used` (page 0 counts) have never been committed and are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHead {
    /// Pages of the table in use, page 0 counted; at least 1.
    pub pages_used: u64,
}

impl TableHead {
    /// Fills the body of a page.
    pub fn build(&self, page: &mut [u8]) {
        let body = &mut page[PAGE_HEADER_BYTES..PAGE_BYTES];
        body.fill(0);
        put_u64(body, head_body::PAGES_USED, self.pages_used);
    }
    /// Reads the body of a page whose header is good.
    pub fn parse(page: &[u8]) -> Result<Self, DiskError> {
        let body = page.get(PAGE_HEADER_BYTES..PAGE_BYTES).ok_or(DiskError::TooShort)?;
        reserved(body, head_body::RESERVED, body.len())?;
        let pages_used = u64_at(body, head_body::PAGES_USED);
        check(pages_used != 0, "pages used")?;
        Ok(Self { pages_used })
    }
}
