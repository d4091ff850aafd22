//! How much of a core the resync of its lanes gets beside what hosts ask (`docs/mirrors.md`, "The pace of a resync").
//!
//! ```text
//!  a range is to begin, hosts ask ─► Probe: nothing is copied, what hosts see is the measure ─► Window ─► Window ─► ... ─► Probe ...
//!                                                                                 a step on or back ┘          after some
//! ```
//!
//! Owns: [`Background`], of one core.
//! Invariant: whatever hosts see, a range waits no longer than a probe and [`PAUSE_MAX`].
//! Never: says which range; holds up what is in doubt when a term begins.

use base::{Duration, Histogram, Instant, ResyncPace};

/// Hosts use the core if they have asked for something within this time.
const RECENT: Duration = Duration::from_millis(100);
/// Beside hosts: ranges together, and the pause after them, in times as long as they took.
const STEPS: [(u32, u32); 8] = [(1, 15), (1, 7), (1, 3), (1, 1), (1, 0), (2, 0), (4, 0), (8, 0)];
/// Where it begins.
const FIRST: usize = 3;
/// The pause of [`ResyncPace::Low`] after each range, with and without hosts.
const GAP_LOW: u32 = 15;
/// No pause is longer: a core that is so busy that a range takes 10 ms copies 2 MiB a second nevertheless.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// A probe ends with so many requests, and so does a window that is [`WINDOW`] long,
const REQUESTS: u64 = 500;
/// or after this time with what there is.
const PROBE_MAX: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_millis(500);
const WINDOW_MAX: Duration = Duration::from_secs(2);
/// With fewer requests there is no p99, and means are compared,
const REQUESTS_P99: u64 = 250;
/// and with fewer than this, nothing: hosts ask for next to nothing.
const REQUESTS_FEW: u64 = 20;
/// The measure holds for so many windows; and a step that hosts have noticed is taken again only after as many.
const WINDOWS: u32 = 16;
/// And it does not hold any more when nothing was copied for so long.
const STALE: Duration = Duration::from_secs(5);

/// What a request that begins is counted for: the number of the phase.
pub(super) type Phase = u32;

/// See the module.
#[derive(Debug)]
pub(super) struct Background {
    /// Ranges under way.
    under_way: u32,
    /// Of those that are copied together: how many may still begin, and since when they are.
    together: (u32, Instant),
    /// When the pause after the last ones ends.
    next: Instant,
    /// Of [`STEPS`]; and for how many windows it goes no further.
    step: usize,
    stays_below: u32,
    /// When a host asked last, and a range began.
    asked: Instant,
    copied: Instant,
    /// Since when this phase is, and how many windows follow it until the next probe; in a probe none.
    phase: Phase,
    since: Instant,
    windows: u32,
    /// What hosts saw in the last probe, and in this window.
    probe: Histogram,
    window: Histogram,
}

impl Background {
    pub fn new() -> Self {
        Self {
            under_way: 0,
            together: (0, Instant(0)),
            next: Instant(0),
            step: FIRST,
            stays_below: 0,
            asked: Instant(0),
            copied: Instant(0),
            phase: 0,
            since: Instant(0),
            windows: 0,
            probe: Histogram::default(),
            window: Histogram::default(),
        }
    }

    // ---- what hosts ask ---------------------------------------------------------------------------------------------

