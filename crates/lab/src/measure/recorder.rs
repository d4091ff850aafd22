//! What one thread of a load counts: figures of the measured time and a part of each second.
//!
//! Invariants: an operation counts in the time in which it ended; what ends after the window counts nowhere, so seconds add up to the figures;
//! nothing is allocated but once a second.
//! Never: reads a clock.

use super::{Figures, Latency, Second};
use base::IoClass;
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;

/// When it counts, in nanoseconds from the beginning of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The measurement begins.
    pub from_ns: u64,
    /// It ends, and no operation is started any more.
    pub to_ns: u64,
}

impl Window {
    /// The second that `ns` lies in, from the begin of the measurement.
    fn second(&self, ns: u64) -> i64 {
        (ns as i64 - self.from_ns as i64).div_euclid(SECOND_NS as i64)
    }
}

/// One thread's part of a second.
#[derive(Clone, Debug, Default)]
pub struct SecondPart {
    /// Seconds since the measurement began.
    pub index: i64,
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
    /// Latencies.
    pub latency: Latency,
}

impl SecondPart {
    fn new(index: i64) -> SecondPart {
        SecondPart { index, ..SecondPart::default() }
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &SecondPart) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }

    /// As it is kept.
    pub fn second(&self) -> Second {
        let us = |p: f64| self.latency.percentile_ns(p) as f64 / 1e3;
        Second {
            at_s: self.index as f64,
            reads: self.reads,
            writes: self.writes,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            errors: self.errors,
            p50_us: us(50.0),
            p99_us: us(99.0),
            max_us: self.latency.max_ns() as f64 / 1e3,
            target: None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Recorder {
    window: Window,
    /// Reads, writes, trims.
    pub kinds: [Figures; 3],
    /// Flushes: in no second, unless they failed, and no part of other figures.
    pub flushes: Figures,
    /// Each stream, when there are several.
    pub streams: Vec<Figures>,
    second: SecondPart,
    second_ends_ns: u64,
}

impl Recorder {
    /// For a load with `streams` streams.
    pub fn new(window: Window, streams: usize) -> Recorder {
        let first = window.second(0);
        let second_ends_ns = (window.from_ns as i64 + (first + 1) * SECOND_NS as i64) as u64;
        let streams = if streams > 1 { vec![Figures::default(); streams] } else { Vec::new() };
        Recorder { window, kinds: Default::default(), flushes: Figures::default(), streams, second: SecondPart::new(first), second_ends_ns }
    }

    /// Counts an operation that ended at `now_ns`.
    #[inline]
    pub fn record(&mut self, now_ns: u64, kind: IoClass, stream: usize, bytes: u32, latency_ns: u64, good: bool) {
        if now_ns >= self.window.to_ns {
            return;
        }
        debug_assert!(now_ns < self.second_ends_ns, "the owner rolls first");
        let (bytes, measured) = (u64::from(bytes), now_ns >= self.window.from_ns);
        if !good {
            self.second.errors += 1;
            if measured {
                self.kinds[kind as usize].errors += 1;
                if let Some(s) = self.streams.get_mut(stream) {
                    s.errors += 1;
                }
            }
            return;
        }
        match kind {
            IoClass::Read => (self.second.reads, self.second.read_bytes) = (self.second.reads + 1, self.second.read_bytes + bytes),
            IoClass::Write => (self.second.writes, self.second.written_bytes) = (self.second.writes + 1, self.second.written_bytes + bytes),
            IoClass::Discard => self.second.writes += 1,
        }
        self.second.latency.record(latency_ns);
        if measured {
            for figures in std::iter::once(&mut self.kinds[kind as usize]).chain(self.streams.get_mut(stream)) {
                figures.operations += 1;
                figures.bytes += bytes;
                figures.latency.record(latency_ns);
            }
        }
    }

    /// Counts a flush that ended at `now_ns`.
    pub fn record_flush(&mut self, now_ns: u64, latency_ns: u64, good: bool) {
        if now_ns >= self.window.to_ns {
            return;
        }
        self.second.errors += u64::from(!good);
        if now_ns < self.window.from_ns {
            return;
        }
        if good {
            self.flushes.operations += 1;
            self.flushes.latency.record(latency_ns);
        } else {
            self.flushes.errors += 1;
        }
    }

    /// When the second under way ends.
    #[inline]
    pub fn second_ends_ns(&self) -> u64 {
        self.second_ends_ns
    }

    /// The second under way, when it has ended at `now_ns`; call it until there is none.
    #[inline]
    pub fn roll(&mut self, now_ns: u64) -> Option<SecondPart> {
        if now_ns < self.second_ends_ns || self.second_ends_ns - SECOND_NS.min(self.second_ends_ns) >= self.window.to_ns {
            return None;
        }
        self.second_ends_ns += SECOND_NS;
        let next = SecondPart::new(self.second.index + 1);
        Some(std::mem::replace(&mut self.second, next))
    }

    /// The last second, begun and not ended, when anything was in it.
    pub fn last(&mut self) -> Option<SecondPart> {
        let s = &self.second;
        (s.reads + s.writes + s.errors > 0).then(|| std::mem::take(&mut self.second))
    }
}

/// Puts the parts of `threads` threads together, second by second.
#[derive(Debug)]
pub struct Merger {
    threads: usize,
    open: BTreeMap<i64, (usize, SecondPart)>,
    /// Latencies of the second that was given last.
    pub latency: Latency,
}

impl Merger {
    /// Of so many threads.
    pub fn new(threads: usize) -> Merger {
        Merger { threads, open: BTreeMap::new(), latency: Latency::default() }
    }

    /// Takes a part; gives the second when all threads have reported theirs.
    pub fn take(&mut self, part: SecondPart) -> Option<Second> {
        let index = part.index;
        match self.open.get_mut(&index) {
            Some((n, all)) => {
                *n += 1;
                all.merge(&part);
            }
            None => drop(self.open.insert(index, (1, part))),
        }
        if self.open.get(&index).is_some_and(|(n, _)| *n == self.threads) {
            let (_, all) = self.open.remove(&index)?;
            let second = all.second();
            self.latency = all.latency;
            return Some(second);
        }
        None
    }

    /// What is left at the end, in order, with its latencies: seconds that not every thread saw to their end.
    pub fn rest(self) -> impl Iterator<Item = (Second, Latency)> {
        self.open.into_values().map(|(_, all)| (all.second(), all.latency))
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
