//! Links with other nodes: which are open, and what waits for the owner of a volume.
//!
//! Invariants: hosts hear of a path when it works, and when it does not any more; what hosts may do with a volume is answered as changed when its owner
//! serves the change.
//! Never: opens a link; the data plane does.

use super::*;
use base::VolumeId;
use frontend::{ControlVerb, LinkChange, Refused};

/// The port that nodes take links at is so far behind the one that they listen for other nodes at: etcd has the two between.
const LINK_PORT_AFTER: u16 = 3;

impl Control {
    /// Takes links of other nodes, beside the address `cluster` where this node listens for them, and writes down where.
    pub fn listen_for_links(&self, cluster: SocketAddr) -> Result<SocketAddr, Problem> {
        let usual = cluster.port().checked_add(LINK_PORT_AFTER).map(|port| SocketAddr::new(cluster.ip(), port));
        let any = SocketAddr::new(cluster.ip(), 0);
        let bound = match usual.map(|at| self.plane.listen_for_nodes(at)) {
            Some(Ok(bound)) => bound,
            why => {
                let bound = self.plane.listen_for_nodes(any)?;
                let error = why.and_then(Result::err).map(|e| e.to_string()).unwrap_or_default();
                tracing::warn!(%error, "links of other nodes are not taken at the usual port; a firewall has to let them through to {bound}");
                bound
            }
        };
        let cores = u8::try_from(self.identity.cores).unwrap_or(u8::MAX);
        let decide = || {
            let mut node: Versioned<NodeRecord> = self.again(&self.identity.node)?;
            let now = Some(LinksRecord { addr: bound, cores });
            let changed = node.links != now;
            node.links = now;
            Ok((if changed { Transaction::new().update(&node) } else { Transaction::new() }, ()))
        };
        let (at, ()) = self.decided(decide)?;
        self.serve(at)?;
        Ok(bound)
    }

    /// The data plane has another link, or one less: what is served depends on it. While the directory does not answer, what was last seen of it does.
    pub(super) fn link_changed(&self, change: LinkChange) {
        let LinkChange { node, lane, lanes, open } = change;
        self.live().links.note(node, lane, lanes, open);
        self.serves_as_seen();
    }
    /// An object that is this node's by the records is not served here, or is.
    pub(super) fn away_changed(&self, object: base::ObjectId, away: bool) {
        if away {
            tracing::warn!(%object, "this node cannot go on as its owner: hosts are to use other paths");
            self.live().away.insert(object);
        } else {
            tracing::info!(%object, "this node serves it again, or does not own it any more");
            self.live().away.remove(&object);
        }
        self.serves_as_seen();
    }
    /// Serves by what was last seen of the directory: who is cut off from other nodes may not reach that either, and hosts are not to wait for it.
    fn serves_as_seen(&self) {
        if self.is_ending() {
            return;
        }
        let seen = self.followed().as_of().is_some();
        let request = if seen { Request::last_seen() } else { Request::reading().0 };
        if let Err(problem) = request.carry(|| self.apply()) {
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
