//! What a shard reports: compared with what was done to it, and with what its devices counted.

use super::faults::lazy;
use super::harness::{Lab, Setup, component_spec, next_order, quick, read_op, write_op};
use crate::{BATCH_CLASSES, Crcs, OpKind, Settings, Shard, ShardOp, StoreError, open_group};
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS};
use base::{BlockNo, Duration};
use rt::sim::{Rng, SimDeviceOptions};
use rt::{DeviceError, Rt};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What the statistics must say.
#[derive(Default)]
struct Done {
    reads: u64,
    read_blocks: u64,
    read_log_blocks: u64,
    writes: u64,
    written_blocks: u64,
    trims: u64,
    empty_trims: u64,
    batches: u64,
    batch_blocks: [u64; BATCH_CLASSES],
}

impl Done {
    fn batch(&mut self, blocks: u64) {
        self.batches += 1;
        self.batch_blocks[(0..BATCH_CLASSES).find(|i| blocks <= 1 << i).expect("a batch of up to 256 blocks")] += 1;
    }
}

#[test]
fn what_was_done_is_what_is_reported() {
    let mut lab = Lab::new(800, &Setup { cache_mib: 33, capacity_mib: vec![16, 16], ..Setup::default() });
    let (c, cache) = (lab.components[0], lab.devices[0].clone());
    let segment = 1u64 << 20;
    let (held, segments) = lab.with(lazy(), async |rt, s| {
        let before = cache.counters().write_bytes.load(Relaxed);
        let (mut rng, mut done, mut held) = (Rng::new(8), Done::default(), BTreeSet::new());
        // So many at once that the header of their batch takes more than a block.
        for b in 4096..4096 + 190 {
            s.submit(&rt, c, b, 1, write_op(c, b, &[b], true));
            held.insert(b);
        }
        rt.sleep(Duration::from_millis(50)).await;
        assert_eq!(s.take_done().len(), 190);
        (done.writes, done.written_blocks) = (done.writes + 190, done.written_blocks + 190);
        done.batch(190);
        for i in 0..500u64 {
            let block = rng.below(3000);
            let most = if rng.one_in(8) { 100 } else { 5 };
            let blocks = (1 + rng.below(most)).min(256 - block % 256);
            let range = block..block + blocks;
            let here = range.clone().filter(|b| held.contains(b)).count() as u64;
            match rng.below(10) {
                0..5 => {
                    let values: Vec<u64> = range.clone().map(|b| 1 + b + i * 10_000).collect();
                    s.write(&rt, c, block, &values).await.unwrap();
                    held.extend(range);
                    (done.writes, done.written_blocks) = (done.writes + 1, done.written_blocks + blocks);
                    done.batch(blocks);
                }
                5..8 => {
                    s.read(&rt, c, block, blocks as u32).await.unwrap();
                    (done.reads, done.read_blocks, done.read_log_blocks) =
                        (done.reads + 1, done.read_blocks + blocks, done.read_log_blocks + here);
                }
                n => {
                    let kind = if n == 8 { OpKind::Trim } else { OpKind::Zero };
                    s.call(&rt, c, block, blocks as u32, kind).await.result.unwrap();
                    held.retain(|b| !range.contains(b));
                    done.trims += 1;
                    if here > 0 { done.batch(0) } else { done.empty_trims += 1 }
                }
            }
            s.call(&rt, c, 0, 0, OpKind::Flush).await.result.unwrap();
        }
        let stats = s.stats();
        let found = (stats.reads, stats.read_blocks, stats.read_log_blocks, stats.writes, stats.written_blocks);
        assert_eq!(found, (done.reads, done.read_blocks, done.read_log_blocks, done.writes, done.written_blocks));
        assert!(done.read_log_blocks > 100 && done.empty_trims > 10 && done.trims > done.empty_trims + 10);
        assert_eq!((stats.trims, stats.empty_trims), (done.trims, done.empty_trims));
        assert_eq!((stats.batches, stats.batch_blocks), (done.batches, done.batch_blocks));
        assert_eq!((stats.log_bytes, stats.log_live_bytes), (32 * segment, held.len() as u64 * BLOCK));
        let segments = stats.log_used_bytes / segment;
        assert!(segments > 3 && stats.log_used_bytes % segment == 0);
        // Every byte that the log's device was given is data, a header of a segment, or counted as what data costs.
        let given = cache.counters().write_bytes.load(Relaxed) - before;
        assert_eq!(given, done.written_blocks * BLOCK + stats.log_overhead_bytes + segments * BLOCK);
        let chunks = held.iter().map(|b| b / CHUNK_BLOCKS).collect::<BTreeSet<_>>().len() as u64;
        assert_eq!((stats.chunks_allocated, stats.component_chunks), (chunks, vec![(c, chunks)]));
        assert_eq!((stats.destaged_bytes, stats.checkpoints, stats.segments_released, stats.no_space), (0, 0, 0, 0));
        assert_eq!((stats.waiting, stats.in_flight, stats.failed, stats.delayed_writes), (0, 0, false, 0));
        (held.len() as u64, segments)
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        let stats = s.stats();
        assert_eq!((stats.recovered_blocks, stats.recovered_segments, stats.log_live_bytes), (held, segments, held * BLOCK));
        assert!(stats.recovery_time > Duration::ZERO && stats.recovery_time < Duration::from_secs(5));
        s.drained(&rt).await;
        let stats = s.stats();
        assert_eq!(stats.destaged_bytes, held * BLOCK);
        // What is released and what is still in use was there before, or was opened for a batch that said so.
        let opened = stats.segments_released + stats.log_used_bytes / segment;
        assert!(stats.checkpoints > 0 && (segments..=segments + stats.batches).contains(&opened), "{stats:?}");
    });
}

