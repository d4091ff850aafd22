//! A data plane in memory, for tests of the control plane: it keeps groups and components over "restarts" and fails when a test says so.
//!
//! Never: moves data.

use crate::plane::*;
use base::counters::{self, FigureKind};
use base::{ClusterId, ComponentId, Epoch, GroupId, ObjectId, ResyncPace, VolumeId, unit::CHUNK_BYTES};
use cluster::CopySeen;
use dataplane::{
    ChangeOutcome, ComponentInfo, ComponentNo, ComponentSpec, DataPlaneError, DataPlaneEvent, FillState, FormatSpec, Found, OpenError,
};
use directory::record::DeviceRecord;
use frontend::{ControlRequestId, Refused, Reply};
use nvmf::{ListenerSpec, SessionInfo};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::{Mutex, MutexGuard, mpsc},
};
use store::GroupError;

/// What a group holds.
#[derive(Clone, Debug)]
struct FakeGroup {
    cluster: ClusterId,
    devices: Vec<DeviceRecord>,
    numbers: BTreeSet<u8>,
    open: bool,
    next_no: u32,
    components: BTreeMap<ComponentNo, ComponentSpec>,
}

/// What a test makes of the figures of a group.
type Figures = Box<dyn Fn(&mut GroupFigures) + Send>;

#[derive(Default)]
struct State {
    groups: BTreeMap<GroupId, FakeGroup>,
    desired: Desired,
    applies: u32,
    sessions: Vec<SessionInfo>,
    iscsi_sessions: Vec<iscsi::SessionInfo>,
    failures: VecDeque<(&'static str, u32, PlaneError)>,
    scrubs: Vec<GroupId>,
    freed: Vec<(VolumeId, u64)>,
    ends: Vec<u64>,
    files: Vec<CacheFile>,
    figures: Option<Figures>,
    formatting: Vec<VolumeId>,
    stopped: bool,
    events: Option<mpsc::Receiver<DataPlaneEvent>>,
    answers: Vec<(ControlRequestId, Result<Reply, Refused>)>,
    directory: Vec<DirectoryAnswer>,
    statistics: (Vec<VolumeFigures>, Vec<HostFigures>),
    fills: BTreeMap<VolumeId, bool>,
    no_fill_ends: bool,
    accepted: BTreeMap<ComponentId, (Epoch, bool)>,
    failed_copies: BTreeSet<ComponentId>,
}

/// What the host of owners was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectoryAnswer {
    /// To a question for records.
    Read(u64, Option<Vec<(ObjectId, Found)>>),
    /// To a change of some.
    Changed(u64, ChangeOutcome),
}

/// A data plane in memory.
#[derive(Default)]
pub struct FakePlane(Mutex<State>);

