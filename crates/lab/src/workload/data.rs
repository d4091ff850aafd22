//! What is written: bytes that a compressor cannot shrink but for a set share, with a set share of equal blocks.
//!
//! Invariants: two blocks that are not meant to be equal differ; the same seed gives the same bytes.
//! Never: makes more than a stamp of bytes for an operation whose buffer it has filled before.

use super::Data;
use initiator::rng::{Rng, mix};

/// What is stamped, compressed and compared.
pub const BLOCK_BYTES: usize = 4096;
/// Different blocks among those that are equal to another.
const EQUALS: u64 = 64;

/// Fills buffers of one thread.
#[derive(Clone, Debug)]
pub struct Filler {
    data: Data,
    seed: u64,
    rng: Rng,
    stamp: u64,
    random_bytes: usize,
}

impl Filler {
    /// For thread number `thread` of a run with `seed`: threads never write equal blocks unless they are meant to.
    pub fn new(data: Data, seed: u64, thread: u64) -> Filler {
        let random_bytes = (BLOCK_BYTES as f64 * (1.0 - data.compressible.clamp(0.0, 1.0))) as usize / 8 * 8;
        Filler { data, seed, rng: Rng::new(mix(seed ^ mix(thread ^ 0xDA7A))), stamp: mix(seed ^ thread) << 20, random_bytes }
    }

    /// Random bytes in all of `out`, once for each buffer.
    pub fn first(&mut self, out: &mut [u8]) {
        for block in out.chunks_mut(BLOCK_BYTES) {
            fill(&mut self.rng, block, self.random_bytes);
        }
    }

    /// Makes the blocks of `out`, which was filled by [`Filler::first`], differ from all before; or equal, where that is wanted.
    #[inline]
    pub fn again(&mut self, out: &mut [u8]) {
        for block in out.chunks_mut(BLOCK_BYTES) {
            if self.data.duplicates > 0.0 {
                let equal = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                if equal < self.data.duplicates {
                    let which = self.rng.below(EQUALS);
                    fill(&mut Rng::new(mix(self.seed ^ which)), block, self.random_bytes);
                    continue;
                }
                fill(&mut self.rng, block, self.random_bytes);
            }
            if self.random_bytes >= 16 && block.len() >= 16 {
                self.stamp = self.stamp.wrapping_add(1);
                block[..8].copy_from_slice(&mix(self.stamp).to_le_bytes());
                block[8..16].copy_from_slice(&self.stamp.to_le_bytes());
            }
        }
    }
}

/// Random bytes, then zeroes.
fn fill(rng: &mut Rng, block: &mut [u8], random_bytes: usize) {
    let (random, zero) = block.split_at_mut(random_bytes.min(block.len()));
    for word in random.chunks_mut(8) {
        let n = word.len();
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..n]);
    }
    zero.fill(0);
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
