//! What nodes ask of each other beside the API: what only the node that is asked knows, or can do.
//!
//! Invariants: it is served to nodes only, on the cluster's listener; nothing of it is passed on.
//! Never: is part of the API for administrators.

use super::{
    handler::{Body, Path, Query, REQUEST, run},
    types::*,
};
use crate::Problem;
use crate::audit::Which;
use crate::cluster_client::{NONCE_HEADER, nonce_of};
use crate::engine::{Control, Request as Carried};
use axum::{
    Json, Router,
    extract::{Request, State},
    http::Method,
    middleware::{Next, from_fn},
    response::Response,
    routing::{delete, get, post},
};
use std::sync::Arc;

type Engine = State<Arc<Control>>;
type Answer<T> = Result<Json<T>, Problem>;

#[derive(serde::Deserialize)]
struct Force {
    #[serde(default)]
    force: bool,
}

#[derive(serde::Deserialize)]
struct Of {
    of: Option<String>,
}

/// The routes, below `/cluster/v1`.
pub(super) fn all(control: Arc<Control>) -> Router {
    Router::new()
        .route("/cluster/v1/groups", post(create_group))
        .route("/cluster/v1/groups/{group}", delete(remove_group))
        .route("/cluster/v1/groups/{group}/scrub", post(scrub_group))
        .route("/cluster/v1/groups/{group}/devices", post(add_device))
        .route("/cluster/v1/groups/{group}/devices/{device}", delete(remove_device))
        .route("/cluster/v1/sessions", get(sessions))
        .route("/cluster/v1/drives", get(drives))
        .route("/cluster/v1/drives/{drive}", get(drive))
        .route("/cluster/v1/audit", get(audit))
        .route("/cluster/v1/statistics", get(statistics))
        .with_state(control)
        .layer(from_fn(carried))
}

/// A change has the nonce of the request that it is a part of; a read is one of this node alone.
async fn carried(request: Request, next: Next) -> Response {
    let nonce = request.headers().get(NONCE_HEADER).and_then(|h| h.to_str().ok()).and_then(nonce_of);
    let carried = if request.method() == Method::GET { Carried::here() } else { Carried::new(nonce, None) };
    REQUEST.scope(carried, next.run(request)).await
}

async fn create_group(State(control): Engine, Body(body): Body<NewGroup>) -> Answer<Group> {
    run(control, move |c| c.create_group_here(&body)).await.map(Json)
}
async fn remove_group(State(control): Engine, Path(group): Path<String>, Query(Force { force }): Query<Force>) -> Answer<()> {
    run(control, move |c| c.remove_group_here(&group, force)).await.map(Json)
}
async fn scrub_group(State(control): Engine, Path(group): Path<String>) -> Answer<()> {
    run(control, move |c| c.scrub_group(&group)).await.map(Json)
}
async fn add_device(State(control): Engine, Path(group): Path<String>, Body(body): Body<AddedDevice>) -> Answer<Group> {
    run(control, move |c| c.add_device(&group, &body)).await.map(Json)
}
async fn remove_device(State(control): Engine, Path((group, device)): Path<(String, String)>, Query(how): Query<Removal>) -> Answer<Group> {
    run(control, move |c| c.remove_device(&group, &device, how)).await.map(Json)
}
async fn sessions(State(control): Engine) -> Answer<Vec<Session>> {
    run(control, Control::sessions_here).await.map(Json)
}
async fn drives(State(control): Engine) -> Answer<Vec<Drive>> {
    run(control, Control::drives).await.map(Json)
}
async fn drive(State(control): Engine, Path(drive): Path<String>) -> Answer<DriveHealth> {
    run(control, move |c| c.drive(&drive)).await.map(Json)
}
async fn audit(State(control): Engine, Query(which): Query<Which>) -> Answer<Vec<AuditEntry>> {
    run(control, move |c| c.audit_entries_which(which)).await.map(Json)
}
async fn statistics(State(control): Engine, Query(Of { of }): Query<Of>) -> Answer<Statistics> {
    run(control, move |c| c.statistics(of.as_deref())).await.map(Json)
}
