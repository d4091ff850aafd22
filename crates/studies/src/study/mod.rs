//! The published studies, repeated: on modelled hardware, or on files of this machine.
//!
//! Owns: what each study runs, the published figures beside it, and the sentences that say what came out.
//! Invariants: the sentences follow from the figures of the cases, whatever they are; published figures are never changed, and what does not agree
//! with itself in them is said.
//! Never: fits a model so that a study comes out right.

pub mod cache_tier;
mod cache_tier_model;
pub mod fixture;
mod follow;
mod labels;
pub mod namespaces;
pub mod namespaces_real;
pub mod one_drive;
mod options;
pub mod real;
mod rounds;
pub mod transport;
mod transport_model;

pub use follow::Follow;
pub use labels::label;
pub use options::Options;

use lab::LabError;
use lab::engine::Watch;
use lab::measure::Second;
use lab::measure::noise::{Noise, known_here};
use lab::report::analysis::Analysis;
use lab::report::load::Loaded;
use lab::report::text::percent;
use lab::results::folder::Folder;
use lab::results::{Machine, Measured, Published, Record, RunKind, RunState, VERSION};
use machine::Snapshot;
use std::path::Path;

/// A study that can be asked for.
pub struct Study {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// What it asks.
    pub title: &'static str,
    /// Where the figures beside ours were published.
    pub source: &'static str,
    run: fn(&Options, &mut dyn Follow) -> Result<Vec<Measured>, LabError>,
    verdict: fn(&[Measured]) -> Vec<String>,
    figures: fn() -> Vec<Published>,
    /// So many nodes it can model, beside what it models usually.
    nodes: Option<usize>,
    /// On files of this machine, where that shows something.
    real: Option<OnFiles>,
}

/// What came out, in words.
type Sentences = Result<Vec<String>, LabError>;

/// A study on files.
struct OnFiles {
    /// Whether it can be run there. Makes nothing.
    admit: fn(&real::Real) -> Result<(), LabError>,
    /// Gives its sentences.
    run: fn(&real::Real, &Options, &mut dyn Follow) -> Sentences,
}

/// All of them.
pub const ALL: [Study; 4] = [
    Study {
        name: "cache-tier",
        title: "What the cache drive does: NAND and Optane write buffers, 70/30 32 KiB random",
        source: "A published comparison of NAND and Optane cache drives in a four-host vSAN cluster (HCIBench, vdbench curve)",
        run: cache_tier::run,
        verdict: cache_tier::verdict,
        figures: cache_tier::figures,
        nodes: Some(cache_tier_model::NODES),
        real: None,
    },
    Study {
        name: "namespaces",
        title: "Namespaces under a virtual SAN: a KIOXIA CM6 as 1+1, 1+4 and 1+7, and as one to five groups",
        source: "A published test of KIOXIA CM6 namespaces in a three-host vSAN 7.0 U1 cluster (HCIBench)",
        run: namespaces::run,
        verdict: namespaces::verdict,
        figures: namespaces::figures,
        nodes: None,
        real: Some(OnFiles { admit: namespaces_real::admit, run: namespaces_real::run }),
    },
    Study {
        name: "one-drive",
        title: "One drive as up to 24 devices: a Micron 9300 as one to three groups",
        source: "A published test of Micron 9300 drives cut into 24 namespaces, two and four hosts",
        run: one_drive::run,
        verdict: one_drive::verdict,
        figures: one_drive::figures,
        nodes: None,
        real: None,
    },
    Study {
        name: "transport",
        title: "NVMe/TCP beside iSCSI on the same volumes: 4 KiB random and 64 KiB sequential reads, two OLTP-like loads",
        source: "A published comparison of NVMe over RoCE with iSCSI, two hosts and an all-flash array (vdbench)",
        run: transport::run,
        verdict: transport::verdict,
        figures: transport::figures,
        nodes: None,
        real: Some(OnFiles { admit: transport::admit, run: transport::on_files }),
    },
];

/// One by its name.
pub fn find(name: &str) -> Result<&'static Study, LabError> {
    let names = ALL.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
    let problem = format!("there is no such study; there are {names}");
    ALL.iter().find(|s| s.name == name).ok_or(LabError::Workload { place: name.into(), problem })
}

