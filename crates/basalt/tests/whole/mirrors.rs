//! Volumes with copies on several nodes: real daemons of which one dies, hangs or comes back, under verified load.

use crate::cluster::config;
use crate::harness::load::{Load, assert_clean, assert_only_of_paths};
use crate::harness::turn::Subject;
use crate::harness::{Daemon, Setup, USUAL, until, until_or};
use lab::verified::{self, LoadSpec};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Bound on a takeover: 5 s, and what a busy machine adds.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);

/// A daemon that is alone, called so.
pub fn alone(name: &str, more: &str) -> Daemon {
    let more = config(name) + "balance = false\n" + more;
    Daemon::started(&Setup { subject: Subject::Faults, cores: 1, more: &more, ..USUAL })
}

/// Three nodes, `a` to `c`, with a group each, and a policy for two copies.
fn cluster() -> [Daemon; 3] {
    cluster_of("", |node| format!("{}:256MiB", node.at("cache")), "16GiB")
}

/// The same; more of their configuration, where the write buffer of each is, and how large capacity is.
pub fn cluster_of(more: &str, cache: impl Fn(&Daemon) -> String, capacity: &str) -> [Daemon; 3] {
    let (mut a, mut b, mut c) = (alone("a", more), alone("b", more), alone("c", more));
    a.create_cluster();
    b.join(&a, "");
    c.join(&a, "");
    a.wait_voters(3);
    for (name, node) in [("ga", &a), ("gb", &b), ("gc", &c)] {
        let (cache, file) = (cache(node), node.at("capacity"));
        node.ok(&format!("group create {name} --sparse --shards 1 --cache {cache} --capacity {file}:{capacity}"));
        assert!(node.metric(&format!("basalt_buffer_size_bytes{{group=\"{name}\"}}")) > 0, "each says what it has itself");
    }
    a.ok("policy create two --failures-to-tolerate 1");
    [a, b, c]
}

/// Makes a volume, as soon as there is room: each node says in its own time what it has.
pub fn make(at: &Daemon, name: &str, policy: &str) {
    until("each says what it has", || {
        let made = at.cli(&format!("volume create {name} --size 64MiB --policy {policy}"));
        made.status.success().then_some(())
    });
}

/// Three nodes, and a volume of this policy; the nodes with copies, the owner first, and then those without.
pub fn three(policy: &str) -> [Daemon; 3] {
    let [a, b, c] = cluster();
    make(&a, "v", policy);
    let shown = a.json("volume show v");
    let owner = shown["owner"].as_str().expect("an owner").to_owned();
    let has = |name: &str| shown["components"].as_array().expect("a list").iter().any(|c| c["node"] == name);
    let mut nodes = [("a", a), ("b", b), ("c", c)];
    nodes.sort_by_key(|(name, _)| (*name != owner, !has(name)));
    nodes.map(|(_, node)| node)
}

/// The states of the copies, as a node shows them.
pub fn states(at: &Daemon) -> Vec<String> {
    let shown = at.json("volume show v");
    let components = shown["components"].as_array().expect("a list");
    components.iter().map(|c| c["state"].as_str().expect("a state").to_owned()).collect()
}

/// The nodes with copies.
fn nodes(at: &Daemon) -> Vec<String> {
    let shown = at.json("volume show v");
    let components = shown["components"].as_array().expect("a list");
    components.iter().map(|c| c["node"].as_str().expect("a node").to_owned()).collect()
}

pub fn owner(at: &Daemon) -> Value {
    at.json("volume show v")["owner"].clone()
}

/// Waits until volumes are so at this node.
pub fn shows<T>(at: &Daemon, what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_or(what, || at.json("volume list").to_string(), ask)
}

