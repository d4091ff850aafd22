//! One run: the lives of a host as planned, then a last one in which everything must be right.
//!
//! Owns: the order of things, and the checks at the end.
//! Invariant: a run ends, whatever its seed, by its limits in virtual time.
//! Never: prints.

use crate::faults::Class;
use crate::lab::Lab;
use crate::node_types::NodeStats;
use crate::plan::{Cuts, End, Life, Plan};
use crate::workload::{Counts, Workload};
use base::{Duration, Instant};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What the last life may take, in virtual time.
const LAST_MAX: Duration = Duration::from_secs(120);
/// How long the clients have nothing to do in the last life.
const IDLE: Duration = Duration::from_secs(3);
/// Operations that begin around an act of the operator at least.
const OPS_AT_AN_ACT: u64 = 150;
/// What an orderly shutdown may take.
const SHUTDOWN_MAX: Duration = Duration::from_secs(60);

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Of the clients.
    pub counts: Counts,
    /// Deaths of the host.
    pub crashes: u64,
    /// Orderly shutdowns.
    pub shutdowns: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Time that passed in the world, in nanoseconds.
    pub virtual_ns: u64,
    /// The trace of the world: equal runs have equal ones.
    pub hash: u64,
    /// The host could not be brought into service again; a class that damages data allows that.
    pub unavailable: bool,
    /// Marks that were passed, by name.
    pub marks: Vec<&'static str>,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was wrong, with the last events.
    pub what: String,
}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// What is left out.
    pub cuts: Cuts,
    /// The whole trace is reported when it fails.
    pub whole_trace: bool,
}

thread_local! {
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// From now on panics are kept for the report of their run, and not printed.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|info| PANIC.set(Some(info.to_string()))));
}

/// Plays a seed.
pub fn run(seed: u64, options: &RunOptions) -> Result<Report, Failure> {
    let plan = Rc::new(Plan::draw(seed).cut(&options.cuts));
    caught(plan.tiny, || play(&plan, options))
}

/// Plays a run: a panic is a failure, and every buffer must have been given back. `tiny`: limits are small.
pub(crate) fn caught(tiny: bool, play: impl FnOnce() -> Result<Report, Failure>) -> Result<Report, Failure> {
    let buffers = rt::buffers_outstanding();
    #[cfg(feature = "hooks")]
    {
        drop(base::hooks::take_coverage_marks());
        base::hooks::set_tiny(tiny);
        peers::forget_witnessed();
    }
    #[cfg(not(feature = "hooks"))]
    let _ = tiny;
    let result = catch_unwind(AssertUnwindSafe(play));
    let mut report = match result {
        Ok(done) => done?,
        Err(_) => {
            let text = PANIC.take().unwrap_or_else(|| "without a word".into());
            return Err(Failure { what: format!("the code panicked: {text}") });
        }
    };
    #[cfg(feature = "hooks")]
    {
        report.marks = base::hooks::take_coverage_marks().into_iter().map(|m| base::hooks::CoverageMark::ALL[m as usize].name()).collect();
    }
    report.marks.sort_unstable();
    let left = rt::buffers_outstanding();
    if left != buffers {
        return Err(Failure { what: format!("{} buffers were not given back", left.abs_diff(buffers)) });
    }
    Ok(report)
}

struct Run {
    lab: Lab,
    plan: Rc<Plan>,
    report: Report,
    /// Commands that were given up when the last life began.
    given_up_before_last: u64,
}

fn play(plan: &Rc<Plan>, options: &RunOptions) -> Result<Report, Failure> {
    let lab = Lab::new(plan).map_err(|e| Failure { what: format!("a healthy host could not be set up: {e}") })?;
    let mut run = Run { lab, plan: Rc::clone(plan), report: Report::default(), given_up_before_last: 0 };
    run.lab.workload.borrow_mut().trace.whole = options.whole_trace;
    let result = run.lives();
    let workload = run.lab.workload.borrow();
    run.report.counts = workload.counts.clone();
    run.report.virtual_ns = run.lab.now();
    run.report.hash = run.lab.world.trace_hash();
    match (&workload.wrong, result) {
        (Some(what), _) => Err(Failure { what: what.clone() }),
        (None, Err(what)) => Err(Failure { what: format!("{what}\nthe last events:\n{}", workload.trace.tell(None)) }),
        (None, Ok(())) => {
            drop(workload);
            Ok(run.report)
        }
    }
}

