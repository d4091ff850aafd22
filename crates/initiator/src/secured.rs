//! TLS on the client's side: which key, which identity.

use crate::error::{Error, Unsupported};
use tls::{ConfiguredPsk, Context, Derivation, Engine, Hash, HostIdentity};

/// How to connect over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The key.
    pub psk: ConfiguredPsk,
    /// The hash, and with it the cipher suite; else the key's own.
    pub hash: Option<Hash>,
    /// Version of the PSK identity, 0 or 1.
    pub version: u8,
    /// How the key of TLS is made.
    pub derivation: Derivation,
    /// The identity names this host instead of the one that connects, to see what the controller says.
    pub name: Option<String>,
}

impl TlsOptions {
    /// As a host of today connects: version 1, by the standard.
    pub fn new(psk: ConfiguredPsk) -> Self {
        Self { psk, hash: None, version: 1, derivation: Derivation::Standard, name: None }
    }

    /// The client's side of a connection of `host_nqn` to `subnqn`.
    pub(crate) fn engine(&self, host_nqn: &str, subnqn: &str) -> Result<Engine, Error> {
        let context = Context::shared().ok_or(Error::Tls(tls::Fault::Library))?;
        let host_nqn = self.name.as_deref().unwrap_or(host_nqn);
        let unusable = |_| Error::Unsupported(Unsupported::PskUnusable);
        let own = self.psk.identity(host_nqn, subnqn, self.derivation).map_err(unusable)?;
        let hash = self.hash.unwrap_or(own.hash);
        let identity = match self.version {
            0 => HostIdentity { hash, digest: None, ..own },
            _ if hash == own.hash => own,
            _ => return Err(Error::Unsupported(Unsupported::PskHash)),
        };
        let key = self.psk.key_for(&identity, self.derivation).map_err(unusable)?;
        let key = key.ok_or(Error::Unsupported(Unsupported::PskNames))?;
        Engine::client(&context, &identity, key).map_err(Error::Tls)
    }
}
