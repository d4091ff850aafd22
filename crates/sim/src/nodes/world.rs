//! The world of a run of several nodes: their hosts with the real code on their cores, their devices, the clients, and what disturbs them.
//!
//! Invariant: everything lives in one simulated world, in one thread.
//! Never: draws anything; a plan says it all.

use super::node::{Door, FrontEnds, NodeControl, Parts, VolumeChange};
use super::plan::{NodeEvent, NodesPlan, Outage};
use super::records::{self, cluster};
use super::truth::Truth;
use super::way::{Through, Way};
use crate::client;
use crate::cut_ways::CutWays;
use crate::node_types::{self, volume_id};
use crate::workload::{Paths, Workload};
use base::{ComponentId, CopyState, Duration, Instant};
use cluster::record::{GroupRecord, ObjectRecord, VolumeRecord};
use dataplane::{Completion, CoreSeed, DataPlaneError, Device, component_spec, core_seeds};
use directory::modelled::{Backup, Faults, Modelled};
use directory::{ModelledNode, NodeDevices, Revision};
use rt::sim::{HostId, World};
use rt::{App, Progress, Rt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Events of one run; the busiest have a tenth of it.
const EVENTS_MAX: u64 = 40_000_000;
/// Longest time that a command may take, in virtual time.
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// How often the control planes of nodes look at their clocks.
const LOOK: Duration = Duration::from_micros(500);
/// Where nodes listen: for hosts, for other nodes.
const PORTS: [u16; 3] = [4420, 3260, 4421];

struct ClientHost {
    host: HostId,
    client: client::Shared,
}

/// A node with its machine.
pub struct NodeHost {
    host: HostId,
    devices: Vec<Device>,
    /// Its control plane.
    pub control: NodeControl,
    /// When it is started again.
    returns: Option<Instant>,
}

/// See the module.
pub struct NodesLab {
    /// The world.
    pub world: World,
    /// The nodes.
    pub nodes: Vec<NodeHost>,
    clients: Vec<ClientHost>,
    client_at: Vec<usize>,
    clock: HostId,
    /// What the clients play.
    pub workload: Rc<RefCell<Workload>>,
    cut_ways: CutWays,
    /// What is disturbed besides, until when.
    disturbed: Vec<(Instant, Disturbed)>,
    /// No node is paused from then on.
    paused_until: Instant,
    directory: Modelled,
    faults: Faults,
    /// The last backup of the directory.
    backup: Option<Backup>,
    truth: Rc<RefCell<Truth>>,
    events: u64,
}

/// What is to be well again at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbed {
    Cut(usize, usize),
    Slow(HostId, HostId),
    Unreached(usize),
    LeftBehind(usize),
    NoMajority,
}

/// Something happens now and then, so that control planes get their turns.
struct ClockApp(rt::Queue);

impl App for ClockApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        while self.0.pop().is_some() {
            rt.timer(&self.0, 0, rt.now() + LOOK);
        }
        Progress::Idle
    }
}

fn add_node(world: &mut World, plan: &NodesPlan, node: usize, door: &Door) -> HostId {
    let seeds: Rc<RefCell<Vec<Option<CoreSeed<FrontEnds>>>>> = Rc::default();
    let (newest, cores) = (Rc::clone(door), plan.nodes[node].cores);
    let settings = crate::operator::settings(&plan.base);
    let slot = base::NodeSlot::new(node as u8).expect("there are so many");
    world.add_host(cores, move |rt| {
        if rt.core() == 0 {
            let hosts = Arc::new(node_types::shared(nvmf::Options::of_slot(slot)));
            let (commands, events, made) = core_seeds(cores, settings, (hosts, Arc::default()));
            *newest.borrow_mut() = Some((commands, events));
            *seeds.borrow_mut() = made.into_iter().map(Some).collect();
        }
        let seed = seeds.borrow_mut()[rt.core()].take();
        seed.expect("core 0 starts first, each core once").start(&rt)
    })
}

/// Makes what a node needs at its very first start.
struct Setup<'a> {
    world: &'a mut World,
    door: &'a Door,
    devices: &'a [Device],
}

impl Setup<'_> {
    fn command<T>(&mut self, give: impl FnOnce(&super::node::CommandSender) -> Completion<T>) -> Result<T, DataPlaneError> {
        let commands = self.door.borrow().as_ref().expect("the node is up").0.clone();
        let completion = give(&commands);
        let mut answer = None;
        self.world.run_until(COMMAND_MAX, || {
            answer = answer.take().or_else(|| completion.try_take());
            answer.is_some()
        });
        answer.unwrap_or(Err(DataPlaneError::Stopped))
    }
}