impl Run {
    fn workload<R>(&self, f: impl FnOnce(&mut Workload) -> R) -> R {
        f(&mut self.lab.workload.borrow_mut())
    }
    fn is_wrong(&self) -> bool {
        self.lab.workload.borrow().wrong.is_some()
    }
    /// Whether failures of commands, and of the start, may follow from what the plan did to the devices.
    fn damaged(&self) -> bool {
        self.plan.class >= Class::Damage
    }

    fn lives(&mut self) -> Result<(), String> {
        for at in 0..self.plan.lives.len() {
            let life = self.plan.lives[at].clone();
            self.live(&life)?;
            if self.is_wrong() {
                return Ok(());
            }
            if life.check && self.lab.doom().is_none() && self.lab.operator.is_serving() {
                self.lab.command(|o| o.check());
            }
            self.end(self.lab.doom().map_or(life.end, |_| End::Power))?;
            if self.is_wrong() {
                return Ok(());
            }
            self.workload(|g| g.errors_allowed = g.errors_allowed && g.plan.class >= Class::Damage);
            self.lab.start();
        }
        self.last()
    }

    /// One life until its end comes: the limit, or nothing is left to do.
    fn live(&mut self, life: &Life) -> Result<(), String> {
        let start = self.lab.world.now();
        let end = start + Duration::from_nanos(life.limit_ns);
        // Devices that are full, or many bytes on slow ones, delay writes for seconds.
        let undisturbed = self.plan.class == Class::Crash && self.plan.has_acts() && life.faults.is_empty();
        self.workload(|g| {
            g.ops_left = life.ops;
            g.undisturbed = undisturbed;
            if life.verify_first {
                g.verify_all();
            }
        });
        let mut faults = life.faults.clone();
        faults.sort_by_key(|t| t.at_ns);
        let mut faults = faults.into_iter().map(|t| (start + Duration::from_nanos(t.at_ns), t.fault)).peekable();
        let mut grow = life.grow_ns.map(|ns| start + Duration::from_nanos(ns));
        let mut scrub = life.scrub_ns.map(|ns| start + Duration::from_nanos(ns));
        let mut calm = life.calm.map(|(ns, ops)| (start + Duration::from_nanos(ns), ops));
        let mut acts = life.acts.iter().map(|(ns, act)| (start + Duration::from_nanos(*ns), *act)).peekable();
        self.lab.wake_clients();
        loop {
            let doom = self.lab.doom().map(|(at, _)| at);
            let end = doom.map_or(end, |at| at.min(end));
            let mut next: Instant = end;
            next = next
                .min(faults.peek().map_or(end, |f| f.0))
                .min(acts.peek().map_or(end, |a| a.0))
                .min(calm.map_or(end, |c| c.0))
                .min(grow.unwrap_or(end))
                .min(scrub.unwrap_or(end))
                .min(self.lab.next_heal().unwrap_or(end));
            let now = self.lab.world.now();
            if next > now {
                let over = acts.peek().is_none() && calm.is_none() && doom.is_none();
                let idle = self.lab.run(next.since(now), |operator, workload| {
                    over && operator.is_idle() && workload.nothing_left() && workload.in_flight() == 0
                });
                if self.is_wrong() {
                    return Ok(());
                }
                if idle && self.lab.doom().is_none() {
                    return if life.calm.is_some() { self.figures_of_calm() } else { Ok(()) };
                }
                if idle {
                    continue; // until its death comes
                }
            }
            if let Some(error) = self.lab.operator.refused() {
                let text = format!("the host could not be brought into service: {error}");
                if !self.damaged() && !self.workload(|g| g.errors_allowed) {
                    return Err(text);
                }
                let now = self.lab.now();
                self.workload(|g| g.note(now, text));
                return Ok(());
            }
            let now = self.lab.world.now();
            if now >= end {
                let stuck = life.calm.is_some() && doom.is_none() && self.workload(|g| g.is_stuck(now.0));
                return if stuck { Err("a life went on without its faults, and its commands were not done".into()) } else { Ok(()) };
            }
            self.lab.heal_due(false);
            if let Some((_, ops)) = calm.take_if(|c| c.0 <= now) {
                self.lab.calm(ops);
            }
            if grow.is_some_and(|at| at <= now) {
                grow = None;
                let volume = self.workload(|g| g.below(g.volumes.len() as u64)) as usize;
                self.lab.grow(volume, 64);
            }
            while let Some((_, act)) = acts.next_if(|a| a.0 <= now) {
                self.lab.operator.act(act);
                self.workload(|g| g.ops_left = g.ops_left.max(OPS_AT_AN_ACT));
                self.lab.wake_clients();
            }
            if scrub.is_some_and(|at| at <= now) {
                scrub = None;
                self.lab.operator.scrub();
            }
            while let Some((_, fault)) = faults.next_if(|f| f.0 <= now) {
                self.strike(&fault);
            }
        }
    }

