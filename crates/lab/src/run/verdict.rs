//! What the cases of a run say together, in sentences.
//!
//! Invariant: every figure in a sentence is computed from the cases.
//! Never: leaves out what makes a result doubtful.

use super::config::Config;
use super::plan;
use crate::measure::Latency;
use crate::report::analysis::Analysis;
use crate::report::caveats::{NOT_WHAT_WAS_WRITTEN, P99_OPERATIONS};
use crate::report::figures::percentile_us;
use crate::report::load::Loaded;
use crate::report::text::LatencyUnit;
use crate::results::{Measured, Record, RunKind, Verified};
use crate::workload::profiles::Search;

/// The sentences, the most important first.
pub fn of(config: &Config, record: &Record, cases: &[Measured]) -> Vec<String> {
    if cases.is_empty() {
        return Vec::new();
    }
    let record = Record { verdict: Vec::new(), ..record.clone() };
    let analysis = Analysis::new(&Loaded { record, cases: cases.iter().cloned().enumerate().collect() });
    let verified = cases.iter().filter_map(|m| m.verified).reduce(Verified::merge);
    let mut own = verified.and_then(|v| wrong_data(&v, cases)).into_iter().collect::<Vec<_>>();
    // What makes the rest doubtful comes before it.
    own.extend(analysis.warnings.into_iter().filter(|w| !w.contains(NOT_WHAT_WAS_WRITTEN) || verified.is_none_or(|v| v.wrong == 0)));
    own.extend(searches(config, analysis.unit, cases));
    own.extend(analysis.verdict);
    own.extend(maxima(config, cases));
    own.extend(verified.map(|v| checked(&v)));
    own
}

/// What comes before all else: data that is not what was written.
fn wrong_data(all: &Verified, cases: &[Measured]) -> Option<String> {
    let case = cases.iter().find(|m| m.verified.is_some_and(|v| v.wrong > 0))?;
    Some(format!(
        "WRONG DATA: {} of {} blocks that were checked did not hold what was written there. The first: {}. The run ended there; do not trust this storage with data before the cause is known.",
        count(all.wrong),
        count(all.checked),
        case.notes.first().map_or("see the case", String::as_str)
    ))
}

/// What was checked, and what was not.
fn checked(all: &Verified) -> String {
    let (checked, unknown) = (count(all.checked), count(all.unknown));
    let why = "not written in this run before they were read; --prepare random writes all of them first";
    match all {
        Verified { checked: 0, unknown: 0, .. } => "Nothing was verified: nothing was read.".into(),
        Verified { checked: 0, .. } => format!("Nothing was verified: all {unknown} blocks that were read were {why}."),
        Verified { wrong, unknown: 0, .. } if *wrong > 0 => format!("{checked} blocks were verified."),
        Verified { wrong, .. } if *wrong > 0 => format!("{checked} blocks were verified; {unknown} were {why}."),
        Verified { unknown: 0, .. } => format!("All {checked} blocks that were read were verified: each held what was written there."),
        _ => format!("{checked} of the blocks that were read were verified, and held what was written there; {unknown} were {why}."),
    }
}

/// The bounds of a search, in words.
fn bounds(search: &Search, unit: LatencyUnit) -> String {
    let mean = search.mean_ms_max.map(|ms| format!("a mean response time of {}", unit.text(ms * 1e3)));
    let p99 = search.p99_ms_max.map(|ms| format!("a p99 of {}", unit.text(ms * 1e3)));
    mean.into_iter().chain(p99).collect::<Vec<_>>().join(" and ")
}

