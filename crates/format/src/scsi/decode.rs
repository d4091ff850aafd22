//! From the fields of a CDB to a [`Command`]: one function for each shape.
//!
//! Invariant: the table has checked the bits before, and that the CDB is there in full.

use super::command::*;
use super::invalid::Invalid;
use super::reservation::{ReservationType, ReserveIn, ReserveOut};
use super::wire::{be16, be24, be32, be64, bit};

type Decoded = Result<Command, Invalid>;

pub(super) fn test_unit_ready(_: &[u8]) -> Decoded {
    Ok(Command::TestUnitReady)
}
pub(super) fn request_sense(c: &[u8]) -> Decoded {
    Ok(Command::RequestSense { descriptor: bit(c, 1, 0), allocation: c[4] })
}
pub(super) fn inquiry(c: &[u8]) -> Decoded {
    let page = bit(c, 1, 0).then_some(c[2]);
    if page.is_none() && c[2] != 0 {
        return Err(Invalid::cdb(2));
    }
    Ok(Command::Inquiry { page, allocation: be16(c, 3) })
}

fn page_control(bits: u8) -> PageControl {
    match bits & 3 {
        0 => PageControl::Current,
        1 => PageControl::Changeable,
        2 => PageControl::Default,
        _ => PageControl::Saved,
    }
}
fn mode_sense(c: &[u8], long: bool, allocation: u16) -> Decoded {
    Ok(Command::ModeSense(ModeSense {
        long,
        long_lba: long && bit(c, 1, 4),
        no_descriptors: bit(c, 1, 3),
        control: page_control(c[2] >> 6),
        page: c[2] & 0x3F,
        subpage: c[3],
        allocation,
    }))
}
pub(super) fn mode_sense6(c: &[u8]) -> Decoded {
    mode_sense(c, false, c[4].into())
}
pub(super) fn mode_sense10(c: &[u8]) -> Decoded {
    mode_sense(c, true, be16(c, 7))
}
fn mode_select(c: &[u8], long: bool, list_length: u16) -> Decoded {
    Ok(Command::ModeSelect(ModeSelect { long, page_format: bit(c, 1, 4), save: bit(c, 1, 0), list_length }))
}
pub(super) fn mode_select6(c: &[u8]) -> Decoded {
    mode_select(c, false, c[4].into())
}
pub(super) fn mode_select10(c: &[u8]) -> Decoded {
    mode_select(c, true, be16(c, 7))
}
pub(super) fn log_sense(c: &[u8]) -> Decoded {
    Ok(Command::LogSense(LogSense { control: c[2] >> 6, page: c[2] & 0x3F, subpage: c[3], pointer: be16(c, 5), allocation: be16(c, 7) }))
}
pub(super) fn start_stop(c: &[u8]) -> Decoded {
    Ok(Command::StartStopUnit(StartStop {
        immediate: bit(c, 1, 0),
        condition: c[4] >> 4,
        no_flush: bit(c, 4, 2),
        load_eject: bit(c, 4, 1),
        start: bit(c, 4, 0),
    }))
}
pub(super) fn prevent_allow(c: &[u8]) -> Decoded {
    Ok(Command::PreventAllow { prevent: c[4] & 3 })
}
pub(super) fn send_diagnostic(c: &[u8]) -> Decoded {
    Ok(Command::SendDiagnostic { self_test: bit(c, 1, 2) })
}
pub(super) fn read_capacity10(_: &[u8]) -> Decoded {
    Ok(Command::ReadCapacity10)
}
pub(super) fn read_capacity16(c: &[u8]) -> Decoded {
    Ok(Command::ReadCapacity16 { allocation: be32(c, 10) })
}

