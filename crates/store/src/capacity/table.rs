//! The chunk table of a shard, in memory.
//!
//! ```text
//!          allocate            set_block           clear_blocks (to none)       free
//!   free ───────────► empty ──────────────► written ──────────────────► empty ────────► free
//!                      (not on the device)  (in a page once committed)
//! ```
//!
//! Invariants (all checked by [`ChunkTable::check`]):
//! - a (component, chunk) has at most one physical chunk; the forward map and the entries say the same;
//! - a chunk is either free in the bitmap or has an owner, never both;
//! - a component's chunks all lie on its home device; its count is right; the sum of what is promised and not yet taken
//!   is right;
//! - a page that differs from what was committed is in the list of dirty pages;
//! - the version of a chunk is a number that no other state of it ever had, so a reader that finds the same version
//!   before and after knows that nothing changed.
//!
//! Never: does I/O. Everything is synchronous; `load` and `checkpoint` bring it from and to the devices.
//!
//! Memory: 92 bytes a chunk in pages that have any in use, 4 bytes of forward map for an allocated one (64 when it is alone in its piece), 24
//! bytes a page (of 42 chunks) that was ever used, and a bit a chunk: about 97 bytes for 64 KiB of data, 1.5 GiB a TiB.

mod check;
mod devices;
mod ranged;

use super::extents::FreeMap;
use super::forward::Forward;
use super::phys::Phys;
use crate::components::{ComponentNo, base_of};
use crate::geometry::{CapacityGeometry, EXTENT_CHUNKS};
use crate::usage::{ChunksUsed, Room, Usage};
use base::Epoch;
use base::hooks::{self, CoverageMark, SeededFault};
use base::unit::{CHUNK_BLOCKS, CHUNK_BYTES};
use format::disk::chunk::CHUNK_NO_MAX;
use format::disk::log::COMPONENT_NO_MAX;
use format::disk::page::{PAGE_BYTES, TableHead};
use format::disk::{CHUNKS_PER_PAGE, ChunkEntry, FormatTag, PageAddress, PageHeader, PageKind, chunk};
use std::collections::BTreeMap;

/// Pages by which the used part of the table on a device grows.
const GROW_PAGES: u32 = 64;

/// What the table knows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    component: u32,
    chunk: u32,
    /// Bit i: block i has content on capacity.
    pub written: u16,
    /// Bit i: block i is kept without checksum, or (where `crcs` says [`UNCORRECTABLE`]) may not be read; part of `written`.
    pub unchecked: u16,
    /// Changes with every change of this entry.
    pub ver: u32,
    /// Batch of the last change of content: the low 32 bits, and the next 16.
    lsn_low: u32,
    lsn_high: u16,
    /// The epoch of the last change that is durable.
    pub epoch: Epoch,
    /// Bit i: block i has changed since the object last stopped being in sync on all copies, or the chunk was made since.
    pub changed: u16,
    /// CRC-32C of each written block that is not `unchecked`; 0 or [`UNCORRECTABLE`] otherwise.
    pub crcs: [u32; CHUNK_BLOCKS as usize],
}

/// In the place of the checksum of an `unchecked` block: reads of it fail, as a host asked. On the device it has a bit of its own.
const UNCORRECTABLE: u32 = 1;

/// What a block of a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// Nothing: zeroes.
    Zeroes,
    /// Data with this CRC-32C.
    Checked(u32),
    /// Data that is kept without checksum.
    Unchecked,
    /// Nothing that may be read: reads fail until something else is done to it.
    Uncorrectable,
}

const FREE: Chunk = Chunk {
    component: 0,
    chunk: 0,
    written: 0,
    unchecked: 0,
    ver: 0,
    lsn_low: 0,
    lsn_high: 0,
    epoch: Epoch(0),
    changed: 0,
    crcs: [0; CHUNK_BLOCKS as usize],
};
const _: () = assert!(size_of::<Chunk>() == 92);

