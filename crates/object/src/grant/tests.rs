//! Granter and counter by hand.

use super::*;
use crate::owner::Reach;
use base::{ComponentId, Epoch, Incarnation, Instant, NodeId, ObjectId, OwnerId};
use format::peer::{BEAT_ENTRIES_MAX, Grant, GrantState, Heartbeat};

fn at(ms: u64) -> Instant {
    Instant(5_000_000_000) + Duration::from_millis(ms)
}
fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}
fn owner(n: u8, life: u64) -> OwnerId {
    OwnerId { node: node(n), incarnation: Incarnation(life) }
}
fn object(n: u16) -> ObjectId {
    let mut id = [7; 16];
    id[..2].copy_from_slice(&n.to_be_bytes());
    ObjectId::from_bytes(id)
}
fn component(n: u8) -> ComponentId {
    ComponentId::from_bytes([n; 16])
}
const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;

/// Node B, with a copy of object 0 that has accepted epoch 4 of node A, long after its start; A has a link and claims the object.
fn granter() -> Granter {
    let mut b = Granter::new(node(B), at(0));
    b.component(object(0), component(0), Some((Epoch(4), owner(A, 1))));
    b.opened(node(A), Incarnation(1));
    asks(&mut b, A, &[(0, true)], 5000);
    b
}
/// A node sends a heartbeat with these claims: the answer.
fn asks(granter: &mut Granter, from: u8, claims: &[(u16, bool)], ms: u64) -> Vec<(ObjectId, GrantState)> {
    let claims = claims.iter().map(|(n, owned)| (object(*n), *owned)).collect();
    granter.heartbeat(node(from), &Heartbeat { clock: Some(at(ms)), claims }).unwrap();
    let mut all = Vec::new();
    while let Some(grant) = granter.grant(node(from), at(ms)) {
        all.extend(grant.objects);
        assert!(grant.clock.is_none_or(|clock| clock == at(ms)));
    }
    all
}
fn fence(granter: &mut Granter, epoch: u32, by: OwnerId, ms: u64) -> Verdict {
    granter.fence(object(0), component(0), Epoch(epoch), by, at(ms))
}
fn accepts(granter: &mut Granter, epoch: u32, by: OwnerId, ms: u64) {
    assert_eq!(fence(granter, epoch, by, ms), Verdict::Accept);
    granter.accepted(object(0), component(0), Epoch(epoch), by);
}

#[test]
fn another_owners_epoch_waits_until_the_grants_to_the_last_one_have_run_out_and_no_new_ones_are_of_its_object() {
    let mut b = granter();
    assert_eq!(asks(&mut b, A, &[], 6000), [], "what has not changed is not named");
    assert_eq!(fence(&mut b, 5, owner(C, 1), 6100), Verdict::Wait(Some(at(7000))));
    assert_eq!(asks(&mut b, A, &[], 6200), [(object(0), GrantState::Waits(Epoch(5)))]);
    assert_eq!(asks(&mut b, A, &[], 6900), []);
    assert_eq!(fence(&mut b, 5, owner(C, 1), 6999), Verdict::Wait(Some(at(7000))), "grants for other objects do not count");
    accepts(&mut b, 5, owner(C, 1), 7000);
    assert_eq!(asks(&mut b, A, &[], 7050), [(object(0), GrantState::Accepted(Epoch(5)))]);
    assert_eq!(fence(&mut b, 4, owner(A, 1), 7100), Verdict::Refused(Epoch(5)));
    assert_eq!(fence(&mut b, 5, owner(A, 1), 7100), Verdict::Refused(Epoch(5)), "an epoch is one owner's");
    assert_eq!(fence(&mut b, 5, owner(C, 1), 7100), Verdict::Accept, "the answer was lost");
    assert_eq!(b.has_accepted(object(0), component(0)), Some((Epoch(5), owner(C, 1))));
}

