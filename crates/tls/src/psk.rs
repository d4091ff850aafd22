//! Pre-shared keys (NVMe TCP Transport 1.0, 3.6.1): the text that administrators carry around, and the keys of TLS made from it.
//!
//! ```text
//! configured PSK ──(host NQN)──► retained PSK ──(identity)──► TLS PSK
//! ```
//!
//! What the standard says of both steps was read in three ways by the programs that put keys into Linux, and which of them a host
//! used does not show in an identity of version 0. [`ConfiguredPsk::keys_for`] gives all; the binder of the ClientHello decides.

use crate::identity::{Hash, HostIdentity};
use crate::kdf;
use base::{SecretBytes, crc32};
use openssl::base64;
use openssl::error::ErrorStack;

const PREFIX: &str = "NVMeTLSkey-1:";
/// Characters of the longest interchange format.
const TEXT_BYTES_MAX: usize = 128;

/// Why a text is not a key, or a key could not be used.
#[derive(Debug, thiserror::Error)]
pub enum PskError {
    /// Not the interchange format.
    #[error("not a TLS PSK in the interchange format `NVMeTLSkey-1:01:<base64>:` (nvme gen-tls-key makes one)")]
    Format,
    /// Not 00, 01 or 02.
    #[error("the hash of a TLS PSK must be 00 (none), 01 (SHA-256) or 02 (SHA-384)")]
    Hash,
    /// Not 32 or 48 bytes.
    #[error("a TLS PSK must have 32 or 48 bytes, not {0}")]
    Length(usize),
    /// The checksum at its end does not match.
    #[error("the TLS PSK's checksum does not match: it was changed or cut on the way")]
    Checksum,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Library(#[from] ErrorStack),
}

/// How keys are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// As the standard says: HKDF-Expand-Label of RFC 8446. libnvme since 1.15, SPDK, Linux's own derivation.
    Standard,
    /// libnvme before 1.15: length in the host's byte order, label and context without their lengths.
    Libnvme,
    /// The same built with an OpenSSL before 3.3.1, which kept only the last piece that was given to it: the context alone.
    LibnvmeContextOnly,
}

impl Derivation {
    /// All of them, the likely first.
    pub const ALL: [Derivation; 3] = [Derivation::Standard, Derivation::Libnvme, Derivation::LibnvmeContextOnly];

    fn expand(self, hash: Hash, prk: &[u8], label: &str, context: &str, len: usize) -> Result<SecretBytes, ErrorStack> {
        match self {
            Derivation::Standard => kdf::expand_label(hash, prk, label, context.as_bytes(), len),
            Derivation::Libnvme => {
                let mut info = (len as u16).to_le_bytes().to_vec();
                info.extend_from_slice(b"tls13 ");
                info.extend_from_slice(label.as_bytes());
                info.extend_from_slice(context.as_bytes());
                kdf::expand(hash, prk, &info, len)
            }
            Derivation::LibnvmeContextOnly => kdf::expand(hash, prk, context.as_bytes(), len),
        }
    }
}

/// A key as TLS uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPsk {
    /// Its hash.
    pub hash: Hash,
    /// Its bytes.
    pub key: SecretBytes,
}

/// A key as administrators carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredPsk {
    /// The hash that makes the retained PSK; `None`: the configured PSK is the retained one.
    hash: Option<Hash>,
    key: SecretBytes,
}