impl Chunk {
    /// The component that owns it; `None` when free.
    pub fn component(&self) -> Option<ComponentNo> {
        (self.component != 0).then_some(ComponentNo(self.component))
    }
    /// Batch of the last change of content. Below 2^48: a batch each microsecond for nine years.
    pub fn lsn(&self) -> u64 {
        u64::from(self.lsn_high) << 32 | u64::from(self.lsn_low)
    }
    fn raise_lsn(&mut self, lsn: u64) {
        let newest = self.lsn().max(lsn);
        assert!(newest < 1 << 48, "the log has no numbers left");
        (self.lsn_low, self.lsn_high) = (newest as u32, (newest >> 32) as u16);
    }
    /// Which chunk of the object it holds.
    pub fn chunk(&self) -> u64 {
        u64::from(self.chunk)
    }
    /// What block `i` holds on capacity.
    pub fn block(&self, i: u32) -> BlockContent {
        let bit = 1u16 << i;
        if self.written & bit == 0 {
            BlockContent::Zeroes
        } else if self.unchecked & bit == 0 {
            BlockContent::Checked(self.crcs[i as usize])
        } else if self.crcs[i as usize] == UNCORRECTABLE {
            BlockContent::Uncorrectable
        } else {
            BlockContent::Unchecked
        }
    }
    /// Bit i: reads of block i fail, as a host asked.
    fn uncorrectable(&self) -> u16 {
        let marked = |i: &u32| self.unchecked >> i & 1 == 1 && self.crcs[*i as usize] == UNCORRECTABLE;
        if self.unchecked == 0 { 0 } else { (0..CHUNK_BLOCKS as u32).filter(marked).fold(0, |mask, i| mask | 1 << i) }
    }
    fn entry(&self) -> Option<ChunkEntry> {
        // an owner without content is not worth a place on the device: replay of the log allocates again
        if self.component == 0 || self.written == 0 {
            return None;
        }
        let (uncorrectable, mut crcs) = (self.uncorrectable(), self.crcs);
        if uncorrectable != 0 {
            (0..crcs.len()).filter(|i| uncorrectable >> i & 1 == 1).for_each(|i| crcs[i] = 0);
        }
        let unchecked = self.unchecked & !uncorrectable;
        let Chunk { component, written, epoch, changed, .. } = *self;
        let lsn = self.lsn();
        Some(ChunkEntry { component, chunk: self.chunk(), written, unchecked, uncorrectable, lsn, epoch, changed, crcs })
    }
}

/// Why a chunk could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No chunk is free, or all that are free are promised to other components.
    #[error("no free chunk on the component's device")]
    NoSpace,
    /// No such component.
    #[error("no such component")]
    NoComponent,
    /// The device has failed.
    #[error("the component's device has failed")]
    DeviceFailed,
}

/// Space of one capacity device in this shard, in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpace {
    /// All.
    pub total: u64,
    /// Not allocated.
    pub free: u64,
    /// Promised to components and not yet allocated by them (a part of `free`).
    pub promised: u64,
}

/// A page of the table on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRef {
    /// Number of the capacity device.
    pub device: u8,
    /// Number of the page; 0 is the head.
    pub page: u32,
}

/// What is to be written for one checkpoint, in two phases: `pages`, a flush, then `heads`, a flush. See
/// [`super::write_checkpoint`], which does all that.
#[derive(Debug)]
#[must_use = "a checkpoint ends with committed() or aborted()"]
pub struct Checkpoint {
    /// Pages that changed. All must be durable before any of `heads` is written.
    pub pages: Vec<PageRef>,
    /// Heads of the tables that grew (mostly none).
    pub heads: Vec<PageRef>,
}

/// A broken invariant: a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chunk table: {what} ({at:?})")]
pub struct Inconsistent {
    /// Which invariant.
    pub what: &'static str,
    /// Where.
    pub at: Option<Phys>,
}

struct Body {
    entries: [Chunk; CHUNKS_PER_PAGE],
    used: u8,
}

/// What is known of a page that is in use on the device.
#[derive(Clone, Copy, Debug)]
struct Meta {
    /// Generation of the newest version that was ever tried.
    generation: u64,
    /// Versions that were tried since the newest committed one.
    tries: u32,
    /// Slot of the newest committed version.
    slot: u8,
    /// In the list of dirty pages.
    queued: bool,
    /// Encoded for the open checkpoint.
    writing: bool,
}

impl Meta {
    /// Never written: the first version goes to slot 0.
    const NEW: Meta = Meta { generation: 0, tries: 0, slot: 1, queued: false, writing: false };
}

struct DeviceTable {
    geometry: CapacityGeometry,
    /// Meta of pages 0..used; the head is page 0.
    meta: Vec<Meta>,
    /// Body of page i + 1.
    bodies: Vec<Option<Box<Body>>>,
    free: FreeMap,
    promised: u64,
    /// Its space over all shards, and what this shard has said of it.
    room: Room,
    said: i64,
    /// Pages in use when the open checkpoint began.
    pages_committing: u64,
    /// The generation that its pages begin behind.
    base: u64,
    failed: bool,
}

