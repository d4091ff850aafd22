//! Space, components, scattered reads, pace, shutdown, rest.

use super::harness::{Lab, Running, Setup, component_spec, quick, read_op, write_op};
use crate::{ComponentNo, OpKind, Settings, StoreError, open_group};
use base::unit::BLOCK_BYTES;
use base::{Duration, Instant};
use rt::Rt;
use rt::sim::{Rng, SimDeviceOptions};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn space_is_exact_and_comes_back_by_trim_and_over_restarts() {
    let mut lab = Lab::new(1, &Setup { capacity_mib: vec![7], ..Setup::default() });
    let c = lab.components[0];
    let total = lab.with(quick(), async |rt, s| {
        let total = s.stats().chunks_total;
        for i in 0..total {
            s.write(&rt, c, i * 16, &[1000 + i]).await.unwrap();
        }
        assert_eq!(s.write(&rt, c, total * 16, &[1]).await, Err(StoreError::NoSpace));
        s.write(&rt, c, 3, &[7]).await.unwrap(); // within a chunk that has a place
        s.drained(&rt).await;
        assert_eq!(s.write(&rt, c, total * 16, &[1]).await, Err(StoreError::NoSpace));
        assert_eq!(s.stats().chunks_allocated, total);
        total
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.stats().chunks_allocated, total);
        assert_eq!(s.write(&rt, c, total * 16, &[1]).await, Err(StoreError::NoSpace));
        s.trim(&rt, c, 32, 16).await.unwrap();
        s.write(&rt, c, total * 16, &[2]).await.unwrap();
        assert_eq!(s.write(&rt, c, 32, &[1]).await, Err(StoreError::NoSpace));
        s.check();
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, total * 16, 1).await.unwrap(), [2]);
        assert_eq!(s.read(&rt, c, 32, 1).await.unwrap(), [0]);
        assert_eq!(s.read(&rt, c, 0, 4).await.unwrap(), [1000, 0, 0, 7]);
        assert_eq!(s.write(&rt, c, 32, &[1]).await, Err(StoreError::NoSpace));
        s.check();
    });
}

#[test]
fn a_reservation_is_kept_for_its_component() {
    let components = vec![component_spec(1, 0, 30), component_spec(2, 0, 0)];
    let mut lab = Lab::new(2, &Setup { capacity_mib: vec![7], components, ..Setup::default() });
    let (a, b) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| {
        let mut taken = 0;
        while s.write(&rt, b, taken * 16, &[1]).await.is_ok() {
            taken += 1;
        }
        assert_eq!(taken, s.stats().chunks_total - 30);
        for i in 0..30 {
            s.write(&rt, a, i * 16, &[1]).await.unwrap();
        }
        assert_eq!(s.write(&rt, a, 30 * 16, &[1]).await, Err(StoreError::NoSpace));
    });
    lab.power_cycle();
    lab.with(quick(), async |_, s| assert_eq!(s.stats().chunks_allocated, s.stats().chunks_total));
}

#[test]
fn what_is_promised_and_not_yet_taken_is_kept_over_a_restart() {
    let components = vec![component_spec(1, 0, 30), component_spec(2, 0, 0)];
    let mut lab = Lab::new(22, &Setup { capacity_mib: vec![7], components, ..Setup::default() });
    let (a, b) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| s.write(&rt, a, 0, &[1]).await.unwrap());
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        let mut taken = 0;
        while s.write(&rt, b, taken * 16, &[1]).await.is_ok() {
            taken += 1;
        }
        assert_eq!(taken, s.stats().chunks_total - 30);
        for i in 1..30 {
            s.write(&rt, a, i * 16, &[1]).await.unwrap();
        }
        s.check();
    });
}

