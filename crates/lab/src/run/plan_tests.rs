//! Plans against fake storage: what would be measured is computed.

use super::*;
use crate::measure::Figures;
use crate::run::tests::example;
use crate::workload::profiles;

/// Storage that reaches `most` operations a second, and whose latency at a rate is `ms`.
fn measure(case: &Case, most: f64, ms: impl Fn(f64) -> f64) -> Measured {
    let iops = match case.workload.arrivals {
        Arrivals::Closed => most,
        Arrivals::Limited { iops } | Arrivals::Open { iops, .. } => iops.min(most),
    };
    let mut reads = Figures { operations: iops as u64 * 10, bytes: 0, ..Figures::default() };
    reads.latency.record_n((ms(iops) * 1e6) as u64, reads.operations.max(1));
    Measured {
        engine: "fake".into(),
        workload: case.workload.clone(),
        labels: case.labels.clone(),
        disks: Vec::new(),
        began_unix_s: 0,
        warm_up_s: 0.0,
        measured_s: 10.0,
        cut_short: false,
        reads,
        writes: Figures::default(),
        trims: Figures::default(),
        streams: Vec::new(),
        verified: None,
        client_cpu_s: 0.0,
        target_cpu_s: None,
        seconds: Vec::new(),
        notes: Vec::new(),
        carried: 0,
        waiting: 0,
        noise: None,
        target_noise: None,
        clients: Vec::new(),
        flushes: Figures::default(),
    }
}

fn all(config: &Config, mut storage: impl FnMut(&Case, usize) -> Measured) -> Vec<Measured> {
    config.check().unwrap();
    let mut done: Vec<Measured> = Vec::new();
    while let Some(case) = next(config, &done) {
        assert!(case.of > done.len() && done.len() < 200, "{} of {}", done.len(), case.of);
        done.push(storage(&case, done.len()));
    }
    done
}

fn values(done: &[Measured], key: &str) -> Vec<String> {
    done.iter().filter_map(|m| m.labels.iter().find(|l| l.0 == key).map(|l| l.1.clone())).collect()
}

#[test]
fn a_curve_waits_for_a_steady_maximum_and_takes_shares_of_it() {
    let mut c = example(RunKind::Curve, "mixed-70-30-32k");
    c.curve.loads = vec![10.0, 50.0, 100.0];
    // The first windows are faster than what can be kept: an empty buffer.
    let speeds = [9000.0, 7000.0, 5000.0, 5100.0, 4900.0];
    let done = all(&c, |case, n| measure(case, speeds.get(n).copied().unwrap_or(5000.0), |_| 1.0));
    assert_eq!(values(&done, "load"), ["maximum", "maximum", "maximum", "maximum", "maximum", "10 %", "50 %", "100 %"]);
    let Arrivals::Open { iops, .. } = done[6].workload.arrivals else { panic!("an open loop") };
    assert!((iops - 2500.0).abs() < 1.0, "{iops}");
    let (found, steady) = maximum(&c.curve, &done.iter().collect::<Vec<_>>()).unwrap();
    assert!(steady && (found - 5000.0).abs() < 1.0);
}

#[test]
fn a_maximum_that_never_settles_is_taken_and_reported() {
    let mut c = example(RunKind::Curve, "mixed-70-30-32k");
    c.curve.loads = vec![50.0];
    let done = all(&c, |case, n| measure(case, 1000.0 * (1 + n % 2) as f64, |_| 1.0));
    assert_eq!(done.len(), WINDOWS_MAX + 1);
    assert!(!maximum(&c.curve, &done.iter().collect::<Vec<_>>()).unwrap().1);
}

