//! How far destaging has come.
//!
//! Owns: [`Destage`]. Never: moves anything.

use crate::buffer::log::Cursor;
use crate::index::Key;
use crate::trouble::Trouble;
use base::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rt::DeviceError;
use rt::sync::Notify;

/// After an error on a capacity device: the first pause and the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// What destaging knows.
pub(crate) struct Destage {
    /// Everything before it was looked at in this round.
    pub(super) cursor: Cursor,
    /// Everything before this segment is clean.
    pub(super) clean: u64,
    /// Jobs in flight.
    pub(super) jobs: u32,
    /// Blocks that a job in flight moves, and from which block of the slice.
    pub(super) moving: HashMap<Key, u32, FixedState>,
    /// Blocks of the log that the cursor has passed since the pacer last heard of them.
    pub(super) passed_blocks: u64,
    /// The cursor has passed something that was not moved: once more from the first segment that is not clean.
    pub(super) left_behind: bool,
    /// Failures in a row.
    pub(super) failing: u32,
    /// The last of them was that a device is full, as a file is whose file system is.
    pub(super) full: bool,
    /// No new job or checkpoint before.
    pub(super) resume_at: Instant,
    pub(super) last_checkpoint: Instant,
    /// The controller waits for the log to have something in it.
    pub(super) asleep: bool,
    /// Wakes the controller.
    pub(super) wake: Notify,
    /// Wakes the workers.
    pub(super) work: Notify,
    pub(super) trouble: Trouble,
    shard: u8,
}

impl Destage {
    /// Of shard `shard`, whose log begins with segment `tail`.
    pub fn new(shard: u8, tail: u64, trouble: Trouble, now: Instant) -> Self {
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
            trouble,
            shard,
        }
    }

    /// Everything before it was looked at in this round.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }
    /// Everything before this segment is clean.
    pub fn clean(&self) -> u64 {
        self.clean
    }
    /// Jobs in flight.
    pub fn jobs(&self) -> u32 {
        self.jobs
    }
    /// Blocks that a job in flight moves, and from which block of the slice.
    pub fn moving(&self) -> &HashMap<Key, u32, FixedState> {
        &self.moving
    }
    /// Failures in a row.
    pub fn failing(&self) -> u32 {
        self.failing
    }
    /// There may be something for the controller to do.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
    /// What [`Destage::wake`] notifies.
    pub fn waker(&self) -> Notify {
        self.wake.clone()
    }
    /// The log has something in it.
    #[inline]
    pub fn log_grows(&mut self) {
        if core::mem::take(&mut self.asleep) {
            self.wake();
        }
    }

    /// A job has come to its end.
    pub(super) fn works(&mut self) {
        if core::mem::take(&mut self.failing) > 0 {
            self.trouble.ended(self.shard);
        }
    }
    /// A job or checkpoint failed: a line in the daemon's log, and a pause, longer each time.
    pub(super) fn failed(&mut self, error: DeviceError, now: Instant) {
        self.trouble.failed(self.shard, &error, now);
        self.full = error == DeviceError::NoSpace;
        if now < self.resume_at {
            return; // one of several that were in flight
        }
        let pause = BACKOFF_MIN.saturating_mul(1 << self.failing.min(10)).min(BACKOFF_MAX);
        self.failing = self.failing.saturating_add(1);
        self.resume_at = now + pause;
    }
}
