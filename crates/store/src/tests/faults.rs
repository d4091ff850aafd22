//! Broken devices: what fails is exactly what cannot be served, it is counted, and nothing is lost or taken for something else.

use super::harness::{Lab, Running, Setup, component_spec, quick, read_op, write_op};
use crate::{ComponentNo, OpKind, Settings, StoreError};
use base::unit::{BLOCK_BYTES, CHUNK_BLOCKS};
use base::{BlockNo, Duration};
use format::disk::log::SummaryHeader;
use rt::sim::SimDisk;
use rt::{Device, DeviceError, Rt};

const ALL: core::ops::Range<u64> = 0..u64::MAX;

pub fn media(block: u64) -> StoreError {
    StoreError::Media { block: BlockNo(block) }
}

/// Where on a device a block lies that begins with `value`, as the harness writes it.
pub fn find(lab: &Lab, device: usize, value: u64) -> u64 {
    let disk = lab.world.disk(&lab.devices[device]);
    let blocks = lab.devices[device].bytes() / BLOCK_BYTES as u64;
    let offset = (0..blocks).map(|b| b * BLOCK_BYTES as u64).find(|&offset| {
        let bytes = disk.peek(offset, BLOCK_BYTES);
        bytes[..8] == value.to_le_bytes() && bytes[8..16] != [0; 8]
    });
    offset.expect("the value is somewhere on the device")
}

/// Never destages by itself.
pub fn lazy() -> Settings {
    Settings { fill_low: 0.9, fill_high: 0.95, idle_drain: Duration::from_secs(100_000), ..Settings::default() }
}

#[test]
fn a_failed_log_write_is_written_again_elsewhere_and_survives() {
    let mut lab = Lab::new(1, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 5, &[50, 51]).await.unwrap();
        disk.fail_writes(ALL, Some(1), DeviceError::Media);
        s.write(&rt, c, 7, &[70]).await.unwrap();
        s.write(&rt, c, 8, &[80]).await.unwrap();
        assert_eq!(s.stats().log_write_errors, 1);
        assert_eq!(s.read(&rt, c, 5, 4).await.unwrap(), [50, 51, 70, 80]);
        s.check();
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 4).await.unwrap(), [50, 51, 70, 80]));
}

#[test]
fn a_write_that_is_cut_fails_when_one_of_its_parts_does() {
    // A segment takes half of it: the second part goes to the next one, which begins at 3 MiB, and cannot be written.
    let mut lab = Lab::new(17, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(lazy(), async |rt, s| {
        disk.fail_writes(3 << 20..u64::MAX, None, DeviceError::Media);
        assert_eq!(s.write(&rt, c, 0, &[7; 256]).await, Err(crate::StoreError::DeviceFailed));
        assert_eq!(s.read(&rt, c, 0, 1).await.unwrap(), [7], "the first part is there");
        assert_eq!(s.read(&rt, c, 255, 1).await.unwrap(), [0]);
        s.check();
    });
}

#[test]
fn a_first_segment_whose_first_write_failed_is_not_named_as_the_oldest() {
    let mut lab = Lab::new(16, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(quick(), async |rt, s| {
        disk.fail_writes(ALL, Some(1), DeviceError::Media);
        s.write(&rt, c, 3, &[53]).await.unwrap();
        assert_eq!(s.stats().log_write_errors, 1);
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 0, 4).await.unwrap(), [0, 0, 0, 53]);
        s.drained(&rt).await;
        s.check();
    });
}

#[test]
fn what_a_later_life_writes_into_a_segment_that_was_given_up_survives() {
    // The first write of a segment fails, and the node dies before the second attempt, in the next segment, is durable: the next life
    // gives the number of the segment again.
    for attempts in [1, 2] {
        for delay_us in (0..120).step_by(2) {
            let mut lab = Lab::new(1000 * attempts + delay_us, &Setup::default());
            let c = lab.components[0];
            let disk = lab.world.disk(&lab.devices[0]);
            lab.with(lazy(), async |rt, s| {
                disk.fail_writes(ALL, Some(attempts as u32), DeviceError::Media);
                s.submit(&rt, c, 3, 1, super::harness::write_op(c, 3, &[53], true));
                while s.stats().log_write_errors < attempts {
                    rt.sleep(Duration::from_micros(1)).await;
                }
                rt.sleep(Duration::from_micros(delay_us)).await;
            });
            lab.power_cycle();
            lab.with(lazy(), async |rt, s| {
                for n in 0..4 {
                    s.write(&rt, c, 10 + n, &[60 + n]).await.unwrap();
                }
            });
            lab.power_cycle();
            lab.with(lazy(), async |rt, s| {
                let got = s.read(&rt, c, 10, 4).await.unwrap();
                assert_eq!(got, [60, 61, 62, 63], "{attempts} attempts failed, {delay_us} us");
                s.check();
            });
        }
    }
}

