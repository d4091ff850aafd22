//! Counters of a core, readable from any thread.
//!
//! Invariant: each counter has one writer (its core), so adding is a plain load and store; readers see a value that was true a moment ago.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread raises and all may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owner calls this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a core did since it started. Times are nanoseconds, sizes bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CoreStats {
    /// Turns of the loop.
    pub loops: Counter,
    /// Time in turns that did something.
    pub busy_ns: Counter,
    /// Time asleep in the kernel.
    pub sleep_ns: Counter,
    /// System calls made.
    pub syscalls: Counter,
    /// Receives that ended.
    pub recv_calls: Counter,
    /// Bytes they brought.
    pub recv_bytes: Counter,
    /// Send calls.
    pub send_calls: Counter,
    /// Bytes they took.
    pub send_bytes: Counter,
    /// Connections that could not be accepted (out of descriptors, of memory, or of slots).
    pub accept_errors: Counter,
    /// Device operations that ended.
    pub device_ops: Counter,
    /// Bytes read and written by them.
    pub device_bytes: Counter,
    /// Times a task was polled.
    pub task_polls: Counter,
}
