//! Edges: what is just allowed and just not, of Connect commands, limits, reservation commands; what is counted and shown.

use super::client::{Client, Pdu, with_transport};
use super::controller_tests::{Bench, bench};
use super::session_tests::Bench as Queue;
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN, view};
use crate::admin::Answer;
use crate::admission::{self, NotTaken};
use crate::connect_request::{ConnectRequest, Refusal};
use crate::controller::QueueAt;
use crate::health::{ErrorLog, Ledger};
use crate::limits::{HANDSHAKES_MAX, IO_QUEUES_MAX, KATO_MS_MAX, NAMESPACES_MAX, QUEUE_ENTRIES_MAX};
use crate::reservation::{command, conflicts, data_bytes, execute};
use crate::session::status_of_refusal;
use crate::view::{AnaState, HostView, ListenerKind, View};
use base::{Duration, HostId, Instant};
use cluster::reservation::{Access, Command, Outcome, Refusal as Denied, ReservationType, State};
use connection::{PERIOD, REPORTED_MAX, RefusalLog, Unauthenticated};
use format::nvme::admin::{NamespaceAction, NamespaceManagement};
use format::nvme::fabrics::{CNTLID_DYNAMIC, CNTLID_STATIC, Connect, ConnectData, DISCOVERY_NQN};
use format::nvme::identify::{IdentifyNamespace, IndependentNamespace};
use format::nvme::io::BlockRange;
use format::nvme::log::Health;
use format::nvme::reservation::{Action, Keys, Report, parse_extended_report};
use format::nvme::{Field, IoOpcode, NSID_ALL, Sgl, Sqe, Status, StatusCode};
use frontend::{HostLimits, LEASE_BYTES, Place, Quotas};
use frontend::{Refused, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn request(c: Connect, cntlid: u16, id: u8, nqn: &str, host: &str) -> Result<ConnectRequest, Refusal> {
    ConnectRequest::read(&c.sqe(1), &ConnectData::new([id; 16], cntlid, nqn, host).to_bytes())
}

#[test]
fn a_connect_is_judged_by_each_of_its_fields_and_the_answer_names_it() {
    let good = Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 };
    let io = Connect { qid: 1, ..good };
    let (any, kept, disc) = (CNTLID_DYNAMIC, CNTLID_STATIC, DISCOVERY_NQN);
    let sent = |at: u64, data: bool| Some((StatusCode::CONNECT_INVALID_PARAMETERS, at | u64::from(data) << 16));
    let format = Some((StatusCode::CONNECT_INCOMPATIBLE_FORMAT, 0));
    for (what, c, cntlid, nqn, wanted) in [
        ("an admin queue", good, any, NQN, None),
        ("of a static controller", good, kept, NQN, None),
        ("of one by its number", good, 1, NQN, None),
        ("of the highest number", good, 0xFFEF, NQN, None),
        ("of a reserved number", good, 0xFFF0, NQN, sent(16, true)),
        ("of number zero", good, 0, NQN, sent(16, true)),
        ("of discovery", good, any, disc, None),
        ("of a static discovery controller", good, kept, disc, sent(16, true)),
        ("of a discovery controller by its number", good, 7, disc, sent(16, true)),
        ("an I/O queue", io, 7, NQN, None),
        ("an I/O queue of any controller", io, any, NQN, sent(16, true)),
        ("an I/O queue of a static one", io, kept, NQN, sent(16, true)),
        ("the last queue", Connect { qid: IO_QUEUES_MAX, ..good }, 7, NQN, None),
        ("a queue more", Connect { qid: IO_QUEUES_MAX + 1, ..good }, 7, NQN, sent(42, false)),
        ("the smallest queue", Connect { sqsize: 1, ..good }, any, NQN, None),
        ("one entry", Connect { sqsize: 0, ..good }, any, NQN, sent(44, false)),
        ("the largest queue", Connect { sqsize: QUEUE_ENTRIES_MAX - 1, ..good }, any, NQN, None),
        ("an entry more", Connect { sqsize: QUEUE_ENTRIES_MAX, ..good }, any, NQN, sent(44, false)),
        ("a day", Connect { kato_ms: KATO_MS_MAX, ..good }, any, NQN, None),
        ("a day and a millisecond", Connect { kato_ms: KATO_MS_MAX + 1, ..good }, any, NQN, sent(48, false)),
        ("no timeout of an I/O queue counts", Connect { kato_ms: u32::MAX, ..io }, 7, NQN, None),
        ("another format", Connect { recfmt: 1, ..good }, any, NQN, format),
    ] {
        let got = request(c, cntlid, 7, nqn, HOST);
        assert_eq!(got.as_ref().err().map(|r| (r.status.code, r.result)), wanted, "{what}");
        assert!(got.as_ref().err().is_none_or(|r| r.status.dnr), "{what}");
        if let Ok(r) = got {
            assert_eq!((r.entries(), r.flow_control(), r.host_id, r.cntlid), (c.sqsize + 1, true, [7; 16], cntlid));
            assert_eq!((r.host_nqn.as_str(), r.subsystem.as_str()), (HOST, nqn));
        }
    }
    assert!(!request(Connect { cattr: 4, ..good }, any, 7, NQN, HOST).unwrap().flow_control());
    let short = ConnectRequest::read(&good.sqe(1), &[0; 1023]).unwrap_err();
    assert_eq!(short.status.code, StatusCode::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn who_comes_too_early_or_too_late_may_try_again() {
    let c = Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 };
    let (to_volume, to_discovery) =
        (request(c, CNTLID_DYNAMIC, 7, NQN, HOST).unwrap(), request(c, CNTLID_DYNAMIC, 7, DISCOVERY_NQN, HOST).unwrap());
    let judged =
        |w: &ConnectRequest, v: &View, kind, draining| admission::admit(w, v, kind, draining).err().map(|r| (r.status.code, r.status.dnr));
    let busy = Some((StatusCode::CONNECT_CONTROLLER_BUSY, false));
    let unknown = Some((StatusCode::CONNECT_INVALID_PARAMETERS, true));
    let (io, empty, served) = (ListenerKind::Io, View::default(), view());
    let nothing = View { generation: 1, ..View::default() };
    assert_eq!(judged(&to_volume, &empty, io, false), busy, "nothing was loaded yet");
    assert_eq!(judged(&to_volume, &nothing, io, false), unknown, "loaded, and not there");
    assert_eq!(judged(&to_discovery, &empty, io, false), None);
    assert_eq!(judged(&to_volume, &served, io, false), None);
    assert_eq!(judged(&to_volume, &served, ListenerKind::Discovery, false), unknown);
    for w in [&to_volume, &to_discovery] {
        assert_eq!(judged(w, &served, io, true), busy, "the daemon ends");
    }
}

#[test]
fn an_io_queue_is_taken_for_its_own_host_and_controller_only() {
    let c = Connect { recfmt: 0, qid: 1, sqsize: 31, cattr: 0, kato_ms: 0 };
    let other = "nqn.2026-11.io.basalt:other";
    let at = QueueAt { core: 0, token: 1 };
    let mut b = bench(false, 0);
    b.enable();
    let granted = b.c.grant_queues(2, HostLimits { connections: 9, memory: 1 }, Instant(0)).unwrap();
    let mut controllers = BTreeMap::from([(5, b.c)]);
    let mut asks = |c, cntlid, id, nqn: &str, host: &str| {
        let w = request(c, cntlid, id, nqn, host).unwrap();
        match admission::add_io_queue(&mut controllers, &w, at) {
            Ok(shared) => Ok(shared.cntlid),
            Err(NotTaken::InUse) => Err(None),
            Err(NotTaken::Refused(r)) => Err(Some((r.status.code, r.result, r.status.dnr))),
        }
    };
    let wrong = |at: u64, data: bool| Err(Some((StatusCode::CONNECT_INVALID_PARAMETERS, at | u64::from(data) << 16, true)));
    assert_eq!(asks(c, 6, 7, NQN, HOST), wrong(16, true), "no such controller");
    assert_eq!(asks(c, 5, 7, other, HOST), wrong(256, true));
    assert_eq!(asks(c, 5, 7, NQN, other), wrong(512, true));
    assert_eq!(asks(c, 5, 8, NQN, HOST), wrong(0, true), "another identifier is another host");
    assert_eq!(asks(Connect { qid: granted + 1, ..c }, 5, 7, NQN, HOST), wrong(42, false));
    assert_eq!(asks(Connect { qid: granted, ..c }, 5, 7, NQN, HOST), Ok(5));
    assert_eq!(asks(Connect { qid: granted, ..c }, 5, 7, NQN, HOST), Err(None));
    let mut controllers = BTreeMap::from([(5, bench(false, 0).c)]);
    let w = request(c, 5, 7, NQN, HOST).unwrap();
    let Err(NotTaken::Refused(r)) = admission::add_io_queue(&mut controllers, &w, at) else { panic!("not enabled") };
    assert_eq!((r.status.code, r.status.dnr), (StatusCode::COMMAND_SEQUENCE_ERROR, false));
    let mut controllers = BTreeMap::from([(5, bench(true, 0).c)]);
    let Err(NotTaken::Refused(r)) = admission::add_io_queue(&mut controllers, &w, at) else { panic!("discovery has none") };
    assert_eq!((r.status.code, r.result), (StatusCode::CONNECT_INVALID_PARAMETERS, 42));
}

#[test]
fn the_next_free_controller_id_is_found_whichever_are_taken() {
    let ids = crate::ControllerIds::new(1, 128, 0).unwrap();
    let mut controllers = BTreeMap::new();
    let mut last = 0;
    // All of one core of two but one, wherever that is.
    for free in [2u16, 64, 128] {
        controllers.clear();
        (1..=64u16).map(|n| n * 2).filter(|id| *id != free).for_each(|id| drop(controllers.insert(id, bench(false, 0).c)));
        for from in [0, 2, 62, 64, 126, 128] {
            last = from;
            assert_eq!(admission::free_cntlid(&controllers, &ids, &mut last, 0, 2), Ok(free), "after {from}");
        }
        controllers.insert(free, bench(false, 0).c);
        let full = admission::free_cntlid(&controllers, &ids, &mut last, 0, 2).unwrap_err();
        assert_eq!((full.status.code, full.status.dnr), (StatusCode::CONNECT_CONTROLLER_BUSY, false));
    }
}

/// A small generator: the same numbers each time.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn what_hosts_take_and_give_back_is_counted_to_the_last_place_and_step() {
    const MIB: u64 = LEASE_BYTES;
    for seed in 0..20 {
        let mut s = seed;
        let all_max = 12 * MIB;
        let q = Arc::new(Quotas::new(all_max));
        // Each place: its host, and what it has leased. The limits of a host are those of its last place.
        let mut places: Vec<(usize, u64, Place)> = Vec::new();
        let mut limits = [HostLimits { connections: 4, memory: 4 * MIB }; 3];
        let names = ["a", "b", "c"];
        for step in 0..400 {
            let h = draw(&mut s, 3) as usize;
            let count = places.iter().filter(|p| p.0 == h).count() as u32;
            match draw(&mut s, 5) {
                0 => {
                    let now = HostLimits { connections: draw(&mut s, 6) as u32, memory: draw(&mut s, 8) * MIB };
                    let got = q.enter(names[h], now);
                    assert_eq!(got.is_some(), count < now.connections, "seed {seed}, step {step}");
                    limits[h] = now;
                    places.extend(got.map(|p| (h, 0, p)));
                }
                1 if !places.is_empty() => drop(places.swap_remove(draw(&mut s, places.len() as u64) as usize)),
                2 if !places.is_empty() => {
                    let at = draw(&mut s, places.len() as u64) as usize;
                    let bytes = draw(&mut s, 5 * MIB);
                    let p = &mut places[at];
                    p.2.keep(bytes);
                    p.1 = p.1.min(bytes.div_ceil(MIB) * MIB);
                }
                _ if !places.is_empty() => {
                    let at = draw(&mut s, places.len() as u64) as usize;
                    let bytes = draw(&mut s, 5 * MIB) + draw(&mut s, 2) * MIB;
                    let (of_host, of_all) =
                        (places.iter().filter(|p| p.0 == places[at].0).map(|p| p.1).sum::<u64>(), places.iter().map(|p| p.1).sum::<u64>());
                    let more = bytes.saturating_sub(places[at].1).div_ceil(MIB) * MIB;
                    let fits = more == 0 || of_host + more <= limits[places[at].0].memory && of_all + more <= all_max;
                    let p = &mut places[at];
                    assert_eq!(p.2.covers(bytes), fits, "seed {seed}, step {step}");
                    p.1 += if fits { more } else { 0 };
                }
                _ => {}
            }
            let rows: Vec<_> = (0..3)
                .map(|h| {
                    (
                        names[h].to_owned(),
                        places.iter().filter(|p| p.0 == h).count() as u32,
                        places.iter().filter(|p| p.0 == h).map(|p| p.1).sum(),
                    )
                })
                .filter(|row: &(String, u32, u64)| row.1 > 0)
                .collect();
            assert_eq!(q.hosts(), rows, "seed {seed}, step {step}");
            assert_eq!(q.memory(), rows.iter().map(|r| r.2).sum::<u64>());
        }
    }
    let (q, six) = (Arc::new(Quotas::new(MIB)), HostLimits { connections: 6, memory: MIB });
    let (_admin, mut reserve) = q.enter_session("a", six).unwrap();
    assert_eq!((reserve.keep(5, six), q.hosts()[0].1), (5, 6));
    assert_eq!((reserve.keep(2, six), q.hosts()[0].1), (2, 3), "who wants fewer gives the others back");
    reserve.give_up();
    assert_eq!((q.hosts()[0].1, reserve.take().is_none()), (1, true));
}

