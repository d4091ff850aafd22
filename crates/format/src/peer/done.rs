//! Done: the answer to a request.
//!
//! Invariant: only an answer that says "done" has data.
//! Never: knows what was asked for; the requester compares.

use super::error::{PeerError, check, reserved};
use super::forward::RequestId;
use super::header::{Envelope, HEADER_BYTES, Header, MessageKind};
use super::segment::{SEGMENTS_MAX, Segment, Sums, put_sums};
use super::sizes::DONE_BYTES;
use crate::bytes::*;

layout!(done: 32 bytes { 0: REQUEST[8], 8: DETAIL[8], 16: OUTCOME[1], 17: FLAGS[1], 18: RESERVED[14] });

const _: () = assert!(done::BYTES == DONE_BYTES);

/// How a request went, as it is said on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// It is done; a change is durable.
    Done = 0,
    /// No free chunk.
    NoSpace = 1,
    /// A block cannot be read; the detail is its first byte.
    Media = 2,
    /// The data differs; the detail is the first byte that does.
    Miscompare = 3,
    /// Not made of whole blocks where it must be, or too long.
    Unaligned = 4,
    /// Beyond the end of the volume.
    OutOfRange = 5,
    /// The volume does not exist.
    NoVolume = 6,
    /// The volume may not be written.
    ReadOnly = 7,
    /// The device that holds the data has failed.
    Failed = 8,
    /// Its front end at the owner did not let it begin.
    Withdrawn = 9,
    /// The owner is ending. It may have done a part of it.
    Closing = 10,
    /// The owner has stopped while it was under way: it has happened, or happens when another one takes over, or never.
    Lost = 11,
    /// It did not happen: it was too old when it was about to begin.
    TooOld = 32,
    /// It did not happen: the owner has another view of the volume.
    Stale = 33,
    /// It did not happen: it was cancelled.
    Cancelled = 34,
    /// It did not happen: the node does not own the volume.
    NotOwner = 35,
    /// It did not happen: the owner has too much to do.
    Busy = 36,
    /// It did not happen: the owner takes no more requests on this link.
    Draining = 37,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 18] = [
        Outcome::Done,
        Outcome::NoSpace,
        Outcome::Media,
        Outcome::Miscompare,
        Outcome::Unaligned,
        Outcome::OutOfRange,
        Outcome::NoVolume,
        Outcome::ReadOnly,
        Outcome::Failed,
        Outcome::Withdrawn,
        Outcome::Closing,
        Outcome::Lost,
        Outcome::TooOld,
        Outcome::Stale,
        Outcome::Cancelled,
        Outcome::NotOwner,
        Outcome::Busy,
        Outcome::Draining,
    ];
    /// Whether it says that nothing happened, and nothing will.
    pub const fn did_not_happen(self) -> bool {
        self as u8 >= 32
    }
    const fn has_detail(self) -> bool {
        matches!(self, Outcome::Media | Outcome::Miscompare)
    }
}

/// The answer to a request, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which request.
    pub request: RequestId,
    /// How it went.
    pub outcome: Outcome,
    /// A byte of the volume, for the outcomes that have one; else 0.
    pub detail: u64,
}

impl Done {
    /// Reads a body that its header has checked, and its checksums. `data_bytes` are those of the header.
    pub fn parse(b: &[u8], data_bytes: [u32; SEGMENTS_MAX]) -> Result<(Done, Sums<'_>), PeerError> {
        use done::*;
        let (b, sums) = b.split_first_chunk::<BYTES>().ok_or(PeerError::Length)?;
        reserved(b, RESERVED, BYTES)?;
        let outcome = Outcome::ALL.into_iter().find(|o| *o as u8 == b[OUTCOME]).ok_or(PeerError::Value { field: "outcome" })?;
        let done = Done { request: RequestId(u64_at(b, REQUEST)), outcome, detail: u64_at(b, DETAIL) };
        check(outcome.has_detail() || done.detail == 0, "detail")?;
        check(outcome == Outcome::Done || data_bytes == [0; SEGMENTS_MAX], "data")?;
        Ok((done, Sums::parse(sums, b[FLAGS], data_bytes)?))
    }

    /// Header and body into `out`; their bytes. The data of the segments follows.
    pub fn write(&self, envelope: &Envelope, segments: &[Segment<'_>], out: &mut [u8]) -> usize {
        use done::*;
        assert!(self.outcome == Outcome::Done || segments.is_empty(), "only what is done has data");
        let (b, sums) = out[HEADER_BYTES..].split_at_mut(BYTES);
        let (flags, data_bytes, sum_bytes) = put_sums(segments, sums);
        b.fill(0);
        put_u64(b, REQUEST, self.request.0);
        put_u64(b, DETAIL, if self.outcome.has_detail() { self.detail } else { 0 });
        b[OUTCOME] = self.outcome as u8;
        b[FLAGS] = flags;
        Header::seal(MessageKind::Done, envelope, data_bytes, BYTES + sum_bytes, out)
    }
}
