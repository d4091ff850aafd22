//! Agreements, ranges of a resync, and copies that join.

use super::*;
use crate::owner::{BlockRange, RangeCopy};

const BASE: Seq = Seq { term: Epoch(1), counter: 40 };

/// Node 0 has taken over in this epoch; all copies that stay are fenced.
fn take_over(rig: &mut Rig, epoch: u32, copies: &[usize]) {
    rig.seen.borrow_mut().plain = false;
    for n in rig.copies.clone() {
        rig.fence(n, 0, epoch);
    }
    rig.command(&term(epoch, epoch, copies, None));
    rig.grants(&rig.rt.clone(), true);
}
fn term(epoch: u32, term: u32, copies: &[usize], joined: Option<usize>) -> Command {
    let active = copies.iter().map(|n| (copy(*n), CopyState::Active));
    let all: Vec<_> = active.chain(joined.map(|n| (copy(n), CopyState::Resyncing))).collect();
    let ownership = Ownership { epoch: Epoch(epoch), term: Epoch(term), period_start: Epoch(1) };
    Command::Targets(Targets { ownership, read: vec![all[0].0], copies: all })
}
fn agree(epoch: u32, source: usize, ranges: &[(u64, u32)]) -> Command {
    let ranges = ranges.iter().map(|(first, blocks)| BlockRange { first: BlockNo(*first), blocks: *blocks }).collect();
    Command::Agree { term: Epoch(epoch), mirror: 0, lane: Lane::of(BlockNo(0)), base_mark: BASE, source: copy(source), ranges }
}
fn answer(epoch: u32) -> Command {
    Command::Answer { mirror: 0, epoch: Epoch(epoch) }
}
fn mark_moves() -> Command {
    Command::MarkMoves { mirror: 0, lane: Lane::of(BlockNo(0)) }
}
fn agreed(events: &[Event]) -> Option<u32> {
    let found = events.iter().find_map(|event| if let Event::Agreed { term, ranges, .. } = event { Some((*term, *ranges)) } else { None });
    found.map(|(term, ranges)| {
        assert_eq!(term, Epoch(5));
        ranges
    })
}
/// What each copy has in its first blocks.
fn differ(rig: &mut Rig) {
    for n in rig.copies.clone() {
        let disk = rig.disk(n);
        (0..8).for_each(|block| disk.fill(block, 10 * (n as u8 + 1) + block as u8));
        (8..16).filter(|_| n > 0).for_each(|block| disk.fill(block, 77));
        if n == 0 {
            disk.lost.insert(5);
        }
    }
}

fn what_is_in_doubt_is_agreed_on_before_it_is_served() {
    for copies in [&[0, 1][..], &[0, 1, 2]] {
        in_world(async move |rt| {
            let mut rig = Rig::waiting(rt, 1, copies);
            differ(&mut rig);
            take_over(&mut rig, 5, copies);
            rig.submit(1, write(3, 200));
            rig.submit(2, read(4));
            rig.held_up.insert(1);
            rig.command(&agree(5, 0, &[(0, 4), (4, 3), (7, 9)]));
            rig.command(&Command::Serve);
            rig.command(&answer(5));
            assert!(rig.turns(200).await.is_empty() && rig.events().is_empty(), "the blocks are in doubt");
            rig.held_up.clear();
            let done = rig.turns(400).await;
            assert!(done.len() == 2 && done.iter().all(|done| done.result.is_ok()));
            let was_read = done.iter().find(|done| done.token == 2).expect("the read");
            assert!(was_read.data[0].buf.iter().all(|b| *b == 14), "as the source has it");
            assert_eq!(agreed(&rig.events()), Some(3));
            rig.are_equal();
            assert!(!rig.disk(1).blocks.contains_key(&8) && rig.disk(1).lost.contains(&5));
            let sent: Vec<Order> = rig.sent.iter().filter(|(to, _)| *to == 1).map(|(_, order)| *order).collect();
            assert!(sent.iter().all(|order| order.mark == BASE && order.seq.term == Epoch(5)), "{sent:?}");
            rig.command(&mark_moves());
            rig.answer(write(0, 1)).await;
            let (_, last) = rig.sent.last().expect("a write");
            assert!(last.mark.term == Epoch(5) && last.mark.counter + 1 == last.seq.counter, "{last:?}");
            assert_eq!(rig.nodes[0].copy_stats().agreed, 3);
        });
    }
}

