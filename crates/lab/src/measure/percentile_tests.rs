//! Percentiles of known distributions, through the recorder and the histogram.
//!
//! Two bounds are held. Against the sorted samples: the histogram's three digits, nothing else. Against the distribution: of n samples the k-th smallest
//! has a rank that is Beta(k, n + 1 - k), so the true rank of a percentile p lies within [`SIGMAS`] times sqrt(p (1 - p) / n) of p.

use super::recorder::{Recorder, Window};
use super::{Figures, Latency};
use base::IoClass;
use initiator::rng::Rng;

const SAMPLES: usize = 200_000;
const SIGMAS: f64 = 5.0;
/// A value of the histogram is the upper end of a bucket of at most this width, as a part of it.
const PRECISION: f64 = 0.001;
const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];
const US: f64 = 1e3;

/// A distribution of latencies in nanoseconds.
struct Known {
    name: &'static str,
    draw: fn(&mut Rng) -> f64,
    /// The share of latencies up to so many nanoseconds.
    share: fn(f64) -> f64,
}

fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn ramp(x: f64, from: f64, to: f64) -> f64 {
    ((x - from) / (to - from)).clamp(0.0, 1.0)
}

/// The normal distribution function, by Abramowitz and Stegun 7.1.26: right to 1.5e-7.
fn normal_share(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let upper = 0.5 * poly * (-x * x).exp();
    if z > 0.0 { 1.0 - upper } else { upper }
}

const MEDIAN: f64 = 150.0 * US;
const SPREAD: f64 = 1.5;

const ALL: [Known; 4] = [
    Known { name: "exponential, mean 200 µs", draw: |r| -unit(r).ln() * 200.0 * US, share: |x| 1.0 - (-x / (200.0 * US)).exp() },
    Known { name: "uniform, 100 to 900 µs", draw: |r| (100.0 + 800.0 * unit(r)) * US, share: |x| ramp(x, 100.0 * US, 900.0 * US) },
    Known {
        name: "bimodal, nine in ten 80 to 120 µs, the rest 5 to 15 ms",
        draw: |r| if unit(r) < 0.9 { (80.0 + 40.0 * unit(r)) * US } else { (5000.0 + 10_000.0 * unit(r)) * US },
        share: |x| 0.9 * ramp(x, 80.0 * US, 120.0 * US) + 0.1 * ramp(x, 5000.0 * US, 15_000.0 * US),
    },
    Known {
        name: "lognormal, median 150 µs",
        draw: |r| MEDIAN * (SPREAD * (-2.0 * unit(r).ln()).sqrt() * (std::f64::consts::TAU * unit(r)).cos()).exp(),
        share: |x| normal_share((x / MEDIAN).ln() / SPREAD),
    },
];

fn recorder() -> Recorder {
    Recorder::new(Window { from_ns: 0, to_ns: u64::MAX }, 1)
}

fn percentiles(latency: &Latency) -> Vec<f64> {
    PERCENTILES.iter().map(|p| latency.percentile_ns(*p) as f64).collect()
}

#[test]
fn percentiles_are_those_of_the_distribution_and_of_the_samples() {
    for known in &ALL {
        let (mut rng, mut recorder) = (Rng::new(7), recorder());
        let mut samples: Vec<u64> = (0..SAMPLES).map(|_| (known.draw)(&mut rng).round() as u64).collect();
        samples.iter().for_each(|ns| recorder.record(1, IoClass::Read, 0, 4096, *ns, true));
        samples.sort_unstable();
        let latency = &recorder.kinds[IoClass::Read as usize].latency;
        assert_eq!(latency.count(), SAMPLES as u64);
        for (p, got) in PERCENTILES.iter().zip(percentiles(latency)) {
            let (name, part) = (known.name, p / 100.0);
            let rank = ((part * SAMPLES as f64).ceil() as usize).clamp(1, SAMPLES);
            let exact = samples[rank - 1] as f64;
            assert!((got - exact).abs() <= exact * PRECISION + 1.0, "{name}, p{p}: {got}, the samples' is {exact}");
            let error = SIGMAS * (part * (1.0 - part) / SAMPLES as f64).sqrt() + 1.0 / SAMPLES as f64;
            let (low, high) = ((known.share)(got * (1.0 - PRECISION)), (known.share)(got * (1.0 + PRECISION)));
            assert!(low - error <= part && part <= high + error, "{name}, p{p}: {got} ns has the rank {low} to {high}");
        }
        let mean = samples.iter().sum::<u64>() as f64 / SAMPLES as f64;
        assert!((latency.mean_ns() / mean - 1.0).abs() < PRECISION, "{}: {}, not {mean}", known.name, latency.mean_ns());
        let longest = samples[SAMPLES - 1] as f64;
        assert!((latency.max_ns() as f64 / longest - 1.0).abs() < PRECISION);
    }
}

#[test]
fn parts_merged_are_exactly_what_one_recorder_had() {
    for known in &ALL {
        let mut rng = Rng::new(11);
        let mut parts: Vec<Recorder> = (0..4).map(|_| recorder()).collect();
        let mut whole = recorder();
        for n in 0..50_000 {
            // Parts of very different sizes, as slow and fast disks give them.
            let part = if n % 100 == 0 { 3 } else { n % 7 % 3 };
            let ns = (known.draw)(&mut rng) as u64;
            parts[part].record(1, IoClass::Read, 0, 4096, ns, n % 1000 != 0);
            whole.record(1, IoClass::Read, 0, 4096, ns, n % 1000 != 0);
        }
        let mut merged = Figures::default();
        parts.iter().for_each(|r| merged.merge(&r.kinds[IoClass::Read as usize]));
        assert_eq!(merged, whole.kinds[IoClass::Read as usize], "{}", known.name);
        let kept: Figures = serde_json::from_str(&serde_json::to_string(&merged).unwrap()).unwrap();
        assert_eq!(percentiles(&kept.latency), percentiles(&whole.kinds[IoClass::Read as usize].latency), "as read back from a file");
    }
}

#[test]
fn a_percentile_of_two_systems_is_not_the_mean_of_theirs() {
    let (mut fast, mut slow) = (Latency::default(), Latency::default());
    fast.record_n(100_000, 9_900);
    slow.record_n(10_000_000, 100);
    let mut both = fast.clone();
    both.merge(&slow);
    assert!(both.percentile_ns(98.9) < 101_000 && both.percentile_ns(99.1) > 9_900_000);
}
