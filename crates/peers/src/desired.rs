//! Who the peers are, as the control plane says it.

use base::{ClusterId, NodeId};
use format::peer::Incarnation;
use frontend::{UnknownVolume, Volumes};
use std::net::SocketAddr;

/// This node, as its peers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnNode {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its identity.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
}

/// Another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerDesired {
    /// Its identity.
    pub node: NodeId,
    /// Where it takes links; `None`: it takes none.
    pub addr: Option<SocketAddr>,
    /// Its newest life that is known.
    pub incarnation: Incarnation,
    /// Cores of its data plane.
    pub cores: u8,
    /// It was removed from the cluster.
    pub removed: bool,
}

/// All nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeersDesired {
    /// This one; `None`: it is alone.
    pub own: Option<OwnNode>,
    /// The others.
    pub nodes: Vec<PeerDesired>,
}

/// The same, with the volumes that are served.
#[derive(Debug, Default)]
pub struct PeersView {
    pub(crate) desired: PeersDesired,
    pub(crate) volumes: Volumes,
}

impl PeersDesired {
    pub(crate) fn resolve(&self, volumes: Volumes) -> Result<PeersView, UnknownVolume> {
        Ok(PeersView { desired: self.clone(), volumes })
    }
}
