//! What a Copy command asks for, and whether it may.
//!
//! Invariant: nothing is copied before all ranges are judged.
//! Never: copies; `copy` does, with `frontend::RangeCopy`.

use crate::limits::{COPY_BYTES_MAX, COPY_RANGE_BYTES_MAX, COPY_RANGES_MAX, COPY_STEP_BYTES};
use crate::view::Namespace;
use base::hooks::{self, SeededFault};
use format::nvme::io::{CopyCommand, CopyRange};
use format::nvme::{Sqe, StatusCode};
use frontend::{ByteRange, RangeCopy};
use object::VolumeRef;

/// A Copy command under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyPlan {
    volume: VolumeRef,
    shift: u32,
    /// Blocks of the namespace.
    blocks: u64,
    /// Source ranges.
    ranges: u16,
    /// The first block of the destination.
    to: u64,
    /// From when all ranges are there and judged.
    run: Option<RangeCopy>,
    /// It has buffers for a step.
    has_buffers: bool,
    /// What the next step reads, while it waits for its turn or for buffers.
    next: Option<(u64, u32)>,
}

impl CopyPlan {
    /// Of a command whose source ranges are still to come.
    pub(super) fn new(sqe: &Sqe, ns: &Namespace) -> Result<CopyPlan, StatusCode> {
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
        let ranges = command.ranges() as u16;
        Ok(CopyPlan {
            volume: ns.volume,
            shift: ns.shift,
            blocks: ns.blocks,
            ranges,
            to: command.sdlba,
            run: None,
            has_buffers: false,
            next: None,
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
    /// What is copied, and how far it is.
    pub(super) fn run(&mut self) -> &mut RangeCopy {
        self.run.as_mut().expect("a copy runs when its ranges have been judged")
    }
    /// Whether its next step waits, for its turn or for buffers.
    pub(super) fn awaits_step(&self) -> bool {
        self.next.is_some()
    }
    /// The next step reads so many bytes from here on, when it may.
    pub(super) fn wait_with_step(&mut self, offset: u64, len: u32) {
        debug_assert!(self.next.is_none(), "one step at a time");
        self.next = Some((offset, len));
    }
    /// The step that has waited may be done.
    pub(super) fn take_step(&mut self) -> Option<(u64, u32)> {
        self.next.take()
    }
    /// Whether it has buffers for a step.
    pub(super) fn has_buffers(&self) -> bool {
        self.has_buffers
    }
    /// Whether it has buffers for a step from now on.
    pub(super) fn set_buffers(&mut self, has: bool) {
        self.has_buffers = has;
    }
    /// The range that it has come to, as a command that fails names it.
    pub(super) fn failed_range(&self) -> u16 {
        let come_to = self.run.as_ref().map_or(0, |run| run.range() as u16);
        if hooks::seeded(SeededFault::CopyNamesCount) { self.ranges } else { come_to }
    }

    /// Its source ranges are there: whether all of them and the destination are within the limits and the namespace. From now on it runs.
    pub(super) fn begin(&mut self, list: &[u8]) -> Result<(), StatusCode> {
        let mut total = 0;
        let ranges = list.chunks_exact(CopyRange::LEN).take(usize::from(self.ranges));
        let ranges = ranges.map(|bytes| {
            let range = CopyRange::parse(bytes).ok_or(StatusCode::INVALID_FIELD)?;
            let blocks = u64::from(range.nlb) + 1;
            if blocks > COPY_RANGE_BYTES_MAX >> self.shift {
                return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
            }
            if range.slba.checked_add(blocks).is_none_or(|end| end > self.blocks) {
                return Err(StatusCode::LBA_OUT_OF_RANGE);
            }
            total += blocks;
            Ok(ByteRange { offset: range.slba << self.shift, len: blocks << self.shift })
        });
        let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        if total > COPY_BYTES_MAX >> self.shift {
            return Err(StatusCode::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        let total = if hooks::seeded(SeededFault::CopyEndUnchecked) { 0 } else { total };
        if self.to.checked_add(total).is_none_or(|end| end > self.blocks) {
            return Err(StatusCode::LBA_OUT_OF_RANGE);
        }
        self.run = Some(RangeCopy::new(self.volume, self.volume, ranges, self.to << self.shift, COPY_STEP_BYTES as u32));
        Ok(())
    }
}
