//! The live view of a run on a terminal: what it does now, what it did until now, and what the target says of itself.
//!
//! ```text
//! Watch, Follow ──► State (figures, bounded) ──draw──► Screen (alternate screen on standard error)
//!                                             keys ──► q, Ctrl-C: the run ends in order
//! ```
//!
//! Owns: the terminal, from [`Screen::open`] until it is dropped.
//! Invariants: the terminal is given back as it was on every way out, panics included; what is kept for drawing is bounded; a terminal that fails
//! costs the view, never the run.
//! Never: measures; writes to standard output.

use lab::measure::{Latency, Second};
use lab::run::verdict::{self, number};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, is_raw_mode_enabled};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};
use ratatui::{Frame, Terminal};
use std::collections::VecDeque;
use std::io::{IsTerminal, Stderr, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Seconds that graphs can show: on a wide terminal, the last ten minutes.
const HISTORY_S: usize = 600;
/// Lines that are kept to be shown, and printed when the view ends.
const LINES_MAX: usize = 1000;
/// How often the keys are looked at.
const KEYS_EVERY: Duration = Duration::from_millis(100);
/// The smallest terminal that the view is worth anything on: columns, lines.
const SIZE_MIN: (u16, u16) = (50, 16);

/// What is shown.
#[derive(Default)]
pub struct LiveState {
    /// Headline of the run.
    title: String,
    /// The case: "2 of 4: 8k-50-50".
    case: String,
    /// Seconds of warm-up and of measurement.
    times_s: (f64, f64),
    /// What is prepared, bytes done, bytes in all.
    pub preparing: Option<(String, u64, u64)>,
    /// It was asked to end.
    pub stopping: bool,
    seconds: VecDeque<Second>,
    /// Of the second just past, and of the measured time until now.
    latency: (Latency, Latency),
    operations: u64,
    errors: u64,
    lines: VecDeque<String>,
}

impl LiveState {
    /// Of a run with this headline.
    pub fn new(title: &str) -> LiveState {
        LiveState { title: title.into(), ..LiveState::default() }
    }
    /// A case begins.
    pub fn case_begins(&mut self, case: String, times_s: (f64, f64)) {
        (self.case, self.times_s, self.preparing) = (case, times_s, None);
        (self.latency, self.operations, self.errors) = Default::default();
        self.seconds.clear();
    }
    /// Latencies of the second that is reported next.
    pub fn latencies(&mut self, latency: &Latency) {
        self.latency.0 = latency.clone();
    }
    /// A second has passed.
    pub fn second(&mut self, second: &Second) {
        self.errors += second.errors;
        if second.at_s >= 0.0 {
            self.operations += second.reads + second.writes;
            self.latency.1.merge(&self.latency.0);
        }
        if self.seconds.len() == HISTORY_S {
            self.seconds.pop_front();
        }
        self.seconds.push_back(second.clone());
    }
    /// Something to be read.
    pub fn say(&mut self, line: String) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
    /// All that was said.
    pub fn take_lines(&mut self) -> VecDeque<String> {
        std::mem::take(&mut self.lines)
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
            let last = self.seconds.back().map(|s| format!("{} IOPS", number((s.reads + s.writes) as f64))).unwrap_or_default();
            frame.render_widget(Paragraph::new(vec![self.case.clone().into(), last.into(), self.keys()]), area);
            return;
        }
        let target = self.seconds.back().is_some_and(|s| s.target.is_some());
        let rows = [1, 1, 1, 6, 6, if target { 4 } else { 0 }].map(Constraint::Length);
        let areas = Layout::vertical(rows.into_iter().chain([Constraint::Min(1), Constraint::Length(1)])).split(area);
        let head = vec![" Basalt lab ".bold().reversed(), format!("  {}   ", self.title).bold(), self.place().into()];
        frame.render_widget(Line::from(head), areas[0]);
        self.draw_progress(frame, areas[1]);
        self.draw_rates(frame, areas[3]);
        self.draw_latencies(frame, areas[4]);
        if target {
            self.draw_target(frame, areas[5]);
        }
        let room = areas[6].height as usize;
        let lines: Vec<Line<'_>> = self.lines.iter().skip(self.lines.len().saturating_sub(room)).map(|l| Line::from(l.as_str())).collect();
        frame.render_widget(Paragraph::new(lines), areas[6]);
        frame.render_widget(self.keys(), areas[7]);
    }

    fn place(&self) -> String {
        if self.case.is_empty() { "before the first case".into() } else { format!("case {}", self.case) }
    }

    fn keys(&self) -> Line<'_> {
        let what = if self.stopping { "ending; once more to end at once" } else { "q or Ctrl-C ends the run and keeps what it has" };
        let errors = match self.errors {
            0 => "   no errors".dim(),
            n => format!("   {} ERRORS", verdict::count(n)).red().bold(),
        };
        Line::from(vec![format!(" {what}").dim(), errors])
    }

    fn draw_progress(&self, frame: &mut Frame<'_>, area: Rect) {
        let (warm_up, all) = (self.times_s.0, (self.times_s.0 + self.times_s.1).max(1e-9));
        let (ratio, text) = match &self.preparing {
            Some((what, done, bytes)) => {
                let gib = |b: u64| b as f64 / f64::from(1 << 30);
                (*done as f64 / (*bytes).max(1) as f64, format!("{what}: {:.1} of {:.1} GiB", gib(*done), gib(*bytes)))
            }
            None => {
                let at = self.seconds.back().map_or(0.0, |s| s.at_s + 1.0 + warm_up);
                let phase = if at < warm_up { "warm-up" } else { "measuring" };
                (at / all, format!("{phase}: {:.0} of {all:.0} s", at.min(all)))
            }
        };
        let gauge = Gauge::default().ratio(ratio.clamp(0.0, 1.0)).label(text).use_unicode(true);
        frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Blue)), area);
    }

    fn draw_rates(&self, frame: &mut Frame<'_>, area: Rect) {
        let [left, right] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(area);
        let mib = |s: &Second| (s.read_bytes + s.written_bytes) as f64 / f64::from(1 << 20);
        let now = |f: &dyn Fn(&Second) -> f64| self.seconds.back().map_or_else(|| "–".into(), |s| number(f(s)));
        let measured = self.seconds.back().map_or(0.0, |s| s.at_s + 1.0);
        let mean = if measured > 0.0 { format!(", mean {}", number(self.operations as f64 / measured)) } else { String::new() };
        let iops = |s: &Second| (s.reads + s.writes) as f64;
        self.graph(frame, left, format!(" IOPS {}{mean} ", now(&iops)), Color::Blue, &iops);
        self.graph(frame, right, format!(" MiB/s {} ", now(&mib)), Color::Cyan, &mib);
    }

    /// The last seconds of a figure, as many as there is room for.
    fn graph(&self, frame: &mut Frame<'_>, area: Rect, title: String, color: Color, figure: &dyn Fn(&Second) -> f64) {
        let room = usize::from(area.width.saturating_sub(2));
        let skip = self.seconds.len().saturating_sub(room);
        let data: Vec<u64> = self.seconds.iter().skip(skip).map(|s| figure(s).round() as u64).collect();
        let graph = Sparkline::default().data(&data).style(Style::new().fg(color));
        frame.render_widget(graph.block(Block::bordered().title(title)), area);
    }

    fn draw_latencies(&self, frame: &mut Frame<'_>, area: Rect) {
        let [left, right] = Layout::horizontal([Constraint::Length(62), Constraint::Min(0)]).areas(area);
        const COLUMNS: [(&str, f64); 4] = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
        let head = COLUMNS.iter().map(|c| c.0).chain(["longest"]).fold(format!("{:10}", ""), |line, c| line + &format!("{c:>10}"));
        let row = |name: &str, l: &Latency| {
            let shown = |p: f64| if l.count() == 0 { "–".into() } else { verdict::time(l.percentile_ns(p) as f64) };
            let figures = COLUMNS.iter().map(|c| shown(c.1)).chain([shown(100.0)]);
            figures.fold(format!("{name:10}"), |line, figure| line + &format!("{figure:>10}"))
        };
        let lines = vec![
            Line::from(head).add_modifier(Modifier::DIM),
            Line::from(row("now", &self.latency.0)),
            Line::from(row("this case", &self.latency.1)),
        ];
        frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" latency ")), left);
        if right.width > 4 {
            self.graph(frame, right, " p99 ".into(), Color::Magenta, &|s| s.p99_us);
        }
    }

    fn draw_target(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(t) = self.seconds.back().and_then(|s| s.target.as_ref()) else { return };
        let mib = |b: f64| number(b / f64::from(1 << 20));
        let block = Block::bordered().title(" target ");
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [top, bottom] = Layout::vertical([Constraint::Length(1); 2]).areas(inner);
        let full = t.buffer_fill.clamp(0.0, 1.0);
        let color = if full > 0.9 { Color::Red } else { Color::Green };
        let gauge = Gauge::default().ratio(full).label(format!("write buffer {:.0} % full", full * 100.0)).use_unicode(true);
        frame.render_widget(gauge.gauge_style(Style::new().fg(color)), top);
        let text = format!(
            "destages {} MiB/s   devices read {} MiB/s, write {} MiB/s   {:.1} cores",
            mib(t.destaged_bytes),
            mib(t.device_read_bytes),
            mib(t.device_written_bytes),
            t.cores
        );
        frame.render_widget(Line::from(Span::raw(text)), bottom);
    }
}

