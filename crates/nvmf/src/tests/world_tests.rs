//! Whole targets in a simulated world: several cores, a network that cuts bytes anywhere, hosts that vanish.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::memory::{Disks, Memory};
use super::{HOST, NQN, view};
use crate::{ListenerKind, ListenerSpec, Options, Target, TargetMsg, TargetShared, View};
use base::{Duration, Security};
use format::nvme::admin::{GetLogPage, SetFeatures, plain_sqe};
use format::nvme::fabrics::{DISCOVERY_NQN, PropertyAccess, disconnect_sqe};
use format::nvme::io::BlockRange;
use format::nvme::log::AsyncEvent;
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, Cqe, IoOpcode, Sgl, Sqe, StatusCode, feature};
use object::IoError;
use rt::sim::{HostId, NetOptions, World};
use rt::{App, Buf, ConnId, Event, MeshEnd, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tls::{Engine, Fault};

pub(super) const CORES: usize = 3;

pub(super) struct Server {
    pub(super) target: Target,
    pub(super) memory: Memory,
    mesh: MeshEnd<TargetMsg>,
    /// It does not look, as if something else had the processor.
    pub(super) stopped: bool,
    /// Nobody takes its work of authentication.
    pub(super) works_wait: bool,
    /// The most termination requests that one turn sent.
    pub(super) most_terminations: u64,
}
struct ServerApp(Rc<RefCell<Server>>);

impl App for ServerApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let s = &mut *self.0.borrow_mut();
        if s.stopped {
            return Progress::Idle;
        }
        let mut busy = false;
        while let Some(msg) = s.mesh.recv() {
            busy = true;
            s.target.on_msg(rt, msg);
        }
        let terminations = |t: &Target| t.stats().terminations.iter().sum::<u64>();
        let before = terminations(&s.target);
        busy |= s.target.poll(rt, &mut s.memory);
        s.most_terminations = s.most_terminations.max(terminations(&s.target) - before);
        while let Some((id, work)) = (!s.works_wait).then(|| s.target.pop_work()).flatten() {
            busy = true;
            s.target.on_work_done(rt, id, work.run());
        }
        while let Some((to, msg)) = s.target.pop_msg() {
            s.mesh.send(rt, to, msg).expect("room");
        }
        s.mesh.flush_wakes(rt);
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

/// A host's side of a connection.
pub(super) struct Wire {
    conn: Option<ConnId>,
    pub(super) client: Client,
    pub(super) out: Vec<u8>,
    /// TLS, and what it said when it ended.
    pub(super) tls: Option<Engine>,
    pub(super) ended: Option<Result<(), Fault>>,
    pub(super) closed: bool,
}

impl Wire {
    fn came(&mut self, bytes: &[u8]) {
        let Some(tls) = &mut self.tls else { return self.client.incoming.extend_from_slice(bytes) };
        let mut plain = vec![0; 20_000];
        let mut result = tls.receive(bytes, |_| Vec::new());
        while result.is_ok() {
            match tls.read(&mut plain) {
                Ok(Some(0)) => break,
                Ok(Some(n)) => self.client.incoming.extend_from_slice(&plain[..n]),
                Ok(None) => {
                    self.ended = Some(Ok(()));
                    break;
                }
                Err(e) => result = Err(e),
            }
        }
        if let Err(e) = result {
            self.ended = Some(Err(e));
        }
    }
    /// Encrypts what is to go out, once it can be.
    fn seal(&mut self) {
        if let Some(tls) = self.tls.as_mut().filter(|t| t.is_open()) {
            tls.write(&core::mem::take(&mut self.out)).unwrap();
            tls.flush().unwrap();
        }
    }
    fn idle(&self) -> bool {
        self.tls.as_ref().map_or(self.out.is_empty(), |t| t.out().is_empty())
    }
    fn take_out(&mut self) -> Vec<u8> {
        let Some(tls) = &mut self.tls else { return core::mem::take(&mut self.out) };
        let out = tls.out().to_vec();
        tls.taken(out.len());
        out
    }
}

#[derive(Clone)]
pub(super) struct Peer {
    rt: Rt,
    queue: Queue,
    pub(super) wires: Rc<RefCell<Vec<Wire>>>,
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
                    w.came(&buf[..n]);
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
            w.seal();
            let (Some(conn), false) = (w.conn, w.idle() || w.closed) else { continue };
            let out = w.take_out();
            for part in out.chunks(1 << 20) {
                let mut list = SendList::new();
                list.push_data(Buf::copy_of(part), 0..part.len());
                rt.send(&p.queue, at as u64, conn, list);
            }
        }
        Progress::Idle
    }
}

