//! What was asked of each volume, by each host, of each device, what each disk group moved, and what the machine did: counters for who watches.
//!
//! Invariants: taken at one moment; as many as the data plane counts apart, no more.
//! Never: remembers: who wants rates asks twice.

use super::*;
use crate::api::types as api;
use crate::metrics::OTHERS;
use crate::plane::{GroupFigures, OperationFigures, VolumeFigures};
use base::VolumeId;

/// What a limit of what is answered may be.
const KINDS: [&str; 5] = ["volumes", "hosts", "devices", "groups", MACHINE];
/// Only by name: all processes of the machine are looked at for it.
const MACHINE: &str = "machine";

impl Control {
    /// The statistics of a node. `of`: only `volumes`, `hosts`, `devices`, `groups` or `machine`.
    pub(crate) fn statistics_of(&self, node: Option<&str>, of: Option<&str>) -> Result<api::Statistics, Problem> {
        if let Some(of) = of.filter(|of| !KINDS.contains(of)) {
            return Err(Problem::invalid(
                format!("there are no statistics of '{of}'"),
                "write volumes, hosts, devices, groups or machine, or leave it out",
            ));
        }
        let node = node.map(|node| self.node_called(node)).transpose()?.filter(|n| n.name != self.identity.node);
        match node {
            None => self.statistics(of),
            Some(node) => {
                let of = of.map(|of| format!("?of={of}")).unwrap_or_default();
                self.ask(&node.name, "GET", format!("/cluster/v1/statistics{of}"), None)
            }
        }
    }

    /// The statistics of this node.
    pub fn statistics(&self, of: Option<&str>) -> Result<api::Statistics, Problem> {
        let stats = self.plane.stats()?;
        let taken = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        let wanted = |kind: &str| of.is_none_or(|of| of == kind);
        Ok(api::Statistics {
            node: self.identity.node.clone(),
            unix_ms: taken,
            started_unix_s: self.started_unix_s,
            volumes: if wanted("volumes") { self.volume_statistics(&stats)? } else { vec![] },
            hosts: if wanted("hosts") { self.host_statistics(&stats)? } else { vec![] },
            devices: if wanted("devices") { self.device_statistics(&stats)? } else { vec![] },
            groups: if wanted("groups") { self.group_statistics(&stats)? } else { vec![] },
            machine: if of == Some(MACHINE) { machine_statistics() } else { None },
        })
    }

    /// What volumes are called.
    pub(crate) fn names_of_volumes(&self) -> Result<BTreeMap<VolumeId, String>, Problem> {
        let all = self.directory.all::<VolumeRecord>()?;
        Ok(all.into_iter().filter(|v| v.place_of.is_none()).map(|v| (v.value.id, v.value.name)).collect())
    }

    fn volume_statistics(&self, stats: &Stats) -> Result<Vec<api::VolumeStatistics>, Problem> {
        let names = self.names_of_volumes()?;
        let show = |figures: &VolumeFigures, name: Option<&String>| api::VolumeStatistics {
            volume: name.cloned(),
            id: figures.volume.map(|id| id.to_string()),
            queue_depth: figures.requests,
            held: figures.held,
            throttled: figures.throttled,
            operations: operations(&figures.operations),
        };
        // One that is gone meanwhile is left out.
        let known = stats.volumes.iter().filter_map(|f| match f.volume {
            Some(id) => Some(show(f, Some(names.get(&id)?))),
            None => Some(show(f, None)),
        });
        let mut all: Vec<_> = known.collect();
        all.sort_by(|a, b| (a.volume.is_none(), &a.volume).cmp(&(b.volume.is_none(), &b.volume)));
        Ok(all)
    }

    fn host_statistics(&self, stats: &Stats) -> Result<Vec<api::HostStatistics>, Problem> {
        let entries = self.directory.all::<HostEntryRecord>()?;
        let name = |nqn: &str| entries.iter().find(|entry| entry.value.nqn == nqn).map(|entry| entry.value.name.clone());
        let show = |host: &crate::plane::HostFigures| api::HostStatistics {
            nqn: host.nqn.clone().unwrap_or_else(|| OTHERS.into()),
            name: host.nqn.as_deref().and_then(name),
            queues: host.queues,
            queue_depth: host.requests,
            operations: operations(&host.operations),
        };
        Ok(stats.hosts.iter().map(show).collect())
    }

