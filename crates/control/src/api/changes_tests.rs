//! Sequences of changes against a model: after each, what is shown, what is served and what the disk groups hold is what was asked for. Then the
//! refusals and failures of the changes, one by one.

use super::*;
use crate::{fake, plane::CacheFile};
use base::unit::CHUNK_BYTES;
use dataplane::VolumeDesired;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:6e3a8f0e-6d2c-4b8f-9d4e-1a2b3c4d5e70";

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Volume {
    bytes: u64,
    lba_bytes: u64,
    policy: String,
    read_only: bool,
    mirrors: u64,
}

#[derive(Clone, Debug)]
struct Rules {
    width: u64,
    percent: u64,
    iops: u64,
    bandwidth: u64,
    checksum: bool,
}

#[derive(Clone, Debug, Default)]
struct Subsystem {
    any: bool,
    tls: bool,
    hosts: Vec<String>,
    /// Volume and hosts by namespace id.
    namespaces: BTreeMap<u64, (String, Vec<String>)>,
}

#[derive(Default)]
struct Model {
    volumes: BTreeMap<String, Volume>,
    policies: BTreeMap<String, Rules>,
    subsystems: BTreeMap<String, Subsystem>,
}

fn or_null(limit: u64) -> Value {
    if limit == 0 { Value::Null } else { json!(limit) }
}

fn volume_of<'a>(desired: &'a crate::plane::Desired, name: &str) -> &'a VolumeDesired {
    desired.volumes.iter().find(|v| v.name == name).unwrap_or_else(|| panic!("{name} is not served"))
}

impl Model {
    /// What is shown, served and held.
    async fn check(&self, bench: &Bench, after: &str) {
        let shown = bench.get("/api/v1/volumes").await;
        let names: Vec<&str> = shown.as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
        assert_eq!(names, self.volumes.keys().collect::<Vec<_>>(), "{after}");
        let (desired, components) = (bench.plane.desired(), bench.plane.components());
        assert_eq!(desired.volumes.len(), self.volumes.len(), "{after}");
        for (shown, (name, volume)) in shown.as_array().unwrap().iter().zip(&self.volumes) {
            let at = format!("{name}, after {after}");
            let rules = &self.policies[&volume.policy];
            let component_bytes = volume.bytes.div_ceil(MIB).div_ceil(volume.mirrors) * MIB;
            let reserve = (component_bytes * rules.percent).div_ceil(100 * CHUNK_BYTES);
            let attachments: Vec<Value> = self
                .subsystems
                .iter()
                .flat_map(|(s, sub)| sub.namespaces.iter().filter(|(_, n)| n.0 == *name).map(move |(nsid, _)| json!([s, nsid])))
                .collect();
            let mut seen: Vec<Value> =
                shown["attachments"].as_array().unwrap().iter().map(|a| json!([a["subsystem"], a["nsid"]])).collect();
            seen.sort_by_key(ToString::to_string);
            assert_eq!(seen, attachments, "{at}");
            let got = json!([shown["bytes"], shown["lba_bytes"], shown["policy"], shown["read_only"], shown["state"], shown["compliant"]]);
            assert_eq!(got, json!([volume.bytes, volume.lba_bytes, volume.policy, volume.read_only, "online", true]), "{at}");
            assert_eq!(shown["reserved_bytes"], json!(volume.mirrors * reserve * CHUNK_BYTES), "{at}");
            assert_eq!(shown["grow_bytes_max"], json!(volume.mirrors * base::unit::COMPONENT_BYTES_MAX), "{at}");
            let served = volume_of(&desired, name);
            let got = (served.bytes, u64::from(served.lba_bytes), served.write_protect.is_on(), served.checksum, served.formatting);
            assert_eq!(got, (volume.bytes, volume.lba_bytes, volume.read_only, rules.checksum, false), "{at}");
            assert_eq!(
                (served.limits.iops_max.unwrap_or(0), served.limits.bytes_per_s_max.unwrap_or(0)),
                (rules.iops, rules.bandwidth),
                "{at}"
            );
            assert_eq!(served.thin, volume.mirrors * reserve * CHUNK_BYTES < volume.bytes, "{at}");
            assert_eq!(served.object.mirrors.len() as u64, volume.mirrors, "{at}");
            let held: Vec<_> = components.iter().filter(|c| c.object == served.object.object).collect();
            assert_eq!(held.len() as u64, volume.mirrors, "{at}");
            for c in held {
                assert_eq!((c.bytes, c.reserve_chunks), (component_bytes, reserve), "{at}");
                let said = u64::from_le_bytes(c.descriptor[17..25].try_into().unwrap());
                let lba = u32::from_le_bytes(c.descriptor[25..29].try_into().unwrap());
                assert_eq!((said, u64::from(lba)), (volume.bytes, volume.lba_bytes), "what a component says of its volume: {at}");
            }
        }
        assert_eq!(components.len() as u64, self.volumes.values().map(|v| v.mirrors).sum::<u64>(), "{after}");
        let shown = bench.get("/api/v1/subsystems").await;
        let names: Vec<&str> = shown.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(names, self.subsystems.keys().collect::<Vec<_>>(), "{after}");
        for (shown, (name, s)) in shown.as_array().unwrap().iter().zip(&self.subsystems) {
            let at = format!("{name}, after {after}");
            let served = desired.exports.0.0.subsystems.iter().find(|d| d.nqn.ends_with(&format!(":{name}"))).expect("served");
            let namespaces: Vec<Value> = s
                .namespaces
                .iter()
                .map(|(nsid, (v, hosts))| {
                    let hosts = if hosts.is_empty() { Value::Null } else { json!(hosts) };
                    json!([nsid, v, self.volumes[v].bytes, hosts])
                })
                .collect();
            let seen = shown["namespaces"].as_array().unwrap().iter();
            assert_eq!(seen.map(|n| json!([n["nsid"], n["volume"], n["bytes"], n["hosts"]])).collect::<Vec<_>>(), namespaces, "{at}");
            assert_eq!((&shown["allow_any_host"], &shown["hosts"]), (&json!(s.any), &json!(s.hosts)), "{at}");
            assert_eq!((served.allow_any_host, &served.hosts), (s.any, &s.hosts), "{at}");
            assert_eq!(served.security == base::Security::Plain, !s.tls, "{at}");
            assert_eq!(served.namespaces.len(), s.namespaces.len(), "{at}");
            for (nsid, (volume, hosts)) in &s.namespaces {
                let n = &served.namespaces[&(*nsid as u32)];
                assert_eq!(n.volume, volume_of(&desired, volume).id, "{at}");
                for host in [HOST, OTHER] {
                    assert_eq!(n.hosts.shows(host), hosts.is_empty() || hosts.iter().any(|h| h == host), "{at}");
                }
            }
        }
        assert_eq!(bench.get("/api/v1/tasks").await, json!([]), "{after}");
        let provisioned: u64 = self.volumes.values().map(|v| v.bytes).sum();
        let status = bench.get("/api/v1/status").await;
        assert_eq!((&status["provisioned_bytes"], &status["checks"]), (&json!(provisioned), &json!([])), "{after}");
    }