#[test]
fn space_is_reported_for_each_device_and_each_component() {
    let components = vec![component_spec(1, 0, 30), component_spec(2, 1, 0), component_spec(3, 1, 12)];
    let mut lab = Lab::new(801, &Setup { capacity_mib: vec![16, 24], components, ..Setup::default() });
    let (a, b, d) = (lab.components[0], lab.components[1], lab.components[2]);
    let devices = lab.devices.clone();
    lab.with(lazy(), async |rt, s| {
        for i in 0..5 {
            s.write(&rt, a, i * 16, &[1]).await.unwrap();
        }
        s.write(&rt, b, 0, &[1; 40]).await.unwrap();
        let group = open_group(&rt, None, &devices).await.unwrap();
        let total: Vec<u64> = group.info().geometry.capacity.iter().map(|g| u64::from(g.chunks_per_shard)).collect();
        let stats = s.stats();
        assert_eq!((stats.chunks_total, stats.chunks_allocated), (total[0] + total[1], 8));
        assert_eq!(stats.component_chunks, [(a, 5), (b, 3), (d, 0)]);
        let space: Vec<_> = stats.space.iter().map(|x| (x.total, x.free, x.promised)).collect();
        assert_eq!(space, [(total[0], total[0] - 5, 25), (total[1], total[1] - 3, 12)]);
        assert_eq!(stats.no_space, 0);
        // What is refused is counted, each time.
        let mut refused = 0;
        for i in 0..total[1] {
            refused += u64::from(s.write(&rt, b, 1000 + i * 16, &[1]).await == Err(StoreError::NoSpace));
        }
        assert_eq!((s.stats().no_space, refused), (refused, 12 + 3));
    });
}

#[test]
fn the_fill_is_what_is_in_the_log_and_not_yet_on_capacity() {
    let mut lab = Lab::new(802, &Setup::default());
    let c = lab.components[0];
    let total = 8.0 * 256.0;
    lab.with(lazy(), async |rt, s| {
        for n in 1..=100u64 {
            s.write(&rt, c, n * 3, &[1000 + n]).await.unwrap();
            // The header of the segment, and two blocks for each write.
            assert_eq!((s.stats().fill * total).round(), (1 + 2 * n) as f64);
        }
    });
    // From many records, with a header each, to rest at the lower mark: it goes down with them, not in steps.
    let mut lab = Lab::new(803, &Setup::default());
    let c = lab.components[0];
    lab.with(Settings { fill_low: 0.1, fill_high: 0.4, ..Settings::default() }, async |rt, s| {
        let capacity_rests = s.stats().destaged_bytes;
        assert_eq!(capacity_rests, 0);
        for n in 0..330u64 {
            s.write(&rt, c, n * 3, &[1000 + n]).await.unwrap();
        }
        for _ in 0..2000 {
            let stats = s.stats();
            let live = 2.0 * (stats.log_live_bytes / BLOCK) as f64 / total;
            assert!((stats.fill - live).abs() < 0.07, "fill {}, live with headers {live}", stats.fill);
            rt.sleep(Duration::from_micros(100)).await;
        }
    });
}

