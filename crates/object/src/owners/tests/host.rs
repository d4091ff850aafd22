//! What the host says to the machines of grants, and whom it hears.

use super::world::*;
use crate::owner::{Fenced, OwnerState, Revision};
use crate::owners::Action;
use base::Epoch;
use format::peer::{Fence, GrantState, Heartbeat};

/// What node 1 grants node 0 of an object that it claims.
fn granted(world: &mut World) -> GrantState {
    let clock = world.clock(1);
    let beat = Heartbeat { clock: Some(world.clock(0)), claims: vec![(object(0), true)] };
    world.nodes[1].granter.heartbeat(node(0), &beat).unwrap();
    let grant = world.nodes[1].granter.grant(node(0), clock).unwrap();
    grant.objects.iter().find(|(of, _)| *of == object(0)).unwrap().1
}

#[test]
pub fn a_node_that_takes_over_grants_nothing_of_the_object() {
    let mut world = World::new(1, &[1000, 1000], &[0]);
    world.until(4000, "served", World::all_served);
    world.plays(1500);
    assert_eq!(granted(&mut world), GrantState::Given);
    world.with(1, |o, g| o.take_over(g, object(0)));
    world.until(500, "asked for", |world| world.nodes[1].owners.state(object(0)) == Some(OwnerState::TakingOver));
    assert!(matches!(granted(&mut world), GrantState::Waits(_)), "from when it asks for the ownership");
    world.until(4000, "taken over", |world| world.serves(0) == Some(1));
    let state = granted(&mut world);
    assert!(matches!(state, GrantState::Accepted(_)), "{state:?}: its copy has the epoch of another one");
}

#[test]
pub fn only_the_node_of_a_copy_answers_for_it() {
    let mut world = World::new(2, &[1000, 1000, 1000], &[0]);
    world.until(4000, "served", World::all_served);
    world.plays(1500);
    world.with(1, |o, g| o.take_over(g, object(0)));
    world.until(500, "it fences", |world| world.nodes[1].owners.state(object(0)) == Some(OwnerState::Fencing));
    let epoch = world.nodes[1].owners.record_of(object(0)).unwrap().epoch();
    for n in 0..3 {
        let fenced = Fenced { from: component(0, n), epoch, lanes: vec![], resync: None };
        world.with(1, |o, g| o.fenced(g, node(2), fenced));
    }
    assert_eq!(world.nodes[1].owners.state(object(0)), Some(OwnerState::Fencing), "node 2 speaks for itself");
    world.until(4000, "all have answered", |world| world.serves(0) == Some(1));
}

/// After a restore a copy says in the record what it had accepted: that stays so until the record is confirmed, whoever fences it.
#[test]
pub fn a_copy_of_a_restored_object_accepts_nothing() {
    let mut world = World::new(3, &[1000, 1000], &[0]);
    world.until(4000, "served", World::all_served);
    let (revision, mut record) = world.records[&object(0)].clone();
    let fence = |record: &base::OwnershipRecord| Fence {
        object: object(0),
        component: component(0, 1),
        epoch: Epoch(record.epoch().0 + 1),
        period_start: record.ownership.period_start,
        resync: false,
    };
    record.restored = true;
    for n in 0..2 {
        assert!(world.with(n, |o, g| o.record(g, object(0), Revision(revision.0 + 1), record.clone())));
    }
    assert_eq!(world.nodes[0].owners.state(object(0)), Some(OwnerState::Holder), "the owner goes by it, too");
    let by = base::OwnerId { node: node(0), incarnation: base::Incarnation(1) };
    let accepts = world.with(1, |o, g| {
        o.fence(g, by, fence(&record));
        core::iter::from_fn(|| o.pop(g.now)).any(|action| matches!(action, Action::Accept { .. }))
    });
    assert!(!accepts);
}

/// Nodes hear one after the other that it is known which copies are right. A fence that comes before that waits for it.
#[test]
pub fn an_object_that_was_restored_is_served_once_its_copies_are_known() {
    for seed in 0..3 {
        let mut world = World::new(seed, &[1000, 1000], &[0]);
        world.until(4000, "served", World::all_served);
        world.restored(0, true);
        world.plays(500);
        assert_eq!(world.serves(0), None, "nobody knows which copies are right");
        world.directory(1, false);
        world.restored(0, false);
        world.plays(5000);
        assert_eq!(world.nodes[0].owners.state(object(0)), Some(OwnerState::Fencing));
        assert_eq!(world.serves(0), None, "a copy waits to hear it");
        world.directory(1, true);
        world.until(4000, &format!("seed {seed}: served again"), World::all_whole);
    }
}
