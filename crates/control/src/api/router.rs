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
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use utoipa::{
    OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::router::OpenApiRouter;

/// The largest request body, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
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
    describe_security(&mut document);
    let mut queries = queries_of(&document);
    let text = document.to_json().expect("a document of plain data");
    let openapi = move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], text.clone()));
    let mut routes = routes;
    for path in [OPENAPI_PATH, "/openapi.json"] {
        queries.insert(("GET".into(), path.into()), BTreeSet::new());
        routes = routes.route(path, get(openapi.clone()));
    }
    let router = routes
        .route_layer(from_fn_with_state(Arc::new(queries), known_queries))
        .with_state(control.clone())
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

/// Who may use the API: on the socket whoever may open it, over TCP who shows the token.
fn describe_security(document: &mut utoipa::openapi::OpenApi) {
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Over TCP: the token in api.token_file. On the Unix socket nothing is asked: who may open it may use the API."))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    let anybody = SecurityRequirement::default();
    document.security = Some(vec![anybody, SecurityRequirement::new("token", Vec::<String>::new())]);
}

/// The parameters of queries, by method and path as the document has them.
type Queries = BTreeMap<(String, String), BTreeSet<String>>;

fn queries_of(document: &utoipa::openapi::OpenApi) -> Queries {
    let plain = serde_json::to_value(document).expect("a document of plain data");
    let mut queries = Queries::new();
    for (path, operations) in plain["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten().filter(|p| p["in"] == "query");
            let names = parameters.filter_map(|p| p["name"].as_str().map(str::to_owned)).collect();
            queries.insert((method.to_uppercase(), path.clone()), names);
        }
    }
    queries
}

/// Refuses parameters of a query that the document does not know: one that is misspelt must not be taken as if it were not there.
async fn known_queries(State(queries): State<Arc<Queries>>, path: MatchedPath, request: Request, next: Next) -> Response {
    // HEAD is answered as GET is.
    let method = if request.method() == Method::HEAD { Method::GET.as_str() } else { request.method().as_str() };
    let known = queries.get(&(method.to_owned(), path.as_str().to_owned()));
    let query = request.uri().query().unwrap_or_default();
    let names = query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').map_or(part, |(name, _)| name));
    let unknown = known.and_then(|known| names.into_iter().find(|name| !known.contains(*name)).map(|name| (name.to_owned(), known)));
    match unknown {
        None => next.run(request).await,
        Some((name, known)) => {
            let all: Vec<&str> = known.iter().map(String::as_str).collect();
            let action = if all.is_empty() { "leave it out: there is none here".into() } else { format!("known here: {}", all.join(", ")) };
            let message = format!("{} {} knows no parameter '{name}'", request.method(), path.as_str());
            Problem::invalid(message, action).into_response()
        }
    }
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
