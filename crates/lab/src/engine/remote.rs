//! Disks on the network, through the house's own clients: no kernel driver, no rights needed.
//!
//! ```text
//!  RemoteDisk (nvme_tcp, iscsi) ── opens ─► RemoteQueue, one for each lane of each worker
//! ```
//!
//! Invariants: a queue for each worker and disk; buffers are used again, so that no operation takes memory; an operation larger than the
//! disk's limit goes out in parts and counts once; a connection that breaks or goes silent ends the run with what it has.
//! Never: writes to a disk that holds something unless that was said; reconnects; knows a protocol.

use super::load::{FILL_BYTES, FILL_DEPTH, Issue, LanePart};
use super::verify::{AfterTrim, Checking, Ledgers, Promise};
use super::workers::{Dealt, WorkerContext, Workers};
use super::{Engine, Fill, Job, Watch, guard};
use crate::error::LabError;
use crate::results::Measured;
use crate::workload::GRAIN_BYTES;
use crate::workload::Workload;
use crate::workload::data::Filler;
use crate::workload::generate::{AccessPlan, working_set_bytes};
use base::IoClass;
use initiator::Error;
use std::time::Duration;

/// A target that answers nothing for so long is taken for dead.
const SILENCE_NS: u64 = 30_000_000_000;
/// Places that are looked at to see whether a disk holds something, beside its first 128 KiB.
const SAMPLES: u64 = 128;

/// Number of a part in the tag of its command: an operation of 16 MiB goes out in parts of at least 4 KiB.
const PARTS_MASK: u64 = (1 << 14) - 1;

/// Instead of a kind in the tag of a command.
const FLUSH: u64 = 3;

/// How it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Threads that drive the disks, at most.
    pub workers: usize,
    /// Said by the user: what the disks hold may be destroyed.
    pub destroy: bool,
    /// Ask the sockets again and again instead of sleeping.
    pub spin: bool,
}

/// What a disk is, as loads need to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShape {
    /// Its size.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Most bytes of one command.
    pub transfer_bytes_max: u32,
    /// What is trimmed reads as zeroes.
    pub zeroes_after_trim: bool,
}

/// A command that has ended.
#[derive(Debug)]
pub struct RemoteDone {
    /// From its submission.
    pub tag: u64,
    /// Why it failed.
    pub result: Result<(), String>,
    /// What was read or written.
    pub data: Vec<u8>,
}

/// Commands on a disk, over a connection of their own. What is submitted goes out with the next poll.
pub trait RemoteQueue: Send + Sized {
    /// The disk.
    fn shape(&self) -> DiskShape;
    /// How many more commands may be sent.
    fn room(&self) -> usize;
    /// A read that fills `buffer`.
    fn submit_read(&mut self, tag: u64, offset: u64, buffer: Vec<u8>) -> Result<(), Error>;
    /// A write.
    fn submit_write(&mut self, tag: u64, offset: u64, data: Vec<u8>) -> Result<(), Error>;
    /// A trim.
    fn submit_trim(&mut self, tag: u64, offset: u64, len: u64) -> Result<(), Error>;
    /// A flush: all that was written before is durable.
    fn submit_flush(&mut self, tag: u64) -> Result<(), Error>;
    /// Sends and receives what can be at once.
    fn poll(&mut self) -> Result<(), Error>;
    /// The next command that has ended.
    fn pop(&mut self) -> Result<Option<RemoteDone>, Error>;
    /// Waits up to `wait` until one of several can send or receive.
    fn wait_any(queues: &[Self], wait: Duration) -> Result<(), Error>;
    /// A read, by itself.
    fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Error>;
    /// Says good-bye.
    fn leave(self) -> Result<(), Error>;
}

/// A disk on the network.
pub trait RemoteDisk: Sized {
    /// A queue of it.
    type Queue: RemoteQueue;
    /// Name of the engine, as in reports.
    const ENGINE: &'static str;
    /// As the user named it.
    fn name(&self) -> &str;
    /// What it is.
    fn shape(&self) -> DiskShape;
    /// Opens so many queues, each for so many commands at a time.
    fn open(&self, commands: &[usize]) -> Result<Vec<Self::Queue>, LabError>;
}

/// What a target refused, or that it is not there (any more).
pub(super) fn broken(engine: &'static str, name: &str, e: &Error) -> LabError {
    let problem = match e {
        Error::Connect { .. } | Error::Socket(_) | Error::Closed | Error::Queue(_) | Error::Timeout(_) | Error::ControllerFatal => {
            return LabError::Engine { engine, problem: format!("{name}: {e}") };
        }
        Error::Status { what: "Connect", status } if !status.is_success() => {
            format!("{e}: check the NQN, and that this host may use the subsystem")
        }
        e => e.to_string(),
    };
    LabError::Disk { disk: name.into(), problem }
}

