//! A member's settings, and the file that etcd reads.
//!
//! Invariants: clients and members need a certificate of the cluster's authority; history is kept for longer than a daemon needs to start; the
//! file is replaced as a whole.

use super::{ServerError, io};
use crate::{Endpoint, TXN_OPERATIONS_MAX};
use serde_json::json;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// The file, in the member's folder.
pub const CONFIGURATION_FILE: &str = "etcd.json";
/// What the member stores, in its folder.
pub const STORE_DIR: &str = "store";
/// Members of a cluster, at most: more only cost.
pub const MEMBERS_MAX: usize = 5;
/// Revisions that are kept: a watch that was away for fewer goes on without a snapshot.
const HISTORY_REVISIONS: u64 = 20_000;
/// A store that reaches this takes no changes. Ten thousand components need some 20 MiB.
pub const QUOTA_BYTES: u64 = 2 << 30;
/// The smallest quota: below that the store's own pages count.
const QUOTA_BYTES_MIN: u64 = 16 << 20;

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// A name that etcd's list of members cannot hold.
    #[error("{0:?} cannot be a member's name: use letters, digits, '.', '-' and '_'")]
    Name(String),
    /// The member is not in its own list, or there are too many.
    #[error("the list of members has to name {name:?}, and at most {MEMBERS_MAX}")]
    Members {
        /// The member.
        name: String,
    },
    /// The quota is too small.
    #[error("a quota of {0} bytes is too small")]
    Quota(u64),
}

/// How a member comes to its cluster, when its folder is empty. What it has stored counts from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// All members of a new cluster start together, with this token, which nobody else has.
    New {
        /// Part of the cluster's identity.
        token: String,
    },
    /// The cluster is there, and has this one as a member already ([`super::members::add`]).
    Joins,
}

/// One member on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The member's name: the node's.
    pub name: String,
    /// The program: `/usr/bin/etcd`.
    pub program: PathBuf,
    /// A folder of its own.
    pub dir: PathBuf,
    /// The folder with the files of an [`authority::Identity`].
    pub certificates: PathBuf,
    /// Where clients reach it.
    pub client: SocketAddr,
    /// Where other members reach it.
    pub peer: SocketAddr,
    /// All members, this one too: where other members reach them.
    pub members: BTreeMap<String, SocketAddr>,
    /// How it comes to its cluster.
    pub membership: Membership,
    /// [`QUOTA_BYTES`], or another.
    pub quota_bytes: u64,
}

fn url(address: SocketAddr) -> String {
    format!("https://{address}")
}

impl Settings {
    /// Where clients reach it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { tls: true, host: self.client.ip().to_string(), port: self.client.port() }
    }
    /// What it stores is in here.
    pub fn store(&self) -> PathBuf {
        self.dir.join(STORE_DIR)
    }
    pub(super) fn peer_url(&self) -> String {
        url(self.peer)
    }
    /// As etcd writes it: `a=https://…,b=https://…`.
    pub(super) fn initial_cluster(&self) -> String {
        self.members.iter().map(|(name, peer)| format!("{name}={}", url(*peer))).collect::<Vec<_>>().join(",")
    }
    /// Whether they make sense.
    pub fn check(&self) -> Result<(), BadSetting> {
        for name in self.members.keys() {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) {
                return Err(BadSetting::Name(name.clone()));
            }
        }
        if self.members.get(&self.name) != Some(&self.peer) || self.members.len() > MEMBERS_MAX {
            return Err(BadSetting::Members { name: self.name.clone() });
        }
        if self.quota_bytes < QUOTA_BYTES_MIN {
            return Err(BadSetting::Quota(self.quota_bytes));
        }
        Ok(())
    }

    /// What etcd reads. It takes YAML, of which JSON is a part.
    pub(super) fn configuration(&self) -> serde_json::Value {
        let file = |name: &str| self.certificates.join(name).display().to_string();
        let security = json!({
            "trusted-ca-file": file(authority::AUTHORITY_FILE),
            "cert-file": file(authority::CERTIFICATE_FILE),
            "key-file": file(authority::KEY_FILE),
            "client-cert-auth": true,
        });
        let (state, token) = match &self.membership {
            Membership::New { token } => ("new", token.as_str()),
            Membership::Joins => ("existing", "joins"),
        };
        json!({
            "name": self.name,
            "data-dir": self.store().display().to_string(),
            "listen-client-urls": url(self.client),
            "advertise-client-urls": url(self.client),
            "listen-peer-urls": self.peer_url(),
            "initial-advertise-peer-urls": self.peer_url(),
            "initial-cluster": self.initial_cluster(),
            "initial-cluster-state": state,
            "initial-cluster-token": token,
            "client-transport-security": security,
            "peer-transport-security": security,
            // A member that comes back from being cut off does not unseat the leader.
            "pre-vote": true,
            "strict-reconfig-check": true,
            "experimental-initial-corrupt-check": true,
            // In milliseconds. Round trips between nodes of one site are far below, and those to a witness still fit. A node that dies may be the leader:
            // what others have to change because of that waits for the next one.
            "heartbeat-interval": 50,
            "election-timeout": 500,
            "quota-backend-bytes": self.quota_bytes,
            "auto-compaction-mode": "revision",
            "auto-compaction-retention": HISTORY_REVISIONS.to_string(),
            "max-txn-ops": 2 * TXN_OPERATIONS_MAX,
            "enable-v2": false,
            "logger": "zap",
            "log-outputs": ["stderr"],
            "log-level": "warn",
        })
    }

    /// Writes the file. Gives where it is.
    pub(super) fn write(&self) -> Result<PathBuf, ServerError> {
        self.check()?;
        make_private(&self.dir)?;
        let path = self.dir.join(CONFIGURATION_FILE);
        let new = self.dir.join("etcd.json.new");
        let text = format!("{:#}\n", self.configuration());
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).map_err(io(&path))?;
        Ok(path)
    }
}

/// Makes a folder that only its owner can enter.
fn make_private(dir: &Path) -> Result<(), ServerError> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir))?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).map_err(io(dir))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
