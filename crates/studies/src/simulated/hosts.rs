//! Clients on hosts of their own, which reach the volumes of a node over NVMe/TCP or iSCSI, through its front ends.
//!
//! ```text
//! NVMe/TCP: a controller for each host (Connect ─► enable ─► ready ─► queues), an I/O queue for each volume
//! iSCSI:    a session for each volume
//! ```
//!
//! Invariants: every volume is used over one connection; an answer is seen when its bytes have come.
//! Never: fails over or connects again: nothing goes wrong in a model.

use super::front::{Clients, Door, Shared};
use crate::exports::{Transport, iqn, nqn};
use base::IoClass;
use format::nvme::admin::SetFeatures;
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use format::nvme::property::{self, Config};
use format::nvme::{Sqe, feature};
use format::scsi::capacity::{LbaRange, build_unmap};
use format::scsi::{BlockRange, Command};
use initiator::io::{Io, Namespace};
use initiator::iscsi::session::Payload as ScsiPayload;
use initiator::iscsi::{Command as Task, LoginOptions, Session};
use initiator::queue::{ClientQueue, Payload, QueueOptions, Request};
use lab::workload::generate::Operation;
use rt::{App, Buf, ConnId, Event, Progress, Queue, Rt, SendList};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Operations outstanding on a volume, at most.
pub const DEPTH_MAX: u32 = 128;
/// Bytes of a receive buffer.
const RECEIVE_BYTES: usize = 256 << 10;
/// Most bytes of one send.
const SEND_BYTES: usize = 256 << 10;
/// Bytes of a logical block.
const LBA_BYTES: u32 = 4096;
/// Commands in flight on the admin queue.
const ADMIN_DEPTH: u16 = 16;

/// Tags of commands that are no operations of the load.
const OWN: u64 = 1 << 63;
const CONNECT: u64 = OWN;
const ENABLE: u64 = OWN | 1;
const READY: u64 = OWN | 2;
const QUEUES: u64 = OWN | 3;

/// The only subsystem, or target.
pub const EXPORT: usize = 0;

/// What a host speaks, and with whom.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// Its number, and how many hosts there are: volumes are dealt to them in turn.
    pub host: (usize, usize),
    /// The protocol.
    pub transport: Transport,
    /// The node.
    pub addr: SocketAddr,
    /// Volumes in all.
    pub volumes: usize,
}

/// The machine of one connection.
enum Wire {
    Nvme { queue: Box<ClientQueue>, asked: bool },
    Iscsi(Box<Session>),
}

struct Link {
    conn: Option<ConnId>,
    wire: Wire,
    sending: bool,
    /// Operations can be sent.
    open: bool,
}

/// A host with its clients.
pub struct Host {
    options: HostOptions,
    clients: Clients,
    shared: Rc<RefCell<Shared>>,
    queue: Queue,
    links: Vec<Link>,
    cntlid: u16,
    begun: bool,
}

/// The links as the way to the volumes: that of a disk is the one with its place among the host's.
struct Links<'a> {
    links: &'a mut [Link],
    hosts: usize,
    /// Links before the first one of a volume.
    before: usize,
}

impl HostOptions {
    /// Links before the first one of a volume: the admin queue.
    fn before(&self) -> usize {
        usize::from(self.transport == Transport::NvmeTcp)
    }
    fn links(&self) -> usize {
        let (host, hosts) = self.host;
        (host..self.volumes).step_by(hosts).count() + self.before()
    }
}

/// There is no CHAP, so nothing has to be secret.
fn no_secrets(bytes: &mut [u8]) {
    bytes.fill(7);
}

impl Wire {
    fn new(options: &HostOptions, at: usize) -> Wire {
        let host = options.host.0;
        match options.transport {
            Transport::NvmeTcp => {
                let depth = if at == 0 { ADMIN_DEPTH } else { DEPTH_MAX as u16 };
                Wire::Nvme { queue: Box::new(ClientQueue::new(QueueOptions { depth, ..QueueOptions::default() })), asked: false }
            }
            Transport::Iscsi => {
                let login = LoginOptions {
                    host: format!("iqn.2026-11.io.basalt.lab:host-{host}"),
                    target: iqn(EXPORT),
                    isid: [0x80, 0, 0, host as u8, (at >> 8) as u8, at as u8],
                    header_digest: false,
                    data_digest: false,
                    chap: None,
                };
                Wire::Iscsi(Box::new(Session::new(login, DEPTH_MAX as usize, no_secrets)))
            }
        }
    }
    fn outgoing(&self) -> &[u8] {
        match self {
            Wire::Nvme { queue, .. } => queue.outgoing(),
            Wire::Iscsi(session) => session.outgoing(),
        }
    }
    fn sent(&mut self, n: usize) {
        match self {
            Wire::Nvme { queue, .. } => queue.sent(n),
            Wire::Iscsi(session) => session.sent(n),
        }
    }
    fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Wire::Nvme { queue, .. } => queue.receive(bytes).map_err(|e| e.to_string()),
            Wire::Iscsi(session) => session.receive(bytes).map_err(|e| e.to_string()),
        }
    }
}

