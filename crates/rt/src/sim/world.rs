//! A world: hosts with programs, and the loop that lets events happen.
//!
//! Invariants: programs run only in [`World::step`], on account of an event, until they are idle; while one runs no state is borrowed.
//! Never: looks at a clock or an address, so a run is a function of the seed and of what the caller does.

use super::{
    core::SimCore,
    disk::Disk,
    disk_handle::SimDisk,
    disk_options::{SimDeviceOptions, SimDrive},
    net::{LinkWay, Net, NetOptions, host_addr},
    place::Place,
    refs::SimDeviceRef,
    speed::{Drive, DriveSpeed},
    state::{CoreCost, CoreState, HostClock, HostState, Shared, WorldState},
    wake::SimWake,
};
use crate::{App, CoreStats, Device, Progress, Rt, TaskId, device::Inner, handle::Driver};
use base::{Duration, Instant};
use core::{
    cell::RefCell,
    future::Future,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};
use std::{
    net::IpAddr,
    pin::pin,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

/// Turns of a core's loop at one moment; after that, time passes (a program that yields while it waits must let the world go on).
const TURNS_AT_ONCE: u32 = 64;
/// How long such a pause is, in nanoseconds.
const PAUSE_NS: u64 = 1_000;
/// Turns without coming to rest after which a program is taken to be stuck.
const TURNS_MAX: u64 = 4_000_000;

/// A host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub(crate) usize);

type Start = Rc<dyn Fn(Rt) -> Box<dyn App>>;

struct Host {
    start: Start,
    cores: usize,
    running: Vec<Running>,
}

struct Running {
    rt: Rt,
    /// Gone when it said `Stop`.
    app: Option<Box<dyn App>>,
    wake: Arc<SimWake>,
    restless: u64,
}

/// Hosts, devices, a network, and a time of their own. See the module.
pub struct World {
    pub(super) shared: Rc<Shared>,
    hosts: Vec<Host>,
}

static WORLDS: AtomicU64 = AtomicU64::new(0);

impl World {
    /// A world whose every choice comes from `seed`.
    pub fn new(seed: u64) -> World {
        let shared = Shared {
            id: WORLDS.fetch_add(1, Ordering::Relaxed),
            state: RefCell::new(WorldState::new(seed)),
            any_wake: Arc::new(AtomicU64::new(0)),
            dropped: Arc::new(Mutex::new(Vec::new())),
        };
        World { shared: Rc::new(shared), hosts: Vec::new() }
    }

    /// The time. It begins at one second.
    pub fn now(&self) -> Instant {
        Instant(self.shared.state.borrow().now)
    }

    /// A new device of `bytes` (rounded down to 4096), all zeroes. It outlives the hosts that use it.
    pub fn device(&mut self, bytes: u64, opts: SimDeviceOptions) -> Device {
        self.shared.device(bytes, opts)
    }

    /// A new modelled drive. Devices with [`SimDeviceOptions::drive`] are its namespaces.
    pub fn drive(&mut self, speed: DriveSpeed) -> SimDrive {
        let mut s = self.shared.state.borrow_mut();
        s.drives.push(Drive::new(speed));
        SimDrive(s.drives.len() - 1)
    }

    /// Bytes that the media of a modelled drive writes for each byte, at the moment.
    pub fn write_amplification(&self, drive: SimDrive) -> f64 {
        self.shared.state.borrow().drives[drive.0].amplification()
    }

    /// From now on the work of a host's cores takes time. Without this it takes none.
    pub fn core_cost(&mut self, host: HostId, cost: CoreCost) {
        for core in &mut self.shared.state.borrow_mut().hosts[host.0].cores {
            core.cost = Some(cost);
        }
    }

    /// From now on a host's clock runs faster by so many thousandths, or slower; what it shows now stays. Deaths of the host do not change that.
    ///
    /// # Panics
    /// When it would stand still.
    pub fn clock_rate(&mut self, host: HostId, permille: i32) {
        assert!(permille > -1000, "a clock goes forward");
        let mut s = self.shared.state.borrow_mut();
        let (since, local) = (s.now, s.clock_of(host.0));
        s.hosts[host.0].clock = Some(HostClock { since, local, permille });
    }

    /// What a host's clock shows.
    pub fn clock(&self, host: HostId) -> Instant {
        Instant(self.shared.state.borrow().clock_of(host.0))
    }

    /// A core of a host, or each, does nothing for so long, as a program that is stopped: what comes waits for it, what is under way goes on.
    pub fn pause(&mut self, host: HostId, core: Option<usize>, d: Duration) {
        let cores = self.hosts[host.0].cores;
        for core in (0..cores).filter(|at| core.is_none_or(|core| core == *at)) {
            self.shared.state.borrow_mut().pause(Place { host: host.0, core }, d.as_nanos() as u64);
        }
    }

    /// Nanoseconds that each core of a host was busy, of those that have a cost.
    pub fn busy_ns(&self, host: HostId) -> Vec<u64> {
        self.shared.state.borrow().hosts[host.0].cores.iter().map(|core| core.busy_ns).collect()
    }

    /// A handle to damage a device of this world and to look into it.
    ///
    /// # Panics
    /// When it is not one.
    pub fn disk(&self, dev: &Device) -> SimDisk {
        SimDisk::new(&self.shared, dev)
    }

    /// A new host, started at once: `start` makes the app of each core, in order, now and after each death.
    pub fn add_host(&mut self, cores: usize, start: impl Fn(Rt) -> Box<dyn App> + 'static) -> HostId {
        assert!(cores > 0, "a host has cores");
        let id = HostId(self.hosts.len());
        let core = || CoreState { wake: self.new_wake(), wake_coming: false, cost: None, busy_until: 0, resume_coming: false, busy_ns: 0 };
        let state = HostState { up: false, cores: (0..cores).map(|_| core()).collect(), clock: None };
        self.shared.state.borrow_mut().hosts.push(state);
        self.hosts.push(Host { start: Rc::new(start), cores, running: Vec::new() });
        self.start(id);
        id
    }

    fn new_wake(&self) -> Arc<SimWake> {
        Arc::new(SimWake { flag: AtomicBool::new(false), any: Arc::clone(&self.shared.any_wake) })
    }

    /// Where a host is reached by others.
    pub fn addr(&self, host: HostId) -> IpAddr {
        host_addr(host.0)
    }

    /// Whether a host runs.
    pub fn is_up(&self, host: HostId) -> bool {
        self.shared.state.borrow().hosts[host.0].up
    }

    /// Starts a host that was killed; nothing when it runs.
    pub fn start(&mut self, host: HostId) {
        if self.is_up(host) {
            return;
        }
        let (start, cores) = (Rc::clone(&self.hosts[host.0].start), self.hosts[host.0].cores);
        {
            let mut s = self.shared.state.borrow_mut();
            s.hosts[host.0].up = true;
            s.net_host_back(host.0);
        }
        for core in 0..cores {
            let place = Place { host: host.0, core };
            let wake = self.new_wake(); // a new one each life: wakers of the last one may still be about
            self.shared.state.borrow_mut().hosts[host.0].cores[core].wake = Arc::clone(&wake);
            let stats = Arc::new(CoreStats::default());
            let sim = SimCore { shared: Rc::clone(&self.shared), place, cores, wake: Arc::clone(&wake), stats };
            let rt = Rt::new(Driver::Sim(Rc::new(sim)));
            let app = Some(start(rt.clone()));
            self.hosts[host.0].running.push(Running { rt, app, wake, restless: 0 });
            self.shared.state.borrow_mut().wake_core(place);
        }
    }

    /// Cuts a host's power: programs, tasks and operations under way vanish. Of the devices it used last, each sector that is not
    /// durable is old or new by chance. Its peers hear nothing until it is back.
    pub fn kill(&mut self, host: HostId) {
        self.end_host(host, true);
    }

    /// Kills a host's process: as [`World::kill`], but drives keep their power (what was completed stays, what was under way is torn)
    /// and its connections are reset.
    pub fn kill_process(&mut self, host: HostId) {
        self.end_host(host, false);
    }

    fn end_host(&mut self, host: HostId, power: bool) {
        if !self.is_up(host) {
            return;
        }
        self.shared.state.borrow_mut().hosts[host.0].up = false;
        self.stop_programs(host);
        let mut s = self.shared.state.borrow_mut();
        let s = &mut *s;
        for op in s.forget_host(host.0) {
            if power { s.disk_cut_short(op) } else { s.disk_torn(op) }
        }
        s.net_forget_host(host.0, !power);
        s.unix_forget_host(host.0);
        for disk in s.disks.iter_mut().filter(|d| power && d.host() == Some(host.0)) {
            disk.lose_power(&mut s.rng);
        }
        s.note(30 + u64::from(power));
    }

    fn stop_programs(&mut self, host: HostId) {
        for running in self.hosts[host.0].running.drain(..) {
            drop(running.app);
            running.rt.end();
        }
    }

    /// This core's reactor, to start tasks on it from outside.
    ///
    /// # Panics
    /// When the host is down.
    pub fn rt(&self, host: HostId, core: usize) -> Rt {
        self.hosts[host.0].running.get(core).expect("a core of a running host").rt.clone()
    }

    /// Starts a task on a core of a running host.
    pub fn spawn<F: Future<Output = ()> + 'static>(&mut self, host: HostId, core: usize, f: impl FnOnce(Rt) -> F) -> TaskId {
        let rt = self.rt(host, core);
        rt.spawn(f(rt.clone()))
    }

    /// Runs a future that uses `host`'s first core to its end, while the world goes on.
    ///
    /// # Panics
    /// When nothing is left to happen and the future is not at its end.
    pub fn block_on<T>(&mut self, host: HostId, f: impl AsyncFnOnce(Rt) -> T) -> T {
        let rt = self.rt(host, 0);
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(f(rt));
        loop {
            if woken.0.swap(false, Ordering::AcqRel)
                && let Poll::Ready(out) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return out;
            }
            if woken.0.load(Ordering::Acquire) {
                // It yielded: let time pass, so that what it waits for can come.
                self.shared.state.borrow_mut().wake(Place { host: host.0, core: 0 }, (PAUSE_NS, PAUSE_NS));
            }
            if !self.step(u64::MAX) {
                panic!("nothing is left to happen, and the future is not at its end");
            }
        }
    }

    /// Lets `d` pass.
    pub fn run_for(&mut self, d: Duration) {
        self.run_until(d, || false);
    }

    /// Runs until `pred` holds (looked at after each event) or `limit` has passed; whether it held.
    pub fn run_until(&mut self, limit: Duration, mut pred: impl FnMut() -> bool) -> bool {
        let end = (self.now() + limit).0;
        loop {
            if pred() {
                return true;
            }
            if !self.step(end) {
                self.shared.state.borrow_mut().now = end;
                return false;
            }
        }
    }

    /// Lets the next event happen, if it is not after `limit`; whether there was one.
    fn step(&mut self, limit: u64) -> bool {
        self.take_wakes();
        let stepped = self.shared.state.borrow_mut().step(limit);
        match stepped {
            None => false,
            Some(None) => true,
            Some(Some(place)) => {
                if !self.shared.state.borrow_mut().put_off(place) {
                    self.run_core(place);
                    self.shared.state.borrow_mut().charge(place, |cost| cost.turn_ns);
                }
                true
            }
        }
    }

    /// Wake-ups and closes that came past the heap: from wakers, and from connections dropped between cores.
    fn take_wakes(&mut self) {
        let dropped = core::mem::take(&mut *self.shared.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        if !dropped.is_empty() {
            self.shared.state.borrow_mut().close_dropped(dropped);
        }
        if self.shared.any_wake.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        for (host, h) in self.hosts.iter().enumerate() {
            for (core, running) in h.running.iter().enumerate() {
                if running.wake.flag.swap(false, Ordering::AcqRel) {
                    self.shared.state.borrow_mut().wake_core(Place { host, core });
                }
            }
        }
    }

    /// Runs a core's loop until it rests.
    fn run_core(&mut self, place: Place) {
        let Some(running) = self.hosts.get_mut(place.host).and_then(|h| h.running.get_mut(place.core)) else { return };
        for _ in 0..TURNS_AT_ONCE {
            running.wake.flag.store(false, Ordering::Release);
            let progress = match &mut running.app {
                Some(app) => app.poll(&running.rt),
                None => return,
            };
            running.rt.stats().loops.add(1);
            if progress == Progress::Stop {
                running.app = None;
                running.rt.end();
                return;
            }
            let ran = running.rt.run_tasks();
            let woken = running.wake.flag.load(Ordering::Acquire);
            if progress == Progress::Idle && !ran && !running.rt.has_runnable_tasks() && !woken {
                running.restless = 0;
                return;
            }
            running.restless += 1;
        }
        assert!(
            running.restless < TURNS_MAX,
            "core {} of host {} does not come to rest: its app or a task is always busy",
            place.core,
            place.host
        );
        self.shared.state.borrow_mut().wake(place, (PAUSE_NS, PAUSE_NS));
    }

    /// Whether all programs of a host have said `Stop`.
    pub fn has_stopped(&self, host: HostId) -> bool {
        self.hosts[host.0].running.iter().all(|r| r.app.is_none())
    }

    /// A hash of everything that happened. Two runs of one seed and one program have the same.
    pub fn trace_hash(&self) -> u64 {
        self.shared.state.borrow().trace()
    }

    /// Changes how the network behaves from now on.
    pub fn network(&mut self, opts: NetOptions) {
        self.net(|n| n.opts = opts);
    }

    fn net<R>(&mut self, f: impl FnOnce(&mut Net) -> R) -> R {
        f(&mut self.shared.state.borrow_mut().net)
    }

    /// Cuts the way from one host to another; the way back stays.
    pub fn cut(&mut self, from: HostId, to: HostId) {
        self.net(|n| n.set_cut(from.0, to.0, true));
    }

    /// Cuts both ways.
    pub fn cut_both(&mut self, a: HostId, b: HostId) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Mends the way from one host to another.
    pub fn heal(&mut self, from: HostId, to: HostId) {
        self.net(|n| n.set_cut(from.0, to.0, false));
        self.shared.state.borrow_mut().release_held();
    }

    /// Mends both ways.
    pub fn heal_both(&mut self, a: HostId, b: HostId) {
        self.heal(a, b);
        self.heal(b, a);
    }

    /// What goes from one host to another takes so much longer, in nanoseconds, at least and at most; nothing more when that is none.
    pub fn slow_way(&mut self, from: HostId, to: HostId, longer_ns: Option<(u64, u64)>) {
        self.net(|n| match longer_ns {
            Some(longer) => drop(n.slow.insert((from.0, to.0), longer)),
            None => drop(n.slow.remove(&(from.0, to.0))),
        });
    }

    /// Resets all connections between two hosts (or within one).
    pub fn reset_connections(&mut self, a: HostId, b: HostId) {
        self.shared.state.borrow_mut().reset_between(a.0, b.0);
    }

    /// Ends of connections that are open, for leak checks.
    pub fn open_connection_ends(&self) -> usize {
        self.shared.state.borrow().net.open_ends()
    }
}

