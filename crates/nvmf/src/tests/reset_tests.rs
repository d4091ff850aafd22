//! What a controller keeps, and forgets by a reset: features, masks, event requests, events, notifications.

use super::HOST;
use super::controller_tests::{Bench, bench};
use crate::admin::Answer;
use crate::controller::{QueueAt, TEMPERATURE_K};
use crate::notices::WAITING_MAX;
use crate::view::Namespace;
use base::{HostId, Instant, Visibility, VolumeId, WriteProtect};
use cluster::reservation::{Command, ReservationType, State};
use format::nvme::admin::{GetFeatures, SetFeatures};
use format::nvme::fabrics::PropertyAccess;
use format::nvme::feature::{self, Select};
use format::nvme::log::AsyncEvent;
use format::nvme::property::{self, Config};
use format::nvme::reservation::Notification;
use format::nvme::{Field, NSID_ALL, Sgl, Sqe, StatusCode};
use frontend::ControlVerb;
use frontend::HostLimits;
use std::collections::VecDeque;
use std::sync::Arc;

fn get(fid: u8, select: Select, nsid: u32) -> Sqe {
    GetFeatures { fid, select: Some(select), cdw11: 0, nsid }.sqe(1)
}
fn set(fid: u8, cdw11: u32, nsid: u32) -> Sqe {
    SetFeatures { fid, save: false, cdw11, nsid }.sqe(1)
}
fn code(answer: Answer) -> StatusCode {
    match answer {
        Answer::Status(s, _) | Answer::Refuse(s, _) => s.code,
        _ => panic!("no status"),
    }
}
/// CC.EN to 0 and to 1 again.
fn reset(b: &mut Bench) {
    assert!(matches!(b.run(PropertyAccess::set_sqe(1, property::CC, false, 0)), Answer::Reset));
    b.enable();
}
fn retry_delays(b: &mut Bench, select: Select) -> u8 {
    b.data(Sqe { sgl: Sgl::transport(512), ..get(feature::FID_HOST_BEHAVIOUR, select, 0) })[0]
}
fn set_retry_delays(b: &mut Bench, to: u8) -> StatusCode {
    let mut data = [0; 512];
    data[0] = to;
    code(b.run_with(set(feature::FID_HOST_BEHAVIOUR, 0, 0), &data))
}

const UNDER: u32 = 1 << 20;

#[test]
fn a_feature_that_is_set_changes_itself_alone_and_not_its_default() {
    let mut b = bench(false, 5000);
    b.enable();
    // Feature, dword 11 of Get, namespace, a value, another, what it is at first.
    let all = [
        (feature::FID_TEMPERATURE, 0, 0, 400, 500, 0xFFFF),
        (feature::FID_TEMPERATURE, UNDER, 0, 100, 200, 0),
        (feature::FID_QUEUES, 0, 0, feature::queues(2, 2), feature::queues(6, 6), feature::queues(127, 127)),
        (feature::FID_ASYNC_EVENTS, 0, 0, feature::AEC_ANA, feature::AEC_NAMESPACE, 0),
        (feature::FID_KEEP_ALIVE, 0, 0, 7000, 9000, 0),
        (feature::FID_RESERVATION_MASK, 0, 1, 0b0010, 0b1100, 0),
        (feature::FID_RESERVATION_MASK, 0, 2, 0b1000, 0b0110, 0),
    ];
    let value = |b: &mut Bench, at: usize, select| {
        let (fid, cdw11, nsid, ..) = all[at];
        let (code, value) = b.status(Sqe { cdw11, ..get(fid, select, nsid) });
        assert_eq!(code, StatusCode::SUCCESS, "{fid:#x}");
        value as u32
    };
    let mut now: Vec<u32> = (0..all.len()).map(|at| value(&mut b, at, Select::Current)).collect();
    assert_eq!(now, [0xFFFF, 0, feature::queues(127, 127), 0, 5000, 0, 0]);
    for round in 0..2 {
        for (at, (fid, cdw11, nsid, first, second, default)) in all.into_iter().enumerate() {
            let to = if round == 0 { first } else { second };
            assert_eq!(b.status(set(fid, cdw11 | to, nsid)).0, StatusCode::SUCCESS, "{fid:#x}");
            now[at] = to;
            let is: Vec<u32> = (0..all.len()).map(|at| value(&mut b, at, Select::Current)).collect();
            assert_eq!(is, now, "after {fid:#x} of {nsid} was set to {to:#x}");
            for select in [Select::Default, Select::Saved] {
                assert_eq!(value(&mut b, at, select), default, "{fid:#x}");
            }
        }
        for to in [1, 0, 1] {
            assert_eq!(set_retry_delays(&mut b, to), StatusCode::SUCCESS);
            assert_eq!((retry_delays(&mut b, Select::Current), retry_delays(&mut b, Select::Default)), (to, 0));
            assert_eq!(b.c.shared.knows_retry_delays(), to == 1);
        }
    }
    for wrong in [2, 3, 0xFF] {
        assert_eq!(set_retry_delays(&mut b, wrong), StatusCode::INVALID_FIELD);
    }
    assert_eq!(retry_delays(&mut b, Select::Current), 1);
    assert_eq!(b.status(get(feature::FID_WRITE_PROTECT, Select::Default, 3)).1, 0, "by default nothing is protected");
}

