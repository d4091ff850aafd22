use crate::reservation::{
    Access, Command, HostPort, NOTICES_MAX, Notice, NoticeKind, Outcome, REGISTRANTS_MAX, Refusal, ReservationType, State, TakenBy,
};
use ReservationType::*;
use base::HostId;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn host(n: u8) -> HostId {
    HostId::from_bytes([n; 16])
}
fn hosts(list: &[u8]) -> BTreeSet<HostId> {
    list.iter().map(|n| host(*n)).collect()
}
fn register(s: &mut State, n: u8, nrkey: u64) {
    s.execute(host(n), &Command::Register { nrkey, ptpl: None }).unwrap();
}
/// Hosts 1 (key 10), 2 (20) and 3 (30) are registered, host 1 holds a reservation, host 4 is nobody.
fn held(rtype: ReservationType) -> State {
    let mut s = State::default();
    for n in 1..=3 {
        register(&mut s, n, u64::from(n) * 10);
    }
    s.execute(host(1), &Command::Acquire { crkey: 10, rtype }).unwrap();
    s
}
fn preempt(crkey: u64, prkey: u64, rtype: ReservationType) -> Command {
    Command::Preempt { crkey, prkey, rtype, abort: false }
}
fn notices(s: &State, after: u64) -> Vec<(NoticeKind, BTreeSet<HostId>)> {
    s.notices_after(after).map(|n: &Notice| (n.kind, n.hosts.clone())).collect()
}

/// Base figure 529: what holder, registrant and any other host may do. R read group, W write group.
#[test]
fn the_table_of_the_standard_holds_for_each_type_and_role() {
    let table = [
        (WriteExclusive, "RW", "R-", "R-"),
        (ExclusiveAccess, "RW", "--", "--"),
        (WriteExclusiveRegistrantsOnly, "RW", "RW", "R-"),
        (ExclusiveAccessRegistrantsOnly, "RW", "RW", "--"),
        (WriteExclusiveAllRegistrants, "RW", "RW", "R-"),
        (ExclusiveAccessAllRegistrants, "RW", "RW", "--"),
    ];
    for (rtype, holder, registrant, other) in table {
        let s = held(rtype);
        for (n, may) in [(1, holder), (2, registrant), (3, registrant), (4, other)] {
            let want = Access { read: may.contains('R'), write: may.contains('W') };
            assert_eq!(s.access(host(n)), want, "{rtype:?}, host {n}");
            assert_eq!(s.is_holder(host(n)), n == 1 || n < 4 && rtype.is_all_registrants(), "{rtype:?}, host {n}");
        }
        assert_eq!(ReservationType::parse(rtype.byte()), Some(rtype));
    }
    assert_eq!(State::default().access(host(1)), Access::FULL);
    assert_eq!((ReservationType::parse(0), ReservationType::parse(7)), (None, None));
}

#[test]
fn a_holder_passes_its_reservation_on_and_registers_who_gets_it() {
    let to = |n, nrkey, unregister| Command::Move { crkey: 10, to: host(n), nrkey, unregister, ptpl: true };
    let mut s = held(ExclusiveAccess);
    let names = BTreeMap::from([
        (host(4), HostPort { name: "iqn.x".into(), number: [1; 6] }),
        (host(5), HostPort { name: "iqn.y".into(), number: [2; 6] }),
    ]);
    assert!(s.execute(host(1), &to(4, 44, true)).unwrap().narrowed, "who had it may do less");
    s.name_ports(&names);
    assert!(s.is_holder(host(4)) && s.ptpl() && s.rtype() == Some(ExclusiveAccess));
    assert_eq!(s.registrants(), &BTreeMap::from([(host(2), 20), (host(3), 30), (host(4), 44)]));
    assert_eq!((s.port(host(4)), s.port(host(5))), (names.get(&host(4)), None), "only registrants have a name");
    assert_eq!(s.access(host(1)), Access { read: false, write: false });
    let stored = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<State>(&stored).unwrap(), s);
    s.execute(host(4), &Command::Unregister { crkey: Some(44), ptpl: None }).unwrap();
    assert_eq!(s.port(host(4)), None);

    let mut s = held(WriteExclusive);
    assert_eq!(s.execute(host(1), &to(2, 22, false)).map(|o| o.narrowed), Ok(true));
    assert_eq!((s.registrants()[&host(1)], s.registrants()[&host(2)], s.is_holder(host(2))), (10, 22, true));
    for (state, by, command, want) in [
        (held(WriteExclusive), 2, Command::Move { crkey: 20, to: host(3), nrkey: 3, unregister: false, ptpl: false }, Refusal::Conflict),
        (held(WriteExclusiveAllRegistrants), 1, to(2, 22, false), Refusal::Conflict),
        (held(WriteExclusive), 1, to(1, 22, false), Refusal::InvalidField),
        (held(WriteExclusive), 1, to(2, 0, false), Refusal::InvalidField),
        (held(WriteExclusive), 4, to(2, 22, false), Refusal::Conflict),
    ] {
        let mut s = state.clone();
        assert_eq!((s.execute(host(by), &command), &s), (Err(want), &state), "{command:?}");
    }
    let mut nobody = State::default();
    register(&mut nobody, 1, 10);
    assert_eq!(nobody.execute(host(1), &to(2, 22, false)), Err(Refusal::InvalidField), "there is nothing to pass on");
}