impl NodeDevices for Setup<'_> {
    type Error = DataPlaneError;

    fn format_group(&mut self, group: &GroupRecord) -> Result<(), DataPlaneError> {
        let (spec, devices) = (dataplane::format_spec(cluster(), group, false), self.devices.to_vec());
        self.command(|c| c.format_group(spec, devices[0].clone(), devices[1..].to_vec())).map(drop)
    }
    fn open_group(&mut self, group: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, DataPlaneError> {
        self.format_group(group)?;
        let devices = self.devices.to_vec();
        let (_, found) = self.command(|c| c.open_group(Some(cluster()), devices))?;
        Ok(found.iter().map(|c| (c.id, c.no.0)).collect())
    }
    fn create_component(
        &mut self,
        volume: &VolumeRecord,
        object: &ObjectRecord,
        mirror: usize,
        copy: usize,
    ) -> Result<u32, DataPlaneError> {
        let (group, spec) = (object.mirrors[mirror][copy].group, component_spec(volume, object, mirror, copy));
        self.command(|c| c.create_component(group, spec)).map(|no| no.0)
    }
}

impl NodesLab {
    /// A world whose nodes are made and about to serve, and whose clients are about to connect.
    pub fn new(plan: &NodesPlan) -> Result<NodesLab, DataPlaneError> {
        let mut world = World::new(plan.base.seed);
        world.network(plan.base.net);
        let doors: Vec<Door> = plan.nodes.iter().map(|_| Door::default()).collect();
        let hosts: Vec<HostId> = (0..plan.nodes.len()).map(|node| add_node(&mut world, plan, node, &doors[node])).collect();
        let addr = |world: &World, node: usize, port| SocketAddr::new(world.addr(hosts[node]), port);
        let modelled = Modelled::new(plan.base.seed, cluster(), Faults::NONE);
        let links: Vec<SocketAddr> = (0..hosts.len()).map(|node| addr(&world, node, PORTS[2])).collect();
        let pauses = plan.events.iter().any(|(_, event)| matches!(event, NodeEvent::Pause { .. }));
        // After a restore volumes wait, also those that one node only may own.
        let is_sure = |volume: &usize| !plan.is_mirrored(*volume) && !plan.restores();
        let owners = (0..plan.owners.len()).map(|v| Some(v).filter(is_sure).map(|v| plan.owners[v])).collect();
        let paths = Paths::of(hosts.len(), plan.client_at.clone(), owners, pauses);
        let workload = Workload::new(Rc::new(plan.base.clone())).of_several_nodes(paths);
        let (mut made, workload) = (Vec::new(), Rc::new(RefCell::new(workload)));
        for (node, door) in doors.iter().enumerate() {
            let planned = plan.nodes[node].devices.iter();
            let devices: Vec<Device> = planned.map(|(mib, options)| world.device(mib << 20, options.clone())).collect();
            let mut directory = ModelledNode::new(&records::name_of(node), modelled.clone());
            if node == 0 {
                records::write(&mut directory, plan, &links).expect("nobody else writes");
            }
            directory.work(&mut Setup { world: &mut world, door, devices: &devices })?;
            let addrs = PORTS.map(|port| addr(&world, node, port));
            made.push(Parts { number: node, door: Rc::clone(door), devices, addrs, way: Way::to(modelled.clone()) });
        }
        let truth = Rc::new(RefCell::new(Truth::new(modelled.clone(), (0..plan.owners.len()).map(volume_id))));
        let node = |parts: Parts| {
            let (host, devices) = (hosts[parts.number], parts.devices.clone());
            let control = NodeControl::new(plan, parts, Rc::clone(&truth), Rc::clone(&workload));
            NodeHost { host, devices, control, returns: None }
        };
        let nodes: Vec<NodeHost> = made.into_iter().map(node).collect();
        let clock = world.add_host(1, |rt| {
            let queue = rt.queue();
            rt.timer(&queue, 0, rt.now());
            Box::new(ClockApp(queue))
        });
        let (client_at, cut_ways) = (plan.client_at.clone(), CutWays::default());
        let (directory, faults, disturbed) = (modelled, plan.directory.clone(), Vec::new());
        let mut lab = NodesLab {
            world,
            nodes,
            clients: Vec::new(),
            client_at,
            clock,
            workload,
            cut_ways,
            disturbed,
            paused_until: Instant(0),
            directory,
            faults,
            backup: None,
            truth,
            events: 0,
        };
        // What was made in a life for that is found in the first one.
        for node in 0..lab.nodes.len() {
            lab.kill(node, false);
            if plan.nodes[node].clock_permille != 0 {
                lab.world.clock_rate(lab.nodes[node].host, plan.nodes[node].clock_permille);
            }
            lab.start(node);
        }
        for (id, client) in plan.base.clients.iter().enumerate() {
            let [nvme, iscsi, _] = PORTS.map(|port| addr(&lab.world, plan.client_at[id], port));
            let served = node_types::served_at([nvme, iscsi]);
            let (host, client) = client::add(&mut lab.world, id, client.clone(), served, &lab.workload);
            lab.clients.push(ClientHost { host, client });
        }
        Ok(lab)
    }

