//! One job of destaging: the live blocks of a few chunks of one piece, from wherever in the log to their places on capacity.
//!
//! Invariants: what is written was verified; a chunk is moved by one job at a time; the index is told only after the write has
//! ended, and only of blocks that are still the newest.
//! Never: has more than [`JOB_BLOCKS_MAX`] blocks; reads or writes within a borrow.

use super::Cursor;
use crate::ComponentNo;
use crate::buffer::ring::SegmentState;
use crate::capacity::Phys;
use crate::index::{Key, LogPos};
use crate::join::join_all;
use crate::pace::Plan;
use crate::shard::state::State;
use base::hooks::{self, Mark};
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS, PIECE_BLOCKS};
use base::{BlockNo, Duration, Instant, crc32c};
use core::cell::RefCell;
use rt::{Buf, BufVec, Device, DeviceError, Durability, Rt};
use std::rc::Rc;

/// Blocks of one job: a piece.
const JOB_BLOCKS_MAX: usize = PIECE_BLOCKS as usize;
/// Records looked at in one go.
const SCAN_MAX: usize = 4096;
/// Records whose index entries are fetched together.
const TOUCHED: usize = 16;
/// Records behind the first live one that may join its job.
const JOIN_MAX: usize = 64;
/// How often a block that is wrong or unreadable is read again before it is lost.
const AGAIN_MAX: u32 = 4;
/// The longest that a worker rests between two jobs.
const REST_MAX: Duration = Duration::from_millis(250);

/// A block to be moved.
#[derive(Clone, Copy, Debug)]
struct Item {
    key: Key,
    pos: LogPos,
    crc: u32,
    phys: Phys,
    /// Byte of the capacity device.
    offset: u64,
    /// What lies in the log is not what was written there: the block is lost, and reads must say so.
    lost: bool,
}

/// See the module.
pub(crate) struct Job {
    component: ComponentNo,
    chunks: Vec<(u64, Phys)>,
    /// By place on capacity.
    items: Vec<Item>,
    cache: Device,
    slice_at: u64,
    capacity: Device,
    plan: Plan,
}

/// A worker: jobs while there are any and the plan lets it.
pub(crate) async fn work(rt: Rt, state: Rc<RefCell<State>>, worker: usize) {
    let signal = state.borrow().destage.work.clone();
    loop {
        let next = state.borrow_mut().next_job(worker, rt.now());
        match next {
            Next::Job(mut job) => {
                let began = rt.now();
                let result = job.run(&rt).await;
                let duty = job.plan.duty;
                state.borrow_mut().job_ended(&rt, *job, result);
                let took = rt.now().since(began).as_secs_f64();
                if duty < 1.0 {
                    let rest = Duration::from_secs_f64((took.max(50e-6) * (1.0 - duty) / duty).min(REST_MAX.as_secs_f64()));
                    rt.sleep(rest).await;
                } else {
                    rt.yield_now().await;
                }
            }
            Next::Again => rt.yield_now().await,
            Next::Nothing => signal.notified().await,
        }
    }
}

/// What there is for a worker.
pub(crate) enum Next {
    Job(Box<Job>),
    /// The scan took long enough for one go.
    Again,
    Nothing,
}

