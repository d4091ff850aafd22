//! The end of a component: its chunks become free, step by step, once nothing of it is under way.
//!
//! Its entries in the index go when destaging comes by or their segment is released; its number is never used again (I5).

use crate::ComponentNo;
use crate::shard::state::State;
use base::{
    Duration,
    hooks::{self, SeededFault},
};
use core::cell::RefCell;
use rt::{Rt, TaskId};
use std::rc::Rc;

/// Chunks looked at in one go.
const STEP: usize = 1024;
/// How often to look whether anything is still under way.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) fn spawn(rt: &Rt, state: &Rc<RefCell<State>>, component: ComponentNo) -> TaskId {
    rt.spawn(run(rt.clone(), Rc::clone(state), component))
}

async fn run(rt: Rt, state: Rc<RefCell<State>>, component: ComponentNo) {
    while state.borrow().space.is_busy_with(component) && !hooks::seeded(SeededFault::DropNotAwaited) {
        rt.sleep(PAUSE).await;
    }
    state.borrow_mut().space.drop_component(component);
    loop {
        let more = state.borrow_mut().space.reap(hooks::tiny(STEP, 3));
        if !more {
            return;
        }
        rt.yield_now().await;
    }
}
