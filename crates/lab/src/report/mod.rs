//! Reports: what a run's files say, for people and for programs.
//!
//! Owns: `report.html`, `report.md`, `report.json`, `cases.csv` and `seconds.csv` in a results folder.
//! Invariants: made from the files of the run alone, so that an old run can be rendered again; each file is whole or not there; the same files make
//! the same report, byte for byte.
//! Never: changes what was measured; needs a network, a script or a font to be read. A script makes its charts live where scripts run.

pub mod analysis;
pub mod caveats;
pub mod chart;
mod charts;
pub mod compare;
mod content;
mod csv;
pub mod figures;
mod html;
pub mod load;
mod markdown;
mod table;
pub mod text;

pub use content::{Earlier, Report};

use crate::error::LabError;
use crate::results::{Machine, RunKind, RunState};
use analysis::Analysis;
use serde::Serialize;
use std::path::{Path, PathBuf};

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        html::page(self)
    }
    /// The text for tickets and wikis.
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }
    /// A row for each kind of operation of each case.
    pub fn cases_csv(&self) -> String {
        csv::cases(&self.analysis)
    }
    /// A row for each second of each case.
    pub fn seconds_csv(&self) -> String {
        csv::seconds(&self.run)
    }
    /// The computed figures.
    pub fn json(&self) -> String {
        let r = &self.run.record;
        let all = Json {
            title: &r.title,
            kind: r.kind,
            state: r.state,
            planned_cases: r.cases,
            basalt: &r.basalt,
            machine: &r.machine,
            command: &r.command,
            source: &r.source,
            analysis: &self.analysis,
            earlier: &self.earlier,
        };
        serde_json::to_string_pretty(&all).expect("plain structures become JSON") + "\n"
    }
}

/// The form of `report.json`.
#[derive(Serialize)]
struct Json<'a> {
    title: &'a str,
    kind: RunKind,
    state: RunState,
    planned_cases: usize,
    basalt: &'a str,
    machine: &'a Machine,
    command: &'a [String],
    source: &'a str,
    #[serde(flatten)]
    analysis: &'a Analysis,
    earlier: &'a Option<Earlier>,
}

/// Makes all files of the report in `folder`, the page first. Old ones are replaced.
pub fn write_all(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    write_beside(folder, None)
}

/// As [`write_all`], with an earlier run beside it.
pub fn write_beside(folder: &Path, beside: Option<&Path>) -> Result<Vec<PathBuf>, LabError> {
    let r = Report::new(folder, beside)?;
    let files = [
        ("report.html", r.html()),
        ("report.md", r.markdown()),
        ("report.json", r.json()),
        ("cases.csv", r.cases_csv()),
        ("seconds.csv", r.seconds_csv()),
    ];
    files.into_iter().map(|(name, content)| write_whole(folder, name, &content)).collect()
}

/// Writes beside, then renames: a reader sees the old file or the new one.
fn write_whole(folder: &Path, name: &str, content: &str) -> Result<PathBuf, LabError> {
    let (path, beside) = (folder.join(name), folder.join(format!(".{name}.new")));
    let wrong = |e: std::io::Error| LabError::Results { path: path.clone(), problem: format!("cannot be written: {e}") };
    std::fs::write(&beside, content).map_err(wrong)?;
    std::fs::rename(&beside, &path).map_err(wrong)?;
    Ok(path)
}

#[cfg(test)]
#[path = "browser_tests.rs"]
mod browser;
#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
