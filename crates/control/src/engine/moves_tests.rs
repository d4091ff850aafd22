//! Volumes that get other stripes, on nodes that die, over a network that loses answers.

use crate::cluster_fixture::Fixture;
use directory::record::*;
use directory::{Directory, Kind, Typed};
use serde_json::{Value, json};

const NAMES: [&str; 3] = ["h1", "h2", "h3"];
const GIB: u64 = 1 << 30;

/// Three nodes that are up, each with a group of two capacity devices.
fn three(seed: u64) -> Fixture {
    let f = Fixture::new(&NAMES, seed);
    NAMES.iter().for_each(|n| f.start(n));
    f.until("one leads", || f.leader().is_some());
    NAMES.iter().for_each(|n| drop(f.done(n, "POST", "/api/v1/groups", f.group(n, &format!("g{n}"), 8))));
    let reported =
        || f.directory.all::<PresenceRecord>().unwrap().iter().filter(|p| p.groups.iter().any(|g| !g.devices.is_empty())).count();
    f.until("each says what it has", || reported() == 3);
    for (name, stripes, failures) in [("wide", 2, 0), ("wider", 3, 0), ("wide-mirror", 2, 1), ("mirror", 1, 1)] {
        f.done("h1", "POST", "/api/v1/policies", json!({"name": name, "stripe_width": stripes, "failures_to_tolerate": failures}));
    }
    f
}

fn stripes(f: &Fixture, volume: &str) -> u64 {
    let shown = f.done(&f.up()[0], "GET", &format!("/api/v1/volumes/{volume}"), Value::Null);
    let components = shown["components"].as_array().unwrap();
    if shown["moving"].is_null() { components.iter().map(|c| c["stripe"].as_u64().unwrap() + 1).max().unwrap_or(0) } else { 0 }
}

/// There are so many volumes, with what belongs to them and nothing else, and none is held.
fn check_clean(f: &Fixture, volumes: usize) {
    f.until("nothing is left", || f.directory.list(Kind::Volume).unwrap().len() == volumes);
    let objects = f.directory.all::<ObjectRecord>().unwrap();
    assert_eq!(objects.len(), volumes);
    let records = f.directory.all::<VolumeRecord>().unwrap();
    for volume in &records {
        assert!(volume.moves_to.is_none() && volume.place_of.is_none(), "{volume:?}");
        assert!(objects.iter().any(|o| o.id == volume.object && o.volume == volume.id));
        assert_eq!(f.directory.named(Kind::Volume, &volume.name).unwrap().as_deref(), Some(volume.id().as_str()));
    }
    let made = || NAMES.iter().map(|n| f.planes[*n].components().len()).sum::<usize>();
    f.until("components are deleted", || made() == objects.iter().map(|o| o.components().count()).sum::<usize>());
    f.until("nothing is copied", || NAMES.iter().all(|n| f.planes[*n].fills().is_empty()));
}