fn what_came_before_the_owner_serves_does_not_come_before_the_agreement() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0, 1]);
        differ(&mut rig);
        take_over(&mut rig, 5, &[0, 1]);
        rig.submit(2, read(4));
        assert!(rig.turns(60).await.is_empty(), "what it would show is in doubt");
        rig.held_up.insert(1);
        rig.command(&agree(5, 1, &[(4, 1)]));
        rig.command(&Command::Serve);
        rig.command(&answer(5));
        assert!(rig.turns(200).await.is_empty(), "it would show what a next owner may not have");
        rig.held_up.clear();
        let done = rig.turns(400).await;
        let theirs = rig.disk(1).blocks.get(&4).map_or(0, |bytes| bytes[0]);
        assert!(done.len() == 1 && done[0].data[0].buf[0] == theirs, "and not what the agreement takes back");
    });
}

#[test]
fn agreements_come_first() {
    what_is_in_doubt_is_agreed_on_before_it_is_served();
    what_is_in_doubt_is_agreed_on_also_when_its_place_is_known_late();
    what_came_before_the_owner_serves_does_not_come_before_the_agreement();
}

/// Node 0 is the owner, and serves a picture in which the volume cannot be used yet.
fn without_mirrors(rig: &mut Rig) {
    let layout = rig.nodes[0].layout(VOLUME).expect("it is there").as_ref().clone();
    let layout = VolumeLayout { mirrors: Vec::new(), ..layout };
    let view = LayoutView { volumes: vec![Some(Arc::new(layout))], ..LayoutView::default() };
    rig.nodes[0].apply(&rig.rt.clone(), Arc::new(view), |_| true);
}

pub fn what_is_in_doubt_is_agreed_on_also_when_its_place_is_known_late() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0, 1]);
        differ(&mut rig);
        without_mirrors(&mut rig);
        take_over(&mut rig, 5, &[0, 1]);
        rig.command(&agree(5, 0, &[(0, 4), (4, 3), (7, 9)]));
        rig.command(&Command::Serve);
        rig.command(&answer(5));
        assert!(rig.turns(50).await.is_empty() && rig.events().is_empty(), "it is not known where the blocks are");
        rig.held_up.insert(1);
        rig.serve(0, 0, 5);
        rig.submit(1, read(4));
        assert!(rig.turns(200).await.is_empty(), "they are in doubt");
        rig.held_up.clear();
        assert_eq!(rig.turns(400).await.len(), 1);
        assert_eq!(agreed(&rig.events()), Some(3));
        rig.are_equal();
    });
}

/// With another copy that leaves the epoch rises, and nobody fences the owner's own copy that is out of sync.
#[test]
fn the_owners_own_copy_under_resync_hears_of_an_epoch_with_the_first_change_in_it() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0, 1]);
        take_over(&mut rig, 5, &[1]);
        rig.command(&term(6, 5, &[1], Some(0)));
        rig.command(&Command::Serve);
        rig.command(&answer(6));
        rig.answer(write(0, 1)).await;
        rig.command(&term(7, 5, &[1], Some(0)));
        rig.fence(0, 0, 6);
        rig.command(&answer(7));
        rig.submit(1, write(0, 2));
        assert_eq!(rig.turns(2000).await.len(), 1, "all copies have it");
        assert_eq!(rig.disk(0).durable, Epoch(7));
        rig.are_equal();
    });
}

