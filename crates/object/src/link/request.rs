//! What is forwarded, and how it is answered: the door into a link for both of its ends.
//!
//! Invariants: a request goes in with its data and comes out with its answer, once; what it says on the wire is made here and nowhere else.
//! Never: looks at links.

use crate::io::{CompareWrite, Crcs, Data, DataVec, IoError, IoOp};
use base::unit::BLOCK_BYTES;
use base::{Instant, IoVerb, VolumeId, crc32c};
use format::peer::{Done, Forward, Incarnation, Issuer, Outcome, RequestId, Revision, Segment, SegmentSums, SessionNo};
use smallvec::{SmallVec, smallvec};

/// The owner's clock as its peer last heard it. Means something in that incarnation of the owner only.
///
/// It must be taken before the bytes of the request are read from its host, when the host's connection was last seen empty: a node that was
/// paused then forwards what is old with an old stamp, and not with one that came meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The incarnation of the owner.
    pub incarnation: Incarnation,
    /// Its clock.
    pub clock: Instant,
}

/// What to do with a volume of another node.
#[derive(Debug)]
pub enum ForwardOp {
    /// What a volume does anyway.
    Io(IoOp),
    /// Compare what is there with this, and change nothing.
    Compare {
        /// First byte.
        offset: u64,
        /// The bytes and their checksums, as of a write.
        data: DataVec,
    },
    /// Copy a range of a volume to this one.
    Copy {
        /// First byte of the destination.
        offset: u64,
        /// Bytes.
        len: u64,
        /// The volume that is read.
        source: VolumeId,
        /// First byte of it.
        source_offset: u64,
    },
}

/// A request to the owner of a volume.
#[derive(Debug)]
pub struct ForwardRequest {
    /// Given back in [`Answered`]; unique among the requests under way, for [`super::Link::cancel`].
    pub token: u64,
    /// The volume; of a Copy the destination.
    pub volume: VolumeId,
    /// By which the host's rights were judged.
    pub revision: Revision,
    /// When it came.
    pub stamp: Stamp,
    /// Whose it is.
    pub issuer: Issuer,
    /// What to do.
    pub op: ForwardOp,
}

/// The answer to a [`ForwardRequest`].
#[derive(Debug)]
pub struct Answered {
    /// The request, with its data, so that it can be tried again.
    pub request: ForwardRequest,
    /// How it went.
    pub result: Result<(), ForwardError>,
    /// Reads: one [`Data`] for each extent, with the checksums that the owner has sent.
    pub data: DataVec,
}

/// Names a session of a class and lane between two nodes. Later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// Of the node that dialed.
    pub incarnation: Incarnation,
    /// Its number in that incarnation.
    pub no: SessionNo,
}

/// Names a request at the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServedId {
    /// The session that it came in.
    pub session: SessionId,
    /// Its number there.
    pub request: RequestId,
}

/// A request of another node, at the owner. It has not begun: [`super::Link::may_begin`] says whether it may.
#[derive(Debug)]
pub struct Forwarded {
    /// For the answer.
    pub id: ServedId,
    /// The volume.
    pub volume: VolumeId,
    /// By which the requester judged it.
    pub revision: Revision,
    /// When it came to the requester at the earliest, by this node's clock.
    pub stamp: Instant,
    /// Whose it is.
    pub issuer: Issuer,
    /// What to do.
    pub op: ForwardOp,
}

/// Why a forwarded request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// As a local request fails.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The data differs from what was to be compared.
    #[error("the data differs at byte {offset}")]
    Miscompare {
        /// The first byte that differs, in the volume.
        offset: u64,
    },
    /// It did not happen: it was too old when it was about to begin.
    #[error("too old to begin")]
    TooOld,
    /// It did not happen: the owner has another view of the volume. Judge it anew.
    #[error("judged by another view of the volume")]
    Stale,
    /// It did not happen: it was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// It did not happen: the node does not own the volume. Look who does.
    #[error("the node does not own the volume")]
    NotOwner,
    /// It did not happen: too much waits already.
    #[error("too much waits already")]
    Busy,
    /// It did not happen: the owner takes no more requests on this link.
    #[error("the link takes no more requests")]
    Draining,
    /// It did not happen: it never left this node.
    #[error("never sent")]
    Unsent,
    /// The link closed. It may have happened, and if it had begun it may still be going on.
    #[error("the link to the owner closed")]
    LinkLost,
}

