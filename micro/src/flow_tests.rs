use super::*;
use std::sync::atomic::Ordering::Relaxed;

/// Reads, bytes read, writes and bytes written of each device while the load runs: first the cache, then capacity.
fn device_work(lab: &mut Lab, load: Load, times: u64) -> [[u64; 4]; 2] {
    let now = |lab: &Lab| {
        lab.devices.clone().map(|d| {
            let c = d.counters();
            [&c.reads, &c.read_bytes, &c.writes, &c.write_bytes].map(|n| n.load(Relaxed))
        })
    };
    let before = now(lab);
    let places = VOLUME_BYTES / load.bytes as u64;
    lab.run(line(load), Order::Random(Draw::new(), places), load.depth, times);
    let after = now(lab);
    [0, 1].map(|d| [0, 1, 2, 3].map(|n| after[d][n] - before[d][n]))
}

const BLOCK: u64 = BLOCK_BYTES as u64;

#[test]
fn a_read_from_capacity_is_one_device_operation_of_its_own_size() {
    let mut lab = filled(1, false);
    drain(&mut lab);
    for depth in [1, 32] {
        let work = device_work(&mut lab, load(false, 4, depth, false), 100);
        assert_eq!(work, [[0; 4], [100, 100 * BLOCK, 0, 0]], "depth {depth}");
    }
    // A piece of 128 KiB lies in one place when its chunks do.
    let [cache, capacity] = device_work(&mut lab, load(false, 128, 8, false), 100);
    assert_eq!((cache, capacity[1]), ([0; 4], 100 * 32 * BLOCK));
    assert!(capacity[0] <= 100 * 8, "{capacity:?}: at most one for each of its 8 places of 16 KiB");
}

#[test]
fn a_read_from_the_log_is_one_device_operation_for_each_run_of_blocks() {
    let mut lab = filled(1, true);
    assert_eq!(device_work(&mut lab, load(false, 4, 32, true), 100), [[100, 100 * BLOCK, 0, 0], [0; 4]]);
    let [cache, capacity] = device_work(&mut lab, load(false, 128, 8, true), 100);
    assert_eq!((cache[1], capacity), (100 * 32 * BLOCK, [0; 4]));
    assert!((100 * 30..=100 * 32).contains(&cache[0]), "{cache:?}: blocks written at random lie alone");
}

#[test]
fn writes_that_come_together_share_a_device_operation_and_bring_one_block_more() {
    let mut lab = filled(1, true);
    // A summary of a segment may fall among them.
    let [cache, capacity] = device_work(&mut lab, load(true, 4, 1, true), 320);
    assert!((320..=322).contains(&cache[2]) && cache[0] == 0, "{cache:?}");
    assert_eq!(capacity, [0; 4], "what is durable in the log needs nothing else");
    let [cache, _] = device_work(&mut lab, load(true, 4, 32, true), 320);
    assert!(cache[2] <= 320 / 8, "{cache:?}");
    assert!(cache[3] < 320 * BLOCK + (cache[2] + 2) * 2 * BLOCK + (64 << 10), "{cache:?}: a header a batch, and little else");
}