#[test]
fn an_empty_summary_that_an_earlier_version_left_is_not_believed() {
    let mut lab = Lab::new(18, &Setup::default());
    let c = lab.components[0];
    let devices = lab.devices.clone();
    let info = lab.world.block_on(lab.host, async |rt: Rt| crate::open_group(&rt, None, &devices).await.expect("opens").info().clone());
    lab.with(lazy(), async |rt, s| s.write(&rt, c, 3, &[53, 54]).await.unwrap());
    // The segment's first life gave it up, and sealed it with nothing in it.
    let header =
        SummaryHeader { tag: info.tag, shard: 0, segment_seq: 1, first_lsn: 1, last_lsn: 0, tail_seq: 1, used_blocks: 1, last_crc: 0 };
    let mut summary = vec![0; BLOCK_BYTES];
    header.build(&mut summary, &[], &[]);
    let log = info.geometry.log;
    let end = log.segment_offset(0, 1 % log.segments_per_shard) + u64::from(log.segment_bytes);
    lab.world.disk(&lab.devices[0]).poke(end - BLOCK_BYTES as u64, &summary);
    lab.power_cycle();
    lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 3, 2).await.unwrap(), [53, 54]));
}

#[test]
fn a_segment_that_should_have_carried_the_new_tail_and_failed_is_not_named_as_the_oldest() {
    // Power fails soon after: before, while and after the tail moves on past the segment that was given up.
    for delay_us in (0..400).step_by(20) {
        let mut lab = Lab::new(17 + delay_us, &Setup::default());
        let c = lab.components[0];
        lab.with(quick(), async |rt, s| s.write(&rt, c, 0, &[50, 51, 52]).await.unwrap());
        let disk = lab.world.disk(&lab.devices[0]);
        // The first data of a segment lies behind its header and that of the batch.
        let second = find(&lab, 0, 50) - 2 * BLOCK_BYTES as u64 + (1 << 20);
        disk.fail_writes(second..second + BLOCK_BYTES as u64, Some(1), DeviceError::Media);
        lab.with(quick(), async |rt, s| {
            while s.stats().log_write_errors == 0 {
                rt.sleep(Duration::from_micros(5)).await; // until an idle shard has put all on capacity and says so in the log
            }
            rt.sleep(Duration::from_micros(delay_us)).await;
        });
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            assert_eq!(s.read(&rt, c, 0, 4).await.unwrap(), [50, 51, 52, 0], "{delay_us} us");
            s.drained(&rt).await;
            s.check();
        });
    }
}

/// Waits for the first checkpoint, and holds its pages up on their way to `capacity`.
async fn checkpoint_on_its_way(rt: &Rt, s: &Running, capacity: &SimDisk, hold: Duration) {
    while s.stats().log_live_bytes > 0 {
        rt.sleep(Duration::from_micros(1)).await;
    }
    assert_eq!(s.stats().checkpoints, 0);
    capacity.stall(hold);
    while capacity.in_flight() == 0 {
        rt.sleep(Duration::from_micros(1)).await;
    }
}

#[test]
fn a_segment_that_is_given_up_during_a_checkpoint_is_not_named_as_the_oldest() {
    // The checkpoint has chosen the next segment as the new tail, and its first write fails before the tail is written: once, so that the
    // batch goes elsewhere, or so often that the log stops and a probe carries the tail. The checkpoint ends before or after that.
    for attempts in 1..=3 {
        for hold_ms in [20, 1000] {
            let case = format!("{attempts} attempts fail, held up {hold_ms} ms");
            let mut lab = Lab::new(100 * attempts + hold_ms, &Setup::default());
            let c = lab.components[0];
            let (log, capacity) = (lab.world.disk(&lab.devices[0]), lab.world.disk(&lab.devices[1]));
            lab.with(quick(), async |rt, s| {
                s.write(&rt, c, 0, &[50, 51]).await.unwrap();
                checkpoint_on_its_way(&rt, &s, &capacity, Duration::from_millis(hold_ms)).await;
                log.fail_writes(ALL, Some(attempts as u32), DeviceError::Media);
                let written = s.write(&rt, c, 2, &[52]).await;
                assert_eq!(written.is_ok(), attempts == 1, "{case}");
                let probed = attempts > 1 && hold_ms == 20;
                while s.stats().failed || s.stats().checkpoints == 0 && !probed {
                    rt.sleep(Duration::from_micros(1)).await; // until the tail is written
                }
                assert_eq!(s.stats().log_write_errors, attempts, "{case}");
                s.check();
            });
            lab.power_cycle();
            lab.with(quick(), async |rt, s| {
                let third = if attempts == 1 { 52 } else { 0 };
                assert_eq!(s.read(&rt, c, 0, 4).await.unwrap(), [50, 51, third, 0], "{case}");
                s.drained(&rt).await;
                s.check();
            });
        }
    }
}

