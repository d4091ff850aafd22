//! basalt-sim: plays seeds, plays one again, makes a failing one small, and checks that seeded faults are found.
//!
//! Exit codes: 0 all was right; 1 something was wrong; 2 it could not be begun.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use sim::campaign::{CampaignOptions, Sums, campaign, replay_command};
use sim::history::{RunOptions, run};
use sim::minimise::minimise;
use sim::nodes::plan::NodesPlan;
use sim::plan::{Cuts, Plan};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Failures of a campaign that are reported in full.
const PRINTED_MAX: usize = 3;
/// The seed that found each seeded fault last time, `BUG SEED` on a line.
#[cfg(feature = "hooks")]
const KNOWN_SEEDS: &str = include_str!("../seeded_faults.txt");
/// The same, of worlds of several nodes.
#[cfg(feature = "hooks")]
const KNOWN_SEEDS_OF_NODES: &str = include_str!("../seeded_faults_nodes.txt");
/// Seeds that were wrong once.
const OLD_SEEDS: &str = include_str!("../seeds.txt");
/// The same, of worlds of several nodes.
const OLD_SEEDS_OF_NODES: &str = include_str!("../seeds_nodes.txt");

#[derive(Parser)]
#[command(name = "basalt-sim", version, about = "A Basalt node in virtual time: clients, faults, crashes, and checks of every answer", after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  basalt-sim run                        400 seeds and the old failing ones
  basalt-sim run --seeds 0..50000       as many as you like
  basalt-sim run --nodes                worlds of 2 to 7 nodes
  basalt-sim soak --minutes 60          new seeds on all cores for an hour
  basalt-sim replay 4711 --trace        one seed, with everything that happened
  basalt-sim minimise 4711              what does the failure need?
  basalt-sim seeded-faults --seeds 1000        with --features hooks: is each seeded fault found?";

