//! Basalt's own data plane on files of this machine: NVMe/TCP and iSCSI, object layer and store in this process, io_uring and direct I/O below.
//!
//! ```text
//! Site: a node in this process ──► files in a directory, unlinked as soon as they are open
//!   └── Fixture, several: disk groups cut alike, and volumes on them ──► visited with the lab's clients
//! ```
//!
//! Invariants: nothing in the directory is touched but what was made here; files have no name while they are used, so their space is free again when
//! this process ends, however it ends; fixtures that are not visited do no I/O.
//! Never: measures through the page cache; says what came out.

use super::follow::Follow;
pub use crate::exports::Transport;
use crate::exports::{self, Hosts, iqn, nqn};
use crate::records::{self, cluster_id};
use base::{ByteSize, ComponentId, GroupId, ObjectId, VolumeId};
use cluster::record::{DeviceRecord, GroupRecord, ObjectRecord, VolumeRecord};
use dataplane::{
    Balancing, DataPlaneError, DataPlaneHandle, Desired, Device, NodeConfig, OpenError, OpenOptions, Settings, component_spec, format_spec,
    served,
};
use directory::{ModelledNode, NodeDevices, Transaction};
use frontend::Of;
use lab::LabError;
use lab::engine::iscsi::Iscsi;
use lab::engine::nvme_tcp::NvmeTcp;
use lab::engine::remote::RemoteOptions;
use lab::engine::{Engine, Fill, Job, Watch};
use lab::measure::{Second, TargetSecond};
use lab::results::Measured;
use lab::workload::Workload;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Cores of the data plane at most.
const CORES_MAX: usize = 12;
/// What a file system should have free beside what the study may write, in bytes.
const ROOM_SPARE: u64 = 512 << 20;
/// Names that are tried for the directory of the files.
const NAMES_MAX: u32 = 100;
/// `f_type` of a file system in memory (statfs(2): TMPFS_MAGIC, RAMFS_MAGIC).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6_u32 as i64];
/// A write buffer with less than this in it is empty.
const EMPTY_FILL: f64 = 0.02;
/// How long a write buffer may take to empty.
const EMPTY_MAX: Duration = Duration::from_secs(120);
/// Marks under which everything is destaged as fast as it goes.
const EMPTYING: (f64, f64) = (0.0, 0.02);
/// While a fixture is not visited it does nothing.
const NO_IDLE_DRAIN: Duration = Duration::from_secs(1 << 20);

/// Where a study runs on files, and how large each layout is.
#[derive(Clone, Debug, PartialEq)]
pub struct Real {
    /// An existing directory on the drive to be measured.
    pub dir: PathBuf,
    /// Bytes of all namespaces of one layout together.
    pub bytes: u64,
}

/// One way to cut the drive: groups alike, and volumes dealt to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Disk groups.
    pub groups: usize,
    /// Capacity namespaces of each.
    pub capacity: usize,
    /// Shards of each group: one means one core.
    pub shards: u8,
}

/// What all cuts of a site have alike, in bytes: write buffers, capacity, volumes, each of all groups together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Of all write buffers.
    pub cache: u64,
    /// Of all capacity namespaces.
    pub capacity: u64,
    /// How many volumes.
    pub volumes: usize,
    /// Of each volume.
    pub volume: u64,
}

/// The volumes of a fixture, as clients name them.
struct Disks {
    nvme_tcp: Vec<String>,
    iscsi: Vec<String>,
}

impl Disks {
    fn new((nvme_tcp, iscsi): (SocketAddr, SocketAddr), at: usize, volumes: usize) -> Disks {
        let (nqn, iqn) = (nqn(at), iqn(at));
        Disks {
            nvme_tcp: (1..=volumes).map(|n| format!("nvme-tcp://{nvme_tcp}/{nqn}?nsid={n}")).collect(),
            iscsi: (1..=volumes).map(|n| format!("iscsi://{iscsi}/{iqn}/{n}")).collect(),
        }
    }
}

/// The data plane of a node that is being made, and the files of its groups, cache first.
struct Making<'a> {
    plane: &'a DataPlaneHandle<Hosts>,
    devices: BTreeMap<GroupId, Vec<Device>>,
}

