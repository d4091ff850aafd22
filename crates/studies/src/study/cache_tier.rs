//! What the cache drive does: NAND and Optane write buffers under a curve of 70 % reads, 32 KiB, random.
//!
//! The cluster, and the two ways in which it is modelled: `cache_tier_model`.
//!
//! ```text
//! fill all disks ─► rest ─► as fast as it goes, buffer empty (the published maximum) ─► 10 % ... 100 % of that
//!                                                                                            ─► as fast as it goes, sustained ─► 50 % ... 100 % of that
//! ```
//!
//! Invariants: the same steps for both drives and both controllers; on one drive both controllers get the same loads, those that the published rules
//! reach, after the same history; the buffer goes on from step to step.
//! Never: puts into the model what the study found, but for the figures of the drives and the rules.

use super::cache_tier_model::{Model, Tier};
use super::follow::Follow;
use super::labels::{label, labels, published};
use super::options::Options;
use crate::model::cluster::RulesName;
use crate::simulated::Simulated;
use lab::LabError;
use lab::engine::{Engine, Fill, Job};
use lab::report::text::{number, rounded};
use lab::results::{Measured, Published};
use std::time::Duration;

/// Outstanding on each of the 64 disks.
const DEPTH: f64 = 16.0;
/// The same for the sustainable load: what this publisher has outstanding on a disk where it says it. The cache drive is as busy with it as with 16; more
/// would only wait in line, and its latency at the maximum would be that line's length.
const STEADY_DEPTH: f64 = 4.0;
/// Virtual seconds at a scale of sizes of 100: as fast as it goes, and a step of the curve.
const MAXIMUM_S: f64 = 2.5;
const STEP_S: f64 = 18.0;
const SUSTAINED_S: f64 = 18.0;

/// Requested rates are delivered when at least this share of them is.
const DELIVERED: f64 = 0.95;

/// The write buffers that are compared.
const TIERS: [Tier; 2] = [("NAND", "sas-nand-800", 600e9), ("Optane", "optane-p5800x-400-study", 399e9)];
/// What the loads of a series are parts of: what is reached with an empty write buffer, or for good.
const EMPTY: &str = "empty buffer";
/// See [`EMPTY`].
const SUSTAINED: &str = "sustained";
/// The load without a rate.
const MAXIMUM: &str = "maximum";
/// Steps of the published curve, in percent.
const EMPTY_STEPS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Two rates are the same when they differ by no more than this.
const SAME_IOPS: f64 = 0.05;
/// Two p99 are the same when neither is more than so many times the other.
const SAME_P99: f64 = 1.25;
/// Both of these, in words.
const ALIKE: &str = "within 5 % of the IOPS, and a quarter of p99";
/// So much of what is kept for good is near its limit: where operations come at random, they wait for each other there.
const NEAR_LIMIT: f64 = 0.95;
/// Steps of the sustainable load, in percent of it.
const SUSTAINED_STEPS: [u32; 8] = [50, 60, 70, 80, 90, 95, 98, 100];
/// A p99 is a jump when it is more than so many times that of the step before, as in every report.
const JUMP: f64 = lab::report::analysis::KNEE_GROWTH;
const RULES: [(&str, RulesName); 2] = [("published", RulesName::Stepped), ("smooth", RulesName::Smooth)];

/// Runs the study.
pub fn run(options: &Options, follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
    let (model, mut all) = (Model::of(options), Vec::new());
    for tier in TIERS {
        // The published rules come first: what they reach is what both are measured with.
        let mut bases = None;
        for (rules_name, rules) in RULES {
            follow.begins(&format!("{} write buffer, {rules_name} rules", tier.0));
            let mut series = Series {
                engine: Simulated::new(&model.cluster(tier, rules, options), options.seed)?,
                model,
                options,
                labels: vec![("cache", tier.0), ("rules", rules_name)],
                done: &mut all,
            };
            bases = Some(series.run(bases, follow)?);
        }
    }
    Ok(all)
}

/// What 100 % is, in the cluster's operations a second.
#[derive(Clone, Copy)]
struct Bases {
    empty: f64,
    sustained: f64,
}

struct Series<'a> {
    engine: Simulated,
    model: Model,
    options: &'a Options,
    labels: Vec<(&'static str, &'static str)>,
    done: &'a mut Vec<Measured>,
}

