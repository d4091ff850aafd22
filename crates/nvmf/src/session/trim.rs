//! The Dataset Management command (nvm 3.2.3): ranges of a namespace that are deallocated, several at a time.
//!
//! Invariant: all ranges are judged before the first takes effect, and what is left of them before each next one.

use super::slot::CommandPlan;
use super::{Cx, Session};
use crate::limits::RANGES_UNDER_WAY_MAX;
use crate::view::Namespace;
use base::hooks::{self, SeededFault};
use format::nvme::io::{DatasetManagement, DsmRange};
use format::nvme::{Sqe, StatusCode};
use frontend::{ByteRange, RangeTrim};
use object::{IoRequest, VolumeRef};

/// Room for the ranges of the command: 256 of them.
const RANGES_BYTES_MAX: u32 = 256 * DsmRange::LEN as u32;

/// A Dataset Management command under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrimPlan {
    volume: VolumeRef,
    shift: u32,
    /// Blocks of the namespace.
    blocks: u64,
    ranges: u16,
    /// From when all ranges are there and judged.
    run: Option<RangeTrim>,
}

impl TrimPlan {
    /// The namespace's volume.
    pub(super) fn volume(&self) -> VolumeRef {
        self.volume
    }
}

/// The plan of the command and the bytes that it brings when the host sends `len`. Linux always sends room for 256 ranges, whatever their number;
/// what is behind the ranges means nothing.
pub(super) fn judge(sqe: &Sqe, ns: &Namespace, len: u32) -> (CommandPlan, u32) {
    let ranges = DatasetManagement::of(sqe).ranges();
    let named = (ranges * DsmRange::LEN) as u32;
    let plan = TrimPlan { volume: ns.volume, shift: ns.shift, blocks: ns.blocks, ranges: ranges as u16, run: None };
    (CommandPlan::Trim(Box::new(plan)), if (named..=RANGES_BYTES_MAX).contains(&len) { len } else { named })
}

impl Session {
    /// Its ranges are there.
    pub(super) fn begin_trim(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        let deallocate = DatasetManagement::of(&slot.sqe).ad || hooks::seeded(SeededFault::DsmAlwaysTrims);
        let data = core::mem::take(&mut slot.data);
        let CommandPlan::Trim(plan) = &mut slot.plan else { unreachable!("a command with ranges") };
        let (shift, blocks, ranges) = (plan.shift, plan.blocks, plan.ranges);
        let list = data.first().map_or(&[][..], |d| &d.buf);
        let all = || list.chunks_exact(DsmRange::LEN).take(usize::from(ranges)).filter_map(DsmRange::parse);
        let judged = if hooks::seeded(SeededFault::FirstRangeJudged) { 1 } else { usize::MAX };
        let is_beyond = |r: DsmRange| r.slba.checked_add(u64::from(r.blocks)).is_none_or(|end| end > blocks);
        if all().take(judged).any(is_beyond) {
            return self.finish_running(cx, at, StatusCode::LBA_OUT_OF_RANGE.into(), 0);
        }
        let bytes = |r: DsmRange| ByteRange { offset: r.slba << shift, len: u64::from(r.blocks) << shift };
        plan.run = Some(RangeTrim::new(all().filter(|_| deallocate).map(bytes)));
        self.trim_on(cx, at);
    }

    /// Sends the next ranges on their way; answers the command when none is left.
    pub(super) fn trim_on(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &self.slots[usize::from(at)];
        let is_left = matches!(&slot.plan, CommandPlan::Trim(plan) if plan.run.as_ref().is_some_and(RangeTrim::is_left));
        let may_go_on = !is_left || !slot.status.is_success() || self.may_go_on(cx, at);
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        let CommandPlan::Trim(plan) = &mut slot.plan else { unreachable!("a command with ranges") };
        let (volume, run) = (plan.volume, plan.run.as_mut().expect("a command whose ranges are judged"));
        while may_go_on && slot.status.is_success() && slot.parts < RANGES_UNDER_WAY_MAX {
            let Some(op) = run.next() else { break };
            slot.parts += 1;
            cx.ios.push(IoRequest::new(token, volume, op));
        }
        if slot.parts == 0 {
            let status = slot.status;
            self.finish_running(cx, at, status, 0);
        }
    }
}
