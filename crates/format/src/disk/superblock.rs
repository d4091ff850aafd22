//! The superblock: who a device is. Two copies, at byte 0 and at 64 KiB; the newest valid one counts.
//!
//! Invariant: magic, CRC and version keep their places (bytes 0..16) in all versions, and the CRC covers 4 KiB, so an old
//! program knows a newer device when it sees one.
//! Never: decides whether devices fit together.

use super::bytes::*;
use super::{DiskError, FormatTag};
use base::{BLOCK_BYTES, ClusterId, DeviceUuid, GroupId};

/// Bytes of a copy.
pub const SUPERBLOCK_BYTES: usize = BLOCK_BYTES;
/// Where the two copies lie.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 64 << 10];
/// What is kept for superblocks at the start of each device.
pub const RESERVED_BYTES: u64 = 1 << 20;
/// A program refuses a device with a higher major version, or with one below [`VERSION_PLAIN`]. 2 came with records and chunks that say
/// "uncorrectable", 3 with the order that an object's owner gives to its changes, 4 with what a copy of several keeps in the log, 5 with
/// capacity devices that come and go.
pub const VERSION_MAJOR: u16 = 5;
/// The major version of a group with the devices that it was formatted with, and copies of several: programs that know no more go on reading it.
pub const VERSION_COPIES: u16 = 4;
/// The same without copies of several.
pub const VERSION_PLAIN: u16 = 3;
/// A program accepts a device with a higher minor version (and does not look at fields it does not know).
pub const VERSION_MINOR: u16 = 0;
/// The most capacity devices of a group.
pub const CAPACITY_DEVICES_MAX: usize = 7;
/// The most shards of a group.
pub const SHARDS_MAX: u8 = 16;
/// The longest name of a group, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

const MAGIC_VALUE: &[u8; 8] = b"BASALTSB";

layout!(sb: 4096 bytes {
    0: MAGIC[8], 8: CRC[4], 12: MAJOR[2], 14: MINOR[2], 16: GENERATION[8], 24: TAG[8], 32: CLUSTER[16], 48: GROUP[16], 64: DEVICE[16],
    80: DEVICE_BYTES[8], 88: CREATED[8], 96: ROLE[1], 97: INDEX[1], 98: CAPACITY_COUNT[1], 99: SHARDS[1], 100: NAME_LEN[1],
    101: RESERVED_A[3], 104: SEGMENT_BYTES[4], 108: CHUNK_BYTES[4], 112: BLOCK_BYTES_[4], 116: SEGMENTS[4], 120: LOG_OFFSET[8],
    128: COMPONENT_OFFSET[8], 136: COMPONENT_PAGES[4], 140: CHUNK_PAGES[4], 144: CHUNK_TABLE_OFFSET[8], 152: CHUNK_AREA_OFFSET[8],
    160: CHUNKS[4], 164: MEMBERSHIP[4], 168: NUMBERS_FROM[4], 172: RESERVED_B[20], 192: NAME[64], 256: DEVICES[128], 384: RESERVED_C[3712],
});

/// What a device is to its group, and where its regions lie (offsets in bytes from the start of the device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds the log.
    Cache {
        /// Where the slice of shard 0 begins.
        log_offset: u64,
        /// Bytes of a segment.
        segment_bytes: u32,
        /// Segments of the slice of each shard.
        segments_per_shard: u32,
    },
    /// It holds components.
    Capacity {
        /// Its number, from 0.
        index: u8,
        /// Where the component table begins.
        component_table_offset: u64,
        /// Pages of the component table (two slots each), page 0 counted.
        component_pages: u32,
        /// Where the chunk table of shard 0 begins; the others follow.
        chunk_table_offset: u64,
        /// Pages of the chunk table of each shard (two slots each), page 0 counted.
        chunk_pages_per_shard: u32,
        /// Where the chunks of shard 0 begin; the others follow.
        chunk_area_offset: u64,
        /// Chunks of each shard.
        chunks_per_shard: u32,
    },
}

