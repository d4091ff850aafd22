//! EXTENDED COPY (LID1) and RECEIVE COPY RESULTS (SPC-4 6.4, 6.20 to 6.24): copies of blocks within a unit, or to another one of the target.
//!
//! ```text
//! list ─► all of it judged ─► for each step: rights ─► turns (limits) ─► memory ─► read ─► rights ─► written ─► ... ─► answered
//! ```
//!
//! Invariants: nothing is copied before the whole list is judged; a copy holds one step in memory, and none while a limit holds it back; what
//! comes after a segment that failed is not touched; results of copies are kept for the last [`COPIES_KEPT_MAX`] list identifiers.
//! Never: copies to or from what the host does not see in this target; is atomic as a whole.

use super::outcome::{Outcome, of_error};
use super::task::{Job, Phase};
use super::{Cx, Session, judge};
use crate::limits::{COPIES_KEPT_MAX, COPIES_MAX, COPY_LIMITS, TRANSFER_MAX};
use crate::unit::in_range;
use crate::view::Unit;
use format::scsi::copy::{CopyList, CopySegment, CopyState, CopyStatus, CopyTarget, ListIdUsage, build_failure};
use format::scsi::designator::{Designator, naa6};
use format::scsi::{CopyResults, Invalid, ScsiStatus, Sense, SenseCode, SenseKey};
use frontend::{ByteRange, RangeCopy};
use object::{IoDone, IoError, IoOp, IoRequest, VolumeRef};
use std::collections::VecDeque;

/// A segment that was judged.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: Unit,
    to: Unit,
    range: ByteRange,
    /// Where it goes.
    at: u64,
}

/// A copy under way.
#[derive(Debug)]
pub(super) struct CopyRun {
    list_id: u8,
    usage: ListIdUsage,
    /// Those that have not begun.
    left: VecDeque<Segment>,
    now: Option<(Segment, RangeCopy)>,
    /// The read of the step that waits.
    step: Option<(u64, u32)>,
    /// Volumes whose limits have to let it begin.
    turns: Vec<(VolumeRef, u64)>,
    segments: u16,
    bytes: u64,
}

/// How a copy has ended.
pub(super) struct CopyResult {
    list_id: u8,
    status: CopyStatus,
    /// Status and sense data of the failure.
    failed: Option<(ScsiStatus, Vec<u8>)>,
}

fn aborted(code: SenseCode) -> Outcome {
    Sense::new(SenseKey::CopyAborted, code).into()
}

impl CopyRun {
    /// The volume that the request under way acts on.
    pub(super) fn volume(&self) -> Option<VolumeRef> {
        let now = self.now.as_ref().map(|(_, run)| run.volume());
        self.turns.last().map(|(volume, _)| *volume).or(now)
    }
    /// Whether what it has asked of a volume is the second half of a step.
    fn is_writing(&self, phase: Phase) -> bool {
        phase != Phase::Turn && self.now.as_ref().is_some_and(|(_, step)| step.is_writing())
    }
    /// Memory of the step that waits.
    pub(super) fn step_bytes(&self) -> u64 {
        self.step.map_or(0, |(_, len)| len.into())
    }
    /// Whether it may go on by what is served now, as `unit` finds it.
    pub(super) fn may(&self, unit: impl Fn(u32) -> Option<Unit>) -> Result<(), Outcome> {
        let Some((Segment { from, to, .. }, _)) = &self.now else { return Ok(()) };
        let now = |then: &Unit| {
            let unit = unit(then.lun).filter(|u| u.volume == then.volume && u.shift == then.shift);
            unit.ok_or_else(|| aborted(SenseCode::COPY_TARGET_NOT_REACHABLE))
        };
        judge::may_access(&now(from)?, true, false)?;
        judge::may_access(&now(to)?, false, true)
    }
    /// The next step: it waits then. False when all is copied.
    fn next_step(&mut self) -> bool {
        loop {
            if let Some((segment, run)) = &mut self.now {
                if let Some(IoOp::Read { offset, len }) = run.read_next() {
                    self.step = Some((offset, len));
                    // The one for the source is asked for first.
                    let both = [(&segment.to, segment.at), (&segment.from, offset)];
                    self.turns = both.iter().filter(|(u, _)| u.limited).map(|(u, at)| (u.volume, *at)).collect();
                    return true;
                }
                self.segments += 1;
                self.now = None;
            }
            let Some(next) = self.left.pop_front() else { return false };
            let run = RangeCopy::new(next.from.volume, next.to.volume, [next.range], next.at, TRANSFER_MAX);
            self.now = Some((next, run));
        }
    }
    fn status(&self, state: CopyState) -> CopyStatus {
        CopyStatus { state, segments: self.segments, bytes: u32::try_from(self.bytes).unwrap_or(u32::MAX) }
    }
}