impl ForwardError {
    /// Whether nothing happened, and nothing will.
    pub const fn did_not_happen(self) -> bool {
        !matches!(self, ForwardError::Io(_) | ForwardError::Miscompare { .. } | ForwardError::LinkLost)
    }
    /// On the wire, with its detail. `None`: it is a failure of the link, which nobody sends.
    pub(super) const fn outcome(self) -> Option<(Outcome, u64)> {
        Some(match self {
            ForwardError::Io(IoError::NoSpace) => (Outcome::NoSpace, 0),
            ForwardError::Io(IoError::Media { offset }) => (Outcome::Media, offset),
            ForwardError::Io(IoError::Miscompare) => (Outcome::Miscompare, 0),
            ForwardError::Io(IoError::Unaligned) => (Outcome::Unaligned, 0),
            ForwardError::Io(IoError::OutOfRange) => (Outcome::OutOfRange, 0),
            ForwardError::Io(IoError::NoVolume) => (Outcome::NoVolume, 0),
            ForwardError::Io(IoError::ReadOnly) => (Outcome::ReadOnly, 0),
            ForwardError::Io(IoError::Failed) => (Outcome::Failed, 0),
            ForwardError::Io(IoError::Withdrawn) => (Outcome::Withdrawn, 0),
            // Who has sent it here takes another way, as from a node that ends.
            ForwardError::Io(IoError::Closing | IoError::NotOwner) => (Outcome::Closing, 0),
            ForwardError::Io(IoError::NoPath) => (Outcome::Lost, 0),
            ForwardError::Miscompare { offset } => (Outcome::Miscompare, offset),
            ForwardError::TooOld => (Outcome::TooOld, 0),
            ForwardError::Stale => (Outcome::Stale, 0),
            ForwardError::Cancelled => (Outcome::Cancelled, 0),
            ForwardError::NotOwner => (Outcome::NotOwner, 0),
            ForwardError::Busy => (Outcome::Busy, 0),
            ForwardError::Draining => (Outcome::Draining, 0),
            ForwardError::Unsent | ForwardError::LinkLost => return None,
        })
    }
}

/// What an answer on the wire says.
pub(super) fn result_of(done: &Done) -> Result<(), ForwardError> {
    Err(match done.outcome {
        Outcome::Done => return Ok(()),
        Outcome::NoSpace => IoError::NoSpace.into(),
        Outcome::Media => IoError::Media { offset: done.detail }.into(),
        Outcome::Miscompare => ForwardError::Miscompare { offset: done.detail },
        Outcome::Unaligned => IoError::Unaligned.into(),
        Outcome::OutOfRange => IoError::OutOfRange.into(),
        Outcome::NoVolume => IoError::NoVolume.into(),
        Outcome::ReadOnly => IoError::ReadOnly.into(),
        Outcome::Failed => IoError::Failed.into(),
        Outcome::Withdrawn => IoError::Withdrawn.into(),
        Outcome::Closing => IoError::Closing.into(),
        Outcome::Lost => IoError::NoPath.into(),
        Outcome::TooOld => ForwardError::TooOld,
        Outcome::Stale => ForwardError::Stale,
        Outcome::Cancelled => ForwardError::Cancelled,
        Outcome::NotOwner => ForwardError::NotOwner,
        Outcome::Busy => ForwardError::Busy,
        Outcome::Draining => ForwardError::Draining,
    })
}

