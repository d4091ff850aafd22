//! The daemon under verified load while the machine fails it: it is stopped for a while, the disk is full beneath its files, a file is cut,
//! a device is another one after a restart, descriptors and memory run out. Kills are in `kill_restart`.
//!
//! In each: never a wrong byte; an error only where the fault justifies it; service again when the fault is over, by itself or after a restart.

use crate::harness::load::{Load, assert_clean, assert_no_wrong_byte};
use crate::harness::small_disk::SmallDisk;
use crate::harness::turn::Subject;
use crate::harness::{Daemon, PATIENCE, let_in, status, until};
use format::nvme::StatusCode;
use initiator::raw::RawClient;
use initiator::{Controller, ControllerOptions, Digests, HostIdentity};
use lab::verified::{self, LoadSpec, LoadSummary, file::Saved};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

const VOLUME_BYTES: u64 = 128 << 20;
/// What a small disk has room for: much less than a load writes, more than superblocks and tables take.
const SMALL_BYTES: u64 = 48 << 20;

fn daemon(more: &str) -> Daemon {
    Daemon::kept(Subject::Faults, more)
}

/// A disk group on two files and a volume on it. Gives a load that goes on until it is asked to end.
fn provision(daemon: &Daemon, cache: &str, capacity: &str) -> LoadSpec {
    daemon.ok(&format!("group create g --sparse --shards 2 --cache {cache}:256MiB --capacity {capacity}:512MiB"));
    daemon.ok(&format!("volume create v --size {VOLUME_BYTES}"));
    let options = ControllerOptions { digests: Digests { header: false, data: true }, ..daemon.options() };
    LoadSpec { time: Duration::from_secs(24 * 3600), reconnect_for: PATIENCE, ..LoadSpec::new(options, 1) }
}
fn on_files(daemon: &Daemon) -> LoadSpec {
    provision(daemon, &daemon.at("cache"), &daemon.at("capacity"))
}

/// Reads all back and checks it against what is known.
fn read_back(spec: &LoadSpec, saved: Saved, daemon: &Daemon) -> (LoadSummary, Saved) {
    more(spec, saved, 0, daemon)
}
/// So many operations more, then reads all back.
fn more(spec: &LoadSpec, saved: Saved, ops: u64, daemon: &Daemon) -> (LoadSummary, Saved) {
    let spec = LoadSpec { ops: Some(ops), resume: Some(saved), stop: Default::default(), ..spec.clone() };
    verified::run(spec, |_| ()).unwrap_or_else(|e| panic!("the load failed: {e}\n{}", daemon.log_tail()))
}
/// More load until nothing fails any more.
fn until_all_is_well(spec: &LoadSpec, saved: Saved, daemon: &Daemon) -> Saved {
    let mut known = Some(saved);
    until("operations succeed again", || {
        let (summary, saved) = more(spec, known.take()?, 500, daemon);
        assert_no_wrong_byte(&summary, daemon);
        known = Some(saved);
        summary.is_clean().then_some(())
    });
    known.expect("it was put back")
}
/// Every error of a load is one of these.
fn assert_errors_are(summary: &LoadSummary, allowed: &[&str], daemon: &Daemon) {
    assert_no_wrong_byte(summary, daemon);
    let other: Vec<&String> = summary.errors.keys().filter(|e| !allowed.iter().any(|a| e.contains(a))).collect();
    assert!(other.is_empty(), "{other:?} among {:?}\n{}", summary.errors, daemon.log_tail());
}
/// Whether `basalt status` has an error about `subject` with these words.
fn reports(daemon: &Daemon, check: &str) -> bool {
    daemon.json("status")["checks"].as_array().is_some_and(|all| all.iter().any(|c| c["id"] == check))
}
fn wait_for_check(daemon: &Daemon, check: &str) {
    until(check, || reports(daemon, check).then_some(()));
}

#[test]
fn a_daemon_that_stands_still_for_seconds_goes_on_and_nobody_notices_more_than_that() {
    let daemon = daemon("");
    let spec = on_files(&daemon);
    let load = Load::start(spec);
    thread::sleep(Duration::from_millis(700));
    for still in [500, 3000] {
        daemon.signal("-STOP");
        thread::sleep(Duration::from_millis(still));
        daemon.signal("-CONT");
        thread::sleep(Duration::from_millis(500));
        load.assert_running(&daemon);
    }
    let (summary, _) = load.finish(&daemon);
    println!("{summary:?}");
    assert_clean(&summary, &daemon);
    assert!(summary.reconnects == 0 && summary.bytes_written > 0);
    assert!(summary.latency_us[3] >= 2_900_000, "it stood still");
}

