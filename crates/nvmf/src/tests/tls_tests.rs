//! Connections over TLS, in a simulated world whose network cuts bytes anywhere.

use super::client::{Client, Pdu, with_capsule, with_transport};
use super::fabrics_tests::discovery_log;
use super::world_tests::Rig;
use super::{HOST, NQN, view};
use crate::view::{HostPsk, HostView, ListenerKind, View};
use base::{Duration, Security};
use format::nvme::fabrics::{DISCOVERY_NQN, PropertyAccess};
use format::nvme::io::BlockRange;
use format::nvme::log::DiscoveryEntry;
use format::nvme::property::{self, Config};
use format::nvme::{Cqe, IoOpcode, Sqe, StatusCode};
use frontend::AuditKind;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tls::{ConfiguredPsk, Context, Derivation, Engine, Fault, Hash, HostIdentity};

const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

fn context() -> Arc<Context> {
    static CONTEXT: OnceLock<Arc<Context>> = OnceLock::new();
    Arc::clone(CONTEXT.get_or_init(|| Arc::new(Context::new().unwrap())))
}
fn key() -> ConfiguredPsk {
    ConfiguredPsk::parse(KEY).unwrap()
}
fn identity(host: &str, subsystem: &str, hash: Hash) -> HostIdentity {
    HostIdentity { hash, host_nqn: host.into(), subsystem_nqn: subsystem.into(), digest: None }
}
fn engine(psk: &ConfiguredPsk, identity: &HostIdentity, how: Derivation) -> Engine {
    Engine::client(&context(), identity, psk.key_for(identity, how).unwrap().unwrap()).unwrap()
}
fn host() -> Engine {
    engine(&key(), &identity(HOST, NQN, Hash::Sha256), Derivation::Standard)
}
/// Both hosts have the same key, for every subsystem; the second host is allowed too.
fn secured(security: Security) -> View {
    let mut view = view();
    view.generation = 2;
    view.subsystems[0].security = security;
    view.subsystems[0].hosts.push(OTHER_HOST.into());
    for host in [HOST, OTHER_HOST] {
        let tls_psks = vec![HostPsk { subsystem: None, psk: Arc::new(key()) }];
        view.hosts.insert(host.into(), HostView { tls_psks, ..HostView::default() });
    }
    view
}
fn client() -> Client {
    Client::new(false, false, 0)
}

