//! The log of a shard: segment headers, batches (header and data blocks), segment summaries.
//!
//! A slice of the cache device is a ring of segments. A segment is
//!
//! ```text
//! block 0          segment header
//! block 1..        batches, each: header blocks, then its data blocks
//! last blocks      summary, once the segment is sealed: all records and checksums of its batches
//! ```
//!
//! Invariant: a record says where in its segment the data lies (`data_at`, in blocks), so a record of a batch and the
//! same record in the summary are equal.
//! Invariant: a batch header with its tag, segment sequence, position and previous checksum can be taken for no other.
//! Never: looks at the data; the checksums of the data blocks are given and returned.

use super::bytes::*;
use super::{DiskError, FormatTag};
use base::{BLOCK_BYTES, BlockNo, Epoch, Order, Seq};

/// Blocks of the header of a segment.
pub const SEGMENT_HEADER_BLOCKS: u32 = 1;
/// The most blocks that the header of one batch may take.
pub const BATCH_HEADER_BLOCKS_MAX: u32 = 64;
/// The most blocks that the summary of a segment may take (1 MiB, the largest buffer).
pub const SUMMARY_BLOCKS_MAX: u32 = 256;
/// The largest segment, in blocks (64 MiB).
pub const SEGMENT_BLOCKS_MAX: u32 = 16 << 10;
/// The smallest segment, in blocks (1 MiB).
pub const SEGMENT_BLOCKS_MIN: u32 = 256;
/// The most blocks that one record may cover (a piece).
pub const RECORD_BLOCKS_MAX: u32 = 256;
/// Component numbers and block numbers are packed into one 64-bit key: 26 bits of component.
pub const COMPONENT_NO_MAX: u32 = (1 << 26) - 1;
/// And 38 bits of block.
pub const BLOCK_NO_MAX: u64 = (1 << 38) - 1;

const SEGMENT_MAGIC: &[u8; 8] = b"BSLTsegm";
const BATCH_MAGIC: &[u8; 8] = b"BSLTbatc";
const SUMMARY_MAGIC: &[u8; 8] = b"BSLTsumm";

layout!(segment: 4096 bytes {
    0: MAGIC[8], 8: CRC[4], 12: INDEX[4], 16: TAG[8], 24: SEGMENT_SEQ[8], 32: FIRST_LSN[8], 40: TAIL_SEQ[8],
    48: BLOCKS[4], 52: PREVIOUS_CRC[4], 56: SHARD[1], 57: RESERVED[4039],
});
layout!(batch: 128 bytes {
    0: MAGIC[8], 8: CRC[4], 12: HEADER_BLOCKS[2], 14: SHARD[1], 15: FLAGS[1], 16: TAG[8], 24: LSN[8], 32: SEGMENT_SEQ[8],
    40: TAIL_SEQ[8], 48: POSITION[4], 52: DATA_BLOCKS[4], 56: RECORDS[4], 60: PREVIOUS_CRC[4], 64: RESERVED[64],
});
layout!(record: 64 bytes {
    0: KIND[1], 1: FLAGS[1], 2: RESERVED[2], 4: COMPONENT[4], 8: BLOCK[8], 16: LSN[8], 24: BLOCKS[4], 28: DATA_AT[4],
    32: EPOCH[4], 36: PERIOD_START[4], 40: TERM[4], 44: MARK_TERM[4], 48: COUNTER[8], 56: MARK_COUNTER[8],
});
layout!(summary: 96 bytes {
    0: MAGIC[8], 8: CRC[4], 12: RECORDS[4], 16: TAG[8], 24: SEGMENT_SEQ[8], 32: FIRST_LSN[8], 40: LAST_LSN[8], 48: TAIL_SEQ[8],
    56: DATA_BLOCKS[4], 60: SUMMARY_BLOCKS[4], 64: USED_BLOCKS[4], 68: LAST_CRC[4], 72: SHARD[1], 73: RESERVED[23],
});

