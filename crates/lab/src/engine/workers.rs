//! The workers of one measurement: threads that do a load, and the collector that gathers what they count.
//!
//! ```text
//! workers (engine's threads): WorkerContext ──Second, Ended──► collector (the caller's thread) ──► Watch, Measured
//!                              ▲────────────── stop ──────────────┘
//! ```
//!
//! Invariants: what workers have counted is kept whatever happens to one of them; all end soon after one fails or the user stops.
//! Never: does I/O on a disk.

use super::load::{Issue, LanePart, Load, deal};
use super::verify::{Checker, Checking};
use super::{Job, Watch};
use crate::error::LabError;
use crate::measure::recorder::{Merger, Recorder, SecondPart, Window};
use crate::measure::{Figures, Second, cpu};
use crate::results::{Measured, Verified};
use crate::workload::generate::{AccessPlan, working_set_bytes};
use crate::workload::{Data, Workload};
use base::IoClass;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the collector asks whether to stop.
const COLLECTOR_WAIT: Duration = Duration::from_millis(50);
/// How often a worker looks whether the load begins.
const BEGIN_LOOK: Duration = Duration::from_micros(200);
/// A worker that no collector waits for begins after this.
const UNCOLLECTED: Duration = Duration::from_secs(10);
/// Operations that fail one after the other before a worker gives up.
const FAILURES_MAX: u32 = 1000;
/// A worker waits at most so long before it looks at the clock, in nanoseconds.
pub const WORKER_WAIT_NS: u64 = 50_000_000;

/// What a worker reports to the collector.
enum Report {
    Ready,
    Second(SecondPart),
    Ended(Box<Ended>),
}

struct Ended {
    recorder: Recorder,
    carried: u64,
    waiting: u64,
    checked: Option<(Verified, Vec<String>)>,
    first_failure: Option<String>,
    problem: Option<String>,
}

/// When the load begins.
#[derive(Default)]
struct Begin {
    at: OnceLock<Instant>,
    /// A collector is there, which sets it.
    collected: AtomicBool,
}

impl Begin {
    /// Waits for it. Without a collector (an engine that could not start all of its workers) it is now, after a while.
    fn wait(&self) -> Instant {
        let since = Instant::now();
        loop {
            if let Some(at) = self.at.get() {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                return *at;
            }
            if !self.collected.load(Relaxed) && since.elapsed() > UNCOLLECTED {
                return *self.at.get_or_init(Instant::now);
            }
            std::thread::sleep(BEGIN_LOOK);
        }
    }
}

/// What a worker has: its part of the load and its line to the collector.
pub struct WorkerContext {
    load: Load,
    /// Number of the worker.
    pub number: usize,
    /// What it writes.
    pub data: Data,
    /// Seed of the job.
    pub seed: u64,
    /// Zeroes are written instead of data.
    pub zeroes: bool,
    check: Option<Checker>,
    begin: Arc<Begin>,
    begun: Cell<bool>,
    stop: Arc<AtomicBool>,
    reports: Sender<Report>,
    failures: u32,
    first_failure: Option<String>,
    problem: Option<String>,
}

