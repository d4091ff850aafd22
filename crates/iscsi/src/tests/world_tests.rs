//! Whole targets: in a simulated world of two cores, a network that cuts bytes anywhere, and hosts that fall silent; and on real sockets.

use super::client::{Came, Client};
use super::memory::Memory;
use super::view;
use crate::limits::{LOGIN_TIME_MAX, SILENCE_MAX};
use crate::shared::Shared;
use crate::target::{Target, TargetMsg};
use crate::view::View;
use base::Duration;
use format::iscsi::{HostPdu, ManagementRequest, NO_TAG, NopOut, TargetPdu, TextRequest, management};
use frontend::{CommandClass, ControlVerb, HostCounters, Refused, Reply};
use rt::sim::{HostId, NetOptions, World};
use rt::{App, Buf, ConnId, Event, MeshEnd, Progress, Queue, Rt, SendList, UringOptions, launch};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

const CORES: usize = 2;

struct Server {
    target: Target,
    memory: Memory,
    mesh: MeshEnd<TargetMsg>,
}

impl Server {
    fn poll(&mut self, rt: &Rt) -> bool {
        let mut busy = false;
        while let Some(msg) = self.mesh.recv() {
            busy = true;
            self.target.on_msg(rt, msg);
        }
        busy |= self.target.poll(rt, &mut self.memory);
        while let Some((to, msg)) = self.target.pop_msg() {
            self.mesh.send(rt, to, msg).expect("room");
        }
        self.mesh.flush_wakes(rt);
        busy
    }
}

struct ServerApp(Rc<RefCell<Server>>);

impl App for ServerApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        if self.0.borrow_mut().poll(rt) { Progress::Busy } else { Progress::Idle }
    }
}

#[derive(Default)]
pub(super) struct Wire {
    pub(super) conn: Option<ConnId>,
    client: Client,
    pub(super) came: Vec<Came>,
    out: Vec<u8>,
    pub(super) closed: bool,
}

#[derive(Clone)]
pub(super) struct Peer {
    pub(super) rt: Rt,
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
                    w.came.extend(w.client.take(&buf[..n]));
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
            let mut list = SendList::new();
            let out = core::mem::take(&mut w.out);
            list.push_data(Buf::copy_of(&out), 0..out.len());
            rt.send(&p.queue, at as u64, conn, list);
        }
        Progress::Idle
    }
}

pub(super) struct Rig {
    pub(super) world: World,
    server: HostId,
    servers: Rc<RefCell<Vec<Rc<RefCell<Server>>>>>,
    pub(super) peer: Peer,
    addr: SocketAddr,
    /// Who asked the control plane last.
    asked_by: Option<(String, base::HostId)>,
}

