use crate::tests::put;
use crate::*;
use std::fs;
use std::path::Path as FilePath;

const TARGET: &str = "iqn.2026-11.io.basalt:default";

/// A session as the shipped settings make it, with one disk, a path of `dm-0`.
fn good_session(root: &FilePath, n: u8, state: &str) {
    let at = format!("sys/class/iscsi_session/session{n}");
    for (name, text) in [("targetname", TARGET), ("state", "LOGGED_IN"), ("recovery_tmo", "1")] {
        put(root, &format!("{at}/{name}"), text);
    }
    let connection = format!("sys/class/iscsi_connection/connection{n}:0");
    let address = format!("192.0.2.{n}");
    for (name, text) in [("persistent_address", address.as_str()), ("persistent_port", "3260"), ("recv_tmo", "2"), ("ping_tmo", "3")] {
        put(root, &format!("{connection}/{name}"), text);
    }
    let unit = format!("{at}/device/target{n}:0:0/{n}:0:0:1");
    let disk = format!("sd{}", char::from(b'a' + n));
    for (name, text) in [("vendor", "BASALT  "), ("wwid", "naa.6123"), ("access_state", state), ("dh_state", "alua")] {
        put(root, &format!("{unit}/{name}"), text);
    }
    put(root, &format!("{unit}/block/{disk}/holders/dm-0/uevent"), "");
}

fn good_host() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, "proc/sys/kernel/osrelease", "6.12.48+deb13-amd64");
    put(root, "sys/class/block/dm-0/dm/uuid", "mpath-36123");
    good_session(root, 1, "active/optimized");
    good_session(root, 2, "active/non-optimized");
    // Those of others are nobody's business.
    put(root, "sys/class/iscsi_session/session3/targetname", "iqn.2003-01.org.linux-iscsi:x");
    put(root, "sys/class/iscsi_session/session3/device/target3:0:0/3:0:0:0/vendor", "LIO-ORG");
    put(root, "sys/class/iscsi_session/session3/device/target3:0:0/3:0:0:0/block/sdx/size", "8");
    dir
}

/// What is to be said, by what it is about.
fn said(root: &FilePath) -> Vec<(Level, String, String)> {
    let host = Host::read(root).unwrap();
    judge(&host).iter().map(|f| f.words(&host)).map(|a| (a.level, a.about, a.what)).collect()
}

#[test]
fn a_host_with_the_shipped_settings_is_read_whole_and_nothing_is_said_of_it() {
    let dir = good_host();
    let host = Host::read(dir.path()).unwrap();
    let [a, b] = &host.sessions[..] else { panic!("two sessions: {host:?}") };
    assert_eq!(host.portals("dm-0"), ["192.0.2.1:3260", "192.0.2.2:3260"]);
    assert_eq!((host.portals("sdb"), host.portals("sdx")), (vec!["192.0.2.1:3260"], vec![]));
    let disk = |name: &str, state: &str| IscsiDisk {
        name: name.into(),
        wwid: Some("naa.6123".into()),
        access_state: Some(state.into()),
        handler: Some("alua".into()),
        map: Some("dm-0".into()),
    };
    let wanted = IscsiSession {
        name: "session1".into(),
        target: TARGET.into(),
        portal: "192.0.2.1:3260".into(),
        state: "LOGGED_IN".into(),
        replacement_timeout_s: Some(1),
        noop_interval_s: Some(2),
        noop_timeout_s: Some(3),
        disks: vec![disk("sdb", "active/optimized")],
    };
    assert_eq!((a, &b.disks[0]), (&wanted, &disk("sdc", "active/non-optimized")));
    assert_eq!(said(dir.path()), []);
}

#[test]
fn each_setting_that_is_not_as_shipped_is_named_with_its_cost() {
    let session = "sys/class/iscsi_session/session1";
    let connection = "sys/class/iscsi_connection/connection1:0";
    let unit = format!("{session}/device/target1:0:0/1:0:0:1");
    let cases: [(String, &str, &str, &str); 6] = [
        (format!("{session}/state"), "FAILED", "session1 (192.0.2.1:3260)", "the session is FAILED"),
        (format!("{session}/recovery_tmo"), "120", "session1 (192.0.2.1:3260)", "replacement_timeout is 120 s"),
        (format!("{connection}/recv_tmo"), "0", "session1 (192.0.2.1:3260)", "noop_out_interval is 0"),
        (format!("{connection}/recv_tmo"), "5", "session1 (192.0.2.1:3260)", "are 8 s together"),
        (format!("{unit}/dh_state"), "detached", "dm-0", "no ALUA handler"),
        (format!("{unit}/access_state"), "transitioning", "dm-0", "no path to it is optimized"),
    ];
    for (at, text, about, what) in cases {
        let dir = good_host();
        put(dir.path(), &at, text);
        let all = said(dir.path());
        assert!(all.iter().any(|a| a.1 == about && a.2.contains(what)), "{at}: {all:?}");
    }
}

#[test]
fn a_volume_without_multipath_is_judged_by_its_disks() {
    let dir = good_host();
    for n in [1, 2] {
        let disk = char::from(b'a' + n);
        fs::remove_dir_all(
            dir.path().join(format!("sys/class/iscsi_session/session{n}/device/target{n}:0:0/{n}:0:0:1/block/sd{disk}/holders")),
        )
        .unwrap();
    }
    let all = said(dir.path());
    assert_eq!(all.iter().filter(|a| a.2.contains("there is no multipath: commands fail")).count(), 2, "{all:?}");
    assert!(all.iter().any(|a| a.0 == Level::Change && a.1 == "sdb, sdc" && a.2.contains("a disk for each path")), "{all:?}");
    // One path that waits long enough is as good as it can be without the other node.
    fs::remove_dir_all(dir.path().join("sys/class/iscsi_session/session2")).unwrap();
    put(dir.path(), "sys/class/iscsi_session/session1/recovery_tmo", "120");
    assert_eq!(said(dir.path()), []);
}

#[test]
fn a_volume_without_any_path_is_found() {
    let dir = good_host();
    put(dir.path(), "sys/class/iscsi_session/session1/state", "FAILED");
    put(dir.path(), "sys/class/iscsi_session/session2/device/target2:0:0/2:0:0:1/access_state", "unavailable");
    let all = said(dir.path());
    assert!(all.iter().any(|a| a.0 == Level::Change && a.1 == "dm-0" && a.2.contains("no path serves it")), "{all:?}");
}

#[test]
fn attributes_that_are_not_there_are_unknown_and_never_good_or_bad() {
    let dir = good_host();
    for at in [
        "sys/class/iscsi_session/session1/recovery_tmo",
        "sys/class/iscsi_connection/connection1:0/recv_tmo",
        "sys/class/iscsi_session/session1/device/target1:0:0/1:0:0:1/access_state",
        "sys/class/iscsi_session/session1/device/target1:0:0/1:0:0:1/dh_state",
    ] {
        fs::remove_file(dir.path().join(at)).unwrap();
    }
    assert_eq!(said(dir.path()), []);
}
