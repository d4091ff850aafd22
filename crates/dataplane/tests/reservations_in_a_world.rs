//! Reservations under I/O, on the real cores of a host in a simulated world: two hosts register, preempt each other and write, while the
//! test stands in for the control plane. Nothing that a preempted host wrote takes effect after the preempt was answered.

use base::{ClusterId, ComponentId, Duration, GroupId, ObjectId, Ownership, Security, Visibility, VolumeId};
use cluster::reservation::State;
use dataplane::*;
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use format::nvme::io::{BlockRange, CopyCommand, CopyRange};
use format::nvme::property::{self, Config};
use format::nvme::{Fuse, IoOpcode, Sqe, Status, StatusCode};
use frontend::{ControlRequestId, ControlVerb, Refused, Reply};
use initiator::queue::{ClientQueue, Completed, Payload, QueueOptions, Request};
use initiator::reservation::Reservation;
use initiator::rng::Rng;
use nvmf::{ListenerKind, ListenerSpec, NamespaceDesired, Options, SubsystemDesired, Target, TargetShared};
use rt::sim::{HostId, NetOptions, SimDeviceOptions, World};
use rt::{App, Buf, ConnId, Event, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

type CommandSender = dataplane::CommandSender<Target>;
type CoreSeed = dataplane::CoreSeed<Target>;
type Desired = dataplane::Desired<nvmf::Desired>;

const CORES: usize = 3;
const NQN: &str = "nqn.2026-11.io.basalt:test";
/// Blocks that everybody writes.
const BLOCKS: u64 = 8;
const BLOCK: usize = 4096;
const WRITE_EXCLUSIVE: u8 = 1;

/// One connection of a host.
struct Link {
    conn: Option<ConnId>,
    queue: ClientQueue,
    closed: bool,
}

#[derive(Clone)]
struct Peer {
    rt: Rt,
    queue: Queue,
    links: Rc<RefCell<Vec<Link>>>,
}
struct PeerApp(Rc<RefCell<Option<Peer>>>);

impl App for PeerApp {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let Some(p) = self.0.borrow().clone() else { return Progress::Idle };
        let mut links = p.links.borrow_mut();
        while let Some(done) = p.queue.pop() {
            let l = &mut links[done.cookie as usize];
            match done.event {
                Event::Connected { result: Ok(conn) } => {
                    l.conn = Some(conn);
                    rt.recv(&p.queue, done.cookie, conn, Buf::alloc(64 << 10));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    l.queue.receive(&buf[..n]).expect("the target speaks the protocol");
                    rt.recv(&p.queue, done.cookie, conn, buf);
                }
                Event::Sent { result: Ok(()), .. } => {}
                Event::Received { conn, .. } | Event::Sent { conn, .. } => {
                    l.closed = true;
                    rt.close(conn);
                }
                _ => l.closed = true,
            }
        }
        for (at, l) in links.iter_mut().enumerate() {
            let (Some(conn), false) = (l.conn, l.queue.outgoing().is_empty() || l.closed) else { continue };
            let bytes = l.queue.outgoing().to_vec();
            l.queue.sent(bytes.len());
            for part in bytes.chunks(256 << 10) {
                let mut list = SendList::new();
                list.push_data(Buf::copy_of(part), 0..part.len());
                rt.send(&p.queue, at as u64, conn, list);
            }
        }
        Progress::Idle
    }
}

/// What the control plane does next for a question of a host.
enum Step {
    Applying(Completion<()>, ControlRequestId, Result<Reply, Refused>),
    Answering(Completion<()>),
}

struct Lab {
    world: World,
    cache: Device,
    commands: CommandSender,
    events: mpsc::Receiver<DataPlaneEvent>,
    peer: Peer,
    addr: SocketAddr,
    desired: Desired,
    state: State,
    step: Option<Step>,
    tag: u64,
}

