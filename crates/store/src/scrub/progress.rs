//! How far a pass of scrubbing has come, and how fast it goes.
//!
//! Owns: [`Scrub`]. Invariant: only a pass that runs reads the log. Never: reads anything.

use base::Duration;

/// The slowest, in bytes/s.
const RATE_MIN: u64 = 4096;

/// What is known of the pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrub {
    running: bool,
    /// 0..=1.
    progress: f64,
    /// The block of the log that is being read.
    reads: Option<u32>,
    bytes_per_s: u64,
}

impl Scrub {
    /// No pass yet; the next one reads so many bytes a second.
    pub fn new(bytes_per_s: u64) -> Self {
        Self { running: false, progress: 0.0, reads: None, bytes_per_s }
    }
    /// It reads so many bytes a second, from now on.
    pub fn set_rate(&mut self, bytes_per_s: u64) {
        self.bytes_per_s = bytes_per_s;
    }
    /// How long it takes to read so many bytes.
    pub fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_s.max(RATE_MIN))) as u64)
    }

    pub fn begins(&mut self) {
        *self = Self { running: true, ..Self::new(self.bytes_per_s) };
    }
    /// This share of the chunks was looked at; more than all of them when some came meanwhile.
    pub fn has_come_to(&mut self, share: f64) {
        debug_assert!(self.running);
        self.progress = share.min(1.0);
    }
    /// Reads that block of the log.
    pub fn reads_log(&mut self, block: u32) {
        debug_assert!(self.running && self.reads.is_none());
        self.reads = Some(block);
    }
    /// Has read it.
    pub fn log_was_read(&mut self) {
        self.reads = None;
    }
    pub fn ends(&mut self) {
        *self = Self { progress: 1.0, ..Self::new(self.bytes_per_s) };
    }

    pub fn is_running(&self) -> bool {
        self.running
    }
    /// Share of the pass that is done, 0..=1; of the last one when none runs.
    pub fn progress(&self) -> f64 {
        self.progress
    }
    /// The block of the log that it reads.
    pub fn log_read(&self) -> Option<u32> {
        self.reads
    }
}
