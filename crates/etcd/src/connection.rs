//! One connection to one member.
//!
//! Invariant: it is given out only after its member has answered on it. So a member that hangs, has no leader, or refuses our certificate is
//! noticed before a request that matters is sent.

use crate::error::{ConnectError, EtcdError, Lost, short};
use crate::grpc::{Answers, frame};
use crate::message::{Empty, StatusResponse};
use crate::{CONNECT_MAX, Endpoint, STREAM_QUEUE_MAX, Version, tls};
use http_body_util::channel::{Channel, Sender};
use hyper::{
    Request,
    body::{Bytes, Frame},
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use openssl::ssl::SslConnector;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

type Body = Channel<Bytes>;

/// A method of etcd's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method(pub &'static str);

/// See the head of this file. Clones are the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub endpoint: Endpoint,
    /// What the member said of itself.
    pub status: StatusResponse,
    sender: SendRequest<Body>,
    /// Why it ended.
    ended: Arc<Mutex<Option<String>>>,
}

/// What is sent on a stream.
pub(crate) type Requests = Sender<Bytes>;

impl Connection {
    /// Connects, encrypts, and has the member answer.
    pub async fn open(endpoint: &Endpoint, connector: Option<&SslConnector>) -> Result<Self, ConnectError> {
        let until = Instant::now() + CONNECT_MAX;
        timeout_at(until, Self::dial(endpoint, connector)).await.unwrap_or(Err(ConnectError::TimedOut))
    }

    async fn dial(endpoint: &Endpoint, connector: Option<&SslConnector>) -> Result<Self, ConnectError> {
        let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let address = found.map_err(|e| ConnectError::Name(short(&e.to_string())))?.next();
        let address = address.ok_or_else(|| ConnectError::Name("it has no address".into()))?;
        let tcp = TcpStream::connect(address).await.map_err(|e| ConnectError::Tcp(short(&e.to_string())))?;
        tcp.set_nodelay(true).map_err(|e| ConnectError::Tcp(short(&e.to_string())))?;
        let ended = Arc::new(Mutex::new(None));
        let sender = match connector {
            Some(connector) => start(TokioIo::new(tls::connect(connector, endpoint, tcp).await?), ended.clone()).await?,
            None => start(TokioIo::new(tcp), ended.clone()).await?,
        };
        let mut connection = Self { endpoint: endpoint.clone(), status: StatusResponse::default(), sender, ended };
        connection.status = connection.introduce().await?;
        Ok(connection)
    }