    async fn change(&mut self, bench: &Bench, random: &mut Random) -> String {
        let names = ["a", "b", "c", "d", "e"];
        let (name, sub) = (random.of(&names), random.of(&["s1", "s2", "default"]));
        let there = self.volumes.keys().find(|v| v.eq_ignore_ascii_case(name)).cloned();
        let volume = |v: &str| format!("/api/v1/volumes/{v}");
        let kind = random.below(14);
        let after = format!("{kind} of {name} and {sub}");
        match (kind, there) {
            (0..=3, None) => {
                let (mib, odd) = (1 + random.below(600) as u64, [0, 512][random.below(2)]);
                let (policy, lba) = (random.of(&["gold", "wide", "default"]), [512, 4096][random.below(2)]);
                let mut new = json!({"name": name, "bytes": mib * MIB - odd, "policy": policy, "lba_bytes": lba});
                let to = match random.below(3) {
                    0 => None,
                    1 => Some("default"),
                    _ => Some(sub),
                };
                match to {
                    None => new["detached"] = json!(true),
                    Some("default") => {}
                    Some(sub) => new["subsystem"] = json!(sub),
                }
                // Where there is no default one there is nothing to attach it to.
                let to = to.filter(|to| *to != "default" || self.subsystems.contains_key("default"));
                if to.is_some_and(|to| !self.subsystems.contains_key(to)) {
                    bench.refused("POST", "/api/v1/volumes", new).await;
                    return after;
                }
                bench.ok("POST", "/api/v1/volumes", new).await;
                let mirrors = self.policies[policy].width;
                self.volumes
                    .insert(name.into(), Volume { bytes: mib * MIB, lba_bytes: lba, policy: policy.into(), read_only: false, mirrors });
                if let Some(s) = to.map(|to| self.subsystems.get_mut(to).unwrap()) {
                    let nsid = (1..).find(|n| !s.namespaces.contains_key(n)).unwrap();
                    s.namespaces.insert(nsid, (name.into(), vec![]));
                }
            }
            (0, Some(_)) => drop(bench.refused("POST", "/api/v1/volumes", json!({"name": name, "bytes": GIB})).await),
            (1, Some(there)) => {
                bench.ok("DELETE", &volume(&there), Value::Null).await;
                self.volumes.remove(&there);
                self.subsystems.values_mut().for_each(|s| s.namespaces.retain(|_, n| n.0 != there));
            }
            (2 | 3, Some(there)) => {
                let (mib, force) = (1 + random.below(900) as u64, random.below(2) == 0);
                let known = self.volumes.get_mut(&there).unwrap();
                let resize = json!({"bytes": mib * MIB - [0, 4096][random.below(2)], "force": force});
                if mib * MIB < known.bytes && !force {
                    bench.refused("POST", &format!("{}/resize", volume(&there)), resize).await;
                    return after;
                }
                let (freed, shrinks) = (bench.plane.freed().len(), mib * MIB < known.bytes);
                let before = known.bytes.div_ceil(MIB).div_ceil(known.mirrors) * MIB * known.mirrors;
                bench.ok("POST", &format!("{}/resize", volume(&there)), resize).await;
                if shrinks {
                    assert_eq!(bench.plane.freed()[freed..].last().map(|f| f.1), Some(before), "{after}: all that its components have");
                    assert_eq!(bench.plane.ends().last(), Some(&(mib * MIB)), "{after}: no host reaches behind the end when it is freed");
                }
                known.bytes = mib * MIB;
            }
            (4, Some(there)) => {
                let new = random.of(&["a", "B", "b", "C", "f", "E"]);
                let other = self.volumes.keys().any(|v| *v != there && v.eq_ignore_ascii_case(new));
                if other {
                    bench.refused("PATCH", &volume(&there), json!({"name": new})).await;
                } else {
                    bench.ok("PATCH", &volume(&there), json!({"name": new})).await;
                    let known = self.volumes.remove(&there).unwrap();
                    self.volumes.insert(new.into(), known);
                    let renamed = self.subsystems.values_mut().flat_map(|s| s.namespaces.values_mut()).filter(|n| n.0 == there);
                    renamed.for_each(|n| n.0 = new.into());
                }
            }
            (5, Some(there)) => {
                let read_only = random.below(2) == 0;
                bench.ok("PATCH", &volume(&there), json!({"read_only": read_only})).await;
                self.volumes.get_mut(&there).unwrap().read_only = read_only;
            }
            (6, Some(there)) => {
                let policy = random.of(&["gold", "wide", "default"]);
                let (known, width) = (self.volumes.get_mut(&there).unwrap(), self.policies[policy].width);
                bench.ok("PATCH", &volume(&there), json!({"policy": policy})).await;
                // It is laid out anew, in a few turns.
                (0..4).for_each(|_| bench.control.look_after_moves());
                (known.policy, known.mirrors) = (policy.into(), width);
            }
            (7, _) => {
                let (path, change) = ("/api/v1/policies/gold", random.below(5));
                let gold = self.policies.get_mut("gold").unwrap();
                let body = match change {
                    0 => {
                        gold.iops = [0, 10, 1000][random.below(3)];
                        json!({"iops_limit": gold.iops})
                    }
                    1 => {
                        gold.bandwidth = [0, MIB, 77 * MIB][random.below(3)];
                        json!({"bandwidth_limit": gold.bandwidth})
                    }
                    2 => {
                        gold.checksum = !gold.checksum;
                        json!({"checksum": gold.checksum})
                    }
                    3 => {
                        gold.percent = [0, 7, 50, 100][random.below(4)];
                        json!({"space_reservation_percent": gold.percent})
                    }
                    _ => json!({}),
                };
                let shown = bench.ok("PATCH", path, body).await;
                let got = json!([shown["stripe_width"], shown["space_reservation_percent"], shown["iops_limit"], shown["bandwidth_limit"]]);
                assert_eq!(got, json!([gold.width, gold.percent, or_null(gold.iops), or_null(gold.bandwidth)]), "{after}");
                let users = self.volumes.values().filter(|v| v.policy == "gold").count();
                assert_eq!((&shown["checksum"], &shown["volumes"]), (&json!(gold.checksum), &json!(users)), "{after}");
            }
            (8, _) => {
                let path = format!("/api/v1/subsystems/{sub}");
                if self.subsystems.remove(sub).is_some() {
                    bench.ok("DELETE", &path, Value::Null).await;
                } else {
                    bench.ok("POST", "/api/v1/subsystems", json!({"name": sub, "hosts": [HOST]})).await;
                    self.subsystems.insert(sub.into(), Subsystem { hosts: vec![HOST.into()], ..Subsystem::default() });
                }
            }
            (9, _) => {
                let (host, allow, any) = (random.of(&[HOST, OTHER]), random.below(2) == 0, random.below(2) == 0);
                let path = format!("/api/v1/subsystems/{sub}/hosts/{host}");
                let Some(s) = self.subsystems.get_mut(sub) else { return after };
                if allow {
                    bench.ok("PUT", &path, Value::Null).await;
                    s.hosts.retain(|h| h != host);
                    s.hosts.push(host.into());
                    s.hosts.sort();
                } else if s.hosts.iter().any(|h| h == host) {
                    bench.ok("DELETE", &path, Value::Null).await;
                    s.hosts.retain(|h| h != host);
                } else {
                    bench.refused("DELETE", &path, Value::Null).await;
                }
                let body = match random.below(3) {
                    0 => {
                        s.any = any;
                        json!({"allow_any_host": any})
                    }
                    1 => {
                        s.tls = any;
                        json!({"security": if any { "encrypted" } else { "plain" }})
                    }
                    _ => json!({}),
                };
                bench.ok("PATCH", &format!("/api/v1/subsystems/{sub}"), body).await;
            }
            (10 | 11, Some(there)) => {
                let Some(s) = self.subsystems.get_mut(sub) else { return after };
                let path = format!("/api/v1/subsystems/{sub}/volumes/{there}");
                let (nsid, hosts) = (random.below(6) as u64, if random.below(2) == 0 { vec![] } else { vec![HOST.to_owned()] });
                let body = if nsid == 5 { json!({"hosts": hosts}) } else { json!({"nsid": nsid, "hosts": hosts}) };
                let free = (1..).find(|n| !s.namespaces.contains_key(n)).unwrap();
                let nsid = if nsid == 5 { free } else { nsid };
                if nsid == 0 || s.namespaces.contains_key(&nsid) || s.namespaces.values().any(|n| n.0 == there) {
                    bench.refused("PUT", &path, body).await;
                } else {
                    bench.ok("PUT", &path, body).await;
                    s.namespaces.insert(nsid, (there, hosts));
                }
            }
            (12, Some(there)) => {
                let Some(s) = self.subsystems.get_mut(sub) else { return after };
                let path = format!("/api/v1/subsystems/{sub}/volumes/{there}");
                if s.namespaces.values().any(|n| n.0 == there) {
                    bench.ok("DELETE", &path, Value::Null).await;
                    s.namespaces.retain(|_, n| n.0 != there);
                } else {
                    bench.refused("DELETE", &path, Value::Null).await;
                }
            }
            _ => {}
        }
        after
    }
}

