//! Bytes to the host: responses, data, R2Ts, termination requests.

use super::fusing::Fusing;
use super::slot::{CommandSlot, CommandStage, Identifier};
use super::{Cx, QueueKind, Session, SessionPhase};
use crate::health::ErrorLog;
use crate::limits::SEND_SEGMENTS_MAX;
use crate::stats::CommandClass;
use base::crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use format::nvme::log::{ErrorEntry, TRTYPE_TCP};
use format::nvme::{AdminOpcode, Cqe, Status, StatusCode};
use format::nvme_tcp::{CapsuleResp, DataPdu, Fault, HEADER_BYTES_MAX, PduType, R2t, TermReq};
use object::{Data, DataVec};
use rt::SendList;

/// Room that a list must have for the next PDU: a header with padding, digests and a response.
const HEADER_ROOM: usize = HEADER_BYTES_MAX + 64;
/// Empty lists that are kept.
const FREE_LISTS_MAX: usize = 4;

impl Session {
    /// The list that the next PDU goes into, with room for it.
    pub(super) fn list(&mut self) -> &mut SendList {
        if self.out.header_room() < HEADER_ROOM || self.out.segments() > SEND_SEGMENTS_MAX {
            let full = core::mem::replace(&mut self.out, self.free.pop().unwrap_or_default());
            self.backlog += full.len_bytes();
            self.ready.push_back(full);
        }
        &mut self.out
    }

    /// The next list to send, if there is something. Give it back with [`Session::sent`].
    pub fn take_send(&mut self) -> Option<SendList> {
        if let Some(list) = self.ready.pop_front() {
            return Some(list);
        }
        if self.out.is_empty() {
            return None;
        }
        let list = core::mem::replace(&mut self.out, self.free.pop().unwrap_or_default());
        self.backlog += list.len_bytes();
        Some(list)
    }

    /// Whether there is something to send.
    pub fn has_send(&self) -> bool {
        !self.out.is_empty() || !self.ready.is_empty()
    }

    /// A list was sent: its data buffers are free again, so commands that waited for buffers go on.
    pub fn sent(&mut self, cx: &mut Cx<'_>, mut list: SendList) {
        cx.stats.bytes_out += list.len_bytes() as u64;
        self.backlog -= list.len_bytes();
        let mut freed = 0;
        for buf in list.drain_data() {
            freed += buf.len() as u32;
        }
        list.clear();
        if self.free.len() < FREE_LISTS_MAX {
            self.free.push(list);
        }
        self.held = self.held.saturating_sub(if hooks::seeded(SeededFault::SentStaysHeld) { 0 } else { freed });
        self.throttled &= freed == 0;
        if self.phase != SessionPhase::Ended && !hooks::seeded(SeededFault::WaitingForgotten) {
            self.wake_waiting(cx);
        }
    }

    /// Frees the slot and what it holds but `kept` bytes, which the send list holds on.
    fn release(&mut self, at: u16, kept: u32) -> CommandSlot {
        let slot = self.slots.remove(usize::from(at));
        self.held -= slot.held - kept.min(slot.held);
        self.capsule_held -= slot.capsule;
        self.throttled &= slot.held == 0;
        slot
    }