#[test]
fn registering_again_is_no_error_with_the_same_key_only() {
    let mut s = State::default();
    register(&mut s, 1, 10);
    register(&mut s, 1, 10);
    assert_eq!(s.generation(), 2, "each Register that succeeds counts");
    assert_eq!(s.execute(host(1), &Command::Register { nrkey: 11, ptpl: Some(true) }), Err(Refusal::Conflict));
    assert!(!s.ptpl() && s.generation() == 2, "refused, it changes nothing");
    register(&mut s, 2, 10);
    assert_eq!(s.registrants().len(), 2, "hosts may have equal keys");
}

#[test]
fn a_key_is_replaced_by_its_owner_or_ignoring_the_old_one() {
    let mut s = held(WriteExclusive);
    let replace = |crkey, nrkey| Command::Replace { crkey, nrkey, ptpl: None };
    assert_eq!(s.execute(host(1), &replace(Some(99), 11)), Err(Refusal::Conflict));
    assert_eq!(s.execute(host(4), &replace(Some(0), 11)), Err(Refusal::Conflict));
    s.execute(host(1), &replace(Some(10), 11)).unwrap();
    assert!(s.is_holder(host(1)) && s.registrants()[&host(1)] == 11, "the reservation stays");
    s.execute(host(2), &replace(None, 22)).unwrap();
    s.execute(host(4), &replace(None, 44)).unwrap();
    assert_eq!((s.registrants()[&host(2)], s.registrants()[&host(4)]), (22, 44));
}

#[test]
fn the_last_holder_takes_the_reservation_with_it() {
    for rtype in ReservationType::ALL {
        let mut s = held(rtype);
        let leave = |crkey| Command::Unregister { crkey, ptpl: None };
        assert_eq!(s.execute(host(1), &leave(Some(9))), Err(Refusal::Conflict));
        assert_eq!(s.execute(host(4), &leave(None)), Err(Refusal::Conflict), "never registered");
        s.execute(host(1), &leave(Some(10))).unwrap();
        assert_eq!(s.rtype(), rtype.is_all_registrants().then_some(rtype));
        let reported = matches!(rtype, WriteExclusiveRegistrantsOnly | ExclusiveAccessRegistrantsOnly);
        let want = if reported { vec![(NoticeKind::ReservationReleased, hosts(&[2, 3]))] } else { vec![] };
        assert_eq!(notices(&s, 0), want, "{rtype:?}");
        s.execute(host(2), &leave(None)).unwrap();
        s.execute(host(3), &leave(Some(30))).unwrap();
        assert_eq!((s.rtype(), s.registrants().len()), (None, 0));
    }
}

#[test]
fn only_registrants_with_their_key_acquire_and_only_when_it_is_free() {
    for rtype in ReservationType::ALL {
        let mut s = held(rtype);
        let before = s.clone();
        for other in ReservationType::ALL {
            let acquire = |crkey| Command::Acquire { crkey, rtype: other };
            assert_eq!(s.execute(host(1), &acquire(10)).is_ok(), other == rtype, "the holder may ask again");
            let also = rtype.is_all_registrants() && other == rtype;
            assert_eq!(s.execute(host(2), &acquire(20)).is_ok(), also);
            assert_eq!(s.execute(host(1), &acquire(11)), Err(Refusal::Conflict));
            assert_eq!(s.execute(host(4), &acquire(0)), Err(Refusal::Conflict));
        }
        assert_eq!(s, before);
    }
}