#[tokio::test]
async fn after_any_changes_what_is_shown_served_and_held_is_what_was_asked_for() {
    for seed in 0..4 {
        let mut bench = Bench::new().with_group().await;
        let mut random = Random(seed * 31 + 7);
        let mut model = Model::default();
        let plain = Rules { width: 1, percent: 0, iops: 0, bandwidth: 0, checksum: true };
        for (name, width) in [("gold", 1), ("wide", 2)] {
            bench.ok("POST", "/api/v1/policies", json!({"name": name, "stripe_width": width})).await;
            model.policies.insert(name.into(), Rules { width, ..plain.clone() });
        }
        model.policies.insert("default".into(), plain);
        model.subsystems.insert("default".into(), Subsystem { any: true, ..Subsystem::default() });
        for _ in 0..60 {
            let mut after = model.change(&bench, &mut random).await;
            if random.below(20) == 0 {
                bench = bench.restart();
                after.push_str(" and a restart");
            }
            model.check(&bench, &format!("seed {seed}: {after}")).await;
        }
    }
}

impl Bench {
    fn device(&self, name: &str, bytes: u64) -> Value {
        json!({"path": self.dir.path().join(name), "bytes": bytes})
    }
    async fn group(&self, name: &str, capacity: &[&str]) {
        let capacity: Vec<Value> = capacity.iter().map(|c| self.device(c, 100 * GIB)).collect();
        let group = json!({"name": name, "cache": self.device(&format!("{name}.cache"), GIB), "capacity": capacity, "sparse": true});
        self.ok("POST", "/api/v1/groups", group).await;
    }
    async fn checks(&self) -> Vec<(String, String, String)> {
        let status = self.get("/api/v1/status").await;
        let word = |c: &Value, key: &str| c[key].as_str().unwrap().to_owned();
        let all = status["checks"].as_array().unwrap();
        let worst = all.iter().map(|c| word(c, "health")).max_by_key(|h| ["ok", "warning", "error"].iter().position(|w| w == h));
        assert_eq!(word(&status, "health"), worst.unwrap_or("ok".into()));
        all.iter().map(|c| (word(c, "id"), word(c, "health"), word(c, "subject"))).collect()
    }
}