/// See the module.
pub struct RemoteEngine<D> {
    options: RemoteOptions,
    disks: Vec<D>,
    /// The disks were looked at and may be written.
    may_write: bool,
    ledgers: Ledgers,
}

impl<D: RemoteDisk> RemoteEngine<D> {
    /// Of disks that are connected.
    pub fn of(disks: Vec<D>, options: RemoteOptions) -> Self {
        RemoteEngine { options, disks, may_write: false, ledgers: Ledgers::default() }
    }

    /// What the disks hold is known from, and kept in, these ledgers.
    pub fn with_ledgers(self, ledgers: Ledgers) -> Self {
        RemoteEngine { ledgers, ..self }
    }

    fn checking(&self, workload: &Workload, writes: bool) -> Result<Option<Checking>, LabError> {
        self.ledgers.checking(workload, writes, self.disks.iter().map(|d| (d.name().to_owned(), d.shape().bytes, promise(d.shape()))))
    }

    fn fits(&mut self, workload: &Workload) -> Result<(), LabError> {
        for d in &self.disks {
            let odd = workload.streams.iter().flat_map(|s| s.sizes.iter().map(|z| z.bytes).chain([s.align_bytes]));
            let block = d.shape().block_bytes;
            if let Some(bytes) = odd.into_iter().find(|b| b % block != 0) {
                let problem = format!("{bytes} bytes: this disk does I/O in multiples of {block} bytes");
                return Err(LabError::Disk { disk: d.name().into(), problem });
            }
        }
        if workload.changes_data() { self.check_writable() } else { Ok(()) }
    }

    fn check_writable(&mut self) -> Result<(), LabError> {
        if self.options.destroy || self.may_write {
            return Ok(());
        }
        for d in &self.disks {
            guard::check(d.name(), would_be_lost(d)?, false)?;
        }
        self.may_write = true;
        Ok(())
    }

    /// Opens a queue for each lane of each worker. `parts`: commands that one operation may become.
    fn queues(&self, dealt: &Dealt, depth: impl Fn(&LanePart) -> u32, largest: u32) -> Result<Vec<Vec<D::Queue>>, LabError> {
        let mut of_disks = Vec::new();
        for (n, d) in self.disks.iter().enumerate() {
            let parts = largest.div_ceil(d.shape().transfer_bytes_max).max(1);
            let commands: Vec<usize> = dealt.iter().flatten().filter(|l| l.disk == n).map(|l| (depth(l) * parts) as usize).collect();
            let queues = d.open(&commands)?;
            for (queue, commands) in queues.iter().zip(&commands) {
                if queue.room() < *commands {
                    let problem =
                        format!("a queue takes {} commands, and {commands} are needed: use less depth or more --workers", queue.room());
                    return Err(LabError::Disk { disk: d.name().into(), problem });
                }
            }
            of_disks.push(queues.into_iter());
        }
        let mut next = |lane: &LanePart| of_disks[lane.disk].next().expect("a disk opens as many queues as it was asked for");
        Ok(dealt.iter().map(|lanes| lanes.iter().map(&mut next).collect()).collect())
    }

    /// Runs the workers and, meanwhile, `collector`.
    fn work<T>(&self, contexts: Vec<WorkerContext>, queues: Vec<Vec<D::Queue>>, collector: impl FnOnce() -> T) -> T {
        let spin = self.options.spin;
        std::thread::scope(|scope| {
            for (context, queues) in contexts.into_iter().zip(queues) {
                scope.spawn(move || Worker::new(context, queues).run(spin));
            }
            collector()
        })
    }
}

fn promise(shape: DiskShape) -> Promise {
    Promise {
        whole_blocks: u64::from(shape.block_bytes) >= GRAIN_BYTES,
        after_trim: if shape.zeroes_after_trim { AfterTrim::ZeroesOrOld } else { AfterTrim::Anything },
    }
}

/// A queue of a disk, for looking at what it holds. `look`: what is done with it.
fn looked<D: RemoteDisk, T>(d: &D, look: impl FnOnce(&mut D::Queue) -> Result<T, Error>) -> Result<T, LabError> {
    let mut queue = d.open(&[2])?.pop().expect("a disk opens as many queues as it was asked for");
    let seen = look(&mut queue).and_then(|seen| queue.leave().map(|()| seen));
    seen.map_err(|e| broken(D::ENGINE, d.name(), &e))
}

