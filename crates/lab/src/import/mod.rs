//! Loads of other tools: vdbench parameter files and fio job files become workloads of ours.
//!
//! Owns: what their files mean in our model, and the list of what has no place in it.
//! Invariants: nothing is left out silently: each parameter is taken over, is without meaning here, or is on the list with its line and a reason; what
//! comes out passes [`Workload::check`](crate::workload::Workload::check); no input makes it panic or take more memory than a multiple of its length.
//! Never: runs anything, opens a disk, follows an include.

mod fio;
mod imported;
mod units;
mod vdbench;

pub use imported::{Imported, ImportedPlan, REMARKS_MAX, Remark, WORKLOADS_MAX};

use crate::error::LabError;
use std::io::Read as _;
use std::path::Path;

/// Bytes of a file that is imported.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Which tool's file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A vdbench parameter file.
    Vdbench,
    /// A fio job file.
    Fio,
}

impl Format {
    /// By its first line that means something.
    pub fn of(text: &str) -> Option<Format> {
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';', '*', '/']) {
                continue;
            }
            if line.starts_with('[') {
                return Some(Format::Fio);
            }
            return line.contains('=').then_some(Format::Vdbench);
        }
        None
    }
}

/// Reads and takes over a file.
pub fn file(path: &Path) -> Result<Imported, LabError> {
    let place = path.display().to_string();
    let wrong = |problem: String| LabError::Workload { place: place.clone(), problem };
    let file = std::fs::File::open(path).map_err(|e| wrong(format!("cannot be opened: {e}")))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong("is larger than 1 MiB; a parameter or job file is not".into()));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not a text in UTF-8".into()))?;
    let name = path.file_stem().map_or_else(|| "imported".into(), |s| s.to_string_lossy().into_owned());
    import(&text, &place, &name)
}

/// Takes over a text; `place` names it in errors, `name` the profile that it becomes.
pub fn import(text: &str, place: &str, name: &str) -> Result<Imported, LabError> {
    let mut imported = match Format::of(text) {
        Some(Format::Vdbench) => vdbench::import(text, place)?,
        Some(Format::Fio) => fio::import(text, place)?,
        None => {
            let problem = "is neither a vdbench parameter file (sd=, wd=, rd=) nor a fio job file ([global], [job])".into();
            return Err(LabError::Workload { place: place.into(), problem });
        }
    };
    imported.profile.name = name.into();
    if imported.profile.workloads.is_empty() {
        return Err(LabError::Workload {
            place: place.into(),
            problem: "holds no load: no rd= (vdbench) or no job section (fio) that could be taken over".into(),
        });
    }
    for w in &imported.profile.workloads {
        w.check(&format!("{place}: {}", w.name))?;
    }
    Ok(imported)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
