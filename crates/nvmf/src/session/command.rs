//! Commands: judged when their capsule comes, carried out when their data is there, answered when the volume has.

use super::copy;
use super::fusing::{self, Fusing};
use super::slot::{CommandPlan, CommandSlot, CommandStage, Identifier, NO_MATE};
use super::status::status_of;
use super::{Call, Cx, QueueKind, Session, SessionPhase};
use crate::limits::{NAMESPACES_MAX, RANGES_UNDER_WAY_MAX, TRANSFER_MAX};
use crate::reservation;
use crate::view::Namespace;
use base::IoVerb;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::BLOCK_BYTES;
use cluster::reservation::Access;
use format::nvme::auth::AuthCommand;
use format::nvme::io::{BlockRange, DatasetManagement, DsmRange};
use format::nvme::{AdminOpcode, FabricsType, Field, Fuse, IoOpcode, NSID_ALL, Psdt, SglKind, Sqe, Status, StatusCode, fabrics};
use format::nvme_tcp::Fault;
use object::{Data, DataVec, IoDone, IoOp, IoRequest, VolumeRef, extents};
use rt::Buf;

/// Room for the ranges of a Dataset Management command: 256 of them (NVM command set 3.2.3).
const DSM_BYTES_MAX: u32 = 256 * DsmRange::LEN as u32;

/// Where a command's data comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    None,
    Capsule,
    Transport,
}

impl Session {
    /// Judges a new command and gives it a slot.
    pub(super) fn on_command(&mut self, cx: &mut Cx<'_>, sqe: Sqe, capsule_bytes: u32) -> Result<u16, Fault> {
        if let Some(c) = self.controller() {
            c.note_traffic();
        }
        if self.slots.len() - usize::from(self.aborted) >= usize::from(self.entries) {
            return Err(Fault::SEQUENCE); // More commands than the queue has entries.
        }
        let conflict = self.cid_in_use(sqe.cid) && !self.give_up_parked(sqe.cid);
        let judged = if conflict { Err(StatusCode::COMMAND_ID_CONFLICT.into()) } else { self.judge(cx, &sqe, capsule_bytes) };
        let (plan, len, source) = match judged {
            Ok(judged) => judged,
            Err(status) => (CommandPlan::Refuse(status), 0, Source::None),
        };
        let mut slot = CommandSlot::new(sqe, plan, cx.now, cx.view.generation);
        slot.len = len;
        if conflict {
            slot.identifier = Identifier::Another;
        }
        if source == Source::Capsule {
            hooks::reached(CoverageMark::DataInCapsule);
            slot.take_buffers();
            slot.held = len;
            slot.capsule = len;
            let covered = self.may_hold(None, len);
            self.held += len;
            self.capsule_held += len;
            self.throttled |= !covered;
        }
        if !conflict {
            self.mark_cid(sqe.cid, true);
        }
        let at = self.slots.insert(slot) as u16;
        if sqe.fuse != Fuse::Normal || self.fusing != Fusing::No {
            self.fuse(cx, at);
        }
        Ok(at)
    }

    /// Gives up the event request with this identifier, if there is one. A host that ends a controller forgets its event requests and uses
    /// their identifiers again (SPDK does); how far to look for conflicts is the controller's choice (base 3.3.3.2.2, status 03h).
    fn give_up_parked(&mut self, cid: u16) -> bool {
        let parked = |s: &&mut CommandSlot| s.stage == CommandStage::Parked && s.identifier == Identifier::Mine && s.sqe.cid == cid;
        let Some(slot) = self.slots.iter_mut().map(|(_, s)| s).find(parked) else { return false };
        slot.identifier = Identifier::GivenUp;
        true
    }

