//! Blocks that are lost in the log, or nearly: what destaging makes of them, with checksums and without.

use super::faults::{find, lazy, media};
use super::harness::{Lab, Running, Setup, quick, values_of, write_op};
use crate::{BadBlock, ComponentNo};
use base::unit::BLOCK_BYTES;
use base::{BlockNo, Duration};
use rt::Rt;

fn set(s: &Running, settings: crate::Settings) {
    s.shard.borrow_mut().as_mut().expect("open").set_settings(settings);
}

async fn write(rt: &Rt, s: &Running, c: ComponentNo, block: u64, values: &[u64], checksum: bool) {
    s.call(rt, c, block, values.len() as u32, write_op(c, block, values, checksum)).await.result.unwrap();
}

#[test]
fn a_block_that_cannot_be_read_in_the_log_is_lost_with_and_without_checksum_and_its_neighbours_arrive() {
    for (checksum, before) in [(true, false), (true, true), (false, false), (false, true)] {
        let case = format!("checksum {checksum}, with older content {before}");
        let mut lab = Lab::new(600, &Setup::default());
        let c = lab.components[0];
        let log = lab.world.disk(&lab.devices[0]);
        lab.with(quick(), async |rt, s| {
            if before {
                write(&rt, &s, c, 5, &[1050, 1051, 1052], checksum).await;
                s.drained(&rt).await;
            }
            set(&s, lazy());
            write(&rt, &s, c, 5, &[2050, 2051, 2052], checksum).await;
        });
        let at = find(&lab, 0, 2051);
        log.fail_reads(at..at + 1, None);
        lab.with(quick(), async |rt, s| {
            let moved = s.stats().destaged_bytes;
            set(&s, quick());
            s.drained(&rt).await;
            let stats = s.stats();
            assert_eq!((stats.checksum_errors, stats.bad_blocks), (1, vec![BadBlock { component: c, block: BlockNo(6) }]), "{case}");
            assert_eq!(stats.destaged_bytes - moved, 3 * BLOCK_BYTES as u64, "{case}");
            assert_eq!((stats.capacity_failing, stats.capacity_write_errors), (0, 0), "{case}");
            log.heal(); // too late: the place in the log is given back
            assert_eq!(s.read(&rt, c, 6, 1).await, Err(media(6)), "{case}");
            assert_eq!(s.read(&rt, c, 5, 3).await, Err(media(6)), "{case}");
            assert_eq!((s.read(&rt, c, 5, 1).await, s.read(&rt, c, 7, 1).await), (Ok(vec![2050]), Ok(vec![2052])), "{case}");
            s.shut_down(&rt).await;
        });
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            assert_eq!(s.read(&rt, c, 5, 3).await, Err(media(6)), "{case}: after a restart");
            write(&rt, &s, c, 6, &[3051], checksum).await;
            assert_eq!(s.read(&rt, c, 5, 3).await, Ok(vec![2050, 3051, 2052]), "{case}");
            s.drained(&rt).await;
            assert_eq!(s.read(&rt, c, 5, 3).await, Ok(vec![2050, 3051, 2052]), "{case}");
            s.check();
        });
    }
}

#[test]
fn a_block_of_the_log_is_lost_only_when_it_cannot_be_read_again_and_again() {
    // So many reads of it fail, or bring something else: the one of the job, and those of the block alone.
    for (checksum, flips, times) in (1..=4).flat_map(|n| [(true, false, n), (false, false, n), (true, true, n)]) {
        let case = format!("checksum {checksum}, flips {flips}, {times} times");
        let mut lab = Lab::new(601, &Setup::default());
        let c = lab.components[0];
        let log = lab.world.disk(&lab.devices[0]);
        lab.with(lazy(), async |rt, s| write(&rt, &s, c, 5, &[2050], checksum).await);
        let at = find(&lab, 0, 2050);
        lab.with(quick(), async |rt, s| {
            if flips {
                log.flip_reads(times)
            } else {
                log.fail_reads(at..at + 1, Some(times))
            }
            set(&s, quick());
            s.drained(&rt).await;
            assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (0, 0), "{case}");
            assert_eq!(s.read(&rt, c, 5, 1).await, Ok(vec![2050]), "{case}");
            s.check();
        });
    }
}

