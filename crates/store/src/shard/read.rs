//! Reads: find where each block lies, read it from there, verify it, and try once more before giving up.
//!
//! Invariants: a read never waits for destaging; what it reads of the log is pinned until it has come back; nothing unverified is
//! handed out (unless the volume asked for no checksums); a block counts as bad only when [`READ_TRIES`] attempts in a row failed at the same
//! place while nothing changed there: what is overwritten and destaged under a slow read is no damage.
//! Never: goes on for ever: after [`READ_MOVES_MAX`] attempts that met a change it fails, and calls no block bad.

use super::op::{Op, Place, Reading, Run, Runs, Stage, StoreError};
use super::space::LastChunk;
use super::state::State;
use crate::ComponentNo;
use crate::capacity::Phys;
use crate::index::Key;
use crate::shard::cookie;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use base::{BlockNo, crc32c};
use rt::{Buf, DeviceError, Rt};
use smallvec::SmallVec;

/// Attempts at a read, the first included.
const READ_TRIES: u8 = 2;
/// Attempts that do not count because a place had changed. Each takes a block that was overwritten *and* destaged within one device read.
const READ_MOVES_MAX: u16 = 1000;

impl State {
    /// Where the newest version of a block lies, and its checksum. `chunk` remembers the last chunk looked up.
    pub fn locate(&self, component: ComponentNo, block: BlockNo, chunk: &mut LastChunk) -> (Place, u32) {
        if let Some(at) = self.log.find(component, block) {
            return (Place::Log(at.pos), at.crc);
        }
        self.space.locate(component, block, chunk)
    }

    /// Starts the reads that were asked for since the last time. Whether there were any.
    #[inline]
    pub fn start_reads(&mut self, rt: &Rt) -> bool {
        let any = self.ops.has_reads();
        if any {
            self.start_some_reads(rt);
        }
        any
    }

    fn start_some_reads(&mut self, rt: &Rt) {
        let mut reads = self.ops.take_reads();
        if reads.len() > 1 {
            self.log.touch(reads.iter().map(|key| Key::new(self.ops[*key].component, self.ops[*key].block)));
        }
        for key in reads.drain(..) {
            self.start_read(rt, key);
        }
        self.ops.reads_begun(reads);
    }

    /// Starts (or starts again) the read `key`, whose stage is `Reading` with the caller's buffer in it.
    pub fn start_read(&mut self, rt: &Rt, key: u32) {
        let op = &mut self.ops[key];
        let (component, block, blocks) = (op.component, op.block, op.blocks);
        let mut crcs = core::mem::take(&mut op.crcs);
        crcs.clear();
        let mut runs = Runs::new();
        let mut chunk = None;
        for i in 0..blocks {
            let (place, crc) = self.locate(component, block.plus(u64::from(i)), &mut chunk);
            if place == Place::Uncorrectable {
                return self.uncorrectable(key, block.plus(u64::from(i)));
            }
            crcs.push(crc);
            match runs.last_mut() {
                Some(last) if continues(last, place) => last.blocks += 1,
                _ => runs.push(Run { first: i as u16, blocks: 1, place }),
            }
        }
        let log: u32 = runs.iter().filter(|r| matches!(r.place, Place::Log(_))).map(|r| u32::from(r.blocks)).sum();
        self.figures.read_log_blocks += u64::from(log);
        let Op { stage: Stage::Reading(reading), crcs: slot, .. } = &mut self.ops[key] else { unreachable!("a read") };
        *slot = crcs;
        reading.began = self.space.changes();
        if let Some(attempts) = &mut reading.attempts
            && !hooks::seeded(SeededFault::BadBlocksKept)
        {
            attempts.bad.clear();
        }
        reading.left = 0;
        let mut buf = reading.buf.take().expect("the buffer is here between attempts");
        if let [run] = runs[..] {
            if run.place == Place::Zeroes {
                if !hooks::seeded(SeededFault::HoleNotZeroed) {
                    buf.fill(0);
                }
                return self.finish(key, Ok(()), Some(buf));
            }
            reading.left = 1;
            reading.runs = runs;
            return self.read_run(rt, key, 0, run, buf);
        }
        // Each run is read to its place in the caller's buffer.
        let mut parts = buf.cut(runs.iter().map(|run| usize::from(run.blocks) * BLOCK_BYTES));
        reading.parts.clear();
        for (run, part) in runs.iter().zip(&mut parts) {
            if run.place == Place::Zeroes && !hooks::seeded(SeededFault::HoleNotZeroed) {
                part.fill(0);
            }
            reading.left += u32::from(run.place != Place::Zeroes);
            reading.parts.push(None);
        }
        reading.runs = runs.clone();
        for (i, (run, part)) in runs.iter().zip(parts).enumerate() {
            if run.place == Place::Zeroes {
                let Stage::Reading(reading) = &mut self.ops[key].stage else { unreachable!("a read") };
                reading.parts[i] = Some(part);
            } else {
                self.read_run(rt, key, i, *run, part);
            }
        }
    }

