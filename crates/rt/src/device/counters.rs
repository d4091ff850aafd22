//! What a device did: counts, bytes, latencies.
//!
//! Invariant: every operation that ended is counted once, on whichever core it was; what has begun and not ended is in flight.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of a [`LatencyHistogram`].
pub const LATENCY_BUCKETS: usize = 40;

/// Latencies by power of two: bucket `i` counts those of 2^i to 2^(i+1) - 1 ns (bucket 0 also 0 ns, the last one all that is longer).
#[derive(Debug)]
pub struct LatencyHistogram([AtomicU64; LATENCY_BUCKETS]);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; LATENCY_BUCKETS])
    }
}

impl LatencyHistogram {
    /// Counts one.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.0[(ns.max(1).ilog2() as usize).min(LATENCY_BUCKETS - 1)].fetch_add(1, Relaxed);
    }
    /// The counts now.
    pub fn snapshot(&self) -> [u64; LATENCY_BUCKETS] {
        core::array::from_fn(|i| self.0[i].load(Relaxed))
    }
}

base::counters! {
    /// What a device did since it was opened, over all cores.
    #[derive(Debug, Default)]
    pub struct DeviceCounters {
        /// Reads that ended.
        pub reads: AtomicU64 = counter("reads"),
        /// Bytes read.
        pub read_bytes: AtomicU64 = counter("read_bytes"),
        /// Writes that ended.
        pub writes: AtomicU64 = counter("writes"),
        /// Bytes written.
        pub write_bytes: AtomicU64 = counter("write_bytes"),
        /// Flushes that ended.
        pub flushes: AtomicU64 = counter("flushes"),
        /// Discards that ended.
        pub discards: AtomicU64 = counter("discards"),
        /// Operations of any kind that failed.
        pub errors: AtomicU64 = counter("errors"),
        /// Operations that the device has and has not ended.
        pub in_flight: AtomicU64 = gauge("in_flight"),
        /// From submission to completion.
        pub read_latency: LatencyHistogram,
        /// From submission to completion.
        pub write_latency: LatencyHistogram,
    }
}

impl DeviceCounters {
    /// Operations of any kind that ended, well or not.
    pub fn ended(&self) -> u64 {
        [&self.reads, &self.writes, &self.flushes, &self.discards].iter().map(|ended| ended.load(Relaxed)).sum()
    }
    /// The device gets an operation.
    #[inline]
    pub(crate) fn begins(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }
    /// It has no more of it, however that came about.
    #[inline]
    pub(crate) fn is_over(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }
    /// Counts a read that ended.
    #[inline]
    pub(crate) fn count_read(&self, bytes: u64, ns: u64, ok: bool) {
        self.reads.fetch_add(1, Relaxed);
        self.read_latency.record(ns);
        if ok {
            self.read_bytes.fetch_add(bytes, Relaxed);
        } else {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Counts a write that ended.
    #[inline]
    pub(crate) fn count_write(&self, bytes: u64, ns: u64, ok: bool) {
        self.writes.fetch_add(1, Relaxed);
        self.write_latency.record(ns);
        if ok {
            self.write_bytes.fetch_add(bytes, Relaxed);
        } else {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Counts a flush that ended.
    pub(crate) fn count_flush(&self, ok: bool) {
        self.flushes.fetch_add(1, Relaxed);
        if !ok {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Counts a discard that ended.
    pub(crate) fn count_discard(&self, ok: bool) {
        self.discards.fetch_add(1, Relaxed);
        if !ok {
            self.errors.fetch_add(1, Relaxed);
        }
    }
}