#[tokio::test]
async fn empty_thin_volumes_are_spread_over_the_devices() {
    let bench = Bench::new();
    bench.group("g", &["x", "y", "z"]).await;
    for n in 0..6 {
        bench.ok("POST", "/api/v1/volumes", json!({"name": format!("v{n}"), "bytes": GIB})).await;
    }
    let volumes = bench.get("/api/v1/volumes").await;
    let mut on: BTreeMap<String, u32> = BTreeMap::new();
    for volume in volumes.as_array().unwrap() {
        *on.entry(volume["components"][0]["device"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(on.values().copied().collect::<Vec<_>>(), [2, 2, 2], "{on:?}");
}

#[tokio::test]
async fn the_devices_of_a_new_group_are_looked_at_before_anything_is_made() {
    let bench = Bench::new();
    let (old, link) = (bench.dir.path().join("old"), bench.dir.path().join("link"));
    std::fs::File::create(&old).and_then(|f| f.set_len(GIB)).unwrap();
    std::os::unix::fs::symlink(&old, &link).unwrap();
    let memory = || json!({"path": "memory:1GiB"});
    let huge = bench.device("huge", 200 << 40);
    for (cache, capacity, more, status, words) in [
        (memory(), vec![json!({"path": old}), json!({"path": old})], json!({}), 400, "named twice"),
        (memory(), vec![json!({"path": old}), json!({"path": link})], json!({}), 400, "named twice"),
        (json!({"path": link}), vec![json!({"path": old})], json!({}), 400, "named twice"),
        (memory(), vec![json!({"path": old, "bytes": 2 * GIB})], json!({}), 409, "there already"),
        (memory(), vec![json!({"path": "memory:300TiB"})], json!({}), 400, "at most"),
        (memory(), vec![bench.device("small", 255 << 20)], json!({}), 400, "at least"),
        (memory(), vec![memory(); 8], json!({}), 400, "one to 7"),
        (memory(), vec![memory()], json!({"shards": 3}), 400, "3 shards"),
        (memory(), vec![memory()], json!({"shards": 32}), 400, "32 shards"),
        (memory(), vec![memory()], json!({"shards": 0}), 400, "0 shards"),
        (huge, vec![memory()], json!({}), 507, "too small"),
    ] {
        let mut group = json!({"name": "g", "cache": cache, "capacity": capacity});
        more.as_object().unwrap().iter().for_each(|(key, value)| group[key] = value.clone());
        let (got, _, message) = bench.refused("POST", "/api/v1/groups", group.clone()).await;
        assert_eq!(got, status, "{group}: {message}");
        assert!(message.contains(words), "{group}: {message}");
    }
    assert_eq!((bench.get("/api/v1/groups").await, bench.plane.files().len()), (json!([]), 0));
    // What is made: whole blocks, and the space of the cache's file at once unless it is to be sparse.
    for (name, sparse, file) in [("g1", false, CacheFile::Reserved), ("g2", true, CacheFile::Sparse)] {
        let cache = bench.device(&format!("{name}.cache"), (256 << 20) + 1);
        let made =
            bench.ok("POST", "/api/v1/groups", json!({"name": name, "cache": cache, "capacity": [memory()], "sparse": sparse})).await;
        assert_eq!(made["cache"]["bytes"], json!((256 << 20) + 4096));
        assert_eq!(bench.plane.files().last(), Some(&file));
    }
    bench.ok("POST", "/api/v1/groups", json!({"name": "g3", "cache": memory(), "capacity": vec![memory(); 7], "shards": 2})).await;
}

#[tokio::test]
async fn a_group_that_cannot_be_made_leaves_no_file_and_no_name() {
    let bench = Bench::new();
    let group = json!({"name": "g", "sparse": true, "cache": bench.device("c", GIB), "capacity": [bench.device("d", GIB), bench.device("f", GIB), bench.device("e", GIB)]});
    // One of them was there before.
    std::fs::File::create(bench.dir.path().join("f")).and_then(|f| f.set_len(GIB)).unwrap();
    for n in 0..3 {
        bench.plane.fail_next("format_group", fake::missing("/dev/none"));
        bench.refused("POST", "/api/v1/groups", group.clone()).await;
        let there = |name: &str| bench.dir.path().join(name).exists();
        assert_eq!(["c", "d", "e", "f"].map(there), [false, false, false, true], "{n}");
        assert_eq!(bench.get("/api/v1/groups").await, json!([]));
    }
    bench.ok("POST", "/api/v1/groups", group).await;
}

#[tokio::test]
async fn a_removed_group_leaves_nothing_on_its_devices_and_nothing_of_its_volumes_elsewhere() {
    let bench = Bench::new();
    bench.group("g1", &["a", "b"]).await;
    bench.group("g2", &["c"]).await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "wide", "stripe_width": 3})).await;
    for name in ["v1", "v2"] {
        bench.ok("POST", "/api/v1/volumes", json!({"name": name, "bytes": GIB, "policy": "wide"})).await;
    }
    bench.ok("POST", "/api/v1/volumes", json!({"name": "apart", "bytes": GIB})).await;
    let apart = bench.get("/api/v1/volumes/apart").await["components"][0]["group"].clone();
    let (goes, stays) = if apart == "g1" { ("g2", "g1") } else { ("g1", "g2") };
    let count = |g: &Value| g["components"].as_u64().unwrap();
    let groups = [bench.get("/api/v1/groups/g1").await, bench.get("/api/v1/groups/g2").await];
    assert_eq!(count(&groups[0]) + count(&groups[1]), 7);
    assert!(groups.iter().all(|g| count(g) < 7), "each counts its own");
    let devices: Vec<&str> = if goes == "g1" { vec!["g1.cache", "a", "b"] } else { vec!["g2.cache", "c"] };
    for name in &devices {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(bench.dir.path().join(name)).unwrap();
        file.write_all_at(&[7; 128 << 10], 0).unwrap();
    }
    let (_, _, message) = bench.refused("DELETE", &format!("/api/v1/groups/{goes}"), Value::Null).await;
    assert!(message.contains("v1") && message.contains("v2") && !message.contains("apart"), "{message}");
    bench.ok("DELETE", &format!("/api/v1/groups/{goes}?force=true"), Value::Null).await;
    let left = bench.get("/api/v1/volumes").await;
    assert_eq!((left.as_array().unwrap().len(), &left[0]["name"]), (1, &json!("apart")));
    assert_eq!(bench.plane.components().len(), 1, "what other groups held of the others is gone too");
    assert_eq!(count(&bench.get(&format!("/api/v1/groups/{stays}")).await), 1);
    for name in devices {
        use std::io::Read;
        let mut first = vec![1; 128 << 10];
        std::fs::File::open(bench.dir.path().join(name)).and_then(|mut f| f.read_exact(&mut first)).unwrap();
        assert!(first.iter().all(|b| *b == 0), "{name} says that it belongs to a group");
    }
    for name in ["v1", "v2"] {
        bench.volume(name, GIB).await;
    }
    assert_eq!(bench.get("/api/v1/tasks").await, json!([]));
}

