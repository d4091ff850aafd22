//! Tasks of a control plane in virtual time: what a daemon does on threads that wait, written down in the same order.
//!
//! Owns: [`Tasks`], and the [`Moment`] that their futures look at.
//! Invariant: a task goes on only when it is polled, and in the order in which tasks were begun; a run is a function of what it waits for.
//! Never: lets time pass.

use dataplane::{Completion, DataPlaneError};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What time it is for some tasks, and what they wait for.
#[derive(Debug, Default)]
pub struct Moment {
    now: Cell<u64>,
    /// The first time that one of them waits for.
    due: Cell<u64>,
    /// One of them waits for something else.
    waits: Cell<bool>,
}

impl Moment {
    /// The time of the world, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now.get()
    }
    /// Something has come that a task may wait for.
    pub fn wake(&self) {
        self.waits.set(true);
    }
    /// Lets so much time pass, in nanoseconds.
    pub async fn sleep(&self, ns: u64) {
        let until = self.now() + ns;
        poll_fn(|_| self.is(self.now() >= until, until)).await;
    }
    /// Waits until something holds; looked at whenever something has come.
    pub async fn until(&self, mut holds: impl FnMut() -> bool) {
        poll_fn(|_| self.is(holds(), u64::MAX)).await;
    }
    /// The same, for so many nanoseconds at most. Whether it held.
    pub async fn until_or(&self, ns: u64, mut holds: impl FnMut() -> bool) -> bool {
        let until = self.now() + ns;
        let mut held = false;
        poll_fn(|_| {
            held = holds();
            self.is(held || self.now() >= until, until)
        })
        .await;
        held
    }
    /// The answer to a command.
    pub async fn answer<T>(&self, completion: Completion<T>) -> Result<T, DataPlaneError> {
        poll_fn(|_| match completion.try_take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.waits.set(true);
                Poll::Pending
            }
        })
        .await
    }
    fn is(&self, ready: bool, until: u64) -> Poll<()> {
        if ready {
            return Poll::Ready(());
        }
        self.due.set(self.due.get().min(until));
        Poll::Pending
    }
}

/// See the module.
#[derive(Default)]
pub struct Tasks {
    moment: Rc<Moment>,
    tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Tasks {
    /// What its futures look at.
    pub fn moment(&self) -> Rc<Moment> {
        Rc::clone(&self.moment)
    }
    /// Begins one; it goes on at the next poll.
    pub fn begin(&mut self, task: impl Future<Output = ()> + 'static) {
        self.tasks.push(Box::pin(task));
        self.moment.wake();
    }
    /// Ends all of them where they are.
    pub fn end_all(&mut self) {
        self.tasks.clear();
    }
    /// It is `now`: those go on that can.
    pub fn poll(&mut self, now: u64) {
        self.moment.now.set(now);
        if !self.moment.waits.replace(false) && now < self.moment.due.get() {
            return;
        }
        self.moment.due.set(u64::MAX);
        self.tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn tasks_go_on_when_their_time_has_come_or_something_else_has() {
        let mut tasks = Tasks::default();
        let (moment, seen, flag): (_, Rc<RefCell<Vec<&str>>>, Rc<Cell<bool>>) = (tasks.moment(), Rc::default(), Rc::default());
        let (m, s) = (Rc::clone(&moment), Rc::clone(&seen));
        tasks.begin(async move {
            m.sleep(50).await;
            s.borrow_mut().push("slept");
        });
        let (m, s, f) = (Rc::clone(&moment), Rc::clone(&seen), Rc::clone(&flag));
        tasks.begin(async move {
            assert!(!m.until_or(10, || f.get()).await);
            m.until(|| f.get()).await;
            s.borrow_mut().push("held");
        });
        for now in 0..60 {
            tasks.poll(now);
            flag.set(now >= 20);
            if now == 30 {
                assert!(seen.borrow().is_empty(), "nobody was woken");
                moment.wake();
            }
        }
        assert_eq!(*seen.borrow(), ["held", "slept"]);
        assert!(tasks.tasks.is_empty());
    }
}
