use super::*;
use crate::record::{HostEntryRecord, PolicyRecord};
use crate::{Expect, HeldName, TRANSACTION_CHANGES_MAX, Typed, VALUE_BYTES_MAX};
use cluster::Policy;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

fn cluster_id(n: u8) -> ClusterId {
    ClusterId::from_bytes([n; 16])
}

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, cluster_id(1)).unwrap()
}

fn entry(nqn: &str, name: &str) -> HostEntryRecord {
    HostEntryRecord { nqn: nqn.into(), name: name.into(), chap: None, dhchap: None, tls_psks: Vec::new(), created_unix_s: 0 }
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let revision = open(dir.path()).commit(&Transaction::new().create(&entry("nqn.a", "a"))).unwrap();
    let again = Embedded::open(dir.path(), cluster_id(2)).unwrap();
    assert_eq!(again.cluster(), cluster_id(1), "the cluster stays the one it was made for");
    let found = again.find::<HostEntryRecord>("nqn.a").unwrap().unwrap();
    assert_eq!((found.revision, found.name.as_str()), (revision, "a"));
    assert_eq!(again.revision().unwrap(), revision);
}

#[test]
fn a_change_of_what_has_changed_is_a_conflict_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    directory.commit(&Transaction::new().create(&entry("nqn.a", "a"))).unwrap();
    let mut mine = directory.find::<HostEntryRecord>("nqn.a").unwrap().unwrap();
    let mut other = mine.clone();
    other.name = "other".into();
    directory.commit(&Transaction::new().update(&other)).unwrap();
    mine.name = "mine".into();
    let refused = directory.commit(&Transaction::new().create(&entry("nqn.b", "b")).update(&mine)).unwrap_err();
    assert!(matches!(refused, DirectoryError::Conflict { ref key } if key.id == "nqn.a"), "{refused}");
    assert_eq!(directory.find::<HostEntryRecord>("nqn.a").unwrap().unwrap().name, "other");
    assert_eq!(directory.find::<HostEntryRecord>("nqn.b").unwrap(), None, "all or nothing");
}

#[test]
fn a_name_is_taken_once_whatever_its_case() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    directory.commit(&Transaction::new().take_name(Kind::Volume, "Data", "1")).unwrap();
    assert!(directory.commit(&Transaction::new().take_name(Kind::Volume, "data", "2")).is_err());
    directory.commit(&Transaction::new().take_name(Kind::Group, "data", "3")).unwrap();
    assert_eq!(directory.named(Kind::Volume, "DATA").unwrap().as_deref(), Some("1"));
    let held = HeldName::find(&directory, Kind::Volume, "data").unwrap().unwrap();
    directory.commit(&Transaction::new().free_name(&held)).unwrap();
    assert!(directory.commit(&Transaction::new().free_name(&held)).is_err(), "it is nobody's any more");
    directory.commit(&Transaction::new().take_name(Kind::Volume, "data", "2")).unwrap();
}

#[test]
fn a_list_holds_its_kind_only() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let policy = PolicyRecord::new("gold".into(), Policy::default(), 0);
    directory.commit(&Transaction::new().create(&entry("nqn.b", "b")).create(&entry("nqn.a", "a")).create(&policy)).unwrap();
    let names: Vec<String> = directory.all::<HostEntryRecord>().unwrap().into_iter().map(|e| e.value.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(directory.all::<PolicyRecord>().unwrap().len(), 1);
    assert_eq!(directory.list(Kind::Node).unwrap().len(), 0, "'host' is a prefix of 'host-entry'");
}

