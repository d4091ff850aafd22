use super::*;
use crate::config::Config;
use base::{ComponentId, ObjectId};
use dataplane::{CoreSnapshot, GroupInfo, GroupSnapshot, ShardSnapshot};
use std::sync::Arc;
use store::capacity::DeviceSpace;

const CLUSTER: ClusterId = ClusterId::from_bytes([7; 16]);
const MIB: u64 = 1 << 20;

fn id(n: u8) -> GroupId {
    GroupId::from_bytes([n; 16])
}

/// A data plane of one core with devices that are files.
pub(crate) struct Node {
    dir: tempfile::TempDir,
    pub plane: LocalDataPlane,
}

impl Node {
    pub fn new() -> Self {
        let config = Config::parse("data_dir = '/nowhere'", "x").unwrap();
        Self { dir: tempfile::tempdir().unwrap(), plane: LocalDataPlane::start(1, false, &config, base::NodeSlot::FIRST).unwrap() }
    }
    fn devices(&self, name: &str) -> Vec<DeviceRecord> {
        let file =
            |role: &str, bytes| DeviceRecord::File { path: self.dir.path().join(format!("{name}-{role}")).display().to_string(), bytes };
        vec![file("cache", 64 * MIB), file("capacity", 256 * MIB)]
    }
    pub fn format(&self, name: &str, n: u8) -> Vec<DeviceRecord> {
        let spec = FormatSpec { cluster: CLUSTER, group: id(n), name: name.into(), shards: 1, created_unix_s: 1, force: false };
        let devices = self.devices(name);
        self.plane.format_group(spec, &devices[0], CacheFile::Sparse, &devices[1..]).unwrap();
        devices
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.plane.shutdown().unwrap();
    }
}

fn component(n: u8, reserve_chunks: u64) -> ComponentSpec {
    let (id, object) = (ComponentId::from_bytes([n; 16]), ObjectId::from_bytes([n; 16]));
    ComponentSpec { id, object, capacity_index: 0, bytes: 64 * MIB, reserve_chunks, descriptor: vec![n] }
}

/// Shards of two groups on two cores, with figures that differ: made of what a data plane with one open group has.
fn two_groups_on_two_cores(like: &GroupInfo) -> NodeFigures {
    let shard = |n: u8, shard: u8, of: u64| {
        let space = |total, free, promised| DeviceSpace { total, free, promised };
        let stats = ShardStats {
            log_bytes: 1000 * of,
            log_used_bytes: 100 * of,
            space: vec![space(10 * of, 7 * of, 2 * of), space(20 * of, 15 * of, 3 * of)],
            component_chunks: vec![(ComponentNo(1), of), (ComponentNo(u32::from(shard) + 2), 5 * of)],
            checksum_errors: of,
            read_errors: 10 * of,
            failed: shard == 1,
            capacity_failing: u32::from(shard) * 3,
            scrubbing: true,
            scrub_progress: 0.25 * (3.0 - of as f64),
            recovery_time: Duration::from_millis(of),
            reads: of,
            ..ShardStats::default()
        };
        ShardSnapshot { group: id(n), shard, stats }
    };
    let core =
        |core: usize, shards| CoreSnapshot { core, reactor: Arc::default(), router: Default::default(), shards, front: Default::default() };
    let group =
        |n| GroupSnapshot { info: GroupInfo { group: id(n), capacity: vec![like.capacity[0]; 2], ..like.clone() }, devices: Vec::new() };
    NodeFigures {
        resyncs: vec![],
        slow_copies: Default::default(),
        failed_copies: Default::default(),
        cores: vec![core(0, vec![shard(1, 0, 1), shard(2, 0, 100)]), core(1, vec![shard(1, 1, 2)])],
        groups: vec![group(1), group(2)],
    }
}

