//! What the cache drive does: NAND and Optane write buffers under a curve of 70 % reads, 32 KiB, random.
//!
//! The published cluster: four nodes, eight cache drives, every write on two of them, 9.6 TB of data on 64 disks. The model is one of the eight disk groups:
//! it gets an eighth of the reads and, as each write is made twice, a quarter of the writes. What is shown is the cluster: reads times eight,
//! writes times four. Device rates and buffer fill are those of the one group.
//!
//! ```text
//! fill all disks ─► rest ─► as fast as it goes, buffer empty (the published maximum) ─► 10 % ... 100 % of that ─► as fast as it goes, sustained
//! ```
//!
//! Invariant: the same steps for both drives and both controllers; the buffer goes on from step to step.
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
        for (rules_name, rules) in RULES {
            follow.begins(&format!("{} write buffer, {rules_name} rules", tier.0));
            let mut series = Series {
                engine: Simulated::new(&cluster(tier, rules, options), options.seed)?,
                options,
                labels: vec![("cache", tier.0), ("rules", rules_name)],
                done: &mut all,
            };
            series.run(follow)?;
        }
    }
    Ok(all)
}

struct Series<'a> {
    engine: Simulated,
    options: &'a Options,
    labels: Vec<(&'static str, &'static str)>,
    done: &'a mut Vec<Measured>,
}

impl Series<'_> {
    fn run(&mut self, follow: &mut dyn Follow) -> Result<(), LabError> {
        let rate = self.engine.cluster().scale.rate;
        self.engine.prepare(&workload(None, DEPTH, rate), Fill::Zero, follow)?;
        self.engine.rest(60);
        let maximum = self.case("maximum, buffer empty", None, DEPTH, MAXIMUM_S, follow)?;
        for percent in (10..=100).step_by(10) {
            self.case(&format!("{percent} %"), Some(maximum * f64::from(percent) / 100.0), DEPTH, STEP_S, follow)?;
        }
        let sustained = self.case("maximum, steady", None, STEADY_DEPTH, SUSTAINED_S, follow)?;
        if self.labels[1].1 == "smooth" {
            // The steps of the sustainable load: from a full buffer, so that nothing is owed to an empty one.
            for percent in SUSTAINED_STEPS {
                self.case(&format!("{percent} % of steady"), Some(sustained * f64::from(percent) / 100.0), STEADY_DEPTH, STEP_S, follow)?;
            }
        }
        Ok(())
    }

    /// One step; gives the cluster's operations a second.
    fn case(&mut self, load: &str, iops: Option<f64>, depth: f64, seconds: f64, follow: &mut dyn Follow) -> Result<f64, LabError> {
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
        measured.labels.push(("load".into(), load.into()));
        if let Some(iops) = iops {
            measured.labels.push(("requested IOPS".into(), format!("{iops:.0}")));
        }
        let got = measured.iops();
        follow.case(&measured)?;
        self.done.push(measured);
        Ok(got)
    }
}

/// The published figures.
pub fn figures() -> Vec<Published> {
    let max = "maximum, buffer empty";
    let of = |cache, load| [("cache", cache), ("rules", "published"), ("load", load)];
    vec![
        published(&of("NAND", max), "IOPS", 305_000.0, "the maximum that the curve is made of"),
        published(&of("Optane", max), "IOPS", 450_000.0, "the maximum that the curve is made of"),
        published(&of("NAND", "60 %"), "mean write latency ms", 15.5, "from 60 % of the maximum on latency jumps and IOPS fall"),
        published(&of("NAND", "10 %"), "destage MiB/s", 8.0, "at first, buffer near 40 %"),
        published(&of("NAND", "100 %"), "destage MiB/s", 280.0, "later: stuck near it"),
        published(&of("Optane", "10 %"), "destage MiB/s", 434.0, "at first, buffer at 60 %"),
        published(&of("Optane", "100 %"), "destage MiB/s", 820.0, "146 and then rising to this"),
    ]
}

