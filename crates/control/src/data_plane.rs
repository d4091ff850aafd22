//! The real data plane behind the control plane's interface.
//!
//! Owns: opening devices, the errors' kinds, gathering figures over cores and shards.
//! Invariant: adds nothing to what `dataplane` does; every error keeps its cause, and with it its words.

use crate::{config::StoreSection, plane::*};
use base::{
    ByteSize, ClusterId, GroupId, Histogram, IoClass, NodeSlot, ObjectId, ResyncPace, VolumeId, counters::Figures, unit::CHUNK_BYTES,
};
use cluster::CopySeen;
use dataplane::{
    Balancing, ChangeOutcome, ClassStats, ComponentInfo, ComponentNo, ComponentSpec, DataPlaneError, DataPlaneEvent, DataPlaneHandle,
    Device, FillState, FormatSpec, Found, NodeConfig, NodeStats, OpenError, OpenOptions, Settings, VolumeStats,
};
use directory::record::DeviceRecord;
use frontend::{CommandClass, ControlRequestId, FrontEnd, HostCounters, Of, Refused, Reply};
use nvmf::{ListenerSpec, SessionInfo};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Duration,
};
use store::{GroupDevices, GroupError, ShardStats};

/// What the data plane of this node has counted.
type NodeFigures = NodeStats<((nvmf::Figures, iscsi::Figures), peers::PeersStats)>;

/// Where one of its front ends listens.
type Listener = <FrontEnds as FrontEnd>::Listener;

/// The data plane of this node.
pub struct LocalDataPlane {
    handle: DataPlaneHandle<FrontEnds>,
    balancing: Balancing,
}

impl LocalDataPlane {
    /// Starts the cores, of the node with this slot.
    pub fn start(cores: usize, pin: bool, config: &crate::config::Config, slot: NodeSlot) -> Result<Self, PlaneError> {
        let settings = settings(&config.store);
        let options = config.target_options(slot);
        let limits = options.host_limits();
        let nvme = Arc::new(nvmf::TargetShared::new(options));
        // What hosts take is counted together, by whatever they come.
        let iscsi = Arc::new(iscsi::Shared::new(Arc::clone(nvme.quotas()), limits));
        let shared = (Arc::new((nvme, iscsi)), Arc::default());
        let handle = DataPlaneHandle::start(NodeConfig { cores, pin, settings, shared })?;
        let balancing = if config.cluster.balance { Balancing::Usual } else { Balancing::Off };
        Ok(Self { handle, balancing })
    }

    fn listen_at(&self, at: Listener) -> Result<SocketAddr, PlaneError> {
        match self.handle.listen(at)? {
            Of::First(Of::First(addr) | Of::Second(addr)) | Of::Second(addr) => Ok(addr),
        }
    }
}

fn settings(store: &StoreSection) -> Settings {
    let percent = |p: u8| f64::from(p) / 100.0;
    Settings { fill_low: percent(store.destage_low_percent), fill_high: percent(store.destage_high_percent), ..Settings::default() }
}

/// Hosts that use volumes.
fn hosts(stats: NodeFigures) -> Vec<SessionInfo> {
    stats.cores.into_iter().flat_map(|c| c.front.0.0.sessions).filter(|s| !s.discovery).collect()
}

