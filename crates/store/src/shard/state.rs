//! Everything that a shard knows, and the effects of operations on it.
//!
//! Owns: the index, the ring, the chunk maps, the operations in flight. Shared by the shard's handle and its background tasks;
//! borrowed for one synchronous step at a time, never across an await.
//! Invariants: `live` of the segments counts exactly the index entries that are not destaged; a chunk is in use exactly while it
//! has written blocks, live blocks in the log, or changes under way that are counted in `busy`.
//! Never: waits.

use crate::buffer::LogWriter;
use crate::buffer::ring::{self, Ring};
use crate::destage::progress::Destage;
use crate::index::{Key, Located, LogIndex, LogPos};
use crate::pace::Pacer;
use crate::scrub::progress::Scrub;
use crate::shard::chunk_part::{ChunkPart, chunk_parts};
use crate::shard::member::Members;
use crate::shard::op::StoreError;
use crate::shard::ops::Operations;
use crate::shard::space::Space;
use crate::stats::{BAD_BLOCKS_LISTED_MAX, BadBlock, ShardStats};
use crate::{ComponentInfo, ComponentNo};
use base::hooks::{self, SeededFault};
use base::unit::CHUNK_BLOCKS;
use base::{BlockNo, Lane, Order, Seq};
use format::disk::FormatTag;
use format::disk::log::Record;
use rt::sync::Notify;
use rt::{Buf, Device, Queue};
use std::collections::VecDeque;

pub(crate) struct State {
    pub tag: FormatTag,
    pub shard: u8,
    pub cache: Device,
    /// Where the slice begins on the cache device, in bytes.
    pub slice_at: u64,
    pub queue: Queue,
    pub index: LogIndex,
    pub ring: Ring,
    pub log: LogWriter,
    pub space: Space,
    pub members: Members,
    pub pacer: Pacer,
    pub ops: Operations,
    /// Changes in line for the log, with what their owner says of them.
    pub waiting: VecDeque<(u32, Order)>,
    /// A checkpoint waits for a batch with the new tail.
    pub tail_wanted: bool,
    pub tail_written: Notify,
    pub destage: Destage,
    pub scrub: Scrub,
    pub figures: ShardStats,
    pub phase: Phase,
}

/// How long a shard goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// It takes no new operations, and ends what it has.
    Closing,
    /// The background work has ended as well.
    Quiet,
}

impl State {
    /// Share of the log whose content is not yet on capacity, as far as destaging has come.
    pub fn fill(&self) -> f64 {
        let segment = f64::from(self.ring.segment_blocks());
        let cursor = self.destage.cursor();
        if cursor.seq > self.ring.head() {
            return 0.0;
        }
        let mut blocks = (self.ring.head() + 1 - cursor.seq) as f64 * segment;
        let head = self.ring.get(self.ring.head());
        if head.state == ring::SegmentState::Open {
            blocks -= segment - f64::from(head.used);
        }
        let at = self.ring.get(cursor.seq);
        if at.records.len() > 0 {
            blocks -= cursor.record as f64 / at.records.len() as f64 * f64::from(at.used);
        }
        (blocks / (self.ring.count() as f64 * segment)).clamp(0.0, 1.0)
    }

    /// Takes a change of a component, or says why it cannot be taken.
    pub fn judge(&mut self, component: ComponentNo, block: BlockNo, order: &Order) -> Option<StoreError> {
        let lane = Lane::of(block);
        hooks::must(|| !self.names_open(component, lane, order), "a mark names a change that has not ended");
        self.members.accept(component, lane, order)
    }
    /// Whether a change is in line or in the batch that the mark says has ended.
    fn names_open(&self, component: ComponentNo, lane: Lane, order: &Order) -> bool {
        let is = |of: ComponentNo, block: BlockNo, seq: Seq| of == component && Lane::of(block) == lane && seq <= order.mark;
        let waits = |(key, order): &(u32, Order)| {
            let op = &self.ops[*key];
            order.seq > Seq::default() && is(op.component, op.block, order.seq)
        };
        let batch = &self.log.batch;
        let logged = batch.in_flight && batch.records.iter().any(|r| is(ComponentNo(r.component), r.block, r.order.seq));
        logged || self.waiting.iter().any(waits)
    }

    /// An operation has ended: gives its answer.
    #[inline]
    pub fn finish(&mut self, key: u32, result: Result<(), StoreError>, buf: Option<Buf>) {
        self.ops.finish(key, result, buf, &mut self.figures);
    }

    pub fn add_component(&mut self, component: ComponentNo, info: &ComponentInfo) {
        self.members.add(component);
        self.space.add_component(component, info);
    }

    /// A write of the batch is durable: from now on this is the content of its blocks, if the component is still `known`.
    pub fn apply_write(&mut self, key: u32, record: usize, known: bool, unchecked: bool) {
        let op = &self.ops[key];
        let (component, block, blocks, place) = (op.component, op.block, op.blocks, op.place);
        let Record { data_at, order, .. } = self.log.batch.records[record];
        let seq = self.log.open.as_ref().expect("just written to").seq;
        if known {
            let first = Key::new(component, block);
            self.ring.get_mut(seq).records.push(ring::Record { key: first, at: data_at as u16, blocks: blocks as u16 });
            let at = self.ring.first_block(seq) + data_at;
            for i in 0..blocks {
                let crc = self.ops[key].crcs[i as usize];
                self.index_write(first.plus(i), Located { pos: LogPos::new(at + i, unchecked), crc });
            }
            if let Some(phys) = place {
                let part = ChunkPart { chunk: block.chunk(), first: block.in_chunk(), blocks };
                self.settle_part(component, part, phys, &order);
            } else {
                for part in chunk_parts(block, blocks) {
                    let phys = self.space.lookup(component, part.chunk).expect("a busy chunk is not freed");
                    self.settle_part(component, part, phys, &order);
                }
            }
        } else {
            self.unplace(key);
        }
    }

