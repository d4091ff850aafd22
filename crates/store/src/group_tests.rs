//! Formatting, opening, and refusing to; components; power that goes at any time.

use super::*;
use crate::superblock::{probe, update};
use base::{ComponentId, ObjectId};
use format::disk::DiskError;
use format::disk::component::{get_record, put_record};
use format::disk::log::COMPONENT_NO_MAX;
use format::disk::superblock::SUPERBLOCK_OFFSETS;
use format::disk::superblock::VERSION_MAJOR;
use rt::sim::{HostId, SimDeviceOptions, SimDisk, TasksOnly, World};

const MIB: u64 = 1 << 20;

struct Fixture {
    world: World,
    host: HostId,
    devices: Vec<Device>,
}

fn spec(n: u8, force: bool) -> FormatSpec {
    FormatSpec {
        cluster: ClusterId::from_bytes([1; 16]),
        group: GroupId::from_bytes([n; 16]),
        name: format!("group-{n}"),
        shards: 2,
        created_unix_s: 1_790_000_000,
        force,
    }
}

fn component(i: u8, device: u8) -> ComponentSpec {
    ComponentSpec {
        id: ComponentId::from_bytes([i; 16]),
        object: ObjectId::from_bytes([9; 16]),
        capacity_index: device,
        bytes: 1 << 30,
        reserve_chunks: 0,
        descriptor: vec![i; 300],
    }
}

impl Fixture {
    fn new(seed: u64, sizes: &[u64]) -> Fixture {
        let mut world = World::new(seed);
        let host = world.add_host(1, |_| Box::new(TasksOnly));
        let devices = sizes.iter().map(|s| world.device(*s, SimDeviceOptions::default())).collect();
        Fixture { world, host, devices }
    }
    /// A cache device and two capacity devices, formatted.
    fn formatted(seed: u64) -> Fixture {
        let mut fixture = Fixture::new(seed, &[16 * MIB, 32 * MIB, 40 * MIB]);
        fixture.format(spec(2, false)).unwrap();
        fixture
    }
    fn format(&mut self, spec: FormatSpec) -> Result<GroupInfo, GroupError> {
        let d = self.devices.clone();
        self.world.block_on(self.host, async |rt| format_group(&rt, spec, &d[0], &d[1..]).await)
    }
    fn open(&mut self) -> Result<Group, GroupError> {
        let d = self.devices.clone();
        self.open_these(&d)
    }
    fn open_these(&mut self, devices: &[Device]) -> Result<Group, GroupError> {
        self.world.block_on(self.host, async |rt| open_group(&rt, None, devices).await)
    }
    fn refusal(&mut self) -> GroupError {
        self.open().map(|_| ()).unwrap_err()
    }
    fn probe(&mut self, i: usize) -> Probe {
        let d = self.devices[i].clone();
        self.world.block_on(self.host, async |rt| probe(&rt, &d).await.unwrap())
    }
    fn disk(&self, i: usize) -> SimDisk {
        self.world.disk(&self.devices[i])
    }
    fn power_cycle(&mut self) {
        self.world.kill(self.host);
        self.world.start(self.host);
    }
    fn update(&mut self, group: &Group, no: u32, update: ComponentUpdate) -> Result<ComponentInfo, GroupError> {
        self.world.block_on(self.host, async |rt| group.update_component(&rt, ComponentNo(no), update).await)
    }
    /// Where a slot of a page of the component table of device 0 lies.
    fn page_at(&self, info: &GroupInfo, page: u32, slot: u8) -> u64 {
        info.geometry.capacity[0].component_page_offset(page, slot)
    }
    /// The generations of both slots of such a page (0: nothing there).
    fn generations(&self, info: &GroupInfo, page: u32) -> [u64; 2] {
        [0, 1].map(|slot| {
            let bytes = self.disk(1).peek(self.page_at(info, page, slot), BLOCK_BYTES);
            PageHeader::open(&bytes, info.tag, ComponentTable::address(0, page)).unwrap_or(0)
        })
    }
    /// Puts a newer version of such a page there, with another body.
    fn rewrite_page(&mut self, info: &GroupInfo, page: u32, change: impl FnOnce(&mut [u8])) {
        let newest = usize::from(self.generations(info, page)[1] > self.generations(info, page)[0]) as u8;
        let mut bytes = self.disk(1).peek(self.page_at(info, page, newest), BLOCK_BYTES);
        change(&mut bytes);
        let generation = self.generations(info, page)[usize::from(newest)] + 1;
        PageHeader { tag: info.tag, address: ComponentTable::address(0, page), generation }.seal(&mut bytes);
        self.disk(1).poke(self.page_at(info, page, 1 - newest), &bytes);
    }
    /// Changes both copies of the superblock of a device.
    fn rewrite_superblock(&mut self, device: usize, change: impl Fn(&mut Superblock)) {
        for at in SUPERBLOCK_OFFSETS {
            let mut block = self.disk(device).peek(at, BLOCK_BYTES);
            let mut superblock = Superblock::parse(&block).unwrap();
            change(&mut superblock);
            superblock.build(&mut block);
            self.disk(device).poke(at, &block);
        }
    }
    fn create(&mut self, group: &Group, spec: ComponentSpec) -> Result<ComponentNo, GroupError> {
        self.world.block_on(self.host, async |rt| group.create_component(&rt, spec).await)
    }
}

