//! NVMe/TCP beside iSCSI on the same volumes: what a transport costs, on modelled networks (`transport_model`) and on files of this machine.
//!
//! ```text
//! rounds: for each load  NVMe/TCP: as fast as it goes, 80 % of that   iSCSI: the same
//!                        (the next round the other way round)  ──► ratio of each round, mean and interval
//! ```
//!
//! Invariants: both transports reach the same volumes of the same node; they are compared within a round only; the published figures stand beside
//! loads that are called by what they are, since the publisher's database loads are not public.
//! Never: calls a difference real that the interval does not show; says anything of a network that is not there.

use super::follow::Follow;
use super::labels::{label, labels, published};
use super::options::Options;
use super::real::{Cut, Real, Site, Sizes, Transport, cores};
use super::rounds::as_one;
pub use super::transport_model::run;
use super::transport_model::{ISCSI, NETWORKS, TRANSPORTS};
use base::ByteSize;
use lab::LabError;
use lab::engine::Job;
use lab::report::compare::{Ratio, ratio};
use lab::results::{Measured, Published};
use lab::workload::{Access, Arrivals, Hot, Size, Skew, Spacing, Stream, Workload};
use std::time::Duration;

/// The least bytes of a layout.
const BYTES_MIN: u64 = 1 << 30;
const VOLUMES: usize = 4;
/// Operations outstanding on each volume.
const DEPTH: u32 = 8;
/// How often each load is measured by each transport.
const ROUNDS: usize = 5;
/// Of each measurement, in seconds.
const WARM_UP_S: f64 = 0.5;
const MEASURE_S: f64 = 2.0;
/// The share of its maximum at which a transport is measured beside it.
pub(super) const SHARE: f64 = 0.8;

const READ: &str = "4 KiB random read";
const SEQUENTIAL: &str = "64 KiB sequential read";
const OLTP: &str = "8 KiB random 90/10, OLTP-like";
const OLTP_LOG: &str = "90/10 in hot ranges and a log, OLTP-like";
pub(super) const FULL: &str = "100 %";
pub(super) const PART: &str = "80 %";

/// The loads, in the order of the published table.
pub fn loads() -> Vec<Workload> {
    let uniform = || Access::Random { skew: Skew::Uniform };
    let sizes = |of: &[(u32, f64)]| of.iter().map(|(bytes, weight)| Size { bytes: *bytes, weight: *weight }).collect::<Vec<_>>();
    let hot = Access::Random { skew: Skew::Hot { ranges: vec![Hot { space: 0.1, operations: 0.6 }] } };
    let stream = |name: &str, share, sizes, reads, access, area| Stream {
        name: name.into(),
        share,
        sizes,
        reads,
        trims: 0.0,
        flush_every: 0,
        access,
        align_bytes: 0,
        area,
    };
    let mut log = Workload::simple(OLTP_LOG, 8192, 0.9, uniform(), DEPTH);
    log.streams = vec![
        stream("tables", 95.0, sizes(&[(4096, 30.0), (8192, 60.0), (16_384, 10.0)]), 0.95, hot, (0.0, 0.9)),
        stream("log", 5.0, sizes(&[(4096, 70.0), (16_384, 30.0)]), 0.0, Access::Sequential { shared: true }, (0.9, 1.0)),
    ];
    vec![
        Workload::simple(READ, 4096, 1.0, uniform(), DEPTH),
        Workload::simple(SEQUENTIAL, 65_536, 1.0, Access::Sequential { shared: false }, DEPTH),
        Workload::simple(OLTP, 8192, 0.9, uniform(), DEPTH),
        log,
    ]
}

/// The published changes from iSCSI to NVMe over fabrics, in percent. Beside the database loads stand ours that are nearest.
pub fn figures() -> Vec<Published> {
    const FIRST: &str = "two hosts, an all-flash array, RoCE; NVMe over fabrics against iSCSI";
    const OTHER: &str = "the same; the publisher's database load is not public, ours is called by what it is";
    let (throughput, latency) = ("throughput against iSCSI %", "latency against iSCSI %");
    let rows = [
        (READ, PART, throughput, 14.6, FIRST),
        (READ, PART, latency, -21.4, FIRST),
        (SEQUENTIAL, PART, throughput, 81.3, FIRST),
        (SEQUENTIAL, PART, latency, -36.8, FIRST),
        (OLTP, FULL, latency, -78.2, OTHER),
        (OLTP, PART, latency, -43.4, OTHER),
        (OLTP_LOG, FULL, latency, -13.2, OTHER),
        (OLTP_LOG, PART, latency, -35.7, OTHER),
    ];
    let row = |(load, share, figure, value, remark): (&str, &str, &str, f64, &str)| {
        let of = [("transport", Transport::NvmeTcp.name()), ("share", share), ("load", load)];
        Published { other_hardware: true, ..published(&of, figure, value, remark) }
    };
    rows.into_iter().map(row).collect()
}