#[test]
fn a_checkpoint_whose_tail_cannot_be_written_is_made_again_when_the_log_can_be_written() {
    let mut lab = Lab::new(320, &Setup::default());
    let c = lab.components[0];
    let (log, capacity) = (lab.world.disk(&lab.devices[0]), lab.world.disk(&lab.devices[1]));
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 0, &[50, 51]).await.unwrap();
        checkpoint_on_its_way(&rt, &s, &capacity, Duration::from_millis(20)).await;
        log.fail_writes(ALL, Some(2), DeviceError::Media);
        while !s.stats().failed {
            rt.sleep(Duration::from_micros(1)).await; // the batch with the tail, and once more
        }
        assert_eq!((s.stats().log_write_errors, s.stats().checkpoints), (2, 0));
        rt.sleep(crate::buffer::PROBE_PAUSE_MAX + Duration::from_secs(1)).await;
        assert!(!s.stats().failed && s.stats().checkpoints > 0, "{:?}", s.stats());
        s.drained(&rt).await;
        s.check();
    });
}

#[test]
fn a_log_that_cannot_be_written_fails_writes_and_serves_reads() {
    let mut lab = Lab::new(2, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 5, &[50]).await.unwrap();
        disk.fail_writes(ALL, None, DeviceError::Media);
        assert_eq!(s.write(&rt, c, 6, &[60]).await, Err(StoreError::DeviceFailed));
        assert_eq!(s.write(&rt, c, 6, &[61]).await, Err(StoreError::DeviceFailed));
        assert_eq!(s.trim(&rt, c, 5, 1).await, Err(StoreError::DeviceFailed));
        assert!(s.stats().failed);
        assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50]);
        s.check();
        disk.heal();
        s.shut_down(&rt).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50]));
}

/// One of each is in the batch that fails, one of each waits behind it: none keeps a chunk.
#[test]
fn what_fails_with_the_log_keeps_no_space_whether_it_was_in_the_batch_or_waited() {
    let mut lab = Lab::new(321, &Setup::default());
    let c = lab.components[0];
    let log = lab.world.disk(&lab.devices[0]);
    lab.with(quick(), async |rt, s| {
        log.fail_writes(ALL, None, DeviceError::Media);
        log.stall(Duration::from_millis(5));
        let write = |chunk: u64| s.submit(&rt, c, chunk * CHUNK_BLOCKS, 1, write_op(c, chunk * CHUNK_BLOCKS, &[50], true));
        let mark = |chunk: u64| s.submit(&rt, c, chunk * CHUNK_BLOCKS, 1, OpKind::Uncorrectable);
        write(0);
        mark(1);
        rt.sleep(Duration::from_millis(1)).await;
        assert!(log.in_flight() > 0, "the batch is on its way");
        write(2);
        mark(3);
        let mut done = Vec::new();
        while done.len() < 4 {
            s.some_ended().await;
            done.extend(s.take_done());
        }
        assert!(done.iter().all(|d| d.result == Err(StoreError::DeviceFailed)), "{done:?}");
        s.check();
        assert_eq!(s.allocated(), 0);
        log.heal();
        s.shut_down(&rt).await;
    });
}

/// Each write that fails once is written again in the next segment. The last one is kept for the batch that gives others back: a later life has
/// nothing else to write it to.
#[test]
fn writes_that_fail_one_after_the_other_leave_a_segment_for_the_batch_that_frees_others() {
    let mut lab = Lab::new(19, &Setup::default());
    let c = lab.components[0];
    let (log, capacity) = (lab.world.disk(&lab.devices[0]), lab.world.disk(&lab.devices[1]));
    let written = lab.with(quick(), async |rt, s| {
        capacity.fail_writes(ALL, None, DeviceError::Media);
        for n in 0..100 {
            log.fail_writes(ALL, Some(1), DeviceError::Media);
            if s.write(&rt, c, n, &[1000 + n]).await.is_err() {
                return n;
            }
        }
        panic!("there are not that many segments");
    });
    assert!(written > 3, "{written}");
    lab.power_cycle();
    log.heal();
    capacity.heal();
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 500, &[5000]).await.unwrap();
        for n in 0..written {
            assert_eq!(s.read(&rt, c, n, 1).await.unwrap(), [1000 + n]);
        }
        s.check();
    });
}