#[test]
fn a_formatted_group_opens_in_any_order_and_says_what_it_is() {
    let mut fixture = Fixture::new(1, &[16 * MIB, 32 * MIB, 40 * MIB]);
    let made = fixture.format(spec(2, false)).unwrap();
    fixture.power_cycle();
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let devices: Vec<Device> = order.iter().map(|i: &usize| fixture.devices[*i].clone()).collect();
        let group = fixture.open_these(&devices).unwrap();
        assert_eq!(*group.info(), made);
        assert_eq!((group.cache().id(), group.capacity()[1].id()), (fixture.devices[0].id(), fixture.devices[2].id()));
        assert!(group.components().is_empty());
    }
    assert!(made.capacity_bytes() > 60 * MIB && made.log_bytes() == 14 * MIB);
    let other = ClusterId::from_bytes([7; 16]);
    let d = fixture.devices.clone();
    let e = fixture.world.block_on(fixture.host, async |rt| open_group(&rt, Some(other), &d).await.map(|_| ())).unwrap_err();
    assert!(matches!(e, GroupError::OtherCluster { .. }), "{e}");
}

#[test]
fn devices_of_many_terabytes_are_formatted_with_a_few_writes() {
    let mut fixture = Fixture::new(1, &[1 << 40, 16 << 40, 16 << 40]);
    let before = fixture.world.now();
    fixture.format(FormatSpec { shards: 16, ..spec(2, false) }).unwrap();
    let took = fixture.world.now().since(before);
    assert!(took < Duration::from_millis(200), "{took:?}");
    for d in &fixture.devices {
        let bytes = d.counters().write_bytes.load(std::sync::atomic::Ordering::Relaxed);
        assert!(bytes < 2 * MIB, "{bytes}");
    }
    let group = fixture.open().unwrap();
    let table = fixture.world.block_on(fixture.host, async |rt| group.load_chunks(&rt, 15).await.unwrap());
    assert_eq!(table.allocated(), 0);
}

#[test]
fn content_of_others_is_recognised_kept_and_overwritten_only_by_force() {
    for (i, (offset, value, name)) in format::disk::foreign::FRONT.iter().enumerate() {
        let mut fixture = Fixture::new(i as u64, &[16 * MIB, 32 * MIB]);
        let mut block = vec![0; 2 * 4096];
        let at = *offset as u64 / 4096 * 4096;
        block[(*offset as u64 - at) as usize..][..value.len()].copy_from_slice(value);
        fixture.disk(1).poke(at, &block);
        assert_eq!(fixture.probe(1), Probe::Foreign { what: name });
        let e = fixture.format(spec(2, false)).unwrap_err();
        assert!(e.to_string().contains(name), "{e}");
        assert_eq!(fixture.disk(1).peek(at, 8192), block);
        assert_eq!(fixture.probe(0), Probe::Empty, "nothing was changed");
        assert_eq!(fixture.refusal(), GroupError::NotOurs { device: fixture.devices[0].name().into(), what: "nothing" });
        fixture.format(spec(2, true)).unwrap();
        fixture.open().unwrap();
    }
}

#[test]
fn signatures_at_the_end_and_unknown_data_are_noticed() {
    let at_end = |from_end: u64, at: usize, value: &[u8]| {
        let mut fixture = Fixture::new(1, &[16 * MIB, 32 * MIB]);
        let mut block = vec![0; 4096];
        block[at..at + value.len()].copy_from_slice(value);
        fixture.disk(0).poke(16 * MIB - from_end, &block);
        let found = fixture.probe(0);
        fixture.format(spec(2, true)).unwrap();
        assert_eq!(fixture.disk(0).peek(16 * MIB - from_end, 4096), vec![0; 4096], "force clears it");
        found
    };
    let md = 0xA92B_4EFCu32.to_le_bytes();
    assert_eq!(at_end(4096, 3584, b"EFI PART"), Probe::Foreign { what: "the backup of a partition table (GPT)" });
    assert_eq!(at_end(0x10000, 0, &md), Probe::Foreign { what: "a member of a Linux software RAID (md)" });
    assert_eq!(at_end(0x2000, 0, &md), Probe::Foreign { what: "a member of a Linux software RAID (md)" });
    assert_eq!(at_end(0x20000, 1024, &0x00BA_B10Cu64.to_le_bytes()), Probe::Foreign { what: "a member of a ZFS pool" });
    let mut fixture = Fixture::new(1, &[16 * MIB]);
    fixture.disk(0).poke(512 << 10, &[7; 4096]);
    assert_eq!(fixture.probe(0), Probe::Foreign { what: "data of unknown kind" });
    fixture.disk(0).poke(0, &[&[0; 510][..], &[0x55, 0xAA], &[0; 3584]].concat());
    assert_eq!(fixture.probe(0), Probe::Foreign { what: "a partition table (MBR) or boot sector" });
}

