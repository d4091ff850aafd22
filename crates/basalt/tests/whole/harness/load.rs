//! Verified load beside what a test does to the daemon.

use super::Daemon;
use lab::verified::{self, LoadError, LoadSpec, LoadSummary, file::Saved};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Bound on the end of a load: its last commands, then all is read back.
const END_MAX: Duration = Duration::from_secs(300);

/// A load on a thread of its own.
pub struct Load {
    stop: Arc<AtomicBool>,
    result: mpsc::Receiver<Result<(LoadSummary, Saved), LoadError>>,
}

impl Load {
    /// Starts it; its `time` should be beyond what the test takes.
    pub fn start(spec: LoadSpec) -> Self {
        let (stop, (sender, result)) = (spec.stop.clone(), mpsc::channel());
        thread::spawn(move || {
            // Nobody listens any more when the test has failed.
            let _ = sender.send(verified::run(spec, |_| ()));
        });
        Self { stop, result }
    }
    /// Ends it, reads everything back, and gives what it found and knows.
    pub fn finish(self, daemon: &Daemon) -> (LoadSummary, Saved) {
        self.stop.store(true, Ordering::Release);
        let result = self.result.recv_timeout(END_MAX).expect("the load ends");
        result.unwrap_or_else(|e| panic!("the load failed: {e}\n{}", daemon.log_tail()))
    }
    /// Fails when it has ended by itself.
    pub fn assert_running(&self, daemon: &Daemon) {
        if let Ok(ended) = self.result.try_recv() {
            panic!("the load ended early: {:?}\n{}", ended.map(|(summary, _)| summary), daemon.log_tail());
        }
    }
}

impl Drop for Load {
    /// A failing test does not leave it at work beside the next one.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// No wrong byte.
pub fn assert_no_wrong_byte(summary: &LoadSummary, daemon: &Daemon) {
    let wrong: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
    assert!(summary.mismatches == 0, "{} wrong units\n{}\n{}", summary.mismatches, wrong.join("\n"), daemon.log_tail());
}

/// No wrong byte, and no failed command but those that hosts send again, on another path if they have one: of a daemon that ends, or does not serve
/// the volume now.
pub fn assert_only_of_paths(summary: &LoadSummary, daemon: &Daemon) {
    const OF_PATHS: [&str; 4] = ["ANA_INACCESSIBLE", "ANA_TRANSITION", "CONTROLLER_PATHING_ERROR", "NAMESPACE_NOT_READY"];
    assert_no_wrong_byte(summary, daemon);
    let others: Vec<_> = summary.errors.iter().filter(|(error, _)| !OF_PATHS.iter().any(|of| error.contains(of))).collect();
    assert!(others.is_empty(), "{others:?}\n{}", daemon.log_tail());
}

/// No wrong byte, no failed command.
pub fn assert_clean(summary: &LoadSummary, daemon: &Daemon) {
    assert_no_wrong_byte(summary, daemon);
    assert!(summary.is_clean(), "errors {:?}\n{}", summary.errors, daemon.log_tail());
}
