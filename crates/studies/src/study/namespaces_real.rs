//! The namespaces study on files of this machine: the same layouts and loads, Basalt's own data plane, real time.
//!
//! ```text
//! 1+1, 1+4, 1+7 side by side ──► rounds: 1+1 1+4 1+7, 1+7 1+4 1+1, ... ──► ratio of each round, mean and interval
//! one to five groups         ──► the same, for Basalt and for a core a group
//! ```
//!
//! Invariants: layouts are compared within a round only; a round visits them in the order opposite to that of the round before; each visit begins with all
//! data on capacity and an empty write buffer.
//! Never: calls a difference real, or absent, that the interval does not show.

use super::fixture::Design;
use super::follow::Follow;
use super::labels::labels;
use super::namespaces::{GROUPS, LAYOUTS, MIXED, READ, SAME, loads};
use super::options::Options;
use super::real::{Cut, Real, Site, Sizes, cores};
use super::rounds::as_one;
use base::ByteSize;
use lab::LabError;
use lab::engine::Job;
use lab::report::compare::{Ratio, ratio};
use lab::results::Measured;
use lab::workload::Workload;
use std::time::Duration;

/// Bytes of one layout, unless something else is asked for.
pub const BYTES: u64 = 2 << 30;
/// The least: five write buffers still have room for their segments.
pub const BYTES_MIN: u64 = 1 << 30;
/// Shares of [`Real::bytes`]: write buffers a quarter, capacity the rest, data a quarter.
const CACHE_PART: u64 = 4;
const DATA_PART: u64 = 4;
const VOLUMES: usize = 8;
/// How often each layout is measured, and each number of groups.
const ROUNDS: usize = 6;
const GROUP_ROUNDS: usize = 3;
/// Of each load in each round, in seconds.
const WARM_UP_S: f64 = 0.5;
const MEASURE_S: f64 = 2.0;
/// Shards of a group of ours at most, as on modelled hardware.
const SHARDS_MAX: usize = 8;

/// Cases that were measured in alternation: what they are called, and each load's rounds.
struct Series {
    labels: Vec<(&'static str, String)>,
    cut: Cut,
    /// For each load: each round.
    rounds: Vec<Vec<Measured>>,
}

/// Whether it can be run there: before anything is made.
pub fn admit(real: &Real) -> Result<(), LabError> {
    if real.bytes < BYTES_MIN {
        let problem = format!("{} are too few for five groups: a layout has at least {}", ByteSize(real.bytes), ByteSize(BYTES_MIN));
        return Err(LabError::Workload { place: "--size".into(), problem });
    }
    real.check(real.bytes.saturating_mul(GROUPS.len() as u64))
}

/// Runs the study; gives what came out. What was measured before an interruption is reported to `follow`, too.
pub fn run(real: &Real, options: &Options, follow: &mut dyn Follow) -> Result<Vec<String>, LabError> {
    let mut all = Vec::new();
    let parts = [
        (layouts(), loads(), ROUNDS),
        (groups(Design::Ours), loads()[..2].to_vec(), GROUP_ROUNDS),
        (groups(Design::OneThread), loads()[..2].to_vec(), GROUP_ROUNDS),
    ];
    for (mut series, loads, rounds) in parts {
        let ended = measure(real, options, &mut series, &loads, rounds, follow);
        for s in &series {
            for rounds in s.rounds.iter().filter(|r| !r.is_empty()) {
                let kept = follow.case(&merged(s, rounds, real));
                if ended.is_ok() {
                    kept?;
                }
            }
        }
        ended?;
        all.extend(series);
    }
    Ok(verdict(&all, real))
}

fn shards(design: Design) -> u8 {
    match design {
        Design::Ours => (2 * cores()).next_power_of_two().min(SHARDS_MAX) as u8,
        Design::OneThread => 1,
    }
}

fn series(part: &str, layout: &str, cut: Cut, design: Design) -> Series {
    let labels = vec![
        ("layout", layout.to_owned()),
        ("groups", cut.groups.to_string()),
        ("design", design.name().to_owned()),
        ("part", part.to_owned()),
    ];
    Series { labels, cut, rounds: Vec::new() }
}

fn layouts() -> Vec<Series> {
    let of = |(layout, capacity, _): (&str, usize, f64)| {
        series("layouts", layout, Cut { groups: 1, capacity, shards: shards(Design::Ours) }, Design::Ours)
    };
    LAYOUTS.into_iter().map(of).collect()
}

fn groups(design: Design) -> Vec<Series> {
    GROUPS.into_iter().map(|groups| series("groups", "1+1", Cut { groups, capacity: 1, shards: shards(design) }, design)).collect()
}

fn sizes(real: &Real) -> Sizes {
    let mib = |bytes: u64| bytes >> 20 << 20;
    Sizes {
        cache: real.bytes / CACHE_PART,
        capacity: real.bytes - real.bytes / CACHE_PART,
        volumes: VOLUMES,
        volume: mib(real.bytes / DATA_PART / VOLUMES as u64),
    }
}

/// All rounds of series that are compared with each other.
fn measure(
    real: &Real,
    options: &Options,
    series: &mut [Series],
    loads: &[Workload],
    rounds: usize,
    follow: &mut dyn Follow,
) -> Result<(), LabError> {
    let cuts: Vec<Cut> = series.iter().map(|s| s.cut.clone()).collect();
    let (design, part) = (series[0].labels[2].1.clone(), series[0].labels[3].1.clone());
    follow.begins(&format!("{part}, {design}: {} cuts are made and filled in {}", cuts.len(), real.dir.display()));
    let mut site = Site::start(real, &cuts, sizes(real))?;
    for (fixture, s) in series.iter_mut().enumerate() {
        s.rounds = vec![Vec::new(); loads.len()];
        site.prepare(fixture, &loads[0], follow)?;
    }
    for round in 0..rounds {
        follow.begins(&format!("{part}: round {} of {rounds}", round + 1));
        let mut order: Vec<usize> = (0..series.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let jobs: Vec<Job> = loads.iter().map(|load| job(load, options, round)).collect();
        for fixture in order {
            for (load, measured) in site.visit(fixture, &jobs, follow)?.into_iter().enumerate() {
                series[fixture].rounds[load].push(measured);
            }
        }
    }
    Ok(())
}

fn job(load: &Workload, options: &Options, round: usize) -> Job {
    Job {
        workload: load.clone(),
        warm_up: Duration::from_secs_f64(WARM_UP_S * options.time),
        measure: Duration::from_secs_f64(MEASURE_S * options.time),
        seed: options.seed.wrapping_add(round as u64),
    }
}

/// All rounds of a case as one: operations, histograms and seconds of all of them.
fn merged(series: &Series, rounds: &[Measured], real: &Real) -> Measured {
    let mut all = as_one(rounds);
    let pairs: Vec<(&str, &str)> = series.labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
    all.labels = labels(&pairs);
    all.labels.push(("load".into(), all.workload.name.clone()));
    let each = rounds.iter().map(|m| format!("{:.0}", m.iops())).collect::<Vec<_>>().join(", ");
    all.notes.push(format!("{} rounds, in alternation with what it is compared with; IOPS of each: {each}.", rounds.len()));
    all.notes.push(format!(
        "Basalt's own data plane and NVMe/TCP in this process, on sparse files in {}; a layout has {}, a quarter of it write buffer, and {} of data.",
        real.dir.display(),
        ByteSize(real.bytes),
        ByteSize(sizes(real).volume * VOLUMES as u64)
    ));
    all.notes.push(format!(
        "Client and target are one process on the same {} processors: what is reported as the client's processor time is that of both.",
        cores()
    ));
    all
}

/// IOPS of `b` over those of `a`, round by round.
fn compare(a: &Series, b: &Series, load: &str) -> Option<Ratio> {
    let of = |s: &Series| s.rounds.iter().find(|r| r.first().is_some_and(|m| m.workload.name == load)).cloned();
    let pairs: Vec<(f64, f64)> = of(a)?.iter().zip(&of(b)?).map(|(a, b)| (a.iops(), b.iops())).collect();
    ratio("IOPS", &pairs)
}

fn find<'a>(all: &'a [Series], part: &str, pairs: [(&str, &str); 2]) -> Option<&'a Series> {
    let has = |s: &Series, key: &str, value: &str| s.labels.iter().any(|(k, v)| *k == key && v == value);
    all.iter().find(|s| has(s, "part", part) && pairs.iter().all(|(k, v)| has(s, k, v)))
}