impl Door for Links<'_> {
    fn submit(&mut self, _: &Rt, shared: &mut Shared, at: usize, disk: usize, op: &Operation) {
        let link = &mut self.links[self.before + disk / self.hosts];
        let (nsid, len) = (disk as u32 + 1, u64::from(op.bytes));
        let sent = match &mut link.wire {
            Wire::Nvme { queue, .. } => {
                let ns = Namespace {
                    nsid,
                    lba_bytes: LBA_BYTES,
                    blocks: 0,
                    transfer_bytes_max: op.bytes,
                    zeroes_after_trim: true,
                    zeroes_may_deallocate: true,
                };
                let io = match op.kind {
                    IoClass::Read => Io::Read { offset: op.offset, len: op.bytes },
                    IoClass::Write => Io::Write { offset: op.offset, data: shared.bytes(op.bytes), fua: false },
                    IoClass::Discard => Io::Deallocate(vec![(op.offset, len)]),
                };
                queue.submit(io.request(&ns, at as u64)).is_ok()
            }
            Wire::Iscsi(session) => {
                let blocks = (len / u64::from(LBA_BYTES)) as u32;
                let lba = op.offset / u64::from(LBA_BYTES);
                let range = BlockRange { lba, blocks, ..BlockRange::default() };
                let (command, payload) = match op.kind {
                    IoClass::Read => (Command::Read(range), ScsiPayload::In(vec![0; op.bytes as usize])),
                    IoClass::Write => (Command::Write(range), ScsiPayload::Out(shared.bytes(op.bytes))),
                    IoClass::Discard => {
                        let list = build_unmap(&[LbaRange { lba, blocks }]);
                        (Command::Unmap { list_length: list.len() as u16 }, ScsiPayload::Out(list))
                    }
                };
                session.submit(Task { tag: at as u64, lun: nsid.into(), cdb: command.to_cdb(), payload }).is_ok()
            }
        };
        if !sent {
            shared.wrong.get_or_insert_with(|| format!("volume {nsid}: its connection takes no more operations"));
        }
    }
}

impl Host {
    /// The program of a host.
    pub fn new(rt: &Rt, shared: Rc<RefCell<Shared>>, options: HostOptions) -> Host {
        let (host, hosts) = options.host;
        let clients = Clients::new(rt, Rc::clone(&shared), move |_, disk| disk % hosts == host);
        Host { options, clients, shared, queue: rt.queue(), links: Vec::new(), cntlid: CNTLID_DYNAMIC, begun: false }
    }

    fn open_link(&mut self, rt: &Rt) {
        let at = self.links.len();
        self.links.push(Link { conn: None, wire: Wire::new(&self.options, at), sending: false, open: false });
        rt.connect(&self.queue, at as u64, self.options.addr);
    }

    /// A link is open: the next one, or all are.
    fn opened(&mut self, rt: &Rt, at: usize) {
        self.links[at].open = true;
        if self.links.len() < self.options.links() {
            return self.open_link(rt);
        }
        self.shared.borrow_mut().hosts_ready += 1;
    }

    /// Takes the answers of a link: operations of the load that have ended, with what was wrong with them.
    fn answers(&mut self, rt: &Rt, at: usize) -> Vec<(usize, Option<String>)> {
        let (mut ended, mut opened) = (Vec::new(), false);
        let Host { options, links, cntlid, shared, .. } = self;
        let link = &mut links[at];
        match &mut link.wire {
            Wire::Nvme { queue, asked } => {
                if queue.greeting().is_some() && !*asked {
                    *asked = true;
                    let _ = queue.submit(connect_command(options, *cntlid, at));
                }
                while let Some(done) = queue.pop() {
                    let (tag, status) = (done.tag, done.cqe.status);
                    let problem = (!status.is_success()).then(|| format!("status {}", status.code));
                    if tag & OWN == 0 {
                        ended.push((tag as usize, problem));
                    } else if let Some(problem) = problem {
                        shared.borrow_mut().wrong.get_or_insert_with(|| format!("a host cannot connect: {problem}"));
                    } else if let Some((sqe, tag)) = next_step(options, cntlid, at, tag, done.cqe.result) {
                        let _ = queue.submit(Request { sqe, payload: Payload::None, tag });
                    } else {
                        opened = true;
                    }
                }
            }
            Wire::Iscsi(session) => {
                opened = session.is_open() && !link.open;
                while let Some(done) = session.pop() {
                    // A command that met a unit attention was not carried out.
                    if done.result.is_err_and(|f| f.is_unit_attention()) {
                        let _ = session.submit(done.command);
                        continue;
                    }
                    ended.push((done.command.tag as usize, done.result.err().map(|f| f.to_string())));
                }
            }
        }
        if opened {
            self.opened(rt, at);
        }
        ended
    }

