//! A client over NVMe/TCP: a controller of its own, an admin queue and I/O queues.
//!
//! ```text
//! link 0: Connect ─► enable ─► ready ─► queues ─► events ─► Identify, each namespace     links 1..: Connect
//! ```

use super::{Link, Next, OWN, Speaks, Wire};
use crate::plan::ClientPlan;
use crate::rights::host_id;
use crate::workload::{Answer, Order, Reported, What, Workload};
use base::HostId;
use format::nvme::admin::{GetLogPage, Identify, SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use format::nvme::identify::{self, IdentifyNamespace};
use format::nvme::property::{self, Config};
use format::nvme::reservation::{Notification, Report, parse_extended_report};
use format::nvme::{AdminOpcode, Fuse, Sqe, feature, log};
use format::nvme_tcp::Digests;
use initiator::io::Io;
use initiator::queue::{ClientQueue, Completed, Payload, QueueOptions, Request};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

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

/// Commands in flight on the admin queue.
const ADMIN_DEPTH: u16 = 16;
/// Bytes that a Reservation Report asks for: room for 15 registrants.
const REPORT_BYTES: u32 = 1024;

type Links<'a> = &'a mut [Link<Queue>];

/// One queue.
pub(super) struct Queue {
    queue: ClientQueue,
    /// Connect was sent.
    asked: bool,
}

/// The order that a tag is of: each part of it has one.
const fn op_of(tag: u64) -> u64 {
    tag >> 1
}

impl Wire for Queue {
    fn outgoing(&self) -> &[u8] {
        self.queue.outgoing()
    }
    fn sent(&mut self, n: usize) {
        self.queue.sent(n);
    }
    fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.queue.receive(bytes).map_err(|e| e.to_string())
    }
    fn ops_in_flight(&self) -> Vec<u64> {
        self.queue.tags_in_flight().filter(|t| t & OWN == 0).map(op_of).collect()
    }
}

/// The commands of an order: two for Compare and Write.
fn requests(order: Order) -> Vec<Request> {
    let Order { op, ns, what, .. } = order;
    let tag = op << 1;
    let of = |(sqe, payload)| vec![Request { sqe, payload, tag }];
    match what {
        What::Io(io) => vec![io.request(&ns, tag)],
        What::Reserve(reservation) => of(reservation.request(ns.nsid)),
        What::Unit { .. } => unreachable!("not given to a client over NVMe/TCP"),
        What::Report => of((Report { numd: REPORT_BYTES / 4 - 1, eds: true }.sqe(0, ns.nsid), Payload::In(vec![0; REPORT_BYTES as usize]))),
        What::Swap { offset, expected, data } => {
            let compare = Io::Compare { offset, data: expected }.request(&ns, op << 1 | 1);
            let write = Io::Write { offset, data, fua: false }.request(&ns, tag);
            [(compare, Fuse::First), (write, Fuse::Second)].map(|(r, fuse)| Request { sqe: Sqe { fuse, ..r.sqe }, ..r }).into()
        }
    }
}

/// See the module.
pub(super) struct Host {
    id: usize,
    plan: ClientPlan,
    nqn: String,
    workload: Rc<RefCell<Workload>>,
    cntlid: u16,
    beat_at: u64,
    /// CIDs of commands in flight: link, CID, operation.
    cids: Vec<(usize, u16, u64)>,
    /// The command that an Abort under way names: another one may have its CID by the time the host looks.
    aborting: Option<(usize, u16)>,
    /// Namespaces that were asked for on these connections: which, and when.
    asked: Vec<(u32, u64)>,
    /// Numbers of the orders that ask for a report.
    reports: BTreeSet<u64>,
}

/// A report, if it can be read.
fn reported(bytes: &[u8]) -> Option<Reported> {
    let (head, entries) = parse_extended_report(bytes)?;
    let registrants = entries.iter().map(|e| (Some(HostId::from_bytes(e.hostid)), e.rkey, e.rcsts & 1 == 1)).collect();
    Some(Reported { generation: head.generation, rtype: head.rtype, ptpl: Some(head.ptpls == 1), registrants })
}