    /// The capsule is whole: run it, or get its data.
    pub(super) fn capsule_done(&mut self, cx: &mut Cx<'_>, at: u16) {
        let slot = &mut self.slots[usize::from(at)];
        match slot.plan {
            CommandPlan::Refuse(status) => return self.finish(cx, at, status, 0),
            // Nothing is asked for before the second half is there and fits.
            CommandPlan::FusedCompare { .. } if slot.mate == NO_MATE => return slot.stage = CommandStage::Paired,
            _ if !slot.status.is_success() => return self.run(cx, at),
            _ => {}
        }
        let needs = slot.needs();
        if needs == 0 {
            return self.run(cx, at);
        }
        if !self.waiting.is_empty() || !self.may_hold(Some(at), needs) {
            hooks::reached(CoverageMark::WaitsForBuffers);
            cx.stats.waited_for_buffers += 1;
            let slot = &mut self.slots[usize::from(at)];
            slot.stage = CommandStage::Waiting;
            self.waiting.push_back(at);
            return;
        }
        self.grant(cx, at, needs);
    }

    fn grant(&mut self, cx: &mut Cx<'_>, at: u16, needs: u32) {
        let slot = &mut self.slots[usize::from(at)];
        slot.held += needs;
        self.held += needs;
        if slot.filled == slot.len {
            return self.run(cx, at);
        }
        slot.take_buffers();
        slot.stage = CommandStage::Asked;
        self.large += u32::from(slot.is_large());
        self.request_data(cx, at);
    }

    /// Buffers came free: those who wait go on, in their order.
    pub(super) fn wake_waiting(&mut self, cx: &mut Cx<'_>) {
        while let Some(&at) = self.waiting.front() {
            let slot = &self.slots[usize::from(at)];
            let needs = slot.needs();
            if !self.may_hold(Some(at), needs) {
                return;
            }
            self.waiting.pop_front();
            self.grant(cx, at, needs);
        }
    }

    fn judge(&mut self, cx: &Cx<'_>, sqe: &Sqe, capsule_bytes: u32) -> Result<(CommandPlan, u32, Source), Status> {
        let fabrics = sqe.opcode == AdminOpcode::Fabrics.byte();
        let to_controller = if fabrics { sqe.fctype() & 1 != 0 } else { sqe.opcode & 1 != 0 };
        let (mut source, len) = match sqe.sgl.kind() {
            SglKind::InCapsule { offset, len } if to_controller => {
                if offset != 0 {
                    return Err(StatusCode::SGL_OFFSET_INVALID.into());
                }
                if len != capsule_bytes {
                    return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
                }
                (Source::Capsule, len)
            }
            SglKind::Transport { len } => (Source::Transport, len),
            SglKind::Other { len: 0, .. } => (Source::None, 0),
            SglKind::InCapsule { len: 0, .. } => (Source::None, 0),
            SglKind::InCapsule { .. } | SglKind::Other { .. } => return Err(StatusCode::SGL_TYPE_INVALID.into()),
        };
        if capsule_bytes > 0 && source != Source::Capsule {
            return Err(StatusCode::INVALID_FIELD.into());
        }
        if !fabrics && len > 0 && sqe.psdt != Psdt::Sgl {
            return Err(StatusCode::INVALID_FIELD.into());
        }
        if sqe.fuse != Fuse::Normal && (fabrics || !matches!(self.kind, QueueKind::Io(..))) {
            return Err(StatusCode::INVALID_FIELD.into());
        }
        if len == 0 || !to_controller {
            source = Source::None;
        }
        let (plan, wants) = match (&self.kind, self.phase) {
            (QueueKind::Fresh, SessionPhase::Fresh) if fabrics && sqe.fctype() == FabricsType::Connect.byte() => {
                (CommandPlan::Connect, fabrics::CONNECT_DATA_BYTES as u32)
            }
            (QueueKind::Fresh, _) => return Err(StatusCode::COMMAND_SEQUENCE_ERROR.into()),
            _ if self.locked && !AuthCommand::is_named_by(sqe) => return Err(StatusCode::AUTHENTICATION_REQUIRED.into()),
            (QueueKind::Admin(_), _) => (CommandPlan::Admin, self.admin_data(sqe, len)?),
            (QueueKind::Io(..), _) if fabrics => (CommandPlan::Admin, self.admin_data(sqe, len)?),
            (QueueKind::Io(controller, _), _) => {
                if !controller.is_ready() {
                    return Err(Status::retry(StatusCode::COMMAND_SEQUENCE_ERROR));
                }
                self.judge_io(cx, sqe, len)?
            }
        };
        let expected = if to_controller { wants } else { 0 };
        if to_controller && len != expected {
            return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
        }
        let len = if to_controller { len } else { 0 };
        Ok((plan, len, source))
    }

