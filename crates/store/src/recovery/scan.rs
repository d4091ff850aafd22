//! Reading a log as a crash may have left it.
//!
//! Owns: which segments belong to the log, and what each contains. Sealed segments are read by their summary (about one part in a
//! hundred); the others batch by batch.
//! Invariants: the last batch of the head is taken only if all its data is sound: it is the only one that can be torn. A batch before
//! another was complete, whatever its data looks like now (then reads of that block say so). What the media cannot give is never taken for
//! the end of the log, and headers and the end are read until two readings agree: a bit that flips on the way must not shorten it.
//! Never: trusts a length before it is checked; changes anything but what [`LogReader::wipe`] says.

use super::chain::Chain;
use crate::GroupError;
use crate::join::join_all;
use crate::slots::AGAIN_MAX;
use base::crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use format::disk::FormatTag;
use format::disk::log::{BatchHeader, BatchPeek, BatchView, Record, SEGMENT_HEADER_BLOCKS, SegmentHeader, SummaryHeader, SummaryPeek};
use rt::{Buf, BufVec, Device, DeviceError, Durability, Rt};
use std::collections::BTreeMap;

/// Segment headers read at a time.
const HEADERS_AT_ONCE: usize = 64;
/// Blocks at the end of a segment that are read in the hope that its summary fits.
const SUMMARY_GUESS_BLOCKS: u32 = 16;
/// Blocks of one read (1 MiB).
const READ_BLOCKS_MAX: u32 = 256;

/// One slice of the cache device.
pub(super) struct LogReader<'a> {
    pub rt: &'a Rt,
    pub tag: FormatTag,
    pub shard: u8,
    pub cache: &'a Device,
    pub slice_at: u64,
    pub count: u32,
    pub segment_blocks: u32,
}

/// Where the log begins and ends.
pub(super) struct Found {
    /// Oldest segment needed.
    pub tail: u64,
    /// Headers, by sequence number.
    headers: BTreeMap<u64, SegmentHeader>,
    /// The newest segment with anything in it, unless it is older than the tail.
    pub head: Option<Head>,
    /// Where the chain stands when no segment is replayed.
    pub fresh: Chain,
}

pub(super) struct Head {
    pub seq: u64,
    pub content: Content,
}

impl Found {
    /// The segments from the tail to before this one are replayed by [`LogReader::content`].
    pub fn head_seq(&self) -> u64 {
        self.head.as_ref().map_or(self.tail, |head| head.seq)
    }
}

/// What a segment contains.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub first_lsn: u64,
    /// `first_lsn - 1` when there is no batch.
    pub last_lsn: u64,
    pub last_crc: u32,
    /// Header checksum of the batch before the first, where known.
    pub previous_crc: Option<u32>,
    pub used_blocks: u32,
    /// The newest tail it names.
    pub tail: u64,
    pub records: Vec<Record>,
    pub crcs: Vec<u32>,
    /// Checksum of all that was read, where it was read batch by batch.
    sum: u32,
}

