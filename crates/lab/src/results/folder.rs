//! The folder of a run: making it, finding it, and its files.
//!
//! Invariants: a file is written to another name and renamed; a folder that does not hold a run of ours is never written to.
//! Never: changes or removes a case that is there.

use super::{Measured, Record, VERSION};
use crate::error::LabError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Cases of one run.
pub const CASES_MAX: usize = 1000;
/// Bytes of one file.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
const RECORD: &str = "run.json";

fn wrong(path: &Path, problem: impl Into<String>) -> LabError {
    LabError::Results { path: path.into(), problem: problem.into() }
}

/// The folder of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder below `results` (which is made, too), called by the time and `name`, with its first record.
    pub fn create(results: &Path, name: &str, record: &Record) -> Result<Folder, LabError> {
        fs::create_dir_all(results).map_err(|e| wrong(results, format!("the folder for results cannot be made: {e}")))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let plain: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }).take(60).collect();
        let base = format!("{}-{}", time_name(now), plain.trim_matches(['.', '-']));
        for n in 1..1000 {
            let path = results.join(if n == 1 { base.clone() } else { format!("{base}-{n}") });
            match fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Folder { path };
                    folder.write_record(record)?;
                    return Ok(folder);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(wrong(&path, format!("cannot be made: {e}"))),
            }
        }
        Err(wrong(&results.join(base), "is taken a thousand times"))
    }

    /// Opens the folder of a run; an error says what is wrong with it.
    pub fn open(path: &Path) -> Result<Folder, LabError> {
        let folder = Folder { path: path.to_path_buf() };
        if !path.is_dir() {
            return Err(wrong(path, "there is no such folder; `basalt lab list` shows the runs there are"));
        }
        if !path.join(RECORD).is_file() {
            return Err(wrong(path, "is no results folder of the lab: it has no run.json"));
        }
        folder.record()?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of the run.
    pub fn record(&self) -> Result<Record, LabError> {
        let path = self.path.join(RECORD);
        let record: Record = read(&path)?;
        if record.version != VERSION {
            return Err(wrong(
                &path,
                format!("was written by another version of the lab (files of version {}, not {VERSION})", record.version),
            ));
        }
        Ok(record)
    }

    /// Writes the record anew.
    pub fn write_record(&self, record: &Record) -> Result<(), LabError> {
        write(&self.path.join(RECORD), record)
    }

    /// Keeps case number `n`.
    pub fn write_case(&self, n: usize, measured: &Measured) -> Result<(), LabError> {
        let path = self.case_path(n);
        if path.exists() {
            return Err(wrong(&path, "is there already, and what was measured is never written over"));
        }
        write(&path, measured)
    }

    /// Keeps what there is of case number `n`, which was cut short; another attempt at it replaces this.
    pub fn write_partial(&self, n: usize, measured: &Measured) -> Result<(), LabError> {
        write(&self.path.join(format!("partial-{n:03}.json")), measured)
    }

    /// What is kept of case number `n` as far as it went before it was cut short.
    pub fn partial(&self, n: usize) -> Result<Option<Measured>, LabError> {
        let path = self.path.join(format!("partial-{n:03}.json"));
        if path.exists() { read(&path).map(Some) } else { Ok(None) }
    }

    /// The cases from the first on, until one is missing.
    pub fn cases(&self) -> Result<Vec<Measured>, LabError> {
        (0..CASES_MAX).map(|n| self.case_path(n)).take_while(|p| p.exists()).map(|p| read(&p)).collect()
    }

    fn case_path(&self, n: usize) -> PathBuf {
        self.path.join(format!("case-{n:03}.json"))
    }
}

/// A folder that looks like a run, and what is known of it.
pub type Listed = (PathBuf, Result<Record, LabError>);

/// The runs below `results`, the oldest first; other folders there are passed over, broken ones are reported.
pub fn list(results: &Path) -> Result<Vec<Listed>, LabError> {
    let entries = match fs::read_dir(results) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(wrong(results, format!("cannot be read: {e}"))),
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.join(RECORD).is_file()).collect();
    paths.sort();
    Ok(paths.into_iter().map(|p| (p.clone(), Folder { path: p }.record())).collect())
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let bytes = fs::metadata(path).map_err(|e| wrong(path, format!("cannot be read: {e}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(path, format!("has {bytes} bytes: this is no file of the lab")));
    }
    let text = fs::read(path).map_err(|e| wrong(path, format!("cannot be read: {e}")))?;
    serde_json::from_slice(&text).map_err(|e| wrong(path, format!("is no file of the lab, or it is damaged: {e}")))
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), LabError> {
    let failed = |e: std::io::Error| wrong(path, format!("cannot be written: {e}"));
    let new = path.with_extension("new");
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| wrong(path, format!("cannot be put into words: {e}")))?;
    text.push(b'\n');
    let mut file = fs::File::create(&new).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)
}

/// 2026-11-22T08-30-00, in UTC.
pub fn time_name(unix_s: u64) -> String {
    let (days, s) = (unix_s / 86_400, unix_s % 86_400);
    // Days to a date in the Gregorian calendar, years from March on (Howard Hinnant's civil_from_days).
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
