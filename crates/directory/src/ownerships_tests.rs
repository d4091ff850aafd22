//! Records of objects as their owners read and change them.

use super::*;
use crate::Typed;
use crate::modelled::{Faults, Modelled};
use crate::{Directory, Nonce};
use base::{ClusterId, Incarnation, OwnerId, VolumeId};

#[test]
fn a_change_is_of_the_record_that_was_read_and_says_which_terms_begin() {
    let directory = Modelled::new(1, ClusterId::from_bytes([1; 16]), Faults::NONE);
    let id = |n: u8| NodeId::from_bytes([n; 16]);
    let node = |name: &str, n: u8| NodeRecord { id: Some(id(n)), ..NodeRecord::new(name.into(), "d".into(), 0) };
    let slot = |node: &str| cluster::Slot {
        node: node.into(),
        group: base::GroupId::from_bytes([1; 16]),
        capacity_index: 0,
        bytes: 1 << 30,
        reserve_chunks: 0,
    };
    let layout = cluster::Layout { mirrors: vec![cluster::MirrorSlots { copies: vec![slot("a"), slot("b")] }] };
    let component = |_, copy: usize| base::ComponentId::from_bytes([copy as u8 + 1; 16]);
    let object = ObjectRecord::planned(ObjectId::from_bytes([9; 16]), VolumeId::from_bytes([9; 16]), &layout, component);
    let all = Transaction::new().create(&node("a", 1)).create(&node("b", 2)).create(&object);
    directory.commit(&all.with_nonce(Nonce([1; 16]))).unwrap();

    let view = View::new(directory.snapshot().unwrap());
    let other = ObjectId::from_bytes([8; 16]);
    let found = ownerships(&view, &[object.id, other]).unwrap();
    let (revision, mut ownership) = found[0].1.clone().unwrap();
    assert_eq!((ownership.owner.node, ownership.copies.len(), found[1].1.is_some()), (id(1), 2, false));

    ownership.owner = OwnerId { node: id(2), incarnation: Incarnation(1) };
    ownership.ownership.term = Epoch(7);
    let changes = |node, on| ownership_changes(&view, node, [(object.id, on, &ownership)]).unwrap();
    assert_eq!(changes("b", revision).unwrap().1, [(object.id, Epoch(7))]);
    assert_eq!(changes("a", revision).unwrap().1, []);
    assert_eq!(changes("b", Revision(revision.0 + 1)).unwrap_err(), object.id, "somebody was faster");
    let (transaction, _) = changes("b", revision).unwrap();
    directory.commit(&transaction.with_nonce(Nonce([2; 16]))).unwrap();
    assert_eq!(directory.find::<ObjectRecord>(&object.id.to_string()).unwrap().unwrap().value.owner.as_deref(), Some("b"));
}
