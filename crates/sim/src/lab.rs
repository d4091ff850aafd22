//! The world of a run: the host with the real code on its cores, its devices, the client hosts, and the ways to damage them.
//!
//! Invariant: everything lives in one simulated world, in one thread.
//! Never: draws anything; a plan says it all.

use crate::client;
use crate::cut_ways::CutWays;
use crate::faults::aimed::{Aim, Death, Hits};
use crate::faults::{Class, Fault};
use crate::node_types::{self, CommandSender, CoreSeed};
use crate::operator::{Door, Operator, component_specs, format_spec, settings};
use crate::plan::Plan;
use crate::workload::Workload;
use base::{Duration, Instant};
use dataplane::{Completion, DataPlaneError, Device, core_seeds};
use format::disk::FormatTag;
use format::disk::superblock::SUPERBLOCK_OFFSETS;
use rt::DeviceError;
use rt::sim::{HostId, SimDisk, SimImage, World};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

/// Events of one run; the busiest have a tenth of it.
const EVENTS_MAX: u64 = 20_000_000;
/// The part of a device that one fault of its operations covers, in bytes.
const PART_BYTES: u64 = 1 << 20;
/// Longest time that an order may take, in virtual time.
const COMMAND_MAX: Duration = Duration::from_secs(120);

struct ClientHost {
    host: HostId,
    client: client::Shared,
}

/// Why the world was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    AtLimit,
    Early,
    /// To look at the devices; then it goes on.
    ToLook,
}

/// The world and all in it.
pub struct Lab {
    /// The world.
    pub world: World,
    server: HostId,
    clients: Vec<ClientHost>,
    devices: Vec<Device>,
    /// The workload that the clients play.
    pub workload: Rc<RefCell<Workload>>,
    /// What stands in for the control plane.
    pub operator: Operator,
    /// Cut ways that are restored later: when, from, to.
    cut_ways: CutWays,
    images: Vec<(usize, SimImage)>,
    /// Where the chunks begin on each capacity device.
    chunks_from: Vec<u64>,
    class: Class,
    events: u64,
    /// The format of the group.
    tag: FormatTag,
    hits: Hits,
    /// A fault was aimed well: the host dies then, of its power or not.
    doom: Option<(Instant, bool)>,
    #[cfg(feature = "hooks")]
    looks: crate::shadow::Looks,
    #[cfg(feature = "hooks")]
    shards: usize,
}

fn add_server(world: &mut World, plan: &Plan, door: &Door) -> HostId {
    let seeds: Rc<RefCell<Vec<Option<CoreSeed>>>> = Rc::default();
    let (newest, cores, settings) = (Rc::clone(door), plan.cores, settings(plan));
    world.add_host(cores, move |rt| {
        if rt.core() == 0 {
            let (commands, events, made) = core_seeds(cores, settings, node_types::shared(nvmf::Options::default()));
            *newest.borrow_mut() = Some((commands, events));
            *seeds.borrow_mut() = made.into_iter().map(Some).collect();
        }
        let seed = seeds.borrow_mut()[rt.core()].take();
        seed.expect("core 0 starts first, each core once").start(&rt)
    })
}