#[tokio::test]
async fn only_hosts_of_the_subsystems_concerned_stand_in_the_way() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/subsystems", json!({"name": "busy"})).await;
    bench.ok("POST", "/api/v1/subsystems", json!({"name": "calm"})).await;
    for (volume, subsystem) in [("b", "busy"), ("c", "calm")] {
        bench.ok("POST", "/api/v1/volumes", json!({"name": volume, "bytes": GIB, "subsystem": subsystem})).await;
    }
    bench.session("nqn.2026-11.io.basalt:busy");
    let sessions = |s: Value| s["sessions"].clone();
    assert_eq!(sessions(bench.get("/api/v1/subsystems/busy").await), 1);
    assert_eq!(sessions(bench.get("/api/v1/subsystems/calm").await), 0);
    bench.ok("DELETE", "/api/v1/volumes/c", Value::Null).await;
    bench.ok("DELETE", "/api/v1/subsystems/calm", Value::Null).await;
    bench.refused("DELETE", "/api/v1/volumes/b", Value::Null).await;
    bench.refused("DELETE", "/api/v1/subsystems/busy", Value::Null).await;
    bench.ok("DELETE", "/api/v1/subsystems/busy?force=true", Value::Null).await;
    assert_eq!(bench.get("/api/v1/volumes/b").await["attachments"], json!([]));
}

#[tokio::test]
async fn a_subsystem_keeps_what_a_change_does_not_name_and_refuses_what_cannot_be() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    let path = "/api/v1/subsystems/s";
    let grant = json!({"policy": "default", "namespaces_max": 1024, "bytes_max": 1});
    bench.ok("POST", "/api/v1/subsystems", json!({"name": "s", "nqn": "nqn.2026-11.org.example:s", "allow_any_host": true})).await;
    bench.ok("PATCH", path, json!({"security": "encrypted", "namespace_grant": grant})).await;
    let kept = bench.ok("PATCH", path, json!({})).await;
    let got = json!([kept["allow_any_host"], kept["security"], kept["namespace_grant"]]);
    assert_eq!(got, json!([true, "encrypted", grant]));
    let served = |bench: &Bench| bench.plane.desired().exports.0.0.subsystems.into_iter().find(|s| s.nqn.ends_with(":s")).unwrap();
    assert!(served(&bench).manage_namespaces && served(&bench).allow_any_host);
    for (method, path, body, status) in [
        ("POST", "/api/v1/subsystems", json!({"name": "t", "nqn": "nqn.2026-11.org.example:s"}), 409),
        ("POST", "/api/v1/subsystems", json!({"name": "S"}), 409),
        ("PATCH", path, json!({"namespace_grant": {"policy": "default", "namespaces_max": 0, "bytes_max": 1}}), 400),
        ("PATCH", path, json!({"namespace_grant": {"policy": "default", "namespaces_max": 1025, "bytes_max": 1}}), 400),
        ("PATCH", path, json!({"namespace_grant": {"policy": "default", "namespaces_max": 1, "bytes_max": 0}}), 400),
        ("PATCH", path, json!({"namespace_grant": {"policy": "none", "namespaces_max": 1, "bytes_max": 1}}), 404),
        ("PUT", "/api/v1/subsystems/s/volumes/v", json!({"nsid": 1025}), 400),
        ("PUT", "/api/v1/subsystems/s/volumes/v", json!({"nsid": 0}), 400),
    ] {
        let (got, _, message) = bench.refused(method, path, body.clone()).await;
        assert_eq!(got, status, "{method} {path} {body}: {message}");
    }
    bench.ok("PUT", "/api/v1/subsystems/s/volumes/v", json!({"nsid": 1024})).await;
    let none = bench.ok("PATCH", path, json!({"no_namespace_grant": true})).await;
    assert_eq!((&none["namespace_grant"], served(&bench).manage_namespaces), (&Value::Null, false));
}

