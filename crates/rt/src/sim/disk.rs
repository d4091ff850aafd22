//! Simulated disks: what they hold, how long they take, how they lose and damage data.
//!
//! Owns: the contents of every disk of a world, block by block, and the older versions that a loss of power may bring back.
//! Invariants: a durable write that was completed is never lost by a loss of power; a completed volatile one is kept or lost
//! sector (512 bytes) by sector until a flush that began after its end is complete; so is one that was under way.
//! Never: fails an operation that no fault was ordered for.

use super::contents::{Block, Contents, Image};
use super::rng::Rng;
use super::speed::Drive;
use super::spread::Spread;
use super::state::{Place, Shared, State, What};
use crate::{Buf, BufVec, Device, DeviceError, DeviceInfo, Durability, Event, Queue, device::Inner};
use base::{BLOCK_BYTES, unit::SECTOR_BYTES};
use core::ops::Range;
use std::{collections::BTreeMap, rc::Rc};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Older versions kept of a block; beyond that the second oldest goes (the oldest is what is on the media).
const VERSIONS_MAX: usize = 8;

/// What a simulated device is like. Times are nanoseconds, (least, most).
#[derive(Clone, Debug)]
pub struct SimDeviceOptions {
    /// Its name; empty: made up.
    pub name: String,
    /// Whether completed writes may be lost with the power unless durable or flushed.
    pub volatile_cache: bool,
    /// Whether it says that it is a spinning disk.
    pub rotational: bool,
    /// Whether discard does anything.
    pub discard: bool,
    /// A read, besides its transfer.
    pub read_ns: (u64, u64),
    /// A write, besides its transfer.
    pub write_ns: (u64, u64),
    /// A flush, and what durability adds to a write when there is a volatile cache.
    pub flush_ns: (u64, u64),
    /// How fast data is transferred.
    pub bytes_per_s: u64,
    /// The modelled drive that it is a namespace of: the drive's figures count instead of those above, and all namespaces of it share them.
    pub drive: Option<SimDrive>,
    /// Where on that drive it begins, in bytes.
    pub drive_offset: u64,
    /// Equal blocks are kept in memory once: for large disks with few contents. Contents do not enter the trace then.
    pub compact: bool,
    /// Operations are not over in one instant: each sector of a read is sampled, and each of a write arrives, at an instant of its own.
    pub spread: bool,
    /// One in so many reads takes up to so many nanoseconds longer, without holding up later operations; 0 for none.
    pub late_reads: (u64, u64),
    /// The same for everything else.
    pub late_writes: (u64, u64),
}

/// A modelled drive of a world: see [`super::World::drive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimDrive(pub(crate) usize);

impl Default for SimDeviceOptions {
    /// A flash drive with a volatile cache.
    fn default() -> Self {
        SimDeviceOptions {
            name: String::new(),
            volatile_cache: true,
            rotational: false,
            discard: true,
            read_ns: (50_000, 120_000),
            write_ns: (8_000, 40_000),
            flush_ns: (20_000, 400_000),
            bytes_per_s: 3_000_000_000,
            drive: None,
            drive_offset: 0,
            compact: false,
            spread: false,
            late_reads: (0, 0),
            late_writes: (0, 0),
        }
    }
}

/// Which disk of which world a [`Device`] is. (A `Device::memory` works in a world too, but knows no faults and survives everything.)
pub(crate) struct SimDeviceRef {
    pub(crate) world: u64,
    pub(crate) index: usize,
}

#[derive(Default)]
struct Volatile {
    /// When the block got its newest version (a count of writes of this disk).
    written: u64,
    /// Older ones with their times, oldest first; the first is on the media.
    older: Vec<(u64, Block)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Read,
    Write,
    Flush,
}

struct Fault {
    kind: FaultKind,
    range: Range<u64>,
    /// How often still; `None` is for ever.
    times: Option<u32>,
    error: DeviceError,
}

/// What is about to begin, for who watches a disk.
#[derive(Clone, Copy, Debug)]
pub enum SimWrite<'a> {
    /// A write.
    Write {
        /// Byte of the disk.
        offset: u64,
        /// Its first buffer.
        first: &'a [u8],
        /// Its last buffer, which may be the first.
        last: &'a [u8],
    },
    /// A flush.
    Flush,
}

