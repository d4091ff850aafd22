//! The routes: each is a call of the engine.

use super::{
    handler::{Body, Made, Path, Query, run},
    paging::{List, Part},
    types::*,
};
use crate::{Problem, audit::Which, engine::Control, metrics::Exposition};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
};
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

type Engine = State<Arc<Control>>;
type Answer<T> = Result<Json<T>, Problem>;

/// Whether to do it although something uses it or data is lost.
#[derive(serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Force {
    /// Do it although something uses it or data is lost.
    #[serde(default)]
    force: bool,
}

/// All routes that the document describes.
pub(super) fn all() -> OpenApiRouter<Arc<Control>> {
    OpenApiRouter::new()
        .routes(routes!(metrics))
        .routes(routes!(status))
        .routes(routes!(statistics))
        .routes(routes!(tasks))
        .routes(routes!(audit))
        .routes(routes!(nodes))
        .routes(routes!(node, change_node, remove_node))
        .routes(routes!(drives))
        .routes(routes!(drive))
        .routes(routes!(groups, create_group))
        .routes(routes!(group, remove_group))
        .routes(routes!(scrub_group))
        .routes(routes!(add_device))
        .routes(routes!(remove_device))
        .routes(routes!(policies, create_policy))
        .routes(routes!(policy, change_policy, delete_policy))
        .routes(routes!(volumes, create_volume))
        .routes(routes!(volume, change_volume, delete_volume))
        .routes(routes!(resize_volume))
        .routes(routes!(clear_reservation))
        .routes(routes!(repair_volume))
        .routes(routes!(volume_recovery, recover_volume))
        .routes(routes!(subsystems, create_subsystem))
        .routes(routes!(subsystem, change_subsystem, delete_subsystem))
        .routes(routes!(allow_host, deny_host))
        .routes(routes!(attach_volume, detach_volume))
        .routes(routes!(hosts, add_host))
        .routes(routes!(host, remove_host))
        .routes(routes!(set_dhchap, remove_dhchap))
        .routes(routes!(set_chap, remove_chap))
        .routes(routes!(set_tls_psk, remove_tls_psks))
        .routes(routes!(sessions))
        .merge(super::formation_routes::all())
}

/// Figures of every layer, as Prometheus reads them: its text format, or OpenMetrics for a request that accepts it.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "status",
    responses((status = 200, description = "Text exposition format 0.0.4, or OpenMetrics 1.0.0", content((String = "text/plain"), (String = "application/openmetrics-text"))), (status = "default", description = "Not done", body = Problem))
)]
async fn metrics(State(control): Engine, headers: HeaderMap) -> Result<impl IntoResponse, Problem> {
    let accept: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let form = Exposition::accepted(&accept.join(","));
    let page = run(control, move |c| c.metrics(form)).await?;
    Ok(([(header::CONTENT_TYPE, form.content_type()), (header::VARY, "accept")], page))
}

/// How the node is: health checks, counts, capacity.
#[utoipa::path(
    get,
    path = "/api/v1/status",
    tag = "status",
    responses((status = 200, description = "As it is now", body = Status), (status = "default", description = "Not done", body = Problem))
)]
async fn status(State(control): Engine) -> Answer<Status> {
    run(control, Control::status).await.map(Json)
}

/// Which statistics.
#[derive(serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StatisticsQuery {
    /// Only these: `volumes`, `hosts`, `devices`, `groups` or `machine`. What the machine did is answered only where it is asked for so.
    of: Option<String>,
    /// Of which node. Default: the one that is asked.
    node: Option<String>,
}

/// What was asked of each volume, by each host, of each device, and what each disk group moved: counters since the daemon started; and what the machine did.
#[utoipa::path(
    get,
    path = "/api/v1/statistics",
    tag = "status",
    params(StatisticsQuery),
    responses((status = 200, description = "As it is now", body = Statistics), (status = "default", description = "Not done", body = Problem))
)]
async fn statistics(State(control): Engine, Query(query): Query<StatisticsQuery>) -> Answer<Statistics> {
    run(control, move |c| c.statistics_of(query.node.as_deref(), query.of.as_deref())).await.map(Json)
}

