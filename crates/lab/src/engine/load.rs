//! One worker's part of a load, without I/O: what is to be started now, and what comes of it.
//!
//! ```text
//!            next(now) ──► Issue ──(the engine does it)──► done(slot, now) ──► recorder
//!  closed:   a slot that is free        limited: and the pace allows       open: and an arrival is due (its time is the start)
//! ```
//!
//! Invariants: at most one operation a slot; a flush comes after the write that it is for has ended, and before its slot does anything else; an open loop's arrivals are never dropped while the load runs: those that find no slot wait, and
//! their waiting counts; nothing is started after the window.
//! Never: reads a clock, does I/O, allocates for an operation.

use crate::measure::recorder::{Recorder, Window};
use crate::workload::generate::{AccessPlan, Operation, Schedule, Thread};
use crate::workload::{Arrivals, Workload};
use base::IoClass;
use std::sync::Arc;

/// Bytes of an operation that fills a disk.
pub const FILL_BYTES: u32 = 1 << 20;
/// Operations under way on each disk that is filled.
pub const FILL_DEPTH: u32 = 16;
/// How much of a pause a limited loop may catch up with, in nanoseconds: late timers do not cost rate, stalls do.
const CATCH_UP_NS: f64 = 100e6;
/// Arrivals that were left waiting are counted up to this.
const WAITING_MAX: u64 = 10_000_000;

/// A part of one disk's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePart {
    /// Number of the disk.
    pub disk: usize,
    /// The first of its threads.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Deals `depth` threads on each of `disks` disks to at most `workers` workers: disks first, then threads.
pub fn deal(disks: usize, depth: u32, workers: usize) -> Vec<Vec<LanePart>> {
    let workers = workers.clamp(1, disks * depth as usize);
    let mut dealt: Vec<Vec<LanePart>> = vec![Vec::new(); workers];
    if workers <= disks {
        (0..disks).for_each(|disk| dealt[disk % workers].push(LanePart { disk, first: 0, count: depth }));
        return dealt;
    }
    // More workers than disks: worker w works on disk w modulo disks, with its part of the disk's threads.
    for disk in 0..disks {
        let mine: Vec<usize> = (0..workers).filter(|w| w % disks == disk).collect();
        let parts = mine.len() as u32;
        for (i, w) in (0..).zip(mine) {
            let (first, end) = (depth * i / parts, depth * (i + 1) / parts);
            if end > first {
                dealt[w].push(LanePart { disk, first, count: end - first });
            }
        }
    }
    dealt.retain(|lanes| !lanes.is_empty());
    dealt
}

/// An operation to start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Comes back with [`Load::done`].
    pub slot: usize,
    /// Which lane of this worker.
    pub lane: usize,
    /// Number of the disk.
    pub disk: usize,
    /// What to do.
    pub op: Operation,
    /// Instead of it: a flush, after this write of the same slot.
    pub flush: bool,
}

#[derive(Clone, Copy)]
struct Flight {
    op: Operation,
    began_ns: u64,
    flush: bool,
}

/// What is left of a disk to be filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    at: u64,
    to: u64,
}

struct Lane {
    disk: usize,
    first_slot: usize,
    /// Instead of threads: the whole working set, once.
    filling: Option<Filling>,
    /// One a slot in a closed loop; one in all in an open one.
    threads: Vec<Thread>,
    free: Vec<usize>,
    schedule: Option<Schedule>,
}

impl Filling {
    fn next_operation(&mut self) -> Operation {
        let bytes = (self.to - self.at).min(u64::from(FILL_BYTES)) as u32;
        let op = Operation { kind: IoClass::Write, stream: 0, offset: self.at, bytes };
        self.at += u64::from(bytes);
        op
    }
}

/// See the module.
pub struct Load {
    lanes: Vec<Lane>,
    slots: Vec<Option<Flight>>,
    slot_lane: Vec<usize>,
    turn: usize,
    in_flight: usize,
    window: Window,
    /// Of a limited loop: when the next operation may start, and the gap.
    pace: Option<(f64, f64)>,
    /// Writes between two flushes, by stream; 0: never.
    flush_every: Vec<u32>,
    /// Writes since the last flush, by slot.
    unflushed: Vec<u32>,
    /// Slots that flush before anything else, with the write that was last.
    flushes: Vec<(usize, Operation)>,
    /// Of an open loop: operations that should have come before the measurement and ended in it.
    carried: u64,
    /// What was counted.
    pub recorder: Recorder,
}