#[test]
fn without_another_copy_an_agreement_ends_when_the_epoch_is_heard() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0]);
        take_over(&mut rig, 5, &[0]);
        rig.command(&agree(5, 0, &[(0, 4), (9, 1)]));
        rig.turns(50).await;
        assert!(rig.events().is_empty());
        rig.command(&answer(5));
        rig.turns(50).await;
        assert_eq!(agreed(&rig.events()), Some(2));
        rig.command(&mark_moves());
        rig.command(&Command::Serve);
        rig.answer(write(0, 1)).await;
        assert!(rig.nodes[0].is_idle());
    });
}

#[test]
fn the_source_of_an_agreement_and_the_others_may_leave() {
    in_world(async |rt| {
        // The source does not answer; another copy is the source.
        let mut rig = Rig::waiting(rt, 1, &[0, 1, 2]);
        differ(&mut rig);
        take_over(&mut rig, 5, &[0, 1, 2]);
        rig.held_up.insert(2);
        rig.command(&agree(5, 2, &[(0, 4)]));
        rig.command(&Command::Serve);
        rig.turns(100).await;
        rig.command(&term(6, 5, &[0, 1], None));
        rig.command(&answer(6));
        rig.turns(400).await;
        assert_eq!(agreed(&rig.events()), Some(1));
        assert_eq!(rig.disk(1).blocks[&1][0], 11);
        // The last other one leaves.
        let mut rig = Rig::waiting(rt, 1, &[0, 1]);
        take_over(&mut rig, 5, &[0, 1]);
        rig.held_up.insert(1);
        rig.command(&agree(5, 0, &[(0, 4), (9, 2)]));
        rig.command(&Command::Serve);
        rig.turns(100).await;
        rig.command(&term(6, 5, &[0], None));
        rig.turns(50).await;
        assert!(rig.events().is_empty());
        rig.command(&answer(6));
        rig.turns(50).await;
        assert_eq!(agreed(&rig.events()), Some(2));
        rig.command(&mark_moves());
        rig.command(&Command::Stop);
        assert!(rig.nodes[0].is_idle());
    });
}

#[test]
fn an_owner_that_stops_in_an_agreement_begins_anew_in_its_next_term() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0, 1]);
        differ(&mut rig);
        take_over(&mut rig, 5, &[0, 1]);
        rig.held_up.insert(1);
        rig.submit(1, write(20, 9));
        rig.command(&agree(5, 0, &[(0, 4), (9, 2)]));
        rig.command(&Command::Serve);
        rig.turns(100).await;
        rig.command(&Command::Stop);
        assert_eq!(rig.turns(10).await.len(), 1);
        rig.reset(1);
        rig.held_up.clear();
        for n in [0, 1] {
            rig.fence(n, 0, 9);
        }
        rig.command(&term(9, 9, &[0, 1], None));
        let Command::Agree { lane, source, ranges, .. } = agree(9, 1, &[(0, 16), (20, 1)]) else { unreachable!() };
        rig.command(&Command::Agree { term: Epoch(9), mirror: 0, lane, base_mark: BASE, source, ranges });
        rig.command(&Command::Serve);
        rig.turns(600).await;
        assert!(matches!(rig.events()[..], [Event::Agreed { term: Epoch(9), ranges: 2, .. }]));
        rig.are_equal();
        assert_eq!(rig.disk(0).blocks[&1][0], 21, "as the source has it");
    });
}