fn find<'a>(cases: &'a [Measured], cache: &str, rules: &str, load: &str) -> Option<&'a Measured> {
    cases.iter().find(|m| label(m, "cache") == cache && label(m, "rules") == rules && label(m, "load") == load)
}

fn requested(m: &Measured) -> Option<f64> {
    label(m, "requested IOPS").parse().ok()
}

/// Mean destaging of a case in MiB a second, of one group.
pub fn destage_mib_s(m: &Measured) -> f64 {
    let rates: Vec<f64> = m.seconds.iter().filter_map(|s| s.target.as_ref()).map(|t| t.destaged_bytes).collect();
    rates.iter().sum::<f64>() / rates.len().max(1) as f64 / 1_048_576.0
}

/// The first step, in percent, that does not deliver what was asked; `None`: all do.
fn breaks_at(cases: &[Measured], cache: &str, rules: &str) -> Option<u32> {
    (10..=100).step_by(10).find(|percent| {
        let case = find(cases, cache, rules, &format!("{percent} %"));
        case.and_then(|m| Some(m.iops() < requested(m)? * DELIVERED)).unwrap_or(false)
    })
}

/// What came out, in sentences.
pub fn verdict(cases: &[Measured]) -> Vec<String> {
    let iops = |cache, rules, load: &str| find(cases, cache, rules, load).map_or(0.0, Measured::iops);
    let max = "maximum, buffer empty";
    let mut says = vec![format!(
        "Maximum with an empty buffer: {:.0},000 IOPS with NAND, {:.0},000 with Optane (published: 305,000 and 450,000).",
        iops("NAND", "published", max) / 1e3,
        iops("Optane", "published", max) / 1e3
    )];
    for cache in ["NAND", "Optane"] {
        says.push(match breaks_at(cases, cache, "published") {
            Some(at) => {
                let m = find(cases, cache, "published", &format!("{at} %")).expect("found above");
                format!(
                    "{cache}, published rules: from {at} % of the maximum the curve breaks: {:.0} of {:.0} IOPS, writes take {:.1} ms on average.",
                    m.iops(),
                    requested(m).unwrap_or(0.0),
                    m.writes.latency.mean_ns() / 1e6
                )
            }
            None => format!("{cache}, published rules: every step delivers at least 95 % of what is asked."),
        });
    }
    for cache in ["NAND", "Optane"] {
        says.extend(smooth_sentence(cases, cache));
    }
    says
}

fn smooth_sentence(cases: &[Measured], cache: &str) -> Option<String> {
    let steady = find(cases, cache, "smooth", "maximum, steady")?.iops();
    let steps: Vec<&Measured> = SUSTAINED_STEPS.iter().filter_map(|p| find(cases, cache, "smooth", &format!("{p} % of steady"))).collect();
    let least = steps.iter().filter_map(|m| Some(m.iops() / requested(m)?)).fold(f64::INFINITY, f64::min);
    let p99: Vec<f64> = steps.iter().map(|m| m.total().latency.percentile_ns(99.0) as f64 / 1e6).collect();
    let jump = p99.windows(2).position(|w| w[1] > w[0] * JUMP).map_or("no step is a jump".into(), |at| {
        let before = SUSTAINED_STEPS[at];
        format!("up to {before} % without a jump, then {:.1} times", p99[at + 1] / p99[at].max(1e-6))
    });
    let steps = SUSTAINED_STEPS.map(|p| p.to_string()).join(", ");
    let list = p99.iter().map(|ms| format!("{ms:.1}")).collect::<Vec<_>>().join(", ");
    Some(format!(
        "{cache}, smooth rules: {:.0},000 IOPS sustained; at {steps} % of that at least {:.0} % of each rate is delivered, p99 is {list} ms ({jump}; a jump is more than {JUMP} times the step before).",
        steady / 1e3,
        least * 100.0
    ))
}

#[cfg(test)]
#[path = "cache_tier_tests.rs"]
pub(super) mod tests;
