//! What one copy has and others get: what was in doubt when the owner's term began, and what a copy under resync misses.
//!
//! ```text
//!  Agree ────► range lock ─► number ─┐                                              ┌─► the other copies  ─► Agreed, when all ranges have
//!  CopyRange ► range lock ───────────┴─► source: what do the next blocks hold? ─────┴─► the copy that misses it ─► Copied, NotCopied
//!                                          ▲            number (if none), change │
//!                                          └──────────── the next blocks ◄───────┘
//! ```
//!
//! Blocks of a range hold data, nothing, or nothing that may be read. Each run of one kind is a change, and they go one after the other.
//!
//! Owns: the ranges of agreements and of a resync on this core, and which copies join.
//! Invariants: a range is read and sent under the range lock; the ranges of an agreement have numbers before the first of them is sent, and the mark
//! of their lane is held until all have ended; at most [`TRANSFERS_MAX`] of agreements and [`RANGES_AT_ONCE`] of resyncs are read or sent at a time.
//! Never: says which blocks, or which copy.

use super::{
    AGAIN_AFTER, Agreement, Asked, AskingPart, COPIED, Changing, Copied, CopiedPart, CopiedStage, Copies, CopyAnswer, Joining, Purpose,
    Transfer,
};
use crate::io::{Data, IoError, VolumeRef};
use crate::lanes::{Blocks, Lanes};
use crate::order::{MirrorLane, NOWHERE};
use crate::owner::{CopyRef, Event, RangeCopy};
use crate::part::Part;
use crate::range_lock::Range;
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, BlockNo};
use base::{ComponentId, CopyState, Epoch, Lane, ResyncPace, Seq, SourceContent, SourceRun, crc32c};
use format::peer::{ChangeSource, ChangeVerb, CopyOutcome};
use rt::Rt;

/// Ranges of agreements that are read or sent at a time, on one core: each holds up to a piece of data.
pub(super) const TRANSFERS_MAX: usize = 8;
/// Ranges of resyncs at a time. They have turns of their own: one that waits for a change is not to be in the way of an agreement that the change waits for.
pub(super) const RANGES_AT_ONCE: usize = 8;

impl Transfer {
    /// Whether a copy gets what another one has.
    pub(super) fn goes_to(&self, copy: &CopyRef) -> bool {
        match &self.range {
            Some(range) => copy.component == range.to.component,
            None => copy.component != self.source.component,
        }
    }
    fn of(source: CopyRef, range: Option<RangeCopy>, blocks: core::ops::Range<u64>) -> Box<Self> {
        Box::new(Self { order: None, source, at: blocks.start, end: blocks.end, until: blocks.end, run: None, begun: false, range })
    }
}

impl Copied {
    /// The blocks of a change that goes out, and what it says of its source.
    pub(super) fn goes_out(&self) -> (Range, Option<ChangeSource>) {
        let all = self.part.range();
        let Some((transfer, run)) = self.transfer.as_ref().and_then(|transfer| Some((transfer, transfer.run?))) else { return (all, None) };
        let blocks = Range { block: transfer.at, blocks: run.blocks, ..all };
        let Some(range) = &transfer.range else { return (blocks, None) };
        let last = run.chunk.is_none() || transfer.at + u64::from(run.blocks) >= transfer.end;
        // Before its last run the chunk is not complete.
        let progress_below = if last { range.progress.below } else { range.progress.below.min(range.chunk) };
        let (epoch, mask) = run.chunk.unwrap_or_default();
        let source = ChangeSource { epoch, mask, progress_below, progress_to: range.progress.to };
        (if run.chunk.is_none() { all } else { blocks }, Some(source))
    }
}

/// What an agreement of a lane is about.
pub(crate) struct AgreedOn {
    pub(crate) term: Epoch,
    pub(crate) mirror: u16,
    pub(crate) lane: Lane,
    pub(crate) base_mark: Seq,
    pub(crate) source: CopyRef,
}

