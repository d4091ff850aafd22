use super::*;
use crate::measure::Second;
use crate::workload::{Access, Arrivals, Skew, Spacing};
use std::fs;
use std::time::Duration as Time;

#[derive(Default)]
struct Silent {
    seconds: Vec<Second>,
    progress: Vec<(u64, u64)>,
    stop: bool,
}

impl Watch for Silent {
    fn second(&mut self, second: &Second) {
        self.seconds.push(second.clone());
    }
    fn progress(&mut self, _: &str, done: u64, all: u64) {
        self.progress.push((done, all));
    }
    fn stopped(&self) -> bool {
        self.stop
    }
}

fn file(dir: &tempfile::TempDir, bytes: u64) -> Native {
    Native::open(&[(dir.path().join("disk"), Some(bytes))], NativeOptions { workers: 2, ..NativeOptions::default() }).unwrap()
}

fn job(workload: Workload, ms: u64) -> Job {
    Job { workload, warm_up: Time::from_millis(20), measure: Time::from_millis(ms), seed: 1 }
}

fn mixed(bytes: u32, reads: f64, depth: u32) -> Workload {
    Workload::simple("t", bytes, reads, Access::Random { skew: Skew::Uniform }, depth)
}

#[test]
fn a_load_runs_on_a_file_and_its_seconds_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 16 << 20);
    let mut watch = Silent::default();
    engine.prepare(&mixed(4096, 0.5, 4), Fill::Random, &mut watch).unwrap();
    let mut w = mixed(4096, 0.5, 4);
    w.streams[0].trims = 0.1;
    let m = engine.run(&job(w, 300), &mut watch).unwrap();
    assert!(m.reads.operations > 0 && m.writes.operations > 0 && m.trims.operations > 0);
    assert_eq!(m.reads.bytes, m.reads.operations * 4096);
    assert_eq!(m.total().errors, 0);
    assert!(!m.cut_short && (m.measured_s - 0.3).abs() < 1e-6, "{}", m.measured_s);
    let measured: Vec<_> = m.seconds.iter().filter(|s| s.at_s >= 0.0).collect();
    assert_eq!(measured.iter().map(|s| s.reads).sum::<u64>(), m.reads.operations);
    assert_eq!(measured.iter().map(|s| s.written_bytes).sum::<u64>(), m.writes.bytes);
    assert!(m.client_cpu_s > 0.0);
}

#[test]
fn a_load_that_flushes_counts_flushes_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 16 << 20);
    let mut w = mixed(4096, 0.0, 2);
    (w.streams[0].flush_every, w.verify) = (4, true);
    let m = engine.run(&job(w.clone(), 500), &mut Silent::default()).unwrap();
    let (writes, flushes) = (m.writes.operations, m.flushes.operations);
    assert!(flushes > 0 && writes.abs_diff(4 * flushes) <= 16, "{writes} writes, {flushes} flushes");
    assert_eq!(m.total().operations, writes);
    let measured = m.seconds.iter().filter(|s| s.at_s >= 0.0);
    assert_eq!(measured.map(|s| s.reads + s.writes).sum::<u64>(), writes);
    w.streams[0].reads = 1.0;
    assert!(engine.admit(&w, false).unwrap_err().to_string().contains("nothing is written that could be flushed"));
}

#[test]
fn filling_leaves_no_block_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, (5 << 20) + 8192);
    let path = dir.path().join("disk");
    let mut half = mixed(4096, 0.0, 1);
    half.working_set = 0.5;
    engine.prepare(&half, Fill::Random, &mut Silent::default()).unwrap();
    let bytes = fs::read(&path).unwrap();
    let end = (bytes.len() / 2) / 4096 * 4096;
    assert!(bytes[..end].chunks(4096).all(|b| b.iter().any(|&x| x != 0)));
    assert!(bytes[end..].iter().all(|&x| x == 0));
    engine.prepare(&half, Fill::Zero, &mut Silent::default()).unwrap();
    assert!(fs::read(&path).unwrap().iter().all(|&x| x == 0));
}

#[test]
fn operations_above_a_mebibyte_go_in_parts_and_count_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 32 << 20);
    let m = engine.run(&job(mixed(3 << 20, 0.5, 2), 300), &mut Silent::default()).unwrap();
    assert!(m.reads.operations > 0 && m.writes.operations > 0);
    assert_eq!(m.reads.bytes + m.writes.bytes, (m.reads.operations + m.writes.operations) * (3 << 20));
}

#[test]
fn an_open_loop_comes_at_its_rate() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 16 << 20);
    let mut w = mixed(4096, 1.0, 32);
    w.arrivals = Arrivals::Open { iops: 1000.0, spacing: Spacing::Fixed };
    let m = engine.run(&job(w, 500), &mut Silent::default()).unwrap();
    // Without a rate it would be tens of thousands; what was late at the start of the window counts in it.
    assert!((300..=600).contains(&m.reads.operations), "{}", m.reads.operations);
}

