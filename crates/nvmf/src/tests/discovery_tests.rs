//! The discovery log against a model of it, and its events.

use super::client::{Client, Pdu};
use super::controller_tests::{Bench, bench};
use super::fabrics_tests::discovery_log as log_of;
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN, view};
use crate::discovery::{discovery_log, entries};
use crate::limits::{ADDRESS_DISCOVERY_CONTROLLERS_MAX, TICK};
use crate::shared::{ControllerShared, TargetShared};
use crate::view::{ListenerKind, ListenerSpec, SubsystemView, View};
use crate::{Options, Referral};
use base::{Duration, Security};
use format::nvme::StatusCode;
use format::nvme::admin::{SetFeatures, plain_sqe};
use format::nvme::fabrics::{DISCOVERY_NQN, PropertyAccess};
use format::nvme::log::{AsyncEvent, DiscoveryEntry, DiscoveryHeader};
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, feature};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const HOSTS: [&str; 3] = [HOST, "nqn.2026-11.io.basalt:b", "nqn.2026-11.io.basalt:c"];
const SECURITY: [Security; 3] = [Security::Plain, Security::Authenticated, Security::Encrypted];

/// A small generator: the same numbers each time.
pub(super) struct Draw(u64);
impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(seed)
    }
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

/// What a host is to see of an entry: subtype, NQN, address, whether it wants TLS, port ID.
type Seen = (u8, String, SocketAddr, bool, u16);

/// Where a host that came by `reached` finds the listeners of a kind, each address with the least that one of its listeners wants.
fn addresses(
    listeners: &[(ListenerSpec, SocketAddr)],
    kind: ListenerKind,
    reached: Option<IpAddr>,
) -> BTreeMap<SocketAddr, (Security, u16)> {
    let mut out = BTreeMap::new();
    for (id, (spec, bound)) in (1..).zip(listeners).filter(|(_, (spec, _))| spec.kind == kind) {
        let named = spec.advertise.unwrap_or(*bound);
        let port = if named.port() == 0 { bound.port() } else { named.port() };
        // Who listens on all addresses of IPv6 has those of IPv4 too.
        let ip = match (named.ip().is_unspecified(), reached) {
            (false, _) => named.ip(),
            (true, Some(ip)) if named.is_ipv6() || ip.is_ipv4() => ip,
            _ => continue,
        };
        let least: &mut (Security, u16) = out.entry(SocketAddr::new(ip, port)).or_insert((spec.security, id));
        least.0 = spec.security.min(least.0);
    }
    out
}

fn expected(
    host: &str,
    reached: Option<IpAddr>,
    view: &View,
    listeners: &[(ListenerSpec, SocketAddr)],
    referrals: &[Referral],
) -> Vec<Seen> {
    let io = addresses(listeners, ListenerKind::Io, reached);
    let mut own = addresses(listeners, ListenerKind::Discovery, reached);
    if own.is_empty() {
        own = io.clone();
    }
    let mut out: Vec<Seen> = own.iter().map(|(addr, (s, id))| (3, DISCOVERY_NQN.into(), *addr, *s == Security::Encrypted, *id)).collect();
    for r in referrals {
        out.push((1, r.nqn.clone().unwrap_or(DISCOVERY_NQN.into()), r.addr, false, r.addr.port()));
    }
    for s in &view.subsystems {
        if s.allow_any_host || s.hosts.contains(&host.to_owned()) {
            let wants = |of: &Security| s.security == Security::Encrypted || *of == Security::Encrypted;
            out.extend(io.iter().map(|(addr, (of, id))| (2, s.nqn.clone(), *addr, wants(of), *id)));
        }
    }
    out
}

fn seen(bytes: &[u8]) -> Vec<Seen> {
    let one = |b: &[u8]| {
        let e = DiscoveryEntry::parse(b).unwrap();
        let addr = SocketAddr::new(e.address().parse().unwrap(), e.service().parse().unwrap());
        assert_eq!((e.trtype, e.adrfam), (3, if addr.is_ipv4() { 1 } else { 2 }));
        assert_eq!((e.treq & 3 == 1, e.tsas[0] == 2), (e.treq & 1 != 0, e.treq & 1 != 0), "TLS is said twice");
        assert_eq!((e.asqsz, e.cntlid, e.treq >> 2), (32, 0xFFFF, 1));
        assert_eq!(e.eflags, if e.subtype == 3 { 3 } else { 0 });
        (e.subtype, e.nqn().unwrap().to_owned(), addr, e.treq & 3 == 1, e.portid)
    };
    bytes.chunks(DiscoveryEntry::LEN).map(one).collect()
}

