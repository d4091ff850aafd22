use super::*;
use crate::engine::Fill;
use crate::engine::open::NoModels;
use crate::measure::Second;
use crate::results::RunKind;
use crate::workload::profiles::{self, Search};
use std::fs;

#[derive(Default)]
struct Follower {
    cases: Vec<usize>,
    stop_after: Option<usize>,
}

impl Watch for Follower {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        self.stop_after.is_some_and(|n| self.cases.len() >= n)
    }
}

impl Follow for Follower {
    fn folder(&mut self, _: &Folder) {}
    fn case_begins(&mut self, _: usize, _: &Case, _: &Config) {}
    fn case_done(&mut self, number: usize, _: &Measured) {
        self.cases.push(number);
    }
}

fn config(dir: &Path) -> Config {
    let disk = dir.join("disk").display().to_string();
    Config { systems: vec![System::of(vec![format!("{disk}:16MiB")])], ..example(RunKind::Run, "easy-run") }
}

/// A run of a profile, for tests of plans.
pub(crate) fn example(kind: RunKind, profile: &str) -> Config {
    let profile = profiles::find(profile).unwrap();
    Config {
        kind,
        title: profile.name,
        seed: 1,
        warm_up_s: 0.0,
        measure_s: 0.1,
        cool_down_s: 0.0,
        prepare: Some(Fill::Random),
        unwritten: false,
        errors_max: None,
        search: profile.search,
        curve: Curve::default(),
        sweep: Vec::new(),
        rounds: 0,
        systems: vec![System::of(vec!["disk".into()])],
        workloads: profile.workloads,
    }
}

#[test]
fn a_profile_runs_case_by_case_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut follow = Follower::default();
    let folder = start(&config(dir.path()), &dir.path().join("results"), false, &NoModels, vec!["again".into()], &mut follow).unwrap();
    let (record, cases) = (folder.record().unwrap(), folder.cases().unwrap());
    assert_eq!((record.state, record.cases, cases.len()), (RunState::Complete, 4, 4));
    assert_eq!(cases[2].workload.name, "8k-50-50");
    assert!(record.verdict.iter().any(|s| s.contains("4k-read")), "{:?}", record.verdict);
    assert_eq!(follow.cases, [0, 1, 2, 3]);
}

#[test]
fn an_interrupted_run_goes_on_with_the_first_case_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let mut follow = Follower { stop_after: Some(2), ..Follower::default() };
    let stopped = start(&config(dir.path()), &results, false, &NoModels, Vec::new(), &mut follow);
    assert!(matches!(stopped, Err(LabError::Stopped)));
    let path = fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let folder = Folder::open(&path).unwrap();
    assert_eq!((folder.record().unwrap().state, folder.cases().unwrap().len()), (RunState::Interrupted, 2));
    let first = folder.cases().unwrap();
    let mut follow = Follower::default();
    resume(&folder, false, &NoModels, &mut follow).unwrap();
    assert_eq!(follow.cases, [2, 3]);
    assert_eq!(folder.record().unwrap().state, RunState::Complete);
    assert_eq!(folder.cases().unwrap()[..2], first[..]);
}

#[test]
fn what_cannot_begin_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let mut c = config(dir.path());
    c.systems[0].disks = vec![dir.path().join("none").display().to_string()];
    assert!(start(&c, &results, false, &NoModels, Vec::new(), &mut Follower::default()).is_err());
    let mut c = config(dir.path());
    c.measure_s = -1.0;
    let e = start(&c, &results, false, &NoModels, Vec::new(), &mut Follower::default()).unwrap_err().to_string();
    assert!(e.contains("0.01 to 2592000"), "{e}");
    assert!(!results.exists());
}

#[test]
fn a_disk_that_holds_data_leaves_no_folder_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, results) = (dir.path().join("photos"), dir.path().join("results"));
    fs::write(&path, vec![7; 16 << 20]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let mut c = config(dir.path());
    c.systems[0].disks = vec![path.display().to_string()];
    let e = start(&c, &results, false, &NoModels, Vec::new(), &mut Follower::default()).unwrap_err().to_string();
    assert!(e.contains("photos") && e.contains("--destroy"), "{e}");
    assert!(!results.exists() && fs::read(&path).unwrap().iter().all(|&b| b == 7));
}