#[test]
fn what_was_on_its_way_to_capacity_when_its_component_was_dropped_leaves_the_log_empty() {
    for instant in 0..60 {
        let components = vec![component_spec(1, 0, 0), component_spec(2, 0, 0)];
        let mut lab = Lab::new(3, &Setup { components, ..Setup::default() });
        let a = lab.components[0];
        let devices = lab.devices.clone();
        lab.with(quick(), async |rt, s| {
            open_group(&rt, None, &devices).await.unwrap().delete_component(&rt, a).await.unwrap();
            for i in 0..24 {
                s.write(&rt, a, i * 16, &[1000 + i]).await.unwrap();
            }
            while s.stats().destaged_bytes == 0 && rt.now() < Instant(10_000_000_000) {
                rt.sleep(Duration::from_micros(100)).await;
            }
            rt.sleep(Duration::from_micros(instant * 50)).await;
            s.shard.borrow_mut().as_mut().unwrap().drop_component(&rt, a);
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(s.stats().log_live_bytes, 0, "dropped after {} us", instant * 50);
            s.check();
        });
    }
}

#[test]
fn a_dropped_component_gives_its_space_back_and_leaves_others_alone() {
    let components = vec![component_spec(1, 0, 0), component_spec(2, 0, 0)];
    let mut lab = Lab::new(3, &Setup { components, ..Setup::default() });
    let (a, b) = (lab.components[0], lab.components[1]);
    let devices = lab.devices.clone();
    lab.with(quick(), async |rt, s| {
        for i in 0..40 {
            s.write(&rt, a, i * 16, &[1000 + i]).await.unwrap();
            s.write(&rt, b, i * 16, &[2000 + i]).await.unwrap();
            if i == 20 {
                s.drained(&rt).await;
            }
        }
        let group = open_group(&rt, None, &devices).await.unwrap();
        group.delete_component(&rt, a).await.unwrap();
        let late = s.submit(&rt, a, 0, 4, write_op(a, 0, &[1, 2, 3, 4], true));
        let asked = s.submit(&rt, a, 16, 1, read_op(1));
        s.shard.borrow_mut().as_mut().unwrap().drop_component(&rt, a);
        assert_eq!(s.write(&rt, a, 0, &[1]).await, Err(StoreError::NoComponent));
        assert_eq!(s.read(&rt, a, 0, 1).await, Err(StoreError::NoComponent));
        rt.sleep(Duration::from_millis(50)).await;
        let done = s.take_done();
        assert!(done.iter().any(|done| done.cookie == late));
        let read = done.iter().find(|done| done.cookie == asked).expect("a read ends");
        assert_eq!(read.result, Err(StoreError::NoComponent), "and not with zeroes");
        assert_eq!(s.stats().chunks_allocated, 40);
        s.drained(&rt).await;
        s.check();
        for i in 0..40 {
            assert_eq!(s.read(&rt, b, i * 16, 1).await.unwrap(), [2000 + i]);
        }
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.stats().chunks_allocated, 40);
        assert_eq!(s.read(&rt, b, 16, 1).await.unwrap(), [2001]);
        s.check();
    });
}

#[test]
fn the_largest_write_fits_even_into_small_segments() {
    let mut lab = Lab::new(4, &Setup::default());
    let c = lab.components[0];
    let values: Vec<u64> = (1..=256).collect();
    let expected = values.clone();
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 256, &values).await.unwrap();
        assert_eq!(s.read(&rt, c, 256, 256).await.unwrap(), values);
        s.check();
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 256, 256).await.unwrap(), expected);
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 256, 256).await.unwrap(), expected);
        assert_eq!(s.stats().chunks_allocated, 16);
    });
}

#[test]
fn a_read_gathers_what_lies_in_the_log_on_capacity_and_nowhere() {
    let mut lab = Lab::new(5, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 10, &[110, 111, 112, 113, 114, 115]).await.unwrap();
        s.drained(&rt).await;
        s.trim(&rt, c, 12, 1).await.unwrap();
        s.write(&rt, c, 14, &[214]).await.unwrap();
        s.write(&rt, c, 11, &[211]).await.unwrap();
        assert_eq!(s.read(&rt, c, 8, 9).await.unwrap(), [0, 0, 110, 211, 0, 113, 214, 115, 0]);
    });
}

