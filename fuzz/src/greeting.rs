//! The first bytes of connections between nodes, up to the end of the handshake and the greeting, in a simulated world: a few connections of
//! somebody hostile, plain and over TLS, with the key of a node, with another one and with none, cut anywhere and changed.
//!
//! Asserted: the link of a node that behaves opens and stays open meanwhile; who has fallen silent is closed in time; a link opens only for who has
//! proved the key, or where links are plain; when all is closed, nothing is left: no connection, no buffer.

use crate::input::{Choices, patch};
use base::{ClusterId, Duration, Instant, NodeId, SecretBytes};
use format::peer::{BODY_BYTES_MAX, Envelope, HEADER_BYTES, Hello, Incarnation, LinkClass, SessionNo, Totals, Versions, Window};
use frontend::{FrontEnd, Volumes};
use object::{Backend, DataVec, IoDone, IoError, IoRequest};
use peers::{LinkSecurity, OwnNode, PeerDesired, Peers, PeersDesired, PeersMsg};
use rt::sim::{HostId, NetOptions, World};
use rt::{App, Buf, ConnId, Event, MeshEnd, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tls::{ClusterSecret, ConfiguredPsk, Context, Derivation, Engine, Hash, HostIdentity, PairIdentity};

/// Operations of one input, and its connections.
const OPS_MAX: usize = 40;
const WIRES_MAX: usize = 5;
const PORT: u16 = 7000;
/// By when who says nothing is closed, and a link that hears nothing: both with room for what is under way.
const SILENT_MAX: Duration = Duration::from_millis(2900);
/// Who behaves, who is attacked, and whose key the attacker may have.
const NODES: usize = 3;

fn node(n: usize) -> NodeId {
    NodeId::from_bytes([n as u8 + 1; 16])
}
fn cluster(right: bool) -> ClusterId {
    ClusterId::from_bytes([if right { 9 } else { 8 }; 16])
}
fn secret(right: bool) -> ClusterSecret {
    ClusterSecret::new(SecretBytes::new(vec![u8::from(right); 32])).expect("32 bytes")
}

/// A volume that fails whatever is asked of it.
#[derive(Default)]
struct Broken(VecDeque<IoDone>);

impl Backend for Broken {
    fn submit(&mut self, _: &Rt, IoRequest { token, .. }: IoRequest) {
        self.0.push_back(IoDone { token, result: Err(IoError::Media { offset: 0 }), data: DataVec::new() });
    }
    fn pop(&mut self) -> Option<IoDone> {
        self.0.pop_front()
    }
}

struct Half {
    peers: Peers,
    volume: Broken,
    mesh: MeshEnd<PeersMsg>,
}

struct HalfApp(Rc<RefCell<Half>>);

impl App for HalfApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let half = &mut *self.0.borrow_mut();
        let mut busy = false;
        while let Some(msg) = half.mesh.recv() {
            busy = true;
            half.peers.on_msg(rt, msg);
        }
        busy |= half.peers.poll(rt, &mut half.volume);
        while let Some((to, msg)) = half.peers.pop_msg() {
            assert!(half.mesh.send(rt, to, msg).is_ok(), "messages between cores are bounded");
        }
        half.mesh.flush_wakes(rt);
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

/// The attacker's side of TLS.
enum Tls {
    None,
    Node(Engine<PairIdentity>),
    Host(Engine<HostIdentity>),
}

macro_rules! engine {
    ($tls:expr, $e:ident => $do:expr, $none:expr) => {
        match $tls {
            Tls::None => $none,
            Tls::Node($e) => $do,
            Tls::Host($e) => $do,
        }
    };
}

struct Wire {
    conn: Option<ConnId>,
    tls: Tls,
    out: Vec<u8>,
    closed: bool,
}

impl Wire {
    fn came(&mut self, bytes: &[u8]) {
        engine!(&mut self.tls, e => {
            // What goes wrong here is the attacker's.
            let _ = e.receive(bytes, |_| Vec::new());
            let mut plain = [0; 4096];
            while let Ok(Some(1..)) = e.read(&mut plain) {}
        }, {});
        self.pump();
    }
    /// What TLS has to say goes.
    fn pump(&mut self) {
        engine!(&mut self.tls, e => {
            let n = e.out().len();
            self.out.extend_from_slice(e.out());
            e.taken(n);
        }, {});
    }
    /// Says something, over TLS when the handshake is done.
    fn say(&mut self, bytes: &[u8]) {
        let open = engine!(&self.tls, e => e.is_open(), false);
        if !open {
            return self.out.extend_from_slice(bytes);
        }
        engine!(&mut self.tls, e => { let _ = e.write(bytes).and_then(|()| e.flush()); }, {});
        self.pump();
    }
}

#[derive(Clone)]
struct Attacker {
    rt: Rt,
    queue: Queue,
    wires: Rc<RefCell<Vec<Wire>>>,
}

struct AttackerApp(Rc<RefCell<Option<Attacker>>>);

impl App for AttackerApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let Some(a) = self.0.borrow().clone() else { return Progress::Idle };
        let mut wires = a.wires.borrow_mut();
        while let Some(done) = a.queue.pop() {
            let wire = &mut wires[done.cookie as usize];
            match done.event {
                Event::Connected { result: Ok(conn) } => {
                    wire.conn = Some(conn);
                    rt.recv(&a.queue, done.cookie, conn, Buf::alloc(16 << 10));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    wire.came(&buf[..n]);
                    rt.recv(&a.queue, done.cookie, conn, buf);
                }
                Event::Sent { result: Ok(()), .. } => {}
                Event::Received { conn, .. } | Event::Sent { conn, .. } => {
                    wire.closed = true;
                    rt.close(conn);
                }
                _ => wire.closed = true,
            }
        }
        for (at, wire) in wires.iter_mut().enumerate() {
            let (Some(conn), false) = (wire.conn, wire.out.is_empty() || wire.closed) else { continue };
            let out = core::mem::take(&mut wire.out);
            let mut list = SendList::new();
            list.push_data(Buf::copy_of(&out), 0..out.len());
            rt.send(&a.queue, at as u64, conn, list);
        }
        Progress::Idle
    }
}

