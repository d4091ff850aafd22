//! The engine: several queues, each on a thread of its own, over one model; survives reconnects; ends with a full read-back.
//!
//! ```text
//! connect ─► load on every queue ──time or operations are up──► drain ─► read everything back ─► summary
//!              └─ a connection dies: what it had in flight is a maybe ─► reconnect (one thread does, the others wait) ─┘
//! ```
//!
//! Invariants: the model knows of an operation before its command is sent and after its completion came; a mismatch is never
//! forgiven, only counted once [`REPORTS_MAX`] are kept.
//! Never: goes on past its deadline by more than the drain and the read-back.

use super::file::Saved;
use super::load_error::LoadError;
use super::model::{Before, Change, Mismatch, Model, Outcome, ReadToken, Span};
use super::pattern::{Found, Pattern};
use super::session::{Session, SessionEnd};
use super::stream::{Mix, Op, OpStream, Sizes};
use crate::lock::lock;
use base::IoVerb;
use format::nvme::StatusCode;
use hdrhistogram::Histogram;
use initiator::controller::ControllerOptions;
use initiator::error::Error;
use initiator::io::{Io, IoDone, IoQueue};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Mismatches kept in full.
pub const REPORTS_MAX: usize = 64;
/// After so many wrong units a load ends early.
const MISMATCHES_MAX: u64 = 10_000;
/// Bound on an operation: a target that never answers is an error, not a wait without end.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a read of the read-back.
const READ_BACK_BYTES: u64 = 128 << 10;
/// Longest wait in poll(2), so that a thread sees the end of the load.
const POLL: Duration = Duration::from_millis(20);

/// What to do.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// Where to, and how.
    pub target: ControllerOptions,
    /// Which namespace.
    pub nsid: u32,
    /// I/O queues, each with a connection and a thread.
    pub queues: u16,
    /// Commands in flight on each.
    pub depth: u16,
    /// Ends the load after this.
    pub time: Duration,
    /// Ends the load after so many operations, when given.
    pub ops: Option<u64>,
    /// Seed.
    pub seed: u64,
    /// Working set: offset and length in bytes; `None`: all of the namespace from the offset.
    pub offset: u64,
    /// See `offset`.
    pub bytes: Option<u64>,
    /// Unit of the model in bytes; `None`: 4096, or the logical block when `sizes` ask for less.
    pub unit_bytes: Option<u32>,
    /// Shares of the operations.
    pub mix: Mix,
    /// Sizes and weights; empty: mixed.
    pub sizes: Vec<(u64, u32)>,
    /// How long to try to reconnect after a loss; zero: a loss is an error.
    pub reconnect_for: Duration,
    /// A deallocate must give zeroes. `false`: it may leave what was there.
    pub strict_trim: bool,
    /// What the working set holds before.
    pub before: Before,
    /// Go on from a saved model, which then says unit, offset, size, tag and seed.
    pub resume: Option<Saved>,
    /// Read everything back at the end.
    pub read_back: bool,
    /// Set it to end the load before its time.
    pub stop: Arc<AtomicBool>,
}

impl LoadSpec {
    /// An ordinary load.
    pub fn new(target: ControllerOptions, nsid: u32) -> Self {
        Self {
            target,
            nsid,
            queues: 2,
            depth: 16,
            time: Duration::from_secs(10),
            ops: None,
            seed: 1,
            offset: 0,
            bytes: None,
            unit_bytes: None,
            mix: Mix::default(),
            sizes: Vec::new(),
            reconnect_for: Duration::ZERO,
            strict_trim: true,
            before: Before::Zero,
            resume: None,
            read_back: true,
            stop: Arc::default(),
        }
    }
}

/// A mismatch with its place in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Byte offset in the namespace.
    pub offset: u64,
    /// Found during the load or at the read-back.
    pub at_read_back: bool,
    /// What was expected and what was found.
    pub mismatch: Mismatch,
}