impl Rig {
    pub(super) fn new(seed: u64) -> Rig {
        let mut world = World::new(seed);
        world.network(NetOptions::default());
        let servers: Rc<RefCell<Vec<Rc<RefCell<Server>>>>> = Rc::default();
        let (shared, made) = (Arc::new(Shared::default()), Rc::clone(&servers));
        let ends = RefCell::new(rt::mesh(CORES, 1024).into_iter());
        let server = world.add_host(CORES, move |rt| {
            let mesh = ends.borrow_mut().next().expect("started once");
            let mut target = Target::new(&rt, Arc::clone(&shared));
            target.apply(&rt, Arc::new(view()));
            let s = Rc::new(RefCell::new(Server { target, memory: Memory::default(), mesh }));
            made.borrow_mut().push(Rc::clone(&s));
            Box::new(ServerApp(s))
        });
        let peer: Rc<RefCell<Option<Peer>>> = Rc::default();
        let mine = Rc::clone(&peer);
        let client = world.add_host(1, move |_| Box::new(PeerApp(Rc::clone(&mine))));
        world.run_for(Duration::from_millis(1));
        let rt = world.rt(client, 0);
        let of_client = Peer { queue: rt.queue(), rt, wires: Rc::default() };
        *peer.borrow_mut() = Some(of_client.clone());
        let at = SocketAddr::new(world.addr(server), 3260);
        let addr = servers.borrow()[0].borrow_mut().target.listen(&world.rt(server, 0), at.into()).unwrap();
        Rig { world, server, servers, peer: of_client, addr, asked_by: None }
    }
    pub(super) fn connect(&mut self) -> usize {
        let at = self.peer.wires.borrow().len();
        self.peer.wires.borrow_mut().push(Wire::default());
        self.peer.rt.connect(&self.peer.queue, at as u64, self.addr);
        at
    }
    pub(super) fn send(&mut self, at: usize, make: impl FnOnce(&mut Client) -> Vec<u8>) {
        {
            let w = &mut self.peer.wires.borrow_mut()[at];
            let bytes = make(&mut w.client);
            w.out.extend(bytes);
        }
        self.peer.rt.wake(self.peer.rt.core());
    }
    pub(super) fn next(&mut self, at: usize) -> Came {
        let p = self.peer.clone();
        let got = |p: &Peer| !p.wires.borrow()[at].came.is_empty();
        assert!(self.world.run_until(Duration::from_secs(5), || got(&p)), "an answer in time");
        p.wires.borrow_mut()[at].came.remove(0)
    }
    /// Who asked the control plane last: name and identity.
    pub(super) fn asked_by(&self) -> Option<(String, base::HostId)> {
        self.asked_by.clone()
    }
    /// Whether something has come that was not looked at.
    pub(super) fn has_come(&self, at: usize) -> bool {
        !self.peer.wires.borrow()[at].came.is_empty()
    }
    /// The host's end of a connection goes away.
    pub(super) fn hang_up(&mut self, at: usize) {
        let conn = self.peer.wires.borrow()[at].conn.expect("it is connected");
        self.peer.rt.close(conn);
        self.world.run_for(Duration::from_millis(50));
    }
    /// All cores serve another picture.
    pub(super) fn serve(&mut self, view: &View) {
        let served = Arc::new(view.clone());
        for core in 0..CORES {
            let rt = self.world.rt(self.server, core);
            self.servers.borrow()[core].borrow_mut().target.apply(&rt, Arc::clone(&served));
        }
    }
    fn log_in(&mut self) -> usize {
        let at = self.connect();
        self.send(at, |c| c.login("InitialR2T=No\0"));
        let (TargetPdu::Login(l), _) = self.next(at) else { panic!("a login response") };
        assert_eq!(l.status, 0);
        at
    }
    pub(super) fn closes_within(&mut self, at: usize, limit: Duration) -> bool {
        let p = self.peer.clone();
        self.world.run_until(limit, || p.wires.borrow()[at].closed)
    }
    /// The control plane carries out what all cores ask of it, and has it served; `refused`: it refuses all instead. How much that was.
    pub(super) fn control(&mut self, view: &mut View, refused: Option<Refused>) -> usize {
        self.world.run_for(Duration::from_millis(50));
        let mut done = 0;
        loop {
            let next = |core: usize| self.servers.borrow()[core].borrow_mut().target.pop_control_request();
            let Some(request) = (0..CORES).find_map(next) else { return done };
            done += 1;
            self.asked_by = Some((request.by.host.clone(), base::HostId::from_bytes(request.by.host_id)));
            let ControlVerb::Reservation { volume, command } = request.what else { panic!("{request:?}") };
            let result = refused.map_or_else(
                || {
                    let v = view.volumes.iter_mut().flatten().find(|v| v.id == volume).expect("a volume");
                    let mut state = v.reservation.as_deref().cloned().unwrap_or_default();
                    let outcome = state.execute(base::HostId::from_bytes(request.by.host_id), &command)?;
                    state.name_ports(&request.by.ports);
                    v.volume.reservation = Some(Arc::new(state));
                    Ok(Reply::reserved(volume, outcome))
                },
                Err,
            );
            let served = Arc::new(view.clone());
            for core in 0..CORES {
                let rt = self.world.rt(self.server, core);
                if refused.is_none() {
                    self.servers.borrow()[core].borrow_mut().target.apply(&rt, Arc::clone(&served));
                }
                if core == request.id.core {
                    self.servers.borrow()[core].borrow_mut().target.on_answer(&rt, request.id, result.clone());
                }
                rt.wake(core);
            }
            self.world.run_for(Duration::from_millis(50));
        }
    }
    /// Whether volumes answer, on all cores.
    pub(super) fn hold(&mut self, hold: bool) {
        for core in 0..CORES {
            self.servers.borrow()[core].borrow_mut().memory.hold = hold;
            self.world.rt(self.server, core).wake(core);
        }
        self.world.run_for(Duration::from_millis(50));
    }
    /// Volumes answer requests in their order, on all cores.
    pub(super) fn in_order(&mut self) {
        self.servers.borrow().iter().for_each(|s| s.borrow_mut().memory.in_order = true);
    }
    /// The sessions of all cores: connections and commands under way.
    pub(super) fn sessions(&self) -> Vec<(usize, usize)> {
        let of = |s: &Rc<RefCell<Server>>| s.borrow().target.figures().sessions;
        self.servers.borrow().iter().flat_map(of).map(|s| (s.connections, s.running)).collect()
    }
    pub(super) fn is_quiet(&self) -> bool {
        self.servers.borrow().iter().all(|s| s.borrow().target.is_quiet())
    }
}

