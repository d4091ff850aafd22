//! A small seeded generator of numbers (SplitMix64), so that a load can be run again exactly.
//!
//! Never: used for anything that must be hard to guess.

/// The generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }
    /// A number below `bound`, which must not be 0. The bias is below 2^-64 * `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a bound of 0 leaves no number");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }
}

/// Spreads the bits of a number over all 64.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
