//! Real daemons form a cluster: with real etcd members, real hosts, on loopback addresses.

mod certificates;
mod external_etcd;

use crate::harness::load::{Load, assert_clean, assert_only_of_paths};
use crate::harness::turn::Subject;
use crate::harness::{BASALT, Daemon, Setup, USUAL, signal, until};
use format::token::JoinToken;
use initiator::Controller;
use lab::verified::{self, LoadSpec, file};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

const VOLUME_BYTES: u64 = 128 << 20;
/// Bound on the time without a connection.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// Bound on the end of a daemon without a quorum.
const END_MAX: Duration = Duration::from_secs(20);

/// The folder with etcd, as `scripts/programs-for-tests etcd` makes it.
fn programs() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/etcd/usr/bin");
    let dir = std::env::var_os("ETCD_BIN").map_or(own, PathBuf::from);
    assert!(dir.join("etcd").exists(), "{} has no etcd: run scripts/programs-for-tests etcd", dir.display());
    dir
}

pub fn config(name: &str) -> String {
    format!("[node]\nname = \"{name}\"\n[cluster]\netcd_programs = {:?}\n", programs())
}

/// A loopback address that no other node, and no other test's process, has.
fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 128 + NEXT.fetch_add(1, Ordering::Relaxed) % 64, high, low.max(1))
}

/// A daemon that is alone, called so.
fn alone(name: &str) -> Daemon {
    let more = config(name);
    Daemon::started(&Setup { subject: Subject::Faults, cores: 1, more: &more, ..USUAL })
}

impl Daemon {
    fn own_address(&self) -> Ipv4Addr {
        self.address().unwrap_or_else(own_address)
    }
    pub fn create_cluster(&mut self) {
        self.ok(&format!("cluster create --address {}:0", self.own_address()));
        self.began_anew();
    }
    pub fn join(&mut self, of: &Daemon, more: &str) {
        let token = of.ok("node invite");
        self.ok(&format!("cluster join {} --address {}:0 {more}", token.trim(), self.own_address()));
        self.began_anew();
    }
    pub fn join_as_witness(&mut self, of: &Daemon) {
        let token = of.ok("node invite --witness");
        self.ok(&format!("witness join {} --address {}:0", token.trim(), self.own_address()));
        self.began_anew();
    }
    /// What stays of its volumes, whatever is written to them.
    fn volumes(&self) -> Vec<Value> {
        let all = self.json("volume list");
        let parts = |v: &Value| serde_json::json!([v["id"], v["name"], v["bytes"], v["attachments"], v["components"][0]["id"], v["state"]]);
        all.as_array().expect("a list").iter().map(parts).collect()
    }
    fn policies(&self) -> Vec<String> {
        let all = self.json("policy list");
        all.as_array().expect("a list").iter().map(|p| p["name"].as_str().expect("a name").to_owned()).collect()
    }
    fn names(&self) -> Vec<String> {
        let nodes = self.json("node list");
        nodes.as_array().expect("a list").iter().map(|n| n["name"].as_str().expect("a name").to_owned()).collect()
    }
    /// The process of its member of etcd.
    fn member(&self) -> u32 {
        let found = Command::new("pgrep").args(["-P", &self.id().to_string(), "-x", "etcd"]).output().expect("pgrep runs");
        String::from_utf8_lossy(&found.stdout).trim().parse().expect("one member")
    }
    /// Members of etcd that vote and serve.
    fn voters(&self) -> usize {
        let cluster = self.json("cluster status");
        let votes = |m: &&Value| m["votes"] == true && m["trouble"].is_null();
        cluster["members"].as_array().expect("a list").iter().filter(votes).count()
    }
    pub fn wait_voters(&self, count: usize) {
        until("all members vote", || (self.voters() == count).then_some(()));
    }
}

