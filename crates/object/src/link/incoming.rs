//! The message that comes in, byte by byte: its header, its body, its data.
//!
//! ```text
//!  Head ──► Body ──► Data ──► Head
//!             └ no data: Head
//! ```
//!
//! Invariants: memory for data is taken when header and body are there and right; no byte is taken that the message does not have.
//! Never: knows what a message does.

use super::request::SegmentCrcs;
use crate::io::{Data, DataVec};
use arrayvec::ArrayVec;
use format::peer::{BODY_BYTES_MAX, Change, CopyData, Done, Forward, HEADER_BYTES, Header, Listed, SEGMENTS_MAX, Sums};
use rt::Buf;
use std::ops::Range;

/// What comes next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, and a box would be an allocation for each message with data")]
pub(super) enum Expected {
    /// Of a header.
    Head,
    /// Of this header's body.
    Body(Header),
    /// Of this message's data.
    Data(Header, Arrival),
}

/// A message whose data comes in.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) what: Arriving,
    data: DataVec,
    crcs: ArrayVec<SegmentCrcs, SEGMENTS_MAX>,
    /// The segment that is being filled, and how far it is.
    segment: usize,
    at: usize,
}

/// Whose data comes in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arriving {
    Request(Forward),
    Answer(Done),
    Change(Change),
    CopyData(CopyData),
    Listed(Listed),
}

/// See the module.
pub(super) struct Incoming {
    expected: Expected,
    /// Header or body, as far as it has come.
    gathered: Box<[u8; BODY_BYTES_MAX]>,
    have: usize,
}

const _: () = assert!(HEADER_BYTES <= BODY_BYTES_MAX);

impl Incoming {
    pub(super) fn new() -> Self {
        Incoming { expected: Expected::Head, gathered: Box::new([0; BODY_BYTES_MAX]), have: 0 }
    }
    pub(super) fn expected(&mut self) -> &mut Expected {
        &mut self.expected
    }
    /// Takes bytes of a header or body of `want` bytes; how many were used. What is whole is in [`Incoming::gathered`].
    #[inline]
    pub(super) fn gather(&mut self, bytes: &[u8], want: usize) -> usize {
        let n = bytes.len().min(want - self.have);
        self.gathered[self.have..self.have + n].copy_from_slice(&bytes[..n]);
        self.have += n;
        n
    }
    /// The first `want` bytes, if they have come. Then others are gathered.
    #[inline]
    pub(super) fn whole(&mut self, want: usize) -> bool {
        let whole = self.have == want;
        if whole {
            self.have = 0;
        }
        whole
    }
    /// What was gathered last.
    #[inline]
    pub(super) fn gathered(&self) -> &[u8; BODY_BYTES_MAX] {
        &self.gathered
    }
    /// A body or data comes next, or another header.
    #[inline]
    pub(super) fn expect(&mut self, next: Expected) -> Expected {
        core::mem::replace(&mut self.expected, next)
    }
}

impl Arrival {
    /// Takes memory for the data.
    pub(super) fn new(what: Arriving, header: &Header, sums: &Sums<'_>) -> Arrival {
        let mut arrival = Arrival { what, data: DataVec::new(), crcs: ArrayVec::new(), segment: 0, at: 0 };
        for (n, bytes) in header.data_bytes.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
            arrival.data.push(Data { buf: Buf::alloc(bytes as usize), crcs: Default::default() });
            arrival.crcs.push(match sums.is_by_block(n) {
                true => SegmentCrcs::Blocks(sums.of(n).collect()),
                false => SegmentCrcs::Whole(sums.of(n).next().expect("a segment has a checksum")),
            });
        }
        arrival
    }
    /// Whether all has come.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.segment == self.data.len()
    }
    /// Copies the next bytes in; how many were used.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let buf = &mut self.data[self.segment].buf;
        let n = bytes.len().min(buf.len() - self.at);
        buf[self.at..self.at + n].copy_from_slice(&bytes[..n]);
        self.came(n);
        n
    }
    /// The buffer that is being filled, and where its next bytes go; [`Arrival::landed`] takes it back.
    pub(super) fn land(&mut self) -> (Buf, Range<usize>) {
        let buf = core::mem::replace(&mut self.data[self.segment].buf, Buf::alloc(0));
        let rest = self.at..buf.len();
        (buf, rest)
    }
    /// Bytes of the segment that are to come.
    pub(super) fn rest(&self) -> usize {
        self.data[self.segment].buf.len() - self.at
    }
    /// The buffer is back, with `n` more bytes in it.
    pub(super) fn landed(&mut self, buf: Buf, n: usize) {
        self.data[self.segment].buf = buf;
        self.came(n);
    }
    fn came(&mut self, n: usize) {
        self.at += n;
        assert!(self.at <= self.data[self.segment].buf.len(), "no more comes than was to come");
        if self.at == self.data[self.segment].buf.len() {
            self.segment += 1;
            self.at = 0;
        }
    }
    /// Whether the data has the checksums that came with it.
    pub(super) fn is_right(&self) -> bool {
        self.data.iter().zip(&self.crcs).all(|(data, crcs)| crcs.hold(&data.buf))
    }
    /// The data, with the checksums of its blocks as they came.
    pub(super) fn into_data(self) -> DataVec {
        self.data.into_iter().zip(self.crcs).map(|(Data { buf, .. }, crcs)| Data { buf, crcs: crcs.into_blocks() }).collect()
    }
}
