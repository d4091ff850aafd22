//! How many operations may fail: the limit that ends a case while it runs.
//!
//! Invariants: each second that is reported is counted, warm-up included; everything else goes on to whoever follows.
//! Never: ends what goes well.

use super::Follow;
use crate::engine::Watch;
use crate::error::LabError;
use crate::measure::{Latency, Second, TargetSecond};
use crate::results::Measured;
use std::time::Instant;

/// Follows one case, and has it end when too many operations have failed.
pub(super) struct Limited<'a> {
    follow: &'a mut dyn Follow,
    most: Option<u64>,
    /// In the cases before, and in this one until now.
    failed: u64,
}

impl<'a> Limited<'a> {
    /// `most`: operations that may fail in the whole run; `before`: those that did in the cases before this one.
    pub fn new(follow: &'a mut dyn Follow, most: Option<u64>, before: u64) -> Self {
        Limited { follow, most, failed: before }
    }
    /// What to say when more have failed than may; `why` is what is known of it.
    pub fn problem(&self, why: Option<&str>) -> Option<LabError> {
        over(self.most, self.failed, why)
    }
}

fn over(most: Option<u64>, failed: u64, why: Option<&str>) -> Option<LabError> {
    let most = most.filter(|most| failed > *most)?;
    Some(LabError::TooManyFailed { failed, most, why: why.unwrap_or_default().trim_end_matches('.').into() })
}

/// The same of cases that are measured, by their figures: an engine without seconds shows its failures there only.
pub(super) fn of_cases(most: Option<u64>, cases: &[Measured]) -> Option<LabError> {
    over(most, failed(cases), cases.iter().find_map(why))
}

/// Operations that failed in these cases.
pub(super) fn failed(cases: &[Measured]) -> u64 {
    cases.iter().map(|m| m.total().errors).sum()
}

/// What a case says of operations that failed.
pub(super) fn why(m: &Measured) -> Option<&str> {
    m.notes.iter().map(String::as_str).find(|note| note.contains("operation that failed") || note.contains("operations failed"))
}

impl Watch for Limited<'_> {
    fn begin(&mut self) -> Instant {
        self.follow.begin()
    }
    fn second(&mut self, second: &Second) {
        self.failed += second.errors;
        self.follow.second(second);
    }
    fn latencies(&mut self, latency: &Latency) {
        self.follow.latencies(latency);
    }
    fn progress(&mut self, what: &str, done: u64, all: u64) {
        self.follow.progress(what, done, all);
    }
    fn stopped(&self) -> bool {
        self.most.is_some_and(|most| self.failed > most) || self.follow.stopped()
    }
    fn target(&mut self) -> Option<TargetSecond> {
        self.follow.target()
    }
    fn target_pid(&self) -> Option<u32> {
        self.follow.target_pid()
    }
    fn target_cpu_s(&mut self) -> Option<f64> {
        self.follow.target_cpu_s()
    }
}