impl Series<'_> {
    /// `bases`: of the series that this one is compared with; `None`: this one finds them.
    fn run(&mut self, bases: Option<Bases>, follow: &mut dyn Follow) -> Result<Bases, LabError> {
        self.fill(follow)?;
        let reached = self.case((EMPTY, MAXIMUM), None, DEPTH, MAXIMUM_S, follow)?;
        let empty = bases.map_or(reached, |b| b.empty);
        for percent in EMPTY_STEPS {
            self.case((EMPTY, &step(percent)), Some(empty * f64::from(percent) / 100.0), DEPTH, STEP_S, follow)?;
        }
        let reached = self.case((SUSTAINED, MAXIMUM), None, STEADY_DEPTH, SUSTAINED_S, follow)?;
        let sustained = bases.map_or(reached, |b| b.sustained);
        // From a full buffer, so that nothing is owed to an empty one.
        for percent in SUSTAINED_STEPS {
            self.case((SUSTAINED, &step(percent)), Some(sustained * f64::from(percent) / 100.0), STEADY_DEPTH, STEP_S, follow)?;
        }
        Ok(Bases { empty, sustained })
    }

    /// All disks hold data, on capacity.
    fn fill(&mut self, follow: &mut dyn Follow) -> Result<(), LabError> {
        let load = self.model.workload(None, DEPTH, self.engine.cluster().scale.rate);
        self.engine.prepare(&load, Fill::Zero, follow)?;
        self.engine.rest(60)
    }

    /// One step, (base, load); gives the cluster's operations a second.
    fn case(
        &mut self,
        (base, load): (&str, &str),
        iops: Option<f64>,
        depth: f64,
        seconds: f64,
        follow: &mut dyn Follow,
    ) -> Result<f64, LabError> {
        let scale = self.engine.cluster().scale;
        let seconds = seconds * self.options.time * 100.0 / scale.size;
        let workload = self.model.workload(iops, depth, scale.rate);
        let job = Job {
            workload,
            warm_up: Duration::from_secs_f64(seconds / 6.0),
            measure: Duration::from_secs_f64(seconds * 5.0 / 6.0),
            seed: self.options.seed,
        };
        let mut measured = self.model.of_cluster(self.engine.run(&job, follow)?, iops, depth);
        measured.labels = labels(&self.labels);
        measured.labels.extend(labels(&[("base", base), ("load", load)]));
        if let Some(iops) = iops {
            measured.labels.push(("requested IOPS".into(), format!("{iops:.0}")));
        }
        let got = measured.iops();
        follow.case(&measured)?;
        self.done.push(measured);
        Ok(got)
    }
}

fn step(percent: u32) -> String {
    format!("{percent} %")
}

/// The published figures.
pub fn figures() -> Vec<Published> {
    let of = |cache, load| [("cache", cache), ("rules", "published"), ("base", EMPTY), ("load", load)];
    vec![
        published(&of("NAND", MAXIMUM), "IOPS", 305_000.0, "the maximum that the curve is made of"),
        published(&of("Optane", MAXIMUM), "IOPS", 450_000.0, "the maximum that the curve is made of"),
        published(&of("NAND", "60 %"), "mean write latency ms", 15.5, "from 60 % of the maximum on latency jumps and IOPS fall"),
        published(&of("NAND", "10 %"), "destage MiB/s", 8.0, "at first, buffer near 40 %; ours: mean of the step"),
        published(&of("NAND", "100 %"), "destage MiB/s", 280.0, "later: stuck near it; ours: mean of the step"),
        published(&of("Optane", "10 %"), "destage MiB/s", 434.0, "at first, buffer at 60 %; ours: mean of the step"),
        published(&of("Optane", "100 %"), "destage MiB/s", 820.0, "146 and then rising to this; ours: mean of the step"),
    ]
}

fn find<'a>(cases: &'a [Measured], cache: &str, rules: &str, (base, load): (&str, &str)) -> Option<&'a Measured> {
    let want = [("cache", cache), ("rules", rules), ("base", base), ("load", load)];
    cases.iter().find(|m| want.iter().all(|(k, v)| label(m, k) == *v))
}

fn requested(m: &Measured) -> Option<f64> {
    label(m, "requested IOPS").parse().ok()
}

fn p99_ms(m: &Measured) -> f64 {
    m.total().latency.percentile_ns(99.0) as f64 / 1e6
}

/// A step under both rules.
struct Pair<'a> {
    percent: u32,
    published: &'a Measured,
    smooth: &'a Measured,
}

impl Pair<'_> {
    /// Whether nothing is to be seen of the rules.
    fn same(&self) -> bool {
        let near = |a: f64, b: f64, within: f64| a.max(b) <= a.min(b) * within;
        near(self.published.iops(), self.smooth.iops(), 1.0 + SAME_IOPS) && near(p99_ms(self.published), p99_ms(self.smooth), SAME_P99)
    }
}

/// The first step at which a curve breaks: less than 95 % of what is asked is delivered, or p99 jumps.
fn breaks_at(steps: &[(u32, &Measured)]) -> Option<(u32, String)> {
    let mut before: Option<f64> = None;
    for (percent, m) in steps {
        let (asked, p99) = (requested(m)?, p99_ms(m));
        let short = m.iops() < asked * DELIVERED;
        if short || before.is_some_and(|b| p99 > b * JUMP) {
            let mean = m.writes.latency.mean_ns() / 1e6;
            let (got, asked) = (number(m.iops()), number(asked));
            return Some((*percent, format!("{got} IOPS with {asked} asked for, p99 {p99:.1} ms, writes {mean:.1} ms on average")));
        }
        before = Some(p99);
    }
    None
}