/// What could not be finished yet and is tried again.
#[utoipa::path(
    get,
    path = "/api/v1/tasks",
    tag = "status",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Task>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn tasks(State(control): Engine, Query(part): Query<Part>) -> Result<List<Task>, Problem> {
    List::of("tasks", run(control, Control::tasks).await?, part)
}

/// How much of the audit log.
#[derive(serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// The most entries; the newest are given, oldest first. At most 10,000.
    #[serde(default = "audit_limit")]
    limit: usize,
    /// Only what was noted then or later, in milliseconds since 1970.
    since_unix_ms: Option<u64>,
    /// Only what was noted before, in milliseconds since 1970: what comes before the oldest entry of another answer, say.
    until_unix_ms: Option<u64>,
    /// Whose log. Default: that of the node that is asked.
    node: Option<String>,
}

/// Which node is meant.
#[derive(serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OfNode {
    /// The node. Default: the one that is asked.
    node: Option<String>,
}

fn audit_limit() -> usize {
    100
}

/// The newest entries of the audit log: what administrators did, who connected, who was turned away, who changed a reservation or a namespace.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    tag = "hosts",
    params(AuditQuery),
    responses((status = 200, description = "Oldest first", body = Vec<AuditEntry>), (status = "default", description = "Not done", body = Problem))
)]
async fn audit(State(control): Engine, Query(query): Query<AuditQuery>) -> Answer<Vec<AuditEntry>> {
    let AuditQuery { limit, since_unix_ms, until_unix_ms, node } = query;
    let which = Which { limit, since_unix_ms, until_unix_ms };
    run(control, move |c| c.audit_entries_of(node.as_deref(), which)).await.map(Json)
}

/// The servers of the cluster.
#[utoipa::path(
    get,
    path = "/api/v1/nodes",
    tag = "nodes",
    responses((status = 200, description = "As it is now", body = Vec<Node>), (status = "default", description = "Not done", body = Problem)),
)]
async fn nodes(State(control): Engine) -> Answer<Vec<Node>> {
    run(control, Control::nodes).await.map(Json)
}

/// One server of the cluster, by its name.
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{node}",
    tag = "nodes",
    params(("node" = String, Path, description = "Its name")),
    responses((status = 200, description = "As it is now", body = Node), (status = "default", description = "Not done", body = Problem)),
)]
async fn node(State(control): Engine, Path(name): Path<String>) -> Answer<Node> {
    run(control, move |c| c.node(&name)).await.map(Json)
}

/// Changes what a node is called, or its fault domain. What is not named stays.
#[utoipa::path(
    patch,
    path = "/api/v1/nodes/{node}",
    tag = "nodes",
    params(("node" = String, Path, description = "Its name, or its id")),
    request_body = NodeChange,
    responses((status = 200, description = "Changed", body = Node), (status = "default", description = "Not done", body = Problem)),
)]
async fn change_node(State(control): Engine, Path(name): Path<String>, Body(change): Body<NodeChange>) -> Answer<Node> {
    run(control, move |c| c.change_node(&name, &change)).await.map(Json)
}

/// Removes a node from the cluster: it cannot come back with what it has. With `force` the volumes on it are lost.
#[utoipa::path(
    delete,
    path = "/api/v1/nodes/{node}",
    tag = "nodes",
    params(("node" = String, Path, description = "Its name, or its id"), Force),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_node(
    State(control): Engine,
    Path(name): Path<String>,
    Query(Force { force }): Query<Force>,
) -> Result<StatusCode, Problem> {
    let runtime = tokio::runtime::Handle::current();
    let work = move |c: &Control| c.formation()?.remove_node(c, &name, force, &runtime);
    run(control, work).await.map(|()| StatusCode::NO_CONTENT)
}

/// The drives of a node, and who uses them.
#[utoipa::path(
    get,
    path = "/api/v1/drives",
    tag = "drives",
    params(OfNode),
    responses((status = 200, description = "As it is now", body = Vec<Drive>), (status = "default", description = "Not done", body = Problem))
)]
async fn drives(State(control): Engine, Query(query): Query<OfNode>) -> Answer<Vec<Drive>> {
    run(control, move |c| c.drives_of(query.node.as_deref())).await.map(Json)
}

