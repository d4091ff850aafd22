//! Which nodes can be reached, of what the data plane reports.

use super::*;

const B: NodeId = NodeId::from_bytes([2; 16]);

fn open_to(links: &Links) -> Vec<String> {
    let node = |name: &str, id| NodeRecord { id, ..NodeRecord::new(name.into(), name.into(), 0) };
    links.open_to(&[node("a", None), node("b", Some(B)), node("c", Some(NodeId::from_bytes([3; 16])))]).into_iter().collect()
}

#[test]
fn a_node_is_reached_while_all_lanes_with_it_are_open() {
    let mut links = Links::default();
    let mut note = |lane, open| {
        links.note(LinkChange { node: B, lane, lanes: 2, open });
        open_to(&links)
    };
    assert_eq!(note(0, true), [""; 0], "one of two");
    assert_eq!(note(1, true), ["b"]);
    assert_eq!(note(0, false), [""; 0]);
    assert_eq!(note(0, true), ["b"]);
    // It comes again with fewer cores.
    assert_eq!(note(1, false), [""; 0]);
    links.note(LinkChange { node: B, lane: 0, lanes: 1, open: true });
    assert_eq!(open_to(&links), ["b"]);
}
