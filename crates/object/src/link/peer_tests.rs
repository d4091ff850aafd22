//! Two nodes' links to each other, by hand: who dials, who is admitted, which session is the current one.

use super::*;
use crate::io::IoOp;
use base::{ClusterId, Duration, HostId, VolumeId};
use format::peer::{Issuer, LinkClass, RefusalReason, Revision, Versions, WINDOW_BYTES_MIN};

const FOREGROUND: LinkPlace = LinkPlace { class: LinkClass::Foreground, lane: 0 };
const REVISION: Revision = Revision(1);
const WINDOW: Window = Window { ops: 2, bytes: WINDOW_BYTES_MIN };

fn at(ms: u64) -> Instant {
    Instant(0) + Duration::from_millis(ms)
}

fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}

fn own(n: u8, incarnation: u64) -> Own {
    Own { cluster: ClusterId::from_bytes([9; 16]), node: node(n), incarnation: Incarnation(incarnation), versions: Versions::OURS }
}

fn peer(n: u8, incarnation: u64) -> Peer {
    Peer::new(own(n, incarnation), node(3 - n), Incarnation(0), 1, Protection::Plain).with_windows([WINDOW; 3])
}

fn output(link: &mut Link) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(list) = link.take_output() {
        list.slices(0).for_each(|part| out.extend_from_slice(part));
        link.sent(list);
    }
    out
}

fn events(peer: &mut Peer, now: Instant) -> Vec<LinkEvent> {
    std::iter::from_fn(|| peer.pop_event(now)).map(|e| e.event).collect()
}

/// The Hello of a peer that has dialed the place.
fn dialed(peer: &mut Peer, now: Instant) -> Vec<u8> {
    peer.connected(FOREGROUND, now);
    output(peer.link(FOREGROUND).unwrap())
}

/// A Hello arrives at a node.
fn greet(peer: &mut Peer, hello: &[u8], standing: Standing, now: Instant) -> Result<(), Box<Link>> {
    let mut link = Link::accept(now, Protection::Plain);
    link.receive(now, hello);
    let Some(LinkEvent::Greeted(hello, session)) = link.pop_event() else { panic!("no Hello") };
    peer.admit(link, &hello, session, standing, now).map(|place| assert_eq!(place, FOREGROUND))
}

/// Opens the place between two nodes.
fn open(a: &mut Peer, b: &mut Peer, now: Instant) {
    let hello = dialed(a, now);
    assert!(greet(b, &hello, Standing::Member, now).is_ok());
    let answer = output(b.link(FOREGROUND).unwrap());
    a.link(FOREGROUND).unwrap().receive(now, &answer);
    for peer in [a, b] {
        assert!(events(peer, now).iter().any(|e| matches!(e, LinkEvent::Opened { .. })));
    }
}

fn request(peer: &mut Peer, token: u64) {
    let link = peer.link(FOREGROUND).unwrap();
    let (stamp, issuer) = (link.stamp().unwrap(), Issuer { host: HostId::from_bytes([7; 16]), controller: 3 });
    let op = ForwardOp::Io(IoOp::Trim { offset: 0, len: 4096 });
    link.submit(ForwardRequest { token, volume: VolumeId::from_bytes([1; 16]), revision: REVISION, stamp, issuer, op });
}

/// Requests of `a` arrive at `b`.
fn arrive(a: &mut Peer, b: &mut Peer, now: Instant) -> Vec<ServedId> {
    let bytes = output(a.link(FOREGROUND).unwrap());
    b.link(FOREGROUND).unwrap().receive(now, &bytes);
    events(b, now).into_iter().filter_map(|e| if let LinkEvent::Forwarded(f) = e { Some(f.id) } else { None }).collect()
}