impl From<DataPlaneError> for PlaneError {
    fn from(cause: DataPlaneError) -> Self {
        match cause {
            DataPlaneError::Group(GroupError::CannotReserve { .. } | GroupError::ComponentsFull { .. }) => Self::NoSpace { cause },
            DataPlaneError::Group(GroupError::NoComponent(_) | GroupError::ComponentExists(_) | GroupError::DescriptorTooLong { .. }) => {
                Self::Failed { cause }
            }
            DataPlaneError::Group(
                GroupError::Device { .. }
                | GroupError::TooSmall { .. }
                | GroupError::NotEmpty { .. }
                | GroupError::GivenTwice { .. }
                | GroupError::NotVacated { .. }
                | GroupError::LastDevice { .. }
                | GroupError::Leaving { .. }
                | GroupError::Undecided { .. },
            )
            | DataPlaneError::Device { .. } => Self::Device { cause },
            DataPlaneError::Group(_)
            | DataPlaneError::NoGroup(_)
            | DataPlaneError::GroupOpen(_)
            | DataPlaneError::GroupOfVolume { .. }
            | DataPlaneError::TooManyGroups => Self::Group { cause },
            DataPlaneError::Listen { .. } => Self::Listen { cause },
            DataPlaneError::Unconfirmed { .. } => Self::Unconfirmed { cause },
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
fn check_memory<'a>(cache_bytes: u64, capacity: impl IntoIterator<Item = &'a DeviceRecord>) -> Result<(), PlaneError> {
    let needed = store::memory_bytes(cache_bytes, capacity.into_iter().map(DeviceRecord::bytes));
    let available = dataplane::memory().available;
    if needed <= available {
        return Ok(());
    }
    Err(PlaneError::Memory { needed: ByteSize(needed), available: ByteSize(available) })
}

impl DataPlane for LocalDataPlane {
    fn format_group(&self, spec: FormatSpec, cache: &DeviceRecord, file: CacheFile, capacity: &[DeviceRecord]) -> Result<(), PlaneError> {
        check_memory(cache.bytes(), capacity)?;
        let cache = create_device(cache, file)?;
        let capacity = capacity.iter().map(|d| create_device(d, CacheFile::Sparse)).collect::<Result<Vec<_>, _>>()?;
        let cluster = spec.cluster;
        let mut devices = vec![cache.clone()];
        devices.extend(capacity.iter().cloned());
        self.handle.format_group(spec, cache, capacity)?;
        self.handle.open_group(Some(cluster), devices)?;
        Ok(())
    }

    fn open_group(&self, cluster: ClusterId, group: GroupId, devices: &OpenedDevices) -> Result<Vec<ComponentInfo>, PlaneError> {
        let OpenedDevices { devices, maybe, lost, numbers_from } = devices;
        if let [cache, capacity @ ..] = &devices[..] {
            check_memory(cache.bytes(), capacity.iter().chain(maybe))?;
        }
        let open = |device: &DeviceRecord| {
            let opened = open_released(device);
            opened.inspect_err(|error| tracing::warn!(%error, "a device that was being added, or was leaving")).ok()
        };
        let devices = GroupDevices {
            devices: devices.iter().map(open_released).collect::<Result<Vec<_>, _>>()?,
            maybe: maybe.iter().filter_map(open).collect(),
            lost: lost.clone(),
            numbers_from: *numbers_from,
        };
        let (info, components) = self.handle.commands().open_group_with(Some(cluster), devices).wait()?;
        if info.group != group {
            self.handle.close_group(info.group)?;
            return Err(PlaneError::OtherGroup { wanted: group, found: info.group, name: info.name });
        }
        Ok(components)
    }

    fn add_capacity(&self, group: GroupId, number: u8, device: &DeviceRecord, force: bool) -> Result<(), PlaneError> {
        check_memory(0, [device])?;
        let device = create_device(device, CacheFile::Sparse)?;
        Ok(self.handle.commands().add_capacity(group, number, device, force).wait()?)
    }

    fn remove_capacity(&self, group: GroupId, number: u8) -> Result<(), PlaneError> {
        Ok(self.handle.commands().remove_capacity(group, number).wait()?)
    }

    fn capacity_numbers(&self, group: GroupId) -> Result<BTreeSet<u8>, PlaneError> {
        Ok(self.handle.commands().capacity_numbers(group).wait()?)
    }

    fn copies_seen(&self, group: GroupId) -> Result<Vec<CopySeen>, PlaneError> {
        let accepted = self.handle.commands().accepted_epochs(group).wait()?;
        Ok(accepted.into_iter().map(CopySeen::from).collect())
    }

    fn close_group(&self, group: GroupId) -> Result<(), PlaneError> {
        Ok(self.handle.close_group(group)?)
    }

    fn scrub_group(&self, group: GroupId) -> Result<(), PlaneError> {
        Ok(self.handle.scrub(group)?)
    }

    fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Result<ComponentNo, PlaneError> {
        Ok(self.handle.create_component(group, spec)?)
    }

    fn update_component(&self, group: GroupId, no: ComponentNo, spec: ComponentSpec) -> Result<(), PlaneError> {
        Ok(self.handle.update_component(group, no, spec.bytes, spec.reserve_chunks, spec.descriptor)?)
    }

    fn delete_component(&self, group: GroupId, no: ComponentNo) -> Result<(), PlaneError> {
        // Idempotent: the store takes one that is gone as deleted.
        Ok(self.handle.delete_component(group, no)?)
    }

    fn free_behind(&self, volume: VolumeId, end: u64) -> Result<(), PlaneError> {
        Ok(self.handle.free_behind(volume, end)?)
    }

    fn fill(&self, from: VolumeId, to: VolumeId, pace: ResyncPace) -> Result<FillState, PlaneError> {
        Ok(self.handle.commands().fill(from, to, pace).wait()?)
    }

    fn hold_filled(&self, from: VolumeId) -> Result<bool, PlaneError> {
        Ok(self.handle.commands().hold_filled(from).wait()?)
    }

    fn release(&self, from: VolumeId) -> Result<(), PlaneError> {
        Ok(self.handle.commands().release(from).wait()?)
    }

    fn end_fill(&self, from: VolumeId) -> Result<(), PlaneError> {
        Ok(self.handle.commands().end_fill(from).wait()?)
    }

    fn apply(&self, desired: Desired) -> Result<(), PlaneError> {
        Ok(self.handle.apply(Desired { balancing: self.balancing, ..desired })?)
    }

    fn confirm(&self, volume: VolumeId) -> Result<(), PlaneError> {
        Ok(self.handle.commands().confirm(volume).wait()?)
    }

    fn listen(&self, spec: ListenerSpec) -> Result<SocketAddr, PlaneError> {
        self.listen_at(Of::First(Of::First(spec)))
    }

    fn listen_iscsi(&self, spec: iscsi::ListenerSpec) -> Result<SocketAddr, PlaneError> {
        self.listen_at(Of::First(Of::Second(spec)))
    }

    fn listen_for_nodes(&self, at: SocketAddr) -> Result<SocketAddr, PlaneError> {
        self.listen_at(Of::Second(at))
    }

    fn sessions(&self) -> Result<Vec<SessionInfo>, PlaneError> {
        Ok(hosts(self.handle.stats()?))
    }

    fn iscsi_sessions(&self) -> Result<Vec<iscsi::SessionInfo>, PlaneError> {
        let all = self.handle.stats()?.cores.into_iter().flat_map(|c| c.front.0.1.sessions);
        Ok(all.filter(|s| !s.target.is_empty()).collect())
    }

    fn stats(&self) -> Result<Stats, PlaneError> {
        Ok(gather(&self.handle.stats()?))
    }

    fn take_events(&self) -> Option<mpsc::Receiver<DataPlaneEvent>> {
        self.handle.take_events()
    }

    fn answer(&self, id: ControlRequestId, result: Result<Reply, Refused>) -> Result<(), PlaneError> {
        Ok(self.handle.answer(id, result)?)
    }

    fn directory_read(&self, request: u64, records: Option<Vec<(ObjectId, Found)>>) {
        self.handle.commands().directory_read(request, records);
    }
    fn directory_changed(&self, request: u64, outcome: ChangeOutcome) {
        self.handle.commands().directory_changed(request, outcome);
    }
    fn shutdown(&self) -> Result<(), PlaneError> {
        Ok(self.handle.shutdown()?)
    }
}

fn gather(stats: &NodeFigures) -> Stats {
    Stats {
        slow_copies: stats.slow_copies.iter().copied().collect(),
        failed_copies: stats.failed_copies.iter().copied().collect(),
        resyncs: stats.resyncs.iter().map(|(copy, chunk)| (*copy, chunk.map_or(u64::MAX, |chunk| chunk * CHUNK_BYTES))).collect(),
        cores: stats.cores.iter().map(|c| CoreFigures { core: c.core, figures: Figures::of(&*c.reactor) }).collect(),
        groups: stats.groups.iter().map(|g| group(g, stats)).collect(),
        object: object(stats),
        front: front(stats),
        iscsi: Figures::sum(stats.cores.iter().map(|c| &c.front.0.1.stats)),
        volumes: volumes(stats),
        hosts: host_figures(stats),
        peers: Figures::sum(stats.cores.iter().map(|c| &c.front.1)),
    }
}

/// Each volume, over all cores.
fn volumes(stats: &NodeFigures) -> Vec<VolumeFigures> {
    let mut all: BTreeMap<Option<VolumeId>, VolumeStats> = BTreeMap::new();
    for one in stats.cores.iter().flat_map(|c| &c.router.volumes) {
        all.entry(one.volume).or_default().merge(one);
    }
    let operation = |volume: &VolumeStats, class: IoClass| {
        let ClassStats { requests, bytes, errors, latency } = volume.class(class);
        OperationFigures { operation: class.name(), operations: *requests, bytes: *bytes, errors: *errors, latencies: latency.into() }
    };
    let figures = |(volume, one): (Option<VolumeId>, VolumeStats)| VolumeFigures {
        volume,
        operations: IoClass::ALL.map(|class| operation(&one, class)).into(),
        throttled: one.throttled,
        requests: one.requests,
        held: one.held,
    };
    all.into_iter().map(figures).collect()
}

/// Each host, over all cores and both front ends; and, where there is any, what is not counted with one of them.
fn host_figures(stats: &NodeFigures) -> Vec<HostFigures> {
    let tables = || stats.cores.iter().flat_map(|c| [&c.front.0.0.stats.hosts, &c.front.0.1.stats.hosts]);
    let mut all: BTreeMap<&str, HostCounters> = BTreeMap::new();
    for one in tables().flat_map(|table| &table.apart) {
        all.entry(&one.name).or_default().merge(one);
    }
    let mut others = HostCounters::default();
    tables().for_each(|table| others.merge(&table.others));
    let any = others.queues > 0 || host_classes().any(|class| others.classes[class as usize].commands > 0);
    let operation = |host: &HostCounters, class: CommandClass| {
        let frontend::ClassStats { commands, errors, bytes, latency } = &host.classes[class as usize];
        OperationFigures { operation: class.name(), operations: *commands, bytes: *bytes, errors: *errors, latencies: latency.into() }
    };
    let figures = |(name, host): (Option<&str>, HostCounters)| HostFigures {
        nqn: name.map(str::to_owned),
        queues: host.queues,
        requests: host.running,
        operations: host_classes().map(|class| operation(&host, class)).collect(),
    };
    let apart = all.into_iter().map(|(name, host)| (Some(name), host));
    apart.chain(any.then_some((None, others))).map(figures).collect()
}

/// What is said of hosts: admin commands are not counted with them.
fn host_classes() -> impl Iterator<Item = CommandClass> {
    CommandClass::ALL.into_iter().filter(|class| *class != CommandClass::Admin)
}

/// The sum of histograms.
fn latencies<'a>(all: impl Iterator<Item = &'a Histogram>) -> Latencies {
    let mut sum = Histogram::default();
    all.for_each(|one| sum.merge(one));
    (&sum).into()
}

fn object(stats: &NodeFigures) -> LayerFigures {
    let routers = || stats.cores.iter().map(|c| &c.router);
    let of = |class: IoClass| (class.name(), latencies(routers().map(|r| &r.class(class).latency)));
    LayerFigures { figures: Figures::sum(routers()), latencies: IoClass::ALL.map(of).into() }
}

fn front(stats: &NodeFigures) -> LayerFigures {
    let fronts = || stats.cores.iter().map(|c| &c.front.0.0);
    let of = |class: CommandClass| (class.name(), latencies(fronts().map(|f| &f.stats.classes[class as usize].latency)));
    LayerFigures { figures: Figures::sum(fronts()), latencies: CommandClass::ALL.map(of).into() }
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
        figures: Figures::sum(shards()),
    }
}

fn device(d: &Device) -> DeviceFigures {
    let c = d.counters();
    DeviceFigures {
        name: d.name().to_owned(),
        figures: Figures::of(c),
        errors: c.errors.load(Relaxed),
        latencies: vec![
            (IoClass::Read.name(), Latencies::from_powers_of_two(&c.read_latency.snapshot())),
            (IoClass::Write.name(), Latencies::from_powers_of_two(&c.write_latency.snapshot())),
        ],
    }
}

#[cfg(test)]
#[path = "data_plane_tests.rs"]
pub(crate) mod tests;
