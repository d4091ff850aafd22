//! Block devices and files on this machine, through the house's own io_uring.
//!
//! Invariants: buffers are made once and used again; a disk is locked against others while the engine lives; large operations go out in parts of
//! at most 1 MiB and count once.
//! Never: writes to a disk that holds something unless that was said.

use super::load::Issue;
use super::verify::{AfterTrim, Checking, Ledgers, Promise};
use super::workers::{WorkerContext, Workers};
use super::{Engine, Fill, Job, Watch, guard};
use crate::error::LabError;
use crate::results::Measured;
use crate::workload::GRAIN_BYTES;
use crate::workload::data::Filler;
use crate::workload::generate::{AccessPlan, working_set_bytes};
use crate::workload::{TRANSFER_BYTES_MAX, Workload};
use base::{ByteSize, Duration, IoClass};
use rt::{
    App, BUF_BYTES_MAX, Buf, BufVec, Device, DeviceError, Durability, Event, OpenOptions, Progress, Queue, Rt, TimerId, UringOptions,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory for buffers, in bytes: beyond that nobody measures.
pub const BUFFERS_BYTES_MAX: u64 = 8 << 30;
/// Operations handed to the kernel with one call unless something else was asked for. One at a time, the device works on the first while the next
/// is made; many at once save calls, and a device that reports a batch at its end (virtual ones do) idles in between.
pub const BATCH: u32 = 1;
/// What spinning without end is.
const SPIN: std::time::Duration = std::time::Duration::from_secs(10);
/// Completions of timers have this instead of a slot.
const TIMER: u64 = u64::MAX;

/// How it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeOptions {
    /// Threads that drive the disks, at most.
    pub workers: usize,
    /// Said by the user: what the disks hold may be destroyed.
    pub destroy: bool,
    /// Look for completions again and again instead of sleeping.
    pub spin: bool,
    /// Operations handed to the kernel with one call, at most.
    pub batch: u32,
}

impl Default for NativeOptions {
    fn default() -> Self {
        NativeOptions { workers: 1, destroy: false, spin: false, batch: BATCH }
    }
}

/// See the module.
pub struct Native {
    options: NativeOptions,
    claim: guard::Claim,
    disks: Vec<Disk>,
    ledgers: Ledgers,
}

struct Disk {
    name: String,
    path: PathBuf,
    device: Device,
}

impl Native {
    /// Opens disks: block devices, files, or `PATH:SIZE` for a new file, with its size.
    pub fn open(disks: &[(PathBuf, Option<u64>)], options: NativeOptions) -> Result<Native, LabError> {
        check_room(disks)?;
        let disks = disks.iter().map(|(path, create)| open(path, *create)).collect::<Result<_, _>>()?;
        Ok(Native { claim: guard::Claim::new(options.destroy), options, disks, ledgers: Ledgers::default() })
    }

    /// What the disks hold is known from, and kept in, these ledgers.
    pub fn with_ledgers(self, ledgers: Ledgers) -> Native {
        Native { ledgers, ..self }
    }

    fn checking(&self, workload: &Workload, writes: bool) -> Result<Option<Checking>, LabError> {
        self.ledgers.checking(workload, writes, self.disks.iter().map(|d| (d.name.clone(), d.device.bytes(), d.promise())))
    }

    /// Whether everything the workload asks for can be done here, and may be.
    fn fits(&self, workload: &Workload) -> Result<(), LabError> {
        let grain = GRAIN_BYTES as u32;
        for (i, s) in workload.streams.iter().enumerate() {
            let odd = s.sizes.iter().map(|z| z.bytes).chain([s.align_bytes]).find(|b| b % grain != 0);
            if let Some(bytes) = odd {
                let place = format!("{}: streams[{i}]", workload.name);
                let problem = format!("{bytes} bytes: the native engine does I/O in multiples of 4096 bytes");
                return Err(LabError::Workload { place, problem });
            }
        }
        let largest = workload.streams.iter().flat_map(|s| &s.sizes).map(|z| z.bytes).max().unwrap_or(TRANSFER_BYTES_MAX);
        let bytes = 2 * u64::from(largest.next_power_of_two()) * u64::from(workload.depth) * self.disks.len() as u64;
        if bytes > BUFFERS_BYTES_MAX {
            let problem = format!("{bytes} bytes of buffers are needed, more than {BUFFERS_BYTES_MAX}: use less depth, disks or bytes");
            return Err(LabError::Workload { place: format!("{}: depth", workload.name), problem });
        }
        if workload.changes_data() { self.may_write() } else { Ok(()) }
    }

