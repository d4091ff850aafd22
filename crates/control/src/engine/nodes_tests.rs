//! Nodes of one directory: the slot that each gets, what its record says after each start, and what each of them serves of the others' volumes.

use super::between::Between;
use super::*;
use crate::fake::FakePlane;
use crate::portals::OwnAddress;
use base::{ListenerKind, NODES_MAX, NodeSlot, Security};
use directory::modelled::{Faults, Modelled};
use nvmf::AnaState;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a request")
}

fn directory() -> Modelled {
    Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE)
}

/// A node that has not started yet.
fn node(directory: impl Directory + 'static, name: &str, version: &str) -> Node {
    let identity = Identity { node: name.into(), fault_domain: "rack1".into(), version: version.into(), cores: 1 };
    let plane = Arc::new(FakePlane::default());
    (Arc::new(Control::new(Arc::new(directory), plane.clone(), identity, drive::Scanner::default())), plane)
}

fn record(directory: &Modelled, name: &str) -> Versioned<NodeRecord> {
    directory.find(name).unwrap().unwrap()
}

fn slot(number: u8) -> NodeSlot {
    NodeSlot::new(number).unwrap()
}

#[test]
fn a_node_gets_an_identity_and_a_slot_once_and_counts_its_starts() {
    let d = directory();
    assert_eq!(slot_of(&d, "h1").unwrap(), slot(0), "before it is there");
    node(d.clone(), "h1", "1.0.0").0.start().unwrap();
    let first = record(&d, "h1");
    assert_eq!((first.slot, first.incarnation, first.release.as_str(), first.fault_domain.as_str()), (Some(slot(0)), 1, "1.0.0", "rack1"));
    node(d.clone(), "h2", "1.0.0").0.start().unwrap();
    node(d.clone(), "h1", "1.0.1").0.start().unwrap();
    let again = record(&d, "h1");
    assert_eq!((again.id, again.slot, again.incarnation, again.release.as_str()), (first.id, first.slot, 2, "1.0.1"));
    let other = record(&d, "h2");
    assert!(first.id.is_some() && other.id.is_some() && first.id != other.id);
    assert_eq!((other.slot, slot_of(&d, "h2").unwrap(), slot_of(&d, "h3").unwrap()), (Some(slot(1)), slot(1), slot(2)));
}

/// The directory comes back from a backup of two starts ago.
#[test]
fn no_incarnation_comes_twice_when_the_directory_is_restored() {
    let (d, dir) = (directory(), tempfile::tempdir().unwrap());
    std::fs::create_dir(dir.path().join("cluster")).unwrap();
    let starts = || {
        let home = crate::formation::Home::new(dir.path());
        let control = Arc::into_inner(node(d.clone(), "h1", "1").0).expect("nobody else has it").with_lives(home);
        control.start().unwrap();
        record(&d, "h1").incarnation
    };
    assert_eq!(starts(), 1);
    let backup = d.backup();
    assert_eq!([starts(), starts()], [2, 3]);
    for expected in [4, 5] {
        d.restore(&backup);
        assert_eq!(starts(), expected);
    }
    assert_eq!(starts(), 6);
}

#[cfg(feature = "hooks")]
#[test]
fn a_seeded_fault_of_lives_is_noticed() {
    base::hooks::notices(base::hooks::SeededFault::LifeForgotten, no_incarnation_comes_twice_when_the_directory_is_restored);
}

#[test]
fn a_record_from_before_there_were_slots_gets_one_and_keeps_the_rest() {
    let d = directory();
    d.commit(&Transaction::new().create(&NodeRecord::new("h1".into(), "old rack".into(), 77))).unwrap();
    node(d.clone(), "h1", "1.0.0").0.start().unwrap();
    let now = record(&d, "h1");
    assert_eq!((now.slot, now.incarnation, now.fault_domain.as_str(), now.created_unix_s), (Some(slot(0)), 1, "old rack", 77));
}

