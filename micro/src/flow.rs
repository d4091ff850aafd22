//! Cases of whole flows: a command of a host through the session, the object layer and the store of one core, on devices in memory, in a
//! simulated world; destaging is part of it. Only the core's own instructions are counted, not the simulator's.

use crate::session::Line;
use crate::{Case, Counted, Draw, measured};
use base::unit::BLOCK_BYTES;
use base::{ClusterId, ComponentId, Duration, GroupId, NodeId, ObjectId, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, ObjectRecord, PolicyRecord, Stage, VolumeRecord};
use cluster::{DeviceInventory, GroupInventory, Inventory, NodeInventory, Policy};
use dataplane::{
    CommandSender, Completion, CoreSeed, DataPlaneError, DataPlaneEvent, Desired, Device, Settings, component_spec, core_seeds,
};
use directory::modelled::{Faults, Modelled};
use directory::{ModelledNode, NodeDevices, Transaction};
use format::nvme_tcp::Digests;
use format::peer::Incarnation;
use frontend::{Client, FrontEnd, InProcess, Of, Pair, Volumes};
use nvmf::{Options, Target, TargetShared};
use object::{Backend, IoDone, IoRequest};
use peers::{LinkSecurity, OwnNode, PeerDesired, Peers, PeersDesired};
use rt::sim::{HostId, World};
use rt::{App, Progress, Rt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

const VOLUME_BYTES: u64 = 16 << 20;
const VOLUME_BLOCKS: u64 = VOLUME_BYTES / BLOCK_BYTES as u64;
const NODE: &str = "micro";
const POLICY: &str = "default";
const CLUSTER: ClusterId = ClusterId::from_bytes([1; 16]);
const GROUP: GroupId = GroupId::from_bytes([2; 16]);
/// Small, so that a short run goes round it several times and destaging has come to its pace.
const LOG_BYTES: u64 = 32 << 20;
/// Holds the whole volume with room to spare.
const LARGE_LOG_BYTES: u64 = 64 << 20;
const CAPACITY_BYTES: u64 = 64 << 20;
/// Longest time that an order or a load may take, in virtual time.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Where nodes take links.
const PEER_PORT: u16 = 4421;
const PLAIN: Digests = Digests { header: false, data: false };

/// What the host does.
#[derive(Clone, Copy)]
struct Load {
    write: bool,
    bytes: usize,
    depth: usize,
    /// The data read lies in the log, not on capacity.
    in_log: bool,
    /// The group has a shard on each. The connection is on the first.
    cores: usize,
    /// Other nodes of its cluster, with which it has links at rest.
    others: usize,
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, what, times, run| Case { name, what, times, counted: Counted::Core, run };
    vec![
        case("read-4k", "random read of 4 KiB from capacity, depth 32", 2000, |n| flow(load(false, 4, 32, false), n)),
        case("read-4k-depth-1", "random read of 4 KiB from capacity, depth 1", 1000, |n| flow(load(false, 4, 1, false), n)),
        case("read-4k-log", "random read of 4 KiB from the log, depth 32", 2000, |n| flow(load(false, 4, 32, true), n)),
        case("write-4k", "random write of 4 KiB with its destaging, depth 32", 8000, |n| flow(load(true, 4, 32, false), n)),
        case("write-4k-depth-1", "random write of 4 KiB with its destaging, depth 1", 4000, |n| flow(load(true, 4, 1, false), n)),
        case("read-4k-64-nodes", "random read of 4 KiB from capacity, depth 32, with links to 63 other nodes", 2000, |n| {
            flow(among_64_nodes(32), n)
        }),
        case("read-4k-64-nodes-depth-1", "random read of 4 KiB from capacity, depth 1, with links to 63 other nodes", 1000, |n| {
            flow(among_64_nodes(1), n)
        }),
        case("read-4k-two-cores", "random read of 4 KiB from capacity, depth 32, half of them from another core", 2000, |n| {
            flow(on_two_cores(false), n)
        }),
        case("write-4k-two-cores", "random write of 4 KiB with its destaging, depth 32, half of them on another core", 8000, |n| {
            flow(on_two_cores(true), n)
        }),
        case("read-128k", "read of 128 KiB from capacity, depth 8", 200, |n| flow(load(false, 128, 8, false), n)),
        case("read-128k-log", "read of 128 KiB that 4 KiB writes at random left in the log, depth 8", 200, |n| {
            flow(load(false, 128, 8, true), n)
        }),
    ]
}

fn load(write: bool, kib: usize, depth: usize, in_log: bool) -> Load {
    Load { write, bytes: kib << 10, depth, in_log, cores: 1, others: 0 }
}

fn among_64_nodes(depth: usize) -> Load {
    Load { others: 63, ..load(false, 4, depth, false) }
}

fn on_two_cores(write: bool) -> Load {
    Load { cores: 2, ..load(write, 4, 32, false) }
}

/// What the clients and whoever looks at them share.
#[derive(Default)]
struct Play {
    line: Option<Line>,
    /// The part of the volume that is worked on next, by blocks of the load's size.
    order: Order,
    depth: usize,
    left: u64,
    in_flight: usize,
}

enum Order {
    Random(Draw, u64),
    /// Each block once, at random.
    Once(Vec<u64>),
}

impl Default for Order {
    fn default() -> Self {
        Order::Once(vec![])
    }
}

/// The front ends of the node: that of production, which is idle, and the play.
type Fronts = Pair<Pair<Target, Peers>, InProcess<Front>>;

/// What the halves of those of production share.
fn shared_parts() -> Arc<(Arc<TargetShared>, Arc<()>)> {
    Arc::new((Arc::new(TargetShared::new(Options::default())), Arc::default()))
}

/// The host's end of a connection, within the core.
struct Front(Rc<RefCell<Play>>);

impl Client for Front {
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool {
        let play = &mut *self.0.borrow_mut();
        let Some(line) = &mut play.line else { return false };
        let mut busy = false;
        while let Some(done) = backend.pop() {
            done.result.expect("healthy devices");
            line.answer(done);
            play.in_flight -= 1;
            busy = true;
        }
        line.send();
        while play.left > 0 && play.in_flight < play.depth {
            let lba = match &mut play.order {
                Order::Random(draw, places) => draw.below(*places) * line.blocks,
                Order::Once(places) => places.pop().expect("as many as are left") * line.blocks,
            };
            line.command(lba);
            play.left -= 1;
            play.in_flight += 1;
            busy = true;
        }
        for request in line.ios.drain(..) {
            backend.submit(rt, request);
        }
        busy
    }
}

/// Another node of the cluster, whose links say only that they live.
struct Other(Peers);

impl Other {
    fn start(rt: &Rt, desired: &PeersDesired, at: SocketAddr) -> Other {
        let mut peers = Peers::new(rt);
        let view = Peers::resolve(desired, Volumes::default()).expect("no volumes, none unknown");
        peers.apply(rt, Arc::new(view));
        peers.listen(rt, at).expect("a port of a world of its own");
        Other(peers)
    }
}

impl App for Other {
    fn poll(&mut self, rt: &Rt) -> Progress {
        if self.0.poll(rt, &mut NoVolumes) { Progress::Busy } else { Progress::Idle }
    }
}

struct NoVolumes;

impl Backend for NoVolumes {
    fn submit(&mut self, _: &Rt, _: IoRequest) {
        unreachable!("nobody has a volume of this node")
    }
    fn pop(&mut self) -> Option<IoDone> {
        None
    }
}

/// A host in a world of its own.
struct Lab {
    cores: usize,
    world: World,
    host: HostId,
    commands: CommandSender<Fronts>,
    /// What the control plane would hear.
    events: Receiver<DataPlaneEvent>,
    play: Rc<RefCell<Play>>,
    /// The cache device, then that for capacity.
    devices: [Device; 2],
    /// What the node goes by.
    desired: Desired<<Fronts as FrontEnd>::Desired>,
}

impl Lab {
    fn new(cores: usize, log_bytes: u64, settings: Settings) -> Lab {
        let mut world = World::new(1);
        let (commands, events, made) = core_seeds(cores, settings, (shared_parts(), Arc::new(())));
        let seeds: RefCell<Vec<Option<CoreSeed<Fronts>>>> = RefCell::new(made.into_iter().map(Some).collect());
        let play: Rc<RefCell<Play>> = Rc::default();
        let shared = Rc::clone(&play);
        let host = world.add_host(cores, move |rt| {
            let seed = seeds.borrow_mut()[rt.core()].take().expect("each core is started once");
            if rt.core() > 0 {
                return seed.start(&rt);
            }
            let production = Pair::start(&rt, shared_parts());
            seed.start_with(&rt, Pair::new(production, InProcess(Some(Front(Rc::clone(&shared))))))
        });
        let devices = [Device::memory(log_bytes).expect("memory for it"), Device::memory(CAPACITY_BYTES).expect("memory for it")];
        let mut lab = Lab { cores, world, host, commands, events, play, devices, desired: Desired::default() };
        lab.serve().expect("a volume is served");
        lab
    }

    fn command<T>(&mut self, give: impl FnOnce(&CommandSender<Fronts>) -> Completion<T>) -> Result<T, DataPlaneError> {
        let completion = give(&self.commands);
        let mut answer = None;
        self.world.run_until(WAIT_MAX, || {
            answer = answer.take().or_else(|| completion.try_take());
            answer.is_some()
        });
        answer.unwrap_or(Err(DataPlaneError::Stopped))
    }

    /// Writes down a group and one volume, has made what is decided from that, and serves it.
    fn serve(&mut self) -> Result<(), DataPlaneError> {
        let mut node = ModelledNode::new(NODE, Modelled::new(1, CLUSTER, Faults::NONE));
        let policy = PolicyRecord::new(POLICY.into(), Policy::default(), 0);
        node.commit(Transaction::new().create(&policy).create(&self.group())).expect("nobody else writes");
        let (volume, object) = volume();
        node.write_volume(&volume, &object).expect("nobody else writes");
        node.work(self)?;
        let volumes = dataplane::served(&node.records(), node.observed()).volumes;
        self.desired = Desired { generation: 1, volumes, ..Desired::default() };
        let desired = self.desired.clone();
        self.command(|o| o.apply(desired))
    }

    /// A group in memory: it is made anew at each start.
    fn group(&self) -> GroupRecord {
        let device = |d: &Device| DeviceRecord::Memory { bytes: d.bytes(), populated: false };
        let [cache, capacity] = self.devices.each_ref().map(device);
        let shards = self.cores as u8;
        let (node, name) = (NODE.into(), "micro".into());
        let (stage, capacity, changes) = (Stage::Ready, vec![capacity], Default::default());
        GroupRecord { id: GROUP, name, node, stage, cache, capacity, changes, shards, created_unix_s: 0 }
    }

    /// The node joins a cluster with so many others: it has a link to each.
    fn meet(&mut self, others: usize) {
        let id = |at: usize| NodeId::from_bytes([1 + at as u8; 16]);
        let said = |at: usize, others: Vec<PeerDesired>| PeersDesired {
            own: Some(OwnNode { cluster: CLUSTER, node: id(at), incarnation: Incarnation(1) }),
            security: LinkSecurity::Plain,
            nodes: others,
        };
        let peer = |world: &World, at: usize, host: HostId| PeerDesired {
            node: id(at),
            addr: Some(SocketAddr::new(world.addr(host), PEER_PORT)),
            incarnation: Incarnation(1),
            cores: 1,
            removed: false,
        };
        let own = peer(&self.world, 0, self.host);
        let anywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PEER_PORT);
        let mut nodes = Vec::new();
        for at in 1..=others {
            let desired = said(at, vec![own]);
            let host = self.world.add_host(1, move |rt| Box::new(Other::start(&rt, &desired, anywhere)));
            nodes.push(peer(&self.world, at, host));
        }
        self.command(|o| o.listen(Of::First(Of::Second(anywhere)))).expect("a port of a world of its own");
        self.desired.generation += 1;
        self.desired.exports.0.1 = said(0, nodes);
        let desired = self.desired.clone();
        self.command(|o| o.apply(desired)).expect("known nodes");
        self.world.run_for(Duration::from_secs(5));
        let figures = self.command(|o| o.stats()).expect("a host that runs");
        let ((_, peers), _) = &figures.cores[0].front;
        assert_eq!(peers.links_opened - peers.links_closed, others as u64, "all links are open");
        self.events.try_iter().for_each(drop);
    }

    /// Has so many commands done.
    fn run(&mut self, line: Line, order: Order, depth: usize, commands: u64) {
        *self.play.borrow_mut() = Play { line: Some(line), order, depth, left: commands, in_flight: 0 };
        self.world.rt(self.host, 0).wake(0);
        let play = Rc::clone(&self.play);
        let done = self.world.run_until(WAIT_MAX, || {
            let play = play.borrow();
            play.left == 0 && play.in_flight == 0
        });
        assert!(done, "the load ends");
        let line = self.play.borrow_mut().line.take().expect("put there above");
        line.check(commands);
    }
}

