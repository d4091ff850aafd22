//! Links with other nodes: which are open, and what waits for the owner of a volume.
//!
//! Invariants: hosts hear of a path when it works, and when it does not any more; what hosts may do with a volume is answered as changed when its owner
//! serves the change.
//! Never: opens a link; the data plane does.

use super::*;
use base::{NodeId, VolumeId};
use frontend::{ControlVerb, LinkChange, Refused};
use std::collections::BTreeSet;

/// The links that are open.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<NodeId, OpenLanes>);

/// With one node.
#[derive(Debug)]
struct OpenLanes {
    open: BTreeSet<u8>,
    lanes: u8,
}

impl Links {
    /// One has opened, or is closed.
    fn note(&mut self, LinkChange { node, lane, lanes, open }: LinkChange) {
        let known = self.0.entry(node).or_insert_with(|| OpenLanes { open: BTreeSet::new(), lanes });
        known.lanes = lanes;
        if open {
            known.open.insert(lane);
        } else {
            known.open.remove(&lane);
        }
    }
    /// The nodes, by name, to which all lanes are open: whichever core a request comes to, it gets there.
    pub(super) fn open_to(&self, nodes: &[NodeRecord]) -> BTreeSet<String> {
        let is_open = |id: &NodeId| self.0.get(id).is_some_and(|known| (0..known.lanes).all(|lane| known.open.contains(&lane)));
        nodes.iter().filter(|n| n.id.as_ref().is_some_and(is_open)).map(|n| n.name.clone()).collect()
    }
}

impl Control {
    /// The data plane has another link, or one less: what is served depends on it.
    pub(super) fn link_changed(&self, change: LinkChange) {
        self.live().links.note(change);
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

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
