//! Bytes to the host: responses, data, R2Ts, termination requests.

use super::phase::PhaseStep;
use super::slot::{CommandSlot, CommandStage, Identifier, Turn};
use super::{Cx, Session};
use crate::health::ErrorLog;
use base::crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use format::nvme::log::{ErrorEntry, TRTYPE_TCP};
use format::nvme::{AdminOpcode, Cqe, Status, StatusCode};
use format::nvme_tcp::{CapsuleResp, DataPdu, Digests, Fault, HEADER_BYTES_MAX, PduType, R2t, TermReq};
use frontend::{CommandClass, HostPlace};
use object::{Data, DataVec};
use rt::SendList;

/// What has not begun when its queue is left.
pub(super) const DELETED: Status = Status::retry(StatusCode::ABORTED_SQ_DELETION);

impl Session {
    /// The next list to send, if there is something. Give it back with [`Session::sent`].
    pub fn take_send(&mut self) -> Option<SendList> {
        self.outgoing.take()
    }

    /// Whether there is something to send.
    pub fn has_send(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// A list was sent: its data buffers are free again, so commands that waited for buffers go on.
    pub fn sent(&mut self, cx: &mut Cx<'_>, mut list: SendList) {
        cx.stats.bytes_out += list.len_bytes() as u64;
        self.outgoing.sent(list.len_bytes());
        let mut freed = 0;
        for buf in list.drain_data() {
            freed += buf.len() as u32;
        }
        self.outgoing.keep(list);
        self.memory.sent(freed);
        if self.slots.anybody_waits() && !self.phase.is_ended() && !hooks::seeded(SeededFault::WaitingForgotten) {
            self.wake_waiting(cx);
        }
    }

    /// Frees the slot and what it holds but `kept` bytes, which the send list holds on.
    fn release(&mut self, at: u16, kept: u32) -> CommandSlot {
        let slot = self.slots.remove(at);
        self.memory.release(slot.held, slot.capsule, kept);
        slot
    }

    /// Answers a command without data. A retry delay is stated only to hosts that know of it (base 3.3.3.2.1, CRD).
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        let knows = status.crd != 0 && self.controller().is_some_and(|c| c.knows_retry_delays());
        let status = Status { crd: if knows { status.crd } else { 0 }, ..status };
        if self.memory.has_limited() {
            self.end_turn(at);
        }
        let slot = self.release(at, 0);
        self.account(cx, &slot, status);
        match slot.identifier {
            Identifier::Mine => self.free_cid(slot.sqe.cid),
            Identifier::Another | Identifier::GivenUp => {}
            Identifier::Aborted => self.slots.early_is_gone(),
        }
        if matches!(slot.identifier, Identifier::Mine | Identifier::Another) {
            self.respond(cx, slot.sqe.cid, status, result);
        }
        if self.slots.anybody_waits() {
            self.wake_waiting(cx);
        }
        self.leave_if_last(cx);
    }

    pub(super) fn respond(&mut self, cx: &mut Cx<'_>, cid: u16, status: Status, result: u64) {
        let Some(link) = self.phase.open_link_mut() else { return };
        let (head, digests) = (link.ring.advance(), link.digests());
        self.push_response(cx, cid, status, result, (head, digests));
    }

    /// A response that tells this head of the queue.
    fn push_response(&mut self, cx: &mut Cx<'_>, cid: u16, status: Status, result: u64, (sqhd, digests): (u16, Digests)) {
        let mut bytes = [0; CapsuleResp::BYTES_MAX];
        let resp = CapsuleResp { cqe: Cqe { result, sqhd, sqid: 0, cid, status } };
        let n = resp.write(digests, &mut bytes);
        self.outgoing.list().push_header(&bytes[..n]);
        cx.stats.pdus_out += 1;
    }

    /// Answers a command with the data that it reads, sent from where it lies.
    pub(super) fn finish_read(&mut self, cx: &mut Cx<'_>, at: u16, data: DataVec) {
        let bytes: u32 = data.iter().map(|d| d.buf.len() as u32).sum();
        let held = self.slots[usize::from(at)].held;
        // What was not reserved (answers of the controller) counts from now on until it is sent.
        self.memory.take(bytes.saturating_sub(held));
        let mut slot = self.release(at, bytes.min(held));
        slot.len = bytes;
        self.account(cx, &slot, Status::SUCCESS);
        let Some(link) = self.phase.answered(slot.sqe.cid) else { return self.memory.give_up(bytes) };
        // Without flow control, no response tells the head.
        let (success, head, digests, hpda) = (!link.ring.flow_control(), link.ring.advance(), link.digests(), link.hpda());
        let (mut offset, count) = (0, data.len());
        for (i, d) in data.into_iter().enumerate() {
            let last = i + 1 == count;
            let pdu = DataPdu { cccid: slot.sqe.cid, ttag: 0, offset, bytes: d.buf.len() as u32, last, success: last && success };
            offset += pdu.bytes;
            self.push_data(cx, pdu, d, (digests, hpda));
        }
        if !success {
            self.push_response(cx, slot.sqe.cid, Status::SUCCESS, 0, (head, digests));
        }
        self.leave_if_last(cx);
    }

