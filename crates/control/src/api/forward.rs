//! Changes go to the node that leads: on every other node a request is passed on, and its answer is passed back.
//!
//! ```text
//!  request that changes something ─► this node leads: done here, under its nonce ──────────────────┐
//!         ▲                        └► another leads: sent there with the same nonce ───────────────┤
//!         │ nobody leads yet; the leader was not reached, has not answered, or leads no more       ▼
//!         └────────────────────────────────────────────────────────────────────────────────────  answer
//! ```
//!
//! Owns: [`Forward`], how long it is tried, what is answered to a request that was decided before.
//! Invariants: a request is decided once, however often it is sent; one whose outcome is not known is answered so, never as one that failed;
//! what another node has passed on is not passed on once more.
//! Never: decides what a request changes.

use super::formation_routes;
use super::handler::{REQUEST, Why, path_of, run};
use crate::cluster_client::{
    ADMINISTRATOR_HEADER, ANSWER_BYTES_MAX, FORWARDED_HEADER, NONCE_HEADER, NodeAnswer, NodeRequest, SendError, nonce_of, nonce_text,
};
use crate::engine::{Control, Request as Carried};
use crate::{Code, Problem};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base::hooks::{self, SeededFault};
use directory::Nonce;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower::ServiceExt;

/// How long a change is tried while nobody leads, or the leader does not answer.
const TRIED: Duration = Duration::from_secs(60);
/// How long the leader may take for a change.
const LEADER_WAIT: Duration = Duration::from_secs(150);
/// How long what was decided before may take until it is done.
const DONE_WAIT: Duration = Duration::from_secs(35);
/// How old an answer is, in seconds, when the directory did not answer; not there: it is as it is now.
const AGE_HEADER: &str = "basalt-age-seconds";
/// Before it is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// What passes requests on.
#[derive(Clone)]
pub(super) struct Forward {
    pub(super) control: Arc<Control>,
    /// What does them here.
    pub(super) inner: Router,
    pub(super) body_bytes_max: usize,
}

/// A request that changes something, and can be tried again.
struct Change {
    parts: Parts,
    body: Bytes,
    nonce: Nonce,
    forwarded: bool,
    /// It may have happened.
    in_doubt: bool,
}

/// What has come of one attempt.
enum Attempt {
    Answered(Response),
    /// Somebody else leads, or the answer was lost.
    Again,
}

/// Does a request here, or passes it on.
pub(super) async fn forward(State(forward): State<Forward>, request: Request, _: Next) -> Response {
    let control = &forward.control;
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return if control.is_alone() { forward.inner.oneshot(request).await.into_response() } else { forward.read(request).await };
    }
    if formation_routes::is_of_this_node(request.method(), request.uri().path()) {
        return forward.inner.oneshot(request).await.into_response();
    }
    if let Some(problem) = control.ended_by() {
        return problem.into_response();
    }
    let nonce = match request.headers().get(NONCE_HEADER).map(|h| h.to_str().ok().and_then(nonce_of)) {
        Some(Some(nonce)) => nonce,
        Some(None) => {
            return Problem::invalid(format!("the header {NONCE_HEADER} is wrong"), "send 32 hexadecimal digits, others each time")
                .into_response();
        }
        None if control.is_alone() => return forward.inner.oneshot(request).await.into_response(),
        None => Nonce(crate::engine::random()),
    };
    let forwarded = request.headers().contains_key(FORWARDED_HEADER);
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, forward.body_bytes_max).await else {
        return (
            StatusCode::PAYLOAD_TOO_LARGE,
            axum::Json(Problem::invalid("the body is too large, or was cut off", "send a smaller one")),
        )
            .into_response();
    };
    let of_here = parts.method == Method::POST && parts.uri.path() == "/api/v1/groups" && !forwarded;
    let body = if of_here { at_this_node(body, control.node_name()) } else { body };
    forward.carry(Change { parts, body, nonce, forwarded, in_doubt: false }).await
}

/// A disk group is made on the node that was asked, unless another is named: its devices are meant, not the leader's.
fn at_this_node(body: Bytes, node: &str) -> Bytes {
    use serde_json::Value;
    match serde_json::from_slice(&body) {
        Ok(Value::Object(mut new)) if new.get("node").is_none_or(Value::is_null) => {
            new.insert("node".into(), node.into());
            serde_json::to_vec(&new).map_or(body, Bytes::from)
        }
        _ => body,
    }
}

impl Forward {
    /// A request that only reads. While the directory does not answer it is answered with what was last seen of it, and says how old that is.
    async fn read(&self, request: Request) -> Response {
        let (reading, old) = Carried::reading();
        let mut response = REQUEST.scope(reading, self.inner.clone().oneshot(request)).await.into_response();
        if let Some(age_ms) = old.load(std::sync::atomic::Ordering::Relaxed).checked_sub(1) {
            response.headers_mut().insert(AGE_HEADER, header::HeaderValue::from(age_ms.div_ceil(1000)));
        }
        response
    }

