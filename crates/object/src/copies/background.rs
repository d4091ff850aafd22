//! How much of a core the resync of its lanes gets beside what hosts ask (`docs/mirrors.md`, "The pace of a resync").
//!
//! A range is small and cannot be made smaller, so what is chosen is the pause after each: so many times as long as the range took. Whether hosts
//! notice is measured: what they asked while a range was under way beside what they asked between two of them.
//!
//! Owns: [`Background`], of one core.
//! Invariants: while hosts ask, one range is under way at a time, and the pause after it is [`GAP_MIN`] to [`GAP_MAX`] times as long as it took; a
//! range waits for [`PAUSE_MAX`] at most.
//! Never: says which range; holds up what is in doubt when a term begins.

use base::{Duration, Histogram, Instant, ResyncPace};

/// Hosts use the core if they have asked for something within this time.
const RECENT: Duration = Duration::from_millis(100);
/// The pause after a range, in times as long as it took: at first,
const GAP_FIRST: u32 = 7;
/// at least, so that there is always something without a range beside it to compare with,
const GAP_MIN: u32 = 1;
/// and at most.
const GAP_MAX: u32 = 15;
/// That of [`ResyncPace::Low`], with and without hosts.
const GAP_LOW: u32 = 15;
/// No pause is longer: a core that is so busy that a range takes 10 ms copies 2 MiB a second nevertheless.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// What hosts see is compared so often, at least,
const WINDOW: Duration = Duration::from_millis(500);
/// with at least so many requests between two ranges; a window that has not got them after [`WINDOW_MAX`] says nothing.
const REQUESTS_MIN: u64 = 500;
const WINDOW_MAX: Duration = Duration::from_secs(5);
/// The quantile that is compared.
const QUANTILE: f64 = 0.99;

/// What a request that begins sees: how many ranges have begun on the core, if none is under way.
pub(super) type Beside = Option<u32>;

/// See the module.
#[derive(Debug)]
pub(super) struct Background {
    /// Ranges that have begun, and that are under way.
    begun: u32,
    under_way: u32,
    /// When the pause after the last range ends.
    pub next: Instant,
    gap: u32,
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
        let (all, free) = (Histogram::default(), Histogram::default());
        Self { begun: 0, under_way: 0, next: Instant(0), gap: GAP_FIRST, asked: Instant(0), since: None, all, free }
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
        let copies = self.under_way > 0 || self.since.is_some_and(|(_, begun)| begun != self.begun);
        // With hardly anything between two ranges they are too close to each other to tell.
        let crowded = all >= 2 * REQUESTS_MIN && free < all / 4;
        if free < REQUESTS_MIN && !crowded && window < WINDOW_MAX {
            return;
        }
        // Buckets are up to a quarter wide: one above is chance.
        let rises = || self.all.quantile_ns(QUANTILE) * 4 > self.free.quantile_ns(QUANTILE) * 5;
        if crowded || free >= REQUESTS_MIN && rises() {
            self.gap = (self.gap * 2 + 1).min(GAP_MAX);
        } else if free >= REQUESTS_MIN {
            self.gap = (self.gap - self.gap.div_ceil(4)).max(GAP_MIN);
        }
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
        match pace {
            ResyncPace::High => true,
            ResyncPace::Normal if !hosts => true,
            _ => self.under_way == 0 && now >= self.next,
        }
    }
    /// It begins.
    pub fn begins(&mut self, now: Instant) {
        self.since.get_or_insert((now, self.begun));
        (self.begun, self.under_way) = (self.begun.wrapping_add(1), self.under_way + 1);
    }
    /// It has ended.
    pub fn ended(&mut self, pace: ResyncPace, began: Instant, now: Instant) {
        self.under_way -= 1;
        let gap = if pace == ResyncPace::Low { GAP_LOW } else { self.gap };
        self.next = now + (now.since(began) * gap).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core on which a range makes what hosts ask meanwhile so many times as long. How many ranges are copied in so many seconds.
    fn ranges(background: &mut Background, clock: &mut Instant, seconds: u64, times: u64, pace: ResyncPace) -> u32 {
        let (before, ends) = (background.begun, *clock + Duration::from_secs(seconds));
        let mut range: Option<Instant> = None;
        while *clock < ends {
            if range.is_none() && background.may_begin(pace, *clock) {
                background.begins(*clock);
                range = Some(*clock);
            }
            let (began, beside) = (*clock, background.asked(*clock));
            *clock += Duration::from_micros(if range.is_some() { 100 * times } else { 100 });
            if let Some(since) = range.filter(|since| clock.since(*since) >= Duration::from_micros(200)) {
                range = None;
                background.ended(pace, since, *clock);
            }
            background.answered(began, beside, *clock);
        }
        if let Some(since) = range {
            background.ended(pace, since, *clock);
        }
        background.begun - before
    }

    #[test]
    fn a_resync_that_hosts_notice_makes_room_and_one_that_they_do_not_goes_on() {
        let mut clock = Instant(1_000_000_000);
        let mut background = Background::new();
        ranges(&mut background, &mut clock, 20, 3, ResyncPace::Normal);
        let noticed = ranges(&mut background, &mut clock, 10, 3, ResyncPace::Normal);
        // A range takes 300 us, and the pause after it 15 times as long.
        assert!((10_000_000 / (16 * 300) - 50..10_000_000 / (16 * 300) * 3).contains(&(noticed as usize)), "{noticed}");
        ranges(&mut background, &mut clock, 20, 1, ResyncPace::Normal);
        let unnoticed = ranges(&mut background, &mut clock, 10, 1, ResyncPace::Normal);
        assert!(unnoticed > 20_000, "{unnoticed}: half of the time");
        ranges(&mut background, &mut clock, 20, 3, ResyncPace::Normal);
        let again = ranges(&mut background, &mut clock, 10, 3, ResyncPace::Normal);
        assert!(again < noticed * 3, "{again}");
    }

    #[test]
    fn without_hosts_there_is_no_pause_but_where_that_was_asked_for() {
        let mut background = Background::new();
        let now = Instant(1_000_000_000);
        (0..8).for_each(|_| background.begins(now));
        assert!(background.may_begin(ResyncPace::Normal, now) && !background.may_begin(ResyncPace::Low, now));
        background.asked(now);
        assert!(!background.may_begin(ResyncPace::Normal, now) && background.may_begin(ResyncPace::High, now));
        (0..8).for_each(|_| background.ended(ResyncPace::Low, now, now + Duration::from_millis(1)));
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
        background.ended(ResyncPace::Normal, now, ended);
        background.asked(ended);
        assert!(background.may_begin(ResyncPace::Normal, ended + PAUSE_MAX));
        assert!(background.since.is_some());
        (0..30).for_each(|s| background.answered(ended, None, ended + Duration::from_secs(s)));
        assert!(background.since.is_none() && background.all.count() == 0);
    }
}
