//! Records of ownership, there and back, and those that were stored before there were any.

use super::*;
use crate::record::ComponentRecord;
use base::{ComponentId, CopyState, Epoch, GroupId, Incarnation, Nonce, ObjectId, Ownership, VolumeId};

fn component(n: u8, node: &str, state: CopyState) -> ComponentRecord {
    let (id, group) = (ComponentId::from_bytes([n; 16]), GroupId::from_bytes([n; 16]));
    let (bytes, reserve_chunks, synced_to) = (1 << 20, 0, Epoch(0));
    ComponentRecord {
        id,
        node: node.into(),
        group,
        capacity_index: 0,
        no: Some(1),
        bytes,
        reserve_chunks,
        state,
        synced_to,
        leaving: false,
    }
}

fn object() -> ObjectRecord {
    let (id, volume) = (ObjectId::from_bytes([1; 16]), VolumeId::from_bytes([1; 16]));
    let mirrors = vec![
        vec![component(1, "a", CopyState::Active), component(2, "b", CopyState::Active)],
        vec![component(3, "b", CopyState::Active), component(4, "c", CopyState::Absent)],
    ];
    ObjectRecord::new(id, volume, mirrors)
}
fn id_of(name: &str) -> Option<NodeId> {
    let n = name.bytes().next()?;
    (name != "z").then(|| NodeId::from_bytes([n; 16]))
}
fn name_of(id: NodeId) -> Option<String> {
    Some((id.as_bytes()[0] as char).to_string()).filter(|name| name != "z")
}

#[test]
fn a_record_that_nobody_has_changed_is_owned_by_the_node_that_holds_it() {
    let ownership = ownership_of(&object(), id_of).unwrap();
    assert_eq!(ownership.owner, OwnerId { node: id_of("a").unwrap(), incarnation: Incarnation(0) });
    assert!(ownership.nonce.is_none() && !ownership.restored);
    let copies: Vec<_> = ownership.copies.iter().map(|c| (c.mirror, name_of(c.node).unwrap(), c.state)).collect();
    assert_eq!(copies[1..], [(0, "b".into(), CopyState::Active), (1, "b".into(), CopyState::Active), (1, "c".into(), CopyState::Absent)]);
}

#[test]
fn there_and_back_changes_the_ownership_alone() {
    let before = object();
    let mut ownership = ownership_of(&before, id_of).unwrap();
    ownership.owner = OwnerId { node: id_of("b").unwrap(), incarnation: Incarnation(7) };
    ownership.ownership = Ownership { epoch: Epoch(9), term: Epoch(8), period_start: Epoch(6) };
    ownership.nonce = Nonce(u128::MAX - 5);
    (ownership.copies[0].state, ownership.copies[0].synced_to) = (CopyState::Absent, Epoch(5));
    let after = with_ownership(&before, &ownership, name_of).unwrap();
    assert_eq!(ownership_of(&after, id_of).unwrap(), ownership);
    assert_eq!(after.owner.as_deref(), Some("b"));
    // As it is stored.
    let stored = serde_json::to_string(&after).unwrap();
    assert_eq!(serde_json::from_str::<ObjectRecord>(&stored).unwrap(), after);
    let undone = with_ownership(&after, &ownership_of(&before, id_of).unwrap(), name_of).unwrap();
    assert_eq!(ObjectRecord { owner: None, ..undone }, before);
}

#[test]
fn a_node_or_a_component_that_is_not_known_is_noticed() {
    let mut other = object();
    other.mirrors[1][1].node = "z".into();
    assert_eq!(ownership_of(&other, id_of), None);
    let mut ownership = ownership_of(&object(), id_of).unwrap();
    ownership.owner.node = NodeId::from_bytes([b'z'; 16]);
    assert_eq!(with_ownership(&object(), &ownership, name_of), None);
    ownership = ownership_of(&object(), id_of).unwrap();
    ownership.copies[3].component = ComponentId::from_bytes([99; 16]);
    assert_eq!(with_ownership(&object(), &ownership, name_of), None);
}

#[test]
fn what_was_stored_before_is_read_and_written_as_it_was() {
    let text = serde_json::to_string(&object()).unwrap();
    for field in ["synced_to", "owner_incarnation", "nonce", "restored"] {
        assert!(!text.contains(field), "{field} in {text}");
    }
    assert_eq!(serde_json::from_str::<ObjectRecord>(&text).unwrap(), object());
    let changed = OwnershipChange { owner_incarnation: Incarnation(3), nonce: Nonce(1 << 100), restored: true };
    let text = serde_json::to_string(&ObjectRecord { change: changed, ..object() }).unwrap();
    assert!(text.contains(r#""owner_incarnation":3,"nonce":"00000010000000000000000000000000","restored":true"#), "{text}");
}
