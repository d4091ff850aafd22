//! Many objects at once, and each thing that happens to the nodes that have them.

use super::world::*;
use crate::owner::OwnerState;
use base::{BlockNo, NodeId};
use format::peer::BadBlock;

fn everything_is_served(world: &mut World) {
    world.until(4000, "served after the start", World::all_served);
}
fn transactions_since(world: &World, since: u64) -> (usize, usize) {
    let made = world.transactions.iter().filter(|(at, _)| *at > since);
    made.fold((0, 0), |(count, changes), (_, n)| (count + 1, changes + n))
}

fn an_owner_dies(rates: &[u64], objects: usize) {
    let mut world = World::new(rates[0], rates, &vec![0; objects]);
    everything_is_served(&mut world);
    world.plays(500);
    let (died, reads) = (world.now, world.reads);
    world.stops(0);
    let after = world.until(5000, "taken over", World::all_served);
    let (transactions, changes) = transactions_since(&world, died);
    assert!(after > 1000, "{after} ms: before its grants have run out");
    assert_eq!(changes, objects, "the owner's copy leaves with the takeover");
    assert!(transactions <= objects.div_ceil(120) + 1, "{transactions} transactions for {objects} objects");
    assert!(world.reads - reads <= objects.div_ceil(120) + 1, "{} reads", world.reads - reads);
    let answered = world.answered;
    world.plays(200);
    assert!(world.answered > answered + objects as u64, "reads are answered");
}

#[test]
pub fn the_objects_of_a_node_that_dies_are_taken_over_in_few_transactions() {
    an_owner_dies(&[1000, 1000], 300);
    an_owner_dies(&[1100, 900], 130);
    an_owner_dies(&[900, 1100], 130);
    an_owner_dies(&[1000, 900, 1100], 130);
}

/// Each of the others takes some over, and evicts copies of what it owns, by a directory that carries out one transaction after the other.
#[test]
fn of_64_nodes_one_dies_that_owns_a_thousand_objects_and_has_copies_of_two_thousand_others() {
    let (owned, copies, others) = (1000, 2000, 63);
    let rates: Vec<u64> = (0..=others).map(|n| 900 + n * 53 % 200).collect();
    let other = |k: usize| 1 + k % others as usize;
    let own = (0..owned).map(|k| (0, vec![0, other(k)]));
    let objects: Vec<_> = own.chain((0..copies).map(|k| (other(k), vec![other(k), 0]))).collect();
    let mut world = World::placed(64, &rates, &objects);
    everything_is_served(&mut world);
    world.directory_takes = 5;
    world.plays(500);
    let died = world.now;
    world.stops(0);
    let after = world.until(5000, "all are served without the copies of the node", |world| {
        world.all_served() && (0..objects.len()).all(|k| active(world, k) == [objects[k].1[usize::from(k < owned)]].into())
    });
    let (transactions, changes) = transactions_since(&world, died);
    println!("{after} ms, {transactions} transactions for {changes} records");
    assert!(transactions <= 2 * others as usize && changes == owned + copies, "few for each node: {transactions} for {changes}");
}

/// The only copy in sync of a part of the object is on the node that is gone: nobody can take it over, and nobody asks without end.
#[test]
fn who_cannot_take_over_looks_now_and_then() {
    let mut world = World::new(7, &[1000, 1000, 1000], &[0]);
    world.stripe(0, 1);
    world.plays(4000);
    world.stops(0);
    world.plays(2000);
    let reads = world.reads;
    world.plays(10_000);
    assert!(!world.all_served(), "a copy is missing");
    let reads = world.reads - reads;
    assert!((5..=25).contains(&reads), "{reads} reads in ten seconds");
}

/// Another node's copy in sync leaves with a layout change: the owner stops, and goes on at once with those that are left.
#[test]
fn an_owner_goes_on_at_once_without_a_copy_that_the_control_plane_took_away() {
    let mut world = World::new(11, &[1000, 1000, 1000], &[0, 0]);
    everything_is_served(&mut world);
    world.plays(1000);
    let other = *active(&world, 0).iter().find(|n| **n != 0).unwrap();
    let served = world.records[&object(0)].1.ownership.term;
    world.loses(0, other);
    let after =
        world.until(3000, "served again", |world| world.serves(0) == Some(0) && world.records[&object(0)].1.ownership.term > served);
    assert!(after < 500, "{after} ms: nothing was to be waited for");
    assert_eq!(world.serves(1), Some(0));
}

