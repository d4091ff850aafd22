//! Clusters whose directory is in an etcd that somebody else runs: the test.

use super::*;
use authority::{Authority, Identity, NODE_VALID, Subject, UnixSeconds};
use etcd::fixture::{Members, now};
use std::fs;

/// The files that an administrator gives, and where etcd is.
struct Given {
    endpoints: String,
    files: PathBuf,
}

impl Given {
    /// Files of an identity, below a daemon's folder.
    fn of(daemon: &Daemon, name: &str, endpoints: &[&str], identity: &Identity) -> Self {
        let files = daemon.path(name);
        fs::create_dir(&files).expect("a folder for the files");
        for (file, pem) in [("ca", &identity.authority), ("crt", &identity.certificate), ("key", &*identity.key)] {
            fs::write(files.join(file), pem).expect("it is written");
        }
        Self { endpoints: endpoints.join(","), files }
    }
    fn file(&self, name: &str) -> String {
        self.files.join(name).display().to_string()
    }
    fn at(&self) -> String {
        format!("--etcd-endpoints {}", self.endpoints)
    }
    fn pair(&self) -> String {
        format!("--etcd-cert {} --etcd-key {}", self.file("crt"), self.file("key"))
    }
    fn all(&self) -> String {
        format!("{} --etcd-ca {} {}", self.at(), self.file("ca"), self.pair())
    }
}

fn endpoints(members: &Members) -> Vec<String> {
    members.all.iter().map(|m| m.endpoint.to_string()).collect()
}
fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

impl Daemon {
    fn create_at(&self, given: &str) -> String {
        format!("cluster create --address {}:0 {given}", own_address())
    }
    fn join_command(&self, of: &Daemon, more: &str) -> String {
        format!("cluster join {} --address {}:0 {more}", of.ok("node invite").trim(), own_address())
    }
    fn at_endpoints(&self) -> Vec<String> {
        let cluster = self.json("cluster status");
        cluster["members"].as_array().expect("a list").iter().map(|m| m["node"].as_str().expect("a name").to_owned()).collect()
    }
    /// What health says, as ids and messages.
    fn says(&self) -> String {
        let cluster = self.json("cluster status");
        cluster["checks"].as_array().expect("a list").iter().map(|c| format!("{}: {}\n", c["id"], c["message"])).collect()
    }
    fn has_member(&self) -> bool {
        let found = Command::new("pgrep").args(["-P", &self.id().to_string(), "-x", "etcd"]).output().expect("pgrep runs");
        found.status.success()
    }
}

#[test]
fn what_is_wrong_with_an_external_etcd_is_said_and_leaves_a_server_that_is_alone() {
    let (members, foreign) = (Members::start(1, &[]), Members::start(1, &[]));
    let (mut a, mut b) =
        (alone("a"), Daemon::prepared(&Setup { subject: crate::harness::turn::Subject::Faults, cores: 1, more: &config("b"), ..USUAL }));
    let at = endpoints(&members);
    let good = Given::of(&a, "good", &texts(&at), &members.identity());
    let other = Given::of(&a, "other", &texts(&endpoints(&foreign)), &foreign.identity());
    let nobody = format!("https://{}:1", etcd::fixture::own_address());

    let silent = format!("{} --etcd-ca {} {}", format_args!("--etcd-endpoints {},{nobody}", at[0]), good.file("ca"), good.pair());
    let said = a.fails(&a.create_at(&silent), 1);
    assert!(said.contains(&nobody) && said.contains("--etcd-endpoints"), "{said}");
    let wrong_ca = format!("{} --etcd-ca {} {}", good.at(), other.file("ca"), good.pair());
    let said = a.fails(&a.create_at(&wrong_ca), 1);
    assert!(said.contains("another authority") && said.contains("--etcd-ca"), "{said}");
    let wrong_certificate = format!("{} --etcd-ca {} {}", good.at(), good.file("ca"), other.pair());
    let said = a.fails(&a.create_at(&wrong_certificate), 1);
    assert!(said.contains("--etcd-cert"), "{said}");
    let said = a.fails(&a.create_at(&format!("{} --etcd-ca {}", good.at(), good.file("ca"))), 2);
    assert!(said.contains("--etcd-cert"), "{said}");
    let said = a.fails(&a.create_at(&format!("--etcd-endpoints http://a:1 --etcd-ca {} {}", good.file("ca"), good.pair())), 2);
    assert!(said.contains("without TLS"), "{said}");
    assert_eq!(a.json("cluster status")["formed"], false);
    assert_eq!(members.ctl(&["get", "--prefix", "--keys-only", "basalt/"]).trim(), "", "nothing is left there");

    // Its copy, such as of a virtual machine, is the same cluster.
    a.stop();
    fs::create_dir_all(b.path("data")).expect("its folder");
    fs::copy(a.path("data/directory.redb"), b.path("data/directory.redb")).expect("it is copied");
    a.start();
    b.start();
    a.ok(&a.create_at(&good.all()));
    a.began_anew();
    a.ok("policy create kept");
    let said = b.fails(&b.create_at(&good.all()), 5);
    assert!(said.contains("already"), "{said}");
    assert_eq!((a.policies(), b.json("cluster status")["formed"].clone()), (vec!["default".to_owned(), "kept".into()], Value::Bool(false)));
    for node in [&mut a, &mut b] {
        node.stop();
    }
}

