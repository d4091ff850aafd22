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

#[test]
fn models_are_refused_with_what_to_do() {
    let error = run(&Options::default(), &mut Quiet).unwrap_err().to_string();
    assert!(error.contains("--real DIR"), "{error}");
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
