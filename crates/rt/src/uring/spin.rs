//! How long a core stays awake with nothing to do.
//!
//! Owns: the decision to spin or to sleep, and what it was learnt from.
//! Never: spins or sleeps itself (that is `reactor`).

use std::time::Duration;

/// The spin limit that the first short sleep brings, at least.
const SPIN_NS_START: u64 = 8_000;
/// A sleep that lasts so many times the longest spinning says that there is nothing to do.
const LONG_SLEEP: u64 = 10;
/// A turn that did nothing and yet took so long: somebody else had the processor, or the hypervisor.
const SHARED_GAP_NS: u64 = 300_000;
/// Short idle turns between two long ones, at most, that say that it is somebody who wants the processor all the time: every turn yields it.
const SHARED_TURNS: u32 = 64;
/// How long it does not spin then.
const SHARED_NS: u64 = 20_000_000;

/// What an idle core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// A device has operations of it.
    Devices,
    /// Anything else: hosts, other cores, timers.
    Others,
}

/// How long to spin before sleeping, learnt from the gaps between events (much as KVM's halt polling does): it grows when a sleep turned out
/// so short that spinning would have bridged it, shrinks when it would not, and ends when sleeps are long, so an idle core does not spin at all.
#[derive(Clone, Copy, Debug)]
struct Limit {
    max_ns: u64,
    ns: u64,
}

impl Limit {
    fn new(max: Duration) -> Limit {
        let max_ns = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Limit { max_ns, ns: max_ns }
    }

    /// After a core had nothing to do for `idle_ns`, asleep at the end.
    fn slept(&mut self, idle_ns: u64) {
        if idle_ns > self.max_ns {
            let half = self.ns / 2;
            self.ns = if half < SPIN_NS_START || idle_ns > self.max_ns.saturating_mul(LONG_SLEEP) { 0 } else { half };
        } else if idle_ns > self.ns {
            self.ns = (idle_ns * 2).max(SPIN_NS_START).min(self.max_ns);
        }
    }
}

/// Whether to spin: a limit for each thing that is waited for, and whether the processor is ours.
pub(super) struct Spin {
    devices: Limit,
    others: Limit,
    /// Idle turns since the last long one.
    short_turns: u32,
    /// Others want this processor: no spinning until then.
    shared_until_ns: u64,
}

impl Spin {
    /// With the most of each.
    pub(super) fn new(devices: Duration, others: Duration) -> Spin {
        Spin { devices: Limit::new(devices), others: Limit::new(others), short_turns: SHARED_TURNS, shared_until_ns: 0 }
    }

    fn limit(&mut self, waits_for: WaitsFor) -> &mut Limit {
        match waits_for {
            WaitsFor::Devices => &mut self.devices,
            WaitsFor::Others => &mut self.others,
        }
    }

    /// Whether a core idle for `idle_ns` goes on spinning, after an idle turn of `turn_ns`.
    pub(super) fn goes_on(&mut self, waits_for: WaitsFor, idle_ns: u64, turn_ns: u64, now_ns: u64) -> bool {
        if turn_ns < SHARED_GAP_NS {
            self.short_turns = self.short_turns.saturating_add(1);
        } else if std::mem::take(&mut self.short_turns) < SHARED_TURNS {
            self.shared_until_ns = now_ns + SHARED_NS;
        }
        idle_ns < self.limit(waits_for).ns && now_ns >= self.shared_until_ns
    }

    /// After a core had nothing to do for `idle_ns`, asleep at the end.
    pub(super) fn slept(&mut self, waits_for: WaitsFor, idle_ns: u64) {
        self.limit(waits_for).slept(idle_ns);
    }
}

#[cfg(test)]
#[path = "spin_tests.rs"]
mod tests;
