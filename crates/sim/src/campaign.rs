//! Many seeds on all cores: what they did, which failed.
//!
//! Owns: the threads of a campaign, its sums and its progress bar.
//! Invariants: each seed is run by one thread; the sums do not depend on how seeds were dealt to threads.
//! Never: part of a run.

use crate::faults::Class;
use crate::history::{Failure, Report, RunOptions, run};
use crate::nodes::{self, plan::NodesPlan};
use crate::plan::{Cuts, OpKind, Plan};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct CampaignOptions {
    /// Which seeds, in this order.
    pub seeds: Range<u64>,
    /// Stop after so long; seeds under way are played to their end.
    pub limit: Option<Duration>,
    /// Several nodes, not one.
    pub nodes: bool,
    /// Threads.
    pub threads: usize,
    /// Every so many seeds one is run twice, and both must be the same; 0 for never.
    pub twice_every: u64,
    /// Stop at so many failures.
    pub failures_max: usize,
    /// A seeded fault, by name.
    pub fault: Option<String>,
    /// Whether to show how far it is.
    pub progress: bool,
}

/// What a campaign did.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Seeds that were played.
    pub seeds: u64,
    /// Seeds by class.
    pub classes: BTreeMap<String, u64>,
    /// Operations by kind.
    pub ops: BTreeMap<OpKind, u64>,
    /// Answers other than success.
    pub statuses: BTreeMap<String, u64>,
    /// Blocks whose content was checked.
    pub blocks_read: u64,
    /// Commands that lost their connection.
    pub given_up: u64,
    /// Old values in runs of the class `Lies`.
    pub stale: u64,
    /// Runs of the class `Lies` in which old values came back.
    pub stale_runs: u64,
    /// The longest time to an answer, in nanoseconds.
    pub latency_max_ns: u64,
    /// Connections made.
    pub connects: u64,
    /// Deaths of a host.
    pub crashes: u64,
    /// Orderly shutdowns.
    pub shutdowns: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// What the operator did to volumes, by kind.
    pub acts: BTreeMap<String, u64>,
    /// Virtual time, in nanoseconds.
    pub virtual_ns: u64,
    /// Time that the threads spent, in nanoseconds.
    pub busy_ns: u64,
    /// Runs whose host could not be brought into service again.
    pub unavailable: u64,
    /// Seeds that were run twice.
    pub repeated: u64,
    /// How many seeds passed each mark.
    pub marks: BTreeMap<&'static str, u64>,
    /// Seeds that failed, with what was wrong.
    pub failures: BTreeMap<u64, String>,
}

impl Sums {
    fn add(&mut self, seed: u64, nodes: bool, report: &Report) {
        let class = if nodes { Class::Crash } else { Plan::draw(seed).class };
        let kind = if nodes { format!("{} nodes", NodesPlan::draw(seed).nodes.len()) } else { format!("{class:?}") };
        *self.classes.entry(kind).or_default() += 1;
        for (kind, n) in &report.counts.ops {
            *self.ops.entry(*kind).or_default() += n;
        }
        for (status, n) in &report.counts.statuses {
            *self.statuses.entry(status.clone()).or_default() += n;
        }
        for (fault, n) in &report.faults {
            *self.faults.entry(fault.clone()).or_default() += n;
        }
        for (act, n) in &report.counts.acts {
            *self.acts.entry(act.clone()).or_default() += n;
        }
        for mark in &report.marks {
            *self.marks.entry(mark).or_default() += 1;
        }
        self.blocks_read += report.counts.blocks_read;
        self.given_up += report.counts.given_up;
        self.stale += report.counts.stale;
        self.stale_runs += u64::from(class == Class::Lies && report.counts.stale > 0);
        self.latency_max_ns = self.latency_max_ns.max(report.counts.latency_max_ns);
        self.connects += report.counts.connects;
        self.crashes += report.crashes;
        self.shutdowns += report.shutdowns;
        self.virtual_ns += report.virtual_ns;
        self.unavailable += u64::from(report.unavailable);
    }

