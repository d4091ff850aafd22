//! The audit log: who connected, who was turned away, who changed a reservation or a namespace, and what administrators did.
//!
//! Owns: `audit.jsonl` and its older parts `audit.jsonl.1` to `.4` in the state directory: one JSON object a line, oldest first.
//! Invariants: at most [`FILES_MAX`] files of about [`FILE_BYTES_MAX`]; a line is written whole or not at all as far as the file system allows;
//! an entry that cannot be written is counted and reported in the daemon's log.
//! Never: holds a secret; holds up the data plane.

use crate::api::types::AuditEntry;
use frontend::{AuditEvent, AuditKind};
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

/// Which entries are wanted: the newest of those in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Which {
    /// The most; at most [`ENTRIES_MAX`].
    pub limit: usize,
    /// Noted then or later, in milliseconds since 1970.
    pub since_unix_ms: Option<u64>,
    /// Noted before, in milliseconds since 1970.
    pub until_unix_ms: Option<u64>,
}

impl Which {
    /// As the query of a path.
    pub(crate) fn query(&self) -> String {
        let since = self.since_unix_ms.map(|at| format!("&since_unix_ms={at}")).unwrap_or_default();
        let until = self.until_unix_ms.map(|at| format!("&until_unix_ms={at}")).unwrap_or_default();
        format!("limit={}{since}{until}", self.limit)
    }
    fn wants(&self, entry: &AuditEntry) -> bool {
        self.since_unix_ms.is_none_or(|since| entry.unix_ms >= since) && self.until_unix_ms.is_none_or(|until| entry.unix_ms < until)
    }
}

/// What an administrator did, or tried to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Who: the user and process behind the socket, or the token.
    pub by: String,
    /// From where, over TCP.
    pub peer: Option<String>,
    /// What: method, path, and what the request said, without anything secret.
    pub action: String,
    /// What came of it.
    pub result: String,
}

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
            by: None,
            action: None,
            result: None,
        });
    }

    /// Notes what an administrator did.
    pub fn note_action(&self, action: Action) {
        self.note_action_as("administrator", action);
    }

    /// Notes what somebody wanted who could not prove to be an administrator.
    pub fn note_unauthenticated(&self, action: Action) {
        self.note_action_as(AuditKind::AuthenticationFailed.name(), action);
    }

    fn note_action_as(&self, event: &str, Action { by, peer, action, result }: Action) {
        self.write(&AuditEntry {
            unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64),
            event: event.into(),
            peer,
            host_nqn: String::new(),
            subsystem: String::new(),
            controller: None,
            detail: String::new(),
            by: Some(by),
            action: Some(action),
            result: Some(result),
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

    /// The newest entries, oldest first.
    pub fn newest(&self, count: usize) -> io::Result<Vec<AuditEntry>> {
        self.entries(Which { limit: count, ..Which::default() })
    }

    /// The newest of the entries that are wanted, oldest first. Lines that a crash has cut are left out.
    pub fn entries(&self, which: Which) -> io::Result<Vec<AuditEntry>> {
        let count = which.limit.min(ENTRIES_MAX);
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<AuditEntry> = Vec::new();
        for n in 0..FILES_MAX {
            let path = if n == 0 { self.path.clone() } else { self.part(n) };
            if out.len() >= count || !path.exists() {
                break;
            }
            let mut older = Vec::new();
            for line in BufReader::new(File::open(path)?).lines() {
                older.extend(serde_json::from_str::<AuditEntry>(&line?).ok().filter(|entry| which.wants(entry)));
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
    fn what_administrators_did_is_there_and_entries_are_found_by_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::open(dir.path()).unwrap();
        log.note(event(1));
        let action = Action { by: "uid 0".into(), peer: None, action: "DELETE /api/v1/volumes/db".into(), result: "done".into() };
        log.note_action(action);
        let all = log.newest(10).unwrap();
        let last = all.last().unwrap();
        assert_eq!(
            (all.len(), &*last.event, last.by.as_deref(), last.result.as_deref()),
            (2, "administrator", Some("uid 0"), Some("done"))
        );
        assert_eq!(last.action.as_deref(), Some("DELETE /api/v1/volumes/db"));
        let (first, after) = (all[0].unix_ms, last.unix_ms + 1);
        let found = |since: Option<u64>, until: Option<u64>| {
            let which = Which { limit: 10, since_unix_ms: since, until_unix_ms: until };
            log.entries(which).unwrap().len()
        };
        assert_eq!((found(Some(first), Some(after)), found(Some(after), None), found(None, Some(first))), (2, 0, 0));
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
