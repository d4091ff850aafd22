//! Commands: judged when their capsule comes, carried out when their data is there, answered when the volume has.

use super::fusing::Fusing;
use super::judge::{Judged, Source, judge};
use super::phase::{PhaseStep, SessionPhase};
use super::slot::{CommandPlan, CommandSlot, CommandStage, Identifier, NO_MATE, Turn};
use super::status::status_of;
use super::turn;
use super::{Call, Cx, Session};
use base::hooks::{self, CoverageMark, SeededFault};
use format::nvme::{Field, Fuse, Sqe, Status, StatusCode};
use format::nvme_tcp::Fault;
use object::{Data, DataVec, IoDone, IoOp, IoRequest, extents};
use rt::Buf;

impl Session {
    /// Judges a new command and gives it a slot.
    pub(super) fn on_command(&mut self, cx: &mut Cx<'_>, sqe: Sqe, capsule_bytes: u32) -> Result<u16, Fault> {
        let (entries, in_use) = match &mut self.phase {
            SessionPhase::Live(queue) => {
                queue.kind.controller().note_traffic();
                (queue.link.ring.entries(), queue.claim_cid(sqe.cid))
            }
            _ => (self.entries(), false),
        };
        if self.slots.entries() >= usize::from(entries) {
            return Err(Fault::SEQUENCE); // More commands than the queue has entries.
        }
        let conflict = in_use && !self.give_up_parked(sqe.cid);
        let judged = if conflict { Err(StatusCode::COMMAND_ID_CONFLICT.into()) } else { judge(&mut self.phase, cx, &sqe, capsule_bytes) };
        let Judged { plan, len, source, limits } = match judged {
            Ok(judged) => judged,
            Err(status) => Judged { plan: CommandPlan::Refuse(status), len: 0, source: Source::None, limits: false },
        };
        let mut slot = CommandSlot::new(sqe, plan, cx.now, cx.view.generation);
        slot.len = len;
        if limits {
            slot.turn = turn::of(cx.view, &slot.plan);
        }
        if conflict {
            slot.identifier = Identifier::Another;
        }
        if source == Source::Capsule {
            hooks::reached(CoverageMark::DataInCapsule);
            slot.take_buffers();
            slot.held = len;
            slot.capsule = len;
            if slot.turn == Turn::Free {
                let covered = self.may_hold(None, len);
                self.memory.take_capsule(len, covered);
            } else {
                self.memory.take_limited_capsule(len);
            }
        }
        let at = self.slots.insert(slot);
        if sqe.fuse != Fuse::Normal || self.slots.fusing() != Fusing::No {
            self.fuse(cx, at);
        }
        Ok(at)
    }

    /// Gives up the event request with this identifier, if there is one. A host that ends a controller forgets its event requests and uses
    /// their identifiers again (SPDK does); how far to look for conflicts is the controller's choice (base 3.3.3.2.2, status 03h).
    fn give_up_parked(&mut self, cid: u16) -> bool {
        let parked = |s: &&mut CommandSlot| s.stage == CommandStage::Parked && s.identifier == Identifier::Mine && s.sqe.cid == cid;
        let Some(slot) = self.slots.iter_mut().map(|(_, s)| s).find(parked) else { return false };
        slot.identifier = Identifier::GivenUp;
        true
    }

    /// The capsule is whole: run it, or get its data.
    pub(super) fn capsule_done(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        match slot.plan {
            CommandPlan::Refuse(status) => return self.finish(cx, at, status, 0),
            // Nothing is asked for before the second half is there and fits.
            CommandPlan::FusedCompare { .. } if slot.mate == NO_MATE => {
                slot.stage = CommandStage::Paired;
                return self.wake_if_all_wait(cx);
            }
            _ if !slot.status.is_success() => return self.run(cx, at),
            _ => {}
        }
        let needs = slot.needs();
        if needs == 0 {
            return self.run(cx, at);
        }
        if slot.turn != Turn::Free && self.waits_for_turn(cx, at) {
            return self.wake_if_all_wait(cx);
        }
        self.get_buffers(cx, at, needs);
    }

    /// Gives a command the buffers that it needs, at once or in its order.
    #[inline(always)]
    pub(super) fn get_buffers(&mut self, cx: &mut Cx<'_>, at: u16, needs: u32) {
        if self.slots.anybody_waits() || !self.may_hold(Some(at), needs) {
            hooks::reached(CoverageMark::WaitsForBuffers);
            cx.stats.waited_for_buffers += 1;
            self.slots.wait(at);
            return self.wake_if_all_wait(cx);
        }
        self.grant(cx, at, needs);
    }