    /// A life has gone on after its faults were over: no device has done anything wrong in it.
    fn figures_of_calm(&mut self) -> Result<(), String> {
        let stats = self.stats()?;
        let wrong = |s: &dataplane::ShardStats| {
            s.failed
                || s.checksum_errors + s.read_errors + s.log_write_errors + s.capacity_write_errors + s.damaged_pages > 0
                || !s.bad_blocks.is_empty()
        };
        let found = all_shards(&stats).find(|s| wrong(s)).map(|s| format!("a shard reports errors where no device has made any: {s:?}"));
        found.map_or(Ok(()), Err)
    }

    fn strike(&mut self, fault: &crate::faults::Fault) {
        *self.report.faults.entry(fault.name()).or_default() += 1;
        let now = self.lab.now();
        self.workload(|g| {
            g.note(now, format!("fault: {fault:?}"));
            g.strike(fault);
        });
        self.lab.strike(fault);
    }

    fn end(&mut self, end: End) -> Result<(), String> {
        if matches!(end, End::Shutdown | End::PowerInShutdown) && self.lab.operator.is_serving() {
            self.workload(|g| g.unsteady = true);
            self.lab.operator.shut_down();
            let limit = if end == End::Shutdown { SHUTDOWN_MAX } else { Duration::from_nanos(self.workload(|g| 1 + g.below(20_000_000))) };
            let stopped = self.lab.run(limit, |operator, _| operator.has_stopped() || operator.refused().is_some());
            if self.is_wrong() {
                return Ok(());
            }
            if let Some((at, _)) = self.lab.doom() {
                let now = self.lab.world.now();
                self.lab.run(at.since(now), |_, _| false);
                return self.end(End::Power);
            }
            if let (Some(error), false) = (self.lab.operator.refused(), self.damaged() || self.workload(|g| g.errors_allowed)) {
                return Err(format!("the host could not be shut down: {error}"));
            }
            if end == End::Shutdown && !stopped {
                return Err("the host did not shut down in time".into());
            }
            self.report.shutdowns += u64::from(end == End::Shutdown);
        }
        self.lab.look();
        self.report.crashes += u64::from(end != End::Shutdown);
        let power = match (end, self.lab.doom()) {
            (_, Some((_, power))) => power,
            (End::Power | End::PowerInShutdown, _) => true,
            (End::Kill, _) => false,
            // What was shut down in order needs neither process nor power any more.
            (End::Shutdown, _) => self.workload(|g| g.below(2) == 0),
        };
        self.lab.kill(power);
        Ok(())
    }

