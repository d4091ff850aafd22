//! What goes over the API about clusters: forming one, joining, its members, backups.
//!
//! Invariants: as of [`super::types`], of which these are a part.

use super::types::Check;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// This server becomes the first node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCluster {
    /// Where the other nodes reach this one: `ADDRESS`, or `ADDRESS:PORT`. etcd takes the two ports after it.
    pub address: String,
    /// What the node is called; default: as before.
    #[serde(default)]
    pub name: Option<String>,
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
    /// The node that runs it.
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