/// One drive of a node, with what it says of its health (SMART).
#[utoipa::path(
    get,
    path = "/api/v1/drives/{drive}",
    tag = "drives",
    params(("drive" = String, Path, description = "Its path, or the last part of that, or the name that stays"), OfNode),
    responses((status = 200, description = "As it is now", body = DriveHealth), (status = "default", description = "Not done", body = Problem))
)]
async fn drive(State(control): Engine, Path(drive): Path<String>, Query(query): Query<OfNode>) -> Answer<DriveHealth> {
    run(control, move |c| c.drive_of(query.node.as_deref(), &drive)).await.map(Json)
}

/// All disk groups.
#[utoipa::path(
    get,
    path = "/api/v1/groups",
    tag = "groups",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Group>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn groups(State(control): Engine, Query(part): Query<Part>) -> Result<List<Group>, Problem> {
    List::of("groups", run(control, Control::groups).await?, part)
}

/// Makes a disk group of a cache device and one to seven capacity devices.
#[utoipa::path(
    post,
    path = "/api/v1/groups",
    tag = "groups",
    request_body = NewGroup,
    responses((status = 201, description = "Done", body = Group, headers(("location" = String, description = "Its path"))), (status = "default", description = "Not done", body = Problem))
)]
async fn create_group(State(control): Engine, Body(body): Body<NewGroup>) -> Result<Made<Group>, Problem> {
    let made = run(control, move |c| c.create_group(&body)).await?;
    Ok(Made::of("groups", &made.id.clone(), made))
}

/// One disk group.
#[utoipa::path(
    get,
    path = "/api/v1/groups/{group}",
    tag = "groups",
    params(("group" = String, Path, description = "Name or id")),
    responses((status = 200, description = "As it is now", body = Group), (status = "default", description = "Not done", body = Problem))
)]
async fn group(State(control): Engine, Path(group): Path<String>) -> Answer<Group> {
    run(control, move |c| c.group(&group)).await.map(Json)
}

/// Removes a disk group; with `force` the volumes on it are deleted too.
#[utoipa::path(
    delete,
    path = "/api/v1/groups/{group}",
    tag = "groups",
    params(("group" = String, Path, description = "Name or id"), Force),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_group(
    State(control): Engine,
    Path(group): Path<String>,
    Query(Force { force }): Query<Force>,
) -> Result<StatusCode, Problem> {
    run(control, move |c| c.remove_group(&group, force)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Begins to read everything on a disk group and to compare checksums.
#[utoipa::path(
    post,
    path = "/api/v1/groups/{group}/scrub",
    tag = "groups",
    params(("group" = String, Path, description = "Name or id")),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn scrub_group(State(control): Engine, Path(group): Path<String>) -> Result<StatusCode, Problem> {
    run(control, move |c| c.scrub_group(&group)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Adds a capacity device to a disk group in use. Volumes can lie on it when this is answered.
#[utoipa::path(
    post,
    path = "/api/v1/groups/{group}/devices",
    tag = "groups",
    params(("group" = String, Path, description = "Name or id")),
    request_body = AddedDevice,
    responses((status = 200, description = "Done", body = Group), (status = "default", description = "Not done", body = Problem))
)]
async fn add_device(State(control): Engine, Path(group): Path<String>, Body(body): Body<AddedDevice>) -> Answer<Group> {
    run(control, move |c| c.add_device(&group, &body)).await.map(Json)
}

/// Has a capacity device leave a disk group.
///
/// What lies on it goes to other devices while hosts use it, then it leaves. Answered when that has begun: the group says how the device is.
#[utoipa::path(
    delete,
    path = "/api/v1/groups/{group}/devices/{device}",
    tag = "groups",
    params(
        ("group" = String, Path, description = "Name or id"),
        ("device" = String, Path, description = "Its path, as the group says it"),
        Removal
    ),
    responses((status = 200, description = "Begun", body = Group), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_device(State(control): Engine, Path((group, device)): Path<(String, String)>, Query(how): Query<Removal>) -> Answer<Group> {
    run(control, move |c| c.remove_device(&group, &device, how)).await.map(Json)
}

/// All storage policies.
#[utoipa::path(
    get,
    path = "/api/v1/policies",
    tag = "policies",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Policy>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn policies(State(control): Engine, Query(part): Query<Part>) -> Result<List<Policy>, Problem> {
    List::of("policies", run(control, Control::policies).await?, part)
}

/// Makes a storage policy.
#[utoipa::path(
    post,
    path = "/api/v1/policies",
    tag = "policies",
    request_body = PolicyChange,
    responses((status = 201, description = "Done", body = Policy, headers(("location" = String, description = "Its path"))), (status = "default", description = "Not done", body = Problem))
)]
async fn create_policy(State(control): Engine, Body(body): Body<PolicyChange>) -> Result<Made<Policy>, Problem> {
    let made = run(control, move |c| c.create_policy(&body)).await?;
    Ok(Made::of("policies", &made.name.clone(), made))
}

/// One storage policy.
#[utoipa::path(
    get,
    path = "/api/v1/policies/{policy}",
    tag = "policies",
    params(("policy" = String, Path, description = "Name")),
    responses((status = 200, description = "As it is now", body = Policy), (status = "default", description = "Not done", body = Problem))
)]
async fn policy(State(control): Engine, Path(policy): Path<String>) -> Answer<Policy> {
    run(control, move |c| c.policy(&policy)).await.map(Json)
}

