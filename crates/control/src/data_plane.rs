//! The real data plane behind the control plane's interface.
//!
//! Owns: opening devices, the errors' kinds, gathering figures over cores and shards.
//! Invariant: adds nothing to what `dataplane` does; every error keeps its cause, and with it its words.

use crate::{config::StoreSection, plane::*};
use base::{ByteSize, ClusterId, GroupId, Histogram, VolumeId, unit::CHUNK_BYTES};
use dataplane::{
    ComponentInfo, ComponentNo, ComponentSpec, DataPlaneError, DataPlaneEvent, DataPlaneHandle, Device, FormatSpec, NodeConfig, NodeStats,
    OpenError, OpenOptions, Settings,
};
use directory::record::DeviceRecord;
use frontend::{ControlRequestId, Refused, Reply};
use nvmf::{CommandClass, TargetStats};
use nvmf::{ListenerSpec, SessionInfo};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{atomic::Ordering::Relaxed, mpsc},
    time::Duration,
};
use store::{GroupError, ShardStats};

/// What the data plane of this node has counted.
type NodeFigures = NodeStats<nvmf::Figures>;

/// The data plane of this node.
pub struct LocalDataPlane(DataPlaneHandle<FrontEnds>);

impl LocalDataPlane {
    /// Starts the cores.
    pub fn start(cores: usize, pin: bool, config: &crate::config::Config) -> Result<Self, PlaneError> {
        let settings = settings(&config.store);
        Ok(Self(DataPlaneHandle::start(NodeConfig { cores, pin, settings, shared: nvmf::TargetShared::new(config.target_options()) })?))
    }
}

fn settings(store: &StoreSection) -> Settings {
    let percent = |p: u8| f64::from(p) / 100.0;
    Settings { fill_low: percent(store.destage_low_percent), fill_high: percent(store.destage_high_percent), ..Settings::default() }
}

/// Hosts that use volumes.
fn hosts(stats: NodeFigures) -> Vec<SessionInfo> {
    stats.cores.into_iter().flat_map(|c| c.front.sessions).filter(|s| !s.discovery).collect()
}

impl From<DataPlaneError> for PlaneError {
    fn from(cause: DataPlaneError) -> Self {
        match cause {
            DataPlaneError::Group(GroupError::CannotReserve { .. } | GroupError::ComponentsFull { .. }) => Self::NoSpace { cause },
            DataPlaneError::Group(GroupError::NoComponent(_) | GroupError::ComponentExists(_) | GroupError::DescriptorTooLong { .. }) => {
                Self::Failed { cause }
            }
            DataPlaneError::Group(
                GroupError::Device { .. } | GroupError::TooSmall { .. } | GroupError::NotEmpty { .. } | GroupError::GivenTwice { .. },
            )
            | DataPlaneError::Device { .. } => Self::Device { cause },
            DataPlaneError::Group(_)
            | DataPlaneError::NoGroup(_)
            | DataPlaneError::GroupOpen(_)
            | DataPlaneError::GroupOfVolume { .. }
            | DataPlaneError::TooManyGroups => Self::Group { cause },
            DataPlaneError::Listen { .. } => Self::Listen { cause },
            DataPlaneError::Busy => Self::Busy { cause },
            DataPlaneError::Launch(_)
            | DataPlaneError::UnknownVolume(_)
            | DataPlaneError::CopiesOnNode { .. }
            | DataPlaneError::Free { .. }
            | DataPlaneError::Worker(_)
            | DataPlaneError::Stopped => Self::Failed { cause },
        }
    }
}

/// How long to wait for the devices of a daemon that has just been killed: the kernel holds them until its last I/O has ended.
const RELEASE_MAX: Duration = Duration::from_secs(10);
const RELEASE_POLL: Duration = Duration::from_millis(50);

/// Opens a device of a group that exists, when the one who had it has let go.
fn open_released(device: &DeviceRecord) -> Result<Device, PlaneError> {
    let started = std::time::Instant::now();
    loop {
        match open_device(device, None) {
            Err(OpenError::InUse { .. }) if started.elapsed() < RELEASE_MAX => std::thread::sleep(RELEASE_POLL),
            other => return Ok(other?),
        }
    }
}

/// Opens a device of a group that is made now: a file that is not there is created.
fn create_device(device: &DeviceRecord, file: CacheFile) -> Result<Device, PlaneError> {
    Ok(open_device(device, Some(file))?)
}

fn open_device(device: &DeviceRecord, create: Option<CacheFile>) -> Result<Device, OpenError> {
    let open = |path: &str, options: OpenOptions| Device::open(Path::new(path), &options);
    match device {
        DeviceRecord::File { path, bytes } => {
            let reserve = create == Some(CacheFile::Reserved);
            open(path, OpenOptions { create_bytes: create.map(|_| *bytes), reserve, ..OpenOptions::default() })
        }
        DeviceRecord::Block { path, .. } => open(path, OpenOptions::default()),
        DeviceRecord::Memory { bytes, populated: false } => Device::memory(*bytes),
        DeviceRecord::Memory { bytes, populated: true } => Device::populated_memory(*bytes),
    }
}

