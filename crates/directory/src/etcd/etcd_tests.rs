use super::*;
use crate::conformance::{Subject, check_but};
use crate::record::NodeRecord;
use crate::{Changes, Expect, Typed, commit_known};
use ::etcd::fixture::Members;
use std::{
    sync::{Mutex, atomic::AtomicU8},
    time::Instant,
};

/// Each directory of a test is of another cluster, in the same etcd.
fn new_cluster() -> ClusterId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ClusterId::from_random((u128::from(NEXT.fetch_add(1, SeqCst)) << 70).to_be_bytes())
}
fn open_as(writer: &str, cluster: ClusterId) -> Open {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    Open { cluster, writer: writer.into(), incarnation: Incarnation([NEXT.fetch_add(1, SeqCst); 16]), seen: None }
}
fn client(members: &Members) -> Client {
    Client::new(members.options()).unwrap()
}
fn create(members: &Members, cluster: ClusterId) -> EtcdDirectory {
    EtcdDirectory::create(client(members), open_as("n1", cluster)).unwrap()
}
fn key(id: &str) -> Key {
    Key::new(Kind::Task, id)
}
fn put(id: &str, expect: Expect, value: &str) -> Transaction {
    Transaction::new().with(key(id), expect, Action::Put(value.into()))
}
fn nonce(n: u64) -> Nonce {
    Nonce([n.to_be_bytes(), [7; 8]].concat().try_into().unwrap())
}
/// Commits, whatever goes wrong meanwhile.
fn must(directory: &EtcdDirectory, n: u64, transaction: &Transaction) -> Revision {
    for _ in 0..100 {
        match commit_known(directory, transaction.clone(), nonce(n), |_| std::thread::sleep(Duration::from_millis(50))) {
            Err(DirectoryError::Unavailable) => std::thread::sleep(Duration::from_millis(50)),
            result => return result.unwrap(),
        }
    }
    panic!("not in 100 attempts")
}
/// Tries until it has a result that is not "unavailable".
fn persist<T>(mut call: impl FnMut() -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match call() {
            Err(DirectoryError::Unavailable) if Instant::now() < until => std::thread::sleep(Duration::from_millis(100)),
            result => return result,
        }
    }
}

struct Real {
    directory: EtcdDirectory,
    ttl: Duration,
}

impl Subject for Real {
    fn directory(&self) -> &dyn Directory {
        &self.directory
    }
    fn advance(&self, by: Duration) {
        std::thread::sleep(by);
    }
    fn compact(&self) {
        persist(|| self.directory.compact()).unwrap();
    }
    fn ttl(&self) -> Duration {
        self.ttl
    }
    fn late_max(&self) -> Duration {
        Duration::from_secs(2)
    }
}

fn conforms(options: &::etcd::Options, ttl: Duration, without: &[&str]) {
    let make = || -> Box<dyn Subject> {
        let cluster = new_cluster();
        let client = || Client::new(options.clone()).unwrap();
        let directory = persist(|| EtcdDirectory::create(client(), open_as("n1", cluster))).unwrap();
        Box::new(Real { directory, ttl })
    };
    assert_eq!(check_but(&make, without), []);
}

#[test]
fn it_conforms_on_three_members() {
    let members = Members::start(3, &[]);
    conforms(&members.options(), Duration::from_secs(2), &[]);
}

