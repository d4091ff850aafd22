//! Processor time: of this process, and of a target on this machine.
//!
//! Invariant: what cannot be found out is `None`, never zero.
//! Never: asks another machine.

use std::path::PathBuf;
use std::time::Duration;

/// Clock ticks a second in /proc: the same on every Linux that Basalt runs on (USER_HZ).
const TICKS_S: f64 = 100.0;

/// Processor time that this process has used, in all its threads, user and system.
pub fn own() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// A process on this machine whose processor time is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    stat: PathBuf,
}

impl Process {
    /// By its number.
    pub fn new(pid: u32) -> Process {
        Process { stat: PathBuf::from(format!("/proc/{pid}/stat")) }
    }

    /// Seconds that it has used; `None`: it is gone, or not ours to look at.
    pub fn seconds(&self) -> Option<f64> {
        parse(&std::fs::read_to_string(&self.stat).ok()?)
    }
}

/// utime and stime of proc(5)'s stat: fields 14 and 15; the name in field 2 may hold anything, even brackets.
fn parse(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / TICKS_S)
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
