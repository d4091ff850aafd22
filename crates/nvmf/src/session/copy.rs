//! The Copy command (nvm 3.2.2): source ranges of a namespace, one after the other, to one destination in it.
//!
//! ```text
//! ranges judged ─► read a step ─► judged again, written ─► judged again, next step, next range ... ─► answered
//!                     └─ fails ─────────┴─ fails: answered with the number of the range in dword 0
//! ```
//!
//! Invariants: ranges are copied in order, and what comes after one that failed is not touched; a command holds at most one step in memory;
//! nothing is copied before all ranges are judged.
//! Never: copies between namespaces; is atomic as a whole (nor must it be).

use super::copy_progress::CopyProgress;
use super::slot::CommandPlan;
use super::status::status_of;
use super::{Cx, Session};
use crate::stats::CommandClass;
use crate::view::Namespace;
use base::crc32c;
use base::unit::BLOCK_BYTES;
use format::nvme::{Sqe, Status};
use object::{Data, DataVec, IoDone, IoError, IoOp, IoRequest};

/// The plan of a Copy command and the bytes of its source ranges.
pub(super) fn judge(sqe: &Sqe, ns: &Namespace) -> Result<(CommandPlan, u32), Status> {
    let copy = CopyProgress::new(sqe, ns)?;
    let bytes = copy.list_bytes();
    Ok((CommandPlan::Copy(Box::new(copy)), bytes))
}

impl Session {
    /// Its ranges are there.
    pub(super) fn begin_copy(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let CommandPlan::Copy(copy) = &slot.plan else { unreachable!("a Copy command") };
        slot.len = 0; // What counts as written is what is copied.
        match copy.check(list) {
            Ok(()) => self.copy_step(cx, at),
            Err(code) => self.finish_running(cx, at, code.into(), 0),
        }
    }

    fn copy_step(&mut self, cx: &mut Cx<'_>, at: u16) {
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let CommandPlan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
        if !slot.status.is_success() {
            return self.copy_failed(cx, at);
        }
        let Some((offset, len)) = copy.next(list) else { return self.finish_running(cx, at, Status::SUCCESS, 0) };
        let volume = copy.volume();
        if !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        self.slots[usize::from(at)].parts = 1;
        cx.ios.push(IoRequest { token, volume, op: IoOp::Read { offset, len } });
    }

    /// It ends at the range that it has come to.
    fn copy_failed(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &self.slots[usize::from(at)];
        let CommandPlan::Copy(copy) = &slot.plan else { unreachable!("a Copy command") };
        let (status, range) = (slot.status, copy.failed_range());
        self.finish_running(cx, at, status, range.into());
    }

    /// The volume's answer to half a step.
    pub(super) fn copy_done(&mut self, cx: &mut Cx<'_>, at: u16, done: IoDone) {
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let CommandPlan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
        if let Err(e) = done.result {
            if e != IoError::Withdrawn {
                slot.status = status_of(e, if copy.is_writing() { CommandClass::Write } else { CommandClass::Read });
            } // else it says why already
            return self.copy_failed(cx, at);
        }
        if copy.is_writing() {
            slot.len += copy.written(list);
            return self.copy_step(cx, at);
        }
        if slot.status.is_success() && !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        let slot = &mut self.slots[usize::from(at)];
        let CommandPlan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
        slot.parts = 1;
        let (volume, to) = (copy.volume(), copy.begin_write());
        let (offset, aligned) = (to.offset, to.is_aligned());
        let data: DataVec = done.data.into_iter().map(|d| summed(d, aligned)).collect();
        cx.ios.push(IoRequest { token, volume, op: IoOp::Write { offset, data } });
    }
}

/// What was read, as it must be to be written: with the checksums of its blocks where it lies on blocks, else without.
fn summed(data: Data, aligned: bool) -> Data {
    let Data { buf, mut crcs } = data;
    match (aligned, crcs.len() * BLOCK_BYTES == buf.len()) {
        (true, false) => crcs = buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect(),
        (true, true) => {}
        (false, _) => crcs.clear(),
    }
    Data { buf, crcs }
}
