//! Loads with names: those that come with the lab, and those that a user writes.
//!
//! Owns: the TOML files below `profiles/`, each with what it is, and reading files of the same form.
//! Invariants: every profile that is built in passes its checks (a test holds that); an error names file, key and problem.
//! Never: runs anything.

use super::Workload;
use crate::error::LabError;
use crate::measure::{BEYOND, Latency};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Workloads of one profile.
pub const WORKLOADS_MAX: usize = 64;
/// Bytes of a profile's file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Workloads that belong together, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is, where it comes from, and what to take care of.
    #[serde(default)]
    pub description: String,
    /// When the result is a largest load: how it is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// The cases, in order.
    pub workloads: Vec<Workload>,
}

/// The largest load that keeps a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Operations a second of one unit; the result is a whole number of units.
    pub iops_unit: f64,
    /// The mean latency must stay within so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms_max: Option<f64>,
    /// The 99th percentile of latency must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms_max: Option<f64>,
}

/// What latencies say of the bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// They are kept.
    Kept,
    /// One of them is not.
    Broken,
    /// There are too few operations to know that.
    Unknown,
}

impl Search {
    /// What these latencies say of the bounds. p99 is known as everywhere: with [`BEYOND`] operations beyond it. With fewer, it is known to break
    /// its bound when so many took longer than that.
    pub fn judge(&self, latency: &Latency) -> Bounds {
        if latency.count() == 0 {
            return Bounds::Unknown;
        }
        let mean = self.mean_ms_max.is_none_or(|ms| latency.mean_ns() <= ms * 1e6);
        let p99 = self.p99_ms_max.map_or(Some(true), |ms| match latency.known_percentile_ns(99.0) {
            Some(ns) => Some(ns as f64 <= ms * 1e6),
            None => (latency.beyond(ms * 1e6) as f64 >= BEYOND).then_some(false),
        });
        match (mean, p99) {
            (false, _) | (_, Some(false)) => Bounds::Broken,
            (true, Some(true)) => Bounds::Kept,
            (true, None) => Bounds::Unknown,
        }
    }
    /// Whether it makes sense: a unit, and at least one bound.
    pub fn is_sound(&self) -> bool {
        let bound = |b: Option<f64>| b.is_none_or(|ms| ms > 0.0 && ms <= 60_000.0);
        self.iops_unit > 0.0
            && self.iops_unit <= 1e6
            && bound(self.mean_ms_max)
            && bound(self.p99_ms_max)
            && (self.mean_ms_max.is_some() || self.p99_ms_max.is_some())
    }
}

const BUILT_IN: [(&str, &str); 8] = [
    ("easy-run", include_str!("profiles/easy-run.toml")),
    ("four-corners", include_str!("profiles/four-corners.toml")),
    ("kioxia", include_str!("profiles/kioxia.toml")),
    ("mixed-70-30-32k", include_str!("profiles/mixed-70-30-32k.toml")),
    ("spc1-like", include_str!("profiles/spc1-like.toml")),
    ("iometer", include_str!("profiles/iometer.toml")),
    ("random-8k", include_str!("profiles/random-8k.toml")),
    ("oltp-90-10", include_str!("profiles/oltp-90-10.toml")),
];

/// Names of the profiles that come with the lab.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The TOML text of a profile that comes with the lab.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// A profile by name, or the file at this path.
pub fn find(name: &str) -> Result<Profile, LabError> {
    if let Some(text) = text(name) {
        return parse(text, name);
    }
    let path = Path::new(name);
    let wrong = |problem: String| LabError::Workload { place: name.into(), problem };
    let looks_like_a_file = name.ends_with(".toml") || name.contains('/');
    if !path.is_file() && !looks_like_a_file {
        let known: Vec<_> = names().collect();
        return Err(wrong(format!("there is no such profile, and no such file; profiles are {}", known.join(", "))));
    }
    let bytes = std::fs::metadata(path).map_err(|e| wrong(format!("the file cannot be read: {e}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("the file has {bytes} bytes, which is no workload (at most {FILE_BYTES_MAX})")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("the file cannot be read: {e}")))?;
    parse(&text, name)
}

/// A profile, or a single workload, from TOML text; `place` names where it comes from.
pub fn parse(text: &str, place: &str) -> Result<Profile, LabError> {
    let wrong = |e: &toml::de::Error| {
        let line = e.span().map_or(String::new(), |s| format!(": line {}", text[..s.start.min(text.len())].matches('\n').count() + 1));
        LabError::Workload { place: format!("{place}{line}"), problem: e.message().to_owned() }
    };
    let table: toml::Table = toml::from_str(text).map_err(|e| wrong(&e))?;
    // Keys of a workload are what is known in a file without `workloads`, whatever else it lacks.
    let profile = if !table.contains_key("workloads") {
        let workload: Workload = toml::from_str(text).map_err(|e| wrong(&e))?;
        Profile { name: workload.name.clone(), description: workload.description.clone(), search: None, workloads: vec![workload] }
    } else {
        toml::from_str(text).map_err(|e| wrong(&e))?
    };
    profile.check(place)?;
    Ok(profile)
}

impl Profile {
    /// Whether it makes sense.
    pub fn check(&self, place: &str) -> Result<(), LabError> {
        let wrong = |key: &str, problem: &str| Err(LabError::Workload { place: format!("{place}: {key}"), problem: problem.into() });
        if self.workloads.is_empty() || self.workloads.len() > WORKLOADS_MAX {
            return wrong("workloads", "a profile has 1 to 64 workloads");
        }
        if let Some(s) = self.search
            && !s.is_sound()
        {
            return wrong(
                "search",
                "a unit has above 0 and at most 1e6 operations a second; mean_ms_max, p99_ms_max or both are above 0 and at most 60000 ms",
            );
        }
        for (i, w) in self.workloads.iter().enumerate() {
            w.check(&format!("{place}: workloads[{i}] ({})", w.name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "profiles_tests.rs"]
mod tests;
