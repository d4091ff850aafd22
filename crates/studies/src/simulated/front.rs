//! The clients of modelled nodes: they play the load and keep its latencies.
//!
//! ```text
//! Thread: operation drawn ──► submitted ──► answered by the node ──► seen by the client ──► counted ──► the next one
//! ```
//!
//! They sit behind the front end, on the node's cores: a volume is used on one core of its owner, as by a queue of NVMe/TCP on the optimised path
//! ([`crate::model::place::entrances`]). Or they are on hosts of their own, and speak a protocol (`hosts`).
//! Invariants: an operation is counted once, when its client sees the answer; the open loop counts from the intended start; the same load and seed
//! give the same operations.
//! Never: waits; knows where data lies.

use super::tally::Tally;
use base::IoClass;
use base::{Instant, crc32c};
use frontend::{Backend, Client, Data, DataVec, IoOp, IoRequest, VolumeRef, extents};
use lab::workload::generate::{Operation, Schedule, Thread};
use rt::sim::LinkWay;
use rt::{Buf, Queue, Rt, TimerId};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// Contents that blocks are written with: few, so that disks of many GiB fit in memory.
const PATTERNS: usize = 16;
const BLOCK: usize = base::BLOCK_BYTES;
/// An open loop whose operations wait for a free thread keeps at most so many; more are counted as errors when they come.
pub const WAITING_MAX: usize = 1 << 20;

/// One content of a block and its checksum.
struct Pattern {
    bytes: [u8; BLOCK],
    crc: u32,
}

/// What all clients share.
pub struct Shared {
    patterns: Vec<Pattern>,
    pattern: usize,
    /// What the clients do now.
    pub play: Option<Play>,
    /// Where each volume is used: node, core.
    entrances: Vec<(usize, usize)>,
    /// In nanoseconds.
    round_trip_ns: u64,
    /// Hosts whose connections are open.
    pub hosts_ready: usize,
    /// What went wrong first.
    pub wrong: Option<String>,
}

/// A load that is played.
pub struct Play {
    /// When it began, in nanoseconds of the world.
    pub began: u64,
    /// No operation is begun after.
    pub ends: u64,
    /// Figures; latencies are in the model's time.
    pub tally: Tally,
    /// Each volume.
    pub disks: Vec<Disk>,
    /// Operations that were begun and are not counted yet.
    pub under_way: usize,
}

/// A volume under load.
pub struct Disk {
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Open loop: when operations come, and where from.
    pub open: Option<(Schedule, Thread)>,
    /// Closed loop with a limit: nanoseconds between operations, and when the next may begin.
    pub limit: Option<(f64, f64)>,
    /// When threads that a limit holds back are looked at again, if that is arranged: once for all of them.
    pub called: Option<u64>,
    /// Threads without an operation.
    pub idle: Vec<usize>,
    /// Operations of the open loop that wait for a thread, by their intended starts.
    pub waiting: VecDeque<(u64, Operation)>,
}

struct Flight {
    disk: usize,
    thread: usize,
    op: Operation,
    intended: u64,
    good: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The client sees an answer: its flight.
    Seen(usize),
    /// An open loop's operation comes, or a limit lets one begin.
    Come(usize),
}

/// The way to the volumes.
pub trait Door {
    /// An operation on a disk. Its answer comes with the number `at`.
    fn submit(&mut self, rt: &Rt, shared: &mut Shared, at: usize, disk: usize, op: &Operation);
}

/// Whether a disk, by its number, is played by certain clients.
type IsHere = Box<dyn Fn(&Shared, usize) -> bool>;

/// Clients on one core.
pub struct Clients {
    shared: Rc<RefCell<Shared>>,
    /// Whether a disk is played here.
    is_here: IsHere,
    queue: Queue,
    timer: Option<(TimerId, u64)>,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    number: u64,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Which play it has begun, by its beginning.
    began: u64,
}