struct Component {
    device: u8,
    /// This shard's part of the reservation.
    reserve: u64,
    allocated: u64,
    /// The same over all shards.
    used: ChunksUsed,
}

impl Component {
    fn unfulfilled(&self) -> u64 {
        self.reserve.saturating_sub(self.allocated)
    }
}

/// See the module.
pub struct ChunkTable {
    tag: FormatTag,
    shard: u8,
    shards: u8,
    devices: Vec<DeviceTable>,
    forward: Forward,
    components: BTreeMap<u32, Component>,
    usage: Usage,
    /// Components that were dropped and may still have chunks, with the next place to look at.
    dropped: Vec<(u32, Phys, u64)>,
    dirty: Vec<PageRef>,
    checkpoint_open: bool,
    /// Changes of chunks so far; the low half is the version of the one that changed last.
    changes: u64,
}

impl ChunkTable {
    /// An empty table.
    pub fn new(tag: FormatTag, shard: u8, shards: u8, capacity: &[CapacityGeometry]) -> Self {
        Self {
            tag,
            shard,
            shards,
            devices: capacity.iter().map(DeviceTable::new).collect(),
            forward: Forward::new(),
            components: BTreeMap::new(),
            usage: Usage::default(),
            dropped: Vec::new(),
            dirty: Vec::new(),
            checkpoint_open: false,
            changes: 0,
        }
    }

    /// The same, whose chunks count in `usage`. Before it knows a component.
    pub(super) fn counted_in(self, usage: &Usage) -> Self {
        debug_assert!(self.components.is_empty());
        let mut table = Self { usage: usage.clone(), ..self };
        for (index, d) in table.devices.iter_mut().enumerate() {
            d.counted_in(usage.room(index as u8));
        }
        table
    }

    // ---- components -------------------------------------------------------------------------------------------------

    /// Makes a component known: its home device and the chunks promised to it in the whole group. Again: changes the
    /// promise.
    pub fn add_component(&mut self, no: ComponentNo, device: u8, reserve_chunks: u64) {
        assert!(no.0 != 0 && no.0 <= COMPONENT_NO_MAX && usize::from(device) < self.devices.len());
        let reserve = reserve_chunks.div_ceil(u64::from(self.shards));
        let new = || Component { device, reserve: 0, allocated: 0, used: self.usage.of(no, device) };
        let c = self.components.entry(no.0).or_insert_with(new);
        assert!(c.device == device, "a component does not move");
        let d = &mut self.devices[usize::from(device)];
        d.promised -= c.unfulfilled();
        c.reserve = reserve;
        d.promised += c.unfulfilled();
        d.say_room();
    }

    /// Forgets a component. Its chunks become free by and by: see [`ChunkTable::reap`].
    pub fn drop_component(&mut self, no: ComponentNo) {
        let Some(c) = self.components.remove(&no.0) else { return };
        let d = &mut self.devices[usize::from(c.device)];
        d.promised -= c.unfulfilled();
        d.say_room();
        if c.allocated > 0 {
            self.dropped.push((no.0, Phys { device: c.device, chunk: 0 }, c.allocated));
        }
    }

    /// Frees chunks of dropped components, looking at up to `budget` chunks; whether there is more to do.
    pub fn reap(&mut self, budget: usize) -> bool {
        let mut left = budget;
        while left > 0 {
            let Some((no, mut at, mut remain)) = self.dropped.pop() else { return false };
            let end = self.devices[usize::from(at.device)].geometry.chunks_per_shard;
            while left > 0 && remain > 0 && at.chunk < end {
                left -= 1;
                match self.body(at) {
                    None => at.chunk = (at.chunk / CHUNKS_PER_PAGE as u32 + 1) * CHUNKS_PER_PAGE as u32,
                    Some(e) => {
                        if e.component == no {
                            self.release(at);
                            remain -= 1;
                        }
                        at.chunk += 1;
                    }
                }
            }
            if remain > 0 && at.chunk < end {
                self.dropped.push((no, at, remain));
            }
        }
        !self.dropped.is_empty()
    }

    /// Chunks that a component has in this shard.
    pub fn component_allocated(&self, no: ComponentNo) -> u64 {
        self.components.get(&no.0).map_or(0, |c| c.allocated)
    }
    /// Its home device.
    pub fn component_device(&self, no: ComponentNo) -> Option<u8> {
        self.components.get(&no.0).map(|c| c.device)
    }

