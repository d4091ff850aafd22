//! The cluster's own certificate authority, and the certificates of its nodes.
//!
//! Owns: making an authority ([`Authority`]), signing for nodes ([`Authority::issue`], [`Authority::sign`]), what a node has of it
//! ([`Identity`]) and its files, fingerprints ([`Fingerprint`]), checks and times of validity ([`Validity`]).
//! Invariants: a certificate of a node names that node and its addresses, and can sign nothing; a private key is in files of mode 0600 only; a
//! certificate begins [`CLOCK_TOLERANCE`] before it is made, so that a node whose clock is behind takes it.
//! Never: opens a connection, reads a clock (callers hand in the time), decides who may join.
#![forbid(unsafe_code)]

mod check;
mod context;
mod files;
mod fingerprint;
mod issue;

pub use check::{Refusal, Validity, check, names_address};
pub use files::{AUTHORITY_FILE, AUTHORITY_KEY_FILE, CERTIFICATE_FILE, KEY_FILE};
pub use fingerprint::Fingerprint;
pub use issue::{Authority, Identity, NODE_NAMES_MAX, NodeKey, PrivateKeyPem, Subject};

use std::{path::PathBuf, time::Duration};

/// How far a clock may be behind that of the authority's node.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(24 * 3600);
/// How long an authority is valid.
pub const AUTHORITY_VALID: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
/// How long a node's certificate is valid.
pub const NODE_VALID: Duration = Duration::from_secs(2 * 365 * 24 * 3600);

const _: () =
    assert!(CLOCK_TOLERANCE.as_secs() * 10 < NODE_VALID.as_secs(), "what is left of a certificate is more than what clocks may be off");

/// Seconds since 1970, as the caller's clock has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixSeconds(pub i64);

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// OpenSSL has failed, or what it was given is not what it should be.
    #[error("{doing} failed: {cause}")]
    OpenSsl {
        /// What was being done.
        doing: Doing,
        /// Why.
        cause: openssl::error::ErrorStack,
    },
    /// A file could not be read or written.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Others than its owner can read a private key.
    #[error("{} can be read by others (mode {mode:o}); chmod 600 it, and make new certificates if somebody may have", .path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A name that no certificate can hold.
    #[error("a certificate cannot name {name:?}: {}", .why.text())]
    Name {
        /// The name.
        name: String,
        /// Why not.
        why: BadName,
    },
    /// There is no certificate where one of an authority should be.
    #[error("there is no certificate of an authority in it")]
    Empty,
    /// A request for a certificate is not signed by the key that it names.
    #[error("the request for a certificate was not made with the key that it names")]
    Request,
    /// A certificate is refused.
    #[error("the certificate is refused: {0}")]
    Refused(#[from] Refusal),
}

/// What OpenSSL was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Making a key.
    Key,
    /// Signing a certificate.
    Sign,
    /// Reading a certificate.
    ReadCertificate,
    /// Reading a private key.
    ReadKey,
    /// Reading or making a request for a certificate.
    Request,
    /// Checking a certificate.
    Check,
}

impl std::fmt::Display for Doing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key => "making a key",
            Self::Sign => "signing a certificate",
            Self::ReadCertificate => "reading a certificate",
            Self::ReadKey => "reading a private key",
            Self::Request => "a request for a certificate",
            Self::Check => "checking a certificate",
        })
    }
}

/// Why a certificate cannot hold a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It is empty or longer than 64 bytes.
    Length,
    /// It holds something else than letters, digits, '.', '-' and '_'.
    Letters,
    /// There are too many.
    Many,
}

impl BadName {
    const fn text(self) -> &'static str {
        match self {
            Self::Length => "1 to 64 letters",
            Self::Letters => "only letters, digits, '.', '-' and '_'",
            Self::Many => "too many names and addresses",
        }
    }
}

pub(crate) fn ssl(doing: Doing) -> impl Fn(openssl::error::ErrorStack) -> AuthorityError {
    move |cause| AuthorityError::OpenSsl { doing, cause }
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
