//! In-band authentication from end to end: secrets set by the command line, kept over a restart, shown nowhere; hosts right and wrong.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use initiator::{Controller, ControllerOptions, Credentials, DhGroup, Error, HashId, Secret};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
const NQN: &str = "nqn.2026-11.io.basalt:default";

struct Daemon {
    dir: PathBuf,
    child: Child,
    addr: String,
}

impl Daemon {
    fn start(dir: &Path) -> Self {
        let config = dir.join("basalt.toml");
        let text = format!(
            "data_dir = {:?}\ncores = {{ count = 2, pin = false }}\nlisteners = [{{ addr = \"127.0.0.1:0\" }}]\nlog = {{ level = \"debug\" }}\n",
            dir.join("data")
        );
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let mut command = Command::new(BASALT);
        command.arg("serve").arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addr = line.split("io on ").nth(1).unwrap_or_else(|| panic!("{line}")).split(',').next().unwrap().trim().to_owned();
        Self { dir: dir.to_owned(), child, addr }
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
    fn options(&self, credentials: Option<Credentials>) -> ControllerOptions {
        ControllerOptions { credentials, ..ControllerOptions::new(self.addr.parse().unwrap(), NQN) }
    }
    /// Connects, and opens an I/O queue, which authenticates by itself.
    fn connect(&self, credentials: Option<Credentials>) -> Result<Controller, Error> {
        let controller = Controller::connect(self.options(credentials))?;
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
fn hosts_authenticate_with_what_the_command_line_sets_and_no_secret_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let (cache, data) = (dir.path().join("cache"), dir.path().join("capacity"));
    daemon.ok(&format!("group create g --shards 2 --cache {}:256MiB --capacity {}:512MiB", cache.display(), data.display()));
    daemon.ok("volume create v --size 64MiB");
    let host = daemon.options(None).host.nqn;
    daemon.ok(&format!("host add me {host}"));
    assert!(daemon.connect(None).is_ok(), "nothing is asked for yet");

    let text = daemon.ok("host set me --dhchap-generate --hash 384");
    let secret = Secret::parse(&text).unwrap();
    assert_eq!(secret.transform(), Some(HashId::Sha384));
    let wrong = Secret::generate(HashId::Sha256, &mut |out| out.fill(7));
    let with = |secret: &Secret, controller: Option<&Secret>| Some(Credentials::new(secret.clone(), controller.cloned()));
    assert!(failed(daemon.connect(None)).contains("we have no secret"));
    assert!(failed(daemon.connect(with(&wrong, None))).contains("the controller refused us: authentication failed"));
    assert!(failed(daemon.connect(with(&secret, Some(&wrong)))).contains("the controller refused us"), "it has no secret of its own");
    let mut live = daemon.connect(with(&secret, None)).unwrap();

    // Mutual, with every hash and some groups.
    let controller = Secret::parse(&daemon.ok("host set me --dhchap-controller-generate")).unwrap();
    let told = failed(daemon.connect(with(&secret, Some(&wrong))));
    assert!(told.contains("the controller is refused"), "{told}");
    for hash in HashId::ALL {
        for group in [DhGroup::Null, DhGroup::Ffdhe2048, DhGroup::Ffdhe8192] {
            daemon.ok(&format!("host set me --dhchap-hash {} --dhchap-group {}", hash.name(), group.name()));
            daemon.connect(with(&secret, Some(&controller))).unwrap();
        }
    }
    let only = Credentials { groups: vec![DhGroup::Ffdhe4096], ..with(&secret, None).unwrap() };
    assert!(failed(daemon.connect(Some(only))).contains("no common DH group"));
    daemon.ok("host set me --dhchap-hash usual --dhchap-group usual");

    // A new secret, from a file: the live connection stays and proves itself again.
    let new = Secret::generate(HashId::Sha512, &mut |out| out.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8));
    let file = dir.path().join("new.key");
    std::fs::write(&file, new.expose().as_str()).unwrap();
    daemon.ok(&format!("host set me --dhchap-secret-file {}", file.display()));
    assert!(live.namespaces().is_ok(), "who is in stays in");
    live.authenticate_again(with(&new, Some(&controller)).unwrap()).unwrap();
    assert!(live.namespaces().is_ok());
    assert!(failed(daemon.connect(with(&secret, None))).contains("authentication failed"));
    assert!(live.authenticate_again(with(&secret, None).unwrap()).is_err());
    drop(live);

    // What a restart finds, and what is to be seen of it.
    drop(daemon);
    let daemon = Daemon::start(dir.path());
    assert!(daemon.connect(with(&new, Some(&controller))).is_ok());
    let shown = [
        daemon.ok("host show me"),
        daemon.ok("host show me --json"),
        daemon.ok("host list --json"),
        daemon.ok("audit --json"),
        std::fs::read_to_string(dir.path().join("log")).unwrap(),
        String::from_utf8_lossy(&std::fs::read(dir.path().join("data/directory.redb")).unwrap_or_default()).into_owned(),
    ];
    for secret in [&secret, &new, &controller] {
        let text = secret.expose();
        let body = text.split(':').nth(2).unwrap();
        assert!(shown.iter().all(|s| !s.contains(&body[..12])), "a secret is shown");
    }
    assert!(shown[0].contains("stored, encrypted"), "{}", shown[0]);
    assert!(shown[3].contains("authentication-failed") && shown[3].contains("authenticated"), "{}", shown[3]);
    assert_eq!(std::fs::metadata(dir.path().join("data/secrets.key")).unwrap().mode() & 0o777, 0o600);

    // By reference; a file that others can read is refused, and one that vanishes keeps the host out.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(daemon.cli(&format!("host set me --dhchap-secret-path {}", file.display())).status.code(), Some(2));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    daemon.ok(&format!("host set me --dhchap-secret-path {} --no-dhchap-controller", file.display()));
    assert!(daemon.connect(with(&new, None)).is_ok());
    assert_eq!(daemon.cli("host set me --dhchap-hash md5").status.code(), Some(2));
    std::fs::remove_file(&file).unwrap();
    daemon.ok("volume create w --size 64MiB");
    assert!(failed(daemon.connect(with(&new, None))).contains("authentication failed"));

    // A subsystem that asks for it.
    daemon.ok("host set me --no-dhchap");
    assert!(daemon.connect(None).is_ok());
    daemon.ok("subsystem set default --security authenticated");
    assert!(failed(daemon.connect(None)).contains("0x184"), "a host without a secret");
}