#[test]
fn a_file_that_holds_data_is_not_written_and_may_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("photos");
    fs::write(&path, vec![7; 2 << 20]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let mut engine = Native::open(&[(path.clone(), None)], NativeOptions::default()).unwrap();
    engine.run(&job(mixed(4096, 1.0, 1), 50), &mut Silent::default()).unwrap();
    let e = engine.run(&job(mixed(4096, 0.9, 1), 50), &mut Silent::default()).unwrap_err().to_string();
    assert!(e.contains("photos") && e.contains("--destroy"), "{e}");
    let e = engine.prepare(&mixed(4096, 0.9, 1), Fill::Zero, &mut Silent::default()).unwrap_err().to_string();
    assert!(e.contains("--destroy"), "{e}");
    assert!(fs::read(&path).unwrap().iter().all(|&b| b == 7));
    drop(engine);
    let mut engine = Native::open(&[(path, None)], NativeOptions { destroy: true, ..NativeOptions::default() }).unwrap();
    engine.run(&job(mixed(4096, 0.0, 1), 50), &mut Silent::default()).unwrap();
}

#[test]
fn a_file_that_held_nothing_is_written_case_after_case_but_not_by_a_later_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blank");
    fs::File::create(&path).unwrap().set_len(2 << 20).unwrap();
    let write = |engine: &mut Native| {
        let result = engine.run(&job(mixed(4096, 0.0, 1), 50), &mut Silent::default());
        fs::File::open(&path).unwrap().sync_all().unwrap();
        result
    };
    let mut engine = Native::open(&[(path.clone(), None)], NativeOptions::default()).unwrap();
    (0..2).for_each(|_| drop(write(&mut engine).unwrap()));
    drop(engine);
    // It is not the lab's: what is in it by then may be somebody's.
    let mut engine = Native::open(&[(path.clone(), None)], NativeOptions::default()).unwrap();
    assert!(write(&mut engine).unwrap_err().to_string().contains("--destroy"));
}

#[test]
fn what_cannot_be_done_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 2 << 20);
    let says = |w: Workload, text: &str, engine: &mut Native| {
        let e = engine.run(&job(w, 50), &mut Silent::default()).unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    says(mixed(4 << 20, 1.0, 1), "does not fit", &mut engine);
    says(mixed(512, 1.0, 1), "multiples of 4096", &mut engine);
    says(mixed(16 << 20, 1.0, 1024), "bytes of buffers", &mut engine);
    let missing = Native::open(&[(dir.path().join("none"), None)], NativeOptions::default()).err().unwrap().to_string();
    assert!(missing.contains("none") && missing.contains("nothing at this path"), "{missing}");
    let busy = Native::open(&[(dir.path().join("disk"), None)], NativeOptions::default()).err().unwrap().to_string();
    assert!(busy.contains("in use"), "{busy}");
}

#[test]
fn a_stopped_run_keeps_what_it_has() {
    struct Soon(u32);
    impl Watch for Soon {
        fn second(&mut self, _: &Second) {
            self.0 += 1;
        }
        fn progress(&mut self, _: &str, _: u64, _: u64) {}
        fn stopped(&self) -> bool {
            self.0 >= 1
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 16 << 20);
    let m = engine.run(&Job { warm_up: Time::ZERO, ..job(mixed(4096, 1.0, 2), 600_000) }, &mut Soon(0)).unwrap();
    assert!(m.cut_short && m.reads.operations > 0 && (0.9..5.0).contains(&m.measured_s), "{}", m.measured_s);
}

#[test]
fn a_file_that_is_cut_off_in_mid_run_ends_it_with_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 16 << 20);
    let path = dir.path().join("disk");
    let cut = std::thread::spawn(move || {
        std::thread::sleep(Time::from_millis(200));
        fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    });
    let m = engine.run(&job(mixed(4096, 1.0, 2), 60_000), &mut Silent::default()).unwrap();
    cut.join().unwrap();
    assert!(m.cut_short && m.measured_s < 30.0 && m.reads.operations > 0);
    assert!(m.notes[0].contains("failed one after the other"), "{:?}", m.notes);
}

/// One run after the other from end to end, by two threads.
fn verified(reads: f64) -> Workload {
    Workload { verify: true, ..Workload::simple("v", 8192, reads, Access::Sequential { shared: false }, 2) }
}

