//! Operations on simulated disks, from being submitted until they end or are cut short.
//!
//! Owns: how long each takes.
//! Invariants: an operation does what it does when it ends; what was under way when its host died is done in part, by chance (`disk` says what).
//! Never: ends an operation within the call that submits it.

use super::contents::Block;
use super::disk::{BLOCK, Disk, DiskOp, DiskOpKind, Fate, FaultKind, SimWrite, mix};
use super::place::Place;
use super::rng::Rng;
use super::speed::Drive;
use super::state::{Shared, What, WorldState};
use crate::{Buf, BufVec, Device, DeviceError, Durability, Event, Queue, device::Inner};
use base::BLOCK_BYTES;
use core::ops::Range;

impl Shared {
    /// Which disk a device is; `None` for one in memory.
    ///
    /// # Panics
    /// When it is a real device, or of another world.
    pub(super) fn disk_of(&self, dev: &Device) -> Option<usize> {
        match &dev.0.inner {
            Inner::Sim(r) => {
                assert_eq!(r.world, self.id, "{dev:?} belongs to another world");
                Some(r.index)
            }
            Inner::Memory(_) => None,
            Inner::File(_) => panic!("{dev:?} is real: a simulated core cannot use it"),
        }
    }

    fn submit(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, kind: DiskOpKind, range: Range<u64>) {
        dev.counters().begins();
        let disk = self.disk_of(dev);
        let mut s = self.state.borrow_mut();
        let s = &mut *s;
        let mut op = DiskOp { dev: dev.clone(), q: q.clone(), cookie, submitted: s.now, error: None, kind, spread: 0 };
        op.error = dev.check_range(range.start, range.end - range.start).err();
        let Some(disk) = disk else {
            let at = s.now + s.rng.between((1_000, 20_000));
            s.schedule(at, place, What::Disk(Box::new(op)));
            return;
        };
        let disk = &mut s.disks[disk];
        disk.host = Some(place.host);
        let fault = match &op.kind {
            DiskOpKind::Read { .. } => FaultKind::Read,
            DiskOpKind::Flush { .. } => FaultKind::Flush,
            DiskOpKind::Write { .. } | DiskOpKind::Discard { .. } => FaultKind::Write,
        };
        op.error = op.error.or_else(|| disk.fault(fault, range.clone()));
        let len = range.end - range.start;
        if let DiskOpKind::Write { offset, bufs, fate, .. } = &mut op.kind {
            let new = |d: &Disk| (range.start / BLOCK..range.end / BLOCK).any(|b| d.blocks.get(b).is_none());
            if let (Some(watcher), None, Some(first), Some(last)) = (&mut disk.watcher, op.error, bufs.first(), bufs.last()) {
                op.error = watcher(&SimWrite::Write { offset: *offset, first, last }).err();
            }
            if disk.full && op.error.is_none() && new(disk) {
                op.error = Some(DeviceError::NoSpace);
            }
            if op.error.is_none() {
                *fate = disk.fate(*offset, len);
            }
        }
        if let DiskOpKind::Flush { mark } = &mut op.kind {
            *mark = disk.writes;
            if let (Some(watcher), None) = (&mut disk.watcher, op.error) {
                op.error = watcher(&SimWrite::Flush).err();
            }
        }
        let ends = match disk.opts.drive {
            None => plain_end(disk, &mut s.rng, s.now, &op.kind, len),
            Some(drive) => modelled_end(disk, &mut s.drives[drive.0], &mut s.rng, s.now, &op.kind, range.start, len),
        };
        let late = if fault == FaultKind::Read { disk.opts.late_reads } else { disk.opts.late_writes };
        let at = ends.max(disk.stalled_until) + disk.spread.late_by(late);
        if disk.opts.spread && op.error.is_none() {
            op.spread = disk.begins((s.now, at), &op.kind);
        }
        s.schedule(at, place, What::Disk(Box::new(op)));
    }

    pub(crate) fn read(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, offset: u64, buf: Buf) {
        let range = offset..offset.saturating_add(buf.len() as u64);
        self.submit(place, q, cookie, dev, DiskOpKind::Read { offset, buf }, range);
    }

