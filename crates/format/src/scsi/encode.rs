//! From a [`Command`] to its CDB, for our own client.
//!
//! Invariant: the CDB parses to the same command, in the shortest form but for those of 6 and 12 bytes.

use super::command::*;
use super::wire::put;

/// A CDB, padded with zeroes to 16 bytes.
pub type Cdb = [u8; CDB_BYTES_MAX];

fn cdb(opcode: u8, second: u8, fields: &[(usize, &[u8])]) -> Cdb {
    let mut b = [0; CDB_BYTES_MAX];
    b[0] = opcode;
    b[1] = second;
    fields.iter().for_each(|(at, bytes)| put(&mut b, *at, bytes));
    b
}

/// With 4 bytes of LBA and 2 of blocks where they fit, otherwise with 8 and 4.
fn blocks(short: u8, long: u8, second: u8, lba: u64, blocks: u32) -> Cdb {
    match (u32::try_from(lba), u16::try_from(blocks)) {
        (Ok(lba), Ok(blocks)) => cdb(short, second, &[(2, &lba.to_be_bytes()), (7, &blocks.to_be_bytes())]),
        _ => cdb(long, second, &[(2, &lba.to_be_bytes()), (10, &blocks.to_be_bytes())]),
    }
}

impl BlockRange {
    fn flags(&self) -> u8 {
        u8::from(self.dpo) << 4 | u8::from(self.fua) << 3
    }
}

impl Command {
    /// Its CDB. Numbers that their field cannot hold lose their high bits.
    pub fn to_cdb(&self) -> Cdb {
        match *self {
            Command::TestUnitReady => cdb(0x00, 0, &[]),
            Command::RequestSense { descriptor, allocation } => cdb(0x03, descriptor.into(), &[(4, &[allocation])]),
            Command::Inquiry { page, allocation } => {
                cdb(0x12, page.is_some().into(), &[(2, &[page.unwrap_or(0)]), (3, &allocation.to_be_bytes())])
            }
            Command::ModeSense(m) => mode_sense(&m),
            Command::ModeSelect(m) => mode_select(&m),
            Command::LogSense(l) => {
                let head = [l.control << 6 | l.page & 0x3F, l.subpage];
                cdb(0x4D, 0, &[(2, &head), (5, &l.pointer.to_be_bytes()), (7, &l.allocation.to_be_bytes())])
            }
            Command::StartStopUnit(s) => {
                let what = s.condition << 4 | u8::from(s.no_flush) << 2 | u8::from(s.load_eject) << 1 | u8::from(s.start);
                cdb(0x1B, s.immediate.into(), &[(4, &[what])])
            }
            Command::PreventAllow { prevent } => cdb(0x1E, 0, &[(4, &[prevent & 3])]),
            Command::SendDiagnostic { self_test } => cdb(0x1D, u8::from(self_test) << 2, &[]),
            Command::ReadCapacity10 => cdb(0x25, 0, &[]),
            Command::ReadCapacity16 { allocation } => cdb(0x9E, 0x10, &[(10, &allocation.to_be_bytes())]),
            Command::GetLbaStatus { lba, allocation } => cdb(0x9E, 0x12, &[(2, &lba.to_be_bytes()), (10, &allocation.to_be_bytes())]),
            Command::ExtendedCopy { list_length } => cdb(0x83, 0x00, &[(10, &list_length.to_be_bytes())]),
            Command::ReceiveCopyResults { what, list_id, allocation } => receive_copy_results(what, list_id, allocation),
            Command::Unmap { list_length } => cdb(0x42, 0, &[(7, &list_length.to_be_bytes())]),
            Command::Reserve => cdb(0x16, 0, &[]),
            Command::Release => cdb(0x17, 0, &[]),
            Command::PersistentReserveIn { action, allocation } => cdb(0x5E, action.code(), &[(7, &allocation.to_be_bytes())]),
            Command::PersistentReserveOut(p) => {
                let kind = p.kind.map_or(0, |k| k.code());
                cdb(0x5F, p.action.code(), &[(2, &[kind]), (5, &p.list_length.to_be_bytes())])
            }
            Command::ReadDefectData { long: false, lists, allocation } => {
                cdb(0x37, 0, &[(2, &[lists & 0x1F]), (7, &(allocation as u16).to_be_bytes())])
            }
            Command::ReadDefectData { long: true, lists, allocation } => cdb(0xB7, lists & 0x1F, &[(6, &allocation.to_be_bytes())]),
            Command::Read(r) => blocks(0x28, 0x88, r.flags(), r.lba, r.blocks),
            Command::Write(r) => blocks(0x2A, 0x8A, r.flags(), r.lba, r.blocks),
            Command::WriteAndVerify { range, compare } => verify((0x2E, 0x8E), &range, compare.into()),
            Command::Verify { range, check } => verify((0x2F, 0x8F), &range, check_code(check)),
            Command::SynchronizeCache(c) => blocks(0x35, 0x91, u8::from(c.immediate) << 1, c.lba, c.blocks),
            Command::Prefetch(c) => blocks(0x34, 0x90, u8::from(c.immediate) << 1, c.lba, c.blocks),
            Command::WriteSame(w) if w.no_data => {
                let flags = u8::from(w.unmap) << 3 | 1;
                cdb(0x93, flags, &[(2, &w.lba.to_be_bytes()), (10, &w.blocks.to_be_bytes())])
            }
            Command::WriteSame(w) => blocks(0x41, 0x93, u8::from(w.unmap) << 3, w.lba, w.blocks),
            Command::CompareAndWrite(r) => cdb(0x89, r.flags(), &[(2, &r.lba.to_be_bytes()), (13, &[r.blocks as u8])]),
            Command::WriteAtomic { range: r, boundary } => {
                let count = (r.blocks as u16).to_be_bytes();
                cdb(0x9C, r.flags(), &[(2, &r.lba.to_be_bytes()), (10, &boundary.to_be_bytes()), (12, &count)])
            }
            Command::ReportLuns { select, allocation } => cdb(0xA0, 0, &[(2, &[select_code(select)]), (6, &allocation.to_be_bytes())]),
            Command::ReportOpcodes { query, timeouts, allocation } => report_opcodes(query, timeouts, allocation),
            Command::ReportTaskManagement { extended, allocation } => {
                cdb(0xA3, 0x0D, &[(2, &[u8::from(extended) << 7]), (6, &allocation.to_be_bytes())])
            }
            Command::ReportPortGroups { extended, allocation } => {
                cdb(0xA3, u8::from(extended) << 5 | 0x0A, &[(6, &allocation.to_be_bytes())])
            }
        }
    }
}