#[test]
fn a_group_is_not_formatted_over_and_an_old_format_leaves_nothing_behind() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    assert_eq!(fixture.create(&group, component(1, 0)), Ok(ComponentNo(1)));
    let e = fixture.format(spec(3, false)).unwrap_err();
    assert!(matches!(&e, GroupError::NotEmpty { what, .. } if what.contains("group-2")), "{e}");
    fixture.format(spec(3, true)).unwrap();
    let group = fixture.open().unwrap();
    assert!(group.components().is_empty());
    assert_eq!(group.info().name, "group-3");
}

#[test]
fn wrong_requests_are_refused_before_anything_is_written() {
    let mut fixture = Fixture::new(1, &[3 * MIB, 32 * MIB]);
    let too_small = fixture.format(spec(2, false)).unwrap_err();
    assert!(matches!(too_small, GroupError::TooSmall { role: "cache", bytes_min, .. } if bytes_min == 13 * MIB), "{too_small}");
    let mut fixture = Fixture::new(1, &[16 * MIB, 4 * MIB]);
    assert!(matches!(fixture.format(spec(2, false)), Err(GroupError::TooSmall { role: "capacity", .. })));
    let mut fixture = Fixture::new(1, &[16 * MIB, 32 * MIB]);
    for shards in [0, 3, 32] {
        assert_eq!(fixture.format(FormatSpec { shards, ..spec(2, false) }), Err(GroupError::Shards { shards }));
    }
    for name in [String::new(), "x".repeat(65)] {
        assert!(matches!(fixture.format(FormatSpec { name, ..spec(2, false) }), Err(GroupError::Name { .. })));
    }
    fixture.devices.push(fixture.devices[0].clone());
    assert!(matches!(fixture.format(spec(2, false)), Err(GroupError::GivenTwice { .. })));
    let mut many = Fixture::new(1, &[16 * MIB; 9]);
    assert_eq!(many.format(spec(2, false)), Err(GroupError::DeviceCount { count: 8 }));
    many.devices.truncate(8);
    many.format(FormatSpec { name: "x".repeat(64), ..spec(2, false) }).unwrap();
    assert_eq!(many.open().unwrap().capacity().len(), 7);
    fixture.devices.truncate(1);
    assert_eq!(fixture.format(spec(2, false)), Err(GroupError::DeviceCount { count: 0 }));
    assert_eq!(fixture.probe(0), Probe::Empty);
}

#[test]
fn one_damaged_copy_of_a_superblock_is_healed_and_two_are_reported() {
    let mut fixture = Fixture::formatted(1);
    for copy in [0, 64 << 10] {
        fixture.disk(1).corrupt(copy + 100);
        assert!(matches!(fixture.probe(1), Probe::Ours(f) if !f.both_valid));
        fixture.open().unwrap();
        assert!(matches!(fixture.probe(1), Probe::Ours(f) if f.both_valid), "copy at {copy}");
    }
    fixture.disk(1).corrupt(512);
    fixture.disk(1).corrupt((64 << 10) + 512);
    assert!(matches!(fixture.probe(1), Probe::Damaged { .. }));
    let device = fixture.devices[1].name().to_string();
    assert_eq!(fixture.refusal(), GroupError::Damaged { device, cause: DiskError::Checksum });
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let mut fixture = Fixture::formatted(1);
    let mut block = fixture.disk(0).peek(0, 4096);
    block[12] = VERSION_MAJOR as u8 + 1;
    let crc = base::crc32c(&[&block[..8], &block[12..]].concat());
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    fixture.disk(0).poke(0, &block);
    assert_eq!(fixture.probe(0), Probe::Newer { major: VERSION_MAJOR + 1 });
    assert_eq!(fixture.refusal(), GroupError::Newer { device: fixture.devices[0].name().into(), major: VERSION_MAJOR + 1 });
    assert!(fixture.format(spec(2, false)).unwrap_err().to_string().contains("newer Basalt"));
}