/// What came out on modelled networks, in sentences.
pub fn verdict(cases: &[Measured]) -> Vec<String> {
    let of = |network: &str, transport: &str, share: &str, load: &str| {
        let want = [("network", network), ("transport", transport), ("share", share), ("load", load)];
        cases.iter().find(|m| want.iter().all(|(k, v)| label(m, k) == *v))
    };
    let mut says = Vec::new();
    for load in loads() {
        for share in [FULL, PART] {
            let mut parts = Vec::new();
            for (transport, ..) in TRANSPORTS.iter().filter(|(name, ..)| *name != ISCSI) {
                let changes = NETWORKS.iter().filter_map(|(network, ..)| {
                    let (ours, iscsi) = (of(network, transport, share, &load.name)?, of(network, ISCSI, share, &load.name)?);
                    let percent = |f: &dyn Fn(&Measured) -> f64| match ((f(ours) / f(iscsi) - 1.0) * 100.0).round() {
                        0.0 => "0 %".to_owned(),
                        x => format!("{x:+.0} %"),
                    };
                    let latency = |m: &Measured| m.total().latency.mean_ns();
                    Some(format!("{} and {}", percent(&Measured::iops), percent(&latency)))
                });
                let changes: Vec<String> = changes.collect();
                if !changes.is_empty() {
                    parts.push(format!("{transport} {}", changes.join(", ")));
                }
            }
            let beside = figures_of(&load.name, share);
            let beside = if beside.is_empty() { String::new() } else { format!(" Published: {}.", beside.join(", ")) };
            if !parts.is_empty() {
                says.push(format!("{}, at {share}, throughput and mean latency against iSCSI: {}.{beside}", load.name, parts.join("; ")));
            }
        }
    }
    if !says.is_empty() {
        let networks = NETWORKS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join("; ");
        says.insert(0, format!("Each with three networks, in this order: {networks}."));
        says.push(
            "Hosts cost nothing here, and a request costs the node the same over both protocols: what differs is what they say to each other, and with offload, which is nearest to NVMe over RoCE, that network adapters move the bytes. What is published beyond that, this model does not explain: hosts and array have code of their own for each protocol."
                .into(),
        );
    }
    says
}

/// Whether it can be run there: before anything is made.
pub fn admit(real: &Real) -> Result<(), LabError> {
    if real.bytes < BYTES_MIN {
        let problem = format!("{} are too few: a layout has at least {}", ByteSize(real.bytes), ByteSize(BYTES_MIN));
        return Err(LabError::Workload { place: "--size".into(), problem });
    }
    real.check(real.bytes)
}

/// What was measured of one load by one transport at one share of its maximum: each round.
struct Series {
    by: Transport,
    load: String,
    share: &'static str,
    rounds: Vec<Measured>,
}

/// Runs the study; gives what came out. What was measured before an interruption is reported to `follow`, too.
pub fn on_files(real: &Real, options: &Options, follow: &mut dyn Follow) -> Result<Vec<String>, LabError> {
    let mut all: Vec<Series> = Vec::new();
    for load in loads() {
        for share in [FULL, PART] {
            let series = |by| Series { by, load: load.name.clone(), share, rounds: Vec::new() };
            all.extend([Transport::NvmeTcp, Transport::Iscsi].map(series));
        }
    }
    let ended = measure(real, options, &mut all, follow);
    for s in all.iter().filter(|s| !s.rounds.is_empty()) {
        let kept = follow.case(&merged(s, real));
        if ended.is_ok() {
            kept?;
        }
    }
    ended?;
    Ok(sentences(&all))
}

fn sizes(real: &Real) -> Sizes {
    let data = (real.bytes / 4 / VOLUMES as u64) >> 20 << 20;
    Sizes { cache: real.bytes / 4, capacity: real.bytes - real.bytes / 4, volumes: VOLUMES, volume: data }
}