    // ---- looking up -------------------------------------------------------------------------------------------------

    /// Where a chunk of a component lies.
    #[inline]
    pub fn lookup(&self, no: ComponentNo, chunk: u64) -> Option<Phys> {
        self.forward.get(no.0, chunk)
    }
    /// Names the pieces of `first`, `first + step` and so on before `end` in which a component has a chunk.
    pub fn pieces(&self, no: ComponentNo, first: u64, step: u64, end: u64, found: impl FnMut(u64)) {
        self.forward.pieces(no.0, first, step, end, found);
    }
    /// No piece from this one on has a chunk of the component.
    pub fn pieces_end(&self, no: ComponentNo) -> u64 {
        self.forward.pieces_end(no.0)
    }
    fn body(&self, at: Phys) -> Option<&Chunk> {
        let body = self.devices[usize::from(at.device)].bodies.get(at.chunk as usize / CHUNKS_PER_PAGE)?.as_deref()?;
        Some(&body.entries[at.chunk as usize % CHUNKS_PER_PAGE])
    }
    /// What is known of a physical chunk (of a free one: nothing, with version 0).
    #[inline]
    pub fn get(&self, at: Phys) -> &Chunk {
        self.body(at).unwrap_or(&FREE)
    }
    /// Changes of chunks so far: what [`ChunkTable::changed_since`] compares with.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }
    /// Whether a chunk has changed since there were so many changes. Never misses one; of a chunk that rests for 2^32 changes it may say so by
    /// mistake, for as few of them as lie in between.
    pub fn changed_since(&self, at: Phys, changes: u64) -> bool {
        let age = (self.changes as u32).wrapping_sub(self.get(at).ver);
        u64::from(age) < self.changes - changes
    }
    /// Its first byte on its device.
    #[inline]
    pub fn offset(&self, at: Phys) -> u64 {
        self.devices[usize::from(at.device)].geometry.chunk_offset(self.shard, at.chunk)
    }
    /// The first allocated chunk after `after` (from the start: `None`), looking at up to `budget` chunks: either a chunk,
    /// or where to go on from, or the end.
    pub fn walk(&self, after: Option<Phys>, budget: usize) -> Walk {
        assert!(budget > 0);
        let mut at = match after {
            Some(p) => Phys { chunk: p.chunk + 1, ..p },
            None => Phys { device: 0, chunk: 0 },
        };
        let mut left = budget;
        while left > 0 {
            let Some(d) = self.devices.get(usize::from(at.device)) else { return Walk::End };
            let page = at.chunk as usize / CHUNKS_PER_PAGE;
            if page >= d.bodies.len() || at.chunk >= d.geometry.chunks_per_shard {
                // costs nothing, so that every call comes further
                at = Phys { device: at.device + 1, chunk: 0 };
                continue;
            }
            left -= 1;
            match self.body(at) {
                None => at.chunk = (page as u32 + 1) * CHUNKS_PER_PAGE as u32,
                Some(e) if e.component != 0 => return Walk::Found(at),
                Some(_) => at.chunk += 1,
            }
        }
        // the last step was forward within a device
        Walk::GoOn(Phys { chunk: at.chunk - 1, ..at })
    }
    /// Space on each device.
    pub fn space(&self) -> Vec<DeviceSpace> {
        self.devices.iter().map(DeviceTable::space).collect()
    }
    /// Chunks in use.
    pub fn allocated(&self) -> u64 {
        self.forward.len() as u64
    }

    // ---- changing ---------------------------------------------------------------------------------------------------

    fn next_ver(&mut self) -> u32 {
        self.changes += 1;
        if self.changes as u32 == 0 {
            self.changes += 1; // which stands for no version
        }
        self.changes as u32
    }
    fn entry_mut(&mut self, at: Phys) -> &mut Chunk {
        let body = self.devices[usize::from(at.device)].bodies[at.chunk as usize / CHUNKS_PER_PAGE].as_mut();
        &mut body.expect("the chunk is allocated").entries[at.chunk as usize % CHUNKS_PER_PAGE]
    }

