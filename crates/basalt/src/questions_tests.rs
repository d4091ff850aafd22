use super::*;
use crate::cli::{Cli, Command, HostCommand};
use clap::Parser;
use control::api::types::{Chap, Dhchap, RecoveryCopy, Security, Session, TlsPsk};

fn subsystem(security: Security, iqn: Option<&str>) -> Subsystem {
    Subsystem {
        nqn: "nqn.x".into(),
        iqn: iqn.map(str::to_owned),
        name: "s".into(),
        serial: String::new(),
        allow_any_host: true,
        hosts: vec![],
        namespaces: vec![],
        sessions: 0,
        created_unix_s: 0,
        security,
        namespace_grant: None,
    }
}

/// A person is asked when hosts are cut off, and only then.
#[test]
fn a_change_of_a_subsystem_is_asked_about_when_it_disconnects_hosts() {
    let with = |security| SubsystemChange { security: Some(security), ..SubsystemChange::default() };
    let asked = |now: &Subsystem, change: &SubsystemChange| of_subsystem(now, change);
    let plain = subsystem(Security::Plain, None);
    assert!(asked(&plain, &with(Security::Authenticated)).is_some_and(|q| q.contains("proved who they are")));
    assert!(asked(&plain, &with(Security::Encrypted)).is_some_and(|q| q.contains("not encrypted")));
    assert_eq!(asked(&plain, &with(Security::Plain)), None);
    assert_eq!(asked(&subsystem(Security::Encrypted, None), &with(Security::Authenticated)), None);
    let iscsi = |on, iqn: Option<&str>| SubsystemChange { iscsi: on, iqn: iqn.map(str::to_owned), ..SubsystemChange::default() };
    let served = subsystem(Security::Plain, Some("iqn.a"));
    assert!(asked(&served, &iscsi(Some(false), None)).is_some_and(|q| q.contains("over iSCSI")));
    assert!(asked(&served, &iscsi(None, Some("iqn.b"))).is_some_and(|q| q.contains("iqn.a")));
    for (now, change) in [(&served, iscsi(None, Some("iqn.a"))), (&plain, iscsi(None, Some("iqn.b"))), (&plain, iscsi(Some(false), None))] {
        assert_eq!(asked(now, &change), None);
    }
    let both = SubsystemChange { security: Some(Security::Authenticated), ..iscsi(Some(false), None) };
    assert_eq!(asked(&served, &both).unwrap().matches('?').count(), 2);
}

/// A host with the secrets and keys that are named, connected by `sessions`.
fn host(with: &[&str], sessions: &[Protocol]) -> Host {
    let has = |what: &str| with.contains(&what);
    let kept = || "in the directory".to_owned();
    let session = |protocol: &Protocol| Session {
        node: String::new(),
        protocol: *protocol,
        host_nqn: String::new(),
        host: None,
        subsystem_nqn: String::new(),
        address: String::new(),
        controller: 1,
        io_queues: 1,
        encrypted: false,
        connected_s: 1,
    };
    let chap = || Chap {
        user: "u".into(),
        secret: kept(),
        target_user: has("target").then(|| "basalt".into()),
        target_secret: has("target").then(kept),
    };
    let dhchap = || Dhchap { host_secret: kept(), controller_secret: has("controller").then(kept), hashes: vec![], groups: vec![] };
    let keys = [("key", None), ("key of s", Some("nqn.s".to_owned()))].into_iter().filter(|(name, _)| has(name));
    Host {
        nqn: String::new(),
        name: None,
        allowed: vec![],
        dhchap: has("dhchap").then(dhchap),
        chap: has("chap").then(chap),
        tls_psks: keys.map(|(_, subsystem)| TlsPsk { subsystem, psk: kept() }).collect(),
        sessions: sessions.iter().map(session).collect(),
    }
}

/// What `basalt host set h LINE` asks when the host is so.
fn asked(line: &str, now: &Host) -> String {
    let cli = Cli::try_parse_from(["basalt", "host", "set", "h"].into_iter().chain(line.split(' '))).unwrap();
    let Command::Host(HostCommand::Set { host, dhchap, tls, chap, .. }) = cli.command else { unreachable!("it is host set") };
    let key_for = tls.tls_subsystem.as_ref().map(|s| format!("nqn.{s}"));
    of_host(&host, now, &dhchap, &tls, key_for.as_deref(), &chap).unwrap_or_default()
}

