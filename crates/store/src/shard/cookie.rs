//! Cookies of the shard's device operations: what it is in the top byte.
//!
//! Owns: how they are made and read. Never: knows what the operation is for.

const KIND_SHIFT: u32 = 56;
pub const BATCH: u64 = 1 << KIND_SHIFT;
pub const ADMISSION: u64 = 2 << KIND_SHIFT;
const SUMMARY: u64 = 3 << KIND_SHIFT;
const READ: u64 = 4 << KIND_SHIFT;
pub const PROBE: u64 = 5 << KIND_SHIFT;

/// The summary of the segment whose first block this is.
pub fn summary(first_block: u32) -> u64 {
    SUMMARY | u64::from(first_block)
}
/// Run `index` of the read `key`.
pub fn read(key: u32, index: usize) -> u64 {
    READ | (index as u64) << 32 | u64::from(key)
}

/// A device operation of the shard, as its cookie says it.
#[derive(Clone, Copy, Debug)]
pub enum DeviceOp {
    Batch,
    Admission,
    Probe,
    Summary { first_block: u32 },
    Read { key: u32, index: usize },
}

/// What it stands for.
pub fn device_op(cookie: u64) -> DeviceOp {
    match cookie >> KIND_SHIFT << KIND_SHIFT {
        BATCH => DeviceOp::Batch,
        ADMISSION => DeviceOp::Admission,
        PROBE => DeviceOp::Probe,
        SUMMARY => DeviceOp::Summary { first_block: cookie as u32 },
        READ => DeviceOp::Read { key: cookie as u32, index: (cookie >> 32 & 0xFFFF) as usize },
        _ => unreachable!("not a cookie of a shard: {cookie:#x}"),
    }
}