    /// Bytes that an admin or fabrics command brings: what it says, within a small bound. The controller checks further.
    fn admin_data(&self, sqe: &Sqe, len: u32) -> Result<u32, Status> {
        let fabrics = sqe.opcode == AdminOpcode::Fabrics.byte();
        if fabrics && sqe.fctype() == FabricsType::Connect.byte() {
            return Err(StatusCode::COMMAND_SEQUENCE_ERROR.into());
        }
        if len as usize > BLOCK_BYTES && (fabrics || sqe.opcode & 1 != 0) {
            return Err(StatusCode::INVALID_FIELD.into());
        }
        Ok(len)
    }

    pub(super) fn namespace(&mut self, nsid: u32) -> Result<Namespace, Status> {
        if let Some(ns) = self.namespaces.get(self.last_ns).filter(|ns| ns.nsid == nsid) {
            return Ok(*ns);
        }
        match self.namespaces.binary_search_by_key(&nsid, |ns| ns.nsid) {
            Ok(at) => {
                self.last_ns = at;
                Ok(self.namespaces[at])
            }
            // An inactive NSID is not an invalid one (base 2.0, 3.2.1.1).
            Err(_) => Err(StatusCode::INVALID_FIELD.into()),
        }
    }

    /// Judges an I/O command; what it does and how many bytes of data it moves.
    fn judge_io(&mut self, cx: &Cx<'_>, sqe: &Sqe, len: u32) -> Result<(CommandPlan, u32), Status> {
        use IoOpcode as Op;
        self.refresh(cx.view);
        let op = IoOpcode::parse(sqe.opcode).ok_or(StatusCode::INVALID_OPCODE)?;
        let verb = op.verb();
        let reserves = reservation::data_bytes(op, len);
        if verb.is_none() && reserves.is_none() {
            return Err(StatusCode::INVALID_OPCODE.into());
        }
        if sqe.fuse != Fuse::Normal {
            fusing::check(op, sqe.fuse)?;
        }
        if op == Op::Flush && sqe.nsid == NSID_ALL {
            if self.namespaces.iter().any(|ns| reservation::conflicts(op, ns.access)) {
                return Err(StatusCode::RESERVATION_CONFLICT.into());
            }
            // Every write is durable when it is answered, so there is nothing to wait for (VWC bits 2:1).
            return Ok((CommandPlan::Flush { volume: VolumeRef(u32::MAX) }, 0));
        }
        if sqe.nsid == 0 || sqe.nsid > NAMESPACES_MAX {
            return Err(StatusCode::INVALID_NAMESPACE_OR_FORMAT.into());
        }
        let ns = self.namespace(sqe.nsid)?;
        let volume = ns.volume;
        if let Some(status) = ns.closed() {
            return Err(status);
        }
        if let Some(wants) = reserves {
            return Ok((CommandPlan::Admin, wants));
        }
        if ns.access != Access::FULL && reservation::conflicts(op, ns.access) {
            return Err(StatusCode::RESERVATION_CONFLICT.into());
        }
        if ns.write_protect.is_on() && verb.is_some_and(IoVerb::changes) {
            return Err(StatusCode::NAMESPACE_WRITE_PROTECTED.into());
        }
        if op == Op::Flush {
            return Ok((CommandPlan::Flush { volume }, 0));
        }
        if op == Op::DatasetManagement {
            let dsm = DatasetManagement::of(sqe);
            let plan = CommandPlan::Trim { volume, shift: ns.shift, blocks: ns.blocks, ranges: dsm.ranges() as u16, next: 0 };
            // Linux always sends room for 256 ranges, whatever their number; what is behind the ranges means nothing.
            let named = (dsm.ranges() * DsmRange::LEN) as u32;
            return Ok((plan, if (named..=DSM_BYTES_MAX).contains(&len) { len } else { named }));
        }
        if op == Op::Copy {
            return copy::judge(sqe, &ns);
        }
        let range = BlockRange::of(sqe);
        let blocks = u64::from(range.blocks());
        let judged = if hooks::seeded(SeededFault::RangeStartJudged) { 0 } else { blocks };
        if range.slba.checked_add(judged).is_none_or(|end| end > ns.blocks) {
            if hooks::seeded(SeededFault::OutsideRetried) {
                return Err(Status::retry(StatusCode::LBA_OUT_OF_RANGE));
            }
            return Err(StatusCode::LBA_OUT_OF_RANGE.into());
        }
        let (offset, bytes) = (range.slba << ns.shift, blocks << ns.shift);
        match op {
            // With or without DEAC: what reads as zeroes takes no space, and what is promised to a volume stays promised.
            Op::WriteZeroes => return Ok((CommandPlan::Zero { volume, offset, len: bytes }, 0)),
            Op::Verify => return Ok((CommandPlan::Verify { volume, offset, len: bytes }, 0)),
            // The store keeps this mark for blocks of 4 KiB; of a smaller block it would lose the neighbours.
            Op::WriteUncorrectable if !(offset | bytes).is_multiple_of(BLOCK_BYTES as u64) => return Err(StatusCode::INVALID_FIELD.into()),
            Op::WriteUncorrectable => return Ok((CommandPlan::Uncorrectable { volume, offset, len: bytes }, 0)),
            // Directives are not supported (base 8.7).
            Op::Write if range.dtype != 0 => return Err(StatusCode::INVALID_FIELD.into()),
            _ => {}
        }
        if bytes > u64::from(TRANSFER_MAX) {
            return Err(StatusCode::INVALID_FIELD.into());
        }
        let bytes = bytes as u32;
        if len != bytes {
            return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
        }
        let plan = match op {
            _ if sqe.fuse != Fuse::Normal => fusing::plan(op, volume, offset, bytes)?,
            Op::Read => CommandPlan::Read { volume, offset, len: bytes },
            Op::Write => CommandPlan::Write { volume, offset, len: bytes },
            _ => CommandPlan::Compare { volume, offset, len: bytes },
        };
        Ok((plan, bytes))
    }

