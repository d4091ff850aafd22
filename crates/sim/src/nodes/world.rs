//! The world of a run of several nodes: their hosts with the real code on their cores, their devices, the clients, and what disturbs them.
//!
//! Invariant: everything lives in one simulated world, in one thread.
//! Never: draws anything; a plan says it all.

use super::node::{Door, FrontEnds, NodeControl};
use super::plan::{NodeEvent, NodesPlan};
use super::records::{self, NQN, cluster};
use crate::client::{Client, ClientApp};
use crate::cut_ways::CutWays;
use crate::workload::Workload;
use base::{ComponentId, Duration, Instant};
use cluster::record::{GroupRecord, ObjectRecord, VolumeRecord};
use dataplane::{Completion, CoreSeed, DataPlaneError, Device, component_spec, core_seeds};
use directory::modelled::{Faults, Modelled};
use directory::{ModelledNode, NodeDevices};
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
const PORTS: [u16; 2] = [4420, 4421];

struct ClientHost {
    host: HostId,
    client: Rc<RefCell<Client>>,
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
    events: u64,
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
            let target = Arc::new(nvmf::TargetShared::new(nvmf::Options::of_slot(slot)));
            let (commands, events, made) = core_seeds(cores, settings, (target, Arc::default()));
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
        let links: Vec<SocketAddr> = (0..hosts.len()).map(|node| addr(&world, node, PORTS[1])).collect();
        let mut nodes = Vec::new();
        for node in 0..hosts.len() {
            let made = plan.nodes[node].devices.iter();
            let devices: Vec<Device> = made.map(|(mib, options)| world.device(mib << 20, options.clone())).collect();
            let mut directory = ModelledNode::new(&records::name_of(node), modelled.clone());
            if node == 0 {
                records::write(&mut directory, plan, &links).expect("nobody else writes");
            }
            directory.work(&mut Setup { world: &mut world, door: &doors[node], devices: &devices })?;
            let addrs = PORTS.map(|port| addr(&world, node, port));
            let control = NodeControl::new(node, plan, Rc::clone(&doors[node]), devices.clone(), addrs, directory);
            nodes.push(NodeHost { host: hosts[node], devices, control, returns: None });
        }
        let workload = Rc::new(RefCell::new(Workload::new(Rc::new(plan.base.clone())).of_several_nodes()));
        let clock = world.add_host(1, |rt| {
            let queue = rt.queue();
            rt.timer(&queue, 0, rt.now());
            Box::new(ClockApp(queue))
        });
        let (client_at, cut_ways) = (plan.client_at.clone(), CutWays::default());
        let mut lab = NodesLab { world, nodes, clients: Vec::new(), client_at, clock, workload, cut_ways, events: 0 };
        // What was made in a life for that is found in the first one.
        for node in 0..lab.nodes.len() {
            lab.kill(node, false);
            lab.start(node);
        }
        for (id, client) in plan.base.clients.iter().enumerate() {
            let slot: Rc<RefCell<Option<Rc<RefCell<Client>>>>> = Rc::default();
            let (made, client, workload) = (Rc::clone(&slot), client.clone(), Rc::clone(&lab.workload));
            let addr = addr(&lab.world, plan.client_at[id], PORTS[0]);
            let host = lab.world.add_host(1, move |rt| {
                let client = Rc::new(RefCell::new(Client::new(id, &rt, client.clone(), NQN, addr, Rc::clone(&workload))));
                *made.borrow_mut() = Some(Rc::clone(&client));
                Box::new(ClientApp(client))
            });
            let client = slot.borrow_mut().take().expect("its core was started");
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
        let now = self.world.now().0;
        self.nodes[node].control.started(&self.workload, now);
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
                let (a, b) = (self.nodes[from].host, self.nodes[to].host);
                self.cut(a, b, for_ns);
                if both {
                    self.cut(b, a, for_ns);
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
            NodeEvent::Protect { node, volume, on } => self.nodes[node].control.protect(volume, on),
        }
    }
    fn cut(&mut self, from: HostId, to: HostId, for_ns: u64) {
        self.cut_ways.cut(&mut self.world, from, to, Duration::from_nanos(for_ns));
    }
    /// When something that was disturbed is to be well again.
    pub fn next_return(&self) -> Option<Instant> {
        self.cut_ways.next().into_iter().chain(self.nodes.iter().filter_map(|n| n.returns)).min()
    }
    /// What is due is well again; `all`: everything.
    pub fn heal_due(&mut self, all: bool) {
        let now = self.world.now();
        self.cut_ways.restore(&mut self.world, all);
        for node in 0..self.nodes.len() {
            if self.nodes[node].returns.take_if(|at| all || *at <= now).is_some() {
                self.workload.borrow_mut().note(now.0, format!("node {node} starts"));
                self.start(node);
            }
        }
    }

    /// Lets time pass until something is wrong, or `stop` holds; whether it did.
    pub fn run(&mut self, limit: Duration, mut stop: impl FnMut(&[NodeHost], &Workload) -> bool) -> bool {
        let NodesLab { world, nodes, workload, events, clock, .. } = self;
        let clock = world.rt(*clock, 0);
        world.run_until(limit, || {
            let now = clock.now().0;
            nodes.iter_mut().for_each(|node| node.control.turn(workload, now));
            *events += 1;
            if *events > EVENTS_MAX {
                workload.borrow_mut().fail("the nodes are busy without end".into(), None);
            }
            let workload = workload.borrow();
            workload.wrong.is_some() || stop(nodes, &workload)
        })
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
