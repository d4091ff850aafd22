//! What the cache drive does: NAND and Optane write buffers under a curve of 70 % reads, 32 KiB, random.
//!
//! The published cluster: four nodes, eight cache drives, every write on two of them, 9.6 TB of data on 64 disks. The model is one of the eight disk groups:
//! it gets an eighth of the reads and, as each write is made twice, a quarter of the writes. What is shown is the cluster: reads times eight,
//! writes times four. Device rates and buffer fill are those of the one group.
//!
//! ```text
//! fill all disks ─► rest ─► as fast as it goes, buffer empty (the published maximum) ─► 10 % ... 100 % of that
//!                                                                                            ─► as fast as it goes, sustained ─► 50 % ... 100 % of that
//! ```
//!
//! Invariants: the same steps for both drives and both controllers; on one drive both controllers get the same loads, those that the published rules
//! reach, after the same history; the buffer goes on from step to step.
//! Never: puts into the model what the study found, but for the figures of the drives and the rules.

use super::follow::Follow;
use super::labels::{label, labels, published};
use super::options::Options;
use crate::model::cluster::{Cluster, Cost, Destage, DriveUse, GroupModel, Namespace, Network, NodeModel, RulesName, Scale, Volumes};
use crate::simulated::Simulated;
use lab::LabError;
use lab::engine::{Engine, Fill, Job};
use lab::measure::Second;
use lab::results::{Measured, Published};
use lab::workload::{Access, Arrivals, Skew, Workload};
use std::time::Duration;

/// Disk groups of the published cluster.
const GROUPS: f64 = 8.0;
/// Copies of each block.
const COPIES: f64 = 2.0;
/// Shares of reads and writes at the client.
const READS: f64 = 0.7;
/// Data of a group, in GiB: 9.6 TB, twice, over eight groups.
const DATA_GIB: f64 = 9.6e12 * COPIES / GROUPS / 1_073_741_824.0;
const DISKS: usize = 8;
/// Outstanding on each of the eight disks that a group has its part of (64 disks of 16 threads, over eight groups).
const DEPTH: f64 = 16.0;
/// The same for the sustainable load: what this publisher has outstanding on a disk where it says it. The cache drive is as busy with it as with 16; more
/// would only wait in line, and its latency at the maximum would be that line's length.
const STEADY_DEPTH: f64 = 4.0;
const BYTES: u32 = 32 << 10;
/// Scale of rates: one operation outstanding on a disk is [`STEADY_DEPTH`]. A larger scale would have more of them than it means.
const RATE: f64 = STEADY_DEPTH;
/// Virtual seconds at a scale of sizes of 100: as fast as it goes, and a step of the curve.
const MAXIMUM_S: f64 = 2.5;
const STEP_S: f64 = 18.0;
const SUSTAINED_S: f64 = 18.0;

/// Requested rates are delivered when at least this share of them is.
const DELIVERED: f64 = 0.95;

/// The write buffers that are compared.
const TIERS: [(&str, &str, f64); 2] = [("NAND", "sas-nand-800", 600e9), ("Optane", "optane-p5800x-400-study", 399e9)];
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
/// Steps of the sustainable load, in percent of it.
const SUSTAINED_STEPS: [u32; 8] = [50, 60, 70, 80, 90, 95, 98, 100];
/// A p99 is a jump when it is more than so many times that of the step before, as in every report.
const JUMP: f64 = lab::report::analysis::KNEE_GROWTH;
const RULES: [(&str, RulesName); 2] = [("published", RulesName::Stepped), ("smooth", RulesName::Smooth)];

/// One of the published groups.
fn cluster(tier: (&str, &str, f64), rules: RulesName, options: &Options) -> Cluster {
    let scale = Scale { rate: options.rate.unwrap_or(RATE), size: options.size.unwrap_or(200.0) };
    let gib = |bytes: f64| bytes / 1_073_741_824.0;
    let capacity = 7;
    let mut drives = vec![DriveUse { name: "cache".into(), model: tier.1.into(), used: 1.0 }];
    drives.extend((0..capacity).map(|n| DriveUse { name: format!("capacity{n}"), model: "sas-nand-3840".into(), used: 0.8 }));
    let group = GroupModel {
        cache: Namespace { drive: "cache".into(), gib: gib(tier.2), count: 1 },
        capacity: (0..capacity).map(|n| Namespace { drive: format!("capacity{n}"), gib: 1_000.0, count: 1 }).collect(),
        shards: 4,
    };
    Cluster {
        name: format!("one group of eight, {} write buffer", tier.0),
        scale,
        nodes: vec![NodeModel { cores: 4, core_cost: Cost::Free, drives, groups: vec![group] }],
        network: Network { round_trip_us: 60.0, gbit_per_s: 100.0 },
        volumes: Volumes { count: DISKS, gib: DATA_GIB / DISKS as f64, stripes: 0 },
        destage: Destage { rules, ..Destage::default() },
    }
}

/// The load of the group when the cluster's clients ask for `iops` (`None`: as fast as it goes) with `depth` operations outstanding on a disk.
fn workload(iops: Option<f64>, depth: f64, rate: f64) -> Workload {
    let (reads, writes) = (READS / GROUPS, (1.0 - READS) * COPIES / GROUPS);
    let depth = (depth / rate).round().max(1.0) as u32;
    let mut w = Workload::simple("70/30 32 KiB random", BYTES, reads / (reads + writes), Access::Random { skew: Skew::Uniform }, depth);
    if let Some(iops) = iops {
        w.arrivals = Arrivals::Limited { iops: iops * (reads + writes) };
    }
    w
}