    /// Gives (component, chunk) a physical chunk, next to its neighbours where possible. It must have none.
    pub fn allocate(&mut self, no: ComponentNo, chunk: u64) -> Result<Phys, AllocateError> {
        assert!(chunk <= CHUNK_NO_MAX);
        let c = self.components.get(&no.0).ok_or(AllocateError::NoComponent)?;
        let (device, own) = (c.device, c.unfulfilled());
        let d = &self.devices[usize::from(device)];
        if d.failed {
            return Err(AllocateError::DeviceFailed);
        }
        if u64::from(d.free.free()) + u64::from(hooks::seeded(SeededFault::LastPromisedGiven) && d.free.free() > 0) <= d.promised - own {
            return Err(AllocateError::NoSpace);
        }
        let place = self.place_for(no, device, chunk).ok_or(AllocateError::NoSpace)?;
        let at = Phys { device, chunk: place };
        self.own(at, no.0, chunk);
        Ok(at)
    }

    /// Within the extent that other chunks of the piece are in; else at its place in a free extent; else anywhere.
    fn place_for(&self, no: ComponentNo, device: u8, chunk: u64) -> Option<u32> {
        let free = &self.devices[usize::from(device)].free;
        let in_piece = (chunk % u64::from(EXTENT_CHUNKS)) as u32;
        let first = chunk - u64::from(in_piece);
        // the closest sibling first
        for distance in 1..EXTENT_CHUNKS {
            for i in [in_piece.checked_sub(distance), Some(in_piece + distance).filter(|i| *i < EXTENT_CHUNKS)].into_iter().flatten() {
                if let Some(sibling) = self.forward.get(no.0, first + u64::from(i)) {
                    let place = (sibling.chunk + in_piece).checked_sub(i);
                    return place.filter(|p| free.is_free(*p)).or_else(|| free.first());
                }
            }
        }
        free.first_extent().map(|e| e + in_piece).or_else(|| free.first())
    }

    fn own(&mut self, at: Phys, component: u32, chunk: u64) {
        let ver = self.next_ver();
        let d = &mut self.devices[usize::from(at.device)];
        d.free.take(at.chunk);
        let page = at.chunk as usize / CHUNKS_PER_PAGE;
        if d.bodies.len() <= page {
            d.bodies.resize_with(page + 1, || None);
        }
        let body = d.bodies[page].get_or_insert_with(|| Box::new(Body { entries: [FREE; CHUNKS_PER_PAGE], used: 0 }));
        body.used += 1;
        let e = &mut body.entries[at.chunk as usize % CHUNKS_PER_PAGE];
        *e = Chunk {
            component,
            chunk: chunk as u32,
            ver,
            changed: if hooks::seeded(SeededFault::NewChunkUnmarked) { 0 } else { u16::MAX },
            ..FREE
        };
        let before = self.forward.insert(component, chunk, at);
        assert!(before.is_none(), "chunk {chunk} of component {component} is allocated twice");
        if let Some(c) = self.components.get_mut(&component) {
            d.promised -= c.unfulfilled();
            c.allocated += 1;
            c.used.more();
            d.promised += c.unfulfilled();
        }
        d.say_room();
    }

    /// Says what block `block` of a chunk now holds: its checksum (`None`: kept without) and the order of the change.
    pub fn set_block(&mut self, at: Phys, block: u32, crc: Option<u32>, lsn: u64) {
        self.set(at, block, crc.is_none(), crc.unwrap_or(0), lsn);
    }

    /// Reads of the blocks of `mask` fail from now on. `lsn`: the order of the change.
    pub fn set_uncorrectable(&mut self, at: Phys, mask: u16, lsn: u64) {
        for block in (0..CHUNK_BLOCKS as u32).filter(|i| mask >> i & 1 == 1) {
            self.set(at, block, true, UNCORRECTABLE, lsn);
        }
    }

    fn set(&mut self, at: Phys, block: u32, unchecked: bool, crc: u32, lsn: u64) {
        assert!(u64::from(block) < CHUNK_BLOCKS);
        let ver = self.next_ver();
        let e = self.entry_mut(at);
        assert!(e.component != 0, "a block of a free chunk is set");
        let bit = 1u16 << block;
        e.written |= bit;
        e.unchecked = if unchecked { e.unchecked | bit } else { e.unchecked & !bit };
        if !unchecked || crc != 0 || !hooks::seeded(SeededFault::MarkOutlivesUnchecked) {
            e.crcs[block as usize] = crc;
        }
        e.raise_lsn(lsn);
        e.ver = ver;
        self.mark_dirty(at);
    }

    /// A change of the blocks of `mask` is durable. A chunk that has no content on capacity yet is written with its content; of any other the page
    /// is due at once, because the record may be released before a block of the chunk is destaged.
    #[inline]
    pub fn set_changed(&mut self, at: Phys, mask: u16, epoch: Epoch, period_start: Epoch) {
        let e = self.entry_mut(at);
        assert!(e.component != 0, "blocks of a free chunk have changed");
        if e.epoch != epoch || e.changed & mask != mask {
            self.set_changed_anew(at, mask, epoch, period_start);
        }
    }

