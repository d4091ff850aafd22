//! HMAC and HKDF (RFC 2104, RFC 5869), and what TLS 1.3 builds on them (RFC 8446, 7.1).

use crate::identity::Hash;
use base::SecretBytes;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;

impl Hash {
    pub(crate) fn md(self) -> MessageDigest {
        match self {
            Hash::Sha256 => MessageDigest::sha256(),
            Hash::Sha384 => MessageDigest::sha384(),
        }
    }
    /// The hash of `bytes`.
    pub(crate) fn of(self, bytes: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        Ok(openssl::hash::hash(self.md(), bytes)?.to_vec())
    }
}

/// HMAC over the parts, one after the other.
pub(crate) fn hmac(hash: Hash, key: &[u8], parts: &[&[u8]]) -> Result<SecretBytes, ErrorStack> {
    let key = PKey::hmac(key)?;
    let mut signer = Signer::new(hash.md(), &key)?;
    for part in parts {
        signer.update(part)?;
    }
    let mut out = SecretBytes::zeroed(hash.bytes());
    signer.sign(&mut out)?;
    Ok(out)
}

/// HKDF-Extract with a salt of zeroes.
pub(crate) fn extract(hash: Hash, input: &[u8]) -> Result<SecretBytes, ErrorStack> {
    hmac(hash, &[0; 48][..hash.bytes()], &[input])
}

/// HKDF-Expand.
pub(crate) fn expand(hash: Hash, prk: &[u8], info: &[u8], len: usize) -> Result<SecretBytes, ErrorStack> {
    assert!(len <= 255 * hash.bytes(), "{len} bytes are more than HKDF gives");
    let mut out = SecretBytes::zeroed(len);
    let mut last = SecretBytes::zeroed(0);
    for (i, part) in out.chunks_mut(hash.bytes()).enumerate() {
        last = hmac(hash, prk, &[&last, info, &[i as u8 + 1]])?;
        part.copy_from_slice(&last[..part.len()]);
    }
    Ok(out)
}

/// HKDF-Expand-Label; `label` without its `tls13 `.
///
/// # Panics
/// When label or context are longer than a byte can say.
pub(crate) fn expand_label(hash: Hash, prk: &[u8], label: &str, context: &[u8], len: usize) -> Result<SecretBytes, ErrorStack> {
    const PREFIX: &str = "tls13 ";
    let (label_len, context_len) = (PREFIX.len() + label.len(), context.len());
    let byte = |n: usize| u8::try_from(n).expect("at most 255 bytes");
    let mut info = Vec::with_capacity(4 + label_len + context_len);
    info.extend_from_slice(&(len as u16).to_be_bytes());
    info.push(byte(label_len));
    info.extend_from_slice(PREFIX.as_bytes());
    info.extend_from_slice(label.as_bytes());
    info.push(byte(context_len));
    info.extend_from_slice(context);
    expand(hash, prk, &info, len)
}

/// The PSK binder of a ClientHello whose bytes before the binders are `truncated` (RFC 8446, 4.2.11.2).
pub(crate) fn binder(hash: Hash, psk: &[u8], truncated: &[u8]) -> Result<SecretBytes, ErrorStack> {
    let early = extract(hash, psk)?;
    let key = expand_label(hash, &early, "ext binder", &hash.of(b"")?, hash.bytes())?;
    let finished = expand_label(hash, &key, "finished", b"", hash.bytes())?;
    hmac(hash, &finished, &[&hash.of(truncated)?])
}
