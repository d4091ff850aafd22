//! Scrub: what it looks at, what it says, and what it leaves alone.

use super::faults::{find, lazy};
use super::harness::{Lab, Running, Setup, component_spec, quick, write_op};
use crate::{BadBlock, ComponentNo, Settings, open_group};
use base::unit::{BLOCK_BYTES, CHUNK_BYTES};
use base::{BlockNo, Duration};
use rt::Rt;

fn start(rt: &Rt, s: &Running) {
    s.shard.borrow_mut().as_mut().expect("open").start_scrub(rt);
}

async fn ended(rt: &Rt, s: &Running, passes: u64) {
    while s.stats().scrub_passes < passes {
        rt.sleep(Duration::from_millis(1)).await;
    }
}

/// A whole pass; how many blocks it verified, and those that it found bad.
async fn pass(rt: &Rt, s: &Running) -> (u64, Vec<u64>) {
    let before = s.stats();
    start(rt, s);
    ended(rt, s, before.scrub_passes + 1).await;
    let after = s.stats();
    let found = after.bad_blocks.iter().filter(|b| !before.bad_blocks.contains(b)).map(|b| b.block.0);
    (after.scrubbed_blocks - before.scrubbed_blocks, found.collect())
}

fn at_rate(bytes_per_s: u64) -> Settings {
    Settings { scrub_bytes_per_s: bytes_per_s, ..lazy() }
}

fn set(s: &Running, settings: Settings) {
    s.shard.borrow_mut().as_mut().expect("open").set_settings(settings);
}

#[test]
fn a_pass_verifies_each_block_with_a_checksum_once_where_its_newest_version_lies() {
    let mut lab = Lab::new(700, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 0, &[1, 2, 3, 4, 5]).await.unwrap();
        s.call(&rt, c, 100, 2, write_op(c, 100, &[6, 7], false)).await.result.unwrap();
        s.drained(&rt).await;
        assert_eq!(pass(&rt, &s).await, (5, vec![]), "on capacity");
        set(&s, lazy());
        s.write(&rt, c, 1, &[12, 13]).await.unwrap();
        s.write(&rt, c, 300, &[14]).await.unwrap();
        s.call(&rt, c, 400, 1, write_op(c, 400, &[15], false)).await.result.unwrap();
        assert_eq!(pass(&rt, &s).await, (6, vec![]), "three on capacity, three in the log");
        assert_eq!(pass(&rt, &s).await, (6, vec![]), "and again");
        assert_eq!((s.stats().checksum_errors, s.stats().read_errors), (0, 0));
    });
}

#[test]
fn a_pass_finds_what_is_damaged_in_the_log_and_on_capacity_and_nothing_that_has_no_checksum() {
    let mut lab = Lab::new(701, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 0, &[1000, 1001, 1002]).await.unwrap();
        s.call(&rt, c, 100, 1, write_op(c, 100, &[1100], false)).await.result.unwrap();
        s.drained(&rt).await;
        set(&s, lazy());
        s.write(&rt, c, 200, &[1200, 1201]).await.unwrap();
        s.call(&rt, c, 300, 1, write_op(c, 300, &[1300], false)).await.result.unwrap();
    });
    for (device, value) in [(1, 1001), (1, 1100), (0, 1201), (0, 1300)] {
        let at = find(&lab, device, value);
        lab.world.disk(&lab.devices[device]).corrupt(at + 3000);
    }
    lab.with(lazy(), async |rt, s| {
        let (verified, mut found) = pass(&rt, &s).await;
        found.sort_unstable();
        assert_eq!((verified, found), (5, vec![1, 201]));
        assert_eq!((s.stats().checksum_errors, s.stats().read_errors), (2, 0));
        // Another pass counts them again, and lists none twice.
        assert_eq!(pass(&rt, &s).await, (5, vec![]));
        assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (4, 2));
        s.check();
    });
}

