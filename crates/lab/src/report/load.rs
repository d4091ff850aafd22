//! Reads a results folder, whatever state it is in.
//!
//! Invariants: only files of `results` are read, each bounded; what is missing is known, what is broken is an error that names the file.
//! Never: writes.

use crate::error::LabError;
use crate::report::text;
use crate::results::{Measured, Record, VERSION};
use std::io::Read as _;
use std::path::Path;

/// Cases of one run that a report can have.
pub const CASES_MAX: usize = 2_000;
/// Bytes of one file of a results folder.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// A run as its files tell it. Texts are safe to be shown in one line, but not yet escaped for any format.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The run.
    pub record: Record,
    /// (number, case), ascending; numbers may be missing in the middle when somebody deleted a file.
    pub cases: Vec<(usize, Measured)>,
}

fn wrong(path: &Path, problem: impl Into<String>) -> LabError {
    LabError::Results { path: path.into(), problem: problem.into() }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let file = std::fs::File::open(path).map_err(|e| wrong(path, format!("cannot be opened: {e}")))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| wrong(path, format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(path, format!("is larger than {}; the lab writes no such files", text::bytes(FILE_BYTES_MAX as f64))));
    }
    serde_json::from_slice(&bytes).map_err(|e| wrong(path, format!("is not what the lab writes: {e}")))
}

/// Reads `folder`.
pub fn load(folder: &Path) -> Result<Loaded, LabError> {
    if !folder.is_dir() {
        return Err(wrong(folder, "is not a folder; give the folder that a run named when it ended (basalt lab list shows them)"));
    }
    let path = folder.join("run.json");
    if !path.exists() {
        return Err(wrong(folder, "holds no run.json, so it is not a folder of results"));
    }
    let mut record: Record = read(&path)?;
    if record.version != VERSION {
        return Err(wrong(
            &path,
            format!("has version {}, this program reads version {VERSION}; use the program that wrote it, or a newer one", record.version),
        ));
    }
    tidy_record(&mut record);
    let mut cases = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|e| wrong(folder, format!("cannot be listed: {e}")))?;
    for entry in entries {
        let entry = entry.map_err(|e| wrong(folder, format!("cannot be listed: {e}")))?;
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(case_number) else { continue };
        if cases.len() == CASES_MAX {
            return Err(wrong(folder, format!("holds more than {CASES_MAX} cases")));
        }
        let mut case: Measured = read(&entry.path())?;
        if case.measured_s.is_nan() || case.measured_s < 0.0 || case.measured_s.is_infinite() {
            return Err(wrong(&entry.path(), "measured_s is not a time"));
        }
        tidy_case(&mut case);
        cases.push((number, case));
    }
    cases.sort_by_key(|c| c.0);
    Ok(Loaded { record, cases })
}

/// The number in `case-012.json`.
fn case_number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("case-")?.strip_suffix(".json")?;
    (digits.len() <= 6 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
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
    // Seconds in order, and none that no axis can hold.
    m.seconds.retain(|s| s.at_s.is_finite());
    m.seconds.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
}
