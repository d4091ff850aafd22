//! A client host: an NVMe/TCP initiator on a simulated core, which connects, plays its part of the workload, and connects again.
//!
//! ```text
//! Down ──timer──► Opening(admin) ──► ready ──► Opening(1) ──► ... ──► Serving ──any fault──► Down
//! ```
//!
//! Invariants: what is in flight on a connection that is closed is given up at once; an event of an earlier attempt is dropped.
//! Never: decides what is right (the workload does).

use crate::plan::ClientPlan;
use crate::rights::host_id;
use crate::workload::{Workload, op_of};
use base::{Duration, Instant};
use format::nvme::admin::{GetLogPage, Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use format::nvme::identify::{self, IdentifyNamespace};
use format::nvme::property::{self, Config};
use format::nvme::reservation::Notification;
use format::nvme::{AdminOpcode, Sqe, feature, log};
use format::nvme_tcp::Digests;
use initiator::queue::{ClientQueue, Completed, Payload, QueueOptions, Request};
use rt::{App, Buf, ConnId, Event, Progress, Queue, Rt, SendList, TimerId};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// How often a client looks at its clocks.
const TICK: Duration = Duration::from_millis(100);
/// A command without an answer for so long is given up with its connections.
const TIMEOUT_NS: u64 = 30_000_000_000;
/// An attempt to connect that takes longer is given up.
const OPENING_MAX_NS: u64 = 8_000_000_000;
/// Bytes of a receive buffer.
const RECEIVE_BYTES: usize = 64 << 10;
/// Most bytes of one send.
const SEND_BYTES: usize = 256 << 10;

/// Tags of commands that are not the workload's.
const OWN: u64 = 1 << 63;
const CONNECT: u64 = OWN;
const ENABLE: u64 = OWN | 1;
const READY: u64 = OWN | 2;
const QUEUES: u64 = OWN | 3;
const KEEP_ALIVE: u64 = OWN | 4;
const EVENT: u64 = OWN | 5;
const ABORT: u64 = OWN | 6;
const CONFIGURE: u64 = OWN | 7;
const CHANGED: u64 = OWN | 8;
const NOTIFIED: u64 = OWN | 9;
const IDENTIFY: u64 = OWN | 1 << 16;
const ASKED_SHIFT: u32 = 20;

const COOKIE_TICK: u64 = 0xFF;

struct Link {
    conn: Option<ConnId>,
    queue: ClientQueue,
    /// Bytes that are being sent.
    sending: usize,
    /// Connect was sent.
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Down { until: u64 },
    Opening { since: u64 },
    Serving,
}

/// The state of one client host.
pub struct Client {
    id: usize,
    rt: Rt,
    queue: Queue,
    plan: ClientPlan,
    nqn: String,
    addr: SocketAddr,
    workload: Rc<RefCell<Workload>>,
    links: Vec<Link>,
    attempt: u64,
    phase: Phase,
    cntlid: u16,
    beat_at: u64,
    timer: Option<TimerId>,
    /// CIDs of commands in flight: link, CID, operation.
    cids: Vec<(usize, u16, u64)>,
    /// The command that an Abort under way names: another one may have its CID by the time the host looks.
    aborting: Option<(usize, u16)>,
    /// Namespaces that were asked for on these connections: which, and when.
    asked: Vec<(u32, u64)>,
}

/// The program of a client host.
pub struct ClientApp(pub Rc<RefCell<Client>>);

impl App for ClientApp {
    fn poll(&mut self, _rt: &Rt) -> Progress {
        self.0.borrow_mut().turn();
        Progress::Idle
    }
}

impl Client {
    /// A client that connects at once.
    pub fn new(id: usize, rt: &Rt, plan: ClientPlan, nqn: &str, addr: SocketAddr, workload: Rc<RefCell<Workload>>) -> Client {
        let mut client = Client {
            id,
            rt: rt.clone(),
            queue: rt.queue(),
            plan,
            nqn: nqn.to_owned(),
            addr,
            workload,
            links: Vec::new(),
            attempt: 0,
            phase: Phase::Down { until: 0 },
            cntlid: CNTLID_DYNAMIC,
            beat_at: 0,
            timer: None,
            cids: Vec::new(),
            aborting: None,
            asked: Vec::new(),
        };
        client.tick();
        client
    }

    fn now(&self) -> u64 {
        self.rt.now().0
    }
    /// Sets the one timer anew.
    fn tick(&mut self) {
        let pause = match self.phase {
            Phase::Down { until } => Duration::from_nanos(until.saturating_sub(self.now()).clamp(1000, TICK.as_nanos() as u64)),
            _ => TICK,
        };
        let next = self.rt.timer(&self.queue, COOKIE_TICK, Instant(self.now()) + pause);
        if let Some(old) = self.timer.replace(next) {
            self.rt.cancel_timer(old);
        }
    }
    /// Whether nothing of it is connected or in flight.
    pub fn is_quiet(&self) -> bool {
        self.links.iter().all(|l| l.queue.tags_in_flight().all(|t| t & OWN != 0))
    }
    /// Whether it can send commands.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Closes everything, gives up what is in flight, and comes back later.
    pub fn drop_links(&mut self) {
        let now = self.now();
        let links = core::mem::take(&mut self.links);
        let mut workload = self.workload.borrow_mut();
        for link in &links {
            workload.given_up(link.queue.tags_in_flight().filter(|t| t & OWN == 0).map(op_of), now);
            if let Some(conn) = link.conn {
                self.rt.close(conn);
            }
        }
        self.cids.clear();
        self.aborting = None;
        self.asked.clear();
        self.attempt += 1;
        let until = now + 100_000 + workload.below(4_000_000);
        drop(workload);
        self.phase = Phase::Down { until };
        self.tick();
    }

    /// Closes everything, and stays away.
    pub fn leave(&mut self) {
        self.drop_links();
        self.phase = Phase::Down { until: u64::MAX };
    }

    fn turn(&mut self) {
        while let Some(done) = self.queue.pop() {
            let (attempt, at) = (done.cookie >> 8, (done.cookie & 0xFF) as usize);
            if done.cookie == COOKIE_TICK {
                self.on_tick();
                continue;
            }
            if attempt != self.attempt || at >= self.links.len() {
                // A connection of an earlier attempt: one that came to be late is not wanted any more.
                if let Event::Connected { result: Ok(conn) } = done.event {
                    self.rt.close(conn);
                }
                continue;
            }
            match done.event {
                Event::Connected { result: Ok(conn) } => {
                    self.links[at].conn = Some(conn);
                    self.rt.recv(&self.queue, done.cookie, conn, Buf::alloc(RECEIVE_BYTES));
                }
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    if let Err(error) = self.links[at].queue.receive(&buf[..n]) {
                        let text = format!("client {}, link {at}: {error}", self.id);
                        self.workload.borrow_mut().fail(text, None);
                        return;
                    }
                    self.rt.recv(&self.queue, done.cookie, conn, buf);
                    if !self.take_answers(at) {
                        self.drop_links();
                    }
                }
                Event::Sent { result: Ok(()), .. } => {
                    self.links[at].sending = 0;
                }
                event => {
                    if self.phase == Phase::Serving {
                        self.workload.borrow_mut().lost_service(self.id, &format!("{event:?}"));
                    }
                    self.drop_links();
                }
            }
        }
        self.play();
        self.flush();
    }

    fn on_tick(&mut self) {
        let now = self.now();
        self.timer = None;
        match self.phase {
            Phase::Down { until } if until <= now => self.open_first(),
            Phase::Opening { since } if since + OPENING_MAX_NS < now => self.drop_links(),
            Phase::Serving => {
                let oldest = self.workload.borrow().oldest_of(self.id);
                if oldest.is_some_and(|sent| sent + TIMEOUT_NS < now) {
                    self.workload.borrow_mut().lost_service(self.id, "a command is not answered");
                    self.drop_links();
                } else if self.plan.kato_ms > 0 && self.beat_at <= now {
                    self.beat_at = now + u64::from(self.plan.kato_ms) * 400_000;
                    self.own(0, plain_sqe(AdminOpcode::KeepAlive, 0), Payload::None, KEEP_ALIVE);
                }
            }
            _ => {}
        }
        self.tick();
    }

    fn open_first(&mut self) {
        self.phase = Phase::Opening { since: self.now() };
        self.cntlid = CNTLID_DYNAMIC;
        self.open_link();
    }

    fn open_link(&mut self) {
        let at = self.links.len();
        let depth = if at == 0 { 16 } else { self.plan.depth.max(2) };
        let digests = Digests { header: self.plan.digests.0, data: self.plan.digests.1 };
        let in_capsule_bytes = if at == 0 { 8192 } else { self.plan.in_capsule_bytes };
        // Connect carries its data in the capsule; it comes before the limit of the plan is in force.
        let options = QueueOptions { depth, digests, in_capsule_bytes: in_capsule_bytes.max(1024), ..QueueOptions::default() };
        self.links.push(Link { conn: None, queue: ClientQueue::new(options), sending: 0, asked: false });
        self.rt.connect(&self.queue, self.attempt << 8 | at as u64, self.addr);
    }

    fn own(&mut self, at: usize, sqe: Sqe, payload: Payload, tag: u64) {
        // A queue without room now has others to wait for; what is sent here is sent again later or not needed.
        let _ = self.links[at].queue.submit(Request { sqe, payload, tag });
    }

    fn connect_command(&mut self, at: usize) {
        let depth = if at == 0 { 16 } else { self.plan.depth.max(2) };
        let connect = Connect { recfmt: 0, qid: at as u16, sqsize: depth, cattr: 0, kato_ms: if at == 0 { self.plan.kato_ms } else { 0 } };
        let host = format!("nqn.2014-08.org.nvmexpress:uuid:client-{}", self.id);
        let data = ConnectData::new(*host_id(self.id).as_bytes(), self.cntlid, &self.nqn, &host).to_bytes().to_vec();
        self.own(at, connect.sqe(0), Payload::Out(data), CONNECT);
    }

    /// Answers of a link; whether it may stay.
    fn take_answers(&mut self, at: usize) -> bool {
        if self.links[at].queue.greeting().is_some() && !self.links[at].asked {
            self.links[at].asked = true;
            self.connect_command(at);
        }
        while let Some(done) = self.links.get_mut(at).and_then(|l| l.queue.pop()) {
            if done.tag & OWN == 0 {
                // Each half of a pair has an identifier of its own, which is free as soon as it is answered.
                let ended = (at, done.cqe.cid);
                self.cids.retain(|(at, cid, _)| (*at, *cid) != ended);
                self.workload.borrow_mut().done(done, self.now());
            } else if !self.own_answer(at, done) {
                return false;
            }
        }
        true
    }

    /// What follows an answer to one of its own commands; whether the link may stay.
    fn own_answer(&mut self, at: usize, done: Completed) -> bool {
        let (tag, status, result) = (done.tag, done.cqe.status, done.cqe.result);
        if tag == ABORT {
            self.aborting = None;
        }
        if !status.is_success() {
            // The event request is ended when the controller goes; an abort may come too late; all else is tried again from the start.
            return matches!(tag, EVENT | ABORT);
        }
        match tag {
            CONNECT if at == 0 => {
                self.cntlid = result as u16;
                let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
                self.own(0, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), Payload::None, ENABLE);
            }
            ENABLE => self.own(0, PropertyAccess::get_sqe(0, property::CSTS, false), Payload::None, READY),
            READY if result & 1 == 0 => self.own(0, PropertyAccess::get_sqe(0, property::CSTS, false), Payload::None, READY),
            READY => {
                let n = self.plan.queues - 1;
                let sqe = SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(n, n), nsid: 0 }.sqe(0);
                self.own(0, sqe, Payload::None, QUEUES);
            }
            QUEUES => {
                let sqe = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: 1 << 8, nsid: 0 }.sqe(0);
                self.own(0, sqe, Payload::None, CONFIGURE);
            }
            CONFIGURE => {
                self.own(0, plain_sqe(AdminOpcode::AsyncEventRequest, 0), Payload::None, EVENT);
                self.identify(0);
            }
            EVENT => {
                // The log that the event names: of the namespaces that changed, or of what happened to reservations.
                let (lid, bytes, tag) = match (result >> 16) as u8 {
                    log::LID_RESERVATION => (log::LID_RESERVATION, Notification::LEN, NOTIFIED),
                    _ => (log::LID_CHANGED_NAMESPACES, log::CHANGED_NAMESPACES_BYTES, CHANGED),
                };
                let numd = bytes as u32 / 4 - 1;
                let page = GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd, offset: 0, index: false, csi: 0, nsid: u32::MAX };
                self.own(0, page.sqe(0), Payload::In(vec![0; bytes]), tag);
                self.own(0, plain_sqe(AdminOpcode::AsyncEventRequest, 0), Payload::None, EVENT);
            }
            CHANGED => self.identify(0),
            _ if tag & IDENTIFY == IDENTIFY => {
                let volume = (tag & 0xFFFF) as usize;
                let bytes = done.payload.into_bytes();
                let (nsid, since) = self.asked[((tag & !OWN) >> ASKED_SHIFT) as usize];
                let (mut workload, now) = (self.workload.borrow_mut(), self.now());
                match IdentifyNamespace::parse(&bytes) {
                    Some(id) => workload.identified(volume, nsid, id.nsze, id.lba_bytes(), since, now),
                    None => workload.fail("an Identify Namespace that cannot be read".into(), None),
                }
                drop(workload);
                self.identify(volume + 1);
            }
            CONNECT => {
                self.links[at].queue.set_in_capsule_bytes(self.plan.in_capsule_bytes);
                if at < usize::from(self.plan.queues) {
                    self.open_link();
                } else {
                    self.phase = Phase::Serving;
                    self.workload.borrow_mut().counts.connects += 1;
                }
            }
            _ => {}
        }
        true
    }

    /// Asks for the next volume that is attached, from this one on; when there is none, goes on to connect.
    fn identify(&mut self, volume: usize) {
        let workload = self.workload.borrow();
        let next = (volume..workload.volumes.len()).find_map(|at| Some((at, workload.nsid_of(at)?)));
        drop(workload);
        let Some((volume, nsid)) = next else {
            if self.links.len() == 1 {
                self.open_link();
            }
            return;
        };
        let sqe = Identify { cns: identify::CNS_NAMESPACE, cntid: 0, nsid, csi: 0, cnssid: 0 }.sqe(0);
        let number = self.asked.len() as u64;
        self.asked.push((nsid, self.now()));
        self.own(0, sqe, Payload::In(vec![0; 4096]), IDENTIFY | number << ASKED_SHIFT | volume as u64);
    }

    /// Fills the queues.
    fn play(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        let now = self.now();
        let workload = Rc::clone(&self.workload);
        let mut workload = workload.borrow_mut();
        for at in 1..self.links.len() {
            let depth = usize::from(self.plan.depth);
            while !workload.nothing_left() && self.links[at].queue.room() > 0 && self.links[at].queue.in_flight() < depth {
                let room = self.links[at].queue.room();
                for request in workload.next(self.id, room, now) {
                    let op = op_of(request.tag);
                    match self.links[at].queue.submit(request) {
                        Ok(cid) => {
                            self.cids.push((at, cid, op));
                            if self.aborting == Some((at, cid)) {
                                workload.aborting(op);
                            }
                        }
                        Err(request) => unreachable!("there is room for {request:?}"),
                    }
                }
            }
        }
        if self.aborting.is_none() && workload.ops_left > 0 && !self.cids.is_empty() && workload.draw_abort() && workload.below(4) == 0 {
            let (at, cid, op) = self.cids[workload.below(self.cids.len() as u64) as usize];
            let sqe = Sqe { cdw10: at as u32 | u32::from(cid) << 16, ..plain_sqe(AdminOpcode::Abort, 0) };
            if self.links[0].queue.submit(Request { sqe, payload: Payload::None, tag: ABORT }).is_ok() {
                self.aborting = Some((at, cid));
                workload.aborting(op);
            }
        }
    }

    /// Sends what is to be sent.
    fn flush(&mut self) {
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            let (Some(conn), true) = (link.conn, link.sending == 0 && !link.queue.outgoing().is_empty()) else { continue };
            let n = link.queue.outgoing().len().min(SEND_BYTES);
            let mut list = SendList::new();
            list.push_data(Buf::copy_of(&link.queue.outgoing()[..n]), 0..n);
            link.queue.sent(n);
            link.sending = n;
            self.rt.send(&self.queue, self.attempt << 8 | at as u64, conn, list);
        }
    }
}