#[test]
fn a_host_has_its_own_limits_and_else_those_of_all() {
    let mut v = view();
    let options = crate::Options { host_connections_max: 5, host_memory_bytes_max: 6, ..crate::Options::default() };
    let of = |v: &View| {
        let l = v.limits_of(HOST, &options);
        (l.connections, l.memory)
    };
    assert_eq!(of(&v), (5, 6));
    for (connections_max, memory_bytes_max, wanted) in
        [(Some(2), None, (2, 6)), (None, Some(3), (5, 3)), (Some(9), Some(8), (9, 8)), (None, None, (5, 6))]
    {
        v.hosts.insert(HOST.into(), HostView { connections_max, memory_bytes_max, ..HostView::default() });
        assert_eq!(of(&v), wanted);
    }
}

#[test]
fn handshakes_beyond_the_limits_make_room_one_by_one() {
    let mut s = Unauthenticated::new(HANDSHAKES_MAX);
    let ip = |n: u64| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255).parse().unwrap();
    for n in 1..=HANDSHAKES_MAX as u64 {
        assert_eq!(s.enter(n, ip(n), 2), None, "{n}");
    }
    let out = s.enter(5000, ip(5000), 2).expect("one makes room");
    s.leave(out);
    assert_eq!(s.len(), HANDSHAKES_MAX);
    s.leave(4999);
    assert_eq!(s.len(), HANDSHAKES_MAX, "who is not there does not leave");
    let mut s = Unauthenticated::new(HANDSHAKES_MAX);
    assert_eq!([1, 2, 3].map(|n| s.enter(n, ip(1), 2)), [None, None, Some(1)]);
}

