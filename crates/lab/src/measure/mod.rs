//! What is measured: latencies in HDR histograms, a value each second, processor time.
//!
//! Invariants: histograms merge exactly; a percentile is of all operations, never a mean of percentiles.
//! Never: drives a load.

pub mod cpu;
pub mod noise;
pub mod recorder;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// Operations that have to lie beyond a percentile: with fewer, one slow operation more or less is another percentile. p99 takes 1,000 of them.
pub const BEYOND: f64 = 10.0;
/// Longest latency that is distinguished: 10 minutes.
pub const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Latencies in nanoseconds, three digits right.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Latency(Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are sound"))
    }
}

impl Latency {
    /// Counts one operation.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }
    /// Counts `n` operations of one latency.
    pub fn record_n(&mut self, ns: u64, n: u64) {
        self.0.saturating_record_n(ns.max(1), n);
    }
    /// Adds all of another.
    pub fn merge(&mut self, other: &Latency) {
        self.0 += &other.0;
    }
    /// Operations counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }
    /// Mean in nanoseconds; 0 when nothing was counted.
    pub fn mean_ns(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.mean() }
    }
    /// The largest, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }
    /// Percentile `p` (0 to 100) in nanoseconds: no more than 100 - p percent of operations took longer.
    pub fn percentile_ns(&self, p: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_percentile(p) }
    }
    /// The same, where at least [`BEYOND`] operations lie beyond it.
    pub fn known_percentile_ns(&self, p: f64) -> Option<u64> {
        let enough = self.count() as f64 * (100.0 - p) / 100.0 >= BEYOND * 0.999_999;
        enough.then(|| self.percentile_ns(p))
    }
    /// Operations that took longer than `ns`.
    pub fn beyond(&self, ns: f64) -> u64 {
        self.buckets().filter(|(to, _)| *to as f64 > ns).map(|(_, count)| count).sum()
    }
    /// The whole distribution, as (upper end of a bucket in nanoseconds, operations in it).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value()))
    }
}

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(|e| serde::ser::Error::custom(format!("{e:?}")))?;
        s.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| serde::de::Error::custom(format!("not a histogram: {e:?}")))?;
        // What was read may have other bounds: into one of ours, whatever somebody wrote there.
        let mut latency = Latency::default();
        latency.0.add(histogram).map_err(|e| serde::de::Error::custom(format!("not a histogram of ours: {e:?}")))?;
        Ok(latency)
    }
}

/// What one kind of operation, or one stream, or all together did in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Operations that ended well.
    pub operations: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Latencies of those that ended well; open loop: from their intended start.
    pub latency: Latency,
}

impl Figures {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Figures) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }
}

/// One second of a run (of virtual time, where that is what there is).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the measurement began; negative in the warm-up.
    pub at_s: f64,
    /// Reads that ended.
    pub reads: u64,
    /// Writes and trims that ended.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Median latency in microseconds of all operations that ended in it.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// What the target said of itself at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetSecond>,
}

/// What a target says of itself in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetSecond {
    /// Fill of the write buffer, 0 to 1: the fullest disk group.
    pub buffer_fill: f64,
    /// Bytes a second that were destaged.
    pub destaged_bytes: f64,
    /// Bytes a second read from devices.
    pub device_read_bytes: f64,
    /// Bytes a second written to devices.
    pub device_written_bytes: f64,
    /// Processor time it used, in cores.
    pub cores: f64,
}

#[cfg(test)]
#[path = "percentile_tests.rs"]
mod percentile_tests;
