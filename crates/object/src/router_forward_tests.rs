//! Requests for a volume that another node owns.

use super::*;
use crate::io::{Forward, ForwardDone, ForwardOutcome};
use base::NodeId;

const OWNER: NodeId = NodeId::from_bytes([9; 16]);
const ID: VolumeId = VolumeId::from_bytes([7; 16]);

fn elsewhere(router: &VolumeRouter<LateBlocks>) -> VolumeLayout {
    VolumeLayout { mirrors: vec![], owner: Some(OWNER), revision: 5, ..served(router) }
}
fn read(token: u64) -> IoRequest {
    IoRequest::new(token, VolumeRef(0), IoOp::Read { offset: 4096, len: 8192 })
}
fn write(token: u64) -> IoRequest {
    IoRequest::new(token, VolumeRef(0), IoOp::Write { offset: 0, data: data(0, 4096, |_| 3) })
}

/// A router whose only volume another node owns.
fn forwarding(rt: &Rt) -> VolumeRouter<LateBlocks> {
    let mut router = router(rt, 1, Limits::new(VolumeLimits::default()), false);
    let volume = elsewhere(&router);
    serve(rt, &mut router, Some(volume));
    router
}

#[test]
fn a_request_for_a_volume_of_another_node_is_forwarded_and_answered_once() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = forwarding(&rt);
        router.submit(&rt, read(1));
        router.submit(&rt, write(2));
        let first = router.pop_forward().expect("the read");
        assert_eq!((first.owner, first.volume, first.revision), (OWNER, ID, 5));
        assert!(matches!(first.op, IoOp::Read { offset: 4096, len: 8192 }));
        let second = router.pop_forward().expect("the write");
        assert!(matches!(&second.op, IoOp::Write { offset: 0, data } if data[0].crcs.len() == 1), "with its checksums");
        assert!(router.pop_forward().is_none() && drive(&rt, &mut router).is_none() && !router.is_idle());
        // Their answers come in another order.
        router.forwarded(&rt, ForwardDone { id: second.id, outcome: ForwardOutcome::Answered(Err(IoError::NoSpace)) });
        router.forwarded(&rt, ForwardDone { id: first.id, outcome: ForwardOutcome::Answered(Ok(data(4096, 8192, |_| 8))) });
        let done = drive(&rt, &mut router).unwrap();
        assert_eq!((done.token, done.result, done.data.len()), (2, Err(IoError::NoSpace), 0));
        let done = drive(&rt, &mut router).unwrap();
        assert_eq!((done.token, done.result), (1, Ok(())));
        assert!(done.data[0].buf.iter().all(|b| *b == 8) && done.data[0].buf.len() == 8192);
        assert!(drive(&rt, &mut router).is_none() && router.is_idle());
        assert_eq!((router.stats().read.requests, router.stats().write.errors), (1, 1));
    });
}

#[test]
fn what_did_not_happen_is_judged_by_what_is_served_then() {
    type Change = fn(VolumeLayout) -> Option<VolumeLayout>;
    let cases: [(&str, Change, Result<(), IoError>); 3] = [
        ("read-only", |v| Some(VolumeLayout { read_only: true, ..v }), Err(IoError::ReadOnly)),
        ("deleted", |_| None, Err(IoError::NoVolume)),
        ("offline", |v| Some(VolumeLayout { owner: None, ..v }), Err(IoError::Failed)),
    ];
    for (name, change, expected) in cases {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = forwarding(&rt);
            router.submit(&rt, write(1));
            let Forward { id, op, .. } = router.pop_forward().unwrap();
            let volume = served(&router);
            serve(&rt, &mut router, change(volume));
            router.forwarded(&rt, ForwardDone { id, outcome: ForwardOutcome::NotDone(op) });
            assert!(drive(&rt, &mut router).is_none(), "{name}: it waits a little");
            rt.sleep(FORWARD_AGAIN).await;
            assert_eq!(drive(&rt, &mut router).map(|d| (d.token, d.result)), Some((1, expected)), "{name}");
            assert!(router.pop_forward().is_none() && router.is_idle());
        });
    }
}

#[test]
fn it_is_tried_again_for_a_while_then_the_host_has_to_take_another_path() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = forwarding(&rt);
        router.submit(&rt, write(1));
        let began = rt.now();
        let mut tries = 0;
        let done = loop {
            if let Some(Forward { id, op, .. }) = router.pop_forward() {
                tries += 1;
                assert!(tries < 10_000, "without end");
                assert!(matches!(&op, IoOp::Write { data, .. } if data[0].buf.iter().all(|b| *b == 3)), "with its data");
                router.forwarded(&rt, ForwardDone { id, outcome: ForwardOutcome::NotDone(op) });
            }
            if let Some(done) = drive(&rt, &mut router) {
                break done;
            }
            rt.sleep(FORWARD_AGAIN).await;
        };
        assert_eq!(done.result, Err(IoError::NoPath));
        assert!(tries > 30 && rt.now().since(began) >= FORWARD_MAX, "{tries} tries");
        assert!(router.is_idle());
    });
}

