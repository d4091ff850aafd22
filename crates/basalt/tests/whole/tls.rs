//! TLS from end to end: keys set by the command line, verified load over TLS, hosts that come with a wrong key, a wrong name or in plain.

use crate::harness::{Daemon, Setup, USUAL, kept_out, let_in};
use initiator::{ControllerOptions, Digests, TlsOptions};
use lab::verified::{self, LoadSpec};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tls::{ConfiguredPsk, Derivation, Hash};

impl Daemon {
    /// To the listener for everything (0), or to the one for TLS only (1).
    fn over(&self, listener: usize, tls: Option<TlsOptions>) -> ControllerOptions {
        ControllerOptions { addr: self.addrs("io")[listener], tls, ..self.options() }
    }
}

#[test]
fn hosts_connect_over_tls_with_what_the_command_line_sets_and_no_key_is_shown() {
    let listeners = "{ addr = \"127.0.0.1:0\" }, { addr = \"127.0.0.1:0\", security = \"encrypted\" }";
    let mut daemon = Daemon::started(&Setup { listeners, more: "log = { level = \"debug\" }", ..USUAL });
    daemon.group_on_files(2, "256MiB", "512MiB");
    daemon.ok("volume create v --size 64MiB");
    let host = daemon.options().host.nqn;
    daemon.ok(&format!("host add me {host}"));
    let text = daemon.ok("host set me --tls-psk-generate --hash 384");
    let key = ConfiguredPsk::parse(&text).unwrap();
    assert_eq!(key.hash(), Hash::Sha384);
    let right = TlsOptions::new(key.clone());

    // Both hashes and identities, every derivation in the field, both listeners.
    for (version, derivation) in [(1, Derivation::Standard), (0, Derivation::Libnvme), (0, Derivation::LibnvmeContextOnly)] {
        let tls = TlsOptions { version, derivation, ..right.clone() };
        for listener in [0, 1] {
            let_in(daemon.over(listener, Some(tls.clone()))).unwrap();
        }
    }
    let other_suite = TlsOptions { hash: Some(Hash::Sha256), version: 0, ..right.clone() };
    let_in(daemon.over(0, Some(other_suite))).unwrap();

    // Verified load: every read is checked, and all is read back at the end.
    for digests in [Digests::default(), Digests { header: true, data: true }] {
        let target = ControllerOptions { digests, ..daemon.over(0, Some(right.clone())) };
        let mut spec = LoadSpec::new(target, 1);
        (spec.time, spec.queues, spec.depth) = (Duration::from_secs(2), 2, 16);
        spec.before = verified::Before::Unknown;
        let (summary, _) = verified::run(spec, |_| {}).unwrap();
        assert!(summary.is_clean() && summary.units_checked > 0, "{:?}", summary.reports);
    }
    let live = let_in(daemon.over(0, Some(right.clone()))).unwrap();
    assert!(daemon.ok("host show me --json").replace(' ', "").contains("\"encrypted\":true"));

    // Who comes with something else.
    let wrong = TlsOptions::new(ConfiguredPsk::generate(Hash::Sha384).unwrap());
    let reported = kept_out(daemon.over(0, Some(wrong.clone())));
    assert!(reported.contains("knows no key for this identity"), "{reported}");
    let same_name = TlsOptions { version: 0, ..wrong };
    let reported = kept_out(daemon.over(0, Some(same_name)));
    assert!(reported.contains("its key is another one"), "{reported}");
    let reported = kept_out(daemon.over(0, Some(TlsOptions { name: Some("nqn.2014-08.com.example:other".into()), ..right.clone() })));
    assert!(reported.contains("knows no key for this identity"), "{reported}");
    assert!(let_in(daemon.over(0, None)).is_ok(), "plain is let in where nothing else is asked for");
    assert!(let_in(daemon.over(1, None)).is_err(), "but not where only TLS is served");
    let mut garbage = TcpStream::connect(daemon.addrs("io")[1]).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    garbage.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(garbage.read(&mut [0; 64]), Ok(0) | Err(_)), "closed without a word");

    daemon.ok("subsystem set default --security encrypted");
    assert!(kept_out(daemon.over(0, None)).contains("0x184"), "a plain host");
    assert!(live.namespaces().is_ok(), "who came over TLS stays");
    drop(live);

    // A key of another host under this one's name: the Connect command must say what the key says.
    let second = "nqn.2014-08.com.example:second";
    daemon.ok(&format!("host add you {second}"));
    let file = daemon.path("you.psk");
    std::fs::write(&file, &*ConfiguredPsk::generate(Hash::Sha256).unwrap().to_interchange()).unwrap();
    daemon.ok(&format!("host set you --tls-psk-file {}", file.display()));
    let yours = TlsOptions::new(ConfiguredPsk::parse(&std::fs::read_to_string(&file).unwrap()).unwrap());
    let reported = kept_out(daemon.over(0, Some(TlsOptions { name: Some(second.into()), ..yours })));
    assert!(reported.contains("0x182"), "{reported}");

    // What a restart finds, and what is to be seen of it.
    daemon.kill_and_start();
    let_in(daemon.over(0, Some(right.clone()))).unwrap();
    let shown = [
        daemon.ok("host show me"),
        daemon.ok("host list --json"),
        daemon.ok("audit --json"),
        daemon.log(),
        String::from_utf8_lossy(&std::fs::read(daemon.path("data/directory.redb")).unwrap_or_default()).into_owned(),
    ];
    let body = text.split(':').nth(2).unwrap();
    assert!(shown.iter().all(|s| !s.contains(&body[..12])), "a key is shown");
    assert!(shown[0].contains("for all: stored, encrypted") && shown[2].contains("authentication-failed"), "{}", shown[0]);

    // A key for one subsystem; none at all.
    daemon.ok("subsystem create other --allow-any-host");
    daemon.ok("host set me --no-tls-psk");
    daemon.ok("host set me --tls-psk-generate --tls-subsystem other");
    assert!(let_in(daemon.over(0, Some(right))).is_err());
    daemon.fails("host set me --tls-psk-generate --hash 512", 1);
}