#[test]
fn edges_of_features_are_where_the_standard_has_them() {
    let mut b = bench(false, 0);
    b.enable();
    let invalid = StatusCode::INVALID_FIELD;
    for (sqe, wanted) in [
        (set(feature::FID_QUEUES, feature::queues(0xFFFF, 3), 0), invalid),
        (set(feature::FID_QUEUES, feature::queues(3, 0xFFFF), 0), invalid),
        (set(feature::FID_QUEUES, feature::queues(0xFFFE, 0xFFFE), 0), StatusCode::SUCCESS),
        (set(feature::FID_TEMPERATURE, 0xF << 16 | 350, 0), StatusCode::SUCCESS),
        (set(feature::FID_TEMPERATURE, 0xE << 16 | 350, 0), invalid),
        (set(feature::FID_TEMPERATURE, 3 << 20 | 350, 0), invalid),
        (set(feature::FID_KEEP_ALIVE, 24 * 3600 * 1000, 0), StatusCode::SUCCESS),
        (set(feature::FID_KEEP_ALIVE, 24 * 3600 * 1000 + 1, 0), StatusCode::KEEP_ALIVE_INVALID),
        (set(feature::FID_KEEP_ALIVE, 0, NSID_ALL), StatusCode::SUCCESS),
        (set(feature::FID_ASYNC_EVENTS, feature::AEC_DISCOVERY, 0), invalid),
        (get(feature::FID_RESERVATION_MASK, Select::Current, NSID_ALL), invalid),
        (get(feature::FID_RESERVATION_PERSISTENCE, Select::Current, NSID_ALL), invalid),
        (get(feature::FID_RESERVATION_MASK, Select::Supported, NSID_ALL), invalid),
        (get(feature::FID_WRITE_PROTECT, Select::Current, NSID_ALL), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
        (set(feature::FID_RESERVATION_MASK, 2, 9), invalid),
        (set(feature::FID_RESERVATION_PERSISTENCE, 1, 0), StatusCode::INVALID_NAMESPACE_OR_FORMAT),
    ] {
        assert_eq!(b.status(sqe).0, wanted, "{sqe:?}");
    }
    assert_eq!(b.status(get(feature::FID_KEEP_ALIVE, Select::Current, 0)).1, 0);
    let id = |cdw11, len| Sqe { cdw11, sgl: Sgl::transport(len), ..get(feature::FID_HOST_ID, Select::Current, 0) };
    assert_eq!(b.status(id(0, 16)).0, invalid, "64-bit identifiers do not exist over fabrics");
    assert_eq!(b.status(id(1, 8)).0, StatusCode::DATA_SGL_LENGTH_INVALID);
    assert_eq!(b.data(id(1, 16)), [7; 16]);
}

#[test]
fn a_discovery_controller_has_the_features_of_one() {
    let mut b = bench(true, 5000);
    b.status(PropertyAccess::set_sqe(1, property::CC, false, Config { en: true, ..Config::default() }.bits().into()));
    assert_eq!(b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_DISCOVERY, 0)).0, StatusCode::SUCCESS);
    for aec in [feature::AEC_NAMESPACE, feature::AEC_ANA, feature::AEC_HEALTH] {
        assert_eq!(b.status(set(feature::FID_ASYNC_EVENTS, aec, 0)).0, StatusCode::INVALID_FIELD);
    }
    assert_eq!(b.status(get(feature::FID_KEEP_ALIVE, Select::Current, 0)).1, 5000);
    for opcode in [0x08, 0x0D, 0x15, 0x80] {
        let Answer::Refuse(status, _) = b.run(Sqe { opcode, ..Sqe::default() }) else { panic!("{opcode:#x}") };
        assert_eq!((status.code, status.more), (StatusCode::INVALID_OPCODE, false), "{opcode:#x}");
    }
    let Answer::Refuse(status, at) = b.run(get(0x77, Select::Current, 0)) else { panic!("refused") };
    assert_eq!((at.is_known(), status.more), (true, false), "it has no log of errors");
    for fid in [feature::FID_QUEUES, feature::FID_TEMPERATURE, feature::FID_HOST_ID, feature::FID_RESERVATION_MASK] {
        assert_eq!(b.status(get(fid, Select::Current, 1)).0, StatusCode::INVALID_FIELD, "{fid:#x}");
    }
}

