//! Slots, owners and paths: over every set of nodes, objects and links, what one node says goes with what the others say.

use super::*;
use crate::record::ComponentRecord;
use base::{ComponentId, GroupId, NODES_MAX, ObjectId, VolumeId};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn slot(number: u8) -> NodeSlot {
    NodeSlot::new(number).unwrap()
}

fn node(name: &str, number: u8) -> NodeRecord {
    NodeRecord { slot: Some(slot(number)), ..NodeRecord::new(name.into(), name.into(), 0) }
}

fn removed(name: &str, number: u8, unix_s: u64) -> NodeRecord {
    NodeRecord { state: NodeState::Removed { unix_s }, ..node(name, number) }
}

fn component(n: u8, node: &str, state: CopyState) -> ComponentRecord {
    let group = GroupId::from_bytes([n; 16]);
    let id = ComponentId::from_bytes([n; 16]);
    ComponentRecord {
        id,
        node: node.into(),
        group,
        capacity_index: 0,
        no: Some(1),
        bytes: 1 << 20,
        reserve_chunks: 0,
        state,
        synced_to: base::Epoch(0),
        leaving: false,
    }
}

fn object(copies: &[(&str, CopyState)]) -> ObjectRecord {
    let components = copies.iter().enumerate().map(|(n, (node, state))| component(n as u8, node, *state)).collect();
    let (id, volume) = (ObjectId::from_bytes([1; 16]), VolumeId::from_bytes([1; 16]));
    ObjectRecord::new(id, volume, vec![components])
}

fn records(nodes: Vec<NodeRecord>) -> Records {
    Records { nodes, ..Records::default() }
}

/// What a node of this name knows that can forward to these.
fn seen(node: &str, forwards: &[&str]) -> Observed {
    Observed { node: node.into(), forwards: forwards.iter().map(|n| (*n).into()).collect(), ..Observed::default() }
}

#[test]
fn what_was_restored_is_inaccessible_through_all_nodes() {
    let mut object = object(&[("a", CopyState::Active), ("b", CopyState::Active)]);
    object.owner = Some("a".into());
    assert!(crate::mark_restored(&mut object));
    for node in ["a", "b", "c"] {
        assert_eq!(path_of(&object, &Records::default(), &seen(node, &["a", "b"])), Path::AWAY);
    }
}

#[test]
fn the_owner_is_who_the_record_says_else_who_has_it() {
    use CopyState::{Absent, Active};
    assert_eq!(owner_of(&object(&[("b", Active)])), Some("b"));
    assert_eq!(owner_of(&object(&[("b", Absent), ("c", Active)])), Some("c"), "a copy in sync goes before one that is away");
    assert_eq!(owner_of(&object(&[("b", Absent), ("c", Absent)])), Some("b"));
    assert_eq!(owner_of(&object(&[])), None);
    assert_eq!(owner_of(&ObjectRecord { owner: Some("a".into()), ..object(&[("b", Active)]) }), Some("a"));
}

#[test]
fn requests_go_to_the_owner_where_that_is_another_member_that_has_an_identity() {
    let id = NodeId::from_bytes([9; 16]);
    let of_b = object(&[("b", CopyState::Active)]);
    let with = |b: NodeRecord| records(vec![node("a", 0), b]);
    let there = with(NodeRecord { id: Some(id), ..node("b", 5) });
    assert_eq!((owner_elsewhere(&of_b, &there, "a"), owner_elsewhere(&of_b, &there, "b")), (Some(id), None));
    assert_eq!(owner_elsewhere(&of_b, &with(NodeRecord { id: Some(id), ..removed("b", 5, 1) }), "a"), None);
    assert_eq!(owner_elsewhere(&of_b, &with(node("b", 5)), "a"), None, "it has never started");
    assert_eq!(owner_elsewhere(&object(&[]), &there, "a"), None);
}

