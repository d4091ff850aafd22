//! Which case comes next: a pure function of the configuration and of the cases that are kept.
//!
//! ```text
//! run, soak   workload by workload                       with a search: ceiling (closed loop) ─► halving ─► largest load that keeps the limit
//! curve       closed loop until steady = maximum ─► shares of it, in order
//! sweep       every combination of the values            compare     rounds of A B, B A, A B, ...
//! ```
//!
//! Invariant: the same configuration and cases give the same next case.
//! Never: measures, reads files.

use super::config::{Axis, Case, Config, Curve, Parameter};
use crate::engine::open::System;
use crate::error::LabError;
use crate::results::folder::CASES_MAX;
use crate::results::{Measured, RunKind};
use crate::workload::profiles::{Bounds, Search};
use crate::workload::{Arrivals, Workload};

/// Windows of a maximum: when the last [`STEADY_WINDOWS`] differ by no more than [`STEADY_WITHIN`] of their mean, it is steady.
pub const STEADY_WINDOWS: usize = 3;
/// See [`STEADY_WINDOWS`].
pub const STEADY_WITHIN: f64 = 0.05;
/// Windows at most; then the mean of the last ones is taken, and it is said that they were not steady.
pub const WINDOWS_MAX: usize = 10;
/// Steps of a search at most, after the ceiling.
const SEARCH_STEPS_MAX: usize = 14;
/// A search ends when it knows the largest load within this part of it.
const SEARCH_WITHIN: f64 = 0.02;
/// An open loop keeps its rate when at least this part of what was asked for ended in the time.
const KEPT: f64 = 0.95;
/// Rounds of a comparison.
const ROUNDS_MAX: u32 = 100;

/// Whether a plan can be made.
pub fn check(config: &Config) -> Result<(), LabError> {
    let wrong = |key: &str, problem: String| Err(LabError::Workload { place: key.into(), problem });
    let mut names: Vec<&str> = config.workloads.iter().map(|w| w.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < config.workloads.len() {
        return wrong("workloads", "two workloads have the same name: give each its own".into());
    }
    match config.kind {
        RunKind::Curve if config.curve.loads.is_empty() || config.curve.loads.len() > 100 => {
            wrong("loads", "a curve has 1 to 100 points".into())
        }
        RunKind::Curve if config.curve.loads.iter().any(|l| !(*l > 0.0 && *l <= 1000.0)) => {
            wrong("loads", "a load is a percentage above 0 and at most 1000".into())
        }
        RunKind::Compare if config.rounds == 0 || config.rounds > ROUNDS_MAX => {
            wrong("rounds", format!("a comparison has 1 to {ROUNDS_MAX} rounds"))
        }
        _ if config.search.is_some_and(|s| !s.is_sound()) => {
            wrong("search", "a search has a unit and at least one bound, above 0 and at most 60 s".into())
        }
        RunKind::Sweep => check_sweep(config),
        _ => Ok(()),
    }
}

fn check_sweep(config: &Config) -> Result<(), LabError> {
    let wrong = |problem: String| Err(LabError::Workload { place: "over".into(), problem });
    if config.sweep.is_empty() || config.sweep.iter().any(|a| a.values.is_empty()) {
        return wrong("a sweep needs at least one parameter with values, such as depth=1,4,16".into());
    }
    let cases = config.sweep.iter().map(|a| a.values.len()).product::<usize>() * config.workloads.len();
    if cases > CASES_MAX {
        return wrong(format!("{cases} cases are more than {CASES_MAX}: take fewer values"));
    }
    for n in 0..cases {
        let case = sweep_case(config, n);
        let labels: Vec<String> = case.labels.iter().map(|(k, v)| format!("{k} {v}")).collect();
        case.workload.check(&labels.join(", "))?;
        case.setting.check()?;
    }
    Ok(())
}

/// The next case; `None`: all is done.
pub fn next(config: &Config, done: &[Measured]) -> Option<Case> {
    match (config.kind, config.search) {
        (RunKind::Run, Some(search)) => searched(config, search, done),
        (RunKind::Run | RunKind::Soak, _) => one_after_the_other(config, done),
        (RunKind::Curve, _) => curve(config, done),
        (RunKind::Sweep, _) => {
            let all = config.sweep.iter().map(|a| a.values.len()).product::<usize>() * config.workloads.len();
            (done.len() < all).then(|| sweep_case(config, done.len()))
        }
        (RunKind::Compare, _) => compare(config, done.len()),
        (RunKind::Study, _) => None,
    }
}

fn label(key: &str, value: impl Into<String>) -> (String, String) {
    (key.to_owned(), value.into())
}

fn on_first(config: &Config, labels: Vec<(String, String)>, workload: Workload, of: usize) -> Case {
    Case { labels, workload, system: 0, setting: config.systems[0].clone(), of }
}

fn one_after_the_other(config: &Config, done: &[Measured]) -> Option<Case> {
    let workload = config.workloads.get(done.len())?.clone();
    Some(on_first(config, Vec::new(), workload, config.workloads.len()))
}

fn of_workload<'a>(done: &'a [Measured], name: &str) -> Vec<&'a Measured> {
    done.iter().filter(|m| m.workload.name == name).collect()
}