impl Making<'_> {
    /// Formats the groups of a fixture on files, and writes down groups and volumes. Gives the volumes, which hosts are to
    /// see.
    fn fixture(&mut self, node: &mut ModelledNode, made: &Made, (at, cut): (usize, &Cut), sizes: Sizes) -> Result<Vec<VolumeId>, LabError> {
        let part = |bytes: u64, n: usize| (bytes / n as u64) >> 20 << 20;
        let group_id = |g: usize| GroupId::from_bytes(id(1, at, g, 0));
        for g in 0..cut.groups {
            let mut devices = vec![made.file("cache", part(sizes.cache, cut.groups))?];
            let bytes = part(sizes.capacity, cut.groups * cut.capacity);
            for n in 0..cut.capacity {
                devices.push(made.file(&format!("capacity{n}"), bytes)?);
            }
            let file = |d: &Device| DeviceRecord::File { path: d.name().to_owned(), bytes: d.bytes() };
            let group = records::group((group_id(g), 0, format!("fixture-{at}-{g}")), cut.shards, devices.iter().map(file).collect());
            records::write(node, Transaction::new().create(&group));
            self.devices.insert(group.id, devices);
            self.format_group(&group)?;
        }
        let mut volumes = Vec::new();
        for v in 0..sizes.volumes {
            let names = (VolumeId::from_bytes(id(4, at, v, 0)), ObjectId::from_bytes(id(2, at, v, 0)), format!("volume-{at}-{v}"));
            volumes.push(names.0);
            let on = (0..cut.capacity).map(|mirror| ((v + mirror) % cut.capacity) as u8).collect();
            let component_id = |mirror, _| ComponentId::from_bytes(id(3, at, v, mirror));
            let (volume, object) = records::volume(names, sizes.volume, &[(0, group_id(v % cut.groups), on)], component_id);
            node.write_volume(&volume, &object).expect("nobody else writes");
        }
        Ok(volumes)
    }
}

impl NodeDevices for Making<'_> {
    type Error = LabError;

    fn format_group(&mut self, group: &GroupRecord) -> Result<(), LabError> {
        let devices = &self.devices[&group.id];
        let spec = format_spec(cluster_id(), group, false);
        self.plane.format_group(spec, devices[0].clone(), devices[1..].to_vec()).map(drop).map_err(failed)
    }
    fn open_group(&mut self, group: &GroupRecord) -> Result<BTreeMap<ComponentId, u32>, LabError> {
        let (_, found) = self.plane.open_group(Some(cluster_id()), self.devices[&group.id].clone()).map_err(failed)?;
        Ok(found.iter().map(|c| (c.id, c.no.0)).collect())
    }
    fn create_component(&mut self, volume: &VolumeRecord, object: &ObjectRecord, mirror: usize, copy: usize) -> Result<u32, LabError> {
        let group = object.mirrors[mirror][copy].group;
        self.plane.create_component(group, component_spec(volume, object, mirror, copy)).map(|no| no.0).map_err(failed)
    }
}

/// A node with fixtures.
pub struct Site {
    node: DataPlaneHandle<Hosts>,
    fixtures: Vec<Disks>,
    before: Option<(Instant, [u64; 4])>,
}

fn wrong(place: &Path, problem: impl Into<String>) -> LabError {
    LabError::Disk { disk: place.display().to_string(), problem: problem.into() }
}

fn failed(error: DataPlaneError) -> LabError {
    LabError::Engine { engine: "basalt in this process", problem: error.to_string() }
}