#[test]
fn what_could_not_be_moved_out_of_the_oldest_segment_is_moved_later() {
    let mut lab = Lab::new(604, &Setup::default());
    let c = lab.components[0];
    let capacity = lab.world.disk(&lab.devices[1]);
    lab.with(lazy(), async |rt, s| {
        for n in 0..300 {
            s.write(&rt, c, 3 * n, &[1000 + n]).await.unwrap();
        }
        capacity.fail_writes(0..u64::MAX, Some(1), rt::DeviceError::Media);
        set(&s, quick());
        s.drained(&rt).await;
        let stats = s.stats();
        assert_eq!((stats.capacity_write_errors, stats.capacity_failing), (1, 0));
        assert_eq!(stats.destaged_bytes, 300 * BLOCK_BYTES as u64);
        for n in 0..300 {
            assert_eq!(s.read(&rt, c, 3 * n, 1).await, Ok(vec![1000 + n]));
        }
        s.check();
    });
}

#[test]
fn only_the_first_of_many_bad_blocks_are_listed_and_all_are_counted() {
    let mut lab = Lab::new(605, &Setup::default());
    let c = lab.components[0];
    let log = lab.world.disk(&lab.devices[0]);
    lab.with(lazy(), async |rt, s| {
        write(&rt, &s, c, 0, &[7; 80], true).await;
        log.fail_reads(0..u64::MAX, None);
        for block in (0..80).chain(0..80) {
            assert_eq!(s.read(&rt, c, block, 1).await, Err(media(block)));
        }
        let first: Vec<BadBlock> = (0..64).map(|block| BadBlock { component: c, block: BlockNo(block) }).collect();
        assert_eq!((s.stats().bad_blocks, s.stats().checksum_errors), (first, 160));
    });
}

#[test]
fn a_log_device_that_is_away_for_a_while_loses_nothing() {
    let mut lab = Lab::new(602, &Setup::default());
    let c = lab.components[0];
    let log = lab.world.disk(&lab.devices[0]);
    lab.with(lazy(), async |rt, s| {
        write(&rt, &s, c, 5, &[2050, 2051], true).await;
        write(&rt, &s, c, 7, &[2052], false).await;
        log.set_gone(true);
        set(&s, quick());
        rt.sleep(Duration::from_millis(500)).await;
        let stats = s.stats();
        assert!(stats.read_errors > 0 && stats.capacity_failing > 0, "{stats:?}");
        assert_eq!((stats.destaged_bytes, stats.checksum_errors, stats.capacity_write_errors), (0, 0, 0));
        log.set_gone(false);
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 5, 3).await, Ok(vec![2050, 2051, 2052]));
        assert_eq!((s.stats().checksum_errors, s.stats().capacity_failing), (0, 0));
        s.check();
    });
}

/// Blocks with and without checksum side by side, of which one is damaged: `at` of the four.
fn damaged_among_neighbours(on_capacity: bool, unchecked: [bool; 4], at: usize) -> (Result<Vec<u8>, crate::StoreError>, ComponentNo) {
    let mut lab = Lab::new(603, &Setup::default());
    let c = lab.components[0];
    lab.with(if on_capacity { quick() } else { lazy() }, async |rt, s| {
        // In one batch, so that they lie side by side in the log too.
        for (i, unchecked) in unchecked.iter().enumerate() {
            s.submit(&rt, c, 4 + i as u64, 1, write_op(c, 4 + i as u64, &[2000 + i as u64], !unchecked));
        }
        rt.sleep(Duration::from_millis(5)).await;
        if on_capacity {
            s.drained(&rt).await;
        }
        s.take_done();
    });
    let device = usize::from(on_capacity);
    let place = find(&lab, device, 2000 + at as u64);
    lab.world.disk(&lab.devices[device]).corrupt(place + 1024);
    let done = lab.with(lazy(), async |rt, s| s.call(&rt, c, 4, 4, super::harness::read_op(4)).await);
    (done.result.map(|()| done.buf.expect("a read has a buffer").to_vec()), c)
}