impl WorkerContext {
    /// Nanoseconds since the load began. The first call waits until it begins, which is when all workers have called and the collector lets them.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let begin = match self.begin.at.get() {
            Some(at) if self.begun.get() => *at,
            _ => self.wait_for_begin(),
        };
        begin.elapsed().as_nanos() as u64
    }
    #[cold]
    fn wait_for_begin(&self) -> Instant {
        let _ = self.reports.send(Report::Ready);
        let at = self.begin.wait();
        self.begun.set(true);
        at
    }
    /// Slots of this worker.
    pub fn slots(&self) -> usize {
        self.load.slots()
    }
    /// Operations under way.
    pub fn in_flight(&self) -> usize {
        self.load.in_flight()
    }
    /// The next operation to start now.
    #[inline]
    pub fn next(&mut self, now_ns: u64) -> Option<Issue> {
        let issue = self.load.next(now_ns)?;
        if let Some(check) = self.check.as_mut().filter(|_| !issue.flush) {
            check.begin(issue.slot, issue.disk, &issue.op);
        }
        Some(issue)
    }
    /// Whether [`WorkerContext::fill`] and [`WorkerContext::read`] are to be called: all data read is verified.
    #[inline]
    pub fn verifies(&self) -> bool {
        self.check.is_some()
    }
    /// Fills a part of a write that is to be verified later; `offset` is where it goes, in bytes of the disk.
    pub fn fill(&self, slot: usize, offset: u64, out: &mut [u8]) {
        if let Some(check) = &self.check {
            check.fill(slot, offset, out);
        }
    }
    /// Looks at a part of what a read gave, before [`WorkerContext::done`]; `offset` is where it came from, in bytes of the disk.
    pub fn read(&mut self, slot: usize, offset: u64, data: &[u8]) {
        if let Some(check) = &mut self.check {
            check.read(slot, offset, data);
        }
    }
    /// An operation has ended; `why` says what went wrong with it.
    #[inline]
    pub fn done(&mut self, slot: usize, now_ns: u64, result: Result<(), impl FnOnce() -> String>) {
        self.roll(now_ns);
        let flushed = self.load.operation(slot).is_none();
        self.load.done(slot, now_ns, result.is_ok());
        if let Some(check) = self.check.as_mut().filter(|_| !flushed)
            && !check.end(slot, result.is_ok())
        {
            // Wrong data is the end of it: nothing that is measured from now on would mean anything.
            self.stop.store(true, Relaxed);
        }
        match result {
            Ok(()) => self.failures = 0,
            Err(why) => {
                let mut last = String::new();
                self.failures += 1;
                if self.first_failure.is_none() || self.failures == FAILURES_MAX {
                    let why = why();
                    self.first_failure.get_or_insert_with(|| why.clone());
                    last = why;
                }
                if self.failures == FAILURES_MAX {
                    self.fail(format!("{FAILURES_MAX} operations failed one after the other; the last: {last}"));
                }
            }
        }
    }
    /// The worker cannot go on; what it has counted is kept.
    pub fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
        self.stop.store(true, Relaxed);
    }
    /// Time passes: reports seconds that have ended. Whether the load is over (operations may be under way still).
    pub fn tick(&mut self, now_ns: u64) -> bool {
        self.roll(now_ns);
        if self.stop.load(Relaxed) {
            self.load.end_at(now_ns);
        }
        self.load.over(now_ns)
    }
    /// How long there is nothing to start unless something ends, in nanoseconds; at most [`WORKER_WAIT_NS`].
    pub fn pause_ns(&self, now_ns: u64) -> u64 {
        let at = self.load.wake_at_ns().map_or(u64::MAX, |at| at.saturating_sub(now_ns));
        at.min(WORKER_WAIT_NS)
    }
    #[inline]
    fn roll(&mut self, now_ns: u64) {
        while let Some(part) = self.load.recorder.roll(now_ns) {
            // A collector that is gone does not want to know.
            let _ = self.reports.send(Report::Second(part));
        }
    }
    /// What a slot is doing; of one that flushes, nothing.
    pub fn operation(&self, slot: usize) -> Option<&crate::workload::generate::Operation> {
        self.load.operation(slot)
    }
}

impl Drop for WorkerContext {
    fn drop(&mut self) {
        if let Some(part) = self.load.recorder.last() {
            let _ = self.reports.send(Report::Second(part));
        }
        if self.load.in_flight() > 0 && self.problem.is_none() {
            self.problem = Some("a worker ended with operations under way".into());
        }
        let window = Window { from_ns: 0, to_ns: 0 };
        let recorder = std::mem::replace(&mut self.load.recorder, Recorder::new(window, 0));
        let (carried, waiting) = (self.load.carried(), self.load.left_waiting());
        let checked = self.check.take().map(|c| (c.tally, c.findings));
        let ended = Ended { recorder, carried, waiting, checked, first_failure: self.first_failure.take(), problem: self.problem.take() };
        let _ = self.reports.send(Report::Ended(Box::new(ended)));
    }
}

/// A measurement about to begin: what each worker has, and the collector.
pub struct Workers {
    /// One for each worker; it ends its work by dropping it.
    pub contexts: Vec<WorkerContext>,
    /// Where the figures come together.
    pub collector: Collector,
}

/// See [`Workers`].
pub struct Collector {
    engine: &'static str,
    workers: usize,
    window: Window,
    begin: Arc<Begin>,
    stop: Arc<AtomicBool>,
    reports: Receiver<Report>,
}

/// Which worker does what: lanes for each.
pub type Dealt = Vec<Vec<LanePart>>;

impl Workers {
    /// For a job on disks with these names and sizes, with at most `workers` workers. `check`: against what is read.
    pub fn new(
        engine: &'static str,
        job: &Job,
        disks: &[(String, u64)],
        workers: usize,
        check: Option<&Checking>,
    ) -> Result<(Workers, Dealt), LabError> {
        let w = &job.workload;
        w.check(&w.name)?;
        let plans = disks.iter().map(|(name, bytes)| AccessPlan::new(w, name, *bytes)).collect::<Result<Vec<_>, _>>()?;
        let from_ns = job.warm_up.as_nanos() as u64;
        let window = Window { from_ns, to_ns: from_ns + job.measure.as_nanos() as u64 };
        let dealt = deal(disks.len(), w.depth, workers);
        let loads = dealt.iter().map(|lanes| Load::new(w, &plans, lanes, job.seed, window)).collect();
        Ok((Self::assemble(engine, loads, window, (w.data, job.seed, false), check), dealt))
    }

