//! What a run is made of, and what one case of it is.
//!
//! Never: decides which case comes next (that is `plan`).

use crate::engine::Fill;
use crate::engine::open::System;
use crate::error::LabError;
use crate::results::RunKind;
use crate::workload::profiles::Search;
use crate::workload::{Spacing, Workload};
use serde::{Deserialize, Serialize};

/// Longest warm-up or measurement of a case, in seconds: 30 days.
pub const SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// Everything a run is made of; its TOML form is kept with the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What kind.
    pub kind: RunKind,
    /// Headline.
    pub title: String,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Seconds before a case counts.
    pub warm_up_s: f64,
    /// Seconds that count.
    pub measure_s: f64,
    /// Seconds of rest between cases.
    #[serde(default)]
    pub cool_down_s: f64,
    /// How disks are made ready, once, before the first case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Fill>,
    /// Reads of what nothing was written to may be measured: the user said so.
    #[serde(default)]
    pub unwritten: bool,
    /// More operations than this may not fail: the case in which they did ends while it runs, and the run with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors_max: Option<u64>,
    /// Of a profile whose result is a largest load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Of a curve.
    #[serde(default)]
    pub curve: Curve,
    /// Of a sweep: every combination is a case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Axis>,
    /// Of a comparison: how often each system is measured.
    #[serde(default)]
    pub rounds: u32,
    /// What is measured: one system, or the two of a comparison.
    pub systems: Vec<System>,
    /// The loads.
    pub workloads: Vec<Workload>,
}

/// The points of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Loads in percent of the maximum, in the order in which they are measured.
    pub loads: Vec<f64>,
    /// How operations of an open loop come; none: a closed loop that is limited to the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Spacing>,
    /// The maximum in operations a second, when it is known; else it is measured first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_iops: Option<f64>,
}

impl Default for Curve {
    fn default() -> Self {
        Curve { loads: (1..=10).map(|n| f64::from(n) * 10.0).collect(), spacing: Some(Spacing::Poisson), maximum_iops: None }
    }
}

/// One parameter of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Which.
    pub parameter: Parameter,
    /// Its values.
    pub values: Vec<f64>,
}

/// What a sweep can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// Threads on each disk.
    Depth,
    /// Bytes of an operation.
    Bytes,
    /// Reads in percent; the rest are writes.
    Reads,
    /// Part of each disk that is used, in percent.
    WorkingSet,
    /// Operations a second.
    Rate,
    /// How many of the disks.
    Disks,
    /// Threads of the client.
    Workers,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Parameter; 7] = [
        Parameter::Depth,
        Parameter::Bytes,
        Parameter::Reads,
        Parameter::WorkingSet,
        Parameter::Rate,
        Parameter::Disks,
        Parameter::Workers,
    ];

    /// Its name on the command line and in labels.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Depth => "depth",
            Parameter::Bytes => "bytes",
            Parameter::Reads => "reads",
            Parameter::WorkingSet => "working-set",
            Parameter::Rate => "rate",
            Parameter::Disks => "disks",
            Parameter::Workers => "workers",
        }
    }

    /// A value as a label.
    pub fn words(self, value: f64) -> String {
        match self {
            Parameter::Reads | Parameter::WorkingSet => format!("{value} %"),
            _ => format!("{value}"),
        }
    }
}

/// One case to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What distinguishes it.
    pub labels: Vec<(String, String)>,
    /// The load.
    pub workload: Workload,
    /// Which of the systems.
    pub system: usize,
    /// The system as this case has it: a sweep may change it.
    pub setting: System,
    /// How many cases there are in all, as far as known.
    pub of: usize,
}

impl Config {
    /// As it is kept.
    pub(super) fn to_toml(&self) -> Result<String, LabError> {
        toml::to_string(self).map_err(|e| LabError::Workload { place: "configuration".into(), problem: e.to_string() })
    }
}
