//! Two nodes in a simulated world, each with the halves of its cores and a volume of its own; and a host of nobody.

use crate::{LinkSecurity, NoLink, OwnNode, PeerDesired, Peers, PeersDesired, PeersMsg, PeersStats};
use base::{ClusterId, Duration, NodeId, SecretBytes, VolumeId, crc32c};
use format::peer::Incarnation;
use frontend::{ServedVolume, VolumeView, Volumes};
use object::{Backend, Data, DataVec, Forward, ForwardDone, ForwardOutcome, IoDone, IoError, IoOp, IoRequest, VolumeRef};
use rt::sim::{HostId, NetOptions, TasksOnly, World};
use rt::{App, Buf, ConnId, Event, MeshEnd, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tls::ClusterSecret;

pub(super) const PORT: u16 = 7000;
pub(super) const BLOCK: usize = 4096;

pub(super) fn node(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
pub(super) fn cluster() -> ClusterId {
    ClusterId::from_bytes([0xC1; 16])
}
pub(super) fn secret(n: u8) -> ClusterSecret {
    ClusterSecret::new(SecretBytes::new(vec![n; 32])).unwrap()
}
pub(super) fn tls() -> LinkSecurity {
    LinkSecurity::Tls(Some(secret(7)))
}
/// The volume that the node owns.
pub(super) fn volume(n: usize) -> VolumeId {
    VolumeId::from_bytes([0x40 + n as u8; 16])
}

/// A node, as it is said to be.
#[derive(Clone)]
pub(super) struct Said {
    pub(super) cluster: ClusterId,
    pub(super) security: LinkSecurity,
    pub(super) incarnation: u64,
    /// Of its view of each volume.
    pub(super) revision: u64,
    /// Where it believes each node to be.
    pub(super) addrs: Vec<SocketAddr>,
    pub(super) cores: Vec<usize>,
}

impl Said {
    pub(super) fn desired(&self, n: usize) -> PeersDesired {
        let own = OwnNode { cluster: self.cluster, node: node(n), incarnation: Incarnation(self.incarnation) };
        let other = |(at, addr): (usize, &SocketAddr)| {
            let (incarnation, cores) = (Incarnation(1), self.cores[at] as u8);
            PeerDesired { node: node(at), addr: Some(*addr), incarnation, cores, removed: false }
        };
        let nodes = self.addrs.iter().enumerate().filter(|(at, _)| *at != n).map(other).collect();
        PeersDesired { own: Some(own), security: self.security.clone(), nodes }
    }
    /// Goes by this.
    pub(super) fn apply(&self, n: usize, rt: &Rt, peers: &mut Peers) {
        let of = |at: usize| VolumeView {
            volume: ServedVolume::plain(volume(at), format!("v{at}"), 1 << 30),
            used: vec![],
            limited: false,
            owner: (at != n).then(|| node(at)),
            revision: self.revision,
        };
        let places = (0..2).map(|at| (volume(at), VolumeRef(at as u32))).collect();
        let volumes = Volumes { generation: 1, by_ref: (0..2).map(|at| Some(of(at))).collect(), places };
        peers.apply(rt, Arc::new(self.desired(n).resolve(volumes).unwrap()));
    }
}

/// The router and the volume of a core.
#[derive(Default)]
pub(super) struct Volume {
    answers: VecDeque<IoDone>,
    /// Nothing that has begun ends.
    pub(super) holds: bool,
    /// Another node may own it.
    pub(super) taken_over: bool,
    pub(super) forwards: VecDeque<Forward>,
    pub(super) done: Vec<ForwardDone>,
    /// Data and checksum of each block, as they came.
    pub(super) blocks: BTreeMap<u64, (Vec<u8>, u32)>,
}

impl Backend for Volume {
    fn submit(&mut self, _: &Rt, IoRequest { token, op, .. }: IoRequest) {
        let (mut result, mut back) = (Ok(()), DataVec::new());
        match op {
            IoOp::Write { offset, data } => {
                let blocks = data.iter().flat_map(|d| d.buf.chunks(BLOCK).zip(&d.crcs));
                for (at, (bytes, crc)) in blocks.enumerate() {
                    self.blocks.insert(offset + (at * BLOCK) as u64, (bytes.to_vec(), *crc));
                }
            }
            IoOp::Read { offset, len } => {
                let blocks = (0..u64::from(len) / BLOCK as u64).map(|at| &self.blocks[&(offset + at * BLOCK as u64)]);
                let (bytes, crcs): (Vec<&[u8]>, Vec<u32>) = blocks.map(|(b, crc)| (&b[..], *crc)).unzip();
                back.push(Data { buf: Buf::copy_of(&bytes.concat()), crcs: crcs.into_iter().collect() });
            }
            _ => result = Err(IoError::Media { offset: 0 }),
        }
        self.answers.push_back(IoDone { token, result, data: back });
    }
    fn pop(&mut self) -> Option<IoDone> {
        if self.holds { None } else { self.answers.pop_front() }
    }
    fn pop_forward(&mut self) -> Option<Forward> {
        self.forwards.pop_front()
    }
    fn may_answer(&self, _: &Rt, _: VolumeRef) -> bool {
        !self.taken_over
    }
    fn forwarded(&mut self, _: &Rt, done: ForwardDone) {
        self.done.push(done);
    }
}

/// One core of a node.
pub(super) struct Half {
    pub(super) peers: Peers,
    pub(super) volume: Volume,
    pub(super) mesh: MeshEnd<PeersMsg>,
}

impl Half {
    pub(super) fn turn(&mut self, rt: &Rt) -> bool {
        let mut busy = false;
        while let Some(msg) = self.mesh.recv() {
            busy = true;
            self.peers.on_msg(rt, msg);
        }
        busy |= self.peers.poll(rt, &mut self.volume);
        while let Some((to, msg)) = self.peers.pop_msg() {
            assert!(self.mesh.send(rt, to, msg).is_ok(), "room");
        }
        self.mesh.flush_wakes(rt);
        busy
    }
}

struct HalfApp(Rc<RefCell<Half>>);

impl App for HalfApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        if self.0.borrow_mut().turn(rt) { Progress::Busy } else { Progress::Idle }
    }
}