#[test]
fn a_volume_gets_the_stripes_of_its_policy_and_gives_them_back() {
    let f = three(1);
    f.done("h2", "POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "fault_domain": "h2"}));
    let before = f.done("h1", "GET", "/api/v1/volumes/v", Value::Null);
    let set = |policy: &str| f.ask("h3", "PATCH", "/api/v1/volumes/v", Some(&json!({"policy": policy})), None).unwrap();
    let (status, why) = set("wider");
    assert_eq!((status, why["code"].as_str()), (409, Some("policy_not_possible")), "{why}");
    assert_eq!(set("wide").0, 200);
    f.until("it has two stripes", || stripes(&f, "v") == 2);
    let after = f.done("h1", "GET", "/api/v1/volumes/v", Value::Null);
    assert!(after["id"] == before["id"] && after["object"] != before["object"] && after["compliant"] == true, "{after}");
    assert!(after["attachments"] == before["attachments"] && after["components"][1]["node"] == "h2", "{after}");
    check_clean(&f, 1);
    assert_eq!(f.done("h1", "GET", "/api/v1/volumes", Value::Null).as_array().unwrap().len(), 1);
    assert_eq!(set("default").0, 200);
    f.until("it has one stripe", || stripes(&f, "v") == 1);
    check_clean(&f, 1);
    f.done("h1", "DELETE", "/api/v1/volumes/v", Value::Null);
    check_clean(&f, 0);
}

#[test]
fn a_volume_is_made_on_the_disk_groups_that_are_named_and_goes_to_others() {
    let f = three(7);
    f.done("h2", "POST", "/api/v1/groups", f.group("h2", "second", 8));
    let made = f.done("h1", "POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "groups": ["gh2"]}));
    assert_eq!((&made["components"][0]["group"], &made["groups"]), (&json!("gh2"), &json!(["gh2"])));
    let set = |groups: Value| f.ask("h3", "PATCH", "/api/v1/volumes/v", Some(&json!({"groups": groups})), None).unwrap();
    let (status, why) = set(json!(["gh1"]));
    assert!(status == 409 && why["message"].as_str().unwrap().contains("node h2, which owns the volume, has none of these"), "{why}");
    assert_eq!(set(json!(["nowhere"])).0, 404);
    let (status, shown) = f.ask("h1", "GET", "/api/v1/volumes/v", None, None).unwrap();
    assert_eq!((status, &shown["groups"], &shown["moving"]), (200, &json!(["gh2"]), &Value::Null), "nothing has changed");
    let lies_on = |group: &str| {
        let shown = f.done("h1", "GET", "/api/v1/volumes/v", Value::Null);
        shown["moving"].is_null() && shown["components"].as_array().unwrap().iter().all(|c| c["group"] == group)
    };
    f.until("the other group is known", || set(json!(["second"])).0 == 200);
    f.until("it is there", || lies_on("second"));
    check_clean(&f, 1);
    // Wherever it is, is right.
    assert_eq!(set(json!(["any"])).0, 200);
    assert_eq!(set(json!(["gh1", "gh2"])).0, 200, "one of these is its owner's");
    f.until("it is there", || lies_on("gh2"));
    check_clean(&f, 1);
}

/// As long as nothing can be copied.
#[test]
fn a_move_is_given_up_with_its_policy_begun_anew_with_another_size_and_deleted_with_its_volume() {
    let f = three(2);
    NAMES.iter().for_each(|n| f.planes[*n].no_fill_ends(true));
    f.done("h1", "POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "fault_domain": "h2"}));
    let volume = || f.directory.all::<VolumeRecord>().unwrap().into_iter().find(|v| v.place_of.is_none()).expect("it is there").value;
    let set = |policy: &str| drop(f.done("h3", "PATCH", "/api/v1/volumes/v", json!({"policy": policy})));
    let moving = |f: &Fixture| f.done("h1", "GET", "/api/v1/volumes/v", Value::Null)["moving"].clone();
    set("wide");
    f.until("it moves", || moving(&f)["percent"].as_u64().is_some());
    for at in NAMES {
        f.until("each node says how far it is", || {
            let shown = f.done(at, "GET", "/api/v1/volumes/v", Value::Null);
            shown["moving"]["percent"] == 0 && shown["moving"]["reason"].is_null()
        });
    }
    f.planes["h2"].fail_next("fill", crate::fake::full());
    let why = |at: &str| f.done(at, "GET", "/api/v1/volumes/v", Value::Null)["moving"]["reason"].as_str().map(str::to_owned);
    f.until("each node says why it does not go on", || NAMES.iter().all(|at| why(at).is_some_and(|why| why.contains("promised"))));
    let first = volume().moves_to;
    assert!(first.is_some());
    f.done("h1", "POST", "/api/v1/volumes/v/resize", json!({"bytes": 2 * GIB}));
    f.until("another one is filled", || volume().moves_to.is_some_and(|to| Some(to) != first) && moving(&f)["percent"].as_u64().is_some());
    set("default");
    f.until("it does not move", || moving(&f).is_null());
    check_clean(&f, 1);
    set("wide");
    f.until("it moves", || moving(&f)["percent"].as_u64().is_some());
    f.done("h1", "DELETE", "/api/v1/volumes/v", Value::Null);
    check_clean(&f, 0);
}

#[test]
fn volumes_get_their_stripes_though_nodes_die_and_answers_are_lost() {
    for seed in 3..6 {
        let f = three(seed);
        for (n, node) in NAMES.iter().enumerate() {
            f.done("h1", "POST", "/api/v1/volumes", json!({"name": format!("v{n}"), "bytes": GIB, "fault_domain": node}));
        }
        for n in 0..3 {
            f.done("h2", "PATCH", &format!("/api/v1/volumes/v{n}"), json!({"policy": "wide"}));
        }
        f.net.lose_permille(100);
        for turn in 0..9usize {
            let node = NAMES[(turn * 7 + seed as usize) % 3];
            std::thread::sleep(std::time::Duration::from_millis(40 + 60 * (turn as u64 % 4)));
            f.kill(node);
            std::thread::sleep(std::time::Duration::from_millis(50));
            f.start(node);
        }
        f.net.lose_permille(0);
        f.until("all have two stripes", || (0..3).all(|n| stripes(&f, &format!("v{n}")) == 2));
        check_clean(&f, 3);
    }
}