#[test]
fn what_is_set_for_all_namespaces_is_set_for_each_that_the_host_sees() {
    let mut b = bench(false, 0);
    b.enable();
    b.view.subsystems[0].namespaces.get_mut(&2).unwrap().hosts = Visibility::Only(Default::default());
    let mask = |b: &mut Bench, nsid| b.status(get(feature::FID_RESERVATION_MASK, Select::Current, nsid)).1;
    assert_eq!(b.status(set(feature::FID_RESERVATION_MASK, 0xFFFF_FFFF, NSID_ALL)).0, StatusCode::SUCCESS);
    assert_eq!([1, 3].map(|nsid| mask(&mut b, nsid)), [0b1110; 2], "the reserved bits stay zero");
    assert_eq!(b.status(set(feature::FID_RESERVATION_MASK, 0b0100, 3)).0, StatusCode::SUCCESS);
    assert_eq!([1, 3].map(|nsid| mask(&mut b, nsid)), [0b1110, 0b0100], "one alone");
    let persist = |b: &mut Bench, nsid, cdw11| match b.run(set(feature::FID_RESERVATION_PERSISTENCE, cdw11, nsid)) {
        Answer::ControlRequest(ControlVerb::Persist { volumes, ptpl }) => (volumes, ptpl),
        _ => panic!("not asked"),
    };
    let id = |n| VolumeId::from_bytes([n; 16]);
    assert_eq!(persist(&mut b, NSID_ALL, 1), (vec![id(1), id(3)], true));
    assert_eq!(persist(&mut b, 3, 0xFFFF_FFFE), (vec![id(3)], false), "bit 0 alone counts");
    let mut state = State::default();
    state.execute(HostId::from_bytes([9; 16]), &Command::Persist { ptpl: true }).unwrap();
    b.view.volumes[2].as_mut().unwrap().reservation = Some(Arc::new(state));
    let ptpl = |b: &mut Bench, select, nsid| b.status(get(feature::FID_RESERVATION_PERSISTENCE, select, nsid)).1;
    assert_eq!([1, 3].map(|nsid| ptpl(&mut b, Select::Current, nsid)), [0, 1]);
    assert_eq!(ptpl(&mut b, Select::Default, 3), 0);
}

#[test]
fn every_change_of_write_protection_is_asked_for_and_none_that_is_no_change() {
    use WriteProtect::{None, Permanent, Protected, UntilRestart};
    let mut b = bench(false, 0);
    b.enable();
    b.view.subsystems[0].manage_namespaces = true;
    for from in [None, Protected, UntilRestart, Permanent] {
        b.view.volumes[1].as_mut().unwrap().write_protect = from;
        for (n, to) in [None, Protected, UntilRestart, Permanent].into_iter().enumerate() {
            let answer = b.run(set(feature::FID_WRITE_PROTECT, n as u32, 2));
            match answer {
                Answer::Status(s, _) => assert!(s.is_success() && from == to, "{from:?} to {to:?}"),
                Answer::ControlRequest(ControlVerb::WriteProtect { volume, state }) => {
                    assert_eq!((volume, state, from == to), (VolumeId::from_bytes([2; 16]), to, false));
                }
                _ => panic!("{from:?} to {to:?}"),
            }
        }
        assert_eq!(
            b.status(get(feature::FID_WRITE_PROTECT, Select::Current, 2)).1,
            [None, Protected, UntilRestart, Permanent].iter().position(|s| *s == from).unwrap() as u64
        );
    }
}