/// A segment's ranges; `None` when it copies nothing.
fn segment(s: &CopySegment, units: &[Unit]) -> Result<Option<Segment>, Outcome> {
    let unit = |index: u16| units.get(usize::from(index)).copied().ok_or_else(|| aborted(SenseCode::UNREACHABLE_COPY_TARGET));
    let (from, to) = (unit(s.source)?, unit(s.destination)?);
    let counted_in = if s.count_destination { to } else { from };
    let bytes = u64::from(s.blocks) << counted_in.shift;
    if bytes % u64::from(from.block_bytes()) != 0 || bytes % u64::from(to.block_bytes()) != 0 {
        return Err(aborted(SenseCode::INCORRECT_COPY_TARGET_TYPE));
    }
    // What is beyond the end of a unit ends the copy, not the command alone (SPC-4 6.4.6.2).
    let fits = |u: &Unit, lba: u64| in_range(u, lba, bytes >> u.shift).map_err(|_| aborted(SenseCode::NO_ADDITIONAL_SENSE));
    fits(&from, s.source_lba)?;
    fits(&to, s.destination_lba)?;
    let (offset, at) = (s.source_lba << from.shift, s.destination_lba << to.shift);
    // Copied in steps, it would read what it has written.
    if from.volume == to.volume && offset.abs_diff(at) < bytes {
        return Err(Invalid::Request(SenseCode::INVALID_OPERATION_FOR_COPY).into());
    }
    judge::may_access(&from, true, false)?;
    judge::may_access(&to, false, true)?;
    Ok((bytes > 0).then_some(Segment { from, to, range: ByteRange { offset, len: bytes }, at }))
}

impl Session {
    /// The unit that a target descriptor names, of those that the host sees.
    fn copy_unit(&self, cx: &Cx<'_>, target: &CopyTarget) -> Result<Unit, Outcome> {
        let Designator::Naa6(id) = &target.designator else { return Err(aborted(SenseCode::COPY_TARGET_NOT_REACHABLE)) };
        let units = self.units.keys().filter_map(|lun| cx.view.unit(&self.who.target, *lun, &self.who.host, self.host_id));
        let found = units.into_iter().find(|u| naa6(*u.id.as_bytes()) == *id);
        let unit = found.ok_or_else(|| aborted(SenseCode::COPY_TARGET_NOT_REACHABLE))?;
        if target.block_bytes == unit.block_bytes() { Ok(unit) } else { Err(aborted(SenseCode::INCORRECT_COPY_TARGET_TYPE)) }
    }

    /// What a list asks for; `None`: nothing.
    fn copy_of(&self, cx: &Cx<'_>, list: &[u8]) -> Result<Option<CopyRun>, Outcome> {
        let Some(CopyList { list_id, usage, targets, segments }) = CopyList::parse(list, &COPY_LIMITS)? else { return Ok(None) };
        let running = || self.tasks.iter().filter_map(|(_, t)| if let Job::Copy(run) = &t.job { Some(run) } else { None });
        if running().count() >= COPIES_MAX {
            return Err(Outcome::Status(ScsiStatus::Busy));
        }
        if usage != ListIdUsage::None && running().any(|run| run.usage != ListIdUsage::None && run.list_id == list_id) {
            return Err(Invalid::parameter(0).into());
        }
        let units = targets.iter().map(|t| self.copy_unit(cx, t)).collect::<Result<Vec<_>, _>>()?;
        let judged = segments.iter().map(|s| segment(s, &units)).collect::<Result<Vec<_>, _>>()?;
        let left = judged.into_iter().flatten().collect();
        Ok(Some(CopyRun { list_id, usage, left, now: None, step: None, turns: Vec::new(), segments: 0, bytes: 0 }))
    }

    /// The list of EXTENDED COPY has come.
    pub(super) fn begin_copy(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        let list = task.gathered();
        self.held -= core::mem::take(&mut task.held);
        match self.copy_of(cx, &list) {
            Ok(Some(run)) => {
                self.tasks[slot.into()].job = Job::Copy(Box::new(run));
                self.copy_step(cx, slot);
            }
            Ok(None) => self.finish(cx, slot, Outcome::GOOD),
            Err(outcome) => self.finish(cx, slot, outcome),
        }
    }

    /// Goes on with the next step, if it may.
    fn copy_step(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        let Job::Copy(run) = &mut task.job else { return };
        if !run.next_step() {
            return self.end_copy(cx, slot, Outcome::GOOD);
        }
        if let Err(outcome) = Self::may_task(&self.who, self.host_id, cx, task) {
            return self.end_copy(cx, slot, outcome);
        }
        self.copy_turn(cx, slot);
    }

