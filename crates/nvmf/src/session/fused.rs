//! Compare and Write as one: the fused operation of the NVM command set (base 3.4.2, nvm 2.2).
//!
//! ```text
//! Compare (FUSE 01b) ─► Paired ──── the next command is its Write (FUSE 10b) ────► both get their data ─► Paired, Paired
//!                         │                                                                                  │ both there
//!                         └─ the next command is another: Missing Fused Command                              ▼
//!                                                                       one request to the volume, two answers
//! ```
//!
//! The data of the first half is asked for when the second half is there, so nothing is on its way when there is none.
//!
//! Invariants: both halves are answered, the first one first; nothing is written unless both are whole and the comparison holds; when the
//! connection ends in between, nothing is written.
//! Never: has more than one first half waiting for its second.

use super::fusing::Fusing;
use super::slot::{CommandPlan, CommandStage, NO_MATE, Turn};
use super::status::status_of;
use super::turn;
use super::{Cx, Session};
use base::hooks::{self, CoverageMark, SeededFault};
use format::nvme::{Fuse, Status, StatusCode};
use frontend::CommandClass;
use object::{CompareWrite, IoError, IoOp, IoRequest};

const MISSING: Status = Status::retry(StatusCode::ABORTED_MISSING_FUSED);
const FAILED: Status = Status::retry(StatusCode::ABORTED_FAILED_FUSED);

impl Session {
    /// A command has come that is a half, or follows a first half. Called before its capsule is whole.
    pub(super) fn fuse(&mut self, cx: &mut Cx<'_>, at: u16) {
        let before = self.slots.set_fusing(Fusing::No);
        let slot = &self.slots[usize::from(at)];
        let fuse = slot.sqe.fuse;
        if let (Fusing::First(first), Fuse::Normal | Fuse::First | Fuse::Reserved) = (before, fuse) {
            self.give_up_first(cx, first, MISSING);
        }
        let refused = matches!(self.slots[usize::from(at)].plan, CommandPlan::Refuse(_));
        match (fuse, before) {
            (Fuse::First, _) => drop(self.slots.set_fusing(if refused { Fusing::Failed } else { Fusing::First(at) })),
            (Fuse::Second, Fusing::First(first)) if refused => self.give_up_first(cx, first, FAILED),
            (Fuse::Second, Fusing::First(first)) => self.pair(cx, first, at),
            (Fuse::Second, Fusing::Failed) => self.slots[usize::from(at)].plan = CommandPlan::Refuse(FAILED),
            (Fuse::Second, Fusing::No) if !refused => self.slots[usize::from(at)].plan = CommandPlan::Refuse(MISSING),
            _ => {}
        }
    }

    /// A first half comes to nothing. Its data may have been wrong before; it is answered with that then.
    fn give_up_first(&mut self, cx: &mut Cx<'_>, first: u16, status: Status) {
        let before = self.slots[usize::from(first)].status;
        self.finish(cx, first, if before.is_success() { status } else { before }, 0);
    }

    /// The second half is here: the first goes on.
    fn pair(&mut self, cx: &mut Cx<'_>, first: u16, second: u16) {
        let range = |at: u16| match self.slots[usize::from(at)].plan {
            CommandPlan::FusedCompare { volume, offset, len } | CommandPlan::FusedWrite { volume, offset, len } => {
                Some((volume, offset, len))
            }
            _ => None,
        };
        if range(first) != range(second) {
            let status = Status::from(StatusCode::INVALID_FIELD);
            self.slots[usize::from(second)].plan = CommandPlan::Refuse(status);
            return self.give_up_first(cx, first, status);
        }
        self.slots[usize::from(first)].mate = second;
        self.slots[usize::from(second)].mate = first;
        let slot = &self.slots[usize::from(first)];
        if slot.status.is_success() && slot.filled < slot.len {
            self.capsule_done(cx, first);
        }
    }

    /// A half has all its data, or has failed. When the other is as far, both run.
    pub(super) fn half_there(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        slot.stage = CommandStage::Paired;
        let mate = slot.mate;
        if self.slots.get(usize::from(mate)).is_none_or(|m| m.stage != CommandStage::Paired) {
            if !hooks::seeded(SeededFault::HalfWakesNobody) {
                self.wake_if_all_wait(cx);
            }
            return;
        }
        let is_first = matches!(self.slots[usize::from(at)].plan, CommandPlan::FusedCompare { .. });
        let (first, second) = if is_first { (at, mate) } else { (mate, at) };
        let (a, b) = (self.slots[usize::from(first)].status, self.slots[usize::from(second)].status);
        match (a.is_success(), b.is_success()) {
            (true, true) => self.run_pair(cx, first, second),
            (true, false) => {
                hooks::reached(CoverageMark::PairHalfFailed);
                self.finish_pair(cx, first, FAILED, b);
            }
            (false, true) => self.finish_pair(cx, first, a, FAILED),
            (false, false) => self.finish_pair(cx, first, a, b),
        }
    }

    fn run_pair(&mut self, cx: &mut Cx<'_>, first: u16, second: u16) {
        let mut take = |at: u16| {
            let slot = &mut self.slots[usize::from(at)];
            slot.stage = CommandStage::Running;
            slot.data.pop().expect("a half has its data, in one extent")
        };
        let both = Box::new(CompareWrite { compare: take(first), data: take(second) });
        let slot = &mut self.slots[usize::from(first)];
        slot.parts = 1;
        let CommandPlan::FusedCompare { volume, offset, .. } = slot.plan else { unreachable!("a first half") };
        self.slots.begin_running(2);
        let token = self.token_base | u64::from(first);
        // Its turn may have been waited for by the second.
        let counted = turn::is_counted(self.slots[usize::from(second)].turn);
        let counted = counted || self.slots[usize::from(first)].turn != Turn::Free && self.begins_within_limits(first, 2);
        cx.ios.push(IoRequest { token, volume, op: IoOp::CompareWrite { offset, both }, counted });
    }

    /// The volume's answer to a pair whose first half is here. A write that fails leaves the comparison its success (nvm 2.2).
    pub(super) fn pair_done(&mut self, cx: &mut Cx<'_>, first: u16, result: Result<(), IoError>) {
        let (a, b) = match result {
            Ok(()) => (Status::SUCCESS, Status::SUCCESS),
            Err(e @ IoError::NoSpace) => (Status::SUCCESS, status_of(e, CommandClass::Write)),
            Err(IoError::Withdrawn) => (self.slots[usize::from(first)].status, FAILED),
            Err(e) => (status_of(e, CommandClass::Compare), FAILED),
        };
        self.slots.end_running(2);
        self.finish_pair(cx, first, a, b);
    }

    fn finish_pair(&mut self, cx: &mut Cx<'_>, first: u16, a: Status, b: Status) {
        let second = self.slots[usize::from(first)].mate;
        debug_assert!(second != NO_MATE);
        self.finish(cx, first, a, 0);
        self.finish(cx, second, b, 0);
    }
}