#[test]
fn the_last_owners_node_need_not_wait() {
    let mut b = granter();
    accepts(&mut b, 6, owner(A, 1), 5001);
    accepts(&mut b, 7, owner(A, 2), 5002);
    assert_eq!(asks(&mut b, A, &[], 5100), [], "nothing has changed for it");
}

#[test]
fn the_own_nodes_epoch_waits_too() {
    let mut b = granter();
    b.block(object(0), true);
    assert_eq!(asks(&mut b, A, &[], 5500), [(object(0), GrantState::Waits(Epoch(u32::MAX)))]);
    assert_eq!(fence(&mut b, 5, owner(B, 9), 5900), Verdict::Wait(Some(at(6000))), "counted from when it was taken over");
    accepts(&mut b, 5, owner(B, 9), 6000);
    b.block(object(0), false);
    assert_eq!(asks(&mut b, A, &[], 6100), [(object(0), GrantState::Accepted(Epoch(5)))]);
}

#[test]
fn a_takeover_that_was_refused_gives_grants_again() {
    let mut b = granter();
    b.block(object(0), true);
    assert_eq!(asks(&mut b, A, &[], 5500), [(object(0), GrantState::Waits(Epoch(u32::MAX)))]);
    b.block(object(0), false);
    assert_eq!(asks(&mut b, A, &[], 5600), [(object(0), GrantState::Given)]);
    assert_eq!(fence(&mut b, 5, owner(C, 1), 5700), Verdict::Wait(Some(at(6600))), "they count");
}

#[test]
fn a_later_life_or_a_release_makes_the_wait_unnecessary() {
    let mut b = granter();
    assert!(matches!(fence(&mut b, 5, owner(C, 1), 5100), Verdict::Wait(Some(_))));
    b.seen(node(A), Incarnation(2));
    accepts(&mut b, 5, owner(C, 1), 5100);

    let mut b = granter();
    b.released(node(A), object(0), Epoch(3));
    assert!(matches!(fence(&mut b, 5, owner(C, 1), 5100), Verdict::Wait(Some(_))), "an earlier term was released");
    b.released(node(C), object(0), Epoch(4));
    assert!(matches!(fence(&mut b, 5, owner(C, 1), 5100), Verdict::Wait(Some(_))), "by somebody else");
    b.released(node(A), object(0), Epoch(4));
    accepts(&mut b, 5, owner(C, 1), 5100);
}

#[test]
fn after_a_restart_nobody_elses_epoch_is_accepted_for_a_second() {
    let mut b = Granter::new(node(B), at(0));
    b.component(object(0), component(0), Some((Epoch(4), owner(A, 1))));
    assert_eq!(fence(&mut b, 5, owner(C, 1), 10), Verdict::Wait(Some(at(1000))));
    accepts(&mut b, 6, owner(A, 1), 20);
    b.opened(node(A), Incarnation(1));
    assert_eq!(asks(&mut b, A, &[(0, true)], 30), [(object(0), GrantState::Given)], "it may grant meanwhile");
    assert_eq!(fence(&mut b, 7, owner(C, 1), 40), Verdict::Wait(Some(at(1030))));
}

#[test]
fn while_an_epoch_is_made_durable_another_one_waits() {
    let mut b = granter();
    assert_eq!(fence(&mut b, 5, owner(C, 1), 6001), Verdict::Accept);
    assert_eq!(fence(&mut b, 6, owner(A, 1), 6001), Verdict::Wait(None));
    b.opened(node(C), Incarnation(1));
    assert_eq!(asks(&mut b, C, &[(0, true)], 6010), [(object(0), GrantState::Accepted(Epoch(4)))]);
    b.accepted(object(0), component(0), Epoch(5), owner(C, 1));
    assert_eq!(fence(&mut b, 6, owner(A, 1), 6020), Verdict::Wait(Some(at(7010))), "the grant to the owner that was accepted counts");
    b.not_accepted(object(0), component(0));
    assert_eq!(fence(&mut b, 6, owner(A, 1), 7010), Verdict::Accept);
}

