//! What a host learns without asking, and when; what connections that went leave behind; what is counted, in whole targets.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::session_tests::{Bench as Queue, pattern};
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN, view};
use crate::limits::{GRANT_KEPT_MAX, H2C_DATA_MAX, HANDSHAKE_MAX, TICK};
use crate::session::Aborted;
use crate::view::{ListenerKind, ListenerSpec, View};
use crate::{Options, TargetStats};
use base::{Duration, HostId, Security};
use cluster::reservation::{Command, ReservationType};
use format::nvme::admin::{GetLogPage, SetFeatures, plain_sqe};
use format::nvme::fabrics::{DISCOVERY_NQN, PropertyAccess};
use format::nvme::io::{BlockRange, DatasetManagement, DsmRange, flush_sqe};
use format::nvme::log::{AsyncEvent, ErrorEntry, Health};
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, Cqe, IoOpcode, Sgl, Sqe, StatusCode, feature};
use frontend::{AuditKind, CommandClass};
use object::IoError;
use std::sync::Arc;

fn plain() -> Client {
    Client::new(false, false, 0)
}
fn sum(rig: &Rig, of: impl Fn(&TargetStats) -> u64) -> u64 {
    rig.servers.borrow().iter().map(|s| of(&s.borrow().target.stats())).sum()
}
/// An event request is parked.
fn listen(rig: &mut Rig, at: usize) {
    rig.send(at, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x7777), &[]));
}
/// The event that comes within this time.
fn news(rig: &mut Rig, at: usize, limit: Duration) -> Option<AsyncEvent> {
    match rig.try_next(at, limit)? {
        Pdu::Response(cqe) if cqe.cid == 0x7777 => Some(AsyncEvent::parse(cqe.result as u32)),
        other => panic!("{other:?}"),
    }
}
fn log(rig: &mut Rig, at: usize, lid: u8) -> Vec<u8> {
    let get = GetLogPage { lid, lsp: 0, rae: false, lsi: 0, numd: 127, offset: 0, index: false, csi: 0, nsid: 0 };
    rig.execute(at, Sqe { sgl: Sgl::transport(512), ..get.sqe(0) }, &[]).1
}
fn want(rig: &mut Rig, at: usize, aec: u32) {
    let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: aec, nsid: 0 };
    assert!(rig.execute(at, set.sqe(0), &[]).0.status.is_success());
}

/// Another host takes the registration of this one away, so many times.
fn preempted(view: &mut View, times: u64) {
    let v = view.volumes[0].as_mut().unwrap();
    let mut state = v.reservation.as_deref().cloned().unwrap_or_default();
    let (mine, theirs) = (HostId::from_bytes([7; 16]), HostId::from_bytes([9; 16]));
    for _ in 0..times {
        for (by, nrkey) in [(mine, 7), (theirs, 9)] {
            let _ = state.execute(by, &Command::Register { nrkey, ptpl: None });
        }
        let rtype = ReservationType::WriteExclusive;
        state.execute(theirs, &Command::Preempt { crkey: 9, prkey: 7, rtype, abort: false }).unwrap();
    }
    v.reservation = Some(Arc::new(state));
    view.generation += 1;
}

