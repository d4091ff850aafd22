//! Keys between the nodes of a cluster: one for each pair, from a secret of the cluster.
//!
//! ```text
//! TLS PSK = HKDF(cluster secret, no salt, "basalt peer link 1" 00h cluster lower-node higher-node)      RFC 5869
//! ```
//!
//! Invariants: both nodes of a pair make the same key, whoever dials; no two pairs, clusters or hashes have the same one.
//! Never: keeps the secret longer than its owner.

use crate::identity::{Hash, PskIdentity};
use crate::kdf;
use crate::psk::TlsPsk;
use base::{ClusterId, NodeId, SecretBytes};
use openssl::error::ErrorStack;
use std::fmt;

/// Bytes of a cluster secret.
pub const CLUSTER_SECRET_BYTES: usize = 32;
/// What the keys are for; another protocol gets another label.
const LABEL: &[u8] = b"basalt peer link 1\0";
/// Bytes of an identity: its head, three ids of 36 characters, and the spaces.
pub const PAIR_IDENTITY_BYTES: usize = HEAD_SHA256.len() + 3 * (1 + 36);
const HEAD_SHA256: &str = "BasaltPeer1R01";
const HEAD_SHA384: &str = "BasaltPeer1R02";

/// Why there is no key for a pair of nodes.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A cluster secret of another length.
    #[error("a cluster secret has {CLUSTER_SECRET_BYTES} bytes, not {0}")]
    Length(usize),
    /// A node has no key with itself.
    #[error("a node has no key with itself")]
    OneNode,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Library(#[from] ErrorStack),
}

/// The secret of a cluster, of which the keys of all pairs of nodes are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSecret(SecretBytes);

impl ClusterSecret {
    /// Of [`CLUSTER_SECRET_BYTES`].
    pub fn new(bytes: SecretBytes) -> Result<ClusterSecret, PairError> {
        if bytes.len() == CLUSTER_SECRET_BYTES { Ok(ClusterSecret(bytes)) } else { Err(PairError::Length(bytes.len())) }
    }
}

/// Which key it is: the identity of a pre-shared key of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairIdentity {
    hash: Hash,
    cluster: ClusterId,
    lower: NodeId,
    higher: NodeId,
}

impl PairIdentity {
    /// Of two nodes, in any order.
    pub fn new(hash: Hash, cluster: ClusterId, a: NodeId, b: NodeId) -> Result<PairIdentity, PairError> {
        if a == b {
            return Err(PairError::OneNode);
        }
        Ok(PairIdentity { hash, cluster, lower: a.min(b), higher: a.max(b) })
    }
    /// The hash, which goes with a cipher suite.
    pub fn hash(&self) -> Hash {
        self.hash
    }
    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }
    /// The other node, as `own` sees it; `None` when `own` is neither of them.
    pub fn peer_of(&self, own: NodeId) -> Option<NodeId> {
        match own {
            _ if own == self.lower => Some(self.higher),
            _ if own == self.higher => Some(self.lower),
            _ => None,
        }
    }
    /// Its key.
    pub fn key(&self, secret: &ClusterSecret) -> Result<TlsPsk, PairError> {
        let info = [LABEL, self.cluster.as_bytes(), self.lower.as_bytes(), self.higher.as_bytes()].concat();
        let key = kdf::expand(self.hash, &kdf::extract(self.hash, &secret.0)?, &info, self.hash.bytes())?;
        Ok(TlsPsk { hash: self.hash, key })
    }
}

impl PskIdentity for PairIdentity {
    const REKEYS: bool = true;

    /// Takes exactly what [`fmt::Display`] writes: the lower node first.
    fn parse(bytes: &[u8]) -> Option<PairIdentity> {
        if bytes.len() != PAIR_IDENTITY_BYTES {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        let hash = match words.next()? {
            HEAD_SHA256 => Hash::Sha256,
            HEAD_SHA384 => Hash::Sha384,
            _ => return None,
        };
        let (cluster, lower, higher) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let identity = PairIdentity::new(hash, cluster, lower, higher).ok()?;
        (identity.to_string() == text).then_some(identity)
    }
}

impl fmt::Display for PairIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = match self.hash {
            Hash::Sha256 => HEAD_SHA256,
            Hash::Sha384 => HEAD_SHA384,
        };
        write!(f, "{head} {} {} {}", self.cluster, self.lower, self.higher)
    }
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