pub(super) struct Rig {
    pub(super) world: World,
    pub(super) server: HostId,
    client: HostId,
    pub(super) shared: Arc<TargetShared>,
    pub(super) servers: Rc<RefCell<Vec<Rc<RefCell<Server>>>>>,
    peer: Rc<RefCell<Option<Peer>>>,
    pub(super) io: SocketAddr,
    pub(super) discovery: SocketAddr,
    cid: u16,
}

impl Rig {
    pub(super) fn new(seed: u64) -> Rig {
        Self::with(seed, Options::default())
    }
    pub(super) fn with(seed: u64, options: Options) -> Rig {
        let mut world = World::new(seed);
        world.network(NetOptions::default());
        let servers: Rc<RefCell<Vec<Rc<RefCell<Server>>>>> = Rc::default();
        let shared = Arc::new(TargetShared::new(options));
        let of_all = Arc::clone(&shared);
        let ends = RefCell::new(rt::mesh(CORES, 1024).into_iter());
        let disks = Disks::default();
        let made = Rc::clone(&servers);
        let server = world.add_host(CORES, move |rt| {
            let mesh = ends.borrow_mut().next().expect("started once");
            assert_eq!(mesh.core(), rt.core());
            let mut target = Target::new(&rt, Arc::clone(&shared));
            target.apply(&rt, Arc::new(view()));
            let s = Server {
                target,
                memory: Memory { disks: disks.clone(), ..Memory::default() },
                mesh,
                stopped: false,
                works_wait: false,
                most_terminations: 0,
            };
            let s = Rc::new(RefCell::new(s));
            made.borrow_mut().push(Rc::clone(&s));
            Box::new(ServerApp(s))
        });
        let peer: Rc<RefCell<Option<Peer>>> = Rc::default();
        let mine = Rc::clone(&peer);
        let client = world.add_host(1, move |_| Box::new(PeerApp(Rc::clone(&mine))));
        world.run_for(Duration::from_millis(1));
        let rt = world.rt(client, 0);
        *peer.borrow_mut() = Some(Peer { queue: rt.queue(), rt, wires: Rc::default() });
        let (rt0, ip) = (world.rt(server, 0), world.addr(server));
        let listen = |kind, port| {
            let spec = ListenerSpec { addr: SocketAddr::new(ip, port), kind, advertise: None, security: Security::Plain };
            servers.borrow()[0].borrow_mut().target.listen(&rt0, spec).unwrap()
        };
        let (io, discovery) = (listen(ListenerKind::Io, 4420), listen(ListenerKind::Discovery, 8009));
        Rig { world, server, client, shared: of_all, servers, peer, io, discovery, cid: 0 }
    }
    pub(super) fn peer(&self) -> Peer {
        self.peer.borrow().clone().unwrap()
    }
    /// Another listener.
    pub(super) fn listen(&mut self, kind: ListenerKind, port: u16, security: Security) -> SocketAddr {
        let (rt, addr) = (self.world.rt(self.server, 0), SocketAddr::new(self.world.addr(self.server), port));
        let spec = ListenerSpec { addr, kind, advertise: None, security };
        self.servers.borrow()[0].borrow_mut().target.listen(&rt, spec).unwrap()
    }
    /// A connection whose ICReq is on its way.
    pub(super) fn start(&mut self, addr: SocketAddr, client: Client, tls: Option<Engine>) -> usize {
        let p = self.peer();
        let at = p.wires.borrow().len();
        let out = client.ic_req();
        p.wires.borrow_mut().push(Wire { conn: None, client, out, tls, ended: None, closed: false });
        p.rt.connect(&p.queue, at as u64, addr);
        self.wake();
        at
    }
    pub(super) fn open(&mut self, addr: SocketAddr, client: Client) -> usize {
        let at = self.start(addr, client, None);
        assert!(matches!(self.next(at), Pdu::IcResp(_)));
        at
    }
    pub(super) fn wake(&self) {
        let p = self.peer();
        p.rt.wake(p.rt.core());
    }
    pub(super) fn try_next(&mut self, at: usize, limit: Duration) -> Option<Pdu> {
        let p = self.peer();
        let mut got = None;
        self.world.run_until(limit, || {
            let w = &mut p.wires.borrow_mut()[at];
            got = w.client.next();
            got.is_some() || w.closed
        });
        got
    }
    pub(super) fn next(&mut self, at: usize) -> Pdu {
        self.try_next(at, Duration::from_secs(5)).expect("an answer in time")
    }
    pub(super) fn send(&mut self, at: usize, make: impl FnOnce(&Client) -> Vec<u8>) {
        let p = self.peer();
        {
            let w = &mut p.wires.borrow_mut()[at];
            let bytes = make(&w.client);
            w.out.extend(bytes);
        }
        self.wake();
    }
    pub(super) fn connect(&mut self, at: usize, qid: u16, cntlid: u16, kato_ms: u32, nqn: &str, host: &str) -> Cqe {
        self.send(at, |c| c.connect(qid, cntlid, 32, kato_ms, nqn, host));
        match self.next(at) {
            Pdu::Response(cqe) => cqe,
            other => panic!("{other:?}"),
        }
    }
    pub(super) fn execute(&mut self, at: usize, sqe: Sqe, data: &[u8]) -> (Cqe, Vec<u8>) {
        self.cid = self.cid % 1000 + 1;
        let sqe = Sqe { cid: self.cid, ..sqe };
        let capsule = if sqe.sgl.0[15] == 1 { data } else { &[] };
        self.send(at, |c| c.capsule(sqe, capsule));
        let mut got = Vec::new();
        loop {
            match self.next(at) {
                Pdu::Response(cqe) if cqe.cid == sqe.cid => return (cqe, got),
                Pdu::Data(_, bytes) => got.extend(bytes),
                Pdu::R2t(r2t) => self.send(at, |c| c.h2c_data(&r2t, data, 30_000)),
                other => panic!("{other:?}"),
            }
        }
    }
    pub(super) fn admin(&mut self, client: Client, kato_ms: u32) -> (usize, u16) {
        let at = self.open(self.io, client);
        let cqe = self.connect(at, 0, 0, kato_ms, NQN, HOST);
        assert!(cqe.status.is_success(), "{cqe:?}");
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        assert!(self.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
        (at, cqe.result as u16)
    }
    pub(super) fn io_queue(&mut self, cntlid: u16, qid: u16, client: Client) -> usize {
        let at = self.open(self.io, client);
        let cqe = self.connect(at, qid, cntlid, 0, NQN, HOST);
        assert!(cqe.status.is_success(), "{cqe:?}");
        at
    }
    pub(super) fn apply(&mut self, view: View) {
        let view = Arc::new(view);
        for core in 0..CORES {
            let rt = self.world.rt(self.server, core);
            self.servers.borrow()[core].borrow_mut().target.apply(&rt, Arc::clone(&view));
            rt.wake(core);
        }
    }
    /// Whether the cores look at what comes.
    pub(super) fn stop(&mut self, stopped: bool) {
        for core in 0..CORES {
            self.servers.borrow()[core].borrow_mut().stopped = stopped;
            self.world.rt(self.server, core).wake(core);
        }
    }
    /// Whether the volumes keep what they are asked for without an answer.
    pub(super) fn hold(&mut self, hold: bool) {
        for core in 0..CORES {
            self.servers.borrow()[core].borrow_mut().memory.hold = hold;
            self.world.rt(self.server, core).wake(core);
        }
    }
    /// What the volumes answer everything with.
    pub(super) fn fail(&mut self, with: Option<IoError>) {
        self.servers.borrow().iter().for_each(|s| s.borrow_mut().memory.fail = with);
    }
    pub(super) fn is_closed(&mut self, at: usize, limit: Duration) -> bool {
        let p = self.peer();
        self.world.run_until(limit, || p.wires.borrow()[at].closed)
    }
    pub(super) fn connections(&self) -> u64 {
        self.servers.borrow().iter().map(|s| s.borrow().target.stats().connections_open).sum()
    }
    pub(super) fn controllers(&self) -> usize {
        self.servers.borrow().iter().map(|s| s.borrow().target.sessions().len()).sum()
    }
    pub(super) fn close(&mut self, at: usize) {
        let p = self.peer();
        let conn = p.wires.borrow()[at].conn;
        if let Some(conn) = conn {
            p.rt.close(conn);
        }
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7) as u8 ^ seed).collect()
}