/// A write that was torn by a crash, and found not to be there, does not come back when a later write at its place, with its number, is torn in turn
/// and brings just the sectors that were missing.
#[test]
fn what_a_torn_write_left_is_not_completed_by_a_later_one() {
    // What is missing: the header of the segment, or the data of the last batch.
    for data in [false, true] {
        let mut lab = Lab::new(20, &Setup::default());
        let c = lab.components[0];
        let disk = lab.world.disk(&lab.devices[0]);
        let old = u64::from(data) * 40;
        lab.with(lazy(), async |rt, s| {
            if data {
                s.write(&rt, c, 5, &[old]).await.unwrap();
            }
            s.write(&rt, c, 5, &[50]).await.unwrap();
        });
        let at = if data { find(&lab, 0, 50) } else { find(&lab, 0, 50) - 2 * BLOCK_BYTES as u64 };
        let missing = disk.peek(at, 4096);
        lab.power_cycle();
        disk.poke(at, &[0; 4096]);
        lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [old]));
        lab.power_cycle();
        disk.poke(at, &missing);
        lab.with(lazy(), async |rt, s| {
            assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [old]);
            s.write(&rt, c, 5, &[60]).await.unwrap();
            s.check();
        });
        lab.power_cycle();
        lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [60]));
    }
}

#[test]
fn a_read_that_fails_once_is_read_again_and_one_that_fails_twice_is_media() {
    let mut lab = Lab::new(3, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(lazy(), async |rt, s| {
        s.write(&rt, c, 5, &[50]).await.unwrap();
        disk.fail_reads(ALL, Some(1));
        assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50]);
        disk.fail_reads(ALL, Some(2));
        assert_eq!(s.read(&rt, c, 5, 1).await, Err(media(5)));
        assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50]);
        assert_eq!(s.stats().read_errors, 3);
    });
}

#[test]
fn a_bad_block_on_capacity_is_media_for_just_that_block_and_a_write_heals_it() {
    let mut lab = Lab::new(4, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 5, &[1050, 1051, 1052]).await.unwrap();
        s.drained(&rt).await;
    });
    let at = find(&lab, 1, 1051);
    lab.world.disk(&lab.devices[1]).corrupt(at + 1000);
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 5, 3).await, Err(media(6)));
        assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [1050]);
        assert_eq!(s.read(&rt, c, 7, 1).await.unwrap(), [1052]);
        s.shard.borrow_mut().as_mut().unwrap().start_scrub(&rt);
        while s.stats().scrub_passes == 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(s.stats().bad_blocks, [crate::BadBlock { component: c, block: BlockNo(6) }]);
        let found: Vec<_> = std::iter::from_fn(|| s.shard.borrow_mut().as_mut().expect("open").pop_bad()).collect();
        assert_eq!(found, [crate::BadBlock { component: c, block: BlockNo(6) }], "by the scrub");
        s.write(&rt, c, 6, &[2051]).await.unwrap();
        assert_eq!(s.read(&rt, c, 5, 3).await.unwrap(), [1050, 2051, 1052]);
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 5, 3).await.unwrap(), [1050, 2051, 1052]);
        s.check();
    });
}

#[test]
fn a_block_that_is_lost_in_the_log_never_turns_back_into_its_old_content() {
    let mut lab = Lab::new(5, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 5, &[1050, 1051]).await.unwrap();
        s.drained(&rt).await;
        s.shard.borrow_mut().as_mut().unwrap().set_settings(lazy());
        s.write(&rt, c, 5, &[2050, 2051]).await.unwrap();
    });
    let at = find(&lab, 0, 2050);
    lab.world.disk(&lab.devices[0]).corrupt(at + 77);
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 5, 1).await, Err(media(5)));
        s.shard.borrow_mut().as_mut().unwrap().set_settings(quick());
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 5, 1).await, Err(media(5)));
        assert_eq!(s.read(&rt, c, 6, 1).await.unwrap(), [2051]);
        s.shut_down(&rt).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 5, 1).await, Err(media(5)));
        s.write(&rt, c, 5, &[3050]).await.unwrap();
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 5, 2).await.unwrap(), [3050, 2051]);
    });
}

