//! Calls of other nodes' cluster listeners: HTTP/1.1 over TLS.
//!
//! ```text
//!  a node of the cluster:   own certificate, and the other one has to be that node's, by the cluster's authority
//!  a server that joins:     no certificate; the other one is by the authority whose fingerprint is in the token
//! ```
//!
//! Invariants: nothing is sent before the other side has proved who it is; one connection a request; an error says whether it was sent.
//! Never: sends a request a second time.

use super::FormationError;
use crate::cluster_client::*;
use authority::{Fingerprint, Identity};
use base::NodeId;
use directory::record::NodeRecord;
use directory::{EtcdDirectory, Typed};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, body::Bytes, header};
use hyper_util::rt::TokioIo;
use openssl::{
    error::ErrorStack,
    hash::MessageDigest,
    nid::Nid,
    ssl::{Ssl, SslConnector, SslMethod, SslRef, SslVerifyMode, SslVersion},
    x509::X509Ref,
};
use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_openssl::SslStream;

/// Until a connection is there, and both sides have proved who they are.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Why there is no answer, and whether the other side may have begun.
#[derive(Debug)]
pub(super) enum Broken {
    /// It has nothing of the request.
    NotSent(String),
    /// It may have it.
    NoAnswer(String),
}

impl Broken {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::NotSent(why) | Self::NoAnswer(why) => why,
        }
    }
}

/// The node that a certificate was made for.
pub(super) fn node_of(certificate: &X509Ref) -> Option<NodeId> {
    let name = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).next()?;
    name.data().to_string().ok()?.parse().ok()
}

/// What all connections of a node have in common.
fn connector(identity: &Identity) -> Result<SslConnector, ErrorStack> {
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    identity.configure(&mut builder)?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    Ok(builder.build())
}

async fn dial(address: SocketAddr, ssl: Ssl) -> Result<SslStream<TcpStream>, String> {
    let connect = async {
        let tcp = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        let mut stream = SslStream::new(ssl, tcp).map_err(|e| e.to_string())?;
        Pin::new(&mut stream).connect().await.map_err(|e| format!("it does not prove to be of this cluster: {e}"))?;
        Ok(stream)
    };
    timeout(CONNECT_MAX, connect).await.unwrap_or_else(|_| Err(format!("no connection after {} s", CONNECT_MAX.as_secs())))
}

async fn exchange(stream: SslStream<TcpStream>, request: &NodeRequest) -> Result<NodeAnswer, Broken> {
    let not_sent = |e: &dyn std::fmt::Display| Broken::NotSent(e.to_string());
    let mut parts = Request::builder().method(request.method.as_str()).uri(&request.path).header(header::HOST, "basalt");
    if request.body.is_some() {
        parts = parts.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in request.headers() {
        parts = parts.header(name, value);
    }
    let body = Full::new(Bytes::from(request.body.clone().unwrap_or_default()));
    let message = parts.body(body).map_err(|e| not_sent(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| not_sent(&e))?;
    let driver = tokio::spawn(connection);
    let lost = |e: &dyn std::fmt::Display| Broken::NoAnswer(e.to_string());
    let answered = async {
        let response = sender.send_request(message).await.map_err(|e| lost(&e))?;
        let status = response.status().as_u16();
        let [content_type, location] = [header::CONTENT_TYPE, header::LOCATION]
            .map(|name| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned));
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|e| lost(&e))?;
        Ok(NodeAnswer { status, content_type, location, body: body.to_bytes().to_vec() })
    };
    let result = timeout(request.wait, answered).await;
    driver.abort();
    result.unwrap_or_else(|_| Err(Broken::NoAnswer(format!("nothing came within {} s", request.wait.as_secs()))))
}

/// Sends to nodes of the cluster, as one of them.
#[derive(Clone)]
pub(super) struct Sender {
    connector: Arc<Mutex<SslConnector>>,
    directory: Arc<EtcdDirectory>,
}

