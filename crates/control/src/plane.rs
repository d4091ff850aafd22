//! What the control plane asks of the data plane, and what it hears from it.
//!
//! Owns: the interface [`DataPlane`], its errors and the figures as metrics and health need them; what is ordered is said in `dataplane`'s own
//! types. `data_plane` implements it with the real data plane, [`crate::fake`] in memory for tests.
//! Invariants: every call waits until the order is done or refused; a refused order has changed nothing; creating a
//! component twice by the same id gives the same number.
//! Never: remembers what should be; that is the directory's.

use base::{ByteSize, ClusterId, ComponentId, GroupId, Histogram, ObjectId, ResyncPace, VolumeId, counters::Figures};
use cluster::CopySeen;
use dataplane::{
    ChangeOutcome, ComponentInfo, ComponentNo, ComponentSpec, DataPlaneError, DataPlaneEvent, FillState, FormatSpec, Found, OpenError,
};
use directory::record::DeviceRecord;
use frontend::{ControlRequestId, Refused, Reply};
use nvmf::{ListenerSpec, SessionInfo};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::mpsc,
};

/// What hosts reach this node by: NVMe/TCP, and iSCSI.
pub type Hosts = frontend::Pair<nvmf::Target, iscsi::Target>;
/// The front ends of this node: what hosts reach it by, and what the other nodes of its cluster do.
pub type FrontEnds = frontend::Pair<Hosts, peers::Peers>;
/// What this node is to serve through them.
pub type Desired = dataplane::Desired<((nvmf::Desired, iscsi::Desired), peers::PeersDesired)>;

const _: () = {
    let requests = nvmf::limits::REQUESTS_MAX + iscsi::limits::REQUESTS_MAX;
    assert!(requests <= frontend::REQUESTS_MAX, "what all hosts of a core may ask for at once");
};

/// Why the data plane did not do it, by what it means for who asked; the cause says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// A device cannot be opened: missing, mounted, in use, too small.
    #[error(transparent)]
    Open {
        /// Why.
        #[from]
        cause: OpenError,
    },
    /// A device does not fit into its group, holds something else, or failed.
    #[error(transparent)]
    Device {
        /// Why.
        cause: DataPlaneError,
    },
    /// There is no memory for the tables of devices of these sizes.
    #[error("devices of these sizes need {needed} of memory for their tables, and {available} are available")]
    Memory {
        /// What they need.
        needed: ByteSize,
        /// What there is.
        available: ByteSize,
    },
    /// The group cannot be opened, or is not open.
    #[error(transparent)]
    Group {
        /// Why.
        cause: DataPlaneError,
    },
    /// The devices hold another group.
    #[error("the devices hold disk group '{name}' ({found}), not {wanted}; put the right devices at these paths")]
    OtherGroup {
        /// What was to be opened.
        wanted: GroupId,
        /// What is there.
        found: GroupId,
        /// Its name.
        name: String,
    },
    /// No room.
    #[error(transparent)]
    NoSpace {
        /// Where, and how much is missing.
        cause: DataPlaneError,
    },
    /// The owner of a volume has not confirmed how it is served.
    #[error(transparent)]
    Unconfirmed {
        /// Of which, and why.
        cause: DataPlaneError,
    },
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen {
        /// Which, and why.
        cause: DataPlaneError,
    },
    /// Not done, for there is too much else to do.
    #[error(transparent)]
    Busy {
        /// With what.
        cause: DataPlaneError,
    },
    /// A fault of Basalt, or the end of the data plane.
    #[error(transparent)]
    Failed {
        /// Which.
        cause: DataPlaneError,
    },
}

/// Upper bounds of the buckets of [`Latencies`], in nanoseconds: 10 µs to 10 s.
pub const LATENCY_BOUNDS_NS: [u64; 19] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// How long operations took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// For each of [`LATENCY_BOUNDS_NS`]: how many took at most that long.
    pub at_most: [u64; LATENCY_BOUNDS_NS.len()],
    /// All of them.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub sum_ns: u64,
    /// The finest that is known: the longest of each bucket that holds any, in nanoseconds, and how many it holds.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&Histogram> for Latencies {
    fn from(h: &Histogram) -> Self {
        let at_most = LATENCY_BOUNDS_NS.map(|bound| h.at_most(bound));
        Self { at_most, count: h.count(), sum_ns: h.sum_ns(), buckets: h.buckets().collect() }
    }
}

impl Latencies {
    /// From counts of those of 2^i to 2^(i+1) - 1 ns. A bucket counts as below a bound when its upper end is; the sum takes the
    /// middle of each bucket, so it is right within a third.
    pub fn from_powers_of_two(counts: &[u64]) -> Self {
        let mut latencies = Self::default();
        for (i, n) in counts.iter().enumerate() {
            let upper = (2u64 << i) - 1;
            for (slot, bound) in latencies.at_most.iter_mut().zip(LATENCY_BOUNDS_NS) {
                *slot += if upper <= bound { *n } else { 0 };
            }
            if *n > 0 {
                latencies.buckets.push((upper, *n));
            }
            latencies.count += n;
            latencies.sum_ns = latencies.sum_ns.saturating_add(n.saturating_mul((1u64 << i) + (1u64 << i) / 2));
        }
        latencies
    }
}

