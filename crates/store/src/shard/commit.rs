//! Group commit: which changes enter the next batch of the log, and what follows when it is durable or has failed.
//!
//! Owns: the way of a change from the line to its answer. The batch itself is the log's.
//! Invariants: changes enter in the order in which they came; none takes effect before its batch is durable (I3).
//! Never: waits.

use super::copies::takes_space;
use super::member::Known;
use super::op::{Change, Logged, Stage, StoreError};
use super::state::{Phase, State};
use crate::buffer::BATCH_OPS_MAX;
use base::BlockRange;
use base::hooks::{self, SeededFault};
use base::unit::BLOCK_BYTES;
use format::disk::log::{Record, RecordKind};
use rt::{Buf, BufVec, DeviceError, Rt};

/// What a trim costs at admission, in bytes: its record, and its share of a header.
const TRIM_COST_BYTES: u64 = 512;

impl State {
    /// Starts the next batch, if none is in flight and something waits. Whether anything was done.
    #[inline]
    pub fn start_batch(&mut self, rt: &Rt) -> bool {
        self.log.is_batch_due() && self.start_some_batch(rt)
    }

    fn start_some_batch(&mut self, rt: &Rt) -> bool {
        let mut bufs = BufVec::with_capacity(1 + self.log.waiting().len().min(BATCH_OPS_MAX));
        bufs.push(Buf::alloc(BLOCK_BYTES)); // replaced by the header; keeps its place
        let answers_before = self.ops.answers();
        self.gather(rt, &mut bufs);
        if self.log.batch().is_empty() && !self.log.batch_ops().is_empty() {
            // Flushes only, and nothing in flight: what came before is durable.
            let mut ops = self.log.take_batch_ops();
            for key in ops.drain(..) {
                self.finish(key, Ok(()), None);
            }
            self.log.batch_ops_ended(ops);
        }
        if self.log.batch().is_empty() && !self.log.takes_tail(rt, &self.queue, &mut self.figures) {
            return self.ops.answers() > answers_before;
        }
        self.log.write_batch(rt, &self.queue, bufs);
        true
    }

    /// Moves operations from the line into the batch, as long as they may enter and fit.
    fn gather(&mut self, rt: &Rt, bufs: &mut BufVec) {
        let now = rt.now();
        self.log.begin_batch(false);
        let fill = self.fill();
        while let Some(key) = self.log.first_waiting() {
            let op = &self.ops[key];
            let Stage::Waiting(change) = &op.stage else { unreachable!("only what waits is in line") };
            let (kind, blocks) = match change {
                Change::Write { .. } => (RecordKind::Write, op.blocks),
                Change::Trim => (RecordKind::Trim, 0),
                Change::Zero => (RecordKind::Zero, 0),
                Change::Uncorrectable => (RecordKind::Uncorrectable, 0),
                Change::Flush | Change::Accept(_) | Change::Range(_) | Change::Notes => {
                    if self.gather_rare(rt, bufs, key, fill, now) {
                        continue;
                    }
                    break;
                }
            };
            if !self.log.make_room(rt, &self.queue, blocks, &mut self.figures) {
                break;
            }
            let cost = if kind == RecordKind::Write { u64::from(blocks) * BLOCK_BYTES as u64 } else { TRIM_COST_BYTES };
            if let Err(at) = self.pacer.admit(cost, fill, now) {
                self.ops.wait_for_admission(rt, &self.queue, at, &mut self.figures);
                break;
            }
            self.enter(kind, bufs, now);
        }
    }

    /// Moves a flush, or what only copies have, from the line into the batch. Whether more may follow.
    #[cold]
    #[inline(never)]
    fn gather_rare(&mut self, rt: &Rt, bufs: &mut BufVec, key: u32, fill: f64, now: base::Instant) -> bool {
        let op = &self.ops[key];
        let blocks = match &op.stage {
            Stage::Waiting(Change::Range(range)) if range.kind() == RecordKind::Write => op.blocks,
            Stage::Waiting(Change::Flush) => {
                self.log.pop_waiting();
                self.ops[key].stage = Stage::Logging(Logged::Flush);
                self.log.add_flush(key);
                return true;
            }
            Stage::Waiting(Change::Notes) => {
                if !self.log.batch_ops().is_empty() {
                    return false;
                }
                self.enter_notes(rt);
                return self.log.batch().is_empty();
            }
            _ => 0,
        };
        if !self.log.make_room(rt, &self.queue, blocks, &mut self.figures) {
            return false;
        }
        let cost = if blocks > 0 { u64::from(blocks) * BLOCK_BYTES as u64 } else { TRIM_COST_BYTES };
        if let Err(at) = self.pacer.admit(cost, fill, now) {
            self.ops.wait_for_admission(rt, &self.queue, at, &mut self.figures);
            return false;
        }
        self.enter_of_copy(bufs);
        true
    }