type Halves = Rc<RefCell<Vec<Rc<RefCell<Half>>>>>;

struct Rig {
    world: World,
    halves: Vec<Halves>,
    attacker: Attacker,
    to: SocketAddr,
}

impl Rig {
    fn new(seed: u64, cores: usize, security: &LinkSecurity) -> Rig {
        let mut world = World::new(seed);
        world.network(NetOptions::default());
        let (mut halves, mut hosts) = (Vec::new(), Vec::new());
        let all_cores = [1, cores, 2];
        for cores in [1, cores] {
            let made = Halves::default();
            let (mine, ends) = (Rc::clone(&made), RefCell::new(rt::mesh(cores, 256).into_iter()));
            hosts.push(world.add_host(cores, move |rt| {
                let mesh = ends.borrow_mut().next().expect("started once");
                let half = Rc::new(RefCell::new(Half { peers: Peers::start(&rt, Arc::default()), volume: Broken::default(), mesh }));
                mine.borrow_mut().push(Rc::clone(&half));
                Box::new(HalfApp(half))
            }));
            halves.push(made);
        }
        let slot: Rc<RefCell<Option<Attacker>>> = Rc::default();
        let mine = Rc::clone(&slot);
        let host: HostId = world.add_host(1, move |_| Box::new(AttackerApp(Rc::clone(&mine))));
        world.run_for(Duration::from_millis(1));
        let rt = world.rt(host, 0);
        let attacker = Attacker { queue: rt.queue(), rt, wires: Rc::default() };
        *slot.borrow_mut() = Some(attacker.clone());
        let addr = |n: usize| hosts.get(n).map(|h| SocketAddr::new(world.addr(*h), PORT));
        let listed =
            |n: usize| PeerDesired { node: node(n), addr: addr(n), incarnation: Incarnation(1), cores: all_cores[n] as u8, removed: false };
        for (n, host) in hosts.iter().enumerate() {
            let own = OwnNode { cluster: cluster(true), node: node(n), incarnation: Incarnation(1) };
            let nodes = (0..NODES).filter(|other| *other != n).map(listed).collect();
            let desired = PeersDesired { own: Some(own), security: security.clone(), nodes };
            let view = Arc::new(Peers::resolve(&desired, Volumes::default()).expect("no volume is named"));
            for (core, half) in halves[n].borrow().iter().enumerate() {
                let (rt, mut half) = (world.rt(*host, core), half.borrow_mut());
                half.peers.serve(&rt, Arc::clone(&view));
                if core == 0 {
                    FrontEnd::listen(&mut half.peers, &rt, addr(n).expect("a host")).expect("the port is free");
                }
            }
        }
        let to = addr(1).expect("a host");
        Rig { world, halves, attacker, to }
    }
    /// Links of the node that behaves: opened, closed.
    fn links(&self) -> (u64, u64) {
        let stats = self.halves[0].borrow()[0].borrow().peers.stats();
        (stats.links_opened, stats.links_closed)
    }
    fn opened_there(&self) -> u64 {
        self.halves[1].borrow().iter().map(|h| h.borrow().peers.stats().links_opened).sum()
    }
    fn dial(&mut self, tls: Tls) {
        let mut wires = self.attacker.wires.borrow_mut();
        let mut wire = Wire { conn: None, tls, out: Vec::new(), closed: false };
        wire.pump();
        self.attacker.rt.connect(&self.attacker.queue, wires.len() as u64, self.to);
        wires.push(wire);
    }
}

