//! Each caveat is said of a run that has it, and of no other.

use super::*;
use crate::report::analysis::Analysis;
use crate::report::example;
use crate::results::Record;
use crate::workload::{Spacing, Workload};

fn warnings((record, cases): (Record, Vec<Measured>)) -> Vec<String> {
    Analysis::new(&Loaded { record, cases: cases.into_iter().enumerate().collect() }).warnings
}

/// What is said once `change` was made to a sound run, which has nothing to be said of.
fn said(change: impl FnOnce(&mut Record, &mut Vec<Measured>)) -> String {
    let (mut record, mut cases) = example::run();
    cases.iter_mut().flat_map(|m| &mut m.seconds).for_each(|s| s.target = None);
    assert_eq!(warnings((record.clone(), cases.clone())), Vec::<String>::new(), "a sound run");
    change(&mut record, &mut cases);
    warnings((record, cases)).join("\n")
}

fn busy(others: f64) -> Option<Noise> {
    let processes = vec![("rustc".to_owned(), others)];
    Some(Noise { seconds: 30.0, processors: 2, others, processes, ..Noise::default() })
}

#[test]
fn a_busy_machine_is_said_and_a_quiet_one_is_not() {
    let quiet = said(|r, all| {
        all.iter_mut().for_each(|m| m.noise = busy(0.05));
        r.noise = vec![busy(0.1).unwrap(), busy(0.0).unwrap()];
    });
    assert_eq!(quiet, "");
    assert!(busy(0.9).unwrap().words().starts_with("Others used 0.90 of 2 processors (rustc 0.90); 0.00 were taken"));
    let one = said(|_, all| all[1].noise = busy(0.9));
    assert!(one.contains("in 1 of 4 cases (4 KiB random read)") && one.contains("rustc 0.9"), "{one}");
    let every = said(|_, all| all.iter_mut().for_each(|m| m.noise = busy(0.9)));
    assert!(every.contains("in every case"), "{every}");
    let around = said(|r, _| r.noise = vec![busy(1.5).unwrap()]);
    assert!(around.contains("before or after the cases"), "{around}");
}

#[test]
fn a_busy_machine_of_the_target_is_said_beside_that_of_the_client() {
    let text = said(|r, all| {
        all[1].target_noise = busy(0.9);
        r.noise = vec![busy(0.1).unwrap()];
    });
    assert!(
        text.starts_with("The machine of the target was busy with other things in 1 of 4 cases (4 KiB random read): other processes used 0.9 of 2 processors, 45 %"),
        "{text}"
    );
    assert!(!text.contains("The machine was busy"), "{text}");
    let both = said(|_, all| all.iter_mut().for_each(|m| (m.noise, m.target_noise) = (busy(0.9), busy(1.9))));
    assert!(
        both.contains("The machine was busy with other things in every case") && both.contains("used 1.9 of 2 processors, 95 %"),
        "{both}"
    );
    let around = said(|r, _| r.target_noise = vec![Noise { load: Some(3.0), at_rest: true, ..busy(0.0).unwrap() }]);
    assert!(
        around.starts_with(
            "The machine of the target was busy with other things before or after the cases: the load average of the minute before"
        ),
        "{around}"
    );
    assert_eq!(said(|_, all| all[1].target_noise = busy(0.05)), "");
}

#[test]
fn slow_processors_are_said_of_client_and_target() {
    let at = |fastest: f64| Noise { mhz_fastest: Some(fastest), mhz_limit: Some(3500.0), ..busy(0.0).unwrap() };
    assert_eq!(said(|_, all| all.iter_mut().for_each(|m| m.noise = Some(at(2500.0)))), "");
    let text = said(|_, all| (all[0].noise, all[1].target_noise) = (Some(at(800.0)), Some(at(1000.0))));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with(
            "The processors of the client were slow in 1 of 4 cases (4 KiB random 70/30): the fastest ran at 800 of at most 3500 MHz."
        ),
        "{text}"
    );
    assert!(
        lines[1].starts_with("The processors of the target were slow in 1 of 4 cases (4 KiB random read): the fastest ran at 1000"),
        "{text}"
    );
}

