//! What must hold of a shard whenever no step is half done.
//!
//! Owns: the checks that link index, segments, chunks and operations; each part is recomputed from the others.
//! Never: runs in production; tests and the simulator ask for it.

use super::chunk_part::chunk_parts;
use super::op::{Change, Logged, Op, Place, Reading, Stage};
use super::state::State;
use crate::buffer::ring::SegmentState;
use crate::capacity::{BlockContent, Phys, Walk};
use crate::pace::DESTAGE_WORKERS;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use std::collections::BTreeMap;
#[cfg(feature = "hooks")]
use std::collections::BTreeSet;

impl State {
    /// Checks what must hold whenever no step is half done. Slow; for tests.
    pub fn check(&self) {
        self.check_quickly();
        let live = self.check_index();
        let ring = self.log.ring();
        for seq in ring.tail()..=ring.head() {
            assert_eq!(ring.get(seq).live, live[ring.place(seq) as usize], "live blocks of segment {seq}");
        }
        assert_eq!(ring.live(), live.iter().map(|l| u64::from(*l)).sum::<u64>());
        self.check_segments();
        self.check_operations();
        self.check_pins();
        self.check_busy();
        self.space.check();
        self.check_chunks();
        if self.destage.jobs() == 0 {
            assert!(self.destage.moving().is_empty(), "no job is under way, and blocks are on their way to capacity");
        }
    }

    /// The part that costs next to nothing.
    pub fn check_quickly(&self) {
        let (ring, log) = (self.log.ring(), &self.log);
        assert!(ring.tail() <= log.tail_durable(), "segments were released that a durable batch still names as needed");
        assert!(log.tail_durable() <= log.tail_next() && log.tail_next() <= ring.head() + 1, "the tail is ahead of what may be named");
        assert!(self.destage.clean() >= ring.tail() && self.destage.clean() <= ring.head() + 1, "what is clean is not in the log");
        assert!(self.destage.jobs() as usize <= DESTAGE_WORKERS, "there are more jobs than workers");
        assert_eq!(self.figures.batches, self.figures.batch_blocks.iter().sum::<u64>(), "batches, and how large they were");
        if let Some(open) = log.open_segment() {
            assert!(open.seq == ring.head() && ring.get(open.seq).state == SegmentState::Open, "the open segment is not the newest");
            assert_eq!(open.at.max(1), ring.get(open.seq).used, "what is used of the open segment");
        }
    }

    /// What the index names is in the log, and each of it has a place to go. Gives back the live blocks of each place.
    fn check_index(&self) -> Vec<u32> {
        let ring = self.log.ring();
        let mut live = vec![0u32; ring.count() as usize];
        let mut written = HashSet::with_hasher(FixedState::with_seed(1));
        for seq in ring.tail()..=ring.head() {
            let (segment, first) = (ring.get(seq), ring.first_block(seq));
            for record in (0..segment.records.len()).filter_map(|i| segment.records.get(i)) {
                assert!(u32::from(record.at) + u32::from(record.blocks) <= segment.used, "a record lies past the end of segment {seq}");
                written.extend((0..u32::from(record.blocks)).map(|n| (record.key.plus(n), first + u32::from(record.at) + n)));
            }
        }
        for (key, at) in self.log.index().iter() {
            let block = at.pos.block();
            assert!(written.contains(&(key, block)), "the index names a place of the log that does not hold the block: {key:?}");
            if !at.pos.destaged() {
                live[(block / ring.segment_blocks()) as usize] += 1;
            }
            if !self.members.has(key.component()) {
                continue;
            }
            // So where no chunk is, nothing lies at all.
            let phys = self.space.lookup(key.component(), key.block().chunk());
            assert!(phys.is_some(), "a block in the log without a chunk: {key:?}");
            if let Some(phys) = phys.filter(|_| at.pos.destaged() && self.figures.checksum_errors == 0) {
                let there = self.space.table().get(phys).block(key.block().in_chunk());
                let want = if at.pos.unchecked() { BlockContent::Unchecked } else { BlockContent::Checked(at.crc) };
                assert_eq!(there, want, "a block counts as moved, and capacity holds something else: {key:?}");
            }
        }
        live
    }

    fn check_segments(&self) {
        let ring = self.log.ring();
        for seq in ring.tail()..=ring.head() {
            let segment = ring.get(seq);
            let open = self.log.open_segment().is_some_and(|open| open.seq == seq);
            assert_eq!(segment.state, if open { SegmentState::Open } else { SegmentState::Sealed }, "segment {seq}");
            assert!(segment.seq == seq && segment.used <= ring.segment_blocks(), "segment {seq}");
            // What is clean stays clean, and only that may be named as not needed.
            let clean = self.destage.clean().max(self.log.tail_next());
            assert!(seq >= clean || segment.live == 0 && !open, "segment {seq} counts as clean, and is not");
        }
        for seq in ring.head() + 1..ring.tail() + ring.count() {
            let (state, live) = ring.at_place(ring.place(seq));
            assert!(state == SegmentState::Free && live == 0, "a segment that is not in use is not free");
        }
    }

    /// Each operation is where its stage says.
    fn check_operations(&self) {
        let (mut waiting, mut logging, mut parts) = (0, 0, BTreeMap::new());
        for (_, op) in self.ops.iter() {
            match &op.stage {
                Stage::Waiting(_) => waiting += 1,
                Stage::Logging(_) => logging += 1,
                Stage::Reading(_) | Stage::Split { .. } => {}
            }
            *parts.entry(op.parent).or_insert(0u32) += 1;
        }
        assert_eq!(waiting, self.log.waiting().len(), "operations that wait, and those in line");
        let in_batch = if self.log.is_writing() { self.log.batch_ops().len() } else { 0 };
        assert_eq!(logging, in_batch, "operations on their way into the log, and those in the batch");
        for (key, op) in self.ops.iter() {
            if let Stage::Split { left, .. } = &op.stage {
                assert_eq!(parts.get(&key), Some(left), "the parts of a write");
            }
        }
    }