#[test]
fn a_chunk_that_cannot_be_read_is_bad_as_a_whole_when_that_happens_twice() {
    for times in [1, 2] {
        let mut lab = Lab::new(702, &Setup::default());
        let c = lab.components[0];
        lab.with(quick(), async |rt, s| {
            s.write(&rt, c, 0, &[1000, 1001]).await.unwrap();
            s.write(&rt, c, 50, &[1050]).await.unwrap();
            s.drained(&rt).await;
        });
        let at = find(&lab, 1, 1000);
        let disk = lab.world.disk(&lab.devices[1]);
        lab.with(lazy(), async |rt, s| {
            disk.fail_reads(at..at + 1, Some(times));
            let (verified, found) = pass(&rt, &s).await;
            assert_eq!((verified, found), (3, if times == 2 { vec![0, 1] } else { vec![] }));
            assert_eq!(s.stats().read_errors, u64::from(times == 2));
            assert_eq!(s.stats().checksum_errors, if times == 2 { 2 } else { 0 });
        });
    }
}

#[test]
fn a_block_of_the_log_is_bad_when_it_is_wrong_twice() {
    for (flips, times) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
        let mut lab = Lab::new(703, &Setup::default());
        let c = lab.components[0];
        let log = lab.world.disk(&lab.devices[0]);
        lab.with(lazy(), async |rt, s| {
            s.write(&rt, c, 7, &[70]).await.unwrap();
            if flips {
                log.flip_reads(times)
            } else {
                log.fail_reads(0..u64::MAX, Some(times))
            }
            assert_eq!(pass(&rt, &s).await, (1, if times == 2 { vec![7] } else { vec![] }), "flips {flips}, {times} times");
            s.check();
        });
    }
}

#[test]
fn what_is_on_capacity_is_verified_there_though_the_log_still_has_it() {
    let mut lab = Lab::new(704, &Setup::default());
    let c = lab.components[0];
    let capacity = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        capacity.fail_flushes(None); // so that nothing is released
        s.write(&rt, c, 0, &[1000, 1001]).await.unwrap();
        while s.stats().log_live_bytes > 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
    });
    let at = find(&lab, 1, 1001);
    capacity.corrupt(at + 100);
    lab.with(lazy(), async |rt, s| {
        assert_eq!(pass(&rt, &s).await, (4, vec![1]), "two blocks, and each is in both places");
        assert_eq!(s.stats().segments_released, 0);
    });
}

#[test]
fn a_pass_keeps_to_its_rate_says_how_far_it_is_and_runs_once_at_a_time() {
    let mut lab = Lab::new(705, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        let (chunks, logged, rate) = (20, 100, 1 << 20);
        for i in 0..chunks {
            s.write(&rt, c, i * 16, &[1000 + i]).await.unwrap();
        }
        s.drained(&rt).await;
        set(&s, at_rate(rate));
        for i in 0..logged {
            s.write(&rt, c, i * 3, &[2000 + i]).await.unwrap();
        }
        assert_eq!((s.stats().scrubbing, s.stats().scrub_progress), (false, 0.0));
        let began = rt.now();
        start(&rt, &s);
        let (mut before, mut seen) = (0.0, 0);
        while s.stats().scrubbing {
            start(&rt, &s); // there is one: nothing happens
            let progress = s.stats().scrub_progress;
            assert!(progress >= before && progress <= 1.0, "{progress} after {before}");
            seen += u32::from(progress > before);
            before = progress;
            rt.sleep(Duration::from_millis(20)).await;
        }
        let took = rt.now().since(began).as_secs_f64();
        let bytes = chunks * CHUNK_BYTES + logged * BLOCK_BYTES as u64;
        let least = bytes as f64 / rate as f64;
        assert!(took >= least && took < least * 1.1, "{took} s instead of {least} s");
        assert_eq!((s.stats().scrub_passes, s.stats().scrub_progress, s.stats().scrubbing), (1, 1.0, false));
        assert!(seen >= 15, "{seen} steps");
        rt.sleep(Duration::from_secs(5)).await;
        assert_eq!(s.stats().scrub_passes, 1);
        start(&rt, &s);
        assert!(s.stats().scrubbing && s.stats().scrub_progress == 0.0);
        ended(&rt, &s, 2).await;
    });
}