/// Figures of every layer.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Each core.
    pub cores: Vec<CoreFigures>,
    /// Each open group.
    pub groups: Vec<GroupFigures>,
    /// All volumes together: requests as they enter the object layer.
    pub object: LayerFigures,
    /// The front end of NVMe/TCP.
    pub front: LayerFigures,
    /// The front end of iSCSI.
    pub iscsi: Figures,
    /// What is between the nodes.
    pub peers: Figures,
    /// Volumes of which anything was asked here, at most `object::VOLUMES_COUNTED_MAX`, and what is not counted with one of them.
    pub volumes: Vec<VolumeFigures>,
    /// Hosts that were connected, at most `frontend::HOSTS_COUNTED_MAX` of each front end on a core, and what is not counted with one of them.
    pub hosts: Vec<HostFigures>,
    /// Copies that this node brings back into sync: how many of their bytes are complete.
    pub resyncs: BTreeMap<ComponentId, u64>,
    /// Copies that take much longer for changes than the others, of objects that this node serves.
    pub slow_copies: BTreeSet<ComponentId>,
    /// Copies that are out because they fail or are slow, though their nodes answer, of objects that this node serves.
    pub failed_copies: BTreeSet<ComponentId>,
}

/// What was done, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationFigures {
    /// `read`, `write`, ..
    pub operation: &'static str,
    /// How many have ended.
    pub operations: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// How many have failed.
    pub errors: u64,
    /// How long they took.
    pub latencies: Latencies,
}

/// A volume, over all cores.
#[derive(Clone, Debug, Default)]
pub struct VolumeFigures {
    /// Which; `None`: those that are not counted apart, with those that are gone.
    pub volume: Option<VolumeId>,
    /// Reads, writes, discards.
    pub operations: Vec<OperationFigures>,
    /// Requests that a limit has held back.
    pub throttled: u64,
    /// Requests under way, with those that a limit holds back.
    pub requests: u64,
    /// Of these, held back.
    pub held: u64,
}

/// A host, over all cores.
#[derive(Clone, Debug, Default)]
pub struct HostFigures {
    /// Its NQN, or its iSCSI name; `None`: those that are not counted apart, with those that are gone.
    pub nqn: Option<String>,
    /// I/O queues open, and sessions over iSCSI.
    pub queues: u32,
    /// Commands under way.
    pub requests: u64,
    /// By kind of command.
    pub operations: Vec<OperationFigures>,
}

/// One core of the data plane.
#[derive(Clone, Debug, Default)]
pub struct CoreFigures {
    /// Its number.
    pub core: usize,
    /// Its counters.
    pub figures: Figures,
}

/// A layer, over all cores.
#[derive(Clone, Debug, Default)]
pub struct LayerFigures {
    /// Counters, and what is so many just now.
    pub figures: Figures,
    /// Kind of operation (`read`, `write`, ..) to latencies.
    pub latencies: Vec<(&'static str, Latencies)>,
}

/// One disk group.
#[derive(Clone, Debug)]
pub struct GroupFigures {
    /// Its id.
    pub group: GroupId,
    /// Its devices, cache first.
    pub devices: Vec<DeviceFigures>,
    /// Room in the write buffer, in bytes.
    pub buffer_bytes: u64,
    /// Used of it.
    pub buffer_used_bytes: u64,
    /// Of each capacity device: what it can hold, in bytes.
    pub capacity_bytes: Vec<u64>,
    /// Of each capacity device: what is allocated, in bytes.
    pub capacity_used_bytes: Vec<u64>,
    /// Of each capacity device: what is reserved beyond what is allocated, in bytes.
    pub capacity_reserved_bytes: Vec<u64>,
    /// By component number: what is allocated, in bytes.
    pub components: BTreeMap<u32, u64>,
    /// Blocks that failed their checksum or could not be read.
    pub media_errors: u64,
    /// Shards whose write buffer cannot be written any more.
    pub failed_shards: u32,
    /// Shards that cannot move data to capacity just now.
    pub failing_shards: u32,
    /// How far the scrub that runs has come.
    pub scrub_percent: Option<u8>,
    /// Counters, and what is so many just now.
    pub figures: Figures,
}

/// One device.
#[derive(Clone, Debug, Default)]
pub struct DeviceFigures {
    /// As it is called.
    pub name: String,
    /// Its counters.
    pub figures: Figures,
    /// Errors so far.
    pub errors: u64,
    /// `read`, `write` to latencies.
    pub latencies: Vec<(&'static str, Latencies)>,
}

/// How the file of a cache device is made. Files of capacity devices are always sparse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFile {
    /// All its space is taken at once: a file system that fills up below it does not stop writes.
    Reserved,
    /// It takes space as it is written.
    Sparse,
}

/// The devices of a group that is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedDevices {
    /// Those that it has, cache first.
    pub devices: Vec<DeviceRecord>,
    /// Of which it is not known whether they are there, and devices of the group.
    pub maybe: Vec<DeviceRecord>,
    /// The numbers of those that are gone for good: the group is rid of them.
    pub lost: Vec<u8>,
    /// Every component number below this one was given, by the directory.
    pub numbers_from: u32,
}

