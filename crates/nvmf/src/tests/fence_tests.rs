//! Who waits for whom when rights are taken away; what sessions do with commands that are no longer allowed, given up or aborted.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::session_tests::Bench as Queue;
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN};
use crate::limits::RANGES_UNDER_WAY_MAX;
use crate::session::Aborted;
use base::{Duration, HostId, VolumeId};
use cluster::reservation::{Command, ReservationType, State};
use format::nvme::admin::plain_sqe;
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess, disconnect_sqe};
use format::nvme::io::{BlockRange, DatasetManagement, DsmRange, flush_sqe};
use format::nvme::property::{self, Config};
use format::nvme::reservation::{Action, Keys, Report};
use format::nvme::{AdminOpcode, Fuse, IoOpcode, Sqe, Status, StatusCode};
use frontend::Reply;
use frontend::{HostLimits, LEASE_BYTES, Quotas};
use object::{IoOp, IoRequest, VolumeRef};
use std::collections::BTreeSet;
use std::sync::Arc;

const OK: StatusCode = StatusCode::SUCCESS;
/// Host identifiers.
const MINE: u8 = 7;
const THEIRS: u8 = 9;

fn plain() -> Client {
    Client::new(false, false, 0)
}
fn answer(q: &mut Queue) -> (u16, StatusCode) {
    match q.next() {
        Some(Pdu::Response(cqe)) => (cqe.cid, cqe.status.code),
        other => panic!("{other:?}"),
    }
}
fn send(q: &mut Queue, sqe: Sqe, data: &[u8]) {
    let capsule = q.client.capsule(sqe, data);
    q.feed(&capsule);
}