impl Lab {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.network(NetOptions::default());
        let devices = vec![world.device(32 << 20, SimDeviceOptions::default()), world.device(64 << 20, SimDeviceOptions::default())];
        let door = Rc::new(RefCell::new(None));
        let seeds: Rc<RefCell<Vec<Option<CoreSeed>>>> = Rc::default();
        let (put, of) = (Rc::clone(&door), Rc::clone(&seeds));
        let server = world.add_host(CORES, move |rt| {
            if rt.core() == 0 {
                let (commands, events, made) = core_seeds(CORES, Settings::default(), TargetShared::new(Options::default()));
                *put.borrow_mut() = Some((commands, events));
                *of.borrow_mut() = made.into_iter().map(Some).collect();
            }
            let seed = of.borrow_mut()[rt.core()].take();
            seed.expect("each core starts once").start(&rt)
        });
        let slot: Rc<RefCell<Option<Peer>>> = Rc::default();
        let mine = Rc::clone(&slot);
        let client = world.add_host(1, move |_| Box::new(PeerApp(Rc::clone(&mine))));
        for host in [server, client] {
            if !world.is_up(host) {
                world.start(host);
            }
        }
        world.run_for(Duration::from_millis(1));
        let (commands, events) = door.borrow_mut().take().expect("the host is up");
        let rt = world.rt(client, 0);
        let peer = Peer { queue: rt.queue(), rt, links: Rc::default() };
        *slot.borrow_mut() = Some(peer.clone());
        let addr = SocketAddr::new(world.addr(server), 4420);
        let cache = devices[0].clone();
        let mut lab =
            Lab { world, cache, commands, events, peer, addr, desired: Desired::default(), state: State::default(), step: None, tag: 0 };
        lab.provision(server, devices);
        lab
    }

    fn provision(&mut self, _server: HostId, devices: Vec<Device>) {
        let (cluster, group) = (ClusterId::from_bytes([1; 16]), GroupId::from_bytes([2; 16]));
        let spec = FormatSpec { cluster, group, name: "g0".into(), shards: 4, created_unix_s: 1, force: false };
        let (cache, capacity) = (devices[0].clone(), vec![devices[1].clone()]);
        self.command(|o| o.format_group(spec, cache, capacity));
        self.command(|o| o.open_group(Some(cluster), devices));
        let (id, object) = (ComponentId::from_bytes([9; 16]), ObjectId::from_bytes([9; 16]));
        let component = ComponentSpec { id, object, capacity_index: 0, bytes: 8 << 20, reserve_chunks: 0, descriptor: vec![] };
        let no = self.command(|o| o.create_component(group, component));
        let volume = VolumeDesired::plain(
            VolumeId::from_bytes([7; 16]),
            "v".into(),
            8 << 20,
            ObjectLayout { object, ownership: Ownership::FIRST, mirrors: vec![MirrorDesired::of_one(ComponentRef { id, group, no })] },
        );
        let subsystem = SubsystemDesired {
            nqn: NQN.into(),
            serial: "S1".into(),
            model: "Basalt".into(),
            allow_any_host: true,
            hosts: vec![],
            namespaces: BTreeMap::from([(1, NamespaceDesired { volume: volume.id, hosts: Visibility::All, ana: nvmf::Ana::default() })]),
            security: Security::Plain,
            manage_namespaces: false,
        };
        self.desired = Desired {
            generation: 1,
            volumes: vec![volume],
            held: Vec::new(),
            objects: Vec::new(),
            balancing: Balancing::default(),
            exports: nvmf::Desired { subsystems: vec![subsystem], ..nvmf::Desired::default() },
        };
        let desired = self.desired.clone();
        self.command(|o| o.apply(desired));
        let spec = ListenerSpec { addr: self.addr, kind: ListenerKind::Io, advertise: None, security: Security::Plain };
        self.command(|o| o.listen(spec));
    }

    fn command<T>(&mut self, command: impl FnOnce(&CommandSender) -> Completion<T>) -> T {
        let completion = command(&self.commands);
        let mut answer = None;
        self.world.run_until(Duration::from_secs(60), || {
            answer = answer.take().or_else(|| completion.try_take());
            answer.is_some()
        });
        answer.expect("a command is answered").expect("and done")
    }

    /// The volume has this limit of requests a second from now on.
    fn limit(&mut self, iops_max: Option<u64>) {
        self.desired.generation += 1;
        self.desired.volumes[0].limits.iops_max = iops_max;
        let desired = self.desired.clone();
        self.command(|o| o.apply(desired));
    }

    /// The control plane: one question at a time; decided, served by all cores, answered.
    fn control(&mut self) {
        self.step = match self.step.take() {
            Some(Step::Applying(completion, id, result)) => match completion.try_take() {
                Some(done) => {
                    done.expect("applied");
                    Some(Step::Answering(self.commands.answer(id, result)))
                }
                None => Some(Step::Applying(completion, id, result)),
            },
            Some(Step::Answering(completion)) => completion.try_take().is_none().then_some(Step::Answering(completion)),
            None => None,
        };
        if self.step.is_some() {
            return;
        }
        while let Ok(event) = self.events.try_recv() {
            let DataPlaneEvent::ControlRequest(request) = event else { continue };
            let ControlVerb::Reservation { volume, command } = &request.what else { panic!("{request:?}") };
            let result = self.state.execute(base::HostId::from_bytes(request.by.host_id), command);
            let reply = result.map(|o| Reply::reserved(*volume, o)).map_err(Refused::from);
            self.desired.generation += 1;
            self.desired.volumes[0].reservation = Some(Arc::new(self.state.clone()));
            self.step = Some(Step::Applying(self.commands.apply(self.desired.clone()), request.id, reply));
            return;
        }
    }

    /// Lets the world and the control plane go on until there is an answer on this link.
    fn next(&mut self, link: usize) -> Completed {
        for _ in 0..2_000_000 {
            self.control();
            if let Some(done) = self.peer.links.borrow_mut()[link].queue.pop() {
                return done;
            }
            self.world.run_for(Duration::from_micros(5));
        }
        panic!("no answer on link {link}");
    }
    fn submit(&mut self, link: usize, sqe: Sqe, payload: Payload) -> u64 {
        self.tag += 1;
        let request = Request { sqe, payload, tag: self.tag };
        self.peer.links.borrow_mut()[link].queue.submit(request).expect("room in the queue");
        self.peer.rt.wake(self.peer.rt.core());
        self.tag
    }
    /// One command; answers of others that come meanwhile go to `passed`.
    fn call(&mut self, link: usize, sqe: Sqe, payload: Payload, passed: &mut Vec<Completed>) -> Completed {
        let tag = self.submit(link, sqe, payload);
        loop {
            let done = self.next(link);
            if done.tag == tag {
                return done;
            }
            passed.push(done);
        }
    }
    fn open(&mut self, host: u8, qid: u16, cntlid: u16) -> (usize, u16) {
        let options = QueueOptions { in_capsule_bytes: 8192, ..QueueOptions::default() };
        let at = self.peer.links.borrow().len();
        self.peer.links.borrow_mut().push(Link { conn: None, queue: ClientQueue::new(options), closed: false });
        self.peer.rt.connect(&self.peer.queue, at as u64, self.addr);
        self.peer.rt.wake(self.peer.rt.core());
        let links = Rc::clone(&self.peer.links);
        assert!(self.world.run_until(Duration::from_secs(5), || links.borrow()[at].queue.greeting().is_some()));
        let connect = Connect { recfmt: 0, qid, sqsize: 31, cattr: 0, kato_ms: 0 }.sqe(0);
        let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:host-{host}");
        let data = ConnectData::new([host; 16], if qid == 0 { CNTLID_DYNAMIC } else { cntlid }, NQN, &nqn).to_bytes().to_vec();
        let done = self.call(at, connect, Payload::Out(data), &mut vec![]);
        assert!(done.cqe.status.is_success(), "{done:?}");
        // Half of the writes by R2T, so that some are judged long before their data is there.
        self.peer.links.borrow_mut()[at].queue.set_in_capsule_bytes(if qid % 2 == 1 { 0 } else { 8192 });
        (at, done.cqe.result as u16)
    }
    /// A host with an admin queue and three I/O queues; gives those.
    fn connect(&mut self, host: u8) -> [usize; 3] {
        let (admin, cntlid) = self.open(host, 0, 0);
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        let done = self.call(admin, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), Payload::None, &mut vec![]);
        assert!(done.cqe.status.is_success());
        [1, 2, 3].map(|qid| self.open(host, qid, cntlid).0)
    }
    fn reserve(&mut self, link: usize, what: Reservation, passed: &mut Vec<Completed>) -> Status {
        let (sqe, payload) = what.request(1);
        self.call(link, sqe, payload, passed).cqe.status
    }
    fn must(&mut self, link: usize, what: Reservation) {
        let status = self.reserve(link, what, &mut vec![]);
        assert!(status.is_success(), "{what:?}: {status:?}");
    }
    fn write(&mut self, link: usize, block: u64, stamp: u8) {
        self.submit(link, BlockRange::new(block, 0).sqe(IoOpcode::Write, 0, 1), Payload::Out(vec![stamp; BLOCK]));
    }
    /// The stamps of all blocks. Each block is of one stamp: writes of a block are atomic.
    fn stamps(&mut self, link: usize) -> Vec<u8> {
        let read = BlockRange::new(0, BLOCKS as u16 - 1).sqe(IoOpcode::Read, 0, 1);
        let done = self.call(link, read, Payload::In(vec![0; BLOCKS as usize * BLOCK]), &mut vec![]);
        assert!(done.cqe.status.is_success(), "{:?}", done.cqe);
        let bytes = done.payload.into_bytes();
        assert!(bytes.chunks(BLOCK).all(|b| b.iter().all(|x| *x == b[0])), "a torn block");
        bytes.chunks(BLOCK).map(|b| b[0]).collect()
    }
    /// Everything that is under way on a link comes to its end.
    fn drain(&mut self, link: usize) -> Vec<Completed> {
        let mut all = Vec::new();
        loop {
            while let Some(done) = self.peer.links.borrow_mut()[link].queue.pop() {
                all.push(done);
            }
            if self.in_flight(link) == 0 {
                return all;
            }
            all.push(self.next(link));
        }
    }
    fn in_flight(&self, link: usize) -> usize {
        self.peer.links.borrow()[link].queue.in_flight()
    }
}

