//! The dwords of I/O commands of the NVM command set (nvm 3.2).

use super::{IoOpcode, Sqe};

/// Read, Write, Compare, Write Zeroes, Verify (nvm 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// First block.
    pub slba: u64,
    /// Blocks, minus one.
    pub nlb: u16,
    /// Limited retry.
    pub lr: bool,
    /// Force Unit Access.
    pub fua: bool,
    /// Protection information field (PRINFO), 4 bits.
    pub prinfo: u8,
    /// Write Zeroes: deallocate.
    pub deac: bool,
    /// Directive type, 4 bits.
    pub dtype: u8,
}
impl BlockRange {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self {
            slba: sqe.cdw10_11(),
            nlb: sqe.cdw12 as u16,
            lr: sqe.cdw12 >> 31 != 0,
            fua: sqe.cdw12 >> 30 & 1 != 0,
            prinfo: (sqe.cdw12 >> 26) as u8 & 15,
            deac: sqe.cdw12 >> 25 & 1 != 0,
            dtype: (sqe.cdw12 >> 20) as u8 & 15,
        }
    }
    /// A range with no flags.
    pub fn new(slba: u64, nlb: u16) -> Self {
        Self { slba, nlb, lr: false, fua: false, prinfo: 0, deac: false, dtype: 0 }
    }
    /// Blocks.
    pub fn blocks(&self) -> u32 {
        u32::from(self.nlb) + 1
    }
    /// The command.
    pub fn sqe(&self, opcode: IoOpcode, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            opcode: opcode.byte(),
            cid,
            nsid,
            cdw10: self.slba as u32,
            cdw11: (self.slba >> 32) as u32,
            cdw12: u32::from(self.nlb)
                | u32::from(self.dtype & 15) << 20
                | u32::from(self.deac) << 25
                | u32::from(self.prinfo & 15) << 26
                | u32::from(self.fua) << 30
                | u32::from(self.lr) << 31,
            ..Sqe::default()
        }
    }
}

/// Most ranges of one Dataset Management command.
pub const DSM_RANGES_MAX: usize = 256;

/// Dataset Management (nvm 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetManagement {
    /// Ranges, minus one.
    pub nr: u8,
    /// Hint: integral dataset for read.
    pub idr: bool,
    /// Hint: integral dataset for write.
    pub idw: bool,
    /// Deallocate.
    pub ad: bool,
}
impl DatasetManagement {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        Self { nr: sqe.cdw10 as u8, idr: sqe.cdw11 & 1 != 0, idw: sqe.cdw11 & 2 != 0, ad: sqe.cdw11 & 4 != 0 }
    }
    /// Ranges.
    pub fn ranges(&self) -> usize {
        usize::from(self.nr) + 1
    }
    /// The command.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            opcode: IoOpcode::DatasetManagement.byte(),
            cid,
            nsid,
            cdw10: self.nr.into(),
            cdw11: u32::from(self.idr) | u32::from(self.idw) << 1 | u32::from(self.ad) << 2,
            ..Sqe::default()
        }
    }
}

layout! {
    /// A range of Dataset Management (nvm figure 36).
    DsmRange[16] {
        /// Context attributes.
        0 attributes: u32,
        /// Blocks; not minus one.
        4 blocks: u32,
        /// First block.
        8 slba: u64,
    }
}

/// Most source ranges that a Copy command can name.
pub const COPY_RANGES_MAX: usize = 256;

/// Copy (nvm 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyCommand {
    /// First block of the destination.
    pub sdlba: u64,
    /// Source ranges, minus one.
    pub nr: u8,
    /// Format of the source ranges, 4 bits: 0 is [`CopyRange`].
    pub desfmt: u8,
    /// Directive type, 4 bits.
    pub dtype: u8,
}
impl CopyCommand {
    /// From a command.
    pub fn of(sqe: &Sqe) -> Self {
        let field = |at: u32| (sqe.cdw12 >> at) as u8 & 15;
        Self { sdlba: sqe.cdw10_11(), nr: sqe.cdw12 as u8, desfmt: field(8), dtype: field(20) }
    }
    /// Source ranges.
    pub fn ranges(&self) -> usize {
        usize::from(self.nr) + 1
    }
    /// The command.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            opcode: IoOpcode::Copy.byte(),
            cid,
            nsid,
            cdw10: self.sdlba as u32,
            cdw11: (self.sdlba >> 32) as u32,
            cdw12: u32::from(self.nr) | u32::from(self.desfmt & 15) << 8 | u32::from(self.dtype & 15) << 20,
            ..Sqe::default()
        }
    }
}

layout! {
    /// A source range of Copy, format 0 (nvm figure 31); what protects information is left out.
    CopyRange[32] {
        /// First block.
        8 slba: u64,
        /// Blocks, minus one.
        16 nlb: u16,
    }
}

/// A Flush command.
pub fn flush_sqe(cid: u16, nsid: u32) -> Sqe {
    Sqe { opcode: IoOpcode::Flush.byte(), cid, nsid, ..Sqe::default() }
}

const _: () = assert!(DSM_RANGES_MAX * DsmRange::LEN == 4096);
