//! A nemesis: the daemons of a cluster are killed, hung, restarted, cut off in every shape, their members of etcd killed, volumes handed from owner to
//! owner, their copies added, taken away and made anew, all at random, while hosts write and verify through every node.
//!
//! ```text
//! cargo test -p basalt --test whole nemesis::                          # twenty seconds
//! make nemesis MINUTES=10                                              # as long as you like; SEED=N plays the same choices again
//! make nemesis MINUTES=10 WITNESS=1                                    # two nodes with data and a witness
//! ```
//!
//! Invariants: one node is disturbed at a time, and comes back, so the directory has a majority; what follows on the other nodes (takeovers, resyncs)
//! overlaps. At the end every volume has its copies in sync, and each copy holds what the hosts wrote: every node with one owns the volume in turn, and all
//! of it is read.

use crate::cluster::config;
use crate::harness::load::{Load, assert_clean, assert_no_wrong_byte, assert_only_of_paths};
use crate::harness::networks::{Cut, Networks, has_own_network, in_own_network};
use crate::harness::turn::{Subject, Turn};
use crate::harness::{Daemon, signal, until};
use lab::verified::{self, LoadSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// A volume for each node with data: the host that uses it goes through that one.
const VOLUMES: [(&str, &str); 3] = [("v0", "two"), ("v1", "three"), ("v2", "two")];
/// The same with two such nodes.
const VOLUMES_OF_TWO: [(&str, &str); 2] = [("v0", "two"), ("v1", "two")];
const HUNG_MAX_MS: u64 = 8000;
const CUT_MAX_MS: u64 = 8000;
/// Hand-overs one after the other.
const HAND_OVERS: usize = 6;
const DOWN_MAX_MS: u64 = 6000;
const PAUSE_MAX_MS: u64 = 2500;
/// How long copies may take to be in sync again when nothing disturbs any more, with those that are tried again later.
const CALM_MAX: Duration = Duration::from_secs(180);

/// Choices from a seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
    fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// What is done, each as often as it stands here.
const DEEDS: [&str; 15] = [
    "kill",
    "kill",
    "hang",
    "hang",
    "restart",
    "kill etcd",
    "hand over",
    "hand over",
    "cut",
    "cut",
    "cut",
    "other policy",
    "repair",
    "make and delete",
    "other wait",
];

struct Cluster {
    /// The first ones have data; a witness is the last.
    nodes: [Daemon; 3],
    volumes: &'static [(&'static str, &'static str)],
    /// `None`: nothing can be cut off.
    networks: Option<Networks>,
    choices: Choices,
    done: BTreeMap<&'static str, u32>,
    began: Instant,
}

impl Cluster {
    fn formed(seed: u64, witness: bool) -> Self {
        let networks = has_own_network().then(|| Networks::of(NAMES.len()));
        let node = |at: usize| {
            let place = networks.as_ref().map(|networks| networks.place(at));
            Daemon::kept_at(place, Subject::Faults, &(config(NAMES[at]) + "try_mirrors = true\n"))
        };
        let [mut a, mut b, mut c] = [0, 1, 2].map(node);
        a.create_cluster();
        b.join(&a, "");
        if witness {
            c.join_as_witness(&a)
        } else {
            c.join(&a, "")
        }
        a.wait_voters(3);
        let volumes: &[_] = if witness { &VOLUMES_OF_TWO } else { &VOLUMES };
        let nodes = [a, b, c];
        for (name, node) in NAMES.iter().zip(&nodes).take(volumes.len()) {
            let (cache, capacity) = (node.at("cache"), node.at("capacity"));
            node.ok(&format!("group create g{name} --shards 2 --cache {cache}:256MiB --capacity {capacity}:512MiB"));
        }
        let [a, ..] = &nodes;
        for (policy, failures) in [("two", 1), ("three", 2)] {
            a.ok(&format!("policy create {policy} --failures-to-tolerate {failures} --repair-after 10s"));
        }
        for (volume, policy) in volumes {
            until("each says what it has", || {
                let made = a.cli(&format!("volume create {volume} --size 16MiB --policy {policy}"));
                made.status.success().then_some(())
            });
        }
        Self { nodes, volumes, networks, choices: Choices(seed), done: BTreeMap::new(), began: Instant::now() }
    }

    /// A host that writes and verifies a volume through a node, as long as the test goes on.
    fn load(&self, at: usize) -> Load {
        let nsid = at as u32 + 1;
        until("it is served", || {
            let once = LoadSpec { seed: 3, depth: 4, ops: Some(1), read_back: false, ..LoadSpec::new(self.nodes[at].options(), nsid) };
            verified::run(once, |_| ()).ok().filter(|r| r.0.is_clean())
        });
        Load::start(LoadSpec {
            seed: 11 + at as u64,
            queues: 1,
            depth: 8,
            time: Duration::from_secs(24 * 3600),
            reconnect_for: Duration::from_secs(60),
            before: verified::Before::Unknown,
            ..LoadSpec::new(self.nodes[at].options(), nsid)
        })
    }

    fn says(&self, what: &str) {
        println!("{:8.2} s  {what}", self.began.elapsed().as_secs_f64());
    }
    /// An administrator asks for something at a node; it may be refused.
    fn asks(&mut self, line: &str) {
        let at = self.choices.below(3) as usize;
        let output = self.nodes[at].cli(line);
        let how = if output.status.success() { "done" } else { "not done" };
        self.says(&format!("{line} at {}: {how}", NAMES[at]));
    }
    fn disturbs(&mut self) {
        let deed = DEEDS[self.choices.below(DEEDS.len() as u64) as usize];
        let (at, volume) = (self.choices.below(3) as usize, self.volumes[self.choices.below(self.volumes.len() as u64) as usize].0);
        *self.done.entry(deed).or_default() += 1;
        match deed {
            "kill" => {
                let down = self.choices.millis(DOWN_MAX_MS);
                self.says(&format!("{} is killed, for {down:?}", NAMES[at]));
                self.nodes[at].kill();
                sleep(down);
                self.nodes[at].start();
            }
            "hang" => {
                let hung = self.choices.millis(HUNG_MAX_MS);
                self.says(&format!("{} hangs for {hung:?}", NAMES[at]));
                self.nodes[at].signal("-STOP");
                sleep(hung);
                self.nodes[at].signal("-CONT");
            }
            "restart" => {
                self.says(&format!("{} is restarted", NAMES[at]));
                self.nodes[at].stop();
                self.nodes[at].start();
            }
            "kill etcd" => {
                self.says(&format!("etcd of {} is killed", NAMES[at]));
                members_of(self.nodes[at].id()).into_iter().for_each(|id| signal(id, "-KILL"));
            }
            "cut" => {
                let cut = [Cut::In, Cut::Out, Cut::Both, Cut::Off, Cut::From((at + 1) % 3)][self.choices.below(5) as usize];
                let time = self.choices.millis(CUT_MAX_MS);
                let Some(networks) = &self.networks else { return self.says("nothing can be cut off here") };
                self.says(&format!("{} is cut off, {cut:?}, for {time:?}", NAMES[at]));
                networks.cut(at, cut);
                sleep(time);
                networks.heal();
            }
            "hand over" => {
                for turn in 0..=self.choices.below(HAND_OVERS as u64) as usize {
                    self.asks(&format!("volume set {volume} --owner {}", NAMES[(at + turn) % self.volumes.len()]));
                }
            }
            "other policy" => self.asks(&format!("volume set v0 --policy {}", ["default", "two", "three"][at])),
            "repair" => self.asks(&format!("volume repair {volume}")),
            "make and delete" => {
                self.asks("volume create extra --size 16MiB --policy two --detached");
                self.asks("volume delete extra --yes");
            }
            "other wait" => self.asks(&format!("policy set three --repair-after {}s", 5 + at * 10)),
            other => unreachable!("{other}"),
        }
        let pause = self.choices.millis(PAUSE_MAX_MS);
        sleep(pause);
    }

    fn shown(&self, volume: &str) -> Value {
        self.nodes[0].json(&format!("volume show {volume}"))
    }
    /// Nothing disturbs any more: all copies come back into sync.
    fn calms(&self) {
        let began = Instant::now();
        for (volume, _) in self.volumes {
            loop {
                let shown = self.shown(volume);
                let states: Vec<&str> =
                    shown["components"].as_array().expect("a list").iter().filter_map(|c| c["state"].as_str()).collect();
                if shown["copies_in_sync"] == shown["copies"] && states.iter().all(|s| *s == "active") {
                    break;
                }
                assert!(began.elapsed() < CALM_MAX, "{volume} is not in sync after {CALM_MAX:?}: {states:?}\n{}", self.nodes[0].log_tail());
                sleep(Duration::from_millis(200));
            }
        }
        self.says(&format!("all copies are in sync after {:?}", began.elapsed()));
    }
    /// What hosts wrote is in each copy: its node owns the volume, and is read through another one and directly.
    fn is_right(&self, at: usize, load: Load) {
        let (volume, nsid) = (self.volumes[at].0, at as u32 + 1);
        let (summary, saved) = load.finish(&self.nodes[at]);
        assert_only_of_paths(&summary, &self.nodes[at]);
        assert!(summary.bytes_written > 0 && summary.bytes_read > 0, "{summary:?}");
        self.says(&format!("{volume}: {} bytes written, {} requests failed", summary.bytes_written, summary.errors.values().sum::<u64>()));
        let shown = self.shown(volume);
        for owner in shown["components"].as_array().expect("a list").iter().filter_map(|c| c["node"].as_str()) {
            self.nodes[0].ok(&format!("volume set {volume} --owner {owner}"));
            until("it is handed over", || (self.shown(volume)["owner"] == owner).then_some(()));
            for node in &self.nodes[..self.volumes.len()] {
                let served = || {
                    let check = LoadSpec { ops: Some(0), resume: Some(saved.clone()), ..LoadSpec::new(node.options(), nsid) };
                    let (summary, _) = verified::run(check, |_| ()).ok()?;
                    assert_no_wrong_byte(&summary, node);
                    (summary.is_clean() && summary.units_checked > 0).then_some(summary)
                };
                assert_clean(&until("it is served by the new owner", served), node);
            }
        }
    }
}

/// The processes of etcd that a daemon has started.
fn members_of(daemon: u32) -> Vec<u32> {
    let stat = |id: u32| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
    let is_its = |id: &u32| {
        // `42 (etcd) S 41 ..`: who it is, how it is, of whom.
        let text = stat(*id).unwrap_or_default();
        text.contains(" (etcd) ") && text.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&daemon.to_string())
    };
    let all = std::fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok);
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_its).collect()
}