#[test]
fn a_watcher_sees_changes_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Arc::new(open(dir.path()));
    let mut watch = directory.watch(Revision(0)).unwrap();
    let writers: Vec<_> = (0..4)
        .map(|w| {
            let directory = directory.clone();
            std::thread::spawn(move || {
                for n in 0..5 {
                    directory.commit(&Transaction::new().create(&entry(&format!("nqn.{w}.{n}"), "x"))).unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|w| w.join().unwrap());
    let seen: Vec<u64> = std::iter::from_fn(|| watch.poll().unwrap()).map(|c| c.revision.0).collect();
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_second_opener_hears_that_it_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path());
    let refused = Embedded::open(dir.path(), cluster_id(1)).err().unwrap();
    assert!(matches!(refused, DirectoryError::InUse { .. }), "{refused}");
}

#[test]
fn damaged_and_foreign_files_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    for content in [&b""[..], b"hello", &[0; 8192], &[b"redb\x1A\x0A\xA9\x0D\x0A".as_slice(), &[0x55; 9000]].concat()] {
        std::fs::write(&path, content).unwrap();
        let refused = Embedded::open(dir.path(), cluster_id(1)).err().unwrap();
        assert!(matches!(refused, DirectoryError::Corrupt { .. }), "{refused:?}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

#[test]
fn a_directory_that_was_cut_off_while_it_was_made_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    // What a kill or a loss of power may leave: nothing, or something, of a file that has not got its name yet.
    for left in [&b""[..], b"redb\x1A\x0A", &[0; 8192]] {
        let data_dir = tempfile::tempdir_in(dir.path()).unwrap();
        std::fs::write(data_dir.path().join(NEW_FILE_NAME), left).unwrap();
        drop(open(data_dir.path()));
        let files: Vec<_> = std::fs::read_dir(data_dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(files, [FILE_NAME]);
    }
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let database = Database::create(dir.path().join(FILE_NAME)).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert(SCHEMA, SCHEMA_VERSION + 1).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = Embedded::open(dir.path(), cluster_id(1)).err().unwrap();
    assert!(matches!(refused, DirectoryError::Newer { found, .. } if found == SCHEMA_VERSION + 1), "{refused}");
}

#[test]
fn a_transaction_has_limits() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let many = (0..TRANSACTION_CHANGES_MAX + 1).fold(Transaction::new(), |t, n| t.create(&entry(&format!("nqn.{n}"), "x")));
    assert!(matches!(directory.commit(&many), Err(DirectoryError::TooLarge { .. })));
    let long = Transaction::new().create(&entry("nqn.a", &"x".repeat(VALUE_BYTES_MAX)));
    assert!(matches!(directory.commit(&long), Err(DirectoryError::TooLarge { .. })));
}

/// A directory in a folder of its own, on a clock that the test moves.
struct Kept {
    directory: Embedded,
    now_ns: Arc<AtomicU64>,
    _dir: tempfile::TempDir,
}

impl Kept {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let now_ns = Arc::new(AtomicU64::new(0));
        let directory = on_clock(dir.path(), &now_ns);
        Self { directory, now_ns, _dir: dir }
    }
}

fn on_clock(dir: &Path, now_ns: &Arc<AtomicU64>) -> Embedded {
    let clock = now_ns.clone();
    Embedded::open_with_clock(dir, cluster_id(1), Arc::new(move || Duration::from_nanos(clock.load(SeqCst)))).unwrap()
}

impl crate::conformance::Subject for Kept {
    fn directory(&self) -> &dyn Directory {
        &self.directory
    }
    fn advance(&self, by: Duration) {
        self.now_ns.fetch_add(by.as_nanos() as u64, SeqCst);
    }
    fn compact(&self) {
        self.directory.compact().unwrap();
    }
}

#[test]
fn it_conforms() {
    assert_eq!(crate::conformance::check(&|| Box::new(Kept::new())), []);
}

#[test]
fn sessions_and_nonces_outlive_the_process_and_then_run_out() {
    let dir = tempfile::tempdir().unwrap();
    let now_ns = Arc::new(AtomicU64::new(0));
    let directory = on_clock(dir.path(), &now_ns);
    let session = directory.open_session(Duration::from_secs(10)).unwrap();
    let key = Key::new(Kind::Task, "a");
    let bound = Transaction::new().with(key.clone(), Expect::Absent, Action::Bind(b"x".into(), session)).with_nonce(Nonce([3; 16]));
    let at = directory.commit(&bound).unwrap();
    drop(directory);
    now_ns.store(9_000_000_000, SeqCst);
    let directory = on_clock(dir.path(), &now_ns);
    assert_eq!(directory.outcome(Nonce([3; 16])).unwrap(), Some(at));
    now_ns.store(18_000_000_000, SeqCst);
    assert!(directory.get(&key).unwrap().is_some(), "it lives for its whole time again");
    assert!(matches!(directory.watch(Revision(0)).err(), Some(DirectoryError::Compacted { .. })), "history is not kept over a restart");
    let mut watch = directory.watch(at).unwrap();
    now_ns.store(19_000_000_000, SeqCst);
    assert_eq!(watch.wait(Duration::from_secs(5)).unwrap().unwrap().events, [Event { key: key.clone(), value: None }]);
    assert_eq!(directory.get(&key).unwrap(), None);
}

#[test]
fn a_watch_that_waits_is_woken_by_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Arc::new(open(dir.path()));
    let mut watch = directory.watch(Revision(0)).unwrap();
    assert_eq!(watch.wait(Duration::from_millis(5)).unwrap(), None);
    let writer = {
        let directory = directory.clone();
        std::thread::spawn(move || directory.commit(&Transaction::new().create(&entry("nqn.a", "a"))).unwrap())
    };
    let seen = watch.wait(Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(seen.revision, writer.join().unwrap());
}

#[test]
fn a_watch_that_waits_sees_a_session_run_out_though_nobody_does_anything() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let session = directory.open_session(crate::SESSION_TTL_MIN).unwrap();
    let key = Key::new(Kind::Task, "a");
    let bound = Transaction::new().with(key.clone(), Expect::Absent, Action::Bind(b"x".into(), session));
    let mut watch = directory.watch(directory.commit(&bound).unwrap()).unwrap();
    let started = std::time::Instant::now();
    assert_eq!(watch.wait(Duration::from_secs(60)).unwrap().unwrap().events, [Event { key, value: None }]);
    assert!(started.elapsed() < Duration::from_secs(30), "not only when the time to wait is over");
}

/// A file as schema 1 has it.
fn schema_1(dir: &Path) {
    let database = Database::create(dir.join(FILE_NAME)).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut entries = write.open_table(ENTRIES).unwrap();
        entries.insert("host/h1", (4, br#"{"name":"h1","fault_domain":"rack1","created_unix_s":5}"#.as_slice())).unwrap();
        let group = format!(
            r#"{{"id":"{}","name":"g","host":"h1","stage":"ready","cache":{{"kind":"memory","bytes":1}},"capacity":[],"shards":1,"created_unix_s":1}}"#,
            base::GroupId::from_bytes([2; 16])
        );
        entries.insert(format!("group/{}", base::GroupId::from_bytes([2; 16])).as_str(), (5, group.as_bytes())).unwrap();
        let host = br#"{"nqn":"nqn.a","name":"a","created_unix_s":0}"#;
        entries.insert("host-entry/nqn.a", (6, host.as_slice())).unwrap();
        let mut meta = write.open_table(META).unwrap();
        meta.insert(SCHEMA, 1).unwrap();
        meta.insert(REVISION, 7).unwrap();
        write.open_table(IDENTITY).unwrap().insert(CLUSTER, [9; 16].as_slice()).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_file_of_the_schema_before_is_taken_over_with_all_that_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    schema_1(dir.path());
    for _ in 0..2 {
        let directory = open(dir.path());
        assert_eq!((directory.cluster(), directory.revision().unwrap()), (cluster_id(9), Revision(7)));
        let node = directory.find::<crate::record::NodeRecord>("h1").unwrap().unwrap();
        assert_eq!((node.revision, node.fault_domain.as_str()), (Revision(4), "rack1"));
        let groups = directory.all::<crate::record::GroupRecord>().unwrap();
        assert_eq!((groups.len(), groups[0].node.as_str(), groups[0].revision), (1, "h1", Revision(5)));
        assert_eq!(directory.find::<HostEntryRecord>("nqn.a").unwrap().unwrap().name, "a", "'host/' is not the beginning of 'host-entry/'");
        assert_eq!(directory.snapshot().unwrap().entries.len(), 3, "nothing is left under the old word");
    }
    let directory = open(dir.path());
    let mut watch = directory.watch(Revision(7)).unwrap();
    directory.commit(&Transaction::new().create(&entry("nqn.b", "b"))).unwrap();
    assert_eq!(watch.poll().unwrap().unwrap().revision, Revision(8));
}

#[test]
fn a_session_that_has_ended_does_not_come_back_with_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let now_ns = Arc::new(AtomicU64::new(0));
    let directory = on_clock(dir.path(), &now_ns);
    let [ended, over, lives] = [10, 10, 100].map(|s| directory.open_session(Duration::from_secs(s)).unwrap());
    directory.end_session(ended).unwrap();
    now_ns.store(11_000_000_000, SeqCst);
    directory.revision().unwrap();
    drop(directory);
    let directory = on_clock(dir.path(), &now_ns);
    directory.keep_alive(lives).unwrap();
    for session in [ended, over] {
        assert!(matches!(directory.keep_alive(session), Err(DirectoryError::NoSession(s)) if s == session));
    }
    let new = directory.open_session(Duration::from_secs(10)).unwrap();
    assert!(new > lives, "ids are given once");
}

/// A directory without a file, whose clock stands still.
fn in_memory() -> Embedded {
    let database = Database::builder().create_with_backend(redb::backends::InMemoryBackend::new()).unwrap();
    Embedded::on(database, Path::new("memory"), cluster_id(1), Arc::new(|| Duration::ZERO)).unwrap()
}

#[test]
fn as_many_nonces_are_remembered_as_is_promised_and_no_more() {
    let directory = in_memory();
    let nonce = |n: u64| Nonce([n.to_le_bytes(), [9; 8]].concat().try_into().unwrap());
    let count = NONCES_MIN as u64 + 200;
    for n in 0..count {
        let put =
            Transaction::new().with(Key::new(Kind::Task, format!("t{}", n % 7)), expected(&directory, n % 7), Action::Put(b"x".into()));
        directory.commit(&put.with_nonce(nonce(n))).unwrap();
    }
    let known = (0..count).filter(|n| directory.outcome(nonce(*n)).unwrap().is_some()).collect::<Vec<_>>();
    assert_eq!(known, (count - NONCES_MIN as u64..count).collect::<Vec<_>>());
}

fn expected(directory: &Embedded, n: u64) -> Expect {
    directory.get(&Key::new(Kind::Task, format!("t{n}"))).unwrap().map_or(Expect::Absent, |e| Expect::At(e.revision))
}

#[test]
fn as_many_sessions_are_open_as_there_may_be_and_no_more() {
    let directory = in_memory();
    let open = || directory.open_session(Duration::from_secs(10));
    let sessions: Vec<_> = (0..SESSIONS_MAX).map(|_| open().unwrap()).collect();
    assert!(matches!(open(), Err(DirectoryError::TooLarge(TooLarge::Sessions))));
    directory.end_session(sessions[3]).unwrap();
    open().unwrap();
    assert!(open().is_err());
}
