//! A client over iSCSI: sessions with one target, each of one connection.
//!
//! ```text
//! link 0: login ─► READ CAPACITY, each unit      links 1..: login
//! ```
//!
//! Invariant: a command that met a unit attention was not carried out, and is sent again.

use super::scsi::{command, reported, status_of};
use super::{Link, Next, OWN, Speaks, Wire};
use crate::plan::ClientPlan;
use crate::workload::{Answer, Workload};
use base::HostId;
use format::nvme::{Status, StatusCode};
use format::scsi::capacity::{CAPACITY16_BYTES, Capacity};
use format::scsi::{Command, ScsiStatus};
use initiator::iscsi::session::Payload;
use initiator::iscsi::{Command as Task, Completed, LoginOptions, ScsiFailure, Session};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Operation code.
const EXTENDED_COPY: u8 = 0x83;

type Links<'a> = &'a mut [Link<Nexus>];

/// One session.
pub(super) struct Nexus {
    session: Session,
    /// Commands that are to be sent again.
    again: VecDeque<Task>,
    /// The login was seen to be done.
    open: bool,
}

impl Wire for Nexus {
    fn outgoing(&self) -> &[u8] {
        self.session.outgoing()
    }
    fn sent(&mut self, n: usize) {
        self.session.sent(n);
    }
    fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.session.receive(bytes).map_err(|e| e.to_string())
    }
    fn ops_in_flight(&self) -> Vec<u64> {
        self.session.tags_in_flight().chain(self.again.iter().map(|t| t.tag)).filter(|t| t & OWN == 0).collect()
    }
}

/// See the module.
pub(super) struct Host {
    id: usize,
    plan: ClientPlan,
    target: String,
    workload: Rc<RefCell<Workload>>,
    /// The unit that is being asked for: the volume, its number, since when.
    asked: Option<(usize, u32, u64)>,
}

/// There is no CHAP here, so nothing has to be secret.
fn no_secrets(bytes: &mut [u8]) {
    bytes.fill(7);
}

impl Host {
    pub(super) fn new(id: usize, plan: ClientPlan, target: String, workload: Rc<RefCell<Workload>>) -> Host {
        Host { id, plan, target, workload, asked: None }
    }

    /// Asks for the next volume that is attached, from this one on; when there is none, the link is open.
    fn look(&mut self, links: Links<'_>, volume: usize, now: u64) -> Next {
        let Some((volume, lun)) = self.workload.borrow().attached_from(volume) else { return Next::Opened };
        self.asked = Some((volume, lun, now));
        let cdb = Command::ReadCapacity16 { allocation: CAPACITY16_BYTES as u32 }.to_cdb();
        let task = Task { tag: OWN, lun: lun.into(), cdb, payload: Payload::In(vec![0; CAPACITY16_BYTES]) };
        links[0].wire.again.push_back(task);
        Next::Stay
    }

    /// The answer to what it asked.
    fn looked(&mut self, links: Links<'_>, done: &Completed, now: u64) -> Next {
        let Some((volume, lun, since)) = self.asked.take() else { return Next::Stay };
        let Payload::In(data) = &done.command.payload else { return Next::Stay };
        let mut workload = self.workload.borrow_mut();
        match (done.result, Capacity::parse(data)) {
            (Ok(()), Some(c)) => workload.identified(volume, lun, c.last_lba + 1, Some(c.block_bytes), since, now),
            (Ok(()), None) => workload.fail("a READ CAPACITY that cannot be read".into(), None),
            (Err(f), _) => {
                let status = status_of(&f);
                // All but that there is none is tried again from the start.
                if status.code != StatusCode::INVALID_NAMESPACE_OR_FORMAT {
                    return Next::Drop;
                }
                workload.identified(volume, lun, 0, None, since, now);
            }
        }
        drop(workload);
        self.look(links, volume + 1, now)
    }

