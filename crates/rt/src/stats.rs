//! Counters of a core, readable from any thread.
//!
//! Invariant: each counter has one writer (its core), so adding is a plain load and store; readers see a value that was true a moment ago.

use base::counters::CounterValue;
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

impl CounterValue for Counter {
    fn value(&self) -> u64 {
        self.get()
    }
}

base::counters! {
    /// What a core did since it started. Times are nanoseconds, sizes bytes.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub struct CoreStats {
        /// Turns of the loop of a core.
        pub loops: Counter = counter("loops"),
        /// Time in turns that did something.
        pub busy_ns: Counter = counter("busy_nanoseconds"),
        /// Time asleep in the kernel.
        pub sleep_ns: Counter = counter("sleep_nanoseconds"),
        /// System calls made.
        pub syscalls: Counter = counter("syscalls"),
        /// Receives that ended.
        pub recv_calls: Counter = counter("receive_calls"),
        /// Bytes received from sockets.
        pub recv_bytes: Counter = counter("receive_bytes"),
        /// Send calls.
        pub send_calls: Counter = counter("send_calls"),
        /// Bytes sent to sockets.
        pub send_bytes: Counter = counter("send_bytes"),
        /// Connections that could not be accepted (out of descriptors, of memory, or of slots).
        pub accept_errors: Counter,
        /// Device operations that ended.
        pub device_ops: Counter = counter("device_operations"),
        /// Bytes read from devices and written to them.
        pub device_bytes: Counter = counter("device_bytes"),
        /// Times a task was polled.
        pub task_polls: Counter = counter("task_polls"),
    }
}
