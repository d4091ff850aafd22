use super::*;
use crate::report::example;
use crate::results::{Record, RunState};

fn analysis((record, cases): (Record, Vec<Measured>)) -> Analysis {
    Analysis::new(&Loaded { record, cases: cases.into_iter().enumerate().collect() })
}

#[test]
fn the_knee_is_the_first_rate_whose_p99_more_than_doubles() {
    let a = analysis(example::curve());
    assert_eq!(a.curves.len(), 1);
    let curve = &a.curves[0];
    assert_eq!((curve.points.len(), curve.maximum), (10, Some(0)));
    assert_eq!(curve.knee.as_ref().unwrap().0, 7, "{:?}", curve.knee);
    assert!(a.verdict[0].contains("(70 %)") && a.verdict[0].contains("(80 %)") && a.verdict[0].contains("p99 rises"), "{:?}", a.verdict);
}

#[test]
fn a_rate_that_is_not_delivered_is_a_knee_too() {
    let (record, mut cases) = example::curve();
    cases.truncate(4);
    cases[2].reads.operations /= 2;
    cases[2].writes.operations /= 2;
    let a = analysis((record, cases));
    let (at, why) = a.curves[0].knee.clone().unwrap();
    assert_eq!(at, 1);
    assert!(why.contains("50.0 %"), "{why}");
}

#[test]
fn a_curve_without_a_knee_says_so() {
    let (record, mut cases) = example::curve();
    cases.truncate(7);
    let a = analysis((record, cases));
    assert_eq!(a.curves[0].knee, None);
    assert!(a.verdict[0].contains("without a knee"), "{:?}", a.verdict);
}

#[test]
fn a_verdict_that_was_written_stays_and_warnings_come_beside_it() {
    let (mut record, mut cases) = example::run();
    record.verdict = vec!["As fast as light.".into()];
    record.cases = 9;
    record.state = RunState::Interrupted;
    cases[1].reads.errors = 3;
    cases[2].verified = Some(crate::results::Verified { checked: 100, wrong: 2, unknown: 0 });
    cases[3].cut_short = true;
    let a = analysis((record, cases));
    assert_eq!(a.verdict, ["As fast as light."]);
    let all = a.warnings.join("\n");
    assert!(a.warnings[0].starts_with("2 blocks that were read did not hold"), "what is worst comes first: {all}");
    assert!(all.contains("3 operations failed") && all.contains("3 of 9 cases") && all.contains("1 case ended before its time"), "{all}");
}

#[test]
fn a_caveat_in_a_verdict_of_another_version_is_not_said_twice() {
    let (mut record, mut cases) = example::run();
    cases.truncate(1);
    cases[0].measured_s = 1.0;
    cases[0].reads = example::figures(&mut example::Dice(1), 500, 4096, 100.0);
    cases[0].writes = Default::default();
    record.cases = 1;
    record.verdict = vec!["Few operations (as it was called once: 500): whatever was said of it.".into(), "As fast as light.".into()];
    let a = analysis((record, cases));
    assert!(a.warnings.iter().any(|w| w.starts_with("Few operations (")), "{:?}", a.warnings);
    assert_eq!(a.verdict, ["As fast as light."]);
}

#[test]
fn a_sweep_tells_how_it_scales_and_which_case_is_best() {
    let a = analysis(example::sweep());
    let keys: Vec<(&str, bool)> = a.parameters.iter().map(|p| (p.key.as_str(), p.numeric)).collect();
    assert_eq!(keys, [("size", true), ("threads a disk", true)]);
    assert!(a.verdict.iter().any(|v| v.contains("times as many")), "{:?}", a.verdict);
    assert!(a.verdict.iter().any(|v| v.starts_with("Most operations: ") && v.contains("size 4 KiB, threads a disk 32")), "{:?}", a.verdict);
}

#[test]
fn a_soak_tells_how_steady_it_was() {
    let a = analysis(example::soak());
    assert!(a.verdict[0].contains("last tenth") && a.verdict[0].contains("30 min"), "{:?}", a.verdict);
}

#[test]
fn published_figures_stand_beside_the_case_with_their_labels() {
    let a = analysis(example::study());
    assert_eq!(a.published.len(), 8);
    let first = &a.published[0];
    assert!((first.ratio.unwrap() - first.ours.unwrap() / 232_483.0).abs() < 1e-9);
    let (mut record, cases) = example::study();
    record.published[0].labels[1].1 = "99".into();
    assert_eq!(analysis((record, cases)).published[0].ours, None);
}

#[test]
fn without_cases_nothing_is_claimed() {
    let a = analysis((example::record(RunKind::Compare, "t", 4), Vec::new()));
    assert_eq!(a.verdict, ["Nothing was measured."]);
}