pub(super) type Halves = Rc<RefCell<Vec<Rc<RefCell<Half>>>>>;

pub(super) struct Rig {
    pub(super) world: World,
    pub(super) hosts: Vec<HostId>,
    pub(super) halves: Vec<Halves>,
    pub(super) said: Vec<Said>,
    pub(super) nobody: HostId,
    next: u32,
}

impl Rig {
    /// Nodes 0 and 1; they have not heard of each other.
    pub(super) fn new(seed: u64, cores: [usize; 2], security: LinkSecurity) -> Rig {
        let mut world = World::new(seed);
        world.network(NetOptions { latency_ns: (50_000, 80_000), ..NetOptions::default() });
        let (mut hosts, mut halves) = (Vec::new(), Vec::new());
        for cores in cores {
            let made = Halves::default();
            let (mine, ends) = (Rc::clone(&made), RefCell::new(rt::mesh(cores, 1024).into_iter()));
            hosts.push(world.add_host(cores, move |rt| {
                let mesh = ends.borrow_mut().next().expect("started once");
                let half = Rc::new(RefCell::new(Half { peers: Peers::new(&rt), volume: Volume::default(), mesh }));
                mine.borrow_mut().push(Rc::clone(&half));
                Box::new(HalfApp(half))
            }));
            halves.push(made);
        }
        let nobody = world.add_host(1, |_| Box::new(TasksOnly));
        world.run_for(Duration::from_millis(1));
        let addrs: Vec<SocketAddr> = hosts.iter().map(|h| SocketAddr::new(world.addr(*h), PORT)).collect();
        let said = Said { cluster: cluster(), security, incarnation: 1, revision: 1, addrs, cores: cores.to_vec() };
        Rig { world, hosts, halves, said: vec![said.clone(), said], nobody, next: 0 }
    }
    /// The same, and they know each other.
    pub(super) fn started(seed: u64, cores: [usize; 2], security: LinkSecurity) -> Rig {
        let mut rig = Rig::new(seed, cores, security);
        rig.listen();
        rig.apply();
        rig
    }
    pub(super) fn listen(&mut self) {
        for n in 0..2 {
            let (rt, addr) = (self.world.rt(self.hosts[n], 0), SocketAddr::new(self.world.addr(self.hosts[n]), PORT));
            self.half(n, 0).borrow_mut().peers.listen(&rt, addr).unwrap();
        }
    }
    /// Both go by what is said of them.
    pub(super) fn apply(&mut self) {
        for n in 0..2 {
            (0..self.said[n].cores[n]).for_each(|core| self.apply_on(n, core));
        }
    }
    /// A core of a node goes by what is said of it.
    pub(super) fn apply_on(&mut self, n: usize, core: usize) {
        let rt = self.world.rt(self.hosts[n], core);
        self.said[n].apply(n, &rt, &mut self.half(n, core).borrow_mut().peers);
    }
    pub(super) fn half(&self, n: usize, core: usize) -> Rc<RefCell<Half>> {
        Rc::clone(&self.halves[n].borrow()[core])
    }
    pub(super) fn stat(&self, n: usize, of: impl Fn(&PeersStats) -> u64) -> u64 {
        self.halves[n].borrow().iter().map(|h| of(&h.borrow().peers.stats())).sum()
    }
    /// Lets time pass until so many links are open at node 0.
    pub(super) fn open(&mut self, links: usize) {
        let halves = Rc::clone(&self.halves[0]);
        let open = || halves.borrow().iter().map(|h| h.borrow_mut().peers.links_open()).sum::<usize>();
        assert!(self.world.run_until(Duration::from_secs(10), || open() == links), "{links} links open: {}", open());
    }
    /// What was reported at a node since it was looked at last.
    pub(super) fn reported(&self, n: usize) -> Vec<NoLink> {
        self.halves[n].borrow().iter().flat_map(|h| std::mem::take(&mut h.borrow_mut().peers.reported)).collect()
    }
    /// A request of a host of node `n`, on a core, for the volume of the other.
    pub(super) fn forward(&mut self, n: usize, core: usize, op: IoOp) -> Option<ForwardOutcome> {
        let id = self.begin(n, core, op);
        self.end(n, core, id, Duration::from_secs(3))
    }
    /// The same, and does not wait.
    pub(super) fn begin(&mut self, n: usize, core: usize, op: IoOp) -> u32 {
        let (rt, id) = (self.world.rt(self.hosts[n], core), self.next);
        self.next += 1;
        let forward = Forward { id, owner: node(1 - n), volume: volume(1 - n), revision: self.said[n].revision, since: rt.now(), op };
        self.half(n, core).borrow_mut().volume.forwards.push_back(forward);
        rt.wake(core);
        id
    }
    /// Waits for its end, for so long at most.
    pub(super) fn end(&mut self, n: usize, core: usize, id: u32, limit: Duration) -> Option<ForwardOutcome> {
        let half = self.half(n, core);
        self.world.run_until(limit, || half.borrow().volume.done.iter().any(|d| d.id == id));
        let done = &mut half.borrow_mut().volume.done;
        let at = done.iter().position(|d| d.id == id)?;
        Some(done.swap_remove(at).outcome)
    }
    /// What node `n` has begun ends, or does not.
    pub(super) fn holds(&mut self, n: usize, holds: bool) {
        for core in 0..self.said[n].cores[n] {
            self.half(n, core).borrow_mut().volume.holds = holds;
            self.world.rt(self.hosts[n], core).wake(core);
        }
    }
    /// Another node may own the volume of node `n`, or cannot.
    pub(super) fn is_taken_over(&mut self, n: usize, taken_over: bool) {
        (0..self.said[n].cores[n]).for_each(|core| self.half(n, core).borrow_mut().volume.taken_over = taken_over);
    }
    /// What is said to the control plane of node `n` of its links since it was looked at last: whether they are open.
    pub(super) fn links_said(&self, n: usize) -> Vec<bool> {
        let of =
            |half: &Rc<RefCell<Half>>| std::iter::from_fn(|| half.borrow_mut().peers.link_change()).map(|c| c.open).collect::<Vec<_>>();
        self.halves[n].borrow().iter().flat_map(of).collect()
    }
    /// What node `n` has of the volume that it owns.
    pub(super) fn has(&self, n: usize) -> BTreeMap<u64, (Vec<u8>, u32)> {
        self.halves[n].borrow().iter().flat_map(|h| h.borrow().volume.blocks.clone()).collect()
    }
    /// Connections that nobody knows, and all, at a node.
    pub(super) fn conns(&self, n: usize) -> (usize, usize) {
        let halves = self.halves[n].borrow();
        halves.iter().map(|h| h.borrow().peers.conns_open()).fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1))
    }
    /// A connection of nobody to a node.
    pub(super) fn dial(&mut self, n: usize) -> Wire {
        let addr = self.said[n].addrs[n];
        self.world.block_on(self.nobody, async |rt| Wire::dial(&rt, addr).await)
    }
    /// Sends, and gives what comes until nothing does for a while; whether the other end has closed.
    pub(super) fn talk(&mut self, wire: &mut Wire, bytes: &[u8]) -> (Vec<u8>, bool) {
        self.world.block_on(self.nobody, async |rt| {
            wire.send(&rt, bytes);
            wire.hear(&rt).await
        })
    }
}