/// Host 1 holds the volume and writes to a device that has stopped; host 2 preempts it.
fn preempt_under_a_write(connection_goes: bool) {
    let mut lab = Lab::new(1);
    let [first, second] = [lab.connect(1), lab.connect(2)];
    lab.must(first[0], Reservation::Register { key: 1, cptpl: 0 });
    lab.must(first[0], Reservation::Acquire { key: 1, rtype: WRITE_EXCLUSIVE });
    lab.must(second[0], Reservation::Register { key: 2, cptpl: 0 });
    lab.world.disk(&lab.cache).stall(Duration::from_millis(50));
    lab.write(first[1], 3, 77);
    lab.world.run_for(Duration::from_millis(5));
    if connection_goes {
        let conn = lab.peer.links.borrow()[first[1]].conn.expect("it is connected");
        lab.peer.rt.close(conn);
        lab.world.run_for(Duration::from_millis(5));
    }
    let (sqe, payload) = Reservation::Preempt { key: 2, other: 1, rtype: WRITE_EXCLUSIVE, abort: false }.request(1);
    lab.submit(second[0], sqe, payload);
    for _ in 0..2000 {
        lab.control();
        lab.world.run_for(Duration::from_micros(10));
    }
    assert!(lab.peer.links.borrow_mut()[second[0]].queue.pop().is_none(), "answered while the write is under way");
    let done = lab.next(second[0]);
    assert!(done.cqe.status.is_success(), "{:?}", done.cqe);
    assert_eq!(lab.stamps(second[0])[3], 77, "the write had begun, and has ended");
}

