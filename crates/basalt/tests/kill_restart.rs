//! The daemon is killed with -9 at random moments under verified load, also while it recovers: nothing that was acknowledged is lost,
//! nothing that a read has shown goes back, and service returns by itself.
//!
//! `BASALT_KILLS` sets how often (default 5), `BASALT_SEED` the moments and the load (default: of the clock; printed).
//! Every process that this starts is ended by its id, also when it fails.
#![allow(clippy::disallowed_methods)] // real processes, real time

use initiator::discovery::discover;
use initiator::rng::Rng;
use initiator::verify::{self, LoadSpec, LoadSummary, file};
use initiator::{Controller, ControllerOptions, Digests};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
/// Bound on a start of the daemon, and on an end after SIGTERM.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(60);
/// Bound on the time without a connection.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
const VOLUME_BYTES: u64 = 128 << 20;

/// A daemon with a folder of its own. Ends its process when dropped.
struct Daemon {
    dir: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Daemon {
    fn new(rng: &mut Rng) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let port = free_port(rng);
        let data = dir.path().join("data");
        let config = format!(
            "data_dir = {data:?}\n[host]\nname = \"kill-test\"\n[cores]\ncount = 2\npin = false\n\
             [[listeners]]\naddr = \"127.0.0.1:{port}\"\nkind = \"io\"\n\
             # Destaging begins at once, so that capacity is at work when the end comes.\n\
             [store]\ndestage_low_percent = 1\ndestage_high_percent = 50\n"
        );
        fs::write(dir.path().join("basalt.toml"), config).expect("the configuration is written");
        Self { dir, port, child: None }
    }
    fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the process, no more.
    fn spawn(&mut self) {
        assert!(self.child.is_none(), "one daemon at a time");
        let log = File::options().create(true).append(true).open(self.path("log")).expect("the log opens");
        let child = Command::new(BASALT)
            .args(["serve", "--config"])
            .arg(self.path("basalt.toml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the daemon starts"));
    }
    /// Waits until it answers.
    fn wait_ready(&mut self) {
        let deadline = Instant::now() + DAEMON_TIMEOUT;
        while !self.cli(&["status"]).status.success() {
            let ended = self.child.as_mut().and_then(|c| c.try_wait().expect("its state is known"));
            assert!(ended.is_none(), "the daemon ended by itself ({ended:?}):\n{}", self.log_tail());
            assert!(Instant::now() < deadline, "the daemon does not serve after {DAEMON_TIMEOUT:?}:\n{}", self.log_tail());
            thread::sleep(Duration::from_millis(20));
        }
    }
    fn start(&mut self) {
        self.spawn();
        self.wait_ready();
    }
    /// kill -9.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill -9");
            let status = child.wait().expect("it is reaped");
            assert!(status.code().is_none(), "the daemon had ended by itself before the kill, with {status}:\n{}", self.log_tail());
        }
    }
    /// SIGTERM: it has to end by itself.
    fn stop(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "SIGTERM is sent");
        let deadline = Instant::now() + DAEMON_TIMEOUT;
        loop {
            if let Some(status) = child.try_wait().expect("its state is known") {
                return status;
            }
            if Instant::now() > deadline {
                child.kill().expect("kill -9");
                child.wait().expect("it is reaped");
                panic!("the daemon has not ended {DAEMON_TIMEOUT:?} after SIGTERM:\n{}", self.log_tail());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn cli(&self, args: &[&str]) -> Output {
        Command::new(BASALT).arg("--socket").arg(self.path("data/api.sock")).args(args).stdin(Stdio::null()).output().expect("the CLI runs")
    }
    fn must(&self, args: &[&str]) {
        let out = self.cli(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "basalt {} failed: {said}\n{}", args.join(" "), self.log_tail());
    }
    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("--- the daemon's log ends:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"))
    }

    /// A disk group on two files and a volume, with `lba` bytes a block. Gives what to connect to.
    fn provision(&self, lba: u32) -> ControllerOptions {
        let (cache, capacity) = (format!("{}:256MiB", self.path("cache").display()), format!("{}:512MiB", self.path("capacity").display()));
        self.must(&["group", "create", "g", "--shards", "4", "--cache", &cache, "--capacity", &capacity]);
        self.must(&["volume", "create", "v", "--size", &VOLUME_BYTES.to_string(), "--lba", &lba.to_string()]);
        let mut options = ControllerOptions::new(self.addr(), "");
        let records = discover(&options).expect("discovery on the I/O port");
        options.subnqn = records.into_iter().find(|r| r.is_nvm).expect("discovery shows the subsystem").nqn;
        options
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nothing listens on, below those that the kernel deals out to others.
fn free_port(rng: &mut Rng) -> u16 {
    (0..1000)
        .map(|_| 20_000 + rng.below(12_000) as u16)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .expect("one port of 1000 is free")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is '{text}', which is no number")))
}

fn seed() -> u64 {
    let seed = number("BASALT_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64 % 1_000_000_007));
    println!("BASALT_SEED={seed}");
    seed
}

/// A load on a thread of its own.
struct Running {
    stop: Arc<AtomicBool>,
    result: mpsc::Receiver<Result<(LoadSummary, file::Saved), verify::LoadError>>,
}

impl Running {
    fn start(spec: LoadSpec) -> Self {
        let (stop, (sender, result)) = (spec.stop.clone(), mpsc::channel());
        thread::spawn(move || {
            // Nobody listens any more when the test has failed.
            let _ = sender.send(verify::run(spec, |_| ()));
        });
        Self { stop, result }
    }
    fn finish(self, daemon: &Daemon) -> (LoadSummary, file::Saved) {
        self.stop.store(true, Ordering::Release);
        let result = self.result.recv_timeout(Duration::from_secs(300)).expect("the load ends");
        result.unwrap_or_else(|e| panic!("the load failed: {e}\n{}", daemon.log_tail()))
    }
    fn assert_running(&self, daemon: &Daemon) {
        if let Ok(ended) = self.result.try_recv() {
            panic!("the load ended early: {:?}\n{}", ended.map(|(summary, _)| summary), daemon.log_tail());
        }
    }
}

fn assert_clean(summary: &LoadSummary, daemon: &Daemon) {
    let wrong: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
    assert!(
        summary.is_clean(),
        "{} wrong units, errors {:?}\n{}\n{}",
        summary.mismatches,
        summary.errors,
        wrong.join("\n"),
        daemon.log_tail()
    );
}

/// Kills at random moments; one in four strikes while the daemon recovers from the last.
fn kill_often(daemon: &mut Daemon, rng: &mut Rng, kills: u64, load: &Running) {
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(100 + rng.below(1400)));
        load.assert_running(daemon);
        daemon.kill();
        if rng.percent(25) {
            daemon.spawn();
            thread::sleep(Duration::from_millis(rng.below(150)));
            daemon.kill();
        }
        daemon.start();
    }
}

