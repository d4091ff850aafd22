//! Members of the real server, as Basalt runs them.

use super::health::{Health, Looker, Problem};
use super::*;
use crate::fixture::{free_port, now, own_address, programs};
use crate::message::{PutRequest, RangeRequest, Request, TxnRequest};
use crate::{Client, Endpoint, EtcdError, Options};
use authority::{Authority, Identity, Subject};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

/// Nodes with folders and certificates, and members on some of them.
struct Site {
    dir: tempfile::TempDir,
    address: IpAddr,
    identity: Identity,
    runtime: tokio::runtime::Runtime,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" }).unwrap();
        let address = own_address();
        let authority = Authority::create("site", now()).unwrap();
        let identity = authority.issue(&Subject::new("node", [address, "127.0.0.1".parse().unwrap()]), now()).unwrap();
        let certificates = dir.path().join("certificates");
        std::fs::create_dir(&certificates).unwrap();
        identity.save(&certificates).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { dir, address, identity, runtime }
    }
    fn socket(&self) -> SocketAddr {
        (self.address, free_port(self.address)).into()
    }
    fn settings(&self, name: &str, members: BTreeMap<String, SocketAddr>, membership: Membership) -> Settings {
        Settings {
            name: name.into(),
            program: programs().join("etcd"),
            dir: self.dir.path().join(name),
            certificates: self.dir.path().join("certificates"),
            client: self.socket(),
            peer: members[name],
            members,
            membership,
            quota_bytes: QUOTA_BYTES,
        }
    }
    /// A new cluster's members.
    fn new_cluster(&self, names: &[&str], token: &str) -> Vec<Settings> {
        let members: BTreeMap<String, SocketAddr> = names.iter().map(|n| ((*n).to_owned(), self.socket())).collect();
        names.iter().map(|n| self.settings(n, members.clone(), Membership::New { token: token.into() })).collect()
    }
    fn client<'a>(&self, members: impl IntoIterator<Item = &'a Settings>) -> Client {
        let endpoints: Vec<Endpoint> = members.into_iter().map(Settings::endpoint).collect();
        Client::new(Options { endpoints, identity: Some(self.identity.clone()) }).unwrap()
    }
    fn put(&self, client: &Client, key: &str) -> Result<i64, EtcdError> {
        let put = Request::Put(PutRequest { key: key.into(), value: b"x".to_vec(), lease: 0 }).into();
        let request = TxnRequest { success: vec![put], ..TxnRequest::default() };
        Ok(self.runtime.block_on(client.read(&request, until()))?.header.unwrap().revision)
    }
    fn holds(&self, client: &Client, key: &str) -> bool {
        let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
        !self.runtime.block_on(client.range(&request, until())).unwrap().kvs.is_empty()
    }
    fn look(&self, looker: &mut Looker, client: &Client) -> Health {
        self.runtime.block_on(looker.look(client)).unwrap()
    }
}

fn until() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(20)
}
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
fn pid(server: &Server) -> Option<u32> {
    match server.condition() {
        Condition::Running { pid, .. } => Some(pid),
        _ => None,
    }
}
/// Only ever with the process id of a server that runs.
fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_member_that_is_killed_is_started_again_and_ends_when_it_is_stopped() {
    let site = Site::new();
    let settings = site.new_cluster(&["a"], "t").remove(0);
    let server = Server::start(&settings).unwrap();
    let client = site.client([&settings]);
    site.put(&client, "k").unwrap();
    let first = pid(&server).unwrap();
    kill(first);
    wait_until("it is started again", || pid(&server).is_some_and(|pid| pid != first));
    assert!(site.holds(&client, "k"));
    assert_eq!(server.ends(), 1);
    let second = pid(&server).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&settings.dir).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    server.stop();
    assert!(!Path::new(&format!("/proc/{second}")).exists(), "it has ended, and was waited for");
    // What it has stored counts from then on.
    let server = Server::start(&settings).unwrap();
    assert!(site.holds(&client, "k"));
    drop(server);
}

#[test]
fn a_member_that_cannot_start_is_tried_again_with_pauses_and_says_why() {
    let site = Site::new();
    let settings = site.new_cluster(&["a"], "t").remove(0);
    std::fs::remove_file(settings.certificates.join(authority::KEY_FILE)).unwrap();
    let server = Server::start(&settings).unwrap();
    wait_until("it has ended twice", || server.ends() >= 2);
    let Condition::Waiting { ended, until } = server.condition() else { panic!("{:?}", server.condition()) };
    assert!(ended.contains("status") && until > Instant::now(), "{ended}");
    assert!(server.log().iter().any(|line| line.contains(authority::KEY_FILE)), "{:?}", server.log());
    drop(server);
    let missing = Settings { program: "/usr/bin/no-etcd".into(), ..settings };
    assert!(matches!(Server::start(&missing), Err(ServerError::Program { package: "etcd-server", .. })));
}