    /// The member's answer to "who are you", and whether it is used.
    async fn introduce(&self) -> Result<StatusResponse, ConnectError> {
        let until = Instant::now() + CONNECT_MAX;
        let status: StatusResponse = match self.call(Method("/etcdserverpb.Maintenance/Status"), &Empty {}, until).await {
            Ok(status) => status,
            Err(EtcdError::Unknown(Lost::Connection(text)) | EtcdError::Own(text)) => {
                let reason = self.ended.lock().unwrap_or_else(|e| e.into_inner()).clone();
                return Err(ConnectError::Http(reason.unwrap_or(text)));
            }
            Err(EtcdError::Refused(crate::Refusal::NoLeader)) => return Err(ConnectError::NoLeader),
            Err(error) => return Err(ConnectError::Answer(error.to_string())),
        };
        status.version.parse::<Version>()?.check()?;
        if status.is_learner {
            return Err(ConnectError::Learner);
        }
        if status.leader == 0 {
            return Err(ConnectError::NoLeader);
        }
        Ok(status)
    }

    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
    /// Whether two are the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ended, &other.ended)
    }

    /// One request, one answer.
    pub async fn call<Q: prost::Message, A: prost::Message + Default>(
        &self,
        method: Method,
        request: &Q,
        until: Instant,
    ) -> Result<A, EtcdError> {
        let (requests, body) = Channel::new(1);
        let mut requests = requests;
        if requests.send(Frame::data(Bytes::from(frame(request)))).await.is_err() {
            return Err(EtcdError::Unreachable(Default::default()));
        }
        drop(requests);
        let sent = self.send(method, body, until).await?;
        let answer = async {
            let mut answers = Answers::new(sent.await?)?;
            let answer = answers.next::<A>().await?.ok_or(EtcdError::Unknown(Lost::Unreadable))?;
            // The status comes after the answer, and counts.
            match answers.next::<A>().await? {
                None => Ok(answer),
                Some(_) => Err(EtcdError::Unknown(Lost::Unreadable)),
            }
        };
        timeout_at(until, answer).await.unwrap_or(Err(EtcdError::Unknown(Lost::TimedOut)))
    }

    /// A stream of requests, of which the first is there, and one of answers.
    pub async fn stream_with(&self, method: Method, first: Bytes, until: Instant) -> Result<(Requests, Answers), EtcdError> {
        let (mut requests, body) = Channel::new(STREAM_QUEUE_MAX);
        if requests.send(Frame::data(first)).await.is_err() {
            return Err(EtcdError::Unreachable(Default::default()));
        }
        let sent = self.send(method, body, until).await?;
        let answer = async { Answers::new(sent.await?) };
        let answers = timeout_at(until, answer).await.unwrap_or(Err(EtcdError::Unknown(Lost::TimedOut)))?;
        Ok((requests, answers))
    }

    /// Begins a request, when there is room for one. An error of this function: it was not sent.
    async fn send(
        &self,
        method: Method,
        body: Body,
        until: Instant,
    ) -> Result<impl Future<Output = Result<hyper::Response<hyper::body::Incoming>, EtcdError>> + use<>, EtcdError> {
        let not_sent = |error: ConnectError| EtcdError::Unreachable(crate::Unreachable(vec![(self.endpoint.clone(), error)]));
        let mut sender = self.sender.clone();
        match timeout_at(until, sender.ready()).await {
            Err(_) => return Err(not_sent(ConnectError::TimedOut)),
            Ok(Err(error)) => return Err(not_sent(ConnectError::Http(short(&error.to_string())))),
            Ok(Ok(())) => {}
        }
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        let left_ms = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)).as_millis();
        let request = Request::post(format!("{scheme}://{}{}", self.endpoint.authority(), method.0))
            .version(hyper::Version::HTTP_2)
            .header("content-type", "application/grpc+proto")
            .header("te", "trailers")
            // A member without a leader refuses at once, and ends its watches.
            .header("hasleader", "true");
        let request = if method.is_endless() { request } else { request.header("grpc-timeout", format!("{left_ms}m")) };
        let request = request.body(body).map_err(|e| not_sent(ConnectError::Http(short(&e.to_string()))))?;
        let endpoint = self.endpoint.clone();
        Ok(async move {
            sender.try_send_request(request).await.map_err(|mut failed| {
                let text = short(&failed.error().to_string());
                match failed.take_message() {
                    Some(_) => EtcdError::Unreachable(crate::Unreachable(vec![(endpoint, ConnectError::Http(text))])),
                    None => EtcdError::Unknown(Lost::Connection(text)),
                }
            })
        })
    }
}

impl Method {
    fn is_endless(self) -> bool {
        matches!(self.0, WATCH | LEASE_KEEP_ALIVE | SNAPSHOT)
    }
}

pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(crate) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
pub(crate) const SNAPSHOT: &str = "/etcdserverpb.Maintenance/Snapshot";

async fn start<T>(io: TokioIo<T>, ended: Arc<Mutex<Option<String>>>) -> Result<SendRequest<Body>, ConnectError>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let handshake = Builder::new(TokioExecutor::new()).timer(TokioTimer::new()).handshake(io).await;
    let (sender, connection) = handshake.map_err(|e| ConnectError::Http(short(&e.to_string())))?;
    // Ends with the last clone of `sender`, or when the other side ends it.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            let mut text = error.to_string();
            let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
            while let Some(error) = cause {
                text += &format!(": {error}");
                cause = error.source();
            }
            *ended.lock().unwrap_or_else(|e| e.into_inner()) = Some(short(&text));
        }
    });
    Ok(sender)
}
