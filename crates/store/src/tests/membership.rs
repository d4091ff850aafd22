//! Capacity devices that come to a group in use and leave it, and power that goes at any instant of that.

use super::harness::{Lab, Running, Setup, component_spec, quick};
use crate::superblock::{Probe, probe};
use crate::{ComponentNo, Group, GroupDevices, GroupError, Shard, open_group, open_group_with};
use base::Duration;
use format::disk::superblock::{NO_DEVICE, VERSION_MAJOR, VERSION_PLAIN};
use rt::sim::SimDeviceOptions;
use rt::{Device, DeviceError, Rt};
use std::cell::RefCell;
use std::rc::Rc;

const MIB: u64 = 1 << 20;

async fn add(rt: &Rt, (group, running): (&Group, &Running), index: u8, device: &Device, force: bool) -> Result<(), GroupError> {
    let adding = group.add_capacity(rt, index, device, force).await?;
    running.shard.borrow_mut().as_mut().expect("open").add_capacity(adding.capacity());
    adding.done();
    Ok(())
}

async fn remove(rt: &Rt, (group, running): (&Group, &Running), index: u8) -> Result<(), GroupError> {
    let removing = group.remove_capacity(rt, index).await?;
    for waited in 0.. {
        if running.shard.borrow().as_ref().expect("open").is_vacant(index) {
            break;
        }
        assert!(waited < 10_000, "nobody leaves the device");
        rt.sleep(Duration::from_millis(1)).await;
    }
    running.shard.borrow_mut().as_mut().expect("open").remove_capacity(index);
    removing.done(rt).await;
    Ok(())
}

async fn create(rt: &Rt, (group, running): (&Group, &Running), id: u8, device: u8) -> Result<ComponentNo, GroupError> {
    let no = group.create_component(rt, component_spec(id, device, 0)).await?;
    running.shard.borrow_mut().as_mut().expect("open").add_component(no, &group.component(no).expect("just made"));
    Ok(no)
}

async fn delete(rt: &Rt, (group, running): (&Group, &Running), no: ComponentNo) -> Result<(), GroupError> {
    group.delete_component(rt, no).await?;
    running.shard.borrow_mut().as_mut().expect("open").drop_component(rt, no);
    Ok(())
}

/// Opens the group of `devices` and, if they are of it, `maybe`.
async fn open(rt: &Rt, running: &Running, devices: &[Device], maybe: &[Device]) -> Result<Group, GroupError> {
    let given = GroupDevices { devices: devices.to_vec(), maybe: maybe.to_vec(), ..GroupDevices::default() };
    open_as(rt, running, &given).await
}

async fn open_as(rt: &Rt, running: &Running, given: &GroupDevices) -> Result<Group, GroupError> {
    let group = open_group_with(rt, None, given).await?;
    *running.shard.borrow_mut() = Some(Shard::open(rt, &group, 0, quick()).await?);
    Ok(group)
}

/// A group of so many capacity devices with a component on the first, and one more device.
fn lab(seed: u64, devices: usize) -> (Lab, Device) {
    let mut lab = Lab::new(seed, &Setup { capacity_mib: vec![16; devices], ..Setup::default() });
    let new = lab.world.device(24 * MIB, SimDeviceOptions::default());
    (lab, new)
}