#[test]
fn a_damaged_block_is_served_when_it_has_no_checksum_and_else_named_whatever_lies_beside_it() {
    for on_capacity in [false, true] {
        for mask in 0..16u8 {
            let unchecked: [bool; 4] = core::array::from_fn(|i| mask >> i & 1 == 1);
            for at in 0..4 {
                let case = format!("on capacity {on_capacity}, without checksum {unchecked:?}, damaged {at}");
                let (result, c) = damaged_among_neighbours(on_capacity, unchecked, at);
                if !unchecked[at] {
                    assert_eq!(result.map(|_| ()), Err(media(4 + at as u64)), "{case}");
                    continue;
                }
                let bytes = result.expect(&case);
                for i in (0..4).filter(|i| *i != at) {
                    let block = &bytes[i * BLOCK_BYTES..][..BLOCK_BYTES];
                    assert_eq!(values_of(c, 4 + i as u64, block), [2000 + i as u64], "{case}");
                }
            }
        }
    }
}

#[test]
fn a_large_write_without_checksums_keeps_none_in_any_of_its_parts_and_over_a_restart() {
    for restart in [false, true] {
        for on_capacity in [false, true] {
            let mut lab = Lab::new(604, &Setup::default());
            let c = lab.components[0];
            let values: Vec<u64> = (1..=256).map(|i| 7000 + i).collect();
            lab.with(lazy(), async |rt, s| write(&rt, &s, c, 256, &values, false).await);
            if restart {
                lab.power_cycle();
            }
            if on_capacity {
                lab.with(quick(), async |rt, s| {
                    set(&s, quick());
                    s.drained(&rt).await;
                });
            }
            for damaged in [7001, 7128, 7129, 7256] {
                let device = usize::from(on_capacity);
                let place = find(&lab, device, damaged);
                lab.world.disk(&lab.devices[device]).corrupt(place + 2048);
            }
            lab.with(lazy(), async |rt, s| {
                let done = s.call(&rt, c, 256, 256, super::harness::read_op(256)).await;
                assert_eq!(done.result, Ok(()), "restart {restart}, on capacity {on_capacity}");
                super::harness::check_crcs(&done);
            });
        }
    }
}

#[test]
fn of_several_bad_blocks_a_read_names_the_first_and_all_that_could_be_read_alone_can_be() {
    for on_capacity in [false, true] {
        let mut lab = Lab::new(605, &Setup::default());
        let c = lab.components[0];
        let values: Vec<u64> = (0..12).map(|i| 3000 + i).collect();
        lab.with(if on_capacity { quick() } else { lazy() }, async |rt, s| {
            write(&rt, &s, c, 10, &values, true).await;
            if on_capacity {
                s.drained(&rt).await;
            }
        });
        let bad = [3, 4, 9];
        for i in bad {
            let place = find(&lab, usize::from(on_capacity), 3000 + i);
            lab.world.disk(&lab.devices[usize::from(on_capacity)]).corrupt(place + 512);
        }
        lab.with(lazy(), async |rt, s| {
            for first in 0..12 {
                let expected = bad.iter().find(|b| **b >= first).map(|b| media(10 + b));
                let found = s.read(&rt, c, 10 + first, 12 - first as u32).await;
                assert_eq!(found.as_ref().err().copied(), expected, "on capacity {on_capacity}, from {first}");
            }
            let mut listed: Vec<u64> = s.stats().bad_blocks.iter().map(|b| b.block.0 - 10).collect();
            listed.sort_unstable();
            assert_eq!(listed, bad, "each is listed once");
            assert_eq!(s.stats().checksum_errors, 10, "and counted each time");
        });
    }
}