impl Rig {
    fn secured(seed: u64, security: Security) -> Rig {
        let mut rig = Rig::new(seed);
        rig.apply(secured(security));
        rig
    }
    /// A connection over TLS, up to its ICResp.
    fn open_tls(&mut self, addr: SocketAddr, client: Client, tls: Engine) -> usize {
        let at = self.start(addr, client, Some(tls));
        assert!(matches!(self.next(at), Pdu::IcResp(_)));
        at
    }
    fn enable(&mut self, at: usize) {
        let cc = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
        assert!(self.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    }
    fn audited(&mut self) -> Vec<(AuditKind, String)> {
        let servers = self.servers.borrow();
        let all = servers.iter().flat_map(|s| std::iter::from_fn(|| s.borrow_mut().target.pop_audit()).collect::<Vec<_>>());
        all.map(|e| (e.kind, e.detail)).collect()
    }
    fn ended(&self, at: usize) -> Option<Result<(), Fault>> {
        self.peer().wires.borrow()[at].ended.clone()
    }
    fn stat(&self, of: impl Fn(&crate::TargetStats) -> u64) -> u64 {
        self.servers.borrow().iter().map(|s| of(&s.borrow().target.stats())).sum()
    }
}
fn refused(cqe: Cqe, code: StatusCode, result: u64) {
    assert_eq!((cqe.status.code, cqe.status.dnr, cqe.result), (code, true, result));
}

#[test]
fn a_host_over_tls_reads_what_it_wrote_on_queues_of_every_core() {
    let cases = [
        (1, Hash::Sha256, Derivation::Standard, false),
        (2, Hash::Sha384, Derivation::Libnvme, true),
        (3, Hash::Sha256, Derivation::LibnvmeContextOnly, false),
    ];
    for (seed, hash, how, digests) in cases {
        let mut rig = Rig::secured(seed, Security::Encrypted);
        let tls = || engine(&key(), &identity(HOST, NQN, hash), how);
        let client = || Client::new(digests, digests, 0);
        let admin = rig.open_tls(rig.io, client(), tls());
        let cqe = rig.connect(admin, 0, 0, 5000, NQN, HOST);
        assert!(cqe.status.is_success(), "{cqe:?}");
        rig.enable(admin);
        for qid in 1..=4u16 {
            let q = rig.open_tls(rig.io, client(), tls());
            let cqe = rig.connect(q, qid, cqe.result as u16, 0, NQN, HOST);
            assert!(cqe.status.is_success(), "{cqe:?}");
            let block = |op: IoOpcode, slba, blocks: u32| BlockRange::new(slba, blocks as u16 - 1).sqe(op, 0, 2);
            for (slba, blocks) in [(u64::from(qid) * 64, 1u32), (u64::from(qid) * 64 + 8, 40)] {
                let data: Vec<u8> = (0..blocks * 4096).map(|i| (i / 5) as u8 ^ qid as u8).collect();
                let write: Sqe = block(IoOpcode::Write, slba, blocks);
                let write = if blocks == 1 { with_capsule(write, 4096) } else { with_transport(write, blocks * 4096) };
                assert!(rig.execute(q, write, &data).0.status.is_success());
                let (cqe, got) = rig.execute(q, with_transport(block(IoOpcode::Read, slba, blocks), blocks * 4096), &[]);
                assert!(cqe.status.is_success() && got == data, "queue {qid}: {cqe:?}");
            }
        }
        let sessions: Vec<_> = rig.servers.borrow().iter().flat_map(|s| s.borrow().target.sessions()).collect();
        assert!(sessions.len() == 1 && sessions[0].encrypted);
        assert_eq!(rig.stat(|s| s.tls_handshakes), 5);
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut rig = Rig::secured(4, Security::Encrypted);
    let mut tls = host();
    let at = rig.start(rig.io, client(), None);
    rig.peer().wires.borrow_mut()[at].out.clear();
    let mut said = std::mem::take(&mut tls.out().to_vec());
    tls.taken(said.len());
    let mut asked = false;
    for _ in 0..2000 {
        for byte in said.drain(..) {
            rig.send(at, |_| vec![byte]);
            rig.world.run_for(Duration::from_micros(30));
        }
        rig.world.run_for(Duration::from_millis(1));
        let came = std::mem::take(&mut rig.peer().wires.borrow_mut()[at].client.incoming);
        tls.receive(&came, |_| Vec::new()).unwrap();
        if tls.is_open() && !asked {
            asked = true;
            tls.write(&client().ic_req()).unwrap();
            tls.flush().unwrap();
        }
        let mut plain = [0; 200];
        if let Some(n @ 1..) = tls.read(&mut plain).unwrap() {
            assert_eq!((n, plain[0]), (128, 1), "ICResp");
            return;
        }
        said = tls.out().to_vec();
        tls.taken(said.len());
    }
    panic!("no ICResp");
}

#[test]
fn a_wrong_key_and_an_unknown_identity_hear_why_and_are_closed_and_noted() {
    let mut rig = Rig::secured(5, Security::Plain);
    let wrong = ConfiguredPsk::generate(Hash::Sha256).unwrap();
    let at = rig.start(rig.io, client(), Some(engine(&wrong, &identity(HOST, NQN, Hash::Sha256), Derivation::Standard)));
    assert!(rig.is_closed(at, Duration::from_secs(1)));
    assert!(matches!(rig.ended(at), Some(Err(Fault::Alert(_)))), "{:?}", rig.ended(at));
    let strange = engine(&key(), &identity("nqn.other", NQN, Hash::Sha256), Derivation::Standard);
    let at = rig.start(rig.io, client(), Some(strange));
    assert!(rig.is_closed(at, Duration::from_secs(1)));
    assert_eq!((rig.stat(|s| s.tls_failures), rig.stat(|s| s.tls_handshakes), rig.connections()), (2, 0, 0));
    let audited = rig.audited();
    assert!(audited.iter().all(|(kind, detail)| *kind == AuditKind::AuthenticationFailed && detail.contains("alert")), "{audited:?}");
    assert_eq!(audited.len(), 2);
}

#[test]
fn a_key_for_one_subsystem_opens_no_other() {
    let mut rig = Rig::new(6);
    let mut view = secured(Security::Plain);
    view.hosts.get_mut(HOST).unwrap().tls_psks[0].subsystem = Some("nqn.another".into());
    rig.apply(view);
    let at = rig.start(rig.io, client(), Some(host()));
    assert!(rig.is_closed(at, Duration::from_secs(1)));
    assert_eq!(rig.stat(|s| s.tls_failures), 1);
}

#[test]
fn what_the_key_says_must_be_what_connect_says() {
    let mut rig = Rig::secured(7, Security::Encrypted);
    let at = rig.open_tls(rig.io, client(), host());
    let cqe = rig.connect(at, 0, 0, 0, NQN, OTHER_HOST);
    refused(cqe, StatusCode::CONNECT_INVALID_PARAMETERS, 1 << 16 | 512);
    let cqe = rig.connect(at, 0, 0, 0, DISCOVERY_NQN, HOST);
    refused(cqe, StatusCode::CONNECT_INVALID_PARAMETERS, 1 << 16 | 256);
    assert!(rig.connect(at, 0, 0, 0, NQN, HOST).status.is_success());
}

#[test]
fn a_plain_host_is_refused_where_tls_is_wanted() {
    let mut rig = Rig::secured(8, Security::Encrypted);
    let at = rig.open(rig.io, client());
    refused(rig.connect(at, 0, 0, 0, NQN, HOST), StatusCode::CONNECT_INVALID_HOST, 0);
    // An I/O queue in plain beside an encrypted admin queue is no way in.
    let admin = rig.open_tls(rig.io, client(), host());
    let cntlid = rig.connect(admin, 0, 0, 0, NQN, HOST).result as u16;
    rig.enable(admin);
    refused(rig.connect(at, 1, cntlid, 0, NQN, HOST), StatusCode::CONNECT_INVALID_HOST, 0);
}

#[test]
fn a_key_proves_a_host_where_authentication_is_wanted() {
    let mut rig = Rig::secured(18, Security::Authenticated);
    let at = rig.open_tls(rig.io, client(), host());
    let cqe = rig.connect(at, 0, 0, 0, NQN, HOST);
    assert_eq!((cqe.status.is_success(), cqe.result >> 16), (true, 0), "nothing more is asked for");
    rig.enable(at);
}

#[test]
fn a_listener_for_tls_closes_on_anything_else() {
    let mut rig = Rig::secured(9, Security::Plain);
    let only = rig.listen(ListenerKind::Io, 4421, Security::Encrypted);
    let at = rig.start(only, client(), None);
    assert!(rig.is_closed(at, Duration::from_secs(1)));
    assert!(rig.peer().wires.borrow()[at].client.incoming.is_empty(), "not a byte is said");
    let at = rig.open_tls(only, client(), host());
    assert!(rig.connect(at, 0, 0, 0, NQN, HOST).status.is_success());
}

#[test]
fn plain_connections_end_when_a_subsystem_begins_to_want_tls() {
    let mut rig = Rig::secured(10, Security::Plain);
    let (plain, _) = rig.admin(client(), 0);
    let sealed = rig.open_tls(rig.io, client(), host());
    assert!(rig.connect(sealed, 0, 0, 0, NQN, HOST).status.is_success());
    rig.apply(View { generation: 3, ..secured(Security::Encrypted) });
    assert!(rig.is_closed(plain, Duration::from_secs(1)));
    rig.enable(sealed);
}

#[test]
fn a_half_handshake_ends_in_time() {
    let mut rig = Rig::secured(11, Security::Plain);
    let hello = host().out().to_vec();
    for n in [1, 20, hello.len() - 1, hello.len()] {
        let at = rig.start(rig.io, client(), None);
        rig.peer().wires.borrow_mut()[at].out = hello[..n].to_vec();
        assert!(!rig.is_closed(at, Duration::from_secs(14)));
        assert!(rig.is_closed(at, Duration::from_secs(3)), "{n} bytes");
    }
    assert_eq!((rig.connections(), rig.stat(|s| s.timeouts)), (0, 4));
}

#[test]
fn a_record_that_trickles_in_ends_the_connection_as_a_pdu_does() {
    let mut rig = Rig::secured(15, Security::Encrypted);
    let at = rig.open_tls(rig.io, client(), host());
    assert!(rig.connect(at, 0, 0, 0, NQN, HOST).status.is_success());
    rig.enable(at);
    let record = {
        let p = rig.peer();
        let mut wires = p.wires.borrow_mut();
        let mut tls = wires[at].tls.take().unwrap();
        tls.write(&[0; 72]).unwrap();
        tls.flush().unwrap();
        tls.out().to_vec()
    };
    for byte in &record[..29] {
        rig.send(at, |_| vec![*byte]);
        assert!(!rig.is_closed(at, Duration::from_secs(1)));
    }
    assert!(rig.is_closed(at, Duration::from_secs(3)));
    assert_eq!(rig.stat(|s| s.timeouts), 1);
}

#[test]
fn a_shutdown_says_goodbye() {
    let mut rig = Rig::secured(12, Security::Encrypted);
    let at = rig.open_tls(rig.io, client(), host());
    assert!(rig.connect(at, 0, 0, 0, NQN, HOST).status.is_success());
    for (core, server) in rig.servers.borrow().iter().enumerate() {
        server.borrow_mut().target.begin_shutdown(&rig.world.rt(rig.server, core));
    }
    assert!(rig.is_closed(at, Duration::from_secs(5)));
    assert_eq!(rig.ended(at), Some(Ok(())), "close_notify");
    assert_eq!(rig.connections(), 0);
}

#[test]
fn garbage_behind_the_handshake_harms_only_its_connection() {
    let mut rig = Rig::secured(13, Security::Encrypted);
    let good = rig.open_tls(rig.io, client(), host());
    assert!(rig.connect(good, 0, 0, 0, NQN, HOST).status.is_success());
    let bad = rig.open_tls(rig.io, client(), host());
    rig.peer().wires.borrow_mut()[bad].tls = None;
    rig.send(bad, |_| vec![0xA5; 3000]);
    assert!(rig.is_closed(bad, Duration::from_secs(3)));
    // A malformed PDU inside of a sound record is answered like any other.
    let odd = rig.open_tls(rig.io, client(), host());
    rig.send(odd, |_| vec![0xFF; 64]);
    assert!(matches!(rig.next(odd), Pdu::Term(..)));
    rig.enable(good);
}

#[test]
fn discovery_tells_where_tls_is_needed() {
    let mut rig = Rig::secured(14, Security::Plain);
    rig.listen(ListenerKind::Io, 4421, Security::Encrypted);
    let entries = |rig: &mut Rig| -> Vec<(String, u8, u8)> {
        let at = rig.open(rig.discovery, client());
        assert!(rig.connect(at, 0, 0, 0, DISCOVERY_NQN, HOST).status.is_success());
        rig.enable(at);
        let (_, entries) = discovery_log(rig, at);
        let port = |e: &DiscoveryEntry| String::from_utf8_lossy(&e.trsvcid).trim_end_matches([' ', '\0']).to_owned();
        entries.iter().map(|e| (port(e), e.treq & 3, e.tsas[0])).collect()
    };
    let open = |p: &str| (p.to_owned(), 0, 0);
    let closed = |p: &str| (p.to_owned(), 1, 2);
    assert_eq!(entries(&mut rig), [open("8009"), open("4420"), closed("4421")]);
    rig.apply(View { generation: 3, ..secured(Security::Encrypted) });
    assert_eq!(entries(&mut rig), [open("8009"), closed("4420"), closed("4421")]);
}