/// The range of a CDB of 6, 10, 12 or 16 bytes.
fn range(c: &[u8]) -> BlockRange {
    let (lba, blocks) = match c[0] >> 5 {
        0 => return BlockRange { lba: (be24(c, 1) & 0x1F_FFFF).into(), blocks: short_blocks(c[4]), fua: false, dpo: false },
        1 | 2 => (be32(c, 2).into(), be16(c, 7).into()),
        5 => (be32(c, 2).into(), be32(c, 6)),
        _ => (be64(c, 2), be32(c, 10)),
    };
    BlockRange { lba, blocks, fua: bit(c, 1, 3), dpo: bit(c, 1, 4) }
}
fn short_blocks(byte: u8) -> u32 {
    if byte == 0 { 256 } else { byte.into() }
}
pub(super) fn read(c: &[u8]) -> Decoded {
    Ok(Command::Read(range(c)))
}
pub(super) fn write(c: &[u8]) -> Decoded {
    Ok(Command::Write(range(c)))
}
pub(super) fn write_and_verify(c: &[u8]) -> Decoded {
    Ok(Command::WriteAndVerify { range: BlockRange { fua: true, ..range(c) }, compare: bit(c, 1, 1) })
}
pub(super) fn verify(c: &[u8]) -> Decoded {
    let check = match c[1] >> 1 & 3 {
        0 => ByteCheck::Medium,
        1 => ByteCheck::All,
        3 => ByteCheck::One,
        _ => return Err(Invalid::cdb_bit(1, 2)),
    };
    Ok(Command::Verify { range: BlockRange { fua: false, ..range(c) }, check })
}
fn cache_range(c: &[u8]) -> CacheRange {
    let BlockRange { lba, blocks, .. } = range(c);
    CacheRange { lba, blocks, immediate: bit(c, 1, 1) }
}
pub(super) fn synchronize_cache(c: &[u8]) -> Decoded {
    Ok(Command::SynchronizeCache(cache_range(c)))
}
pub(super) fn prefetch(c: &[u8]) -> Decoded {
    Ok(Command::Prefetch(cache_range(c)))
}
pub(super) fn unmap(c: &[u8]) -> Decoded {
    Ok(Command::Unmap { list_length: be16(c, 7) })
}
pub(super) fn write_same10(c: &[u8]) -> Decoded {
    let BlockRange { lba, blocks, .. } = range(c);
    Ok(Command::WriteSame(WriteSame { lba, blocks, unmap: bit(c, 1, 3), no_data: false }))
}
pub(super) fn write_same16(c: &[u8]) -> Decoded {
    let BlockRange { lba, blocks, .. } = range(c);
    Ok(Command::WriteSame(WriteSame { lba, blocks, unmap: bit(c, 1, 3), no_data: bit(c, 1, 0) }))
}
pub(super) fn compare_and_write(c: &[u8]) -> Decoded {
    Ok(Command::CompareAndWrite(BlockRange { blocks: c[13].into(), ..range(c) }))
}
pub(super) fn write_atomic(c: &[u8]) -> Decoded {
    Ok(Command::WriteAtomic { range: BlockRange { blocks: be16(c, 12).into(), ..range(c) }, boundary: be16(c, 10) })
}
pub(super) fn get_lba_status(c: &[u8]) -> Decoded {
    Ok(Command::GetLbaStatus { lba: be64(c, 2), allocation: be32(c, 10) })
}
pub(super) fn extended_copy(c: &[u8]) -> Decoded {
    Ok(Command::ExtendedCopy { list_length: be32(c, 10) })
}
pub(super) fn receive_copy_results(c: &[u8]) -> Decoded {
    let what = match c[1] & 0x1F {
        0x00 => CopyResults::Status,
        0x01 => CopyResults::Data,
        0x03 => CopyResults::OperatingParameters,
        0x04 => CopyResults::FailedSegment,
        _ => return Err(Invalid::cdb_bit(1, 4)),
    };
    Ok(Command::ReceiveCopyResults { what, list_id: c[2], allocation: be32(c, 10) })
}
pub(super) fn report_luns(c: &[u8]) -> Decoded {
    let select = match c[2] {
        0x00 => SelectReport::Units,
        0x01 => SelectReport::WellKnown,
        0x02 => SelectReport::All,
        0x10..=0x12 => SelectReport::Administrative,
        _ => return Err(Invalid::cdb(2)),
    };
    Ok(Command::ReportLuns { select, allocation: be32(c, 6) })
}
pub(super) fn report_opcodes(c: &[u8]) -> Decoded {
    let query = match c[2] & 7 {
        0 => OpcodeQuery::All,
        1 => OpcodeQuery::Opcode(c[3]),
        2 => OpcodeQuery::ServiceAction(c[3], be16(c, 4)),
        3 => OpcodeQuery::Either(c[3], be16(c, 4)),
        _ => return Err(Invalid::cdb_bit(2, 2)),
    };
    Ok(Command::ReportOpcodes { query, timeouts: bit(c, 2, 7), allocation: be32(c, 6) })
}
pub(super) fn report_task_management(c: &[u8]) -> Decoded {
    Ok(Command::ReportTaskManagement { extended: bit(c, 2, 7), allocation: be32(c, 6) })
}
pub(super) fn report_port_groups(c: &[u8]) -> Decoded {
    match c[1] >> 5 {
        format @ 0..=1 => Ok(Command::ReportPortGroups { extended: format == 1, allocation: be32(c, 6) }),
        _ => Err(Invalid::cdb_bit(1, 7)),
    }
}
pub(super) fn persistent_reserve_in(c: &[u8]) -> Decoded {
    let action = ReserveIn::parse(c[1] & 0x1F).ok_or(Invalid::cdb_bit(1, 4))?;
    Ok(Command::PersistentReserveIn { action, allocation: be16(c, 7) })
}
pub(super) fn persistent_reserve_out(c: &[u8]) -> Decoded {
    let action = ReserveOut::parse(c[1] & 0x1F).ok_or(Invalid::cdb_bit(1, 4))?;
    let kind = ReservationType::parse(c[2] & 0xF);
    let reserves = matches!(action, ReserveOut::Reserve | ReserveOut::Release);
    if c[2] >> 4 != 0 && (reserves || matches!(action, ReserveOut::Preempt | ReserveOut::PreemptAndAbort)) {
        return Err(Invalid::cdb_bit(2, 7)); // Scopes other than the logical unit are obsolete.
    }
    if kind.is_none() && reserves {
        return Err(PersistentReserveOut::BAD_TYPE);
    }
    Ok(Command::PersistentReserveOut(PersistentReserveOut { action, kind, list_length: be32(c, 5) }))
}
pub(super) fn reserve(_: &[u8]) -> Decoded {
    Ok(Command::Reserve)
}
pub(super) fn release(_: &[u8]) -> Decoded {
    Ok(Command::Release)
}
pub(super) fn read_defect_data10(c: &[u8]) -> Decoded {
    Ok(Command::ReadDefectData { long: false, lists: c[2] & 0x1F, allocation: be16(c, 7).into() })
}
pub(super) fn read_defect_data12(c: &[u8]) -> Decoded {
    Ok(Command::ReadDefectData { long: true, lists: c[1] & 0x1F, allocation: be32(c, 6) })
}
