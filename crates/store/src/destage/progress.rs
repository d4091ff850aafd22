//! How far destaging has come.
//!
//! Owns: [`Cursor`], [`Destage`]. Never: moves anything.

use crate::index::Key;
use base::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rt::DeviceError;
use rt::sync::Notify;

/// After an error on a capacity device: the first pause and the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A place in the log: record `record` of segment `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub seq: u64,
    pub record: usize,
}

/// What destaging knows.
pub(crate) struct Destage {
    /// Everything before it was looked at in this round.
    pub cursor: Cursor,
    /// Everything before this segment is clean.
    pub clean: u64,
    /// Jobs in flight.
    pub jobs: u32,
    /// Blocks that a job in flight moves, and from which block of the slice.
    pub moving: HashMap<Key, u32, FixedState>,
    /// Blocks of the log that the cursor has passed since the pacer last heard of them.
    pub passed_blocks: u64,
    /// The cursor has passed something that was not moved: once more from the first segment that is not clean.
    pub left_behind: bool,
    /// Failures in a row.
    pub failing: u32,
    /// The last of them was that a device is full, as a file is whose file system is.
    pub full: bool,
    /// No new job or checkpoint before.
    pub resume_at: Instant,
    pub last_checkpoint: Instant,
    /// The controller waits for the log to have something in it.
    pub asleep: bool,
    /// Wakes the controller.
    pub wake: Notify,
    /// Wakes the workers.
    pub work: Notify,
}

impl Destage {
    pub fn new(tail: u64, now: Instant) -> Self {
        Self {
            cursor: Cursor { seq: tail, record: 0 },
            clean: tail,
            jobs: 0,
            moving: HashMap::with_hasher(FixedState::with_seed(0xDE57)),
            passed_blocks: 0,
            left_behind: false,
            failing: 0,
            full: false,
            resume_at: now,
            last_checkpoint: now,
            asleep: false,
            wake: Notify::new(),
            work: Notify::new(),
        }
    }

    /// A job or checkpoint failed: pause, longer each time.
    pub fn failed(&mut self, error: DeviceError, now: Instant) {
        self.full = error == DeviceError::NoSpace;
        if now < self.resume_at {
            return; // one of several that were in flight
        }
        let pause = BACKOFF_MIN.saturating_mul(1 << self.failing.min(10)).min(BACKOFF_MAX);
        self.failing = self.failing.saturating_add(1);
        self.resume_at = now + pause;
    }
}