    /// One block's newest version is now at `at` of the log.
    #[inline]
    pub fn index_write(&mut self, key: Key, at: Located) {
        if let Some(old) = self.index.insert(key, at)
            && !old.pos.destaged()
        {
            self.ring.live_less(old.pos.block());
        }
        self.ring.live_more(at.pos.block());
    }

    /// A trim of the batch is durable.
    pub fn apply_trim(&mut self, key: u32, record: usize) {
        let op = &self.ops[key];
        let (component, block, blocks, order) = (op.component, op.block, op.blocks, self.log.batch.records[record].order);
        if self.members.has(component) {
            // What has no chunk has nothing in the index either.
            let most = if hooks::seeded(SeededFault::OneChunkTooFew) { 15 } else { usize::MAX };
            for part in chunk_parts(block, blocks).take(most) {
                if self.space.lookup(component, part.chunk).is_some() {
                    self.trim_part(component, part, self.log.next_lsn - 1, &order);
                }
            }
        }
    }

    /// Whether the blocks, of which no change is under way, have no content at all. Then to trim them changes nothing, and needs no record: what
    /// replay would bring back is what is in memory now, and what is under way elsewhere (`docs/on-disk-format.md`, I6).
    pub fn holds_nothing(&self, component: ComponentNo, block: BlockNo, blocks: u32) -> bool {
        let most = if hooks::seeded(SeededFault::FirstChunkLookedAt) { 1 } else { usize::MAX };
        chunk_parts(block, blocks).take(most).all(|part| {
            self.space.lookup(component, part.chunk).is_none_or(|phys| {
                let log = !hooks::seeded(SeededFault::LogNotLookedAt);
                let content = if log { self.content(component, part.chunk) } else { self.space.written(phys) };
                content & part.mask() == 0
            })
        })
    }

    /// Blocks of the batch are durably uncorrectable. Like a trim it needs no place in the log from now on: the next checkpoint has it.
    pub fn apply_uncorrectable(&mut self, key: u32, record: usize) {
        let op = &self.ops[key];
        let (component, block, blocks, order) = (op.component, op.block, op.blocks, self.log.batch.records[record].order);
        if self.members.has(component) {
            let lsn = self.log.next_lsn - 1;
            for part in chunk_parts(block, blocks) {
                self.index_remove_part(component, part);
                let phys = self.space.lookup(component, part.chunk).expect("a busy chunk is not freed");
                self.space.set_uncorrectable(phys, part.mask(), lsn);
                self.space.change_takes_effect(component, part, &order);
                if !hooks::seeded(SeededFault::MaskForgetsMark) {
                    self.space.note_change(phys, part, &order);
                }
            }
        }
        self.unplace(key);
    }

    /// The blocks of a part have no content in the log any more.
    pub fn index_remove_part(&mut self, component: ComponentNo, part: ChunkPart) {
        for i in part.first..part.first + part.blocks {
            self.index_remove(Key::new(component, BlockNo(part.chunk * CHUNK_BLOCKS + u64::from(i))));
        }
    }

    /// The blocks have no content any more, in the log or on capacity; chunks without any content are freed.
    pub fn trim(&mut self, component: ComponentNo, block: BlockNo, blocks: u32, lsn: u64, order: &Order) {
        for part in chunk_parts(block, blocks) {
            self.trim_part(component, part, lsn, order);
        }
    }

    fn trim_part(&mut self, component: ComponentNo, part: ChunkPart, lsn: u64, order: &Order) {
        if !hooks::seeded(SeededFault::TrimKeepsLog) {
            self.index_remove_part(component, part);
        }
        let found = self.space.lookup(component, part.chunk);
        if let Some(phys) = found {
            if !hooks::seeded(SeededFault::TrimKeepsCapacity) {
                self.space.clear_blocks(phys, part, lsn);
            }
            self.space.change_takes_effect(component, part, order);
            if !hooks::seeded(SeededFault::MaskForgetsTrim) {
                self.space.note_change(phys, part, order);
            }
            if !hooks::seeded(SeededFault::ChunkLeaked) {
                self.free_if_empty(component, part.chunk);
            }
        }
    }

    pub fn index_remove(&mut self, key: Key) {
        if let Some(old) = self.index.remove(key)
            && !old.pos.destaged()
        {
            self.ring.live_less(old.pos.block());
        }
    }

    /// Lists a block whose content is lost here.
    pub fn note_bad(&mut self, component: ComponentNo, block: BlockNo) {
        let bad = BadBlock { component, block };
        let list = &mut self.figures.bad_blocks;
        if list.len() < BAD_BLOCKS_LISTED_MAX && !list.contains(&bad) {
            list.push(bad);
        }
    }

    /// What lies in a chunk: bit i says that block i has content, on capacity or in the log.
    pub fn content(&self, component: ComponentNo, chunk: u64) -> u16 {
        let on_capacity = self.space.lookup(component, chunk).map_or(0, |phys| self.space.written(phys));
        (0..CHUNK_BLOCKS).fold(on_capacity, |mask, i| {
            let found = self.index.get(Key::new(component, BlockNo(chunk * CHUNK_BLOCKS + i))).is_some();
            mask | (u16::from(found) << i)
        })
    }
}
