//! When a volume is laid out anew, where it lies then, and when it goes by that.

use super::*;
use crate::inventory::{DeviceInventory, GroupInventory, NodeInventory};
use base::{ComponentId, GroupId, ObjectId, VolumeId};

const GIB: u64 = 1 << 30;

/// Nodes with so many devices of 10 GiB each, each node a fault domain.
fn inventory(nodes: &[(&str, u8)]) -> Inventory {
    let device = |index| DeviceInventory { index, bytes: 10 * GIB, free_bytes: 10 * GIB, promised_bytes: 0 };
    let node = |(n, (name, devices)): (usize, &(&str, u8))| NodeInventory {
        name: (*name).into(),
        fault_domain: (*name).into(),
        groups: vec![GroupInventory {
            id: GroupId::from_bytes([n as u8; 16]),
            read_cache: false,
            devices: (0..*devices).map(device).collect(),
        }],
    };
    Inventory { nodes: nodes.iter().enumerate().map(node).collect(), ..Inventory::default() }
}
fn policy(stripe_width: u8, failures_to_tolerate: u8) -> Policy {
    Policy { stripe_width, failures_to_tolerate, ..Policy::default() }
}
/// A volume that was made with a policy.
fn made(no: u8, inventory: &Inventory, policy: &Policy) -> (VolumeRecord, ObjectRecord) {
    let (id, object) = (VolumeId::from_bytes([no; 16]), ObjectId::from_bytes([no; 16]));
    let planned = VolumeRecord::planned(id, "v".into(), 8 << 20, "p".into(), object, 1);
    let volume = VolumeRecord { stage: Stage::Ready, stripe_width: Some(policy.stripe_width), ..planned };
    let layout = place(inventory, policy, volume.bytes, volume.bytes).unwrap().layout;
    let mut object = ObjectRecord::planned(object, id, &layout, |m, c| ComponentId::from_bytes([no * 64 + (m * 8 + c) as u8; 16]));
    object.components_mut().for_each(|c| c.no = Some(1));
    (volume, object)
}
fn nodes(layout: &Layout) -> Vec<&str> {
    let mut nodes: Vec<&str> = layout.mirrors.iter().flat_map(|m| &m.copies).map(|slot| slot.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

#[test]
fn a_volume_gets_the_stripes_of_its_policy_where_it_has_copies() {
    let all = inventory(&[("a", 4), ("b", 4), ("c", 4)]);
    for failures in [0, 1] {
        let (volume, object) = made(1, &inventory(&[("b", 1), ("c", 1)]), &policy(1, failures));
        let wider = |width| new_layout(&all, &policy(width, failures), &volume, &object, volume.bytes);
        assert_eq!(wider(1), Ok(None), "it lies so");
        for width in 2..=4 {
            let layout = wider(width).unwrap().expect("there are devices");
            assert_eq!(layout.mirrors.len(), usize::from(width));
            assert!(nodes(&layout).iter().all(|node| object.components().any(|c| c.node == *node)), "{layout:?}");
        }
        assert!(matches!(wider(5), Err(PlaceError::Shortfalls(_))), "no node has so many devices");
        let force = Policy { force_provisioning: true, ..policy(5, failures) };
        assert_eq!(new_layout(&all, &force, &volume, &object, volume.bytes), Ok(None), "not now");
    }
}

#[test]
fn a_volume_leaves_a_device_that_is_to_leave_and_nothing_is_placed_there() {
    let mut all = inventory(&[("a", 2), ("b", 2)]);
    for failures in [0, 1] {
        let policy = policy(1, failures);
        all.leaving.clear();
        let (volume, object) = made(1, &all, &policy);
        let lies = |layout: &Layout| layout.mirrors[0].copies.iter().map(|slot| (slot.group, slot.capacity_index)).collect::<Vec<_>>();
        let now = lies(&object.layout());
        assert_eq!(new_layout(&all, &policy, &volume, &object, volume.bytes), Ok(None));
        all.leaving.insert(now[0]);
        assert!(has_other_layout(&all, &policy, &volume, &object));
        let then = lies(&new_layout(&all, &policy, &volume, &object, volume.bytes).unwrap().expect("there are devices"));
        assert!(then.len() == failures as usize + 1 && !then.contains(&now[0]) && then.iter().any(|slot| slot.0 == now[0].0), "{then:?}");
        // The other one of its node, too: its copy has nowhere to go.
        all.leaving.insert((now[0].0, 1 - now[0].1));
        assert!(new_layout(&all, &policy, &volume, &object, volume.bytes).is_err());
    }
    // By force it goes where its stripes share a device.
    let mut one = inventory(&[("a", 2)]);
    let forced = Policy { force_provisioning: true, ..policy(4, 0) };
    let (volume, object) = made(1, &one, &forced);
    one.leaving.insert((GroupId::from_bytes([0; 16]), 0));
    let then = new_layout(&one, &forced, &volume, &object, volume.bytes).unwrap().expect("it has to go");
    assert!(then.mirrors.iter().flat_map(|m| &m.copies).all(|slot| slot.capacity_index == 1), "{then:?}");
}

/// Under force provisioning components may share a device where others are too full: such a layout is no other one, else the volume would move for ever.
#[test]
fn a_layout_that_lacks_stripes_as_well_is_not_gone_to() {
    let mut full = inventory(&[("a", 2)]);
    full.nodes[0].groups[0].devices[1].free_bytes = 0;
    let thick = |width| Policy { space_reservation_percent: 100, force_provisioning: true, ..policy(width, 0) };
    let (volume, object) = made(1, &full, &thick(1));
    // One copy where there are to be two, so that force is at work before devices are looked at.
    for failures_to_tolerate in [0, 1] {
        let policy = Policy { failures_to_tolerate, ..thick(2) };
        let placed = place(&full, &policy, volume.bytes, volume.bytes).unwrap();
        assert!(lacks_stripes(&full, &policy, &placed.layout), "{placed:?}");
        assert_eq!(new_layout(&full, &policy, &volume, &object, volume.bytes), Ok(None));
    }
}

#[test]
fn a_volume_loses_stripes_that_it_was_made_for_and_no_others() {
    let all = inventory(&[("a", 4)]);
    let (volume, object) = made(1, &all, &policy(4, 0));
    let narrower = |volume: &VolumeRecord, width| new_layout(&all, &policy(width, 0), volume, &object, volume.bytes).unwrap();
    assert_eq!(narrower(&volume, 2).map(|layout| layout.mirrors.len()), Some(2));
    // It has four to be able to grow, or nobody knows why.
    for stripe_width in [Some(2), Some(1), None] {
        assert_eq!(narrower(&VolumeRecord { stripe_width, ..volume.clone() }, 2), None, "{stripe_width:?}");
    }
}

#[test]
fn the_new_layout_has_a_copy_where_the_owner_is() {
    // The owner has one device only: it cannot have two stripes, whatever others can.
    let (volume, object) = made(1, &inventory(&[("a", 1)]), &policy(1, 0));
    let all = inventory(&[("a", 1), ("b", 4)]);
    assert!(matches!(new_layout(&all, &policy(2, 0), &volume, &object, volume.bytes), Err(PlaceError::Shortfalls(_))));
    // More copies than it has: the others are elsewhere.
    let all = inventory(&[("a", 2), ("b", 4), ("c", 4)]);
    let layout = new_layout(&all, &policy(2, 2), &volume, &object, volume.bytes).unwrap().unwrap();
    assert_eq!(nodes(&layout), ["a", "b", "c"]);
}

#[test]
fn a_volume_goes_to_the_disk_groups_that_it_is_to_lie_on_if_its_owner_has_one() {
    let mut all = inventory(&[("a", 2), ("b", 2)]);
    let other = |n: u8, of: &NodeInventory| GroupInventory { id: GroupId::from_bytes([n; 16]), ..of.groups[0].clone() };
    let (second, third) = (other(10, &all.nodes[0]), other(11, &all.nodes[1]));
    all.nodes[0].groups.push(second);
    all.nodes[1].groups.push(third);
    let on = |groups: &[u8]| groups.iter().map(|n| GroupId::from_bytes([*n; 16])).collect::<std::collections::BTreeSet<_>>();
    let used =
        |layout: &Layout| layout.mirrors.iter().flat_map(|m| &m.copies).map(|slot| slot.group).collect::<std::collections::BTreeSet<_>>();
    for failures in [0, 1] {
        let (volume, object) = made(1, &all.clone().on(&on(&[0, 1])), &policy(1, failures));
        let lies = |groups: &[u8]| {
            let volume = VolumeRecord { groups: on(groups), ..volume.clone() };
            new_layout(&all, &policy(1, failures), &volume, &object, volume.bytes)
        };
        assert_eq!(lies(&[]), Ok(None), "anywhere");
        assert_eq!(lies(&[0, 1]), Ok(None), "where it is");
        let there = lies(&[10, 11]).unwrap().expect("there is room");
        let wanted = if failures == 1 { on(&[10, 11]) } else { on(&[10]) };
        assert_eq!(used(&there), wanted, "its owner is a");
        match failures {
            0 => assert_eq!(lies(&[11]), Err(PlaceError::NotAtOwner { owner: "a".into() })),
            _ => assert!(matches!(lies(&[11]), Err(PlaceError::Shortfalls(_))), "two copies need two nodes"),
        }
    }
}

fn only_what_is_in_sync_is_swapped() {
    let all = inventory(&[("a", 4), ("b", 4)]);
    let (mut volume, object) = made(1, &all, &policy(1, 1));
    let (mut other, place) = made(2, &all, &policy(2, 1));
    (volume.moves_to, other.place_of) = (Some(other.id), Some(volume.id));
    let due = |v: &VolumeRecord, o: &VolumeRecord, p: &ObjectRecord| Move::due(v, &object, Some((o, p)), true);
    assert_eq!(due(&volume, &other, &place), Move::Fill);
    let (v, new, o, old) = swapped(&volume, &object, &other, &place).expect("both are ready");
    assert_eq!((v.object, v.moves_to, v.stripe_width, v.stage), (place.id, None, Some(2), Stage::Ready));
    assert_eq!((new.id, new.volume, new.mirrors.clone()), (place.id, volume.id, place.mirrors.clone()));
    assert_eq!((o.object, o.stage, old.id, old.volume), (object.id, Stage::Deleting, object.id, other.id));

    let elsewhere = ObjectRecord { owner: Some("b".into()), ..place.clone() };
    assert_eq!(due(&volume, &other, &elsewhere), Move::Follow);
    let mut out = place.clone();
    out.mirrors[1][0].state = CopyState::Stale;
    assert_eq!(due(&volume, &other, &out), Move::Fill, "it is filled all the same");
    let busy = VolumeRecord { resize_to: Some(1), ..volume.clone() };
    assert_eq!(due(&busy, &other, &place), Move::Wait);
    let resized = VolumeRecord { bytes: 16 << 20, ..volume.clone() };
    assert_eq!(due(&resized, &other, &place), Move::GiveUp);
    assert_eq!(due(&VolumeRecord { lba_bytes: 512, ..volume.clone() }, &other, &place), Move::GiveUp, "formatted");
    let gone = VolumeRecord { stage: Stage::Deleting, ..other.clone() };
    assert_eq!(due(&volume, &gone, &place), Move::GiveUp);
    assert_eq!(Move::due(&volume, &object, None, true), Move::GiveUp);
    assert_eq!(Move::due(&volume, &object, Some((&other, &place)), false), Move::GiveUp);
    for (volume, other, place) in
        [(&volume, &other, &elsewhere), (&volume, &other, &out), (&busy, &other, &place), (&volume, &gone, &place)]
    {
        assert_eq!(swapped(volume, &object, other, place), None);
    }
    let given_up = VolumeRecord { moves_to: None, ..volume.clone() };
    assert_eq!(swapped(&given_up, &object, &other, &place), None);
}

#[test]
fn objects_are_swapped_when_one_node_owns_both_and_all_is_in_sync() {
    only_what_is_in_sync_is_swapped();
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    hooks::notices(SeededFault::SwapOutOfSync, only_what_is_in_sync_is_swapped);
}