impl State {
    fn next_job(&mut self, worker: usize, now: Instant) -> Next {
        let plan = self.plan(now);
        if worker >= plan.workers {
            return Next::Nothing;
        }
        for _ in 0..SCAN_MAX {
            if !self.cursor_on_segment() {
                let clean = self.advance_clean();
                if clean >= self.destage.cursor.seq || self.destage.jobs > 0 {
                    return Next::Nothing;
                }
                // Some were left (a failure, a chunk that was busy): another round.
                self.destage.cursor = Cursor { seq: clean, record: 0 };
                if !self.cursor_on_segment() {
                    return Next::Nothing;
                }
            }
            let Cursor { seq, record } = self.destage.cursor;
            let segment = self.ring.get(seq);
            let Some(found) = segment.records.get(record).filter(|_| segment.live > 0) else {
                let passed = u64::from(segment.used) * (segment.records.len() - record) as u64 / segment.records.len().max(1) as u64;
                self.destage.passed_blocks += passed;
                self.destage.cursor = Cursor { seq: seq + 1, record: 0 };
                continue;
            };
            if record % TOUCHED == 0 {
                let ahead = (record..record + TOUCHED).map_while(|i| segment.records.get(i));
                self.index.touch(ahead.map(|found| found.key));
            }
            self.destage.cursor.record += 1;
            self.destage.passed_blocks += u64::from(segment.used) / segment.records.len() as u64;
            let at = self.ring.first_block(seq) + u32::from(found.at);
            if !self.any_live(found.key, at, found.blocks) {
                continue;
            }
            if let Some(job) = self.job_from(found.key, found.blocks, plan) {
                return Next::Job(Box::new(job));
            }
        }
        Next::Again
    }

    /// Whether the cursor stands on a segment that can be destaged.
    fn cursor_on_segment(&self) -> bool {
        let seq = self.destage.cursor.seq;
        seq <= self.ring.head() && self.ring.get(seq).state == SegmentState::Sealed
    }

    /// Whether a record still has the newest version of any of its blocks. Forgets those of a dropped component.
    fn any_live(&mut self, key: Key, at: u32, blocks: u16) -> bool {
        let known = self.has_component(key.component());
        let mut live = false;
        for i in 0..u32::from(blocks) {
            let here = self.index.get(key.plus(i)).is_some_and(|found| found.pos.block() == at + i && !found.pos.destaged());
            if here && !known {
                self.index_remove(key.plus(i));
            }
            live |= here && known;
        }
        live
    }

    /// Gathers all live blocks of the chunks of this record, and of those that follow in the same piece.
    fn job_from(&mut self, key: Key, blocks: u16, plan: Plan) -> Option<Job> {
        let (component, piece) = (key.component(), key.block().0 / PIECE_BLOCKS);
        let mut mask = chunk_mask(key.block(), blocks);
        for _ in 0..JOIN_MAX {
            let Cursor { seq, record } = self.destage.cursor;
            let segment = self.ring.get(seq);
            let Some(next) = segment.records.get(record) else { break };
            if next.key.component() != component || next.key.block().0 / PIECE_BLOCKS != piece {
                break;
            }
            let passed = u64::from(segment.used) / segment.records.len() as u64;
            mask |= chunk_mask(next.key.block(), next.blocks);
            self.destage.cursor.record += 1;
            self.destage.passed_blocks += passed;
        }
        let mut chunks = Vec::new();
        let mut items = Vec::new();
        let mut device = 0;
        for i in (0..16u64).filter(|i| mask >> i & 1 == 1) {
            let chunk = piece * (PIECE_BLOCKS / CHUNK_BLOCKS) + i;
            if self.destage.chunks.contains(&(component.0, chunk)) {
                hooks::mark(Mark::ChunkLeftBehind);
                self.destage.left_behind = true;
                continue;
            }
            let before = items.len();
            self.gather_chunk(component, chunk, &mut items);
            if let Some(item) = items.get(before) {
                device = item.phys.device;
                self.destage.chunks.insert((component.0, chunk));
                self.busy.begin(item.phys);
                chunks.push((chunk, item.phys));
            }
        }
        if items.is_empty() {
            return None;
        }
        debug_assert!(items.len() <= JOB_BLOCKS_MAX);
        items.sort_unstable_by_key(|item| item.offset);
        for item in &items {
            self.ring.pin(item.pos.block());
        }
        self.destage.jobs += 1;
        let capacity = self.caps[usize::from(device)].clone();
        Some(Job { component, chunks, items, cache: self.cache.clone(), slice_at: self.slice_at, capacity, plan })
    }