    fn send_again(nexus: &mut Nexus) {
        while let Some(task) = nexus.again.pop_front() {
            if let Err(task) = nexus.session.submit(task) {
                return nexus.again.push_front(task);
            }
        }
    }
}

impl Speaks for Host {
    type Wire = Nexus;

    fn wire(&mut self, at: usize) -> Nexus {
        let options = LoginOptions {
            host: host_name(self.id),
            target: self.target.clone(),
            isid: isid(self.id, at),
            header_digest: self.plan.digests.0,
            data_digest: self.plan.digests.1,
            chap: None,
        };
        Nexus { session: Session::new(options, self.plan.depth.into(), no_secrets), again: VecDeque::new(), open: false }
    }

    fn answers(&mut self, links: Links<'_>, at: usize, now: u64) -> Next {
        let mut next = Next::Stay;
        if links[at].wire.session.is_open() && !links[at].wire.open {
            links[at].wire.open = true;
            next = if at == 0 { self.look(links, 0, now) } else { Next::Opened };
        }
        while let Some(done) = links[at].wire.session.pop() {
            // A session does so many copies at once; the next one is to come again.
            let too_many = |f: ScsiFailure| f.status == ScsiStatus::Busy && done.command.cdb[0] == EXTENDED_COPY;
            if done.result.is_err_and(|f| f.is_unit_attention() || too_many(f)) {
                links[at].wire.again.push_back(done.command);
                continue;
            }
            if done.command.tag & OWN != 0 {
                match self.looked(links, &done, now) {
                    Next::Stay => {}
                    Next::Drop => return Next::Drop,
                    Next::Opened => next = Next::Opened,
                }
                continue;
            }
            let status = match done.result {
                Ok(()) => Status::SUCCESS,
                // As it asked.
                Err(f) if f.status == ScsiStatus::TaskAborted => Status::retry(StatusCode::ABORT_REQUESTED),
                Err(f) => status_of(&f),
            };
            let (op, cdb) = (done.command.tag, done.command.cdb);
            let data = if let Payload::In(mut data) = done.command.payload {
                data.truncate(done.bytes);
                data
            } else {
                Vec::new()
            };
            let report = reported(&cdb, &data);
            self.workload.borrow_mut().done(Answer { report, ..Answer::new(op, 0, status, data) }, now);
        }
        Self::send_again(&mut links[at].wire);
        next
    }

    fn tick(&mut self, _: Links<'_>, _: u64) {}

    fn play(&mut self, links: Links<'_>, now: u64) {
        let workload = Rc::clone(&self.workload);
        let mut workload = workload.borrow_mut();
        for nexus in links.iter_mut().map(|l| &mut l.wire) {
            Self::send_again(nexus);
            // What is one command here is two over NVMe/TCP: there is always room for it.
            while !workload.nothing_left() && nexus.session.room() > 0 && nexus.again.is_empty() {
                let Some(order) = workload.next(self.id, usize::MAX, now) else { continue };
                if nexus.session.submit(command(order)).is_err() {
                    unreachable!("there is room for it");
                }
            }
            if workload.ops_left > 0 && workload.draw_abort() && workload.below(4) == 0 {
                let ops: Vec<u64> = nexus.session.tags_in_flight().filter(|t| t & OWN == 0).collect();
                let op = ops.get(workload.below(ops.len().max(1) as u64) as usize);
                if let Some(op) = op.filter(|op| nexus.session.abort(**op)) {
                    workload.aborting(*op);
                }
            }
        }
    }

    fn forget(&mut self) {
        self.asked = None;
    }
}

/// The iSCSI name of a client's host.
fn host_name(client: usize) -> String {
    format!("iqn.2026-11.io.basalt.sim:client-{client}")
}
/// What its sessions call themselves.
const fn isid(client: usize, at: usize) -> [u8; 6] {
    [0x80, 0, 0, 0, client as u8, at as u8]
}
/// Whom reservations of its first session belong to.
pub(super) fn host_id(client: usize) -> HostId {
    iscsi::host_id_of(&host_name(client), isid(client, 0))
}
