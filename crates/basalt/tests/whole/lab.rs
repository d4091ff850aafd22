//! `basalt lab` as its users meet it: runs against a daemon and on files, what is kept of them, and bad input.

use crate::harness::networks::{Networks, has_own_network, in_own_network};
use crate::harness::turn::Subject;
use crate::harness::{BASALT, DESTAGE_AT_ONCE, Daemon, Setup, USUAL, ended, until};
use initiator::Controller;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A daemon with a volume of 32 MiB.
fn with_volume() -> Daemon {
    let daemon = Daemon::started(&Setup { more: DESTAGE_AT_ONCE, ..USUAL });
    daemon.group_on_files(2, "512MiB", "1GiB");
    daemon.ok("volume create v --size 32MiB");
    daemon
}

/// A folder and no daemon.
fn alone() -> Daemon {
    Daemon::prepared(&USUAL)
}

/// The one folder of a run in `results`.
fn the_run(daemon: &Daemon, results: &str) -> PathBuf {
    let mut all = fs::read_dir(daemon.path(results)).unwrap();
    let one = all.next().expect("a folder was made").unwrap().path();
    assert!(all.next().is_none(), "one folder");
    one
}

fn record(run: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap()
}

/// Short cases.
const SHORT: &str = "--time 300ms --warm-up 100ms";

#[test]
fn a_profile_runs_against_the_volume_that_is_served_and_is_verified_kept_and_shown() {
    let d = with_volume();
    let results = d.at("results");
    // Long enough for an answer in each case, also where the disk below stands still for a while.
    let run = format!("lab run easy-run --time 2s --warm-up 100ms --prepare random --verify --results {results}");
    let shown = d.json(&run);
    let cases = shown["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for c in cases {
        assert_eq!((c["engine"].as_str(), c["errors"].as_u64()), (Some("nvme-tcp"), Some(0)), "{c}");
        assert!(c["iops"].as_f64().unwrap() > 0.0 && c["target_cores"].is_number(), "{c}");
        let v = &c["verified"];
        let (read, checked) = (c["reads"].as_u64().unwrap(), v["checked"].as_u64().unwrap());
        assert!(checked >= read && v["wrong"] == 0 && v["unknown"] == 0, "{c}");
    }
    let folder = the_run(&d, "results");
    assert_eq!(record(&folder)["state"], "complete");
    for file in ["report.html", "report.md", "report.json"] {
        assert!(fs::metadata(folder.join(file)).unwrap().len() > 1000, "{file}");
    }
    let html = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(html.contains("blocks verified, none wrong"));
    let (list, at) = (d.ok(&format!("lab list --results {results}")), folder.display());
    assert!(list.contains("easy-run") && list.contains("complete"), "{list}");
    assert_eq!(d.json(&format!("lab list --results {results}"))[0]["run"]["title"], "easy-run");
    let text = d.ok(&format!("lab show {at}"));
    assert!(text.contains("4k-70-30") && text.contains("BLOCKS VERIFIED") && text.contains("each held what was written there"), "{text}");
    fs::remove_file(folder.join("report.html")).unwrap();
    assert!(d.ok(&format!("lab report {at}")).contains("report.html") && folder.join("report.html").exists());
    assert_eq!(d.json(&format!("lab show {at}"))["cases"], shown["cases"]);
    // What the run wrote is data now: the next run asks before it is destroyed.
    let reported = d.fails(&format!("lab run easy-run {SHORT} --results {}", d.at("second")), 5);
    assert!(reported.contains("--destroy") && reported.contains("not zero") && !d.path("second").exists(), "{reported}");
    let only_reads = format!("lab run four-corners:4k-random-read {SHORT} --results {}", d.at("third"));
    d.ok(&only_reads);
}

