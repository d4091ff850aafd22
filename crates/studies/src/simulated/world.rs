//! The world of a modelled cluster: its nodes and links, its directory, volumes; and how time passes.
//!
//! Invariants: what is built is what the cluster file says, scaled; clients, nodes and directory live in one world, in one thread.
//! Never: draws anything but from the seed.

use super::front::{Play, Shared};
use super::hosts::{EXPORT, Host, HostOptions};
use super::node::{Node, group_id, outcome};
use crate::exports;
use crate::model::cluster::Cluster;
use crate::model::place::{self, CopyModel};
use crate::records;
use base::{ComponentId, Duration, Instant, ObjectId, VolumeId};
use cluster::record::{ObjectRecord, VolumeRecord};
use dataplane::{DataPlaneError, Device};
use directory::{ModelledNode, Transaction};
use lab::LabError;
use rt::sim::{HostId, NetOptions, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// The engine, as results name it.
pub(super) const NAME: &str = "simulated";
/// How often it is looked whether a node asks something of the directory, when there are several, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;
/// Bytes that are sent at once, when there are so many.
const SEGMENT_BYTES: u64 = 65_536;
/// How long nodes may take until they own what they have, and what they get then to come to rest.
const TAKE_OVER_MAX_NS: u64 = 60_000_000_000;
const AT_REST_NS: u64 = 500_000_000;
/// How long hosts may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether they do.
const OWNED_LOOK_NS: u64 = 50_000_000;

/// See the module.
pub(super) struct Modelled {
    world: World,
    nodes: Vec<Node>,
    /// What each of them knows of the directory.
    records: Vec<ModelledNode>,
    /// Cores of each.
    cores: Vec<usize>,
    /// Hosts with clients.
    hosts: Vec<HostId>,
    shared: Rc<RefCell<Shared>>,
}

/// What the nodes and their devices have done until now, together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Fill of the fullest write buffer, 0 to 1.
    pub fill: f64,
    /// Bytes moved to capacity.
    pub destaged: u64,
    /// Bytes read from devices.
    pub device_read: u64,
    /// Bytes written to devices.
    pub device_written: u64,
    /// Nanoseconds that cores were busy.
    pub busy_ns: u64,
    /// Blocks of data written to write buffers.
    pub logged_blocks: u64,
    /// Batches that they came in.
    pub batches: u64,
    /// Bytes of headers and summaries beside them.
    pub log_overhead: u64,
}

pub(super) fn failed(error: DataPlaneError) -> LabError {
    LabError::Engine { engine: NAME, problem: format!("a modelled node: {error}") }
}

fn component_id(volume: usize, mirror: usize, copy: usize) -> ComponentId {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&(volume as u16).to_be_bytes());
    bytes[2..4].copy_from_slice(&(mirror as u16).to_be_bytes());
    bytes[4] = copy as u8;
    ComponentId::from_bytes(bytes)
}
/// In the order of the volumes, so that nodes number them so.
fn volume_id(at: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[14..].copy_from_slice(&(at as u16 + 1).to_be_bytes());
    bytes
}
fn volume(at: usize, bytes: u64, copies: &[CopyModel]) -> (VolumeRecord, ObjectRecord) {
    let names = (VolumeId::from_bytes(volume_id(at)), ObjectId::from_bytes(volume_id(at)), format!("volume-{}", at + 1));
    let copies: Vec<_> = copies.iter().map(|c| (c.node, group_id(c.node, c.group), c.on.clone())).collect();
    records::volume(names, bytes, &copies, |mirror, copy| component_id(at, mirror, copy))
}

