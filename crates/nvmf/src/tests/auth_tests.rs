//! In-band authentication of whole targets in a simulated world.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN, view};
use crate::limits::{UNAUTHENTICATED_HELD_MAX, WORKS_OUT_MAX};
use crate::view::{HostView, ListenerKind};
use crate::{ControllerIds, Options, View};
use ::auth::{Credentials, DhGroup, HashId, HostAuth, Secret};
use base::{Duration, Security};
use format::nvme::admin::{SetFeatures, plain_sqe};
use format::nvme::auth::{AuthCommand, MessageId, failure_code};
use format::nvme::fabrics::{DISCOVERY_NQN, PropertyAccess, disconnect_sqe};
use format::nvme::io::BlockRange;
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, Cqe, IoOpcode, Sqe, StatusCode, feature};
use frontend::AuditEvent;
use frontend::AuditKind;
use std::net::SocketAddr;
use std::sync::Arc;

const ROOM: u32 = 4096;

fn secret(n: u8) -> Secret {
    Secret::generate(HashId::Sha256, &mut |out| out.fill(n))
}

/// What the server and an honest host have; a small group, for speed.
fn credentials(n: u8, mutual: bool) -> Credentials {
    let groups = vec![DhGroup::Ffdhe2048, DhGroup::Null];
    Credentials { groups, ..Credentials::new(secret(n), mutual.then(|| secret(n + 100))) }
}

fn with_secret(n: u8, security: Security) -> View {
    let mut v = view();
    v.generation = u64::from(n) + 10;
    v.subsystems[0].security = security;
    v.hosts.insert(HOST.into(), HostView { credentials: Some(Arc::new(credentials(n, true))), ..HostView::default() });
    v
}

impl Rig {
    fn auth_connect(&mut self, qid: u16, cntlid: u16) -> (usize, Cqe) {
        self.auth_connect_at(self.io, qid, cntlid)
    }
    fn auth_connect_at(&mut self, addr: SocketAddr, qid: u16, cntlid: u16) -> (usize, Cqe) {
        let at = self.open(addr, Client::new(false, false, 0));
        let cqe = self.connect(at, qid, cntlid, 0, NQN, HOST);
        (at, cqe)
    }
    fn auth_send(&mut self, at: usize, message: &[u8]) -> Cqe {
        let sqe = AuthCommand::new(message.len() as u32).send_sqe(0);
        self.execute(at, with_capsule(sqe, message.len() as u32), message).0
    }
    fn auth_receive(&mut self, at: usize) -> (Cqe, Vec<u8>) {
        self.execute(at, with_transport(AuthCommand::new(ROOM).receive_sqe(0), ROOM), &[])
    }
    /// The whole exchange; the code of AUTH_Failure1 when it failed.
    fn authenticate(&mut self, at: usize, credentials: Credentials) -> Result<(), u8> {
        let mut host = HostAuth::new(credentials, HOST, NQN, 7);
        assert!(self.auth_send(at, &host.negotiate()).status.is_success());
        let (cqe, challenge) = self.auth_receive(at);
        assert!(cqe.status.is_success(), "{cqe:?}");
        if MessageId::of(&challenge) == Some(MessageId::Failure1) {
            return Err(failure_code(&challenge).unwrap());
        }
        let reply = host.on_challenge(&challenge, &mut |out| out.fill(0x5A)).unwrap();
        assert!(self.auth_send(at, &reply).status.is_success());
        let (_, success) = self.auth_receive(at);
        if MessageId::of(&success) == Some(MessageId::Failure1) {
            return Err(failure_code(&success).unwrap());
        }
        if let Some(last) = host.on_success1(&success).unwrap() {
            assert!(self.auth_send(at, &last).status.is_success());
        }
        Ok(())
    }
    fn auth_enable(&mut self, at: usize) -> Cqe {
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        self.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0
    }
    fn audits(&self) -> Vec<AuditEvent> {
        let servers = self.servers.borrow();
        servers.iter().flat_map(|s| std::iter::from_fn(move || s.borrow_mut().target.pop_audit()).collect::<Vec<_>>()).collect()
    }
    fn counts(&self) -> (u64, u64) {
        let servers = self.servers.borrow();
        let stats = servers.iter().map(|s| s.borrow().target.stats());
        stats.fold((0, 0), |(a, b), s| (a + s.authentications, b + s.authentication_failures))
    }
}