/// What a target refuses is named as the answer to that command, and what is not there beside what is.
#[test]
fn a_wrong_nqn_and_a_wrong_namespace_are_called_so() {
    let d = with_volume();
    let run = |path: &str| format!("lab run four-corners:4k-random-read nvme-tcp://{}/{path} {SHORT} --results {}", d.addr(), d.at("r"));
    let said = d.fails(&run("nqn.2026-11.io.basalt:none"), 5);
    assert!(said.contains("CONNECT_INVALID_PARAMETERS") && said.contains("check the NQN") && !said.contains("READ_ONLY"), "{said}");
    for nsid in [7, 4_000_000_000_u32] {
        let said = d.fails(&run(&format!("nqn.2026-11.io.basalt:default?nsid={nsid}")), 5);
        assert!(said.contains(&format!("no namespace {nsid}")) && said.contains("there are: 1"), "{said}");
    }
}

#[test]
fn bad_input_is_reported_with_its_exit_status_and_harms_nothing() {
    let d = alone();
    let (results, disk) = (d.at("results"), d.at("disk"));
    let run = |what: &str| format!("lab run {what} --results {results}");
    // No daemon, no disk.
    d.fails(&run("easy-run"), 3);
    // Nonsense.
    for (what, words) in [
        ("no-such-profile disk", "no-such-profile"),
        ("easy-run:no-such-case disk", "4k-70-30"),
        (&format!("easy-run {disk}:16MiB --time 0s"), "0.01"),
        (&format!("easy-run {disk}:16MiB --time -5s"), "not below 0"),
        (&format!("easy-run {disk}:16MiB --depth 0"), "1 to 1024"),
        (&format!("easy-run {disk}:16MiB --working-set 200"), "working set"),
        (&format!("easy-run {disk}:16MiB --workers 1000"), "1 to 64"),
    ] {
        let reported = d.fails(&run(what), 2);
        assert!(reported.contains(words), "{what}: {reported}");
    }
    // A workload that is larger than its disk; one that cannot be verified.
    fs::write(d.path("big.toml"), workload("sizes = [{ bytes = 4194304 }]", "")).unwrap();
    let reported = d.fails(&run(&format!("{} {disk}:2MiB", d.at("big.toml"))), 5);
    assert!(reported.contains("does not fit") && reported.contains("larger disk"), "{reported}");
    fs::write(d.path("odd.toml"), workload("sizes = [{ bytes = 4096 }]", "verify = true\ndata = { compressible = 0.5 }")).unwrap();
    let reported = d.fails(&run(&format!("{} {disk}:2MiB", d.at("odd.toml"))), 2);
    assert!(reported.contains("verify") && reported.contains("compressible"), "{reported}");
    // What holds data, and what is not there.
    fs::write(d.path("photos"), vec![7; 16 << 20]).unwrap();
    let reported = d.fails(&run(&format!("easy-run {} {SHORT}", d.at("photos"))), 5);
    assert!(reported.contains("photos") && reported.contains("--destroy"), "{reported}");
    assert!(fs::read(d.path("photos")).unwrap().iter().all(|&b| b == 7));
    let reported = d.fails(&run(&format!("easy-run {} {SHORT}", d.at("none"))), 5);
    assert!(reported.contains("nothing at this path"), "{reported}");
    // A file that has no room on its file system.
    let reported = d.fails(&run(&format!("easy-run {}:8PiB {SHORT}", d.at("huge"))), 5);
    assert!(reported.contains("its file system has ") && reported.contains("8 PiB are needed") && !d.path("huge").exists(), "{reported}");
    assert!(!d.path("results").exists(), "no folder was made");
    // Folders that are not ours.
    fs::create_dir(d.path("holiday")).unwrap();
    fs::write(d.path("holiday/run.json"), "{}").unwrap();
    for command in ["show", "report", "resume"] {
        let reported = d.fails(&format!("lab {command} {}", d.at("holiday")), 4);
        assert!(reported.contains("run.json") && reported.contains("no file of the lab"), "{reported}");
        assert!(d.fails(&format!("lab {command} {}", d.at("nowhere")), 4).contains("no such folder"));
    }
    assert_eq!(fs::read_dir(d.path("holiday")).unwrap().count(), 1, "nothing is written there");
    // An import never writes over a file.
    fs::write(d.path("job.fio"), "[global]\nbs=4k\nrw=randread\n[a]\niodepth=4\nsize=100%\n").unwrap();
    let import = format!("lab import {} --out {}", d.at("job.fio"), d.at("job.toml"));
    d.ok(&import);
    let (reported, kept) = (d.fails(&import, 5), fs::read(d.path("job.toml")).unwrap());
    assert!(reported.contains("already"), "{reported}");
    d.ok(&run(&format!("{} {disk}.new:16MiB --unwritten {SHORT}", d.at("job.toml"))));
    assert_eq!(fs::read(d.path("job.toml")).unwrap(), kept);
}