#[test]
fn nothing_is_granted_of_a_copy_that_is_not_known_yet() {
    let mut b = Granter::new(node(B), at(0));
    b.opened(node(A), Incarnation(1));
    assert_eq!(asks(&mut b, A, &[(0, true)], 10), [(object(0), GrantState::Waits(Epoch(u32::MAX)))]);
    b.component(object(0), component(0), Some((Epoch(6), owner(C, 1))));
    assert_eq!(asks(&mut b, A, &[], 110), [(object(0), GrantState::Accepted(Epoch(6)))]);
    b.component(object(0), component(1), Some((Epoch(8), owner(A, 1))));
    assert_eq!(asks(&mut b, A, &[], 210), [(object(0), GrantState::Given)], "of two copies the one with the higher epoch says");
    b.without(object(0), component(1));
    b.without(object(0), component(0));
    assert_eq!(asks(&mut b, A, &[], 310), [(object(0), GrantState::Waits(Epoch(u32::MAX)))]);
    assert_eq!(asks(&mut b, A, &[(0, false)], 410), []);
    assert!(matches!(b.fence(object(0), component(0), Epoch(9), owner(A, 1), at(5000)), Verdict::Refused(Epoch(0))));
}

#[test]
fn a_new_link_claims_anew_and_grants_of_the_old_one_run_on() {
    let mut b = granter();
    asks(&mut b, A, &[], 5400);
    b.closed(node(A));
    b.opened(node(A), Incarnation(1));
    assert_eq!(fence(&mut b, 5, owner(C, 1), 5500), Verdict::Wait(Some(at(6400))));
    assert_eq!(asks(&mut b, A, &[], 5600), [], "it has claimed nothing on this link");
    assert_eq!(asks(&mut b, A, &[(0, true)], 5700), [(object(0), GrantState::Waits(Epoch(5)))]);
    accepts(&mut b, 5, owner(C, 1), 6400);
}

#[test]
fn more_is_not_claimed_than_may_be() {
    let mut b = granter();
    let part = |from: usize| (from..from + BEAT_ENTRIES_MAX).map(|n| (object(n as u16), true)).collect::<Vec<_>>();
    let claims = |from| Heartbeat { clock: None, claims: part(from) };
    let refused = (0..).step_by(BEAT_ENTRIES_MAX).find(|from| b.heartbeat(node(A), &claims(*from)) == Err(TooManyClaims));
    assert_eq!(refused, Some(CLAIMS_MAX / BEAT_ENTRIES_MAX * BEAT_ENTRIES_MAX));
    b.closed(node(A));
    assert_eq!(b.grant(node(A), at(6000)), None);
}

/// Node A, with links to B and C since 0.
fn counter() -> Counter {
    let mut a = Counter::new();
    for n in [B, C] {
        a.add(node(n), at(0));
        a.opened(node(n), at(0));
    }
    a
}
/// All parts of the heartbeat that is due: its claims.
fn beats(counter: &mut Counter, to: u8, ms: u64) -> Option<Vec<(ObjectId, bool)>> {
    let mut claims = Vec::new();
    while let Some(part) = counter.heartbeat(node(to), at(ms)) {
        claims.extend(part.claims);
        if let Some(clock) = part.clock {
            assert_eq!(clock, at(ms));
            return Some(claims);
        }
    }
    None
}
fn granted(counter: &mut Counter, by: u8, sent: u64, objects: &[(u16, GrantState)], ms: u64) -> Vec<(ObjectId, Epoch)> {
    let mut outranked = Vec::new();
    let objects = objects.iter().map(|(n, state)| (object(*n), *state)).collect();
    counter.granted(node(by), &Grant { clock: Some(at(sent)), objects }, at(ms), &mut outranked).unwrap();
    outranked
}

