//! `basalt lab`: from the command line to the lab, and from results to what is printed.
//!
//! Owns: arguments ([`args`]), what is seen while a run runs ([`follow`], [`live`]), asking the daemon ([`daemon`]), tables.
//! Never: measures or decides anything: that is for the crates `lab` and `studies`, which it brings together.

pub mod args;
mod case_name;
mod daemon;
mod follow;
mod live;

use crate::client::Failure;
use crate::output::{Output, Page};
use crate::table::Rows;
use args::{AgentArgs, CommonArgs, CompareArgs, EngineArg, LabCommand, Prepare, RunArgs, SpacingArg, StudyArgs, WorkingSet};
use case_name::case_name;
use daemon::Target;
use follow::Follower;
use lab::LabError;
use lab::agent::{key::AgentKey, serve::serve};
use lab::engine::Fill;
use lab::engine::open::{EngineKind, System};
use lab::report::figures::percentile_us;
use lab::results::folder::{self, Folder};
use lab::results::{Measured, RunKind, RunState, Verified};
use lab::run::{self, Config, Curve, verdict};
use lab::workload::profiles::{self, Profile, Search};
use lab::workload::{Arrivals, Spacing, Workload};
use serde_json::json;
use std::path::Path;
use studies::model::cluster::Cluster;
use studies::{ModelledClusters, study};

type Done = Result<(), Failure>;

/// Threads of an agent, unless something else is said.
const AGENT_WORKERS: usize = 4;

/// Does what the command line says.
pub fn run(command: LabCommand, api: &str, out: &Output) -> Done {
    match command {
        LabCommand::Run(args) => Bench { api, out }.single(&args, RunKind::Run, |_| {}),
        LabCommand::Soak(args) => Bench { api, out }.single(&args, RunKind::Soak, |_| {}),
        LabCommand::Curve(args) => {
            let spacing = match args.spacing {
                SpacingArg::Poisson => Some(Spacing::Poisson),
                SpacingArg::Fixed => Some(Spacing::Fixed),
                SpacingArg::Limited => None,
            };
            let curve = Curve { loads: args.loads, spacing, maximum_iops: args.maximum };
            Bench { api, out }.single(&args.run, RunKind::Curve, |config| config.curve = curve)
        }
        LabCommand::Search(args) => {
            let ms = |s: Option<f64>| s.map(|s| s * 1e3);
            let search = Search { iops_unit: args.unit, mean_ms_max: ms(args.mean), p99_ms_max: ms(args.p99) };
            Bench { api, out }.single(&args.run, RunKind::Run, |config| config.search = Some(search))
        }
        LabCommand::Sweep(args) => Bench { api, out }.single(&args.run, RunKind::Sweep, |config| config.sweep = args.over),
        LabCommand::Compare(args) => Bench { api, out }.compare(&args),
        LabCommand::Agent(args) => agent(&args),
        LabCommand::Resume { folder, destroy } => {
            let folder = Folder::open(&folder)?;
            let config = run::config(&folder)?;
            let target = config.systems.first().filter(|_| config.systems.len() == 1).and_then(|s| Target::measured(api, &s.disks));
            let mut follow = Follower::new(out.is_data(), target).live(&config.title);
            let ended = run::resume(&folder, destroy, &ModelledClusters, &mut follow);
            finish(&folder, ended, follow, out)
        }
        LabCommand::List { results } => list(&results, out),
        LabCommand::Show { folder } => show(&Folder::open(&folder)?, out),
        LabCommand::Report { folder, beside } => report(&folder, beside.as_deref(), out),
        LabCommand::Import { file, out: to } => import(&file, to.as_deref(), out),
        LabCommand::Study(args) => repeat(&args, out),
        LabCommand::Profiles { profile: None } => list_profiles(out),
        LabCommand::Profiles { profile: Some(name) } => {
            let profile = profiles::find(&name)?;
            match profiles::text(&name) {
                Some(text) if !out.is_data() => print!("{text}"),
                _ => out.print(&profile, |p| Page::new().name(&p.name).line(&p.description)),
            }
            Ok(())
        }
    }
}