/// Places of the first `bytes` that were looked at, and how many of them hold zeroes only.
fn unwritten<D: RemoteDisk>(d: &D, bytes: u64) -> Result<(u32, u32), LabError> {
    let grain = GRAIN_BYTES.max(u64::from(d.shape().block_bytes));
    looked(d, |queue| {
        let (mut seen, mut empty) = (0, 0);
        for at in guard::places(bytes).map(|at| at / grain * grain).filter(|at| at + grain <= bytes) {
            seen += 1;
            empty += u32::from(queue.read(at, grain as u32)?.iter().all(|&b| b == 0));
        }
        Ok((seen, empty))
    })
}

fn would_be_lost<D: RemoteDisk>(d: &D) -> Result<Option<String>, LabError> {
    let shape = d.shape();
    let first = (drive::SIGNATURE_PROBE_BYTES as u64).min(shape.bytes).min(shape.transfer_bytes_max.into()) as u32;
    looked(d, |queue| {
        let head = queue.read(0, first)?;
        let mut what = drive::signature(&head, shape.bytes).map(str::to_owned);
        if what.is_none() {
            let grain = 4096.max(u64::from(shape.block_bytes));
            let step = (shape.bytes / SAMPLES / grain).max(1) * grain;
            let mut held = head.iter().any(|&b| b != 0);
            let mut at = 0;
            while !held && at + grain <= shape.bytes {
                held = queue.read(at, grain as u32)?.iter().any(|&b| b != 0);
                at += step;
            }
            what = held.then(|| "data (blocks that are not zero)".to_owned());
        }
        Ok(what)
    })
}

impl<D: RemoteDisk> Engine for RemoteEngine<D> {
    fn name(&self) -> &'static str {
        D::ENGINE
    }

    fn disks(&self) -> Vec<(String, u64)> {
        self.disks.iter().map(|d| (d.name().to_owned(), d.shape().bytes)).collect()
    }

    fn admit(&mut self, workload: &Workload, prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)?;
        self.disks.iter().try_for_each(|d| AccessPlan::new(workload, d.name(), d.shape().bytes).map(drop))?;
        self.fits(workload)?;
        if prepare { self.check_writable() } else { Ok(()) }
    }

    fn unwritten(&mut self, workload: &Workload) -> Result<Option<f64>, LabError> {
        let (mut seen, mut empty) = (0, 0);
        for d in &self.disks {
            let (s, e) = unwritten(d, working_set_bytes(workload, d.shape().bytes))?;
            (seen, empty) = (seen + s, empty + e);
        }
        Ok((seen > 0).then(|| f64::from(empty) / f64::from(seen)))
    }

    fn prepare(&mut self, workload: &Workload, fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError> {
        self.check_writable()?;
        let disks = self.disks();
        let all = disks.iter().map(|d| working_set_bytes(workload, d.1)).sum();
        let check = self.checking(workload, true)?;
        let (workers, dealt) = Workers::fill(D::ENGINE, workload, 1, fill == Fill::Zero, &disks, self.options.workers, check.as_ref());
        let queues = self.queues(&dealt, |_| FILL_DEPTH, FILL_BYTES)?;
        let Workers { contexts, collector } = workers;
        self.work(contexts, queues, || collector.filled(all, watch))
    }

    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        self.fits(&job.workload)?;
        let disks = self.disks();
        let check = self.checking(&job.workload, job.workload.changes_data())?;
        let (workers, dealt) = Workers::new(D::ENGINE, job, &disks, self.options.workers, check.as_ref())?;
        let largest = job.workload.streams.iter().flat_map(|s| &s.sizes).map(|z| z.bytes).max().unwrap_or(4096);
        let queues = self.queues(&dealt, |lane| lane.count, largest)?;
        let Workers { contexts, collector } = workers;
        self.work(contexts, queues, || collector.measure(job, disks, watch))
    }
}

#[derive(Clone, Copy, Default)]
struct OperationSlot {
    parts_left: u32,
    failed: bool,
}

/// One thread: its queues, one a lane.
struct Worker<Q> {
    context: WorkerContext,
    queues: Vec<Q>,
    slots: Vec<OperationSlot>,
    filler: Filler,
    /// Buffers that are free: for reads, and for writes (filled).
    reads: Vec<Vec<u8>>,
    writes: Vec<Vec<u8>>,
}

impl<Q: RemoteQueue> Worker<Q> {
    fn new(context: WorkerContext, queues: Vec<Q>) -> Self {
        let slots = vec![OperationSlot::default(); context.slots()];
        let filler = Filler::new(context.data, context.seed, context.number as u64);
        Worker { context, queues, slots, filler, reads: Vec::new(), writes: Vec::new() }
    }

