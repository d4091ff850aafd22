//! Associations in a simulated world: static controllers, queues that go, quotas, floods, silence, discovery, the audit log.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN, view};
use crate::limits::{GRANT_KEPT_MAX, HANDSHAKE_MAX, PDU_MAX, QUEUE_WAIT_MAX, TICK};
use crate::{ControllerIds, Options, Referral};
use base::{Duration, Instant};
use format::nvme::admin::{GetLogPage, SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, CNTLID_STATIC, Connect, ConnectData, DISCOVERY_NQN, PropertyAccess, disconnect_sqe};
use format::nvme::io::{BlockRange, flush_sqe};
use format::nvme::log::{AsyncEvent, DiscoveryEntry, DiscoveryHeader};
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, Cqe, IoOpcode, Sgl, Sqe, StatusCode, feature};
use format::nvme_tcp::{Fault, PduType, TermReq};
use frontend::{AuditEvent, AuditKind, CommandClass};
use std::sync::{Arc, Mutex};

fn plain() -> Client {
    Client::new(false, false, 0)
}

/// A Connect of an admin queue that asks for a controller.
fn connect_to(rig: &mut Rig, at: usize, cntlid: u16, host: &str) -> Cqe {
    let connect = Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 };
    let data = ConnectData::new([7; 16], cntlid, NQN, host).to_bytes();
    rig.send(at, |c| c.capsule(connect.sqe(1), &data));
    match rig.next(at) {
        Pdu::Response(cqe) => cqe,
        other => panic!("{other:?}"),
    }
}

fn audit(rig: &Rig) -> Vec<AuditEvent> {
    let servers = rig.servers.borrow();
    servers.iter().flat_map(|s| std::iter::from_fn(|| s.borrow_mut().target.pop_audit()).collect::<Vec<_>>()).collect()
}

fn now(rig: &Rig) -> Instant {
    rig.world.rt(rig.server, 0).now()
}

