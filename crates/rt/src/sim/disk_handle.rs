//! The handle of tests to a simulated disk.
//!
//! Invariant: what it orders holds for operations that begin after it, and for what it says of the contents at once.
//! Never: runs the world.

use super::contents::Image;
use super::disk::{BLOCK, Disk, DiskOp, Fault, FaultKind, SimWrite};
use super::state::{Shared, What};
use crate::{Device, DeviceError, device::Inner};
use base::{BLOCK_BYTES, unit::SECTOR_BYTES};
use core::ops::Range;
use std::rc::Rc;

/// What a disk held at a time.
#[derive(Clone)]
pub struct SimImage(Image);

/// A handle to a simulated disk, to damage it and to look into it. Ranges and offsets are bytes.
#[derive(Clone)]
pub struct SimDisk {
    shared: Rc<Shared>,
    index: usize,
}

impl SimDisk {
    pub(crate) fn new(shared: &Rc<Shared>, dev: &Device) -> SimDisk {
        let index = shared.disk_of(dev).expect("a simulated device");
        SimDisk { shared: Rc::clone(shared), index }
    }
    fn with<R>(&self, f: impl FnOnce(&mut Disk) -> R) -> R {
        f(&mut self.shared.state.borrow_mut().disks[self.index])
    }
    fn fail(&self, kind: FaultKind, range: Range<u64>, times: Option<u32>, error: DeviceError) {
        if times != Some(0) {
            self.with(|d| d.faults.push(Fault { kind, range, times, error }));
        }
    }
    /// Fails reads that touch `range`, so many times or for ever, with [`DeviceError::Media`].
    pub fn fail_reads(&self, range: Range<u64>, times: Option<u32>) {
        self.fail(FaultKind::Read, range, times, DeviceError::Media);
    }
    /// Fails writes and discards that touch `range`, so many times or for ever, with `error`. Nothing of them reaches the disk.
    pub fn fail_writes(&self, range: Range<u64>, times: Option<u32>, error: DeviceError) {
        self.fail(FaultKind::Write, range, times, error);
    }
    /// Fails flushes, so many times or for ever, with [`DeviceError::Media`].
    pub fn fail_flushes(&self, times: Option<u32>) {
        self.fail(FaultKind::Flush, 0..0, times, DeviceError::Media);
    }
    /// Lets `watcher` see each write and flush before it begins; with an error nothing of it reaches the disk. Until [`SimDisk::heal`]. It must not
    /// touch the world.
    pub fn watch(&self, watcher: impl FnMut(&SimWrite<'_>) -> Result<(), DeviceError> + 'static) {
        self.with(|d| d.watcher = Some(Box::new(watcher)));
    }
    /// Ends all faults that were ordered.
    pub fn heal(&self) {
        self.with(|d| {
            d.faults.clear();
            (d.slow, d.stalled_until, d.gone, d.full) = (1, 0, false, false);
            (d.flip_reads, d.lying, d.lose.0, d.misdirect.0) = (0, false, 0, 0);
            d.watcher = None;
        });
    }
    /// Flips a bit of the sector that holds `offset`, on the media and in the cache.
    pub fn corrupt(&self, offset: u64) {
        let mut s = self.shared.state.borrow_mut();
        let bit = s.rng.below(SECTOR_BYTES as u64 * 8);
        let at = offset / SECTOR_BYTES as u64 * SECTOR_BYTES as u64 + bit / 8;
        let flip = 1 << (bit % 8);
        let disk = &mut s.disks[self.index];
        disk.blocks.bytes_mut(at / BLOCK)[(at % BLOCK) as usize] ^= flip;
        for (_, older) in disk.volatile.get_mut(&(at / BLOCK)).into_iter().flat_map(|v| v.older.iter_mut()) {
            Rc::make_mut(older.get_or_insert_with(|| Rc::new([0; BLOCK_BYTES])))[(at % BLOCK) as usize] ^= flip;
        }
    }
    /// Makes it so many times slower; 1 is normal.
    pub fn slow(&self, factor: u32) {
        self.with(|d| d.slow = factor.max(1));
    }
    /// Nothing that is submitted from now on ends before `d` has passed.
    pub fn stall(&self, d: base::Duration) {
        let until = self.shared.state.borrow().now.saturating_add(d.as_nanos() as u64);
        self.with(|disk| disk.stalled_until = until);
    }
    /// Pulls it out, or puts it back.
    pub fn set_gone(&self, gone: bool) {
        self.with(|d| d.gone = gone);
    }
    /// Refuses writes to blocks that hold nothing, as a thin device does when it is full.
    pub fn set_full(&self, full: bool) {
        self.with(|d| d.full = full);
    }
    /// The next `n` writes within `range` report success and do nothing.
    pub fn lose_writes(&self, n: u32, range: Range<u64>) {
        self.with(|d| d.lose = (n, range.start..range.end.min(d.bytes)));
    }
    /// The next `n` writes within `range` report success and land `by` bytes further on in it (round its end).
    pub fn misdirect_writes(&self, n: u32, by: u64, range: Range<u64>) {
        self.with(|d| d.misdirect = (n, by, range.start..range.end.min(d.bytes)));
    }
    /// A bit of what the next `n` reads return is flipped on the way; the media is well.
    pub fn flip_reads(&self, n: u32) {
        self.with(|d| d.flip_reads = n);
    }
    /// From now on it says of everything that it is durable, and keeps it in a volatile cache all the same; or it is honest again.
    pub fn set_lying(&self, lying: bool) {
        self.with(|d| d.lying = lying);
    }
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.with(|d| d.bytes)
    }
    /// All that it holds now, to be put back with [`SimDisk::restore`].
    pub fn image(&self) -> SimImage {
        self.with(|d| SimImage(d.blocks.image()))
    }
    /// What would be left of it if the power went now and took all that it may take.
    pub fn durable_image(&self) -> SimImage {
        self.with(|d| {
            let mut image = d.blocks.image();
            for (block, v) in &d.volatile {
                image.put(*block, v.older.first().and_then(|(_, on_media)| on_media.clone()));
            }
            SimImage(image)
        })
    }
    /// It holds what it held then, durably.
    pub fn restore(&self, image: &SimImage) {
        self.with(|d| {
            d.blocks.restore(&image.0);
            d.volatile.clear();
        });
    }
    /// What it holds now, `len` bytes from `offset` on, both multiples of 4096.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.with(|d| d.read(offset, &mut out));
        out
    }
    /// Puts whole blocks there, durably, past everything.
    pub fn poke(&self, offset: u64, data: &[u8]) {
        assert!((offset | data.len() as u64).is_multiple_of(BLOCK), "whole blocks only");
        self.with(|d| {
            for (i, part) in data.chunks_exact(BLOCK_BYTES).enumerate() {
                let block = d.blocks.make(part);
                d.apply(offset / BLOCK + i as u64, block, true);
            }
        });
    }
    /// Blocks that would be in doubt if the power went now.
    pub fn volatile_blocks(&self) -> usize {
        self.with(|d| d.volatile.len())
    }
    /// Operations under way on it.
    pub fn in_flight(&self) -> usize {
        let s = self.shared.state.borrow();
        let ours = |op: &DiskOp| matches!(&op.dev.0.inner, Inner::Sim(r) if r.index == self.index);
        s.events.values().filter(|e| matches!(&e.what, What::Disk(op) if ours(op))).count()
    }
}