impl LogReader<'_> {
    pub fn damaged(&self, what: &'static str) -> GroupError {
        GroupError::LogDamaged { device: self.cache.name().into(), shard: self.shard, what }
    }

    /// Where a block of a segment lies on the device, in bytes.
    fn offset(&self, seq: u64, block: u32) -> u64 {
        let place = seq % u64::from(self.count);
        self.slice_at + (place * u64::from(self.segment_blocks) + u64::from(block)) * BLOCK_BYTES as u64
    }

    /// Reads blocks of a segment; `None` when the media cannot give them.
    async fn read(&self, seq: u64, first: u32, blocks: u32) -> Result<Option<Buf>, GroupError> {
        let offset = self.offset(seq, first);
        let mut result = Err(DeviceError::Media);
        let mut buf = Buf::alloc(blocks as usize * BLOCK_BYTES);
        for _ in 0..2 {
            (result, buf) = self.rt.read_at(self.cache, offset, buf).await;
            if result.is_ok() {
                return Ok(Some(buf));
            }
        }
        match result {
            Err(DeviceError::Media) | Ok(()) => Ok(None),
            Err(error) => Err(GroupError::Device { device: self.cache.name().into(), error }),
        }
    }

    /// The segment after `newest`, if it is there after all: a header that was not right may have been damaged on the way.
    async fn one_more(&self, newest: u64, unreadable: &[u64]) -> Result<Option<SegmentHeader>, GroupError> {
        let place = (newest + 1) % u64::from(self.count);
        if unreadable.contains(&place) {
            return Err(self.damaged("the header of what may be its newest segment cannot be read"));
        }
        let Some(block) = self.read(place, 0, 1).await? else {
            return Err(self.damaged("the header of what may be its newest segment cannot be read"));
        };
        Ok(self.header_at(place, &block).filter(|h| h.segment_seq == newest + 1))
    }

    /// Finds tail and head.
    pub async fn find(&self) -> Result<Found, GroupError> {
        let (mut headers, unreadable) = self.headers().await?;
        while let Some(h) = self.one_more(headers.last_key_value().map_or(0, |(seq, _)| *seq), &unreadable).await? {
            headers.insert(h.segment_seq, h);
        }
        let Some((&newest, header)) = headers.last_key_value() else {
            return Ok(Found { tail: 1, headers, head: None, fresh: Chain { lsn: 1, crc: 0 } });
        };
        let header = *header;
        let content = match self.summary(newest).await? {
            Some(content) if content.first_lsn == header.first_lsn || hooks::seeded(SeededFault::SummaryOfNothing) => content,
            _ => self.scan(newest, &header, None).await?,
        };
        let tail = if hooks::seeded(SeededFault::TailOfHeaderOnly) { header.tail_seq } else { content.tail.max(header.tail_seq) };
        let content = Content { previous_crc: Some(header.previous_crc), ..content };
        if content.last_lsn < content.first_lsn {
            // Nothing of it counts: its place and its number are used again.
            hooks::reached(CoverageMark::EmptyNewestSegment);
            return self.without_newest(headers, newest, tail).await;
        }
        let fresh = Chain { lsn: content.last_lsn + 1, crc: content.last_crc };
        Ok(Found { tail, headers, head: Some(Head { seq: newest, content }), fresh })
    }

    /// The newest segment holds nothing: the one before is the head.
    async fn without_newest(&self, mut headers: BTreeMap<u64, SegmentHeader>, newest: u64, tail: u64) -> Result<Found, GroupError> {
        let Some(header) = headers.remove(&newest) else { unreachable!("it was the last one") };
        let fresh = Chain { lsn: header.first_lsn, crc: header.previous_crc };
        let seq = newest - 1;
        if seq < tail || seq == 0 {
            return Ok(Found { tail, headers, head: None, fresh });
        }
        let mut found = Found { tail, headers, head: None, fresh };
        let content = self.content_up_to(&found, seq, Some(header.first_lsn)).await?;
        match content {
            Some(content) => found.head = Some(Head { seq, content }),
            None if seq == tail => return Err(self.damaged("the oldest segment cannot be read")),
            // It was given up after a failed write and left nothing; an empty one stands for it.
            None => {
                let (lsn, crc) = (header.first_lsn, header.previous_crc);
                let content = Content { first_lsn: lsn, last_lsn: lsn - 1, last_crc: crc, used_blocks: 1, tail, ..Content::default() };
                found.head = Some(Head { seq, content });
            }
        }
        Ok(found)
    }

    /// Wipes headers of batches at these blocks of segments, which are no batches of the log: torn ones, or what an earlier life wrote in vain.
    /// A later write may come to the same place with the same number; torn in turn, it could bring just the sectors that such a batch lacks, and
    /// what was found not to be there would be.
    pub async fn wipe(&self, places: &[(u64, u32)]) -> Result<(), GroupError> {
        for &(seq, block) in places.iter().filter(|(_, block)| *block < self.segment_blocks) {
            let Some(found) = self.read(seq, block, 1).await? else { continue };
            if !BatchPeek::parse(&found, self.tag).is_ok_and(|peek| peek.segment_seq == seq) || hooks::seeded(SeededFault::TornBatchKept) {
                continue;
            }
            hooks::reached(CoverageMark::TornBatchWiped);
            let bufs = BufVec::from_iter([Buf::zeroed(BLOCK_BYTES)]);
            let (result, _) = self.rt.write_at(self.cache, self.offset(seq, block), bufs, Durability::Durable).await;
            result.map_err(|error| GroupError::Device { device: self.cache.name().into(), error })?;
        }
        Ok(())
    }

    fn header_at(&self, place: u64, block: &[u8]) -> Option<SegmentHeader> {
        let h = SegmentHeader::parse(block, self.tag).ok()?;
        let here = h.shard == self.shard && u64::from(h.index) == place && h.segment_seq % u64::from(self.count) == place;
        (here && h.blocks == self.segment_blocks).then_some(h)
    }

    /// The first block of a segment. One that is no header of ours is believed when two readings agree: else a bit that flips on the way
    /// would leave out the newest segment.
    async fn read_header(&self, place: u64) -> Result<Option<Buf>, GroupError> {
        let mut block = self.read(place, 0, 1).await?;
        for _ in 0..AGAIN_MAX {
            match &block {
                Some(b) if self.header_at(place, b).is_none() && !base::is_zero(b) => {}
                _ => break,
            }
            let again = self.read(place, 0, 1).await?;
            let agrees = again.as_deref() == block.as_deref();
            block = again;
            if agrees {
                break;
            }
        }
        Ok(block)
    }

    /// All headers by sequence number, and the places whose header the media cannot give.
    async fn headers(&self) -> Result<(BTreeMap<u64, SegmentHeader>, Vec<u64>), GroupError> {
        let (mut headers, mut unreadable) = (BTreeMap::new(), Vec::new());
        let most = if hooks::seeded(SeededFault::FirstHeadersOnly) { hooks::tiny(HEADERS_AT_ONCE, 4) as u64 } else { u64::MAX };
        let places: Vec<u64> = (0..u64::from(self.count).min(most)).collect();
        for group in places.chunks(hooks::tiny(HEADERS_AT_ONCE, 4)) {
            let reads = join_all(group.iter().map(|&place| Box::pin(self.read_header(place)))).await;
            for (&place, read) in group.iter().zip(reads) {
                match read? {
                    Some(block) => headers.extend(self.header_at(place, &block).map(|h| (h.segment_seq, h))),
                    None => unreadable.push(place),
                }
            }
        }
        Ok((headers, unreadable))
    }

    /// What segment `seq` contains; `None` when nothing is there.
    pub async fn content(&self, found: &Found, seq: u64) -> Result<Option<Content>, GroupError> {
        let next = found.headers.range(seq + 1..).next().map(|(_, header)| header.first_lsn);
        self.content_up_to(found, seq, next).await
    }

    /// `next_lsn`: the first batch of a later segment; anything from there on was written again there.
    async fn content_up_to(&self, found: &Found, seq: u64, next_lsn: Option<u64>) -> Result<Option<Content>, GroupError> {
        let header = found.headers.get(&seq);
        // One that does not lead to the batch where a later segment goes on is not of the life that wrote that segment.
        let leads_on =
            |c: &Content| next_lsn.is_none_or(|next| c.last_lsn + 1 == next) && header.is_none_or(|h| h.first_lsn == c.first_lsn);
        if let Some(content) = self.summary(seq).await?.filter(leads_on) {
            return Ok(Some(Content { previous_crc: header.map(|h| h.previous_crc), ..content }));
        }
        hooks::reached(CoverageMark::SegmentWithoutSummary);
        match header {
            Some(header) => Ok(Some(self.scan(seq, header, next_lsn).await?)),
            None => Ok(None),
        }
    }

    async fn summary(&self, seq: u64) -> Result<Option<Content>, GroupError> {
        let mut blocks = hooks::tiny(SUMMARY_GUESS_BLOCKS, 1);
        let Some(mut tail) = self.read(seq, self.segment_blocks - blocks, blocks).await? else { return Ok(None) };
        let Ok(peek) = SummaryPeek::parse(&tail, self.tag) else { return Ok(None) };
        if peek.segment_seq != seq || peek.summary_blocks >= self.segment_blocks {
            return Ok(None);
        }
        if peek.summary_blocks > blocks {
            blocks = peek.summary_blocks;
            match self.read(seq, self.segment_blocks - blocks, blocks).await? {
                Some(longer) => tail = longer,
                None => return Ok(None),
            }
        }
        let Ok(view) = SummaryHeader::parse(&tail, self.tag) else { return Ok(None) };
        let h = view.header;
        if h.shard != self.shard || h.segment_seq != seq || h.used_blocks > self.segment_blocks - blocks.min(view.summary_blocks) {
            return Ok(None);
        }
        // Earlier versions wrote a summary for a segment that was given up at its first write, and a later life gave its number again.
        if h.last_lsn < h.first_lsn && !hooks::seeded(SeededFault::SummaryOfNothing) {
            return Ok(None);
        }
        let mut content = Content {
            first_lsn: h.first_lsn,
            last_lsn: h.last_lsn,
            last_crc: h.last_crc,
            previous_crc: None,
            used_blocks: h.used_blocks,
            tail: h.tail_seq,
            ..Content::default()
        };
        for (record, crcs) in view.records.iter() {
            content.records.push(record);
            content.crcs.extend(crcs.iter());
        }
        Ok(Some(content))
    }

    /// Reads a segment batch by batch. `next_lsn`: where a later segment goes on; `None` for the newest segment, whose last batch
    /// may be torn: its end is believed when two readings agree to the last bit.
    async fn scan(&self, seq: u64, header: &SegmentHeader, next_lsn: Option<u64>) -> Result<Content, GroupError> {
        let mut content = self.scan_once(seq, header, next_lsn).await?;
        if next_lsn.is_none() {
            let mut last = content.sum;
            for _ in 0..AGAIN_MAX {
                let again = self.scan_once(seq, header, None).await?;
                let agrees = again.sum == last;
                last = again.sum;
                if again.last_lsn > content.last_lsn {
                    content = again;
                }
                if agrees {
                    break;
                }
                hooks::reached(CoverageMark::EndReadDifferently);
            }
        }
        Ok(content)
    }

    async fn scan_once(&self, seq: u64, header: &SegmentHeader, next_lsn: Option<u64>) -> Result<Content, GroupError> {
        let most = hooks::tiny(READ_BLOCKS_MAX, 64);
        let firsts: Vec<u32> = (0..self.segment_blocks).step_by(most as usize).collect();
        let reads = firsts.iter().map(|&first| self.read(seq, first, most.min(self.segment_blocks - first)));
        let mut bytes = Vec::with_capacity(self.segment_blocks as usize * BLOCK_BYTES);
        let mut unreadable = Vec::new();
        for (read, &first) in join_all(reads.map(Box::pin)).await.into_iter().zip(&firsts) {
            match read? {
                Some(buf) => bytes.extend_from_slice(&buf),
                None => self.read_singly(seq, first, &mut bytes, &mut unreadable).await?,
            }
        }
        let content = self.batches(&bytes, &unreadable, header, next_lsn)?;
        Ok(Content { sum: crc32c(&bytes), ..content })
    }

    /// A large read failed: block by block, what cannot be read is zeroes, and said.
    async fn read_singly(&self, seq: u64, first: u32, bytes: &mut Vec<u8>, unreadable: &mut Vec<u32>) -> Result<(), GroupError> {
        for block in first..(first + hooks::tiny(READ_BLOCKS_MAX, 64)).min(self.segment_blocks) {
            match self.read(seq, block, 1).await? {
                Some(buf) => bytes.extend_from_slice(&buf),
                None => {
                    bytes.resize(bytes.len() + BLOCK_BYTES, 0);
                    unreadable.push(block);
                }
            }
        }
        Ok(())
    }

    fn batches(&self, bytes: &[u8], unreadable: &[u32], header: &SegmentHeader, next_lsn: Option<u64>) -> Result<Content, GroupError> {
        let mut content = Content {
            first_lsn: header.first_lsn,
            last_lsn: header.first_lsn - 1,
            last_crc: header.previous_crc,
            previous_crc: Some(header.previous_crc),
            used_blocks: SEGMENT_HEADER_BLOCKS,
            tail: header.tail_seq,
            ..Content::default()
        };
        let at = |position: u32| bytes.get(position as usize * BLOCK_BYTES..).unwrap_or(&[]);
        while next_lsn.is_none_or(|next| content.last_lsn + 1 < next) {
            let position = content.used_blocks;
            let Ok(view) = BatchHeader::parse(at(position), self.tag) else {
                // Nor is a header of which a part cannot be read.
                let peek = BatchPeek::parse(at(position), self.tag);
                if peek.is_ok() {
                    hooks::reached(CoverageMark::TornBatchHeader);
                }
                let blocks = peek.map_or(1, |peek| peek.header_blocks);
                if next_lsn.is_none() && unreadable.iter().any(|b| (position..position + blocks).contains(b)) {
                    return Err(self.damaged("the end of its newest segment cannot be read"));
                }
                break;
            };
            if !self.is_next(&view, header.segment_seq, &content) {
                hooks::reached(CoverageMark::StaleBatchBehindEnd);
                break;
            }
            let data = at(position + view.header_blocks);
            if data.len() < view.data_blocks as usize * BLOCK_BYTES {
                break;
            }
            let end = position + view.header_blocks + view.data_blocks;
            let torn = !hooks::seeded(SeededFault::TornBatchTaken)
                && next_lsn.is_none()
                && !unreadable.iter().any(|b| (position..end).contains(b))
                && !sound(&view, data)
                && !self.goes_on(at(end), &view, header.segment_seq);
            if torn {
                hooks::reached(CoverageMark::TornBatchDropped);
                break;
            }
            for (record, crcs) in view.records.iter() {
                content.records.push(record);
                content.crcs.extend(crcs.iter());
            }
            content.last_lsn = view.header.lsn;
            content.last_crc = view.crc;
            content.used_blocks = end;
            content.tail = content.tail.max(view.header.tail_seq);
        }
        match next_lsn {
            Some(next) if content.last_lsn + 1 != next => Err(self.damaged("a sealed segment has lost batches")),
            None if self.later_batch(bytes, header.segment_seq, &content) => Err(self.damaged("the newest segment has lost batches")),
            _ => Ok(content),
        }
    }

    fn is_next(&self, view: &BatchView<'_>, segment_seq: u64, before: &Content) -> bool {
        let h = &view.header;
        h.shard == self.shard
            && h.segment_seq == segment_seq
            && h.position == before.used_blocks
            && h.lsn == before.last_lsn + 1
            && h.previous_crc == before.last_crc
    }

    /// Whether the batch after `view` begins at `bytes`: then `view` was complete.
    fn goes_on(&self, bytes: &[u8], view: &BatchView<'_>, segment_seq: u64) -> bool {
        BatchHeader::parse(bytes, self.tag).is_ok_and(|next| {
            next.header.segment_seq == segment_seq && next.header.lsn == view.header.lsn + 1 && next.header.previous_crc == view.crc
        })
    }

    /// Whether there is a batch behind the one where the chain breaks: then a durable one was lost, not merely a torn one.
    fn later_batch(&self, bytes: &[u8], segment_seq: u64, content: &Content) -> bool {
        let first = (content.used_blocks + 1) as usize * BLOCK_BYTES;
        bytes.get(first..).unwrap_or(&[]).chunks_exact(BLOCK_BYTES).enumerate().any(|(i, _)| {
            BatchHeader::parse(&bytes[first + i * BLOCK_BYTES..], self.tag).is_ok_and(|view| {
                view.header.segment_seq == segment_seq && view.header.lsn > content.last_lsn + 1 && view.header.shard == self.shard
            })
        })
    }
}

/// Whether all data blocks of a batch sum to what its header says.
fn sound(view: &BatchView<'_>, data: &[u8]) -> bool {
    let mut blocks = data.chunks_exact(BLOCK_BYTES);
    view.records.iter().all(|(_, crcs)| crcs.iter().all(|crc| blocks.next().is_some_and(|block| crc32c(block) == crc)))
}