#[test]
fn a_grant_counts_for_800_ms_from_when_its_heartbeat_was_sent() {
    let mut a = counter();
    let cell = a.own(object(0), Epoch(5), &[node(B), node(C)], at(10)).unwrap();
    assert_eq!(beats(&mut a, B, 20), Some(vec![(object(0), true)]));
    assert_eq!(beats(&mut a, C, 30), Some(vec![(object(0), true)]));
    assert_eq!(beats(&mut a, B, 119), None, "one in 100 ms");
    granted(&mut a, B, 20, &[(0, GrantState::Given)], 40);
    assert!(!cell.may_answer(at(40)), "all have to");
    granted(&mut a, C, 30, &[(0, GrantState::Given)], 500);
    assert!(cell.may_answer(at(500)) && cell.may_answer(at(819)) && !cell.may_answer(at(820)));
    a.needs(object(0), &[node(C)], at(600));
    assert!(cell.may_answer(at(829)) && !cell.may_answer(at(830)));
    a.needs(object(0), &[], at(600));
    assert!(cell.may_answer(at(9000)), "with no other active copy nothing is asked");
    a.disown(object(0));
    assert!(!cell.may_answer(at(600)));
    assert_eq!(beats(&mut a, B, 700), Some(vec![(object(0), false)]));
}

#[test]
fn a_grant_counts_for_what_was_claimed_before_its_heartbeat() {
    let mut a = counter();
    assert_eq!((beats(&mut a, B, 0), beats(&mut a, C, 0)), (Some(vec![]), Some(vec![])));
    let cell = a.own(object(0), Epoch(5), &[node(B)], at(50)).unwrap();
    granted(&mut a, B, 0, &[], 60);
    assert!(!cell.may_answer(at(60)));
    assert_eq!(beats(&mut a, B, 60), Some(vec![(object(0), true)]), "a claim does not wait for the next heartbeat");
    granted(&mut a, B, 60, &[(0, GrantState::Given)], 61);
    assert!(cell.may_answer(at(61)));
    a.needs(object(0), &[node(B), node(C)], at(70));
    granted(&mut a, C, 0, &[], 71);
    assert!(!cell.may_answer(at(71)), "C does not know of it");
    assert_eq!((beats(&mut a, B, 160), beats(&mut a, C, 160)), (Some(vec![]), Some(vec![(object(0), true)])));
    granted(&mut a, B, 160, &[], 161);
    granted(&mut a, C, 160, &[(0, GrantState::Given)], 161);
    assert!(cell.may_answer(at(161)));
}

#[test]
fn a_grant_is_none_for_the_objects_that_it_names() {
    let mut a = counter();
    let own = |a: &mut Counter, n: u16| a.own(object(n), Epoch(5), &[node(B)], at(0)).unwrap();
    let own = [0, 1, 2, 3].map(|n| own(&mut a, n));
    beats(&mut a, B, 10);
    let states = [
        (0, GrantState::Given),
        (1, GrantState::Waits(Epoch(6))),
        (2, GrantState::Accepted(Epoch(7))),
        (3, GrantState::Accepted(Epoch(5))),
    ];
    assert_eq!(granted(&mut a, B, 10, &states, 20), [(object(2), Epoch(7))], "the ownership of one ends");
    let may = |at| own.each_ref().map(|cell| cell.may_answer(at));
    assert_eq!(may(at(20)), [true, false, false, true]);
    beats(&mut a, B, 110);
    granted(&mut a, B, 110, &[(1, GrantState::Given)], 120);
    assert_eq!(may(at(120)), [true, true, false, true]);
}