#[test]
fn a_cluster_lives_in_an_etcd_that_others_run_and_follows_it() {
    let mut members = Members::start(3, &[]);
    let at = endpoints(&members);
    let (mut a, mut b, mut c) = (alone("a"), alone("b"), alone("c"));
    let given = Given::of(&a, "given", &texts(&at), &members.identity());
    a.group_on_files(1, "256MiB", "512MiB");
    a.ok("volume create v --size 16MiB");
    let before = a.volumes();
    a.ok(&a.create_at(&given.all()));
    a.began_anew();
    assert_eq!((a.volumes(), a.has_member()), (before.clone(), false));
    let status = a.json("cluster status");
    assert_eq!((status["directory"].as_str(), status["quorum"].as_bool()), (Some("external_etcd"), Some(true)));
    assert_eq!(a.at_endpoints(), at);

    // Another node has all from the join; another cluster may share the etcd.
    b.ok(&b.join_command(&a, ""));
    b.began_anew();
    c.ok(&c.create_at(&given.all()));
    c.began_anew();
    c.ok("policy create of-c");
    b.ok("policy create p");
    for node in [&a, &b] {
        assert_eq!((node.names(), node.policies()), (vec!["a".to_owned(), "b".into()], vec!["default".to_owned(), "p".into()]));
        assert_eq!(node.json("node show b")["etcd"], "external");
    }
    let mode =
        |d: &Daemon| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(d.path("data/cluster/etcd-client.json")).unwrap().permissions());
    assert_eq!((mode(&a) & 0o777, mode(&b) & 0o777, b.has_member()), (0o600, 0o600, false));

    // What is about members that Basalt runs.
    for (command, what) in [
        (format!("cluster backup {}", a.at("backup")), "etcdctl snapshot save"),
        ("cluster renew-member".into(), "--etcd-endpoints"),
        ("node invite --witness".into(), "nothing for a witness"),
    ] {
        let said = a.fails(&command, 5);
        assert!(said.contains("somebody else runs") && said.contains(what), "{said}");
    }

    // A member moves away: its endpoint is left out, on all nodes.
    members.kill(0);
    until("health says so", || a.says().contains(&at[0]).then_some(()));
    let rest = at[1..].join(",");
    let said = a.fails(&format!("cluster set --etcd-endpoints {}", given.endpoints), 1);
    assert!(said.contains(&at[0]), "{said}");
    a.ok(&format!("cluster set --etcd-endpoints {rest}"));
    assert_eq!(a.at_endpoints(), at[1..]);
    until("the other one hears of it", || (b.at_endpoints() == at[1..]).then_some(()));
    b.kill();
    b.start();
    assert_eq!((b.at_endpoints(), b.policies().len()), (at[1..].to_vec(), 2));
    members.start_again(0);
    members.wait_for(0);
    credentials(&members, &a, &b);

    // Another etcd, though of the same authority and with another cluster in it, is not taken.
    let foreign = Members::start(1, &[]);
    let other = Given::of(&a, "foreign", &texts(&endpoints(&foreign)), &foreign.identity());
    let said = a.fails(&format!("cluster set {}", other.all()), 5);
    assert!(said.contains("another etcd"), "{said}");

    // With the daemon stopped.
    b.stop();
    let at_b = format!("--config {}", b.at("basalt.toml"));
    assert!(b.fails(&format!("cluster restore {} {at_b}", a.at("backup")), 1).contains("who runs it restores it"));
    assert!(b.fails(&format!("cluster set {} --offline {at_b}", other.all()), 5).contains("another etcd"));
    b.ok(&format!("cluster set --etcd-endpoints {} --offline {at_b}", at[0]));
    b.ok(&format!("cluster restore --external {at_b}"));
    b.start();
    assert_eq!((b.at_endpoints(), b.policies().len()), (at[..1].to_vec(), 2));
    assert_eq!(a.at_endpoints(), at[1..], "it is b's own");

    a.ok("node remove b --yes");
    assert_eq!(b.wait_exit().code(), Some(1));
    assert_eq!((a.volumes(), c.policies()), (before, vec!["default".to_owned(), "of-c".into()]));
    for node in [&mut c, &mut a] {
        node.stop();
    }
}