    /// To fill the working set of every disk once.
    pub fn fill(
        engine: &'static str,
        workload: &Workload,
        seed: u64,
        zeroes: bool,
        disks: &[(String, u64)],
        workers: usize,
        check: Option<&Checking>,
    ) -> (Workers, Dealt) {
        let dealt = deal(disks.len(), 1, workers.min(disks.len()));
        let load = |lanes: &Vec<LanePart>| {
            let mine: Vec<_> = lanes.iter().map(|l| (l.disk, working_set_bytes(workload, disks[l.disk].1))).collect();
            Load::fill(&mine)
        };
        let window = Window { from_ns: 0, to_ns: u64::MAX };
        (Self::assemble(engine, dealt.iter().map(load).collect(), window, (workload.data, seed, zeroes), check), dealt)
    }

    fn assemble(
        engine: &'static str,
        loads: Vec<Load>,
        window: Window,
        (data, seed, zeroes): (Data, u64, bool),
        check: Option<&Checking>,
    ) -> Workers {
        let (sender, reports) = channel();
        let (begin, stop) = (Arc::new(Begin::default()), Arc::new(AtomicBool::new(false)));
        let workers = loads.len();
        let context = |(number, load): (usize, Load)| WorkerContext {
            check: check.map(|c| Checker::new(c, load.slots(), zeroes)),
            load,
            number,
            data,
            seed,
            zeroes,
            begin: Arc::clone(&begin),
            begun: Cell::new(false),
            stop: Arc::clone(&stop),
            reports: sender.clone(),
            failures: 0,
            first_failure: None,
            problem: None,
        };
        let contexts = loads.into_iter().enumerate().map(context).collect();
        Workers { contexts, collector: Collector { engine, workers, window, begin, stop, reports } }
    }
}

/// What came together.
struct Gathered {
    recorders: Vec<Recorder>,
    seconds: Vec<Second>,
    carried: u64,
    waiting: u64,
    /// Why the first operation failed that did.
    first_failure: Option<String>,
    verified: Option<Verified>,
    findings: Vec<String>,
    problem: Option<String>,
    client_cpu_s: f64,
    target_cpu_s: Option<f64>,
    ended_ns: u64,
    /// It was asked to end before its time.
    stopped_early: bool,
}

impl Collector {
    fn now_ns(&self) -> u64 {
        self.begin.at.get().map_or(0, |b| b.elapsed().as_nanos() as u64)
    }

    fn gather(&self, watch: &mut dyn Watch, each: &mut dyn FnMut(&Second, &mut dyn Watch)) -> Gathered {
        let mut merger = Merger::new(self.workers);
        let mut g = Gathered {
            recorders: Vec::new(),
            seconds: Vec::new(),
            carried: 0,
            waiting: 0,
            first_failure: None,
            verified: None,
            findings: Vec::new(),
            problem: None,
            client_cpu_s: 0.0,
            target_cpu_s: None,
            ended_ns: 0,
            stopped_early: false,
        };
        let (mut ready, mut ended) = (0, 0);
        self.begin.collected.store(true, Relaxed);
        let (mut at_first, mut at_last) = (None, None);
        while ended < self.workers {
            if ready + ended >= self.workers && self.begin.at.get().is_none() {
                let at = watch.begin();
                self.begin.at.get_or_init(|| at);
            }
            let (now, begun) = (self.now_ns(), self.begin.at.get().is_some());
            let sample = |watch: &mut dyn Watch| (cpu::own().as_secs_f64(), watch.target_cpu_s());
            if begun && now >= self.window.from_ns && at_first.is_none() {
                at_first = Some(sample(watch));
            }
            if begun && now >= self.window.to_ns && at_last.is_none() {
                at_last = Some(sample(watch));
            }
            let next = [self.window.from_ns, self.window.to_ns].into_iter().find(|&at| at > now).unwrap_or(u64::MAX);
            match self.reports.recv_timeout(COLLECTOR_WAIT.min(Duration::from_nanos(next - now).max(Duration::from_micros(100)))) {
                Ok(Report::Second(part)) => {
                    if let Some(mut second) = merger.take(part) {
                        second.target = watch.target();
                        watch.latencies(&merger.latency);
                        each(&second, watch);
                        g.seconds.push(second);
                    }
                }
                Ok(Report::Ready) => ready += 1,
                Ok(Report::Ended(e)) => {
                    ended += 1;
                    g.ended_ns = self.now_ns();
                    g.carried += e.carried;
                    g.waiting += e.waiting;
                    g.first_failure = g.first_failure.take().or(e.first_failure);
                    if let Some((tally, findings)) = e.checked {
                        g.verified = Some(g.verified.unwrap_or_default().merge(tally));
                        g.findings.extend(findings);
                    }
                    g.problem = g.problem.take().or(e.problem);
                    g.recorders.push(e.recorder);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    g.problem.get_or_insert("a worker died".into());
                    break;
                }
            }
            if watch.stopped() {
                // One that is asked to end when its time is up has all of it.
                g.stopped_early |= self.now_ns() < self.window.to_ns;
                self.stop.store(true, Relaxed);
            }
        }
        let last = at_last.unwrap_or_else(|| (cpu::own().as_secs_f64(), watch.target_cpu_s()));
        let first = at_first.unwrap_or(last);
        g.client_cpu_s = last.0 - first.0;
        g.target_cpu_s = last.1.zip(first.1).map(|(b, a)| b - a);
        for (second, latency) in merger.rest() {
            watch.latencies(&latency);
            each(&second, watch);
            g.seconds.push(second);
        }
        g
    }