#[test]
fn a_host_with_four_queues_on_three_cores_reads_what_it_wrote() {
    for (seed, (header, data)) in [(1, (false, false)), (2, (true, true))] {
        let mut rig = Rig::new(seed);
        let client = || Client::new(header, data, 0);
        let (_, cntlid) = rig.admin(client(), 5000);
        let queues: Vec<usize> = (1..=4).map(|qid| rig.io_queue(cntlid, qid, client())).collect();
        for (i, q) in queues.iter().enumerate() {
            let bytes = pattern(200 * 512, i as u8);
            let write = BlockRange::new(i as u64 * 1000 + 1, 199).sqe(IoOpcode::Write, 0, 1);
            assert!(rig.execute(*q, with_transport(write, 200 * 512), &bytes).0.status.is_success());
            let small = BlockRange::new(i as u64 * 8, 0).sqe(IoOpcode::Write, 0, 2);
            assert!(rig.execute(*q, with_capsule(small, 4096), &pattern(4096, 9)).0.status.is_success());
        }
        for (i, _) in queues.iter().enumerate() {
            let read = BlockRange::new(i as u64 * 1000 + 1, 199).sqe(IoOpcode::Read, 0, 1);
            let (cqe, got) = rig.execute(queues[3 - i], with_transport(read, 200 * 512), &[]);
            assert!(cqe.status.is_success() && got == pattern(200 * 512, i as u8));
        }
        let used = rig.servers.borrow().iter().filter(|s| s.borrow().memory.requests > 0).count();
        assert_eq!(used, CORES, "I/O queues are dealt to all cores");
        let info = rig.servers.borrow().iter().flat_map(|s| s.borrow().target.sessions()).collect::<Vec<_>>();
        assert_eq!((info.len(), info[0].io_queues, info[0].host_nqn.as_str()), (1, 4, HOST));
    }
}