#[test]
fn what_waits_and_what_is_under_way_are_counted() {
    let mut lab = Lab::new(804, &Setup::default());
    let c = lab.components[0];
    let cache = lab.world.disk(&lab.devices[0]);
    lab.with(lazy(), async |rt, s| {
        s.write(&rt, c, 0, &[1]).await.unwrap();
        cache.stall(Duration::from_millis(100));
        for i in 0..3 {
            s.submit(&rt, c, 10 + i, 1, write_op(c, 10 + i, &[2], true));
        }
        rt.sleep(Duration::from_micros(10)).await; // they are in a batch
        for i in 0..4 {
            s.submit(&rt, c, 20 + i, 1, write_op(c, 20 + i, &[3], true));
        }
        s.submit(&rt, c, 0, 1, read_op(1));
        rt.sleep(Duration::from_micros(10)).await;
        assert_eq!((s.stats().waiting, s.stats().in_flight), (4, 8));
        rt.sleep(Duration::from_millis(300)).await;
        assert_eq!((s.stats().waiting, s.stats().in_flight), (0, 0));
        assert_eq!(s.take_done().len(), 8);
        let longest = s.stats().admission_wait_max;
        assert!(longest > Duration::from_millis(90) && longest < Duration::from_millis(110), "{longest:?}");
    });
}

#[test]
fn the_pace_is_reported_while_writes_are_held_back() {
    let slow = SimDeviceOptions { bytes_per_s: 40_000_000, write_ns: (200_000, 400_000), ..SimDeviceOptions::default() };
    let mut lab = Lab::new(805, &Setup { cache_mib: 33, capacity_mib: vec![80], capacity: slow, ..Setup::default() });
    let c = lab.components[0];
    lab.with(Settings { fill_low: 0.02, fill_high: 0.1, ..Settings::default() }, async |rt, s| {
        assert_eq!((s.stats().admission_bytes_per_s, s.stats().drain_bytes_per_s, s.stats().delayed_writes), (None, 0, 0));
        let (mut rates, mut n) = (0, 0u64);
        let began = rt.now();
        while rt.now().since(began) < Duration::from_secs(2) {
            while s.stats().in_flight < 16 {
                n += 1;
                let block = n * 7 % 15_000;
                s.submit(&rt, c, block, 1, write_op(c, block, &[n], true));
            }
            s.some_ended().await;
            s.take_done();
            let stats = s.stats();
            assert_eq!(stats.admission_bytes_per_s.is_some(), stats.fill > 0.1, "{stats:?}");
            rates += u32::from(stats.admission_bytes_per_s.is_some());
        }
        let stats = s.stats();
        assert!(rates > 100 && stats.delayed_writes > 10, "{rates}, {stats:?}");
        assert!(stats.admission_wait_max > Duration::from_micros(100) && stats.admission_wait_max < Duration::from_secs(1), "{stats:?}");
        assert!((1_000_000..1_000_000_000).contains(&stats.drain_bytes_per_s), "{}", stats.drain_bytes_per_s);
    });
}

