//! The daemon here as what is measured: which disks it serves, and what it says of itself meanwhile.
//!
//! Invariant: a daemon that does not answer costs figures, never a run.
//! Never: changes anything.

use crate::client::{Client, Failure, METRICS};
use control::api::types::{Group, Security, Status, Subsystem};
use lab::engine::nvme_address::SCHEME;
use lab::measure::TargetSecond;
use lab::measure::cpu::Process;
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
    #[test]
    fn samples_of_a_family_are_summed_and_no_other() {
        let text = "# TYPE a_total counter\na_total{x=\"1\"} 5\na_total{x=\"2\"} 7.5\na_total_more 9\nb 1\n";
        assert_eq!(super::sum(text, "a_total"), 12.5);
        assert_eq!(super::sum(text, "c"), 0.0);
    }
}
