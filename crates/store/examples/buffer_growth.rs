//! What a write, a read and a recovery cost when the write buffer is large: one shard of the store on simulated devices, so that a buffer of
//! 64 GiB needs neither such a device nor so much memory (equal blocks are kept once, and all data blocks are equal).
//!
//! `cargo run --release -p store --example buffer_growth -- GIB`
//!
//! The buffer is filled to three fifths (beyond two thirds destaging always begins) with single blocks of 4 KiB at random places of a component twice its size; nothing is destaged. Then come reads of
//! blocks that the buffer holds, reads of blocks that it does not (these end in the chunk map), and a crash. One line of JSON tells, in nanoseconds, the time
//! an operation spent in the shard's own calls (`submit`, `poll`, `pop_done`; the simulated devices work outside of them), the median over
//! slices of 1024 operations, for writes over the last quarter of the fill; and of the recovery the processor time, with the simulated devices'
//! share, and the modelled time on devices of 3 GB/s with 50 to 120 us a read.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a program of its own; the clocks here are only for the report
#![forbid(unsafe_code)]

use base::unit::BLOCK_BYTES;
use base::{BlockNo, ClusterId, ComponentId, Duration, Epoch, GroupId, ObjectId, Order, Seq, crc32c};
use rt::sim::{SimDeviceOptions, World};
use rt::{App, Buf, Device, Progress, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use store::{ComponentNo, ComponentSpec, Crcs, FormatSpec, OpKind, Settings, Shard, ShardOp, format_group, open_group};

const DEPTH: usize = 256;
const SLICE: u64 = 1024;
/// Of the buffer, when the reads begin.
const FILL: f64 = 0.60;
const READS: u64 = 256 << 10;
/// Odd: its multiples visit every block of a component (a power of two of them) once, in no order that matters.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;
/// Virtual time that no phase needs.
const LONGEST: Duration = Duration::from_secs(1 << 20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Fill,
    ReadBuffer,
    ReadMap,
    Over,
}

struct Load {
    shard: Option<Shard>,
    component: ComponentNo,
    phase: Phase,
    /// Blocks of the component, a power of two.
    span: u64,
    /// Operations of the phase submitted, and ended.
    submitted: u64,
    ended: u64,
    /// Blocks that the buffer holds, once filled.
    filled: u64,
    bufs: Vec<Buf>,
    crc: u32,
    /// Nanoseconds an operation, of each slice of the phase, and what the open one has.
    slices: Vec<f64>,
    spent: std::time::Duration,
    slice_began: u64,
    costs: Vec<f64>,
}

struct Bench(Rc<RefCell<Load>>);

impl App for Bench {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let load = &mut *self.0.borrow_mut();
        let Some(mut shard) = load.shard.take() else { return Progress::Idle };
        let busy = load.turn(rt, &mut shard);
        load.shard = Some(shard);
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

impl Load {
    /// One turn; the shard's calls are timed. Whether anything happened.
    fn turn(&mut self, rt: &Rt, shard: &mut Shard) -> bool {
        let (submitted, ended) = (self.submitted, self.ended);
        let mut ops = Vec::with_capacity(DEPTH);
        if self.phase != Phase::Over {
            while self.submitted - self.ended < DEPTH as u64 && self.goes_on() {
                ops.push(self.next_op());
            }
        }
        let began = std::time::Instant::now();
        ops.into_iter().for_each(|op| shard.submit(rt, op));
        let busy = shard.poll(rt);
        while let Some(done) = shard.pop_done() {
            done.result.expect("healthy devices");
            self.bufs.extend(done.buf);
            self.ended += 1;
        }
        self.spent += began.elapsed();
        if self.ended - self.slice_began >= SLICE {
            self.slices.push(self.spent.as_nanos() as f64 / (self.ended - self.slice_began) as f64);
            (self.spent, self.slice_began) = (std::time::Duration::ZERO, self.ended);
            if self.phase == Phase::Fill && self.filled == 0 && shard.stats().fill >= FILL {
                self.filled = self.submitted;
            }
        }
        if self.phase != Phase::Over && !self.goes_on() && self.submitted == self.ended {
            self.next_phase();
        }
        busy || (submitted, ended) != (self.submitted, self.ended)
    }

    fn goes_on(&self) -> bool {
        if self.phase == Phase::Fill { self.filled == 0 } else { self.submitted < READS }
    }

    fn next_op(&mut self) -> ShardOp {
        // Which of the blocks in the order of the fill; those below `filled` are in the buffer.
        let scattered = (self.submitted.wrapping_mul(STRIDE) >> 20) + self.submitted;
        let n = match self.phase {
            Phase::Fill => self.submitted,
            Phase::ReadBuffer => scattered % self.filled,
            Phase::ReadMap | Phase::Over => self.filled + scattered % (self.span - self.filled),
        };
        let block = BlockNo(n.wrapping_mul(STRIDE) & (self.span - 1));
        let buf = self.bufs.pop().unwrap_or_else(|| Buf::alloc(BLOCK_BYTES));
        let kind = if self.phase == Phase::Fill {
            let mut buf = buf;
            buf.fill(7);
            OpKind::Write { buf, crcs: Crcs::from_slice(&[self.crc]), checksum: true }
        } else {
            OpKind::Read { buf }
        };
        self.submitted += 1;
        let seq = Seq { term: Epoch(1), counter: self.submitted };
        let order = Order { epoch: Epoch(1), period_start: Epoch(1), seq, mark: Seq::default() };
        ShardOp { cookie: 0, component: self.component, block, blocks: 1, order, kind }
    }

    fn next_phase(&mut self) {
        // Of the fill, the last quarter: the buffer as large as it gets.
        let from = if self.phase == Phase::Fill { self.slices.len() * 3 / 4 } else { 0 };
        self.costs.push(median(&mut self.slices.split_off(from)));
        self.slices.clear();
        (self.submitted, self.ended, self.slice_began, self.spent) = (0, 0, 0, std::time::Duration::ZERO);
        self.phase = match self.phase {
            Phase::Fill => Phase::ReadBuffer,
            Phase::ReadBuffer => Phase::ReadMap,
            Phase::ReadMap | Phase::Over => Phase::Over,
        };
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time of this process until now, in seconds; it has one thread.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux with schedstat");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

async fn format(rt: &Rt, devices: &[Device], bytes: u64) -> ComponentNo {
    let spec = FormatSpec {
        cluster: ClusterId::from_bytes([1; 16]),
        group: GroupId::from_bytes([2; 16]),
        name: "growth".into(),
        shards: 1,
        created_unix_s: 0,
        force: true,
    };
    format_group(rt, spec, &devices[0], &devices[1..]).await.expect("formats");
    let group = open_group(rt, None, devices).await.expect("opens");
    let spec = ComponentSpec {
        id: ComponentId::from_bytes([1; 16]),
        object: ObjectId::from_bytes([1; 16]),
        capacity_index: 0,
        bytes,
        reserve_chunks: 0,
        descriptor: Vec::new(),
    };
    group.create_component(rt, spec).await.expect("creates");
    group.components()[0].no
}

async fn open(rt: &Rt, devices: &[Device]) -> Shard {
    let settings = Settings { fill_low: 0.90, fill_high: 0.95, idle_drain: LONGEST, ..Settings::default() };
    let group = open_group(rt, None, devices).await.expect("opens");
    Shard::open(rt, &group, 0, settings).await.expect("opens")
}

fn main() {
    let gib: u64 =
        std::env::args().nth(1).and_then(|a| a.parse().ok()).filter(|g| (1..=64).contains(g)).expect("1 to 64 (GiB) as the argument");
    let component_bytes = ((2 * gib) << 30).next_power_of_two();
    let mut world = World::new(1);
    let options = || SimDeviceOptions { volatile_cache: false, compact: true, ..SimDeviceOptions::default() };
    let devices = vec![world.device(gib << 30, options()), world.device(component_bytes + (component_bytes >> 4), options())];
    let load = Rc::new(RefCell::new(Load {
        shard: None,
        component: ComponentNo(0),
        phase: Phase::Fill,
        span: component_bytes / BLOCK_BYTES as u64,
        submitted: 0,
        ended: 0,
        filled: 0,
        bufs: Vec::new(),
        crc: crc32c(&[7; BLOCK_BYTES]),
        slices: Vec::new(),
        spent: std::time::Duration::ZERO,
        slice_began: 0,
        costs: Vec::new(),
    }));
    let app = Rc::clone(&load);
    let host = world.add_host(1, move |_| Box::new(Bench(Rc::clone(&app))));
    world.start(host);
    let (component, shard) = world.block_on(host, async |rt| (format(&rt, &devices, component_bytes).await, open(&rt, &devices).await));
    (load.borrow_mut().component, load.borrow_mut().shard) = (component, Some(shard));
    world.rt(host, 0).wake(0);
    assert!(world.run_until(LONGEST, || load.borrow().phase == Phase::Over), "the load does not end");

    let filled = load.borrow().shard.as_ref().expect("open").stats();
    assert_eq!(filled.destaged_bytes, 0, "nothing was to be destaged");
    load.borrow_mut().shard = None;
    world.kill_process(host);
    world.start(host);
    let began = processor_s();
    let shard = world.block_on(host, async |rt| open(&rt, &devices).await);
    let recovery_s = processor_s() - began;
    let stats = shard.stats();
    assert_eq!(stats.recovered_blocks, load.borrow().filled, "recovery finds what was written");
    let gib_filled = stats.recovered_blocks as f64 * BLOCK_BYTES as f64 / (1u64 << 30) as f64;
    let costs = &load.borrow().costs;
    println!(
        "{{\"gib\": {gib}, \"blocks\": {}, \"write_ns\": {:.0}, \"read_buffer_ns\": {:.0}, \"read_map_ns\": {:.0}, \"recovery_ms\": {:.1}, \
         \"recovery_ms_a_gib\": {:.2}, \"recovery_modelled_ms\": {:.1}, \"index_bytes_a_block\": {:.1}, \"batch_blocks\": {:.0}}}",
        stats.recovered_blocks,
        costs[0],
        costs[1],
        costs[2],
        recovery_s * 1e3,
        recovery_s * 1e3 / gib_filled,
        stats.recovery_time.as_secs_f64() * 1e3,
        filled.index_memory_bytes as f64 / stats.recovered_blocks as f64,
        filled.written_blocks as f64 / filled.batches.max(1) as f64,
    );
}
