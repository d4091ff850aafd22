//! What an opening makes of a log that is damaged, or in which something lies that does not belong there.

use super::faults::{find, lazy, media};
use super::harness::{Lab, Setup, component_spec, next_order, quick, write_op};
use crate::{ComponentNo, ComponentUpdate, GroupError, GroupInfo, OpKind, Settings, StoreError, open_group};
use base::unit::BLOCK_BYTES;
use base::{BlockNo, Duration};
use format::disk::FormatTag;
use format::disk::log::{BatchHeader, Record, RecordKind, SegmentHeader, SummaryHeader, SummaryPeek, batch_header_blocks, summary_blocks};
use rt::sim::SimDisk;
use rt::{DeviceError, Rt};
use std::sync::atomic::Ordering::Relaxed;

const BLOCK: u64 = BLOCK_BYTES as u64;

fn info(lab: &mut Lab) -> GroupInfo {
    let devices = lab.devices.clone();
    lab.world.block_on(lab.host, async |rt: Rt| open_group(&rt, None, &devices).await.expect("opens").info().as_ref().clone())
}

/// What the first block of component 1 and what follows hold after a new start, or why it is refused.
fn opened(lab: &mut Lab, settings: Settings, block: u64, blocks: u32) -> Result<Result<Vec<u64>, StoreError>, GroupError> {
    let (running, devices, c) = (lab.running(), lab.devices.clone(), lab.components[0]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        running.open(&rt, &devices, settings).await?;
        Ok(running.read(&rt, c, block, blocks).await)
    })
}

fn is_damaged<T: core::fmt::Debug>(result: &Result<T, GroupError>) -> bool {
    matches!(result, Err(GroupError::LogDamaged { .. }))
}

/// The log of the only shard, with `writes` single blocks 1000, 1001 and so on in it, from block 5 on, each three further.
struct Log {
    lab: Lab,
    disk: SimDisk,
    info: GroupInfo,
}

impl Log {
    fn with(writes: u64) -> Log {
        let mut lab = Lab::new(900, &Setup::default());
        let c = lab.components[0];
        let info = info(&mut lab);
        lab.with(lazy(), async |rt, s| {
            for n in 0..writes {
                s.write(&rt, c, 5 + 3 * n, &[1000 + n]).await.unwrap();
            }
        });
        // Not of its power: summaries are not flushed, and must be there.
        lab.world.kill_process(lab.host);
        lab.world.start(lab.host);
        let disk = lab.world.disk(&lab.devices[0]);
        Log { lab, disk, info }
    }
    /// Where block `block` of segment `seq` lies.
    fn at(&self, seq: u64, block: u64) -> u64 {
        let log = self.info.geometry.log;
        log.segment_offset(0, (seq % u64::from(log.segments_per_shard)) as u32) + block * BLOCK
    }
    fn segment_blocks(&self) -> u32 {
        self.info.geometry.log.segment_blocks()
    }
    fn header(&self, seq: u64) -> SegmentHeader {
        SegmentHeader::parse(&self.disk.peek(self.at(seq, 0), BLOCK_BYTES), self.info.tag).expect("a header")
    }
    fn put_header(&self, place: u64, header: SegmentHeader) {
        let mut block = vec![0; BLOCK_BYTES];
        header.build(&mut block);
        self.disk.poke(self.at(place, 0), &block);
    }
    /// The values of the first `writes` blocks that were written must be there; what else was found.
    fn opens_with(&mut self, writes: u64, settings: Settings) {
        let c = self.lab.components[0];
        self.lab.with(settings, async |rt, s| {
            for n in 0..writes {
                assert_eq!(s.read(&rt, c, 5 + 3 * n, 1).await, Ok(vec![1000 + n]), "write {n}");
            }
            s.check();
        });
    }
}

/// A record that takes block 5 away.
fn trim_of_the_first() -> Record {
    Record { kind: RecordKind::Trim, unchecked: false, component: 1, block: BlockNo(5), blocks: 1, lsn: 2, order: next_order(), data_at: 0 }
}

