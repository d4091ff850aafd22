//! A descriptor that another program passed, or that is to be passed, whichever driver is behind.
//!
//! Owns: the descriptor; dropped, it is closed.
//! Invariant: it belongs to no core.
//! Never: says what it is a descriptor of: whoever uses it finds out, and refuses what it is not.

use crate::NetError;
use crate::sim::refs::SimDescriptor;
use std::os::fd::OwnedFd;

/// How many descriptors one message carries (a vhost-user front end passes eight regions of memory at most). One with more is an error.
pub const DESCRIPTORS_MAX: usize = 16;

/// A descriptor of something of another program. Dropped, it is closed.
pub struct Descriptor(pub(crate) DescriptorInner);

pub(crate) enum DescriptorInner {
    Os(OwnedFd),
    Sim(SimDescriptor),
}

impl Descriptor {
    /// Another descriptor of the same thing.
    pub fn try_clone(&self) -> Result<Descriptor, NetError> {
        Ok(Descriptor(match &self.0 {
            DescriptorInner::Os(fd) => {
                let copy = fd.try_clone().map_err(|e| NetError::from_errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
                DescriptorInner::Os(copy)
            }
            DescriptorInner::Sim(sim) => DescriptorInner::Sim(sim.clone()),
        }))
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Descriptor {
        Descriptor(DescriptorInner::Os(fd))
    }
}

impl core::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            DescriptorInner::Os(fd) => write!(f, "Descriptor({fd:?})"),
            DescriptorInner::Sim(_) => f.write_str("Descriptor(simulated)"),
        }
    }
}