#[test]
fn a_shard_at_rest_does_nothing_at_all() {
    let mut lab = Lab::new(6, &Setup::default());
    let c = lab.components[0];
    let loops = lab.with(quick(), async |rt, s| {
        for i in 0..300 {
            s.write(&rt, c, i * 5, &[1000 + i]).await.unwrap();
        }
        s.drained(&rt).await;
        rt.sleep(Duration::from_secs(1)).await;
        let before = rt.stats().loops.get();
        rt.sleep(Duration::from_secs(60)).await;
        rt.stats().loops.get() - before
    });
    assert!(loops < 10, "{loops} turns of the loop in a minute of rest");
}

#[test]
fn a_shutdown_refuses_what_comes_and_leaves_a_log_that_opens_quickly() {
    let mut lab = Lab::new(7, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        for i in 0..100 {
            s.write(&rt, c, i, &[1000 + i]).await.unwrap();
        }
        s.shut_down(&rt).await;
        assert_eq!(s.write(&rt, c, 0, &[1]).await, Err(StoreError::Closing));
        assert_eq!(rt::buffers_outstanding(), 0);
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        for i in 0..100 {
            assert_eq!(s.read(&rt, c, i, 1).await.unwrap(), [1000 + i]);
        }
    });
}

#[test]
fn a_flush_waits_for_nothing_when_nothing_is_under_way() {
    let mut lab = Lab::new(8, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        let before = rt.now();
        assert_eq!(s.call(&rt, c, 0, 0, OpKind::Flush).await.result, Ok(()));
        assert!(rt.now().since(before) < Duration::from_micros(10));
    });
}

/// Keeps `depth` random one-block writes under way for `time`; when each began and how long it took.
async fn load(rt: &Rt, s: &Running, c: ComponentNo, depth: usize, span: u64, time: Duration) -> Vec<(f64, Duration)> {
    let mut rng = Rng::new(9);
    let mut pending = BTreeMap::new();
    let mut took = Vec::new();
    let begin = rt.now();
    let mut value = 0;
    while rt.now().since(begin) < time {
        while pending.len() < depth {
            value += 1;
            let block = rng.below(span);
            if pending.values().any(|(_, b)| *b == block) {
                continue;
            }
            pending.insert(s.submit(rt, c, block, 1, write_op(c, block, &[value], true)), (rt.now(), block));
        }
        s.some_ended().await;
        for done in s.take_done() {
            done.result.unwrap();
            let (since, _) = pending.remove(&done.cookie).unwrap();
            took.push((since.since(begin).as_secs_f64(), rt.now().since(since)));
        }
    }
    while !pending.is_empty() {
        s.some_ended().await;
        for done in s.take_done() {
            pending.remove(&done.cookie);
        }
    }
    took
}

#[test]
fn a_sustained_overload_settles_at_the_speed_of_capacity_without_a_cliff() {
    let slow = SimDeviceOptions { bytes_per_s: 60_000_000, write_ns: (200_000, 400_000), ..SimDeviceOptions::default() };
    let mut lab = Lab::new(10, &Setup { cache_mib: 65, capacity_mib: vec![80], capacity: slow, ..Setup::default() });
    let c = lab.components[0];
    let took = lab.with(Settings::default(), async |rt, s| {
        let took = load(&rt, &s, c, 32, 10_000, Duration::from_secs(8)).await;
        let stats = s.stats();
        assert!(stats.fill > 0.5 && stats.fill < 0.97, "{stats:?}");
        assert!(stats.checkpoints > 3, "{stats:?}");
        s.check();
        took
    });
    let rate = |from: f64, to: f64| took.iter().filter(|(at, _)| *at >= from && *at < to).count() as f64 / (to - from);
    let mut late: Vec<Duration> = took.iter().filter(|(at, _)| *at > 4.0).map(|(_, d)| *d).collect();
    late.sort();
    let (median, worst) = (late[late.len() / 2], late[late.len() - 1]);
    println!("writes/s: start {:.0}, late {:.0}; late median {median:?}, worst {worst:?}", rate(0.0, 0.2), rate(4.0, 8.0));
    assert!(rate(4.0, 6.0) / rate(6.0, 8.0) < 1.5 && rate(4.0, 6.0) / rate(6.0, 8.0) > 0.66, "steady");
    assert!(worst < median * 25, "median {median:?} worst {worst:?}");
    assert!(rate(0.0, 0.2) > rate(4.0, 8.0), "a burst goes at the speed of the cache");
}