/// The TOML of a workload.
fn workload(sizes: &str, more: &str) -> String {
    format!("name = \"w\"\n{more}\n[[streams]]\n{sizes}\nreads = 0.5\naccess = {{ pattern = \"random\" }}\n")
}

/// A run that goes on until something happens.
struct Long(Child);

impl Long {
    fn start(d: &Daemon, line: &str) -> Long {
        let mut command = Command::new(BASALT);
        command.arg("--api").arg(d.path("data/api.sock")).args(line.split_whitespace()).stdin(Stdio::null());
        Long(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the lab starts"))
    }
    /// Its exit status and what it reported.
    fn end(mut self) -> (Option<i32>, String) {
        let mut stderr = self.0.stderr.take().expect("a pipe");
        let status = ended(self.0);
        let mut reported = String::new();
        stderr.read_to_string(&mut reported).expect("text");
        (status.code(), reported)
    }
}

/// Waits until the second case runs: the first is kept.
fn second_case_runs(d: &Daemon) {
    until("the first case is kept", || {
        let run = fs::read_dir(d.path("results")).ok()?.next()?.ok()?.path();
        run.join("case-000.json").exists().then_some(())
    });
}

#[test]
fn a_target_that_vanishes_in_mid_run_costs_the_case_and_the_run_can_go_on() {
    let mut d = Daemon::kept(Subject::Light, "");
    d.group_on_files(2, "512MiB", "1GiB");
    d.ok("volume create v --size 32MiB");
    let results = d.at("results");
    let long = Long::start(&d, &format!("lab run easy-run --unwritten --time 3s --warm-up 0s --workers 1 --results {results}"));
    second_case_runs(&d);
    until("its queue is open beside the admin queue", || (d.metric("basalt_frontend_open_connections") >= 2).then_some(()));
    d.kill();
    let (code, reported) = long.end();
    // 5: it vanished while the case connected.
    assert!(matches!(code, Some(1 | 5)), "{code:?}: {reported}");
    assert!(reported.contains("go on with: basalt lab resume"), "{reported}");
    let run = the_run(&d, "results");
    assert_eq!(record(&run)["state"], "interrupted");
    let first = fs::read(run.join("case-000.json")).unwrap();
    d.start();
    let reported = d.fails(&format!("lab resume {}", run.display()), 5);
    assert!(reported.contains("--destroy"), "{reported}");
    d.ok(&format!("lab resume {} --destroy", run.display()));
    assert_eq!(record(&run)["state"], "complete");
    assert_eq!(fs::read(run.join("case-000.json")).unwrap(), first, "what was measured stays");
    assert!(run.join("case-003.json").exists() && run.join("report.html").exists());
}

#[test]
fn ctrl_c_and_sigterm_end_a_run_in_order() {
    for signal in ["-INT", "-TERM"] {
        let d = alone();
        let long = Long::start(
            &d,
            &format!("lab run easy-run {}:16MiB --unwritten --time 2s --warm-up 0s --results {}", d.at("disk"), d.at("results")),
        );
        second_case_runs(&d);
        let sent = Command::new("kill").args([signal, &long.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let (code, reported) = long.end();
        assert_eq!(code, Some(1), "{signal}: {reported}");
        assert!(reported.contains("stopped") && reported.contains("basalt lab resume"), "{signal}: {reported}");
        assert_eq!(record(&the_run(&d, "results"))["state"], "interrupted", "{signal}");
    }
}

#[test]
fn wrong_data_ends_a_run_with_a_status_of_its_own() {
    let d = alone();
    let (results, disk) = (d.at("results"), format!("{}:16MiB", d.at("disk")));
    // Somebody else writes to the disk while it is measured.
    let read = format!("lab run four-corners:4k-random-read {disk} --prepare random --verify --time 60s --warm-up 0s --results {results}");
    let long = Long::start(&d, &read);
    prepared(&d);
    let file = fs::File::options().write(true).open(d.path("disk")).unwrap();
    let (begun, all) = (std::time::Instant::now(), vec![0xA5; 8 << 20]);
    let mut long = long;
    while long.0.try_wait().unwrap().is_none() && begun.elapsed() < crate::harness::PATIENCE {
        std::os::unix::fs::FileExt::write_all_at(&file, &all, 4 << 20).unwrap();
        file.sync_all().unwrap();
    }
    let (code, reported) = long.end();
    assert_eq!(code, Some(6), "{reported}");
    assert!(reported.contains("wrong data in the 4 KiB block at byte"), "{reported}");
    let run = the_run(&d, "results");
    assert!(record(&run)["verdict"][0].as_str().unwrap().starts_with("WRONG DATA"));
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains("WRONG DATA"));
}

#[test]
fn wrong_data_on_a_volume_is_found_over_the_network() {
    let d = with_volume();
    let run = format!(
        "lab run four-corners:4k-random-read --prepare random --destroy --verify --time 60s --warm-up 0s --results {}",
        d.at("results")
    );
    // Another host writes where the run reads, as a storage would that mixes up addresses.
    let controller = Controller::connect(d.options()).unwrap();
    let mut queue = controller.open_queue(1, 8, controller.namespace(1).unwrap()).unwrap();
    let mut long = Long::start(&d, &run);
    until("wrong data ends the run", || {
        queue.write(8 << 20, vec![0xA5; 128 << 10], false).unwrap();
        long.0.try_wait().unwrap()
    });
    let (code, reported) = long.end();
    assert_eq!(code, Some(6), "{reported}");
    assert!(reported.contains("nvme-tcp: nvme-tcp://127.0.0.1:") && reported.contains("corrupted or foreign data"), "{reported}");
    let verdict = record(&the_run(&d, "results"))["verdict"][0].as_str().unwrap().to_owned();
    assert!(verdict.starts_with("WRONG DATA: ") && verdict.contains("in the 4 KiB block at byte 8"), "{verdict}");
}

/// Waits until the first case of a run on the file `disk` may run: it is prepared, which is when no block of it is zero.
fn prepared(d: &Daemon) {
    until("the disk is prepared", || {
        let run = fs::read_dir(d.path("results")).ok()?.next()?.ok()?.path();
        let written = fs::read(d.path("disk")).ok()?.chunks(4096).all(|b| b.iter().any(|&x| x != 0));
        (written && run.join("run.json").exists()).then_some(())
    });
}

#[test]
fn a_run_with_failed_operations_ends_with_a_status_of_its_own() {
    let d = alone();
    let (results, disk) = (d.at("results"), format!("{}:16MiB", d.at("disk")));
    let line = format!("lab run four-corners:4k-random-read {disk} --prepare random --time 6s --warm-up 0s --results {results}");
    let long = Long::start(&d, &line);
    prepared(&d);
    // A quarter of the disk is not there any more.
    fs::File::options().write(true).open(d.path("disk")).unwrap().set_len(12 << 20).unwrap();
    let (code, reported) = long.end();
    assert_eq!(code, Some(8), "{reported}");
    assert!(reported.contains(" operations failed, ") && reported.contains("ended well"), "{reported}");
    let run = the_run(&d, "results");
    let (record, case) = (record(&run), fs::read_to_string(run.join("case-000.json")).expect("the case is kept"));
    assert_eq!(record["state"], "complete");
    let first = record["verdict"][0].as_str().unwrap();
    assert!(first.contains(" operations failed (") && first.contains("The first operation that failed: "), "{first}");
    let case: serde_json::Value = serde_json::from_str(&case).unwrap();
    assert!(case["reads"]["errors"].as_u64() > Some(0) && case["cut_short"] == false, "{}", case["notes"]);
}

#[test]
fn too_many_failed_operations_end_a_case_of_an_hour() {
    let d = alone();
    let (results, disk) = (d.at("results"), format!("{}:16MiB", d.at("disk")));
    let line =
        format!("lab run four-corners:4k-random-read {disk} --prepare random --errors-max 5 --time 3600s --warm-up 0s --results {results}");
    let long = Long::start(&d, &line);
    prepared(&d);
    fs::File::options().write(true).open(d.path("disk")).unwrap().set_len(12 << 20).unwrap();
    let (code, reported) = long.end();
    assert_eq!(code, Some(8), "{reported}");
    assert!(reported.contains("at most 5 may (--errors-max)"), "{reported}");
    let run = the_run(&d, "results");
    assert!(!run.join("case-000.json").exists());
    let partial: serde_json::Value = serde_json::from_slice(&fs::read(run.join("partial-000.json")).expect("what there is of it")).unwrap();
    assert!(partial["reads"]["errors"].as_u64() > Some(5) && partial["cut_short"] == true, "{}", partial["notes"]);
    let record = record(&run);
    assert_eq!(record["state"], "interrupted");
    assert!(record["verdict"][0].as_str().unwrap().starts_with("The run was ended: "), "{}", record["verdict"]);
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains("at most 5 may"));
}

#[test]
fn a_search_finds_a_load_and_says_what_it_keeps() {
    let d = alone();
    let results = d.at("results");
    let search = format!("lab search random-8k:8k-random-read {}:16MiB --prepare random --warm-up 0s --results {results}", d.at("disk"));
    let reported = d.fails(&search, 2);
    assert!(reported.contains("--p99"), "{reported}");
    assert!(!d.path("results").exists());
    // So long a bound on the mean that what a disk delivers it keeps, however slow it is.
    let shown = d.json(&format!("{search} --mean 30s --unit 5 --time 500ms"));
    let units: Vec<&str> = shown["cases"].as_array().unwrap().iter().map(|c| c["labels"][0][1].as_str().unwrap()).collect();
    assert!(units.len() > 1 && units[0] == "ceiling" && units[1..].iter().all(|u| u.parse::<u64>().is_ok()), "{units:?}");
    let run = the_run(&d, "results");
    let verdict = record(&run)["verdict"].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let found =
        verdict.iter().find(|v| v.starts_with("8k-random-read: ") && v.contains("a mean response time of 30,000")).expect("a sentence");
    assert!(found.contains(" units of 5 IOPS keep ") || found.contains("not one load that was tried keeps"), "{found}");
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains("a mean response time of 30,000"));
    // p99 of few operations is not known, and no load is said to keep a bound on it.
    let few = format!("{} --depth 1 --working-set 1MiB", search.replace(&results, &d.at("few")).replace(":16MiB --prepare random", ""));
    let shown = d.json(&format!("{few} --p99 30s --unit 1 --time 20ms"));
    if shown["cases"].as_array().unwrap().iter().all(|c| c["reads"].as_u64().unwrap() < 1000) {
        let verdict = record(&the_run(&d, "few"))["verdict"].to_string();
        assert!(!verdict.contains(" IOPS keep "), "{verdict}");
    }
}