    /// A host asks for something.
    pub fn asked(&mut self, now: Instant) -> Phase {
        self.asked = now.max(Instant(1));
        self.phase
    }
    /// It has its answer. What began in another phase is of none.
    pub fn answered(&mut self, began: Instant, phase: Phase, now: Instant) {
        if self.copied.0 == 0 || phase != self.phase {
            return;
        }
        let ns = now.since(began).as_nanos() as u64;
        if self.windows == 0 {
            return self.probe.record(ns);
        }
        self.window.record(ns);
        let took = now.since(self.since);
        if took >= WINDOW && (self.window.count() >= REQUESTS || took >= WINDOW_MAX) {
            self.judge(now);
        }
    }
    #[cold]
    fn judge(&mut self, now: Instant) {
        let (seen, of) = (&self.window, &self.probe);
        // More than a quarter: buckets are up to that wide.
        let noticed = match seen.count().min(of.count()) {
            REQUESTS_P99.. => seen.quantile_ns(0.99) * 4 > of.quantile_ns(0.99) * 5,
            REQUESTS_FEW.. => seen.sum_ns() / seen.count() * 4 > of.sum_ns() / of.count() * 5,
            _ => false,
        };
        if noticed {
            (self.step, self.stays_below) = (self.step.saturating_sub(1), WINDOWS);
        } else if self.stays_below > 0 {
            self.stays_below -= 1;
        } else {
            self.step = (self.step + 1).min(STEPS.len() - 1);
        }
        (self.since, self.window) = (now, Histogram::default());
        self.windows -= 1;
        if self.windows == 0 {
            self.probes(now);
        }
    }
    /// What hosts see without a resync is measured from now on.
    fn probes(&mut self, now: Instant) {
        self.phase = self.phase.wrapping_add(1);
        (self.since, self.windows, self.probe) = (now, 0, Histogram::default());
    }

    // ---- ranges -----------------------------------------------------------------------------------------------------

