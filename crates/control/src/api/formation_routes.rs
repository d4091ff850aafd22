//! The routes of clusters: forming one, inviting, joining, how it is.

use super::{
    handler::{Body, run},
    types::*,
};
use crate::{Problem, engine::Control};
use axum::{
    Json,
    extract::State,
    http::{Method, StatusCode},
};
use std::sync::Arc;
use tokio::runtime::Handle;
use utoipa_axum::{router::OpenApiRouter, routes};

type Engine = State<Arc<Control>>;
type Answer<T> = Result<Json<T>, Problem>;

/// Whether a change is one that the node that is asked makes itself, whoever leads: what it is to its cluster, its member of etcd, files on it, and
/// which node goes, as that may be the one that leads. All of them are compare-and-swaps.
pub(super) fn is_of_this_node(method: &Method, path: &str) -> bool {
    let rest = path.strip_prefix("/api/v1/").unwrap_or_default();
    rest == "cluster" || rest.starts_with("cluster/") || *method == Method::DELETE && rest.starts_with("nodes/")
}

pub(super) fn all() -> OpenApiRouter<Arc<Control>> {
    OpenApiRouter::new()
        .routes(routes!(cluster, create_cluster, change_cluster))
        .routes(routes!(join_cluster))
        .routes(routes!(invite))
        .routes(routes!(backup))
        .routes(routes!(renew_member))
        .routes(routes!(renew_certificate))
}

/// The cluster, and how its directory is.
#[utoipa::path(
    get,
    path = "/api/v1/cluster",
    tag = "cluster",
    responses((status = 200, description = "As it is now", body = Cluster), (status = "default", description = "Not done", body = Problem))
)]
async fn cluster(State(control): Engine) -> Answer<Cluster> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.status(c, &runtime)).await.map(Json)
}

/// Makes this server the first node of a cluster, with all that it has. The daemon starts itself anew then.
#[utoipa::path(
    post,
    path = "/api/v1/cluster",
    tag = "cluster",
    request_body = NewCluster,
    responses((status = 200, description = "Made", body = ClusterFormed), (status = "default", description = "Not done", body = Problem))
)]
async fn create_cluster(State(control): Engine, Body(new): Body<NewCluster>) -> Answer<ClusterFormed> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.create(c, &new, &runtime)).await.map(Json)
}

/// Changes where the cluster's external etcd is, or with what it is used.
#[utoipa::path(
    patch,
    path = "/api/v1/cluster",
    tag = "cluster",
    request_body = ClusterChange,
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn change_cluster(State(control): Engine, Body(change): Body<ClusterChange>) -> Result<StatusCode, Problem> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.change_etcd(&change, &runtime)).await.map(|()| StatusCode::NO_CONTENT)
}

/// This server joins a cluster, with a token of one of its nodes. The daemon starts itself anew then.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/join",
    tag = "cluster",
    request_body = Join,
    responses((status = 200, description = "Done", body = ClusterFormed), (status = "default", description = "Not done", body = Problem))
)]
async fn join_cluster(State(control): Engine, Body(new): Body<Join>) -> Answer<ClusterFormed> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.join(c, &new, &runtime)).await.map(Json)
}

/// Makes a token with which one server can join.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/invites",
    tag = "cluster",
    request_body = NewInvite,
    responses((status = 200, description = "Made", body = Invite), (status = "default", description = "Not done", body = Problem))
)]
async fn invite(State(control): Engine, Body(new): Body<NewInvite>) -> Answer<Invite> {
    run(control, move |c| c.formation()?.invite(c, &new)).await.map(Json)
}

/// Writes a backup of the directory into a file on this node.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/backup",
    tag = "cluster",
    request_body = NewBackup,
    responses((status = 200, description = "Taken", body = Backup), (status = "default", description = "Not done", body = Problem))
)]
async fn backup(State(control): Engine, Body(new): Body<NewBackup>) -> Answer<Backup> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.backup(std::path::Path::new(&new.path), &runtime)).await.map(Json)
}

/// Gives this node a new member of etcd, in the place of one that is lost.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/member",
    tag = "cluster",
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn renew_member(State(control): Engine) -> Result<StatusCode, Problem> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.renew_member(&runtime)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Renews this node's certificate now. It is renewed by itself when half of its time is over.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/certificate",
    tag = "cluster",
    responses((status = 200, description = "Renewed", body = NodeCertificate), (status = "default", description = "Not done", body = Problem))
)]
async fn renew_certificate(State(control): Engine) -> Answer<NodeCertificate> {
    let runtime = Handle::current();
    run(control, move |c| c.formation()?.renew_certificate(&runtime)).await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_the_node_that_is_asked_stays_there_and_the_rest_is_for_the_leader() {
        for (method, path) in [
            (Method::POST, "/api/v1/cluster"),
            (Method::POST, "/api/v1/cluster/member"),
            (Method::POST, "/api/v1/cluster/backup"),
            (Method::DELETE, "/api/v1/nodes/a"),
        ] {
            assert!(is_of_this_node(&method, path), "{method} {path}");
        }
        for (method, path) in [
            (Method::PATCH, "/api/v1/nodes/a"),
            (Method::POST, "/api/v1/clusters"),
            (Method::DELETE, "/api/v1/volumes/cluster"),
            (Method::POST, "/api/v1/volumes"),
        ] {
            assert!(!is_of_this_node(&method, path), "{method} {path}");
        }
    }
}