/// Other certificates, without a restart; and one that is about to end.
fn credentials(members: &Members, a: &Daemon, b: &Daemon) {
    let kept = |d: &Daemon| -> Value { serde_json::from_slice(&fs::read(d.path("data/cluster/etcd-client.json")).unwrap()).unwrap() };
    let (processes, before) = ((a.id(), b.id()), kept(b));
    let made = UnixSeconds(now().0 - NODE_VALID.as_secs() as i64 + 10 * 86_400);
    let ending = members.authority.issue(&Subject::new("client", []), made).expect("a certificate");
    let ending = Given::of(a, "ending", &[], &ending);
    a.ok(&format!("cluster set {}", ending.pair()));
    until("the other one takes it", || (kept(b) == kept(a) && kept(b) != before).then_some(()));
    until("health says that it ends", || b.says().contains("etcd_certificate").then_some(()));
    assert!(b.says().contains("ends in 9 days"), "{}", b.says());
    let own = Given::of(b, "own", &[], &members.identity());
    b.ok(&format!("cluster set {} --this-node", own.pair()));
    assert!(!b.says().contains("etcd_certificate") && a.says().contains("etcd_certificate"));
    // A change of something else does not touch it.
    let mine = kept(b);
    let at = endpoints(members);
    a.ok(&format!("cluster set --etcd-endpoints {}", at[2]));
    until("the other one hears of it", || (b.at_endpoints() == at[2..]).then_some(()));
    a.ok(&format!("cluster set --etcd-endpoints {}", at[1..].join(",")));
    until("and of this", || (b.at_endpoints() == at[1..]).then_some(()));
    assert_eq!((kept(b), (a.id(), b.id())), (mine, processes), "nothing was restarted");
    let unknown = Authority::create("unknown", now()).expect("an authority");
    let unknown = Given::of(a, "unknown", &[], &unknown.issue(&Subject::new("client", []), now()).expect("a certificate"));
    assert!(a.fails(&format!("cluster set {}", unknown.pair()), 1).contains("--etcd-cert"));
    a.ok(&format!("cluster set {}", own.pair()));
    assert!(!a.says().contains("etcd_certificate"));
}

