//! Entries of the chunk table: who owns a physical chunk and what its blocks must sum to.

use super::DiskError;
use super::bytes::*;
use super::log::COMPONENT_NO_MAX;
use super::page::{PAGE_BODY_BYTES, PAGE_BYTES, PAGE_HEADER_BYTES};
use base::Epoch;
use base::unit::CHUNK_BLOCKS;

layout!(entry: 96 bytes {
    0: COMPONENT[4], 4: WRITTEN[2], 6: UNCHECKED[2], 8: CHUNK[8], 16: LSN[8], 24: UNCORRECTABLE[2], 26: CHANGED[2],
    28: EPOCH[4], 32: CRCS[64],
});

/// The highest chunk number of an object (256 TiB; volumes end at 62 TiB).
pub const CHUNK_NO_MAX: u64 = u32::MAX as u64;
const _: () = assert!(base::unit::VOLUME_BYTES_MAX / base::unit::CHUNK_BYTES <= CHUNK_NO_MAX);

/// Bytes of an entry.
pub const CHUNK_ENTRY_BYTES: usize = entry::BYTES;
/// Entries of a page.
pub const CHUNKS_PER_PAGE: usize = PAGE_BODY_BYTES / CHUNK_ENTRY_BYTES;
const _: () = assert!(CHUNKS_PER_PAGE * CHUNK_ENTRY_BYTES == PAGE_BODY_BYTES, "entries fill the page exactly");
const _: () = assert!(CHUNKS_PER_PAGE == 42);

/// One physical chunk that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEntry {
    /// Local number of the component that owns it, from 1.
    pub component: u32,
    /// Which chunk of the object's address space it holds.
    pub chunk: u64,
    /// Bit i: block i has content here; the others read as zeroes. Never 0 in a page: such a chunk is written as free.
    pub written: u16,
    /// Bit i: block i is kept without checksum. A part of `written`.
    pub unchecked: u16,
    /// Bit i: reads of block i fail, as a host asked. A part of `written`, apart from `unchecked`.
    pub uncorrectable: u16,
    /// Number of the batch of the last change of content, in its shard.
    pub lsn: u64,
    /// The epoch of the last change, of content or to none.
    pub epoch: Epoch,
    /// Bit i: block i has changed since the object last stopped being in sync on all copies. Never misses one.
    pub changed: u16,
    /// CRC-32C of each block; 0 where not written, unchecked or uncorrectable.
    pub crcs: [u32; CHUNK_BLOCKS as usize],
}

fn place(i: usize) -> usize {
    assert!(i < CHUNKS_PER_PAGE);
    PAGE_HEADER_BYTES + i * CHUNK_ENTRY_BYTES
}

/// Puts entry `i` into a page (`None`: the chunk is free). The page must be sealed afterwards.
pub fn put_entry(page: &mut [u8], i: usize, entry: Option<&ChunkEntry>) {
    use entry::*;
    let b = &mut page[place(i)..][..BYTES];
    b.fill(0);
    let Some(e) = entry else { return };
    debug_assert!(e.component != 0 && e.written != 0);
    put_u32(b, COMPONENT, e.component);
    put_u16(b, WRITTEN, e.written);
    put_u16(b, UNCHECKED, e.unchecked);
    put_u64(b, CHUNK, e.chunk);
    put_u64(b, LSN, e.lsn);
    put_u16(b, UNCORRECTABLE, e.uncorrectable);
    put_u16(b, CHANGED, e.changed);
    put_u32(b, EPOCH, e.epoch.0);
    for (block, crc) in e.crcs.iter().enumerate() {
        put_u32(b, CRCS + block * 4, *crc);
    }
}

/// Reads entry `i` of a page whose header is good; `None`: the chunk is free.
pub fn get_entry(page: &[u8], i: usize) -> Result<Option<ChunkEntry>, DiskError> {
    use entry::*;
    let b = &page.get(..PAGE_BYTES).ok_or(DiskError::TooShort)?[place(i)..][..BYTES];
    if u32_at(b, COMPONENT) == 0 {
        reserved(b, 0, BYTES)?;
        return Ok(None);
    }
    let mut crcs = [0; CHUNK_BLOCKS as usize];
    for (block, crc) in crcs.iter_mut().enumerate() {
        *crc = u32_at(b, CRCS + block * 4);
    }
    let e = ChunkEntry {
        component: u32_at(b, COMPONENT),
        chunk: u64_at(b, CHUNK),
        written: u16_at(b, WRITTEN),
        unchecked: u16_at(b, UNCHECKED),
        uncorrectable: u16_at(b, UNCORRECTABLE),
        lsn: u64_at(b, LSN),
        epoch: Epoch(u32_at(b, EPOCH)),
        changed: u16_at(b, CHANGED),
        crcs,
    };
    check(e.component <= COMPONENT_NO_MAX, "chunk component")?;
    check(e.chunk <= CHUNK_NO_MAX, "chunk number")?;
    check(e.written != 0 && (e.unchecked | e.uncorrectable) & !e.written == 0, "chunk blocks")?;
    check(e.unchecked & e.uncorrectable == 0, "chunk blocks")?;
    Ok(Some(e))
}