fn a_copy_that_joins_gets_what_begins_and_the_rest_is_waited_for() {
    in_world(async |rt| {
        let mut rig = Rig::waiting(rt, 1, &[0, 1, 2]);
        take_over(&mut rig, 5, &[0, 1]);
        rig.command(&Command::Serve);
        rig.command(&answer(5));
        rig.held_up.insert(1);
        rig.submit(1, write(3, 1));
        rig.turns(50).await;
        rig.command(&Command::Join { copy: copy(2), invited: Epoch(5) });
        rig.submit(2, write(4, 2));
        rig.turns(300).await;
        assert!(rig.events().is_empty(), "a change is under way without it");
        rig.held_up.clear();
        rig.turns(300).await;
        assert!(matches!(rig.events()[..], [Event::JoinDrained { copy, invited: Epoch(5) }] if copy == component(2)));
        assert!(!rig.disk(2).blocks.contains_key(&3) && rig.disk(2).blocks.contains_key(&4));
        // What follows contains it, or it is out again.
        rig.command(&term(5, 5, &[0, 1], Some(2)));
        rig.answer(write(5, 3)).await;
        rig.command(&term(6, 5, &[0, 1], None));
        rig.command(&answer(6));
        rig.answer(write(6, 3)).await;
        assert!(rig.disk(2).blocks.contains_key(&5) && !rig.disk(2).blocks.contains_key(&6));
    });
}

/// Blocks of the first chunk for the copy of node 2.
fn range(mask: u16, source: usize) -> RangeCopy {
    let progress = crate::owner::Progress { below: 1, to: Epoch(5) };
    RangeCopy { chunk: 0, mask, to: copy(2), invited: Epoch(5), source: copy(source), progress }
}
async fn resyncing(rt: &Rt) -> Rig {
    let mut rig = Rig::waiting(rt, 1, &[0, 1, 2]);
    differ(&mut rig);
    take_over(&mut rig, 5, &[0, 1]);
    rig.command(&Command::Serve);
    rig.command(&answer(5));
    rig.command(&term(5, 5, &[0, 1], Some(2)));
    rig
}

#[test]
fn a_range_brings_what_its_source_has_with_epoch_and_mask() {
    for source in [0, 1] {
        in_world(async move |rt| {
            let mut rig = resyncing(rt).await;
            rig.command(&Command::CopyRange(range(0x01F8, source)));
            rig.turns(400).await;
            assert!(matches!(rig.events()[..], [Event::Copied(copied)] if copied == range(0x01F8, source)));
            let (blocks, lost) = (rig.disk(source).blocks.clone(), rig.disk(source).lost.clone());
            let to = rig.disk(2);
            assert!((3..9).all(|b| to.lost.contains(&b) == lost.contains(&b)));
            assert!((3..9).filter(|b| !lost.contains(b)).all(|b| to.blocks.get(&b) == blocks.get(&b)));
            assert!(to.blocks[&2][0] == 32 && to.blocks[&9][0] == 77, "blocks that were not asked for stay");
            let all: Vec<_> = to.ranges.iter().map(|(first, source, progress)| (*first, source.is_some(), progress.below)).collect();
            let own = [(3, true, 0), (5, true, 0), (6, true, 0), (8, true, 1)];
            assert_eq!(all, if source == 0 { &own[..] } else { &[(3, true, 1)] }, "only the last run ends the chunk");
            rig.command(&mark_moves());
            assert_eq!(rig.nodes[0].copy_stats().copied, 1);
            rig.answer(write(3, 1)).await;
            assert!(rig.nodes[0].is_idle());
        });
    }
}

#[test]
fn a_chunk_that_the_source_has_not_is_freed_as_a_whole() {
    in_world(async |rt| {
        let mut rig = resyncing(rt).await;
        (0..16).for_each(|block| rig.disk(0).set(block, None));
        rig.command(&Command::CopyRange(range(0x0008, 0)));
        rig.turns(300).await;
        assert!(matches!(rig.events()[..], [Event::Copied(_)]));
        let to = rig.disk(2);
        assert!((0..16).all(|block| !to.blocks.contains_key(&block)));
        assert!(matches!(to.ranges[..], [(0, None, progress)] if progress.below == 1));
    });
}

fn a_range_and_a_change_of_its_blocks_come_one_after_the_other() {
    in_world(async |rt| {
        for order in 0..8 {
            let mut rig = resyncing(rt).await;
            rig.seen.borrow_mut().chance = order;
            rig.command(&Command::CopyRange(range(0x000F, 1)));
            rig.turns(order as usize).await;
            rig.submit(1, write(2, 99));
            rig.turns(600).await;
            for n in 0..3 {
                assert_eq!(rig.disk(n).blocks[&2][0], 99, "copy {n} has what was written last");
            }
        }
    });
}

