//! A load on several agents is one result; who has no key gets nowhere.

use super::*;
use crate::engine::Fill;
use crate::measure::Figures;
use crate::results::RunKind;
use crate::run::Config;
use crate::run::tests::{Cutter, example};
use crate::workload::{Access, Arrivals, Skew, Spacing, Workload};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// Agents in this process, with a key and files of 16 MiB.
struct Lab {
    dir: tempfile::TempDir,
    agents: Vec<String>,
}

impl Lab {
    fn new(agents: usize) -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let (key, made) = AgentKey::load_or_make(&dir.path().join("key")).unwrap();
        assert!(made);
        let agent = |_| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let (address, key) = (listener.local_addr().unwrap().to_string(), key.clone());
            std::thread::spawn(move || serve(&listener, &key, |_| {}));
            address
        };
        Lab { dir, agents: (0..agents).map(agent).collect() }
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key")
    }

    /// On so many files, which are made.
    fn system(&self, disks: usize) -> System {
        let disk = |n| format!("{}:16MiB", self.dir.path().join(format!("disk{n}")).display());
        let system = System::of((0..disks).map(disk).collect());
        System { agents: self.agents.clone(), agent_key: Some(self.key()), workers: 1, ..system }
    }

    fn open(&self, system: &System) -> Result<Box<dyn Engine>, LabError> {
        system.open(false, 1, &Ledgers::default(), &NoModels)
    }
}

/// Keeps the seconds; ends the load after `most` of them.
#[derive(Default)]
struct Seen {
    seconds: Vec<Second>,
    prepared: (u64, u64),
    most: Option<usize>,
}

impl Watch for Seen {
    fn second(&mut self, second: &Second) {
        self.seconds.push(second.clone());
    }
    fn progress(&mut self, _: &str, done: u64, all: u64) {
        self.prepared = (done, all);
    }
    fn stopped(&self) -> bool {
        self.most.is_some_and(|most| self.seconds.len() >= most)
    }
}

fn load(arrivals: Arrivals) -> Workload {
    Workload { arrivals, ..Workload::simple("w", 4096, 0.5, Access::Random { skew: Skew::Uniform }, 2) }
}

fn job(workload: Workload, measure_ms: u64) -> Job {
    Job { workload, warm_up: Duration::from_millis(100), measure: Duration::from_millis(measure_ms), seed: 1 }
}

#[test]
fn several_agents_begin_together_and_give_one_result_with_merged_histograms() {
    let lab = Lab::new(3);
    let mut engine = lab.open(&lab.system(4)).unwrap();
    assert!(engine.disks().iter().all(|d| d.1 == 16 << 20) && engine.disks().len() == 4);
    let w = load(Arrivals::Open { iops: 400.0, spacing: Spacing::Fixed });
    engine.admit(&w, true).unwrap();
    assert_eq!(engine.unwritten(&w).unwrap(), Some(1.0));
    let mut seen = Seen::default();
    engine.prepare(&w, Fill::Random, &mut seen).unwrap();
    assert_eq!(seen.prepared, (64 << 20, 64 << 20));
    assert_eq!(engine.unwritten(&w).unwrap(), Some(0.0));
    let m = engine.run(&job(w.clone(), 1900), &mut seen).unwrap();
    assert!(!m.cut_short && m.workload == w && m.disks == engine.disks() && m.engine == "native", "{:?}", m.notes);
    let total = m.total();
    assert!(total.operations > 0 && total.latency.count() == total.operations);
    // Each has its part, by its disks: two, one, one.
    assert_eq!(m.clients.iter().map(|c| c.disks).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(m.clients.iter().map(|c| c.name.clone()).collect::<Vec<_>>(), lab.agents);
    let mut sum = Figures::default();
    m.clients.iter().for_each(|c| sum.merge(&c.figures));
    assert_eq!(sum, total);
    let due = |n: usize| m.clients[n].figures.operations as f64;
    assert!((due(0) / (due(1) + due(2)) - 1.0).abs() < 0.2, "{:?}", m.clients);
    // The seconds are those of all, and add up, as those of one machine do.
    let measured: Vec<&Second> = m.seconds.iter().filter(|s| s.at_s >= 0.0).collect();
    assert_eq!(measured.iter().map(|s| s.reads + s.writes).sum::<u64>(), total.operations);
    assert!(measured.iter().all(|s| s.p99_us > 0.0 && s.max_us >= s.p99_us) && seen.seconds.len() == m.seconds.len());
    assert!(m.notes.iter().any(|n| n.starts_with("3 agents began together, within")), "{:?}", m.notes);
    assert!(m.clients.iter().all(|c| c.noise.is_some()) && m.noise.is_none());
}

#[test]
fn a_stop_reaches_all_agents_and_they_work_for_the_next() {
    let lab = Lab::new(2);
    let system = lab.system(2);
    let mut engine = lab.open(&system).unwrap();
    let mut seen = Seen { most: Some(1), ..Seen::default() };
    let m = engine.run(&job(load(Arrivals::Closed), 600_000), &mut seen).unwrap();
    assert!(m.cut_short && m.total().operations > 0 && m.clients.len() == 2);
    // As a comparison does: closed and opened, case after case.
    let system = System { disks: system.disks.iter().map(|d| d.replace(":16MiB", "")).collect(), ..system };
    for _ in 0..5 {
        drop(engine);
        engine = lab.open(&system).unwrap();
    }
}

#[test]
fn operations_that_fail_on_one_agent_end_the_case_on_all() {
    let lab = Lab::new(2);
    let system = lab.system(2);
    let mut config = Config { errors_max: Some(10), measure_s: 600.0, systems: vec![system], ..example(RunKind::Run, "easy-run") };
    config.workloads.truncate(1);
    config.workloads[0].streams[0].reads = 1.0;
    let (results, begun) = (lab.dir.path().join("results"), Instant::now());
    let mut cutter = Cutter(lab.dir.path().join("disk1"));
    let e = crate::run::start(&config, &results, false, &NoModels, Vec::new(), &mut cutter).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(300), "the case would have taken ten minutes");
    assert!(matches!(&e, LabError::TooManyFailed { most: 10, why, .. } if why.contains("operation that failed")), "{e}");
    let run = std::fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let partial = crate::results::folder::Folder::open(&run).unwrap().partial(0).unwrap().expect("what there is of the case is kept");
    assert!(partial.cut_short && partial.clients.len() == 2, "{:?}", partial.notes);
    let failed = partial.clients.iter().map(|c| c.figures.errors).collect::<Vec<_>>();
    assert!(failed[0] == 0 && failed[1] > 10, "{failed:?}");
}

