//! What a command is to do, and whether it may.
//!
//! Invariant: a command that gets as far as a job has a range that lies within its unit, and a size that is bounded.

use super::outcome::Outcome;
use super::reserve;
use super::task::Job;
use crate::limits::{COPY_LIST_BYTES_MAX, TRANSFER_MAX, WRITE_SAME_BLOCKS_MAX};
use crate::unit::{self, in_range};
use crate::view::Unit;
use base::hooks::{self, SeededFault};
use base::unit::PIECE_BYTES;
use format::scsi::{BlockRange, ByteCheck, Command, Invalid, ScsiStatus, Sense, SenseCode, SenseKey, Transfer};
use object::ATOMIC_BYTES_MAX;

/// Bytes of a range, in the unit; its length at most [`TRANSFER_MAX`].
fn range(unit: &Unit, r: &BlockRange) -> Result<(u64, u32), Outcome> {
    in_range(unit, r.lba, r.blocks.into())?;
    let len = u64::from(r.blocks) << unit.shift;
    if len > TRANSFER_MAX.into() {
        return Err(illegal_field());
    }
    Ok((r.lba << unit.shift, len as u32))
}

fn illegal_field() -> Outcome {
    unit::illegal(SenseCode::INVALID_FIELD_IN_CDB).into()
}

/// Whether the command changes what is there.
fn changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::WriteAndVerify { .. }
            | Command::WriteAtomic { .. }
            | Command::WriteSame(_)
            | Command::Unmap { .. }
            | Command::CompareAndWrite(_)
            | Command::ModeSelect(_)
    )
}

/// Whether the command reads what is there.
fn reads(command: &Command) -> bool {
    matches!(command, Command::Read(_) | Command::Verify { .. } | Command::Prefetch(_) | Command::CompareAndWrite(_))
}

/// Whether the command may be carried out now: what is served may have changed since it came.
pub(super) fn may(unit: &Unit, command: &Job) -> Result<(), Outcome> {
    let (reads, changes) = match command {
        Job::Flush => return may_flush(unit),
        Job::Read { .. } | Job::Compare { .. } | Job::Verify { .. } => (true, false),
        Job::Write { .. } | Job::Same { .. } | Job::Unmap | Job::Trim(_) => (false, true),
        Job::CompareWrite { .. } => (true, true),
        // What a reservation command may is decided with it.
        // What a copy may, is judged with its list, and before each step.
        Job::Answer(_) | Job::ModeSelect { .. } | Job::Reserve(_) | Job::Unit { .. } | Job::CopyList | Job::Copy(_) => (false, false),
    };
    may_access(unit, reads, changes)
}

/// Whether a host may do this with a unit now.
pub(super) fn may_access(unit: &Unit, reads: bool, changes: bool) -> Result<(), Outcome> {
    if reads && !unit.access.read || changes && !unit.access.write {
        return Err(Outcome::Status(ScsiStatus::ReservationConflict));
    }
    if changes && unit.read_only {
        return Err(Sense::new(SenseKey::DataProtect, SenseCode::WRITE_PROTECTED).into());
    }
    if reads || changes { is_ready(unit) } else { Ok(()) }
}

/// Whether a host may flush: a reservation forbids it as it does writes (SBC-3, the table of its reservations), write protection does not.
fn may_flush(unit: &Unit) -> Result<(), Outcome> {
    if !unit.access.write {
        return Err(Outcome::Status(ScsiStatus::ReservationConflict));
    }
    is_ready(unit)
}

/// Whether a command is carried out while another host has taken the unit whole (SPC-2 table 10, SBC-2 table 6; what is newer by its kind).
pub(super) fn passes_taken(command: &Command) -> bool {
    matches!(
        command,
        Command::Inquiry { .. }
            | Command::RequestSense { .. }
            | Command::ReadCapacity10
            | Command::ReadCapacity16 { .. }
            | Command::ReportPortGroups { .. }
            | Command::ReportOpcodes { .. }
            | Command::ReportTaskManagement { .. }
            | Command::Release
    )
}

/// While a unit is being formatted it is not (SBC-3, format operations).
fn is_ready(unit: &Unit) -> Result<(), Outcome> {
    let formatting = unit.formatting && !hooks::seeded(SeededFault::FormattedUnitReady);
    if formatting { Err(Sense::new(SenseKey::NotReady, SenseCode::BECOMING_READY).into()) } else { Ok(()) }
}