#[test]
fn a_volume_that_comes_home_is_served_here() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits::default()), false);
        let home = served(&router);
        let volume = elsewhere(&router);
        serve(&rt, &mut router, Some(volume));
        router.submit(&rt, read(1));
        let Forward { id, op, .. } = router.pop_forward().unwrap();
        serve(&rt, &mut router, Some(home));
        router.forwarded(&rt, ForwardDone { id, outcome: ForwardOutcome::NotDone(op) });
        let done = loop {
            match drive(&rt, &mut router) {
                Some(done) => break done,
                None => rt.sleep(FORWARD_AGAIN).await,
            }
        };
        assert_eq!((done.token, done.result, done.data[0].buf.len()), (1, Ok(()), 8192));
    });
}

#[test]
fn a_shutdown_ends_what_waits_for_another_node_as_soon_as_it_is_known_not_to_have_happened() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = forwarding(&rt);
        router.submit(&rt, write(1));
        router.submit(&rt, write(2));
        let (first, second) = (router.pop_forward().unwrap(), router.pop_forward().unwrap());
        router.forwarded(&rt, ForwardDone { id: first.id, outcome: ForwardOutcome::NotDone(first.op) });
        router.begin_shutdown();
        assert_eq!(drive(&rt, &mut router).map(|d| (d.token, d.result)), Some((1, Err(IoError::Closing))));
        assert!(!router.is_idle());
        router.forwarded(&rt, ForwardDone { id: second.id, outcome: ForwardOutcome::NotDone(second.op) });
        assert_eq!(drive(&rt, &mut router).map(|d| (d.token, d.result)), Some((2, Err(IoError::Closing))));
        assert!(router.is_idle());
    });
}

/// A flush goes to the owner, and is not counted; here it is answered at once.
#[test]
fn a_flush_of_a_volume_of_another_node_is_answered_by_that() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits::default()), false);
        let home = served(&router);
        let volume = elsewhere(&router);
        serve(&rt, &mut router, Some(volume));
        let flush = || IoRequest::new(5, VolumeRef(0), IoOp::Flush);
        router.submit(&rt, flush());
        let Forward { id, op, revision, .. } = router.pop_forward().expect("it goes to the owner");
        assert!(matches!(op, IoOp::Flush) && revision == 5 && drive(&rt, &mut router).is_none());
        router.forwarded(&rt, ForwardDone { id, outcome: ForwardOutcome::Answered(Ok(DataVec::new())) });
        assert_eq!(drive(&rt, &mut router).map(|d| (d.token, d.result)), Some((5, Ok(()))));
        assert!(router.is_idle() && router.stats().write.requests == 0);
        serve(&rt, &mut router, Some(home));
        router.submit(&rt, flush());
        assert_eq!(drive(&rt, &mut router).map(|d| (d.token, d.result)), Some((5, Ok(()))));
    });
}

#[test]
fn the_node_hears_whether_the_owner_serves_its_view_and_asks_again_by_itself() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = forwarding(&rt);
        for (outcome, expected) in [
            (ForwardOutcome::Answered(Ok(DataVec::new())), Ok(())),
            (ForwardOutcome::NotDone(IoOp::Flush), Err(IoError::NoPath)),
            (ForwardOutcome::Answered(Err(IoError::NoPath)), Err(IoError::NoPath)),
        ] {
            let layout = Arc::clone(router.layout(VolumeRef(0)).unwrap());
            router.confirm(&rt, 9, VolumeRef(0), layout);
            let Forward { id, revision, .. } = router.pop_forward().unwrap();
            assert_eq!(revision, 5);
            router.forwarded(&rt, ForwardDone { id, outcome });
            assert_eq!(router.pop_own().map(|d| (d.token, d.result)), Some((9, expected)));
            assert!(drive(&rt, &mut router).is_none() && router.is_idle(), "it is no answer of a front end");
        }
    });
}

#[test]
fn what_nobody_waits_for_is_cancelled_where_it_is_and_answered_all_the_same() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = forwarding(&rt);
        router.cancel(1);
        // Two requests of one command.
        router.submit(&rt, read(1));
        router.submit(&rt, write(1));
        router.submit(&rt, write(2));
        let ids: Vec<Forward> = std::iter::from_fn(|| router.pop_forward()).collect();
        assert_eq!(router.pop_cancel(), None);
        router.cancel(1);
        router.cancel(7);
        let cancelled: Vec<_> = std::iter::from_fn(|| router.pop_cancel()).collect();
        assert_eq!(cancelled, [(OWNER, ids[0].id), (OWNER, ids[1].id)]);
        for Forward { id, op, .. } in ids {
            router.forwarded(&rt, ForwardDone { id, outcome: ForwardOutcome::NotDone(op) });
        }
        // Its front end does not want the first command any more.
        let mut answers = Vec::new();
        for _ in 0..20 {
            rt.sleep(FORWARD_AGAIN).await;
            router.poll(&rt, |request| request.token != 1);
            answers.extend(std::iter::from_fn(|| router.pop()).map(|d| (d.token, d.result)));
        }
        assert_eq!(answers, [(1, Err(IoError::Withdrawn)); 2], "and the other one goes on");
        assert_eq!(router.pop_forward().map(|f| f.since.0 > 0), Some(true));
    });
}

#[cfg(feature = "hooks")]
#[test]
fn a_seeded_fault_of_requests_that_are_not_carried_out_is_noticed() {
    hooks::notices(SeededFault::ForwardTriedForEver, it_is_tried_again_for_a_while_then_the_host_has_to_take_another_path);
}
