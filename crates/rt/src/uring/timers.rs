//! Timers of a core.
//!
//! Owns: timers from being set until they fire or are cancelled.
//! Invariants: timers fire in the order of their times, those of the same time in the order in which they were set; a cancelled timer never
//! fires. The heap holds at most twice as many entries as there are timers (plus a little): cancelled ones are swept.
//! Never: reads the clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use slab::Slab;

use crate::{Event, Queue, TimerId};

/// Timers of one core.
pub(super) const TIMERS_MAX: usize = 1 << SLOT_BITS;
/// An id is the slot below this bit and the serial number above.
const SLOT_BITS: u32 = 20;
/// Dead entries that are not worth a pass over them.
const SWEEP_MIN: usize = 64;

struct Timer {
    id: u64,
    q: Queue,
    cookie: u64,
}

/// The timers of a core.
#[derive(Default)]
pub(super) struct Timers {
    /// Time and id; ids grow, so equal times keep their order. Entries whose timer is gone from the slab are dead.
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    timers: Slab<Timer>,
    serial: u64,
}

impl Timers {
    pub(super) fn set(&mut self, q: &Queue, cookie: u64, at_ns: u64) -> TimerId {
        let slot = self.timers.vacant_key();
        assert!(slot < TIMERS_MAX, "more than {TIMERS_MAX} timers on a core");
        self.serial += 1;
        let id = self.serial << SLOT_BITS | slot as u64;
        self.timers.insert(Timer { id, q: q.clone(), cookie });
        self.heap.push(Reverse((at_ns, id)));
        TimerId(id)
    }

    pub(super) fn cancel(&mut self, id: TimerId) {
        if !self.alive(id.0) {
            return;
        }
        self.timers.remove(slot(id.0));
        if self.heap.len() > 2 * self.timers.len() + SWEEP_MIN {
            let timers = &self.timers;
            self.heap.retain(|Reverse((_, id))| timers.get(slot(*id)).is_some_and(|t| t.id == *id));
        }
    }

    /// Fires what is due; returns how many.
    pub(super) fn fire(&mut self, now_ns: u64) -> usize {
        let mut fired = 0;
        while let Some(&Reverse((at, id))) = self.heap.peek() {
            if at > now_ns {
                break;
            }
            self.heap.pop();
            if self.alive(id) {
                let t = self.timers.remove(slot(id));
                t.q.push(t.cookie, Event::Timer(TimerId(id)));
                fired += 1;
            }
        }
        fired
    }

    /// When the next one is due.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        while let Some(&Reverse((at, id))) = self.heap.peek() {
            if self.alive(id) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    fn alive(&self, id: u64) -> bool {
        self.timers.get(slot(id)).is_some_and(|t| t.id == id)
    }
}

fn slot(id: u64) -> usize {
    (id & ((1 << SLOT_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(q: &Queue) -> Vec<u64> {
        std::iter::from_fn(|| q.pop()).map(|c| c.cookie).collect()
    }

    #[test]
    fn timers_fire_in_order_of_time_then_of_being_set() {
        let (mut t, q) = (Timers::default(), Queue::new());
        for (cookie, at) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            t.set(&q, cookie, at);
        }
        assert_eq!(t.next_ns(), Some(10));
        assert_eq!(t.fire(9), 0);
        assert_eq!(t.fire(20), 3);
        assert_eq!(cookies(&q), [2, 4, 3]);
        assert_eq!(t.next_ns(), Some(30));
    }

    #[test]
    fn a_cancelled_timer_never_fires_and_its_slot_is_used_again_under_another_id() {
        let (mut t, q) = (Timers::default(), Queue::new());
        let a = t.set(&q, 1, 10);
        t.cancel(a);
        let b = t.set(&q, 2, 20);
        assert_ne!(a, b);
        t.cancel(a);
        assert_eq!(t.next_ns(), Some(20));
        t.fire(100);
        assert_eq!(cookies(&q), [2]);
        assert_eq!(t.next_ns(), None);
    }

    #[test]
    fn cancelled_timers_do_not_pile_up() {
        let (mut t, q) = (Timers::default(), Queue::new());
        for i in 0..100_000 {
            let id = t.set(&q, i, 1_000_000 + i);
            t.cancel(id);
        }
        assert!(t.heap.len() <= SWEEP_MIN + 2);
    }
}
