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

use super::command::status_of;
use super::slot::Plan;
use super::{Cx, Session};
use crate::limits::{COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX, COPY_STEP_BYTES};
use crate::stats::Class;
use crate::view::Namespace;
use base::crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, PIECE_BYTES};
use format::nvme::io::{CopyCommand, CopyRange};
use format::nvme::{Sqe, Status, StatusCode};
use object::{Data, DataVec, Extent, IoDone, IoError, IoOp, IoRequest, VolumeRef};

/// A Copy command under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    volume: VolumeRef,
    shift: u32,
    /// Blocks of the namespace.
    blocks: u64,
    ranges: u16,
    /// The range that is being copied, and bytes of it that are.
    range: u16,
    done: u64,
    /// Where the next step goes, in bytes, and how long it is.
    to: u64,
    step: u64,
    /// It is on its way to the volume, not from it.
    writing: bool,
}

impl Copy {
    /// The namespace's volume.
    pub(super) fn volume(&self) -> VolumeRef {
        self.volume
    }
}

/// The plan of a Copy command and the bytes of its source ranges.
pub(super) fn judge(sqe: &Sqe, ns: &Namespace) -> Result<(Plan, u32), Status> {
    let command = CopyCommand::of(sqe);
    if command.desfmt != 0 || command.dtype != 0 {
        return Err(StatusCode::INVALID_FIELD.into());
    }
    if command.ranges() > COPY_RANGES_MAX {
        return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED.into());
    }
    if command.sdlba >= ns.blocks {
        return Err(StatusCode::LBA_OUT_OF_RANGE.into());
    }
    let copy = Copy {
        volume: ns.volume,
        shift: ns.shift,
        blocks: ns.blocks,
        ranges: command.ranges() as u16,
        range: 0,
        done: 0,
        to: command.sdlba << ns.shift,
        step: 0,
        writing: false,
    };
    Ok((Plan::Copy(Box::new(copy)), (command.ranges() * CopyRange::LEN) as u32))
}

impl Copy {
    /// Whether all source ranges and the destination are within the limits and the namespace.
    fn check(&self, list: &[u8]) -> Result<(), StatusCode> {
        let (limit, mut total) = (COPY_RANGE_BYTES_MAX >> self.shift, 0);
        for i in 0..self.ranges {
            let range = range(list, i);
            let blocks = u64::from(range.nlb) + 1;
            if blocks > limit {
                return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
            }
            if range.slba.checked_add(blocks).is_none_or(|end| end > self.blocks) {
                return Err(StatusCode::LBA_OUT_OF_RANGE);
            }
            total += blocks;
        }
        if total > COPY_BYTES_MAX >> self.shift {
            return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        let total = if hooks::seeded(SeededFault::CopyEndUnchecked) { 0 } else { total };
        let end = (self.to >> self.shift).checked_add(total);
        if end.is_none_or(|end| end > self.blocks) { Err(StatusCode::LBA_OUT_OF_RANGE) } else { Ok(()) }
    }

    /// The next step: where it is read from. `None`: all is copied.
    fn next(&mut self, list: &[u8]) -> Option<(u64, u32)> {
        if self.range >= self.ranges {
            return None;
        }
        let range = range(list, self.range);
        if self.done > 0 {
            hooks::reached(CoverageMark::CopyInSteps);
        }
        let from = (range.slba << self.shift) + if hooks::seeded(SeededFault::CopyStartsOver) { 0 } else { self.done };
        let left = ((u64::from(range.nlb) + 1) << self.shift) - self.done;
        let in_piece = |at: u64| PIECE_BYTES - at % PIECE_BYTES;
        self.step = left.min(COPY_STEP_BYTES).min(in_piece(from)).min(in_piece(self.to));
        self.writing = false;
        Some((from, self.step as u32))
    }

    /// A step has been written.
    fn stepped(&mut self, list: &[u8]) {
        self.to += self.step;
        self.done += self.step;
        if self.done == (u64::from(range(list, self.range).nlb) + 1) << self.shift {
            self.range += 1;
            self.done = 0;
        }
    }
}

fn range(list: &[u8], i: u16) -> CopyRange {
    CopyRange::parse(&list[usize::from(i) * CopyRange::LEN..]).unwrap_or_default()
}

impl Session {
    /// Its ranges are there.
    pub(super) fn begin_copy(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let Plan::Copy(copy) = &slot.plan else { unreachable!("a Copy command") };
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
        let Plan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
        if !slot.status.is_success() {
            return self.copy_failed(cx, at);
        }
        let Some((offset, len)) = copy.next(list) else { return self.finish_running(cx, at, Status::SUCCESS, 0) };
        let volume = copy.volume;
        if !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        self.slots[usize::from(at)].parts = 1;
        cx.ios.push(IoRequest { token, volume, op: IoOp::Read { offset, len } });
    }

    /// It ends at the range that it has come to.
    fn copy_failed(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &self.slots[usize::from(at)];
        let Plan::Copy(copy) = &slot.plan else { unreachable!("a Copy command") };
        let (status, range) = (slot.status, if hooks::seeded(SeededFault::CopyNamesCount) { copy.ranges } else { copy.range });
        self.finish_running(cx, at, status, range.into());
    }

    /// The volume's answer to half a step.
    pub(super) fn copy_done(&mut self, cx: &mut Cx<'_>, at: u16, done: IoDone) {
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let Plan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
        if let Err(e) = done.result {
            if e != IoError::Withdrawn {
                slot.status = status_of(e, if copy.writing { Class::Write } else { Class::Read });
            } // else it says why already
            return self.copy_failed(cx, at);
        }
        if copy.writing {
            copy.stepped(list);
            slot.len += copy.step as u32;
            return self.copy_step(cx, at);
        }
        if slot.status.is_success() && !self.may_go_on(cx, at) {
            return self.copy_failed(cx, at);
        }
        let slot = &mut self.slots[usize::from(at)];
        let Plan::Copy(copy) = &mut slot.plan else { unreachable!("a Copy command") };
        copy.writing = true;
        slot.parts = 1;
        let (offset, aligned) = (copy.to, Extent { offset: copy.to, len: copy.step as u32 }.is_aligned());
        let data: DataVec = done.data.into_iter().map(|d| summed(d, aligned)).collect();
        cx.ios.push(IoRequest { token, volume: copy.volume, op: IoOp::Write { offset, data } });
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