#[test]
fn two_nodes_that_start_at_once_get_different_slots() {
    let d = directory();
    let other = Mutex::new(Some(node(d.clone(), "h2", "1").0));
    let slow = Between::new(d.clone(), move |_: &Modelled, _: &Transaction| {
        if let Some(other) = other.lock().unwrap().take() {
            other.start().unwrap();
        }
    });
    node(slow, "h1", "1").0.start().unwrap();
    assert_eq!((record(&d, "h1").slot, record(&d, "h2").slot), (Some(slot(1)), Some(slot(0))), "who was faster has the lower");
    assert!(d.all::<SubsystemRecord>().unwrap().len() == 1, "and what everybody needs is made once");
}

#[test]
fn a_node_whose_slot_was_taken_does_not_serve_with_it() {
    let d = directory();
    let (h1, _) = node(d.clone(), "h1", "1");
    let h1 = Arc::into_inner(h1).unwrap().with_slot(slot_of(&d, "h1").unwrap());
    node(d.clone(), "h2", "1").0.start().unwrap();
    let error = h1.start().unwrap_err();
    assert!(matches!(error, StartError::OtherSlot { serves, has } if serves == slot(0) && has == slot(1)), "{error}");
    assert!(d.find::<NodeRecord>("h1").unwrap().is_none(), "nothing was written");
}

#[test]
fn a_node_that_was_removed_does_not_start_and_its_slot_is_the_last_to_be_given_again() {
    let d = directory();
    let start = |name: &str| node(d.clone(), name, "1").0.start();
    (0..NODES_MAX).for_each(|n| start(&format!("h{n}")).unwrap());
    let error = start("one-more").unwrap_err();
    assert!(matches!(error, StartError::NoSlot) && error.to_string().contains("64 nodes"), "{error}");

    let mut gone = record(&d, "h7");
    gone.state = NodeState::Removed { unix_s: 5 };
    d.commit(&Transaction::new().update(&gone)).unwrap();
    let error = start("h7").unwrap_err();
    assert!(matches!(&error, StartError::Removed { node } if node == "h7"), "{error}");
    start("one-more").unwrap();
    assert_eq!((record(&d, "one-more").slot, record(&d, "h7").slot), (Some(slot(7)), None));
    let slots: std::collections::BTreeSet<_> = d.all::<NodeRecord>().unwrap().iter().filter_map(|n| n.slot).collect();
    assert_eq!(slots.len(), 64, "nobody has another's");
}

/// A node and its data plane.
type Node = (Arc<Control>, Arc<FakePlane>);

/// Two nodes; the first has a group and a volume, both have a listener on all addresses.
fn two_nodes() -> (Modelled, [Node; 2]) {
    let d = directory();
    let nodes = [node(d.clone(), "h1", "1.0.0"), node(d.clone(), "h2", "1.1.0")];
    for ((control, _), n) in nodes.iter().zip(1..) {
        control.start().unwrap();
        let spec = |port: u16, kind| ListenerSpec {
            addr: SocketAddr::new("0.0.0.0".parse().unwrap(), port),
            kind,
            advertise: None,
            security: Security::Plain,
        };
        control.listen(spec(4420, ListenerKind::Io)).unwrap();
        control.listen(spec(8009, ListenerKind::Discovery)).unwrap();
        let own = OwnAddress { ip: format!("10.0.0.{n}").parse().unwrap(), bits: 24 };
        control.publish_portals(&[own]).unwrap();
    }
    let (h1, _) = &nodes[0];
    let group = json!({"name": "g1", "cache": {"path": "memory:1GiB"}, "capacity": [{"path": "memory:8GiB"}]});
    h1.create_group(&from(group)).unwrap();
    h1.create_volume(&from(json!({"name": "v1", "bytes": 1u64 << 30}))).unwrap();
    (d, nodes)
}

