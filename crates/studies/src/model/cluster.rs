//! The file that says what a modelled cluster consists of: `cluster.toml` (docs/lab-models.md teaches it).
//!
//! ```toml
//! name = "one CM6"
//! [scale]
//! rate = 4              # a quarter of every rate, and of the load
//! size = 50             # sizes, and with them the times in which they fill, 50 times as small again
//! [[nodes]]
//! cores = 4
//! drives = [{ name = "nvme0", model = "kioxia-cm6-7680" }]
//! [[nodes.groups]]
//! cache = { drive = "nvme0", gib = 600 }
//! capacity = [{ drive = "nvme0", gib = 925, count = 7 }]
//! [volumes]
//! count = 8
//! gib = 100
//! ```
//!
//! Invariants: sizes in the file are those of the real thing, before scaling; what passed [`Cluster::check`] can be built.
//! Never: a second meaning for a key.

use super::{drives, place};
pub use crate::exports::Transport;
use cluster::Policy;
use dataplane::{Rules, Settings};
use lab::LabError;
use rt::sim::CoreCost;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Nodes of a cluster.
pub const NODES_MAX: usize = 8;
/// Cores of a node.
pub const CORES_MAX: usize = 64;
/// Drives, groups, or namespaces of one entry.
pub const DEVICES_MAX: usize = 64;
/// Capacity devices of a group, as the store has it.
pub const CAPACITY_MAX: usize = 7;
/// Volumes.
pub const VOLUMES_MAX: usize = 128;
/// Hosts with clients.
pub const HOSTS_MAX: usize = 16;
/// Smallest namespace after scaling: below this a group has no room for its tables.
pub const NAMESPACE_BYTES_MIN: u64 = 96 << 20;
const GIB: f64 = 1_073_741_824.0;

/// A modelled cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name, as in reports.
    pub name: String,
    /// How much smaller than the real thing it is run.
    #[serde(default)]
    pub scale: Scale,
    /// The nodes. Files from before they were called so say `hosts`.
    #[serde(alias = "hosts")]
    pub nodes: Vec<NodeModel>,
    /// The way between clients and nodes, and between nodes.
    #[serde(default)]
    pub network: Network,
    /// Clients on hosts of their own, which speak a protocol; without it they are at the door behind the front end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsModel>,
    /// The volumes, which are the disks of the load.
    pub volumes: Volumes,
    /// How destaging is paced.
    #[serde(default)]
    pub destage: Destage,
}

/// How much smaller than the real thing a model is run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Every drive has one `rate`-th of its media, every core of its speed; latencies stay. Rates of the results are multiplied by it.
    #[serde(default = "one")]
    pub rate: f64,
    /// Sizes are divided by `rate` and by this: buffers fill, and everything that follows from it happens, so many times sooner.
    #[serde(default = "one")]
    pub size: f64,
}

impl Default for Scale {
    fn default() -> Self {
        Scale { rate: 1.0, size: 1.0 }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeModel {
    /// Cores of the data plane.
    pub cores: usize,
    /// What their work costs.
    #[serde(default)]
    pub core_cost: Cost,
    /// Its drives.
    pub drives: Vec<DriveUse>,
    /// Its disk groups.
    pub groups: Vec<GroupModel>,
}

/// What the work of a core costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// What was measured (docs/performance.md): about 118,000 reads or 90,000 writes of 4 KiB a second and core, over NVMe/TCP.
    #[default]
    Measured,
    /// Nothing: the drives and the network are the only limits.
    Free,
}

impl Cost {
    /// Nanoseconds of the front end for a request, besides devices: its own code, and the kernel's way to the network.
    const REQUEST_NS: f64 = 3_000.0;
    /// The same without the kernel's way, as with RDMA: an assumption.
    const OFFLOADED_REQUEST_NS: f64 = 1_000.0;
    /// Nanoseconds for a send or receive of many requests together, beside that: an assumption.
    const NETWORK_OP_NS: f64 = 300.0;
    /// For the simulator; `None`: free.
    pub fn of_core(self, scale: &Scale) -> Option<CoreCost> {
        self.scaled(scale, 0.9, (1_000.0, 0.45))
    }
    /// The same where front ends run. Half of what a byte costs is its way between the store and the network.
    pub fn over_protocol(self, scale: &Scale, clients: &ClientsModel) -> Option<CoreCost> {
        self.scaled(scale, if clients.offload { 0.45 } else { 0.9 }, (Self::NETWORK_OP_NS, 0.0))
    }
    /// Nanoseconds of the front end for a request, besides devices and the network.
    pub fn of_request(self, scale: &Scale, clients: Option<&ClientsModel>) -> f64 {
        let ns = if clients.is_some_and(|c| c.offload) { Self::OFFLOADED_REQUEST_NS } else { Self::REQUEST_NS };
        if self == Cost::Measured { ns * scale.rate } else { 0.0 }
    }
    fn scaled(self, scale: &Scale, byte_ns: f64, (net_op_ns, net_byte_ns): (f64, f64)) -> Option<CoreCost> {
        let n = scale.rate;
        let cost = CoreCost {
            turn_ns: 200.0 * n,
            device_op_ns: 1_300.0 * n,
            byte_ns: byte_ns * n,
            net_op_ns: net_op_ns * n,
            net_byte_ns: net_byte_ns * n,
        };
        (self == Cost::Measured).then_some(cost)
    }
}

/// A drive of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveUse {
    /// As its namespaces name it.
    pub name: String,
    /// A name of `model::drives`.
    pub model: String,
    /// The share of it that holds data, 0 to 1: what is free helps garbage collection.
    #[serde(default = "one")]
    pub used: f64,
}