/// Its copy leaves with a layout change: it stops, and has nothing to take over with.
#[test]
pub fn an_owner_without_a_copy_gives_its_object_away() {
    for lost in [0, 5] {
        let mut world = World::new(8, &[1000, 1000, 1000], &[0, 0]);
        everything_is_served(&mut world);
        world.lost = lost;
        world.plays(1000);
        world.loses(0, 0);
        world.until(100, "it stops", |world| world.serves(0) != Some(0));
        let after = world.until(4000, "another one serves it", |world| world.serves(0).is_some_and(|n| n > 0));
        assert!(lost > 0 || after < 1500, "{after} ms");
        assert_eq!(world.serves(1), Some(0), "what it has a copy of it keeps");
    }
}

fn a_copy_comes_back(rates: &[u64]) {
    let objects = 40;
    let mut world = World::new(3, rates, &vec![0; objects]);
    everything_is_served(&mut world);
    world.plays(500);
    let died = world.now;
    world.stops(1);
    let evicted = world.until(1000, "evicted", |world| (0..40).all(|k| !active(world, k).contains(&1)));
    assert!((530..=900).contains(&evicted), "evicted after {evicted} ms");
    assert_eq!(transactions_since(&world, died), (1, objects));
    world.plays(100);
    world.restarts(1);
    world.until(8000, "whole again", World::all_whole);
    assert!((0..objects).all(|k| world.serves(k) == Some(0)));
}

#[test]
pub fn a_copy_whose_node_is_silent_is_evicted_and_comes_back() {
    a_copy_comes_back(&[1000, 1000]);
    a_copy_comes_back(&[1100, 900]);
    a_copy_comes_back(&[900, 1100, 1000]);
}

fn a_cut(rates: &[u64], owners: &[usize], forced: bool) {
    let mut world = World::new(5, rates, owners);
    everything_is_served(&mut world);
    world.plays(300);
    world.close(0, 1, u64::MAX);
    if forced {
        // Somebody takes over by the directory alone.
        (0..owners.len()).for_each(|k| world.with(1, |o, g| o.take_over(g, object(k))));
    }
    world.plays(5000);
    assert!(world.all_served(), "one of both goes on");
    let now = world.now;
    world.close(0, 1, now);
    world.until(12000, "whole again", World::all_whole);
}

#[test]
pub fn a_cut_between_nodes_that_reach_the_directory_leaves_one_owner() {
    a_cut(&[1000, 1000], &[0, 1, 0, 1], false);
    a_cut(&[1100, 900], &[0, 1, 0], false);
    a_cut(&[1000, 900, 1100], &[0, 1, 2, 0], false);
    a_cut(&[900, 1100], &[0, 1, 0], true);
    a_cut(&[900, 1100, 1000], &[0, 1, 2], true);
}

#[test]
pub fn an_owner_that_does_not_hear_of_the_record_stops_before_its_copy_accepts() {
    let mut world = World::new(6, &[1000, 1000], &[0]);
    everything_is_served(&mut world);
    world.plays(1500);
    world.directory(0, false);
    world.with(1, |o, g| o.take_over(g, object(0)));
    world.until(4000, "taken over", |world| world.serves(0) == Some(1));
    assert_eq!(world.nodes[0].owners.state(object(0)), Some(OwnerState::Holder));
    assert_eq!(active(&world, 0), [0, 1].into());
}

#[test]
pub fn a_node_without_directory_and_links_is_taken_over_from() {
    let mut world = World::new(8, &[1100, 900, 1000], &[0, 1, 2, 0]);
    everything_is_served(&mut world);
    world.directory(0, false);
    world.close(0, 1, u64::MAX);
    world.close(0, 2, u64::MAX);
    world.until(5000, "taken over", |world| (0..4).all(|k| world.serves(k).is_some_and(|n| n != 0)));
    // Hosts that reach it still do not wait for it.
    world.until(3000, "let go", |world| (0..4).all(|k| world.nodes[0].owners.state(object(k)) != Some(OwnerState::Serving)));
    world.until(1000, "said to be away", |world| (0..4).all(|k| world.nodes[0].away.contains(&object(k)) == (k != 1 && k != 2)));
    let now = world.now;
    world.directory(0, true);
    world.close(0, 1, now);
    world.close(0, 2, now);
    world.until(12000, "whole again", World::all_whole);
    assert!(world.nodes.iter().all(|node| node.away.is_empty()));
}