impl Sender {
    pub(super) fn new(identity: &Identity, directory: Arc<EtcdDirectory>) -> Result<Self, FormationError> {
        Ok(Self { connector: Arc::new(Mutex::new(connector(identity)?)), directory })
    }
    /// This node's certificate was renewed.
    pub(super) fn renew(&self, identity: &Identity) -> Result<(), FormationError> {
        *self.connector.lock().unwrap_or_else(|e| e.into_inner()) = connector(identity)?;
        Ok(())
    }

    pub(super) fn send(&self, node: &str, request: NodeRequest) -> Sending {
        let (this, node) = (self.clone(), node.to_owned());
        Box::pin(async move {
            let (directory, name) = (this.directory.clone(), node.clone());
            let found = tokio::task::spawn_blocking(move || directory.find::<NodeRecord>(&name)).await;
            let record = match found {
                Ok(Ok(record)) => record.map(|r| r.value).filter(NodeRecord::is_member),
                Ok(Err(error)) => return Err(SendError::NotSent { node, why: error.to_string() }),
                Err(_) => None,
            };
            let Some((id, address)) = record.and_then(|r| Some((r.id?, r.address?))) else { return Err(SendError::NoSuchNode { node }) };
            match this.exchange(address, id, &request).await {
                Ok(answer) => Ok(answer),
                Err(Broken::NotSent(why)) => Err(SendError::NotSent { node, why }),
                Err(Broken::NoAnswer(why)) => Err(SendError::NoAnswer { node, why }),
            }
        })
    }

    async fn exchange(&self, address: SocketAddr, id: NodeId, request: &NodeRequest) -> Result<NodeAnswer, Broken> {
        let connector = self.connector.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let ssl = connector.configure().and_then(|c| c.into_ssl(&address.ip().to_string()));
        let stream = dial(address, ssl.map_err(|e| Broken::NotSent(e.to_string()))?).await.map_err(Broken::NotSent)?;
        match stream.ssl().peer_certificate().as_deref().and_then(node_of) {
            Some(there) if there == id => exchange(stream, request).await,
            _ => Err(Broken::NotSent(format!("another node answers at {address}"))),
        }
    }
}

/// Sends to a node of the cluster that has an authority with this fingerprint. For who has no certificate yet.
pub(super) async fn send_unknown(address: SocketAddr, fingerprint: Fingerprint, request: &NodeRequest) -> Result<NodeAnswer, Broken> {
    let prepare = || -> Result<Ssl, ErrorStack> {
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
        // Looked at below, before anything is sent: there is no authority to go by yet, only its fingerprint.
        builder.set_verify(SslVerifyMode::NONE);
        builder.build().configure()?.verify_hostname(false).into_ssl(&address.ip().to_string())
    };
    let ssl = prepare().map_err(|e| Broken::NotSent(e.to_string()))?;
    let stream = dial(address, ssl).await.map_err(Broken::NotSent)?;
    check_unknown(stream.ssl(), fingerprint).map_err(Broken::NotSent)?;
    exchange(stream, request).await
}

/// The other side has shown an authority with this fingerprint, and a certificate that was signed by it.
fn check_unknown(ssl: &SslRef, fingerprint: Fingerprint) -> Result<(), String> {
    let of_another = || "it is of another cluster than the token: its authority has another fingerprint".to_owned();
    let own = ssl.peer_certificate().ok_or_else(of_another)?;
    let chain = ssl.peer_cert_chain().ok_or_else(of_another)?;
    let is_it = |c: &&X509Ref| c.digest(MessageDigest::sha256()).is_ok_and(|d| *d == fingerprint.0);
    let authority = chain.iter().find(is_it).ok_or_else(of_another)?;
    let pem = |c: &X509Ref| c.to_pem().map_err(|e| e.to_string());
    authority::check(&pem(authority)?, &pem(&own)?, super::now()).map_err(|e| e.to_string())
}
