//! Data segments of a message, and the checksums that its body lists for them.
//!
//! Invariant: a list of checksums that parses has one for each block of a segment that says so, else one for the segment.
//! Never: holds data, computes a checksum.

use super::error::PeerError;
use crate::bytes::*;
use base::unit::{BLOCK_BYTES, PIECE_BYTES};

/// Data segments of a message: a transfer lies in at most two pieces.
pub const SEGMENTS_MAX: usize = 2;
/// Bytes of one checksum.
pub(super) const SUM_BYTES: usize = 4;
/// Flags of a body: bit n, the n-th segment has a checksum for each block.
pub(super) const FLAGS: u8 = 3;

/// The checksums of a segment that is to be sent.
#[derive(Clone, Copy, Debug)]
pub enum SegmentSums<'a> {
    /// CRC-32C of each 4 KiB block.
    Blocks(&'a [u32]),
    /// CRC-32C of all of it: it is not made of whole blocks.
    Whole(u32),
}

/// A segment that is to be sent: the data follows from where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Bytes of data, above zero.
    pub bytes: u32,
    /// Their checksums.
    pub sums: SegmentSums<'a>,
}

/// The checksums of a message's data, as they came.
#[derive(Clone, Copy, Debug)]
pub struct Sums<'a> {
    lists: [&'a [u8]; SEGMENTS_MAX],
    flags: u8,
}

impl<'a> Sums<'a> {
    /// From the end of a body.
    pub(super) fn parse(b: &'a [u8], flags: u8, data_bytes: [u32; SEGMENTS_MAX]) -> Result<Sums<'a>, PeerError> {
        if flags & !FLAGS != 0 {
            return Err(PeerError::Value { field: "flags" });
        }
        let mut lens = [0; SEGMENTS_MAX];
        for (at, len) in lens.iter_mut().enumerate() {
            let (bytes, by_block) = (data_bytes[at] as usize, flags >> at & 1 != 0);
            if by_block && (bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES)) {
                return Err(PeerError::Value { field: "flags" });
            }
            *len = SUM_BYTES * if by_block { bytes / BLOCK_BYTES } else { usize::from(bytes > 0) };
        }
        if b.len() != lens[0] + lens[1] {
            return Err(PeerError::Length);
        }
        let (first, second) = b.split_at(lens[0]);
        Ok(Sums { lists: [first, second], flags })
    }
    /// Whether a segment has a checksum for each block.
    pub fn is_by_block(&self, segment: usize) -> bool {
        self.flags >> segment & 1 != 0
    }
    /// The checksums of a segment, in order; one if it has none for each block.
    pub fn of(&self, segment: usize) -> impl Iterator<Item = u32> + use<'a> {
        let list = self.lists[segment];
        (0..list.len() / SUM_BYTES).map(move |i| u32_at(list, i * SUM_BYTES))
    }
}

/// Puts the checksums of segments to the start of `out`: their flags, the bytes of the segments, and the bytes that the checksums take.
pub(super) fn put_sums(segments: &[Segment<'_>], out: &mut [u8]) -> (u8, [u32; SEGMENTS_MAX], usize) {
    assert!(segments.len() <= SEGMENTS_MAX, "a message has {} segments", segments.len());
    let (mut flags, mut data_bytes, mut at) = (0, [0; SEGMENTS_MAX], 0);
    for (n, segment) in segments.iter().enumerate() {
        data_bytes[n] = segment.bytes;
        match segment.sums {
            SegmentSums::Blocks(sums) => {
                assert!(segment.bytes > 0 && segment.bytes as usize == sums.len() * BLOCK_BYTES, "each block of a segment has a checksum");
                flags |= 1 << n;
                for sum in sums {
                    put_u32(out, at, *sum);
                    at += SUM_BYTES;
                }
            }
            SegmentSums::Whole(sum) => {
                assert!(segment.bytes > 0, "a segment has data");
                put_u32(out, at, sum);
                at += SUM_BYTES;
            }
        }
    }
    (flags, data_bytes, at)
}

/// How a transfer is cut at the border of a piece: bytes of its first and its second segment. `len` is at most a piece.
pub const fn split(offset: u64, len: u32) -> [u32; SEGMENTS_MAX] {
    let room = PIECE_BYTES - offset % PIECE_BYTES;
    if (len as u64) <= room { [len, 0] } else { [room as u32, len - room as u32] }
}