impl Load {
    /// The part `lanes` of `workload`, whose disks are laid out as `plans` say.
    pub fn new(workload: &Workload, plans: &[Arc<AccessPlan>], lanes: &[LanePart], seed: u64, window: Window) -> Load {
        let (mut slots, mut slot_lane) = (0, Vec::new());
        let threads_in_all = plans.len() as f64 * f64::from(workload.depth);
        let mine: u32 = lanes.iter().map(|l| l.count).sum();
        let lane = |(number, part): (usize, &LanePart)| {
            let share = f64::from(part.count) / threads_in_all;
            let source = (part.disk as u64) << 32 | u64::from(part.first);
            let schedule = Schedule::new(&workload.arrivals, share, seed, source);
            let sources = if schedule.is_some() { 1 } else { part.count };
            let thread =
                |n: u32| Thread::new(&plans[part.disk], seed, part.disk as u64, u64::from(part.first + n), u64::from(workload.depth));
            let first_slot = slots;
            slots += part.count as usize;
            slot_lane.resize(slots, number);
            Lane {
                disk: part.disk,
                first_slot,
                filling: None,
                threads: (0..sources).map(thread).collect(),
                free: (first_slot..slots).rev().collect(),
                schedule,
            }
        };
        let lanes: Vec<Lane> = lanes.iter().enumerate().map(lane).collect();
        let pace = match workload.arrivals {
            Arrivals::Limited { iops } => Some((0.0, 1e9 / (iops * f64::from(mine) / threads_in_all))),
            _ => None,
        };
        let recorder = Recorder::new(window, workload.streams.len());
        let flush_every = workload.streams.iter().map(|s| s.flush_every).collect();
        Load {
            lanes,
            slots: vec![None; slots],
            slot_lane,
            turn: 0,
            in_flight: 0,
            window,
            pace,
            flush_every,
            unflushed: vec![0; slots],
            flushes: Vec::with_capacity(slots),
            carried: 0,
            recorder,
        }
    }

    /// Writes the first bytes of disks, (disk, bytes) each, once: [`FILL_DEPTH`] operations of [`FILL_BYTES`] at a time.
    pub fn fill(disks: &[(usize, u64)]) -> Load {
        let window = Window { from_ns: 0, to_ns: u64::MAX };
        let depth = FILL_DEPTH as usize;
        let lane = |(n, &(disk, to)): (usize, &(usize, u64))| Lane {
            disk,
            first_slot: n * depth,
            filling: Some(Filling { at: 0, to }),
            threads: Vec::new(),
            free: (n * depth..(n + 1) * depth).rev().collect(),
            schedule: None,
        };
        let lanes: Vec<Lane> = disks.iter().enumerate().map(lane).collect();
        let slot_lane = (0..lanes.len() * depth).map(|slot| slot / depth).collect();
        let slots = vec![None; lanes.len() * depth];
        Load {
            lanes,
            slots,
            slot_lane,
            turn: 0,
            in_flight: 0,
            window,
            pace: None,
            flush_every: vec![0],
            unflushed: Vec::new(),
            flushes: Vec::new(),
            carried: 0,
            recorder: Recorder::new(window, 1),
        }
    }

    /// Slots of this worker: operations that can be under way.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }
    /// Operations under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }
    /// Whether the window is over.
    pub fn over(&self, now_ns: u64) -> bool {
        now_ns >= self.window.to_ns || self.lanes.iter().all(|l| l.filling.is_some_and(|f| f.at >= f.to))
    }
    /// Ends the window now: nothing more is started or counted.
    pub fn end_at(&mut self, now_ns: u64) {
        self.window.to_ns = self.window.to_ns.min(now_ns);
    }

