//! Judges commands as they come: what each does, how much data it moves, and where that comes from.
//!
//! Never: takes memory or changes anything; the session carries out what was judged.

use super::Cx;
use super::copy;
use super::fusing;
use super::phase::SessionPhase;
use super::queue::{IoQueue, QueueKind};
use super::slot::CommandPlan;
use super::trim;
use crate::limits::{NAMESPACES_MAX, TRANSFER_MAX};
use crate::reservation;
use base::IoVerb;
use base::hooks::{self, SeededFault};
use base::unit::BLOCK_BYTES;
use cluster::reservation::Access;
use format::nvme::auth::AuthCommand;
use format::nvme::io::BlockRange;
use format::nvme::{AdminOpcode, FabricsType, Fuse, IoOpcode, NSID_ALL, Psdt, SglKind, Sqe, Status, StatusCode, fabrics};
use object::VolumeRef;

/// Where a command's data comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    None,
    Capsule,
    Transport,
}

/// What a command was judged to be.
pub(super) struct Judged {
    pub(super) plan: CommandPlan,
    /// Bytes of data that it brings, and from where.
    pub(super) len: u32,
    pub(super) source: Source,
    /// It is of a queue that has volumes with limits.
    pub(super) limits: bool,
}

/// Judges a command that came with so many bytes in its capsule.
pub(super) fn judge(phase: &mut SessionPhase, cx: &Cx<'_>, sqe: &Sqe, capsule_bytes: u32) -> Result<Judged, Status> {
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
    if sqe.fuse != Fuse::Normal && (fabrics || phase.queue().is_none_or(|queue| queue.kind.as_io().is_none())) {
        return Err(StatusCode::INVALID_FIELD.into());
    }
    if len == 0 || !to_controller {
        source = Source::None;
    }
    let mut limits = false;
    let (plan, wants) = match phase {
        SessionPhase::Live(queue) => {
            if queue.is_locked() && !AuthCommand::is_named_by(sqe) {
                return Err(StatusCode::AUTHENTICATION_REQUIRED.into());
            }
            match &mut queue.kind {
                QueueKind::Io(queue) if !fabrics => {
                    if !queue.controller().is_ready() {
                        return Err(Status::retry(queue.controller().why_not_ready()));
                    }
                    let judged = queue.judge(cx, sqe, len)?;
                    limits = queue.has_limits();
                    judged
                }
                QueueKind::Admin(_) | QueueKind::Io(_) => (CommandPlan::Admin, admin_data(sqe, len)?),
            }
        }
        SessionPhase::Fresh(_) if fabrics && sqe.fctype() == FabricsType::Connect.byte() => {
            (CommandPlan::Connect, fabrics::CONNECT_DATA_BYTES as u32)
        }
        _ => return Err(StatusCode::COMMAND_SEQUENCE_ERROR.into()),
    };
    let expected = if to_controller { wants } else { 0 };
    if to_controller && len != expected {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
    }
    let len = if to_controller { len } else { 0 };
    Ok(Judged { plan, len, source, limits })
}

/// Bytes that an admin or fabrics command brings: what it says, within a small bound. The controller checks further.
fn admin_data(sqe: &Sqe, len: u32) -> Result<u32, Status> {
    let fabrics = sqe.opcode == AdminOpcode::Fabrics.byte();
    if fabrics && sqe.fctype() == FabricsType::Connect.byte() {
        return Err(StatusCode::COMMAND_SEQUENCE_ERROR.into());
    }
    if len as usize > BLOCK_BYTES && (fabrics || sqe.opcode & 1 != 0) {
        return Err(StatusCode::INVALID_FIELD.into());
    }
    Ok(len)
}

impl IoQueue {
    /// Judges an I/O command; what it does and how many bytes of data it moves.
    fn judge(&mut self, cx: &Cx<'_>, sqe: &Sqe, len: u32) -> Result<(CommandPlan, u32), Status> {
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
            if self.namespaces().iter().any(|ns| reservation::conflicts(op, ns.access)) {
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
            return Ok(trim::judge(sqe, &ns, len));
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
}