/// The terminal while the view is on it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    open: Arc<AtomicBool>,
}

/// Gives the terminal back, once.
fn give_back(open: &AtomicBool) {
    if open.swap(false, Relaxed) {
        give_terminal_back();
    }
}

/// Gives the terminal back if a view is on it: before the process ends at once.
pub fn give_terminal_back() {
    // Nothing can be done about a terminal that is gone.
    if is_raw_mode_enabled().unwrap_or(false) {
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, cursor::Show);
    }
}

impl Screen {
    /// Takes the terminal, where there is one that can be drawn on. `stop` is set by q and Ctrl-C; the second of them ends the process.
    pub fn open(stop: &Arc<AtomicBool>) -> Option<Screen> {
        let dumb = std::env::var("TERM").map_or(true, |t| t.is_empty() || t == "dumb");
        if dumb || !stdout().is_terminal() || !stderr().is_terminal() || enable_raw_mode().is_err() {
            return None;
        }
        let open = Arc::new(AtomicBool::new(true));
        let on_panic = Arc::clone(&open);
        let otherwise = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&on_panic);
            otherwise(panic);
        }));
        let terminal = execute!(stderr(), EnterAlternateScreen, cursor::Hide).and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        let Ok(terminal) = terminal else {
            give_back(&open);
            return None;
        };
        let (stop, seen) = (Arc::clone(stop), Arc::clone(&open));
        std::thread::spawn(move || keys(&stop, &seen));
        Some(Screen { terminal, open })
    }

    /// Draws what there is.
    pub fn draw(&mut self, state: &LiveState) {
        draw_on(&mut self.terminal, state);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(&self.open);
    }
}

/// Draws on any terminal; one that fails is left alone.
fn draw_on<B: Backend>(terminal: &mut Terminal<B>, state: &LiveState) {
    let _ = terminal.draw(|frame| state.draw(frame));
}

/// Looks at the keys until the view is closed.
fn keys(stop: &AtomicBool, open: &AtomicBool) {
    while open.load(Relaxed) {
        match event::poll(KEYS_EVERY) {
            Ok(false) => {}
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press && ends(key.code, key.modifiers) => {
                    if stop.swap(true, Relaxed) {
                        give_back(open);
                        std::process::exit(130);
                    }
                }
                Ok(_) => {}
                Err(_) => return,
            },
            Err(_) => return,
        }
    }
}

fn ends(key: KeyCode, with: KeyModifiers) -> bool {
    match key {
        KeyCode::Char('c') => with.contains(KeyModifiers::CONTROL),
        KeyCode::Char('q' | 'Q') => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
