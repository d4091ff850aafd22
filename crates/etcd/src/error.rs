//! Why etcd did not do it, and whether it may have.
//!
//! ```text
//!             ┌ Unreachable, Refused, Own ── it did not happen
//! EtcdError ──┤
//!             └ Unknown, NoSpace ─────────── it may have happened
//! ```
//!
//! Invariant: what is not known to mean "it did not happen" means "it may have".

use crate::{BadVersion, Endpoint};
use std::fmt;

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No endpoint took the request. It did not happen.
    #[error("no endpoint of etcd can be reached: {0}")]
    Unreachable(Unreachable),
    /// The server refused. It did not happen.
    #[error("etcd refuses: {0}")]
    Refused(Refusal),
    /// The request was sent, and what became of it is not known.
    #[error("what etcd did is not known: {0}")]
    Unknown(Lost),
    /// The quota is reached. It may have happened all the same: the request that reaches it is carried out, and answered with this.
    #[error("etcd's store has reached its quota; make room (docs/etcd.md)")]
    NoSpace,
    /// The client could not begin: its certificates are not usable. It did not happen.
    #[error("this node's certificates cannot be used: {0}")]
    Own(String),
}

impl EtcdError {
    /// Whether it is certain that nothing was done.
    pub const fn did_not_happen(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Refused(_) | Self::Own(_))
    }
    /// Whether another endpoint, or the same one a little later, may do it.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            // The next answer to the same would be as large.
            Self::Unknown(lost) => !matches!(lost, Lost::TooLarge | Lost::Unreadable),
            Self::Refused(refusal) => matches!(refusal, Refusal::NoLeader | Refusal::TooManyRequests | Refusal::Learner),
            Self::NoSpace | Self::Own(_) => false,
        }
    }
}

/// What was tried, endpoint by endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreachable(pub Vec<(Endpoint, ConnectError)>);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("there was no time to try one");
        }
        for (n, (endpoint, error)) in self.0.iter().enumerate() {
            write!(f, "{}{endpoint}: {error}", if n == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Why a connection is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("its name cannot be resolved ({0})")]
    Name(String),
    /// TCP.
    #[error("{0}")]
    Tcp(String),
    /// It did not answer in time.
    #[error("it does not answer")]
    TimedOut,
    /// The server's certificate is refused.
    #[error("its certificate is refused: {0}")]
    Certificate(CertificateFault),
    /// The server refuses this node's certificate.
    #[error("it refuses this node's certificate ({0}): it is of another cluster, or not valid by the clock there")]
    OwnCertificate(String),
    /// Encryption failed otherwise.
    #[error("TLS failed ({0})")]
    Tls(String),
    /// It does not speak HTTP/2, or ended the connection. With TLS 1.3 that is also what a refused certificate may look like: the server says why,
    /// and what we send meanwhile may have the system throw that away.
    #[error("it ended the connection without an answer ({0}); if others can use it, it may not accept this node's certificate")]
    Http(String),
    /// Its version is not used.
    #[error("{0}")]
    Version(#[from] BadVersion),
    /// It has no leader, so it can do nothing.
    #[error("it has no leader")]
    NoLeader,
    /// It does not vote yet, and so does not serve.
    #[error("it is a learner, which serves nobody")]
    Learner,
    /// It answered with an error.
    #[error("it answers with an error ({0})")]
    Answer(String),
}

impl ConnectError {
    /// How a connection ended, in OpenSSL's words: with TLS 1.3 the server refuses a certificate after the handshake.
    pub(crate) fn of_end(text: String) -> Self {
        const ALERTS: [&str; 6] = [
            "bad certificate",
            "unknown ca",
            "certificate expired",
            "certificate unknown",
            "certificate required",
            "unsupported certificate",
        ];
        let refuses = text.contains("alert") && ALERTS.iter().any(|alert| text.contains(alert));
        if refuses { Self::OwnCertificate(text) } else { Self::Http(text) }
    }
}

/// Why a server's certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// Of another authority.
    #[error("it is of another authority: this is another cluster")]
    Authority,
    /// Not valid any more.
    #[error("it is not valid any more, or this node's clock is ahead")]
    Expired,
    /// Not valid yet.
    #[error("it is not valid yet, or this node's clock is behind")]
    NotYetValid,
    /// For another name or address.
    #[error("it is for another name or address")]
    Name,
    /// Something else.
    #[error("{0}")]
    Other(String),
}