/// A superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Major version: of what is built, at most [`VERSION_MAJOR`].
    pub major: u16,
    /// Minor version it was written with.
    pub minor: u16,
    /// Grows with each update.
    pub generation: u64,
    /// The random number of this format of the group.
    pub tag: FormatTag,
    /// The cluster that the group belongs to.
    pub cluster: ClusterId,
    /// The group.
    pub group: GroupId,
    /// This device.
    pub device: DeviceUuid,
    /// Bytes of the device when it was formatted.
    pub device_bytes: u64,
    /// When the group was formatted, in seconds since 1970 (UTC).
    pub created_unix_s: u64,
    /// What the device is to its group.
    pub role: Role,
    /// Shards of the group: a power of two, at most [`SHARDS_MAX`].
    pub shards: u8,
    /// Name of the group; at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The cache device of the group.
    pub cache: DeviceUuid,
    /// Its capacity devices, each at its number; [`NO_DEVICE`]: there is none at this number any more.
    pub capacity: Vec<DeviceUuid>,
    /// Grows with each change of the list of devices; 0: they are those of the format.
    pub membership: u32,
    /// Every component number below this one was given: what a device that left knew of that.
    pub numbers_from: u32,
}

/// In the list of capacity devices: none.
pub const NO_DEVICE: DeviceUuid = DeviceUuid::from_bytes([0; 16]);

/// Whether `b` begins like a superblock, valid or not.
pub fn looks_like_superblock(b: &[u8]) -> bool {
    b.get(..8) == Some(MAGIC_VALUE)
}

impl Superblock {
    /// Fills one copy (4 KiB).
    pub fn build(&self, out: &mut [u8]) {
        use sb::*;
        assert!((1..=VERSION_MAJOR).contains(&self.major));
        assert!((self.membership != 0) == (self.major > VERSION_COPIES));
        assert!(self.name.len() <= NAME_BYTES_MAX && (1..=CAPACITY_DEVICES_MAX).contains(&self.capacity.len()));
        let b = &mut out[..BYTES];
        b.fill(0);
        put(b, MAGIC, MAGIC_VALUE);
        put_u16(b, MAJOR, self.major);
        put_u16(b, MINOR, VERSION_MINOR);
        put_u64(b, GENERATION, self.generation);
        put_u64(b, TAG, self.tag.0);
        put(b, CLUSTER, self.cluster.as_bytes());
        put(b, GROUP, self.group.as_bytes());
        put(b, DEVICE, self.device.as_bytes());
        put_u64(b, DEVICE_BYTES, self.device_bytes);
        put_u64(b, CREATED, self.created_unix_s);
        b[CAPACITY_COUNT] = self.capacity.len() as u8;
        b[SHARDS] = self.shards;
        b[NAME_LEN] = self.name.len() as u8;
        put_u32(b, CHUNK_BYTES, base::unit::CHUNK_BYTES as u32);
        put_u32(b, BLOCK_BYTES_, BLOCK_BYTES as u32);
        put_u32(b, MEMBERSHIP, self.membership);
        put_u32(b, NUMBERS_FROM, self.numbers_from);
        put(b, NAME, self.name.as_bytes());
        for (i, id) in core::iter::once(&self.cache).chain(&self.capacity).enumerate() {
            put(b, DEVICES + i * 16, id.as_bytes());
        }
        self.role.build(b);
        let crc = crc_around(b, CRC);
        put_u32(b, CRC, crc);
    }