/// The data plane of this node. Calls wait; not for async threads.
pub trait DataPlane: Send + Sync {
    /// Makes a group on devices (files are created) and opens it.
    fn format_group(&self, spec: FormatSpec, cache: &DeviceRecord, file: CacheFile, capacity: &[DeviceRecord]) -> Result<(), PlaneError>;
    /// Opens a group; gives the components found in it.
    fn open_group(&self, cluster: ClusterId, group: GroupId, devices: &OpenedDevices) -> Result<Vec<ComponentInfo>, PlaneError>;
    /// Adds a capacity device (a file is created) to a group that is open, at a number that has none.
    fn add_capacity(&self, group: GroupId, number: u8, device: &DeviceRecord, force: bool) -> Result<(), PlaneError>;
    /// A capacity device on which no component lies leaves a group that is open.
    fn remove_capacity(&self, group: GroupId, number: u8) -> Result<(), PlaneError>;
    /// The numbers of the capacity devices that an open group has.
    fn capacity_numbers(&self, group: GroupId) -> Result<BTreeSet<u8>, PlaneError>;
    /// What each component of an open group has accepted.
    fn copies_seen(&self, group: GroupId) -> Result<Vec<CopySeen>, PlaneError>;
    /// Closes a group after a checkpoint.
    fn close_group(&self, group: GroupId) -> Result<(), PlaneError>;
    /// Begins a scrub.
    fn scrub_group(&self, group: GroupId) -> Result<(), PlaneError>;
    /// Makes a component, durably; idempotent by id.
    fn create_component(&self, group: GroupId, spec: ComponentSpec) -> Result<ComponentNo, PlaneError>;
    /// Changes size, reservation and descriptor of a component, durably; its object and its device stay.
    fn update_component(&self, group: GroupId, no: ComponentNo, spec: ComponentSpec) -> Result<(), PlaneError>;
    /// Deletes a component, durably; one that is not there is no error.
    fn delete_component(&self, group: GroupId, no: ComponentNo) -> Result<(), PlaneError>;
    /// Frees what lies between the end of a volume that is served and `end`, in bytes. Idempotent.
    fn free_behind(&self, volume: VolumeId, end: u64) -> Result<(), PlaneError>;
    /// Has the data of a volume go to another one, which no host sees; says how far it is. One that is over is said so once.
    fn fill(&self, from: VolumeId, to: VolumeId, pace: ResyncPace) -> Result<FillState, PlaneError>;
    /// Holds a volume all of whose data is in the other one: no request of a host begins. False: it is not so.
    fn hold_filled(&self, from: VolumeId) -> Result<bool, PlaneError>;
    /// Releases a volume that is held; its data goes on to go to the other one.
    fn release(&self, from: VolumeId) -> Result<(), PlaneError>;
    /// The data of a volume does not go to another one any more; the volume is released.
    fn end_fill(&self, from: VolumeId) -> Result<(), PlaneError>;
    /// Serves what is wanted.
    fn apply(&self, desired: Desired) -> Result<(), PlaneError>;
    /// Waits until the owner of a volume serves it as this node does.
    fn confirm(&self, volume: VolumeId) -> Result<(), PlaneError>;
    /// Listens for hosts; gives the address with its port.
    fn listen(&self, spec: ListenerSpec) -> Result<SocketAddr, PlaneError>;
    /// Listens for hosts that speak iSCSI; gives the address with its port.
    fn listen_iscsi(&self, spec: iscsi::ListenerSpec) -> Result<SocketAddr, PlaneError>;
    /// Takes links of other nodes there; gives the address with its port.
    fn listen_for_nodes(&self, at: SocketAddr) -> Result<SocketAddr, PlaneError>;
    /// Who is connected over NVMe/TCP, discovery left out.
    fn sessions(&self) -> Result<Vec<SessionInfo>, PlaneError>;
    /// Who is connected over iSCSI, discovery left out.
    fn iscsi_sessions(&self) -> Result<Vec<iscsi::SessionInfo>, PlaneError>;
    /// Figures of every layer.
    fn stats(&self) -> Result<Stats, PlaneError>;
    /// What the data plane tells without being asked; `None` when somebody follows it already.
    fn take_events(&self) -> Option<mpsc::Receiver<DataPlaneEvent>>;
    /// Answers what a host asked for by an NVMe command.
    fn answer(&self, id: ControlRequestId, result: Result<Reply, Refused>) -> Result<(), PlaneError>;
    /// Answers the host of owners: records and their revisions, as far as they are there; `None`: they could not be read. Does not wait.
    fn directory_read(&self, request: u64, records: Option<Vec<(ObjectId, Found)>>);
    /// Answers the host of owners: what has come of its changes. Does not wait.
    fn directory_changed(&self, request: u64, outcome: ChangeOutcome);
    /// Ends in order: what is under way is answered, checkpoints are made.
    fn shutdown(&self) -> Result<(), PlaneError>;
}