impl FakePlane {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The next call of `operation` (the method's name) fails with `error`.
    pub fn fail_next(&self, operation: &'static str, error: PlaneError) {
        self.fail_after(operation, 0, error);
    }
    /// As [`FakePlane::fail_next`], after so many that succeed.
    pub fn fail_after(&self, operation: &'static str, succeed: u32, error: PlaneError) {
        self.state().failures.push_back((operation, succeed, error));
    }
    /// What was freed behind the end of volumes.
    pub fn freed(&self) -> Vec<(VolumeId, u64)> {
        self.state().freed.clone()
    }
    /// Where the volumes ended that were served when something behind their end was freed, in bytes.
    pub fn ends(&self) -> Vec<u64> {
        self.state().ends.clone()
    }
    /// How the files of cache devices were made.
    pub fn files(&self) -> Vec<CacheFile> {
        self.state().files.clone()
    }
    /// The figures of groups are like this from now on.
    pub fn figures(&self, change: impl Fn(&mut GroupFigures) + Send + 'static) {
        self.state().figures = Some(Box::new(change));
    }
    /// Volumes and hosts have done this so far.
    pub fn statistics(&self, volumes: Vec<VolumeFigures>, hosts: Vec<HostFigures>) {
        self.state().statistics = (volumes, hosts);
    }
    /// Volumes that were being formatted when something of them was freed.
    pub fn formatting(&self) -> Vec<VolumeId> {
        self.state().formatting.clone()
    }
    /// What hosts will report: the engine follows it.
    pub fn events(&self) -> mpsc::Sender<DataPlaneEvent> {
        let (sender, receiver) = mpsc::channel();
        self.state().events = Some(receiver);
        sender
    }
    /// What hosts were answered.
    pub fn answers(&self) -> Vec<(ControlRequestId, Result<Reply, Refused>)> {
        self.state().answers.clone()
    }
    /// What the host of owners was answered.
    pub fn directory_answers(&self) -> Vec<DirectoryAnswer> {
        self.state().directory.clone()
    }
    /// What is served.
    pub fn desired(&self) -> Desired {
        self.state().desired.clone()
    }
    /// Volumes whose data goes to another one: whether they are held.
    pub fn fills(&self) -> BTreeMap<VolumeId, bool> {
        self.state().fills.clone()
    }
    /// No volume's data comes whole to another one from now on, or it does.
    pub fn no_fill_ends(&self, so: bool) {
        self.state().no_fill_ends = so;
    }
    /// How often something was applied.
    pub fn applies(&self) -> u32 {
        self.state().applies
    }
    /// Components on all groups.
    /// As the owner of its object this node has taken a copy out because it fails.
    pub fn fails_copy(&self, component: ComponentId) {
        self.state().failed_copies.insert(component);
    }
    /// What a component says that it has accepted, and whether it is being brought into sync.
    pub fn accepts(&self, component: ComponentId, epoch: Epoch, resyncing: bool) {
        self.state().accepted.insert(component, (epoch, resyncing));
    }
    pub fn components(&self) -> Vec<ComponentSpec> {
        self.state().groups.values().flat_map(|g| g.components.values().cloned()).collect()
    }
    /// A host connects.
    pub fn connect(&self, session: SessionInfo) {
        self.state().sessions.push(session);
    }
    /// A host logs in over iSCSI.
    pub fn log_in(&self, session: iscsi::SessionInfo) {
        self.state().iscsi_sessions.push(session);
    }
    /// Groups that were scrubbed.
    pub fn scrubs(&self) -> Vec<GroupId> {
        self.state().scrubs.clone()
    }
    /// Puts a component on a group that nobody asked for.
    pub fn put_component(&self, group: GroupId, new: ComponentSpec) {
        let mut state = self.state();
        let group = state.groups.get_mut(&group).expect("the group is there");
        group.components.insert(ComponentNo(group.next_no), new);
        group.next_no += 1;
    }
    /// The daemon stops at once and is started again: groups are closed, those in memory empty.
    pub fn restart(&self) {
        let mut state = self.state();
        state.desired = Desired::default();
        state.fills.clear();
        state.sessions.clear();
        state.iscsi_sessions.clear();
        state.stopped = false;
        state.groups.retain(|_, g| !g.devices.iter().any(|d| matches!(d, DeviceRecord::Memory { .. })));
        state.groups.values_mut().for_each(|g| g.open = false);
    }
    fn check(&self, operation: &'static str) -> Result<MutexGuard<'_, State>, PlaneError> {
        let mut state = self.state();
        if state.stopped {
            return Err(DataPlaneError::Stopped.into());
        }
        match state.failures.front_mut() {
            Some((failing, 0, _)) if *failing == operation => {
                let (.., error) = state.failures.pop_front().expect("just seen");
                Err(error)
            }
            Some((failing, succeed, _)) if *failing == operation => {
                *succeed -= 1;
                Ok(state)
            }
            _ => Ok(state),
        }
    }
}

fn group_error(error: GroupError) -> PlaneError {
    DataPlaneError::from(error).into()
}

fn name(device: &DeviceRecord) -> String {
    device.path().unwrap_or("memory").to_owned()
}

/// What a test has fail: the data plane has ended.
pub fn stopped() -> PlaneError {
    DataPlaneError::Stopped.into()
}

/// What a test has fail: a device has no room.
pub fn full() -> PlaneError {
    group_error(GroupError::CannotReserve { device: "d".into(), wanted: 2, promised: 1, total: 2 })
}

/// What a test has fail: there is nothing at the path of a device.
pub fn missing(path: &str) -> PlaneError {
    OpenError::Missing { path: path.into() }.into()
}

fn open(state: &mut State, group: GroupId) -> Result<&mut FakeGroup, PlaneError> {
    state.groups.get_mut(&group).filter(|g| g.open).ok_or_else(|| DataPlaneError::NoGroup(group).into())
}

fn reserved(group: &FakeGroup, index: u8) -> u64 {
    group.components.values().filter(|c| c.capacity_index == index).map(|c| c.reserve_chunks * CHUNK_BYTES).sum()
}

fn check_room(group: &FakeGroup, new: &ComponentSpec) -> Result<(), PlaneError> {
    let there = group.numbers.contains(&new.capacity_index);
    let Some(device) = group.devices.get(new.capacity_index as usize + 1).filter(|_| there) else {
        let missing = GroupError::NoDevice { index: new.capacity_index, count: group.devices.len() - 1 };
        return Err(group_error(missing));
    };
    let (promised, wanted, total) = (reserved(group, new.capacity_index), new.reserve_chunks * CHUNK_BYTES, device.bytes());
    if promised + wanted > total {
        return Err(group_error(GroupError::CannotReserve { device: name(device), wanted, promised, total }));
    }
    Ok(())
}

impl DataPlane for FakePlane {
    fn format_group(&self, spec: FormatSpec, cache: &DeviceRecord, file: CacheFile, capacity: &[DeviceRecord]) -> Result<(), PlaneError> {
        let mut devices = vec![cache.clone()];
        devices.extend_from_slice(capacity);
        for device in &devices {
            if let DeviceRecord::File { path, bytes } = device {
                let made = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).and_then(|f| f.set_len(*bytes));
                made.map_err(|source| OpenError::Io { path: path.into(), what: "create the file", source })?;
            }
        }
        // As the host: the files are there when it fails.
        let mut state = self.check("format_group")?;
        state.files.push(file);
        let numbers = (0..capacity.len() as u8).collect();
        let group = FakeGroup { cluster: spec.cluster, devices, numbers, open: true, next_no: 1, components: BTreeMap::new() };
        state.groups.insert(spec.group, group);
        Ok(())
    }

    fn open_group(&self, cluster: ClusterId, group: GroupId, given: &OpenedDevices) -> Result<Vec<ComponentInfo>, PlaneError> {
        let OpenedDevices { devices, lost, .. } = given;
        let mut state = self.check("open_group")?;
        let found =
            state.groups.get_mut(&group).ok_or_else(|| group_error(GroupError::NotOurs { device: name(&devices[0]), what: "nothing" }))?;
        if found.cluster != cluster {
            let other = GroupError::OtherCluster { group: group.to_string(), found: found.cluster, expected: cluster };
            return Err(group_error(other));
        }
        found.open = true;
        found.numbers.retain(|number| !lost.contains(number));
        found.components.retain(|_, c| !lost.contains(&c.capacity_index));
        let component = |(no, c): (&ComponentNo, &ComponentSpec)| ComponentInfo {
            copy: false,
            no: *no,
            id: c.id,
            object: c.object,
            capacity_index: c.capacity_index,
            bytes: c.bytes,
            reserve_chunks: c.reserve_chunks,
            descriptor: c.descriptor.clone(),
        };
        Ok(found.components.iter().map(component).collect())
    }

    fn add_capacity(&self, group: GroupId, number: u8, device: &DeviceRecord, _: bool) -> Result<(), PlaneError> {
        let mut state = self.check("add_capacity")?;
        let group = open(&mut state, group)?;
        if !group.numbers.insert(number) {
            return Err(group_error(GroupError::NumberTaken { index: number }));
        }
        let at = usize::from(number) + 1;
        group.devices.resize(group.devices.len().max(at + 1), device.clone());
        group.devices[at] = device.clone();
        Ok(())
    }

    fn remove_capacity(&self, group: GroupId, number: u8) -> Result<(), PlaneError> {
        let mut state = self.check("remove_capacity")?;
        let group = open(&mut state, group)?;
        let components = group.components.values().filter(|c| c.capacity_index == number).count();
        if components > 0 {
            let device = name(&group.devices[usize::from(number) + 1]);
            return Err(group_error(GroupError::NotVacated { device, components }));
        }
        group.numbers.remove(&number);
        Ok(())
    }

    fn capacity_numbers(&self, group: GroupId) -> Result<BTreeSet<u8>, PlaneError> {
        Ok(open(&mut *self.check("capacity_numbers")?, group)?.numbers.clone())
    }

    fn copies_seen(&self, group: GroupId) -> Result<Vec<CopySeen>, PlaneError> {
        let mut state = self.check("copies_seen")?;
        let accepted = state.accepted.clone();
        let seen = |c: &ComponentSpec| {
            let (epoch, resyncing) = accepted.get(&c.id).copied().unwrap_or_default();
            CopySeen { component: c.id, object: c.object, epoch, taken: epoch, resyncing }
        };
        Ok(open(&mut state, group)?.components.values().map(seen).collect())
    }

    fn close_group(&self, group: GroupId) -> Result<(), PlaneError> {
        let mut state = self.check("close_group")?;
        open(&mut state, group)?;
        state.groups.remove(&group);
        Ok(())
    }

    fn scrub_group(&self, group: GroupId) -> Result<(), PlaneError> {
        let mut state = self.check("scrub_group")?;
        open(&mut state, group)?;
        state.scrubs.push(group);
        Ok(())
    }

    fn create_component(&self, group: GroupId, new: ComponentSpec) -> Result<ComponentNo, PlaneError> {
        let mut state = self.check("create_component")?;
        let group = open(&mut state, group)?;
        assert!(new.descriptor.len() <= 384, "a descriptor has room for 384 bytes");
        if let Some((no, _)) = group.components.iter().find(|(_, c)| c.id == new.id) {
            return Ok(*no);
        }
        check_room(group, &new)?;
        let no = ComponentNo(group.next_no);
        group.next_no += 1;
        group.components.insert(no, new);
        Ok(no)
    }

    fn free_behind(&self, volume: VolumeId, end: u64) -> Result<(), PlaneError> {
        let mut state = self.check("free_behind")?;
        // As the host: nothing is known of what is not served.
        if !state.desired.volumes.iter().any(|v| v.id == volume && !v.object.mirrors.is_empty()) {
            return Ok(());
        }
        state.freed.push((volume, end));
        let served = state.desired.volumes.iter().find(|v| v.id == volume).map_or(0, |v| if v.formatting { 0 } else { v.bytes });
        state.ends.push(served);
        if state.desired.volumes.iter().any(|v| v.id == volume && v.formatting) {
            state.formatting.push(volume);
        }
        Ok(())
    }

    fn update_component(&self, group: GroupId, no: ComponentNo, new: ComponentSpec) -> Result<(), PlaneError> {
        let mut state = self.check("update_component")?;
        let group = open(&mut state, group)?;
        let old = group.components.remove(&no).ok_or_else(|| group_error(GroupError::NoComponent(no)))?;
        let checked = check_room(group, &new);
        group.components.insert(no, if checked.is_ok() { new } else { old });
        checked
    }

    fn delete_component(&self, group: GroupId, no: ComponentNo) -> Result<(), PlaneError> {
        let mut state = self.check("delete_component")?;
        open(&mut state, group)?.components.remove(&no);
        Ok(())
    }

    fn fill(&self, from: VolumeId, to: VolumeId, _: ResyncPace) -> Result<FillState, PlaneError> {
        let mut state = self.check("fill")?;
        let served = |id| state.desired.volumes.iter().any(|v| v.id == id && !v.object.mirrors.is_empty());
        if !served(from) || !served(to) {
            return Ok(FillState::Over(frontend::IoError::NotOwner));
        }
        let begun = state.fills.contains_key(&from);
        state.fills.entry(from).or_default();
        Ok(if begun && !state.no_fill_ends { FillState::Whole } else { FillState::Copying(1 << 20) })
    }

    fn hold_filled(&self, from: VolumeId) -> Result<bool, PlaneError> {
        let mut state = self.check("hold_filled")?;
        Ok(state.fills.get_mut(&from).is_some_and(|held| {
            *held = true;
            true
        }))
    }

    fn release(&self, from: VolumeId) -> Result<(), PlaneError> {
        let mut state = self.check("release")?;
        state.fills.entry(from).and_modify(|held| *held = false);
        Ok(())
    }

    fn end_fill(&self, from: VolumeId) -> Result<(), PlaneError> {
        self.check("end_fill")?.fills.remove(&from);
        Ok(())
    }

    fn apply(&self, desired: Desired) -> Result<(), PlaneError> {
        let mut state = self.check("apply")?;
        for volume in &desired.volumes {
            for c in volume.object.mirrors.iter().flat_map(dataplane::MirrorDesired::here) {
                let there = state.groups.get(&c.group).is_some_and(|g| g.open && g.components.get(&c.no).is_some_and(|n| n.id == c.id));
                if !there {
                    return Err(group_error(GroupError::NoComponent(c.no)));
                }
            }
        }
        state.desired = desired;
        state.applies += 1;
        Ok(())
    }

    fn confirm(&self, _: VolumeId) -> Result<(), PlaneError> {
        self.check("confirm").map(drop)
    }

    fn listen_for_nodes(&self, at: SocketAddr) -> Result<SocketAddr, PlaneError> {
        self.check("listen_for_nodes").map(|_| at)
    }

    fn listen(&self, spec: ListenerSpec) -> Result<SocketAddr, PlaneError> {
        drop(self.check("listen")?);
        // As the host: any port is one that is free.
        let port = if spec.addr.port() == 0 { 49_152 } else { spec.addr.port() };
        Ok(SocketAddr::new(spec.addr.ip(), port))
    }

    fn listen_iscsi(&self, spec: iscsi::ListenerSpec) -> Result<SocketAddr, PlaneError> {
        drop(self.check("listen")?);
        Ok(spec.addr)
    }

    fn take_events(&self) -> Option<mpsc::Receiver<DataPlaneEvent>> {
        self.state().events.take()
    }

    fn answer(&self, id: ControlRequestId, result: Result<Reply, Refused>) -> Result<(), PlaneError> {
        self.check("answer")?.answers.push((id, result));
        Ok(())
    }

    fn sessions(&self) -> Result<Vec<SessionInfo>, PlaneError> {
        Ok(self.check("sessions")?.sessions.clone())
    }

    fn iscsi_sessions(&self) -> Result<Vec<iscsi::SessionInfo>, PlaneError> {
        Ok(self.check("sessions")?.iscsi_sessions.clone())
    }

    fn stats(&self) -> Result<Stats, PlaneError> {
        let state = self.check("stats")?;
        let mut latency = base::Histogram::default();
        latency.record(100_000);
        let latency = Latencies::from(&latency);
        let figures = |name, value| {
            let mut figures = counters::Figures::default();
            figures.add(("", name), "Made up.", FigureKind::Counter, value);
            figures
        };
        let mut core = figures("busy_nanoseconds", 5);
        core.add(("", "loops"), "Made up.", FigureKind::Counter, 9);
        let group = |(id, g): (&GroupId, &FakeGroup)| GroupFigures {
            group: *id,
            devices: g
                .devices
                .iter()
                .map(|d| DeviceFigures {
                    name: d.path().unwrap_or("memory").into(),
                    figures: figures("reads", 1),
                    errors: 0,
                    latencies: vec![("read", latency.clone())],
                })
                .collect(),
            buffer_bytes: g.devices[0].bytes(),
            buffer_used_bytes: 1 << 20,
            capacity_bytes: (0u8..).zip(&g.devices[1..]).map(|(n, d)| if g.numbers.contains(&n) { d.bytes() } else { 0 }).collect(),
            capacity_used_bytes: g.devices[1..].iter().map(|_| 0).collect(),
            capacity_reserved_bytes: (0..g.devices.len() as u8 - 1).map(|n| reserved(g, n)).collect(),
            components: g.components.keys().map(|no| (no.0, 0)).collect(),
            media_errors: 0,
            failed_shards: 0,
            failing_shards: 0,
            scrub_percent: None,
            figures: figures("destaged_bytes", 7),
        };
        Ok(Stats {
            resyncs: BTreeMap::new(),
            slow_copies: Default::default(),
            failed_copies: state.failed_copies.clone(),
            cores: vec![CoreFigures { core: 0, figures: core }],
            groups: state
                .groups
                .iter()
                .filter(|(_, g)| g.open)
                .map(group)
                .map(|mut figures| {
                    state.figures.iter().for_each(|change| change(&mut figures));
                    figures
                })
                .collect(),
            object: LayerFigures { figures: figures("reads", 3), latencies: vec![("read", latency.clone())] },
            front: LayerFigures { figures: figures("commands", 4), latencies: vec![("read", latency.clone())] },
            iscsi: figures("logins", 6),
            volumes: state.statistics.0.clone(),
            hosts: state.statistics.1.clone(),
            peers: figures("forwarded_requests", 5),
        })
    }

    fn directory_read(&self, request: u64, records: Option<Vec<(ObjectId, Found)>>) {
        self.state().directory.push(DirectoryAnswer::Read(request, records));
    }
    fn directory_changed(&self, request: u64, outcome: ChangeOutcome) {
        self.state().directory.push(DirectoryAnswer::Changed(request, outcome));
    }
    fn shutdown(&self) -> Result<(), PlaneError> {
        self.state().stopped = true;
        Ok(())
    }
}