/// What came out, in sentences.
pub fn verdict(cases: &[Measured]) -> Vec<String> {
    let iops = |cache| rounded(find(cases, cache, "published", (EMPTY, MAXIMUM)).map_or(0.0, Measured::iops));
    let mut says = vec![format!(
        "Maximum with an empty buffer: {} IOPS with NAND, {} with Optane (published: 305,000 and 450,000).",
        iops("NAND"),
        iops("Optane")
    )];
    for (cache, ..) in TIERS {
        says.extend(sustained_sentence(cases, cache));
        says.extend(compared(cases, cache, EMPTY, &EMPTY_STEPS));
        says.extend(compared(cases, cache, SUSTAINED, &SUSTAINED_STEPS));
    }
    says
}

fn sustained_sentence(cases: &[Measured], cache: &str) -> Option<String> {
    let of = |rules| find(cases, cache, rules, (SUSTAINED, MAXIMUM)).map(|m| rounded(m.iops()));
    Some(format!("{cache}: {} IOPS sustained with published rules, {} with smooth ones.", of("published")?, of("smooth")?))
}

/// Both rules at the same loads from the same starting point.
fn compared(cases: &[Measured], cache: &str, base: &str, steps: &[u32]) -> Vec<String> {
    let pair = |percent: &u32| {
        let of = |rules| find(cases, cache, rules, (base, &step(*percent)));
        Some(Pair { percent: *percent, published: of("published")?, smooth: of("smooth")? })
    };
    let pairs: Vec<Pair> = steps.iter().filter_map(pair).collect();
    let Some(whole) = pairs.iter().rev().find_map(|p| Some(requested(p.published)? / f64::from(p.percent) * 100.0)) else {
        return Vec::new();
    };
    let published: Vec<(u32, &Measured)> = pairs.iter().map(|p| (p.percent, p.published)).collect();
    let smooth: Vec<(u32, &Measured)> = pairs.iter().map(|p| (p.percent, p.smooth)).collect();
    let words = |at: &Option<(u32, String)>| match at {
        Some((percent, how)) => format!("break at {percent} % ({how})"),
        None => "hold every step".into(),
    };
    let (theirs, ours) = (breaks_at(&published), breaks_at(&smooth));
    let mut says = vec![format!(
        "{cache}, loads of the {base} base (100 % is {} IOPS): published rules {}, smooth rules {}.",
        rounded(whole),
        words(&theirs),
        words(&ours)
    )];
    let percents = |list: &[&Pair<'_>]| list.iter().map(|p| p.percent.to_string()).collect::<Vec<_>>().join(", ");
    let (same, differ): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|p| p.same());
    says.push(match (same.as_slice(), differ.as_slice()) {
        (_, []) => format!("{cache}, {base} base: at each of these loads the rules are alike in IOPS and p99 ({ALIKE})."),
        (same, differ) => {
            let list: Vec<String> = differ
                .iter()
                .map(|p| {
                    let (a, b) = (p.published, p.smooth);
                    let (iops_a, iops_b) = (number(a.iops()), number(b.iops()));
                    format!("{} %: {iops_a} and {iops_b} IOPS, p99 {:.1} and {:.1} ms", p.percent, p99_ms(a), p99_ms(b))
                })
                .collect();
            let alike = if same.is_empty() { String::new() } else { format!(" They are alike at {} % ({ALIKE}).", percents(same)) };
            format!("{cache}, {base} base, published and smooth rules: {}.{alike}", list.join("; "))
        }
    });
    says.extend(ours.and_then(|(at, _)| why_it_breaks(cases, cache, base, at, whole)));
    says
}

/// What is to be said of smooth rules that do not remove the cliff.
fn why_it_breaks(cases: &[Measured], cache: &str, base: &str, at: u32, whole: f64) -> Option<String> {
    let kept = find(cases, cache, "smooth", (SUSTAINED, MAXIMUM))?.iops();
    let asked = whole * f64::from(at) / 100.0;
    let why = if asked > kept {
        format!(
            "{} IOPS are asked for there and {} are what the capacity drives take for good, so a buffer of any size runs full and no rules of destaging can change it",
            rounded(asked),
            rounded(kept)
        )
    } else if asked > kept * NEAR_LIMIT {
        format!(
            "{} IOPS are {:.0} % of the {} that are kept for good: operations that come at random wait for each other there, so it need not be the rules",
            rounded(asked),
            asked / kept * 100.0,
            rounded(kept)
        )
    } else {
        format!("{} IOPS are less than the {} that are kept for good, so better rules could", rounded(asked), rounded(kept))
    };
    Some(format!("{cache}, {base} base: smooth rules do not remove the cliff; it is at {at} %. {why}."))
}

#[cfg(test)]
#[path = "cache_tier_tests.rs"]
pub(super) mod tests;
