//! The table on devices: what was committed is loaded again; power may go at any time.

use super::*;
use crate::components::{ComponentNo, ComponentSpec};
use crate::group::{FormatSpec, Group, GroupError, GroupInfo, format_group, open_group};
use base::lane::Lane;
use base::{BlockNo, ClusterId, ComponentId, Duration, GroupId, ObjectId};
use core::cell::RefCell;
use format::disk::chunk::put_entry;
use format::disk::page::{self, TableHead};
use format::disk::{DiskError, PageAddress, PageHeader, PageKind};
use rt::sim::{HostId, SimDeviceOptions, TasksOnly, World};
use rt::{Device, Rt};
use std::collections::BTreeMap;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
const SHARDS: u8 = 2;

type Content = BTreeMap<(u32, u64), [BlockContent; 16]>;

struct Fixture {
    world: World,
    host: HostId,
    devices: Vec<Device>,
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        Fixture::with(seed, [16 * MIB, 32 * MIB, 32 * MIB])
    }
    fn with(seed: u64, sizes: [u64; 3]) -> Fixture {
        let mut world = World::new(seed);
        let host = world.add_host(1, |_| Box::new(TasksOnly));
        let devices: Vec<Device> = sizes.iter().map(|s| world.device(*s, SimDeviceOptions::default())).collect();
        let mut fixture = Fixture { world, host, devices };
        let devices = fixture.devices.clone();
        fixture.world.block_on(host, async |rt| {
            let spec = FormatSpec {
                cluster: ClusterId::from_bytes([1; 16]),
                group: GroupId::from_bytes([2; 16]),
                name: "g".into(),
                shards: SHARDS,
                created_unix_s: 0,
                force: false,
            };
            format_group(&rt, spec, &devices[0], &devices[1..]).await.unwrap();
            let group = open_group(&rt, None, &devices).await.unwrap();
            for i in 0..4u8 {
                group.create_component(&rt, component(i)).await.unwrap();
            }
        });
        fixture
    }
    fn open(&mut self) -> Result<(Group, ChunkTable), GroupError> {
        let devices = self.devices.clone();
        self.world.block_on(self.host, async |rt: Rt| {
            let group = open_group(&rt, None, &devices).await?;
            let table = group.load_chunks(&rt, 0).await?;
            Ok((group, table))
        })
    }
    fn power_cycle(&mut self) {
        self.world.kill(self.host);
        self.world.start(self.host);
    }
}

fn component(i: u8) -> ComponentSpec {
    ComponentSpec {
        id: ComponentId::from_bytes([i + 1; 16]),
        object: ObjectId::from_bytes([9; 16]),
        capacity_index: i % 2,
        bytes: 1 << 30,
        reserve_chunks: 0,
        descriptor: vec![i; 5],
    }
}

/// Chunks of an object that shard 0 holds.
fn mine(i: u64) -> u64 {
    (0..).filter(|c| Lane::of(BlockNo(c * 16)).shard(usize::from(SHARDS)) == 0).nth(i as usize).unwrap()
}

fn content(t: &ChunkTable) -> Content {
    let (mut all, mut after) = (Content::new(), None);
    loop {
        match t.walk(after, 1000) {
            Walk::Found(at) => {
                let e = t.get(at);
                if e.written != 0 {
                    all.insert((e.component().unwrap().0, e.chunk()), core::array::from_fn(|i| e.block(i as u32)));
                }
                after = Some(at);
            }
            Walk::GoOn(at) => after = Some(at),
            Walk::End => return all,
        }
    }
}

fn next(rng: &mut u64) -> u64 {
    *rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *rng >> 33
}

fn change(t: &mut ChunkTable, rng: &mut u64, seq: u64, chunks: &[u64]) {
    let no = ComponentNo(next(rng) as u32 % 4 + 1);
    let chunk = chunks[next(rng) as usize % chunks.len()];
    match t.lookup(no, chunk) {
        Some(at) if next(rng).is_multiple_of(5) => {
            if t.clear_blocks(at, next(rng) as u16, seq) == 0 {
                t.free(at);
            }
        }
        found => {
            let Ok(at) = found.map_or_else(|| t.allocate(no, chunk), Ok) else { return };
            let crc = next(rng);
            if crc.is_multiple_of(11) {
                return t.set_uncorrectable(at, 1 << (next(rng) % 16), seq);
            }
            t.set_block(at, next(rng) as u32 % 16, (!crc.is_multiple_of(7)).then_some(crc as u32), seq);
        }
    }
}