    fn run(mut self, spin: bool) {
        // Timers of an open loop are to be exact; a kernel that cannot do that only makes them coarser.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Err(e) = self.serve(spin) {
            self.context.fail(e.to_string());
        }
    }

    fn serve(&mut self, spin: bool) -> Result<(), Error> {
        let mut now = self.context.now_ns();
        let mut heard = now;
        loop {
            if self.context.tick(now) && self.context.in_flight() == 0 {
                break;
            }
            while let Some(issue) = self.context.next(now) {
                self.start(issue)?;
            }
            let mut ended = false;
            for n in 0..self.queues.len() {
                self.queues[n].poll()?;
                while let Some(done) = self.queues[n].pop()? {
                    ended = true;
                    now = self.context.now_ns();
                    self.end(n, now, done);
                }
            }
            if ended {
                heard = now;
                continue;
            }
            if spin {
                std::thread::yield_now(); // to the kernel's own threads
            } else {
                Q::wait_any(&self.queues, Duration::from_nanos(self.context.pause_ns(now)))?;
            }
            now = self.context.now_ns();
            if self.context.in_flight() == 0 {
                heard = now;
            } else if now - heard > SILENCE_NS {
                return Err(Error::Timeout("any answer of the target"));
            }
        }
        // The measurement stands, whatever the target says to a good-bye.
        self.queues.drain(..).for_each(|q| drop(q.leave()));
        Ok(())
    }

    fn start(&mut self, issue: Issue) -> Result<(), Error> {
        let (queue, op) = (&mut self.queues[issue.lane], issue.op);
        if issue.flush {
            self.slots[issue.slot] = OperationSlot { parts_left: 1, failed: false };
            return queue.submit_flush((issue.slot as u64) << 16 | FLUSH);
        }
        let limit = queue.shape().transfer_bytes_max;
        let parts = if op.kind == IoClass::Discard { 1 } else { op.bytes.div_ceil(limit) };
        self.slots[issue.slot] = OperationSlot { parts_left: parts, failed: false };
        for part in 0..parts {
            let tag = (issue.slot as u64) << 16 | u64::from(part) << 2 | op.kind as u64;
            let at = part * limit;
            let (offset, bytes) = (op.offset + u64::from(at), (op.bytes - at).min(limit) as usize);
            match op.kind {
                IoClass::Read => {
                    let mut buffer = self.reads.pop().unwrap_or_default();
                    buffer.resize(bytes, 0);
                    queue.submit_read(tag, offset, buffer)?;
                }
                IoClass::Write => {
                    let verifies = self.context.verifies();
                    let mut data = filled(self.writes.pop(), bytes, &mut self.filler, self.context.zeroes || verifies);
                    if verifies {
                        self.context.fill(issue.slot, offset, &mut data);
                    }
                    queue.submit_write(tag, offset, data)?;
                }
                IoClass::Discard => queue.submit_trim(tag, op.offset, op.bytes.into())?,
            }
        }
        Ok(())
    }

    fn end(&mut self, queue: usize, now: u64, done: RemoteDone) {
        let number = (done.tag >> 16) as usize;
        if self.context.verifies()
            && done.tag & 3 == IoClass::Read as u64
            && done.result.is_ok()
            && let Some(at) = self.context.operation(number).map(|op| op.offset)
        {
            let part = (done.tag >> 2) & PARTS_MASK;
            let limit = u64::from(self.queues[queue].shape().transfer_bytes_max);
            self.context.read(number, at + part * limit, &done.data);
        }
        match done.tag & 3 {
            k if k == IoClass::Read as u64 => self.reads.push(done.data),
            k if k == IoClass::Write as u64 => self.writes.push(done.data),
            _ => {}
        }
        let slot = &mut self.slots[number];
        slot.failed |= done.result.is_err();
        slot.parts_left -= 1;
        if slot.parts_left == 0 {
            let why = done.result.err();
            let result = if slot.failed { Err(move || why.unwrap_or_else(|| "a part of it".into())) } else { Ok(()) };
            self.context.done(number, now, result);
        }
    }
}

/// A buffer of `bytes` with what is to be written: the one that is there, when it has the length.
fn filled(have: Option<Vec<u8>>, bytes: usize, filler: &mut Filler, zeroes: bool) -> Vec<u8> {
    let mut buffer = have.unwrap_or_default();
    if buffer.len() != bytes {
        let had = buffer.len();
        buffer.resize(bytes, 0);
        if !zeroes && had < bytes {
            filler.first(&mut buffer);
        }
    }
    if !zeroes {
        filler.again(&mut buffer);
    }
    buffer
}