const MINE: [u8; 16] = [7; 16];
const OTHER: [u8; 16] = [9; 16];

/// Somebody else takes this host's registration away.
fn preempt(b: &mut Bench, volume: usize) -> u64 {
    let v = b.view.volumes[volume].as_mut().unwrap();
    let mut state = v.reservation.as_deref().cloned().unwrap_or_default();
    let (mine, other) = (HostId::from_bytes(MINE), HostId::from_bytes(OTHER));
    for (by, nrkey) in [(mine, 7), (other, 9)] {
        let _ = state.execute(by, &Command::Register { nrkey, ptpl: None });
    }
    let before = state.last_notice();
    let rtype = ReservationType::WriteExclusive;
    state.execute(other, &Command::Preempt { crkey: 9, prkey: 7, rtype, abort: false }).unwrap();
    let news = state.notices_after(before).filter(|n| n.hosts.contains(&mine)).count() as u64;
    v.reservation = Some(Arc::new(state));
    b.view.generation += 1;
    b.c.reservations_are(&b.view);
    news
}

/// All that a host may see of what a reset forgets.
fn look(b: &mut Bench) -> Vec<u8> {
    let mut out = Vec::new();
    for (fid, cdw11, nsid) in [
        (feature::FID_TEMPERATURE, 0, 0),
        (feature::FID_TEMPERATURE, UNDER, 0),
        (feature::FID_QUEUES, 0, 0),
        (feature::FID_ASYNC_EVENTS, 0, 0),
        (feature::FID_RESERVATION_MASK, 0, 1),
        (feature::FID_RESERVATION_MASK, 0, 2),
    ] {
        out.extend(b.status(Sqe { cdw11, ..get(fid, Select::Current, nsid) }).1.to_le_bytes());
    }
    out.push(retry_delays(b, Select::Current));
    out.push(b.c.critical_warning());
    for lid in [0x04, 0x80] {
        out.extend(b.data(Bench::log(lid, 0, 64, true)));
    }
    out
}

/// The events that come to a host that asks for all of them, four at a time, and reads the log of each.
fn events(b: &mut Bench) -> Vec<AsyncEvent> {
    let mut out = Vec::new();
    while out.len() < 20 {
        for slot in 0..4 {
            b.c.add_request(slot);
        }
        let Some((_, event)) = b.c.next_event() else { break };
        out.push(event);
        b.data(Bench::log(event.log, 0, 64, false));
    }
    out
}

