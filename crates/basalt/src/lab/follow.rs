//! What is seen of a run while it runs: the live view or bars on a terminal, plain lines elsewhere; and Ctrl-C.
//!
//! Invariant: what goes to standard output is the result only; all this goes to standard error.

use super::case_name::case_name;
use super::daemon::Target;
use super::live::{self, LiveState, Screen};
use indicatif::{ProgressBar, ProgressStyle};
use lab::LabError;
use lab::engine::Watch;
use lab::measure::noise::TargetMachine;
use lab::measure::{Latency, Second, TargetSecond};
use lab::results::Measured;
use lab::results::folder::Folder;
use lab::run::{Case, Config, Follow, verdict};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::signal::unix::{SignalKind, signal};

/// Seconds between lines where there is no terminal.
const LINE_EVERY_S: u64 = 10;

/// Follows a run for a person.
pub struct Follower {
    target: Option<Target>,
    stop: Arc<AtomicBool>,
    bar: Option<ProgressBar>,
    live: Option<(Screen, LiveState)>,
    terminal: bool,
    quiet: bool,
    case: String,
    warm_up_s: f64,
    seconds: u64,
    folder: Option<Folder>,
    noted: Vec<String>,
}

/// Waits for Ctrl-C or SIGTERM.
async fn asked_to_end() -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed,
        _ = term.recv() => Ok(()),
    }
}

impl Follower {
    /// Says nothing when `quiet`. From now on the first Ctrl-C or SIGTERM ends the run in order, the second at once.
    pub fn new(quiet: bool, target: Option<Target>) -> Follower {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        std::thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            while runtime.block_on(asked_to_end()).is_ok() {
                if seen.swap(true, Relaxed) {
                    live::give_terminal_back();
                    std::process::exit(130);
                }
                eprintln!("\nstopping; once more to end at once");
            }
        });
        let terminal = std::io::stderr().is_terminal();
        Follower {
            target,
            stop,
            bar: None,
            live: None,
            terminal,
            quiet,
            case: String::new(),
            warm_up_s: 0.0,
            seconds: 0,
            folder: None,
            noted: Vec::new(),
        }
    }

    /// With the live view, where there is a terminal for it; `title` is the run's.
    pub fn live(mut self, title: &str) -> Follower {
        if !self.quiet {
            self.live = Screen::open(&self.stop).map(|screen| (screen, LiveState::new(title)));
        }
        self
    }

    /// Changes what the live view shows, and shows it; whether there is one.
    fn show(&mut self, change: impl FnOnce(&mut LiveState)) -> bool {
        let Some((screen, state)) = &mut self.live else { return false };
        change(state);
        state.stopping = self.stop.load(Relaxed);
        screen.draw(state);
        true
    }

    /// Ends the live view; what was said in it is said again where it stays.
    fn end_live(&mut self) {
        if let Some((screen, mut state)) = self.live.take() {
            drop(screen);
            state.take_lines().iter().for_each(|line| eprintln!("{line}"));
        }
    }

    /// The folder of the run, once it is made.
    pub fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    fn say(&mut self, line: &str) {
        if self.show(|state| state.say(line.to_owned())) {
            return;
        }
        match &self.bar {
            _ if self.quiet => {}
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    fn bar(&mut self, length: u64, template: &str) {
        self.end_bar();
        if self.terminal && !self.quiet && self.live.is_none() {
            let bar = ProgressBar::new(length);
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            self.bar = Some(bar);
        }
    }

    fn end_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end_live();
        self.end_bar();
    }
}

impl Watch for Follower {
    fn latencies(&mut self, latency: &Latency) {
        if let Some((_, state)) = &mut self.live {
            state.latencies(latency);
        }
    }

    fn second(&mut self, second: &Second) {
        if self.show(|state| state.second(second)) {
            return;
        }
        let number = verdict::number;
        let line = format!(
            "{} IOPS, {} MiB/s, p50 {}, p99 {}, longest {}{}",
            number((second.reads + second.writes) as f64),
            number((second.read_bytes + second.written_bytes) as f64 / f64::from(1 << 20)),
            verdict::time(second.p50_us * 1e3),
            verdict::time(second.p99_us * 1e3),
            verdict::time(second.max_us * 1e3),
            if second.errors > 0 { format!(", {} ERRORS", second.errors) } else { String::new() }
        );
        let state = if second.at_s < 0.0 { "warm-up" } else { "" };
        self.seconds += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_position((second.at_s + 1.0 + self.warm_up_s).max(0.0) as u64);
                bar.set_message(format!("{line} {state}"));
            }
            None if !self.quiet && self.seconds.is_multiple_of(LINE_EVERY_S) => {
                eprintln!("  {:>6.0} s  {line} {state}", second.at_s + 1.0);
            }
            None => {}
        }
    }

    fn progress(&mut self, what: &str, done: u64, all: u64) {
        if self.show(|state| state.preparing = Some((what.to_owned(), done, all))) {
            return;
        }
        if self.bar.as_ref().is_none_or(|b| b.length() != Some(all)) {
            if !self.terminal && done == 0 {
                self.say(what);
            }
            self.bar(all, "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
        }
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.set_position(done);
        }
    }

    fn target(&mut self) -> Option<TargetSecond> {
        self.target.as_mut()?.second()
    }

    fn target_pid(&self) -> Option<u32> {
        self.target.as_ref()?.pid()
    }

    fn target_machine(&mut self) -> Option<TargetMachine> {
        self.target.as_ref()?.machine()
    }

    fn target_cpu_s(&mut self) -> Option<f64> {
        self.target.as_ref()?.cpu_s()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

impl Follow for Follower {
    fn folder(&mut self, folder: &Folder) {
        self.folder = Some(folder.clone());
        self.say(&format!("results: {}", folder.path().display()));
    }

    fn case_begins(&mut self, number: usize, case: &Case, config: &Config) {
        self.case = case_name(&case.workload.name, &case.labels);
        (self.warm_up_s, self.seconds) = (config.warm_up_s, 0);
        let all = (config.warm_up_s + config.measure_s).ceil() as u64;
        self.bar(all.max(1), "{prefix} [{bar:20}] {pos}/{len} s  {msg}");
        let place = format!("case {} of {}: {}", number + 1, case.of.max(number + 1), self.case);
        let times_s = (config.warm_up_s, config.measure_s);
        if self.show(|state| state.case_begins(place.trim_start_matches("case ").to_owned(), times_s)) {
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_prefix(place),
            None => self.say(&place),
        }
    }

    fn case_done(&mut self, _: usize, measured: &Measured) {
        self.end_bar();
        self.say(&format!("{}: {}", self.case, verdict::line(measured)));
        // The same notes case after case are said once.
        let new: Vec<String> = measured.notes.iter().filter(|note| !self.noted.contains(note)).cloned().collect();
        new.iter().for_each(|note| self.say(&format!("  note: {note}")));
        self.noted.clone_from(&measured.notes);
    }
}

impl studies::study::Follow for Follower {
    fn folder(&mut self, folder: &Folder) {
        Follow::folder(self, folder);
    }

    fn begins(&mut self, what: &str) {
        self.say(what);
    }

    fn case(&mut self, measured: &Measured) -> Result<(), LabError> {
        self.case = case_name(&measured.workload.name, &measured.labels);
        self.case_done(0, measured);
        Ok(())
    }
}