fn plays(seed: u64, time: Duration, witness: bool) {
    println!("seed {seed}, {time:?}{}", if witness { ", two nodes and a witness" } else { "" });
    let mut cluster = Cluster::formed(seed, witness);
    let loads: Vec<Load> = (0..cluster.volumes.len()).map(|at| cluster.load(at)).collect();
    while cluster.began.elapsed() < time {
        cluster.disturbs();
        loads.iter().zip(&cluster.nodes).for_each(|(load, node)| load.assert_running(node));
    }
    cluster.calms();
    for (at, load) in loads.into_iter().enumerate() {
        cluster.is_right(at, load);
    }
    println!("done: {:?}", cluster.done);
    cluster.nodes.iter_mut().for_each(Daemon::stop);
}

/// Twenty seconds of the same choices; of others, as long as `NEMESIS_MINUTES` says.
#[test]
fn hosts_verify_while_a_cluster_is_disturbed() {
    // Also for the process that does it: tests of other subjects wait.
    let _turn = Turn::take(Subject::Faults);
    if in_own_network("nemesis::hosts_verify_while_a_cluster_is_disturbed") {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().expect("a number"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    match number("NEMESIS_MINUTES") {
        None => plays(4711, Duration::from_secs(20), false),
        Some(minutes) => {
            plays(number("NEMESIS_SEED").unwrap_or(now), Duration::from_secs(60 * minutes), number("NEMESIS_WITNESS").is_some())
        }
    }
}
