use super::*;
use crate::study::cache_tier::tests::Quiet;

#[test]
fn the_loads_make_sense_and_each_published_figure_stands_beside_one() {
    let loads = loads();
    for load in &loads {
        load.check(&load.name).unwrap();
    }
    let reads = |w: &Workload| {
        let all: f64 = w.streams.iter().map(|s| s.share).sum();
        w.streams.iter().map(|s| s.share * s.reads).sum::<f64>() / all
    };
    assert_eq!(loads.iter().map(|w| (reads(w) * 100.0).round()).collect::<Vec<_>>(), [100.0, 100.0, 90.0, 90.0]);
    let figures = figures();
    assert_eq!(figures.len(), 8);
    for p in figures {
        let load = p.labels.iter().find(|(k, _)| k == "load").unwrap();
        assert!(loads.iter().any(|w| w.name == load.1) && p.other_hardware, "{p:?}");
        assert!(["sql", "oracle"].iter().all(|name| !load.1.to_lowercase().contains(name)), "a load is called by what it is");
    }
}

/// On modelled networks: every case is there, and the sentences say of each network what they show.
#[test]
fn a_short_study_on_models_has_all_cases_and_says_what_they_show() {
    let options = Options { time: 0.5, ..Options::default() };
    let cases = run(&options, &mut Quiet).unwrap();
    assert_eq!(cases.len(), 3 * 3 * 4 * 2);
    for m in &cases {
        let all = m.total();
        assert!(all.operations > 0 && all.errors == 0, "{:?}: {all:?}", m.labels);
    }
    let of = |network: usize, transport: usize, load: &str| {
        let want = [("network", NETWORKS[network].0), ("transport", TRANSPORTS[transport].0), ("share", FULL), ("load", load)];
        cases.iter().find(|m| want.iter().all(|(k, v)| label(m, k) == *v)).unwrap()
    };
    // 64 KiB reads fill 10 Gbit/s with either protocol: 1,250 MB/s less headers.
    for transport in 0..3 {
        let m = of(0, transport, SEQUENTIAL);
        let mb_s = m.total().bytes as f64 / m.measured_s / 1e6;
        assert!((1_100.0..1_300.0).contains(&mb_s), "{:?}: {mb_s}", m.labels);
    }
    // Four cores are the limit, and no more than there are; there adapters that move the bytes help.
    let busy = of(2, 0, READ).target_cpu_s.unwrap() / of(2, 0, READ).measured_s;
    assert!((3.8..4.2).contains(&busy), "{busy}");
    assert!(of(2, 1, READ).iops() > 1.2 * of(2, 0, READ).iops());
    let says = verdict(&cases);
    assert_eq!(says.len(), 1 + 8 + 1, "{says:#?}");
    assert!(says[2].starts_with("4 KiB random read, at 80 %") && says[2].contains("Published: throughput +14.6 %"), "{says:#?}");
    assert_eq!(says[2].matches(" % and ").count(), 6, "{says:#?}");
    assert!(verdict(&[]).is_empty());
}

#[test]
fn a_difference_is_said_only_where_the_interval_shows_it() {
    let of = |ratio, interval| Ratio { figure: "throughput", ratio, interval, rounds: 5 };
    assert_eq!(change(&of(1.146, Some((1.1, 1.2)))), "throughput +14.6 % (+10.0 % to +20.0 %)");
    assert_eq!(change(&of(1.02, Some((0.9, 1.15)))), "throughput: no difference is shown (-10.0 % to +15.0 %)");
    assert_eq!(change(&of(0.5, None)), "throughput -50.0 %, from one round");
    assert_eq!(figures_of(READ, PART), ["throughput +14.6 %", "latency -21.4 %"]);
    assert!(figures_of(READ, FULL).is_empty());
}

/// Both transports reach the same volumes, and both are measured at both shares.
#[test]
fn a_short_study_has_all_cases_and_sentences_with_the_published_figures() {
    let dir = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    let real = Real { dir: dir.path().into(), bytes: BYTES_MIN };
    let options = Options { real: Some(real.clone()), time: 0.05, ..Options::default() };
    let mut cases = Cases(Vec::new());
    let says = on_files(&real, &options, &mut cases).unwrap();
    assert_eq!(cases.0.len(), 4 * 2 * 2);
    for m in &cases.0 {
        let all = m.total();
        assert!(all.operations > 0 && all.errors == 0, "{:?}: {all:?}", m.labels);
    }
    assert_eq!(says.len(), 9, "{says:#?}");
    assert!(
        says[1].starts_with("4 KiB random read, at 80 %") && says[1].contains("Published: throughput +14.6 %, latency -21.4 %"),
        "{says:#?}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

struct Cases(Vec<Measured>);
impl lab::engine::Watch for Cases {
    fn second(&mut self, _: &lab::measure::Second) {}
    fn progress(&mut self, _: &str, _: u64, _: u64) {}
    fn stopped(&self) -> bool {
        false
    }
}
impl Follow for Cases {
    fn folder(&mut self, _: &lab::results::folder::Folder) {}
    fn begins(&mut self, _: &str) {}
    fn case(&mut self, measured: &Measured) -> Result<(), LabError> {
        self.0.push(measured.clone());
        Ok(())
    }
}
