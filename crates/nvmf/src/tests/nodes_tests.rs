//! What hosts see of several nodes: front ends that are made from one set of records, each as the node that it is.

use super::client::{Client, with_transport};
use super::controller_tests::{Bench, bench_of};
use super::discovery_tests::Draw;
use super::fabrics_tests::discovery_log as log_in_world;
use super::world_tests::{CORES, Rig};
use super::{HOST, NQN, volume};
use crate::discovery::{discovery_log, entries};
use crate::limits::TICK;
use crate::shared::{ControllerShared, TargetShared};
use crate::view::{ListenerKind, ListenerSpec, View};
use crate::{Desired, Options, Referral};
use base::{ComponentId, CopyState, GroupId, NodeSlot, ObjectId, Security, VolumeId};
use cluster::record::{ComponentRecord, NamespaceRecord, NodeRecord, NodeState, ObjectRecord, PortalRecord, SubsystemRecord};
use cluster::{Observed, Records, path_of};
use format::nvme::admin::{SetFeatures, plain_sqe};
use format::nvme::fabrics::{CNTLID_DYNAMIC, CNTLID_STATIC, DISCOVERY_NQN, PropertyAccess};
use format::nvme::identify::{IdentifyController, IdentifyNamespace, NamespaceDescriptor, parse_descriptors, parse_namespace_list};
use format::nvme::io::BlockRange;
use format::nvme::log::{AnaGroup, AnaHeader, AsyncEvent, DiscoveryEntry, DiscoveryHeader};
use format::nvme::property::{self, Config};
use format::nvme::{AdminOpcode, Field, IoOpcode, StatusCode, feature};
use frontend::Volumes;
use object::VolumeRef;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

const OTHER_NQN: &str = "nqn.2026-11.io.basalt:others";
const STRANGE: &str = "nqn.2026-11.io.basalt:strange";
const ANA_EVENT: AsyncEvent = AsyncEvent { kind: 2, info: 3, log: 0x0C };

/// A cluster: what the directory says, and who can forward to whom.
#[derive(Clone)]
struct Cluster {
    records: Records,
    subsystems: Vec<SubsystemRecord>,
    /// From a node to the nodes to which it can forward.
    forwards: BTreeMap<String, BTreeSet<String>>,
    generation: u64,
}

fn id(n: u8) -> VolumeId {
    VolumeId::from_bytes([n; 16])
}

fn portal(addr: &str, kind: ListenerKind, listener: u16) -> PortalRecord {
    PortalRecord { addr: addr.parse().unwrap(), kind, security: Security::Plain, listener, network_bits: None }
}

/// A node with a listener of each kind at `10.0.0.slot+1`.
fn node(name: &str, slot: u8) -> NodeRecord {
    let at = |port, kind, listener| portal(&format!("10.0.0.{}:{port}", slot + 1), kind, listener);
    NodeRecord {
        slot: NodeSlot::new(slot),
        portals: vec![at(4420, ListenerKind::Io, 0), at(8009, ListenerKind::Discovery, 1)],
        release: "1.2.3".into(),
        ..NodeRecord::new(name.into(), name.into(), 0)
    }
}

/// A volume's object with its one component on a node.
fn object(n: u8, node: &str) -> ObjectRecord {
    let component = ComponentRecord {
        id: ComponentId::from_bytes([n; 16]),
        node: node.into(),
        group: GroupId::from_bytes([n; 16]),
        capacity_index: 0,
        no: Some(1),
        bytes: 4 << 20,
        reserve_chunks: 0,
        state: CopyState::Active,
        synced_to: base::Epoch(0),
        leaving: false,
    };
    let mirrors = vec![vec![component]];
    ObjectRecord::new(ObjectId::from_bytes([n; 16]), id(n), mirrors)
}

fn subsystem(nqn: &str, hosts: &[&str]) -> SubsystemRecord {
    SubsystemRecord {
        nqn: nqn.into(),
        name: "s".into(),
        serial: "0123456789ABCDEF".into(),
        allow_any_host: false,
        hosts: hosts.iter().map(|h| (*h).into()).collect(),
        namespaces: (1..=3u8).map(|n| (n.into(), NamespaceRecord::for_all(id(n)))).collect(),
        security: Security::Plain,
        iqn: None,
        namespace_grant: None,
        created_unix_s: 0,
    }
}

