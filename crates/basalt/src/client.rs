//! A client of the REST API: HTTP/1.1 over the Unix socket, or over TCP with a token.
//!
//! Invariant: one connection a request; an answer has at most [`ANSWER_BYTES_MAX`] and a time limit: the user's, else
//! [`READ_WAIT`] or [`CHANGE_WAIT`].

use control::{Code, Problem};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, body::Bytes, header};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

const ANSWER_BYTES_MAX: usize = 256 << 20;
/// What is only shown is there at once, or the daemon hangs.
const READ_WAIT: Duration = Duration::from_secs(30);
/// Formatting a group or deleting a large volume may take a while.
const CHANGE_WAIT: Duration = Duration::from_secs(600);
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The daemon cannot be reached.
    #[error("{message}")]
    Unreachable {
        /// Why.
        message: String,
        /// What to do.
        action: String,
    },
    /// The daemon says why not.
    #[error("{0}")]
    Problem(Problem),
    /// Something here failed.
    #[error("{0}")]
    Local(String),
    /// The lab did not do it.
    #[error("{0}")]
    Lab(#[from] lab::LabError),
    /// The machine that connects does not have the settings that Basalt wants.
    #[error("of this machine's settings, {changes} are to be changed")]
    HostSettings {
        /// How many.
        changes: usize,
    },
}

impl Failure {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::Local(_) => 1,
            Self::Lab(e) => match e {
                lab::LabError::Workload { .. } => 2,
                lab::LabError::Results { .. } => 4,
                lab::LabError::Disk { .. } => 5,
                lab::LabError::Exists { .. } => 5,
                lab::LabError::WrongData { .. } => 6,
                lab::LabError::Failed { .. } | lab::LabError::TooManyFailed { .. } => 8,
                lab::LabError::Engine { .. } | lab::LabError::Stopped => 1,
            },
            Self::HostSettings { .. } => 7,
            Self::Unreachable { .. } => 3,
            Self::Problem(problem) => match problem.code {
                Code::Invalid => 2,
                Code::NotFound => 4,
                Code::Exists | Code::Refused | Code::PolicyNotPossible | Code::NoSpace | Code::Conflict => 5,
                Code::Unauthorized | Code::Unavailable | Code::NotLeader | Code::Unknown | Code::Internal => 1,
            },
        }
    }
    /// Says it on standard error: what is wrong, and on a line of its own what to do.
    pub fn print(&self) {
        eprintln!("basalt: {self}");
        match self {
            Self::Unreachable { action, .. } => eprintln!("  to do: {action}"),
            Self::Problem(problem) => eprintln!("  to do: {}", problem.action),
            Self::Local(_) | Self::Lab(_) | Self::HostSettings { .. } => {}
        }
    }
}