#[test]
fn a_curve_on_a_file_finds_its_maximum_and_keeps_the_rates() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    (c.kind, c.measure_s, c.curve.loads) = (RunKind::Curve, 0.1, vec![20.0, 40.0]);
    c.workloads.truncate(1);
    let folder = start(&c, &dir.path().join("results"), false, &NoModels, Vec::new(), &mut Follower::default()).unwrap();
    let cases = folder.cases().unwrap();
    assert!(cases.len() >= 5);
    assert!(folder.record().unwrap().verdict.iter().any(|s| s.contains("maximum")), "{:?}", folder.record().unwrap().verdict);
}

/// Spoils a disk when the first case begins.
struct Spoiler(std::path::PathBuf, Vec<String>);

impl Watch for Spoiler {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}

impl Follow for Spoiler {
    fn folder(&mut self, _: &Folder) {}
    fn case_begins(&mut self, _: usize, _: &Case, _: &Config) {
        let file = fs::File::options().write(true).open(&self.0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], 1 << 20).unwrap();
        file.sync_all().unwrap();
    }
    fn case_done(&mut self, _: usize, m: &Measured) {
        self.1.extend(m.notes.iter().cloned());
    }
}

#[test]
fn wrong_data_ends_the_run_is_kept_and_comes_first_in_the_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(2);
    c.workloads.iter_mut().for_each(|w| (w.verify, w.streams[0].reads) = (true, 1.0));
    c.measure_s = 30.0;
    let mut spoiler = Spoiler(dir.path().join("disk"), Vec::new());
    let results = dir.path().join("results");
    let e = start(&c, &results, false, &NoModels, Vec::new(), &mut spoiler).unwrap_err();
    assert!(matches!(&e, LabError::WrongData { problem, .. } if problem.contains("at byte 1048576")), "{e}");
    let folder = Folder::open(&fs::read_dir(&results).unwrap().next().unwrap().unwrap().path()).unwrap();
    let (record, cases) = (folder.record().unwrap(), folder.cases().unwrap());
    assert_eq!((record.state, cases.len()), (RunState::Interrupted, 1));
    assert!(record.verdict[0].starts_with("WRONG DATA: ") && record.verdict[0].contains("1048576"), "{:?}", record.verdict);
    assert_eq!(spoiler.1, cases[0].notes);
}

#[test]
fn a_run_that_verifies_says_how_much_and_what_it_could_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(1);
    c.workloads[0].verify = true;
    let said = |c: &Config, n: usize| {
        let folder = start(c, &dir.path().join(format!("results{n}")), true, &NoModels, Vec::new(), &mut Follower::default()).unwrap();
        folder.record().unwrap().verdict.join("\n")
    };
    let text = said(&c, 0);
    assert!(text.contains("blocks that were read were verified: each held"), "{text}");
    c.prepare = None;
    c.workloads[0].streams[0].reads = 1.0;
    let text = said(&c, 1);
    assert!(text.contains("Nothing was verified") && text.contains("--prepare random"), "{text}");
    c.workloads[0].streams[0].reads = 0.0;
    let text = said(&c, 2);
    assert!(text.contains("nothing was read"), "{text}");
}

#[test]
fn what_was_never_written_is_not_read_without_a_word_of_will() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(1);
    c.prepare = None;
    let run =
        |c: &Config, n: usize| start(c, &dir.path().join(format!("results{n}")), false, &NoModels, Vec::new(), &mut Follower::default());
    let e = run(&c, 0).unwrap_err().to_string();
    assert!(e.contains("100 % of what would be read") && e.contains("--prepare random") && e.contains("--unwritten"), "{e}");
    assert!(!dir.path().join("results0").exists());
    // Who only writes, says so, or prepares, may go on; and then it is written.
    let mut writes = c.clone();
    writes.workloads[0].streams[0].reads = 0.0;
    run(&writes, 1).unwrap();
    run(&Config { unwritten: true, ..c.clone() }, 2).unwrap();
    run(&Config { prepare: Some(Fill::Random), ..c.clone() }, 3).unwrap();
    run(&c, 4).unwrap();
}