/// Changes a storage policy, and with it all volumes that have it.
#[utoipa::path(
    patch,
    path = "/api/v1/policies/{policy}",
    tag = "policies",
    params(("policy" = String, Path, description = "Name")),
    request_body = PolicyChange,
    responses((status = 200, description = "Done", body = Policy), (status = "default", description = "Not done", body = Problem))
)]
async fn change_policy(State(control): Engine, Path(policy): Path<String>, Body(body): Body<PolicyChange>) -> Answer<Policy> {
    run(control, move |c| c.change_policy(&policy, &body)).await.map(Json)
}

/// Deletes a storage policy that no volume has.
#[utoipa::path(
    delete,
    path = "/api/v1/policies/{policy}",
    tag = "policies",
    params(("policy" = String, Path, description = "Name")),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn delete_policy(State(control): Engine, Path(policy): Path<String>) -> Result<StatusCode, Problem> {
    run(control, move |c| c.delete_policy(&policy)).await.map(|()| StatusCode::NO_CONTENT)
}

/// All volumes, with where their data lies.
#[utoipa::path(
    get,
    path = "/api/v1/volumes",
    tag = "volumes",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Volume>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn volumes(State(control): Engine, Query(part): Query<Part>) -> Result<List<Volume>, Problem> {
    List::of("volumes", run(control, Control::volumes).await?, part)
}

/// Makes a volume and attaches it to a subsystem.
#[utoipa::path(
    post,
    path = "/api/v1/volumes",
    tag = "volumes",
    request_body = NewVolume,
    responses((status = 201, description = "Done", body = Volume, headers(("location" = String, description = "Its path"))), (status = "default", description = "Not done", body = Problem))
)]
async fn create_volume(State(control): Engine, Body(body): Body<NewVolume>) -> Result<Made<Volume>, Problem> {
    let made = run(control, move |c| c.create_volume(&body)).await?;
    Ok(Made::of("volumes", &made.id.clone(), made))
}

/// One volume, with where its data lies.
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{volume}",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id")),
    responses((status = 200, description = "As it is now", body = Volume), (status = "default", description = "Not done", body = Problem))
)]
async fn volume(State(control): Engine, Path(volume): Path<String>) -> Answer<Volume> {
    run(control, move |c| c.volume(&volume)).await.map(Json)
}

/// Renames a volume, gives it another policy, makes it read-only or writable.
#[utoipa::path(
    patch,
    path = "/api/v1/volumes/{volume}",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id")),
    request_body = VolumeChange,
    responses((status = 200, description = "Done", body = Volume), (status = "default", description = "Not done", body = Problem))
)]
async fn change_volume(State(control): Engine, Path(volume): Path<String>, Body(body): Body<VolumeChange>) -> Answer<Volume> {
    run(control, move |c| c.change_volume(&volume, &body)).await.map(Json)
}