#[test]
fn a_period_of_refusals_ends_when_it_is_over_and_the_next_begins_with_the_next() {
    let mut log = RefusalLog::new("elsewhere");
    let at = |ms: u64| Instant::default() + Duration::from_millis(ms);
    let period = PERIOD.as_nanos() as u64 / 1_000_000;
    let reported = |log: &mut RefusalLog, ms| (0..50).filter(|_| log.reports(at(ms))).count() as u32;
    assert_eq!(reported(&mut log, 100), REPORTED_MAX);
    assert_eq!(reported(&mut log, 99 + period), 0);
    assert_eq!(reported(&mut log, 100 + period), REPORTED_MAX, "nobody looked in between");
    log.report_the_rest(at(101 + period * 2));
    assert_eq!(reported(&mut log, 5000 + period * 2), REPORTED_MAX);
    assert_eq!(reported(&mut log, 4999 + period * 3), 0, "a period begins with its first refusal");
}

#[test]
fn the_log_of_errors_tells_all_but_what_is_everyday() {
    use StatusCode as S;
    for (code, reported) in [
        (S::SUCCESS, false),
        (S::COMPARE_FAILURE, false),
        (S::RESERVATION_CONFLICT, false),
        (S::ABORT_REQUESTED, false),
        (S::ANA_INACCESSIBLE, false),
        (S::ANA_TRANSITION, false),
        (S::INVALID_FIELD, true),
        (S::INTERNAL_ERROR, true),
        (S::UNRECOVERED_READ_ERROR, true),
        (S::ABORTED_SQ_DELETION, true),
        (S::LBA_OUT_OF_RANGE, true),
    ] {
        assert_eq!(ErrorLog::tells(code.into()), reported, "{code}");
    }
    let log = ErrorLog::default();
    for _ in 0..70 {
        log.note(Default::default());
    }
    assert!(log.page().chunks(64).all(|e| u64::get(e) > 0), "64 entries");
}

#[test]
fn health_counts_what_was_read_and_what_was_written_apart_and_hours() {
    let mut b = bench(false, 0);
    b.enable();
    let ledger = Ledger::open(&b.c.shared.figures);
    (0..3).for_each(|_| ledger.read(512_000 * 2));
    (0..5).for_each(|_| ledger.wrote(512_000 * 7 + 1));
    ledger.media_error();
    let at = |b: &mut Bench, hours: u64| {
        b.at(Instant::default() + Duration::from_secs(hours * 3600));
        Health::parse(&b.data(Bench::log(2, 0, 512, true))).unwrap()
    };
    let h = at(&mut b, 0);
    assert_eq!((h.units_read, h.units_written, h.reads, h.writes, h.media_errors), (6, 36, 3, 5, 1));
    assert_eq!((h.temperature, h.spare, h.power_on_hours), (300, 100, 0));
    assert_eq!([1, 25].map(|hours| at(&mut b, hours).power_on_hours), [1, 25]);
}

const MINE: HostId = HostId::from_bytes([7; 16]);
const THEIRS: HostId = HostId::from_bytes([9; 16]);

/// A volume that somebody else has reserved.
fn reserved(rtype: ReservationType) -> Arc<State> {
    let mut state = State::default();
    state.execute(THEIRS, &Command::Register { nrkey: 9, ptpl: Some(true) }).unwrap();
    state.execute(THEIRS, &Command::Acquire { crkey: 9, rtype }).unwrap();
    Arc::new(state)
}