    /// Ranges under way.
    pub const fn under_way(&self) -> usize {
        self.under_way as usize
    }
    /// When a range that waits is to be looked at again, if only time helps.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let probed = (self.windows == 0).then(|| self.since + PROBE_MAX);
        [Some(self.next), probed].into_iter().flatten().filter(|at| *at > now).min()
    }
    /// Whether a range of a volume with that pace may begin.
    pub fn may_begin(&mut self, pace: ResyncPace, now: Instant) -> bool {
        let hosts = self.asked.0 > 0 && now.since(self.asked) < RECENT;
        let first = |own: &Self| own.under_way == 0 && now >= own.next;
        match pace {
            ResyncPace::High => true,
            ResyncPace::Normal if !hosts => true,
            ResyncPace::Normal => {
                if self.copied.0 == 0 || now.since(self.copied) >= STALE && self.windows > 0 {
                    self.copied = now.max(Instant(1));
                    self.probes(now);
                }
                if self.windows == 0 && (self.probe.count() >= REQUESTS || now >= self.since + PROBE_MAX) {
                    self.phase = self.phase.wrapping_add(1);
                    (self.since, self.windows, self.window) = (now, WINDOWS, Histogram::default());
                }
                self.windows > 0 && (first(self) || self.under_way > 0 && self.together.0 > 0)
            }
            ResyncPace::Low | ResyncPace::Paused => first(self),
        }
    }
    /// It begins.
    pub fn begins(&mut self, now: Instant) {
        if self.under_way == 0 {
            self.together = (STEPS[self.step].0, now);
        }
        self.copied = now.max(Instant(1));
        self.together.0 = self.together.0.saturating_sub(1);
        self.under_way += 1;
    }
    /// One of a volume with that pace has ended.
    pub fn ended(&mut self, pace: ResyncPace, now: Instant) {
        self.under_way -= 1;
        if self.under_way > 0 {
            return;
        }
        let gap = if pace == ResyncPace::Low { GAP_LOW } else { STEPS[self.step].1 };
        (self.together.0, self.next) = (0, now + (now.since(self.together.1) * gap).min(PAUSE_MAX));
        if self.windows == 0 {
            // What hosts ask from now on has nothing beside it.
            self.phase = self.phase.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core on which a range takes 200 us, and makes what hosts ask meanwhile so many times as long. How many ranges are copied in so many seconds.
    fn ranges(background: &mut Background, clock: &mut Instant, seconds: u64, times: u64) -> u32 {
        let (mut copied, ends) = (0, *clock + Duration::from_secs(seconds));
        let mut under_way: Vec<Instant> = Vec::new();
        while *clock < ends {
            while under_way.len() < 8 && background.may_begin(ResyncPace::Normal, *clock) {
                background.begins(*clock);
                under_way.push(*clock);
                copied += 1;
            }
            let (began, phase) = (*clock, background.asked(*clock));
            *clock += Duration::from_micros(if under_way.is_empty() { 100 } else { 100 * times });
            under_way.retain(|since| {
                let over = clock.since(*since) >= Duration::from_micros(200);
                if over {
                    background.ended(ResyncPace::Normal, *clock);
                }
                !over
            });
            background.answered(began, phase, *clock);
        }
        under_way.into_iter().for_each(|_| background.ended(ResyncPace::Normal, *clock));
        copied
    }

    #[test]
    fn a_resync_that_hosts_notice_makes_room_and_one_that_they_do_not_goes_on() {
        let (mut clock, mut background) = (Instant(1_000_000_000), Background::new());
        ranges(&mut background, &mut clock, 20, 3);
        let noticed = ranges(&mut background, &mut clock, 10, 3);
        // A range takes 300 us, and the pause after it 15 times as long.
        assert!((1_800..4_000).contains(&noticed), "{noticed}");
        ranges(&mut background, &mut clock, 40, 1);
        let unnoticed = ranges(&mut background, &mut clock, 10, 1);
        assert!(unnoticed > 300_000, "{unnoticed}: eight together");
        ranges(&mut background, &mut clock, 20, 3);
        let again = ranges(&mut background, &mut clock, 10, 3);
        assert!((1_800..4_000).contains(&again), "{again}");
    }

    #[test]
    fn hosts_that_ask_for_little_are_heard_too() {
        for (with, step) in [(13, STEPS.len() - 1), (40, 0)] {
            let (mut clock, mut background) = (Instant(1_000_000_000), Background::new());
            // One request after the other, that takes longer while there is a range.
            for _ in 0..3000 {
                let begins = background.may_begin(ResyncPace::Normal, clock);
                if begins {
                    background.begins(clock);
                }
                let (began, phase) = (clock, background.asked(clock));
                clock += Duration::from_millis(if begins { with } else { 13 });
                if begins {
                    background.ended(ResyncPace::Normal, clock);
                }
                background.answered(began, phase, clock);
            }
            assert!(background.step.abs_diff(step) <= 1, "{with} ms: step {}", background.step);
        }
    }

    #[test]
    fn without_hosts_there_is_no_pause_but_where_that_was_asked_for() {
        let mut background = Background::new();
        let now = Instant(1_000_000_000);
        for _ in 0..8 {
            assert!(background.may_begin(ResyncPace::Normal, now));
            background.begins(now);
        }
        assert!(!background.may_begin(ResyncPace::Low, now));
        background.asked(now);
        assert!(background.may_begin(ResyncPace::High, now));
        (0..8).for_each(|_| background.ended(ResyncPace::Low, now + Duration::from_millis(1)));
        let paused = now + Duration::from_millis(15);
        assert!(!background.may_begin(ResyncPace::Low, paused) && background.may_begin(ResyncPace::Low, paused + Duration::from_millis(2)));
        assert!(background.may_begin(ResyncPace::Normal, now + Duration::from_millis(200)));
    }

    #[test]
    fn a_range_waits_for_a_probe_and_a_pause_at_most() {
        let mut background = Background::new();
        let now = Instant(1_000_000_000);
        background.asked(now);
        assert!(!background.may_begin(ResyncPace::Normal, now), "a probe comes first");
        let probed = now + PROBE_MAX;
        background.asked(probed);
        assert!(background.may_begin(ResyncPace::Normal, probed));
        background.begins(probed);
        let ended = probed + Duration::from_secs(2);
        background.ended(ResyncPace::Normal, ended);
        background.asked(ended);
        assert!(!background.may_begin(ResyncPace::Normal, ended) && background.may_begin(ResyncPace::Normal, ended + PAUSE_MAX));
        let later = ended + STALE;
        background.asked(later);
        assert!(!background.may_begin(ResyncPace::Normal, later), "what was measured holds no more");
    }
}
