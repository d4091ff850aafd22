//! Where the regions of a group lie on its devices.
//!
//! Owns: the arithmetic between (shard, segment), (shard, chunk), (table, page, slot) and bytes of a device; the choice of
//! sizes when a group is formatted.
//! Invariant: what `plan_*` chooses passes the checks of `format::disk::superblock` for the same device.
//! Never: does I/O.

use base::BLOCK_BYTES;
use base::unit::CHUNK_BYTES;
use format::disk::page::{PAGE_BYTES, PAGE_SLOTS_BYTES};
use format::disk::superblock::{RESERVED_BYTES, Role};
use format::disk::{CHUNKS_PER_PAGE, COMPONENTS_PER_PAGE};

const MIB: u64 = 1 << 20;

/// The fewest segments that the slice of a shard may have.
pub const SEGMENTS_PER_SHARD_MIN: u32 = 6;
/// The fewest chunks that a shard may have on a capacity device (4 MiB).
pub const CHUNKS_PER_SHARD_MIN: u32 = 64;
/// Segment sizes in MiB with the fewest segments a slice must have for it, largest first.
const SEGMENT_CHOICES: [(u64, u64); 3] = [(16, 4096), (4, 32), (1, SEGMENTS_PER_SHARD_MIN as u64)];
/// An extent: chunks that are kept together where possible (one piece, 1 MiB).
pub const EXTENT_CHUNKS: u32 = 16;

/// The regions of all devices of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// How many shards.
    pub shards: u8,
    /// The cache device.
    pub log: LogGeometry,
    /// The capacity devices, in order.
    pub capacity: Vec<CapacityGeometry>,
}

/// The log region of the cache device: one slice a shard, one after the other, each a ring of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGeometry {
    /// Where the slice of shard 0 begins, in bytes.
    pub offset: u64,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Segments of each slice.
    pub segments_per_shard: u32,
}

impl LogGeometry {
    /// The first byte of a segment.
    pub fn segment_offset(&self, shard: u8, segment: u32) -> u64 {
        assert!(segment < self.segments_per_shard);
        self.offset + u64::from(shard) * self.slice_bytes() + u64::from(segment) * u64::from(self.segment_bytes)
    }
    /// Bytes of the slice of a shard.
    pub fn slice_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.segments_per_shard)
    }
    /// Blocks of a segment, with its header and summary.
    pub fn segment_blocks(&self) -> u32 {
        self.segment_bytes / BLOCK_BYTES as u32
    }

    /// Chooses the sizes for a cache device; on failure the bytes that it would need.
    pub fn plan(device_bytes: u64, shards: u8) -> Result<Self, u64> {
        let slice = device_bytes.saturating_sub(RESERVED_BYTES) / u64::from(shards);
        for (mib, segments_min) in SEGMENT_CHOICES {
            let segments = slice / (mib * MIB);
            if segments >= segments_min {
                // positions in a slice are kept as 32-bit block numbers
                let limit = (u64::from(u32::MAX) * BLOCK_BYTES as u64) / (mib * MIB);
                return Ok(Self {
                    offset: RESERVED_BYTES,
                    segment_bytes: (mib * MIB) as u32,
                    segments_per_shard: segments.min(limit) as u32,
                });
            }
        }
        Err(RESERVED_BYTES + u64::from(shards) * u64::from(SEGMENTS_PER_SHARD_MIN) * MIB)
    }
}

/// The regions of a capacity device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityGeometry {
    /// Where the component table begins, in bytes.
    pub component_table_offset: u64,
    /// Its pages, with page 0 (two slots each).
    pub component_pages: u32,
    /// Where the chunk table of shard 0 begins.
    pub chunk_table_offset: u64,
    /// Pages of the chunk table of a shard, with page 0 (two slots each).
    pub chunk_pages_per_shard: u32,
    /// Where the chunks of shard 0 begin.
    pub chunk_area_offset: u64,
    /// Chunks of a shard.
    pub chunks_per_shard: u32,
}