#[test]
fn neighbours_go_to_capacity_as_one_write_in_whatever_order_they_came() {
    let mut lab = Lab::new(12, &Setup::default());
    let (c, capacity) = (lab.components[0], lab.devices[1].clone());
    let (chunks, blocks) = (12, 16);
    // The blocks of each chunk in an order of their own, those of other chunks between them.
    let block = |i: u64| i % chunks * 16 + i / chunks * 7 % blocks;
    lab.with(quick(), async |rt, s| {
        let before = capacity.counters().writes.load(Relaxed);
        for i in 0..chunks * blocks {
            s.write(&rt, c, block(i), &[1000 + i]).await.unwrap();
        }
        s.drained(&rt).await;
        assert_eq!(s.stats().destaged_bytes, chunks * blocks * BLOCK_BYTES as u64);
        let writes = capacity.counters().writes.load(Relaxed) - before;
        assert!(writes < 3 * chunks, "{writes} writes for {chunks} chunks and the pages of their table");
        s.check();
        for i in 0..chunks * blocks {
            assert_eq!(s.read(&rt, c, block(i), 1).await.unwrap(), [1000 + i]);
        }
    });
}

#[test]
fn what_is_newer_waits_for_its_own_turn_and_what_is_old_is_read_together() {
    let mut lab = Lab::new(13, &Setup { cache_mib: 33, capacity_mib: vec![200], ..Setup::default() });
    let (c, cache) = (lab.components[0], lab.devices[0].clone());
    let each = 1000;
    // First the first block of each chunk, then one in the middle: both are in the log when the first is due.
    let block = |i: u64| i % each * 16 + i / each * 7;
    lab.with(Settings::default(), async |rt, s| {
        let before = cache.counters().reads.load(Relaxed);
        for i in 0..2 * each {
            s.write(&rt, c, block(i), &[1000 + i]).await.unwrap();
        }
        rt.sleep(Duration::from_secs(4)).await; // not yet idle
        let stats = s.stats();
        assert!(stats.fill < 0.32, "destaging has come to rest: {stats:?}");
        let moved = stats.destaged_bytes / BLOCK_BYTES as u64;
        assert!(moved > each / 2 && moved <= each, "{moved} of {each} old blocks were moved, and none of the new ones");
        let reads = cache.counters().reads.load(Relaxed) - before;
        assert!(reads * 4 < moved, "{moved} blocks were moved by {reads} reads");
        s.check();
        for i in 0..2 * each {
            assert_eq!(s.read(&rt, c, block(i), 1).await.unwrap(), [1000 + i]);
        }
    });
}

fn uncorrectable(block: u64) -> StoreError {
    StoreError::Uncorrectable { block: base::BlockNo(block) }
}

