//! Latencies as the data plane counts them: a fixed array, no allocation, exact merging.

/// Buckets: each power of two of nanoseconds is cut into four.
pub const BUCKETS: usize = 160;
const SUB_BITS: u32 = 2;

/// Counts of durations by size: four buckets for each power of two of nanoseconds, so a quantile is right within a fifth.
/// The last bucket also takes all above 2^40 ns (18 minutes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum_ns: 0 }
    }
}

impl Histogram {
    /// Counts one duration, in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }
    /// Adds all of another.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
    /// Their sum, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
    /// The buckets that hold any: the longest duration of each, in nanoseconds, and how many it holds.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (upper_ns(i), *n))
    }
    /// The upper bound, in nanoseconds, of the bucket that holds the quantile `q` (0 to 1); 0 when nothing was counted.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper_ns(i);
            }
        }
        upper_ns(BUCKETS - 1)
    }
    /// How many durations were at most `ns` long, to the precision of the buckets (buckets wholly at or below `ns`).
    pub fn at_most(&self, ns: u64) -> u64 {
        self.counts.iter().enumerate().take_while(|(i, _)| upper_ns(*i) <= ns).map(|(_, n)| n).sum()
    }
}

fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let top = 63 - ns.leading_zeros();
    let sub = (ns >> (top - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    ((((top - SUB_BITS + 1) as usize) << SUB_BITS) + sub as usize).min(BUCKETS - 1)
}

/// The largest duration of a bucket, in nanoseconds.
fn upper_ns(index: usize) -> u64 {
    if index < 1 << SUB_BITS {
        return index as u64;
    }
    let top = (index >> SUB_BITS) as u32 + SUB_BITS - 1;
    let sub = (index & ((1 << SUB_BITS) - 1)) as u64;
    (1u64 << top) + ((sub + 1) << (top - SUB_BITS)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_what_it_says_within_a_quarter(ns in 0u64..1 << 40) {
            let upper = upper_ns(bucket(ns));
            prop_assert!(ns <= upper && upper - ns <= ns / 4 + 1, "{} {}", ns, upper);
        }
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut h = Histogram::default();
        for us in 1..=1000u64 {
            h.record(us * 1000);
        }
        assert_eq!(h.count(), 1000);
        assert_eq!(h.sum_ns(), 500_500_000);
        for (q, ns) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let got = h.quantile_ns(q) as f64;
            assert!(got >= ns && got <= ns * 1.25, "{q}: {got}");
        }
        assert_eq!(h.buckets().map(|(_, n)| n).sum::<u64>(), 1000);
        assert!(h.buckets().all(|(upper, n)| n > 0 && (1000..=1_250_000).contains(&upper)));
        let mut twice = h.clone();
        twice.merge(&h);
        assert_eq!(twice.count(), 2000);
        assert_eq!(twice.quantile_ns(0.5), h.quantile_ns(0.5));
    }

    #[test]
    fn the_longest_durations_fall_into_the_last_bucket() {
        let mut h = Histogram::default();
        h.record(u64::MAX);
        assert_eq!(h.count(), 1);
        assert_eq!(h.quantile_ns(0.5), upper_ns(BUCKETS - 1));
    }
}
