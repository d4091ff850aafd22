use super::*;
use crate::record::{DeviceRecord, GroupRecord, NodeRecord};
use base::{GroupId, ObjectId, VolumeId};

fn component(n: u8) -> ComponentId {
    ComponentId::from_bytes([n; 16])
}
fn group(node: &str) -> GroupId {
    GroupId::from_bytes([node.as_bytes()[0]; 16])
}
/// A copy of the node, which is in the backup in this state.
fn copy(n: u8, node: &str, state: CopyState, synced_to: u32) -> ComponentRecord {
    ComponentRecord {
        id: component(n),
        node: node.into(),
        group: group(node),
        capacity_index: 0,
        no: Some(n.into()),
        bytes: 1 << 20,
        reserve_chunks: 0,
        state,
        synced_to: Epoch(synced_to),
        leaving: false,
    }
}
fn heard(n: u8, node: &str, epoch: u32, resyncing: bool) -> HeardCopy {
    HeardCopy { node: node.into(), component: component(n), epoch: Epoch(epoch), taken: Epoch(0), resyncing }
}
fn names(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|n| (*n).to_owned()).collect()
}
/// One mirror, marked, with what was heard.
fn restored(copies: Vec<ComponentRecord>, nodes: &[&str], said: Vec<HeardCopy>) -> ObjectRecord {
    let mut object = ObjectRecord {
        id: ObjectId::from_bytes([1; 16]),
        volume: VolumeId::from_bytes([1; 16]),
        owner: Some("a".into()),
        ownership: Ownership { epoch: Epoch(4), term: Epoch(3), period_start: Epoch(2) },
        change: Default::default(),
        heard: Default::default(),
        mirrors: vec![copies],
    };
    assert!(mark_restored(&mut object) && !mark_restored(&mut object));
    object.heard = Heard { nodes: names(nodes), copies: said };
    object
}
fn two() -> Vec<ComponentRecord> {
    vec![copy(1, "a", CopyState::Active, 0), copy(2, "b", CopyState::Active, 0)]
}
fn states(object: &ObjectRecord) -> Vec<(CopyState, u32, bool)> {
    object.components().map(|c| (c.state, c.synced_to.0, c.leaving)).collect()
}

#[test]
fn copies_of_the_highest_epoch_are_in_sync_whatever_the_backup_says() {
    // The backup has both in sync; since then the one on a was evicted in epoch 6, and b went on.
    let object = restored(two(), &["a", "b"], vec![heard(1, "a", 5, false), heard(2, "b", 6, false)]);
    let new = confirmed(&object, &names(&["a", "b"])).unwrap();
    assert_eq!(states(&new), [(CopyState::Absent, 5, false), (CopyState::Active, 0, false)]);
    assert_eq!(new.owner.as_deref(), Some("b"), "the one before has no copy in sync");
    assert!(!new.change.restored && new.heard == Heard::default());
    assert!(new.ownership.epoch.0 > EPOCHS_BETWEEN && new.ownership.term.0 == 3 && new.ownership.period_start.0 == 2);
    // Both went on: both are right, and the owner stays.
    let object = restored(two(), &["a", "b"], vec![heard(1, "a", 6, false), heard(2, "b", 6, false)]);
    let new = confirmed(&object, &names(&["a", "b"])).unwrap();
    assert_eq!(states(&new), [(CopyState::Active, 0, false), (CopyState::Active, 0, false)]);
    assert_eq!(new.owner.as_deref(), Some("a"));
}

#[test]
fn what_was_being_brought_into_sync_is_out_of_sync_as_of_what_the_backup_says() {
    let copies = vec![copy(1, "a", CopyState::Active, 0), copy(2, "b", CopyState::Absent, 2)];
    let object = restored(copies, &["a", "b"], vec![heard(1, "a", 6, false), heard(2, "b", 6, true)]);
    let new = confirmed(&object, &names(&["a", "b"])).unwrap();
    assert_eq!(states(&new), [(CopyState::Active, 0, false), (CopyState::Absent, 2, false)]);
}

