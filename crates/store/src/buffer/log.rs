//! The log of a shard: what lies in its slice of the cache device, where the newest version of each block is, and what waits to be written.
//!
//! Owns: the slice, the ring of segments, the index, the writing end, the changes in line.
//! Invariants: `live` of the segments counts exactly the index entries that are not destaged; what is read is pinned until it has come back;
//! a segment is released when none of its blocks is live and a durable batch no longer names it as needed.
//! Never: knows the operations behind the changes, or what lies on capacity.

use super::ring::{self, RESERVE_SEGMENTS, Ring, Segment, SegmentState};
use super::{LogWriter, OpenSegment};
use crate::ComponentNo;
use crate::index::{Key, Located, LogIndex, LogPos};
use crate::shard::chunk_part::ChunkPart;
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS};
use base::{BlockNo, Order};
use core::future::Future;
use format::disk::FormatTag;
use rt::sync::Notify;
use rt::{Buf, Device, DeviceError, Queue, Rt};
use std::collections::VecDeque;

/// A place in the log: record `record` of segment `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub seq: u64,
    pub record: usize,
}

/// A shard's slice of the cache device.
#[derive(Clone)]
pub(crate) struct Slice {
    pub(super) device: Device,
    /// Where it begins, in bytes.
    at: u64,
}

impl Slice {
    /// The slice of `device` that begins at byte `at`.
    pub fn new(device: Device, at: u64) -> Self {
        debug_assert!(at.is_multiple_of(BLOCK_BYTES as u64));
        Self { device, at }
    }
    /// First byte of a block of the slice.
    #[inline]
    pub fn offset(&self, block: u32) -> u64 {
        self.at + u64::from(block) * BLOCK_BYTES as u64
    }
    /// Reads from block `block` on.
    pub fn read(&self, rt: &Rt, block: u32, buf: Buf) -> impl Future<Output = (Result<(), DeviceError>, Buf)> + use<> {
        rt.read_at(&self.device, self.offset(block), buf)
    }
}

/// See the module.
pub(crate) struct Log {
    pub(super) tag: FormatTag,
    pub(super) shard: u8,
    pub(super) slice: Slice,
    pub(super) ring: Ring,
    pub(super) index: LogIndex,
    pub(super) writer: LogWriter,
    /// Changes in line, with what their owner says of them.
    pub(super) waiting: VecDeque<(u32, Order)>,
    /// A checkpoint waits for a batch with the new tail.
    pub(super) tail_wanted: bool,
    pub(super) tail_written: Notify,
    /// Number of the next batch when the log held nothing but notes of copies, if it did.
    pub(super) quiet: Option<u64>,
    /// Wakes destaging: a segment was sealed, or the log can be written again.
    pub(super) news: Notify,
}

impl Log {
    /// The log of shard `shard` in a slice of `count` segments of `segment_blocks` blocks, empty, the next segment being `next`. `news` wakes
    /// destaging.
    pub fn new((tag, shard): (FormatTag, u8), slice: Slice, (count, segment_blocks): (u32, u32), next: u64, news: Notify) -> Self {
        Self {
            tag,
            shard,
            slice,
            ring: Ring::new(count, segment_blocks, next),
            index: LogIndex::new(u64::from(count) * u64::from(segment_blocks)),
            writer: LogWriter::new(1, 0, next),
            waiting: VecDeque::new(),
            tail_wanted: false,
            tail_written: Notify::new(),
            quiet: None,
            news,
        }
    }

    /// Where it lies.
    pub fn device(&self) -> &Device {
        &self.slice.device
    }

    // ---- where blocks are -------------------------------------------------------------------------------------------

    /// Where the newest version of a block lies, if it is in the log.
    #[inline]
    pub fn find(&self, component: ComponentNo, block: BlockNo) -> Option<Located> {
        self.index.get(Key::new(component, block))
    }
    /// The same of a block that is not on capacity as well.
    #[inline]
    pub fn find_live(&self, component: ComponentNo, block: BlockNo) -> Option<Located> {
        self.find(component, block).filter(|found| !found.pos.destaged())
    }
    /// Brings what the index has of these blocks near the processor, all at once.
    #[inline]
    pub fn touch(&self, keys: impl Iterator<Item = Key>) {
        self.index.touch(keys);
    }
    /// What the log has of a chunk: bit i says that it has block i.
    #[inline]
    pub fn holds(&self, component: ComponentNo, chunk: u64) -> u16 {
        (0..CHUNK_BLOCKS).fold(0, |mask, i| {
            let found = self.find(component, BlockNo(chunk * CHUNK_BLOCKS + i)).is_some();
            mask | (u16::from(found) << i)
        })
    }
    /// The index, to be looked through.
    pub fn index(&self) -> &LogIndex {
        &self.index
    }

