//! Commands of a block device: what a CDB says (SPC-4, SBC-3 and SBC-4).
//!
//! Invariants: every bit that the table of commands (`supported`) neither evaluates nor passes over is refused when it is set, with its
//! place; so protection information (RDPROTECT, WRPROTECT, VRPROTECT), NACA and reserved bits are.
//! Never: compares a range with a capacity, or a length with what was sent.

use super::invalid::Invalid;
use super::reservation::{ReservationType, ReserveIn, ReserveOut};
use super::supported;

/// Bytes of a CDB as the iSCSI header and this module hold it.
pub const CDB_BYTES_MAX: usize = 16;

/// Blocks that a command reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRange {
    /// First block.
    pub lba: u64,
    /// Blocks; may be 0. The 0 of READ (6) and WRITE (6) is 256 here, as it is meant.
    pub blocks: u32,
    /// Force unit access.
    pub fua: bool,
    /// Disable page out: a hint.
    pub dpo: bool,
}

/// BYTCHK of VERIFY (SBC-4 5.40).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteCheck {
    /// 00b: read the medium, no data is sent.
    Medium,
    /// 01b: compare all blocks with as many that are sent.
    All,
    /// 11b: compare each block with the one that is sent.
    One,
}

/// PC of MODE SENSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageControl {
    /// Current values.
    Current,
    /// A bit is one when the host may change it.
    Changeable,
    /// Default values.
    Default,
    /// Saved values.
    Saved,
}

/// MODE SENSE (6) and (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSense {
    /// The 10-byte command: its answer has the longer header.
    pub long: bool,
    /// Long LBA accepted (LLBAA): the block descriptor may have 16 bytes.
    pub long_lba: bool,
    /// Disable block descriptors (DBD).
    pub no_descriptors: bool,
    /// Which values.
    pub control: PageControl,
    /// Page; 3Fh all.
    pub page: u8,
    /// Subpage; FFh all.
    pub subpage: u8,
    /// Allocation length, bytes.
    pub allocation: u16,
}

/// MODE SELECT (6) and (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSelect {
    /// The 10-byte command: its list has the longer header.
    pub long: bool,
    /// Page format (PF): pages are as the standard has them.
    pub page_format: bool,
    /// Save pages (SP).
    pub save: bool,
    /// Parameter list length, bytes.
    pub list_length: u16,
}

/// LOG SENSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSense {
    /// PC, 2 bits: 1 is current cumulative values.
    pub control: u8,
    /// Page.
    pub page: u8,
    /// Subpage.
    pub subpage: u8,
    /// Parameter pointer: the first parameter code that is wanted.
    pub pointer: u16,
    /// Allocation length, bytes.
    pub allocation: u16,
}

/// START STOP UNIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartStop {
    /// Answer before it is done (IMMED).
    pub immediate: bool,
    /// POWER CONDITION, 4 bits; 0: START and LOEJ count.
    pub condition: u8,
    /// Do not flush caches first (NO_FLUSH).
    pub no_flush: bool,
    /// Load or eject (LOEJ).
    pub load_eject: bool,
    /// Start; otherwise stop.
    pub start: bool,
}

/// SYNCHRONIZE CACHE and PRE-FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRange {
    /// First block.
    pub lba: u64,
    /// Blocks; 0: to the end.
    pub blocks: u32,
    /// Answer before it is done (IMMED).
    pub immediate: bool,
}

/// WRITE SAME (10) and (16). ANCHOR is refused, for nothing is ever anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSame {
    /// First block.
    pub lba: u64,
    /// Blocks; 0: to the end, unless WSNZ is one.
    pub blocks: u32,
    /// Blocks may be unmapped instead of written.
    pub unmap: bool,
    /// No Data-Out buffer (NDOB): zeroes are meant. Only in the 16-byte command.
    pub no_data: bool,
}

/// What RECEIVE COPY RESULTS asks for (SPC-3 6.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyResults {
    /// 00h: status of a copy.
    Status,
    /// 01h: held data.
    Data,
    /// 03h: what this copy manager can do.
    OperatingParameters,
    /// 04h: why a copy failed.
    FailedSegment,
}

