//! Reads a results folder, whatever state it is in.
//!
//! Invariants: only files of `results` are read; what is missing is known, what is broken is an error that names the file.
//! Never: writes.

use crate::error::LabError;
use crate::report::text;
use crate::results::folder::Folder;
use crate::results::{Measured, Record};
use std::path::Path;

/// A run as its files have it. Texts are safe to be shown in one line, but not yet escaped for any format.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The run.
    pub record: Record,
    /// (number, case), ascending. The last one may be a case that was cut short and is still to be done.
    pub cases: Vec<(usize, Measured)>,
}

/// Reads the folder at `path`.
pub fn load(path: &Path) -> Result<Loaded, LabError> {
    let folder = Folder::open(path)?;
    let mut record = folder.record()?;
    tidy_record(&mut record);
    let mut cases = folder.cases()?;
    if let Some(partial) = folder.partial(cases.len())? {
        cases.push(Measured { cut_short: true, ..partial });
    }
    for (n, case) in cases.iter_mut().enumerate() {
        if !(case.measured_s.is_finite() && case.measured_s >= 0.0) {
            let problem = format!("case {n} says that it was measured for {} seconds, which is no time", case.measured_s);
            return Err(LabError::Results { path: path.into(), problem });
        }
        tidy_case(case);
    }
    Ok(Loaded { record, cases: cases.into_iter().enumerate().collect() })
}

fn tidy(text: &mut String) {
    *text = text::line(text);
}

fn tidy_labels(labels: &mut [(String, String)]) {
    for (k, v) in labels {
        tidy(k);
        tidy(v);
    }
}

fn tidy_record(r: &mut Record) {
    for t in [&mut r.title, &mut r.basalt, &mut r.source, &mut r.machine.processor, &mut r.machine.kernel] {
        tidy(t);
    }
    r.command.iter_mut().chain(&mut r.verdict).for_each(tidy);
    r.noise.iter_mut().chain(&mut r.target_noise).flat_map(|n| &mut n.processes).for_each(|p| tidy(&mut p.0));
    r.configuration = text::lines(&r.configuration);
    for p in &mut r.published {
        tidy_labels(&mut p.labels);
        tidy(&mut p.figure);
        tidy(&mut p.remark);
    }
}

fn tidy_case(m: &mut Measured) {
    tidy(&mut m.engine);
    tidy(&mut m.workload.name);
    tidy(&mut m.workload.description);
    tidy_labels(&mut m.labels);
    m.disks.iter_mut().for_each(|d| tidy(&mut d.0));
    m.streams.iter_mut().for_each(|s| tidy(&mut s.0));
    m.notes.iter_mut().for_each(tidy);
    m.clients.iter_mut().for_each(|c| tidy(&mut c.name));
    let noises = m.noise.iter_mut().chain(&mut m.target_noise).chain(m.clients.iter_mut().filter_map(|c| c.noise.as_mut()));
    noises.flat_map(|n| &mut n.processes).for_each(|p| tidy(&mut p.0));
    // Seconds in order, and none that no axis can hold.
    m.seconds.retain(|s| s.at_s.is_finite());
    m.seconds.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
}