fn tls_of(choices: &mut Choices<'_>) -> (Tls, bool) {
    let context = Context::shared().expect("OpenSSL has TLS 1.3");
    let (right_secret, right_cluster) = (!choices.once_in(4), !choices.once_in(5));
    let of_pair = |a: usize, b: usize| PairIdentity::new(Hash::Sha256, cluster(right_cluster), node(a), node(b)).expect("two nodes");
    match choices.below(4) {
        0 => (Tls::None, false),
        1 => {
            let key = ConfiguredPsk::parse(crate::text::PSK).expect("a key");
            let identity = key.identity("nqn.h", "nqn.s", Derivation::Standard).expect("OpenSSL works");
            let psk = key.key_for(&identity, Derivation::Standard).expect("OpenSSL works").expect("its own");
            (Tls::Host(Engine::client(&context, &identity, psk).expect("OpenSSL works")), false)
        }
        n => {
            let meant = n == 2 || !choices.once_in(4);
            let pair = if meant { of_pair(1, 2) } else { of_pair(0, 2) };
            let psk = pair.key(&secret(right_secret)).expect("OpenSSL works");
            let proves = meant && right_secret && right_cluster;
            (Tls::Node(Engine::client(&context, &pair, psk).expect("OpenSSL works")), proves)
        }
    }
}

fn hello(choices: &mut Choices<'_>) -> Vec<u8> {
    let lanes = 1 + choices.below(2) as u8;
    let hello = Hello {
        cluster: cluster(!choices.once_in(8)),
        from: node(if choices.once_in(6) { 0 } else { 2 }),
        to: node(if choices.once_in(8) { 0 } else { 1 }),
        incarnation: Incarnation(1 + u64::from(choices.below(3))),
        clock: Instant(u64::from(choices.below(1000))),
        versions: Versions::OURS,
        class: LinkClass::Foreground,
        lane: choices.below(u32::from(lanes)) as u8,
        lanes,
        window: Window { ops: 1 + choices.below(8), bytes: 2 << 20 },
    };
    let mut out = vec![0; HEADER_BYTES + BODY_BYTES_MAX];
    let envelope = Envelope { session: SessionNo(1 + u64::from(choices.below(4))), version: 0, totals: Totals { ops: 4, bytes: 2 << 20 } };
    let n = hello.write(&envelope, &mut out);
    out.truncate(n);
    if choices.once_in(4) {
        patch(&mut out, choices.bytes(6));
    }
    out
}

/// See the module.
pub fn greeting(data: &[u8]) {
    let buffers = rt::buffers_outstanding();
    let mut choices = Choices::new(data);
    let plain = choices.once_in(3);
    let security = if plain { LinkSecurity::Plain } else { LinkSecurity::Tls(Some(secret(true))) };
    let mut rig = Rig::new(u64::from(choices.any::<u16>()), 1 + choices.below(2) as usize, &security);
    let (mut proved, mut as_other) = (0, false);
    for _ in 0..OPS_MAX {
        if choices.is_empty() {
            break;
        }
        let wires = rig.attacker.wires.borrow().len();
        if wires == 0 || wires < WIRES_MAX && choices.once_in(5) {
            let (tls, proves) = tls_of(&mut choices);
            proved += u64::from(proves);
            rig.dial(tls);
            continue;
        }
        let at = choices.below(wires as u32) as usize;
        match choices.below(6) {
            0 => rig.attacker.wires.borrow_mut()[at].out.extend_from_slice(choices.bytes(300)),
            1 | 2 => {
                let bytes = hello(&mut choices);
                // On a plain link who says that it is the node that behaves takes that one's place; nothing else is promised there.
                as_other |= plain;
                rig.attacker.wires.borrow_mut()[at].say(&bytes);
            }
            3 => {
                let mut wires = rig.attacker.wires.borrow_mut();
                let patches = choices.bytes(6);
                patch(&mut wires[at].out, patches);
            }
            4 => rig.attacker.wires.borrow_mut()[at].say(choices.bytes(100)),
            _ => {}
        }
        rig.attacker.rt.wake(0);
        rig.world.run_for(Duration::from_micros(u64::from(choices.below(2000))));
    }
    let attacker = rig.attacker.clone();
    rig.attacker.rt.wake(0);
    rig.world.run_for(SILENT_MAX);
    assert!(attacker.wires.borrow().iter().all(|w| w.closed), "who falls silent is closed");
    let (opened, closed) = rig.links();
    assert!(as_other || opened > 0 && closed == 0, "a node that behaves keeps its link: {opened} opened, {closed} closed");
    assert!(plain || rig.opened_there() <= opened + proved, "a link opens for who has proved the key");
    drop((attacker, rig));
    assert_eq!(rt::buffers_outstanding(), buffers, "buffers leak");
}