#[test]
fn a_batch_behind_the_end_counts_only_if_it_follows_in_every_way() {
    type Change = (&'static str, fn(&mut BatchHeader));
    let changes: [Change; 8] = [
        ("nothing", |_| ()),
        ("shard", |h| h.shard = 1),
        ("number", |h| h.lsn += 1),
        ("number of the last", |h| h.lsn -= 1),
        ("segment", |h| h.segment_seq += 8),
        ("position", |h| h.position += 1),
        ("checksum of the one before", |h| h.previous_crc ^= 1),
        ("format", |h| h.tag = FormatTag(h.tag.0 ^ 1)),
    ];
    for (what, change) in changes {
        let mut log = Log::with(2);
        // Behind the header of the segment, and two blocks for each write.
        let last = log.disk.peek(log.at(1, 3), BLOCK_BYTES);
        let last = BatchHeader::parse(&last, log.info.tag).expect("the second batch");
        let mut next = BatchHeader { lsn: last.header.lsn + 1, position: 5, previous_crc: last.crc, ..last.header };
        change(&mut next);
        let mut block = vec![0; BLOCK_BYTES];
        next.build(&mut block, &[trim_of_the_first()], &[]);
        log.disk.poke(log.at(1, 5), &block);
        let expected = if what == "nothing" { 0 } else { 1000 };
        assert_eq!(opened(&mut log.lab, lazy(), 5, 4), Ok(Ok(vec![expected, 0, 0, 1001])), "other: {what}");
    }
}

#[test]
fn a_header_of_a_segment_counts_only_where_it_belongs() {
    type Change = (&'static str, fn(&mut SegmentHeader));
    let changes: [Change; 6] = [
        ("nothing", |_| ()),
        ("shard", |h| h.shard = 1),
        ("place", |h| h.index += 1),
        ("number", |h| h.segment_seq += 1),
        ("size", |h| h.blocks *= 2),
        ("format", |h| h.tag = FormatTag(h.tag.0 ^ 1)),
    ];
    for (what, change) in changes {
        let mut log = Log::with(2);
        // The next segment, and batches between the two that are nowhere.
        let first = log.header(1);
        let mut next = SegmentHeader { index: first.index + 1, segment_seq: 2, first_lsn: 1000, ..first };
        change(&mut next);
        log.put_header(2, next);
        if what == "nothing" {
            let refused = opened(&mut log.lab, lazy(), 5, 1);
            assert!(is_damaged(&refused), "{refused:?}");
        } else {
            log.opens_with(2, lazy());
        }
    }
}

/// A summary of a segment that says something else than its batches; `newest`: of the last segment, else of one before.
fn with_a_summary(newest: bool, change: fn(&mut SummaryHeader)) -> Result<Result<Vec<u64>, StoreError>, GroupError> {
    let writes = if newest { 2 } else { 300 };
    let mut log = Log::with(writes);
    let (end, tag) = (log.segment_blocks(), log.info.tag);
    let last = log.disk.peek(log.at(1, u64::from(end) - 16), 16 * BLOCK_BYTES);
    let mut header = match SummaryPeek::parse(&last, tag) {
        Ok(_) => SummaryHeader::parse(&last, tag).expect("a summary").header,
        Err(_) => {
            let batch = BatchHeader::parse(&log.disk.peek(log.at(1, 3), BLOCK_BYTES), tag).expect("the second batch").crc;
            SummaryHeader { tag, shard: 0, segment_seq: 1, first_lsn: 1, last_lsn: 2, tail_seq: 1, used_blocks: 5, last_crc: batch }
        }
    };
    change(&mut header);
    let mut summary = vec![0; summary_blocks(1, 0) * BLOCK_BYTES];
    header.build(&mut summary, &[trim_of_the_first()], &[]);
    log.disk.poke(log.at(1, u64::from(end) - 1), &summary);
    opened(&mut log.lab, lazy(), 5, 1)
}

#[test]
fn a_summary_counts_only_if_it_is_that_of_its_segment() {
    type Change = (&'static str, fn(&mut SummaryHeader));
    let changes: [Change; 6] = [
        ("nothing", |_| ()),
        ("shard", |h| h.shard = 1),
        ("segment", |h| h.segment_seq += 8),
        ("first batch", |h| h.first_lsn += 1),
        ("format", |h| h.tag = FormatTag(h.tag.0 ^ 1)),
        ("last batch", |h| h.last_lsn -= 1),
    ];
    for newest in [true, false] {
        for (what, change) in changes.iter().filter(|(what, _)| !newest || *what != "last batch") {
            // What is not believed is looked up in the batches; what is says that nothing is there.
            let expected = if *what == "nothing" { 0 } else { 1000 };
            assert_eq!(with_a_summary(newest, *change), Ok(Ok(vec![expected])), "newest {newest}, other: {what}");
        }
    }
}

#[test]
fn a_segment_that_is_missing_in_the_middle_is_not_passed_over() {
    let mut log = Log::with(300);
    let blank = vec![0; log.segment_blocks() as usize * BLOCK_BYTES];
    log.disk.poke(log.at(2, 0), &blank);
    let refused = opened(&mut log.lab, lazy(), 5, 1);
    assert!(is_damaged(&refused), "{refused:?}");
    // One that is of another history is as good as missing.
    for seq in [2, 3] {
        let mut log = Log::with(300);
        let header = log.header(seq);
        log.put_header(seq, SegmentHeader { previous_crc: header.previous_crc ^ 1, ..header });
        let refused = opened(&mut log.lab, lazy(), 5, 1);
        assert!(is_damaged(&refused), "segment {seq}: {refused:?}");
    }
    // The oldest that is needed.
    for keep_header in [true, false] {
        let mut log = Log::with(300);
        let from = u64::from(keep_header);
        log.disk.poke(log.at(1, from), &blank[from as usize * BLOCK_BYTES..]);
        let refused = opened(&mut log.lab, lazy(), 5, 1);
        assert!(is_damaged(&refused), "with its header {keep_header}: {refused:?}");
    }
}

#[test]
fn a_sealed_segment_without_summary_that_lost_a_batch_is_refused_and_one_that_lost_data_is_not() {
    for header in [true, false] {
        let mut log = Log::with(300);
        let end = u64::from(log.segment_blocks());
        log.disk.poke(log.at(1, end - 1), &[0; BLOCK_BYTES]);
        let damaged = find(&log.lab, 0, 1020) - u64::from(header) * BLOCK;
        log.disk.corrupt(damaged + 40);
        let found = opened(&mut log.lab, lazy(), 5 + 60, 1);
        if header {
            assert!(is_damaged(&found), "{found:?}");
        } else {
            assert_eq!(found, Ok(Err(media(65))));
            let c = log.lab.components[0];
            log.lab.with(lazy(), async |rt, s| {
                for n in (0..300).filter(|n| *n != 20) {
                    assert_eq!(s.read(&rt, c, 5 + 3 * n, 1).await, Ok(vec![1000 + n]));
                }
            });
        }
    }
}

#[test]
fn data_of_the_newest_segment_that_is_damaged_or_cannot_be_read_stays_in_its_place() {
    // Of a batch before the last: damaged, or unreadable. Of the last one: unreadable.
    for (n, damaged) in [(1, true), (1, false), (2, false)] {
        let mut log = Log::with(3);
        let at = find(&log.lab, 0, 1000 + n);
        if damaged {
            log.disk.corrupt(at + 700)
        } else {
            log.disk.fail_reads(at..at + 1, None)
        }
        assert_eq!(opened(&mut log.lab, lazy(), 5 + 3 * n, 1), Ok(Err(media(5 + 3 * n))), "write {n}, damaged {damaged}");
        let c = log.lab.components[0];
        log.disk.heal();
        log.lab.with(lazy(), async |rt, s| {
            for i in (0..3).filter(|i| !damaged || *i != n) {
                assert_eq!(s.read(&rt, c, 5 + 3 * i, 1).await, Ok(vec![1000 + i]), "write {n}, damaged {damaged}");
            }
            s.check();
        });
    }
}

#[test]
fn a_long_header_of_which_any_block_cannot_be_read_is_not_the_end_of_the_log() {
    let header = batch_header_blocks(190, 190) as u64;
    assert!(header > 2);
    for block in 0..header {
        let mut lab = Lab::new(901, &Setup::default());
        let c = lab.components[0];
        lab.with(lazy(), async |rt, s| {
            for b in 0..190 {
                s.submit(&rt, c, b, 1, write_op(c, b, &[1000 + b], true));
            }
            rt.sleep(Duration::from_millis(20)).await;
            assert_eq!((s.take_done().len(), s.stats().batches), (190, 1));
        });
        let at = find(&lab, 0, 1000) - (header - block) * BLOCK;
        lab.power_cycle();
        let disk = lab.world.disk(&lab.devices[0]);
        disk.fail_reads(at..at + 1, None);
        let refused = opened(&mut lab, lazy(), 0, 1);
        assert!(is_damaged(&refused), "block {block}: {refused:?}");
        disk.heal();
        lab.power_cycle();
        assert_eq!(opened(&mut lab, lazy(), 189, 1), Ok(Ok(vec![1189])));
    }
}

#[test]
fn a_read_of_the_log_that_fails_once_changes_nothing() {
    for (writes, block) in [2, 300].into_iter().flat_map(|writes| [0, 1, 200, 255].map(|block| (writes, block))) {
        let mut log = Log::with(writes);
        for seq in 1..5 {
            let at = log.at(seq, block);
            log.disk.fail_reads(at..at + 1, Some(1));
        }
        log.opens_with(writes, lazy());
    }
}

/// What was admitted once has its place again, though more is promised to others by now than is free.
#[test]
fn a_promise_that_came_later_does_not_keep_the_log_from_being_opened() {
    let components = vec![component_spec(1, 0, 0), component_spec(2, 0, 0)];
    let mut lab = Lab::new(902, &Setup { capacity_mib: vec![7], components, ..Setup::default() });
    let (a, b): (ComponentNo, ComponentNo) = (lab.components[0], lab.components[1]);
    let devices = lab.devices.clone();
    let total = lab.with(lazy(), async |rt, s| {
        let total = s.stats().chunks_total;
        for i in 0..total {
            s.write(&rt, a, i * 16, &[1000 + i]).await.unwrap();
        }
        let group = open_group(&rt, None, &devices).await.unwrap();
        let update = ComponentUpdate { reserve_chunks: Some(20), ..ComponentUpdate::default() };
        group.update_component(&rt, b, update).await.unwrap();
        total
    });
    lab.power_cycle();
    lab.with(lazy(), async |rt, s| {
        for i in 0..total {
            assert_eq!(s.read(&rt, a, i * 16, 1).await, Ok(vec![1000 + i]));
        }
        // The promise counts from then on: what becomes free is not given to others.
        s.trim(&rt, a, 0, 16).await.unwrap();
        assert_eq!(s.write(&rt, a, 0, &[1]).await, Err(StoreError::NoSpace));
        s.write(&rt, b, 0, &[1]).await.unwrap();
        s.check();
    });
}

#[test]
fn a_group_that_was_closed_opens_without_reading_its_log_through() {
    let mut lab = Lab::new(903, &Setup::default());
    let (c, cache) = (lab.components[0], lab.devices[0].clone());
    let read = |lab: &mut Lab| {
        let before = cache.counters().read_bytes.load(Relaxed);
        lab.with(lazy(), async |_, _| ());
        cache.counters().read_bytes.load(Relaxed) - before
    };
    let blank = read(&mut lab);
    lab.with(lazy(), async |rt, s| {
        for n in 0..20 {
            s.write(&rt, c, n, &[1000 + n]).await.unwrap();
        }
        s.shut_down(&rt).await;
    });
    lab.world.kill_process(lab.host);
    lab.world.start(lab.host);
    let closed = read(&mut lab);
    assert!(closed < blank + (256 << 10), "{closed} bytes, and {blank} of an empty log");
    lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 0, 2).await, Ok(vec![1000, 1001])));
}

