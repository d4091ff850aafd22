//! A part of a request: what one lane does of it. Parts and their answers are all that crosses between cores.

use crate::order::MirrorLane;
use crate::{
    copies::{CopiedPart, CopyMsg},
    io::{CompareWrite, Data, Extent, IoError, VolumeRef},
    layout::ComponentAt,
    pieces::{Survey, Surveyed},
    range_lock::Range,
};
use base::unit::{BLOCK_BYTES, BLOCK_SHIFT, BlockNo};
use base::{Lane, Ownership};

/// A part on its way to the core of its lane.
#[derive(Debug)]
pub struct Part {
    pub(crate) origin: u8,
    pub(crate) request: u32,
    pub(crate) index: u8,
    pub(crate) shard: u8,
    pub(crate) checksum: bool,
    pub(crate) volume: VolumeRef,
    pub(crate) at: ComponentAt,
    /// Which of the mirrors of the volume.
    pub(crate) mirror: u16,
    pub(crate) ownership: Ownership,
    pub(crate) extent: Extent,
    pub(crate) op: PartOp,
}

/// What a part does.
#[derive(Debug)]
pub(crate) enum PartOp {
    Read,
    /// The data is taken when the store gets it.
    Write(Option<Data>),
    /// Whole blocks only.
    Zero,
    /// Whole blocks only.
    Trim,
    /// Whole blocks only. Like a read, but the data stays here.
    Verify,
    /// Whole blocks only.
    Uncorrectable,
    /// The data is taken when the blocks around it have been read. In a box: rare, and larger than the others.
    CompareWrite(Option<Box<CompareWrite>>),
}

impl Part {
    /// The whole blocks that the part touches.
    pub(crate) fn range(&self) -> Range {
        let first = BlockNo::containing(self.extent.offset);
        let last = BlockNo::containing(self.extent.offset + u64::from(self.extent.len) - 1);
        Range { volume: self.volume, block: first.0, blocks: (last.0 - first.0 + 1) as u32 }
    }
    /// Where the part begins within its first block, in bytes.
    pub(crate) fn skew(&self) -> usize {
        self.extent.offset as usize & (BLOCK_BYTES - 1)
    }
    /// The mirror and lane in whose order a change stands.
    pub(crate) fn ordered_in(&self) -> MirrorLane {
        let lane = Lane::of(BlockNo::containing(self.extent.offset));
        MirrorLane { volume: self.volume, mirror: self.mirror, at: self.at, lane }
    }
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.op, PartOp::Read | PartOp::Verify)
    }
}

/// Bytes of a range.
pub(crate) fn range_bytes(range: &Range) -> usize {
    (range.blocks as usize) << BLOCK_SHIFT
}

/// The answer to a [`Part`], on its way back.
#[derive(Debug)]
pub struct PartDone {
    pub(crate) origin: u8,
    pub(crate) request: u32,
    pub(crate) index: u8,
    pub(crate) result: Result<(), IoError>,
    pub(crate) data: Option<Data>,
}

/// What crosses between the planes of two cores.
#[derive(Debug)]
pub enum RouterMsg {
    /// To the core of the lane.
    Part(Part),
    /// Back to the core of the request.
    Done(PartDone),
    /// To each core that may have something.
    Survey(Survey),
    /// Back to the core of the request.
    Surveyed(Surveyed),
    /// To the core of the lane, of a mirror with copies elsewhere.
    Copied(Box<CopiedPart>),
    /// Between the core of a lane, that of a shard, and that of a link.
    Copies(Box<CopyMsg>),
}
