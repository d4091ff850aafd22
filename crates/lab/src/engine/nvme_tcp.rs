//! NVMe/TCP namespaces, through the house's own client: no kernel driver, no rights needed.
//!
//! Invariants: a queue for each worker and disk; buffers are used again, so that no operation takes memory; an operation larger than the
//! controller's limit goes out in parts and counts once; a connection that breaks or goes silent ends the run with what it has.
//! Never: writes to a namespace that holds something unless that was said; reconnects.

use super::load::{FILL_BYTES, FILL_DEPTH, Issue, LanePart};
use super::nvme_address::Address;
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
use initiator::{Controller, ControllerOptions, Error, Io, IoQueue, Namespace};
use std::time::Duration;

/// A target that answers nothing for so long is taken for dead.
const SILENCE_NS: u64 = 30_000_000_000;
/// Places that are looked at to see whether a namespace holds something, beside its first 128 KiB.
const SAMPLES: u64 = 128;

/// Number of a part in the tag of its command: an operation of 16 MiB goes out in parts of at least 4 KiB.
const PARTS_MASK: u64 = (1 << 14) - 1;

/// How it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeTcpOptions {
    /// Threads that drive the disks, at most.
    pub workers: usize,
    /// Said by the user: what the disks hold may be destroyed.
    pub destroy: bool,
    /// Ask the sockets again and again instead of sleeping.
    pub spin: bool,
}

/// A namespace on the network.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its name in results.
    pub name: String,
    /// How to connect to a controller that has it.
    pub controller: ControllerOptions,
    /// Its ID.
    pub nsid: u32,
}

/// See the module.
pub struct NvmeTcp {
    options: NvmeTcpOptions,
    disks: Vec<Disk>,
    /// The disks were looked at and may be written.
    may_write: bool,
    ledgers: Ledgers,
}

struct Disk {
    name: String,
    controller: Controller,
    namespace: Namespace,
}

/// What a controller refused, or that it is not there (any more).
fn broken(name: &str, e: &Error) -> LabError {
    let problem = match e {
        Error::Connect { .. } | Error::Socket(_) | Error::Closed | Error::Queue(_) | Error::Timeout(_) | Error::ControllerFatal => {
            return LabError::Engine { engine: "nvme-tcp", problem: format!("{name}: {e}") };
        }
        Error::Status { what: "Connect", status } if !status.is_success() => {
            format!("the target refuses to connect ({status:?}): check the NQN, and that this host may use the subsystem")
        }
        e => e.to_string(),
    };
    LabError::Disk { disk: name.into(), problem }
}

impl NvmeTcp {
    /// Connects to `nvme-tcp://HOST:PORT/NQN?nsid=N` each.
    pub fn connect(disks: &[String], options: NvmeTcpOptions) -> Result<NvmeTcp, LabError> {
        let remote = |text: &String| {
            let address = Address::parse(text)?;
            Ok(Remote { name: text.clone(), controller: address.options()?, nsid: address.nsid })
        };
        Self::connect_to(disks.iter().map(remote).collect::<Result<_, LabError>>()?, options)
    }

    /// Connects to namespaces whose controllers are described in full.
    pub fn connect_to(disks: Vec<Remote>, options: NvmeTcpOptions) -> Result<NvmeTcp, LabError> {
        let disks = disks.into_iter().map(connect).collect::<Result<_, _>>()?;
        Ok(NvmeTcp { options, disks, may_write: false, ledgers: Ledgers::default() })
    }

    /// What the disks hold is known from, and kept in, these ledgers.
    pub fn with_ledgers(self, ledgers: Ledgers) -> NvmeTcp {
        NvmeTcp { ledgers, ..self }
    }

    fn checking(&self, workload: &Workload, writes: bool) -> Result<Option<Checking>, LabError> {
        self.ledgers.checking(workload, writes, self.disks.iter().map(|d| (d.name.clone(), d.namespace.bytes(), d.promise())))
    }

    fn fits(&mut self, workload: &Workload) -> Result<(), LabError> {
        for d in &self.disks {
            let odd = workload.streams.iter().flat_map(|s| s.sizes.iter().map(|z| z.bytes).chain([s.align_bytes]));
            if let Some(bytes) = odd.into_iter().find(|b| b % d.namespace.lba_bytes != 0) {
                let problem = format!("{bytes} bytes: this namespace does I/O in multiples of {} bytes", d.namespace.lba_bytes);
                return Err(LabError::Disk { disk: d.name.clone(), problem });
            }
        }
        if workload.changes_data() { self.check_writable() } else { Ok(()) }
    }

    fn check_writable(&mut self) -> Result<(), LabError> {
        if self.options.destroy || self.may_write {
            return Ok(());
        }
        for d in &self.disks {
            guard::check(&d.name, d.would_be_lost().map_err(|e| broken(&d.name, &e))?, false)?;
        }
        self.may_write = true;
        Ok(())
    }

