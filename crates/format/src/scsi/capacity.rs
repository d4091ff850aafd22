//! READ CAPACITY (SBC-3 5.15 and 5.16), UNMAP's list (5.28) and GET LBA STATUS (5.5), and READ DEFECT DATA (5.17).
//!
//! Invariants: no list is longer than its bytes; a range that is parsed may lie anywhere.

use super::invalid::Invalid;
use super::wire::{be16, be32, be64, bit, byte, len32, put};

/// Bytes of READ CAPACITY (10) data.
pub const CAPACITY10_BYTES: usize = 8;
/// Bytes of READ CAPACITY (16) data.
pub const CAPACITY16_BYTES: usize = 32;

/// What READ CAPACITY says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// The last block (RETURNED LOGICAL BLOCK ADDRESS).
    pub last_lba: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Logical blocks of a physical one, as a power of two (4 bits).
    pub physical_exponent: u8,
    /// Lowest LBA that begins a physical block (14 bits).
    pub lowest_aligned: u16,
    /// Logical block provisioning management is enabled (LBPME).
    pub provisioned: bool,
    /// What is unmapped reads as zeroes (LBPRZ).
    pub reads_zeroes: bool,
}

impl Capacity {
    /// READ CAPACITY (10): FFFF_FFFFh says that (16) has to be used.
    pub fn to_short(self) -> [u8; CAPACITY10_BYTES] {
        let mut b = [0; CAPACITY10_BYTES];
        put(&mut b, 0, &u32::try_from(self.last_lba).unwrap_or(u32::MAX).to_be_bytes());
        put(&mut b, 4, &self.block_bytes.to_be_bytes());
        b
    }
    /// Last block and bytes of a block; `None` for the block: (16) has to be used.
    pub fn parse_short(b: &[u8]) -> Option<(Option<u32>, u32)> {
        (b.len() >= CAPACITY10_BYTES).then(|| (Some(be32(b, 0)).filter(|v| *v != u32::MAX), be32(b, 4)))
    }
    /// READ CAPACITY (16).
    pub fn to_bytes(self) -> [u8; CAPACITY16_BYTES] {
        let mut b = [0; CAPACITY16_BYTES];
        put(&mut b, 0, &self.last_lba.to_be_bytes());
        put(&mut b, 8, &self.block_bytes.to_be_bytes());
        b[13] = self.physical_exponent & 0xF;
        put(&mut b, 14, &(self.lowest_aligned & 0x3FFF).to_be_bytes());
        b[14] |= u8::from(self.provisioned) << 7 | u8::from(self.reads_zeroes) << 6;
        b
    }
    /// From READ CAPACITY (16); data may end after the 12 bytes that the first version had.
    pub fn parse(b: &[u8]) -> Option<Self> {
        (b.len() >= 12).then(|| Self {
            last_lba: be64(b, 0),
            block_bytes: be32(b, 8),
            physical_exponent: byte(b, 13) & 0xF,
            lowest_aligned: be16(b, 14) & 0x3FFF,
            provisioned: bit(b, 14, 7),
            reads_zeroes: bit(b, 14, 6),
        })
    }
}

/// A range of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LbaRange {
    /// First block.
    pub lba: u64,
    /// Blocks; may be 0.
    pub blocks: u32,
}

const UNMAP_HEAD_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// UNMAP's parameter list.
pub fn build_unmap(ranges: &[LbaRange]) -> Vec<u8> {
    let mut out = vec![0; UNMAP_HEAD_BYTES];
    for r in ranges {
        out.extend_from_slice(&r.lba.to_be_bytes());
        out.extend_from_slice(&r.blocks.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    let bytes = out.len();
    put(&mut out, 0, &super::wire::len16(bytes - 2));
    put(&mut out, 2, &super::wire::len16(bytes - UNMAP_HEAD_BYTES));
    out
}

/// The ranges of UNMAP, at most `max`. An empty list is none, and no error.
///
/// # Errors
/// A list that is cut off, or lengths in it that disagree with its own; more ranges than `max`.
pub fn parse_unmap(b: &[u8], max: usize) -> Result<Vec<LbaRange>, Invalid> {
    if b.is_empty() {
        return Ok(Vec::new());
    }
    let list = b.get(UNMAP_HEAD_BYTES..).ok_or(Invalid::LIST_LENGTH)?;
    let (data, descriptors) = (usize::from(be16(b, 0)), usize::from(be16(b, 2)));
    let list = list.get(..descriptors).ok_or(Invalid::LIST_LENGTH)?;
    if data + 2 < UNMAP_HEAD_BYTES + descriptors {
        return Err(Invalid::parameter(0));
    }
    // What is no whole descriptor at the end is passed over (SBC-3 5.28.2).
    let (whole, _) = list.as_chunks::<DESCRIPTOR_BYTES>();
    if whole.len() > max {
        return Err(Invalid::parameter(2));
    }
    Ok(whole.iter().map(|d| LbaRange { lba: be64(d, 0), blocks: be32(d, 8) }).collect())
}

/// PROVISIONING STATUS of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningStatus {
    /// Mapped, or it is not known.
    Mapped,
    /// Deallocated.
    Deallocated,
    /// Anchored.
    Anchored,
}

/// GET LBA STATUS: ranges that follow each other.
pub fn build_lba_status(list: impl Iterator<Item = (LbaRange, ProvisioningStatus)>) -> Vec<u8> {
    let mut out = vec![0; 8];
    for (range, status) in list {
        out.extend_from_slice(&range.lba.to_be_bytes());
        out.extend_from_slice(&range.blocks.to_be_bytes());
        out.extend_from_slice(&[status as u8, 0, 0, 0]);
    }
    let bytes = len32(out.len() - 4);
    put(&mut out, 0, &bytes);
    out
}
/// The ranges that are there in full.
pub fn parse_lba_status(b: &[u8]) -> Vec<(LbaRange, ProvisioningStatus)> {
    let end = usize::try_from(be32(b, 0)).unwrap_or(usize::MAX).saturating_add(4).min(b.len());
    let (whole, _) = b.get(8..end).unwrap_or(&[]).as_chunks::<DESCRIPTOR_BYTES>();
    let status = |code: u8| match code & 0xF {
        1 => ProvisioningStatus::Deallocated,
        2 => ProvisioningStatus::Anchored,
        _ => ProvisioningStatus::Mapped,
    };
    whole.iter().map(|d| (LbaRange { lba: be64(d, 0), blocks: be32(d, 8) }, status(d[12]))).collect()
}

/// READ DEFECT DATA: lists that are empty. `lists` is as the command has it.
pub fn build_no_defects(long: bool, lists: u8) -> Vec<u8> {
    let mut out = vec![0; if long { 8 } else { 4 }];
    out[1] = lists & 0x1F;
    out
}