/// The profile of that name, or one case of it, with what the command line changes.
fn workloads(name: &str, common: &CommonArgs) -> Result<Profile, Failure> {
    let mut profile = match name.split_once(':') {
        Some((profile, case)) if !Path::new(name).exists() => {
            let mut found = profiles::find(profile)?;
            let names: Vec<String> = found.workloads.iter().map(|w| w.name.clone()).collect();
            found.workloads.retain(|w| w.name == case);
            if found.workloads.is_empty() {
                let problem = format!("the profile has no case '{case}'; its cases are {}", names.join(", "));
                return Err(LabError::Workload { place: name.into(), problem }.into());
            }
            found
        }
        _ => profiles::find(name)?,
    };
    for w in &mut profile.workloads {
        w.depth = common.depth.unwrap_or(w.depth);
        (w.working_set, w.working_set_bytes) = match common.working_set {
            None => (w.working_set, w.working_set_bytes),
            Some(WorkingSet::Percent(percent)) => (percent / 100.0, None),
            Some(WorkingSet::Bytes(bytes)) => (1.0, Some(bytes)),
        };
        w.verify |= common.verify;
        if let Some(every) = common.flush_every {
            w.streams.iter_mut().filter(|s| s.reads + s.trims < 1.0).for_each(|s| s.flush_every = every);
        }
        if let Some(iops) = common.rate {
            let spacing = match w.arrivals {
                Arrivals::Open { spacing, .. } => spacing,
                _ => Spacing::default(),
            };
            w.arrivals = Arrivals::Open { iops, spacing };
        }
    }
    profile.check(name)?;
    Ok(profile)
}

fn config(kind: RunKind, profile: Profile, systems: Vec<System>, common: &CommonArgs) -> Config {
    Config {
        kind,
        title: common.title.clone().unwrap_or_else(|| profile.name.clone()),
        seed: common.seed,
        warm_up_s: common.warm_up,
        measure_s: common.time,
        cool_down_s: common.cool_down,
        unwritten: common.unwritten,
        errors_max: common.errors_max,
        prepare: common.prepare.map(|p| if p == Prepare::Zero { Fill::Zero } else { Fill::Random }),
        search: profile.search,
        curve: Curve::default(),
        sweep: Vec::new(),
        rounds: 0,
        systems,
        workloads: profile.workloads,
    }
}

fn system(name: &str, disks: &[String], engine: EngineArg, common: &CommonArgs) -> System {
    let system = System::of(disks.to_vec());
    let engine = match engine {
        EngineArg::Auto => EngineKind::Auto,
        EngineArg::Native => EngineKind::Native,
        EngineArg::NvmeTcp => EngineKind::NvmeTcp,
        EngineArg::Iscsi => EngineKind::Iscsi,
        EngineArg::Fio => EngineKind::Fio,
    };
    System {
        name: name.into(),
        engine,
        // An agent takes no more than it has processors.
        workers: common.workers.unwrap_or(if common.agents.is_empty() { system.workers } else { AGENT_WORKERS }),
        agents: common.agents.clone(),
        agent_key: common.agent_key.clone(),
        spin: common.spin,
        batch: common.batch,
        ..system
    }
}

/// Serves labs until it is killed.
fn agent(args: &AgentArgs) -> Done {
    let (key, made) = AgentKey::load_or_make(&args.key)?;
    let listening = std::net::TcpListener::bind(&args.listen).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listening
        .map_err(|e| Failure::Local(format!("{}: cannot listen there: {e}; name another with --listen ADDRESS:PORT", args.listen)))?;
    if made {
        eprintln!("{}: a new key; copy this file to the lab and to the other agents", args.key.display());
    }
    println!("listening on {address}");
    serve(&listener, &key, |line| eprintln!("{line}"))
}