/// Nobody takes over from an owner that answers others, and it takes its objects over again itself.
#[test]
fn an_owner_that_cannot_evict_lets_go_and_takes_over_again() {
    let mut world = World::new(9, &[1000, 1000, 1000], &[0, 0]);
    everything_is_served(&mut world);
    world.directory(0, false);
    let copies = active(&world, 0);
    let other = *copies.iter().find(|n| **n != 0).unwrap();
    world.directory(other, false);
    world.stops(other);
    world.until(4000, "let go", |world| (0..2).all(|k| world.nodes[0].owners.state(object(k)) != Some(OwnerState::Serving)));
    world.directory(0, true);
    world.until(4000, "served again", |world| (0..2).all(|k| world.serves(k).is_some()));
    world.restarts(other);
    world.directory(other, true);
    world.until(30000, "whole again", World::all_whole);
}

/// With nobody to leave it to, it does not wait when the directory answers again.
#[test]
fn an_owner_that_cannot_evict_and_is_alone_takes_over_as_soon_as_it_can() {
    let mut world = World::new(21, &[1000, 1000], &[0, 0]);
    everything_is_served(&mut world);
    world.directory(0, false);
    world.stops(1);
    world.until(4000, "let go", |world| (0..2).all(|k| world.nodes[0].owners.state(object(k)) != Some(OwnerState::Serving)));
    world.directory(0, true);
    let after = world.until(4000, "served again", |world| (0..2).all(|k| world.serves(k).is_some()));
    assert!(after < 1500, "{after} ms");
}

#[test]
fn an_object_is_handed_over_to_the_node_that_was_named() {
    let mut world = World::new(9, &[1000, 1100, 900], &[0, 0, 1]);
    everything_is_served(&mut world);
    world.plays(1500);
    let began = world.now;
    let to: NodeId = node(2);
    world.with(0, |o, g| o.prefers(g, object(0), Some(to)));
    let after = world.until(800, "handed over", |world| world.serves(0) == Some(2));
    assert!(after < 500, "{after} ms: nothing was to be waited for");
    assert_eq!(transactions_since(&world, began), (1, 1));
    assert!(world.serves(1) == Some(0) && world.all_whole());
}

#[test]
fn an_object_is_handed_over_to_and_fro() {
    let mut world = World::new(14, &[1000, 1000], &[0]);
    everything_is_served(&mut world);
    world.plays(1500);
    for turn in 0..6 {
        let to = (turn + 1) % 2;
        world.prefers(0, node(to));
        world.until(800, "handed over", |world| world.serves(0) == Some(to));
        world.plays(200);
    }
}

#[test]
fn an_object_that_does_not_drain_stays_and_is_handed_over_later() {
    let mut world = World::new(15, &[1000, 1000], &[0]);
    everything_is_served(&mut world);
    world.plays(1500);
    world.drain_takes = 30_000;
    world.prefers(0, node(1));
    world.until(100, "it drains", |world| world.nodes[0].planes[&object(0)].drains.is_some());
    let after = world.until(1500, "it stays", |world| world.nodes[0].planes[&object(0)].drains.is_none());
    assert!(after < 1100 && world.serves(0) == Some(0), "{after} ms: all that hosts ask of it waits meanwhile");
    let stayed = world.now;
    while world.now < stayed + 9000 * MS {
        world.step();
        assert_eq!(world.nodes[0].planes[&object(0)].drains, None, "it is let alone for a while");
    }
    world.drain_takes = 0;
    world.until(6000, "handed over", |world| world.serves(0) == Some(1));
}