#[test]
fn figures_of_a_group_are_those_of_its_shards_on_all_cores_and_of_no_other_group() {
    let node = Node::new();
    node.format("a", 1);
    let stats = two_groups_on_two_cores(&node.plane.handle.stats().unwrap().groups[0].info);
    let [a, b] = &gather(&stats).groups[..] else { panic!("two groups") };
    assert_eq!((a.group, a.buffer_bytes, a.buffer_used_bytes), (id(1), 3000, 300));
    let chunks = |all: &[u64]| all.iter().map(|n| n * CHUNK_BYTES).collect::<Vec<_>>();
    assert_eq!(a.capacity_bytes, chunks(&[30, 60]));
    assert_eq!(a.capacity_used_bytes, chunks(&[9, 15]));
    assert_eq!(a.capacity_reserved_bytes, chunks(&[6, 9]));
    assert_eq!(a.components, [(1, 3), (2, 5), (3, 10)].map(|(no, n)| (no, n * CHUNK_BYTES)).into(), "a component is on several shards");
    assert_eq!(a.media_errors, 33, "blocks with wrong sums, and blocks that could not be read");
    assert_eq!((a.failed_shards, a.failing_shards), (1, 1), "shards, not their errors");
    assert_eq!(a.scrub_percent, Some(25), "a scrub is as far as its last shard");
    let of = |name| a.figures.get(name).expect("known");
    assert_eq!((of("reads"), of("recovery_milliseconds"), of("scrubbing_shards")), (3, 2, 2));
    assert_eq!((b.group, b.buffer_bytes, b.media_errors, b.failed_shards), (id(2), 100_000, 1100, 0));
    assert_eq!(b.capacity_used_bytes, chunks(&[300, 500]));
}

#[test]
fn a_shard_that_is_not_scrubbed_has_no_part_in_the_percent() {
    let node = Node::new();
    node.format("a", 1);
    let mut stats = two_groups_on_two_cores(&node.plane.handle.stats().unwrap().groups[0].info);
    stats.cores[1].shards[0].stats.scrubbing = false;
    assert_eq!(gather(&stats).groups[0].scrub_percent, Some(50));
    stats.cores[0].shards[0].stats.scrubbing = false;
    assert_eq!(gather(&stats).groups[0].scrub_percent, None);
}

#[test]
fn each_counter_of_the_object_layer_is_the_sum_of_its_own_over_the_cores() {
    let node = Node::new();
    node.format("a", 1);
    let mut stats = two_groups_on_two_cores(&node.plane.handle.stats().unwrap().groups[0].info);
    for (n, core) in (1..).zip(&mut stats.cores) {
        let r = &mut core.router;
        for (of, kind) in (1..).zip([&mut r.read, &mut r.write, &mut r.discard]) {
            (kind.requests, kind.bytes, kind.errors) = (of * n, of * n * 10, of * n * 100);
            (0..of * n).for_each(|_| kind.latency.record(1000));
        }
        (r.crossed, r.throttled) = (n * 7, n * 9);
    }
    let object = gather(&stats).object;
    let of = |name| object.figures.get(name).expect("known");
    for (of_kind, names) in (1..).zip([
        ["reads", "read_bytes", "read_errors"],
        ["writes", "write_bytes", "write_errors"],
        ["discards", "discard_bytes", "discard_errors"],
    ]) {
        assert_eq!(names.map(of), [3, 30, 300].map(|n| n * of_kind), "{names:?}");
    }
    assert_eq!((of("crossed_parts"), of("throttled_requests")), (21, 27));
    let latencies: Vec<_> = object.latencies.iter().map(|(name, l)| (*name, l.count)).collect();
    assert_eq!(latencies, [("read", 3), ("write", 6), ("discard", 9)]);
}

#[test]
fn hosts_that_only_discover_are_no_sessions() {
    let node = Node::new();
    node.format("a", 1);
    let mut stats = two_groups_on_two_cores(&node.plane.handle.stats().unwrap().groups[0].info);
    let session = |cntlid, discovery| SessionInfo {
        cntlid,
        subsystem: "nqn.s".into(),
        host_nqn: "nqn.h".into(),
        host_id: [1; 16],
        peer: "10.0.0.1:4000".parse().unwrap(),
        discovery,
        io_queues: 0,
        kato_ms: 0,
        header_digest: false,
        data_digest: false,
        encrypted: false,
        since: base::Instant::default(),
    };
    stats.cores[0].front.0.0.sessions = vec![session(1, false), session(2, true)];
    stats.cores[1].front.0.0.sessions = vec![session(3, true), session(4, false)];
    assert_eq!(hosts(stats).iter().map(|s| s.cntlid).collect::<Vec<_>>(), [1, 4]);
}

