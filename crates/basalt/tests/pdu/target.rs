//! What cases run against: a daemon of our own with volumes in memory, or another target that is told by the environment.

use crate::case::{ADMIN, Answer};
use crate::run::Run;
use format::nvme::admin::Identify;
use format::nvme::identify::{self as cns, IdentifyController, IdentifyNamespace};
use format::nvme::{Sgl, Sqe};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
const DAEMON_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that each case may write to.
const AREA_BYTES: u64 = 2 << 20;
/// The subsystem that the cases use.
pub const NQN: &str = "nqn.2026-11.io.basalt:cases";
/// A subsystem that no host may connect to.
pub const CLOSED_NQN: &str = "nqn.2026-11.io.basalt:closed";
/// A read-only namespace of the subsystem.
pub const READ_ONLY_NSID: u32 = 2;
/// The namespace that the verified load uses.
pub const LOAD_NSID: u32 = 3;
/// A namespace identifier that may be used but is not.
pub const INACTIVE_NSID: u32 = 1000;

/// The target as cases need to know it.
pub struct Env {
    /// It is ours: every answer is checked to the last bit.
    pub strict: bool,
    /// Its port.
    pub addr: SocketAddr,
    /// The port of its discovery controller.
    pub discovery: SocketAddr,
    /// Its subsystem.
    pub nqn: String,
    /// A writable namespace.
    pub nsid: u32,
    /// log2 of its block size.
    pub shift: u32,
    /// Its blocks.
    pub blocks: u64,
    /// Data that a command capsule may carry, in bytes.
    pub capsule_max: u32,
    /// Data of one command, in bytes.
    pub transfer_max: u32,
    /// Highest namespace ID.
    pub nn: u32,
    number: AtomicU64,
}

impl Env {
    /// Asks a target what it is, with as little as every target knows.
    pub fn probe(addr: SocketAddr, discovery: SocketAddr, nqn: &str, nsid: u32, strict: bool) -> Self {
        let (capsule_max, transfer_max, nn, number) = (8192, 1 << 20, 0, AtomicU64::new(0));
        let mut env =
            Env { strict, addr, discovery, nqn: nqn.to_owned(), nsid, shift: 12, blocks: 1 << 20, capsule_max, transfer_max, nn, number };
        let mut identify = [(cns::CNS_CONTROLLER, 0), (cns::CNS_NAMESPACE, nsid)].into_iter().map(|(cns, nsid)| {
            let mut run = Run::begin(&env, ADMIN, &Rc::default()).expect("an admin queue");
            let sqe = Identify { cns, cntid: 0, nsid, csi: 0, cnssid: 0 }.sqe(0);
            run.conn.command(Sqe { sgl: Sgl::transport(4096), ..sqe }, &[]).expect("Identify is sent");
            run.conn.expect(&Answer::Data(4096)).expect("Identify is answered");
            run.conn.data
        });
        let (controller, namespace) = (identify.next().expect("one"), identify.next().expect("two"));
        drop(identify);
        let controller = IdentifyController::parse(&controller).expect("Identify Controller");
        let namespace = IdentifyNamespace::parse(&namespace).expect("Identify Namespace");
        env.shift = namespace.lba_bytes().expect("a block size").trailing_zeros();
        env.blocks = namespace.nsze;
        env.capsule_max = controller.ioccsz * 16 - 64;
        env.transfer_max = if controller.mdts == 0 { 1 << 20 } else { 4096 << controller.mdts };
        env.nn = controller.nn;
        env
    }
    /// A number for a case.
    pub fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }
    /// Blocks that each case may write to.
    pub fn area_blocks(&self) -> u64 {
        AREA_BYTES >> self.shift
    }
}

/// A daemon with a folder of its own. Ends its process when dropped.
pub struct Daemon {
    dir: TempDir,
    child: Child,
    /// Its I/O port.
    pub io: SocketAddr,
    /// Its discovery port.
    pub discovery: SocketAddr,
}

impl Daemon {
    /// Starts it, with two subsystems and three volumes.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = format!(
            "data_dir = {:?}\n[cores]\ncount = 2\npin = false\n\
             [[listeners]]\naddr = \"127.0.0.1:0\"\nkind = \"io\"\n\
             [[listeners]]\naddr = \"127.0.0.1:0\"\nkind = \"discovery\"\n",
            dir.path().join("data")
        );
        std::fs::write(dir.path().join("basalt.toml"), config).expect("the configuration is written");
        let log = File::create(dir.path().join("log")).expect("the log opens");
        let mut command = Command::new(BASALT);
        command.args(["serve", "--config"]).arg(dir.path().join("basalt.toml"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("the daemon starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it says where it serves");
        let port = |what: &str| -> SocketAddr {
            let at = line.split(what).nth(1).unwrap_or_else(|| panic!("no {what:?} in {line:?}"));
            at.split([',', '\n', ';']).next().and_then(|a| a.trim().parse().ok()).unwrap_or_else(|| panic!("no address in {line:?}"))
        };
        let (io, discovery) = (port("io on "), port("discovery on "));
        let daemon = Daemon { dir, child, io, discovery };
        for line in [
            "group create g --shards 2 --cache memory:1GiB --capacity memory:4GiB".to_owned(),
            format!("subsystem create cases --nqn {NQN} --allow-any-host"),
            format!("subsystem create closed --nqn {CLOSED_NQN}"),
            "volume create cases --size 2GiB --subsystem cases".into(),
            "volume create fixed --size 64MiB --subsystem cases".into(),
            "volume create load --size 128MiB --subsystem cases".into(),
            "volume set fixed --read-only on".into(),
        ] {
            daemon.cli(&line);
        }
        daemon
    }
    fn cli(&self, line: &str) {
        let mut command = Command::new(BASALT);
        command.arg("--api").arg(self.dir.path().join("data/api.sock")).args(line.split_whitespace()).stdin(Stdio::null());
        let out = command.output().expect("the command runs");
        assert!(out.status.success(), "basalt {line}: {}\n{}", String::from_utf8_lossy(&out.stderr), self.log_tail());
    }
    /// What cases need to know of it.
    pub fn env(&self) -> Env {
        Env::probe(self.io, self.discovery, NQN, 1, true)
    }
    /// The end of its log.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("--- the daemon's log ends:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"))
    }
    /// SIGTERM: it has to end by itself and well.
    pub fn stop(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "SIGTERM is sent");
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state is known") {
                assert!(status.success(), "it ended with {status}\n{}", self.log_tail());
                return;
            }
            assert!(begun.elapsed() < DAEMON_TIMEOUT, "the daemon does not end\n{}", self.log_tail());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