#[test]
fn a_run_keeps_what_else_the_machine_did_and_says_that_it_was_short() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(1);
    c.measure_s = 1.0;
    let folder = start(&c, &dir.path().join("results"), false, &NoModels, Vec::new(), &mut Follower::default()).unwrap();
    let (record, cases) = (folder.record().unwrap(), folder.cases().unwrap());
    let noise = cases[0].noise.as_ref().unwrap();
    assert!(noise.seconds >= 0.99 && noise.processors > 0, "{noise:?}");
    assert_eq!(record.noise.len(), 2, "before the first case and after the last");
    let sentences = record.verdict.join("\n");
    assert!(sentences.contains("Short: 1 s measured"), "{sentences}");
    assert_eq!(sentences.contains("busy with other things"), record.noise.iter().chain([noise]).any(|n| n.problem().is_some()));
    let figures = record.verdict.iter().position(|s| s.contains("IOPS") && s.contains("mean")).unwrap();
    assert!(record.verdict.iter().position(|s| s.starts_with("Short: ")).unwrap() < figures, "{sentences}");
}

#[test]
fn the_largest_working_set_is_prepared_whether_it_is_a_part_or_bytes() {
    let disks = [("a".to_owned(), 16u64 << 20), ("b".to_owned(), 32 << 20)];
    let w = |part: f64, bytes: Option<u64>| Workload {
        working_set: part,
        working_set_bytes: bytes,
        ..profiles::find("easy-run").unwrap().workloads.remove(0)
    };
    assert_eq!(used_bytes(&w(0.5, None), &disks), 24 << 20);
    assert_eq!(used_bytes(&w(1.0, Some(13 << 20)), &disks), 26 << 20);
    // Both workloads read on a disk where the larger, in bytes, was prepared: nothing is left unwritten.
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(2);
    (c.workloads[0].working_set, c.workloads[1].working_set_bytes) = (0.25, Some(12 << 20));
    let run =
        |c: &Config, n: usize| start(c, &dir.path().join(format!("results{n}")), false, &NoModels, Vec::new(), &mut Follower::default());
    run(&c, 0).unwrap();
    c.prepare = None;
    run(&c, 1).unwrap();
    c.workloads[1].working_set_bytes = Some(16 << 20);
    assert!(run(&c, 2).unwrap_err().to_string().contains("--prepare random"));
}

#[test]
fn a_search_keeps_a_bound_on_p99_for_any_profile() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(1);
    c.search = Some(Search { iops_unit: 10.0, mean_ms_max: None, p99_ms_max: Some(30_000.0) });
    let folder = start(&c, &dir.path().join("results"), false, &NoModels, Vec::new(), &mut Follower::default()).unwrap();
    let sentences = folder.record().unwrap().verdict.join("\n");
    assert!(sentences.contains("a p99 of 30,000"), "{sentences}");
    assert!(folder.cases().unwrap().len() > 1);
    c.search = Some(Search { iops_unit: 10.0, mean_ms_max: None, p99_ms_max: None });
    let e = start(&c, &dir.path().join("results2"), false, &NoModels, Vec::new(), &mut Follower::default()).unwrap_err().to_string();
    assert!(e.contains("at least one bound"), "{e}");
}

#[test]
fn a_run_ends_when_more_operations_have_failed_than_may() {
    let mut m = crate::report::example::run().1.remove(0);
    (m.reads.errors, m.notes) = (11, vec!["The first operation that failed: read at 0: no.".into()]);
    let said = |most| watched::of_cases(most, std::slice::from_ref(&m)).map(|e| e.to_string());
    assert_eq!(said(Some(11)), None);
    assert_eq!(said(None), None);
    let words = "11 operations failed, and at most 10 may (--errors-max): The first operation that failed: read at 0: no";
    assert_eq!(said(Some(10)).as_deref(), Some(words));
}

/// Cuts a file to a part of its size when the first case begins.
pub(crate) struct Cutter(pub std::path::PathBuf);

impl Watch for Cutter {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}

