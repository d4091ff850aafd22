use super::*;

const STAT: &str = "cpu  1000 50 200 9000 10 5 7 30 0 0\ncpu0 500 25 100 4500 5 2 3 15 0 0\ncpu1 500 25 100 4500 5 3 4 15 0 0\nintr 1\n";

#[test]
fn the_counters_of_the_kernel_are_read() {
    assert_eq!(parse_machine(STAT), Some((2, 12_500, 300)));
    assert_eq!(parse_machine("cpu  1 2\n"), None);
    let p = parse_process("12 (a) b (c) S 9 12 12 0 -1 2097216 100 0 0 0 250 150 7 8 20 0 1 0 100 0 0").unwrap();
    assert_eq!(p, Process { name: "a) b (c".into(), parent: 9, used_ms: 4000, children_ms: 150, kernel: true, began: 100 });
    assert!(parse_process("12 (x) S 1").is_none());
}

#[test]
fn this_machine_is_read_and_its_counters_grow() {
    let a = Snapshot::now().unwrap();
    let own = std::process::id();
    let begun = std::time::Instant::now();
    let b = loop {
        let b = Snapshot::now().unwrap();
        // The work of reading it is this process's own.
        if b.processes[&own].used_ms > a.processes[&own].used_ms {
            break b;
        }
        assert!(begun.elapsed().as_secs() < 60, "no processor time is counted");
    };
    assert!(b.at_ms >= a.at_ms && b.busy_ms >= a.busy_ms && b.processors > 0 && b.processors == a.processors);
    assert!(b.load.is_some_and(|load| load >= 0.0));
    assert!(b.frequency.is_none_or(|f| f.fastest_mhz >= f.mean_mhz && f.mean_mhz > 0.0));
}