#[test]
fn release_is_for_holders_who_know_the_type() {
    for rtype in ReservationType::ALL {
        let mut s = held(rtype);
        let release = |crkey, rtype| Command::Release { crkey, rtype };
        for other in ReservationType::ALL.into_iter().filter(|o| *o != rtype) {
            assert_eq!(s.execute(host(1), &release(10, Some(other))), Err(Refusal::InvalidField));
        }
        assert_eq!(s.execute(host(1), &release(10, None)), Err(Refusal::InvalidField));
        assert_eq!(s.execute(host(1), &release(11, Some(rtype))), Err(Refusal::Conflict));
        assert_eq!(s.execute(host(4), &release(0, Some(rtype))), Err(Refusal::Conflict));
        if !rtype.is_all_registrants() {
            s.execute(host(2), &release(20, Some(rtype))).unwrap();
            assert_eq!(s.rtype(), Some(rtype), "of no effect when it is another's");
        }
        let generation = s.generation();
        s.execute(host(1), &release(10, Some(rtype))).unwrap();
        assert_eq!((s.rtype(), s.registrants().len(), s.generation()), (None, 3, generation));
        let want = if rtype.byte() > 2 { vec![(NoticeKind::ReservationReleased, hosts(&[2, 3]))] } else { vec![] };
        assert_eq!(notices(&s, 0), want, "{rtype:?}");
        s.execute(host(2), &release(20, Some(rtype))).unwrap();
    }
}

#[test]
fn clear_takes_all_and_tells_the_others() {
    let mut s = held(ExclusiveAccess);
    assert_eq!(s.execute(host(2), &Command::Clear { crkey: 10 }), Err(Refusal::Conflict));
    let outcome = s.execute(host(2), &Command::Clear { crkey: 20 }).unwrap();
    assert_eq!(outcome, Outcome { narrowed: false, preempted: hosts(&[1, 3]), abort: false });
    assert_eq!((s.rtype(), s.registrants().len(), s.generation()), (None, 0, 4));
    assert_eq!(notices(&s, 0), [(NoticeKind::ReservationPreempted, hosts(&[1, 3]))]);
    let mut s = held(WriteExclusive);
    s.clear_all();
    assert_eq!(notices(&s, 0), [(NoticeKind::ReservationPreempted, hosts(&[1, 2, 3]))]);
    assert_eq!((s.rtype(), s.registrants().len()), (None, 0));
}

#[test]
fn the_holder_is_preempted_by_its_key() {
    let mut s = held(WriteExclusive);
    let outcome = s.execute(host(2), &Command::Preempt { crkey: 20, prkey: 10, rtype: ExclusiveAccess, abort: true }).unwrap();
    assert_eq!(outcome, Outcome { narrowed: true, preempted: hosts(&[1]), abort: true });
    assert!(s.is_holder(host(2)) && s.rtype() == Some(ExclusiveAccess) && !s.registrants().contains_key(&host(1)));
    let want = [(NoticeKind::RegistrationPreempted, hosts(&[1])), (NoticeKind::ReservationReleased, hosts(&[3]))];
    assert_eq!(notices(&s, 0), want, "its type changed, so who is left is informed");
    let seen = s.last_notice();
    s.execute(host(3), &preempt(30, 20, ExclusiveAccess)).unwrap();
    assert_eq!(notices(&s, seen), [(NoticeKind::RegistrationPreempted, hosts(&[2]))], "no change of type");
}