/// A host with this identifier: its controller is enabled.
fn controller_of(rig: &mut Rig, id: u8) -> u16 {
    let (admin, cntlid) = queue_of(rig, id, 0, CNTLID_DYNAMIC);
    let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
    assert!(rig.execute(admin, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    cntlid
}
fn queue_of(rig: &mut Rig, id: u8, qid: u16, cntlid: u16) -> (usize, u16) {
    let at = rig.open(rig.io, plain());
    let connect = Connect { recfmt: 0, qid, sqsize: 31, cattr: 0, kato_ms: 0 };
    let data = ConnectData::new([id; 16], cntlid, NQN, HOST);
    rig.send(at, |c| c.capsule(connect.sqe(0xC0), &data.to_bytes()));
    match rig.next(at) {
        Pdu::Response(cqe) if cqe.status.is_success() => (at, cqe.result as u16),
        other => panic!("{other:?}"),
    }
}
/// The volumes answer the oldest (or the newest) request of a core that is of this kind; whether there was one.
fn answer_one(rig: &mut Rig, newest: bool, which: impl Fn(&IoRequest) -> bool) -> bool {
    for core in 0..CORES {
        let server = rig.servers.borrow()[core].clone();
        let memory = &mut server.borrow_mut().memory;
        let found = if newest { memory.kept.iter().rposition(&which) } else { memory.kept.iter().position(&which) };
        if let Some(at) = found {
            let request = memory.kept.remove(at);
            let done = memory.answer(request);
            memory.done.push(done);
            rig.world.rt(rig.server, core).wake(core);
            return true;
        }
    }
    false
}
/// A host takes the rights of others: the control plane has decided so, and the fence stands.
fn take_rights(rig: &mut Rig, asks: usize) {
    let acquire = Action { action: 1, iekey: false, rtype: 1, cptpl: 0 }.sqe(IoOpcode::ReservationAcquire, 6, 1);
    let keys = Keys { crkey: 7, other: 9 }.to_bytes();
    rig.send(asks, |c| c.capsule(with_capsule(acquire, 16), &keys));
    rig.world.run_for(Duration::from_millis(20));
    let mut asked = 0;
    for core in 0..CORES {
        let rt = rig.world.rt(rig.server, core);
        let server = rig.servers.borrow()[core].clone();
        let target = &mut server.borrow_mut().target;
        while let Some(request) = target.pop_control_request() {
            assert_eq!(request.by.host_id, [MINE; 16]);
            asked += 1;
            let fenced = Reply::Fenced { volume: VolumeId::from_bytes([1; 16]), abort: BTreeSet::new() };
            target.on_answer(&rt, request.id, Ok(fenced));
        }
        rt.wake(core);
    }
    assert_eq!(asked, 1);
}

/// Two queues of each of two hosts on every core have a write under way. The one that takes the rights of the other is answered when the last
/// write of the other has ended, whatever is under way of its own.
#[test]
fn a_fence_waits_for_all_connections_of_other_hosts_and_for_none_of_its_own() {
    let mut rig = Rig::new(120);
    let (mine, theirs) = (controller_of(&mut rig, MINE), controller_of(&mut rig, THEIRS));
    let write = |slba| with_capsule(BlockRange::new(slba, 7).sqe(IoOpcode::Write, 5, 1), 4096);
    let mut queues = Vec::new();
    for qid in 1..=CORES as u16 * 2 {
        queues.extend([(queue_of(&mut rig, MINE, qid, mine).0, 0), (queue_of(&mut rig, THEIRS, qid, theirs).0, 8)]);
    }
    rig.hold(true);
    for (at, slba) in &queues {
        rig.send(*at, |c| c.capsule(write(*slba), &[1; 4096]));
    }
    let asks = queues[0].0;
    take_rights(&mut rig, asks);
    let theirs = |r: &IoRequest| matches!(&r.op, IoOp::Write { offset: 4096, .. });
    for n in 0..CORES * 2 {
        assert!(rig.try_next(asks, Duration::from_millis(20)).is_none(), "{n} of the other host's writes have ended");
        assert!(answer_one(&mut rig, false, theirs));
    }
    assert!(!answer_one(&mut rig, false, theirs));
    assert!(matches!(rig.try_next(asks, Duration::from_secs(1)), Some(Pdu::Response(cqe)) if cqe.cid == 6 && cqe.status.is_success()));
    rig.hold(false);
    for (at, _) in queues {
        assert!(matches!(rig.next(at), Pdu::Response(cqe) if cqe.cid == 5 && cqe.status.is_success()));
    }
}

/// Every command of more than one part, and one of each other kind, on two connections of the other host: one that stays and one that is lost,
/// before the fence or under it. The fence is answered with the last part of both, in whatever order they end.
#[test]
fn a_fence_waits_for_every_part_of_a_command_also_of_a_connection_that_is_lost() {
    let trim = |ranges: u16| {
        let list: Vec<u8> =
            (0..u64::from(ranges)).flat_map(|i| DsmRange { attributes: 0, blocks: 8, slba: 8 + i * 16 }.to_bytes()).collect();
        let dsm = DatasetManagement { nr: ranges as u8 - 1, idr: false, idw: false, ad: true };
        (with_capsule(dsm.sqe(5, 1), list.len() as u32), list)
    };
    let plain_io = |op| (with_transport(BlockRange::new(8, 7).sqe(op, 5, 1), 4096), Vec::new());
    let commands = [
        (trim(1), 1),
        (trim(2), 2),
        (trim(5), 5),
        (trim(RANGES_UNDER_WAY_MAX), RANGES_UNDER_WAY_MAX),
        ((with_capsule(BlockRange::new(8, 7).sqe(IoOpcode::Write, 5, 1), 4096), vec![1; 4096]), 1),
        (plain_io(IoOpcode::Read), 1),
        (plain_io(IoOpcode::WriteZeroes), 1),
        (plain_io(IoOpcode::WriteUncorrectable), 1),
        (plain_io(IoOpcode::Verify), 1),
        ((flush_sqe(5, 1), Vec::new()), 1),
    ];
    for (n, ((sqe, data), parts)) in commands.into_iter().enumerate() {
        let (before, newest) = (n % 2 == 0, n % 3 != 0);
        let mut rig = Rig::new(130 + n as u64);
        let (mine, theirs) = (controller_of(&mut rig, MINE), controller_of(&mut rig, THEIRS));
        let asks = queue_of(&mut rig, MINE, 1, mine).0;
        let (stays, lost) = (queue_of(&mut rig, THEIRS, 1, theirs).0, queue_of(&mut rig, THEIRS, 2, theirs).0);
        rig.hold(true);
        for at in [stays, lost] {
            rig.send(at, |c| c.capsule(sqe, &data));
        }
        rig.world.run_for(Duration::from_millis(20));
        for lose in [before, !before] {
            if lose {
                rig.close(lost);
                rig.world.run_for(Duration::from_millis(20));
            } else {
                take_rights(&mut rig, asks);
            }
        }
        for ended in 0..parts * 2 {
            assert!(
                rig.try_next(asks, Duration::from_millis(20)).is_none(),
                "{sqe:?}: answered when {ended} of {parts} and {parts} had ended"
            );
            assert!(answer_one(&mut rig, newest, |_| true), "{sqe:?}");
        }
        assert!(matches!(rig.try_next(asks, Duration::from_secs(1)), Some(Pdu::Response(cqe)) if cqe.cid == 6 && cqe.status.is_success()));
        assert!(!answer_one(&mut rig, newest, |_| true));
    }
}

/// What another front end's hosts wait for: of two connections of a host that has lost its rights, one that stays and one that is lost.
#[test]
fn a_change_of_rights_is_settled_when_what_it_forbids_has_come_back_and_waits_for_nothing_else() {
    let mut rig = Rig::new(170);
    let (mine, theirs) = (controller_of(&mut rig, MINE), controller_of(&mut rig, THEIRS));
    let own = queue_of(&mut rig, MINE, 1, mine).0;
    let (stays, lost) = (queue_of(&mut rig, THEIRS, 1, theirs).0, queue_of(&mut rig, THEIRS, 2, theirs).0);
    let settled =
        |rig: &Rig, revision| (0..CORES).all(|core| rig.servers.borrow()[core].borrow().target.is_settled(VolumeRef(0), revision));
    rig.hold(true);
    for (at, slba) in [(own, 0), (stays, 8), (lost, 8)] {
        rig.send(at, |c| c.capsule(with_capsule(BlockRange::new(slba, 7).sqe(IoOpcode::Write, 5, 1), 4096), &[1; 4096]));
    }
    rig.world.run_for(Duration::from_millis(20));
    let mut state = State::default();
    state.execute(HostId::from_bytes([MINE; 16]), &Command::Register { nrkey: 7, ptpl: None }).unwrap();
    state.execute(HostId::from_bytes([MINE; 16]), &Command::Acquire { crkey: 7, rtype: ReservationType::WriteExclusive }).unwrap();
    let mut view = super::view();
    view.generation = 99;
    let volume = view.volumes[0].as_mut().unwrap();
    (volume.volume.reservation, volume.revision) = (Some(Arc::new(state)), 3);
    assert!(!settled(&rig, 3), "that view is not served yet");
    rig.apply(view);
    rig.close(lost);
    rig.world.run_for(Duration::from_millis(20));
    let theirs = |r: &IoRequest| matches!(&r.op, IoOp::Write { offset: 4096, .. });
    for _ in 0..2 {
        assert!(!settled(&rig, 3));
        assert!(answer_one(&mut rig, false, theirs));
        rig.world.run_for(Duration::from_millis(20));
    }
    assert!(settled(&rig, 3) && !settled(&rig, 4), "the holder's write is under way still");
    rig.hold(false);
}

#[test]
fn a_preempt_aborts_what_has_not_begun_on_its_volume_and_nothing_else() {
    let preempted = StatusCode::ABORTED_PREEMPT;
    let mut q = Queue::io_queue(plain(), 32);
    q.hold = true;
    let write = |cid, nsid| with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Write, cid, nsid), if nsid == 1 { 4096 } else { 32768 });
    // Runs; has steps left; waits for its data; waits for buffers; is of another volume.
    send(&mut q, with_capsule(BlockRange::new(0, 7).sqe(IoOpcode::Write, 1, 1), 4096), &[1; 4096]);
    let ranges: Vec<u8> = (0..24u64).flat_map(|i| DsmRange { attributes: 0, blocks: 8, slba: i * 16 }.to_bytes()).collect();
    let dsm = DatasetManagement { nr: 23, idr: false, idw: false, ad: true };
    send(&mut q, with_capsule(dsm.sqe(2, 1), 384), &ranges);
    let mut asked = Vec::new();
    for (cid, nsid) in [(3, 1), (4, 2)] {
        send(&mut q, write(cid, nsid), &[]);
        let Some(Pdu::R2t(r2t)) = q.next() else { panic!("asked for") };
        asked.push(r2t);
    }
    for cid in 10..22 {
        send(&mut q, Sqe { cid, ..with_transport(BlockRange::new(0, 255).sqe(IoOpcode::Read, cid, 2), 1 << 20) }, &[]);
    }
    send(&mut q, write(5, 1), &[]);
    assert!(q.stats.waited_for_buffers > 0 && q.next().is_none());
    q.session.abort_on(VolumeRef(0), Status::dnr(preempted));
    let before = q.memory.requests;
    q.hold = false;
    q.settle();
    for r2t in &asked {
        let data = q.client.h2c_data(r2t, &vec![7; r2t.bytes as usize], 100_000);
        q.feed(&data);
    }
    let mut came: Vec<(u16, StatusCode)> = Vec::new();
    while let Some(pdu) = q.next() {
        match pdu {
            Pdu::Response(cqe) if cqe.cid < 10 => came.push((cqe.cid, cqe.status.code)),
            Pdu::Response(cqe) => assert!(cqe.status.is_success()),
            Pdu::Data(..) => {}
            Pdu::R2t(r2t) => {
                let data = q.client.h2c_data(&r2t, &[7; 4096], 4096);
                q.feed(&data);
            }
            other => panic!("{other:?}"),
        }
    }
    came.sort_unstable_by_key(|(cid, _)| *cid);
    assert_eq!(came, [(1, OK), (2, preempted), (3, preempted), (4, OK), (5, preempted)]);
    // The write, the first ranges, the other volume's write, the reads.
    assert_eq!(q.memory.requests - before, 1 + 16 + 1 + 12);
    assert!(q.session.outstanding() == 0 && q.session.held() == 0);
}