#[test]
fn whatever_is_refused_or_fails_gives_its_buffer_back_and_changes_no_count_of_what_was_done() {
    let mut lab = Lab::new(806, &Setup { capacity_mib: vec![7], ..Setup::default() });
    let c = lab.components[0];
    let (cache, none) = (lab.world.disk(&lab.devices[0]), crate::ComponentNo(77));
    lab.with(lazy(), async |rt, s| {
        let total = s.stats().chunks_total;
        // Without its checksums a write gets them here.
        let OpKind::Write { buf, checksum, .. } = write_op(c, 0, &[5, 6], true) else { unreachable!() };
        let done = s.call(&rt, c, 0, 2, OpKind::Write { buf, crcs: Crcs::new(), checksum }).await;
        assert_eq!((done.result, s.read(&rt, c, 0, 2).await), (Ok(()), Ok(vec![5, 6])));
        // All chunks but one are taken: a write over the border of two is refused as a whole, wherever it begins, and keeps nothing.
        for i in 1..total - 1 {
            s.write(&rt, c, i * 16, &[1]).await.unwrap();
        }
        s.call(&rt, c, 3, 1, OpKind::Uncorrectable).await.result.unwrap();
        let before = s.stats();
        for (at, blocks) in [(0, 32), (7, 20), (15, 2), (0, 17)] {
            let block = (total + 20) * 16 + at;
            let done = s.call(&rt, c, block, blocks, write_op(c, block, &vec![9; blocks as usize], true)).await;
            assert_eq!((done.result, done.buf.is_some()), (Err(StoreError::NoSpace), true));
            assert_eq!(s.stats().chunks_allocated, total - 1, "{blocks} blocks from {at}");
            assert_eq!(s.call(&rt, c, block, blocks, OpKind::Uncorrectable).await.result, Err(StoreError::NoSpace));
            s.check();
        }
        let read = s.call(&rt, none, 0, 1, read_op(1)).await;
        assert_eq!((read.result, read.buf.is_some()), (Err(StoreError::NoComponent), true));
        let write = s.call(&rt, none, 0, 1, write_op(none, 0, &[1], true)).await;
        assert_eq!((write.result, write.buf.is_some()), (Err(StoreError::NoComponent), true));
        assert_eq!(s.call(&rt, none, 0, 1, OpKind::Trim).await.result, Err(StoreError::NoComponent));
        let read = s.call(&rt, c, 0, 4, read_op(4)).await;
        assert_eq!((read.result, read.buf.is_some()), (Err(StoreError::Uncorrectable { block: BlockNo(3) }), true));
        assert!(!s.shard.borrow().as_ref().expect("open").pieces(none, 0, 1, 100, |_| ()), "of what is not there nothing can be said");
        cache.fail_reads(0..u64::MAX, None);
        let read = s.call(&rt, c, 0, 2, read_op(2)).await;
        assert_eq!((read.result, read.buf.is_some()), (Err(StoreError::Media { block: BlockNo(0) }), true));
        cache.heal();
        cache.fail_writes(0..u64::MAX, None, DeviceError::Media);
        let write = s.call(&rt, c, 0, 1, write_op(c, 0, &[1], true)).await;
        assert_eq!((write.result, write.buf.is_some()), (Err(StoreError::DeviceFailed), true));
        // From now on everything that changes anything is refused at once.
        for kind in [OpKind::Trim, OpKind::Zero, OpKind::Uncorrectable, write_op(c, 0, &[1], true)] {
            let now = rt.now();
            let done = s.call(&rt, c, 0, 1, kind).await;
            assert_eq!((done.result, rt.now().since(now) < Duration::from_micros(50)), (Err(StoreError::DeviceFailed), true));
        }
        let now = rt.now();
        assert_eq!(s.call(&rt, c, 0, 0, OpKind::Flush).await.result, Err(StoreError::DeviceFailed));
        assert!(rt.now().since(now) < Duration::from_micros(50));
        let after = s.stats();
        assert_eq!((after.reads, after.writes, after.trims), (before.reads, before.writes, before.trims));
        assert_eq!(after.no_space - before.no_space, 8);
    });
}

#[test]
fn a_shard_that_closes_takes_nothing_and_is_quiet_when_the_last_answer_was_taken() {
    let mut lab = Lab::new(807, &Setup::default());
    let (c, devices) = (lab.components[0], lab.devices.clone());
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = open_group(&rt, None, &devices).await.unwrap();
        let mut shard = Shard::open(&rt, &group, 0, lazy()).await.unwrap();
        let submit = |shard: &mut Shard, cookie, kind| {
            shard.submit(&rt, ShardOp { cookie, component: c, block: BlockNo(5), blocks: 1, order: next_order(), kind });
        };
        submit(&mut shard, 1, write_op(c, 5, &[50], true));
        shard.begin_shutdown(&rt);
        submit(&mut shard, 2, read_op(1));
        submit(&mut shard, 3, OpKind::Trim);
        assert!(!shard.pieces(c, 0, 1, 100, |_| ()), "what a trim says is asked of the trim");
        for _ in 0..200 {
            shard.poll(&rt);
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert!(!shard.is_quiet(), "there are answers to be taken");
        let mut done: Vec<_> = core::iter::from_fn(|| shard.pop_done()).map(|d| (d.cookie, d.result)).collect();
        done.sort_by_key(|d| d.0);
        assert_eq!(done, [(1, Ok(())), (2, Err(StoreError::Closing)), (3, Err(StoreError::Closing))]);
        for _ in 0..200 {
            shard.poll(&rt);
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert!(shard.is_quiet());
    });
}