#[test]
fn a_host_finds_its_static_controller_again_on_whatever_core() {
    let ids = ControllerIds::new(2000, 2255, 16).unwrap();
    let mut rig = Rig::with(30, Options { controller_ids: ids, ..Options::default() });
    for round in 0..6 {
        let at = rig.open(rig.io, plain());
        let cqe = connect_to(&mut rig, at, if round % 2 == 0 { CNTLID_STATIC } else { 2240 }, HOST);
        assert_eq!((cqe.status.is_success(), cqe.result), (true, 2240), "round {round}: {cqe:?}");
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        assert!(rig.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
        let q = rig.io_queue(2240, 1, plain());
        assert!(rig.execute(q, flush_sqe(0, 1), &[]).0.status.is_success());
        let other = rig.open(rig.io, plain());
        let busy = connect_to(&mut rig, other, 2240, HOST);
        assert_eq!((busy.status.code, busy.status.dnr), (StatusCode::CONNECT_CONTROLLER_BUSY, false));
        let dynamic = connect_to(&mut rig, other, 2005, HOST);
        assert_eq!((dynamic.status.code, dynamic.result), (StatusCode::CONNECT_INVALID_PARAMETERS, 16 | 1 << 16));
        let any = connect_to(&mut rig, other, CNTLID_DYNAMIC, HOST);
        assert!((2000..2240).contains(&any.result), "a dynamic one of the slice: {any:?}");
        rig.close(at);
        rig.close(other);
        rig.world.run_for(Duration::from_millis(500));
        assert_eq!((rig.connections(), rig.controllers()), (0, 0));
    }
}

#[test]
fn a_connect_waits_out_a_queue_that_is_going_and_is_refused_when_it_stays() {
    let mut rig = Rig::new(31);
    let (_, cntlid) = rig.admin(plain(), 0);
    let old = rig.io_queue(cntlid, 1, plain());
    let new = rig.open(rig.io, plain());
    rig.send(new, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    assert!(rig.try_next(new, Duration::from_millis(900)).is_none(), "it waits");
    rig.close(old);
    assert!(matches!(rig.next(new), Pdu::Response(cqe) if cqe.status.is_success()));
    assert!(rig.execute(new, flush_sqe(0, 1), &[]).0.status.is_success());
    let third = rig.open(rig.io, plain());
    rig.send(third, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    let begun = now(&rig);
    let Pdu::Response(cqe) = rig.next(third) else { panic!("an answer") };
    assert_eq!((cqe.status.code, cqe.status.dnr), (StatusCode::COMMAND_SEQUENCE_ERROR, false));
    let waited = now(&rig).since(begun);
    assert!(waited >= QUEUE_WAIT_MAX && waited <= QUEUE_WAIT_MAX + TICK * 2, "{waited:?}");
    assert!(rig.execute(new, flush_sqe(0, 1), &[]).0.status.is_success(), "the queue that stays does not notice");
}

#[test]
fn a_connect_that_waits_learns_that_its_controller_has_gone() {
    let mut rig = Rig::new(32);
    let (admin, cntlid) = rig.admin(plain(), 0);
    rig.io_queue(cntlid, 1, plain());
    let new = rig.open(rig.io, plain());
    rig.send(new, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    rig.world.run_for(Duration::from_millis(100));
    rig.close(admin);
    let Pdu::Response(cqe) = rig.next(new) else { panic!("an answer") };
    assert_eq!((cqe.status.code, cqe.result), (StatusCode::CONNECT_INVALID_PARAMETERS, 16 | 1 << 16));
}

#[test]
fn a_disconnect_is_answered_last_and_what_had_not_begun_is_aborted() {
    let mut rig = Rig::new(33);
    let (admin, cntlid) = rig.admin(plain(), 0);
    let q = rig.io_queue(cntlid, 1, plain());
    let write = BlockRange::new(0, 15).sqe(IoOpcode::Write, 5, 1);
    rig.send(q, |c| c.capsule(with_transport(write, 8192), &[]));
    assert!(matches!(rig.next(q), Pdu::R2t(_)), "its data is asked for and never comes");
    rig.send(q, |c| [c.capsule(flush_sqe(6, 1), &[]), c.capsule(disconnect_sqe(7), &[])].concat());
    let mut answers = Vec::new();
    while let Some(Pdu::Response(cqe)) = rig.try_next(q, Duration::from_secs(2)) {
        answers.push((cqe.cid, cqe.status.code));
    }
    answers[..2].sort();
    assert_eq!(answers, [(5, StatusCode::ABORTED_SQ_DELETION), (6, StatusCode::SUCCESS), (7, StatusCode::SUCCESS)]);
    assert!(rig.is_closed(q, Duration::from_secs(1)));
    let (cqe, _) = rig.execute(admin, disconnect_sqe(0), &[]);
    assert_eq!(cqe.status.code, StatusCode::INVALID_QUEUE_TYPE, "an admin queue is not disconnected");
    let wrong = Sqe { cdw10: 1, ..disconnect_sqe(0) };
    let q = rig.io_queue(cntlid, 1, plain());
    assert_eq!(rig.execute(q, wrong, &[]).0.status.code, StatusCode::CONNECT_INCOMPATIBLE_FORMAT);
}

#[test]
fn a_host_that_comes_again_may_have_another_number_of_queues() {
    let mut rig = Rig::new(34);
    let (admin, cntlid) = rig.admin(plain(), 0);
    let queues = |n: u32| SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: (n - 1) << 16 | (n - 1), nsid: 0 }.sqe(0);
    let enable =
        |en| PropertyAccess::set_sqe(0, property::CC, false, Config { en, iosqes: 6, iocqes: 4, ..Config::default() }.bits().into());
    for n in [2, 4, 1] {
        assert_eq!(rig.execute(admin, queues(n), &[]).0.result, u64::from((n - 1) << 16 | (n - 1)));
        let open: Vec<usize> = (1..=n as u16).map(|qid| rig.io_queue(cntlid, qid, plain())).collect();
        let more = rig.open(rig.io, plain());
        let cqe = rig.connect(more, n as u16 + 1, cntlid, 0, NQN, HOST);
        assert_eq!((cqe.status.code, cqe.result), (StatusCode::CONNECT_INVALID_PARAMETERS, 42));
        assert!(rig.execute(admin, enable(false), &[]).0.status.is_success());
        for q in open {
            assert!(rig.is_closed(q, Duration::from_secs(1)), "a reset ends the queues");
        }
        assert!(rig.execute(admin, enable(true), &[]).0.status.is_success());
    }
}

#[test]
fn who_sends_byte_by_byte_gets_no_more_time_than_who_is_silent() {
    let mut rig = Rig::new(35);
    let (slow, _) = rig.admin(plain(), 0);
    let hello = rig.open(rig.io, plain());
    let (begun, mut ends) = (now(&rig), [None, None]);
    for n in 0..60 {
        rig.send(slow, |c| c.capsule(plain_sqe(AdminOpcode::KeepAlive, 9), &[])[n..=n].to_vec());
        rig.send(hello, |c| c.connect(0, 0, 32, 0, NQN, HOST)[n..=n].to_vec());
        rig.world.run_for(Duration::from_secs(1));
        for (end, at) in ends.iter_mut().zip([slow, hello]) {
            if end.is_none() && rig.is_closed(at, Duration::from_millis(1)) {
                *end = Some(now(&rig).since(begun));
            }
        }
    }
    let [pdu, handshake] = ends.map(|end| end.expect("it was closed"));
    assert!(pdu >= PDU_MAX && pdu < PDU_MAX + Duration::from_secs(3), "{pdu:?}");
    assert!(handshake < HANDSHAKE_MAX + Duration::from_secs(3), "{handshake:?}");
    assert_eq!(rig.servers.borrow().iter().map(|s| s.borrow().target.stats().timeouts).sum::<u64>(), 2);
}

#[test]
fn a_flood_of_half_open_connections_makes_room_for_itself_and_a_host_gets_in() {
    let mut rig = Rig::with(36, Options { address_handshakes_max: 8, ..Options::default() });
    let (admin, cntlid) = rig.admin(plain(), 0);
    let half: Vec<usize> = (0..200).map(|_| rig.open(rig.io, plain())).collect();
    assert!(rig.connections() <= 1 + 9 * CORES as u64, "{} are open", rig.connections());
    let q = rig.io_queue(cntlid, 1, plain());
    assert!(rig.execute(q, flush_sqe(0, 1), &[]).0.status.is_success());
    assert!(rig.execute(admin, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
    assert!(rig.is_closed(half[0], Duration::from_millis(10)), "the oldest made room");
    rig.world.run_for(HANDSHAKE_MAX + Duration::from_secs(1));
    assert_eq!(rig.connections(), 2);
    let reported = audit(&rig).into_iter().filter(|e| e.kind == AuditKind::Refused && e.detail.contains("made room")).count();
    assert!((1..=CORES * 4).contains(&reported), "the log is not flooded: {reported}");
}

#[test]
fn a_host_has_as_many_connections_as_its_quota_and_others_have_theirs() {
    let mut rig = Rig::with(37, Options { host_connections_max: 3, ..Options::default() });
    let mut open = view();
    open.generation = 2;
    open.subsystems[0].allow_any_host = true;
    let own = crate::HostView { connections_max: Some(2), ..crate::HostView::default() };
    open.hosts.insert("nqn.2026-11.io.basalt:host-two".into(), own);
    rig.apply(open);
    let (_, cntlid) = rig.admin(plain(), 0);
    let q = rig.io_queue(cntlid, 1, plain());
    let q2 = rig.io_queue(cntlid, 2, plain());
    let fourth = rig.open(rig.io, plain());
    let refused = |cqe: Cqe, code| assert_eq!((cqe.status.code, cqe.status.dnr), (code, code != StatusCode::CONNECT_CONTROLLER_BUSY));
    refused(rig.connect(fourth, 0, cntlid, 0, NQN, HOST), StatusCode::CONNECT_CONTROLLER_BUSY);
    refused(rig.connect(fourth, 3, cntlid, 0, NQN, HOST), StatusCode::CONNECT_INVALID_PARAMETERS);
    let other = rig.open(rig.io, plain());
    assert!(rig.connect(other, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:host-two").status.is_success());
    let second = rig.open(rig.io, plain());
    refused(rig.connect(second, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:host-two"), StatusCode::CONNECT_CONTROLLER_BUSY);
    for q in [q, q2] {
        rig.close(q);
    }
    rig.world.run_for(Duration::from_millis(100));
    assert!(rig.connect(fourth, 0, 0, 0, NQN, HOST).status.is_success(), "its places are free again");
}

/// Number of Queues; how many were granted.
fn grant(rig: &mut Rig, admin: usize, wanted: u16) -> u16 {
    let sqe = SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(wanted - 1, wanted - 1), nsid: 0 }.sqe(0);
    let (cqe, _) = rig.execute(admin, sqe, &[]);
    assert!(cqe.status.is_success(), "{cqe:?}");
    cqe.result as u16 + 1
}

/// Linux gives a connection up when one of the queues that it was granted is refused.
#[test]
fn every_queue_that_is_granted_can_be_connected_whatever_a_host_may_have() {
    for (most, wanted) in [(2, 4), (4, 4), (5, 4), (12, 4)] {
        let mut rig = Rig::with(50, Options { host_connections_max: most, ..Options::default() });
        let mut connected = 0;
        // Controllers that ask for their queues before any of them connects one, as after a start of the daemon.
        let controllers: Vec<_> = (0..most / 4).map(|_| rig.admin(plain(), 0)).collect();
        let controllers = if controllers.is_empty() { vec![rig.admin(plain(), 0)] } else { controllers };
        let granted: Vec<_> = controllers.iter().map(|(admin, cntlid)| (*cntlid, grant(&mut rig, *admin, wanted))).collect();
        for (cntlid, queues) in granted {
            assert!((1..=wanted).contains(&queues), "{queues} of {wanted}");
            connected += 1 + u32::from(queues);
            for qid in 1..=queues {
                rig.io_queue(cntlid, qid, plain());
            }
        }
        assert!(connected <= most);
        assert!(connected == most || controllers.len() as u32 * (1 + u32::from(wanted)) == connected, "no more is held back than there is");
    }
}

#[test]
fn what_was_kept_for_queues_that_do_not_come_is_free_again() {
    let mut rig = Rig::with(51, Options { host_connections_max: 6, ..Options::default() });
    let (admin, cntlid) = rig.admin(plain(), 0);
    assert_eq!(grant(&mut rig, admin, 5), 5);
    rig.io_queue(cntlid, 1, plain());
    let late = rig.open(rig.io, plain());
    assert_eq!(rig.connect(late, 0, 0, 0, NQN, HOST).status.code, StatusCode::CONNECT_CONTROLLER_BUSY);
    rig.close(late);
    rig.world.run_for(GRANT_KEPT_MAX + TICK * 2);
    let (second, _) = rig.admin(plain(), 0);
    assert_eq!(grant(&mut rig, second, 5), 3, "2 of 6 are connected, and its own");
    rig.close(second);
    rig.world.run_for(TICK);
    rig.io_queue(cntlid, 2, plain());
}

/// Lines of the daemon's log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl tracing::field::Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn who_is_refused_and_why_stands_in_the_log_and_a_flood_does_not_fill_it() {
    let lines = Lines::default();
    let _here = tracing::subscriber::set_default(lines.clone());
    let mut rig = Rig::new(52);
    let at = rig.open(rig.io, plain());
    rig.connect(at, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:nobody");
    let logged = core::mem::take(&mut *lines.0.lock().unwrap());
    assert_eq!(logged.len(), 1, "{logged:?}");
    for part in ["nqn.2026-11.io.basalt:nobody", NQN, "CONNECT_INVALID_HOST (0x184)", "not on the subsystem's list", "peer="] {
        assert!(logged[0].contains(part), "{part} in {}", logged[0]);
    }
    let refused = audit(&rig).pop().unwrap();
    assert!(refused.detail.starts_with("CONNECT_INVALID_HOST (0x184): the host is not on"), "{}", refused.detail);
    for _ in 0..200 {
        rig.connect(at, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:nobody");
    }
    let of_core = 8;
    assert!(lines.0.lock().unwrap().len() <= of_core, "{:?}", lines.0.lock().unwrap());
    rig.world.run_for(Duration::from_secs(11));
    let last = lines.0.lock().unwrap().pop().unwrap();
    assert!(last.contains("more=193"), "{last}");
}

#[test]
fn memory_beyond_the_quota_makes_commands_wait_and_comes_back() {
    let mut rig = Rig::with(38, Options { host_memory_bytes_max: 2 << 20, ..Options::default() });
    let (_, cntlid) = rig.admin(plain(), 0);
    let queues: Vec<usize> = (1..=4).map(|qid| rig.io_queue(cntlid, qid, plain())).collect();
    for q in &queues {
        for cid in 0..6 {
            let write = BlockRange::new(0, 511).sqe(IoOpcode::Write, cid, 2);
            rig.send(*q, |c| c.capsule(with_transport(write, 2 << 20), &[]));
            let read = BlockRange::new(u64::from(cid), 127).sqe(IoOpcode::Read, 100 + cid, 2);
            rig.send(*q, |c| c.capsule(with_transport(read, 512 << 10), &[]));
        }
    }
    let mut most = 0;
    for q in &queues {
        for _ in 0..400 {
            match rig.try_next(*q, Duration::from_millis(200)) {
                Some(Pdu::R2t(r2t)) => rig.send(*q, |c| c.h2c_data(&r2t, &vec![3; 2 << 20], 256 << 10)),
                Some(_) => {}
                None => break,
            }
            most = most.max(rig.shared.quotas().memory());
        }
        rig.execute(*q, flush_sqe(0, 1), &[]);
    }
    assert!(most > 0 && most <= 2 << 20, "{most}");
    let stats: Vec<_> = rig.servers.borrow().iter().map(|s| s.borrow().target.stats()).collect();
    assert!(stats.iter().map(|s| s.waited_for_buffers).sum::<u64>() > 0);
    rig.world.run_for(Duration::from_secs(1));
    assert_eq!((rig.shared.quotas().memory(), rig.shared.quotas().hosts().len()), (0, 1));
    for q in queues {
        rig.close(q);
    }
}

#[test]
fn keep_alive_expires_when_the_standard_says_so() {
    for kato_ms in [1000, 5000, 7300] {
        let mut rig = Rig::new(39);
        let (admin, cntlid) = rig.admin(plain(), kato_ms);
        let q = rig.io_queue(cntlid, 1, plain());
        let kato = Duration::from_millis(u64::from(kato_ms).next_multiple_of(1000));
        rig.world.run_for(kato / 2);
        assert!(rig.execute(admin, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
        let last = now(&rig);
        assert!(rig.is_closed(admin, kato * 3));
        let after = now(&rig).since(last);
        assert!(after + Duration::from_millis(50) >= kato && after <= kato + Duration::from_secs(2), "{after:?} after the last Keep Alive");
        assert!(rig.is_closed(q, Duration::from_secs(1)));
        // With traffic, the interval in which it came does not count (TBKAS): silent for one whole interval, and at most two.
        let (admin, cntlid) = rig.admin(plain(), kato_ms);
        let q = rig.io_queue(cntlid, 1, plain());
        for _ in 0..5 {
            rig.world.run_for(kato * 3 / 4);
            assert!(rig.execute(q, flush_sqe(0, 1), &[]).0.status.is_success(), "traffic keeps it alive");
        }
        let last = now(&rig);
        assert!(rig.is_closed(admin, kato * 4));
        let after = now(&rig).since(last);
        assert!(after >= kato && after <= kato * 2 + Duration::from_secs(2), "{after:?} after the last command");
    }
}

#[test]
fn bytes_that_are_no_command_keep_nobody_alive() {
    let mut rig = Rig::new(40);
    let (admin, _) = rig.admin(plain(), 2000);
    for n in 0..6 {
        rig.send(admin, |c| c.capsule(plain_sqe(AdminOpcode::KeepAlive, 9), &[])[n..=n].to_vec());
        rig.world.run_for(Duration::from_secs(1));
    }
    assert!(rig.is_closed(admin, Duration::from_millis(1)));
}

#[test]
fn a_termination_request_of_the_host_closes_at_once() {
    let mut rig = Rig::new(41);
    let (_, cntlid) = rig.admin(plain(), 0);
    let q = rig.io_queue(cntlid, 1, plain());
    let (bytes, len) = TermReq::bytes(PduType::H2cTermReq, Fault::SEQUENCE, &[0; 24]);
    rig.send(q, |_| bytes[..len].to_vec());
    assert!(rig.is_closed(q, Duration::from_millis(200)));
    assert!(rig.io_queue(cntlid, 1, plain()) > 0);
}

pub(super) fn discovery_log(rig: &mut Rig, at: usize) -> (DiscoveryHeader, Vec<DiscoveryEntry>) {
    let get = GetLogPage { lid: 0x70, lsp: 0, rae: false, lsi: 0, numd: 2047, offset: 0, index: false, csi: 0, nsid: 0 };
    let (cqe, log) = rig.execute(at, Sqe { sgl: Sgl::transport(8192), ..get.sqe(0) }, &[]);
    assert!(cqe.status.is_success(), "{cqe:?}");
    let head = DiscoveryHeader::parse(&log).unwrap();
    let entries = (1..=head.numrec as usize).map(|n| DiscoveryEntry::parse(&log[1024 * n..]).unwrap()).collect();
    (head, entries)
}

#[test]
fn discovery_tells_referrals_and_changes_and_its_counter_is_true() {
    let referral = Referral { addr: "192.0.2.9:8009".parse().unwrap(), nqn: None };
    let mut rig = Rig::with(42, Options { referrals: vec![referral], ..Options::default() });
    let at = rig.open(rig.discovery, plain());
    let host = "nqn.2026-11.io.basalt:another";
    assert!(rig.connect(at, 0, 0, 10_000, DISCOVERY_NQN, host).status.is_success());
    let cc = Config { en: true, ..Config::default() }.bits();
    assert!(rig.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    let (head, entries) = discovery_log(&mut rig, at);
    let kinds: Vec<u8> = entries.iter().map(|e| e.subtype).collect();
    assert_eq!(kinds, [3, 1], "this service and the other; no subsystem for this host");
    assert_eq!((entries[1].address(), entries[1].service(), entries[1].nqn()), ("192.0.2.9".into(), "8009".into(), Some(DISCOVERY_NQN)));
    assert_eq!(head.genctr, 0);
    let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_DISCOVERY, nsid: 0 };
    assert!(rig.execute(at, set.sqe(0), &[]).0.status.is_success());
    rig.send(at, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x7777), &[]));
    let mut new = view();
    new.generation = 2;
    new.subsystems[0].hosts.push("nqn.2026-11.io.basalt:a-third".into());
    rig.apply(new.clone());
    assert!(rig.try_next(at, Duration::from_secs(1)).is_none(), "nothing changed for this host");
    assert_eq!(discovery_log(&mut rig, at).0.genctr, 0);
    new.generation = 3;
    new.subsystems[0].hosts.push(host.into());
    rig.apply(new);
    let Pdu::Response(cqe) = rig.next(at) else { panic!("an event") };
    assert_eq!((cqe.cid, AsyncEvent::parse(cqe.result as u32).log), (0x7777, 0x70));
    let (head, entries) = discovery_log(&mut rig, at);
    assert_eq!((head.genctr, entries.len(), entries[2].nqn()), (1, 3, Some(NQN)));
}

#[test]
fn a_host_without_an_identifier_is_refused_with_its_place() {
    let mut rig = Rig::new(46);
    for (addr, nqn) in [(rig.io, NQN), (rig.discovery, DISCOVERY_NQN)] {
        let at = rig.open(addr, plain());
        let connect = Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: 0, kato_ms: 0 };
        let data = ConnectData::new([0; 16], CNTLID_DYNAMIC, nqn, HOST).to_bytes();
        let (cqe, _) = rig.execute(at, with_capsule(connect.sqe(0), data.len() as u32), &data);
        assert_eq!((cqe.status.code, cqe.status.dnr, cqe.result), (StatusCode::CONNECT_INVALID_PARAMETERS, true, 1 << 16));
    }
}

#[test]
fn who_comes_and_goes_is_noted_for_the_audit_log() {
    let mut rig = Rig::new(43);
    let (admin, cntlid) = rig.admin(plain(), 2000);
    let unlisted = rig.open(rig.io, plain());
    rig.connect(unlisted, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:nobody");
    assert!(rig.is_closed(admin, Duration::from_secs(8)));
    let (again, second) = rig.admin(plain(), 0);
    rig.close(again);
    rig.world.run_for(Duration::from_millis(100));
    let events = audit(&rig);
    let reported = |kind| events.iter().filter(|e| e.kind == kind).collect::<Vec<_>>();
    assert_eq!(
        reported(AuditKind::Connected).iter().filter_map(|e| e.session).collect::<std::collections::BTreeSet<_>>(),
        [cntlid, second].into()
    );
    let refused = reported(AuditKind::Refused);
    assert_eq!((refused.len(), refused[0].host.as_str(), refused[0].export.as_str()), (1, "nqn.2026-11.io.basalt:nobody", NQN));
    assert!(refused[0].detail.starts_with("CONNECT_INVALID_HOST (0x184)"), "{}", refused[0].detail);
    let mut why: Vec<&str> = reported(AuditKind::Disconnected).iter().map(|e| e.detail.as_str()).collect();
    why.sort_unstable();
    assert_eq!(why, ["connection closed", "keep-alive expired"]);
    assert!(events.iter().filter(|e| e.kind != AuditKind::Refused).all(|e| e.host == HOST && e.peer.is_some()));
}

#[test]
fn long_answers_of_a_controller_wait_for_each_other() {
    let mut rig = Rig::new(44);
    let (admin, _) = rig.admin(plain(), 0);
    let get = GetLogPage { lid: 2, lsp: 0, rae: false, lsi: 0, numd: (1 << 18) - 1, offset: 0, index: false, csi: 0, nsid: 0 };
    let all = |c: &Client| (0..20).flat_map(|cid| c.capsule(Sqe { cid, sgl: Sgl::transport(1 << 20), ..get.sqe(0) }, &[])).collect();
    rig.send(admin, all);
    let (mut answers, mut bytes, mut most) = (0, 0, 0);
    while answers < 20 {
        match rig.next(admin) {
            Pdu::Data(_, data) => bytes += data.len(),
            Pdu::Response(cqe) => {
                assert!(cqe.status.is_success(), "{cqe:?}");
                answers += 1;
            }
            other => panic!("{other:?}"),
        }
        most = most.max(rig.shared.quotas().memory());
    }
    assert_eq!(bytes, 20 << 20);
    assert!(most <= 1 << 20, "{most}");
    assert!(rig.servers.borrow().iter().any(|s| s.borrow().target.stats().waited_for_buffers > 0));
}

#[test]
fn who_goes_on_sending_after_its_end_is_cut_off() {
    let mut rig = Rig::new(45);
    let (_, cntlid) = rig.admin(plain(), 0);
    let q = rig.io_queue(cntlid, 1, plain());
    rig.send(q, |_| vec![0xFF; 6 << 20]);
    assert!(matches!(rig.next(q), Pdu::Term(..)));
    let begun = now(&rig);
    assert!(rig.is_closed(q, Duration::from_secs(10)));
    assert!(now(&rig).since(begun) < Duration::from_secs(2), "no lingering for a flood");
}

#[test]
fn what_a_host_does_is_counted_with_it_and_its_queues_as_long_as_they_are_there() {
    let mut rig = Rig::new(44);
    let (_, cntlid) = rig.admin(plain(), 0);
    let queues: Vec<_> = (1..=3).map(|qid| rig.io_queue(cntlid, qid, plain())).collect();
    for q in &queues {
        assert!(rig.execute(*q, flush_sqe(0, 1), &[]).0.status.is_success());
    }
    let sum = |rig: &Rig| {
        let all: Vec<_> = rig.servers.borrow().iter().flat_map(|s| s.borrow().target.stats().hosts.apart).collect();
        assert!(all.iter().all(|host| host.name == HOST && host.running == 0), "{all:?}");
        let flushes = all.iter().map(|host| host.classes[CommandClass::Flush as usize].commands).sum::<u64>();
        (flushes, all.iter().map(|host| host.queues).sum::<u32>())
    };
    assert_eq!(sum(&rig), (3, 3));
    rig.close(queues[0]);
    rig.world.run_for(Duration::from_millis(100));
    assert_eq!(sum(&rig), (3, 2));
    let again = rig.io_queue(cntlid, 1, plain());
    assert!(rig.execute(again, flush_sqe(0, 1), &[]).0.status.is_success());
    assert_eq!(sum(&rig), (4, 3));
    let whole: Vec<_> = rig.servers.borrow().iter().map(|s| s.borrow().target.stats()).collect();
    assert_eq!(whole.iter().map(|s| s.classes[CommandClass::Flush as usize].commands).sum::<u64>(), 4, "they are in the sums too");
}