/// The comparison alone would still be allowed.
#[test]
fn a_pair_that_may_not_write_any_more_conflicts_in_both_halves() {
    let mut q = Queue::io_queue(plain(), 8);
    let half = |op, cid, fuse| Sqe { fuse, ..with_transport(BlockRange::new(0, 0).sqe(op, cid, 1), 512) };
    send(&mut q, half(IoOpcode::Compare, 1, Fuse::First), &[]);
    send(&mut q, half(IoOpcode::Write, 2, Fuse::Second), &[]);
    let mut asked = Vec::new();
    while let Some(Pdu::R2t(r2t)) = q.next() {
        asked.push(r2t);
    }
    assert_eq!(asked.len(), 2);
    let mut state = State::default();
    let other = HostId::from_bytes([THEIRS; 16]);
    state.execute(other, &Command::Register { nrkey: 9, ptpl: None }).unwrap();
    state.execute(other, &Command::Acquire { crkey: 9, rtype: ReservationType::WriteExclusive }).unwrap();
    q.change_view(|v| v.volumes[0].as_mut().unwrap().reservation = Some(Arc::new(state)));
    for r2t in &asked {
        let data = q.client.h2c_data(r2t, &[0; 512], 512);
        q.feed(&data);
    }
    let conflict = StatusCode::RESERVATION_CONFLICT;
    assert_eq!([answer(&mut q), answer(&mut q)], [(1, conflict), (2, conflict)]);
    assert_eq!((q.memory.requests, q.session.outstanding()), (0, 0));
}