#[test]
fn an_object_waits_for_what_is_not_known() {
    let waits = |object: &ObjectRecord, to_hear: &[&str]| confirmed(object, &names(to_hear)).unwrap_err();
    let one = restored(two(), &["a"], vec![heard(1, "a", 6, false)]);
    assert_eq!(waits(&one, &["a", "b"]), Waits::Nodes(names(&["b"])));
    assert_eq!(waits(&one, &["a"]), Waits::Nodes(names(&["b"])), "its group is not in the records, and its copy is");
    // A third node may have a copy that was added after the backup.
    let both = restored(two(), &["a", "b"], vec![heard(1, "a", 6, false), heard(2, "b", 6, false)]);
    assert_eq!(waits(&both, &["a", "b", "c"]), Waits::Nodes(names(&["c"])));
    let with = |epoch| {
        let said = vec![heard(1, "a", 6, false), heard(2, "b", 6, false), heard(3, "c", epoch, false)];
        restored(two(), &["a", "b", "c"], said)
    };
    assert_eq!(waits(&with(7), &["a", "b", "c"]), Waits::Unknown(heard(3, "c", 7, false)));
    assert!(confirmed(&with(6), &names(&["a", "b", "c"])).is_ok(), "it is no newer");
    // The only ones with the last changes were being brought into sync, or are gone.
    let behind = restored(two(), &["a", "b"], vec![heard(1, "a", 5, false), heard(2, "b", 6, true)]);
    assert_eq!(waits(&behind, &["a", "b"]), Waits::NoneInSync(0));
    let gone = restored(two(), &["a", "b"], vec![]);
    assert_eq!(waits(&gone, &["a", "b"]), Waits::NoneInSync(0));
}

/// What is not there any more, and what was not made yet when the backup was taken, is given up.
#[test]
fn copies_that_are_gone_are_given_up() {
    let unmade = ComponentRecord { no: None, ..copy(3, "c", CopyState::Absent, 0) };
    let copies = [two(), vec![unmade]].concat();
    let object = restored(copies, &["a", "b", "c"], vec![heard(1, "a", 6, false)]);
    let new = confirmed(&object, &names(&["a", "b", "c"])).unwrap();
    assert_eq!(states(&new), [(CopyState::Active, 0, false), (CopyState::Absent, 0, true), (CopyState::Absent, 0, true)]);
}

#[test]
fn a_volume_that_always_had_one_copy_is_as_it_was() {
    let mut object = restored(vec![copy(1, "a", CopyState::Active, 0)], &["a", "b"], vec![heard(1, "a", 0, false)]);
    object.owner = None;
    let new = confirmed(&object, &names(&["a", "b"])).unwrap();
    assert_eq!((states(&new), new.owner), (vec![(CopyState::Active, 0, false)], None));
}

#[test]
fn changes_of_a_volume_go_on_above_the_epoch_that_its_only_copy_has_taken() {
    // The same backup for the second time: since the first its node was started twice.
    let alone = |n: u8, taken: u32| HeardCopy { taken: Epoch(taken), ..heard(n, "a", 0, false) };
    let taken = 4 + EPOCHS_BETWEEN + 2;
    let mut object = restored(vec![copy(1, "a", CopyState::Active, 0)], &["a"], vec![alone(1, taken)]);
    object.owner = None;
    let new = confirmed(&object, &names(&["a"])).unwrap();
    assert_eq!((states(&new), new.ownership.epoch), (vec![(CopyState::Active, 0, false)], Epoch(taken + 1)));
    // That says nothing of which copies are right: another one of its place, that was being filled, has changes as new.
    object.heard.copies = vec![alone(1, 3), alone(7, taken)];
    assert_eq!(confirmed(&object, &names(&["a"])).map(|new| (states(&new), new.ownership.epoch)), Ok((states(&new), Epoch(taken + 1))));
}

#[test]
fn each_mirror_is_judged_by_itself() {
    let mut object = restored(two(), &["a", "b", "c"], vec![heard(1, "a", 6, false), heard(2, "b", 5, false)]);
    object.mirrors.push(vec![copy(4, "b", CopyState::Active, 0), copy(5, "c", CopyState::Active, 0)]);
    object.heard.copies.extend([heard(4, "b", 5, false), heard(5, "c", 5, false)]);
    let new = confirmed(&object, &names(&["a", "b", "c"])).unwrap();
    let active: Vec<bool> = new.components().map(|c| c.state == CopyState::Active).collect();
    assert_eq!(active, [true, false, true, true]);
}

