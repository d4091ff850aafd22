//! The lanes of one core: takes parts, puts overlapping ones in order, turns parts that are not whole blocks into
//! read-modify-write, and drives the shards of the store that live on this core.
//!
//! ```text
//! accept ─► Waiting ─► Running ────────────────────────► answered
//!              ▲          │ not whole blocks
//!              │          ├─► ReadingEdges (reads the blocks around it) ─► Running (writes them back) ─► answered
//!              │          │      (compare and write goes this way too, and ends here when the bytes differ)
//!           RangeLocks         └─► ReadingEdges ─► answered (a read: the bytes asked for are cut out)
//! ```
//!
//! Invariant: a part is answered exactly once; a change stays in [`RangeLocks`] from its beginning to its answer.
//! Never: looks at requests, knows where a part came from.

use crate::{
    copies::{COPIED, Copies},
    fill::Fills,
    io::{CompareWrite, Data, IoError, VolumeRef},
    layout::{ComponentAt, GroupSlot, Mirror, VolumeLayout},
    order::{Given, MirrorLane, Sequencer},
    part::{Part, PartDone, PartOp, range_bytes},
    pieces::Pieces,
    range_lock::{Range as BlocksOf, RangeLocks},
};
use base::crc32c;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{BLOCK_BYTES, BlockNo};
use base::{Duration, Lane, Order, Seq, SourceContent, SourceRun};
use rt::{Buf, Rt};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use store::{BadBlock, ComponentNo, Crcs, OpKind, ReplicaView, ShardDone, ShardOp, StoreError};

/// Parts of one core that wait or run, of requests of all cores; those bound what they send. [`RangeLocks`] and the answers follow from them.
pub const PARTS_MAX: usize = store::OPERATIONS_MAX;
const _: () = assert!(PARTS_MAX <= u32::MAX as usize, "a part has a number of 32 bits");

/// The shard of a store, as the lanes see it: [`store::Shard`], or a stand-in of a test.
pub trait Blocks {
    /// Takes an operation on whole blocks.
    fn submit(&mut self, rt: &Rt, op: ShardOp);
    /// Moves on; `true` when something moved.
    fn poll(&mut self, rt: &Rt) -> bool;
    /// The next answer.
    fn pop_done(&mut self) -> Option<ShardDone>;
    /// Names those of the pieces `first`, `first + step` and so on before `end` in which a component may have something; false when it cannot say.
    fn pieces(&self, component: ComponentNo, first: u64, step: u64, end: u64, found: impl FnMut(u64)) -> bool;
    /// The newest change of a lane that has ended, as far as it is known here; `None`: there is no such component.
    fn newest(&self, component: ComponentNo, lane: Lane) -> Option<Seq>;
    /// What a component knows as one copy of several; `None`: it is none, it was not fenced yet.
    fn replica(&self, _component: ComponentNo) -> Option<ReplicaView> {
        None
    }
    /// How long a device of it has ended nothing though it has operations.
    fn still_for(&mut self) -> Duration {
        Duration::ZERO
    }
    /// The next block that was found lost when nobody had asked for it.
    fn pop_bad(&mut self) -> Option<BadBlock> {
        None
    }
    /// What the first of these blocks hold, as many as are of one kind.
    fn source_run(&self, _component: ComponentNo, _block: BlockNo, blocks: u32) -> SourceRun {
        SourceRun { content: SourceContent::Data, blocks, chunk: None }
    }
}

impl Blocks for store::Shard {
    fn submit(&mut self, rt: &Rt, op: ShardOp) {
        store::Shard::submit(self, rt, op);
    }
    fn poll(&mut self, rt: &Rt) -> bool {
        store::Shard::poll(self, rt)
    }
    fn pop_done(&mut self) -> Option<ShardDone> {
        store::Shard::pop_done(self)
    }
    fn pieces(&self, component: ComponentNo, first: u64, step: u64, end: u64, found: impl FnMut(u64)) -> bool {
        store::Shard::pieces(self, component, first, step, end, found)
    }
    fn newest(&self, component: ComponentNo, lane: Lane) -> Option<Seq> {
        store::Shard::newest(self, component, lane)
    }
    fn replica(&self, component: ComponentNo) -> Option<ReplicaView> {
        store::Shard::replica(self, component)
    }
    fn still_for(&mut self) -> Duration {
        store::Shard::still_for(self)
    }
    fn pop_bad(&mut self) -> Option<BadBlock> {
        store::Shard::pop_bad(self)
    }
    fn source_run(&self, component: ComponentNo, block: BlockNo, blocks: u32) -> SourceRun {
        store::Shard::source_run(self, component, block, blocks)
    }
}