/// A write of 300 KiB and a read of it, as bytes to send and what to expect.
const BLOCKS: u16 = 600;

fn cdb10(opcode: u8) -> [u8; 10] {
    let [hi, lo] = BLOCKS.to_be_bytes();
    [opcode, 0, 0, 0, 7, 0xF0, 0, hi, lo, 0]
}

#[test]
fn what_a_host_writes_it_reads_again_over_a_network_that_cuts_bytes_anywhere() {
    for seed in 0..8 {
        let mut rig = Rig::new(seed);
        let at = rig.log_in();
        let data: Vec<u8> = (0..usize::from(BLOCKS) * 512).map(|n| (n / 3) as u8).collect();
        rig.send(at, |c| c.write(0, &cdb10(0x2A), data.len() as u32, &data[..8192], true));
        loop {
            match rig.next(at) {
                (TargetPdu::ReadyToTransfer(r2t), _) => rig.send(at, |c| c.answer(&r2t, &data, 30_000)),
                (TargetPdu::Response(r), _) => break assert_eq!(r.status, 0),
                other => panic!("{other:?}"),
            }
        }
        rig.send(at, |c| c.read(0, &cdb10(0x28), data.len() as u32));
        let mut got = Vec::new();
        loop {
            let (TargetPdu::DataIn(d), bytes) = rig.next(at) else { panic!("data") };
            got.extend(bytes);
            if d.has_status {
                break;
            }
        }
        assert_eq!(got, data);
    }
}