#[test]
fn other_registrants_are_preempted_and_the_reservation_stays() {
    let mut s = held(WriteExclusiveRegistrantsOnly);
    s.execute(host(2), &preempt(20, 30, ExclusiveAccess)).unwrap();
    assert!(s.is_holder(host(1)) && s.rtype() == Some(WriteExclusiveRegistrantsOnly));
    assert_eq!(s.registrants().keys().copied().collect::<BTreeSet<_>>(), hosts(&[1, 2]));
    assert_eq!(s.execute(host(2), &preempt(20, 77, ExclusiveAccess)), Err(Refusal::Conflict), "nobody has this key");
    assert_eq!(s.execute(host(2), &preempt(20, 0, ExclusiveAccess)), Err(Refusal::InvalidField), "zero is for all registrants");
    s.execute(host(2), &preempt(20, 20, ExclusiveAccess)).unwrap();
    assert_eq!(s.registrants().keys().copied().collect::<BTreeSet<_>>(), hosts(&[1]), "a host may name its own key");
    let mut s = State::default();
    register(&mut s, 1, 5);
    register(&mut s, 2, 5);
    s.execute(host(1), &preempt(5, 5, WriteExclusive)).unwrap();
    assert!(s.registrants().is_empty() && s.rtype().is_none(), "without a reservation only registrations go");
    assert_eq!(notices(&s, 0), [(NoticeKind::RegistrationPreempted, hosts(&[2]))]);
}

#[test]
fn a_holder_preempts_itself_to_change_the_type() {
    let mut s = held(WriteExclusive);
    let seen = s.last_notice();
    s.execute(host(1), &preempt(10, 10, ExclusiveAccessAllRegistrants)).unwrap();
    assert!(s.is_holder(host(3)) && s.rtype() == Some(ExclusiveAccessAllRegistrants) && s.registrants().len() == 3);
    assert_eq!(notices(&s, seen), [(NoticeKind::ReservationReleased, hosts(&[2, 3]))]);
}

#[test]
fn all_registrants_are_preempted_by_key_zero_or_one_by_one() {
    for rtype in [WriteExclusiveAllRegistrants, ExclusiveAccessAllRegistrants] {
        let mut s = held(rtype);
        s.execute(host(2), &preempt(20, 30, WriteExclusive)).unwrap();
        assert!(s.rtype() == Some(rtype) && s.registrants().len() == 2, "by key the reservation stays");
        assert_eq!(s.execute(host(2), &preempt(20, 77, WriteExclusive)), Err(Refusal::Conflict));
        s.execute(host(2), &preempt(20, 0, WriteExclusive)).unwrap();
        assert!(s.is_holder(host(2)) && s.rtype() == Some(WriteExclusive) && s.registrants().len() == 1);
        let mut alone = State::default();
        register(&mut alone, 1, 1);
        alone.execute(host(1), &Command::Acquire { crkey: 1, rtype }).unwrap();
        alone.execute(host(1), &preempt(1, 1, rtype)).unwrap();
        assert!(alone.rtype().is_none() && alone.registrants().is_empty(), "the last holder went");
    }
}

#[test]
fn power_loss_leaves_what_persists() {
    let mut s = held(WriteExclusive);
    s.execute(host(9), &Command::Persist { ptpl: true }).unwrap();
    let (before, text) = (s.clone(), serde_json::to_string(&s).unwrap());
    assert!(!s.power_lost() && s == before);
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), before, "the record brings all of it back");
    s.execute(host(1), &Command::Register { nrkey: 10, ptpl: Some(false) }).unwrap();
    assert!(s.power_lost() && s == State::default());
    assert!(!s.power_lost(), "nothing more to lose");
}

#[test]
fn who_has_taken_a_unit_whole_loses_it_with_power_and_by_an_administrator_and_is_named_until_then() {
    let port = |n| (host(n), HostPort { name: format!("iqn.{n}"), number: [n; 6] });
    let session = TakenBy { port: 1, session: 7 };
    let mut s = State::default();
    s.execute(host(9), &Command::Persist { ptpl: true }).unwrap();
    let persistent = s.clone();
    let outcome = s.execute(host(1), &Command::TakeUnit(session)).unwrap();
    assert!(outcome.narrowed, "others are fenced");
    s.name_ports(&[port(1), port(2)].into());
    assert_eq!((s.port(host(1)), s.port(host(2))), (Some(&port(1).1), None));
    let text = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), s);
    let mut lost = s.clone();
    assert!(lost.power_lost() && lost == persistent, "it persists, but no session does");
    assert!(!lost.power_lost());
    let mut cleared = s.clone();
    cleared.clear_all();
    assert_eq!(cleared.taken(), None);
    assert!(!s.execute(host(1), &Command::GiveUnit(session)).unwrap().narrowed && s == persistent);
}

