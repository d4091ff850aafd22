//! What goes between nodes that form a cluster, as JSON over the cluster listener.
//!
//! Invariants: fields are only added, each with a default; what holds a secret does not show it.

use base::{ClusterId, NodeRole};
use cluster::JoinRequest;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, net::SocketAddr};

/// The one call that a client without a certificate may make.
pub const JOIN_PATH: &str = "/cluster/v1/join";

/// Text that is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// A member of etcd that a server could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberOffer {
    /// Where clients would reach it.
    pub client: SocketAddr,
    /// Where other members would reach it.
    pub peer: SocketAddr,
}

/// A server wants to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinCall {
    /// The token's secret, in base64.
    pub secret: Hidden,
    /// What it says of itself.
    pub request: JoinRequest,
    /// A request for a certificate, as PEM: its key stays where it was made.
    pub certificate_request: String,
    /// The member of etcd that it could run.
    #[serde(default)]
    pub member: Option<MemberOffer>,
}

/// What a server gets that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// The cluster.
    pub cluster: ClusterId,
    /// As records name it.
    pub name: String,
    /// What it does.
    pub role: NodeRole,
    /// The authority's certificate, as PEM.
    pub authority: String,
    /// The authority's key, as PEM, so that it can let others in; not for a witness.
    #[serde(default)]
    pub authority_key: Option<Hidden>,
    /// Its certificate, as PEM.
    pub certificate: String,
    /// In base64: from which the keys of links between nodes are made; not for a witness.
    #[serde(default)]
    pub peers_secret: Option<Hidden>,
    /// In base64: the key for secrets in the directory; not for a witness.
    #[serde(default)]
    pub vault_key: Option<Hidden>,
    /// Where etcd answers.
    pub endpoints: Vec<String>,
    /// The members that it starts its own with, itself too; `None`: it runs none.
    #[serde(default)]
    pub members: Option<BTreeMap<String, SocketAddr>>,
    /// Somebody else runs etcd: what it is used with.
    #[serde(default)]
    pub external: Option<ExternalAnswer>,
}

/// What an external etcd is used with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalAnswer {
    /// Which change of the cluster's endpoints those of the answer are.
    pub endpoints_serial: u64,
    /// Which change of its certificates and key these are.
    pub credentials_serial: u64,
    /// The certificates of the authorities that its servers' may be of, as PEM.
    pub authority: String,
    /// The certificate to show, as PEM.
    pub certificate: String,
    /// Its private key, as PEM.
    pub key: Hidden,
}

/// Where a node of the cluster gets its certificate renewed that cannot sign itself.
pub const CERTIFICATE_PATH: &str = "/cluster/v1/certificate";

/// A node wants its certificate renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateCall {
    /// A request for it, as PEM.
    pub request: String,
}

/// A renewed certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateAnswer {
    /// As PEM.
    pub certificate: String,
}
