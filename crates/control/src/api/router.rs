//! The router: all routes, the document that describes them, and what is answered where there is no route.
//!
//! Invariant: a body has at most 1 MiB.

use super::{
    cluster_routes,
    forward::{Forward, forward},
    routes,
};
use crate::{Code, Problem, engine::Control};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Request},
    http::{StatusCode, header},
    middleware::from_fn_with_state,
    routing::get,
};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

/// The largest request body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Where the API's document is.
pub const OPENAPI_PATH: &str = "/api/v1/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(title = "Basalt", description = "Control of a Basalt node. Sizes are bytes, times are seconds since 1970. Errors are problem objects."),
    tags(
        (name = "status", description = "How the node is"),
        (name = "cluster", description = "Forming a cluster, and joining one"),
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
        .with_state(control.clone())
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
    (forwarding(control, router), document)
}

/// What a node's cluster listener answers other nodes with: the whole API, where changes are done by the leader only, and what only this node knows.
/// The listener has to see to it that nobody but nodes of this cluster reaches it.
pub fn cluster_router(control: Arc<Control>) -> Router {
    cluster_routes::all(control.clone()).layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).fallback_service(router(control).0)
}

/// Changes are done here, or passed on to the node that leads.
fn forwarding(control: Arc<Control>, inner: Router) -> Router {
    let state = Forward { control, inner: inner.clone(), body_bytes_max: BODY_BYTES_MAX };
    Router::new().fallback_service(inner).layer(from_fn_with_state(state, forward))
}