    /// Gathers a measurement until all workers have ended.
    pub fn measure(self, job: &Job, disks: Vec<(String, u64)>, watch: &mut dyn Watch) -> Result<Measured, LabError> {
        let began = SystemTime::now() + job.warm_up;
        let g = self.gather(watch, &mut |second, watch| watch.second(second));
        let measured_ns = g.ended_ns.min(self.window.to_ns).saturating_sub(self.window.from_ns);
        let (mut kinds, mut flushes): ([Figures; 3], Figures) = Default::default();
        let w = &job.workload;
        let mut streams = if w.streams.len() > 1 { vec![Figures::default(); w.streams.len()] } else { Vec::new() };
        for r in &g.recorders {
            flushes.merge(&r.flushes);
            kinds.iter_mut().zip(&r.kinds).chain(streams.iter_mut().zip(&r.streams)).for_each(|(all, one)| all.merge(one));
        }
        let [reads, writes, trims] = kinds;
        let counted = reads.operations + writes.operations + trims.operations;
        let wrong = g.verified.is_some_and(|v| v.wrong > 0);
        let cut_short = g.stopped_early || g.problem.is_some() || wrong;
        match g.problem {
            _ if wrong => {}
            Some(problem) if counted == 0 => return Err(LabError::Engine { engine: self.engine, problem }),
            None if cut_short && counted == 0 => return Err(LabError::Stopped),
            _ => {}
        }
        let mut notes: Vec<String> = g.findings.into_iter().chain(g.problem).collect();
        notes.extend(g.first_failure.map(|why| format!("The first operation that failed: {why}.")));
        if g.waiting > 0 {
            notes.push(format!(
                "{} operations that should have been started were still waiting when the time was up: the storage does not keep this rate. They are in no figure.",
                g.waiting
            ));
        }
        if g.verified.is_some_and(|v| v.checked + v.unknown == 0) {
            notes.push("Nothing was read, so nothing was verified: what was written here is checked by a case that reads after it, in the same run.".into());
        }
        let name = |i: usize| if w.streams[i].name.is_empty() { format!("stream {i}") } else { w.streams[i].name.clone() };
        Ok(Measured {
            engine: self.engine.into(),
            workload: w.clone(),
            labels: Vec::new(),
            disks,
            began_unix_s: began.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            warm_up_s: job.warm_up.as_secs_f64(),
            measured_s: measured_ns as f64 / 1e9,
            cut_short,
            reads,
            writes,
            trims,
            streams: streams.into_iter().enumerate().map(|(i, f)| (name(i), f)).collect(),
            verified: g.verified,
            client_cpu_s: g.client_cpu_s,
            target_cpu_s: g.target_cpu_s,
            seconds: g.seconds,
            notes,
            carried: g.carried,
            waiting: g.waiting,
            noise: None,
            target_noise: None,
            clients: Vec::new(),
            flushes,
        })
    }

    /// Gathers a fill until all workers have ended; `all` is how many bytes there are.
    pub fn filled(self, all: u64, watch: &mut dyn Watch) -> Result<(), LabError> {
        let mut done = 0;
        let g = self.gather(watch, &mut |second, watch| {
            done += second.written_bytes;
            watch.progress("writing the working set", done, all);
        });
        let writes = &g.recorders.iter().map(|r| &r.kinds[IoClass::Write as usize]).collect::<Vec<_>>();
        let failed: u64 = writes.iter().map(|f| f.errors).sum();
        let written: u64 = writes.iter().map(|f| f.bytes).sum();
        let engine = self.engine;
        match g.problem {
            Some(problem) => Err(LabError::Engine { engine, problem }),
            None if watch.stopped() => Err(LabError::Stopped),
            None if failed > 0 || written < all => {
                Err(LabError::Engine { engine, problem: format!("{failed} writes failed while the working set was written") })
            }
            None => Ok(()),
        }
    }
}
