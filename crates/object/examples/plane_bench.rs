//! What one disk group on one device does with one core and with two, without any client: each core submits at its own door of the object
//! layer, so what is measured is object layer, store and the mailboxes between the cores.
//!
//! `cargo run --release -p object --example plane_bench -- [memory | DIRECTORY [depth [seconds a phase [rounds]]]]`
//!
//! Phases: the volume is filled, then 4 KiB random writes, then 4 KiB random reads, `depth` requests in flight over all cores. One and two cores
//! take turns; medians over the rounds are reported: operations a second, and processor time of all threads for each operation.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a program of its own; the clock and the threads' times are only for the report
#![forbid(unsafe_code)]

use base::unit::BLOCK_BYTES;
use base::{ClusterId, ComponentId, GroupId, Instant, ObjectId, Ownership, VolumeId, crc32c};
use object::{
    Backend, ComponentAt, Data, DataVec, GroupRoute, GroupSlot, IoOp, IoRequest, LaneCores, LayoutView, Limits, Mirror, RouterMsg,
    VolumeLayout, VolumeRef, VolumeRouter,
};
use rt::{App, Buf, Device, MeshEnd, OpenOptions, Progress, Rt, UringOptions, launch};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use store::{ComponentSpec, FormatSpec, Group, Settings, Shard, format_group, open_group};

const SHARDS: u8 = 4;
const VOLUME_BYTES: u64 = 1 << 30;
const LOG_BYTES: u64 = 2 << 30;
const CAPACITY_BYTES: u64 = 4 << 30;
const MESH_DEPTH: usize = 4096;
const ROUTE: GroupRoute = GroupRoute { shards: SHARDS, first_core: 0 };
const CORES: [usize; 2] = [1, 2];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Fill,
    Write,
    Read,
}
const PHASES: [Phase; 3] = [Phase::Fill, Phase::Write, Phase::Read];

/// What the cores of one run share.
struct Shared {
    cores: usize,
    depth: usize,
    seconds: f64,
    group: Mutex<Option<(Group, Arc<LayoutView>)>>,
    /// Cores that have opened their shards, then those that have ended each phase.
    arrived: [AtomicUsize; PHASES.len() + 1],
    operations: [AtomicU64; PHASES.len()],
    /// Processor time of all threads in each phase, in nanoseconds.
    processor_ns: [AtomicU64; PHASES.len()],
}

struct Bench {
    shared: Arc<Shared>,
    mesh: MeshEnd<RouterMsg>,
    router: Rc<RefCell<VolumeRouter>>,
    opening: bool,
    phase: usize,
    began: Option<(Instant, u64)>,
    over: bool,
    submitted: u64,
    done: u64,
    in_flight: usize,
    bufs: Vec<Buf>,
    crc: u32,
    random: u64,
}

