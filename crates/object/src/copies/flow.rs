//! A part of a mirror with copies elsewhere, from its arrival to its answer.
//!
//! Invariants: a change is at most once in each copy, with one number; what is not answered stays until it is.
//! Never: takes a copy for gone that a command has not taken away.

use super::door::work_of_change;
use super::{
    AGAIN_AFTER, Asked, AskingPart, COPIED, Changing, Copied, CopiedPart, CopiedStage, CopiedVolume, Copies, CopyAnswer, CopyAsk, CopyMsg,
    ELSEWHERE_MAX, GRANTS_AGAIN_AFTER, OwnCopy, Purpose, REPAIRS_MAX, ReplyTo, Service, Wait, WaitState, Work, io_error,
};
use crate::io::{Data, Extent, IoError, VolumeRef};
use crate::lanes::{Blocks, Lanes, Merged, cut_out, merged};
use crate::order::{Given, MirrorLane};
use crate::owner::{CopyRef, Event};
use crate::part::{Part, PartDone, PartOp, range_bytes};
use crate::range_lock::Range;
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, BlockNo};
use base::{ComponentId, CopyState, Instant, Order, Ownership, Seq, crc32c};
use format::peer::{Change, ChangeVerb, CopyOutcome, CopyRead, RequestId};
use rt::{Buf, Rt};
use smallvec::SmallVec;
use store::OpKind;

impl<S: Blocks> Lanes<S> {
    /// What this core has of mirrors with copies elsewhere.
    #[cold]
    #[inline(never)]
    pub(crate) fn copies(&mut self, rt: &Rt) -> &mut Copies {
        self.copies.get_or_insert_with(|| Copies::new(rt))
    }
    pub(super) fn has_copies(&mut self) -> &mut Copies {
        self.copies.as_mut().expect("whoever has a part has them")
    }

