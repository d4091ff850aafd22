//! Micro-benchmarks of the hot pieces of the data plane, made to be counted by callgrind (`scripts/micro`, `docs/profile.md`).
//!
//! Owns: the cases. A case prepares what it needs, then does its operation a number of times within [`measured`].
//! Invariants: a case does the same in every run (no clock, no chance but from a fixed seed), and checks that what it did worked.
//! Never: judges figures (the script does); part of production.
#![forbid(unsafe_code)]

mod flow;
mod links;
mod parts;
mod pdus;
mod session;

use base::Duration;

/// One micro-benchmark.
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// What one operation is.
    pub what: &'static str,
    /// Operations that make a good figure.
    pub times: u64,
    /// What callgrind counts.
    pub counted: Counted,
    run: fn(u64) -> Duration,
}

/// Which instructions of a run belong to its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those within [`measured`].
    Measured,
    /// Those of a core of a host in a simulated world: its program and its tasks, without the simulator. They include making the world, so
    /// that two runs of different length are needed.
    Core,
}

impl Counted {
    /// As the script reads it.
    pub fn name(self) -> &'static str {
        match self {
            Counted::Measured => "measured",
            Counted::Core => "core",
        }
    }
}

impl Case {
    /// Does the operation so often; the time that it took.
    pub fn run(&self, times: u64) -> Duration {
        (self.run)(times)
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(parts::cases());
    all.extend(pdus::cases());
    all.extend(session::cases());
    all.extend(links::cases());
    all.extend(flow::cases());
    all
}

/// Runs what is to be counted: callgrind switches its counting on and off with this function, by name.
#[inline(never)]
#[allow(clippy::disallowed_types, clippy::disallowed_methods)] // the time is for information only
pub fn measured(work: &mut dyn FnMut()) -> Duration {
    let began = std::time::Instant::now();
    work();
    Duration::from_nanos(began.elapsed().as_nanos() as u64)
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
    /// A number below `end`.
    #[inline]
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