/// A group takes memory for the size of its devices alone. Where that is not there, opening it would end the process.
fn check_memory(cache: &DeviceRecord, capacity: &[DeviceRecord]) -> Result<(), PlaneError> {
    let needed = store::memory_bytes(cache.bytes(), capacity.iter().map(DeviceRecord::bytes));
    let available = dataplane::memory().available;
    if needed <= available {
        return Ok(());
    }
    Err(PlaneError::Memory { needed: ByteSize(needed), available: ByteSize(available) })
}

impl DataPlane for LocalDataPlane {
    fn format_group(&self, spec: FormatSpec, cache: &DeviceRecord, file: CacheFile, capacity: &[DeviceRecord]) -> Result<(), PlaneError> {
        check_memory(cache, capacity)?;
        let cache = create_device(cache, file)?;
        let capacity = capacity.iter().map(|d| create_device(d, CacheFile::Sparse)).collect::<Result<Vec<_>, _>>()?;
        let cluster = spec.cluster;
        let mut devices = vec![cache.clone()];
        devices.extend(capacity.iter().cloned());
        self.0.format_group(spec, cache, capacity)?;
        self.0.open_group(Some(cluster), devices)?;
        Ok(())
    }

    fn open_group(&self, cluster: ClusterId, group: GroupId, devices: &[DeviceRecord]) -> Result<Vec<ComponentInfo>, PlaneError> {
        if let [cache, capacity @ ..] = devices {
            check_memory(cache, capacity)?;
        }
        let devices = devices.iter().map(open_released).collect::<Result<Vec<_>, _>>()?;
        let (info, components) = self.0.open_group(Some(cluster), devices)?;
        if info.group != group {
            self.0.close_group(info.group)?;
            return Err(PlaneError::OtherGroup { wanted: group, found: info.group, name: info.name });
        }
        Ok(components)
    }

    fn close_group(&self, group: GroupId) -> Result<(), PlaneError> {
        Ok(self.0.close_group(group)?)
    }

    fn scrub_group(&self, group: GroupId) -> Result<(), PlaneError> {
        Ok(self.0.scrub(group)?)
    }

    fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Result<ComponentNo, PlaneError> {
        Ok(self.0.create_component(group, spec)?)
    }

    fn update_component(&self, group: GroupId, no: ComponentNo, spec: ComponentSpec) -> Result<(), PlaneError> {
        Ok(self.0.update_component(group, no, spec.bytes, spec.reserve_chunks, spec.descriptor)?)
    }

    fn delete_component(&self, group: GroupId, no: ComponentNo) -> Result<(), PlaneError> {
        // Idempotent: the store takes one that is gone as deleted.
        Ok(self.0.delete_component(group, no)?)
    }

    fn free_behind(&self, volume: VolumeId, end: u64) -> Result<(), PlaneError> {
        Ok(self.0.free_behind(volume, end)?)
    }

    fn apply(&self, desired: Desired) -> Result<(), PlaneError> {
        Ok(self.0.apply(desired)?)
    }

    fn listen(&self, spec: ListenerSpec) -> Result<SocketAddr, PlaneError> {
        Ok(self.0.listen(spec)?)
    }

    fn sessions(&self) -> Result<Vec<SessionInfo>, PlaneError> {
        Ok(hosts(self.0.stats()?))
    }

    fn stats(&self) -> Result<Stats, PlaneError> {
        Ok(gather(&self.0.stats()?))
    }

    fn take_events(&self) -> Option<mpsc::Receiver<DataPlaneEvent>> {
        self.0.take_events()
    }

    fn answer(&self, id: ControlRequestId, result: Result<Reply, Refused>) -> Result<(), PlaneError> {
        Ok(self.0.answer(id, result)?)
    }

    fn shutdown(&self) -> Result<(), PlaneError> {
        Ok(self.0.shutdown()?)
    }
}

fn gather(stats: &NodeFigures) -> Stats {
    let core = |c: &dataplane::CoreSnapshot<nvmf::Figures>| {
        let r = &c.reactor;
        CoreFigures {
            core: c.core,
            counters: vec![
                ("loops", r.loops.get()),
                ("busy_nanoseconds", r.busy_ns.get()),
                ("sleep_nanoseconds", r.sleep_ns.get()),
                ("syscalls", r.syscalls.get()),
                ("receive_calls", r.recv_calls.get()),
                ("receive_bytes", r.recv_bytes.get()),
                ("send_calls", r.send_calls.get()),
                ("send_bytes", r.send_bytes.get()),
                ("device_operations", r.device_ops.get()),
                ("device_bytes", r.device_bytes.get()),
                ("task_polls", r.task_polls.get()),
            ],
        }
    };
    Stats {
        cores: stats.cores.iter().map(core).collect(),
        groups: stats.groups.iter().map(|g| group(g, stats)).collect(),
        object: object(stats),
        front: front(stats),
    }
}

