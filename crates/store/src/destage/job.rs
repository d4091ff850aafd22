//! One job of destaging: live blocks of the log, from the oldest segment on, to their places on capacity.
//!
//! A job takes the blocks of the records that the cursor comes to. Where such a block is one of [`RUN_MIN`] neighbours that are all in the log,
//! in whatever segments, the whole run goes with it, as one write. Otherwise its neighbours wait for their own turn: until then
//! they may be overwritten, and need not be moved at all.
//! Invariants: what is written was verified; a block is moved by one job at a time; the index is updated only after the write has
//! ended, and only of blocks that are still the newest.
//! Never: reads or writes within a borrow.

use crate::ComponentNo;
use crate::buffer::log::{Cursor, Slice};
use crate::buffer::ring::Record;
use crate::capacity::Phys;
use crate::index::{Key, Located, LogPos};
use crate::join::join_all;
use crate::pace::{DESTAGE_WORKERS, Plan};
use crate::shard::chunk_part::chunk_parts;
use crate::shard::member::Known;
use crate::shard::state::State;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS};
use base::{BlockNo, Duration, Instant, crc32c};
use core::cell::RefCell;
use core::ops::Range;
use rt::{BUF_BYTES_MAX, Buf, BufVec, Device, DeviceError, Durability, Rt};
use smallvec::SmallVec;
use std::rc::Rc;

/// A job takes no record that could make it larger than this, in blocks, unless it is the first.
const JOB_BLOCKS_MAX: usize = BUF_BYTES_MAX / BLOCK_BYTES;
/// Blocks that all jobs in flight move.
const MOVING_MAX: usize = DESTAGE_WORKERS * JOB_BLOCKS_MAX;
/// A job ends with the record that gives it so many places on capacity: each is a write.
const JOB_PLACES: usize = 8;
/// Or so many blocks, unless what follows lies right behind them on capacity. Larger jobs are bursts that the log's writes wait behind.
const JOB_BLOCKS: usize = CHUNK_BLOCKS as usize;
/// Neighbours in the log, in blocks, that are worth a write before their turn: 32 KiB.
const RUN_MIN: u64 = 8;
/// Blocks between two of a job that are read with them: cheaper than another read.
const GAP_MAX: u32 = 4;
/// Bytes of one read or write where limits are small.
const SMALL_BYTES: usize = 4 * BLOCK_BYTES;
/// Records looked at in one go.
const SCAN_MAX: usize = 4096;
/// Records whose index entries are fetched together.
const TOUCHED: usize = 16;
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
    /// It has arrived, or is lost: the log need not keep it.
    settled: bool,
}