    /// Reads one copy.
    pub fn parse(b: &[u8]) -> Result<Self, DiskError> {
        use sb::*;
        let b = b.get(..BYTES).ok_or(DiskError::TooShort)?;
        if !looks_like_superblock(b) {
            return Err(DiskError::Magic);
        }
        if crc_around(b, CRC) != u32_at(b, CRC) {
            return Err(DiskError::Checksum);
        }
        let (major, minor) = (u16_at(b, MAJOR), u16_at(b, MINOR));
        if major > VERSION_MAJOR {
            return Err(DiskError::Newer { major });
        }
        check(major != 0, "version")?;
        // A newer minor version may use what is reserved here.
        if minor == VERSION_MINOR {
            reserved(b, RESERVED_A, SEGMENT_BYTES)?;
            reserved(b, if major > VERSION_COPIES { RESERVED_B } else { MEMBERSHIP }, NAME)?;
            reserved(b, RESERVED_C, BYTES)?;
        }
        check(u32_at(b, CHUNK_BYTES) as u64 == base::unit::CHUNK_BYTES && u32_at(b, BLOCK_BYTES_) as usize == BLOCK_BYTES, "unit sizes")?;
        let count = usize::from(b[CAPACITY_COUNT]);
        check((1..=CAPACITY_DEVICES_MAX).contains(&count), "capacity count")?;
        reserved(b, DEVICES + (1 + count) * 16, RESERVED_C)?;
        let id = |i: usize| DeviceUuid::from_bytes(array_at(b, DEVICES + i * 16));
        let len = usize::from(b[NAME_LEN]);
        check(len <= NAME_BYTES_MAX, "name")?;
        reserved(b, NAME + len, DEVICES)?;
        let name = core::str::from_utf8(&b[NAME..NAME + len]).map_err(|_| DiskError::Value { field: "name" })?;
        let s = Self {
            major,
            minor,
            generation: u64_at(b, GENERATION),
            tag: FormatTag(u64_at(b, TAG)),
            cluster: ClusterId::from_bytes(array_at(b, CLUSTER)),
            group: GroupId::from_bytes(array_at(b, GROUP)),
            device: DeviceUuid::from_bytes(array_at(b, DEVICE)),
            device_bytes: u64_at(b, DEVICE_BYTES),
            created_unix_s: u64_at(b, CREATED),
            role: Role::parse(b)?,
            shards: b[SHARDS],
            name: name.into(),
            cache: id(0),
            capacity: (1..=count).map(id).collect(),
            membership: if major > VERSION_COPIES { u32_at(b, MEMBERSHIP) } else { 0 },
            numbers_from: if major > VERSION_COPIES { u32_at(b, NUMBERS_FROM) } else { 0 },
        };
        check((s.membership != 0) == (major > VERSION_COPIES), "membership")?;
        check(s.membership != 0 || !s.capacity.contains(&NO_DEVICE), "capacity list")?;
        check(s.capacity.last() != Some(&NO_DEVICE) && s.device != NO_DEVICE, "capacity list")?;
        check(s.shards.is_power_of_two() && s.shards <= SHARDS_MAX, "shards")?;
        s.check_regions()?;
        Ok(s)
    }

    /// Its own name must stand in the list of the group; regions must not overlap nor leave the device.
    fn check_regions(&self) -> Result<(), DiskError> {
        let block = BLOCK_BYTES as u64;
        let shards = u64::from(self.shards);
        let end = match self.role {
            Role::Cache { log_offset, segment_bytes, segments_per_shard } => {
                check(self.device == self.cache, "device")?;
                let blocks = segment_bytes / BLOCK_BYTES as u32;
                let sizes = super::log::SEGMENT_BLOCKS_MIN..=super::log::SEGMENT_BLOCKS_MAX;
                check(segment_bytes.is_multiple_of(BLOCK_BYTES as u32) && sizes.contains(&blocks), "segment bytes")?;
                check(log_offset >= RESERVED_BYTES && log_offset.is_multiple_of(block) && segments_per_shard != 0, "log region")?;
                (u64::from(segment_bytes) * u64::from(segments_per_shard)).checked_mul(shards).and_then(|n| n.checked_add(log_offset))
            }
            Role::Capacity { index, .. } => {
                check(self.capacity.get(usize::from(index)) == Some(&self.device), "device")?;
                self.capacity_end()?
            }
        };
        check(end.is_some_and(|end| end <= self.device_bytes), "region end")
    }

