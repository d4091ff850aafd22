//! Modelled drives and cores within a world.

use super::*;
use crate::{Buf, BufVec, Durability};
use base::Duration;
use std::{cell::Cell, rc::Rc};

fn speed() -> DriveSpeed {
    DriveSpeed {
        read_ns: (50_000, 50_000),
        write_ns: (10_000, 10_000),
        flush_ns: (5_000, 5_000),
        read_iops: 400_000.0,
        read_bytes_per_s: 2e9,
        write_iops: 400_000.0,
        write_bytes_per_s: 1e9,
        spare: f64::INFINITY,
        used: 1.0,
        mixed: None,
        buffer_bytes: 1e6,
        collision_ns: (0, 0),
        fast: None,
        link_bytes_per_s: 4e9,
        tail_one_in: 0,
        tail_times: 1,
    }
}

/// Reads a second of `tasks` closed loops on `namespaces` of one drive, each of `bytes`, over 50 ms; and the trace.
fn reads(namespaces: u64, tasks: usize, bytes: usize, cost: Option<CoreCost>) -> (f64, u64, u64) {
    let mut world = World::new(3);
    let drive = world.drive(speed());
    let options =
        |n| SimDeviceOptions { drive: Some(drive), drive_offset: n << 30, compact: true, volatile_cache: false, ..Default::default() };
    let devices: Vec<_> = (0..namespaces).map(|n| world.device(1 << 30, options(n))).collect();
    let host = world.add_host(1, |_| Box::new(TasksOnly));
    if let Some(cost) = cost {
        world.core_cost(host, cost);
    }
    let count = Rc::new(Cell::new(0u64));
    for task in 0..tasks {
        let (dev, count) = (devices[task % devices.len()].clone(), Rc::clone(&count));
        world.spawn(host, 0, |rt| async move {
            loop {
                let (result, _) = rt.read_at(&dev, 0, Buf::alloc(bytes)).await;
                result.unwrap();
                count.set(count.get() + 1);
            }
        });
    }
    world.run_for(Duration::from_millis(50));
    (count.get() as f64 * 20.0, world.trace_hash(), world.busy_ns(host)[0])
}

#[test]
fn namespaces_of_a_drive_share_what_it_can_do() {
    let one = reads(1, 64, 4096, None).0;
    let eight = reads(8, 64, 4096, None).0;
    assert!((one / 400_000.0 - 1.0).abs() < 0.03, "{one}");
    assert!((eight / one - 1.0).abs() < 0.01, "{eight} of eight namespaces, {one} of one");
}

#[test]
fn a_core_with_a_cost_does_no_more_than_fits_into_its_time() {
    let cost = CoreCost { turn_ns: 0.0, device_op_ns: 4_000.0, byte_ns: 1.0, net_op_ns: 0.0, net_byte_ns: 0.0 };
    let (iops, _, busy) = reads(1, 32, 4096, Some(cost));
    assert!((iops / (1e9 / 8_096.0) - 1.0).abs() < 0.03, "{iops}");
    assert!((0.97..1.03).contains(&(busy as f64 / 50e6)), "{busy}");
    let (free, _, idle) = reads(1, 32, 4096, None);
    assert!(free > 380_000.0 && idle == 0, "{free}, {idle}");
}

#[test]
fn a_modelled_world_is_a_function_of_its_seed() {
    let cost = CoreCost { turn_ns: 500.0, device_op_ns: 1_000.0, byte_ns: 0.1, net_op_ns: 0.0, net_byte_ns: 0.0 };
    assert_eq!(reads(2, 16, 8192, Some(cost)), reads(2, 16, 8192, Some(cost)));
}

#[test]
fn a_compact_disk_gives_back_what_was_written_and_survives_a_loss_of_power() {
    let mut world = World::new(1);
    let drive = world.drive(speed());
    let dev = world.device(1 << 30, SimDeviceOptions { drive: Some(drive), compact: true, volatile_cache: false, ..Default::default() });
    let host = world.add_host(1, |_| Box::new(TasksOnly));
    let d = dev.clone();
    world.block_on(host, async move |rt| {
        for at in 0..64u64 {
            let mut block = Buf::zeroed(4096);
            block.fill(at as u8 % 3);
            rt.write_at(&d, at * 4096, BufVec::from_iter([block]), Durability::Durable).await.0.unwrap();
        }
    });
    world.kill(host);
    let held = world.disk(&dev).peek(0, 64 * 4096);
    assert!(held.chunks(4096).enumerate().all(|(at, block)| block.iter().all(|b| *b == at as u8 % 3)));
}