#[test]
fn it_conforms_while_members_are_killed_and_paused_and_the_leader_is_killed() {
    let members = Members::start(3, &[]);
    let options = members.options();
    let (members, ends) = (Arc::new(Mutex::new(members)), Arc::new(AtomicBool::new(false)));
    let faults = {
        let (members, ends) = (members.clone(), ends.clone());
        std::thread::spawn(move || {
            let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
            let mut happened = 0u32;
            while !ends.load(SeqCst) {
                let mut members = members.lock().unwrap();
                let n = happened as usize % 3;
                match happened % 4 {
                    0 => members.kill(n),
                    1 | 3 => {
                        members.pause(n);
                        pause(1800);
                    }
                    _ => {
                        let leader = members.leader().unwrap_or(n);
                        members.kill(leader);
                    }
                }
                pause(700);
                for n in 0..3 {
                    if members.is_paused(n) {
                        members.go_on(n);
                    } else if members.has_ended(n) {
                        members.kill(n);
                        members.start_again(n);
                    }
                    members.wait_for(n);
                }
                happened += 1;
                drop(members);
                pause(700);
            }
            happened
        })
    };
    // With an election every few seconds no session runs out: each gives all of them their whole time again.
    let result = std::panic::catch_unwind(|| conforms(&options, Duration::from_secs(6), &["sessions end"]));
    ends.store(true, SeqCst);
    let happened = faults.join().unwrap();
    drop(members);
    println!("{happened} faults");
    assert!(happened >= 4, "each kind of fault has happened");
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn records_are_found_by_another_node_and_followed_by_its_watch() {
    let members = Members::start(1, &[]);
    let cluster = new_cluster();
    let one = create(&members, cluster);
    let other = EtcdDirectory::open(client(&members), open_as("n2", cluster)).unwrap();
    let mut watch = other.watch(other.revision().unwrap()).unwrap();
    let node = NodeRecord::new("n1".into(), "d".into(), 1);
    let at = one.commit(&Transaction::new().create(&node)).unwrap();
    assert_eq!(other.find::<NodeRecord>("n1").unwrap().unwrap().value, node);
    let seen = watch.wait(Duration::from_secs(10)).unwrap().unwrap();
    assert_eq!((seen.revision, seen.events.len(), watch.revision()), (at, 1, at));
    // What others write into the same etcd, and nonces, do not keep a watch from being up to date.
    let elsewhere = create(&members, new_cluster());
    elsewhere.commit(&put("a", Expect::Absent, "1")).unwrap();
    let began = Instant::now();
    assert_eq!(one.revision().unwrap(), at);
    assert_eq!(other.snapshot().unwrap().revision, at);
    // The end of a session writes no head: the number of keys says that the watch has seen it.
    let session = one.open_session(Duration::from_secs(60)).unwrap();
    let bound = Transaction::new().with(key("bound"), Expect::Absent, Action::Bind(b"x".into(), session));
    one.commit(&bound).unwrap();
    one.end_session(session).unwrap();
    elsewhere.commit(&put("b", Expect::Absent, "1")).unwrap();
    let ended = one.revision().unwrap();
    assert_eq!(other.snapshot().unwrap().entries.len(), 1);
    assert_eq!(other.revision().unwrap(), ended);
    assert!(began.elapsed() < Duration::from_secs(1), "it does not wait for what never comes");
}

#[test]
fn a_request_that_was_given_up_does_not_happen_once_the_next_has_been_sent() {
    let members = Members::start(1, &[]);
    let directory = create(&members, new_cluster());
    let inner = &directory.inner;
    let late = put("late", Expect::Absent, "x").with_nonce(nonce(1));
    // As it lies in the socket of a member that hangs.
    let fence = members.block(inner.writer.fence(&inner.core, Until::now() + CALL_MAX)).unwrap();
    let request = encode(&inner.core.layout, &late, &fence, b"stamp");
    inner.writer.doubt();
    directory.commit(&put("next", Expect::Absent, "x")).unwrap();
    let answer = members.block(client(&members).txn(&request, Until::now() + CALL_MAX)).unwrap();
    assert!(matches!(decode(&late, &fence, answer).unwrap(), Decided::Fenced(Some(_))));
    assert_eq!((directory.get(&key("late")).unwrap(), directory.outcome(nonce(1)).unwrap()), (None, None));
    // Without a doubt it would have happened: the fence is what keeps it from that.
    let fence = members.block(inner.writer.fence(&inner.core, Until::now() + CALL_MAX)).unwrap();
    let request = encode(&inner.core.layout, &late, &fence, b"stamp");
    directory.commit(&put("another", Expect::Absent, "x")).unwrap();
    assert!(members.block(client(&members).txn(&request, Until::now() + CALL_MAX)).unwrap().succeeded);
}

#[test]
fn a_daemon_that_was_replaced_changes_nothing_any_more() {
    let members = Members::start(1, &[]);
    let cluster = new_cluster();
    let old = create(&members, cluster);
    let new = EtcdDirectory::open(client(&members), open_as("n1", cluster)).unwrap();
    for _ in 0..2 {
        let refused = old.commit(&put("a", Expect::Absent, "old")).unwrap_err();
        assert!(matches!(refused, DirectoryError::Superseded { .. }), "{refused}");
    }
    new.commit(&put("a", Expect::Absent, "new")).unwrap();
    assert_eq!(old.get(&key("a")).unwrap().unwrap().value, b"new", "it still reads");
}

#[test]
fn an_etcd_of_another_cluster_or_of_none_is_refused_with_what_it_holds() {
    let members = Members::start(1, &[]);
    let open = |cluster| EtcdDirectory::open(client(&members), open_as("n1", cluster)).err().unwrap();
    let (ours, theirs) = (new_cluster(), new_cluster());
    let found = |error: DirectoryError| match error {
        DirectoryError::Foreign { wanted, found } if wanted == ours => found,
        other => panic!("{other}"),
    };
    assert_eq!(found(open(ours)), []);
    create(&members, theirs);
    assert_eq!(found(open(ours)), [theirs]);
    // A layout of a newer release.
    let core = Core::new(client(&members), ours, None);
    let newer = TxnRequest { success: vec![put_marker(&core, b"2")], ..TxnRequest::default() };
    members.block(core.client.txn(&newer, Until::now() + CALL_MAX)).unwrap();
    let refused = open(ours);
    assert!(matches!(refused, DirectoryError::Refused { .. }) && refused.to_string().contains("newer"), "{refused}");
}

fn put_marker(core: &Core, value: &[u8]) -> ::etcd::message::RequestOp {
    super::request::put(core.layout.marker.clone(), value.to_vec(), 0)
}

/// What a directory says of an etcd that is not the one that it has seen: the same for ever, and it takes no change.
fn refuses_for_ever(directory: &EtcdDirectory, watch: &mut Box<dyn Watch>) -> String {
    let error = persist(|| directory.revision()).unwrap_err();
    assert!(matches!(error, DirectoryError::Older { .. } | DirectoryError::Replaced { .. } | DirectoryError::Diverged { .. }), "{error}");
    for _ in 0..2 {
        let again = directory.commit(&put("after", Expect::Absent, "x")).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!(watch.poll().unwrap_err().to_string(), error.to_string());
    }
    error.to_string()
}

#[test]
fn an_etcd_that_was_wiped_is_noticed() {
    let mut members = Members::start(1, &[]);
    let directory = create(&members, new_cluster());
    (0..20).for_each(|n| assert!(directory.commit(&put(&n.to_string(), Expect::Absent, "x")).is_ok()));
    let mut watch = directory.watch(directory.revision().unwrap()).unwrap();
    members.kill(0);
    std::fs::remove_dir_all(members.all[0].data_dir.join("store")).unwrap();
    members.start_again(0);
    members.wait_for(0);
    println!("{}", refuses_for_ever(&directory, &mut watch));
}

/// Restores a backup into the only member. `token`: of the new etcd cluster.
fn restore(members: &mut Members, backup: &str, token: &str) {
    members.kill(0);
    let store = members.all[0].data_dir.join("store");
    std::fs::remove_dir_all(&store).unwrap();
    let peer = members.initial_cluster();
    let advertised = peer.split_once('=').unwrap().1.to_owned();
    members.ctl(&[
        "snapshot",
        "restore",
        backup,
        "--name=m0",
        &format!("--data-dir={}", store.display()),
        &format!("--initial-cluster={peer}"),
        &format!("--initial-advertise-peer-urls={advertised}"),
        &format!("--initial-cluster-token={token}"),
    ]);
    members.set_token(token);
    members.start_again(0);
    members.wait_for(0);
}

#[test]
fn a_backup_that_was_restored_is_noticed_also_when_it_has_as_many_revisions_again() {
    let mut members = Members::start(1, &[]);
    members.set_token("one");
    restore_empty(&mut members, "one");
    let cluster = new_cluster();
    let directory = create(&members, cluster);
    directory.commit(&put("a", Expect::Absent, "1")).unwrap();
    let backup = members.dir().join("backup").display().to_string();
    members.ctl(&["snapshot", "save", &backup]);
    let seen_then = directory.seen();
    (0..10).for_each(|n| assert!(directory.commit(&put(&format!("lost{n}"), Expect::Absent, "x")).is_ok()));
    let mut watch = directory.watch(directory.revision().unwrap()).unwrap();
    // With the same token, so that etcd itself does not know that it is another history; and nobody of before sees it grow.
    directory.set_endpoints(vec!["https://127.0.0.1:1".parse().unwrap()]).unwrap();
    restore(&mut members, &backup, "one");
    let other = EtcdDirectory::open(client(&members), open_as("n2", cluster)).unwrap();
    assert_eq!(other.get(&key("lost0")).unwrap(), None);
    (0..30).for_each(|n| assert!(other.commit(&put(&format!("other{n}"), Expect::Absent, "x")).is_ok()));
    assert!(other.seen().revision > directory.seen().revision && other.seen().etcd == directory.seen().etcd);
    directory.set_endpoints(members.options().endpoints).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while directory.inner.followed.usable().is_ok() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = refuses_for_ever(&directory, &mut watch);
    assert!(said.contains("is not the one that was seen"), "{said}");
    // With a token of its own it is another etcd cluster.
    let mut watch = other.watch(other.revision().unwrap()).unwrap();
    restore(&mut members, &backup, "two");
    let said = refuses_for_ever(&other, &mut watch);
    assert!(said.contains("another etcd cluster"), "{said}");
    // Over a restart of the daemon, which has kept what it saw.
    let kept = Open { seen: Some(seen_then), ..open_as("n3", cluster) };
    let refused = EtcdDirectory::open(client(&members), kept).err().unwrap();
    assert!(matches!(refused, DirectoryError::Replaced { .. }), "{refused}");
    EtcdDirectory::open(client(&members), open_as("n3", cluster)).unwrap();
}

/// A member with a token that is known.
fn restore_empty(members: &mut Members, token: &str) {
    members.kill(0);
    std::fs::remove_dir_all(members.all[0].data_dir.join("store")).unwrap();
    members.set_token(token);
    members.start_again(0);
    members.wait_for(0);
}

#[test]
fn a_watch_that_was_away_goes_on_without_a_gap_or_hears_that_there_is_one() {
    let mut members = Members::start(1, &[]);
    let cluster = new_cluster();
    let (away, here) = (create(&members, cluster), EtcdDirectory::open(client(&members), open_as("n2", cluster)).unwrap());
    let nowhere = || vec!["https://127.0.0.1:1".parse().unwrap()];
    for compacts in [false, true] {
        let begin = away.revision().unwrap();
        let mut watch = away.watch(begin).unwrap();
        away.set_endpoints(nowhere()).unwrap();
        members.kill(0);
        members.start_again(0);
        members.wait_for(0);
        let made: Vec<Revision> =
            (0..10).map(|n| must(&here, u64::from(compacts) * 100 + n, &put(&format!("{compacts}{n}"), Expect::Absent, "x"))).collect();
        if compacts {
            here.compact().unwrap();
        }
        away.set_endpoints(members.options().endpoints).unwrap();
        let upto = persist(|| away.revision()).unwrap();
        assert!(upto >= *made.last().unwrap());
        let mut next = || -> Result<Option<Changes>, DirectoryError> { watch.poll() };
        if compacts {
            assert!(matches!(next(), Err(DirectoryError::Compacted { .. })));
            assert!(matches!(away.watch(begin).err(), Some(DirectoryError::Compacted { .. })));
            away.watch(upto).unwrap();
        } else {
            let given: Vec<Revision> = std::iter::from_fn(|| next().unwrap()).map(|c| c.revision).collect();
            assert_eq!(given, made);
        }
    }
}

#[test]
fn a_member_that_hangs_costs_seconds_and_nothing_else() {
    let mut members = Members::start(3, &[]);
    let directory = create(&members, new_cluster());
    let mut at = Expect::Absent;
    for (n, member) in [0, 1, 2].into_iter().enumerate() {
        members.pause(member);
        let began = Instant::now();
        at = Expect::At(must(&directory, n as u64, &put("a", at, &n.to_string())));
        let upto = persist(|| directory.revision()).unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(12), "{took:?}");
        assert_eq!(at, Expect::At(upto));
        members.go_on(member);
        members.wait_for(member);
    }
}

