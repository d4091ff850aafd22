//! The ring of segments of a shard's slice: which are in use, what lives in them, which may be reused.
//!
//! Owns: the state of each segment, its records (to find at destage what it holds), its live count and its pins.
//! Invariants: segments are opened in the order of their sequence number and released in the same order (I2); segment
//! `seq` lies at place `seq % count`; a segment is never reopened while it is pinned.
//! Never: does I/O, looks at the index.
//!
//! ```text
//!   Free ──open──► Open ──seal──► Sealed ──release──► Free (reusable once pins == 0)
//! ```

use crate::index::Key;
use base::hooks::{self, SeededFault};

/// Segments that writes may not take: one for the batch that carries a new tail, which nothing else takes, one for the retry of a failed batch.
pub(crate) const RESERVE_SEGMENTS: u64 = 2;
/// Emptied record lists that are kept for the next segments.
const SPARE_LISTS_MAX: usize = 16;

/// One run of blocks that a record wrote: `blocks` blocks from `key` on at block `at` of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub key: Key,
    pub at: u16,
    pub blocks: u16,
}

/// The records of a segment, 12 bytes each.
#[derive(Default, Debug)]
pub(crate) struct Records {
    keys: Vec<u64>,
    spans: Vec<(u16, u16)>,
}

impl Records {
    pub fn push(&mut self, record: Record) {
        self.keys.push(record.key.0);
        self.spans.push((record.at, record.blocks));
    }
    pub fn get(&self, index: usize) -> Option<Record> {
        let (at, blocks) = *self.spans.get(index)?;
        Some(Record { key: Key(self.keys[index]), at, blocks })
    }
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    fn clear(&mut self) {
        self.keys.clear();
        self.spans.clear();
    }
    fn memory_bytes(&self) -> u64 {
        (self.keys.capacity() * 8 + self.spans.capacity() * 4) as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    Free,
    Open,
    Sealed,
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub seq: u64,
    pub state: SegmentState,
    /// Blocks used from its start, header included.
    pub used: u32,
    /// Blocks whose newest version is here and not yet on capacity.
    pub live: u32,
    /// Device operations in flight on it: reads, the summary.
    pub pins: u32,
    pub records: Records,
}

/// The ring. See the module.
#[derive(Debug)]
pub(crate) struct Ring {
    segments: Vec<Segment>,
    /// Blocks of a segment, a power of two.
    segment_blocks: u32,
    shift: u32,
    /// Oldest segment in use; `head + 1` when none is.
    tail: u64,
    /// Newest segment in use.
    head: u64,
    spare: Vec<Records>,
    /// Live blocks of all segments.
    live: u64,
}

impl Ring {
    /// A ring of `count` free segments of `segment_blocks` blocks (a power of two), the next to be opened being `next`.
    pub fn new(count: u32, segment_blocks: u32, next: u64) -> Self {
        assert!(segment_blocks.is_power_of_two() && segment_blocks <= 1 << 15 && count > RESERVE_SEGMENTS as u32 && next > 0);
        let segments = (0..count)
            .map(|_| Segment { seq: 0, state: SegmentState::Free, used: 0, live: 0, pins: 0, records: Records::default() })
            .collect();
        Self { segments, segment_blocks, shift: segment_blocks.trailing_zeros(), tail: next, head: next - 1, spare: Vec::new(), live: 0 }
    }

    pub fn count(&self) -> u64 {
        self.segments.len() as u64
    }
    pub fn segment_blocks(&self) -> u32 {
        self.segment_blocks
    }
    /// Oldest segment in use (`head() + 1` when none is).
    pub fn tail(&self) -> u64 {
        self.tail
    }
    /// Newest segment in use.
    pub fn head(&self) -> u64 {
        self.head
    }
    /// Segments in use.
    pub fn in_use(&self) -> u64 {
        self.head + 1 - self.tail
    }
    /// Segments not in use (some may still be pinned).
    pub fn free(&self) -> u64 {
        self.count() - self.in_use()
    }
    /// Blocks that are live and not on capacity, in the whole log.
    pub fn live(&self) -> u64 {
        self.live
    }
    /// Place of segment `seq` in the slice, in segments.
    pub fn place(&self, seq: u64) -> u32 {
        (seq % self.count()) as u32
    }
    /// First block of segment `seq`, from the start of the slice.
    pub fn first_block(&self, seq: u64) -> u32 {
        self.place(seq) << self.shift
    }
    /// Segment `seq`, which must be in use.
    pub fn get(&self, seq: u64) -> &Segment {
        let segment = &self.segments[(seq % self.count()) as usize];
        debug_assert_eq!(segment.seq, seq);
        segment
    }
    pub fn get_mut(&mut self, seq: u64) -> &mut Segment {
        let place = (seq % self.count()) as usize;
        debug_assert_eq!(self.segments[place].seq, seq);
        &mut self.segments[place]
    }

