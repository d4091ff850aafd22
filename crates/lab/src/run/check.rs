//! Whether a run makes sense, before anything is opened.
//!
//! Never: reads a disk or a file.

use super::config::{Config, SECONDS_MAX};
use super::plan;
use crate::engine::open::System;
use crate::error::LabError;
use crate::results::RunKind;

impl Config {
    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), LabError> {
        let wrong = |key: &str, problem: &str| Err(LabError::Workload { place: key.into(), problem: problem.into() });
        let seconds = |s: f64| (0.0..=SECONDS_MAX).contains(&s);
        if !seconds(self.warm_up_s) || !seconds(self.cool_down_s) {
            return wrong("warm_up", "a warm-up has 0 to 2592000 seconds (30 days)");
        }
        if !seconds(self.measure_s) || self.measure_s < 0.01 {
            return wrong("time", "a measurement has 0.01 to 2592000 seconds (30 days)");
        }
        if self.workloads.is_empty() {
            return wrong("workloads", "there is nothing to run");
        }
        let systems = if self.kind == RunKind::Compare { 2 } else { 1 };
        if self.systems.len() != systems {
            return wrong("systems", if systems == 2 { "a comparison has two systems" } else { "this run has one system" });
        }
        self.systems.iter().try_for_each(System::check)?;
        self.workloads.iter().try_for_each(|w| w.check(&w.name))?;
        plan::check(self)
    }
}
