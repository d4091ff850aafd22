//! What else the machine does while something is measured on it: processors that others use, time that the hypervisor takes, frequency.
//!
//! ```text
//! Snapshot ──(the time that is looked at)──► Snapshot::noise ──► Noise ──► Noise::problem: what a reader has to know, or nothing
//! ```
//!
//! Invariants: time of the client, of its children, of a known target and of kernel threads is not that of others; what cannot be read is left out,
//! never taken for zero.
//! Never: asks another machine; stops or changes a process.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Clock ticks a second in /proc (USER_HZ).
const TICKS_S: f64 = 100.0;
/// Others may use this part of the processors, and at most [`OTHERS_MAX`] of them, before a machine is called busy.
const OTHERS_SHARE: f64 = 0.1;
/// See [`OTHERS_SHARE`].
const OTHERS_MAX: f64 = 2.0;
/// The hypervisor may take this part of the processors' time.
const STEAL_SHARE: f64 = 0.02;
/// Less time than this cannot be judged, in seconds: a tick of the kernel's clock is too much of it.
const JUDGED_S: f64 = 0.2;
/// Processes that are named.
const NAMED_MAX: usize = 5;
/// A process that used less than this, in processors, is not named.
const NAMED_MIN: f64 = 0.02;
/// Processes that are looked at.
const PROCESSES_MAX: usize = 65_536;
/// PF_KTHREAD of the kernel's include/linux/sched.h: the flag of its own threads.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What else a machine did in some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Seconds that were looked at.
    pub seconds: f64,
    /// Logical processors of the machine.
    pub processors: u32,
    /// Processors that others used, on average: neither the client nor a known target.
    pub others: f64,
    /// Processors' worth of time that the hypervisor took away.
    pub steal: f64,
    /// Load average of the last minute, at the end.
    #[serde(default)]
    pub load: Option<f64>,
    /// Mean frequency of the processors at the end, in MHz, where the kernel tells it.
    #[serde(default)]
    pub mhz: Option<f64>,
    /// Others by name, with the processors that each used; the largest first.
    #[serde(default)]
    pub processes: Vec<(String, f64)>,
    /// What is measured runs on this machine, and which process it is is not known: it is among the others.
    #[serde(default)]
    pub with_target: bool,
}

impl Noise {
    /// All of it in a sentence.
    pub fn words(&self) -> String {
        let names: Vec<String> = self.processes.iter().map(|(name, used)| format!("{name} {used:.2}")).collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        let whose = if self.with_target { "Others, the target among them," } else { "Others" };
        let load = self.load.map_or(String::new(), |l| format!(", load average {l:.1}"));
        let mhz = self.mhz.map_or(String::new(), |m| format!(", {m:.0} MHz"));
        format!(
            "{whose} used {:.2} of {} processors{names}; {:.2} were taken by the hypervisor{load}{mhz}.",
            self.others, self.processors, self.steal
        )
    }

