//! Whole targets in a simulated world: a few connections of a hostile host, over a network that cuts bytes anywhere, on one core or two.
//!
//! Asserted: what each connection gets is right to the last bit, and no command is answered twice (see [`crate::host`]); a host that falls
//! silent is closed in time when it has not connected, has stopped in the middle of a PDU, was terminated, or has promised to be heard of;
//! another host that behaves gets its answers while all this is going on; when all is closed, nothing is left: no connection, no
//! controller, no request, no buffer.

use crate::commands::{self, Command};
use crate::host::{Answer, Host};
use crate::input::{Choices, patch};
use crate::volumes::{Volumes, view};
use base::{Duration, Security};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::feature::FID_KEEP_ALIVE;
use format::nvme::io::BlockRange;
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, IoOpcode, Sgl, Sqe, Status};
use format::nvme_tcp::Digests;
use frontend::{ControlVerb, Refused, Reply};
use nvmf::limits::{HANDSHAKE_MAX, LINGER_MAX, PDU_MAX, QUEUE_WAIT_MAX, TICK};
use nvmf::{ListenerKind, ListenerSpec, Options, Target, TargetMsg, TargetShared};
use rt::sim::{HostId, NetOptions, World};
use rt::{App, Buf, ConnId, Event, MeshEnd, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Operations of one input, and its connections.
const OPS_MAX: usize = 40;
const WIRES_MAX: usize = 6;

struct Server {
    target: Target,
    volumes: Volumes,
    mesh: MeshEnd<TargetMsg>,
    turn: u8,
}

struct ServerApp(Rc<RefCell<Server>>);

impl App for ServerApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let s = &mut *self.0.borrow_mut();
        let mut busy = false;
        while let Some(msg) = s.mesh.recv() {
            busy = true;
            s.target.on_msg(rt, msg);
        }
        busy |= s.target.poll(rt, &mut s.volumes);
        while let Some((id, work)) = s.target.pop_work() {
            busy = true;
            s.target.on_work_done(rt, id, work.run());
        }
        while let Some(ask) = s.target.pop_control_request() {
            busy = true;
            s.turn = s.turn.wrapping_mul(5).wrapping_add(3);
            let reply = match (&ask.what, s.turn & 3) {
                (_, 0) => Err(Refused::Busy),
                (ControlVerb::Reservation { volume, .. }, 1) => {
                    Ok(Reply::Fenced { volume: *volume, abort: [base::HostId::from_bytes([7; 16])].into() })
                }
                (ControlVerb::CreateUnit { .. }, _) => Ok(Reply::Value(9)),
                _ => Ok(Reply::Done),
            };
            s.target.on_answer(rt, ask.id, reply);
        }
        while s.target.pop_audit().is_some() {}
        while let Some((to, msg)) = s.target.pop_msg() {
            s.mesh.send(rt, to, msg).unwrap_or_else(|_| panic!("messages between cores are bounded"));
        }
        s.mesh.flush_wakes(rt);
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

/// The host's side of a connection.
struct Wire {
    conn: Option<ConnId>,
    host: Host,
    out: Vec<u8>,
    closed: bool,
    /// Answers that nobody has looked at.
    answers: Vec<Answer>,
    /// Its Connect command succeeded.
    joined: bool,
    /// It is an admin queue whose host has promised to be heard of.
    keeps_alive: bool,
}

#[derive(Clone)]
struct Peer {
    rt: Rt,
    queue: Queue,
    wires: Rc<RefCell<Vec<Wire>>>,
}

struct PeerApp(Rc<RefCell<Option<Peer>>>);

impl App for PeerApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let Some(p) = self.0.borrow().clone() else { return Progress::Idle };
        let mut wires = p.wires.borrow_mut();
        while let Some(done) = p.queue.pop() {
            let w = &mut wires[done.cookie as usize];
            match done.event {
                Event::Connected { result: Ok(conn) } => {
                    w.conn = Some(conn);
                    rt.recv(&p.queue, done.cookie, conn, Buf::alloc(64 << 10));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    let answers = w.host.came(&buf[..n]);
                    // On a connection that is no queue, nothing but a Connect command succeeds.
                    w.joined |= answers.iter().any(|a| matches!(a, Answer::Response(cqe) if cqe.status.is_success()));
                    w.answers.extend(answers);
                    rt.recv(&p.queue, done.cookie, conn, buf);
                }
                Event::Sent { result: Ok(()), .. } => {}
                Event::Received { conn, .. } | Event::Sent { conn, .. } => {
                    w.closed = true;
                    rt.close(conn);
                }
                _ => w.closed = true,
            }
        }
        for (at, w) in wires.iter_mut().enumerate() {
            let (Some(conn), false) = (w.conn, w.out.is_empty() || w.closed) else { continue };
            for part in core::mem::take(&mut w.out).chunks(rt::BUF_BYTES_MAX) {
                let mut list = SendList::new();
                list.push_data(Buf::copy_of(part), 0..part.len());
                rt.send(&p.queue, at as u64, conn, list);
            }
        }
        Progress::Idle
    }
}