impl CapacityGeometry {
    /// Of a number at which there is no device any more.
    pub const NONE: Self = Self {
        component_table_offset: 0,
        component_pages: 0,
        chunk_table_offset: 0,
        chunk_pages_per_shard: 0,
        chunk_area_offset: 0,
        chunks_per_shard: 0,
    };
    /// Whether there is no device.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
    /// The first byte of a chunk.
    pub fn chunk_offset(&self, shard: u8, chunk: u32) -> u64 {
        assert!(chunk < self.chunks_per_shard);
        self.chunk_area_offset + (u64::from(shard) * u64::from(self.chunks_per_shard) + u64::from(chunk)) * CHUNK_BYTES
    }
    /// The first byte of a slot (0 or 1) of a page of the chunk table.
    pub fn chunk_page_offset(&self, shard: u8, page: u32, slot: u8) -> u64 {
        assert!(page < self.chunk_pages_per_shard);
        let page = u64::from(shard) * u64::from(self.chunk_pages_per_shard) + u64::from(page);
        self.chunk_table_offset + page * PAGE_SLOTS_BYTES + u64::from(slot) * PAGE_BYTES as u64
    }
    /// The first byte of a slot (0 or 1) of a page of the component table.
    pub fn component_page_offset(&self, page: u32, slot: u8) -> u64 {
        assert!(page < self.component_pages);
        self.component_table_offset + u64::from(page) * PAGE_SLOTS_BYTES + u64::from(slot) * PAGE_BYTES as u64
    }
    /// How many components fit into the table.
    pub fn components_max(&self) -> u32 {
        self.component_pages.saturating_sub(1) * COMPONENTS_PER_PAGE as u32
    }

    /// Chooses the sizes for a capacity device; on failure the bytes that it would need.
    pub fn plan(device_bytes: u64, shards: u8) -> Result<Self, u64> {
        let component_pages: u32 = match device_bytes {
            0..=0x3FFF_FFFF => 1 + 16,
            0x4000_0000..=0xF_FFFF_FFFF => 1 + 128,
            _ => 1 + 1024,
        };
        let (component_table_offset, n) = (RESERVED_BYTES, u64::from(shards));
        let chunk_table_offset = component_table_offset + u64::from(component_pages) * PAGE_SLOTS_BYTES;
        let layout = |chunks: u64| {
            let pages = 1 + chunks.div_ceil(CHUNKS_PER_PAGE as u64);
            let area = (chunk_table_offset + n * pages * PAGE_SLOTS_BYTES).next_multiple_of(MIB);
            (pages, area, area + n * chunks * CHUNK_BYTES)
        };
        let extent = u64::from(EXTENT_CHUNKS);
        // every chunk costs its bytes and its share of a page; then a few extents fewer, because of the rounding
        let cost = n * (CHUNK_BYTES + PAGE_SLOTS_BYTES.div_ceil(CHUNKS_PER_PAGE as u64));
        let mut chunks = (device_bytes.saturating_sub(chunk_table_offset) / cost).min(u64::from(u32::MAX)) / extent * extent;
        while chunks >= u64::from(CHUNKS_PER_SHARD_MIN) {
            let (pages, area, end) = layout(chunks);
            if end <= device_bytes {
                return Ok(Self {
                    component_table_offset,
                    component_pages,
                    chunk_table_offset,
                    chunk_pages_per_shard: pages as u32,
                    chunk_area_offset: area,
                    chunks_per_shard: chunks as u32,
                });
            }
            chunks -= extent;
        }
        Err(layout(u64::from(CHUNKS_PER_SHARD_MIN)).2)
    }

    /// From the superblock of a capacity device; `None` for a cache device.
    pub fn of(role: &Role) -> Option<Self> {
        match *role {
            Role::Capacity {
                component_table_offset,
                component_pages,
                chunk_table_offset,
                chunk_pages_per_shard,
                chunk_area_offset,
                chunks_per_shard,
                ..
            } => Some(Self {
                component_table_offset,
                component_pages,
                chunk_table_offset,
                chunk_pages_per_shard,
                chunk_area_offset,
                chunks_per_shard,
            }),
            Role::Cache { .. } => None,
        }
    }
    /// For the superblock of capacity device `index`.
    pub fn role(&self, index: u8) -> Role {
        Role::Capacity {
            index,
            component_table_offset: self.component_table_offset,
            component_pages: self.component_pages,
            chunk_table_offset: self.chunk_table_offset,
            chunk_pages_per_shard: self.chunk_pages_per_shard,
            chunk_area_offset: self.chunk_area_offset,
            chunks_per_shard: self.chunks_per_shard,
        }
    }
}

