//! The world of a modelled cluster: drives, namespaces, the node with Basalt's code on its cores, volumes; and how time passes.
//!
//! Invariants: what is built is what the cluster file says, scaled; clients and node live in one world, in one thread.
//! Never: draws anything but from the seed.

use super::front::{Clients, Play, Shared};
use crate::model::cluster::{Cluster, Cost, Namespace};
use crate::model::drives;
use crate::records::{self, cluster_id};
use base::{ComponentId, Duration, GroupId, Instant, ObjectId, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, ObjectRecord, VolumeRecord};
use dataplane::{CommandSender, Completion, CoreSeed, DataPlaneError, Desired, Device, component_spec, core_seeds, format_spec, served};
use directory::{NodeDevices, Transaction};
use frontend::InProcess;
use lab::LabError;
use rt::sim::{HostId, SimDeviceOptions, SimDrive, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// The front end of a modelled node: its clients are in the process.
type Front = InProcess<Clients>;

/// The engine, as results name it.
pub(super) const NAME: &str = "simulated";
/// Longest time that an order may take, in virtual time.
const COMMAND_MAX: Duration = Duration::from_secs(3600);

/// See the module.
pub(super) struct Modelled {
    world: World,
    node: HostId,
    cores: usize,
    commands: CommandSender<Front>,
    /// Of each group, cache first.
    devices: BTreeMap<GroupId, Vec<Device>>,
    shared: Rc<RefCell<Shared>>,
}

/// What the node and its devices have done until now.
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

fn failed(error: DataPlaneError) -> LabError {
    LabError::Engine { engine: NAME, problem: format!("the modelled node: {error}") }
}

fn group_id(at: usize) -> GroupId {
    GroupId::from_bytes([at as u8 + 1; 16])
}
fn component_id(volume: usize, mirror: usize) -> ComponentId {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&(volume as u16).to_be_bytes());
    bytes[2..4].copy_from_slice(&(mirror as u16).to_be_bytes());
    ComponentId::from_bytes(bytes)
}
/// In the order of the volumes, so that the node numbers them so.
fn volume_id(at: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[14..].copy_from_slice(&(at as u16 + 1).to_be_bytes());
    bytes
}

/// The modelled drives of a node, by name, and how much of each is given out.
struct Drives(BTreeMap<String, (SimDrive, u64)>);

impl Drives {
    fn new(world: &mut World, cluster: &Cluster) -> Drives {
        let make = |d: &crate::model::cluster::DriveUse| {
            let mut speed = drives::find(&d.model).expect("the cluster was checked").speed;
            speed.used = d.used;
            if let Some(fast) = &mut speed.fast {
                fast.bytes /= cluster.scale.size;
            }
            (d.name.clone(), (world.drive(speed.slice(cluster.scale.rate)), 0))
        };
        Drives(cluster.nodes[0].drives.iter().map(make).collect())
    }

    fn namespaces(&mut self, world: &mut World, cluster: &Cluster, space: &Namespace) -> Vec<Device> {
        let (drive, next) = self.0.get_mut(&space.drive).expect("the cluster was checked");
        let bytes = cluster.bytes(space.gib);
        let mut make = |n: usize| {
            let options = SimDeviceOptions {
                name: format!("{}n{n}@{}", space.drive, *next >> 20),
                volatile_cache: false,
                drive: Some(*drive),
                drive_offset: *next,
                compact: true,
                ..SimDeviceOptions::default()
            };
            *next += bytes;
            world.device(bytes, options)
        };
        (0..space.count).map(&mut make).collect()
    }
}

impl Modelled {
    /// Builds it. Groups are formatted and open, volumes are served.
    pub fn new(cluster: &Cluster, seed: u64) -> Result<Modelled, LabError> {
        let mut world = World::new(seed);
        let model = &cluster.nodes[0];
        let mut drives = Drives::new(&mut world, cluster);
        let mut groups = BTreeMap::new();
        for (at, group) in model.groups.iter().enumerate() {
            let mut devices = drives.namespaces(&mut world, cluster, &group.cache);
            for space in &group.capacity {
                devices.extend(drives.namespaces(&mut world, cluster, space));
            }
            groups.insert(group_id(at), devices);
        }
        let request_ns = if model.core_cost == Cost::Measured { Cost::REQUEST_NS * cluster.scale.rate } else { 0.0 };
        let net = ((cluster.network.round_trip_us * 1e3) as u64, 8.0 * cluster.scale.rate / cluster.network.gbit_per_s);
        let shared = Rc::new(RefCell::new(Shared::new(seed, net, request_ns)));
        let (node, commands) = start_node(&mut world, cluster, &shared);
        let mut modelled = Modelled { world, node, cores: model.cores, commands, devices: groups, shared };
        modelled.serve(cluster)?;
        if let Some(cost) = model.core_cost.of_core(&cluster.scale) {
            modelled.world.core_cost(node, cost);
        }
        Ok(modelled)
    }

    /// Writes into the node's directory what the cluster consists of, does what is decided from that, and serves it.
    fn serve(&mut self, cluster: &Cluster) -> Result<(), LabError> {
        let mut node = records::node();
        for (at, model) in cluster.nodes[0].groups.iter().enumerate() {
            let group = self.group(at, model.shards);
            records::write(&mut node, Transaction::new().create(&group));
            self.format_group(&group)?;
            let commands = self.commands.clone();
            self.command(|| commands.set_settings(cluster.settings(model.shards)))?;
            node.work(self)?;
        }
        for at in 0..cluster.volumes.count {
            let (volume, object) = volume(cluster, at);
            node.write_volume(&volume, &object).expect("nobody else writes");
        }
        node.work(self)?;
        let desired = Desired {
            generation: 1,
            volumes: served(&node.records(), node.observed()).volumes,
            held: Vec::new(),
            objects: Vec::new(),
            exports: (),
        };
        let commands = self.commands.clone();
        self.command(|| commands.apply(desired))
    }