    /// The next operation to start, if there is one now.
    #[inline]
    pub fn next(&mut self, now_ns: u64) -> Option<Issue> {
        if self.over(now_ns) {
            return None;
        }
        if let Some((slot, op)) = self.flushes.pop() {
            self.slots[slot] = Some(Flight { op, began_ns: now_ns, flush: true });
            self.in_flight += 1;
            let lane = self.slot_lane[slot];
            return Some(Issue { slot, lane, disk: self.lanes[lane].disk, op, flush: true });
        }
        if let Some((next_ns, _)) = self.pace
            && (now_ns as f64) < next_ns
        {
            return None;
        }
        for _ in 0..self.lanes.len() {
            let number = self.turn;
            self.turn = if self.turn + 1 == self.lanes.len() { 0 } else { self.turn + 1 };
            let lane = &mut self.lanes[number];
            let began_ns = match &mut lane.schedule {
                Some(s) if s.at_ns() <= now_ns && !lane.free.is_empty() => {
                    let at = s.at_ns();
                    s.advance();
                    at
                }
                Some(_) => continue,
                None => now_ns,
            };
            if lane.filling.is_some_and(|f| f.at >= f.to) {
                continue;
            }
            let Some(slot) = lane.free.pop() else { continue };
            let op = match &mut lane.filling {
                Some(fill) => fill.next_operation(),
                None if lane.threads.len() == 1 => lane.threads[0].next_operation(),
                None => lane.threads[slot - lane.first_slot].next_operation(),
            };
            self.slots[slot] = Some(Flight { op, began_ns, flush: false });
            self.in_flight += 1;
            if let Some((next_ns, gap_ns)) = &mut self.pace {
                *next_ns = next_ns.max(now_ns as f64 - CATCH_UP_NS) + *gap_ns;
            }
            return Some(Issue { slot, lane: number, disk: lane.disk, op, flush: false });
        }
        None
    }

    /// When [`Load::next`] may have something although nothing ends; `None`: only when something ends.
    pub fn wake_at_ns(&self) -> Option<u64> {
        let has_room = |l: &&Lane| !l.free.is_empty();
        let arrivals = self.lanes.iter().filter(has_room).filter_map(|l| l.schedule.as_ref()).map(Schedule::at_ns);
        if !self.flushes.is_empty() {
            return Some(0);
        }
        let paced = self.pace.filter(|_| self.in_flight < self.slots.len()).map(|(next_ns, _)| next_ns.ceil() as u64);
        arrivals.chain(paced).min()
    }

    /// What a slot is doing; of one that flushes, nothing.
    pub fn operation(&self, slot: usize) -> Option<&Operation> {
        self.slots[slot].as_ref().filter(|f| !f.flush).map(|f| &f.op)
    }

    /// Whether the thread of a slot flushes now, after this write.
    fn flushes_after(&mut self, slot: usize, op: &Operation) -> bool {
        let every = self.flush_every[op.stream];
        if every == 0 || op.kind != IoClass::Write {
            return false;
        }
        self.unflushed[slot] += 1;
        let due = self.unflushed[slot] >= every;
        if due {
            self.unflushed[slot] = 0;
        }
        due
    }

    /// An operation has ended. Call [`Recorder::roll`] for this time before.
    #[inline]
    pub fn done(&mut self, slot: usize, now_ns: u64, good: bool) {
        let flight = self.slots[slot].take().expect("an operation ends once");
        self.in_flight -= 1;
        if flight.flush {
            self.lanes[self.slot_lane[slot]].free.push(slot);
            self.recorder.record_flush(now_ns, now_ns.saturating_sub(flight.began_ns), good);
            return;
        }
        if good && self.flushes_after(slot, &flight.op) {
            self.flushes.push((slot, flight.op));
        } else {
            self.lanes[self.slot_lane[slot]].free.push(slot);
        }
        if now_ns < self.window.to_ns {
            let latency = now_ns.saturating_sub(flight.began_ns);
            if good && flight.began_ns < self.window.from_ns && now_ns >= self.window.from_ns {
                self.carried += u64::from(self.lanes[self.slot_lane[slot]].schedule.is_some());
            }
            self.recorder.record(now_ns, flight.op.kind, flight.op.stream, flight.op.bytes, latency, good);
        }
    }

    /// Of an open loop: operations that should have come before the measurement and ended in it.
    pub fn carried(&self) -> u64 {
        self.carried
    }

    /// Arrivals that were still waiting when time was up.
    pub fn left_waiting(&mut self) -> u64 {
        let end = self.window.to_ns;
        self.lanes.iter_mut().filter_map(|l| l.schedule.as_mut()).map(|s| s.overdue(end, WAITING_MAX)).sum()
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