#[test]
fn a_shard_whose_capacity_takes_nothing_closes_and_one_that_is_clean_leaves_nothing_in_the_log() {
    let mut lab = Lab::new(904, &Setup::default());
    let c = lab.components[0];
    let capacity = lab.world.disk(&lab.devices[1]);
    lab.with(quick(), async |rt, s| {
        capacity.fail_writes(0..u64::MAX, None, DeviceError::Media);
        s.write(&rt, c, 0, &[5]).await.unwrap();
        rt.sleep(Duration::from_secs(1)).await;
        let now = rt.now();
        s.shut_down(&rt).await;
        assert!(rt.now().since(now) < Duration::from_secs(1));
    });
    capacity.heal();
    lab.power_cycle();
    // A trim leaves the segment clean: closing says so in a checkpoint, though nothing was due.
    let released = lab.with(lazy(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 0, 1).await, Ok(vec![5]));
        s.trim(&rt, c, 0, 1).await.unwrap();
        s.shut_down(&rt).await;
        s.stats().segments_released
    });
    assert!(released >= 2, "{released}");
    lab.power_cycle();
    lab.with(lazy(), async |rt, s| {
        assert_eq!(s.read(&rt, c, 0, 1).await, Ok(vec![0]));
    });
}

#[test]
fn an_opening_makes_every_device_flush_first() {
    let mut lab = Lab::new(905, &Setup { capacity_mib: vec![16, 16], ..Setup::default() });
    let flushes = |lab: &Lab| lab.devices.iter().map(|d| d.counters().flushes.load(Relaxed)).collect::<Vec<_>>();
    let before = flushes(&lab);
    lab.with(lazy(), async |_, _| ());
    assert!(before.iter().zip(flushes(&lab)).all(|(before, after)| after > *before), "{before:?}, then {:?}", flushes(&lab));
}