/// Runs a study and keeps it in a folder below `results`. `command` repeats it.
pub fn start(study: &Study, options: &Options, results: &Path, command: Vec<String>, follow: &mut dyn Follow) -> Result<Folder, LabError> {
    options.check()?;
    let run = study.runner(options)?;
    let mut record = Record {
        version: VERSION,
        kind: RunKind::Study,
        title: study.title.into(),
        state: RunState::Running,
        command,
        basalt: env!("CARGO_PKG_VERSION").into(),
        machine: Machine::this(),
        configuration: options.to_toml(study.name),
        verdict: Vec::new(),
        published: (study.figures)(),
        source: study.source.into(),
        cases: 0,
        noise: Vec::new(),
        target_noise: Vec::new(),
        unwritten: None,
    };
    let folder = Folder::create(results, study.name, &record)?;
    follow.folder(&folder);
    let mut keeper = Keeper { folder: &folder, follow, kept: 0, real: options.real.is_some() };
    // Models have a time of their own; files have that of the machine.
    let before = Snapshot::now().filter(|_| options.real.is_some());
    let ended = run(&mut keeper);
    let noise = before.and_then(|before| Some(Noise::between(&before, &Snapshot::now()?, &known_here(None))));
    record.cases = keeper.kept;
    match ended {
        Ok(verdict) => {
            record.state = RunState::Complete;
            record.noise.extend(noise);
            // What makes the rest doubtful comes before it.
            let cases = folder.cases()?.into_iter().enumerate().collect();
            record.verdict = short(options).into_iter().collect();
            record.verdict.extend(Analysis::new(&Loaded { record: Record { verdict: Vec::new(), ..record.clone() }, cases }).warnings);
            record.verdict.extend(verdict);
            folder.write_record(&record)?;
            Ok(folder)
        }
        Err(error) => {
            record.state = RunState::Interrupted;
            record.verdict = vec![format!("The study did not come to its end: {error}. Begin it again; a study is not gone on with.")];
            folder.write_record(&record)?;
            Err(error)
        }
    }
}

/// What is said of a study that did not have its time.
fn short(options: &Options) -> Option<String> {
    (options.time < 1.0).then(|| {
        format!(
            "Short: each case had {} of the study's own time, so buffers may not have come to their level. This is a first look: what it says of sustained loads can be the other way round in the whole study.",
            percent(options.time)
        )
    })
}

impl Study {
    /// Runs it on what the options say, and gives its sentences.
    fn runner<'a>(&'a self, options: &'a Options) -> Result<Runner<'a>, LabError> {
        if options.nodes.is_some() && options.nodes != self.nodes {
            let there = |s: &Study| Some(format!("{} with {}", s.name, s.nodes?));
            let there = ALL.iter().filter_map(there).collect::<Vec<_>>().join(", ");
            let problem = format!("it has no model of so many nodes: leave --nodes out (studies with it: {there})");
            return Err(LabError::Workload { place: self.name.into(), problem });
        }
        match (&options.real, &self.real) {
            (None, _) => Ok(Box::new(|follow| Ok((self.verdict)(&(self.run)(options, follow)?)))),
            (Some(real), Some(on_files)) => {
                (on_files.admit)(real)?;
                Ok(Box::new(|follow| (on_files.run)(real, options, follow)))
            }
            (Some(_), None) => {
                let there = ALL.iter().filter(|s| s.real.is_some()).map(|s| s.name).collect::<Vec<_>>().join(", ");
                let problem = format!(
                    "this study compares drives that are modelled, so files of this machine show nothing of it: leave --real out (studies with it: {there})"
                );
                Err(LabError::Workload { place: self.name.into(), problem })
            }
        }
    }
}

type Runner<'a> = Box<dyn FnOnce(&mut dyn Follow) -> Sentences + 'a>;

/// Keeps each case as it comes.
struct Keeper<'a> {
    folder: &'a Folder,
    follow: &'a mut dyn Follow,
    kept: usize,
    /// Seconds are seconds: whoever follows may see them pass.
    real: bool,
}

impl Watch for Keeper<'_> {
    fn second(&mut self, second: &Second) {
        if self.real {
            self.follow.second(second);
        }
    }
    fn progress(&mut self, what: &str, done: u64, all: u64) {
        if self.real {
            self.follow.progress(what, done, all);
        }
    }
    fn stopped(&self) -> bool {
        self.follow.stopped()
    }
}

impl Follow for Keeper<'_> {
    fn folder(&mut self, _: &Folder) {}
    fn begins(&mut self, what: &str) {
        self.follow.begins(what);
    }
    fn case(&mut self, measured: &Measured) -> Result<(), LabError> {
        self.folder.write_case(self.kept, measured)?;
        self.kept += 1;
        self.follow.case(measured)?;
        if self.follow.stopped() { Err(LabError::Stopped) } else { Ok(()) }
    }
}