impl Follow for Cutter {
    fn folder(&mut self, _: &Folder) {}
    fn case_begins(&mut self, _: usize, _: &Case, _: &Config) {
        fs::File::options().write(true).open(&self.0).unwrap().set_len(12 << 20).unwrap();
    }
    fn case_done(&mut self, _: usize, _: &Measured) {}
}

#[test]
fn operations_that_failed_come_first_in_the_verdict_with_the_first_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(1);
    c.workloads[0].streams[0].reads = 1.0;
    c.measure_s = 0.5;
    let folder = start(&c, &dir.path().join("results"), false, &NoModels, Vec::new(), &mut Cutter(dir.path().join("disk"))).unwrap();
    let (record, cases) = (folder.record().unwrap(), folder.cases().unwrap());
    assert!(cases[0].total().errors > 0 && cases[0].total().operations > 0, "{:?}", cases[0].notes);
    let first = &record.verdict[0];
    assert!(first.contains(" operations failed (") && first.contains("The first operation that failed: "), "{first}");
}

#[test]
fn a_case_ends_while_it_runs_when_more_operations_have_failed_than_may() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(2);
    c.workloads.iter_mut().for_each(|w| w.streams[0].reads = 1.0);
    (c.measure_s, c.errors_max) = (600.0, Some(10));
    let (results, begun) = (dir.path().join("results"), std::time::Instant::now());
    let e = start(&c, &results, false, &NoModels, Vec::new(), &mut Cutter(dir.path().join("disk"))).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(300), "the case would have taken ten minutes");
    let LabError::TooManyFailed { failed, most: 10, why } = &e else { panic!("{e}") };
    assert!(*failed > 10 && why.contains("The first operation that failed: "), "{e}");
    let folder = Folder::open(&fs::read_dir(&results).unwrap().next().unwrap().unwrap().path()).unwrap();
    let (record, partial) = (folder.record().unwrap(), folder.partial(0).unwrap().expect("what there is of the case is kept"));
    assert_eq!((record.state, folder.cases().unwrap().len()), (RunState::Interrupted, 0));
    assert!(partial.cut_short && partial.total().errors > 10 && partial.total().operations > 0);
    assert!(record.verdict[0].starts_with("The run was ended: ") && record.verdict[0].contains("at most 10 may"), "{:?}", record.verdict);
    // The report says it too, beside the figures of the case.
    let page = crate::report::Report::new(folder.path(), None).unwrap().markdown();
    assert!(page.contains("The run was ended: ") && page.contains("1 case ended before its time"), "{page}");
}

#[test]
fn failures_of_a_warm_up_and_of_cases_before_count_and_a_case_that_had_its_time_is_whole() {
    let second = |at_s, errors| Second { at_s, errors, ..Second::default() };
    let mut follow = Follower::default();
    let mut watched = Watched::new(&mut follow);
    (watched.failures_max, watched.failed) = (Some(10), 4);
    watched.second(&second(-1.0, 3));
    watched.second(&second(0.0, 3));
    assert!(!watched.stopped() && watched.problem(None).is_none());
    watched.second(&second(1.0, 1));
    assert!(watched.stopped());
    assert_eq!(watched.problem(None).unwrap().to_string(), "11 operations failed, and at most 10 may (--errors-max)");
    // A limit that is exceeded in the last second of a case: the case is kept, and is the last one.
    let dir = tempfile::tempdir().unwrap();
    let mut c = config(dir.path());
    c.workloads.truncate(2);
    c.workloads.iter_mut().for_each(|w| w.streams[0].reads = 1.0);
    (c.measure_s, c.errors_max) = (0.5, Some(0));
    let results = dir.path().join("results");
    let e = start(&c, &results, false, &NoModels, Vec::new(), &mut Cutter(dir.path().join("disk"))).unwrap_err();
    assert!(matches!(&e, LabError::TooManyFailed { most: 0, .. }), "{e}");
    let folder = Folder::open(&fs::read_dir(&results).unwrap().next().unwrap().unwrap().path()).unwrap();
    let cases = folder.cases().unwrap();
    assert!(cases.len() == 1 && !cases[0].cut_short && cases[0].total().errors > 0, "{} cases", cases.len());
}
