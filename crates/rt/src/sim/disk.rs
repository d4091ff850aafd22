//! A simulated disk: what it holds, and how it loses and damages data.
//!
//! Owns: its contents, block by block, the older versions that a loss of power may bring back, and the faults that were ordered.
//! Invariants: a durable write that was completed is never lost by a loss of power; a completed volatile one is kept or lost
//! sector (512 bytes) by sector until a flush that began after its end is complete; so is one that was under way.
//! Never: fails an operation that no fault was ordered for; knows the world (what that does with its disks is `disk_io`).

use super::contents::{Block, Contents};
use super::disk_options::SimDeviceOptions;
use super::rng::Rng;
use super::spread::Spread;
use crate::{Buf, BufVec, Device, DeviceError, DeviceInfo, Queue};
use base::{BLOCK_BYTES, unit::SECTOR_BYTES};
use core::ops::Range;
use std::{collections::BTreeMap, rc::Rc};

pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;
/// Older versions kept of a block; beyond that the second oldest goes (the oldest is what is on the media).
const VERSIONS_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Volatile {
    /// When the block got its newest version (a count of writes of this disk).
    written: u64,
    /// Older ones with their times, oldest first; the first is on the media.
    pub(super) older: Vec<(u64, Block)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    Read,
    Write,
    Flush,
}

pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) range: Range<u64>,
    /// How often still; `None` is for ever.
    pub(super) times: Option<u32>,
    pub(super) error: DeviceError,
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

pub(super) type Watcher = Box<dyn FnMut(&SimWrite<'_>) -> Result<(), DeviceError>>;

pub(crate) struct Disk {
    pub(super) opts: SimDeviceOptions,
    pub(super) bytes: u64,
    /// What a read returns.
    pub(super) blocks: Contents,
    pub(super) volatile: BTreeMap<u64, Volatile>,
    pub(super) writes: u64,
    pub(super) busy_until: u64,
    /// The host that used it last: its death is this disk's loss of power.
    pub(super) host: Option<usize>,
    pub(super) faults: Vec<Fault>,
    pub(super) slow: u32,
    pub(super) stalled_until: u64,
    pub(super) gone: bool,
    pub(super) full: bool,
    /// How many writes within a range are lost.
    pub(super) lose: (u32, Range<u64>),
    /// How many writes within a range land how much further on, but not past its end.
    pub(super) misdirect: (u32, u64, Range<u64>),
    pub(super) flip_reads: u32,
    pub(super) lying: bool,
    /// Sees each write and flush before it begins, and may fail it.
    pub(super) watcher: Option<Watcher>,
    /// Operations that are not over in one instant.
    pub(super) spread: Spread,
}

/// What happens to a write that reports success.
pub(super) enum Fate {
    Done,
    Lost,
    Misdirected(u64),
}

pub(super) enum DiskOpKind {
    Read { offset: u64, buf: Buf },
    Write { offset: u64, bufs: BufVec, durable: bool, fate: Fate },
    Flush { mark: u64 },
    Discard { offset: u64, len: u64 },
}

pub(crate) struct DiskOp {
    pub(super) dev: Device,
    pub(super) q: Queue,
    pub(super) cookie: u64,
    pub(super) submitted: u64,
    pub(super) error: Option<DeviceError>,
    pub(super) kind: DiskOpKind,
    /// Its number where operations are not over in one instant, else 0.
    pub(super) spread: u64,
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

    pub(super) fn fault(&mut self, kind: FaultKind, range: Range<u64>) -> Option<DeviceError> {
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

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        self.blocks.read(offset / BLOCK, out);
    }

    /// An operation that is not over in one instant begins. Gives back its number, 0 for none.
    pub(super) fn begins(&mut self, time: (u64, u64), kind: &DiskOpKind) -> u64 {
        match kind {
            DiskOpKind::Read { offset, buf } => self.spread.read_begins(time, offset / BLOCK..(offset + buf.len() as u64).div_ceil(BLOCK)),
            DiskOpKind::Write { offset, bufs, fate: Fate::Done, .. } => {
                let data: Vec<Block> = bufs.iter().flat_map(|b| b.chunks_exact(BLOCK_BYTES)).map(|b| self.blocks.make(b)).collect();
                let first = offset / BLOCK;
                self.spread.write_begins(time, first..first + data.len() as u64, data)
            }
            _ => 0,
        }
    }

    /// A block of a completed write (`None`: of a completed discard).
    pub(super) fn apply(&mut self, block: u64, data: Block, durable: bool) {
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

    pub(super) fn write(&mut self, offset: u64, bufs: &BufVec, durable: bool) {
        self.writes += 1;
        let durable = !self.lying && (durable || !self.opts.volatile_cache);
        let blocks = bufs.iter().flat_map(|b| b.chunks_exact(BLOCK_BYTES));
        for (i, data) in blocks.enumerate() {
            let data = self.blocks.make(data);
            self.apply(offset / BLOCK + i as u64, data, durable);
        }
    }

    /// What was written up to `mark` is on the media now.
    pub(super) fn flushed(&mut self, mark: u64) {
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
    pub(super) fn discarded(&mut self, offset: u64, len: u64, rng: &mut Rng) {
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

    pub(super) fn fate(&mut self, offset: u64, len: u64) -> Fate {
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

/// Each sector from a version by chance; half of the time all sectors from one.
pub(super) fn mix(versions: &[Block], rng: &mut Rng) -> Block {
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