#[test]
fn capacity_that_fails_for_a_while_costs_nothing() {
    let mut lab = Lab::new(6, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        disk.fail_writes(ALL, None, DeviceError::Media);
        disk.fail_flushes(None);
        for i in 0..200 {
            s.write(&rt, c, i * 4, &[1000 + i]).await.unwrap();
        }
        rt.sleep(Duration::from_secs(2)).await;
        let stats = s.stats();
        assert!(stats.capacity_failing > 0 && stats.capacity_write_errors > 0, "{stats:?}");
        assert_eq!(stats.log_live_bytes, 200 * BLOCK_BYTES as u64);
        disk.heal();
        s.drained(&rt).await;
        assert_eq!(s.stats().capacity_failing, 0);
        for i in 0..200 {
            assert_eq!(s.read(&rt, c, i * 4, 2).await.unwrap(), [1000 + i, 0]);
        }
        s.check();
    });
}

#[test]
fn what_goes_to_a_sound_device_arrives_though_another_takes_nothing() {
    let components = vec![component_spec(1, 0, 0), component_spec(2, 1, 0)];
    let mut lab = Lab::new(15, &Setup { cache_mib: 17, capacity_mib: vec![16, 16], components, ..Setup::default() });
    let (a, b) = (lab.components[0], lab.components[1]);
    let disk = lab.world.disk(&lab.devices[2]);
    lab.with(quick(), async |rt, s| {
        // Eight blocks: one job moves them all.
        disk.fail_writes(ALL, None, DeviceError::Media);
        for i in 0..4 {
            s.write(&rt, a, i * 3, &[1000 + i]).await.unwrap();
            s.write(&rt, b, i * 3, &[2000 + i]).await.unwrap();
        }
        rt.sleep(Duration::from_secs(2)).await;
        assert_eq!(s.stats().destaged_bytes, 4 * BLOCK_BYTES as u64, "all of one component, nothing of the other");
        disk.heal();
        s.drained(&rt).await;
        assert_eq!(s.stats().destaged_bytes, 8 * BLOCK_BYTES as u64);
        s.check();
        for i in 0..4 {
            assert_eq!(s.read(&rt, a, i * 3, 1).await.unwrap(), [1000 + i]);
            assert_eq!(s.read(&rt, b, i * 3, 1).await.unwrap(), [2000 + i]);
        }
    });
}

/// A file whose file system is full: that lasts until somebody makes room, and hosts see what it is.
#[test]
fn capacity_without_room_for_its_files_ends_in_no_space_and_goes_on_when_there_is_room() {
    let mut lab = Lab::new(17, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        disk.fail_writes(ALL, None, DeviceError::NoSpace);
        let mut n = 0;
        let refused = loop {
            assert!(n < 4000, "the log takes more than it has");
            match s.write(&rt, c, n % 2000, &[1000 + n]).await {
                Ok(()) => n += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, StoreError::NoSpace);
        // What is said is what the device said last.
        disk.heal();
        disk.fail_writes(ALL, None, DeviceError::Media);
        rt.sleep(Duration::from_secs(10)).await;
        assert_eq!(s.write(&rt, c, n % 2000, &[1000 + n]).await, Err(StoreError::DeviceFailed));
        disk.heal();
        rt.sleep(Duration::from_secs(10)).await;
        s.write(&rt, c, 0, &[5000]).await.unwrap();
        s.drained(&rt).await;
        assert_eq!(s.read(&rt, c, 0, 2).await.unwrap(), [5000, 1001 + if n > 2000 { 2000 } else { 0 }]);
    });
}

#[test]
fn capacity_that_never_comes_back_ends_in_errors_and_not_in_silence() {
    let mut lab = Lab::new(7, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        disk.fail_writes(ALL, None, DeviceError::Gone);
        let mut written = Vec::new();
        let refused = loop {
            let value = 1000 + written.len() as u64;
            assert!(value < 4000, "the log takes more than it has");
            match s.write(&rt, c, (value - 1000) % 2000, &[value]).await {
                Ok(()) => written.push(value),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, StoreError::DeviceFailed);
        assert!(written.len() > 500, "{}", written.len());
        for &value in written.iter().step_by(37) {
            assert_eq!(s.read(&rt, c, (value - 1000) % 2000, 1).await.unwrap(), [value]);
        }
        disk.heal();
        rt.sleep(Duration::from_secs(10)).await;
        s.write(&rt, c, 0, &[5000]).await.unwrap();
    });
}