type Watcher = Box<dyn FnMut(&SimWrite<'_>) -> Result<(), DeviceError>>;

pub(crate) struct Disk {
    opts: SimDeviceOptions,
    bytes: u64,
    /// What a read returns.
    blocks: Contents,
    volatile: BTreeMap<u64, Volatile>,
    writes: u64,
    busy_until: u64,
    /// The host that used it last: its death is this disk's loss of power.
    host: Option<usize>,
    faults: Vec<Fault>,
    slow: u32,
    stalled_until: u64,
    gone: bool,
    full: bool,
    /// How many writes within a range are lost.
    lose: (u32, Range<u64>),
    /// How many writes within a range land how much further on, but not past its end.
    misdirect: (u32, u64, Range<u64>),
    flip_reads: u32,
    lying: bool,
    /// Sees each write and flush before it begins, and may fail it.
    watcher: Option<Watcher>,
    /// Operations that are not over in one instant.
    spread: Spread,
}

/// What happens to a write that reports success.
enum Fate {
    Done,
    Lost,
    Misdirected(u64),
}

enum Kind {
    Read { offset: u64, buf: Buf },
    Write { offset: u64, bufs: BufVec, durable: bool, fate: Fate },
    Flush { mark: u64 },
    Discard { offset: u64, len: u64 },
}

pub(crate) struct DiskOp {
    dev: Device,
    q: Queue,
    cookie: u64,
    submitted: u64,
    error: Option<DeviceError>,
    kind: Kind,
    /// Its number where operations are not over in one instant, else 0.
    spread: u64,
}

impl Disk {
    pub(crate) fn new(bytes: u64, opts: SimDeviceOptions, seed: u64) -> Disk {
        Disk {
            blocks: Contents::new(opts.compact),
            opts,
            bytes,
            volatile: BTreeMap::new(),
            writes: 0,
            busy_until: 0,
            host: None,
            faults: Vec::new(),
            slow: 1,
            stalled_until: 0,
            gone: false,
            full: false,
            lose: (0, 0..0),
            misdirect: (0, 0, 0..0),
            flip_reads: 0,
            lying: false,
            watcher: None,
            spread: Spread::new(seed),
        }
    }

    pub(crate) fn host(&self) -> Option<usize> {
        self.host
    }

    pub(crate) fn info(&self) -> DeviceInfo {
        DeviceInfo {
            bytes: self.bytes,
            block_bytes: BLOCK_BYTES as u32,
            volatile_cache: self.opts.volatile_cache,
            rotational: self.opts.rotational,
            discard: self.opts.discard,
            direct: true,
        }
    }

    fn fault(&mut self, kind: FaultKind, range: Range<u64>) -> Option<DeviceError> {
        if self.gone {
            return Some(DeviceError::Gone);
        }
        let hit = |f: &Fault| f.kind == kind && (kind == FaultKind::Flush || f.range.start < range.end && range.start < f.range.end);
        let at = self.faults.iter().position(hit)?;
        let fault = &mut self.faults[at];
        let error = fault.error;
        if let Some(times) = &mut fault.times {
            *times -= 1;
            if *times == 0 {
                self.faults.remove(at);
            }
        }
        Some(error)
    }

    fn read(&self, offset: u64, out: &mut [u8]) {
        self.blocks.read(offset / BLOCK, out);
    }

    /// An operation that is not over in one instant begins. Gives back its number, 0 for none.
    fn begins(&mut self, time: (u64, u64), kind: &Kind) -> u64 {
        match kind {
            Kind::Read { offset, buf } => self.spread.read_begins(time, offset / BLOCK..(offset + buf.len() as u64).div_ceil(BLOCK)),
            Kind::Write { offset, bufs, fate: Fate::Done, .. } => {
                let data: Vec<Block> = bufs.iter().flat_map(|b| b.chunks_exact(BLOCK_BYTES)).map(|b| self.blocks.make(b)).collect();
                let first = offset / BLOCK;
                self.spread.write_begins(time, first..first + data.len() as u64, data)
            }
            _ => 0,
        }
    }

    /// A block of a completed write (`None`: of a completed discard).
    fn apply(&mut self, block: u64, data: Block, durable: bool) {
        let old = self.blocks.put(block, data);
        if durable {
            self.volatile.remove(&block);
            return;
        }
        let written = self.writes;
        let v = self.volatile.entry(block).or_default();
        v.older.push((v.written, old));
        v.written = written;
        if v.older.len() > VERSIONS_MAX {
            v.older.remove(1);
        }
    }

    fn write(&mut self, offset: u64, bufs: &BufVec, durable: bool) {
        self.writes += 1;
        let durable = !self.lying && (durable || !self.opts.volatile_cache);
        let blocks = bufs.iter().flat_map(|b| b.chunks_exact(BLOCK_BYTES));
        for (i, data) in blocks.enumerate() {
            let data = self.blocks.make(data);
            self.apply(offset / BLOCK + i as u64, data, durable);
        }
    }

    /// What was written up to `mark` is on the media now.
    fn flushed(&mut self, mark: u64) {
        if self.lying {
            return;
        }
        self.volatile.retain(|_, v| {
            if v.written <= mark {
                return false;
            }
            let on_media = v.older.iter().rposition(|(at, _)| *at <= mark).unwrap_or(0);
            v.older.drain(..on_media);
            true
        });
    }

    /// The power goes: every block that is not on the media becomes a mixture of its versions.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) {
        for (block, v) in core::mem::take(&mut self.volatile) {
            let newest = self.blocks.put(block, None);
            let mut versions: Vec<Block> = v.older.into_iter().map(|(_, b)| b).collect();
            versions.push(newest);
            let mixed = mix(&versions, rng);
            self.blocks.put(block, mixed);
        }
        self.busy_until = 0;
        self.host = None;
    }

    /// Discards block by block, by chance; only blocks that hold something matter.
    fn discarded(&mut self, offset: u64, len: u64, rng: &mut Rng) {
        if !self.opts.discard {
            return;
        }
        self.writes += 1;
        for block in self.blocks.held(offset / BLOCK..(offset + len) / BLOCK) {
            if !rng.one_in(4) {
                self.apply(block, None, !self.opts.volatile_cache);
            }
        }
    }
}

