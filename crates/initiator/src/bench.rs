//! Plain load: as many operations as go, nothing verified.
//!
//! Invariant: latency is from handing a command to the queue to taking its completion.
//! Never: a measure of a target's limit by itself: the client shares the machine.

use crate::controller::{Controller, ControllerOptions};
use crate::error::Error;
use crate::io::{Io, IoQueue};
use crate::rng::Rng;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchOp {
    /// Random reads.
    Read,
    /// Random writes.
    Write,
    /// Half and half.
    Mixed,
}

/// A plain load.
#[derive(Clone, Debug)]
pub struct BenchSpec {
    /// Where to, and how.
    pub target: ControllerOptions,
    /// Which namespace.
    pub nsid: u32,
    /// What to do.
    pub op: BenchOp,
    /// One after the other instead of at random places.
    pub sequential: bool,
    /// Bytes of an operation.
    pub block_bytes: u32,
    /// Commands in flight on each queue.
    pub depth: u16,
    /// Queues, each with a thread.
    pub queues: u16,
    /// How long.
    pub time: Duration,
    /// Part of the namespace in bytes; `None`: all.
    pub bytes: Option<u64>,
    /// Ask the socket again and again instead of waiting in poll(2).
    pub spin: bool,
    /// Seed.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct BenchResult {
    /// Operations done.
    pub ops: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Time it took.
    pub elapsed: Duration,
    /// Latency in nanoseconds.
    pub latency: Histogram<u64>,
}

impl BenchResult {
    /// Operations a second.
    pub fn iops(&self) -> f64 {
        self.ops as f64 / self.elapsed.as_secs_f64()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are sound")
}

/// Runs it.
pub fn run(spec: &BenchSpec) -> Result<BenchResult, Error> {
    let controller = Controller::connect(spec.target.clone())?;
    if controller.set_queues(spec.queues)? < spec.queues {
        return Err(Error::Unsupported("the controller grants fewer I/O queues than were asked for"));
    }
    let namespace = controller.namespace(spec.nsid)?;
    let blocks = spec.bytes.unwrap_or(u64::MAX).min(namespace.bytes()) / u64::from(spec.block_bytes.max(1));
    if blocks == 0 || !spec.block_bytes.is_multiple_of(namespace.lba_bytes) || spec.block_bytes > namespace.transfer_bytes_max {
        return Err(Error::Unsupported("the block size must be whole logical blocks, within the largest transfer and the working set"));
    }
    let queues: Vec<IoQueue> =
        (1..=spec.queues.max(1)).map(|qid| controller.open_queue(qid, spec.depth, namespace)).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    let parts = std::thread::scope(|scope| {
        let threads: Vec<_> =
            queues.into_iter().zip(0u64..).map(|(queue, n)| scope.spawn(move || one_queue(spec, queue, blocks, n))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or(Err(Error::Unsupported("a worker thread panicked")))).collect::<Result<Vec<_>, _>>()
    })?;
    let mut result = BenchResult { ops: 0, errors: 0, elapsed: begun.elapsed(), latency: histogram() };
    for part in parts {
        result.ops += part.ops;
        result.errors += part.errors;
        result.latency += part.latency;
    }
    // Best effort: the result stands.
    let _ = controller.shutdown();
    Ok(result)
}

fn one_queue(spec: &BenchSpec, mut queue: IoQueue, blocks: u64, n: u64) -> Result<BenchResult, Error> {
    let mut rng = Rng::new(spec.seed ^ n << 48);
    let mut data = vec![0; spec.block_bytes as usize];
    data.chunks_mut(8).for_each(|c| c.copy_from_slice(&rng.next_u64().to_le_bytes()[..c.len()]));
    let mut result = BenchResult { ops: 0, errors: 0, elapsed: Duration::ZERO, latency: histogram() };
    let mut next = blocks / u64::from(spec.queues.max(1)) * n;
    let begun = Instant::now();
    let mut sent: Vec<Instant> = Vec::new();
    let mut free: Vec<u64> = Vec::new();
    loop {
        let over = begun.elapsed() >= spec.time;
        while !over && queue.has_room() {
            let block = if spec.sequential { next % blocks } else { rng.below(blocks) };
            next += 1;
            let offset = block * u64::from(spec.block_bytes);
            let read = match spec.op {
                BenchOp::Read => true,
                BenchOp::Write => false,
                BenchOp::Mixed => rng.percent(50),
            };
            let io = if read { Io::Read { offset, len: spec.block_bytes } } else { Io::Write { offset, data: data.clone(), fua: false } };
            let tag = free.pop().unwrap_or(sent.len() as u64);
            sent.resize(sent.len().max(tag as usize + 1), begun);
            sent[tag as usize] = Instant::now();
            queue.submit(tag, io)?;
        }
        if over && queue.in_flight() == 0 {
            result.elapsed = begun.elapsed();
            return Ok(result);
        }
        queue.poll(if spec.spin { Duration::ZERO } else { Duration::from_millis(20) })?;
        while let Some(done) = queue.pop() {
            result.latency.saturating_record(sent[done.tag as usize].elapsed().as_nanos().try_into().unwrap_or(u64::MAX));
            free.push(done.tag);
            if done.status.is_success() {
                result.ops += 1;
            } else {
                result.errors += 1;
            }
        }
    }
}