#[test]
fn a_reservation_of_others_stands_against_changes_of_a_namespace() {
    let mut b = bench(false, 0);
    b.view.subsystems[0].manage_namespaces = true;
    b.shared.register_controller(&Arc::clone(&b.c.shared));
    b.enable();
    b.view.volumes[1].as_mut().unwrap().reservation = Some(reserved(ReservationType::WriteExclusive));
    let code = |a: Answer| match a {
        Answer::ControlRequest(_) => None,
        Answer::Refuse(s, _) | Answer::Status(s, _) => Some(s.code),
        _ => panic!("neither asked nor refused"),
    };
    let delete = |nsid| NamespaceManagement { action: Some(NamespaceAction::Delete), csi: 0, nsid }.sqe(1);
    let format = |nsid| format::nvme::admin::FormatNvm { lba_format: 0, protection: 0, secure_erase: 0, nsid }.sqe(1);
    let mut list = vec![0; 4096];
    format::nvme::identify::write_controller_list([5].into_iter(), 0, &mut list);
    let attach = |attach, nsid| format::nvme::admin::NamespaceAttachment { attach: Some(attach), nsid }.sqe(1);
    let conflict = Some(StatusCode::RESERVATION_CONFLICT);
    for (nsid, wanted) in [(1, None), (2, conflict)] {
        assert_eq!(code(b.run(delete(nsid))), wanted);
        assert_eq!(code(b.run(format(nsid))), wanted);
        assert_eq!(code(b.run_with(attach(true, nsid), &list)), wanted);
        assert_eq!(code(b.run_with(attach(false, nsid), &list)), wanted);
    }
    assert_eq!(code(b.run(delete(NSID_ALL))), conflict, "whichever of them it is");
    b.view.volumes[1].as_mut().unwrap().reservation = None;
    assert_eq!(code(b.run(delete(NSID_ALL))), None);
    let create = NamespaceManagement { action: Some(NamespaceAction::Create), csi: 0, nsid: 0 };
    let good = IdentifyNamespace { nsze: 2048, ncap: 2048, flbas: 1, ..IdentifyNamespace::default() };
    assert_eq!(code(b.run_with(NamespaceManagement { nsid: 1, ..create }.sqe(1), &good.to_bytes())), Some(StatusCode::INVALID_FIELD));
    let high = IdentifyNamespace { flbas: 1 << 5, ..good };
    assert_eq!(code(b.run_with(create.sqe(1), &high.to_bytes())), Some(StatusCode::INVALID_FORMAT), "bits 6:5 are of the format's number");
    let one = b.view.subsystems[0].namespaces[&1].clone();
    b.view.subsystems[0].namespaces = (1..NAMESPACES_MAX).map(|nsid| (nsid, one.clone())).collect();
    assert_eq!(code(b.run_with(create.sqe(1), &good.to_bytes())), None);
    b.view.subsystems[0].namespaces.insert(NAMESPACES_MAX, one);
    assert_eq!(code(b.run_with(create.sqe(1), &good.to_bytes())), Some(StatusCode::NSID_UNAVAILABLE));
}

#[test]
fn reservation_commands_are_read_field_by_field() {
    use IoOpcode as Op;
    use ReservationType as T;
    let keys = Keys { crkey: 0x11, other: 0x22 }.to_bytes();
    let is = |op: Op, a: Action, wanted| assert_eq!(command(&a.sqe(op, 1, 1), &keys), wanted, "{op:?} {a:?}");
    let none = Action::default();
    let act = |action| Action { action, ..none };
    let invalid = Err(StatusCode::INVALID_FIELD);
    for (cptpl, ptpl) in [(0, Some(None)), (1, None), (2, Some(Some(false))), (3, Some(Some(true)))] {
        let with = |c: fn(Option<bool>) -> Command| ptpl.map(c).ok_or(StatusCode::INVALID_FIELD);
        is(Op::ReservationRegister, Action { cptpl, ..none }, with(|ptpl| Command::Register { nrkey: 0x22, ptpl }));
        is(Op::ReservationRegister, Action { cptpl, ..act(1) }, with(|ptpl| Command::Unregister { crkey: Some(0x11), ptpl }));
        is(Op::ReservationRegister, Action { cptpl, iekey: true, ..act(1) }, with(|ptpl| Command::Unregister { crkey: None, ptpl }));
        is(Op::ReservationRegister, Action { cptpl, ..act(2) }, with(|ptpl| Command::Replace { crkey: Some(0x11), nrkey: 0x22, ptpl }));
        is(
            Op::ReservationRegister,
            Action { cptpl, iekey: true, ..act(2) },
            with(|ptpl| Command::Replace { crkey: None, nrkey: 0x22, ptpl }),
        );
    }
    for rtype in T::ALL {
        let byte = rtype.byte();
        let of = |action| Action { action, rtype: byte, ..none };
        is(Op::ReservationAcquire, of(0), Ok(Command::Acquire { crkey: 0x11, rtype }));
        for (action, abort) in [(1, false), (2, true)] {
            is(Op::ReservationAcquire, of(action), Ok(Command::Preempt { crkey: 0x11, prkey: 0x22, rtype, abort }));
            is(Op::ReservationAcquire, Action { iekey: true, ..of(action) }, invalid);
        }
        is(Op::ReservationRelease, of(0), Ok(Command::Release { crkey: 0x11, rtype: Some(rtype) }));
        is(Op::ReservationAcquire, of(3), invalid);
    }
    for rtype in [0, 7, 9, 0x11, 0x81, 0xFF] {
        is(Op::ReservationAcquire, Action { rtype, ..none }, invalid);
        is(Op::ReservationRelease, Action { rtype, ..none }, Ok(Command::Release { crkey: 0x11, rtype: None }));
    }
    is(Op::ReservationRelease, act(1), Ok(Command::Clear { crkey: 0x11 }));
    is(Op::ReservationRelease, Action { iekey: true, ..act(1) }, invalid);
    is(Op::ReservationRelease, act(2), invalid);
    is(Op::ReservationRegister, act(3), invalid);
    for (op, needs) in [(Op::ReservationRegister, 16), (Op::ReservationAcquire, 16), (Op::ReservationRelease, 8)] {
        let lens = [0, needs - 1, needs, needs + 8, 4096, 4097];
        assert_eq!(lens.map(|len| data_bytes(op, len)), [needs, needs, needs, needs + 8, 4096, needs].map(Some), "{op:?}");
        assert_eq!(command(&none.sqe(op, 1, 1), &keys[..needs as usize - 1]), Err(StatusCode::DATA_SGL_LENGTH_INVALID));
    }
    assert_eq!((data_bytes(Op::ReservationReport, 4096), data_bytes(Op::Read, 4096)), (Some(0), None));
}