    fn capacity_end(&self) -> Result<Option<u64>, DiskError> {
        let Role::Capacity {
            component_table_offset: components,
            component_pages,
            chunk_table_offset: table,
            chunk_pages_per_shard,
            chunk_area_offset: area,
            chunks_per_shard,
            ..
        } = self.role
        else {
            return Ok(None);
        };
        let block = BLOCK_BYTES as u64;
        let aligned = components.is_multiple_of(block) && table.is_multiple_of(block) && area.is_multiple_of(block);
        check(aligned && components >= RESERVED_BYTES && component_pages >= 2, "component table")?;
        let slots = super::page::PAGE_SLOTS_BYTES;
        check(components.checked_add(u64::from(component_pages) * slots).is_some_and(|end| end <= table), "component table")?;
        let pages = u64::from(chunk_pages_per_shard) * slots * u64::from(self.shards);
        check(table.checked_add(pages).is_some_and(|end| end <= area), "chunk table")?;
        let entries = u64::from(chunk_pages_per_shard).saturating_sub(1) * super::chunk::CHUNKS_PER_PAGE as u64;
        check(chunks_per_shard != 0 && entries >= u64::from(chunks_per_shard), "chunk table")?;
        Ok((u64::from(chunks_per_shard) * base::unit::CHUNK_BYTES).checked_mul(u64::from(self.shards)).and_then(|n| n.checked_add(area)))
    }
}

impl Role {
    fn build(&self, b: &mut [u8]) {
        use sb::*;
        match *self {
            Role::Cache { log_offset, segment_bytes, segments_per_shard } => {
                b[ROLE] = 1;
                put_u64(b, LOG_OFFSET, log_offset);
                put_u32(b, SEGMENT_BYTES, segment_bytes);
                put_u32(b, SEGMENTS, segments_per_shard);
            }
            Role::Capacity {
                index,
                component_table_offset,
                component_pages,
                chunk_table_offset,
                chunk_pages_per_shard,
                chunk_area_offset,
                chunks_per_shard,
            } => {
                b[ROLE] = 2;
                b[INDEX] = index;
                put_u64(b, COMPONENT_OFFSET, component_table_offset);
                put_u32(b, COMPONENT_PAGES, component_pages);
                put_u32(b, CHUNK_PAGES, chunk_pages_per_shard);
                put_u64(b, CHUNK_TABLE_OFFSET, chunk_table_offset);
                put_u64(b, CHUNK_AREA_OFFSET, chunk_area_offset);
                put_u32(b, CHUNKS, chunks_per_shard);
            }
        }
    }

    fn parse(b: &[u8]) -> Result<Self, DiskError> {
        use sb::*;
        match b[ROLE] {
            1 => {
                reserved(b, INDEX, CAPACITY_COUNT)?;
                reserved(b, COMPONENT_OFFSET, MEMBERSHIP)?;
                Ok(Role::Cache {
                    log_offset: u64_at(b, LOG_OFFSET),
                    segment_bytes: u32_at(b, SEGMENT_BYTES),
                    segments_per_shard: u32_at(b, SEGMENTS),
                })
            }
            2 => {
                reserved(b, SEGMENT_BYTES, CHUNK_BYTES)?;
                reserved(b, SEGMENTS, COMPONENT_OFFSET)?;
                Ok(Role::Capacity {
                    index: b[INDEX],
                    component_table_offset: u64_at(b, COMPONENT_OFFSET),
                    component_pages: u32_at(b, COMPONENT_PAGES),
                    chunk_table_offset: u64_at(b, CHUNK_TABLE_OFFSET),
                    chunk_pages_per_shard: u32_at(b, CHUNK_PAGES),
                    chunk_area_offset: u64_at(b, CHUNK_AREA_OFFSET),
                    chunks_per_shard: u32_at(b, CHUNKS),
                })
            }
            _ => Err(DiskError::Value { field: "role" }),
        }
    }
}
