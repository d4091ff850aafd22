//! Secrets: `DHHC-1:hh:BASE64:`, as all tools write them, and what belongs to one host.
//!
//! Invariant: the bytes are a [`SecretBytes`], or wiped all the same.
//! Never: puts a secret, or a part of one, into an error.

use crate::compute::hmac;
use base::{SecretBytes, crc32};
use format::nvme::auth::{DhGroup, HashId};
use openssl::{base64, error::ErrorStack};
use zeroize::Zeroizing;

const PREFIX: &str = "DHHC-1:";
/// Bytes of the checksum behind the secret.
const CRC_BYTES: usize = 4;
/// Base64 of the longest secret and its checksum.
const BASE64_BYTES_MAX: usize = 92;
/// What is appended to the NQN when a secret is transformed (base 8.13.5.8).
const TRANSFORM_SUFFIX: &[u8] = b"NVMe-over-Fabrics";

/// A secret: 32, 48 or 64 bytes, and the hash function by which it is transformed before use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    bytes: SecretBytes,
    transform: Option<HashId>,
}

/// What is wrong with the text of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not `DHHC-1:hh:base64:`.
    #[error("a secret has the form DHHC-1:hh:base64: (make one with `nvme gen-dhchap-key` or --dhchap-generate)")]
    Form,
    /// The hash identifier is not 00 to 03.
    #[error("the secret names an unknown hash function: it is 00 (none), 01 (SHA-256), 02 (SHA-384) or 03 (SHA-512)")]
    Hash,
    /// It has another length.
    #[error("a secret has 32, 48 or 64 bytes")]
    Length,
    /// The CRC-32 does not match.
    #[error("the secret's checksum does not match: it was cut or mistyped")]
    Checksum,
}

impl Secret {
    /// From its text. White space around it is passed over.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        let rest = text.strip_prefix(PREFIX).ok_or(SecretError::Form)?;
        let (hash, rest) = rest.split_once(':').ok_or(SecretError::Form)?;
        let body = rest.strip_suffix(':').ok_or(SecretError::Form)?;
        if hash.len() != 2 || body.len() > BASE64_BYTES_MAX || !is_base64(body) {
            return Err(SecretError::Form);
        }
        let transform = match hash {
            "00" => None,
            "01" => Some(HashId::Sha256),
            "02" => Some(HashId::Sha384),
            "03" => Some(HashId::Sha512),
            _ => return Err(SecretError::Hash),
        };
        let all = SecretBytes::new(base64::decode_block(body).map_err(|_| SecretError::Form)?);
        // Bits behind the last byte must be zero: a secret has one form.
        if *Zeroizing::new(base64::encode_block(&all)) != body {
            return Err(SecretError::Form);
        }
        let (bytes, sum) = all.split_last_chunk::<CRC_BYTES>().ok_or(SecretError::Length)?;
        if !matches!(bytes.len(), 32 | 48 | 64) {
            return Err(SecretError::Length);
        }
        if crc32(bytes) != u32::from_le_bytes(*sum) {
            return Err(SecretError::Checksum);
        }
        Ok(Self { bytes: SecretBytes::new(bytes.to_vec()), transform })
    }

    /// A new secret as long as a digest of `transform`, from random bytes.
    pub fn generate(transform: HashId, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut bytes = SecretBytes::zeroed(transform.bytes());
        random(&mut bytes);
        Self { bytes, transform: Some(transform) }
    }

    /// Its text. The one way to see it: for the person who asked for a new one, and for what is stored encrypted.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut all = Zeroizing::new(self.bytes.to_vec());
        all.extend_from_slice(&crc32(&self.bytes).to_le_bytes());
        let body = Zeroizing::new(base64::encode_block(&all));
        Zeroizing::new(format!("{PREFIX}{:02}:{}:", self.transform.map_or(0, HashId::id), body.as_str()))
    }

    /// By which hash function it is transformed.
    pub fn transform(&self) -> Option<HashId> {
        self.transform
    }

    /// The key that is used: bound to the NQN of whom it authenticates (base 8.13.5.8).
    pub fn key_for(&self, nqn: &str) -> Result<SecretBytes, ErrorStack> {
        match self.transform {
            None => Ok(self.bytes.clone()),
            Some(hash) => hmac(hash, &self.bytes, &[nqn.as_bytes(), TRANSFORM_SUFFIX]).map(SecretBytes::new),
        }
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && !body.is_empty()
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

/// What one host and the subsystem authenticate with, and what they may use for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The host's secret.
    pub host: Secret,
    /// The subsystem's secret, with which the controller proves itself when the host asks; `None`: such a host is refused.
    pub controller: Option<Secret>,
    /// Hash functions that are allowed, the most wanted first.
    pub hashes: Vec<HashId>,
    /// DH groups that are allowed, the most wanted first.
    pub groups: Vec<DhGroup>,
}

impl Credentials {
    /// With the usual preferences: SHA-384 first; 3072 bits first, more before less, and no exchange last.
    pub fn new(host: Secret, controller: Option<Secret>) -> Self {
        use DhGroup as G;
        Self {
            host,
            controller,
            hashes: vec![HashId::Sha384, HashId::Sha512, HashId::Sha256],
            groups: vec![G::Ffdhe3072, G::Ffdhe4096, G::Ffdhe6144, G::Ffdhe8192, G::Ffdhe2048, G::Null],
        }
    }
}