/// What searches for a largest load have found; latencies in the unit of the report.
fn searches(config: &Config, unit: LatencyUnit, cases: &[Measured]) -> Vec<String> {
    let (RunKind::Run, Some(search)) = (config.kind, config.search) else { return Vec::new() };
    let sentence = |name: &str| {
        let mine: Vec<&Measured> = cases.iter().filter(|m| m.workload.name == name).collect();
        let found = plan::found(&search, &mine)?;
        let limit = bounds(&search, unit);
        let of = |units: u64| mine.iter().find(|m| m.labels.iter().any(|l| l.0 == "units" && l.1 == units.to_string()));
        let (kept, lost) = (count(found.kept), count(found.lost));
        // What lies below a load that is kept need not be judged.
        let unjudged = of(found.unjudged).filter(|_| found.unjudged > found.kept).map(|m| {
            format!(
                "{} units could not be judged: they had {} operations, and p99 is known from {} on. Measure longer (--time).",
                count(found.unjudged),
                count(m.total().operations),
                count(P99_OPERATIONS)
            )
        });
        let rest = unjudged.as_ref().map_or(String::new(), |words| format!(" {words}"));
        Some(match of(found.kept) {
            Some(m) => {
                let latency = m.total().latency;
                let p99 = percentile_us(&latency, 99.0).map_or_else(|| "–".into(), |us| unit.text(us));
                format!(
                    "{name}: {kept} units of {} IOPS keep {limit} (they had a mean of {} and a p99 of {p99}); {lost} units do not.{rest}",
                    search.iops_unit,
                    unit.text(latency.mean_ns() / 1e3),
                )
            }
            None if unjudged.is_some() => format!("{name}: of no load is it known that it keeps {limit}; {lost} units do not.{rest}"),
            None => format!("{name}: not one load that was tried keeps {limit}; the smallest was {lost} units."),
        })
    };
    config.workloads.iter().filter_map(|w| sentence(&w.name)).collect()
}

/// How the maxima of curves were found.
fn maxima(config: &Config, cases: &[Measured]) -> Vec<String> {
    if config.kind != RunKind::Curve {
        return Vec::new();
    }
    let sentence = |name: &str| {
        let mine: Vec<&Measured> = cases.iter().filter(|m| m.workload.name == name).collect();
        let (iops, steady) = plan::maximum(&config.curve, &mine)?;
        let iops = number(iops);
        Some(match (config.curve.maximum_iops, steady) {
            (Some(_), _) => format!("{name}: the maximum, {iops} IOPS, was given, not measured."),
            (None, true) => format!(
                "{name}: the maximum, {iops} IOPS, is the mean of the last {} windows of {} s in a closed loop, which differ by at most {} % of it: a steady state.",
                plan::STEADY_WINDOWS,
                config.measure_s,
                plan::STEADY_WITHIN * 100.0
            ),
            (None, false) => format!(
                "{name}: the maximum, {iops} IOPS, was not steady after {} windows of {} s: shares of it may overshoot what can be kept.",
                plan::WINDOWS_MAX,
                config.measure_s
            ),
        })
    };
    config.workloads.iter().filter_map(|w| sentence(&w.name)).collect()
}

/// A figure as people read it.
pub fn number(x: f64) -> String {
    if x.abs() >= 100.0 {
        thousands(x.round() as i64)
    } else if x.abs() >= 10.0 {
        format!("{x:.1}")
    } else {
        format!("{x:.2}")
    }
}

/// A number of things, as people read it.
pub fn count(n: u64) -> String {
    thousands(n.min(i64::MAX as u64) as i64)
}

fn thousands(n: i64) -> String {
    let digits = n.abs().to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if n < 0 { format!("-{out}") } else { out }
}

/// Nanoseconds in the unit that suits them.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", number(ns / 1e9)),
        ns if ns >= 1e6 => format!("{} ms", number(ns / 1e6)),
        ns => format!("{} µs", number(ns / 1e3)),
    }
}

/// A percentile in the unit that suits it; – where too few operations lie beyond it.
pub fn percentile(latency: &Latency, p: f64) -> String {
    percentile_us(latency, p).map_or_else(|| "–".into(), |us| time(us * 1e3))
}

/// One line for one case.
pub fn line(m: &Measured) -> String {
    let all = m.total();
    format!(
        "{} IOPS, {} MiB/s, mean {}, p50 {}, p99 {}, p99.9 {}, longest {}",
        number(m.iops()),
        number(m.mib_s()),
        time(all.latency.mean_ns()),
        percentile(&all.latency, 50.0),
        percentile(&all.latency, 99.0),
        percentile(&all.latency, 99.9),
        time(all.latency.max_ns() as f64)
    )
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
