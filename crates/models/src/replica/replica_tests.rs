//! The whole protocol within bounds, and whether it comes back from wherever it is.

use super::*;
use crate::explore::explore;
use std::collections::BTreeSet;

/// More than any of the bounds has.
const STATES_MAX: usize = 1_000_000;

#[test]
fn no_order_of_events_breaks_a_promise() {
    for bounds in bounds::WHOLE {
        let found = explore(&Replicas(*bounds), STATES_MAX, None);
        println!("{}: {found}", bounds.name);
        assert!(found.broken.is_none() && found.complete, "{}: {found}", bounds.name);
        assert!(found.goals > 40, "{}: too little is reached to mean anything", bounds.name);
    }
}

#[test]
#[ignore = "minutes, and gigabytes of memory"]
fn no_order_of_many_events_breaks_a_promise() {
    for bounds in bounds::DEEP {
        let found = explore(&Replicas(*bounds), 5_000_000, None);
        println!("{}: {found}", bounds.name);
        assert!(found.broken.is_none(), "{}: {found}", bounds.name);
    }
}

/// Every `stride`th state of a model, nearest first.
fn states(bounds: &Bounds, states_max: usize, stride: usize) -> Vec<World> {
    let model = Replicas(*bounds);
    let (mut seen, mut level, mut out) = (BTreeSet::new(), vec![model.first()], Vec::new());
    let mut actions = Vec::new();
    while !level.is_empty() && seen.len() < states_max {
        let mut next = Vec::new();
        for world in level {
            actions.clear();
            model.actions(&world, &mut actions);
            for &action in &actions {
                let after = model.apply(&world, action).unwrap();
                if seen.insert(model.fingerprint(&after)) {
                    if seen.len() % stride == 0 {
                        out.push(after.clone());
                    }
                    next.push(after);
                }
            }
        }
        level = next;
    }
    out
}

/// What is done first where nothing fails any more and only some nodes are there; `None`: not at all.
fn rank(world: &World, alive: Mask, action: Action) -> Option<u8> {
    let there = |n: NodeNo| alive >> n & 1 == 1;
    let owned = matches!(&world.nodes[usize::from(world.record.owner)].role, Role::Owner(o) if o.record == world.record)
        && there(world.record.owner);
    match action {
        Action::Deliver(message) if there(message.ends().0) && there(message.ends().1) => Some(0),
        Action::Decide { from, .. } if there(from) => Some(1),
        Action::ReadAgain { node } | Action::StepDown { node } if there(node) => Some(2),
        Action::Renew { .. } | Action::GrantRunsOut { .. } | Action::WaitOver { .. } | Action::HearIncarnation { .. } => Some(3),
        Action::StopCounting { .. } => Some(4),
        Action::HearRestored { copy } if there(copy) => Some(5),
        Action::ConfirmRestored => Some(5),
        Action::CopyRange { owner, .. } | Action::FinishResync { owner } if there(owner) => Some(6),
        Action::Evict { owner, copy } if there(owner) && !there(copy) => Some(7),
        Action::DropResync { owner }
            if there(owner)
                && matches!(&world.nodes[usize::from(owner)].role, Role::Owner(o) if o.resync.is_some_and(|r| !there(r.copy))) =>
        {
            Some(7)
        }
        Action::BeginResync { owner, copy } if there(owner) && there(copy) => Some(8),
        Action::TakeOver { node, without } if there(node) && !owned && world.record.active() & !alive == without => Some(9),
        _ => None,
    }
}

/// Lets everything end that can, without faults. Whether the object is served then, and all copies that are there are in sync.
fn comes_back(bounds: &Bounds, mut world: World, alive: Mask) -> Result<(), Vec<Action>> {
    let calm = Bounds {
        crashes: 0,
        lost_answers: 0,
        resends: 0,
        reads: 0,
        cuts: 0,
        handovers: 0,
        restores: 0,
        writes: &[],
        epochs: 200,
        ..*bounds
    };
    let model = |epochs: u8| {
        Replicas(Bounds { epochs, grants: bounds.grants.min(1), evicts: true, resyncs: true, takeovers: Takeovers::Any, ..calm })
    };
    world.budget.grants = u8::MAX;
    let (mut actions, mut done) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        // A restored directory goes on above the highest epoch.
        let model = model(if world.record.restored { 20 } else { 200 });
        actions.clear();
        model.actions(&world, &mut actions);
        let Some(&action) = actions.iter().filter(|a| rank(&world, alive, **a).is_some()).min_by_key(|a| rank(&world, alive, **a)) else {
            break;
        };
        done.push(action);
        world = model.apply(&world, action).unwrap();
    }
    let Role::Owner(owner) = &world.nodes[usize::from(world.record.owner)].role else { return Err(done) };
    let back =
        owner.serving && owner.record == world.record && owner.ops.is_empty() && world.record.active() == alive & bounds.all_copies();
    if back { Ok(()) } else { Err(done) }
}

#[test]
fn after_a_loss_of_power_of_all_nodes_every_state_comes_back_by_itself() {
    use bounds::{APART, GRANTS, HEALED, PAIR, RESTORED, RETURN_ANY, TAKEN, THREE};
    for bounds in [PAIR, THREE, GRANTS, RETURN_ANY, TAKEN, HEALED, RESTORED, APART] {
        let all = states(&bounds, 20_000, 23);
        for mut world in all.iter().cloned() {
            (0..bounds.nodes).for_each(|n| world.crash(&bounds, n as u8));
            world.nodes.iter_mut().for_each(|node| node.cut = false);
            let back = comes_back(&bounds, world.clone(), (1 << bounds.nodes) - 1);
            assert_eq!(back, Ok(()), "{}: {world:?}", bounds.name);
        }
        println!("{}: {} states", bounds.name, all.len());
    }
}

#[test]
fn one_copy_in_sync_is_enough_to_go_on() {
    for bounds in [bounds::PAIR, bounds::THREE, bounds::GRANTS, bounds::RETURN_ANY, bounds::TAKEN, bounds::HEALED, bounds::APART] {
        let mut tried = 0;
        for world in states(&bounds, 20_000, 23) {
            // The others do nothing any more, and what they have sent does not come.
            for n in bits(world.record.active()) {
                let mut world = world.clone();
                world.nodes.iter_mut().for_each(|node| node.cut = false);
                tried += 1;
                let back = comes_back(&bounds, world.clone(), 1 << n);
                assert_eq!(back, Ok(()), "{}: {n} of {world:?}", bounds.name);
            }
        }
        println!("{}: {tried} times", bounds.name);
    }
}

#[test]
fn names_of_nodes_mean_nothing() {
    for bounds in [bounds::THREE, bounds::TWO_OUT] {
        for world in states(&bounds, 4_000, 7) {
            assert_eq!(world.swapped(1, 2).swapped(2, 1), world);
            let count = |world: &World| {
                let mut actions = Vec::new();
                world.actions(&bounds, &mut actions);
                actions.len()
            };
            assert_eq!(count(&world), count(&world.swapped(1, 2)));
        }
    }
}
