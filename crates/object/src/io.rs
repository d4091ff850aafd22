//! What a front end asks for and what it gets: the only door into a volume.
//!
//! Invariant: an operation takes its buffers and gives them back; every request is answered exactly once.

use crate::copies::CopyDoor;
use arrayvec::ArrayVec;
use base::crc32c;
use base::unit::{BLOCK_BYTES, IO_BYTES_MAX, PIECE_BYTES};
use base::{Instant, IoVerb, NodeId, VolumeId};
use rt::{Buf, Rt};
use smallvec::SmallVec;

/// The place of a volume in the current view. Never reused for another volume while a daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeRef(pub u32);

/// CRC-32C of each 4 KiB block of a piece of data, in order.
pub type Crcs = SmallVec<[u32; 2]>;

/// The pieces of one request are at most this many: [`IO_BYTES_MAX`] is not above [`PIECE_BYTES`].
pub const EXTENTS_MAX: usize = 2;

/// A write of at most so many bytes that lies within one piece is atomic: no read shows a part of it, and after a loss of power it is there
/// whole or not at all. Half of what the store can do: what is not made of whole blocks is written with the blocks around it.
pub const ATOMIC_BYTES_MAX: u64 = store::ATOMIC_BLOCKS as u64 * BLOCK_BYTES as u64 / 2;

/// A part of a request that lies within one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte, in the volume.
    pub offset: u64,
    /// Bytes; above zero.
    pub len: u32,
}

impl Extent {
    /// Whether it is made of whole blocks.
    pub const fn is_aligned(&self) -> bool {
        self.offset.is_multiple_of(BLOCK_BYTES as u64) && (self.len as usize).is_multiple_of(BLOCK_BYTES)
    }
    /// How many blocks it touches.
    pub const fn blocks(&self) -> u32 {
        let end = (self.offset + self.len as u64).div_ceil(BLOCK_BYTES as u64);
        (end - self.offset / BLOCK_BYTES as u64) as u32
    }
}

/// Cuts a request at the borders of pieces.
///
/// # Panics
/// When `len` is zero or above [`IO_BYTES_MAX`]: the front end bounds transfers before it takes memory for them.
pub fn extents(offset: u64, len: u32) -> ArrayVec<Extent, EXTENTS_MAX> {
    assert!(len > 0 && len as usize <= IO_BYTES_MAX, "a transfer of {len} bytes");
    let room = (PIECE_BYTES - offset % PIECE_BYTES).min(u64::from(len)) as u32;
    let mut parts = ArrayVec::new();
    parts.push(Extent { offset, len: room });
    if room < len {
        parts.push(Extent { offset: offset + u64::from(room), len: len - room });
    }
    parts
}

/// An extent that touches more than half of its piece, and its data, as two that do not: either side of the middle of the piece.
pub(crate) fn halves(extent: Extent, data: Data) -> [(Extent, Data); 2] {
    let (Extent { offset, len }, Data { buf, mut crcs }) = (extent, data);
    let first = (PIECE_BYTES / 2 - offset % (PIECE_BYTES / 2)) as u32;
    let (one, two) = (Extent { offset, len: first }, Extent { offset: offset + u64::from(first), len: len - first });
    let bufs: [Buf; 2] = match (first as usize).is_multiple_of(BLOCK_BYTES) {
        true => {
            let mut parts = buf.cut([one.len as usize, two.len as usize]).into_iter();
            [(); 2].map(|()| parts.next().expect("it was cut in two"))
        }
        false => [Buf::copy_of(&buf[..first as usize]), Buf::copy_of(&buf[first as usize..])],
    };
    let rest: Crcs = if crcs.is_empty() { Crcs::new() } else { crcs.drain(first as usize / BLOCK_BYTES..).collect() };
    let [a, b] = bufs;
    // A half that begins and ends with whole blocks has a checksum of each, whatever the other one has.
    let whole = |extent: Extent, buf: Buf, crcs: Crcs| {
        let missing = extent.is_aligned() && crcs.is_empty();
        let crcs = if missing { buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect() } else { crcs };
        (extent, Data { buf, crcs })
    };
    [whole(one, a, crcs), whole(two, b, rest)]
}

/// The bytes of one [`Extent`].
#[derive(Debug)]
pub struct Data {
    /// Exactly `Extent::len` bytes.
    pub buf: Buf,
    /// The checksum of each block, computed where the data entered; empty when the extent is not made of whole blocks.
    pub crcs: Crcs,
}

/// The data of a request: one [`Data`] for each of its [`extents`], in order.
pub type DataVec = SmallVec<[Data; EXTENTS_MAX]>;

/// A request to a volume. Offsets and lengths are bytes, multiples of 512.
#[derive(Debug)]
pub struct IoRequest {
    /// Given back in [`IoDone`].
    pub token: u64,
    /// Which volume.
    pub volume: VolumeRef,
    /// What to do.
    pub op: IoOp,
    /// It is counted within the limits of its volume already, by an [`IoOp::Turn`] that was answered: no limit holds it back.
    pub counted: bool,
}