/// SELECT REPORT of REPORT LUNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectReport {
    /// 00h: logical units that are not well known.
    Units,
    /// 01h: well known logical units.
    WellKnown,
    /// 02h: both.
    All,
    /// 10h to 12h: administrative and subsidiary logical units, of which there are none.
    Administrative,
}

/// REPORTING OPTIONS of REPORT SUPPORTED OPERATION CODES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpcodeQuery {
    /// 000b.
    All,
    /// 001b: one that has no service actions.
    Opcode(u8),
    /// 010b: one with its service action.
    ServiceAction(u8, u16),
    /// 011b: as the command has service actions or not.
    Either(u8, u16),
}

/// PERSISTENT RESERVE OUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentReserveOut {
    /// Service action.
    pub action: ReserveOut,
    /// TYPE; `None` is a reserved code. REGISTER and its kin and CLEAR do not use it. Refuse what needs it with [`Self::BAD_TYPE`]. (RESERVE
    /// and RELEASE with such a code are refused already.)
    pub kind: Option<ReservationType>,
    /// Parameter list length, bytes.
    pub list_length: u32,
}

impl PersistentReserveOut {
    /// The type is none.
    pub const BAD_TYPE: Invalid = Invalid::cdb_bit(2, 3);
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// Descriptor format (DESC).
        descriptor: bool,
        /// Allocation length, bytes.
        allocation: u8,
    },
    /// INQUIRY.
    Inquiry {
        /// Page of vital product data (EVPD); `None`: standard data.
        page: Option<u8>,
        /// Allocation length, bytes.
        allocation: u16,
    },
    /// MODE SENSE.
    ModeSense(ModeSense),
    /// MODE SELECT.
    ModeSelect(ModeSelect),
    /// LOG SENSE.
    LogSense(LogSense),
    /// START STOP UNIT.
    StartStopUnit(StartStop),
    /// PREVENT ALLOW MEDIUM REMOVAL.
    PreventAllow {
        /// Bit 0 prevents removal.
        prevent: u8,
    },
    /// SEND DIAGNOSTIC without a list.
    SendDiagnostic {
        /// The default self-test.
        self_test: bool,
    },
    /// READ CAPACITY (10).
    ReadCapacity10,
    /// READ CAPACITY (16).
    ReadCapacity16 {
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// READ (6), (10), (12), (16).
    Read(BlockRange),
    /// WRITE (6), (10), (12), (16).
    Write(BlockRange),
    /// WRITE AND VERIFY (10), (12), (16).
    WriteAndVerify {
        /// The blocks; FUA is implied.
        range: BlockRange,
        /// Compare what is on the medium with what was sent (BYTCHK).
        compare: bool,
    },
    /// VERIFY (10), (12), (16).
    Verify {
        /// The blocks.
        range: BlockRange,
        /// What to compare with.
        check: ByteCheck,
    },
    /// SYNCHRONIZE CACHE (10), (16).
    SynchronizeCache(CacheRange),
    /// PRE-FETCH (10), (16).
    Prefetch(CacheRange),
    /// UNMAP. ANCHOR is refused.
    Unmap {
        /// Parameter list length, bytes.
        list_length: u16,
    },
    /// WRITE SAME (10), (16).
    WriteSame(WriteSame),
    /// COMPARE AND WRITE. The host sends twice as many blocks: those to compare with, then those to write.
    CompareAndWrite(BlockRange),
    /// WRITE ATOMIC (16).
    WriteAtomic {
        /// The blocks.
        range: BlockRange,
        /// ATOMIC BOUNDARY, blocks; 0: the whole write is atomic.
        boundary: u16,
    },
    /// GET LBA STATUS.
    GetLbaStatus {
        /// First block.
        lba: u64,
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// EXTENDED COPY (LID1).
    ExtendedCopy {
        /// Parameter list length, bytes.
        list_length: u32,
    },
    /// RECEIVE COPY RESULTS.
    ReceiveCopyResults {
        /// Service action.
        what: CopyResults,
        /// List identifier.
        list_id: u8,
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// REPORT LUNS.
    ReportLuns {
        /// Which.
        select: SelectReport,
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportOpcodes {
        /// Which.
        query: OpcodeQuery,
        /// Return command timeouts descriptors (RCTD).
        timeouts: bool,
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportTaskManagement {
        /// The long form (REPD).
        extended: bool,
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// REPORT TARGET PORT GROUPS.
    ReportPortGroups {
        /// The extended header.
        extended: bool,
        /// Allocation length, bytes.
        allocation: u32,
    },
    /// PERSISTENT RESERVE IN.
    PersistentReserveIn {
        /// Service action.
        action: ReserveIn,
        /// Allocation length, bytes.
        allocation: u16,
    },
    /// PERSISTENT RESERVE OUT.
    PersistentReserveOut(PersistentReserveOut),
    /// RESERVE (6), (10) of the whole logical unit (SPC-2).
    Reserve,
    /// RELEASE (6), (10) (SPC-2).
    Release,
    /// READ DEFECT DATA (10), (12).
    ReadDefectData {
        /// The 12-byte command: its answer has the longer header.
        long: bool,
        /// Bits 4:3 PLIST and GLIST, bits 2:0 the format, as the answer repeats them.
        lists: u8,
        /// Allocation length, bytes.
        allocation: u32,
    },
}

/// What a command transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Nothing.
    None,
    /// At most so many bytes to the host.
    In(u32),
    /// So many bytes from the host.
    Out(u32),
    /// So many blocks to the host.
    BlocksIn(u64),
    /// So many blocks from the host.
    BlocksOut(u64),
}

impl Command {
    /// From a CDB. What follows the command in `cdb` is padding.
    ///
    /// # Errors
    /// An operation code or a service action that is not in the table, or a field that says what it must not.
    pub fn parse(cdb: &[u8]) -> Result<Self, Invalid> {
        let opcode = *cdb.first().ok_or(Invalid::Opcode)?;
        let entry = supported::find(opcode, cdb.get(1).copied().unwrap_or(0))?;
        entry.check(cdb)?;
        (entry.decode)(cdb)
    }
    /// What it transfers. The host may expect more or less; then the residual says so.
    pub fn transfer(&self) -> Transfer {
        match *self {
            Command::TestUnitReady
            | Command::StartStopUnit(_)
            | Command::PreventAllow { .. }
            | Command::SendDiagnostic { .. }
            | Command::SynchronizeCache(_)
            | Command::Prefetch(_)
            | Command::Reserve
            | Command::Release => Transfer::None,
            Command::RequestSense { allocation, .. } => Transfer::In(allocation.into()),
            Command::Inquiry { allocation, .. } | Command::PersistentReserveIn { allocation, .. } => Transfer::In(allocation.into()),
            Command::ModeSense(m) => Transfer::In(m.allocation.into()),
            Command::LogSense(l) => Transfer::In(l.allocation.into()),
            Command::ReadCapacity10 => Transfer::In(8),
            Command::ReadCapacity16 { allocation }
            | Command::GetLbaStatus { allocation, .. }
            | Command::ReceiveCopyResults { allocation, .. }
            | Command::ReportLuns { allocation, .. }
            | Command::ReportOpcodes { allocation, .. }
            | Command::ReportTaskManagement { allocation, .. }
            | Command::ReportPortGroups { allocation, .. }
            | Command::ReadDefectData { allocation, .. } => Transfer::In(allocation),
            Command::ModeSelect(m) => Transfer::Out(m.list_length.into()),
            Command::Unmap { list_length } => Transfer::Out(list_length.into()),
            Command::ExtendedCopy { list_length } => Transfer::Out(list_length),
            Command::PersistentReserveOut(p) => Transfer::Out(p.list_length),
            Command::Read(r) => Transfer::BlocksIn(r.blocks.into()),
            Command::Write(r) | Command::WriteAndVerify { range: r, .. } | Command::WriteAtomic { range: r, .. } => {
                Transfer::BlocksOut(r.blocks.into())
            }
            Command::CompareAndWrite(r) => Transfer::BlocksOut(u64::from(r.blocks) * 2),
            Command::WriteSame(w) if w.no_data => Transfer::None,
            Command::WriteSame(_) => Transfer::BlocksOut(1),
            Command::Verify { range, check } => match check {
                ByteCheck::Medium => Transfer::None,
                ByteCheck::All => Transfer::BlocksOut(range.blocks.into()),
                ByteCheck::One => Transfer::BlocksOut(u64::from(range.blocks != 0)),
            },
        }
    }
}