#[test]
fn all_that_is_read_is_verified_whatever_is_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 2 << 20);
    let mut w = Workload { verify: true, ..mixed(4096, 0.5, 16) };
    let big = crate::workload::Size { bytes: 64 << 10, weight: 0.2 };
    w.streams[0].sizes.push(big);
    w.streams[0].align_bytes = 4096;
    w.streams[0].trims = 0.05;
    let m = engine.run(&job(w.clone(), 200), &mut Silent::default()).unwrap();
    let v = m.verified.unwrap();
    assert!(v.checked > 0 && v.wrong == 0 && v.unknown > 0 && !m.cut_short, "{v:?} {:?}", m.notes);
    for fill in [Fill::Zero, Fill::Random] {
        engine.prepare(&w, fill, &mut Silent::default()).unwrap();
        let m = engine.run(&job(w.clone(), 200), &mut Silent::default()).unwrap();
        let v = m.verified.unwrap();
        assert!(v.checked >= m.reads.operations && v.wrong == 0 && v.unknown == 0, "{v:?} {:?}", m.notes);
    }
}

#[test]
fn a_load_that_reads_nothing_is_reported_to_have_verified_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 2 << 20);
    for (reads, reported) in [(0.0, true), (1.0, false)] {
        let m = engine.run(&job(verified(reads), 200), &mut Silent::default()).unwrap();
        assert_eq!(m.notes.iter().any(|n| n.contains("nothing was verified")), reported, "{:?}", m.notes);
        assert_eq!(m.verified.unwrap().checked > 0, !reported);
    }
}

#[test]
fn large_operations_are_verified_in_all_their_parts() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = file(&dir, 16 << 20);
    let w = Workload { verify: true, ..mixed(3 << 20, 0.5, 2) };
    engine.prepare(&w, Fill::Random, &mut Silent::default()).unwrap();
    let m = engine.run(&job(w, 200), &mut Silent::default()).unwrap();
    let v = m.verified.unwrap();
    assert!(v.checked >= m.reads.bytes / 4096 && v.wrong == 0 && v.unknown == 0, "{v:?} {:?}", m.notes);
}

/// What the engine says after `spoil` had its way with the prepared file: (before, after the last preparation) of it.
fn spoiled(spoil: impl FnOnce(&[u8], &mut Vec<u8>)) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let mut engine = file(&dir, 1 << 20);
    engine.prepare(&verified(0.0), Fill::Random, &mut Silent::default()).unwrap();
    let before = fs::read(&path).unwrap();
    engine.prepare(&verified(0.0), Fill::Random, &mut Silent::default()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    spoil(&before, &mut bytes);
    let mut out = fs::File::options().write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut out, &bytes).unwrap();
    out.sync_all().unwrap();
    engine.run(&job(verified(1.0), 60_000), &mut Silent::default()).unwrap()
}

#[test]
fn wrong_data_under_the_engine_is_found_and_ends_the_run_with_what_it_has() {
    let at = 40 * 4096;
    let flipped = |_: &[u8], now: &mut Vec<u8>| now[at + 1000] ^= 1;
    let stale = |before: &[u8], now: &mut Vec<u8>| now[at..at + 4096].copy_from_slice(&before[at..at + 4096]);
    let misdirected = |_: &[u8], now: &mut Vec<u8>| now.copy_within(8192..12288, at);
    let said =
        [(spoiled(flipped), "corrupted"), (spoiled(stale), "stale"), (spoiled(misdirected), "byte 8192 of the same disk: misdirected")];
    for (m, word) in said {
        let v = m.verified.unwrap();
        assert!(v.wrong > 0 && v.checked > 0 && v.unknown == 0, "{word}: {v:?}");
        assert!(m.cut_short && m.measured_s < 30.0);
        assert!(m.notes[0].contains("disk: wrong data in the 4 KiB block at byte 163840") && m.notes[0].contains(word), "{:?}", m.notes);
    }
}

#[test]
fn a_file_larger_than_its_file_system_is_refused_and_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let open = |disks: &[(PathBuf, Option<u64>)]| Native::open(disks, NativeOptions::default()).map(drop);
    let (huge, small) = (dir.path().join("huge"), dir.path().join("small"));
    let e = open(&[(small.clone(), Some(1 << 20)), (huge.clone(), Some(1 << 56))]).unwrap_err().to_string();
    assert!(e.starts_with(&format!("{}: its file system has ", huge.display())) && e.contains("64.00 PiB"), "{e}");
    assert!(e.contains(" free, and ") && e.contains("name smaller ones"), "{e}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is made");
    // Each would have room, but not both.
    let free = rustix::fs::statvfs(dir.path()).map(|room| room.f_bavail * room.f_frsize).unwrap();
    let most = free / 5 * 3 / 4096 * 4096;
    let e = open(&[(small.clone(), Some(most)), (huge, Some(most))]).unwrap_err().to_string();
    assert!(e.contains("huge: its file system has "), "{e}");
    // Of a file that is there nothing is needed.
    open(&[(small.clone(), Some(1 << 20))]).unwrap();
    open(&[(small, Some(1 << 20))]).unwrap();
}