/// A first secret is asked about where it cuts off somebody who is connected, another one always.
#[test]
fn a_change_of_secrets_is_asked_about_when_a_host_may_be_refused_then() {
    use Protocol::{Iscsi, NvmeTcp};
    let (bare, nothing): (&[&str], &[Protocol]) = (&[], &[]);
    for (line, with, sessions, words) in [
        ("--dhchap-generate", bare, nothing, ""),
        ("--dhchap-generate", &[], &[Iscsi], ""),
        ("--dhchap-generate", &[], &[NvmeTcp], "h, which is connected"),
        ("--dhchap-generate", &["dhchap"], &[NvmeTcp], "Replace the DH-HMAC-CHAP secret of host h?"),
        ("--dhchap-secret-path /x", &["dhchap"], nothing, "Replace the DH-HMAC-CHAP"),
        ("--dhchap-secret-file /x", &["dhchap"], nothing, "Replace the DH-HMAC-CHAP"),
        ("--dhchap-controller-generate", &["dhchap"], &[NvmeTcp], ""),
        ("--dhchap-controller-secret-path /x", &["dhchap", "controller"], nothing, "Replace the controller's secret for host h?"),
        ("--dhchap-hash sha512", &["dhchap", "controller"], &[NvmeTcp], ""),
        ("--tls-psk-generate", &[], &[NvmeTcp], ""),
        ("--tls-psk-generate", &["key of s"], nothing, ""),
        ("--tls-psk-generate", &["key"], nothing, "Replace the TLS key of host h?"),
        ("--tls-psk-path /x --tls-subsystem s", &["key"], nothing, ""),
        ("--tls-psk-path /x --tls-subsystem s", &["key", "key of s"], nothing, "Replace the TLS key"),
        ("--chap-generate", &[], &[NvmeTcp], ""),
        ("--chap-generate", &[], &[Iscsi], "connect again only with a CHAP secret?"),
        ("--chap-secret-path /x", &["chap"], nothing, "Replace the CHAP secret of host h?"),
        ("--chap-user u", &["chap"], &[Iscsi], ""),
        ("--chap-user v", &["chap"], &[Iscsi], "Replace the CHAP user name of host h?"),
        ("--chap-target-generate", &["chap"], &[Iscsi], ""),
        ("--chap-target-generate", &["chap", "target"], nothing, "Replace the targets' CHAP secret for host h?"),
        ("--chap-target-user basalt", &["chap", "target"], nothing, ""),
        ("--chap-target-user other", &["chap", "target"], nothing, "Replace the targets' CHAP user name for host h?"),
    ] {
        let said = asked(line, &host(with, sessions));
        assert!(said.contains(words) && (said.is_empty() == words.is_empty()), "{line} with {with:?}, {sessions:?}: {said}");
    }
    let both = asked("--chap-generate --chap-user v", &host(&["chap"], nothing));
    assert_eq!(both.matches('?').count(), 2, "{both}");
}

/// A person reads what is lost, then which copies the volume goes on with and which are given up, each node once.
#[test]
fn a_recovery_says_what_is_lost_and_with_what_it_goes_on() {
    let copy = |node: &str, mirror, becomes| RecoveryCopy { node: node.into(), mirror, state: String::new(), becomes };
    let plan = Recovery {
        volume: "db".into(),
        restored: false,
        copies: vec![
            copy("b", 0, RecoveredCopy::Kept),
            copy("a", 0, RecoveredCopy::GivenUp),
            copy("b", 1, RecoveredCopy::Kept),
            copy("c", 1, RecoveredCopy::Follows),
        ],
        losses: vec!["one loss".into(), "another".into()],
        plan: String::new(),
    };
    let expected = "  one loss\n  another\nGo on with what node b has of volume db? What node a has of it is given up.";
    assert_eq!(of_recovery(&plan), expected);
    let none_gone = Recovery { copies: vec![copy("b", 0, RecoveredCopy::Kept)], losses: vec![], ..plan };
    assert_eq!(of_recovery(&none_gone), "Go on with what node b has of volume db?");
}

/// Each way to another directory loses something else.
#[test]
fn a_restore_says_what_is_lost_with_this_way() {
    let asked = |args: &[&str]| {
        let cli = Cli::try_parse_from(["basalt", "cluster", "restore"].iter().chain(args)).unwrap();
        let Command::Cluster(crate::cli::ClusterCommand::Restore { from, .. }) = cli.command else { panic!("another command") };
        of_restore(&from)
    };
    assert!(asked(&["backup.db"]).contains("backup"));
    assert!(asked(&["--own"]).contains("this node's member of etcd"));
    assert!(asked(&["--from", "10.0.0.1:7421"]).contains("10.0.0.1:7421"));
    assert!(asked(&["--external"]).contains("external etcd"));
}