#[test]
fn what_one_device_holds_keeps_the_group_from_being_made_whichever_it_is() {
    for device in 0..3 {
        let mut fixture = Fixture::new(1, &[16 * MIB, 32 * MIB, 40 * MIB]);
        let mut block = [0; BLOCK_BYTES];
        block[..4].copy_from_slice(b"XFSB");
        fixture.disk(device).poke(0, &block);
        assert!(matches!(fixture.probe(device), Probe::Foreign { .. }));
        let name = fixture.devices[device].name().to_owned();
        let refusal = fixture.format(spec(2, false)).unwrap_err();
        assert!(matches!(&refusal, GroupError::NotEmpty { device, .. } if *device == name), "{refusal}");
        assert_eq!(fixture.disk(device).peek(0, BLOCK_BYTES), block);
        for other in (0..3).filter(|other| *other != device) {
            assert!(matches!(fixture.probe(other), Probe::Empty), "nothing was changed");
        }
        fixture.format(spec(2, true)).unwrap();
    }
}

#[test]
fn each_copy_of_a_superblock_counts_by_its_generation() {
    let mut fixture = Fixture::formatted(1);
    for device in 0..3 {
        let generations = SUPERBLOCK_OFFSETS.map(|at| Superblock::parse(&fixture.disk(device).peek(at, BLOCK_BYTES)).unwrap().generation);
        assert_eq!(generations, [1, 2], "device {device}");
    }
    // The second alone is from a newer version: that counts as well.
    let second = SUPERBLOCK_OFFSETS[1];
    let mut block = fixture.disk(0).peek(second, BLOCK_BYTES);
    block[12] = VERSION_MAJOR as u8 + 1;
    let crc = base::crc32c(&[&block[..8], &block[12..]].concat());
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    fixture.disk(0).poke(second, &block);
    assert_eq!(fixture.probe(0), Probe::Newer { major: VERSION_MAJOR + 1 });
    assert!(matches!(fixture.refusal(), GroupError::Newer { .. }));
}

#[test]
fn an_older_format_is_refused_with_the_way_out_and_stays_as_it_is() {
    let mut fixture = Fixture::formatted(1);
    for device in 0..fixture.devices.len() {
        for copy in [0, 64 << 10] {
            let mut block = fixture.disk(device).peek(copy, 4096);
            block[12] = 2;
            let crc = base::crc32c(&[&block[..8], &block[12..]].concat());
            block[8..12].copy_from_slice(&crc.to_le_bytes());
            fixture.disk(device).poke(copy, &block);
        }
    }
    let refusal = fixture.refusal();
    assert_eq!(refusal, GroupError::Older { device: fixture.devices[0].name().into(), major: 2 });
    assert!(refusal.to_string().contains("nothing was changed: copy its volumes elsewhere with the version that wrote it"), "{refusal}");
    for device in 0..fixture.devices.len() {
        assert!(matches!(fixture.probe(device), Probe::Ours(f) if f.superblock.major == 2 && f.both_valid));
    }
    assert!(fixture.format(spec(2, false)).unwrap_err().to_string().contains("a device of disk group"));
    fixture.format(spec(2, true)).unwrap();
}

#[test]
fn incomplete_mixed_duplicate_and_truncated_sets_are_refused() {
    let mut fixture = Fixture::formatted(1);
    let all = fixture.devices.clone();
    let e = fixture.open_these(&all[1..2]).map(|_| ()).unwrap_err();
    assert!(matches!(&e, GroupError::Incomplete { missing, .. } if missing.len() == 2), "{e}");
    assert!(e.to_string().contains("the cache device") && e.to_string().contains("capacity device 1"), "{e}");

    // a device of another group
    fixture.devices =
        vec![fixture.world.device(16 * MIB, SimDeviceOptions::default()), fixture.world.device(32 * MIB, SimDeviceOptions::default())];
    fixture.format(spec(5, false)).unwrap();
    let mixed = [all[0].clone(), all[1].clone(), fixture.devices[1].clone()];
    assert!(matches!(fixture.open_these(&mixed).map(|_| ()), Err(GroupError::Mixed { .. })));

    // a device that was left over from an earlier format of the same group
    let again = [fixture.world.device(16 * MIB, SimDeviceOptions::default()), all[1].clone(), all[2].clone()];
    fixture.devices = again.to_vec();
    fixture.format(spec(2, true)).unwrap();
    let left_over = [all[0].clone(), all[1].clone(), all[2].clone()];
    assert!(matches!(fixture.open_these(&left_over).map(|_| ()), Err(GroupError::MixedFormats { .. })));

    // a copy, whole or too small
    for (bytes, whole) in [(32 * MIB, true), (24 * MIB, false)] {
        let copy = fixture.world.device(bytes, SimDeviceOptions::default());
        let front = fixture.disk(1).peek(0, MIB as usize);
        fixture.world.disk(&copy).poke(0, &front);
        if whole {
            let set = [again[0].clone(), again[1].clone(), again[2].clone(), copy];
            assert!(matches!(fixture.open_these(&set).map(|_| ()), Err(GroupError::Duplicate { .. })));
        } else {
            let set = [again[0].clone(), copy.clone(), again[2].clone()];
            let e = fixture.open_these(&set).map(|_| ()).unwrap_err();
            assert_eq!(e, GroupError::Truncated { device: copy.name().into(), bytes: 24 * MIB, formatted: 32 * MIB });
        }
    }
    let twice = [again[0].clone(), again[1].clone(), again[1].clone()];
    assert!(matches!(fixture.open_these(&twice).map(|_| ()), Err(GroupError::GivenTwice { .. })));
}