/// The groups of base figure 529.
#[test]
fn what_a_reservation_forbids_goes_by_the_group_of_the_command() {
    use IoOpcode as Op;
    let (reads, writes) =
        ([Op::Read, Op::Compare, Op::Verify], [Op::Write, Op::WriteUncorrectable, Op::WriteZeroes, Op::DatasetManagement, Op::Flush]);
    for (read, write) in [(true, true), (true, false), (false, true), (false, false)] {
        let access = Access { read, write };
        assert!(reads.iter().all(|op| conflicts(*op, access) != read) && writes.iter().all(|op| conflicts(*op, access) != write));
        assert_eq!(conflicts(Op::Copy, access), !read || !write);
        let own = [Op::ReservationRegister, Op::ReservationReport, Op::ReservationAcquire, Op::ReservationRelease];
        assert!(own.iter().all(|op| !conflicts(*op, access)));
    }
}

#[test]
fn a_report_shows_who_is_registered_and_who_holds() {
    let mut v = view();
    let ns = v.namespaces(&v.subsystems[0], HOST)[1];
    let report = |v: &View, numd, eds, len| {
        let sqe = Sqe { sgl: Sgl::transport(len), ..Report { numd, eds }.sqe(1, 2) };
        match execute(v, &ns, &sqe, &[]) {
            Answer::Data(buf) => Ok(buf.to_vec()),
            Answer::Status(s, _) => Err(s.code),
            _ => panic!("neither"),
        }
    };
    let (head, entries) = parse_extended_report(&report(&v, 1023, true, 4096).unwrap()).unwrap();
    assert_eq!((head, entries), Default::default(), "nobody ever was");
    let mut state = State::clone(&reserved(ReservationType::ExclusiveAccess));
    state.execute(MINE, &Command::Register { nrkey: 7, ptpl: None }).unwrap();
    v.volumes[1].as_mut().unwrap().reservation = Some(Arc::new(state.clone()));
    let whole = report(&v, 1023, true, 4096).unwrap();
    let (head, entries) = parse_extended_report(&whole).unwrap();
    assert_eq!((head.generation, head.rtype, head.regctl, head.ptpls), (state.generation(), 2, 2, 1));
    let who: Vec<_> = entries.iter().map(|e| (e.cntlid, e.rcsts, e.rkey, e.hostid)).collect();
    assert_eq!(who, [(0xFFFF, 0, 7, [7; 16]), (0xFFFF, 1, 9, [9; 16])]);
    assert_eq!(report(&v, 23, true, 96).unwrap(), whole[..96], "as much as was asked for");
    assert_eq!(report(&v, 1023, false, 4096), Err(StatusCode::HOST_ID_INCONSISTENT));
    assert_eq!(report(&v, 1023, true, 4092), Err(StatusCode::DATA_SGL_LENGTH_INVALID));
    assert_eq!(report(&v, (1 << 18) - 1, true, 1 << 20).map(|r| r.len()), Ok(1 << 20));
    assert_eq!(report(&v, 1 << 18, true, (1 << 20) + 4), Err(StatusCode::INVALID_FIELD));
    let mut all = state.clone();
    all.execute(THEIRS, &Command::Release { crkey: 9, rtype: Some(ReservationType::ExclusiveAccess) }).unwrap();
    all.execute(MINE, &Command::Persist { ptpl: false }).unwrap();
    v.volumes[1].as_mut().unwrap().reservation = Some(Arc::new(all));
    let (head, entries) = parse_extended_report(&report(&v, 1023, true, 4096).unwrap()).unwrap();
    assert_eq!((head.rtype, head.ptpls, entries.iter().map(|e| e.rcsts).collect::<Vec<_>>()), (0, 0, vec![0, 0]));
}

#[test]
fn what_the_control_plane_refuses_and_answers_has_its_status() {
    use Refused as R;
    use StatusCode as S;
    let dnr = [
        (R::NotGranted, S::INVALID_OPCODE),
        (R::NoUnit, S::INVALID_NAMESPACE_OR_FORMAT),
        (R::Invalid, S::INVALID_FIELD),
        (R::NoSpace, S::INSUFFICIENT_CAPACITY),
        (R::NoNumber, S::NSID_UNAVAILABLE),
        (R::AlreadyAttached, S::NAMESPACE_ALREADY_ATTACHED),
        (R::Private, S::NAMESPACE_IS_PRIVATE),
        (R::NotAttached, S::NAMESPACE_NOT_ATTACHED),
        (R::WriteProtected, S::NAMESPACE_WRITE_PROTECTED),
        (R::NotChangeable, S::FEATURE_NOT_CHANGEABLE),
        (R::ReservationConflict, S::RESERVATION_CONFLICT),
        (R::Failed, S::INTERNAL_ERROR),
    ];
    for (refused, code) in dnr {
        assert_eq!(status_of_refusal(refused), Status::dnr(code), "{refused}");
    }
    assert_eq!(status_of_refusal(R::Busy), Status::later(S::NAMESPACE_NOT_READY, 2));
    assert_eq!(status_of_refusal(R::Unserved), Status::later(S::INTERNAL_ERROR, 2));
    let denied = [(Denied::Conflict, R::ReservationConflict), (Denied::InvalidField, R::Invalid), (Denied::TooManyRegistrants, R::Failed)];
    denied.into_iter().for_each(|(from, to)| assert_eq!(Refused::from(from), to));
    let volume = base::VolumeId::from_bytes([1; 16]);
    let preempted = BTreeSet::from([THEIRS]);
    for (narrowed, abort) in [(false, false), (true, false), (false, true), (true, true)] {
        let reply = Reply::reserved(volume, Outcome { narrowed, preempted: preempted.clone(), abort });
        let wanted = match (narrowed, abort) {
            (false, false) => Reply::Done,
            (_, false) => Reply::Fenced { volume, abort: BTreeSet::new() },
            (_, true) => Reply::Fenced { volume, abort: preempted.clone() },
        };
        assert_eq!(reply, wanted);
    }
}