/// A disk group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupModel {
    /// Its write buffer.
    pub cache: Namespace,
    /// Its capacity devices.
    pub capacity: Vec<Namespace>,
    /// A power of two, 1 to 16.
    #[serde(default = "shards")]
    pub shards: u8,
}

/// A slice of a drive, or several of the same size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Which drive.
    pub drive: String,
    /// Its size.
    pub gib: f64,
    /// How many.
    #[serde(default = "once")]
    pub count: usize,
}

/// The way between clients and nodes, and between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// There and back, in microseconds.
    #[serde(default = "round_trip")]
    pub round_trip_us: f64,
    /// Of each node and direction, in gigabits a second: clients and other nodes share it.
    #[serde(default = "gbit")]
    pub gbit_per_s: f64,
}

impl Default for Network {
    fn default() -> Self {
        Network { round_trip_us: round_trip(), gbit_per_s: gbit() }
    }
}

/// Clients on hosts of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsModel {
    /// What they speak.
    pub transport: Transport,
    /// Hosts, each with one core; volumes are dealt to them in turn.
    #[serde(default = "once")]
    pub hosts: usize,
    /// What the work of a host's core costs.
    #[serde(default = "free")]
    pub core_cost: Cost,
    /// The network adapters move the bytes, as with RDMA: a request costs a core of the node a third, and a byte half (assumptions).
    #[serde(default)]
    pub offload: bool,
}

/// The volumes: all alike, dealt to the groups in turn, those of the first groups of all nodes first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volumes {
    /// How many.
    pub count: usize,
    /// Size of each.
    pub gib: f64,
    /// Capacity devices that each is striped over; 0: all of its group.
    #[serde(default)]
    pub stripes: usize,
    /// Each has one copy more than that, on as many nodes. The node with the first one owns it.
    #[serde(default)]
    pub failures_to_tolerate: u8,
}

/// How destaging is paced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destage {
    /// Which controller.
    #[serde(default)]
    pub rules: RulesName,
    /// Below this fill of the write buffer nothing is destaged, in percent.
    #[serde(default = "low")]
    pub low_percent: f64,
    /// From this one on writes are paced.
    #[serde(default = "high")]
    pub high_percent: f64,
    /// Stepped rules: MiB a second that a group destages at `low_percent`.
    #[serde(default = "stepped_low")]
    pub stepped_low_mib_s: f64,
    /// And just below `high_percent`.
    #[serde(default = "stepped_high")]
    pub stepped_high_mib_s: f64,
}

/// Controllers of destaging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RulesName {
    /// Ours (docs/store.md, "Pace").
    #[default]
    Smooth,
    /// The published ones: nothing, limited, all.
    Stepped,
}

impl Default for Destage {
    fn default() -> Self {
        Destage {
            rules: RulesName::Smooth,
            low_percent: low(),
            high_percent: high(),
            stepped_low_mib_s: stepped_low(),
            stepped_high_mib_s: stepped_high(),
        }
    }
}

fn one() -> f64 {
    1.0
}
fn once() -> usize {
    1
}
fn free() -> Cost {
    Cost::Free
}
fn shards() -> u8 {
    8
}
fn round_trip() -> f64 {
    30.0
}
fn gbit() -> f64 {
    100.0
}
fn low() -> f64 {
    30.0
}
fn high() -> f64 {
    70.0
}
/// With the next: through the two published points, 8 MB/s near 40 % and 434 MB/s at 60 %.
fn stepped_low() -> f64 {
    1.08
}
fn stepped_high() -> f64 {
    3_190.0
}