impl Lab {
    /// A world with a host whose group is made and whose volumes have their components; nothing is served yet.
    pub fn new(plan: &Rc<Plan>) -> Result<Lab, DataPlaneError> {
        let mut world = World::new(plan.seed);
        world.network(plan.net);
        let all = [&plan.cache].into_iter().chain(&plan.capacity).chain(&plan.spares);
        let devices: Vec<Device> = all.map(|(mib, options)| world.device(mib << 20, options.clone())).collect();
        let door: Door = Rc::default();
        let server = add_server(&mut world, plan, &door);
        let commands = door.borrow().as_ref().expect("the host is up").0.clone();
        let of_group = &devices[..=plan.capacity.len()];
        command(&mut world, || commands.format_group(format_spec(plan), devices[0].clone(), of_group[1..].to_vec()))?;
        let (info, _) = command(&mut world, || commands.open_group(None, of_group.to_vec()))?;
        let mut components = Vec::new();
        for (volume, spec) in component_specs(plan) {
            components.push((volume, command(&mut world, || commands.create_component(info.group, spec))?));
        }
        let chunks_from = info.geometry.capacity.iter().map(|g| g.chunk_area_offset).collect();
        command(&mut world, || commands.close_group(info.group))?;
        let addrs = [4420, 3260].map(|port| SocketAddr::new(world.addr(server), port));
        let workload = Rc::new(RefCell::new(Workload::new(Rc::clone(plan))));
        let operator = Operator::new(plan, door, devices.clone(), addrs, components);
        let mut lab = Lab {
            world,
            server,
            clients: Vec::new(),
            devices,
            workload,
            operator,
            cut_ways: CutWays::default(),
            images: Vec::new(),
            chunks_from,
            class: plan.class,
            events: 0,
            tag: info.tag,
            hits: Hits::default(),
            doom: None,
            #[cfg(feature = "hooks")]
            looks: crate::shadow::Looks::new(plan.class),
            #[cfg(feature = "hooks")]
            shards: usize::from(plan.shards),
        };
        for (id, client) in plan.clients.iter().enumerate() {
            let served = node_types::served_at(addrs);
            let (host, client) = client::add(&mut lab.world, id, client.clone(), served, &lab.workload);
            lab.clients.push(ClientHost { host, client });
        }
        let now = lab.now();
        lab.operator.node_started(&lab.workload, now);
        Ok(lab)
    }