/// A host that writes and verifies through a node, as long as the test goes on.
pub fn load_through(node: &Daemon) -> Load {
    shows(node, "it is served", || {
        let once = LoadSpec { seed: 3, depth: 4, ops: Some(1), read_back: false, ..LoadSpec::new(node.options(), 1) };
        verified::run(once, |_| ()).ok().filter(|r| r.0.is_clean())
    });
    let spec = LoadSpec {
        seed: 11,
        depth: 8,
        time: Duration::from_secs(24 * 3600),
        reconnect_for: Duration::from_secs(30),
        before: verified::Before::Unknown,
        ..LoadSpec::new(node.options(), 1)
    };
    let load = Load::start(spec);
    std::thread::sleep(Duration::from_secs(1));
    load.assert_running(node);
    load
}
/// Ends the host, and reads all that it wrote through another node.
pub fn load_is_right(load: Load, node: &Daemon, other: &Daemon) {
    let (summary, saved) = load.finish(node);
    // Through the one path that it has, a host hears when nobody owns the volume; one with several tries the others.
    assert_only_of_paths(&summary, node);
    assert!(summary.bytes_written > 0 && summary.bytes_read > 0, "{summary:?}");
    println!("{} requests failed on the one path", summary.errors.values().sum::<u64>());
    let check = LoadSpec { ops: Some(0), resume: Some(saved), ..LoadSpec::new(other.options(), 1) };
    let (summary, _) = verified::run(check, |_| ()).expect("the check runs");
    assert_clean(&summary, other);
    assert!(summary.units_checked > 0, "{summary:?}");
}