/// Values that hosts go by, at their places in the structures (base figures 275 and 280, nvm figures 97 and 100).
#[test]
fn identify_states_what_this_target_does() {
    let mut b = bench(false, 0);
    b.enable();
    let page = |b: &mut Bench, cns, nsid| {
        let sqe = b.identify(cns, nsid);
        b.data(sqe)
    };
    let id = page(&mut b, 1, 0);
    let (u8_at, u16_at, u32_at) = (|at: usize| id[at], |at: usize| u16::get(&id[at..]), |at: usize| u32::get(&id[at..]));
    assert_eq!(
        (u8_at(76), u8_at(77), u16_at(78), u32_at(80), u8_at(111)),
        (0b1011, 8, 5, 0x2_0000, 1),
        "CMIC, MDTS, CNTLID, VER, CNTRLTYPE"
    );
    assert_eq!((u32_at(92), u32_at(96)), (1 << 8 | 1 << 11, 1 | 1 << 6 | 1 << 7), "OAES, CTRATT");
    assert_eq!([u16_at(128), u16_at(130), u16_at(132)], [2, 10, 50], "CRDT");
    assert_eq!(
        (u16_at(256), u8_at(258), u8_at(259), u8_at(260), u8_at(261), u8_at(262)),
        (0, 3, 3, 3, 0b10_0110, 63),
        "OACS, ACL, AERL, FRMW, LPA, ELPE"
    );
    assert_eq!((u16_at(320), u8_at(342), u8_at(343), u32_at(344), u32_at(348)), (10, 10, 0x1F, 65, 65), "KAS, ANA");
    assert_eq!((u8_at(512), u8_at(513), u16_at(514), u32_at(516)), (0x66, 0x44, 1024, 1024), "SQES, CQES, MAXCMD, NN");
    assert_eq!((u16_at(520), u16_at(522), u8_at(524), u8_at(525)), (0x1BF, 1, 8, 6), "ONCS, FUSES, FNA, VWC");
    assert_eq!((u8_at(531), u16_at(534), u32_at(536), u32_at(540)), (3, 1, 1 | 3 << 20, 1024), "NWPC, OCFS, SGLS, MNAN");
    assert_eq!((u32_at(1792), u32_at(1796), u8_at(1803), u16_at(1804)), ((64 + 16384) / 16, 1, 1, 1), "fabrics");
    for (nsid, lba) in [(1, 512u64), (2, 4096)] {
        let ns = page(&mut b, 0, nsid);
        let (u16_at, u32_at) = (|at: usize| u16::get(&ns[at..]), |at: usize| u32::get(&ns[at..]));
        let per = |bytes: u64| (bytes / lba) as u16;
        assert_eq!([0, 8, 16].map(|at| u64::get(&ns[at..])), [(4 << 20) / lba; 3], "NSZE, NCAP, NUSE");
        assert_eq!((ns[24], ns[25], ns[26], ns[30], ns[31], ns[32], ns[33]), (0b1_1010, 1, (lba == 4096).into(), 1, 0xFF, 0x80, 0b1001));
        let atomic = (object::ATOMIC_BYTES_MAX / lba) as u16 - 1;
        let piece = per(base::unit::PIECE_BYTES);
        assert_eq!([34, 36, 38].map(u16_at), [atomic; 3], "NAWUN, NAWUPF, NACWU");
        assert_eq!([40, 42, 44, 46].map(u16_at), [piece - 1, 0, piece - 1, piece], "NABSN, NABO, NABSPF, NOIOB");
        assert_eq!(u128::get(&ns[48..]), 4 << 20, "NVMCAP");
        assert_eq!([64, 66, 68, 70].map(u16_at), [per(4096) - 1; 4], "NPWG, NPWA, NPDG, NPDA");
        assert_eq!(u32_at(72) as u16, per(base::unit::CHUNK_BYTES).wrapping_sub(1), "NOWS");
        assert_eq!((u16_at(74), u32_at(76), ns[80]), (per(16 << 20), ((64 << 20) / lba) as u32, 127), "MSSRL, MCL, MSRC");
        assert_eq!((u32_at(92), ns[99]), (1, 0), "ANAGRPID, NSATTR");
        assert_eq!((&ns[104..120], ns[120] & 3), (&[nsid as u8; 16][..], 2), "NGUID; EUI-64 is a local one");
        assert_eq!((ns[130], ns[134]), (9, 12), "LBADS");
    }
    let nvm = page(&mut b, 6, 0);
    assert_eq!((nvm[0], nvm[1]), (0, 13), "VSL, WZSL");
    b.view.volumes[0].as_mut().unwrap().formatting = true;
    let independent = IndependentNamespace::parse(&page(&mut b, 8, 1)).unwrap();
    assert_eq!((independent.fpi, independent.nstat, independent.anagrpid, independent.nsattr), (0x80 | 100, 1, 1, 0));
    for (state, shown) in [
        (AnaState::Optimized, true),
        (AnaState::NonOptimized, true),
        (AnaState::Change, true),
        (AnaState::Inaccessible, false),
        (AnaState::PersistentLoss, false),
    ] {
        b.view.subsystems[0].namespaces.get_mut(&2).unwrap().ana.state = state;
        let ns = IdentifyNamespace::parse(&page(&mut b, 0, 2)).unwrap();
        assert_eq!((ns.nuse > 0, ns.nvmcap > 0, ns.nsze), (shown, shown, 1024), "{state:?}");
    }
}

#[test]
fn what_is_shown_of_a_host_is_what_it_has() {
    let mut rig = Rig::new(70);
    rig.world.run_for(Duration::from_secs(3));
    let begun = rig.world.rt(rig.server, 0).now();
    for (n, (header, data)) in [(false, true), (true, false)].into_iter().enumerate() {
        let (_, cntlid) = rig.admin(Client::new(header, data, 0), 3000 + 5000 * n as u32);
        for qid in 1..=n as u16 {
            rig.io_queue(cntlid, qid, Client::new(false, false, 0));
        }
        let info: Vec<_> = rig.servers.borrow().iter().flat_map(|s| s.borrow().target.sessions()).collect();
        let i = info.iter().find(|i| i.cntlid == cntlid).unwrap();
        assert_eq!((i.header_digest, i.data_digest, i.encrypted, i.discovery), (header, data, false, false));
        assert_eq!((i.kato_ms, i.io_queues, i.host_id), (3000 + 5000 * n as u32, n as u16, [7; 16]));
        assert_eq!((i.host_nqn.as_str(), i.subsystem.as_str()), (HOST, NQN));
        let age = rig.world.rt(rig.server, 0).now().since(i.since);
        assert!(i.since >= begun && age < Duration::from_secs(1), "{age:?}");
    }
    let stats: Vec<_> = rig.servers.borrow().iter().map(|s| s.borrow().target.stats()).collect();
    let sum = |of: fn(&crate::TargetStats) -> u64| stats.iter().map(of).sum::<u64>();
    assert_eq!((sum(|s| s.controllers), sum(|s| s.connections), sum(|s| s.connections_open), sum(|s| s.connects_refused)), (2, 3, 3, 0));
}