#[test]
fn what_a_host_does_is_counted_with_it_as_long_as_it_is_there_and_after() {
    let mut rig = Rig::new(9);
    let at = rig.log_in();
    let bytes = u32::from(BLOCKS) * 512;
    // All cores: sessions, commands under way, then commands, errors and bytes of a class.
    let counted = |rig: &Rig, class: CommandClass| {
        let mut all = HostCounters::default();
        for server in rig.servers.borrow().iter() {
            let hosts = server.borrow().target.figures().stats.hosts;
            assert!(hosts.apart.iter().all(|host| host.name == super::HOST) && hosts.others.queues == 0, "{hosts:?}");
            hosts.apart.iter().for_each(|host| all.merge(host));
        }
        let one = &all.classes[class as usize];
        assert_eq!(one.latency.count(), one.commands);
        ((all.queues, all.running), (one.commands, one.errors, one.bytes))
    };
    let ends = |rig: &mut Rig| loop {
        match rig.next(at) {
            (TargetPdu::Response(_), _) => break,
            (TargetPdu::DataIn(d), _) if d.has_status => break,
            (TargetPdu::ReadyToTransfer(r2t), _) => rig.send(at, |c| c.answer(&r2t, &vec![7; bytes as usize], 30_000)),
            _ => {}
        }
    };
    rig.send(at, |c| c.write(0, &cdb10(0x2A), bytes, &vec![7; 8192], true));
    ends(&mut rig);
    rig.hold(true);
    rig.send(at, |c| c.read(0, &cdb10(0x28), bytes));
    rig.world.run_for(Duration::from_millis(20));
    assert_eq!(counted(&rig, CommandClass::Read), ((1, 1), (0, 0, 0)), "it is under way");
    rig.hold(false);
    ends(&mut rig);
    // SYNCHRONIZE CACHE, and a read of what is not there, which is refused before it begins.
    rig.send(at, |c| c.read(0, &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0));
    ends(&mut rig);
    rig.send(at, |c| c.read(77, &cdb10(0x28), bytes));
    ends(&mut rig);
    let all = u64::from(bytes);
    assert_eq!(counted(&rig, CommandClass::Write), ((1, 0), (1, 0, all)));
    assert_eq!(counted(&rig, CommandClass::Read).1, (1, 0, all));
    assert_eq!(counted(&rig, CommandClass::Flush).1, (1, 0, 0));
    assert_eq!(counted(&rig, CommandClass::Admin).1, (1, 1, 0));
    // The same host begins anew, then is silent until it is gone.
    rig.log_in();
    rig.world.run_for(Duration::from_millis(50));
    assert_eq!(counted(&rig, CommandClass::Write), ((1, 0), (1, 0, all)));
    rig.world.run_for(SILENCE_MAX * 2);
    assert_eq!(counted(&rig, CommandClass::Write), ((0, 0), (1, 0, all)));
}

#[test]
fn discovery_names_the_target_and_where_it_is() {
    let mut rig = Rig::new(1);
    let at = rig.connect();
    rig.send(at, |c| c.login_as(super::HOST, "SessionType=Discovery\0"));
    rig.next(at);
    let text = TextRequest { last: true, transfer_tag: NO_TAG, ..Default::default() };
    rig.send(at, |c| c.wire(HostPdu::Text(text), true, b"SendTargets=All\0"));
    let (_, data) = rig.next(at);
    let want = format!("TargetName={}\0TargetAddress={},1\0", super::TARGET, rig.addr);
    assert_eq!(String::from_utf8(data).unwrap(), want);
}

#[test]
fn a_session_that_begins_anew_takes_the_place_of_the_old_one_on_another_core() {
    let mut rig = Rig::new(2);
    let old = rig.log_in();
    let new = rig.log_in();
    assert!(rig.closes_within(old, Duration::from_secs(1)));
    rig.send(new, |c| c.wire(HostPdu::NopOut(NopOut { tag: 5, ..Default::default() }), true, &[]));
    assert!(matches!(rig.next(new), (TargetPdu::NopIn(_), _)));
}

#[test]
fn who_does_not_log_in_and_who_falls_silent_is_closed_in_time() {
    let mut rig = Rig::new(3);
    let (mute, silent) = (rig.connect(), rig.log_in());
    let second = Duration::from_secs(1);
    assert!(!rig.closes_within(mute, LOGIN_TIME_MAX - second) && rig.closes_within(mute, second * 2));
    let (TargetPdu::NopIn(ping), _) = rig.peer.wires.borrow_mut()[silent].came.remove(0) else { panic!("it is asked") };
    assert_ne!(ping.transfer_tag, NO_TAG);
    assert!(rig.closes_within(silent, SILENCE_MAX));
    rig.world.run_for(second);
    assert!(rig.is_quiet(), "nothing is left");
}