#[test]
fn what_was_committed_is_loaded_again_and_deleted_components_are_gone() {
    let mut fixture = Fixture::new(1);
    let (group, table) = fixture.open().unwrap();
    let table = Rc::new(RefCell::new(table));
    let chunks: Vec<u64> = (0..120).map(mine).collect();
    let mut rng = 7;
    for round in 0..5u64 {
        for i in 0..300 {
            change(&mut table.borrow_mut(), &mut rng, round * 1000 + i, &chunks);
        }
        let report = fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
        assert!(report.pages > 0);
        let want = content(&table.borrow());
        fixture.power_cycle();
        let (_, loaded) = fixture.open().unwrap();
        loaded.check().unwrap();
        assert_eq!(content(&loaded), want, "round {round}");
        assert_eq!(loaded.dirty_pages(), 0);
    }
    let group = fixture.open().unwrap().0;
    fixture.world.block_on(fixture.host, async |rt| group.delete_component(&rt, ComponentNo(2)).await.unwrap());
    let (_, loaded) = fixture.open().unwrap();
    loaded.check().unwrap();
    let left = content(&loaded);
    assert!(!left.is_empty() && left.keys().all(|(c, _)| *c != 2));
}

/// After a loss of power amid a checkpoint each page is as before or as after; nothing else, and never unreadable.
#[test]
fn power_may_go_at_any_time_during_a_checkpoint() {
    let (mut old_seen, mut new_seen) = (0, 0);
    for seed in 0..60u64 {
        let mut fixture = Fixture::new(seed);
        let (group, table) = fixture.open().unwrap();
        let table = Rc::new(RefCell::new(table));
        let chunks: Vec<u64> = (0..200).map(mine).collect();
        let mut rng = seed;
        let rounds = seed % 3;
        for seq in 0..rounds {
            (0..100).for_each(|_| change(&mut table.borrow_mut(), &mut rng, seq, &chunks));
            fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
        }
        let before = content(&table.borrow());
        (0..100).for_each(|_| change(&mut table.borrow_mut(), &mut rng, 10 + rounds, &chunks));
        let after = content(&table.borrow());
        let (t, devices) = (Rc::clone(&table), group.capacity().to_vec());
        fixture.world.spawn(fixture.host, 0, move |rt| async move {
            let _ = write_checkpoint(&rt, &t, &devices).await;
        });
        fixture.world.run_for(Duration::from_nanos(seed * 20_000));
        fixture.power_cycle();
        let (_, loaded) = fixture.open().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        loaded.check().unwrap();
        for (key, blocks) in content(&loaded) {
            let (b, a) = (before.get(&key) == Some(&blocks), after.get(&key) == Some(&blocks));
            assert!(b || a, "seed {seed}: {key:?} is neither old nor new");
            old_seen += u64::from(b && !a);
            new_seen += u64::from(a && !b);
        }
        for key in before.keys().filter(|k| after.get(k) == before.get(k)) {
            assert!(loaded.lookup(ComponentNo(key.0), key.1).is_some(), "seed {seed}: {key:?} was not touched, and is gone");
        }
    }
    assert!(old_seen > 20 && new_seen > 100, "the crashes fell into the middle: {old_seen} old, {new_seen} new");
}

#[test]
fn a_write_error_leaves_the_pages_dirty_and_the_next_checkpoint_brings_them() {
    let mut fixture = Fixture::new(3);
    let (group, table) = fixture.open().unwrap();
    let table = Rc::new(RefCell::new(table));
    let chunks: Vec<u64> = (0..50).map(mine).collect();
    let mut rng = 1;
    (0..100).for_each(|_| change(&mut table.borrow_mut(), &mut rng, 1, &chunks));
    let disk = fixture.world.disk(&fixture.devices[2]);
    disk.fail_writes(0..32 * MIB, Some(1), rt::DeviceError::Media);
    let result = fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await);
    assert_eq!(result, Err(CheckpointError { device: 1, error: rt::DeviceError::Media }));
    table.borrow().check().unwrap();
    fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
    let want = content(&table.borrow());
    fixture.power_cycle();
    assert_eq!(content(&fixture.open().unwrap().1), want);
    // a device that is given up does not hold up the others
    disk.fail_writes(0..32 * MIB, None, rt::DeviceError::Gone);
    (0..100).for_each(|_| change(&mut table.borrow_mut(), &mut rng, 2, &chunks));
    table.borrow_mut().fail_device(1);
    let report = fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
    assert!(report.pages > 0);
    table.borrow().check().unwrap();
}