#[test]
fn registrants_and_notices_are_bounded() {
    let mut s = State::default();
    let id = |n: usize| HostId::from_bytes((n as u128 + 1).to_le_bytes());
    for n in 0..REGISTRANTS_MAX {
        s.execute(id(n), &Command::Register { nrkey: 1, ptpl: None }).unwrap();
    }
    let more = Command::Register { nrkey: 1, ptpl: None };
    assert_eq!(s.execute(id(REGISTRANTS_MAX), &more), Err(Refusal::TooManyRegistrants));
    s.execute(id(0), &more).unwrap();
    let all = WriteExclusiveAllRegistrants;
    s.execute(id(0), &Command::Acquire { crkey: 1, rtype: all }).unwrap();
    for _ in 0..NOTICES_MAX {
        for rtype in [WriteExclusive, all] {
            let crkey = 1;
            let now = s.rtype();
            s.execute(id(0), &Command::Release { crkey, rtype: now }).unwrap();
            s.execute(id(0), &Command::Acquire { crkey, rtype }).unwrap();
        }
    }
    assert_eq!(s.notices_after(0).count(), NOTICES_MAX);
    assert_eq!(s.notices_after(s.last_notice() - 2).count(), 2);
}

/// The rules once more, as the text of base 8.19 has them, case by case on plain lists.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    keys: BTreeMap<u8, u64>,
    /// RTYPE and the host that acquired it; with types 5 and 6 the host means nothing.
    reservation: Option<(u8, u8)>,
    generation: u32,
    ptpl: bool,
    /// Who has taken the unit whole (SPC-2 5.5.1).
    taken: Option<(u8, TakenBy)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Success(Vec<(u8, Vec<u8>)>),
    Conflict,
    InvalidField,
}

