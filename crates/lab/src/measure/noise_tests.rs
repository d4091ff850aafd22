use super::*;
use std::process::{Child, Command};
use std::time::Duration;

fn process(name: &str, used_ms: u64, kernel: bool) -> Process {
    Process { name: name.into(), parent: 1, used_ms, children_ms: 0, kernel, began: 7 }
}

fn snapshot(at_ms: u64, busy_ms: u64, stolen_ms: u64, processes: &[(u32, Process)]) -> Snapshot {
    Snapshot { at_ms, processors: 2, busy_ms, stolen_ms, processes: processes.iter().cloned().collect(), ..Snapshot::default() }
}

#[test]
fn time_of_client_target_and_kernel_is_not_that_of_others() {
    let own = std::process::id();
    let (target, other) = (own + 1, own + 2);
    let known = known_here(Some(target));
    let a = [(own, process("lab", 1000, false)), (target, process("daemon", 1000, false)), (3, process("kworker/0:1", 50_100, true))];
    let b = [
        (own, process("lab", 1800, false)),
        (target, process("daemon", 1500, false)),
        // A kernel worker is called by what it did last: its time is still what it used since.
        (3, process("kworker/0:1-events", 50_200, true)),
        (other, process("rustc", 600, false)),
    ];
    let begin = snapshot(5000, 10_000, 0, &a);
    let noise = Noise::between(&begin, &snapshot(6000, 12_000, 0, &b), &known);
    assert!((noise.others - 0.6).abs() < 1e-9 && noise.steal == 0.0, "{noise:?}");
    assert_eq!(noise.processes, [("rustc".to_owned(), 0.6)]);
    let problem = noise.problem().unwrap();
    assert!(problem.contains("0.6 of 2 processors, 30 % of its processor time (rustc 0.6)"), "{problem}");
    // Another process under the number of one that has ended: all of its time is new.
    let mut again = b.clone();
    again[1].1.began = 9;
    assert!((Noise::between(&begin, &snapshot(6000, 13_000, 0, &again), &known).others - 0.6).abs() < 1e-9);
    // What the target has started is the target's.
    let mut child = b.clone();
    child[3].1.parent = target;
    let noise = Noise::between(&begin, &snapshot(6000, 12_000, 0, &child), &known);
    assert!(noise.others.abs() < 1e-9 && noise.processes.is_empty(), "{noise:?}");
    // The same machine without the compiler is quiet.
    let quiet = Noise::between(&begin, &snapshot(6000, 11_450, 30, &b[..3]), &known);
    assert_eq!(quiet.problem(), None, "{quiet:?}");
}

#[test]
fn the_machine_of_a_target_is_that_of_its_daemon() {
    let at = |at_ms, busy_ms, used_ms, other_ms| TargetMachine {
        now: snapshot(at_ms, busy_ms, 0, &[(77, process("basalt", used_ms, false)), (78, process("backup", other_ms, false))]),
        daemon: 77,
    };
    let (begin, end) = (at(1000, 0, 0, 0), at(11_000, 14_000, 5000, 9000));
    let noise = begin.noise(&end).unwrap();
    assert!((noise.others - 0.9).abs() < 1e-9 && noise.processes == [("backup".to_owned(), 0.9)], "{noise:?}");
    assert!(noise.problem().unwrap().contains("45 % of its processor time (backup 0.9)"));
    let another = TargetMachine { daemon: 80, ..end.clone() };
    assert_eq!(begin.noise(&another), None, "a daemon that has started anew");
    assert_eq!(end.noise(&begin), None, "a machine that has started anew");
}

#[test]
fn load_of_a_machine_at_rest_and_slow_processors_are_judged() {
    let noise = |load, processors| Noise { seconds: 1.0, processors, load: Some(load), at_rest: true, ..Noise::default() };
    assert_eq!(noise(0.9, 2).problem(), None);
    assert_eq!(noise(3.9, 16).problem(), None);
    let problem = noise(1.6, 2).problem().unwrap();
    assert!(problem.contains("the load average of the minute before the first case was 1.6 on 2 processors"), "{problem}");
    assert!(noise(4.5, 16).problem().is_some() && noise(4.5, 96).problem().is_some());
    assert_eq!(Noise { at_rest: false, ..noise(16.0, 2) }.problem(), None, "the load of a case is that of the lab, too");

    let seen = |fastest_mhz| Some(Frequency { mean_mhz: 700.0, fastest_mhz, limit_mhz: Some(3500.0) });
    assert_eq!(noise(0.0, 2).with_frequency(seen(3000.0)).slow(), None);
    let slow = noise(0.0, 2).with_frequency(seen(800.0));
    assert_eq!(slow.slow().as_deref(), Some("the fastest ran at 800 of at most 3500 MHz"));
    assert!(slow.words().ends_with(", 700 of at most 3500 MHz."), "{}", slow.words());
    assert_eq!(noise(0.0, 2).with_frequency(None).slow(), None, "what is not known is not judged");
}

#[test]
fn stolen_time_is_reported_and_what_is_too_short_is_not_judged() {
    let noise = Noise { seconds: 10.0, processors: 4, steal: 0.4, ..Noise::default() };
    assert!(noise.problem().unwrap().contains("10 %"));
    assert_eq!(Noise { seconds: 0.05, ..noise.clone() }.problem(), None);
    assert_eq!(Noise { steal: 0.04, ..noise }.problem(), None);
    let target = Noise { seconds: 10.0, processors: 4, others: 3.0, with_target: true, ..Noise::default() };
    assert_eq!(target.problem(), None, "a target that is not known may be all of it");
    assert!(Noise { with_target: false, ..target }.problem().is_some());
}

/// A process that takes all of a processor until it is dropped.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What everybody does on this machine meanwhile: what this process has started would be its own.
fn look(time: Duration) -> Noise {
    let before = Snapshot::now().unwrap();
    std::thread::sleep(time);
    Noise::between(&before, &Snapshot::now().unwrap(), &[])
}

#[test]
fn a_machine_that_is_loaded_on_purpose_is_called_busy() {
    let shell = std::fs::read_link("/bin/sh").map_or("sh".to_owned(), |p| p.file_name().unwrap().to_str().unwrap().to_owned());
    let loads: Vec<Load> = (0..std::thread::available_parallelism().unwrap().get())
        .map(|_| Load(Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap()))
        .collect();
    let mut noise = look(Duration::from_millis(500));
    for _ in 0..20 {
        if noise.processes.iter().any(|p| p.0 == "sh" || p.0 == shell) && noise.problem().is_some() {
            break;
        }
        noise = look(Duration::from_millis(500));
    }
    drop(loads);
    assert!(noise.problem().is_some_and(|p| p.contains("other processes used")), "{noise:?}");
    assert!(noise.processes.iter().any(|p| p.0 == "sh" || p.0 == shell), "{noise:?}");
}

#[test]
fn the_middle_of_a_load_is_no_warm_up_and_not_its_end() {
    let seen = |measured_s: f64| (-3..=30).map(f64::from).find(|at| is_middle(*at, measured_s));
    assert_eq!((seen(10.0), seen(30.0), seen(2.5)), (Some(4.0), Some(14.0), Some(1.0)));
    assert_eq!((seen(1.0), seen(0.3)), (None, None), "shorter ones have no second before their end");
}