#[test]
fn a_new_link_claims_everything_anew_before_its_first_heartbeat() {
    let mut a = counter();
    let many = BEAT_ENTRIES_MAX as u16 * 2 + 1;
    let own: Vec<_> = (0..many).map(|n| a.own(object(n), Epoch(1), &[node(B)], at(0)).unwrap()).collect();
    let first = a.heartbeat(node(B), at(1)).unwrap();
    assert_eq!((first.clock, first.claims.len()), (None, BEAT_ENTRIES_MAX));
    assert_eq!(beats(&mut a, B, 1).unwrap().len(), usize::from(many) - BEAT_ENTRIES_MAX);
    assert_eq!(beats(&mut a, B, 101), Some(vec![]), "a heartbeat costs nothing where nothing has changed");
    granted(&mut a, B, 101, &[], 102);
    a.closed(node(B));
    assert_eq!(a.heartbeat(node(B), at(300)), None);
    assert!(own.iter().all(|cell| cell.may_answer(at(300))), "what was granted counts");
    a.opened(node(B), at(310));
    let early = Grant { clock: Some(at(101)), objects: vec![] };
    assert_eq!(a.granted(node(B), &early, at(320), &mut vec![]), Err(WrongGrant), "of a heartbeat of another link");
    assert_eq!(beats(&mut a, B, 320).unwrap().len(), usize::from(many));
    let late = Grant { clock: Some(at(321)), objects: vec![] };
    assert_eq!(a.granted(node(B), &late, at(330), &mut vec![]), Err(WrongGrant), "of none that was sent");
    granted(&mut a, B, 320, &[], 340);
    assert!(own[0].may_answer(at(1100)));
}

#[test]
fn a_node_that_is_silent_is_late_then_gone() {
    let mut a = counter();
    let mut steps = vec![];
    for ms in (0..6000).step_by(50) {
        if ms % 100 == 0 && (100..=1000).contains(&ms) || ms == 5000 {
            a.heard(node(B), at(ms));
        }
        while let Some((n, reach)) = a.reach(at(ms)) {
            steps.push((ms, n, reach));
        }
    }
    let (b, c) = (node(B), node(C));
    assert_eq!(
        steps,
        [
            (100, b, Reach::Up),
            (1200, c, Reach::Gone),
            (1700, b, Reach::Late),
            (2200, b, Reach::Gone),
            (5000, b, Reach::Up),
            (5700, b, Reach::Late)
        ]
    );
    // Who was paused has heard nobody meanwhile.
    let mut a = counter();
    a.heard(b, at(0));
    assert_eq!(a.reach(at(0)), Some((b, Reach::Up)));
    assert_eq!(a.reach(at(250)), None);
    assert_eq!(a.reach(at(9000)), None, "it has not looked since");
    assert!(a.is_up(b));
    assert_eq!(a.reach(at(9250)), None);
    assert_eq!(a.reach(at(9450)), Some((b, Reach::Late)));
}

#[test]
fn who_was_paused_hears_others_as_before_from_what_comes_first() {
    let (mut a, b) = (counter(), node(B));
    a.heard(b, at(0));
    assert_eq!((a.reach(at(0)), a.reach(at(250))), (Some((b, Reach::Up)), None));
    // What came meanwhile is taken before anybody looks.
    a.heard(b, at(30_000));
    assert_eq!((a.reach(at(30_000)), a.reach(at(30_250)), a.reach(at(30_500))), (None, None, None));
    assert_eq!(a.reach(at(30_700)), Some((b, Reach::Late)), "it is silent since");
}

#[test]
fn a_node_beyond_those_that_can_be_grants_nothing() {
    let mut a = Counter::new();
    (0..70).for_each(|n| a.add(node(n), at(0)));
    let [known, unknown] = [10, 69].map(|n| a.own(object(n.into()), Epoch(1), &[node(n)], at(0)).unwrap());
    for n in 0..70 {
        a.opened(node(n), at(0));
        if beats(&mut a, n, 10).is_some() {
            granted(&mut a, n, 10, &[], 20);
        }
    }
    assert!(known.may_answer(at(20)) && !unknown.may_answer(at(20)));
    a.remove(node(10));
    assert!(!known.may_answer(at(20)));
}
