//! The table of commands: operation code, service action, CDB usage data. From it come the parser, and what REPORT SUPPORTED OPERATION
//! CODES returns (SPC-4 6.35).
//!
//! Owns: which bits of each CDB are evaluated, which are passed over, and which are refused.
//! Invariants: entries with one operation code stand together, and either all have a service action or there is one entry; checked when
//! this compiles. What the table does not have is refused: FORMAT UNIT, SANITIZE, ORWRITE, SET TARGET PORT GROUPS, READ BUFFER and others.

use super::command::{CDB_BYTES_MAX, Command, OpcodeQuery};
use super::decode;
use super::invalid::Invalid;
use super::wire::{be16, be32, byte, len16, len32, put};

/// A command of the table.
#[derive(Clone, Copy)]
pub struct Supported {
    /// Its name in the standard.
    pub name: &'static str,
    /// CDB usage data: the operation code, the service action where there is one, and a one for each bit that is evaluated.
    pub usage: &'static [u8],
    /// It has a service action in bits 4:0 of byte 1.
    pub has_action: bool,
    /// Bits that must be zero, byte 0 highest.
    pub(super) refused: u128,
    pub(super) decode: fn(&[u8]) -> Result<Command, Invalid>,
}

/// Bits 7:6 (vendor specific) and 1:0 (obsolete) of the control byte are passed over. NACA and the reserved bits are refused.
const CONTROL_PASSED: u8 = 0xC3;
/// Most entries of one operation code.
const ACTIONS_MAX: usize = 16;

const fn command(
    name: &'static str,
    usage: &'static [u8],
    has_action: bool,
    passed: &[(usize, u8)],
    decode: fn(&[u8]) -> Result<Command, Invalid>,
) -> Supported {
    assert!(usage.len() == 6 || usage.len() == 10 || usage.len() == 12 || usage.len() == 16);
    let mut allowed = [0xFFu8; CDB_BYTES_MAX];
    let mut at = 1;
    while at < usage.len() {
        allowed[at] = usage[at];
        at += 1;
    }
    allowed[usage.len() - 1] |= CONTROL_PASSED;
    if has_action {
        allowed[1] |= 0x1F;
    }
    let mut p = 0;
    while p < passed.len() {
        allowed[passed[p].0] |= passed[p].1;
        p += 1;
    }
    Supported { name, usage, has_action, refused: !u128::from_be_bytes(allowed), decode }
}

impl Supported {
    /// Operation code.
    pub const fn opcode(&self) -> u8 {
        self.usage[0]
    }
    /// Service action; 0 when it has none.
    pub const fn action(&self) -> u8 {
        if self.has_action { self.usage[1] & 0x1F } else { 0 }
    }
    /// A CDB that is too short, or has a bit set that must be zero, is refused with the place.
    #[inline]
    pub(super) fn check(&self, cdb: &[u8]) -> Result<(), Invalid> {
        if cdb.len() < self.usage.len() {
            return Err(Invalid::cdb(cdb.len() as u16));
        }
        let mut whole = [0; CDB_BYTES_MAX];
        let n = cdb.len().min(CDB_BYTES_MAX);
        whole[..n].copy_from_slice(&cdb[..n]);
        let bad = u128::from_be_bytes(whole) & self.refused;
        if bad == 0 {
            return Ok(());
        }
        let first = bad.leading_zeros();
        Err(Invalid::cdb_bit((first / 8) as u16, 7 - (first % 8) as u8))
    }
}

/// The LUN of SCSI-2 in byte 1, where no field has taken its place.
const OLD_LUN: (usize, u8) = (1, 0xE0);
/// FUA_NV and RELADR of READ and WRITE: the first is obsolete and passed over.
const FUA_NV: (usize, u8) = (1, 0x02);
const GROUP10: (usize, u8) = (6, 0x3F);
const GROUP12: (usize, u8) = (10, 0x3F);
const GROUP16: (usize, u8) = (14, 0x3F);
const RW10: &[(usize, u8)] = &[FUA_NV, GROUP10];
const RW12: &[(usize, u8)] = &[FUA_NV, GROUP12];
const RW16: &[(usize, u8)] = &[FUA_NV, GROUP16];
const SYNC_NV: (usize, u8) = (1, 0x04);