/// What the server refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No leader is elected just now.
    #[error("it has no leader")]
    NoLeader,
    /// It has too much to do.
    #[error("it has too much to do")]
    TooManyRequests,
    /// The member does not vote yet.
    #[error("the member is a learner")]
    Learner,
    /// The revision is compacted away.
    #[error("the revision is compacted away")]
    Compacted,
    /// The revision has not been yet.
    #[error("the revision has not been yet")]
    FutureRevision,
    /// There is no such lease.
    #[error("there is no such lease")]
    LeaseNotFound,
    /// A lease's time is too long.
    #[error("the lease's time is too long")]
    LeaseTtl,
    /// The request is too large.
    #[error("the request is too large")]
    TooLarge,
    /// A transaction has too many operations: the server was started with a lower limit.
    #[error("the transaction has too many operations")]
    TooManyOperations,
    /// The user, password or token is wrong.
    #[error("it does not accept who we are")]
    NotAuthenticated,
    /// The user may not do this.
    #[error("it does not permit this")]
    PermissionDenied,
    /// The members' stores differ.
    #[error("its members disagree about what is stored: stop, and restore a backup")]
    Corrupt,
    /// There is no such member.
    #[error("there is no such member")]
    MemberNotFound,
    /// The member, or its address, is there already.
    #[error("the member or its address is there already")]
    MemberExists,
    /// Too few members have started for this change.
    #[error("too few of its members are up for this")]
    NotEnoughStarted,
    /// The learner has not caught up.
    #[error("the learner has not caught up yet")]
    LearnerNotReady,
    /// There is a learner already.
    #[error("there is a learner already")]
    TooManyLearners,
    /// Something else that says that nothing was done.
    #[error("{message} (status {code})")]
    Other {
        /// The gRPC status.
        code: u32,
        /// What the server says.
        message: String,
    },
}

/// How an answer was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Nobody answered in time.
    #[error("no answer in time")]
    TimedOut,
    /// The connection ended.
    #[error("the connection ended ({0})")]
    Connection(String),
    /// The server did not hear from the others in time.
    #[error("the server's request timed out")]
    ServerTimedOut,
    /// Another leader was elected meanwhile.
    #[error("the leader changed")]
    LeaderChanged,
    /// The server stopped meanwhile.
    #[error("the server stopped")]
    Stopped,
    /// An answer that cannot be read.
    #[error("the answer cannot be read")]
    Unreadable,
    /// A message above the limit.
    #[error("the answer is too large")]
    TooLarge,
    /// Something else.
    #[error("{message} (status {code})")]
    Other {
        /// The gRPC status.
        code: u32,
        /// What the server says.
        message: String,
    },
}

/// What gRPC's status codes say by themselves: those of requests that were looked at and not begun.
const REFUSING: [u32; 8] =
    [INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, UNAUTHENTICATED];
const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const ALREADY_EXISTS: u32 = 6;
const PERMISSION_DENIED: u32 = 7;
const FAILED_PRECONDITION: u32 = 9;
const OUT_OF_RANGE: u32 = 11;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// What an answer's status means. etcd's texts are part of its API: its own clients compare them.
pub(crate) fn of_status(code: u32, message: &str) -> EtcdError {
    let text = message.strip_prefix("etcdserver: ").unwrap_or(message);
    let refused = |refusal| EtcdError::Refused(refusal);
    match text {
        "no leader" => refused(Refusal::NoLeader),
        "too many requests" => refused(Refusal::TooManyRequests),
        "rpc not supported for learner" => refused(Refusal::Learner),
        "mvcc: required revision has been compacted" => refused(Refusal::Compacted),
        "mvcc: required revision is a future revision" => refused(Refusal::FutureRevision),
        "mvcc: database space exceeded" => EtcdError::NoSpace,
        "requested lease not found" => refused(Refusal::LeaseNotFound),
        "too large lease TTL" => refused(Refusal::LeaseTtl),
        "request is too large" => refused(Refusal::TooLarge),
        "too many operations in txn request" => refused(Refusal::TooManyOperations),
        "permission denied" => refused(Refusal::PermissionDenied),
        "corrupt cluster" => refused(Refusal::Corrupt),
        "member not found" => refused(Refusal::MemberNotFound),
        "member ID already exist" | "Peer URLs already exists" => refused(Refusal::MemberExists),
        "re-configuration failed due to not enough started members" | "unhealthy cluster" => refused(Refusal::NotEnoughStarted),
        "can only promote a learner member which is in sync with leader" => refused(Refusal::LearnerNotReady),
        "too many learner members in cluster" => refused(Refusal::TooManyLearners),
        "leader changed" => EtcdError::Unknown(Lost::LeaderChanged),
        "server stopped" => EtcdError::Unknown(Lost::Stopped),
        _ if text.starts_with("request timed out") => EtcdError::Unknown(Lost::ServerTimedOut),
        _ if text.starts_with("grpc: received message larger than max") => refused(Refusal::TooLarge),
        _ if code == UNAUTHENTICATED || text.contains("user name is empty") || text.contains("auth token") => {
            refused(Refusal::NotAuthenticated)
        }
        _ if code == PERMISSION_DENIED => refused(Refusal::PermissionDenied),
        _ if REFUSING.contains(&code) => refused(Refusal::Other { code, message: short(message) }),
        _ => EtcdError::Unknown(Lost::Other { code, message: short(message) }),
    }
}

/// What an error says, and what its causes say that it does not.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text += &format!(": {said}");
        }
        cause = error.source();
    }
    short(&text)
}

/// As much of a text from elsewhere as is kept.
pub(crate) fn short(text: &str) -> String {
    let mut end = text.len().min(crate::limits::TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
