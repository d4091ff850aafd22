//! The Copy command (nvm 3.2.2): source ranges of a namespace, one after the other, to one destination in it.
//!
//! ```text
//! ranges judged ─► read a step ─► judged again, written ─► judged again, next step, next range ... ─► answered
//!                     └─ fails ─────────┴─ fails: answered with the number of the range in dword 0
//! ```
//!
//! Invariants: what comes after a range that failed is not touched; nothing is copied before all ranges are judged. Order and steps are
//! those of `frontend::RangeCopy`.
//! Never: copies between namespaces; is atomic as a whole (nor must it be).

use super::copy_plan::CopyPlan;
use super::reply::DELETED;
use super::slot::{CommandPlan, CommandSlot, Turn};
use super::status::status_of;
use super::turn;
use super::{Cx, Session};
use crate::limits::COPY_STEP_BYTES;
use crate::view::Namespace;
use format::nvme::{Sqe, Status};
use frontend::CommandClass;
use object::{IoDone, IoError, IoOp, IoRequest};

/// The plan of a Copy command and the bytes of its source ranges.
pub(super) fn judge(sqe: &Sqe, ns: &Namespace) -> Result<(CommandPlan, u32), Status> {
    let copy = CopyPlan::new(sqe, ns)?;
    let bytes = copy.list_bytes();
    Ok((CommandPlan::Copy(Box::new(copy)), bytes))
}

fn plan(slot: &mut CommandSlot) -> &mut CopyPlan {
    let CommandPlan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
    copy
}

impl Session {
    /// Its ranges are there.
    pub(super) fn begin_copy(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        slot.len = 0; // What counts as written is what is copied.
        let data = core::mem::take(&mut slot.data);
        let has_buffers = slot.turn == Turn::Free;
        plan(slot).set_buffers(has_buffers);
        match plan(slot).begin(data.first().map_or(&[][..], |d| &d.buf)) {
            Ok(()) => self.copy_step(cx, at),
            Err(code) => self.finish_running(cx, at, code.into(), 0),
        }
    }

    fn copy_step(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        if !slot.status.is_success() {
            return self.copy_failed(cx, at);
        }
        let Some(op) = plan(slot).run().read_next() else { return self.finish_running(cx, at, Status::SUCCESS, 0) };
        if !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        let IoOp::Read { offset, len } = op else { unreachable!("a step begins with a read") };
        self.begin_step(cx, at, offset, len);
    }

    /// A step begins when its turn within the limits, for its read and its write, has come, and it has buffers.
    fn begin_step(&mut self, cx: &mut Cx<'_>, at: u16, offset: u64, len: u32) {
        let slot = &mut self.slots[usize::from(at)];
        if slot.turn == Turn::Come {
            slot.turn = Turn::Due; // That was for the step before.
        }
        self.refresh_turn(cx, at);
        let slot = &mut self.slots[usize::from(at)];
        let (turn, volume) = (slot.turn, plan(slot).volume());
        plan(slot).wait_with_step(offset, len);
        match (turn, plan(slot).has_buffers()) {
            (Turn::Free, true) => self.copy_goes_on(cx, at),
            _ if self.phase.queue().is_some_and(|queue| queue.leaving.is_some()) => {
                self.slots[usize::from(at)].status = DELETED;
                self.copy_failed(cx, at);
            }
            (Turn::Free, false) => self.copy_gets_buffers(cx, at),
            (_, has_buffers) => {
                if has_buffers {
                    plan(slot).set_buffers(false);
                    slot.held -= COPY_STEP_BYTES as u32;
                    self.memory.release(COPY_STEP_BYTES as u32, 0, 0);
                }
                self.ask_for_turn(cx, at, volume, IoOp::Turn { offset, len: len.into(), requests: 2 });
                if self.slots.anybody_waits() {
                    self.wake_waiting(cx);
                }
            }
        }
    }

    /// The turn of a step has come, or never will: its status says why.
    pub(super) fn copy_turn_came(&mut self, cx: &mut Cx<'_>, at: u16, result: Result<(), IoError>) {
        let slot = &mut self.slots[usize::from(at)];
        if let (Err(e), true) = (result, slot.status.is_success()) {
            slot.status = status_of(e, CommandClass::Read);
        }
        if !slot.status.is_success() {
            return self.copy_failed(cx, at);
        }
        self.copy_gets_buffers(cx, at);
    }

    /// Gets buffers for a step, in its order.
    fn copy_gets_buffers(&mut self, cx: &mut Cx<'_>, at: u16) {
        let needs = self.slots[usize::from(at)].needs();
        if self.slots.anybody_waits() || !self.may_hold(Some(at), needs) {
            cx.stats.waited_for_buffers += 1;
            self.slots.wait_running(at);
            self.slots.pause(1);
            return self.wake_if_all_wait(cx);
        }
        self.step_granted(cx, at, needs);
    }

    /// A step gets its buffers.
    pub(super) fn step_granted(&mut self, cx: &mut Cx<'_>, at: u16, bytes: u32) {
        let slot = &mut self.slots[usize::from(at)];
        slot.held += bytes;
        plan(slot).set_buffers(true);
        self.memory.take(bytes);
        self.copy_goes_on(cx, at);
    }

    fn copy_goes_on(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        let Some((offset, len)) = plan(slot).take_step() else { unreachable!("a step has waited") };
        if !self.slots[usize::from(at)].status.is_success() || !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        self.ask_for(cx, at, IoOp::Read { offset, len });
    }

    /// It has waited for buffers, and gets none any more.
    pub(super) fn copy_ends(&mut self, cx: &mut Cx<'_>, at: u16, status: Status) {
        self.slots.resume(1);
        let slot = &mut self.slots[usize::from(at)];
        if slot.status.is_success() {
            slot.status = status;
        }
        self.copy_failed(cx, at);
    }

    fn ask_for(&mut self, cx: &mut Cx<'_>, at: u16, op: IoOp) {
        let slot = &mut self.slots[usize::from(at)];
        slot.parts = 1;
        let (volume, counted) = (plan(slot).run().volume(), turn::is_counted(slot.turn));
        cx.ios.push(IoRequest { token: self.token_base | u64::from(at), volume, op, counted });
    }

    /// It ends at the range that it has come to.
    fn copy_failed(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        let (status, range) = (slot.status, plan(slot).failed_range());
        self.finish_running(cx, at, status, range.into());
    }

    /// The volume's answer to half a step.
    pub(super) fn copy_done(&mut self, cx: &mut Cx<'_>, at: u16, done: IoDone) {
        let slot = &mut self.slots[usize::from(at)];
        let writing = plan(slot).run().is_writing();
        if let Err(e) = done.result {
            if e != IoError::Withdrawn {
                slot.status = status_of(e, if writing { CommandClass::Write } else { CommandClass::Read });
            } // else it says why already
            return self.copy_failed(cx, at);
        }
        if writing {
            slot.len += plan(slot).run().written();
            return self.copy_step(cx, at);
        }
        if slot.status.is_success() && !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        let op = plan(&mut self.slots[usize::from(at)]).run().write(done.data);
        self.ask_for(cx, at, op);
    }
}