    /// Puts the first operation in line into the batch.
    fn enter(&mut self, kind: RecordKind, bufs: &mut BufVec, now: base::Instant) {
        let (key, order) = self.log.pop_waiting().expect("looked at before");
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
        let (component, block, blocks, lsn) = (op.component.0, op.block, op.blocks, self.log.next_lsn());
        let mut record = Record { kind, unchecked: false, component, block, blocks, lsn, order, data_at: 0 };
        match change {
            Change::Write { buf, unchecked } => {
                bufs.push(buf);
                record.unchecked = unchecked;
            }
            Change::Trim | Change::Zero | Change::Uncorrectable => {}
            Change::Flush | Change::Accept(_) | Change::Range(_) | Change::Notes => unreachable!("it enters otherwise"),
        }
        self.log.add_to_batch(key, record, &op.crcs);
    }

    /// The batch in flight has ended.
    pub fn batch_ended(&mut self, rt: &Rt, result: Result<(), DeviceError>, mut bufs: BufVec) {
        if let Err(error) = result {
            if let Err(bufs) = self.log.write_elsewhere(rt, &self.queue, error, bufs, &mut self.figures) {
                self.batch_failed(rt, bufs);
            }
            return;
        }
        self.log.commit(&mut self.figures);
        if !self.log.batch().is_empty() {
            self.destage.log_grows();
        }
        self.records_ended(true);
        // The buffers of the writes follow the header, in the order of the operations.
        let mut ops = self.log.take_batch_ops();
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
                Logged::Accept => {
                    self.apply_accept(op.component, record);
                    None
                }
                Logged::Range(kind) => {
                    record += 1; // the first of the two says what it is
                    self.apply_range(key, record);
                    if kind == RecordKind::Write { data.next() } else { None }
                }
            };
            record += usize::from(logged != Logged::Flush);
            self.finish(key, Ok(()), buf);
        }
        drop(data);
        self.log.batch_ops_ended(ops);
        self.log.notify_tail();
    }

    /// The changes of the batch have ended: for what must hold, and for copies.
    fn records_ended(&mut self, logged: bool) {
        if cfg!(feature = "hooks") || self.members.has_open() {
            self.each_record_ended(logged);
        }
    }

    /// The log cannot be written: this batch and all that waits fail, and so does every change until a probe succeeds. Reads go on.
    fn batch_failed(&mut self, rt: &Rt, mut bufs: BufVec) {
        self.log.stop(rt, &self.queue, self.phase == Phase::Open);
        self.records_ended(false);
        let mut ops = self.log.take_batch_ops();
        let mut data = bufs.drain(1..);
        for key in ops.drain(..) {
            let Stage::Logging(logged) = self.ops[key].stage else { unreachable!("it was in the batch") };
            let buf = if matches!(logged, Logged::Write { .. } | Logged::Range(RecordKind::Write)) { data.next() } else { None };
            let range = matches!(logged, Logged::Range(kind) if takes_space(kind));
            if (matches!(logged, Logged::Write { .. } | Logged::Uncorrectable) || range)
                && !(logged == Logged::Uncorrectable && hooks::seeded(SeededFault::FailedMarkKeepsPlace))
            {
                self.unplace(key);
            }
            self.finish(key, Err(StoreError::DeviceFailed), buf);
        }
        drop(data);
        self.log.batch_ops_ended(ops);
        self.fail_waiting(StoreError::DeviceFailed);
        self.log.give_up_tail();
    }

    /// It is time to try whether the log can be written again.
    pub fn probe_log(&mut self, rt: &Rt) {
        if self.phase == Phase::Open {
            self.log.probe(rt, &self.queue, &mut self.figures);
        }
    }

    /// Everything in line fails.
    pub fn fail_waiting(&mut self, error: StoreError) {
        while let Some((key, order)) = self.log.pop_waiting() {
            let op = &mut self.ops[key];
            let Stage::Waiting(change) = core::mem::replace(&mut op.stage, Stage::Logging(Logged::Flush)) else {
                unreachable!("only what waits is in line")
            };
            let (component, block) = (op.component, op.block);
            let changes = !matches!(change, Change::Flush | Change::Accept(_) | Change::Notes);
            if changes && (cfg!(feature = "hooks") || self.members.has_open()) {
                self.members.ended(component, block, &order, false);
                self.members.of_copy_ended(component, &order, BlockRange { first: block, blocks: op.blocks }, None);
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
                Change::Range(range) => {
                    if takes_space(range.kind()) {
                        self.unplace(key);
                    }
                    None
                }
                Change::Notes => {
                    self.ops.forget(key);
                    self.notes_ended(None);
                    continue;
                }
                Change::Trim | Change::Zero | Change::Flush | Change::Accept(_) => None,
            };
            self.finish(key, Err(error), buf);
        }
    }
}