#[test]
fn who_goes_on_without_a_node_gives_up_what_that_has() {
    let object = restored(two(), &["b"], vec![heard(2, "b", 5, false)]);
    let gone = gone_on(&object, |c| c.node == "b", None).unwrap();
    assert_eq!(gone.fates, BTreeMap::from([(component(1), Fate::GivenUp), (component(2), Fate::Kept(Epoch(5)))]));
    assert_eq!(states(&gone.object), [(CopyState::Absent, 0, true), (CopyState::Active, 0, false)]);
    assert_eq!((gone.object.owner.as_deref(), gone.mixed.is_empty()), (Some("b"), true));
    assert_eq!(gone_on(&object, |c| c.node == "b", Some("a")).unwrap_err(), CannotGoOn::NoCopy(0));
    // Of those that are there the newest whole one; an older one follows, a newer half goes.
    let three = [two(), vec![copy(3, "c", CopyState::Active, 0)]].concat();
    let said = vec![heard(1, "a", 4, false), heard(2, "b", 5, false), heard(3, "c", 6, true)];
    let object = restored(three, &["a", "b", "c"], said);
    let gone = gone_on(&object, |_| true, None).unwrap();
    assert_eq!(states(&gone.object), [(CopyState::Absent, 4, false), (CopyState::Active, 0, false), (CopyState::Absent, 0, true)]);
    // Or the half one, if that is wanted: nothing else can follow it.
    let gone = gone_on(&object, |_| true, Some("c")).unwrap();
    assert_eq!(gone.mixed, BTreeSet::from([0]));
    assert_eq!(states(&gone.object), [(CopyState::Absent, 0, true), (CopyState::Absent, 0, true), (CopyState::Active, 0, false)]);
}

#[test]
fn who_goes_on_from_a_copy_out_of_sync_gives_up_all_others() {
    let plain = |copies| {
        let mut object = restored(copies, &[], vec![]);
        object.change.restored = false;
        object
    };
    let copies = || vec![copy(1, "a", CopyState::Active, 0), copy(2, "b", CopyState::Absent, 3), copy(3, "c", CopyState::Absent, 2)];
    let object = plain(copies());
    assert_eq!(gone_on(&object, |_| true, None).unwrap_err(), CannotGoOn::NotNeeded);
    assert_eq!(gone_on(&object, |c| c.node == "a", None).unwrap_err(), CannotGoOn::NotNeeded, "that is the one in sync");
    let gone = gone_on(&object, |c| c.node != "a", None).unwrap();
    assert_eq!(states(&gone.object), [(CopyState::Absent, 0, true), (CopyState::Active, 3, false), (CopyState::Absent, 0, true)]);
    assert_eq!(gone.fates[&component(2)], Fate::Kept(Epoch(3)));
    assert!(gone.object.ownership.epoch > object.ownership.epoch, "an owner that is cut off is outranked");
    assert_eq!(gone_on(&object, |_| false, None).unwrap_err(), CannotGoOn::NoCopy(0));
}

#[test]
fn a_node_says_what_it_has_once_all_its_groups_are_open() {
    let node = |name: &str| NodeRecord::new(name.into(), name.into(), 0);
    let mut records = Records { nodes: vec![node("a"), node("b")], ..Records::default() };
    let device = || DeviceRecord::File { path: "/d".into(), bytes: 1 << 30 };
    let of = |name: &str, n: u8| GroupRecord {
        id: GroupId::from_bytes([n; 16]),
        name: format!("g{n}"),
        node: name.into(),
        stage: Stage::Ready,
        cache: device(),
        capacity: vec![device()],
        changes: Default::default(),
        shards: 1,
        created_unix_s: 0,
    };
    records.groups = vec![of("a", 1), of("a", 2)];
    let object = restored(two(), &[], vec![]);
    let seen = |component: ComponentId, object: ObjectId| crate::CopySeen {
        component,
        object,
        epoch: Epoch(6),
        taken: Epoch(6),
        resyncing: false,
    };
    let mut observed = Observed { node: "a".into(), ..Observed::default() };
    observed.groups.insert(GroupId::from_bytes([1; 16]), GroupSeen::Open(BTreeMap::new()));
    observed
        .copies
        .insert(GroupId::from_bytes([1; 16]), vec![seen(component(1), object.id), seen(component(9), ObjectId::from_bytes([2; 16]))]);
    assert_eq!(says(&object, &records, &observed), None, "one is not open");
    observed.groups.insert(GroupId::from_bytes([2; 16]), GroupSeen::Open(BTreeMap::new()));
    assert_eq!(says(&object, &records, &observed), None, "it was not looked at");
    observed.copies.insert(GroupId::from_bytes([2; 16]), vec![seen(component(7), object.id)]);
    let said = says(&object, &records, &observed).unwrap();
    assert_eq!(said, [heard(1, "a", 6, false), heard(7, "a", 6, false)], "also what the record does not name");
    let again = ObjectRecord { heard: Heard { nodes: names(&["a"]), copies: said }, ..object };
    assert_eq!(says(&again, &records, &observed), None);
    assert_eq!(nodes_to_hear(&records), names(&["a"]), "b has no disk group");
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_of_restores_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::OrphansIgnored, an_object_waits_for_what_is_not_known);
    notices(SeededFault::HalfTakenForWhole, what_was_being_brought_into_sync_is_out_of_sync_as_of_what_the_backup_says);
    notices(SeededFault::UnheardKept, who_goes_on_without_a_node_gives_up_what_that_has);
}