impl Modelled {
    /// Builds it. Groups are formatted and open, volumes are served by their owners.
    pub fn new(cluster: &Cluster, seed: u64) -> Result<Modelled, LabError> {
        let mut world = World::new(seed);
        let round_trip_ns = (cluster.network.round_trip_us * 1e3) as u64;
        world.network(NetOptions {
            latency_ns: (round_trip_ns / 2, round_trip_ns / 2),
            segment_bytes: (SEGMENT_BYTES, SEGMENT_BYTES),
            byte_ns: 8.0 * cluster.scale.rate / cluster.network.gbit_per_s,
            ..NetOptions::default()
        });
        let shared = Rc::new(RefCell::new(Shared::new(seed, place::entrances(cluster), round_trip_ns)));
        let nodes: Vec<Node> = (0..cluster.nodes.len()).map(|at| Node::start(&mut world, cluster, at, &shared)).collect();
        let records = records::nodes(nodes.len(), cluster.volumes.failures_to_tolerate);
        let cores = cluster.nodes.iter().map(|node| node.cores).collect();
        let mut modelled = Modelled { world, nodes, records, cores, hosts: Vec::new(), shared };
        modelled.serve(cluster)?;
        let hosts = modelled.connect(cluster)?;
        for (node, model) in modelled.nodes.iter().zip(&cluster.nodes) {
            let cost = match &cluster.clients {
                Some(clients) => model.core_cost.over_protocol(&cluster.scale, clients),
                None => model.core_cost.of_core(&cluster.scale),
            };
            if let Some(cost) = cost {
                modelled.world.core_cost(node.host, cost);
            }
        }
        if let Some(clients) = &cluster.clients
            && let Some(cost) = clients.core_cost.over_protocol(&cluster.scale, clients)
        {
            hosts.into_iter().for_each(|host| modelled.world.core_cost(host, cost));
        }
        Ok(modelled)
    }

    /// Hosts with clients connect to the one node, if the clients speak a protocol.
    fn connect(&mut self, cluster: &Cluster) -> Result<Vec<HostId>, LabError> {
        let Some(clients) = cluster.clients else { return Ok(Vec::new()) };
        self.nodes[0].listen_for_hosts(&mut self.world, clients.transport)?;
        let addr = self.nodes[0].hosts_at(&self.world, clients.transport);
        let add = |host| {
            let options = HostOptions { host: (host, clients.hosts), transport: clients.transport, addr, volumes: cluster.volumes.count };
            let shared = Rc::clone(&self.shared);
            self.world.add_host(1, move |rt| Box::new(Host::new(&rt, Rc::clone(&shared), options)))
        };
        let hosts: Vec<HostId> = (0..clients.hosts).map(add).collect();
        self.hosts.clone_from(&hosts);
        let shared = Rc::clone(&self.shared);
        let ready = || shared.borrow().hosts_ready == clients.hosts || shared.borrow().wrong.is_some();
        if !self.world.run_until(CONNECT_MAX, ready) || self.shared.borrow().wrong.is_some() {
            let problem = self.take_wrong().unwrap_or_else(|| "the modelled hosts do not come to be connected".into());
            return Err(LabError::Engine { engine: NAME, problem });
        }
        Ok(hosts)
    }

    /// Writes into the directory what the cluster consists of, has the nodes do what is decided from that, and serve it.
    fn serve(&mut self, cluster: &Cluster) -> Result<(), LabError> {
        let Modelled { world, nodes, records, .. } = self;
        for (node, records) in nodes.iter().zip(&mut *records) {
            records::write(records, Transaction::new().create(&records::member(node.number, node.links(world, cluster))));
            node.make_groups(world, cluster, records)?;
        }
        for at in 0..cluster.volumes.count {
            let copies = place::copies(cluster, at);
            let (volume, object) = volume(at, cluster.bytes(cluster.volumes.gib), &copies);
            let owner = &mut records[copies[0].node];
            match copies.len() {
                1 => drop(owner.write_volume(&volume, &object).expect("nobody else writes")),
                // Its term begins when its owner takes it over.
                _ => records::write(owner, Transaction::new().create(&volume).create(&object)),
            }
        }
        for (node, records) in nodes.iter().zip(&mut *records) {
            node.work(world, records)?;
        }
        let several = nodes.len() > 1;
        if cluster.clients.is_some() {
            let volumes = (0..cluster.volumes.count).map(|at| VolumeId::from_bytes(volume_id(at))).collect();
            nodes[0].exports = exports::exports(&[(EXPORT, volumes)]);
        }
        for (node, records) in nodes.iter_mut().zip(records) {
            if several {
                node.listen(world, cluster)?;
            }
            let served = node.apply(records);
            outcome(world, &served)?;
        }
        if cluster.volumes.failures_to_tolerate > 0 { self.take_over() } else { Ok(()) }
    }
    /// Lets time pass until each object has the owner that it is to have, in a term of its own.
    fn take_over(&mut self) -> Result<(), LabError> {
        let until = self.now() + TAKE_OVER_MAX_NS;
        while !self.is_owned() {
            if self.now() > until {
                let problem = "the modelled nodes do not take over the volumes that they are to own".into();
                return Err(LabError::Engine { engine: NAME, problem });
            }
            self.run_for(OWNED_LOOK_NS)?;
        }
        self.run_for(AT_REST_NS)
    }
    fn is_owned(&mut self) -> bool {
        let is_first = |object: &ObjectRecord| object.owner == object.components().next().map(|c| c.node.clone());
        self.nodes.iter().all(Node::is_quiet) && self.records[0].records().objects.iter().all(is_first)
    }

