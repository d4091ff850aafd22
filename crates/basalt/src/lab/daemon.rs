//! The daemon here as what is measured: which disks it serves, and what it says of itself meanwhile.
//!
//! Invariant: a daemon that does not answer costs figures, never a run.
//! Never: changes anything.

use crate::client::{Client, Failure};
use control::api::types::{MachineStatistics, Security, Statistics, Status, Subsystem};
use lab::engine::nvme_address::SCHEME;
use lab::engine::open;
use lab::measure::TargetSecond;
use lab::measure::cpu::Process;
use lab::measure::noise::TargetMachine;
use machine::{Frequency, Snapshot};
use std::time::{Duration, Instant};

/// Longest time that a question in mid-run may take.
const WAIT: Duration = Duration::from_secs(2);

/// What is counted of all groups and devices together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moved {
    destaged_bytes: u64,
    read_bytes: u64,
    written_bytes: u64,
}

/// A daemon on this machine or another.
pub struct Target {
    client: Client,
    pid: Option<u32>,
    process: Option<Process>,
    before: Option<(Instant, Moved, Option<f64>)>,
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
        let asked = (!self.silent).then(|| self.statistics("machine"))?;
        asked.ok()?.machine.map(machine_of)
    }

    fn statistics(&self, of: &str) -> Result<Statistics, Failure> {
        self.client.get(&format!("/statistics?of={of}"))
    }

    /// What it says of the time since it was asked last.
    pub fn second(&mut self) -> Option<TargetSecond> {
        if self.silent {
            return None;
        }
        let asked = self.statistics("groups").and_then(|groups| Ok((groups, self.statistics("devices")?)));
        let Ok((groups, devices)) = asked else {
            // Not again: each question would take its time from the run.
            self.silent = true;
            return None;
        };
        let (fill, moved) = moved(&groups, &devices);
        let (now, cpu) = (Instant::now(), self.cpu_s());
        let before = self.before.replace((now, moved, cpu))?;
        let seconds = (now - before.0).as_secs_f64().max(1e-3);
        let rate = |of: fn(&Moved) -> u64| of(&moved).saturating_sub(of(&before.1)) as f64 / seconds;
        Some(TargetSecond {
            buffer_fill: fill,
            destaged_bytes: rate(|m| m.destaged_bytes),
            device_read_bytes: rate(|m| m.read_bytes),
            device_written_bytes: rate(|m| m.written_bytes),
            cores: cpu.zip(before.2).map_or(0.0, |(b, a)| (b - a) / seconds),
        })
    }
}

/// How full the fullest write buffer is, 0 to 1, and what all groups and devices have moved.
fn moved(groups: &Statistics, devices: &Statistics) -> (f64, Moved) {
    let fill = groups.groups.iter().map(|g| g.buffer_used_bytes as f64 / g.buffer_bytes.max(1) as f64).fold(0.0, f64::max);
    let operations = || devices.devices.iter().flat_map(|d| &d.operations);
    let bytes = |kind: &str| operations().filter(|o| o.operation == kind).map(|o| o.bytes).sum();
    let destaged_bytes = groups.groups.iter().map(|g| g.destaged_bytes).sum();
    (fill, Moved { destaged_bytes, read_bytes: bytes("read"), written_bytes: bytes("write") })
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

    /// All groups and devices together, reads apart from writes; the buffer is as full as the fullest.
    #[test]
    fn what_groups_and_devices_moved_is_summed() {
        use control::api::types::Statistics;
        let statistics = |part: &str| -> Statistics {
            let text = format!(r#"{{"node": "n1", "unix_ms": 1, "started_unix_s": 1, "volumes": [], "hosts": [], {part}}}"#);
            serde_json::from_str(&text).expect("an answer of the API")
        };
        let group = |used: u64, destaged: u64| {
            format!(r#"{{"group": "g", "buffer_bytes": 100, "buffer_used_bytes": {used}, "destaged_bytes": {destaged}}}"#)
        };
        let device = |operations: &str| {
            format!(
                r#"{{"device": "d", "group": "g", "role": "cache", "errors": 0, "flushes": 0, "discards": 0, "operations": [{operations}]}}"#
            )
        };
        let done = |kind: &str, bytes: u64| {
            format!(r#"{{"operation": "{kind}", "operations": 1, "bytes": {bytes}, "errors": 0, "latency_sum_ns": 1, "latency": []}}"#)
        };
        let groups = statistics(&format!(r#""devices": [], "groups": [{}, {}]"#, group(40, 5), group(10, 7)));
        let all = [done("read", 3), done("write", 30)].join(", ");
        let devices = statistics(&format!(r#""devices": [{}, {}]"#, device(&all), device(&done("write", 4))));
        let sum = super::Moved { destaged_bytes: 12, read_bytes: 3, written_bytes: 34 };
        assert_eq!(super::moved(&groups, &devices), (0.4, sum));
    }
}