impl Real {
    /// Whether a study of so many bytes fits here, and would measure a drive. Nothing is made.
    pub fn check(&self, needed: u64) -> Result<(), LabError> {
        let dir = &self.dir;
        match fs::metadata(dir) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(wrong(dir, "not a directory; --real takes a directory on the drive to be measured")),
            Err(e) => return Err(wrong(dir, format!("{e}; --real takes an existing directory on the drive to be measured"))),
        }
        let system = |e: rustix::io::Errno| wrong(dir, format!("the file system does not say how much room it has: {e}"));
        let kind = rustix::fs::statfs(dir).map_err(system)?.f_type as i64;
        if IN_MEMORY.contains(&kind) {
            return Err(wrong(dir, "a file system in memory: no drive would be measured; name a directory on a drive"));
        }
        let room = rustix::fs::statvfs(dir).map_err(system)?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free < needed.saturating_add(ROOM_SPARE) {
            let problem = format!(
                "{} are free, and the study may write {} and leaves {} of them alone: make room, or give a smaller --size",
                ByteSize(free),
                ByteSize(needed),
                ByteSize(ROOM_SPARE)
            );
            return Err(wrong(dir, problem));
        }
        Ok(())
    }

    /// A directory that was not there before.
    fn make_dir(&self) -> Result<Made, LabError> {
        for n in 0..NAMES_MAX {
            let path = self.dir.join(format!("basalt-study-{}-{n}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Made(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(wrong(&self.dir, format!("no directory can be made in it: {e}"))),
            }
        }
        Err(wrong(&self.dir, format!("{NAMES_MAX} directories of studies are there already; remove those that are not needed")))
    }
}

/// A directory that was made here. It goes with the value; its files have gone before.
struct Made(PathBuf);

impl Made {
    /// A sparse file, open, without a name.
    fn file(&self, name: &str, bytes: u64) -> Result<Device, LabError> {
        let path = self.0.join(name);
        let options = OpenOptions { create_bytes: Some(bytes), ..OpenOptions::default() };
        let device = Device::open(&path, &options).map_err(|e: OpenError| wrong(&path, e.to_string()));
        let gone = fs::remove_file(&path);
        let device = device?;
        gone.map_err(|e| wrong(&path, format!("cannot be removed: {e}; remove it by hand")))?;
        if !device.info().direct {
            let problem =
                "the file system does no direct I/O (O_DIRECT), so its cache would be measured: name a directory on ext4, XFS or Btrfs";
            return Err(wrong(&path, problem));
        }
        Ok(device)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0); // empty: files lose their names as they are opened
    }
}

impl Site {
    /// Starts a node, makes the files of all cuts in `real.dir`, formats them, and serves what is decided from the
    /// records.
    pub fn start(real: &Real, cuts: &[Cut], sizes: Sizes) -> Result<Site, LabError> {
        let config = NodeConfig { cores: cores(), pin: false, settings: settings(), shared: exports::shared() };
        let node = DataPlaneHandle::start(config).map_err(failed)?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = |at| node.listen(at).map(|(Of::First(addr) | Of::Second(addr))| addr).map_err(failed);
        let addrs = (listen(Of::First(exports::nvme_listener(any)))?, listen(Of::Second(any.into()))?);
        let made = real.make_dir()?;
        let (mut control, mut making) = (records::node(), Making { plane: &node, devices: BTreeMap::new() });
        let fixture = |cut: (usize, &Cut)| Ok((cut.0, making.fixture(&mut control, &made, cut, sizes)?));
        let made = cuts.iter().enumerate().map(fixture).collect::<Result<Vec<_>, LabError>>()?;
        control.work(&mut making)?;
        let volumes = served(&control.records(), control.observed()).volumes;
        let fixtures = (0..cuts.len()).map(|at| Disks::new(addrs, at, sizes.volumes)).collect();
        let exports = exports::exports(&made);
        node.apply(Desired { generation: 1, volumes, held: Vec::new(), objects: Vec::new(), balancing: Balancing::Off, exports })
            .map_err(failed)?;
        Ok(Site { node, fixtures, before: None })
    }

    fn connect(&self, fixture: usize, by: Transport) -> Result<Box<dyn Engine>, LabError> {
        // The volumes are the study's own: what they hold may go.
        let options = RemoteOptions { workers: lab::engine::open::workers(), destroy: true, spin: false };
        let disks = &self.fixtures[fixture];
        Ok(match by {
            Transport::NvmeTcp => Box::new(NvmeTcp::connect(&disks.nvme_tcp, options)?),
            Transport::Iscsi => Box::new(Iscsi::connect(&disks.iscsi, options)?),
        })
    }

    /// Writes all volumes of a fixture once, and has it all on capacity.
    pub fn prepare(&mut self, fixture: usize, load: &Workload, follow: &mut dyn Follow) -> Result<(), LabError> {
        self.connect(fixture, Transport::NvmeTcp)?.prepare(load, Fill::Random, follow)?;
        self.empty(follow)
    }