#[test]
fn power_may_go_while_a_superblock_is_updated() {
    let (mut old_seen, mut new_seen) = (0, 0);
    for seed in 0..80u64 {
        let mut fixture = Fixture::formatted(seed);
        let device = fixture.devices[1].clone();
        for round in 0..3u64 {
            let Probe::Ours(found) = fixture.probe(1) else { panic!("seed {seed}: lost") };
            let (mut found, before, d) = (*found.clone(), found.superblock.clone(), device.clone());
            fixture.world.spawn(fixture.host, 0, move |rt| async move {
                let _ = update(&rt, &d, &mut found, |s| s.name = format!("round-{round}")).await;
            });
            fixture.world.run_for(Duration::from_nanos(seed * 6_000));
            fixture.power_cycle();
            let Probe::Ours(found) = fixture.probe(1) else { panic!("seed {seed}: neither old nor new") };
            if found.superblock == before {
                old_seen += 1;
            } else {
                assert_eq!(found.superblock.name, format!("round-{round}"));
                new_seen += 1;
            }
        }
    }
    assert!(old_seen > 10 && new_seen > 10, "{old_seen} old, {new_seen} new");
}

#[test]
fn power_may_go_while_a_group_is_formatted() {
    let (mut none, mut whole) = (0, 0);
    for seed in 0..60u64 {
        let mut fixture = Fixture::new(seed, &[16 * MIB, 32 * MIB, 40 * MIB]);
        let d = fixture.devices.clone();
        fixture.world.spawn(fixture.host, 0, move |rt| async move {
            let _ = format_group(&rt, spec(2, false), &d[0], &d[1..]).await;
        });
        fixture.world.run_for(Duration::from_nanos(seed * 100_000));
        fixture.power_cycle();
        match fixture.open() {
            Ok(group) => {
                whole += 1;
                let table = fixture.world.block_on(fixture.host, async |rt| group.load_chunks(&rt, 1).await.unwrap());
                table.check().unwrap();
            }
            Err(_) => none += 1,
        }
        fixture.format(spec(2, true)).unwrap();
        fixture.open().unwrap();
    }
    assert!(none > 5 && whole > 5, "{none} without a group, {whole} with a whole one");
}

#[test]
fn components_are_durable_idempotent_and_their_numbers_are_never_given_again() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    for i in 0..20 {
        assert_eq!(fixture.create(&group, component(i, i % 2)), Ok(ComponentNo(u32::from(i) + 1)));
    }
    assert_eq!(fixture.create(&group, component(3, 1)), Ok(ComponentNo(4)), "the same again");
    assert_eq!(fixture.create(&group, component(3, 0)), Err(GroupError::ComponentExists(ComponentNo(4))));
    assert_eq!(fixture.create(&group, component(90, 2)), Err(GroupError::NoDevice { index: 2, count: 2 }));
    let long = ComponentSpec { descriptor: vec![0; 385], ..component(90, 0) };
    assert_eq!(fixture.create(&group, long), Err(GroupError::DescriptorTooLong { bytes: 385 }));
    let change = ComponentUpdate { bytes: Some(5 << 30), reserve_chunks: Some(8), descriptor: Some(vec![1, 2, 3]) };
    let want = group.components();
    fixture.world.block_on(fixture.host, async |rt| {
        let info = group.update_component(&rt, ComponentNo(2), change).await.unwrap();
        assert_eq!((info.bytes, info.reserve_chunks, &info.descriptor[..]), (5 << 30, 8, &[1u8, 2, 3][..]));
        group.delete_component(&rt, ComponentNo(20)).await.unwrap();
        group.delete_component(&rt, ComponentNo(20)).await.unwrap();
        assert_eq!(
            group.update_component(&rt, ComponentNo(20), ComponentUpdate::default()).await,
            Err(GroupError::NoComponent(ComponentNo(20)))
        );
    });
    fixture.power_cycle();
    let group = fixture.open().unwrap();
    assert_eq!(group.components().len(), 19);
    assert!(group.components().iter().zip(&want).all(|(a, b)| a == b || a.no == ComponentNo(2)));
    assert_eq!(group.component(ComponentNo(2)).unwrap().bytes, 5 << 30);
    assert_eq!(fixture.create(&group, component(20, 1)), Ok(ComponentNo(21)), "the highest number was deleted, and is still known");
}

