//! The token with which a server joins a cluster: text that an administrator carries from one machine to another.
//!
//! ```text
//!  basalt-join-1.<base64url without padding of>
//!   0  1  role: 1 data, 2 witness                 58 32  SHA-256 of the authority's certificate (DER)
//!   1  1  number of addresses, 1 to 8             90  8  runs out, in seconds since 1970
//!   2  8  reserved, 0                             98     addresses: family (4 or 6), address (4 or 16 bytes), port (2)
//!  10 16  cluster                                  .  4  CRC-32C of everything before it
//!  26 32  secret
//! ```
//!
//! Owns: the text, both ways. Numbers are little-endian.
//! Invariants: a token has one form; what was typed wrong is noticed by the CRC before anything else is looked at.
//! Never: says whether a token is good: who gave it knows its secret's hash, and whether it was used.

use base::{ClusterId, NodeRole, SecretBytes, crc32c};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What every token begins with; the number is the version of what follows.
pub const TOKEN_PREFIX: &str = "basalt-join-1.";
/// Bytes of a token's secret.
pub const TOKEN_SECRET_BYTES: usize = 32;
/// Bytes of the fingerprint of the authority's certificate: SHA-256.
pub const FINGERPRINT_BYTES: usize = 32;
/// Addresses in a token, at most.
pub const TOKEN_ADDRESSES_MAX: usize = 8;
/// The longest token, in characters.
pub const TOKEN_CHARS_MAX: usize = TOKEN_PREFIX.len() + (BYTES_MAX * 4).div_ceil(3);

const HEAD_BYTES: usize = 98;
const ADDRESS_BYTES_MAX: usize = 1 + 16 + 2;
const CRC_BYTES: usize = 4;
const BYTES_MAX: usize = HEAD_BYTES + TOKEN_ADDRESSES_MAX * ADDRESS_BYTES_MAX + CRC_BYTES;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// What may join with it.
    pub role: NodeRole,
    /// The cluster that it is for.
    pub cluster: ClusterId,
    /// Who shows it has the token: [`TOKEN_SECRET_BYTES`].
    pub secret: SecretBytes,
    /// By this the server that joins knows that it speaks with the cluster.
    pub fingerprint: [u8; FINGERPRINT_BYTES],
    /// Until when it can be used, in seconds since 1970.
    pub expires_unix_s: u64,
    /// Where the nodes of the cluster answer, 1 to [`TOKEN_ADDRESSES_MAX`].
    pub addresses: Vec<SocketAddr>,
}

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It begins with something else.
    #[error("not a join token: one begins with `{TOKEN_PREFIX}` ('basalt node invite' prints it)")]
    NotAToken,
    /// It is one of another release.
    #[error("a join token of another release of Basalt: install the cluster's release here, then join")]
    OtherVersion,
    /// Characters are missing or wrong.
    #[error("the join token is damaged: copy all of it, in one line")]
    Damaged,
}

impl JoinToken {
    /// The text. An IPv6 address goes without its scope and flow.
    ///
    /// # Panics
    /// Without an address or with more than [`TOKEN_ADDRESSES_MAX`], or with a secret of another length.
    pub fn build(&self) -> SecretText {
        assert!((1..=TOKEN_ADDRESSES_MAX).contains(&self.addresses.len()), "1 to {TOKEN_ADDRESSES_MAX} addresses");
        assert_eq!(self.secret.len(), TOKEN_SECRET_BYTES);
        let mut bytes = Vec::with_capacity(BYTES_MAX);
        bytes.push(match self.role {
            NodeRole::Data => 1,
            NodeRole::Witness => 2,
        });
        bytes.push(self.addresses.len() as u8);
        bytes.extend([0; 8]);
        bytes.extend(self.cluster.as_bytes());
        bytes.extend(&*self.secret);
        bytes.extend(self.fingerprint);
        bytes.extend(self.expires_unix_s.to_le_bytes());
        debug_assert_eq!(bytes.len(), HEAD_BYTES);
        for address in &self.addresses {
            match address.ip() {
                IpAddr::V4(ip) => {
                    bytes.push(4);
                    bytes.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes.push(6);
                    bytes.extend(ip.octets());
                }
            }
            bytes.extend(address.port().to_le_bytes());
        }
        bytes.extend(crc32c(&bytes).to_le_bytes());
        let bytes = SecretBytes::new(bytes);
        SecretText(SecretBytes::new(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(&*bytes)).into_bytes()))
    }

    /// Reads one; space around it does not matter.
    pub fn parse(text: &str) -> Result<JoinToken, TokenError> {
        let text = text.trim();
        let Some(body) = text.strip_prefix(TOKEN_PREFIX) else {
            let other = text.strip_prefix("basalt-join-").and_then(|rest| rest.split_once('.'));
            let is_version = |v: &str| !v.is_empty() && v.len() <= 4 && v.bytes().all(|b| b.is_ascii_digit());
            return Err(if other.is_some_and(|(v, _)| is_version(v)) { TokenError::OtherVersion } else { TokenError::NotAToken });
        };
        if text.len() > TOKEN_CHARS_MAX {
            return Err(TokenError::Damaged);
        }
        let bytes = SecretBytes::new(URL_SAFE_NO_PAD.decode(body).map_err(|_| TokenError::Damaged)?);
        let (bytes, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(TokenError::Damaged)?;
        if crc32c(bytes) != u32::from_le_bytes(*crc) {
            return Err(TokenError::Damaged);
        }
        parse_body(bytes).ok_or(TokenError::Damaged)
    }
}

fn parse_body(bytes: &[u8]) -> Option<JoinToken> {
    let (head, mut rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let role = match head[0] {
        1 => NodeRole::Data,
        2 => NodeRole::Witness,
        _ => return None,
    };
    let count = usize::from(head[1]);
    if !(1..=TOKEN_ADDRESSES_MAX).contains(&count) || head[2..10] != [0; 8] {
        return None;
    }
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        let ip: IpAddr;
        (ip, rest) = match rest.split_first()? {
            (4, rest) => rest.split_first_chunk::<4>().map(|(a, rest)| (Ipv4Addr::from(*a).into(), rest))?,
            (6, rest) => rest.split_first_chunk::<16>().map(|(a, rest)| (Ipv6Addr::from(*a).into(), rest))?,
            _ => return None,
        };
        let (port, after) = rest.split_first_chunk::<2>()?;
        rest = after;
        addresses.push(SocketAddr::new(ip, u16::from_le_bytes(*port)));
    }
    if !rest.is_empty() {
        return None;
    }
    Some(JoinToken {
        role,
        cluster: ClusterId::from_bytes(*head[10..].first_chunk()?),
        secret: SecretBytes::new(head[26..58].to_vec()),
        fingerprint: *head[58..].first_chunk()?,
        expires_unix_s: u64::from_le_bytes(*head[90..].first_chunk()?),
        addresses,
    })
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({:?} of {}, secret not shown)", self.role, self.cluster)
    }
}

/// Text that must not be seen but by who asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretText(SecretBytes);

impl SecretText {
    /// The text.
    pub fn expose(&self) -> &str {
        core::str::from_utf8(&self.0).expect("made from text")
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
