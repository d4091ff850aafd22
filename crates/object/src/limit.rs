//! The IOPS and bandwidth limits of a volume: a virtual schedule (the generic cell rate algorithm) that all cores share.
//!
//! Each limit keeps one number, the time at which the volume has paid for all it was given. A request adds its cost to it and may begin when
//! that time is at most [`BURST`] ahead; so the long-run rate is the limit, a volume that was quiet may run ahead by `BURST`, and requests
//! beyond it are spaced evenly. IOPS are normalised: a request of up to 32 KiB counts one, each further 32 KiB one more.
//!
//! Invariant: over any time T at most `rate * (T + BURST)` plus one request is let through, however many cores ask.
//! Never: blocks, rejects.

use base::hooks::{self, SeededFault};
use base::{Duration, Instant};
use core::sync::atomic::{AtomicU64, Ordering};

/// How far a volume that was quiet may run ahead of its rate.
pub const BURST: Duration = Duration::from_millis(100);
/// The unit of the normalised IOPS, in bytes.
pub const NORMAL_BYTES: u64 = 32 << 10;

/// One rate.
#[derive(Debug)]
struct Rate {
    /// What 2^20 units cost, in nanoseconds: a whole number that loses nothing at high rates.
    ns_per_mebi: u64,
    paid_until: AtomicU64,
}

impl Rate {
    fn new(per_second: u64) -> Self {
        let per_second = per_second.max(1) << u32::from(hooks::seeded(SeededFault::LimitDoubled) && per_second < 1 << 40);
        Self {
            ns_per_mebi: u64::try_from((1_000_000_000u128 << 20) / u128::from(per_second)).unwrap_or(u64::MAX),
            paid_until: AtomicU64::new(0),
        }
    }

    fn begin_at(&self, now: Instant, units: u64) -> Instant {
        let cost = u64::try_from((u128::from(self.ns_per_mebi) * u128::from(units)) >> 20).unwrap_or(u64::MAX);
        let floor = now.0.saturating_sub(BURST.as_nanos() as u64 * if hooks::seeded(SeededFault::BurstTooLong) { 10 } else { 1 });
        let before = self
            .paid_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| Some(paid.max(floor).saturating_add(cost)))
            .expect("the update never declines");
        // The request itself begins when what came before it has been paid for.
        Instant(before.max(floor))
    }
}

/// How much hosts may ask of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Requests a second, in units of [`NORMAL_BYTES`]; `None` is no limit.
    pub iops_max: Option<u64>,
    /// Bytes a second; `None` is no limit.
    pub bytes_per_s_max: Option<u64>,
}

impl VolumeLimits {
    /// Whether there is no limit at all.
    pub const fn is_none(&self) -> bool {
        self.iops_max.is_none() && self.bytes_per_s_max.is_none()
    }
}

/// The limits of one volume, with what they have counted; shared by all cores.
#[derive(Debug, Default)]
pub struct Limits {
    iops: Option<Rate>,
    bandwidth: Option<Rate>,
}

impl Limits {
    /// Limits that have counted nothing.
    pub fn new(VolumeLimits { iops_max, bytes_per_s_max }: VolumeLimits) -> Self {
        Self {
            iops: iops_max.map(Rate::new),
            bandwidth: bytes_per_s_max.filter(|_| !hooks::seeded(SeededFault::BandwidthUnlimited)).map(Rate::new),
        }
    }

    /// Whether there is no limit at all.
    pub fn is_none(&self) -> bool {
        self.iops.is_none() && self.bandwidth.is_none()
    }