fn verify((short, long): (u8, u8), r: &BlockRange, check: u8) -> Cdb {
    blocks(short, long, u8::from(r.dpo) << 4 | check << 1, r.lba, r.blocks)
}
fn check_code(check: ByteCheck) -> u8 {
    match check {
        ByteCheck::Medium => 0,
        ByteCheck::All => 1,
        ByteCheck::One => 3,
    }
}
fn select_code(select: SelectReport) -> u8 {
    match select {
        SelectReport::Units => 0x00,
        SelectReport::WellKnown => 0x01,
        SelectReport::All => 0x02,
        SelectReport::Administrative => 0x10,
    }
}
fn report_opcodes(query: OpcodeQuery, timeouts: bool, allocation: u32) -> Cdb {
    let (option, opcode, action) = match query {
        OpcodeQuery::All => (0, 0, 0),
        OpcodeQuery::Opcode(opcode) => (1, opcode, 0),
        OpcodeQuery::ServiceAction(opcode, action) => (2, opcode, action),
        OpcodeQuery::Either(opcode, action) => (3, opcode, action),
    };
    let head = [u8::from(timeouts) << 7 | option, opcode];
    cdb(0xA3, 0x0C, &[(2, &head), (4, &action.to_be_bytes()), (6, &allocation.to_be_bytes())])
}

fn receive_copy_results(what: CopyResults, list_id: u8, allocation: u32) -> Cdb {
    let action = match what {
        CopyResults::Status => 0,
        CopyResults::Data => 1,
        CopyResults::OperatingParameters => 3,
        CopyResults::FailedSegment => 4,
    };
    cdb(0x84, action, &[(2, &[list_id]), (10, &allocation.to_be_bytes())])
}

fn mode_sense(m: &ModeSense) -> Cdb {
    let control = match m.control {
        PageControl::Current => 0,
        PageControl::Changeable => 1,
        PageControl::Default => 2,
        PageControl::Saved => 3,
    };
    let head = [control << 6 | m.page & 0x3F, m.subpage];
    let second = u8::from(m.no_descriptors) << 3;
    if m.long {
        return cdb(0x5A, u8::from(m.long_lba) << 4 | second, &[(2, &head), (7, &m.allocation.to_be_bytes())]);
    }
    cdb(0x1A, second, &[(2, &head), (4, &[m.allocation as u8])])
}

fn mode_select(m: &ModeSelect) -> Cdb {
    let second = u8::from(m.page_format) << 4 | u8::from(m.save);
    if m.long {
        return cdb(0x55, second, &[(7, &m.list_length.to_be_bytes())]);
    }
    cdb(0x15, second, &[(4, &[m.list_length as u8])])
}
