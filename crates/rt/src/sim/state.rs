//! What a world consists of besides the programs: time, chance, events, disks, the network.
//!
//! Invariants: events happen in the order of (time, number given when they were scheduled); nothing but them changes the state,
//! save calls of the programs that run because of one.
//! Never: lets an event happen (that is `step`), runs a program (that is `world`), so that no borrow of the state is held while one runs.

use super::{
    disk::{Disk, DiskOp},
    net::{Net, NetEvent},
    place::Place,
    rng::Rng,
    speed::Drive,
    unix::{Unix, UnixEvent},
    wake::SimWake,
};
use crate::{Event, Queue, TimerId};
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

pub(crate) enum What {
    Complete {
        q: Queue,
        cookie: u64,
        event: Event,
    },
    Timer {
        q: Queue,
        cookie: u64,
    },
    Wake,
    /// A busy core is free again.
    Resume,
    Disk(Box<DiskOp>),
    Net(NetEvent),
    Unix(UnixEvent),
}

pub(crate) struct Scheduled {
    pub(crate) place: Place,
    pub(crate) what: What,
}

/// What every core of a world shares.
pub(crate) struct Shared {
    /// Which world: devices and connections of another are refused.
    pub(crate) id: u64,
    pub(crate) state: RefCell<WorldState>,
    /// Raised when somebody sets the flag of a core.
    pub(crate) any_wake: Arc<AtomicU64>,
    /// Connections that were dropped between two cores.
    pub(crate) dropped: Arc<Mutex<Vec<u64>>>,
}

pub(crate) struct HostState {
    pub(crate) up: bool,
    pub(crate) cores: Vec<CoreState>,
    /// Its clock, where that runs at a rate of its own.
    pub(crate) clock: Option<HostClock>,
}

/// A clock that showed `local` when it was `since`, and runs faster by `permille` (slower, if that is negative).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    pub(crate) since: u64,
    pub(crate) local: u64,
    pub(crate) permille: i32,
}

impl HostClock {
    fn rate(self) -> u128 {
        (1000 + i64::from(self.permille)) as u128
    }
    /// What it shows at a time of the world.
    pub(crate) fn at(self, now: u64) -> u64 {
        self.local + (u128::from(now.saturating_sub(self.since)) * self.rate() / 1000) as u64
    }
    /// The first time of the world at which it shows so much.
    pub(crate) fn when(self, local: u64) -> u64 {
        let ahead = u128::from(local.saturating_sub(self.local)) * 1000;
        self.since.saturating_add(u64::try_from(ahead.div_ceil(self.rate())).unwrap_or(u64::MAX))
    }
}

pub(crate) struct CoreState {
    pub(crate) wake: Arc<SimWake>,
    /// A `Wake` is scheduled.
    pub(crate) wake_coming: bool,
    /// What its work costs; `None`: nothing.
    pub(crate) cost: Option<CoreCost>,
    /// Until when it is busy.
    pub(crate) busy_until: u64,
    /// A `Resume` is scheduled.
    pub(crate) resume_coming: bool,
    /// Nanoseconds that it was busy.
    pub(crate) busy_ns: u64,
}

/// What the work of a core costs, in its nanoseconds. A core with a cost does one thing after another; without one it takes no time at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreCost {
    /// A turn of the loop.
    pub turn_ns: f64,
    /// A device operation that is submitted.
    pub device_op_ns: f64,
    /// A byte of one: checksums and copies.
    pub byte_ns: f64,
    /// A send or receive.
    pub net_op_ns: f64,
    /// A byte of a send.
    pub net_byte_ns: f64,
}

pub(crate) struct WorldState {
    pub(crate) now: u64,
    number: u64,
    pub(crate) rng: Rng,
    trace: u64,
    /// Boxed: what is moved when one comes or goes is its neighbours.
    pub(crate) events: BTreeMap<(u64, u64), Box<Scheduled>>,
    /// When each timer is due, by its number.
    pub(super) timers: BTreeMap<u64, u64>,
    pub(crate) disks: Vec<Disk>,
    /// Modelled drives, which namespaces share.
    pub(crate) drives: Vec<Drive>,
    pub(crate) net: Net,
    pub(crate) unix: Unix,
    pub(crate) hosts: Vec<HostState>,
}

/// How long a message to another core takes, in nanoseconds.
const WAKE_NS: (u64, u64) = (100, 5_000);

impl WorldState {
    pub(crate) fn new(seed: u64) -> WorldState {
        WorldState {
            now: 1_000_000_000,
            number: 0,
            rng: Rng::new(seed),
            trace: seed ^ 0xCBF2_9CE4_8422_2325,
            events: BTreeMap::new(),
            timers: BTreeMap::new(),
            disks: Vec::new(),
            drives: Vec::new(),
            net: Net::default(),
            unix: Unix::default(),
            hosts: Vec::new(),
        }
    }

    /// Takes a fact into the trace hash.
    pub(crate) fn note(&mut self, fact: u64) {
        let mixed = (self.trace ^ fact).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.trace = mixed ^ (mixed >> 29);
    }

    pub(crate) fn trace(&self) -> u64 {
        self.trace
    }

    /// A number never given before.
    pub(crate) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn schedule(&mut self, at: u64, place: Place, what: What) -> u64 {
        let number = self.number();
        self.events.insert((at.max(self.now), number), Box::new(Scheduled { place, what }));
        number
    }