    #[inline(never)]
    fn set_changed_anew(&mut self, at: Phys, mask: u16, epoch: Epoch, period_start: Epoch) {
        let e = self.entry_mut(at);
        // Replay: the page has seen a later change, and so this one. (Those of a component come in the order of their epochs.)
        if epoch < e.epoch && !hooks::seeded(SeededFault::OldRecordsInMask) {
            return;
        }
        let before = (e.epoch, e.changed);
        // What changed before the period is on every copy that was in sync when it began. A chunk without an epoch is new: all of it has changed.
        let old = if hooks::seeded(SeededFault::MaskOfEachEpoch) { e.epoch < epoch } else { e.epoch < period_start };
        let since = if e.epoch != Epoch(0) && old && !hooks::seeded(SeededFault::MaskOfOldPeriod) { 0 } else { e.changed };
        e.changed = since | mask;
        if since != e.changed || !hooks::seeded(SeededFault::EpochOfFirstChange) {
            e.epoch = e.epoch.max(epoch);
        }
        if e.written != 0 && before != (e.epoch, e.changed) && !hooks::seeded(SeededFault::MaskNotDirty) {
            self.mark_dirty(at);
        }
    }

    /// The blocks of `mask` read as zeroes from now on; returns which blocks still have content. The chunk stays allocated.
    pub fn clear_blocks(&mut self, at: Phys, mask: u16, lsn: u64) -> u16 {
        let ver = self.next_ver();
        let e = self.entry_mut(at);
        assert!(e.component != 0, "blocks of a free chunk are cleared");
        let changed = e.written & mask != 0;
        if changed {
            e.written &= !mask;
            e.unchecked &= !mask;
            for (i, crc) in e.crcs.iter_mut().enumerate() {
                if mask >> i & 1 == 1 {
                    *crc = 0;
                }
            }
            e.raise_lsn(lsn);
            e.ver = ver;
        }
        let left = e.written;
        if changed && self.checkpoint_open {
            hooks::reached(CoverageMark::TrimUnderCheckpoint);
        }
        if changed && !(self.checkpoint_open && hooks::seeded(SeededFault::TrimUnderCheckpointClean)) {
            self.mark_dirty(at);
        }
        left
    }

    /// Frees a chunk.
    pub fn free(&mut self, at: Phys) {
        let no = self.get(at).component;
        assert!(no != 0, "a free chunk is freed");
        self.release(at);
        if let Some(c) = self.components.get_mut(&no) {
            let d = &mut self.devices[usize::from(at.device)];
            d.promised -= c.unfulfilled();
            c.allocated -= 1;
            c.used.fewer();
            d.promised += c.unfulfilled();
            d.say_room();
        }
    }

    /// Frees without looking at the component.
    fn release(&mut self, at: Phys) {
        let e = *self.get(at);
        let removed = self.forward.remove(e.component, e.chunk());
        assert!(removed == Some(at), "the forward map says otherwise");
        if e.written != 0 {
            self.mark_dirty(at);
        }
        let ver = self.next_ver();
        *self.entry_mut(at) = Chunk { ver, ..FREE };
        let d = &mut self.devices[usize::from(at.device)];
        d.free.give(at.chunk);
        d.say_room();
        let slot = &mut d.bodies[at.chunk as usize / CHUNKS_PER_PAGE];
        if let Some(body) = slot {
            body.used -= 1;
            if body.used == 0 {
                *slot = None; // versions come from one counter, so that forgetting them is safe
            }
        }
    }

    /// The device is lost: nothing is allocated on it or written to it any more. What is known of its chunks stays.
    pub fn fail_device(&mut self, device: u8) {
        self.devices[usize::from(device)].failed = true;
        let meta = &mut self.devices[usize::from(device)].meta;
        self.dirty.retain(|p| {
            if p.device == device {
                meta[p.page as usize].queued = false;
            }
            p.device != device
        });
    }
    /// Whether [`ChunkTable::fail_device`] was called.
    pub fn device_failed(&self, device: u8) -> bool {
        self.devices[usize::from(device)].failed
    }

    // ---- pages ------------------------------------------------------------------------------------------------------

