//! Primitives between the tasks of one core: [`Notify`], [`oneshot`]. Not `Send`.

use core::{
    cell::{Cell, RefCell},
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{collections::VecDeque, rc::Rc};

/// Wakes tasks that wait for something to change. A clone is the same one.
#[derive(Clone, Default)]
pub struct Notify(Rc<NotifyState>);

#[derive(Default)]
struct NotifyState {
    permit: Cell<bool>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Default)]
struct Waiter {
    notified: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Waiter {
    fn notify(&self) {
        self.notified.set(true);
        let waker = self.waker.borrow_mut().take();
        if let Some(w) = waker {
            w.wake();
        }
    }
}

impl Notify {
    /// With nobody waiting.
    pub fn new() -> Notify {
        Notify::default()
    }
    /// Lets the one that has waited longest go on; when nobody waits, the next to wait does not. (Two such calls count once.)
    pub fn notify_one(&self) {
        let first = self.0.waiting.borrow_mut().pop_front();
        match first {
            Some(w) => w.notify(),
            None => self.0.permit.set(true),
        }
    }
    /// Lets all that wait now go on.
    pub fn notify_all(&self) {
        let all = core::mem::take(&mut *self.0.waiting.borrow_mut());
        for w in all {
            w.notify();
        }
    }
    /// Waits for a notification. It waits from its first poll on.
    pub fn notified(&self) -> Notified {
        Notified { notify: self.clone(), waiter: None }
    }
}

/// See [`Notify::notified`].
pub struct Notified {
    notify: Notify,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Notified {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(waiter) = &self.waiter {
            if waiter.notified.get() {
                self.waiter = None;
                return Poll::Ready(());
            }
            *waiter.waker.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if self.notify.0.permit.replace(false) {
            return Poll::Ready(());
        }
        let waiter = Rc::new(Waiter { notified: Cell::new(false), waker: RefCell::new(Some(cx.waker().clone())) });
        self.notify.0.waiting.borrow_mut().push_back(Rc::clone(&waiter));
        self.waiter = Some(waiter);
        Poll::Pending
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.notified.get() {
            self.notify.notify_one(); // the one who comes next must not miss it
        } else {
            self.notify.0.waiting.borrow_mut().retain(|w| !Rc::ptr_eq(w, &waiter));
        }
    }
}

/// One value from one task to another.
pub fn oneshot<T>() -> (OneSender<T>, OneReceiver<T>) {
    let state = Rc::new(OneState { value: RefCell::new(None), waker: RefCell::new(None), closed: Cell::new(false) });
    (OneSender(Rc::clone(&state)), OneReceiver(state))
}

struct OneState<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    closed: Cell<bool>,
}

/// Sends the value.
pub struct OneSender<T>(Rc<OneState<T>>);
/// Awaits the value.
pub struct OneReceiver<T>(Rc<OneState<T>>);

/// The sender was dropped without sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender is gone")]
pub struct SenderGone;

impl<T> OneSender<T> {
    /// Sends; gives the value back when nobody will take it.
    pub fn send(self, value: T) -> Result<(), T> {
        if self.0.closed.get() {
            return Err(value);
        }
        *self.0.value.borrow_mut() = Some(value);
        Ok(()) // dropping self wakes the receiver
    }
    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }
}

impl<T> Drop for OneSender<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
        let waker = self.0.waker.borrow_mut().take();
        if let Some(w) = waker {
            w.wake();
        }
    }
}

impl<T> Future for OneReceiver<T> {
    type Output = Result<T, SenderGone>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let value = self.0.value.borrow_mut().take();
        match value {
            Some(v) => Poll::Ready(Ok(v)),
            None if self.0.closed.get() => Poll::Ready(Err(SenderGone)),
            None => {
                *self.0.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for OneReceiver<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notify({} waiting)", self.0.waiting.borrow().len())
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
