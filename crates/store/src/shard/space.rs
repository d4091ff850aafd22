//! Capacity, as a shard sees it: where each chunk lies, what is known of it, and in which chunks changes are under way.
//!
//! Owns: the shard's part of the chunk table, the capacity devices, the counts of changes under way.
//! Invariants: a chunk in which a change is under way is not freed; an entry of the table changes here only, and what tests and the simulator
//! know of changes is kept beside it.
//! Never: knows what lies in the log.

use super::busy::Busy;
use super::chunk_part::ChunkPart;
use super::op::Place;
#[cfg(feature = "hooks")]
use super::witness::Witness;
use crate::capacity::{AllocateError, BlockContent, CheckpointError, CheckpointReport, Chunk, ChunkTable, Phys, Walk, write_checkpoint};
use crate::{ComponentInfo, ComponentNo, NewCapacity};
use base::hooks::{self, SeededFault};
use base::unit::BLOCK_BYTES;
use base::{BlockNo, Epoch, Order, crc32c};
use core::cell::{Ref, RefCell};
use rt::{Buf, Device, Queue, Rt};
use std::rc::Rc;

/// See the module.
pub(crate) struct Space {
    /// Shared with a checkpoint under way.
    table: Rc<RefCell<ChunkTable>>,
    devices: Rc<[Device]>,
    busy: Busy,
    /// Checksum of a block of zeroes.
    zero_crc: u32,
    #[cfg(feature = "hooks")]
    witness: Witness,
}

/// The last chunk that was looked up for a run of blocks, and where it lies.
pub(crate) type LastChunk = Option<(u64, Option<Phys>)>;

impl Space {
    /// Of these devices, with what was loaded from them.
    pub fn new(table: ChunkTable, devices: Vec<Device>) -> Self {
        Self {
            table: Rc::new(RefCell::new(table)),
            devices: devices.into(),
            busy: Busy::new(),
            zero_crc: crc32c(&[0; BLOCK_BYTES]),
            #[cfg(feature = "hooks")]
            witness: Witness::default(),
        }
    }

    // ---- looking up -------------------------------------------------------------------------------------------------

