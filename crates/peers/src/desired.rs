//! Who the peers are, as the control plane says it.

use base::{ClusterId, NodeId};
use cluster::record::NodeRecord;
use format::peer::Incarnation;
use frontend::{UnknownVolume, Volumes};
use object::link::Protection;
use std::net::SocketAddr;
use tls::ClusterSecret;

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

/// What protects the links of a cluster. All its nodes have it set alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSecurity {
    /// TLS 1.3, with a key for each pair of nodes, made from the secret of the cluster. `None`: the secret is not here yet, so there are no links.
    Tls(Option<ClusterSecret>),
    /// Nothing. For a network where only nodes of the cluster are.
    Plain,
}

impl Default for LinkSecurity {
    fn default() -> Self {
        LinkSecurity::Tls(None)
    }
}

impl LinkSecurity {
    /// Whether there can be links.
    pub(crate) fn is_ready(&self) -> bool {
        !matches!(self, LinkSecurity::Tls(None))
    }
    pub(crate) fn protection(&self) -> Protection {
        match self {
            LinkSecurity::Tls(_) => Protection::Tls,
            LinkSecurity::Plain => Protection::Plain,
        }
    }
}

/// All nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeersDesired {
    /// This one; `None`: it is alone.
    pub own: Option<OwnNode>,
    /// What protects the links.
    pub security: LinkSecurity,
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
    /// The members by the records, as the node `here` has them. It is alone while no other member takes links.
    pub fn of_records(cluster: ClusterId, nodes: &[NodeRecord], here: &str) -> PeersDesired {
        let peer = |n: &NodeRecord| {
            let (addr, cores) = (n.links.map(|l| l.addr), n.links.map_or(1, |l| l.cores));
            Some(PeerDesired { node: n.id?, addr, incarnation: Incarnation(n.incarnation), cores, removed: !n.is_member() })
        };
        let others: Vec<PeerDesired> = nodes.iter().filter(|n| n.name != here).filter_map(peer).collect();
        let own = nodes.iter().find(|n| n.name == here && n.is_member());
        let own = own.and_then(|n| Some(OwnNode { cluster, node: n.id?, incarnation: Incarnation(n.incarnation) }));
        match own.filter(|_| others.iter().any(|n| n.addr.is_some() && !n.removed)) {
            Some(own) => PeersDesired { own: Some(own), nodes: others, ..PeersDesired::default() },
            None => PeersDesired::default(),
        }
    }
    /// The same, with links that this protects.
    pub fn with_security(self, security: LinkSecurity) -> PeersDesired {
        PeersDesired { security, ..self }
    }
    pub(crate) fn resolve(&self, volumes: Volumes) -> Result<PeersView, UnknownVolume> {
        Ok(PeersView { desired: self.clone(), volumes })
    }
}
