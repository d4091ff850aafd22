//! The world's only source of chance: xoshiro256++ seeded by splitmix64 (Blackman and Vigna, 2019; public domain).

/// A generator. The same seed gives the same numbers, on every machine and for ever: seeds in bug reports rely on it.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        Rng(core::array::from_fn(|_| {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }))
    }
    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }
    /// Below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
    /// From `min` to `max`, both possible; `min` when the range is empty.
    pub fn between(&mut self, (min, max): (u64, u64)) -> u64 {
        min + if max > min { self.below(max - min + 1) } else { 0 }
    }
    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.between((0, 4)) as usize] = true;
            assert_eq!(rng.between((9, 9)), 9);
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let draw = |seed| -> Vec<u64> {
            let mut rng = Rng::new(seed);
            (0..4).map(|_| rng.next_u64()).collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Rng::new(0).0[0], 0xE220_A839_7B1D_CDAF, "splitmix64's published first output for seed 0");
    }
}