#[tokio::test]
async fn a_volume_that_is_being_deleted_is_not_changed() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.plane.fail_next("delete_component", fake::stopped());
    bench.ok("DELETE", "/api/v1/volumes/v", Value::Null).await;
    for (method, path, body) in [
        ("PATCH", "/api/v1/volumes/v", json!({"name": "w"})),
        ("PATCH", "/api/v1/volumes/v", json!({"read_only": true})),
        ("POST", "/api/v1/volumes/v/resize", json!({"bytes": 2 * GIB})),
    ] {
        let (status, _, message) = bench.refused(method, path, body).await;
        assert!(status == 503 && message.contains("being deleted"), "{message}");
    }
    // Tried again and again, each time is counted; then nothing is left of it, its name included.
    for attempts in 2..5 {
        bench.plane.fail_next("delete_component", fake::stopped());
        bench.control.retry();
        assert_eq!(bench.get("/api/v1/tasks").await[0]["attempts"], attempts);
    }
    bench.control.retry();
    assert_eq!(bench.get("/api/v1/tasks").await, json!([]));
    bench.volume("v", GIB).await;
}

#[tokio::test]
async fn a_resize_that_fails_is_taken_back() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.plane.fail_next("update_component", fake::full());
    let (status, ..) = bench.refused("POST", "/api/v1/volumes/v/resize", json!({"bytes": 2 * GIB})).await;
    assert_eq!(status, 507);
    let as_before = |bench: &Bench| (bench.plane.desired().volumes[0].bytes, bench.plane.components()[0].bytes);
    assert_eq!(as_before(&bench), (GIB, GIB));
    bench.control.retry();
    assert_eq!((as_before(&bench), &bench.get("/api/v1/volumes/v").await["bytes"]), ((GIB, GIB), &json!(GIB)), "it is not tried for ever");
}

#[tokio::test]
async fn a_policy_whose_reservation_fits_some_of_its_volumes_only_is_taken_back_for_all() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "p", "space_reservation_percent": 10})).await;
    for name in ["a", "b", "c"] {
        bench.ok("POST", "/api/v1/volumes", json!({"name": name, "bytes": 80 * GIB, "grow_bytes_max": 80 * GIB, "policy": "p"})).await;
    }
    bench.refused("PATCH", "/api/v1/policies/p", json!({"space_reservation_percent": 100})).await;
    for name in ["a", "b", "c"] {
        assert_eq!(bench.get(&format!("/api/v1/volumes/{name}")).await["reserved_bytes"], 8 * GIB, "{name}");
    }
    bench.ok("PATCH", "/api/v1/policies/p", json!({"space_reservation_percent": 20})).await;
    assert!(bench.plane.components().iter().all(|c| c.reserve_chunks * CHUNK_BYTES == 16 * GIB), "each of its volumes");
    for (body, words) in [(json!({"stripe_width": 3}), "cannot follow"), (json!({"name": "q"}), "keeps its name")] {
        let (_, _, message) = bench.refused("PATCH", "/api/v1/policies/p", body).await;
        assert!(message.contains(words), "{message}");
    }
    bench.ok("POST", "/api/v1/policies", json!({"name": "w", "stripe_width": 2, "force_provisioning": true, "checksum": false})).await;
    let kept = bench.ok("PATCH", "/api/v1/policies/w", json!({"iops_limit": 100})).await;
    let got = json!([kept["stripe_width"], kept["force_provisioning"], kept["checksum"], kept["iops_limit"], kept["bandwidth_limit"]]);
    assert_eq!(got, json!([2, true, false, 100, null]));
    let kept = bench.ok("PATCH", "/api/v1/policies/w", json!({"bandwidth_limit": MIB, "iops_limit": 10})).await;
    assert_eq!(json!([kept["iops_limit"], kept["bandwidth_limit"]]), json!([10, MIB]), "the lowest that there may be");
    let forced = bench.ok("PATCH", "/api/v1/volumes/a", json!({"policy": "w"})).await;
    assert_eq!((&forced["compliant"], &forced["policy"]), (&json!(false), &json!("w")));
    let (status, _, message) = bench.refused("DELETE", "/api/v1/policies/default", Value::Null).await;
    assert!(status == 409 && message.contains("when none is named"), "{message}");
}

#[tokio::test]
async fn space_that_is_promised_is_not_promised_again() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "thick", "space_reservation_percent": 100})).await;
    let wanted = |name: &str, gib: u64| json!({"name": name, "bytes": gib * GIB, "grow_bytes_max": gib * GIB, "policy": "thick"});
    for name in ["a", "b"] {
        bench.ok("POST", "/api/v1/volumes", wanted(name, 70)).await;
    }
    assert_eq!(bench.get("/api/v1/groups/g1").await["capacity"][0]["reserved_bytes"], 70 * GIB, "one on each device");
    let (status, _, message) = bench.refused("POST", "/api/v1/volumes", wanted("c", 70)).await;
    assert!(status == 507 && message.contains("60 GiB are free"), "{message}");
    bench.ok("POST", "/api/v1/volumes", wanted("c", 30)).await;
    bench.ok("DELETE", "/api/v1/volumes/a", Value::Null).await;
    bench.ok("POST", "/api/v1/volumes", wanted("d", 70)).await;
}