impl core::fmt::Display for Report {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let m = &self.mismatch;
        write!(f, "byte {} (unit {}): expected {}, found {}", self.offset, m.unit, m.expected.join(" or "), m.found)
    }
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct LoadSummary {
    /// Operations done, by kind.
    pub ops: BTreeMap<&'static str, u64>,
    /// Bytes read and written by the load, without the read-back.
    pub bytes_read: u64,
    /// See `bytes_read`.
    pub bytes_written: u64,
    /// How often a connection was lost and made again.
    pub reconnects: u64,
    /// Longest time without a connection.
    pub outage_max: Duration,
    /// Operations whose outcome is unknown, because their connection died.
    pub maybes: u64,
    /// Commands that ended with an error status, by status.
    pub errors: BTreeMap<String, u64>,
    /// Wrong units.
    pub mismatches: u64,
    /// The first of them.
    pub reports: Vec<Report>,
    /// Units checked by reads, the read-back included.
    pub units_checked: u64,
    /// Time of the load, without the read-back.
    pub elapsed: Duration,
    /// Latencies in microseconds: 50th, 99th, 99.9th percentile, largest.
    pub latency_us: [u64; 4],
}

impl LoadSummary {
    /// No wrong byte and no failed command.
    pub fn is_clean(&self) -> bool {
        self.mismatches == 0 && self.errors.is_empty()
    }
}

/// What the threads share.
pub(super) struct Shared {
    spec: LoadSpec,
    pattern: Pattern,
    unit_bytes: u32,
    offset: u64,
    model: Mutex<Model>,
    tally: Mutex<Tally>,
    session: Session,
    issued: AtomicU64,
    deadline: Mutex<Instant>,
    progress: Progress,
}

/// Numbers that may be read while a load runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Operations done.
    pub ops: AtomicU64,
    /// Reconnects.
    pub reconnects: AtomicU64,
    /// Wrong units.
    pub mismatches: AtomicU64,
}

struct Tally {
    summary: LoadSummary,
    latency: Histogram<u64>,
}

struct Pending {
    op: Op,
    since: Instant,
    handle: Handle,
}

#[derive(Clone, Copy)]
enum Handle {
    Read(ReadToken),
    Change(u64),
    None,
}

/// Runs a load. `watch` is called about once a second while it runs. Gives the summary and the model for a later check.
pub fn run(spec: LoadSpec, mut watch: impl FnMut(&Progress)) -> Result<(LoadSummary, Saved), LoadError> {
    let shared = prepare(spec)?;
    let begun = Instant::now();
    *lock(&shared.deadline) = begun + shared.spec.time;
    let all = &shared;
    let result = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=all.spec.queues).map(|qid| scope.spawn(move || Worker::new(all, qid).run())).collect();
        let mut next = Instant::now() + Duration::from_secs(1);
        while threads.iter().any(|t| !t.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
            if Instant::now() >= next {
                watch(&shared.progress);
                next += Duration::from_secs(1);
            }
        }
        threads.into_iter().map(|t| t.join().unwrap_or(Err(LoadError::Spec("a worker thread panicked")))).collect::<Result<Vec<()>, _>>()
    });
    lock(&shared.tally).summary.elapsed = begun.elapsed();
    result?;
    if shared.spec.read_back {
        Worker::new(&shared, 1).read_back()?;
    }
    shared.session.end();
    let Tally { mut summary, latency } = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.latency_us = [latency.value_at_quantile(0.5), latency.value_at_quantile(0.99), latency.value_at_quantile(0.999), latency.max()];
    (summary.reconnects, summary.outage_max) = shared.session.losses();
    let model = shared.model.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((summary, Saved { pattern: shared.pattern, unit_bytes: shared.unit_bytes, offset: shared.offset, model }))
}