const ATR: u64 = 2 << 16;

#[test]
fn a_queue_that_must_authenticate_runs_nothing_else_before() {
    let mut rig = Rig::new(50);
    rig.apply(with_secret(1, Security::Plain));
    let (admin, cqe) = rig.auth_connect(0, 0);
    assert!(cqe.status.is_success());
    assert_eq!(cqe.result & 0xFFFF_0000, ATR, "authentication is asked for, without concatenation");
    let cntlid = cqe.result as u16;
    let required = |cqe: Cqe| assert_eq!((cqe.status.code, cqe.status.dnr), (StatusCode::AUTHENTICATION_REQUIRED, true));
    required(rig.auth_enable(admin));
    required(rig.execute(admin, PropertyAccess::get_sqe(0, property::CAP, true), &[]).0);
    required(rig.execute(admin, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0);
    required(rig.execute(admin, plain_sqe(AdminOpcode::AsyncEventRequest, 0), &[]).0);
    required(rig.execute(admin, disconnect_sqe(0), &[]).0);
    let (_, cqe) = rig.auth_connect(1, cntlid);
    assert_eq!(cqe.status.code, StatusCode::COMMAND_SEQUENCE_ERROR, "no I/O queue before the controller is enabled");
    assert_eq!(rig.authenticate(admin, credentials(1, false)), Ok(()));
    assert!(rig.auth_enable(admin).status.is_success());
    // Each I/O queue by itself.
    let (io, cqe) = rig.auth_connect(1, cntlid);
    assert_eq!(cqe.result, ATR | u64::from(cntlid));
    let read = with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Read, 0, 1), 4096);
    required(rig.execute(io, read, &[]).0);
    let write = with_capsule(BlockRange::new(0, 7).sqe(IoOpcode::Write, 0, 1), 4096);
    required(rig.execute(io, write, &[9; 4096]).0);
    assert_eq!(rig.authenticate(io, credentials(1, true)), Ok(()));
    let (cqe, data) = rig.execute(io, read, &[]);
    assert!(cqe.status.is_success() && data == [0; 4096], "the refused write has written nothing");
    assert_eq!(rig.counts(), (2, 0));
    let events = rig.audits();
    assert!(events.iter().any(|e| e.kind == AuditKind::Authenticated && e.host == HOST && e.detail == "sha384 ffdhe2048"), "{events:?}");
}