/// A connection of somebody who is no node.
pub(super) struct Wire {
    pub(super) conn: ConnId,
    queue: Queue,
    receiving: bool,
}

impl Wire {
    pub(super) async fn dial(rt: &Rt, addr: SocketAddr) -> Wire {
        let queue = rt.queue();
        rt.connect(&queue, 0, addr);
        loop {
            match queue.pop().map(|c| c.event) {
                Some(Event::Connected { result }) => return Wire { conn: result.unwrap(), queue, receiving: false },
                Some(other) => panic!("{other:?}"),
                None => rt.sleep(Duration::from_micros(50)).await,
            }
        }
    }
    pub(super) fn send(&mut self, rt: &Rt, bytes: &[u8]) {
        if !bytes.is_empty() {
            let mut list = SendList::new();
            list.push_data(Buf::copy_of(bytes), 0..bytes.len());
            rt.send(&self.queue, 0, self.conn, list);
        }
    }
    pub(super) async fn hear(&mut self, rt: &Rt) -> (Vec<u8>, bool) {
        let (mut all, mut quiet) = (Vec::new(), 0);
        while quiet < 40 {
            if !core::mem::replace(&mut self.receiving, true) {
                rt.recv(&self.queue, 0, self.conn, Buf::alloc(64 << 10));
            }
            match self.queue.pop().map(|c| c.event) {
                Some(Event::Received { result: Ok(n), buf, .. }) if n > 0 => {
                    all.extend_from_slice(&buf[..n]);
                    (self.receiving, quiet) = (false, 0);
                }
                Some(Event::Received { .. }) => {
                    rt.close(self.conn);
                    return (all, true);
                }
                Some(_) => {}
                None => {
                    quiet += 1;
                    rt.sleep(Duration::from_micros(50)).await;
                }
            }
        }
        (all, false)
    }
}

/// Blocks of a pattern, with their checksums.
pub(super) fn data(bytes: usize, seed: u8) -> DataVec {
    let mut buf = Buf::alloc(bytes);
    buf.iter_mut().enumerate().for_each(|(i, b)| *b = (i / 7) as u8 ^ seed);
    let crcs = buf.chunks(BLOCK).map(crc32c).collect();
    DataVec::from_iter([Data { buf, crcs }])
}