    /// The time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.now().0
    }
    /// Brings a fault about.
    pub fn strike(&mut self, fault: &Fault) {
        match *fault {
            Fault::Slow { device, factor } => self.disk(device).slow(factor),
            Fault::Stall { device, for_ns } => self.disk(device).stall(Duration::from_nanos(for_ns)),
            Fault::Reset { client } => self.reset_client(client),
            Fault::Cut { client, to_host, to_client, for_ns } => self.cut_client(client, to_host, to_client, for_ns),
            Fault::FailReads { device, at, times } => self.disk(device).fail_reads(at..at + PART_BYTES, Some(times)),
            Fault::FailWrites { device, at, times } => self.disk(device).fail_writes(at..at + PART_BYTES, Some(times), DeviceError::Media),
            Fault::FlipReads { device, times } => self.disk(device).flip_reads(times),
            Fault::FailFlushes { device, times } => self.disk(device).fail_flushes(Some(times)),
            Fault::Gone { device } => self.disk(device).set_gone(true),
            Fault::Full { device } => self.disk(device).set_full(true),
            Fault::Flip { device, at, sectors } => {
                let zone = self.zone(device);
                for sector in 0..u64::from(sectors) {
                    self.disk(device).corrupt(zone.start + (at + sector * 512) % (zone.end - zone.start));
                }
            }
            Fault::LoseWrites { device, times } => self.disk(device).lose_writes(times, self.zone(device)),
            Fault::Misdirect { device, times, by } => self.disk(device).misdirect_writes(times, by, self.zone(device)),
            Fault::LieAboutDurability { device } => self.disk(device).set_lying(true),
            Fault::ComeBackOld { device } => self.remember_image(device),
            Fault::Aim { device, target, nth, fails, alike, full, death } => {
                let error = if full { DeviceError::NoSpace } else { DeviceError::Media };
                let mut aim = Aim { tag: self.tag, target, nth, fails, alike, error, death, hits: Rc::clone(&self.hits), tails: [0; 16] };
                self.disk(device).watch(move |write| aim.look(write));
            }
            Fault::DamageSuperblock { device, copy } if self.operator.is_serving() => self.disk(device).corrupt(SUPERBLOCK_OFFSETS[copy]),
            Fault::DamageSuperblock { .. } => {}
        }
    }
    /// When the host is to die because a fault was aimed well, and whether of its power.
    pub fn doom(&self) -> Option<(Instant, bool)> {
        self.doom
    }
    /// A device: 0 is the cache.
    fn disk(&self, device: usize) -> SimDisk {
        self.world.disk(&self.devices[device])
    }
    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }
    /// All writes of a device fail, or nothing of it does any more.
    pub fn fail_all(&self, device: usize, on: bool) {
        let disk = self.disk(device);
        if on { disk.fail_writes(0..disk.bytes(), None, DeviceError::Media) } else { disk.heal() }
    }
    /// Reads of a part of a device fail, until nothing of it does any more.
    pub fn fail_reads(&self, device: usize, part: Range<u64>) {
        self.disk(device).fail_reads(part, None);
    }
    /// Opens the group, which was closed; its volumes are not served.
    pub fn open_group(&mut self) -> Option<Result<(), DataPlaneError>> {
        let devices = self.operator.group_devices();
        self.command(|o| o.open_group_with(None, devices)).map(|opened| opened.map(drop))
    }
    /// The part of a device that damage hits, in bytes: of capacity the chunks only, where every block has its checksum; all of it when the class
    /// is `Lies`.
    fn zone(&self, device: usize) -> Range<u64> {
        let from = device.checked_sub(1).filter(|_| self.class != Class::Lies).map_or(0, |at| self.chunks_from[at]);
        from..self.disk(device).bytes()
    }
    /// Resets all connections of a client.
    fn reset_client(&mut self, client: usize) {
        if let Some(client) = self.clients.get(client) {
            self.world.reset_connections(self.server, client.host);
        }
    }
    /// Holds up what a client sends, or is sent, for a while.
    fn cut_client(&mut self, client: usize, to_host: bool, to_client: bool, for_ns: u64) {
        let Some(client) = self.clients.get(client).map(|c| c.host) else { return };
        for (cut, from, to) in [(to_host, client, self.server), (to_client, self.server, client)] {
            if cut {
                self.cut_ways.cut(&mut self.world, from, to, Duration::from_nanos(for_ns));
            }
        }
    }
    /// A device will come back from the next death as it is now.
    fn remember_image(&mut self, device: usize) {
        let image = self.disk(device).image();
        self.images.push((device, image));
    }
    /// When the next cut way is to be restored.
    pub fn next_heal(&self) -> Option<Instant> {
        self.cut_ways.next()
    }
    /// Restores what is due; `all`: everything.
    pub fn heal_due(&mut self, all: bool) {
        self.cut_ways.restore(&mut self.world, all);
    }

    /// Lets time pass until something is to be done: the limit, `stop` holds, or a fault that brings death has hit. Whether it was not the limit.
    pub fn run(&mut self, limit: Duration, mut stop: impl FnMut(&Operator, &Workload) -> bool) -> bool {
        let end = self.world.now() + limit;
        let mut goes_on = false;
        loop {
            let stopped = self.run_until_a_look(end, goes_on, &mut stop);
            if stopped != Stopped::ToLook {
                return stopped == Stopped::Early;
            }
            goes_on = true;
            self.look();
        }
    }

    /// Compares what another start would find on the devices now with what the host has in memory, where the build has the means.
    pub fn look(&mut self) {
        #[cfg(feature = "hooks")]
        {
            let devices = self.operator.knows_devices().then(|| self.operator.group_devices());
            if let Err(what) = crate::shadow::look(&mut self.looks, &self.world, devices.as_ref(), self.shards) {
                self.workload.borrow_mut().fail(what, None);
            }
        }
    }

    fn run_until_a_look(&mut self, end: Instant, goes_on: bool, stop: &mut impl FnMut(&Operator, &Workload) -> bool) -> Stopped {
        #[cfg(feature = "hooks")]
        let looks = &mut self.looks;
        let Lab { world, operator, workload, events, clients, hits, doom, .. } = self;
        let clock = world.rt(clients[0].host, 0);
        // What was looked at before the look is not looked at twice.
        let (mut skips, looked) = (goes_on, Cell::new(false));
        let limit = end.since(world.now());
        let early = world.run_until(limit, || {
            if core::mem::take(&mut skips) {
                return workload.borrow().wrong.is_some();
            }
            operator.turn(workload, clock.now().0);
            *events += 1;
            if *events > EVENTS_MAX {
                workload.borrow_mut().fail("the host is busy without end".into(), None);
            }
            let hit = hits.take();
            if let Some(hit) = hit {
                workload.borrow_mut().hit(&hit, clock.now().0);
                *doom = doom.or(hit.death.map(|Death { after_ns, power }| (clock.now() + Duration::from_nanos(after_ns), power)));
                #[cfg(feature = "hooks")]
                looks.hit();
            }
            let workload = workload.borrow();
            let over = workload.wrong.is_some() || hit.is_some_and(|hit| hit.death.is_some()) || stop(operator, &workload);
            #[cfg(feature = "hooks")]
            {
                looked.set(!over && looks.is_due());
            }
            over || looked.get()
        });
        match early {
            true if looked.get() => Stopped::ToLook,
            true => Stopped::Early,
            false => Stopped::AtLimit,
        }
    }
    /// Gives an order and waits for its answer; `None` when there is no host to give it to.
    pub fn command<T>(&mut self, give: impl FnOnce(&CommandSender) -> Completion<T>) -> Option<Result<T, DataPlaneError>> {
        let completion = self.operator.give(give)?;
        Some(command(&mut self.world, || completion))
    }

    /// Ends the host: its power, or only its process. The devices are well again, and as old as was ordered.
    pub fn kill(&mut self, power: bool) {
        if power {
            self.world.kill(self.server);
        } else {
            self.world.kill_process(self.server);
        }
        let now = self.now();
        (self.doom, _) = (None, self.hits.take());
        self.operator.node_died();
        let mut workload = self.workload.borrow_mut();
        workload.unsteady = true;
        (workload.quiet_since, workload.undisturbed_since) = (None, None);
        workload.node_died(now);
        workload.note(now, if power { "the host lost its power" } else { "the host's process was killed" });
        drop(workload);
        for device in 0..self.devices.len() {
            self.disk(device).heal();
        }
        for (device, image) in core::mem::take(&mut self.images) {
            self.disk(device).restore(&image);
        }
    }
    /// Starts it again; clients notice that it was gone.
    pub fn start(&mut self) {
        self.world.start(self.server);
        let now = self.now();
        self.operator.node_started(&self.workload, now);
        for client in &self.clients {
            client.client.borrow_mut().drop_links();
        }
        self.workload.borrow_mut().note(now, "the host starts");
    }
    /// The operator takes all reservations away. Only while nothing is served yet.
    pub fn clear_reservations(&mut self) {
        let now = self.now();
        self.operator.clear_reservations(&self.workload, now);
    }
    /// Nothing disturbs any more while this life lasts: connections are whole, devices are well, and so many operations more are begun.
    pub fn calm(&mut self, ops: u64) {
        self.heal_due(true);
        self.hits.take();
        for device in 0..self.devices.len() {
            self.disk(device).heal();
        }
        let now = self.now();
        let mut workload = self.workload.borrow_mut();
        workload.note(now, "nothing disturbs from now on");
        workload.quiet_since = Some(now);
        workload.ops_left += ops;
        drop(workload);
        self.wake_clients();
    }
    /// Every volume is served in full again. Only while nothing is served yet.
    pub fn settle(&mut self) {
        let now = self.now();
        self.operator.settle(&self.workload, now);
    }
    /// A volume grows by so many logical blocks, if the operator can be asked now.
    pub fn grow(&mut self, volume: usize, blocks: u64) {
        let now = self.now();
        self.operator.grow(&self.workload, volume, blocks, now);
    }
    /// Whether its programs have ended.
    pub fn has_stopped(&self) -> bool {
        self.world.has_stopped(self.server)
    }
    /// Whether every client can send commands.
    pub fn all_serving(&self) -> bool {
        self.clients.iter().all(|c| c.client.borrow().is_serving())
    }
    /// The clients disconnect for good.
    pub fn clients_leave(&mut self) {
        self.clients.iter().for_each(|c| c.client.borrow_mut().leave());
    }
    /// Ends the clients.
    pub fn end_clients(&mut self) {
        for at in 0..self.clients.len() {
            self.world.kill_process(self.clients[at].host);
        }
    }
    /// Wakes the clients: there is something to do.
    pub fn wake_clients(&mut self) {
        for client in &self.clients {
            let rt = self.world.rt(client.host, 0);
            rt.wake(0);
        }
    }
}

fn command<T>(world: &mut World, give: impl FnOnce() -> Completion<T>) -> Result<T, DataPlaneError> {
    let completion = give();
    let mut answer = None;
    world.run_until(COMMAND_MAX, || {
        answer = answer.take().or_else(|| completion.try_take());
        answer.is_some()
    });
    answer.unwrap_or(Err(DataPlaneError::Stopped))
}
