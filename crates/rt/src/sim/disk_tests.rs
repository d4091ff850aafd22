//! What a loss of power and ordered faults do to simulated disks.

use super::*;
use crate::{Buf, BufVec, DeviceError, Durability, buffers_outstanding};
use base::Duration;
use proptest::prelude::*;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

fn block(tag: u8) -> BufVec {
    let mut b = Buf::alloc(4096);
    b.fill(tag);
    BufVec::from_iter([b])
}

fn sectors(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(512)
        .map(|s| {
            assert!(s.iter().all(|b| *b == s[0]), "a sector is written whole");
            s[0]
        })
        .collect()
}

/// A host on which only tasks run, and a device.
fn world(seed: u64, opts: SimDeviceOptions) -> (World, HostId, crate::Device) {
    let mut w = World::new(seed);
    let host = w.add_host(1, |_| Box::new(TasksOnly));
    let dev = w.device(1 << 20, opts);
    (w, host, dev)
}

#[test]
fn what_was_written_is_read() {
    let before = buffers_outstanding();
    block_on(1, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
        let bufs: BufVec = [block(1), block(2)].into_iter().flatten().collect();
        rt.write_at(&dev, 8192, bufs, Durability::Volatile).await.0.unwrap();
        let (result, buf) = rt.read_at(&dev, 4096, Buf::alloc(16384)).await;
        result.unwrap();
        assert_eq!(sectors(&buf), [[0; 8], [1; 8], [2; 8], [0; 8]].concat());
    });
    assert_eq!(buffers_outstanding(), before);
}

#[test]
fn memory_devices_work_in_a_world_too() {
    block_on(1, async |rt| {
        let dev = crate::Device::memory(1 << 20).unwrap();
        rt.write_at(&dev, 4096, block(9), Durability::Durable).await.0.unwrap();
        let (result, buf) = rt.read_at(&dev, 4096, Buf::alloc(4096)).await;
        result.unwrap();
        assert_eq!(buf[..], [9; 4096]);
    });
}

#[test]
fn what_is_outside_or_not_aligned_is_refused_and_the_buffer_comes_back() {
    block_on(1, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
        for (offset, len) in [(1 << 20, 4096), (u64::MAX - 4095, 4096), (512, 4096), (0, 512)] {
            let (result, buf) = rt.read_at(&dev, offset, Buf::alloc(len)).await;
            assert_eq!((result, buf.len()), (Err(DeviceError::OutOfRange), len));
        }
    });
}

#[test]
fn a_durable_write_survives_and_a_volatile_one_is_kept_or_lost_by_the_sector() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..200 {
        let (mut w, host, dev) = world(seed, SimDeviceOptions::default());
        w.block_on(host, async |rt| {
            rt.write_at(&dev, 0, block(1), Durability::Durable).await.0.unwrap();
            rt.write_at(&dev, 4096, block(1), Durability::Durable).await.0.unwrap();
            rt.write_at(&dev, 4096, block(2), Durability::Volatile).await.0.unwrap();
        });
        w.kill(host);
        let disk = w.disk(&dev);
        assert_eq!(sectors(&disk.peek(0, 4096)), [1; 8]);
        let after = sectors(&disk.peek(4096, 4096));
        match after.iter().filter(|t| **t == 2).count() {
            0 => lost += 1,
            8 => kept += 1,
            _ => torn += 1,
        }
        assert!(after.iter().all(|t| [1, 2].contains(t)));
        assert_eq!(disk.volatile_blocks(), 0);
    }
    assert!(lost > 10 && kept > 10 && torn > 10, "every outcome happens: {lost} {kept} {torn}");
}

#[test]
fn without_a_volatile_cache_every_completed_write_survives() {
    for seed in 0..50 {
        let (mut w, host, dev) = world(seed, SimDeviceOptions { volatile_cache: false, ..Default::default() });
        w.block_on(host, async |rt| rt.write_at(&dev, 0, block(3), Durability::Volatile).await.0.unwrap());
        w.kill(host);
        assert_eq!(sectors(&w.disk(&dev).peek(0, 4096)), [3; 8]);
    }
}

