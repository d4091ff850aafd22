//! What is added and removed of a layout, for every number of copies that a policy can ask for.

use super::*;
use crate::inventory::{DeviceInventory, GroupInventory, NodeInventory};
use crate::place::{component_bytes, place};
use base::{GroupId, ObjectId, VolumeId};

const GIB: u64 = 1 << 30;

/// Nodes with two devices of 10 GiB each, each node a fault domain unless `domain` says otherwise.
fn inventory(nodes: &[(&str, &str)]) -> Inventory {
    let device = |index| DeviceInventory { index, bytes: 10 * GIB, free_bytes: 10 * GIB, promised_bytes: 0 };
    let node = |(n, (name, domain)): (usize, &(&str, &str))| NodeInventory {
        name: (*name).into(),
        fault_domain: (*domain).into(),
        groups: vec![GroupInventory { id: GroupId::from_bytes([n as u8; 16]), read_cache: false, devices: vec![device(0), device(1)] }],
    };
    Inventory { nodes: nodes.iter().enumerate().map(node).collect(), ..Inventory::default() }
}
fn plain(names: &[&'static str]) -> Inventory {
    inventory(&names.iter().map(|name| (*name, *name)).collect::<Vec<_>>())
}
fn policy(failures_to_tolerate: u8) -> Policy {
    Policy { failures_to_tolerate, ..Policy::default() }
}
fn none() -> BTreeSet<ComponentId> {
    BTreeSet::new()
}
fn ids() -> impl FnMut() -> ComponentId {
    let mut next = 100u8;
    move || {
        next += 1;
        ComponentId::from_bytes([next; 16])
    }
}

/// An object of two mirrors, made, as it is placed on these nodes.
fn object(nodes: &[&'static str], failures: u8) -> ObjectRecord {
    let placed = place(&plain(nodes), &Policy { stripe_width: 2, ..policy(failures) }, 8 << 20, 8 << 20).unwrap();
    let id = |m, c| ComponentId::from_bytes([(m * 16 + c) as u8; 16]);
    let mut object = ObjectRecord::planned(ObjectId::from_bytes([1; 16]), VolumeId::from_bytes([1; 16]), &placed.layout, id);
    object.components_mut().for_each(|c| c.no = Some(1));
    object
}
fn nodes_of(object: &ObjectRecord) -> BTreeSet<&str> {
    object.components().filter(|c| !c.leaving).map(|c| c.node.as_str()).collect()
}

#[test]
fn copies_are_added_in_fault_domains_of_their_own() {
    let all = plain(&["a", "b", "c", "d"]);
    for wanted in 1..=3 {
        let mut object = object(&["a"], 0);
        let before = object.clone();
        let change = copies_change(&all, &policy(wanted), &object, &none()).unwrap().expect("there is room");
        change.apply(&mut object, ids());
        assert!(object.mirrors.iter().all(|copies| copies.len() == usize::from(wanted) + 1));
        assert_eq!(nodes_of(&object).len(), usize::from(wanted) + 1);
        let bytes = component_bytes(8 << 20, 2);
        assert!(object.components().skip(1).all(|c| c.bytes == bytes));
        assert!(object.used().eq(before.components()), "what is not made does not count");
        assert_eq!(copies_change(&all, &policy(wanted), &object, &none()), Ok(None), "it is under way");
        object.components_mut().for_each(|c| c.no = Some(1));
        assert_eq!(object.used().count(), object.components().count());
        assert!(object.used().filter(|c| c.state == CopyState::Absent).all(|c| c.synced_to == Epoch(0)));
        assert_eq!(copies_change(&all, &policy(wanted), &object, &none()), Ok(None), "it has them");
    }
}

#[test]
fn there_have_to_be_fault_domains_enough_or_force() {
    let two_racks = inventory(&[("a", "one"), ("b", "one"), ("c", "two")]);
    let object = object(&["a"], 0);
    let change = copies_change(&two_racks, &policy(1), &object, &none()).unwrap().unwrap();
    assert!(matches!(&change, CopiesChange::Add(copies) if copies.iter().flatten().all(|slot| slot.node == "c")), "{change:?}");
    let why = copies_change(&two_racks, &policy(2), &object, &none()).unwrap_err();
    assert!(matches!(&why, PlaceError::Shortfalls(s) if s == &[Shortfall::FaultDomains { failures: 2, needed: 3, have: 2 }]));
    let force = |failures| Policy { force_provisioning: true, ..policy(failures) };
    let some = copies_change(&two_racks, &force(2), &object, &none()).unwrap().unwrap();
    assert!(matches!(some, CopiesChange::Add(copies) if copies.len() == 1), "as many as there can be");
    assert_eq!(copies_change(&plain(&["a"]), &force(1), &object, &none()), Ok(None));
    let thick = Policy { space_reservation_percent: 100, ..policy(1) };
    let mut full = plain(&["a", "b"]);
    full.nodes[1].groups[0].devices.iter_mut().for_each(|d| d.free_bytes = 0);
    assert!(matches!(copies_change(&full, &thick, &object, &none()), Err(PlaceError::NoSpace { .. })));
}

#[test]
fn a_copy_in_sync_and_the_owners_stay() {
    let all = plain(&["a", "b", "c"]);
    let three = object(&["a", "b", "c"], 2);
    let owner = owner_of(&three).unwrap().to_owned();
    for states in 0..8u8 {
        let mut object = three.clone();
        let out = |n: usize| states >> n & 1 == 1;
        for copies in &mut object.mirrors {
            (0..3).filter(|n| out(*n)).for_each(|n| copies[n].state = CopyState::Resyncing);
        }
        for (failures, kept) in [(0, 1), (1, 2)] {
            let change = copies_change(&all, &policy(failures), &object, &none()).unwrap();
            let Some(change) = change else {
                assert!((0..3).filter(|n| !out(*n)).count() < kept, "those that are to stay are not in sync: {states:b}");
                continue;
            };
            let mut less = object.clone();
            change.apply(&mut less, ids());
            assert_eq!(nodes_of(&less).len(), kept);
            assert!(less.mirrors.iter().all(|copies| copies.iter().any(|c| c.is_used() && c.state == CopyState::Active)));
            let in_sync = (0..3).filter(|n| !out(*n)).count();
            let stay = less.mirrors[0].iter().filter(|c| !c.leaving && c.state == CopyState::Active).count();
            assert_eq!((stay, in_sync >= kept), (kept, true), "who is in sync stays");
            let owners = object.mirrors[0].iter().position(|c| c.node == owner).unwrap();
            assert!(out(owners) || nodes_of(&less).contains(owner.as_str()));
            assert_eq!(copies_change(&all, &policy(failures), &less, &none()), Ok(None), "it is under way");
        }
    }
}

/// A copy on a node that does not come back gets another one in its place, and goes once that is in sync; whichever comes first, the object ends with
/// as many copies in sync as it is to have.
#[test]
fn what_is_lost_is_made_anew_elsewhere_and_goes_when_that_is_in_sync() {
    let all = plain(&["a", "b", "c", "d"]);
    for failures in [1, 2] {
        let copies = usize::from(failures) + 1;
        for (came_back, which) in (0..copies).flat_map(|n| [(false, n), (true, n)]) {
            let mut object = object(&["a", "b", "c"][..copies], failures);
            let gone = object.mirrors[0][which].node.clone();
            let lost: BTreeSet<ComponentId> = object.components().filter(|c| c.node == gone).map(|c| c.id).collect();
            let state_of = |object: &mut ObjectRecord, node: &str, state| {
                object.components_mut().filter(|c| c.node == node).for_each(|c| (c.no, c.state) = (Some(1), state));
            };
            state_of(&mut object, &gone, CopyState::Absent);
            assert_eq!(copies_change(&all, &policy(failures), &object, &none()), Ok(None), "it is waited for");
            let change = copies_change(&all, &policy(failures), &object, &lost).unwrap().expect("there is another node");
            change.apply(&mut object, ids());
            let new = object.mirrors[0].last().unwrap().node.clone();
            assert!(object.mirrors.iter().all(|m| m.len() == copies + 1 && m.last().unwrap().node == new) && new != gone);
            assert_eq!(copies_change(&all, &policy(failures), &object, &lost), Ok(None), "it is being made");
            state_of(&mut object, &new, CopyState::Resyncing);
            for lost in [&lost, &none()] {
                assert_eq!(copies_change(&all, &policy(failures), &object, lost), Ok(None), "it is not in sync yet, whoever leads");
            }
            let (last, goes) = if came_back { (&gone, &new) } else { (&new, &gone) };
            state_of(&mut object, last, CopyState::Active);
            let change = copies_change(&all, &policy(failures), &object, &none()).unwrap().expect("one too many");
            change.apply(&mut object, ids());
            assert!(object.components().all(|c| c.leaving == (c.node == *goes)));
            assert_eq!(copies_change(&all, &policy(failures), &object, &none()), Ok(None));
            // Its node is still down, so it is still there when the next one fails.
            let next = object.mirrors[0].iter().find(|c| !c.leaving).unwrap().node.clone();
            state_of(&mut object, &next, CopyState::Absent);
            let lost = object.components().filter(|c| c.node == next).map(|c| c.id).collect();
            let has = object.components().map(|c| c.node.clone()).collect::<BTreeSet<_>>();
            let change = copies_change(&all, &policy(failures), &object, &lost);
            match all.nodes.iter().find(|n| !has.contains(&n.name)) {
                Some(free) => {
                    let Ok(Some(CopiesChange::Add(slots))) = change else { panic!("{change:?}") };
                    assert!(slots.iter().flatten().all(|slot| slot.node == free.name));
                }
                None => assert!(matches!(change, Err(PlaceError::Shortfalls(_))), "{change:?}"),
            }
        }
    }
}

#[test]
fn nothing_is_made_of_copies_of_which_none_is_in_sync_and_what_was_never_made_goes_first() {
    let all = plain(&["a", "b", "c"]);
    let mut object = object(&["a", "b"], 1);
    object.components_mut().for_each(|c| c.state = CopyState::Absent);
    let lost = object.mirrors[0][..1].iter().map(|c| c.id).collect();
    assert_eq!(copies_change(&all, &policy(1), &object, &lost), Ok(None));
    // A copy that was to be made by a node that went down before.
    object.components_mut().for_each(|c| c.state = CopyState::Active);
    let second = object.mirrors[0][1].node.clone();
    object.components_mut().filter(|c| c.node == second).for_each(|c| (c.no, c.state) = (None, CopyState::Absent));
    let lost: BTreeSet<ComponentId> = object.components().filter(|c| c.node == second).map(|c| c.id).collect();
    let change = copies_change(&all, &policy(1), &object, &lost).unwrap().expect("it goes");
    change.apply(&mut object, ids());
    assert!(object.components().all(|c| c.leaving == (c.node == second)));
    let change = copies_change(&all, &policy(1), &object, &lost).unwrap().expect("another one comes");
    assert!(matches!(change, CopiesChange::Add(copies) if copies.iter().flatten().all(|slot| slot.node == "c")));
}

#[test]
fn an_object_outlives_a_node_that_goes_where_others_have_it() {
    let mut three = object(&["a", "b", "c"], 2);
    let owner = owner_of(&three).unwrap().to_owned();
    let other = nodes_of(&three).into_iter().find(|node| *node != owner).unwrap().to_owned();
    let Without::Kept(two) = without(&three, |c| c.node == other) else { panic!("two others have it") };
    assert!(two.mirrors.iter().all(|copies| copies.len() == 2 && copies.iter().all(|c| c.node != other && c.is_used())));
    let Without::Owned { owner: is, kept } = without(&three, |c| c.node == owner) else { panic!("its owner goes") };
    assert!(is == owner && kept.used().count() == 4);
    // A disk group goes that has one of the two mirrors: what is left of that copy leaves.
    let Without::Kept(part) = without(&three, |c| c.node == other && c.id == three.mirrors[0].iter().find(|c| c.node == other).unwrap().id)
    else {
        panic!("two others have it")
    };
    assert!(part.mirrors[0].len() == 2 && part.mirrors[1].len() == 3 && part.mirrors[1].iter().any(|c| c.node == other && c.leaving));
    for copies in &mut three.mirrors {
        copies.iter_mut().filter(|c| c.node != other).for_each(|c| c.state = CopyState::Resyncing);
    }
    assert_eq!(without(&three, |c| c.node == other), Without::Lost, "nobody else is in sync");
}
