//! A case while it runs: how many operations may fail before it ends, and how fast processors are in the middle of it.
//!
//! Invariants: each second that is reported is counted, warm-up included; everything goes on to whoever follows.
//! Never: ends what goes well.

use super::Follow;
use crate::engine::Watch;
use crate::error::LabError;
use crate::measure::noise::{TargetMachine, is_middle};
use crate::measure::{Latency, Second, TargetSecond};
use crate::results::Measured;
use machine::Frequency;
use std::time::Instant;

/// Follows one case.
pub(super) struct Watched<'a> {
    follow: &'a mut dyn Follow,
    /// Operations that may fail in the whole run.
    pub failures_max: Option<u64>,
    /// In the cases before, and in this one until now.
    pub failed: u64,
    /// Seconds that are measured, where frequencies of this machine are wanted.
    pub look_here_s: Option<f64>,
    /// The same of the machine of the target.
    pub look_target_s: Option<f64>,
    /// What was seen of this machine.
    pub here: Option<Frequency>,
    /// And of that of the target.
    pub target: Option<Frequency>,
}

impl<'a> Watched<'a> {
    /// Without a limit, and looking at nothing.
    pub fn new(follow: &'a mut dyn Follow) -> Self {
        Watched { follow, failures_max: None, failed: 0, look_here_s: None, look_target_s: None, here: None, target: None }
    }
    /// What to say when more have failed than may; `why` is what is known of it.
    pub fn problem(&self, why: Option<&str>) -> Option<LabError> {
        over(self.failures_max, self.failed, why)
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

impl Watch for Watched<'_> {
    fn begin(&mut self) -> Instant {
        self.follow.begin()
    }
    fn second(&mut self, second: &Second) {
        self.failed += second.errors;
        if self.look_here_s.is_some_and(|all| is_middle(second.at_s, all)) {
            self.look_here_s = None;
            self.here = machine::frequency();
        }
        if self.look_target_s.is_some_and(|all| is_middle(second.at_s, all)) {
            self.look_target_s = None;
            self.target = self.follow.target_machine().and_then(|m| m.now.frequency);
        }
        self.follow.second(second);
    }
    fn latencies(&mut self, latency: &Latency) {
        self.follow.latencies(latency);
    }
    fn progress(&mut self, what: &str, done: u64, all: u64) {
        self.follow.progress(what, done, all);
    }
    fn stopped(&self) -> bool {
        self.failures_max.is_some_and(|most| self.failed > most) || self.follow.stopped()
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
    fn target_machine(&mut self) -> Option<TargetMachine> {
        self.follow.target_machine()
    }
}
