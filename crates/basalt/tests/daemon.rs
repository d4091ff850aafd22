//! The daemon as an operator meets it: starting, ending, restarting, and every way in which it refuses to start.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a configuration; ports are chosen by the system.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(more: &str) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        bench.configure(more, "127.0.0.1:0");
        bench
    }
    fn configure(&self, more: &str, address: &str) {
        let text = format!(
            "data_dir = {:?}\ncores = {{ count = 1, pin = false }}\nlisteners = [{{ addr = \"{address}\" }}]\n{more}\n",
            self.path("data")
        );
        std::fs::write(self.path("basalt.toml"), text).unwrap();
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn command(&self) -> Command {
        let mut command = Command::new(BASALT);
        command.arg("serve").arg("--config").arg(self.path("basalt.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
    fn start(&self) -> Daemon {
        let mut child = self.command().stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serves: io on 127.0.0.1:"), "{line:?}");
        Daemon { child, line }
    }
    /// What a daemon says that does not start.
    fn refusal(&self) -> String {
        refusal(self.command())
    }
    fn cli(&self, line: &str) -> Output {
        let mut command = Command::new(BASALT);
        command.arg("--api").arg(self.path("data/api.sock")).args(line.split_whitespace()).stdin(Stdio::null());
        command.output().unwrap()
    }
    fn ok(&self, line: &str) -> String {
        let output = self.cli(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

struct Daemon {
    child: Child,
    line: String,
}

impl Daemon {
    fn address(&self) -> &str {
        self.line.split("io on ").nth(1).unwrap().split(',').next().unwrap().trim()
    }
    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }
    /// SIGTERM, and waits for the end.
    fn end(mut self) {
        self.signal("-TERM");
        let status = wait(&mut self.child);
        assert!(status.success(), "{status}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < PATIENCE, "the daemon does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn refusal(mut command: Command) -> String {
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    text
}

#[test]
fn what_was_made_is_there_after_an_ordered_end_and_after_a_kill() {
    let bench = Bench::new("");
    let daemon = bench.start();
    let (cache, data) = (bench.path("cache.img"), bench.path("data.img"));
    bench.ok(&format!("group create g1 --shards 2 --cache {}:512MiB --capacity {}:1GiB", cache.display(), data.display()));
    assert!(bench.ok("volume create db --size 10GiB").contains("namespace 1 of nqn.2026-11.io.basalt:default"));
    let shown = bench.ok("volume show db --json");
    daemon.end();
    assert!(!bench.path("data/api.sock").exists(), "the socket is taken away");
    assert_eq!(bench.cli("status").status.code(), Some(3));
    let daemon = bench.start();
    assert_eq!(bench.ok("volume show db --json"), shown);
    daemon.signal("-KILL");
    drop(daemon);
    let daemon = bench.start();
    assert_eq!(bench.ok("volume show db --json"), shown);
    assert!(bench.ok("status").starts_with("health: ok"), "{}", bench.ok("status"));
    for (line, status) in [
        ("volume show x", 4),
        ("volume create db --size 1GiB", 5),
        ("volume create", 2),
        ("volume create a --size 0", 2),
        ("group remove g1", 5),
    ] {
        assert_eq!(bench.cli(line).status.code(), Some(status), "{line}");
    }
    bench.ok("group remove g1 --force");
    bench.ok(&format!("group create g2 --shards 2 --cache {} --capacity {}", cache.display(), data.display()));
    daemon.end();
}

#[test]
fn a_second_daemon_on_one_data_directory_is_refused_and_harms_nothing() {
    let bench = Bench::new("");
    let daemon = bench.start();
    let told = bench.refusal();
    assert!(told.contains("in use by another daemon") && told.contains(&daemon.child.id().to_string()), "{told}");
    bench.ok("status");
    daemon.end();
}

#[test]
fn an_address_in_use_is_told() {
    let first = Bench::new("");
    let daemon = first.start();
    let second = Bench::new("");
    second.configure("", daemon.address());
    let told = second.refusal();
    assert!(told.contains(daemon.address()) && told.contains("in use"), "{told}");
    assert!(!second.path("data/api.sock").exists());
}

#[test]
fn a_daemon_that_another_holds_the_devices_of_is_told() {
    let first = Bench::new("");
    let _daemon = first.start();
    let device = |name: &str| first.path(name).display().to_string();
    first.ok(&format!("group create g1 --shards 1 --cache {}:512MiB --capacity {}:1GiB", device("c"), device("d")));
    let second = Bench::new("");
    let _other = second.start();
    let output = second.cli(&format!("group create g1 --cache {} --capacity memory:1GiB --force", device("c")));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("is in use by"), "{told}");
}

#[test]
fn foreign_and_truncated_devices_are_refused_and_left_as_they_are() {
    let bench = Bench::new("");
    let daemon = bench.start();
    let foreign = bench.path("foreign.img");
    let mut image = vec![0u8; 1 << 20];
    image[0x438..0x43A].copy_from_slice(&[0x53, 0xEF]);
    std::fs::write(&foreign, &image).unwrap();
    std::fs::File::options().write(true).open(&foreign).unwrap().set_len(1 << 30).unwrap();
    let output = bench.cli(&format!("group create g --cache memory:1GiB --capacity {}", foreign.display()));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(5) && told.contains("ext"), "{told}");
    let mut head = vec![0u8; 1 << 20];
    std::fs::File::open(&foreign).unwrap().read_exact(&mut head).unwrap();
    assert_eq!(head, image, "nothing was written");
    let data = bench.path("d.img");
    bench.ok(&format!("group create g1 --shards 1 --cache {}:512MiB --capacity {}:1GiB", bench.path("c.img").display(), data.display()));
    bench.ok("volume create v --size 1GiB");
    daemon.end();
    std::fs::File::options().write(true).open(&data).unwrap().set_len(512 << 20).unwrap();
    let daemon = bench.start();
    let told = bench.ok("status");
    assert!(told.contains("health: ERROR") && told.contains("had 1 GiB when it was formatted"), "{told}");
    std::fs::File::options().write(true).open(&data).unwrap().set_len(1 << 30).unwrap();
    daemon.end();
}

#[test]
fn a_wrong_or_missing_configuration_is_told() {
    let bench = Bench::new("[api]\nsokcet = 1");
    assert!(bench.refusal().contains("basalt.toml:5:1: unknown key 'sokcet'"), "{}", bench.refusal());
    std::fs::remove_file(bench.path("basalt.toml")).unwrap();
    assert!(bench.refusal().contains("there is no configuration file"));
    assert!(!bench.path("data").exists(), "nothing was made");
}

#[test]
fn a_damaged_directory_is_told_and_left_alone() {
    let bench = Bench::new("");
    std::fs::create_dir(bench.path("data")).unwrap();
    std::fs::write(bench.path("data/directory.redb"), "not a directory").unwrap();
    assert!(bench.refusal().contains("is damaged"), "{}", bench.refusal());
    assert_eq!(std::fs::read(bench.path("data/directory.redb")).unwrap(), b"not a directory");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_told() {
    let bench = Bench::new("");
    std::fs::write(bench.path("data"), "a file").unwrap();
    assert!(bench.refusal().contains("cannot be made"), "{}", bench.refusal());
}

/// What the daemon says under a limit of the shell.
fn refusal_under(limit: &str) -> String {
    let bench = Bench::new("");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{limit}; exec {BASALT} serve --config {}", bench.path("basalt.toml").display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = refusal(command);
    assert!(!bench.path("data/api.sock").exists());
    told
}

#[test]
fn too_few_descriptors_are_told() {
    let told = refusal_under("ulimit -n 200");
    assert!(told.contains("only 200 file descriptors are allowed, 1024 are needed; raise the limit"), "{told}");
}

#[test]
fn too_little_memory_is_told() {
    let told = refusal_under("ulimit -v 184320");
    assert!(told.contains("180 MiB of memory are available, but 192 MiB are needed for 1 cores"), "{told}");
}

/// A loop device with a file system, mounted below `dir`; all is taken away when dropped.
struct Mounted {
    device: String,
    at: PathBuf,
}

impl Mounted {
    /// `None` where this user may not make loop devices.
    fn new(dir: &Path) -> Option<Self> {
        let run = |program: &str, args: &[&str]| Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
        let (file, at) = (dir.join("backing"), dir.join("mounted"));
        std::fs::create_dir(&at).unwrap();
        std::fs::File::create(&file).unwrap().set_len(512 << 20).unwrap();
        let made = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        if !made.status.success() {
            return None;
        }
        let mounted = Self { device: String::from_utf8(made.stdout).unwrap().trim().to_owned(), at };
        for (program, args) in [("mkfs.ext4", vec!["-q", &mounted.device]), ("mount", vec![&mounted.device, mounted.at.to_str().unwrap()])]
        {
            let done = run(program, &args);
            assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Some(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).stderr(Stdio::null()).status();
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

#[test]
fn a_mounted_device_is_refused_also_by_force() {
    let bench = Bench::new("");
    let Some(mounted) = Mounted::new(bench.dir.path()) else {
        eprintln!("skipped: losetup is not permitted here (it needs root and loop devices)");
        return;
    };
    std::fs::write(mounted.at.join("file"), "kept").unwrap();
    let daemon = bench.start();
    let output = bench.cli(&format!("group create g --cache memory:1GiB --capacity {} --force", mounted.device));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains(&format!("{} is mounted at {}", mounted.device, mounted.at.display())), "{told}");
    assert_eq!(std::fs::read_to_string(mounted.at.join("file")).unwrap(), "kept");
    daemon.end();
}

#[test]
fn the_service_manager_is_told_when_it_serves() {
    let bench = Bench::new("");
    let socket = UnixDatagram::bind(bench.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut child = bench.command().env("NOTIFY_SOCKET", bench.path("notify")).stderr(Stdio::null()).spawn().unwrap();
    let mut text = [0; 256];
    let len = socket.recv(&mut text).unwrap();
    assert!(text[..len].starts_with(b"READY=1"));
    assert!(is_socket(&bench.path("data/api.sock")));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let len = socket.recv(&mut text).unwrap();
    assert!(text[..len].starts_with(b"STOPPING=1"));
    assert!(wait(&mut child).success());
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

#[test]
fn output_that_nobody_reads_ends_a_command_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = Command::new(env!("CARGO_BIN_EXE_basalt")).args(["completions", "bash"]).stdout(writer).output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
}