    /// A record of segment `seq` has taken effect, whose data lies at block `at` of it. Its block of the slice: see [`Log::insert`].
    #[inline]
    pub fn add_record(&mut self, seq: u64, key: Key, at: u32, blocks: u32) -> u32 {
        self.ring.get_mut(seq).records.push(ring::Record { key, at: at as u16, blocks: blocks as u16 });
        self.ring.first_block(seq) + at
    }
    /// One block's newest version is now at `at`.
    #[inline]
    pub fn insert(&mut self, key: Key, at: Located) {
        if let Some(old) = self.index.insert(key, at)
            && !old.pos.destaged()
        {
            self.ring.live_less(old.pos.block());
        }
        self.ring.live_more(at.pos.block());
    }
    /// The block has no content in the log any more.
    pub fn remove(&mut self, key: Key) {
        if let Some(old) = self.index.remove(key)
            && !old.pos.destaged()
        {
            self.ring.live_less(old.pos.block());
        }
    }
    /// Nor have the blocks of a part.
    pub fn remove_part(&mut self, component: ComponentNo, part: ChunkPart) {
        for i in part.first..part.first + part.blocks {
            self.remove(Key::new(component, BlockNo(part.chunk * CHUNK_BLOCKS + u64::from(i))));
        }
    }
    /// The version at `pos` is on capacity as well. False when a newer one (or none) has taken its place.
    #[inline]
    pub fn mark_destaged(&mut self, key: Key, pos: LogPos) -> bool {
        let newest = self.index.mark_destaged(key, pos.block());
        if newest {
            self.ring.live_less(pos.block());
        }
        newest
    }

    // ---- reading ----------------------------------------------------------------------------------------------------

    /// The slice, for who reads what is pinned.
    pub fn slice(&self) -> &Slice {
        &self.slice
    }
    /// What lies there stays until [`Log::unpin`].
    #[inline]
    pub fn pin(&mut self, pos: LogPos) {
        self.ring.pin(pos.block());
    }
    #[inline]
    pub fn unpin(&mut self, pos: LogPos) {
        self.ring.unpin(pos.block());
    }
    /// Reads from `pos` on. What lies there is pinned: [`Log::unpin`] it when the read has come back.
    #[inline]
    pub fn read(&mut self, rt: &Rt, queue: &Queue, cookie: u64, pos: LogPos, buf: Buf) {
        self.ring.pin(pos.block());
        rt.read(queue, cookie, &self.slice.device, self.slice.offset(pos.block()), buf);
    }

    // ---- the ring ---------------------------------------------------------------------------------------------------

    /// The segments, to be looked at.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
    /// Blocks of a segment.
    #[inline]
    pub fn segment_blocks(&self) -> u32 {
        self.ring.segment_blocks()
    }
    /// Share of the log whose content is not yet on capacity, as far as destaging has come.
    pub fn fill(&self, cursor: Cursor) -> f64 {
        let segment = f64::from(self.ring.segment_blocks());
        if cursor.seq > self.ring.head() {
            return 0.0;
        }
        let mut blocks = (self.ring.head() + 1 - cursor.seq) as f64 * segment;
        let head = self.ring.get(self.ring.head());
        if head.state == SegmentState::Open {
            blocks -= segment - f64::from(head.used);
        }
        let at = self.ring.get(cursor.seq);
        if at.records.len() > 0 {
            blocks -= cursor.record as f64 / at.records.len() as f64 * f64::from(at.used);
        }
        (blocks / (self.ring.count() as f64 * segment)).clamp(0.0, 1.0)
    }
    /// Share of the log that is live.
    pub fn live_share(&self) -> f64 {
        self.ring.live() as f64 / (self.ring.count() * u64::from(self.ring.segment_blocks())) as f64
    }
    /// A segment, if it is in use and nothing will be added to it.
    #[inline]
    pub fn sealed(&self, seq: u64) -> Option<&Segment> {
        let segment = (seq <= self.ring.head()).then(|| self.ring.get(seq));
        segment.filter(|segment| segment.state == SegmentState::Sealed)
    }
    /// The first segment from `seq` on that is not clean: sealed, and without a live block.
    #[inline]
    pub fn clean_from(&self, seq: u64) -> u64 {
        let mut clean = seq;
        while self.sealed(clean).is_some_and(|segment| segment.live == 0) {
            clean += 1;
        }
        clean
    }
    /// Nothing is in it but, maybe, the batch that said so, or notes of copies.
    pub fn is_empty(&self) -> bool {
        self.ring.in_use() == 0
            || self.is_quiet()
            || self.ring.in_use() == 1 && self.writer.open.as_ref().is_some_and(|open| open.records.is_empty())
    }
    /// Forgets where the blocks of the oldest segment lie in the log, and gives the segment back.
    pub fn release_oldest(&mut self) {
        let seq = self.ring.tail();
        let first = self.ring.first_block(seq);
        let segment = self.ring.get_mut(seq);
        assert_eq!(segment.live, 0, "a segment with live blocks is not released");
        let records = core::mem::take(&mut segment.records);
        let mut i = 0;
        while let Some(record) = records.get(i) {
            let at = first + u32::from(record.at);
            for n in 0..u32::from(record.blocks) {
                self.index.release(record.key.plus(n), at + n);
            }
            i += 1;
        }
        self.ring.get_mut(seq).records = records;
        self.ring.release_oldest();
    }