impl App for Bench {
    fn poll(&mut self, rt: &Rt) -> Progress {
        if !self.opening {
            self.opening = self.open_shards(rt);
            return Progress::Busy;
        }
        let mut busy = false;
        while let Some(msg) = self.mesh.recv() {
            self.router.borrow_mut().on_msg(rt, msg);
            busy = true;
        }
        if self.phase == PHASES.len() {
            // Others may still need this core's shards.
            self.router.borrow_mut().poll(rt, |_| true);
            self.send(rt);
            let all = self.shared.arrived[PHASES.len()].load(SeqCst) == self.shared.cores;
            return if all { Progress::Stop } else { Progress::Busy };
        }
        if self.shared.arrived[self.phase].load(SeqCst) < self.shared.cores {
            self.router.borrow_mut().poll(rt, |_| true);
            self.send(rt);
            return Progress::Busy;
        }
        busy |= self.work(rt);
        self.send(rt);
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

impl Bench {
    /// Opens this core's shards when the group is there.
    fn open_shards(&self, rt: &Rt) -> bool {
        let Some((group, layout)) = self.shared.group.lock().expect("no panic").clone() else { return false };
        let (rt, router, shared) = (rt.clone(), Rc::clone(&self.router), Arc::clone(&self.shared));
        rt.clone().spawn(async move {
            for no in (0..SHARDS).filter(|no| ROUTE.core(usize::from(*no), rt.cores()) == rt.core()) {
                let shard = Shard::open(&rt, &group, no, Settings::default()).await.expect("opens");
                router.borrow_mut().lanes_mut().add_shard(GroupSlot(0), no, shard);
            }
            router.borrow_mut().set_route(GroupSlot(0), Some(ROUTE));
            router.borrow_mut().apply(&rt, layout, |_| true);
            shared.arrived[0].fetch_add(1, SeqCst);
            rt.wake(rt.core());
        });
        true
    }

    fn work(&mut self, rt: &Rt) -> bool {
        let router = Rc::clone(&self.router);
        let router = &mut *router.borrow_mut();
        let mut busy = router.poll(rt, |_| true);
        while let Some(done) = router.pop() {
            done.result.expect("healthy devices");
            self.bufs.extend(done.data.into_iter().map(|d| d.buf));
            self.bufs.truncate(self.shared.depth);
            self.in_flight -= 1;
            self.done += u64::from(!self.over);
            busy = true;
        }
        let (began, processor_ns) = *self.began.get_or_insert_with(|| (rt.now(), processor_ns()));
        let phase = PHASES[self.phase];
        let share = VOLUME_BYTES / BLOCK_BYTES as u64 / self.shared.cores as u64;
        let end = if phase == Phase::Fill { self.submitted == share } else { rt.now().since(began).as_secs_f64() >= self.shared.seconds };
        if end && !self.over {
            self.over = true;
            if rt.core() == 0 {
                self.shared.processor_ns[self.phase].store(processor_ns_since(processor_ns), SeqCst);
            }
        }
        if self.over {
            if self.in_flight == 0 {
                self.end_phase();
            }
            return true;
        }
        while self.in_flight < self.shared.depth / self.shared.cores && (phase != Phase::Fill || self.submitted < share) {
            let request = self.request(rt, phase, share);
            router.submit(rt, request);
            busy = true;
        }
        busy
    }

    fn request(&mut self, rt: &Rt, phase: Phase, share: u64) -> IoRequest {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = match phase {
            Phase::Fill => rt.core() as u64 * share + self.submitted,
            Phase::Write | Phase::Read => (self.random >> 33) % (VOLUME_BYTES / BLOCK_BYTES as u64),
        };
        let offset = block * BLOCK_BYTES as u64;
        let op = if phase == Phase::Read {
            IoOp::Read { offset, len: BLOCK_BYTES as u32 }
        } else {
            // The same content each time: making data is not what is measured. Its checksum is that of the buffer.
            let mut buf = self.bufs.pop().unwrap_or_else(|| Buf::alloc(BLOCK_BYTES));
            buf.fill(7);
            IoOp::Write { offset, data: DataVec::from_iter([Data { buf, crcs: [self.crc].into_iter().collect() }]) }
        };
        self.submitted += 1;
        self.in_flight += 1;
        IoRequest::new(self.submitted, VolumeRef(0), op)
    }

    fn end_phase(&mut self) {
        self.shared.operations[self.phase].fetch_add(self.done, SeqCst);
        self.phase += 1;
        self.shared.arrived[self.phase].fetch_add(1, SeqCst);
        (self.began, self.over, self.submitted, self.done) = (None, false, 0, 0);
    }

    fn send(&mut self, rt: &Rt) {
        let router = &mut *self.router.borrow_mut();
        while let Some((to, msg)) = router.pop_msg() {
            if to == rt.core() {
                router.on_msg(rt, msg);
            } else if let Err(msg) = self.mesh.send(rt, to, msg) {
                router.unpop_msg(to, msg);
                break;
            }
        }
        self.mesh.flush_wakes(rt);
    }
}

/// Processor time of all threads of this process so far, in nanoseconds.
fn processor_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a mounted /proc");
    let times = tasks.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok());
    times.filter_map(|s| s.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

fn processor_ns_since(earlier: u64) -> u64 {
    processor_ns().saturating_sub(earlier)
}

/// Makes the group with one component, and tells the cores.
async fn make(rt: Rt, shared: Arc<Shared>, devices: Vec<Device>) {
    let spec = FormatSpec {
        cluster: ClusterId::from_bytes([1; 16]),
        group: GroupId::from_bytes([2; 16]),
        name: "bench".into(),
        shards: SHARDS,
        created_unix_s: 0,
        force: true,
    };
    format_group(&rt, spec, &devices[0], &devices[1..]).await.expect("formats");
    let group = open_group(&rt, None, &devices).await.expect("opens");
    let spec = ComponentSpec {
        id: ComponentId::from_bytes([1; 16]),
        object: ObjectId::from_bytes([1; 16]),
        capacity_index: 0,
        bytes: VOLUME_BYTES,
        reserve_chunks: 0,
        descriptor: Vec::new(),
    };
    let no = group.create_component(&rt, spec).await.expect("creates");
    let volume = VolumeLayout {
        id: VolumeId::from_bytes([1; 16]),
        lanes: VolumeRef(0),
        bytes: VOLUME_BYTES,
        read_only: false,
        checksum: true,
        limits: Arc::new(Limits::default()),
        ownership: Ownership::FIRST,
        mirrors: vec![Mirror::of_one(ComponentAt { group: GroupSlot(0), no }, LaneCores::of_group(ROUTE, rt.cores()))],
        owner: None,
        revision: 0,
    };
    *shared.group.lock().expect("no panic") =
        Some((group, Arc::new(LayoutView { volumes: vec![Some(Arc::new(volume))], ..LayoutView::default() })));
}

fn devices(place: &str) -> Vec<Device> {
    if place == "memory" {
        return vec![Device::memory(LOG_BYTES).expect("memory for it"), Device::memory(CAPACITY_BYTES).expect("memory for it")];
    }
    let file = |name: &str, bytes| {
        let path = Path::new(place).join(name);
        let _ = std::fs::remove_file(&path); // of a run that was cut short
        Device::open(&path, &OpenOptions { create_bytes: Some(bytes), ..OpenOptions::default() }).expect("a file")
    };
    vec![file("plane_bench.cache", LOG_BYTES), file("plane_bench.capacity", CAPACITY_BYTES)]
}

/// For each phase: operations a second, and nanoseconds of processor time an operation.
fn run(place: &str, cores: usize, depth: usize, seconds: f64) -> [(f64, f64); PHASES.len()] {
    let shared = Arc::new(Shared {
        cores,
        depth,
        seconds,
        group: Mutex::default(),
        arrived: Default::default(),
        operations: Default::default(),
        processor_ns: Default::default(),
    });
    let ends = Mutex::new(rt::mesh(cores, MESH_DEPTH).into_iter().map(Some).collect::<Vec<_>>());
    let (given, place) = (Arc::clone(&shared), place.to_owned());
    let options = UringOptions { cores, ..UringOptions::default() };
    let running = launch(options, move |rt| {
        if rt.core() == 0 {
            rt.spawn(make(rt.clone(), Arc::clone(&given), devices(&place)));
        }
        Box::new(Bench {
            shared: Arc::clone(&given),
            mesh: ends.lock().expect("no panic")[rt.core()].take().expect("a core starts once"),
            router: Rc::new(RefCell::new(VolumeRouter::new(&rt))),
            opening: false,
            phase: 0,
            began: None,
            over: false,
            submitted: 0,
            done: 0,
            in_flight: 0,
            bufs: Vec::new(),
            crc: crc32c(&[7; BLOCK_BYTES]),
            random: rt.core() as u64 + 1,
        })
    });
    running.expect("cores").join().expect("no panic");
    std::array::from_fn(|p| {
        let operations = shared.operations[p].load(SeqCst) as f64;
        (operations / seconds, shared.processor_ns[p].load(SeqCst) as f64 / operations)
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Of each number of cores and phase: operations a second, and nanoseconds of processor time each.
type Run = [[(f64, f64); PHASES.len()]; CORES.len()];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| args.get(n).map_or(default, |a| a.parse().expect("a number"));
    let place = args.first().map_or("memory", String::as_str);
    let (depth, seconds, rounds) = (number(1, 64) as usize, number(2, 3) as f64, number(3, 5));
    let mut runs: Vec<Run> = Vec::new();
    for round in 0..rounds {
        let run = CORES.map(|cores| run(place, cores, depth, seconds));
        for (p, phase) in PHASES.iter().enumerate().skip(1) {
            let [(one, one_ns), (two, two_ns)] = [run[0][p], run[1][p]];
            println!(
                "round {round} {phase:?}: one core {one:.0}/s ({one_ns:.0} ns each), two {two:.0}/s ({two_ns:.0} ns each), {:.2} times",
                two / one
            );
        }
        runs.push(run);
    }
    for (p, phase) in PHASES.iter().enumerate().skip(1) {
        let of = |pick: &dyn Fn(&Run) -> f64| median(runs.iter().map(pick).collect());
        println!(
            "median {phase:?}: one core {:.0}/s ({:.0} ns each), two {:.0}/s ({:.0} ns each), {:.2} times (median of the rounds' ratios)",
            of(&|r| r[0][p].0),
            of(&|r| r[0][p].1),
            of(&|r| r[1][p].0),
            of(&|r| r[1][p].1),
            of(&|r| r[1][p].0 / r[0][p].0)
        );
    }
    if place != "memory" {
        for file in ["plane_bench.cache", "plane_bench.capacity"] {
            std::fs::remove_file(Path::new(place).join(file)).expect("our file");
        }
    }
}