#[tokio::test]
async fn figures_of_groups_are_shown_for_their_device_and_volume_and_make_checks() {
    let bench = Bench::new();
    bench.group("g1", &["a", "b"]).await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "wide", "stripe_width": 2})).await;
    bench.ok("POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "policy": "wide"})).await;
    bench.group("g2", &["c"]).await;
    assert_eq!(bench.checks().await, []);
    let again = |bench: &Bench| {
        bench.control.listen(ListenerSpec {
            addr: "192.0.2.1:8009".parse().unwrap(),
            kind: ListenerKind::Discovery,
            advertise: None,
            security: base::Security::Plain,
        })
    };
    again(&bench).unwrap();
    assert_eq!(bench.checks().await, []);
    // Figures are half a second old at most, and new after a change.
    let fresh = async || drop(bench.ok("PATCH", "/api/v1/volumes/v", json!({})).await);
    let figures = |used: [u64; 2], reserved: [u64; 2], buffer: u64| {
        move |f: &mut crate::plane::GroupFigures| {
            let n = f.capacity_bytes.len();
            f.capacity_used_bytes = used[..n].to_vec();
            f.capacity_reserved_bytes = reserved[..n].to_vec();
            f.buffer_used_bytes = f.buffer_bytes / 100 * buffer;
            f.components.iter_mut().for_each(|(no, bytes)| *bytes = u64::from(*no) * MIB);
        }
    };
    bench.plane.figures(figures([3 * GIB, 5 * GIB], [7 * GIB, 11 * GIB], 50));
    fresh().await;
    let group = bench.get("/api/v1/groups/g1").await;
    let of = |n: usize| json!([group["capacity"][n]["used_bytes"], group["capacity"][n]["reserved_bytes"]]);
    assert_eq!((of(0), of(1)), (json!([3 * GIB, 7 * GIB]), json!([5 * GIB, 11 * GIB])));
    assert_eq!(json!([group["used_bytes"], group["reserved_bytes"]]), json!([8 * GIB, 18 * GIB]));
    assert_eq!(bench.get("/api/v1/volumes/v").await["used_bytes"], json!(3 * MIB), "its components are 1 and 2");
    // The second group is the fuller one. It has 100 GiB.
    for (used, reserved, buffer, expected) in [
        (79, 0, 89, vec![]),
        (80, 0, 0, vec![("capacity", "warning")]),
        (40, 40, 0, vec![("capacity", "warning")]),
        (94, 0, 0, vec![("capacity", "warning")]),
        (95, 0, 0, vec![("capacity", "error")]),
        (5, 90, 0, vec![("capacity", "error")]),
        (0, 0, 91, vec![("buffer_full", "warning")]),
    ] {
        let change = figures([used * GIB, 0], [reserved * GIB, 0], buffer);
        bench.plane.figures(move |f| {
            if f.capacity_bytes.len() == 1 {
                change(f)
            }
        });
        fresh().await;
        let expected: Vec<_> = expected.into_iter().map(|(id, health)| (id.to_owned(), health.to_owned(), "group g2".to_owned())).collect();
        assert_eq!(bench.checks().await, expected, "{used}, {reserved}, {buffer}");
    }
    bench.plane.figures(|f| {
        if f.capacity_bytes.len() == 1 {
            (f.failed_shards, f.failing_shards, f.media_errors, f.devices[1].errors) = (1, 1, 1, 1);
        }
    });
    fresh().await;
    let mut checks = bench.checks().await;
    assert_eq!(checks.pop(), Some(("device_errors".into(), "warning".into(), "group g2".into())), "what is worse comes first");
    let ids: Vec<_> = checks.iter().map(|(id, health, subject)| (id.as_str(), health.as_str(), subject.as_str())).collect();
    assert_eq!(ids, ["cache_failed", "capacity_failing", "media_errors"].map(|id| (id, "error", "group g2")));
}

#[tokio::test]
async fn a_change_that_could_not_be_served_is_shown_until_it_is() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.plane.fail_next("apply", fake::stopped());
    bench.refused("PATCH", "/api/v1/volumes/v", json!({"read_only": true})).await;
    assert_eq!(bench.checks().await, [("apply_failed".into(), "error".into(), "node".into())]);
    bench.control.retry();
    assert_eq!(bench.checks().await, []);
    assert!(bench.plane.desired().volumes[0].write_protect.is_on());
}

#[tokio::test]
async fn a_volume_that_is_deleted_is_shown_in_no_subsystem_any_more() {
    for subsystems in 0..4 {
        let bench = Bench::new().with_group().await;
        bench.ok("POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "detached": true})).await;
        for n in 0..subsystems {
            bench.ok("POST", "/api/v1/subsystems", json!({"name": format!("s{n}")})).await;
            bench.ok("PUT", &format!("/api/v1/subsystems/s{n}/volumes/v"), json!({})).await;
        }
        assert_eq!(bench.get("/api/v1/volumes/v").await["attachments"].as_array().unwrap().len(), subsystems);
        bench.ok("DELETE", "/api/v1/volumes/v", Value::Null).await;
        for s in bench.get("/api/v1/subsystems").await.as_array().unwrap() {
            assert_eq!(s["namespaces"], json!([]), "{}", s["name"]);
        }
        assert!(bench.plane.desired().exports.0.0.subsystems.iter().all(|s| s.namespaces.is_empty()));
    }
}

#[tokio::test]
async fn a_shrink_frees_all_that_lies_behind_the_end_on_every_mirror() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "wide", "stripe_width": 2})).await;
    for (policy, mirrors) in [("default", 1), ("wide", 2)] {
        bench.ok("POST", "/api/v1/volumes", json!({"name": policy, "bytes": 9 * MIB, "policy": policy})).await;
        for (bytes, reached) in [(4 * MIB, 9), (3 * MIB, 4), (MIB, 3)] {
            bench.ok("POST", &format!("/api/v1/volumes/{policy}/resize"), json!({"bytes": bytes, "force": true})).await;
            let reached = u64::div_ceil(reached, mirrors) * mirrors * MIB;
            assert_eq!(bench.plane.freed().last().map(|f| f.1), Some(reached), "{policy} to {bytes}");
            assert_eq!(bench.plane.ends().last(), Some(&bytes), "{policy}: its hosts do not reach behind it any more");
        }
    }
}

