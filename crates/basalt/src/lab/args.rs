//! The command line of the lab.
//!
//! Invariant: each command has examples that parse; times and sizes are read as people write them.

use clap::{Args, Subcommand, ValueEnum};
use lab::run::Parameter;
use std::path::PathBuf;

/// Where results go unless said otherwise.
pub const RESULTS: &str = "lab-results";

/// Where runs go if nothing else is said. The variable is read here: clap would show an option that has one as if it had to be given.
fn results_folder() -> PathBuf {
    std::env::var_os("BASALT_LAB_RESULTS").filter(|folder| !folder.is_empty()).map_or_else(|| RESULTS.into(), PathBuf::from)
}

#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Run a profile, a case of it, or a workload of your own
    #[command(after_help = "Examples:
  basalt lab run easy-run                               # what the daemon here serves
  basalt lab run easy-run disk.img:10GiB --time 60s
  basalt lab run four-corners:4k-random-read /dev/nvme1n1
  basalt lab run my-load.toml /dev/nvme1n1 /dev/nvme2n1 --prepare random --destroy

A disk is a block device, a file, PATH:SIZE for a file to be made, or one on the network:
nvme-tcp://HOST:4420/NQN?nsid=1, iscsi://HOST:3260/IQN/LUN. What holds data is not written without --destroy. Ctrl-C ends a run; 'basalt lab resume' goes on with it.")]
    Run(RunArgs),
    /// Find the maximum in a steady state, then measure shares of it
    #[command(after_help = "Examples:
  basalt lab curve mixed-70-30-32k /dev/nvme1n1 --time 60s --destroy
  basalt lab curve oltp-90-10:8k-90-10 disk.img:10GiB --loads 20,40,60,80,90,100 --spacing limited
  basalt lab curve mixed-70-30-32k disk.img:10GiB --maximum 5000

The maximum is measured in a closed loop, window after window of --time, until three of them differ by
at most 5 %. The shares come in an open loop: latency counts from when an operation should have come.")]
    Curve(CurveArgs),
    /// Find the highest load that keeps a bound on latency
    #[command(after_help = "Examples:
  basalt lab search random-8k /dev/nvme1n1 --p99 5ms --time 30s --destroy
  basalt lab search easy-run:4k-70-30 disk.img:10GiB --p99 2ms --mean 1ms --unit 100 --prepare random

A closed loop finds the ceiling. Then loads below it are halved until the highest is known within 2 %. Loads come in an
open loop, at random times; latency counts from when an operation should have come.")]
    Search(SearchArgs),
    /// Measure every combination of parameters
    #[command(after_help = "Examples:
  basalt lab sweep four-corners:4k-random-read /dev/nvme1n1 --over depth=1,2,4,8,16,32
  basalt lab sweep random-8k disk.img:10GiB --over bytes=4KiB,64KiB --over reads=0,50,100")]
    Sweep(SweepArgs),
    /// Measure two systems in alternation and say whether their difference is real
    #[command(after_help = "Examples:
  basalt lab compare random-8k --a /dev/nvme1n1 --b /dev/nvme2n1 --rounds 6 --destroy
  basalt lab compare iometer --a disk.img:4GiB --b disk.img --engine-b fio --name-a basalt --name-b fio")]
    Compare(CompareArgs),
    /// Run a sustained workload
    #[command(after_help = "Examples:
  basalt lab soak easy-run:4k-70-30 /dev/nvme1n1 --time 24h --destroy")]
    Soak(RunArgs),
    /// Put load on disks for a lab on another machine, until Ctrl-C
    #[command(after_help = "Examples:
  basalt lab agent --key lab.key     # on each client; the first makes the key, copy it to the others