#[test]
fn the_end_of_the_admin_connection_ends_the_queues_on_all_cores() {
    let mut rig = Rig::new(3);
    let (admin, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    let queues: Vec<usize> = (1..=4).map(|qid| rig.io_queue(cntlid, qid, Client::new(false, false, 0))).collect();
    rig.close(admin);
    for q in queues {
        assert!(rig.is_closed(q, Duration::from_secs(1)));
    }
    rig.world.run_for(Duration::from_secs(1));
    assert_eq!((rig.connections(), rig.controllers()), (0, 0));
}

#[test]
fn a_silent_host_is_let_go_and_its_queue_id_is_free_again() {
    let mut rig = Rig::new(4);
    let (admin, cntlid) = rig.admin(Client::new(false, false, 0), 2000);
    let q = rig.io_queue(cntlid, 1, Client::new(false, false, 0));
    for _ in 0..8 {
        rig.world.run_for(Duration::from_secs(1));
        assert!(rig.execute(admin, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
    }
    rig.close(q);
    rig.world.run_for(Duration::from_millis(100));
    let q = rig.io_queue(cntlid, 1, Client::new(false, false, 0));
    for _ in 0..8 {
        rig.world.run_for(Duration::from_secs(1));
        let flush = format::nvme::io::flush_sqe(0, 1);
        assert!(rig.execute(q, flush, &[]).0.status.is_success(), "traffic on an I/O queue keeps it alive");
    }
    assert!(rig.is_closed(admin, Duration::from_secs(6)) && rig.is_closed(q, Duration::from_secs(1)));
    assert_eq!(rig.controllers(), 0);
    assert_eq!(rig.servers.borrow().iter().map(|s| s.borrow().target.stats().keep_alive_expired).sum::<u64>(), 1);
}

#[test]
fn connects_that_are_wrong_are_refused_with_the_field_that_is_wrong() {
    let mut rig = Rig::new(5);
    let (_, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    let at = rig.open(rig.io, Client::new(false, false, 0));
    let invalid = |o: u64| (StatusCode::CONNECT_INVALID_PARAMETERS, o | 1 << 16);
    for (what, qid, id, nqn, host, expect) in [
        ("unknown subsystem", 0, 0, "nqn.2026-11.io.basalt:none", HOST, invalid(256)),
        ("not a name", 0, 0, "subsystem", HOST, invalid(256)),
        ("no host name", 0, 0, NQN, "host", invalid(512)),
        ("host not allowed", 0, 0, NQN, "nqn.2014-08.org.nvmexpress:uuid:other", (StatusCode::CONNECT_INVALID_HOST, 0)),
        ("unknown controller", 1, cntlid + 77, NQN, HOST, invalid(16)),
        ("another host's controller", 1, cntlid, NQN, "nqn.2014-08.org.nvmexpress:uuid:other", (StatusCode::CONNECT_INVALID_HOST, 0)),
        ("queue beyond what there are", 200, cntlid, NQN, HOST, (StatusCode::CONNECT_INVALID_PARAMETERS, 42)),
    ] {
        let cqe = rig.connect(at, qid, id, 0, nqn, host);
        assert_eq!((cqe.status.code, cqe.result), expect, "{what}");
    }
    assert!(rig.connect(at, 1, cntlid, 0, NQN, HOST).status.is_success(), "the connection is still good");
    let other = rig.open(rig.io, Client::new(false, false, 0));
    let cqe = rig.connect(other, 1, cntlid, 0, NQN, HOST);
    assert_eq!((cqe.status.code, cqe.status.dnr), (StatusCode::COMMAND_SEQUENCE_ERROR, false), "queue ID in use");
    let (cqe, _) = rig.execute(at, disconnect_sqe(0), &[]);
    assert!(cqe.status.is_success() && rig.is_closed(at, Duration::from_secs(1)));
    assert!(rig.connect(other, 1, cntlid, 0, NQN, HOST).status.is_success());
    let at = rig.open(rig.discovery, Client::new(false, false, 0));
    assert_eq!(rig.connect(at, 0, 0, 0, NQN, HOST).status.code, StatusCode::CONNECT_INVALID_PARAMETERS);
    assert!(rig.connect(at, 0, 0, 0, DISCOVERY_NQN, "nqn.2014-08.org.nvmexpress:uuid:other").status.is_success());
}

#[test]
fn a_new_volume_is_reported_by_an_event_and_a_lost_subsystem_ends_its_controllers() {
    let mut rig = Rig::new(6);
    let (admin, _) = rig.admin(Client::new(false, false, 0), 0);
    let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 };
    assert!(rig.execute(admin, set.sqe(0), &[]).0.status.is_success());
    rig.send(admin, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x7777), &[]));
    assert!(rig.try_next(admin, Duration::from_secs(1)).is_none());
    let mut new = view();
    new.generation = 2;
    new.volumes[0].as_mut().unwrap().bytes += 1 << 20;
    new.subsystems[0].namespaces.remove(&2);
    rig.apply(new.clone());
    let Pdu::Response(cqe) = rig.next(admin) else { panic!("an event") };
    assert_eq!((cqe.cid, AsyncEvent::parse(cqe.result as u32).log), (0x7777, 4));
    let get = GetLogPage { lid: 4, lsp: 0, rae: false, lsi: 0, numd: 1023, offset: 0, index: false, csi: 0, nsid: 0 };
    let (_, log) = rig.execute(admin, Sqe { sgl: Sgl::transport(4096), ..get.sqe(0) }, &[]);
    assert_eq!(format::nvme::identify::parse_namespace_list(&log), [1, 2]);
    new.generation = 3;
    new.subsystems[0].hosts.clear();
    rig.apply(new);
    assert!(rig.is_closed(admin, Duration::from_secs(1)));
    assert_eq!(rig.controllers(), 0);
}

#[test]
fn an_identifier_of_an_event_request_can_be_used_again_and_the_request_is_given_up() {
    let mut rig = Rig::new(16);
    let (admin, _) = rig.admin(Client::new(false, false, 0), 0);
    let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 };
    assert!(rig.execute(admin, set.sqe(0), &[]).0.status.is_success());
    rig.send(admin, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 5), &[]));
    assert!(rig.try_next(admin, Duration::from_secs(1)).is_none());
    for _ in 0..2 {
        rig.send(admin, |c| c.capsule(plain_sqe(AdminOpcode::KeepAlive, 5), &[]));
        let Pdu::Response(cqe) = rig.next(admin) else { panic!("an answer") };
        assert_eq!((cqe.cid, cqe.status.is_success()), (5, true));
    }
    let mut new = view();
    new.generation = 2;
    new.subsystems[0].namespaces.remove(&2);
    rig.apply(new);
    assert!(rig.try_next(admin, Duration::from_secs(1)).is_none(), "nobody waits for the event");
    assert!(!rig.is_closed(admin, Duration::from_secs(1)));
}

