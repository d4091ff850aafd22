//! What else a machine does while something is measured with it or on it: processors that others use, time that the hypervisor takes, load, frequency.
//!
//! ```text
//! Snapshot ──(the time that is looked at)──► Snapshot ──► Noise::between ──► Noise::problem, Noise::slow: what a reader has to know, or nothing
//! ```
//!
//! Invariants: time of the client, of a known target, of the children of both and of kernel threads is not that of others; what cannot be read is left
//! out, never taken for zero.
//! Never: asks another machine; stops or changes a process.

use machine::{Frequency, Process, Snapshot};
use serde::{Deserialize, Serialize};

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
/// Before a run the load average may be this part of the processors, and at most [`LOAD_MAX`]; a load of 1 is none on any machine.
const LOAD_SHARE: f64 = 0.25;
/// See [`LOAD_SHARE`].
const LOAD_MAX: f64 = 4.0;
/// In the middle of a load the fastest processor has at least this part of the frequency that it can have: with all at work they have less than one alone.
const FREQUENCY_SHARE: f64 = 0.5;

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
    /// It was taken before the load of a run began: what load there was is that of others.
    #[serde(default)]
    pub at_rest: bool,
    /// Mean frequency of the processors in the middle of a load, else at the end, in MHz, where the kernel tells it.
    #[serde(default)]
    pub mhz: Option<f64>,
    /// In the middle of a load: frequency of the processor that was the fastest, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz_fastest: Option<f64>,
    /// The highest frequency that a processor can have, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz_limit: Option<f64>,
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
        let limit = self.mhz_limit.map_or(String::new(), |m| format!(" of at most {m:.0}"));
        let mhz = self.mhz.map_or(String::new(), |m| format!(", {m:.0}{limit} MHz"));
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
            let share = self.others / all * 100.0;
            says.push(format!(
                "other processes used {:.1} of {} processors, {share:.0} % of its processor time{names}",
                self.others, self.processors
            ));
        }
        if self.steal > STEAL_SHARE * all {
            says.push(format!("the hypervisor took {:.0} % of the processors' time away", self.steal / all * 100.0));
        }
        let load = self.load.filter(|load| self.at_rest && *load > (LOAD_SHARE * all).clamp(1.0, LOAD_MAX));
        says.extend(
            load.map(|load| {
                format!("the load average of the minute before the first case was {load:.1} on {} processors", self.processors)
            }),
        );
        (!says.is_empty()).then(|| says.join(", and "))
    }

    /// Whether its processors were slow in the middle of a load, in words; `None`: they were not, or it is not known.
    pub fn slow(&self) -> Option<String> {
        let (fastest, limit) = (self.mhz_fastest?, self.mhz_limit?);
        (fastest < FREQUENCY_SHARE * limit).then(|| format!("the fastest ran at {fastest:.0} of at most {limit:.0} MHz"))
    }

    /// Whether a reader of the figures has to know of it.
    pub fn is_bad(&self) -> bool {
        self.problem().is_some() || self.slow().is_some()
    }

    /// With frequencies of the middle of a load.
    pub fn with_frequency(self, seen: Option<Frequency>) -> Noise {
        match seen {
            Some(f) => Noise { mhz: Some(f.mean_mhz), mhz_fastest: Some(f.fastest_mhz), mhz_limit: f.limit_mhz, ..self },
            None => self,
        }
    }

    /// What others did between two moments of a machine; `known` are the processes of what measures and of what is measured: their time, and that of
    /// their children, is not that of others.
    pub fn between(begin: &Snapshot, end: &Snapshot, known: &[u32]) -> Noise {
        let seconds = end.at_ms.saturating_sub(begin.at_ms) as f64 / 1e3;
        let cores = |ms: u64| ms as f64 / 1e3 / seconds.max(1e-9);
        let used = |pid: u32, p: &Process| {
            let before = begin.processes.get(&pid).filter(|b| b.began == p.began);
            let children = p.children_ms.saturating_sub(before.map_or(p.children_ms, |b| b.children_ms));
            (p.used_ms.saturating_sub(before.map_or(0, |b| b.used_ms)), children)
        };
        let (mut ours, mut processes) = (0, Vec::new());
        for (pid, p) in &end.processes {
            let (own, children) = used(*pid, p);
            if known.contains(pid) {
                ours += own + children;
            } else if p.kernel || known.contains(&p.parent) {
                ours += own;
            } else if cores(own) >= NAMED_MIN {
                processes.push((p.name.clone(), cores(own)));
            }
        }
        processes.sort_by(|a, b| b.1.total_cmp(&a.1));
        processes.truncate(NAMED_MAX);
        Noise {
            seconds,
            processors: end.processors,
            others: cores(end.busy_ms.saturating_sub(begin.busy_ms).saturating_sub(ours)),
            steal: cores(end.stolen_ms.saturating_sub(begin.stolen_ms)),
            load: end.load,
            mhz: end.frequency.map(|f| f.mean_mhz),
            mhz_limit: end.frequency.and_then(|f| f.limit_mhz),
            processes,
            ..Noise::default()
        }
    }
}

/// This process and, where it is on this machine, the one that is measured.
pub fn known_here(target: Option<u32>) -> Vec<u32> {
    std::iter::once(std::process::id()).chain(target).collect()
}

/// The machine of a target, as its daemon tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetMachine {
    /// Its counters.
    pub now: Snapshot,
    /// The process of the daemon.
    pub daemon: u32,
}

impl TargetMachine {
    /// What others than the daemon did there from this moment to `end`. `None`: it is not the same daemon any more, or not the same machine.
    pub fn noise(&self, end: &TargetMachine) -> Option<Noise> {
        (self.daemon == end.daemon && self.now.at_ms <= end.now.at_ms).then(|| Noise::between(&self.now, &end.now, &[self.daemon]))
    }
}

/// Whether the second that began at `at_s` lies in the middle of so many seconds of a load, or behind it; not the last: the load has ended with it.
pub fn is_middle(at_s: f64, measured_s: f64) -> bool {
    at_s >= 0.0 && at_s + 1.0 >= measured_s / 2.0 && at_s + 1.0 < measured_s
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
