//! Whatever happens, from seeds; and faults that are noticed.

use super::world::*;
use crate::owners::Balancing;

fn chance(world: &mut World) {
    let count = world.nodes.len() as u64;
    let n = world.rng.below(count) as usize;
    let o = (n + 1 + world.rng.below(count - 1) as usize) % count as usize;
    let objects = world.records.len() as u64;
    let k = world.rng.below(objects) as usize;
    let soon = |world: &mut World, ms| world.now + world.rng.below(ms) * MS;
    match world.rng.below(700) {
        0..2 => {
            let opens = soon(world, 3000);
            world.close(n, o, opens);
        }
        2 => world.nodes[n].paused = soon(world, 1500),
        3 if world.rng.one_in(2) && world.nodes[n].up => world.stops(n),
        4..8 if !world.nodes[n].up => world.restarts(n),
        8..10 => {
            let reaches = !world.nodes[n].reaches_directory;
            world.directory(n, reaches);
        }
        10 => world.prefers(k, node(o)),
        11 if world.nodes[n].up => world.with(n, |owners, g| owners.take_over(g, object(k))),
        12 => world.touch(k),
        14 => drop(world.hosts.insert(object(k), [(o, 400)].into())),
        13 => world.drain_takes = world.rng.below(2) * 4000,
        _ => {}
    }
}

fn seeds(seeds: core::ops::Range<u64>) {
    let (mut answered, mut transactions) = (0, 0);
    for seed in seeds.clone() {
        let rates: Vec<u64> = (0..2 + seed % 2).map(|n| [900, 1000, 1100][((seed / 2 + n * (1 + seed / 6)) % 3) as usize]).collect();
        let owners: Vec<usize> = (0..6).map(|k| k % rates.len()).collect();
        let mut world = World::new(seed, &rates, &owners);
        (world.lost, world.late) = (12, 60);
        if seed % 3 == 0 {
            (0..rates.len()).for_each(|n| world.nodes[n].owners.balances(Balancing::Hurried));
        }
        for _ in 0..3000 {
            world.step();
            chance(&mut world);
        }
        (world.lost, world.late) = (0, 0);
        for n in 0..rates.len() {
            world.directory(n, true);
            world.nodes[n].paused = 0;
            if !world.nodes[n].up {
                world.restarts(n);
            }
            for o in (0..n).filter(|o| !world.is_open(*o, n)).collect::<Vec<_>>() {
                let now = world.now;
                world.close(n, o, now);
            }
        }
        let before = world.answered;
        world.until(20_000, &format!("seed {seed}: everything is served and whole"), World::all_whole);
        world.plays(300);
        assert!(world.answered > before, "seed {seed}: no read is answered");
        assert!(world.nodes.iter().all(|node| node.owners.kept() < 100), "seed {seed}: something is kept");
        (answered, transactions) = (answered + world.answered, transactions + world.transactions.len() as u64);
    }
    let count = seeds.end - seeds.start;
    assert!(answered > 1000 * count && transactions > 20 * count, "{answered} reads, {transactions} transactions in {count} worlds");
}

#[test]
fn whatever_happens_there_is_one_owner_and_everything_comes_back() {
    seeds(0..150);
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_of_the_host_are_noticed() {
    use super::{balance, host, many};
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::KeptWithoutCopy, many::an_owner_without_a_copy_gives_its_object_away);
    notices(SeededFault::FencedBeforeOwned, many::the_objects_of_a_node_that_dies_are_taken_over_in_few_transactions);
    notices(SeededFault::ChangeBeforeNeeds, many::a_copy_whose_node_is_silent_is_evicted_and_comes_back);
    notices(SeededFault::AcceptedBeforeStop, many::an_owner_that_does_not_hear_of_the_record_stops_before_its_copy_accepts);
    notices(SeededFault::BlockForgotten, host::a_node_that_takes_over_grants_nothing_of_the_object);
    notices(SeededFault::LostBatchMade, || seeds(0..40));
    notices(SeededFault::RefusedBatchDropped, many::a_record_that_was_changed_holds_up_no_other_one);
    notices(SeededFault::WaitingFenceForgotten, host::a_node_that_takes_over_grants_nothing_of_the_object);
    notices(SeededFault::EarlyFenceDropped, host::an_object_that_was_restored_is_served_once_its_copies_are_known);
    notices(SeededFault::RemovedObjectKept, many::nothing_is_kept_of_objects_that_are_deleted);
    notices(SeededFault::NeverLetsGo, many::a_node_without_directory_and_links_is_taken_over_from);
    notices(SeededFault::AwayUnsaid, many::a_node_without_directory_and_links_is_taken_over_from);
    notices(SeededFault::HostsForgotten, balance::an_object_whose_hosts_are_here_does_not_go_for_the_load);
    notices(SeededFault::EndUnheard, balance::copies_of_a_node_that_ends_leave_with_its_links);
    notices(SeededFault::HandedToWhoEnds, balance::a_node_that_ends_hands_over_what_others_can_have);
    notices(SeededFault::LastCopiesPartAtTheEnd, balance::nodes_that_end_together_keep_their_copies_in_sync);
    notices(SeededFault::SpreadTooFar, balance::objects_spread_over_the_nodes_and_then_stay);
    notices(SeededFault::FencedByAnyone, host::only_the_node_of_a_copy_answers_for_it);
}