#[test]
fn a_device_comes_to_a_group_in_use_and_takes_components() {
    let (mut lab, new) = lab(1, 1);
    let (running, devices, old) = (lab.running(), lab.devices.clone(), lab.components[0]);
    let d = new.clone();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        assert!(matches!(create(&rt, of, 2, 1).await, Err(GroupError::NoDevice { index: 1, count: 1 })));
        let before = group.info().capacity_bytes();
        for block in 0..200 {
            running.write(&rt, old, block, &[block + 1]).await.unwrap();
        }
        add(&rt, of, 1, &d, false).await.unwrap();
        assert!(group.info().capacity_bytes() > 2 * before && group.devices().len() == 3);
        let no = create(&rt, of, 2, 1).await.unwrap();
        for block in 0..200 {
            running.write(&rt, no, block, &[block + 7]).await.unwrap();
            running.write(&rt, old, block, &[block + 2]).await.unwrap();
        }
        running.drained(&rt).await;
        running.check();
        assert!(running.stats().space[1].free < running.stats().space[1].total);
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let missing = open_group(&rt, None, &devices).await.map(drop).unwrap_err();
        assert!(matches!(missing, GroupError::Incomplete { .. }), "the new device is one of the group: {missing}");
        let all = [&devices[..], std::slice::from_ref(&d)].concat();
        let group = open(&rt, &running, &all, &[]).await.unwrap();
        assert_eq!((group.info().membership, group.components().len()), (1, 2));
        for block in 0..200 {
            assert_eq!(running.read(&rt, old, block, 1).await, Ok(vec![block + 2]));
            assert_eq!(running.read(&rt, ComponentNo(2), block, 1).await, Ok(vec![block + 7]));
        }
        running.check();
        for device in &all {
            let Ok(Probe::Ours(found)) = probe(&rt, device).await else { panic!("it is one of ours") };
            assert_eq!((found.superblock.major, found.superblock.capacity.len()), (VERSION_MAJOR, 2), "older programs refuse it");
        }
    });
}

#[test]
fn what_cannot_be_added_is_refused_and_nothing_is_changed() {
    let (mut lab, new) = lab(2, 6);
    let (running, devices) = (lab.running(), lab.devices.clone());
    let small = lab.world.device(4 * MIB, SimDeviceOptions::default());
    let eighth = lab.world.device(24 * MIB, SimDeviceOptions::default());
    let full = lab.world.device(24 * MIB, SimDeviceOptions::default());
    let mut table = vec![0; 4096];
    table[512..520].copy_from_slice(b"EFI PART");
    lab.world.disk(&full).poke(0, &table);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        assert!(matches!(add(&rt, of, 6, &small, true).await, Err(GroupError::TooSmall { .. })));
        assert!(matches!(add(&rt, of, 6, &full, false).await, Err(GroupError::NotEmpty { .. })));
        assert!(matches!(add(&rt, of, 6, &devices[3], true).await, Err(GroupError::GivenTwice { .. })));
        assert_eq!(add(&rt, of, 5, &new, true).await, Err(GroupError::NumberTaken { index: 5 }));
        assert_eq!(group.info().membership, 0);
        let Ok(Probe::Ours(found)) = probe(&rt, &devices[0]).await else { panic!("it is one of ours") };
        assert_eq!(found.superblock.major, VERSION_PLAIN);
        add(&rt, of, 6, &full, true).await.unwrap();
        assert_eq!(add(&rt, of, 7, &eighth, true).await, Err(GroupError::DeviceCount { count: 8 }));
        assert!(matches!(probe(&rt, &eighth).await, Ok(Probe::Empty)));
    });
}