/// What the recorded figures of a run say of its machine: whether anything of them is to be called busy (docs/lab.md has the limits).
fn is_busy(noise: &serde_json::Value) -> bool {
    let figure = |key: &str| noise[key].as_f64().unwrap_or(0.0);
    let all = figure("processors");
    let others = figure("others") > (0.1 * all).min(2.0) && noise["with_target"] == false;
    let load = noise["at_rest"] == true && figure("load") > (0.25 * all).clamp(1.0, 4.0);
    figure("seconds") >= 0.2 && (others || load || figure("steal") > 0.02 * all)
}

/// A run on a file: its verdict, and what its figures say of the machine.
fn run_here(d: &Daemon, results: &str) -> (Vec<String>, Vec<serde_json::Value>) {
    d.ok(&format!(
        "lab run four-corners:4k-random-read {}:16MiB --prepare random --time 1500ms --warm-up 0s --results {}",
        d.at("disk"),
        d.at(results)
    ));
    let run = the_run(d, results);
    let record = record(&run);
    let case: serde_json::Value = serde_json::from_slice(&fs::read(run.join("case-000.json")).unwrap()).unwrap();
    let noise = record["noise"].as_array().unwrap().iter().chain([&case["noise"]]).cloned().collect();
    (record["verdict"].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect(), noise)
}

