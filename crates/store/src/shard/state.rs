//! Everything that a shard knows, and the effects of operations on it.
//!
//! Owns: the parts of a shard, and the steps that concern several of them. Shared by the shard's handle and its background tasks;
//! borrowed for one synchronous step at a time, never across an await.
//! Invariants: each part keeps its own; between them, a chunk is in use exactly while it has written blocks, blocks in the log, or changes
//! under way.
//! Never: waits; reaches into a part.

use crate::buffer::log::Log;
use crate::destage::progress::Destage;
use crate::pace::Pacer;
use crate::replica::Refusal;
use crate::scrub::progress::Scrub;
use crate::shard::chunk_part::{ChunkPart, chunk_parts};
use crate::shard::copies::Copies;
use crate::shard::member::Members;
use crate::shard::op::StoreError;
use crate::shard::ops::Operations;
use crate::shard::space::Space;
use crate::stats::{BAD_BLOCKS_LISTED_MAX, BadBlock, ShardStats};
use crate::{ComponentInfo, ComponentNo};
use base::hooks::{self, SeededFault};
use base::{BlockNo, Lane, Order, Seq};
use rt::{Buf, Queue, Rt};
use std::collections::VecDeque;

/// See the module.
pub(crate) struct State {
    /// Its number in the group.
    pub shard: u8,
    /// What the devices and timers of the shard have done.
    pub queue: Queue,
    /// What lies on the cache device, and what is on its way there.
    pub log: Log,
    /// What lies on capacity.
    pub space: Space,
    /// The components.
    pub members: Members,
    /// What of copies is under way.
    pub copies: Copies,
    /// How fast changes enter the log and leave it.
    pub pacer: Pacer,
    /// What was asked and not answered.
    pub ops: Operations,
    pub destage: Destage,
    pub scrub: Scrub,
    /// Blocks that were found lost, and that nobody has heard of.
    pub found_bad: VecDeque<BadBlock>,
    /// What was counted so far. What a part knows by itself is not kept here.
    pub figures: ShardStats,
    pub phase: Phase,
}

/// Blocks that were found lost and wait to be heard of. What is above comes with the next scrub.
const FOUND_BAD_MAX: usize = 64;

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
        self.log.fill(self.destage.cursor())
    }

    /// Takes a change of a component, or says why it is not carried out.
    pub fn judge(&mut self, component: ComponentNo, block: BlockNo, blocks: u32, order: &Order) -> Option<Refusal> {
        let open = || self.members.replica(component).is_none() && self.names_open(component, Lane::of(block), order);
        hooks::must(|| !open(), "a mark names a change that has not ended");
        self.members.accept(component, order, block, blocks)
    }
    /// Whether a change is in line or in the batch that the mark says has ended.
    fn names_open(&self, component: ComponentNo, lane: Lane, order: &Order) -> bool {
        let is = |of: ComponentNo, block: BlockNo, seq: Seq| of == component && Lane::of(block) == lane && seq <= order.mark;
        let waits = |(key, order): &(u32, Order)| {
            let op = &self.ops[*key];
            order.seq > Seq::default() && is(op.component, op.block, order.seq)
        };
        let logged = self.log.is_writing() && self.log.batch().iter().any(|r| is(ComponentNo(r.component), r.block, r.order.seq));
        logged || self.log.waiting().iter().any(waits)
    }

    /// An operation has ended: gives its answer.
    #[inline]
    pub fn finish(&mut self, key: u32, result: Result<(), StoreError>, buf: Option<Buf>) {
        self.ops.finish(key, result, buf, &mut self.figures);
    }

    pub fn add_component(&mut self, component: ComponentNo, info: &ComponentInfo) {
        self.members.add(component);
        if info.copy {
            self.members.becomes_replica(component);
        }
        self.space.add_component(component, info);
    }

    /// A write of the batch is durable: from now on this is the content of its blocks, if the component is still `known`.
    pub fn apply_write(&mut self, key: u32, record: usize, known: bool, unchecked: bool) {
        let op = &self.ops[key];
        let (component, block, blocks, place) = (op.component, op.block, op.blocks, op.place);
        if known {
            let order = self.log.batch()[record].order;
            self.log.apply_write(record, &op.crcs, unchecked);
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

    /// A trim of the batch is durable.
    pub fn apply_trim(&mut self, key: u32, record: usize) {
        let op = &self.ops[key];
        let (component, block, blocks, order) = (op.component, op.block, op.blocks, self.log.batch()[record].order);
        if self.members.has(component) {
            // What has no chunk has nothing in the index either.
            let most = if hooks::seeded(SeededFault::OneChunkTooFew) { 15 } else { usize::MAX };
            for part in chunk_parts(block, blocks).take(most) {
                if self.space.lookup(component, part.chunk).is_some() {
                    self.trim_part(component, part, self.log.next_lsn() - 1, &order);
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
        let (component, block, blocks, order) = (op.component, op.block, op.blocks, self.log.batch()[record].order);
        if self.members.has(component) {
            let lsn = self.log.next_lsn() - 1;
            for part in chunk_parts(block, blocks) {
                self.log.remove_part(component, part);
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

    /// The blocks have no content any more, in the log or on capacity; chunks without any content are freed.
    pub fn trim(&mut self, component: ComponentNo, block: BlockNo, blocks: u32, lsn: u64, order: &Order) {
        for part in chunk_parts(block, blocks) {
            self.trim_part(component, part, lsn, order);
        }
    }

    fn trim_part(&mut self, component: ComponentNo, part: ChunkPart, lsn: u64, order: &Order) {
        if !hooks::seeded(SeededFault::TrimKeepsLog) {
            self.log.remove_part(component, part);
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

    /// A block whose content is lost here was found when nobody had asked for it: there may be another copy.
    pub fn found_bad(&mut self, rt: &Rt, component: ComponentNo, block: BlockNo) {
        self.note_bad(component, block);
        if self.found_bad.len() < FOUND_BAD_MAX {
            self.found_bad.push_back(BadBlock { component, block });
            rt.wake(rt.core());
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
        self.log.holds(component, chunk) | self.space.lookup(component, chunk).map_or(0, |phys| self.space.written(phys))
    }
}
