//! Submission and completion queue entries (base 3.3.3.1 and 3.3.3.2).

use super::{Field, Sgl, Status};

/// Bytes of a submission queue entry.
pub const SQE_BYTES: usize = 64;
/// Bytes of a completion queue entry.
pub const CQE_BYTES: usize = 16;

/// Bits 1:0 of byte 1 of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fuse {
    /// Not fused.
    #[default]
    Normal,
    /// First of a fused pair.
    First,
    /// Second of a fused pair.
    Second,
    /// Reserved value.
    Reserved,
}

/// Bits 7:6 of byte 1 of a command: how data is described.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Psdt {
    /// PRPs: not over fabrics.
    Prp,
    /// SGL; the only value that fabrics use (base 3.3.3.1).
    #[default]
    Sgl,
    /// SGL with the metadata pointer an SGL segment.
    SglMetadata,
    /// Reserved value.
    Reserved,
}

/// A submission queue entry. Bits 5:2 of byte 1 are reserved and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sqe {
    /// Opcode; its meaning depends on the queue.
    pub opcode: u8,
    /// Fused operation.
    pub fuse: Fuse,
    /// PRP or SGL.
    pub psdt: Psdt,
    /// Command identifier.
    pub cid: u16,
    /// Namespace; for fabrics commands, byte 4 is the command type.
    pub nsid: u32,
    /// Command dword 2.
    pub cdw2: u32,
    /// Command dword 3.
    pub cdw3: u32,
    /// Metadata pointer.
    pub mptr: u64,
    /// Data pointer: SGL 1.
    pub sgl: Sgl,
    /// Command dword 10.
    pub cdw10: u32,
    /// Command dword 11.
    pub cdw11: u32,
    /// Command dword 12.
    pub cdw12: u32,
    /// Command dword 13.
    pub cdw13: u32,
    /// Command dword 14.
    pub cdw14: u32,
    /// Command dword 15.
    pub cdw15: u32,
}

impl Sqe {
    /// From its bytes.
    pub fn parse(b: &[u8; SQE_BYTES]) -> Self {
        let d = |at: usize| u32::get(&b[at..]);
        Self {
            opcode: b[0],
            fuse: match b[1] & 3 {
                0 => Fuse::Normal,
                1 => Fuse::First,
                2 => Fuse::Second,
                _ => Fuse::Reserved,
            },
            psdt: match b[1] >> 6 {
                0 => Psdt::Prp,
                1 => Psdt::Sgl,
                2 => Psdt::SglMetadata,
                _ => Psdt::Reserved,
            },
            cid: u16::get(&b[2..]),
            nsid: d(4),
            cdw2: d(8),
            cdw3: d(12),
            mptr: u64::get(&b[16..]),
            sgl: Sgl(Field::get(&b[24..])),
            cdw10: d(40),
            cdw11: d(44),
            cdw12: d(48),
            cdw13: d(52),
            cdw14: d(56),
            cdw15: d(60),
        }
    }
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; SQE_BYTES] {
        let mut b = [0; SQE_BYTES];
        b[0] = self.opcode;
        b[1] = self.fuse as u8 | (self.psdt as u8) << 6;
        self.cid.put(&mut b[2..]);
        self.nsid.put(&mut b[4..]);
        self.cdw2.put(&mut b[8..]);
        self.cdw3.put(&mut b[12..]);
        self.mptr.put(&mut b[16..]);
        self.sgl.0.put(&mut b[24..]);
        for (at, d) in [self.cdw10, self.cdw11, self.cdw12, self.cdw13, self.cdw14, self.cdw15].iter().enumerate() {
            d.put(&mut b[40 + at * 4..]);
        }
        b
    }
    /// Command dwords 10 and 11 as one number: a starting LBA.
    pub fn cdw10_11(&self) -> u64 {
        u64::from(self.cdw10) | u64::from(self.cdw11) << 32
    }
    /// Fabrics command type (byte 4).
    pub fn fctype(&self) -> u8 {
        self.nsid as u8
    }
}

/// A completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe {
    /// Dwords 0 and 1: the command's result.
    pub result: u64,
    /// Submission queue head.
    pub sqhd: u16,
    /// Submission queue identifier (reserved over fabrics).
    pub sqid: u16,
    /// Command identifier.
    pub cid: u16,
    /// Status.
    pub status: Status,
}

impl Cqe {
    /// From its bytes.
    pub fn parse(b: &[u8; CQE_BYTES]) -> Self {
        Self {
            result: u64::get(b),
            sqhd: u16::get(&b[8..]),
            sqid: u16::get(&b[10..]),
            cid: u16::get(&b[12..]),
            status: Status::parse(u16::get(&b[14..])),
        }
    }
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; CQE_BYTES] {
        let mut b = [0; CQE_BYTES];
        self.result.put(&mut b);
        self.sqhd.put(&mut b[8..]);
        self.sqid.put(&mut b[10..]);
        self.cid.put(&mut b[12..]);
        self.status.bits().put(&mut b[14..]);
        b
    }
}
