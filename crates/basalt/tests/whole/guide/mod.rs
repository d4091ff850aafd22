//! The user guide and the README as somebody follows them, command by command, in their order.
//!
//! Each command in a block, and each whole one within a line, is carried out by a daemon that began empty. What the guide cannot know
//! is put in its place ([`PLACES`]); what it takes for granted is done before ([`BEFORE`]); what a single node refuses has to be refused
//! ([`REFUSED`]). Whether commands on all other pages exist is tested beside the command line.

use crate::harness::{Daemon, USUAL};
use crate::watching::used;
use page::{Shown, commands};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

mod page;

/// What stands in the guide, and what is here.
const PLACES: [(&str, &str); 17] = [
    ("replace-device fast /dev/disk/by-id/nvme-B /dev/disk/by-id/nvme-E", "replace-device fast DIR/b DIR/e:20GiB"),
    ("remove-device fast /dev/disk/by-id/nvme-D", "remove-device fast DIR/d"),
    ("/dev/disk/by-id/nvme-D", "DIR/d:20GiB"),
    ("/dev/disk/by-id/nvme-E", "DIR/e:20GiB"),
    // Files in place of drives: sparse, as the guide's volumes are large.
    ("/dev/disk/by-id/nvme-A", "DIR/a:512MiB --sparse"),
    ("/dev/disk/by-id/nvme-B", "DIR/b:500GiB"),
    ("/dev/disk/by-id/nvme-C", "DIR/c:500GiB"),
    ("/srv/cache.img:10GiB", "DIR/cache.img:512MiB --sparse"),
    ("/srv/data.img:1TiB", "DIR/data.img:4TiB"),
    ("basalt config check", "basalt config check DIR/basalt.toml"),
    (":4c4c4544-...", ":4c4c4544-0051-3510-8057-b4c04f4a4e31"),
    (":5c4c4544-...", ":5c4c4544-0051-3510-8057-b4c04f4a4e31"),
    // Reports come until they are ended.
    ("basalt iostat volume 1", "basalt iostat volume 0.1 1"),
    ("basalt iostat host 5 12", "basalt iostat host 0.1 2"),
    ("basalt iostat device 1 --json", "basalt iostat device 0.1 1 --json"),
    // A host's own check has no daemon, and its result depends on the machine.
    ("basalt host check", "basalt host check --help"),
    ("basalt lab run", "basalt lab run --help"),
];

/// What has been there before a command of the README: `make run` has made it.
const BEFORE: [(&str, &str); 1] = [("basalt volume grow demo --size 12GiB", "volume create demo --size 10GiB")];

/// What needs other nodes: the exit status on one, and what is said.
const REFUSED: [(&str, i32, &str); 5] = [
    ("basalt volume set db --policy two", 5, "two"),
    ("basalt volume set db --owner node-2", 4, "node-2"),
    ("basalt volume repair db", 5, "no copy of volume db is away"),
    ("basalt volume recover db --dry-run", 5, "volume db needs no recovery"),
    ("basalt volume recover db", 5, "volume db needs no recovery"),
];

/// The text of a page, by its path in the project.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Does what a page says; gives the commands that were carried out.
fn follow(daemon: &Daemon, name: &str) -> Vec<String> {
    let mut done = Vec::new();
    for shown in commands(&page(name)) {
        let text = shown.text();
        let line = PLACES.iter().fold(text.clone(), |line, (there, here)| line.replace(there, here));
        let line = line.replace("DIR", &daemon.at(""));
        let line = line.strip_prefix("basalt ").unwrap_or("--help");
        for (command, first) in &BEFORE {
            if text.starts_with(command) {
                daemon.ok(first);
            }
        }
        if let Some((_, status, says)) = REFUSED.iter().find(|(command, ..)| *command == text) {
            let said = daemon.fails(line, *status);
            assert!(said.contains(says), "{name}:{}: {text}: {said}", shown.line);
        } else if shown.block {
            let output = daemon.cli(line);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}:{}: {text}: {said}{}", shown.line, daemon.log_tail());
        } else if !runs(daemon, &shown, line) {
            continue;
        }
        done.push(text);
    }
    done
}

/// A command within a line, where it may be no more than a name (usage: 2) or be of an object that is not there (4).
fn runs(daemon: &Daemon, shown: &Shown, line: &str) -> bool {
    let reads = ["status", "list", "show", "audit"];
    let harmless = shown.words.iter().any(|word| reads.contains(&word.as_str())) || shown.words.iter().any(|word| word == "set");
    if !harmless || shown.words.iter().any(|word| word.chars().all(|letter| letter.is_ascii_uppercase())) {
        return false;
    }
    let output = daemon.cli(line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2 | 4)), "line {}: {}: {said}", shown.line, shown.text());
    output.status.success()
}

#[test]
fn the_user_guide_can_be_followed_command_by_command() {
    let daemon = Daemon::started(&USUAL);
    let done = follow(&daemon, "docs/user-guide.md");
    assert!(done.len() >= 50, "commands were found: {}", done.len());
    for (place, command) in [
        "group create fast",
        "group replace-device fast",
        "volume create db",
        "subsystem create esx",
        "policy create bronze",
        "group remove fast",
    ]
    .map(|command| (done.iter().position(|text| text.contains(command)), command))
    {
        assert!(place.is_some(), "basalt {command} was carried out");
    }
    // At its end: what the guide made and did not take away.
    let names = |line: &str| -> BTreeSet<String> {
        let all = daemon.json(line);
        all.as_array().expect("a list").iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert!(names("group list").contains("lab") && !names("group list").contains("fast"), "{:?}", names("group list"));
    assert!(
        names("subsystem list").is_superset(&["default", "esx", "prod", "lab"].map(str::to_owned).into()),
        "{:?}",
        names("subsystem list")
    );
    assert!(names("policy list").is_superset(&["bronze", "safe"].map(str::to_owned).into()), "{:?}", names("policy list"));
}

#[test]
fn the_readme_can_be_followed() {
    let daemon = Daemon::started(&USUAL);
    daemon.ok(&format!("group create demo --sparse --cache {} --capacity {}", daemon.at("a:512MiB"), daemon.at("b:100GiB")));
    let done = follow(&daemon, "README.md");
    assert!(done.iter().any(|text| text.starts_with("basalt volume create second")), "{done:?}");
    assert!(daemon.ok("volume show demo").contains("12 GiB"));
}

#[test]
fn what_the_guide_shows_is_what_is_printed() {
    let daemon = Daemon::started(&USUAL);
    daemon.ok("group create test --cache memory:256MiB --capacity memory:256MiB");
    let guide = page("docs/user-guide.md");
    let from = guide.find("    health: WARNING").expect("the guide shows what status prints");
    let block = guide[from..].lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let expected: Vec<&str> = block.map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(expected.len(), 3, "{expected:?}");
    let printed = daemon.ok("status");
    let mut lines = printed.lines().map(str::trim);
    for line in expected {
        assert!(lines.any(|printed| printed == line), "'{line}', in this order, in\n{printed}");
    }
}

#[test]
fn every_metric_that_the_guide_names_is_served() {
    let daemon = used();
    let guide = page("docs/user-guide.md");
    let families: BTreeSet<&str> = guide.split('`').filter(|code| code.starts_with("basalt_")).collect();
    assert!(families.len() >= 8, "{families:?}");
    let served = daemon.metrics();
    let help =
        |family: &str| served.lines().any(|line| line.strip_prefix("# HELP ").is_some_and(|rest| rest.split(' ').next() == Some(family)));
    let missing: Vec<&&str> = families.iter().filter(|family| !help(family)).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{served}");
}