#[test]
fn without_flow_control_the_last_data_alone_says_that_all_went_well() {
    let mut q = Queue::new(plain());
    let ic = q.client.ic_req();
    q.feed(&ic);
    q.next();
    let mut connect = q.client.connect(1, 1, 8, 0, NQN, HOST);
    connect[8 + 46] = 4;
    q.feed(&connect);
    assert!(matches!(q.next(), Some(Pdu::Response(c)) if c.sqhd == 0xFFFF));
    // Across the border of two pieces, so its data is in two buffers.
    send(&mut q, with_transport(BlockRange::new(2040, 15).sqe(IoOpcode::Read, 9, 1), 8192), &[]);
    let mut flags = Vec::new();
    while let Some(Pdu::Data(pdu, _)) = q.next() {
        flags.push((pdu.last, pdu.success));
    }
    assert_eq!(flags, [(false, false), (true, true)]);
}

#[test]
fn of_event_requests_with_one_identifier_the_last_alone_is_answered() {
    let mut q = Queue::new(plain());
    let ic = q.client.ic_req();
    q.feed(&ic);
    q.next();
    let connect = q.client.connect(0, 1, 8, 0, NQN, HOST);
    q.feed(&connect);
    assert_eq!(answer(&mut q).1, OK);
    for n in 0..4 {
        send(&mut q, plain_sqe(AdminOpcode::AsyncEventRequest, 5), &[]);
        assert_eq!((q.parked.len(), q.session.outstanding()), (n + 1, n + 1));
    }
    for at in core::mem::take(&mut q.parked) {
        q.complete_parked(at);
    }
    assert_eq!(answer(&mut q), (5, OK));
    assert!(q.next().is_none() && q.session.outstanding() == 0);
}