#[test]
fn at_every_moment_each_host_sees_what_there_is_for_it_and_its_counter_changes_with_it() {
    let referrals = vec![
        Referral { addr: "192.0.2.9:8009".parse().unwrap(), nqn: None },
        Referral { addr: "[2001:db8::9]:8010".parse().unwrap(), nqn: Some("nqn.2026-11.io.basalt:discovery".into()) },
    ];
    let bound = ["10.0.0.1:4420", "10.0.0.2:4420", "0.0.0.0:4420", "0.0.0.0:8009", "[::]:4420", "[::]:4421", "[2001:db8::1]:4420"];
    let named = [None, None, None, Some("10.0.0.1:0"), Some("10.0.0.9:4420"), Some("0.0.0.0:0")];
    let reached: [Option<IpAddr>; 4] =
        [None, Some("10.0.0.1".parse().unwrap()), Some("10.0.0.2".parse().unwrap()), Some("2001:db8::1".parse().unwrap())];
    for seed in 0..12 {
        let mut draw = Draw(seed);
        let shared = TargetShared::new(Options { referrals: referrals.clone(), ..Options::default() });
        let (mut view, mut listeners) = (view(), Vec::new());
        let mut counters: BTreeMap<(usize, usize), (Vec<Seen>, u64)> = BTreeMap::new();
        for step in 0..40 {
            match draw.below(6) {
                0 if listeners.len() < 8 => {
                    let addr: SocketAddr = draw.of(&bound).parse().unwrap();
                    let advertise = draw.of(&named).map(|a| a.parse().unwrap());
                    let spec = ListenerSpec { addr, kind: draw.of(&ListenerKind::ALL), advertise, security: draw.of(&SECURITY) };
                    shared.add_listener(spec.clone(), addr);
                    listeners.push((spec, addr));
                }
                1 => {
                    let host = draw.of(&HOSTS).to_owned();
                    let at = draw.below(view.subsystems.len());
                    let hosts = &mut view.subsystems[at].hosts;
                    if hosts.contains(&host) { hosts.retain(|h| *h != host) } else { hosts.push(host) }
                }
                2 => {
                    let at = draw.below(view.subsystems.len());
                    view.subsystems[at].security = draw.of(&SECURITY);
                }
                3 if view.subsystems.len() < 4 => {
                    let s = view.subsystems[0].clone();
                    view.subsystems.push(SubsystemView { nqn: format!("{NQN}-{step}"), allow_any_host: draw.below(2) == 0, ..s });
                }
                4 => {
                    let at = draw.below(view.subsystems.len());
                    view.subsystems[at].nqn = format!("{NQN}-other-{step}");
                }
                5 if draw.below(8) == 0 => {
                    shared.clear_listeners();
                    listeners.clear();
                }
                _ => {}
            }
            view.generation += 1;
            for _ in 0..2 {
                for (h, host) in HOSTS.iter().enumerate() {
                    for (r, by) in reached.iter().enumerate() {
                        let mut c = ControllerShared::new(1, 1, DISCOVERY_NQN, host, [7; 16], true);
                        c.reached = *by;
                        let (head, body) = discovery_log(&c, &view, &shared);
                        let head = DiscoveryHeader::parse(&head).unwrap();
                        let want = expected(host, *by, &view, &listeners, &referrals);
                        assert_eq!(seen(&body.bytes), want, "seed {seed}, step {step}: {host} by {by:?}");
                        assert_eq!((head.numrec, head.recfmt), (want.len() as u64, 0));
                        assert_eq!(entries(&c, &view, &shared).sum, base::crc32c(&body.bytes));
                        let known = counters.entry((h, r)).or_insert((want.clone(), head.genctr));
                        let counter = known.1 + u64::from(known.0 != want);
                        assert_eq!(head.genctr, counter, "seed {seed}, step {step}: the counter of {host} by {by:?}");
                        *known = (want, counter);
                    }
                }
            }
        }
    }
}

#[test]
fn the_log_read_in_parts_is_the_log() {
    let mut b = bench(true, 0);
    let cc = Config { en: true, ..Config::default() }.bits();
    b.status(PropertyAccess::set_sqe(1, property::CC, false, cc.into()));
    for addr in ["10.0.0.1:4420", "10.0.0.2:4420"] {
        let spec = ListenerSpec { addr: addr.parse().unwrap(), kind: ListenerKind::Io, advertise: None, security: Security::Plain };
        b.shared.add_listener(spec, addr.parse().unwrap());
    }
    let whole = b.data(Bench::log(0x70, 0, 8192, false));
    let end = 5 * 1024;
    assert!(whole[end - 1024..end].iter().any(|x| *x != 0) && whole[end..].iter().all(|x| *x == 0), "a head and four entries");
    let mut draw = Draw(7);
    for _ in 0..200 {
        let (from, len) = (draw.below(end / 4 + 1) * 4, draw.below(800) * 4 + 4);
        let part = b.data(Bench::log(0x70, from as u64, len as u32, false));
        assert!(part.iter().eq(whole.iter().chain(std::iter::repeat(&0)).skip(from).take(len)), "{len} bytes from {from}");
    }
    assert_eq!(b.status(Bench::log(0x70, end as u64 + 4, 4, false)).0, StatusCode::INVALID_FIELD, "behind the end");
}