impl ConfiguredPsk {
    /// Reads the interchange format: `NVMeTLSkey-1:hh:<base64 of key and CRC-32>:`.
    pub fn parse(text: &str) -> Result<ConfiguredPsk, PskError> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(PskError::Format);
        }
        let (hash, rest) = text.strip_prefix(PREFIX).and_then(|t| t.split_once(':')).ok_or(PskError::Format)?;
        let data = rest.strip_suffix(':').ok_or(PskError::Format)?;
        let hash = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(PskError::Hash),
        };
        let bytes = SecretBytes::new(base64::decode_block(data).map_err(|_| PskError::Format)?);
        if base64::encode_block(&bytes) != data {
            return Err(PskError::Format);
        }
        let (key, sum) = bytes.split_last_chunk::<4>().ok_or(PskError::Format)?;
        if key.len() != 32 && key.len() != 48 {
            return Err(PskError::Length(key.len()));
        }
        if crc32(key) != u32::from_le_bytes(*sum) {
            return Err(PskError::Checksum);
        }
        Ok(ConfiguredPsk { hash, key: SecretBytes::new(key.to_vec()) })
    }

    /// A new random key for a hash.
    pub fn generate(hash: Hash) -> Result<ConfiguredPsk, PskError> {
        let mut key = SecretBytes::zeroed(hash.bytes());
        openssl::rand::rand_bytes(&mut key)?;
        Ok(ConfiguredPsk { hash: Some(hash), key })
    }

    /// The interchange format; a secret.
    pub fn to_interchange(&self) -> SecretBytes {
        let mut bytes = SecretBytes::zeroed(self.key.len() + 4);
        let (key, sum) = bytes.split_at_mut(self.key.len());
        key.copy_from_slice(&self.key);
        sum.copy_from_slice(&crc32(&self.key).to_le_bytes());
        let data = SecretBytes::new(base64::encode_block(&bytes).into_bytes());
        let hash = self.hash.map_or("00", Hash::specifier);
        SecretBytes::new([PREFIX.as_bytes(), hash.as_bytes(), b":", &data, b":"].concat())
    }

    /// The hash that hosts use with it unless set otherwise: its own, else the one of its length.
    pub fn hash(&self) -> Hash {
        self.hash.unwrap_or(if self.key.len() == Hash::Sha384.bytes() { Hash::Sha384 } else { Hash::Sha256 })
    }

    fn retained(&self, host_nqn: &str, how: Derivation) -> Result<SecretBytes, ErrorStack> {
        let Some(hash) = self.hash else { return Ok(self.key.clone()) };
        how.expand(hash, &kdf::extract(hash, &self.key)?, "HostNQN", host_nqn, self.key.len())
    }

    /// The identity of version 1 between a host and a subsystem.
    pub fn identity(&self, host_nqn: &str, subsystem_nqn: &str, how: Derivation) -> Result<HostIdentity, PskError> {
        let hash = self.hash();
        let digest = Some(digest(hash, &self.retained(host_nqn, how)?, host_nqn, subsystem_nqn)?);
        Ok(HostIdentity { hash, host_nqn: host_nqn.into(), subsystem_nqn: subsystem_nqn.into(), digest })
    }

    /// The key of TLS for an identity, by one derivation; `None` when the identity's digest says that it is of another key or derivation.
    pub fn key_for(&self, identity: &HostIdentity, how: Derivation) -> Result<Option<TlsPsk>, PskError> {
        let retained = self.retained(&identity.host_nqn, how)?;
        let key = match &identity.digest {
            None => match identity.to_string() {
                // HKDF-Expand-Label cannot say a longer context: no host derives such a key by the standard.
                context if how == Derivation::Standard && context.len() > 255 => return Ok(None),
                context => tls_psk(how, identity.hash, &retained, &context)?,
            },
            Some(said) => {
                let digest = digest(identity.hash, &retained, &identity.host_nqn, &identity.subsystem_nqn)?;
                if !SecretBytes::new(digest.clone().into_bytes()).is(said.as_bytes()) {
                    return Ok(None);
                }
                tls_psk(how, identity.hash, &retained, &format!("{} {digest}", identity.hash.specifier()))?
            }
        };
        Ok(Some(TlsPsk { hash: identity.hash, key }))
    }

    /// The keys that a host may mean by this identity, by all derivations.
    pub fn keys_for(&self, identity: &HostIdentity) -> Result<Vec<TlsPsk>, PskError> {
        let mut out: Vec<TlsPsk> = Vec::new();
        for how in Derivation::ALL {
            if let Some(key) = self.key_for(identity, how)?
                && !out.contains(&key)
            {
                out.push(key);
            }
        }
        Ok(out)
    }
}

/// The PSK digest: base64 of HMAC(retained PSK, "host subsystem NVMe-over-Fabrics").
fn digest(hash: Hash, retained: &[u8], host_nqn: &str, subsystem_nqn: &str) -> Result<String, ErrorStack> {
    let parts: [&[u8]; 5] = [host_nqn.as_bytes(), b" ", subsystem_nqn.as_bytes(), b" ", b"NVMe-over-Fabrics"];
    Ok(base64::encode_block(&kdf::hmac(hash, retained, &parts)?))
}

fn tls_psk(how: Derivation, hash: Hash, retained: &[u8], context: &str) -> Result<SecretBytes, ErrorStack> {
    how.expand(hash, &kdf::extract(hash, retained)?, "nvme-tls-psk", context, hash.bytes())
}

#[cfg(test)]
#[path = "psk_tests.rs"]
mod tests;
