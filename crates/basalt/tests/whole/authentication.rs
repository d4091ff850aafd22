//! In-band authentication from end to end: secrets set by the command line, kept over a restart, shown nowhere; hosts right and wrong.

use crate::harness::{Daemon, Setup, USUAL, kept_out, let_in};
use initiator::{Controller, ControllerOptions, Credentials, DhGroup, Error, HashId, Secret};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

impl Daemon {
    fn connect(&self, credentials: Option<Credentials>) -> Result<Controller, Error> {
        let_in(ControllerOptions { credentials, ..self.options() })
    }
    fn refused(&self, credentials: Option<Credentials>) -> String {
        kept_out(ControllerOptions { credentials, ..self.options() })
    }
}

#[test]
fn hosts_authenticate_with_what_the_command_line_sets_and_no_secret_is_shown() {
    let mut daemon = Daemon::started(&Setup { more: "log = { level = \"debug\" }", ..USUAL });
    daemon.group_on_files(2, "256MiB", "512MiB");
    daemon.ok("volume create v --size 64MiB");
    let host = daemon.options().host.nqn;
    daemon.ok(&format!("host add me {host}"));
    assert!(daemon.connect(None).is_ok(), "nothing is asked for yet");

    let text = daemon.ok("host set me --dhchap-generate --hash 384");
    let secret = Secret::parse(&text).unwrap();
    assert_eq!(secret.transform(), Some(HashId::Sha384));
    let wrong = Secret::generate(HashId::Sha256, &mut |out| out.fill(7));
    let with = |secret: &Secret, controller: Option<&Secret>| Some(Credentials::new(secret.clone(), controller.cloned()));
    assert!(daemon.refused(None).contains("we have no secret"));
    assert!(daemon.refused(with(&wrong, None)).contains("the controller refused us: authentication failed"));
    assert!(daemon.refused(with(&secret, Some(&wrong))).contains("the controller refused us"), "it has no secret of its own");
    let mut live = daemon.connect(with(&secret, None)).unwrap();

    // Mutual, with every hash and some groups.
    let controller = Secret::parse(&daemon.ok("host set me --dhchap-controller-generate")).unwrap();
    let reported = daemon.refused(with(&secret, Some(&wrong)));
    assert!(reported.contains("the controller is refused"), "{reported}");
    for hash in HashId::ALL {
        for group in [DhGroup::Null, DhGroup::Ffdhe2048, DhGroup::Ffdhe8192] {
            daemon.ok(&format!("host set me --dhchap-hash {} --dhchap-group {}", hash.name(), group.name()));
            daemon.connect(with(&secret, Some(&controller))).unwrap();
        }
    }
    let only = Credentials { groups: vec![DhGroup::Ffdhe4096], ..with(&secret, None).unwrap() };
    assert!(daemon.refused(Some(only)).contains("no common DH group"));
    daemon.ok("host set me --dhchap-hash usual --dhchap-group usual");

    // A new secret, from a file: the live connection stays and proves itself again.
    let new = Secret::generate(HashId::Sha512, &mut |out| out.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8));
    let file = daemon.path("new.key");
    std::fs::write(&file, new.expose().as_str()).unwrap();
    daemon.ok(&format!("host set me --dhchap-secret-file {}", file.display()));
    assert!(live.namespaces().is_ok(), "who is in stays in");
    live.authenticate_again(with(&new, Some(&controller)).unwrap()).unwrap();
    assert!(live.namespaces().is_ok());
    assert!(daemon.refused(with(&secret, None)).contains("authentication failed"));
    assert!(live.authenticate_again(with(&secret, None).unwrap()).is_err());
    drop(live);

    // What a restart finds, and what is to be seen of it.
    daemon.kill_and_start();
    assert!(daemon.connect(with(&new, Some(&controller))).is_ok());
    let shown = [
        daemon.ok("host show me"),
        daemon.ok("host show me --json"),
        daemon.ok("host list --json"),
        daemon.ok("audit --json"),
        daemon.log(),
        String::from_utf8_lossy(&std::fs::read(daemon.path("data/directory.redb")).unwrap_or_default()).into_owned(),
    ];
    for secret in [&secret, &new, &controller] {
        let text = secret.expose();
        let body = text.split(':').nth(2).unwrap();
        assert!(shown.iter().all(|s| !s.contains(&body[..12])), "a secret is shown");
    }
    assert!(shown[0].contains("stored, encrypted"), "{}", shown[0]);
    assert!(shown[3].contains("authentication-failed") && shown[3].contains("authenticated"), "{}", shown[3]);
    assert_eq!(std::fs::metadata(daemon.path("data/secrets.key")).unwrap().mode() & 0o777, 0o600);

    // By reference; a file that others can read is refused, and one that vanishes keeps the host out.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    daemon.fails(&format!("host set me --dhchap-secret-path {}", file.display()), 2);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    daemon.ok(&format!("host set me --dhchap-secret-path {} --no-dhchap-controller", file.display()));
    assert!(daemon.connect(with(&new, None)).is_ok());
    daemon.fails("host set me --dhchap-hash md5", 2);
    std::fs::remove_file(&file).unwrap();
    daemon.ok("volume create w --size 64MiB");
    assert!(daemon.refused(with(&new, None)).contains("authentication failed"));

    // A subsystem that asks for it.
    daemon.ok("host set me --no-dhchap");
    assert!(daemon.connect(None).is_ok());
    daemon.ok("subsystem set default --security authenticated");
    assert!(daemon.refused(None).contains("0x184"), "a host without a secret");
}