#[test]
fn a_cluster_is_claimed_where_there_is_nothing_of_it_and_what_was_half_done_goes() {
    let members = Members::start(1, &[]);
    let (mine, theirs) = (new_cluster(), new_cluster());
    let claim = |attempt| Claim::new(client(&members), mine, [attempt; 16]).unwrap();
    let other = create(&members, theirs);
    other.commit(&put("a", Expect::Absent, "1")).unwrap();
    let occupied = |attempt| matches!(claim(attempt).take(), Err(DirectoryError::Occupied { cluster }) if cluster == mine);
    let count = || members.ctl(&["get", "--prefix", "--keys-only", &format!("basalt/{mine}/")]).lines().filter(|l| !l.is_empty()).count();

    // An attempt that has died half way: another one is refused, the same one begins anew.
    claim(1).take().unwrap();
    create(&members, mine).commit(&put("half", Expect::Absent, "1")).unwrap();
    assert!(occupied(2) && count() > 2);
    claim(1).take().unwrap();
    assert_eq!(count(), 1, "the claim alone");
    claim(1).give_up().unwrap();
    assert_eq!(count(), 0);

    // One that comes to its end: the claim goes, and nobody can take the cluster for a new one.
    claim(3).take().unwrap();
    let directory = create(&members, mine);
    directory.commit(&put("whole", Expect::Absent, "1")).unwrap();
    claim(3).settle().unwrap();
    claim(3).give_up().unwrap();
    assert!(directory.get(&key("whole")).unwrap().is_some(), "there is no claim any more that could be given up");
    assert!(occupied(3) && occupied(4));
    assert!(other.get(&key("a")).unwrap().is_some());
}

