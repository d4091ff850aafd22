//! Completions of operations that end at once.
//!
//! Owns: what waits to be pushed.
//! Invariant: it is pushed at the next turn of the loop, in order, never from within the call that submits.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::{Event, Queue};

/// Completions that are pushed at the next turn of the loop: of operations that end at once.
#[derive(Default)]
pub(super) struct Deferred(RefCell<VecDeque<(Queue, u64, Event)>>);

impl Deferred {
    pub(super) fn push(&self, q: &Queue, cookie: u64, event: Event) {
        self.0.borrow_mut().push_back((q.clone(), cookie, event));
    }

    pub(super) fn deliver(&self) -> usize {
        let mut list = self.0.borrow_mut();
        let n = list.len();
        for (q, cookie, event) in list.drain(..) {
            q.push(cookie, event);
        }
        n
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}