    #[allow(clippy::too_many_arguments)] // the operation as the caller gave it, and where it came from
    pub(crate) fn write(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability) {
        let len: u64 = bufs.iter().map(|b| b.len() as u64).sum();
        let aligned = bufs.iter().all(|b| b.len().is_multiple_of(BLOCK_BYTES));
        assert!(aligned, "each buffer of a write is whole blocks");
        let kind = DiskOpKind::Write { offset, bufs, durable: d == Durability::Durable, fate: Fate::Done };
        self.submit(place, q, cookie, dev, kind, offset..offset.saturating_add(len));
    }

    pub(crate) fn flush(&self, place: Place, q: &Queue, cookie: u64, dev: &Device) {
        self.submit(place, q, cookie, dev, DiskOpKind::Flush { mark: 0 }, 0..0);
    }

    pub(crate) fn discard(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64) {
        self.submit(place, q, cookie, dev, DiskOpKind::Discard { offset, len }, offset..offset.saturating_add(len));
    }
}

/// When an operation ends on a device of which only latencies and one bandwidth are known.
fn plain_end(disk: &mut Disk, rng: &mut Rng, now: u64, kind: &DiskOpKind, len: u64) -> u64 {
    let mut latency = match kind {
        DiskOpKind::Read { .. } => rng.between(disk.opts.read_ns),
        DiskOpKind::Discard { .. } => rng.between(disk.opts.write_ns),
        DiskOpKind::Flush { .. } => rng.between(disk.opts.flush_ns),
        DiskOpKind::Write { durable, .. } => {
            let flush = if *durable && disk.opts.volatile_cache { rng.between(disk.opts.flush_ns) } else { 0 };
            rng.between(disk.opts.write_ns) + flush
        }
    };
    if rng.one_in(256) {
        latency *= 20; // the tail that every drive has
    }
    let moved = if matches!(kind, DiskOpKind::Discard { .. }) { 0 } else { len };
    let transfer = (u128::from(moved) * 1_000_000_000 / u128::from(disk.opts.bytes_per_s.max(1))) as u64;
    let slow = u64::from(disk.slow);
    disk.busy_until = disk.busy_until.max(now) + transfer * slow;
    disk.busy_until + latency * slow
}

/// When an operation ends on a namespace of a modelled drive.
fn modelled_end(disk: &Disk, drive: &mut Drive, rng: &mut Rng, now: u64, kind: &DiskOpKind, offset: u64, len: u64) -> u64 {
    let at = disk.opts.drive_offset + offset;
    let end = match kind {
        DiskOpKind::Read { .. } => drive.read(now, len, rng),
        DiskOpKind::Write { durable, .. } => {
            let end = drive.write(now, at, len, rng);
            let flush = if *durable && disk.opts.volatile_cache { rng.between(drive.speed.flush_ns) } else { 0 };
            end + flush
        }
        DiskOpKind::Flush { .. } | DiskOpKind::Discard { .. } => drive.flush(now, rng),
    };
    now + (end - now) * u64::from(disk.slow)
}

impl WorldState {
    /// A disk operation ends: does what it does, tells its owner.
    pub(crate) fn disk_done(&mut self, mut op: DiskOp) {
        if let Inner::Sim(r) = &op.dev.0.inner {
            let index = r.index;
            if self.disks[index].gone {
                op.error = Some(DeviceError::Gone);
            }
            if op.error.is_none() {
                self.disk_apply(index, &mut op);
            }
            self.disks[index].spread.over(op.spread);
        } else if let (Inner::Memory(m), None) = (&op.dev.0.inner, op.error) {
            match &mut op.kind {
                DiskOpKind::Read { offset, buf } => m.read(*offset, buf),
                DiskOpKind::Write { offset, bufs, .. } => {
                    let mut at = *offset;
                    for b in bufs.iter() {
                        m.write(at, b);
                        at += b.len() as u64;
                    }
                }
                DiskOpKind::Discard { offset, len } => m.discard(*offset, *len),
                DiskOpKind::Flush { .. } => {}
            }
        }
        let DiskOp { dev, q, cookie, submitted, error, kind, .. } = op;
        dev.counters().is_over();
        let (ns, ok) = (self.now - submitted, error.is_none());
        let result = error.map_or(Ok(()), Err);
        let event = match kind {
            DiskOpKind::Read { buf, offset } => {
                dev.counters().count_read(buf.len() as u64, ns, ok);
                self.note(offset);
                Event::Read { result, buf }
            }
            DiskOpKind::Write { bufs, offset, .. } => {
                dev.counters().count_write(bufs.iter().map(|b| b.len() as u64).sum(), ns, ok);
                self.note(offset);
                let compact = matches!(&dev.0.inner, Inner::Sim(r) if self.disks[r.index].opts.compact);
                for b in &bufs {
                    self.note(if compact { b.len() as u64 } else { u64::from(base::crc32c(b)) });
                }
                Event::Write { result, bufs }
            }
            DiskOpKind::Flush { .. } => {
                dev.counters().count_flush(ok);
                Event::Flush { result }
            }
            DiskOpKind::Discard { .. } => {
                dev.counters().count_discard(ok);
                Event::Discard { result }
            }
        };
        self.complete(&q, cookie, event);
    }

