//! Mailboxes: rings between cores ([`mesh`]) and an inbox for control threads ([`inbox`]).
//!
//! Owns: messages between being sent and being received.
//! Invariants: a ring has one producer and one consumer, is bounded and keeps order; a message is received once; a sender that finds
//! the ring full gets its message back; after `flush_wakes` the receiver will look.
//! Never: blocks, allocates after it was made, takes a lock (the mesh; an inbox takes one when it is not empty).

mod memory;
mod ring;
pub(crate) mod sleepy;

use crate::{CoreWaker, Rt};
use core::{
    cell::Cell,
    fmt,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use ring::{Consumer, Producer, ring};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// How many cores a mesh can join.
pub const MESH_CORES_MAX: usize = 64;
/// How many messages wait in an inbox at most.
pub const INBOX_DEPTH: usize = 1024;

/// One core's end of a mesh.
pub struct MeshEnd<M> {
    core: usize,
    to: Box<[Producer<M>]>,
    from: Box<[Consumer<M>]>,
    /// Where the next receive starts to look.
    next: Cell<usize>,
    /// Cores that got something since the last `flush_wakes`.
    dirty: Cell<u64>,
}

/// Rings from every core to every core (itself too), each for `depth` messages (rounded up to a power of two). End `i` is for core `i`.
///
/// # Panics
/// When `cores` is 0 or above [`MESH_CORES_MAX`].
pub fn mesh<M: Send>(cores: usize, depth: usize) -> Vec<MeshEnd<M>> {
    assert!((1..=MESH_CORES_MAX).contains(&cores), "a mesh of {cores} cores");
    let depth = depth.max(1).next_power_of_two();
    let mut to: Vec<Vec<Producer<M>>> = (0..cores).map(|_| Vec::with_capacity(cores)).collect();
    let mut from: Vec<Vec<Consumer<M>>> = (0..cores).map(|_| Vec::with_capacity(cores)).collect();
    for sender in &mut to {
        for receiver in &mut from {
            let (p, c) = ring(depth);
            sender.push(p);
            receiver.push(c);
        }
    }
    let ends = to.into_iter().zip(from).enumerate();
    ends.map(|(core, (to, from))| MeshEnd { core, to: to.into(), from: from.into(), next: Cell::new(0), dirty: Cell::new(0) }).collect()
}

impl<M: Send> MeshEnd<M> {
    /// Whose end this is.
    pub fn core(&self) -> usize {
        self.core
    }

    /// How many cores the mesh joins.
    pub fn cores(&self) -> usize {
        self.to.len()
    }

    /// Puts a message into the ring to core `to`; gives it back when that is full. The receiver is woken by
    /// [`MeshEnd::flush_wakes`].
    #[inline]
    pub fn send(&self, _rt: &Rt, to: usize, m: M) -> Result<(), M> {
        self.to[to].push(m)?;
        self.dirty.set(self.dirty.get() | 1 << to);
        Ok(())
    }

    /// The next message from any core, by turns.
    #[inline]
    pub fn recv(&self) -> Option<M> {
        let cores = self.from.len();
        let mut at = self.next.get();
        for _ in 0..cores {
            let got = self.from[at].pop();
            at = if at + 1 == cores { 0 } else { at + 1 };
            if got.is_some() {
                self.next.set(at);
                return got;
            }
        }
        None
    }

    /// Wakes the cores that were sent something since the last call. Call it once a loop, after the sends.
    #[inline]
    pub fn flush_wakes(&self, rt: &Rt) {
        let mut dirty = self.dirty.replace(0);
        while dirty != 0 {
            let core = dirty.trailing_zeros() as usize;
            dirty &= dirty - 1;
            rt.wake(core);
        }
    }
}

impl<M> fmt::Debug for MeshEnd<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeshEnd(core {} of {})", self.core, self.to.len())
    }
}

struct InboxState<M> {
    list: Mutex<VecDeque<M>>,
    /// How many are in the list, so that an empty inbox costs a core one load.
    len: AtomicUsize,
    closed: AtomicBool,
    waker: OnceLock<CoreWaker>,
}

/// Sends to a core from any thread. Clones send to the same inbox.
pub struct Inlet<M>(Arc<InboxState<M>>);

/// The core's end of an inbox.
pub struct Inbox<M>(Arc<InboxState<M>>);

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum InletError<M> {
    /// The core is behind: try again later.
    #[error("the core's inbox is full")]
    Full(M),
    /// The core has ended.
    #[error("the core has ended")]
    Closed(M),
}

/// A mailbox for one core, at most [`INBOX_DEPTH`] messages.
pub fn inbox<M: Send>() -> (Inlet<M>, Inbox<M>) {
    let state =
        InboxState { list: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0), closed: AtomicBool::new(false), waker: OnceLock::new() };
    let state = Arc::new(state);
    (Inlet(Arc::clone(&state)), Inbox(state))
}

impl<M> Clone for Inlet<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Send> Inlet<M> {
    /// Sends and wakes the core.
    pub fn send(&self, m: M) -> Result<(), InletError<M>> {
        let mut list = self.0.list.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.closed.load(Ordering::Acquire) {
            return Err(InletError::Closed(m));
        }
        if list.len() >= INBOX_DEPTH {
            return Err(InletError::Full(m));
        }
        list.push_back(m);
        self.0.len.store(list.len(), Ordering::Release);
        drop(list);
        if let Some(w) = self.0.waker.get() {
            w.wake();
        }
        Ok(())
    }
}

impl<M: Send> Inbox<M> {
    /// Makes this core the one that is woken. The first call counts.
    pub fn bind(&self, rt: &Rt) {
        if self.0.waker.set(rt.waker()).is_ok() && self.0.len.load(Ordering::Acquire) > 0 {
            rt.waker().wake();
        }
    }

    /// The oldest message.
    #[inline]
    pub fn try_recv(&self) -> Option<M> {
        if self.0.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = self.0.list.lock().unwrap_or_else(PoisonError::into_inner);
        let m = list.pop_front();
        self.0.len.store(list.len(), Ordering::Release);
        m
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        let mut list = self.0.list.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.closed.store(true, Ordering::Release);
        let rest = core::mem::take(&mut *list);
        self.0.len.store(0, Ordering::Release);
        drop(list);
        drop(rest);
    }
}

impl<M> fmt::Debug for Inlet<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inlet")
    }
}

impl<M> fmt::Debug for Inbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

#[cfg(test)]
#[path = "mailbox/model_tests.rs"]
mod model_tests;
#[cfg(test)]
#[path = "mailbox_tests.rs"]
mod tests;