    async fn carry(&self, mut change: Change) -> Response {
        let until = Instant::now() + TRIED;
        loop {
            let attempt = match self.control.leadership() {
                Some(leading) => self.here(&mut change, leading).await,
                None if change.forwarded => return not_leader(),
                None => self.there(&mut change).await,
            };
            match attempt {
                Attempt::Answered(response) => return response,
                // Who has passed it on finds the leader.
                Attempt::Again if change.forwarded && !change.in_doubt => return not_leader(),
                Attempt::Again if Instant::now() >= until || self.control.is_ending() => return change.given_up(),
                Attempt::Again => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// This node leads.
    async fn here(&self, change: &mut Change, leading: Option<directory::Revision>) -> Attempt {
        let nonce = change.nonce;
        match run(self.control.clone(), move |c| c.is_decided(nonce)).await {
            Ok(false) => {}
            Ok(true) => return Attempt::Answered(self.decided_before(change).await),
            Err(problem) => return change.judge(problem.into_response()).await,
        }
        let request = Carried::new(Some(nonce), leading);
        let response = REQUEST.scope(request.clone(), self.inner.clone().oneshot(change.request())).await.into_response();
        // Somebody who was asked before may have decided it just then: that it is done already is no error.
        let by_others = response.status().as_u16() >= 400 && !request.is_decided();
        if by_others && run(self.control.clone(), move |c| c.is_decided(nonce)).await.unwrap_or(true) {
            change.in_doubt = true;
            return Attempt::Again;
        }
        change.judge(response).await
    }

    /// Another node leads.
    async fn there(&self, change: &mut Change) -> Attempt {
        let leader = match run(self.control.clone(), |c| Ok(c.leader()?)).await {
            Ok(Some(leader)) if leader != self.control.node_name() => leader,
            // It has begun to lead, and does not know it yet; or nobody does.
            Ok(_) => return Attempt::Again,
            Err(problem) => return change.judge(problem.into_response()).await,
        };
        match self.control.send_later(&leader, change.node_request(self.control.node_name())).await {
            Ok(answer) => change.judge(response_of(answer)).await,
            Err(SendError::NoAnswer { .. }) if hooks::seeded(SeededFault::LostAnswerFails) => Attempt::Answered(
                Problem::new(Code::Unavailable, "the leader cannot be reached", "nothing was changed; try again").into_response(),
            ),
            Err(SendError::NoAnswer { .. }) => {
                change.in_doubt = true;
                Attempt::Again
            }
            Err(SendError::NotSent { .. } | SendError::NoSuchNode { .. }) => Attempt::Again,
        }
    }

    /// It was decided before. It is answered when it is done, with what has become of what it was about.
    async fn decided_before(&self, change: &Change) -> Response {
        let until = Instant::now() + DONE_WAIT;
        let Some(about) = change.about() else { return StatusCode::NO_CONTENT.into_response() };
        loop {
            let (kind, name) = (about.kind.clone(), about.name.clone());
            match run(self.control.clone(), move |c| c.is_under_way(&kind, &name)).await {
                Ok(false) => break,
                Ok(true) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
                Ok(true) => {
                    return Problem::new(
                        Code::Unknown,
                        "the request was taken, and is not done yet",
                        "send it again with the same idempotency-key",
                    )
                    .into_response();
                }
                Err(problem) => return problem.into_response(),
            }
        }
        let read = Request::get(format!("/api/v1/{}/{}", about.kind, about.name)).body(Body::empty());
        let Ok(read) = read else { return StatusCode::NO_CONTENT.into_response() };
        if let Some(bytes) = about.resizes {
            let name = about.name.clone();
            match run(self.control.clone(), move |c| c.has_size(&name, bytes)).await {
                Ok(true) => {}
                Ok(false) => {
                    return Problem::new(
                        Code::Refused,
                        format!(
                            "the request was taken, and volume {} has another size: it could not be done and was given up, or was undone since",
                            about.name
                        ),
                        "see 'basalt status' for the reason; send it anew, with another idempotency-key",
                    )
                    .into_response();
                }
                Err(problem) => return problem.into_response(),
            }
        }
        // Not with what may be old: a change is answered.
        let now = self.inner.clone().oneshot(read).await.into_response();
        match (now.status(), about.removes) {
            (StatusCode::NOT_FOUND, true) => StatusCode::NO_CONTENT.into_response(),
            (StatusCode::NOT_FOUND, false) => Problem::new(
                Code::Refused,
                format!(
                    "the request was taken, and there is no '{}' any more: it could not be done and was given up, or was undone since",
                    about.name
                ),
                "see 'basalt status' for the reason; send it anew, with another idempotency-key",
            )
            .into_response(),
            (StatusCode::OK, false) if change.parts.method == Method::POST && about.creates => {
                let (mut parts, body) = now.into_parts();
                parts.status = StatusCode::CREATED;
                if let Ok(at) = header::HeaderValue::from_str(&path_of(&about.kind, &about.name)) {
                    parts.headers.insert(header::LOCATION, at);
                }
                Response::from_parts(parts, body)
            }
            (StatusCode::OK, true) => Problem::new(
                Code::Refused,
                format!("the request was taken, and '{}' is there: it was not removed, or was made anew since", about.name),
                "look at it; send the request anew, with another idempotency-key",
            )
            .into_response(),
            _ => now,
        }
    }
}

/// What a change is about: one of a kind, as the paths of the API name it.
struct About {
    kind: String,
    name: String,
    creates: bool,
    removes: bool,
    /// It gives a volume this size, in bytes.
    resizes: Option<u64>,
}

impl Change {
    fn request(&self) -> Request {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.clone();
        *request.headers_mut() = self.parts.headers.clone();
        request
    }

    fn node_request(&self, node: &str) -> NodeRequest {
        let named = self.parts.headers.get(ADMINISTRATOR_HEADER).and_then(|h| h.to_str().ok());
        NodeRequest {
            method: self.parts.method.to_string(),
            path: self.parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned(),
            body: (!self.body.is_empty()).then(|| self.body.to_vec()),
            administrator: Some(named.map_or_else(|| format!("an administrator at {node}"), str::to_owned)),
            nonce: Some(self.nonce),
            wait: LEADER_WAIT,
        }
    }

    /// An answer by which somebody else leads, or by which it is not known what happened, is none. Of one that may have happened nobody can say that
    /// it has not, but by its nonce.
    async fn judge(&mut self, response: Response) -> Attempt {
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            return Attempt::Answered(response);
        }
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default();
        match serde_json::from_slice::<Problem>(&body).map(|problem| problem.code) {
            Ok(Code::NotLeader) => Attempt::Again,
            Ok(Code::Unknown) => {
                self.in_doubt = true;
                Attempt::Again
            }
            _ if self.in_doubt => Attempt::Again,
            _ => Attempt::Answered(Response::from_parts(parts, Body::from(body))),
        }
    }

    fn given_up(&self) -> Response {
        let nonce = nonce_text(self.nonce);
        let problem = if self.in_doubt {
            Problem::new(
                Code::Unknown,
                "the node that leads the cluster was asked and has not answered: whether it was done is not known",
                format!("look whether it was done; or send it again with the header '{NONCE_HEADER}: {nonce}', by which it is done once"),
            )
        } else {
            Problem::new(
                Code::Unavailable,
                "no node leads the cluster just now, or the one that does cannot be reached; nothing was changed",
                "'basalt node list' shows who is up and who leads; try again in a moment",
            )
        };
        problem.into_response()
    }

    fn about(&self) -> Option<About> {
        let segments: Vec<&str> = self.parts.uri.path().trim_matches('/').split('/').collect();
        let ["api", "v1", kind, rest @ ..] = &segments[..] else { return None };
        let body: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let named = body.as_ref().and_then(|b| b.get("name")).and_then(|n| n.as_str()).map(str::to_owned);
        let (creates, whole) = (rest.is_empty(), rest.len() == 1);
        // One that was renamed has its new name.
        let name = named.filter(|_| creates || whole).or_else(|| rest.first().map(|n| (*n).to_owned()))?;
        let resizes = (rest.len() == 2 && rest[1] == "resize").then(|| body.as_ref()?.get("bytes")?.as_u64()).flatten();
        Some(About { kind: (*kind).to_owned(), name, creates, removes: whole && self.parts.method == Method::DELETE, resizes })
    }
}

fn not_leader() -> Response {
    Problem::new(Code::NotLeader, "this node does not lead the cluster", "ask the node that leads").into_response()
}

fn response_of(answer: NodeAnswer) -> Response {
    let why =
        (answer.status >= 400).then(|| serde_json::from_slice::<Problem>(&answer.body).ok()).flatten().map(|problem| Why(problem.message));
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    if let Some(value) = answer.content_type.and_then(|t| header::HeaderValue::from_str(&t).ok()) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    if let Some(value) = answer.location.and_then(|at| header::HeaderValue::from_str(&at).ok()) {
        response.headers_mut().insert(header::LOCATION, value);
    }
    if let Some(why) = why {
        response.extensions_mut().insert(why);
    }
    response
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
