//! The study at a tiny scale.

use super::*;
use lab::engine::Watch;

/// Follows without a word.
pub struct Quiet;
impl Watch for Quiet {
    fn second(&mut self, _: &Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}
impl Follow for Quiet {
    fn folder(&mut self, _: &lab::results::folder::Folder) {}
    fn begins(&mut self, _: &str) {}
    fn case(&mut self, _: &Measured) -> Result<(), LabError> {
        Ok(())
    }
}

#[test]
fn the_load_of_a_group_is_the_clusters_load_with_each_write_made_twice() {
    let w = workload(Some(100_000.0), DEPTH, 1.0);
    let Arrivals::Limited { iops } = w.arrivals else { panic!("a limit was asked for") };
    let (reads, writes) = (iops * w.streams[0].reads, iops * (1.0 - w.streams[0].reads));
    assert!((reads - 70_000.0 / 8.0).abs() < 1.0 && (writes - 30_000.0 / 4.0).abs() < 1.0, "{reads} {writes}");
}

#[test]
fn a_quick_study_has_the_published_order_and_keeps_every_case() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { real: None, rate: Some(16.0), size: Some(200.0), time: 0.1, seed: 1 };
    let study = super::super::find("cache-tier").unwrap();
    let folder = super::super::start(study, &options, dir.path(), vec!["test".into()], &mut Quiet).unwrap();
    let (record, cases) = (folder.record().unwrap(), folder.cases().unwrap());
    assert_eq!((record.state, record.cases, cases.len()), (lab::results::RunState::Complete, 64, 64));
    let depth = |load| find(&cases, "NAND", "smooth", load).unwrap().workload.depth;
    assert_eq!([depth("maximum, buffer empty"), depth("maximum, steady"), depth("90 % of steady")], [16, 4, 4]);
    assert_eq!(workload(None, STEADY_DEPTH, RATE).depth, 1, "the scale leaves something of the smaller depth");
    let max = |cache| find(&cases, cache, "published", "maximum, buffer empty").unwrap().iops();
    let (nand, optane) = (max("NAND"), max("Optane"));
    assert!((230e3..340e3).contains(&nand) && (370e3..480e3).contains(&optane), "{nand} and {optane}");
    // a light load is a light load with every buffer and rule
    for m in cases.iter().filter(|m| label(m, "load") == "10 %") {
        assert!(m.writes.latency.mean_ns() < 1.5e6, "{:?}: {} ns", m.labels, m.writes.latency.mean_ns());
    }
    let all = find(&cases, "NAND", "smooth", "10 %").unwrap().total();
    assert!(all.errors == 0 && all.operations > 0);
    assert!(record.verdict[0].contains("published: 305,000 and 450,000"), "{:?}", record.verdict);
    assert!(!record.published.is_empty());
}
