//! Lanes: an object's address space is cut into 1 MiB pieces, dealt to 16 lanes by a fixed rule.
//!
//! Invariant: of each aligned run of 16 pieces every lane gets exactly one, so lanes fill evenly whatever the size of
//! a volume; the rule never changes (it is part of the format of the devices).

use crate::unit::{BlockNo, PIECE_BLOCKS};

/// How many lanes an object has.
pub const LANES: u8 = 16;

/// The unit of concurrency of an object: ordering, sequence numbers, the log and recovery go by lane. Below [`LANES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u8);

impl Lane {
    /// The lane that a block belongs to.
    pub const fn of(block: BlockNo) -> Self {
        let piece = block.0 / PIECE_BLOCKS;
        let run = piece >> 4;
        // xor by a number that is fixed within a run of 16 pieces deals each lane once, in an order that differs from run to run.
        let mix = (run ^ 0x9E37_79B9).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
        Self(((piece ^ mix) & 15) as u8)
    }
    /// The lane with this number; `None` at [`LANES`] or above.
    pub const fn new(index: u8) -> Option<Self> {
        if index < LANES { Some(Self(index)) } else { None }
    }
    /// Its number, below [`LANES`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The shard that holds it in a group of `shards` (a power of two, at most 16).
    pub const fn shard(self, shards: usize) -> usize {
        self.0 as usize % shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_sixteen_pieces_deals_each_lane_once() {
        for run in 0..10_000u64 {
            let mut seen = 0u32;
            for piece in 0..16 {
                seen |= 1 << Lane::of(BlockNo((run * 16 + piece) * PIECE_BLOCKS)).index();
            }
            assert_eq!(seen, 0xFFFF, "run {run}");
        }
    }

    #[test]
    fn the_rule_is_part_of_the_format_and_stays_as_it_was() {
        let lanes: Vec<usize> = (0..40).map(|piece| Lane::of(BlockNo(piece * PIECE_BLOCKS)).index()).collect();
        assert_eq!(
            lanes,
            [
                3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 9, 8, 11, 10, 13, 12, 15, 14, 1, 0, 3, 2, 5, 4, 7, 6, 6, 7, 4, 5, 2,
                3, 0, 1
            ]
        );
    }

    #[test]
    fn all_blocks_of_a_piece_share_a_lane() {
        for piece in [0, 1, 77, 1 << 20] {
            let first = Lane::of(BlockNo(piece * PIECE_BLOCKS));
            assert!((0..PIECE_BLOCKS).all(|b| Lane::of(BlockNo(piece * PIECE_BLOCKS + b)) == first));
        }
    }
}