#[test]
fn a_range_that_waits_for_its_turn_holds_up_no_host_and_ends_when_the_owner_drains() {
    in_world(async |rt| {
        let mut rig = resyncing(rt).await;
        rig.command(&Command::ResyncPace(ResyncPace::Low));
        rig.command(&Command::CopyRange(range(0x000F, 1)));
        let mut turns = 0;
        while rig.events().is_empty() {
            rig.turns(1).await;
            turns += 1;
        }
        assert!(turns > 3, "{turns}: the pause is 15 times as long");
        for _ in 0..2 {
            rig.command(&Command::CopyRange(range(0x000F, 1)));
        }
        assert_eq!(rig.answer(write(2, 99)).await.result, Ok(()));
        assert!(rig.events().is_empty(), "its turn has not come");
        rig.command(&Command::Drain(1));
        rig.turns(5).await;
        assert!(matches!(rig.events()[..], [Event::NotCopied(_), Event::NotCopied(_), Event::Drained(1)]));
        rig.command(&Command::Resume);
        rig.command(&Command::ResyncPace(ResyncPace::High));
        rig.command(&Command::CopyRange(range(0x000F, 1)));
        rig.turns(400).await;
        assert!(matches!(rig.events()[..], [Event::Copied(_)]));
        assert!(rig.nodes[0].is_idle());
    });
}

#[test]
fn what_no_source_can_read_is_uncorrectable_at_the_copy() {
    in_world(async |rt| {
        let mut rig = resyncing(rt).await;
        rig.disk(0).bad.insert(2);
        rig.disk(1).bad.insert(2);
        rig.command(&Command::CopyRange(range(0x000F, 0)));
        rig.turns(600).await;
        assert!(matches!(rig.events()[..], [Event::Copied(_)]));
        let to = rig.disk(2);
        assert!(to.lost.iter().eq([&2]) && to.blocks[&1][0] == 21 && to.blocks[&3][0] == 13, "as the source has it that was read last");
        // One that can be read elsewhere is read there.
        rig.disk(0).bad.insert(6);
        rig.command(&Command::CopyRange(range(0x0040, 0)));
        rig.turns(600).await;
        assert_eq!(rig.disk(2).blocks[&6][0], 26);
    });
}

#[test]
fn a_range_for_a_copy_that_fails_or_is_out_is_not_copied() {
    in_world(async |rt| {
        let mut rig = resyncing(rt).await;
        rig.disk(2).full = true;
        rig.command(&Command::CopyRange(range(0x000F, 0)));
        rig.turns(300).await;
        assert!(matches!(rig.events()[..], [Event::CopyFails(c), Event::NotCopied(_)] if c == component(2)));
        rig.command(&term(6, 5, &[0, 1], None));
        rig.command(&answer(6));
        rig.command(&Command::CopyRange(range(0x000F, 0)));
        rig.turns(300).await;
        assert!(matches!(rig.events()[..], [Event::NotCopied(_)]));
        rig.answer(write(2, 9)).await;
        assert!(rig.nodes[0].is_idle());
    });
}

#[test]
fn a_range_ends_when_its_copy_has_left_at_any_moment() {
    in_world(async |rt| {
        let mut not_copied = 0;
        for turns in 0..12 {
            let mut rig = resyncing(rt).await;
            rig.command(&Command::CopyRange(range(0x000F, 1)));
            rig.turns(turns).await;
            rig.command(&term(6, 5, &[0, 1], None));
            rig.command(&answer(6));
            rig.turns(300).await;
            let events = rig.events();
            assert!(matches!(events[..], [Event::Copied(_) | Event::NotCopied(_)]), "left after {turns} turns: {events:?}");
            not_copied += usize::from(matches!(events[..], [Event::NotCopied(_)]));
            rig.answer(write(2, 9)).await;
            assert!(rig.nodes[0].is_idle());
        }
        assert!(not_copied > 3);
    });
}