#[test]
fn a_wrong_secret_ends_the_queue_and_is_reported_to_the_auditor() {
    let mut rig = Rig::new(51);
    rig.apply(with_secret(1, Security::Authenticated));
    let (admin, _) = rig.auth_connect(0, 0);
    assert_eq!(rig.authenticate(admin, credentials(2, false)), Err(1));
    assert!(rig.is_closed(admin, Duration::from_secs(1)));
    rig.world.run_for(Duration::from_secs(1));
    assert_eq!((rig.connections(), rig.controllers(), rig.counts()), (0, 0, (0, 1)));
    let events = rig.audits();
    assert!(events.iter().any(|e| e.kind == AuditKind::AuthenticationFailed && e.detail == "authentication failed"), "{events:?}");

    // On an I/O queue: that queue ends, the controller stays.
    let (admin, cqe) = rig.auth_connect(0, 0);
    rig.authenticate(admin, credentials(1, true)).unwrap();
    rig.auth_enable(admin);
    let (io, _) = rig.auth_connect(1, cqe.result as u16);
    assert_eq!(rig.authenticate(io, credentials(3, false)), Err(1));
    assert!(rig.is_closed(io, Duration::from_secs(1)));
    assert!(rig.execute(admin, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
}

#[test]
fn who_may_come_without_a_secret() {
    let mut rig = Rig::new(52);
    // A subsystem that asks for authentication refuses hosts without a secret at Connect.
    let mut v = view();
    v.subsystems[0].security = Security::Authenticated;
    rig.apply(v);
    let (_, cqe) = rig.auth_connect(0, 0);
    assert_eq!(cqe.status.code, StatusCode::CONNECT_INVALID_HOST);
    // Discovery asks nobody.
    let at = rig.open(rig.discovery, Client::new(false, false, 0));
    assert_eq!(rig.connect(at, 0, 0, 0, DISCOVERY_NQN, HOST).result >> 16, 0);
    assert!(rig.auth_enable(at).status.is_success());
    assert_eq!(rig.auth_send(at, &[0; 72]).status.code, StatusCode::INVALID_OPCODE);
    // Where nothing is asked for, a host that begins to authenticate without having a secret here fails.
    rig.apply(View { generation: 9, ..view() });
    let (at, cqe) = rig.auth_connect(0, 0);
    assert_eq!((cqe.result >> 16, rig.auth_enable(at).status.is_success()), (0, true));
    assert_eq!(rig.authenticate(at, credentials(1, false)), Err(1));
    assert!(rig.is_closed(at, Duration::from_secs(1)));
}

#[test]
fn a_live_queue_authenticates_again_with_the_new_secret() {
    let mut rig = Rig::new(53);
    rig.apply(with_secret(1, Security::Authenticated));
    let (admin, cqe) = rig.auth_connect(0, 0);
    rig.authenticate(admin, credentials(1, true)).unwrap();
    rig.auth_enable(admin);
    let (io, _) = rig.auth_connect(1, cqe.result as u16);
    rig.authenticate(io, credentials(1, false)).unwrap();
    // The secret changes: who is in stays in, and proves itself again with the new one.
    rig.apply(with_secret(2, Security::Authenticated));
    let read = with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Read, 0, 1), 4096);
    assert!(rig.execute(io, read, &[]).0.status.is_success());
    assert_eq!(rig.authenticate(admin, credentials(2, true)), Ok(()));
    assert_eq!(rig.authenticate(io, credentials(2, true)), Ok(()));
    assert!(rig.execute(io, read, &[]).0.status.is_success());
    // I/O goes on while a transaction runs; the old secret ends the queue.
    let mut host = HostAuth::new(credentials(1, false), HOST, NQN, 9);
    assert!(rig.auth_send(io, &host.negotiate()).status.is_success());
    assert!(rig.execute(io, read, &[]).0.status.is_success());
    let (_, challenge) = rig.auth_receive(io);
    let reply = host.on_challenge(&challenge, &mut |out| out.fill(3)).unwrap();
    rig.auth_send(io, &reply);
    assert!(rig.execute(io, read, &[]).0.status.is_success());
    assert_eq!(failure_code(&rig.auth_receive(io).1), Some(1));
    assert!(rig.is_closed(io, Duration::from_secs(1)));
    assert_eq!(rig.counts(), (4, 1));
}

