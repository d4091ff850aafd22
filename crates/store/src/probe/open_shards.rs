//! The shards that are open on this thread.
//!
//! Owns: their list. Never: keeps a shard open.

use crate::shard::state::State;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

thread_local! {
    static OPEN: RefCell<Vec<Weak<RefCell<State>>>> = const { RefCell::new(Vec::new()) };
}

/// A shard was opened.
pub(crate) fn opened(state: &Rc<RefCell<State>>) {
    OPEN.with_borrow_mut(|open| {
        open.retain(|s| s.strong_count() > 0);
        open.push(Rc::downgrade(state));
    });
}

/// Looks at each.
pub(super) fn each(mut f: impl FnMut(&State)) {
    OPEN.with_borrow(|open| open.iter().filter_map(Weak::upgrade).for_each(|state| f(&state.borrow())));
}
