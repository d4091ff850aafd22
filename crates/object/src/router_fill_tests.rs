//! A volume whose data goes to another place while requests run, against the model of each sector.

use super::*;
use crate::fill::{Fill, FillOrder, FillSays};
use base::Epoch;

const VOLUME: VolumeRef = VolumeRef(0);
const OTHER: VolumeRef = VolumeRef(1);
const PIECES: u64 = VOLUME_BYTES / PIECE_BYTES;
/// A piece that was changed while it was copied so often is copied while the volume is held.
const TRIES: u32 = 3;

/// A second volume, of another group and in two mirrors.
fn with_other(rt: &Rt, router: &mut VolumeRouter<LateBlocks>, seed: u64) -> VolumeLayout {
    router.set_route(GroupSlot(1), Some(ROUTE));
    router.lanes_mut().add_shard(GroupSlot(1), 0, LateBlocks::new(seed ^ 99));
    router.lanes_mut().add_shard(GroupSlot(1), 1, LateBlocks::new(seed ^ 111));
    let cores = LaneCores::of_group(ROUTE, router.cores);
    let mirrors = (1..=2).map(|no| Mirror::of_one(ComponentAt { group: GroupSlot(1), no: ComponentNo(no) }, cores)).collect();
    let other = VolumeLayout { id: VolumeId::from_bytes([8; 16]), lanes: OTHER, mirrors, ..served(router) };
    let volumes = vec![Some(Arc::new(served(router))), Some(Arc::new(other.clone()))];
    router.apply(rt, Arc::new(LayoutView { volumes, ..LayoutView::default() }), |_| true);
    other
}

fn fill() -> Fill {
    Fill { from: VOLUME, from_term: Ownership::FIRST.term, to: OTHER, to_term: Ownership::FIRST.term }
}

#[derive(Debug, PartialEq, Eq)]
enum At {
    Piece,
    Quiet,
    Read,
    Write,
    Whole,
}

/// Copies piece by piece, a step now and then.
struct Copier {
    at: At,
    piece: u64,
    tries: u32,
    again: u32,
}

impl Copier {
    fn begin(router: &mut VolumeRouter<LateBlocks>) -> Self {
        assert_eq!(router.lanes_mut().fill(VOLUME, &FillOrder::Begin(fill())), FillSays::Done(vec![]));
        Self { at: At::Piece, piece: 0, tries: 0, again: 0 }
    }
    fn step(&mut self, rt: &Rt, router: &mut VolumeRouter<LateBlocks>) {
        let offset = self.piece * PIECE_BYTES;
        match self.at {
            At::Piece if self.piece == PIECES => self.at = At::Whole,
            At::Piece if self.tries == TRIES => {
                router.hold(VOLUME);
                self.at = At::Quiet;
            }
            At::Quiet if !router.is_quiet(VOLUME) => {}
            At::Piece | At::Quiet => {
                let order = match self.tries {
                    0 => FillOrder::Window(self.piece..self.piece + 1),
                    _ => FillOrder::Again(vec![self.piece]),
                };
                assert_eq!(router.lanes_mut().fill(VOLUME, &order), FillSays::Done(vec![]));
                router.submit_own(rt, 0, VOLUME, fill().from_term, IoOp::Read { offset, len: PIECE_BYTES as u32 }).expect("it is served");
                self.at = At::Read;
            }
            At::Read => {
                let Some(done) = router.pop_own() else { return };
                done.result.expect("it can be read");
                let zero = done.data.iter().all(|d| d.buf.iter().all(|b| *b == 0));
                let op = if zero { IoOp::Trim { offset, len: PIECE_BYTES } } else { IoOp::Write { offset, data: done.data } };
                router.submit_own(rt, 0, OTHER, fill().to_term, op).expect("it is served");
                self.at = At::Write;
            }
            At::Write => {
                let Some(done) = router.pop_own() else { return };
                done.result.expect("it can be written");
                let order = if self.tries == 0 { FillOrder::WindowCopied } else { FillOrder::AgainCopied(vec![self.piece]) };
                let FillSays::Done(changed) = router.lanes_mut().fill(VOLUME, &order) else { panic!("nothing has failed") };
                if self.tries == TRIES {
                    assert_eq!(changed, [0; 0], "the volume is held");
                    router.release(rt, VOLUME, |_| true);
                }
                self.at = At::Piece;
                match changed.is_empty() {
                    true => (self.piece, self.tries) = (self.piece + 1, 0),
                    false => (self.tries, self.again) = (self.tries + 1, self.again + 1),
                }
            }
            At::Whole => {}
        }
    }
}

/// Keeps requests under way, and checks what is answered.
struct Load {
    model: Model,
    reads: BTreeMap<u64, (usize, Vec<Vec<u8>>)>,
    chance: LateBlocks,
    token: u64,
}