/// Bytes of one record.
pub const RECORD_BYTES: usize = record::BYTES;
/// Bytes of one block checksum.
const CRC_BYTES: usize = 4;
const RECORD_UNCHECKED: u8 = 1;

/// Blocks that the header of a batch of so many records and data blocks takes.
pub const fn batch_header_blocks(records: usize, data_blocks: usize) -> usize {
    (batch::BYTES + records * RECORD_BYTES + data_blocks * CRC_BYTES).div_ceil(BLOCK_BYTES)
}

/// Blocks that the summary of a segment of so many records and data blocks takes.
pub const fn summary_blocks(records: usize, data_blocks: usize) -> usize {
    (summary::BYTES + records * RECORD_BYTES + data_blocks * CRC_BYTES).div_ceil(BLOCK_BYTES)
}

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// New content for blocks.
    Write,
    /// The blocks are no longer needed and read as zeroes.
    Trim,
    /// The blocks read as zeroes.
    Zero,
    /// Reads of the blocks fail until something else is done to them.
    Uncorrectable,
    /// Of a copy of several: it accepts an epoch ([`super::copies::Accept`]).
    Accept,
    /// A change that is in doubt ([`super::copies::Doubt`]).
    Doubt,
    /// What a lane keeps ([`super::copies::LaneNote`]).
    Lane,
    /// Blocks that were in doubt when the copy got out of sync ([`super::copies::OwnDoubt`]).
    OwnDoubt,
    /// The record behind it is content of another copy ([`super::copies::Range`]).
    Range,
    /// How far a resync has come ([`super::copies::Progressed`]).
    Progress,
}

impl RecordKind {
    /// Whether it changes blocks. The others say what a copy of several knows.
    #[inline]
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::Zero | Self::Uncorrectable)
    }
}

/// One change of one component, or what a copy keeps of its state ([`super::copies`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it does.
    pub kind: RecordKind,
    /// The volume wants no checksum kept on capacity (the log has one all the same, to find torn batches).
    pub unchecked: bool,
    /// Local number of the component, 1..=[`COMPONENT_NO_MAX`].
    pub component: u32,
    /// First block, in the object's address space.
    pub block: BlockNo,
    /// How many blocks, 1..=[`RECORD_BLOCKS_MAX`].
    pub blocks: u32,
    /// Number of its batch: the order that the change has in its shard.
    pub lsn: u64,
    /// What its owner said with it.
    pub order: Order,
    /// Where the data lies: block offset from the start of the segment; 0 for what brings no data.
    pub data_at: u32,
}

impl Record {
    /// How many data blocks it brings.
    pub const fn data_blocks(&self) -> u32 {
        match self.kind {
            RecordKind::Write => self.blocks,
            _ => 0,
        }
    }

    fn build(&self, b: &mut [u8]) {
        use record::*;
        debug_assert!(self.component != 0 && self.component <= COMPONENT_NO_MAX && self.blocks != 0 && self.blocks <= RECORD_BLOCKS_MAX);
        // As in `parse`.
        let b = b.first_chunk_mut::<RECORD_BYTES>().expect("room for a record");
        b[KIND] = match self.kind {
            RecordKind::Write => 1,
            RecordKind::Trim => 2,
            RecordKind::Zero => 3,
            RecordKind::Uncorrectable => 4,
            RecordKind::Accept => 5,
            RecordKind::Doubt => 6,
            RecordKind::Lane => 7,
            RecordKind::OwnDoubt => 8,
            RecordKind::Range => 9,
            RecordKind::Progress => 10,
        };
        b[FLAGS] = if self.unchecked { RECORD_UNCHECKED } else { 0 };
        put_u16(b, RESERVED, 0);
        put_u32(b, COMPONENT, self.component);
        put_u64(b, BLOCK, self.block.0);
        put_u64(b, LSN, self.lsn);
        put_u32(b, BLOCKS, self.blocks);
        put_u32(b, DATA_AT, self.data_at);
        put_u32(b, EPOCH, self.order.epoch.0);
        put_u32(b, PERIOD_START, self.order.period_start.0);
        put_u32(b, TERM, self.order.seq.term.0);
        put_u32(b, MARK_TERM, self.order.mark.term.0);
        put_u64(b, COUNTER, self.order.seq.counter);
        put_u64(b, MARK_COUNTER, self.order.mark.counter);
    }