    /// Where a chunk lies.
    #[inline]
    pub fn lookup(&self, component: ComponentNo, chunk: u64) -> Option<Phys> {
        self.table.borrow().lookup(component, chunk)
    }
    /// Which blocks of a chunk have content on capacity.
    #[inline]
    pub fn written(&self, phys: Phys) -> u16 {
        self.table.borrow().get(phys).written
    }
    /// Where a block lies that the log does not have, and its checksum.
    #[inline]
    pub fn locate(&self, component: ComponentNo, block: BlockNo, last: &mut LastChunk) -> (Place, u32) {
        let table = self.table.borrow();
        let phys = match *last {
            Some((no, phys)) if no == block.chunk() => phys,
            _ => {
                let phys = table.lookup(component, block.chunk());
                *last = Some((block.chunk(), phys));
                phys
            }
        };
        let Some(phys) = phys else { return (Place::Zeroes, self.zero_crc) };
        let place = |unchecked| {
            let offset = table.offset(phys) + u64::from(block.in_chunk()) * BLOCK_BYTES as u64;
            Place::Capacity { device: phys.device, offset, unchecked }
        };
        match table.get(phys).block(block.in_chunk()) {
            BlockContent::Checked(crc) => (place(false), crc),
            BlockContent::Unchecked => (place(true), 0),
            BlockContent::Zeroes => (Place::Zeroes, self.zero_crc),
            BlockContent::Uncorrectable => (Place::Uncorrectable, 0),
        }
    }
    /// First byte of a block on its device.
    #[inline]
    pub fn offset(&self, phys: Phys, block: BlockNo) -> u64 {
        self.table.borrow().offset(phys) + u64::from(block.in_chunk()) * BLOCK_BYTES as u64
    }
    /// Changes of chunks so far: what [`Space::changed_since`] compares with.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.table.borrow().changes()
    }
    /// Whether a chunk has changed since there were so many changes.
    pub fn changed_since(&self, phys: Phys, changes: u64) -> bool {
        self.table.borrow().changed_since(phys, changes)
    }
    /// All that is known of chunks and space.
    pub fn table(&self) -> Ref<'_, ChunkTable> {
        self.table.borrow()
    }

    // ---- components -------------------------------------------------------------------------------------------------

    pub fn add_component(&mut self, component: ComponentNo, info: &ComponentInfo) {
        self.table.borrow_mut().add_component(component, info.capacity_index, info.reserve_chunks);
    }
    /// Whether a write or a destage of the component is under way.
    pub fn is_busy_with(&self, component: ComponentNo) -> bool {
        let table = self.table.borrow();
        self.busy.iter().any(|phys| table.get(phys).component() == Some(component))
    }
    /// Nothing of the component is under way any more: its chunks become free with [`Space::reap`].
    pub fn drop_component(&mut self, component: ComponentNo) {
        self.table.borrow_mut().drop_component(component);
    }
    /// Looks at so many chunks whether they are of a dropped component. Whether there may be more of them.
    pub fn reap(&mut self, budget: usize) -> bool {
        self.table.borrow_mut().reap(budget)
    }

    // ---- chunks that come and go ------------------------------------------------------------------------------------

    /// The chunk's place; a new one if it has none.
    #[inline]
    pub fn ensure(&mut self, component: ComponentNo, chunk: u64) -> Result<Phys, AllocateError> {
        match self.lookup(component, chunk) {
            Some(phys) => Ok(phys),
            None => self.allocate(component, chunk),
        }
    }
    /// A place for a chunk that has none.
    pub fn allocate(&mut self, component: ComponentNo, chunk: u64) -> Result<Phys, AllocateError> {
        self.table.borrow_mut().allocate(component, chunk)
    }
    /// A change of the chunk is under way until [`Space::change_ends`].
    #[inline]
    pub fn change_begins(&mut self, phys: Phys) {
        self.busy.begin(phys);
    }
    /// One change of the chunk has ended. Whether it was the last.
    #[inline]
    pub fn change_ends(&mut self, phys: Phys) -> bool {
        self.busy.end(phys)
    }
    pub fn is_busy(&self, phys: Phys) -> bool {
        self.busy.is_busy(phys)
    }
    /// What is under way.
    pub fn busy(&self) -> &Busy {
        &self.busy
    }
    /// Nothing is in the chunk, here or in the log, and nothing under way.
    pub fn free(&mut self, _component: ComponentNo, _chunk: u64, phys: Phys) {
        hooks::must(|| hooks::seeded(SeededFault::BusyChunkFreed) || !self.busy.is_busy(phys), "a chunk is freed while it changes");
        self.table.borrow_mut().free(phys);
        #[cfg(feature = "hooks")]
        self.witness.free(_component, _chunk);
    }

    // ---- blocks that change -----------------------------------------------------------------------------------------

    /// Exactly this content of a block is on its device: `crc`, or `None` where it is not verified.
    #[inline]
    pub fn set_block(&mut self, phys: Phys, block: BlockNo, crc: Option<u32>, lsn: u64) {
        self.table.borrow_mut().set_block(phys, block.in_chunk(), crc, lsn);
    }
    /// The blocks hold nothing any more.
    pub fn clear_blocks(&mut self, phys: Phys, part: ChunkPart, lsn: u64) {
        self.table.borrow_mut().clear_blocks(phys, part.mask(), lsn);
    }
    /// The blocks of this mask may not be read any more.
    pub fn set_uncorrectable(&mut self, phys: Phys, mask: u16, lsn: u64) {
        self.table.borrow_mut().set_uncorrectable(phys, mask, lsn);
    }
    /// A change of blocks of the chunk at `phys` is durable: the chunk says so.
    #[inline]
    pub fn note_change(&mut self, phys: Phys, part: ChunkPart, order: &Order) {
        self.table.borrow_mut().set_changed(phys, part.mask(), order.epoch, order.period_start);
    }
    /// Blocks of the chunk at `phys` were copied from one of this epoch and mask.
    pub fn note_range(&mut self, (_component, _chunk): (ComponentNo, u64), phys: Phys, source: (Epoch, u16), order: &Order) {
        self.table.borrow_mut().set_ranged(phys, source, order.epoch, order.period_start);
        #[cfg(feature = "hooks")]
        self.witness.free(_component, _chunk);
    }
    /// A chunk that was made after the replay has the epoch of its newest change.
    pub fn stamp(&mut self, phys: Phys, epoch: Epoch) {
        self.table.borrow_mut().set_changed(phys, 0, epoch, Epoch(0));
    }
    /// A durable change of blocks takes effect.
    #[inline]
    pub fn change_takes_effect(&mut self, _component: ComponentNo, _part: ChunkPart, _order: &Order) {
        #[cfg(feature = "hooks")]
        if let Some(phys) = self.lookup(_component, _part.chunk).filter(|_| self.witness.live) {
            self.witness.change(&self.table.borrow(), phys, _component, _part, _order);
        }
    }
    /// The shard is open: what changes from now on is what the chunks have to say.
    pub fn replay_ended(&mut self) {
        #[cfg(feature = "hooks")]
        {
            self.witness.live = true;
        }
    }
    /// Checks the table, and that its chunks say what has changed.
    pub fn check(&self) {
        self.table.borrow().check().expect("the chunk table is sound");
        #[cfg(feature = "hooks")]
        self.witness.check(&self.table.borrow());
    }

    // ---- devices ----------------------------------------------------------------------------------------------------

    /// A number has a device from now on, whose tables are empty.
    pub fn add_device(&mut self, new: &NewCapacity) {
        self.put_device(new.index, &new.device);
        self.table.borrow_mut().add_device(new.index, &new.geometry, new.generation);
    }
    /// Whether nothing of a device is in use, on its way there, or written just now.
    pub fn is_vacant(&self, index: u8) -> bool {
        self.table.borrow().is_vacant(index) && self.busy.iter().all(|phys| phys.device != index)
    }
    /// A number has no device any more; `cache` stands in its place, and nothing is read or written by it.
    pub fn remove_device(&mut self, index: u8, cache: &Device) {
        self.table.borrow_mut().remove_device(index);
        self.put_device(index, cache);
    }
    fn put_device(&mut self, index: u8, device: &Device) {
        let mut devices = self.devices.to_vec();
        if devices.len() == usize::from(index) {
            devices.push(device.clone());
        } else {
            devices[usize::from(index)] = device.clone();
        }
        self.devices = devices.into();
    }
    /// The devices, for a job that writes to them.
    pub fn devices(&self) -> Rc<[Device]> {
        Rc::clone(&self.devices)
    }
    /// Reads a run of blocks from `offset` of a device.
    #[inline]
    pub fn read(&self, rt: &Rt, queue: &Queue, cookie: u64, (device, offset): (u8, u64), buf: Buf) {
        rt.read(queue, cookie, &self.devices[usize::from(device)], offset, buf);
    }
    /// Makes durable what the table says now, and what was written to the devices before. It takes the dirty pages before it first waits.
    pub fn checkpoint(&self, rt: &Rt) -> impl Future<Output = Result<CheckpointReport, CheckpointError>> + use<> {
        let (rt, table, devices) = (rt.clone(), Rc::clone(&self.table), Rc::clone(&self.devices));
        async move { write_checkpoint(&rt, &table, &devices).await }
    }
    /// The first chunk in use after `after`, looking at up to `budget` chunks.
    pub fn walk(&self, after: Option<Phys>, budget: usize) -> Walk {
        self.table.borrow().walk(after, budget)
    }
    /// A chunk as it is now: its device, its first byte there, and what is known of it.
    pub fn look_at(&self, phys: Phys) -> (Device, u64, Chunk) {
        let table = self.table.borrow();
        (self.devices[usize::from(phys.device)].clone(), table.offset(phys), *table.get(phys))
    }
    /// Whether a chunk is not as [`Space::look_at`] saw it, or changes.
    pub fn has_changed(&self, phys: Phys, before: &Chunk) -> bool {
        self.table.borrow().get(phys).ver != before.ver || self.busy.is_busy(phys)
    }
}