    fn grant(&mut self, cx: &mut Cx<'_>, at: u16, needs: u32) {
        let slot = &mut self.slots[usize::from(at)];
        slot.held += needs;
        self.memory.take(needs);
        if slot.filled == slot.len {
            return self.run(cx, at);
        }
        slot.take_buffers();
        self.slots.ask(at);
        self.request_data(cx, at);
    }

    /// Buffers came free: those who wait go on, in their order.
    pub(super) fn wake_waiting(&mut self, cx: &mut Cx<'_>) {
        while let Some(at) = self.slots.first_waiting() {
            if self.slots[usize::from(at)].judged != cx.view.generation {
                self.refresh_turn(cx, at);
                if self.waits_for_turn(cx, at) {
                    self.slots.stop_waiting(at);
                    continue;
                }
            }
            let needs = self.slots[usize::from(at)].needs();
            if !self.may_hold(Some(at), needs) {
                return;
            }
            self.slots.stop_waiting(at);
            match self.slots[usize::from(at)].stage {
                CommandStage::Running => {
                    self.slots.resume(1);
                    self.step_granted(cx, at, needs);
                }
                _ => self.grant(cx, at, needs),
            }
        }
    }

    /// The capsule that just came whole may have been the last that held memory and did not wait: then nothing that comes free wakes who does.
    #[cold]
    pub(super) fn wake_if_all_wait(&mut self, cx: &mut Cx<'_>) {
        if self.slots.working() == 0 && !hooks::seeded(SeededFault::LastCapsuleWakesNobody) {
            self.wake_waiting(cx);
        }
    }

    /// Its data is there: carries it out.
    pub(super) fn run(&mut self, cx: &mut Cx<'_>, at: u16) {
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        if !slot.status.is_success() && slot.mate == NO_MATE {
            let status = slot.status;
            return self.finish(cx, at, status, 0);
        }
        if slot.judged != cx.view.generation || slot.mate != NO_MATE {
            let judged = self.judge_again(cx, at);
            let slot = &mut self.slots[usize::from(at)];
            if let Err(status) = judged {
                // A half of a fused operation takes the other with it.
                if slot.mate == NO_MATE {
                    return self.finish(cx, at, status, 0);
                }
                if slot.status.is_success() {
                    slot.status = status;
                }
            }
        }
        let slot = &mut self.slots[usize::from(at)];
        slot.stage = CommandStage::Running;
        let (volume, op) = match slot.plan {
            CommandPlan::Read { volume, offset, len } | CommandPlan::Compare { volume, offset, len } => {
                (volume, IoOp::Read { offset, len })
            }
            CommandPlan::Write { volume, offset, .. } => (volume, IoOp::Write { offset, data: core::mem::take(&mut slot.data) }),
            CommandPlan::FusedCompare { .. } | CommandPlan::FusedWrite { .. } => return self.half_there(cx, at),
            CommandPlan::Verify { volume, offset, len } => (volume, IoOp::Verify { offset, len }),
            CommandPlan::Uncorrectable { volume, offset, len } => (volume, IoOp::Uncorrectable { offset, len }),
            CommandPlan::Zero { volume, offset, len } => (volume, IoOp::Zero { offset, len }),
            CommandPlan::Copy(_) => {
                self.slots.begin_running(1);
                return self.begin_copy(cx, at);
            }
            CommandPlan::Flush { volume } if volume.0 == u32::MAX => return self.finish(cx, at, Status::SUCCESS, 0),
            CommandPlan::Flush { volume } => (volume, IoOp::Flush),
            CommandPlan::Trim(_) => {
                self.slots.begin_running(1);
                return self.begin_trim(cx, at);
            }
            // Another Connect of this connection was faster.
            CommandPlan::Connect if !self.phase.is_fresh() => {
                return self.finish(cx, at, StatusCode::COMMAND_SEQUENCE_ERROR.into(), 0);
            }
            CommandPlan::Connect => {
                self.phase.enter(PhaseStep::Judge);
                self.slots.begin_running(1);
                return cx.calls.push((self.token_base, Call::Connect(at)));
            }
            CommandPlan::Admin => {
                self.slots.begin_running(1);
                return cx.calls.push((self.token_base, Call::Admin(at)));
            }
            CommandPlan::Refuse(status) => return self.finish(cx, at, status, 0),
        };
        slot.parts = 1;
        let turn = slot.turn;
        self.slots.begin_running(1);
        let counted = turn != Turn::Free && self.begins_within_limits(at, 1);
        cx.ios.push(IoRequest { token, volume, op, counted });
    }