/// What a command on a unit is to do.
pub(super) fn job(unit: &Unit, target: &str, command: &Command) -> Result<Job, Outcome> {
    match command {
        Command::TestUnitReady => is_ready(unit)?,
        Command::SynchronizeCache(_) => may_flush(unit)?,
        _ => {}
    }
    if let Some(answer) = unit::answer(unit, target, command) {
        let data = answer?;
        let cut = match command.transfer() {
            Transfer::In(allocation) => format::scsi::cut(data, allocation),
            _ => data,
        };
        return Err(Outcome::Good(cut));
    }
    may_access(unit, reads(command), changes(command))?;
    let nothing = |job: Job, len: u32| if len == 0 { Job::Answer(Outcome::GOOD) } else { job };
    Ok(match command {
        Command::Read(r) => {
            let (offset, len) = range(unit, r)?;
            nothing(Job::Read { offset, len }, len)
        }
        Command::Write(r) => {
            let (offset, len) = range(unit, r)?;
            nothing(Job::Write { offset, len, verify: false, atomic: false }, len)
        }
        Command::WriteAtomic { range: r, boundary } => {
            let (offset, len) = range(unit, r)?;
            if *boundary != 0 {
                return Err(Invalid::cdb(10).into());
            }
            if u64::from(len) > ATOMIC_BYTES_MAX {
                return Err(Invalid::cdb(12).into());
            }
            // Across pieces it would be two writes.
            if offset % PIECE_BYTES + u64::from(len) > PIECE_BYTES {
                return Err(Invalid::cdb(2).into());
            }
            nothing(Job::Write { offset, len, verify: false, atomic: true }, len)
        }
        Command::WriteAndVerify { range: r, .. } => {
            let (offset, len) = range(unit, r)?;
            nothing(Job::Write { offset, len, verify: true, atomic: false }, len)
        }
        Command::Verify { range: r, check: ByteCheck::Medium } => {
            in_range(unit, r.lba, r.blocks.into())?;
            let len = u64::from(r.blocks) << unit.shift;
            if len == 0 { Job::Answer(Outcome::GOOD) } else { Job::Verify { offset: r.lba << unit.shift, len } }
        }
        Command::Verify { range: r, .. } => {
            let (offset, len) = range(unit, r)?;
            nothing(Job::Compare { offset, len }, len)
        }
        Command::CompareAndWrite(r) => {
            in_range(unit, r.lba, r.blocks.into())?;
            if r.blocks > 1 {
                return Err(Invalid::cdb(13).into());
            }
            let (offset, len) = range(unit, r)?;
            Job::CompareWrite { offset, len }
        }
        Command::SynchronizeCache(r) => {
            in_range(unit, r.lba, r.blocks.into())?;
            Job::Flush
        }
        Command::Prefetch(r) => {
            in_range(unit, r.lba, r.blocks.into())?;
            Job::Answer(Outcome::GOOD)
        }
        Command::WriteSame(w) => {
            // No count stands for all that follows (SBC-3 5.46).
            let blocks = if w.blocks == 0 { unit.blocks.saturating_sub(w.lba).max(1) } else { w.blocks.into() };
            in_range(unit, w.lba, blocks)?;
            if blocks > WRITE_SAME_BLOCKS_MAX {
                return Err(illegal_field());
            }
            let len = blocks << unit.shift;
            let at = w.lba << unit.shift;
            Job::Same { at, end: at + len, unmap: w.unmap, pattern: None }
        }
        Command::Unmap { .. } => Job::Unmap,
        Command::PersistentReserveOut(p) => reserve::job(p)?,
        Command::Reserve => Job::Unit { take: true },
        Command::Release => Job::Unit { take: false },
        Command::ModeSelect(m) => Job::ModeSelect { long: m.long },
        Command::ExtendedCopy { list_length } if *list_length > COPY_LIST_BYTES_MAX => return Err(Invalid::LIST_LENGTH.into()),
        Command::ExtendedCopy { list_length: 0 } => Job::Answer(Outcome::GOOD),
        Command::ExtendedCopy { .. } => Job::CopyList,
        _ => return Err(Invalid::Opcode.into()),
    })
}

/// Bytes that a command takes from its host.
pub(super) fn bytes_out(unit: &Unit, command: &Command) -> u64 {
    match command.transfer() {
        Transfer::Out(n) => n.into(),
        Transfer::BlocksOut(n) => n << unit.shift,
        _ => 0,
    }
}