    /// Its data is there: carries it out.
    pub(super) fn run(&mut self, cx: &mut Cx<'_>, at: u16) {
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        if !slot.status.is_success() && slot.mate == NO_MATE {
            let status = slot.status;
            return self.finish(cx, at, status, 0);
        }
        if slot.judged != cx.view.generation || slot.mate != NO_MATE {
            let judged = self.judge_again(cx, at);
            let slot = &mut self.slots[usize::from(at)];
            if let Err(status) = judged {
                // A half of a fused operation takes the other with it.
                if slot.mate == NO_MATE {
                    return self.finish(cx, at, status, 0);
                }
                if slot.status.is_success() {
                    slot.status = status;
                }
            }
        }
        let slot = &mut self.slots[usize::from(at)];
        slot.stage = CommandStage::Running;
        let (volume, op) = match slot.plan {
            CommandPlan::Read { volume, offset, len } | CommandPlan::Compare { volume, offset, len } => {
                (volume, IoOp::Read { offset, len })
            }
            CommandPlan::Write { volume, offset, .. } => (volume, IoOp::Write { offset, data: core::mem::take(&mut slot.data) }),
            CommandPlan::FusedCompare { .. } | CommandPlan::FusedWrite { .. } => return self.half_there(cx, at),
            CommandPlan::Verify { volume, offset, len } => (volume, IoOp::Verify { offset, len }),
            CommandPlan::Uncorrectable { volume, offset, len } => (volume, IoOp::Uncorrectable { offset, len }),
            CommandPlan::Zero { volume, offset, len } => (volume, IoOp::Zero { offset, len }),
            CommandPlan::Copy(_) => {
                self.running += 1;
                return self.begin_copy(cx, at);
            }
            CommandPlan::Flush { volume } if volume.0 == u32::MAX => return self.finish(cx, at, Status::SUCCESS, 0),
            CommandPlan::Flush { volume } => (volume, IoOp::Flush),
            CommandPlan::Trim { .. } => {
                self.running += 1;
                return self.run_ranges(cx, at);
            }
            // Another Connect of this connection was faster.
            CommandPlan::Connect if self.phase != SessionPhase::Fresh => {
                return self.finish(cx, at, StatusCode::COMMAND_SEQUENCE_ERROR.into(), 0);
            }
            CommandPlan::Connect => {
                self.phase = SessionPhase::Connecting;
                self.running += 1;
                return cx.calls.push(Call::Connect(at));
            }
            CommandPlan::Admin => {
                self.running += 1;
                return cx.calls.push(Call::Admin(at));
            }
            CommandPlan::Refuse(status) => return self.finish(cx, at, status, 0),
        };
        slot.parts = 1;
        self.running += 1;
        cx.ios.push(IoRequest { token, volume, op });
    }

