//! An identity in TLS: what a node shows to others, and whom it believes.
//!
//! Invariant: nobody is believed but the cluster's authority; those of the system are not.
//! Never: opens a connection.

use crate::Identity;
use openssl::{
    error::ErrorStack,
    pkey::PKey,
    ssl::SslContextBuilder,
    x509::{X509, store::X509StoreBuilder},
};

impl Identity {
    /// Has connections show this identity, and believe the cluster's authority alone. Gives the authority's certificate.
    pub fn configure(&self, context: &mut SslContextBuilder) -> Result<X509, ErrorStack> {
        let authority = X509::from_pem(&self.authority)?;
        let mut store = X509StoreBuilder::new()?;
        store.add_cert(authority.clone())?;
        context.set_verify_cert_store(store.build())?;
        context.set_certificate(&*X509::from_pem(&self.certificate)?)?;
        context.set_private_key(&*PKey::private_key_from_pem(&self.key)?)?;
        context.check_private_key()?;
        Ok(authority)
    }
}