    fn kill(&mut self, node: usize, power: bool) {
        let n = &mut self.nodes[node];
        if power {
            self.world.kill(n.host)
        } else {
            self.world.kill_process(n.host)
        }
        n.control.died();
    }
    fn start(&mut self, node: usize) {
        self.world.start(self.nodes[node].host);
        self.nodes[node].control.way().leave_behind(false);
        self.nodes[node].control.started();
        for (client, at) in self.clients.iter().zip(&self.client_at) {
            if *at == node {
                client.client.borrow_mut().drop_links();
            }
        }
    }

    /// Something happens.
    pub fn strike(&mut self, event: &NodeEvent) {
        let now = self.world.now();
        self.workload.borrow_mut().note(now.0, format!("event: {event:?}"));
        match *event {
            NodeEvent::Cut { from, to, both, for_ns } => {
                self.cut_nodes(from, to, for_ns);
                if both {
                    self.cut_nodes(to, from, for_ns);
                }
            }
            NodeEvent::Reset { a, b } => self.world.reset_connections(self.nodes[a].host, self.nodes[b].host),
            NodeEvent::Restart { node, power, for_ns } => {
                if self.nodes[node].returns.is_none() {
                    self.kill(node, power);
                    self.nodes[node].returns = Some(now + Duration::from_nanos(for_ns));
                }
            }
            NodeEvent::ResetClient { client } => {
                self.world.reset_connections(self.nodes[self.client_at[client]].host, self.clients[client].host);
            }
            NodeEvent::CutClient { client, to_node, for_ns } => {
                let (node, client) = (self.nodes[self.client_at[client]].host, self.clients[client].host);
                let (from, to) = if to_node { (client, node) } else { (node, client) };
                self.cut(from, to, for_ns);
            }
            NodeEvent::Stall { node, for_ns } => {
                for device in &self.nodes[node].devices {
                    self.world.disk(device).stall(Duration::from_nanos(for_ns));
                }
            }
            NodeEvent::Pause { node, core, for_ns } => {
                self.world.pause(self.nodes[node].host, core, Duration::from_nanos(for_ns));
                self.paused_until = self.paused_until.max(now + Duration::from_nanos(for_ns));
                if core.is_none() {
                    self.nodes[node].control.paused(now.0 + for_ns);
                }
            }
            NodeEvent::Slow { from, to, longer_ns, for_ns } => {
                let (from, to) = (self.nodes[from].host, self.nodes[to].host);
                self.world.slow_way(from, to, Some(longer_ns));
                self.disturb(for_ns, Disturbed::Slow(from, to));
            }
            NodeEvent::Unreached { node, through, for_ns } => {
                self.nodes[node].control.way().set(through);
                self.disturb(for_ns, Disturbed::Unreached(node));
            }
            NodeEvent::Outage { how, for_ns } => self.outage(how, for_ns),
            NodeEvent::Compact => self.directory.compact(),
            NodeEvent::ExpireSessions => self.directory.expire_sessions(),
            NodeEvent::Backup => self.backup = Some(self.directory.backup()),
            NodeEvent::Restore { goes_on, power, for_ns, each_ns } => self.restore(goes_on, power, (for_ns, each_ns)),
            NodeEvent::Protect { node, volume, on } => self.nodes[node].control.change_volume(volume, VolumeChange::Protected(on)),
            NodeEvent::Copies { node, volume, copies } => self.nodes[node].control.change_volume(volume, VolumeChange::Copies(copies)),
            NodeEvent::Prefer { node, volume, owner } => self.nodes[node].control.change_volume(volume, VolumeChange::Owner(owner)),
            NodeEvent::Layout { node, volume, mirrors } => self.nodes[node].control.change_volume(volume, VolumeChange::Layout(mirrors)),
            NodeEvent::Resync { node, volume, pace } => self.nodes[node].control.change_volume(volume, VolumeChange::Resync(pace)),
        }
    }
    /// The directory is made anew from the last backup while no node runs, but for one that goes on without it.
    fn restore(&mut self, goes_on: Option<usize>, power: bool, (for_ns, each_ns): (u64, u64)) {
        let Some(backup) = self.backup.clone() else { return };
        for node in 0..self.nodes.len() {
            let starts_ns = for_ns + node as u64 * each_ns;
            if goes_on == Some(node) && self.nodes[node].returns.is_none() {
                self.nodes[node].control.way().leave_behind(true);
                self.disturb(starts_ns, Disturbed::LeftBehind(node));
            } else if self.nodes[node].returns.is_none() {
                self.kill(node, power);
                self.nodes[node].returns = Some(self.world.now() + Duration::from_nanos(starts_ns));
            }
        }
        self.directory.restore(&backup);
        self.truth.borrow_mut().restored();
    }
    fn disturb(&mut self, for_ns: u64, what: Disturbed) {
        self.disturbed.retain(|(_, other)| *other != what);
        self.disturbed.push((self.world.now() + Duration::from_nanos(for_ns), what));
    }
    fn outage(&mut self, how: Outage, for_ns: u64) {
        match how {
            Outage::NoMajority => {
                (1..usize::from(self.faults.members)).for_each(|member| self.directory.set_up(member, false));
                self.disturb(for_ns, Disturbed::NoMajority);
            }
            Outage::Hangs => self.directory.hang_leader(self.directory_time() + std::time::Duration::from_nanos(for_ns)),
            Outage::Election => self.directory.elect(),
        }
    }
    /// The directory's clock is the world's.
    fn directory_time(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.world.now().0)
    }
    fn heal(&mut self, what: Disturbed) {
        match what {
            Disturbed::Cut(from, to) => {
                self.world.heal(self.nodes[from].host, self.nodes[to].host);
                self.workload.borrow_mut().paths().cut(from, to, None);
            }
            Disturbed::Slow(from, to) => self.world.slow_way(from, to, None),
            Disturbed::Unreached(node) => self.nodes[node].control.way().set(Through::All),
            // It has died meanwhile, and starts anew with what there is, or has already.
            Disturbed::LeftBehind(node) if self.nodes[node].returns.is_some() || !self.nodes[node].control.way().is_left_behind() => {}
            Disturbed::LeftBehind(node) => {
                self.kill(node, false);
                self.start(node);
            }
            Disturbed::NoMajority => (0..usize::from(self.faults.members)).for_each(|member| self.directory.set_up(member, true)),
        }
    }
    /// The directory has the faults of the plan from now on, or none.
    pub fn directory_has_faults(&mut self, has: bool) {
        self.directory.set_faults(if has { self.faults.clone() } else { Faults { members: self.faults.members, ..Faults::NONE } });
    }
    /// Whether nothing goes on of what disturbed: no node is paused, and nothing can come late in the directory.
    pub fn is_calm(&self) -> bool {
        self.directory.is_settled() && self.world.now() >= self.paused_until
    }
    /// The newest revision of the directory, whoever knows.
    pub fn newest(&self) -> Revision {
        self.directory.newest()
    }
    fn cut_nodes(&mut self, from: usize, to: usize, for_ns: u64) {
        self.workload.borrow_mut().paths().cut(from, to, Some(self.world.now().0));
        self.disturb(for_ns, Disturbed::Cut(from, to));
        self.world.cut(self.nodes[from].host, self.nodes[to].host);
    }
    fn cut(&mut self, from: HostId, to: HostId, for_ns: u64) {
        self.cut_ways.cut(&mut self.world, from, to, Duration::from_nanos(for_ns));
    }
    /// When something that was disturbed is to be well again.
    pub fn next_return(&self) -> Option<Instant> {
        let disturbed = self.disturbed.iter().map(|(at, _)| *at);
        self.cut_ways.next().into_iter().chain(self.nodes.iter().filter_map(|n| n.returns)).chain(disturbed).min()
    }
    /// What is due is well again; `all`: everything.
    pub fn heal_due(&mut self, all: bool) {
        let now = self.world.now();
        self.cut_ways.restore(&mut self.world, all);
        let due: Vec<Disturbed> = self.disturbed.extract_if(.., |(at, _)| all || *at <= now).map(|(_, what)| what).collect();
        due.into_iter().for_each(|what| self.heal(what));
        for node in 0..self.nodes.len() {
            if self.nodes[node].returns.take_if(|at| all || *at <= now).is_some() {
                self.workload.borrow_mut().note(now.0, format!("node {node} starts"));
                self.start(node);
            }
        }
    }

    /// Lets time pass until something is wrong, or `stop` holds; whether it did.
    pub fn run(&mut self, limit: Duration, mut stop: impl FnMut(&[NodeHost], &Workload) -> bool) -> bool {
        let NodesLab { world, nodes, workload, events, clock, directory, truth, .. } = self;
        let clock = world.rt(*clock, 0);
        let (mut served, mut before) = (Vec::new(), Vec::new());
        world.run_until(limit, || {
            let now = clock.now().0;
            directory.advance(std::time::Duration::from_nanos(now));
            nodes.iter_mut().for_each(|node| node.control.turn(now));
            truth.borrow_mut().catch_up(&mut workload.borrow_mut(), now);
            served.clear();
            served.extend(nodes.iter().map(|node| node.control.served()));
            if served != before {
                truth.borrow_mut().nodes_serve(&served, &mut workload.borrow_mut(), now);
                before.clone_from(&served);
            }
            *events += 1;
            if *events > EVENTS_MAX {
                workload.borrow_mut().fail("the nodes are busy without end".into(), None);
            }
            let workload = workload.borrow();
            workload.wrong.is_some() || stop(nodes, &workload)
        })
    }
    /// The record of the object of a volume, as the directory truly has it.
    pub fn object(&self, volume: usize) -> ObjectRecord {
        let truth = self.truth.borrow();
        let record = truth.view().find::<VolumeRecord>(&volume_id(volume).to_string()).expect("it can be read");
        let object = record.expect("no volume goes in these worlds").object;
        truth.view().find::<ObjectRecord>(&object.to_string()).expect("it can be read").expect("every volume has one").value
    }
    /// Volumes that are laid out anew, and whether anything is left of other places.
    pub fn moves(&self) -> (Vec<usize>, bool) {
        let truth = self.truth.borrow();
        let all = truth.view().all::<VolumeRecord>().expect("they can be read");
        let moving = |volume: &usize| all.iter().any(|v| v.id == volume_id(*volume) && v.moves_to.is_some());
        let moving = (0..all.len()).filter(moving).collect();
        (moving, all.iter().any(|v| v.place_of.is_some()))
    }
    /// Whether a volume is still to go to another node, which was named and has a copy in sync.
    pub fn is_to_be_handed_over(&self, volume: usize) -> bool {
        let record = self.truth.borrow().view().find::<VolumeRecord>(&volume_id(volume).to_string()).expect("it can be read");
        let (object, named) = (self.object(volume), record.and_then(|r| r.value.preferred_owner));
        let can = |name: &String| object.used().any(|c| c.node == *name && c.state == CopyState::Active);
        named.filter(can).is_some_and(|name| object.owner.as_ref().is_some_and(|owner| *owner != name))
    }
    /// Whether the owner of a volume has taken it over in the life that it has.
    pub fn is_owned(&self, volume: usize) -> bool {
        let object = self.object(volume);
        let (Some(owner), life) = (object.owner, object.change.owner_incarnation) else { return false };
        self.nodes.iter().any(|n| n.control.life() == (owner.clone(), life.0))
    }
    /// Whether every client can send commands.
    pub fn all_serving(&self) -> bool {
        self.clients.iter().all(|c| c.client.borrow().is_serving())
    }
    /// There is something to do for the clients.
    pub fn wake_clients(&mut self) {
        for client in &self.clients {
            self.world.rt(client.host, 0).wake(0);
        }
    }
    /// All programs end.
    pub fn end(&mut self) {
        let hosts = self.clients.iter().map(|c| c.host).chain(self.nodes.iter().map(|n| n.host)).chain([self.clock]);
        for host in hosts.collect::<Vec<_>>() {
            self.world.kill_process(host);
        }
    }
}
