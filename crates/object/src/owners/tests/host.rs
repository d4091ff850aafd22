//! What the host says to the machines of grants, and whom it hears.

use super::world::*;
use crate::owner::{Fenced, OwnerState};
use format::peer::{GrantState, Heartbeat};

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