#[test]
fn each_node_serves_every_volume_and_says_how_well_and_where_the_others_are() {
    let (_, nodes) = two_nodes();
    let seen: Vec<_> = nodes
        .iter()
        .map(|(control, plane)| {
            control.retry();
            control.apply().unwrap();
            check_served(control, plane, "both have what the directory says");
            plane.desired()
        })
        .collect();
    let namespace = |n: usize| seen[n].exports.0.0.subsystems[0].namespaces[&1].clone();
    assert_eq!((namespace(0).ana.group, namespace(0).ana.state), (1, AnaState::Optimized));
    assert_eq!((namespace(1).ana.group, namespace(1).ana.state), (1, AnaState::Inaccessible), "nothing is passed on yet");
    let identity = |n: usize| {
        let s = &seen[n].exports.0.0.subsystems[0];
        (s.nqn.clone(), s.serial.clone(), s.model.clone(), seen[n].exports.0.0.firmware.clone(), seen[n].volumes[0].volume.clone())
    };
    assert_eq!(identity(0), identity(1));
    assert_eq!(seen[0].exports.0.0.firmware, "1.0.0", "the lower release of the two");
    for (n, other) in [(0, 2), (1, 1)] {
        let [heard] = &seen[n].exports.0.0.nodes[..] else { panic!("the other node: {:?}", seen[n].exports.0.0.nodes) };
        let at: Vec<_> = heard.portals.iter().map(|p| (p.addr.to_string(), p.listener, p.network_bits)).collect();
        assert_eq!(at, [(format!("10.0.0.{other}:4420"), 0, Some(24)), (format!("10.0.0.{other}:8009"), 1, Some(24))]);
        assert_eq!(heard.slot.number() + 1, other);
    }
    let status = serde_json::to_string(&nodes[1].0.status().unwrap()).unwrap();
    assert!(!status.contains("volume_offline"), "a volume of another node is no fault of this one: {status}");
}

#[test]
fn paths_follow_the_links_while_the_directory_does_not_answer() {
    let (d, nodes) = two_nodes();
    let (control, plane) = &nodes[1];
    control.retry();
    control.apply().unwrap();
    let of = record(&d, "h1").id.unwrap();
    let state_with = |open| {
        control.link_changed(frontend::LinkChange { node: of, lane: 0, lanes: 1, open });
        plane.desired().exports.0.0.subsystems[0].namespaces[&1].ana.state
    };
    [1, 2].into_iter().for_each(|member| d.set_up(member, false));
    for _ in 0..2 {
        assert_eq!(state_with(true), AnaState::NonOptimized);
        assert_eq!(state_with(false), AnaState::Inaccessible);
    }
    assert!(control.apply().is_err(), "nothing else goes by what may be old");
    assert_eq!(state_with(true), AnaState::NonOptimized);
    assert!(control.is_behind(), "which is not forgotten over it");
    [1, 2].into_iter().for_each(|member| d.set_up(member, true));
    d.pass(Duration::from_secs(10));
    control.retry();
    check_served(control, plane, "the directory is back");
    assert!(!control.is_behind());
}

#[test]
fn the_path_to_what_an_owner_does_not_serve_is_inaccessible_while_the_directory_does_not_answer() {
    let (d, nodes) = two_nodes();
    let (control, plane) = &nodes[0];
    let object = d.all::<ObjectRecord>().unwrap().remove(0).value.id;
    [1, 2].into_iter().for_each(|member| d.set_up(member, false));
    let ana_with = |away| {
        control.away_changed(object, away);
        plane.desired().exports.0.0.subsystems[0].namespaces[&1].ana
    };
    assert_eq!(ana_with(true), nvmf::Ana { group: 65, state: AnaState::Inaccessible });
    assert!(plane.desired().volumes[0].object.mirrors[0].here().next().is_some(), "it may take it over again");
    assert!(control.live().offline.values().all(|why| why.contains("could not go on as its owner")));
    assert_eq!(control.live().offline.len(), 1);
    assert_eq!(ana_with(false), nvmf::Ana { group: 1, state: AnaState::Optimized });
}

#[test]
fn portals_are_written_when_they_change_and_a_node_alone_has_no_others() {
    let (d, nodes) = two_nodes();
    let before = record(&d, "h2");
    let own = |n: u8| [OwnAddress { ip: format!("10.0.0.{n}").parse().unwrap(), bits: 24 }];
    nodes[1].0.publish_portals(&own(2)).unwrap();
    assert_eq!(record(&d, "h2"), before, "nothing has changed, and nothing was written");
    nodes[1].0.publish_portals(&own(9)).unwrap();
    assert_eq!(record(&d, "h2").portals[0].addr.to_string(), "10.0.0.9:4420");

    let alone = node(directory(), "h1", "1");
    alone.0.start().unwrap();
    assert_eq!((alone.1.desired().exports.0.0.nodes, alone.1.desired().exports.0.0.firmware), (vec![], "1".to_owned()));
}
