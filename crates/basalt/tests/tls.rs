//! TLS from end to end: keys set by the command line, verified load over TLS, hosts that come with a wrong key, a wrong name or in plain.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use initiator::verify::{self, LoadSpec};
use initiator::{Controller, ControllerOptions, Digests, Error, TlsOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tls::{ConfiguredPsk, Derivation, Hash};

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
const NQN: &str = "nqn.2026-11.io.basalt:default";

struct Daemon {
    dir: PathBuf,
    child: Child,
    /// Of the listener for everything, and of the one for TLS only.
    addrs: [String; 2],
}

impl Daemon {
    fn start(dir: &Path) -> Self {
        let config = dir.join("basalt.toml");
        let listeners = "{ addr = \"127.0.0.1:0\" }, { addr = \"127.0.0.1:0\", security = \"encrypted\" }";
        let data = dir.join("data");
        let text = format!(
            "data_dir = {data:?}\ncores = {{ count = 2, pin = false }}\nlisteners = [{listeners}]\nlog = {{ level = \"debug\" }}\n"
        );
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let mut command = Command::new(BASALT);
        command.arg("serve").arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let mut addrs = line.split("io on ").skip(1).map(|s| s.split([',', ' ', '\n']).next().unwrap().to_owned());
        let addrs = [addrs.next().unwrap_or_else(|| panic!("{line}")), addrs.next().unwrap_or_else(|| panic!("{line}"))];
        Self { dir: dir.to_owned(), child, addrs }
    }
    fn cli(&self, line: &str) -> Output {
        let mut command = Command::new(BASALT);
        command.arg("--api").arg(self.dir.join("data/api.sock")).args(line.split_whitespace()).stdin(Stdio::null());
        command.output().unwrap()
    }
    fn ok(&self, line: &str) -> String {
        let output = self.cli(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    fn options(&self, listener: usize, tls: Option<TlsOptions>) -> ControllerOptions {
        ControllerOptions { tls, ..ControllerOptions::new(self.addrs[listener].parse().unwrap(), NQN) }
    }
    /// Connects, and opens an I/O queue.
    fn connect(&self, listener: usize, tls: Option<TlsOptions>) -> Result<Controller, Error> {
        let controller = Controller::connect(self.options(listener, tls))?;
        let namespace = controller.namespace(1)?;
        controller.open_queue(1, 8, namespace)?;
        Ok(controller)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(result: Result<Controller, Error>) -> String {
    match result {
        Ok(_) => panic!("it was let in"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn hosts_connect_over_tls_with_what_the_command_line_sets_and_no_key_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let (cache, data) = (dir.path().join("cache"), dir.path().join("capacity"));
    daemon.ok(&format!("group create g --shards 2 --cache {}:256MiB --capacity {}:512MiB", cache.display(), data.display()));
    daemon.ok("volume create v --size 64MiB");
    let host = daemon.options(0, None).host.nqn;
    daemon.ok(&format!("host add me {host}"));
    let text = daemon.ok("host set me --tls-psk-generate --hash 384");
    let key = ConfiguredPsk::parse(&text).unwrap();
    assert_eq!(key.hash(), Hash::Sha384);
    let right = TlsOptions::new(key.clone());

    // Both hashes and identities, every derivation in the field, both listeners.
    for (version, derivation) in [(1, Derivation::Standard), (0, Derivation::Libnvme), (0, Derivation::LibnvmeContextOnly)] {
        let tls = TlsOptions { version, derivation, ..right.clone() };
        for listener in [0, 1] {
            daemon.connect(listener, Some(tls.clone())).unwrap();
        }
    }
    let other_suite = TlsOptions { hash: Some(Hash::Sha256), version: 0, ..right.clone() };
    daemon.connect(0, Some(other_suite)).unwrap();

    // Verified load: every read is checked, and all is read back at the end.
    for digests in [Digests::default(), Digests { header: true, data: true }] {
        let target = ControllerOptions { digests, ..daemon.options(0, Some(right.clone())) };
        let mut spec = LoadSpec::new(target, 1);
        (spec.time, spec.queues, spec.depth) = (Duration::from_secs(2), 2, 16);
        spec.before = verify::Before::Unknown;
        let (summary, _) = verify::run(spec, |_| {}).unwrap();
        assert!(summary.is_clean() && summary.units_checked > 0, "{:?}", summary.reports);
    }
    let live = daemon.connect(0, Some(right.clone())).unwrap();
    assert!(daemon.ok("host show me --json").replace(' ', "").contains("\"encrypted\":true"));

    // Who comes with something else.
    let wrong = TlsOptions::new(ConfiguredPsk::generate(Hash::Sha384).unwrap());
    let told = failed(daemon.connect(0, Some(wrong.clone())));
    assert!(told.contains("unknown psk identity") || told.contains("TLS failed"), "{told}");
    let same_name = TlsOptions { version: 0, ..wrong };
    let told = failed(daemon.connect(0, Some(same_name)));
    assert!(told.contains("decrypt error") || told.contains("TLS failed"), "{told}");
    let told = failed(daemon.connect(0, Some(TlsOptions { name: Some("nqn.2014-08.com.example:other".into()), ..right.clone() })));
    assert!(told.contains("TLS failed"), "{told}");
    assert!(daemon.connect(0, None).is_ok(), "plain is let in where nothing else is asked for");
    assert!(daemon.connect(1, None).is_err(), "but not where only TLS is served");
    let mut garbage = TcpStream::connect(&daemon.addrs[1]).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    garbage.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(garbage.read(&mut [0; 64]), Ok(0) | Err(_)), "closed without a word");

    daemon.ok("subsystem set default --security encrypted");
    assert!(failed(daemon.connect(0, None)).contains("0x184"), "a plain host");
    assert!(live.namespaces().is_ok(), "who came over TLS stays");
    drop(live);

    // A key of another host under this one's name: the Connect command must say what the key says.
    let second = "nqn.2014-08.com.example:second";
    daemon.ok(&format!("host add you {second}"));
    let file = dir.path().join("you.psk");
    std::fs::write(&file, &*ConfiguredPsk::generate(Hash::Sha256).unwrap().to_interchange()).unwrap();
    daemon.ok(&format!("host set you --tls-psk-file {}", file.display()));
    let yours = TlsOptions::new(ConfiguredPsk::parse(&std::fs::read_to_string(&file).unwrap()).unwrap());
    let told = failed(daemon.connect(0, Some(TlsOptions { name: Some(second.into()), ..yours })));
    assert!(told.contains("0x182"), "{told}");

    // What a restart finds, and what is to be seen of it.
    drop(daemon);
    let daemon = Daemon::start(dir.path());
    daemon.connect(0, Some(right.clone())).unwrap();
    let shown = [
        daemon.ok("host show me"),
        daemon.ok("host list --json"),
        daemon.ok("audit --json"),
        std::fs::read_to_string(dir.path().join("log")).unwrap(),
        String::from_utf8_lossy(&std::fs::read(dir.path().join("data/directory.redb")).unwrap_or_default()).into_owned(),
    ];
    let body = text.split(':').nth(2).unwrap();
    assert!(shown.iter().all(|s| !s.contains(&body[..12])), "a key is shown");
    assert!(shown[0].contains("for all: stored, encrypted") && shown[2].contains("authentication-failed"), "{}", shown[0]);

    // A key for one subsystem; none at all.
    daemon.ok("subsystem create other --allow-any-host");
    daemon.ok("host set me --no-tls-psk");
    daemon.ok("host set me --tls-psk-generate --tls-subsystem other");
    assert!(daemon.connect(0, Some(right)).is_err());
    assert_eq!(daemon.cli("host set me --tls-psk-generate --hash 512").status.code(), Some(1));
}
