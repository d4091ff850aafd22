//! Reservation commands, their data, the report and the notification log (base 7.2 to 7.5, 5.16.1.24, 8.19).
//!
//! Never: says what a value means for a reservation; that is `cluster`'s.

use super::{Field, IoOpcode, Sqe};

/// RREGA: register.
pub const REGISTER: u8 = 0;
/// RREGA: unregister.
pub const UNREGISTER: u8 = 1;
/// RREGA: replace the key.
pub const REPLACE: u8 = 2;
/// CPTPL: no change.
pub const PTPL_KEEP: u8 = 0;
/// CPTPL: registrants and reservation go when power is lost.
pub const PTPL_CLEAR: u8 = 2;
/// CPTPL: they stay.
pub const PTPL_SET: u8 = 3;
/// RACQA: acquire.
pub const ACQUIRE: u8 = 0;
/// RACQA: preempt.
pub const PREEMPT: u8 = 1;
/// RACQA: preempt and abort.
pub const PREEMPT_AND_ABORT: u8 = 2;
/// RRELA: release.
pub const RELEASE: u8 = 0;
/// RRELA: clear.
pub const CLEAR: u8 = 1;

/// Bits of the Reservation Notification Mask feature: bit `n` masks notifications of type `n`, 1 to 3 (base 5.27.1.26).
pub const NOTIFICATION_MASK_BITS: u32 = 0b1110;
/// RESCAP of a namespace: persists through power loss, all six types, IEKEY as of version 1.3 (base figure 280).
pub const RESCAP_ALL: u8 = 0xFF;
/// CNTLID of a registrant in a report, for subsystems of the dynamic controller model.
pub const CNTLID_OF_DYNAMIC: u16 = 0xFFFF;

/// Dword 10 of Reservation Register, Acquire and Release: the three have the same shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// RREGA, RACQA or RRELA, 3 bits.
    pub action: u8,
    /// Ignore existing key. Acquire and Release must not have it.
    pub iekey: bool,
    /// RTYPE. Reserved in Register.
    pub rtype: u8,
    /// CPTPL, 2 bits. Reserved in Acquire and Release.
    pub cptpl: u8,
}

impl Action {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self { action: sqe.cdw10 as u8 & 7, iekey: sqe.cdw10 & 8 != 0, rtype: (sqe.cdw10 >> 8) as u8, cptpl: (sqe.cdw10 >> 30) as u8 }
    }
    /// The command.
    pub fn sqe(&self, opcode: IoOpcode, cid: u16, nsid: u32) -> Sqe {
        let cdw10 = u32::from(self.action & 7) | u32::from(self.iekey) << 3 | u32::from(self.rtype) << 8 | u32::from(self.cptpl & 3) << 30;
        Sqe { opcode: opcode.byte(), cid, nsid, cdw10, ..Sqe::default() }
    }
}

/// Reservation Report (base 7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Dwords that are wanted, minus one.
    pub numd: u32,
    /// Extended data structure: 128-bit host identifiers.
    pub eds: bool,
}

impl Report {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self { numd: sqe.cdw10, eds: sqe.cdw11 & 1 != 0 }
    }
    /// Bytes that are wanted.
    pub fn bytes(&self) -> u64 {
        (u64::from(self.numd) + 1) * 4
    }
    /// The command.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { opcode: IoOpcode::ReservationReport.byte(), cid, nsid, cdw10: self.numd, cdw11: self.eds.into(), ..Sqe::default() }
    }
}

layout! {
    /// Data of Reservation Register and Acquire.
    Keys[16] {
        /// Current reservation key.
        0 crkey: u64,
        /// New key (NRKEY) of Register, key to be preempted (PRKEY) of Acquire.
        8 other: u64,
    }
}

layout! {
    /// Data of Reservation Release.
    Key[8] {
        /// Current reservation key.
        0 crkey: u64,
    }
}

layout! {
    /// Head of a report (base figure 408). The extended one is followed by zeroes up to [`EXTENDED_HEAD_BYTES`].
    ReportHead[24] {
        /// Generation counter.
        0 generation: u32,
        /// Type of the reservation; 0 none.
        4 rtype: u8,
        /// Entries that there are.
        5 regctl: u16,
        /// Persist Through Power Loss.
        9 ptpls: u8,
    }
}

layout! {
    /// An entry of a report (base figure 409).
    Registered[24] {
        /// Controller.
        0 cntlid: u16,
        /// Bit 0: its host holds the reservation.
        2 rcsts: u8,
        /// Host identifier, 64 bits.
        8 hostid: u64,
        /// Its key.
        16 rkey: u64,
    }
}

layout! {
    /// An entry of an extended report (base figure 410).
    RegisteredExtended[64] {
        /// Controller.
        0 cntlid: u16,
        /// Bit 0: its host holds the reservation.
        2 rcsts: u8,
        /// Its key.
        8 rkey: u64,
        /// Host identifier, 128 bits.
        16 hostid: [u8; 16],
    }
}

layout! {
    /// Reservation Notification log page (base figure 266).
    Notification[64] {
        /// Number of this notification; 0: there is none.
        0 count: u64,
        /// Type: 1 registration preempted, 2 reservation released, 3 reservation preempted; 0 none.
        8 kind: u8,
        /// Log pages that wait behind this one, at most 255.
        9 available: u8,
        /// Namespace.
        12 nsid: u32,
    }
}

/// Where the entries of an extended report begin.
pub const EXTENDED_HEAD_BYTES: usize = 64;

/// An extended report, whole.
pub fn write_extended_report(head: &ReportHead, entries: impl Iterator<Item = RegisteredExtended>) -> Vec<u8> {
    let mut out = vec![0; EXTENDED_HEAD_BYTES];
    head.write(&mut out);
    for e in entries {
        out.extend_from_slice(&e.to_bytes());
    }
    out
}

/// The head and the entries of an extended report that are there in full; `None` when not even the head is.
pub fn parse_extended_report(bytes: &[u8]) -> Option<(ReportHead, Vec<RegisteredExtended>)> {
    let head = ReportHead::parse(bytes)?;
    let entries = bytes.get(EXTENDED_HEAD_BYTES..).unwrap_or(&[]);
    let entries = entries.chunks_exact(RegisteredExtended::LEN).take(usize::from(head.regctl)).filter_map(RegisteredExtended::parse);
    Some((head, entries.collect()))
}

const _: () = assert!(Keys::LEN == 2 * <u64 as Field>::LEN);