#[derive(Subcommand)]
enum Command {
    /// Play a range of seeds, and those that failed once.
    Run {
        /// Which: FIRST..END.
        #[arg(long, default_value = "0..400", value_parser = parse_range)]
        seeds: Range<u64>,
        /// Every so many seeds one is played twice and compared; 0 for never.
        #[arg(long, default_value_t = 16)]
        twice_every: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Play new seeds for a while.
    Soak {
        /// For how long.
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1_000_000)]
        from: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Play one seed and tell all of it.
    Replay {
        /// The seed.
        seed: u64,
        /// Of several nodes.
        #[arg(long)]
        nodes: bool,
        /// What is left out, as `minimise` says it.
        #[arg(long, default_value = "", hide_default_value = true)]
        cuts: Cuts,
        /// Tell the whole trace when it fails.
        #[arg(long)]
        trace: bool,
        /// Seed a fault (needs the feature `hooks`).
        #[arg(long)]
        fault: Option<String>,
    },
    /// Leave out of a failing seed what it does not need.
    Minimise {
        /// The seed.
        seed: u64,
        /// Seed a fault (needs the feature `hooks`).
        #[arg(long)]
        fault: Option<String>,
    },
    /// Say what a seed means.
    Plan {
        /// The seed.
        seed: u64,
    },
    /// Seed each fault and count the seeds until it is found (needs the feature `hooks`).
    SeededFaults {
        /// Each must be found within so many.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// Only those that seeded_faults.txt knows a seed for, and that seed first: seconds instead of minutes.
        #[arg(long)]
        quick: bool,
        /// Only those whose name contains this.
        #[arg(long, default_value = "", hide_default_value = true)]
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(clap::Args)]
struct Common {
    /// Worlds of several nodes.
    #[arg(long)]
    nodes: bool,
    /// Threads; 0 for one a processor.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Write the figures there.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Show no progress bar.
    #[arg(long)]
    quiet: bool,
}

impl Common {
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parts = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match parts {
        Some((first, end)) if first < end => Ok(first..end),
        _ => Err(format!("'{text}' is not FIRST..END")),
    }
}

fn main() -> ExitCode {
    match perform(Args::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("basalt-sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn perform(command: Command) -> Result<bool> {
    match command {
        Command::Run { seeds, twice_every, common } => {
            let mut sums = play(&common, seeds, None, twice_every);
            for seed in old_seeds(common.nodes)? {
                let played = if common.nodes { sim::nodes::run::run(seed, false) } else { run(seed, &RunOptions::default()) };
                if let Err(failure) = played {
                    sums.failures.insert(seed, failure.what);
                }
            }
            finish(&sums, &common)
        }
        Command::Soak { minutes, from, common } => {
            let sums = play(&common, from..u64::MAX, Some(Duration::from_secs(minutes * 60)), 64);
            finish(&sums, &common)
        }
        Command::Replay { seed, nodes, cuts, trace, fault } => {
            seed_fault(fault.as_deref())?;
            let result = if nodes {
                println!("{:#?}", NodesPlan::draw(seed));
                sim::nodes::run::run(seed, trace)
            } else {
                print!("{}", Plan::draw(seed).cut(&cuts));
                run(seed, &RunOptions { cuts, whole_trace: trace })
            };
            match result {
                Ok(report) => {
                    println!("{report:#?}");
                    Ok(true)
                }
                Err(failure) => {
                    println!("seed {seed} failed: {}", failure.what);
                    Ok(false)
                }
            }
        }
        Command::Minimise { seed, fault } => {
            seed_fault(fault.as_deref())?;
            sim::history::keep_panics();
            let Some((cuts, failure)) = minimise(seed, |cuts| eprintln!("still fails with {cuts}")) else {
                bail!("seed {seed} does not fail");
            };
            print!("{}", Plan::draw(seed).cut(&cuts));
            println!("seed {seed} failed: {}\nagain with: {}", failure.what, replay_command(seed, false, &cuts, fault.as_deref()));
            Ok(false)
        }
        Command::Plan { seed } => {
            print!("{}", Plan::draw(seed));
            Ok(true)
        }
        Command::SeededFaults { seeds, quick, name, common } => seeded_faults(seeds, quick, &name, &common),
    }
}

fn play(common: &Common, seeds: Range<u64>, limit: Option<Duration>, twice_every: u64) -> Sums {
    campaign(&CampaignOptions {
        seeds,
        limit,
        nodes: common.nodes,
        threads: common.threads(),
        twice_every,
        failures_max: 20,
        fault: None,
        progress: !common.quiet,
    })
}

fn old_seeds(nodes: bool) -> Result<Vec<u64>> {
    let seeds = if nodes { OLD_SEEDS_OF_NODES } else { OLD_SEEDS };
    let seeds = seeds.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|s| !s.is_empty());
    seeds.map(|s| s.parse().with_context(|| format!("seeds: '{s}' is not a seed"))).collect()
}

#[cfg(feature = "hooks")]
fn seed_fault(name: Option<&str>) -> Result<()> {
    let bug = name.map(|n| base::hooks::SeededFault::named(n).with_context(|| format!("there is no seeded fault '{n}'"))).transpose()?;
    base::hooks::seed_fault(bug);
    Ok(())
}
#[cfg(not(feature = "hooks"))]
fn seed_fault(name: Option<&str>) -> Result<()> {
    if name.is_some() {
        bail!("faults can be seeded only with: cargo run --release -p sim --features hooks");
    }
    Ok(())
}

#[cfg(feature = "hooks")]
fn seeded_faults(seeds: u64, quick: bool, name: &str, common: &Common) -> Result<bool> {
    use base::hooks::SeededFault;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let known: std::collections::BTreeMap<&str, u64> = if common.nodes { KNOWN_SEEDS_OF_NODES } else { KNOWN_SEEDS }
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(bug, seed)| Some((bug, seed.trim().parse().ok()?)))
        .collect();
    let wanted =
        |fault: &SeededFault| fault.name().to_lowercase().contains(&name.to_lowercase()) && (!quick || known.contains_key(fault.name()));
    let faults: Vec<SeededFault> = SeededFault::ALL.iter().copied().filter(wanted).collect();
    // Single seeds are played side by side, ranges of seeds one fault after the other.
    let (workers, threads) = if quick { (common.threads(), 1) } else { (1, common.threads()) };
    let (next, (to, from)) = (AtomicUsize::new(0), std::sync::mpsc::channel());
    let (mut missed, mut found) = (0, serde_json::Map::new());
    println!("{:<28} {:>6}  what it is", "seeded fault", "seeds");
    std::thread::scope(|scope| {
        for to in vec![to; workers] {
            let (next, faults, known) = (&next, &faults, &known);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = faults.get(at) else { return };
                    let hint =
                        known.get(fault.name()).filter(|_| quick).and_then(|seed| find_fault(*fault, *seed..seed + 1, threads, common));
                    let first = hint.or_else(|| find_fault(*fault, 0..seeds, threads, common));
                    to.send((at, first)).expect("who prints waits for all");
                }
            });
        }
        let mut ended = std::collections::BTreeMap::new();
        for (at, first) in from {
            ended.insert(at, first);
            while let Some(first) = ended.remove(&found.len()) {
                let fault = faults[found.len()];
                let seeds = first.map_or("none".into(), |seed| (seed + 1).to_string());
                println!("{:<28} {seeds:>6}  {}", fault.name(), fault.text());
                missed += usize::from(first.is_none());
                found.insert(fault.name().into(), serde_json::json!(first.map(|s| s + 1)));
            }
        }
    });
    println!("{} of {} seeded faults were found within {seeds} seeds", found.len() - missed, found.len());
    write_json(common, &found.into())?;
    Ok(missed == 0)
}