impl Shared {
    /// For a world in which volumes are used here, by clients so far away.
    pub fn new(seed: u64, entrances: Vec<(usize, usize)>, round_trip_ns: u64) -> Shared {
        let mut rng = rt::sim::Rng::new(seed ^ 0xDA7A);
        let pattern = |_| {
            let mut bytes = [0; BLOCK];
            bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&rng.next_u64().to_le_bytes()));
            Pattern { crc: crc32c(&bytes), bytes }
        };
        Shared {
            patterns: (0..PATTERNS).map(pattern).collect(),
            pattern: 0,
            play: None,
            entrances,
            round_trip_ns,
            hosts_ready: 0,
            wrong: None,
        }
    }

    /// The next block of a disk.
    fn next_pattern(&mut self) -> &Pattern {
        self.pattern = (self.pattern + 1) % PATTERNS;
        &self.patterns[self.pattern]
    }
    /// Bytes to write, as a host sends them.
    pub fn bytes(&mut self, len: u32) -> Vec<u8> {
        let mut data = vec![1; len as usize];
        data.chunks_exact_mut(BLOCK).for_each(|block| block.copy_from_slice(&self.next_pattern().bytes));
        data
    }
    fn data(&mut self, offset: u64, len: u32) -> DataVec {
        let mut parts = DataVec::new();
        for extent in extents(offset, len) {
            let mut buf = Buf::alloc(extent.len as usize);
            let mut data = Data { buf: Buf::alloc(0), crcs: Default::default() };
            if extent.is_aligned() {
                for block in buf.chunks_exact_mut(BLOCK) {
                    let pattern = self.next_pattern();
                    block.copy_from_slice(&pattern.bytes);
                    data.crcs.push(pattern.crc);
                }
            } else {
                buf.fill(1);
            }
            data.buf = buf;
            parts.push(data);
        }
        parts
    }

    /// When a client sees what is done now: after its node's link, in its order, and the round trip.
    fn seen_at(&mut self, rt: &Rt, kind: IoClass, bytes: u32) -> u64 {
        let moved = if kind == IoClass::Discard { 0 } else { bytes as usize };
        let way = if kind == IoClass::Read { LinkWay::Out } else { LinkWay::In };
        rt::sim::on_link(rt, way, moved).0 + self.round_trip_ns
    }
}

impl Clients {
    /// Clients of these disks.
    pub fn new(rt: &Rt, shared: Rc<RefCell<Shared>>, is_here: impl Fn(&Shared, usize) -> bool + 'static) -> Clients {
        Clients {
            shared,
            is_here: Box::new(is_here),
            queue: rt.queue(),
            timer: None,
            due: BinaryHeap::new(),
            number: 0,
            flights: Vec::new(),
            free: Vec::new(),
            began: 0,
        }
    }

    fn later(&mut self, at: u64, due: Due) {
        self.number += 1;
        self.due.push(Reverse((at, self.number, due)));
    }

    /// A new play: every thread of this core's volumes begins.
    fn begin(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door) {
        let Some(play) = &shared.play else { return };
        if play.began == self.began {
            return;
        }
        self.began = play.began;
        let mine: Vec<usize> = (0..play.disks.len()).filter(|d| (self.is_here)(shared, *d)).collect();
        for disk in mine {
            let d = &shared.play.as_ref().expect("looked at above").disks[disk];
            match &d.open {
                Some((schedule, _)) => {
                    let at = self.began + schedule.at_ns();
                    self.later(at, Due::Come(disk));
                }
                None => self.start_idle(rt, shared, door, disk),
            }
        }
    }

    /// Lets threads without work begin, as far as the loop's kind lets them.
    fn start_idle(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door, disk: usize) {
        let now = rt.now().0;
        loop {
            let Some(play) = &mut shared.play else { return };
            let ends = play.ends;
            let d = &mut play.disks[disk];
            let Some(&thread) = d.idle.last() else { return };
            let (intended, op) = match (&d.open, &mut d.limit) {
                (Some(_), _) => match d.waiting.pop_front() {
                    Some(next) => next,
                    None => return,
                },
                (None, _) if now >= ends => return,
                (None, Some((gap, next))) => {
                    if *next > now as f64 {
                        let at = next.ceil() as u64;
                        if d.called.replace(at) != Some(at) {
                            self.later(at, Due::Come(disk));
                        }
                        return;
                    }
                    // What was missed by a tick is made good, what was missed by a stall is not.
                    *next = next.max(now as f64 - *gap * 16.0) + *gap;
                    (now, d.threads[thread].next_operation())
                }
                (None, None) => (now, d.threads[thread].next_operation()),
            };
            d.idle.pop();
            self.submit(rt, shared, door, Flight { disk, thread, op, intended, good: false });
        }
    }

    fn submit(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door, flight: Flight) {
        let Flight { disk, op, .. } = flight;
        let at = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[at] = Some(flight);
        if let Some(play) = &mut shared.play {
            play.under_way += 1;
        }
        door.submit(rt, shared, at, disk, &op);
    }

    /// The node has answered an operation; its client sees that then.
    fn answered(&mut self, shared: &mut Shared, at: usize, problem: Option<String>) -> &Flight {
        let flight = self.flights[at].as_mut().expect("an answer to an operation under way");
        flight.good = problem.is_none();
        if let Some(problem) = problem {
            shared.wrong.get_or_insert_with(|| format!("volume {}: {problem}", flight.disk + 1));
        }
        flight
    }
    /// A client sees an answer now.
    pub fn ended(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door, at: usize, problem: Option<String>) {
        self.answered(shared, at, problem);
        self.seen(rt, shared, door, at);
    }