    /// Sends the next ranges of a Dataset Management command on their way; answers it when none is left.
    fn run_ranges(&mut self, cx: &mut Cx<'_>, at: u16) {
        let token = self.token_base | u64::from(at);
        let slot = &mut self.slots[usize::from(at)];
        let deallocate = DatasetManagement::of(&slot.sqe).ad || hooks::seeded(SeededFault::DsmAlwaysTrims);
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let CommandPlan::Trim { volume, shift, blocks, ranges, ref mut next } = slot.plan else { unreachable!("a command with ranges") };
        if *next == 0 {
            // All ranges are judged before the first takes effect.
            let beyond = list
                .chunks_exact(DsmRange::LEN)
                .take(if hooks::seeded(SeededFault::FirstRangeJudged) { 1 } else { usize::from(ranges) })
                .filter_map(DsmRange::parse)
                .any(|r| r.slba.checked_add(u64::from(r.blocks)).is_none_or(|end| end > blocks));
            if beyond {
                return self.finish_running(cx, at, StatusCode::LBA_OUT_OF_RANGE.into(), 0);
            }
        }
        let end = if !deallocate {
            0
        } else if hooks::seeded(SeededFault::OneRangeTrimmed) {
            1
        } else {
            ranges
        };
        let may_go_on = *next >= end || !slot.status.is_success() || self.may_go_on(cx, at);
        let slot = &mut self.slots[usize::from(at)];
        let list = slot.data.first().map_or(&[][..], |d| &d.buf);
        let CommandPlan::Trim { ref mut next, .. } = slot.plan else { unreachable!("a command with ranges") };
        while may_go_on && slot.status.is_success() && *next < end && slot.parts < RANGES_UNDER_WAY_MAX {
            let from = usize::from(*next) * DsmRange::LEN;
            *next += 1;
            let Some(range) = list.get(from..).and_then(DsmRange::parse).filter(|r| r.blocks > 0) else { continue };
            slot.parts += 1;
            let op = IoOp::Trim { offset: range.slba << shift, len: u64::from(range.blocks) << shift };
            cx.ios.push(IoRequest { token, volume, op });
        }
        if slot.parts == 0 {
            let status = slot.status;
            self.finish_running(cx, at, status, 0);
        }
    }

