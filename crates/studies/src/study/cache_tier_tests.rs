//! The study at a tiny scale.

use super::super::cache_tier_model::{BYTES, NODES, READS};
use super::*;
use lab::engine::Watch;
use lab::measure::Second;
use lab::workload::Arrivals;

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
    let w = Model::OneGroup.workload(Some(100_000.0), DEPTH, 1.0);
    let Arrivals::Limited { iops } = w.arrivals else { panic!("a limit was asked for") };
    let (reads, writes) = (iops * w.streams[0].reads, iops * (1.0 - w.streams[0].reads));
    assert!((reads - 70_000.0 / 8.0).abs() < 1.0 && (writes - 30_000.0 / 4.0).abs() < 1.0, "{reads} {writes}");
}

#[test]
fn a_quick_study_has_the_published_order_and_keeps_every_case() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { rate: Some(16.0), size: Some(200.0), time: 0.1, ..Options::default() };
    let study = super::super::find("cache-tier").unwrap();
    let folder = super::super::start(study, &options, dir.path(), vec!["test".into()], &mut Quiet).unwrap();
    let (record, cases) = (folder.record().unwrap(), folder.cases().unwrap());
    assert_eq!((record.state, record.cases, cases.len()), (lab::results::RunState::Complete, 80, 80));
    let depth = |base, load| find(&cases, "NAND", "smooth", (base, load)).unwrap().workload.depth;
    assert_eq!([depth(EMPTY, MAXIMUM), depth(SUSTAINED, MAXIMUM), depth(SUSTAINED, "90 %")], [16, 4, 4]);
    // Both rules get the same loads, on both bases.
    for (base, load) in [(EMPTY, "60 %"), (EMPTY, "100 %"), (SUSTAINED, "50 %"), (SUSTAINED, "100 %")] {
        let asked = |rules| requested(find(&cases, "NAND", rules, (base, load)).unwrap()).unwrap();
        assert!(asked("published") > 1000.0 && asked("published") == asked("smooth"), "{base}, {load}");
    }
    assert_eq!(Model::OneGroup.workload(None, STEADY_DEPTH, 4.0).depth, 1, "the scale leaves something of the smaller depth");
    let max = |cache| find(&cases, cache, "published", (EMPTY, MAXIMUM)).unwrap().iops();
    let (nand, optane) = (max("NAND"), max("Optane"));
    assert!((230e3..340e3).contains(&nand) && (370e3..480e3).contains(&optane), "{nand} and {optane}");
    // a light load is a light load with every buffer and rule
    for m in cases.iter().filter(|m| label(m, "base") == EMPTY && label(m, "load") == "10 %") {
        assert!(m.writes.latency.mean_ns() < 1.5e6, "{:?}: {} ns", m.labels, m.writes.latency.mean_ns());
    }
    let all = find(&cases, "NAND", "smooth", (EMPTY, "10 %")).unwrap().total();
    assert!(all.errors == 0 && all.operations > 0);
    assert!(record.verdict[0].starts_with("Short: each case had 10.0 % of the study's own time"), "{:?}", record.verdict);
    assert!(record.verdict.iter().any(|v| v.contains("published: 305,000 and 450,000")), "{:?}", record.verdict);
    assert!(!record.published.is_empty());
}

#[test]
fn another_number_of_nodes_is_refused_and_so_is_another_study_with_nodes() {
    let dir = tempfile::tempdir().unwrap();
    for (name, nodes) in [("cache-tier", 3), ("namespaces", 4)] {
        let options = Options { nodes: Some(nodes), ..Options::default() };
        let study = super::super::find(name).unwrap();
        let error = super::super::start(study, &options, dir.path(), vec!["test".into()], &mut Quiet).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("--nodes") && error.contains("cache-tier with 4"), "{error}");
    }
    assert!(Options { nodes: Some(4), ..Options::default() }.to_toml("cache-tier").contains("\nnodes = 4\n[scale]"));
}

/// Both drives on four nodes, as fast as they go from an empty buffer, and a light load. With a fortieth of the data, so that it takes seconds.
#[test]
fn four_nodes_have_the_published_order() {
    let options = Options { nodes: Some(NODES), rate: Some(64.0), size: Some(50.0), time: 0.1, ..Options::default() };
    let mut max = Vec::new();
    for tier in TIERS {
        let mut cluster = Model::FourNodes.cluster(tier, RulesName::Stepped, &options);
        cluster.volumes.gib /= 40.0;
        let (engine, mut done) = (Simulated::new(&cluster, 1).unwrap(), Vec::new());
        let mut series = Series { engine, model: Model::FourNodes, options: &options, labels: vec![], done: &mut done };
        series.engine.prepare(&Model::FourNodes.workload(None, DEPTH, 64.0), Fill::Zero, &mut Quiet).unwrap();
        series.engine.rest(20).unwrap();
        max.push(series.case((EMPTY, MAXIMUM), None, DEPTH, MAXIMUM_S, &mut Quiet).unwrap());
        let light = series.case((EMPTY, "10 %"), Some(30_000.0), DEPTH, MAXIMUM_S, &mut Quiet).unwrap();
        assert!((light / 30_000.0 - 1.0).abs() < 0.05, "{light}");
        for m in &done {
            assert_eq!(m.total().errors, 0, "{:?}", m.notes);
            assert!(m.notes.iter().any(|n| n.contains("four nodes of two groups")), "{:?}", m.notes);
            assert!((m.reads.operations as f64 / m.total().operations as f64 - 0.7).abs() < 0.05);
        }
    }
    let [nand, optane] = max[..] else { panic!("two drives") };
    assert!((1.2..1.8).contains(&(optane / nand)), "{optane} and {nand}");
}