    fn parse(b: &[u8]) -> Result<Self, DiskError> {
        use record::*;
        // With a length that the compiler knows, no field is looked for beyond the end.
        let b = b.first_chunk::<RECORD_BYTES>().ok_or(DiskError::TooShort)?;
        let kind = match b[KIND] {
            1 => RecordKind::Write,
            2 => RecordKind::Trim,
            3 => RecordKind::Zero,
            4 => RecordKind::Uncorrectable,
            5 => RecordKind::Accept,
            6 => RecordKind::Doubt,
            7 => RecordKind::Lane,
            8 => RecordKind::OwnDoubt,
            9 => RecordKind::Range,
            10 => RecordKind::Progress,
            _ => return Err(DiskError::Value { field: "record kind" }),
        };
        check(b[FLAGS] & !RECORD_UNCHECKED == 0, "record flags")?;
        reserved(b, RESERVED, COMPONENT)?;
        let r = Record {
            kind,
            unchecked: b[FLAGS] & RECORD_UNCHECKED != 0,
            component: u32_at(b, COMPONENT),
            block: BlockNo(u64_at(b, BLOCK)),
            blocks: u32_at(b, BLOCKS),
            lsn: u64_at(b, LSN),
            order: Order {
                epoch: Epoch(u32_at(b, EPOCH)),
                period_start: Epoch(u32_at(b, PERIOD_START)),
                seq: Seq { term: Epoch(u32_at(b, TERM)), counter: u64_at(b, COUNTER) },
                mark: Seq { term: Epoch(u32_at(b, MARK_TERM)), counter: u64_at(b, MARK_COUNTER) },
            },
            data_at: u32_at(b, DATA_AT),
        };
        if !kind.is_change() {
            super::copies::check_record(&r)?;
            return Ok(r);
        }
        let Order { epoch, period_start, seq, mark } = r.order;
        check(period_start <= epoch && seq.term <= epoch, "record epoch")?;
        check(mark < seq, "record mark")?;
        check(r.component != 0 && r.component <= COMPONENT_NO_MAX, "record component")?;
        check(r.blocks != 0 && r.blocks <= RECORD_BLOCKS_MAX, "record blocks")?;
        check(r.block.0 <= BLOCK_NO_MAX - u64::from(r.blocks), "record block")?;
        check(r.kind == RecordKind::Write || r.data_at == 0, "record data_at")?;
        Ok(r)
    }
}

/// The checksums of the data blocks of one record, in order.
#[derive(Clone, Copy, Debug)]
pub struct CrcList<'a>(&'a [u8]);

impl<'a> CrcList<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len() / CRC_BYTES
    }
    /// Whether there is none (the record brings no data).
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The checksum of data block `i` of the record.
    pub fn get(&self, i: usize) -> u32 {
        u32_at(self.0, i * CRC_BYTES)
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        let bytes = self.0;
        (0..bytes.len() / CRC_BYTES).map(move |i| u32_at(bytes, i * CRC_BYTES))
    }
}

/// The records of a batch or summary with the checksums of their data. Checked as a whole before it is made.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    records: &'a [u8],
    crcs: &'a [u8],
}

