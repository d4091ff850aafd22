//! Which case comes next: a pure function of the configuration and of the cases that are kept.
//!
//! Invariant: the same configuration and cases give the same next case.
//! Never: measures, reads files.

use super::{Case, Config};
use crate::error::LabError;
use crate::results::{Kind, Measured};

/// Whether a plan can be made.
pub fn check(_config: &Config) -> Result<(), LabError> {
    Ok(())
}

/// The next case; `None`: all is done.
pub fn next(config: &Config, done: &[Measured]) -> Option<Case> {
    match config.kind {
        Kind::Run | Kind::Soak => one_after_the_other(config, done),
        Kind::Curve | Kind::Sweep | Kind::Compare | Kind::Study => None,
    }
}

fn one_after_the_other(config: &Config, done: &[Measured]) -> Option<Case> {
    let workload = config.workloads.get(done.len())?.clone();
    let labels = vec![("workload".to_owned(), workload.name.clone())];
    Some(Case { labels, workload, system: 0, setting: config.systems[0].clone(), of: config.workloads.len() })
}
