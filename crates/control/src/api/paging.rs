//! Parts of long lists: `limit` and `after`, and the header `link` with the path of the next part.
//!
//! Invariants: parts are in the order of keys that do not change, so an entry that is there all the time is in exactly one part, whatever is made or
//! deleted meanwhile; without `limit` and `after` a list is whole.

use super::{handler::escaped, types::*};
use crate::Problem;
use axum::{
    Json,
    http::header::LINK,
    response::{IntoResponse, Response},
};
use utoipa::IntoParams;

/// The most entries of a part.
const LIMIT_MAX: usize = 10_000;

/// Which part of a list.
#[derive(serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// The most entries, 1 to 10,000. Where more follow, the header `link` has the path of the next part. Default: all.
    limit: Option<usize>,
    /// Only what comes after the entry with this key, as `link` has it.
    after: Option<String>,
}

/// What an entry of a list is found by: it is another for each, and stays.
pub(super) trait Keyed {
    fn key(&self) -> String;
}

/// A list, or a part of one.
pub(super) struct List<T> {
    items: Vec<T>,
    next: Option<String>,
}

impl<T: Keyed> List<T> {
    /// The part of a collection that was asked for.
    pub(super) fn of(collection: &str, mut items: Vec<T>, part: Part) -> Result<Self, Problem> {
        let Part { limit, after } = part;
        if limit.is_some_and(|limit| limit == 0 || limit > LIMIT_MAX) {
            return Err(Problem::invalid("a part of a list has 1 to 10000 entries", "give another limit"));
        }
        if limit.is_none() && after.is_none() {
            return Ok(Self { items, next: None });
        }
        items.sort_by_cached_key(Keyed::key);
        if let Some(after) = after {
            items.retain(|item| item.key() > after);
        }
        let more = limit.filter(|limit| items.len() > *limit);
        items.truncate(limit.unwrap_or(usize::MAX));
        let next = more.zip(items.last());
        let next = next.map(|(limit, last)| format!("</api/v1/{collection}?limit={limit}&after={}>; rel=\"next\"", escaped(&last.key())));
        Ok(Self { items, next })
    }
}

impl<T: serde::Serialize> IntoResponse for List<T> {
    fn into_response(self) -> Response {
        match self.next {
            Some(next) => ([(LINK, next)], Json(self.items)).into_response(),
            None => Json(self.items).into_response(),
        }
    }
}

macro_rules! keyed {
    ($($of:ty: $key:expr;)*) => {
        $(impl Keyed for $of {
            fn key(&self) -> String {
                let key: fn(&$of) -> String = $key;
                key(self)
            }
        })*
    };
}

keyed! {
    Volume: |v| v.id.clone();
    Group: |g| g.id.clone();
    Policy: |p| p.name.clone();
    Subsystem: |s| s.nqn.clone();
    Host: |h| h.nqn.clone();
    Task: |t| t.id.clone();
    Session: |s| format!("{} {} {}", s.host_nqn, s.node, s.controller);
}

#[cfg(test)]
#[path = "paging_tests.rs"]
mod tests;
