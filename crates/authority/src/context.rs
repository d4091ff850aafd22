//! An identity in TLS: what a node shows to others, and whom it believes.
//!
//! Invariant: nobody is believed but the identity's authority; those of the system are not.
//! Never: opens a connection.

use crate::{Identity, check::read_key};
use openssl::{
    error::ErrorStack,
    ssl::SslContextBuilder,
    x509::{X509, store::X509StoreBuilder},
};

impl Identity {
    /// Has connections show this identity, and believe its authority alone. Gives the authority's certificate, the first where there are several.
    pub fn configure(&self, context: &mut SslContextBuilder) -> Result<X509, ErrorStack> {
        let authority = X509::from_pem(&self.authority)?;
        let mut store = X509StoreBuilder::new()?;
        for one in X509::stack_from_pem(&self.authority)? {
            store.add_cert(one)?;
        }
        context.set_verify_cert_store(store.build())?;
        context.set_certificate(&*X509::from_pem(&self.certificate)?)?;
        // What stands between the certificate and its authority.
        for between in X509::stack_from_pem(&self.certificate)?.into_iter().skip(1) {
            context.add_extra_chain_cert(between)?;
        }
        context.set_private_key(&*read_key(&self.key)?)?;
        context.check_private_key()?;
        Ok(authority)
    }
}