    /// Opens a queue for each lane of each worker. `parts`: commands that one operation may become.
    fn queues(&self, dealt: &Dealt, depth: impl Fn(&LanePart) -> u32, largest: u32) -> Result<Vec<Vec<IoQueue>>, LabError> {
        let mut next_qid = vec![1u16; self.disks.len()];
        for (n, d) in self.disks.iter().enumerate() {
            let wanted = dealt.iter().flatten().filter(|l| l.disk == n).count() as u16;
            let granted = d.controller.set_queues(wanted).map_err(|e| broken(&d.name, &e))?;
            if granted < wanted {
                let problem = format!("the controller grants {granted} queues, and {wanted} are needed: use fewer --workers");
                return Err(LabError::Disk { disk: d.name.clone(), problem });
            }
        }
        let mut open = |lane: &LanePart| {
            let d = &self.disks[lane.disk];
            let parts = largest.div_ceil(d.namespace.transfer_bytes_max).max(1);
            let commands = (depth(lane) * parts).min(u32::from(u16::MAX - 1)) as u16;
            let queue = d.controller.open_queue(next_qid[lane.disk], commands, d.namespace).map_err(|e| broken(&d.name, &e))?;
            next_qid[lane.disk] += 1;
            if queue.room() < usize::from(commands) {
                let problem =
                    format!("a queue takes {} commands, and {commands} are needed: use less depth or more --workers", queue.room());
                return Err(LabError::Disk { disk: d.name.clone(), problem });
            }
            Ok(queue)
        };
        dealt.iter().map(|lanes| lanes.iter().map(&mut open).collect()).collect()
    }

    /// Runs the workers and, meanwhile, `collector`.
    fn work<T>(&self, contexts: Vec<WorkerContext>, queues: Vec<Vec<IoQueue>>, collector: impl FnOnce() -> T) -> T {
        let spin = self.options.spin;
        std::thread::scope(|scope| {
            for (context, queues) in contexts.into_iter().zip(queues) {
                scope.spawn(move || Worker::new(context, queues).run(spin));
            }
            collector()
        })
    }
}

fn connect(remote: Remote) -> Result<Disk, LabError> {
    let Remote { name, controller, nsid } = remote;
    let controller = Controller::connect(controller).map_err(|e| broken(&name, &e))?;
    let namespace = controller.namespace(nsid).map_err(|e| broken(&name, &e))?;
    Ok(Disk { name, controller, namespace })
}

impl Disk {
    fn promise(&self) -> Promise {
        Promise {
            whole_blocks: u64::from(self.namespace.lba_bytes) >= GRAIN_BYTES,
            after_trim: if self.namespace.zeroes_after_trim { AfterTrim::ZeroesOrOld } else { AfterTrim::Anything },
        }
    }
    /// Places of the first `bytes` that were looked at, and how many of them hold zeroes only.
    fn unwritten(&self, bytes: u64) -> Result<(u32, u32), Error> {
        self.controller.set_queues(1)?;
        let mut queue = self.controller.open_queue(1, 2, self.namespace)?;
        let grain = GRAIN_BYTES.max(u64::from(self.namespace.lba_bytes));
        let (mut seen, mut empty) = (0, 0);
        for at in guard::places(bytes).map(|at| at / grain * grain).filter(|at| at + grain <= bytes) {
            seen += 1;
            empty += u32::from(queue.read(at, grain as u32)?.iter().all(|&b| b == 0));
        }
        queue.disconnect()?;
        Ok((seen, empty))
    }
    fn would_be_lost(&self) -> Result<Option<String>, Error> {
        self.controller.set_queues(1)?;
        let mut queue = self.controller.open_queue(1, 2, self.namespace)?;
        let bytes = self.namespace.bytes();
        let first = (drive::SIGNATURE_PROBE_BYTES as u64).min(bytes).min(self.namespace.transfer_bytes_max.into()) as u32;
        let head = queue.read(0, first)?;
        let mut what = drive::signature(&head, bytes).map(str::to_owned);
        if what.is_none() {
            let grain = 4096.max(u64::from(self.namespace.lba_bytes));
            let step = (bytes / SAMPLES / grain).max(1) * grain;
            let mut held = head.iter().any(|&b| b != 0);
            let mut at = 0;
            while !held && at + grain <= bytes {
                held = queue.read(at, grain as u32)?.iter().any(|&b| b != 0);
                at += step;
            }
            what = held.then(|| "data (blocks that are not zero)".to_owned());
        }
        queue.disconnect()?;
        Ok(what)
    }
}

