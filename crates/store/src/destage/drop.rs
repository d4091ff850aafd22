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
    while state.borrow().has_busy_chunks(component) && !hooks::seeded(SeededFault::DropNotAwaited) {
        rt.sleep(PAUSE).await;
    }
    state.borrow().table.borrow_mut().drop_component(component);
    loop {
        let more = state.borrow().table.borrow_mut().reap(hooks::tiny(STEP, 3));
        if !more {
            return;
        }
        rt.yield_now().await;
    }
}

impl State {
    /// Whether a write or a destage of the component is under way.
    fn has_busy_chunks(&self, component: ComponentNo) -> bool {
        let table = self.table.borrow();
        self.busy.iter().any(|phys| table.get(phys).component() == Some(component))
    }
}