impl<'a> Records<'a> {
    /// How many records.
    pub fn len(&self) -> usize {
        self.records.len() / RECORD_BYTES
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// Each record in order, with the checksums of its data blocks.
    pub fn iter(&self) -> impl Iterator<Item = (Record, CrcList<'a>)> + use<'a> {
        let crcs = self.crcs;
        let mut at = 0;
        self.records.chunks_exact(RECORD_BYTES).map_while(move |b| {
            let r = Record::parse(b).ok()?; // was checked by `Records::parse`
            let len = r.data_blocks() as usize * CRC_BYTES;
            let list = CrcList(&crcs[at..at + len]);
            at += len;
            Some((r, list))
        })
    }

    /// Checks that each record is sound, that data lies at or after `low` in ascending places that end by `high`, and
    /// that the data blocks add up. `dense`: the places follow on each other without a gap.
    fn parse(records: &'a [u8], crcs: &'a [u8], low: u32, high: u32, dense: bool) -> Result<Self, DiskError> {
        let mut place = low;
        let mut data = 0usize;
        for b in records.chunks_exact(RECORD_BYTES) {
            let r = Record::parse(b)?;
            if r.kind == RecordKind::Write {
                check(if dense { r.data_at == place } else { r.data_at >= place }, "record data_at")?;
                check(r.data_at <= high && r.blocks <= high - r.data_at, "record data_at")?;
                place = r.data_at + r.blocks;
                data += r.blocks as usize;
            }
        }
        check(data * CRC_BYTES == crcs.len(), "data blocks")?;
        Ok(Self { records, crcs })
    }

    fn build(out: &mut [u8], records: &[Record], crcs: &[u32]) -> usize {
        let mut at = 0;
        for r in records {
            r.build(&mut out[at..at + RECORD_BYTES]);
            at += RECORD_BYTES;
        }
        for &crc in crcs {
            put_u32(out, at, crc);
            at += CRC_BYTES;
        }
        at
    }
}

/// The first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The format of the group.
    pub tag: FormatTag,
    /// The shard whose slice it lies in.
    pub shard: u8,
    /// Its place in the slice.
    pub index: u32,
    /// Blocks of the segment, with this header and the summary.
    pub blocks: u32,
    /// Grows by one with each segment that the shard begins: tells this lap of the ring from the ones before. From 1.
    pub segment_seq: u64,
    /// Number of the first batch in it.
    pub first_lsn: u64,
    /// Oldest segment still needed when this one was begun.
    pub tail_seq: u64,
    /// Header checksum of the last batch before this segment (0: none).
    pub previous_crc: u32,
}

impl SegmentHeader {
    /// Fills one block.
    pub fn build(&self, out: &mut [u8]) {
        use segment::*;
        let b = &mut out[..BYTES];
        b.fill(0);
        put(b, MAGIC, SEGMENT_MAGIC);
        put_u32(b, INDEX, self.index);
        put_u64(b, TAG, self.tag.0);
        put_u64(b, SEGMENT_SEQ, self.segment_seq);
        put_u64(b, FIRST_LSN, self.first_lsn);
        put_u64(b, TAIL_SEQ, self.tail_seq);
        put_u32(b, BLOCKS, self.blocks);
        put_u32(b, PREVIOUS_CRC, self.previous_crc);
        b[SHARD] = self.shard;
        let crc = crc_around(b, CRC);
        put_u32(b, CRC, crc);
    }

    /// Reads one block; refuses what another format of the device left.
    pub fn parse(b: &[u8], tag: FormatTag) -> Result<Self, DiskError> {
        use segment::*;
        let b = b.get(..BYTES).ok_or(DiskError::TooShort)?;
        if &b[MAGIC..MAGIC + 8] != SEGMENT_MAGIC {
            return Err(DiskError::Magic);
        }
        if crc_around(b, CRC) != u32_at(b, CRC) {
            return Err(DiskError::Checksum);
        }
        if u64_at(b, TAG) != tag.0 {
            return Err(DiskError::OtherFormat);
        }
        reserved(b, RESERVED, BYTES)?;
        let h = Self {
            tag,
            shard: b[SHARD],
            index: u32_at(b, INDEX),
            blocks: u32_at(b, BLOCKS),
            segment_seq: u64_at(b, SEGMENT_SEQ),
            first_lsn: u64_at(b, FIRST_LSN),
            tail_seq: u64_at(b, TAIL_SEQ),
            previous_crc: u32_at(b, PREVIOUS_CRC),
        };
        check(h.blocks >= SEGMENT_BLOCKS_MIN && h.blocks <= SEGMENT_BLOCKS_MAX, "segment blocks")?;
        check(h.segment_seq != 0 && h.tail_seq <= h.segment_seq, "segment tail")?;
        Ok(h)
    }
}

/// What the header of a batch says besides its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The format of the group.
    pub tag: FormatTag,
    /// The shard.
    pub shard: u8,
    /// Number of the batch: one more than the one before, for ever.
    pub lsn: u64,
    /// The segment it lies in.
    pub segment_seq: u64,
    /// Where in the segment its header begins, in blocks.
    pub position: u32,
    /// Oldest segment still needed: recovery starts there.
    pub tail_seq: u64,
    /// Checksum of the header of the batch before (0: none).
    pub previous_crc: u32,
}

