//! How much of a core the resync of its lanes gets beside what hosts ask (`docs/mirrors.md`, "The pace of a resync").
//!
//! A range is small and cannot be made smaller, so what is chosen is how many are copied together, and the pause after them. Whether hosts notice is
//! measured: what they asked while ranges were under way beside what they asked in the pauses.
//!
//! Owns: [`Background`], of one core.
//! Invariants: while hosts ask, there is a pause after ranges, at least as long as they took, and at most [`PAUSE_MAX`].
//! Never: says which range; holds up what is in doubt when a term begins.

use base::{Duration, Histogram, Instant, ResyncPace};

/// Hosts use the core if they have asked for something within this time.
const RECENT: Duration = Duration::from_millis(100);
/// Beside hosts: ranges together, and the pause after them, in times as long as they took. There is always a pause, to compare with.
const STEPS: [(u32, u32); 7] = [(1, 15), (1, 7), (1, 3), (1, 1), (2, 1), (4, 1), (8, 1)];
/// Where it begins.
const FIRST: usize = 2;
/// The pause of [`ResyncPace::Low`] after each range, with and without hosts.
const GAP_LOW: u32 = 15;
/// No pause is longer: a core that is so busy that a range takes 10 ms copies 2 MiB a second nevertheless.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// What hosts see is compared so often, at least,
const WINDOW: Duration = Duration::from_millis(500);
/// with at least so many requests in pauses,
const REQUESTS_MIN: u64 = 500;
/// or after this time with what there is.
const WINDOW_MAX: Duration = Duration::from_secs(3);
/// With fewer than this hosts ask for next to nothing.
const REQUESTS_FEW: u64 = 50;
/// A step that hosts have noticed is taken again only after so many windows.
const STAYS_BELOW: u32 = 16;

/// What a request that begins sees: how many ranges have begun on the core, if none is under way.
pub(super) type Beside = Option<u32>;

/// See the module.
#[derive(Debug)]
pub(super) struct Background {
    /// Ranges that have begun, and that are under way.
    begun: u32,
    under_way: u32,
    /// Of those that are copied together: how many may still begin, and since when they are.
    together: (u32, Instant),
    /// When the pause after the last ones ends.
    pub next: Instant,
    /// Of [`STEPS`]; and for how many windows it goes no further.
    step: usize,
    stays_below: u32,
    /// When a host asked last.
    asked: Instant,
    /// Since when it is measured, and the ranges that had begun then; `None`: nothing is copied.
    since: Option<(Instant, u32)>,
    /// What hosts asked meanwhile: all of it, and what had no range beside it.
    all: Histogram,
    free: Histogram,
}

impl Background {
    pub fn new() -> Self {
        Self {
            begun: 0,
            under_way: 0,
            together: (0, Instant(0)),
            next: Instant(0),
            step: FIRST,
            stays_below: 0,
            asked: Instant(0),
            since: None,
            all: Histogram::default(),
            free: Histogram::default(),
        }
    }

    // ---- what hosts ask ---------------------------------------------------------------------------------------------

    /// A host asks for something.
    pub fn asked(&mut self, now: Instant) -> Beside {
        self.asked = now.max(Instant(1));
        (self.under_way == 0).then_some(self.begun)
    }
    /// It has its answer.
    pub fn answered(&mut self, began: Instant, beside: Beside, now: Instant) {
        let Some((since, _)) = self.since else { return };
        let ns = now.since(began).as_nanos() as u64;
        self.all.record(ns);
        if beside == Some(self.begun) && self.under_way == 0 {
            self.free.record(ns);
        }
        if now.since(since) >= WINDOW {
            self.judge(now.since(since), now);
        }
    }
    #[cold]
    fn judge(&mut self, window: Duration, now: Instant) {
        let (all, free) = (self.all.count(), self.free.count());
        // With hardly anything in the pauses they are too short to tell.
        let crowded = all >= 2 * REQUESTS_MIN && free < all / 4;
        if free < REQUESTS_MIN && !crowded && window < WINDOW_MAX {
            return;
        }
        // More than a quarter: buckets are up to that wide. Few requests have no p99.
        let noticed = match free {
            _ if crowded => true,
            REQUESTS_MIN.. => self.all.quantile_ns(0.99) * 4 > self.free.quantile_ns(0.99) * 5,
            REQUESTS_FEW.. => self.all.sum_ns() / all * 4 > self.free.sum_ns() / free * 5,
            _ => false,
        };
        if noticed {
            (self.step, self.stays_below) = (self.step.saturating_sub(1), STAYS_BELOW);
        } else if self.stays_below > 0 {
            self.stays_below -= 1;
        } else {
            self.step = (self.step + 1).min(STEPS.len() - 1);
        }
        let copies = self.under_way > 0 || self.since.is_some_and(|(_, begun)| begun != self.begun);
        (self.all, self.free, self.since) = (Histogram::default(), Histogram::default(), copies.then_some((now, self.begun)));
    }

    // ---- ranges -----------------------------------------------------------------------------------------------------

