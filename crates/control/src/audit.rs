//! The audit log: who connected, who was turned away, who changed a reservation or a namespace.
//!
//! Owns: `audit.jsonl` and its older parts `audit.jsonl.1` to `.4` in the state directory: one JSON object a line, oldest first.
//! Invariants: at most [`FILES_MAX`] files of about [`FILE_BYTES_MAX`]; a line is written whole or not at all as far as the file system allows;
//! an entry that cannot be written is counted and reported in the daemon's log.
//! Never: holds a secret; holds up the data plane.

use crate::api::types::AuditEntry;
use frontend::AuditEvent;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// The name of the file that is written.
pub const FILE_NAME: &str = "audit.jsonl";
/// Beyond this a new file is begun, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files that are kept, the one that is written among them.
pub const FILES_MAX: u32 = 5;
/// Entries that one request may ask for.
pub const ENTRIES_MAX: usize = 10_000;

/// The audit log.
pub struct AuditLog {
    path: PathBuf,
    file_bytes_max: u64,
    state: Mutex<State>,
}

struct State {
    file: File,
    bytes: u64,
    lost: u64,
}

impl AuditLog {
    /// Opens the log in a directory; makes it when there is none. Its files are readable by their owner only.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::with_limit(directory, FILE_BYTES_MAX)
    }

    fn with_limit(directory: &Path, file_bytes_max: u64) -> io::Result<Self> {
        let path = directory.join(FILE_NAME);
        let file = append_to(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file_bytes_max, state: Mutex::new(State { file, bytes, lost: 0 }) })
    }

    /// Notes an event of the data plane.
    pub fn note(&self, event: AuditEvent) {
        self.write(&AuditEntry {
            unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64),
            event: event.kind.name().to_owned(),
            peer: event.peer.map(|p| p.to_string()),
            host_nqn: event.host,
            subsystem: event.export,
            controller: event.session,
            detail: event.detail,
        });
    }

    fn write(&self, entry: &AuditEntry) {
        let mut line = serde_json::to_vec(entry).expect("plain data");
        line.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.append(&mut state, &line) {
            state.lost += 1;
            tracing::error!(file = %self.path.display(), %error, lost = state.lost, "the audit log cannot be written");
        }
    }

    fn append(&self, state: &mut State, line: &[u8]) -> io::Result<()> {
        if state.bytes > 0 && state.bytes + line.len() as u64 > self.file_bytes_max {
            for n in (1..FILES_MAX - 1).rev() {
                rename_if_there(&self.part(n), &self.part(n + 1))?;
            }
            rename_if_there(&self.path, &self.part(1))?;
            state.file = append_to(&self.path)?;
            state.bytes = 0;
        }
        state.file.write_all(line)?;
        state.bytes += line.len() as u64;
        Ok(())
    }

    fn part(&self, n: u32) -> PathBuf {
        PathBuf::from(format!("{}.{n}", self.path.display()))
    }

    /// The newest entries, oldest first. Lines that a crash has cut are left out.
    pub fn newest(&self, count: usize) -> io::Result<Vec<AuditEntry>> {
        let count = count.min(ENTRIES_MAX);
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<AuditEntry> = Vec::new();
        for n in 0..FILES_MAX {
            let path = if n == 0 { self.path.clone() } else { self.part(n) };
            if out.len() >= count || !path.exists() {
                break;
            }
            let mut older = Vec::new();
            for line in BufReader::new(File::open(path)?).lines() {
                older.extend(serde_json::from_str::<AuditEntry>(&line?).ok());
            }
            older.append(&mut out);
            out = older;
        }
        Ok(out.split_off(out.len().saturating_sub(count)))
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    if from.exists() { fs::rename(from, to) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontend::AuditKind;

    fn event(n: u16) -> AuditEvent {
        AuditEvent {
            kind: AuditKind::Connected,
            peer: Some("10.0.0.1:4000".parse().unwrap()),
            host: "nqn.h".into(),
            export: "nqn.s".into(),
            session: Some(n),
            detail: String::new(),
        }
    }

    #[test]
    fn entries_are_found_again_oldest_first_and_a_cut_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::open(dir.path()).unwrap();
        (0..5).for_each(|n| log.note(event(n)));
        drop(log);
        fs::OpenOptions::new().append(true).open(dir.path().join(FILE_NAME)).unwrap().write_all(b"{\"unix_ms\": 1").unwrap();
        let log = AuditLog::open(dir.path()).unwrap();
        let newest = |n| log.newest(n).unwrap().iter().map(|e| e.controller.unwrap()).collect::<Vec<_>>();
        assert_eq!((newest(10), newest(2)), (vec![0, 1, 2, 3, 4], vec![3, 4]));
    }

    #[test]
    fn a_log_that_is_opened_again_goes_on_in_its_file_and_within_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..60 {
            AuditLog::with_limit(dir.path(), 2000).unwrap().note(event(n));
        }
        let files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).collect();
        assert!(files.len() > 1 && files.iter().all(|bytes| *bytes <= 2000), "{files:?}");
    }

    #[test]
    fn old_files_go_and_new_entries_stay() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::with_limit(dir.path(), 2000).unwrap();
        (0..500).for_each(|n| log.note(event(n)));
        let files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(files.len() as u32, FILES_MAX);
        assert!(files.iter().all(|bytes| *bytes <= 2000));
        let kept: Vec<u16> = log.newest(ENTRIES_MAX).unwrap().iter().map(|e| e.controller.unwrap()).collect();
        assert!(kept.len() > 20 && kept.windows(2).all(|w| w[1] == w[0] + 1) && kept.last() == Some(&499));
    }
}