/// The first block of a batch header, read to know how long the header is. Its checksum is not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPeek {
    /// The segment that it names.
    pub segment_seq: u64,
    /// Blocks of the header.
    pub header_blocks: u32,
    /// Data blocks after it.
    pub data_blocks: u32,
}

impl BatchPeek {
    /// Looks at the first block of what may be a batch header of this format.
    pub fn parse(b: &[u8], tag: FormatTag) -> Result<Self, DiskError> {
        use batch::*;
        let b = b.get(..BYTES).ok_or(DiskError::TooShort)?;
        if &b[MAGIC..MAGIC + 8] != BATCH_MAGIC {
            return Err(DiskError::Magic);
        }
        if u64_at(b, TAG) != tag.0 {
            return Err(DiskError::OtherFormat);
        }
        let (header, data, records) = (u32::from(u16_at(b, HEADER_BLOCKS)), u32_at(b, DATA_BLOCKS), u32_at(b, RECORDS));
        check((1..=BATCH_HEADER_BLOCKS_MAX).contains(&header), "header blocks")?;
        check(data <= SEGMENT_BLOCKS_MAX, "data blocks")?;
        let fits = records as usize <= header as usize * BLOCK_BYTES / RECORD_BYTES;
        check(fits && batch_header_blocks(records as usize, data as usize) == header as usize, "records")?;
        Ok(Self { segment_seq: u64_at(b, SEGMENT_SEQ), header_blocks: header, data_blocks: data })
    }
}

/// A batch header as read: sound as a whole.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    /// Its fixed part.
    pub header: BatchHeader,
    /// Blocks of the header.
    pub header_blocks: u32,
    /// Data blocks after it.
    pub data_blocks: u32,
    /// Its own checksum: the next batch names it.
    pub crc: u32,
    /// What it does.
    pub records: Records<'a>,
}

impl BatchHeader {
    /// Fills `out` (exactly [`batch_header_blocks`] blocks) and returns the checksum that the next batch names.
    /// `data_at` of the writes among `records` must run on from `position` + header blocks; `crcs` has one checksum a
    /// data block, in order.
    pub fn build(&self, out: &mut [u8], records: &[Record], crcs: &[u32]) -> u32 {
        use batch::*;
        let blocks = batch_header_blocks(records.len(), crcs.len());
        assert!(out.len() == blocks * BLOCK_BYTES && blocks <= BATCH_HEADER_BLOCKS_MAX as usize, "the caller sizes the header");
        let used = BYTES + Records::build(&mut out[BYTES..], records, crcs);
        out[used..].fill(0);
        out[..BYTES].fill(0);
        put(out, MAGIC, BATCH_MAGIC);
        put_u16(out, HEADER_BLOCKS, blocks as u16);
        out[SHARD] = self.shard;
        put_u64(out, TAG, self.tag.0);
        put_u64(out, LSN, self.lsn);
        put_u64(out, SEGMENT_SEQ, self.segment_seq);
        put_u64(out, TAIL_SEQ, self.tail_seq);
        put_u32(out, POSITION, self.position);
        put_u32(out, DATA_BLOCKS, crcs.len() as u32);
        put_u32(out, RECORDS, records.len() as u32);
        put_u32(out, PREVIOUS_CRC, self.previous_crc);
        let crc = crc_around(out, CRC);
        put_u32(out, CRC, crc);
        crc
    }