    /// The read meets a block that a host declared uncorrectable.
    fn uncorrectable(&mut self, key: u32, block: BlockNo) {
        let Stage::Reading(reading) = &mut self.ops[key].stage else { unreachable!("a read") };
        hooks::reached(CoverageMark::UncorrectableRead);
        let buf = reading.buf.take();
        self.finish(key, Err(StoreError::Uncorrectable { block }), buf);
    }

    fn read_run(&mut self, rt: &Rt, key: u32, index: usize, run: Run, buf: Buf) {
        let cookie = cookie::read(key, index);
        match run.place {
            Place::Log(pos) => self.log.read(rt, &self.queue, cookie, pos, buf),
            Place::Capacity { device, offset, .. } => self.space.read(rt, &self.queue, cookie, (device, offset), buf),
            Place::Zeroes | Place::Uncorrectable => unreachable!("nothing is there to be read"),
        }
    }

    /// A run has come back.
    pub fn run_ended(&mut self, rt: &Rt, key: u32, index: usize, result: Result<(), DeviceError>, buf: Buf) {
        let op = &mut self.ops[key];
        let Stage::Reading(reading) = &mut op.stage else { unreachable!("a read") };
        let run = reading.runs[index];
        let unchecked = match run.place {
            Place::Log(pos) => {
                self.log.unpin(pos);
                pos.unchecked() || hooks::seeded(SeededFault::LogReadUnverified)
            }
            Place::Capacity { unchecked, .. } => unchecked || hooks::seeded(SeededFault::CapacityReadUnverified),
            Place::Zeroes | Place::Uncorrectable => unreachable!("nothing is there to be read"),
        };
        let first = usize::from(run.first);
        match result {
            Err(_) => {
                self.figures.read_errors += 1;
                reading.attempts.get_or_insert_default().bad.extend(run.first..run.first + run.blocks);
            }
            Ok(()) if unchecked => {
                for (block, crc) in buf.chunks_exact(BLOCK_BYTES).zip(&mut op.crcs[first..]) {
                    *crc = crc32c(block);
                }
            }
            Ok(()) => {
                let wrong = |(block, crc): (&[u8], &u32)| crc32c(block) != *crc;
                let mut blocks = buf.chunks_exact(BLOCK_BYTES).zip(&op.crcs[first..]);
                if let Some(at) = blocks.position(wrong) {
                    let later = blocks.zip(run.first + at as u16 + 1..);
                    let bad = &mut reading.attempts.get_or_insert_default().bad;
                    bad.push(run.first + at as u16);
                    bad.extend(later.filter(|(block, _)| wrong(*block)).map(|(_, at)| at));
                }
            }
        }
        reading.left -= 1;
        match reading.parts.get_mut(index) {
            None => reading.buf = Some(buf),
            Some(part) => *part = Some(buf),
        }
        if reading.left == 0 {
            if !reading.parts.is_empty() {
                reading.buf = Some(Buf::join(reading.parts.drain(..).map(|part| part.expect("all are back"))));
            }
            self.read_ended(rt, key);
        }
    }

    /// Whether the newest version of block `at` of the read is elsewhere now, or its place has changed since the attempt began: the same place
    /// may have been written again meanwhile.
    fn has_moved(&self, op: &Op, reading: &Reading, at: u16, chunk: &mut LastChunk) -> bool {
        let run = reading.runs.iter().rfind(|run| run.first <= at).expect("each block is in a run");
        let block = op.block.plus(u64::from(at));
        let (place, _) = self.locate(op.component, block, chunk);
        if !run.holds(at, place) {
            return true;
        }
        let rewritten = |phys: Phys| self.space.changed_since(phys, reading.began);
        let phys = chunk.and_then(|(_, phys)| phys).filter(|_| matches!(place, Place::Capacity { .. }));
        phys.is_some_and(rewritten) && !hooks::seeded(SeededFault::SamePlaceTakenForSame)
    }

