//! Runs: one case after the other, kept as they come, and what they say together.
//!
//! ```text
//! Config ──► plan::next(config, cases so far) ──► engine ──► case-NNN.json ──┐
//!                 ▲──────────────────────────────────────────────────────────┘      at the end: verdict
//! ```
//!
//! Owns: what a run is ([`Config`]), which case comes next ([`plan`]), keeping and going on, the [`verdict`].
//! Invariants: what comes next follows from the configuration and the cases that are kept, so an interrupted run goes on as if nothing had been;
//! a case is kept before the next one begins.
//! Never: measures by itself.

mod check;
mod config;
pub mod plan;
pub mod verdict;
mod watched;

pub use config::{Axis, Case, Config, Curve, Parameter, SECONDS_MAX};

use crate::engine::open::{self, Models, System};
use crate::engine::verify::Ledgers;
use crate::engine::{Engine, Job, Watch};
use crate::error::LabError;
use crate::measure::noise::{self, Noise};
use crate::report::text::percent;
use crate::results::folder::{CASES_MAX, Folder};
use crate::results::{Machine, Measured, Record, RunState, VERSION};
use crate::workload::generate::working_set_bytes;
use crate::workload::{Data, Workload};
use machine::Snapshot;
use std::path::Path;
use std::time::Duration;
use watched::Watched;

/// This part of a working set may hold zeroes only before reads of it are refused, 0 to 1.
const UNWRITTEN_MAX: f64 = 0.05;
/// How long the machine is looked at before the first case and after the last, in parts of a case's time, and at most.
const LOOK_SHARE: f64 = 0.25;
/// See [`LOOK_SHARE`].
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Whoever follows a run.
pub trait Follow: Watch {
    /// The folder is made.
    fn folder(&mut self, folder: &Folder);
    /// Case `number` (from 0) begins.
    fn case_begins(&mut self, number: usize, case: &Case, config: &Config);
    /// A case has been measured and kept.
    fn case_done(&mut self, number: usize, measured: &Measured);
}

/// Begins a run below `results`. `destroy`: what the disks hold may be lost. `models` opens what is modelled. `command` repeats it.
pub fn start(
    config: &Config,
    results: &Path,
    destroy: bool,
    models: &dyn Models,
    command: Vec<String>,
    follow: &mut dyn Follow,
) -> Result<Folder, LabError> {
    config.check()?;
    // What cannot be opened, or must not be written, is found out before a folder is made.
    let mut open = Open::new(destroy, config.seed, models);
    let mut never_written: Option<f64> = None;
    for system in &config.systems {
        let engine = open.get(system)?;
        config.workloads.iter().try_for_each(|w| engine.admit(w, config.prepare.is_some()))?;
        if let Some(share) = unwritten(config, engine)? {
            never_written = Some(never_written.map_or(share, |most| most.max(share)));
        }
    }
    let record = Record {
        version: VERSION,
        kind: config.kind,
        title: config.title.clone(),
        state: RunState::Running,
        command,
        basalt: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::this(),
        configuration: config.to_toml()?,
        verdict: Vec::new(),
        published: Vec::new(),
        source: String::new(),
        cases: plan::next(config, &[]).map_or(0, |c| c.of),
        unwritten: never_written,
        noise: Vec::new(),
        target_noise: Vec::new(),
    };
    let folder = Folder::create(results, &config.title, &record)?;
    follow.folder(&folder);
    go_on(config, &folder, record, open, follow)?;
    Ok(folder)
}

/// Bytes of all disks that a workload uses.
fn used_bytes(workload: &Workload, disks: &[(String, u64)]) -> u64 {
    disks.iter().map(|d| working_set_bytes(workload, d.1)).sum()
}

/// Refuses to read what nothing was written to, unless the user wants that; then, which part of it that is.
fn unwritten(config: &Config, engine: &mut dyn Engine) -> Result<Option<f64>, LabError> {
    let reads = |w: &&Workload| w.streams.iter().any(|s| s.reads > 0.0) || config.sweep.iter().any(|a| a.parameter == Parameter::Reads);
    if config.prepare.is_some() {
        return Ok(None);
    }
    let disks = engine.disks();
    let Some(largest) = config.workloads.iter().filter(reads).max_by_key(|w| used_bytes(w, &disks)) else { return Ok(None) };
    match engine.unwritten(largest)? {
        Some(share) if share > UNWRITTEN_MAX && config.unwritten => Ok(Some(share)),
        Some(share) if share > UNWRITTEN_MAX => {
            let disk = engine.disks().into_iter().map(|d| d.0).collect::<Vec<_>>().join(", ");
            let problem = format!(
                "{} of what would be read holds zeroes only: it was never written, and storage answers such reads without its drives. Add --prepare random (writes all of it first), or --unwritten to measure it as it is",
                percent(share)
            );
            Err(LabError::Disk { disk, problem })
        }
        _ => Ok(None),
    }
}

