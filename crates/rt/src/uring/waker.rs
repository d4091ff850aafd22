//! What wakes a core of this machine.
//!
//! Owns: the descriptor that is rung, and whether that is needed.
//! Invariant: a core that is about to sleep says so first and looks once more, so a wake-up is never lost (`mailbox::sleepy`).

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::sys;
use crate::mailbox::sleepy::Sleepy;

/// Wakes a core from any thread; costs a fence and a load while the core is awake.
#[derive(Clone)]
pub(crate) struct Waker(Arc<WakeState>);

#[repr(align(128))]
struct WakeState {
    sleepy: Sleepy,
    eventfd: OwnedFd,
}

impl Waker {
    pub(super) fn new() -> Result<Waker, i32> {
        Ok(Waker(Arc::new(WakeState { sleepy: Sleepy::new(), eventfd: sys::eventfd()? })))
    }

    pub(crate) fn wake(&self) {
        if self.0.sleepy.must_be_rung() {
            sys::eventfd_ring(&self.0.eventfd);
        }
    }

    /// Readable once it was rung.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.0.eventfd.as_raw_fd()
    }

    pub(super) fn announce_sleep(&self) {
        self.0.sleepy.announce();
    }

    pub(super) fn awake(&self) {
        self.0.sleepy.awake();
    }
}