    /// The answer of a volume to a request with this session's token. Answers the command when it was its last.
    pub fn on_io_done(&mut self, cx: &mut Cx<'_>, done: IoDone) {
        let at = done.token as u16;
        let Some(slot) = self.slots.get_mut(usize::from(at)).filter(|s| s.stage == CommandStage::Running && s.parts > 0) else {
            return self.left_done(done.token);
        };
        slot.parts -= 1;
        if let Err(e) = done.result
            && slot.status.is_success()
        {
            slot.status = status_of(e, slot.plan.class());
        }
        match slot.plan {
            CommandPlan::Trim { .. } => return self.run_ranges(cx, at),
            CommandPlan::Copy(_) => return self.copy_done(cx, at, done),
            CommandPlan::FusedCompare { .. } => return self.pair_done(cx, at, done.result),
            CommandPlan::Read { .. } if slot.status.is_success() => {
                self.running -= 1;
                return self.finish_read(cx, at, done.data);
            }
            CommandPlan::Compare { .. } if slot.status.is_success() => {
                let same = slot.data.len() == done.data.len()
                    && slot
                        .data
                        .iter()
                        .zip(&done.data)
                        .take(if hooks::seeded(SeededFault::FirstPieceCompared) { 1 } else { usize::MAX })
                        .all(|(a, b)| *a.buf == *b.buf);
                if !same && !hooks::seeded(SeededFault::CompareAlwaysEqual) {
                    slot.status = StatusCode::COMPARE_FAILURE.into();
                }
            }
            _ => {}
        }
        let status = slot.status;
        self.finish_running(cx, at, status, 0);
    }

    /// Answers a command that was handed out as a [`Call`].
    pub fn complete(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        if self.slots.get(usize::from(at)).is_some_and(|s| s.stage == CommandStage::Running) {
            self.finish_running(cx, at, status, result);
        }
    }

    /// Answers a command with data. The data must not be longer than what the command has room for.
    pub fn complete_with(&mut self, cx: &mut Cx<'_>, at: u16, data: Buf) {
        if self.slots.get(usize::from(at)).is_some_and(|s| s.stage == CommandStage::Running) {
            self.running -= 1;
            let mut list = DataVec::new();
            list.push(Data { buf: data, crcs: Default::default() });
            self.finish_read(cx, at, list);
        }
    }

    /// Parks a command that was handed out: an event request. Answered later by [`Session::complete_parked`].
    pub fn park(&mut self, at: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(at)).filter(|s| s.stage == CommandStage::Running) {
            slot.stage = CommandStage::Parked;
            self.running -= 1;
        }
    }

    /// Answers a parked command.
    pub fn complete_parked(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        if self.slots.get(usize::from(at)).is_some_and(|s| s.stage == CommandStage::Parked) {
            self.finish(cx, at, status, result);
        }
    }

    pub(super) fn finish_running(&mut self, cx: &mut Cx<'_>, at: u16, status: Status, result: u64) {
        self.running -= 1;
        self.finish(cx, at, status, result);
    }
}

impl CommandSlot {
    /// Takes buffers for its data: one an extent for what goes to a volume, one for the rest.
    fn take_buffers(&mut self) {
        match self.plan {
            CommandPlan::Write { offset, len, .. }
            | CommandPlan::Compare { offset, len, .. }
            | CommandPlan::FusedCompare { offset, len, .. }
            | CommandPlan::FusedWrite { offset, len, .. } => {
                for (i, e) in extents(offset, len).into_iter().enumerate() {
                    self.sums[i] = e.is_aligned();
                    self.data.push(Data { buf: Buf::alloc(e.len as usize), crcs: Default::default() });
                }
            }
            _ => self.data.push(Data { buf: Buf::alloc(self.len as usize), crcs: Default::default() }),
        }
    }
}

const _: () = assert!(<u16 as Field>::LEN == 2, "a slot fits a transfer tag");