fn kill_and_verify(lba: u32, digests: Digests, kills: u64) {
    let seed = seed();
    let mut rng = Rng::new(seed);
    let mut daemon = Daemon::new(&mut rng);
    daemon.start();
    let target = ControllerOptions { digests, ..daemon.provision(lba) };
    let nsid = Controller::connect(target.clone()).and_then(|c| c.namespaces()).expect("the volume is a namespace")[0];
    let spec = LoadSpec {
        seed,
        depth: 16,
        queues: 2,
        time: Duration::from_secs(24 * 3600),
        reconnect_for: OUTAGE_MAX,
        unit_bytes: (lba == 512).then_some(512),
        ..LoadSpec::new(target.clone(), nsid)
    };
    let load = Running::start(spec);
    kill_often(&mut daemon, &mut rng, kills, &load);
    thread::sleep(Duration::from_millis(300));
    let (summary, saved) = load.finish(&daemon);
    println!("{kills} kills: {summary:?}");
    assert_clean(&summary, &daemon);
    assert!(summary.reconnects > 0 && summary.bytes_written > 0, "the load was under way: {summary:?}");

    // The same after one more kill at rest, and after a clean stop.
    let model = daemon.path("model");
    file::save(&model, &saved).expect("the model is saved");
    for clean in [false, true] {
        if clean {
            let status = daemon.stop();
            assert!(status.success(), "a clean stop ends with {status}:\n{}", daemon.log_tail());
        } else {
            daemon.kill();
        }
        daemon.start();
        let check =
            LoadSpec { ops: Some(0), resume: Some(file::load(&model).expect("the model loads")), ..LoadSpec::new(target.clone(), nsid) };
        let (summary, _) = verify::run(check, |_| ()).expect("the check runs");
        assert!(summary.units_checked > 0);
        assert_clean(&summary, &daemon);
    }
    assert!(daemon.stop().success(), "it stops cleanly at the end");
}

#[test]
fn kills_under_load_lose_nothing() {
    kill_and_verify(4096, Digests { header: false, data: true }, number("BASALT_KILLS").unwrap_or(5));
}

#[test]
fn kills_under_load_of_single_sectors_lose_nothing() {
    kill_and_verify(512, Digests::default(), number("BASALT_KILLS").map_or(3, |n| n.div_ceil(4)));
}