#[test]
fn what_is_no_batch_is_wiped_where_the_next_ones_may_come() {
    let mut log = Log::with(2);
    // Behind the end, and in the two segments that come next.
    let places = [(1, 5), (2, 1), (3, 1)];
    for (seq, block) in places {
        let h = BatchHeader { tag: log.info.tag, shard: 0, lsn: 1, segment_seq: seq, position: block as u32, tail_seq: 1, previous_crc: 0 };
        let mut bytes = vec![0; BLOCK_BYTES];
        h.build(&mut bytes, &[trim_of_the_first()], &[]);
        log.disk.poke(log.at(seq, block), &bytes);
    }
    log.opens_with(2, lazy());
    for (seq, block) in places {
        assert!(base::is_zero(&log.disk.peek(log.at(seq, block), BLOCK_BYTES)), "segment {seq}, block {block}");
    }
}

#[test]
fn the_data_of_a_component_that_is_gone_is_passed_over() {
    let components = vec![component_spec(1, 0, 0), component_spec(2, 0, 0)];
    let mut lab = Lab::new(906, &Setup { components, ..Setup::default() });
    let (a, b, devices) = (lab.components[0], lab.components[1], lab.devices.clone());
    lab.with(lazy(), async |rt, s| {
        for n in 0..4 {
            s.write(&rt, a, 10 * n, &[1000 + n, 1100 + n]).await.unwrap();
            s.write(&rt, b, 10 * n, &[2000 + n]).await.unwrap();
        }
        let group = open_group(&rt, None, &devices).await.unwrap();
        group.delete_component(&rt, a).await.unwrap();
    });
    lab.power_cycle();
    lab.with(lazy(), async |rt, s| {
        for n in 0..4 {
            assert_eq!(s.read(&rt, b, 10 * n, 1).await, Ok(vec![2000 + n]));
        }
        assert_eq!(s.read(&rt, a, 0, 1).await, Err(StoreError::NoComponent));
        assert_eq!(s.stats().recovered_blocks, 4);
        s.check();
    });
}

