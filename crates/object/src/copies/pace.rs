//! How long copies take for changes, and which one takes much longer than the others of its mirror (`docs/mirrors.md`, "A slow copy").
//!
//! Each change goes to all copies, so a copy that is slow makes every change slow: it shows here, and nowhere else.
//!
//! Owns: [`Paces`], the times of one volume on one core.
//! Invariants: a copy is called slow after [`SLOW_WINDOWS`] windows in a row and works again after one that says so; a window without enough changes
//! says nothing.
//! Never: lets a copy leave.

use base::{ComponentId, Duration, Instant};
use smallvec::SmallVec;

/// Times are compared so often.
pub(super) const WINDOW: Duration = Duration::from_secs(2);
/// A copy is slow after so many windows in a row.
pub(super) const SLOW_WINDOWS: u8 = 3;
/// When it takes so many times as long as the slowest of the others,
pub(super) const SLOW_TIMES: u64 = 10;
/// and at least this long on average: below it nobody waits for it.
pub(super) const SLOW_MIN: Duration = Duration::from_millis(2);
/// Changes that a window must have for each copy.
const CHANGES_MIN: u64 = 16;

/// One copy.
#[derive(Clone, Copy, Debug)]
struct Pace {
    component: ComponentId,
    mirror: u16,
    /// Changes of this window, and how long they took together, in nanoseconds.
    changes: u64,
    nanos: u64,
    /// Windows in a row in which it was slow.
    windows: u8,
}

impl Pace {
    fn mean(&self) -> u64 {
        self.nanos / self.changes.max(1)
    }
    const fn is_slow(&self) -> bool {
        self.windows >= SLOW_WINDOWS
    }
}

/// Copies, and whether each is slow from now on.
type Said = SmallVec<[(ComponentId, bool); 1]>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Paces {
    copies: SmallVec<[Pace; 3]>,
    ends: Option<Instant>,
}

impl Paces {
    /// A copy in sync has a change that was sent to it at that time. What is to be said of copies, when a window ends with it.
    pub fn has(&mut self, (component, mirror): (ComponentId, u16), sent: Instant, now: Instant) -> Said {
        let nanos = now.since(sent).as_nanos() as u64;
        match self.copies.iter_mut().find(|c| c.component == component) {
            Some(pace) => (pace.changes, pace.nanos) = (pace.changes + 1, pace.nanos.saturating_add(nanos)),
            None => self.copies.push(Pace { component, mirror, changes: 1, nanos, windows: 0 }),
        }
        match self.ends {
            Some(ends) if now < ends => SmallVec::new(),
            Some(_) => self.judge(now),
            None => {
                self.ends = Some(now + WINDOW);
                SmallVec::new()
            }
        }
    }
    /// Copies that are not among these are forgotten.
    pub fn keep(&mut self, is: impl Fn(ComponentId) -> bool) {
        self.copies.retain(|c| is(c.component));
    }
    /// A window ends.
    #[cold]
    fn judge(&mut self, now: Instant) -> Said {
        let mut says = SmallVec::new();
        for i in 0..self.copies.len() {
            let pace = self.copies[i];
            let others = self.copies.iter().filter(|c| c.mirror == pace.mirror && c.component != pace.component);
            let of_others = others.clone().map(Pace::mean).max();
            if pace.changes < CHANGES_MIN || others.clone().any(|c| c.changes < CHANGES_MIN) {
                continue;
            }
            let slow = of_others.is_some_and(|mean| pace.mean() >= mean.saturating_mul(SLOW_TIMES).max(SLOW_MIN.as_nanos() as u64));
            let before = pace.is_slow();
            let pace = &mut self.copies[i];
            pace.windows = if slow { pace.windows.saturating_add(1) } else { 0 };
            if before != pace.is_slow() {
                says.push((pace.component, pace.is_slow()));
            }
        }
        self.copies.iter_mut().for_each(|c| (c.changes, c.nanos) = (0, 0));
        self.ends = Some(now + WINDOW);
        says
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(n: u8) -> (ComponentId, u16) {
        (ComponentId::from_bytes([n; 16]), 0)
    }
    /// So many windows in which changes take so many microseconds at each copy: what was said.
    fn windows(paces: &mut Paces, clock: &mut Instant, windows: u32, micros: &[u64], changes: u64) -> Vec<(ComponentId, bool)> {
        let mut says = Vec::new();
        let per_window = WINDOW.as_micros() as u64 / changes;
        for _ in 0..u64::from(windows) * changes {
            for (n, micros) in micros.iter().enumerate() {
                says.extend(paces.has(copy(n as u8), *clock, *clock + Duration::from_micros(*micros)));
            }
            *clock += Duration::from_micros(per_window);
        }
        says
    }

    #[test]
    fn a_copy_that_takes_ten_times_as_long_is_slow_until_it_keeps_up() {
        let (mut paces, mut clock) = (Paces::default(), Instant(1));
        assert_eq!(windows(&mut paces, &mut clock, 10, &[300, 2_900, 500], 100), [], "not ten times the next one");
        assert_eq!(windows(&mut paces, &mut clock, 2, &[300, 8_000, 500], 100), [], "in too few windows");
        assert_eq!(windows(&mut paces, &mut clock, 8, &[300, 8_000, 500], 100), [(copy(1).0, true)], "once");
        assert_eq!(windows(&mut paces, &mut clock, 8, &[300, 700, 500], 100), [(copy(1).0, false)], "once");
    }

    #[test]
    fn two_slow_copies_and_few_changes_say_nothing() {
        let (mut paces, mut clock) = (Paces::default(), Instant(1));
        assert_eq!(windows(&mut paces, &mut clock, 10, &[300, 8_000, 9_000], 100), []);
        assert_eq!(windows(&mut paces, &mut clock, 10, &[300, 9_000], 8), []);
        assert_eq!(windows(&mut paces, &mut clock, 10, &[9_000], 100), [], "there is no other");
        let (mut paces, mut clock) = (Paces::default(), Instant(1));
        assert_eq!(windows(&mut paces, &mut clock, 10, &[20, 900], 100), [], "nobody waits so long");
    }

    #[test]
    fn a_copy_that_leaves_is_no_measure_any_more() {
        let (mut paces, mut clock) = (Paces::default(), Instant(1));
        windows(&mut paces, &mut clock, 10, &[9_000, 9_000], 100);
        paces.keep(|c| c != copy(1).0);
        assert_eq!(windows(&mut paces, &mut clock, 10, &[9_000], 100), []);
    }
}
