//! Who may join the cluster.
//!
//! Owns: what an invitation is good for, and the reasons why a server that wants to join is turned away.
//! Invariants: an invitation lets one server in, and the same one again when it did not hear the answer; a node that was removed never comes
//! back under its old identity; every reason says what to do.
//! Never: knows a secret (a hash of it is enough), does anything.

use base::{ClusterId, NODES_MAX, NodeId, NodeRole};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// How long an invitation is good when nobody says, in seconds.
pub const INVITE_SECONDS_DEFAULT: u64 = 3600;
/// How long one may be good, in seconds.
pub const INVITE_SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Invitations at a time.
pub const INVITES_MAX: usize = 256;
/// How far the clock of a server that joins may be off, in seconds: certificates and invitations go by it.
pub const CLOCK_OFF_SECONDS_MAX: u64 = 300;

/// An invitation, as the directory keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteRecord {
    /// SHA-256 of its secret, in hexadecimal digits: its id.
    pub secret_sha256: String,
    /// What may join with it.
    pub role: NodeRole,
    /// Until when, in seconds since 1970.
    pub expires_unix_s: u64,
    /// Who has joined with it.
    #[serde(default)]
    pub used_by: Option<NodeId>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

/// What a server that wants to join says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The cluster that its token is of.
    pub cluster: ClusterId,
    /// What it wants to be.
    pub role: NodeRole,
    /// Its identity.
    pub node: NodeId,
    /// The name that it wants.
    pub name: String,
    /// Nodes of one fault domain fail together; `None`: it is one of its own.
    #[serde(default)]
    pub fault_domain: Option<String>,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// The release that it runs, as `1.2.3`.
    pub release: String,
    /// What its clock says, in seconds since 1970.
    pub clock_unix_s: u64,
}

/// A node, as far as it matters for who wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// Its identity.
    pub id: Option<NodeId>,
    /// Its name.
    pub name: String,
    /// Where other nodes reach it.
    pub address: Option<SocketAddr>,
    /// It was removed.
    pub removed: bool,
}

/// The cluster, as far as it matters for who wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Its id.
    pub cluster: ClusterId,
    /// The release of the node that judges, as `1.2.3`.
    pub release: String,
    /// The nodes that it has, and those that were removed.
    pub nodes: Vec<KnownNode>,
}

/// Why a server may not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// Nobody knows the invitation.
    #[error("this cluster has given no such token, or it was withdrawn")]
    Unknown,
    /// It is of another cluster.
    #[error("the token is for cluster {token}, and this is cluster {cluster}")]
    OtherCluster {
        /// That of the token.
        token: ClusterId,
        /// This one.
        cluster: ClusterId,
    },
    /// Its time is over.
    #[error("the token has expired {seconds} s ago")]
    Expired {
        /// How long ago.
        seconds: u64,
    },
    /// Another server has joined with it.
    #[error("the token was used already, by node {by}")]
    Used {
        /// Its name, or its id.
        by: String,
    },
    /// It lets something else in.
    #[error("the token is for a {} node, not for a {} node", .token.word(), .wanted.word())]
    Role {
        /// What it is for.
        token: NodeRole,
        /// What was wanted.
        wanted: NodeRole,
    },
    /// It is a member.
    #[error("this server is a member of the cluster already, as {name}")]
    Member {
        /// Its name.
        name: String,
    },
    /// It was removed.
    #[error("this server was removed from the cluster as node {name}, and may not come back with what it had then")]
    Removed {
        /// Its name then.
        name: String,
    },
    /// Another node has the name.
    #[error("there is a node named {name} already")]
    Name {
        /// The name.
        name: String,
    },
    /// The name is none.
    #[error(transparent)]
    NoName(#[from] crate::NameError),
    /// Another node has the address.
    #[error("{address} is the address of node {by}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The node that has it.
        by: String,
    },
    /// It cannot be reached there from another machine.
    #[error("{0} is no address at which other nodes could reach this server")]
    NoAddress(SocketAddr),
    /// Its release and the cluster's do not work together.
    #[error("this server runs release {theirs}, the cluster {ours}: only neighbouring releases work together")]
    Release {
        /// The cluster's.
        ours: String,
        /// The server's.
        theirs: String,
    },
    /// Its clock is wrong.
    #[error("the clock of this server is {seconds} s {}", if *.ahead { "ahead of the cluster's" } else { "behind the cluster's" })]
    Clock {
        /// By how much.
        seconds: u64,
        /// It is ahead.
        ahead: bool,
    },
    /// There is no room.
    #[error("the cluster has {NODES_MAX} nodes already")]
    Full,
}