    /// How many pages the next checkpoint would write.
    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    fn mark_dirty(&mut self, at: Phys) {
        let page = 1 + at.chunk / CHUNKS_PER_PAGE as u32;
        let d = &mut self.devices[usize::from(at.device)];
        if d.failed {
            return;
        }
        let used = d.meta.len() as u32;
        if page >= used {
            let grown = (page + 1).next_multiple_of(hooks::tiny(GROW_PAGES, 2)).min(d.geometry.chunk_pages_per_shard);
            d.meta.resize(grown as usize, Meta { generation: d.base, ..Meta::NEW });
            // every page below the mark must be readable from then on, so all are written; the head last
            let unwritten = used > 1 && hooks::seeded(SeededFault::SecondGrowthUnwritten);
            for page in core::iter::once(0).chain(used..grown).filter(|page| *page == 0 || !unwritten) {
                queue(&mut self.dirty, &mut d.meta, PageRef { device: at.device, page });
            }
        }
        queue(&mut self.dirty, &mut d.meta, PageRef { device: at.device, page });
    }

    /// Starts a checkpoint of all that is dirty; `None` if nothing is. One at a time.
    pub fn begin_checkpoint(&mut self) -> Option<Checkpoint> {
        assert!(!self.checkpoint_open, "one checkpoint at a time");
        if self.dirty.is_empty() {
            return None;
        }
        self.checkpoint_open = true;
        let mut all = core::mem::take(&mut self.dirty);
        all.sort_unstable();
        for p in &all {
            let d = &mut self.devices[usize::from(p.device)];
            d.meta[p.page as usize].queued = false;
            d.pages_committing = d.meta.len() as u64;
        }
        let (heads, pages) = all.into_iter().partition(|p| p.page == 0);
        Some(Checkpoint { pages, heads })
    }

    /// Fills `out` (4 KiB) with the page as it is now, and returns where on the device to write it.
    pub fn encode(&mut self, p: PageRef, out: &mut [u8]) -> u64 {
        let d = &mut self.devices[usize::from(p.device)];
        let kind = if p.page == 0 { PageKind::ChunkHead } else { PageKind::Chunk };
        if p.page == 0 {
            // as of the start: pages that came into use since are not part of this checkpoint
            let now = d.meta.len() as u64;
            let pages_used = if hooks::seeded(SeededFault::HeadAheadOfPages) { now } else { d.pages_committing };
            TableHead { pages_used }.build(out);
            let written = |m: &Meta| m.generation > d.base;
            hooks::must(|| d.meta[..pages_used as usize].iter().all(written), "the head of a table counts pages that were never written");
        } else {
            let body = d.bodies.get(p.page as usize - 1).and_then(Option::as_deref);
            for i in 0..CHUNKS_PER_PAGE {
                chunk::put_entry(out, i, body.and_then(|b| b.entries[i].entry()).as_ref());
            }
        }
        let m = &mut d.meta[p.page as usize];
        assert!(self.checkpoint_open && !m.writing, "a page is encoded once a checkpoint");
        m.generation += 1;
        m.tries = m.tries.saturating_add(1);
        m.writing = true;
        let address = PageAddress { kind, device: p.device, shard: self.shard, index: u64::from(p.page) };
        PageHeader { tag: self.tag, address, generation: m.generation }.seal(&mut out[..PAGE_BYTES]);
        d.geometry.chunk_page_offset(self.shard, p.page, m.slot ^ 1)
    }

    /// Everything of the checkpoint is durable.
    pub fn committed(&mut self, c: Checkpoint) {
        self.checkpoint_open = false;
        for p in c.pages.into_iter().chain(c.heads) {
            let d = &mut self.devices[usize::from(p.device)];
            let m = &mut d.meta[p.page as usize];
            if m.writing {
                (m.writing, m.tries) = (false, 0);
                m.slot ^= u8::from(!hooks::seeded(SeededFault::SlotNotSwitched));
            } else {
                assert!(d.failed, "a page of the checkpoint was not written");
            }
        }
    }

    /// The checkpoint failed somewhere: its pages are dirty again, and go to the same slots next time.
    pub fn aborted(&mut self, c: Checkpoint) {
        self.checkpoint_open = false;
        for p in c.pages.into_iter().chain(c.heads) {
            let d = &mut self.devices[usize::from(p.device)];
            d.meta[p.page as usize].writing = false;
            d.meta[p.page as usize].slot ^= u8::from(hooks::seeded(SeededFault::SlotOfFailedPage));
            if !d.failed && !hooks::seeded(SeededFault::FailedPagesForgotten) {
                queue(&mut self.dirty, &mut d.meta, p);
            }
        }
    }

