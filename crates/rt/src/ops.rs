//! Operations that tasks await: a slot for each, filled from the core's own completion queue.
//!
//! Invariant: a slot lives until its completion has come, even when the task that waited is gone; then what the completion
//! carries is dropped, not before (the buffer belonged to the driver).

use crate::{Event, Queue};
use core::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use slab::Slab;
use std::rc::Rc;

enum OpState {
    Waiting(Option<Waker>),
    Done(Event),
    Abandoned,
}

struct OpSlot {
    /// Of the operation: a completion that comes for an earlier user of the slot (a timer that fired and was cancelled) is dropped.
    serial: u64,
    state: OpState,
}

/// A cookie is the slot's index below this bit and the serial number above.
const KEY_BITS: u32 = 20;

/// The operations of a core's tasks.
#[derive(Clone)]
pub(crate) struct Ops(Rc<Inner>);

struct Inner {
    queue: Queue,
    slots: RefCell<Slab<OpSlot>>,
    serial: Cell<u64>,
}

impl Ops {
    pub(crate) fn new() -> Ops {
        Ops(Rc::new(Inner { queue: Queue::new(), slots: RefCell::default(), serial: Cell::new(0) }))
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// A slot for an operation that is about to be submitted with [`Op::cookie`] to [`Ops::queue`].
    pub(crate) fn begin(&self) -> Op {
        let serial = self.0.serial.get() + 1;
        self.0.serial.set(serial);
        let key = self.0.slots.borrow_mut().insert(OpSlot { serial, state: OpState::Waiting(None) });
        assert!(key < 1 << KEY_BITS, "too many operations of tasks");
        Op { ops: self.clone(), key, serial, taken: false, completes: true }
    }

    /// Hands completions to those who wait.
    pub(crate) fn dispatch(&self) {
        while let Some(done) = self.0.queue.pop() {
            let mut slots = self.0.slots.borrow_mut();
            let (key, serial) = ((done.cookie & ((1 << KEY_BITS) - 1)) as usize, done.cookie >> KEY_BITS);
            let Some(slot) = slots.get_mut(key).filter(|s| s.serial == serial) else { continue };
            match &mut slot.state {
                OpState::Waiting(waker) => {
                    let waker = waker.take();
                    slot.state = OpState::Done(done.event);
                    drop(slots);
                    if let Some(w) = waker {
                        w.wake();
                    }
                }
                OpState::Abandoned => {
                    slots.remove(key);
                }
                OpState::Done(_) => unreachable!("two completions for one operation"),
            }
        }
    }

    pub(crate) fn clear(&self) {
        self.0.queue.clear();
        let slots = core::mem::take(&mut *self.0.slots.borrow_mut());
        drop(slots);
    }
}

/// Waits for one operation.
pub(crate) struct Op {
    ops: Ops,
    key: usize,
    serial: u64,
    taken: bool,
    completes: bool,
}

impl Op {
    pub(crate) fn cookie(&self) -> u64 {
        self.serial << KEY_BITS | self.key as u64
    }

    /// Says that nothing will come once this was dropped (a timer that is cancelled then).
    pub(crate) fn ends_when_dropped(mut self) -> Op {
        self.completes = false;
        self
    }
}

impl Future for Op {
    type Output = Event;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event> {
        let ops = self.ops.clone();
        let mut slots = ops.0.slots.borrow_mut();
        if let OpState::Waiting(waker) = &mut slots[self.key].state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.taken = true;
        match slots.remove(self.key).state {
            OpState::Done(event) => Poll::Ready(event),
            OpState::Waiting(_) | OpState::Abandoned => unreachable!("polled after it was dropped"),
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut slots = self.ops.0.slots.borrow_mut();
        let Some(slot) = slots.get_mut(self.key).filter(|s| s.serial == self.serial) else { return };
        let dropped = match &slot.state {
            OpState::Waiting(_) if self.completes => core::mem::replace(&mut slot.state, OpState::Abandoned),
            _ => slots.remove(self.key).state,
        };
        drop(slots);
        drop(dropped);
    }
}