#[test]
fn news_come_at_once_and_the_next_as_soon_as_the_first_was_read() {
    let moment = Duration::from_millis(20);
    let reservation = AsyncEvent { kind: 6, info: 0, log: 0x80 };
    let mut rig = Rig::new(80);
    let mut v = view();
    preempted(&mut v, 1);
    rig.apply(v.clone());
    let hosts: Vec<usize> = (0..CORES).map(|_| rig.admin(plain(), 0).0).collect();
    // The first change after they have connected.
    preempted(&mut v, 2);
    rig.apply(v.clone());
    for at in &hosts {
        for left in [1, 0] {
            listen(&mut rig, *at);
            assert_eq!(news(&mut rig, *at, moment), Some(reservation));
            listen(&mut rig, *at);
            assert_eq!(news(&mut rig, *at, moment), None, "it is reported once");
            let page = log(&mut rig, *at, 0x80);
            assert_eq!((page[0], page[8], page[9]), (2 - left, 1, left));
            if left > 0 {
                assert_eq!(news(&mut rig, *at, moment), Some(reservation), "another waits");
                let page = log(&mut rig, *at, 0x80);
                assert_eq!((page[0], page[9]), (2, 0));
                break;
            }
        }
        assert_eq!(log(&mut rig, *at, 0x80)[..16], [0; 16]);
    }
    // What changed before a host wants to know is reported when it says so.
    let at = hosts[0];
    v.volumes[1].as_mut().unwrap().bytes *= 2;
    v.generation += 1;
    rig.apply(v);
    listen(&mut rig, at);
    assert_eq!(news(&mut rig, at, TICK * 3), None);
    want(&mut rig, at, feature::AEC_NAMESPACE);
    assert_eq!(news(&mut rig, at, moment), Some(AsyncEvent { kind: 2, info: 0, log: 4 }));
}

#[test]
fn a_media_error_of_an_io_queue_is_reported_soon_and_with_its_figures_gone_is_forgotten() {
    let mut rig = Rig::new(81);
    let (admin, cntlid) = rig.admin(plain(), 0);
    want(&mut rig, admin, feature::AEC_HEALTH);
    listen(&mut rig, admin);
    let q = rig.io_queue(cntlid, 1, plain());
    let read = with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Read, 0, 1), 4096);
    assert!(rig.execute(q, read, &[]).0.status.is_success());
    rig.fail(Some(IoError::Media { offset: 0 }));
    assert_eq!(rig.execute(q, read, &[]).0.status.code, StatusCode::UNRECOVERED_READ_ERROR);
    rig.fail(None);
    assert_eq!(news(&mut rig, admin, TICK * 3), Some(AsyncEvent { kind: 1, info: 0, log: 2 }));
    let health = |rig: &mut Rig, at| Health::parse(&log(rig, at, 2)).unwrap();
    let h = health(&mut rig, admin);
    assert_eq!((h.critical_warning, h.media_errors, h.reads), (4, 1, 1));
    // A subsystem of the same name that is made later is another one.
    rig.apply(View { generation: 2, subsystems: Vec::new(), ..view() });
    assert!(rig.is_closed(admin, TICK));
    rig.world.run_for(TICK);
    rig.apply(View { generation: 3, ..view() });
    let (admin, _) = rig.admin(plain(), 0);
    let h = health(&mut rig, admin);
    assert_eq!((h.critical_warning, h.media_errors, h.reads), (0, 0, 0));
}

/// One core does not poll for a while.
fn stop_core(rig: &mut Rig, core: usize, stopped: bool) {
    rig.servers.borrow()[core].borrow_mut().stopped = stopped;
    rig.world.rt(rig.server, core).wake(core);
}

#[test]
fn a_connection_that_reaches_its_core_after_the_shutdown_began_is_closed() {
    let mut rig = Rig::new(92);
    (1..CORES).for_each(|core| stop_core(&mut rig, core, true));
    let all: Vec<usize> = (0..CORES * 2).map(|_| rig.start(rig.io, plain(), None)).collect();
    rig.world.run_for(Duration::from_millis(20));
    for core in 1..CORES {
        let rt = rig.world.rt(rig.server, core);
        rig.servers.borrow()[core].borrow_mut().target.begin_shutdown(&rt);
        stop_core(&mut rig, core, false);
    }
    let greeted = all.into_iter().filter(|at| rig.try_next(*at, Duration::from_millis(50)).is_some()).count();
    let late = 2 * (CORES - 1) as u64;
    assert_eq!((greeted, sum(&rig, |s| s.connections_refused), sum(&rig, |s| s.connections_open)), (2, late, 2));
}