    /// The open groups, each with its name.
    fn named_groups<'a>(&self, stats: &'a Stats) -> Result<impl Iterator<Item = (String, &'a GroupFigures)>, Problem> {
        let groups = self.directory.all::<GroupRecord>()?;
        let name =
            move |id: base::GroupId| groups.iter().find(|g| g.value.id == id).map_or_else(|| id.to_string(), |g| g.value.name.clone());
        Ok(stats.groups.iter().map(move |group| (name(group.group), group)))
    }

    fn group_statistics(&self, stats: &Stats) -> Result<Vec<api::GroupStatistics>, Problem> {
        let show = |(name, group): (String, &GroupFigures)| api::GroupStatistics {
            group: name,
            buffer_bytes: group.buffer_bytes,
            buffer_used_bytes: group.buffer_used_bytes,
            destaged_bytes: group.figures.get("destaged_bytes").unwrap_or(0),
        };
        Ok(self.named_groups(stats)?.map(show).collect())
    }

    fn device_statistics(&self, stats: &Stats) -> Result<Vec<api::DeviceStatistics>, Problem> {
        let mut all = Vec::new();
        for (name, group) in self.named_groups(stats)? {
            for (n, device) in group.devices.iter().enumerate() {
                let of = |name: &str| device.figures.get(name).unwrap_or(0);
                let operation = |(kind, latencies): &(&'static str, crate::plane::Latencies)| {
                    let (operations, bytes) = (of(&format!("{kind}s")), of(&format!("{kind}_bytes")));
                    OperationFigures { operation: kind, operations, bytes, errors: 0, latencies: latencies.clone() }
                };
                let done: Vec<_> = device.latencies.iter().map(operation).collect();
                all.push(api::DeviceStatistics {
                    device: device.name.clone(),
                    group: name.clone(),
                    role: if n == 0 { "cache" } else { "capacity" }.into(),
                    errors: device.errors,
                    flushes: of("flushes"),
                    discards: of("discards"),
                    in_flight: of("in_flight"),
                    operations: operations(&done),
                });
            }
        }
        Ok(all)
    }
}

/// `None` where the kernel does not tell.
fn machine_statistics() -> Option<api::MachineStatistics> {
    let now = machine::Snapshot::now()?;
    let process = |(id, p): (u32, machine::Process)| api::ProcessStatistics {
        id,
        name: p.name,
        parent: p.parent,
        kernel: p.kernel,
        began: p.began,
        used_ms: p.used_ms,
        children_ms: p.children_ms,
    };
    Some(api::MachineStatistics {
        at_ms: now.at_ms,
        processors: now.processors,
        busy_ms: now.busy_ms,
        stolen_ms: now.stolen_ms,
        load_hundredths: now.load.map(|load| (load * 100.0).round() as u64),
        mhz_mean: now.frequency.map(|f| f.mean_mhz.round() as u64),
        mhz_fastest: now.frequency.map(|f| f.fastest_mhz.round() as u64),
        mhz_limit: now.frequency.and_then(|f| Some(f.limit_mhz?.round() as u64)),
        daemon: std::process::id(),
        processes: now.processes.into_iter().filter(|(_, p)| p.used_ms + p.children_ms > 0).map(process).collect(),
    })
}

fn operations(all: &[OperationFigures]) -> Vec<api::OperationStatistics> {
    let show = |one: &OperationFigures| api::OperationStatistics {
        operation: one.operation.into(),
        operations: one.operations,
        bytes: one.bytes,
        errors: one.errors,
        latency_sum_ns: one.latencies.sum_ns,
        latency: one.latencies.buckets.iter().map(|(up_to_ns, count)| api::LatencyBucket { up_to_ns: *up_to_ns, count: *count }).collect(),
    };
    all.iter().map(show).collect()
}
