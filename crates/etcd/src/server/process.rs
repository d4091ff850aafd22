//! The member's process.
//!
//! ```text
//!  Starting ──► Running ──ended──► Waiting ──pause over──► Starting
//!     any ──stop──► Stopped
//! ```
//!
//! Invariants: one process at a time; it is killed when the thread that watches it ends, so also when the daemon is killed; between two starts there
//! is a pause, which grows while it ends soon.
//! Never: ends a process that it has not started.

use super::settings::Settings;
use super::{ServerError, io};
use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Between the first end and the start after it.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Between an end and a start, at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A member that has run for so long has not failed to start.
const HAS_RUN: Duration = Duration::from_secs(60);
/// It is looked at that often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From the request to end until it is killed.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Lines of its log that are kept.
const LINES_MAX: usize = 30;
/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 2048;
/// Runs a program so that it is killed when the thread that has started it ends. Of util-linux, which every Debian has.
const SETPRIV: &str = "/usr/bin/setpriv";

/// How the process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// About to be started.
    Starting,
    /// It runs. Whether it serves is for [`super::health`] to say.
    Running {
        /// Its process.
        pid: u32,
        /// Since then.
        since: Instant,
    },
    /// It has ended, and is started again then.
    Waiting {
        /// How it ended, in words.
        ended: String,
        /// When it is started again.
        until: Instant,
    },
    /// By [`Server::stop`].
    Stopped,
}

struct State {
    condition: Condition,
    stops: bool,
    /// The latest lines of its log.
    lines: VecDeque<String>,
    /// How often it has ended by itself.
    ends: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A member that is kept running.
pub struct Server {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Server {
    /// Writes the settings' file and keeps the member running until it is stopped or dropped.
    pub fn start(settings: &Settings) -> Result<Self, ServerError> {
        let file = settings.write()?;
        if let Err(cause) = std::fs::metadata(&settings.program) {
            return Err(ServerError::Program { program: settings.program.clone(), package: "etcd-server", cause });
        }
        let state = State { condition: Condition::Starting, stops: false, lines: VecDeque::new(), ends: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (of_watcher, program) = (shared.clone(), settings.program.clone());
        let watcher = std::thread::Builder::new().name("etcd-server".into()).spawn(move || of_watcher.watch(&program, &file));
        Ok(Self { shared, watcher: Some(watcher.map_err(io(&settings.dir))?) })
    }
    /// How the process is.
    pub fn condition(&self) -> Condition {
        self.shared.state().condition.clone()
    }
    /// How often it has ended by itself.
    pub fn ends(&self) -> u64 {
        self.shared.state().ends
    }
    /// The latest lines of its log: warnings and errors, as JSON.
    pub fn log(&self) -> Vec<String> {
        self.shared.state().lines.iter().cloned().collect()
    }
    /// Ends it, and returns when it has ended.
    pub fn stop(mut self) {
        self.end();
    }
    fn end(&mut self) {
        self.shared.state().stops = true;
        self.shared.changed.notify_all();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn set(&self, condition: Condition) {
        self.state().condition = condition;
    }

    fn watch(self: Arc<Self>, program: &PathBuf, file: &PathBuf) {
        let mut pause = PAUSE_MIN;
        while !self.state().stops {
            self.set(Condition::Starting);
            let began = Instant::now();
            let ended = match self.spawn(program, file) {
                Ok(child) => self.wait(child),
                Err(cause) => Some(format!("it cannot be started: {cause}")),
            };
            let Some(ended) = ended else { break };
            tracing::warn!(%ended, "the etcd server has ended");
            pause = if began.elapsed() >= HAS_RUN { PAUSE_MIN } else { pause };
            let until = Instant::now() + pause;
            let mut state = self.state();
            state.ends += 1;
            state.condition = Condition::Waiting { ended, until };
            while !state.stops && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                state = self.changed.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.set(Condition::Stopped);
    }

    fn spawn(self: &Arc<Self>, program: &PathBuf, file: &PathBuf) -> std::io::Result<Child> {
        let mut command = Command::new(SETPRIV);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).arg("--config-file").arg(file);
        // Settings of the system's service have no say.
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")).for_each(|(name, _)| {
            command.env_remove(name);
        });
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        self.set(Condition::Running { pid: child.id(), since: Instant::now() });
        if let Some(log) = child.stderr.take() {
            let shared = self.clone();
            // Ends with the process.
            std::thread::Builder::new().name("etcd-log".into()).spawn(move || shared.read_log(log))?;
        }
        Ok(child)
    }

    fn read_log(&self, log: impl Read) {
        let mut log = BufReader::new(log);
        let mut line = Vec::new();
        // A line is cut where it is too long, so that memory is bounded whatever the program writes.
        while let Ok(taken) = take_line(&mut log, &mut line) {
            if taken == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            tracing::debug!(target: "etcd", "{text}");
            let mut state = self.state();
            if state.lines.len() >= LINES_MAX {
                state.lines.pop_front();
            }
            state.lines.push_back(text);
        }
    }

    /// Until it has ended. `None`: because it was to be stopped.
    fn wait(&self, mut child: Child) -> Option<String> {
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(in_words(status)),
                Ok(None) => {}
                Err(cause) => return Some(format!("it cannot be waited for: {cause}")),
            }
            let state = self.state();
            if state.stops {
                drop(state);
                end(child);
                return None;
            }
            drop(self.changed.wait_timeout(state, LOOK_EVERY).unwrap_or_else(|e| e.into_inner()));
        }
    }
}

/// Appends the next line, or its next [`LINE_BYTES_MAX`] bytes. Gives how many; 0: that was all.
fn take_line(log: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    log.take(LINE_BYTES_MAX as u64).read_until(b'\n', line)
}

/// Lets it end, and kills it if it does not.
fn end(mut child: Child) {
    let pid = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let until = Instant::now() + STOP_MAX;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (_, Some(signal)) => format!("it was ended by signal {signal}"),
        _ => "it ended".to_owned(),
    }
}