/// A door to the daemon.
pub struct Client {
    api: String,
    token: Option<String>,
    wait: Option<Duration>,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// A client of the API at `api`: a path, or `http://HOST:PORT`. `wait` is the longest time for an answer.
    pub fn new(api: &str, wait: Option<Duration>) -> Result<Self, Failure> {
        if api.starts_with("https://") {
            return Err(Failure::Problem(Problem::invalid("https is not spoken here", "use the Unix socket, or http:// and ssh -L")));
        }
        if let Some(address) = api.strip_prefix("http://")
            && !address.trim_end_matches('/').rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        {
            return Err(Failure::Problem(Problem::invalid(
                format!("'{api}' is no address of an API"),
                "write http://HOST:PORT, or the path of a socket",
            )));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Failure::Local(format!("the command cannot start: {e}")))?;
        Ok(Self { api: api.trim_start_matches("unix:").to_owned(), token: std::env::var("BASALT_TOKEN").ok(), wait, runtime })
    }

    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.call(Method::GET, path, None::<&()>)
    }
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.call(Method::POST, path, Some(body))
    }
    pub fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.call(Method::PATCH, path, Some(body))
    }
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: Option<&impl Serialize>) -> Result<T, Failure> {
        self.call(Method::PUT, path, body)
    }
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.call(Method::DELETE, path, None::<&()>)
    }

    /// The process behind the socket, when it is on this machine.
    pub fn peer(&self) -> Option<u32> {
        let stream = std::os::unix::net::UnixStream::connect(&self.api).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<T, Failure> {
        let bytes = self.exchange(method, path, body)?;
        let bytes = if bytes.is_empty() { b"null" } else { &bytes[..] };
        serde_json::from_slice(bytes)
            .map_err(|e| Failure::Local(format!("the daemon's answer is not understood ({e}); are both of one release?")))
    }

    fn exchange(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<Bytes, Failure> {
        let body = body.map(|b| serde_json::to_vec(b).expect("requests are plain data"));
        let reads = method == Method::GET;
        let wait = self.wait.unwrap_or(if reads { READ_WAIT } else { CHANGE_WAIT });
        let (status, bytes) = self.runtime.block_on(async {
            let answer = tokio::time::timeout(wait, self.send(method, path, body)).await;
            answer.unwrap_or_else(|_| Err(self.silent(wait, reads)))
        })?;
        if status >= 400 {
            let unknown = |_| Failure::Local(format!("the daemon answered with status {status}: {}", String::from_utf8_lossy(&bytes)));
            let mut problem: Problem = serde_json::from_slice(&bytes).map_err(unknown)?;
            if problem.message == control::api::NO_TOKEN {
                problem.action = token_advice(self.token.is_some()).into();
            }
            return Err(Failure::Problem(problem));
        }
        Ok(bytes)
    }

    async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<(u16, Bytes), Failure> {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}")).header(header::HOST, "basalt");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|e| Failure::Local(format!("this request cannot be made: {e}")))?;
        let connect = async {
            match self.api.strip_prefix("http://") {
                Some(address) => TcpStream::connect(address.trim_end_matches('/')).await.map(Io::Tcp),
                None => UnixStream::connect(&self.api).await.map(Io::Unix),
            }
        };
        let io = tokio::time::timeout(CONNECT_WAIT, connect).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        match io.map_err(|e| self.unreachable(&e))? {
            Io::Tcp(stream) => exchange(TokioIo::new(stream), request).await,
            Io::Unix(stream) => exchange(TokioIo::new(stream), request).await,
        }
    }

    fn silent(&self, wait: Duration, reads: bool) -> Failure {
        let message = format!("the daemon at {} took the request and did not answer within {} s", self.api, wait.as_secs_f64());
        let what = if reads { "" } else { "what was asked may still be done: look before you ask again; " };
        let action = format!("{what}see whether it runs (systemctl status basalt) and what its log says; --timeout waits longer");
        Failure::Unreachable { message, action }
    }

    fn unreachable(&self, error: &std::io::Error) -> Failure {
        use std::io::ErrorKind;
        let start = "start it (systemctl start basalt), or name its API with --api or BASALT_API";
        let (why, action) = match error.kind() {
            ErrorKind::NotFound => ("there is no socket".to_owned(), start),
            ErrorKind::ConnectionRefused => ("nobody listens there".to_owned(), start),
            ErrorKind::PermissionDenied => (
                "permission denied".to_owned(),
                "run the command as the daemon's user (sudo), or set api.socket_mode = \"0660\" and join its group",
            ),
            _ => (error.to_string(), start),
        };
        Failure::Unreachable { message: format!("the daemon cannot be reached at {}: {why}", self.api), action: action.into() }
    }
}

enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
}

async fn exchange<S>(io: TokioIo<S>, request: Request<Full<Bytes>>) -> Result<(u16, Bytes), Failure>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let gone = |e: hyper::Error| Failure::Local(format!("the connection to the daemon broke ({e}); see its log"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.map_err(gone)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(gone)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|e| Failure::Local(format!("the answer of the daemon broke off: {e}")))?;
    Ok((status, body.to_bytes()))
}

/// What to do when the API on TCP wants a token.
fn token_advice(given: bool) -> &'static str {
    if given {
        "the token in BASALT_TOKEN is not that of the daemon: export BASALT_TOKEN=$(cat FILE), with the file of its api.token_file"
    } else {
        "put the token into BASALT_TOKEN: export BASALT_TOKEN=$(cat FILE), with the file of the daemon's api.token_file"
    }
}

/// One part of a path, with everything escaped that has a meaning there.
pub fn part(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b':');
    text.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