#[test]
fn a_block_declared_uncorrectable_stays_so_over_everything_until_it_is_changed() {
    let mut lab = Lab::new(11, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 8, &[108, 109, 110, 111, 112]).await.unwrap();
        s.drained(&rt).await;
        s.write(&rt, c, 9, &[209]).await.unwrap(); // one of them in the log, the others on capacity, and two nowhere
        for (block, blocks) in [(9, 3), (200, 2)] {
            s.call(&rt, c, block, blocks, OpKind::Uncorrectable).await.result.unwrap();
        }
        assert_eq!(s.read(&rt, c, 8, 5).await, Err(uncorrectable(9)));
        assert_eq!(s.read(&rt, c, 201, 1).await, Err(uncorrectable(201)));
        assert_eq!((s.read(&rt, c, 8, 1).await.unwrap(), s.read(&rt, c, 12, 1).await.unwrap()), (vec![108], vec![112]));
        s.check();
    });
    lab.power_cycle(); // from the log
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 8, 5).await, Err(uncorrectable(9)));
        assert_eq!(s.read(&rt, c, 200, 1).await, Err(uncorrectable(200)));
        for i in 0..600 {
            s.write(&rt, c, 300 + i, &[1000 + i]).await.unwrap(); // pushes what came before out of the log
        }
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 10, 1).await, Err(uncorrectable(10)));
        s.shut_down(&rt).await;
    });
    lab.power_cycle(); // from the chunk table
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 11, 1).await, Err(uncorrectable(11)));
        s.write(&rt, c, 9, &[309]).await.unwrap();
        s.trim(&rt, c, 10, 1).await.unwrap();
        s.call(&rt, c, 11, 1, OpKind::Zero).await.result.unwrap();
        assert_eq!(s.read(&rt, c, 8, 5).await.unwrap(), [108, 309, 0, 0, 112]);
        s.shard.borrow_mut().as_mut().unwrap().start_scrub(&rt);
        while s.stats().scrub_passes == 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (0, 0), "what a host declared is no corruption");
        s.check();
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 8, 5).await.unwrap(), [108, 309, 0, 0, 112]);
        assert_eq!(s.read(&rt, c, 200, 2).await, Err(uncorrectable(200)));
    });
}

#[test]
fn declaring_a_block_uncorrectable_takes_space_like_a_write() {
    let mut lab = Lab::new(12, &Setup { capacity_mib: vec![7], ..Setup::default() });
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        let total = s.stats().chunks_total;
        for i in 0..total {
            s.call(&rt, c, i * 16, 1, OpKind::Uncorrectable).await.result.unwrap();
        }
        assert_eq!(s.stats().chunks_allocated, total);
        assert_eq!(s.call(&rt, c, total * 16, 1, OpKind::Uncorrectable).await.result, Err(StoreError::NoSpace));
        s.trim(&rt, c, 0, 1).await.unwrap();
        s.call(&rt, c, total * 16, 1, OpKind::Uncorrectable).await.result.unwrap();
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        let total = s.stats().chunks_total;
        assert_eq!((s.stats().chunks_allocated, s.read(&rt, c, 0, 1).await), (total, Ok(vec![0])));
        assert_eq!(s.read(&rt, c, total * 16, 1).await, Err(uncorrectable(total * 16)));
        s.check();
    });
}

/// What the log has taken: batches, and bytes that are not data.
fn logged(s: &Running) -> (u64, u64) {
    (s.stats().batches, s.stats().log_overhead_bytes)
}