#[test]
fn admin_queues_weigh_nothing_when_io_queues_are_dealt_also_when_some_have_gone() {
    let mut rig = Rig::new(71);
    let (_, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    let dealt = |rig: &Rig| -> Vec<u64> { rig.servers.borrow().iter().map(|s| s.borrow().target.stats().connections).collect() };
    for round in 0..4 {
        // Admin queues come and go, which must leave no weight behind.
        let admins: Vec<_> = (0..=round).map(|_| rig.admin(Client::new(false, false, 0), 0).0).collect();
        admins.into_iter().for_each(|at| rig.close(at));
        rig.world.run_for(Duration::from_millis(100));
        let before = dealt(&rig);
        let queues: Vec<_> = (1..=CORES as u16 * 2).map(|qid| rig.io_queue(cntlid, qid, Client::new(false, false, 0))).collect();
        let each: Vec<u64> = dealt(&rig).iter().zip(before).map(|(now, then)| now - then).collect();
        assert_eq!(each, [2; CORES], "round {round}");
        queues.into_iter().for_each(|at| rig.close(at));
        rig.world.run_for(Duration::from_millis(100));
    }
}

#[test]
fn a_controller_that_ended_is_shown_to_nobody() {
    let mut rig = Rig::new(73);
    let all: Vec<_> = (0..3).map(|_| rig.admin(Client::new(false, false, 0), 0)).collect();
    let listed = |rig: &Rig| rig.shared.controllers_of(NQN).iter().map(|c| (c.cntlid, c.is_ready())).collect::<BTreeSet<_>>();
    assert_eq!(listed(&rig), all.iter().map(|(_, id)| (*id, true)).collect());
    let kept: Vec<_> = rig.shared.controllers_of(NQN).into_iter().filter(|c| c.cntlid == all[1].1).collect();
    rig.close(all[1].0);
    rig.world.run_for(Duration::from_millis(100));
    assert_eq!(listed(&rig), [all[0].1, all[2].1].map(|id| (id, true)).into());
    assert!(!kept[0].is_ready(), "its queues, wherever they are, run nothing more");
}

#[test]
fn a_namespace_of_which_a_host_is_notified_has_all_its_rights_looked_at() {
    let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
    q.change_view(|v| v.volumes[1].as_mut().unwrap().reservation = Some(reserved(ReservationType::ExclusiveAccess)));
    let read = |nsid| with_transport(BlockRange::new(0, 0).sqe(IoOpcode::Read, 9, nsid), if nsid == 2 { 4096 } else { 512 });
    assert_eq!(
        [1, 2, 3].map(|nsid| q.status(read(nsid), &[])),
        [StatusCode::SUCCESS, StatusCode::RESERVATION_CONFLICT, StatusCode::SUCCESS]
    );
    assert_eq!(q.status(format::nvme::io::flush_sqe(9, NSID_ALL), &[]), StatusCode::RESERVATION_CONFLICT, "one of them is reserved");
    assert_eq!(q.status(format::nvme::io::flush_sqe(9, 1), &[]), StatusCode::SUCCESS);
}

#[test]
fn the_head_of_a_queue_goes_round_with_its_entries() {
    for entries in [2u16, 3, 8] {
        let mut q = Queue::io_queue(Client::new(false, false, 0), entries);
        let mut head = None;
        for n in 0..30u16 {
            let capsule = q.client.capsule(format::nvme::io::flush_sqe(n, 1), &[]);
            q.feed(&capsule);
            let Some(Pdu::Response(cqe)) = q.next() else { panic!("an answer") };
            assert!(cqe.sqhd < entries);
            if let Some(last) = head.replace(cqe.sqhd) {
                assert_eq!(cqe.sqhd, (last + 1) % entries, "of {entries}");
            }
        }
    }
}

#[test]
fn the_log_of_features_says_of_each_what_its_change_does() {
    let mut b = bench(false, 0);
    b.enable();
    let log = b.data(Bench::log(0x12, 0, 1024, false));
    // Supported; the scope is the controller or the namespace; a change of the latter shows in Identify Namespace.
    let (of_controller, fixed, of_namespace) = (1 | 1 << 21, 1 | 1 << 20, 1 | 1 << 20 | 1 << 2);
    let mut wanted = vec![0u32; 256];
    [1, 2, 4, 7, 0x0A, 0x0B, 0x0F, 0x16, 0x81].into_iter().for_each(|fid: usize| wanted[fid] = of_controller);
    wanted[5] = fixed;
    [0x82, 0x83, 0x84].into_iter().for_each(|fid: usize| wanted[fid] = of_namespace);
    assert!(log.chunks(4).map(u32::get).eq(wanted));
}

#[test]
fn of_several_static_controllers_a_host_finds_the_one_it_left_last() {
    let statics = crate::statics::Statics::new(crate::ControllerIds::new(1, 128, 4).unwrap());
    let c = Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 };
    let asks = |cntlid, id| statics.take(&request(c, cntlid, id, NQN, HOST).unwrap(), 0).map_err(|r| r.status.code);
    assert_eq!((asks(CNTLID_STATIC, 7), asks(CNTLID_STATIC, 7), asks(CNTLID_STATIC, 8)), (Ok(125), Ok(126), Ok(127)));
    [125, 126, 127].into_iter().for_each(|id| statics.release(id));
    assert_eq!(asks(125, 7), Ok(125));
    statics.release(125);
    assert_eq!((asks(CNTLID_STATIC, 7), asks(CNTLID_STATIC, 7), asks(CNTLID_STATIC, 8)), (Ok(125), Ok(126), Ok(127)));
    assert_eq!((asks(CNTLID_STATIC, 9), asks(CNTLID_STATIC, 9)), (Ok(128), Err(StatusCode::CONNECT_CONTROLLER_BUSY)));
    assert_eq!(asks(126, 8), Err(StatusCode::CONNECT_INVALID_PARAMETERS), "an identifier more is another host");
    [127, 125].into_iter().for_each(|id| statics.release(id));
    assert_eq!(asks(CNTLID_STATIC, 9), Ok(125), "of those who are gone the one that came first makes room");
}

#[test]
fn a_log_is_read_up_to_its_end_and_the_changed_list_begins_anew_with_each_reading() {
    let mut b = bench(false, 0);
    b.enable();
    for (lid, bytes) in [(0x05, 4096u64), (0x01, 4096), (0x02, 512), (0x04, 4096), (0x80, 64)] {
        assert!(b.data(Bench::log(lid, bytes, 8, false)).iter().all(|x| *x == 0), "log {lid:#x} at its end");
        assert_eq!(b.status(Bench::log(lid, bytes + 4, 8, false)).0, StatusCode::INVALID_FIELD);
    }
    let list = b.view.namespaces(&b.view.subsystems[0], HOST);
    for rae in [true, false] {
        b.c.namespaces_are(list[..2].to_vec());
        assert_eq!([(), ()].map(|()| u32::get(&b.data(Bench::log(4, 0, 8, rae)))), [3, 0], "RAE is of the event");
        b.c.namespaces_are(list.clone());
        b.data(Bench::log(4, 0, 8, false));
    }
}