    fn gather_chunk(&self, component: ComponentNo, chunk: u64, items: &mut Vec<Item>) {
        let Some(phys) = self.lookup(component, chunk) else { return };
        let base = self.table.borrow().offset(phys);
        for i in 0..CHUNK_BLOCKS {
            let key = Key::new(component, BlockNo(chunk * CHUNK_BLOCKS + i));
            if let Some(found) = self.index.get(key).filter(|found| !found.pos.destaged()) {
                items.push(Item { key, pos: found.pos, crc: found.crc, phys, offset: base + i * BLOCK_BYTES as u64, lost: false });
            }
        }
    }

    /// The job has ended: tells the index and the chunk table what is on capacity now.
    fn job_ended(&mut self, rt: &Rt, job: Job, result: Result<(), JobError>) {
        let now = rt.now();
        self.destage.jobs -= 1;
        let known = self.has_component(job.component);
        for item in &job.items {
            self.ring.unpin(item.pos.block());
            if result.is_err() || !known {
                continue;
            }
            if !self.index.mark_destaged(item.key, item.pos.block()) {
                hooks::mark(Mark::OverwrittenUnderDestage);
            } else {
                self.ring.live_less(item.pos.block());
                // A lost block gets the checksum of what it should be: whatever lies there, reads will find it wrong.
                let crc = (item.lost || !item.pos.unchecked()).then_some(item.crc);
                let seq = self.log.next_lsn;
                self.table.borrow_mut().set_block(item.phys, item.key.block().in_chunk(), crc, seq);
                self.counters.destaged_bytes += BLOCK_BYTES as u64;
                if item.lost {
                    hooks::mark(Mark::LostInLog);
                    self.counters.checksum_errors += 1;
                    self.note_bad(job.component, item.key.block());
                }
            }
        }
        for (chunk, phys) in job.chunks {
            self.destage.chunks.remove(&(job.component.0, chunk));
            self.end_busy(job.component, chunk, phys);
        }
        match result {
            Ok(()) => {
                self.destage.failing = 0;
                let bytes = core::mem::take(&mut self.destage.passed_blocks) * BLOCK_BYTES as u64;
                self.pacer.drained(bytes, job.plan, now);
            }
            Err(error) => {
                match error {
                    JobError::Read(_) => self.counters.read_errors += 1,
                    JobError::Write(_) => {
                        hooks::mark(Mark::DestageFailed);
                        self.counters.capacity_write_errors += 1;
                    }
                }
                tracing::warn!(shard = self.shard, ?error, "destaging failed; the data stays in the log, to be tried again");
                self.destage.failed(now);
                self.destage.left_behind = true;
            }
        }
        self.counters.capacity_failing = self.destage.failing;
        if core::mem::take(&mut self.destage.left_behind) {
            self.destage.cursor = Cursor { seq: self.advance_clean(), record: 0 };
        }
        if self.advance_clean() > self.ring.tail() || result.is_err() {
            self.destage.wake.notify_one();
        }
    }
}