#[test]
fn a_server_with_volumes_becomes_a_cluster_and_its_hosts_go_on() {
    let mut daemon = Daemon::kept(Subject::Faults, &config("first"));
    daemon.group_on_files(4, "256MiB", "512MiB");
    daemon.ok(&format!("volume create v --size {VOLUME_BYTES}"));
    let target = daemon.discovered();
    let nsid = Controller::connect(target.clone()).and_then(|c| c.namespaces()).expect("the volume is a namespace")[0];
    let spec = LoadSpec {
        seed: 7,
        depth: 8,
        time: Duration::from_secs(24 * 3600),
        reconnect_for: OUTAGE_MAX,
        ..LoadSpec::new(target.clone(), nsid)
    };
    let load = Load::start(spec);
    std::thread::sleep(Duration::from_millis(500));
    let (before, process) = (daemon.volumes(), daemon.id());
    assert_eq!(daemon.json("cluster status")["formed"], false);

    daemon.create_cluster();
    std::thread::sleep(Duration::from_millis(500));
    load.assert_running(&daemon);
    let (summary, saved) = load.finish(&daemon);
    assert_only_of_paths(&summary, &daemon);
    assert!(summary.reconnects > 0 && summary.bytes_written > 0, "{summary:?}");
    println!("the longest time without a connection: {:?}", summary.outage_max);
    assert_eq!((daemon.volumes(), daemon.id()), (before.clone(), process), "the same volumes and the same process");
    assert_eq!(daemon.json("cluster status")["formed"], true);
    assert!(daemon.fails("cluster create --address 127.0.0.1:0", 5).contains("in cluster"));

    let model = daemon.path("model");
    file::save(&model, &saved).expect("the model is saved");
    for clean in [true, false] {
        if clean {
            daemon.stop();
        } else {
            daemon.kill();
        }
        daemon.start();
        assert_eq!(daemon.volumes(), before);
        let check = LoadSpec { ops: Some(0), resume: Some(file::load(&model).expect("it loads")), ..LoadSpec::new(target.clone(), nsid) };
        let (summary, _) = lab::verified::run(check, |_| ()).expect("the check runs");
        assert_clean(&summary, &daemon);
    }
    daemon.stop();
}

/// kill -9 while a cluster is made, later each time.
#[test]
fn a_kill_while_a_cluster_is_made_leaves_a_server_that_is_alone_as_it_was_or_a_cluster_with_all_of_it() {
    const STEP_MS: u64 = 150;
    let mut daemon = alone("first");
    daemon.group_on_files(1, "256MiB", "512MiB");
    daemon.ok("volume create v --size 16MiB");
    let before = daemon.volumes();
    let mut alone_again = 0;
    for n in 0.. {
        let create = ["cluster", "create", "--address", &format!("{}:0", own_address())].map(str::to_owned);
        let mut command = Command::new(BASALT)
            .arg("--api")
            .arg(daemon.path("data/api.sock"))
            .args(create)
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        std::thread::sleep(Duration::from_millis(n * STEP_MS));
        daemon.kill();
        let _ = command.kill();
        let _ = command.wait();
        daemon.start();
        assert_eq!(daemon.volumes(), before, "after {n} steps");
        if daemon.json("cluster status")["formed"] == true {
            break;
        }
        alone_again += 1;
        assert!(n < 60, "it is never made");
    }
    assert!(alone_again > 0, "some kills came before it was made");
    daemon.ok("policy create p");
    daemon.stop();
    daemon.start();
    assert_eq!((daemon.volumes(), daemon.policies()), (before, vec!["default".to_owned(), "p".into()]));
    daemon.stop();
}