#[test]
fn no_command_of_fabrics_is_half_of_a_fused_operation() {
    let mut q = Queue::io_queue(plain(), 8);
    for fuse in [Fuse::First, Fuse::Second] {
        for sqe in [PropertyAccess::get_sqe(3, property::CAP, true), disconnect_sqe(3)] {
            assert_eq!(q.status(Sqe { fuse, ..sqe }, &[]), StatusCode::INVALID_FIELD, "{fuse:?}");
            assert_eq!(q.status(flush_sqe(5, 1), &[]), OK, "the queue goes on");
        }
    }
}

/// What came in a capsule had no room beside the data that is asked for; when that is aborted, there is room.
#[test]
fn a_queue_is_read_again_when_an_abort_has_made_room() {
    let mut q = Queue::io_queue(plain(), 8);
    let quotas = Arc::new(Quotas::new(LEASE_BYTES));
    q.session.set_place(quotas.enter(HOST, HostLimits { connections: 1, memory: LEASE_BYTES }));
    q.hold = true;
    send(&mut q, with_transport(BlockRange::new(0, 2047).sqe(IoOpcode::Write, 1, 1), 1 << 20), &[]);
    assert!(matches!(q.next(), Some(Pdu::R2t(_))) && q.session.wants_bytes());
    send(&mut q, with_capsule(BlockRange::new(0, 7).sqe(IoOpcode::Write, 2, 1), 4096), &[1; 4096]);
    assert!(!q.session.wants_bytes(), "its host's memory is used up");
    assert_eq!(q.abort(1), Aborted::Yes);
    assert_eq!(answer(&mut q), (1, StatusCode::ABORT_REQUESTED));
    assert!(q.session.wants_bytes());
}

/// What waits for buffers goes on when a fence has ended, on its own connection, whatever comes on another one at the same moment.
#[test]
fn a_command_that_a_fence_lets_go_on_is_carried_out_on_its_own_connection() {
    for seed in 0..40 {
        let mut rig = Rig::new(seed);
        let mine = controller_of(&mut rig, MINE);
        let queues: Vec<usize> = (1..=CORES as u16 * 2).map(|qid| queue_of(&mut rig, MINE, qid, mine).0).collect();
        rig.hold(true);
        let acquire = Action { action: 0, iekey: false, rtype: 1, cptpl: 0 }.sqe(IoOpcode::ReservationAcquire, 6, 1);
        let asks = queues[0];
        rig.send(asks, |c| c.capsule(with_capsule(acquire, 16), &Keys { crkey: 7, other: 0 }.to_bytes()));
        for cid in 10..18 {
            let blocks = if cid == 17 { 2040 } else { 2048 };
            rig.send(asks, |c| {
                c.capsule(with_transport(BlockRange::new(0, blocks - 1).sqe(IoOpcode::Read, cid, 1), u32::from(blocks) * 512), &[])
            });
        }
        let report = Report { eds: true, numd: 1023 }.sqe(20, 1);
        rig.send(asks, |c| c.capsule(with_transport(report, 4096), &[]));
        rig.world.run_for(Duration::from_millis(20));
        assert!(rig.try_next(asks, Duration::from_millis(1)).is_none(), "all of it waits");
        for core in 0..CORES {
            let rt = rig.world.rt(rig.server, core);
            let server = rig.servers.borrow()[core].clone();
            let target = &mut server.borrow_mut().target;
            while let Some(request) = target.pop_control_request() {
                let fenced = Reply::Fenced { volume: VolumeId::from_bytes([1; 16]), abort: BTreeSet::new() };
                target.on_answer(&rt, request.id, Ok(fenced));
            }
            rt.wake(core);
        }
        // Others have much to say meanwhile.
        for cid in 0..20 {
            for at in &queues[1..] {
                rig.send(*at, |c| c.capsule(flush_sqe(cid, u32::MAX), &[]));
            }
        }
        let mut answered = Vec::new();
        while let Some(pdu) = rig.try_next(asks, Duration::from_millis(50)) {
            match pdu {
                Pdu::Response(cqe) => answered.push(cqe.cid),
                Pdu::Data(d, _) => answered.push(d.cccid),
                other => panic!("{other:?}"),
            }
        }
        assert!(answered.contains(&6) && answered.contains(&20), "seed {seed}: {answered:?}");
    }
}
