//! PSK identities: what every kind of them is, and those of NVMe hosts (NVMe TCP Transport 1.0, 3.6.1.3): who speaks to whom, and with which hash.
//!
//! `NVMe0R01 <host NQN> <subsystem NQN>`, or with a digest of the key behind it, `NVMe1R01 <host NQN> <subsystem NQN> <digest>`; `01` is
//! SHA-256, `02` SHA-384.

use std::fmt;

/// Who speaks to whom, as a pre-shared key is named. A listener takes one kind of it: a key of one kind cannot even be named at a listener of
/// another.
pub trait PskIdentity: Clone + fmt::Display {
    /// Whether both ends take new keys on the way (KeyUpdate, RFC 8446, 4.6.3).
    const REKEYS: bool;
    /// Reads one; `None` when it is not of this kind.
    fn parse(bytes: &[u8]) -> Option<Self>;
}

/// Bytes of the longest identity: two NQNs of 223 bytes, a digest of 64 characters, the rest.
pub const IDENTITY_BYTES_MAX: usize = 8 + 1 + NQN_BYTES_MAX + 1 + NQN_BYTES_MAX + 1 + 64;
/// Bytes of an NQN (base 4.5).
const NQN_BYTES_MAX: usize = 223;

/// The hash of a PSK: it goes with one cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    /// For TLS_AES_128_GCM_SHA256.
    Sha256,
    /// For TLS_AES_256_GCM_SHA384.
    Sha384,
}

impl Hash {
    /// Bytes of a hash value, and of a key made for it.
    pub const fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
        }
    }
    /// How it is written in identities and keys.
    pub(crate) const fn specifier(self) -> &'static str {
        match self {
            Hash::Sha256 => "01",
            Hash::Sha384 => "02",
        }
    }
    /// The cipher suite that goes with it: its number (IANA).
    pub(crate) const fn suite(self) -> [u8; 2] {
        match self {
            Hash::Sha256 => [0x13, 0x01],
            Hash::Sha384 => [0x13, 0x02],
        }
    }
    /// The same, by OpenSSL's name.
    pub(crate) const fn suite_name(self) -> &'static str {
        match self {
            Hash::Sha256 => "TLS_AES_128_GCM_SHA256",
            Hash::Sha384 => "TLS_AES_256_GCM_SHA384",
        }
    }
}

/// The identity of a host of NVMe/TCP and a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// The hash.
    pub hash: Hash,
    /// NQN of the host.
    pub host_nqn: String,
    /// NQN of the subsystem.
    pub subsystem_nqn: String,
    /// The digest of the key, in base64: version 1. `None`: version 0.
    pub digest: Option<String>,
}

impl PskIdentity for HostIdentity {
    /// A Linux host before 6.14 ends the connection on a KeyUpdate.
    const REKEYS: bool = false;

    fn parse(bytes: &[u8]) -> Option<HostIdentity> {
        if bytes.len() > IDENTITY_BYTES_MAX {
            return None;
        }
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let (head, host, subsystem, digest) = (words.next()?, words.next()?, words.next()?, words.next());
        let nqn = |s: &str| (1..=NQN_BYTES_MAX).contains(&s.len()) && !s.contains(|c: char| c.is_control());
        let (hash, has_digest) = match head {
            "NVMe0R01" => (Hash::Sha256, false),
            "NVMe0R02" => (Hash::Sha384, false),
            "NVMe1R01" => (Hash::Sha256, true),
            "NVMe1R02" => (Hash::Sha384, true),
            _ => return None,
        };
        if words.next().is_some() || digest.is_some() != has_digest || !nqn(host) || !nqn(subsystem) {
            return None;
        }
        Some(HostIdentity { hash, host_nqn: host.into(), subsystem_nqn: subsystem.into(), digest: digest.map(Into::into) })
    }
}

impl fmt::Display for HostIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = u8::from(self.digest.is_some());
        write!(f, "NVMe{version}R{} {} {}", self.hash.specifier(), self.host_nqn, self.subsystem_nqn)?;
        self.digest.as_ref().map_or(Ok(()), |d| write!(f, " {d}"))
    }
}