#[test]
fn a_preempt_is_answered_when_what_the_old_holder_has_under_way_has_ended() {
    preempt_under_a_write(false);
}

#[test]
fn a_preempt_waits_also_for_what_a_connection_that_is_gone_has_left_behind() {
    preempt_under_a_write(true);
}

/// Host 1 holds the volume and has writes under way, most of which the limit of the volume holds back for seconds; host 2 preempts it.
fn preempt_of_what_is_held_back(connection_goes: bool) {
    let mut lab = Lab::new(1);
    let [first, second] = [lab.connect(1), lab.connect(2)];
    lab.must(first[0], Reservation::Register { key: 1, cptpl: 0 });
    lab.must(first[0], Reservation::Acquire { key: 1, rtype: WRITE_EXCLUSIVE });
    lab.must(second[0], Reservation::Register { key: 2, cptpl: 0 });
    lab.limit(Some(10));
    for n in 0..18 {
        lab.write(first[1], n % BLOCKS, 77);
    }
    // A Copy, whose next step is held back, and a fused pair: each is refused in its own way.
    let range = CopyRange { slba: 8, nlb: 0 }.to_bytes().to_vec();
    lab.submit(first[1], CopyCommand { sdlba: 0, nr: 0, desfmt: 0, dtype: 0 }.sqe(0, 1), Payload::Out(range));
    let half = |op, fuse| Sqe { fuse, ..BlockRange::new(1, 0).sqe(op, 0, 1) };
    lab.submit(first[1], half(IoOpcode::Compare, Fuse::First), Payload::Out(vec![0; BLOCK]));
    let second_half = lab.submit(first[1], half(IoOpcode::Write, Fuse::Second), Payload::Out(vec![78; BLOCK]));
    lab.world.run_for(Duration::from_millis(5));
    let waiting = lab.in_flight(first[1]);
    let begun = std::iter::from_fn(|| lab.peer.links.borrow_mut()[first[1]].queue.pop()).count();
    assert!(begun >= 1 && waiting + begun >= 20, "{begun} were in the burst, {waiting} wait");
    if connection_goes {
        let conn = lab.peer.links.borrow()[first[1]].conn.expect("it is connected");
        lab.peer.rt.close(conn);
        lab.world.run_for(Duration::from_millis(5));
    }
    let asked = lab.peer.rt.now();
    lab.must(second[0], Reservation::Preempt { key: 2, other: 1, rtype: WRITE_EXCLUSIVE, abort: false });
    let took = lab.peer.rt.now().since(asked);
    assert!(took < Duration::from_millis(50), "it waited for what has not begun: {took:?}");
    if !connection_goes {
        let refused: Vec<(u64, Status)> = lab.drain(first[1]).iter().map(|d| (d.tag, d.cqe.status)).collect();
        let conflict = |(tag, s): &(u64, Status)| match *tag == second_half {
            true => s.code == StatusCode::ABORTED_FAILED_FUSED,
            false => *s == StatusCode::RESERVATION_CONFLICT.into(),
        };
        assert!(refused.len() >= 18 && refused.iter().all(conflict), "{refused:?}");
    }
    // What host 2 writes now stays, though the time of what was held back comes.
    lab.limit(None);
    for block in 0..BLOCKS {
        lab.write(second[1], block, 5);
    }
    assert!(lab.drain(second[1]).iter().all(|d| d.cqe.status.is_success()));
    lab.world.run_for(Duration::from_secs(3));
    assert_eq!(lab.stamps(second[0]), [5; BLOCKS as usize]);
}

