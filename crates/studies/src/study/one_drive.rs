//! One drive as up to 24 devices: a Micron 9300 as one to three disk groups of one write buffer and one to seven capacity namespaces.
//!
//! Published: four nodes of one drive each, 3 x 600 GB and 21 x 594 GB: 750,000 IOPS of 4 KiB random reads (16 outstanding on each of 64 disks) and 11.5 GB/s
//! of 128 KiB sequential reads (one outstanding), so a quarter of that for each drive. The model is one drive of one node, without copies.
//!
//! Invariant: the same loads on every arrangement.
//! Never: multiplies one drive to a cluster.

use super::fixture::{Design, Fixture};
use super::follow::Follow;
use super::labels::{label, published};
use super::options::Options;
use lab::LabError;
use lab::results::{Measured, Published};
use lab::workload::{Access, Skew, Workload};

const READ: &str = "4 KiB random read";
const LARGE: &str = "128 KiB sequential read";
const WRITE: &str = "4 KiB random write";
/// (groups, capacity namespaces of each).
const CUTS: [(usize, usize); 4] = [(1, 1), (1, 7), (2, 7), (3, 7)];

fn fixture(groups: usize, capacity: usize) -> Fixture {
    Fixture {
        drive: "micron-9300-15360",
        groups,
        capacity,
        cache_gib: 1_600.0,
        capacity_gib: 11_600.0,
        cores: 8,
        volumes: (16, 64.0),
        // Real rates: a log that gets its part of the outstanding writes only is written in smaller batches, which is not what the real thing does.
        scale: (1.0, 800.0),
        pace: 0.25,
    }
}

fn devices(groups: usize, capacity: usize) -> String {
    (groups * (capacity + 1)).to_string()
}

/// Runs the study on a modelled drive.
pub fn run(options: &Options, follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
    let random = || Access::Random { skew: Skew::Uniform };
    let loads = [
        Workload::simple(READ, 4096, 1.0, random(), 16),
        Workload::simple(LARGE, 128 << 10, 1.0, Access::Sequential { shared: false }, 1),
        Workload::simple(WRITE, 4096, 0.0, random(), 16),
    ];
    let mut all = Vec::new();
    for (groups, capacity) in CUTS {
        for design in [Design::Ours, Design::OneThread] {
            let pairs = [("devices", &*devices(groups, capacity)), ("groups", &*groups.to_string())];
            all.extend(fixture(groups, capacity).run(design, &loads, &pairs, options, follow)?);
        }
    }
    Ok(all)
}

/// The published figures, a quarter of four nodes.
pub fn figures() -> Vec<Published> {
    let of = |load| [("devices", "24"), ("load", load)];
    vec![
        published(&of(READ), "IOPS", 187_500.0, "a quarter of 750,000 on four hosts; the drive alone: 850,000"),
        published(&of(LARGE), "MiB/s", 11.5e9 / 4.0 / 1_048_576.0, "a quarter of 11.5 GB/s on four hosts; the drive alone: 3.5 GB/s"),
    ]
}

/// What came out, in sentences.
pub fn verdict(cases: &[Measured]) -> Vec<String> {
    let iops = |design: Design, (groups, capacity): (usize, usize), load: &str| {
        let devices = devices(groups, capacity);
        let found =
            cases.iter().find(|m| label(m, "devices") == devices && label(m, "design") == design.name() && label(m, "load") == load);
        found.map_or(0.0, |m| m.iops() / 1e3)
    };
    let mut says = Vec::new();
    for load in [READ, WRITE, LARGE] {
        let list = |design| CUTS.iter().map(|cut| format!("{:.0}", iops(design, *cut, load))).collect::<Vec<_>>().join(", ");
        says.push(format!(
            "{load}, thousands of IOPS as 2, 8, 16 and 24 devices: Basalt {}; a thread for each group {}.",
            list(Design::Ours),
            list(Design::OneThread)
        ));
    }
    let gain = |design, load| iops(design, (3, 7), load) / iops(design, (1, 7), load).max(1e-9);
    says.push(format!(
        "Three groups against one, a thread for each: reads {:.1} times (published: about 3), writes {:.1} times (published: less). Basalt: {:.2} and {:.2} times.",
        gain(Design::OneThread, READ),
        gain(Design::OneThread, WRITE),
        gain(Design::Ours, READ),
        gain(Design::Ours, WRITE)
    ));
    says
}

#[cfg(test)]
#[path = "one_drive_tests.rs"]
mod tests;