    /// When a request of `bytes` may begin: `now` or later. It is counted at once.
    pub fn begin_at(&self, now: Instant, bytes: u64) -> Instant {
        let units = if hooks::seeded(SeededFault::LargeCountsOnce) {
            1
        } else if hooks::seeded(SeededFault::UnitsRoundedDown) {
            (bytes / NORMAL_BYTES).max(1)
        } else {
            bytes.div_ceil(NORMAL_BYTES).max(1)
        };
        let iops = self.iops.as_ref().map_or(now, |r| r.begin_at(now, units));
        let bandwidth = self.bandwidth.as_ref().map_or(now, |r| r.begin_at(now, bytes));
        now.max(iops).max(bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers requests as fast as they may begin, one after another, and counts those that begin within a second.
    fn run(limits: &Limits, bytes: u64, from: Instant) -> (u64, Vec<u64>) {
        let (mut now, mut count, mut gaps) = (from, 0, vec![]);
        while now.since(from) < Duration::from_secs(1) {
            let at = limits.begin_at(now, bytes);
            gaps.push(at.since(now).as_micros() as u64);
            now = at;
            count += 1;
        }
        (count, gaps)
    }

    #[test]
    fn the_long_run_rate_is_the_limit_plus_one_burst() {
        let limits = Limits::new(VolumeLimits { iops_max: Some(1000), bytes_per_s_max: None });
        let (count, _) = run(&limits, 4096, Instant(5_000_000_000));
        assert!((1100..=1102).contains(&count), "{count}");
        let (next, gaps) = run(&limits, 4096, Instant(6_000_000_000));
        assert!((999..=1002).contains(&next), "no second burst without a pause: {next}");
        assert!(gaps.iter().all(|g| *g <= 1001), "evenly spaced, never in lumps");
    }

    #[test]
    fn iops_are_counted_in_units_of_32_kib() {
        let limits = Limits::new(VolumeLimits { iops_max: Some(1000), bytes_per_s_max: None });
        run(&limits, 4096, Instant(0));
        let (count, _) = run(&limits, 128 << 10, Instant(1_000_000_000));
        assert!((249..=252).contains(&count), "{count}");
        let (count, _) = run(&limits, 32 << 10, Instant(2_000_000_000));
        assert!((994..=1004).contains(&count), "{count}");
    }

    #[test]
    fn bandwidth_is_limited_on_its_own() {
        let limits = Limits::new(VolumeLimits { iops_max: None, bytes_per_s_max: Some(100 << 20) });
        run(&limits, 1 << 20, Instant(0));
        let (count, _) = run(&limits, 1 << 20, Instant(1_000_000_000));
        assert!((99..=102).contains(&count), "{count}");
    }

    /// How far each limit has been paid ahead, in seconds: what the rules say, written down once more in another way.
    #[derive(Clone, Copy)]
    struct Ahead {
        per_second: f64,
        seconds: f64,
    }

    impl Ahead {
        /// Time passes, then a request of so many units asks: how long it waits for this limit.
        fn wait(&mut self, passed: f64, units: f64) -> f64 {
            self.seconds = (self.seconds - passed).max(-BURST.as_secs_f64());
            let wait = self.seconds.max(0.0);
            self.seconds += units / self.per_second;
            wait
        }
    }

    proptest::proptest! {
        /// Requests of any size with any pauses, as many at once as come: each waits for what each of the limits says, for the longer of them when
        /// there are two, and counts for both.
        #[test]
        fn a_request_waits_for_every_limit_that_there_is_and_counts_for_each(
            iops in proptest::option::of(10u64..5000),
            bandwidth in proptest::option::of(1u64 << 20..1 << 30),
            requests in proptest::collection::vec((0u64..40_000, proptest::bool::weighted(0.03), 1u64..2049), 1..120)
        ) {
            let limits = Limits::new(VolumeLimits { iops_max: iops, bytes_per_s_max: bandwidth });
            assert_eq!(limits.is_none(), iops.is_none() && bandwidth.is_none());
            let model = |rate: Option<u64>| rate.map(|r| Ahead { per_second: r as f64, seconds: -BURST.as_secs_f64() });
            let (mut of_iops, mut of_bandwidth) = (model(iops), model(bandwidth));
            let mut now = Instant(3_600_000_000_000);
            for (pause_us, is_long, sectors) in requests {
                let (pause_us, bytes) = (if is_long { pause_us * 100 } else { pause_us }, sectors * 512);
                now += Duration::from_micros(pause_us);
                let (passed, units) = (pause_us as f64 / 1e6, bytes.div_ceil(32 << 10) as f64);
                let waits = [of_iops.as_mut().map(|a| a.wait(passed, units)), of_bandwidth.as_mut().map(|a| a.wait(passed, bytes as f64))];
                let expected = waits.into_iter().flatten().fold(0.0, f64::max);
                let waits = limits.begin_at(now, bytes).since(now).as_secs_f64();
                assert!((waits - expected).abs() < 1e-4, "{iops:?}, {bandwidth:?}: {bytes} bytes wait {waits} s, not {expected} s");
            }
        }
    }

    #[test]
    fn extreme_limits_do_not_overflow() {
        for rate in [0, 1, u64::MAX] {
            let limits = Limits::new(VolumeLimits { iops_max: Some(rate), bytes_per_s_max: Some(rate) });
            let _ = limits.begin_at(Instant(u64::MAX - 5), 1 << 20);
        }
    }
}