#[test]
fn after_a_reset_a_controller_is_as_new() {
    let mut new = bench(false, 5000);
    let mut used = bench(false, 5000);
    for b in [&mut new, &mut used] {
        b.enable();
        b.c.reservations_are(&b.view);
    }
    let as_new = look(&mut new);
    for step in 0..3 {
        // Everything that can be set and can happen, with the events of it read, unread, or not asked for.
        let all = feature::AEC_HEALTH | feature::AEC_NAMESPACE | feature::AEC_ANA;
        used.status(set(feature::FID_ASYNC_EVENTS, all, 0));
        used.status(set(feature::FID_QUEUES, feature::queues(3, 3), 0));
        used.status(set(feature::FID_TEMPERATURE, u32::from(TEMPERATURE_K) - 10, 0));
        used.status(set(feature::FID_TEMPERATURE, UNDER | 20, 0));
        assert_eq!(set_retry_delays(&mut used, 1), StatusCode::SUCCESS);
        used.status(set(feature::FID_RESERVATION_MASK, 0b1000, NSID_ALL));
        assert_eq!(preempt(&mut used, 0) + preempt(&mut used, 1), 2);
        let list = used.view.namespaces(&used.view.subsystems[0], HOST);
        used.c.namespaces_are(list[1..].to_vec());
        used.c.namespaces_are(list.clone());
        (0..step).for_each(|slot| assert!(used.c.add_request(slot)));
        let mut reported = 0;
        while used.c.next_event().is_some() {
            reported += 1;
        }
        assert_eq!(reported, step);
        assert_eq!(used.status(get(feature::FID_QUEUES, Select::Current, 0)).1, feature::queues(3, 3).into());
        reset(&mut used);
        assert_eq!(look(&mut used), as_new, "step {step}");
        assert_eq!(used.c.next_event(), None, "its event requests are forgotten");
        // What it is reported from now on is what a new one is reported, too.
        let mut after = Vec::new();
        for b in [&mut new, &mut used] {
            assert_eq!(events(b), [], "nothing stands over");
            b.status(set(feature::FID_ASYNC_EVENTS, all, 0));
            assert_eq!(events(b), []);
            let list = b.view.namespaces(&b.view.subsystems[0], HOST);
            let other: Vec<_> =
                list.iter().map(|n| if n.nsid == 1 { Namespace { id: VolumeId::from_bytes([77; 16]), ..*n } } else { *n }).collect();
            b.c.namespaces_are(other);
            let changed = u32::get(&b.data(Bench::log(4, 0, 64, true)));
            preempt(b, 1);
            b.status(set(feature::FID_TEMPERATURE, u32::from(TEMPERATURE_K), 0));
            let page = Notification::parse(&b.data(Bench::log(0x80, 0, 64, true))).unwrap();
            after.push((changed, page, events(b)));
            b.c.namespaces_are(list);
            events(b);
            reset(b);
        }
        assert_eq!(after[0], after[1], "step {step}");
        assert_eq!((after[0].0, after[0].1.count, after[0].2.len()), (1, 1, 4), "the namespace twice, the notification, the warning");
    }
}

#[test]
fn what_had_an_nsid_before_a_reset_is_nothing_to_the_host_after_it() {
    let mut b = bench(false, 0);
    b.enable();
    let list = b.view.namespaces(&b.view.subsystems[0], HOST);
    b.c.namespaces_are(list[1..].to_vec());
    reset(&mut b);
    b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_NAMESPACE, 0));
    let other = Namespace { id: VolumeId::from_bytes([77; 16]), ..list[0] };
    b.c.namespaces_are([&[other], &list[1..]].concat());
    assert_eq!(events(&mut b).len(), 1, "it looks once");
}

#[test]
fn a_warning_is_reported_when_it_begins_at_its_threshold_and_again_when_it_comes_back() {
    let mut b = bench(false, 0);
    b.enable();
    let health = AsyncEvent { kind: 1, info: 1, log: 2 };
    let reported = |b: &mut Bench, cdw11: u32| {
        assert_eq!(b.status(set(feature::FID_TEMPERATURE, cdw11, 0)).0, StatusCode::SUCCESS);
        (b.c.critical_warning() & 2 != 0, events(b))
    };
    let room = u32::from(TEMPERATURE_K);
    assert_eq!(reported(&mut b, room - 1), (true, vec![]), "nobody asked");
    assert_eq!(reported(&mut b, 0xFFFF), (false, vec![]));
    b.status(set(feature::FID_ASYNC_EVENTS, 1 << 1, 0));
    for round in 0..2 {
        assert_eq!(reported(&mut b, room + 1), (false, vec![]), "round {round}");
        assert_eq!(reported(&mut b, room), (true, vec![health]), "at or above");
        assert_eq!(reported(&mut b, room - 1), (true, vec![]), "it stands");
        assert_eq!(reported(&mut b, 0xFFFF), (false, vec![]));
        assert_eq!(reported(&mut b, UNDER | (room - 1)), (false, vec![]));
        assert_eq!(reported(&mut b, UNDER | room), (true, vec![health]), "at or below");
        assert_eq!(reported(&mut b, UNDER), (false, vec![]));
    }
    // Asked for other warnings only.
    b.status(set(feature::FID_ASYNC_EVENTS, 1 << 2, 0));
    assert_eq!(reported(&mut b, room), (true, vec![]));
    // Asked again: it stands, so it is reported.
    b.status(set(feature::FID_ASYNC_EVENTS, 1 << 1, 0));
    assert_eq!(events(&mut b), [health]);
    b.status(set(feature::FID_ASYNC_EVENTS, 1 << 1, 0));
    assert_eq!(events(&mut b), [], "once");
}