    /// Answers a command without data. A retry delay is stated only to hosts that know of it (base 3.3.3.2.1, CRD).
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        let knows = status.crd != 0 && self.controller().is_some_and(|c| c.knows_retry_delays());
        let status = Status { crd: if knows { status.crd } else { 0 }, ..status };
        let slot = self.release(at, 0);
        self.account(cx, &slot, status);
        match slot.identifier {
            Identifier::Mine => {
                self.mark_cid(slot.sqe.cid, false);
                self.respond(cx, slot.sqe.cid, status, result);
            }
            Identifier::Another => self.respond(cx, slot.sqe.cid, status, result),
            Identifier::GivenUp => {}
            Identifier::Aborted => self.aborted -= 1,
        }
        if !self.waiting.is_empty() {
            self.wake_waiting(cx);
        }
        self.leave_if_last(cx);
    }

    pub(super) fn respond(&mut self, cx: &mut Cx<'_>, cid: u16, status: Status, result: u64) {
        if self.phase == SessionPhase::Ended {
            return;
        }
        let sqhd = self.advance_head();
        let mut bytes = [0; CapsuleResp::BYTES_MAX];
        let resp = CapsuleResp { cqe: Cqe { result, sqhd, sqid: 0, cid, status } };
        let n = resp.write(self.digests, &mut bytes);
        self.list().push_header(&bytes[..n]);
        cx.stats.pdus_out += 1;
    }

    /// A command was taken from the queue: the new head, or FFFFh without flow control (base 6.3).
    fn advance_head(&mut self) -> u16 {
        if !self.flow_control {
            return 0xFFFF;
        }
        self.sqhd = if self.sqhd + 1 >= self.entries { 0 } else { self.sqhd + 1 };
        self.sqhd
    }

    /// Answers a command with the data that it reads, sent from where it lies.
    pub(super) fn finish_read(&mut self, cx: &mut Cx<'_>, at: u16, data: DataVec) {
        let bytes: u32 = data.iter().map(|d| d.buf.len() as u32).sum();
        let held = self.slots[usize::from(at)].held;
        // What was not reserved (answers of the controller) counts from now on until it is sent.
        self.held += bytes.saturating_sub(held);
        let mut slot = self.release(at, bytes.min(held));
        slot.len = bytes;
        self.account(cx, &slot, Status::SUCCESS);
        self.mark_cid(slot.sqe.cid, false);
        if self.phase == SessionPhase::Ended {
            self.held = self.held.saturating_sub(bytes);
            return;
        }
        let success = !self.flow_control;
        let (mut offset, count) = (0, data.len());
        for (i, d) in data.into_iter().enumerate() {
            let last = i + 1 == count;
            let pdu = DataPdu { cccid: slot.sqe.cid, ttag: 0, offset, bytes: d.buf.len() as u32, last, success: last && success };
            offset += pdu.bytes;
            self.push_data(cx, pdu, d);
        }
        if !success {
            self.respond(cx, slot.sqe.cid, Status::SUCCESS, 0);
        }
        self.leave_if_last(cx);
    }

    fn push_data(&mut self, cx: &mut Cx<'_>, pdu: DataPdu, d: Data) {
        let (digests, hpda) = (self.digests, self.hpda);
        let mut head = [0; HEADER_BYTES_MAX];
        let n = pdu.write(PduType::C2hData, digests, hpda, &mut head);
        let sum = digests.data.then(|| {
            let whole = !d.crcs.is_empty() && d.crcs.len() * BLOCK_BYTES == d.buf.len();
            if whole { crate::digest::of_blocks(&d.crcs) } else { crc32c(&d.buf) }
        });
        let list = self.list();
        list.push_header(&head[..n]);
        let len = d.buf.len();
        list.push_data(d.buf, 0..len);
        if let Some(sum) = sum {
            list.push_header(&sum.to_le_bytes());
        }
        cx.stats.pdus_out += 1;
    }

    /// Asks for the data of a command, all at once.
    pub(super) fn request_data(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &self.slots[usize::from(at)];
        let r2t = R2t { cccid: slot.sqe.cid, ttag: at, offset: slot.filled, bytes: slot.len - slot.filled };
        let mut bytes = [0; R2t::BYTES_MAX];
        let n = r2t.write(self.digests, &mut bytes);
        self.list().push_header(&bytes[..n]);
        hooks::reached(CoverageMark::DataAskedFor);
        cx.stats.pdus_out += 1;
        cx.stats.r2ts += 1;
    }

    /// Ends the connection with the protocol's own error. Commands under way are forgotten; their answers come to nothing.
    pub(super) fn terminate(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        // The PDU header is what HLEN covers: no digest, no padding.
        let taken = self.common.map_or(self.head_len, |c| self.head_len.min(c.hlen.into()));
        let (bytes, n) = TermReq::bytes(PduType::C2hTermReq, fault, &self.head[..taken]);
        self.list().push_header(&bytes[..n]);
        cx.stats.pdus_out += 1;
        cx.stats.terminations[fault.fes as usize] += 1;
        self.end();
    }

    /// A Disconnect command (base 2.0, 6.4): nothing more is read, what runs is answered, what had not begun is aborted, and the answer to the
    /// Disconnect is the last.
    pub fn disconnect(&mut self, cx: &mut Cx<'_>, at: u16) {
        if self.leaving.is_some() {
            // One that came together with another: the first is answered last, and this one not carried out.
            return self.complete(cx, at, Status::retry(StatusCode::ABORTED_SQ_DELETION), 0);
        }
        self.draining = true;
        self.leaving = Some(at);
        self.waiting.clear();
        self.rx = super::Rx::Head;
        self.head_len = 0;
        self.common = None;
        let unbegun: Vec<usize> = self.slots.iter().filter(|(_, s)| s.stage != CommandStage::Running).map(|(at, _)| at).collect();
        for at in unbegun {
            self.finish(cx, at as u16, Status::retry(StatusCode::ABORTED_SQ_DELETION), 0);
        }
        self.leave_if_last(cx);
    }

    /// Answers the Disconnect command when it is the only one left.
    pub(super) fn leave_if_last(&mut self, cx: &mut Cx<'_>) {
        if self.running == 1
            && let Some(at) = self.leaving.take()
        {
            self.complete(cx, at, Status::SUCCESS, 0);
        }
    }

    /// Forgets parked commands without an answer: the controller was reset.
    pub fn forget_parked(&mut self) {
        let parked: Vec<usize> = self.slots.iter().filter(|(_, s)| s.stage == CommandStage::Parked).map(|(at, _)| at).collect();
        for at in parked {
            let slot = self.release(at as u16, 0);
            if slot.identifier == Identifier::Mine {
                self.mark_cid(slot.sqe.cid, false);
            }
        }
    }

    /// Forgets all that is under way.
    pub fn end(&mut self) {
        if self.running > 0 {
            hooks::reached(CoverageMark::ConnectionLostBusy);
        }
        self.leave_behind();
        self.phase = SessionPhase::Ended;
        self.waiting.clear();
        self.rx = super::Rx::Head;
        self.head_len = 0;
        self.common = None;
        self.running = 0;
        self.leaving = None;
        self.place = None;
        self.fusing = Fusing::No;
        self.aborted = 0;
        self.large = 0;
        for slot in self.slots.drain() {
            self.held -= slot.held;
            self.capsule_held -= slot.capsule;
        }
    }

    fn account(&mut self, cx: &mut Cx<'_>, slot: &CommandSlot, status: Status) {
        let class = cx.stats.class(slot.plan.class());
        class.commands += 1;
        if status.is_success() {
            class.bytes += u64::from(slot.len);
        } else {
            class.errors += 1;
        }
        class.latency.record(cx.now.since(slot.since).as_nanos() as u64);
        let bytes = u64::from(slot.len);
        match (&self.ledger, slot.plan.class()) {
            (Some(ledger), CommandClass::Read) if status.is_success() => ledger.read(bytes),
            (Some(ledger), CommandClass::Write) if status.is_success() => ledger.wrote(bytes),
            (Some(ledger), CommandClass::Deallocate) if base::hooks::seeded(base::hooks::SeededFault::TrimsHealth) => ledger.wrote(bytes),
            _ if ErrorLog::tells(status) => self.note_error(slot, status),
            _ => {}
        }
    }

    /// Tells the error log of the controller that a command failed.
    fn note_error(&self, slot: &CommandSlot, status: Status) {
        let (Some(c), sqid) = (self.controller(), if let QueueKind::Io(_, qid) = &self.kind { *qid } else { 0 }) else { return };
        if let (Some(ledger), true) = (&self.ledger, status.code.sct() == 2) {
            ledger.media_error();
        }
        let io = sqid != 0 && slot.sqe.opcode != AdminOpcode::Fabrics.byte();
        c.errors.note(ErrorEntry {
            sqid,
            cid: slot.sqe.cid,
            status: status.bits(),
            parameter: slot.blame.0,
            lba: if io { u64::from(slot.sqe.cdw10) | u64::from(slot.sqe.cdw11) << 32 } else { 0 },
            nsid: if slot.sqe.opcode == AdminOpcode::Fabrics.byte() { 0 } else { slot.sqe.nsid },
            trtype: TRTYPE_TCP,
            ..ErrorEntry::default()
        });
    }
}