    fn may_write(&self) -> Result<(), LabError> {
        // Devices in use could not be opened in the first place.
        self.claim.take(self.disks.iter().map(|d| d.path.as_path()))
    }

    fn launch(&self, contexts: Vec<WorkerContext>) -> Result<rt::Cores, LabError> {
        let failed = |e: rt::LaunchError| LabError::Engine { engine: "native", problem: e.to_string() };
        let deepest = contexts.iter().map(WorkerContext::slots).max().unwrap_or(1) as u32;
        let spin = if self.options.spin { SPIN } else { std::time::Duration::ZERO };
        let options = UringOptions {
            cores: contexts.len(),
            ring_entries: (deepest + 2).next_power_of_two().clamp(8, 4096),
            submit_ops: self.options.batch,
            spin_devices: spin,
            spin,
            thread_name: "lab".into(),
            ..UringOptions::default()
        };
        let devices: Vec<Device> = self.disks.iter().map(|d| d.device.clone()).collect();
        let batch = self.options.batch.max(1);
        let contexts: Arc<Mutex<Vec<Option<WorkerContext>>>> = Arc::new(Mutex::new(contexts.into_iter().map(Some).collect()));
        rt::launch(options, move |rt| {
            let context = contexts.lock().unwrap_or_else(PoisonError::into_inner)[rt.core()].take().expect("each core starts once");
            // Timers of an open loop are to be exact; a kernel that cannot do that only makes them coarser.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            Box::new(Worker::new(context, devices.clone(), batch, &rt))
        })
        .map_err(failed)
    }
}

impl Disk {
    fn promise(&self) -> Promise {
        let file = std::fs::metadata(&self.path).is_ok_and(|m| m.is_file());
        Promise {
            whole_blocks: !file && u64::from(self.device.info().block_bytes) >= GRAIN_BYTES,
            after_trim: if file { AfterTrim::ZeroesOrOld } else { AfterTrim::Anything },
        }
    }
}

/// The files that are to be made need room on their file systems: they are sparse, so one without would fail in mid-run, with the file system full.
fn check_room(disks: &[(PathBuf, Option<u64>)]) -> Result<(), LabError> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for (path, create) in disks {
        let Some(bytes) = create.filter(|_| !path.exists()) else { continue };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A folder that is not there, or says nothing, is found out when the file is made.
        let Ok((file_system, room)) = std::fs::metadata(folder).and_then(|m| Ok((m.dev(), rustix::fs::statvfs(folder)?))) else { continue };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        let wanted = wanted.entry(file_system).or_default();
        *wanted = wanted.saturating_add(bytes);
        if *wanted > free {
            let problem = format!(
                "its file system has {} free, and {} are needed for the files that are to be made there; name smaller ones, or make them on another file system",
                ByteSize(free),
                ByteSize(*wanted)
            );
            return Err(LabError::Disk { disk: path.display().to_string(), problem });
        }
    }
    Ok(())
}