    /// All operations.
    pub fn operations(&self) -> u64 {
        self.ops.values().sum()
    }
    /// Virtual time over the time that the threads spent.
    pub fn times_real(&self) -> f64 {
        self.virtual_ns as f64 / self.busy_ns.max(1) as f64
    }
    /// For programs.
    pub fn to_json(&self) -> Value {
        let ops: BTreeMap<String, u64> = self.ops.iter().map(|(k, n)| (k.name(), *n)).collect();
        json!({
            "seeds": self.seeds, "classes": self.classes, "operations": self.operations(), "operations_by_kind": ops, "statuses": self.statuses,
            "blocks_checked": self.blocks_read, "commands_given_up": self.given_up, "connections": self.connects,
            "crashes": self.crashes, "shutdowns": self.shutdowns, "faults": self.faults, "acts": self.acts, "virtual_seconds": self.virtual_ns as f64 / 1e9,
            "busy_seconds": self.busy_ns as f64 / 1e9, "times_real_time": self.times_real(), "unavailable": self.unavailable,
            "stale_values": self.stale, "stale_runs": self.stale_runs, "latency_max_ms": self.latency_max_ns as f64 / 1e6,
            "repeated": self.repeated, "marks": self.marks,
            "failures": self.failures.iter().map(|(s, w)| json!({"seed": s, "what": w})).collect::<Vec<_>>(),
        })
    }
}

struct Shared<'a> {
    options: &'a CampaignOptions,
    next: AtomicU64,
    stop: AtomicBool,
    began: Instant,
    sums: Mutex<Sums>,
    bar: ProgressBar,
}

/// Runs them.
pub fn campaign(options: &CampaignOptions) -> Sums {
    crate::history::keep_panics();
    let bar = match (options.progress, options.limit) {
        (false, _) => ProgressBar::hidden(),
        (true, None) => ProgressBar::new(options.seeds.end - options.seeds.start),
        (true, Some(limit)) => ProgressBar::new(limit.as_secs()),
    };
    bar.set_draw_target(if options.progress { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() });
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {msg}").expect("a fixed template");
    bar.set_style(style.progress_chars("=> "));
    let shared = Shared {
        options,
        next: AtomicU64::new(options.seeds.start),
        stop: AtomicBool::new(false),
        began: Instant::now(),
        sums: Mutex::default(),
        bar,
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| shared.work());
        }
    });
    shared.bar.finish_and_clear();
    shared.sums.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Shared<'_> {
    fn work(&self) {
        #[cfg(feature = "hooks")]
        base::hooks::seed_fault(self.options.fault.as_deref().and_then(base::hooks::SeededFault::named));
        loop {
            let late = self.options.limit.is_some_and(|limit| self.began.elapsed() >= limit);
            if late || self.stop.load(Ordering::Relaxed) {
                return;
            }
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.options.seeds.end {
                return;
            }
            self.play(seed);
        }
    }

    fn play(&self, seed: u64) {
        let began = Instant::now();
        let run = || if self.options.nodes { nodes::run::run(seed, false) } else { run(seed, &RunOptions::default()) };
        let result = run();
        let twice = self.options.twice_every > 0 && seed.is_multiple_of(self.options.twice_every);
        let result = match (result, twice) {
            (Ok(first), true) => match run() {
                Ok(second) if second.hash == first.hash => Ok(first),
                _ => Err(Failure { what: "two runs of the seed were not the same".into() }),
            },
            (result, _) => result,
        };
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.seeds += 1;
        sums.busy_ns += began.elapsed().as_nanos() as u64 / if twice { 2 } else { 1 };
        sums.repeated += u64::from(twice);
        match result {
            Ok(report) => sums.add(seed, self.options.nodes, &report),
            Err(failure) => {
                sums.failures.insert(seed, failure.what);
                if sums.failures.len() >= self.options.failures_max {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        self.bar.set_message(format!(
            "{} seeds, {} operations, {} crashes, {} failures, {:.0}x real time",
            sums.seeds,
            sums.operations(),
            sums.crashes,
            sums.failures.len(),
            sums.times_real()
        ));
        self.bar.set_position(match self.options.limit {
            Some(_) => self.began.elapsed().as_secs(),
            None => sums.seeds,
        });
    }
}

/// The command that plays a seed again.
pub fn replay_command(seed: u64, nodes: bool, cuts: &Cuts, fault: Option<&str>) -> String {
    let hooks = if cfg!(feature = "hooks") { " --features hooks" } else { "" };
    let mut command = format!("cargo run --release -p sim{hooks} -- replay {seed}{}", if nodes { " --nodes" } else { "" });
    if *cuts != Cuts::default() {
        command += &format!(" --cuts {cuts}");
    }
    if let Some(name) = fault {
        command += &format!(" --fault {name}");
    }
    command
}
