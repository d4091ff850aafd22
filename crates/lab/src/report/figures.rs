//! What is computed from a case: the figures that tables, charts and `report.json` have in common.
//!
//! Invariants: a percentile comes from the merged histogram of all operations it is said of, and is left out where fewer than [`crate::measure::BEYOND`]
//! operations took longer.
//! Never: reads files.

use crate::measure::{Figures, Latency};
use crate::results::{Measured, Verified};
use crate::workload::Arrivals;
use serde::Serialize;

/// The percentiles of every table, with their names.
pub const PERCENTILES: [(f64, &str); 5] = [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"), (99.99, "p99.99")];

/// Percentile `p` in microseconds, where enough operations lie beyond it.
pub fn percentile_us(latency: &Latency, p: f64) -> Option<f64> {
    latency.known_percentile_ns(p).map(|ns| ns as f64 / 1e3)
}

/// Figures of some operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Op {
    /// Which: "all", "reads", "writes", "trims", "flushes" (in no other figure), or the name of a stream.
    pub name: String,
    /// Operations that ended well.
    pub operations: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations a second.
    pub iops: f64,
    /// MiB a second.
    pub mib_s: f64,
    /// Mean latency in microseconds; none without operations.
    pub mean_us: Option<f64>,
    /// [`PERCENTILES`] in microseconds; none where there are too few operations for it.
    pub percentiles_us: [Option<f64>; 5],
    /// The longest, in microseconds.
    pub max_us: Option<f64>,
}

impl Op {
    /// From what was measured in `measured_s` seconds.
    pub fn new(name: &str, f: &Figures, measured_s: f64) -> Op {
        let counted = f.latency.count();
        let some = |v: f64| (counted > 0).then_some(v);
        let per_s = |v: f64| if measured_s > 0.0 { v / measured_s } else { 0.0 };
        Op {
            name: name.into(),
            operations: f.operations,
            bytes: f.bytes,
            errors: f.errors,
            iops: per_s(f.operations as f64),
            mib_s: per_s(f.bytes as f64 / 1_048_576.0),
            mean_us: some(f.latency.mean_ns() / 1e3),
            percentiles_us: PERCENTILES.map(|p| percentile_us(&f.latency, p.0)),
            max_us: some(f.latency.max_ns() as f64 / 1e3),
        }
    }
    /// The 99th percentile in microseconds.
    pub fn p99_us(&self) -> Option<f64> {
        self.percentiles_us[2]
    }
}

/// Figures of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Number in its run, as in the file's name.
    pub number: usize,
    /// Workload and labels in one line: what tables call it.
    pub name: String,
    /// Workload.
    pub workload: String,
    /// What distinguishes it.
    pub labels: Vec<(String, String)>,
    /// Which engine.
    pub engine: String,
    /// Seconds measured.
    pub measured_s: f64,
    /// It was ended before its time.
    pub cut_short: bool,
    /// Operations a second that were asked for.
    pub requested_iops: Option<f64>,
    /// Of an open loop: operations a second that were due in the measured time and ended in it. What was carried from before is none of them.
    pub kept_iops: f64,
    /// All operations.
    pub all: Op,
    /// Kinds that occurred.
    pub kinds: Vec<Op>,
    /// Streams, when there are several.
    pub streams: Vec<Op>,
    /// Blocks checked, wrong, and not known.
    pub verified: Option<Verified>,
    /// Cores that the client used; of several, together.
    pub client_cores: f64,
    /// Each of several clients, by its address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Op>,
    /// Cores that the target used, where it is known.
    pub target_cores: Option<f64>,
    /// Mean destaging of the target in MiB a second, where it is known.
    pub destage_mib_s: Option<f64>,
    /// Operations a second for each core of the target.
    pub iops_per_target_core: Option<f64>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

fn destage_mib_s(m: &Measured) -> Option<f64> {
    let rates: Vec<f64> = m.seconds.iter().filter(|s| s.at_s >= 0.0).filter_map(|s| Some(s.target.as_ref()?.destaged_bytes)).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64 / 1_048_576.0)
}

