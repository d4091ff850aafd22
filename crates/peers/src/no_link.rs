//! Why a connection does not become a link, where somebody has to do something: which node, which address, what to do.
//!
//! Never: holds a secret.

use base::{ClusterId, NodeId};
use std::net::SocketAddr;
use tls::{Alert, Fault, PairIdentity};

/// See the module. `node` is who the other end says or proves it is, or who is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLink {
    /// This node dialed over TLS, and the other end takes plain links only.
    #[error("node {node} at {addr} takes plain links, and here links go over TLS: set both nodes alike")]
    PlainThere {
        /// See [`NoLink`].
        node: NodeId,
        /// Where.
        addr: SocketAddr,
    },
    /// This node dialed plain, and the other end takes links over TLS only.
    #[error("node {node} at {addr} takes links over TLS only, and here they are plain: set both nodes alike")]
    TlsThere {
        /// See [`NoLink`].
        node: NodeId,
        /// Where.
        addr: SocketAddr,
    },
    /// The other end has another secret of the cluster.
    #[error("node {node} at {addr} has another cluster secret: one of the two has an old one; restart it, or let it join anew")]
    OtherSecret {
        /// See [`NoLink`].
        node: NodeId,
        /// Where.
        addr: SocketAddr,
    },
    /// What answers is of another cluster, or another node.
    #[error("what answers at {addr} is not node {node} of this cluster: the node's address is wrong, or another cluster has it now")]
    NotThere {
        /// See [`NoLink`].
        node: NodeId,
        /// Where.
        addr: SocketAddr,
    },
    /// Somebody dialed over TLS, and here links are plain.
    #[error("{addr} dials over TLS, and here links are plain: set both nodes alike")]
    TlsFrom {
        /// From where.
        addr: SocketAddr,
    },
    /// A node dialed plain, and here links go over TLS only.
    #[error("node {node} dials plain from {addr}, and here links go over TLS only: set both nodes alike")]
    PlainFrom {
        /// See [`NoLink`].
        node: NodeId,
        /// From where.
        addr: SocketAddr,
    },
    /// A node of another cluster dialed.
    #[error("{addr} dials as a node of the cluster {cluster}: it has an address of this cluster, correct it there")]
    OtherCluster {
        /// That one.
        cluster: ClusterId,
        /// From where.
        addr: SocketAddr,
    },
    /// A node dialed that means another one.
    #[error("{addr} dials another node than this one ({pair}): it has a wrong address for that node, correct it in the cluster's records")]
    OtherPair {
        /// The pair that it named.
        pair: PairIdentity,
        /// From where.
        addr: SocketAddr,
    },
    /// Who dialed is no node of any cluster.
    #[error("{addr} dials with no identity of a node: hosts connect to the NVMe/TCP port; else find out what runs there")]
    NoNode {
        /// From where.
        addr: SocketAddr,
    },
    /// A node has proved to be another one than it says it is.
    #[error(
        "node {proved} dials from {addr} and says that it is node {said}: two nodes have the identity of one; let the newer one join anew"
    )]
    OtherName {
        /// By its key.
        proved: NodeId,
        /// By its Hello.
        said: NodeId,
        /// From where.
        addr: SocketAddr,
    },
    /// The handshake did not come to its end.
    #[error("{} at {addr} did not finish the TLS handshake: see its log; a program that repeats what it has seen of one cannot finish it", who(.node))]
    Unfinished {
        /// See [`NoLink`].
        node: Option<NodeId>,
        /// Where.
        addr: SocketAddr,
    },
    /// TLS failed in another way.
    #[error("TLS with {} at {addr} failed ({fault}): the network changes what is sent, or the releases are too far apart", who(.node))]
    Failed {
        /// See [`NoLink`].
        node: Option<NodeId>,
        /// Where.
        addr: SocketAddr,
        /// How.
        fault: Fault,
    },
}

fn who(node: &Option<NodeId>) -> String {
    node.map_or_else(|| "what is".to_owned(), |node| format!("node {node}"))
}

impl NoLink {
    /// TLS failed on a connection that this node has made.
    pub(crate) fn dialing(node: NodeId, addr: SocketAddr, fault: Fault) -> NoLink {
        match fault {
            Fault::Alert(Alert::NoTls) => NoLink::PlainThere { node, addr },
            Fault::Alert(Alert::WrongKey) => NoLink::OtherSecret { node, addr },
            Fault::Alert(Alert::UnknownIdentity) => NoLink::NotThere { node, addr },
            fault => NoLink::Failed { node: Some(node), addr, fault },
        }
    }
    /// TLS failed on a connection that was accepted. `offered`: the last identity of nodes that was named on it.
    pub(crate) fn accepting(own: NodeId, cluster: ClusterId, offered: Option<PairIdentity>, addr: SocketAddr, fault: Fault) -> NoLink {
        let node = offered.and_then(|pair| pair.peer_of(own));
        match (fault, offered, node) {
            (Fault::NotPlain, ..) => NoLink::TlsFrom { addr },
            (Fault::Refused { .. } | Fault::NotTls, None, _) => NoLink::NoNode { addr },
            (Fault::Refused { .. }, Some(pair), _) if pair.cluster() != cluster => NoLink::OtherCluster { cluster: pair.cluster(), addr },
            (Fault::Refused { .. }, Some(pair), None) => NoLink::OtherPair { pair, addr },
            (Fault::Refused { .. }, Some(_), Some(node)) => NoLink::OtherSecret { node, addr },
            (fault, _, node) => NoLink::Failed { node, addr, fault },
        }
    }
}
