use super::*;
use crate::report::example::{self, Dice};

#[test]
fn quantiles_of_student_are_those_of_the_tables() {
    for (freedom, value) in [(1, 12.706), (4, 2.776), (30, 2.042), (40, 2.021), (60, 2.000), (120, 1.980)] {
        assert!((t975(freedom) - value).abs() < 0.001, "{freedom}: {}", t975(freedom));
    }
}

#[test]
fn intervals_hold_the_truth_about_95_times_in_100() {
    let mut dice = Dice(42);
    let mut held = 0;
    for _ in 0..2000 {
        let values: Vec<f64> = (0..6).map(|_| (0..12).map(|_| dice.roll()).sum::<f64>() - 6.0).collect();
        let (mean, half) = mean_and_half(&values);
        held += usize::from(mean.abs() <= half.unwrap());
    }
    assert!((1860..=1940).contains(&held), "{held} of 2000");
}

#[test]
fn a_difference_is_real_only_when_its_interval_leaves_out_one() {
    let (_, cases) = example::compare();
    let cases: Vec<Case> = cases.iter().enumerate().map(|(i, m)| Case::new(i, m)).collect();
    let list = comparisons(&cases);
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].names, ("A (fio)".into(), "B (native)".into()));
    assert!(list[0].ratios[0].significant() && (list[0].ratios[0].ratio - 1.12).abs() < 0.02, "{list:?}");
    assert!(!list[1].ratios[0].significant(), "{list:?}");
}

#[test]
fn drift_that_both_share_falls_out() {
    let w = example::random("w", 4096, 1.0);
    let mut cases = Vec::new();
    for round in 1..=4u32 {
        for (system, factor) in [("A", 1.0), ("B", 1.02)] {
            let iops = 50_000.0 * f64::from(round) * factor;
            cases.push(Case::new(cases.len(), &example::case(&w, &[("system", system), ("round", &round.to_string())], iops, 100.0, 10)));
        }
    }
    let list = comparisons(&cases);
    assert!(list[0].ratios[0].significant() && (list[0].ratios[0].ratio - 1.02).abs() < 0.001, "{list:?}");
}

#[test]
fn one_round_has_no_interval_and_a_lone_system_no_comparison() {
    let w = example::random("w", 4096, 1.0);
    let case = |system: &str, round: &str| Case::new(0, &example::case(&w, &[("system", system), ("round", round)], 1000.0, 100.0, 10));
    let list = comparisons(&[case("A", "1"), case("B", "1")]);
    assert_eq!((list[0].ratios[0].interval, list[0].ratios[0].significant()), (None, false));
    assert!(comparisons(&[case("A", "1"), case("A", "2")]).is_empty());
    assert!(comparisons(&[case("A", "1"), case("B", "2")]).is_empty());
}

/// How often, in percent, the interval of `rounds` pairs holds `truth`, the mean of what `log` draws.
fn coverage(rounds: usize, truth: f64, mut log: impl FnMut() -> f64) -> f64 {
    const TRIALS: usize = 4000;
    let mut held = 0;
    for _ in 0..TRIALS {
        let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (1000.0, 1000.0 * log().exp())).collect();
        let (low, high) = ratio("IOPS", &pairs).unwrap().interval.unwrap();
        held += usize::from((low..=high).contains(&truth.exp()));
    }
    held as f64 * 100.0 / TRIALS as f64
}

#[test]
fn two_systems_that_behave_alike_seldom_differ_however_skewed_they_are() {
    let mut dice = Dice(9);
    let exponential = |d: &mut Dice| -(1.0 - d.roll()).ln() * 0.1;
    let stall = |d: &mut Dice| if d.roll() < 0.1 { -0.7 } else { 0.02 * d.roll() };
    for rounds in [3, 5, 10] {
        let held = coverage(rounds, 0.0, || exponential(&mut dice) - exponential(&mut dice));
        assert!((94.0..99.0).contains(&held), "{rounds} rounds, exponential noise: {held} %");
        let held = coverage(rounds, 0.0, || stall(&mut dice) - stall(&mut dice));
        assert!((94.0..=100.0).contains(&held), "{rounds} rounds, rare stalls: {held} %");
    }
}

#[test]
fn noise_that_only_one_system_has_makes_intervals_too_narrow_by_what_is_said() {
    let mut dice = Dice(10);
    let held = coverage(5, 0.0, || -(1.0 - dice.roll()).ln() * 0.1 - 0.1);
    assert!((86.0..91.0).contains(&held), "{held} %");
}
