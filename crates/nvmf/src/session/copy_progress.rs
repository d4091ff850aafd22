//! How far a Copy command is, and what its next step is.
//!
//! Invariant: ranges are copied in order, each in steps that lie in one piece on either side.
//! Never: talks to a volume; `copy` does.

use crate::limits::{COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX, COPY_STEP_BYTES};
use crate::view::Namespace;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::PIECE_BYTES;
use format::nvme::io::{CopyCommand, CopyRange};
use format::nvme::{Sqe, StatusCode};
use object::{Extent, VolumeRef};

/// A Copy command under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyProgress {
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

impl CopyProgress {
    /// Of a command whose source ranges are still to come.
    pub(super) fn new(sqe: &Sqe, ns: &Namespace) -> Result<CopyProgress, StatusCode> {
        let command = CopyCommand::of(sqe);
        if command.desfmt != 0 || command.dtype != 0 {
            return Err(StatusCode::INVALID_FIELD);
        }
        if command.ranges() > COPY_RANGES_MAX {
            return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        if command.sdlba >= ns.blocks {
            return Err(StatusCode::LBA_OUT_OF_RANGE);
        }
        Ok(CopyProgress {
            volume: ns.volume,
            shift: ns.shift,
            blocks: ns.blocks,
            ranges: command.ranges() as u16,
            range: 0,
            done: 0,
            to: command.sdlba << ns.shift,
            step: 0,
            writing: false,
        })
    }

    /// The namespace's volume.
    pub(super) fn volume(&self) -> VolumeRef {
        self.volume
    }
    /// Bytes of its source ranges.
    pub(super) fn list_bytes(&self) -> u32 {
        u32::from(self.ranges) * CopyRange::LEN as u32
    }
    /// Whether a step is on its way to the volume, not from it.
    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }
    /// The range that it has come to, as a command that fails names it.
    pub(super) fn failed_range(&self) -> u16 {
        if hooks::seeded(SeededFault::CopyNamesCount) { self.ranges } else { self.range }
    }

    /// Whether all source ranges and the destination are within the limits and the namespace.
    pub(super) fn check(&self, list: &[u8]) -> Result<(), StatusCode> {
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
    pub(super) fn next(&mut self, list: &[u8]) -> Option<(u64, u32)> {
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

    /// The step has been read: where it is written to.
    pub(super) fn begin_write(&mut self) -> Extent {
        self.writing = true;
        Extent { offset: self.to, len: self.step as u32 }
    }

    /// The step has been written; how many bytes it was.
    pub(super) fn written(&mut self, list: &[u8]) -> u32 {
        self.to += self.step;
        self.done += self.step;
        if self.done == (u64::from(range(list, self.range).nlb) + 1) << self.shift {
            self.range += 1;
            self.done = 0;
        }
        self.step as u32
    }
}

fn range(list: &[u8], i: u16) -> CopyRange {
    CopyRange::parse(&list[usize::from(i) * CopyRange::LEN..]).unwrap_or_default()
}