#[test]
fn several_blocks_of_a_chunk_stay_uncorrectable() {
    let mut lab = Lab::new(907, &Setup::default());
    let c = lab.components[0];
    lab.with(lazy(), async |rt, s| {
        s.write(&rt, c, 2, &[1002, 1003, 1004, 1005]).await.unwrap();
        for block in [3, 5] {
            s.call(&rt, c, block, 1, OpKind::Uncorrectable).await.result.unwrap();
        }
    });
    lab.power_cycle();
    lab.with(lazy(), async |rt, s| {
        for block in 2..6 {
            let bad = StoreError::Uncorrectable { block: BlockNo(block) };
            let expected = if block % 2 == 1 { Err(bad) } else { Ok(vec![1000 + block]) };
            assert_eq!(s.read(&rt, c, block, 1).await, expected);
        }
    });
}

#[test]
fn an_empty_newest_segment_does_not_stand_for_the_one_before() {
    for keep in [true, false] {
        let mut log = Log::with(2);
        let first = log.header(1);
        let last = log.disk.peek(log.at(1, 3), BLOCK_BYTES);
        let last = BatchHeader::parse(&last, log.info.tag).expect("the second batch");
        let (first_lsn, previous_crc) = (last.header.lsn + 1, last.crc);
        log.put_header(2, SegmentHeader { index: first.index + 1, segment_seq: 2, first_lsn, previous_crc, ..first });
        if keep {
            log.opens_with(2, lazy());
        } else {
            log.disk.poke(log.at(1, 0), &[0; BLOCK_BYTES]);
            let refused = opened(&mut log.lab, lazy(), 5, 1);
            assert!(is_damaged(&refused), "{refused:?}");
        }
    }
}