#[test]
fn a_subsystem_that_begins_to_ask_ends_who_has_not_authenticated() {
    let mut rig = Rig::new(54);
    let (plain, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    let io = rig.io_queue(cntlid, 1, Client::new(false, false, 0));
    // A secret alone is for new connections; the ones that are there go on.
    rig.apply(with_secret(1, Security::Plain));
    assert!(rig.execute(plain, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
    rig.apply(with_secret(1, Security::Authenticated));
    assert!(rig.is_closed(plain, Duration::from_secs(1)) && rig.is_closed(io, Duration::from_secs(1)));
    // One that has authenticated stays, and so does one that is about to.
    let (admin, _) = rig.auth_connect(0, 0);
    rig.authenticate(admin, credentials(1, false)).unwrap();
    let (begun, _) = rig.auth_connect(0, 0);
    rig.apply(with_secret(2, Security::Authenticated));
    assert!(rig.auth_enable(admin).status.is_success());
    assert_eq!(rig.authenticate(begun, credentials(2, false)), Ok(()));
}

#[test]
fn a_listener_that_asks_for_authentication_gets_it() {
    let mut rig = Rig::new(57);
    let strict = rig.listen(ListenerKind::Io, 4421, Security::Authenticated);
    // The subsystem asks for nothing and the host has no secret: the one listener takes it, the other does not.
    let (plain, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    for (qid, id) in [(0, 0), (1, cntlid)] {
        let (_, cqe) = rig.auth_connect_at(strict, qid, id);
        assert_eq!((cqe.status.code, cqe.status.dnr), (StatusCode::CONNECT_INVALID_HOST, true), "queue {qid}");
    }
    // Discovery asks nobody, there too.
    let at = rig.open(strict, Client::new(false, false, 0));
    assert_eq!(rig.connect(at, 0, 0, 0, DISCOVERY_NQN, HOST).result >> 16, 0);
    assert!(rig.auth_enable(at).status.is_success());
    // With a secret it gets in by it.
    rig.apply(with_secret(1, Security::Plain));
    let (admin, cqe) = rig.auth_connect_at(strict, 0, 0);
    assert_eq!(cqe.result & 0xFFFF_0000, ATR);
    assert_eq!(rig.authenticate(admin, credentials(1, false)), Ok(()));
    assert!(rig.auth_enable(admin).status.is_success());
    // A new view ends nobody who has what the listener wants, nor whom it does not want it of.
    rig.apply(with_secret(2, Security::Plain));
    for at in [plain, admin] {
        assert!(rig.execute(at, plain_sqe(AdminOpcode::KeepAlive, 0), &[]).0.status.is_success());
    }
}

#[test]
fn who_is_authenticating_when_tls_is_asked_for_ends() {
    let mut rig = Rig::new(58);
    rig.apply(with_secret(1, Security::Authenticated));
    let (begun, cqe) = rig.auth_connect(0, 0);
    assert!(cqe.status.is_success());
    rig.apply(with_secret(2, Security::Encrypted));
    assert!(rig.is_closed(begun, Duration::from_secs(1)));
}

#[test]
fn who_has_only_said_a_name_takes_nothing_of_its_quota() {
    let mut rig = Rig::with(59, Options { host_connections_max: 2, ..Options::default() });
    rig.apply(with_secret(1, Security::Plain));
    for _ in 0..5 {
        assert!(rig.auth_connect(0, 0).1.status.is_success());
    }
    assert_eq!(rig.shared.quotas().hosts(), []);
    // The host itself gets in, and has what it may have and no more.
    let (admin, cqe) = rig.auth_connect(0, 0);
    rig.authenticate(admin, credentials(1, true)).unwrap();
    assert!(rig.auth_enable(admin).status.is_success());
    let (io, _) = rig.auth_connect(1, cqe.result as u16);
    rig.authenticate(io, credentials(1, false)).unwrap();
    assert_eq!(rig.shared.quotas().hosts(), [(HOST.to_owned(), 2, 0)]);
    let (third, _) = rig.auth_connect(0, 0);
    rig.authenticate(third, credentials(1, false)).unwrap();
    assert!(rig.is_closed(third, Duration::from_secs(1)));
    assert!(rig.audits().iter().any(|e| e.kind == AuditKind::Refused && e.detail.contains("connections")));
    // Again on a live queue: its place is its own.
    assert_eq!(rig.authenticate(io, credentials(1, false)), Ok(()));
    let flush = format::nvme::io::flush_sqe(0, 1);
    assert!(rig.execute(io, flush, &[]).0.status.is_success());
    rig.close(admin);
    rig.world.run_for(Duration::from_secs(1));
    assert_eq!(rig.shared.quotas().hosts(), []);
}

#[test]
fn who_has_only_said_a_name_makes_room_for_another_controller() {
    let controller_ids = ControllerIds::new(1, 128, 0).unwrap();
    let mut rig = Rig::with(62, Options { controller_ids, ..Options::default() });
    rig.apply(with_secret(1, Security::Plain));
    let (first, _) = rig.auth_connect(0, 0);
    rig.authenticate(first, credentials(1, false)).unwrap();
    // More than there are IDs: each gets one, of the oldest that has not authenticated.
    let mut by_core = vec![Vec::new(); CORES];
    for n in 0..140 {
        let (at, cqe) = rig.auth_connect(0, 0);
        assert!(cqe.status.is_success(), "{n}");
        by_core[cqe.result as usize % CORES].push(at);
    }
    assert!(rig.controllers() <= 128);
    rig.world.run_for(Duration::from_millis(20));
    let gone: Vec<Vec<bool>> = by_core.iter().map(|all| all.iter().map(|at| rig.peer().wires.borrow()[*at].closed).collect()).collect();
    assert!(gone.iter().flatten().filter(|gone| **gone).count() >= 140 + 1 - 128);
    assert!(gone.iter().all(|all| all.is_sorted_by_key(|gone| !gone)), "on each core the oldest: {gone:?}");
    let (admin, _) = rig.auth_connect(0, 0);
    rig.authenticate(admin, credentials(1, false)).unwrap();
    assert!(rig.auth_enable(admin).status.is_success());
    assert!(rig.auth_enable(first).status.is_success(), "nobody who has authenticated makes room");
}

#[test]
fn who_has_only_said_a_name_holds_little_memory() {
    let mut rig = Rig::new(61);
    rig.apply(with_secret(1, Security::Plain));
    let (at, _) = rig.auth_connect(0, 0);
    // Twenty messages announced: few are asked for.
    let send = |cid| Sqe { cid, ..with_transport(AuthCommand::new(4096).send_sqe(0), 4096) };
    rig.send(at, |c| (100..120).flat_map(|cid| c.capsule(send(cid), &[])).collect());
    let mut asked = 0;
    while let Some(pdu) = rig.try_next(at, Duration::from_millis(100)) {
        assert!(matches!(pdu, Pdu::R2t(_)), "{pdu:?}");
        asked += 1;
    }
    assert_eq!(asked, UNAUTHENTICATED_HELD_MAX / 4096);
}

#[test]
fn who_does_not_authenticate_in_time_is_let_go() {
    let mut rig = Rig::new(55);
    rig.apply(with_secret(1, Security::Authenticated));
    let (idle, _) = rig.auth_connect(0, 0);
    let (begun, _) = rig.auth_connect(0, 0);
    let host = HostAuth::new(credentials(1, false), HOST, NQN, 7);
    rig.world.run_for(Duration::from_secs(30));
    rig.auth_send(begun, &host.negotiate());
    rig.world.run_for(Duration::from_secs(28));
    assert!(!rig.is_closed(idle, Duration::from_millis(1)) && !rig.is_closed(begun, Duration::from_millis(1)));
    assert!(rig.is_closed(idle, Duration::from_secs(4)) && rig.is_closed(begun, Duration::from_secs(1)));
    assert_eq!(rig.counts(), (0, 2));
    rig.world.run_for(Duration::from_secs(1));
    assert_eq!(rig.connections(), 0);
}

#[test]
fn who_is_authenticating_has_longer_when_the_core_could_not_look() {
    let mut rig = Rig::new(57);
    rig.apply(with_secret(1, Security::Authenticated));
    let (idle, _) = rig.auth_connect(0, 0);
    rig.world.run_for(Duration::from_secs(30));
    rig.stop(true);
    rig.world.run_for(Duration::from_secs(100));
    rig.stop(false);
    assert!(!rig.is_closed(idle, Duration::from_secs(28)));
    assert!(rig.is_closed(idle, Duration::from_secs(4)));
}

#[test]
fn places_are_kept_for_the_queues_of_who_has_authenticated() {
    let mut rig = Rig::with(58, Options { host_connections_max: 4, ..Options::default() });
    rig.apply(with_secret(1, Security::Authenticated));
    let (admin, cqe) = rig.auth_connect(0, 0);
    rig.authenticate(admin, credentials(1, false)).unwrap();
    assert!(rig.auth_enable(admin).status.is_success());
    let queues = SetFeatures { fid: feature::FID_QUEUES, save: false, cdw11: feature::queues(7, 7), nsid: 0 };
    assert_eq!(rig.execute(admin, queues.sqe(0), &[]).0.result, feature::queues(2, 2).into());
    assert_eq!(rig.shared.quotas().hosts(), [(HOST.to_owned(), 4, 0)]);
    let (second, _) = rig.auth_connect(0, 0);
    assert_eq!(rig.authenticate(second, credentials(1, false)), Ok(()));
    assert!(rig.is_closed(second, Duration::from_secs(1)), "there is no place for another controller");
    assert_eq!(rig.servers.borrow().iter().map(|s| s.borrow().target.stats().connections_refused).sum::<u64>(), 1);
    for qid in 1..=3 {
        let (io, io_cqe) = rig.auth_connect(qid, cqe.result as u16);
        assert!(io_cqe.status.is_success());
        rig.authenticate(io, credentials(1, false)).unwrap();
    }
    assert_eq!(rig.shared.quotas().hosts()[0].1, 4);
}

#[test]
fn two_pieces_of_work_are_away_at_a_time_and_that_of_who_went_is_not_done() {
    let mut rig = Rig::new(59);
    rig.apply(with_secret(1, Security::Authenticated));
    rig.servers.borrow().iter().for_each(|s| s.borrow_mut().works_wait = true);
    let all: Vec<usize> = (0..12)
        .map(|_| {
            let (at, _) = rig.auth_connect(0, 0);
            let message = HostAuth::new(credentials(1, false), HOST, NQN, 7).negotiate();
            let sqe = AuthCommand::new(message.len() as u32).send_sqe(5);
            rig.send(at, |c| c.capsule(with_capsule(sqe, message.len() as u32), &message));
            at
        })
        .collect();
    rig.world.run_for(Duration::from_millis(10));
    let take = |rig: &Rig| -> Vec<_> {
        let servers = rig.servers.borrow();
        servers.iter().flat_map(|s| std::iter::from_fn(|| s.borrow_mut().target.pop_work()).collect::<Vec<_>>()).collect()
    };
    let away = take(&rig);
    assert_eq!(away.len(), WORKS_OUT_MAX * CORES, "the others wait in their order");
    all.into_iter().for_each(|at| rig.close(at));
    rig.world.run_for(Duration::from_millis(100));
    for (id, work) in away {
        let rt = rig.world.rt(rig.server, id.core);
        rig.servers.borrow()[id.core].borrow_mut().target.on_work_done(&rt, id, work.run());
    }
    assert!(take(&rig).is_empty());
}

#[test]
fn commands_with_wrong_fields_are_refused_and_harm_nothing() {
    let mut rig = Rig::new(56);
    rig.apply(with_secret(1, Security::Authenticated));
    let (at, _) = rig.auth_connect(0, 0);
    let host = HostAuth::new(credentials(1, false), HOST, NQN, 7);
    let message = host.negotiate();
    let good = AuthCommand::new(message.len() as u32);
    let invalid = [
        (AuthCommand { secp: 0xEF, ..good }, StatusCode::INVALID_FIELD),
        (AuthCommand { spsp0: 0, ..good }, StatusCode::INVALID_FIELD),
        (AuthCommand { spsp1: 2, ..good }, StatusCode::INVALID_FIELD),
        (AuthCommand { bytes: 0, ..good }, StatusCode::INVALID_FIELD),
        (AuthCommand { bytes: 71, ..good }, StatusCode::DATA_SGL_LENGTH_INVALID),
    ];
    for (command, code) in invalid {
        let (cqe, _) = rig.execute(at, with_capsule(command.send_sqe(0), message.len() as u32), &message);
        assert_eq!((cqe.status.code, cqe.status.dnr), (code, true), "{command:?}");
    }
    assert_eq!(rig.auth_receive(at).0.status.code, StatusCode::COMMAND_SEQUENCE_ERROR, "nothing is due");
    let long = vec![0; 5000];
    let (cqe, _) = rig.execute(at, with_capsule(AuthCommand::new(5000).send_sqe(0), 5000), &long);
    assert_eq!(cqe.status.code, StatusCode::INVALID_FIELD, "longer than any message");
    rig.auth_send(at, &message);
    let (cqe, _) = rig.execute(at, with_transport(AuthCommand::new(64).receive_sqe(0), 64), &[]);
    assert_eq!(cqe.status.code, StatusCode::INVALID_FIELD, "no room for the challenge");
    assert_eq!(rig.auth_receive(at).1.len(), 4096);
    rig.auth_send(at, &message);
    assert_eq!(failure_code(&rig.auth_receive(at).1), Some(7), "a negotiation in the middle");
    assert!(rig.is_closed(at, Duration::from_secs(1)));
}