impl ForwardOp {
    /// What it does.
    pub fn verb(&self) -> IoVerb {
        match self {
            ForwardOp::Io(op) => op.verb(),
            ForwardOp::Compare { .. } => IoVerb::Compare,
            ForwardOp::Copy { .. } => IoVerb::Copy,
        }
    }
    /// First byte and bytes.
    fn range(&self) -> (u64, u64) {
        match self {
            ForwardOp::Io(op) => op.range(),
            ForwardOp::Compare { offset, data } => (*offset, data.iter().map(|d| d.buf.len() as u64).sum()),
            ForwardOp::Copy { offset, len, .. } => (*offset, *len),
        }
    }
    /// The data that it brings, in the order of the wire.
    pub(super) fn data_mut(&mut self) -> SmallVec<[&mut Data; 2]> {
        match self {
            ForwardOp::Io(IoOp::Write { data, .. }) | ForwardOp::Compare { data, .. } => data.iter_mut().collect(),
            ForwardOp::Io(IoOp::CompareWrite { both, .. }) => smallvec![&mut both.compare, &mut both.data],
            ForwardOp::Io(_) | ForwardOp::Copy { .. } => SmallVec::new(),
        }
    }
    /// From the wire.
    fn of(forward: &Forward, data: DataVec) -> ForwardOp {
        let &Forward { offset, len, .. } = forward;
        ForwardOp::Io(match forward.verb {
            IoVerb::Read => IoOp::Read { offset, len: len as u32 },
            IoVerb::Verify => IoOp::Verify { offset, len },
            IoVerb::Write => IoOp::Write { offset, data },
            IoVerb::CompareWrite => {
                let mut both = data.into_iter();
                let mut next = || both.next().expect("a compare and write has two segments");
                IoOp::CompareWrite { offset, both: Box::new(CompareWrite { compare: next(), data: next() }) }
            }
            IoVerb::Zero => IoOp::Zero { offset, len },
            IoVerb::Trim => IoOp::Trim { offset, len },
            IoVerb::Uncorrectable => IoOp::Uncorrectable { offset, len },
            IoVerb::Flush => IoOp::Flush,
            IoVerb::Compare => return ForwardOp::Compare { offset, data },
            IoVerb::Copy => {
                let (source, source_offset) = forward.source.expect("a Copy has a source");
                return ForwardOp::Copy { offset, len, source, source_offset };
            }
        })
    }
}

impl ForwardRequest {
    /// As it goes over the wire, as this request of the session.
    pub(super) fn to_wire(&self, request: RequestId) -> Forward {
        let (offset, len) = self.op.range();
        let source = match &self.op {
            ForwardOp::Copy { source, source_offset, .. } => Some((*source, *source_offset)),
            ForwardOp::Io(_) | ForwardOp::Compare { .. } => None,
        };
        Forward {
            request,
            volume: self.volume,
            revision: self.revision,
            stamp: self.stamp.clock,
            issuer: self.issuer,
            verb: self.op.verb(),
            offset,
            len,
            source,
        }
    }
}

impl Forwarded {
    /// From the wire.
    pub(super) fn of(session: SessionId, forward: &Forward, data: DataVec) -> Forwarded {
        let &Forward { request, volume, revision, stamp, issuer, .. } = forward;
        Forwarded { id: ServedId { session, request }, volume, revision, stamp, issuer, op: ForwardOp::of(forward, data) }
    }
}

/// A piece of data as a segment. Checksums of blocks go along as they are; only what is not made of whole blocks is summed.
pub(super) fn segment(data: &Data) -> Segment<'_> {
    let by_block = !data.crcs.is_empty() && data.crcs.len() * BLOCK_BYTES == data.buf.len();
    let sums = if by_block { SegmentSums::Blocks(&data.crcs) } else { SegmentSums::Whole(crc32c(&data.buf)) };
    Segment { bytes: data.buf.len() as u32, sums }
}

/// The checksums that came with a segment: of its blocks, or of all of it.
#[derive(Debug)]
pub(super) enum SegmentCrcs {
    Blocks(Crcs),
    Whole(u32),
}

impl SegmentCrcs {
    /// Whether data has them.
    pub(super) fn hold(&self, bytes: &[u8]) -> bool {
        match self {
            SegmentCrcs::Blocks(crcs) => bytes.chunks(BLOCK_BYTES).zip(crcs).all(|(block, crc)| crc32c(block) == *crc),
            SegmentCrcs::Whole(crc) => crc32c(bytes) == *crc,
        }
    }
    /// Those of blocks; none for a segment that has none.
    pub(super) fn into_blocks(self) -> Crcs {
        match self {
            SegmentCrcs::Blocks(crcs) => crcs,
            SegmentCrcs::Whole(_) => Crcs::new(),
        }
    }
}