#[test]
fn deleted_records_make_room_and_a_full_table_says_so() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    let max = group.info().geometry.capacity[0].components_max();
    let d = fixture.devices.clone();
    fixture.world.block_on(fixture.host, async |rt| {
        let spec = |n: u32| ComponentSpec { id: ComponentId::from_bytes(u128::from(n).to_le_bytes()), ..component(0, 0) };
        for n in 1..=max {
            assert_eq!(group.create_component(&rt, spec(n)).await, Ok(ComponentNo(n)));
        }
        let full = group.create_component(&rt, spec(max + 1)).await;
        assert!(matches!(full, Err(GroupError::ComponentsFull { components_max, .. }) if components_max == max));
        for n in 0..50 {
            group.delete_component(&rt, ComponentNo(n + 1)).await.unwrap();
            assert_eq!(group.create_component(&rt, spec(max + 1 + n)).await, Ok(ComponentNo(max + 1 + n)));
        }
        let again = open_group(&rt, None, &d).await.unwrap();
        assert_eq!(again.components(), group.components());
    });
}

#[test]
fn more_than_there_is_cannot_be_promised() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    let total = u64::from(group.info().geometry.capacity[0].chunks_per_shard) * 2;
    assert!(fixture.create(&group, ComponentSpec { reserve_chunks: total - 10, ..component(1, 0) }).is_ok());
    let e = fixture.create(&group, ComponentSpec { reserve_chunks: 12, ..component(2, 0) }).unwrap_err();
    assert!(matches!(e, GroupError::CannotReserve { .. }), "{e}");
    assert!(fixture.create(&group, ComponentSpec { reserve_chunks: 10, ..component(2, 0) }).is_ok());
    assert!(fixture.create(&group, ComponentSpec { reserve_chunks: total, ..component(3, 1) }).is_ok(), "the other device");
    let update = ComponentUpdate { reserve_chunks: Some(12), ..Default::default() };
    let e = fixture.world.block_on(fixture.host, async |rt| group.update_component(&rt, ComponentNo(2), update).await);
    assert!(matches!(e, Err(GroupError::CannotReserve { .. })));
}

#[test]
fn a_promise_counts_in_whole_chunks_of_each_shard_and_once() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    let total = u64::from(group.info().geometry.capacity[0].chunks_per_shard);
    let promise = |i, reserve_chunks| ComponentSpec { reserve_chunks, ..component(i, 0) };
    let refused = |fixture: &Fixture, wanted: u64, promised: u64| {
        let bytes = |chunks: u64| chunks * base::unit::CHUNK_BYTES;
        let device = fixture.devices[1].name().into();
        GroupError::CannotReserve { device, wanted: bytes(wanted), promised: bytes(promised), total: bytes(total * 2) }
    };
    // An odd one takes a chunk more than it says.
    fixture.create(&group, promise(1, total * 2 - 3)).unwrap();
    assert_eq!(fixture.create(&group, promise(2, 3)), Err(refused(&fixture, 3, total * 2 - 2)));
    fixture.create(&group, promise(2, 1)).unwrap();
    assert_eq!(fixture.create(&group, promise(3, 1)), Err(refused(&fixture, 1, total * 2)));
    // What it has is not added to what it is to have.
    let reserve = |chunks| ComponentUpdate { reserve_chunks: Some(chunks), ..ComponentUpdate::default() };
    assert!(fixture.update(&group, 1, reserve(total * 2 - 2)).is_ok());
    assert_eq!(fixture.update(&group, 1, reserve(total * 2 - 1)), Err(refused(&fixture, total * 2 - 1, 2)));
    assert!(fixture.create(&group, promise(3, 0)).is_ok());
}

#[test]
fn where_more_is_promised_than_there_is_a_component_without_a_promise_is_still_made() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    fixture.create(&group, component(1, 0)).unwrap();
    fixture.rewrite_page(&group.info(), 1, |page| {
        let record = get_record(page, 0).unwrap().unwrap();
        put_record(page, 0, Some(&format::disk::ComponentRecord { reserve_chunks: 1 << 40, ..record }));
    });
    let group = fixture.open().unwrap();
    assert_eq!(group.component(ComponentNo(1)).unwrap().reserve_chunks, 1 << 40);
    let promise = |reserve_chunks| ComponentSpec { reserve_chunks, ..component(2, 0) };
    assert!(matches!(fixture.create(&group, promise(1)), Err(GroupError::CannotReserve { .. })));
    assert_eq!(fixture.create(&group, promise(0)), Ok(ComponentNo(2)));
}