#[test]
fn a_block_that_a_copy_has_lost_is_written_again_by_the_owner() {
    let mut world = World::new(16, &[1000, 1000], &[0, 1]);
    everything_is_served(&mut world);
    world.plays(1500);
    let lost = |k, n| BadBlock { component: component(k, n), block: BlockNo(70 + n as u64) };
    for (k, n) in [(0, 0), (0, 1), (1, 0)] {
        world.with(n, |owners, _| owners.bad_block(node(n), lost(k, n)));
    }
    // It is of another node than it says, or of none.
    world.with(0, |owners, _| owners.bad_block(node(1), lost(0, 0)));
    world.with(0, |owners, _| owners.bad_block(node(1), lost(7, 1)));
    world.plays(300);
    let repairs = |n: usize, k| world.nodes[n].planes[&object(k)].repairs.clone();
    assert_eq!(repairs(0, 0), [(component(0, 0), BlockNo(70)), (component(0, 1), BlockNo(71))]);
    assert_eq!(repairs(1, 1), [(component(1, 0), BlockNo(70))]);
    assert!(repairs(0, 1).is_empty() && repairs(1, 0).is_empty());
}

/// The owner of two objects dies while a device of another node fails, or hangs; that one answers. When they are served again, and after how long.
fn taken_over_while_one_hangs(seed: u64, hangs: usize) -> (World, u64) {
    let mut world = World::new(seed, &[1000, 1000, 1000], &[0, 0]);
    everything_is_served(&mut world);
    world.plays(500);
    world.nodes[hangs].hangs = true;
    world.stops(0);
    let after = world.until(5000, "taken over", World::all_served);
    (world, after)
}

#[test]
fn a_copy_that_cannot_accept_an_epoch_leaves() {
    let (mut world, after) = taken_over_while_one_hangs(18, 2);
    assert!(after < 3000, "{after} ms");
    assert!((0..2).all(|k| world.serves(k) == Some(1) && active(&world, k) == [1].into()));
    world.nodes[2].hangs = false;
    world.restarts(0);
    world.until(60_000, "whole again", World::all_whole);
}

#[test]
fn a_node_whose_own_copy_cannot_accept_its_epoch_gives_the_object_to_another() {
    let (mut world, after) = taken_over_while_one_hangs(19, 1);
    assert!(after < 4000, "{after} ms");
    assert!((0..2).all(|k| world.serves(k) == Some(2) && active(&world, k) == [2].into()), "{:?}", world.records);
    world.plays(8000);
    assert!((0..2).all(|k| world.serves(k) == Some(2)), "it does not take it back while its device hangs");
    world.nodes[1].hangs = false;
    world.restarts(0);
    world.until(60_000, "whole again", World::all_whole);
    world.prefers(0, node(1));
    world.until(2000, "its device works: it can own it again", |world| world.serves(0) == Some(1));
    assert!(active(&world, 0).contains(&1), "what was says nothing of its copy now");
}

#[test]
fn the_last_copy_does_not_leave_for_being_late() {
    let mut world = World::new(20, &[1000, 1000], &[0, 0]);
    everything_is_served(&mut world);
    world.plays(500);
    world.nodes[1].hangs = true;
    world.stops(0);
    world.plays(6000);
    assert!(!world.all_served());
    world.nodes[1].hangs = false;
    world.until(3000, "served when its device goes on", World::all_served);
    world.restarts(0);
    world.until(30_000, "whole again", World::all_whole);
    world.plays(20_000);
    assert!(world.all_whole(), "nobody leaves for what was");
}

#[test]
fn an_object_that_is_not_served_yet_is_handed_over_when_it_is() {
    let mut world = World::new(17, &[1000, 1000], &[0]);
    everything_is_served(&mut world);
    world.plays(1500);
    for turn in 0..6 {
        let to = (turn + 1) % 2;
        world.prefers(0, node(to));
        world.until(800, "the record says so", |world| world.nodes[to].owners.state(object(0)) == Some(OwnerState::Fencing));
    }
}

#[test]
pub fn a_record_that_was_changed_holds_up_no_other_one() {
    let mut world = World::new(10, &[1000, 1000], &vec![0; 100]);
    everything_is_served(&mut world);
    world.plays(300);
    world.stops(0);
    // Each time the transaction is on its way.
    world.until(3000, "asked for", |world| world.nodes[1].owners.state(object(7)) == Some(OwnerState::TakingOver));
    world.touch(7);
    let died = world.now;
    world.until(4000, "taken over", World::all_served);
    assert!(transactions_since(&world, died).0 <= 3);
}