/// The log goes round while a scrub waits for its read of it: the place is not written again before the read has come back.
#[test]
fn what_a_scrub_reads_in_the_log_stays_there_until_it_has_come_back() {
    let mut lab = Lab::new(706, &Setup::default());
    let c = lab.components[0];
    let log = lab.world.disk(&lab.devices[0]);
    lab.with(lazy(), async |rt, s| {
        s.write(&rt, c, 5, &[50]).await.unwrap();
        log.stall(Duration::from_secs(2));
        start(&rt, &s);
        while log.in_flight() == 0 {
            rt.sleep(Duration::from_micros(100)).await;
        }
        log.stall(Duration::ZERO);
        let ends = rt.now() + Duration::from_millis(1900);
        set(&s, quick());
        let mut n = 0;
        while rt.now() < ends && n < 3000 {
            s.write(&rt, c, 5 + n % 700, &[1000 + n]).await.unwrap();
            n += 1;
        }
        assert!(s.stats().segments_released > 0, "{n} writes");
        ended(&rt, &s, 1).await;
        for _ in 0..3000 {
            s.write(&rt, c, 5 + n % 700, &[1000 + n]).await.unwrap();
            n += 1;
        }
        assert!(s.stats().segments_released > 16, "the log has gone round: {}", s.stats().segments_released);
        assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (0, 0), "what was reused is not what was read");
        s.check();
    });
}

/// What was listed to be read is overwritten, and its place reused, before its turn comes.
#[test]
fn a_scrub_does_not_judge_what_is_not_there_any_more() {
    let mut lab = Lab::new(707, &Setup::default());
    let c = lab.components[0];
    lab.with(at_rate(64 << 10), async |rt, s| {
        // The blocks of a chunk are listed together.
        s.write(&rt, c, 0, &(0..16).map(|i| 50 + i).collect::<Vec<u64>>()).await.unwrap();
        start(&rt, &s);
        while s.stats().scrubbed_blocks == 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        set(&s, Settings { scrub_bytes_per_s: 16 << 10, ..quick() });
        for n in 0..3000 {
            s.write(&rt, c, n % 700, &[1000 + n]).await.unwrap();
        }
        assert!(s.stats().segments_released > 8, "{:?}", s.stats().segments_released);
        set(&s, quick());
        ended(&rt, &s, 1).await;
        assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (0, 0));
        s.check();
    });
}

/// Twice in a row a chunk is written again while the scrub waits for it.
#[test]
fn a_chunk_that_changes_under_a_slow_scrub_is_not_bad() {
    let mut lab = Lab::new(708, &Setup::default());
    let c = lab.components[0];
    let capacity = lab.world.disk(&lab.devices[1]);
    let hold = Duration::from_secs(2);
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 5, &[50]).await.unwrap();
        s.drained(&rt).await;
        capacity.stall(hold);
        start(&rt, &s);
        rt.sleep(Duration::from_millis(1)).await;
        for n in 1..4 {
            capacity.stall(Duration::ZERO);
            let ends = rt.now() + hold;
            s.write(&rt, c, 5, &[50 + n]).await.unwrap();
            s.drained(&rt).await;
            assert!(rt.now() < ends);
            rt.sleep(ends.since(rt.now()).saturating_sub(Duration::from_millis(100))).await;
            capacity.stall(hold);
            rt.sleep(Duration::from_millis(101)).await;
        }
        capacity.stall(Duration::ZERO);
        ended(&rt, &s, 1).await;
        assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (0, 0));
    });
}

#[test]
fn nothing_of_a_component_that_was_dropped_is_reported_as_bad() {
    let components = vec![component_spec(1, 0, 0), component_spec(2, 0, 0)];
    let mut lab = Lab::new(709, &Setup { components, ..Setup::default() });
    let (a, b): (ComponentNo, ComponentNo) = (lab.components[0], lab.components[1]);
    lab.with(lazy(), async |rt, s| {
        s.write(&rt, a, 0, &[1000, 1001]).await.unwrap();
        s.write(&rt, b, 0, &[2000, 2001]).await.unwrap();
    });
    for value in [1001, 2001] {
        let at = find(&lab, 0, value);
        lab.world.disk(&lab.devices[0]).corrupt(at + 1500);
    }
    let devices = lab.devices.clone();
    lab.with(lazy(), async |rt, s| {
        open_group(&rt, None, &devices).await.unwrap().delete_component(&rt, a).await.unwrap();
        s.shard.borrow_mut().as_mut().expect("open").drop_component(&rt, a);
        rt.sleep(Duration::from_millis(10)).await;
        assert_eq!(pass(&rt, &s).await.0, 2);
        assert_eq!(s.stats().bad_blocks, [BadBlock { component: b, block: BlockNo(1) }]);
        s.check();
    });
}
