//! One connection to one member.
//!
//! Invariant: it is given out only after its member has answered on it. So a member that hangs, has no leader, or refuses our certificate is
//! noticed before a request that matters is sent.

use crate::error::{ConnectError, EtcdError, Lost, short, with_causes};
use crate::grpc::{Answers, frame};
use crate::message::{Empty, StatusResponse};
use crate::recorded::{Reason, Recorded};
use crate::{CONNECT_MAX, Endpoint, STREAM_QUEUE_MAX, Version, limits::PAGE_BYTES_MAX, tls};
use http_body_util::{
    BodyExt,
    channel::{Channel, Sender},
};
use hyper::{
    Request,
    body::{Bytes, Frame},
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use openssl::ssl::SslConnector;
use std::time::Duration;
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
    /// Whether the member is to refuse what it cannot do just now.
    wants_leader: bool,
    reason: Reason,
}

/// What is sent on a stream.
pub(crate) type Requests = Sender<Bytes>;

impl Connection {
    /// Connects, encrypts, and has the member answer: one that can do something.
    pub async fn open(endpoint: &Endpoint, connector: Option<&SslConnector>) -> Result<Self, ConnectError> {
        let connection = Self::open_any(endpoint, connector).await?;
        connection.status.version.parse::<Version>()?.check()?;
        if connection.status.is_learner {
            return Err(ConnectError::Learner);
        }
        if connection.status.leader == 0 {
            return Err(ConnectError::NoLeader);
        }
        Ok(Self { wants_leader: true, ..connection })
    }

    /// The same with any member, as long as it answers.
    pub async fn open_any(endpoint: &Endpoint, connector: Option<&SslConnector>) -> Result<Self, ConnectError> {
        let until = Instant::now() + CONNECT_MAX;
        timeout_at(until, Self::dial(endpoint, connector)).await.unwrap_or(Err(ConnectError::TimedOut))
    }

    async fn dial(endpoint: &Endpoint, connector: Option<&SslConnector>) -> Result<Self, ConnectError> {
        let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let address = found.map_err(|e| ConnectError::Name(short(&e.to_string())))?.next();
        let address = address.ok_or_else(|| ConnectError::Name("it has no address".into()))?;
        let tcp = TcpStream::connect(address).await.map_err(|e| ConnectError::Tcp(short(&e.to_string())))?;
        tcp.set_nodelay(true).map_err(|e| ConnectError::Tcp(short(&e.to_string())))?;
        let reason = Reason::default();
        let sender = match connector {
            Some(connector) => start(tls::connect(connector, endpoint, tcp).await?, &reason).await?,
            None => start(tcp, &reason).await?,
        };
        let mut connection = Self { endpoint: endpoint.clone(), status: StatusResponse::default(), sender, wants_leader: false, reason };
        connection.status = connection.introduce().await?;
        Ok(connection)
    }

    /// The member's answer to "who are you".
    async fn introduce(&self) -> Result<StatusResponse, ConnectError> {
        let until = Instant::now() + CONNECT_MAX;
        let status: StatusResponse = match self.call(Method("/etcdserverpb.Maintenance/Status"), &Empty {}, until).await {
            Ok(status) => status,
            Err(EtcdError::Unknown(Lost::Connection(text))) => return Err(ConnectError::of_end(self.reason.get().unwrap_or(text))),
            Err(EtcdError::Unreachable(_)) => {
                return Err(ConnectError::of_end(self.reason.get().unwrap_or_else(|| "it takes no request".into())));
            }
            Err(EtcdError::Refused(crate::Refusal::NoLeader)) => return Err(ConnectError::NoLeader),
            Err(error) => return Err(ConnectError::Answer(error.to_string())),
        };
        Ok(status)
    }

    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
    /// Whether two are the same.
    pub fn is(&self, other: &Self) -> bool {
        self.reason.is(&other.reason)
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

    /// A page of the member's plain HTTP, as text.
    pub async fn get(&self, path: &str, until: Instant) -> Result<String, EtcdError> {
        let lost = |text: &str| EtcdError::Unknown(Lost::Connection(short(text)));
        let (requests, body) = Channel::new(1);
        drop(requests);
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        let request = Request::get(format!("{scheme}://{}{path}", self.endpoint.authority())).version(hyper::Version::HTTP_2).body(body);
        let request = request.map_err(|e| lost(&e.to_string()))?;
        let mut sender = self.sender.clone();
        let page = async {
            sender.ready().await.map_err(|e| lost(&with_causes(&e)))?;
            let answer = sender.send_request(request).await.map_err(|e| lost(&with_causes(&e)))?;
            let page = http_body_util::Limited::new(answer.into_body(), PAGE_BYTES_MAX).collect().await;
            Ok(String::from_utf8_lossy(&page.map_err(|e| lost(&e.to_string()))?.to_bytes()).into_owned())
        };
        timeout_at(until, page).await.unwrap_or(Err(EtcdError::Unknown(Lost::TimedOut)))
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
            Ok(Err(error)) => return Err(not_sent(ConnectError::Http(with_causes(&error)))),
            Ok(Ok(())) => {}
        }
        let scheme = if self.endpoint.tls { "https" } else { "http" };
        let left_ms = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)).as_millis();
        let request = Request::post(format!("{scheme}://{}{}", self.endpoint.authority(), method.0))
            .version(hyper::Version::HTTP_2)
            .header("content-type", "application/grpc+proto")
            .header("te", "trailers");
        // A member without a leader refuses at once, and ends its watches.
        let request = if self.wants_leader { request.header("hasleader", "true") } else { request };
        let request = if method.is_endless() { request } else { request.header("grpc-timeout", format!("{left_ms}m")) };
        let request = request.body(body).map_err(|e| not_sent(ConnectError::Http(short(&e.to_string()))))?;
        let endpoint = self.endpoint.clone();
        Ok(async move {
            sender.try_send_request(request).await.map_err(|mut failed| {
                let text = with_causes(failed.error());
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

async fn start<T>(inner: T, reason: &Reason) -> Result<SendRequest<Body>, ConnectError>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(Recorded { inner, reason: reason.clone() });
    let handshake = Builder::new(TokioExecutor::new()).timer(TokioTimer::new()).handshake(io).await;
    let (sender, connection) = handshake.map_err(|e| ConnectError::of_end(with_causes(&e)))?;
    // Ends with the last clone of `sender`, or when the other side ends it. Whoever uses it hears of that.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
