//! What a device and a connection of the crate hold of the world that they belong to.
//!
//! Never: holds anything of its state.

use crate::mapping::Mapping;
use std::sync::{Arc, Mutex, PoisonError};

/// Which disk of which world a [`Device`](crate::Device) is. (A `Device::memory` works in a world too, but knows no faults and survives everything.)
pub(crate) struct SimDeviceRef {
    pub(crate) world: u64,
    pub(crate) index: usize,
}

/// A descriptor of something of a world.
#[derive(Clone)]
pub(crate) struct SimDescriptor {
    pub(super) world: u64,
    pub(crate) what: SimPassed,
}

/// What a program of a world passes to another.
#[derive(Clone)]
pub(crate) enum SimPassed {
    /// An event, which stays as long as the world.
    Event(u64),
    Memory(Arc<Mapping>),
}

/// A connection between two cores of a simulated host.
pub(crate) struct SimSocket {
    pub(super) world: u64,
    pub(super) id: u64,
    /// Where a drop is noted, so that the world closes it; `None` once a core has it again.
    pub(super) dropped: Option<Arc<Mutex<Vec<u64>>>>,
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        if let Some(list) = &self.dropped {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
        }
    }
}