/// Deletes a volume and all its data; refused without `force` while a host is connected to it.
#[utoipa::path(
    delete,
    path = "/api/v1/volumes/{volume}",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id"), Force),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn delete_volume(
    State(control): Engine,
    Path(volume): Path<String>,
    Query(Force { force }): Query<Force>,
) -> Result<StatusCode, Problem> {
    run(control, move |c| c.delete_volume(&volume, force)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Grows a volume; shrinks it with `force`.
#[utoipa::path(
    post,
    path = "/api/v1/volumes/{volume}/resize",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id")),
    request_body = Resize,
    responses((status = 200, description = "Done", body = Volume), (status = "default", description = "Not done", body = Problem))
)]
async fn resize_volume(State(control): Engine, Path(volume): Path<String>, Body(body): Body<Resize>) -> Answer<Volume> {
    run(control, move |c| c.resize_volume(&volume, &body)).await.map(Json)
}

/// Makes copies of a volume that are away anew on other nodes, without the wait of its policy.
#[utoipa::path(
    post,
    path = "/api/v1/volumes/{volume}/repair",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id")),
    responses((status = 200, description = "Begun", body = Volume), (status = "default", description = "Not done", body = Problem))
)]
async fn repair_volume(State(control): Engine, Path(volume): Path<String>) -> Answer<Volume> {
    run(control, move |c| c.repair_volume(&volume)).await.map(Json)
}

/// With which copies.
#[derive(serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct From {
    /// With the copies of this node; the newest of those that can be reached otherwise.
    from: Option<String>,
}

/// What going on with a volume would do, and lose, whose copies in sync are gone or not known. Changes nothing.
#[utoipa::path(
    get,
    path = "/api/v1/volumes/{volume}/recovery",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id"), From),
    responses((status = 200, description = "As it is now", body = Recovery), (status = "default", description = "Not needed, or not possible", body = Problem))
)]
async fn volume_recovery(State(control): Engine, Path(volume): Path<String>, Query(query): Query<From>) -> Answer<Recovery> {
    run(control, move |c| c.recovery(&volume, query.from.as_deref())).await.map(Json)
}

/// Goes on with what is left of a volume. What other copies have is lost.
#[utoipa::path(
    post,
    path = "/api/v1/volumes/{volume}/recovery",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id")),
    request_body = Recover,
    responses((status = 200, description = "Done", body = Volume), (status = "default", description = "Not done", body = Problem))
)]
async fn recover_volume(State(control): Engine, Path(volume): Path<String>, Body(body): Body<Recover>) -> Answer<Volume> {
    run(control, move |c| c.recover_volume(&volume, &body)).await.map(Json)
}

/// Removes all registrants of a volume and its reservation, as a last resort; its hosts are notified.
#[utoipa::path(
    delete,
    path = "/api/v1/volumes/{volume}/reservation",
    tag = "volumes",
    params(("volume" = String, Path, description = "Name or id")),
    responses((status = 200, description = "Done", body = Volume), (status = "default", description = "Not done", body = Problem))
)]
async fn clear_reservation(State(control): Engine, Path(volume): Path<String>) -> Answer<Volume> {
    run(control, move |c| c.clear_reservation(&volume)).await.map(Json)
}

/// All subsystems.
#[utoipa::path(
    get,
    path = "/api/v1/subsystems",
    tag = "subsystems",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Subsystem>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn subsystems(State(control): Engine, Query(part): Query<Part>) -> Result<List<Subsystem>, Problem> {
    List::of("subsystems", run(control, Control::subsystems).await?, part)
}

/// Makes a subsystem.
#[utoipa::path(
    post,
    path = "/api/v1/subsystems",
    tag = "subsystems",
    request_body = NewSubsystem,
    responses((status = 201, description = "Done", body = Subsystem, headers(("location" = String, description = "Its path"))), (status = "default", description = "Not done", body = Problem))
)]
async fn create_subsystem(State(control): Engine, Body(body): Body<NewSubsystem>) -> Result<Made<Subsystem>, Problem> {
    let made = run(control, move |c| c.create_subsystem(&body)).await?;
    Ok(Made::of("subsystems", &made.nqn.clone(), made))
}