fn object(stats: &NodeFigures) -> ObjectFigures {
    let planes = || stats.cores.iter().map(|c| &c.router);
    let mut counters = vec![
        ("crossed_parts", planes().map(|p| p.crossed).sum()),
        ("throttled_requests", planes().map(|p| p.throttled).sum()),
        ("parts", planes().map(|p| p.lanes.parts).sum()),
        ("waited_operations", planes().map(|p| p.lanes.waited).sum()),
        ("partial_block_parts", planes().map(|p| p.lanes.partial_blocks).sum()),
    ];
    let (mut read, mut write, mut discard) = (Histogram::default(), Histogram::default(), Histogram::default());
    for p in planes() {
        read.merge(&p.read.latency);
        write.merge(&p.write.latency);
        discard.merge(&p.discard.latency);
    }
    counters.extend([
        ("reads", planes().map(|p| p.read.requests).sum()),
        ("read_bytes", planes().map(|p| p.read.bytes).sum()),
        ("read_errors", planes().map(|p| p.read.errors).sum()),
        ("writes", planes().map(|p| p.write.requests).sum()),
        ("write_bytes", planes().map(|p| p.write.bytes).sum()),
        ("write_errors", planes().map(|p| p.write.errors).sum()),
        ("discards", planes().map(|p| p.discard.requests).sum()),
        ("discard_bytes", planes().map(|p| p.discard.bytes).sum()),
        ("discard_errors", planes().map(|p| p.discard.errors).sum()),
    ]);
    let latencies = [("read", read), ("write", write), ("discard", discard)];
    ObjectFigures { counters, latencies: latencies.into_iter().map(|(name, h)| (name, (&h).into())).collect() }
}

fn front(stats: &NodeFigures) -> FrontFigures {
    let sum = |pick: fn(&TargetStats) -> u64| stats.cores.iter().map(|c| pick(&c.front.stats)).sum::<u64>();
    let mut latencies = Vec::new();
    for class in CommandClass::ALL {
        let mut all = Histogram::default();
        stats.cores.iter().for_each(|c| all.merge(&c.front.stats.classes[class as usize].latency));
        latencies.push((class.name(), (&all).into()));
    }
    FrontFigures {
        counters: vec![
            ("commands", sum(|t| t.classes.iter().map(|c| c.commands).sum())),
            ("command_errors", sum(|t| t.classes.iter().map(|c| c.errors).sum())),
            ("data_bytes", sum(|t| t.classes.iter().map(|c| c.bytes).sum())),
            ("pdus_received", sum(|t| t.pdus_in)),
            ("pdus_sent", sum(|t| t.pdus_out)),
            ("received_bytes", sum(|t| t.bytes_in)),
            ("sent_bytes", sum(|t| t.bytes_out)),
            ("connections", sum(|t| t.connections)),
            ("connections_refused", sum(|t| t.connections_refused)),
            ("connects_refused", sum(|t| t.connects_refused)),
            ("authentications", sum(|t| t.authentications)),
            ("authentication_failures", sum(|t| t.authentication_failures)),
            ("controllers", sum(|t| t.controllers)),
            ("keep_alive_expired", sum(|t| t.keep_alive_expired)),
            ("terminations_sent", sum(|t| t.terminations.iter().sum())),
            ("terminations_received", sum(|t| t.terminations_received)),
            ("timeouts", sum(|t| t.timeouts)),
            ("tls_handshakes", sum(|t| t.tls_handshakes)),
            ("tls_failures", sum(|t| t.tls_failures)),
            ("handshakes_evicted", sum(|t| t.evicted)),
            ("waits_for_queues", sum(|t| t.waited_for_queues)),
            ("late_ticks", sum(|t| t.late_ticks)),
            ("audit_events_dropped", sum(|t| t.audit_dropped)),
            ("data_digest_errors", sum(|t| t.data_digest_errors)),
            ("r2ts", sum(|t| t.r2ts)),
            ("waits_for_buffers", sum(|t| t.waited_for_buffers)),
            ("events", sum(|t| t.events)),
        ],
        gauges: vec![
            ("open_connections", sum(|t| t.connections_open)),
            ("open_controllers", stats.cores.iter().map(|c| c.front.sessions.len() as u64).sum()),
        ],
        latencies,
    }
}

