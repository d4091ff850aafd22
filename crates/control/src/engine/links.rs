//! Links with other nodes: which are open, and what waits for the owner of a volume.
//!
//! Invariants: hosts hear of a path when it works, and when it does not any more; what hosts may do with a volume is answered as changed when its owner
//! serves the change.
//! Never: opens a link; the data plane does.

use super::*;
use base::VolumeId;
use frontend::{ControlVerb, LinkChange, Refused};

impl Control {
    /// The data plane has another link, or one less: what is served depends on it.
    pub(super) fn link_changed(&self, change: LinkChange) {
        let LinkChange { node, lane, lanes, open } = change;
        self.live().links.note(node, lane, lanes, open);
        if let Err(problem) = self.apply() {
            tracing::error!(error = %problem.message, "not everything could be served");
        }
    }

    /// A change that a host has asked for is served here; it may be answered when it is by the owner of its volume, too.
    pub(super) fn confirm_asked(&self, what: &ControlVerb) -> Result<(), Refused> {
        let volumes = match what {
            ControlVerb::WriteProtect { volume, .. } | ControlVerb::Reservation { volume, .. } => std::slice::from_ref(volume),
            ControlVerb::Persist { volumes, .. } => volumes,
            _ => return Ok(()),
        };
        for volume in volumes {
            self.plane.confirm(*volume).map_err(|error| {
                tracing::warn!(%volume, %error, "a change is durable, and its owner does not say that it serves it");
                Refused::Unserved
            })?;
        }
        Ok(())
    }

    /// The same of a change that an administrator has made.
    pub(super) fn confirm(&self, volume: VolumeId) -> Result<(), Problem> {
        Ok(self.plane.confirm(volume)?)
    }
}