#[test]
fn without_a_majority_everything_is_unavailable_and_comes_back() {
    let mut members = Members::start(3, &[]);
    let directory = create(&members, new_cluster());
    let at = directory.commit(&put("a", Expect::Absent, "1")).unwrap();
    let mut watch = directory.watch(at).unwrap();
    members.kill(0);
    members.kill(1);
    let began = Instant::now();
    assert!(matches!(directory.get(&key("a")), Err(DirectoryError::Unavailable)));
    let refused = directory.commit(&put("b", Expect::Absent, "1").with_nonce(nonce(1))).unwrap_err();
    assert!(matches!(refused, DirectoryError::Unavailable | DirectoryError::Unknown { .. }), "{refused}");
    assert!(began.elapsed() < 2 * CALL_MAX + Duration::from_secs(2), "calls are bounded");
    assert!(directory.trouble().is_some());
    assert!(watch.poll().unwrap().is_none());
    (0..2).for_each(|n| members.start_again(n));
    (0..2).for_each(|n| members.wait_for(n));
    let at = must(&directory, 1, &put("b", Expect::Absent, "1"));
    assert_eq!(watch.wait(Duration::from_secs(20)).unwrap().unwrap().revision, at);
    assert_eq!(directory.trouble(), None);
}

#[test]
fn nonces_are_remembered_as_promised_and_their_number_is_bounded_with_several_writers() {
    let members = Members::start(1, &[]);
    let cluster = new_cluster();
    let writers: Vec<_> = ["n1", "n2", "n3"].map(|w| EtcdDirectory::create(client(&members), open_as(w, cluster)).unwrap()).into();
    let count = 3 * (NONCES_MIN as u64);
    std::thread::scope(|scope| {
        for (w, directory) in writers.iter().enumerate() {
            scope.spawn(move || {
                for n in (0..count).filter(|n| *n as usize % 3 == w) {
                    let look = Transaction::new().with(key("none"), Expect::Absent, Action::Check).with_nonce(nonce(n));
                    directory.commit(&look).unwrap();
                }
            });
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    let inner = &writers[0].inner;
    let left = members.block(inner.core.read_all(&inner.core.layout.nonces, Until::now() + CALL_MAX)).unwrap().kvs;
    assert!((NONCES_MIN..=NONCES_MIN + 3 * NONCES_TRIM_EVERY).contains(&left.len()), "{} nonces", left.len());
    // The latest ones, whoever wrote them.
    let oldest = left.iter().map(|kv| kv.mod_revision).min().unwrap();
    for n in 0..count {
        let at = writers[1].outcome(nonce(n)).unwrap();
        assert!(at.is_none_or(|at| at.0 >= oldest as u64));
    }
    assert!(writers[2].outcome(nonce(count - 1)).unwrap().is_some());
}

#[test]
fn a_full_store_refuses_changes_loses_nothing_and_comes_back_when_there_is_room() {
    let members = Members::start(1, &["--quota-backend-bytes=8388608"]);
    let directory = create(&members, new_cluster());
    let value = "x".repeat(500_000);
    let mut made = Vec::new();
    let full = (0..60).find_map(|n| {
        let transaction = put(&n.to_string(), Expect::Absent, &value).with_nonce(nonce(n));
        match directory.commit(&transaction) {
            Ok(at) => {
                made.push((n, at));
                None
            }
            Err(error) => Some((n, error)),
        }
    });
    let (refused, error) = full.expect("it is full some time");
    assert!(matches!(error, DirectoryError::Full), "{error}");
    assert_eq!(directory.get(&key(&refused.to_string())).unwrap(), None, "'full' means that it has not happened");
    assert_eq!(directory.outcome(nonce(refused)).unwrap(), None);
    let holds_all = |made: &[(u64, Revision)]| {
        let found: Vec<_> =
            directory.list(Kind::Task).unwrap().into_iter().map(|e| (e.key.id.parse::<u64>().unwrap(), e.revision)).collect();
        let mut made = made.to_vec();
        made.sort_by_key(|(n, _)| n.to_string());
        assert_eq!(found, made);
    };
    holds_all(&made);
    assert!(matches!(directory.open_session(Duration::from_secs(5)), Err(DirectoryError::Full)));
    let until = || Until::now() + Duration::from_secs(20);
    // etcd looks at a size that is a moment old, so who writes fast gets far beyond the quota: what stays must be well below it.
    let goes = made.len().saturating_sub(4);
    for (n, _) in made.drain(..goes) {
        members.ctl(&["del", &format!("basalt/{}/d/task/{n}", directory.cluster())]);
    }
    directory.compact().unwrap();
    let client = directory.client();
    members.block(client.defragment(&members.all[0].endpoint, until())).unwrap();
    members.block(client.disarm(until())).unwrap();
    made.push((60, must(&directory, 60, &put("60", Expect::Absent, "small"))));
    holds_all(&made);
}

#[test]
fn a_member_whose_disk_is_full_ends_and_the_others_go_on_and_it_comes_back_when_there_is_room() {
    let mut members = Members::prepare(3, &[]);
    // Two files of its log, 64 MB each, are made in advance.
    let Some(disk) = members.give_small_disk(2, 160) else { return };
    (0..3).for_each(|n| members.start_again(n));
    (0..3).for_each(|n| members.wait_for(n));
    let directory = create(&members, new_cluster());
    directory.commit(&put("before", Expect::Absent, "x")).unwrap();
    let filler = disk.join("filler");
    let filled = std::io::copy(&mut std::io::repeat(0), &mut std::fs::File::create(&filler).unwrap());
    assert!(filled.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull));
    let value = "x".repeat(400_000);
    let mut made = 0;
    let began = Instant::now();
    while !members.has_ended(2) && began.elapsed() < Duration::from_secs(30) {
        must(&directory, made, &put(&made.to_string(), Expect::Absent, &value));
        made += 1;
    }
    assert!(members.has_ended(2), "its disk is full");
    must(&directory, made, &put(&made.to_string(), Expect::Absent, "after"));
    assert_eq!(directory.list(Kind::Task).unwrap().len() as u64, made + 2);
    std::fs::remove_file(&filler).unwrap();
    members.kill(2);
    members.start_again(2);
    members.wait_for(2);
    // It has everything: the others are not needed for it.
    members.kill(0);
    let listed = persist(|| directory.list(Kind::Task)).unwrap();
    assert_eq!(listed.len() as u64, made + 2);
}

#[test]
fn a_snapshot_larger_than_a_message_is_read_in_smaller_pages() {
    let members = Members::start(1, &[]);
    let directory = create(&members, new_cluster());
    let value = "x".repeat(1 << 20);
    let count = 70;
    for n in 0..count {
        must(&directory, n, &put(&format!("{n:03}"), Expect::Absent, &value));
    }
    let snapshot = directory.snapshot().unwrap();
    assert_eq!(snapshot.entries.len() as u64, count);
    assert!(snapshot.entries.iter().all(|e| e.value == value.as_bytes()));
    assert!(snapshot.entries.is_sorted_by_key(|e| e.key.clone()));
}

struct OnDrop<F: Fn()>(F);
impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_change_whose_answer_is_lost_is_unknown_and_is_found_by_its_nonce() {
    let mut members = Members::start(1, &[]);
    let directory = create(&members, new_cluster());
    directory.commit(&put("before", Expect::Absent, "x")).unwrap();
    let change = put("a", Expect::Absent, "x").with_nonce(nonce(1));
    // It is sent on an open connection where something was answered just now. A busy machine may take longer than that: then nothing is sent.
    let lost = (0..20).find_map(|_| {
        directory.get(&key("before")).unwrap();
        members.pause(0);
        let lost = directory.commit(&change).unwrap_err();
        members.go_on(0);
        assert!(matches!(lost, DirectoryError::Unknown { .. } | DirectoryError::Unavailable), "{lost}");
        matches!(lost, DirectoryError::Unknown { .. }).then_some(())
    });
    lost.expect("one was sent");
    let at = persist(|| directory.commit(&change)).unwrap();
    assert_eq!(directory.outcome(nonce(1)).unwrap(), Some(at));
    assert_eq!(directory.get(&key("a")).unwrap().unwrap().revision, at);
}

#[test]
fn a_snapshot_of_several_pages_is_of_one_revision_while_others_change_things() {
    let members = Members::start(1, &[]);
    let cluster = new_cluster();
    let (directory, writer) = (create(&members, cluster), EtcdDirectory::open(client(&members), open_as("n2", cluster)).unwrap());
    // More than a page; the first and the last key are always changed together.
    let mut made = Vec::new();
    for part in 0..10 {
        let many = (0..100)
            .fold(Transaction::new(), |t, n| t.with(key(&format!("{:04}", part * 100 + n)), Expect::Absent, Action::Put(b"0".into())));
        made.push(directory.commit(&many).unwrap());
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut first, mut last) = (made[0], made[9]);
            for n in 1u32.. {
                if ends.load(SeqCst) {
                    break;
                }
                let both =
                    put("0000", Expect::At(first), &n.to_string()).with(key("0999"), Expect::At(last), Action::Put(n.to_string().into()));
                first = writer.commit(&both).unwrap();
                last = first;
            }
        });
        // Also when an assertion fails.
        let _ends = OnDrop(|| ends.store(true, SeqCst));
        let mut values = BTreeSet::new();
        for _ in 0..30 {
            let entries = directory.snapshot().unwrap().entries;
            assert_eq!(entries.len(), 1000);
            assert_eq!(entries[0].value, entries[999].value, "both of one moment");
            values.insert(entries[0].value.clone());
        }
        assert!(values.len() > 5, "things have changed meanwhile");
    });
}