#[test]
fn a_flush_keeps_what_was_complete_before_it_and_promises_nothing_for_later_writes() {
    let mut later_lost = 0;
    for seed in 0..100 {
        let opts = SimDeviceOptions { flush_ns: (1_000_000, 1_000_000), ..Default::default() };
        let (mut w, host, dev) = world(seed, opts);
        let d = dev.clone();
        w.block_on(host, async move |rt| {
            rt.write_at(&d, 0, block(1), Durability::Volatile).await.0.unwrap();
            let (rt2, d2) = (rt.clone(), d.clone());
            rt.spawn(async move { rt2.write_at(&d2, 0, block(2), Durability::Volatile).await.0.unwrap() });
            rt.flush_dev(&d).await.unwrap();
        });
        w.kill(host);
        let after = sectors(&w.disk(&dev).peek(0, 4096));
        assert!(after.iter().all(|t| [1, 2].contains(t)), "block 0 was flushed: {after:?}");
        later_lost += usize::from(after.contains(&1));
    }
    assert!(later_lost > 10);
}

#[test]
fn a_write_under_way_when_the_power_goes_is_old_or_new_by_the_sector() {
    let mut outcomes = [0; 3];
    for seed in 0..200 {
        let (mut w, host, dev) = world(seed, SimDeviceOptions { volatile_cache: seed % 2 == 0, ..Default::default() });
        w.disk(&dev).poke(0, &[1; 4096]);
        let d = dev.clone();
        w.spawn(host, 0, move |rt| async move {
            let _ = rt.write_at(&d, 0, block(2), Durability::Durable).await;
            unreachable!("killed before");
        });
        let disk = w.disk(&dev);
        assert!(w.run_until(Duration::from_millis(1), || disk.in_flight() == 1));
        w.kill(host);
        let after = sectors(&disk.peek(0, 4096));
        assert!(after.iter().all(|t| [1, 2].contains(t)));
        outcomes[if after == [1; 8] {
            0
        } else if after == [2; 8] {
            1
        } else {
            2
        }] += 1;
    }
    assert!(outcomes.iter().all(|n| *n > 10), "{outcomes:?}");
}

#[test]
fn a_killed_process_loses_nothing_that_was_complete() {
    for seed in 0..50 {
        let (mut w, host, dev) = world(seed, SimDeviceOptions::default());
        w.block_on(host, async |rt| rt.write_at(&dev, 0, block(3), Durability::Volatile).await.0.unwrap());
        w.kill_process(host);
        assert_eq!(sectors(&w.disk(&dev).peek(0, 4096)), [3; 8]);
    }
}

#[test]
fn a_host_comes_back_to_its_device_after_a_kill() {
    let before = buffers_outstanding();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let mut w = World::new(5);
    let dev = w.device(1 << 20, SimDeviceOptions::default());
    let (s, d) = (Rc::clone(&seen), dev.clone());
    let host = w.add_host(1, move |rt| {
        let (rt2, s, d) = (rt.clone(), Rc::clone(&s), d.clone());
        rt.spawn(async move {
            let (result, buf) = rt2.read_at(&d, 0, Buf::alloc(4096)).await;
            result.unwrap();
            s.borrow_mut().push(buf[0]);
            rt2.write_at(&d, 0, block(buf[0] + 1), Durability::Durable).await.0.unwrap();
        });
        Box::new(TasksOnly)
    });
    for _ in 0..3 {
        w.run_for(Duration::from_millis(50));
        w.kill(host);
        assert!(!w.is_up(host));
        w.start(host);
    }
    assert_eq!(*seen.borrow(), [0, 1, 2]);
    drop(w);
    assert_eq!(buffers_outstanding(), before);
}

