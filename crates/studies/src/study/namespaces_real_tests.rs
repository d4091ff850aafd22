//! What is said of a difference follows from the rounds; sizes fit.

use super::*;
use lab::measure::{Figures, Second};

/// A case with this many operations a second for ten seconds, all of 300 µs.
fn case(load: &Workload, iops: f64) -> Measured {
    let figures = |part: f64| {
        let mut f = Figures { operations: (iops * part * 10.0).round() as u64, ..Figures::default() };
        f.latency.record_n(300_000, f.operations);
        f
    };
    let reads = load.streams[0].reads;
    Measured {
        engine: "native".into(),
        workload: load.clone(),
        labels: Vec::new(),
        disks: Vec::new(),
        began_unix_s: 0,
        warm_up_s: 1.0,
        measured_s: 10.0,
        cut_short: false,
        reads: figures(reads),
        writes: figures(1.0 - reads),
        trims: Figures::default(),
        streams: Vec::new(),
        verified: None,
        client_cpu_s: 0.0,
        target_cpu_s: None,
        seconds: (-1..10).map(|at| Second { at_s: f64::from(at), ..Second::default() }).collect(),
        notes: Vec::new(),
        carried: 0,
        waiting: 0,
        noise: None,
        target_noise: None,
        clients: Vec::new(),
        flushes: Figures::default(),
    }
}

fn with(part: &'static str, layout: &str, groups: usize, design: Design, iops: &[f64]) -> Series {
    let mut s = series(part, layout, Cut { groups, capacity: 1, shards: 1 }, design);
    let of = |load: &Workload| {
        let one = |iops: &f64| case(load, *iops);
        iops.iter().map(one).collect()
    };
    s.rounds = loads().iter().map(of).collect();
    s
}

fn real() -> Real {
    Real { dir: "/somewhere".into(), bytes: BYTES }
}

fn said(one: &[f64], seven: &[f64]) -> String {
    let ours = Design::Ours;
    verdict(&[with("layouts", "1+7", 1, ours, seven), with("layouts", "1+1", 1, ours, one)], &real()).remove(0)
}

#[test]
fn within_five_percent_is_said_only_when_the_interval_shows_it() {
    let same = said(&[1000.0, 1100.0, 905.0, 1002.0], &[1001.0, 1102.0, 900.0, 1000.0]);
    assert!(same.contains("for 4 of 4 loads") && same.contains("4 KiB random read 1.001 times"), "{same}");
    let less = said(&[800.0, 810.0, 790.0, 805.0], &[1000.0, 1000.0, 1000.0, 1000.0]);
    assert!(less.contains("for 0 of 4 loads") && less.contains("more than 5 % less"), "{less}");
    let noisy = said(&[500.0, 1500.0, 900.0, 1200.0], &[1000.0, 1000.0, 1000.0, 1000.0]);
    assert!(noisy.contains("for 0 of 4 loads") && noisy.contains("not decided"), "{noisy}");
}

#[test]
fn a_case_is_all_of_its_rounds_and_names_each() {
    let s = with("layouts", "1+1", 1, Design::Ours, &[1000.0, 3000.0]);
    let case = merged(&s, &s.rounds[0], &real());
    assert!(
        (case.iops() - 2000.0).abs() < 1.0
            && case.reads.latency.count() == s.rounds[0].iter().map(|m| m.reads.latency.count()).sum::<u64>()
    );
    assert!(case.notes.iter().any(|n| n.contains("IOPS of each: 1000, 3000")), "{:?}", case.notes);
    assert!(case.labels.contains(&("layout".into(), "1+1".into())) && case.labels.contains(&("load".into(), READ.into())));
    assert!(case.seconds.windows(2).all(|w| w[0].at_s < w[1].at_s), "seconds of rounds follow each other");
}

#[test]
fn what_is_too_small_is_refused_and_the_least_holds_all_cuts() {
    let small = Real { dir: std::env::temp_dir(), bytes: BYTES_MIN - 1 };
    assert!(admit(&small).unwrap_err().to_string().contains("--size"));
    let sizes = sizes(&Real { bytes: BYTES_MIN, ..real() });
    assert!(sizes.volume * VOLUMES as u64 <= sizes.capacity / 2 && sizes.volume > 0);
    for s in [layouts(), groups(Design::Ours), groups(Design::OneThread)].into_iter().flatten() {
        assert!(sizes.cache / s.cut.groups as u64 >= u64::from(s.cut.shards) * (6 << 20) + (4 << 20), "{:?}", s.cut);
    }
}

#[test]
fn groups_are_reported_for_both_designs() {
    let all: Vec<Series> = [Design::Ours, Design::OneThread]
        .into_iter()
        .flat_map(|d| GROUPS.map(|n| with("groups", "1+1", n, d, &[1000.0 * n as f64])))
        .collect();
    let says = verdict(&all, &real());
    assert!(says[0].contains("Basalt 1.0, 2.0, 3.0, 4.0, 5.0; a core for each group 1.0, 2.0"), "{says:?}");
}
