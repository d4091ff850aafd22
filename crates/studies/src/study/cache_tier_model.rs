//! The published cluster of the cache-tier study, modelled in two ways.
//!
//! The cluster: four nodes, eight disk groups with a cache drive each, every write on two nodes, 9.6 TB of data on 64 disks.
//!
//! | model | what runs | what is shown |
//! | --- | --- | --- |
//! | one group | one of the eight: it gets an eighth of the reads and, as each write is made twice, a quarter of the writes | reads times eight, writes times four |
//! | four nodes | all eight on four nodes with mirrors: each write goes over the network to another node | what the clients see; device rates of a group on average |
//!
//! Invariant: drives, groups, data and load are the same with both.
//! Never: says what came out.

use super::options::Options;
use crate::model::cluster::{Cluster, Cost, Destage, DriveUse, GroupModel, Namespace, Network, NodeModel, RulesName, Scale, Volumes};
use lab::measure::Second;
use lab::results::Measured;
use lab::workload::{Access, Arrivals, Skew, Workload};

/// Disk groups of the published cluster.
const GROUPS: f64 = 8.0;
/// Its nodes.
pub(super) const NODES: usize = 4;
/// Copies of each block.
const COPIES: f64 = 2.0;
/// Its disks.
const DISKS: f64 = 64.0;
/// Shares of reads and writes at the client.
pub(super) const READS: f64 = 0.7;
/// Data of all disks, once, in GiB: 9.6 TB.
const DATA_GIB: f64 = 9.6e12 / 1_073_741_824.0;
pub(super) const BYTES: u32 = 32 << 10;

/// A write buffer that is compared: what it is called, the drive, bytes of it that are used.
pub(super) type Tier = (&'static str, &'static str, f64);

/// How the cluster is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    OneGroup,
    FourNodes,
}

impl Model {
    /// What is asked for.
    pub fn of(options: &Options) -> Model {
        if options.nodes.is_some() { Model::FourNodes } else { Model::OneGroup }
    }
    /// Its own scales of rates and sizes. Of rates: so that one operation is outstanding on a volume of the model where the sustainable load is meant;
    /// a larger scale would have more of them than it means.
    fn scale(self) -> (f64, f64) {
        match self {
            Model::OneGroup => (4.0, 200.0),
            Model::FourNodes => (16.0, 240.0),
        }
    }
    /// Volumes that stand for the 64 disks. A group has its part of each disk: in the model of one group its own volumes are an eighth as large.
    fn volumes(self) -> usize {
        match self {
            Model::OneGroup => 8,
            Model::FourNodes => 16,
        }
    }

    /// The cluster file, so to speak.
    pub fn cluster(self, tier: Tier, rules: RulesName, options: &Options) -> Cluster {
        let (rate, size) = self.scale();
        let volumes = self.volumes();
        let (name, nodes, groups, data_gib, failures_to_tolerate) = match self {
            Model::OneGroup => ("one group of eight", 1, 1, DATA_GIB * COPIES / GROUPS, 0),
            Model::FourNodes => ("four nodes of two groups, mirrored", NODES, GROUPS as usize / NODES, DATA_GIB, 1),
        };
        Cluster {
            name: format!("{name}, {} write buffer", tier.0),
            scale: Scale { rate: options.rate.unwrap_or(rate), size: options.size.unwrap_or(size) },
            nodes: vec![node(tier, groups); nodes],
            network: Network { round_trip_us: 60.0, gbit_per_s: 100.0 },
            clients: None,
            volumes: Volumes { count: volumes, gib: data_gib / volumes as f64, stripes: 0, failures_to_tolerate },
            destage: Destage { rules, ..Destage::default() },
        }
    }

    /// The load of the model when the cluster's clients ask for `iops` (`None`: as fast as it goes) with `depth` operations outstanding on each of the 64
    /// disks.
    pub fn workload(self, iops: Option<f64>, depth: f64, rate: f64) -> Workload {
        let (reads, writes, outstanding) = match self {
            Model::OneGroup => (READS / GROUPS, (1.0 - READS) * COPIES / GROUPS, DISKS / GROUPS * depth),
            Model::FourNodes => (READS, 1.0 - READS, DISKS * depth),
        };
        let depth = (outstanding / self.volumes() as f64 / rate).round().max(1.0) as u32;
        let access = Access::Random { skew: Skew::Uniform };
        let mut w = Workload::simple("70/30 32 KiB random", BYTES, reads / (reads + writes), access, depth);
        if let Some(iops) = iops {
            w.arrivals = Arrivals::Limited { iops: iops * (reads + writes) };
        }
        w
    }

    /// What the clients of the cluster see of what the model did.
    pub fn of_cluster(self, mut m: Measured, iops: Option<f64>, depth: f64) -> Measured {
        match self {
            Model::OneGroup => from_one_group(&mut m),
            Model::FourNodes => groups_on_average(&mut m),
        }
        m.workload.depth = depth as u32;
        m.workload.arrivals = iops.map_or(Arrivals::Closed, |iops| Arrivals::Limited { iops });
        m
    }
}

/// A node with so many of the published groups, each with drives of its own.
fn node(tier: Tier, groups: usize) -> NodeModel {
    let gib = |bytes: f64| bytes / 1_073_741_824.0;
    let capacity = 7;
    let (mut drives, mut all) = (Vec::new(), Vec::new());
    for group in 0..groups {
        let name = |n: Option<usize>| match n {
            None => format!("cache{group}"),
            Some(n) => format!("capacity{group}-{n}"),
        };
        let drive = |name: String, model: &str, used: f64| DriveUse { name, model: model.into(), used };
        drives.push(drive(name(None), tier.1, 1.0));
        drives.extend((0..capacity).map(|n| drive(name(Some(n)), "sas-nand-3840", 0.8)));
        all.push(GroupModel {
            cache: Namespace { drive: name(None), gib: gib(tier.2), count: 1 },
            capacity: (0..capacity).map(|n| Namespace { drive: name(Some(n)), gib: 1_000.0, count: 1 }).collect(),
            shards: 4,
        });
    }
    NodeModel { cores: 4, core_cost: Cost::Free, drives, groups: all }
}

fn from_one_group(m: &mut Measured) {
    let (reads, writes) = (GROUPS, GROUPS / COPIES);
    let times = |n: &mut u64, by: f64| *n = (*n as f64 * by).round() as u64;
    for (figures, by) in [(&mut m.reads, reads), (&mut m.writes, writes)] {
        for n in [&mut figures.operations, &mut figures.bytes, &mut figures.errors] {
            times(n, by);
        }
    }
    for Second { reads: r, writes: w, read_bytes, written_bytes, .. } in &mut m.seconds {
        times(r, reads);
        times(read_bytes, reads);
        times(w, writes);
        times(written_bytes, writes);
    }
    m.workload.streams[0].reads = READS;
    m.notes.push(
        "One of eight disk groups is simulated; reads shown are eight times, writes (made on two groups) four times its own. Buffer fill and device rates are those of one group, with the scale of rates undone."
            .into(),
    );
    m.notes.push("A write is answered by one copy here; in the cluster it waits for the slower of two.".into());
}

fn groups_on_average(m: &mut Measured) {
    for target in m.seconds.iter_mut().filter_map(|second| second.target.as_mut()) {
        for rate in [&mut target.destaged_bytes, &mut target.device_read_bytes, &mut target.device_written_bytes] {
            *rate /= GROUPS;
        }
    }
    m.notes.push(
        "Eight disk groups on four nodes are simulated, each write on two nodes. Buffer fill is that of the fullest group; device rates are those of a group on average."
            .into(),
    );
}
