//! What commands have under way on a volume: a reservation that takes rights away has to wait for it.
//!
//! Invariant: every request that was handed out and not answered is counted, also after its session has ended.
//! Never: waits; the target does.

use super::left::{Left, settle};
use super::slot::{CommandPlan, CommandSlot, CommandStage, NO_MATE, Turn};
use super::{Cx, Session};
use crate::reservation;
use crate::view::{Namespace, View};
use base::IoVerb;
use base::hooks::{self, CoverageMark, SeededFault};
use cluster::reservation::Access;
use format::nvme::{IoOpcode, Status, StatusCode};
use object::VolumeRef;

impl Session {
    /// Whether a command may still be carried out, now that its data is there or a limit lets it begin: what was allowed when it came may not be
    /// any more.
    pub(super) fn judge_again(&mut self, cx: &Cx<'_>, at: u16) -> Result<(), Status> {
        let judged = self.judge_now(cx, at);
        if judged.is_err_and(|status| status.code == StatusCode::RESERVATION_CONFLICT) {
            hooks::reached(CoverageMark::ConflictAfterData);
        }
        judged
    }

    /// Whether a command may be carried out by what is served now.
    fn judge_now(&mut self, cx: &Cx<'_>, at: u16) -> Result<(), Status> {
        let slot = &self.slots[usize::from(at)];
        let Some(volume) = slot.plan.volume() else { return Ok(()) };
        let (nsid, opcode, paired) = (slot.sqe.nsid, slot.sqe.opcode, slot.mate != NO_MATE);
        let ns = self.namespace_of(cx.view, nsid)?;
        if ns.volume != volume {
            return Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT.into());
        }
        let Some(op) = IoOpcode::parse(opcode) else { return Ok(()) };
        if let Some(status) = ns.closed() {
            return Err(status);
        }
        // Halves of a fused operation run together, so either needs the rights of both.
        let conflicts = paired && !ns.access.write || reservation::conflicts(op, ns.access);
        if ns.access != Access::FULL && conflicts && !hooks::seeded(SeededFault::JudgedOnce) {
            return Err(StatusCode::RESERVATION_CONFLICT.into());
        }
        if ns.write_protect.is_on() && op.verb().is_some_and(IoVerb::changes) {
            return Err(StatusCode::NAMESPACE_WRITE_PROTECTED.into());
        }
        Ok(())
    }

    /// Whether a command may go on that was allowed when it was judged last; if not, its status says why.
    fn is_still_allowed(&mut self, cx: &Cx<'_>, at: u16) -> bool {
        if self.slots[usize::from(at)].judged == cx.view.generation {
            return true;
        }
        let judged = self.judge_again(cx, at);
        let slot = &mut self.slots[usize::from(at)];
        slot.judged = cx.view.generation;
        if let Err(status) = judged {
            slot.status = status;
        }
        judged.is_ok()
    }

    /// Whether a command of several steps, of which some are left, may go on with the next one.
    pub(super) fn may_go_on(&mut self, cx: &Cx<'_>, at: u16) -> bool {
        let may = self.is_still_allowed(cx, at);
        if !may {
            hooks::reached(CoverageMark::StoppedBetweenSteps);
        }
        may
    }

    /// Whether a command whose request a limit has held back may still begin: it has not been aborted since, nor is it forbidden by now.
    pub fn may_begin(&mut self, cx: &Cx<'_>, token: u64) -> bool {
        let at = token as u16;
        if !self.is_under_way(token) || !self.slots[usize::from(at)].status.is_success() {
            return false;
        }
        let judged_once = hooks::seeded(SeededFault::CopyJudgedOnce) && matches!(self.slots[usize::from(at)].plan, CommandPlan::Copy(_));
        if judged_once {
            self.slots[usize::from(at)].judged = cx.view.generation;
        }
        judged_once || self.is_still_allowed(cx, at)
    }

    /// The namespace that a command names, as of this view.
    pub fn namespace_of(&mut self, view: &View, nsid: u32) -> Result<Namespace, Status> {
        let queue = self.io_queue().ok_or(StatusCode::INVALID_FIELD)?;
        queue.refresh(view);
        queue.namespace(nsid)
    }

    /// Tokens of the commands that a volume works on.
    pub fn under_way_on(&self, volume: VolumeRef) -> impl Iterator<Item = u64> + '_ {
        // What waits for its turn has not begun, and is judged when it does.
        let works = |s: &CommandSlot| s.stage == CommandStage::Running && s.parts > 0 && s.turn != Turn::Awaited;
        let on = move |s: &CommandSlot| works(s) && s.plan.volume() == Some(volume);
        self.slots.iter().filter(move |(_, s)| on(s)).map(|(at, _)| self.token_base | u64::from(at))
    }
    /// Those of them, on whatever volume, that may not be carried out any more by what is served now, with their volumes.
    pub fn forbidden(&mut self, cx: &Cx<'_>) -> Vec<(u64, VolumeRef)> {
        let works = |s: &CommandSlot| s.stage == CommandStage::Running && s.parts > 0 && s.turn != Turn::Awaited;
        let restricted = |s: &CommandSlot| s.plan.volume().filter(|v| cx.view.is_restricted(*v));
        let all = self.slots.iter().filter(|(_, s)| works(s)).filter_map(|(at, s)| Some((at, restricted(s)?)));
        let under_way: Vec<(u16, VolumeRef)> = all.collect();
        let base = self.token_base;
        let forbidden = under_way.into_iter().filter(|(at, _)| self.judge_now(cx, *at).is_err());
        forbidden.map(|(at, volume)| (base | u64::from(at), volume)).collect()
    }
    /// Whether a volume works on the command with this token.
    pub fn is_under_way(&self, token: u64) -> bool {
        self.slots.get(usize::from(token as u16)).is_some_and(|s| s.stage == CommandStage::Running && s.parts > 0)
    }

    /// Aborts what has not begun of the commands on a volume: they are answered with `status`, once the data that they were asked for has
    /// come.
    pub fn abort_on(&mut self, volume: VolumeRef, status: Status) {
        for (_, slot) in self.slots.iter_mut().filter(|(_, s)| s.plan.volume() == Some(volume)) {
            let stepwise = matches!(slot.plan, CommandPlan::Trim(_) | CommandPlan::Copy(_));
            let more_to_do = slot.stage != CommandStage::Running || slot.turn == Turn::Awaited || stepwise;
            if more_to_do && slot.status.is_success() {
                hooks::reached(CoverageMark::PreemptAborts);
                slot.status = status;
            }
        }
    }

    /// The session ends: notes what has not come back.
    pub(super) fn leave_behind(&mut self) {
        let base = self.token_base;
        let running = self.slots.iter().filter(|(_, s)| s.stage == CommandStage::Running && s.parts > 0);
        let left = running.filter_map(|(at, s)| Some(Left { token: base | u64::from(at), volume: s.plan.volume()?, parts: s.parts }));
        self.left.extend(left);
    }
    /// A request of a command that is gone came back.
    pub(super) fn left_done(&mut self, token: u64) {
        settle(&mut self.left, token);
    }
    /// What has not come back of a session that has ended; from now on it is the caller's to count.
    pub fn take_left(&mut self) -> Vec<Left> {
        core::mem::take(&mut self.left)
    }
}