/// What measuring commands share.
struct Bench<'a> {
    api: &'a str,
    out: &'a Output,
}

impl Bench<'_> {
    fn single(&self, args: &RunArgs, kind: RunKind, change: impl FnOnce(&mut Config)) -> Done {
        let profile = workloads(&args.profile, &args.common)?;
        let mut target = None;
        let system = match &args.simulate {
            Some(file) => System { simulate: Some(Cluster::load(file)?.to_table()), ..system("A", &[], args.engine, &args.common) },
            None if args.disks.is_empty() => {
                let (found, disks) = daemon::served(self.api)?;
                target = Some(found);
                system("A", &disks, args.engine, &args.common)
            }
            None => system("A", &args.disks, args.engine, &args.common),
        };
        let mut config = config(kind, profile, vec![system], &args.common);
        change(&mut config);
        // A daemon is asked for its figures when it is what is measured.
        let target = target.or_else(|| Target::measured(self.api, &config.systems[0].disks));
        self.measure(&config, &args.common, target)
    }

    fn compare(&self, args: &CompareArgs) -> Done {
        let profile = workloads(&args.profile, &args.common)?;
        let a = system(&args.name_a, &args.a, args.engine_a, &args.common);
        let b = system(&args.name_b, &args.b, args.engine_b, &args.common);
        let config = Config { rounds: args.rounds, search: None, ..config(RunKind::Compare, profile, vec![a, b], &args.common) };
        self.measure(&config, &args.common, None)
    }

    fn measure(&self, config: &Config, common: &CommonArgs, target: Option<Target>) -> Done {
        let mut follow = Follower::new(self.out.is_data(), target).live(&config.title);
        let command = std::env::args().collect();
        let ended = run::start(config, &common.results, common.destroy, &ModelledClusters, command, &mut follow);
        match follow.folder().cloned() {
            Some(folder) => finish(&folder, ended.map(drop), follow, self.out),
            None => ended.map(drop).map_err(Failure::from),
        }
    }
}

/// After a run, whether it came to its end or not.
fn finish(folder: &Folder, ended: Result<(), LabError>, follow: Follower, out: &Output) -> Done {
    drop(follow);
    if let Err(e) = ended {
        // What was found is to be seen in the report, too.
        if matches!(e, LabError::WrongData { .. } | LabError::TooManyFailed { .. }) {
            lab::report::write_all(folder.path())?;
            show(folder, out)?;
        }
        if !matches!(e, LabError::WrongData { .. }) && folder.cases().is_ok_and(|c| !c.is_empty()) {
            eprintln!("what was measured is kept; go on with: basalt lab resume {}", folder.path().display());
        }
        return Err(e.into());
    }
    lab::report::write_all(folder.path())?;
    show(folder, out)?;
    failed_operations(&folder.cases()?)
}

/// What was measured stands; but a script must see that some of it failed.
fn failed_operations(cases: &[Measured]) -> Done {
    let all = cases.iter().map(Measured::total).fold((0, 0), |sum, f| (sum.0 + f.errors, sum.1 + f.operations));
    match all {
        (0, _) => Ok(()),
        (failed, ended) => Err(LabError::Failed { failed, ended }.into()),
    }
}

fn report(folder: &Path, beside: Option<&Path>, out: &Output) -> Done {
    let files = lab::report::write_beside(folder, beside)?;
    out.print(&files, |files| {
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        names.iter().fold(Page::new(), Page::name).line(names.join("\n"))
    });
    Ok(())
}