#[test]
fn completions_come_in_another_order_than_submissions() {
    block_on(3, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
        let q = rt.queue();
        for i in 0..64 {
            rt.read(&q, i, &dev, i * 4096, Buf::alloc(4096));
            assert!(q.is_empty(), "never within the call");
        }
        let mut order = Vec::new();
        while order.len() < 64 {
            rt.sleep(Duration::from_micros(10)).await;
            order.extend(std::iter::from_fn(|| q.pop()).map(|c| c.cookie));
        }
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..64).collect::<Vec<_>>());
        assert_ne!(order, sorted);
    });
}

#[test]
fn ordered_faults_happen_where_and_as_often_as_ordered() {
    block_on(4, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
        let faults = disk(&rt, &dev);
        faults.fail_reads(4096..4097, Some(2));
        for expect in [Err(DeviceError::Media), Err(DeviceError::Media), Ok(())] {
            assert_eq!(rt.read_at(&dev, 0, Buf::alloc(4096)).await.0, Ok(()), "not in the range");
            assert_eq!(rt.read_at(&dev, 4096, Buf::alloc(8192)).await.0, expect);
        }
        faults.fail_writes(0..4096, None, DeviceError::TimedOut);
        for _ in 0..5 {
            assert_eq!(rt.write_at(&dev, 0, block(1), Durability::Durable).await.0, Err(DeviceError::TimedOut));
        }
        assert_eq!(faults.peek(0, 4096), [0; 4096]);
        faults.heal();
        faults.fail_flushes(Some(1));
        assert_eq!(rt.flush_dev(&dev).await, Err(DeviceError::Media));
        assert_eq!(rt.flush_dev(&dev).await, Ok(()));
        assert_eq!(rt.write_at(&dev, 0, block(1), Durability::Durable).await.0, Ok(()));
        faults.set_gone(true);
        assert_eq!(rt.read_at(&dev, 0, Buf::alloc(4096)).await.0, Err(DeviceError::Gone));
        faults.heal();
        faults.set_full(true);
        assert_eq!(rt.write_at(&dev, 0, block(2), Durability::Durable).await.0, Ok(()), "overwriting needs no space");
        assert_eq!(rt.write_at(&dev, 8192, block(2), Durability::Durable).await.0, Err(DeviceError::NoSpace));
        assert_eq!(dev.counters().errors.load(std::sync::atomic::Ordering::Relaxed), 2 + 5 + 1 + 1 + 1);
    });
}

#[test]
fn lost_misdirected_and_corrupt_blocks_report_success() {
    block_on(4, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
        let faults = disk(&rt, &dev);
        faults.lose_writes(1, 0..u64::MAX);
        assert_eq!(rt.write_at(&dev, 0, block(1), Durability::Durable).await.0, Ok(()));
        assert_eq!(faults.peek(0, 4096), [0; 4096]);
        faults.misdirect_writes(1, 8192, 0..u64::MAX);
        assert_eq!(rt.write_at(&dev, 0, block(2), Durability::Durable).await.0, Ok(()));
        assert_eq!((faults.peek(0, 4096), faults.peek(8192, 4096)), (vec![0; 4096], vec![2; 4096]));
        assert_eq!(rt.write_at(&dev, 0, block(3), Durability::Durable).await.0, Ok(()));
        faults.corrupt(1024);
        let wrong: Vec<usize> = faults.peek(0, 4096).iter().enumerate().filter(|(_, b)| **b != 3).map(|(i, _)| i).collect();
        assert!(wrong.len() == 1 && (1024..1536).contains(&wrong[0]), "{wrong:?}");
    });
}

#[test]
fn slow_and_stalled_devices_take_longer() {
    block_on(4, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions { read_ns: (1000, 1000), ..Default::default() });
        let faults = disk(&rt, &dev);
        let t = rt.now();
        faults.slow(1000);
        rt.read_at(&dev, 0, Buf::alloc(4096)).await.0.unwrap();
        assert!(rt.now().since(t) >= Duration::from_millis(1));
        faults.heal();
        faults.stall(Duration::from_secs(5));
        let t = rt.now();
        rt.read_at(&dev, 0, Buf::alloc(4096)).await.0.unwrap();
        assert!(rt.now().since(t) >= Duration::from_secs(5));
    });
}

