//! What handlers are made of: what they take from a request, how they run the engine, how a problem is answered.
//!
//! Invariants: every error is a [`Problem`]; the engine runs on threads that may wait.

use crate::{
    Code, Problem,
    engine::{Control, Request as Carried},
};
use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Request, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use std::sync::Arc;

/// What to do about a request that is wrong in itself.
const DOCUMENT: &str = "see the API's document";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let why = Why(self.message.clone());
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(why);
        response
    }
}

/// Why a request was refused, for the audit log: it goes with the response inside the daemon.
#[derive(Clone, Debug)]
pub(super) struct Why(pub(super) String);

/// What was made, and its path.
pub(super) struct Made<T>(pub(super) String, pub(super) T);

impl<T: serde::Serialize> Made<T> {
    /// Of a collection, under this name or id.
    pub(super) fn of(collection: &str, key: &str, made: T) -> Self {
        Self(path_of(collection, key), made)
    }
}

/// The path of one of a collection, by its name or id.
pub(super) fn path_of(collection: &str, key: &str) -> String {
    path_below(&format!("/api/v1/{collection}"), key)
}

/// A path, with a part more.
pub(crate) fn path_below(path: &str, part: &str) -> String {
    format!("{path}/{}", escaped(part))
}

/// With everything escaped that has a meaning in a path or a query.
pub(super) fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~' | b':');
    text.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

impl<T: serde::Serialize> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, [(axum::http::header::LOCATION, self.0)], Json(self.1)).into_response()
    }
}

/// A JSON body; what is wrong with it is a problem too.
pub(super) struct Body<T>(pub(super) T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::MissingJsonContentType(_)) => {
                Err(Problem::invalid("the body is not said to be JSON", "send the header Content-Type: application/json"))
            }
            Err(error) => Err(Problem::invalid(format!("the body is wrong: {}", error.body_text()), DOCUMENT)),
        }
    }
}

/// Parts of the path; what is wrong with them is a problem too.
pub(super) struct Path<T>(pub(super) T);

impl<T: serde::de::DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong =
            |e: axum::extract::rejection::PathRejection| Problem::invalid(format!("the path is wrong: {}", e.body_text()), DOCUMENT);
        axum::extract::Path::from_request_parts(parts, state).await.map(|p| Self(p.0)).map_err(wrong)
    }
}

/// What follows the path; what is wrong with it is a problem too.
pub(super) struct Query<T>(pub(super) T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong =
            |e: axum::extract::rejection::QueryRejection| Problem::invalid(format!("the query is wrong: {}", e.body_text()), DOCUMENT);
        axum::extract::Query::from_request_parts(parts, state).await.map(|q| Self(q.0)).map_err(wrong)
    }
}

tokio::task_local! {
    /// The request that a handler carries out, where the engine has to know it.
    pub(super) static REQUEST: Carried;
}

/// Runs the engine on a thread that may wait.
pub(super) async fn run<T: Send + 'static>(
    control: Arc<Control>,
    work: impl FnOnce(&Control) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let request = REQUEST.try_with(Clone::clone).ok();
    let done = tokio::task::spawn_blocking(move || match request {
        Some(request) => request.carry(|| work(&control)),
        None => work(&control),
    })
    .await;
    done.unwrap_or_else(|_| {
        Err(Problem::new(Code::Internal, "the request failed inside the daemon", "see the daemon's log (journalctl -u basalt)"))
    })
}