    /// Ranges under way.
    pub const fn under_way(&self) -> usize {
        self.under_way as usize
    }
    /// Whether a range of a volume with that pace may begin.
    pub fn may_begin(&self, pace: ResyncPace, now: Instant) -> bool {
        let hosts = self.asked.0 > 0 && now.since(self.asked) < RECENT;
        let first = self.under_way == 0 && now >= self.next;
        match pace {
            ResyncPace::High => true,
            ResyncPace::Normal => !hosts || first || self.under_way > 0 && self.together.0 > 0,
            ResyncPace::Low | ResyncPace::Paused => first,
        }
    }
    /// It begins.
    pub fn begins(&mut self, now: Instant) {
        self.since.get_or_insert((now, self.begun));
        if self.under_way == 0 {
            self.together = (STEPS[self.step].0, now);
        }
        self.together.0 = self.together.0.saturating_sub(1);
        (self.begun, self.under_way) = (self.begun.wrapping_add(1), self.under_way + 1);
    }
    /// One of a volume with that pace has ended.
    pub fn ended(&mut self, pace: ResyncPace, now: Instant) {
        self.under_way -= 1;
        if self.under_way == 0 {
            let gap = if pace == ResyncPace::Low { GAP_LOW } else { STEPS[self.step].1 };
            (self.together.0, self.next) = (0, now + (now.since(self.together.1) * gap).min(PAUSE_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core on which a range takes 200 us, and makes what hosts ask meanwhile so many times as long. How many ranges are copied in so many seconds.
    fn ranges(background: &mut Background, clock: &mut Instant, seconds: u64, times: u64) -> u32 {
        let (before, ends) = (background.begun, *clock + Duration::from_secs(seconds));
        let mut under_way: Vec<Instant> = Vec::new();
        while *clock < ends {
            while under_way.len() < 8 && background.may_begin(ResyncPace::Normal, *clock) {
                background.begins(*clock);
                under_way.push(*clock);
            }
            let (began, beside) = (*clock, background.asked(*clock));
            *clock += Duration::from_micros(if under_way.is_empty() { 100 } else { 100 * times });
            under_way.retain(|since| {
                let over = clock.since(*since) >= Duration::from_micros(200);
                if over {
                    background.ended(ResyncPace::Normal, *clock);
                }
                !over
            });
            background.answered(began, beside, *clock);
        }
        under_way.into_iter().for_each(|_| background.ended(ResyncPace::Normal, *clock));
        background.begun - before
    }

    #[test]
    fn a_resync_that_hosts_notice_makes_room_and_one_that_they_do_not_goes_on() {
        let (mut clock, mut background) = (Instant(1_000_000_000), Background::new());
        ranges(&mut background, &mut clock, 20, 3);
        let noticed = ranges(&mut background, &mut clock, 10, 3);
        // A range takes 300 us, and the pause after it 15 times as long.
        assert!((2_000..4_000).contains(&noticed), "{noticed}");
        ranges(&mut background, &mut clock, 40, 1);
        let unnoticed = ranges(&mut background, &mut clock, 10, 1);
        assert!(unnoticed > 150_000, "{unnoticed}: eight together, half of the time");
        ranges(&mut background, &mut clock, 20, 3);
        let again = ranges(&mut background, &mut clock, 10, 3);
        assert!((2_000..4_000).contains(&again), "{again}");
    }

    #[test]
    fn hosts_that_ask_for_little_are_heard_too() {
        let (mut clock, mut background) = (Instant(1_000_000_000), Background::new());
        // Thirty requests a second, of which none has a range beside it.
        for _ in 0..30 * 60 {
            background.begins(clock);
            background.ended(ResyncPace::Normal, clock + Duration::from_millis(1));
            clock += Duration::from_millis(20);
            let beside = background.asked(clock);
            clock += Duration::from_millis(13);
            background.answered(clock, beside, clock);
        }
        assert_eq!(background.step, STEPS.len() - 1);
    }

    #[test]
    fn without_hosts_there_is_no_pause_but_where_that_was_asked_for() {
        let mut background = Background::new();
        let now = Instant(1_000_000_000);
        (0..8).for_each(|_| background.begins(now));
        assert!(background.may_begin(ResyncPace::Normal, now) && !background.may_begin(ResyncPace::Low, now));
        background.asked(now);
        assert!(!background.may_begin(ResyncPace::Normal, now) && background.may_begin(ResyncPace::High, now));
        (0..8).for_each(|_| background.ended(ResyncPace::Low, now + Duration::from_millis(1)));
        let paused = now + Duration::from_millis(15);
        assert!(!background.may_begin(ResyncPace::Low, paused) && background.may_begin(ResyncPace::Low, paused + Duration::from_millis(2)));
        assert!(background.may_begin(ResyncPace::Normal, now + Duration::from_millis(200)));
    }

    #[test]
    fn no_pause_is_long_and_nothing_is_kept_when_nothing_is_copied() {
        let mut background = Background::new();
        let now = Instant(1_000_000_000);
        background.begins(now);
        let ended = now + Duration::from_secs(2);
        background.ended(ResyncPace::Normal, ended);
        background.asked(ended);
        assert!(!background.may_begin(ResyncPace::Normal, ended) && background.may_begin(ResyncPace::Normal, ended + PAUSE_MAX));
        assert!(background.since.is_some());
        (0..30).for_each(|s| background.answered(ended, None, ended + Duration::from_secs(s)));
        assert!(background.since.is_none() && background.all.count() == 0);
    }
}
