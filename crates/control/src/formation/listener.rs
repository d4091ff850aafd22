//! The listener for other nodes: HTTP/1.1 over TLS 1.3.
//!
//! ```text
//!  without a certificate                    /cluster/v1/join, with the secret of a token
//!  with one of a member of the cluster      the REST API, and a renewed certificate for itself
//!  with another, or of a removed node       refused
//! ```
//!
//! Owns: accepting, who the other side is, what it may call.
//! Invariants: a certificate that is not by the cluster's authority ends the handshake; a slow or broken handshake holds up nobody else; who has
//! no certificate takes a bounded room for a bounded time.
//! Never: decides who joins; that is [`super::admit`].

use super::client::node_of;
use super::wire::{CERTIFICATE_PATH, CertificateAnswer, CertificateCall, JOIN_PATH, JoinAnswer, JoinCall};
use super::{Formation, FormationError};
use crate::api::{self, ServeError, Served};
use crate::{Code, Control, Problem};
use authority::Identity;
use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State, connect_info::Connected},
    middleware::{self, Next},
    response::Response,
    routing::post,
    serve::IncomingStream,
};
use base::NodeId;
use openssl::{
    error::ErrorStack,
    ssl::{Ssl, SslAcceptor, SslMethod, SslVerifyMode, SslVersion},
};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Sleep, sleep, timeout},
};
use tokio_openssl::SslStream;

/// Handshakes under way, and connections without a certificate, at once.
const HANDSHAKES_MAX: usize = 64;
/// A connection without a certificate lives that long, at most: a server that joins waits for its member of etcd.
const UNKNOWN_MAX: Duration = Duration::from_secs(120);
/// A handshake takes that long, at most.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// After an error that concerns no connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that wait to be served.
const ACCEPTED_MAX: usize = 16;
/// The largest call to join, in bytes.
const JOIN_BYTES_MAX: usize = 64 << 10;
/// Servers that join at once.
const JOINS_MAX: usize = 4;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The node that has shown its certificate.
    pub node: Option<NodeId>,
    /// Where it comes from.
    pub from: SocketAddr,
}

impl Connected<IncomingStream<'_, Accepting>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Accepting>) -> Self {
        let certificate = stream.io().stream.ssl().peer_certificate();
        Self { node: certificate.as_deref().and_then(node_of), from: *stream.remote_addr() }
    }
}

/// A connection that has got through its handshake. One without a certificate has an end, and takes room until then.
pub struct Accepted {
    stream: SslStream<TcpStream>,
    unknown: Option<(Pin<Box<Sleep>>, OwnedSemaphorePermit)>,
}