    fn seen(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door, at: usize) {
        let flight = self.flights[at].take().expect("seen once");
        self.free.push(at);
        let now = rt.now().0;
        let Some(play) = &mut shared.play else { return };
        play.under_way -= 1;
        play.tally.record(&flight.op, now - flight.intended, flight.good);
        play.disks[flight.disk].idle.push(flight.thread);
        self.start_idle(rt, shared, door, flight.disk);
    }

    /// An operation of an open loop comes, or a limit lets one begin.
    fn come(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door, disk: usize) {
        let Some(play) = &mut shared.play else { return };
        let (began, ends) = (play.began, play.ends);
        let d = &mut play.disks[disk];
        d.called = d.called.filter(|at| *at > rt.now().0);
        if let Some((schedule, thread)) = &mut d.open {
            let intended = began + schedule.at_ns();
            // One that comes early was left by the play before: this play's own follows.
            if intended >= ends || intended > rt.now().0 {
                return;
            }
            let op = thread.next_operation();
            schedule.advance();
            let next = began + schedule.at_ns();
            if d.waiting.len() < WAITING_MAX {
                d.waiting.push_back((intended, op));
            } else {
                shared.wrong.get_or_insert_with(|| format!("volume {}: a million operations wait; the load is far too much", disk + 1));
            }
            self.later(next, Due::Come(disk));
        }
        self.start_idle(rt, shared, door, disk);
    }

    fn arm(&mut self, rt: &Rt, disks: usize) {
        // An answer for each flight; for each disk one look at what comes next, and one that is left of the play before.
        debug_assert!(
            self.due.len() <= self.flights.len() + 2 * disks,
            "{} events, {} flights, {disks} disks",
            self.due.len(),
            self.flights.len()
        );
        let Some(Reverse((at, ..))) = self.due.peek() else { return };
        if self.timer.is_some_and(|(_, armed)| armed <= *at) {
            return;
        }
        if let Some((id, _)) = self.timer.take() {
            rt.cancel_timer(id);
        }
        self.timer = Some((rt.timer(&self.queue, 0, Instant(*at)), *at));
    }
}

impl Clients {
    /// Does what is due; whether there was something.
    pub fn go_on(&mut self, rt: &Rt, shared: &mut Shared, door: &mut dyn Door) -> bool {
        while self.queue.pop().is_some() {
            self.timer = None;
        }
        self.begin(rt, shared, door);
        let (now, mut busy) = (rt.now().0, false);
        while let Some(Reverse((at, _, due))) = self.due.peek().copied() {
            if at > now {
                break;
            }
            self.due.pop();
            busy = true;
            match due {
                Due::Seen(flight) => self.seen(rt, shared, door, flight),
                Due::Come(disk) => self.come(rt, shared, door, disk),
            }
        }
        let disks = shared.play.as_ref().map_or(0, |play| play.disks.len());
        self.arm(rt, disks);
        busy
    }
}

/// The clients of a core of a node, behind the front end.
pub struct AtTheDoor {
    clients: Clients,
    /// Nanoseconds of the core for a request, besides devices: those of the front end.
    request_ns: f64,
}

impl AtTheDoor {
    /// On a core of a node.
    pub fn new(rt: &Rt, shared: Rc<RefCell<Shared>>, node: usize, request_ns: f64) -> AtTheDoor {
        let here = (node, rt.core());
        AtTheDoor { clients: Clients::new(rt, shared, move |shared, disk| shared.entrances[disk] == here), request_ns }
    }
}

struct Volumes<'a> {
    backend: &'a mut dyn Backend,
    request_ns: f64,
}

impl Door for Volumes<'_> {
    fn submit(&mut self, rt: &Rt, shared: &mut Shared, at: usize, disk: usize, op: &Operation) {
        rt::sim::charge(rt, self.request_ns);
        let (offset, len) = (op.offset, u64::from(op.bytes));
        let op = match op.kind {
            IoClass::Read => IoOp::Read { offset, len: op.bytes },
            IoClass::Write => IoOp::Write { offset, data: shared.data(offset, op.bytes) },
            IoClass::Discard => IoOp::Trim { offset, len },
        };
        self.backend.submit(rt, IoRequest::new(at as u64, VolumeRef(disk as u32), op));
    }
}

impl Client for AtTheDoor {
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool {
        let AtTheDoor { clients, request_ns } = self;
        let shared = Rc::clone(&clients.shared);
        let mut shared = shared.borrow_mut();
        let mut busy = false;
        while let Some(done) = backend.pop() {
            busy = true;
            let at = done.token as usize;
            let Operation { kind, bytes, .. } = clients.answered(&mut shared, at, done.result.err().map(|e| e.to_string())).op;
            let seen = shared.seen_at(rt, kind, bytes);
            clients.later(seen, Due::Seen(at));
        }
        clients.go_on(rt, &mut shared, &mut Volumes { backend, request_ns: *request_ns }) || busy
    }
}
