//! What a modelled load did: figures of the measured time, and of the second that runs.
//!
//! Invariant: every operation that is seen counts in its second, and in the figures while the measurement lasts.
//! Never: looks at a clock.

use base::IoClass;
use lab::measure::{Figures, Latency, Second};
use lab::workload::generate::Operation;

/// See the module.
pub struct Tally {
    /// Whether the measurement lasts.
    pub measuring: bool,
    /// Reads, writes, trims.
    pub kinds: [Figures; 3],
    /// Each stream, when there are several.
    pub streams: Vec<Figures>,
    second: Second,
    latency: Latency,
}

impl Tally {
    /// Of a load with so many streams.
    pub fn new(streams: usize) -> Tally {
        Tally {
            measuring: false,
            kinds: Default::default(),
            streams: if streams > 1 { vec![Figures::default(); streams] } else { Vec::new() },
            second: Second::default(),
            latency: Latency::default(),
        }
    }

    /// Counts an operation that a client has seen the end of.
    pub fn record(&mut self, op: &Operation, ns: u64, good: bool) {
        let bytes = u64::from(op.bytes);
        let count = |f: &mut Figures| {
            if good {
                f.operations += 1;
                f.bytes += bytes;
                f.latency.record(ns);
            } else {
                f.errors += 1;
            }
        };
        if self.measuring {
            count(&mut self.kinds[op.kind as usize]);
            if let Some(stream) = self.streams.get_mut(op.stream) {
                count(stream);
            }
        }
        match (good, op.kind) {
            (false, _) => self.second.errors += 1,
            (true, IoClass::Read) => {
                self.second.reads += 1;
                self.second.read_bytes += bytes;
            }
            (true, kind) => {
                self.second.writes += 1;
                self.second.written_bytes += if kind == IoClass::Write { bytes } else { 0 };
            }
        }
        if good {
            self.latency.record(ns);
        }
    }

    /// The second that ends; the next begins.
    pub fn take_second(&mut self, at_s: f64) -> Second {
        let latency = core::mem::take(&mut self.latency);
        let us = |p: f64| latency.percentile_ns(p) as f64 / 1e3;
        let (p50_us, p99_us, max_us) = (us(50.0), us(99.0), latency.max_ns() as f64 / 1e3);
        Second { at_s, p50_us, p99_us, max_us, ..core::mem::take(&mut self.second) }
    }
}
