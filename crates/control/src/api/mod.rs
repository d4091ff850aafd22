//! The REST API: routes, their OpenAPI document, authentication.
//!
//! Owns: paths, parameters, statuses. Every route is declared where its document is (utoipa-axum), so neither can be forgotten.
//! Invariants: every error is a [`Problem`]; handlers run the engine on threads that may wait; a body has at most 1 MiB.
//! Never: decides; that is the engine's.

mod auth;
pub mod document;
mod routes;
mod server;
pub mod types;

pub use auth::{Token, TokenError};
pub use server::{ServeError, Served, bind_unix, serve};

use crate::{Code, Problem, engine::Control};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, rejection::JsonRejection},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

/// The largest request body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// What to do about a request that is wrong in itself.
const DOCUMENT: &str = "see the API's document";
/// Where the API's document is.
pub const OPENAPI_PATH: &str = "/api/v1/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(title = "Basalt", description = "Control of a Basalt host. Sizes are bytes, times are seconds since 1970. Errors are problem objects."),
    tags(
        (name = "status", description = "How the host is"),
        (name = "nodes", description = "Servers of the cluster"),
        (name = "drives", description = "Drives of this node"),
        (name = "groups", description = "Disk groups"),
        (name = "policies", description = "Storage policies"),
        (name = "volumes", description = "Volumes"),
        (name = "subsystems", description = "What hosts connect to"),
        (name = "hosts", description = "Hosts that connect"),
    )
)]
struct Document;

/// The routes, and the document that describes them.
pub fn router(control: Arc<Control>) -> (Router, utoipa::openapi::OpenApi) {
    let (routes, mut document) = OpenApiRouter::with_openapi(Document::openapi()).merge(routes::all()).split_for_parts();
    document.info.version = control.version().to_owned();
    let text = document.to_json().expect("a document of plain data");
    let openapi = move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], text.clone()));
    let router = routes
        .with_state(control)
        .route(OPENAPI_PATH, get(openapi.clone()))
        .route("/openapi.json", get(openapi))
        .fallback(async |request: Request| {
            Problem::new(
                Code::NotFound,
                format!("there is no {} {}", request.method(), request.uri().path()),
                format!("{OPENAPI_PATH} describes what there is"),
            )
        })
        .method_not_allowed_fallback(async |request: Request| {
            let message = format!("{} cannot be done with {}", request.method(), request.uri().path());
            (StatusCode::METHOD_NOT_ALLOWED, Json(Problem::invalid(message, format!("{OPENAPI_PATH} describes what there is"))))
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    (router, document)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}

/// A JSON body; what is wrong with it is a problem too.
struct Body<T>(T);

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
struct Path<T>(T);

impl<T: serde::de::DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong =
            |e: axum::extract::rejection::PathRejection| Problem::invalid(format!("the path is wrong: {}", e.body_text()), DOCUMENT);
        axum::extract::Path::from_request_parts(parts, state).await.map(|p| Self(p.0)).map_err(wrong)
    }
}

/// What follows the path; what is wrong with it is a problem too.
struct Query<T>(T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong =
            |e: axum::extract::rejection::QueryRejection| Problem::invalid(format!("the query is wrong: {}", e.body_text()), DOCUMENT);
        axum::extract::Query::from_request_parts(parts, state).await.map(|q| Self(q.0)).map_err(wrong)
    }
}

/// Runs the engine on a thread that may wait.
async fn run<T: Send + 'static>(
    control: Arc<Control>,
    work: impl FnOnce(&Control) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(move || work(&control)).await;
    done.unwrap_or_else(|_| {
        Err(Problem::new(Code::Internal, "the request failed inside the daemon", "see the daemon's log (journalctl -u basalt)"))
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
