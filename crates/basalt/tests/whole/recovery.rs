//! What is left after more was lost than a cluster survives by itself: a directory that comes back from a backup, and volumes whose copies in sync are gone.

use crate::harness::Daemon;
use crate::harness::load::{Load, assert_clean};
use crate::mirrors::{alone, load_through, make, owner, shows, states, three};
use lab::verified::{self, LoadSpec};
use std::time::Duration;

/// Ends a host, whose requests may have failed, and gives what it wrote.
fn ends(load: Load, node: &Daemon) -> verified::file::Saved {
    let (summary, saved) = load.finish(node);
    assert!(summary.bytes_written > 0 && summary.mismatches == 0, "{summary:?}");
    saved
}

/// All that was written is there, read through a node.
fn is_there(saved: &verified::file::Saved, node: &Daemon) {
    let check = LoadSpec { ops: Some(0), resume: Some(saved.clone()), ..LoadSpec::new(node.options(), 1) };
    let (summary, _) = verified::run(check, |_| ()).expect("the check runs");
    assert_clean(&summary, node);
    assert!(summary.units_checked > 0, "{summary:?}");
}

/// What it says of the cluster's health, well or not.
fn status(node: &Daemon) -> String {
    String::from_utf8(node.cli("status").stdout).expect("text")
}

fn config(node: &Daemon) -> String {
    node.at("basalt.toml")
}

/// The backup is of before the owner died. It calls that node's copy in sync, which lacks what was written since.
#[test]
fn a_backup_of_the_directory_that_is_older_than_the_data_loses_none_of_it() {
    let [mut first, mut second, mut third] = three("two");
    let load = load_through(&third);
    let file = third.at("backup");
    third.ok(&format!("cluster backup {file}"));
    let before = owner(&third);
    first.kill();
    shows(&third, "another node owns it", || (owner(&third) != before).then_some(()));
    std::thread::sleep(Duration::from_secs(3));
    load.assert_running(&third);
    let saved = ends(load, &third);
    [&mut second, &mut third].into_iter().for_each(Daemon::stop);
    // What has owned it has had later lives than the backup knows.
    for _ in 0..2 {
        std::thread::scope(|scope| {
            // Neither serves without the other: it takes two for a quorum.
            scope.spawn(|| second.start());
            third.start();
        });
        shows(&third, "it is served", || (third.json("volume show v")["state"] != "offline").then_some(()));
        [&mut second, &mut third].into_iter().for_each(Daemon::stop);
    }

    let said = third.ok(&format!("cluster restore {file} --config {}", config(&third)));
    let from = said.trim().rsplit(' ').next().expect("where it is").to_owned();
    for node in [&first, &second] {
        node.ok(&format!("cluster restore --from {from} --config {}", config(node)));
    }
    third.start();
    first.start();
    // With what the backup says the first node would serve it.
    shows(&third, "it is said why it waits", || status(&third).contains("has not said yet which copies it has").then_some(()));
    assert!(third.ok("volume show v").contains("restored from a backup"));
    second.start();
    let is_online = |at: &Daemon| at.json("volume show v")["state"] == "online";
    shows(&third, "it is in sync", || (is_online(&third) && states(&third) == ["active", "active"]).then_some(()));
    is_there(&saved, &third);
    second.kill();
    shows(&third, "the first owns it", || (owner(&third) == before).then_some(()));
    is_there(&saved, &third);
    [&mut third, &mut first].into_iter().for_each(Daemon::stop);
}

/// The witness is lost, and then a node: there is no majority, and one copy. An administrator goes on with that.
#[test]
fn one_node_of_two_goes_on_when_the_witness_and_the_other_node_are_lost() {
    let (mut a, mut b, mut w) = (alone("a", ""), alone("b", ""), alone("w", ""));
    a.create_cluster();
    b.join(&a, "");
    w.join_as_witness(&a);
    a.wait_voters(3);
    for (name, node) in [("ga", &a), ("gb", &b)] {
        node.ok(&format!(
            "group create {name} --sparse --shards 1 --cache {}:256MiB --capacity {}:4GiB",
            node.at("cache"),
            node.at("capacity")
        ));
    }
    a.ok("policy create two --failures-to-tolerate 1");
    make(&a, "v", "two");
    let load = load_through(&b);
    w.kill();
    std::thread::sleep(Duration::from_secs(1));
    load.assert_running(&b);
    a.kill();
    std::thread::sleep(Duration::from_secs(2));
    let saved = ends(load, &b);

    // There is no backup but what its member of etcd has.
    b.stop();
    // One that fails leaves all as it was.
    let text = std::fs::read_to_string(config(&b)).expect("its configuration");
    let other: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with("etcd_programs") { "etcd_programs = \"/nowhere\"".into() } else { line.into() })
        .collect();
    std::fs::write(b.path("other.toml"), other.join("\n")).expect("a file");
    assert!(b.fails(&format!("cluster restore --own --config {}", b.at("other.toml")), 1).contains("etcd-client"));
    b.ok(&format!("cluster restore --own --config {}", config(&b)));
    b.start();
    shows(&b, "it is said why it waits", || status(&b).contains("basalt volume recover v").then_some(()));
    let plan = b.ok("volume recover v --dry-run");
    assert!(plan.contains("given up") && plan.contains("kept"), "{plan}");
    b.ok("volume recover v --yes");
    is_there(&saved, &b);
    let audit = b.ok("audit");
    assert!(audit.contains("/volumes/v/recovery"), "{audit}");
    assert!(b.fails("volume recover v --yes", 5).contains("needs no recovery"));
    b.stop();
}