    fn disk_apply(&mut self, index: usize, op: &mut DiskOp) {
        let disk = &mut self.disks[index];
        let (now, spread) = (self.now, op.spread);
        match &mut op.kind {
            DiskOpKind::Read { offset, buf } => {
                disk.read(*offset, buf);
                disk.spread.sampled(spread, buf);
                if disk.flip_reads > 0 && !buf.is_empty() {
                    disk.flip_reads -= 1;
                    let bit = self.rng.below(buf.len() as u64 * 8);
                    buf[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
            }
            DiskOpKind::Write { offset, bufs, durable, fate } => {
                let to = match fate {
                    Fate::Done => *offset,
                    Fate::Lost => return,
                    Fate::Misdirected(to) => *to,
                };
                if disk.opts.spread {
                    let end = to + bufs.iter().map(|b| b.len() as u64).sum::<u64>();
                    disk.spread.changes(spread, now, to / BLOCK..end / BLOCK, &disk.blocks);
                }
                disk.write(to, bufs, *durable);
            }
            DiskOpKind::Flush { mark } => disk.flushed(*mark),
            DiskOpKind::Discard { offset, len } => {
                if disk.opts.spread {
                    disk.spread.changes(0, now, *offset / BLOCK..(*offset + *len) / BLOCK, &disk.blocks);
                }
                disk.discarded(*offset, *len, &mut self.rng);
            }
        }
    }

    /// What was under way when its host died. Each write may have reached the device in part: it becomes a volatile version.
    pub(crate) fn disk_cut_short(&mut self, op: DiskOp) {
        let (Inner::Sim(r), None) = (&op.dev.0.inner, op.error) else { return };
        let disk = &mut self.disks[r.index];
        disk.spread.over(op.spread);
        match &op.kind {
            DiskOpKind::Write { offset, bufs, fate: Fate::Done, .. } => {
                let cache = core::mem::replace(&mut disk.opts.volatile_cache, true);
                disk.write(*offset, bufs, false);
                disk.opts.volatile_cache = cache;
            }
            DiskOpKind::Discard { offset, len } => {
                let cache = core::mem::replace(&mut disk.opts.volatile_cache, true);
                disk.discarded(*offset, *len, &mut self.rng);
                disk.opts.volatile_cache = cache;
            }
            _ => {}
        }
    }

    /// As [`WorldState::disk_cut_short`], for a process that dies while the drive keeps its power: the write happened, sector by sector or not.
    pub(crate) fn disk_torn(&mut self, op: DiskOp) {
        if let Inner::Sim(r) = &op.dev.0.inner {
            self.disks[r.index].spread.over(op.spread);
        }
        let (Inner::Sim(r), None, DiskOpKind::Write { offset, bufs, fate: Fate::Done, durable: _ }) = (&op.dev.0.inner, op.error, &op.kind)
        else {
            return;
        };
        let disk = &mut self.disks[r.index];
        disk.writes += 1;
        for (i, new) in bufs.iter().flat_map(|b| b.chunks_exact(BLOCK_BYTES)).enumerate() {
            let block = offset / BLOCK + i as u64;
            let old: Block = disk.blocks.get(block).cloned();
            let new = disk.blocks.make(new);
            let mixed = mix(&[old, new], &mut self.rng);
            let durable = !disk.opts.volatile_cache;
            disk.apply(block, mixed, durable);
        }
    }
}
