//! A volume made smaller by force and grown again shows zeroes where it was cut, through the real daemon and a client: what was in the write
//! buffer, what was on capacity, and after the daemon was killed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use initiator::{Controller, ControllerOptions, IoQueue};
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
const VOLUME: u64 = 64 * MIB;
const CUT: u64 = 20 * MIB;
const STEP: u64 = 128 << 10;

struct Daemon {
    dir: tempfile::TempDir,
    child: Option<Child>,
    address: String,
}

impl Daemon {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "data_dir = {:?}\ncores = {{ count = 2, pin = false }}\nlisteners = [{{ addr = \"127.0.0.1:0\" }}]\n\
             # Destaging begins at once, so that some of the data is on capacity.\n\
             [store]\ndestage_low_percent = 1\ndestage_high_percent = 50\n",
            dir.path().join("data")
        );
        std::fs::write(dir.path().join("basalt.toml"), config).unwrap();
        Self { dir, child: None, address: String::new() }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn start(&mut self) {
        let mut command = Command::new(BASALT);
        command.arg("serve").arg("--config").arg(self.path("basalt.toml"));
        let child = self.child.insert(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        self.address = line.split("io on ").nth(1).unwrap_or_else(|| panic!("{line:?}")).split(',').next().unwrap().trim().to_owned();
    }
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    fn ok(&self, line: &str) -> String {
        let mut command = Command::new(BASALT);
        command.arg("--api").arg(self.path("data/api.sock")).args(line.split_whitespace()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    /// A connection, and the volume as it sees it.
    fn connect(&self) -> (Controller, IoQueue) {
        let options = ControllerOptions::new(self.address.parse().unwrap(), "nqn.2026-11.io.basalt:default");
        let controller = Controller::connect(options).unwrap();
        let namespace = controller.namespace(1).unwrap();
        let queue = controller.open_queue(1, 8, namespace).unwrap();
        (controller, queue)
    }
    /// Asserts that the volume has `bytes`, is full of `pattern` up to `zeroes`, and reads as zeroes from there.
    fn expect(&self, bytes: u64, zeroes: u64, when: &str) {
        let (_controller, mut queue) = self.connect();
        assert_eq!(queue.namespace().bytes(), bytes, "{when}");
        for offset in (0..bytes).step_by(STEP as usize) {
            let wanted = if offset < zeroes { pattern(offset) } else { vec![0; STEP as usize] };
            assert!(queue.read(offset, STEP as u32).unwrap() == wanted, "{when}: at {offset}");
        }
        let behind = queue.read(bytes, STEP as u32);
        assert!(behind.is_err(), "{when}: read behind the end");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What is written at `offset`: no byte of it is zero.
fn pattern(offset: u64) -> Vec<u8> {
    vec![(offset / STEP % 255) as u8 + 1; STEP as usize]
}

fn fill(daemon: &Daemon) {
    let (_controller, mut queue) = daemon.connect();
    for offset in (0..VOLUME).step_by(STEP as usize) {
        queue.write(offset, pattern(offset), false).unwrap();
    }
}

/// Waits until some of the volume is on capacity.
fn wait_for_capacity(daemon: &Daemon) {
    let begun = Instant::now();
    loop {
        let shown = daemon.ok("volume show v --json");
        let used = shown.split("\"used_bytes\":").nth(1).unwrap_or_else(|| panic!("{shown}"));
        if used.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap() > VOLUME / 2 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing goes to capacity: {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_was_cut_off_is_gone_when_the_volume_grows_again() {
    let mut daemon = Daemon::new();
    daemon.start();
    let (cache, data) = (daemon.path("cache.img"), daemon.path("data.img"));
    daemon.ok(&format!("group create g --shards 2 --cache {}:512MiB --capacity {}:1GiB", cache.display(), data.display()));
    daemon.ok("volume create v --size 64MiB");
    for on_capacity in [true, false] {
        fill(&daemon);
        if on_capacity {
            wait_for_capacity(&daemon);
        }
        daemon.expect(VOLUME, VOLUME, "full");
        daemon.ok("volume shrink v --size 20MiB --force");
        daemon.expect(CUT, CUT, "smaller");
        daemon.ok("volume grow v --size 64MiB");
        daemon.expect(VOLUME, CUT, "grown again");
        daemon.kill();
        daemon.start();
        daemon.expect(VOLUME, CUT, "after a kill");
    }
}
