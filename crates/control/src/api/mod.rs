//! The REST API: routes, their OpenAPI document, authentication.
//!
//! Owns: paths, parameters, statuses. Every route is declared where its document is (utoipa-axum), so neither can be forgotten.
//! Invariants: every error is a [`Problem`](crate::Problem); handlers run the engine on threads that may wait; a body has at most 1 MiB.
//! Never: decides; that is the engine's.

mod audited;
mod auth;
mod cluster_routes;
mod copy_types;
pub mod document;
mod drive_types;
mod formation_routes;
mod formation_types;
mod forward;
mod group_types;
mod handler;
mod paging;
mod router;
mod routes;
mod server;
mod statistics_types;
pub mod types;

pub use auth::{NO_TOKEN, Token, TokenError};
pub(crate) use handler::path_below;
pub use router::{OPENAPI_PATH, cluster_router, router};
pub(crate) use server::serve_unix;
pub use server::{ServeError, Served, bind_unix, serve};

#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[path = "reference_tests.rs"]
mod reference_tests;