/// One subsystem.
#[utoipa::path(
    get,
    path = "/api/v1/subsystems/{subsystem}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN")),
    responses((status = 200, description = "As it is now", body = Subsystem), (status = "default", description = "Not done", body = Problem))
)]
async fn subsystem(State(control): Engine, Path(subsystem): Path<String>) -> Answer<Subsystem> {
    run(control, move |c| c.subsystem(&subsystem)).await.map(Json)
}

/// Lets every host connect, or only those that are allowed.
#[utoipa::path(
    patch,
    path = "/api/v1/subsystems/{subsystem}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN")),
    request_body = SubsystemChange,
    responses((status = 200, description = "Done", body = Subsystem), (status = "default", description = "Not done", body = Problem))
)]
async fn change_subsystem(State(control): Engine, Path(subsystem): Path<String>, Body(body): Body<SubsystemChange>) -> Answer<Subsystem> {
    run(control, move |c| c.change_subsystem(&subsystem, &body)).await.map(Json)
}

/// Deletes a subsystem; its volumes stay. Refused without `force` while a host is connected.
#[utoipa::path(
    delete,
    path = "/api/v1/subsystems/{subsystem}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN"), Force),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn delete_subsystem(
    State(control): Engine,
    Path(subsystem): Path<String>,
    Query(Force { force }): Query<Force>,
) -> Result<StatusCode, Problem> {
    run(control, move |c| c.delete_subsystem(&subsystem, force)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Lets a host connect.
#[utoipa::path(
    put,
    path = "/api/v1/subsystems/{subsystem}/hosts/{host}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN"), ("host" = String, Path, description = "Name or NQN")),
    responses((status = 200, description = "Done", body = Subsystem), (status = "default", description = "Not done", body = Problem))
)]
async fn allow_host(State(control): Engine, Path((subsystem, host)): Path<(String, String)>) -> Answer<Subsystem> {
    run(control, move |c| c.allow_host(&subsystem, &host)).await.map(Json)
}

/// No longer lets a host connect.
#[utoipa::path(
    delete,
    path = "/api/v1/subsystems/{subsystem}/hosts/{host}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN"), ("host" = String, Path, description = "Name or NQN")),
    responses((status = 200, description = "Done", body = Subsystem), (status = "default", description = "Not done", body = Problem))
)]
async fn deny_host(State(control): Engine, Path((subsystem, host)): Path<(String, String)>) -> Answer<Subsystem> {
    run(control, move |c| c.deny_host(&subsystem, &host)).await.map(Json)
}

/// Shows a volume to the hosts of a subsystem.
#[utoipa::path(
    put,
    path = "/api/v1/subsystems/{subsystem}/volumes/{volume}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN"), ("volume" = String, Path, description = "Name or id")),
    request_body = Attach,
    responses((status = 200, description = "Done", body = Subsystem), (status = "default", description = "Not done", body = Problem))
)]
async fn attach_volume(
    State(control): Engine,
    Path((subsystem, volume)): Path<(String, String)>,
    Body(body): Body<Attach>,
) -> Answer<Subsystem> {
    run(control, move |c| c.attach_volume(&subsystem, &volume, &body)).await.map(Json)
}

/// No longer shows a volume to the hosts of a subsystem.
#[utoipa::path(
    delete,
    path = "/api/v1/subsystems/{subsystem}/volumes/{volume}",
    tag = "subsystems",
    params(("subsystem" = String, Path, description = "Name or NQN"), ("volume" = String, Path, description = "Name or id")),
    responses((status = 200, description = "Done", body = Subsystem), (status = "default", description = "Not done", body = Problem))
)]
async fn detach_volume(State(control): Engine, Path((subsystem, volume)): Path<(String, String)>) -> Answer<Subsystem> {
    run(control, move |c| c.detach_volume(&subsystem, &volume)).await.map(Json)
}

/// Hosts that have a name, are allowed somewhere, or are connected.
#[utoipa::path(
    get,
    path = "/api/v1/hosts",
    tag = "hosts",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Host>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn hosts(State(control): Engine, Query(part): Query<Part>) -> Result<List<Host>, Problem> {
    List::of("hosts", run(control, Control::hosts).await?, part)
}