    /// Takes a part of a mirror with copies elsewhere. It is answered through [`Lanes::pop`].
    #[cold]
    #[inline(never)]
    pub(crate) fn accept_copied(&mut self, rt: &Rt, part: CopiedPart) {
        let CopiedPart { part, own } = part;
        let copies = self.copies(rt);
        let volume = part.volume;
        let id = copies.insert(part, own, Purpose::Request);
        let now = rt.now();
        copies.part(id).asked = (now, copies.background.asked(now));
        let v = copies.volumes.entry(volume).or_insert_with(CopiedVolume::unknown);
        if v.service == Service::Waiting && !hooks::seeded(SeededFault::RequestsBeforeAgreement) {
            // What is in doubt comes first: it has its range before this asks for one.
            return v.waiting.push_back(id);
        }
        self.range_copied(rt, id);
    }
    /// A part begins when it has its range.
    pub(super) fn range_copied(&mut self, rt: &Rt, id: u32) {
        let copied = self.has_copies().part(id);
        copied.ranged = true;
        let (range, changes) = (copied.part.range(), copied.part.changes());
        if self.order.begin(range, id, changes) {
            self.begin_copied(rt, id);
        }
    }
    /// A part has its range.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_copied(&mut self, rt: &Rt, id: u32) {
        let copies = self.has_copies();
        let (volume, purpose) = (copies.part(id).part.volume, copies.part(id).purpose);
        let found = copies.part(id).found.take();
        let v = copies.volumes.entry(volume).or_insert_with(CopiedVolume::unknown);
        match v.service {
            Service::Stopped => return self.finish_copied(rt, id, Err(IoError::NotOwner), None),
            _ if found.is_some() => {
                let (result, data) = found.expect("just seen");
                return self.gate_by_grants(rt, id, result, data);
            }
            _ if matches!(purpose, Purpose::Agree | Purpose::Range) => return self.begin_transfer(rt, id),
            Service::Waiting => return v.waiting.push_back(id),
            Service::Serving if v.drains && purpose == Purpose::Request => return v.waiting.push_back(id),
            Service::Serving => {}
        }
        self.run_copied(rt, id);
    }
    pub(super) fn run_copied(&mut self, rt: &Rt, id: u32) {
        let Copied { part, .. } = self.has_copies().part(id);
        let whole = part.extent.is_aligned();
        let (verb, data) = match &mut part.op {
            PartOp::Trim => (ChangeVerb::Trim, None),
            PartOp::Zero => (ChangeVerb::Zero, None),
            PartOp::Uncorrectable => (ChangeVerb::Uncorrectable, None),
            PartOp::Write(data) if whole && data.is_some() => (ChangeVerb::Write, data.take()),
            PartOp::Read | PartOp::Verify | PartOp::Write(_) | PartOp::CompareWrite(_) => return self.read_copied(rt, id),
        };
        self.change_copied(rt, id, verb, data);
    }

    // ---- reads ------------------------------------------------------------------------------------------------------

    /// Reads the blocks around a part from the best copy that is left.
    fn read_copied(&mut self, rt: &Rt, id: u32) {
        let copies = self.has_copies();
        let Some(from) = copies.source_of(id) else {
            let error = copies.part(id).error;
            return self.gate(rt, id, Err(error), None);
        };
        copies.part(id).stage = CopiedStage::Reading(Some(from));
        self.ask_read(rt, id, from);
    }
    /// Asks a copy for the blocks around a part.
    fn ask_read(&mut self, rt: &Rt, id: u32, from: CopyRef) {
        let copies = self.has_copies();
        let Copied { part, own, serial, reads, .. } = copies.part(id);
        *reads += 1;
        let (range, own, serial, volume, what) = (part.range(), *own, *serial, part.volume, Asked::Read(*reads));
        let Some(v) = copies.volumes.get(&volume) else { return };
        let of = AskingPart { id, serial, component: from.component, epoch: v.targets.ownership.epoch, what };
        self.ask_blocks(rt, from, own, (volume, range, false), of);
    }
    /// Asks a copy for blocks of a volume; `run`: for as many of them as are of one kind, to copy them.
    pub(super) fn ask_blocks(
        &mut self,
        rt: &Rt,
        from: CopyRef,
        own: Option<OwnCopy>,
        (volume, range, run): (VolumeRef, Range, bool),
        of: AskingPart,
    ) {
        let copies = self.has_copies();
        let Some(v) = copies.volumes.get(&volume) else { return };
        let ownership = v.targets.ownership;
        let (block, blocks) = (range.block, range.blocks);
        if let Some(own) = own.filter(|_| from.node == v.here) {
            let reply = ReplyTo::Part { core: copies.core as u8, of };
            let order = Order { epoch: ownership.epoch, ..Order::default() };
            let kind = OpKind::Read { buf: Buf::alloc(0) };
            let (at, shard, resync) = (own.at, own.shard, false);
            return self.send_to_shard(rt, own.core, Work { at, shard, block, blocks, order, kind, reply, resync, run });
        }
        copies.stats.remote_reads += u64::from(!run);
        let read = CopyRead {
            request: RequestId::default(),
            component: from.component,
            epoch: ownership.epoch,
            period_start: ownership.period_start,
            block: BlockNo(block),
            blocks,
            run,
        };
        copies.call(rt, from.node, of, CopyAsk::Read(read));
    }
    /// The blocks around a part are there.
    fn blocks_read(&mut self, rt: &Rt, id: u32, data: Data) {
        let Copied { part, bad, .. } = self.has_copies().part(id);
        let (whole, was_bad) = (part.extent.is_aligned(), !bad.is_empty());
        match &part.op {
            PartOp::Read | PartOp::Verify => {
                let data = if whole { data } else { cut_out(part, &data.buf) };
                if was_bad {
                    self.repair(rt, id);
                }
                self.gate(rt, id, Ok(()), Some(data));
            }
            PartOp::Write(None) => self.change_copied(rt, id, ChangeVerb::Write, Some(data)),
            _ => match merged(part, data.buf) {
                Merged::Write(data) => self.change_copied(rt, id, ChangeVerb::Write, Some(data)),
                Merged::Same => self.gate(rt, id, Ok(()), None),
                Merged::Miscompare => self.gate(rt, id, Err(IoError::Miscompare), None),
            },
        }
    }
    /// What a copy could not read was read from another one: the blocks are written again, under the range lock.
    fn repair(&mut self, rt: &Rt, id: u32) {
        let copies = self.has_copies();
        let Copied { part, own, bad, .. } = copies.part(id);
        let range = part.range();
        let extent = Extent { offset: BlockNo(range.block).offset(), len: range_bytes(&range) as u32 };
        let &mut Part { origin, shard, checksum, volume, at, mirror, ownership, .. } = part;
        let again = Part { origin, request: 0, index: 0, shard, checksum, volume, at, mirror, ownership, extent, op: PartOp::Write(None) };
        let (own, bad) = (*own, bad.clone());
        self.repair_from_others(rt, CopiedPart { part: again, own }, bad);
    }
    /// A copy has lost blocks that nobody had asked for.
    pub(super) fn repair_bad(&mut self, rt: &Rt, part: CopiedPart, component: ComponentId) {
        let v = self.copies(rt).volumes.get(&part.part.volume);
        let others = |v: &CopiedVolume| v.copies(part.part.mirror).any(|(copy, state)| copy.component != component && state.is_in_sync());
        if v.is_some_and(|v| v.service == Service::Serving && others(v)) {
            self.repair_from_others(rt, part, SmallVec::from_slice(&[component]));
        }
    }
    /// Blocks are read from a copy that is not among these, and written again to all.
    fn repair_from_others(&mut self, rt: &Rt, part: CopiedPart, bad: SmallVec<[ComponentId; 1]>) {
        let copies = self.has_copies();
        if copies.repairs >= REPAIRS_MAX {
            return;
        }
        copies.repairs += 1;
        let repair = copies.insert(part.part, part.own, Purpose::Repair);
        copies.part(repair).bad = bad;
        self.range_copied(rt, repair);
    }
    /// What was read is answered when it stays: not before the changes that ran meanwhile are on all copies, or are no changes any more.
    fn gate(&mut self, rt: &Rt, id: u32, result: Result<(), IoError>, data: Option<Data>) {
        let copied = self.has_copies().part(id);
        let (range, changes) = (copied.part.range(), copied.part.changes());
        if !changes && !hooks::seeded(SeededFault::ReadUnsettled) && !self.order.settles(range, id) {
            let copied = self.has_copies().part(id);
            (copied.stage, copied.found) = (CopiedStage::Waiting, Some((result, data)));
            return;
        }
        self.gate_by_grants(rt, id, result, data);
    }
    /// And while the grants are there, looked at now.
    fn gate_by_grants(&mut self, rt: &Rt, id: u32, result: Result<(), IoError>, data: Option<Data>) {
        let copies = self.has_copies();
        let volume = copies.part(id).part.volume;
        if copies.may_answer(rt, volume) {
            return self.finish_copied(rt, id, result, data);
        }
        copies.stats.gated_reads += 1;
        let copied = copies.part(id);
        copied.stage = CopiedStage::Gated(result, data);
        let serial = copied.serial;
        copies.gated.push((id, serial));
        copies.wake_at(rt, rt.now() + GRANTS_AGAIN_AFTER);
    }
    /// Answers what has waited for grants, if they are there.
    fn open_gate(&mut self, rt: &Rt) {
        for (id, serial) in std::mem::take(&mut self.has_copies().gated) {
            let copies = self.has_copies();
            let Some(copied) = copies.get(id).filter(|c| c.serial == serial) else { continue };
            let volume = copied.part.volume;
            if !matches!(copied.stage, CopiedStage::Gated(..)) {
                continue;
            }
            if !copies.may_answer(rt, volume) {
                copies.gated.push((id, serial));
                copies.wake_at(rt, rt.now() + GRANTS_AGAIN_AFTER);
                continue;
            }
            let stage = std::mem::replace(&mut copies.part(id).stage, CopiedStage::Waiting);
            let CopiedStage::Gated(result, data) = stage else { unreachable!("seen above") };
            self.finish_copied(rt, id, result, data);
        }
    }

    // ---- changes ----------------------------------------------------------------------------------------------------

    fn change_copied(&mut self, rt: &Rt, id: u32, verb: ChangeVerb, data: Option<Data>) {
        let copied = self.has_copies().part(id);
        let blocks = copied.part.range().blocks as usize;
        let data = data.map(|Data { buf, crcs }| {
            let crcs = if crcs.len() == blocks { crcs } else { buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect() };
            Data { buf, crcs }
        });
        copied.stage = CopiedStage::Numbering(verb, data);
        self.number_copied(rt, id);
    }
    /// A change gets its number, if there is one for it, and goes to all copies. False: it has ended, or has one.
    #[cold]
    #[inline(never)]
    pub(crate) fn number_copied(&mut self, rt: &Rt, id: u32) -> bool {
        let copies = self.has_copies();
        let Some(Copied { part, stage: CopiedStage::Numbering(..), .. }) = copies.get(id) else { return false };
        let (place, volume) = (part.ordered_in(), part.volume);
        let Some(v) = copies.volumes.get(&volume).filter(|v| v.service != Service::Stopped) else { return false };
        let ownership = v.targets.ownership;
        let taken = copies.part(id).transfer.as_mut().and_then(|transfer| transfer.order.take());
        let order = match taken {
            Some(order) => Order { epoch: ownership.epoch, period_start: ownership.period_start, ..order },
            None => match self.number_of(&place, &ownership) {
                Some(order) => order,
                None => {
                    self.numbers.wait(&place, id, OpKind::Trim);
                    return true;
                }
            },
        };
        let waits = self.waits_of(rt, id, &order);
        let copies = self.has_copies();
        copies.stats.changes += 1;
        let copied = copies.part(id);
        let stage = std::mem::replace(&mut copied.stage, CopiedStage::Waiting);
        let CopiedStage::Numbering(verb, data) = stage else { unreachable!("seen above") };
        let (range, source) = copied.goes_out();
        let (components, serial): (SmallVec<[ComponentId; 3]>, u32) = (waits.iter().map(|w| w.copy.component).collect(), copied.serial);
        copied.stage = CopiedStage::Changing(Box::new(Changing { order, verb, data, waits, range, source }));
        if components.is_empty() {
            // The copy that this was for has left: nobody answers.
            self.settle(rt, id);
        }
        for component in components {
            self.send_change(rt, id, serial, component);
        }
        true
    }
    /// The next number of a lane for a change of the mirror, if there is one.
    fn number_of(&mut self, place: &MirrorLane, ownership: &Ownership) -> Option<Order> {
        if self.numbers.is_kept_free(place) {
            return None;
        }
        self.number_next(place, ownership)
    }
    /// The next number of a lane, also of those that are kept for its agreement.
    pub(super) fn number_next(&mut self, place: &MirrorLane, ownership: &Ownership) -> Option<Order> {
        self.numbers.share(place, ownership);
        let given = match self.numbers.begin(place, ownership) {
            // What was in doubt when the term began has been agreed on.
            Given::First => self.numbers.begin_first(place, ownership, Seq { term: ownership.term, counter: 0 }),
            given => given,
        };
        if let Given::Number(order) = given { Some(order) } else { None }
    }
    /// The copies that get a change.
    fn waits_of(&mut self, rt: &Rt, id: u32, order: &Order) -> SmallVec<[Wait; 3]> {
        let copies = self.has_copies();
        let Copied { part, transfer, .. } = &copies.parts[(id & !COPIED) as usize];
        let gets = |copy: &CopyRef| transfer.as_ref().is_none_or(|transfer| transfer.goes_to(copy));
        let all = copies.volumes[&part.volume].copies(part.mirror).filter(|(copy, _)| gets(copy));
        let wait = |(copy, state): &(CopyRef, CopyState)| Wait {
            copy: *copy,
            resync: !state.is_in_sync(),
            sent: order.epoch,
            since: rt.now(),
            state: WaitState::Sent,
        };
        all.map(wait).collect()
    }
    /// Sends a change to a copy that has not answered.
    pub(super) fn send_change(&mut self, rt: &Rt, id: u32, serial: u32, component: ComponentId) {
        let copies = self.has_copies();
        let core = copies.core as u8;
        let Some(Copied { part, own, serial: is, stage: CopiedStage::Changing(change), .. }) = copies.get(id) else { return };
        let Changing { order, verb, data, waits, range, source } = &mut **change;
        let Some(wait) = waits.iter_mut().find(|w| w.copy.component == component && w.state == WaitState::Sent) else { return };
        if *is != serial {
            return;
        }
        let (range, source, checksum, own, volume) = (*range, *source, part.checksum, *own, part.volume);
        let (order, verb, wait) = (Order { epoch: wait.sent, ..*order }, *verb, *wait);
        let data = data.as_mut().map(|data| Data { buf: data.buf.share(), crcs: data.crcs.clone() });
        let Some(here) = copies.volumes.get(&volume).map(|v| v.here) else { return };
        let of = AskingPart { id, serial, component, epoch: order.epoch, what: Asked::Change(order.seq) };
        let change = Change {
            request: RequestId::default(),
            component,
            order,
            resync: wait.resync,
            checksum,
            verb,
            block: BlockNo(range.block),
            blocks: range.blocks,
            source,
        };
        if wait.copy.node != here {
            return copies.call(rt, wait.copy.node, of, CopyAsk::Change { change: Box::new(change), data });
        }
        match own {
            Some(own) => self.send_to_shard(rt, own.core, work_of_change(own, &change, data, ReplyTo::Part { core, of })),
            None => self.copy_answered(rt, of, CopyOutcome::Failed.into()),
        }
    }
    /// Sends a change once more to a copy, with its number.
    pub(super) fn resend_change(&mut self, rt: &Rt, id: u32, component: ComponentId) {
        let copies = self.has_copies();
        copies.stats.resent += 1;
        let Some(Copied { part, serial, stage: CopiedStage::Changing(change), .. }) = copies.get(id) else { return };
        let (serial, place) = (*serial, part.ordered_in());
        if hooks::seeded(SeededFault::ResentWithNewNumber) {
            let (epoch, volume) = (change.order.epoch, part.volume);
            let ownership = copies.volumes[&volume].targets.ownership;
            if let Given::Number(order) = self.numbers.begin(&place, &ownership)
                && let Some(Copied { stage: CopiedStage::Changing(change), .. }) = self.has_copies().get(id)
            {
                change.order = Order { epoch, ..order };
            }
        }
        self.send_change(rt, id, serial, component);
    }
    /// To a shard of this node.
    fn send_to_shard(&mut self, rt: &Rt, core: u8, work: Work) {
        let copies = self.has_copies();
        if usize::from(core) == copies.core {
            return self.work(rt, work);
        }
        copies.msgs.push_back((core.into(), CopyMsg::Work(work)));
        rt.wake(copies.core);
    }

    // ---- answers ----------------------------------------------------------------------------------------------------

    /// A copy has answered a part.
    pub(super) fn copy_answered(&mut self, rt: &Rt, of: AskingPart, answer: CopyAnswer) {
        let AskingPart { id, serial, component, epoch: heard, what } = of;
        let copies = self.has_copies();
        let Some(copied) = copies.get(id).filter(|c| c.serial == serial) else { return };
        let volume = copied.part.volume;
        let outcome = answer.outcome;
        let asked = match &copied.stage {
            CopiedStage::Reading(_) | CopiedStage::Fetching(_) => Asked::Read(copied.reads),
            CopiedStage::Changing(change) => Asked::Change(change.order.seq),
            _ => return,
        };
        copies.is_there(rt, volume, component, outcome != CopyOutcome::NotOwner);
        let copied = copies.part(id);
        let waits = waits_for(&copied.stage, component) && (what == asked || hooks::seeded(SeededFault::AnswerTakenForAnother));
        match outcome {
            _ if !waits => return,
            // It is asked again: perhaps this node has a later epoch too, of which this part had not heard.
            CopyOutcome::StaleEpoch(_) | CopyOutcome::Closing | CopyOutcome::NotOwner => {
                let at = rt.now() + AGAIN_AFTER;
                copies.again.push((at, id, serial, component));
                if let CopyOutcome::StaleEpoch(epoch) = outcome {
                    copies.says_outranked(volume, epoch);
                }
                return copies.wake_at(rt, at);
            }
            CopyOutcome::Late => return self.copy_late(rt, id, component),
            _ => {}
        }
        match &mut copied.stage {
            CopiedStage::Reading(_) => match (outcome, answer.data) {
                (CopyOutcome::Done, Some(data)) => {
                    self.late_ones_fail(id);
                    self.blocks_read(rt, id, data);
                }
                (CopyOutcome::Uncorrectable(_), _) => self.gate(rt, id, Err(io_error(outcome)), None),
                _ => {
                    copied.bad.push(component);
                    copied.error = io_error(outcome);
                    copies.stats.read_elsewhere += 1;
                    if !matches!(outcome, CopyOutcome::Media(_)) {
                        copies.fails(volume, component);
                    }
                    self.read_copied(rt, id);
                }
            },
            CopiedStage::Changing(change) => {
                let wait = change.waits.iter_mut().find(|w| w.copy.component == component).expect("seen above");
                wait.state = match outcome {
                    CopyOutcome::Done => WaitState::Has,
                    CopyOutcome::NoSpace => WaitState::NoSpace,
                    _ => WaitState::Failed(io_error(outcome)),
                };
                let mirror = wait.copy.mirror;
                let (since, hears) = (wait.since, outcome == CopyOutcome::Done && !wait.resync);
                self.settle(rt, id);
                if hears {
                    self.has_copies().paces(rt, volume, (component, mirror), since);
                    self.heard(rt, volume, mirror, heard);
                }
            }
            CopiedStage::Fetching(_) => self.fetched(rt, id, component, answer),
            _ => unreachable!("it waits for a copy"),
        }
    }
    /// An active copy of a mirror has accepted an epoch.
    pub(super) fn heard(&mut self, rt: &Rt, volume: VolumeRef, mirror: u16, epoch: base::Epoch) {
        let copies = self.has_copies();
        let Some(v) = copies.volumes.get_mut(&volume) else { return };
        let known = v.known.entry(mirror).or_default();
        if epoch <= *known {
            return;
        }
        *known = epoch;
        for id in copies.parts_of(volume) {
            self.settle(rt, id);
        }
    }
    /// Answers a change if all have it, or nobody can.
    pub(super) fn settle(&mut self, rt: &Rt, id: u32) {
        let copies = self.has_copies();
        let Some(Copied { part, transfer, stage: CopiedStage::Changing(change), .. }) = copies.get(id) else {
            return self.settle_alone(rt, id);
        };
        let (volume, mirror, is_range) = (part.volume, part.mirror, transfer.as_ref().map(|transfer| transfer.range.is_some()));
        let open = change.waits.iter().filter(|w| w.state == WaitState::Sent).count();
        let has = change.waits.iter().filter(|w| w.state == WaitState::Has).count();
        let missing = usize::from(hooks::seeded(SeededFault::AnsweredWithOneMissing) && has > 0);
        if open > missing {
            return;
        }
        if !change.waits.iter().any(Wait::is_refused) {
            let heard = copies.volumes.get(&volume).is_some_and(|v| v.is_heard(mirror));
            let heard = heard || hooks::seeded(SeededFault::AnsweredBeforeEpochHeard);
            match is_range {
                None if has > 0 && heard => self.finish_copied(rt, id, Ok(()), None),
                Some(true) => self.run_copied_ended(rt, id, has > 0),
                Some(false) if heard => self.run_copied_ended(rt, id, true),
                _ => {}
            }
            return;
        }
        if let Some(is_range) = is_range {
            for component in change.refused_by() {
                copies.fails(volume, component);
            }
            // Others are to leave before anything of an agreement ends.
            return if is_range {
                self.run_copied_ended(rt, id, false)
            };
        }
        // As long as there are others, it is not the host's error.
        let (leave, error) = (change.leave_first(), change.error());
        if leave.is_empty() {
            return self.finish_copied(rt, id, Err(error), None);
        }
        for component in leave {
            copies.fails(volume, component);
        }
    }
    /// A part has ended, where the volume lies.
    pub(super) fn finish_copied(&mut self, rt: &Rt, id: u32, result: Result<(), IoError>, data: Option<Data>) {
        if self.fills.is_none() || !self.follows_copied(id, result) {
            self.end_copied(rt, id, result, data);
        }
    }
    /// A part has ended.
    pub(crate) fn end_copied(&mut self, rt: &Rt, id: u32, result: Result<(), IoError>, data: Option<Data>) {
        let copied = self.has_copies().parts.remove((id & !COPIED) as usize);
        let seq = copied.seq();
        let Copied { part, purpose, ranged, transfer, asked: (asked, phase), .. } = copied;
        if seq.counter > 0 {
            self.change_ended(rt, &part.ordered_in(), seq);
        }
        match purpose {
            Purpose::Request => {
                self.stats.parts += 1;
                self.has_copies().background.answered(asked, phase, rt.now());
                let data = if matches!(part.op, PartOp::Read) && result.is_ok() { data } else { None };
                self.done.push_back(PartDone { origin: part.origin, request: part.request, index: part.index, result, data });
                // Also when no shard of this core has moved.
                rt.wake(rt.core());
            }
            Purpose::Repair => {
                let copies = self.has_copies();
                copies.repairs -= 1;
                copies.stats.repaired += u64::from(result.is_ok());
            }
            Purpose::Agree | Purpose::Range => self.transfer_ended(rt, &part, transfer, result),
        }
        if part.changes() && ranged {
            self.release(rt, part.range(), id);
        }
        if !self.has_copies().draining.is_empty() {
            self.drained(rt);
        }
    }

    /// Does what is due.
    #[cold]
    pub(super) fn poll_copies(&mut self, rt: &Rt) -> bool {
        let copies = self.copies(rt);
        let mut moved = false;
        while copies.queue.pop().is_some() {
            copies.timer = None;
            moved = true;
        }
        if moved {
            let now = rt.now();
            let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut copies.again).into_iter().partition(|(at, ..)| *at <= now);
            copies.again = later;
            if let Some(at) = copies.again.iter().map(|(at, ..)| *at).min() {
                copies.wake_at(rt, at);
            }
            for (_, id, serial, component) in due {
                self.try_again(rt, id, serial, component);
            }
            self.open_gate(rt);
            self.look_at_shards(rt);
        }
        moved |= !self.has_copies().joining.is_empty() && self.joined(rt);
        // What is waited for ends in more ways than one: a read may come to wait for a change that is not to begin.
        moved |= !self.has_copies().draining.is_empty() && self.drained(rt);
        moved |= !self.has_copies().queued.is_empty() && self.next_transfers(rt);
        moved |= !self.has_copies().ranges.is_empty() && self.next_ranges(rt);
        moved
    }
    fn try_again(&mut self, rt: &Rt, id: u32, serial: u32, component: ComponentId) {
        let Some(copied) = self.has_copies().get(id).filter(|c| c.serial == serial) else { return };
        match copied.stage {
            CopiedStage::Reading(Some(from)) if from.component == component => self.ask_read(rt, id, from),
            CopiedStage::Fetching(Some(from)) if from.component == component => self.fetch_from(rt, id, from),
            CopiedStage::Changing(_) => self.resend_change(rt, id, component),
            _ => {}
        }
    }
    /// Asks a node again for what it has not answered: on a new link, or in a new epoch.
    pub(super) fn ask_again(&mut self, rt: &Rt, id: u32, of: impl Fn(&CopyRef) -> bool) {
        let Some(copied) = self.has_copies().get(id) else { return };
        match &copied.stage {
            CopiedStage::Reading(Some(from)) if of(from) => {
                let from = *from;
                self.ask_read(rt, id, from);
            }
            CopiedStage::Fetching(Some(from)) if of(from) => {
                let from = *from;
                self.fetch_from(rt, id, from);
            }
            CopiedStage::Changing(change) => {
                let open = change.waits.iter().filter(|w| w.state == WaitState::Sent && of(&w.copy));
                let open: SmallVec<[ComponentId; 3]> = open.map(|w| w.copy.component).collect();
                open.into_iter().for_each(|component| self.resend_change(rt, id, component));
            }
            _ => {}
        }
    }
    /// A part's read cannot go on where it is: it begins again, if there is another copy.
    pub(super) fn read_anew(&mut self, rt: &Rt, id: u32) {
        self.read_copied(rt, id);
    }
}