/// See the module.
pub(crate) struct Job {
    /// The chunks it changes; one may be there twice.
    chunks: Vec<(ComponentNo, u64, Phys)>,
    /// By place in the log, once it runs.
    items: Vec<Item>,
    /// Runs of blocks that are neighbours on capacity, in the order in which they were found.
    places: usize,
    log: Slice,
    capacity: Rc<[Device]>,
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
        let mut job: Option<Box<Job>> = None;
        let mut known = Known::default();
        for _ in 0..hooks::tiny(SCAN_MAX, 8) {
            let Some(segment) = self.log.sealed(self.destage.cursor.seq) else {
                let clean = self.advance_clean();
                if job.is_some() {
                    break;
                }
                if clean >= self.destage.cursor.seq || self.destage.jobs > 0 {
                    return Next::Nothing;
                }
                // Some were left (a failure, a block that was on its way already): another round.
                self.destage.cursor = Cursor { seq: clean, record: 0 };
                if self.log.sealed(clean).is_none() {
                    return Next::Nothing;
                }
                continue;
            };
            let Cursor { seq, record } = self.destage.cursor;
            let Some(found) = segment.records.get(record).filter(|_| segment.live > u32::from(hooks::seeded(SeededFault::LastLiveSkipped)))
            else {
                let passed = u64::from(segment.used) * (segment.records.len() - record) as u64 / segment.records.len().max(1) as u64;
                self.destage.passed_blocks += passed;
                self.destage.cursor = Cursor { seq: seq + 1, record: 0 };
                continue;
            };
            // What a record can bring: its blocks, and the rest of its first and last chunk.
            let most = usize::from(found.blocks) + 2 * (CHUNK_BLOCKS as usize - 1);
            let enough = |job: &Job| {
                let follows = job.items.last().is_some_and(|last| last.key.plus(1) == found.key);
                job.places >= hooks::tiny(JOB_PLACES, 2)
                    || job.items.len() >= JOB_BLOCKS && !follows
                    || job.items.len() + most > hooks::tiny(JOB_BLOCKS_MAX, 48)
            };
            if job.as_deref().is_some_and(enough) {
                break;
            }
            if record % TOUCHED == 0 {
                let ahead = (record..record + TOUCHED).map_while(|i| segment.records.get(i));
                self.log.touch(ahead.map(|found| found.key));
            }
            self.destage.passed_blocks += u64::from(segment.used) / segment.records.len() as u64;
            self.destage.cursor.record += 1;
            let at = self.log.ring().first_block(seq) + u32::from(found.at);
            let known = known.has(found.key.component(), || self.members.has(found.key.component()));
            self.take_record(found, at, known, plan, &mut job);
        }
        match job {
            Some(job) => {
                self.destage.jobs += 1;
                Next::Job(job)
            }
            None => Next::Again,
        }
    }

    /// Puts what is to be moved of a record at block `at` of the slice into the job. Forgets what is of a dropped component (not `known`).
    fn take_record(&mut self, record: Record, at: u32, known: bool, plan: Plan, job: &mut Option<Box<Job>>) {
        let component = record.key.component();
        for part in chunk_parts(record.key.block(), u32::from(record.blocks)) {
            let first = part.chunk * CHUNK_BLOCKS;
            let own = u64::from(part.first)..u64::from(part.first + part.blocks);
            let here = |state: &Self, i: u64| {
                let block = first + i;
                let n = (block - record.key.block().0) as u32;
                state.log.find_live(component, BlockNo(block)).filter(|found| found.pos.block() == at + n)
            };
            if !known {
                for i in own {
                    if here(self, i).is_some() {
                        self.log.remove(Key::new(component, BlockNo(first + i)));
                    }
                }
                continue;
            }
            let mut place = None;
            let mut done = 0;
            for i in own {
                if i < done {
                    continue;
                }
                let Some(found) = here(self, i) else { continue };
                let Some(phys) = place.or_else(|| self.space.lookup(component, part.chunk)) else { return };
                place = Some(phys);
                let run = self.run_around(component, first, i).unwrap_or(i..i + 1);
                done = run.end;
                for block in run {
                    let found = if block == i { Some(found) } else { self.log.find_live(component, BlockNo(first + block)) };
                    if let Some(found) = found {
                        self.take_block(Key::new(component, BlockNo(first + block)), found, phys, plan, job);
                    }
                }
            }
        }
    }

    /// Block `i` of the chunk that begins at `first`, with its neighbours on both sides that have to be moved as well, if they are
    /// [`RUN_MIN`] together.
    fn run_around(&self, component: ComponentNo, first: u64, i: u64) -> Option<Range<u64>> {
        let moves = |i: &u64| self.log.find_live(component, BlockNo(first + i)).is_some();
        let below = || (0..i).rev().take_while(moves).count() as u64;
        let above = || (i + 1..CHUNK_BLOCKS).take_while(moves).count() as u64;
        // The longer side first: most often its first block settles it, as the other one alone is too short.
        let (below, above) = if i >= CHUNK_BLOCKS / 2 {
            let below = below();
            (below, if below + CHUNK_BLOCKS - i < RUN_MIN { return None } else { above() })
        } else {
            let above = above();
            (if above + 1 + i < RUN_MIN { return None } else { below() }, above)
        };
        (below + 1 + above >= RUN_MIN).then(|| i - below..i + 1 + above)
    }

    fn take_block(&mut self, key: Key, found: Located, phys: Phys, plan: Plan, job: &mut Option<Box<Job>>) {
        match self.destage.moving.get(&key) {
            Some(&block) if block == found.pos.block() => return, // by this job or another; should that fail, the cursor comes again
            Some(_) if !hooks::seeded(SeededFault::OlderBlockOvertaken) => {
                hooks::reached(CoverageMark::BlockLeftBehind);
                self.destage.left_behind = true;
                return;
            }
            _ => {}
        }
        let job = job.get_or_insert_with(|| {
            Box::new(Job {
                chunks: Vec::with_capacity(JOB_PLACES),
                items: Vec::with_capacity(JOB_PLACES),
                places: 0,
                log: self.log.slice().clone(),
                capacity: self.space.devices(),
                plan,
            })
        });
        let offset = self.space.offset(phys, key.block());
        let item = Item { key, pos: found.pos, crc: found.crc, phys, offset, lost: false, settled: false };
        if job.items.last().is_none_or(|before| !before.neighbour(&item)) {
            job.places += 1;
        }
        job.items.push(item);
        self.destage.moving.insert(key, found.pos.block());
        debug_assert!(self.destage.moving.len() <= MOVING_MAX);
        self.log.pin(found.pos);
        let chunk = (key.component(), key.block().chunk(), phys);
        if job.chunks.last() != Some(&chunk) {
            self.space.change_begins(phys);
            job.chunks.push(chunk);
        }
    }

    /// The job has ended: tells the index and the chunk table what is on capacity now.
    fn job_ended(&mut self, rt: &Rt, job: Job, result: Result<(), JobError>) {
        let now = rt.now();
        if result.is_ok() || !hooks::seeded(SeededFault::FailedJobCounts) {
            self.destage.jobs -= 1;
        }
        let mut known = Known::default();
        for item in &job.items {
            let component = item.key.component();
            self.log.unpin(item.pos);
            if item.settled || !hooks::seeded(SeededFault::FailedBlockStaysMoving) {
                self.destage.moving.remove(&item.key);
            }
            if !known.has(component, || self.members.has(component)) {
                // Dropped meanwhile. The cursor has passed it, and may not come again while nothing is written.
                if self.log.find(component, item.key.block()).is_some_and(|found| found.pos.block() == item.pos.block()) {
                    self.log.remove(item.key);
                }
                continue;
            }
            if !item.settled {
                continue;
            }
            if !self.log.mark_destaged(item.key, item.pos) {
                hooks::reached(CoverageMark::OverwrittenUnderDestage);
            } else {
                // A lost block gets the checksum of what it should be: whatever lies there, reads will find it wrong.
                let crc = (item.lost || !item.pos.unchecked()).then_some(item.crc);
                let lsn = self.log.next_lsn();
                self.space.set_block(item.phys, item.key.block(), crc, lsn);
                self.figures.destaged_bytes += BLOCK_BYTES as u64;
                if item.lost {
                    hooks::reached(CoverageMark::LostInLog);
                    self.figures.checksum_errors += 1;
                    self.found_bad(rt, component, item.key.block());
                }
            }
        }
        for (component, chunk, phys) in job.chunks {
            self.end_busy(component, chunk, phys);
        }
        match result {
            Ok(()) => {
                self.destage.works();
                let bytes = core::mem::take(&mut self.destage.passed_blocks) * BLOCK_BYTES as u64;
                self.pacer.drained(bytes, job.plan, now);
            }
            Err(error) => {
                let cause = match error {
                    JobError::Read(cause) => {
                        self.figures.read_errors += 1;
                        cause
                    }
                    JobError::Write(cause) => {
                        hooks::reached(CoverageMark::DestageFailed);
                        self.figures.capacity_write_errors += 1;
                        cause
                    }
                };
                self.destage.failed(cause, now);
                self.destage.left_behind = true;
            }
        }
        if core::mem::take(&mut self.destage.left_behind) {
            self.destage.cursor = Cursor { seq: self.advance_clean(), record: 0 };
        }
        if self.advance_clean() > self.log.ring().tail() || result.is_err() {
            self.destage.wake.notify_one();
        }
    }
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobError {
    Read(DeviceError),
    Write(DeviceError),
}

