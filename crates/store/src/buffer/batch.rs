//! Building batches from what waits, writing them, and what follows when one is durable or has failed.

use super::{BATCH_BLOCKS_MAX, BATCH_OPS_MAX, OpenSegment, PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, Stopped};
use crate::ComponentNo;
use crate::buffer::ring::RESERVE_SEGMENTS;
use crate::index::Key;
use crate::shard::cookie;
use crate::shard::member::Known;
use crate::shard::op::{Change, Logged, Stage, StoreError};
use crate::shard::state::{Phase, State};
use base::Order;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use format::disk::log::{self, BatchHeader, Record, RecordKind, SEGMENT_HEADER_BLOCKS, SegmentHeader, SummaryHeader};
use rt::{Buf, BufVec, DeviceError, Durability, Rt};

/// What a trim costs at admission, in bytes: its record, and its share of a header.
const TRIM_COST_BYTES: u64 = 512;

impl State {
    /// Starts the next batch, if none is in flight and something waits. Whether anything was done.
    #[inline]
    pub fn start_batch(&mut self, rt: &Rt) -> bool {
        let nothing = self.log.batch.in_flight || self.log.stopped.is_some() || self.waiting.is_empty() && !self.tail_due();
        !nothing && self.start_some_batch(rt)
    }

    fn start_some_batch(&mut self, rt: &Rt) -> bool {
        let mut bufs = BufVec::with_capacity(1 + self.waiting.len().min(BATCH_OPS_MAX));
        bufs.push(Buf::alloc(BLOCK_BYTES)); // replaced by the header; keeps its place
        let done_before = self.ops.answers();
        self.gather(rt, &mut bufs);
        if self.log.batch.records.is_empty() && !self.log.batch.ops.is_empty() {
            // Flushes only, and nothing in flight: what came before is durable.
            let mut ops = core::mem::take(&mut self.log.batch.ops);
            for key in ops.drain(..) {
                self.finish(key, Ok(()), None);
            }
            self.log.batch.ops = ops;
        }
        if self.log.batch.records.is_empty() && !(self.tail_due() && self.room_for_tail(rt)) {
            return self.ops.answers() > done_before;
        }
        self.write_batch(rt, bufs);
        true
    }

    /// A checkpoint waits for a batch that carries its tail.
    fn tail_due(&self) -> bool {
        self.tail_wanted && self.log.tail_next > self.log.tail_durable
    }

    /// A batch without records may take a reserve segment: it is what frees others.
    fn room_for_tail(&mut self, rt: &Rt) -> bool {
        if self.log.fits(0, 0, self.ring.segment_blocks()) {
            return true;
        }
        if !self.ring.can_open(RESERVE_SEGMENTS) {
            hooks::reached(CoverageMark::ReserveSegmentTaken);
        }
        self.roll(rt, 0)
    }

    /// Moves operations from the line into the batch, as long as they may enter and fit.
    fn gather(&mut self, rt: &Rt, bufs: &mut BufVec) {
        let now = rt.now();
        let batch = &mut self.log.batch;
        batch.ops.clear();
        batch.records.clear();
        batch.crcs.clear();
        batch.blocks = 0;
        batch.retried = false;
        let fill = self.fill();
        let lsn = self.log.next_lsn;
        while let Some(&(key, _)) = self.waiting.front() {
            let op = &self.ops[key];
            let Stage::Waiting(change) = &op.stage else { unreachable!("only what waits is in line") };
            let (kind, blocks) = match change {
                Change::Write { .. } => (RecordKind::Write, op.blocks),
                Change::Trim => (RecordKind::Trim, 0),
                Change::Zero => (RecordKind::Zero, 0),
                Change::Uncorrectable => (RecordKind::Uncorrectable, 0),
                Change::Flush => {
                    self.waiting.pop_front();
                    self.ops[key].stage = Stage::Logging(Logged::Flush);
                    self.log.batch.ops.push(key);
                    continue;
                }
            };
            let batch = &self.log.batch;
            let (records, total) = (batch.records.len(), batch.blocks + blocks);
            if records > 0 && (records >= hooks::tiny(BATCH_OPS_MAX, 4) || total > hooks::tiny(BATCH_BLOCKS_MAX, 12)) {
                break;
            }
            if !self.log.fits(records + 1, total, self.ring.segment_blocks())
                && (records > 0 || !self.roll(rt, if hooks::seeded(SeededFault::ReserveForgotten) { 0 } else { RESERVE_SEGMENTS }))
            {
                break;
            }
            let cost = if kind == RecordKind::Write { u64::from(blocks) * BLOCK_BYTES as u64 } else { TRIM_COST_BYTES };
            if let Err(at) = self.pacer.admit(cost, fill, now) {
                self.ops.wait_for_admission(rt, &self.queue, at, &mut self.figures);
                break;
            }
            let (_, order) = self.waiting.pop_front().expect("looked at above");
            self.enter((key, order), kind, lsn, bufs, now);
        }
    }

