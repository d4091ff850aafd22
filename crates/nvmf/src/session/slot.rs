//! A command under way.

use super::copy_plan::CopyPlan;
use super::trim::TrimPlan;
use crate::limits::{ADMIN_DATA_MAX, COPY_STEP_BYTES, LAND_BYTES_MIN, VERIFY_HELD_MAX};
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use base::{Instant, crc32c};
use format::nvme::log::ErrorLocation;
use format::nvme::{Sqe, Status};
use frontend::CommandClass;
use object::{DataVec, VolumeRef};
use rt::Buf;
use std::ops::Range;

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandStage {
    /// The data of its capsule comes in.
    Filling,
    /// It waits for buffers.
    Waiting,
    /// R2T sent, its data comes in.
    Asked,
    /// A half of a fused operation: it waits for the other half, or for the data of the other half.
    Paired,
    /// With the volume or the controller.
    Running,
    /// An event request: parked until there is an event.
    Parked,
}

/// Who has the identifier of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identifier {
    /// This command: it comes free with the answer.
    Mine,
    /// An earlier command that is under way; this one is only refused.
    Another,
    /// A later command: the host has given this one (an event request) up, and gets no answer to it.
    GivenUp,
    /// Nobody, or a later command: it was aborted and answered, but the data that it was asked for is still to come.
    Aborted,
}

/// Where a command stands with the limits of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its volume has none, or they do not count it.
    Free,
    /// They count it, and have not yet.
    Due,
    /// Its turn has come: it is counted.
    Come,
    /// It waits for its turn. It runs, and has no buffers but those of its capsule.
    Awaited,
    /// Its request itself waits for its turn, or is carried out. It has no buffers but those of its capsule.
    Requested,
}

/// In [`CommandSlot::mate`]: no other half.
pub(super) const NO_MATE: u16 = u16::MAX;

/// What a command does when its data is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandPlan {
    Read {
        volume: VolumeRef,
        offset: u64,
        len: u32,
    },
    Write {
        volume: VolumeRef,
        offset: u64,
        len: u32,
    },
    Compare {
        volume: VolumeRef,
        offset: u64,
        len: u32,
    },
    /// The first half of Compare and Write.
    FusedCompare {
        volume: VolumeRef,
        offset: u64,
        len: u32,
    },
    /// The second half.
    FusedWrite {
        volume: VolumeRef,
        offset: u64,
        len: u32,
    },
    Verify {
        volume: VolumeRef,
        offset: u64,
        len: u64,
    },
    Uncorrectable {
        volume: VolumeRef,
        offset: u64,
        len: u64,
    },
    Zero {
        volume: VolumeRef,
        offset: u64,
        len: u64,
    },
    Copy(Box<CopyPlan>),
    Trim(Box<TrimPlan>),
    Flush {
        volume: VolumeRef,
    },
    Connect,
    Admin,
    /// Nothing: it is answered with this status once its data has been thrown away.
    Refuse(Status),
}

impl CommandPlan {
    /// The volume that it reads or changes.
    pub(super) fn volume(&self) -> Option<VolumeRef> {
        match self {
            CommandPlan::Flush { volume } if volume.0 == u32::MAX => None,
            CommandPlan::Read { volume, .. }
            | CommandPlan::Write { volume, .. }
            | CommandPlan::Compare { volume, .. }
            | CommandPlan::FusedCompare { volume, .. }
            | CommandPlan::FusedWrite { volume, .. }
            | CommandPlan::Verify { volume, .. }
            | CommandPlan::Uncorrectable { volume, .. }
            | CommandPlan::Zero { volume, .. }
            | CommandPlan::Flush { volume } => Some(*volume),
            CommandPlan::Copy(copy) => Some(copy.volume()),
            CommandPlan::Trim(trim) => Some(trim.volume()),
            CommandPlan::Connect | CommandPlan::Admin | CommandPlan::Refuse(_) => None,
        }
    }
    /// What its limits count: a volume, and the first byte and bytes in it. `None`: nothing, or (a Copy) step by step.
    pub(super) fn transfer(&self) -> Option<(VolumeRef, u64, u64)> {
        match self {
            CommandPlan::Read { volume, offset, len }
            | CommandPlan::Write { volume, offset, len }
            | CommandPlan::Compare { volume, offset, len }
            | CommandPlan::FusedCompare { volume, offset, len }
            | CommandPlan::FusedWrite { volume, offset, len } => Some((*volume, *offset, u64::from(*len))),
            CommandPlan::Verify { volume, offset, len } => Some((*volume, *offset, *len)),
            _ => None,
        }
    }
    pub(super) fn class(&self) -> CommandClass {
        match self {
            CommandPlan::Read { .. } => CommandClass::Read,
            CommandPlan::Write { .. } | CommandPlan::FusedWrite { .. } | CommandPlan::Copy(_) => CommandClass::Write,
            CommandPlan::Compare { .. } | CommandPlan::FusedCompare { .. } | CommandPlan::Verify { .. } => CommandClass::Compare,
            CommandPlan::Zero { .. } | CommandPlan::Trim(_) | CommandPlan::Uncorrectable { .. } => CommandClass::Deallocate,
            CommandPlan::Flush { .. } => CommandClass::Flush,
            CommandPlan::Connect | CommandPlan::Admin | CommandPlan::Refuse(_) => CommandClass::Admin,
        }
    }
}

