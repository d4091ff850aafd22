//! Making an authority, and signing certificates of nodes.
//!
//! Invariants: an authority signs nodes only (path length 0); a node's certificate is for servers and clients, names the node and its
//! addresses, and is for the key that the node has made: names in a request are not taken.
//! Never: signs for a name that a certificate cannot hold.

use crate::{AUTHORITY_VALID, AuthorityError, BadName, CLOCK_TOLERANCE, Doing, Fingerprint, NODE_VALID, UnixSeconds, ssl};
use openssl::{
    asn1::Asn1Time,
    bn::{BigNum, MsbOption},
    ec::{EcGroup, EcKey},
    hash::MessageDigest,
    nid::Nid,
    pkey::{HasPublic, PKey, PKeyRef, Private},
    x509::{
        X509, X509Builder, X509Name, X509NameBuilder, X509Ref, X509Req, X509ReqBuilder,
        extension::{AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName, SubjectKeyIdentifier},
    },
};
use std::{net::IpAddr, time::Duration};
use zeroize::Zeroizing;

/// Names and addresses of a node, at most.
pub const NODE_NAMES_MAX: usize = 32;
/// Bytes of a name, at most: what a common name can hold.
const NAME_BYTES_MAX: usize = 64;

/// A private key as PEM: erased when it is dropped.
pub type PrivateKeyPem = Zeroizing<Vec<u8>>;

/// Whom a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The node's name; also the first of its names.
    pub name: String,
    /// More names by which it is reached.
    pub names: Vec<String>,
    /// Addresses by which it is reached, and from which it connects: etcd compares them.
    pub addresses: Vec<IpAddr>,
}

impl Subject {
    /// A node with its addresses.
    pub fn new(name: impl Into<String>, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { name: name.into(), names: Vec::new(), addresses: addresses.into_iter().collect() }
    }
    fn check(&self) -> Result<(), AuthorityError> {
        let bad = |name: &str, why| Err(AuthorityError::Name { name: name.to_owned(), why });
        if 1 + self.names.len() + self.addresses.len() > NODE_NAMES_MAX {
            return bad(&self.name, BadName::Many);
        }
        for name in std::iter::once(&self.name).chain(&self.names) {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return bad(name, BadName::Length);
            }
            if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) {
                return bad(name, BadName::Letters);
            }
        }
        Ok(())
    }
}

/// A private key that a node has made for itself.
pub struct NodeKey(PKey<Private>);

impl NodeKey {
    /// A new one.
    pub fn new() -> Result<Self, AuthorityError> {
        Ok(Self(new_key()?))
    }
    /// One that was kept.
    pub fn from_pem(pem: &[u8]) -> Result<Self, AuthorityError> {
        PKey::private_key_from_pem(pem).map(Self).map_err(ssl(Doing::ReadKey))
    }
    /// To be kept.
    pub fn to_pem(&self) -> Result<PrivateKeyPem, AuthorityError> {
        self.0.private_key_to_pem_pkcs8().map(Zeroizing::new).map_err(ssl(Doing::Key))
    }
    /// A request for a certificate, as PEM: the key does not leave the node.
    pub fn request(&self) -> Result<Vec<u8>, AuthorityError> {
        let make = || {
            let mut request = X509ReqBuilder::new()?;
            request.set_pubkey(&self.0)?;
            request.sign(&self.0, MessageDigest::sha256())?;
            request.build().to_pem()
        };
        make().map_err(ssl(Doing::Request))
    }
}

/// What a node has to prove who it is, and to recognise others.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The authority's certificate, as PEM.
    pub authority: Vec<u8>,
    /// The node's certificate, as PEM.
    pub certificate: Vec<u8>,
    /// The node's private key, as PEM.
    pub key: PrivateKeyPem,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// A certificate authority with its private key.
pub struct Authority {
    pub(crate) certificate: X509,
    pub(crate) key: PKey<Private>,
}