#[tokio::test]
async fn what_a_host_proves_itself_with_is_kept_changed_and_served_piece_by_piece() {
    const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    const PSK: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/hosts", json!({"nqn": HOST, "name": "kvm1"})).await;
    for taken in [json!({"nqn": HOST, "name": "other"}), json!({"nqn": OTHER, "name": "KVM1"})] {
        assert_eq!(bench.refused("POST", "/api/v1/hosts", taken).await.0, 409);
    }
    let served = |bench: &Bench| bench.plane.desired().exports.0.0.hosts.get(HOST).cloned();
    assert_eq!(served(&bench), None);
    // Keys: one for each subsystem and one for all, the newest of each.
    let psk = "/api/v1/hosts/kvm1/tls-psk";
    for (subsystem, count) in [(json!(null), 1), (json!("default"), 2), (json!(null), 2), (json!("default"), 2)] {
        let shown = bench.ok("PUT", psk, json!({"psk": PSK, "subsystem": subsystem})).await;
        assert_eq!((shown["tls_psks"].as_array().unwrap().len(), served(&bench).unwrap().tls_psks.len()), (count, count));
    }
    assert!(served(&bench).unwrap().credentials.is_none());
    bench.ok("DELETE", psk, Value::Null).await;
    assert_eq!(served(&bench), None);
    // Secrets: what a change does not name stays.
    let dhchap = "/api/v1/hosts/kvm1/dhchap";
    let file = bench.dir.path().join("controller");
    std::fs::write(&file, "DHHC-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).unwrap();
    bench.refused("PUT", dhchap, json!({"groups": ["ffdhe3072"]})).await;
    bench.ok("PUT", dhchap, json!({"secret": SECRET, "hashes": ["sha512", "sha384"], "groups": ["ffdhe3072"]})).await;
    bench.refused("PUT", dhchap, json!({"controller_secret": SECRET})).await;
    bench.ok("PUT", dhchap, json!({"controller_secret_path": file})).await;
    let shown = bench.ok("PUT", dhchap, json!({"secret": SECRET})).await["dhchap"].clone();
    assert_eq!((&shown["hashes"], &shown["groups"]), (&json!(["sha512", "sha384"]), &json!(["ffdhe3072"])));
    assert!(shown["controller_secret"].is_string());
    let credentials = served(&bench).unwrap().credentials.unwrap();
    assert_eq!((credentials.hashes.len(), credentials.groups.len(), credentials.controller.is_some()), (2, 1, true));
    let shown = bench.ok("PUT", dhchap, json!({"no_controller_secret": true})).await["dhchap"].clone();
    assert_eq!(shown["controller_secret"], Value::Null);
    assert!(served(&bench).unwrap().credentials.unwrap().controller.is_none());
    // A host whose name goes has no secret any more, whichever it had, and its name is free.
    for left in [None, Some((psk, json!({"psk": PSK}))), Some((dhchap, json!({"secret": SECRET})))] {
        if let Some((path, secret)) = left {
            bench.ok("POST", "/api/v1/hosts", json!({"nqn": HOST, "name": "kvm1"})).await;
            bench.ok("PUT", path, secret).await;
            assert!(served(&bench).is_some());
        }
        bench.ok("DELETE", "/api/v1/hosts/kvm1", Value::Null).await;
        assert_eq!(served(&bench), None);
    }
    bench.ok("POST", "/api/v1/hosts", json!({"nqn": OTHER, "name": "kvm1"})).await;
}

#[tokio::test]
async fn a_volume_that_is_back_is_not_called_offline() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.plane.fail_next("open_group", fake::missing("/dev/none"));
    let bench = bench.restart();
    assert_eq!(bench.get("/api/v1/volumes/v").await["state"], "offline");
    bench.ok("DELETE", "/api/v1/groups/g1?force=true", Value::Null).await;
    std::fs::read_dir(bench.dir.path()).unwrap().flatten().filter(|f| f.path().extension().is_some_and(|e| e == "img")).for_each(|f| {
        std::fs::remove_file(f.path()).unwrap();
    });
    let bench = bench.with_group().await;
    bench.volume("v", GIB).await;
    assert_eq!(bench.checks().await, []);
}

#[tokio::test]
async fn a_subsystem_names_as_many_hosts_as_it_may_and_no_more() {
    let bench = Bench::new();
    let nqn = |n: usize| format!("nqn.2014-08.org.nvmexpress:uuid:6e3a8f0e-6d2c-4b8f-9d4e-{n:012}");
    let hosts: Vec<String> = (0..1024).map(nqn).collect();
    let subsystem = |name: &str, hosts: &[String]| json!({"name": name, "hosts": hosts});
    bench.refused("POST", "/api/v1/subsystems", subsystem("s", &[&hosts[..], &[nqn(1024)]].concat())).await;
    bench.ok("POST", "/api/v1/subsystems", subsystem("s", &hosts[1..])).await;
    let allow = |n: usize| format!("/api/v1/subsystems/s/hosts/{}", nqn(n));
    bench.ok("PUT", &allow(0), Value::Null).await;
    assert_eq!(bench.refused("PUT", &allow(1024), Value::Null).await.0, 409);
    bench.ok("DELETE", &allow(7), Value::Null).await;
    bench.ok("PUT", &allow(1024), Value::Null).await;
}