fn group(g: &dataplane::GroupSnapshot, stats: &NodeFigures) -> GroupFigures {
    let shards = || stats.cores.iter().flat_map(|c| &c.shards).filter(|s| s.group == g.info.group).map(|s| &s.stats);
    let sum = |pick: fn(&ShardStats) -> u64| shards().map(pick).sum::<u64>();
    let devices = g.info.capacity.len();
    let space = |n: usize, pick: fn(&store::capacity::DeviceSpace) -> u64| -> u64 {
        shards().filter_map(|s| s.space.get(n)).map(pick).sum::<u64>() * CHUNK_BYTES
    };
    let mut components: BTreeMap<u32, u64> = BTreeMap::new();
    for (no, chunks) in shards().flat_map(|s| &s.component_chunks) {
        *components.entry(no.0).or_default() += chunks * CHUNK_BYTES;
    }
    let scrubbing: Vec<f64> = shards().filter(|s| s.scrubbing).map(|s| s.scrub_progress).collect();
    GroupFigures {
        group: g.info.group,
        devices: g.devices.iter().map(device).collect(),
        buffer_bytes: sum(|s| s.log_bytes),
        buffer_used_bytes: sum(|s| s.log_used_bytes),
        capacity_bytes: (0..devices).map(|n| space(n, |d| d.total)).collect(),
        capacity_used_bytes: (0..devices).map(|n| space(n, |d| d.total - d.free)).collect(),
        capacity_reserved_bytes: (0..devices).map(|n| space(n, |d| d.promised)).collect(),
        components,
        media_errors: sum(|s| s.checksum_errors + s.read_errors),
        failed_shards: shards().filter(|s| s.failed).count() as u32,
        failing_shards: shards().filter(|s| s.capacity_failing > 0).count() as u32,
        scrub_percent: scrubbing.iter().copied().reduce(f64::min).map(|p| (p * 100.0) as u8),
        counters: store_counters(&sum),
        gauges: vec![
            ("buffer_live_bytes", sum(|s| s.log_live_bytes)),
            ("waiting_operations", sum(|s| u64::from(s.waiting))),
            ("operations_in_flight", sum(|s| u64::from(s.in_flight))),
            ("drain_bytes_per_second", sum(|s| s.drain_bytes_per_s)),
            ("index_memory_bytes", sum(|s| s.index_memory_bytes)),
            ("recovery_milliseconds", shards().map(|s| s.recovery_time.as_millis() as u64).max().unwrap_or(0)),
            ("scrubbing_shards", scrubbing.len() as u64),
        ],
        latencies: Vec::new(),
    }
}

fn store_counters(sum: &dyn Fn(fn(&ShardStats) -> u64) -> u64) -> Vec<(&'static str, u64)> {
    vec![
        ("reads", sum(|s| s.reads)),
        ("read_blocks", sum(|s| s.read_blocks)),
        ("read_buffer_blocks", sum(|s| s.read_log_blocks)),
        ("writes", sum(|s| s.writes)),
        ("written_blocks", sum(|s| s.written_blocks)),
        ("trims", sum(|s| s.trims)),
        ("empty_trims", sum(|s| s.empty_trims)),
        ("batches", sum(|s| s.batches)),
        ("buffer_overhead_bytes", sum(|s| s.log_overhead_bytes)),
        ("destaged_bytes", sum(|s| s.destaged_bytes)),
        ("delayed_writes", sum(|s| s.delayed_writes)),
        ("checkpoints", sum(|s| s.checkpoints)),
        ("segments_released", sum(|s| s.segments_released)),
        ("no_space_errors", sum(|s| s.no_space)),
        ("checksum_errors", sum(|s| s.checksum_errors)),
        ("read_errors", sum(|s| s.read_errors)),
        ("buffer_write_errors", sum(|s| s.log_write_errors)),
        ("capacity_write_errors", sum(|s| s.capacity_write_errors)),
        ("scrub_passes", sum(|s| s.scrub_passes)),
        ("scrubbed_blocks", sum(|s| s.scrubbed_blocks)),
    ]
}

fn device(d: &Device) -> DeviceFigures {
    let c = d.counters();
    DeviceFigures {
        name: d.name().to_owned(),
        counters: vec![
            ("reads", c.reads.load(Relaxed)),
            ("read_bytes", c.read_bytes.load(Relaxed)),
            ("writes", c.writes.load(Relaxed)),
            ("write_bytes", c.write_bytes.load(Relaxed)),
            ("flushes", c.flushes.load(Relaxed)),
            ("discards", c.discards.load(Relaxed)),
        ],
        errors: c.errors.load(Relaxed),
        latencies: vec![
            ("read", Latencies::from_powers_of_two(&c.read_latency.snapshot())),
            ("write", Latencies::from_powers_of_two(&c.write_latency.snapshot())),
        ],
    }
}

#[cfg(test)]
#[path = "data_plane_tests.rs"]
mod tests;
