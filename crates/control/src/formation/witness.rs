//! A witness: a member of etcd, and an API that says how it is.
//!
//! Invariants: it holds no data and no key of the cluster's but its own; a witness that was removed does not serve.
//! Never: has a data plane.

use super::nodes::status_of;
use super::{Formation, FormationError};
use crate::api::{
    self, Served,
    types::{Cluster, NodeCertificate},
};
use crate::{Code, Problem};
use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    routing::{get, post},
};
use std::{os::unix::net::UnixListener, sync::Arc};
use tokio::runtime::Handle;

impl Formation {
    /// A witness says that it has started, in its record. `false`: it is no member of the cluster.
    pub fn witness_starts(&self, release: &str) -> Result<bool, FormationError> {
        let Some(of) = self.of() else { return Ok(false) };
        of.change_own_record(|node| {
            node.begin_life(0);
            release.clone_into(&mut node.release);
        })
    }
}

/// Serves what a witness can say of itself.
pub fn serve(formation: Arc<Formation>, unix: UnixListener) -> Result<Served, api::ServeError> {
    let router = Router::new().route("/api/v1/cluster", get(cluster)).route("/api/v1/cluster/member", post(renew_member));
    let router = router.route("/api/v1/cluster/certificate", post(renew_certificate));
    let router = router.fallback(nothing_else).with_state(formation);
    api::serve_unix(router, unix)
}

async fn cluster(State(formation): State<Arc<Formation>>) -> Result<Json<Cluster>, Problem> {
    let runtime = Handle::current();
    let seen = tokio::task::spawn_blocking(move || formation.of().map(|of| status_of(of, &runtime))).await;
    seen.ok().flatten().map(Json).ok_or_else(ending)
}

async fn renew_member(State(formation): State<Arc<Formation>>) -> Result<StatusCode, Problem> {
    let runtime = Handle::current();
    let renewed = tokio::task::spawn_blocking(move || formation.renew_member(&runtime)).await;
    renewed.unwrap_or_else(|_| Err(ending())).map(|()| StatusCode::NO_CONTENT)
}

async fn renew_certificate(State(formation): State<Arc<Formation>>) -> Result<Json<NodeCertificate>, Problem> {
    let runtime = Handle::current();
    let renewed = tokio::task::spawn_blocking(move || formation.renew_certificate(&runtime)).await;
    renewed.unwrap_or_else(|_| Err(ending())).map(Json)
}

fn ending() -> Problem {
    Problem::new(Code::Unavailable, "the witness is ending", "try again in a moment")
}

async fn nothing_else(request: Request) -> Problem {
    let message = format!("this is a witness, which cannot answer {} {}", request.method(), request.uri().path());
    Problem::new(Code::NotFound, message, "use the API of a node with data; here, 'basalt cluster status' works")
}