#[test]
fn failed_operations_are_counted_by_case_with_the_first_reason() {
    let text = said(|_, all| {
        all[2].writes.errors = 1109;
        all[2].notes = vec!["The first operation that failed: write at 0: no space.".into()];
    });
    assert!(
        text.starts_with("1,109 operations failed") && text.contains("8 KiB random 50/50: 1,109") && text.contains("no space"),
        "{text}"
    );
}

#[test]
fn reads_of_what_was_never_written_are_said_and_a_busy_client_is_named() {
    let text = said(|r, _| r.unwritten = Some(0.97));
    assert!(text.starts_with("97.0 % of what could be read was never written"), "{text}");
    let (record, cases) = example::clients();
    let text = warnings((record, cases)).join("\n");
    assert!(
        text.contains("in every case: on client2:4490, other processes used 3.5 of 16 processors, 22 % of its processor time (backup 3.5)"),
        "{text}"
    );
    assert!(!text.contains("client1"), "{text}");
}

#[test]
fn short_times_and_few_operations_are_said() {
    let text = said(|_, all| all[0].measured_s = 0.1);
    assert!(text.starts_with("Short: 0.100 s measured"), "{text}");
    let text = said(|_, all| {
        (all[3].reads, all[3].writes) = Default::default();
        all[3].reads.operations = 12;
    });
    assert!(text.contains("Few operations (256 KiB sequential write: 12)"), "{text}");
}

#[test]
fn a_rate_that_collapses_is_said_and_a_stall_that_is_over_is_none() {
    let slow = |m: &mut Measured, from: f64, to: f64| {
        m.seconds.iter_mut().filter(|s| s.at_s >= from && s.at_s < to).for_each(|s| (s.reads, s.writes) = (30, 12));
    };
    let text = said(|_, all| slow(&mut all[0], 30.0, 60.0));
    assert!(text.contains("collapsed") && text.contains("to 42.0 IOPS"), "{text}");
    assert_eq!(said(|_, all| slow(&mut all[0], 20.0, 25.0)), "");
    let rise = said(|_, all| slow(&mut all[0], 0.0, 20.0));
    assert_eq!(rise, "", "one that rises has not collapsed");
}

#[test]
fn a_backlog_from_the_warm_up_is_not_delivered_work() {
    let open = |w: &mut Workload, iops: f64| w.arrivals = Arrivals::Open { iops, spacing: Spacing::Poisson };
    let late = said(|_, all| {
        let iops = all[1].iops() / 1.06;
        open(&mut all[1].workload, iops);
        (all[1].carried, all[1].waiting) = (all[1].total().operations / 5, 7_517_000);
    });
    assert!(
        late.contains("had been waiting when it began") && late.contains("7,517,000 were waiting") && late.contains("not held"),
        "{late}"
    );
    let kept = said(|_, all| {
        let iops = all[1].iops();
        open(&mut all[1].workload, iops);
        all[1].carried = 3;
    });
    assert_eq!(kept, "", "what was under way when it began is no backlog");
}

#[test]
fn a_write_buffer_that_still_fills_is_said() {
    let fill = |m: &mut Measured, f: &dyn Fn(f64) -> f64| {
        for s in &mut m.seconds {
            s.target = Some(crate::measure::TargetSecond { buffer_fill: f(s.at_s), ..Default::default() });
        }
    };
    let text = said(|_, all| fill(&mut all[0], &|at| (0.1 + at / 100.0).max(0.0)));
    assert!(text.contains("still filling") && text.contains("from 10.0 % to 69.0 %"), "{text}");
    assert_eq!(said(|_, all| fill(&mut all[0], &|at| if at < 30.0 { 0.3 } else { 0.35 })), "");
}
