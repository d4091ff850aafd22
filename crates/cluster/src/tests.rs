use super::*;
use base::{
    GroupId,
    unit::{COMPONENT_BYTES_MAX, PIECE_BYTES, VOLUME_BYTES_MAX},
};
use proptest::prelude::*;
use std::collections::BTreeSet;

const GIB: u64 = 1 << 30;

fn group(n: u8, free: &[u64]) -> GroupInventory {
    let devices = free
        .iter()
        .enumerate()
        .map(|(i, &f)| DeviceInventory { index: i as u8, bytes: 1 << 44, free_bytes: f, promised_bytes: 0 })
        .collect();
    GroupInventory { id: GroupId::from_bytes([n; 16]), read_cache: false, devices }
}

fn node(name: &str, groups: Vec<GroupInventory>) -> NodeInventory {
    NodeInventory { name: name.into(), fault_domain: name.into(), groups }
}

fn one_node(free: &[u64]) -> Inventory {
    Inventory { nodes: vec![node("a", vec![group(1, free)])], ..Inventory::default() }
}

#[test]
fn a_thin_volume_goes_to_the_device_with_most_free() {
    let placed = place(&one_node(&[10 * GIB, 30 * GIB, 20 * GIB]), &Policy::default(), 10 * GIB, 10 * GIB).unwrap();
    assert_eq!(placed.layout.mirrors.len(), 1);
    assert_eq!(placed.layout.mirrors[0].copies[0].capacity_index, 1);
    assert_eq!(placed.layout.mirrors[0].copies[0].reserve_chunks, 0);
    assert!(placed.shortfalls.is_empty());
}

/// Makes thin volumes of `bytes`, one after the other, of which nothing is written, and gives the nodes they go to.
fn placed_thin(inventory: &mut Inventory, bytes: u64, count: usize) -> Vec<String> {
    let make = |_| {
        let placed = place(inventory, &Policy::default(), bytes, bytes).unwrap();
        let slot = placed.layout.mirrors[0].copies[0].clone();
        let node = inventory.nodes.iter_mut().find(|n| n.name == slot.node).unwrap();
        let group = node.groups.iter_mut().find(|g| g.id == slot.group).unwrap();
        group.devices.iter_mut().find(|d| d.index == slot.capacity_index).unwrap().promised_bytes += slot.bytes;
        format!("{}{}", slot.node, slot.capacity_index)
    };
    (0..count).map(make).collect()
}

fn sized(n: u8, sizes: &[u64]) -> GroupInventory {
    let mut group = group(n, sizes);
    group.devices.iter_mut().for_each(|d| d.bytes = d.free_bytes);
    group
}

#[test]
fn thin_volumes_that_nobody_has_written_are_spread_over_nodes_and_devices_by_their_size() {
    let nodes = [("a", 1), ("b", 2), ("c", 3)].map(|(name, n)| node(name, vec![sized(n, &[100 * GIB, 100 * GIB])]));
    let mut inventory = Inventory { nodes: nodes.into(), ..Inventory::default() };
    let mut placed = placed_thin(&mut inventory, GIB, 60);
    placed.sort();
    for device in ["a0", "a1", "b0", "b1", "c0", "c1"] {
        assert_eq!(placed.iter().filter(|p| *p == device).count(), 10, "{placed:?}");
    }
    // A node of twice the size gets so much more that equal room is left.
    let mut inventory =
        Inventory { nodes: vec![node("a", vec![sized(1, &[30 * GIB])]), node("b", vec![sized(2, &[60 * GIB])])], ..Inventory::default() };
    let placed = placed_thin(&mut inventory, GIB, 50);
    assert_eq!(placed.iter().filter(|p| *p == "a0").count(), 10);
    // More than there is can be promised, and goes on being spread.
    let placed = placed_thin(&mut inventory, 100 * GIB, 6);
    assert_eq!(placed.iter().filter(|p| *p == "a0").count(), 3, "{placed:?}");
}

