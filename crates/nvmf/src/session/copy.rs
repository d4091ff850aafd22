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
use super::slot::{CommandPlan, CommandSlot};
use super::status::status_of;
use super::{Cx, Session};
use crate::stats::CommandClass;
use crate::view::Namespace;
use format::nvme::{Sqe, Status};
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
        self.ask_for(cx, at, op);
    }

    fn ask_for(&mut self, cx: &mut Cx<'_>, at: u16, op: IoOp) {
        let slot = &mut self.slots[usize::from(at)];
        slot.parts = 1;
        let volume = plan(slot).run().volume();
        cx.ios.push(IoRequest { token: self.token_base | u64::from(at), volume, op });
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
