//! What handlers are made of: what they take from a request, how they run the engine, how a problem is answered.
//!
//! Invariants: every error is a [`Problem`]; the engine runs on threads that may wait.

use super::router::OPENAPI_PATH;
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
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{fmt, marker::PhantomData, sync::Arc};

/// A request that is wrong in itself. `text`: why, as the libraries have it that read requests.
fn wrong(what: &str, text: &str) -> Problem {
    Problem::invalid(format!("the {what} is wrong: {}", in_our_words(text)), format!("{OPENAPI_PATH} describes what there is"))
}

/// Without what a reader of the API cannot know: Rust's types.
fn in_our_words(text: &str) -> String {
    const WORDS: [(&str, &str); 13] = [
        ("Failed to parse the request body as JSON: ", "it is not JSON: "),
        ("Failed to deserialize the JSON body into the target type: ", ""),
        ("Failed to deserialize query string: ", ""),
        ("Invalid URL: ", ""),
        ("invalid digit found in string", "not a whole number"),
        ("cannot parse integer from empty string", "a number is missing"),
        ("number too large to fit in target type", "the number is too large"),
        ("provided string was not `true` or `false`", "write true or false"),
        ("expected a sequence", "expected a list"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u16", "expected a whole number"),
        ("expected u8", "expected a whole number"),
    ];
    let mut text = WORDS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    // `struct NewVolume`, `struct NewVolume with 9 elements`
    while let Some(at) = text.find("struct ") {
        let name = text[at + 7..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(text.len(), |len| at + 7 + len);
        text.replace_range(at..name, "an object");
    }
    text
}

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

/// A JSON body, which is an object; what is wrong with it is a problem too.
pub(super) struct Body<T>(pub(super) T);

/// What is read from a JSON object only. A list of the members' values in their order would do for serde.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<Object<T>>::from_request(request, state).await {
            Ok(Json(Object(value))) => Ok(Self(value)),
            Err(JsonRejection::MissingJsonContentType(_)) => {
                Err(Problem::invalid("the body is not said to be JSON", "send the header Content-Type: application/json"))
            }
            Err(error) => Err(wrong("body", &error.body_text())),
        }
    }
}

/// Parts of the path; what is wrong with them is a problem too.
pub(super) struct Path<T>(pub(super) T);

impl<T: serde::de::DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Path::from_request_parts(parts, state).await.map(|p| Self(p.0)).map_err(|e| wrong("path", &e.body_text()))
    }
}

/// What follows the path; what is wrong with it is a problem too.
pub(super) struct Query<T>(pub(super) T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Query::from_request_parts(parts, state).await.map(|q| Self(q.0)).map_err(|e| wrong("query", &e.body_text()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_without_types_of_rust() {
        for (theirs, ours) in [
            (
                "Failed to deserialize the JSON body into the target type: cache: invalid type: string \"x\", expected struct NewDevice at line 1",
                "cache: invalid type: string \"x\", expected an object at line 1",
            ),
            ("Failed to deserialize query string: limit: invalid digit found in string", "limit: not a whole number"),
            (
                "bytes: invalid value: integer `-1`, expected u64 at line 1",
                "bytes: invalid value: integer `-1`, expected a whole number at line 1",
            ),
            ("a struct", "a struct"),
        ] {
            assert_eq!(in_our_words(theirs), ours);
        }
    }
}