struct Rig {
    world: World,
    server: HostId,
    servers: Rc<RefCell<Vec<Rc<RefCell<Server>>>>>,
    peer: Peer,
    io: SocketAddr,
    discovery: SocketAddr,
}

impl Rig {
    fn new(seed: u64, cores: usize) -> Rig {
        let mut world = World::new(seed);
        world.network(NetOptions::default());
        let servers: Rc<RefCell<Vec<Rc<RefCell<Server>>>>> = Rc::default();
        let shared = Arc::new(TargetShared::new(Options::default()));
        let ends = RefCell::new(rt::mesh(cores, 256).into_iter());
        let (made, view) = (Rc::clone(&servers), Arc::new(view()));
        let server = world.add_host(cores, move |rt| {
            let mesh = ends.borrow_mut().next().expect("started once");
            let mut target = Target::new(&rt, Arc::clone(&shared));
            target.apply(&rt, Arc::clone(&view));
            let s = Rc::new(RefCell::new(Server { target, volumes: Volumes::default(), mesh, turn: 0 }));
            made.borrow_mut().push(Rc::clone(&s));
            Box::new(ServerApp(s))
        });
        let slot: Rc<RefCell<Option<Peer>>> = Rc::default();
        let mine = Rc::clone(&slot);
        let client: HostId = world.add_host(1, move |_| Box::new(PeerApp(Rc::clone(&mine))));
        world.run_for(Duration::from_millis(1));
        let rt = world.rt(client, 0);
        let peer = Peer { queue: rt.queue(), rt, wires: Rc::default() };
        *slot.borrow_mut() = Some(peer.clone());
        let (rt0, ip) = (world.rt(server, 0), world.addr(server));
        let listen = |kind, port| {
            let spec = ListenerSpec { addr: SocketAddr::new(ip, port), kind, advertise: None, security: Security::Plain };
            servers.borrow()[0].borrow_mut().target.listen(&rt0, spec).expect("the port is free")
        };
        let (io, discovery) = (listen(ListenerKind::Io, 4420), listen(ListenerKind::Discovery, 8009));
        Rig { world, server, servers, peer, io, discovery }
    }