impl NodeDevices for Lab {
    type Error = DataPlaneError;

    fn format_group(&mut self, group: &GroupRecord) -> Result<(), DataPlaneError> {
        let (spec, [cache, capacity]) = (dataplane::format_spec(CLUSTER, group, true), self.devices.clone());
        self.command(|o| o.format_group(spec, cache, vec![capacity])).map(drop)
    }
    fn open_group(&mut self, _: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, DataPlaneError> {
        let devices = self.devices.to_vec();
        let (_, found) = self.command(|o| o.open_group(Some(CLUSTER), devices))?;
        Ok(found.iter().map(|c| (c.id, c.no.0)).collect())
    }
    fn create_component(
        &mut self,
        volume: &VolumeRecord,
        object: &ObjectRecord,
        mirror: usize,
        copy: usize,
    ) -> Result<u32, DataPlaneError> {
        let spec = component_spec(volume, object, mirror, copy);
        self.command(|o| o.create_component(GROUP, spec)).map(|no| no.0)
    }
}

/// The records of the volume, placed on the one device that there is.
fn volume() -> (VolumeRecord, ObjectRecord) {
    let device = DeviceInventory { index: 0, bytes: CAPACITY_BYTES, free_bytes: CAPACITY_BYTES, promised_bytes: 0 };
    let groups = vec![GroupInventory { id: GROUP, read_cache: false, devices: vec![device] }];
    let inventory =
        Inventory { nodes: vec![NodeInventory { name: NODE.into(), fault_domain: NODE.into(), groups }], leaving: Default::default() };
    let placed = cluster::place(&inventory, &Policy::default(), VOLUME_BYTES, VOLUME_BYTES).expect("it fits");
    let (id, object) = (VolumeId::from_bytes([7; 16]), ObjectId::from_bytes([3; 16]));
    let volume = VolumeRecord::planned(id, "v".into(), VOLUME_BYTES, POLICY.into(), object, 0);
    (volume, ObjectRecord::planned(object, id, &placed.layout, |_, _| ComponentId::from_bytes([3; 16])))
}

/// A host whose volume was written once, by random 4 KiB writes: what was written is in the log still, or all of it on capacity.
fn filled(cores: usize, in_log: bool) -> Lab {
    let settings = if in_log {
        // Nothing is moved out of the log.
        Settings { fill_low: 0.95, fill_high: 0.97, idle_drain: WAIT_MAX, ..Settings::default() }
    } else {
        Settings::default()
    };
    let mut lab = Lab::new(cores, if in_log { LARGE_LOG_BYTES } else { LOG_BYTES }, settings);
    let (mut draw, mut order) = (Draw::new(), (0..VOLUME_BLOCKS).collect::<Vec<_>>());
    for i in (1..order.len()).rev() {
        order.swap(i, draw.below(i as u64 + 1) as usize);
    }
    lab.run(line(load(true, 4, 32, in_log)), Order::Once(order), 32, VOLUME_BLOCKS);
    lab
}

/// Lets time pass until everything is on capacity.
fn drain(lab: &mut Lab) {
    lab.world.run_for(Duration::from_secs(60));
    let stats = lab.command(|o| o.stats()).expect("a host that runs");
    assert!(stats.fullest_buffer() < 0.02, "all is on capacity");
}

fn line(load: Load) -> Line {
    Line::new(load.write, load.bytes, VOLUME_BYTES, PLAIN)
}

fn flow(load: Load, times: u64) -> Duration {
    let mut lab = filled(load.cores, load.in_log);
    let random = || Order::Random(Draw::new(), VOLUME_BYTES / load.bytes as u64);
    if load.write {
        // Until destaging goes as fast as writing.
        lab.run(line(load), random(), load.depth, 2 * VOLUME_BLOCKS);
    } else if !load.in_log {
        drain(&mut lab);
    }
    if load.others > 0 {
        lab.meet(load.others);
    }
    measured(&mut || lab.run(line(load), random(), load.depth, times))
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