#[test]
fn everything_starts_again_after_all_nodes_were_off() {
    let mut world = World::new(11, &[1000, 1100, 900], &[0, 1, 2, 0, 1]);
    everything_is_served(&mut world);
    (0..3).for_each(|n| world.stops(n));
    world.plays(400);
    (0..3).for_each(|n| world.restarts(n));
    world.until(4000, "served", World::all_served);
    assert!(world.all_whole(), "nobody was evicted for not having been heard yet");
}

#[test]
fn an_owner_without_a_copy_in_sync_that_restarts_is_taken_over_from() {
    let mut world = World::new(12, &[1000, 1000], &[0]);
    everything_is_served(&mut world);
    world.with(0, |o, g| o.plane(g, object(0), 0, crate::owner::Event::CopyFails(component(0, 0))));
    world.until(500, "its own copy leaves", |world| active(world, 0) == [1].into());
    world.plays(2000);
    assert_eq!((world.serves(0), active(&world, 0)), (Some(0), [1].into()), "a copy that fails does not come back");
    world.stops(0);
    world.plays(100);
    world.restarts(0);
    world.until(5000, "taken over", |world| world.serves(0) == Some(1));
    world.until(5000, "whole", World::all_whole);
}

#[test]
fn a_copy_that_fails_comes_back_after_a_while_and_each_time_after_a_longer_one() {
    let mut world = World::new(15, &[1000, 1000], &[0]);
    everything_is_served(&mut world);
    for rest in [10_000, 20_000] {
        world.with(0, |o, g| o.plane(g, object(0), 0, crate::owner::Event::CopyFails(component(0, 1))));
        world.until(500, "it leaves", |world| active(world, 0) == [0].into());
        let after = world.until(30_000, "it is back", World::all_whole);
        assert!((rest - 600..rest + 2000).contains(&after), "after {after} ms");
    }
    world.with(0, |o, g| o.plane(g, object(0), 0, crate::owner::Event::CopyFails(component(0, 1))));
    world.until(500, "it leaves", |world| active(world, 0) == [0].into());
    world.stops(1);
    world.plays(1500);
    world.restarts(1);
    let after = world.until(30_000, "it is back", World::all_whole);
    assert!(after < 5000, "its node has begun anew: {after} ms");
}

#[test]
fn a_copy_that_is_not_there_holds_the_return_of_no_other_one_up_for_ever() {
    let mut world = World::new(16, &[1000, 1000], &[0; 12]);
    everything_is_served(&mut world);
    for k in 0..12 {
        world.with(0, |o, g| o.plane(g, object(k), 0, crate::owner::Event::CopyFails(component(k, 1))));
    }
    world.until(800, "they leave", |world| (0..12).all(|k| active(world, k) == [0].into()));
    (0..8).for_each(|k| world.with(1, |o, g| o.without(g, object(k), component(k, 1))));
    world.until(30_000, "the others are back", |world| (8..12).all(|k| active(world, k).len() == 2));
    assert!((0..8).all(|k| active(&world, k) == [0].into()));
    (0..8).for_each(|k| world.with(1, |o, g| o.component(g, object(k), component(k, 1), None)));
    world.until(60_000, "all are back", World::all_whole);
}

#[test]
pub fn nothing_is_kept_of_objects_that_are_deleted() {
    let mut world = World::new(13, &[1000, 1100, 900], &[0, 1, 2, 0, 1, 2]);
    let empty = world.nodes[0].owners.kept();
    (world.lost, world.late) = (6, 30);
    world.plays(2000);
    world.stops(2);
    world.plays(900);
    world.restarts(2);
    world.plays(300);
    (0..6).for_each(|k| world.remove(k));
    (world.lost, world.late) = (0, 0);
    world.plays(15000);
    for n in 0..3 {
        assert_eq!(world.nodes[n].owners.kept(), empty, "node {n}");
        assert!(world.nodes[n].planes.values().all(|plane| !plane.serving && plane.cell.is_none()));
    }
}