    /// No fault comes any more: all is read, scrubbed, emptied, and shut down.
    fn last(&mut self) -> Result<(), String> {
        self.lab.heal_due(true);
        self.given_up_before_last = self.workload(|g| g.counts.given_up);
        self.lab.clear_reservations();
        if self.plan.has_acts() {
            self.lab.settle();
        }
        self.workload(|g| {
            g.undisturbed = false;
            g.calm = true;
            g.ops_left = 0;
            g.verify_all();
        });
        self.lab.wake_clients();
        let done = self.lab.run(LAST_MAX, |operator, workload| {
            operator.refused().is_some() || operator.is_serving() && workload.nothing_left() && workload.in_flight() == 0
        });
        if self.is_wrong() {
            return Ok(());
        }
        if let Some(error) = self.lab.operator.refused() {
            self.report.unavailable = true;
            let text = format!("the host could not be brought into service, though its devices are well: {error}");
            return if self.damaged() { Ok(()) } else { Err(text) };
        }
        if !done {
            return Err("not everything could be read in the last life".into());
        }
        self.workload(|g| g.ops_left = 100);
        self.lab.wake_clients();
        if !self.lab.run(LAST_MAX, |_, workload| workload.nothing_left() && workload.in_flight() == 0) {
            return Err("commands of the last life were not answered".into());
        }
        if self.is_wrong() || self.damaged() {
            return Ok(());
        }
        // Idle clients are served on.
        self.lab.run(IDLE, |_, _| false);
        self.scrub()?;
        self.drain()?;
        self.workload(Workload::close);
        crate::exam::hold(&mut self.lab, &self.plan)?;
        if self.is_wrong() {
            return Ok(());
        }
        self.wait("space is not free after the examination", is_free)?;
        self.lab.command(|o| o.check());
        self.workload(|g| g.unsteady = true);
        self.end(End::Shutdown)?;
        self.lab.end_clients();
        self.lab.world.run_for(Duration::from_secs(1));
        match self.lab.world.open_connection_ends() {
            0 => Ok(()),
            n => Err(format!("{n} ends of connections are open after all programs have ended")),
        }
    }

    fn stats(&mut self) -> Result<NodeStats, String> {
        let stats = self.lab.command(|o| o.stats()).ok_or("there is no host")?;
        stats.map_err(|e| format!("no figures: {e}"))
    }

    /// Waits until the figures of all shards satisfy something.
    fn wait(&mut self, what: &str, mut good: impl FnMut(&NodeStats) -> bool) -> Result<(), String> {
        let mut stats = self.stats()?;
        for _ in 0..600 {
            if good(&stats) {
                return Ok(());
            }
            self.lab.run(Duration::from_millis(100), |_, _| false);
            stats = self.stats()?;
        }
        let shards: Vec<_> = stats.cores.iter().flat_map(|c| &c.shards).map(|s| format!("{:?}", s.stats)).collect();
        Err(format!("{what}; the shards:\n{}", shards.join("\n")))
    }

    /// What the host reports of the last life must be what its clients saw, if none of them lost a command.
    fn check_counts(&self, stats: &NodeStats) {
        if self.workload(|g| g.counts.given_up) == self.given_up_before_last {
            self.workload(|g| g.check_counts(stats));
        }
    }

    fn scrub(&mut self) -> Result<(), String> {
        let stats = self.stats()?;
        self.check_counts(&stats);
        let group = stats.groups[0].info.group;
        if let Some(Err(error)) = self.lab.command(|o| o.scrub(group)) {
            return Err(format!("a scrub could not be begun: {error}"));
        }
        self.wait("the scrub did not come to its end", |s| all_shards(s).all(|s| s.scrub_passes > 0))?;
        let bad: u64 = all_shards(&self.stats()?).map(|s| s.checksum_errors + s.bad_blocks.len() as u64).sum();
        if bad > 0 { Err(format!("the scrub found {bad} bad blocks")) } else { Ok(()) }
    }

    /// All volumes are trimmed: then all space must be free.
    fn drain(&mut self) -> Result<(), String> {
        self.workload(|g| g.trim_all());
        self.lab.wake_clients();
        if !self.lab.run(LAST_MAX, |_, workload| workload.nothing_left() && workload.in_flight() == 0) {
            return Err("the volumes could not be trimmed".into());
        }
        self.wait("space is not free though all was trimmed", is_free)
    }
}

fn is_free(stats: &NodeStats) -> bool {
    all_shards(stats).all(|s| s.chunks_allocated == 0 && s.log_live_bytes == 0 && s.component_chunks.iter().all(|(_, n)| *n == 0))
}

fn all_shards(stats: &NodeStats) -> impl Iterator<Item = &dataplane::ShardStats> {
    stats.cores.iter().flat_map(|c| &c.shards).map(|s| &s.stats)
}