    /// What a reader of the figures has to know; `None`: the machine was quiet.
    pub fn problem(&self) -> Option<String> {
        if self.seconds < JUDGED_S || self.processors == 0 {
            return None;
        }
        let all = f64::from(self.processors);
        let mut says = Vec::new();
        if self.others > (OTHERS_SHARE * all).min(OTHERS_MAX) && !self.with_target {
            let names: Vec<String> = self.processes.iter().take(3).map(|(name, used)| format!("{name} {used:.1}")).collect();
            let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            says.push(format!("other processes used {:.1} of {} processors{names}", self.others, self.processors));
        }
        if self.steal > STEAL_SHARE * all {
            says.push(format!("the hypervisor took {:.0} % of the processors' time away", self.steal / all * 100.0));
        }
        (!says.is_empty()).then(|| says.join(", and "))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct ProcessTime {
    name: String,
    /// Its own, in ticks.
    ticks: u64,
    /// Of its children that have ended.
    children: u64,
    kernel: bool,
    /// When it began, in ticks since the machine did: with its number it is one process. Its name may change, as those of kernel workers do.
    began: u64,
}

/// The counters of the machine at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: Instant,
    processors: u32,
    /// user, nice and system, in ticks; those of interrupts belong to nobody.
    worked: u64,
    steal: u64,
    processes: BTreeMap<u32, ProcessTime>,
}

impl Snapshot {
    /// Now; `None` where /proc does not tell.
    pub fn now() -> Option<Snapshot> {
        let (processors, worked, steal) = parse_machine(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let entries = std::fs::read_dir("/proc").ok()?;
        let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).take(PROCESSES_MAX);
        let processes =
            pids.filter_map(|pid| Some((pid, parse_process(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect();
        Some(Snapshot { at: Instant::now(), processors, worked, steal, processes })
    }

    /// What others did from here to `end`; `target`: the process that is measured.
    pub fn noise(&self, end: &Snapshot, target: Option<u32>) -> Noise {
        let seconds = end.at.duration_since(self.at).as_secs_f64();
        let cores = |ticks: u64| ticks as f64 / TICKS_S / seconds.max(1e-9);
        let own = std::process::id();
        let used = |pid: u32, p: &ProcessTime| {
            let before = self.processes.get(&pid).filter(|b| b.began == p.began);
            (p.ticks.saturating_sub(before.map_or(0, |b| b.ticks)), p.children.saturating_sub(before.map_or(p.children, |b| b.children)))
        };
        let (mut known, mut processes) = (0, Vec::new());
        for (pid, p) in &end.processes {
            let (ticks, children) = used(*pid, p);
            if *pid == own {
                known += ticks + children;
            } else if Some(*pid) == target || p.kernel {
                known += ticks;
            } else if cores(ticks) >= NAMED_MIN {
                processes.push((p.name.clone(), cores(ticks)));
            }
        }
        processes.sort_by(|a, b| b.1.total_cmp(&a.1));
        processes.truncate(NAMED_MAX);
        Noise {
            seconds,
            processors: end.processors,
            others: cores(end.worked.saturating_sub(self.worked).saturating_sub(known)),
            steal: cores(end.steal.saturating_sub(self.steal)),
            load: load_average(),
            mhz: frequency_mhz(end.processors),
            processes,
            with_target: false,
        }
    }
}

/// Looks at the machine for `time`, in which the caller does nothing; `None` where /proc does not tell.
pub fn look(time: Duration, target: Option<u32>) -> Option<Noise> {
    let before = Snapshot::now()?;
    std::thread::sleep(time);
    Some(before.noise(&Snapshot::now()?, target))
}

/// Of proc(5)'s stat: processors, ticks in user, nice and system, ticks stolen.
fn parse_machine(stat: &str) -> Option<(u32, u64, u64)> {
    let all: Vec<u64> = stat.lines().find_map(|l| l.strip_prefix("cpu "))?.split_whitespace().map_while(|w| w.parse().ok()).collect();
    let processors = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count() as u32;
    (all.len() >= 4).then(|| (processors, all[0] + all[1] + all[2], all.get(7).copied().unwrap_or(0)))
}

/// Of proc(5)'s PID/stat: name, flags (field 9), utime, stime, cutime, cstime (14 to 17), starttime (22). The name may hold anything, even brackets.
fn parse_process(stat: &str) -> Option<ProcessTime> {
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.chars().filter(|c| !c.is_control()).collect();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    Some(ProcessTime {
        name,
        ticks: number(14)? + number(15)?,
        children: number(16)? + number(17)?,
        kernel: number(9)? & KERNEL_THREAD != 0,
        began: number(22)?,
    })
}

fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn frequency_mhz(processors: u32) -> Option<f64> {
    let khz = |n: u32| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq")).ok()?;
        text.trim().parse::<f64>().ok()
    };
    let all: Vec<f64> = (0..processors.min(1024)).filter_map(khz).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / 1e3)
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