impl<S: Blocks> Lanes<S> {
    /// Has a lane's ranges agreed on: parts of no request, each of a range.
    #[cold]
    #[inline(never)]
    pub(crate) fn agree(&mut self, rt: &Rt, volume: VolumeRef, on: &AgreedOn, parts: Vec<CopiedPart>) {
        let &AgreedOn { term, mirror, lane, base_mark, source } = on;
        let copies = self.copies(rt);
        let Some(ownership) = copies.volumes.get(&volume).map(|v| v.targets.ownership).filter(|o| o.term == term) else { return };
        let ranges = parts.len() as u32;
        copies.agreements.insert((volume, mirror, lane), Agreement { term, ranges, left: ranges });
        self.numbers.hold(&MirrorLane { volume, mirror, at: NOWHERE, lane }, &ownership, base_mark);
        for CopiedPart { part, own } in parts {
            let range = part.range();
            let copies = self.has_copies();
            let id = copies.insert(part, own, Purpose::Agree);
            copies.part(id).transfer = Some(Transfer::of(source, None, range.block..range.block + u64::from(range.blocks)));
            self.range_copied(rt, id);
        }
        rt.wake(rt.core());
    }
    /// Copies a range of a chunk to a copy under resync. The part is of the whole chunk.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy_range(&mut self, rt: &Rt, range: &RangeCopy, part: CopiedPart) {
        let CopiedPart { part, own } = part;
        let first = part.range().block + u64::from(range.mask.trailing_zeros());
        let end = part.range().block + u64::from(u16::BITS - range.mask.leading_zeros());
        let copies = self.copies(rt);
        let id = copies.insert(part, own, Purpose::Range);
        copies.part(id).transfer = Some(Transfer::of(range.source, Some(*range), first..end));
        // Without its range until its turn comes: hosts are not to wait for that.
        let copied = copies.part(id);
        copied.stage = CopiedStage::Queued;
        let serial = copied.serial;
        copies.ranges.push_back((id, serial));
        rt.wake(rt.core());
    }

    /// A range has its blocks.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_transfer(&mut self, rt: &Rt, id: u32) {
        let copies = self.has_copies();
        let copied = copies.part(id);
        let (place, purpose, serial, volume) = (copied.part.ordered_in(), copied.purpose, copied.serial, copied.part.volume);
        if purpose == Purpose::Agree {
            let ownership = copies.volumes[&volume].targets.ownership;
            let numbered = match self.others(id) && !hooks::seeded(SeededFault::AgreementNotSent) {
                true => self.number_next(&place, &ownership),
                false => None,
            };
            let copied = self.has_copies().part(id);
            if numbered.is_none() {
                copied.stage = CopiedStage::Alone;
                return self.settle_alone(rt, id);
            }
            copied.transfer.as_mut().expect("a range has it").order = numbered;
        }
        if purpose == Purpose::Range {
            return self.fetch(rt, id);
        }
        let copies = self.has_copies();
        copies.part(id).stage = CopiedStage::Queued;
        copies.queued.push_back((id, serial));
        rt.wake(rt.core());
    }
    /// Whether a range goes to any copy.
    fn others(&mut self, id: u32) -> bool {
        let copies = self.has_copies();
        let Copied { part, transfer, .. } = &copies.parts[(id & !COPIED) as usize];
        let transfer = transfer.as_ref().expect("a range has it");
        copies.volumes.get(&part.volume).is_some_and(|v| v.copies(part.mirror).any(|(copy, _)| transfer.goes_to(copy)))
    }
    /// There is no other copy for what was in doubt, or there are not enough numbers, and the others leave: it ends when the epoch is heard.
    #[cold]
    #[inline(never)]
    pub(super) fn settle_alone(&mut self, rt: &Rt, id: u32) {
        let copies = self.has_copies();
        let Some(Copied { part, stage: CopiedStage::Alone, .. }) = copies.get(id) else { return };
        let (volume, mirror) = (part.volume, part.mirror);
        let heard = copies.volumes.get(&volume).is_some_and(|v| v.is_heard(mirror));
        if !self.others(id) || hooks::seeded(SeededFault::AgreementNotSent) {
            if heard {
                self.finish_copied(rt, id, Ok(()), None);
            }
            return;
        }
        let copies = self.has_copies();
        let transfer = copies.part(id).transfer.take().expect("a range has it");
        let others: Vec<ComponentId> =
            copies.volumes[&volume].copies(mirror).filter(|(copy, _)| transfer.goes_to(copy)).map(|(copy, _)| copy.component).collect();
        others.into_iter().for_each(|component| copies.fails(volume, component));
        copies.part(id).transfer = Some(transfer);
    }
    /// Has the next ranges of agreements copied, as many as may be. Whether any was.
    #[cold]
    #[inline(never)]
    pub(super) fn next_transfers(&mut self, rt: &Rt) -> bool {
        let mut moved = false;
        while self.has_copies().transfers < TRANSFERS_MAX {
            let copies = self.has_copies();
            let Some((id, serial)) = copies.queued.pop_front() else { break };
            moved = true;
            let Some(copied) = copies.get(id).filter(|c| c.serial == serial) else { continue };
            copied.transfer.as_mut().expect("a range has it").begun = true;
            copies.transfers += 1;
            self.fetch(rt, id);
        }
        moved
    }
    /// Has the next ranges of resyncs copied, as many as may be beside what hosts ask. Whether any was.
    #[cold]
    #[inline(never)]
    pub(super) fn next_ranges(&mut self, rt: &Rt) -> bool {
        let (now, mut moved) = (rt.now(), false);
        while self.has_copies().background.under_way() < RANGES_AT_ONCE {
            let Copies { ranges, parts, volumes, background, .. } = self.has_copies();
            let is_there = |(id, serial): &(u32, u32)| parts.get((*id & !COPIED) as usize).filter(|copied| copied.serial == *serial);
            ranges.retain(|range| is_there(range).is_some());
            let pace = |copied: &Copied| volumes.get(&copied.part.volume).map_or(ResyncPace::Normal, |v| v.resync_pace);
            let Some(at) = ranges.iter().position(|range| is_there(range).is_some_and(|copied| background.may_begin(pace(copied), now)))
            else {
                break;
            };
            let (id, _) = ranges.remove(at).expect("just found");
            background.begins(now);
            moved = true;
            let copied = self.has_copies().part(id);
            copied.stage = CopiedStage::Waiting;
            copied.transfer.as_mut().expect("a range has it").begun = true;
            if hooks::seeded(SeededFault::RangeWithoutLock) {
                self.begin_copied(rt, id);
            } else {
                self.range_copied(rt, id);
            }
        }
        let copies = self.has_copies();
        if let (Some(due), false) = (copies.background.due(now), copies.ranges.is_empty()) {
            copies.wake_at(rt, due);
        }
        moved
    }
    /// Ranges of a volume whose turn has not come are not copied now.
    pub(super) fn end_ranges(&mut self, rt: &Rt, volume: VolumeRef) {
        for (id, serial) in self.has_copies().ranges.clone() {
            if self.has_copies().get(id).is_some_and(|copied| copied.serial == serial && copied.part.volume == volume) {
                self.finish_copied(rt, id, Err(IoError::NotOwner), None);
            }
        }
    }

    /// Asks the best copy that is left what the next blocks of a range hold.
    pub(super) fn fetch(&mut self, rt: &Rt, id: u32) {
        let others = self.others(id);
        let copies = self.has_copies();
        let Copied { part, own, bad, transfer, serial, .. } = &mut copies.parts[(id & !COPIED) as usize];
        let transfer = transfer.as_mut().expect("a range has it");
        let (is_range, serial) = (transfer.range.is_some(), *serial);
        let Some(v) = copies.volumes.get(&part.volume) else { return };
        if !others {
            if is_range {
                return self.finish_copied(rt, id, Err(IoError::NotOwner), None);
            }
            copies.part(id).stage = CopiedStage::Alone;
            return self.settle_alone(rt, id);
        }
        let usable = |(copy, state): &&(CopyRef, CopyState)| {
            let target = is_range && transfer.goes_to(copy);
            state.is_in_sync() && !target && !bad.contains(&copy.component) && (copy.node != v.here || own.is_some())
        };
        let rank =
            |copy: &CopyRef| (copy.component != transfer.source.component, copy.node != v.here, !copies.links.contains_key(&copy.node));
        let best = v.copies(part.mirror).filter(usable).map(|(copy, _)| *copy).min_by_key(rank);
        if let Some(from) = best {
            transfer.source = from;
            copies.part(id).stage = CopiedStage::Fetching(Some(from));
            return self.fetch_from(rt, id, from);
        }
        // Nobody can be asked: once more, a little later.
        bad.clear();
        let from = transfer.source;
        copies.part(id).stage = CopiedStage::Fetching(Some(from));
        let at = rt.now() + AGAIN_AFTER;
        copies.again.push((at, id, serial, from.component));
        copies.wake_at(rt, at);
    }
    pub(super) fn fetch_from(&mut self, rt: &Rt, id: u32, from: CopyRef) {
        let copies = self.has_copies();
        let Copied { part, own, transfer, serial, reads, .. } = &mut copies.parts[(id & !COPIED) as usize];
        *reads += 1;
        let transfer = transfer.as_ref().expect("a range has it");
        let Some(v) = copies.volumes.get(&part.volume) else { return };
        let what = Asked::Read(*reads);
        let of = AskingPart { id, serial: *serial, component: from.component, epoch: v.targets.ownership.epoch, what };
        let range = Range { volume: part.volume, block: transfer.at, blocks: (transfer.until - transfer.at) as u32 };
        let (own, volume) = (*own, part.volume);
        self.ask_blocks(rt, from, own, (volume, range, true), of);
    }
    /// A copy has said what the next blocks of a range hold.
    pub(super) fn fetched(&mut self, rt: &Rt, id: u32, component: ComponentId, answer: CopyAnswer) {
        let copies = self.has_copies();
        let copied = copies.part(id);
        let volume = copied.part.volume;
        let transfer = copied.transfer.as_mut().expect("a range has it");
        let CopyAnswer { outcome, data, run, .. } = answer;
        let left = transfer.until - transfer.at;
        if let (CopyOutcome::Done, Some(run)) = (outcome, run.filter(|run| (1..=left).contains(&u64::from(run.blocks)))) {
            return self.send_run(rt, id, run, data);
        }
        copied.bad.push(component);
        copies.stats.read_elsewhere += 1;
        let CopyOutcome::Media(block) = outcome else {
            copies.fails(volume, component);
            return self.fetch(rt, id);
        };
        if self.has_other_source(id) {
            return self.fetch(rt, id);
        }
        // Nobody can read it. What is before it is copied, and then that it cannot be read.
        let copied = self.has_copies().part(id);
        let transfer = copied.transfer.as_mut().expect("a range has it");
        if (transfer.at + 1..transfer.until).contains(&block.0) {
            transfer.until = block.0;
            copied.bad.clear();
            return self.fetch(rt, id);
        }
        let chunk = self.has_copies().volumes.get(&volume).map(|v| (v.targets.ownership.epoch, u16::MAX));
        self.send_run(rt, id, SourceRun { content: SourceContent::Uncorrectable, blocks: 1, chunk }, None);
    }
    pub(super) fn has_other_source(&mut self, id: u32) -> bool {
        let copies = self.has_copies();
        let Copied { part, own, bad, transfer, .. } = &copies.parts[(id & !COPIED) as usize];
        let range = transfer.as_ref().and_then(|transfer| transfer.range);
        let Some(v) = copies.volumes.get(&part.volume) else { return false };
        let usable = |copy: &CopyRef| {
            let target = range.is_some_and(|range| range.to.component == copy.component);
            !target && !bad.contains(&copy.component) && (copy.node != v.here || own.is_some())
        };
        v.copies(part.mirror).any(|(copy, state)| state.is_in_sync() && usable(copy))
    }
    /// The next blocks of a range go out.
    fn send_run(&mut self, rt: &Rt, id: u32, run: SourceRun, data: Option<Data>) {
        let copies = self.has_copies();
        let copied = copies.part(id);
        let transfer = copied.transfer.as_mut().expect("a range has it");
        transfer.run = Some(run);
        let resyncs = transfer.range.is_some() && data.is_some();
        let data = data.map(|Data { buf, crcs }| {
            let crcs = if crcs.len() == run.blocks as usize { crcs } else { buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect() };
            Data { buf, crcs }
        });
        let verb = match run.content {
            SourceContent::Data => ChangeVerb::Write,
            SourceContent::Nothing => ChangeVerb::Trim,
            SourceContent::Uncorrectable => ChangeVerb::Uncorrectable,
        };
        copied.stage = CopiedStage::Numbering(verb, data);
        copies.stats.copied_blocks += if resyncs { u64::from(run.blocks) } else { 0 };
        self.number_copied(rt, id);
    }
    /// Blocks of a range are where they belong, or could not be brought there.
    pub(super) fn run_copied_ended(&mut self, rt: &Rt, id: u32, done: bool) {
        let copied = self.has_copies().part(id);
        let place = copied.part.ordered_in();
        let CopiedStage::Changing(change) = std::mem::replace(&mut copied.stage, CopiedStage::Queued) else { unreachable!("it was sent") };
        let Changing { order, range, .. } = *change;
        let transfer = copied.transfer.as_mut().expect("a range has it");
        transfer.at = (range.block + u64::from(range.blocks)).min(transfer.end);
        transfer.until = transfer.end;
        copied.bad.clear();
        let more = transfer.at < transfer.end;
        self.change_ended(rt, &place, order.seq);
        match done {
            true if more => self.fetch(rt, id),
            true => self.finish_copied(rt, id, Ok(()), None),
            false => self.finish_copied(rt, id, Err(IoError::Failed), None),
        }
    }
    /// A range has ended.
    #[cold]
    #[inline(never)]
    pub(super) fn transfer_ended(&mut self, rt: &Rt, part: &Part, transfer: Option<Box<Transfer>>, result: Result<(), IoError>) {
        let Some(transfer) = transfer else { return };
        let copies = self.has_copies();
        rt.wake(rt.core());
        if let Some(range) = transfer.range {
            let pace = copies.volumes.get(&part.volume).map_or(ResyncPace::Normal, |v| v.resync_pace);
            if transfer.begun {
                copies.background.ended(pace, rt.now());
            }
            copies.stats.copied += u64::from(result.is_ok());
            return copies.says(part.volume, if result.is_ok() { Event::Copied(range) } else { Event::NotCopied(range) });
        }
        copies.transfers -= usize::from(transfer.begun);
        let MirrorLane { volume, mirror, lane, .. } = part.ordered_in();
        let Some(agreement) = copies.agreements.get_mut(&(volume, mirror, lane)).filter(|_| result.is_ok()) else { return };
        copies.stats.agreed += 1;
        agreement.left -= 1;
        if agreement.left == 0 {
            let &mut Agreement { term, ranges, .. } = agreement;
            copies.agreements.remove(&(volume, mirror, lane));
            copies.says(volume, Event::Agreed { term, mirror, lane, ranges });
        }
    }

    /// A copy gets the changes of its mirror that begin now.
    #[cold]
    #[inline(never)]
    pub(super) fn join(&mut self, rt: &Rt, volume: VolumeRef, copy: CopyRef, invited: Epoch) {
        let copies = self.copies(rt);
        let Some(v) = copies.volumes.get_mut(&volume) else { return };
        if !v.targets.copies.iter().any(|(known, _)| known.component == copy.component) {
            v.targets.copies.push((copy, CopyState::Resyncing));
        }
        copies.joining.retain(|j| (j.volume, j.copy.component) != (volume, copy.component));
        copies.joining.push(Joining { volume, copy, invited });
    }
    /// Says of which copies that join nothing is under way any more that they do not get. Whether of any.
    #[cold]
    #[inline(never)]
    pub(super) fn joined(&mut self, rt: &Rt) -> bool {
        let joining = std::mem::take(&mut self.has_copies().joining);
        let before = joining.len();
        for join in joining {
            let Joining { volume, copy, invited } = join;
            let misses = self.is_missed(volume, &copy) && !hooks::seeded(SeededFault::DrainedEarly);
            let copies = self.has_copies();
            if misses {
                copies.joining.push(join);
            } else {
                copies.says(volume, Event::JoinDrained { copy: copy.component, invited });
            }
        }
        let copies = self.has_copies();
        if !copies.joining.is_empty() {
            copies.wake_at(rt, rt.now() + AGAIN_AFTER);
        }
        copies.joining.len() < before
    }
    /// Whether a change of its mirror is under way that a copy does not get.
    fn is_missed(&self, volume: VolumeRef, copy: &CopyRef) -> bool {
        let Some(copies) = &self.copies else { return false };
        let misses = |copied: &Copied| {
            let of_it = (copied.part.volume, copied.part.mirror) == (volume, copy.mirror);
            let without = |change: &Changing| change.waits.iter().all(|wait| wait.copy.component != copy.component);
            of_it && matches!(&copied.stage, CopiedStage::Changing(change) if without(change))
        };
        self.changes_alone(volume, copy.mirror) || copies.parts.iter().any(|(_, copied)| misses(copied))
    }
}

/// The first byte of a block and the length of so many.
pub(super) fn extent_of(block: BlockNo, blocks: u32) -> crate::io::Extent {
    crate::io::Extent { offset: block.offset(), len: blocks * BLOCK_BYTES as u32 }
}
