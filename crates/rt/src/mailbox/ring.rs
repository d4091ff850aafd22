//! A ring between two cores: one puts messages in, the other takes them out, in order.
//!
//! Invariants: one producer, one consumer; a slot is filled from the store of `tail` that covers it until the store of `head` that passes it.
//! Never: waits, allocates after it was made. Tried by a model of the memory of weakly ordered processors (`model_tests`).

use super::memory::{AtomicUsize, Ordering, UnsafeCell};
use core::{cell::Cell, mem::MaybeUninit};
use std::sync::Arc;

/// Alone on its pair of cache lines (the prefetcher of x86-64 takes two at a time).
#[repr(align(128))]
struct Padded<T>(T);

struct Ring<M> {
    /// Next to be taken; written by the consumer.
    head: Padded<AtomicUsize>,
    /// Next to be filled; written by the producer.
    tail: Padded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<M>>]>,
}

// SAFETY: a slot is touched by the producer while it is outside of head..tail and by the consumer while it is inside; the
// acquire/release pairs on head and tail hand it over. There is one producer and one consumer (`Producer`, `Consumer` are not Clone).
unsafe impl<M: Send> Send for Ring<M> {}
// SAFETY: as above.
unsafe impl<M: Send> Sync for Ring<M> {}

impl<M> Ring<M> {
    fn slot(&self, at: usize) -> &UnsafeCell<MaybeUninit<M>> {
        &self.slots[at & (self.slots.len() - 1)]
    }
}

impl<M> Drop for Ring<M> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed));
        while head != tail {
            // SAFETY: slots in head..tail are filled, and both ends are gone.
            self.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// The sending end of a ring. The cached copies spare the other side's cache line.
pub(super) struct Producer<M> {
    ring: Arc<Ring<M>>,
    tail: Cell<usize>,
    head_seen: Cell<usize>,
}

/// The receiving end of a ring.
pub(super) struct Consumer<M> {
    ring: Arc<Ring<M>>,
    head: Cell<usize>,
    tail_seen: Cell<usize>,
}

pub(super) fn ring<M>(depth: usize) -> (Producer<M>, Consumer<M>) {
    let slots = (0..depth).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring { head: Padded(AtomicUsize::new(0)), tail: Padded(AtomicUsize::new(0)), slots });
    let consumer = Consumer { ring: Arc::clone(&ring), head: Cell::new(0), tail_seen: Cell::new(0) };
    (Producer { ring, tail: Cell::new(0), head_seen: Cell::new(0) }, consumer)
}

impl<M> Producer<M> {
    #[inline]
    pub(super) fn push(&self, m: M) -> Result<(), M> {
        let tail = self.tail.get();
        if tail.wrapping_sub(self.head_seen.get()) == self.ring.slots.len() {
            self.head_seen.set(self.ring.head.0.load(Ordering::Acquire));
            if tail.wrapping_sub(self.head_seen.get()) == self.ring.slots.len() {
                return Err(m);
            }
        }
        // SAFETY: the slot at `tail` is outside of head..tail, so it is empty and the producer's.
        self.ring.slot(tail).with_mut(|slot| unsafe {
            (*slot).write(m);
        });
        self.tail.set(tail.wrapping_add(1));
        self.ring.tail.0.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }
}

impl<M> Consumer<M> {
    #[inline]
    pub(super) fn pop(&self) -> Option<M> {
        let head = self.head.get();
        if head == self.tail_seen.get() {
            self.tail_seen.set(self.ring.tail.0.load(Ordering::Acquire));
            if head == self.tail_seen.get() {
                return None;
            }
        }
        // SAFETY: the slot at `head` is inside of head..tail, so it is filled and the consumer's; it leaves by the store below.
        let m = self.ring.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head.set(head.wrapping_add(1));
        self.ring.head.0.store(head.wrapping_add(1), Ordering::Release);
        Some(m)
    }
}