/// A step of a series with these operations a second, of those asked for, and this latency.
fn case(cache: &str, rules: &str, (base, load): (&str, &str), asked: f64, iops: f64, ms: f64) -> Measured {
    let figures = |n: f64| {
        let mut f = lab::measure::Figures { operations: n as u64, bytes: n as u64 * u64::from(BYTES), ..Default::default() };
        f.latency.record_n((ms * 1e6) as u64, n as u64);
        f
    };
    let mut list = labels(&[("cache", cache), ("rules", rules), ("base", base), ("load", load)]);
    if asked > 0.0 {
        list.push(("requested IOPS".into(), format!("{asked:.0}")));
    }
    Measured {
        engine: "simulated".into(),
        workload: Model::OneGroup.workload(None, DEPTH, 1.0),
        labels: list,
        disks: Vec::new(),
        began_unix_s: 0,
        warm_up_s: 1.0,
        measured_s: 1.0,
        cut_short: false,
        reads: figures(iops * READS),
        writes: figures(iops * (1.0 - READS)),
        trims: Default::default(),
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
        flushes: Default::default(),
    }
}

/// Series in which steps of the empty-buffer base above `kept` operations a second are not kept, by either rules.
fn both_break(kept: f64, smooth_ms: f64) -> Vec<Measured> {
    let mut all = Vec::new();
    for rules in ["published", "smooth"] {
        all.push(case("NAND", rules, (EMPTY, MAXIMUM), 0.0, 300_000.0, 1.0));
        all.push(case("NAND", rules, (SUSTAINED, MAXIMUM), 0.0, 169_000.0, 1.0));
        for percent in EMPTY_STEPS {
            let asked = 3000.0 * f64::from(percent);
            let (iops, ms) = if asked > kept { (kept, 13.0) } else { (asked, if rules == "smooth" { smooth_ms } else { 1.0 }) };
            all.push(case("NAND", rules, (EMPTY, &step(percent)), asked, iops, ms));
        }
    }
    all
}

#[test]
fn rules_that_give_the_same_are_said_to_and_a_cliff_that_stays_is_explained() {
    let says = verdict(&both_break(169_000.0, 1.0)).join("\n");
    assert!(says.contains("break at 60 % (168,999 IOPS with 180,000 asked for, p99 13.0 ms"), "{says}");
    assert!(says.contains("published rules break at 60 %") && says.contains("smooth rules break at 60 %"), "{says}");
    assert!(says.contains("at each of these loads the rules are alike in IOPS and p99"), "{says}");
    assert!(
        says.contains("smooth rules do not remove the cliff; it is at 60 %") && says.contains("no rules of destaging can change it"),
        "{says}"
    );
    // Where p99 is another up to the cliff, that is said step by step.
    let says = verdict(&both_break(169_000.0, 0.5)).join("\n");
    assert!(says.contains("50 %: 150,000 and 150,000 IOPS, p99 1.0 and 0.5 ms"), "{says}");
    assert!(says.contains("They are alike at 60, 70, 80, 90, 100 % (within 5 % of the IOPS, and a quarter of p99)."), "{says}");
    // Just below what is kept for good it need not be the rules.
    let mut near = both_break(169_000.0, 1.0);
    near.retain(|m| !m.labels.contains(&("base".into(), SUSTAINED.into())));
    near.extend(["published", "smooth"].map(|rules| case("NAND", rules, (SUSTAINED, MAXIMUM), 0.0, 185_000.0, 1.0)));
    let says = verdict(&near).join("\n");
    assert!(says.contains("180,000 IOPS are 97 % of the 185,000 that are kept for good") && !says.contains("better rules"), "{says}");
    // Far below it would be the rules' fault.
    let says = verdict(&both_break(100_000.0, 1.0)).join("\n");
    assert!(says.contains("it is at 40 %") && says.contains("better rules could"), "{says}");
}

#[test]
fn each_published_figure_has_one_of_ours_beside_it() {
    let cases: Vec<Measured> = figures()
        .iter()
        .map(|f| {
            let of = |key: &str| f.labels.iter().find(|l| l.0 == key).unwrap().1.clone();
            let mut m = case(&of("cache"), "published", (EMPTY, &of("load")), 0.0, 1000.0, 1.0);
            let target = lab::measure::TargetSecond { destaged_bytes: 1048576.0, ..Default::default() };
            m.seconds = vec![Second { target: Some(target), ..Default::default() }];
            m
        })
        .collect();
    for (f, m) in figures().iter().zip(&cases) {
        let ours = lab::report::figures::Case::new(0, m).figure(&f.figure);
        assert!(ours.is_some_and(|v| v > 0.0), "{}: {ours:?}", f.figure);
    }
}