impl Authority {
    /// A new one for a cluster of this name.
    pub fn create(name: &str, now: UnixSeconds) -> Result<Self, AuthorityError> {
        Subject::new(name, []).check()?;
        let key = new_key()?;
        let make = || {
            let subject = common_name(name)?;
            let mut builder = begin(&subject, &subject, &key, now, AUTHORITY_VALID)?;
            builder.append_extension(BasicConstraints::new().critical().ca().pathlen(0).build()?)?;
            builder.append_extension(KeyUsage::new().critical().key_cert_sign().crl_sign().build()?)?;
            let own = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
            builder.append_extension(own)?;
            builder.sign(&key, MessageDigest::sha256())?;
            Ok(builder.build())
        };
        let certificate = make().map_err(ssl(Doing::Sign))?;
        Ok(Self { certificate, key })
    }
    /// One that was kept.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let certificate = X509::from_pem(certificate).map_err(ssl(Doing::ReadCertificate))?;
        let key = PKey::private_key_from_pem(key).map_err(ssl(Doing::ReadKey))?;
        Ok(Self { certificate, key })
    }
    /// Its certificate, as PEM.
    pub fn certificate_pem(&self) -> Result<Vec<u8>, AuthorityError> {
        self.certificate.to_pem().map_err(ssl(Doing::Sign))
    }
    /// Its private key, to be kept.
    pub fn key_pem(&self) -> Result<PrivateKeyPem, AuthorityError> {
        self.key.private_key_to_pem_pkcs8().map(Zeroizing::new).map_err(ssl(Doing::Key))
    }
    /// By which it is recognised.
    pub fn fingerprint(&self) -> Result<Fingerprint, AuthorityError> {
        fingerprint(&self.certificate)
    }
    /// The identity with another certificate, for the same key, addresses and more of them.
    pub fn renew(&self, old: &Identity, name: &str, more: Vec<IpAddr>, now: UnixSeconds) -> Result<Identity, AuthorityError> {
        let mut addresses = [old.addresses()?, more].concat();
        addresses.sort();
        addresses.dedup();
        let request = NodeKey::from_pem(&old.key)?.request()?;
        Ok(Identity { certificate: self.sign(&request, &Subject::new(name, addresses), now)?, ..old.clone() })
    }
    /// A key and a certificate for a node.
    pub fn issue(&self, subject: &Subject, now: UnixSeconds) -> Result<Identity, AuthorityError> {
        let key = NodeKey::new()?;
        let certificate = self.certify(&key.0, subject, now, NODE_VALID)?;
        Ok(Identity { authority: self.certificate_pem()?, certificate, key: key.to_pem()? })
    }
    /// A certificate, as PEM, for the key of a request ([`NodeKey::request`]). Names that the request holds do not count.
    pub fn sign(&self, request: &[u8], subject: &Subject, now: UnixSeconds) -> Result<Vec<u8>, AuthorityError> {
        let request = X509Req::from_pem(request).map_err(ssl(Doing::Request))?;
        let key = request.public_key().map_err(ssl(Doing::Request))?;
        if !request.verify(&key).map_err(ssl(Doing::Request))? {
            return Err(AuthorityError::Request);
        }
        self.certify(&key, subject, now, NODE_VALID)
    }

    pub(crate) fn certify<T: HasPublic>(
        &self,
        key: &PKeyRef<T>,
        subject: &Subject,
        now: UnixSeconds,
        valid: Duration,
    ) -> Result<Vec<u8>, AuthorityError> {
        subject.check()?;
        let make = || {
            let mut builder = begin(&*common_name(&subject.name)?, self.certificate.subject_name(), key, now, valid)?;
            builder.append_extension(BasicConstraints::new().critical().build()?)?;
            builder.append_extension(KeyUsage::new().critical().digital_signature().build()?)?;
            builder.append_extension(ExtendedKeyUsage::new().server_auth().client_auth().build()?)?;
            let mut names = SubjectAlternativeName::new();
            for name in std::iter::once(&subject.name).chain(&subject.names) {
                names.dns(name);
            }
            for address in &subject.addresses {
                names.ip(&address.to_string());
            }
            let context = builder.x509v3_context(Some(&self.certificate), None);
            let (names, own) = (names.build(&context)?, SubjectKeyIdentifier::new().build(&context)?);
            let above = AuthorityKeyIdentifier::new().keyid(true).build(&context)?;
            for extension in [names, own, above] {
                builder.append_extension(extension)?;
            }
            builder.sign(&self.key, MessageDigest::sha256())?;
            builder.build().to_pem()
        };
        make().map_err(ssl(Doing::Sign))
    }
}

pub(crate) fn fingerprint(certificate: &X509Ref) -> Result<Fingerprint, AuthorityError> {
    let digest = certificate.digest(MessageDigest::sha256()).map_err(ssl(Doing::ReadCertificate))?;
    Ok(Fingerprint((&*digest).try_into().expect("SHA-256 has 32 bytes")))
}

fn new_key() -> Result<PKey<Private>, AuthorityError> {
    let make = || PKey::from_ec_key(EcKey::generate(&*EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?)?);
    make().map_err(ssl(Doing::Key))
}

fn common_name(name: &str) -> Result<X509Name, openssl::error::ErrorStack> {
    let mut builder = X509NameBuilder::new()?;
    builder.append_entry_by_nid(Nid::COMMONNAME, name)?;
    Ok(builder.build())
}

/// What all certificates have.
fn begin<T: HasPublic>(
    subject: &openssl::x509::X509NameRef,
    issuer: &openssl::x509::X509NameRef,
    key: &PKeyRef<T>,
    now: UnixSeconds,
    valid: Duration,
) -> Result<X509Builder, openssl::error::ErrorStack> {
    let mut builder = X509Builder::new()?;
    builder.set_version(2)?;
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    let second = |d: Duration| i64::try_from(d.as_secs()).expect("years fit");
    builder.set_not_before(&*Asn1Time::from_unix(now.0 - second(CLOCK_TOLERANCE))?)?;
    builder.set_not_after(&*Asn1Time::from_unix(now.0 + second(valid))?)?;
    Ok(builder)
}
