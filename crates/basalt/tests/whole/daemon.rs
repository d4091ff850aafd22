//! The daemon as an operator meets it: starting, ending, restarting, and every way in which it refuses to start.

use crate::harness::{BASALT, Daemon, PATIENCE, Setup, USUAL};
use std::{
    fs::File,
    io::Read,
    os::unix::{fs::FileTypeExt, net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const ONE_CORE: Setup<'static> = Setup { cores: 1, ..USUAL };

#[test]
fn what_was_made_is_there_after_an_ordered_end_and_after_a_kill() {
    let mut daemon = Daemon::started(&ONE_CORE);
    daemon.group_on_files(2, "512MiB", "1GiB");
    assert!(daemon.ok("volume create db --size 10GiB").contains("namespace 1 of nqn.2026-11.io.basalt:default"));
    // Each start begins a term.
    let shown = |daemon: &Daemon, epoch: u64| {
        let mut volume = daemon.json("volume show db");
        assert_eq!(volume["epoch"].take(), epoch);
        volume
    };
    let made = shown(&daemon, 1);
    daemon.stop();
    assert!(!daemon.path("data/api.sock").exists(), "the socket is taken away");
    daemon.fails("status", 3);
    daemon.start();
    assert_eq!(shown(&daemon, 2), made);
    daemon.kill_and_start();
    assert_eq!(shown(&daemon, 3), made);
    assert!(daemon.ok("status").starts_with("health: ok"), "{}", daemon.ok("status"));
    let nodes = daemon.json("node list");
    let (name, groups) = (nodes[0]["name"].as_str().unwrap(), &nodes[0]["groups"]);
    assert_eq!((nodes.as_array().unwrap().len(), groups), (1, &serde_json::json!(["g"])), "{nodes}");
    let shown = daemon.ok(&format!("node show {name}"));
    assert!(["fault domain", env!("CARGO_PKG_VERSION"), "cores", "up"].iter().all(|word| shown.contains(word)), "{shown}");
    daemon.fails("node show nobody", 4);
    for (line, code) in [
        ("volume show x", 4),
        ("volume create db --size 1GiB", 5),
        ("volume create", 2),
        ("volume create a --size 0", 2),
        ("group remove g", 5),
    ] {
        daemon.fails(line, code);
    }
    daemon.ok("group remove g --force");
    daemon.ok(&format!("group create g2 --shards 2 --cache {} --capacity {}", daemon.at("cache"), daemon.at("capacity")));
    let by_its_other_name = Command::new(BASALT).arg("--socket").arg(daemon.path("data/api.sock")).arg("status").output().unwrap();
    assert!(by_its_other_name.status.success());
    daemon.stop();
}

#[test]
fn a_second_daemon_on_one_data_directory_is_refused_and_harms_nothing() {
    let mut daemon = Daemon::started(&ONE_CORE);
    let said = daemon.refusal(daemon.serve());
    assert!(said.contains("in use by another daemon") && said.contains(&daemon.id().to_string()), "{said}");
    daemon.ok("status");
    daemon.stop();
}

#[test]
fn an_address_in_use_is_reported() {
    let first = Daemon::started(&ONE_CORE);
    let address = first.addr().to_string();
    let second = Daemon::prepared(&Setup { listeners: &format!("{{ addr = \"{address}\" }}"), ..ONE_CORE });
    let said = second.refusal(second.serve());
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
    assert!(!second.path("data/api.sock").exists());
}

#[test]
fn a_daemon_that_another_holds_the_devices_of_is_reported() {
    let first = Daemon::started(&ONE_CORE);
    first.group_on_files(1, "512MiB", "1GiB");
    let second = Daemon::started(&ONE_CORE);
    let said = second.fails(&format!("group create g1 --cache {} --capacity memory:1GiB --force", first.at("cache")), 5);
    assert!(said.contains("is in use by"), "{said}");
}

/// Makes a file longer or shorter.
fn set_len(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn foreign_and_truncated_devices_are_refused_and_left_as_they_are() {
    let mut daemon = Daemon::started(&ONE_CORE);
    let foreign = daemon.path("foreign");
    let mut image = vec![0u8; 1 << 20];
    image[0x438..0x43A].copy_from_slice(&[0x53, 0xEF]);
    std::fs::write(&foreign, &image).unwrap();
    set_len(&foreign, 1 << 30);
    let said = daemon.fails(&format!("group create g --cache memory:1GiB --capacity {}", foreign.display()), 5);
    assert!(said.contains("ext"), "{said}");
    let mut head = vec![0u8; 1 << 20];
    File::open(&foreign).unwrap().read_exact(&mut head).unwrap();
    assert_eq!(head, image, "nothing was written");
    daemon.group_on_files(1, "512MiB", "1GiB");
    daemon.ok("volume create v --size 1GiB");
    daemon.stop();
    set_len(&daemon.path("capacity"), 512 << 20);
    daemon.start();
    let said = daemon.ok("status");
    assert!(said.contains("health: ERROR") && said.contains("had 1 GiB when it was formatted"), "{said}");
    set_len(&daemon.path("capacity"), 1 << 30);
    daemon.stop();
}

#[test]
fn a_wrong_or_missing_configuration_is_reported() {
    let daemon = Daemon::prepared(&Setup { more: "[api]\nsokcet = 1", ..ONE_CORE });
    let said = daemon.refusal(daemon.serve());
    assert!(said.contains("basalt.toml:5:1: unknown key 'sokcet'"), "{said}");
    std::fs::remove_file(daemon.path("basalt.toml")).unwrap();
    assert!(daemon.refusal(daemon.serve()).contains("there is no configuration file"));
    assert!(!daemon.path("data").exists(), "nothing was made");
}

#[test]
fn a_damaged_directory_is_reported_and_left_alone() {
    let daemon = Daemon::prepared(&ONE_CORE);
    std::fs::create_dir(daemon.path("data")).unwrap();
    std::fs::write(daemon.path("data/directory.redb"), "not a directory").unwrap();
    let said = daemon.refusal(daemon.serve());
    assert!(said.contains("is damaged"), "{said}");
    assert_eq!(std::fs::read(daemon.path("data/directory.redb")).unwrap(), b"not a directory");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_reported() {
    let daemon = Daemon::prepared(&ONE_CORE);
    std::fs::write(daemon.path("data"), "a file").unwrap();
    let said = daemon.refusal(daemon.serve());
    assert!(said.contains("cannot be made"), "{said}");
}

/// What the daemon says under a limit of the shell.
fn refusal_under(limit: &str) -> String {
    let daemon = Daemon::prepared(&ONE_CORE);
    let said = daemon.refusal(daemon.serve_under(limit));
    assert!(!daemon.path("data/api.sock").exists());
    said
}

#[test]
fn too_few_descriptors_are_reported() {
    let said = refusal_under("ulimit -n 200");
    assert!(said.contains("only 200 file descriptors are allowed, 1024 are needed; raise the limit"), "{said}");
}

#[test]
fn too_little_memory_is_reported() {
    let said = refusal_under("ulimit -v 184320");
    assert!(said.contains("180 MiB of memory are available, but 192 MiB are needed for 1 cores"), "{said}");
}

/// What no machine has is refused in words, and the daemon goes on serving.
#[test]
fn a_disk_group_that_no_machine_could_hold_is_refused_and_the_daemon_goes_on() {
    let mut daemon = Daemon::started(&ONE_CORE);
    daemon.group_on_files(1, "256MiB", "512MiB");
    daemon.ok("volume create v --size 1GiB");
    let id = daemon.id();
    let (file, free) = (daemon.at("new"), daemon.at("free"));
    for (devices, code, words) in [
        ("--cache memory:1GiB --capacity memory:999TiB".to_owned(), 2, "at most 256 TiB"),
        ("--cache memory:1GiB --capacity memory:200TiB".to_owned(), 5, "there is no memory for a device of 200 TiB"),
        ("--cache memory:1GiB --capacity memory:200TiB:populated".to_owned(), 5, "there is no memory for a device of 200 TiB"),
        (format!("--cache {file}:200TiB --capacity memory:1GiB"), 5, "is too small"),
        (format!("--cache memory:1GiB --capacity {file}:16383PiB --sparse"), 2, "at most 256 TiB"),
        (format!("--cache {file}:1GiB --capacity {free}:200TiB"), 5, "is too small"),
    ] {
        let said = daemon.fails(&format!("group create g3 {devices}"), code);
        assert!(said.contains(words), "{devices}: {said}");
    }
    assert!(!daemon.path("new").exists() && !daemon.path("free").exists(), "nothing is left of them");
    assert_eq!(daemon.json("group list").as_array().unwrap().len(), 1);
    assert_eq!((daemon.id(), daemon.json("volume show v")["state"].as_str()), (id, Some("online")));
    daemon.stop();
}

/// A write buffer's file has its space from the start, so that no file system can be full below it; with `--sparse` it has none.
#[test]
fn the_file_of_a_write_buffer_has_its_space_from_the_start() {
    use std::os::unix::fs::MetadataExt;
    let mut daemon = Daemon::started(&ONE_CORE);
    let taken = |daemon: &Daemon, name: &str| std::fs::metadata(daemon.path(name)).unwrap().blocks() * 512;
    daemon.group_on_files(1, "256MiB", "512MiB");
    assert!(taken(&daemon, "cache") >= 256 << 20);
    assert!(taken(&daemon, "capacity") < 64 << 20, "a capacity device takes space as it is used");
    daemon.ok(&format!("group create thin --sparse --shards 1 --cache {}:256MiB --capacity {}:512MiB", daemon.at("c2"), daemon.at("d2")));
    assert!(taken(&daemon, "c2") < 64 << 20);
    daemon.stop();
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
    let mut daemon = Daemon::started(&ONE_CORE);
    let Some(mounted) = Mounted::new(&daemon.path("")) else {
        eprintln!("skipped: losetup is not permitted here (it needs root and loop devices)");
        return;
    };
    std::fs::write(mounted.at.join("file"), "kept").unwrap();
    let said = daemon.fails(&format!("group create g --cache memory:1GiB --capacity {} --force", mounted.device), 5);
    assert!(said.contains(&format!("{} is mounted at {}", mounted.device, mounted.at.display())), "{said}");
    assert_eq!(std::fs::read_to_string(mounted.at.join("file")).unwrap(), "kept");
    daemon.stop();
}

#[test]
fn the_service_manager_is_notified_when_it_serves() {
    let mut daemon = Daemon::prepared(&ONE_CORE);
    let socket = UnixDatagram::bind(daemon.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = daemon.serve();
    command.env("NOTIFY_SOCKET", daemon.path("notify"));
    daemon.spawn(command);
    let mut text = [0; 256];
    let len = socket.recv(&mut text).unwrap();
    assert!(text[..len].starts_with(b"READY=1"));
    assert!(std::fs::metadata(daemon.path("data/api.sock")).unwrap().file_type().is_socket());
    daemon.signal("-INT");
    let len = socket.recv(&mut text).unwrap();
    assert!(text[..len].starts_with(b"STOPPING=1"));
    daemon.wait_end();
}

#[test]
fn output_that_nobody_reads_ends_a_command_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = Command::new(BASALT).args(["completions", "bash"]).stdout(writer).output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
}
