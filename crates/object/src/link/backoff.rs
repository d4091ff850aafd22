//! When a lost link is dialed again.
//!
//! Invariant: a peer that is not there costs at most one connection a half of [`REDIAL_MAX`] and link.
//! Never: reads a clock, or chance of its own.

use super::limits::{REDIAL_MAX, REDIAL_MIN, STEADY};
use base::{Duration, Instant};

/// The delay before the `tries`-th attempt in a row that fails, shorter by up to a half by `chance`. The first has none.
pub(super) fn delay(tries: u32, chance: u32) -> Duration {
    if tries == 0 {
        return Duration::ZERO;
    }
    let whole = REDIAL_MIN.saturating_mul(1 << (tries - 1).min(16)).min(REDIAL_MAX);
    whole - whole.mul_f64(f64::from(chance) / f64::from(u32::MAX) / 2.0)
}

/// Of one link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// Links in a row that were not steady.
    tries: u32,
    next: Instant,
    opened: Option<Instant>,
}

impl Backoff {
    /// Whether it may be dialed.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }
    /// When it may be dialed.
    pub(super) fn due(&self) -> Instant {
        self.next
    }
    /// The link is open.
    pub(super) fn opened(&mut self, now: Instant) {
        self.opened = Some(now);
    }
    /// The link is closed, or there was no connection.
    pub(super) fn ended(&mut self, now: Instant, chance: u32) {
        let steady = self.opened.take().is_some_and(|opened| now.since(opened) >= STEADY);
        self.tries = if steady { 0 } else { self.tries };
        self.next = now + delay(self.tries, chance);
        self.tries = self.tries.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_chance_takes_up_to_a_half() {
        assert_eq!(delay(0, 0), Duration::ZERO);
        let whole: Vec<u64> = (1..9).map(|tries| delay(tries, 0).as_millis() as u64).collect();
        assert_eq!(whole, [20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!((delay(7, u32::MAX), delay(u32::MAX, 0)), (REDIAL_MAX / 2, REDIAL_MAX));
    }

    #[test]
    fn a_link_that_was_steady_is_dialed_at_once_and_one_that_was_not_later_and_later() {
        let mut backoff = Backoff::default();
        let at = |ms: u64| Instant(ms * 1_000_000);
        assert!(backoff.is_due(at(0)));
        for (n, wait) in [0, 20, 40, 80].into_iter().enumerate() {
            backoff.opened(at(10_000 * n as u64));
            backoff.ended(at(10_000 * n as u64 + 999), 0);
            assert_eq!(backoff.due(), at(10_000 * n as u64 + 999 + wait));
        }
        backoff.opened(at(50_000));
        backoff.ended(at(51_000), 0);
        assert!(backoff.is_due(at(51_000)));
        backoff.ended(at(51_001), 0);
        assert!(!backoff.is_due(at(51_020)) && backoff.is_due(at(51_021)));
    }
}
