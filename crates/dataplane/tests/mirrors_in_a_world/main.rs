//! Mirrors on the real cores, stores and links of two and three nodes in a simulated world: hosts of all nodes write, trim, zero and read, links are
//! reset at any moment. Every block is as it was written, and the copies are equal when nothing is under way.

#[path = "../exchange/mod.rs"]
mod exchange;
mod owners;

use base::unit::{BLOCK_BYTES, PIECE_BYTES, SECTOR_BYTES};
use base::{
    BlockNo, ClusterId, ComponentId, CopyState, Duration, Epoch, GroupId, Incarnation, Instant, Lane, NodeId, ObjectId, OwnerId, Ownership,
    ResyncProgress, VolumeId, crc32c,
};
use dataplane::*;
use exchange::{Exchange, Hosts};
use frontend::{Data, InProcess, IoDone, IoError, IoOp, IoRequest, Of, Pair, VolumeRef};
use object::grant::Counter;
use object::owner::{BlockRange, Command, CopyRef, Fenced, Listed, ListedChunk, RangeCopy, Targets};
use peers::{LinkSecurity, OwnNode, PeerDesired, Peers, PeersDesired};
use rt::Buf;
use rt::sim::{HostId, Rng, SimDeviceOptions, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

type Front = Pair<InProcess<Hosts>, Peers>;
type CommandSender = dataplane::CommandSender<Front>;

const PORT: u16 = 7000;
const PIECES: u64 = 24;
const SECTORS_A_BLOCK: u64 = (BLOCK_BYTES / SECTOR_BYTES) as u64;

fn cluster() -> ClusterId {
    ClusterId::from_bytes([0xC1; 16])
}
fn node(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
fn group(n: usize) -> GroupId {
    GroupId::from_bytes([n as u8 + 1; 16])
}
fn component(n: usize) -> ComponentId {
    ComponentId::from_bytes([n as u8 + 0x41; 16])
}
fn copy(n: usize) -> CopyRef {
    CopyRef { mirror: 0, node: node(n), component: component(n) }
}
fn volume(n: u8) -> VolumeId {
    VolumeId::from_bytes([n; 16])
}

struct Node {
    host: HostId,
    /// Of its newest life.
    commands: Rc<RefCell<Option<CommandSender>>>,
    events: Rc<RefCell<Option<Receiver<DataPlaneEvent>>>>,
    devices: Vec<Device>,
    /// Of each core.
    exchanges: Vec<Rc<RefCell<Exchange>>>,
}

/// What each sector may hold. Changes that were under way together happen in any order: they came by different nodes.
#[derive(Default)]
struct Model {
    /// Submissions and answers so far.
    clock: u64,
    /// Values that a sector may have, with when they were answered: the others were overwritten.
    settled: BTreeMap<u64, Vec<(u64, u8)>>,
    /// Of changes: since when, of what.
    running: BTreeMap<u64, (u64, Range<u64>, u8)>,
    reads: BTreeMap<u64, (u64, Vec<Vec<u8>>)>,
}

impl Model {
    fn change(&mut self, token: u64, sectors: Range<u64>, value: u8) {
        self.clock += 1;
        for (first, shown) in self.reads.values_mut() {
            shown.iter_mut().zip(*first..).filter(|(_, s)| sectors.contains(s)).for_each(|(values, _)| values.push(value));
        }
        self.running.insert(token, (self.clock, sectors, value));
    }
    fn may(&self, s: u64) -> Vec<u8> {
        let running = self.running.values().filter(|(_, of, _)| of.contains(&s)).map(|(.., v)| *v);
        let settled = self.settled.get(&s).map_or(&[(0, 0)][..], |values| values);
        settled.iter().map(|(_, v)| *v).chain(running).collect()
    }
    fn read(&mut self, token: u64, sectors: Range<u64>) {
        let may = sectors.clone().map(|s| self.may(s)).collect();
        self.reads.insert(token, (sectors.start, may));
    }
    fn done(&mut self, done: &IoDone) {
        self.clock += 1;
        if let Some((first, shown)) = self.reads.remove(&done.token) {
            if done.result.is_ok() {
                let bytes: Vec<u8> = done.data.iter().flat_map(|d| d.buf.iter().copied()).collect();
                for ((sector, values), s) in bytes.chunks_exact(SECTOR_BYTES).zip(&shown).zip(first..) {
                    assert!(sector.iter().all(|b| *b == sector[0]), "sector {s} is torn");
                    assert!(values.contains(&sector[0]), "sector {s} shows {} but may show {values:?}", sector[0]);
                }
            }
            return;
        }
        match done.result {
            Ok(()) => {
                let (since, sectors, value) = self.running.remove(&done.token).expect("one answer a request");
                for s in sectors {
                    let settled = self.settled.entry(s).or_insert_with(|| vec![(0, 0)]);
                    settled.retain(|(at, _)| *at > since);
                    settled.push((self.clock, value));
                }
            }
            // Passed on over a link that was reset, or under way when the owner stopped: it may have happened. So it may be seen from now on.
            Err(error) => {
                assert!(matches!(error, IoError::NoPath | IoError::NotOwner | IoError::Closing), "nothing else fails here: {error:?}")
            }
        }
    }
    /// An answer, where the owner may have gone: what was not answered well may have happened.
    fn may_fail(&mut self, done: &IoDone) {
        match done.result {
            Err(IoError::Closing | IoError::NotOwner | IoError::NoPath | IoError::Failed) => _ = self.reads.remove(&done.token),
            _ => self.done(done),
        }
    }
}

struct Lab {
    world: World,
    nodes: Vec<Node>,
    cores: Vec<usize>,
    copies: Vec<usize>,
    made: BTreeMap<usize, ComponentNo>,
    rng: Rng,
    model: Model,
    next: u64,
    security: LinkSecurity,
}

impl Lab {
    /// Nodes whose disk groups have components of an object, on these.
    fn made(seed: u64, cores: &[usize], copies: &[usize]) -> Lab {
        let mut world = World::new(seed);
        let nodes = cores.iter().map(|cores| add_node(&mut world, *cores)).collect();
        let (cores, copies) = (cores.to_vec(), copies.to_vec());
        let (made, rng) = (BTreeMap::new(), Rng::new(seed ^ 0x5EED));
        let mut lab = Lab { world, nodes, cores, copies, made, rng, model: Model::default(), next: 0, security: LinkSecurity::default() };
        for n in 0..lab.nodes.len() {
            let devices = [32, 64].map(|mib| lab.world.device(mib << 20, SimDeviceOptions::default())).to_vec();
            let spec =
                FormatSpec { cluster: cluster(), group: group(n), name: format!("g{n}"), shards: 4, created_unix_s: 1, force: false };
            let (cache, capacity) = (devices[0].clone(), vec![devices[1].clone()]);
            lab.nodes[n].devices.clone_from(&devices);
            lab.must(n, |c| c.format_group(spec, cache, capacity));
            lab.must(n, |c| c.open_group(Some(cluster()), devices));
            if lab.copies.contains(&n) {
                let spec = ComponentSpec {
                    id: component(n),
                    object: ObjectId::from_bytes([9; 16]),
                    capacity_index: 0,
                    bytes: PIECES * PIECE_BYTES,
                    reserve_chunks: 0,
                    descriptor: vec![],
                };
                let no = lab.must(n, |c| c.create_component(group(n), spec));
                lab.made.insert(n, no);
            }
        }
        lab
    }
    /// Node 0 owns a volume, whose one mirror has copies on these nodes.
    fn new(seed: u64, cores: &[usize], copies: &[usize], security: LinkSecurity) -> Lab {
        let mut lab = Self::made(seed, cores, copies);
        lab.security.clone_from(&security);
        for n in 0..lab.nodes.len() {
            let at = lab.addr(n);
            lab.must(n, |c| c.listen(Of::Second(at)));
            let desired = lab.desired(n, security.clone());
            lab.must(n, |c| c.apply(desired));
        }
        for n in lab.copies.clone() {
            lab.fence(n, 1);
        }
        // Reads need nobody's grants.
        let cell = Counter::new().own(ObjectId::from_bytes([9; 16]), Epoch(1), &[], Instant(0));
        lab.must(0, |c| c.set_cell(volume(1), cell));
        lab.targets(Epoch(1));
        lab.must(0, |c| c.copies(node(0), volume(1), vec![Command::Serve]));
        lab.world.run_for(Duration::from_millis(200));
        lab
    }
    /// The devices of a node are so many times slower than usual.
    fn set_speed(&mut self, n: usize, factor: u32) {
        self.nodes[n].devices.iter().for_each(|device| self.world.disk(device).slow(factor));
    }
    /// Node 0 sends to all copies in this epoch from now on.
    fn targets(&mut self, epoch: Epoch) {
        let copies = self.copies.clone();
        self.owns(Ownership { epoch, ..Ownership::FIRST }, &copies, None);
    }
    /// The same, to these active copies and one that has joined.
    fn owns(&mut self, ownership: Ownership, active: &[usize], joined: Option<usize>) {
        let active = active.iter().map(|n| (copy(*n), CopyState::Active));
        let copies: Vec<_> = active.chain(joined.map(|n| (copy(n), CopyState::Resyncing))).collect();
        self.commands(vec![Command::Targets(Targets { ownership, read: vec![copies[0].0], copies })]);
    }
    fn commands(&mut self, commands: Vec<Command>) {
        self.must(0, |c| c.copies(node(0), volume(1), commands));
    }
    /// The copy of a node accepts an epoch of node 0.
    fn fence(&mut self, n: usize, epoch: u32) -> Fenced {
        self.fence_as(n, (epoch, 1), CopySync::InSync)
    }
    fn fence_as(&mut self, n: usize, (epoch, period_start): (u32, u32), sync: CopySync) -> Fenced {
        let by = OwnerId { node: node(0), incarnation: Incarnation(1) };
        let fence = FenceCopy { component: component(n), epoch: Epoch(epoch), period_start: Epoch(period_start), by, sync };
        self.must(n, |c| c.fence_copy(fence)).expect("it may")
    }
    /// All chunks of a copy, so many at a time.
    fn list(&mut self, n: usize, most: usize) -> Vec<CopyChunk> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let list = self.must(n, |c| c.list_copy(component(n), at, most)).expect("it is there");
            assert!(list.chunks.len() <= most && list.chunks.iter().all(|c| c.chunk >= at && list.next.is_none_or(|next| c.chunk < next)));
            assert!(list.next.is_none_or(|next| next > at), "it goes on");
            all.extend(list.chunks);
            from = list.next;
        }
        all
    }
    fn addr(&self, n: usize) -> SocketAddr {
        SocketAddr::new(self.world.addr(self.nodes[n].host), PORT)
    }
    fn at(&self, n: usize) -> ComponentRef {
        ComponentRef { id: component(n), group: group(n), no: self.made[&n] }
    }
    fn desired(&self, n: usize, security: LinkSecurity) -> Desired<((), PeersDesired)> {
        let peer = |at: usize| PeerDesired {
            node: node(at),
            addr: Some(self.addr(at)),
            incarnation: Incarnation(1),
            cores: self.cores[at] as u8,
            removed: false,
        };
        let own = OwnNode { cluster: cluster(), node: node(n), incarnation: Incarnation(1) };
        let nodes = (0..self.nodes.len()).filter(|at| *at != n).map(peer).collect();
        let peers = PeersDesired { own: Some(own), security, nodes };
        let place = |c: &usize| CopyAt {
            state: CopyState::Active,
            place: if *c == n { CopyPlace::Here(self.at(n)) } else { CopyPlace::On { node: node(*c), component: component(*c) } },
        };
        let mirrors = if n == 0 { vec![MirrorDesired { copies: self.copies.iter().map(place).collect(), alone: false }] } else { vec![] };
        let layout = ObjectLayout { object: ObjectId::from_bytes([9; 16]), ownership: Ownership::FIRST, mirrors };
        let plain = VolumeDesired::plain(volume(1), "v".into(), PIECES * PIECE_BYTES, layout);
        let volumes = vec![VolumeDesired { owner: (n > 0).then(|| node(0)), ..plain }];
        let held = (n > 0 && self.copies.contains(&n)).then(|| HeldDesired { component: self.at(n), owner: node(0), epoch: Epoch(1) });
        Desired { generation: 1, volumes, held: held.into_iter().collect(), objects: vec![], exports: ((), peers), ..Desired::default() }
    }
    fn door(&self, n: usize) -> CommandSender {
        self.nodes[n].commands.borrow().clone().expect("its core 0 was started")
    }
    fn must<T>(&mut self, n: usize, command: impl FnOnce(&CommandSender) -> Completion<T>) -> T {
        let completion = command(&self.door(n));
        let mut answer = None;
        self.world.run_until(Duration::from_secs(60), || {
            answer = answer.take().or_else(|| completion.try_take());
            answer.is_some()
        });
        answer.expect("a command is answered within a minute").expect("it can be done")
    }
    fn submit(&mut self, n: usize, core: usize, volume: u32, token: u64, op: IoOp) {
        self.nodes[n].exchanges[core].borrow_mut().todo.push_back(IoRequest::new(token, VolumeRef(volume), op));
        self.world.rt(self.nodes[n].host, core).wake(core);
    }
    /// A request of a host of any node.
    fn submit_random(&mut self) {
        let n = self.rng.below(self.nodes.len() as u64) as usize;
        self.submit_random_to(n);
    }
    /// A request around the borders of a few pieces.
    fn submit_random_to(&mut self, n: usize) {
        self.next += 1;
        let (token, value) = (self.next, (self.next % 251 + 1) as u8);
        let whole = self.rng.below(3) > 0;
        let unit = if whole { SECTORS_A_BLOCK } else { 1 };
        let first = ((1 + self.rng.below(3)) * (PIECE_BYTES / SECTOR_BYTES as u64) - 64 + self.rng.below(128)) / unit * unit;
        let count = (1 + self.rng.below(if whole { 6 } else { 12 })) * unit;
        let (offset, len) = (first * SECTOR_BYTES as u64, (count * SECTOR_BYTES as u64) as u32);
        let sectors = first..first + count;
        let op = match self.rng.below(8) {
            0..=2 => {
                self.model.read(token, sectors);
                IoOp::Read { offset, len }
            }
            3..=5 => {
                self.model.change(token, sectors, value);
                IoOp::Write { offset, data: data(offset, len, value) }
            }
            6 => {
                self.model.change(token, sectors, 0);
                IoOp::Zero { offset, len: len.into() }
            }
            _ => {
                self.model.change(token, sectors, 0);
                IoOp::Trim { offset, len: len.into() }
            }
        };
        let core = self.rng.below(self.cores[n] as u64) as usize;
        self.submit(n, core, 0, token, op);
    }
    /// Takes the answers there are; how many.
    fn take(&mut self) -> usize {
        let mut taken = 0;
        for exchange in self.nodes.iter().flat_map(|n| &n.exchanges) {
            while let Some(done) = exchange.borrow_mut().done.pop_front() {
                self.model.done(&done);
                taken += 1;
            }
        }
        taken
    }
    fn play(&mut self, requests: u64) {
        let mut answered = 0;
        while answered < requests {
            while self.next < requests && self.next - answered < 24 {
                self.submit_random();
            }
            if self.rng.below(40) == 0 {
                let (a, b) = (self.rng.below(self.nodes.len() as u64) as usize, self.rng.below(self.nodes.len() as u64) as usize);
                self.world.reset_connections(self.nodes[a].host, self.nodes[b].host);
            }
            self.world.run_for(Duration::from_micros(200));
            answered += self.take() as u64;
            assert!(self.world.now().0 < 300_000_000_000, "{} of {requests} are answered", answered);
        }
    }
    /// A change of a chunk, beside nothing else.
    fn alone(&mut self, at: u64, op: IoOp, value: u8) {
        self.next += 1;
        let first = at / SECTOR_BYTES as u64;
        let sectors =
            if value == 0 { first..first + base::unit::CHUNK_BYTES / SECTOR_BYTES as u64 } else { first..first + SECTORS_A_BLOCK };
        self.model.change(self.next, sectors, value);
        self.submit(0, 0, 0, self.next, op);
        self.world.run_for(Duration::from_secs(1));
        assert_eq!(self.take(), 1, "it is answered");
    }
    /// So many more requests.
    fn play_more(&mut self, requests: u64) {
        let (from, mut answered) = (self.next, 0);
        while answered < requests {
            while self.next < from + requests && self.next - from - answered < 24 {
                self.submit_random();
            }
            self.world.run_for(Duration::from_micros(200));
            answered += self.take() as u64;
            assert!(self.world.now().0 < 300_000_000_000, "{answered} of {requests} are answered");
        }
    }
    /// What a core of a node reads, whole pieces at a time.
    fn read(&mut self, n: usize, volume: u32, pieces: Range<u64>) -> Vec<u8> {
        let mut all = Vec::new();
        for piece in pieces {
            let core = piece as usize % self.cores[n];
            self.submit(n, core, volume, 0, IoOp::Read { offset: piece * PIECE_BYTES, len: PIECE_BYTES as u32 });
            let exchange = Rc::clone(&self.nodes[n].exchanges[core]);
            assert!(self.world.run_until(Duration::from_secs(10), || !exchange.borrow().done.is_empty()), "node {n}, piece {piece}");
            let done = exchange.borrow_mut().done.pop_front().expect("just seen");
            assert_eq!(done.result, Ok(()), "node {n}, piece {piece}");
            done.data.iter().for_each(|d| all.extend_from_slice(&d.buf));
        }
        all
    }
    /// Every node reads the volume as the model has it, and the copies hold the same.
    fn check(&mut self) {
        self.world.run_for(Duration::from_secs(2));
        let pieces = 0..5;
        for n in 0..self.nodes.len() {
            let bytes = self.read(n, 0, pieces.clone());
            for (sector, s) in bytes.chunks_exact(SECTOR_BYTES).zip(0..) {
                let may = self.model.may(s);
                assert!(
                    sector.iter().all(|b| *b == sector[0]) && may.contains(&sector[0]),
                    "node {n}, sector {s}: {} of {may:?}",
                    sector[0]
                );
            }
        }
        self.check_copies(|lab, n| lab.desired(n, lab.security.clone()));
    }
    /// The copies hold the same. `desired`: what a node serves.
    fn check_copies(&mut self, desired: impl Fn(&Lab, usize) -> Desired<((), PeersDesired)>) {
        let (mut first, pieces): (Option<Vec<u8>>, _) = (None, 0..5);
        for n in self.copies.clone() {
            // As a volume of its own: what lies in the component.
            let mut desired = desired(self, n);
            let layout = ObjectLayout {
                object: ObjectId::from_bytes([77; 16]),
                ownership: Ownership::FIRST,
                mirrors: vec![MirrorDesired::of_one(self.at(n))],
            };
            desired.volumes.push(VolumeDesired::plain(volume(2), "copy".into(), PIECES * PIECE_BYTES, layout));
            self.must(n, |c| c.apply(desired));
            let bytes = self.read(n, 1, pieces.clone());
            let same =
                first.get_or_insert_with(|| bytes.clone()).chunks(BLOCK_BYTES).zip(bytes.chunks(BLOCK_BYTES)).position(|(a, b)| a != b);
            assert_eq!(same, None, "the first block of node {n} that differs");
        }
    }
}