/// Where a part of this core stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for an overlapping change.
    Waiting,
    /// The store works on the whole part.
    Running,
    /// The store reads the blocks around a part that is not made of whole blocks.
    ReadingEdges,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) part: Part,
    pub(crate) stage: Stage,
    /// The number of a change that the store works on; otherwise none.
    seq: Seq,
}

struct Slot<S> {
    group: GroupSlot,
    no: u8,
    shard: S,
}

base::counters! {
    /// Counters of the lanes of one core.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct LaneStats {
        /// Parts answered.
        pub parts: u64 = counter("parts"),
        /// Operations that waited for an overlapping one.
        pub waited: u64 = counter("waited_operations"),
        /// Parts that were not made of whole blocks.
        pub partial_blocks: u64 = counter("partial_block_parts"),
        /// Parts under way now.
        pub running: u64,
    }
}

/// See the module.
pub struct Lanes<S> {
    slots: Vec<Slot<S>>,
    pub(crate) parts: Slab<Held>,
    pub(crate) order: RangeLocks,
    pub(crate) numbers: Sequencer,
    pub(crate) done: VecDeque<PartDone>,
    begun: SmallVec<[u32; 8]>,
    pub(crate) stats: LaneStats,
    /// Of mirrors with copies elsewhere. A node alone has none.
    pub(crate) copies: Option<Box<Copies>>,
    /// Of volumes whose data goes to another place.
    pub(crate) fills: Option<Box<Fills>>,
}

impl<S: Blocks> Default for Lanes<S> {
    fn default() -> Self {
        Self {
            slots: vec![],
            parts: Slab::new(),
            order: RangeLocks::default(),
            numbers: Sequencer::default(),
            done: VecDeque::new(),
            begun: SmallVec::new(),
            stats: LaneStats::default(),
            copies: None,
            fills: None,
        }
    }
}