#[test]
fn discarded_blocks_read_as_zeroes_or_as_they_were() {
    let mut zeroes = 0;
    for seed in 0..20 {
        let zeroed = block_on(seed, async |rt| {
            let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
            rt.write_at(&dev, 0, block(7), Durability::Durable).await.0.unwrap();
            rt.write_at(&dev, 4096, block(8), Durability::Durable).await.0.unwrap();
            rt.discard_at(&dev, 0, 4096).await.unwrap();
            let now = disk(&rt, &dev).peek(0, 8192);
            assert!([[0; 8], [7; 8]].contains(&sectors(&now[..4096]).try_into().unwrap()));
            assert_eq!(now[4096..], [8; 4096], "outside of the range");
            now[0] == 0
        });
        zeroes += usize::from(zeroed);
    }
    assert!((1..20).contains(&zeroes), "both happen: {zeroes}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// After any mix of volatile and durable writes and flushes, cut at any time: each sector holds the newest version that was
    /// promised to last, or one that came after it.
    #[test]
    fn a_loss_of_power_never_goes_behind_what_was_promised(
        seed: u64, cut_us in 0..4000u64, ops in prop::collection::vec((0..4u64, 0..8u8), 1..40),
    ) {
        let mut w = World::new(seed);
        let host = w.add_host(1, |_| Box::new(TasksOnly));
        let dev = w.device(1 << 16, SimDeviceOptions::default());
        // Per block: the least version that must be there, and the newest that was begun.
        let floor: Rc<RefCell<BTreeMap<u64, u8>>> = Rc::default();
        let newest: Rc<RefCell<BTreeMap<u64, u8>>> = Rc::default();
        let (f, n, d) = (Rc::clone(&floor), Rc::clone(&newest), dev.clone());
        w.spawn(host, 0, move |rt| async move {
            let mut done: BTreeMap<u64, u8> = BTreeMap::new();
            for (i, (at, kind)) in ops.into_iter().enumerate() {
                let version = i as u8 + 1;
                if kind == 0 {
                    rt.flush_dev(&d).await.unwrap();
                    f.borrow_mut().extend(done.iter());
                } else {
                    n.borrow_mut().insert(at, version);
                    let durability = if kind < 3 { Durability::Durable } else { Durability::Volatile };
                    rt.write_at(&d, at * 4096, block(version), durability).await.0.unwrap();
                    done.insert(at, version);
                    if durability == Durability::Durable {
                        f.borrow_mut().insert(at, version);
                    }
                }
            }
        });
        w.run_for(Duration::from_micros(cut_us));
        w.kill(host);
        for at in 0..4 {
            let least = floor.borrow().get(&at).copied().unwrap_or(0);
            let most = newest.borrow().get(&at).copied().unwrap_or(0);
            for tag in sectors(&w.disk(&dev).peek(at * 4096, 4096)) {
                prop_assert!((least..=most).contains(&tag), "block {at}: {tag} is not in {least}..={most}");
            }
        }
    }
}

#[test]
fn who_watches_a_disk_sees_each_write_and_may_fail_it() {
    block_on(3, async |rt| {
        let dev = device(&rt, 1 << 20, SimDeviceOptions::default());
        let sim = disk(&rt, &dev);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let list = Rc::clone(&seen);
        sim.watch(move |write| {
            let SimWrite::Write { offset, first, last } = *write else { return Err(DeviceError::NoSpace) };
            list.borrow_mut().push((offset, first[0], last[0]));
            if first[0] == 7 { Err(DeviceError::Media) } else { Ok(()) }
        });
        assert_eq!(rt.flush_dev(&dev).await, Err(DeviceError::NoSpace));
        for (at, first, last) in [(0, 1, 2), (8192, 7, 8)] {
            let bufs: BufVec = [block(first), block(last)].into_iter().flatten().collect();
            let result = rt.write_at(&dev, at, bufs, Durability::Durable).await.0;
            assert_eq!(result.is_err(), first == 7);
        }
        assert_eq!(*seen.borrow(), [(0, 1, 2), (8192, 7, 8)]);
        assert_eq!(sim.peek(8192, 8192), [0; 8192], "nothing of it reached the disk");
        sim.heal();
        rt.write_at(&dev, 0, block(7), Durability::Durable).await.0.unwrap();
        assert_eq!(seen.borrow().len(), 2, "healed: nobody watches");
    });
}

/// What reads of a block return while it is written again and again, and whether it ends as the last write left it.
fn sectors_seen(seed: u64, spread: bool) -> Vec<Vec<u8>> {
    block_on(seed, async move |rt| {
        let options = SimDeviceOptions { spread, read_ns: (200_000, 400_000), ..SimDeviceOptions::default() };
        let dev = device(&rt, 1 << 20, options);
        let write = |byte: u8| rt.write_at(&dev, 0, block(byte), Durability::Volatile);
        let mut seen = Vec::new();
        for round in 0..40u8 {
            let read = rt.read_at(&dev, 0, Buf::alloc(4096));
            let mut read = Box::pin(read);
            for n in 0..4 {
                begin(&mut read);
                write(1 + round * 4 + n).await.0.unwrap();
            }
            let (result, buf) = read.await;
            result.unwrap();
            let found = sectors(&buf);
            assert!(found.iter().all(|s| *s >= round * 4 && *s <= round * 4 + 4), "what lay there during the read: {found:?}");
            let (result, buf) = rt.read_at(&dev, 0, Buf::alloc(4096)).await;
            result.unwrap();
            assert!(buf.iter().all(|b| *b == 4 + round * 4), "nothing is under way: the last write is whole");
            seen.push(found);
        }
        seen
    })
}

/// Lets a future begin what it does, without waiting for it.
fn begin<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending());
}