impl Item {
    /// Whether `next` lies right behind it on capacity.
    fn neighbour(&self, next: &Item) -> bool {
        next.phys.device == self.phys.device && next.offset == self.offset + BLOCK_BYTES as u64
    }
}

/// Items that follow each other in the log and on capacity, and their data.
struct Run {
    items: Range<usize>,
    buf: Buf,
}

/// Runs that follow each other on capacity: one write.
struct Write {
    runs: SmallVec<[Range<usize>; 1]>,
    bytes: u64,
    bufs: BufVec,
}

impl Job {
    async fn run(&mut self, rt: &Rt) -> Result<(), JobError> {
        self.items.sort_unstable_by_key(|item| item.pos.block());
        let reads = self.reads();
        let results = join_all(reads.iter().map(|read| {
            let buf = Buf::alloc(self.in_read(read, read.end - 1) + BLOCK_BYTES);
            self.log.read(rt, self.items[read.start].pos.block(), buf)
        }))
        .await;
        let mut runs = Vec::with_capacity(self.places);
        for (read, (result, mut buf)) in reads.into_iter().zip(results) {
            self.verify(rt, &read, result, &mut buf).await?;
            self.cut(read, buf, &mut runs);
        }
        self.write(rt, runs).await
    }

    /// Which items one read of the log brings: those that lie close to each other.
    fn reads(&self) -> SmallVec<[Range<usize>; 4]> {
        let mut reads: SmallVec<[Range<usize>; 4]> = SmallVec::new();
        for i in 0..self.items.len() {
            match reads.last_mut() {
                Some(read)
                    if self.items[i].pos.block() - self.items[i - 1].pos.block() <= 1 + GAP_MAX
                        && self.in_read(read, i) < hooks::tiny(BUF_BYTES_MAX, SMALL_BYTES) =>
                {
                    read.end = i + 1;
                }
                _ => reads.push(i..i + 1),
            }
        }
        reads
    }

