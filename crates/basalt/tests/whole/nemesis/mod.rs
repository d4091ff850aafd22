//! A nemesis: the daemons of a cluster are killed, hung, restarted, cut off in every shape, their members of etcd killed and hung, their disks slow and
//! full, their clocks stepped, volumes handed from owner to owner, their copies added, taken away and made anew, all at random and at the same time, while
//! hosts write, verify and reserve through every node.
//!
//! ```text
//! cargo test -p basalt --test whole nemesis::                          # twenty seconds
//! make nemesis MINUTES=10                                              # as long as you like; SEED=N plays the same choices again
//! make nemesis MINUTES=10 NODES=5                                      # with four or five nodes
//! make nemesis MINUTES=10 WITNESS=1                                    # two nodes with data and a witness
//! make nemesis HISTORY=FILE                                            # judges a history again
//! ```
//!
//! Invariants: so many nodes are disturbed at a time that the rest is a majority, and each comes back. At the end every volume has its copies in sync, and
//! each copy holds what the hosts wrote: every node with one owns the volume in turn, and all of it is read. What hosts of the shared volumes did
//! could have happened one after another (`models::history`).

mod hosts;
mod record;

use crate::cluster::config;
use crate::harness::load::{Load, assert_clean, assert_no_wrong_byte, assert_only_of_paths};
use crate::harness::networks::{Cut, Networks, has_own_network, in_own_network};
use crate::harness::small_disk::SmallDisk;
use crate::harness::throttle::Throttle;
use crate::harness::turn::{Subject, Turn};
use crate::harness::{Daemon, asked_at, signal, until};
use hosts::{Host, Use};
use initiator::ControllerOptions;
use initiator::rng::Rng;
use lab::verified::{self, LoadSpec};
use models::history;
use record::Recorder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Volumes with a host of their own, which goes through one node.
const VOLUMES: [(&str, &str); 3] = [("v0", "two"), ("v1", "three"), ("v2", "two")];
/// The same with two nodes that have data.
const VOLUMES_OF_TWO: [(&str, &str); 2] = [("v0", "two"), ("v1", "two")];
/// Volumes that several hosts use by all nodes, with what they do there.
const SHARED: [(&str, Use); 2] = [("shared", Use::Blocks), ("reserved", Use::Reservations)];
/// Blocks of the volume that hosts share which they use: few, so that they meet.
const BLOCKS: u64 = 48;
/// Hosts of each shared volume, for each node with data.
const HOSTS: u64 = 2;
/// The number of who reads all at the end.
const READER: u64 = 99;
/// Of the file system that a node's capacity lies on: more than all volumes together.
const CAPACITY_ROOM: u64 = 192 << 20;
/// What a slow disk writes.
const SLOW_BYTES_PER_S: u64 = 1 << 20;
const DISK_MAX_MS: u64 = 8000;
/// A clock is stepped by at most so many seconds, there and back.
const STEP_MAX_S: u64 = 900;
/// A member of etcd that was killed is back by then.
const MEMBER_BACK: Duration = Duration::from_secs(3);
/// Of what administrators ask for at the same time.
const ASKED_MAX: usize = 6;
const HUNG_MAX_MS: u64 = 8000;
const CUT_MAX_MS: u64 = 8000;
/// Hand-overs one after the other.
const HAND_OVERS: usize = 6;
const DOWN_MAX_MS: u64 = 6000;
const PAUSE_MAX_MS: u64 = 2500;
/// How long copies may take to be in sync again when nothing disturbs any more, with those that are tried again later.
const CALM_MAX: Duration = Duration::from_secs(180);

/// What is done, each as often as it stands here.
const DEEDS: [&str; 23] = [
    "kill",
    "kill",
    "hang",
    "hang",
    "stutter",
    "restart",
    "kill etcd",
    "hang etcd",
    "hand over",
    "hand over",
    "hand over",
    "cut",
    "cut",
    "cut",
    "slow disk",
    "full disk",
    "step clock",
    "other policy",
    "repair",
    "scrub",
    "make and delete",
    "other wait",
    "other stripes",
];