/// kill -9 while a cluster is made in an external etcd, later each time: it can always be made again.
#[test]
fn a_kill_while_a_cluster_is_made_in_an_external_etcd_leaves_nothing_in_the_way() {
    const STEP_MS: u64 = 25;
    let members = Members::start(1, &[]);
    let mut a = alone("a");
    let given = Given::of(&a, "given", &texts(&endpoints(&members)), &members.identity());
    a.ok("policy create p");
    for n in 0.. {
        let create = a.create_at(&given.all());
        let mut command = Command::new(BASALT).arg("--api").arg(a.path("data/api.sock")).args(create.split(' ')).spawn().expect("it runs");
        std::thread::sleep(Duration::from_millis(n * STEP_MS));
        a.kill();
        let _ = command.kill();
        let _ = command.wait();
        a.start();
        assert_eq!(a.policies(), ["default", "p"], "after {n} steps");
        if a.json("cluster status")["formed"] == true {
            break;
        }
        assert!(n < 200, "it is never made");
    }
    assert!(!a.path("data/creating.json").exists(), "the claim is settled");
    a.ok("policy create q");
    a.stop();
}

/// A server that cannot reach the etcd stays alone, and can be given other endpoints.
#[test]
fn a_server_joins_with_endpoints_of_its_own() {
    let members = Members::start(1, &[]);
    let at = endpoints(&members);
    let (mut a, mut b) = (alone("a"), alone("b"));
    let given = Given::of(&a, "given", &texts(&at), &members.identity());
    a.ok(&a.create_at(&given.all()));
    a.began_anew();
    let nobody = format!("https://{}:1", etcd::fixture::own_address());
    let join = b.join_command(&a, "");
    let said = b.fails(&format!("{join} --etcd-endpoints {nobody}"), 1);
    assert!(said.contains(&nobody) && said.contains("same token"), "{said}");
    assert_eq!(b.json("cluster status")["formed"], false);
    b.ok(&format!("{join} --etcd-endpoints {},{}", at[0], at[0]));
    b.began_anew();
    assert_eq!(b.names(), ["a", "b"]);
    // One of a cluster that runs its etcd has nothing to be given.
    let (mut c, mut d) = (alone("c"), alone("d"));
    c.create_cluster();
    let said = d.fails(&format!("{} --etcd-endpoints {}", d.join_command(&c, ""), at[0]), 2);
    assert!(said.contains("nothing to set"), "{said}");
    assert!(c.fails(&format!("cluster set --etcd-endpoints {}", at[0]), 5).contains("no external etcd"));
    for node in [&mut d, &mut c, &mut b, &mut a] {
        node.stop();
    }
}

#[test]
fn an_external_etcd_that_was_restored_is_refused_until_the_node_accepts_it() {
    let mut members = Members::start(1, &[]);
    let mut a = alone("a");
    let given = Given::of(&a, "given", &texts(&endpoints(&members)), &members.identity());
    a.ok(&a.create_at(&given.all()));
    a.began_anew();
    a.ok("policy create kept");
    let backup = a.at("etcd-backup");
    members.ctl(&["snapshot", "save", &backup]);
    a.ok("policy create lost");
    a.stop();
    members.kill(0);
    let (store, cluster) = (members.all[0].data_dir.join("store"), members.initial_cluster());
    fs::remove_dir_all(&store).expect("there is a store");
    let peer = cluster.split_once('=').expect("a name and where it is").1.to_owned();
    members.ctl(&[
        "snapshot",
        "restore",
        &backup,
        "--name=m0",
        &format!("--data-dir={}", store.display()),
        &format!("--initial-cluster={cluster}"),
        &format!("--initial-advertise-peer-urls={peer}"),
        "--initial-cluster-token=restored",
    ]);
    members.set_token("restored");
    members.start_again(0);
    members.wait_for(0);

    let said = a.refusal(a.serve());
    assert!(said.contains("cluster restore --external"), "{said}");
    a.ok(&format!("cluster restore --external --config {}", a.at("basalt.toml")));
    a.start();
    assert_eq!(a.policies(), ["default", "kept"]);
    a.ok("policy create again");
    a.stop();
}