    /// Where item `i` lies in the buffer of its read.
    fn in_read(&self, read: &Range<usize>, i: usize) -> usize {
        (self.items[i].pos.block() - self.items[read.start].pos.block()) as usize * BLOCK_BYTES
    }

    /// Verifies what a read has brought; what is wrong or unreadable is read again, block by block. Says which items are lost.
    async fn verify(&mut self, rt: &Rt, read: &Range<usize>, result: Result<(), DeviceError>, buf: &mut Buf) -> Result<(), JobError> {
        for i in read.clone() {
            let at = self.in_read(read, i);
            let block = &mut buf[at..at + BLOCK_BYTES];
            if result.is_ok() && self.sound(i, block) {
                continue;
            }
            match self.read_again(rt, i).await? {
                Some(again) => block.copy_from_slice(&again),
                None => (self.items[i].lost, self.items[i].settled) = (true, true),
            }
        }
        Ok(())
    }

    /// One block of the log, read until it is sound; `None` when it is lost, which is for good: so it is tried more than once.
    async fn read_again(&self, rt: &Rt, i: usize) -> Result<Option<Buf>, JobError> {
        hooks::reached(CoverageMark::DestageReadAgain);
        for _ in 0..AGAIN_MAX {
            let (result, block) = self.log.read(rt, self.items[i].pos.block(), Buf::alloc(BLOCK_BYTES)).await;
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

    /// Cuts the buffer of a read into runs, without what is lost and what lies between.
    fn cut(&self, read: Range<usize>, buf: Buf, runs: &mut Vec<Run>) {
        let mut lens: SmallVec<[usize; 32]> = SmallVec::new();
        let mut of: SmallVec<[Option<Range<usize>>; 32]> = SmallVec::new();
        let mut end = 0;
        for i in read.clone().filter(|&i| !self.items[i].lost) {
            let at = self.in_read(&read, i);
            match of.last_mut() {
                Some(Some(run))
                    if (at == end || hooks::seeded(SeededFault::GapForgotten))
                        && run.end == i
                        && self.items[i - 1].neighbour(&self.items[i]) =>
                {
                    run.end = i + 1;
                    *lens.last_mut().expect("as long as the other list") += BLOCK_BYTES;
                }
                _ => {
                    if at > end {
                        lens.push(at - end);
                        of.push(None);
                    }
                    lens.push(BLOCK_BYTES);
                    of.push(Some(i..i + 1));
                }
            }
            end = at + BLOCK_BYTES;
        }
        if end < buf.len() {
            lens.push(buf.len() - end);
            of.push(None);
        }
        if let [Some(items)] = &of[..] {
            return runs.push(Run { items: items.clone(), buf });
        }
        let parts = buf.cut(lens).into_iter().zip(of);
        runs.extend(parts.filter_map(|(buf, items)| Some(Run { items: items?, buf })));
    }

    /// Writes the runs to their places; those that follow on each other in one go.
    async fn write(&mut self, rt: &Rt, mut runs: Vec<Run>) -> Result<(), JobError> {
        let place = |run: &Run| (self.items[run.items.start].phys.device, self.items[run.items.start].offset);
        runs.sort_unstable_by_key(place);
        let mut writes: SmallVec<[Write; JOB_PLACES]> = SmallVec::new();
        for Run { items, buf } in runs {
            let first = &self.items[items.start];
            let bytes = buf.len() as u64;
            if let Some(write) = writes.last_mut()
                && let start = &self.items[write.runs[0].start]
                && (start.phys.device == first.phys.device || hooks::seeded(SeededFault::RunsOverDevices))
                && start.offset + write.bytes == first.offset
                && write.bytes + bytes <= hooks::tiny(BUF_BYTES_MAX, SMALL_BYTES) as u64
            {
                write.bytes += bytes;
                write.runs.push(items);
                write.bufs.push(buf);
            } else {
                writes.push(Write { runs: SmallVec::from_iter([items]), bytes, bufs: BufVec::from_iter([buf]) });
            }
        }
        let results = join_all(writes.iter_mut().map(|write| {
            let first = &self.items[write.runs[0].start];
            let device = &self.capacity[usize::from(first.phys.device)];
            rt.write_at(device, first.offset, core::mem::take(&mut write.bufs), Durability::Volatile)
        }))
        .await;
        // One device that takes nothing does not keep the others from what is theirs.
        let mut failed = None;
        for (write, (result, _)) in writes.drain(..).zip(results) {
            match result {
                Ok(()) => write.runs.into_iter().flatten().for_each(|i| self.items[i].settled = true),
                Err(_) if hooks::seeded(SeededFault::FailedDestageCounts) => {
                    write.runs.into_iter().flatten().for_each(|i| self.items[i].settled = true)
                }
                Err(error) => failed = Some(JobError::Write(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