    fn event(&mut self, rt: &Rt, at: usize, event: Event) -> Vec<(usize, Option<String>)> {
        match event {
            Event::Connected { result: Ok(conn) } => {
                self.links[at].conn = Some(conn);
                rt.recv(&self.queue, at as u64, conn, Buf::alloc(RECEIVE_BYTES));
            }
            Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                if let Err(problem) = self.links[at].wire.receive(&buf[..n]) {
                    self.shared.borrow_mut().wrong.get_or_insert(problem);
                    return Vec::new();
                }
                rt.recv(&self.queue, at as u64, conn, buf);
                return self.answers(rt, at);
            }
            Event::Sent { result: Ok(()), .. } => self.links[at].sending = false,
            event => {
                self.shared.borrow_mut().wrong.get_or_insert_with(|| format!("a host lost its connection: {event:?}"));
            }
        }
        Vec::new()
    }

    /// Sends what is to be sent.
    fn flush(&mut self, rt: &Rt) {
        for (at, link) in self.links.iter_mut().enumerate() {
            let (Some(conn), true) = (link.conn, !link.sending && !link.wire.outgoing().is_empty()) else { continue };
            let n = link.wire.outgoing().len().min(SEND_BYTES);
            let mut list = SendList::new();
            list.push_data(Buf::copy_of(&link.wire.outgoing()[..n]), 0..n);
            link.wire.sent(n);
            link.sending = true;
            rt.send(&self.queue, at as u64, conn, list);
        }
    }
}

/// Connect of a queue.
fn connect_command(options: &HostOptions, cntlid: u16, at: usize) -> Request {
    let host = options.host.0;
    let sqsize = if at == 0 { ADMIN_DEPTH } else { DEPTH_MAX as u16 };
    let connect = Connect { recfmt: 0, qid: at as u16, sqsize, cattr: 0, kato_ms: 0 };
    let name = format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-{host:012x}");
    let data = ConnectData::new([host as u8 + 1; 16], cntlid, &nqn(EXPORT), &name).to_bytes().to_vec();
    Request { sqe: connect.sqe(0), payload: Payload::Out(data), tag: CONNECT }
}

/// What follows the answer to a command that opens a queue; `None`: it is open.
fn next_step(options: &HostOptions, cntlid: &mut u16, at: usize, tag: u64, result: u64) -> Option<(Sqe, u64)> {
    let ready = || (PropertyAccess::get_sqe(0, property::CSTS, false), READY);
    match tag {
        CONNECT if at == 0 => {
            *cntlid = result as u16;
            let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
            Some((PropertyAccess::set_sqe(0, property::CC, false, cc.into()), ENABLE))
        }
        ENABLE => Some(ready()),
        READY if result & 1 == 0 => Some(ready()),
        READY => {
            // 0's based.
            let n = (options.links() - 2) as u16;
            Some((SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(n, n), nsid: 0 }.sqe(0), QUEUES))
        }
        _ => None,
    }
}

impl App for Host {
    fn poll(&mut self, rt: &Rt) -> Progress {
        if !core::mem::replace(&mut self.begun, true) {
            self.open_link(rt);
        }
        let mut ended = Vec::new();
        while let Some(done) = self.queue.pop() {
            ended.extend(self.event(rt, done.cookie as usize, done.event));
        }
        let shared = Rc::clone(&self.shared);
        let Host { options, clients, links, .. } = self;
        let mut door = Links { links, hosts: options.host.1, before: options.before() };
        let mut shared = shared.borrow_mut();
        for (at, problem) in ended {
            clients.ended(rt, &mut shared, &mut door, at, problem);
        }
        clients.go_on(rt, &mut shared, &mut door);
        drop(shared);
        self.flush(rt);
        Progress::Idle
    }
}
