//! What a half promises of requests that are with another node: what is said of a link that is lost, when a lost change is answered, and when a view is
//! confirmed.

use super::rig::{BLOCK, Rig, data};
use crate::LinkSecurity;
use crate::limits::{LINK_GONE, LOST_AFTER};
use base::Duration;
use object::{ForwardOutcome, IoError, IoOp};

const SOON: Duration = Duration::from_millis(100);

fn write() -> IoOp {
    IoOp::Write { offset: 0, data: data(BLOCK, 1) }
}

#[test]
fn a_link_that_stays_closed_is_said_to_be() {
    let mut rig = Rig::started(21, [1, 1], LinkSecurity::Plain);
    rig.open(1);
    assert_eq!(rig.links_said(0), [true]);
    rig.world.reset_connections(rig.hosts[0], rig.hosts[1]);
    rig.world.run_for(SOON);
    assert_eq!(rig.links_said(0), [false; 0], "another one comes soon");
    rig.world.cut_both(rig.hosts[0], rig.hosts[1]);
    rig.world.run_for(LINK_GONE + Duration::from_secs(2));
    assert_eq!(rig.links_said(0), [false]);
    rig.world.heal_both(rig.hosts[0], rig.hosts[1]);
    rig.world.run_for(Duration::from_secs(3));
    assert_eq!(rig.links_said(0), [true]);
}

#[test]
fn a_change_whose_link_is_lost_is_answered_when_it_cannot_begin_any_more() {
    let mut rig = Rig::started(22, [1, 1], LinkSecurity::Plain);
    rig.open(1);
    rig.holds(1, true);
    let (id, began) = (rig.begin(0, 0, write()), rig.world.now());
    assert!(rig.end(0, 0, id, SOON).is_none() && !rig.has(1).is_empty(), "it has begun");
    rig.world.reset_connections(rig.hosts[0], rig.hosts[1]);
    let outcome = rig.end(0, 0, id, Duration::from_secs(3));
    assert!(matches!(outcome, Some(ForwardOutcome::Answered(Err(IoError::NoPath)))), "{outcome:?}");
    let took = rig.world.now().since(began);
    assert!(took >= LOST_AFTER && took < LOST_AFTER + SOON, "{took:?}");
}

#[test]
fn a_view_is_confirmed_when_all_cores_go_by_it() {
    let mut rig = Rig::started(23, [1, 2], LinkSecurity::Plain);
    rig.open(1);
    rig.said.iter_mut().for_each(|said| said.revision = 2);
    rig.apply_on(0, 0);
    rig.apply_on(1, 0);
    let id = rig.begin(0, 0, IoOp::Flush);
    let outcome = rig.end(0, 0, id, SOON);
    assert!(outcome.is_none(), "one core goes by the one before: {outcome:?}");
    rig.apply_on(1, 1);
    let outcome = rig.end(0, 0, id, SOON);
    assert!(matches!(outcome, Some(ForwardOutcome::Answered(Ok(_)))), "{outcome:?}");
}

#[test]
fn a_view_is_confirmed_when_nothing_is_under_way_that_was_judged_by_the_one_before() {
    let mut rig = Rig::started(24, [1, 1], LinkSecurity::Plain);
    rig.open(1);
    rig.holds(1, true);
    let before = rig.begin(0, 0, write());
    assert!(rig.end(0, 0, before, SOON).is_none() && !rig.has(1).is_empty(), "it has begun");
    rig.said.iter_mut().for_each(|said| said.revision = 2);
    rig.apply();
    let id = rig.begin(0, 0, IoOp::Flush);
    let outcome = rig.end(0, 0, id, SOON);
    assert!(outcome.is_none(), "a write of before is under way: {outcome:?}");
    rig.holds(1, false);
    for id in [before, id] {
        let outcome = rig.end(0, 0, id, SOON);
        assert!(matches!(outcome, Some(ForwardOutcome::Answered(Ok(_)))), "{outcome:?}");
    }
}

#[test]
fn a_view_is_confirmed_by_the_node_that_owns_the_volume() {
    let mut rig = Rig::started(25, [1, 2], LinkSecurity::Plain);
    rig.open(1);
    for taken_over in [true, false] {
        rig.is_taken_over(1, taken_over);
        let id = rig.begin(0, 0, IoOp::Flush);
        let outcome = rig.end(0, 0, id, SOON);
        match (taken_over, &outcome) {
            (true, Some(ForwardOutcome::NotDone(_))) | (false, Some(ForwardOutcome::Answered(Ok(_)))) => {}
            _ => panic!("taken over: {taken_over}, {outcome:?}"),
        }
    }
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_of_promises_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::LinkLossUnreported, a_link_that_stays_closed_is_said_to_be);
    notices(SeededFault::LostAnsweredAtOnce, a_change_whose_link_is_lost_is_answered_when_it_cannot_begin_any_more);
    notices(SeededFault::ConfirmAsksOneCore, a_view_is_confirmed_when_all_cores_go_by_it);
    notices(SeededFault::ConfirmedWithoutGrants, a_view_is_confirmed_by_the_node_that_owns_the_volume);
    notices(SeededFault::ConfirmedUnderWay, a_view_is_confirmed_when_nothing_is_under_way_that_was_judged_by_the_one_before);
}
