//! The lock of what acts on the devices of this node, which lets go while something is done elsewhere.
//!
//! Owns: [`DeviceLock`]. Invariants: one thread has it at a time; a thread that lets go while it waits has it again afterwards.
//! Never: is taken twice by one thread.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// The lock.
#[derive(Default)]
pub(super) struct DeviceLock {
    holder: Mutex<Option<ThreadId>>,
    free: Condvar,
}

/// While it is there, this thread has the lock.
pub(super) struct HeldDevices<'a>(&'a DeviceLock);

impl DeviceLock {
    /// Waits for its turn.
    pub(super) fn lock(&self) -> HeldDevices<'_> {
        let mut holder = self.holder();
        assert!(*holder != Some(thread::current().id()), "this thread has the lock already");
        while holder.is_some() {
            holder = self.free.wait(holder).unwrap_or_else(|e| e.into_inner());
        }
        *holder = Some(thread::current().id());
        HeldDevices(self)
    }

    /// Lets others act on the devices of this node while `wait` runs, which does not, if this thread has the lock.
    pub(super) fn let_go_while<T>(&self, wait: impl FnOnce() -> T) -> T {
        if !self.give() {
            return wait();
        }
        let value = wait();
        core::mem::forget(self.lock());
        value
    }

    /// Whether this thread had it.
    fn give(&self) -> bool {
        let mut holder = self.holder();
        let mine = *holder == Some(thread::current().id());
        if mine {
            *holder = None;
            self.free.notify_one();
        }
        mine
    }
    fn holder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.holder.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for HeldDevices<'_> {
    fn drop(&mut self) {
        // One that panicked while it had let go does not have it.
        self.0.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    #[test]
    fn one_at_a_time_and_who_waits_elsewhere_lets_others_on() {
        let lock = Arc::new(DeviceLock::default());
        let (began, beginning) = mpsc::channel();
        let (done, doing) = mpsc::channel();
        let held = lock.lock();
        let other = std::thread::spawn({
            let lock = lock.clone();
            move || {
                began.send(()).unwrap();
                let _held = lock.lock();
                done.send(()).unwrap();
            }
        });
        beginning.recv().unwrap();
        assert!(doing.recv_timeout(std::time::Duration::from_millis(50)).is_err(), "it waits");
        lock.let_go_while(|| doing.recv().unwrap());
        assert!(lock.holder().is_some(), "and this thread has it again");
        drop(held);
        assert!(lock.holder().is_none());
        other.join().unwrap();
        assert_eq!(lock.let_go_while(|| 7), 7, "who does not have it gets nothing");
        assert!(lock.holder().is_none());
    }
}
