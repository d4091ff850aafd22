//! What a verified load does next: a seeded mix of operations, sizes and places.
//!
//! Invariant: the same seed and settings give the same operations in the same order.

use super::model::Span;
use base::IoVerb;
use initiator::rng::Rng;

/// An operation and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// What it does: one of those that a [`Mix`] has shares of.
    pub verb: IoVerb,
    /// Of a write: with Force Unit Access.
    pub fua: bool,
    /// Units; empty for a flush.
    pub span: Span,
}

/// Shares of the operations, in hundredths. Writes get the rest.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Reads.
    pub read: u8,
    /// Write Zeroes.
    pub zero: u8,
    /// Deallocates.
    pub trim: u8,
    /// Flushes.
    pub flush: u8,
    /// Of the writes, so many in a hundred with FUA.
    pub fua: u8,
}

impl Mix {
    /// Whether the shares leave room for one another.
    pub fn is_sound(&self) -> bool {
        [self.read, self.zero, self.trim, self.flush].iter().map(|&p| u32::from(p)).sum::<u32>() <= 100 && self.fua <= 100
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self { read: 45, zero: 3, trim: 3, flush: 1, fua: 10 }
    }
}

/// The sizes of operations in units, with weights.
#[derive(Clone, Debug)]
pub struct Sizes(Vec<(u64, u32)>);

impl Sizes {
    /// From (bytes, weight), for units of `unit_bytes`. `None` when empty or a size is not a number of units.
    pub fn new(sizes: &[(u64, u32)], unit_bytes: u32) -> Option<Self> {
        let unit = u64::from(unit_bytes);
        let sound = !sizes.is_empty() && sizes.iter().all(|&(bytes, weight)| bytes > 0 && bytes.is_multiple_of(unit) && weight > 0);
        sound.then(|| Self(sizes.iter().map(|&(bytes, weight)| (bytes / unit, weight)).collect()))
    }
    /// 4 KiB to 256 KiB, small ones more often; with units below 4 KiB also single units and odd numbers of them.
    pub fn mixed(unit_bytes: u32) -> Vec<(u64, u32)> {
        let mut sizes = vec![
            (4 << 10, 40),
            (8 << 10, 15),
            (16 << 10, 15),
            (12 << 10, 5),
            (64 << 10, 12),
            (60 << 10, 3),
            (128 << 10, 6),
            (256 << 10, 4),
        ];
        if unit_bytes < 4096 {
            sizes.extend([(u64::from(unit_bytes), 20), (u64::from(unit_bytes) * 7, 10), (u64::from(unit_bytes) * 17, 5)]);
        }
        sizes
    }
    fn pick(&self, rng: &mut Rng) -> u64 {
        let total: u64 = self.0.iter().map(|s| u64::from(s.1)).sum();
        let mut n = rng.below(total);
        for &(units, weight) in &self.0 {
            if n < u64::from(weight) {
                return units;
            }
            n -= u64::from(weight);
        }
        self.0[0].0
    }
}

/// The stream of operations of one queue.
pub struct OpStream {
    rng: Rng,
    mix: Mix,
    sizes: Sizes,
    units: u64,
    hot: u64,
}

/// The part of the working set that gets half of the operations, so that overlaps and overwrites happen: one in so many.
const HOT_PART: u64 = 64;

impl OpStream {
    /// A stream over `units` units.
    pub fn new(seed: u64, mix: Mix, sizes: Sizes, units: u64) -> Self {
        Self { rng: Rng::new(seed), mix, sizes, units, hot: (units / HOT_PART).max(1) }
    }

    /// The next operation.
    pub fn next_op(&mut self) -> Op {
        let mut n = self.rng.below(100) as u32;
        // Drawn for every operation, so that a share changes nothing else of the stream.
        let fua = self.rng.percent(self.mix.fua);
        let mut verb = IoVerb::Write;
        for (share, other) in
            [(self.mix.read, IoVerb::Read), (self.mix.zero, IoVerb::Zero), (self.mix.trim, IoVerb::Trim), (self.mix.flush, IoVerb::Flush)]
        {
            if n < u32::from(share) {
                verb = other;
                break;
            }
            n -= u32::from(share);
        }
        let fua = fua && verb == IoVerb::Write;
        if verb == IoVerb::Flush {
            return Op { verb, fua, span: Span { first: 0, count: 0 } };
        }
        let count = self.sizes.pick(&mut self.rng).min(self.units);
        let within = if self.rng.percent(50) { self.hot.max(count).min(self.units) } else { self.units };
        Op { verb, fua, span: Span { first: self.rng.below(within - count + 1), count } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_operations_and_all_lie_within() {
        let sizes = Sizes::new(&Sizes::mixed(512), 512).expect("sound");
        let mut a = OpStream::new(5, Mix::default(), sizes.clone(), 1000);
        let mut b = OpStream::new(5, Mix::default(), sizes, 1000);
        let mut drawn = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let op = a.next_op();
            assert_eq!(op, b.next_op());
            assert!(op.span.first + op.span.count <= 1000);
            assert_eq!(op.span.count == 0, op.verb == IoVerb::Flush);
            *drawn.entry((op.verb, op.fua)).or_insert(0) += 1;
        }
        assert_eq!(drawn.len(), 6, "{drawn:?}");
        assert!((8_500..9_500).contains(&drawn[&(IoVerb::Read, false)]), "{drawn:?}");
    }
}
