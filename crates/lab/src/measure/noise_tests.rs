use super::*;
use std::process::{Child, Command};

const STAT: &str = "cpu  1000 50 200 9000 10 5 7 30 0 0\ncpu0 500 25 100 4500 5 2 3 15 0 0\ncpu1 500 25 100 4500 5 3 4 15 0 0\nintr 1\n";

fn process(name: &str, ticks: u64, kernel: bool) -> ProcessTime {
    ProcessTime { name: name.into(), ticks, children: 0, kernel, began: 7 }
}

fn snapshot(at: Instant, worked: u64, steal: u64, processes: &[(u32, ProcessTime)]) -> Snapshot {
    Snapshot { at, processors: 2, worked, steal, processes: processes.iter().cloned().collect() }
}

#[test]
fn the_counters_of_the_kernel_are_read() {
    assert_eq!(parse_machine(STAT), Some((2, 1250, 30)));
    assert_eq!(parse_machine("cpu  1 2\n"), None);
    let p = parse_process("12 (a) b (c) S 1 12 12 0 -1 2097216 100 0 0 0 250 150 7 8 20 0 1 0 100 0 0").unwrap();
    assert_eq!(p, ProcessTime { name: "a) b (c".into(), ticks: 400, children: 15, kernel: true, began: 100 });
    assert!(parse_process("12 (x) S 1").is_none());
}

#[test]
fn time_of_client_target_and_kernel_is_not_that_of_others() {
    let (begin, own) = (Instant::now(), std::process::id());
    let (target, other) = (own + 1, own + 2);
    let a = [(own, process("lab", 100, false)), (target, process("daemon", 100, false)), (3, process("kworker/0:1", 5010, true))];
    let b = [
        (own, process("lab", 180, false)),
        (target, process("daemon", 150, false)),
        // A kernel worker is called by what it did last: its time is still what it used since.
        (3, process("kworker/0:1-events", 5020, true)),
        (other, process("rustc", 60, false)),
    ];
    let end = begin + Duration::from_secs(1);
    let noise = snapshot(begin, 1000, 0, &a).noise(&snapshot(end, 1200, 0, &b), Some(target));
    assert!((noise.others - 0.6).abs() < 1e-9 && noise.steal == 0.0, "{noise:?}");
    assert_eq!(noise.processes, [("rustc".to_owned(), 0.6)]);
    let problem = noise.problem().unwrap();
    assert!(problem.contains("0.6 of 2 processors") && problem.contains("rustc 0.6"), "{problem}");
    // Another process under the number of one that has ended: all of its time is new.
    let mut again = b.clone();
    again[1].1.began = 9;
    assert!((snapshot(begin, 1000, 0, &a).noise(&snapshot(end, 1300, 0, &again), Some(target)).others - 0.6).abs() < 1e-9);
    // The same machine without the compiler is quiet.
    let quiet = snapshot(begin, 1000, 0, &a).noise(&snapshot(end, 1145, 3, &b[..3]), Some(target));
    assert_eq!(quiet.problem(), None, "{quiet:?}");
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

#[test]
fn a_machine_that_is_loaded_on_purpose_is_called_busy() {
    let shell = std::fs::read_link("/bin/sh").map_or("sh".to_owned(), |p| p.file_name().unwrap().to_str().unwrap().to_owned());
    let loads: Vec<Load> = (0..std::thread::available_parallelism().unwrap().get())
        .map(|_| Load(Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap()))
        .collect();
    let mut noise = look(Duration::from_millis(500), None).unwrap();
    for _ in 0..20 {
        if noise.processes.iter().any(|p| p.0 == "sh" || p.0 == shell) && noise.problem().is_some() {
            break;
        }
        noise = look(Duration::from_millis(500), None).unwrap();
    }
    drop(loads);
    assert!(noise.problem().is_some_and(|p| p.contains("other processes used")), "{noise:?}");
    assert!(noise.processes.iter().any(|p| p.0 == "sh" || p.0 == shell), "{noise:?}");
}