#[test]
fn a_cluster_grows_from_one_to_three_and_a_lost_member_is_replaced() {
    let site = Site::new();
    let mut settings = site.new_cluster(&["a"], "t");
    let mut servers = vec![Server::start(&settings[0]).unwrap()];
    let mut looker = Looker::default();
    let client = site.client(&settings);
    site.put(&client, "k").unwrap();
    assert_eq!(site.look(&mut looker, &client).problems, [Problem::NoSpare { all: 1 }]);
    let join = |settings: &mut Vec<Settings>, servers: &mut Vec<Server>, name: &str, gone: Option<u64>| {
        let client = site.client(&*settings);
        let peer = site.socket();
        let id = site.runtime.block_on(async {
            match gone {
                Some(lost) => members::replace(&client, lost, peer, until()).await,
                None => members::add(&client, peer, until()).await,
            }
        });
        let id = id.unwrap();
        // Tried again after a lost answer: the same member.
        assert_eq!(site.runtime.block_on(members::add(&client, peer, until())).unwrap(), id);
        let mut all: BTreeMap<String, SocketAddr> = settings.iter().map(|s| (s.name.clone(), s.peer)).collect();
        all.insert(name.to_owned(), peer);
        let mine = site.settings(name, all, Membership::Joins);
        servers.push(Server::start(&mine).unwrap());
        settings.push(mine);
        site.runtime.block_on(members::promote(&client, id, until())).unwrap();
        site.runtime.block_on(members::promote(&client, id, until())).unwrap();
        id
    };
    join(&mut settings, &mut servers, "b", None);
    let third = join(&mut settings, &mut servers, "c", None);
    let client = site.client(&settings);
    wait_until("three members in order", || site.look(&mut looker, &client).problems.is_empty());
    let health = site.look(&mut looker, &client);
    assert_eq!(health.members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(health.members.iter().filter(|m| m.state.as_ref().unwrap().leads).count(), 1);
    let serving = health.members[0].state.as_ref().unwrap();
    assert_eq!((serving.quota_bytes, serving.store_bytes > 0), (QUOTA_BYTES, true));
    site.put(&client, "measured").unwrap();
    let leader = site.look(&mut looker, &client).members.into_iter().find_map(|m| m.state.ok().filter(|s| s.leads)).unwrap();
    assert!(leader.fsync_p99.is_some(), "it has written since the look before");
    // The third is lost with its disk.
    servers.pop().unwrap().stop();
    let lost = settings.pop().unwrap();
    std::fs::remove_dir_all(&lost.dir).unwrap();
    let client = site.client(&settings);
    assert!(matches!(&site.look(&mut looker, &client).problems[..], [Problem::Down { member, .. }] if member == "c"));
    join(&mut settings, &mut servers, "d", Some(third));
    let client = site.client(&settings);
    wait_until("three members in order again", || site.look(&mut looker, &client).problems.is_empty());
    // With two of three down the third says so, though it can do nothing.
    servers.truncate(1);
    let alone = site.client(&settings);
    wait_until("no quorum", || {
        let problems = site.look(&mut looker, &alone).problems;
        problems.first() == Some(&Problem::NoQuorum { up: 1, all: 3 })
    });
}

#[test]
fn a_backup_is_whole_or_refused_and_a_cluster_is_restored_from_it_as_another_one() {
    let site = Site::new();
    let settings = site.new_cluster(&["a"], "one").remove(0);
    let server = Server::start(&settings).unwrap();
    let client = site.client([&settings]);
    site.put(&client, "kept").unwrap();
    let path = site.dir.path().join("backup");
    let taken = site.runtime.block_on(backup::take(&client, &path)).unwrap();
    assert_eq!(backup::look(&path).unwrap(), taken);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let first = site.runtime.block_on(client.member_list(until())).unwrap().header.unwrap().cluster_id;
    site.put(&client, "lost").unwrap();
    server.stop();
    let tool = programs().join("etcdctl");
    // Over a store that is there: no. From a damaged one, or a part of one: no.
    assert!(matches!(backup::restore(&tool, backup::Source::Backup(&path), &settings), Err(ServerError::Occupied { .. })));
    let restored = site.new_cluster(&["x", "y"], "two");
    let damaged = site.dir.path().join("damaged");
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (content, why) in [
        (&flipped[..], backup::Damage::Digest),
        (&whole[..whole.len() - 1], backup::Damage::Length),
        (&whole[..512], backup::Damage::Length),
    ] {
        std::fs::write(&damaged, content).unwrap();
        let refused = backup::restore(&tool, backup::Source::Backup(&damaged), &restored[0]);
        assert!(matches!(refused, Err(ServerError::Backup { why: found, .. }) if found == why), "{refused:?}");
        assert!(!restored[0].store().exists());
    }
    let servers: Vec<Server> = restored
        .iter()
        .map(|settings| {
            backup::restore(&tool, backup::Source::Backup(&path), settings).unwrap();
            Server::start(settings).unwrap()
        })
        .collect();
    let client = site.client(&restored);
    wait_until("it serves", || site.put(&client, "new").is_ok());
    assert!(site.holds(&client, "kept") && !site.holds(&client, "lost"));
    let second = site.runtime.block_on(client.member_list(until())).unwrap().header.unwrap().cluster_id;
    assert_ne!(first, second, "whoever has seen the first one notices");
    drop(servers);
}

/// The daemon of the test below, when that has started it; otherwise nothing.
#[test]
fn part_of_the_test_below() {
    let Some(file) = std::env::var_os("BASALT_TEST_PID_FILE") else { return };
    let site = Site::new();
    let settings = site.new_cluster(&["a"], "t").remove(0);
    let server = Server::start(&settings).unwrap();
    site.put(&site.client([&settings]), "k").unwrap();
    std::fs::write(file, format!("{} {}", pid(&server).unwrap(), site.dir.path().display())).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_member_ends_with_its_daemon_also_when_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let mut daemon = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::tests::part_of_the_test_below"])
        .env("BASALT_TEST_PID_FILE", &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it has started a member", || std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()));
    let text = std::fs::read_to_string(&file).unwrap();
    let (member, site) = text.split_once(' ').unwrap();
    let runs = || {
        Path::new(&format!("/proc/{member}/exe")).exists()
            && std::fs::read_to_string(format!("/proc/{member}/comm")).is_ok_and(|c| c.trim() == "etcd")
    };
    assert!(runs());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    wait_until("the member has ended", || !runs());
    std::fs::remove_dir_all(site).unwrap();
}