#[test]
fn an_end_of_the_daemon_answers_what_runs() {
    let mut rig = Rig::new(4);
    let at = rig.log_in();
    rig.send(at, |c| c.read(0, &cdb10(0x28), 600 * 512));
    rig.next(at);
    for core in 0..CORES {
        let rt = rig.world.rt(rig.server, core);
        rig.servers.borrow()[core].borrow_mut().target.begin_shutdown(&rt);
        rt.wake(core);
    }
    assert!(rig.closes_within(at, Duration::from_secs(1)));
    rig.world.run_for(Duration::from_secs(1));
    assert!(rig.is_quiet());
    let came = &rig.peer.wires.borrow()[at].came;
    assert!(matches!(came[..], [.., (TargetPdu::DataIn(d), _), (TargetPdu::Async(a), _)] if d.has_status && a.event == 3), "{came:?}");
}

#[test]
fn a_reset_of_a_unit_ends_what_other_sessions_have_under_way_before_it_is_answered() {
    let mut rig = Rig::new(5);
    let by = rig.log_in();
    let other = rig.connect();
    rig.send(other, |c| {
        let mut login = c.login("");
        login[13] = 9; // another ISID: another session of the host, on the other core
        login
    });
    rig.next(other);
    rig.hold(true);
    rig.send(other, |c| c.read(0, &cdb10(0x28), 600 * 512));
    rig.world.run_for(Duration::from_millis(50));
    let reset = ManagementRequest { function: management::LOGICAL_UNIT_RESET, tag: 9, ..Default::default() };
    rig.send(by, |c| c.wire(HostPdu::Management(reset), true, &[]));
    rig.world.run_for(Duration::from_millis(50));
    assert!(rig.peer.wires.borrow()[by].came.is_empty(), "a command is with its volume");
    rig.hold(false);
    assert!(matches!(rig.next(by), (TargetPdu::Management(m), _) if m.response == 0 && m.tag == 9));
    rig.send(other, |c| c.read(0, &[0; 6], 0));
    let (TargetPdu::Response(r), sense) = rig.next(other) else { panic!("the read is not answered, the next command is") };
    assert_eq!((r.tag, r.status), (1, 2));
    assert_eq!(format::scsi::Sense::parse(&sense[2..]).unwrap().code, format::scsi::SenseCode::LOGICAL_UNIT_RESET);
}

#[test]
fn a_change_of_rights_is_settled_when_what_it_forbids_has_ended_also_of_sessions_that_are_gone() {
    use cluster::reservation::{Command, ReservationType, State};
    let mut rig = Rig::new(6);
    let at = rig.log_in();
    let settled = |rig: &Rig, volume, revision| {
        (0..CORES).all(|core| rig.servers.borrow()[core].borrow().target.is_settled(object::VolumeRef(volume), revision))
    };
    let apply = |rig: &Rig, revision: u64| {
        let (mut view, other) = (super::view(), base::HostId::from_bytes([7; 16]));
        let mut state = State::default();
        state.execute(other, &Command::Register { nrkey: 1, ptpl: None }).unwrap();
        state.execute(other, &Command::Acquire { crkey: 1, rtype: ReservationType::WriteExclusive }).unwrap();
        let volume = view.volumes[0].as_mut().unwrap();
        (volume.volume.reservation, volume.revision) = (Some(Arc::new(state)), revision);
        let view = Arc::new(view);
        for core in 0..CORES {
            rig.servers.borrow()[core].borrow_mut().target.apply(&rig.world.rt(rig.server, core), Arc::clone(&view));
        }
    };
    rig.hold(true);
    for lun in [0, 1] {
        rig.send(at, |c| {
            c.write(lun, &[0x2A, 0, 0, 0, 0, 0, 0, 0, 1, 0], if lun == 0 { 512 } else { 4096 }, &vec![1; 512 << (3 * lun)], true)
        });
    }
    rig.send(at, |c| c.read(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512));
    rig.world.run_for(Duration::from_millis(50));
    assert!(settled(&rig, 0, 0) && !settled(&rig, 0, 1), "that view is not served yet");
    apply(&rig, 1);
    assert!(!settled(&rig, 0, 1) && settled(&rig, 1, 0), "a write that is forbidden now is with its volume; others do not count");
    rig.hold(false);
    assert!(settled(&rig, 0, 1) && !settled(&rig, 0, 2));

    // A session that goes while its request is with the volume.
    rig.hold(true);
    rig.send(at, |c| c.read(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512));
    rig.world.run_for(Duration::from_millis(50));
    rig.send(at, |c| c.wire(HostPdu::Logout(format::iscsi::LogoutRequest::default()), true, &[]));
    assert!(rig.closes_within(at, Duration::from_secs(1)));
    apply(&rig, 2);
    assert!(!settled(&rig, 0, 2));
    rig.hold(false);
    assert!(settled(&rig, 0, 2));
}