impl IoRequest {
    /// A request that the limits of its volume count when it is submitted.
    #[inline]
    pub const fn new(token: u64, volume: VolumeRef, op: IoOp) -> Self {
        Self { token, volume, op, counted: false }
    }
}

/// What to do with a volume.
#[derive(Debug)]
pub enum IoOp {
    /// Read; `len` is at most [`IO_BYTES_MAX`].
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Write; durable when it is answered.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes and their checksums.
        data: DataVec,
    },
    /// Compare, and only if all bytes are equal, write: nothing else happens to the range in between. At most [`ATOMIC_BYTES_MAX`] within one
    /// piece. Fails with [`IoError::Miscompare`] when they are not equal.
    CompareWrite {
        /// First byte.
        offset: u64,
        /// What must be there, and what is written.
        both: Box<CompareWrite>,
    },
    /// Read and check the blocks around the range, and give nothing back. `len` may be as large as the volume.
    Verify {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Let reads of the blocks fail with [`IoError::Media`] until they are written, zeroed or trimmed. Whole blocks only.
    Uncorrectable {
        /// First byte, a multiple of [`BLOCK_BYTES`].
        offset: u64,
        /// Bytes, a multiple of [`BLOCK_BYTES`].
        len: u64,
    },
    /// Make the range read as zeroes, and free its whole blocks. `len` may be as large as the volume.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Free the whole blocks of the range, and zero edges that are not whole blocks: all of it reads as zeroes.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Answered when all that was answered before is durable (it always is), and, as a read is, while nobody else can own the volume: who does may serve
    /// another view of it. For a volume of another node: when that serves the view of it by which this was judged on all of its cores, and has nothing
    /// under way any more that was judged by an earlier one.
    Flush,
    /// Nothing but wait: answered when `requests` requests of `len` bytes may begin within the limits of the volume, which count them with it. They are
    /// submitted as [`IoRequest::counted`] then. For who has yet to take memory for them: what a limit holds back must not have any.
    Turn {
        /// First byte of what they act on.
        offset: u64,
        /// Bytes of each.
        len: u64,
        /// How many, at least one.
        requests: u32,
    },
}

impl IoOp {
    /// What only some operations must hold: to be made of whole blocks, or to lie within what can be done at once.
    pub(crate) fn is_sane(&self) -> bool {
        match self {
            IoOp::CompareWrite { offset, both } => {
                let len = both.data.buf.len() as u64;
                len == both.compare.buf.len() as u64 && (1..=ATOMIC_BYTES_MAX).contains(&len) && offset % PIECE_BYTES + len <= PIECE_BYTES
            }
            IoOp::Uncorrectable { offset, len } => (offset | len).is_multiple_of(BLOCK_BYTES as u64),
            _ => true,
        }
    }
    /// What it does.
    #[inline]
    pub const fn verb(&self) -> IoVerb {
        match self {
            IoOp::Read { .. } => IoVerb::Read,
            IoOp::Write { .. } => IoVerb::Write,
            IoOp::CompareWrite { .. } => IoVerb::CompareWrite,
            IoOp::Verify { .. } => IoVerb::Verify,
            IoOp::Uncorrectable { .. } => IoVerb::Uncorrectable,
            IoOp::Zero { .. } => IoVerb::Zero,
            IoOp::Trim { .. } => IoVerb::Trim,
            // A turn moves nothing and changes nothing either.
            IoOp::Flush | IoOp::Turn { .. } => IoVerb::Flush,
        }
    }
    /// First byte and bytes of what it reads or changes.
    pub fn range(&self) -> (u64, u64) {
        match self {
            IoOp::Read { offset, len } => (*offset, u64::from(*len)),
            IoOp::Write { offset, data } => (*offset, data.iter().map(|d| d.buf.len() as u64).sum()),
            IoOp::CompareWrite { offset, both } => (*offset, both.data.buf.len() as u64),
            IoOp::Verify { offset, len }
            | IoOp::Uncorrectable { offset, len }
            | IoOp::Zero { offset, len }
            | IoOp::Trim { offset, len }
            | IoOp::Turn { offset, len, .. } => (*offset, *len),
            IoOp::Flush => (0, 0),
        }
    }
    /// Whether it changes what is there.
    pub(crate) fn changes(&self) -> bool {
        self.verb().changes()
    }
    /// Whether it moves data, or waits for the turn of what does, and so counts against the limits of its volume.
    pub(crate) fn transfers(&self) -> bool {
        matches!(self, IoOp::Read { .. } | IoOp::Write { .. } | IoOp::CompareWrite { .. } | IoOp::Verify { .. } | IoOp::Turn { .. })
            && !(base::hooks::seeded(base::hooks::SeededFault::VerifyUncounted) && matches!(self, IoOp::Verify { .. }))
            && !(base::hooks::seeded(base::hooks::SeededFault::CompareWriteUncounted) && matches!(self, IoOp::CompareWrite { .. }))
    }
}