impl Copies {
    /// The best copy to read for a part: the own one, else one with a link.
    pub(super) fn source_of(&self, id: u32) -> Option<CopyRef> {
        let Copied { part, own, bad, .. } = &self.parts[(id & !COPIED) as usize];
        let v = self.volumes.get(&part.volume)?;
        let active = v.copies(part.mirror).filter(|(copy, state)| state.is_in_sync() && !bad.contains(&copy.component));
        let usable = active.map(|(copy, _)| *copy).filter(|copy| copy.node != v.here || own.is_some());
        usable.min_by_key(|copy| {
            let chosen = v.targets.read.iter().any(|r| r.component == copy.component);
            (copy.node != v.here, !self.links.contains_key(&copy.node), !chosen)
        })
    }
    /// Whether what was read may be answered now.
    pub(super) fn may_answer(&self, rt: &Rt, volume: VolumeRef) -> bool {
        let now = if hooks::seeded(SeededFault::GrantsAfterData) { self.early } else { rt.boot_clock() };
        let cell = self.volumes.get(&volume).and_then(|v| v.cell.as_ref());
        cell.is_some_and(|cell| cell.may_answer(now)) || hooks::seeded(SeededFault::ReadWithoutGrants)
    }
    /// A copy in sync has a change that was sent to it at that time.
    fn paces(&mut self, rt: &Rt, volume: VolumeRef, copy: (ComponentId, u16), since: Instant) {
        let Some(v) = self.volumes.get_mut(&volume) else { return };
        for (copy, slow) in v.paces.has(copy, since, rt.now()) {
            self.says(volume, Event::CopyPace { copy, slow });
        }
    }
    /// A node has the copy that it was asked about open, or has not. Without it for a while the copy fails.
    fn is_there(&mut self, rt: &Rt, volume: VolumeRef, component: ComponentId, there: bool) {
        if there {
            if !self.elsewhere.is_empty() {
                self.elsewhere.remove(&component);
            }
            return;
        }
        let now = rt.now();
        let (since, last) = self.elsewhere.entry(component).or_insert((now, now));
        if now.since(*last) >= ELSEWHERE_MAX {
            *since = now;
        }
        *last = now;
        if now.since(*since) >= ELSEWHERE_MAX {
            self.elsewhere.remove(&component);
            self.fails(volume, component);
        }
    }
    /// A copy fails while another one is there.
    pub(super) fn fails(&mut self, volume: VolumeRef, component: ComponentId) {
        if !self.events.iter().any(|(v, event)| *v == volume && matches!(event, Event::CopyFails(c) if *c == component)) {
            self.says(volume, Event::CopyFails(component));
        }
    }
}