#[test]
fn an_agent_works_for_one_lab_at_a_time() {
    let lab = Lab::new(1);
    let _first = lab.open(&lab.system(1)).unwrap();
    let refused = lab.open(&lab.system(1)).err().unwrap().to_string();
    assert!(refused.contains(&lab.agents[0]) && refused.contains("busy with the lab at 127.0.0.1"), "{refused}");
}

#[test]
fn who_has_no_key_or_another_one_gets_nowhere() {
    let lab = Lab::new(1);
    let another = lab.dir.path().join("another");
    AgentKey::load_or_make(&another).unwrap();
    let refused = lab.open(&System { agent_key: Some(another), ..lab.system(1) }).err().unwrap().to_string();
    assert!(refused.contains("its key is another one") && refused.contains("give the agent and this lab the same key"), "{refused}");
    // Plain bytes are answered with an alert, and the end.
    let mut socket = TcpStream::connect(&lab.agents[0]).unwrap();
    std::io::Write::write_all(&mut socket, b"{\"Open\":{}}\n\0\0\0\0\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut socket, &mut answer);
    assert!(!answer.windows(6).any(|w| w == b"Opened"), "{answer:?}");
    let missing = lab.open(&System { agent_key: Some("/nowhere/key".into()), ..lab.system(1) }).err().unwrap().to_string();
    assert!(missing.contains("/nowhere/key") && missing.contains("basalt lab agent --key"), "{missing}");
    assert!(lab.open(&lab.system(1)).is_ok(), "the agent serves who has it");
}

#[test]
fn what_an_agent_refuses_names_it_and_the_disk() {
    let lab = Lab::new(2);
    std::fs::write(lab.dir.path().join("photos"), vec![7; 16 << 20]).unwrap();
    let photos = lab.dir.path().join("photos").display().to_string();
    let system = System { disks: vec![lab.system(1).disks[0].clone(), photos.clone()], ..lab.system(2) };
    let refused = lab.open(&system).unwrap().admit(&load(Arrivals::Closed), false).unwrap_err().to_string();
    assert!(refused.starts_with(&format!("agent {}: {photos}:", lab.agents[1])) && refused.contains("--destroy"), "{refused}");
    let nothing = System { disks: vec!["/nowhere/a".into(), "/nowhere/b".into()], ..lab.system(2) };
    let refused = lab.open(&nothing).err().unwrap().to_string();
    assert!(refused.contains("/nowhere/a") && refused.contains(&lab.agents[0]), "{refused}");
}

#[test]
fn systems_whose_agents_make_no_sense_are_refused() {
    let one = || System { agents: vec!["a:1".into()], agent_key: Some("key".into()), ..System::of(vec!["disk".into()]) };
    one().check().unwrap();
    let wrong = [
        (System { agents: vec!["a:1".into(), "b:1".into()], ..one() }, "more agents than disks"),
        (System { agents: vec!["a:1".into(), "a:1".into()], disks: vec!["d".into(), "e".into()], ..one() }, "named twice"),
        (System { agent_key: None, ..one() }, "--agent-key"),
        (System { engine: crate::engine::open::EngineKind::Fio, ..one() }, "another engine"),
    ];
    for (system, words) in wrong {
        let e = system.check().unwrap_err().to_string();
        assert!(e.contains(words), "{e}");
    }
}

#[test]
fn a_key_is_made_once_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    let (key, made) = AgentKey::load_or_make(&file).unwrap();
    assert!(made && std::fs::metadata(&file).unwrap().permissions().mode() & 0o777 == 0o600);
    assert_eq!(AgentKey::load_or_make(&file).unwrap(), (key.clone(), false));
    assert_eq!(AgentKey::load(&file).unwrap(), key);
    assert!(!format!("{key:?}").contains(std::fs::read_to_string(&file).unwrap().trim()));
    let bad = |text: &str| {
        std::fs::write(&file, text).unwrap();
        AgentKey::load(Path::new(&file)).unwrap_err().to_string()
    };
    assert!(bad("abc").contains("64 hexadecimal digits") && bad(&"g".repeat(64)).contains("no key of the lab"));
}