#[test]
fn an_event_whose_log_was_read_meanwhile_is_none_any_more_and_no_kind_waits_twice() {
    let mut b = bench(false, 0);
    b.enable();
    b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_NAMESPACE, 0));
    let list = b.view.namespaces(&b.view.subsystems[0], HOST);
    for n in [1, 2, 0, 3] {
        b.c.namespaces_are(list[..n].to_vec());
    }
    b.data(Bench::log(4, 0, 64, false));
    assert!(b.c.add_request(0));
    assert_eq!(b.c.next_event(), None, "the host has read of it");
    b.c.namespaces_are(list[..1].to_vec());
    assert!(b.c.next_event().is_some());
    // Nobody asked for ANA changes, nor, on a discovery controller, for its log's.
    let mut moved = list[..1].to_vec();
    moved[0].ana.state = crate::view::AnaState::NonOptimized;
    b.c.namespaces_are(moved);
    b.c.discovery_is(1);
    b.c.discovery_is(2);
    assert_eq!(events(&mut b), []);
}

#[test]
fn the_ana_log_counts_its_changes_and_those_of_each_group() {
    use crate::view::{Ana, AnaState};
    let mut b = bench(false, 0);
    b.enable();
    b.status(set(feature::FID_ASYNC_EVENTS, feature::AEC_ANA, 0));
    let base = b.view.namespaces(&b.view.subsystems[0], HOST);
    let ana = |group, state| Ana { group, state };
    let of = |anas: [Option<Ana>; 3]| -> Vec<_> { base.iter().zip(anas).filter_map(|(n, a)| Some(Namespace { ana: a?, ..*n })).collect() };
    let (best, good, none) = (AnaState::Optimized, AnaState::NonOptimized, AnaState::Inaccessible);
    let counts = |b: &Bench| (b.c.ana().1, b.c.ana().0.iter().map(|(id, g)| (*id, g.change_count)).collect::<Vec<_>>());
    assert_eq!(counts(&b), (1, vec![(1, 1)]));
    for (list, reported, wanted) in [
        (of([Some(ana(1, best)), Some(ana(1, best)), Some(ana(1, best))]), 0, (1, vec![(1, 1)])),
        (of([Some(ana(1, best)), Some(ana(1, best)), Some(ana(2, best))]), 1, (2, vec![(1, 2), (2, 2)])),
        (of([Some(ana(1, good)), Some(ana(1, good)), Some(ana(2, best))]), 1, (3, vec![(1, 3), (2, 2)])),
        (of([Some(ana(1, good)), Some(ana(1, good)), Some(ana(2, none))]), 1, (4, vec![(1, 3), (2, 4)])),
        // A namespace that goes has its own event, and so has one that comes.
        (of([Some(ana(1, good)), Some(ana(1, good)), None]), 0, (5, vec![(1, 3)])),
        (of([Some(ana(1, good)), None, None]), 0, (6, vec![(1, 6)])),
        (of([Some(ana(1, good)), None, Some(ana(3, good))]), 0, (7, vec![(1, 6), (3, 7)])),
        (of([Some(ana(3, good)), None, Some(ana(3, good))]), 1, (8, vec![(3, 8)])),
        (of([Some(ana(3, good)), None, Some(ana(3, good))]), 0, (8, vec![(3, 8)])),
    ] {
        b.c.namespaces_are(list);
        assert_eq!((events(&mut b).len(), counts(&b)), (reported, wanted));
    }
}

