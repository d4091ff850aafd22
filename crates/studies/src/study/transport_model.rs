//! The transport study on modelled networks: one node with its front ends, hosts that speak a protocol, three networks.
//!
//! The published array is not known but for its kind, so the model is one of a node that is fast enough: what differs is the protocol, and what
//! it costs. NVMe over RoCE is modelled as NVMe/TCP whose bytes the network adapters move.
//!
//! Invariant: drives, cores, volumes and loads are the same for all transports on all networks.
//! Never: fits a cost so that a published figure comes out.

use super::follow::Follow;
use super::labels::labels;
use super::options::Options;
use super::transport::{FULL, PART, SHARE, loads};
use crate::model::cluster::{
    ClientsModel, Cluster, Cost, Destage, DriveUse, GroupModel, Namespace, Network, NodeModel, Scale, Transport, Volumes,
};
use crate::simulated::Simulated;
use lab::LabError;
use lab::engine::{Engine, Fill, Job};
use lab::results::Measured;
use lab::workload::{Arrivals, Spacing, Workload};
use std::time::Duration;

/// What is compared: its name, what is spoken, and whether network adapters move the bytes.
pub(super) const TRANSPORTS: [(&str, Transport, bool); 3] =
    [("NVMe/TCP", Transport::NvmeTcp, false), (OFFLOADED, Transport::NvmeTcp, true), (ISCSI, Transport::Iscsi, false)];
pub(super) const ISCSI: &str = "iSCSI";
const OFFLOADED: &str = "NVMe, offload";

/// Networks: name, round trip in microseconds, Gbit/s.
pub(super) const NETWORKS: [(&str, f64, f64); 3] =
    [("10 Gbit/s, 100 us", 100.0, 10.0), ("25 Gbit/s, 50 us", 50.0, 25.0), ("100 Gbit/s, 20 us", 20.0, 100.0)];

/// As published: eight VMs of 64 GB on two hosts.
const VOLUMES: usize = 8;
const VOLUME_GIB: f64 = 60.0;
const HOSTS: usize = 2;
const CORES: usize = 4;
const DRIVES: usize = 4;
/// Operations outstanding on each volume, of the real thing: enough that the node or its link is the limit.
const DEPTH: u32 = 32;
/// Scales of rates and sizes.
const SCALE: (f64, f64) = (2.0, 800.0);
/// Virtual seconds of a case.
const WARM_UP_S: f64 = 0.02;
const MEASURE_S: f64 = 0.1;

fn cluster(network: (f64, f64), (transport, offload): (Transport, bool), options: &Options) -> Cluster {
    let drive = |n: usize| DriveUse { name: format!("nvme{n}"), model: "kioxia-cm6-7680".into(), used: 1.0 };
    let space = |drive: usize, gib, count| Namespace { drive: format!("nvme{drive}"), gib, count };
    let group = |n: usize| GroupModel { cache: space(n, 600.0, 1), capacity: vec![space(n, 3_000.0, 2)], shards: 8 };
    let node = NodeModel {
        cores: CORES,
        core_cost: Cost::Measured,
        drives: (0..DRIVES).map(drive).collect(),
        groups: (0..DRIVES).map(group).collect(),
    };
    Cluster {
        name: "an all-flash node".into(),
        scale: Scale { rate: options.rate.unwrap_or(SCALE.0), size: options.size.unwrap_or(SCALE.1) },
        nodes: vec![node],
        network: Network { round_trip_us: network.0, gbit_per_s: network.1 },
        clients: Some(ClientsModel { transport, hosts: HOSTS, core_cost: Cost::Free, offload }),
        volumes: Volumes { count: VOLUMES, gib: VOLUME_GIB, stripes: 0, failures_to_tolerate: 0 },
        destage: Destage::default(),
    }
}

/// Runs it: each load as fast as it goes, then in an open loop at a share of that.
pub fn run(options: &Options, follow: &mut dyn Follow) -> Result<Vec<Measured>, LabError> {
    let mut all = Vec::new();
    for (network, round_trip_us, gbit) in NETWORKS {
        for (name, transport, offload) in TRANSPORTS {
            let cluster = cluster((round_trip_us, gbit), (transport, offload), options);
            follow.begins(&format!("{name} over {network}"));
            let mut engine = Simulated::new(&cluster, options.seed)?;
            engine.prepare(&loads()[0], Fill::Random, &mut *follow)?;
            engine.rest(10)?;
            for load in loads() {
                let load = Workload { depth: (f64::from(DEPTH) / cluster.scale.rate).ceil() as u32, ..load };
                let most = engine.run(&job(load.clone(), options), &mut *follow)?;
                let arrivals = Arrivals::Open { iops: (most.iops() * SHARE).max(1.0), spacing: Spacing::Poisson };
                // An open loop has room for what comes together.
                let part = Workload { arrivals, depth: 64, ..load.clone() };
                let at_part = engine.run(&job(part, options), &mut *follow)?;
                for (share, mut m) in [(FULL, most), (PART, at_part)] {
                    m.labels = labels(&[("network", network), ("transport", name), ("share", share), ("load", &load.name)]);
                    if share == PART {
                        m.notes.push(format!("An open loop with {PART} of what this transport reached just before."));
                    }
                    follow.case(&m)?;
                    all.push(m);
                }
            }
        }
    }
    Ok(all)
}

fn job(workload: Workload, options: &Options) -> Job {
    Job {
        workload,
        warm_up: Duration::from_secs_f64(WARM_UP_S * options.time),
        measure: Duration::from_secs_f64((MEASURE_S * options.time).max(0.01)),
        seed: options.seed,
    }
}
