//! What the cases of a run say together, in sentences.
//!
//! Invariant: every figure in a sentence is computed from the cases.
//! Never: leaves out what makes a result doubtful.

use super::Config;
use crate::results::{Kind, Measured};

/// The sentences, the most important first.
pub fn of(config: &Config, cases: &[Measured], complete: bool) -> Vec<String> {
    let mut said = match config.kind {
        Kind::Run | Kind::Soak | Kind::Study | Kind::Curve | Kind::Sweep | Kind::Compare => each(cases),
    };
    if !complete {
        said.insert(0, format!("This run is not complete: {} of its cases are there.", cases.len()));
    }
    said.extend(doubts(cases));
    said
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

/// One line for one case.
pub fn line(m: &Measured) -> String {
    let all = m.total();
    format!(
        "{} IOPS, {} MiB/s, mean {}, p50 {}, p99 {}, p99.9 {}, longest {}",
        number(m.iops()),
        number(m.mib_s()),
        time(all.latency.mean_ns()),
        time(all.latency.percentile_ns(50.0) as f64),
        time(all.latency.percentile_ns(99.0) as f64),
        time(all.latency.percentile_ns(99.9) as f64),
        time(all.latency.max_ns() as f64)
    )
}

fn each(cases: &[Measured]) -> Vec<String> {
    cases.iter().map(|m| format!("{}: {}.", m.workload.name, line(m))).collect()
}

fn doubts(cases: &[Measured]) -> Vec<String> {
    let mut said = Vec::new();
    let errors: u64 = cases.iter().map(|m| m.total().errors).sum();
    if errors > 0 {
        said.push(format!("{} operations failed; they are in no latency.", thousands(errors as i64)));
    }
    let (checked, wrong) = cases.iter().filter_map(|m| m.verified).fold((0, 0), |a, v| (a.0 + v.0, a.1 + v.1));
    if wrong > 0 {
        said.push(format!("WRONG DATA: {wrong} of {checked} blocks that were read did not hold what was written there."));
    } else if checked > 0 {
        said.push(format!("All {} blocks that were read held what was written there.", thousands(checked as i64)));
    }
    said
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