#[test]
fn a_reservation_goes_where_it_fits_though_more_is_promised_there() {
    let (mut much, little) = (sized(1, &[100 * GIB]), sized(2, &[50 * GIB]));
    much.devices[0].promised_bytes = 90 * GIB;
    let inventory = Inventory { nodes: vec![node("a", vec![much]), node("b", vec![little])], ..Inventory::default() };
    let policy = Policy { space_reservation_percent: 100, ..Policy::default() };
    let at = |bytes| place(&inventory, &policy, bytes, bytes).map(|p| p.layout.mirrors[0].copies[0].node.clone());
    assert_eq!(at(40 * GIB), Ok("b".into()), "most room if all that is promised were written");
    assert_eq!(at(80 * GIB), Ok("a".into()), "only there it is free");
    assert!(matches!(at(101 * GIB), Err(PlaceError::NoSpace { free_bytes, .. }) if free_bytes == 100 * GIB));
}

#[test]
fn mirrors_go_to_different_devices() {
    let policy = Policy { stripe_width: 3, ..Policy::default() };
    let placed = place(&one_node(&[GIB, GIB, GIB, GIB]), &policy, 3 * GIB, 3 * GIB).unwrap();
    let devices: BTreeSet<u8> = placed.layout.mirrors.iter().map(|s| s.copies[0].capacity_index).collect();
    assert_eq!(devices.len(), 3);
    assert!(placed.layout.mirrors.iter().all(|s| s.copies[0].bytes == GIB));
}

#[test]
fn room_to_grow_gives_more_mirrors() {
    let placed = place(&one_node(&[GIB]), &Policy::default(), 10 * GIB, 600 * GIB).unwrap();
    assert_eq!(placed.layout.mirrors.len(), 3);
    assert_eq!(compliance(&Policy::default(), &placed.layout, &one_node(&[GIB])), []);
}

#[test]
fn what_needs_several_nodes_is_refused_on_one_with_the_reason() {
    let policy = Policy { failures_to_tolerate: 1, ..Policy::default() };
    let refusal = place(&one_node(&[GIB]), &policy, GIB, GIB).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "failures to tolerate = 1 needs 2 nodes (fault domains) with disk groups, to hold one copy each; this cluster has 1"
    );
}

#[test]
fn force_provisioning_gives_what_is_possible_and_says_what_is_missing() {
    let policy =
        Policy { failures_to_tolerate: 1, stripe_width: 4, space_reservation_percent: 100, force_provisioning: true, ..Policy::default() };
    let inventory = one_node(&[GIB, GIB]);
    let placed = place(&inventory, &policy, 8 * GIB, 8 * GIB).unwrap();
    assert_eq!(placed.layout.mirrors.len(), 2);
    assert_eq!(placed.shortfalls.len(), 3, "{:?}", placed.shortfalls);
    assert_eq!(compliance(&policy, &placed.layout, &inventory).len(), 3);
}

#[test]
fn a_reservation_that_does_not_fit_is_refused() {
    let policy = Policy { space_reservation_percent: 50, ..Policy::default() };
    assert!(place(&one_node(&[5 * GIB]), &policy, 10 * GIB, 10 * GIB).is_ok());
    let refusal = place(&one_node(&[5 * GIB - 1]), &policy, 10 * GIB, 10 * GIB).unwrap_err();
    assert!(matches!(refusal, PlaceError::NoSpace { needed_bytes, .. } if needed_bytes == 5 * GIB));
}

#[test]
fn a_reservation_that_fits_on_no_single_device_is_spread() {
    let policy = Policy { space_reservation_percent: 100, ..Policy::default() };
    let placed = place(&one_node(&[4 * GIB, 4 * GIB]), &policy, 6 * GIB, 6 * GIB).unwrap();
    assert_eq!(placed.layout.mirrors.len(), 2);
    assert!(place(&one_node(&[4 * GIB, GIB]), &policy, 6 * GIB, 6 * GIB).is_err());
}