#[test]
fn three_servers_form_a_cluster_and_each_answers_for_it() {
    let (mut a, mut b, mut c) = (alone("a"), alone("b"), alone("c"));
    a.create_cluster();
    b.join(&a, "");
    c.join(&b, "--name third --fault-domain rack2");
    for node in [&a, &b, &c] {
        assert_eq!(node.names(), ["a", "b", "third"]);
        node.wait_voters(3);
    }
    assert_eq!(a.json("node show third")["fault_domain"], "rack2");
    until("each hears that all are up", || {
        let up = |n: &&Value| n["up"] == true && n["version"].is_string();
        [&a, &b, &c].iter().all(|d| d.json("node list").as_array().is_some_and(|l| l.iter().filter(up).count() == 3)).then_some(())
    });
    let leaders = |d: &Daemon| d.json("node list").as_array().map_or(0, |l| l.iter().filter(|n| n["leads"] == true).count());
    until("one leads", || (leaders(&b) == 1).then_some(()));
    a.ok("policy create p --iops-limit 100");
    for node in [&a, &b, &c] {
        assert_eq!(node.policies(), ["default", "p"]);
    }

    // A group is of the node that was asked; a volume is made from any node.
    c.group_on_files(1, "256MiB", "512MiB");
    assert_eq!(a.json("group show g")["node"], "third");
    // What it was asked, and its drives, are seen from any node.
    let noted = |line: &str| a.ok(line).contains("POST /api/v1/groups");
    assert!(noted("audit --node third") && noted("audit --node third --since 1h") && !noted("audit") && !noted("audit --node a"));
    assert_eq!(a.json("drive list --node third"), c.json("drive list"));
    for line in ["audit --node nobody", "drive list --node nobody", "drive show sda --node nobody", "drive show none --node third"] {
        a.fails(line, 4);
    }
    until("the leader hears of the group", || b.cli("volume create v --size 16MiB").status.success().then_some(()));
    for node in [&a, &b, &c] {
        assert_eq!((node.volumes().len(), node.json("volume show v")["components"][0]["node"].clone()), (1, "third".into()));
    }

    // A volume with a copy on each of two nodes.
    b.ok(&format!("group create h --cache {}:256MiB --capacity {}:512MiB", b.at("cache"), b.at("capacity")));
    b.ok("policy create m --ftt 1");
    until("the leader hears of that group", || b.cli("volume create w --size 16MiB --policy m").status.success().then_some(()));
    let nodes =
        |at: &Daemon| at.json("volume show w")["components"].as_array().map(|c| c.iter().map(|c| c["node"].clone()).collect::<Vec<_>>());
    until("it has both", || nodes(&a).filter(|n| n.len() == 2 && n.contains(&"b".into()) && n.contains(&"third".into())));
    a.ok("volume delete w --yes");
    assert_eq!(a.volumes().len(), 1);
    b.ok("policy delete m");
    b.ok("group remove h --force");

    // One is gone: the others go on, and it comes back.
    a.kill();
    c.ok("policy delete p");
    a.start();
    assert_eq!(a.policies(), ["default"]);
    a.wait_voters(3);

    b.ok("node rename third c");
    assert_eq!(a.names(), ["a", "b", "c"]);
    assert!(a.fails("node rename b A", 5).contains("already"));

    // One that was removed ends by itself, and does not come back.
    assert!(c.fails("node remove c --yes", 5).contains("the node that answers"));
    assert!(a.fails("node remove c --yes", 5).contains("disk groups g"));
    a.ok("node remove c --force --yes");
    assert_eq!((b.volumes().len(), b.json("group list")), (0, serde_json::json!([])));
    assert_eq!(b.names(), ["a", "b"]);
    let status = c.wait_exit();
    assert_eq!(status.code(), Some(1), "{}", c.log_tail());
    assert!(c.refusal(c.serve()).contains("was removed"));
    a.wait_voters(2);
    for node in [&mut a, &mut b] {
        node.stop();
    }
}

