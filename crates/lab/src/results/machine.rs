//! The machine that a run is on, from /proc.
//!
//! Invariant: what cannot be read is said to be unknown.
//! Never: asks anything that needs rights.

use super::Machine;
use std::fs;

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpus = text("/proc/cpuinfo");
        let value = |key: &str| cpus.lines().find(|l| l.starts_with(key)).and_then(|l| l.split_once(':')).map(|(_, v)| v.trim().to_owned());
        let memory = text("/proc/meminfo");
        let kib = memory.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
        let kernel = text("/proc/sys/kernel/osrelease").trim().to_owned();
        Machine {
            processor: value("model name").or_else(|| value("Model")).unwrap_or_else(|| "unknown".into()),
            processors: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            memory_bytes: kib.unwrap_or(0) * 1024,
            kernel: if kernel.is_empty() { "unknown".into() } else { kernel },
        }
    }
}