fn open(path: &Path, create: Option<u64>) -> Result<Disk, LabError> {
    let name = path.display().to_string();
    let wrong = |problem: String| LabError::Disk { disk: name.clone(), problem };
    let is_new = !path.exists();
    let options = OpenOptions { create_bytes: create, ..OpenOptions::default() };
    let device = Device::open(path, &options).map_err(|e| {
        let text = e.to_string();
        // The message begins with the path, as ours does.
        wrong(text.strip_prefix(&name).map_or(text.clone(), |t| t.trim_start_matches([':', ' ']).to_owned()))
    })?;
    if let Some(bytes) = create
        && device.bytes() < bytes
    {
        return Err(wrong(format!("is there already and has {} bytes, not {bytes}; name it without a size, or remove it", device.bytes())));
    }
    if is_new {
        guard::mark(path)?;
    }
    Ok(Disk { name, path: path.to_owned(), device })
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn disks(&self) -> Vec<(String, u64)> {
        self.disks.iter().map(|d| (d.name.clone(), d.device.bytes())).collect()
    }

    fn admit(&mut self, workload: &Workload, prepare: bool) -> Result<(), LabError> {
        workload.check(&workload.name)?;
        self.disks.iter().try_for_each(|d| AccessPlan::new(workload, &d.name, d.device.bytes()).map(drop))?;
        self.fits(workload)?;
        if prepare { self.may_write() } else { Ok(()) }
    }

    fn unwritten(&mut self, workload: &Workload) -> Result<Option<f64>, LabError> {
        guard::unwritten(self.disks.iter().map(|d| (d.path.as_path(), working_set_bytes(workload, d.device.bytes()))))
    }

    fn prepare(&mut self, workload: &Workload, fill: Fill, watch: &mut dyn Watch) -> Result<(), LabError> {
        self.may_write()?;
        let disks = self.disks();
        let all = disks.iter().map(|d| working_set_bytes(workload, d.1)).sum();
        let check = self.checking(workload, true)?;
        let (workers, _) = Workers::fill("native", workload, 1, fill == Fill::Zero, &disks, self.options.workers, check.as_ref());
        let cores = self.launch(workers.contexts)?;
        let filled = workers.collector.filled(all, watch);
        cores.join().map_err(|e| LabError::Engine { engine: "native", problem: e.to_string() })?;
        filled
    }

    fn run(&mut self, job: &Job, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        self.fits(&job.workload)?;
        let disks = self.disks();
        let check = self.checking(&job.workload, job.workload.changes_data())?;
        let (workers, _) = Workers::new("native", job, &disks, self.options.workers, check.as_ref())?;
        let cores = self.launch(workers.contexts)?;
        let measured = workers.collector.measure(job, disks, watch);
        cores.join().map_err(|e| LabError::Engine { engine: "native", problem: e.to_string() })?;
        let mut measured = measured?;
        for d in self.disks.iter().filter(|d| !d.device.info().direct) {
            measured
                .notes
                .push(format!("{}: its file system refuses O_DIRECT, so the page cache of this machine was measured, too", d.name));
        }
        Ok(measured)
    }
}

/// The buffers of a slot; lent to operations and got back.
#[derive(Default)]
struct OperationSlot {
    reads: Vec<Option<Buf>>,
    writes: BufVec,
    parts_left: u32,
    failed: Option<DeviceError>,
}

/// One core's program.
struct Worker {
    context: WorkerContext,
    devices: Vec<Device>,
    q: Queue,
    slots: Vec<OperationSlot>,
    filler: Filler,
    batch: u32,
    timer: Option<(u64, TimerId)>,
}

impl Worker {
    fn new(context: WorkerContext, devices: Vec<Device>, batch: u32, rt: &Rt) -> Worker {
        let slots = (0..context.slots()).map(|_| OperationSlot::default()).collect();
        let filler = Filler::new(context.data, context.seed, context.number as u64);
        Worker { q: rt.queue(), slots, filler, devices, batch, timer: None, context }
    }

    fn start(&mut self, rt: &Rt, issue: Issue) {
        let (slot, dev, op) = (&mut self.slots[issue.slot], &self.devices[issue.disk], issue.op);
        let cookie = (issue.slot as u64) << 8;
        (slot.parts_left, slot.failed) = (1, None);
        if issue.flush {
            rt.flush(&self.q, cookie, dev);
            return;
        }
        match op.kind {
            IoClass::Read => {
                let parts = (op.bytes as usize).div_ceil(BUF_BYTES_MAX);
                slot.parts_left = parts as u32;
                if slot.reads.len() < parts {
                    slot.reads.resize_with(parts, || None);
                }
                for (n, place) in slot.reads.iter_mut().enumerate().take(parts) {
                    let bytes = (op.bytes as usize - n * BUF_BYTES_MAX).min(BUF_BYTES_MAX);
                    let buf = sized(place.take(), bytes);
                    rt.read(&self.q, cookie | n as u64, dev, op.offset + (n * BUF_BYTES_MAX) as u64, buf);
                }
            }
            IoClass::Write => {
                let mut bufs = std::mem::take(&mut slot.writes);
                let verifies = self.context.verifies();
                lay_out(&mut bufs, op.bytes as usize, &mut self.filler, self.context.zeroes || verifies);
                for (n, buf) in bufs.iter_mut().enumerate().filter(|_| verifies) {
                    self.context.fill(issue.slot, op.offset + (n * BUF_BYTES_MAX) as u64, buf);
                }
                rt.write(&self.q, cookie, dev, op.offset, bufs, Durability::Volatile);
            }
            IoClass::Discard => rt.discard(&self.q, cookie, dev, op.offset, op.bytes.into()),
        }
    }

