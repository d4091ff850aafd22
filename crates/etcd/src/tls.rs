//! TLS to members: both sides prove who they are with a certificate of the cluster's authority.
//!
//! Invariants: only the cluster's authority counts, not those of the system; the server's certificate must name the host or address that was
//! dialled. Never: goes on without.

use crate::error::short;
use crate::{CertificateFault, ConnectError, Endpoint, EtcdError};
use authority::Identity;
use openssl::{
    error::ErrorStack,
    ssl::{SslConnector, SslMethod, SslVersion},
    x509::X509VerifyResult,
};
use std::pin::Pin;
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

/// What all connections have in common.
pub(crate) fn connector(identity: &Identity) -> Result<SslConnector, EtcdError> {
    let make = || -> Result<SslConnector, ErrorStack> {
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        identity.configure(&mut builder)?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_alpn_protos(b"\x02h2")?;
        Ok(builder.build())
    };
    make().map_err(|cause| EtcdError::Own(short(&cause.to_string())))
}

/// Encrypts a connection.
pub(crate) async fn connect(connector: &SslConnector, endpoint: &Endpoint, tcp: TcpStream) -> Result<SslStream<TcpStream>, ConnectError> {
    let failed = |cause: &dyn std::fmt::Display| ConnectError::Tls(short(&cause.to_string()));
    let ssl = connector.configure().and_then(|c| c.into_ssl(&endpoint.host)).map_err(|e| failed(&e))?;
    let mut stream = SslStream::new(ssl, tcp).map_err(|e| failed(&e))?;
    match Pin::new(&mut stream).connect().await {
        Ok(()) => Ok(stream),
        Err(error) => match fault(stream.ssl().verify_result()) {
            Some(fault) => Err(ConnectError::Certificate(fault)),
            None => Err(match ConnectError::of_end(short(&error.to_string())) {
                ConnectError::Http(text) => ConnectError::Tls(text),
                refused => refused,
            }),
        },
    }
}

/// OpenSSL's reasons, as X509_STORE_CTX_get_error(3) has them.
fn fault(result: X509VerifyResult) -> Option<CertificateFault> {
    Some(match result.as_raw() {
        0 => return None,
        2 | 7 | 18..=21 | 24 => CertificateFault::Authority,
        9 => CertificateFault::NotYetValid,
        10 => CertificateFault::Expired,
        62 | 64 => CertificateFault::Name,
        _ => CertificateFault::Other(result.error_string().to_owned()),
    })
}
