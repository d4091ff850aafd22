//! A node of a modelled cluster: Basalt's code on its cores, its drives, and what a control plane does for it.
//!
//! ```text
//!  start: groups and components, as `cluster::reconcile` decides ─► links listen ─► the records are served
//!  then:  the host of owners asks ─► the directory reads or changes ─► every node serves what it says now ─► who has asked hears of it
//! ```
//!
//! Invariants: what is served is made from the records; a change is called made when the node that asked for it serves what it says.
//! Never: lets time pass but for a command.

use super::charged::Charged;
use super::front::{AtTheDoor, Shared};
use super::world::failed;
use crate::exports::{self, Hosts, Transport};
use crate::model::cluster::{Cluster, Namespace};
use crate::model::drives;
use crate::records::{self, cluster_id, name_of};
use base::{ComponentId, Duration, GroupId, ObjectId};
use cluster::record::{DeviceRecord, GroupRecord, LinksRecord, ObjectRecord, VolumeRecord};
use dataplane::{
    Balancing, ChangeOutcome, CommandSender, Completion, CoreSeed, DataPlaneError, DataPlaneEvent, Desired, Device, DirectoryAsk, Found,
    RecordRevision, component_spec, core_seeds, format_spec, served,
};
use directory::{ModelledNode, NodeDevices, Revision, Transaction};
use frontend::{FrontEnd, InProcess, Of, Pair};
use lab::LabError;
use peers::{LinkSecurity, Peers, PeersDesired};
use rt::sim::{HostId, SimDeviceOptions, SimDrive, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The front ends of a modelled node: clients behind the door, hosts, and the other nodes.
type Front = Pair<Pair<InProcess<AtTheDoor>, Charged<Hosts>>, Peers>;

/// Longest time that a command may take, in virtual time.
const COMMAND_MAX: Duration = Duration::from_secs(3600);
/// Where a node takes links of the others.
const PORT: u16 = 4421;

/// See the module.
pub(super) struct Node {
    pub number: usize,
    pub host: HostId,
    pub commands: CommandSender<Front>,
    events: Receiver<DataPlaneEvent>,
    /// Of each group, cache first.
    pub devices: BTreeMap<GroupId, Vec<Device>>,
    /// What hosts see.
    pub exports: <Hosts as FrontEnd>::Desired,
    generation: u64,
    /// What the host of owners is answered when this is served.
    waiting: Vec<(Completion<()>, Answer)>,
}

/// What was read, or the revision with which something was changed; with the number of the question.
enum Answer {
    Read(u64, Vec<(ObjectId, Found)>),
    Made(u64, RecordRevision),
}

/// A group of a node.
pub(super) fn group_id(node: usize, at: usize) -> GroupId {
    let mut bytes = [at as u8 + 1; 16];
    bytes[0] = node as u8 + 1;
    GroupId::from_bytes(bytes)
}

/// Gives the outcome of a command that is under way.
pub(super) fn outcome<T>(world: &mut World, ticket: &Completion<T>) -> Result<T, LabError> {
    let mut answer = None;
    world.run_until(COMMAND_MAX, || {
        answer = answer.take().or_else(|| ticket.try_take());
        answer.is_some()
    });
    answer.unwrap_or(Err(DataPlaneError::Stopped)).map_err(failed)
}

/// The modelled drives of a node, by name, and how much of each is given out.
struct Drives(BTreeMap<String, (SimDrive, u64)>);

impl Drives {
    fn new(world: &mut World, cluster: &Cluster, node: usize) -> Drives {
        let make = |d: &crate::model::cluster::DriveUse| {
            let mut speed = drives::find(&d.model).expect("the cluster was checked").speed;
            speed.used = d.used;
            if let Some(fast) = &mut speed.fast {
                fast.bytes /= cluster.scale.size;
            }
            (d.name.clone(), (world.drive(speed.slice(cluster.scale.rate)), 0))
        };
        Drives(cluster.nodes[node].drives.iter().map(make).collect())
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

impl Node {
    /// Its cores run, its devices are there.
    pub fn start(world: &mut World, cluster: &Cluster, number: usize, shared: &Rc<RefCell<Shared>>) -> Node {
        let model = &cluster.nodes[number];
        let mut drives = Drives::new(world, cluster, number);
        let mut all = BTreeMap::new();
        for (at, group) in model.groups.iter().enumerate() {
            let mut devices = drives.namespaces(world, cluster, &group.cache);
            for space in &group.capacity {
                devices.extend(drives.namespaces(world, cluster, space));
            }
            all.insert(group_id(number, at), devices);
        }
        let (cores, settings) = (model.cores, cluster.settings(model.groups[0].shards));
        let hosts = Arc::new(exports::shared());
        let (commands, events, made) = core_seeds(cores, settings, (Arc::new((Arc::default(), Arc::clone(&hosts))), Arc::default()));
        let seeds: RefCell<Vec<Option<CoreSeed<Front>>>> = RefCell::new(made.into_iter().map(Some).collect());
        let shared = Rc::clone(shared);
        let behind = cluster.clients.is_none();
        let request_ns = model.core_cost.of_request(&cluster.scale, cluster.clients.as_ref());
        let host = world.add_host(cores, move |rt| {
            let seed = seeds.borrow_mut()[rt.core()].take().expect("each core is started once");
            let at_the_door = behind.then(|| AtTheDoor::new(&rt, Rc::clone(&shared), number, request_ns));
            let hosts = Charged::new(Hosts::start(&rt, Arc::clone(&hosts)), request_ns);
            seed.start_with(&rt, Pair::new(Pair::new(InProcess(at_the_door), hosts), Peers::new(&rt)))
        });
        let exports = Default::default();
        Node { number, host, commands, events, devices: all, exports, generation: 0, waiting: Vec::new() }
    }
    /// Where it takes links, and with how many cores.
    pub fn links(&self, world: &World, cluster: &Cluster) -> LinksRecord {
        LinksRecord { addr: SocketAddr::new(world.addr(self.host), PORT), cores: cluster.nodes[self.number].cores as u8 }
    }
    /// Takes links.
    pub fn listen(&self, world: &mut World, cluster: &Cluster) -> Result<(), LabError> {
        let at = self.links(world, cluster).addr;
        outcome(world, &self.commands.listen(Of::Second(at))).map(drop)
    }

    /// Where hosts reach it by a protocol.
    pub fn hosts_at(&self, world: &World, transport: Transport) -> SocketAddr {
        let port = match transport {
            Transport::NvmeTcp => 4420,
            Transport::Iscsi => 3260,
        };
        SocketAddr::new(world.addr(self.host), port)
    }
    /// Takes hosts.
    pub fn listen_for_hosts(&self, world: &mut World, transport: Transport) -> Result<(), LabError> {
        let at = self.hosts_at(world, transport);
        let listener = match transport {
            Transport::NvmeTcp => Of::First(exports::nvme_listener(at)),
            Transport::Iscsi => Of::Second(at.into()),
        };
        outcome(world, &self.commands.listen(Of::First(Of::Second(listener)))).map(drop)
    }

    /// Its groups are made and open.
    pub fn make_groups(&self, world: &mut World, cluster: &Cluster, records: &mut ModelledNode) -> Result<(), LabError> {
        for (at, model) in cluster.nodes[self.number].groups.iter().enumerate() {
            let device = |d: &Device| DeviceRecord::Block { path: format!("/dev/{}", d.name()), bytes: d.bytes() };
            let devices = self.devices[&group_id(self.number, at)].iter().map(device).collect();
            let group = records::group((group_id(self.number, at), self.number, format!("group-{at}")), model.shards, devices);
            records::write(records, Transaction::new().create(&group));
            Hands { world: &mut *world, node: self }.format_group(&group)?;
            outcome(world, &self.commands.set_settings(cluster.settings(model.shards)))?;
            self.work(world, records)?;
        }
        Ok(())
    }
    /// Does what the records say that it has to do.
    pub fn work(&self, world: &mut World, records: &mut ModelledNode) -> Result<(), LabError> {
        records.work(&mut Hands { world, node: self })
    }
    /// Has it serve what the records say now.
    pub fn apply(&mut self, records: &mut ModelledNode) -> Completion<()> {
        let all = records.records();
        let served = served(&all, records.observed());
        let nodes = PeersDesired::of_records(cluster_id(), &all.nodes, &name_of(self.number)).with_security(LinkSecurity::Plain);
        self.generation += 1;
        self.commands.apply(Desired {
            generation: self.generation,
            volumes: served.volumes,
            held: served.held,
            objects: served.objects,
            balancing: Balancing::Off,
            exports: (((), self.exports.clone()), nodes),
        })
    }

    // ---- the host of owners -----------------------------------------------------------------------------------------

    /// Takes what it asks; whether the records are other ones now. Of what its links say nothing depends: clients are at the owner.
    pub fn ask(&mut self, records: &mut ModelledNode) -> bool {
        let mut changed = false;
        while let Ok(event) = self.events.try_recv() {
            let answer = match event {
                DataPlaneEvent::Directory(DirectoryAsk::Read { request, objects }) => {
                    let found = directory::ownerships(&records.view(), &objects).expect("nothing goes wrong in this directory");
                    let found = found.into_iter().map(|(object, found)| (object, found.map(|(r, record)| (RecordRevision(r.0), record))));
                    Answer::Read(request, found.collect())
                }
                DataPlaneEvent::Directory(DirectoryAsk::Change { request, changes }) => {
                    let asked = changes.iter().map(|c| (c.object, Revision(c.on.0), &*c.new));
                    let made = directory::ownership_changes(&records.view(), &name_of(self.number), asked);
                    match made.expect("nothing goes wrong in this directory") {
                        Err(refused) => {
                            self.commands.directory_changed(request, ChangeOutcome::Refused(Some(refused)));
                            continue;
                        }
                        Ok((transaction, begun)) => {
                            records.begin_terms(begun);
                            let revision = records.commit(transaction).expect("nobody else writes between");
                            changed = true;
                            Answer::Made(request, RecordRevision(revision.0))
                        }
                    }
                }
                _ => continue,
            };
            let served = self.apply(records);
            self.waiting.push((served, answer));
        }
        changed
    }
    /// Answers what waits until the node serves it.
    pub fn answer(&mut self) -> Result<(), LabError> {
        for (served, answer) in std::mem::take(&mut self.waiting) {
            match served.try_take() {
                None => self.waiting.push((served, answer)),
                Some(result) => {
                    result.map_err(failed)?;
                    match answer {
                        Answer::Read(request, found) => self.commands.directory_read(request, Some(found)),
                        Answer::Made(request, revision) => self.commands.directory_changed(request, ChangeOutcome::Made(revision)),
                    }
                }
            }
        }
        Ok(())
    }
    /// Whether nothing of the directory is under way.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// What a node does on its devices.
struct Hands<'a> {
    world: &'a mut World,
    node: &'a Node,
}

impl NodeDevices for Hands<'_> {
    type Error = LabError;

    fn format_group(&mut self, group: &GroupRecord) -> Result<(), LabError> {
        let (devices, spec) = (self.node.devices[&group.id].clone(), format_spec(cluster_id(), group, false));
        outcome(self.world, &self.node.commands.format_group(spec, devices[0].clone(), devices[1..].to_vec())).map(drop)
    }
    fn open_group(&mut self, group: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, LabError> {
        let devices = self.node.devices[&group.id].clone();
        let (_, found) = outcome(self.world, &self.node.commands.open_group(Some(cluster_id()), devices))?;
        Ok(found.iter().map(|c| (c.id, c.no.0)).collect())
    }
    fn create_component(&mut self, volume: &VolumeRecord, object: &ObjectRecord, mirror: usize, copy: usize) -> Result<u32, LabError> {
        let (group, spec) = (object.mirrors[mirror][copy].group, component_spec(volume, object, mirror, copy));
        outcome(self.world, &self.node.commands.create_component(group, spec)).map(|no| no.0)
    }
}