/// Which chunks of its piece a record touches.
fn chunk_mask(block: BlockNo, blocks: u16) -> u16 {
    let first = block.0 % PIECE_BLOCKS / CHUNK_BLOCKS;
    let last = (block.0 % PIECE_BLOCKS + u64::from(blocks) - 1) / CHUNK_BLOCKS;
    (first..=last.min(15)).fold(0, |mask, i| mask | 1 << i)
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobError {
    Read(DeviceError),
    Write(DeviceError),
}

impl Job {
    async fn run(&mut self, rt: &Rt) -> Result<(), JobError> {
        // Runs that are contiguous at both ends: one read each, and its buffer goes straight on to capacity.
        let mut runs: Vec<core::ops::Range<usize>> = Vec::new();
        for i in 0..self.items.len() {
            match runs.last_mut() {
                Some(run) if self.follows(run.end, i) => run.end = i + 1,
                _ => runs.push(i..i + 1),
            }
        }
        let results = join_all(runs.iter().map(|run| self.read(rt, run.clone()))).await;
        let mut read = Vec::with_capacity(runs.len());
        for (run, result) in runs.into_iter().zip(results) {
            let (buf, lost) = result?;
            for i in &lost {
                self.items[*i].lost = true;
            }
            read.push((run, buf, lost));
        }
        self.write(rt, read).await
    }

    fn follows(&self, i: usize, next: usize) -> bool {
        let (a, b) = (&self.items[i - 1], &self.items[next]);
        b.offset == a.offset + BLOCK_BYTES as u64 && b.pos.block() == a.pos.block() + 1
    }

    fn log_offset(&self, i: usize) -> u64 {
        self.slice_at + u64::from(self.items[i].pos.block()) * BLOCK_BYTES as u64
    }

    /// Reads a run from the log and verifies it; what is wrong or unreadable is read again, block by block. Gives the data
    /// and the items that are lost.
    async fn read(&self, rt: &Rt, run: core::ops::Range<usize>) -> Result<(Buf, Vec<usize>), JobError> {
        let buf = Buf::alloc(run.len() * BLOCK_BYTES);
        let (result, mut buf) = rt.read_at(&self.cache, self.log_offset(run.start), buf).await;
        let mut lost = Vec::new();
        for (n, i) in run.enumerate() {
            let range = n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES;
            if result.is_ok() && self.sound(i, &buf[range.clone()]) {
                continue;
            }
            match self.read_again(rt, i).await? {
                Some(block) => buf[range].copy_from_slice(&block),
                None => lost.push(i),
            }
        }
        Ok((buf, lost))
    }

    /// One block of the log, read until it is sound; `None` when it is lost, which is for good: so it is tried more than once.
    async fn read_again(&self, rt: &Rt, i: usize) -> Result<Option<Buf>, JobError> {
        hooks::mark(Mark::DestageReadAgain);
        for _ in 0..AGAIN_MAX {
            let (result, block) = rt.read_at(&self.cache, self.log_offset(i), Buf::alloc(BLOCK_BYTES)).await;
            match result {
                Ok(()) if self.sound(i, &block) => return Ok(Some(block)),
                Ok(()) | Err(DeviceError::Media) => {}
                Err(error) => return Err(JobError::Read(error)),
            }
        }
        Ok(None)
    }

    fn sound(&self, i: usize, block: &[u8]) -> bool {
        self.items[i].pos.unchecked() || crc32c(block) == self.items[i].crc
    }

    /// Writes the runs to their places; those that follow on each other in one go.
    async fn write(&self, rt: &Rt, read: Vec<(core::ops::Range<usize>, Buf, Vec<usize>)>) -> Result<(), JobError> {
        let mut writes: Vec<(u64, u64, BufVec)> = Vec::new();
        for (run, buf, lost) in read {
            for (part, buf) in without(run, buf, &lost) {
                let (offset, len) = (self.items[part.start].offset, buf.len() as u64);
                match writes.last_mut() {
                    Some((start, bytes, bufs)) if *start + *bytes == offset => {
                        *bytes += len;
                        bufs.push(buf);
                    }
                    _ => writes.push((offset, len, BufVec::from_iter([buf]))),
                }
            }
        }
        let writes = writes.into_iter().map(|(offset, _, bufs)| rt.write_at(&self.capacity, offset, bufs, Durability::Volatile));
        for (result, _) in join_all(writes).await {
            result.map_err(JobError::Write)?;
        }
        Ok(())
    }
}

/// A run without its lost blocks: the parts between them.
fn without(run: core::ops::Range<usize>, buf: Buf, lost: &[usize]) -> Vec<(core::ops::Range<usize>, Buf)> {
    if lost.is_empty() {
        return vec![(run, buf)];
    }
    let good = run.clone().filter(|i| !lost.contains(i));
    good.map(|i| (i..i + 1, Buf::copy_of(&buf[(i - run.start) * BLOCK_BYTES..][..BLOCK_BYTES]))).collect()
}