/// Data of [`IoOp::CompareWrite`], as for the one extent of a write.
#[derive(Debug)]
pub struct CompareWrite {
    /// What must be there. Its checksums are not looked at.
    pub compare: Data,
    /// What is written, as long as that.
    pub data: Data,
}

/// The answer to an [`IoRequest`].
#[derive(Debug)]
pub struct IoDone {
    /// As in the request.
    pub token: u64,
    /// How it went.
    pub result: Result<(), IoError>,
    /// Reads: one [`Data`] for each extent, with the checksum of each block when the extent is made of whole blocks. Otherwise the
    /// request's buffers or nothing.
    pub data: DataVec,
}

/// Why a request failed. A front end turns it into its protocol's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// No free chunk on the capacity devices. Trim or add capacity, then retry.
    #[error("out of space")]
    NoSpace,
    /// A block could not be read, its checksum is wrong on every copy, or it was declared uncorrectable. Fails this request only.
    #[error("unrecovered read error at byte {offset}")]
    Media {
        /// First byte of the block, in the volume.
        offset: u64,
    },
    /// What is there is not what a compare and write expected: nothing was written.
    #[error("the data differs")]
    Miscompare,
    /// Not made of whole blocks where it must be, or longer than what can be done at once.
    #[error("not whole blocks, or too long")]
    Unaligned,
    /// Beyond the end of the volume.
    #[error("beyond the end of the volume")]
    OutOfRange,
    /// The volume does not exist (any more).
    #[error("no such volume")]
    NoVolume,
    /// The volume may not be written.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The device that holds the data has failed.
    #[error("the disk group has failed")]
    Failed,
    /// A limit held the request back, and the front end that submitted it did not let it begin when its time came. The front end knows why.
    #[error("withdrawn before it began")]
    Withdrawn,
    /// The node is shutting down. Retry on another path or later.
    #[error("the service is shutting down")]
    Closing,
    /// This node is not the owner any more, and nothing of the request has begun. Retry on another path.
    #[error("another node is to own the volume")]
    NotOwner,
    /// Another node owns the volume, and it does not answer. A change may have happened, and does not happen any more. Retry on another path.
    #[error("the node that owns the volume does not answer")]
    NoPath,
}

/// A request for a volume that another node owns.
#[derive(Debug)]
pub struct Forward {
    /// Given back in [`ForwardDone`].
    pub id: u32,
    /// The node that owns the volume.
    pub owner: NodeId,
    /// The volume.
    pub volume: VolumeId,
    /// Of the view of the volume by which the request was judged.
    pub revision: u64,
    /// When it came from its host.
    pub since: Instant,
    /// What to do.
    pub op: IoOp,
}

/// What became of a [`Forward`].
#[derive(Debug)]
pub struct ForwardDone {
    /// As in the request.
    pub id: u32,
    /// How it went.
    pub outcome: ForwardOutcome,
}

/// See [`ForwardDone`].
#[derive(Debug)]
pub enum ForwardOutcome {
    /// The owner has answered, with the data of a read.
    Answered(Result<DataVec, IoError>),
    /// It did not happen and never will: it is judged again by what is served now, and tried again while there is time.
    NotDone(IoOp),
}

/// A door into the volumes, one for each core. A front end submits, then polls for answers.
pub trait Backend {
    /// Takes a request. It is answered exactly once, through [`Backend::pop`], possibly at once.
    fn submit(&mut self, rt: &Rt, request: IoRequest);
    /// The next answer.
    fn pop(&mut self) -> Option<IoDone>;
    /// The next request for another node, for the one front end that forwards them. Each is answered once, with [`Backend::forwarded`].
    fn pop_forward(&mut self) -> Option<Forward> {
        None
    }
    /// Whether what needs no data of a volume may be answered for it now: nobody else can own it.
    fn may_answer(&self, _: &Rt, _: VolumeRef) -> bool {
        true
    }
    /// Nobody waits any more for the answer to a request of this token: where it is with another node, it need not begin there. It is answered all
    /// the same.
    fn cancel(&mut self, _token: u64) {}
    /// The way to and from copies on other nodes, where there is any.
    fn copies(&mut self) -> Option<&mut dyn CopyDoor> {
        None
    }
    /// The next request for another node that is not wanted any more: its owner, and its `id`.
    fn pop_cancel(&mut self) -> Option<(NodeId, u32)> {
        None
    }
    /// What became of a request that was popped.
    ///
    /// # Panics
    /// Where there are none.
    fn forwarded(&mut self, _: &Rt, done: ForwardDone) {
        unreachable!("{done:?}, and nothing was forwarded")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_cut_at_the_border_of_a_piece() {
        assert_eq!(extents(0, 4096).as_slice(), [Extent { offset: 0, len: 4096 }]);
        assert_eq!(
            extents(PIECE_BYTES - 512, 1024).as_slice(),
            [Extent { offset: PIECE_BYTES - 512, len: 512 }, Extent { offset: PIECE_BYTES, len: 512 }]
        );
        assert_eq!(extents(PIECE_BYTES, PIECE_BYTES as u32).len(), 1);
        assert_eq!(extents(512, PIECE_BYTES as u32).len(), 2);
    }
}