#[test]
fn a_preempt_refuses_what_a_limit_holds_back_of_the_old_holder_and_does_not_wait_for_it() {
    preempt_of_what_is_held_back(false);
}

#[test]
fn what_a_limit_holds_back_of_a_connection_that_is_gone_never_begins() {
    preempt_of_what_is_held_back(true);
}

#[test]
fn what_a_limit_holds_back_of_a_namespace_that_its_host_may_not_see_any_more_is_refused() {
    let mut lab = Lab::new(1);
    let first = lab.connect(1);
    lab.limit(Some(10));
    for n in 0..19 {
        lab.write(first[1], n % BLOCKS, 77);
    }
    // A step of it waits, not the command.
    let ranges = CopyRange { slba: 0, nlb: 1 }.to_bytes();
    lab.submit(first[1], CopyCommand { sdlba: 4, nr: 0, desfmt: 0, dtype: 0 }.sqe(0, 1), Payload::Out(ranges.to_vec()));
    lab.world.run_for(Duration::from_millis(5));
    let begun = std::iter::from_fn(|| lab.peer.links.borrow_mut()[first[1]].queue.pop()).count();
    lab.desired.generation += 1;
    lab.desired.exports.subsystems[0].namespaces.get_mut(&1).expect("served").hosts = Visibility::Only(Default::default());
    let desired = lab.desired.clone();
    lab.command(|o| o.apply(desired));
    let refused: Vec<Status> = lab.drain(first[1]).iter().map(|d| d.cqe.status).collect();
    assert_eq!(refused.len() + begun, 20);
    assert!(refused.len() >= 17 && refused.iter().all(|s| *s == StatusCode::INVALID_FIELD.into()), "{refused:?}");
}