impl Host {
    pub(super) fn new(id: usize, plan: ClientPlan, nqn: String, workload: Rc<RefCell<Workload>>) -> Host {
        Host {
            id,
            plan,
            nqn,
            workload,
            cntlid: CNTLID_DYNAMIC,
            beat_at: 0,
            cids: Vec::new(),
            aborting: None,
            asked: Vec::new(),
            reports: BTreeSet::new(),
        }
    }

    fn own(links: Links<'_>, at: usize, sqe: Sqe, payload: Payload, tag: u64) {
        // A queue without room now has others to wait for; what is sent here is sent again later or not needed.
        let _ = links[at].wire.queue.submit(Request { sqe, payload, tag });
    }

    fn depth(&self, at: usize) -> u16 {
        if at == 0 { ADMIN_DEPTH } else { self.plan.depth.max(2) }
    }

    fn connect_command(&mut self, links: Links<'_>, at: usize) {
        let kato_ms = if at == 0 { self.plan.kato_ms } else { 0 };
        let connect = Connect { recfmt: 0, qid: at as u16, sqsize: self.depth(at), cattr: 0, kato_ms };
        let host = format!("nqn.2014-08.org.nvmexpress:uuid:client-{}", self.id);
        let data = ConnectData::new(*host_id(self.id).as_bytes(), self.cntlid, &self.nqn, &host).to_bytes().to_vec();
        Self::own(links, at, connect.sqe(0), Payload::Out(data), CONNECT);
    }

    /// What follows an answer to one of its own commands.
    fn own_answer(&mut self, links: Links<'_>, at: usize, done: Completed, now: u64) -> Next {
        let (tag, status, result) = (done.tag, done.cqe.status, done.cqe.result);
        if tag == ABORT {
            self.aborting = None;
        }
        if !status.is_success() {
            // The event request is ended when the controller goes; an abort may come too late; all else is tried again from the start.
            return if matches!(tag, EVENT | ABORT) { Next::Stay } else { Next::Drop };
        }
        match tag {
            CONNECT if at == 0 => {
                self.cntlid = result as u16;
                let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
                Self::own(links, 0, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), Payload::None, ENABLE);
            }
            ENABLE => Self::own(links, 0, PropertyAccess::get_sqe(0, property::CSTS, false), Payload::None, READY),
            READY if result & 1 == 0 => Self::own(links, 0, PropertyAccess::get_sqe(0, property::CSTS, false), Payload::None, READY),
            READY => {
                let n = self.plan.queues - 1;
                let sqe = SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(n, n), nsid: 0 }.sqe(0);
                Self::own(links, 0, sqe, Payload::None, QUEUES);
            }
            QUEUES => {
                let sqe = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: 1 << 8, nsid: 0 }.sqe(0);
                Self::own(links, 0, sqe, Payload::None, CONFIGURE);
            }
            CONFIGURE => {
                Self::own(links, 0, plain_sqe(AdminOpcode::AsyncEventRequest, 0), Payload::None, EVENT);
                return self.identify(links, 0, now);
            }
            EVENT => {
                // The log that the event names: of the namespaces that changed, or of what happened to reservations.
                let (lid, bytes, tag) = match (result >> 16) as u8 {
                    log::LID_RESERVATION => (log::LID_RESERVATION, Notification::LEN, NOTIFIED),
                    _ => (log::LID_CHANGED_NAMESPACES, log::CHANGED_NAMESPACES_BYTES, CHANGED),
                };
                let numd = bytes as u32 / 4 - 1;
                let page = GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd, offset: 0, index: false, csi: 0, nsid: u32::MAX };
                Self::own(links, 0, page.sqe(0), Payload::In(vec![0; bytes]), tag);
                Self::own(links, 0, plain_sqe(AdminOpcode::AsyncEventRequest, 0), Payload::None, EVENT);
            }
            CHANGED => return self.identify(links, 0, now),
            _ if tag & IDENTIFY == IDENTIFY => {
                let volume = (tag & 0xFFFF) as usize;
                let bytes = done.payload.into_bytes();
                let (nsid, since) = self.asked[((tag & !OWN) >> ASKED_SHIFT) as usize];
                let mut workload = self.workload.borrow_mut();
                match IdentifyNamespace::parse(&bytes) {
                    Some(id) => workload.identified(volume, nsid, id.nsze, id.lba_bytes(), since, now),
                    None => workload.fail("an Identify Namespace that cannot be read".into(), None),
                }
                drop(workload);
                return self.identify(links, volume + 1, now);
            }
            CONNECT => {
                links[at].wire.queue.set_in_capsule_bytes(self.plan.in_capsule_bytes);
                return Next::Opened;
            }
            _ => {}
        }
        Next::Stay
    }

    /// Asks for the next volume that is attached, from this one on; when there is none, goes on to connect.
    fn identify(&mut self, links: Links<'_>, volume: usize, now: u64) -> Next {
        let Some((volume, nsid)) = self.workload.borrow().attached_from(volume) else {
            return if links.len() == 1 { Next::Opened } else { Next::Stay };
        };
        let sqe = Identify { cns: identify::CNS_NAMESPACE, cntid: 0, nsid, csi: 0, cnssid: 0 }.sqe(0);
        let number = self.asked.len() as u64;
        self.asked.push((nsid, now));
        Self::own(links, 0, sqe, Payload::In(vec![0; 4096]), IDENTIFY | number << ASKED_SHIFT | volume as u64);
        Next::Stay
    }
}