    /// Asks for the next turn of a step; with all of them it waits for memory.
    fn copy_turn(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        let Job::Copy(run) = &mut task.job else { return };
        let Some((volume, offset)) = run.turns.last().copied() else { return self.want_memory(cx, slot) };
        let op = IoOp::Turn { offset, len: run.step_bytes(), requests: 1 };
        task.phase = Phase::Turn;
        cx.ios.push(IoRequest::new(self.token | u64::from(slot), volume, op));
    }

    /// A step has its memory: its source is read.
    pub(super) fn copy_read(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        let Job::Copy(run) = &mut task.job else { return };
        let (Some((offset, len)), Some((segment, _))) = (run.step.take(), &run.now) else { return };
        let request = IoRequest::new(self.token | u64::from(slot), segment.from.volume, IoOp::Read { offset, len });
        cx.ios.push(IoRequest { counted: segment.from.limited, ..request });
    }

    /// A volume's answer to a turn, or to half a step.
    pub(super) fn copy_done(&mut self, cx: &mut Cx<'_>, slot: u16, done: IoDone) {
        let task = &mut self.tasks[slot.into()];
        let wrote = matches!(&task.job, Job::Copy(run) if run.is_writing(task.phase));
        // What was carried out is answered so, though it might not be any more.
        let may = if wrote { Ok(()) } else { Self::may_task(&self.who, self.host_id, cx, task) };
        let Job::Copy(run) = &mut task.job else { return };
        if let (Err(outcome), _) | (Ok(()), Err(outcome)) = (may, done.result.map_err(failure)) {
            return self.end_copy(cx, slot, outcome);
        }
        if task.phase == Phase::Turn {
            run.turns.pop();
            return self.copy_turn(cx, slot);
        }
        let Some((segment, step)) = &mut run.now else { return };
        if step.is_writing() {
            run.bytes += u64::from(step.written());
            self.held -= core::mem::take(&mut task.held);
            self.copy_step(cx, slot);
            return self.grant_memory(cx);
        }
        let request = IoRequest::new(self.token | u64::from(slot), segment.to.volume, step.write(done.data));
        cx.ios.push(IoRequest { counted: segment.to.limited, ..request });
    }

    /// A copy is over: its result is kept, and it is answered.
    pub(super) fn end_copy(&mut self, cx: &mut Cx<'_>, slot: u16, outcome: Outcome) {
        if let Job::Copy(run) = &self.tasks[slot.into()].job
            && run.usage == ListIdUsage::Kept
        {
            let failed = match &outcome {
                Outcome::Good(_) => None,
                Outcome::Status(status) => Some((*status, Vec::new())),
                Outcome::Sense(sense) => Some((ScsiStatus::CheckCondition, sense.to_bytes(false))),
            };
            let state = if failed.is_some() { CopyState::Failed } else { CopyState::Done };
            let result = CopyResult { list_id: run.list_id, status: run.status(state), failed };
            self.copies.retain(|c| c.list_id != result.list_id);
            self.copies.push_back(result);
            if self.copies.len() > COPIES_KEPT_MAX {
                self.copies.pop_front();
            }
        }
        self.finish(cx, slot, outcome);
    }

    /// RECEIVE COPY RESULTS.
    pub(super) fn copy_results(&self, what: CopyResults, list_id: u8) -> Result<Vec<u8>, Invalid> {
        let running = self.tasks.iter().find_map(|(_, t)| match &t.job {
            Job::Copy(run) if run.usage != ListIdUsage::None && run.list_id == list_id => Some(run.status(CopyState::Running)),
            _ => None,
        });
        let kept = self.copies.iter().find(|c| c.list_id == list_id);
        match what {
            CopyResults::OperatingParameters => Ok(COPY_LIMITS.to_operating_parameters().to_vec()),
            CopyResults::Status => {
                let status = running.or_else(|| kept.map(|c| c.status)).ok_or(Invalid::cdb(2))?;
                Ok(status.to_bytes().to_vec())
            }
            CopyResults::FailedSegment => {
                let kept = kept.ok_or(Invalid::cdb(2))?;
                Ok(build_failure(kept.failed.as_ref().map(|(status, sense)| (status.byte(), &sense[..]))))
            }
            // Nothing is held (HELD DATA LIMIT 0).
            CopyResults::Data => Err(Invalid::cdb_bit(1, 4)),
        }
    }
}

/// What a copy ends with when a volume fails: which one, sense data in fixed format does not say.
fn failure(error: IoError) -> Outcome {
    match of_error(error, None) {
        Outcome::Sense(_) => aborted(SenseCode::THIRD_PARTY_DEVICE_FAILURE),
        other => other,
    }
}