Where the results are to be: 'basalt lab run easy-run DISK DISK --agents client1:4490,client2:4490 --agent-key lab.key'.
Disks are dealt to the agents in turn, and named as the agents see them. All begin together; there is one result, with merged
histograms. Who has the key may read and write every disk that an agent can open.")]
    Agent(AgentArgs),
    /// Go on with a run that was interrupted
    #[command(after_help = "Examples:\n  basalt lab resume lab-results/2026-11-22T08-30-05-easy-run")]
    Resume {
        /// The folder of the run
        folder: PathBuf,
        /// What the disks hold may be destroyed
        #[arg(long)]
        destroy: bool,
    },
    /// List runs
    #[command(visible_alias = "ls", after_help = "Examples:\n  basalt lab list\n  basalt lab list --results /srv/results --json")]
    List {
        /// Where the folders of runs are
        #[arg(long, default_value_os_t = results_folder(), value_name = "DIR")]
        results: PathBuf,
    },
    /// Show what a run has measured
    #[command(after_help = "Examples:\n  basalt lab show lab-results/2026-11-22T08-30-05-easy-run")]
    Show {
        /// The folder of the run
        folder: PathBuf,
    },
    /// Make the report of a run anew, or beside an earlier run
    #[command(after_help = "Examples:
  basalt lab report lab-results/2026-11-22T08-30-05-easy-run
  basalt lab report lab-results/2026-11-22T08-30-05-easy-run --beside lab-results/2026-11-01T10-00-00-easy-run")]
    Report {
        /// The folder of the run
        folder: PathBuf,
        /// The folder of an earlier run, whose figures stand beside these
        #[arg(long, value_name = "FOLDER")]
        beside: Option<PathBuf>,
    },
    /// Make workloads of ours from a vdbench parameter file or a fio job file
    #[command(after_help = "Examples:
  basalt lab import database.vdb
  basalt lab import mixed.fio --out mixed.toml

What the other tool has and the lab has not is said line by line, on standard error and as comments of the TOML.")]
    Import {
        /// The file of the other tool
        file: PathBuf,
        /// Where the TOML goes [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Repeat a published study on modelled hardware, beside its figures
    #[command(after_help = "Examples:
  basalt lab study                        # which there are
  basalt lab study cache-tier
  basalt lab study cache-tier --nodes 4   # on four nodes with mirrors, 20 minutes
  basalt lab study namespaces --time 0.1  # a tenth of its virtual time: a first look

Basalt's own data plane runs on modelled drives in virtual time; docs/lab-models.md says what is modelled. A study takes minutes.")]
    Study(StudyArgs),
    /// List the profiles, or show one as a start for a workload of your own
    #[command(after_help = "Examples:\n  basalt lab profiles\n  basalt lab profiles easy-run > my-load.toml")]
    Profiles {
        /// Its name
        profile: Option<String>,
    },
}

/// What every run needs.
#[derive(Args, Debug)]
pub struct CommonArgs {
    /// Time before a case counts, such as 30s or 5m
    #[arg(long, default_value = "5s", value_parser = seconds, value_name = "TIME", allow_hyphen_values = true)]
    pub warm_up: f64,
    /// Time that counts, of each case
    #[arg(long, default_value = "30s", value_parser = seconds, value_name = "TIME", allow_hyphen_values = true)]
    pub time: f64,
    /// Rest between cases
    #[arg(long, default_value = "0s", value_parser = seconds, value_name = "TIME", allow_hyphen_values = true)]
    pub cool_down: f64,
    /// Write the whole working set first: with zeroes or with data
    #[arg(long, value_enum, value_name = "HOW")]
    pub prepare: Option<Prepare>,
    /// Measure reads of what was never written, which storage answers without its drives
    #[arg(long)]
    pub unwritten: bool,
    /// Threads on each disk, instead of the workload's
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// What is used of each disk, from its start, instead of the workload's: percent, or bytes such as 4GiB
    #[arg(long, value_parser = working_set, value_name = "PERCENT|BYTES", allow_hyphen_values = true)]
    pub working_set: Option<WorkingSet>,
    /// Operations a second, in an open loop at random times, instead of the workload's arrivals
    #[arg(long, value_name = "IOPS")]
    pub rate: Option<f64>,
    /// Each thread flushes after so many of its writes (fsync of files, FLUSH, SYNCHRONIZE CACHE)
    #[arg(long, value_name = "WRITES")]
    pub flush_every: Option<u32>,
    /// End the run when more operations than this have failed
    #[arg(long, value_name = "N")]
    pub errors_max: Option<u64>,
    /// Check every block that is read against what this run wrote there; wrong data ends the run with status 6
    #[arg(long)]
    pub verify: bool,
    /// What the disks hold may be destroyed
    #[arg(long)]
    pub destroy: bool,
    /// Threads of the client that drive the disks, at most [default: one a processor, up to 4]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Threads of the client ask again and again instead of sleeping: lower latency, all of a processor each
    #[arg(long)]
    pub spin: bool,
    /// Operations that the native engine hands to the kernel with one call, at most: more save processor time, one keeps the disk busier
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub batch: u32,
    /// Machines that put the load on the disks instead of this one: each runs 'basalt lab agent'
    #[arg(long, value_delimiter = ',', requires = "agent_key", value_name = "HOST:PORT,..")]
    pub agents: Vec<String>,
    /// The file of the key that the agents have
    #[arg(long, value_name = "FILE")]
    pub agent_key: Option<PathBuf>,
    /// Seed of everything drawn at random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Headline of the report, and name of its folder [default: the profile's name]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where the folder of the run is made
    #[arg(long, default_value_os_t = results_folder(), value_name = "DIR")]
    pub results: PathBuf,
}

