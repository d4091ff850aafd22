use super::*;
use crate::measure::Figures;
use crate::results::{Machine, RunKind, RunState};
use crate::workload::{Access, Workload};

fn record() -> Record {
    Record {
        version: VERSION,
        kind: RunKind::Run,
        title: "a run".into(),
        state: RunState::Running,
        command: vec!["basalt".into()],
        basalt: "0".into(),
        machine: Machine::default(),
        configuration: String::new(),
        verdict: Vec::new(),
        published: Vec::new(),
        source: String::new(),
        cases: 2,
        noise: Vec::new(),
        target_noise: Vec::new(),
        unwritten: None,
    }
}

fn measured() -> Measured {
    let mut reads = Figures { operations: 3, bytes: 12288, ..Figures::default() };
    (1..=3).for_each(|n| reads.latency.record(n * 1000));
    Measured {
        engine: "native".into(),
        workload: Workload::simple("t", 4096, 1.0, Access::Sequential { shared: false }, 1),
        labels: vec![("load".into(), "70 %".into())],
        disks: vec![("d".into(), 4096)],
        began_unix_s: 1,
        warm_up_s: 0.0,
        measured_s: 1.0,
        cut_short: false,
        reads,
        writes: Figures::default(),
        trims: Figures::default(),
        streams: Vec::new(),
        verified: None,
        client_cpu_s: 0.1,
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

#[test]
fn what_is_written_is_read_again_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let folder = Folder::create(&results, "easy run/1", &record()).unwrap();
    let twin = Folder::create(&results, "easy run/1", &record()).unwrap();
    assert_ne!(folder, twin);
    folder.write_case(0, &measured()).unwrap();
    assert!(folder.write_case(0, &measured()).unwrap_err().to_string().contains("never written over"));
    let again = Folder::open(folder.path()).unwrap();
    assert_eq!((again.record().unwrap(), again.cases().unwrap()), (record(), vec![measured()]));
    fs::create_dir(results.join("holiday")).unwrap();
    let all = list(&results).unwrap();
    assert_eq!(all.len(), 2);
    assert!(all[0].0.file_name().unwrap().to_str().unwrap().ends_with("easy-run-1"));
    assert!(list(&dir.path().join("none")).unwrap().is_empty());
}

#[test]
fn a_folder_that_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let says = |text: &str| {
        let e = Folder::open(dir.path()).unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    says("no run.json");
    fs::write(dir.path().join("run.json"), "{}").unwrap();
    says("no file of the lab");
    let newer = Record { version: 99, ..record() };
    fs::write(dir.path().join("run.json"), serde_json::to_vec(&newer).unwrap()).unwrap();
    says("version 99");
    assert!(Folder::open(&dir.path().join("none")).unwrap_err().to_string().contains("no such folder"));
}

#[test]
fn a_damaged_case_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::create(dir.path(), "x", &record()).unwrap();
    fs::write(folder.path().join("case-000.json"), "[1, 2").unwrap();
    let e = folder.cases().unwrap_err().to_string();
    assert!(e.contains("case-000.json") && e.contains("damaged"), "{e}");
}

#[test]
fn times_are_written_as_dates() {
    assert_eq!(time_name(0), "1970-01-01T00-00-00");
    assert_eq!(time_name(951_782_400), "2000-02-29T00-00-00");
    assert_eq!(time_name(1_795_336_205), "2026-11-22T08-30-05");
}