#[test]
fn a_device_leaves_a_group_in_use_and_can_be_used_anew() {
    let (mut lab, _) = lab(3, 3);
    let (running, devices, old) = (lab.running(), lab.devices.clone(), lab.components[0]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        let (no, last) = (create(&rt, of, 2, 1).await.unwrap(), create(&rt, of, 3, 2).await.unwrap());
        for block in 0..300 {
            for c in [old, no, last] {
                running.write(&rt, c, block, &[block + u64::from(c.0)]).await.unwrap();
            }
        }
        let in_use = remove(&rt, of, 1).await.unwrap_err();
        assert!(matches!(in_use, GroupError::NotVacated { components: 1, .. }), "{in_use}");
        // Of what is in the log, nothing is waited for.
        delete(&rt, of, no).await.unwrap();
        remove(&rt, of, 1).await.unwrap();
        assert_eq!(group.info().capacity[1], NO_DEVICE);
        assert!(matches!(probe(&rt, &devices[2]).await, Ok(Probe::Empty)), "it can be used for something else");
        assert!(matches!(create(&rt, of, 4, 1).await, Err(GroupError::NoDevice { index: 1, count: 2 })));
        for block in 0..300 {
            running.write(&rt, last, block, &[block + 50]).await.unwrap();
        }
        running.drained(&rt).await;
        running.check();
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let rest = [devices[0].clone(), devices[1].clone(), devices[3].clone()];
        let group = open(&rt, &running, &rest, &[]).await.unwrap();
        let of = (&group, &running);
        for block in 0..300 {
            assert_eq!(running.read(&rt, old, block, 1).await, Ok(vec![block + u64::from(old.0)]));
            assert_eq!(running.read(&rt, ComponentNo(3), block, 1).await, Ok(vec![block + 50]));
        }
        delete(&rt, of, ComponentNo(3)).await.unwrap();
        remove(&rt, of, 2).await.unwrap();
        assert_eq!(group.info().capacity.len(), 1, "no number is behind the first");
        assert!(matches!(remove(&rt, of, 0).await, Err(GroupError::LastDevice { .. })));
        running.check();
        // Its number is free again, and so is the one before.
        add(&rt, of, 1, &devices[3], false).await.unwrap();
        add(&rt, of, 2, &devices[2], false).await.unwrap();
        let no = create(&rt, of, 5, 2).await.unwrap();
        running.write(&rt, no, 0, &[9]).await.unwrap();
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let no = group.components().last().expect("the new one").no;
        assert_eq!(running.read(&rt, no, 0, 1).await, Ok(vec![9]));
        running.check();
    });
}

/// What a device left of its tables when it left must not come back with it.
fn tables_of_an_earlier_time_do_not_count() {
    let (mut lab, _) = lab(4, 2);
    let (running, devices, old) = (lab.running(), lab.devices.clone(), lab.components[0]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        let no = create(&rt, of, 2, 1).await.unwrap();
        // Many versions of its pages.
        for round in 0..6 {
            for block in 0..600 {
                running.write(&rt, no, block, &[block + round]).await.unwrap();
            }
            running.drained(&rt).await;
        }
        delete(&rt, of, no).await.unwrap();
        remove(&rt, of, 1).await.unwrap();
        add(&rt, of, 1, &devices[2], false).await.unwrap();
        let no = create(&rt, of, 3, 1).await.unwrap();
        for block in 0..40 {
            running.write(&rt, no, block, &[block + 77]).await.unwrap();
            running.write(&rt, old, block, &[block + 78]).await.unwrap();
        }
        running.drained(&rt).await;
        running.check();
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let no = group.components().last().expect("the new one").no;
        for block in 0..40 {
            assert_eq!(running.read(&rt, no, block, 1).await, Ok(vec![block + 77]));
        }
        running.check();
    });
}

#[test]
fn a_device_that_comes_back_is_empty() {
    tables_of_an_earlier_time_do_not_count();
}