    fn push_data(&mut self, cx: &mut Cx<'_>, pdu: DataPdu, d: Data, (digests, hpda): (Digests, u8)) {
        let mut head = [0; HEADER_BYTES_MAX];
        let n = pdu.write(PduType::C2hData, digests, hpda, &mut head);
        let sum = digests.data.then(|| {
            let whole = !d.crcs.is_empty() && d.crcs.len() * BLOCK_BYTES == d.buf.len();
            if whole { crate::digest::of_blocks(&d.crcs) } else { crc32c(&d.buf) }
        });
        let list = self.outgoing.list();
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
        let n = r2t.write(self.digests(), &mut bytes);
        self.outgoing.list().push_header(&bytes[..n]);
        hooks::reached(CoverageMark::DataAskedFor);
        cx.stats.pdus_out += 1;
        cx.stats.r2ts += 1;
    }

    /// Ends the connection with the protocol's own error. Commands under way are forgotten; their answers come to nothing.
    pub(super) fn terminate(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        let (bytes, n) = TermReq::bytes(PduType::C2hTermReq, fault, self.incoming.head_that_came());
        self.outgoing.list().push_header(&bytes[..n]);
        cx.stats.pdus_out += 1;
        cx.stats.terminations[fault.fes as usize] += 1;
        self.end();
    }

    /// A Disconnect command (base 2.0, 6.4): nothing more is read, what runs is answered, what had not begun is aborted, and the answer to the
    /// Disconnect is the last.
    pub fn disconnect(&mut self, cx: &mut Cx<'_>, at: u16) {
        let Some(queue) = self.phase.queue_mut() else { return };
        if queue.leaving.is_some() {
            // One that came together with another: the first is answered last, and this one not carried out.
            return self.complete(cx, at, DELETED, 0);
        }
        queue.leaving = Some(at);
        self.draining = true;
        let steps = self.slots.stop_all_waiting();
        self.incoming.forget();
        self.end_at_turn(DELETED);
        steps.into_iter().for_each(|at| self.copy_ends(cx, at, DELETED));
        for at in self.slots.all(|s| s.stage != CommandStage::Running) {
            self.finish(cx, at, DELETED, 0);
        }
        self.leave_if_last(cx);
    }

    /// Answers the Disconnect command when it is the only one left.
    pub(super) fn leave_if_last(&mut self, cx: &mut Cx<'_>) {
        if self.slots.running() == 1
            && let Some(at) = self.phase.queue_mut().and_then(|queue| queue.leaving.take())
        {
            self.complete(cx, at, Status::SUCCESS, 0);
        }
    }

    /// Forgets parked commands without an answer: the controller was reset.
    pub fn forget_parked(&mut self) {
        for at in self.slots.all(|s| s.stage == CommandStage::Parked) {
            let slot = self.release(at, 0);
            if slot.identifier == Identifier::Mine {
                self.free_cid(slot.sqe.cid);
            }
        }
    }

    /// Forgets all that is under way.
    pub fn end(&mut self) {
        if self.slots.running() > 0 {
            hooks::reached(CoverageMark::ConnectionLostBusy);
        }
        self.leave_behind();
        self.phase.enter(PhaseStep::End);
        self.incoming.forget();
        if let Some(queue) = self.phase.queue_mut() {
            queue.leaving = None;
        }
        self.memory.set_place(None);
        for slot in self.slots.clear() {
            if slot.turn != Turn::Free {
                self.memory.set_limited(slot.capsule, false);
            }
            self.memory.release(slot.held, slot.capsule, 0);
        }
    }

    fn account(&mut self, cx: &mut Cx<'_>, slot: &CommandSlot, status: Status) {
        let class = slot.plan.class();
        let place = self.phase.queue().and_then(|queue| queue.kind.counted_with()).unwrap_or(HostPlace::NONE);
        let figures = cx.stats.class(place, class);
        figures.commands += 1;
        figures.latency.record(cx.now.since(slot.since).as_nanos() as u64);
        if !status.is_success() {
            figures.errors += 1;
            if ErrorLog::tells(status) {
                self.note_error(slot, status);
            }
            return;
        }
        let bytes = u64::from(slot.len);
        figures.bytes += bytes;
        let Some(queue) = self.phase.queue().and_then(|queue| queue.kind.as_io()) else { return };
        match class {
            CommandClass::Read => queue.ledger().read(bytes),
            CommandClass::Write => queue.ledger().wrote(bytes),
            CommandClass::Deallocate if hooks::seeded(SeededFault::TrimsHealth) => queue.ledger().wrote(bytes),
            _ => {}
        }
    }

    /// Tells the error log of the controller that a command failed.
    fn note_error(&self, slot: &CommandSlot, status: Status) {
        let Some(kind) = self.kind() else { return };
        let (c, sqid) = (kind.controller(), kind.qid());
        if let (Some(queue), true) = (kind.as_io(), status.code.sct() == 2) {
            queue.ledger().media_error();
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