/// What a checkpoint has released is not read again, though the segment that says so was begun before.
#[test]
fn only_what_the_newest_batch_still_needs_is_replayed() {
    for closed in [true, false] {
        let mut lab = Lab::new(908, &Setup::default());
        let c = lab.components[0];
        lab.with(quick(), async |rt, s| {
            for n in 0..300 {
                s.write(&rt, c, 3 * n, &[1000 + n]).await.unwrap();
            }
            s.drained(&rt).await;
            s.shard.borrow_mut().as_mut().expect("open").set_settings(lazy());
            s.write(&rt, c, 1, &[5]).await.unwrap();
            if closed {
                s.shut_down(&rt).await;
            }
        });
        lab.world.kill_process(lab.host);
        lab.world.start(lab.host);
        lab.with(lazy(), async |rt, s| {
            assert_eq!((s.stats().recovered_segments, s.stats().recovered_blocks), (1, 1), "closed {closed}");
            assert_eq!(s.read(&rt, c, 0, 4).await, Ok(vec![1000, 5, 0, 1001]));
            s.check();
        });
    }
}

/// The last batch fills most of its segment, so that nearly any bit of it that flips spoils it. One flips at each reading of the log in turn.
#[test]
fn a_bit_that_flips_when_the_end_of_the_log_is_read_does_not_shorten_it() {
    let values: Vec<u64> = (0..200).map(|n| 1000 + n).collect();
    let new = || {
        let mut lab = Lab::new(909, &Setup::default());
        let c = lab.components[0];
        lab.with(lazy(), async |rt, s| s.write(&rt, c, 256, &values).await.unwrap());
        lab.power_cycle();
        lab
    };
    let reads = |lab: &Lab| lab.devices[0].counters().reads.load(Relaxed);
    let mut lab = new();
    let before = reads(&lab);
    assert_eq!(opened(&mut lab, lazy(), 256, 1), Ok(Ok(vec![1000])));
    let most = reads(&lab) - before;
    assert!((10..40).contains(&most), "{most} reads");
    for nth in 0..most {
        let mut lab = new();
        let (before, cache, disk) = (reads(&lab), lab.devices[0].clone(), lab.world.disk(&lab.devices[0]));
        lab.world.spawn(lab.host, 0, move |rt| async move {
            while cache.counters().reads.load(Relaxed) < before + nth {
                rt.sleep(Duration::from_micros(1)).await;
            }
            disk.flip_reads(1);
        });
        // It may be refused: then nothing was lost, and the next try is clean.
        if opened(&mut lab, lazy(), 256, 1).is_err() {
            lab.power_cycle();
        }
        lab.world.disk(&lab.devices[0]).heal();
        let c = lab.components[0];
        lab.with(lazy(), async |rt, s| assert_eq!(s.read(&rt, c, 256, 200).await.as_ref(), Ok(&values), "read {nth}"));
    }
}

#[test]
fn a_summary_that_cannot_be_written_is_counted_and_costs_nothing_else() {
    let mut log = Log::with(0);
    let at = log.at(1, u64::from(log.segment_blocks()) - 1);
    log.disk.fail_writes(at..at + 1, Some(1), DeviceError::Media);
    let c = log.lab.components[0];
    log.lab.with(lazy(), async |rt, s| {
        for n in 0..300 {
            s.write(&rt, c, 5 + 3 * n, &[1000 + n]).await.unwrap();
        }
        assert_eq!((s.stats().log_write_errors, s.stats().failed), (1, false));
    });
    log.lab.power_cycle();
    log.opens_with(300, lazy());
}
