//! Operations a second of one shard on one core, on devices in memory.
//!
//! `cargo run --release -p store --example shard_bench -- [queue depth [seconds a phase [log MiB]]]`
//!
//! Phases: 4 KiB random writes, 4 KiB random reads, a mix, then a crash and the time to recover the log.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a program of its own; the clock here is only for the report

use base::unit::BLOCK_BYTES;
use base::{BlockNo, ClusterId, ComponentId, Epoch, GroupId, ObjectId, Order, Seq, crc32c};
use rt::{App, Buf, Device, Progress, Rt, UringOptions, launch};
use std::cell::RefCell;
use std::rc::Rc;
use store::{ComponentNo, ComponentSpec, Crcs, FormatSpec, OpKind, Settings, Shard, ShardOp, format_group, open_group};

const SPAN_BLOCKS: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Fill,
    Write,
    Read,
    Mix,
}

const PHASES: [Phase; 4] = [Phase::Fill, Phase::Write, Phase::Read, Phase::Mix];

struct Ready {
    shard: Shard,
    component: ComponentNo,
}

struct Bench {
    ready: Rc<RefCell<Option<Ready>>>,
    devices: Vec<Device>,
    depth: usize,
    seconds: f64,
    phase: usize,
    began: Option<base::Instant>,
    ops: u64,
    in_flight: usize,
    bufs: Vec<Buf>,
    crc: u32,
    random: u64,
    reopening: bool,
}

impl App for Bench {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let cell = Rc::clone(&self.ready);
        let mut cell = cell.borrow_mut();
        let Some(ready) = cell.as_mut() else { return Progress::Idle };
        if self.reopening {
            let stats = ready.shard.stats();
            println!(
                "recovery: {:?} for {} segments, {} blocks in the log",
                stats.recovery_time, stats.recovered_segments, stats.recovered_blocks
            );
            return Progress::Stop;
        }
        ready.shard.poll(rt);
        while let Some(done) = ready.shard.pop_done() {
            done.result.expect("healthy devices");
            self.bufs.extend(done.buf);
            self.in_flight -= 1;
            self.ops += 1;
        }
        let began = *self.began.get_or_insert_with(|| rt.now());
        let phase = PHASES[self.phase];
        let over = if phase == Phase::Fill { self.ops >= SPAN_BLOCKS } else { rt.now().since(began).as_secs_f64() >= self.seconds };
        if over {
            if self.in_flight == 0 {
                self.next_phase(rt, &mut cell, began);
            }
            return Progress::Busy;
        }
        while self.in_flight < self.depth {
            self.submit(rt, ready, phase);
        }
        ready.shard.poll(rt);
        Progress::Busy
    }
}

impl Bench {
    fn submit(&mut self, rt: &Rt, ready: &mut Ready, phase: Phase) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = match phase {
            Phase::Fill => (self.ops + self.in_flight as u64) % SPAN_BLOCKS,
            _ => (self.random >> 33) % SPAN_BLOCKS,
        };
        let write = match phase {
            Phase::Fill | Phase::Write => true,
            Phase::Read => false,
            Phase::Mix => self.random >> 60 < 5,
        };
        let buf = self.bufs.pop().unwrap_or_else(|| Buf::alloc(BLOCK_BYTES));
        let kind = if write {
            // The same content each time: what is measured is the store, not the making of data. Its checksum is that of the buffer.
            let mut buf = buf;
            buf[..8].copy_from_slice(&[7; 8]);
            buf[8..].fill(7);
            OpKind::Write { buf, crcs: Crcs::from_slice(&[self.crc]), checksum: true }
        } else {
            OpKind::Read { buf }
        };
        let seq = Seq { term: Epoch(1), counter: self.ops + self.in_flight as u64 + 1 };
        let order = Order { epoch: Epoch(1), period_start: Epoch(1), seq, mark: Seq::default() };
        ready.shard.submit(rt, ShardOp { cookie: 0, component: ready.component, block: BlockNo(block), blocks: 1, order, kind });
        self.in_flight += 1;
    }

    fn next_phase(&mut self, rt: &Rt, cell: &mut Option<Ready>, began: base::Instant) {
        let seconds = rt.now().since(began).as_secs_f64();
        println!("{:?}: {:.0} operations/s", PHASES[self.phase], self.ops as f64 / seconds);
        self.ops = 0;
        self.began = None;
        if self.phase + 1 < PHASES.len() {
            self.phase += 1;
            return;
        }
        let stats = cell.as_ref().expect("open").shard.stats();
        println!(
            "fill {:.0} %, destaged {} MiB, batches {} of {:.1} blocks, checkpoints {}, drain {} MiB/s, index {} KiB",
            stats.fill * 100.0,
            stats.destaged_bytes >> 20,
            stats.batches,
            stats.written_blocks as f64 / stats.batches.max(1) as f64,
            stats.checkpoints,
            stats.drain_bytes_per_s >> 20,
            stats.index_memory_bytes >> 10,
        );
        *cell = None; // as a crash would
        self.reopening = true;
        rt.spawn(open(rt.clone(), self.devices.clone(), Rc::clone(&self.ready), false));
    }
}

async fn open(rt: Rt, devices: Vec<Device>, ready: Rc<RefCell<Option<Ready>>>, format: bool) {
    if format {
        let spec = FormatSpec {
            cluster: ClusterId::from_bytes([1; 16]),
            group: GroupId::from_bytes([2; 16]),
            name: "bench".into(),
            shards: 1,
            created_unix_s: 0,
            force: true,
        };
        format_group(&rt, spec, &devices[0], &devices[1..]).await.expect("formats");
    }
    let group = open_group(&rt, None, &devices).await.expect("opens");
    if format {
        let spec = ComponentSpec {
            id: ComponentId::from_bytes([1; 16]),
            object: ObjectId::from_bytes([1; 16]),
            capacity_index: 0,
            bytes: SPAN_BLOCKS * BLOCK_BYTES as u64,
            reserve_chunks: 0,
            descriptor: Vec::new(),
        };
        group.create_component(&rt, spec).await.expect("creates");
    }
    let component = group.components()[0].no;
    let shard = Shard::open(&rt, &group, 0, Settings::default()).await.expect("opens");
    *ready.borrow_mut() = Some(Ready { shard, component });
    rt.wake(rt.core());
}

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().expect("a number")).collect();
    let depth = args.first().copied().unwrap_or(32) as usize;
    let seconds = args.get(1).copied().unwrap_or(3) as f64;
    let log_mib = args.get(2).copied().unwrap_or(1024);
    let options = UringOptions { cores: 1, ..UringOptions::default() };
    let cores = launch(options, move |rt| {
        let devices = vec![Device::memory(log_mib << 20).expect("memory for it"), Device::memory(1 << 30).expect("memory for it")];
        let ready = Rc::new(RefCell::new(None));
        rt.spawn(open(rt.clone(), devices.clone(), Rc::clone(&ready), true));
        let crc = crc32c(&[7; BLOCK_BYTES]);
        Box::new(Bench {
            ready,
            devices,
            depth,
            seconds,
            phase: 0,
            began: None,
            ops: 0,
            in_flight: 0,
            bufs: Vec::new(),
            crc,
            random: 1,
            reopening: false,
        })
    })
    .expect("a core");
    cores.join().expect("no panic");
}