impl Wait {
    /// The copy has said that it has not got it.
    fn is_refused(&self) -> bool {
        !matches!(self.state, WaitState::Sent | WaitState::Has)
    }
    fn has_failed(&self) -> bool {
        matches!(self.state, WaitState::Failed(_))
    }
}

impl Changing {
    /// Those that said that they have not got it.
    fn refused_by(&self) -> SmallVec<[ComponentId; 3]> {
        self.waits.iter().filter(|w| w.is_refused()).map(|w| w.copy.component).collect()
    }
    /// Of a change that not all have: those that have to leave before it ends.
    fn leave_first(&self) -> SmallVec<[ComponentId; 3]> {
        let (in_sync, resyncing): (SmallVec<[&Wait; 3]>, SmallVec<[&Wait; 3]>) = self.waits.iter().partition(|w| !w.resync);
        if in_sync.iter().any(|w| w.state == WaitState::Has) {
            return self.refused_by();
        }
        // It has not happened. Who may have it all the same leaves, and gets those blocks anew when it comes back; but the last copy in sync stays.
        let alone = in_sync.len() < 2;
        let failed = in_sync.iter().filter(|w| w.has_failed() && !alone);
        let may_have_it = resyncing.iter().filter(|w| w.has_failed() || w.state == WaitState::Has);
        failed.chain(may_have_it).map(|w| w.copy.component).collect()
    }
    /// What the host hears when it has not happened.
    fn error(&self) -> IoError {
        let failed = self.waits.iter().find_map(|w| if let WaitState::Failed(error) = w.state { Some(error) } else { None });
        let no_space = self.waits.iter().any(|w| w.state == WaitState::NoSpace);
        if no_space { IoError::NoSpace } else { failed.unwrap_or(IoError::Failed) }
    }
}

/// Whether a part waits for a copy.
fn waits_for(stage: &CopiedStage, component: ComponentId) -> bool {
    match stage {
        CopiedStage::Reading(from) | CopiedStage::Fetching(from) => from.is_some_and(|from| from.component == component),
        CopiedStage::Changing(change) => change.waits.iter().any(|w| w.copy.component == component && w.state == WaitState::Sent),
        _ => false,
    }
}