    // ---- the line ---------------------------------------------------------------------------------------------------

    /// A change has come: the last in line.
    #[inline]
    pub fn push_waiting(&mut self, key: u32, order: Order) {
        self.waiting.push_back((key, order));
    }
    /// It goes before all that is in line.
    pub fn push_first(&mut self, key: u32) {
        self.waiting.push_front((key, Order::default()));
    }
    /// The first in line.
    #[inline]
    pub fn first_waiting(&self) -> Option<u32> {
        self.waiting.front().map(|&(key, _)| key)
    }
    /// Takes the first out of the line.
    #[inline]
    pub fn pop_waiting(&mut self) -> Option<(u32, Order)> {
        self.waiting.pop_front()
    }
    /// Those in line.
    pub fn waiting(&self) -> &VecDeque<(u32, Order)> {
        &self.waiting
    }
    /// Something is in line, and there will be no room for it unless segments are released.
    pub fn is_stuck(&self) -> bool {
        !self.waiting.is_empty() && !self.ring.can_open(RESERVE_SEGMENTS) && !self.writer.batch.in_flight
    }

    // ---- the tail ---------------------------------------------------------------------------------------------------

    /// The oldest segment that a durable batch says is needed.
    pub fn tail_durable(&self) -> u64 {
        self.writer.tail_durable
    }
    /// The oldest segment that the next batch says is needed.
    pub fn tail_next(&self) -> u64 {
        self.writer.tail_next
    }
    /// The next batch says that nothing before segment `seq` is needed. What comes back is notified when it is durable, or cannot be.
    pub fn want_tail(&mut self, seq: u64) -> Notify {
        self.writer.tail_next = self.writer.tail_next.max(seq);
        self.tail_wanted = true;
        self.tail_written.clone()
    }
    /// A checkpoint waits for a batch that carries its tail.
    #[inline]
    pub(super) fn tail_due(&self) -> bool {
        self.tail_wanted && self.writer.tail_next > self.writer.tail_durable
    }
    /// Wakes the checkpoint that waits for a tail that is durable.
    #[inline]
    pub fn notify_tail(&mut self) {
        if self.tail_wanted && self.writer.tail_durable >= self.writer.tail_next {
            self.tail_wanted = false;
            self.tail_written.notify_all();
        }
    }

    // ---- notes of copies --------------------------------------------------------------------------------------------

    /// A checkpoint has ended that began when this was the newest segment and the number of the next batch, and named `target` as the tail, after so
    /// many batches of notes. Whether nothing but notes is left.
    pub fn rests(&mut self, (newest, next_lsn): (u64, u64), target: u64, notes: u64) {
        let only = |open: &OpenSegment| open.records.iter().all(|record| !record.kind.is_change());
        let head = self.ring.head();
        let own = if head == target { self.writer.open.as_ref().is_some_and(only) } else { self.writer.next_lsn - next_lsn <= notes + 1 };
        self.quiet = (target > newest && notes > 0 && own).then_some(self.writer.next_lsn);
    }
    /// Nothing but notes is left, and no batch was written since that was so.
    pub fn is_quiet(&self) -> bool {
        self.quiet == Some(self.writer.next_lsn)
    }

    // ---- replay -----------------------------------------------------------------------------------------------------

    /// Segment `seq`, the next one, was found in use. False when there is none left.
    pub fn open_found(&mut self, seq: u64) -> bool {
        if !self.ring.can_open(0) {
            return false;
        }
        let opened = self.ring.open();
        debug_assert_eq!(opened, seq);
        self.ring.get_mut(seq).used = 1;
        self.ring.seal(seq);
        true
    }
    /// So many blocks of it were found used.
    pub fn set_used(&mut self, seq: u64, blocks: u32) {
        self.ring.get_mut(seq).used = blocks;
    }
    /// The replay has ended: the next batch has this number and follows one with this header checksum.
    pub fn replayed(&mut self, next_lsn: u64, last_crc: u32) {
        self.writer = LogWriter::new(next_lsn, last_crc, self.writer.tail_next);
    }

    // ---- for what must hold -----------------------------------------------------------------------------------------

    /// The open segment.
    pub fn open_segment(&self) -> Option<&OpenSegment> {
        self.writer.open.as_ref()
    }
    /// Segments whose summary is being written, by their first block.
    pub fn summaries(&self) -> &[u32] {
        &self.writer.summaries
    }
}