#[test]
fn a_trim_of_nothing_takes_no_record_and_one_of_anything_does() {
    let mut lab = Lab::new(11, &Setup::default());
    let c = lab.components[0];
    let settings = Settings { idle_drain: Duration::from_secs(100_000), ..Settings::default() };
    lab.with(settings, async |rt, s| {
        let before = logged(&s);
        for piece in [0, 1, 77, 1 << 18] {
            s.trim(&rt, c, piece * 256, 256).await.unwrap();
            assert_eq!(s.call(&rt, c, piece * 256 + 3, 9, OpKind::Zero).await.result, Ok(()));
        }
        assert_eq!((logged(&s), s.stats().trims, s.stats().empty_trims), (before, 8, 8));
        s.write(&rt, c, 5, &[50, 51]).await.unwrap();
        // Beside it, in its chunk and in another: nothing. Then what is there, in the log only.
        let before = logged(&s);
        s.trim(&rt, c, 0, 5).await.unwrap();
        s.trim(&rt, c, 7, 249).await.unwrap();
        assert_eq!(logged(&s), before);
        s.trim(&rt, c, 6, 250).await.unwrap();
        assert_eq!(s.stats().batches, before.0 + 1);
        assert_eq!(s.read(&rt, c, 5, 2).await.unwrap(), [50, 0]);
        // A block that may not be read is content too.
        assert_eq!(s.call(&rt, c, 300, 1, OpKind::Uncorrectable).await.result, Ok(()));
        let before = logged(&s);
        s.trim(&rt, c, 299, 3).await.unwrap();
        assert_eq!(s.stats().batches, before.0 + 1);
        assert_eq!(s.read(&rt, c, 300, 1).await.unwrap(), [0]);
        s.check();
    });
    // What was trimmed with a record stays so when a trim of the same came without one.
    lab.with(settings, async |rt, s| {
        let before = logged(&s);
        s.trim(&rt, c, 6, 1).await.unwrap();
        assert_eq!(logged(&s), before);
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 5, 2).await.unwrap(), [50, 0]);
        s.drained(&rt).await;
        // On capacity only: a record again, and none for what is beside it.
        let before = logged(&s);
        s.trim(&rt, c, 6, 250).await.unwrap();
        assert_eq!(logged(&s), before);
        s.trim(&rt, c, 5, 1).await.unwrap();
        assert!(logged(&s) > before);
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 2).await.unwrap(), [0, 0]));
}

#[test]
fn the_pieces_with_anything_in_them_are_named_from_the_submission_of_a_write_to_the_end_of_a_trim() {
    let mut lab = Lab::new(12, &Setup::default());
    let c = lab.components[0];
    let pieces = |s: &Running, first: u64, step: u64, end: u64| {
        let mut found = vec![];
        let said = s.shard.borrow().as_ref().expect("open").pieces(c, first, step, end, |piece| found.push(piece));
        said.then_some(found)
    };
    lab.with(quick(), async |rt, s| {
        assert_eq!(pieces(&s, 0, 1, 1 << 24), Some(vec![]));
        let cookie = s.submit(&rt, c, 3 * 256 + 9, 1, write_op(c, 3 * 256 + 9, &[5], true));
        assert_eq!(pieces(&s, 0, 1, 1 << 24), Some(vec![3]), "it is on its way");
        while !s.take_done().iter().any(|d| d.cookie == cookie) {
            s.some_ended().await;
        }
        s.write(&rt, c, 1000 * 256, &[6]).await.unwrap();
        assert_eq!(pieces(&s, 0, 1, 1 << 24), Some(vec![3, 1000]));
        assert_eq!(pieces(&s, 1, 2, 1 << 24), Some(vec![3]));
        s.drained(&rt).await;
        assert_eq!(pieces(&s, 0, 1, 1000), Some(vec![3]));
        s.trim(&rt, c, 3 * 256, 256).await.unwrap();
        assert_eq!(pieces(&s, 0, 1, 1 << 24), Some(vec![1000]));
    });
    lab.power_cycle();
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(quick(), async |rt, s| {
        assert_eq!(pieces(&s, 0, 1, 1 << 24), Some(vec![1000]));
        // A write that failed may be found by the next opening after all: nobody can say what is there until then.
        disk.fail_writes(0..u64::MAX, None, rt::DeviceError::Media);
        assert_eq!(s.write(&rt, c, 5, &[1]).await, Err(StoreError::DeviceFailed));
        assert_eq!(pieces(&s, 0, 1, 1 << 24), None);
        assert_eq!(s.trim(&rt, c, 77 * 256, 1).await, Err(StoreError::DeviceFailed));
    });
}

#[cfg(feature = "hooks")]
#[test]
fn a_promise_that_is_forgotten_is_noticed() {
    base::hooks::notices(base::hooks::SeededFault::PromisesForgotten, what_is_promised_and_not_yet_taken_is_kept_over_a_restart);
}
