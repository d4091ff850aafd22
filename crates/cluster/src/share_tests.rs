//! A change of a volume whose components are on several nodes comes to its end, whoever goes first.

use super::*;
use crate::place::{Layout, MirrorSlots, Slot};
use base::{ComponentId, Epoch, GroupId, ObjectId, VolumeId};

const MIB: u64 = 1 << 20;
const NODES: [&str; 3] = ["a", "b", "c"];

/// A volume of 8 MiB over two mirrors, with a copy of each on every one of `nodes`.
fn records(nodes: &[&str]) -> (VolumeRecord, ObjectRecord) {
    let (id, object) = (VolumeId::from_bytes([1; 16]), ObjectId::from_bytes([2; 16]));
    let slot = |node: &&str| Slot {
        node: (*node).to_owned(),
        group: GroupId::from_bytes([3; 16]),
        capacity_index: 0,
        bytes: component_bytes(8 * MIB, 2),
        reserve_chunks: 0,
    };
    let layout = Layout { mirrors: vec![MirrorSlots { copies: nodes.iter().map(slot).collect() }; 2] };
    let of = |mirror, copy| ComponentId::from_bytes([(16 * mirror + copy) as u8; 16]);
    (VolumeRecord::planned(id, "v".into(), 8 * MIB, "default".into(), object, 0), ObjectRecord::planned(object, id, &layout, of))
}

/// What the nodes do, as `control` does it. Whether the change has ended.
fn act(volume: &mut VolumeRecord, object: &mut ObjectRecord, node: &str, what: Finish, freed: &mut bool) -> bool {
    let owner = owner_of(object).is_none_or(|owner| owner == node);
    match what {
        Finish::Create => {
            object.components_mut().filter(|c| c.node == node).for_each(|c| c.no = Some(1));
            if object.components().all(|c| c.no.is_some()) {
                volume.stage = Stage::Ready;
            }
        }
        Finish::Delete => {
            object.mirrors.iter_mut().for_each(|copies| copies.retain(|c| c.node != node));
            return object.components().next().is_none();
        }
        Finish::Resize => {
            *freed |= owner;
            assert!(*freed, "a component is cut before what it holds was freed");
            let bytes = component_bytes(volume.resize_to.unwrap(), object.mirrors.len());
            for c in object.components_mut().filter(|c| c.node == node) {
                (c.bytes, c.reserve_chunks) = (bytes, reserve_chunks(bytes, 50));
            }
            if object.components().all(|c| is_sized(c, volume, object, Some(50))) {
                (volume.bytes, volume.resize_to) = (volume.resize_to.unwrap(), None);
            }
        }
        Finish::Format => {
            assert!(owner);
            volume.format_to = None;
        }
        Finish::Copies => {
            object.components_mut().filter(|c| c.node == node && !c.leaving).for_each(|c| c.no = Some(1));
            object.mirrors.iter_mut().for_each(|copies| copies.retain(|c| !(c.leaving && c.node == node)));
        }
    }
    under_way(volume, Some(object)).is_none()
}

/// Every order in which the nodes may act; how many there are.
fn in_every_order(volume: &VolumeRecord, object: &ObjectRecord, freed: bool) -> usize {
    let shares = NODES.iter().filter_map(|node| share_of(volume, Some(object), Some(50), node).map(|what| (*node, what)));
    let shares: Vec<_> = shares.collect();
    assert!(!shares.is_empty(), "nobody goes on with {volume:?} {object:?}");
    let mut orders = 0;
    for (node, what) in shares {
        let (mut volume, mut object, mut freed) = (volume.clone(), object.clone(), freed);
        let ended = act(&mut volume, &mut object, node, what, &mut freed);
        orders += if ended { 1 } else { in_every_order(&volume, &object, freed) };
    }
    orders
}

fn every_change_ends() {
    let (made, object) = records(&NODES);
    assert_eq!(in_every_order(&made, &object, false), 6, "a creation");
    let mut ready = object.clone();
    ready.components_mut().for_each(|c| c.no = Some(1));
    let volume = VolumeRecord { stage: Stage::Ready, ..made };
    assert_eq!(in_every_order(&VolumeRecord { stage: Stage::Deleting, ..volume.clone() }, &ready, false), 6, "a deletion");
    for to in [8 * MIB, 4 * MIB, 16 * MIB] {
        assert_eq!(in_every_order(&VolumeRecord { resize_to: Some(to), ..volume.clone() }, &ready, false), 2, "{to}: the owner is first");
    }
    let mut changing = ready.clone();
    changing.mirrors.iter_mut().for_each(|copies| {
        (copies[1].no, copies[1].state) = (None, base::CopyState::Absent);
        copies[2].leaving = true;
    });
    assert_eq!(in_every_order(&volume, &changing, false), 2, "one copy comes, one goes");
    ready.owner = Some("c".into());
    assert_eq!(in_every_order(&VolumeRecord { resize_to: Some(MIB), ..volume.clone() }, &ready, false), 2, "whoever that is");
    assert_eq!(in_every_order(&VolumeRecord { format_to: Some(512), ..volume }, &ready, false), 1, "a format");
}

#[test]
fn a_change_of_several_nodes_ends_whoever_goes_first() {
    every_change_ends();
}

#[test]
fn a_node_that_holds_all_of_a_volume_has_the_whole_change() {
    let (volume, object) = records(&["b"]);
    let of = |node| share_of(&volume, Some(&object), Some(0), node);
    assert_eq!(NODES.map(of), [None, Some(Finish::Create), None]);
    let mut made = object.clone();
    made.components_mut().for_each(|c| c.no = Some(1));
    let of = |node| share_of(&volume, Some(&made), Some(0), node);
    assert_eq!(NODES.map(of), [None, Some(Finish::Create), None], "everything is made, and a crash came before that was said");
    assert_eq!(share_of(&volume, None, None, "a"), Some(Finish::Create), "without a layout anybody may say so");
    let sized = VolumeRecord { stage: Stage::Ready, resize_to: Some(volume.bytes), ..volume };
    let of = |node| share_of(&sized, Some(&made), Some(0), node);
    assert_eq!(NODES.map(of), [None, Some(Finish::Resize), None], "all have the size");
    let quiet = VolumeRecord { resize_to: None, ..sized };
    assert_eq!(share_of(&quiet, Some(&made), Some(0), "b"), None);
    assert_eq!(made.ownership.epoch, Epoch(1));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    hooks::notices(SeededFault::SizedBeforeOwner, every_change_ends);
}