#[derive(Args, Debug)]
pub struct AgentArgs {
    /// Where labs connect
    #[arg(long, default_value = lab::agent::LISTEN, value_name = "ADDRESS:PORT")]
    pub listen: String,
    /// The file of the key that labs have to prove; it is made when there is none
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// A profile ('basalt lab profiles'), a case of one (PROFILE:CASE), or a TOML file
    pub profile: String,
    /// Disks [default: the volumes that the daemon here serves]
    pub disks: Vec<String>,
    /// Which engine drives the disks
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    pub engine: EngineArg,
    /// Instead of disks: a modelled cluster, from this file, in virtual time
    #[arg(long, value_name = "FILE", conflicts_with = "disks")]
    pub simulate: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Args, Debug)]
pub struct CurveArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Loads in percent of the maximum
    #[arg(long, value_delimiter = ',', default_value = "10,20,30,40,50,60,70,80,90,100", value_name = "PERCENT")]
    pub loads: Vec<f64>,
    /// How operations come: at random times, at equal distances (open loops), or as a limited closed loop
    #[arg(long, value_enum, default_value_t = SpacingArg::Poisson)]
    pub spacing: SpacingArg,
    /// The maximum in operations a second, instead of measuring it
    #[arg(long, value_name = "IOPS")]
    pub maximum: Option<f64>,
}

#[derive(Args, Debug)]
pub struct SearchArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The 99th percentile of latency must stay within this
    #[arg(long, value_parser = seconds, value_name = "TIME", required_unless_present = "mean")]
    pub p99: Option<f64>,
    /// The mean latency must stay within this
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    pub mean: Option<f64>,
    /// The load is a whole number of these, in operations a second
    #[arg(long, default_value_t = 10.0, value_name = "IOPS")]
    pub unit: f64,
}