#[test]
fn the_path_is_as_good_as_the_way_to_the_owner() {
    let r = records(vec![node("a", 0), node("b", 5), removed("c", 7, 1)]);
    let of_b = object(&[("b", CopyState::Active)]);
    let path = |group, state| Path { group, state };
    assert_eq!(path_of(&of_b, &r, &seen("b", &[])), path(6, PathState::Optimized));
    assert_eq!(path_of(&of_b, &r, &seen("a", &["b"])), path(6, PathState::NonOptimized));
    assert_eq!(path_of(&of_b, &r, &seen("a", &["c"])), path(6, PathState::Inaccessible));
    let of_c = object(&[("c", CopyState::Active)]);
    assert_eq!(path_of(&of_c, &r, &seen("a", &["c"])), path(8, PathState::Inaccessible), "a node that was removed serves nothing");
    let of_nobody = object(&[("x", CopyState::Active)]);
    assert_eq!(path_of(&of_nobody, &r, &seen("a", &["x"])), path(2, PathState::Inaccessible), "in a group that no node has");
}

#[test]
fn an_owner_that_does_not_serve_names_no_path_of_its_own() {
    let r = records(vec![node("a", 0), node("b", 5)]);
    let alone = object(&[("a", CopyState::Active)]);
    let mirrored = ObjectRecord { owner: Some("a".into()), ..object(&[("a", CopyState::Active), ("b", CopyState::Active)]) };
    let mut a = seen("a", &["b"]);
    assert_eq!(path_of(&mirrored, &r, &a), Path::AWAY, "it has only just started");
    assert_eq!(path_of(&alone, &r, &a).state, PathState::Optimized, "nobody else has it");
    a.terms.insert(mirrored.id, mirrored.ownership.term);
    assert_eq!(path_of(&mirrored, &r, &a), path_of(&alone, &r, &a));
    a.note_away(mirrored.id, true);
    assert_eq!(path_of(&mirrored, &r, &a), Path::AWAY);
    let of_b = Path { group: 1, state: PathState::NonOptimized };
    assert_eq!(path_of(&mirrored, &r, &seen("b", &["a"])), of_b, "it knows of no other owner");
    a.note_away(mirrored.id, false);
    assert_eq!(path_of(&mirrored, &r, &a).state, PathState::Optimized);
}

#[test]
fn a_node_alone_has_the_best_path_to_everything_also_before_it_has_a_slot() {
    let alone = [records(vec![]), records(vec![NodeRecord::new("a".into(), "a".into(), 0)]), records(vec![node("a", 0)])];
    for r in alone {
        for copies in [&[("a", CopyState::Active)][..], &[("a", CopyState::Stale)], &[]] {
            assert_eq!(path_of(&object(copies), &r, &seen("a", &[])), Path::ALONE);
        }
    }
    assert_eq!(Path::ALONE.group, 1);
}

#[test]
fn a_slot_that_was_never_given_goes_before_one_of_a_node_that_was_removed() {
    let mut nodes = vec![node("a", 0), removed("b", 1, 50), node("c", 3)];
    assert_eq!(free_slot(&nodes).unwrap(), FreeSlot { slot: slot(2), of: None });
    for number in (0..NODES_MAX).filter(|n| ![0, 1, 3, 9].contains(n)) {
        nodes.push(node(&format!("n{number}"), number));
    }
    nodes.push(removed("d", 9, 40));
    let free = free_slot(&nodes).unwrap();
    assert_eq!((free.slot, free.of.map(|n| n.name.as_str())), (slot(9), Some("d")), "the one that was removed longest ago");
    nodes.iter_mut().for_each(|n| n.state = NodeState::Member);
    assert_eq!((nodes.len(), free_slot(&nodes)), (64, None), "as many as there can be");
    assert_eq!(free_slot(&[NodeRecord::new("new".into(), "f".into(), 0)]).unwrap().slot, NodeSlot::FIRST);
}

/// Members of which one is down are heard of, in the order of their slots.
fn hosts_hear_of_the_other_members() {
    let nodes = [node("c", 7), node("a", 0), removed("d", 2, 9), node("b", 3), NodeRecord::new("new".into(), "f".into(), 0)];
    let heard = |here: &str| other_nodes(&nodes, here).iter().map(|n| n.name.clone()).collect::<Vec<_>>();
    assert_eq!((heard("a"), heard("b")), (vec!["b".to_owned(), "c".into()], vec!["a".to_owned(), "c".into()]));
    assert_eq!(other_nodes(&nodes[1..2], "a"), Vec::<&NodeRecord>::new(), "a node alone has no others");
}

