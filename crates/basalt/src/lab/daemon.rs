//! The daemon here as what is measured: which disks it serves, and what it says of itself meanwhile.
//!
//! Invariant: a daemon that does not answer costs figures, never a run.
//! Never: changes anything.

use crate::client::{Client, Failure, METRICS};
use control::api::types::{Group, MachineStatistics, Security, Statistics, Status, Subsystem};
use lab::engine::nvme_address::SCHEME;
use lab::engine::open;
use lab::measure::TargetSecond;
use lab::measure::cpu::Process;
use lab::measure::noise::TargetMachine;
use machine::{Frequency, Snapshot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest time that a question in mid-run may take.
const WAIT: Duration = Duration::from_secs(2);
/// Counters that are summed over all devices.
const READ_BYTES: &str = "basalt_device_read_bytes_total";
const WRITTEN_BYTES: &str = "basalt_device_write_bytes_total";
const DESTAGED_BYTES: &str = "basalt_store_destaged_bytes_total";

/// A daemon on this machine or another.
pub struct Target {
    client: Client,
    pid: Option<u32>,
    process: Option<Process>,
    before: Option<(Instant, BTreeMap<&'static str, f64>, Option<f64>)>,
    silent: bool,
}

impl Target {
    /// The daemon at `api`, when there is one that answers.
    pub fn of(api: &str) -> Option<Target> {
        let client = Client::new(api, Some(WAIT)).ok()?;
        let _: Status = client.get("/status").ok()?;
        let pid = client.peer();
        let process = pid.map(Process::new);
        Some(Target { client, pid, process, before: None, silent: false })
    }

    /// Its process, when it is on this machine.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Processor time that it has used, in seconds.
    pub fn cpu_s(&self) -> Option<f64> {
        self.process.as_ref()?.seconds()
    }

    /// What is measured on these disks: the daemon at `api`, when they lead there. One that is reached over the network is believed to be it; one that is
    /// reached by its socket is when a disk leads to this machine.
    pub fn measured(api: &str, disks: &[String]) -> Option<Target> {
        let leads: fn(&str) -> bool = if api.starts_with("http://") { open::is_networked } else { open::is_here };
        disks.iter().any(|d| leads(d)).then(|| Target::of(api)).flatten()
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> Option<TargetMachine> {
        let asked = (!self.silent).then(|| self.client.get::<Statistics>("/statistics?of=machine"))?;
        asked.ok()?.machine.map(machine_of)
    }

    /// What it says of the time since it was asked last.
    pub fn second(&mut self) -> Option<TargetSecond> {
        if self.silent {
            return None;
        }
        let asked: Result<(Vec<Group>, String), Failure> = self.client.get("/groups").and_then(|g| Ok((g, self.client.text(METRICS)?)));
        let Ok((groups, metrics)) = asked else {
            // Not again: each question would take its time from the run.
            self.silent = true;
            return None;
        };
        let fill = groups.iter().map(|g| g.buffer_used_bytes as f64 / g.buffer_bytes.max(1) as f64).fold(0.0, f64::max);
        let sums = [READ_BYTES, WRITTEN_BYTES, DESTAGED_BYTES].map(|name| (name, sum(&metrics, name)));
        let (now, sums, cpu) = (Instant::now(), BTreeMap::from(sums), self.cpu_s());
        let before = self.before.replace((now, sums.clone(), cpu))?;
        let seconds = (now - before.0).as_secs_f64().max(1e-3);
        let rate = |name: &str| (sums[name] - before.1[name]).max(0.0) / seconds;
        Some(TargetSecond {
            buffer_fill: fill,
            destaged_bytes: rate(DESTAGED_BYTES),
            device_read_bytes: rate(READ_BYTES),
            device_written_bytes: rate(WRITTEN_BYTES),
            cores: cpu.zip(before.2).map_or(0.0, |(b, a)| (b - a) / seconds),
        })
    }
}

fn machine_of(m: MachineStatistics) -> TargetMachine {
    let process = |p: control::api::types::ProcessStatistics| {
        let of = machine::Process {
            name: p.name,
            parent: p.parent,
            used_ms: p.used_ms,
            children_ms: p.children_ms,
            kernel: p.kernel,
            began: p.began,
        };
        (p.id, of)
    };
    let frequency = m.mhz_mean.zip(m.mhz_fastest);
    TargetMachine {
        now: Snapshot {
            at_ms: m.at_ms,
            processors: m.processors,
            busy_ms: m.busy_ms,
            stolen_ms: m.stolen_ms,
            load: m.load_hundredths.map(|n| n as f64 / 100.0),
            frequency: frequency.map(|(mean, fastest)| Frequency {
                mean_mhz: mean as f64,
                fastest_mhz: fastest as f64,
                limit_mhz: m.mhz_limit.map(|mhz| mhz as f64),
            }),
            processes: m.processes.into_iter().map(process).collect(),
        },
        daemon: m.daemon,
    }
}

/// The sum of all samples of a family in the text that Prometheus reads.
fn sum(metrics: &str, name: &str) -> f64 {
    let samples = metrics.lines().filter_map(|l| l.strip_prefix(name)).filter(|rest| rest.starts_with(['{', ' ']));
    samples.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// The daemon, and the addresses of all namespaces that any host may use.
pub fn served(api: &str) -> Result<(Target, Vec<String>), Failure> {
    let client = Client::new(api, None)?;
    let status: Status = client.get("/status")?;
    let subsystems: Vec<Subsystem> = client.get("/subsystems")?;
    let nothing = |what: &str| {
        Failure::Local(format!("{what}: name the disks to be measured, such as /dev/nvme1n1 or nvme-tcp://HOST:4420/NQN?nsid=1"))
    };
    let listener = status.listeners.iter().find(|l| l.kind == "io").ok_or_else(|| nothing("the daemon here does not listen for hosts"))?;
    let place = listener.address.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "127.0.0.1:");
    let open = subsystems.iter().filter(|s| s.allow_any_host && s.security == Security::Plain);
    let namespaces = open.flat_map(|s| s.namespaces.iter().map(|n| (&s.nqn, n.nsid)));
    let disks: Vec<String> = namespaces.map(|(nqn, nsid)| format!("{SCHEME}{place}/{nqn}?nsid={nsid}")).collect();
    if disks.is_empty() {
        return Err(nothing("the daemon here serves no volume that every host may use"));
    }
    let target = Target::of(api).ok_or_else(|| nothing("the daemon here has stopped"))?;
    Ok((target, disks))
}

#[cfg(test)]
mod tests {
    /// What a daemon tells of its machine is what its machine has counted.
    #[test]
    fn the_machine_of_a_daemon_is_read_as_it_was_reported() {
        use control::api::types::{MachineStatistics, ProcessStatistics};
        let process =
            |id, parent| ProcessStatistics { id, name: "etcd".into(), parent, kernel: false, began: 5, used_ms: 20, children_ms: 10 };
        let all = MachineStatistics {
            at_ms: 7000,
            processors: 4,
            busy_ms: 900,
            stolen_ms: 30,
            load_hundredths: Some(152),
            mhz_mean: Some(2000),
            mhz_fastest: Some(3000),
            mhz_limit: Some(3500),
            daemon: 77,
            processes: vec![process(78, 77)],
        };
        let read = super::machine_of(all.clone());
        assert_eq!((read.daemon, read.now.at_ms, read.now.processors, read.now.busy_ms, read.now.stolen_ms), (77, 7000, 4, 900, 30));
        let f = read.now.frequency.expect("frequencies");
        assert_eq!((f.mean_mhz, f.fastest_mhz, f.limit_mhz, read.now.load), (2000.0, 3000.0, Some(3500.0), Some(1.52)));
        let p = &read.now.processes[&78];
        assert_eq!((p.parent, p.used_ms, p.children_ms, p.began, p.kernel), (77, 20, 10, 5, false));
        assert_eq!(super::machine_of(MachineStatistics { mhz_mean: None, ..all }).now.frequency, None);
    }

    #[test]
    fn samples_of_a_family_are_summed_and_no_other() {
        let text = "# TYPE a_total counter\na_total{x=\"1\"} 5\na_total{x=\"2\"} 7.5\na_total_more 9\nb 1\n";
        assert_eq!(super::sum(text, "a_total"), 12.5);
        assert_eq!(super::sum(text, "c"), 0.0);
    }
}