    /// Reads a batch header; `b` holds at least the blocks that [`BatchPeek`] reported. The data is not looked at.
    pub fn parse(b: &[u8], tag: FormatTag) -> Result<BatchView<'_>, DiskError> {
        use batch::*;
        let peek = BatchPeek::parse(b, tag)?;
        let b = b.get(..peek.header_blocks as usize * BLOCK_BYTES).ok_or(DiskError::TooShort)?;
        let crc = crc_around(b, CRC);
        if crc != u32_at(b, CRC) {
            return Err(DiskError::Checksum);
        }
        check(b[FLAGS] == 0, "batch flags")?;
        reserved(b, RESERVED, BYTES)?;
        let header = BatchHeader {
            tag,
            shard: b[SHARD],
            lsn: u64_at(b, LSN),
            segment_seq: u64_at(b, SEGMENT_SEQ),
            position: u32_at(b, POSITION),
            tail_seq: u64_at(b, TAIL_SEQ),
            previous_crc: u32_at(b, PREVIOUS_CRC),
        };
        check(header.segment_seq != 0 && header.tail_seq <= header.segment_seq, "batch tail")?;
        check(header.position >= SEGMENT_HEADER_BLOCKS && header.position < SEGMENT_BLOCKS_MAX, "batch position")?;
        let crcs = BYTES + u32_at(b, RECORDS) as usize * RECORD_BYTES;
        let end = crcs + peek.data_blocks as usize * CRC_BYTES;
        reserved(b, end, b.len())?;
        let data = header.position + peek.header_blocks;
        let records = Records::parse(&b[BYTES..crcs], &b[crcs..end], data, data + peek.data_blocks, true)?;
        Ok(BatchView { header, header_blocks: peek.header_blocks, data_blocks: peek.data_blocks, crc, records })
    }
}

/// What the summary of a sealed segment says besides its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryHeader {
    /// The format of the group.
    pub tag: FormatTag,
    /// The shard.
    pub shard: u8,
    /// The segment it closes.
    pub segment_seq: u64,
    /// Number of the first batch of the segment.
    pub first_lsn: u64,
    /// Number of its last batch (`first_lsn` - 1: there is none).
    pub last_lsn: u64,
    /// The tail that its last batch named (that the segment header named, if there is no batch).
    pub tail_seq: u64,
    /// Blocks of the segment that are in use, from its start, without the summary.
    pub used_blocks: u32,
    /// Header checksum of its last batch: the first batch of the next segment names it.
    pub last_crc: u32,
}

/// The last block of a segment, read to know how long the summary is. Its checksum is not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryPeek {
    /// Blocks of the summary; it ends with the segment.
    pub summary_blocks: u32,
    /// The segment that it claims to close.
    pub segment_seq: u64,
}

impl SummaryPeek {
    /// Looks at bytes that end where a segment ends.
    pub fn parse(tail: &[u8], tag: FormatTag) -> Result<Self, DiskError> {
        use summary::*;
        let b = &tail[tail.len().checked_sub(BYTES).ok_or(DiskError::TooShort)?..];
        if &b[MAGIC..MAGIC + 8] != SUMMARY_MAGIC {
            return Err(DiskError::Magic);
        }
        if u64_at(b, TAG) != tag.0 {
            return Err(DiskError::OtherFormat);
        }
        let (blocks, records, data) = (u32_at(b, SUMMARY_BLOCKS), u32_at(b, RECORDS), u32_at(b, DATA_BLOCKS));
        check((1..=SUMMARY_BLOCKS_MAX).contains(&blocks), "summary blocks")?;
        let fits = records as usize <= blocks as usize * BLOCK_BYTES / RECORD_BYTES && data <= SEGMENT_BLOCKS_MAX;
        check(fits && summary_blocks(records as usize, data as usize) == blocks as usize, "summary records")?;
        Ok(Self { summary_blocks: blocks, segment_seq: u64_at(b, SEGMENT_SEQ) })
    }
}