#[test]
fn a_page_that_fails_late_in_a_checkpoint_fails_all_of_it() {
    // The first checkpoint writes all pages that the table grows by: more than are written together.
    let mut fixture = Fixture::with(5, [16 * MIB, 256 * MIB, 32 * MIB]);
    let (group, table) = fixture.open().unwrap();
    let geometry = group.info().geometry.capacity[0];
    assert!(geometry.chunk_pages_per_shard > 40);
    let table = Rc::new(RefCell::new(table));
    let at = table.borrow_mut().allocate(ComponentNo(1), mine(0)).unwrap();
    table.borrow_mut().set_block(at, 0, Some(5), 1);
    let page = geometry.chunk_page_offset(0, 40, 0);
    fixture.world.disk(&fixture.devices[1]).fail_writes(page..page + 8192, Some(1), rt::DeviceError::Media);
    let result = fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await);
    assert_eq!(result, Err(CheckpointError { device: 0, error: rt::DeviceError::Media }));
    fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
    let want = content(&table.borrow());
    fixture.power_cycle();
    assert_eq!(content(&fixture.open().unwrap().1), want);
}

#[test]
fn a_page_without_a_valid_version_is_reported_and_not_taken_for_empty() {
    let mut fixture = Fixture::new(4);
    let (group, table) = fixture.open().unwrap();
    let table = Rc::new(RefCell::new(table));
    let chunk = mine(0);
    for _ in 0..2 {
        let at = table.borrow().lookup(ComponentNo(1), chunk);
        let at = at.unwrap_or_else(|| table.borrow_mut().allocate(ComponentNo(1), chunk).unwrap());
        table.borrow_mut().set_block(at, 0, Some(5), 1);
        fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
    }
    let disk = fixture.world.disk(&fixture.devices[1]);
    let at = group.info().geometry.capacity[0].chunk_page_offset(0, 1, 0);
    disk.corrupt(at + 1024);
    assert!(fixture.open().is_ok(), "the other slot is valid");
    disk.corrupt(at + 4096 + 1024);
    assert!(matches!(fixture.open().map(|_| ()), Err(GroupError::TableDamaged { table: "chunk", page: 1, shard: 0, .. })));
}

#[test]
fn a_table_that_says_what_cannot_be_is_reported() {
    let per_page = format::disk::CHUNKS_PER_PAGE as u32;
    let other = (0..).find(|c| Lane::of(BlockNo(c * 16)).shard(usize::from(SHARDS)) == 1).unwrap();
    let entry = |component, chunk| format::disk::ChunkEntry {
        component,
        chunk,
        written: 1,
        unchecked: 0,
        uncorrectable: 0,
        lsn: 1,
        epoch: base::Epoch(1),
        changed: 1,
        crcs: core::array::from_fn(|i| u32::from(i == 0)),
    };
    // Components 1 and 3 are on this device, 2 and 4 on the other; 9 is not known, and what it has is free.
    let past = "entry past the last chunk";
    for (ok, what, bad) in [
        (entry(1, mine(5)), "chunk of another shard", Some(entry(1, other))),
        (entry(9, mine(5)), "chunk of a component of another device", Some(entry(2, mine(5)))),
        (entry(3, mine(5)), past, None),
    ] {
        let mut fixture = Fixture::new(8);
        let (group, table) = fixture.open().unwrap();
        let info = (*group.info()).clone();
        let geometry = info.geometry.capacity[0];
        let table = Rc::new(RefCell::new(table));
        let at = table.borrow_mut().allocate(ComponentNo(1), mine(0)).unwrap();
        table.borrow_mut().set_block(at, 0, Some(5), 1);
        fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
        // The last chunk, and the place behind it.
        let last = geometry.chunks_per_shard - 1;
        assert!((last + 1) % per_page != 0 && last != at.chunk);
        let page = 1 + last / per_page;
        rewrite(&fixture, &info, page, |bytes| put_entry(bytes, (last % per_page) as usize, Some(&ok)));
        fixture.open().unwrap().1.check().unwrap();
        rewrite(&fixture, &info, page, |bytes| match bad {
            Some(e) => put_entry(bytes, (last % per_page) as usize, Some(&e)),
            None => put_entry(bytes, ((last + 1) % per_page) as usize, Some(&entry(1, mine(6)))),
        });
        let device = fixture.devices[1].name().to_string();
        let cause = DiskError::Value { field: what };
        let refused = GroupError::TableDamaged { device: device.clone(), table: "chunk", shard: 0, page, cause };
        assert_eq!(fixture.open().map(|_| ()), Err(refused));
        // More pages than there are.
        rewrite(&fixture, &info, 0, |bytes| TableHead { pages_used: u64::from(geometry.chunk_pages_per_shard) + 1 }.build(bytes));
        let cause = DiskError::Value { field: "pages used" };
        assert_eq!(fixture.open().map(|_| ()), Err(GroupError::TableDamaged { device, table: "chunk", shard: 0, page: 0, cause }));
    }
}