#[test]
fn a_damaged_batch_in_the_middle_of_the_newest_segment_is_not_passed_over() {
    let mut lab = Lab::new(8, &Setup::default());
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| {
        for i in 0..5 {
            s.write(&rt, c, i, &[1000 + i]).await.unwrap();
        }
    });
    // The header of a batch is the block before its data.
    let at = find(&lab, 0, 1002) - BLOCK_BYTES as u64;
    lab.world.kill_process(lab.host);
    lab.world.disk(&lab.devices[0]).corrupt(at + 40);
    lab.world.start(lab.host);
    let (running, devices): (_, Vec<Device>) = (lab.running(), lab.devices.clone());
    let result = lab.world.block_on(lab.host, async |rt: Rt| running.open(&rt, &devices, quick()).await.map(|_| ()));
    assert!(matches!(result, Err(crate::GroupError::LogDamaged { .. })), "{result:?}");
}

#[test]
fn a_log_that_can_be_written_again_takes_writes_without_a_restart() {
    for seed in 0..8 {
        let mut lab = Lab::new(300 + seed, &Setup::default());
        let c = lab.components[0];
        let disk = lab.world.disk(&lab.devices[0]);
        lab.with(quick(), async |rt, s| {
            s.write(&rt, c, 5, &[50]).await.unwrap();
            disk.set_full(true);
            assert_eq!(s.write(&rt, c, 6, &[60]).await, Err(StoreError::DeviceFailed));
            rt.sleep(Duration::from_millis(100 << seed)).await; // some probes fail
            assert!(s.stats().failed);
            assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50]);
            disk.set_full(false);
            rt.sleep(crate::buffer::PROBE_PAUSE_MAX + Duration::from_millis(100)).await;
            assert!(!s.stats().failed);
            s.write(&rt, c, 7, &[70, 71]).await.unwrap();
            s.trim(&rt, c, 5, 1).await.unwrap();
            s.check();
            if seed % 2 == 0 {
                s.drained(&rt).await;
                s.write(&rt, c, 9, &[90]).await.unwrap();
            }
        });
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            let kept = if seed % 2 == 0 { 90 } else { 0 };
            assert_eq!(s.read(&rt, c, 5, 5).await.unwrap(), [0, 0, 70, 71, kept], "seed {seed}");
            s.check();
        });
    }
}

#[test]
fn a_shard_whose_log_stays_unwritable_shuts_down() {
    let mut lab = Lab::new(310, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[0]);
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 5, &[50]).await.unwrap();
        disk.fail_writes(ALL, None, DeviceError::NoSpace);
        assert_eq!(s.write(&rt, c, 6, &[60]).await, Err(StoreError::DeviceFailed));
        rt.sleep(Duration::from_secs(20)).await;
        assert!(s.stats().failed && s.stats().log_write_errors > 5, "it was tried again and again: {:?}", s.stats());
        s.shut_down(&rt).await;
    });
    lab.power_cycle();
    disk.heal();
    lab.with(quick(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 2).await.unwrap(), [50, 0]));
}

/// Overwrites block 5 and puts it on capacity while a read of it is held up there, so often, each time before the read ends.
fn overwritten_under_a_slow_read(checksum: bool, times: u64) -> (crate::ShardDone, crate::ShardStats) {
    let mut lab = Lab::new(400 + times, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[1]);
    let hold = Duration::from_secs(2);
    lab.with(quick(), async |rt, s| {
        s.call(&rt, c, 5, 1, super::harness::write_op(c, 5, &[50], checksum)).await.result.unwrap();
        s.drained(&rt).await;
        disk.stall(hold);
        let read = s.submit(&rt, c, 5, 1, read_op(1));
        rt.sleep(Duration::from_millis(1)).await;
        for n in 1..=times {
            disk.stall(Duration::ZERO);
            let ends = rt.now() + hold;
            s.call(&rt, c, 5, 1, super::harness::write_op(c, 5, &[50 + n], checksum)).await.result.unwrap();
            s.drained(&rt).await;
            assert!(rt.now() < ends, "the read has ended already");
            // The next attempt is held up as well.
            rt.sleep(ends.since(rt.now()).saturating_sub(Duration::from_millis(100))).await;
            disk.stall(hold);
            rt.sleep(Duration::from_millis(101)).await;
        }
        disk.stall(Duration::ZERO);
        let done = loop {
            if let Some(done) = s.take_done().into_iter().find(|done| done.cookie == read) {
                break done;
            }
            s.some_ended().await;
        };
        (done, s.stats())
    })
}