fn mean_iops(cases: &[&Measured]) -> f64 {
    cases.iter().map(|m| m.iops()).sum::<f64>() / cases.len().max(1) as f64
}

/// The maximum of a curve, once its windows are steady or used up: operations a second, and whether it was steady.
pub fn maximum(curve: &Curve, mine: &[&Measured]) -> Option<(f64, bool)> {
    if let Some(given) = curve.maximum_iops {
        return Some((given, true));
    }
    let windows: Vec<&Measured> = mine.iter().copied().filter(|m| matches!(m.workload.arrivals, Arrivals::Closed)).collect();
    let last = &windows[windows.len().saturating_sub(STEADY_WINDOWS)..];
    let mean = mean_iops(last);
    let steady = last.len() == STEADY_WINDOWS && last.iter().all(|m| (m.iops() - mean).abs() <= STEADY_WITHIN * mean);
    (steady || windows.len() >= WINDOWS_MAX).then_some((mean, steady))
}

fn curve(config: &Config, done: &[Measured]) -> Option<Case> {
    let points = config.curve.loads.len();
    for workload in &config.workloads {
        let mine = of_workload(done, &workload.name);
        let windows = mine.iter().filter(|m| matches!(m.workload.arrivals, Arrivals::Closed)).count();
        let found = maximum(&config.curve, &mine);
        let known = if found.is_some() { windows } else { windows.max(STEADY_WINDOWS) };
        let of = config.workloads.len() * (points + known);
        let Some((iops, _)) = found else {
            let closed = Workload { arrivals: Arrivals::Closed, ..workload.clone() };
            return Some(on_first(config, vec![label("load", "maximum")], closed, of.max(windows + 1)));
        };
        let Some(load) = config.curve.loads.get(mine.len() - windows) else { continue };
        let iops = (iops * load / 100.0).max(0.001);
        let arrivals = match config.curve.spacing {
            Some(spacing) => Arrivals::Open { iops, spacing },
            None => Arrivals::Limited { iops },
        };
        return Some(on_first(config, vec![label("load", format!("{load} %"))], Workload { arrivals, ..workload.clone() }, of));
    }
    None
}

fn sweep_case(config: &Config, n: usize) -> Case {
    let per_workload: usize = config.sweep.iter().map(|a| a.values.len()).product();
    let mut workload = config.workloads[n / per_workload].clone();
    let mut setting = config.systems[0].clone();
    let (mut rest, mut labels) = (n % per_workload, Vec::new());
    // The last axis changes fastest.
    for axis in config.sweep.iter().rev() {
        let value = axis.values[rest % axis.values.len()];
        rest /= axis.values.len();
        axis.set(value, &mut workload, &mut setting);
        labels.insert(0, label(axis.parameter.name(), axis.parameter.words(value)));
    }
    Case { labels, workload, system: 0, setting, of: per_workload * config.workloads.len() }
}

