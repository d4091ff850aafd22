//! What a report is made from: a run, what was computed from it, and an earlier run beside it.
//!
//! Never: knows the forms that it is shown in.

use crate::error::LabError;
use crate::report::analysis::{Analysis, Beside};
use crate::report::load::{Loaded, load};
use serde::Serialize;
use std::path::Path;

/// An earlier run beside this one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Earlier {
    /// Its headline.
    pub title: String,
    /// When its first case began.
    pub began_unix_s: Option<u64>,
    /// Its version of Basalt.
    pub basalt: String,
    /// Cases that both have.
    pub beside: Vec<Beside>,
}

/// A run with everything computed from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The run.
    pub run: Loaded,
    /// What it says.
    pub analysis: Analysis,
    /// An earlier run beside it.
    pub earlier: Option<Earlier>,
}

impl Report {
    /// Reads `folder`, and `beside` as an earlier run.
    pub fn new(folder: &Path, beside: Option<&Path>) -> Result<Report, LabError> {
        let run = load(folder)?;
        let analysis = Analysis::new(&run);
        let earlier = match beside {
            None => None,
            Some(path) => {
                let old = load(path)?;
                let beside = analysis.beside(&Analysis::new(&old));
                let began_unix_s = old.cases.iter().map(|c| c.1.began_unix_s).min();
                Some(Earlier { title: old.record.title, began_unix_s, basalt: old.record.basalt, beside })
            }
        };
        Ok(Report { run, analysis, earlier })
    }
}
