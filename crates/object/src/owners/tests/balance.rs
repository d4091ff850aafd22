//! Objects go where their hosts are, and to nodes that have less to do; and no further.

use super::world::*;
use std::collections::BTreeMap;

/// A world whose objects have been served for so long that they may go.
fn settled(seed: u64, nodes: usize, owners: &[usize]) -> World {
    let mut world = World::new(seed, &vec![1000; nodes], owners);
    world.until(4000, "served", World::all_served);
    world
}
fn owners(world: &World) -> Vec<usize> {
    (0..world.records.len()).map(|k| world.serves(k).unwrap()).collect()
}
fn counts(world: &World) -> Vec<usize> {
    let owners = owners(world);
    (0..world.nodes.len()).map(|n| owners.iter().filter(|owner| **owner == n).count()).collect()
}

/// These nodes are about to end, and have handed over what they can: nothing is on its way any more.
fn ends(world: &mut World, nodes: &[usize]) {
    let (began, mut quiet) = (world.now, world.now);
    while world.now - quiet < 1_000 * MS {
        for n in nodes {
            if world.with(*n, |owners, g| owners.ends(g)) {
                quiet = world.now;
            }
        }
        world.step();
        assert!(world.now - began < 3_000 * MS, "it takes no longer than a hand-over");
    }
}

#[test]
fn an_object_follows_its_hosts_and_stays_with_them() {
    let mut world = settled(1, 3, &[0, 0]);
    world.prefers(1, node(0));
    world.hosts.insert(object(0), BTreeMap::from([(2, 200), (0, 20)]));
    world.hosts.insert(object(1), BTreeMap::from([(2, 200)]));
    world.plays(55_000);
    assert_eq!(owners(&world), [0, 0], "not before it has been here for a minute");
    let took = world.until(30_000, "it follows", |world| world.serves(0) == Some(2));
    assert!(took < 15_000, "{took} ms");
    world.plays(180_000);
    assert_eq!(owners(&world), [2, 0], "one has a preferred owner");
    assert_eq!(world.went.len(), 1, "{:?}", world.went);
}

#[test]
fn hosts_on_all_nodes_alike_and_hosts_that_ask_little_move_nothing() {
    let mut world = settled(2, 3, &[0, 1, 2]);
    world.hosts.insert(object(0), (0..3).map(|n| (n, 300)).collect());
    world.hosts.insert(object(1), BTreeMap::from([(2, 5)]));
    world.hosts.insert(object(2), BTreeMap::from([(2, 300)]));
    world.plays(200_000);
    assert_eq!(owners(&world), [0, 1, 2]);
    assert!(world.went.is_empty(), "{:?}", world.went);
}

#[test]
pub fn objects_spread_over_the_nodes_and_then_stay() {
    let mut world = settled(3, 3, &[0; 13]);
    world.plays(150_000);
    let after = counts(&world);
    assert!(after.iter().all(|n| (3..=5).contains(n)), "{after:?}");
    let went = world.went.len();
    world.plays(300_000);
    assert_eq!(world.went.len(), went, "to and fro: {:?}", world.went);
}

#[test]
fn what_is_asked_counts_as_load() {
    let mut world = settled(4, 2, &[0, 0, 1, 1, 1, 1]);
    // The hosts follow the owner: what they ask comes by whoever owns the object.
    let rates = [8_000, 7_000, 10, 10, 10, 10];
    let follow = |world: &mut World| {
        for (k, rate) in rates.iter().enumerate() {
            let owner = world.serves(k).unwrap_or(0);
            world.hosts.insert(object(k), BTreeMap::from([(owner, *rate)]));
        }
    };
    for _ in 0..200 {
        follow(&mut world);
        world.plays(1000);
    }
    let owners = owners(&world);
    assert_ne!(owners[0], owners[1], "two that are asked much: {owners:?}");
    assert_eq!(world.went.len(), 1, "{:?}", world.went);
}