impl Accepted {
    fn new(stream: SslStream<TcpStream>, room: OwnedSemaphorePermit) -> Self {
        let unknown = stream.ssl().peer_certificate().is_none().then(|| (Box::pin(sleep(UNKNOWN_MAX)), room));
        Self { stream, unknown }
    }
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.unknown.as_mut().is_some_and(|(end, _)| end.as_mut().poll(cx).is_ready())
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Connections that have got through their handshake.
pub struct Accepting {
    ready: mpsc::Receiver<(Accepted, SocketAddr)>,
    local: SocketAddr,
}

impl axum::serve::Listener for Accepting {
    type Io = Accepted;
    type Addr = SocketAddr;
    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The task that accepts has ended: nothing comes any more.
            None => std::future::pending().await,
        }
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

fn acceptor(identity: &Identity) -> Result<SslAcceptor, ErrorStack> {
    let mut builder = SslAcceptor::mozilla_modern_v5(SslMethod::tls_server())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    let authority = identity.configure(&mut builder)?;
    // Who joins recognises the authority by its fingerprint, so it has to be shown.
    builder.add_extra_chain_cert(authority)?;
    // A client may come without a certificate; one that it shows has to be right.
    builder.set_verify(SslVerifyMode::PEER);
    builder.set_session_id_context(b"basalt cluster")?;
    Ok(builder.build())
}

/// What a connection is accepted with. `identity`: this node's, which is renewed now and then.
async fn accept(
    listener: TcpListener,
    mut acceptor: SslAcceptor,
    mut identity: watch::Receiver<Identity>,
    ready: mpsc::Sender<(Accepted, SocketAddr)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    while !ready.is_closed() {
        let Ok(room) = handshakes.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let Ok((tcp, from)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if identity.has_changed().unwrap_or(false) {
            match self::acceptor(&identity.borrow_and_update()) {
                Ok(renewed) => acceptor = renewed,
                Err(error) => tracing::error!(%error, "the listener for other nodes cannot use this node's renewed certificate"),
            }
        }
        let (context, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            let shake = async {
                let mut stream = SslStream::new(Ssl::new(context.context())?, tcp)?;
                Pin::new(&mut stream).accept().await.map(|()| stream)
            };
            match timeout(HANDSHAKE_MAX, shake).await {
                Ok(Ok(stream)) => drop(ready.send((Accepted::new(stream, room), from)).await),
                Ok(Err(error)) => tracing::debug!(%from, %error, "a connection from another node is refused"),
                Err(_) => tracing::debug!(%from, "a handshake was not finished in time"),
            }
        });
    }
}

#[derive(Clone)]
struct Doors {
    control: Arc<Control>,
    formation: Arc<Formation>,
    joins: Arc<Semaphore>,
}

/// Serves other nodes where the membership says.
pub async fn serve(formation: Arc<Formation>, control: Arc<Control>) -> Result<Option<Served>, ServeError> {
    let Some(of) = formation.of() else { return Ok(None) };
    let address = of.file().address;
    let fail = |error: FormationError| ServeError::Cluster(Box::new(error));
    let identity = of.identity.subscribe();
    let acceptor = acceptor(&of.identity()).map_err(|e| fail(e.into()))?;
    let listener = TcpListener::bind(address).await.map_err(|cause| fail(FormationError::Listen { address, cause }))?;
    let local = listener.local_addr().map_err(|cause| fail(FormationError::Listen { address, cause }))?;
    let (sender, ready) = mpsc::channel(ACCEPTED_MAX);
    let accepting = tokio::spawn(accept(listener, acceptor, identity, sender));
    let doors = Doors { control: control.clone(), formation: formation.clone(), joins: Arc::new(Semaphore::new(JOINS_MAX)) };
    let signs = Router::new().route(CERTIFICATE_PATH, post(sign)).layer(DefaultBodyLimit::max(JOIN_BYTES_MAX)).with_state(doors.clone());
    let guarded = api::cluster_router(control).merge(signs).layer(middleware::from_fn_with_state(doors.clone(), members_only));
    let joins = Router::new().route(JOIN_PATH, post(join)).layer(DefaultBodyLimit::max(JOIN_BYTES_MAX)).with_state(doors);
    let router = joins.merge(guarded);
    let (stop, mut stopped) = watch::channel(false);
    let serving = axum::serve(Accepting { ready, local }, router.into_make_service_with_connect_info::<Caller>());
    let serving = serving.with_graceful_shutdown(async move { drop(stopped.wait_for(|s| *s).await) });
    let serving = tokio::spawn(async move { drop(serving.await) });
    Ok(Some(Served::new(local, stop, vec![serving, accepting])))
}

/// The API is for nodes of the cluster.
async fn members_only(
    State(doors): State<Doors>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Some(id) = caller.node else {
        let message = "this listener is for nodes of the cluster";
        return Err(Problem::new(Code::Unauthorized, message, "use the API of the node (its Unix socket)"));
    };
    let control = doors.control.clone();
    let known = tokio::task::spawn_blocking(move || control.member_with_id(id)).await;
    match known.unwrap_or(Ok(None))? {
        Some(_) => Ok(next.run(request).await),
        None => {
            let message = format!("node {id} was removed from the cluster, and its certificate is refused");
            Err(Problem::new(Code::Unauthorized, message, "give the server an empty data directory, and let it join anew"))
        }
    }
}

async fn join(
    State(doors): State<Doors>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Json(call): Json<JoinCall>,
) -> Result<Json<JoinAnswer>, Problem> {
    let Ok(_room) = doors.joins.acquire().await else { return Err(ending()) };
    let runtime = tokio::runtime::Handle::current();
    let admitted = tokio::task::spawn_blocking(move || doors.formation.admit(&doors.control, &call, caller.from.ip(), &runtime)).await;
    admitted.unwrap_or_else(|_| Err(ending())).map(Json)
}

/// A node of the cluster that cannot sign itself wants its certificate renewed.
async fn sign(
    State(doors): State<Doors>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Json(call): Json<CertificateCall>,
) -> Result<Json<CertificateAnswer>, Problem> {
    let Some(node) = caller.node else { return Err(ending()) };
    let signed = tokio::task::spawn_blocking(move || doors.formation.sign_for(&doors.control, node, caller.from.ip(), &call)).await;
    signed.unwrap_or_else(|_| Err(ending())).map(Json)
}

fn ending() -> Problem {
    Problem::new(Code::Unavailable, "the node is ending", "try again in a moment")
}