fn prepare(mut spec: LoadSpec) -> Result<Shared, LoadError> {
    if spec.queues == 0 || spec.depth == 0 || !spec.mix.is_sound() {
        return Err(LoadError::Spec("queues and depth must be at least 1, the shares of the operations at most 100 together"));
    }
    let session = Session::new(spec.target.clone(), spec.nsid, spec.queues, spec.reconnect_for);
    let namespace = session.connect_first()?;
    let saved = match spec.resume.take() {
        Some(saved) => saved,
        None => {
            let unit_bytes = spec.unit_bytes.unwrap_or(namespace.lba_bytes.max(4096));
            let bytes = spec.bytes.unwrap_or(namespace.bytes().saturating_sub(spec.offset));
            let tag = initiator::rng::mix(spec.seed ^ u64::from(spec.nsid));
            let model = Model::new(bytes / u64::from(unit_bytes.max(1)), spec.before);
            Saved { pattern: Pattern { tag, seed: spec.seed }, unit_bytes, offset: spec.offset, model }
        }
    };
    let unit = u64::from(saved.unit_bytes);
    let end = saved.offset + saved.model.units() * unit;
    if unit < 512 || !unit.is_multiple_of(namespace.lba_bytes.into()) || !saved.offset.is_multiple_of(unit) {
        return Err(LoadError::Spec("the unit must be whole logical blocks and the offset whole units"));
    }
    if saved.model.units() == 0 || end > namespace.bytes() {
        return Err(LoadError::Spec("the working set does not fit the namespace"));
    }
    if spec.sizes.is_empty() {
        spec.sizes = Sizes::mixed(saved.unit_bytes);
    }
    spec.sizes.retain(|s| s.0 <= u64::from(namespace.transfer_bytes_max));
    if Sizes::new(&spec.sizes, saved.unit_bytes).is_none() {
        return Err(LoadError::Spec("every size must be whole units and within the largest transfer"));
    }
    let latency = Histogram::new_with_bounds(1, 600_000_000, 3).map_err(|_| LoadError::Spec("latency histogram"))?;
    Ok(Shared {
        pattern: saved.pattern,
        unit_bytes: saved.unit_bytes,
        offset: saved.offset,
        model: Mutex::new(saved.model),
        tally: Mutex::new(Tally { summary: LoadSummary::default(), latency }),
        session,
        issued: AtomicU64::new(0),
        deadline: Mutex::new(Instant::now()),
        progress: Progress::default(),
        spec,
    })
}

impl Shared {
    fn bytes_of(&self, span: Span) -> (u64, u64) {
        let unit = u64::from(self.unit_bytes);
        (self.offset + span.first * unit, span.count * unit)
    }

    /// Judges what a read gave.
    fn judge(&self, token: ReadToken, span: Span, data: &[u8], at_read_back: bool) {
        let (offset, _) = self.bytes_of(span);
        let unit = self.unit_bytes as usize;
        let found: Vec<Found> =
            data.chunks_exact(unit).enumerate().map(|(i, b)| self.pattern.inspect(offset + (i * unit) as u64, b)).collect();
        let bad = lock(&self.model).end_read(token, span, &found);
        let mut tally = lock(&self.tally);
        tally.summary.units_checked += span.count;
        tally.summary.mismatches += bad.len() as u64;
        self.progress.mismatches.fetch_add(bad.len() as u64, Ordering::Relaxed);
        let room = REPORTS_MAX.saturating_sub(tally.summary.reports.len());
        for mismatch in bad.into_iter().take(room) {
            let offset = self.offset + mismatch.unit * unit as u64;
            tally.summary.reports.push(Report { offset, at_read_back, mismatch });
        }
        if tally.summary.mismatches > MISMATCHES_MAX {
            self.spec.stop.store(true, Ordering::Release);
        }
    }

    fn is_over(&self) -> bool {
        self.spec.stop.load(Ordering::Acquire) || Instant::now() >= *lock(&self.deadline)
    }
}