/// Puts a newer version of a page of shard 0 on device 0.
fn rewrite(fixture: &Fixture, info: &GroupInfo, page: u32, change: impl FnOnce(&mut [u8])) {
    let (geometry, disk) = (info.geometry.capacity[0], fixture.world.disk(&fixture.devices[1]));
    let kind = if page == 0 { PageKind::ChunkHead } else { PageKind::Chunk };
    let address = PageAddress { kind, device: 0, shard: 0, index: u64::from(page) };
    let slots = disk.peek(geometry.chunk_page_offset(0, page, 0), 8192);
    let newest = page::newest(&slots, info.tag, address).unwrap();
    let mut bytes = page::slot_bytes(&slots, newest.slot).to_vec();
    change(&mut bytes);
    PageHeader { tag: info.tag, address, generation: newest.generation + 1 }.seal(&mut bytes);
    disk.poke(geometry.chunk_page_offset(0, page, 1 - newest.slot), &bytes);
}

/// A chunk was moved from one page to an earlier one, and only that page came: what lies in the other is older, and is taken off the device.
#[test]
fn the_older_of_two_places_of_a_chunk_does_not_come_back() {
    let mut fixture = Fixture::new(6);
    let (group, table) = fixture.open().unwrap();
    let geometry = group.info().geometry.capacity[0];
    let table = Rc::new(RefCell::new(table));
    let page = |at: Phys| 1 + at.chunk / format::disk::CHUNKS_PER_PAGE as u32;
    let chunk = mine(64);
    let (old, new) = {
        let mut t = table.borrow_mut();
        let before: Vec<Phys> = (0..3).map(|i| t.allocate(ComponentNo(3), mine(i * 16)).unwrap()).collect();
        let old = t.allocate(ComponentNo(1), chunk).unwrap();
        t.set_block(old, 0, Some(5), 1);
        drop(t);
        fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await.unwrap());
        let mut t = table.borrow_mut();
        t.clear_blocks(old, u16::MAX, 2);
        t.free(old);
        t.free(before[0]);
        let new = t.allocate(ComponentNo(1), chunk).unwrap();
        t.set_block(new, 0, Some(6), 3);
        (old, new)
    };
    assert!(page(new) < page(old), "{new:?} after {old:?}");
    let offset = geometry.chunk_page_offset(0, page(old), 0);
    fixture.world.disk(&fixture.devices[1]).fail_writes(offset..offset + 8192, Some(1), rt::DeviceError::Media);
    let result = fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &table, &group.capacity()).await);
    assert_eq!(result, Err(CheckpointError { device: 0, error: rt::DeviceError::Media }));
    let restart = |fixture: &mut Fixture| {
        fixture.world.kill_process(fixture.host);
        fixture.world.start(fixture.host);
        fixture.open().unwrap()
    };
    let (group, loaded) = restart(&mut fixture);
    loaded.check().unwrap();
    let at = loaded.lookup(ComponentNo(1), chunk).unwrap();
    assert_eq!((at, loaded.get(at).block(0)), (new, BlockContent::Checked(6)));
    // It is trimmed: then neither of the two may be there.
    let loaded = Rc::new(RefCell::new(loaded));
    loaded.borrow_mut().clear_blocks(at, u16::MAX, 4);
    loaded.borrow_mut().free(at);
    fixture.world.block_on(fixture.host, async |rt| write_checkpoint(&rt, &loaded, &group.capacity()).await.unwrap());
    let (_, loaded) = restart(&mut fixture);
    assert_eq!(loaded.lookup(ComponentNo(1), chunk), None, "what was overwritten and trimmed is there again");
}

#[cfg(feature = "hooks")]
#[test]
fn an_older_place_that_is_left_on_the_device_is_noticed() {
    base::hooks::notices(base::hooks::SeededFault::OlderPlaceLeft, the_older_of_two_places_of_a_chunk_does_not_come_back);
}

#[cfg(feature = "hooks")]
#[test]
fn a_late_page_that_is_not_looked_at_is_noticed() {
    base::hooks::notices(base::hooks::SeededFault::LaterPagesUnchecked, a_page_that_fails_late_in_a_checkpoint_fails_all_of_it);
}