/// Power goes at this instant of adding a device; whether it was one of the group.
fn dies_while_adding(seed: u64, after: Duration) -> bool {
    let (mut lab, new) = lab(seed, 2);
    let (running, devices, old) = (lab.running(), lab.devices.clone(), lab.components[0]);
    let group = lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        running.write(&rt, old, 5, &[55]).await.unwrap();
        group
    });
    let acknowledged = Rc::new(RefCell::new((false, None)));
    let (ack, d) = (acknowledged.clone(), new.clone());
    lab.world.spawn(lab.host, 0, move |rt| async move {
        let of = (&group, &running);
        add(&rt, of, 2, &d, false).await.unwrap();
        ack.borrow_mut().0 = true;
        let no = create(&rt, of, 2, 2).await.unwrap();
        running.write(&rt, no, 9, &[99]).await.unwrap();
        ack.borrow_mut().1 = Some(no);
    });
    lab.world.run_for(after);
    lab.power_cycle();
    let (added, written) = *acknowledged.borrow();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, std::slice::from_ref(&new)).await.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let of = (&group, &running);
        let is_member = group.info().capacity.len() == 3;
        assert!(is_member || !added, "seed {seed}: the device was added, and is none of the group");
        assert_eq!(running.read(&rt, old, 5, 1).await, Ok(vec![55]), "seed {seed}");
        if let Some(no) = written {
            assert_eq!(running.read(&rt, no, 9, 1).await, Ok(vec![99]), "seed {seed}");
        }
        if !is_member {
            // What is left of it does not hinder.
            add(&rt, of, 2, &new, true).await.unwrap();
        }
        let no = create(&rt, of, 3, 2).await.unwrap();
        running.write(&rt, no, 1, &[11]).await.unwrap();
        running.drained(&rt).await;
        running.check();
        is_member
    })
}

/// Of all instants, in so many steps.
fn power_goes_while_a_device_is_added(seeds: u64) -> (u64, u64) {
    let all = (0..seeds).map(|seed| dies_while_adding(seed, Duration::from_nanos(seed * 5_000_000 / seeds)));
    all.fold((0, 0), |(yes, no), member| (yes + u64::from(member), no + u64::from(!member)))
}

#[test]
fn power_may_go_while_a_device_is_added() {
    let (yes, no) = power_goes_while_a_device_is_added(100);
    assert!(yes > 10 && no > 10, "in time {no}, too late {yes}");
}

/// The same while one leaves; whether it still was one of the group.
fn dies_while_removing(seed: u64, after: Duration) -> bool {
    let (mut lab, _) = lab(seed, 3);
    let (running, devices, old) = (lab.running(), lab.devices.clone(), lab.components[0]);
    let group = lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        for (id, device) in [(2, 2), (3, 1), (4, 1)] {
            let no = create(&rt, of, id, device).await.unwrap();
            running.write(&rt, no, 5, &[u64::from(id)]).await.unwrap();
        }
        running.write(&rt, old, 5, &[55]).await.unwrap();
        group
    });
    let acknowledged = Rc::new(RefCell::new((false, None)));
    let ack = acknowledged.clone();
    lab.world.spawn(lab.host, 0, move |rt| async move {
        let of = (&group, &running);
        delete(&rt, of, ComponentNo(3)).await.unwrap();
        delete(&rt, of, ComponentNo(4)).await.unwrap();
        remove(&rt, of, 1).await.unwrap();
        ack.borrow_mut().0 = true;
        let no = create(&rt, of, 5, 0).await.unwrap();
        running.write(&rt, no, 9, &[99]).await.unwrap();
        ack.borrow_mut().1 = Some(no);
    });
    lab.world.run_for(after);
    lab.power_cycle();
    let (removed, written) = *acknowledged.borrow();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let stay = [devices[0].clone(), devices[1].clone(), devices[3].clone()];
        let group = open(&rt, &running, &stay, &[devices[2].clone()]).await.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let of = (&group, &running);
        let is_member = group.info().capacity[1] != NO_DEVICE;
        assert!(!is_member || !removed, "seed {seed}: the device has left, and is one of the group");
        assert_eq!(running.read(&rt, old, 5, 1).await, Ok(vec![55]), "seed {seed}");
        assert_eq!(running.read(&rt, ComponentNo(2), 5, 1).await, Ok(vec![2]), "seed {seed}");
        if let Some(no) = written {
            assert_eq!(running.read(&rt, no, 9, 1).await, Ok(vec![99]), "seed {seed}");
        }
        // A number of a component of the device that left would bring what the log has of that.
        let no = create(&rt, of, 7, 0).await.unwrap();
        assert!(no.0 > 4, "seed {seed}: number {no} is given again");
        assert_eq!(running.read(&rt, no, 5, 1).await, Ok(vec![0]), "seed {seed}");
        running.drained(&rt).await;
        running.check();
        is_member
    })
}