/// What the clients of the cluster see of what the group did.
fn of_cluster(mut m: Measured, iops: Option<f64>, depth: f64) -> Measured {
    let (reads, writes) = (GROUPS, GROUPS / COPIES);
    let times = |n: &mut u64, by: f64| *n = (*n as f64 * by).round() as u64;
    for (figures, by) in [(&mut m.reads, reads), (&mut m.writes, writes)] {
        for n in [&mut figures.operations, &mut figures.bytes, &mut figures.errors] {
            times(n, by);
        }
    }
    for Second { reads: r, writes: w, read_bytes, written_bytes, .. } in &mut m.seconds {
        times(r, reads);
        times(read_bytes, reads);
        times(w, writes);
        times(written_bytes, writes);
    }
    m.workload.streams[0].reads = READS;
    m.workload.depth = depth as u32;
    m.workload.arrivals = iops.map_or(Arrivals::Closed, |iops| Arrivals::Limited { iops });
    m.notes.push(
        "One of eight disk groups is simulated; reads shown are eight times, writes (made on two groups) four times its own. Buffer fill and device rates are those of one group, with the scale of rates undone."
            .into(),
    );
    m.notes.push("A write is answered by one copy here; in the cluster it waits for the slower of two.".into());
    m
}

/// Runs the study.
pub fn run(options: &Options, follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
    let mut all = Vec::new();
    for tier in TIERS {
        // The published rules come first: what they reach is what both are measured with.
        let mut bases = None;
        for (rules_name, rules) in RULES {
            follow.begins(&format!("{} write buffer, {rules_name} rules", tier.0));
            let mut series = Series {
                engine: Simulated::new(&cluster(tier, rules, options), options.seed)?,
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
    options: &'a Options,
    labels: Vec<(&'static str, &'static str)>,
    done: &'a mut Vec<Measured>,
}

impl Series<'_> {
    /// `bases`: of the series that this one is compared with; `None`: this one finds them.
    fn run(&mut self, bases: Option<Bases>, follow: &mut dyn Follow) -> Result<Bases, LabError> {
        let rate = self.engine.cluster().scale.rate;
        self.engine.prepare(&workload(None, DEPTH, rate), Fill::Zero, follow)?;
        self.engine.rest(60);
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
        let workload = workload(iops, depth, scale.rate);
        let job = Job {
            workload,
            warm_up: Duration::from_secs_f64(seconds / 6.0),
            measure: Duration::from_secs_f64(seconds * 5.0 / 6.0),
            seed: self.options.seed,
        };
        let mut measured = of_cluster(self.engine.run(&job, follow)?, iops, depth);
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
            return Some((*percent, format!("{:.0} of {asked:.0} IOPS, p99 {p99:.1} ms, writes {mean:.1} ms on average", m.iops())));
        }
        before = Some(p99);
    }
    None
}

/// What came out, in sentences.
pub fn verdict(cases: &[Measured]) -> Vec<String> {
    let iops = |cache| find(cases, cache, "published", (EMPTY, MAXIMUM)).map_or(0.0, Measured::iops) / 1e3;
    let mut says = vec![format!(
        "Maximum with an empty buffer: {:.0},000 IOPS with NAND, {:.0},000 with Optane (published: 305,000 and 450,000).",
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
    let of = |rules| find(cases, cache, rules, (SUSTAINED, MAXIMUM)).map(|m| m.iops() / 1e3);
    Some(format!("{cache}: {:.0},000 IOPS sustained with published rules, {:.0},000 with smooth ones.", of("published")?, of("smooth")?))
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
        "{cache}, loads of the {base} base (100 % is {:.0},000 IOPS): published rules {}, smooth rules {}.",
        whole / 1e3,
        words(&theirs),
        words(&ours)
    )];
    let percents = |list: &[&Pair<'_>]| list.iter().map(|p| p.percent.to_string()).collect::<Vec<_>>().join(", ");
    let (same, differ): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|p| p.same());
    says.push(match (same.as_slice(), differ.as_slice()) {
        (_, []) => format!("{cache}, {base} base: the rules do not differ at any of these loads."),
        (same, differ) => {
            let list: Vec<String> = differ
                .iter()
                .map(|p| {
                    let (a, b) = (p.published, p.smooth);
                    format!("{} %: {:.0} and {:.0} IOPS, p99 {:.1} and {:.1} ms", p.percent, a.iops(), b.iops(), p99_ms(a), p99_ms(b))
                })
                .collect();
            let alike = if same.is_empty() { String::new() } else { format!(" They do not differ at {} %.", percents(same)) };
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
            "{:.0},000 IOPS are asked for there and {:.0},000 are what the capacity drives take for good, so a buffer of any size runs full and no rules of destaging can change it",
            asked / 1e3,
            kept / 1e3
        )
    } else {
        format!("{:.0},000 IOPS are less than the {:.0},000 that are kept for good, so better rules could", asked / 1e3, kept / 1e3)
    };
    Some(format!("{cache}, {base} base: smooth rules do not remove the cliff; it is at {at} %. {why}."))
}

#[cfg(test)]
#[path = "cache_tier_tests.rs"]
pub(super) mod tests;
