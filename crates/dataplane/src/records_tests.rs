//! What is served of records: everything that is ready and has a layout, with what it needs. What is out of reach stays
//! in sight.

use super::*;
use base::{ComponentId, CopyState, GroupId, NodeId, Ownership};
use cluster::record::{DeviceRecord, NodeRecord};
use cluster::{GroupSeen, Layout, MirrorSlots, Slot};

const NODE: &str = "a";

fn group() -> GroupRecord {
    let device = || DeviceRecord::File { path: "/g".into(), bytes: 1 << 30 };
    GroupRecord {
        id: GroupId::from_bytes([1; 16]),
        name: "g".into(),
        node: NODE.into(),
        stage: Stage::Ready,
        cache: device(),
        capacity: vec![device()],
        changes: Default::default(),
        shards: 4,
        created_unix_s: 7,
    }
}

/// A volume of two mirrors that is made.
fn volume(n: u8) -> (VolumeRecord, ObjectRecord) {
    let (id, object) = (VolumeId::from_bytes([n; 16]), ObjectId::from_bytes([n; 16]));
    let slot = Slot { node: NODE.into(), group: group().id, capacity_index: 0, bytes: 1 << 20, reserve_chunks: 16 };
    let layout = Layout { mirrors: vec![MirrorSlots { copies: vec![slot] }; 2] };
    let mut record = VolumeRecord::planned(id, format!("v{n}"), 2 << 20, "fast".into(), object, 9);
    record.stage = Stage::Ready;
    let mut object = ObjectRecord::planned(object, id, &layout, |mirror, _| ComponentId::from_bytes([n * 16 + mirror as u8; 16]));
    object.components_mut().enumerate().for_each(|(at, c)| c.no = Some(at as u32 + 1));
    (record, object)
}

/// Two volumes, and a node that has its group open and their terms begun.
fn facts() -> (Records, Observed) {
    let (volumes, objects): (Vec<_>, Vec<_>) = [volume(1), volume(2)].into_iter().unzip();
    let policy = Policy { iops_limit: Some(500), checksum: false, ..Policy::default() };
    let policies = vec![PolicyRecord::new("Fast".into(), policy, 1)];
    let reservations = vec![ReservationRecord { volume: volumes[1].id, state: Default::default() }];
    let observed = Observed {
        node: NODE.into(),
        restarted: Default::default(),
        terms: objects.iter().map(|o: &ObjectRecord| (o.id, Ownership::FIRST.term)).collect(),
        groups: [(group().id, GroupSeen::Open(BTreeMap::new()))].into(),
        copies: Default::default(),
        forwards: Default::default(),
        away: Default::default(),
    };
    (Records { groups: vec![group()], volumes, objects, reservations, policies, ..Records::default() }, observed)
}

#[test]
fn a_volume_is_served_with_its_layout_its_policy_and_its_reservation() {
    let (records, observed) = facts();
    let served = served(&records, &observed);
    assert_eq!(served.out_of_reach, BTreeMap::new());
    let [first, second] = &served.volumes[..] else { panic!("both: {served:?}") };
    assert_eq!((first.name.as_str(), first.bytes, first.lba_bytes, first.thin), ("v1", 2 << 20, 4096, false));
    assert_eq!((first.limits.iops_max, first.checksum), (Some(500), false), "by the key of its policy, whatever the spelling of its name");
    let here: Vec<_> = first.object.mirrors.iter().flat_map(MirrorDesired::here).map(|c| (c.id, c.group, c.no.0)).collect();
    let made: Vec<_> = records.objects[0].components().map(|c| (c.id, c.group, c.no.unwrap())).collect();
    assert_eq!((here, first.object.ownership), (made, Ownership::FIRST));
    assert_eq!((first.reservation.is_some(), second.reservation.is_some()), (false, true));
}

#[test]
fn what_cannot_be_reached_stays_in_sight_and_what_is_not_ready_or_has_no_layout_does_not() {
    let (mut records, mut observed) = facts();
    observed.terms.remove(&records.objects[0].id);
    records.objects[1].mirrors[1][0].state = CopyState::Stale;
    let (why, found) = (|n: usize, r: &Records| r.volumes[n].id, served(&records, &observed));
    let stale = records.objects[1].mirrors[1][0].id;
    let reasons = [(why(0, &records), NotServed::NotTaken), (why(1, &records), NotServed::Component(stale, group().id))];
    assert_eq!(found.out_of_reach, reasons.into());
    assert!(found.volumes.len() == 2 && found.volumes.iter().all(|v| v.object.mirrors.is_empty()));

    records.objects.remove(0);
    records.volumes[1].stage = Stage::Deleting;
    let found = served(&records, &observed);
    assert_eq!((found.volumes, found.out_of_reach), (vec![], [(records.volumes[0].id, NotServed::NoLayout)].into()));
}

#[test]
fn a_group_and_its_components_are_made_as_their_records_say() {
    let spec = format_spec(ClusterId::from_bytes([3; 16]), &group(), true);
    assert_eq!((spec.group, spec.name.as_str(), spec.shards, spec.created_unix_s, spec.force), (group().id, "g", 4, 7, true));
    let (volume, object) = volume(1);
    let made = component_spec(&volume, &object, 1, 0);
    let c = &object.mirrors[1][0];
    assert_eq!((made.id, made.object, made.bytes, made.reserve_chunks), (c.id, object.id, c.bytes, 16));
    let says = Descriptor::parse(&made.descriptor).unwrap();
    assert_eq!((says.volume, says.name.as_str(), says.stripe, says.stripes, says.copy), (volume.id, "v1", 1, 2, 0));
}

