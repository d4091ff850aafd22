//! EXTENDED COPY (LID1) and RECEIVE COPY RESULTS (SPC-4 6.4 and 6.20 to 6.24): copies of blocks between logical units.
//!
//! Invariants: no more descriptors are kept than the limits that the caller gives; inline data is refused.
//! Never: says which logical unit a descriptor names.

use super::designator::{Association, Designator};
use super::invalid::Invalid;
use super::sense::SenseCode;
use super::vpd::CopyLimits;
use super::wire::{be16, be24, be32, be64, bit, byte, len32, put};

/// DESCRIPTOR TYPE CODE of a target descriptor: identification descriptor.
pub const TARGET_IDENTIFICATION: u8 = 0xE4;
/// DESCRIPTOR TYPE CODE of a segment descriptor: from block device to block device.
pub const SEGMENT_BLOCKS: u8 = 0x02;
/// Bytes before the descriptors.
pub const LIST_HEAD_BYTES: usize = 16;
/// Bytes of a target descriptor.
pub const TARGET_BYTES: usize = 32;
/// Bytes of a segment descriptor from blocks to blocks.
pub const SEGMENT_BYTES: usize = 28;
/// Most bytes of the designator in a target descriptor.
pub const DESIGNATOR_BYTES_MAX: usize = 20;

/// LIST ID USAGE (SPC-4 table 123).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListIdUsage {
    /// 00b: the list identifier names the copy, and its results are kept.
    Kept,
    /// 10b: it names the copy; results need not be kept.
    NotKept,
    /// 11b: the list identifier is 0 and names nothing.
    None,
}

/// A logical unit of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTarget {
    /// Its designator.
    pub designator: Designator,
    /// DISK BLOCK LENGTH, bytes.
    pub block_bytes: u32,
}

/// A segment: blocks of one unit to another, or to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySegment {
    /// Index of the source in the targets.
    pub source: u16,
    /// Index of the destination.
    pub destination: u16,
    /// Blocks, of the destination's size when `count_destination`, otherwise of the source's.
    pub blocks: u16,
    /// DC: the count is in blocks of the destination.
    pub count_destination: bool,
    /// First block of the source.
    pub source_lba: u64,
    /// First block of the destination.
    pub destination_lba: u64,
}

/// EXTENDED COPY (LID1) parameter list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyList {
    /// LIST IDENTIFIER.
    pub list_id: u8,
    /// LIST ID USAGE.
    pub usage: ListIdUsage,
    /// Logical units.
    pub targets: Vec<CopyTarget>,
    /// Segments, to be done in this order.
    pub segments: Vec<CopySegment>,
}

impl CopyList {
    /// From the list, whole; `None` when it is empty, which copies nothing and is no error.
    ///
    /// # Errors
    /// A list that is cut off, longer than its lengths say, or beyond `limits`; descriptors of other types; inline data. Whether an index names a
    /// target is the caller's to check: it is no error of the list, but ends the copy.
    pub fn parse(b: &[u8], limits: &CopyLimits) -> Result<Option<Self>, Invalid> {
        if b.is_empty() {
            return Ok(None);
        }
        if b.len() < LIST_HEAD_BYTES {
            return Err(Invalid::LIST_LENGTH);
        }
        let bytes_of = |v: u32| usize::try_from(v).map_err(|_| Invalid::LIST_LENGTH);
        let (targets, segments) = (usize::from(be16(b, 2)), bytes_of(be32(b, 8))?);
        if be32(b, 12) != 0 {
            return Err(Invalid::Request(SenseCode::INLINE_DATA_LENGTH_EXCEEDED));
        }
        if !targets.is_multiple_of(TARGET_BYTES) {
            return Err(Invalid::parameter(2));
        }
        if bytes_of(limits.list_bytes_max).is_ok_and(|max| segments > max.saturating_sub(targets)) {
            return Err(Invalid::LIST_LENGTH);
        }
        if targets / TARGET_BYTES > limits.targets_max.into() {
            return Err(Invalid::Request(SenseCode::TOO_MANY_TARGET_DESCRIPTORS));
        }
        let (targets, rest) = b[LIST_HEAD_BYTES..].split_at_checked(targets).ok_or(Invalid::LIST_LENGTH)?;
        if rest.len() != segments {
            return Err(Invalid::LIST_LENGTH);
        }
        let usage = match b[1] >> 3 & 3 {
            0 => ListIdUsage::Kept,
            2 => ListIdUsage::NotKept,
            3 if b[0] == 0 => ListIdUsage::None,
            3 => return Err(Invalid::parameter(0)),
            _ => return Err(Invalid::parameter_bit(1, 4)),
        };
        let targets = parse_targets(targets)?;
        let segments = parse_segments(rest, b.len() - rest.len(), limits)?;
        Ok(Some(Self { list_id: b[0], usage, targets, segments }))
    }
    /// The list.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; LIST_HEAD_BYTES];
        out[0] = self.list_id;
        out[1] = match self.usage {
            ListIdUsage::Kept => 0,
            ListIdUsage::NotKept => 2 << 3,
            ListIdUsage::None => 3 << 3,
        };
        put(&mut out, 2, &super::wire::len16(self.targets.len() * TARGET_BYTES));
        put(&mut out, 8, &len32(self.segments.len() * SEGMENT_BYTES));
        self.targets.iter().for_each(|t| out.extend_from_slice(&t.to_bytes()));
        self.segments.iter().for_each(|s| out.extend_from_slice(&s.to_bytes()));
        out
    }
}

