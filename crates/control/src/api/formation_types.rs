//! What goes over the API about clusters: forming one, joining, its members, backups.
//!
//! Invariants: as of [`super::types`], of which these are a part.

use super::types::{Check, SecretText};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An etcd that somebody else runs: where it is, and with what it is used. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EtcdSettings {
    /// Its endpoints, as `https://HOST:PORT`.
    #[serde(default)]
    pub endpoints: Option<Vec<String>>,
    /// The certificates of the authorities that its servers' certificates may be of, as PEM.
    #[serde(default)]
    pub authority: Option<String>,
    /// The certificate that nodes show it, as PEM.
    #[serde(default)]
    pub certificate: Option<String>,
    /// Its private key, as PEM.
    #[serde(default)]
    pub key: Option<SecretText>,
}

/// The cluster is to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterChange {
    /// Its external etcd from now on.
    pub etcd: EtcdSettings,
    /// Only for the node that is asked.
    #[serde(default)]
    pub this_node: bool,
}

/// What keeps the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectoryKind {
    /// A file of this server, which is alone.
    Own,
    /// An etcd that the cluster's nodes run.
    #[default]
    Etcd,
    /// An etcd that somebody else runs.
    ExternalEtcd,
}

/// A node's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCertificate {
    /// From when on it is valid.
    pub from_unix_s: u64,
    /// Until when it is valid.
    pub until_unix_s: u64,
}

/// This server becomes the first node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCluster {
    /// Where the other nodes reach this one: `ADDRESS`, or `ADDRESS:PORT`. etcd takes the two ports after it.
    pub address: String,
    /// What the node is called; default: as before.
    #[serde(default)]
    pub name: Option<String>,
    /// The directory goes into an etcd that somebody else runs; default: the nodes run one.
    #[serde(default)]
    pub etcd: Option<EtcdSettings>,
}

/// This server joins a cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// As a node of the cluster has given it.
    pub token: String,
    /// Where the other nodes reach this one: `ADDRESS`, or `ADDRESS:PORT`. etcd takes the two ports after it.
    pub address: String,
    /// What the node is called; default: as before.
    #[serde(default)]
    pub name: Option<String>,
    /// Nodes of one fault domain fail together; default: it is one of its own.
    #[serde(default)]
    pub fault_domain: Option<String>,
    /// As a witness, which holds no data.
    #[serde(default)]
    pub witness: bool,
    /// What this server has of its own is destroyed.
    #[serde(default)]
    pub destroy: bool,
    /// Other settings for the cluster's external etcd than the cluster's.
    #[serde(default)]
    pub etcd: Option<EtcdSettings>,
}

/// The daemon is about to start itself anew, as a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterFormed {
    /// The cluster.
    pub cluster: String,
    /// What this node is called.
    pub node: String,
    /// Where the other nodes reach it.
    pub address: String,
}

/// A token is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvite {
    /// For a witness, not for a node with data.
    #[serde(default)]
    pub witness: bool,
    /// How long it is good, in seconds; default: an hour.
    #[serde(default)]
    pub valid_s: Option<u64>,
}

/// A token with which one server can join.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invite {
    /// The token: whoever has it can join.
    pub token: String,
    /// For a witness.
    pub witness: bool,
    /// Until when.
    pub expires_unix_s: u64,
}

/// A member of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EtcdMember {
    /// The node that runs it; of an external etcd, its endpoint.
    pub node: String,
    /// Whether it votes.
    pub votes: bool,
    /// Whether it leads.
    pub leads: bool,
    /// Why it cannot be used; `None`: it serves.
    pub trouble: Option<String>,
}

/// The cluster, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Its id.
    pub cluster: String,
    /// Whether there is a cluster; if not, this server is alone.
    pub formed: bool,
    /// The node that answers.
    pub node: String,
    /// What it does: `data` or `witness`.
    pub role: String,
    /// Where the other nodes reach it.
    pub address: Option<String>,
    /// What keeps the directory.
    #[serde(default)]
    pub directory: DirectoryKind,
    /// Until when this node's certificate is valid; it is renewed before.
    #[serde(default)]
    pub certificate_until_unix_s: Option<u64>,
    /// Members of etcd.
    pub members: Vec<EtcdMember>,
    /// Whether changes are taken.
    pub quorum: bool,
    /// What is wrong with the directory.
    pub checks: Vec<Check>,
}

/// A node is to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeChange {
    /// What it is called from now on.
    #[serde(default)]
    pub name: Option<String>,
    /// Its fault domain from now on.
    #[serde(default)]
    pub fault_domain: Option<String>,
}

/// A backup of the directory is to be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// Into which file on this node: an absolute path.
    pub path: String,
}

/// A backup of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// The file on this node.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was taken.
    pub taken_unix_s: u64,
}