    fn wire<T>(&self, at: usize, f: impl FnOnce(&mut Wire) -> T) -> T {
        f(&mut self.peer.wires.borrow_mut()[at])
    }
    fn wires(&self) -> usize {
        self.peer.wires.borrow().len()
    }
    fn start(&mut self, addr: SocketAddr, host: Host) -> usize {
        let at = self.wires();
        let out = Vec::new();
        let wire = Wire { conn: None, host, out, closed: false, answers: vec![], joined: false, keeps_alive: false };
        self.peer.wires.borrow_mut().push(wire);
        self.peer.rt.connect(&self.peer.queue, at as u64, addr);
        at
    }
    fn send(&mut self, at: usize, make: impl FnOnce(&Host) -> Vec<u8>) {
        self.wire(at, |w| {
            let bytes = make(&w.host);
            // Set Features, Keep Alive Timer: what was promised with the Connect command holds no longer.
            let (opcode, fid) = (bytes.get(8), bytes.get(8 + 40));
            w.keeps_alive &= (opcode, fid) != (Some(&(AdminOpcode::SetFeatures as u8)), Some(&FID_KEEP_ALIVE));
            w.host.sends(&bytes);
            w.out.extend(bytes);
        });
        self.peer.rt.wake(self.peer.rt.core());
    }
    /// The next answer, if one comes in time.
    fn next(&mut self, at: usize) -> Option<Answer> {
        let p = self.peer.clone();
        let mut got = None;
        self.world.run_until(Duration::from_secs(5), || {
            let w = &mut p.wires.borrow_mut()[at];
            if !w.answers.is_empty() {
                got = Some(w.answers.remove(0));
            }
            got.is_some() || w.closed
        });
        got
    }
    /// Sends a command and does what is asked until it is answered.
    fn execute(&mut self, at: usize, sqe: Sqe, data: &[u8]) -> Status {
        self.send(at, |h| h.capsule(sqe, data));
        loop {
            match self.next(at) {
                Some(Answer::Response(cqe)) => return cqe.status,
                Some(Answer::Data(true)) => return Status::SUCCESS,
                Some(Answer::Data(false)) => {}
                other => panic!("{other:?} for {sqe:?}"),
            }
        }
    }
    /// A connection that is a queue; its controller ID. As a host does it that behaves.
    fn queue(&mut self, host: Host, qid: u16, cntlid: u16, kato_ms: u32) -> (usize, u16) {
        let at = self.start(self.io, host);
        self.send(at, |h| h.ic_req());
        assert!(matches!(self.next(at), Some(Answer::IcResp)), "a new host is answered");
        self.send(at, |h| h.connect(qid, cntlid, 32, 0, kato_ms));
        let Some(Answer::Response(cqe)) = self.next(at) else { panic!("a Connect command is answered") };
        assert!(cqe.status.is_success(), "{:?}", cqe.status);
        if qid == 0 {
            let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
            let enable = PropertyAccess::set_sqe(0xFFF1, property::CC, false, cc.into());
            assert!(self.execute(at, enable, &[]).is_success());
            self.wire(at, |w| w.keeps_alive = kato_ms > 0);
        }
        (at, cqe.result as u16)
    }
    fn hold(&self, hold: bool) {
        for s in self.servers.borrow().iter() {
            s.borrow_mut().volumes.hold = hold;
        }
    }
    fn wake(&self) {
        for core in 0..self.servers.borrow().len() {
            self.world.rt(self.server, core).wake(core);
        }
    }
    fn connections(&self) -> u64 {
        self.servers.borrow().iter().map(|s| s.borrow().target.stats().connections_open).sum()
    }
    fn close(&mut self, at: usize) {
        if let Some(conn) = self.wire(at, |w| w.conn.filter(|_| !w.closed)) {
            self.peer.rt.close(conn);
            self.wire(at, |w| w.closed = true);
        }
    }
}

/// The target, beyond its sockets.
pub fn connection(data: &[u8]) {
    let buffers = rt::buffers_outstanding();
    run(data);
    assert_eq!(rt::buffers_outstanding(), buffers, "all buffers are free");
}

fn run(data: &[u8]) {
    let mut c = Choices::new(data);
    let cores = c.of(&[1, 2]);
    let mut rig = Rig::new(c.any::<u8>().into(), cores);
    let kato_ms = c.of(&[0, 1000, 5000]);
    let (_, cntlid) = rig.queue(commands::host(&mut c), 0, 0xFFFF, kato_ms);
    for qid in 1..=c.below(3) as u16 {
        rig.queue(commands::host(&mut c), qid, cntlid, 0);
    }
    for _ in 0..OPS_MAX {
        if c.is_empty() {
            break;
        }
        step(&mut rig, &mut c, cntlid);
    }
    rig.hold(false);
    rig.wake();
    silence(&mut rig);
    another_host(&mut rig);
    for at in 0..rig.wires() {
        rig.close(at);
    }
    rig.world.run_for(Duration::from_secs(3));
    assert_eq!(rig.connections(), 0, "no connection is left");
    for s in rig.servers.borrow().iter() {
        let s = s.borrow();
        assert!(s.target.sessions().is_empty() && s.target.is_quiet(), "nothing is left");
    }
}