/// A host writes through the node that does not own the volume, over TLS or not, and reads through the one that does.
#[test]
fn a_volume_of_one_node_is_served_by_every_node() {
    for links in ["", "plain_links = true\n"] {
        let named = |name| Daemon::started(&Setup { subject: Subject::Faults, cores: 1, more: &(config(name) + links), ..USUAL });
        let (mut a, mut b) = (named("a"), named("b"));
        a.group_on_files(1, "256MiB", "512MiB");
        a.ok("volume create v --size 64MiB");
        a.create_cluster();
        b.join(&a, "");
        assert_eq!(b.json("volume show v")["owner"], "a");
        let once = |ops| LoadSpec { seed: 3, depth: 8, ops, ..LoadSpec::new(b.options(), 1) };
        // It is inaccessible until the link is open.
        until("b passes requests on", || {
            verified::run(LoadSpec { read_back: false, ..once(Some(1)) }, |_| ()).ok().filter(|r| r.0.is_clean())
        });
        let (summary, saved) = verified::run(LoadSpec { before: verified::Before::Unknown, ..once(Some(2000)) }, |_| ()).expect("it runs");
        assert_clean(&summary, &b);
        let check = LoadSpec { ops: Some(0), resume: Some(saved), ..LoadSpec::new(a.options(), 1) };
        let (summary, _) = verified::run(check, |_| ()).expect("the check runs");
        assert_clean(&summary, &a);
        assert!(summary.units_checked > 0, "{summary:?}");
        // Figures may be half a second old.
        until("all of it is counted", || (b.metric("basalt_peers_forwarded_requests_total") >= 2000).then_some(()));
        let handshakes = b.metric("basalt_peers_link_tls_handshakes_total") + a.metric("basalt_peers_link_tls_handshakes_total");
        assert_eq!(handshakes > 0, links.is_empty());
        for node in [&mut b, &mut a] {
            node.stop();
        }
    }
}

/// Without a quorum nothing is to be had of the directory: whatever waits for it gives up when the daemon is to end.
#[test]
fn a_daemon_ends_soon_though_its_directory_does_not_answer() {
    let (mut a, mut b, mut c) = (alone("a"), alone("b"), alone("c"));
    a.create_cluster();
    b.join(&a, "");
    c.join(&a, "");
    a.wait_voters(3);
    let members = [a.member(), b.member()];
    for member in members {
        signal(member, "-STOP");
    }
    // Long enough for everything that looks at the directory now and then to wait for it.
    std::thread::sleep(Duration::from_secs(6));
    // Somebody still wants something of it.
    let mut asked =
        Command::new(BASALT).arg("--api").arg(c.path("data/api.sock")).args(["policy", "create", "p"]).spawn().expect("it runs");
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    c.stop();
    let took = began.elapsed();
    let _ = asked.wait();
    for member in members {
        signal(member, "-CONT");
    }
    assert!(took < END_MAX, "{took:?}\n{}", c.log_tail());
    println!("the end took {took:?}");
    for node in [&mut b, &mut a] {
        node.stop();
    }
}