/// A target on one real core.
struct Real {
    server: Server,
    stop: Arc<AtomicBool>,
}

impl App for Real {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let busy = self.server.poll(rt);
        match (self.stop.load(Ordering::Relaxed), busy) {
            (true, _) => Progress::Stop,
            (_, true) => Progress::Busy,
            _ => Progress::Idle,
        }
    }
}

fn next(stream: &mut TcpStream, client: &mut Client, came: &mut Vec<Came>) -> Came {
    let mut buf = vec![0; 64 << 10];
    while came.is_empty() {
        let n = stream.read(&mut buf).unwrap();
        assert!(n > 0, "it was closed");
        came.extend(client.take(&buf[..n]));
    }
    came.remove(0)
}

#[test]
fn a_host_on_a_real_socket_is_served() {
    let (stop, (say, said)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let (stopped, say) = (Arc::clone(&stop), Mutex::new(say));
    let opts = UringOptions { cores: 1, ..UringOptions::default() };
    let running = launch(opts, move |rt| {
        let mesh = rt::mesh(1, 16).into_iter().next().expect("one core");
        let mut target = Target::new(&rt, Arc::new(Shared::default()));
        target.apply(&rt, Arc::new(view()));
        let at = target.listen(&rt, SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        say.lock().unwrap().send(at).unwrap();
        Box::new(Real { server: Server { target, memory: Memory::default(), mesh }, stop: Arc::clone(&stopped) })
    })
    .unwrap();
    let mut stream = TcpStream::connect(said.recv().unwrap()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let (mut client, mut came) = (Client::default(), Vec::new());
    stream.write_all(&client.login("HeaderDigest=CRC32C\0DataDigest=CRC32C\0")).unwrap();
    assert!(matches!(next(&mut stream, &mut client, &mut came), (TargetPdu::Login(l), _) if l.status == 0));
    client.digests = true;
    let data: Vec<u8> = (0..usize::from(BLOCKS) * 512).map(|n| (n / 5) as u8).collect();
    let wire = client.write(1, &[0x2A, 0, 0, 0, 0, 1, 0, 0, 75, 0], data.len() as u32, &[], true);
    stream.write_all(&wire).unwrap();
    let (TargetPdu::ReadyToTransfer(r2t), _) = next(&mut stream, &mut client, &mut came) else { panic!("an R2T") };
    stream.write_all(&client.answer(&r2t, &data, 65_536)).unwrap();
    let mut asked = r2t.offset + r2t.bytes;
    loop {
        match next(&mut stream, &mut client, &mut came) {
            (TargetPdu::ReadyToTransfer(r2t), _) => {
                asked = r2t.offset + r2t.bytes;
                stream.write_all(&client.answer(&r2t, &data, 65_536)).unwrap();
            }
            (TargetPdu::Response(r), _) => break assert_eq!((r.status, asked as usize), (0, data.len())),
            other => panic!("{other:?}"),
        }
    }
    let wire = client.read(1, &[0x28, 0, 0, 0, 0, 1, 0, 0, 75, 0], data.len() as u32);
    stream.write_all(&wire).unwrap();
    let mut all = Vec::new();
    while all.len() < data.len() {
        let (TargetPdu::DataIn(_), bytes) = next(&mut stream, &mut client, &mut came) else { panic!("data") };
        all.extend(bytes);
    }
    assert_eq!(all, data);
    stop.store(true, Ordering::Relaxed);
    drop(stream);
    running.join().unwrap();
}