impl<S: Blocks> Lanes<S> {
    /// Puts a shard on this core.
    pub fn add_shard(&mut self, group: GroupSlot, no: u8, shard: S) {
        assert!(self.shard_mut(group, no).is_none(), "a shard is on one core once");
        self.slots.push(Slot { group, no, shard });
    }
    /// Takes the shards of a group off this core; the group must be quiet.
    pub fn remove_group(&mut self, group: GroupSlot) -> Vec<S> {
        let (out, keep) = std::mem::take(&mut self.slots).into_iter().partition(|s| s.group == group);
        self.slots = keep;
        let out: Vec<Slot<S>> = out;
        out.into_iter().map(|s| s.shard).collect()
    }
    /// A shard of this core.
    pub fn shard_mut(&mut self, group: GroupSlot, no: u8) -> Option<&mut S> {
        self.slots.iter_mut().find(|s| s.group == group && s.no == no).map(|s| &mut s.shard)
    }
    /// The pieces of a window of a volume that may hold something as far as this core knows: its shards (`expected`: how many of a group are to be here),
    /// and changes that wait for others or for the blocks around them.
    /// `copy`: the copy of a mirror that says what there is.
    pub(crate) fn survey(
        &self,
        layout: &VolumeLayout,
        window: &Range<u64>,
        copy: fn(&Mirror) -> Option<ComponentAt>,
        expected: impl Fn(GroupSlot) -> usize,
    ) -> Pieces {
        let mut found = Pieces::none(window.start);
        self.order.pieces(layout.lanes, window, |piece| found.insert(piece));
        let here = |group| self.slots.iter().filter(move |s| s.group == group);
        let step = layout.mirrors.len() as u64;
        let mut before = None;
        for (i, mirror) in layout.mirrors.iter().enumerate() {
            let Some(at) = copy(mirror) else { return Pieces::all(window) };
            // Most volumes lie in one group.
            if before != Some(at.group) && here(at.group).count() != expected(at.group) {
                return Pieces::all(window);
            }
            before = Some(at.group);
            // The first piece of the window that lies on this mirror.
            let past = window.start % step;
            let first =
                window.start + if hooks::seeded(SeededFault::SurveyOffMirror) { i as u64 + past } else { i as u64 + step - past } % step;
            for slot in here(at.group) {
                if !slot.shard.pieces(at.no, first, step, window.end, |piece| found.insert(piece)) {
                    return Pieces::all(window);
                }
            }
        }
        found
    }
    /// All shards of this core.
    pub fn shards_mut(&mut self) -> impl Iterator<Item = (GroupSlot, u8, &mut S)> {
        self.slots.iter_mut().map(|s| (s.group, s.no, &mut s.shard))
    }
    /// All shards of this core.
    pub fn shards(&self) -> impl Iterator<Item = (GroupSlot, u8, &S)> {
        self.slots.iter().map(|s| (s.group, s.no, &s.shard))
    }
    /// Counters so far.
    pub fn stats(&self) -> LaneStats {
        LaneStats { waited: self.order.waited(), running: self.parts.len() as u64, ..self.stats.clone() }
    }
    /// Whether no part is under way.
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.done.is_empty() && self.copies.as_ref().is_none_or(|copies| copies.is_idle())
    }

    /// Whether something of a volume is here that goes to no copy elsewhere.
    pub(crate) fn has_begun(&self, volume: VolumeRef) -> bool {
        self.parts.iter().any(|(_, held)| held.part.volume == volume)
    }
    /// Whether a change of a mirror is here that goes to no copy elsewhere.
    #[cold]
    pub(crate) fn changes_alone(&self, volume: VolumeRef, mirror: u16) -> bool {
        self.parts.iter().any(|(_, held)| (held.part.volume, held.part.mirror) == (volume, mirror) && held.part.changes())
    }

    /// Takes a part. It is answered through [`Lanes::pop`].
    pub fn accept(&mut self, rt: &Rt, part: Part) {
        assert!(self.parts.len() < PARTS_MAX, "the cores bound what they send");
        let (range, changes) = (part.range(), part.changes());
        let id = self.parts.insert(Held { part, stage: Stage::Waiting, seq: Seq::default() }) as u32;
        if self.order.begin(range, id, changes) {
            self.begin(rt, id);
        }
    }

    /// The next answer.
    pub fn pop(&mut self) -> Option<PartDone> {
        self.done.pop_front()
    }

    /// Moves every shard on and takes its answers. `true` when something moved.
    pub fn poll(&mut self, rt: &Rt) -> bool {
        let mut moved = false;
        for i in 0..self.slots.len() {
            moved |= self.slots[i].shard.poll(rt);
            while let Some(done) = self.slots[i].shard.pop_done() {
                moved = true;
                self.on_store(rt, done);
            }
            while let Some(bad) = self.slots[i].shard.pop_bad() {
                moved = true;
                self.found_bad(rt, i, bad);
            }
        }
        moved
    }

    /// A shard has found a block of a component lost. Where there may be another copy, the owner is to hear of it.
    #[cold]
    #[inline(never)]
    fn found_bad(&mut self, rt: &Rt, slot: usize, bad: BadBlock) {
        let Slot { group, shard, .. } = &self.slots[slot];
        if shard.replica(bad.component).is_some() {
            let at = ComponentAt { group: *group, no: bad.component };
            self.copies(rt).finds_bad(at, bad.block);
        }
    }

    pub(crate) fn begin(&mut self, rt: &Rt, id: u32) {
        let Some(Held { part, stage, .. }) = self.parts.get_mut(id as usize) else { return self.begin_copied(rt, id) };
        assert_eq!(*stage, Stage::Waiting, "a part begins once");
        let range = part.range();
        let whole = part.extent.is_aligned();
        let kind = match &mut part.op {
            PartOp::Trim => OpKind::Trim,
            PartOp::Zero => OpKind::Zero,
            PartOp::Uncorrectable => OpKind::Uncorrectable,
            PartOp::Write(data) if whole => {
                let Data { buf, crcs } = data.take().expect("the data of a part that has not begun");
                OpKind::Write { buf, crcs, checksum: part.checksum }
            }
            PartOp::Read | PartOp::Verify | PartOp::Write(_) | PartOp::CompareWrite(_) => {
                OpKind::Read { buf: Buf::alloc(range_bytes(&range)) }
            }
        };
        let covers = !whole || matches!(part.op, PartOp::CompareWrite(_));
        *stage = if covers { Stage::ReadingEdges } else { Stage::Running };
        self.stats.partial_blocks += u64::from(!whole);
        self.hand_to_store(rt, id, kind);
    }

    fn hand_to_store(&mut self, rt: &Rt, id: u32, mut kind: OpKind) {
        let order = match kind {
            OpKind::Read { .. } => Order::default(),
            _ => match self.number(id) {
                Given::Number(order) => order,
                _ => return self.numbers.wait(&self.parts[id as usize].part.ordered_in(), id, kind),
            },
        };
        if self.fills.is_some() {
            self.keep_for_follow(id, &mut kind);
        }
        let part = &self.parts[id as usize].part;
        let (range, at, shard) = (part.range(), part.at, part.shard);
        let op = ShardOp { cookie: u64::from(id), component: at.no, block: BlockNo(range.block), blocks: range.blocks, order, kind };
        match self.shard_mut(at.group, shard) {
            Some(shard) => shard.submit(rt, op),
            None => self.on_store(rt, ShardDone { cookie: op.cookie, result: Err(StoreError::Closing), buf: None, crcs: Crcs::new() }),
        }
    }

    /// The number of a change that is given to the store, if it need not wait.
    fn number(&mut self, id: u32) -> Given {
        let Held { part, seq, .. } = &mut self.parts[id as usize];
        let place = part.ordered_in();
        let mut given = self.numbers.begin(&place, &part.ownership);
        if given == Given::First {
            let (at, shard) = (part.at, part.shard);
            let slot = self.slots.iter().find(|s| s.group == at.group && s.no == shard);
            // What comes after its component was deleted has no place in an order: the store refuses it.
            let Some(before) = slot.and_then(|slot| slot.shard.newest(at.no, place.lane)) else {
                return Given::Number(Order::default());
            };
            given = self.numbers.begin_first(&place, &part.ownership, before);
        }
        if let Given::Number(order) = &given {
            *seq = order.seq;
        }
        given
    }

    /// The change that the store worked on has ended, and its part with it: the mark may move, and what waited for that begins.
    #[inline(always)]
    pub(crate) fn change_ended(&mut self, rt: &Rt, place: &MirrorLane, seq: Seq) {
        if self.numbers.ended(place, seq) {
            self.next_begins(rt, place);
        }
    }
    /// The mark of a lane moves again, perhaps far: all that waited for that may begin.
    #[cold]
    pub(crate) fn mark_moves(&mut self, rt: &Rt, place: &MirrorLane) {
        self.numbers.let_go(place);
        for _ in 0..self.numbers.may_begin(place) {
            if self.numbers.may_begin(place) == 0 {
                break;
            }
            self.next_begins(rt, place);
        }
    }
    /// The mark of a lane has moved: what waited for that begins.
    #[cold]
    fn next_begins(&mut self, rt: &Rt, place: &MirrorLane) {
        while let Some((next, kind)) = self.numbers.next(place) {
            if next & COPIED == 0 {
                return self.hand_to_store(rt, next, kind);
            }
            if self.number_copied(rt, next) {
                return;
            }
        }
    }

    /// A component was deleted on this core, and its shards know that. What waited for a number hears it from them.
    pub fn forget(&mut self, rt: &Rt, component: ComponentAt) {
        for (id, kind) in self.numbers.forget(component) {
            self.hand_to_store(rt, id, kind);
        }
    }

    fn on_store(&mut self, rt: &Rt, done: ShardDone) {
        let id = done.cookie as u32;
        let Some(Held { part, seq, .. }) = self.parts.get(id as usize) else { return self.on_copy_store(rt, done) };
        if seq.counter > 0 {
            let (place, seq) = (part.ordered_in(), *seq);
            self.change_ended(rt, &place, seq);
        }
        let Held { part, stage, .. } = &mut self.parts[id as usize];
        match (done.result, *stage) {
            (_, Stage::Waiting) => panic!("an answer to a part that has not begun"),
            (Ok(()), Stage::ReadingEdges) if part.changes() => {
                self.edges_read(rt, id, done.buf.expect("a read gives its buffer back"));
            }
            (Ok(()), Stage::ReadingEdges) => {
                let block = done.buf.expect("a read gives its buffer back");
                let data = cut_out(part, &block);
                self.answer(rt, id, Ok(()), Some(data));
            }
            (Ok(()), Stage::Running) => {
                let data = done.buf.map(|buf| Data { buf, crcs: done.crcs });
                self.answer(rt, id, Ok(()), data);
            }
            (Err(error), _) => self.answer(rt, id, Err(io_error(&error)), None),
        }
    }

    /// The blocks around a write were read.
    fn edges_read(&mut self, rt: &Rt, id: u32, block: Buf) {
        let Held { part, stage, .. } = &mut self.parts[id as usize];
        let Data { buf, crcs } = match merged(part, block) {
            Merged::Write(data) => data,
            Merged::Same => return self.answer(rt, id, Ok(()), None),
            Merged::Miscompare => return self.answer(rt, id, Err(IoError::Miscompare), None),
        };
        *stage = Stage::Running;
        let kind = OpKind::Write { buf, crcs, checksum: part.checksum };
        self.hand_to_store(rt, id, kind);
    }

    /// A change does not hold its range any more: what has waited for it begins.
    #[inline]
    pub(crate) fn release(&mut self, rt: &Rt, range: BlocksOf, id: u32) {
        let mut begun = std::mem::take(&mut self.begun);
        self.order.end(range, id, |id| begun.push(id));
        for id in begun.drain(..) {
            self.begin(rt, id);
        }
        self.begun = begun;
    }

    fn answer(&mut self, rt: &Rt, id: u32, result: Result<(), IoError>, data: Option<Data>) {
        if self.fills.is_none() || !self.follows(id, result) {
            self.end(rt, id, result, data);
        }
    }
    #[inline(always)]
    pub(crate) fn end(&mut self, rt: &Rt, id: u32, result: Result<(), IoError>, data: Option<Data>) {
        let Held { part, .. } = self.parts.remove(id as usize);
        self.stats.parts += 1;
        let data = if matches!(part.op, PartOp::Read) { data } else { None };
        self.done.push_back(PartDone { origin: part.origin, request: part.request, index: part.index, result, data });
        if part.changes() && !(result == Err(IoError::Miscompare) && hooks::seeded(SeededFault::MiscompareKeepsPlace)) {
            self.release(rt, part.range(), id);
        }
    }
}