impl Engine for NvmeTcp {
    fn name(&self) -> &'static str {
        "nvme-tcp"
    }

    fn disks(&self) -> Vec<(String, u64)> {
        self.disks.iter().map(|d| (d.name.clone(), d.namespace.bytes())).collect()
    }

    fn admit(&mut self, workload: &Workload, prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)?;
        self.disks.iter().try_for_each(|d| AccessPlan::new(workload, &d.name, d.namespace.bytes()).map(drop))?;
        self.fits(workload)?;
        if prepare { self.check_writable() } else { Ok(()) }
    }

    fn unwritten(&mut self, workload: &Workload) -> Result<Option<f64>, LabError> {
        let (mut seen, mut empty) = (0, 0);
        for d in &self.disks {
            let bytes = working_set_bytes(workload, d.namespace.bytes());
            let (s, e) = d.unwritten(bytes).map_err(|e| broken(&d.name, &e))?;
            (seen, empty) = (seen + s, empty + e);
        }
        Ok((seen > 0).then(|| f64::from(empty) / f64::from(seen)))
    }

    fn prepare(&mut self, workload: &Workload, fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError> {
        self.check_writable()?;
        let disks = self.disks();
        let all = disks.iter().map(|d| working_set_bytes(workload, d.1)).sum();
        let check = self.checking(workload, true)?;
        let (workers, dealt) = Workers::fill("nvme-tcp", workload, 1, fill == Fill::Zero, &disks, self.options.workers, check.as_ref());
        let queues = self.queues(&dealt, |_| FILL_DEPTH, FILL_BYTES)?;
        let Workers { contexts, collector } = workers;
        self.work(contexts, queues, || collector.filled(all, watch))
    }

    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        self.fits(&job.workload)?;
        let disks = self.disks();
        let check = self.checking(&job.workload, job.workload.changes_data())?;
        let (workers, dealt) = Workers::new("nvme-tcp", job, &disks, self.options.workers, check.as_ref())?;
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
struct Worker {
    context: WorkerContext,
    queues: Vec<IoQueue>,
    slots: Vec<OperationSlot>,
    filler: Filler,
    /// Buffers that are free: for reads, and for writes (filled).
    reads: Vec<Vec<u8>>,
    writes: Vec<Vec<u8>>,
}

impl Worker {
    fn new(context: WorkerContext, queues: Vec<IoQueue>) -> Worker {
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
                self.queues[n].poll(Duration::ZERO)?;
                while let Some(done) = self.queues[n].pop() {
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
                IoQueue::wait_any(&self.queues, Duration::from_nanos(self.context.pause_ns(now)))?;
            }
            now = self.context.now_ns();
            if self.context.in_flight() == 0 {
                heard = now;
            } else if now - heard > SILENCE_NS {
                return Err(Error::Timeout("any answer of the target"));
            }
        }
        // The measurement stands, whatever the target says to a good-bye.
        self.queues.drain(..).for_each(|q| drop(q.disconnect()));
        Ok(())
    }

    fn start(&mut self, issue: Issue) -> Result<(), Error> {
        let (queue, op) = (&mut self.queues[issue.lane], issue.op);
        let limit = queue.namespace().transfer_bytes_max;
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
                    queue.submit_read_into(tag, offset, buffer)?;
                }
                IoClass::Write => {
                    let verifies = self.context.verifies();
                    let mut data = filled(self.writes.pop(), bytes, &mut self.filler, self.context.zeroes || verifies);
                    if verifies {
                        self.context.fill(issue.slot, offset, &mut data);
                    }
                    queue.submit(tag, Io::Write { offset, data, fua: false })?;
                }
                IoClass::Discard => queue.submit(tag, Io::Deallocate(vec![(op.offset, u64::from(op.bytes))]))?,
            }
        }
        Ok(())
    }

    fn end(&mut self, queue: usize, now: u64, done: initiator::IoDone) {
        let number = (done.tag >> 16) as usize;
        if self.context.verifies()
            && done.tag & 3 == IoClass::Read as u64
            && done.status.is_success()
            && let Some(at) = self.context.operation(number).map(|op| op.offset)
        {
            let part = (done.tag >> 2) & PARTS_MASK;
            let limit = u64::from(self.queues[queue].namespace().transfer_bytes_max);
            self.context.read(number, at + part * limit, &done.data);
        }
        match done.tag & 3 {
            k if k == IoClass::Read as u64 => self.reads.push(done.data),
            k if k == IoClass::Write as u64 => self.writes.push(done.data),
            _ => {}
        }
        let slot = &mut self.slots[number];
        slot.failed |= !done.status.is_success();
        slot.parts_left -= 1;
        if slot.parts_left == 0 {
            let status = done.status;
            let result = if slot.failed { Err(move || format!("status {}", status.code)) } else { Ok(()) };
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

#[cfg(test)]
#[path = "nvme_tcp_tests.rs"]
mod tests;