#[test]
fn hosts_hear_of_the_other_members_and_of_none_that_was_removed() {
    hosts_hear_of_the_other_members();
}

#[test]
fn hosts_see_the_lowest_release_of_the_members() {
    let of = |releases: &[&str]| {
        let nodes: Vec<_> = releases.iter().map(|r| NodeRecord { release: (*r).into(), ..node(r, 0) }).collect();
        shown_release(&nodes).map(str::to_owned)
    };
    assert_eq!(
        of(&["0.10.0", "0.9.12", ""]).as_deref(),
        Some("0.9.12"),
        "numbers are numbers, and one that does not say counts for nothing"
    );
    assert_eq!(of(&["1.0.0", "1.0.0-rc1", "1.0.1-rc1"]).as_deref(), Some("1.0.0-rc1"));
    assert_eq!((of(&[]), of(&[""])), (None, None));
    let gone = NodeRecord { release: "0.1.0".into(), ..removed("x", 1, 2) };
    assert_eq!(shown_release(&[gone, NodeRecord { release: "0.2.0".into(), ..node("y", 2) }]), Some("0.2.0"));
}

#[test]
fn a_record_of_today_is_understood() {
    let old = r#"{"name":"n1","fault_domain":"rack1","created_unix_s":7}"#;
    let node: NodeRecord = serde_json::from_str(old).unwrap();
    assert_eq!(node, NodeRecord::new("n1".into(), "rack1".into(), 7));
    let new = removed("n2", 3, 99);
    let text = serde_json::to_string(&new).unwrap();
    assert!(text.contains(r#""slot":3"#) && text.contains(r#""state":{"kind":"removed","unix_s":99}"#), "{text}");
    assert_eq!(serde_json::from_str::<NodeRecord>(&text).unwrap(), new);
    assert!(serde_json::from_str::<NodeRecord>(&text.replace(r#""slot":3"#, r#""slot":64"#)).is_err(), "no such slot");
    let object = object(&[("a", CopyState::Active)]);
    let text = serde_json::to_string(&object).unwrap();
    assert!(!text.contains("owner"), "an object without an owner is written as before: {text}");
    assert_eq!(serde_json::from_str::<ObjectRecord>(&text).unwrap(), object);
}

/// Nodes with slots of their own, some removed; objects of theirs; who can forward to whom.
fn clusters() -> impl Strategy<Value = (Records, Vec<ObjectRecord>, BTreeMap<String, BTreeSet<String>>)> {
    let slots = proptest::sample::subsequence((0..NODES_MAX).collect::<Vec<_>>(), 1..9);
    slots.prop_flat_map(|slots| {
        let names: Vec<String> = slots.iter().map(|s| format!("n{s}")).collect();
        let states = proptest::collection::vec(proptest::option::weighted(0.2, 0..9u64), slots.len());
        let copies = proptest::collection::vec(proptest::sample::select(names.clone()), 0..3);
        let owner = proptest::option::of(proptest::sample::select(names.clone()));
        let objects = proptest::collection::vec((copies, owner), 1..9);
        let forwards = proptest::collection::vec(proptest::sample::subsequence(names.clone(), 0..=names.len()), names.len());
        (states, objects, forwards).prop_map(move |(states, objects, forwards)| {
            let nodes = slots.iter().zip(states).map(|(s, state)| match state {
                None => node(&format!("n{s}"), *s),
                Some(unix_s) => removed(&format!("n{s}"), *s, unix_s),
            });
            let object = |(copies, owner): &(Vec<String>, Option<String>)| {
                let copies: Vec<(&str, CopyState)> = copies.iter().map(|n| (n.as_str(), CopyState::Active)).collect();
                ObjectRecord { owner: owner.clone(), ..object(&copies) }
            };
            let forwards = names.iter().cloned().zip(forwards.into_iter().map(|f| f.into_iter().collect())).collect();
            (records(nodes.collect()), objects.iter().map(object).collect(), forwards)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// One group of an object on all nodes; one state of a group on a node; the owner alone has the best path.
    #[test]
    fn all_nodes_agree_on_groups_and_each_group_has_one_state((r, objects, forwards) in clusters()) {
        all_nodes_agree(&r, &objects, &forwards);
    }

    #[test]
    fn a_free_slot_is_no_members((r, _, _) in clusters()) {
        let free = free_slot(&r.nodes).unwrap();
        prop_assert!(r.nodes.iter().filter(|n| n.is_member()).all(|n| n.slot != Some(free.slot)));
        prop_assert!(free.of.is_none() && r.nodes.iter().all(|n| n.slot != Some(free.slot)), "there are free ones");
    }
}

fn all_nodes_agree(r: &Records, objects: &[ObjectRecord], forwards: &BTreeMap<String, BTreeSet<String>>) {
    // Each serves what it owns.
    let terms: BTreeMap<_, _> = objects.iter().map(|o| (o.id, o.ownership.term)).collect();
    let observed = |n: &NodeRecord| Observed {
        node: n.name.clone(),
        forwards: forwards[&n.name].clone(),
        terms: terms.clone(),
        ..Observed::default()
    };
    for object in objects.iter().filter(|o| owner_of(o).is_some()) {
        let paths: Vec<(&NodeRecord, Path)> = r.nodes.iter().map(|n| (n, path_of(object, r, &observed(n)))).collect();
        assert!(paths.windows(2).all(|w| w[0].1.group == w[1].1.group), "{paths:?}");
        let owner = owner_of(object).unwrap();
        for (n, path) in &paths {
            assert_eq!(path.state == PathState::Optimized, n.name == owner);
            let of_owner = r.nodes.iter().find(|n| n.name == owner).unwrap();
            assert_eq!(path.group, u32::from(of_owner.slot.unwrap().number()) + 1);
            assert!(path.state != PathState::NonOptimized || of_owner.is_member() && forwards[&n.name].contains(owner));
        }
    }
    for n in &r.nodes {
        let mut states = BTreeMap::new();
        for path in objects.iter().map(|o| path_of(o, r, &observed(n))) {
            assert_eq!(*states.entry(path.group).or_insert(path.state), path.state, "one state of group {} on {}", path.group, n.name);
        }
    }
}

#[test]
fn two_nodes_agree_on_the_group_of_each_others_volumes() {
    let r = records(vec![node("a", 0), node("b", 1)]);
    let objects = [object(&[("a", CopyState::Active)]), object(&[("b", CopyState::Active)])];
    let forwards = [("a".into(), BTreeSet::from(["b".into()])), ("b".into(), BTreeSet::from(["a".into()]))].into();
    all_nodes_agree(&r, &objects, &forwards);
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::notices;
    notices(SeededFault::PathGroupByNode, two_nodes_agree_on_the_group_of_each_others_volumes);
    notices(SeededFault::RemovedNodeAdvertised, hosts_hear_of_the_other_members);
}

#[test]
fn a_node_is_reached_while_all_lanes_with_it_are_open() {
    let id = NodeId::from_bytes([2; 16]);
    let nodes =
        [node("a", 0), NodeRecord { id: Some(id), ..node("b", 1) }, NodeRecord { id: Some(NodeId::from_bytes([3; 16])), ..node("c", 2) }];
    let mut links = OpenLinks::default();
    let mut note = |lane, lanes, open| {
        links.note(id, lane, lanes, open);
        links.open_to(&nodes).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(note(0, 2, true), [""; 0], "one of two");
    assert_eq!(note(1, 2, true), ["b"]);
    assert_eq!(note(0, 2, false), [""; 0]);
    assert_eq!(note(0, 2, true), ["b"]);
    assert_eq!(note(1, 2, false), [""; 0]);
    assert_eq!(note(0, 1, true), ["b"], "it came again with fewer cores");
}