    fn group(&self, at: usize, shards: u8) -> GroupRecord {
        let device = |d: &Device| DeviceRecord::Block { path: format!("/dev/{}", d.name()), bytes: d.bytes() };
        let devices = self.devices[&group_id(at)].iter().map(device).collect();
        records::group(group_id(at), format!("group-{at}"), shards, devices)
    }

    fn command<T>(&mut self, give: impl FnOnce() -> Completion<T>) -> Result<T, LabError> {
        let ticket = give();
        let mut answer = None;
        self.world.run_until(COMMAND_MAX, || {
            answer = answer.take().or_else(|| ticket.try_take());
            answer.is_some()
        });
        answer.unwrap_or(Err(DataPlaneError::Stopped)).map_err(failed)
    }

    /// What was done until now.
    pub fn figures(&mut self) -> Result<Figures, LabError> {
        let commands = self.commands.clone();
        let stats = self.command(|| commands.stats())?;
        let mut figures = Figures { fill: stats.fullest_buffer(), ..Figures::default() };
        for shard in stats.shards() {
            figures.destaged += shard.stats.destaged_bytes;
            figures.logged_blocks += shard.stats.written_blocks;
            figures.batches += shard.stats.batches;
            figures.log_overhead += shard.stats.log_overhead_bytes;
        }
        figures.device_read = self.devices.values().flatten().map(|d| d.counters().read_bytes.load(Relaxed)).sum();
        figures.device_written = self.devices.values().flatten().map(|d| d.counters().write_bytes.load(Relaxed)).sum();
        figures.busy_ns = self.world.busy_ns(self.node).iter().sum();
        Ok(figures)
    }

    /// The virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.now().0
    }
    pub fn trace(&self) -> u64 {
        self.world.trace_hash()
    }
    pub fn run_for(&mut self, ns: u64) {
        self.world.run_for(Duration::from_nanos(ns));
    }
    pub fn run_until(&mut self, at: u64) {
        let now = self.world.now();
        self.world.run_for(Instant(at).since(now));
    }
    /// A load begins.
    pub fn play(&mut self, play: Play) {
        self.shared.borrow_mut().play = Some(play);
        for core in 0..self.cores {
            self.world.rt(self.node, core).wake(core);
        }
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

impl NodeDevices for Modelled {
    type Error = LabError;

    fn format_group(&mut self, group: &GroupRecord) -> Result<(), LabError> {
        let (commands, devices) = (self.commands.clone(), self.devices[&group.id].clone());
        let spec = format_spec(cluster_id(), group, false);
        self.command(|| commands.format_group(spec, devices[0].clone(), devices[1..].to_vec())).map(drop)
    }
    fn open_group(&mut self, group: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, LabError> {
        let (commands, devices) = (self.commands.clone(), self.devices[&group.id].clone());
        let (_, found) = self.command(|| commands.open_group(Some(cluster_id()), devices))?;
        Ok(found.iter().map(|c| (c.id, c.no.0)).collect())
    }
    fn create_component(&mut self, volume: &VolumeRecord, object: &ObjectRecord, mirror: usize, copy: usize) -> Result<u32, LabError> {
        let (commands, spec) = (self.commands.clone(), component_spec(volume, object, mirror, copy));
        let group = object.mirrors[mirror][copy].group;
        self.command(|| commands.create_component(group, spec)).map(|no| no.0)
    }
}

/// The records of a volume: dealt to the groups in turn, and begun on the devices of its group in turn.
fn volume(cluster: &Cluster, at: usize) -> (VolumeRecord, ObjectRecord) {
    let groups = &cluster.nodes[0].groups;
    let group = at % groups.len();
    let capacity: usize = groups[group].capacity.iter().map(|n| n.count).sum();
    let width = if cluster.volumes.stripes == 0 { capacity } else { cluster.volumes.stripes.min(capacity) };
    let on = (0..width).map(|mirror| ((at / groups.len() + mirror) % capacity) as u8).collect();
    let (id, object) = (VolumeId::from_bytes(volume_id(at)), ObjectId::from_bytes(volume_id(at)));
    let bytes = cluster.bytes(cluster.volumes.gib);
    records::volume((id, object, format!("volume-{}", at + 1)), bytes, (group_id(group), on), |mirror| component_id(at, mirror))
}

fn start_node(world: &mut World, cluster: &Cluster, shared: &Rc<RefCell<Shared>>) -> (HostId, CommandSender<Front>) {
    let cores = cluster.nodes[0].cores;
    let settings = cluster.settings(cluster.nodes[0].groups[0].shards);
    let (commands, _events, made) = core_seeds(cores, settings, ());
    let seeds: RefCell<Vec<Option<CoreSeed<Front>>>> = RefCell::new(made.into_iter().map(Some).collect());
    let shared = Rc::clone(shared);
    let node = world.add_host(cores, move |rt| {
        let seed = seeds.borrow_mut()[rt.core()].take().expect("each core is started once");
        let clients = Clients::new(&rt, Rc::clone(&shared));
        seed.start_with(&rt, InProcess(Some(clients)))
    });
    (node, commands)
}