/// Ends threads that wait for it, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_verdict_begins_with_a_machine_that_is_busy_and_says_nothing_of_a_quiet_one() {
    let d = alone();
    let said = |verdict: &[String]| verdict.iter().position(|v| v.starts_with("The machine was busy with other things "));
    // As the machine is now: what is said follows from what was recorded.
    let (verdict, noise) = run_here(&d, "as-it-is");
    assert_eq!(noise.len(), 3, "before, in and after the case");
    assert_eq!(said(&verdict).is_some(), noise.iter().any(is_busy), "{verdict:?} {noise:?}");
    // And loaded on purpose, by this process, which is not the lab's.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, threads_of) = (&stop, std::thread::available_parallelism());
        for _ in 0..threads_of.map_or(2, |n| n.get()) {
            scope.spawn(move || while !stop.load(Relaxed) {});
        }
        let stop = Stop(stop);
        let mut tries = 0;
        let (verdict, noise) = loop {
            tries += 1;
            let (verdict, noise) = run_here(&d, &format!("loaded-{tries}"));
            // Others may have had the processors meanwhile, and this process none.
            if noise.iter().all(is_busy) || tries == 5 {
                break (verdict, noise);
            }
        };
        drop(stop);
        assert!(noise.iter().any(is_busy), "processors that this test kept busy are not seen: {noise:?}");
        assert_eq!(said(&verdict), Some(0), "{verdict:?}");
        if noise.iter().all(is_busy) {
            assert!(verdict[0].contains("in every case") && verdict[0].contains("other processes used"), "{}", verdict[0]);
        }
    });
}