#[test]
fn a_volume_gets_copies_goes_from_owner_to_owner_and_loses_them_while_a_host_goes_on() {
    let [mut first, mut second, mut third] = three("default");
    let load = load_through(&third);
    third.ok("volume set v --policy two");
    shows(&third, "two copies are in sync", || (states(&third) == ["active", "active"]).then_some(()));
    load.assert_running(&third);
    let (before, nodes) = (owner(&third), nodes(&third));
    first.kill();
    shows(&third, "the new copy's node owns it", || (owner(&third) != before).then_some(()));
    first.start();
    shows(&third, "it is back in sync", || (states(&third) == ["active", "active"]).then_some(()));
    load.assert_running(&third);
    let mut longest = Duration::ZERO;
    for turn in 0..10 {
        let to = &nodes[turn % 2];
        let began = Instant::now();
        third.ok(&format!("volume set v --owner {to}"));
        println!("  set {:?}", began.elapsed());
        shows(&third, "it is handed over", || (owner(&third) == *to.as_str()).then_some(()));
        println!("{:?}", began.elapsed());
        longest = longest.max(began.elapsed());
    }
    println!("handed over within {longest:?}, the command with it");
    load.assert_running(&third);
    third.ok("volume set v --policy default");
    shows(&third, "one copy is left", || (states(&third) == ["active"]).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    load.assert_running(&third);
    load_is_right(load, &third, &second);
    for node in [&mut third, &mut second, &mut first] {
        node.stop();
    }
}

#[test]
fn a_node_with_a_copy_dies_and_comes_back_while_a_host_goes_on() {
    let [mut first, mut second, mut third] = three("two");
    let load = load_through(&third);
    second.kill();
    shows(&third, "the copy has left", || states(&third).iter().any(|s| s == "absent").then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    load.assert_running(&third);
    second.start();
    shows(&third, "it is back in sync", || states(&third).iter().all(|s| s == "active").then_some(()));
    let before = owner(&third);
    first.kill();
    let killed = Instant::now();
    shows(&third, "another node owns it", || (owner(&third) != before).then_some(()));
    let took = killed.elapsed();
    println!("taken over after {took:?}");
    assert!(took < TAKEOVER_MAX, "{took:?}");
    std::thread::sleep(Duration::from_secs(2));
    load.assert_running(&third);
    first.start();
    shows(&third, "it is back in sync", || states(&third).iter().all(|s| s == "active").then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    load_is_right(load, &third, &first);
    for node in [&mut third, &mut second, &mut first] {
        node.stop();
    }
}

#[test]
fn a_copy_on_a_node_that_stays_down_is_made_anew_on_another_while_a_host_goes_on() {
    let [mut first, mut second, mut third] = three("two");
    third.ok("policy set two --repair-after 5s");
    // How much room a resync makes for hosts is the subject of others.
    third.ok("volume set v --resync high");
    assert!(third.ok("policy show two").contains("made anew elsewhere after 5 s"));
    let load = load_through(&third);
    let had = nodes(&third);
    second.kill();
    shows(&third, "another node has one in sync", || {
        let (now, states) = (nodes(&third), states(&third));
        let new = now.iter().zip(&states).any(|(node, state)| !had.contains(node) && state == "active");
        (new && states.iter().any(|s| s == "leaving")).then_some(())
    });
    load.assert_running(&third);
    assert_eq!(third.json("volume show v")["copies_in_sync"], 2);
    second.start();
    shows(&third, "the old one is deleted", || (states(&third) == ["active", "active"]).then_some(()));
    let before = owner(&third);
    first.kill();
    shows(&third, "the node of the new one owns it", || (owner(&third) != before).then_some(()));
    std::thread::sleep(Duration::from_secs(2));
    load.assert_running(&third);
    first.start();
    shows(&third, "it is back in sync", || (states(&third) == ["active", "active"]).then_some(()));
    load_is_right(load, &third, &first);
    for node in [&mut third, &mut second, &mut first] {
        node.stop();
    }
}

/// How many volumes the node that dies has; `TAKEOVER_VOLUMES` for more.
const MANY: usize = 30;
/// How many of them a subsystem has.
const OF_SUBSYSTEM: usize = 1000;
/// And how many components a device.
const OF_DEVICE: usize = 800;

#[test]
fn a_node_with_many_volumes_dies_and_others_serve_them() {
    let nodes = cluster();
    let volumes = std::env::var("TAKEOVER_VOLUMES").map_or(MANY, |text| text.parse().expect("a number"));
    // A copy of two thirds of them is on each node, on devices that have room for so many.
    for (name, node) in ["ga", "gb", "gc"].iter().zip(&nodes) {
        for more in 1..(volumes * 2 / 3).div_ceil(OF_DEVICE) {
            let device = node.at(&format!("capacity{more}"));
            std::fs::File::create(&device).and_then(|file| file.set_len(16 << 30)).expect("a sparse file");
            node.ok(&format!("group add-device {name} --yes {device}"));
        }
    }
    make(&nodes[0], "v0", "two");
    (0..volumes.div_ceil(OF_SUBSYSTEM)).for_each(|no| _ = nodes[0].ok(&format!("subsystem create s{no}")));
    std::thread::scope(|scope| {
        for first in 1..=4 {
            let node = &nodes[0];
            let of = |no: usize| format!("volume create v{no} --size 16MiB --policy two --subsystem s{}", no / OF_SUBSYSTEM);
            scope.spawn(move || (first..volumes).step_by(4).for_each(|no| _ = node.ok(&of(no))));
        }
    });
    let list = |at: &Daemon| at.json("volume list").as_array().expect("a list").clone();
    let owned = |all: &[Value], node: &str| all.iter().filter(|v| v["owner"] == node).count();
    let all = list(&nodes[0]);
    assert_eq!(all.len(), volumes);
    let names = ["a", "b", "c"];
    let victim = (0..3).max_by_key(|node| owned(&all, names[*node])).expect("three nodes");
    let had = owned(&all, names[victim]);
    let mut nodes = Vec::from(nodes);
    nodes[victim].kill();
    let killed = Instant::now();
    let other = &nodes[(victim + 1) % 3];
    shows(other, "others own all volumes", || (owned(&list(other), names[victim]) == 0).then_some(()));
    shows(other, "all are served", || list(other).iter().all(|v| v["state"] == "online").then_some(()));
    let took = killed.elapsed();
    println!("{had} of {volumes} volumes were taken over within {took:?}");
    assert!(took < TAKEOVER_MAX, "{took:?}");
}