impl Speaks for Host {
    type Wire = Queue;

    fn wire(&mut self, at: usize) -> Queue {
        if at == 0 {
            self.cntlid = CNTLID_DYNAMIC;
        }
        let digests = Digests { header: self.plan.digests.0, data: self.plan.digests.1 };
        let in_capsule_bytes = if at == 0 { 8192 } else { self.plan.in_capsule_bytes };
        // Connect carries its data in the capsule; it comes before the limit of the plan is in force.
        let options =
            QueueOptions { depth: self.depth(at), digests, in_capsule_bytes: in_capsule_bytes.max(1024), ..QueueOptions::default() };
        Queue { queue: ClientQueue::new(options), asked: false }
    }

    fn answers(&mut self, links: Links<'_>, at: usize, now: u64) -> Next {
        if links[at].wire.queue.greeting().is_some() && !links[at].wire.asked {
            links[at].wire.asked = true;
            self.connect_command(links, at);
        }
        let mut next = Next::Stay;
        while let Some(done) = links[at].wire.queue.pop() {
            if done.tag & OWN == 0 {
                // Each half of a pair has an identifier of its own, which is free as soon as it is answered.
                let ended = (at, done.cqe.cid);
                self.cids.retain(|(at, cid, _)| (*at, *cid) != ended);
                let (op, part, status) = (op_of(done.tag), (done.tag & 1) as usize, done.cqe.status);
                let data = done.payload.into_bytes();
                let report = self.reports.remove(&op).then(|| reported(&data)).flatten();
                self.workload.borrow_mut().done(Answer { report, ..Answer::new(op, part, status, data) }, now);
                continue;
            }
            match self.own_answer(links, at, done, now) {
                Next::Stay => {}
                Next::Drop => return Next::Drop,
                Next::Opened => next = Next::Opened,
            }
        }
        next
    }

    fn tick(&mut self, links: Links<'_>, now: u64) {
        if self.plan.kato_ms > 0 && self.beat_at <= now {
            self.beat_at = now + u64::from(self.plan.kato_ms) * 400_000;
            Self::own(links, 0, plain_sqe(AdminOpcode::KeepAlive, 0), Payload::None, KEEP_ALIVE);
        }
    }

    fn play(&mut self, links: Links<'_>, now: u64) {
        let workload = Rc::clone(&self.workload);
        let mut workload = workload.borrow_mut();
        for (at, link) in links.iter_mut().enumerate().skip(1) {
            let (depth, queue) = (usize::from(self.plan.depth), &mut link.wire.queue);
            while !workload.nothing_left() && queue.room() > 0 && queue.in_flight() < depth {
                let Some(order) = workload.next(self.id, queue.room(), now) else { continue };
                let op = order.op;
                if matches!(order.what, What::Report) {
                    self.reports.insert(op);
                }
                for request in requests(order) {
                    match queue.submit(request) {
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
            if links[0].wire.queue.submit(Request { sqe, payload: Payload::None, tag: ABORT }).is_ok() {
                self.aborting = Some((at, cid));
                workload.aborting(op);
            }
        }
    }

    fn forget(&mut self) {
        self.cids.clear();
        self.aborting = None;
        self.asked.clear();
        self.reports.clear();
    }
}