#[test]
fn who_may_not_join_hears_why_and_what_to_do_and_loses_nothing() {
    let (mut a, mut b, mut c) = (alone("a"), alone("b"), alone("c"));
    a.create_cluster();
    b.group_on_files(1, "256MiB", "512MiB");
    b.ok("volume create mine --size 16MiB");
    let at = own_address();
    let join = |token: &JoinToken| format!("cluster join {} --address {at}:0", token.build().expose());
    let invite = |d: &Daemon, what: &str| JoinToken::parse(&d.ok(&format!("node invite {what}"))).expect("a token");

    let token = invite(&a, "");
    let loss = b.fails(&join(&token), 5);
    assert!(loss.contains("volume mine") && loss.contains("disk group g") && loss.contains("--destroy"), "{loss}");
    let witness = invite(&a, "--witness");
    assert!(c.fails(&join(&witness), 5).contains("for a witness node"));
    assert!(c.fails(&format!("cluster join basalt-join-1.AAAA --address {at}:0"), 2).contains("damaged"));
    let mut forged = token.clone();
    forged.secret[0] ^= 1;
    assert!(c.fails(&join(&forged), 1).contains("no such token"));
    let foreign = JoinToken { cluster: base::ClusterId::from_bytes([9; 16]), ..token.clone() };
    assert!(c.fails(&join(&foreign), 5).contains("the token is for cluster"));
    let other_authority = JoinToken { fingerprint: [3; 32], ..token.clone() };
    assert!(c.fails(&join(&other_authority), 1).contains("another fingerprint"));
    assert!(c.fails(&format!("{} --name a", join(&token)), 5).contains("named a already"));
    assert!(c.fails("cluster join basalt-join-1.AAAA --address 0.0.0.0", 2).contains("damaged"));
    assert!(c.fails("node invite", 5).contains("in no cluster"));
    assert_eq!((c.json("cluster status")["formed"].clone(), b.volumes().len()), (Value::Bool(false), 1), "nothing has changed");

    c.ok(&join(&token));
    c.began_anew();
    assert!(b.fails(&format!("{} --destroy", join(&token)), 1).contains("used already, by node c"));
    assert_eq!(b.volumes().len(), 1, "nothing was destroyed for a token that is not good");
    b.join(&a, "--destroy");
    assert_eq!((b.names(), b.volumes().len()), (vec!["a".to_owned(), "b".into(), "c".into()], 0));
    for node in [&mut a, &mut b, &mut c] {
        node.stop();
    }
}

#[test]
fn a_witness_votes_a_lost_member_is_replaced_and_a_backup_is_restored() {
    let (mut a, mut b, mut w) = (alone("a"), alone("b"), alone("w"));
    a.create_cluster();
    b.join(&a, "");
    b.wait_voters(2);
    w.join_as_witness(&a);
    assert_eq!(w.json("cluster status")["role"], "witness");
    a.wait_voters(3);
    assert_eq!(a.json("node show w")["role"], "witness");
    assert!(w.fails("volume list", 4).contains("this is a witness"));

    // One of two nodes with data is gone: the other one and the witness go on.
    b.kill();
    a.ok("policy create kept");
    // It comes back without what its member had stored.
    std::fs::remove_dir_all(b.path("data/etcd/store")).expect("there is a store");
    b.start();
    assert_eq!(b.policies(), ["default", "kept"]);
    b.ok("cluster renew-member");
    a.wait_voters(3);

    let file = a.at("backup");
    a.ok(&format!("cluster backup {file}"));
    assert!(a.fails("cluster backup relative", 2).contains("absolute"));
    a.ok("policy create lost");
    for node in [&mut a, &mut b, &mut w] {
        node.stop();
    }
    let config = |d: &Daemon| d.at("basalt.toml");
    let said = a.ok(&format!("cluster restore {file} --config {}", config(&a)));
    let from = said.trim().rsplit(' ').next().expect("where it is").to_owned();
    let mut of_nodes: SocketAddr = from.parse().expect("an address");
    of_nodes.set_port(of_nodes.port() - 1);
    assert!(b.fails(&format!("cluster restore --from {of_nodes} --config {}", config(&b)), 1).contains(&format!("its etcd is at {from}")));
    for node in [&b, &w] {
        node.ok(&format!("cluster restore --from {from} --config {}", config(node)));
    }
    for node in [&mut a, &mut b, &mut w] {
        node.start();
    }
    assert_eq!((a.policies(), b.policies()), (vec!["default".to_owned(), "kept".into()], vec!["default".to_owned(), "kept".into()]));
    for node in [&b, &w] {
        node.ok("cluster renew-member");
        until("it votes", || {
            node.json("cluster status")["members"].as_array().map(|m| m.iter().all(|m| m["votes"] == true)).filter(|all| *all)
        });
    }
    a.wait_voters(3);
    for node in [&mut w, &mut b, &mut a] {
        node.stop();
    }
}