fn add_node(world: &mut World, cores: usize) -> Node {
    let commands: Rc<RefCell<Option<CommandSender>>> = Rc::default();
    let events: Rc<RefCell<Option<Receiver<DataPlaneEvent>>>> = Rc::default();
    let exchanges: Vec<Rc<RefCell<Exchange>>> = (0..cores).map(|_| Rc::default()).collect();
    let seeds: Rc<RefCell<Vec<Option<CoreSeed<Front>>>>> = Rc::default();
    let (newest, hears, fronts) = (Rc::clone(&commands), Rc::clone(&events), exchanges.clone());
    let host = world.add_host(cores, move |rt| {
        if rt.core() == 0 {
            let (commands, events, made) = core_seeds(cores, Settings::default(), (Arc::new(()), Arc::default()));
            (*newest.borrow_mut(), *hears.borrow_mut()) = (Some(commands), Some(events));
            *seeds.borrow_mut() = made.into_iter().map(Some).collect();
        }
        let seed = seeds.borrow_mut()[rt.core()].take();
        *fronts[rt.core()].borrow_mut() = Exchange::default();
        let front = Pair::new(InProcess(Some(Hosts(Rc::clone(&fronts[rt.core()])))), Peers::new(&rt));
        seed.expect("core 0 starts first, each core once").start_with(&rt, front)
    });
    if !world.is_up(host) {
        world.start(host);
    }
    Node { host, commands, events, devices: vec![], exchanges }
}