#[test]
fn a_host_without_a_name_may_connect_only_where_every_host_may() {
    let mut rig = Rig::new(17);
    let at = rig.open(rig.io, Client::new(false, false, 0));
    assert_eq!(rig.connect(at, 0, 0, 0, NQN, "").status.code, StatusCode::CONNECT_INVALID_HOST);
    let mut open = view();
    open.generation = 2;
    open.subsystems[0].allow_any_host = true;
    rig.apply(open);
    let at = rig.open(rig.io, Client::new(false, false, 0));
    assert!(rig.connect(at, 0, 0, 0, NQN, "").status.is_success());
}

#[test]
fn silent_and_half_finished_connections_are_closed_in_time() {
    let mut rig = Rig::new(7);
    let silent = rig.open(rig.io, Client::new(false, false, 0));
    let (half, _) = rig.admin(Client::new(false, false, 0), 0);
    rig.send(half, |c| c.capsule(plain_sqe(AdminOpcode::KeepAlive, 0), &[])[..40].to_vec());
    assert!(rig.is_closed(silent, Duration::from_secs(17)));
    assert!(rig.is_closed(half, Duration::from_secs(35)));
    rig.world.run_for(Duration::from_secs(1));
    assert_eq!(rig.connections(), 0);
}

#[test]
fn garbage_is_answered_with_a_termination_and_others_do_not_notice() {
    let mut rig = Rig::new(8);
    let (_, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    let q = rig.io_queue(cntlid, 1, Client::new(false, false, 0));
    let bad = rig.io_queue(cntlid, 2, Client::new(false, false, 0));
    rig.send(bad, |_| vec![0xFF; 100_000]);
    assert!(matches!(rig.next(bad), Pdu::Term(t, _) if t.fes == 1 && t.fei == 0));
    assert!(rig.is_closed(bad, Duration::from_secs(4)));
    assert!(rig.execute(q, format::nvme::io::flush_sqe(0, 1), &[]).0.status.is_success());
    assert!(rig.io_queue(cntlid, 2, Client::new(false, false, 0)) > 0, "its queue ID is free");
}

#[test]
fn associations_come_and_go_without_a_trace() {
    let mut rig = Rig::new(9);
    for n in 0..60 {
        let (admin, cntlid) = rig.admin(Client::new(n % 2 == 0, false, 0), 0);
        let q = rig.io_queue(cntlid, 1, Client::new(false, n % 2 == 0, 0));
        let write = BlockRange::new(0, 127).sqe(IoOpcode::Write, 1, 1);
        rig.send(q, |c| c.capsule(with_transport(write, 65536), &[]));
        if n % 3 == 0 {
            assert!(matches!(rig.next(q), Pdu::R2t(_)), "left open");
        }
        match n % 3 {
            0 => rig.close(admin),
            1 => rig.world.reset_connections(rig.client, rig.server),
            _ => {
                rig.close(q);
                rig.close(admin);
            }
        }
        rig.world.run_for(Duration::from_secs(3));
        assert_eq!((rig.connections(), rig.controllers()), (0, 0), "round {n}");
    }
    for (core, s) in rig.servers.borrow().iter().enumerate() {
        let rt = rig.world.rt(rig.server, core);
        let s = &mut s.borrow_mut().target;
        s.begin_shutdown(&rt);
        assert!(s.is_quiet());
    }
}

#[test]
fn a_shutdown_answers_what_runs_and_closes() {
    let mut rig = Rig::new(10);
    let (admin, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    let q = rig.io_queue(cntlid, 1, Client::new(false, false, 0));
    for core in 0..CORES {
        let rt = rig.world.rt(rig.server, core);
        rig.servers.borrow()[core].borrow_mut().target.begin_shutdown(&rt);
    }
    assert!(rig.is_closed(admin, Duration::from_secs(1)) && rig.is_closed(q, Duration::from_secs(1)));
    rig.world.run_for(Duration::from_millis(10));
    assert!(rig.servers.borrow().iter().all(|s| s.borrow().target.is_quiet()));
}