#[test]
fn a_block_that_moves_under_a_slow_read_again_and_again_is_not_bad() {
    for times in 1..6 {
        let (done, stats) = overwritten_under_a_slow_read(true, times);
        assert_eq!(done.result, Ok(()), "overwritten {times} times");
        super::harness::check_crcs(&done);
        let got = super::harness::values_of(ComponentNo(1), 5, done.buf.as_ref().unwrap());
        assert!((50..=50 + times).contains(&got[0]), "what it held while it was read: {got:?}");
        assert_eq!((stats.checksum_errors, stats.read_errors, stats.bad_blocks.len()), (0, 0, 0));
    }
}

#[test]
fn a_read_without_checksum_is_not_a_mixture_when_its_place_was_written_again() {
    let mut lab = Lab::new(420, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[1]);
    let hold = Duration::from_secs(2);
    let write = |value| super::harness::write_op(c, 5, &[value], false);
    lab.with(quick(), async |rt, s| {
        s.call(&rt, c, 5, 1, write(50)).await.result.unwrap();
        s.drained(&rt).await;
    });
    let at = find(&lab, 1, 50);
    lab.with(quick(), async |rt, s| {
        disk.stall(hold);
        let ends = rt.now() + hold;
        let read = s.submit(&rt, c, 5, 1, read_op(1));
        rt.sleep(Duration::from_millis(1)).await;
        disk.stall(Duration::ZERO);
        s.call(&rt, c, 5, 1, write(51)).await.result.unwrap();
        s.drained(&rt).await;
        // What the device read at the one end before the block was written again, and at the other after it.
        let new = disk.peek(at, BLOCK_BYTES);
        let mut mixture = new.clone();
        mixture[BLOCK_BYTES / 2..].fill(0xAB);
        disk.poke(at, &mixture);
        rt.sleep(ends.since(rt.now()).saturating_sub(Duration::from_micros(10))).await;
        disk.stall(Duration::from_millis(10));
        rt.sleep(Duration::from_millis(2)).await; // the first attempt has ended, the next one finds the block whole
        disk.poke(at, &new);
        let done = loop {
            if let Some(done) = s.take_done().into_iter().find(|done| done.cookie == read) {
                break done;
            }
            s.some_ended().await;
        };
        assert_eq!(done.result, Ok(()));
        super::harness::check_crcs(&done);
        assert_eq!(super::harness::values_of(c, 5, done.buf.as_ref().unwrap()), [51]);
    });
}

#[test]
fn a_volume_without_checksums_is_served_as_it_is() {
    let mut lab = Lab::new(9, &Setup::default());
    let c: ComponentNo = lab.components[0];
    lab.with(quick(), async |rt, s| {
        s.call(&rt, c, 5, 1, super::harness::write_op(c, 5, &[1050], false)).await.result.unwrap();
        s.drained(&rt).await;
    });
    let at = find(&lab, 1, 1050);
    lab.world.disk(&lab.devices[1]).corrupt(at + 1000);
    lab.with(quick(), async |rt, s| {
        let done = s.call(&rt, c, 5, 1, read_op(1)).await;
        assert_eq!(done.result, Ok(()));
        super::harness::check_crcs(&done);
        assert_eq!(s.call(&rt, c, 5, 1, OpKind::Zero).await.result, Ok(()));
        assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [0]);
    });
}

/// Where in the log the blocks that were written lie: their values are looked up on the device.
fn first_block_of_log(lab: &Lab) -> u64 {
    find(lab, 0, 50) / BLOCK_BYTES as u64
}

#[test]
fn what_cannot_be_read_is_never_taken_for_the_end_of_the_log() {
    // The batch header before the data, and the header of the segment before that.
    for back in [1, 2] {
        let mut lab = Lab::new(20 + back, &Setup::default());
        let c = lab.components[0];
        lab.with(lazy(), async |rt, s| s.write(&rt, c, 5, &[50]).await.unwrap());
        let header = (first_block_of_log(&lab) - back) * BLOCK_BYTES as u64;
        lab.power_cycle();
        let disk = lab.world.disk(&lab.devices[0]);
        let (running, devices) = (lab.running(), lab.devices.clone());
        disk.fail_reads(header..header + 1, None);
        let refused = lab.world.block_on(lab.host, async |rt: Rt| running.open(&rt, &devices, lazy()).await.map(drop));
        assert!(matches!(refused, Err(crate::GroupError::LogDamaged { .. })), "{back}: {refused:?}");
        disk.heal();
        lab.power_cycle();
        lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50]));
    }
}