fn data(offset: u64, len: u32, value: u8) -> object::DataVec {
    let make = |extent: object::Extent| {
        let mut buf = Buf::alloc(extent.len as usize);
        buf.fill(value);
        let crcs = if extent.is_aligned() { buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
        Data { buf, crcs }
    };
    object::extents(offset, len).into_iter().map(make).collect()
}

fn tls() -> LinkSecurity {
    LinkSecurity::Tls(Some(tls::ClusterSecret::new(base::SecretBytes::new(vec![7; 32])).unwrap()))
}

#[test]
fn two_nodes_have_the_same_whatever_becomes_of_their_links() {
    for (seed, security) in (0..6).zip([LinkSecurity::Plain, tls()].into_iter().cycle()) {
        let cores = [[1, 1], [2, 3], [3, 2]][seed as usize % 3];
        let mut lab = Lab::new(seed + 1, &cores, &[0, 1], security);
        lab.play(500);
        lab.check();
    }
}

/// Segments of small devices take half of a piece at once, and a copy takes each change as a whole.
#[test]
fn as_much_as_a_host_may_write_at_once_is_written_however_small_the_devices_are() {
    let mut lab = Lab::new(31, &[2, 1], &[0, 1], LinkSecurity::Plain);
    for (n, offset) in [0, PIECE_BYTES / 2 - 512, PIECE_BYTES + 512, 2 * PIECE_BYTES + 512 - 4096].into_iter().enumerate() {
        lab.next += 1;
        let (token, value, len) = (lab.next, 200 + n as u8, PIECE_BYTES as u32);
        let first = offset / SECTOR_BYTES as u64;
        lab.model.change(token, first..first + u64::from(len) / SECTOR_BYTES as u64, value);
        lab.submit(0, n % 2, 0, token, IoOp::Write { offset, data: data(offset, len, value) });
        lab.world.run_for(Duration::from_secs(1));
        assert_eq!(lab.take(), 1, "it is answered");
    }
    lab.play_more(50);
    lab.check();
}

#[test]
fn three_nodes_do_with_and_without_a_copy_at_the_owner() {
    for (seed, copies) in (0..4).zip([&[0, 1, 2][..], &[1, 2]].into_iter().cycle()) {
        let mut lab = Lab::new(seed + 21, &[2, 1, 3], copies, LinkSecurity::Plain);
        lab.play(500);
        lab.check();
    }
}

#[test]
fn a_fence_says_what_is_in_doubt_and_ends_the_epoch_before() {
    let mut lab = Lab::new(41, &[2, 3], &[0, 1], LinkSecurity::Plain);
    assert_eq!(lab.fence(1, 1).lanes, [], "nothing was changed");
    lab.play(400);
    lab.world.run_for(Duration::from_secs(1));
    let fenced = lab.fence(1, 2);
    let lanes: Vec<Lane> = fenced.lanes.iter().map(|said| said.lane).collect();
    assert!(lanes.len() > 2 && lanes.windows(2).all(|two| two[0] < two[1]), "lanes of several shards, in order: {lanes:?}");
    assert!(fenced.lanes.iter().any(|said| said.mark.counter > 0), "marks came with changes");
    assert!(fenced.lanes.iter().any(|said| !said.doubt.is_empty()), "what came last is in doubt");
    assert!(fenced.lanes.iter().all(|said| said.doubt.iter().all(|range| Lane::of(range.first) == said.lane)));
    assert_eq!(fenced.resync, None);

    // What is sent in the epoch that is over waits until there is a later one.
    lab.model.change(1000, 0..8, 7);
    lab.submit(0, 0, 0, 1000, IoOp::Write { offset: 0, data: data(0, BLOCK_BYTES as u32, 7) });
    lab.world.run_for(Duration::from_secs(1));
    assert_eq!(lab.take(), 0, "the copy takes nothing of a lower epoch");
    lab.fence(0, 2);
    lab.targets(Epoch(2));
    lab.world.run_for(Duration::from_secs(1));
    assert_eq!(lab.take(), 1);
    lab.check();
}

#[test]
fn a_list_has_the_chunks_of_all_shards_in_order() {
    let mut lab = Lab::new(51, &[2, 3], &[0, 1], LinkSecurity::Plain);
    lab.play(400);
    lab.world.run_for(Duration::from_secs(1));
    let all = lab.list(1, 1024);
    assert!(all.len() > 3 && all.windows(2).all(|two| two[0].chunk < two[1].chunk), "{all:?}");
    for most in [1, 3, 7] {
        assert_eq!(lab.list(1, most), all, "{most} at a time");
    }
    assert_eq!(lab.list(0, 5), all, "both copies have the same");
    assert!(all.iter().all(|chunk| chunk.there.is_some_and(|(epoch, _)| epoch == Epoch(1)) && chunk.own_doubt == 0));
}

/// What two copies have of a resync, from the beginning.
fn list_all(lab: &mut Lab, source: usize, to: usize, epoch: u32) -> Vec<ListedChunk> {
    let (mut all, mut from) = (Vec::new(), Some(0));
    for _ in 0..2000 {
        let Some(at) = from else { return all };
        let ask = ListForResync { source: copy(source), copy: copy(to), from: at, epoch: Epoch(epoch) };
        match lab.must(0, |c| c.list_for_resync(node(0), ask)) {
            Ok(Listed { chunks, next, .. }) => {
                all.extend(chunks);
                from = next;
            }
            Err(refused) => assert_eq!(refused, CopyRefused::Closing, "to be asked again"),
        }
        lab.world.run_for(Duration::from_millis(5));
    }
    panic!("it does not end")
}

fn a_copy_that_was_out_gets_what_it_misses() {
    for (seed, copies) in [(61, [0, 1, 2]), (62, [1, 2, 3])] {
        let mut lab = Lab::new(seed, &[2, 1, 3, 2], &copies, LinkSecurity::Plain);
        lab.play(150);
        let (stay, out) = (&copies[..2], copies[2]);
        // Where nothing else is: a chunk that goes while the copy is out.
        let far = 4 * PIECE_BYTES + PIECE_BYTES / 2;
        lab.alone(far, IoOp::Write { offset: far, data: data(far, BLOCK_BYTES as u32, 77) }, 77);
        let owned = |epoch| Ownership { epoch: Epoch(epoch), term: Epoch(1), period_start: Epoch(2) };
        // Evict. What a copy has that is not the owner's node's, or hears of the epoch, it does with the next change.
        lab.fence_as(stay[0], (2, 2), CopySync::InSync);
        lab.owns(owned(2), stay, None);
        lab.commands(vec![Command::Answer { mirror: 0, epoch: Epoch(2) }]);
        lab.play_more(300);
        lab.alone(far, IoOp::Trim { offset: far, len: base::unit::CHUNK_BYTES }, 0);
        // BeginResync.
        lab.fence_as(stay[0], (3, 2), CopySync::InSync);
        lab.owns(owned(3), stay, None);
        lab.commands(vec![Command::Answer { mirror: 0, epoch: Epoch(3) }]);
        assert!(lab.fence_as(out, (3, 2), CopySync::Join).resync.is_some());
        lab.commands(vec![Command::Join { copy: copy(out), invited: Epoch(3) }]);
        lab.world.run_for(Duration::from_millis(500));
        lab.next += 1;
        let token = lab.next;
        lab.model.change(token, 8..16, 91);
        lab.submit(0, 0, 0, token, IoOp::Write { offset: BLOCK_BYTES as u64, data: data(BLOCK_BYTES as u64, BLOCK_BYTES as u32, 91) });
        let source = stay[0];
        let listed = list_all(&mut lab, source, out, 3);
        assert!(listed.iter().any(|c| c.there && c.source.is_some()), "{listed:?}");
        let progress = ResyncProgress { below: 0, to: Epoch(3) };
        for ListedChunk { chunk, source: found, .. } in &listed {
            let whole = found.is_none_or(|(epoch, _)| epoch > Epoch(1));
            let range = RangeCopy { chunk: *chunk, mask: u16::MAX, to: copy(out), invited: Epoch(3), source: copy(source), progress };
            if whole {
                lab.commands(vec![Command::CopyRange(range)]);
            }
            lab.world.run_for(Duration::from_millis(5));
        }
        lab.world.run_for(Duration::from_secs(1));
        assert_eq!(lab.take(), 1, "the change in between");
        // FinishResync: the copy hears of it with the next change.
        lab.fence_as(source, (4, 2), CopySync::InSync);
        lab.owns(owned(4), &copies, None);
        lab.commands(vec![Command::Answer { mirror: 0, epoch: Epoch(4) }]);
        lab.play_more(100);
        lab.check();
        let missing: Vec<_> = list_all(&mut lab, source, out, 4).into_iter().filter(|c| c.source.is_some() && !c.there).collect();
        assert!(missing.is_empty(), "{missing:?} of {listed:?}");
    }
}

#[test]
fn a_copy_comes_back() {
    a_copy_that_was_out_gets_what_it_misses();
}

#[test]
fn what_was_under_way_when_the_owner_stopped_is_on_all_copies_or_on_none_after_the_agreement() {
    let mut differed = 0;
    for seed in 71..77 {
        let copies = [0, 1, 2];
        let mut lab = Lab::new(seed, &[2, 1, 3], &copies, LinkSecurity::Plain);
        lab.play(200);
        (0..24).for_each(|_| lab.submit_random());
        lab.world.run_for(Duration::from_micros(60 * (seed - 70)));
        lab.commands(vec![Command::Stop]);
        lab.world.run_for(Duration::from_millis(700));
        lab.take();
        // Lanes, with marks and what is in doubt on any copy.
        let mut lanes: BTreeMap<Lane, (base::Seq, BTreeMap<u64, u32>)> = BTreeMap::new();
        for n in copies {
            for said in lab.fence_as(n, (9, 1), CopySync::InSync).lanes {
                let (mark, ranges) = lanes.entry(said.lane).or_default();
                *mark = said.mark.max(*mark);
                said.doubt.iter().for_each(|r| _ = ranges.entry(r.first.0).and_modify(|b| *b = r.blocks.max(*b)).or_insert(r.blocks));
            }
        }
        lab.owns(Ownership { epoch: Epoch(9), term: Epoch(9), period_start: Epoch(1) }, &copies, None);
        let mut agreeing = Vec::new();
        for (lane, (base_mark, doubt)) in lanes.into_iter().filter(|(_, (_, doubt))| !doubt.is_empty()) {
            let mut ranges: Vec<BlockRange> = Vec::new();
            for (first, blocks) in doubt {
                match ranges.last_mut() {
                    Some(last) if last.end().0 > first => last.blocks = last.blocks.max((first - last.first.0) as u32 + blocks),
                    _ => ranges.push(BlockRange { first: BlockNo(first), blocks }),
                }
            }
            differed += ranges.len();
            agreeing.push(Command::MarkMoves { mirror: 0, lane });
            let source = copy(copies[seed as usize % 3]);
            lab.commands(vec![Command::Agree { term: Epoch(9), mirror: 0, lane, base_mark, source, ranges }]);
        }
        lab.commands(vec![Command::Serve, Command::Answer { mirror: 0, epoch: Epoch(9) }]);
        lab.world.run_for(Duration::from_secs(1));
        lab.commands(agreeing);
        lab.check();
        lab.play_more(150);
        lab.check();
    }
    assert!(differed > 20, "{differed}");
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    base::hooks::notices(base::hooks::SeededFault::ListForgetsCopy, a_copy_that_was_out_gets_what_it_misses);
    base::hooks::notices(base::hooks::SeededFault::ListGoesOnTooFar, a_list_has_the_chunks_of_all_shards_in_order);
}