    // ---- loading (see `load`) ---------------------------------------------------------------------------------------

    pub(super) fn set_loaded_pages(&mut self, device: u8, used: u32) {
        self.devices[usize::from(device)].meta.resize(used as usize, Meta::NEW);
    }
    pub(super) fn set_loaded_page(&mut self, p: PageRef, slot: u8, generation: u64) {
        let d = &mut self.devices[usize::from(p.device)];
        if p.page == 0 {
            d.base = base_of(generation);
        }
        d.meta[p.page as usize] =
            Meta { generation: if hooks::seeded(SeededFault::LoadedGenerationForgotten) { 1 } else { generation }, slot, ..Meta::NEW };
    }
    pub(super) fn has_component_at(&self, component: u32, device: u8) -> bool {
        self.components.get(&component).is_some_and(|c| c.device == device)
    }
    pub(super) fn knows_component(&self, component: u32) -> bool {
        self.components.contains_key(&component)
    }
    /// Takes an entry of a page. Two pages may both name the same chunk of a component when only one of them was
    /// committed before a crash; the log brings it right from either, the later one is less work.
    pub(super) fn insert_loaded(&mut self, at: Phys, e: &ChunkEntry) {
        if let Some(other) = self.forward.get(e.component, e.chunk) {
            hooks::reached(CoverageMark::ChunkInTwoPages);
            if self.get(other).lsn() >= e.lsn {
                if !hooks::seeded(SeededFault::OlderPlaceLeft) {
                    self.mark_dirty(at); // it is free in memory, and still has an owner on the device
                }
                return;
            }
            self.free(other);
        }
        self.own(at, e.component, e.chunk);
        let slot = self.entry_mut(at);
        slot.written = e.written;
        slot.unchecked = e.unchecked | e.uncorrectable;
        slot.raise_lsn(e.lsn);
        (slot.epoch, slot.changed) = (e.epoch, e.changed);
        slot.crcs = core::array::from_fn(|i| match (e.uncorrectable >> i & 1, e.unchecked >> i & 1) {
            (1, _) => UNCORRECTABLE,
            (_, 1) => 0,
            _ => e.crcs[i],
        });
    }
}

/// What [`ChunkTable::walk`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// An allocated chunk; go on after it.
    Found(Phys),
    /// None within the budget; go on after this place.
    GoOn(Phys),
    /// There is no more.
    End,
}

fn queue(dirty: &mut Vec<PageRef>, meta: &mut [Meta], p: PageRef) {
    let m = &mut meta[p.page as usize];
    if !m.queued {
        m.queued = true;
        dirty.push(p);
    }
}

impl DeviceTable {
    /// An empty one.
    fn new(geometry: &CapacityGeometry) -> Self {
        Self {
            geometry: *geometry,
            meta: vec![Meta { generation: 1, slot: 0, ..Meta::NEW }],
            bodies: Vec::new(),
            free: FreeMap::new(geometry.chunks_per_shard),
            promised: 0,
            room: Room::default(),
            said: 0,
            pages_committing: 0,
            base: 0,
            failed: geometry.is_none(),
        }
    }
    fn counted_in(&mut self, room: Room) {
        self.room = room;
        self.room.add(u64::from(self.geometry.chunks_per_shard));
        self.say_room();
    }
    /// Chunks that are open to all: free, and not promised.
    fn open(&self) -> i64 {
        i64::from(self.free.free()) - self.promised as i64
    }
    fn say_room(&mut self) {
        let open = self.open();
        self.room.say(&mut self.said, open);
    }
    fn space(&self) -> DeviceSpace {
        DeviceSpace { total: u64::from(self.geometry.chunks_per_shard), free: u64::from(self.free.free()), promised: self.promised }
    }
}

const _: () = assert!(CHUNK_BYTES == CHUNK_BLOCKS * base::BLOCK_BYTES as u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_stands_for_none_is_passed_over() {
        let geometry = CapacityGeometry::plan(32 << 20, 1).unwrap();
        let mut t = ChunkTable::new(FormatTag(1), 0, 1, &[geometry]);
        t.add_component(ComponentNo(1), 0, 0);
        t.changes = u64::from(u32::MAX);
        let at = t.allocate(ComponentNo(1), 0).unwrap();
        assert_eq!((t.get(at).ver, t.changes()), (1, (1 << 32) + 1));
        assert!(t.changed_since(at, u64::from(u32::MAX)) && !t.changed_since(at, t.changes()));
    }
}