#[test]
fn the_bounds_of_destaging_are_those_of_the_file() {
    let config = Config::parse("data_dir = '/d'\nstore = { destage_low_percent = 15, destage_high_percent = 85 }", "x").unwrap();
    let settings = settings(&config.store);
    assert_eq!((settings.fill_low, settings.fill_high), (0.15, 0.85));
}

#[test]
fn errors_of_the_data_plane_are_of_the_kind_that_helps() {
    let device = || "d".to_owned();
    let failed = DataPlaneError::from(GroupError::NoComponent(ComponentNo(3)));
    let words = failed.to_string();
    assert_eq!(PlaneError::from(failed).to_string(), words, "the words stay");
    let group = |e: GroupError| PlaneError::from(DataPlaneError::from(e));
    for full in [
        GroupError::CannotReserve { device: device(), wanted: 3, promised: 2, total: 4 },
        GroupError::ComponentsFull { device: device(), components_max: 9 },
    ] {
        assert!(matches!(group(full), PlaneError::NoSpace { .. }));
    }
    for wrong in
        [GroupError::NoComponent(ComponentNo(3)), GroupError::ComponentExists(ComponentNo(3)), GroupError::DescriptorTooLong { bytes: 999 }]
    {
        assert!(matches!(group(wrong), PlaneError::Failed { .. }));
    }
    for bad in [
        GroupError::TooSmall { device: device(), role: "cache", shards: 1, bytes: 1, bytes_min: 2 },
        GroupError::NotEmpty { device: device(), what: "a file system".into() },
        GroupError::GivenTwice { device: device() },
    ] {
        assert!(matches!(group(bad), PlaneError::Device { .. }));
    }
    let other = GroupError::OtherCluster { group: "g".into(), found: CLUSTER, expected: CLUSTER };
    assert!(matches!(group(other), PlaneError::Group { .. }));
    for of_group in [DataPlaneError::NoGroup(id(1)), DataPlaneError::GroupOpen(id(1)), DataPlaneError::TooManyGroups] {
        assert!(matches!(PlaneError::from(of_group), PlaneError::Group { .. }));
    }
    assert!(matches!(PlaneError::from(DataPlaneError::Busy), PlaneError::Busy { .. }));
    assert!(matches!(PlaneError::from(DataPlaneError::Stopped), PlaneError::Failed { .. }));
}

#[test]
fn a_component_that_is_gone_is_deleted_and_one_without_room_is_refused_for_room() {
    let node = Node::new();
    node.format("a", 1);
    let no = node.plane.create_component(id(1), component(1, 2)).unwrap();
    assert!(matches!(node.plane.create_component(id(1), component(2, 1 << 20)), Err(PlaneError::NoSpace { .. })));
    node.plane.delete_component(id(1), no).unwrap();
    node.plane.delete_component(id(1), no).unwrap();
    assert!(
        matches!(node.plane.delete_component(id(2), no), Err(PlaneError::Group { .. })),
        "of a group that is not open nothing is known"
    );
}

fn of(devices: &[DeviceRecord]) -> OpenedDevices {
    OpenedDevices { devices: devices.to_vec(), ..OpenedDevices::default() }
}