    fn take(&mut self, cookie: u64, event: Event) {
        let (number, part) = ((cookie >> 8) as usize, (cookie & 255) as usize);
        let slot = &mut self.slots[number];
        let result = match event {
            Event::Read { result, buf } => {
                if self.context.verifies()
                    && result.is_ok()
                    && let Some(at) = self.context.operation(number).map(|op| op.offset)
                {
                    self.context.read(number, at + (part * BUF_BYTES_MAX) as u64, &buf);
                }
                slot.reads[part] = Some(buf);
                result
            }
            Event::Write { result, bufs } => {
                slot.writes = bufs;
                result
            }
            Event::Discard { result } | Event::Flush { result } => result,
            other => unreachable!("only reads, writes, discards and flushes are asked for, and {other:?} came"),
        };
        slot.failed = slot.failed.or(result.err());
        slot.parts_left -= 1;
        if slot.parts_left == 0 {
            let failed = slot.failed;
            let now = self.context.now_ns();
            self.context.done(number, now, failed.map_or(Ok(()), |e| Err(move || e.to_string())));
        }
    }
}

/// A buffer of `bytes`: the one that is there, when it is large enough.
fn sized(have: Option<Buf>, bytes: usize) -> Buf {
    match have {
        Some(mut buf) if buf.capacity() >= bytes => {
            buf.set_len(bytes);
            buf
        }
        _ => Buf::alloc(bytes),
    }
}

/// Buffers of `bytes` in all, filled with what is to be written.
fn lay_out(bufs: &mut BufVec, bytes: usize, filler: &mut Filler, zeroes: bool) {
    let parts = bytes.div_ceil(BUF_BYTES_MAX);
    bufs.truncate(parts);
    for n in 0..parts {
        let bytes = (bytes - n * BUF_BYTES_MAX).min(BUF_BYTES_MAX);
        let fits = bufs.get(n).is_some_and(|b| b.capacity() >= bytes);
        if !fits {
            let mut buf = Buf::zeroed(bytes);
            let whole = buf.capacity();
            buf.set_len(whole);
            if !zeroes {
                filler.first(&mut buf);
            }
            match bufs.get_mut(n) {
                Some(old) => *old = buf,
                None => bufs.push(buf),
            }
        }
        bufs[n].set_len(bytes);
        if !zeroes {
            filler.again(&mut bufs[n]);
        }
    }
}

impl App for Worker {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut progress = Progress::Idle;
        while let Some(done) = self.q.pop() {
            progress = Progress::Busy;
            match done.event {
                Event::Timer(_) => self.timer = None,
                event => self.take(done.cookie, event),
            }
        }
        let now = self.context.now_ns();
        let over = self.context.tick(now);
        if over && self.context.in_flight() == 0 {
            return Progress::Stop;
        }
        for _ in 0..self.batch {
            let Some(issue) = self.context.next(now) else { break };
            progress = Progress::Busy;
            self.start(rt, issue);
        }
        if progress == Progress::Busy {
            // Another turn follows, with what is left to start; who will sleep sets the timer then.
            return progress;
        }
        let wake = now + self.context.pause_ns(now);
        if self.timer.is_none_or(|(at, _)| wake < at) {
            if let Some((_, id)) = self.timer.take() {
                rt.cancel_timer(id);
            }
            self.timer = Some((wake, rt.timer(&self.q, TIMER, rt.now() + Duration::from_nanos(wake - now))));
        }
        progress
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
