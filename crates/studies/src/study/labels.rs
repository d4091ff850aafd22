//! Labels of cases, and published figures with theirs.

use lab::results::{Measured, Published};

/// The label `key` of a case.
pub fn label<'a>(measured: &'a Measured, key: &str) -> &'a str {
    measured.labels.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

pub(super) fn published(pairs: &[(&str, &str)], figure: &str, value: f64, remark: &str) -> Published {
    Published { labels: labels(pairs), figure: figure.into(), value, remark: remark.into(), other_hardware: false }
}