impl Axis {
    fn set(&self, value: f64, workload: &mut Workload, system: &mut System) {
        match self.parameter {
            Parameter::Depth => workload.depth = value as u32,
            Parameter::Bytes => {
                for s in &mut workload.streams {
                    s.sizes.truncate(1);
                    s.sizes.iter_mut().for_each(|z| z.bytes = value as u32);
                }
            }
            Parameter::Reads => workload.streams.iter_mut().for_each(|s| (s.reads, s.trims) = (value / 100.0, 0.0)),
            Parameter::WorkingSet => (workload.working_set, workload.working_set_bytes) = (value / 100.0, None),
            Parameter::Rate => {
                workload.arrivals = match workload.arrivals {
                    Arrivals::Open { spacing, .. } => Arrivals::Open { iops: value, spacing },
                    _ => Arrivals::Limited { iops: value },
                }
            }
            Parameter::Disks => system.disks.truncate(value as usize),
            Parameter::Workers => system.workers = value as usize,
        }
    }
}

fn compare(config: &Config, n: usize) -> Option<Case> {
    let a_round = 2 * config.workloads.len();
    let of = a_round * config.rounds as usize;
    if n >= of {
        return None;
    }
    let (round, rest) = (n / a_round, n % a_round);
    // A B in one round, B A in the next: what drifts hits both alike.
    let system = (rest % 2) ^ (round % 2);
    let workload = config.workloads[rest / 2].clone();
    let setting = config.systems[system].clone();
    let letter = if system == 0 { "A" } else { "B" };
    let labels = vec![label("system", letter), label("name", &setting.name), label("round", (round + 1).to_string())];
    Some(Case { labels, workload, system, setting, of })
}

/// What a search knows: the largest number of units that kept the limit, and the smallest that did not.
pub struct Found {
    /// Units that kept the limit; 0: none is known.
    pub kept: u64,
    /// The most units of which too few operations were measured to judge them; 0: all could be judged.
    pub unjudged: u64,
    /// Units that did not.
    pub lost: u64,
    /// Whether there is nothing more to be tried.
    pub ended: bool,
}

impl Found {
    /// What is below is not to be tried: it is kept, or has still fewer operations than one that could not be judged.
    fn floor(&self) -> u64 {
        self.kept.max(self.unjudged)
    }
}

/// How far a search has come; `None`: its ceiling is not known yet.
pub fn found(search: &Search, mine: &[&Measured]) -> Option<Found> {
    let units = |m: &Measured| match m.workload.arrivals {
        Arrivals::Open { iops, .. } => Some((iops / search.iops_unit).round() as u64),
        _ => None,
    };
    let ceiling = mine.iter().find(|m| units(m).is_none())?;
    // No load beyond what a closed loop reaches can be kept; a little more, as that has its own limits.
    let mut f = Found { kept: 0, unjudged: 0, lost: ((ceiling.iops() * 1.2 / search.iops_unit) as u64 + 2).max(2), ended: false };
    for m in mine {
        let Some(n) = units(m) else { continue };
        let delivered = m.kept_iops() >= KEPT * search.iops_unit * n as f64;
        match search.judge(&m.total().latency) {
            Bounds::Kept if delivered => f.kept = f.kept.max(n),
            Bounds::Unknown if delivered => f.unjudged = f.unjudged.max(n),
            _ => f.lost = f.lost.min(n),
        }
    }
    let (floor, lost) = (f.floor(), f.lost);
    f.ended = lost <= floor + 1 || (lost - floor) as f64 <= SEARCH_WITHIN * floor as f64 || mine.len() > SEARCH_STEPS_MAX;
    Some(f)
}

fn searched(config: &Config, search: Search, done: &[Measured]) -> Option<Case> {
    for workload in &config.workloads {
        let mine = of_workload(done, &workload.name);
        let of = config.workloads.len() * SEARCH_STEPS_MAX;
        let Some(f) = found(&search, &mine) else {
            let closed = Workload { arrivals: Arrivals::Closed, ..workload.clone() };
            return Some(on_first(config, vec![label("units", "ceiling")], closed, of));
        };
        if f.ended {
            continue;
        }
        let n = f.floor().midpoint(f.lost);
        let spacing = match workload.arrivals {
            Arrivals::Open { spacing, .. } => spacing,
            _ => Default::default(),
        };
        let arrivals = Arrivals::Open { iops: search.iops_unit * n as f64, spacing };
        return Some(on_first(config, vec![label("units", n.to_string())], Workload { arrivals, ..workload.clone() }, of));
    }
    None
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