impl Shared {
    pub(crate) fn device(&self, bytes: u64, opts: SimDeviceOptions) -> Device {
        let mut s = self.state.borrow_mut();
        let index = s.disks.len();
        let name = if opts.name.is_empty() { format!("sim-{index}") } else { opts.name.clone() };
        let disk = Disk::new(bytes & !4095, opts, index as u64);
        let info = disk.info();
        s.disks.push(disk);
        Device::assemble(index as u64 + 1, name, info, Inner::Sim(SimDeviceRef { world: self.id, index }))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for host in 0..self.hosts.len() {
            self.stop_programs(HostId(host));
        }
        // Handles to the world may live on; what the world held must not.
        let events = core::mem::take(&mut self.shared.state.borrow_mut().events);
        drop(events);
        let net = core::mem::take(&mut self.shared.state.borrow_mut().net);
        let unix = core::mem::take(&mut self.shared.state.borrow_mut().unix);
        drop((net, unix));
    }
}

struct Flag(AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// An app for hosts on which only tasks run.
pub struct TasksOnly;

impl App for TasksOnly {
    fn poll(&mut self, _rt: &Rt) -> Progress {
        Progress::Idle
    }
}

/// Lets `rt`'s core be busy for so much longer: for work that no device or connection sees. Nothing on a core without a cost.
pub fn charge(rt: &Rt, ns: f64) {
    if let Driver::Sim(core) = rt.driver() {
        core.shared.state.borrow_mut().charge(core.place, |_| ns);
    }
}

/// The link of `rt`'s host moves so many bytes of traffic that no connection of this world has; gives when it has, behind what it moves already.
pub fn on_link(rt: &Rt, way: LinkWay, bytes: usize) -> Instant {
    match rt.driver() {
        Driver::Sim(core) => {
            let state = &mut *core.shared.state.borrow_mut();
            let now = state.now;
            Instant(state.net.moves(core.place.host, way, now, bytes).end)
        }
        Driver::Uring(_) => rt.now(),
    }
}

/// The world that a simulated reactor belongs to.
pub(crate) fn shared_of(rt: &Rt) -> Rc<Shared> {
    match rt.driver() {
        Driver::Sim(core) => Rc::clone(&core.shared),
        Driver::Uring(_) => panic!("this core is real"),
    }
}