    /// What was done until now.
    pub fn figures(&mut self) -> Result<Figures, LabError> {
        let mut figures = Figures::default();
        for node in &self.nodes {
            let stats = outcome(&mut self.world, &node.commands.stats())?;
            figures.fill = figures.fill.max(stats.fullest_buffer());
            for shard in stats.shards() {
                figures.destaged += shard.stats.destaged_bytes;
                figures.logged_blocks += shard.stats.written_blocks;
                figures.batches += shard.stats.batches;
                figures.log_overhead += shard.stats.log_overhead_bytes;
            }
            let sum = |of: fn(&Device) -> u64| node.devices.values().flatten().map(of).sum::<u64>();
            figures.device_read += sum(|d| d.counters().read_bytes.load(Relaxed));
            figures.device_written += sum(|d| d.counters().write_bytes.load(Relaxed));
            figures.busy_ns += self.world.busy_ns(node.host).iter().sum::<u64>();
        }
        Ok(figures)
    }

    /// Bytes that the devices of each node have written.
    #[cfg(test)]
    pub fn node_writes(&self) -> Vec<u64> {
        let of = |node: &Node| node.devices.values().flatten().map(|d| d.counters().write_bytes.load(Relaxed)).sum();
        self.nodes.iter().map(of).collect()
    }
    /// The virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.now().0
    }
    pub fn trace(&self) -> u64 {
        self.world.trace_hash()
    }
    pub fn run_for(&mut self, ns: u64) -> Result<(), LabError> {
        self.run_until(self.now() + ns)
    }
    pub fn run_until(&mut self, at: u64) -> Result<(), LabError> {
        while self.now() < at {
            let until = if self.nodes.len() == 1 { at } else { at.min(self.now() + LOOK_NS) };
            let now = self.world.now();
            self.world.run_for(Instant(until).since(now));
            self.directory()?;
        }
        Ok(())
    }
    /// The directory does what nodes ask.
    fn directory(&mut self) -> Result<(), LabError> {
        for asks in 0..self.nodes.len() {
            if self.nodes[asks].ask(&mut self.records[asks]) {
                let others = self.nodes.iter_mut().zip(&mut self.records).enumerate().filter(|(at, _)| *at != asks);
                others.for_each(|(_, (node, records))| drop(node.apply(records)));
            }
        }
        self.nodes.iter_mut().try_for_each(Node::answer)
    }
    /// A load begins.
    pub fn play(&mut self, play: Play) {
        self.shared.borrow_mut().play = Some(play);
        for (node, cores) in self.nodes.iter().zip(&self.cores) {
            (0..*cores).for_each(|core| self.world.rt(node.host, core).wake(core));
        }
        self.hosts.iter().for_each(|host| self.world.rt(*host, 0).wake(0));
    }
    /// Looks at the load that is played.
    ///
    /// # Panics
    /// When there is none.
    pub fn with_play<R>(&mut self, f: impl FnOnce(&mut Play) -> R) -> R {
        f(self.shared.borrow_mut().play.as_mut().expect("a load is played"))
    }
    pub fn stop_play(&mut self) {
        self.shared.borrow_mut().play = None;
    }
    /// What went wrong first, since it was asked last.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.shared.borrow_mut().wrong.take()
    }
}
