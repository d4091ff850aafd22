//! Operations on several ranges of volumes, a step at a time. A front end judges the ranges first, and again before each step what is left.
//!
//! ```text
//! RangeTrim: trim, trim, ... several under way ─► done
//! RangeCopy: read a step ─► write it ─► next step, next range ... ─► done
//! ```
//!
//! Invariants: ranges are begun in their order, each byte of them once; a copy has one step in memory, which lies in one piece on either side.
//! Never: looks at limits, rights or sizes of volumes; talks to a volume itself.

use base::crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, PIECE_BYTES};
use object::{Data, DataVec, Extent, IoOp, VolumeRef};

/// Bytes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

impl ByteRange {
    /// The byte behind it.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// A trim of several ranges of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTrim {
    ranges: Vec<ByteRange>,
    begun: usize,
}

impl RangeTrim {
    /// Of these ranges, in this order. Empty ones do nothing; one that goes on where the one before ends is of that: each range is a change of its own,
    /// and hosts send blocks that lie side by side one by one.
    pub fn new(given: impl IntoIterator<Item = ByteRange>) -> Self {
        let mut ranges: Vec<ByteRange> = Vec::new();
        for next in given.into_iter().filter(|r| r.len > 0) {
            match ranges.last_mut().filter(|last| last.offset.checked_add(last.len) == Some(next.offset)) {
                Some(last) => last.len += next.len,
                None => ranges.push(next),
            }
        }
        if hooks::seeded(SeededFault::OneRangeTrimmed) {
            ranges.truncate(1);
        }
        Self { ranges, begun: 0 }
    }
    /// Whether a range is left that has not been begun.
    pub fn is_left(&self) -> bool {
        self.begun < self.ranges.len()
    }
}

/// The next range, begun.
impl Iterator for RangeTrim {
    type Item = IoOp;

    fn next(&mut self) -> Option<IoOp> {
        let range = self.ranges.get(self.begun)?;
        self.begun += 1;
        Some(IoOp::Trim { offset: range.offset, len: range.len })
    }
}

/// What a copy has under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyStep {
    /// Nothing.
    Idle,
    /// These bytes of the source are read.
    Reading(u32),
    /// So many bytes are written.
    Writing(u32),
}

/// A copy of ranges of a volume, one after the other, to one place in a volume: the same or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCopy {
    from: VolumeRef,
    to: VolumeRef,
    ranges: Vec<ByteRange>,
    /// The range that it has come to, and bytes of it that are copied.
    range: usize,
    done: u64,
    /// Where in the destination the next step goes.
    at: u64,
    /// Bytes of a step at most.
    step_max: u32,
    step: CopyStep,
}

impl RangeCopy {
    /// Of these ranges of `from`, none of them empty, to `to` from byte `at` on, in steps of at most `step_max` bytes. Offsets, lengths and
    /// `step_max` are multiples of 512.
    pub fn new(from: VolumeRef, to: VolumeRef, ranges: impl IntoIterator<Item = ByteRange>, at: u64, step_max: u32) -> Self {
        let ranges: Vec<ByteRange> = ranges.into_iter().collect();
        assert!(step_max > 0 && ranges.iter().all(|r| r.len > 0), "a step of a copy moves something");
        Self { from, to, ranges, range: 0, done: 0, at, step_max, step: CopyStep::Idle }
    }

    /// The volume that the step under way acts on: the source until it has been read.
    pub fn volume(&self) -> VolumeRef {
        if self.is_writing() { self.to } else { self.from }
    }
    /// Whether the step under way is being written.
    pub fn is_writing(&self) -> bool {
        matches!(self.step, CopyStep::Writing(_))
    }
    /// The number of the range that it has come to: if it fails now, those before are copied.
    pub fn range(&self) -> usize {
        self.range
    }

    /// The next step: what to read from the source. `None`: all is copied.
    pub fn read_next(&mut self) -> Option<IoOp> {
        assert_eq!(self.step, CopyStep::Idle, "one step at a time");
        let range = self.ranges.get(self.range)?;
        if self.done > 0 {
            hooks::reached(CoverageMark::CopyInSteps);
        }
        let offset = range.offset + if hooks::seeded(SeededFault::CopyStartsOver) { 0 } else { self.done };
        let in_piece = |at: u64| PIECE_BYTES - at % PIECE_BYTES;
        let left = range.len - self.done;
        let len = left.min(u64::from(self.step_max)).min(in_piece(offset)).min(in_piece(self.at)) as u32;
        self.step = CopyStep::Reading(len);
        Some(IoOp::Read { offset, len })
    }

    /// The step has been read, this is its data: what to write to the destination.
    pub fn write(&mut self, data: DataVec) -> IoOp {
        let CopyStep::Reading(len) = self.step else { unreachable!("a step is read before it is written") };
        self.step = CopyStep::Writing(len);
        let aligned = Extent { offset: self.at, len }.is_aligned();
        IoOp::Write { offset: self.at, data: data.into_iter().map(|d| summed(d, aligned)).collect() }
    }

    /// The step has been written; how many bytes it was.
    pub fn written(&mut self) -> u32 {
        let CopyStep::Writing(len) = self.step else { unreachable!("a step ends when it is written") };
        self.step = CopyStep::Idle;
        self.at += u64::from(len);
        self.done += u64::from(len);
        if self.done == self.ranges[self.range].len {
            self.range += 1;
            self.done = 0;
        }
        len
    }
}

/// What was read, as it must be to be written: with the checksums of its blocks where it lies on blocks, else without.
fn summed(data: Data, aligned: bool) -> Data {
    let Data { buf, mut crcs } = data;
    match (aligned, crcs.len() * BLOCK_BYTES == buf.len()) {
        (true, false) => crcs = buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect(),
        (true, true) => {}
        (false, _) => crcs.clear(),
    }
    Data { buf, crcs }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
