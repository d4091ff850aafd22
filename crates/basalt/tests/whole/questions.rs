//! What a person on a terminal is asked: commands that destroy something, or cut hosts off, ask first, and a "no" changes nothing.
//!
//! Invariant: each command runs on a pseudo-terminal of its own, as a shell would start it.

use crate::harness::{BASALT, Daemon, USUAL, ended};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// A terminal: the end of the person, and that of the program.
fn terminal() -> (File, OwnedFd) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
    grantpt(&person).expect("it is granted");
    unlockpt(&person).expect("it is unlocked");
    let name = ptsname(&person, Vec::new()).expect("its name");
    let program = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("its other end");
    (person.into(), program)
}

/// `basalt LINE` on a terminal on which somebody types `answer`: its exit code, and what stands on the terminal then.
fn typed(daemon: &Daemon, line: &str, answer: &str) -> (Option<i32>, String) {
    let (mut person, program) = terminal();
    person.write_all(format!("{answer}\n").as_bytes()).expect("it is typed");
    let mut command = Command::new(BASALT);
    command.arg("--api").arg(daemon.path("data/api.sock")).args(line.split_whitespace());
    command.stdin(program.try_clone().expect("a copy")).stderr(program).stdout(Stdio::null());
    let status = ended(command.spawn().expect("the command runs"));
    // The program's end is closed by now, so reading ends: with an error, as Linux has it.
    drop(command);
    let mut said = Vec::new();
    let _ = person.read_to_end(&mut said);
    (status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// All that a "no" must not change.
fn everything(daemon: &Daemon) -> Vec<serde_json::Value> {
    ["group list", "policy list", "volume list", "subsystem list", "host list"].iter().map(|line| daemon.json(line)).collect()
}

/// A daemon with something to lose.
fn furnished() -> Daemon {
    let daemon = Daemon::started(&USUAL);
    daemon.ok("group create g --cache memory:256MiB --capacity memory:512MiB");
    daemon.ok("policy create p --iops-limit 1000");
    daemon.ok("volume create v --size 64MiB");
    daemon.ok("volume create d --size 64MiB --detached");
    daemon.ok("host add h nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8054-b2c04f595331");
    daemon.ok("host add i iqn.1998-01.com.vmware:esx1");
    daemon.ok("subsystem create s --iscsi --host h --host i");
    daemon.ok("host set h --dhchap-generate");
    daemon.ok("host set h --dhchap-controller-generate");
    daemon.ok("host set h --tls-psk-generate");
    daemon.ok("host set h --tls-psk-generate --tls-subsystem s");
    daemon.ok("host set i --chap-generate");
    daemon.ok("host set i --chap-target-generate");
    daemon
}

#[test]
fn what_destroys_or_cuts_off_asks_on_a_terminal_and_no_changes_nothing() {
    let daemon = furnished();
    let held = daemon.path("held");
    let content = [[7u8; 4096].as_slice(), &vec![0; 1 << 20]].concat();
    fs::write(&held, &content).expect("it is written");
    File::options().write(true).open(&held).and_then(|f| f.set_len(512 << 20)).expect("it is long enough");
    let create = format!("group create g2 --cache memory:256MiB --capacity {} --shards 1 --force", held.display());
    let before = everything(&daemon);
    for (line, words) in [
        (create.as_str(), "Destroy what the devices of disk group g2 hold?"),
        ("group remove g", "Remove disk group g?"),
        ("group remove g --force", "and every volume on it"),
        ("policy delete p", "Delete policy p?"),
        ("volume delete d", "Delete volume d and all its data?"),
        ("volume delete d --force", "Delete volume d and all its data?"),
        ("volume set v --read-only on", "Refuse all writes to volume v"),
        ("volume shrink d --size 32MiB --force", "Cut off and lose"),
        ("volume clear-reservation v", "Remove all registrants"),
        ("subsystem deny s h", "disconnect it?"),
        ("subsystem deny default --any", "disconnect the others?"),
        ("subsystem set s --no-iscsi", "over iSCSI?"),
        ("subsystem set s --iqn iqn.2026-11.com.example:other", "over iSCSI, and take the name"),
        ("subsystem set s --security authenticated", "that have not proved who they are?"),
        ("subsystem set default --security encrypted", "that are not encrypted?"),
        ("subsystem detach default v", "Take volume v from the hosts"),
        ("subsystem delete s", "Delete subsystem s?"),
        ("host set h --no-dhchap", "Take all DH-HMAC-CHAP secrets of host h away?"),
        ("host set h --no-dhchap-controller", "Take the controller's secret for host h away?"),
        ("host set h --no-tls-psk", "Take all TLS keys of host h away?"),
        ("host set i --no-chap", "Take the CHAP secrets of host i away?"),
        ("host set i --no-chap-target", "Take the targets' CHAP secret for host i away?"),
        ("host set h --dhchap-generate", "Replace the DH-HMAC-CHAP secret of host h?"),
        ("host set h --dhchap-controller-generate", "Replace the controller's secret for host h?"),
        ("host set h --tls-psk-generate", "Replace the TLS key of host h?"),
        ("host set h --tls-psk-generate --tls-subsystem s", "Replace the TLS key of host h?"),
        ("host set i --chap-generate", "Replace the CHAP secret of host i?"),
        ("host set i --chap-user esx1", "Replace the CHAP user name of host i?"),
        ("host set i --chap-target-generate", "Replace the targets' CHAP secret for host i?"),
        ("host set i --chap-target-user other", "Replace the targets' CHAP user name for host i?"),
        ("host remove h", "Take the name from host h"),
        ("cluster join x --address 127.0.0.1:1 --destroy", "Destroy the disk groups and volumes"),
        ("node remove x", "Remove node x"),
        ("cluster restore /nowhere", "Put what the backup says"),
    ] {
        for answer in ["no", "", "\u{4}", "yess"] {
            let (code, said) = typed(&daemon, line, answer);
            assert!(said.contains(words) && said.contains("[y/N]") && said.contains("nothing was done"), "{line}, {answer:?}: {said}");
            assert_eq!(code, Some(1), "{line}, {answer:?}: {said}");
            if !line.contains("--force") {
                break;
            }
        }
    }
    assert_eq!(everything(&daemon), before);
    assert_eq!(fs::read(&held).expect("it is there")[..content.len()], content, "nothing was written to the device");
    // What cuts nobody off, and what is answered before, is not asked about.
    for line in [
        "subsystem set s --security plain",
        "volume show v --json",
        "subsystem set s --iscsi",
        "volume set d --read-only on",
        "volume set v --read-only off",
        "volume set v --read-only on --yes",
        "volume set v --read-only on",
        "volume delete d --yes",
        "host set h --dhchap-hash sha512",
        "host set h --tls-psk-generate --tls-subsystem default",
        "host set h --dhchap-generate --yes",
        "host set i --no-chap-target --yes",
        "host set i --chap-target-generate",
        create.as_str(),
    ] {
        let line = if line == create { format!("{line} --yes") } else { line.to_owned() };
        let (code, said) = typed(&daemon, &line, "no");
        assert!(code == Some(0) && !said.contains("[y/N]"), "{line}: {code:?} {said}");
    }
    // And a yes is one.
    let (code, said) = typed(&daemon, "subsystem deny s h", "y");
    assert!(code == Some(0) && said.contains("[y/N]"), "{code:?} {said}");
    assert_eq!(daemon.json("subsystem show s")["hosts"].as_array().map(Vec::len), Some(1));
}