#[test]
fn a_bit_that_flips_on_the_way_does_not_shorten_the_log() {
    for seed in 0..40 {
        let mut lab = Lab::new(100 + seed, &Setup::default());
        let c = lab.components[0];
        lab.with(lazy(), async |rt, s| {
            for n in 0..6 {
                s.write(&rt, c, 5 + n, &[50 + n]).await.unwrap();
            }
        });
        lab.power_cycle();
        lab.world.disk(&lab.devices[0]).flip_reads(1 + seed as u32 % 12);
        let (running, devices) = (lab.running(), lab.devices.clone());
        // It may be refused: then nothing was lost, and the next try is clean.
        let opened = lab.world.block_on(lab.host, async |rt: Rt| running.open(&rt, &devices, lazy()).await.is_ok());
        lab.world.disk(&lab.devices[0]).heal();
        if !opened {
            lab.power_cycle();
        }
        lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 5, 6).await.unwrap(), [50, 51, 52, 53, 54, 55], "seed {seed}"));
    }
}

#[test]
fn a_bit_that_flips_on_the_way_does_not_bring_back_an_old_chunk_table() {
    for seed in 0..60 {
        let mut lab = Lab::new(200 + seed, &Setup::default());
        let c = lab.components[0];
        lab.with(quick(), async |rt, s| {
            // Two checkpoints: both slots of the page are in use.
            for n in 0..2 {
                s.write(&rt, c, 5 + 300 * n, &[50 + n]).await.unwrap();
                s.drained(&rt).await;
            }
            s.shut_down(&rt).await;
        });
        lab.power_cycle();
        lab.world.disk(&lab.devices[1]).flip_reads(1 + seed as u32 % 6);
        let (running, devices) = (lab.running(), lab.devices.clone());
        let opened = lab.world.block_on(lab.host, async |rt: Rt| running.open(&rt, &devices, lazy()).await.is_ok());
        lab.world.disk(&lab.devices[1]).heal();
        if !opened {
            lab.power_cycle();
        }
        lab.with(lazy(), async |rt, s| {
            assert_eq!(s.read(&rt, c, 5, 1).await.unwrap(), [50], "seed {seed}");
            assert_eq!(s.read(&rt, c, 305, 1).await.unwrap(), [51], "seed {seed}");
        });
    }
}

#[test]
fn a_checkpoint_whose_flush_fails_releases_nothing() {
    let mut lab = Lab::new(500, &Setup::default());
    let c = lab.components[0];
    let disk = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        s.write(&rt, c, 0, &[49]).await.unwrap();
        s.drained(&rt).await;
        disk.fail_flushes(None);
        let released = s.stats().segments_released;
        for i in 0..40 {
            s.write(&rt, c, i * 3, &[1000 + i]).await.unwrap();
        }
        rt.sleep(Duration::from_secs(2)).await;
        let stats = s.stats();
        assert!(stats.log_live_bytes == 0 && stats.capacity_write_errors > 0, "all is moved, and no checkpoint succeeds: {stats:?}");
        assert!(stats.capacity_failing > 0 && stats.capacity_write_errors < 20, "it is tried ever more rarely: {stats:?}");
        assert_eq!(stats.segments_released, released);
        s.check();
    });
    lab.power_cycle();
    disk.heal();
    lab.with(quick(), async |rt, s| {
        for i in 0..40 {
            assert_eq!(s.read(&rt, c, i * 3, 1).await.unwrap(), [1000 + i]);
        }
        s.drained(&rt).await;
        s.check();
    });
}

#[test]
fn a_scrub_that_finds_a_block_of_the_log_lost_leaves_its_segment_to_others() {
    let mut lab = Lab::new(501, &Setup::default());
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| s.write(&rt, c, 5, &[50, 51]).await.unwrap());
    let at = find(&lab, 0, 50);
    lab.world.disk(&lab.devices[0]).corrupt(at + 1000);
    lab.with(lazy(), async |rt, s| {
        s.shard.borrow_mut().as_mut().expect("open").start_scrub(&rt);
        while s.stats().scrub_passes == 0 {
            rt.sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((s.stats().checksum_errors, s.stats().bad_blocks.len()), (1, 1));
        s.check();
    });
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::SeededFault;
    base::hooks::notices(SeededFault::FailedFlushIgnored, a_checkpoint_whose_flush_fails_releases_nothing);
    base::hooks::notices(SeededFault::TornBatchKept, what_a_torn_write_left_is_not_completed_by_a_later_one);
    base::hooks::notices(SeededFault::RetryTakesLast, writes_that_fail_one_after_the_other_leave_a_segment_for_the_batch_that_frees_others);
    base::hooks::notices(SeededFault::ScrubKeepsPin, a_scrub_that_finds_a_block_of_the_log_lost_leaves_its_segment_to_others);
}