    /// Runs the jobs on a fixture over NVMe/TCP, one after the other; then what they left in the write buffer goes to capacity.
    pub fn visit(&mut self, fixture: usize, jobs: &[Job], follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
        self.visit_by(Transport::NvmeTcp, fixture, jobs, follow)
    }

    /// The same by this transport.
    pub fn visit_by(&mut self, by: Transport, fixture: usize, jobs: &[Job], follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
        let mut engine = self.connect(fixture, by)?;
        let mut all = Vec::new();
        for job in jobs {
            if follow.stopped() {
                return Err(LabError::Stopped);
            }
            self.before = None;
            all.push(engine.run(job, &mut Watched { site: self, follow })?);
        }
        drop(engine);
        self.empty(follow)?;
        Ok(all)
    }

    /// Waits until all write buffers are empty.
    fn empty(&mut self, follow: &mut dyn Follow) -> Result<(), LabError> {
        let (fill_low, fill_high) = EMPTYING;
        self.node.set_settings(Settings { fill_low, fill_high, ..settings() }).map_err(failed)?;
        let began = Instant::now();
        while self.figures()?.0 > EMPTY_FILL {
            if follow.stopped() {
                return Err(LabError::Stopped);
            }
            if began.elapsed() > EMPTY_MAX {
                let problem =
                    format!("the write buffer was not empty after {} s: the drive is too slow for this size", EMPTY_MAX.as_secs());
                return Err(LabError::Engine { engine: "basalt in this process", problem });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.node.set_settings(settings()).map_err(failed)
    }

    /// Fill of the fullest buffer; bytes destaged, read from and written to files; nanoseconds that cores were busy.
    fn figures(&self) -> Result<(f64, [u64; 4]), LabError> {
        let stats = self.node.stats().map_err(failed)?;
        let mut sums = [stats.shards().map(|s| s.stats.destaged_bytes).sum(), 0, 0, 0];
        for device in stats.groups.iter().flat_map(|g| &g.devices) {
            sums[1] += device.counters().read_bytes.load(Relaxed);
            sums[2] += device.counters().write_bytes.load(Relaxed);
        }
        sums[3] = stats.cores.iter().map(|c| c.reactor.busy_ns.get()).sum();
        Ok((stats.fullest_buffer(), sums))
    }

    fn second(&mut self) -> Option<TargetSecond> {
        let (buffer_fill, sums) = self.figures().ok()?;
        let now = Instant::now();
        let (then, before) = self.before.replace((now, sums))?;
        let seconds = now.duration_since(then).as_secs_f64().max(1e-3);
        let rate = |i: usize| sums[i].saturating_sub(before[i]) as f64 / seconds;
        Some(TargetSecond {
            buffer_fill,
            destaged_bytes: rate(0),
            device_read_bytes: rate(1),
            device_written_bytes: rate(2),
            cores: rate(3) / 1e9,
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.node.shutdown(); // what the files hold is not needed any more
    }
}

/// Follows a job, and asks the node for its figures.
struct Watched<'a> {
    site: &'a mut Site,
    follow: &'a mut dyn Follow,
}

impl Watch for Watched<'_> {
    fn second(&mut self, second: &Second) {
        self.follow.second(second);
    }
    fn progress(&mut self, what: &str, done: u64, all: u64) {
        self.follow.progress(what, done, all);
    }
    fn stopped(&self) -> bool {
        self.follow.stopped()
    }
    fn target(&mut self) -> Option<TargetSecond> {
        self.site.second()
    }
}

/// Cores of the data plane: those of this machine, which the client uses too.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get()).min(CORES_MAX)
}

fn settings() -> Settings {
    Settings { idle_drain: NO_IDLE_DRAIN, ..Settings::default() }
}

/// Identities that differ.
fn id(kind: u8, fixture: usize, at: usize, part: usize) -> [u8; 16] {
    let mut bytes = [kind; 16];
    bytes[13..].copy_from_slice(&[fixture as u8, at as u8, part as u8]);
    bytes
}

#[cfg(test)]
#[path = "real_tests.rs"]
mod tests;