#[test]
fn nothing_that_began_before_a_volume_was_made_smaller_lies_behind_its_end_afterwards() {
    let mut lab = Lab::new(1);
    let first = lab.connect(1);
    let id = lab.desired.volumes[0].id;
    let (large, small) = (48 << 20, 4 << 20);
    let resize = |lab: &mut Lab, bytes: u64| {
        lab.desired.generation += 1;
        lab.desired.volumes[0].bytes = bytes;
        let desired = lab.desired.clone();
        lab.command(|o| o.apply(desired));
    };
    resize(&mut lab, large);
    // More pieces than are under way at once, on a device that has stopped: the last ones follow when the volume is small already.
    lab.world.disk(&lab.cache).stall(Duration::from_millis(20));
    let blocks = large / BLOCK as u64;
    lab.submit(first[0], BlockRange::new(0, (blocks - 1) as u16).sqe(IoOpcode::WriteUncorrectable, 0, 1), Payload::None);
    lab.world.run_for(Duration::from_millis(5));
    resize(&mut lab, small);
    lab.command(|o| o.free_behind(id, large));
    lab.drain(first[0]);
    resize(&mut lab, large);
    for block in (small / BLOCK as u64..blocks).step_by(64) {
        let read = BlockRange::new(block, 63).sqe(IoOpcode::Read, 0, 1);
        let done = lab.call(first[0], read, Payload::In(vec![1; 64 * BLOCK]), &mut vec![]);
        assert!(done.cqe.status.is_success(), "block {block}: {:?}", done.cqe);
        assert!(done.payload.into_bytes().iter().all(|b| *b == 0), "block {block}");
    }
}

/// What a run has met, so that the test is known to test something.
#[derive(Default)]
struct Met {
    conflicts: u64,
    aborted: u64,
    written: u64,
    in_flight_at_preempt: u64,
}

fn judge(met: &mut Met, done: &Completed) {
    match done.cqe.status.code {
        StatusCode::SUCCESS => met.written += 1,
        StatusCode::RESERVATION_CONFLICT => met.conflicts += 1,
        StatusCode::ABORTED_PREEMPT => met.aborted += 1,
        _ => panic!("{:?}", done.cqe),
    }
}