impl Load {
    fn new(seed: u64) -> Self {
        let model = Model { settled: vec![(0, 0); SECTORS], running: BTreeMap::new() };
        Self { model, reads: BTreeMap::new(), chance: LateBlocks::new(seed * 31 + 5), token: 0 }
    }
    fn step(&mut self, rt: &Rt, router: &mut VolumeRouter<LateBlocks>, most: usize) {
        if self.model.running.len() + self.reads.len() < most {
            self.token += 1;
            submit_random(rt, router, &mut self.model, &mut self.reads, &mut self.chance, self.token);
        }
        if let Some(done) = drive(rt, router) {
            check(&mut self.model, &mut self.reads, done);
        }
    }
    fn under_way(&self) -> usize {
        self.model.running.len() + self.reads.len()
    }
}

fn what_is_answered_is_in_both_places_and_the_volume_goes_by_the_other() {
    for seed in 0..20u64 {
        rt::sim::block_on(seed, async move |rt: Rt| {
            let mut router = router(&rt, seed, Limits::default(), false);
            let mut load = Load::new(seed);
            for _ in 0..500 {
                load.step(&rt, &mut router, 12);
            }
            let other = with_other(&rt, &mut router, seed);
            let mut copier = Copier::begin(&mut router);
            while copier.at != At::Whole {
                load.step(&rt, &mut router, 12);
                copier.step(&rt, &mut router);
            }
            assert!(copier.again > 0, "pieces have to be copied once more");
            for _ in 0..500 {
                load.step(&rt, &mut router, 12);
            }
            // The volume goes by the other place: not while anything of it is under way.
            router.hold(VOLUME);
            while !router.is_quiet(VOLUME) {
                load.step(&rt, &mut router, 12);
            }
            assert_eq!(router.lanes_mut().fill(VOLUME, &FillOrder::Ask), FillSays::Done(vec![]));
            let moved = VolumeLayout { id: served(&router).id, ..other };
            let moved = LayoutView { volumes: vec![Some(Arc::new(moved)), None], moved: [(OTHER, VOLUME)].into(), ..LayoutView::default() };
            assert!(moved.of_lanes(VOLUME).is_none() && moved.of_lanes(OTHER).is_some());
            router.apply(&rt, Arc::new(moved), |_| true);
            assert_eq!(router.lanes_mut().fill(VOLUME, &FillOrder::End), FillSays::Done(vec![]));
            assert!(load.under_way() > 0, "requests wait");
            router.release(&rt, VOLUME, |_| true);
            let writes = |router: &VolumeRouter<LateBlocks>| -> u64 {
                router.lanes().shards().filter(|(group, ..)| *group == GroupSlot(0)).map(|(_, _, shard)| shard.writes).sum()
            };
            let before = writes(&router);
            for _ in 0..1000 {
                load.step(&rt, &mut router, 12);
            }
            assert_eq!(writes(&router), before, "nothing goes to where it was");
            while load.under_way() > 0 {
                load.step(&rt, &mut router, 0);
            }
            assert!(router.is_idle() && router.lanes().fills.is_none());
            for (n, (_, value)) in load.model.settled.iter().enumerate() {
                let offset = (n * SECTOR_BYTES) as u64;
                if n % 64 == 0 || (1900..2200).contains(&n) {
                    let got = bytes_of(&answer(&rt, &mut router, IoOp::Read { offset, len: 512 }).await);
                    assert!(got.iter().all(|b| b == value), "sector {n}");
                }
            }
        });
    }
}

/// The shards of the other place fail, or work again.
fn others_fail(router: &mut VolumeRouter<LateBlocks>, fails: Option<StoreError>) {
    let of_other = |(group, _, _): &(GroupSlot, u8, &mut LateBlocks)| *group == GroupSlot(1);
    router.lanes_mut().shards_mut().filter(of_other).for_each(|(_, _, shard)| shard.fails = fails);
}

fn a_host_does_not_hear_that_the_other_place_fails_and_the_fill_is_over() {
    for (fails, error) in [(StoreError::NoSpace, IoError::NoSpace), (StoreError::DeviceFailed, IoError::Failed)] {
        rt::sim::block_on(5, async move |rt: Rt| {
            let mut router = router(&rt, 5, Limits::default(), false);
            with_other(&rt, &mut router, 5);
            let mut copier = Copier::begin(&mut router);
            while copier.at != At::Whole {
                drive(&rt, &mut router);
                copier.step(&rt, &mut router);
            }
            others_fail(&mut router, Some(fails));
            for (op, says) in [
                (IoOp::Read { offset: 0, len: 4096 }, FillSays::Done(vec![])),
                (IoOp::Write { offset: 0, data: data(0, 4096, |_| 1) }, FillSays::Over(error)),
                // Also when it works again.
                (IoOp::Trim { offset: 0, len: 4096 }, FillSays::Over(error)),
            ] {
                assert_eq!(answer(&rt, &mut router, op).await.result, Ok(()));
                assert_eq!(router.lanes_mut().fill(VOLUME, &FillOrder::Ask), says);
                if matches!(says, FillSays::Over(_)) {
                    others_fail(&mut router, None);
                }
            }
            assert_eq!(router.lanes_mut().fill(VOLUME, &FillOrder::Again(vec![0])), FillSays::Over(error));
            assert!(router.is_idle());
        });
    }
}