#[test]
fn a_full_disk_beneath_a_sparse_capacity_file_fails_writes_at_most_and_heals() {
    let Some(disk) = SmallDisk::new(SMALL_BYTES) else { return };
    let mut daemon = daemon("");
    let spec = provision(&daemon, &daemon.at("cache"), &disk.file("capacity"));
    let load = Load::start(spec.clone());
    wait_for_check(&daemon, "capacity_failing");
    thread::sleep(Duration::from_secs(1));
    load.assert_running(&daemon);
    // The write buffer takes what it has room for. What is said then lasts until somebody makes room, so it is no "not ready".
    until("writes are refused", || (daemon.metric(r#"basalt_store_no_space_errors_total{group="g"}"#) > 0).then_some(()));
    thread::sleep(Duration::from_secs(3));
    let (summary, saved) = load.finish(&daemon);
    println!("{summary:?}");
    let refusals = ["Write", "WriteFua", "Zero", "Trim"].map(|op| format!("{op}: CAPACITY_EXCEEDED"));
    assert_errors_are(&summary, &refusals.each_ref().map(String::as_str), &daemon);
    assert!(!summary.errors.is_empty());
    let logged = |words: &str| daemon.log().lines().filter(|l| l.contains(words)).count();
    assert_eq!((logged("cannot be moved to capacity"), logged("writes fail")), (1, 1), "once for both shards");
    disk.grow();
    let saved = until_all_is_well(&spec, saved, &daemon);
    until("the check is gone", || (!reports(&daemon, "capacity_failing")).then_some(()));
    daemon.kill_and_start();
    let (summary, _) = read_back(&spec, saved, &daemon);
    assert_clean(&summary, &daemon);
    daemon.stop();
}

#[test]
fn a_full_disk_beneath_a_sparse_write_buffer_is_reported_and_heals_with_a_restart() {
    let Some(disk) = SmallDisk::new(SMALL_BYTES) else { return };
    let mut daemon = daemon("");
    let spec = provision(&daemon, &disk.file("cache"), &daemon.at("capacity"));
    let load = Load::start(spec.clone());
    wait_for_check(&daemon, "cache_failed");
    thread::sleep(Duration::from_millis(500));
    load.assert_running(&daemon);
    let (summary, saved) = load.finish(&daemon);
    println!("{summary:?}");
    assert_errors_are(&summary, &["Write: ", "WriteFua: ", "Zero: ", "Trim: ", "Flush: "], &daemon);
    disk.grow();
    daemon.kill_and_start();
    let (summary, _) = more(&spec, saved, 2000, &daemon);
    assert_clean(&summary, &daemon);
    assert!(!reports(&daemon, "cache_failed"));
    daemon.stop();
}

#[test]
fn a_capacity_file_that_is_cut_fails_reads_of_what_was_there_and_writes_heal_them() {
    let mut daemon = daemon("");
    let spec = on_files(&daemon);
    let load = Load::start(spec.clone());
    until("half of the volume is on capacity", || {
        daemon.json("volume show v")["used_bytes"].as_u64().filter(|used| *used > VOLUME_BYTES / 2)
    });
    // The superblock and the tables stay: what is lost is data.
    let file = File::options().write(true).open(daemon.path("capacity")).expect("the file is there");
    file.set_len(64 << 20).expect("it is cut");
    thread::sleep(Duration::from_secs(1));
    file.set_len(512 << 20).expect("it is long again, with holes");
    thread::sleep(Duration::from_secs(1));
    load.assert_running(&daemon);
    let (summary, saved) = load.finish(&daemon);
    println!("{summary:?}");
    assert_errors_are(&summary, &["Read: UNRECOVERED_READ_ERROR"], &daemon);
    assert!(reports(&daemon, "media_errors"));
    // All is written again, and then all reads.
    drop(saved);
    let controller = Controller::connect(spec.target.clone()).expect("it serves");
    let mut queue = controller.open_queue(1, 8, controller.namespace(1).expect("the volume")).expect("a queue");
    for offset in (0..VOLUME_BYTES).step_by(64 << 20) {
        queue.write_zeroes(offset, 64 << 20, false).expect("it can be written");
    }
    drop((queue, controller));
    let load = Load::start(LoadSpec { stop: Default::default(), ..spec.clone() });
    thread::sleep(Duration::from_secs(1));
    let (summary, saved) = load.finish(&daemon);
    assert_clean(&summary, &daemon);
    daemon.kill_and_start();
    let (summary, _) = read_back(&spec, saved, &daemon);
    assert_clean(&summary, &daemon);
}

#[test]
fn another_file_in_place_of_a_device_is_refused_after_a_restart_and_left_as_it_is() {
    let mut daemon = daemon("");
    let spec = on_files(&daemon);
    let load = Load::start(spec.clone());
    thread::sleep(Duration::from_millis(500));
    // While it runs it has the file, whatever the name says.
    fs::rename(daemon.path("capacity"), daemon.path("away")).expect("it is moved");
    let other = File::create_new(daemon.path("capacity")).expect("another takes its place");
    other.set_len(512 << 20).expect("it has the same size");
    other.write_all_at(b"somebody's", 8 << 20).expect("and content");
    thread::sleep(Duration::from_millis(700));
    let (summary, saved) = load.finish(&daemon);
    assert_clean(&summary, &daemon);

    daemon.kill_and_start();
    let reported = daemon.ok("status");
    assert!(reported.contains("health: ERROR") && reported.contains("capacity"), "{reported}");
    let controller = Controller::connect(spec.target.clone()).expect("hosts keep their connections");
    let mut queue = controller.open_queue(1, 8, controller.namespace(1).expect("the namespace stays")).expect("a queue");
    assert_eq!(status(queue.read(0, 4096)), StatusCode::NAMESPACE_NOT_READY);
    assert_eq!(status(queue.write(0, vec![1; 4096], false)), StatusCode::NAMESPACE_NOT_READY);
    drop((queue, controller));
    let blocks = std::os::unix::fs::MetadataExt::blocks(&other.metadata().expect("it is there"));
    let mut content = [0; 10];
    other.read_exact_at(&mut content, 8 << 20).expect("it reads");
    assert!(&content == b"somebody's" && blocks <= 64, "the other file was written to: {blocks} sectors");

    // The right one is back.
    fs::rename(daemon.path("away"), daemon.path("capacity")).expect("it is moved back");
    daemon.kill_and_start();
    let (summary, saved) = more(&spec, saved, 500, &daemon);
    assert_clean(&summary, &daemon);

    // And the same with none at all.
    daemon.stop();
    fs::rename(daemon.path("capacity"), daemon.path("away")).expect("it is moved");
    daemon.start();
    let reported = daemon.ok("status");
    assert!(reported.contains("health: ERROR") && !daemon.path("capacity").exists(), "{reported}");
    fs::rename(daemon.path("away"), daemon.path("capacity")).expect("it is moved back");
    daemon.kill_and_start();
    let (summary, _) = read_back(&spec, saved, &daemon);
    assert_clean(&summary, &daemon);
}

#[test]
fn without_descriptors_nobody_new_comes_in_and_those_who_are_in_are_served() {
    let mut daemon = daemon("");
    daemon.stop();
    daemon.spawn(daemon.serve_under("ulimit -n 1024"));
    daemon.wait_ready();
    let spec = on_files(&daemon);
    let load = Load::start(spec.clone());
    thread::sleep(Duration::from_millis(300));
    // Hosts that all behave, until one finds no place.
    let mut open = Vec::new();
    let all = (0..64).flat_map(|host| (1..=20).map(move |qid| (HostIdentity::numbered(100 + host), qid)));
    let mut owner = 0;
    for (host, qid) in all {
        let to = &spec.target;
        if qid == 1 {
            match RawClient::ready_admin(to.addr, &to.subnqn, &host, Digests::default()) {
                Ok((admin, cntlid)) => (owner, _) = (cntlid, open.push(admin)),
                Err(_) => break,
            }
        }
        match RawClient::ready_io(to.addr, &to.subnqn, &host, owner, qid, Digests::default()) {
            Ok(queue) => open.push(queue),
            Err(_) => break,
        }
    }
    println!("{} connections", open.len());
    assert!((700..1024).contains(&open.len()), "descriptors run out: {} connections", open.len());
    thread::sleep(Duration::from_millis(500));
    load.assert_running(&daemon);
    daemon.ok("status");
    daemon.ok("volume create another --size 16MiB");
    open.truncate(100);
    until("there is room again", || let_in(ControllerOptions { host: HostIdentity::numbered(9), ..spec.target.clone() }).ok());
    let (summary, _) = load.finish(&daemon);
    println!("{summary:?}");
    assert_clean(&summary, &daemon);
    assert_eq!(summary.reconnects, 0, "who was in stays in");
    daemon.stop();
}

#[test]
fn with_little_memory_commands_wait_and_nothing_fails() {
    let mut daemon = daemon("[target]\nmemory_mib = 32\nhost_memory_mib = 16");
    daemon.stop();
    daemon.spawn(daemon.serve_under("ulimit -v 786432"));
    daemon.wait_ready();
    let spec = on_files(&daemon);
    // Two hosts with far more under way than there is memory for.
    let heavy = |host| {
        let target = ControllerOptions { host: HostIdentity::numbered(host), in_capsule_bytes: Some(0), ..spec.target.clone() };
        let half = VOLUME_BYTES / 2;
        LoadSpec {
            offset: (host - 1) * half,
            bytes: Some(half),
            queues: 4,
            depth: 64,
            sizes: vec![(64 << 10, 1), (256 << 10, 1), (1 << 20, 2)],
            stop: Default::default(),
            ..LoadSpec { target, ..spec.clone() }
        }
    };
    let loads = [Load::start(heavy(1)), Load::start(heavy(2))];
    thread::sleep(Duration::from_secs(4));
    loads.iter().for_each(|load| load.assert_running(&daemon));
    for load in loads {
        let (summary, _) = load.finish(&daemon);
        println!("{summary:?}");
        assert_clean(&summary, &daemon);
        assert!(summary.reconnects == 0 && summary.bytes_written > 0);
    }
    daemon.stop();
}