#[test]
fn the_log_of_effects_has_every_command_that_there_is_and_no_other() {
    let mut b = bench(false, 0);
    b.enable();
    for manages in [false, true] {
        b.view.subsystems[0].manage_namespaces = manages;
        let log = b.data(Bench::log(5, 0, 4096, false));
        let there = |at: usize| (0..256).filter(|op| u32::get(&log[at + op * 4..]) & 1 != 0).collect::<Vec<usize>>();
        let mut admin = vec![0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x18];
        if manages {
            admin.extend([0x0D, 0x15, 0x80]);
            admin.sort();
        }
        assert_eq!((there(0), there(1024)), (admin, vec![0, 1, 2, 4, 5, 8, 9, 0x0C, 0x0D, 0x0E, 0x11, 0x15, 0x19]));
    }
}

#[test]
fn the_highest_namespace_id_is_one_and_the_next_is_not() {
    let mut b = bench(false, 0);
    b.enable();
    for (nsid, code) in [(NAMESPACES_MAX, StatusCode::INVALID_FIELD), (NAMESPACES_MAX + 1, StatusCode::INVALID_NAMESPACE_OR_FORMAT)] {
        let sqe = b.identify(3, nsid);
        assert_eq!(b.status(sqe).0, code, "valid or not, it is not there");
        let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
        assert_eq!(q.status(format::nvme::io::flush_sqe(9, nsid), &[]), code);
    }
    let ids = crate::ControllerIds::new(1, 128, 4).unwrap();
    assert_eq!([124, 125, 128, 129].map(|id| ids.is_static(id)), [false, true, true, false]);
}

#[test]
fn bytes_and_pdus_are_counted_however_they_come() {
    for pieces in [None, Some(4000)] {
        let mut q = Queue::io_queue(Client::new(true, true, 0), 8);
        let (sent, came) = ((q.stats.bytes_in, q.stats.pdus_in), (q.stats.bytes_out, q.stats.pdus_out));
        q.pieces = pieces;
        let write = with_transport(BlockRange::new(0, 31).sqe(IoOpcode::Write, 9, 2), 128 << 10);
        let capsule = q.client.capsule(write, &[]);
        q.feed(&capsule);
        let Some(Pdu::R2t(r2t)) = q.next() else { panic!("asked for") };
        let data = q.client.h2c_data(&r2t, &vec![7; 128 << 10], 64 << 10);
        q.feed(&data);
        assert!(matches!(q.next(), Some(Pdu::Response(cqe)) if cqe.status.is_success()));
        assert_eq!((q.stats.bytes_in - sent.0, q.stats.pdus_in - sent.1), ((capsule.len() + data.len()) as u64, 3));
        assert_eq!((q.stats.bytes_out - came.0, q.stats.pdus_out - came.1, q.stats.r2ts), (28 + 28, 2, 1));
        assert_eq!(q.landed > 0, pieces.is_some());
    }
}

#[test]
fn data_in_capsules_is_held_as_long_as_its_command_and_no_longer() {
    let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
    let write = super::client::with_capsule(BlockRange::new(0, 3).sqe(IoOpcode::Write, 9, 2), 16 << 10);
    // More than a connection may hold at a time, one after the other.
    for _ in 0..crate::limits::CAPSULE_HELD_MAX / (16 << 10) + 8 {
        assert_eq!(q.status(write, &[1; 16 << 10]), StatusCode::SUCCESS);
        assert!(q.session.wants_bytes() && q.session.held() == 0);
    }
}

#[test]
fn an_identifier_stays_taken_when_another_command_with_it_was_refused() {
    let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
    q.hold = true;
    for n in 0..4 {
        let capsule = q.client.capsule(format::nvme::io::flush_sqe(5, 1), &[]);
        q.feed(&capsule);
        let answer = q.next();
        match n {
            0 => assert!(answer.is_none(), "it runs"),
            _ => assert!(matches!(answer, Some(Pdu::Response(cqe)) if cqe.status.code == StatusCode::COMMAND_ID_CONFLICT), "{n}"),
        }
    }
    assert!(q.answer_one());
    assert!(matches!(q.next(), Some(Pdu::Response(cqe)) if cqe.cid == 5 && cqe.status.is_success()));
    q.hold = false;
    assert_eq!(q.status(format::nvme::io::flush_sqe(5, 1), &[]), StatusCode::SUCCESS, "it is free again");
}

#[test]
fn a_write_whose_data_comes_late_is_not_carried_out_on_what_has_its_namespace_id_by_then() {
    for (change, code) in [
        (
            (|v| v.subsystems[0].namespaces.get_mut(&1).unwrap().volume = object::VolumeRef(2)) as fn(&mut View),
            StatusCode::INVALID_NAMESPACE_OR_FORMAT,
        ),
        (|v| v.volumes[0].as_mut().unwrap().formatting = true, StatusCode::FORMAT_IN_PROGRESS),
        (|v| v.subsystems[0].namespaces.get_mut(&1).unwrap().ana.state = AnaState::Inaccessible, StatusCode::ANA_INACCESSIBLE),
        (
            |v| v.volumes[0].as_mut().unwrap().reservation = Some(reserved(ReservationType::WriteExclusive)),
            StatusCode::RESERVATION_CONFLICT,
        ),
        (|v| drop(v.subsystems[0].namespaces.remove(&1)), StatusCode::INVALID_FIELD),
    ] {
        let mut q = Queue::io_queue(Client::new(false, false, 0), 8);
        let capsule = q.client.capsule(with_transport(BlockRange::new(0, 15).sqe(IoOpcode::Write, 9, 1), 8192), &[]);
        q.feed(&capsule);
        let Some(Pdu::R2t(r2t)) = q.next() else { panic!("asked for") };
        q.change_view(change);
        let data = q.client.h2c_data(&r2t, &[7; 8192], 8192);
        q.feed(&data);
        assert!(matches!(q.next(), Some(Pdu::Response(cqe)) if cqe.status.code == code), "{code}");
        assert_eq!(q.memory.requests, 0);
    }
}