fn refusal(refused: Result<(), Box<Link>>) -> RefusalReason {
    match refused.expect_err("it is refused").close_reason() {
        Some(CloseReason::Refusing(refusal)) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lower_node_dials_each_place_and_again_after_a_delay() {
    let (mut a, mut b) = (peer(1, 1), peer(2, 1));
    assert!(a.dials() && !b.dials() && b.due(at(0)).is_none());
    let places: Vec<LinkPlace> = std::iter::from_fn(|| a.due(at(0))).collect();
    assert_eq!(places, LinkClass::ALL.map(|class| LinkPlace { class, lane: 0 }));
    places.iter().for_each(|place| a.not_connected(*place, at(0), 0));
    assert_eq!(a.due(at(0)), Some(places[0]), "the first time at once");
    a.not_connected(places[0], at(0), 0);
    a.not_connected(places[1], at(0), 0);
    a.not_connected(places[2], at(0), 0);
    assert_eq!((a.due(at(19)), a.deadline()), (None, Some(at(20))));
    assert!(a.due(at(20)).is_some());
}

#[test]
fn a_hello_that_is_wrong_is_refused_with_its_reason() {
    let hello = dialed(&mut peer(1, 5), at(0));
    let acceptor = |change: &dyn Fn(&mut Own)| {
        let mut own = own(2, 1);
        change(&mut own);
        Peer::new(own, node(1), Incarnation(0), 1, Protection::Plain)
    };
    let with = |change: &dyn Fn(&mut Own), standing| refusal(greet(&mut acceptor(change), &hello, standing, at(0)));
    assert_eq!(with(&|own| own.cluster = ClusterId::from_bytes([1; 16]), Standing::Member), RefusalReason::OtherCluster);
    assert_eq!(with(&|own| own.node = node(3), Standing::Member), RefusalReason::OtherNode);
    assert_eq!(with(&|_| {}, Standing::Unknown), RefusalReason::UnknownNode);
    assert_eq!(with(&|_| {}, Standing::Removed), RefusalReason::RemovedNode);
    assert_eq!(with(&|own| own.versions = Versions { oldest: 3, newest: 4 }, Standing::Member), RefusalReason::NoCommonVersion);
    let mut more_lanes = Peer::new(own(2, 1), node(1), Incarnation(0), 2, Protection::Plain);
    assert_eq!(refusal(greet(&mut more_lanes, &hello, Standing::Member, at(0))), RefusalReason::Limits);
    let mut newer = Peer::new(own(2, 1), node(1), Incarnation(6), 1, Protection::Plain);
    assert_eq!(refusal(greet(&mut newer, &hello, Standing::Member, at(0))), RefusalReason::OlderIncarnation);
    assert!(greet(&mut acceptor(&|_| {}), &hello, Standing::Member, at(0)).is_ok());
    // The dialer hears why.
    let (mut a, mut b) = (peer(1, 5), peer(2, 1));
    let hello = dialed(&mut a, at(0));
    let mut refused = greet(&mut b, &hello, Standing::Removed, at(0)).expect_err("it is refused");
    a.link(FOREGROUND).unwrap().receive(at(0), &output(&mut refused));
    events(&mut a, at(0));
    assert_eq!(a.refused(FOREGROUND).map(|r| r.reason), Some(RefusalReason::RemovedNode));
}

#[test]
fn nodes_of_neighbouring_releases_talk() {
    let release = |n: u8, oldest, newest| {
        let own = Own { versions: Versions { oldest, newest }, ..own(n, 1) };
        Peer::new(own, node(3 - n), Incarnation(0), 1, Protection::Plain).with_windows([WINDOW; 3])
    };
    for (older, newer) in [(release(1, 1, 2), release(2, 2, 3)), (release(1, 2, 3), release(2, 1, 2)), (release(1, 1, 1), release(2, 1, 2))]
    {
        let (mut a, mut b) = (older, newer);
        open(&mut a, &mut b, at(0));
        request(&mut a, 1);
        assert_eq!(arrive(&mut a, &mut b, at(0)).len(), 1);
    }
}

fn a_newer_session_ends_the_older_one_and_what_has_not_begun_in_it() {
    let (mut a, mut b) = (peer(1, 1), peer(2, 1));
    open(&mut a, &mut b, at(0));
    (1..3).for_each(|token| request(&mut a, token));
    let old = arrive(&mut a, &mut b, at(0));
    b.may_begin(FOREGROUND, old[0], at(0), REVISION).unwrap();
    a.link(FOREGROUND).unwrap().close(CloseReason::Lost);
    assert_eq!(events(&mut a, at(0)).len(), 3);
    open(&mut a, &mut b, at(1));
    assert_eq!(b.may_begin(FOREGROUND, old[1], at(1), REVISION), Err(NotBegun::LinkLost));
    let credit = output(b.link(FOREGROUND).unwrap());
    a.link(FOREGROUND).unwrap().receive(at(1), &credit);
    // One request of the old session is under way, so one may be sent.
    (3..6).for_each(|token| request(&mut a, token));
    assert!(!b.is_wanted(FOREGROUND, old[0]));
    let new = arrive(&mut a, &mut b, at(1));
    assert_eq!(new.len(), 1);
    b.answer(FOREGROUND, old[0], Ok(()), DataVec::new());
    let bytes = output(b.link(FOREGROUND).unwrap());
    a.link(FOREGROUND).unwrap().receive(at(1), &bytes);
    assert!(events(&mut a, at(1)).is_empty(), "nobody hears the answer of an old session");
    assert_eq!(arrive(&mut a, &mut b, at(1)).len(), 1, "what it held may be used");
    b.may_begin(FOREGROUND, new[0], at(1), REVISION).unwrap();
}

#[test]
fn sessions_replace_each_other() {
    a_newer_session_ends_the_older_one_and_what_has_not_begun_in_it();
}

fn a_hello_that_comes_late_does_not_end_the_newer_session() {
    let (mut a, mut b) = (peer(1, 1), peer(2, 1));
    let late = dialed(&mut a, at(0));
    a.link(FOREGROUND).unwrap().close(CloseReason::Lost);
    open(&mut a, &mut b, at(1));
    let refused = greet(&mut b, &late, Standing::Member, at(2));
    assert_eq!(refusal(refused), RefusalReason::OlderSession);
    assert!(b.link(FOREGROUND).unwrap().is_open());
}

#[test]
fn late_hellos_are_refused() {
    a_hello_that_comes_late_does_not_end_the_newer_session();
}

#[test]
fn a_restart_of_the_dialer_begins_new_sessions_whatever_their_numbers_were() {
    let (mut a, mut b) = (peer(1, 1), peer(2, 1));
    for ms in 0..3 {
        open(&mut a, &mut b, at(ms));
        a.link(FOREGROUND).unwrap().close(CloseReason::Lost);
        events(&mut a, at(ms));
    }
    assert!(b.link(FOREGROUND).unwrap().is_open(), "it has not noticed yet");
    let mut again = peer(1, 2);
    open(&mut again, &mut b, at(9));
    assert_eq!(again.link(FOREGROUND).unwrap().session(), Some(SessionId { incarnation: Incarnation(2), no: SessionNo(1) }));
    assert_eq!(refusal(greet(&mut b, &dialed(&mut a, at(10)), Standing::Member, at(10))), RefusalReason::OlderIncarnation);
}

#[test]
fn a_newer_incarnation_ends_the_links_of_the_older_one() {
    let (mut a, mut b) = (peer(1, 1), peer(2, 1));
    open(&mut a, &mut b, at(0));
    b.see_incarnation(Incarnation(1));
    assert!(b.link(FOREGROUND).unwrap().is_open());
    b.see_incarnation(Incarnation(2));
    assert_eq!(b.link(FOREGROUND).unwrap().close_reason(), Some(CloseReason::Replaced));
    a.see_incarnation(Incarnation(4));
    assert!(a.link(FOREGROUND).unwrap().is_closed());
    // And an acceptor of the older one is not believed any more.
    let hello = dialed(&mut a, at(1));
    let mut old = peer(2, 3);
    assert!(greet(&mut old, &hello, Standing::Member, at(1)).is_ok());
    let answer = output(old.link(FOREGROUND).unwrap());
    a.link(FOREGROUND).unwrap().receive(at(1), &answer);
    assert_eq!(a.link(FOREGROUND).unwrap().close_reason(), Some(CloseReason::OtherNode));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    for fault in [SeededFault::OldSessionBegins, SeededFault::LeftForgotten] {
        hooks::notices(fault, a_newer_session_ends_the_older_one_and_what_has_not_begun_in_it);
    }
    hooks::notices(SeededFault::OlderSessionReplaces, a_hello_that_comes_late_does_not_end_the_newer_session);
}

#[test]
fn where_no_address_is_known_nothing_is_due() {
    let mut a = peer(1, 3);
    assert_eq!(a.deadline(), Some(at(0)), "it dials at once");
    a.set_reachable(false);
    assert_eq!((a.deadline(), a.due(at(9000))), (None, None), "who looked at it then would look for ever");
    a.set_reachable(true);
    assert!(a.due(at(9000)).is_some());
}