fn duel(seed: u64, met: &mut Met) {
    let mut rng = Rng::new(seed);
    let mut lab = Lab::new(seed);
    let hosts = [lab.connect(1), lab.connect(2)];
    let key = |h: usize, round: u64| (h as u64 + 1) * 1000 + round;
    lab.must(hosts[0][0], Reservation::Register { key: key(0, 0), cptpl: 0 });
    lab.must(hosts[0][0], Reservation::Acquire { key: key(0, 0), rtype: WRITE_EXCLUSIVE });
    let mut stamp = 0u8;
    for round in 1..=4u64 {
        let (holder, other) = ((round as usize - 1) % 2, round as usize % 2);
        let held_key = lab.state.registrants()[&base::HostId::from_bytes([holder as u8 + 1; 16])];
        lab.must(hosts[other][0], Reservation::Register { key: key(other, round), cptpl: 0 });
        // The holder writes on all its queues, some of it when the preempt is on its way.
        for _ in 0..rng.below(12) + 4 {
            stamp = stamp.wrapping_add(1);
            lab.write(hosts[holder][rng.below(3) as usize], rng.below(BLOCKS), stamp);
        }
        lab.world.run_for(Duration::from_micros(rng.below(300)));
        met.in_flight_at_preempt += hosts[holder].iter().map(|q| lab.in_flight(*q) as u64).sum::<u64>();
        let abort = rng.below(2) == 0;
        let preempt = Reservation::Preempt { key: key(other, round), other: held_key, rtype: WRITE_EXCLUSIVE, abort };
        let (sqe, payload) = preempt.request(1);
        let tag = lab.submit(hosts[other][0], sqe, payload);
        for _ in 0..rng.below(8) {
            lab.world.run_for(Duration::from_micros(rng.below(100)));
            lab.control();
            stamp = stamp.wrapping_add(1);
            lab.write(hosts[holder][rng.below(3) as usize], rng.below(BLOCKS), stamp);
        }
        let done = lab.next(hosts[other][0]);
        assert!(done.tag == tag && done.cqe.status.is_success(), "{:?}", done.cqe);
        let now = lab.stamps(hosts[other][1]);
        // From here on nothing of the old holder may take effect.
        let mut late = Vec::new();
        for _ in 0..rng.below(4) {
            stamp = stamp.wrapping_add(1);
            late.push(stamp);
            lab.write(hosts[holder][rng.below(3) as usize], rng.below(BLOCKS), stamp);
        }
        for q in hosts[holder] {
            lab.drain(q).iter().for_each(|done| judge(met, done));
        }
        let after = lab.stamps(hosts[other][1]);
        assert_eq!(now, after, "seed {seed}, round {round}: a write took effect after the preempt was answered");
        assert!(late.iter().all(|s| !after.contains(s)), "seed {seed}: a write that came after the preempt");
        stamp = stamp.wrapping_add(1);
        lab.write(hosts[other][2], 0, stamp);
        let done = lab.next(hosts[other][2]);
        assert!(done.cqe.status.is_success(), "the new holder writes: {:?}", done.cqe);
    }
}

#[test]
fn no_write_of_a_preempted_host_takes_effect_after_the_preempt_was_answered() {
    let mut met = Met::default();
    for seed in 0..24 {
        duel(seed, &mut met);
    }
    assert!(
        met.conflicts > 20 && met.written > 100 && met.in_flight_at_preempt > 50,
        "it tests nothing: {} {} {} {}",
        met.conflicts,
        met.written,
        met.aborted,
        met.in_flight_at_preempt
    );
    assert!(met.aborted > 0, "nothing was aborted");
}

#[cfg(feature = "hooks")]
#[test]
fn a_copy_that_is_not_judged_again_is_noticed() {
    let test = a_preempt_refuses_what_a_limit_holds_back_of_the_old_holder_and_does_not_wait_for_it;
    base::hooks::notices(base::hooks::SeededFault::CopyJudgedOnce, test);
}

