//! The writing end of the log: a batch takes changes, is written, and is durable or has failed.
//!
//! Owns: the steps of a batch and of a segment. Who calls says which changes enter, and what they mean.
//! Invariants: those of the module above.
//! Never: writes a batch while another is in flight; gives up a batch without a second attempt, in a fresh segment.

use super::log::Log;
use super::{BATCH_BLOCKS_MAX, BATCH_OPS_MAX, OpenSegment, PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, Stopped};
use crate::ComponentNo;
use crate::buffer::ring::RESERVE_SEGMENTS;
use crate::index::{Key, Located, LogPos};
use crate::shard::cookie;
use crate::stats::{BATCH_CLASSES, ShardStats};
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use format::disk::log::{self, BatchHeader, Record, RecordKind, SEGMENT_HEADER_BLOCKS, SegmentHeader, SummaryHeader};
use rt::{Buf, BufVec, DeviceError, Durability, Queue, Rt};

/// Records of one operation, at most: a range of another copy has two.
const RECORDS_OF_CHANGE: usize = 2;

impl Log {
    // ---- what it is doing -------------------------------------------------------------------------------------------

    /// Whether no batch is in flight and something waits for one.
    #[inline]
    pub fn is_batch_due(&self) -> bool {
        let writer = &self.writer;
        !(writer.batch.in_flight || writer.stopped.is_some() || self.waiting.is_empty() && !self.tail_due())
    }
    /// Whether the device takes no batch: every change fails.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.writer.stopped.is_some()
    }
    /// Whether a batch is in flight.
    pub fn is_writing(&self) -> bool {
        self.writer.batch.in_flight
    }
    /// Number of the next batch.
    #[inline]
    pub fn next_lsn(&self) -> u64 {
        self.writer.next_lsn
    }
    /// The open segment, when it could be closed: it holds something, and nothing is on its way into it.
    pub fn open_at_rest(&self) -> Option<u64> {
        // A probe of a log that has stopped goes there.
        let rest = !self.writer.batch.in_flight && self.waiting.is_empty() && self.writer.stopped.is_none();
        self.writer.open.as_ref().filter(|open| rest && !open.records.is_empty()).map(|open| open.seq)
    }

    // ---- the batch that is built ------------------------------------------------------------------------------------

    /// Begins a batch. `retried`: no second attempt is made.
    #[inline]
    pub fn begin_batch(&mut self, retried: bool) {
        let batch = &mut self.writer.batch;
        debug_assert!(!batch.in_flight);
        batch.ops.clear();
        batch.records.clear();
        batch.crcs.clear();
        batch.blocks = 0;
        batch.retried = retried;
    }
    /// Whether a change with so many blocks of data fits into the batch. The first one may open a segment.
    #[inline]
    pub fn make_room(&mut self, rt: &Rt, queue: &Queue, blocks: u32, figures: &mut ShardStats) -> bool {
        let batch = &self.writer.batch;
        let (records, total) = (batch.records.len(), batch.blocks + blocks);
        if records > 0 && (records >= hooks::tiny(BATCH_OPS_MAX, 4) || total > hooks::tiny(BATCH_BLOCKS_MAX, 12)) {
            return false;
        }
        let keep = if hooks::seeded(SeededFault::ReserveForgotten) { 0 } else { RESERVE_SEGMENTS };
        self.writer.fits(records + RECORDS_OF_CHANGE, total, self.ring.segment_blocks())
            || records == 0 && self.roll(rt, queue, keep, figures)
    }
    /// A batch without records may take a reserve segment: it is what frees others. Whether there is room for it.
    pub fn make_room_for_tail(&mut self, rt: &Rt, queue: &Queue, figures: &mut ShardStats) -> bool {
        if self.writer.fits(0, 0, self.ring.segment_blocks()) {
            return true;
        }
        if !self.ring.can_open(RESERVE_SEGMENTS) {
            hooks::reached(CoverageMark::ReserveSegmentTaken);
        }
        self.roll(rt, queue, 0, figures)
    }
    /// The same, if a checkpoint waits for a batch that carries its tail.
    pub fn takes_tail(&mut self, rt: &Rt, queue: &Queue, figures: &mut ShardStats) -> bool {
        self.tail_due() && self.make_room_for_tail(rt, queue, figures)
    }
    /// Whether so many records of notes fit into a batch, alone. They may take a reserve segment, but the last: that is for a batch with a later tail.
    pub fn make_room_for_notes(&mut self, rt: &Rt, queue: &Queue, records: usize, figures: &mut ShardStats) -> bool {
        self.writer.fits(records, 0, self.ring.segment_blocks()) || self.roll(rt, queue, 1, figures)
    }
    /// Puts a record into the batch that is nobody's operation.
    pub fn add_note(&mut self, record: Record) {
        self.writer.batch.records.push(record);
    }
    /// Puts a change into the batch; of a write, the checksums of its blocks.
    #[inline]
    pub fn add_to_batch(&mut self, key: u32, mut record: Record, crcs: &[u32]) {
        let batch = &mut self.writer.batch;
        if record.kind == RecordKind::Write {
            record.data_at = batch.blocks; // from the start of the data; the header's length is added below
            batch.crcs.extend_from_slice(crcs);
            batch.blocks += record.blocks;
        }
        batch.ops.push(key);
        batch.records.push(record);
    }
    /// Puts a flush into the batch, which has no record.
    pub fn add_flush(&mut self, key: u32) {
        self.writer.batch.ops.push(key);
    }
    /// The records of the batch.
    #[inline]
    pub fn batch(&self) -> &[Record] {
        &self.writer.batch.records
    }
    /// The operations of the batch.
    pub fn batch_ops(&self) -> &[u32] {
        &self.writer.batch.ops
    }
    /// The operations of the batch, which end now. The list comes back with [`Log::batch_ops_ended`].
    #[inline]
    pub fn take_batch_ops(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.writer.batch.ops)
    }
    /// The emptied list, for the next batch.
    #[inline]
    pub fn batch_ops_ended(&mut self, list: Vec<u32>) {
        debug_assert!(list.is_empty());
        self.writer.batch.ops = list;
    }

    /// Builds the headers and submits the batch, with the data of its writes behind `bufs[0]`, which is replaced.
    pub fn write_batch(&mut self, rt: &Rt, queue: &Queue, mut bufs: BufVec) {
        self.pass_given_up();
        let (tag, shard) = (self.tag, self.shard);
        let writer = &mut self.writer;
        let open = writer.open.as_ref().expect("there was room");
        let place = self.ring.place(open.seq);
        let first_block = self.ring.first_block(open.seq);
        let batch = &mut writer.batch;
        let header_blocks = log::batch_header_blocks(batch.records.len(), batch.crcs.len()) as u32;
        let fresh = open.at == 0;
        let position = open.at.max(SEGMENT_HEADER_BLOCKS);
        let shift = position + if hooks::seeded(SeededFault::LongHeaderForgotten) { 1 } else { header_blocks };
        if header_blocks > 1 {
            hooks::reached(CoverageMark::LongBatchHeader);
        }
        for record in batch.records.iter_mut().filter(|r| r.kind == RecordKind::Write) {
            record.data_at += shift;
        }
        let lead = if fresh { SEGMENT_HEADER_BLOCKS as usize * BLOCK_BYTES } else { 0 };
        let mut head = Buf::alloc(lead + header_blocks as usize * BLOCK_BYTES);
        if fresh {
            let header = SegmentHeader {
                tag,
                shard,
                index: place,
                blocks: self.ring.segment_blocks(),
                segment_seq: open.seq,
                first_lsn: open.first_lsn,
                tail_seq: writer.tail_next,
                previous_crc: open.previous_crc,
            };
            header.build(&mut head[..lead]);
        }
        let header = BatchHeader {
            tag,
            shard,
            lsn: writer.next_lsn,
            segment_seq: open.seq,
            position,
            tail_seq: writer.tail_next,
            previous_crc: writer.last_crc,
        };
        batch.crc = header.build(&mut head[lead..], &batch.records, &batch.crcs);
        batch.position = position;
        batch.header_blocks = header_blocks;
        batch.tail = writer.tail_next;
        batch.in_flight = true;
        bufs[0] = head;
        let start = first_block + if fresh { 0 } else { position };
        let durability = if hooks::seeded(SeededFault::VolatileBatch) { Durability::Volatile } else { Durability::Durable };
        rt.write(queue, cookie::BATCH, &self.slice.device, self.slice.offset(start), bufs, durability);
    }

    /// A segment that was given up at its first write is never named as the oldest: recovery could not tell it from one that is lost. Nothing
    /// in it counts, so the next one is as good a tail. Asked before each batch: a checkpoint may have chosen it before it was given up.
    fn pass_given_up(&mut self) {
        let writer = &mut self.writer;
        while writer.tail_next < self.ring.head() && self.ring.get(writer.tail_next).used <= SEGMENT_HEADER_BLOCKS {
            writer.tail_next += 1;
        }
    }

    // ---- segments ---------------------------------------------------------------------------------------------------

    /// Seals the open segment and opens the next, leaving `keep` free. False when there is none.
    fn roll(&mut self, rt: &Rt, queue: &Queue, keep: u64, figures: &mut ShardStats) -> bool {
        if !self.ring.can_open(keep) {
            return false;
        }
        let open = self.seal_open(rt, queue, figures).unwrap_or_default();
        let seq = self.ring.open();
        hooks::must(|| self.ring.free() >= keep, "a segment was taken that is kept free");
        self.ring.get_mut(seq).used = SEGMENT_HEADER_BLOCKS;
        self.news.notify_one();
        let (mut records, mut crcs) = (open.records, open.crcs);
        records.clear();
        crcs.clear();
        let writer = &mut self.writer;
        writer.open = Some(OpenSegment { seq, first_lsn: writer.next_lsn, previous_crc: writer.last_crc, at: 0, records, crcs });
        true
    }

    /// Seals the open segment: writes its summary behind everything else. Recovery does without when that never arrives.
    ///
    /// A segment of which nothing is durable gets none: a later life gives its number again, and must not find a summary of this one.
    pub fn seal_open(&mut self, rt: &Rt, queue: &Queue, figures: &mut ShardStats) -> Option<OpenSegment> {
        let writer = &mut self.writer;
        let open = writer.open.take()?;
        self.ring.seal(open.seq);
        if open.at == 0 && !hooks::seeded(SeededFault::SummaryOfNothing) {
            return Some(open);
        }
        let blocks = log::summary_blocks(open.records.len(), open.crcs.len());
        let header = SummaryHeader {
            tag: self.tag,
            shard: self.shard,
            segment_seq: open.seq,
            first_lsn: open.first_lsn,
            last_lsn: writer.next_lsn - 1,
            tail_seq: writer.tail_durable.min(open.seq),
            used_blocks: open.at.max(SEGMENT_HEADER_BLOCKS),
            last_crc: writer.last_crc,
        };
        let mut buf = Buf::alloc(blocks * BLOCK_BYTES);
        header.build(&mut buf, &open.records, &open.crcs);
        let first = self.ring.first_block(open.seq);
        if !hooks::seeded(SeededFault::SummaryUnpinned) {
            self.ring.pin(first);
        }
        writer.summaries.push(first);
        figures.log_overhead_bytes += buf.len() as u64;
        let offset = self.slice.offset(first + self.ring.segment_blocks() - blocks as u32);
        let bufs = BufVec::from_iter([buf]);
        rt.write(queue, cookie::summary(first), &self.slice.device, offset, bufs, Durability::Volatile);
        Some(open)
    }
    /// The summary of the segment that begins at `first_block` has come to its end, or was lost.
    pub fn summary_ended(&mut self, first_block: u32) {
        if !hooks::seeded(SeededFault::SummaryUnpinned) {
            self.ring.unpin(first_block);
        }
        self.writer.summaries.retain(|first| *first != first_block);
    }

    // ---- the batch has ended ----------------------------------------------------------------------------------------

    /// The batch could not be written: it goes to a fresh segment. Gives the buffers back when there is none, or it was tried there already.
    pub fn write_elsewhere(
        &mut self,
        rt: &Rt,
        queue: &Queue,
        error: DeviceError,
        bufs: BufVec,
        figures: &mut ShardStats,
    ) -> Result<(), BufVec> {
        assert!(self.writer.batch.in_flight);
        self.writer.batch.in_flight = false;
        figures.log_write_errors += 1;
        tracing::warn!(shard = self.shard, device = self.slice.device.name(), %error, "a write to the log failed");
        // The last segment is for a batch that frees others: without it neither this life nor a later one could write anything any more.
        let keep = u64::from(!self.tail_due() && !hooks::seeded(SeededFault::RetryTakesLast));
        if self.writer.batch.retried || !self.roll(rt, queue, keep, figures) {
            return Err(bufs);
        }
        hooks::reached(CoverageMark::BatchWrittenElsewhere);
        let batch = &mut self.writer.batch;
        batch.retried = true;
        let shift = batch.position + batch.header_blocks;
        let moved = |r: &&mut Record| r.kind == RecordKind::Write && !hooks::seeded(SeededFault::RetryKeepsPlaces);
        for record in batch.records.iter_mut().filter(moved) {
            record.data_at -= shift;
        }
        self.write_batch(rt, queue, bufs);
        Ok(())
    }

    /// The batch is durable: it counts.
    pub fn commit(&mut self, figures: &mut ShardStats) {
        let writer = &mut self.writer;
        let batch = &mut writer.batch;
        assert!(batch.in_flight);
        batch.in_flight = false;
        let open = writer.open.as_mut().expect("a batch lies in the open segment");
        open.at = batch.position + batch.header_blocks + batch.blocks;
        if !(batch.retried && hooks::seeded(SeededFault::RetriedBatchUnlisted)) {
            open.records.extend_from_slice(&batch.records);
            open.crcs.extend_from_slice(&batch.crcs);
        }
        writer.next_lsn += 1;
        writer.last_crc = batch.crc;
        let named = if hooks::seeded(SeededFault::TailTakenAsNamed) { writer.tail_next } else { batch.tail };
        writer.tail_durable = writer.tail_durable.max(named);
        self.ring.get_mut(open.seq).used = open.at;
        figures.batches += 1;
        let class = u32::BITS - batch.blocks.saturating_sub(1).leading_zeros();
        figures.batch_blocks[(class as usize).min(BATCH_CLASSES - 1)] += 1;
        figures.log_overhead_bytes += u64::from(batch.header_blocks) * BLOCK_BYTES as u64;
        if writer.stopped.take().is_some() {
            hooks::reached(CoverageMark::LogTakenUp);
            tracing::warn!(shard = self.shard, device = self.slice.device.name(), "the log can be written again");
            self.news.notify_one();
        }
        let written = writer.batch.records.iter().filter(|r| r.kind == RecordKind::Write);
        self.index.touch(written.map(|r| Key::new(ComponentNo(r.component), r.block)));
    }

    /// Write `record` of the batch that is durable: from now on its data is the content of its blocks. `crcs`: one for each of them.
    #[inline(always)]
    pub fn apply_write(&mut self, record: usize, crcs: &[u32], unchecked: bool) {
        let Record { component, block, blocks, data_at, .. } = self.writer.batch.records[record];
        let seq = self.writer.open.as_ref().expect("just written to").seq;
        let first = Key::new(ComponentNo(component), block);
        let at = self.add_record(seq, first, data_at, blocks);
        debug_assert_eq!(crcs.len(), blocks as usize);
        for (i, &crc) in (0..).zip(crcs) {
            self.insert(first.plus(i), Located { pos: LogPos::new(at + i, unchecked), crc });
        }
    }

    // ---- a log that cannot be written -------------------------------------------------------------------------------

    /// The batch has failed for good: the log stops until a probe succeeds. `probing`: when it will be made is set here.
    pub fn stop(&mut self, rt: &Rt, queue: &Queue, probing: bool) {
        hooks::reached(CoverageMark::LogGivenUp);
        let failures = self.writer.stopped.as_ref().map_or(0, |stopped| stopped.failures);
        if failures == 0 {
            tracing::error!(shard = self.shard, device = self.slice.device.name(), "the log cannot be written: writes fail until it can");
        }
        self.stopped_after(rt, queue, failures, probing);
    }
    /// The log stays stopped after `failures` attempts: sets the time of the next one.
    fn stopped_after(&mut self, rt: &Rt, queue: &Queue, failures: u32, probing: bool) {
        let pause = PROBE_PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PROBE_PAUSE_MAX);
        let timer = probing.then(|| rt.timer(queue, cookie::PROBE, rt.now() + pause));
        self.writer.stopped = Some(Stopped { failures: failures.saturating_add(1), timer });
    }
    /// Whoever waits for a tail gets none.
    pub fn give_up_tail(&mut self) {
        self.tail_wanted = false;
        if !hooks::seeded(SeededFault::TailWaiterForgotten) {
            self.tail_written.notify_all();
        }
    }
    /// Tries whether the log can be written again, with an empty batch. It goes where the last attempt went: what may be there of that
    /// one has the same number, and was never answered as written.
    pub fn probe(&mut self, rt: &Rt, queue: &Queue, figures: &mut ShardStats) {
        let Some(Stopped { failures, .. }) = self.writer.stopped else { return };
        if !self.make_room_for_tail(rt, queue, figures) {
            return self.stopped_after(rt, queue, failures, true);
        }
        self.begin_batch(true); // a probe that fails uses up no segment
        self.write_batch(rt, queue, BufVec::from_iter([Buf::alloc(BLOCK_BYTES)]));
    }
    /// No more probes: the shard is closed.
    pub fn stop_probing(&mut self, rt: &Rt) {
        if let Some(timer) = self.writer.stopped.as_mut().and_then(|stopped| stopped.timer.take()) {
            rt.cancel_timer(timer);
        }
    }
}