impl Model {
    fn holders(&self) -> Vec<u8> {
        match self.reservation {
            None => vec![],
            Some((5 | 6, _)) => self.keys.keys().copied().collect(),
            Some((_, h)) => vec![h],
        }
    }
    fn unregister(&mut self, who: u8) {
        self.keys.remove(&who);
        match self.reservation {
            Some((5 | 6, _)) if self.keys.is_empty() => self.reservation = None,
            Some((1..=4, h)) if h == who => self.reservation = None,
            _ => {}
        }
    }
    fn but(&self, me: u8) -> Vec<u8> {
        self.keys.keys().copied().filter(|h| *h != me).collect()
    }
    fn run(&mut self, me: u8, command: &Command) -> Answer {
        let mine = self.keys.get(&me).copied();
        let mut reported = vec![];
        match *command {
            Command::TakeUnit(_) | Command::GiveUnit(_) if !self.keys.is_empty() => return Answer::Conflict,
            Command::TakeUnit(session) => {
                if self.taken.is_some_and(|(by, _)| by != me) {
                    return Answer::Conflict;
                }
                self.taken = Some((me, session));
            }
            Command::GiveUnit(session) => {
                if self.taken == Some((me, session)) {
                    self.taken = None;
                }
            }
            Command::ResetUnit => self.taken = None,
            Command::Persist { ptpl } => self.ptpl = ptpl,
            _ if self.taken.is_some() => return Answer::Conflict,
            Command::Register { nrkey, ptpl } | Command::Replace { crkey: None, nrkey, ptpl } => {
                let replaces = matches!(command, Command::Replace { .. });
                if !replaces && mine.is_some_and(|k| k != nrkey) {
                    return Answer::Conflict;
                }
                self.keys.insert(me, nrkey);
                self.ptpl = ptpl.unwrap_or(self.ptpl);
                self.generation += 1;
            }
            Command::Replace { crkey: Some(crkey), nrkey, ptpl } => {
                if mine != Some(crkey) {
                    return Answer::Conflict;
                }
                self.keys.insert(me, nrkey);
                self.ptpl = ptpl.unwrap_or(self.ptpl);
                self.generation += 1;
            }
            Command::Unregister { crkey, ptpl } => {
                if mine.is_none() || crkey.is_some() && mine != crkey {
                    return Answer::Conflict;
                }
                if let Some((3 | 4, h)) = self.reservation
                    && h == me
                {
                    reported.push((2, self.but(me)));
                }
                self.unregister(me);
                self.ptpl = ptpl.unwrap_or(self.ptpl);
                self.generation += 1;
            }
            Command::Acquire { crkey, rtype } => {
                if mine != Some(crkey) {
                    return Answer::Conflict;
                }
                match self.reservation {
                    None => self.reservation = Some((rtype.byte(), me)),
                    Some((t, _)) if self.holders().contains(&me) && t == rtype.byte() => {}
                    Some(_) => return Answer::Conflict,
                }
            }
            Command::Preempt { crkey, prkey, rtype, .. } => {
                if mine != Some(crkey) {
                    return Answer::Conflict;
                }
                let matching: Vec<u8> = self.keys.iter().filter(|(_, k)| **k == prkey).map(|(h, _)| *h).collect();
                match self.reservation {
                    Some((t @ (5 | 6), _)) if prkey == 0 => {
                        let out = self.but(me);
                        self.keys.retain(|h, _| *h == me);
                        self.reservation = Some((rtype.byte(), me));
                        reported.push((1, out));
                        let _ = t; // nobody is left to be informed of a change of type
                    }
                    Some((t @ 1..=4, h)) if self.keys[&h] == prkey => {
                        let out: Vec<u8> = matching.into_iter().filter(|h| *h != me).collect();
                        self.keys.retain(|h, _| !out.contains(h));
                        self.reservation = Some((rtype.byte(), me));
                        reported.push((1, out));
                        if t != rtype.byte() {
                            reported.push((2, self.but(me)));
                        }
                    }
                    Some((1..=4, _)) if prkey == 0 => return Answer::InvalidField,
                    _ if matching.is_empty() => return Answer::Conflict,
                    _ => {
                        matching.iter().for_each(|h| self.unregister(*h));
                        reported.push((1, matching.into_iter().filter(|h| *h != me).collect()));
                    }
                }
                self.generation += 1;
            }
            Command::Release { crkey, rtype } => {
                if mine != Some(crkey) {
                    return Answer::Conflict;
                }
                if self.holders().contains(&me) {
                    let (t, _) = self.reservation.unwrap();
                    if rtype.map(ReservationType::byte) != Some(t) {
                        return Answer::InvalidField;
                    }
                    self.reservation = None;
                    if t > 2 {
                        reported.push((2, self.but(me)));
                    }
                }
            }
            Command::Clear { crkey } => {
                if mine != Some(crkey) {
                    return Answer::Conflict;
                }
                reported.push((3, self.but(me)));
                *self = Model { generation: self.generation + 1, ptpl: self.ptpl, ..Model::default() };
            }
            Command::Move { crkey, to, nrkey, unregister, ptpl } => {
                let to = to.as_bytes()[0];
                match self.reservation {
                    _ if mine != Some(crkey) => return Answer::Conflict,
                    None => return Answer::InvalidField,
                    Some((t, holder)) if t > 4 || holder != me => return Answer::Conflict,
                    Some(_) if to == me || nrkey == 0 => return Answer::InvalidField,
                    Some((t, _)) => self.reservation = Some((t, to)),
                }
                self.keys.insert(to, nrkey);
                if unregister {
                    self.keys.remove(&me);
                }
                self.ptpl = ptpl;
                self.generation += 1;
            }
        }
        reported.retain(|(_, list)| !list.is_empty());
        Answer::Success(reported)
    }
    fn may(&self, me: u8) -> (bool, bool) {
        if self.taken.is_some_and(|(by, _)| by != me) {
            return (false, false);
        }
        let Some((t, _)) = self.reservation else { return (true, true) };
        if self.holders().contains(&me) || t >= 3 && self.keys.contains_key(&me) {
            return (true, true);
        }
        (t % 2 == 1, false)
    }
}