#[test]
fn settings_count_from_the_moment_they_are_set() {
    let mut lab = Lab::new(808, &Setup::default());
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| {
        for n in 0..50u64 {
            s.write(&rt, c, n * 3, &[1000 + n]).await.unwrap();
        }
        rt.sleep(Duration::from_secs(30)).await;
        assert_eq!(s.stats().destaged_bytes, 0);
        s.shard.borrow_mut().as_mut().expect("open").set_settings(quick());
        rt.sleep(Duration::from_secs(2)).await;
        assert_eq!(s.stats().destaged_bytes, 50 * BLOCK);
    });
}

/// A device that takes nothing is tried again, ever more rarely: `errors` of so many seconds.
#[test]
fn what_fails_is_tried_again_ever_more_rarely() {
    let mut lab = Lab::new(809, &Setup::default());
    let c = lab.components[0];
    let (cache, capacity) = (lab.world.disk(&lab.devices[0]), lab.world.disk(&lab.devices[1]));
    lab.with(quick(), async |rt, s| {
        capacity.fail_writes(0..u64::MAX, None, DeviceError::Media);
        for n in 0..200u64 {
            s.write(&rt, c, n * 7, &[1000 + n]).await.unwrap();
        }
        rt.sleep(Duration::from_secs(120)).await;
        let (errors, failing) = (s.stats().capacity_write_errors, s.stats().capacity_failing);
        // 50 ms, 100 ms and so on up to 5 s: some thirty rounds, of a few jobs each.
        assert!((20..40).contains(&failing), "{failing} rounds");
        assert!(errors >= u64::from(failing) && errors < 5 * u64::from(failing), "{errors} errors");
        assert_eq!(s.stats().destaged_bytes, 0);
        capacity.heal();
        rt.sleep(Duration::from_secs(6)).await;
        assert_eq!((s.stats().destaged_bytes, s.stats().capacity_failing), (200 * BLOCK, 0));
        cache.fail_writes(0..u64::MAX, None, DeviceError::Media);
        assert_eq!(s.write(&rt, c, 5, &[1]).await, Err(StoreError::DeviceFailed));
        rt.sleep(Duration::from_secs(120)).await;
        let errors = s.stats().log_write_errors;
        assert!((20..40).contains(&errors), "{errors} attempts to write the log");
    });
}

#[test]
fn what_is_clean_is_released_in_time_though_there_is_little_of_it() {
    let mut lab = Lab::new(810, &Setup { cache_mib: 33, ..Setup::default() });
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| {
        // The same few blocks again and again: segments become clean by themselves. One is an eighth of what a checkpoint waits for.
        let began = rt.now();
        let mut n = 0;
        let mut until = async |seconds, each| {
            while rt.now().since(began) < Duration::from_secs(seconds) {
                n += 1;
                s.write(&rt, c, n % 4, &[1000 + n]).await.unwrap();
                rt.sleep(Duration::from_millis(each)).await;
            }
            s.stats()
        };
        let stats = until(25, 100).await;
        assert_eq!((stats.destaged_bytes, stats.checkpoints), (0, 1), "of one segment, ten seconds after the first: {stats:?}");
        assert!(stats.segments_released >= 1);
        // Each segment lasts five seconds now.
        let more = until(65, 40).await;
        assert!((3..=4).contains(&(more.checkpoints - stats.checkpoints)), "one in ten seconds: {more:?}");
    });
}

#[test]
fn the_memory_of_what_the_log_holds_is_reported() {
    let mut lab = Lab::new(811, &Setup::default());
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| {
        s.write(&rt, c, 0, &[1]).await.unwrap();
        let before = s.stats().index_memory_bytes;
        assert!(before > 0);
        // The same block again and again: the index stays as it is, and there is a record for each.
        for n in 0..500 {
            s.write(&rt, c, 0, &[2 + n]).await.unwrap();
        }
        assert!(s.stats().index_memory_bytes > before);
    });
}

