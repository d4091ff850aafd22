//! A volume in use is laid out anew with other stripes: real daemons, of which some die meanwhile, under verified load.

use crate::harness::turn::Subject;
use crate::harness::{Daemon, until_or};
use crate::mirrors::{cluster_of, load_is_right, load_through, make};
use std::time::Duration;

/// The stripes of the volume; `None`: it is laid out anew.
fn stripes(at: &Daemon) -> Option<u64> {
    let shown = at.json("volume show v");
    let of = |c: &serde_json::Value| c["stripe"].as_u64().expect("a number") + 1;
    let stripes = shown["components"].as_array().expect("a list").iter().map(of).max().unwrap_or(0);
    shown["moving"].is_null().then_some(stripes)
}

fn has_stripes(at: &Daemon, wanted: u64) {
    until_or(&format!("it has {wanted} stripes"), || at.json("volume show v").to_string(), || (stripes(at)? == wanted).then_some(()));
}

/// The copying has begun, and goes on for as long as the pace says.
fn is_copied(at: &Daemon) {
    let percent = || at.json("volume show v")["moving"]["percent"].as_u64();
    until_or("it is copied", || at.json("volume show v").to_string(), percent);
}

#[test]
fn a_volume_of_one_node_gets_stripes_and_loses_them_while_a_host_goes_on_and_the_daemon_is_killed() {
    let mut daemon = Daemon::kept(Subject::Faults, "");
    let capacity: String = (0..4).map(|n| format!(" --capacity {}:1GiB", daemon.at(&format!("capacity{n}")))).collect();
    daemon.ok(&format!("group create g --shards 2 --cache {}:512MiB{capacity}", daemon.at("cache")));
    daemon.ok("volume create v --size 256MiB");
    daemon.ok("policy create wide --stripe-width 4");
    daemon.ok("policy create wider --stripe-width 5");
    let refused = daemon.fails("volume set v --policy wider", 5);
    assert!(refused.contains("stripe width = 5 needs 5 capacity devices"), "{refused}");
    let load = load_through(&daemon);
    daemon.ok("volume set v --policy wide");
    has_stripes(&daemon, 4);
    load.assert_running(&daemon);
    assert_eq!(daemon.json("volume list").as_array().expect("a list").len(), 1);
    // Back, and the daemon is killed while it is copied.
    daemon.ok("volume set v --policy default --resync paused");
    is_copied(&daemon);
    daemon.kill_and_start();
    is_copied(&daemon);
    assert_eq!(stripes(&daemon), None, "it is paused");
    daemon.ok("volume set v --resync normal");
    has_stripes(&daemon, 1);
    daemon.kill_and_start();
    assert_eq!(stripes(&daemon), Some(1));
    // Given up while it is copied.
    daemon.ok("volume set v --policy wide --resync paused");
    is_copied(&daemon);
    daemon.ok("volume set v --policy default");
    has_stripes(&daemon, 1);
    // To another disk group.
    daemon.ok(&format!("group create h --shards 1 --cache {}:512MiB --capacity {}:1GiB", daemon.at("cache2"), daemon.at("other")));
    daemon.ok("volume set v --group h --resync high");
    let lies = || {
        let shown = daemon.json("volume show v");
        (shown["components"].as_array().expect("a list").iter().all(|c| c["group"] == "h") && shown["moving"].is_null()).then_some(())
    };
    until_or("it is on the other disk group", || daemon.json("volume show v").to_string(), lies);
    daemon.ok("group remove g --yes");
    std::thread::sleep(Duration::from_secs(1));
    load.assert_running(&daemon);
    load_is_right(load, &daemon, &daemon);
    daemon.stop();
}

#[test]
fn a_mirrored_volume_gets_stripes_while_a_host_goes_on_and_its_owner_dies() {
    let [a, b, c] = cluster_of("", |node| format!("{}:256MiB", node.at("cache")), "16GiB");
    for (name, node) in [("ga2", &a), ("gb2", &b), ("gc2", &c)] {
        let (cache, file) = (node.at("cache2"), node.at("capacity2"));
        node.ok(&format!("group create {name} --sparse --shards 1 --cache {cache}:256MiB --capacity {file}:16GiB"));
    }
    a.ok("policy create wide --failures-to-tolerate 1 --stripe-width 2");
    make(&a, "v", "two");
    let owner = |at: &Daemon| at.json("volume show v")["owner"].as_str().expect("an owner").to_owned();
    let mut nodes = [("a", a), ("b", b), ("c", c)];
    let (first, has) = (owner(&nodes[0].1), nodes[0].1.json("volume show v"));
    let has = |name: &str| has["components"].as_array().expect("a list").iter().any(|c| c["node"] == name);
    nodes.sort_by_key(|(name, _)| (*name != first, !has(name)));
    let [mut owns, mut second, mut third] = nodes.map(|(_, node)| node);
    let load = load_through(&third);
    until_or(
        "there is room",
        || third.json("volume show v").to_string(),
        || third.cli("volume set v --policy wide --resync paused").status.success().then_some(()),
    );
    is_copied(&third);
    owns.kill();
    until_or("another one owns it", || third.json("volume show v").to_string(), || (owner(&third) != first).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    load.assert_running(&third);
    owns.start();
    third.ok("volume set v --resync high");
    has_stripes(&third, 2);
    let all_in_sync = || {
        let shown = third.json("volume show v");
        let components = shown["components"].as_array().expect("a list");
        (components.len() == 4 && components.iter().all(|c| c["state"] == "active")).then_some(())
    };
    until_or("all copies are in sync", || third.json("volume show v").to_string(), all_in_sync);
    load.assert_running(&third);
    // Whoever owns it now dies: the others have all of it.
    let names = |node: &Daemon| node.json("status")["node"].as_str().expect("a name").to_owned();
    let now = [&mut owns, &mut second].into_iter().find(|node| names(node) == owner(&third)).expect("one of these two");
    let before = owner(&third);
    now.kill();
    until_or("another one owns it", || third.json("volume show v").to_string(), || (owner(&third) != before).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    load_is_right(load, &third, &third);
    now.start();
    for node in [&mut third, &mut second, &mut owns] {
        node.stop();
    }
}