/// Memory that an open group takes for the mere size of its devices, in bytes: bit maps of chunks, states of segments and the index's
/// empty maps. What it takes for what it holds comes on top (`docs/store.md`).
pub fn memory_bytes(cache_bytes: u64, capacity_bytes: impl IntoIterator<Item = u64>) -> u64 {
    // A state of a segment, and what a sub-map of the index is when empty; segments have at least as many bytes as a sub-map has blocks.
    const SEGMENT_BYTES: u64 = 128;
    let chunks: u64 = capacity_bytes.into_iter().map(|bytes| bytes / CHUNK_BYTES).sum();
    // Two summary bits for each 64 chunks.
    chunks / 8 + chunks / 256 + cache_bytes / MIB / 4 * SEGMENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_devices_of_tests_have_room() {
        let log = LogGeometry::plan(16 * MIB, 1).unwrap();
        assert_eq!((log.segment_bytes, log.segments_per_shard), (1 << 20, 15));
        let log = LogGeometry::plan(16 * MIB, 2).unwrap();
        assert_eq!((log.segment_bytes, log.segments_per_shard), (1 << 20, 7));
        let capacity = CapacityGeometry::plan(32 * MIB, 2).unwrap();
        assert!(capacity.chunks_per_shard >= 224, "{capacity:?}");
    }

    #[test]
    fn what_is_too_small_says_what_is_needed_and_that_is_enough() {
        for shards in [1, 2, 4, 8, 16] {
            let need = LogGeometry::plan(0, shards).unwrap_err();
            assert!(LogGeometry::plan(need, shards).is_ok() && LogGeometry::plan(need - 4096, shards).is_err());
            let need = CapacityGeometry::plan(0, shards).unwrap_err();
            assert!(CapacityGeometry::plan(need + MIB, shards).is_ok(), "{shards}");
            assert!(CapacityGeometry::plan(need - 4096, shards).is_err());
        }
    }

    #[test]
    fn a_slice_has_no_more_blocks_than_its_numbers_go() {
        for (tib, shards) in [(1, 1), (15, 1), (16, 1), (64, 1), (64, 2)] {
            let log = LogGeometry::plan(tib << 40, shards).unwrap();
            let blocks = u64::from(log.segments_per_shard) * u64::from(log.segment_blocks());
            let most = (tib << 40) / BLOCK_BYTES as u64 / u64::from(shards);
            let segment = u64::from(log.segment_blocks());
            assert!(blocks <= u64::from(u32::MAX) && blocks + 2 * segment > most.min(1 << 32), "{tib} TiB, {shards}: {blocks}");
        }
    }

    #[test]
    fn the_memory_of_a_group_follows_from_its_chunks_and_its_segments() {
        assert_eq!(memory_bytes(0, [1 << 40]), (2 << 20) + (64 << 10));
        assert_eq!(memory_bytes(4 << 30, [0]), 1024 * 128);
        assert_eq!(memory_bytes(4 << 30, [1 << 39, 1 << 39]), (2 << 20) + (64 << 10) + 1024 * 128);
    }

    proptest! {
        #[test]
        fn regions_follow_each_other_and_waste_little(mib in 32u64..200_000_000, shift in 0u32..5) {
            let shards = 1u8 << shift;
            let bytes = mib * MIB;
            if let Ok(c) = CapacityGeometry::plan(bytes, shards) {
                let last = shards - 1;
                prop_assert!(c.chunk_page_offset(last, c.chunk_pages_per_shard - 1, 1) + 4096 <= c.chunk_area_offset);
                prop_assert!(c.component_page_offset(c.component_pages - 1, 1) + 4096 <= c.chunk_table_offset);
                let end = c.chunk_offset(last, c.chunks_per_shard - 1) + CHUNK_BYTES;
                prop_assert!(end <= bytes);
                let wasted = bytes - end;
                prop_assert!(c.chunks_per_shard > u32::MAX - 16 || wasted < 4 * MIB * u64::from(shards) + MIB + bytes / 50_000, "{} wasted of {}", wasted, bytes);
                prop_assert!(c.chunk_area_offset.is_multiple_of(MIB) && c.chunks_per_shard.is_multiple_of(EXTENT_CHUNKS));
            }
            if let Ok(l) = LogGeometry::plan(bytes, shards) {
                prop_assert!(l.segment_offset(shards - 1, l.segments_per_shard - 1) + u64::from(l.segment_bytes) <= bytes);
            }
        }
    }
}
