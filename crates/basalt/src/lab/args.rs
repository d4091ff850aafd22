//! The command line of the lab.
//!
//! Invariant: each command has examples that parse; times and sizes are read as people write them.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Where results go unless said otherwise.
pub const RESULTS: &str = "lab-results";

#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Run a profile, a case of it, or a workload of your own
    #[command(after_help = "Examples:
  basalt lab run easy-run disk.img:10GiB --time 60s
  basalt lab run four-corners:4k-random-read /dev/nvme1n1
  basalt lab run my-load.toml /dev/nvme1n1 /dev/nvme2n1 --prepare random --destroy

A disk is a block device, a file, or PATH:SIZE for a file to be made. What holds data is not written
without --destroy. Ctrl-C ends a run; 'basalt lab resume' goes on with it.")]
    Run(RunArgs),
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
        #[arg(long, default_value = RESULTS, env = "BASALT_LAB_RESULTS", value_name = "DIR")]
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
    /// Threads on each disk, instead of the workload's
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Part of each disk that is used, in percent, instead of the workload's
    #[arg(long, value_name = "PERCENT")]
    pub working_set: Option<f64>,
    /// What the disks hold may be destroyed
    #[arg(long)]
    pub destroy: bool,
    /// Threads of the client that drive the disks, at most [default: one a processor, up to 4]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Threads of the client ask again and again instead of sleeping: lower latency, all of a processor each
    #[arg(long)]
    pub spin: bool,
    /// Seed of everything drawn at random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Headline of the report, and name of its folder [default: the profile's name]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where the folder of the run is made
    #[arg(long, default_value = RESULTS, env = "BASALT_LAB_RESULTS", value_name = "DIR")]
    pub results: PathBuf,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// A profile ('basalt lab profiles'), a case of one (PROFILE:CASE), or a TOML file
    pub profile: String,
    /// Disks
    #[arg(required = true)]
    pub disks: Vec<String>,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepare {
    /// Zeroes
    Zero,
    /// Data as the workload writes them
    Random,
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
