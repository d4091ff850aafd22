//! Operations of a disk that are not over in one instant: each sector of a read is sampled, and each sector of a write arrives, at an instant of its own.
//!
//! Owns: the operations under way on a disk that is [`SimDeviceOptions::spread`](super::SimDeviceOptions), and what their sectors were when they were sampled.
//! Invariants: a sector that is read is what lay there at some instant between the beginning of the read and its end; a write that has ended is there as a whole.
//! Never: draws from the world's chance, so that a disk without it is what it was.

use super::contents::{Block, Contents};
use super::rng::Rng;
use base::{BLOCK_BYTES, unit::SECTOR_BYTES};
use core::ops::Range;
use std::collections::BTreeMap;

/// Sectors of a block.
const SECTORS: u64 = (BLOCK_BYTES / SECTOR_BYTES) as u64;

/// How the sectors of an operation are strewn over its time.
#[derive(Clone, Copy)]
enum Manner {
    /// All at its end.
    End,
    /// All at one instant.
    Once,
    /// Each block at its instant.
    Blocks,
    /// Each sector at its instant.
    Sectors,
}

/// An operation under way.
struct Under {
    from: u64,
    to: u64,
    salt: u64,
    manner: Manner,
    /// Blocks of the disk.
    blocks: Range<u64>,
}

impl Under {
    /// When a sector of the disk has its turn.
    fn instant(&self, sector: u64) -> u64 {
        let part = match self.manner {
            Manner::End => return self.to,
            Manner::Once => 0,
            Manner::Blocks => sector / SECTORS,
            Manner::Sectors => sector,
        };
        let mixed = (part ^ self.salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.from + ((u128::from(mixed ^ mixed >> 32) * u128::from(self.to - self.from + 1)) >> 64) as u64
    }
    fn sectors(&self, of: &Range<u64>) -> Range<u64> {
        let (first, end) = (self.blocks.start.max(of.start), self.blocks.end.min(of.end));
        first * SECTORS..end.max(first) * SECTORS
    }
}

struct Reading {
    under: Under,
    /// What sectors were when they had their turn, where that has changed since.
    sampled: BTreeMap<u64, [u8; SECTOR_BYTES]>,
}

struct Writing {
    under: Under,
    data: Vec<Block>,
}

/// See the module.
pub(super) struct Spread {
    rng: Rng,
    next: u64,
    reads: BTreeMap<u64, Reading>,
    writes: BTreeMap<u64, Writing>,
}

fn sector_of(block: Option<&[u8; BLOCK_BYTES]>, sector: u64) -> [u8; SECTOR_BYTES] {
    let at = (sector % SECTORS) as usize * SECTOR_BYTES;
    block.map_or([0; SECTOR_BYTES], |b| b[at..at + SECTOR_BYTES].try_into().expect("a sector"))
}

impl Spread {
    pub(super) fn new(seed: u64) -> Spread {
        Spread { rng: Rng::new(seed ^ 0x5B2E_AD00), next: 1, reads: BTreeMap::new(), writes: BTreeMap::new() }
    }

    fn under(&mut self, (from, to): (u64, u64), blocks: Range<u64>) -> (u64, Under) {
        let manner = [Manner::End, Manner::End, Manner::Once, Manner::Blocks, Manner::Sectors][self.rng.below(5) as usize];
        let under = Under { from, to, salt: self.rng.next_u64(), manner, blocks };
        self.next += 1;
        (self.next, under)
    }

    /// A read begins. Gives back its number.
    pub(super) fn read_begins(&mut self, time: (u64, u64), blocks: Range<u64>) -> u64 {
        let (id, under) = self.under(time, blocks);
        self.reads.insert(id, Reading { under, sampled: BTreeMap::new() });
        id
    }

    /// A write begins. Gives back its number.
    pub(super) fn write_begins(&mut self, time: (u64, u64), blocks: Range<u64>, data: Vec<Block>) -> u64 {
        let (id, under) = self.under(time, blocks);
        self.writes.insert(id, Writing { under, data });
        id
    }

    /// Blocks are about to change, by write `id` (0: by something else, at `now`): reads under way keep what they have sampled.
    pub(super) fn changes(&mut self, id: u64, now: u64, blocks: Range<u64>, contents: &Contents) {
        let write = self.writes.get(&id);
        for read in self.reads.values_mut() {
            for sector in read.under.sectors(&blocks) {
                let arrived = write.map_or(now, |w| w.under.instant(sector));
                if read.under.instant(sector) < arrived {
                    let block = contents.get(sector / SECTORS).map(|b| &**b);
                    read.sampled.entry(sector).or_insert_with(|| sector_of(block, sector));
                }
            }
        }
    }

    /// A read of `out` ends: puts what it has sampled over what lies there now.
    pub(super) fn sampled(&mut self, id: u64, out: &mut [u8]) {
        let Some(Reading { under, sampled }) = self.reads.remove(&id) else { return };
        let mut put = |sector: u64, data: [u8; SECTOR_BYTES]| {
            let at = (sector - under.blocks.start * SECTORS) as usize * SECTOR_BYTES;
            out[at..at + SECTOR_BYTES].copy_from_slice(&data);
        };
        for write in self.writes.values() {
            for sector in under.sectors(&write.under.blocks) {
                if write.under.instant(sector) <= under.instant(sector) {
                    let block = write.data[(sector / SECTORS - write.under.blocks.start) as usize].as_deref();
                    put(sector, sector_of(block, sector));
                }
            }
        }
        for (sector, data) in sampled {
            put(sector, data);
        }
    }

    /// An operation is over, one way or the other.
    pub(super) fn over(&mut self, id: u64) {
        self.reads.remove(&id);
        self.writes.remove(&id);
    }

    /// How much later than others an operation ends that is one in `late.0` late.
    pub(super) fn late_by(&mut self, late: (u64, u64)) -> u64 {
        if late.0 > 0 && self.rng.one_in(late.0) { self.rng.below(late.1) } else { 0 }
    }
}
