//! An owner that is to serve, to drain and to stop: what waits, what ends, and when it says that nothing is under way.

use super::*;
use crate::part::PartOp;

#[test]
pub(super) fn requests_wait_for_the_owner_to_serve_and_end_when_it_stops() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0, 1]);
        rig.grants(rt, true);
        rig.submit(1, write(3, 1));
        assert!(rig.turns(100).await.is_empty(), "nobody has said who gets changes");
        rig.command(&targets(1, &[0, 1]));
        assert!(rig.turns(100).await.is_empty());
        rig.command(&Command::Serve);
        assert_eq!(rig.turns(100).await.len(), 1);
        rig.held_up.insert(1);
        for n in 0..4 {
            rig.submit(n, write(3, n as u8));
        }
        rig.command(&Command::Drain(1));
        rig.submit(9, read(9));
        assert!(rig.turns(100).await.is_empty() && rig.events().is_empty());
        rig.held_up.clear();
        assert_eq!(rig.turns(1000).await.len(), 1, "what had begun ends");
        assert!(matches!(rig.events()[..], [Event::Drained(1)]));
        rig.command(&Command::Resume);
        assert_eq!(rig.turns(1000).await.len(), 4);
        rig.held_up.insert(1);
        for n in 0..4 {
            rig.submit(n, write(3, n as u8));
        }
        rig.turns(20).await;
        rig.command(&Command::Drain(2));
        rig.command(&Command::Stop);
        let ended = rig.turns(5).await;
        let results: Vec<_> = ended.iter().map(|done| done.result).collect();
        let (begun, not) = (Err(IoError::NoPath), Err(IoError::NotOwner));
        assert_eq!(results.iter().filter(|r| **r == begun).count(), 1, "one is on the way to a copy: {results:?}");
        assert!(results.len() == 4 && results.iter().all(|r| *r == begun || *r == not), "the others have not begun: {results:?}");
        assert_eq!(rig.answer(read(3)).await.result, Err(IoError::NotOwner));
        assert!(rig.nodes[0].is_idle());
        // It serves again: what was to drain has ended.
        rig.held_up.clear();
        rig.command(&targets(2, &[0, 1]));
        rig.submit(1, read(3));
        rig.command(&Command::Resume);
        assert!(rig.turns(100).await.is_empty(), "the agreement comes first");
        rig.command(&Command::Serve);
        assert_eq!(rig.turns(100).await.iter().map(|done| done.result).collect::<Vec<_>>(), [Ok(())]);
    });
}

#[test]
fn a_read_that_waits_for_a_change_that_is_not_to_begin_drains() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[1, 2]);
        rig.held_up.extend([1, 2]);
        rig.submit(1, read(3));
        rig.turns(20).await;
        rig.command(&Command::Drain(1));
        rig.submit(2, write(3, 7));
        assert!(rig.turns(100).await.is_empty() && rig.events().is_empty(), "the read is under way");
        rig.held_up.clear();
        assert!(rig.turns(100).await.is_empty(), "what was read may be of the change");
        assert!(matches!(rig.events()[..], [Event::Drained(1)]));
        rig.command(&Command::Stop);
        let ended = rig.turns(5).await;
        assert!(ended.len() == 2 && ended.iter().all(|done| done.result == Err(IoError::NotOwner)), "neither was carried out: {ended:?}");
        assert!(rig.nodes[0].is_idle());
    });
}

#[test]
fn what_began_when_there_was_one_copy_drains() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        let extent = Extent { offset: 3 * BLOCK_BYTES as u64, len: BLOCK_BYTES as u32 };
        let part = Part {
            origin: 0,
            request: 0,
            index: 0,
            shard: 0,
            checksum: true,
            volume: VOLUME,
            at: AT,
            mirror: 0,
            ownership: owned(1),
            extent,
            op: PartOp::Verify,
        };
        rig.nodes[0].lanes_mut().accept(rt, part);
        rig.command(&Command::Drain(1));
        assert!(rig.events().is_empty(), "it is under way");
        while !rig.nodes[0].lanes_mut().poll(rt) {}
        assert!(rig.nodes[0].lanes_mut().pop().is_some());
        rig.turns(2).await;
        assert!(matches!(rig.events()[..], [Event::Drained(1)]));
    });
}

/// A node that stood still as the owner goes on when its volume has been laid out anew: it learns at once that another node owns it, and that the
/// lanes that it knew are gone (seed 457472).
#[test]
fn what_waits_at_an_owner_whose_lanes_are_gone_is_tried_again() {
    const OTHER: VolumeRef = VolumeRef(1);
    in_world(async |rt| {
        for (elsewhere, what) in [(true, "it lies elsewhere"), (false, "it is deleted: whoever tries again hears that")] {
            let mut rig = Rig::waiting(rt, 1, &[0, 1]);
            rig.submit(1, read(3));
            assert!(rig.turns(100).await.is_empty(), "it waits for the owner to serve");
            let served = rig.nodes[0].layout(VOLUME).expect("it is served");
            let anew = VolumeLayout { lanes: OTHER, mirrors: Vec::new(), owner: Some(node(1)), ..VolumeLayout::clone(served) };
            let volumes = vec![elsewhere.then(|| Arc::new(anew))];
            let view = LayoutView { volumes, moved: [(OTHER, VOLUME)].into(), ..LayoutView::default() };
            rig.nodes[0].apply(rt, Arc::new(view), |_| true);
            let ended: Vec<_> = rig.turns(5).await.iter().map(|done| done.result).collect();
            assert_eq!(ended, [Err(IoError::NotOwner)], "{what}");
        }
    });
}
