//! What commands print, in every format; what a shell completes while a daemon runs.

use crate::harness::{BASALT, Daemon, USUAL};
use std::process::Command;

/// Commands that show something, and need nothing but a daemon with a group `g`, a volume `db` and a host `kvm1`.
const SHOWING: [&str; 22] = [
    "status",
    "cluster status",
    "node list",
    "drive list",
    "group list",
    "group show g",
    "policy list",
    "policy show default",
    "volume list",
    "volume show db",
    "subsystem list",
    "subsystem show default",
    "host list",
    "host show kvm1",
    "audit",
    "iostat",
    "iostat device",
    "top host 0.1 1",
    "lab profiles",
    "lab study",
    "lab list --results DIR/none",
    "config check DIR/basalt.toml",
];

fn daemon() -> Daemon {
    let daemon = Daemon::started(&USUAL);
    daemon.ok("group create g --cache memory:256MiB --capacity memory:512MiB");
    daemon.ok("volume create db --size 64MiB");
    daemon.ok("host add kvm1 nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8057-b4c04f4a4e31");
    daemon
}

#[test]
fn every_command_that_shows_something_prints_in_every_format() {
    let daemon = daemon();
    for line in SHOWING.map(|line| line.replace("DIR", &daemon.at(""))) {
        for format in ["table", "wide"] {
            let said = daemon.ok(&format!("{line} -o {format}"));
            assert!(!said.trim().is_empty() && !said.contains('\x1b'), "{line} -o {format}: {said}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&daemon.ok(&format!("{line} -o json"))).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(json.is_array() || json.is_object(), "{line}: {json}");
        let yaml = daemon.ok(&format!("{line} -o yaml"));
        assert!(yaml.starts_with("- ") || yaml.starts_with("---\n") || yaml.contains(": ") || yaml == "[]\n", "{line}: {yaml}");
        daemon.ok(&format!("{line} -q --no-headers"));
    }
    assert_eq!(daemon.ok("volume list -q"), "db\n");
    assert_eq!(daemon.ok("volume show db -q"), "db\n");
    assert_eq!(daemon.ok("host list -q"), "kvm1\n");
    assert_eq!(daemon.ok("status -q").trim(), daemon.json("status")["health"].as_str().expect("a word"));
    assert!(daemon.ok("volume list").starts_with("NAME  ") && daemon.ok("volume list --no-headers").starts_with("db  "));
    assert!(daemon.ok("volume list -o wide").contains("  OWNER  ") && !daemon.ok("volume list").contains("OWNER"));
    assert!(daemon.ok("policy show default -o yaml").contains("\nname: default\n"));
    daemon.ok("volume delete db --yes");
    assert_eq!(daemon.ok("volume list --no-headers"), "");
    assert_eq!(daemon.ok("volume create logs --size 64MiB -q"), "logs\n");
    daemon.fails("volume list --json -o yaml", 2);
    assert!(daemon.ok("help volume create").contains("--grow-max"));
    let said = daemon.fails("drive show /dev/none", 4);
    assert!(said.contains("there is no drive") && said.contains("basalt drive list"), "{said}");
}

#[test]
fn a_shell_is_offered_the_names_that_the_daemon_knows() {
    let daemon = daemon();
    let offered = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = Command::new(BASALT);
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string()).env("_CLAP_IFS", "\n");
        command.env("BASALT_API", daemon.path("data/api.sock")).arg("--").args(&words);
        let output = command.output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    for (line, name) in [
        ("basalt volume show ", "db"),
        ("basalt volume create x --policy ", "default"),
        ("basalt subsystem attach ", "default"),
        ("basalt subsystem attach default d", "db"),
        ("basalt subsystem allow default k", "kvm1"),
        ("basalt group show ", "g"),
        ("basalt host show k", "kvm1"),
    ] {
        assert!(offered(line).lines().any(|one| one == name), "{line}: {}", offered(line));
    }
    // Nobody answers: nothing is said, nothing is offered.
    assert_eq!(offered("basalt --api /nowhere/api.sock volume show d"), "");
}