/// What a run is made of, as it was kept.
pub fn config(folder: &Folder) -> Result<Config, LabError> {
    toml::from_str(&folder.record()?.configuration).map_err(|e| LabError::Workload {
        place: folder.path().join("run.json").display().to_string(),
        problem: format!("the configuration of this run cannot be gone on with: {}", e.message()),
    })
}

/// Goes on with a run that was interrupted.
pub fn resume(folder: &Folder, destroy: bool, models: &dyn Models, follow: &mut dyn Follow) -> Result<(), LabError> {
    let (record, config) = (folder.record()?, config(folder)?);
    config.check()?;
    follow.folder(folder);
    go_on(&config, folder, record, Open::new(destroy, config.seed, models), follow)
}

/// The engine that is open, with the system it is for.
struct Open<'a> {
    destroy: bool,
    seed: u64,
    models: &'a dyn Models,
    /// What the disks hold: it outlives an engine.
    ledgers: Ledgers,
    now: Option<(System, Box<dyn Engine>)>,
}

impl<'a> Open<'a> {
    fn new(destroy: bool, seed: u64, models: &'a dyn Models) -> Open<'a> {
        Open { destroy, seed, models, ledgers: Ledgers::default(), now: None }
    }
    /// The engine of `system`: the one that is open, or a new one after that was closed.
    fn get(&mut self, system: &System) -> Result<&mut dyn Engine, LabError> {
        if self.now.as_ref().is_none_or(|(s, _)| s != system) {
            self.now = None;
            self.now = Some((system.clone(), system.open(self.destroy, self.seed, &self.ledgers, self.models)?));
        }
        let (_, engine) = self.now.as_mut().expect("just opened");
        Ok(engine.as_mut())
    }
}

fn go_on(config: &Config, folder: &Folder, mut record: Record, mut open: Open<'_>, follow: &mut dyn Follow) -> Result<(), LabError> {
    let mut cases = folder.cases()?;
    record.state = RunState::Running;
    folder.write_record(&record)?;
    look(config, follow, true, &mut record);
    let ended = all_cases(config, folder, &mut record, &mut cases, &mut open, follow);
    look(config, follow, false, &mut record);
    let done = plan::next(config, &cases).is_none();
    record.state = if done { RunState::Complete } else { RunState::Interrupted };
    record.verdict = verdict::of(config, &record, &cases);
    if let Err(e @ LabError::TooManyFailed { .. }) = &ended {
        record.verdict.insert(0, format!("The run was ended: {e}."));
    }
    folder.write_record(&record)?;
    ended
}

fn all_cases(
    config: &Config,
    folder: &Folder,
    record: &mut Record,
    cases: &mut Vec<Measured>,
    open: &mut Open<'_>,
    follow: &mut dyn Follow,
) -> Result<(), LabError> {
    let verify = config.workloads.iter().any(|w| w.verify);
    // What a process before this one wrote is not known any more: for it to be verified, it is written anew.
    if let Some(fill) = config.prepare
        && (cases.is_empty() || verify && plan::next(config, cases).is_some())
    {
        for system in &config.systems {
            let engine = open.get(system)?;
            let disks = engine.disks();
            // The largest working set holds the others.
            let largest = config.workloads.iter().max_by_key(|w| used_bytes(w, &disks)).cloned();
            let largest = largest.map(|w| Workload { verify, data: if verify { Data::default() } else { w.data }, ..w });
            largest.as_ref().map_or(Ok(()), |w| engine.prepare(w, fill, follow))?;
        }
    }
    while let Some(case) = plan::next(config, cases) {
        let number = cases.len();
        if number >= CASES_MAX {
            let problem = format!("a run has at most {CASES_MAX} cases");
            return Err(LabError::Results { path: folder.path().into(), problem });
        }
        if number > 0 {
            rest(config.cool_down_s, follow);
        }
        if follow.stopped() {
            return Err(LabError::Stopped);
        }
        record.cases = case.of;
        folder.write_record(record)?;
        follow.case_begins(number, &case, config);
        let engine = open.get(&case.setting)?;
        let (warm_up, measure) = (Duration::from_secs_f64(config.warm_up_s), Duration::from_secs_f64(config.measure_s));
        let job = Job { workload: case.workload.clone(), warm_up, measure, seed: config.seed.wrapping_add(number as u64) };
        let before = Snapshot::now().filter(|_| is_driven_here(&case.setting));
        let target_before = is_elsewhere(&case.setting).then(|| follow.target_machine()).flatten();
        let mut watched = Watched::new(follow);
        (watched.failures_max, watched.failed) = (config.errors_max, watched::failed(cases));
        watched.look_here_s = before.is_some().then_some(config.measure_s);
        watched.look_target_s = target_before.is_some().then_some(config.measure_s);
        let ran = engine.run(&job, &mut watched);
        let seen = (watched.here, watched.target);
        let too_many = watched.problem(match &ran {
            Ok(m) => watched::why(m),
            Err(LabError::Engine { problem, .. }) => Some(problem),
            Err(_) => None,
        });
        // With nothing measured an engine has only an error to give.
        let (mut measured, too_many) = match (ran, too_many) {
            (Err(LabError::Engine { .. } | LabError::Stopped), Some(too_many)) => return Err(too_many),
            (Ok(measured), too_many) => (measured, too_many),
            (Err(e), _) => return Err(e),
        };
        measured.labels = case.labels;
        measured.noise = before.and_then(|before| {
            let noise = Noise::between(&before, &Snapshot::now()?, &noise::known_here(follow.target_pid()));
            Some(Noise { with_target: is_here(&case.setting) && follow.target_pid().is_none(), ..noise.with_frequency(seen.0) })
        });
        let target_noise = target_before.and_then(|before| before.noise(&follow.target_machine()?));
        measured.target_noise = target_noise.map(|noise| noise.with_frequency(seen.1));
        let wrong = measured.verified.is_some_and(|v| v.wrong > 0).then(|| measured.notes.first().cloned().unwrap_or_default());
        if let Some(problem) = wrong {
            // That is an answer, and the one that matters: it stays, whatever comes after.
            folder.write_case(number, &measured)?;
            follow.case_done(number, &measured);
            cases.push(measured);
            return Err(LabError::WrongData { engine: engine.name(), problem });
        }
        if measured.cut_short {
            // Half a case answers nothing: it is kept beside the run, to be looked at, and done again when the run goes on.
            folder.write_partial(number, &measured)?;
            return Err(match (too_many, follow.stopped(), measured.notes.into_iter().next()) {
                (Some(too_many), ..) => too_many,
                (None, false, Some(problem)) => LabError::Engine { engine: engine.name(), problem },
                _ => LabError::Stopped,
            });
        }
        folder.write_case(number, &measured)?;
        follow.case_done(number, &measured);
        cases.push(measured);
        if let Some(too_many) = too_many.or_else(|| watched::of_cases(config.errors_max, cases)) {
            return Err(too_many);
        }
    }
    Ok(())
}

/// Whether a system's target may be a process of this machine.
fn is_here(system: &System) -> bool {
    system.disks.iter().any(|d| open::is_here(d))
}

/// Whether this machine puts the load on a system: neither a model, whose time is not the machine's, nor agents, which look at their own.
fn is_driven_here(system: &System) -> bool {
    system.simulate.is_none() && system.agents.is_empty()
}

/// Whether the machine of a system's target is another than the one that puts the load on it.
fn is_elsewhere(system: &System) -> bool {
    system.simulate.is_none() && !(is_driven_here(system) && is_here(system))
}

/// What the machines do while nothing is measured, where it is this one that measures, and where that of the target is another; kept in `record`.
fn look(config: &Config, follow: &mut dyn Follow, at_rest: bool, record: &mut Record) {
    let (here, elsewhere) = (config.systems.iter().any(is_driven_here), config.systems.iter().any(is_elsewhere));
    let target = elsewhere.then(|| follow.target_machine()).flatten();
    if !here && target.is_none() {
        return;
    }
    let before = Snapshot::now().filter(|_| here);
    std::thread::sleep(Duration::from_secs_f64(config.measure_s * LOOK_SHARE).min(LOOK_MAX));
    let with_target = config.systems.iter().any(is_here) && follow.target_pid().is_none();
    let noise = before.and_then(|b| Some(Noise::between(&b, &Snapshot::now()?, &noise::known_here(follow.target_pid()))));
    record.noise.extend(noise.map(|noise| Noise { with_target, at_rest, ..noise }));
    let noise = target.and_then(|before| before.noise(&follow.target_machine()?));
    record.target_noise.extend(noise.map(|noise| Noise { at_rest, ..noise }));
}

/// Waits between cases, unless the user wants it to end.
fn rest(seconds: f64, follow: &mut dyn Follow) {
    let end = std::time::Instant::now() + Duration::from_secs_f64(seconds);
    while std::time::Instant::now() < end && !follow.stopped() {
        std::thread::sleep(Duration::from_millis(50).min(end.saturating_duration_since(std::time::Instant::now())));
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
pub(crate) mod tests;
