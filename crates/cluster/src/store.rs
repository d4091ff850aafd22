//! What the directory says of what keeps it.
//!
//! Owns: [`EtcdRecord`], [`StoreRecord`]. Invariant: there is one of each at most. Never: knows how etcd is spoken to.

use serde::{Deserialize, Serialize};

/// The etcd that keeps the directory, when somebody else runs it. Every node goes by it, but one that has settings of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdRecord {
    /// Counts the changes of `endpoints`.
    pub endpoints_serial: u64,
    /// Counts the changes of the certificates and the key.
    pub credentials_serial: u64,
    /// As `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The certificates of the authorities that etcd's certificates may be of, as PEM.
    pub authority: String,
    /// The certificate that nodes show, as PEM.
    pub certificate: String,
    /// Its private key, sealed with the cluster's key for secrets.
    pub sealed_key: String,
}

impl EtcdRecord {
    /// There is one at most: this is its id.
    pub const ID: &str = "external";
    /// What its private key is sealed for.
    pub const PURPOSE: &str = "etcd/external";
}

/// The store of the directory that these records lie in. One that was made from a backup is another one: so it is known that they may be old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// Its number: that of the etcd cluster, in hexadecimal digits.
    pub store: String,
}

impl StoreRecord {
    /// There is one at most: this is its id.
    pub const ID: &str = "directory";
    /// Of a store with this number.
    pub fn of(number: u64) -> Self {
        Self { store: format!("{number:x}") }
    }
}