/// Nodes a, b and c with slots 0, 1 and 5, each with a volume; one that was removed. Every node can forward to every other.
fn cluster() -> Cluster {
    let names = ["a", "b", "c"];
    let gone = NodeRecord { state: NodeState::Removed { unix_s: 7 }, ..node("d", 2) };
    let nodes = vec![node("a", 0), node("b", 1), gone, node("c", 5)];
    let objects = names.iter().zip(1..).map(|(node, n)| object(n, node)).collect();
    let others = |name: &str| names.iter().filter(|n| **n != name).map(|n| (*n).to_owned()).collect();
    Cluster {
        records: Records { nodes, objects, ..Records::default() },
        subsystems: vec![subsystem(NQN, &[HOST]), subsystem(OTHER_NQN, &[STRANGE])],
        forwards: names.iter().map(|n| ((*n).to_owned(), others(n))).collect(),
        generation: 1,
    }
}

impl Cluster {
    /// What the node serves.
    fn view(&self, name: &str) -> View {
        let observed = Observed { node: name.into(), forwards: self.forwards[name].clone(), ..Observed::default() };
        let path = |o: &ObjectRecord| (o.volume, path_of(o, &self.records, &observed));
        let paths = self.records.objects.iter().map(path).collect();
        let desired = Desired::of_records(&self.subsystems, &self.records.nodes, name, &paths);
        let volumes = Volumes {
            generation: self.generation,
            by_ref: (1..=3).map(|n| volume(n, 4 << 20, 4096)).collect(),
            places: (1..=3u8).map(|n| (id(n), VolumeRef(u32::from(n) - 1))).collect(),
        };
        desired.resolve(volumes).unwrap()
    }
    fn record(&self, name: &str) -> &NodeRecord {
        self.records.nodes.iter().find(|n| n.name == name).unwrap()
    }
    fn record_mut(&mut self, name: &str) -> &mut NodeRecord {
        self.generation += 1;
        self.records.nodes.iter_mut().find(|n| n.name == name).unwrap()
    }
    /// What the front end of the node has: its slot, its listeners.
    fn shared(&self, name: &str) -> TargetShared {
        let record = self.record(name);
        let shared = TargetShared::new(Options::of_slot(record.slot.unwrap()));
        for p in &record.portals {
            let spec = ListenerSpec { addr: p.addr, kind: p.kind, advertise: None, security: p.security };
            shared.add_listener(spec, p.addr);
        }
        shared
    }
    /// A controller of a host on the node, enabled.
    fn bench(&self, name: &str) -> Bench {
        let shared = self.shared(name);
        let c = ControllerShared::new(shared.options().controller_ids.first, 1, NQN, HOST, [7; 16], false);
        let mut b = bench_of(self.view(name), shared, c, 0);
        b.enable();
        b
    }
    /// The entries of the node's discovery log, for a host that reached it by an address.
    fn log(&self, name: &str, host: &str, reached: Option<IpAddr>) -> Vec<DiscoveryEntry> {
        let mut c = ControllerShared::new(1, 1, DISCOVERY_NQN, host, [7; 16], true);
        c.reached = reached;
        let (_, body) = discovery_log(&c, &self.view(name), &self.shared(name));
        body.bytes.chunks(DiscoveryEntry::LEN).map(|b| DiscoveryEntry::parse(b).unwrap()).collect()
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn addr(e: &DiscoveryEntry) -> String {
    format!("{}:{}", e.address(), e.service())
}

#[test]
fn a_subsystem_is_the_same_through_every_node() {
    same_through_every_node();
}

fn same_through_every_node() {
    let mut c = cluster();
    c.record_mut("b").release = "1.3.0".into();
    let mut benches: Vec<Bench> = NAMES.iter().map(|name| c.bench(name)).collect();
    let mut all = |cns: u8, nsid: u32| -> Vec<Vec<u8>> {
        benches
            .iter_mut()
            .map(|b| {
                let sqe = b.identify(cns, nsid);
                b.data(sqe)
            })
            .collect()
    };
    let controllers: Vec<_> = all(1, 0).iter().map(|b| IdentifyController::parse(b).unwrap()).collect();
    let ids: BTreeSet<u16> = controllers.iter().map(|c| c.cntlid).collect();
    assert_eq!(ids, BTreeSet::from([1, 1024, 5116]), "from the slice of each node's slot");
    for id in &controllers {
        assert_eq!(IdentifyController { cntlid: controllers[0].cntlid, ..*id }, controllers[0], "nothing else tells nodes apart");
    }
    let id = &controllers[0];
    assert_eq!((&id.sn[..], &id.fr[..]), (&b"0123456789ABCDEF    "[..], &b"1.2.3   "[..]), "the release of the node that has the lowest");
    assert!(id.mn.starts_with(b"Basalt ") && id.subnqn.starts_with(NQN.as_bytes()));
    assert_eq!(id.cmic, 0b1011, "several ports, several controllers, ANA");
    assert_eq!((id.anacap & 0b1_1111, id.anagrpmax, id.nanagrpid), (0b1_1111, 65, 65));
    assert!(id.anatt > 0 && id.anacap & 1 << 6 == 0, "a namespace may go to another group while it is attached");
    assert!(all(2, 0).iter().all(|list| parse_namespace_list(list) == [1, 2, 3]));
    for nsid in 1..=3 {
        for cns in [0, 3, 8] {
            let seen = all(cns, nsid);
            assert!(seen.windows(2).all(|w| w[0] == w[1]), "CNS {cns} of namespace {nsid}");
        }
        let ns = IdentifyNamespace::parse(&all(0, nsid)[0]).unwrap();
        let group = [1, 2, 6][nsid as usize - 1];
        assert_eq!((ns.nmic & 1, ns.anagrpid, ns.nguid), (1, group, [nsid as u8; 16]));
        let names = parse_descriptors(&all(3, nsid)[0]);
        assert!(names.contains(&NamespaceDescriptor::Uuid([nsid as u8; 16])) && names.contains(&NamespaceDescriptor::Eui64(ns.eui64)));
    }
}

#[test]
fn a_namespace_that_cannot_be_served_through_a_node_has_the_same_identifiers_and_no_capacity_there() {
    identifiers_whatever_the_state();
}

fn identifiers_whatever_the_state() {
    let mut c = cluster();
    c.forwards.values_mut().for_each(BTreeSet::clear);
    let mut seen = Vec::new();
    for name in NAMES {
        let mut b = c.bench(name);
        let (ns, names) = (b.identify(0, 1), b.identify(3, 1));
        seen.push((IdentifyNamespace::parse(&b.data(ns)).unwrap(), b.data(names)));
    }
    assert_eq!((seen[0].0.nvmcap, seen[1].0.nvmcap, seen[1].0.nuse), (4 << 20, 0, 0));
    for (ns, names) in &seen {
        let known = IdentifyNamespace { nvmcap: seen[0].0.nvmcap, nuse: seen[0].0.nuse, ..*ns };
        assert_eq!((&known, names), (&seen[0].0, &seen[0].1));
    }
}

/// A group of the ANA log: its ID, state, change count and namespaces.
type Group = (u32, u8, u64, Vec<u32>);

/// The change count of the ANA log, and its groups.
fn ana_log(b: &mut Bench) -> (u64, Vec<Group>) {
    let log = b.data(Bench::log(0x0C, 0, 4096, false));
    let head = AnaHeader::parse(&log).unwrap();
    let mut at = AnaHeader::LEN;
    let mut groups = Vec::new();
    for _ in 0..head.groups {
        let g = AnaGroup::parse(&log[at..]).unwrap();
        at += AnaGroup::LEN;
        let nsids = (0..g.nsids as usize).map(|n| u32::get(&log[at + 4 * n..])).collect();
        at += 4 * g.nsids as usize;
        groups.push((g.id, g.state, g.change_count, nsids));
    }
    (head.change_count, groups)
}

#[test]
fn each_owner_has_a_group_that_is_optimized_on_its_node_and_nowhere_else() {
    let mut c = cluster();
    c.forwards.get_mut("a").unwrap().remove("c");
    let states: Vec<Vec<(u32, u8, Vec<u32>)>> = NAMES
        .iter()
        .map(|name| ana_log(&mut c.bench(name)).1.into_iter().map(|(id, state, _, nsids)| (id, state, nsids)).collect())
        .collect();
    let groups = |states: [u8; 3]| vec![(1, states[0], vec![1]), (2, states[1], vec![2]), (6, states[2], vec![3])];
    assert_eq!(states, [groups([1, 2, 3]), groups([2, 1, 2]), groups([2, 2, 1])]);
}

#[test]
fn every_change_of_an_owner_or_of_a_link_is_an_ana_event_on_the_nodes_that_it_concerns() {
    changes_are_events();
}

fn changes_are_events() {
    let mut c = cluster();
    let mut benches: Vec<Bench> = NAMES.iter().map(|name| c.bench(name)).collect();
    for b in &mut benches {
        let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_ANA, nsid: 0 };
        assert_eq!(b.status(set.sqe(1)).0, StatusCode::SUCCESS);
    }
    let mut counts: Vec<u64> = benches.iter_mut().map(|b| ana_log(b).0).collect();
    // Serves what the records say now; who is informed, and whose counts went up by one.
    let mut apply = |c: &Cluster, informed: [bool; 3]| {
        for ((b, name), (informed, count)) in benches.iter_mut().zip(NAMES).zip(informed.into_iter().zip(&mut counts)) {
            b.view = c.view(name);
            let list = b.view.namespaces(&b.view.subsystems[0], HOST);
            b.c.namespaces_are(list);
            assert!(b.c.add_request(1));
            let event = b.c.next_event();
            assert_eq!(event, informed.then_some((1, ANA_EVENT)), "on {name}");
            b.c.remove_request(1);
            let (now, groups) = ana_log(b);
            assert_eq!(now, *count + u64::from(informed), "the change count of {name}");
            assert!(groups.iter().all(|g| g.2 <= now) && (!informed || groups.iter().any(|g| g.2 == now)), "{name}: {groups:?}");
            *count = now;
        }
    };
    apply(&c, [false; 3]);
    c.record_mut("d").release = "9.9.9".into();
    apply(&c, [false; 3]);
    c.records.objects[0].owner = Some("b".into());
    apply(&c, [true; 3]);
    c.forwards.get_mut("a").unwrap().remove("b");
    apply(&c, [true, false, false]);
    c.forwards.get_mut("a").unwrap().insert("b".into());
    apply(&c, [true, false, false]);
    c.records.objects[0].owner = None;
    apply(&c, [true; 3]);
}

#[test]
fn what_another_node_owns_is_refused_with_its_ana_state_and_what_is_here_is_served() {
    let mut c = cluster();
    c.forwards.values_mut().for_each(BTreeSet::clear);
    let mut rig = Rig::with(71, Options::of_slot(NodeSlot::new(1).unwrap()));
    c.generation = 2;
    rig.apply(c.view("b"));
    let (_, cntlid) = rig.admin(Client::new(false, false, 0), 0);
    assert_eq!(cntlid / 1024, 1);
    let queue = rig.io_queue(cntlid, 1, Client::new(false, false, 0));
    let read = |rig: &mut Rig, nsid| {
        let sqe = with_transport(BlockRange::new(0, 0).sqe(IoOpcode::Read, 0, nsid), 4096);
        let status = rig.execute(queue, sqe, &[]).0.status;
        (status.code, status.dnr)
    };
    assert_eq!(read(&mut rig, 2), (StatusCode::SUCCESS, false));
    for nsid in [1, 3] {
        assert_eq!(read(&mut rig, nsid), (StatusCode::ANA_INACCESSIBLE, false), "another path may work");
    }
    c.forwards.get_mut("b").unwrap().insert("a".into());
    c.generation = 3;
    rig.apply(c.view("b"));
    assert_eq!(read(&mut rig, 1), (StatusCode::SUCCESS, false), "non-optimized: it goes on to whoever has the volume");
}

#[test]
fn controllers_of_all_nodes_have_ids_of_their_own() {
    let mut all = BTreeSet::new();
    for slot in [0, 1, 5, 63] {
        let mut rig = Rig::with(72, Options::of_slot(NodeSlot::new(slot).unwrap()));
        let slice = rig.shared.options().controller_ids;
        for n in 0..2 * CORES {
            let at = rig.open(rig.io, Client::new(false, false, 0));
            let ask = if n == 0 { CNTLID_STATIC } else { CNTLID_DYNAMIC };
            let cqe = rig.connect(at, 0, ask, 0, NQN, HOST);
            let cntlid = cqe.result as u16;
            assert!(cqe.status.is_success() && (slice.first..=slice.last).contains(&cntlid), "{cqe:?} of {slice:?}");
            assert!(all.insert(cntlid), "{cntlid} was given twice");
            let at = rig.open(rig.discovery, Client::new(false, false, 0));
            let cqe = rig.connect(at, 0, CNTLID_DYNAMIC, 0, DISCOVERY_NQN, HOST);
            assert!(!(slice.first..=slice.last).contains(&(cqe.result as u16)), "discovery takes none of them");
        }
    }
    assert_eq!(all.len(), 4 * 2 * CORES);
}

#[test]
fn the_log_of_every_node_has_each_subsystem_at_each_portal_of_each_member() {
    logs_of_all_nodes_agree();
}

fn logs_of_all_nodes_agree() {
    let mut c = cluster();
    c.record_mut("b").portals.push(PortalRecord { security: Security::Encrypted, ..portal("[2001:db8::2]:4421", ListenerKind::Io, 2) });
    let nvm = |log: &[DiscoveryEntry]| {
        let entries = log.iter().filter(|e| e.subtype == 2);
        let seen = entries.map(|e| (e.nqn().unwrap().to_owned(), addr(e), e.portid, e.treq, e.adrfam, e.tsas[0]));
        seen.collect::<BTreeSet<_>>()
    };
    let of = |nqn: &str| -> BTreeSet<(String, String, u16, u8, u8, u8)> {
        let at = |a: &str, portid, treq, adrfam, sectype| (nqn.to_owned(), a.to_owned(), portid, treq, adrfam, sectype);
        let all = [
            at("10.0.0.1:4420", 1, 4, 1, 0),
            at("10.0.0.2:4420", 1025, 4, 1, 0),
            at("2001:db8::2:4421", 1027, 5, 2, 2),
            at("10.0.0.6:4420", 5121, 4, 1, 0),
        ];
        all.into()
    };
    for name in NAMES {
        let log = c.log(name, HOST, None);
        assert_eq!(nvm(&log), of(NQN), "{name}: and no subsystem of others, and no node that was removed");
        assert_eq!(nvm(&c.log(name, STRANGE, None)), of(OTHER_NQN));
        let services: BTreeMap<String, (u8, u16)> =
            log.iter().filter(|e| e.subtype != 2).map(|e| (addr(e), (e.subtype, e.eflags))).collect();
        let wanted = NAMES.map(|n| {
            let at = c.record(n).portals[1].addr.to_string();
            // The current one: persistent connections, and its entries say the same. A referral: persistent connections.
            (at, if n == name { (3, 3) } else { (1, 2) })
        });
        assert_eq!(services, wanted.into(), "the log of {name}");
        assert!(log.iter().all(|e| (e.trtype, e.cntlid, e.asqsz) == (3, 0xFFFF, 32)));
        assert!(log.iter().filter(|e| e.subtype != 2).all(|e| e.nqn() == Some(DISCOVERY_NQN)));
        let ids: BTreeMap<u16, BTreeSet<String>> = log.iter().fold(BTreeMap::new(), |mut ids, e| {
            ids.entry(e.portid).or_insert_with(BTreeSet::new).insert(addr(e));
            ids
        });
        assert!(ids.values().all(|addresses| addresses.len() == 1), "a port ID is one port: {ids:?}");
    }
}

#[test]
fn a_node_alone_has_the_log_that_it_had_before_there_were_others() {
    let mut c = cluster();
    c.records.nodes.truncate(1);
    let log: Vec<_> = c.log("a", HOST, None).iter().map(|e| (e.subtype, addr(e), e.eflags)).collect();
    assert_eq!(log, [(3, "10.0.0.1:8009".into(), 3), (2, "10.0.0.1:4420".into(), 0)]);
}

#[test]
fn a_host_is_referred_to_the_address_in_the_network_by_which_it_came() {
    let mut c = cluster();
    let wide = |at: &str, bits| PortalRecord { network_bits: Some(bits), ..portal(at, ListenerKind::Io, 0) };
    c.record_mut("b").portals = vec![wide("10.1.0.2:4420", 16), wide("10.2.0.2:4420", 16), portal("192.0.2.2:4421", ListenerKind::Io, 1)];
    let to_b = |reached: Option<&str>| {
        let log = c.log("a", HOST, reached.map(|ip| ip.parse().unwrap()));
        let own: BTreeSet<String> = c.record("a").portals.iter().chain(&c.record("c").portals).map(|p| p.addr.to_string()).collect();
        log.iter().filter(|e| e.subtype == 2).map(addr).filter(|a| !own.contains(a)).collect::<Vec<_>>()
    };
    assert_eq!(to_b(Some("10.1.7.7")), ["10.1.0.2:4420", "192.0.2.2:4421"], "what was configured is always there");
    assert_eq!(to_b(Some("10.2.7.7")), ["10.2.0.2:4420", "192.0.2.2:4421"]);
    for far in [None, Some("10.3.0.1"), Some("2001:db8::1")] {
        assert_eq!(to_b(far), ["10.1.0.2:4420", "10.2.0.2:4420", "192.0.2.2:4421"]);
    }
    // A node without a listener for discovery alone serves it where it serves subsystems.
    let referrals = c.log("a", HOST, Some("10.1.7.7".parse().unwrap()));
    let referrals: Vec<_> = referrals.iter().filter(|e| e.subtype == 1).map(addr).collect();
    assert_eq!(referrals, ["10.1.0.2:4420", "192.0.2.2:4421", "10.0.0.6:8009"]);
}

#[test]
fn a_configured_referral_to_a_node_of_the_cluster_is_not_said_twice() {
    let c = cluster();
    let referral = |at: &str| Referral { addr: at.parse().unwrap(), nqn: None };
    let options = Options { referrals: vec![referral("10.0.0.2:8009"), referral("192.0.2.9:8009")], ..Options::default() };
    let to = ControllerShared::new(1, 1, DISCOVERY_NQN, HOST, [7; 16], true);
    let log = entries(&to, &c.view("a"), &TargetShared::new(options));
    let all: Vec<_> = log.bytes.chunks(1024).map(|b| DiscoveryEntry::parse(b).unwrap()).filter(|e| e.subtype == 1).collect();
    let seen: Vec<_> = all.iter().map(|e| (addr(e), e.eflags)).collect();
    assert_eq!(seen, [("192.0.2.9:8009".into(), 0), ("10.0.0.2:8009".into(), 2), ("10.0.0.6:8009".into(), 2)]);
}

#[test]
fn who_stays_connected_to_discovery_hears_of_nodes_that_join_leave_or_move_and_of_nothing_else() {
    let mut rig = Rig::new(73);
    let mut c = cluster();
    let ip = rig.io.ip();
    c.record_mut("a").portals = vec![PortalRecord { addr: SocketAddr::new(ip, 4420), ..portal("10.0.0.1:4420", ListenerKind::Io, 0) }];
    rig.apply(c.view("a"));
    let at = rig.open(rig.discovery, Client::new(false, false, 0));
    assert!(rig.connect(at, 0, CNTLID_DYNAMIC, 60_000, DISCOVERY_NQN, HOST).status.is_success());
    let cc = Config { en: true, ..Config::default() }.bits();
    assert!(rig.execute(at, PropertyAccess::set_sqe(0, property::CC, false, cc.into()), &[]).0.status.is_success());
    let set = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_DISCOVERY, nsid: 0 };
    assert!(rig.execute(at, set.sqe(0), &[]).0.status.is_success());
    let (first, log) = log_in_world(&mut rig, at);
    assert_eq!(log.iter().map(|e| e.subtype).collect::<Vec<_>>(), [3, 1, 1, 2, 2, 2]);
    let mut counter = first.genctr;
    let request = |rig: &mut Rig| rig.send(at, |client| client.capsule(plain_sqe(AdminOpcode::AsyncEventRequest, 0x7777), &[]));
    request(&mut rig);
    let mut apply = |rig: &mut Rig, c: &mut Cluster, informed: bool, nodes: usize| {
        c.generation += 1;
        rig.apply(c.view("a"));
        let event = rig.try_next(at, TICK * 3);
        assert_eq!(event.is_some(), informed, "{event:?}");
        let (head, log): (DiscoveryHeader, _) = log_in_world(rig, at);
        counter += u64::from(informed);
        assert_eq!((head.genctr, log.iter().filter(|e| e.subtype == 2).count()), (counter, nodes));
        if informed {
            request(rig);
        }
    };
    apply(&mut rig, &mut c, false, 3);
    c.record_mut("c").incarnation += 1;
    c.forwards.get_mut("a").unwrap().clear();
    apply(&mut rig, &mut c, false, 3);
    c.record_mut("b").portals[0].addr = "10.0.0.2:4430".parse().unwrap();
    apply(&mut rig, &mut c, true, 3);
    c.record_mut("c").state = NodeState::Removed { unix_s: 8 };
    apply(&mut rig, &mut c, true, 2);
    c.records.nodes.push(node("e", 9));
    apply(&mut rig, &mut c, true, 3);
    c.subsystems[1].hosts.insert("nqn.2026-11.io.basalt:nobody".into());
    apply(&mut rig, &mut c, false, 3);
}