#[test]
fn a_volume_goes_to_another_place_while_requests_run() {
    what_is_answered_is_in_both_places_and_the_volume_goes_by_the_other();
}

#[test]
fn when_the_other_place_fails_the_fill_is_over_and_hosts_hear_nothing() {
    a_host_does_not_hear_that_the_other_place_fails_and_the_fill_is_over();
}

fn a_fill_is_of_one_term_of_both_owners() {
    type Change = fn(&Rt, &mut VolumeRouter<LateBlocks>, VolumeLayout);
    fn serves(rt: &Rt, router: &mut VolumeRouter<LateBlocks>, volumes: [VolumeLayout; 2]) {
        let volumes = volumes.map(|layout| Some(Arc::new(layout))).to_vec();
        router.apply(rt, Arc::new(LayoutView { volumes, ..LayoutView::default() }), |_| true);
    }
    fn later(layout: VolumeLayout) -> VolumeLayout {
        VolumeLayout { ownership: Ownership { term: Epoch(5), epoch: Epoch(5), ..layout.ownership }, ..layout }
    }
    let cases: [(&str, Change, Result<(), IoError>, IoError); 4] = [
        ("own term", |rt, router, other| serves(rt, router, [later(served(router)), other]), Ok(()), IoError::NotOwner),
        ("other's term", |rt, router, other| serves(rt, router, [served(router), later(other)]), Ok(()), IoError::NotOwner),
        ("gone", |rt, router, _| serve(rt, router, Some(served(router))), Ok(()), IoError::NoVolume),
        (
            "device",
            |_, router, _| router.lanes_mut().shards_mut().for_each(|(_, _, shard)| shard.fails = Some(StoreError::DeviceFailed)),
            Err(IoError::Failed),
            IoError::Failed,
        ),
    ];
    for (name, change, result, error) in cases {
        rt::sim::block_on(5, async move |rt: Rt| {
            let mut router = router(&rt, 5, Limits::default(), false);
            let other = with_other(&rt, &mut router, 5);
            let mut copier = Copier::begin(&mut router);
            while copier.at != At::Whole {
                drive(&rt, &mut router);
                copier.step(&rt, &mut router);
            }
            change(&rt, &mut router, other);
            let write = IoOp::Write { offset: 4096, data: data(4096, 4096, |_| 1) };
            assert_eq!(answer(&rt, &mut router, write).await.result, result, "{name}");
            assert_eq!(router.lanes_mut().fill(VOLUME, &FillOrder::Ask), FillSays::Over(error), "{name}");
        });
    }
}

#[test]
fn what_is_held_is_refused_at_the_end_and_judged_anew_when_it_begins() {
    rt::sim::block_on(5, async move |rt: Rt| {
        let mut router = router(&rt, 5, Limits::default(), false);
        let submit = |router: &mut VolumeRouter<LateBlocks>, token| {
            let op = IoOp::Write { offset: 4096, data: data(4096, 4096, |_| 1) };
            router.submit(&rt, IoRequest::new(token, VOLUME, op));
        };
        router.hold(VOLUME);
        submit(&mut router, 1);
        submit(&mut router, 2);
        assert!(router.is_quiet(VOLUME) && !router.is_idle());
        assert_eq!(router.stats().volumes.iter().map(|v| v.held).sum::<u64>(), 2);
        let locked = VolumeLayout { read_only: true, ..served(&router) };
        serve(&rt, &mut router, Some(locked.clone()));
        router.release(&rt, VOLUME, |request| request.token == 1);
        assert_eq!(drive(&rt, &mut router).map(|done| (done.token, done.result)), Some((1, Err(IoError::ReadOnly))));
        assert_eq!(drive(&rt, &mut router).map(|done| (done.token, done.result)), Some((2, Err(IoError::Withdrawn))));
        router.hold(VOLUME);
        serve(&rt, &mut router, Some(VolumeLayout { read_only: false, ..locked }));
        submit(&mut router, 3);
        router.begin_shutdown();
        assert_eq!(drive(&rt, &mut router).map(|done| (done.token, done.result)), Some((3, Err(IoError::Closing))));
        assert!(router.is_idle());
    });
}

#[test]
fn a_fill_ends_with_the_term_of_either_owner_and_when_a_change_has_an_unknown_outcome() {
    a_fill_is_of_one_term_of_both_owners();
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    hooks::notices(SeededFault::FollowInLaterTerm, a_fill_is_of_one_term_of_both_owners);
    for fault in [SeededFault::ChangeWhileCopiedForgotten, SeededFault::ChangeNotFollowed, SeededFault::HeldTakenForQuiet] {
        hooks::notices(fault, what_is_answered_is_in_both_places_and_the_volume_goes_by_the_other);
    }
    hooks::notices(SeededFault::FailedFollowForgotten, a_host_does_not_hear_that_the_other_place_fails_and_the_fill_is_over);
}
