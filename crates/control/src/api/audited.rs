//! What administrators do goes into the audit log: who, what, from where, what came of it.
//!
//! Invariants: every request that may change something is noted once, on the node that it was sent to, when it is answered or when nobody waits for the
//! answer any more; nothing secret is.
//! Never: holds a request up.

use super::handler::Why;
use crate::{Problem, audit::Action, engine::Control};
use axum::{
    Json,
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State, connect_info::Connected},
    http::{Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use serde_json::Value;
use std::{net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, UnixListener};

/// The longest text of a member that is noted, in bytes.
const TEXT_BYTES_MAX: usize = 200;
/// Members of a request that are noted.
const MEMBERS_MAX: usize = 16;

/// Who is behind a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Administrator {
    /// A process of this machine, as the kernel says it.
    Local { uid: Option<u32>, pid: Option<i32> },
    /// Who has the token.
    Remote(SocketAddr),
}

impl Connected<IncomingStream<'_, UnixListener>> for Administrator {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let peer = stream.io().peer_cred().ok();
        Self::Local { uid: peer.map(|p| p.uid()), pid: peer.and_then(|p| p.pid()) }
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Administrator {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self::Remote(*stream.remote_addr())
    }
}

impl Administrator {
    /// What it is called, and where it is.
    pub(super) fn names(&self) -> (String, Option<String>) {
        match self {
            Self::Local { uid, pid } => {
                let number = |n: Option<i64>| n.map_or("?".to_owned(), |n| n.to_string());
                (format!("uid {}, pid {}", number(uid.map(i64::from)), number(pid.map(i64::from))), None)
            }
            Self::Remote(peer) => ("the token of api.token_file".into(), Some(peer.to_string())),
        }
    }
}

/// Does a request, and notes it when it may have changed something.
pub(super) async fn audited(State((control, body_bytes_max)): State<(Arc<Control>, usize)>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let (by, peer) = request.extensions().get::<ConnectInfo<Administrator>>().map_or_else(|| ("?".into(), None), |who| who.0.names());
    let (parts, body) = request.into_parts();
    let what = format!("{} {}", parts.method, parts.uri.path_and_query().map_or("/", |path| path.as_str()));
    let Ok(body) = to_bytes(body, body_bytes_max).await else {
        let problem = Problem::invalid("the body is too large, or was cut off", "send a smaller one");
        control.note_action(Action { by, peer, action: what, result: "refused (413): the body is too large, or was cut off".into() });
        return (StatusCode::PAYLOAD_TOO_LARGE, Json(problem)).into_response();
    };
    let said = if holds_secrets(parts.uri.path()) { String::new() } else { members(&body) };
    let mut note = Note { control, by, peer, action: format!("{what}{said}"), result: None };
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let status = response.status().as_u16();
    note.result = Some(match response.extensions().get::<Why>() {
        _ if status < 400 => match response.headers().get(header::LOCATION).and_then(|at| at.to_str().ok()) {
            Some(at) => format!("done: {at}"),
            None => "done".into(),
        },
        Some(Why(why)) => format!("refused ({status}): {why}"),
        None => format!("refused ({status})"),
    });
    response
}

/// An entry that is written when it goes: a client that hangs up does not get round it.
struct Note {
    control: Arc<Control>,
    by: String,
    peer: Option<String>,
    action: String,
    /// None: nobody waited for it.
    result: Option<String>,
}

impl Drop for Note {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| "not known: the client has hung up before the answer".into());
        let (by, action) = (std::mem::take(&mut self.by), std::mem::take(&mut self.action));
        self.control.note_action(Action { by, peer: self.peer.take(), action, result });
    }
}

/// Paths whose requests are made of secrets.
fn holds_secrets(path: &str) -> bool {
    ["dhchap", "chap", "tls-psk", "join"].iter().any(|last| path.rsplit('/').next() == Some(last))
}

/// What a request says, as far as it is short and not secret.
fn members(body: &[u8]) -> String {
    let Ok(Value::Object(all)) = serde_json::from_slice(body) else { return String::new() };
    let secret = |name: &str| ["secret", "psk", "key", "token", "password", "etcd"].iter().any(|word| name.to_lowercase().contains(word));
    let plain = |value: &Value| match value {
        Value::Array(all) => !all.iter().any(|one| one.is_object() || one.is_array()),
        value => !value.is_object() && !value.is_null(),
    };
    let shown = all.iter().filter(|(name, value)| !secret(name) && name.len() <= TEXT_BYTES_MAX && plain(value));
    let text = |(name, value): (&String, &Value)| {
        let value = value.to_string();
        let end = value.floor_char_boundary(TEXT_BYTES_MAX);
        format!(" {name}={}{}", &value[..end], if end < value.len() { ".." } else { "" })
    };
    shown.take(MEMBERS_MAX).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_says_is_noted_without_what_is_secret() {
        let body = br#"{"name": "db", "bytes": 1024, "policy": null, "dhchap_secret": "DHHC-1:00:x", "etcd": {"key": "k"}, "token": "t", "all": [{"secret": "s"}]}"#;
        assert_eq!(members(body), " bytes=1024 name=\"db\"");
        assert_eq!((members(b"[1]"), members(b"nonsense")), (String::new(), String::new()));
        let long = format!(r#"{{"name": "{}"}}"#, "\u{e9}".repeat(500));
        assert!(members(long.as_bytes()).len() < 250);
        assert!(holds_secrets("/api/v1/hosts/h/dhchap") && holds_secrets("/api/v1/cluster/join") && !holds_secrets("/api/v1/hosts"));
    }

    #[test]
    fn who_is_behind_a_connection_has_a_name() {
        assert_eq!(Administrator::Local { uid: Some(0), pid: Some(7) }.names(), ("uid 0, pid 7".into(), None));
        let remote = Administrator::Remote("10.0.0.1:4000".parse().unwrap());
        assert_eq!(remote.names(), ("the token of api.token_file".into(), Some("10.0.0.1:4000".into())));
    }
}
