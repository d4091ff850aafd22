//! A front end in the process, for tests: what hosts ask on a core, and what they are answered.

use frontend::{Backend, Client, IoDone, IoRequest};
use rt::Rt;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Of one core.
#[derive(Default)]
pub struct Exchange {
    /// What is still to be asked.
    pub todo: VecDeque<IoRequest>,
    /// Answers that nobody has taken.
    pub done: VecDeque<IoDone>,
}

/// The hosts of a core.
pub struct Hosts(pub Rc<RefCell<Exchange>>);

impl Client for Hosts {
    fn poll(&mut self, rt: &Rt, backend: &mut dyn Backend) -> bool {
        let (mut exchange, mut busy) = (self.0.borrow_mut(), false);
        while let Some(request) = exchange.todo.pop_front() {
            backend.submit(rt, request);
            busy = true;
        }
        while let Some(done) = backend.pop() {
            exchange.done.push_back(done);
            busy = true;
        }
        busy
    }
}