    /// The answer of a volume to a request with this session's token. Answers the command when it was its last.
    pub fn on_io_done(&mut self, cx: &mut Cx<'_>, done: IoDone) {
        let at = done.token as u16;
        let Some(slot) = self.slots.get_mut(usize::from(at)).filter(|s| s.parts > 0) else {
            return self.left_done(done.token);
        };
        debug_assert!(slot.stage == CommandStage::Running, "a volume works on it");
        slot.parts -= 1;
        if matches!(slot.turn, Turn::Awaited | Turn::Requested) {
            return self.turn_ends(cx, at, done);
        }
        if let Err(e) = done.result
            && slot.status.is_success()
        {
            slot.status = status_of(e, slot.plan.class());
        }
        match slot.plan {
            CommandPlan::Trim(_) => return self.trim_on(cx, at),
            CommandPlan::Copy(_) => return self.copy_done(cx, at, done),
            CommandPlan::FusedCompare { .. } => return self.pair_done(cx, at, done.result),
            CommandPlan::Read { .. } if slot.status.is_success() => {
                self.slots.end_running(1);
                return self.finish_read(cx, at, done.data);
            }
            CommandPlan::Compare { .. } if slot.status.is_success() => {
                let same = slot.data.len() == done.data.len()
                    && slot
                        .data
                        .iter()
                        .zip(&done.data)
                        .take(if hooks::seeded(SeededFault::FirstPieceCompared) { 1 } else { usize::MAX })
                        .all(|(a, b)| *a.buf == *b.buf);
                if !same && !hooks::seeded(SeededFault::CompareAlwaysEqual) {
                    slot.status = StatusCode::COMPARE_FAILURE.into();
                }
            }
            _ => {}
        }
        let status = slot.status;
        self.finish_running(cx, at, status, 0);
    }

    /// Answers a command that was handed out as a [`Call`].
    pub fn complete(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        if self.slots.get(usize::from(at)).is_some_and(|s| s.stage == CommandStage::Running) {
            self.finish_running(cx, at, status, result);
        }
    }

    /// Answers a command with data. The data must not be longer than what the command has room for.
    pub fn complete_with(&mut self, cx: &mut Cx<'_>, at: u16, data: Buf) {
        if self.slots.get(usize::from(at)).is_some_and(|s| s.stage == CommandStage::Running) {
            self.slots.end_running(1);
            let mut list = DataVec::new();
            list.push(Data { buf: data, crcs: Default::default() });
            self.finish_read(cx, at, list);
        }
    }

    /// Parks a command that was handed out: an event request. Answered later by [`Session::complete_parked`].
    pub fn park(&mut self, at: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(at)).filter(|s| s.stage == CommandStage::Running) {
            slot.stage = CommandStage::Parked;
            self.slots.end_running(1);
        }
    }

    /// Answers a parked command.
    pub fn complete_parked(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        if self.slots.get(usize::from(at)).is_some_and(|s| s.stage == CommandStage::Parked) {
            self.finish(cx, at, status, result);
        }
    }

    pub(super) fn finish_running(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        self.slots.end_running(1);
        self.finish(cx, at, status, result);
    }
}

impl CommandSlot {
    /// Takes buffers for its data: one an extent for what goes to a volume, one for the rest.
    fn take_buffers(&mut self) {
        match self.plan {
            CommandPlan::Write { offset, len, .. }
            | CommandPlan::Compare { offset, len, .. }
            | CommandPlan::FusedCompare { offset, len, .. }
            | CommandPlan::FusedWrite { offset, len, .. } => {
                for (i, e) in extents(offset, len).into_iter().enumerate() {
                    self.sums[i] = e.is_aligned();
                    self.data.push(Data { buf: Buf::alloc(e.len as usize), crcs: Default::default() });
                }
            }
            _ => self.data.push(Data { buf: Buf::alloc(self.len as usize), crcs: Default::default() }),
        }
    }
}

const _: () = assert!(<u16 as Field>::LEN == 2, "a slot fits a transfer tag");