    /// Puts one operation into the batch.
    fn enter(&mut self, (key, order): (u32, Order), kind: RecordKind, lsn: u64, bufs: &mut BufVec, now: base::Instant) {
        let op = &mut self.ops[key];
        let waited = now.since(op.entered);
        if waited > self.figures.admission_wait_max {
            self.figures.admission_wait_max = waited;
        }
        let logged = match op.stage {
            Stage::Waiting(Change::Write { unchecked, .. }) => Logged::Write { unchecked },
            Stage::Waiting(Change::Uncorrectable) => Logged::Uncorrectable,
            _ => Logged::Trim,
        };
        let Stage::Waiting(change) = core::mem::replace(&mut op.stage, Stage::Logging(logged)) else {
            unreachable!("only what waits enters the log")
        };
        let mut record =
            Record { kind, unchecked: false, component: op.component.0, block: op.block, blocks: op.blocks, lsn, order, data_at: 0 };
        match change {
            Change::Write { buf, unchecked } => {
                bufs.push(buf);
                record.unchecked = unchecked;
                record.data_at = self.log.batch.blocks; // from the start of the data; the header's length is added below
                self.log.batch.crcs.extend_from_slice(&op.crcs);
                self.log.batch.blocks += op.blocks;
            }
            Change::Trim | Change::Zero | Change::Uncorrectable => {}
            Change::Flush => unreachable!("a flush enters no log"),
        }
        self.log.batch.ops.push(key);
        self.log.batch.records.push(record);
    }