impl JoinRefused {
    /// What to do about it.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Unknown | Self::Expired { .. } | Self::Used { .. } => "make a new token: 'basalt node invite' on a node of the cluster",
            Self::OtherCluster { .. } => "use a token of the cluster that this server is to join",
            Self::Role { .. } => "make a token for it: 'basalt node invite', with --witness for a witness",
            Self::Member { .. } => "there is nothing to do: 'basalt node list' shows it",
            Self::Removed { .. } => "join with --destroy, which gives the server a new identity and destroys what is left of the old one",
            Self::Name { .. } | Self::NoName(_) => "choose another with --name",
            Self::Address { .. } | Self::NoAddress(_) => "give this server's own address with --address",
            Self::Release { .. } => "install the release of the cluster on this server",
            Self::Clock { .. } => "set the clock (chrony, systemd-timesyncd), then join again",
            Self::Full => "remove a node that is not needed: 'basalt node remove'",
        }
    }
}

/// Whether a server may join with the invitation that belongs to its secret. One that has joined with it, and did not hear so, may again.
///
/// `now_unix_s`: what the clock of the cluster's node says.
pub fn judge_join(cluster: &Membership, invite: Option<&InviteRecord>, request: &JoinRequest, now_unix_s: u64) -> Result<(), JoinRefused> {
    if request.cluster != cluster.cluster {
        return Err(JoinRefused::OtherCluster { token: request.cluster, cluster: cluster.cluster });
    }
    let invite = invite.ok_or(JoinRefused::Unknown)?;
    let again = invite.used_by == Some(request.node);
    let known = |id: NodeId| cluster.nodes.iter().find(|n| n.id == Some(id));
    if let Some(by) = invite.used_by.filter(|_| !again) {
        return Err(JoinRefused::Used { by: known(by).map_or_else(|| by.to_string(), |n| n.name.clone()) });
    }
    if now_unix_s > invite.expires_unix_s {
        return Err(JoinRefused::Expired { seconds: now_unix_s - invite.expires_unix_s });
    }
    if invite.role != request.role {
        return Err(JoinRefused::Role { token: invite.role, wanted: request.role });
    }
    let off = request.clock_unix_s.abs_diff(now_unix_s);
    if off > CLOCK_OFF_SECONDS_MAX {
        return Err(JoinRefused::Clock { seconds: off, ahead: request.clock_unix_s > now_unix_s });
    }
    if !work_together(&cluster.release, &request.release) {
        return Err(JoinRefused::Release { ours: cluster.release.clone(), theirs: request.release.clone() });
    }
    crate::check_name(&request.name)?;
    if request.address.ip().is_unspecified() || request.address.ip().is_multicast() || request.address.port() == 0 {
        return Err(JoinRefused::NoAddress(request.address));
    }
    match known(request.node) {
        Some(node) if node.removed => return Err(JoinRefused::Removed { name: node.name.clone() }),
        Some(node) if !again => return Err(JoinRefused::Member { name: node.name.clone() }),
        _ => {}
    }
    let others = || cluster.nodes.iter().filter(|n| !n.removed && n.id != Some(request.node));
    if others().any(|n| n.name.eq_ignore_ascii_case(&request.name)) {
        return Err(JoinRefused::Name { name: request.name.clone() });
    }
    if let Some(node) = others().find(|n| n.address == Some(request.address)) {
        return Err(JoinRefused::Address { address: request.address, by: node.name.clone() });
    }
    if others().count() >= usize::from(NODES_MAX) {
        return Err(JoinRefused::Full);
    }
    Ok(())
}

/// Whether two releases, as `1.2.3`, can be in one cluster: the same major number, and minor numbers that are neighbours.
pub fn work_together(a: &str, b: &str) -> bool {
    let parse = |release: &str| -> Option<(u64, u64)> {
        let mut numbers = release.split('.').map(|n| n.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.0 == b.0 && a.1.abs_diff(b.1) <= 1,
        _ => false,
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
