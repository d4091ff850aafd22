//! Which keys open links: of the pairs that this node is one of, made from the secret of the cluster when they are needed.
//!
//! Invariant: who names another cluster, or a pair without this node, finds no key.
//! Never: keeps a key.

use crate::desired::{LinkSecurity, OwnNode};
use base::NodeId;
use connection::{Accepts, Layer};
use tls::{Context, Engine, Fault, Hash, PairIdentity, TlsPsk};

/// The hash of the links that this node dials, and with it their cipher suite.
const HASH: Hash = Hash::Sha256;

impl LinkSecurity {
    /// What lies below a link that was accepted.
    pub(crate) fn accepted(&self) -> Layer<PairIdentity> {
        Layer::accepted(match self {
            // Who comes plain hears what is wrong in the words of the link.
            LinkSecurity::Tls(_) => Accepts::PlainOrTls,
            LinkSecurity::Plain => Accepts::Plain,
        })
    }
    /// What lies below a link that this node dials.
    pub(crate) fn dialed(&self, own: &OwnNode, node: NodeId) -> Result<Layer<PairIdentity>, Fault> {
        let secret = match self {
            LinkSecurity::Plain => return Ok(Layer::Plain),
            LinkSecurity::Tls(secret) => secret.as_ref().ok_or(Fault::Library)?,
        };
        let identity = PairIdentity::new(HASH, own.cluster, own.node, node).map_err(|_| Fault::Library)?;
        let key = identity.key(secret).map_err(|_| Fault::Library)?;
        let context = Context::shared().ok_or(Fault::Library)?;
        Ok(Layer::client(Engine::client(&context, &identity, key)?))
    }
    /// The key that an identity means here.
    pub(crate) fn keys(&self, own: &OwnNode, identity: &PairIdentity) -> Vec<TlsPsk> {
        let LinkSecurity::Tls(Some(secret)) = self else { return Vec::new() };
        if identity.cluster() != own.cluster || identity.peer_of(own.node).is_none() {
            return Vec::new();
        }
        // Only the cryptographic library can fail here; then the key is as good as unknown.
        identity.key(secret).into_iter().collect()
    }
}