/// Each sector from a version by chance; half of the time all sectors from one.
fn mix(versions: &[Block], rng: &mut Rng) -> Block {
    let pick = |rng: &mut Rng| &versions[rng.below(versions.len() as u64) as usize];
    if rng.one_in(2) {
        return pick(rng).clone();
    }
    let mut out = [0; BLOCK_BYTES];
    for sector in out.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        if let Some(from) = pick(rng) {
            sector.1.copy_from_slice(&from[sector.0 * SECTOR_BYTES..][..SECTOR_BYTES]);
        }
    }
    Some(Rc::new(out))
}

impl Shared {
    /// Which disk a device is; `None` for one in memory.
    ///
    /// # Panics
    /// When it is a real device, or of another world.
    fn disk_of(&self, dev: &Device) -> Option<usize> {
        match &dev.0.inner {
            Inner::Sim(r) => {
                assert_eq!(r.world, self.id, "{dev:?} belongs to another world");
                Some(r.index)
            }
            Inner::Memory(_) => None,
            Inner::File(_) => panic!("{dev:?} is real: a simulated core cannot use it"),
        }
    }

    fn submit(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, kind: Kind, range: Range<u64>) {
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
            Kind::Read { .. } => FaultKind::Read,
            Kind::Flush { .. } => FaultKind::Flush,
            Kind::Write { .. } | Kind::Discard { .. } => FaultKind::Write,
        };
        op.error = op.error.or_else(|| disk.fault(fault, range.clone()));
        let len = range.end - range.start;
        if let Kind::Write { offset, bufs, fate, .. } = &mut op.kind {
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
        if let Kind::Flush { mark } = &mut op.kind {
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
        self.submit(place, q, cookie, dev, Kind::Read { offset, buf }, range);
    }

    #[allow(clippy::too_many_arguments)] // the operation as the caller gave it, and where it came from
    pub(crate) fn write(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, offset: u64, bufs: BufVec, d: Durability) {
        let len: u64 = bufs.iter().map(|b| b.len() as u64).sum();
        let aligned = bufs.iter().all(|b| b.len().is_multiple_of(BLOCK_BYTES));
        assert!(aligned, "each buffer of a write is whole blocks");
        let kind = Kind::Write { offset, bufs, durable: d == Durability::Durable, fate: Fate::Done };
        self.submit(place, q, cookie, dev, kind, offset..offset.saturating_add(len));
    }

    pub(crate) fn flush(&self, place: Place, q: &Queue, cookie: u64, dev: &Device) {
        self.submit(place, q, cookie, dev, Kind::Flush { mark: 0 }, 0..0);
    }

    pub(crate) fn discard(&self, place: Place, q: &Queue, cookie: u64, dev: &Device, offset: u64, len: u64) {
        self.submit(place, q, cookie, dev, Kind::Discard { offset, len }, offset..offset.saturating_add(len));
    }
}

/// When an operation ends on a device of which only latencies and one bandwidth are known.
fn plain_end(disk: &mut Disk, rng: &mut Rng, now: u64, kind: &Kind, len: u64) -> u64 {
    let mut latency = match kind {
        Kind::Read { .. } => rng.between(disk.opts.read_ns),
        Kind::Discard { .. } => rng.between(disk.opts.write_ns),
        Kind::Flush { .. } => rng.between(disk.opts.flush_ns),
        Kind::Write { durable, .. } => {
            let flush = if *durable && disk.opts.volatile_cache { rng.between(disk.opts.flush_ns) } else { 0 };
            rng.between(disk.opts.write_ns) + flush
        }
    };
    if rng.one_in(256) {
        latency *= 20; // the tail that every drive has
    }
    let moved = if matches!(kind, Kind::Discard { .. }) { 0 } else { len };
    let transfer = (u128::from(moved) * 1_000_000_000 / u128::from(disk.opts.bytes_per_s.max(1))) as u64;
    let slow = u64::from(disk.slow);
    disk.busy_until = disk.busy_until.max(now) + transfer * slow;
    disk.busy_until + latency * slow
}

/// When an operation ends on a namespace of a modelled drive.
fn modelled_end(disk: &Disk, drive: &mut Drive, rng: &mut Rng, now: u64, kind: &Kind, offset: u64, len: u64) -> u64 {
    let at = disk.opts.drive_offset + offset;
    let end = match kind {
        Kind::Read { .. } => drive.read(now, len, rng),
        Kind::Write { durable, .. } => {
            let end = drive.write(now, at, len, rng);
            let flush = if *durable && disk.opts.volatile_cache { rng.between(drive.speed.flush_ns) } else { 0 };
            end + flush
        }
        Kind::Flush { .. } | Kind::Discard { .. } => drive.flush(now, rng),
    };
    now + (end - now) * u64::from(disk.slow)
}

impl Disk {
    fn fate(&mut self, offset: u64, len: u64) -> Fate {
        let within = |range: &Range<u64>, at: u64| range.start <= at && at + len <= range.end;
        if self.lose.0 > 0 && within(&self.lose.1, offset) {
            self.lose.0 -= 1;
            return Fate::Lost;
        }
        let (times, by, range) = &mut self.misdirect;
        if *times > 0 && within(range, offset) {
            *times -= 1;
            let to = range.start + (offset - range.start + *by) % (range.end - range.start) / BLOCK * BLOCK;
            return if within(range, to) { Fate::Misdirected(to) } else { Fate::Lost };
        }
        Fate::Done
    }
}

impl State {
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
                Kind::Read { offset, buf } => m.read(*offset, buf),
                Kind::Write { offset, bufs, .. } => {
                    let mut at = *offset;
                    for b in bufs.iter() {
                        m.write(at, b);
                        at += b.len() as u64;
                    }
                }
                Kind::Discard { offset, len } => m.discard(*offset, *len),
                Kind::Flush { .. } => {}
            }
        }
        let DiskOp { dev, q, cookie, submitted, error, kind, .. } = op;
        let (ns, ok) = (self.now - submitted, error.is_none());
        let result = error.map_or(Ok(()), Err);
        let event = match kind {
            Kind::Read { buf, offset } => {
                dev.counters().count_read(buf.len() as u64, ns, ok);
                self.note(offset);
                Event::Read { result, buf }
            }
            Kind::Write { bufs, offset, .. } => {
                dev.counters().count_write(bufs.iter().map(|b| b.len() as u64).sum(), ns, ok);
                self.note(offset);
                let compact = matches!(&dev.0.inner, Inner::Sim(r) if self.disks[r.index].opts.compact);
                for b in &bufs {
                    self.note(if compact { b.len() as u64 } else { u64::from(base::crc32c(b)) });
                }
                Event::Write { result, bufs }
            }
            Kind::Flush { .. } => {
                dev.counters().count_flush(ok);
                Event::Flush { result }
            }
            Kind::Discard { .. } => {
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
            Kind::Read { offset, buf } => {
                disk.read(*offset, buf);
                disk.spread.sampled(spread, buf);
                if disk.flip_reads > 0 && !buf.is_empty() {
                    disk.flip_reads -= 1;
                    let bit = self.rng.below(buf.len() as u64 * 8);
                    buf[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
            }
            Kind::Write { offset, bufs, durable, fate } => {
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
            Kind::Flush { mark } => disk.flushed(*mark),
            Kind::Discard { offset, len } => {
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
            Kind::Write { offset, bufs, fate: Fate::Done, .. } => {
                let cache = core::mem::replace(&mut disk.opts.volatile_cache, true);
                disk.write(*offset, bufs, false);
                disk.opts.volatile_cache = cache;
            }
            Kind::Discard { offset, len } => {
                let cache = core::mem::replace(&mut disk.opts.volatile_cache, true);
                disk.discarded(*offset, *len, &mut self.rng);
                disk.opts.volatile_cache = cache;
            }
            _ => {}
        }
    }

    /// As [`State::disk_cut_short`], for a process that dies while the drive keeps its power: the write happened, sector by sector or not.
    pub(crate) fn disk_torn(&mut self, op: DiskOp) {
        if let Inner::Sim(r) = &op.dev.0.inner {
            self.disks[r.index].spread.over(op.spread);
        }
        let (Inner::Sim(r), None, Kind::Write { offset, bufs, fate: Fate::Done, durable: _ }) = (&op.dev.0.inner, op.error, &op.kind)
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
