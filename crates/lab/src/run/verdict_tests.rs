use super::*;
use crate::report::example;
use crate::results::RunState;
use crate::run::tests::example as profile;
use crate::workload::Arrivals;
use std::collections::BTreeSet;

/// What a curve says when its first `cases` cases were measured, on storage whose windows without a limit reach these rates.
fn curve(windows: &[f64], given: Option<f64>, cases: usize) -> Vec<String> {
    let mut config = profile(RunKind::Curve, "mixed-70-30-32k");
    (config.curve.loads, config.curve.maximum_iops) = (vec![20.0, 60.0, 90.0], given);
    let mut done: Vec<Measured> = Vec::new();
    while let Some(next) = plan::next(&config, &done).filter(|_| done.len() < cases) {
        let iops = match next.workload.arrivals {
            Arrivals::Closed => windows[done.len().min(windows.len() - 1)],
            Arrivals::Limited { iops } | Arrivals::Open { iops, .. } => iops,
        };
        let labels: Vec<(&str, &str)> = next.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        done.push(example::case(&next.workload, &labels, iops, 500.0, 10));
    }
    let mut record = example::record(RunKind::Curve, "A curve", done.len());
    record.state = if done.len() < cases { RunState::Complete } else { RunState::Interrupted };
    of(&config, &record, &done)
}

/// The rates that sentences call the most there is: "the maximum, 98,000 IOPS", "Most operations: ...: 98,000 IOPS".
fn most(verdict: &[String]) -> BTreeSet<String> {
    let named = verdict.iter().filter(|sentence| ["maximum", "Most operations", "largest"].iter().any(|word| sentence.contains(word)));
    let figures = |sentence: &String| {
        let words: Vec<String> = sentence.split(' ').map(str::to_owned).collect();
        words.windows(2).filter(|pair| pair[1].starts_with("IOPS")).map(|pair| pair[0].clone()).collect::<Vec<_>>()
    };
    named.flat_map(figures).collect()
}

#[test]
fn a_verdict_names_one_maximum_only() {
    // The first windows are faster than what can be kept, so the largest of them is not the maximum.
    let falls = [90_000.0, 70_000.0, 50_000.0, 51_000.0, 49_000.0];
    let unsteady = [50_000.0, 90_000.0, 30_000.0, 70_000.0, 110_000.0, 20_000.0];
    for (windows, given, cases, named) in [
        (&falls[..], None, 99, Some("50,000")),
        (&falls, None, 7, Some("50,000")),
        // Ended between the windows and the first share, and before the maximum was known.
        (&falls, None, 5, Some("50,000")),
        (&falls, None, 4, None),
        (&falls, None, 1, None),
        (&falls, Some(80_000.0), 99, Some("80,000")),
        (&unsteady, None, 99, None),
    ] {
        let verdict = curve(windows, given, cases);
        let most = most(&verdict);
        match named {
            Some(named) => assert_eq!(most.iter().map(String::as_str).collect::<Vec<_>>(), [named], "{windows:?}, {cases}: {verdict:?}"),
            None => assert!(most.len() <= 1, "{windows:?}, {cases}: {verdict:?}"),
        }
        assert!(!verdict.is_empty());
    }
}

#[test]
fn figures_read_as_people_write_them() {
    assert_eq!([1_234_567.0, 999.6, 12.34, 0.567].map(number), ["1,234,567", "1,000", "12.3", "0.57"]);
    assert_eq!([1500.0, 2.5e6, 3e9].map(time), ["1.50 µs", "2.50 ms", "3.00 s"]);
}