/// All commands, by operation code and service action.
#[rustfmt::skip]
pub static SUPPORTED: &[Supported] = &[
    command("TEST UNIT READY", &[0x00, 0, 0, 0, 0, 0], false, &[OLD_LUN], decode::test_unit_ready),
    command("REQUEST SENSE", &[0x03, 0x01, 0, 0, 0xFF, 0], false, &[OLD_LUN], decode::request_sense),
    command("READ (6)", &[0x08, 0x1F, 0xFF, 0xFF, 0xFF, 0], false, &[OLD_LUN], decode::read),
    command("WRITE (6)", &[0x0A, 0x1F, 0xFF, 0xFF, 0xFF, 0], false, &[OLD_LUN], decode::write),
    command("INQUIRY", &[0x12, 0x01, 0xFF, 0xFF, 0xFF, 0], false, &[OLD_LUN], decode::inquiry),
    command("MODE SELECT (6)", &[0x15, 0x11, 0, 0, 0xFF, 0], false, &[OLD_LUN], decode::mode_select6),
    command("RESERVE (6)", &[0x16, 0, 0, 0, 0, 0], false, &[OLD_LUN], decode::reserve),
    command("RELEASE (6)", &[0x17, 0, 0, 0, 0, 0], false, &[OLD_LUN], decode::release),
    command("MODE SENSE (6)", &[0x1A, 0x08, 0xFF, 0xFF, 0xFF, 0], false, &[OLD_LUN], decode::mode_sense6),
    command("START STOP UNIT", &[0x1B, 0x01, 0, 0, 0xF7, 0], false, &[OLD_LUN], decode::start_stop),
    command("SEND DIAGNOSTIC", &[0x1D, 0x04, 0, 0, 0, 0], false, &[(1, 0x13)], decode::send_diagnostic),
    command("PREVENT ALLOW MEDIUM REMOVAL", &[0x1E, 0, 0, 0, 0x03, 0], false, &[OLD_LUN], decode::prevent_allow),
    command("READ CAPACITY (10)", &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], false,
        &[OLD_LUN, (1, 1), (2, 0xFF), (3, 0xFF), (4, 0xFF), (5, 0xFF), (8, 1)], decode::read_capacity10),
    command("READ (10)", &[0x28, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false, RW10, decode::read),
    command("WRITE (10)", &[0x2A, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false, RW10, decode::write),
    command("WRITE AND VERIFY (10)", &[0x2E, 0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false, &[GROUP10], decode::write_and_verify),
    command("VERIFY (10)", &[0x2F, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false, &[GROUP10], decode::verify),
    command("PRE-FETCH (10)", &[0x34, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false, &[GROUP10], decode::prefetch),
    command("SYNCHRONIZE CACHE (10)", &[0x35, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false,
        &[OLD_LUN, SYNC_NV, GROUP10], decode::synchronize_cache),
    command("READ DEFECT DATA (10)", &[0x37, 0, 0x1F, 0, 0, 0, 0, 0xFF, 0xFF, 0], false, &[], decode::read_defect_data10),
    command("WRITE SAME (10)", &[0x41, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0], false, &[GROUP10], decode::write_same10),
    command("UNMAP", &[0x42, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], false, &[GROUP10], decode::unmap),
    command("LOG SENSE", &[0x4D, 0, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], false, &[], decode::log_sense),
    command("MODE SELECT (10)", &[0x55, 0x11, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], false, &[], decode::mode_select10),
    command("RESERVE (10)", &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], false, &[], decode::reserve),
    command("RELEASE (10)", &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], false, &[], decode::release),
    command("MODE SENSE (10)", &[0x5A, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0], false, &[], decode::mode_sense10),
    command("PERSISTENT RESERVE IN, READ KEYS", &[0x5E, 0x00, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_in),
    command("PERSISTENT RESERVE IN, READ RESERVATION", &[0x5E, 0x01, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_in),
    command("PERSISTENT RESERVE IN, REPORT CAPABILITIES", &[0x5E, 0x02, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_in),
    command("PERSISTENT RESERVE IN, READ FULL STATUS", &[0x5E, 0x03, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_in),
    command("PERSISTENT RESERVE OUT, REGISTER", &[0x5F, 0x00, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[(2, 0xFF)], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, RESERVE", &[0x5F, 0x01, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, RELEASE", &[0x5F, 0x02, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, CLEAR", &[0x5F, 0x03, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[(2, 0xFF)], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, PREEMPT", &[0x5F, 0x04, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, PREEMPT AND ABORT", &[0x5F, 0x05, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY", &[0x5F, 0x06, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[(2, 0xFF)], decode::persistent_reserve_out),
    command("PERSISTENT RESERVE OUT, REGISTER AND MOVE", &[0x5F, 0x07, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], true, &[(2, 0xFF)], decode::persistent_reserve_out),
    command("EXTENDED COPY (LID1)", &[0x83, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::extended_copy),
    command("RECEIVE COPY STATUS (LID1)", &[0x84, 0x00, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::receive_copy_results),
    command("RECEIVE COPY DATA (LID1)", &[0x84, 0x01, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::receive_copy_results),
    command("RECEIVE COPY OPERATING PARAMETERS", &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[(2, 0xFF)], decode::receive_copy_results),
    command("RECEIVE COPY FAILURE DETAILS (LID1)", &[0x84, 0x04, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::receive_copy_results),
    command("READ (16)", &[0x88, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, RW16, decode::read),
    command("COMPARE AND WRITE", &[0x89, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0, 0], false, RW16, decode::compare_and_write),
    command("WRITE (16)", &[0x8A, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, RW16, decode::write),
    command("WRITE AND VERIFY (16)", &[0x8E, 0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP16], decode::write_and_verify),
    command("VERIFY (16)", &[0x8F, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP16], decode::verify),
    command("PRE-FETCH (16)", &[0x90, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP16], decode::prefetch),
    command("SYNCHRONIZE CACHE (16)", &[0x91, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false,
        &[SYNC_NV, GROUP16], decode::synchronize_cache),
    command("WRITE SAME (16)", &[0x93, 0x09, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP16], decode::write_same16),
    command("WRITE ATOMIC (16)", &[0x9C, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP16], decode::write_atomic),
    command("READ CAPACITY (16)", &[0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true,
        &[(2, 0xFF), (3, 0xFF), (4, 0xFF), (5, 0xFF), (6, 0xFF), (7, 0xFF), (8, 0xFF), (9, 0xFF), (14, 1)], decode::read_capacity16),
    command("GET LBA STATUS", &[0x9E, 0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::get_lba_status),
    command("REPORT LUNS", &[0xA0, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[], decode::report_luns),
    command("REPORT TARGET PORT GROUPS", &[0xA3, 0xEA, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::report_port_groups),
    command("REPORT SUPPORTED OPERATION CODES", &[0xA3, 0x0C, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::report_opcodes),
    command("REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", &[0xA3, 0x0D, 0x80, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], true, &[], decode::report_task_management),
    command("READ (12)", &[0xA8, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, RW12, decode::read),
    command("WRITE (12)", &[0xAA, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, RW12, decode::write),
    command("WRITE AND VERIFY (12)", &[0xAE, 0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP12], decode::write_and_verify),
    command("VERIFY (12)", &[0xAF, 0x16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false, &[GROUP12], decode::verify),
    command("READ DEFECT DATA (12)", &[0xB7, 0x1F, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], false,
        &[(2, 0xFF), (3, 0xFF), (4, 0xFF), (5, 0xFF)], decode::read_defect_data12),
];

/// No entry has the operation code.
const NONE: u8 = u8::MAX;
/// The first entry of each operation code.
static FIRST: [u8; 256] = {
    let mut first = [NONE; 256];
    let mut at = 0;
    while at < SUPPORTED.len() {
        let entry = &SUPPORTED[at];
        if first[entry.usage[0] as usize] == NONE {
            first[entry.usage[0] as usize] = at as u8;
        } else {
            let before = &SUPPORTED[at - 1];
            assert!(before.usage[0] == entry.usage[0], "entries of one operation code stand together");
            assert!(before.has_action && entry.has_action && before.usage[1] & 0x1F < entry.usage[1] & 0x1F, "service actions ascend");
            assert!(at - (first[entry.usage[0] as usize] as usize) < ACTIONS_MAX);
        }
        at += 1;
    }
    first
};

fn of_opcode(opcode: u8) -> &'static [Supported] {
    let first = FIRST[usize::from(opcode)];
    if first == NONE {
        return &[];
    }
    let from = &SUPPORTED[usize::from(first)..];
    let n = from.iter().take(ACTIONS_MAX).take_while(|e| e.opcode() == opcode).count();
    &from[..n]
}

/// The entry of a CDB that begins with these two bytes.
#[inline]
pub(super) fn find(opcode: u8, second: u8) -> Result<&'static Supported, Invalid> {
    match of_opcode(opcode) {
        [] => Err(Invalid::Opcode),
        [one] if !one.has_action => Ok(one),
        list => list.iter().find(|e| e.action() == second & 0x1F).ok_or(Invalid::cdb_bit(1, 4)),
    }
}

/// SUPPORT: the command is not there.
const SUPPORT_NO: u8 = 1;
/// SUPPORT: it is, as the standard says.
const SUPPORT_STANDARD: u8 = 3;
/// A command timeouts descriptor that names no time (SPC-4 table 271).
const NO_TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The answer to REPORT SUPPORTED OPERATION CODES, of the commands that `serves` says are served.
///
/// # Errors
/// A query by operation code for one with service actions, or the other way round.
pub fn build_opcodes(query: OpcodeQuery, timeouts: bool, serves: impl Fn(&Supported) -> bool) -> Result<Vec<u8>, Invalid> {
    let (opcode, action) = match query {
        OpcodeQuery::All => return Ok(build_all(timeouts, serves)),
        OpcodeQuery::Opcode(opcode) => (opcode, None),
        OpcodeQuery::ServiceAction(opcode, action) | OpcodeQuery::Either(opcode, action) => (opcode, Some(action)),
    };
    let list = of_opcode(opcode);
    let has_actions = list.first().is_some_and(|e| e.has_action);
    match query {
        OpcodeQuery::Opcode(_) if has_actions => return Err(Invalid::cdb_bit(2, 2)),
        OpcodeQuery::ServiceAction(..) if !list.is_empty() && !has_actions => return Err(Invalid::cdb_bit(2, 2)),
        _ => {}
    }
    let found = list.iter().find(|e| u16::from(e.action()) == action.unwrap_or(0)).filter(|e| serves(e));
    let mut out = vec![0, SUPPORT_NO, 0, 0];
    if let Some(entry) = found {
        out[1] = SUPPORT_STANDARD | u8::from(timeouts) << 7;
        put(&mut out, 2, &len16(entry.usage.len()));
        out.extend_from_slice(entry.usage);
        if timeouts {
            out.extend_from_slice(&NO_TIMEOUTS);
        }
    }
    Ok(out)
}

fn build_all(timeouts: bool, serves: impl Fn(&Supported) -> bool) -> Vec<u8> {
    let mut out = vec![0; 4];
    for entry in SUPPORTED.iter().filter(|e| serves(e)) {
        let [hi, lo] = len16(entry.usage.len());
        let flags = u8::from(timeouts) << 1 | u8::from(entry.has_action);
        out.extend_from_slice(&[entry.opcode(), 0, 0, entry.action(), 0, flags, hi, lo]);
        if timeouts {
            out.extend_from_slice(&NO_TIMEOUTS);
        }
    }
    let bytes = len32(out.len() - 4);
    put(&mut out, 0, &bytes);
    out
}

/// A command in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Operation code.
    pub opcode: u8,
    /// Service action, where it has one.
    pub action: Option<u16>,
    /// Bytes of its CDB.
    pub cdb_bytes: u16,
}

/// The list of all commands, as far as it is there.
pub fn parse_opcodes(b: &[u8]) -> Vec<Listed> {
    let mut out = Vec::new();
    let end = usize::try_from(be32(b, 0)).unwrap_or(usize::MAX).saturating_add(4).min(b.len());
    let mut at = 4;
    while at + 8 <= end {
        let flags = byte(b, at + 5);
        let action = (flags & 1 != 0).then_some(be16(b, at + 2));
        out.push(Listed { opcode: b[at], action, cdb_bytes: be16(b, at + 6) });
        at += if flags & 2 != 0 { 20 } else { 8 };
    }
    out
}

/// The CDB usage data of one command: `None` when it is not supported, or not there in full.
pub fn parse_opcode(b: &[u8]) -> Option<&[u8]> {
    (byte(b, 1) & 7 == SUPPORT_STANDARD).then(|| b.get(4..4 + usize::from(be16(b, 2))))?
}

/// Task management functions that are supported (SPC-4 6.36).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskManagement {
    /// ABORT TASK.
    pub abort_task: bool,
    /// ABORT TASK SET.
    pub abort_task_set: bool,
    /// CLEAR ACA.
    pub clear_aca: bool,
    /// CLEAR TASK SET.
    pub clear_task_set: bool,
    /// LOGICAL UNIT RESET.
    pub logical_unit_reset: bool,
    /// QUERY TASK.
    pub query_task: bool,
    /// I_T NEXUS RESET.
    pub nexus_reset: bool,
}

impl TaskManagement {
    /// The parameter data; the extended form says that it names no time-outs.
    pub fn to_bytes(self, extended: bool) -> Vec<u8> {
        let bits = u8::from(self.abort_task) << 7
            | u8::from(self.abort_task_set) << 6
            | u8::from(self.clear_aca) << 5
            | u8::from(self.clear_task_set) << 4
            | u8::from(self.logical_unit_reset) << 3
            | u8::from(self.query_task) << 2;
        let mut out = vec![bits, u8::from(self.nexus_reset), 0, 0];
        if extended {
            out[3] = 12;
            out.extend_from_slice(&[0; 12]);
        }
        out
    }
    /// From the parameter data.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let b = b.get(..4)?;
        let on = |at: usize, bit: u8| b[at] >> bit & 1 != 0;
        Some(Self {
            abort_task: on(0, 7),
            abort_task_set: on(0, 6),
            clear_aca: on(0, 5),
            clear_task_set: on(0, 4),
            logical_unit_reset: on(0, 3),
            query_task: on(0, 2),
            nexus_reset: on(1, 0),
        })
    }
}
