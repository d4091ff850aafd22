//! What this machine's processors do and for whom: the kernel's counters at one moment.
//!
//! Owns: reading /proc and /sys for that.
//! Invariants: what cannot be read is left out, never taken for zero; it needs no rights.
//! Never: judges, changes or stops anything; asks another machine.
// Nothing of this runs in the data plane.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;

/// A clock tick in /proc: USER_HZ is 100 on every Linux that Basalt runs on.
const TICK_MS: u64 = 10;
/// Processes that are looked at.
const PROCESSES_MAX: usize = 65_536;
/// Processors whose frequency is looked at.
const PROCESSORS_MAX: u32 = 1024;
/// PF_KTHREAD of the kernel's include/linux/sched.h: the flag of its own threads.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The counters of a machine at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When, on the machine's monotonic clock.
    pub at_ms: u64,
    /// Logical processors.
    pub processors: u32,
    /// Processor time in user, nice and system since the machine started; that of interrupts belongs to nobody.
    pub busy_ms: u64,
    /// Processor time that the hypervisor gave to others.
    pub stolen_ms: u64,
    /// Load average of the last minute.
    pub load: Option<f64>,
    /// Frequencies of the processors.
    pub frequency: Option<Frequency>,
    /// Processes that there are, by number.
    pub processes: BTreeMap<u32, Process>,
}

/// How fast processors run, where the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    /// All of them on average.
    pub mean_mhz: f64,
    /// The one that is the fastest now.
    pub fastest_mhz: f64,
    /// The most that one of them can do, where it is known.
    pub limit_mhz: Option<f64>,
}

/// What a process has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// The number of the process that started it, or that took it over.
    pub parent: u32,
    /// Processor time of its own.
    pub used_ms: u64,
    /// Of its children that have ended.
    pub children_ms: u64,
    /// It is a thread of the kernel.
    pub kernel: bool,
    /// When it began, in ticks since the machine did: with its number it is one process. Its name may change, as those of kernel workers do.
    pub began: u64,
}

impl Snapshot {
    /// Now; `None` where /proc does not tell.
    pub fn now() -> Option<Snapshot> {
        let (processors, busy_ms, stolen_ms) = parse_machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let entries = fs::read_dir("/proc").ok()?;
        let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).take(PROCESSES_MAX);
        let processes =
            pids.filter_map(|pid| Some((pid, parse_process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect();
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let at_ms = clock.tv_sec as u64 * 1000 + clock.tv_nsec as u64 / 1_000_000;
        Some(Snapshot { at_ms, processors, busy_ms, stolen_ms, load: load_average(), frequency: frequency(), processes })
    }
}

/// Of proc(5)'s stat: processors, time in user, nice and system, time stolen.
fn parse_machine(stat: &str) -> Option<(u32, u64, u64)> {
    let all: Vec<u64> = stat.lines().find_map(|l| l.strip_prefix("cpu "))?.split_whitespace().map_while(|w| w.parse().ok()).collect();
    let processors = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count() as u32;
    (all.len() >= 4).then(|| (processors, (all[0] + all[1] + all[2]) * TICK_MS, all.get(7).copied().unwrap_or(0) * TICK_MS))
}

/// Of proc(5)'s PID/stat: name, ppid (field 4), flags (9), utime, stime, cutime, cstime (14 to 17), starttime (22). The name may hold anything, even brackets.
fn parse_process(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.chars().filter(|c| !c.is_control()).collect();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    Some(Process {
        name,
        parent: number(4)? as u32,
        used_ms: (number(14)? + number(15)?) * TICK_MS,
        children_ms: (number(16)? + number(17)?) * TICK_MS,
        kernel: number(9)? & KERNEL_THREAD != 0,
        began: number(22)?,
    })
}

fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Frequencies now; `None` where the kernel does not tell them, as in most virtual machines.
pub fn frequency() -> Option<Frequency> {
    let attribute = |n: u32, name: &str| {
        let khz: f64 = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{n}/cpufreq/{name}")).ok()?.trim().parse().ok()?;
        Some(khz / 1e3)
    };
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).max(present()).min(PROCESSORS_MAX);
    let now: Vec<f64> = (0..processors).filter_map(|n| attribute(n, "scaling_cur_freq")).collect();
    let most = |all: &[f64]| all.iter().copied().reduce(f64::max);
    let limits: Vec<f64> = (0..processors).filter_map(|n| attribute(n, "cpuinfo_max_freq")).collect();
    Some(Frequency { mean_mhz: now.iter().sum::<f64>() / now.len().max(1) as f64, fastest_mhz: most(&now)?, limit_mhz: most(&limits) })
}

/// Processors of the machine, also those that this process may not use: one more than the last of `0-63`.
fn present() -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/present").unwrap_or_default();
    text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok()).map_or(0, |last| last.saturating_add(1))
}

#[cfg(test)]
mod tests;
