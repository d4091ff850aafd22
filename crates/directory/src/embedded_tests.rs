use super::*;
use crate::record::{HostEntryRecord, PolicyRecord};
use cluster::Policy;
use std::sync::Arc;

fn cluster_id(n: u8) -> ClusterId {
    ClusterId::from_bytes([n; 16])
}

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, cluster_id(1)).unwrap()
}

fn entry(nqn: &str, name: &str) -> HostEntryRecord {
    HostEntryRecord { nqn: nqn.into(), name: name.into(), dhchap: None, tls_psks: Vec::new(), created_unix_s: 0 }
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
    directory.commit(&Transaction::new().free_name(Kind::Volume, "data")).unwrap();
    directory.commit(&Transaction::new().take_name(Kind::Volume, "data", "2")).unwrap();
}

#[test]
fn a_list_holds_its_kind_only() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(dir.path());
    let policy = PolicyRecord { name: "gold".into(), policy: Policy::default(), created_unix_s: 0 };
    directory.commit(&Transaction::new().create(&entry("nqn.b", "b")).create(&entry("nqn.a", "a")).create(&policy)).unwrap();
    let names: Vec<String> = directory.all::<HostEntryRecord>().unwrap().into_iter().map(|e| e.value.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(directory.all::<PolicyRecord>().unwrap().len(), 1);
    assert_eq!(directory.list(Kind::Host).unwrap().len(), 0, "'host' is a prefix of 'host-entry'");
}

#[test]
fn a_watcher_sees_changes_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let directory = Arc::new(open(dir.path()));
    let watch = directory.watch().unwrap();
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
    let seen: Vec<u64> = watch.try_iter().map(|e| e.revision.0).collect();
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_second_opener_is_told_that_it_is_in_use() {
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
