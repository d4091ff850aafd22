//! One modelled drive, cut into namespaces and groups, and what several loads reach on it: what two studies have in common.
//!
//! Invariant: every arrangement gets the same loads, the same number of cores and the same outstanding operations.
//! Never: says what came out.

use super::follow::Follow;
use super::labels::labels;
use super::options::Options;
use crate::model::cluster::{Cluster, Cost, Destage, DriveUse, GroupModel, Namespace, Network, NodeModel, Scale, Volumes};
use crate::simulated::Simulated;
use lab::LabError;
use lab::engine::{Engine, Fill, Job};
use lab::results::Measured;
use lab::workload::Workload;
use std::time::Duration;

/// Virtual seconds after which a load is looked at, and how long, at the fixture's own scale.
const WARM_UP_S: f64 = 1.0;
const MEASURE_S: f64 = 0.5;

/// A measurement has at least this much for each time that rates are scaled by: the slowest operations take some milliseconds times that, and many of
/// them should end in it.
const MEASURE_MIN_S: f64 = 0.025;

/// How the groups of a fixture run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Each group on all cores.
    Ours,
    /// Each group on one core: what a design does that has a thread for each disk group. The code is ours all the same, and so is its cost.
    OneThread,
}

impl Design {
    /// As in labels.
    pub fn name(self) -> &'static str {
        match self {
            Design::Ours => "Basalt",
            Design::OneThread => "one thread a group",
        }
    }
}

/// A drive and how it is cut.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Its model.
    pub drive: &'static str,
    /// Disk groups on it.
    pub groups: usize,
    /// Capacity namespaces of each group.
    pub capacity: usize,
    /// Write buffers of all groups together, in GiB.
    pub cache_gib: f64,
    /// Capacity of all groups together, in GiB.
    pub capacity_gib: f64,
    /// Cores of the node.
    pub cores: usize,
    /// Volumes, and the GiB of each.
    pub volumes: (usize, f64),
    /// Scales that suit it.
    pub scale: (f64, f64),
    /// How much longer or shorter its loads are than [`WARM_UP_S`] and [`MEASURE_S`].
    pub pace: f64,
}

impl Fixture {
    /// The modelled cluster.
    pub fn cluster(&self, design: Design, options: &Options) -> Cluster {
        let space = |gib: f64, count| Namespace { drive: "nvme0".into(), gib, count };
        let (n, k) = (self.groups as f64, self.capacity as f64);
        let shards = if design == Design::Ours { 8 } else { 1 };
        let group =
            GroupModel { cache: space(self.cache_gib / n, 1), capacity: vec![space(self.capacity_gib / n / k, self.capacity)], shards };
        Cluster {
            name: format!("{} with {} x (1+{}) namespaces, {}", self.drive, self.groups, self.capacity, design.name()),
            scale: Scale { rate: options.rate.unwrap_or(self.scale.0), size: options.size.unwrap_or(self.scale.1) },
            nodes: vec![NodeModel {
                cores: self.cores,
                core_cost: Cost::Measured,
                drives: vec![DriveUse { name: "nvme0".into(), model: self.drive.into(), used: 1.0 }],
                groups: vec![group; self.groups],
            }],
            network: Network::default(),
            clients: None,
            volumes: Volumes { count: self.volumes.0, gib: self.volumes.1, stripes: 0, failures_to_tolerate: 0 },
            destage: Destage::default(),
        }
    }

    /// Runs each load, one after the other on the same fixture. The depth of a load is that of the real thing.
    pub fn run(
        &self,
        design: Design,
        loads: &[Workload],
        pairs: &[(&str, &str)],
        options: &Options,
        follow: &mut dyn Follow,
    ) -> Result<Vec<Measured>, LabError> {
        let cluster = self.cluster(design, options);
        follow.begins(&cluster.name);
        let rate = cluster.scale.rate;
        let time = self.pace * options.time * self.scale.1 / cluster.scale.size;
        let mut engine = Simulated::new(&cluster, options.seed)?;
        engine.prepare(&loads[0], Fill::Random, follow)?;
        engine.rest(30)?;
        let mut all = Vec::new();
        for load in loads {
            let mut scaled = load.clone();
            scaled.depth = (f64::from(load.depth) / rate).round().max(1.0) as u32;
            let reads_only = !load.changes_data();
            let warm = if reads_only { WARM_UP_S / 5.0 } else { WARM_UP_S };
            let job = Job {
                workload: scaled,
                warm_up: Duration::from_secs_f64(warm * time),
                measure: Duration::from_secs_f64((MEASURE_S * time).max(MEASURE_MIN_S * rate)),
                seed: options.seed,
            };
            let mut measured = engine.run(&job, follow)?;
            measured.workload.depth = load.depth;
            measured.labels = labels(pairs);
            measured.labels.push(("design".into(), design.name().into()));
            measured.labels.push(("load".into(), load.name.clone()));
            follow.case(&measured)?;
            all.push(measured);
            engine.rest(if reads_only { 0 } else { 30 })?;
        }
        Ok(all)
    }
}
