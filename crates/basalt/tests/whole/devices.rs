//! Capacity devices are added to a disk group in use and leave it: a real daemon, which is killed meanwhile, under verified load.

use crate::harness::turn::Subject;
use crate::harness::{Daemon, until_or};
use crate::mirrors::{load_is_right, load_through};
use serde_json::Value;

/// The files of a group's capacity devices, by the last part of their names, and how each is.
fn devices(at: &Daemon, group: &str) -> Vec<(String, String)> {
    let shown = at.json(&format!("group show {group}"));
    let of = |d: &Value| {
        let path = d["path"].as_str().expect("a path");
        (path.rsplit('/').next().expect("a name").to_owned(), d["state"].as_str().expect("a state").to_owned())
    };
    shown["capacity"].as_array().expect("a list").iter().map(of).collect()
}

fn has_devices(at: &Daemon, group: &str, wanted: &[&str]) {
    let wanted: Vec<(String, String)> = wanted.iter().map(|name| ((*name).to_owned(), "in_use".to_owned())).collect();
    let look = || at.json(&format!("group show {group}")).to_string();
    until_or("the group has these devices", look, || (devices(at, group) == wanted).then_some(()));
}

#[test]
fn devices_come_and_go_while_a_host_goes_on_and_the_daemon_is_killed() {
    let mut daemon = Daemon::kept(Subject::Faults, "");
    let at = |name: &str| daemon.at(name);
    let [cache, d0, d1, d2] = ["cache", "d0", "d1", "d2"].map(at);
    daemon.ok(&format!("group create g --shards 2 --cache {cache}:512MiB --capacity {d0}:1GiB"));
    daemon.ok("volume create v --size 256MiB");
    let load = load_through(&daemon);
    // What is refused, and why.
    let refused = daemon.fails(&format!("group add-device g {d0}"), 5);
    assert!(refused.contains("belongs to disk group g"), "{refused}");
    let refused = daemon.fails(&format!("group add-device g {d1}:16MiB"), 2);
    assert!(refused.contains("needs at least 256 MiB"), "{refused}");
    let refused = daemon.fails(&format!("group add-device g {d1}"), 4);
    assert!(refused.contains("is not there"), "{refused}");
    let refused = daemon.fails("group add-device g memory:1GiB", 2);
    assert!(refused.contains("memory cannot be added"), "{refused}");
    let refused = daemon.fails(&format!("group remove-device g {d0} --yes"), 5);
    assert!(refused.contains("is the last capacity device"), "{refused}");
    std::fs::write(&d1, vec![7; 300 << 20]).expect("a file");
    let refused = daemon.fails(&format!("group add-device g {d1}"), 5);
    assert!(refused.contains("data of unknown kind") && std::fs::read(&d1).expect("it is there")[0] == 7, "{refused}");
    assert_eq!(devices(&daemon, "g").len(), 1);
    // One more, in use: a volume is striped over both.
    let before = daemon.json("group show g")["capacity_bytes"].as_u64().expect("bytes");
    daemon.ok(&format!("group add-device g {d1} --force"));
    has_devices(&daemon, "g", &["d0", "d1"]);
    assert!(daemon.json("group show g")["capacity_bytes"].as_u64() > Some(before + (200 << 20)));
    daemon.ok("policy create wide --stripe-width 2");
    daemon.ok("volume set v --policy wide --resync high");
    let two = || (daemon.json("volume show v")["components"].as_array()?.len() == 2).then_some(());
    until_or("it has two stripes", || daemon.json("volume show v").to_string(), two);
    load.assert_running(&daemon);
    daemon.kill_and_start();
    has_devices(&daemon, "g", &["d0", "d1"]);
    load.assert_running(&daemon);
    // Without a third one, the volume could not have what its policy asks for.
    let refused = daemon.fails(&format!("group remove-device g {d0} --yes"), 5);
    assert!(refused.contains("v cannot go elsewhere: stripe width = 2 needs 2 capacity devices"), "{refused}");
    daemon.ok(&format!("group add-device g {d2}:1GiB"));
    daemon.ok("volume set v --resync paused");
    daemon.ok(&format!("group remove-device g {d0} --yes"));
    assert_eq!(devices(&daemon, "g")[0], ("d0".into(), "leaving".into()));
    let moves = || daemon.json("volume show v")["moving"]["percent"].as_u64();
    until_or("its data goes elsewhere", || daemon.json("volume show v").to_string(), moves);
    daemon.kill_and_start();
    assert_eq!(devices(&daemon, "g")[0], ("d0".into(), "leaving".into()));
    // It stays, and leaves after all.
    daemon.ok(&format!("group remove-device g {d0} --keep"));
    has_devices(&daemon, "g", &["d0", "d1", "d2"]);
    daemon.ok(&format!("group remove-device g {d0} --yes"));
    daemon.ok("volume set v --resync high");
    has_devices(&daemon, "g", &["d1", "d2"]);
    load.assert_running(&daemon);
    // It can be used for something else at once, and the group without it.
    daemon.ok(&format!("group create h --shards 1 --cache {}:512MiB --capacity {d0}", daemon.at("cache2")));
    daemon.kill_and_start();
    has_devices(&daemon, "g", &["d1", "d2"]);
    // Its number is given again.
    daemon.ok(&format!("group add-device g {}:512MiB", daemon.at("d3")));
    has_devices(&daemon, "g", &["d3", "d1", "d2"]);
    load.assert_running(&daemon);
    load_is_right(load, &daemon, &daemon);
    let audit = daemon.ok("audit --limit 200 --json");
    assert!(audit.contains("POST /api/v1/groups/g/devices") && audit.contains("DELETE /api/v1/groups/g/devices/"), "{audit}");
    daemon.stop();
}