    /// What became of the attempt that has ended.
    fn verdict(&self, op: &Op, reading: &Reading) -> Verdict {
        // A read without checksums is wrong without a sign: it may be half old and half new where destaging came by.
        let mut unchecked = reading.runs.iter().filter(|run| matches!(run.place, Place::Capacity { unchecked: true, .. })).peekable();
        if reading.attempts.is_none() && unchecked.peek().is_none() {
            return Verdict::Good;
        }
        let mut chunk = None;
        let (bad, tries) = reading.attempts.as_ref().map_or((&[][..], 0), |attempts| (&attempts.bad[..], attempts.tries));
        let counts = hooks::seeded(SeededFault::MovedReadCounts);
        match bad.iter().copied().filter(|at| counts || !self.has_moved(op, reading, *at, &mut chunk)).min() {
            Some(_) if tries + 1 < READ_TRIES => Verdict::Again,
            Some(at) => Verdict::Bad { at },
            None if !bad.is_empty() => Verdict::Moved,
            None if unchecked.any(|run| (run.first..run.first + run.blocks).any(|at| self.has_moved(op, reading, at, &mut chunk))) => {
                Verdict::Moved
            }
            None => Verdict::Good,
        }
    }

    /// All runs are back: done, or once more.
    fn read_ended(&mut self, rt: &Rt, key: u32) {
        let op = &self.ops[key];
        let (component, block) = (op.component, op.block);
        let Stage::Reading(reading) = &op.stage else { unreachable!("a read") };
        let verdict = self.verdict(op, reading);
        let Stage::Reading(reading) = &mut self.ops[key].stage else { unreachable!("a read") };
        let result = match verdict {
            _ if !self.members.has(component) => Err(StoreError::NoComponent),
            Verdict::Good => Ok(()),
            Verdict::Moved => {
                hooks::reached(CoverageMark::ReadMoved);
                let attempts = reading.attempts.get_or_insert_default();
                (attempts.tries, attempts.moves) = (0, attempts.moves + 1);
                if attempts.moves < READ_MOVES_MAX {
                    return self.start_read(rt, key);
                }
                Err(StoreError::DeviceFailed)
            }
            Verdict::Again => {
                hooks::reached(CoverageMark::ReadAgain);
                reading.attempts.get_or_insert_default().tries += 1;
                return self.start_read(rt, key);
            }
            Verdict::Bad { at } => {
                hooks::reached(CoverageMark::ReadLost);
                let block = block.plus(u64::from(at));
                self.figures.checksum_errors += 1;
                self.note_bad(component, block);
                Err(StoreError::Media { block })
            }
        };
        let Stage::Reading(reading) = &mut self.ops[key].stage else { unreachable!("a read") };
        let buf = reading.buf.take();
        self.finish(key, result, buf);
    }
}

/// What became of an attempt at a read.
enum Verdict {
    Good,
    /// It met a change: what it read, right or wrong, says nothing.
    Moved,
    /// It failed at places that had not changed, and is tried once more.
    Again,
    /// It failed there for the last time.
    Bad {
        at: u16,
    },
}

/// Whether `place` lies right behind `run` on the same device, to be treated alike.
fn continues(run: &Run, place: Place) -> bool {
    let n = u32::from(run.blocks);
    match (run.place, place) {
        (Place::Zeroes, Place::Zeroes) => true,
        (Place::Log(a), Place::Log(b)) => b.block() == a.block() + n && a.unchecked() == b.unchecked(),
        (Place::Capacity { device: d, offset: o, unchecked: u }, Place::Capacity { device, offset, unchecked }) => {
            d == device && offset == o + u64::from(n) * BLOCK_BYTES as u64 && u == unchecked
        }
        _ => false,
    }
}

impl Run {
    /// Whether `place` is where the run has block `at` of the operation.
    fn holds(&self, at: u16, place: Place) -> bool {
        continues(&Run { blocks: at - self.first, ..*self }, place)
    }
}

impl Reading {
    /// A read that has not begun.
    pub fn new(buf: Buf) -> Self {
        Self { buf: Some(buf), parts: SmallVec::new(), runs: Runs::new(), left: 0, began: 0, attempts: None }
    }
}