#[test]
fn copies_lie_in_different_fault_domains() {
    let inventory = Inventory { nodes: vec![node("a", vec![group(1, &[GIB])]), node("b", vec![group(2, &[GIB])])], ..Inventory::default() };
    let policy = Policy { failures_to_tolerate: 1, ..Policy::default() };
    let placed = place(&inventory, &policy, GIB, GIB).unwrap();
    let nodes: BTreeSet<&str> = placed.layout.mirrors[0].copies.iter().map(|c| c.node.as_str()).collect();
    assert_eq!(nodes.len(), 2);
}

#[test]
fn a_cluster_without_groups_says_what_to_do_first() {
    let refusal = place(&Inventory::default(), &Policy::default(), GIB, GIB).unwrap_err();
    assert!(refusal.to_string().contains("basalt group create"));
}

#[test]
fn policies_out_of_range_are_refused() {
    let good = Policy::default();
    assert_eq!(good.check(), Ok(()));
    for bad in [
        Policy { failures_to_tolerate: 4, ..good.clone() },
        Policy { stripe_width: 0, ..good.clone() },
        Policy { stripe_width: 13, ..good.clone() },
        Policy { space_reservation_percent: 101, ..good.clone() },
        Policy { read_cache_reservation_percent: 101, ..good.clone() },
        Policy { iops_limit: Some(0), ..good.clone() },
        Policy { bandwidth_limit: Some(4096), ..good.clone() },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn names_are_plain() {
    for good in ["a", "db-01", "Vm_7.disk0", &"x".repeat(63)] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    for bad in ["", "-a", ".hidden", "a b", "a/b", "ü", &"x".repeat(64), "6e3a8f0e-6d2c-4b8f-9d4e-1a2b3c4d5e6f"] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn nqns_follow_the_specification() {
    for good in [
        "nqn.2026-11.io.basalt:db",
        "nqn.2014-08.org.nvmexpress:uuid:6e3a8f0e-6d2c-4b8f-9d4e-1a2b3c4d5e6f",
        "nqn.2016-06.io.spdk:cnode1",
        &default_nqn("default"),
    ] {
        assert_eq!(check_nqn(good), Ok(()), "{good}");
    }
    let long = format!("nqn.2026-11.io.basalt:{}", "x".repeat(202));
    for bad in [
        "",
        "nqn",
        "nqn.2026-13.io.basalt:x",
        "nqn.26-11.io.basalt:x",
        "nqn.2026-11.io.basalt",
        "nqn.2026-11.io.basalt:",
        "nqn.2026-11.:x",
        "nqn.2026-11.io..basalt:x",
        "nqn.2026-11.io.basalt:a b",
        "nqn.2026-11.io.basalt:a/b",
        "iqn.2026-11.io.basalt:x",
        "nqn.2014-08.org.nvmexpress.discovery",
        &long,
    ] {
        assert!(check_nqn(bad).is_err(), "{bad}");
    }
}

#[test]
fn iscsi_names_follow_the_standard_and_are_hosts_names_like_nqns() {
    let long = format!("iqn.2026-11.io.basalt:{}", "x".repeat(202));
    for good in [
        "iqn.1993-08.org.debian:01:4a5b6c7d8e9f",
        "iqn.1998-01.com.vmware:esx1-0a1b2c3d",
        "iqn.1991-05.com.microsoft:server_1.example.com",
        "iqn.2001-04.com.example",
        "eui.02004567a425678d",
        "naa.52004567ba64678d",
        "naa.62004567ba64678d0123456789abcdef",
        &default_iqn("Default"),
    ] {
        assert_eq!((check_iscsi_name(good), check_host(good), is_iscsi_name(good)), (Ok(()), Ok(()), true), "{good}");
    }
    for bad in [
        "",
        "iqn",
        "iqn.",
        "iqn.2026-13.io.basalt:x",
        "iqn.2026-11.io.basalt:",
        "iqn.2026-11.io.basalt:A",
        "IQN.2026-11.io.basalt:a",
        "iqn.2026-11.io.basalt:a b",
        "iqn.2026-11.io.basalt:a,b",
        "eui.02004567a425678",
        "naa.02004567a425678dff",
        "nqn.2026-11.io.basalt:x",
        &long,
    ] {
        assert!(check_iscsi_name(bad).is_err(), "{bad}");
    }
    assert_eq!(check_host("nqn.2026-11.io.basalt:x"), Ok(()));
    assert!(check_host("host").is_err() && check_host("iqn.x").is_err());
}

fn inventories() -> impl Strategy<Value = Inventory> {
    let device = 0..2000u64;
    let group = prop::collection::vec(device, 1..8);
    let node = prop::collection::vec(group, 1..4);
    prop::collection::vec(node, 1..6).prop_map(|nodes| {
        let mut n = 0;
        let nodes = nodes
            .into_iter()
            .enumerate()
            .map(|(h, groups)| {
                let groups = groups
                    .into_iter()
                    .map(|free| {
                        n += 1;
                        super::tests::group(n, &free.iter().map(|f| f * GIB).collect::<Vec<_>>())
                    })
                    .collect();
                super::tests::node(&format!("node{h}"), groups)
            })
            .collect();
        Inventory { nodes, ..Inventory::default() }
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    (0..4u8, 1..13u8, 0..101u8, any::<bool>()).prop_map(|(failures_to_tolerate, stripe_width, space_reservation_percent, force)| Policy {
        failures_to_tolerate,
        stripe_width,
        space_reservation_percent,
        force_provisioning: force,
        ..Policy::default()
    })
}

proptest! {
    #[test]
    fn a_placement_keeps_its_invariants(
        inventory in inventories(), policy in policies(), bytes in 1..VOLUME_BYTES_MAX, grow in 1..8u64
    ) {
        let Ok(placed) = place(&inventory, &policy, bytes, bytes.saturating_mul(grow)) else {
            prop_assert!(!policy.force_provisioning, "force provisioning always finds a way where there is a device");
            return Ok(());
        };
        let mirrors = &placed.layout.mirrors;
        prop_assert!(mirrors.len() <= MIRRORS_MAX);
        prop_assert!(mirrors[0].copies[0].bytes * mirrors.len() as u64 >= bytes, "room for all pieces");
        for mirror in mirrors {
            let nodes: BTreeSet<&str> = mirror.copies.iter().map(|c| c.node.as_str()).collect();
            prop_assert_eq!(nodes.len(), mirror.copies.len());
            for slot in &mirror.copies {
                prop_assert!(slot.bytes <= COMPONENT_BYTES_MAX && slot.bytes % PIECE_BYTES == 0);
            }
        }
        for node in &inventory.nodes {
            for g in &node.groups {
                for d in &g.devices {
                    let on_it = mirrors.iter().flat_map(|s| &s.copies).filter(|c| c.group == g.id && c.capacity_index == d.index);
                    let reserved: u64 = on_it.map(|c| c.reserve_chunks * base::unit::CHUNK_BYTES).sum();
                    prop_assert!(reserved <= d.free_bytes, "a reservation is never promised twice");
                }
            }
        }
        // compliant exactly when nothing was missing
        prop_assert_eq!(compliance(&policy, &placed.layout, &inventory).is_empty(), placed.shortfalls.is_empty());
    }

    #[test]
    fn the_order_of_the_inventory_does_not_matter(mut inventory in inventories(), policy in policies(), bytes in 1..(1u64 << 42)) {
        let first = place(&inventory, &policy, bytes, bytes);
        inventory.nodes.reverse();
        inventory.nodes.iter_mut().for_each(|h| { h.groups.reverse(); h.groups.iter_mut().for_each(|g| g.devices.reverse()); });
        prop_assert_eq!(first, place(&inventory, &policy, bytes, bytes));
    }
}

#[test]
fn mirrors_use_every_device_before_one_is_used_again_and_then_the_one_with_most_left() {
    let order = |free: &[u64], mirrors: u64| -> Vec<u8> {
        let bytes = mirrors * COMPONENT_BYTES_MAX;
        let placed = place(&one_node(free), &Policy::default(), bytes, bytes).unwrap();
        placed.layout.mirrors.iter().map(|s| s.copies[0].capacity_index).collect()
    };
    assert_eq!(order(&[10 * GIB, 4000 * GIB, 20 * GIB], 3), [1, 2, 0], "also where one has much more than the others");
    assert_eq!(order(&[1000 * GIB, 900 * GIB], 4), [0, 1, 0, 1]);
    // What was placed counts, though nothing is reserved: the third goes to where most would be left.
    assert_eq!(order(&[300 * GIB, 290 * GIB, 280 * GIB], 6), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_domain_that_is_wide_enough_comes_before_one_with_more_space() {
    let nodes =
        vec![node("a", vec![group(1, &[9000 * GIB])]), node("b", vec![group(2, &[GIB, GIB])]), node("c", vec![group(3, &[2 * GIB])])];
    let inventory = Inventory { nodes, ..Inventory::default() };
    let on = |width| {
        let placed = place(&inventory, &Policy { stripe_width: width, ..Policy::default() }, GIB, GIB).unwrap();
        placed.layout.mirrors.iter().map(|s| s.copies[0].node.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!((on(1), on(2)), (["a".to_owned()].into(), ["b".to_owned()].into()));
}

#[test]
fn every_value_at_the_edge_of_its_range_is_allowed_and_the_next_is_not() {
    type Set = fn(&mut Policy, u64);
    let ranges: [(Set, u64, u64); 6] = [
        (|p, n| p.failures_to_tolerate = n as u8, 0, 3),
        (|p, n| p.stripe_width = n as u8, 1, 12),
        (|p, n| p.space_reservation_percent = n as u8, 0, 100),
        (|p, n| p.read_cache_reservation_percent = n as u8, 0, 100),
        (|p, n| p.iops_limit = Some(n), 10, u64::MAX),
        (|p, n| p.bandwidth_limit = Some(n), 1 << 20, u64::MAX),
    ];
    for (at, (set, least, most)) in ranges.into_iter().enumerate() {
        let allowed = |n: u64| {
            let mut policy = Policy::default();
            set(&mut policy, n);
            policy.check().is_ok()
        };
        assert!(allowed(least) && allowed(most), "{at}");
        assert!(least == 0 || !allowed(least - 1), "{at}");
        assert!(most == u64::MAX || !allowed(most + 1), "{at}");
    }
}

#[test]
fn a_read_cache_is_there_when_every_group_has_one() {
    let policy = Policy { read_cache_reservation_percent: 5, force_provisioning: true, ..Policy::default() };
    for (first, second) in [(false, false), (true, false), (false, true), (true, true)] {
        let with = |n, read_cache| GroupInventory { read_cache, ..group(n, &[GIB]) };
        let inventory =
            Inventory { nodes: vec![node("a", vec![with(1, first)]), node("b", vec![with(2, second)])], ..Inventory::default() };
        let missing = if first && second { vec![] } else { vec![Shortfall::ReadCache { percent: 5 }] };
        let placed = place(&inventory, &policy, GIB, GIB).unwrap();
        assert_eq!(placed.shortfalls, missing, "{first} {second}");
        assert_eq!(compliance(&policy, &placed.layout, &inventory), missing, "{first} {second}");
        assert_eq!(compliance(&Policy::default(), &placed.layout, &inventory), []);
    }
}

/// Of the time when mirrors were called stripes.
#[test]
fn an_older_object_record_is_understood() {
    let id = |n: u8| base::ObjectId::from_bytes([n; 16]);
    let old = format!(
        r#"{{"id":"{}","volume":"{}","epoch":3,"stripes":[[{{"id":"{}","host":"h1","group":"{}","capacity_index":1,"no":7,"bytes":1048576,
        "reserve_chunks":0,"state":"stale"}}],[]]}}"#,
        id(1),
        id(2),
        id(3),
        id(4)
    );
    let record: record::ObjectRecord = serde_json::from_str(&old).unwrap();
    let copy = record.components().next().unwrap();
    assert_eq!((record.mirrors.len(), copy.no, copy.state), (2, Some(7), base::CopyState::Stale));
    let written = serde_json::to_value(&record).unwrap();
    assert!(written["mirrors"].is_array() && written.get("stripes").is_none());
    assert_eq!(serde_json::from_value::<record::ObjectRecord>(written).unwrap(), record);
}