#[test]
fn a_read_that_is_not_over_in_one_instant_is_a_mixture_of_what_lay_there_meanwhile() {
    let mixed = |seen: &[Vec<u8>]| seen.iter().filter(|s| s.iter().any(|b| *b != s[0])).count();
    assert_eq!(mixed(&sectors_seen(5, false)), 0, "a plain device reads in one instant");
    let seen = sectors_seen(5, true);
    assert!(mixed(&seen) > 3, "{seen:?}");
    assert_eq!(seen, sectors_seen(5, true), "a function of the seed");
}

#[test]
fn single_operations_end_long_after_later_ones() {
    block_on(9, async |rt| {
        let options = SimDeviceOptions { late_reads: (8, 50_000_000), ..SimDeviceOptions::default() };
        let dev = device(&rt, 1 << 20, options);
        let mut times = Vec::new();
        for _ in 0..200 {
            let began = rt.now();
            rt.read_at(&dev, 0, Buf::alloc(4096)).await.0.unwrap();
            times.push(rt.now().since(began).as_nanos() as u64);
        }
        let late = times.iter().filter(|ns| **ns > 5_000_000).count();
        assert!((5..60).contains(&late), "{late} of 200");
    });
}

#[test]
fn shared_bytes_are_written_to_two_devices_at_once() {
    let before = buffers_outstanding();
    block_on(3, async |rt| {
        let devices = [(); 2].map(|()| device(&rt, 1 << 20, SimDeviceOptions::default()));
        let mut shared = block(5).remove(0);
        let writes = devices.each_ref().map(|dev| {
            let bufs: BufVec = [block(1).remove(0), shared.share()].into_iter().collect();
            rt.write_at(dev, 0, bufs, Durability::Durable)
        });
        for (dev, write) in devices.iter().zip(writes) {
            write.await.0.unwrap();
            let (result, buf) = rt.read_at(dev, 0, Buf::alloc(8192)).await;
            result.unwrap();
            assert_eq!(sectors(&buf), [[1; 8], [5; 8]].concat());
        }
        assert!(shared.reclaim().is_ok(), "the operations gave back what they had");
    });
    assert_eq!(buffers_outstanding(), before);
}