/// Gives the NQN of a host a name.
#[utoipa::path(
    post,
    path = "/api/v1/hosts",
    tag = "hosts",
    request_body = NewHost,
    responses((status = 201, description = "Done", body = Host, headers(("location" = String, description = "Its path"))), (status = "default", description = "Not done", body = Problem))
)]
async fn add_host(State(control): Engine, Body(body): Body<NewHost>) -> Result<Made<Host>, Problem> {
    let made = run(control, move |c| c.add_host(&body)).await?;
    Ok(Made::of("hosts", &made.nqn.clone(), made))
}

/// One host.
#[utoipa::path(
    get,
    path = "/api/v1/hosts/{host}",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or NQN")),
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn host(State(control): Engine, Path(host): Path<String>) -> Answer<Host> {
    run(control, move |c| c.host(&host)).await.map(Json)
}

/// Takes the name from a host; what it may do stays.
#[utoipa::path(
    delete,
    path = "/api/v1/hosts/{host}",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or NQN")),
    responses((status = 204, description = "Done"), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_host(State(control): Engine, Path(host): Path<String>) -> Result<StatusCode, Problem> {
    run(control, move |c| c.remove_host(&host)).await.map(|()| StatusCode::NO_CONTENT)
}

/// Sets a key by which a host may connect over TLS.
#[utoipa::path(
    put,
    path = "/api/v1/hosts/{host}/tls-psk",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or NQN")),
    request_body = TlsPskChange,
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn set_tls_psk(State(control): Engine, Path(host): Path<String>, Body(body): Body<TlsPskChange>) -> Answer<Host> {
    run(control, move |c| c.set_tls_psk(&host, &body)).await.map(Json)
}

/// Takes all TLS keys of a host away.
#[utoipa::path(
    delete,
    path = "/api/v1/hosts/{host}/tls-psk",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or NQN")),
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_tls_psks(State(control): Engine, Path(host): Path<String>) -> Answer<Host> {
    run(control, move |c| c.remove_tls_psks(&host)).await.map(Json)
}

/// Sets what a host authenticates with (DH-HMAC-CHAP).
#[utoipa::path(
    put,
    path = "/api/v1/hosts/{host}/dhchap",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or NQN")),
    request_body = DhchapChange,
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn set_dhchap(State(control): Engine, Path(host): Path<String>, Body(body): Body<DhchapChange>) -> Answer<Host> {
    run(control, move |c| c.set_dhchap(&host, &body)).await.map(Json)
}

/// Takes the secrets of a host away.
#[utoipa::path(
    delete,
    path = "/api/v1/hosts/{host}/dhchap",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or NQN")),
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_dhchap(State(control): Engine, Path(host): Path<String>) -> Answer<Host> {
    run(control, move |c| c.remove_dhchap(&host)).await.map(Json)
}

/// Sets what a host authenticates with over iSCSI (CHAP).
#[utoipa::path(
    put,
    path = "/api/v1/hosts/{host}/chap",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or iSCSI name")),
    request_body = ChapChange,
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn set_chap(State(control): Engine, Path(host): Path<String>, Body(body): Body<ChapChange>) -> Answer<Host> {
    run(control, move |c| c.set_chap(&host, &body)).await.map(Json)
}

/// Takes the secret of a host for iSCSI away.
#[utoipa::path(
    delete,
    path = "/api/v1/hosts/{host}/chap",
    tag = "hosts",
    params(("host" = String, Path, description = "Name or iSCSI name")),
    responses((status = 200, description = "As it is now", body = Host), (status = "default", description = "Not done", body = Problem))
)]
async fn remove_chap(State(control): Engine, Path(host): Path<String>) -> Answer<Host> {
    run(control, move |c| c.remove_chap(&host)).await.map(Json)
}

/// Hosts that are connected now.
#[utoipa::path(
    get,
    path = "/api/v1/sessions",
    tag = "hosts",
    params(Part),
    responses((status = 200, description = "As it is now", body = Vec<Session>, headers(("link" = String, description = "The next part, where there is one"))), (status = "default", description = "Not done", body = Problem))
)]
async fn sessions(State(control): Engine, Query(part): Query<Part>) -> Result<List<Session>, Problem> {
    List::of("sessions", run(control, Control::sessions).await?, part)
}