impl Cluster {
    /// Reads a file; errors name the file and the key.
    pub fn load(path: &Path) -> Result<Cluster, LabError> {
        let wrong = |problem: String| LabError::Workload { place: path.display().to_string(), problem };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let cluster: Cluster = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        cluster.check(&path.display().to_string())?;
        Ok(cluster)
    }

    /// From the TOML of a run's configuration; `system` is the name of the system that is modelled.
    pub fn from_table(system: &str, table: &toml::Table) -> Result<Cluster, LabError> {
        let wrong = |e: toml::de::Error| LabError::Workload { place: format!("system {system}: simulate"), problem: e.message().into() };
        table.clone().try_into().map_err(wrong)
    }

    /// For the configuration of a run.
    pub fn to_table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("a cluster is plain data")
    }

    /// As TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|e| format!("# cannot be written: {e}"))
    }

    /// Bytes of so many GiB of the real thing, in the model: a multiple of 1 MiB.
    pub fn bytes(&self, gib: f64) -> u64 {
        ((gib * GIB / (self.scale.rate * self.scale.size)) as u64) >> 20 << 20
    }

    /// The settings of a group's shards.
    pub fn settings(&self, shards: u8) -> Settings {
        let part = 1_048_576.0 / self.scale.rate / f64::from(shards);
        let rules = match self.destage.rules {
            RulesName::Smooth => Rules::Smooth,
            RulesName::Stepped => Rules::Stepped {
                low_bytes_per_s: self.destage.stepped_low_mib_s * part,
                high_bytes_per_s: self.destage.stepped_high_mib_s * part,
            },
        };
        Settings { fill_low: self.destage.low_percent / 100.0, fill_high: self.destage.high_percent / 100.0, rules, ..Settings::default() }
    }

    /// Whether it makes sense; `place` names where it comes from.
    pub fn check(&self, place: &str) -> Result<(), LabError> {
        let wrong = |key: &str, problem: String| Err(LabError::Workload { place: format!("{place}: {key}"), problem });
        let nodes = self.nodes.len();
        if nodes == 0 || nodes > NODES_MAX {
            return wrong("nodes", format!("{nodes} nodes: a model has 1 to {NODES_MAX}"));
        }
        let scale = |x: f64| x.is_finite() && (1.0..=1e6).contains(&x);
        if !scale(self.scale.rate) || !scale(self.scale.size) {
            return wrong("scale", "scales are from 1 (the real size) to 1e6".into());
        }
        let positive = |x: f64, most: f64| x.is_finite() && x > 0.0 && x <= most;
        if !(self.network.round_trip_us >= 0.0 && self.network.round_trip_us <= 1e6 && positive(self.network.gbit_per_s, 1e5)) {
            return wrong("network", "a round trip is 0 to 1e6 microseconds, bandwidth above 0".into());
        }
        let d = &self.destage;
        if !(d.low_percent >= 0.0 && d.low_percent < d.high_percent && d.high_percent <= 100.0) {
            return wrong("destage", "percentages are 0 <= low_percent < high_percent <= 100".into());
        }
        if !(positive(d.stepped_low_mib_s, 1e6) && positive(d.stepped_high_mib_s, 1e6) && d.stepped_low_mib_s <= d.stepped_high_mib_s) {
            return wrong("destage", "the rates of the stepped rules are above 0, the low one not above the high one".into());
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let place = if nodes == 1 { format!("{place}: nodes") } else { format!("{place}: nodes[{at}]") };
            self.check_node(&place, node)?;
        }
        if let Some(clients) = &self.clients {
            if nodes > 1 {
                return wrong("clients", format!("over a protocol a model has one node; this one has {nodes}"));
            }
            let most = HOSTS_MAX.min(self.volumes.count);
            if clients.hosts == 0 || clients.hosts > most {
                return wrong("clients.hosts", format!("{} hosts: there are 1 to {most}, each has a volume", clients.hosts));
            }
        }
        let v = &self.volumes;
        let key = "volumes.failures_to_tolerate";
        if let Err(e) = (Policy { failures_to_tolerate: v.failures_to_tolerate, ..Policy::default() }).check() {
            return wrong(key, e.to_string());
        }
        if usize::from(v.failures_to_tolerate) >= nodes {
            let (asked, most) = (v.failures_to_tolerate, nodes - 1);
            return wrong(key, format!("{asked}: each copy is on a node of its own, so with {nodes} it is at most {most}"));
        }
        if v.count == 0 || v.count > VOLUMES_MAX || !positive(v.gib, 1e9) || self.bytes(v.gib) == 0 {
            return wrong("volumes", format!("1 to {VOLUMES_MAX} volumes of at least 1 MiB after scaling"));
        }
        self.check_room(place)
    }

    fn check_node(&self, place: &str, node: &NodeModel) -> Result<(), LabError> {
        let wrong = |key: &str, problem: String| Err(LabError::Workload { place: format!("{place}.{key}"), problem });
        if node.cores == 0 || node.cores > CORES_MAX {
            return wrong("cores", format!("a node has 1 to {CORES_MAX} cores"));
        }
        if node.drives.is_empty() || node.drives.len() > DEVICES_MAX || node.groups.is_empty() || node.groups.len() > DEVICES_MAX {
            return wrong("drives", format!("a node has 1 to {DEVICES_MAX} drives and as many groups"));
        }
        for drive in &node.drives {
            let known = drives::all().iter().map(|d| d.name).collect::<Vec<_>>().join(", ");
            if drives::find(&drive.model).is_none() {
                return wrong("drives", format!("no drive model is called {}; there are {known}", drive.model));
            }
            if !(drive.used > 0.0 && drive.used <= 1.0) {
                return wrong("drives", format!("{}: used is a share above 0, at most 1", drive.name));
            }
            if node.drives.iter().filter(|d| d.name == drive.name).count() > 1 {
                return wrong("drives", format!("two drives are called {}", drive.name));
            }
        }
        for (at, group) in node.groups.iter().enumerate() {
            let key = format!("groups[{at}]");
            if !group.shards.is_power_of_two() || group.shards > 16 {
                return wrong(&key, "shards are a power of two, at most 16".into());
            }
            let capacity: usize = group.capacity.iter().map(|n| n.count).sum();
            if capacity == 0 || capacity > CAPACITY_MAX || group.cache.count != 1 {
                return wrong(&key, format!("a group has one cache namespace and 1 to {CAPACITY_MAX} capacity namespaces"));
            }
            for space in std::iter::once(&group.cache).chain(&group.capacity) {
                if !node.drives.iter().any(|d| d.name == space.drive) {
                    return wrong(&key, format!("there is no drive {}", space.drive));
                }
                if self.bytes(space.gib) < NAMESPACE_BYTES_MIN {
                    let have = self.bytes(space.gib) >> 20;
                    let problem =
                        format!("a namespace of {} GiB has {have} MiB after scaling, at least 96 are needed; scale less", space.gib);
                    return wrong(&key, problem);
                }
            }
        }
        for drive in &node.drives {
            let on_it = |n: &&Namespace| n.drive == drive.name;
            let spaces = node.groups.iter().flat_map(|g| std::iter::once(&g.cache).chain(&g.capacity));
            let gib: f64 = spaces.filter(on_it).map(|n| n.gib * n.count as f64).sum();
            let have = drives::find(&drive.model).map_or(0, |d| d.bytes) as f64 / GIB;
            if gib > have {
                return wrong("groups", format!("the namespaces on {} have {gib:.0} GiB, the drive has {have:.0}", drive.name));
            }
        }
        Ok(())
    }

    /// Whether the volumes fit, with a tenth to spare for tables and what is written again.
    fn check_room(&self, place: &str) -> Result<(), LabError> {
        let mut asked: Vec<Vec<f64>> = self.nodes.iter().map(|node| vec![0.0; node.groups.len()]).collect();
        for at in 0..self.volumes.count {
            place::copies(self, at).iter().for_each(|copy| asked[copy.node][copy.group] += self.volumes.gib);
        }
        for (node, model) in self.nodes.iter().enumerate() {
            for (at, group) in model.groups.iter().enumerate() {
                let asked = asked[node][at];
                let have: f64 = group.capacity.iter().map(|n| n.gib * n.count as f64).sum();
                if asked > have * 0.9 {
                    let of = if self.nodes.len() == 1 { String::new() } else { format!(" of node {node}") };
                    let problem = format!(
                        "group {at}{of} holds {:.0} volumes of {} GiB, its capacity of {have:.0} GiB takes nine tenths of that",
                        asked / self.volumes.gib,
                        self.volumes.gib
                    );
                    return Err(LabError::Workload { place: format!("{place}: volumes"), problem });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