/// The first of these seeds that fails with the fault, and not without it.
#[cfg(feature = "hooks")]
fn find_fault(fault: base::hooks::SeededFault, seeds: Range<u64>, threads: usize, common: &Common) -> Option<u64> {
    let campaign_of = |seeds, fault| CampaignOptions {
        seeds,
        limit: None,
        nodes: common.nodes,
        threads,
        twice_every: 0,
        failures_max: 1,
        fault,
        progress: !common.quiet,
    };
    let mut from = seeds.start;
    while from < seeds.end {
        let seed = campaign(&campaign_of(from..seeds.end, Some(fault.name().into()))).failures.into_keys().next()?;
        if campaign(&campaign_of(seed..seed + 1, None)).failures.is_empty() {
            return Some(seed);
        }
        from = seed + 1;
    }
    None
}

#[cfg(not(feature = "hooks"))]
fn seeded_faults(_: u64, _: bool, _: &str, _: &Common) -> Result<bool> {
    seed_fault(Some("any")).map(|()| false)
}

fn write_json(common: &Common, value: &serde_json::Value) -> Result<()> {
    let Some(path) = &common.json else { return Ok(()) };
    let text = serde_json::to_string_pretty(value)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Tells a campaign; whether all was right.
fn finish(sums: &Sums, common: &Common) -> Result<bool> {
    write_json(common, &sums.to_json())?;
    for (seed, what) in sums.failures.iter().take(PRINTED_MAX) {
        println!(
            "seed {seed} failed: {what}\nagain with: {}\n{}",
            replay_command(*seed, common.nodes, &Cuts::default(), None),
            if common.nodes { String::new() } else { format!("smaller with: basalt-sim minimise {seed}\n") }
        );
    }
    let list = |all: &mut dyn Iterator<Item = (String, u64)>| all.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ");
    println!("seeds        {} ({}), {} of them twice", sums.seeds, list(&mut sums.classes.clone().into_iter()), sums.repeated);
    println!("operations   {} ({})", sums.operations(), list(&mut sums.ops.iter().map(|(k, n)| (k.name(), *n))));
    println!("checked      {} blocks; the longest answer took {:.1} ms", sums.blocks_read, sums.latency_max_ns as f64 / 1e6);
    println!("refused      {}", list(&mut sums.statuses.clone().into_iter()));
    println!(
        "crashes      {}, {} orderly shutdowns, {} connections made, {} commands lost with one",
        sums.crashes, sums.shutdowns, sums.connects, sums.given_up
    );
    println!("faults       {}", list(&mut sums.faults.clone().into_iter()));
    println!("acts         {}", list(&mut sums.acts.clone().into_iter()));
    println!(
        "beyond       {} hosts out of service for good, {} runs with old data of {} whose devices lied",
        sums.unavailable,
        sums.stale_runs,
        sums.classes.get("Lies").unwrap_or(&0)
    );
    println!("virtual time {:.0} s, {:.1} times real time on each thread", sums.virtual_ns as f64 / 1e9, sums.times_real());
    print_coverage_marks(sums);
    for seed in sums.failures.keys() {
        println!("FAILED: seed {seed}");
    }
    println!("{} seeds right, {} wrong", sums.seeds - sums.failures.len().min(sums.seeds as usize) as u64, sums.failures.len());
    Ok(sums.failures.is_empty())
}

#[cfg(feature = "hooks")]
fn print_coverage_marks(sums: &Sums) {
    use base::hooks::CoverageMark;
    let never: Vec<_> = CoverageMark::ALL.iter().filter(|m| !sums.marks.contains_key(m.name())).collect();
    println!("marks        {} of {} rare branches taken", CoverageMark::ALL.len() - never.len(), CoverageMark::ALL.len());
    for mark in never {
        println!("  never taken: {}: {}", mark.name(), mark.text());
    }
}
#[cfg(not(feature = "hooks"))]
fn print_coverage_marks(_: &Sums) {}
