//! Whether a core sleeps, so that who has something for it rings only then.
//!
//! Invariant: a core that announces its sleep and then finds nothing is rung for by whoever left something for it since.
//! Never: rings or sleeps itself. Tried by a model of the memory of weakly ordered processors (`model_tests`).

use super::memory::{AtomicBool, Ordering, fence};

/// The core sleeps or is about to; who clears this rings.
pub(crate) struct Sleepy(AtomicBool);

impl Sleepy {
    /// Of a core that is awake.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }
    /// Something was left for the core: whether it must be rung for.
    #[inline]
    pub(crate) fn must_be_rung(&self) -> bool {
        // Pairs with the fence in `announce`: either we see that the core is sleepy, or it sees what we did before this call.
        fence(Ordering::SeqCst);
        self.clear()
    }
    #[inline]
    pub(super) fn clear(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
    /// The core is about to sleep; it looks once more for what there is to do afterwards.
    pub(crate) fn announce(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
    /// It does not sleep any more.
    pub(crate) fn awake(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