#[test]
pub fn an_object_whose_hosts_are_here_does_not_go_for_the_load() {
    let mut world = settled(5, 2, &[1, 1, 0]);
    for (k, rate) in [(0, 5_000), (1, 3_000)] {
        world.hosts.insert(object(k), BTreeMap::from([(0, rate)]));
    }
    world.plays(90_000);
    assert_eq!(owners(&world)[..2], [0, 0], "their hosts have no other path");
    world.plays(400_000);
    let now = owners(&world);
    assert_eq!(now[..2], [0, 0], "{now:?}: {:?}", world.went);
    assert_eq!(now[2], 1, "the one without hosts makes room");
    assert_eq!(world.went.len(), 3, "each once: {:?}", world.went);
}

/// What a node that is about to end owns goes to the others, to each as much, whoever is preferred, and nothing comes back before it is back.
#[test]
pub fn a_node_that_ends_hands_over_what_others_can_have() {
    let mut world = settled(7, 3, &[0, 0, 0, 0, 1, 2]);
    world.prefers(0, node(0));
    world.plays(100);
    // One has its only copy on the node that ends.
    [1, 2].into_iter().for_each(|n| world.loses(3, n));
    world.until(10_000, "they are out", |world| active(world, 3).len() == 1);
    ends(&mut world, &[0]);
    world.until(2_000, "they are served elsewhere", |world| (0..3).all(|k| world.serves(k).is_some_and(|n| n != 0)));
    assert_eq!(world.serves(3), Some(0), "it has nowhere to go");
    let mut after = counts(&world);
    after.sort_unstable();
    assert_eq!(after, [1, 2, 3], "{after:?}: as much to each");
    world.plays(60_000);
    assert_ne!(world.serves(0), Some(0), "nobody gives it back");
    assert!((0..3).all(|k| active(&world, k).len() == 3), "its copies get what hosts write, while it is there");
    world.stops(0);
    world.plays(5_000);
    world.restarts(0);
    world.until(60_000, "it is given back", |world| world.serves(0) == Some(0));
}

/// Their hosts wait for an eviction, and not until it is noticed that the node is silent.
#[test]
pub fn copies_of_a_node_that_ends_leave_with_its_links() {
    let mut world = settled(8, 3, &[1, 2]);
    ends(&mut world, &[0]);
    world.stops(0);
    let took = world.until(2_000, "they leave", |world| (0..2).all(|k| active(world, k).len() == 2));
    assert!(took < 200, "{took} ms");
}

/// All nodes of a cluster are shut down at about the same time. Nobody goes on without the others, so each object comes back with the copies that it had.
#[test]
pub fn nodes_that_end_together_keep_their_copies_in_sync() {
    for apart in [0, 5, 100, 1_000, 2_500] {
        let mut world = settled(9, 2, &[0, 1, 0, 1]);
        ends(&mut world, &[0, 1]);
        world.stops(0);
        world.plays(apart);
        world.stops(1);
        assert!((0..4).all(|k| active(&world, k).len() == 2), "{apart} ms apart: {:?}", world.records);
        world.restarts(1);
        world.plays(apart);
        world.restarts(0);
        world.until(20_000, "all is served", World::all_whole);
    }
}

/// What a third node can have goes there, and that one does without the two that end.
#[test]
fn two_nodes_of_three_that_end_together_leave_all_to_the_third() {
    let mut world = settled(10, 3, &[0, 1, 2]);
    ends(&mut world, &[0, 1]);
    world.until(2_000, "it has all", |world| (0..3).all(|k| world.serves(k) == Some(2)));
    [0, 1].into_iter().for_each(|n| world.stops(n));
    world.until(2_000, "it goes on alone", |world| (0..3).all(|k| active(world, k).len() == 1));
    [0, 1].into_iter().for_each(|n| world.restarts(n));
    world.until(60_000, "all is whole", World::all_whole);
}

#[test]
fn an_object_goes_to_no_node_that_is_away_or_out_of_sync() {
    let mut world = settled(6, 3, &[0, 0, 0, 0, 0, 0]);
    world.stops(2);
    world.plays(150_000);
    let after = counts(&world);
    assert_eq!(after, [3, 3, 0]);
    world.restarts(2);
    world.until(60_000, "all whole", World::all_whole);
    world.plays(200_000);
    assert_eq!(counts(&world), [2, 2, 2]);
}