    /// Builds the headers and submits the batch. `bufs[0]` is replaced.
    fn write_batch(&mut self, rt: &Rt, mut bufs: BufVec) {
        self.pass_given_up();
        let (tag, shard) = (self.tag, self.shard);
        let open = self.log.open.as_ref().expect("there was room");
        let place = self.ring.place(open.seq);
        let first_block = self.ring.first_block(open.seq);
        let batch = &mut self.log.batch;
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
                tail_seq: self.log.tail_next,
                previous_crc: open.previous_crc,
            };
            header.build(&mut head[..lead]);
        }
        let header = BatchHeader {
            tag,
            shard,
            lsn: self.log.next_lsn,
            segment_seq: open.seq,
            position,
            tail_seq: self.log.tail_next,
            previous_crc: self.log.last_crc,
        };
        batch.crc = header.build(&mut head[lead..], &batch.records, &batch.crcs);
        batch.position = position;
        batch.header_blocks = header_blocks;
        batch.tail = self.log.tail_next;
        batch.in_flight = true;
        bufs[0] = head;
        let start = first_block + if fresh { 0 } else { position };
        let offset = self.slice_at + u64::from(start) * BLOCK_BYTES as u64;
        let durability = if hooks::seeded(SeededFault::VolatileBatch) { Durability::Volatile } else { Durability::Durable };
        rt.write(&self.queue, cookie::BATCH, &self.cache, offset, bufs, durability);
    }

    /// A segment that was given up at its first write is never named as the oldest: recovery could not tell it from one that is lost. Nothing
    /// in it counts, so the next one is as good a tail. Asked before each batch: a checkpoint may have chosen it before it was given up.
    fn pass_given_up(&mut self) {
        let log = &mut self.log;
        while log.tail_next < self.ring.head() && self.ring.get(log.tail_next).used <= SEGMENT_HEADER_BLOCKS {
            log.tail_next += 1;
        }
    }

    /// Seals the open segment and opens the next, leaving `keep` free. False when there is none.
    pub fn roll(&mut self, rt: &Rt, keep: u64) -> bool {
        if !self.ring.can_open(keep) {
            return false;
        }
        let open = self.seal_open(rt).unwrap_or_default();
        let seq = self.ring.open();
        hooks::must(|| self.ring.free() >= keep, "a segment was taken that is kept free");
        self.ring.get_mut(seq).used = SEGMENT_HEADER_BLOCKS;
        self.destage.wake();
        let (mut records, mut crcs) = (open.records, open.crcs);
        records.clear();
        crcs.clear();
        self.log.open = Some(OpenSegment { seq, first_lsn: self.log.next_lsn, previous_crc: self.log.last_crc, at: 0, records, crcs });
        true
    }

    /// Seals the open segment: writes its summary behind everything else. Recovery does without when that never arrives.
    ///
    /// A segment of which nothing is durable gets none: a later life gives its number again, and must not find a summary of this one.
    pub fn seal_open(&mut self, rt: &Rt) -> Option<OpenSegment> {
        let open = self.log.open.take()?;
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
            last_lsn: self.log.next_lsn - 1,
            tail_seq: self.log.tail_durable.min(open.seq),
            used_blocks: open.at.max(SEGMENT_HEADER_BLOCKS),
            last_crc: self.log.last_crc,
        };
        let mut buf = Buf::alloc(blocks * BLOCK_BYTES);
        header.build(&mut buf, &open.records, &open.crcs);
        let first = self.ring.first_block(open.seq);
        if !hooks::seeded(SeededFault::SummaryUnpinned) {
            self.ring.pin(first);
        }
        self.log.summaries.push(first);
        self.figures.log_overhead_bytes += buf.len() as u64;
        let at = u64::from(first + self.ring.segment_blocks()) - blocks as u64;
        let bufs = BufVec::from_iter([buf]);
        rt.write(&self.queue, cookie::summary(first), &self.cache, self.slice_at + at * BLOCK_BYTES as u64, bufs, Durability::Volatile);
        Some(open)
    }

    /// The batch in flight has ended.
    pub fn batch_ended(&mut self, rt: &Rt, result: Result<(), DeviceError>, mut bufs: BufVec) {
        assert!(self.log.batch.in_flight);
        self.log.batch.in_flight = false;
        if let Err(error) = result {
            self.figures.log_write_errors += 1;
            tracing::warn!(shard = self.shard, device = self.cache.name(), %error, "a write to the log failed");
            // The last segment is for a batch that frees others: without it neither this life nor a later one could write anything any more.
            let keep = u64::from(!self.tail_due() && !hooks::seeded(SeededFault::RetryTakesLast));
            if !self.log.batch.retried && self.roll(rt, keep) {
                hooks::reached(CoverageMark::BatchWrittenElsewhere);
                self.log.batch.retried = true;
                let shift = self.log.batch.position + self.log.batch.header_blocks;
                for record in self
                    .log
                    .batch
                    .records
                    .iter_mut()
                    .filter(|r| r.kind == RecordKind::Write && !hooks::seeded(SeededFault::RetryKeepsPlaces))
                {
                    record.data_at -= shift;
                }
                self.write_batch(rt, bufs);
                return;
            }
            self.fail_log(rt, bufs);
            return;
        }
        self.commit();
        if self.log.stopped.take().is_some() {
            hooks::reached(CoverageMark::LogTakenUp);
            tracing::warn!(shard = self.shard, device = self.cache.name(), "the log can be written again");
            self.destage.wake();
        }
        let written = self.log.batch.records.iter().filter(|r| r.kind == RecordKind::Write);
        self.index.touch(written.map(|r| Key::new(ComponentNo(r.component), r.block)));
        self.records_ended(true);
        // The buffers of the writes follow the header, in the order of the operations.
        let mut ops = core::mem::take(&mut self.log.batch.ops);
        let mut data = bufs.drain(1..);
        let mut record = 0;
        let mut known = Known::default();
        for key in ops.drain(..) {
            let op = &self.ops[key];
            let Stage::Logging(logged) = op.stage else { unreachable!("it was in the batch") };
            let buf = match logged {
                Logged::Write { unchecked } => {
                    let known = known.has(op.component, || self.members.has(op.component));
                    self.apply_write(key, record, known, unchecked);
                    data.next()
                }
                Logged::Trim => {
                    self.apply_trim(key, record);
                    None
                }
                Logged::Uncorrectable => {
                    self.apply_uncorrectable(key, record);
                    None
                }
                Logged::Flush => None,
            };
            record += usize::from(logged != Logged::Flush);
            self.finish(key, Ok(()), buf);
        }
        drop(data);
        self.log.batch.ops = ops;
        if self.tail_wanted && self.log.tail_durable >= self.log.tail_next {
            self.tail_wanted = false;
            self.tail_written.notify_all();
        }
    }

    /// The changes of the batch have ended: for what must hold.
    fn records_ended(&mut self, logged: bool) {
        if cfg!(feature = "hooks") {
            for i in 0..self.log.batch.records.len() {
                let Record { component, block, order, .. } = self.log.batch.records[i];
                self.members.ended(ComponentNo(component), block, &order, logged);
            }
        }
    }

    /// The batch is durable: it counts.
    fn commit(&mut self) {
        let log = &mut self.log;
        let open = log.open.as_mut().expect("a batch lies in the open segment");
        let batch = &log.batch;
        open.at = batch.position + batch.header_blocks + batch.blocks;
        if !(batch.retried && hooks::seeded(SeededFault::RetriedBatchUnlisted)) {
            open.records.extend_from_slice(&batch.records);
            open.crcs.extend_from_slice(&batch.crcs);
        }
        log.next_lsn += 1;
        log.last_crc = batch.crc;
        log.tail_durable = log.tail_durable.max(if hooks::seeded(SeededFault::TailTakenAsNamed) { log.tail_next } else { batch.tail });
        self.ring.get_mut(open.seq).used = open.at;
        if !batch.records.is_empty() {
            self.destage.log_grows();
        }
        self.figures.batches += 1;
        let class = u32::BITS - batch.blocks.saturating_sub(1).leading_zeros();
        self.figures.batch_blocks[(class as usize).min(crate::stats::BATCH_CLASSES - 1)] += 1;
        self.figures.log_overhead_bytes += u64::from(batch.header_blocks) * BLOCK_BYTES as u64;
    }

    /// The log cannot be written: this batch and all that waits fail, and so does every change until a probe succeeds. Reads go on.
    fn fail_log(&mut self, rt: &Rt, mut bufs: BufVec) {
        hooks::reached(CoverageMark::LogGivenUp);
        let failures = self.log.stopped.as_ref().map_or(0, |stopped| stopped.failures);
        if failures == 0 {
            tracing::error!(shard = self.shard, device = self.cache.name(), "the log cannot be written: writes fail until it can");
        }
        self.log_stopped(rt, failures);
        self.records_ended(false);
        let mut ops = core::mem::take(&mut self.log.batch.ops);
        let mut data = bufs.drain(1..);
        for key in ops.drain(..) {
            let Stage::Logging(logged) = self.ops[key].stage else { unreachable!("it was in the batch") };
            let buf = if matches!(logged, Logged::Write { .. }) { data.next() } else { None };
            if matches!(logged, Logged::Write { .. } | Logged::Uncorrectable)
                && !(logged == Logged::Uncorrectable && hooks::seeded(SeededFault::FailedMarkKeepsPlace))
            {
                self.unplace(key);
            }
            self.finish(key, Err(StoreError::DeviceFailed), buf);
        }
        drop(data);
        self.fail_waiting(StoreError::DeviceFailed);
        self.tail_wanted = false;
        if !hooks::seeded(SeededFault::TailWaiterForgotten) {
            self.tail_written.notify_all();
        }
    }

    /// Tries whether the log can be written again, with an empty batch. It goes where the last attempt went: what may be there of that
    /// one has the same number, and was never answered as written.
    pub fn probe_log(&mut self, rt: &Rt) {
        let Some(Stopped { failures, .. }) = self.log.stopped else { return };
        if self.phase != Phase::Open {
            return;
        }
        if !self.room_for_tail(rt) {
            return self.log_stopped(rt, failures);
        }
        let batch = &mut self.log.batch;
        batch.ops.clear();
        batch.records.clear();
        batch.crcs.clear();
        batch.blocks = 0;
        batch.retried = true; // a probe that fails uses up no segment
        self.write_batch(rt, BufVec::from_iter([Buf::alloc(BLOCK_BYTES)]));
    }

    /// The log stays stopped after `failures` attempts: sets the time of the next one.
    fn log_stopped(&mut self, rt: &Rt, failures: u32) {
        let pause = PROBE_PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PROBE_PAUSE_MAX);
        let timer = (self.phase == Phase::Open).then(|| rt.timer(&self.queue, cookie::PROBE, rt.now() + pause));
        self.log.stopped = Some(Stopped { failures: failures.saturating_add(1), timer });
    }

    /// No more probes: the shard is closed.
    pub fn stop_probing(&mut self, rt: &Rt) {
        if let Some(timer) = self.log.stopped.as_mut().and_then(|stopped| stopped.timer.take()) {
            rt.cancel_timer(timer);
        }
    }

    /// Everything in line fails.
    pub fn fail_waiting(&mut self, error: StoreError) {
        while let Some((key, order)) = self.waiting.pop_front() {
            let op = &mut self.ops[key];
            let Stage::Waiting(change) = core::mem::replace(&mut op.stage, Stage::Logging(Logged::Flush)) else {
                unreachable!("only what waits is in line")
            };
            let (component, block) = (op.component, op.block);
            if cfg!(feature = "hooks") && !matches!(change, Change::Flush) {
                self.members.ended(component, block, &order, false);
            }
            let buf = match change {
                Change::Write { buf, .. } => {
                    if !hooks::seeded(SeededFault::WaitingKeepsPlaces) {
                        self.unplace(key);
                    }
                    Some(buf)
                }
                Change::Uncorrectable => {
                    self.unplace(key);
                    None
                }
                Change::Trim | Change::Zero | Change::Flush => None,
            };
            self.finish(key, Err(error), buf);
        }
    }
}