/// A workload with its labels, but for some. One that repeats the workload's name is not said again.
fn called(workload: &str, labels: &[(String, String)], without: &[&str]) -> String {
    let labels = labels.iter().filter(|(k, v)| !without.contains(&k.as_str()) && v != workload).map(|(k, v)| format!("{k} {v}"));
    std::iter::once(workload.to_owned()).chain(labels).collect::<Vec<_>>().join(", ")
}

impl Case {
    /// From a case's file.
    pub fn new(number: usize, m: &Measured) -> Case {
        let all = Op::new("all", &m.total(), m.measured_s);
        let kinds = [("reads", &m.reads), ("writes", &m.writes), ("trims", &m.trims), ("flushes", &m.flushes)];
        let kinds = kinds.into_iter().filter(|(_, f)| f.operations + f.errors > 0).map(|(n, f)| Op::new(n, f, m.measured_s)).collect();
        let cores = |s: f64| if m.measured_s > 0.0 { s / m.measured_s } else { 0.0 };
        let target_cores = m.target_cpu_s.map(cores);
        // A label that only repeats the workload's name says nothing new.
        let kept: Vec<(String, String)> = m.labels.iter().filter(|(k, v)| k != "workload" || *v != m.workload.name).cloned().collect();
        let name = called(&m.workload.name, &kept, &[]);
        Case {
            number,
            name,
            workload: m.workload.name.clone(),
            labels: kept,
            engine: m.engine.clone(),
            measured_s: m.measured_s,
            cut_short: m.cut_short,
            requested_iops: match m.workload.arrivals {
                Arrivals::Closed => None,
                Arrivals::Limited { iops } | Arrivals::Open { iops, .. } => Some(iops),
            },
            destage_mib_s: destage_mib_s(m),
            kept_iops: if m.measured_s > 0.0 { m.kept_iops() } else { 0.0 },
            iops_per_target_core: target_cores.filter(|c| *c > 0.0).map(|c| all.iops / c),
            all,
            kinds,
            streams: m.streams.iter().map(|(n, f)| Op::new(n, f, m.measured_s)).collect(),
            verified: m.verified,
            client_cores: cores(m.client_cpu_s),
            clients: m.clients.iter().map(|c| Op::new(&c.name, &c.figures, c.measured_s)).collect(),
            target_cores,
            notes: m.notes.clone(),
        }
    }
    /// The part of the requested rate that was kept: due in the measured time, and ended in it.
    pub fn delivered(&self) -> Option<f64> {
        self.requested_iops.filter(|r| *r > 0.0).map(|r| self.kept_iops / r)
    }
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|l| l.0 == key).map(|l| l.1.as_str())
    }
    /// Workload and labels but for those named: which group of cases it belongs to.
    pub fn group(&self, without: &[&str]) -> String {
        called(&self.workload, &self.labels, without)
    }
    /// A figure by the name that published figures have: "IOPS", "MiB/s", "mean latency ms", "p99 latency ms", "read IOPS" and so on.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let lower = name.to_lowercase();
        if lower == "destage mib/s" {
            return self.destage_mib_s;
        }
        // "mean write latency ms" is "write mean latency ms".
        let lower = match ["read", "write"].into_iter().find(|kind| lower.contains(&format!(" {kind} latency"))) {
            Some(kind) => format!("{kind} {}", lower.replace(&format!(" {kind} latency"), " latency")),
            None => lower,
        };
        let (op, rest) = if let Some(rest) = lower.strip_prefix("read ") {
            (self.kinds.iter().find(|k| k.name == "reads")?, rest)
        } else if let Some(rest) = lower.strip_prefix("write ") {
            (self.kinds.iter().find(|k| k.name == "writes")?, rest)
        } else {
            (&self.all, lower.as_str())
        };
        match rest {
            "iops" => return Some(op.iops),
            "mib/s" => return Some(op.mib_s),
            _ => {}
        }
        let (which, unit) = rest.split_once(' ').map(|(w, u)| (w, u.trim_start_matches("latency").trim()))?;
        let us = match which {
            "mean" => op.mean_us,
            "longest" | "max" | "maximum" => op.max_us,
            p => op.percentiles_us[PERCENTILES.iter().position(|q| q.1 == p)?],
        }?;
        match unit {
            "ms" => Some(us / 1e3),
            "µs" | "us" => Some(us),
            "s" => Some(us / 1e6),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod tests;