#[test]
fn an_update_changes_what_it_names_and_nothing_else() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    fixture.create(&group, ComponentSpec { reserve_chunks: 6, ..component(1, 0) }).unwrap();
    let mut want = group.component(ComponentNo(1)).unwrap();
    let none = ComponentUpdate::default();
    assert_eq!(fixture.update(&group, 1, none.clone()), Ok(want.clone()));
    want.bytes = 7 << 30;
    assert_eq!(fixture.update(&group, 1, ComponentUpdate { bytes: Some(7 << 30), ..none.clone() }), Ok(want.clone()));
    want.reserve_chunks = 9;
    assert_eq!(fixture.update(&group, 1, ComponentUpdate { reserve_chunks: Some(9), ..none.clone() }), Ok(want.clone()));
    want.descriptor = vec![5; 384];
    assert_eq!(fixture.update(&group, 1, ComponentUpdate { descriptor: Some(vec![5; 384]), ..none.clone() }), Ok(want.clone()));
    let long = ComponentUpdate { descriptor: Some(vec![5; 385]), ..none };
    assert_eq!(fixture.update(&group, 1, long), Err(GroupError::DescriptorTooLong { bytes: 385 }));
    fixture.power_cycle();
    assert_eq!(fixture.open().unwrap().components(), [want]);
}

#[test]
fn a_component_is_the_same_only_with_the_same_object_and_its_use_ends_with_it() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    fixture.create(&group, component(1, 0)).unwrap();
    let other = ComponentSpec { object: ObjectId::from_bytes([8; 16]), ..component(1, 0) };
    assert_eq!(fixture.create(&group, other), Err(GroupError::ComponentExists(ComponentNo(1))));
    let used = group.used(ComponentNo(1));
    used.more();
    assert_eq!((group.used(ComponentNo(1)).get(), group.used(ComponentNo(1)) == used), (1, true));
    fixture.world.block_on(fixture.host, async |rt| group.delete_component(&rt, ComponentNo(1)).await.unwrap());
    assert_eq!((group.used(ComponentNo(1)).get(), group.used(ComponentNo(1)) == used), (0, false));
}

#[test]
fn each_version_of_a_page_of_components_and_of_the_head_goes_to_the_other_slot() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    let info = (*group.info()).clone();
    assert_eq!(fixture.generations(&info, 0), [1, 0]);
    for i in 0..16 {
        fixture.create(&group, component(i, 0)).unwrap();
    }
    // Eight records a page; the head is written when a page comes into use.
    assert_eq!([0, 1, 2].map(|page| fixture.generations(&info, page)), [[3, 2], [7, 8], [7, 8]]);
    // What failed may have come all the same: its number of a version is spent, on a page that is new as well.
    let at = fixture.page_at(&info, 3, 0);
    fixture.disk(1).fail_writes(at..at + 8192, Some(1), DeviceError::Media);
    assert!(fixture.create(&group, component(20, 0)).is_err());
    fixture.create(&group, component(20, 0)).unwrap();
    assert_eq!(fixture.generations(&info, 3), [2, 0]);
    let head = fixture.generations(&info, 0);
    assert!(head[0] == 3 && head[1] > 3, "{head:?}");
    fixture.create(&group, component(21, 0)).unwrap();
    assert_eq!(fixture.generations(&info, 3), [2, 3]);
    fixture.power_cycle();
    assert_eq!(fixture.open().unwrap().components(), group.components());
}

#[test]
fn after_the_highest_number_there_is_no_other_component() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    fixture.create(&group, component(1, 0)).unwrap();
    for (number, next) in [(COMPONENT_NO_MAX - 1, true), (COMPONENT_NO_MAX, false)] {
        fixture.rewrite_page(&group.info(), 1, |page| {
            let record = get_record(page, 0).unwrap().unwrap();
            put_record(page, 0, Some(&format::disk::ComponentRecord { number, ..record }));
            put_record(page, 1, None);
        });
        let group = fixture.open().unwrap();
        let made = fixture.create(&group, component(2, 0));
        if next {
            assert_eq!(made, Ok(ComponentNo(COMPONENT_NO_MAX)));
        } else {
            assert!(matches!(made, Err(GroupError::ComponentsFull { .. })), "{made:?}");
        }
    }
}

#[test]
fn a_head_that_counts_more_pages_than_there_are_is_damaged() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    let pages = group.info().geometry.capacity[0].component_pages;
    fixture.rewrite_page(&group.info(), 0, |page| TableHead { pages_used: u64::from(pages) + 1 }.build(page));
    let cause = DiskError::Value { field: "pages used" };
    let device = fixture.devices[1].name().into();
    assert_eq!(fixture.refusal(), GroupError::TableDamaged { device, table: "component", shard: 0, page: 0, cause });
}