/// What the interval of "one capacity namespace over several" says of "within 5 %".
fn judged(load: &str, r: &Ratio) -> String {
    let Some((low, high)) = r.interval else { return format!("{load}: {:.3} times, from one round: nothing can be said", r.ratio) };
    let says = match (low >= 1.0 - SAME, high < 1.0 - SAME) {
        (true, _) => "within 5 %",
        (_, true) => "more than 5 % less",
        _ => "not decided, the rounds differ too much",
    };
    format!("{load} {:.3} times ({low:.3} to {high:.3}): {says}", r.ratio)
}

fn verdict(all: &[Series], real: &Real) -> Vec<String> {
    let mut says = Vec::new();
    let layout = |name| find(all, "layouts", [("layout", name), ("groups", "1")]);
    for several in ["1+7", "1+4"] {
        let (Some(a), Some(b)) = (layout(several), layout("1+1")) else { continue };
        let loads = loads();
        let ratios: Vec<(&str, Ratio)> = loads.iter().filter_map(|l| Some((l.name.as_str(), compare(a, b, &l.name)?))).collect();
        let within = ratios.iter().filter(|(_, r)| r.interval.is_some_and(|(low, _)| low >= 1.0 - SAME)).count();
        let list = ratios.iter().map(|(load, r)| judged(load, r)).collect::<Vec<_>>().join("; ");
        says.push(format!(
            "On files in {}, Basalt with 1+1 namespaces against {several} (95 % confidence): for {within} of {} loads it is shown that one capacity namespace is no more than 5 % slower. {list}.",
            real.dir.display(),
            ratios.len()
        ));
    }
    for load in [READ, MIXED] {
        let list = |design: Design| {
            let of = |n: &usize| {
                let s = find(all, "groups", [("design", design.name()), ("groups", &n.to_string())])?;
                let rounds = s.rounds.iter().find(|r| r.first().is_some_and(|m| m.workload.name == load))?;
                Some(rounds.iter().map(Measured::iops).sum::<f64>() / rounds.len() as f64 / 1e3)
            };
            GROUPS.iter().filter_map(of).map(|k| format!("{k:.1}")).collect::<Vec<_>>().join(", ")
        };
        says.push(format!(
            "{load}, thousands of IOPS with one to five groups on one file system: Basalt {}; a core for each group {}.",
            list(Design::Ours),
            list(Design::OneThread)
        ));
    }
    says.push(format!(
        "Read these figures as ratios of layouts: {} processors here drive client and target alike, {} of files stand for a drive, and whatever else this machine does is in them. Published are three hosts with twelve drives.",
        cores(),
        ByteSize(real.bytes)
    ));
    says
}

#[cfg(test)]
#[path = "namespaces_real_tests.rs"]
mod tests;
