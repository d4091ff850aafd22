use super::*;
use crate::report::example;

#[test]
fn a_percentile_is_shown_only_with_ten_operations_beyond_it() {
    let f = |n: u64| {
        let mut f = Figures { operations: n, ..Figures::default() };
        (1..=n).for_each(|i| f.latency.record(i * 1000));
        Op::new("all", &f, 1.0)
    };
    assert_eq!(f(0).percentiles_us, [None; 5]);
    assert_eq!((f(0).mean_us, f(0).max_us), (None, None));
    assert!(f(19).percentiles_us[0].is_none() && f(20).percentiles_us[0].is_some());
    assert!(f(999).percentiles_us[2].is_none());
    let thousand = f(1000);
    assert!((thousand.p99_us().unwrap() - 990.0).abs() < 1.0 && thousand.percentiles_us[3].is_none());
    assert!(f(100_000).percentiles_us.iter().all(Option::is_some));
}

#[test]
fn a_case_of_no_time_has_no_rates_rather_than_infinite_ones() {
    let m = example::case(&example::random("w", 4096, 0.5), &[], 1000.0, 100.0, 0);
    let c = Case::new(0, &m);
    assert_eq!((c.all.iops, c.all.mib_s, c.client_cores), (0.0, 0.0, 0.0));
}

#[test]
fn figures_are_found_by_the_names_that_published_ones_have() {
    let m = example::case(&example::random("w", 4096, 0.7), &[("layout", "1+4")], 10_000.0, 500.0, 10);
    let c = Case::new(3, &m);
    assert_eq!(c.name, "w, layout 1+4");
    assert_eq!(c.figure("IOPS"), Some(10_000.0));
    assert_eq!(c.figure("read IOPS"), Some(7_000.0));
    assert_eq!(c.figure("MiB/s"), Some(10_000.0 * 4096.0 / 1_048_576.0));
    assert_eq!(c.figure("mean latency ms"), c.all.mean_us.map(|v| v / 1e3));
    assert_eq!(c.figure("p99 latency µs"), c.all.p99_us());
    assert_eq!(c.figure("mean write latency ms"), c.kinds[1].mean_us.map(|v| v / 1e3));
    assert_eq!(c.figure("destage MiB/s"), c.destage_mib_s);
    assert!(c.destage_mib_s.is_some());
    assert_eq!(c.figure("trim IOPS"), None);
    assert_eq!(c.figure("smiles"), None);
    assert_eq!(c.figure("p98 latency ms"), None);
}

#[test]
fn a_label_that_repeats_the_workload_is_not_said_twice() {
    let m = example::case(&example::random("4k-read", 4096, 1.0), &[("workload", "4k-read"), ("load", "70 %")], 1000.0, 100.0, 1);
    let c = Case::new(0, &m);
    assert_eq!((c.name.as_str(), c.labels.len()), ("4k-read, load 70 %", 1));
}