#[test]
fn a_queue_whose_connection_ended_while_it_joined_can_be_connected_at_once() {
    let mut rig = Rig::new(82);
    let (_, cntlid) = rig.admin(plain(), 0);
    let home = usize::from(cntlid) % CORES;
    // The core of its controller does not answer before its time is over.
    let late = rig.open(rig.io, plain());
    stop_core(&mut rig, home, true);
    rig.send(late, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    assert!(rig.is_closed(late, HANDSHAKE_MAX + TICK * 4));
    stop_core(&mut rig, home, false);
    rig.world.run_for(Duration::from_millis(10));
    let q = rig.open(rig.io, plain());
    rig.send(q, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    assert!(matches!(rig.try_next(q, Duration::from_millis(100)), Some(Pdu::Response(cqe)) if cqe.status.is_success()));
    assert!(rig.execute(q, flush_sqe(0, 1), &[]).0.status.is_success());
}

#[test]
fn a_queue_that_was_refused_for_want_of_a_place_can_be_connected_when_there_is_one() {
    let mut rig = Rig::with(83, Options { host_connections_max: 3, ..Options::default() });
    let (_, cntlid) = rig.admin(plain(), 0);
    rig.world.run_for(GRANT_KEPT_MAX + TICK * 2);
    let (other, _) = rig.admin(plain(), 0);
    let at = rig.open(rig.io, plain());
    let cqe = rig.connect(at, 1, cntlid, 0, NQN, HOST);
    assert_eq!((cqe.status.code, cqe.status.dnr), (StatusCode::CONNECT_CONTROLLER_BUSY, false));
    rig.close(other);
    rig.world.run_for(Duration::from_millis(10));
    rig.send(at, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    assert!(matches!(rig.try_next(at, Duration::from_millis(100)), Some(Pdu::Response(cqe)) if cqe.status.is_success()));
    assert_eq!(sum(&rig, |s| s.waited_for_queues), 0);
    // One that waits for a queue that is there is counted.
    let second = rig.open(rig.io, plain());
    rig.send(second, |c| c.connect(1, cntlid, 32, 0, NQN, HOST));
    rig.world.run_for(Duration::from_millis(10));
    assert_eq!(sum(&rig, |s| s.waited_for_queues), 1);
}

#[test]
fn places_are_kept_from_the_last_queue_that_came() {
    let mut rig = Rig::with(84, Options { host_connections_max: 4, ..Options::default() });
    let (admin, cntlid) = rig.admin(plain(), 0);
    let set = SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(2, 2), nsid: 0 };
    assert_eq!(rig.execute(admin, set.sqe(0), &[]).0.result, feature::queues(2, 2).into());
    let used = |rig: &Rig| rig.shared.quotas().hosts()[0].1;
    for qid in 1..=2 {
        rig.world.run_for(GRANT_KEPT_MAX - TICK * 4);
        assert_eq!(used(&rig), 4);
        rig.io_queue(cntlid, qid, plain());
    }
    rig.world.run_for(GRANT_KEPT_MAX + TICK * 2);
    assert_eq!(used(&rig), 3, "the third did not come");
}

#[test]
fn a_shutdown_answers_what_the_queues_of_other_cores_have_under_way() {
    let mut rig = Rig::new(85);
    let (admin, cntlid) = rig.admin(plain(), 0);
    let queues: Vec<usize> = (1..=CORES as u16 * 2).map(|qid| rig.io_queue(cntlid, qid, plain())).collect();
    rig.hold(true);
    let write = |cid| with_capsule(BlockRange::new(0, 7).sqe(IoOpcode::Write, cid, 1), 4096);
    for q in &queues {
        rig.send(*q, |c| c.capsule(write(5), &[1; 4096]));
    }
    rig.world.run_for(Duration::from_millis(10));
    for core in 0..CORES {
        let rt = rig.world.rt(rig.server, core);
        rig.servers.borrow()[core].borrow_mut().target.begin_shutdown(&rt);
    }
    assert!(rig.is_closed(admin, Duration::from_secs(1)), "it has nothing under way");
    rig.world.run_for(TICK * 2);
    rig.hold(false);
    for q in queues {
        assert!(matches!(rig.try_next(q, Duration::from_secs(1)), Some(Pdu::Response(cqe)) if cqe.cid == 5 && cqe.status.is_success()));
        assert!(rig.is_closed(q, Duration::from_secs(1)));
    }
}

#[test]
fn the_core_for_a_connection_is_the_one_with_the_fewest_io_queues_then_connections() {
    let mut rig = Rig::new(86);
    let mut seed = 5u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (first, cntlid) = rig.admin(plain(), 0);
    let dealt = |rig: &Rig| -> Vec<u64> { rig.servers.borrow().iter().map(|s| s.borrow().target.stats().connections).collect() };
    let core_of = |rig: &Rig, before: &[u64]| dealt(rig).iter().zip(before).position(|(now, then)| now != then).unwrap();
    let mut open = vec![(first, core_of(&rig, &[0; CORES]), 0u16)];
    for step in 0..80 {
        // Mostly queues, then mostly going, so that the cores come to differ.
        let busy = if step / 20 % 2 == 0 { 8 } else { 3 };
        let closes = open.len() > 1 && draw(10) >= busy;
        if closes {
            let (at, ..) = open.swap_remove(1 + draw(open.len() as u64 - 1) as usize);
            rig.close(at);
            rig.world.run_for(Duration::from_millis(20));
            continue;
        }
        let before = dealt(&rig);
        let load = |core: usize| {
            let of = |io: bool| open.iter().filter(|(_, c, qid)| *c == core && (*qid > 0 || !io)).count();
            (of(true), of(false))
        };
        let wanted = (0..CORES).min_by_key(|core| load(*core)).unwrap();
        let qid = (1..=60).find(|q| open.iter().all(|(.., qid)| qid != q)).unwrap();
        let (at, qid) = if draw(3) == 0 { (rig.admin(plain(), 0).0, 0) } else { (rig.io_queue(cntlid, qid, plain()), qid) };
        assert_eq!(core_of(&rig, &before), wanted, "step {step}: {open:?}");
        open.push((at, wanted, qid));
    }
}

#[test]
fn a_listener_on_all_addresses_is_reported_as_the_one_that_the_host_reached() {
    let mut rig = Rig::new(87);
    let rt = rig.world.rt(rig.server, 0);
    for (port, kind) in [(4430, ListenerKind::Io), (8010, ListenerKind::Discovery)] {
        let spec = ListenerSpec { addr: format!("0.0.0.0:{port}").parse().unwrap(), kind, advertise: None, security: Security::Plain };
        rig.servers.borrow()[0].borrow_mut().target.listen(&rt, spec).unwrap();
    }
    let ip = rig.io.ip().to_string();
    let mut reached = rig.discovery;
    reached.set_port(8010);
    let at = rig.open(reached, plain());
    assert!(rig.connect(at, 0, 0, 0, DISCOVERY_NQN, HOST).status.is_success());
    let cc = Config { en: true, ..Config::default() }.bits();
    assert!(rig.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    let (_, entries) = super::fabrics_tests::discovery_log(&mut rig, at);
    let all: Vec<_> = entries.iter().map(|e| (e.subtype, e.address(), e.service())).collect();
    assert_eq!(all, [(3, "8009"), (3, "8010"), (2, "4420"), (2, "4430")].map(|(kind, port)| (kind, ip.clone(), port.to_owned())));
}

#[test]
fn who_was_refused_is_noted_with_the_controller_that_it_named() {
    let mut rig = Rig::new(88);
    let at = rig.open(rig.io, plain());
    let refused = |cqe: Cqe| assert!(!cqe.status.is_success());
    refused(rig.connect(at, 0, 0, 0, NQN, "nqn.2026-11.io.basalt:nobody"));
    refused(rig.connect(at, 1, 77, 0, NQN, HOST));
    let servers = rig.servers.borrow();
    let events: Vec<_> =
        servers.iter().flat_map(|s| std::iter::from_fn(|| s.borrow_mut().target.pop_audit()).collect::<Vec<_>>()).collect();
    let noted: Vec<_> = events.iter().map(|e| (e.kind, e.session, e.peer.is_some(), e.host.as_str())).collect();
    assert_eq!(noted, [(AuditKind::Refused, None, true, "nqn.2026-11.io.basalt:nobody"), (AuditKind::Refused, Some(77), true, HOST)]);
}

#[test]
fn every_command_is_counted_in_its_class_with_its_bytes_or_its_error() {
    let mut q = Queue::io_queue(plain(), 8);
    let before = q.stats.clone();
    let rw = |op, nsid, slba, bytes: u32| {
        let lba = if nsid == 2 { 4096 } else { 512 };
        with_transport(BlockRange::new(slba, (bytes / lba - 1) as u16).sqe(op, 9, nsid), bytes)
    };
    let ranges = [DsmRange { attributes: 0, blocks: 8, slba: 0 }.to_bytes()].concat();
    let trim = with_capsule(DatasetManagement { nr: 0, idr: false, idw: false, ad: true }.sqe(9, 2), 16);
    let zero = BlockRange::new(0, 3).sqe(IoOpcode::WriteZeroes, 9, 2);
    for _ in 0..3 {
        let data = pattern(8192, 1);
        assert_eq!(q.status(rw(IoOpcode::Write, 2, 0, 8192), &data), StatusCode::SUCCESS);
        assert_eq!(q.status(rw(IoOpcode::Read, 2, 0, 8192), &[]), StatusCode::SUCCESS);
        assert_eq!(q.status(rw(IoOpcode::Read, 1, 0, 512), &[]), StatusCode::SUCCESS);
        assert_eq!(q.status(rw(IoOpcode::Compare, 2, 0, 8192), &data), StatusCode::SUCCESS);
        assert_eq!(q.status(rw(IoOpcode::Compare, 2, 4, 8192), &data), StatusCode::COMPARE_FAILURE);
        assert_eq!(q.status(rw(IoOpcode::Write, 3, 0, 512), &data[..512]), StatusCode::NAMESPACE_WRITE_PROTECTED);
        assert_eq!(q.status(flush_sqe(9, 1), &[]), StatusCode::SUCCESS);
        assert_eq!(q.status(zero, &[]), StatusCode::SUCCESS);
        assert_eq!(q.status(trim, &ranges), StatusCode::SUCCESS);
    }
    let of = |class: CommandClass| {
        let (now, then) = (&q.stats.hosts.sums()[class as usize], &before.hosts.sums()[class as usize]);
        assert_eq!(now.latency.count() - then.latency.count(), now.commands - then.commands);
        (now.commands - then.commands, now.errors - then.errors, now.bytes - then.bytes)
    };
    assert_eq!(of(CommandClass::Read), (6, 0, 3 * (8192 + 512)));
    assert_eq!((of(CommandClass::Compare), of(CommandClass::Flush)), ((6, 3, 3 * 8192), (3, 0, 0)));
    assert_eq!((of(CommandClass::Write).0 + of(CommandClass::Admin).0, of(CommandClass::Write).2), (6, 3 * 8192));
    assert_eq!(of(CommandClass::Write).1 + of(CommandClass::Admin).1, 3);
    assert_eq!((of(CommandClass::Deallocate).0, of(CommandClass::Deallocate).1), (6, 0));
    let sum = q.session.controller().unwrap().figures.sum();
    assert_eq!((sum.reads, sum.read_bytes, sum.writes, sum.written_bytes, sum.media_errors), (6, 3 * (8192 + 512), 3, 3 * 8192, 0));
}

#[test]
fn what_a_volume_answers_becomes_the_status_of_the_kind_of_command() {
    use IoError as E;
    use StatusCode as S;
    let media = E::Media { offset: 0 };
    let rw = |op, len| with_transport(BlockRange::new(0, 7).sqe(op, 9, 1), len);
    let zero = || BlockRange::new(0, 7).sqe(IoOpcode::WriteZeroes, 9, 1);
    for (sqe, error, code, dnr, crd) in [
        (rw(IoOpcode::Read, 4096), media, S::UNRECOVERED_READ_ERROR, true, 0),
        (rw(IoOpcode::Compare, 4096), media, S::UNRECOVERED_READ_ERROR, true, 0),
        (rw(IoOpcode::Write, 4096), media, S::MEDIA_WRITE_FAULT, true, 0),
        (rw(IoOpcode::Write, 4096), E::NoSpace, S::CAPACITY_EXCEEDED, true, 0),
        (rw(IoOpcode::Write, 4096), E::ReadOnly, S::NAMESPACE_WRITE_PROTECTED, true, 0),
        (rw(IoOpcode::Read, 4096), E::OutOfRange, S::LBA_OUT_OF_RANGE, true, 0),
        (rw(IoOpcode::Read, 4096), E::NoVolume, S::INVALID_NAMESPACE_OR_FORMAT, true, 0),
        (rw(IoOpcode::Read, 4096), E::Failed, S::NAMESPACE_NOT_READY, false, 1),
        (rw(IoOpcode::Compare, 4096), E::Failed, S::NAMESPACE_NOT_READY, false, 1),
        (rw(IoOpcode::Write, 4096), E::Failed, S::NAMESPACE_NOT_READY, false, 3),
        (zero(), E::Failed, S::NAMESPACE_NOT_READY, false, 3),
        (rw(IoOpcode::Read, 4096), E::Closing, S::NAMESPACE_NOT_READY, false, 2),
        (zero(), E::Closing, S::NAMESPACE_NOT_READY, false, 2),
    ] {
        for knows in [true, false] {
            let mut q = Queue::io_queue(plain(), 8);
            q.session.controller().unwrap().set_retry_delays(knows);
            q.memory.fail = Some(error);
            let status = q.execute(sqe, &[0; 4096]).0;
            assert_eq!((status.code, status.dnr, status.crd), (code, dnr, if knows { crd } else { 0 }), "{error:?}");
        }
    }
}

#[test]
fn a_queue_runs_nothing_while_its_controller_is_not_ready() {
    let mut q = Queue::io_queue(plain(), 8);
    let c = Arc::clone(q.session.controller().unwrap());
    for ready in [true, false, true] {
        c.set_ready(ready);
        let status = q.execute(flush_sqe(9, 1), &[]).0;
        assert_eq!((status.is_success(), status.dnr), (ready, false));
        assert!(ready || status.code == StatusCode::COMMAND_SEQUENCE_ERROR);
    }
    // It ends before this connection does.
    c.end();
    let status = q.execute(flush_sqe(9, 1), &[]).0;
    assert_eq!((status.code, status.dnr), (StatusCode::CONTROLLER_PATHING_ERROR, false));
}

#[test]
fn the_error_log_has_blocks_of_io_commands_only() {
    let mut rig = Rig::new(89);
    let (admin, cntlid) = rig.admin(plain(), 0);
    let q = rig.io_queue(cntlid, 1, plain());
    rig.execute(admin, Sqe { opcode: 0x02, cdw10: 0x77, cdw11: 0x88, ..Sqe::default() }, &[]);
    rig.execute(q, with_transport(BlockRange::new(0x1_0000_0000, 0).sqe(IoOpcode::Read, 0, 1), 512), &[]);
    rig.execute(q, PropertyAccess::get_sqe(0, property::CAP, true), &[]);
    let get = GetLogPage { lid: 1, lsp: 0, rae: false, lsi: 0, numd: 127, offset: 0, index: false, csi: 0, nsid: 0 };
    let (_, log) = rig.execute(admin, Sqe { sgl: Sgl::transport(512), ..get.sqe(0) }, &[]);
    let entries: Vec<_> = log.chunks(64).filter_map(ErrorEntry::parse).take(3).map(|e| (e.error_count, e.sqid, e.nsid, e.lba)).collect();
    assert_eq!(entries, [(3, 1, 0, 0), (2, 1, 1, 0x1_0000_0000), (1, 0, 0, 0)]);
}

#[test]
fn data_comes_in_pdus_of_as_much_as_was_said_and_not_of_more() {
    for (most, good) in [(H2C_DATA_MAX as usize, true), (H2C_DATA_MAX as usize + 4096, false)] {
        let mut q = Queue::io_queue(plain(), 8);
        let data = pattern(512 << 10, 3);
        let capsule = q.client.capsule(with_transport(BlockRange::new(0, 127).sqe(IoOpcode::Write, 9, 2), 512 << 10), &[]);
        q.feed(&capsule);
        let Some(Pdu::R2t(r2t)) = q.next() else { panic!("asked for") };
        let bytes = q.client.h2c_data(&r2t, &data, most);
        q.feed(&bytes);
        match q.next() {
            Some(Pdu::Response(cqe)) => assert!(good && cqe.status.is_success()),
            Some(Pdu::Term(term, _)) => assert_eq!((good, term.fes), (false, 5)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn aborted_commands_whose_data_is_still_to_come_are_no_more_than_the_queue_has_entries() {
    const ENTRIES: u16 = 4;
    let mut q = Queue::io_queue(plain(), ENTRIES);
    let mut asked = Vec::new();
    for cid in 1..=ENTRIES + 1 {
        let capsule = q.client.capsule(with_transport(BlockRange::new(0, 15).sqe(IoOpcode::Write, cid, 1), 8192), &[]);
        q.feed(&capsule);
        let Some(Pdu::R2t(r2t)) = q.next() else { panic!("asked for") };
        asked.push(r2t);
        let aborted = q.abort(cid);
        assert_eq!(aborted, if cid <= ENTRIES { Aborted::Yes } else { Aborted::No }, "{cid}");
        if cid <= ENTRIES {
            assert!(matches!(q.next(), Some(Pdu::Response(cqe)) if cqe.status.code == StatusCode::ABORT_REQUESTED));
        }
    }
    for r2t in &asked {
        let bytes = q.client.h2c_data(r2t, &[7; 8192], 8192);
        q.feed(&bytes);
    }
    assert!(matches!(q.next(), Some(Pdu::Response(cqe)) if cqe.cid == ENTRIES + 1 && cqe.status.is_success()));
    assert!(q.next().is_none() && q.session.outstanding() == 0 && q.session.held() == 0);
}

#[test]
fn event_requests_that_a_reset_forgets_take_no_place_and_are_answered_never() {
    let mut rig = Rig::new(90);
    let (admin, _) = rig.admin(plain(), 0);
    let enable =
        |en| PropertyAccess::set_sqe(0, property::CC, false, Config { en, iosqes: 6, iocqes: 4, ..Config::default() }.bits().into());
    // Many times as many as the queue has entries.
    for round in 0..30u16 {
        for n in 0..4 {
            rig.send(admin, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x4000 + round * 4 + n), &[]));
        }
        for en in [false, true] {
            assert!(rig.execute(admin, enable(en), &[]).0.status.is_success(), "round {round}");
        }
    }
    want(&mut rig, admin, feature::AEC_NAMESPACE);
    listen(&mut rig, admin);
    let mut v = view();
    v.generation = 2;
    v.volumes[0].as_mut().unwrap().bytes *= 2;
    rig.apply(v);
    assert!(news(&mut rig, admin, TICK).is_some());
    assert!(rig.try_next(admin, TICK).is_none());
}

#[test]
fn who_made_room_is_counted() {
    let mut rig = Rig::with(91, Options { address_handshakes_max: 4, ..Options::default() });
    for _ in 0..30 {
        rig.open(rig.io, plain());
    }
    rig.world.run_for(TICK);
    assert_eq!(sum(&rig, |s| s.connections), 30);
    assert_eq!((sum(&rig, |s| s.connections_open), sum(&rig, |s| s.evicted)), (4 * CORES as u64, 30 - 4 * CORES as u64));
}