/// What becomes of a change when the blocks around it were read.
pub(crate) enum Merged {
    /// These blocks are written.
    Write(Data),
    /// They are there already.
    Same,
    /// They are not what was expected.
    Miscompare,
}

/// Puts the data of a change into the blocks around it.
pub(crate) fn merged(part: &mut Part, mut block: Buf) -> Merged {
    let skew = part.skew();
    let data = match &mut part.op {
        PartOp::Write(data) => data.take().expect("the data of a part that covers"),
        PartOp::CompareWrite(both) => {
            let CompareWrite { compare, data } = *both.take().expect("the data of a part that covers");
            if block[skew..skew + compare.buf.len()] != *compare.buf && !hooks::seeded(SeededFault::CompareIgnored) {
                hooks::reached(CoverageMark::Miscompare);
                return Merged::Miscompare;
            }
            data
        }
        _ => panic!("only a write covers and changes"),
    };
    let Data { buf, crcs } = data;
    if block[skew..skew + buf.len()] == *buf {
        hooks::reached(CoverageMark::SameDataKept);
        // What is there is durable already. So zeroing the edge of a hole takes no space, and works on a full device.
        return Merged::Same;
    }
    if part.extent.is_aligned() {
        return Merged::Write(Data { buf, crcs });
    }
    hooks::reached(CoverageMark::PartOfBlockWritten);
    if hooks::seeded(SeededFault::RestOfBlockLost) {
        block.fill(0);
    }
    let sums = |block: &Buf| block.chunks_exact(BLOCK_BYTES).map(crc32c).collect();
    let early: Option<Crcs> = hooks::seeded(SeededFault::SumBeforeMerge).then(|| sums(&block));
    block[skew..skew + buf.len()].copy_from_slice(&buf);
    let crcs = early.unwrap_or_else(|| sums(&block));
    Merged::Write(Data { buf: block, crcs })
}

/// The bytes of a part that was read with the blocks around it.
pub(crate) fn cut_out(part: &Part, block: &Buf) -> Data {
    let skew = part.skew();
    let mut buf = Buf::alloc(part.extent.len as usize);
    let len = buf.len();
    buf.copy_from_slice(&block[skew..skew + len]);
    Data { buf, crcs: Crcs::new() }
}

fn io_error(error: &StoreError) -> IoError {
    match error {
        StoreError::NoSpace => IoError::NoSpace,
        StoreError::Media { block } | StoreError::Uncorrectable { block } => IoError::Media { offset: block.offset() },
        StoreError::DeviceFailed => IoError::Failed,
        StoreError::NoComponent => IoError::NoVolume,
        // The owner is another one by now, or this one in a later epoch: to be tried again.
        StoreError::StaleEpoch | StoreError::EpochNotAccepted => IoError::NotOwner,
        StoreError::Closing => IoError::Closing,
        StoreError::TooManyInDoubt | StoreError::BadChange => IoError::Failed,
    }
}