#[test]
fn a_controller_that_shuts_down_stays_ready_until_it_is_disabled() {
    let mut b = bench(false, 0);
    let cc = |en, shn| u64::from(Config { en, shn, iosqes: 6, iocqes: 4, ..Config::default() }.bits());
    let csts = |b: &mut Bench| b.status(PropertyAccess::get_sqe(1, property::CSTS, false)).1;
    assert_eq!(csts(&mut b), 0);
    assert_eq!(b.status(PropertyAccess::get_sqe(1, property::CRTO, false)).1, 40, "as CAP.TO");
    b.enable();
    assert_eq!(csts(&mut b), 1);
    b.status(PropertyAccess::set_sqe(1, property::CC, false, cc(true, 1)));
    assert_eq!(csts(&mut b), 0b1001, "RDY, and SHST 2");
    b.status(PropertyAccess::set_sqe(1, property::CC, false, cc(false, 0)));
    assert_eq!(csts(&mut b), 0);
    for wrong in [
        Config { ams: 1, ..Config::parse(cc(true, 0) as u32) },
        Config { crime: true, ..Config::parse(cc(true, 0) as u32) },
        Config { css: 1, ..Config::parse(cc(true, 0) as u32) },
    ] {
        b.status(PropertyAccess::set_sqe(1, property::CC, false, wrong.bits().into()));
        assert_eq!(csts(&mut b), 2, "{wrong:?}");
        b.status(PropertyAccess::set_sqe(1, property::CC, false, 0));
    }
}

#[test]
fn a_keep_alive_counts_from_itself_and_a_timeout_that_is_set_from_then() {
    let s = |n: u64| Instant(n * 1_000_000_000);
    let mut b = bench(false, 5000);
    b.c.shared.note_traffic(); // The command itself.
    b.c.keep_alive(s(3));
    assert!(!b.c.is_expired(s(7)) && b.c.is_expired(s(8)));
    b.c.shared.note_traffic();
    assert!(b.c.set_kato(2000, s(10)));
    assert!(!b.c.is_expired(s(11)) && b.c.is_expired(s(12)));
    b.c.keep_alive(s(20));
    b.c.give_time(base::Duration::from_secs(7));
    assert!(!b.c.is_expired(s(28)) && b.c.is_expired(s(29)));
    assert!(b.c.set_kato(24 * 3600 * 1000, s(30)) && !b.c.set_kato(24 * 3600 * 1000 + 1, s(30)));
}

#[test]
fn queues_that_a_host_may_have_follow_its_limits_and_a_queue_leaves_as_itself_only() {
    let mut b = bench(false, 0);
    b.enable();
    let limits = |connections| HostLimits { connections, memory: 1 };
    for (connections, wanted, granted, most) in
        [(9, 4, 4, 8), (4, 8, 3, 3), (2, 8, 1, 1), (0, 8, 1, 1), (2000, 500, 128, 128), (9, 0, 1, 8)]
    {
        assert_eq!(b.c.grant_queues(wanted, limits(connections), Instant(0)), Ok(granted));
        assert_eq!((b.c.queues_granted(), b.c.queues_max()), (granted, most));
    }
    let at = |token| QueueAt { core: 1, token };
    b.c.add_queue(1, at(5)).unwrap();
    b.c.remove_queue(1, at(6));
    b.c.remove_queue(1, QueueAt { core: 0, token: 5 });
    assert_eq!(b.c.queues().get(&1), Some(&at(5)), "what is late of another connection does not take it away");
    b.c.remove_queue(1, at(5));
    assert!(b.c.queues().is_empty());
    for _ in 0..3 {
        assert!((0..crate::limits::ABORT_MAX).all(|_| b.c.begin_abort()) && !b.c.begin_abort());
        (0..crate::limits::ABORT_MAX).for_each(|_| b.c.end_abort());
    }
}