#[test]
fn power_may_go_while_a_device_leaves() {
    let all = (0..100).map(|seed| dies_while_removing(seed, Duration::from_nanos(seed * 60_000)));
    let (yes, no) = all.fold((0, 0), |(yes, no), member| (yes + u64::from(member), no + u64::from(!member)));
    assert!(yes > 10 && no > 10, "in time {yes}, too late {no}");
}

/// Only the table of the device that leaves knows them: nothing was written.
fn numbers_of_a_device_that_left_stay_given() {
    let (mut lab, _) = lab(8, 2);
    let (running, devices) = (lab.running(), lab.devices.clone());
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        for id in 2..6 {
            let no = create(&rt, of, id, 1).await.unwrap();
            delete(&rt, of, no).await.unwrap();
        }
        remove(&rt, of, 1).await.unwrap();
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices[..2], &[]).await.unwrap();
        assert_eq!(create(&rt, (&group, &running), 9, 0).await, Ok(ComponentNo(6)));
    });
}

#[test]
fn numbers_are_given_once_though_a_device_left() {
    numbers_of_a_device_that_left_stay_given();
}

/// A device is gone for good. The log has records of its components, which must not become those of others.
fn a_device_is_lost() {
    let (mut lab, _) = lab(7, 3);
    let (running, devices, old) = (lab.running(), lab.devices.clone(), lab.components[0]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        let (other, lost) = (create(&rt, of, 2, 2).await.unwrap(), create(&rt, of, 3, 1).await.unwrap());
        for block in 0..20 {
            for c in [old, other, lost] {
                running.write(&rt, c, block, &[block + u64::from(c.0)]).await.unwrap();
            }
        }
    });
    lab.power_cycle();
    let running = lab.running();
    let rest = vec![devices[0].clone(), devices[1].clone(), devices[3].clone()];
    lab.world.block_on(lab.host, async |rt: Rt| {
        let missing = open_group(&rt, None, &rest).await.map(drop).unwrap_err();
        assert!(matches!(missing, GroupError::Incomplete { .. }), "{missing}");
        // Nothing is changed unless all the others are there.
        let less = GroupDevices { devices: rest[..2].to_vec(), lost: vec![1], ..GroupDevices::default() };
        let missing = open_group_with(&rt, None, &less).await.map(drop).unwrap_err();
        assert!(matches!(missing, GroupError::Incomplete { .. }), "{missing}");
        let Ok(Probe::Ours(found)) = probe(&rt, &rest[0]).await else { panic!("it is one of ours") };
        assert_eq!(found.superblock.major, VERSION_PLAIN);
        let given = GroupDevices { devices: rest.clone(), lost: vec![1], ..GroupDevices::default() };
        let group = open_as(&rt, &running, &given).await.unwrap();
        let of = (&group, &running);
        assert_eq!((group.info().numbers().collect::<Vec<_>>(), group.components().len()), (vec![0, 2], 2));
        for block in 0..20 {
            assert_eq!(running.read(&rt, old, block, 1).await, Ok(vec![block + u64::from(old.0)]));
            assert_eq!(running.read(&rt, ComponentNo(2), block, 1).await, Ok(vec![block + 2]));
        }
        let no = create(&rt, of, 4, 0).await.unwrap();
        assert!(no.0 > 3, "number {no} is given again");
        running.write(&rt, no, 3, &[33]).await.unwrap();
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        // By its devices; that one is lost is said again, and makes no difference.
        let given = GroupDevices { devices: rest.clone(), lost: vec![1], ..GroupDevices::default() };
        let group = open_as(&rt, &running, &given).await.unwrap();
        let no = group.components().last().expect("the new one").no;
        for block in 0..20 {
            let value = if block == 3 { 33 } else { 0 };
            assert_eq!(running.read(&rt, no, block, 1).await, Ok(vec![value]), "what the log had of the lost component");
        }
        running.drained(&rt).await;
        running.check();
        // It comes back, and is none of the group.
        let refused = open_group(&rt, None, &devices).await.map(drop).unwrap_err();
        assert!(matches!(refused, GroupError::Left { .. }), "{refused}");
    });
}