fn discovery(rig: &mut Rig, host: &str, aec: u32) -> usize {
    let at = rig.open(rig.discovery, Client::new(false, false, 0));
    assert!(rig.connect(at, 0, 0, 60_000, DISCOVERY_NQN, host).status.is_success());
    let cc = Config { en: true, ..Config::default() }.bits();
    assert!(rig.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: aec, nsid: 0 };
    assert!(rig.execute(at, set.sqe(0), &[]).0.status.is_success());
    rig.send(at, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x7777), &[]));
    at
}

#[test]
fn a_listener_that_is_opened_is_reported_by_an_event_on_every_core_to_who_wants_it() {
    let mut rig = Rig::new(65);
    // Before anything was read: what changes after a host has connected is news.
    let wanting: Vec<usize> = (0..CORES).map(|_| discovery(&mut rig, HOST, feature::AEC_DISCOVERY)).collect();
    let quiet = discovery(&mut rig, HOST, 0);
    assert!(wanting.iter().all(|at| rig.try_next(*at, TICK * 3).is_none()), "nothing has changed");
    for (round, port) in [(1, 4421), (2, 4422)] {
        rig.listen(ListenerKind::Io, port, Security::Plain);
        for at in &wanting {
            let Some(Pdu::Response(cqe)) = rig.try_next(*at, TICK * 3) else { panic!("an event") };
            assert_eq!((cqe.cid, AsyncEvent::parse(cqe.result as u32)), (0x7777, AsyncEvent { kind: 2, info: 0xF0, log: 0x70 }));
            let (head, entries) = log_of(&mut rig, *at);
            assert!(entries.iter().any(|e| e.service() == port.to_string() && e.subtype == 2), "round {round}");
            assert_eq!(head.numrec, 2 + round);
            rig.send(*at, |c| c.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x7777), &[]));
        }
    }
    assert!(rig.try_next(quiet, TICK * 3).is_none(), "it did not ask");
    // The first change of what is served is reported to who connected before it, too.
    let late = discovery(&mut rig, "nqn.2026-11.io.basalt:late", feature::AEC_DISCOVERY);
    let mut new = view();
    new.generation = 2;
    new.subsystems[0].allow_any_host = true;
    rig.apply(new);
    assert!(matches!(rig.try_next(late, TICK), Some(Pdu::Response(cqe)) if cqe.cid == 0x7777));
    assert!(wanting.iter().all(|at| rig.try_next(*at, TICK).is_none()), "for them nothing has changed");
    assert_eq!(rig.servers.borrow().iter().map(|s| s.borrow().target.stats().events).sum::<u64>(), 2 * CORES as u64 + 1);
}

#[test]
fn nobody_can_make_more_discovery_controllers_than_its_address_may() {
    let mut rig = Rig::new(66);
    let most = ADDRESS_DISCOVERY_CONTROLLERS_MAX * CORES;
    let connect = |rig: &mut Rig| {
        let at = rig.open(rig.discovery, Client::new(false, false, 0));
        (at, rig.connect(at, 0, 0, 0, DISCOVERY_NQN, HOST).status)
    };
    let all: Vec<_> = (0..most).map(|_| connect(&mut rig)).collect();
    assert!(all.iter().all(|(_, status)| status.is_success()), "as many as an address may have");
    let (_, status) = connect(&mut rig);
    assert_eq!((status.code, status.dnr), (StatusCode::CONNECT_CONTROLLER_BUSY, false));
    assert!(rig.shared.quotas().hosts().is_empty(), "discovery takes nothing of a host's connections");
    rig.admin(Client::new(false, false, 0), 0);
    all.iter().take(CORES).for_each(|(at, _)| rig.close(*at));
    rig.world.run_for(Duration::from_millis(100));
    assert!((0..CORES).any(|_| connect(&mut rig).1.is_success()), "one that went makes room");
}

#[test]
fn a_server_that_ends_advertises_nothing() {
    let rig = Rig::new(67);
    assert_eq!(rig.shared.advertised(ListenerKind::Io, None).len(), 1);
    let before = rig.shared.listeners_generation();
    for core in 0..CORES {
        rig.servers.borrow()[core].borrow_mut().target.begin_shutdown(&rig.world.rt(rig.server, core));
    }
    assert!(ListenerKind::ALL.iter().all(|kind| rig.shared.advertised(*kind, None).is_empty()));
    assert_ne!(rig.shared.listeners_generation(), before);
}