impl CopyTarget {
    /// Its descriptor. Of a designator that is longer than [`DESIGNATOR_BYTES_MAX`] the rest is lost.
    pub fn to_bytes(&self) -> [u8; TARGET_BYTES] {
        let mut b = [0; TARGET_BYTES];
        let designator = self.designator.to_bytes();
        let n = (designator.len() - 4).min(DESIGNATOR_BYTES_MAX);
        b[0] = TARGET_IDENTIFICATION;
        b[4] = designator[0] & 0xF;
        b[5] = designator[1] & 0x3F;
        b[7] = n as u8;
        put(&mut b, 8, &designator[4..4 + n]);
        put(&mut b, 29, &self.block_bytes.to_be_bytes()[1..]);
        b
    }
    fn parse(at: usize, b: &[u8; TARGET_BYTES]) -> Result<Self, Invalid> {
        // PERIPHERAL DEVICE TYPE 00h: a block device. LU ID TYPE and NUL are passed over (obsolete in SPC-4).
        if b[0] != TARGET_IDENTIFICATION || b[1] & 0x1F != 0 {
            return Err(Invalid::Request(SenseCode::UNSUPPORTED_TARGET_DESCRIPTOR));
        }
        let association = match b[5] >> 4 & 3 {
            0 => Association::Unit,
            1 => Association::Port,
            2 => Association::Device,
            _ => return Err(Invalid::parameter_bit(at + 5, 5)),
        };
        let designator = b[8..28].get(..b[7].into()).ok_or(Invalid::parameter(at + 7))?;
        let designator = Designator::of(association, b[4] & 0xF, b[5] & 0xF, designator);
        Ok(Self { designator, block_bytes: be24(b, 29) })
    }
}

impl CopySegment {
    /// Its descriptor.
    pub fn to_bytes(&self) -> [u8; SEGMENT_BYTES] {
        let mut b = [0; SEGMENT_BYTES];
        put(&mut b, 0, &[SEGMENT_BLOCKS, u8::from(self.count_destination) << 1, 0, (SEGMENT_BYTES - 4) as u8]);
        put(&mut b, 4, &self.source.to_be_bytes());
        put(&mut b, 6, &self.destination.to_be_bytes());
        put(&mut b, 10, &self.blocks.to_be_bytes());
        put(&mut b, 12, &self.source_lba.to_be_bytes());
        put(&mut b, 20, &self.destination_lba.to_be_bytes());
        b
    }
}

fn parse_targets(b: &[u8]) -> Result<Vec<CopyTarget>, Invalid> {
    let (whole, _) = b.as_chunks::<TARGET_BYTES>();
    whole.iter().enumerate().map(|(n, d)| CopyTarget::parse(LIST_HEAD_BYTES + n * TARGET_BYTES, d)).collect()
}