/// What ends a disturbance.
enum Ending {
    /// A node that was killed starts.
    Starts(usize),
    /// A node that was asked to end has ended, and starts.
    Restarts(usize),
    /// A node that hangs goes on.
    GoesOn(usize),
    /// The members of etcd of a node that hang go on.
    MembersGoOn(usize, Vec<u32>),
    /// A node's member of etcd has had time to come back.
    MemberIsBack(usize),
    /// A node is cut off no more.
    Heals(usize),
    /// Its disk is as fast as before.
    Fast(Throttle),
    /// Its disk has room.
    HasRoom(usize),
}

impl Ending {
    /// The node that counts as disturbed until then.
    fn node(&self) -> Option<usize> {
        match self {
            Self::Starts(at) | Self::Restarts(at) | Self::GoesOn(at) | Self::MembersGoOn(at, _) | Self::MemberIsBack(at) => Some(*at),
            Self::Heals(at) => Some(*at),
            Self::Fast(_) | Self::HasRoom(_) => None,
        }
    }
}

/// How it is played.
#[derive(Clone, Copy, Debug)]
struct Play {
    seed: u64,
    time: Duration,
    /// Nodes, the witness counted.
    nodes: usize,
    witness: bool,
}

/// A time below a bound, by chance.
fn lasts(choices: &mut Rng, max_ms: u64) -> Duration {
    Duration::from_millis(choices.below(max_ms))
}

struct Cluster {
    /// The first ones have data; a witness is the last.
    nodes: Vec<Daemon>,
    /// What the capacity of each node with data lies on; `None`: it cannot be full.
    disks: Vec<Option<SmallDisk>>,
    volumes: &'static [(&'static str, &'static str)],
    /// `None`: nothing can be cut off.
    networks: Option<Networks>,
    choices: Rng,
    endings: Vec<(Instant, Ending)>,
    asked: Vec<JoinHandle<()>>,
    done: BTreeMap<&'static str, u32>,
    began: Instant,
}

impl Cluster {
    fn formed(play: Play) -> Self {
        let networks = has_own_network().then(|| Networks::of(play.nodes));
        let node = |at: usize| {
            let place = networks.as_ref().map(|networks| networks.place(at));
            let mut node = Daemon::prepared_at(place, Subject::Faults, &config(NAMES[at]));
            node.gets_clock();
            node.start();
            node
        };
        let mut nodes: Vec<Daemon> = (0..play.nodes).map(node).collect();
        let (first, others) = nodes.split_first_mut().expect("there are nodes");
        first.create_cluster();
        let last = others.len() - 1;
        for (at, other) in others.iter_mut().enumerate() {
            if play.witness && at == last { other.join_as_witness(first) } else { other.join(first, "") }
        }
        first.wait_voters(play.nodes);
        let volumes: &[_] = if play.witness { &VOLUMES_OF_TWO } else { &VOLUMES };
        let with_data = play.nodes - usize::from(play.witness);
        let disks: Vec<Option<SmallDisk>> = (0..with_data).map(|_| SmallDisk::new(CAPACITY_ROOM)).collect();
        for ((name, node), disk) in NAMES.iter().zip(&nodes).zip(&disks) {
            let capacity = disk.as_ref().map_or_else(|| node.at("capacity"), |disk| disk.file("capacity"));
            let cache = node.at("cache");
            node.ok(&format!("group create g{name} --sparse --shards 2 --cache {cache}:256MiB --capacity {capacity}:512MiB"));
        }
        for (policy, failures) in [("two", 1), ("three", 2)] {
            nodes[0].ok(&format!("policy create {policy} --failures-to-tolerate {failures} --repair-after 10s"));
        }
        for (volume, policy) in volumes.iter().copied().chain(SHARED.map(|(volume, _)| (volume, "two"))) {
            until("each says what it has", || {
                let made = nodes[0].cli(&format!("volume create {volume} --size 16MiB --policy {policy}"));
                made.status.success().then_some(())
            });
        }
        let (endings, asked, done) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { nodes, disks, volumes, networks, choices: Rng::new(play.seed), endings, asked, done, began: Instant::now() }
    }
    /// Those that have data.
    fn with_data(&self) -> &[Daemon] {
        &self.nodes[..self.disks.len()]
    }

