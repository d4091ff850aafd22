//! Whether a certificate is one of this authority, is for this name, and is valid now.
//!
//! Invariant: the time is the caller's; a certificate is refused from the second on at which it ends.

use crate::issue::fingerprint;
use crate::{AuthorityError, Doing, Fingerprint, Identity, UnixSeconds, ssl};
use openssl::{
    asn1::{Asn1Time, Asn1TimeRef},
    error::ErrorStack,
    pkey::{PKey, Private},
    x509::{X509, X509Ref},
};
use std::net::IpAddr;

/// Why a certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another authority has signed it.
    #[error("it was not signed by this cluster's authority: it is of another cluster, or of before the authority was replaced")]
    Authority,
    /// It is not valid yet.
    #[error("it is not valid for {seconds} s yet: this node's clock is behind, or the clock of the node that signed it is ahead")]
    NotYet {
        /// Seconds until it is.
        seconds: i64,
    },
    /// It is not valid any more.
    #[error("it has not been valid for {seconds} s: this node's clock is ahead, or the certificate was not renewed")]
    Expired {
        /// Seconds since then.
        seconds: i64,
    },
    /// It does not name whom it should.
    #[error("it does not name {0}")]
    Name(String),
    /// The private key is not the certificate's.
    #[error("the private key is not that of the certificate")]
    Key,
}

/// So many seconds before its end a certificate is near it.
const NEAR_END_S: i64 = 30 * 24 * 3600;

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From here on.
    pub from: UnixSeconds,
    /// Not any more from here on.
    pub until: UnixSeconds,
}

impl Validity {
    /// Whether it is valid now.
    pub fn check(self, now: UnixSeconds) -> Result<(), Refusal> {
        if now < self.from {
            return Err(Refusal::NotYet { seconds: self.from.0 - now.0 });
        }
        if now >= self.until {
            return Err(Refusal::Expired { seconds: now.0 - self.until.0 });
        }
        Ok(())
    }
    /// Whether a new one should be made: half of its time is over.
    pub const fn renewal_is_due(self, now: UnixSeconds) -> bool {
        now.0 >= self.from.0 + (self.until.0 - self.from.0) / 2
    }
    /// Seconds that are left; below 0 when it has ended.
    pub const fn left_s(self, now: UnixSeconds) -> i64 {
        self.until.0 - now.0
    }
    /// Whether somebody has to see to it: 30 days are left, or a quarter of its time where that is less.
    pub fn nears_its_end(self, now: UnixSeconds) -> bool {
        self.left_s(now) < NEAR_END_S.min((self.until.0 - self.from.0) / 4)
    }
}

impl Identity {
    /// When the node's certificate is valid.
    pub fn validity(&self) -> Result<Validity, AuthorityError> {
        validity(&*read(&self.certificate)?)
    }
    /// By which the authority is recognised.
    pub fn authority_fingerprint(&self) -> Result<Fingerprint, AuthorityError> {
        fingerprint(&*read(&self.authority)?)
    }
    /// Whether everything fits together and is valid now: for the start of a node, and for health.
    pub fn check(&self, now: UnixSeconds) -> Result<(), AuthorityError> {
        self.check_key()?;
        check(&self.authority, &self.certificate, now)
    }
    /// The same of an identity that others have made: its own certificate may be of another authority than those that it believes.
    pub fn check_foreign(&self, now: UnixSeconds) -> Result<(), AuthorityError> {
        let authorities = X509::stack_from_pem(&self.authority).map_err(ssl(Doing::ReadCertificate))?;
        if authorities.is_empty() {
            return Err(AuthorityError::Empty);
        }
        self.check_key()?;
        Ok(self.validity()?.check(now)?)
    }
    /// The addresses that the node's certificate names.
    pub fn addresses(&self) -> Result<Vec<IpAddr>, AuthorityError> {
        let names = read(&self.certificate)?.subject_alt_names();
        let address = |bytes: &[u8]| match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        };
        Ok(names.iter().flatten().filter_map(|n| address(n.ipaddress()?)).collect())
    }
    fn check_key(&self) -> Result<(), AuthorityError> {
        let certificate = read(&self.certificate)?;
        let key = read_key(&self.key).map_err(ssl(Doing::ReadKey))?;
        match certificate.public_key().map_err(ssl(Doing::ReadCertificate))?.public_eq(&key) {
            true => Ok(()),
            false => Err(Refusal::Key.into()),
        }
    }
}

/// Whether the authority, as PEM, has signed a certificate, as PEM, and it is valid now.
pub fn check(authority: &[u8], certificate: &[u8], now: UnixSeconds) -> Result<(), AuthorityError> {
    let (authority, certificate) = (read(authority)?, read(certificate)?);
    let key = authority.public_key().map_err(ssl(Doing::ReadCertificate))?;
    if !certificate.verify(&key).map_err(ssl(Doing::Check))? {
        return Err(Refusal::Authority.into());
    }
    validity(&certificate)?.check(now)?;
    Ok(validity(&authority)?.check(now)?)
}

/// Whether a certificate, as PEM, names an address.
pub fn names_address(certificate: &[u8], address: IpAddr) -> Result<(), AuthorityError> {
    let certificate = read(certificate)?;
    let bytes = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let names = certificate.subject_alt_names();
    if names.iter().flatten().any(|n| n.ipaddress() == Some(&bytes)) { Ok(()) } else { Err(Refusal::Name(address.to_string()).into()) }
}

/// A private key. One with a passphrase is none: nobody is there to type it.
pub(crate) fn read_key(pem: &[u8]) -> Result<PKey<Private>, ErrorStack> {
    PKey::private_key_from_pem_passphrase(pem, b"")
}

fn read(pem: &[u8]) -> Result<X509, AuthorityError> {
    X509::from_pem(pem).map_err(ssl(Doing::ReadCertificate))
}

fn validity(certificate: &X509Ref) -> Result<Validity, AuthorityError> {
    let unix = |time: &Asn1TimeRef| {
        let diff = Asn1Time::from_unix(0)?.diff(time)?;
        Ok(UnixSeconds(i64::from(diff.days) * 86_400 + i64::from(diff.secs)))
    };
    let both = || Ok(Validity { from: unix(certificate.not_before())?, until: unix(certificate.not_after())? });
    both().map_err(ssl(Doing::ReadCertificate))
}