    /// May the next segment be opened, leaving `keep` free?
    pub fn can_open(&self, keep: u64) -> bool {
        let keep = keep - u64::from(keep > 0 && hooks::seeded(SeededFault::ReserveOffByOne));
        self.free() > keep
            && (self.segments[((self.head + 1) % self.count()) as usize].pins == 0 || hooks::seeded(SeededFault::PinsIgnored))
    }

    /// Opens the next segment. Only when [`Ring::can_open`] said so.
    pub fn open(&mut self) -> u64 {
        assert!(self.can_open(0), "the log has no segment to open");
        self.head += 1;
        let records = self.spare.pop().unwrap_or_default();
        let place = (self.head % self.count()) as usize;
        let segment = &mut self.segments[place];
        assert!(segment.state == SegmentState::Free && segment.live == 0);
        *segment = Segment { seq: self.head, state: SegmentState::Open, used: 0, live: 0, pins: 0, records };
        self.head
    }

    /// Nothing will be added to segment `seq`.
    pub fn seal(&mut self, seq: u64) {
        let segment = self.get_mut(seq);
        assert_eq!(segment.state, SegmentState::Open);
        segment.state = SegmentState::Sealed;
    }

    /// Releases the oldest segment: all of it is on capacity, and the tail that says so is durable.
    pub fn release_oldest(&mut self) {
        assert!(self.in_use() > 0);
        let place = (self.tail % self.count()) as usize;
        let segment = &mut self.segments[place];
        assert!(segment.state == SegmentState::Sealed && segment.live == 0, "{segment:?}");
        segment.state = SegmentState::Free;
        segment.used = 0;
        let mut records = core::mem::take(&mut segment.records);
        if self.spare.len() < hooks::tiny(SPARE_LISTS_MAX, 1) {
            records.clear();
            self.spare.push(records);
        }
        self.tail += 1;
    }

    fn of_block(&mut self, block: u32) -> &mut Segment {
        &mut self.segments[(block >> self.shift) as usize]
    }
    /// A block at `block` of the slice has become the newest version, not on capacity.
    pub fn live_more(&mut self, block: u32) {
        self.of_block(block).live += 1;
        self.live += 1;
    }
    /// The block there is overwritten, trimmed or on capacity.
    pub fn live_less(&mut self, block: u32) {
        let segment = self.of_block(block);
        assert!(segment.live > 0, "a segment holds less than nothing: {} at {block}", segment.seq);
        segment.live -= 1;
        self.live -= 1;
    }
    /// Keeps the segment with that block from being reused.
    pub fn pin(&mut self, block: u32) {
        self.of_block(block).pins += 1;
    }
    /// Ends one [`Ring::pin`].
    pub fn unpin(&mut self, block: u32) {
        let segment = self.of_block(block);
        assert!(segment.pins > 0);
        segment.pins -= 1;
    }
    /// State and live blocks of the segment at that place, in use or not.
    pub fn at_place(&self, place: u32) -> (SegmentState, u32) {
        let segment = &self.segments[place as usize];
        (segment.state, segment.live)
    }
    /// The pins of each segment.
    pub fn pins(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().map(|s| s.pins)
    }
    /// Memory of the records, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let lists: u64 = self.segments.iter().map(|s| s.records.memory_bytes()).sum();
        lists + (self.segments.len() * size_of::<Segment>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ComponentNo;
    use base::BlockNo;

    #[test]
    fn segments_are_used_and_released_in_order_round_and_round() {
        let mut ring = Ring::new(4, 256, 1);
        assert_eq!((ring.in_use(), ring.free()), (0, 4));
        for seq in 1..100 {
            assert_eq!(ring.open(), seq);
            assert_eq!(ring.place(seq), (seq % 4) as u32);
            let block = ring.first_block(seq) + 3;
            ring.live_more(block);
            ring.seal(seq);
            ring.live_less(block);
            ring.release_oldest();
            assert_eq!(ring.in_use(), 0);
        }
    }

    #[test]
    fn a_pinned_segment_is_not_reopened() {
        let mut ring = Ring::new(3, 256, 1);
        ring.open();
        let block = ring.first_block(1);
        ring.pin(block);
        ring.seal(1);
        ring.release_oldest();
        ring.open();
        ring.open();
        assert_eq!(ring.free(), 1);
        assert!(!ring.can_open(0));
        ring.unpin(block);
        assert!(ring.can_open(0) && !ring.can_open(1));
    }

    #[test]
    fn records_come_back_as_they_were_pushed() {
        let mut records = Records::default();
        let record = Record { key: Key::new(ComponentNo(3), BlockNo(77)), at: 5, blocks: 256 };
        records.push(record);
        assert_eq!(records.get(0), Some(record));
        assert_eq!(records.get(1), None);
        assert_eq!(records.len(), 1);
    }
}