fn import(file: &Path, to: Option<&Path>, out: &Output) -> Done {
    let imported = lab::import::file(file)?;
    for line in imported.remark_lines() {
        eprintln!("{line}");
    }
    let text = imported.to_toml()?;
    if let Some(out) = to {
        // Never over a file that is there.
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => LabError::Exists { path: out.into() },
            _ => LabError::Results { path: out.into(), problem: format!("cannot be made: {e}") },
        };
        let mut new = std::fs::File::create_new(out).map_err(failed)?;
        std::io::Write::write_all(&mut new, text.as_bytes()).map_err(failed)?;
    }
    match to {
        _ if out.is_data() => out.print(&imported, |_| Page::new()),
        Some(to) => {
            let (to, count) = (to.display(), imported.profile.workloads.len());
            out.done(format!("{to}: {count} workloads; run them with: basalt lab run {to} DISK..."));
        }
        None => print!("{text}"),
    }
    Ok(())
}

/// `--size` is a scale for a model and bytes on files.
fn study_options(args: &StudyArgs) -> Result<study::Options, LabError> {
    let wrong = |problem: String| LabError::Workload { place: "--size".into(), problem };
    let size = args.size.as_deref();
    let (real, scale) = match &args.real {
        Some(dir) => {
            let bytes = match size.map(|s| (s, s.parse::<base::ByteSize>())) {
                Some((_, Ok(bytes))) => bytes.0,
                Some((s, Err(e))) => return Err(wrong(format!("'{s}': {e}; with --real it is the bytes of a layout, such as 4GiB"))),
                None => study::namespaces_real::BYTES,
            };
            (Some(study::real::Real { dir: dir.clone(), bytes }), None)
        }
        None => {
            let scale = |s: &str| s.parse().map_err(|_| wrong(format!("'{s}': on modelled hardware it is a scale, a number from 1")));
            (None, size.map(scale).transpose()?)
        }
    };
    Ok(study::Options { real, nodes: args.nodes, rate: args.rate, size: scale, time: args.time, seed: args.seed })
}

/// Repeats a published study, or lists those there are.
fn repeat(args: &StudyArgs, out: &Output) -> Done {
    let Some(name) = &args.study else {
        let all: Vec<_> = study::ALL.iter().map(|s| json!({"name": s.name, "title": s.title, "source": s.source})).collect();
        out.print(&all, |_| {
            Rows::of(&study::ALL, "there is none").left("study", |s| s.name.into()).left("what it asks", |s| s.title.into()).into()
        });
        return Ok(());
    };
    let options = study_options(args)?;
    let mut follow = Follower::new(out.is_data(), None);
    let folder = study::start(study::find(name)?, &options, &args.results, std::env::args().collect(), &mut follow)?;
    finish(&folder, Ok(()), follow, out)
}

fn show(folder: &Folder, out: &Output) -> Done {
    let (record, cases) = (folder.record()?, folder.cases()?);
    let value = json!({"folder": folder.path(), "run": record, "cases": cases.iter().map(summary).collect::<Vec<_>>()});
    out.print(&value, |_| {
        let verdict = record.verdict.iter().map(|sentence| format!("\n  {sentence}")).collect::<String>();
        let page = Page::new().line(format!("{}{verdict}", record.title)).rows(measured(&cases));
        let report = folder.path().join("report.html");
        let report = if report.exists() { format!("\nreport   {}", report.display()) } else { String::new() };
        page.line(format!("\nresults  {}{report}", folder.path().display()))
    });
    Ok(())
}

fn measured(cases: &[Measured]) -> Rows<'_, Measured> {
    let time = |ns: f64| verdict::time(ns);
    let percentile = |m: &Measured, p: f64| verdict::percentile(&m.total().latency, p);
    let rows = Rows::of(cases, "no case has been measured")
        .left("case", |m| case_name(&m.workload.name, &m.labels))
        .right("iops", |m| verdict::number(m.iops()))
        .right("mib/s", |m| verdict::number(m.mib_s()))
        .right("mean", |m| time(m.total().latency.mean_ns()))
        .right("p50", |m| percentile(m, 50.0))
        .right("p99", |m| percentile(m, 99.0))
        .right("p99.9", |m| percentile(m, 99.9))
        .right("p99.99", |m| percentile(m, 99.99))
        .right("longest", |m| time(m.total().latency.max_ns() as f64))
        .right("errors", |m| m.total().errors.to_string())
        .right("client cores", |m| format!("{:.2}", m.client_cpu_s / m.measured_s.max(1e-9)));
    if cases.iter().any(|m| m.verified.is_some()) {
        return rows.right("blocks verified", |m| m.verified.map_or_else(|| "no".into(), verified_words));
    }
    rows
}

