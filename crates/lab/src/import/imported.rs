//! What a file of another tool became: workloads, how they were meant to be run, and what has no place here.
//!
//! Invariants: a remark is kept once; of those beyond the limit the number is.
//! Never: knows a tool.

use crate::error::LabError;
use crate::workload::profiles::Profile;
use crate::workload::{Data, GRAIN_BYTES, Workload};
use serde::Serialize;
use std::fmt::Write as _;

/// Workloads that one file can give; loops multiply.
pub const WORKLOADS_MAX: usize = 64;
/// Remarks that are kept; of more only the number is.
pub const REMARKS_MAX: usize = 1_000;

/// Something that was not taken over, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// Line in the file, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
    /// Why it was not taken over, or what is different here.
    pub why: String,
}

/// How a load of the file was meant to be run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImportedPlan {
    /// Name of the run (vdbench) or job (fio).
    pub name: String,
    /// The workloads it runs, by name, in order.
    pub workloads: Vec<String>,
    /// Seconds before it counts.
    pub warm_up_s: f64,
    /// Seconds that count.
    pub measure_s: f64,
    /// Shares of the maximum, in percent, when it is a curve.
    pub curve: Vec<f64>,
}

/// What a file became.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Imported {
    /// Its workloads.
    pub profile: Profile,
    /// How they were meant to be run.
    pub plans: Vec<ImportedPlan>,
    /// Disks and files that it names.
    pub disks: Vec<String>,
    /// What could not be taken over.
    pub remarks: Vec<Remark>,
    /// Remarks beyond [`REMARKS_MAX`].
    pub remarks_more: usize,
}

impl Imported {
    pub(super) fn new() -> Imported {
        let profile = Profile { name: String::new(), description: String::new(), search: None, workloads: Vec::new() };
        Imported { profile, plans: Vec::new(), disks: Vec::new(), remarks: Vec::new(), remarks_more: 0 }
    }

    pub(super) fn remark(&mut self, line: usize, text: &str, why: impl Into<String>) {
        let remark = Remark { line, text: text.chars().take(200).collect(), why: why.into() };
        if self.remarks.contains(&remark) {
            return;
        }
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(remark);
        } else {
            self.remarks_more += 1;
        }
    }

    /// What cannot stand beside verification: a load of other blocks is not verified, and verified data have no shares. `line`, `text`: what asks for it.
    pub(super) fn settle_verification(&mut self, w: &mut Workload, line: usize, text: &str) {
        let grain = GRAIN_BYTES as u32;
        let odd = w.streams.iter().flat_map(|s| s.sizes.iter().map(|z| z.bytes).chain([s.align_bytes])).any(|b| b % grain != 0);
        if w.verify && odd {
            w.verify = false;
            self.remark(line, text, "data are verified in blocks of 4096 bytes, and this load has others: it is not verified");
        } else if w.verify && w.data != Data::default() {
            w.data = Data::default();
            self.remark(line, text, "verified data can be neither compressible nor equal: it is verified, and those shares are left out");
        }
    }

    pub(super) fn disk(&mut self, name: &str) {
        if !name.is_empty() && !self.disks.iter().any(|d| d == name) && self.disks.len() < 1_024 {
            self.disks.push(name.into());
        }
    }

    /// Adds a workload under a name that no other has; gives back that name.
    pub(super) fn workload(&mut self, mut w: Workload, place: &str, line: usize) -> Result<String, LabError> {
        if self.profile.workloads.len() == WORKLOADS_MAX {
            let problem = format!("its loops make more than {WORKLOADS_MAX} workloads; take fewer values, or cut the file in parts");
            return Err(LabError::Workload { place: format!("{place}:{line}"), problem });
        }
        let taken = |name: &str| self.profile.workloads.iter().any(|o| o.name == name);
        if taken(&w.name) {
            let base = w.name.clone();
            w.name = (2..).map(|n| format!("{base} ({n})")).find(|n| !taken(n)).unwrap_or(base);
        }
        let name = w.name.clone();
        self.profile.workloads.push(w);
        Ok(name)
    }

    /// Remarks as lines for a person.
    pub fn remark_lines(&self) -> Vec<String> {
        let mut sorted: Vec<&Remark> = self.remarks.iter().collect();
        sorted.sort_by_key(|r| r.line);
        let mut lines: Vec<String> = sorted.into_iter().map(|r| format!("line {}: `{}`: {}", r.line, r.text, r.why)).collect();
        if self.remarks_more > 0 {
            lines.push(format!("and {} more", self.remarks_more));
        }
        lines
    }

    /// Our TOML, with how to run it and what was not taken over as comments.
    pub fn to_toml(&self) -> Result<String, LabError> {
        let mut out = String::new();
        let mut comment = |line: &str| {
            let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let _ = writeln!(out, "# {line}");
        };
        if !self.disks.is_empty() {
            comment(&format!("Disks that the file names: {}", self.disks.join(" ")));
        }
        for p in &self.plans {
            let how = if p.curve.is_empty() { "run one after the other" } else { "as a curve" };
            let points: Vec<String> = p.curve.iter().map(f64::to_string).collect();
            let curve = if points.is_empty() { String::new() } else { format!(" at {} % of the maximum", points.join(", ")) };
            comment(&format!("{}: {how}{curve}: {}; --warm-up {}s --time {}s", p.name, p.workloads.join("; "), p.warm_up_s, p.measure_s));
        }
        for line in self.remark_lines() {
            comment(&format!("Not taken over: {line}"));
        }
        let body =
            toml::to_string(&self.profile).map_err(|e| LabError::Workload { place: self.profile.name.clone(), problem: e.to_string() })?;
        Ok(format!("{out}\n{body}"))
    }
}
