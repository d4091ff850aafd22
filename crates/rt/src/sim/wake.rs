//! How a simulated core learns that somebody outside of the event heap wants it.
//!
//! Never: schedules anything; the world looks.

use core::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

/// The flag of a core.
pub(crate) struct SimWake {
    pub(crate) flag: AtomicBool,
    /// Raised with each flag, shared by all cores of a world, so that it looks only when there is something.
    pub(crate) any: Arc<AtomicU64>,
}