    /// Hosts of the shared volumes, by every node with data.
    fn hosts(&self, seed: u64, recorders: &[Arc<Recorder>]) -> Vec<Host> {
        let paths: Vec<ControllerOptions> = self.with_data().iter().map(Daemon::options).collect();
        let of = HOSTS * paths.len() as u64;
        let mut hosts = Vec::new();
        for (at, ((_, what), recorder)) in SHARED.iter().zip(recorders).enumerate() {
            let nsid = (self.volumes.len() + at) as u32 + 1;
            let start = |number| Host::start(number, *what, paths.clone(), nsid, of, seed, Arc::clone(recorder));
            hosts.extend((1..=of).map(start));
        }
        hosts
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
    /// An administrator asks for something at a node, one after the other, beside everything else; it may be refused.
    fn asks(&mut self, at: usize, lines: Vec<String>) {
        self.asked.retain(|asked| !asked.is_finished());
        if self.asked.len() >= ASKED_MAX {
            return self.says(&format!("{ASKED_MAX} administrators wait for answers: not asked for {lines:?}"));
        }
        let (api, began) = (self.nodes[at].path("data/api.sock"), self.began);
        self.asked.push(thread::spawn(move || {
            for line in lines {
                let how = asked_at(&api, &line).map_or("no answer", |output| if output.status.success() { "done" } else { "not done" });
                println!("{:8.2} s  {line} at {}: {how}", began.elapsed().as_secs_f64(), NAMES[at]);
            }
        }));
    }
    /// Whether a node may be disturbed: those that are then leave a majority.
    fn is_disturbable(&self, at: usize) -> bool {
        let disturbed: Vec<usize> = self.endings.iter().filter_map(|(_, ending)| ending.node()).collect();
        (disturbed.len() + 1) * 2 < self.nodes.len() && !disturbed.contains(&at)
    }
    fn later(&mut self, after: Duration, ending: Ending) {
        self.endings.push((Instant::now() + after, ending));
    }
    /// Ends what was to last until now; with `all`, everything.
    fn ends(&mut self, all: bool) {
        let now = Instant::now();
        while let Some(at) = self.endings.iter().position(|(due, _)| all || *due <= now) {
            match self.endings.swap_remove(at).1 {
                Ending::Starts(node) => self.nodes[node].start(),
                Ending::Restarts(node) => {
                    self.nodes[node].wait_end();
                    self.nodes[node].start();
                }
                Ending::GoesOn(node) => self.nodes[node].signal("-CONT"),
                Ending::MembersGoOn(_, members) => members.into_iter().filter(|id| is_there(*id)).for_each(|id| signal(id, "-CONT")),
                Ending::Heals(node) => {
                    self.networks.as_ref().expect("it was cut").heal();
                    // All of them are healed.
                    let healed = |ending: &Ending| matches!(ending, Ending::Heals(other) if *other != node);
                    self.endings.retain(|(_, ending)| !healed(ending));
                }
                Ending::HasRoom(node) => self.disks[node].as_ref().expect("it was full").clear(),
                Ending::Fast(throttle) => drop(throttle),
                Ending::MemberIsBack(_) => {}
            }
        }
    }

    /// Does one of the deeds, and says how long to wait for the next.
    fn disturbs(&mut self) -> Duration {
        // Each has choices of its own: the next ones are the same, whatever this one needs.
        let mut choices = Rng::new(self.choices.next_u64());
        let mut below = |end: usize| choices.below(end as u64) as usize;
        let (deed, pause) = (DEEDS[below(DEEDS.len())], Duration::from_millis(below(PAUSE_MAX_MS as usize) as u64));
        let names: Vec<&str> = self.volumes.iter().map(|v| v.0).chain(SHARED.map(|s| s.0)).collect();
        let with_data = self.disks.len();
        let (volume, node, of_data, asked) =
            (names[below(names.len())], below(self.nodes.len()), below(with_data), below(self.nodes.len()));
        let is_of_nodes = ["kill", "hang", "stutter", "restart", "kill etcd", "hang etcd", "cut"].contains(&deed);
        if !is_of_nodes || self.is_disturbable(node) {
            *self.done.entry(deed).or_default() += 1;
            self.does(deed, if is_of_nodes { node } else { of_data }, volume, asked, &mut choices);
        }
        pause
    }
    fn does(&mut self, deed: &str, at: usize, volume: &str, asked: usize, choices: &mut Rng) {
        let with_data = self.disks.len();
        let name = NAMES[at];
        match deed {
            "kill" => {
                let down = lasts(choices, DOWN_MAX_MS);
                self.says(&format!("{name} is killed, for {down:?}"));
                self.nodes[at].kill();
                self.later(down, Ending::Starts(at));
            }
            "hang" => {
                let hung = lasts(choices, HUNG_MAX_MS);
                self.says(&format!("{name} hangs for {hung:?}"));
                self.nodes[at].signal("-STOP");
                self.later(hung, Ending::GoesOn(at));
            }
            // In the middle of a turn of its loops, again and again.
            "stutter" => {
                let times = 1 + choices.below(20);
                self.says(&format!("{name} stutters {times} times"));
                for _ in 0..times {
                    self.nodes[at].signal("-STOP");
                    sleep(lasts(choices, 60));
                    self.nodes[at].signal("-CONT");
                    sleep(lasts(choices, 60));
                }
            }
            "restart" => {
                self.says(&format!("{name} is restarted"));
                self.nodes[at].signal("-TERM");
                self.later(Duration::ZERO, Ending::Restarts(at));
            }
            "kill etcd" => {
                self.says(&format!("etcd of {name} is killed"));
                members_of(self.nodes[at].id()).into_iter().for_each(|id| signal(id, "-KILL"));
                self.later(MEMBER_BACK, Ending::MemberIsBack(at));
            }
            "hang etcd" => {
                let (hung, members) = (lasts(choices, HUNG_MAX_MS), members_of(self.nodes[at].id()));
                self.says(&format!("etcd of {name} hangs for {hung:?}"));
                members.iter().for_each(|id| signal(*id, "-STOP"));
                self.later(hung, Ending::MembersGoOn(at, members));
            }
            "cut" => {
                let from = (at + 1 + choices.below(self.nodes.len() as u64 - 1) as usize) % self.nodes.len();
                let cut = [Cut::In, Cut::Out, Cut::Both, Cut::Off, Cut::From(from)][choices.below(5) as usize];
                let time = lasts(choices, CUT_MAX_MS);
                let Some(networks) = &self.networks else { return self.says("nothing can be cut off here") };
                self.says(&format!("{name} is cut off, {cut:?}, for {time:?}"));
                networks.cut(at, cut);
                self.later(time, Ending::Heals(at));
            }
            "slow disk" => {
                let time = lasts(choices, DISK_MAX_MS);
                let node = &self.nodes[at];
                let runs = self.endings.iter().all(|(_, ending)| ending.node() != Some(at) && !matches!(ending, Ending::Fast(_)));
                let slow = runs.then(|| Throttle::of(Path::new(&node.at("")), node.id(), SLOW_BYTES_PER_S)).flatten();
                let Some(slow) = slow else { return self.says(&format!("the disk of {name} stays as it is")) };
                self.says(&format!("the disk of {name} is slow for {time:?}"));
                self.later(time, Ending::Fast(slow));
            }
            "full disk" => {
                let time = lasts(choices, DISK_MAX_MS);
                let is_full = self.endings.iter().any(|(_, ending)| matches!(ending, Ending::HasRoom(_)));
                let Some(disk) = self.disks[at].as_ref().filter(|_| !is_full) else { return self.says("no disk can be full now") };
                disk.fill();
                self.says(&format!("the disk of {name} is full for {time:?}"));
                self.later(time, Ending::HasRoom(at));
            }
            "step clock" => {
                let off = choices.below(2 * STEP_MAX_S) as i64 - STEP_MAX_S as i64;
                let Some(clock) = self.nodes[at].clock() else { return self.says("no clock can be stepped here") };
                clock.is_off_by(off);
                self.says(&format!("the clock of {name} is off by {off} s"));
            }
            "hand over" => {
                let turns = 0..=choices.below(HAND_OVERS as u64) as usize;
                self.asks(asked, turns.map(|turn| format!("volume set {volume} --owner {}", NAMES[(at + turn) % with_data])).collect());
            }
            "other policy" => self.asks(asked, vec![format!("volume set v0 --policy {}", ["default", "two", "three"][at % 3])]),
            "repair" => self.asks(asked, vec![format!("volume repair {volume}")]),
            "scrub" => self.asks(asked, vec![format!("group scrub g{name}")]),
            "make and delete" => self
                .asks(asked, vec!["volume create extra --size 16MiB --policy two --detached".into(), "volume delete extra --yes".into()]),
            "other wait" => self.asks(asked, vec![format!("policy set three --repair-after {}s", 5 + at * 10)]),
            "other stripes" => self.asks(asked, vec![format!("policy set two --stripe-width {}", 1 + at % 2)]),
            other => unreachable!("{other}"),
        }
    }
    /// Disturbs, and ends disturbances, for so long.
    fn plays(&mut self, time: Duration, loads: &[Load]) {
        let mut next = Instant::now();
        while self.began.elapsed() < time {
            self.ends(false);
            if next <= Instant::now() {
                let pause = self.disturbs();
                next = Instant::now() + pause;
            }
            loads.iter().zip(&self.nodes).for_each(|(load, node)| load.assert_running(node));
            sleep(Duration::from_millis(10));
        }
        self.ends(true);
        // Each has a bound.
        self.asked.drain(..).for_each(|asked| asked.join().expect("nobody who asks panics"));
    }

    fn shown(&self, volume: &str) -> Value {
        self.nodes[0].json(&format!("volume show {volume}"))
    }
    /// Nothing disturbs any more: all copies come back into sync.
    fn calms(&self) {
        let began = Instant::now();
        for volume in self.volumes.iter().map(|v| v.0).chain(SHARED.map(|s| s.0)) {
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
    /// All blocks of a volume go into its history, from each copy, by every node.
    fn reads_all(&self, volume: &str, nsid: u32, recorder: &Recorder) {
        for owner in self.owned_by_each(volume) {
            for node in self.with_data() {
                until("it is served by the new owner", || hosts::read_all(recorder, READER, &node.options(), nsid).ok().filter(|all| *all));
            }
            self.says(&format!("{volume} of {owner} was read by every node"));
        }
    }
    /// Each node with a copy owns the volume in turn.
    fn owned_by_each(&self, volume: &str) -> impl Iterator<Item = String> {
        let shown = self.shown(volume);
        let owners: Vec<String> =
            shown["components"].as_array().expect("a list").iter().filter_map(|c| c["node"].as_str().map(str::to_owned)).collect();
        let volume = volume.to_owned();
        owners.into_iter().inspect(move |owner| {
            self.nodes[0].ok(&format!("volume set {volume} --owner {owner}"));
            until("it is handed over", || (self.shown(&volume)["owner"] == **owner).then_some(()));
        })
    }
    /// What hosts wrote is in each copy: its node owns the volume, and is read through another one and directly.
    fn is_right(&self, at: usize, load: Load) {
        let (volume, nsid) = (self.volumes[at].0, at as u32 + 1);
        let (summary, saved) = load.finish(&self.nodes[at]);
        assert_only_of_paths(&summary, &self.nodes[at]);
        assert!(summary.bytes_written > 0 && summary.bytes_read > 0, "{summary:?}");
        self.says(&format!("{volume}: {} bytes written, {} requests failed", summary.bytes_written, summary.errors.values().sum::<u64>()));
        for _owner in self.owned_by_each(volume) {
            for node in self.with_data() {
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

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Fails when a history could not have happened one after another; says what it was.
fn judged(ops: &[history::Op]) -> String {
    let verdict = history::judge(ops).unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    format!("{} operations of hosts could have happened one after another, {} of them undecided", ops.len(), verdict.undecided)
}

/// Fails when a history could not have happened one after another. It is kept then, and after a longer play always.
fn is_in_order(ops: &[history::Op], name: &str, play: Play) {
    let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nemesis-{}-{name}.jsonl", play.seed));
    record::save(ops, &at).expect("the history is written");
    println!("{name}: {} operations of hosts are in {}; `make nemesis HISTORY=FILE` judges them again", ops.len(), at.display());
    let began = Instant::now();
    println!("{name}: {}; judged in {:?}", judged(ops), began.elapsed());
    if std::env::var_os("NEMESIS_MINUTES").is_none() {
        std::fs::remove_file(at).expect("it was written");
    }
}

fn plays(play: Play) {
    println!("{play:?}");
    let mut cluster = Cluster::formed(play);
    let recorders = SHARED.map(|_| Arc::new(Recorder::new()));
    let loads: Vec<Load> = (0..cluster.volumes.len()).map(|at| cluster.load(at)).collect();
    let hosts = cluster.hosts(play.seed, &recorders);
    cluster.began = Instant::now();
    cluster.plays(play.time, &loads);
    cluster.calms();
    for host in hosts {
        assert!(host.end() > 0, "a host has done nothing");
    }
    for (at, ((volume, what), recorder)) in SHARED.iter().zip(&recorders).enumerate() {
        if *what == Use::Blocks {
            cluster.reads_all(volume, (cluster.volumes.len() + at) as u32 + 1, recorder);
        }
        let ops = recorder.taken();
        is_in_order(&ops, volume, play);
    }
    for (at, load) in loads.into_iter().enumerate() {
        cluster.is_right(at, load);
    }
    println!("done: {:?}", cluster.done);
    cluster.nodes.iter_mut().for_each(Daemon::stop);
}

/// Twenty seconds of the same choices; of others, as long as `NEMESIS_MINUTES` says.
#[test]
fn hosts_verify_while_a_cluster_is_disturbed() {
    let given = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(file) = given("NEMESIS_HISTORY") {
        let ops = record::load(Path::new(&file)).unwrap_or_else(|why| panic!("{file}: {why}"));
        return println!("{}", judged(&ops));
    }
    // Also for the process that does it: tests of other subjects wait.
    let _turn = Turn::take(Subject::Faults);
    if in_own_network("nemesis::hosts_verify_while_a_cluster_is_disturbed") {
        return;
    }
    let number = |name: &str| given(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is '{text}', which is no number")));
    let witness = given("NEMESIS_WITNESS").is_some();
    let nodes = number("NEMESIS_NODES").unwrap_or(3);
    assert!((3..=NAMES.len() as u64).contains(&nodes), "three to {} nodes", NAMES.len());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let (seed, time) = match number("NEMESIS_MINUTES") {
        None => (4711, Duration::from_secs(20)),
        Some(minutes) => (number("NEMESIS_SEED").unwrap_or(now), Duration::from_secs(60 * minutes)),
    };
    plays(Play { seed, time, nodes: nodes as usize, witness });
}