fn any_command() -> impl Strategy<Value = Command> {
    let key = || 0u64..4;
    let rtype = || (0usize..6).prop_map(|n| ReservationType::ALL[n]);
    let ptpl = || proptest::option::of(any::<bool>());
    prop_oneof![
        3 => (key(), ptpl()).prop_map(|(nrkey, ptpl)| Command::Register { nrkey, ptpl }),
        1 => (proptest::option::of(key()), ptpl()).prop_map(|(crkey, ptpl)| Command::Unregister { crkey, ptpl }),
        1 => (proptest::option::of(key()), key(), ptpl()).prop_map(|(crkey, nrkey, ptpl)| Command::Replace { crkey, nrkey, ptpl }),
        4 => (key(), rtype()).prop_map(|(crkey, rtype)| Command::Acquire { crkey, rtype }),
        4 => (key(), key(), rtype(), any::<bool>()).prop_map(|(crkey, prkey, rtype, abort)| Command::Preempt { crkey, prkey, rtype, abort }),
        2 => (key(), proptest::option::weighted(0.9, rtype())).prop_map(|(crkey, rtype)| Command::Release { crkey, rtype }),
        1 => key().prop_map(|crkey| Command::Clear { crkey }),
        2 => (key(), 1u8..5, key(), any::<bool>(), any::<bool>())
            .prop_map(|(crkey, to, nrkey, unregister, ptpl)| Command::Move { crkey, to: host(to), nrkey, unregister, ptpl }),
        1 => any::<bool>().prop_map(|ptpl| Command::Persist { ptpl }),
        3 => (1u16..3).prop_map(|session| Command::TakeUnit(TakenBy { port: 1, session })),
        2 => (1u16..3).prop_map(|session| Command::GiveUnit(TakenBy { port: 1, session })),
        1 => Just(Command::ResetUnit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn any_sequence_of_commands_goes_as_the_model_says(commands in proptest::collection::vec((1u8..5, any_command(), any::<bool>()), 1..60)) {
        let (mut s, mut m) = (State::default(), Model::default());
        for (me, mut command, knows) in commands {
            // Mostly hosts know their keys.
            let key = m.keys.get(&me).copied().filter(|_| knows);
            if let (Some(key), Command::Acquire { crkey, .. } | Command::Preempt { crkey, .. } | Command::Release { crkey, .. } | Command::Clear { crkey } | Command::Move { crkey, .. }) = (key, &mut command) {
                *crkey = key;
            }
            let (before, seen, could) = (s.clone(), s.last_notice(), (1..6).map(|h| m.may(h)).collect::<Vec<_>>());
            let result = s.execute(host(me), &command);
            let answer = m.run(me, &command);
            let got = match &result {
                Ok(_) => Answer::Success(s.notices_after(seen).map(|n| (n.kind as u8, n.hosts.iter().map(|h| h.as_bytes()[0]).collect())).collect()),
                Err(Refusal::Conflict) => Answer::Conflict,
                Err(Refusal::InvalidField) => Answer::InvalidField,
                Err(Refusal::TooManyRegistrants) => panic!("of five hosts"),
            };
            prop_assert_eq!(&got, &answer, "{:?} by {} at {:?}", command, me, before);
            if result.is_err() {
                prop_assert_eq!(&s, &before);
            }
            prop_assert_eq!(s.generation(), m.generation);
            prop_assert_eq!(s.ptpl(), m.ptpl);
            prop_assert_eq!(s.rtype().map(ReservationType::byte), m.reservation.map(|r| r.0));
            prop_assert_eq!(s.taken().map(|(by, session)| (by.as_bytes()[0], session)), m.taken);
            let keys: BTreeMap<u8, u64> = s.registrants().iter().map(|(h, k)| (h.as_bytes()[0], *k)).collect();
            prop_assert_eq!(&keys, &m.keys);
            for h in 1..6 {
                let a = s.access(host(h));
                prop_assert_eq!((a.read, a.write), m.may(h), "host {} at {:?}", h, s);
            }
            let less = could.iter().zip(1..6).any(|(then, h)| { let now = m.may(h); then.0 && !now.0 || then.1 && !now.1 });
            if let Ok(outcome) = result {
                prop_assert_eq!(outcome.narrowed, less, "somebody may do less");
            }
        }
    }
}

#[test]
fn an_administrator_s_clear_counts_and_tells_every_registrant() {
    for rtype in ReservationType::ALL {
        let mut s = held(rtype);
        let (generation, seen) = (s.generation(), s.last_notice());
        s.clear_all();
        assert_eq!((s.generation(), s.rtype(), s.registrants().len()), (generation + 1, None, 0));
        assert_eq!(notices(&s, seen), [(NoticeKind::ReservationPreempted, hosts(&[1, 2, 3]))]);
    }
}
