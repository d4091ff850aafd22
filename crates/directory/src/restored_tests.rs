use super::*;
use crate::modelled::{Faults, Modelled};
use base::{ClusterId, ObjectId, Ownership, VolumeId};

fn object(n: u8) -> ObjectRecord {
    ObjectRecord { owner: Some("a".into()), ..ObjectRecord::new(ObjectId::from_bytes([n; 16]), VolumeId::from_bytes([n; 16]), Vec::new()) }
}

#[test]
fn objects_of_a_store_that_was_made_from_a_backup_are_marked_once() {
    let directory = Modelled::new(1, ClusterId::from_bytes([1; 16]), Faults::NONE);
    let note = || note_store(&directory, |t| directory.commit(&t)).unwrap();
    assert_eq!(note(), 0, "a new one");
    for n in 0..200 {
        directory.commit(&Transaction::new().create(&object(n))).unwrap();
    }
    assert_eq!(note(), 0, "it is the same one");
    let backup = directory.backup();
    let mut changed = directory.find::<ObjectRecord>(&object(7).id.to_string()).unwrap().unwrap();
    changed.value.ownership.epoch.0 = 9;
    directory.commit(&Transaction::new().update(&changed)).unwrap();
    directory.restore(&backup);
    assert_eq!(note(), 200);
    let marked =
        |o: &ObjectRecord| o.change.restored && o.ownership.epoch.0 > cluster::EPOCHS_BETWEEN && o.ownership.term == Ownership::FIRST.term;
    assert!(directory.all::<ObjectRecord>().unwrap().iter().all(|o| marked(&o.value)));
    assert_eq!(note(), 0, "another node starts");
    // One is right again: it stays so.
    let mut confirmed = directory.find::<ObjectRecord>(&object(7).id.to_string()).unwrap().unwrap();
    confirmed.value.change.restored = false;
    directory.commit(&Transaction::new().update(&confirmed)).unwrap();
    assert_eq!(note(), 0);
    // And once more, from the same backup.
    directory.restore(&backup);
    assert_eq!(note(), 200);
}

/// Who is slower than another node, and has seen the records before it, marks nothing that is confirmed by then.
#[test]
fn a_slower_node_marks_nothing_that_was_confirmed() {
    let directory = Modelled::new(2, ClusterId::from_bytes([1; 16]), Faults::NONE);
    let note = || note_store(&directory, |t| directory.commit(&t)).unwrap();
    note();
    directory.commit(&Transaction::new().create(&object(1))).unwrap();
    let backup = directory.backup();
    directory.restore(&backup);
    let mut first = true;
    let slower = note_store(&directory, |t| {
        // Between what it has read and its change another node has marked all, and the object was confirmed.
        if core::mem::take(&mut first) {
            assert_eq!(note(), 1);
            let mut confirmed = directory.find::<ObjectRecord>(&object(1).id.to_string()).unwrap().unwrap();
            confirmed.value.change.restored = false;
            directory.commit(&Transaction::new().update(&confirmed)).unwrap();
        }
        directory.commit(&t)
    });
    assert_eq!(slower.unwrap(), 0);
    assert!(!directory.find::<ObjectRecord>(&object(1).id.to_string()).unwrap().unwrap().change.restored);
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_of_restores_are_noticed() {
    use base::hooks::notices;
    notices(SeededFault::RestoreUnnoticed, objects_of_a_store_that_was_made_from_a_backup_are_marked_once);
}