#[test]
fn another_group_at_the_devices_of_one_is_closed_again() {
    let node = Node::new();
    let a = node.format("a", 1);
    node.plane.close_group(id(1)).unwrap();
    let Err(why @ PlaneError::OtherGroup { wanted, found, .. }) = node.plane.open_group(CLUSTER, id(2), &of(&a)) else {
        panic!("it is not this one")
    };
    assert_eq!((wanted, found), (id(2), id(1)));
    let why = why.to_string();
    assert!(why.contains("'a'") && why.contains("right devices"), "{why}");
    assert!(node.plane.stats().unwrap().groups.is_empty(), "nothing stays open");
    node.plane.open_group(CLUSTER, id(1), &of(&a)).unwrap();
    let open: Vec<_> = node.plane.stats().unwrap().groups.iter().map(|g| g.group).collect();
    assert_eq!(open, [id(1)], "its devices were free");
}

/// Tables for so much do not fit in any memory: the files are not even made.
#[test]
fn devices_whose_tables_do_not_fit_in_memory_are_refused_before_anything_is_done() {
    let node = Node::new();
    let mut devices = node.devices("huge");
    let DeviceRecord::File { path, bytes } = &mut devices[1] else { unreachable!() };
    *bytes = 1 << 55;
    let path = path.clone();
    let spec = FormatSpec { cluster: CLUSTER, group: id(1), name: "huge".into(), shards: 1, created_unix_s: 1, force: false };
    let refused = [
        node.plane.format_group(spec, &devices[0], CacheFile::Sparse, &devices[1..]),
        node.plane.open_group(CLUSTER, id(1), &of(&devices)).map(drop),
    ];
    for error in refused {
        let Err(why @ PlaneError::Memory { .. }) = error else { panic!("{error:?}") };
        let why = why.to_string();
        assert!(why.contains("of memory for their tables"), "{why}");
    }
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_volume_and_a_host_are_what_all_cores_say_of_them() {
    let node = Node::new();
    node.format("a", 1);
    let mut stats = two_groups_on_two_cores(&node.plane.handle.stats().unwrap().groups[0].info);
    let volume = VolumeId::from_bytes([5; 16]);
    for (n, core) in (1..).zip(&mut stats.cores) {
        let mut counted = VolumeStats { volume: Some(volume), throttled: n, requests: n, ..VolumeStats::default() };
        (counted.write.requests, counted.write.bytes, counted.write.errors) = (10 * n, 100 * n, n);
        counted.write.latency.record(5000);
        core.router.volumes = vec![counted];
        let mut host = HostCounters { name: "nqn.h".into(), queues: 1, running: n, ..Default::default() };
        host.classes[CommandClass::Read as usize].commands = n;
        core.front.0.0.stats.hosts.apart = vec![host.clone()];
        core.front.0.0.stats.hosts.others.classes[CommandClass::Write as usize].commands = 1;
        core.front.0.0.stats.hosts.others.classes[CommandClass::Admin as usize].commands = 100;
        core.front.0.1.stats.hosts.apart = vec![HostCounters { name: "iqn.h".into(), ..host }];
        core.front.0.1.stats.hosts.others.classes[CommandClass::Write as usize].errors = 1;
    }
    let stats = gather(&stats);
    let [one] = &stats.volumes[..] else { panic!("one volume") };
    let write = one.operations.iter().find(|o| o.operation == "write").unwrap();
    assert_eq!((one.volume, one.throttled, one.requests), (Some(volume), 3, 3));
    assert_eq!((write.operations, write.bytes, write.errors, write.latencies.count), (30, 300, 3, 2));
    assert_eq!(write.latencies.buckets.iter().map(|(_, n)| n).sum::<u64>(), 2);
    let of =
        |n: usize| (stats.hosts[n].nqn.as_deref(), stats.hosts[n].queues, stats.hosts[n].requests, stats.hosts[n].operations[0].operations);
    assert_eq!((of(0), of(1), of(2)), ((Some("iqn.h"), 2, 3, 3), (Some("nqn.h"), 2, 3, 3), (None, 0, 0, 0)), "the others come last");
    assert_eq!((stats.hosts[2].operations[1].operations, stats.hosts[2].operations[1].errors), (2, 2), "of both front ends");
    assert!(stats.hosts.len() == 3 && stats.hosts.iter().all(|host| host.operations.iter().all(|o| o.operation != "admin")));
}