fn step(rig: &mut Rig, c: &mut Choices<'_>, cntlid: u16) {
    let at = c.below(rig.wires() as u32) as usize;
    match c.below(20) {
        0..8 => {
            let cid = if c.once_in(12) { c.any() } else { c.below(24) as u16 };
            let Command { sqe, data } = if (at == 0) != c.once_in(6) { commands::admin(c, cid) } else { commands::io(c, cid) };
            let spoilt = if c.once_in(12) { c.bytes(6) } else { &[] };
            rig.send(at, |h| {
                let mut bytes = h.capsule(sqe, &data);
                patch(&mut bytes, spoilt);
                bytes
            });
        }
        8..11 => {
            let nth = c.below(4) as usize;
            if let Some(asked) = rig.wire(at, |w| w.host.asked(nth)) {
                rig.send(at, |h| commands::h2c_data(c, h, asked));
            }
        }
        11 => {
            let bytes = c.bytes(64).to_vec();
            rig.send(at, |_| bytes);
        }
        12 | 13 if rig.wires() < WIRES_MAX => {
            let addr = if c.once_in(4) { rig.discovery } else { rig.io };
            let at = rig.start(addr, commands::host(c));
            if !c.once_in(5) {
                rig.send(at, Host::ic_req);
            }
            if !c.once_in(3) {
                let (qid, of) = (c.of(&[0, 1, 2, 3, 129]), c.of(&[cntlid, cntlid, 0xFFFF, 0xFFFE, 9]));
                let (entries, kato_ms) = (c.of(&[32, 2, 1024, 1]), c.of(&[0, 5000, u32::MAX]));
                let spoilt = if c.once_in(6) { c.bytes(6) } else { &[] };
                rig.send(at, |h| {
                    let mut bytes = h.connect(qid, of, entries, 4 * (cntlid as u8 & 1), kato_ms);
                    patch(&mut bytes, spoilt);
                    bytes
                });
            }
        }
        14 => {
            let hold = c.once_in(2);
            rig.hold(hold);
            rig.wake();
        }
        15 if c.once_in(3) => rig.close(at),
        _ => {
            let ns = c.of(&[100_000u64, 1_000_000, 50_000, 600_000_000, 4_000_000_000]);
            rig.world.run_for(Duration::from_nanos(ns));
        }
    }
}

/// The host does nothing any more. What has a deadline is closed by it.
fn silence(rig: &mut Rig) {
    let margin = TICK + TICK + Duration::from_secs(1);
    // A Connect command may wait for its queue to come free, and what follows it is read after that.
    rig.world.run_for(QUEUE_WAIT_MAX + LINGER_MAX + margin);
    for at in 0..rig.wires() {
        rig.wire(at, |w| assert!(w.closed || !w.host.is_terminated(), "a connection that was terminated is closed"));
    }
    rig.world.run_for(HANDSHAKE_MAX);
    for at in 0..rig.wires() {
        rig.wire(at, |w| {
            assert!(w.closed || w.joined, "who does not connect is closed");
            assert!(w.closed || !w.keeps_alive, "who has promised to be heard of and is not, is closed");
        });
    }
    rig.world.run_for(PDU_MAX);
    for at in 0..rig.wires() {
        rig.wire(at, |w| assert!(w.closed || w.host.is_between_pdus(), "half a PDU is not waited for"));
    }
}

/// A host that behaves, while the others are still there.
fn another_host(rig: &mut Rig) {
    let digests = Digests { header: true, data: true };
    let (_, cntlid) = rig.queue(Host::new(digests, 0), 0, 0xFFFF, 0);
    let (at, _) = rig.queue(Host::new(digests, 0), 1, cntlid, 0);
    let range = BlockRange::new(8, 7);
    let write = Sqe { sgl: Sgl::in_capsule(0, 4096), ..range.sqe(IoOpcode::Write, 1, 1) };
    let read = Sqe { sgl: Sgl::transport(4096), ..range.sqe(IoOpcode::Read, 2, 1) };
    assert!(rig.execute(at, write, &[9; 4096]).is_success(), "a host that behaves is served");
    assert!(rig.execute(at, read, &[]).is_success());
    let compare = Sqe { sgl: Sgl::in_capsule(0, 4096), ..range.sqe(IoOpcode::Compare, 3, 1) };
    assert!(rig.execute(at, compare, &[9; 4096]).is_success(), "it reads what it wrote");
}