/// `1,234`, with what there is beside.
fn verified_words(v: Verified) -> String {
    let mut words = verdict::count(v.checked);
    if v.wrong > 0 {
        words += &format!(", {} WRONG", verdict::count(v.wrong));
    }
    if v.unknown > 0 {
        words += &format!(", {} unknown", verdict::count(v.unknown));
    }
    words
}

/// A case without its histograms and seconds.
fn summary(m: &Measured) -> serde_json::Value {
    let all = m.total();
    let us = |p: f64| percentile_us(&all.latency, p);
    json!({
        "labels": m.labels, "engine": m.engine, "workload": m.workload.name, "measured_s": m.measured_s, "iops": m.iops(), "mib_s": m.mib_s(),
        "reads": m.reads.operations, "writes": m.writes.operations, "trims": m.trims.operations, "flushes": m.flushes.operations, "errors": all.errors,
        "mean_us": all.latency.mean_ns() / 1e3, "p50_us": us(50.0), "p95_us": us(95.0), "p99_us": us(99.0), "p99_9_us": us(99.9),
        "p99_99_us": us(99.99), "max_us": all.latency.max_ns() as f64 / 1e3,
        "client_cores": m.client_cpu_s / m.measured_s.max(1e-9), "target_cores": m.target_cpu_s.map(|s| s / m.measured_s.max(1e-9)),
        "verified": m.verified, "carried": m.carried, "waiting": m.waiting, "noise": m.noise, "target_noise": m.target_noise,
        "notes": m.notes,
    })
}

fn list(results: &Path, out: &Output) -> Done {
    let all = folder::list(results)?;
    let value: Vec<_> = (all.iter())
        .map(|(p, r)| json!({"folder": p, "run": r.as_ref().ok(), "problem": r.as_ref().err().map(ToString::to_string)}))
        .collect();
    let state = |state: RunState| match state {
        RunState::Complete => "complete",
        RunState::Interrupted => "interrupted",
        RunState::Running => "running, or its process died",
    };
    out.print(&value, |_| {
        Rows::of(&all, format!("there are no runs in {}", results.display()))
            .left("folder", |(path, _)| path.display().to_string())
            .left("title", |(_, r)| r.as_ref().map_or(String::new(), |r| r.title.clone()))
            .left("kind", |(_, r)| r.as_ref().map_or(String::new(), |r| format!("{:?}", r.kind).to_lowercase()))
            .right("cases", |(_, r)| r.as_ref().map_or(String::new(), |r| r.cases.to_string()))
            .left("state", |(_, r)| r.as_ref().map_or_else(ToString::to_string, |r| state(r.state).into()))
            .into()
    });
    Ok(())
}

fn list_profiles(out: &Output) -> Done {
    let all: Vec<Profile> = profiles::names().map(profiles::find).collect::<Result<_, _>>()?;
    out.print(&all, |all| {
        let case = |p: &Profile, w: &Workload| format!("\n    {}:{}  {}, depth {}", p.name, w.name, w.description, w.depth);
        let text = |p: &Profile| {
            let cases = p.workloads.iter().map(|w| case(p, w)).collect::<String>();
            format!("{}\n  {}{cases}\n", p.name, p.description)
        };
        all.iter().fold(Page::new(), |page, p| page.name(&p.name).line(text(p)))
    });
    Ok(())
}