    /// A completion, a moment from now: never within the call that asked.
    pub(crate) fn complete_soon(&mut self, place: Place, q: Queue, cookie: u64, event: Event) {
        let at = self.now + self.rng.between((200, 3_000));
        self.schedule(at, place, What::Complete { q, cookie, event });
    }

    /// What the clock of a host shows.
    pub(crate) fn clock_of(&self, host: usize) -> u64 {
        self.hosts[host].clock.map_or(self.now, |clock| clock.at(self.now))
    }

    /// `at`: by the clock of the host.
    pub(crate) fn timer(&mut self, place: Place, q: Queue, cookie: u64, at: u64) -> TimerId {
        let at = self.hosts[place.host].clock.map_or(at, |clock| clock.when(at)).max(self.now);
        let id = self.schedule(at, place, What::Timer { q, cookie });
        self.timers.insert(id, at);
        TimerId(id)
    }

    pub(crate) fn cancel_timer(&mut self, id: TimerId) {
        if let Some(at) = self.timers.remove(&id.0) {
            self.events.remove(&(at, id.0));
        }
    }

    /// Schedules a run of a core's loop, unless one is coming.
    pub(crate) fn wake(&mut self, place: Place, latency_ns: (u64, u64)) {
        let Some(host) = self.hosts.get_mut(place.host).filter(|h| h.up) else { return };
        if !core::mem::replace(&mut host.cores[place.core].wake_coming, true) {
            let at = self.now + self.rng.between(latency_ns);
            self.schedule(at, place, What::Wake);
        }
    }

    /// A wake-up by another core.
    pub(crate) fn wake_core(&mut self, place: Place) {
        self.wake(place, WAKE_NS);
    }

    /// Work of a core: it is busy for so much longer. Nothing on a core without a cost.
    pub(crate) fn charge(&mut self, place: Place, ns: impl FnOnce(&CoreCost) -> f64) {
        let now = self.now;
        let core = &mut self.hosts[place.host].cores[place.core];
        if let Some(cost) = &core.cost {
            let ns = ns(cost) as u64;
            core.busy_until = core.busy_until.max(now) + ns;
            core.busy_ns += ns;
        }
    }
    /// A core does nothing for so long, whatever comes.
    pub(crate) fn pause(&mut self, place: Place, ns: u64) {
        let until = self.now + ns;
        let core = &mut self.hosts[place.host].cores[place.core];
        core.busy_until = core.busy_until.max(until);
        self.note(40);
        self.note(until);
    }
    /// Whether a core is busy now: then it is run when it is free.
    pub(crate) fn put_off(&mut self, place: Place) -> bool {
        let core = &mut self.hosts[place.host].cores[place.core];
        let until = core.busy_until;
        if until <= self.now {
            return false;
        }
        if !core::mem::replace(&mut core.resume_coming, true) {
            self.schedule(until, place, What::Resume);
        }
        true
    }

    /// Pushes a completion now.
    pub(crate) fn complete(&mut self, q: &Queue, cookie: u64, event: Event) {
        let (kind, detail) = match &event {
            Event::Read { result, .. } => (10, u64::from(result.is_ok())),
            Event::Write { result, .. } => (11, u64::from(result.is_ok())),
            Event::Flush { result } => (12, u64::from(result.is_ok())),
            Event::Discard { result } => (13, u64::from(result.is_ok())),
            Event::Timer(id) => (14, id.0),
            Event::Accepted { conn, .. } => (15, conn.0),
            Event::Connected { result } => (16, result.map_or(0, |c| c.0)),
            Event::Received { conn, result, .. } => (17, conn.0 << 24 | result.map_or(0xFF_FFFF, |n| n as u64)),
            Event::Sent { conn, result, .. } => (18, conn.0 << 1 | u64::from(result.is_ok())),
            Event::UnixAccepted { conn } => (50, conn.0),
            Event::UnixConnected { result } => (51, result.map_or(0, |c| c.0)),
            Event::UnixReceived { conn, result, descriptors, .. } => {
                (52 | (descriptors.len() as u64) << 8, conn.0 << 24 | result.map_or(0xFF_FFFF, |n| n as u64))
            }
            Event::UnixSent { conn, result, .. } => (53, conn.0 << 1 | u64::from(result.is_ok())),
            Event::Signalled { event, result } => (54, event.0 << 24 | result.unwrap_or(0xFF_FFFF)),
        };
        self.note(kind);
        self.note(detail);
        if let Event::Received { conn, .. } | Event::Sent { conn, .. } = &event {
            self.net.op_ended(*conn);
        }
        q.push(cookie, event);
    }

    /// Takes all events of a host out: it is dead. What was under way on its disks comes back.
    pub(crate) fn forget_host(&mut self, host: usize) -> Vec<DiskOp> {
        let mut cut_short = Vec::new();
        let all = core::mem::take(&mut self.events);
        for (key, event) in all {
            if event.place.host != host {
                self.events.insert(key, event);
                continue;
            }
            self.timers.remove(&key.1);
            if let What::Disk(op) = event.what {
                op.dev.counters().is_over();
                cut_short.push(*op);
            }
        }
        for core in &mut self.hosts[host].cores {
            core.wake_coming = false;
            core.resume_coming = false;
            core.busy_until = 0;
        }
        cut_short
    }
}