#[test]
fn the_machine_of_a_target_elsewhere_is_looked_at_through_the_api_of_its_daemon() {
    if in_own_network("lab::the_machine_of_a_target_elsewhere_is_looked_at_through_the_api_of_its_daemon") || !has_own_network() {
        return;
    }
    let networks = Networks::of(1);
    let place = networks.place(0);
    let (secrets, token) = (tempfile::tempdir().unwrap(), "5".repeat(64));
    let file = secrets.path().join("token");
    fs::write(&file, &token).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let api = format!("[api]\nlisten = \"{}:7780\"\ntoken_file = {file:?}\n", place.address);
    let d = Daemon::kept_at(Some(place), Subject::Light, &api);
    d.group_on_files(2, "512MiB", "1GiB");
    d.ok("volume create v --size 32MiB");
    let nqn = d.json("subsystem list")[0]["nqn"].as_str().unwrap().to_owned();
    let run = |results: &str| {
        let disk = format!("nvme-tcp://{}/{nqn}?nsid=1", d.addr());
        format!("lab run four-corners:4k-random-read {disk} --time 1s --warm-up 0s --results {}", d.at(results))
    };
    let mut command = Command::new(BASALT);
    command.args(["--api", &format!("http://{}:7780", place.address)]).env("BASALT_TOKEN", &token).stdin(Stdio::null());
    let output = command.args(run("asked").split(' ')).args(["--prepare", "random"]).output().expect("the lab runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = |results: &str| {
        let run = the_run(&d, results);
        let case: serde_json::Value = serde_json::from_slice(&fs::read(run.join("case-000.json")).unwrap()).unwrap();
        (record(&run), case)
    };
    let (record, case) = kept("asked");
    let around = record["target_noise"].as_array().expect("before and after the case");
    assert_eq!((around.len(), &around[0]["at_rest"], &around[1]["at_rest"]), (2, &true.into(), &false.into()));
    assert!(case["target_noise"]["processors"].as_u64() > Some(0) && case["noise"].is_object(), "{case}");
    let busy = around.iter().chain([&case["target_noise"]]).any(is_busy);
    let said = record["verdict"].as_array().unwrap().iter().any(|v| v.as_str().unwrap().starts_with("The machine of the target was busy"));
    assert_eq!(said, busy, "{} {}", record["verdict"], record["target_noise"]);
    // The daemon behind a socket here is not what a disk elsewhere leads to, as far as the lab knows.
    d.ok(&run("not-asked"));
    let (record, case) = kept("not-asked");
    assert!(record.get("target_noise").is_none() && case.get("target_noise").is_none() && case["target_cpu_s"].is_null(), "{record}");
}