    /// Pins are those of reads, jobs, the scrub and summaries.
    fn check_pins(&self) {
        let ring = self.log.ring();
        let mut pins = vec![0u32; ring.count() as usize];
        let mut pin = |block: u32| pins[(block / ring.segment_blocks()) as usize] += 1;
        self.ops.iter().for_each(|(_, op)| log_reads(op).for_each(&mut pin));
        self.destage.moving().values().chain(self.log.summaries()).chain(&self.scrub.log_read()).for_each(|block| pin(*block));
        assert!(ring.pins().eq(pins.iter().copied()), "segments are pinned by nobody, or not by all who use them");
    }

    /// Chunks are kept for changes under way, and for nothing else.
    fn check_busy(&self) {
        let mut changes: BTreeMap<Phys, u32> = BTreeMap::new();
        for (_, op) in self.ops.iter().filter(|(_, op)| takes_space(op)) {
            for part in chunk_parts(op.block, op.blocks) {
                let phys = self.space.lookup(op.component, part.chunk).expect("a write under way has its chunks");
                *changes.entry(phys).or_default() += 1;
            }
        }
        let mut moves: BTreeMap<Phys, u32> = BTreeMap::new();
        for key in self.destage.moving().keys() {
            if let Some(phys) = self.space.lookup(key.component(), key.block().chunk()) {
                *moves.entry(phys).or_default() += 1;
            }
        }
        for (phys, count) in self.space.busy().counts() {
            let (changes, moves) = (changes.remove(phys).unwrap_or(0), moves.remove(phys).unwrap_or(0));
            let right = changes + moves.min(1)..=changes + moves;
            assert!(right.contains(count), "a chunk is kept for {count} changes, but there are {changes}, and {moves} blocks on their way");
        }
        assert!(changes.is_empty() && moves.is_empty(), "a chunk is not kept, though it changes");
    }

    fn check_chunks(&self) {
        let mut after = None;
        loop {
            let step = self.space.walk(after, 1 << 20);
            match step {
                Walk::End => return,
                Walk::GoOn(at) => after = Some(at),
                Walk::Found(at) => {
                    after = Some(at);
                    let (owner, chunk) = (self.space.table().get(at).component(), self.space.table().get(at).chunk());
                    let Some(owner) = owner.filter(|c| self.members.has(*c)) else { continue };
                    assert!(self.space.is_busy(at) || self.content(owner, chunk) != 0, "an empty chunk is kept: {at:?}");
                }
            }
        }
    }

    /// What each block holds that holds anything: where its newest version lies does not matter.
    #[cfg(feature = "hooks")]
    pub fn contents(&self) -> BTreeMap<(u32, u64), BlockContent> {
        use base::unit::CHUNK_BLOCKS;
        let mut all = BTreeMap::new();
        let mut after = None;
        let table = self.space.table();
        loop {
            match table.walk(after, 1 << 20) {
                Walk::End => break,
                Walk::GoOn(at) => after = Some(at),
                Walk::Found(at) => {
                    after = Some(at);
                    let entry = table.get(at);
                    let Some(owner) = entry.component().filter(|c| self.members.has(*c)) else { continue };
                    let held = (0..CHUNK_BLOCKS as u32).filter(|i| entry.written >> i & 1 == 1);
                    all.extend(held.map(|i| ((owner.0, entry.chunk() * CHUNK_BLOCKS + u64::from(i)), entry.block(i))));
                }
            }
        }
        for (key, at) in self.log.index().iter().filter(|(key, _)| self.members.has(key.component())) {
            let content = if at.pos.unchecked() { BlockContent::Unchecked } else { BlockContent::Checked(at.crc) };
            all.insert((key.component().0, key.block().0), content);
        }
        all
    }

    /// Blocks of which a change is under way.
    #[cfg(feature = "hooks")]
    pub fn changing(&self) -> BTreeSet<(u32, u64)> {
        let changes = self.ops.iter().filter(|(_, op)| !matches!(op.stage, Stage::Reading(_)));
        changes.flat_map(|(_, op)| (0..u64::from(op.blocks)).map(|n| (op.component.0, op.block.plus(n).0))).collect()
    }
}

/// Whether it keeps its chunks.
fn takes_space(op: &Op) -> bool {
    use Stage::{Logging, Waiting};
    let waiting = matches!(op.stage, Waiting(Change::Write { .. } | Change::Uncorrectable));
    let range = match &op.stage {
        Waiting(Change::Range(range)) => super::copies::takes_space(range.kind()),
        Logging(Logged::Range(kind)) => super::copies::takes_space(*kind),
        _ => false,
    };
    waiting || range || matches!(op.stage, Logging(Logged::Write { .. } | Logged::Uncorrectable))
}

/// Where the runs of a read that are with the log's device begin.
fn log_reads(op: &Op) -> impl Iterator<Item = u32> {
    let reading = if let Stage::Reading(reading) = &op.stage { Some(reading) } else { None };
    let away = |r: &Reading, i: usize| r.parts.get(i).map_or(r.buf.is_none(), Option::is_none);
    let runs = reading.into_iter().flat_map(move |r| r.runs.iter().enumerate().filter(move |(i, _)| away(r, *i)));
    runs.filter_map(|(_, run)| if let Place::Log(pos) = run.place { Some(pos.block()) } else { None })
}