/// Nodes that join, leave, move and come back, as many as there can be: all logs say the same of subsystems, whatever happens.
#[test]
fn whatever_becomes_of_nodes_all_logs_agree() {
    for seed in 0..6 {
        let mut draw = Draw::new(seed);
        let mut c = cluster();
        c.forwards.insert("d".into(), BTreeSet::new());
        for step in 0..60 {
            let slot = draw.below(64) as u8;
            match c.records.nodes.iter_mut().find(|n| n.slot == NodeSlot::new(slot)) {
                None => {
                    let name = format!("n{slot}");
                    c.forwards.insert(name.clone(), BTreeSet::new());
                    c.records.nodes.push(node(&name, slot));
                }
                Some(n) if n.is_member() && !NAMES.contains(&n.name.as_str()) => n.state = NodeState::Removed { unix_s: step },
                Some(n) => {
                    n.state = NodeState::Member;
                    n.portals[0].addr.set_port(4420 + draw.below(9) as u16);
                }
            }
            c.generation += 1;
            let members: Vec<String> = c.records.nodes.iter().filter(|n| n.is_member()).map(|n| n.name.clone()).collect();
            let seen = |name: &str| -> BTreeSet<(String, u16)> {
                c.log(name, HOST, None).iter().filter(|e| e.subtype == 2).map(|e| (addr(e), e.portid)).collect()
            };
            let first = seen("a");
            assert_eq!(first.len(), members.len(), "seed {seed}, step {step}");
            let others = [draw.below(members.len()), draw.below(members.len())];
            assert!(others.iter().all(|n| seen(&members[*n]) == first), "seed {seed}, step {step}");
        }
    }
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::NamespaceIdsByState, identifiers_whatever_the_state);
    notices(SeededFault::AnaChangeUnreported, changes_are_events);
    notices(SeededFault::PathGroupByNode, same_through_every_node);
    notices(SeededFault::RemovedNodeAdvertised, logs_of_all_nodes_agree);
}