/// A command under way. Public for [`super::Session`]'s signatures only.
pub struct CommandSlot {
    pub(super) sqe: Sqe,
    pub(super) stage: CommandStage,
    pub(super) identifier: Identifier,
    pub(super) plan: CommandPlan,
    /// The host's data, one buffer an extent for writes.
    pub(super) data: DataVec,
    /// Whether blocks of each extent are summed as they come.
    pub(super) sums: [bool; 2],
    /// Bytes of data in all, and of them that have come.
    pub(super) len: u32,
    pub(super) filled: u32,
    /// Which extent is being filled, and up to which byte.
    at_extent: u8,
    at_byte: u32,
    /// Bytes that count against the quota, and of them that came in the capsule.
    pub(super) held: u32,
    pub(super) capsule: u32,
    /// Requests to volumes not answered.
    pub(super) parts: u16,
    pub(super) turn: Turn,
    /// The slot of the other half of a fused operation, or [`NO_MATE`].
    pub(super) mate: u16,
    pub(super) status: Status,
    /// Where in the command the cause of its failure is.
    pub(super) blame: ErrorLocation,
    pub(super) since: Instant,
    /// Generation of the view by which it was judged last.
    pub(super) judged: u64,
}

impl CommandSlot {
    pub(super) fn new(sqe: Sqe, plan: CommandPlan, now: Instant, judged: u64) -> Self {
        Self {
            sqe,
            stage: CommandStage::Filling,
            identifier: Identifier::Mine,
            plan,
            data: DataVec::new(),
            sums: [false; 2],
            len: 0,
            filled: 0,
            at_extent: 0,
            at_byte: 0,
            held: 0,
            capsule: 0,
            parts: 0,
            turn: Turn::Free,
            mate: NO_MATE,
            status: Status::SUCCESS,
            blame: ErrorLocation::NONE,
            since: now,
            judged,
        }
    }
    /// Whether its data is asked for and lands where it belongs, not in a receive buffer first.
    pub(super) fn is_large(&self) -> bool {
        self.len >= 2 * LAND_BYTES_MIN
    }
    /// Bytes of buffers that it must have before it goes on.
    #[inline]
    pub(super) fn needs(&self) -> u32 {
        let missing = if self.filled < self.len { self.len } else { 0 };
        match &self.plan {
            CommandPlan::Read { len, .. } => *len,
            CommandPlan::Copy(copy) if copy.awaits_step() => COPY_STEP_BYTES as u32,
            // Within limits it gets buffers step by step.
            CommandPlan::Copy(_) if self.turn != Turn::Free => missing,
            CommandPlan::Copy(_) => missing + COPY_STEP_BYTES as u32,
            CommandPlan::Verify { len, .. } => (*len).min(VERIFY_HELD_MAX) as u32,
            // An answer with data, such as a log page.
            CommandPlan::Admin if self.len == 0 && self.sqe.opcode & 3 == 2 => self.sqe.sgl.len().min(ADMIN_DATA_MAX),
            _ => missing,
        }
    }
    /// Whether it runs, and goes on without bytes of the host: it does not wait for buffers, or for its turn to get some.
    pub(super) fn is_worked_on(&self) -> bool {
        let waits = self.turn == Turn::Awaited || matches!(&self.plan, CommandPlan::Copy(copy) if copy.awaits_step());
        self.stage == CommandStage::Running && (!waits || hooks::seeded(SeededFault::WaitingCopyAwaited))
    }
    /// Of what it holds: bytes that it had to get.
    pub(super) fn asked(&self) -> u32 {
        self.held.saturating_sub(if self.turn == Turn::Free { 0 } else { self.capsule })
    }
    /// Copies the next bytes of data in, and sums each block while it is warm.
    pub(super) fn fill(&mut self, mut bytes: &[u8]) {
        self.filled += bytes.len() as u32;
        while !bytes.is_empty() {
            let (at, Some(data)) = (self.at_byte as usize, self.data.get_mut(usize::from(self.at_extent))) else { return };
            let n = step(at, data.buf.len()).min(bytes.len());
            let (now, later) = bytes.split_at(n);
            data.buf[at..at + n].copy_from_slice(now);
            self.came(n);
            bytes = later;
        }
    }
    /// The buffer of the extent that is being filled, and where its next bytes go, up to `most`; [`CommandSlot::landed`] takes it back. `None` when
    /// nothing is filled (the data is thrown away).
    pub(super) fn land(&mut self, most: u32) -> Option<(Buf, Range<usize>)> {
        let (at, data) = (self.at_byte as usize, self.data.get_mut(usize::from(self.at_extent))?);
        let end = data.buf.len().min(at + most as usize);
        Some((core::mem::replace(&mut data.buf, Buf::alloc(0)), at..end))
    }
    /// The buffer is back, with the next `n` bytes of data in it.
    pub(super) fn landed(&mut self, buf: Buf, n: usize) {
        self.filled += n as u32;
        let Some(data) = self.data.get_mut(usize::from(self.at_extent)) else { return };
        data.buf = buf;
        let (bytes, mut left) = (data.buf.len(), n);
        while left > 0 {
            let n = step(self.at_byte as usize, bytes).min(left);
            self.came(n);
            left -= n;
        }
    }
    /// The next `n` bytes are in their extent; they are all of one block.
    fn came(&mut self, n: usize) {
        let extent = usize::from(self.at_extent);
        let data = &mut self.data[extent];
        let at = self.at_byte as usize + n;
        self.at_byte = at as u32;
        if self.sums[extent] && at.is_multiple_of(BLOCK_BYTES) {
            if n < BLOCK_BYTES {
                hooks::reached(CoverageMark::BlockInFragments);
            }
            let summed = if hooks::seeded(SeededFault::SumOfLastFragment) { n } else { BLOCK_BYTES };
            data.crcs.push(crc32c(&data.buf[at - summed..at]));
        }
        if at == data.buf.len() {
            self.at_extent += 1;
            self.at_byte = 0;
        }
    }
    /// The checksums of the blocks in `from..from + bytes` of the data, when the range is made of whole summed blocks.
    pub(super) fn block_sums(&self, from: u32, bytes: u32) -> Option<u32> {
        let (mut at, mut from, mut left) = (0, from as usize, bytes as usize);
        let mut sums = Sums::default();
        while left > 0 {
            let data = self.data.get(at)?;
            if from >= data.buf.len() {
                from -= data.buf.len();
                at += 1;
                continue;
            }
            let n = left.min(data.buf.len() - from);
            if !self.sums[at] || !from.is_multiple_of(BLOCK_BYTES) || !n.is_multiple_of(BLOCK_BYTES) {
                return None;
            }
            sums.extend_from_slice(data.crcs.get(from / BLOCK_BYTES..(from + n) / BLOCK_BYTES)?);
            left -= n;
            from += n;
        }
        (!sums.is_empty()).then(|| crate::digest::of_blocks(&sums))
    }
    /// Whether [`CommandSlot::block_sums`] will cover a range, before its data has come.
    pub(super) fn is_summed(&self, from: u32, bytes: u32) -> bool {
        let first = self.data.first().map_or(0, |d| d.buf.len()) as u32;
        let whole = |v: u32| v.is_multiple_of(BLOCK_BYTES as u32);
        let touches_first = from < first;
        let touches_second = from + bytes > first;
        bytes > 0 && whole(from) && whole(bytes) && (!touches_first || self.sums[0]) && (!touches_second || self.sums[1] && whole(first))
    }
}

/// Bytes from `at` to the end of the block, or of the extent of `bytes`.
fn step(at: usize, bytes: usize) -> usize {
    (BLOCK_BYTES - at % BLOCK_BYTES).min(bytes - at)
}

type Sums = smallvec::SmallVec<[u32; 8]>;

// It is moved in and out of its place: a larger one costs each command more.
const _: () = assert!(size_of::<CommandSlot>() <= 256);