#[test]
fn what_the_control_plane_does_not_take_is_answered_not_now_and_counted_as_lost() {
    let mut lab = Lab::new(1);
    let dropped = |lab: &mut Lab| lab.command(|o| o.stats()).cores.iter().map(|c| c.front.stats.audit_dropped).sum::<u64>();
    let first = lab.connect(1);
    lab.must(first[0], Reservation::Register { key: 1, cptpl: 0 });
    assert_eq!(dropped(&mut lab), 0);
    // Nobody listens any more; a queue that is full is the same to a core.
    let (_, nobody) = mpsc::channel();
    drop(std::mem::replace(&mut lab.events, nobody));
    for link in first {
        let status = lab.reserve(link, Reservation::Acquire { key: 1, rtype: WRITE_EXCLUSIVE }, &mut vec![]);
        assert_eq!((status.code, status.dnr), (StatusCode::NAMESPACE_NOT_READY, false));
    }
    lab.connect(2);
    assert!(dropped(&mut lab) > 0, "somebody has connected, and the audit log does not have it");
}

#[test]
fn a_shutdown_waits_for_a_command_that_the_control_plane_has_still_to_answer() {
    let mut lab = Lab::new(1);
    let [link, ..] = lab.connect(1);
    let (sqe, payload) = Reservation::Register { key: 1, cptpl: 0 }.request(1);
    lab.submit(link, sqe, payload);
    lab.world.run_for(Duration::from_millis(10));
    let shutdown = lab.commands.shutdown();
    lab.world.run_for(Duration::from_millis(200));
    assert!(shutdown.try_take().is_none(), "no volume has anything to do, and still a host waits");
    assert!(lab.next(link).cqe.status.is_success());
    assert!(lab.world.run_until(Duration::from_secs(5), || matches!(shutdown.try_take(), Some(Ok(())))));
}

#[test]
fn a_host_sees_the_space_that_all_mirrors_of_a_volume_take() {
    let mut lab = Lab::new(1);
    let group = GroupId::from_bytes([2; 16]);
    let (id, object) = (ComponentId::from_bytes([10; 16]), ObjectId::from_bytes([9; 16]));
    let second = ComponentSpec { id, object, capacity_index: 0, bytes: 8 << 20, reserve_chunks: 0, descriptor: vec![] };
    let no = lab.command(|o| o.create_component(group, second));
    lab.desired.generation += 1;
    lab.desired.volumes[0].object.mirrors.push(MirrorDesired::of_one(ComponentRef { id, group, no }));
    let desired = lab.desired.clone();
    lab.command(|o| o.apply(desired));
    let (admin, cntlid) = lab.open(1, 0, 0);
    let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
    lab.call(admin, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), Payload::None, &mut vec![]);
    let io = lab.open(1, 1, cntlid).0;
    let used = |lab: &mut Lab| {
        let identify = format::nvme::admin::Identify { cns: 0, cntid: 0, nsid: 1, csi: 0, cnssid: 0 };
        let done = lab.call(admin, identify.sqe(0), Payload::In(vec![0; 4096]), &mut vec![]);
        assert!(done.cqe.status.is_success(), "{:?}", done.cqe);
        u64::from_le_bytes(done.payload.into_bytes()[16..24].try_into().unwrap()) * BLOCK as u64
    };
    assert_eq!(used(&mut lab), 0);
    // A chunk on the first mirror, then two on the second.
    for (block, bytes) in [(0, 64 << 10), (256, 128 << 10), (256 + 16, 192 << 10)] {
        lab.write(io, block, 3);
        assert!(lab.drain(io).iter().all(|d| d.cqe.status.is_success()));
        lab.world.run_for(Duration::from_secs(8));
        assert_eq!(used(&mut lab), bytes, "after block {block}");
    }
}