#[test]
fn a_change_that_only_copies_under_resync_have_is_the_hosts_error_once_these_have_left() {
    in_world(async |rt| {
        let mut rig = resyncing(rt).await;
        for n in [0, 1] {
            rig.disk(n).full = true;
        }
        rig.submit(1, write(3, 7));
        assert!(rig.turns(100).await.is_empty(), "a copy has it");
        assert!(matches!(rig.events()[..], [Event::CopyFails(c)] if c == component(2)), "the others are to stay");
        rig.command(&term(6, 5, &[0, 1], None));
        rig.command(&answer(6));
        let done = rig.turns(100).await;
        assert!(matches!(done[..], [IoDone { result: Err(IoError::NoSpace), .. }]), "{done:?}");
        assert!(rig.nodes[0].is_idle());
        // What is full, too, has nothing of it.
        let mut rig = resyncing(rt).await;
        for n in [0, 1, 2] {
            rig.disk(n).full = true;
        }
        assert_eq!(rig.answer(write(3, 7)).await.result, Err(IoError::NoSpace));
        assert!(rig.events().is_empty());
    });
}

fn a_source_is_read_when_it_has_accepted_the_epoch() {
    in_world(async |rt| {
        let mut rig = resyncing(rt).await;
        // The own copy hears of the next epoch later.
        rig.command(&term(6, 5, &[0, 1], Some(2)));
        rig.fence(0, 0, 5);
        rig.command(&Command::CopyRange(range(0x000F, 0)));
        rig.turns(300).await;
        assert!(rig.events().is_empty() && rig.disk(2).ranges.is_empty());
        rig.fence(0, 0, 6);
        rig.turns(600).await;
        assert!(matches!(rig.events()[..], [Event::Copied(_)]));
        // One on another node accepts it because it is asked.
        let durable = rig.disk(1).durable;
        rig.command(&term(7, 5, &[0, 1], Some(2)));
        rig.command(&Command::CopyRange(range(0x000F, 1)));
        rig.turns(900).await;
        assert!(durable < Epoch(7) && rig.disk(1).durable == Epoch(7));
    });
}

#[test]
fn joins_and_ranges() {
    a_copy_that_joins_gets_what_begins_and_the_rest_is_waited_for();
    a_range_and_a_change_of_its_blocks_come_one_after_the_other();
    a_source_is_read_when_it_has_accepted_the_epoch();
}

#[test]
fn a_change_that_the_own_copy_refuses_goes_there_again_with_the_next_epoch() {
    in_world(async |rt| {
        let mut rig = Rig::new(rt, 1, &[0, 1]);
        rig.seen.borrow_mut().plain = false;
        // The copy has accepted the epoch before this core has heard of it.
        rig.fence(0, 0, 2);
        rig.submit(1, write(3, 7));
        assert!(rig.turns(300).await.is_empty());
        assert!(matches!(rig.events()[..], [Event::Outranked(Epoch(2))]));
        rig.command(&targets(2, &[0, 1]));
        assert_eq!(rig.turns(400).await.len(), 1);
        rig.are_equal();
    });
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::AgreementNotSent, what_is_in_doubt_is_agreed_on_before_it_is_served);
    notices(SeededFault::MarkNotHeld, what_is_in_doubt_is_agreed_on_before_it_is_served);
    notices(SeededFault::RequestsBeforeAgreement, what_came_before_the_owner_serves_does_not_come_before_the_agreement);
    notices(SeededFault::DrainedEarly, a_copy_that_joins_gets_what_begins_and_the_rest_is_waited_for);
    notices(SeededFault::RangeWithoutLock, a_range_and_a_change_of_its_blocks_come_one_after_the_other);
    notices(SeededFault::SourceNotStamped, a_source_is_read_when_it_has_accepted_the_epoch);
}