#[test]
fn a_sweep_has_every_combination_once() {
    let mut c = example(RunKind::Sweep, "four-corners");
    c.workloads.truncate(2);
    c.sweep = vec![
        Axis { parameter: Parameter::Depth, values: vec![1.0, 4.0] },
        Axis { parameter: Parameter::Bytes, values: vec![4096.0, 8192.0, 65536.0] },
    ];
    let done = all(&c, |case, _| measure(case, 1.0, |_| 1.0));
    assert_eq!(done.len(), 12);
    assert_eq!(values(&done[..6], "depth"), ["1", "1", "1", "4", "4", "4"]);
    assert_eq!(values(&done[..3], "bytes"), ["4096", "8192", "65536"]);
    assert_eq!((done[5].workload.depth, done[5].workload.streams[0].sizes[0].bytes), (4, 65536));
    c.sweep[1].values[0] = 100.0;
    assert!(c.check().unwrap_err().to_string().contains("multiple of 512"));
    c.sweep.clear();
    assert!(c.check().unwrap_err().to_string().contains("depth=1,4,16"));
}

#[test]
fn a_comparison_alternates_and_changes_its_order() {
    let mut c = example(RunKind::Compare, "random-8k");
    c.workloads.truncate(1);
    c.systems.push(System { name: "other".into(), ..c.systems[0].clone() });
    c.rounds = 3;
    let done = all(&c, |case, _| measure(case, 1.0, |_| 1.0));
    assert_eq!(values(&done, "system"), ["A", "B", "B", "A", "A", "B"]);
    assert_eq!(values(&done, "round"), ["1", "1", "2", "2", "3", "3"]);
    assert_eq!(values(&done, "name")[1], "other");
}

#[test]
fn a_search_finds_the_largest_load_that_keeps_its_limit() {
    let c = example(RunKind::Run, "spc1-like");
    assert_eq!(profiles::find("spc1-like").unwrap().search, c.search);
    // M/M/1 with 10,000 a second: the mean is 30 ms at 9,966.7, which is 199 units.
    let done = all(&c, |case, _| measure(case, 10_000.0, |iops| if iops < 9_999.0 { 1000.0 / (10_000.0 - iops) } else { 1e4 }));
    let f = found(&c.search.unwrap(), &done.iter().collect::<Vec<_>>()).unwrap();
    assert!(f.ended && (195..=199).contains(&f.kept), "{} {}", f.kept, f.lost);
    assert_eq!(values(&done, "units")[0], "ceiling");
    // Storage that keeps nothing ends, too.
    let done = all(&c, |case, _| measure(case, 100.0, |_| 50.0));
    assert_eq!(found(&c.search.unwrap(), &done.iter().collect::<Vec<_>>()).unwrap().kept, 0);
}

#[test]
fn a_search_does_not_say_of_a_load_with_few_operations_that_it_keeps_its_limit() {
    let mut c = example(RunKind::Run, "random-8k");
    c.workloads.truncate(1);
    c.search = Some(Search { iops_unit: 10.0, mean_ms_max: None, p99_ms_max: Some(5.0) });
    let search = c.search.unwrap();
    // 800 operations are the most that come in the time.
    let done = all(&c, |case, _| measure(case, 80.0, |_| 1.0));
    let f = found(&search, &done.iter().collect::<Vec<_>>()).unwrap();
    assert!(f.ended && (f.kept, f.unjudged, f.lost) == (0, 8, 9), "{} {} {}", f.kept, f.unjudged, f.lost);
    let says = |done: &[Measured]| {
        crate::run::verdict::of(&c, &crate::report::example::record(RunKind::Run, "search", done.len()), done).join("\n")
    };
    let text = says(&done);
    assert!(
        text.contains("of no load is it known that it keeps a p99 of 5.00 ms; 9 units do not. 8 units could not be judged: they had 800"),
        "{text}"
    );
    // Loads with fewer operations than one that could not be judged are not tried; those with more may be kept.
    let done = all(&c, |case, _| measure(case, 150.0, |_| 1.0));
    let f = found(&search, &done.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!((f.kept, f.lost), (15, 16));
    let text = says(&done);
    assert!(
        text.contains("15 units of 10 IOPS keep a p99 of 5.00 ms (they had a mean of 1.00 ms and a p99 of 1.00 ms); 16 units do not."),
        "{text}"
    );
    assert!(!text.contains("could not be judged"), "{text}");
}