#[test]
fn writes_are_held_back_and_not_refused_while_capacity_fails_and_the_log_has_room() {
    let mut lab = Lab::new(812, &Setup::default());
    let c = lab.components[0];
    let capacity = lab.world.disk(&lab.devices[1]);
    lab.with(Settings { fill_low: 0.02, fill_high: 0.1, ..quick() }, async |rt, s| {
        capacity.fail_writes(0..u64::MAX, None, DeviceError::Media);
        // Nine blocks of the log each, of 2048.
        let write = |n: u64| s.submit(&rt, c, n * 8, 8, write_op(c, n * 8, &[1000 + n; 8], true));
        for n in 0..91 {
            write(n);
            s.some_ended().await;
        }
        rt.sleep(Duration::from_secs(60)).await;
        // All workers fail together: that counts once.
        assert!((9..25).contains(&s.stats().capacity_failing) && s.stats().fill > 0.35, "{:?}", s.stats());
        s.take_done();
        let began = rt.now();
        (91..106).for_each(|n| _ = write(n));
        while s.stats().in_flight > 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert!(s.take_done().iter().all(|done| done.result.is_ok()));
        let took = rt.now().since(began);
        assert!(took > Duration::from_millis(30) && took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn trouble_ends_when_data_comes_to_capacity_again() {
    let mut lab = Lab::new(813, &Setup::default());
    let (c, devices, running) = (lab.components[0], lab.devices.clone(), lab.running());
    let capacity = lab.world.disk(&lab.devices[1]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        let group = running.open(&rt, &devices, quick()).await.unwrap();
        capacity.fail_writes(0..u64::MAX, Some(1), DeviceError::Media);
        running.write(&rt, c, 0, &[1]).await.unwrap();
        running.drained(&rt).await;
        assert_eq!(running.stats().capacity_write_errors, 1);
        assert!(!group.trouble().failed(0, &"again", rt.now()), "there was a warning a moment ago");
        assert!(!group.trouble().ended(0), "the end was reported, and no warning since");
    });
}

#[test]
fn a_rest_does_not_count_as_slow_capacity() {
    let slow = SimDeviceOptions { write_ns: (2_000_000, 3_000_000), ..SimDeviceOptions::default() };
    let mut lab = Lab::new(814, &Setup { capacity: slow, ..Setup::default() });
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        for n in 0..300u64 {
            s.write(&rt, c, n * 7, &[1000 + n]).await.unwrap();
        }
        s.drained(&rt).await;
        let before = s.stats().drain_bytes_per_s;
        assert!(before > 0);
        rt.sleep(Duration::from_secs(100)).await;
        // One job, of which it is not known when it began.
        s.write(&rt, c, 0, &[1]).await.unwrap();
        s.drained(&rt).await;
        assert_eq!(s.stats().drain_bytes_per_s, before);
    });
}

#[test]
fn what_is_clean_is_released_when_it_is_much_or_all_or_when_the_shard_closes() {
    let mut lab = Lab::new(815, &Setup { cache_mib: 33, ..Setup::default() });
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| {
        let began = rt.now();
        // An eighth of the segments.
        for n in 0..700u64 {
            s.write(&rt, c, n % 4, &[1000 + n]).await.unwrap();
        }
        rt.sleep(Duration::from_millis(500)).await;
        let much = s.stats();
        assert!((4..6).contains(&much.segments_released), "{much:?}");
        // All.
        s.shard.borrow_mut().as_mut().expect("open").set_settings(quick());
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(s.stats().log_live_bytes, 0);
        assert!(s.stats().checkpoints > much.checkpoints && s.stats().log_used_bytes <= 1 << 20, "{:?}", s.stats());
        // One, while something lies behind it.
        s.shard.borrow_mut().as_mut().expect("open").set_settings(lazy());
        for n in 0..200u64 {
            s.write(&rt, c, n % 4, &[1000 + n]).await.unwrap();
        }
        let before = s.stats().segments_released;
        assert!(rt.now().since(began) < Duration::from_secs(8), "none is due by time");
        s.shut_down(&rt).await;
        assert!(s.stats().segments_released > before && s.stats().log_live_bytes > 0, "{:?}", s.stats());
    });
}

#[test]
fn a_full_log_waits_for_a_capacity_that_fails_for_a_few_seconds() {
    let mut lab = Lab::new(816, &Setup::default());
    let c = lab.components[0];
    let capacity = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        capacity.fail_writes(0..u64::MAX, None, DeviceError::Media);
        for n in 0..250 {
            s.submit(&rt, c, n * 8, 8, write_op(c, n * 8, &[1000 + n; 8], true));
        }
        rt.sleep(Duration::from_secs(3)).await;
        let stats = s.stats();
        assert!((4..8).contains(&stats.capacity_failing) && stats.waiting > 0 && stats.log_used_bytes >= 6 << 20, "{stats:?}");
        capacity.heal();
        rt.sleep(Duration::from_secs(20)).await;
        let done = s.take_done();
        assert_eq!((done.len(), done.iter().filter(|d| d.result.is_ok()).count()), (250, 250));
    });
}