/// Segments of a list, the first of which lies at `at` of it.
fn parse_segments(b: &[u8], mut at: usize, limits: &CopyLimits) -> Result<Vec<CopySegment>, Invalid> {
    let (mut rest, mut out) = (b, Vec::new());
    while !rest.is_empty() {
        if rest[0] != SEGMENT_BLOCKS {
            return Err(Invalid::Request(SenseCode::UNSUPPORTED_SEGMENT_DESCRIPTOR));
        }
        if out.len() == usize::from(limits.segments_max) {
            return Err(Invalid::Request(SenseCode::TOO_MANY_SEGMENT_DESCRIPTORS));
        }
        let (one, after) = rest.split_at_checked(SEGMENT_BYTES).ok_or(Invalid::LIST_LENGTH)?;
        if usize::from(be16(one, 2)) != SEGMENT_BYTES - 4 {
            return Err(Invalid::parameter(at + 2));
        }
        if bit(one, 1, 0) {
            return Err(Invalid::parameter_bit(at + 1, 0)); // CAT: there are no residues to concatenate
        }
        let segment = CopySegment {
            source: be16(one, 4),
            destination: be16(one, 6),
            blocks: be16(one, 10),
            count_destination: bit(one, 1, 1),
            source_lba: be64(one, 12),
            destination_lba: be64(one, 20),
        };
        out.push(segment);
        rest = after;
        at += SEGMENT_BYTES;
    }
    Ok(out)
}

/// COPY STATUS of RECEIVE COPY STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Under way.
    Running,
    /// Done.
    Done,
    /// Failed.
    Failed,
}

/// RECEIVE COPY STATUS (LID1) (SPC-4 6.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStatus {
    /// How it is.
    pub state: CopyState,
    /// Segments that were processed.
    pub segments: u16,
    /// Bytes that were written.
    pub bytes: u32,
}

impl CopyStatus {
    /// Bytes of the data.
    pub const BYTES: usize = 12;
    /// The data; TRANSFER COUNT UNITS is bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        put(&mut b, 0, &len32(Self::BYTES - 4));
        b[4] = self.state as u8;
        put(&mut b, 5, &self.segments.to_be_bytes());
        put(&mut b, 8, &self.bytes.to_be_bytes());
        b
    }
    /// From the data; `None` when it is cut off, its state is reserved, or it counts in other units.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let b = b.get(..Self::BYTES)?;
        let state = match b[4] & 0x7F {
            0 => CopyState::Running,
            1 => CopyState::Done,
            2 => CopyState::Failed,
            _ => return None,
        };
        (b[7] == 0).then(|| Self { state, segments: be16(b, 5), bytes: be32(b, 8) })
    }
}

/// RECEIVE COPY FAILURE DETAILS (LID1) (SPC-4 6.21): status and sense data of a copy that failed; nothing when none has.
pub fn build_failure(failed: Option<(u8, &[u8])>) -> Vec<u8> {
    let Some((status, sense)) = failed else { return vec![0; 4] };
    let mut out = vec![0; 60];
    out[56] = status;
    put(&mut out, 58, &super::wire::len16(sense.len()));
    out.extend_from_slice(sense);
    let bytes = len32(out.len() - 4);
    put(&mut out, 0, &bytes);
    out
}
/// Status and sense data; `None` when none has failed, or the data is cut off.
pub fn parse_failure(b: &[u8]) -> Option<(u8, &[u8])> {
    let sense = b.get(60..)?.get(..be16(b, 58).into())?;
    Some((b[56], sense))
}

impl CopyLimits {
    /// Bytes of RECEIVE COPY OPERATING PARAMETERS data.
    pub const OPERATING_BYTES: usize = 46;
    /// RECEIVE COPY OPERATING PARAMETERS (SPC-4 6.20): a list identifier of 0 may be left unused (SNLID), no data is held.
    pub fn to_operating_parameters(self) -> [u8; Self::OPERATING_BYTES] {
        let mut b = [0; Self::OPERATING_BYTES];
        put(&mut b, 0, &len32(Self::OPERATING_BYTES - 4));
        b[4] = 1;
        put(&mut b, 8, &self.targets_max.to_be_bytes());
        put(&mut b, 10, &self.segments_max.to_be_bytes());
        put(&mut b, 12, &self.list_bytes_max.to_be_bytes());
        put(&mut b, 16, &self.segment_bytes_max.to_be_bytes());
        put(&mut b, 34, &u16::from(self.concurrent_max).to_be_bytes());
        b[36] = self.concurrent_max;
        b[43] = 2;
        b[44] = SEGMENT_BLOCKS;
        b[45] = TARGET_IDENTIFICATION;
        b
    }
    /// From RECEIVE COPY OPERATING PARAMETERS data.
    pub fn parse_operating_parameters(b: &[u8]) -> Option<Self> {
        let b = b.get(..44)?;
        Some(Self {
            targets_max: be16(b, 8),
            segments_max: be16(b, 10),
            list_bytes_max: be32(b, 12),
            segment_bytes_max: be32(b, 16),
            concurrent_max: byte(b, 36),
        })
    }
}