/// One queue's thread.
struct Worker<'a> {
    shared: &'a Shared,
    qid: u16,
    workload: OpStream,
    pending: BTreeMap<u64, Pending>,
    next_tag: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, qid: u16) -> Self {
        let sizes = Sizes::new(&shared.spec.sizes, shared.unit_bytes).expect("prepare checked the sizes");
        let units = lock(&shared.model).units();
        let seed = initiator::rng::mix(shared.pattern.seed ^ u64::from(qid) << 32 ^ lock(&shared.model).clock());
        Self { shared, qid, workload: OpStream::new(seed, shared.spec.mix, sizes, units), pending: BTreeMap::new(), next_tag: 0 }
    }

    /// Loads until the end, across reconnects.
    fn run(&mut self) -> Result<(), LoadError> {
        let result = self.run_sessions();
        if result.is_err() {
            self.shared.spec.stop.store(true, Ordering::Release);
            self.forget();
        }
        result
    }

    fn run_sessions(&mut self) -> Result<(), LoadError> {
        loop {
            let (mut queue, generation) = self.open()?;
            match self.load(&mut queue, generation) {
                Ok(SessionEnd::Done) => return Ok(()),
                Ok(SessionEnd::Replaced) => self.forget(),
                Err(lost) => {
                    self.forget();
                    self.shared.session.lost(generation, &lost)?;
                }
            }
        }
    }

    fn open(&self) -> Result<(IoQueue, u64), LoadError> {
        let session = &self.shared.session;
        let opened = session.open_queue(self.qid, self.shared.spec.depth, &self.shared.progress.reconnects)?;
        Ok(opened)
    }

    fn load(&mut self, queue: &mut IoQueue, generation: u64) -> Result<SessionEnd, Error> {
        loop {
            if self.shared.session.generation() != generation {
                return Ok(SessionEnd::Replaced);
            }
            let over = self.shared.is_over();
            if over && self.pending.is_empty() {
                return Ok(SessionEnd::Done);
            }
            while !over && queue.has_room() && self.may_issue() {
                let op = self.workload.next_op();
                self.send(queue, op)?;
            }
            if self.pending.is_empty() {
                return Ok(SessionEnd::Done);
            }
            queue.poll(POLL)?;
            while let Some(done) = queue.pop() {
                self.finish(done, false);
            }
            if self.pending.values().next().is_some_and(|p| p.since.elapsed() > OPERATION_TIMEOUT) {
                return Err(Error::Timeout("I/O command"));
            }
        }
    }

    fn may_issue(&self) -> bool {
        let Some(limit) = self.shared.spec.ops else { return true };
        self.shared.issued.fetch_add(1, Ordering::Relaxed) < limit
    }

    fn send(&mut self, queue: &mut IoQueue, op: Op) -> Result<(), Error> {
        let (offset, len) = self.shared.bytes_of(op.span);
        let begin = |change| lock(&self.shared.model).begin_change(op.span, change);
        let (handle, io) = match op.verb {
            IoVerb::Read => (Handle::Read(lock(&self.shared.model).begin_read()), Io::Read { offset, len: len as u32 }),
            IoVerb::Write => {
                let version = begin(Change::Data);
                let mut data = vec![0; len as usize];
                self.shared.pattern.fill(offset, version, &mut data);
                (Handle::Change(version), Io::Write { offset, data, fua: op.fua })
            }
            IoVerb::Zero => {
                let version = begin(Change::Zero);
                let deallocate = queue.namespace().zeroes_may_deallocate && version.is_multiple_of(2);
                (Handle::Change(version), Io::WriteZeroes { offset, len, deallocate })
            }
            IoVerb::Trim => (Handle::Change(begin(Change::Zero)), Io::Deallocate(vec![(offset, len)])),
            IoVerb::Flush => (Handle::None, Io::Flush),
            other => unreachable!("a mix has no share of {}", other.name()),
        };
        self.next_tag += 1;
        self.pending.insert(self.next_tag, Pending { op, since: Instant::now(), handle });
        queue.submit(self.next_tag, io)
    }

    fn finish(&mut self, done: IoDone, at_read_back: bool) {
        let Some(Pending { op, since, handle }) = self.pending.remove(&done.tag) else { return };
        let good = done.status.is_success();
        match handle {
            Handle::Read(token) if good => self.shared.judge(token, op.span, &done.data, at_read_back),
            Handle::Read(token) => lock(&self.shared.model).abandon_read(token),
            Handle::Change(version) => {
                let advice = op.verb == IoVerb::Trim && !self.shared.spec.strict_trim;
                let outcome = if good && !advice { Outcome::Applied } else { Outcome::Unknown };
                lock(&self.shared.model).end_change(op.span, version, outcome);
            }
            Handle::None => {}
        }
        self.count(&op, since, done.status.code, at_read_back);
    }

    fn count(&self, op: &Op, since: Instant, code: StatusCode, at_read_back: bool) {
        let mut tally = lock(&self.shared.tally);
        if code != StatusCode::SUCCESS {
            *tally.summary.errors.entry(format!("{:?}{}: {code}", op.verb, if op.fua { "Fua" } else { "" })).or_default() += 1;
            return;
        }
        if at_read_back {
            return;
        }
        self.shared.progress.ops.fetch_add(1, Ordering::Relaxed);
        let (_, bytes) = self.shared.bytes_of(op.span);
        let name = if op.fua { "write_fua" } else { op.verb.name() };
        *tally.summary.ops.entry(name).or_default() += 1;
        match op.verb {
            IoVerb::Read => tally.summary.bytes_read += bytes,
            IoVerb::Write => tally.summary.bytes_written += bytes,
            _ => {}
        }
        tally.latency.saturating_record(since.elapsed().as_micros().try_into().unwrap_or(u64::MAX));
    }

    /// The connection is gone: what was in flight is a maybe.
    fn forget(&mut self) {
        let mut maybes = 0;
        for (_, Pending { op, handle, .. }) in std::mem::take(&mut self.pending) {
            let mut model = lock(&self.shared.model);
            match handle {
                Handle::Read(token) => model.abandon_read(token),
                Handle::Change(version) => {
                    model.end_change(op.span, version, Outcome::Unknown);
                    maybes += 1;
                }
                Handle::None => {}
            }
        }
        lock(&self.shared.tally).summary.maybes += maybes;
    }

    /// Reads the whole working set and checks it, across reconnects.
    fn read_back(&mut self) -> Result<(), LoadError> {
        let units = lock(&self.shared.model).units();
        let step = (READ_BACK_BYTES / u64::from(self.shared.unit_bytes)).max(1);
        let mut todo: Vec<Span> = (0..units).step_by(step as usize).map(|first| Span { first, count: step.min(units - first) }).collect();
        todo.reverse();
        loop {
            let (mut queue, generation) = self.open()?;
            match self.read_all(&mut queue, &mut todo) {
                Ok(()) => return Ok(()),
                Err(lost) => {
                    todo.extend(self.pending.values().map(|p| p.op.span));
                    self.forget();
                    self.shared.session.lost(generation, &lost)?;
                }
            }
        }
    }

    fn read_all(&mut self, queue: &mut IoQueue, todo: &mut Vec<Span>) -> Result<(), Error> {
        while !todo.is_empty() || !self.pending.is_empty() {
            while queue.has_room()
                && let Some(span) = todo.pop()
            {
                self.send(queue, Op { verb: IoVerb::Read, fua: false, span })?;
            }
            queue.poll(POLL)?;
            while let Some(done) = queue.pop() {
                self.finish(done, true);
            }
            if self.pending.values().next().is_some_and(|p| p.since.elapsed() > OPERATION_TIMEOUT) {
                return Err(Error::Timeout("I/O command"));
            }
        }
        Ok(())
    }
}