#[test]
fn devices_that_say_different_things_about_their_group_are_refused() {
    type Other = fn(&mut Superblock);
    let others: [Other; 3] = [
        |s| s.tag = FormatTag(s.tag.0 ^ 1),
        |s| s.capacity[0] = DeviceUuid::from_bytes([7; 16]),
        |s| s.cluster = ClusterId::from_bytes([9; 16]),
    ];
    for (i, change) in others.into_iter().enumerate() {
        let mut fixture = Fixture::formatted(1);
        fixture.rewrite_superblock(2, change);
        assert!(matches!(fixture.refusal(), GroupError::MixedFormats { .. }), "change {i}");
    }
}

#[test]
fn a_page_that_was_read_wrong_is_read_again_and_what_comes_then_is_what_counts() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    for i in 0..2 {
        fixture.create(&group, component(i, 0)).unwrap();
    }
    let (info, device) = ((*group.info()).clone(), fixture.devices[1].clone());
    assert_eq!(fixture.generations(&info, 1), [1, 2]);
    let offset = fixture.page_at(&info, 1, 0);
    let right = fixture.disk(1).peek(offset, 2 * BLOCK_BYTES);
    // The older slot, the newest one, and both.
    for wrong in [&[500][..], &[4096 + 500], &[500, 4096 + 500]] {
        let mut slots = right.clone();
        wrong.iter().for_each(|at| slots[*at] ^= 1);
        let (address, device) = (ComponentTable::address(0, 1), device.clone());
        let (found, slots) = fixture.world.block_on(fixture.host, async |rt| {
            let found = crate::slots::newest(&rt, &device, offset, &mut slots, info.tag, address).await;
            (found, slots)
        });
        assert_eq!(found, Ok(format::disk::page::Newest { slot: 1, generation: 2, doubtful: false }), "{wrong:?}");
        assert!(slots == right, "{wrong:?}");
    }
}

#[test]
fn a_superblock_that_was_read_wrong_is_read_again() {
    let mut fixture = Fixture::formatted(1);
    for i in 0..500 {
        fixture.disk(1).flip_reads(1);
        let found = fixture.probe(1);
        assert!(matches!(&found, Probe::Ours(found) if found.both_valid), "{i}: {found:?}");
    }
}

#[test]
fn power_may_go_while_components_change() {
    for seed in 0..60u64 {
        let mut fixture = Fixture::formatted(seed);
        let group = fixture.open().unwrap();
        let acknowledged = std::rc::Rc::new(std::cell::RefCell::new((Vec::new(), Vec::new())));
        let (ack, g) = (acknowledged.clone(), group.clone());
        fixture.world.spawn(fixture.host, 0, move |rt| async move {
            for i in 0..40u8 {
                let no = g.create_component(&rt, component(i, i % 2)).await.unwrap();
                ack.borrow_mut().0.push(no);
                if i % 3 == 2 {
                    ack.borrow_mut().0.retain(|n| *n != no);
                    g.delete_component(&rt, no).await.unwrap();
                    ack.borrow_mut().1.push(no);
                }
            }
        });
        fixture.world.run_for(Duration::from_nanos(seed * 150_000));
        fixture.power_cycle();
        let (created, deleted) = acknowledged.borrow().clone();
        let group = fixture.open().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(created.iter().all(|no| group.component(*no).is_some()), "seed {seed}: a component is lost");
        assert!(deleted.iter().all(|no| group.component(*no).is_none()), "seed {seed}: a component is back");
        let highest = created.iter().chain(&deleted).map(|n| n.0).max().unwrap_or(0);
        assert!(fixture.create(&group, component(99, 0)).unwrap().0 > highest, "seed {seed}: a number is given again");
    }
}

#[test]
fn a_failed_write_of_a_component_changes_nothing_and_can_be_tried_again() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    fixture.create(&group, component(1, 0)).unwrap();
    fixture.disk(1).fail_writes(0..32 * MIB, Some(1), DeviceError::Media);
    let e = fixture.create(&group, component(2, 0)).unwrap_err();
    assert!(matches!(e, GroupError::Device { error: DeviceError::Media, .. }), "{e}");
    assert_eq!(group.components().len(), 1);
    assert_eq!(fixture.create(&group, component(2, 0)), Ok(ComponentNo(3)));
    fixture.power_cycle();
    assert_eq!(fixture.open().unwrap().components(), group.components());
}

#[test]
fn changes_from_two_tasks_take_turns() {
    let mut fixture = Fixture::formatted(1);
    let group = fixture.open().unwrap();
    fixture.world.block_on(fixture.host, async |rt| {
        let all = join_all((0..12).map(|i| Box::pin(group.create_component(&rt, component(i, i % 2))))).await;
        let mut numbers: Vec<u32> = all.into_iter().map(|no| no.unwrap().0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..13).collect::<Vec<_>>());
    });
    assert_eq!(fixture.open().unwrap().components(), group.components());
}
