//! Does cutting a drive into namespaces help? KIOXIA CM6 drives as 1+1, 1+4 and 1+7 namespaces, and as one to five disk groups.
//!
//! The published cluster has three nodes of four drives, each drive one disk group, every write on two nodes. The model is one drive of one node
//! with 12 cores of its own (an eighth of the published 96) and no copies. So what can be compared are ratios between layouts, not the figures themselves.
//!
//! Invariant: the same loads on every layout.
//! Never: multiplies one drive to a cluster.

use super::fixture::{Design, Fixture};
use super::follow::Follow;
use super::labels::{label, published};
use super::options::Options;
use lab::LabError;
use lab::report::text::rounded;
use lab::results::{Measured, Published};
use lab::workload::{Access, Skew, Workload};

/// Capacity namespaces beside the one for the write buffer.
pub(super) const LAYOUTS: [(&str, usize, f64); 3] = [("1+1", 1, 6400.0), ("1+4", 4, 6320.0), ("1+7", 7, 6475.0)];
/// Disk groups on the drive.
pub(super) const GROUPS: [usize; 5] = [1, 2, 3, 4, 5];
/// "Within 5 %".
pub(super) const SAME: f64 = 0.05;

const WRITE: &str = "256 KiB sequential write";
pub(super) const READ: &str = "4 KiB random read";
pub(super) const MIXED: &str = "4 KiB random 70/30";
const HALF: &str = "8 KiB random 50/50";

fn fixture(groups: usize, capacity: usize, capacity_gib: f64) -> Fixture {
    Fixture {
        drive: "kioxia-cm6-7680",
        groups,
        capacity,
        cache_gib: 600.0,
        capacity_gib,
        cores: 12,
        // 24 machines of 8 disks of 14 GiB, twice, over 12 drives
        volumes: (60, 7.5),
        scale: (4.0, 100.0),
        pace: 1.0,
    }
}

pub(super) fn loads() -> Vec<Workload> {
    let random = || Access::Random { skew: Skew::Uniform };
    // 240 outstanding on a drive: enough that no layout is short of load (the published 64 a drive are not).
    vec![
        Workload::simple(READ, 4096, 1.0, random(), 4),
        Workload::simple(MIXED, 4096, 0.7, random(), 4),
        Workload::simple(HALF, 8192, 0.5, random(), 4),
        Workload::simple(WRITE, 256 << 10, 0.0, Access::Sequential { shared: true }, 2),
    ]
}

/// Runs the study on modelled drives.
pub fn run(options: &Options, follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
    let mut all = Vec::new();
    for (layout, capacity, gib) in LAYOUTS {
        for design in [Design::Ours, Design::OneThread] {
            all.extend(fixture(1, capacity, gib).run(design, &loads(), &[("layout", layout), ("groups", "1")], options, follow)?);
        }
    }
    for groups in &GROUPS[1..] {
        for design in [Design::Ours, Design::OneThread] {
            let pairs = [("layout", "1+1"), ("groups", &*groups.to_string())];
            all.extend(fixture(*groups, 1, 6400.0).run(design, &loads()[..2], &pairs, options, follow)?);
        }
    }
    Ok(all)
}

/// The published table. Its 2, 5 and 8 namespaces are our 1+1, 1+4 and 1+7.
pub fn figures() -> Vec<Published> {
    const RATIO: &str = "12 drives, two copies; IOPS times block size gives the stated MiB/s";
    let rows = [
        (WRITE, [(10_300.6, 2_575.2, 74.52), (8_688.6, 2_172.0, 88.54), (15_700.7, 3_925.1, 49.02)]),
        (READ, [(697_100.0, 2_723.2, 1.12), (693_480.5, 2_708.9, 1.10), (896_555.8, 3_502.1, 0.86)]),
        (MIXED, [(379_858.8, 1_483.8, 2.04), (437_519.9, 1_709.0, 1.75), (480_309.0, 1_876.1, 1.60)]),
        (HALF, [(236_972.6, 1_851.3, 3.23), (277_119.2, 2_165.0, 2.76), (421_026.9, 3_289.2, 1.84)]),
    ];
    let mut all = Vec::new();
    for (load, values) in rows {
        for ((layout, ..), (iops, mib, ms)) in LAYOUTS.iter().zip(values) {
            let of = [("layout", *layout), ("groups", "1"), ("load", load)];
            let remark = if load == READ && *layout == "1+1" { "12 drives, two copies; published as \"about\"" } else { RATIO };
            all.push(published(&of, "IOPS", iops, remark));
            all.push(published(&of, "MiB/s", mib, remark));
            all.push(published(&of, "mean latency ms", ms, remark));
        }
    }
    let none =
        [(WRITE, 1_987.4, 582.8, 41.14), (READ, 232_483.0, 881.6, 1.71), (MIXED, 96_241.3, 396.2, 3.78), (HALF, 35_209.9, 333.2, 9.02)];
    for (load, iops, mib, ms) in none {
        let of = [("layout", "no namespaces"), ("load", load)];
        let remark = "does not agree with itself: IOPS times block size is not the stated MiB/s, and about half as many operations were outstanding as in the others";
        all.push(published(&of, "IOPS", iops, remark));
        all.push(published(&of, "MiB/s", mib, remark));
        all.push(published(&of, "mean latency ms", ms, remark));
    }
    // One modelled drive is not divided by twelve real ones: ratios of layouts are compared, in the sentences.
    all.into_iter().map(|p| Published { other_hardware: true, ..p }).collect()
}

fn iops(cases: &[Measured], design: Design, layout: &str, groups: usize, load: &str) -> Option<f64> {
    let groups = groups.to_string();
    let want = [("design", design.name()), ("layout", layout), ("groups", groups.as_str()), ("load", load)];
    cases.iter().find(|m| want.iter().all(|(k, v)| label(m, k) == *v)).map(Measured::iops)
}

/// What came out, in sentences.
pub fn verdict(cases: &[Measured]) -> Vec<String> {
    let mut says = Vec::new();
    let ratio = |design, load| Some(iops(cases, design, "1+7", 1, load)? / iops(cases, design, "1+1", 1, load)?);
    let ours: Vec<(&str, f64)> = [READ, MIXED, HALF, WRITE].iter().filter_map(|l| Some((*l, ratio(Design::Ours, l)?))).collect();
    let list = ours.iter().map(|(load, r)| format!("{load} {:+.1} %", (r - 1.0) * 100.0)).collect::<Vec<_>>().join(", ");
    let worst = ours.iter().map(|(_, r)| r - 1.0).fold(0.0, f64::max);
    says.push(match worst <= SAME {
        true => format!("Basalt does not need the cut: seven capacity namespaces give at most 5 % more than one ({list})."),
        false => format!("Basalt gains up to {:.0} % from seven capacity namespaces instead of one ({list}).", worst * 100.0),
    });
    for load in [READ, MIXED] {
        let of = |design, groups| iops(cases, design, "1+1", groups, load).map_or_else(|| "–".to_owned(), rounded);
        says.push(format!(
            "{load}, one to five groups on one drive: a thread for each group gives {} to {} IOPS, Basalt {} to {}.",
            of(Design::OneThread, 1),
            of(Design::OneThread, 5),
            of(Design::Ours, 1),
            of(Design::Ours, 5)
        ));
    }
    says.push("Published, 8 namespaces against 2: reads 1.29 times, 70/30 1.26, 50/50 1.78, sequential writes 1.52; there each capacity device and group has threads of its own.".into());
    says
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