/// A small generator: the same numbers each time.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn reservation_notifications_are_those_of_the_volumes_a_host_sees_in_their_order() {
    let event = AsyncEvent { kind: 6, info: 0, log: 0x80 };
    let (mut came, mut lost) = (0, 0);
    for seed in 0..20u64 {
        // One in four reads nothing for a while.
        let patient = seed % 4 == 3;
        let mut b = bench(false, 0);
        let mut s = seed;
        // What came before the controller did is not its business.
        preempt(&mut b, 0);
        let view = b.view;
        b = bench(false, 0);
        b.view = view;
        b.c.reservations_are(&b.view);
        b.enable();
        let mut waiting: VecDeque<(u64, u8, u32)> = VecDeque::new();
        let (mut count, mut masks, mut reported, mut queued) = (0u64, [0u32; 3], false, false);
        let mut attached = [true; 3];
        let hosts = [MINE, OTHER, [11; 16]].map(HostId::from_bytes);
        for step in 0..1500 {
            match draw(&mut s, 12) {
                0 => {
                    let n = draw(&mut s, 2) as usize;
                    attached[n] = !attached[n];
                    let seen = if attached[n] { Visibility::All } else { Visibility::Only(Default::default()) };
                    b.view.subsystems[0].namespaces.get_mut(&(n as u32 + 1)).unwrap().hosts = seen;
                }
                1 if !patient => {
                    let (n, mask) = (draw(&mut s, 2) as usize, draw(&mut s, 16) as u32);
                    if attached[n] {
                        assert_eq!(b.status(set(feature::FID_RESERVATION_MASK, mask, n as u32 + 1)).0, StatusCode::SUCCESS);
                        masks[n] = mask;
                    }
                }
                k if (k == 2 || k == 3) && !patient || patient && step > 1200 && k > 3 => {
                    let rae = draw(&mut s, 3) == 0;
                    b.data(Bench::log(0x80, 0, 64, rae));
                    if !rae {
                        waiting.pop_front();
                        (reported, queued) = (false, !waiting.is_empty());
                    }
                }
                4 if !patient && draw(&mut s, 10) == 0 => {
                    reset(&mut b);
                    (count, masks, reported, queued) = (0, [0; 3], false, false);
                    waiting.clear();
                }
                _ => {
                    let n = draw(&mut s, 2) as usize;
                    let by = hosts[draw(&mut s, 3) as usize];
                    let (crkey, prkey) = (u64::from(by.as_bytes()[0]), u64::from(hosts[draw(&mut s, 3) as usize].as_bytes()[0]));
                    let rtype = ReservationType::ALL[draw(&mut s, 6) as usize];
                    let command = match draw(&mut s, 6) {
                        0 | 1 => Command::Register { nrkey: crkey, ptpl: None },
                        2 => Command::Acquire { crkey, rtype },
                        3 => Command::Preempt { crkey, prkey, rtype, abort: false },
                        4 => Command::Release { crkey, rtype: None },
                        _ => Command::Clear { crkey },
                    };
                    let volume = b.view.volumes[n].as_mut().unwrap();
                    let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
                    if draw(&mut s, 2) == 0 {
                        let _ = state.execute(hosts[0], &Command::Register { nrkey: 7, ptpl: None });
                        let _ = state.execute(by, &Command::Register { nrkey: crkey, ptpl: None });
                    }
                    let before = state.last_notice();
                    let command = match (command, state.rtype()) {
                        (Command::Release { crkey, .. }, held) => Command::Release { crkey, rtype: held },
                        (other, _) => other,
                    };
                    let _ = state.execute(by, &command);
                    for notice in state.notices_after(before) {
                        if attached[n] && notice.hosts.contains(&hosts[0]) && masks[n] & 1 << notice.kind as u8 == 0 {
                            count += 1;
                            came += 1;
                            if waiting.len() < WAITING_MAX {
                                waiting.push_back((count, notice.kind as u8, n as u32 + 1));
                                queued |= !reported;
                            } else {
                                lost += 1;
                            }
                        }
                    }
                    volume.reservation = Some(Arc::new(state));
                }
            }
            b.view.generation += 1;
            let list = b.view.namespaces(&b.view.subsystems[0], HOST);
            b.c.namespaces_are(list);
            b.c.reservations_are(&b.view);
            b.c.add_request(0);
            let got = b.c.next_event().map(|(_, e)| e);
            assert_eq!(got, queued.then_some(event), "seed {seed}, step {step}");
            (reported, queued) = (reported || queued, false);
            let page = b.c.notices().page();
            let front = waiting.front().copied().unwrap_or_default();
            assert_eq!((page.count, page.kind, page.nsid), front, "seed {seed}, step {step}");
            assert_eq!(usize::from(page.available), waiting.len().saturating_sub(1));
        }
    }
    assert!(came > 500 && lost > 10, "{came} came, {lost} found no room");
}