#[test]
fn what_another_node_owns_is_in_sight_with_its_path_and_no_fault_of_this_one() {
    let (mut records, mut observed) = facts();
    records.nodes = [("a", 0), ("b", 1)]
        .map(|(name, slot)| {
            let id = Some(NodeId::from_bytes([slot + 1; 16]));
            NodeRecord { id, slot: base::NodeSlot::new(slot), ..NodeRecord::new(name.into(), name.into(), 0) }
        })
        .into();
    records.note_view(records.volumes[1].id, 7);
    records.note_view(records.volumes[1].id, 5);
    for c in records.objects[1].components_mut() {
        c.node = "b".into();
    }
    let ids = [records.volumes[0].id, records.volumes[1].id];
    let path = |group, state| Path { group, state };
    for (forwards, state) in [(vec![], PathState::Inaccessible), (vec!["b".to_owned()], PathState::NonOptimized)] {
        observed.forwards = forwards.into_iter().collect();
        let found = served(&records, &observed);
        assert_eq!(found.paths, [(ids[0], path(1, PathState::Optimized)), (ids[1], path(2, state))].into());
        assert_eq!(found.out_of_reach, BTreeMap::new(), "its owner says whether it can be served");
        let [here, there] = &found.volumes[..] else { panic!("both: {found:?}") };
        assert_eq!((here.object.mirrors.len(), there.object.mirrors.len()), (2, 0));
        assert_eq!((here.owner, here.revision), (None, 0));
        assert_eq!((there.owner, there.revision), (Some(NodeId::from_bytes([2; 16])), 7), "the higher of both");
        assert_eq!((there.name.as_str(), there.bytes, there.lba_bytes, there.reservation.is_some()), ("v2", 2 << 20, 4096, true));
    }
    // The owner itself sees both as far as it is concerned: the other one's is there, its own it has not taken over yet.
    let of_b = served(&records, &Observed { node: "b".into(), ..Observed::default() });
    assert_eq!(of_b.paths, [(ids[0], path(1, PathState::Inaccessible)), (ids[1], path(2, PathState::Optimized))].into());
    assert_eq!(of_b.out_of_reach, [(ids[1], NotServed::NotTaken)].into());
}

#[test]
fn a_node_alone_serves_as_before_there_were_others() {
    let (records, observed) = facts();
    let found = served(&records, &observed);
    assert!(found.paths.values().all(|p| *p == Path::ALONE) && found.paths.len() == 2);
}

#[test]
fn a_mirror_with_copies_on_several_nodes_is_served_by_its_owner_and_held_by_the_others() {
    let (mut records, mut observed) = facts();
    let id = |n: u8| NodeId::from_bytes([n; 16]);
    records.nodes = [("a", 1), ("b", 2), ("c", 3)]
        .map(|(name, n)| NodeRecord { id: Some(id(n)), ..NodeRecord::new(name.into(), name.into(), 0) })
        .into();
    let object = &mut records.objects[0];
    object.owner = Some("a".into());
    let (mine, there) = (object.mirrors[0][0].clone(), ComponentId::from_bytes([99; 16]));
    let other = ComponentRecord { id: there, node: "b".into(), state: CopyState::Resyncing, ..mine.clone() };
    object.mirrors[0].push(other);
    // What is found there: the one on a, or the one on b.
    let found_there = GroupSeen::Open([(mine.id, 1), (there, 1)].into());
    observed.groups.insert(mine.group, found_there);
    let copies = |found: &Served| found.volumes[0].object.mirrors.first().map(|m| m.copies.clone());
    let on_b = CopyAt { state: CopyState::Resyncing, place: CopyPlace::On { node: id(2), component: there } };
    let here = CopyAt::active_here(ComponentRef { id: mine.id, group: mine.group, no: ComponentNo(1) });
    let found = served(&records, &observed);
    assert_eq!((copies(&found), found.held), (Some(vec![here, on_b]), vec![]));
    // Hosts do not use its path, and it takes the object over again if nobody else does.
    observed.note_away(records.objects[0].id, true);
    let found = served(&records, &observed);
    assert_eq!((copies(&found), found.paths[&records.volumes[0].id]), (Some(vec![here, on_b]), Path::AWAY));
    assert_eq!(found.out_of_reach, [(records.volumes[0].id, NotServed::LetGo)].into());
    observed.note_away(records.objects[0].id, false);

    observed.node = "b".into();
    let found = served(&records, &observed);
    let component = ComponentRef { id: there, ..*here.here().unwrap() };
    assert_eq!((copies(&found), found.held), (None, vec![HeldDesired { component, owner: id(1), epoch: Ownership::FIRST.epoch }]));
    observed.groups.insert(mine.group, GroupSeen::Open([(there, 2)].into()));
    assert_eq!(served(&records, &observed).held, vec![], "another component has its number by now");
    observed.groups.clear();
    assert_eq!(served(&records, &observed).held, vec![], "its group is not open");

    // An owner without a copy.
    records.objects[0].owner = Some("c".into());
    observed.node = "c".into();
    let on_a = CopyAt { state: CopyState::Active, place: CopyPlace::On { node: id(1), component: mine.id } };
    assert_eq!(copies(&served(&records, &observed)), Some(vec![on_a, on_b]));
}