#[test]
fn a_group_opens_without_a_device_that_is_lost_and_its_components_do_not_come_back() {
    a_device_is_lost();
}

#[test]
fn a_list_that_cannot_be_written_is_tried_again() {
    let (mut lab, new) = lab(5, 2);
    let (running, devices) = (lab.running(), lab.devices.clone());
    let cache = lab.world.disk(&devices[0]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        let of = (&group, &running);
        cache.fail_writes(0..MIB, Some(1), DeviceError::Media);
        assert!(matches!(add(&rt, of, 2, &new, false).await, Err(GroupError::Undecided { .. })));
        assert_eq!(group.devices().len(), 3);
        add(&rt, of, 2, &new, true).await.unwrap();
        cache.fail_writes(0..MIB, Some(1), DeviceError::Media);
        assert!(matches!(remove(&rt, of, 1).await, Err(GroupError::Undecided { .. })));
        // The cache device may say that it has left.
        assert!(matches!(create(&rt, of, 2, 1).await, Err(GroupError::Leaving { .. })));
        remove(&rt, of, 1).await.unwrap();
        assert_eq!(group.devices().len(), 3);
    });
    lab.power_cycle();
    let running = lab.running();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &[devices[0].clone(), devices[1].clone(), new.clone()], &[]).await.unwrap();
        assert_eq!(group.info().numbers().collect::<Vec<_>>(), [0, 2]);
    });
}

#[test]
fn a_device_that_the_group_does_not_know_any_more_is_refused_by_name() {
    let (mut lab, new) = lab(6, 2);
    let (running, devices) = (lab.running(), lab.devices.clone());
    let left = lab.world.disk(&devices[2]);
    let before = left.peek(0, MIB as usize);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open(&rt, &running, &devices, &[]).await.unwrap();
        remove(&rt, (&group, &running), 1).await.unwrap();
    });
    // It could not be cleared.
    left.poke(0, &before);
    lab.power_cycle();
    let running = lab.running();
    let cache = lab.world.disk(&devices[0]);
    let of_one = [0, 64 << 10].map(|at| cache.peek(at, 4096));
    lab.world.block_on(lab.host, async |rt: Rt| {
        let refused = open(&rt, &running, &devices, &[]).await.map(drop).unwrap_err();
        assert_eq!(refused, GroupError::Left { device: devices[2].name().into(), group: "g".into() });
        let group = open(&rt, &running, &devices[..2], &devices[2..]).await.unwrap();
        assert_eq!(group.devices().len(), 2);
        add(&rt, (&group, &running), 1, &new, false).await.unwrap();
    });
    // The cache device as it was before: it does not know the newest device, and the other one does.
    for (at, copy) in [0, 64 << 10].into_iter().zip(&of_one) {
        cache.poke(at, copy);
    }
    lab.power_cycle();
    lab.world.block_on(lab.host, async |rt: Rt| {
        let refused = open_group(&rt, None, &devices[..2]).await.map(drop).unwrap_err();
        assert!(matches!(refused, GroupError::OlderCache { .. }), "{refused}");
    });
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault as F, notices};
    notices(F::DeviceLeavesInUse, a_device_leaves_a_group_in_use_and_can_be_used_anew);
    notices(F::NumbersLeaveWithDevice, numbers_of_a_device_that_left_stay_given);
    notices(F::GenerationsBeginAnew, tables_of_an_earlier_time_do_not_count);
    notices(F::NumbersOfLogForgotten, a_device_is_lost);
    notices(F::NamedBeforeWritten, || _ = power_goes_while_a_device_is_added(100));
}