#[test]
fn a_group_goes_on_without_a_device_that_is_gone_and_what_lay_there_is_said_before() {
    let mut daemon = Daemon::kept(Subject::Faults, "");
    let [cache, d0, d1] = ["cache", "d0", "d1"].map(|name| daemon.at(name));
    daemon.ok(&format!("group create g --shards 1 --cache {cache}:512MiB --capacity {d0}:1GiB --capacity {d1}:1GiB"));
    for name in ["v", "w"] {
        daemon.ok(&format!("volume create {name} --size 256MiB"));
    }
    let lies_on = |name: &str| {
        let shown = daemon.json(&format!("volume show {name}"));
        shown["components"][0]["device"].as_str().expect("a device").to_owned()
    };
    let (stays, dies) = (lies_on("v"), lies_on("w"));
    assert_ne!(stays, dies, "each has a device of its own");
    let load = load_through(&daemon);
    let online = daemon.fails(&format!("group remove-device g {dies} --lost --yes"), 5);
    assert!(online.contains("is online"), "{online}");
    std::thread::sleep(std::time::Duration::from_secs(1));
    daemon.kill();
    std::fs::remove_file(&dies).expect("the file");
    daemon.start();
    let state = |at: &Daemon| at.json("group show g")["state"].as_str().expect("a state").to_owned();
    assert_eq!(state(&daemon), "offline");
    let refused = daemon.fails(&format!("group remove-device g {dies} --lost --yes"), 5);
    assert!(refused.contains("1 volume(s) that have no other copy of it: w"), "{refused}");
    daemon.ok(&format!("group remove-device g {dies} --lost --force --yes"));
    assert_eq!((state(&daemon), devices(&daemon, "g").len()), ("online".into(), 1));
    let names = |at: &Daemon| at.json("volume list").as_array().expect("a list").iter().map(|v| v["name"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(&daemon), ["\"v\""]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    load.assert_running(&daemon);
    daemon.ok(&format!("group add-device g {}:1GiB", daemon.at("d2")));
    daemon.kill_and_start();
    assert_eq!((state(&daemon), devices(&daemon, "g").len()), ("online".into(), 2));
    load_is_right(load, &daemon, &daemon);
    daemon.stop();
}