fn measure(real: &Real, options: &Options, all: &mut [Series], follow: &mut dyn Follow) -> Result<(), LabError> {
    let cut = Cut { groups: 1, capacity: 1, shards: (2 * cores()).next_power_of_two().min(8) as u8 };
    follow.begins(&format!("a node is made in {}, and its volumes are filled", real.dir.display()));
    let mut site = Site::start(real, &[cut], sizes(real))?;
    site.prepare(0, &loads()[0], follow)?;
    for round in 0..ROUNDS {
        follow.begins(&format!("round {} of {ROUNDS}", round + 1));
        for load in loads() {
            let mut order = [Transport::NvmeTcp, Transport::Iscsi];
            if round % 2 == 1 {
                order.reverse();
            }
            for by in order {
                let full = job(load.clone(), options, round);
                let most = site.visit_by(by, 0, &[full], follow)?.remove(0);
                let arrivals = Arrivals::Open { iops: (most.iops() * SHARE).max(1.0), spacing: Spacing::Poisson };
                let part = job(Workload { arrivals, ..load.clone() }, options, round);
                let at_part = site.visit_by(by, 0, &[part], follow)?.remove(0);
                for (share, measured) in [(FULL, most), (PART, at_part)] {
                    let series = all.iter_mut().find(|s| s.by == by && s.load == load.name && s.share == share);
                    series.expect("each has a series").rounds.push(measured);
                }
            }
        }
    }
    Ok(())
}

fn job(workload: Workload, options: &Options, round: usize) -> Job {
    Job {
        workload,
        warm_up: Duration::from_secs_f64(WARM_UP_S * options.time),
        measure: Duration::from_secs_f64(MEASURE_S * options.time),
        seed: options.seed.wrapping_add(round as u64),
    }
}

/// All rounds of a case as one.
fn merged(s: &Series, real: &Real) -> Measured {
    let mut all = as_one(&s.rounds);
    all.labels = labels(&[("transport", s.by.name()), ("share", s.share), ("load", &s.load)]);
    let each = s.rounds.iter().map(|m| format!("{:.0}", m.iops())).collect::<Vec<_>>().join(", ");
    all.notes.push(format!("{} rounds, in alternation with the other transport; IOPS of each: {each}.", s.rounds.len()));
    if s.share == PART {
        all.notes.push(format!("An open loop with {PART} of what this transport reached just before, in the same round."));
    }
    all.notes.push(format!(
        "Basalt's own data plane and both front ends in this process, on sparse files in {}; the clients are the lab's own, over loopback, on the same {} processors.",
        real.dir.display(),
        cores()
    ));
    all
}

/// NVMe/TCP over iSCSI, round by round.
fn compare(all: &[Series], load: &str, share: &str, figure: &'static str, of: impl Fn(&Measured) -> f64) -> Option<Ratio> {
    let rounds = |by| all.iter().find(|s| s.by == by && s.load == load && s.share == share).map(|s| &s.rounds);
    let pairs: Vec<(f64, f64)> = rounds(Transport::Iscsi)?.iter().zip(rounds(Transport::NvmeTcp)?).map(|(a, b)| (of(a), of(b))).collect();
    ratio(figure, &pairs)
}

/// A ratio as a change in percent, with its interval.
fn change(r: &Ratio) -> String {
    let percent = |x: f64| format!("{:+.1} %", (x - 1.0) * 100.0);
    match r.interval {
        Some((low, high)) if r.significant() => format!("{} {} ({} to {})", r.figure, percent(r.ratio), percent(low), percent(high)),
        Some((low, high)) => format!("{}: no difference is shown ({} to {})", r.figure, percent(low), percent(high)),
        None => format!("{} {}, from one round", r.figure, percent(r.ratio)),
    }
}

fn sentences(all: &[Series]) -> Vec<String> {
    let mut says = Vec::new();
    for load in loads() {
        for share in [FULL, PART] {
            let figures = [
                compare(all, &load.name, share, "throughput", Measured::iops),
                compare(all, &load.name, share, "mean latency", |m| m.total().latency.mean_ns()),
            ];
            let list = figures.iter().flatten().map(change).collect::<Vec<_>>().join("; ");
            let beside: Vec<String> = figures_of(&load.name, share);
            let beside = if beside.is_empty() { String::new() } else { format!(" Published: {}.", beside.join(", ")) };
            if !list.is_empty() {
                says.push(format!("{}, at {share} of each transport's own maximum, NVMe/TCP against iSCSI: {list}.{beside}", load.name));
            }
        }
    }
    says.push(format!(
        "Read these as what the two protocols cost in processor time: {} processors here drive clients and target alike, over loopback, without a network and without an operating system's own hosts. Published is NVMe over RoCE against iSCSI, each with the drivers of its hosts.",
        cores()
    ));
    says
}

fn figures_of(load: &str, share: &str) -> Vec<String> {
    let is = |p: &Published, key: &str, value: &str| p.labels.iter().any(|(k, v)| k == key && v == value);
    let all = figures().into_iter().filter(|p| is(p, "load", load) && is(p, "share", share));
    all.map(|p| format!("{} {:+.1} %", p.figure.split(' ').next().unwrap_or_default(), p.value)).collect()
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
