//! Wakes a core, whichever driver is behind.
//!
//! Never: costs a core that is awake more than an atomic load or two.

use crate::sim::wake::SimWake;
use crate::uring::Waker;
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// Wakes one core, from any thread.
#[derive(Clone)]
pub struct CoreWaker(pub(crate) WakerInner);

#[derive(Clone)]
pub(crate) enum WakerInner {
    Uring(Waker),
    Sim(Arc<SimWake>),
}

impl CoreWaker {
    /// Makes the core run its loop once more, soon.
    #[inline]
    pub fn wake(&self) {
        match &self.0 {
            WakerInner::Uring(w) => w.wake(),
            WakerInner::Sim(w) => {
                if !w.flag.swap(true, Ordering::AcqRel) {
                    w.any.fetch_add(1, Ordering::Release);
                }
            }
        }
    }
}