/// A summary as read: sound as a whole.
#[derive(Clone, Copy, Debug)]
pub struct SummaryView<'a> {
    /// Its fixed part.
    pub header: SummaryHeader,
    /// Blocks it takes.
    pub summary_blocks: u32,
    /// All records of the segment, in order.
    pub records: Records<'a>,
}

impl SummaryHeader {
    /// Fills `out` (exactly [`summary_blocks`] blocks), to be written to the last blocks of the segment.
    pub fn build(&self, out: &mut [u8], records: &[Record], crcs: &[u32]) {
        use summary::*;
        let blocks = summary_blocks(records.len(), crcs.len());
        assert!(out.len() == blocks * BLOCK_BYTES && blocks <= SUMMARY_BLOCKS_MAX as usize, "the caller sizes the summary");
        let at = out.len() - BYTES;
        let used = Records::build(&mut out[..at], records, crcs);
        out[used..].fill(0);
        let b = &mut out[at..];
        put(b, MAGIC, SUMMARY_MAGIC);
        put_u32(b, RECORDS, records.len() as u32);
        put_u64(b, TAG, self.tag.0);
        put_u64(b, SEGMENT_SEQ, self.segment_seq);
        put_u64(b, FIRST_LSN, self.first_lsn);
        put_u64(b, LAST_LSN, self.last_lsn);
        put_u64(b, TAIL_SEQ, self.tail_seq);
        put_u32(b, DATA_BLOCKS, crcs.len() as u32);
        put_u32(b, SUMMARY_BLOCKS, blocks as u32);
        put_u32(b, USED_BLOCKS, self.used_blocks);
        put_u32(b, LAST_CRC, self.last_crc);
        b[SHARD] = self.shard;
        let crc = crc_around(out, at + CRC);
        put_u32(out, at + CRC, crc);
    }

    /// Reads a summary from `tail`: at least the blocks that [`SummaryPeek`] reported, ending where the segment ends.
    pub fn parse(tail: &[u8], tag: FormatTag) -> Result<SummaryView<'_>, DiskError> {
        use summary::*;
        let peek = SummaryPeek::parse(tail, tag)?;
        let from = tail.len().checked_sub(peek.summary_blocks as usize * BLOCK_BYTES).ok_or(DiskError::TooShort)?;
        let all = &tail[from..];
        let at = all.len() - BYTES;
        if crc_around(all, at + CRC) != u32_at(all, at + CRC) {
            return Err(DiskError::Checksum);
        }
        let b = &all[at..];
        reserved(b, RESERVED, BYTES)?;
        let header = SummaryHeader {
            tag,
            shard: b[SHARD],
            segment_seq: u64_at(b, SEGMENT_SEQ),
            first_lsn: u64_at(b, FIRST_LSN),
            last_lsn: u64_at(b, LAST_LSN),
            tail_seq: u64_at(b, TAIL_SEQ),
            used_blocks: u32_at(b, USED_BLOCKS),
            last_crc: u32_at(b, LAST_CRC),
        };
        check(header.segment_seq != 0 && header.tail_seq <= header.segment_seq, "summary tail")?;
        check(header.used_blocks >= SEGMENT_HEADER_BLOCKS && header.used_blocks <= SEGMENT_BLOCKS_MAX, "summary used blocks")?;
        check(header.first_lsn != 0 && header.last_lsn >= header.first_lsn - 1, "summary batches")?;
        let crcs = u32_at(b, RECORDS) as usize * RECORD_BYTES;
        let end = crcs + u32_at(b, DATA_BLOCKS) as usize * CRC_BYTES;
        reserved(all, end, at)?;
        let records = Records::parse(&all[..crcs], &all[crcs..end], SEGMENT_HEADER_BLOCKS + 1, header.used_blocks, false)?;
        Ok(SummaryView { header, summary_blocks: peek.summary_blocks, records })
    }
}