#[derive(Args, Debug)]
pub struct SweepArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// PARAMETER=VALUE,...: depth, bytes, reads (percent), working-set (percent), rate, disks, workers; several times
    #[arg(long, required = true, value_parser = axis, value_name = "P=V,V")]
    pub over: Vec<lab::run::Axis>,
}

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// A profile ('basalt lab profiles'), a case of one (PROFILE:CASE), or a TOML file
    pub profile: String,
    /// A disk of the first system; several times
    #[arg(long, required = true, value_name = "DISK")]
    pub a: Vec<String>,
    /// A disk of the second system; several times
    #[arg(long, required = true, value_name = "DISK")]
    pub b: Vec<String>,
    /// What the first system is called
    #[arg(long, default_value = "A", value_name = "TEXT")]
    pub name_a: String,
    /// What the second system is called
    #[arg(long, default_value = "B", value_name = "TEXT")]
    pub name_b: String,
    /// Which engine drives the disks of the first
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    pub engine_a: EngineArg,
    /// Which engine drives the disks of the second
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    pub engine_b: EngineArg,
    /// How often each is measured
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub rounds: u32,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Args, Debug)]
pub struct StudyArgs {
    /// Which; without it they are listed
    pub study: Option<String>,
    /// Instead of modelled hardware: on files in this directory, in real time (namespaces, transport)
    #[arg(long, value_name = "DIR", conflicts_with = "rate")]
    pub real: Option<PathBuf>,
    /// Model so many nodes with mirrors between them, instead of one disk group (cache-tier: 4)
    #[arg(long, value_name = "N", conflicts_with = "real")]
    pub nodes: Option<usize>,
    /// Time of each case, in parts of the study's own
    #[arg(long, default_value_t = 1.0, value_name = "PART")]
    pub time: f64,
    /// Scale of rates, instead of the study's own
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Scale of sizes, instead of the study's own; with --real: all of a layout, such as 4GiB [2GiB]
    #[arg(long, value_name = "N|BYTES")]
    pub size: Option<String>,
    /// Seed of everything drawn at random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Where the folder of the study is made
    #[arg(long, default_value_os_t = results_folder(), value_name = "DIR")]
    pub results: PathBuf,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineArg {
    /// By what the disks are
    Auto,
    /// Block devices and files through io_uring
    Native,
    /// Namespaces on the network
    NvmeTcp,
    /// Logical units on the network
    Iscsi,
    /// fio, which has to be installed
    Fio,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpacingArg {
    /// Open loop, at random times
    Poisson,
    /// Open loop, at equal distances
    Fixed,
    /// Closed loop that is never faster
    Limited,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepare {
    /// Zeroes
    Zero,
    /// Data as the workload writes them
    Random,
}

/// `depth=1,2,4`: a parameter and its values.
fn axis(text: &str) -> Result<lab::run::Axis, String> {
    let known = || Parameter::ALL.map(Parameter::name).join(", ");
    let (name, values) = text.split_once('=').ok_or_else(|| format!("write PARAMETER=VALUE,VALUE; parameters are {}", known()))?;
    let parameter = Parameter::ALL.into_iter().find(|p| p.name() == name);
    let parameter = parameter.ok_or_else(|| format!("'{name}' is no parameter; there are {}", known()))?;
    let value = |v: &str| match parameter {
        Parameter::Bytes => v.parse::<base::ByteSize>().map(|b| b.0 as f64).map_err(|e| e.to_string()),
        _ => v.parse().map_err(|_| format!("'{v}' is not a number")),
    };
    Ok(lab::run::Axis { parameter, values: values.split(',').map(value).collect::<Result<_, _>>()? })
}

/// What is used of each disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkingSet {
    /// In percent of it.
    Percent(f64),
    /// In bytes.
    Bytes(u64),
}

/// `50`, `50%`: percent; `4GiB`: bytes.
fn working_set(text: &str) -> Result<WorkingSet, String> {
    let text = text.trim();
    if let Ok(percent) = text.trim_end_matches('%').trim_end().parse::<f64>() {
        return match percent {
            p if p > 0.0 && p <= 100.0 => Ok(WorkingSet::Percent(p)),
            _ => Err(format!("'{text}': a working set in percent is above 0 and at most 100; in bytes it has a unit, such as 4GiB")),
        };
    }
    let bytes = text.parse::<base::ByteSize>().map_err(|e| format!("{e}; write percent, such as 50, or bytes, such as 4GiB"))?;
    match bytes.0 {
        0 => Err("nothing would be used: write percent, such as 50, or bytes, such as 4GiB".into()),
        b if b % lab::workload::GRAIN_BYTES != 0 => Err(format!("'{text}': bytes are a multiple of {}", lab::workload::GRAIN_BYTES)),
        b => Ok(WorkingSet::Bytes(b)),
    }
}

/// `90`, `90s`, `1.5m`, `2h`: seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is no unit of time; write 90s, 5m or 2h")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("'{text}' is no time; write 90s, 5m or 2h"))?;
    if number.is_finite() && number >= 0.0 { Ok(number * scale) } else { Err(format!("'{text}': a time is not below 0")) }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
