//! What the daemon's log is told of Connect commands, TLS handshakes and authentications that failed.
//!
//! Invariant: one core tells at most [`TOLD_MAX`] of them in each [`PERIOD`], and how many more there were when it is over: whoever tries
//! again and again does not fill the log, and the first line of who cannot connect is there at once.
//! Never: is what an auditor relies on; that is [`crate::audit`].

use base::{Duration, Instant};

/// Refusals that are told one by one in a period.
pub(crate) const TOLD_MAX: u32 = 8;
/// How long a period is, from the first refusal in it.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// Of one core.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    since: Option<Instant>,
    told: u32,
    more: u64,
}

impl RefusalLog {
    /// Something was refused: whether it is told.
    pub(crate) fn tells(&mut self, now: Instant) -> bool {
        self.tell_the_rest(now);
        self.since.get_or_insert(now);
        let tells = self.told < TOLD_MAX;
        self.told += u32::from(tells);
        self.more += u64::from(!tells);
        tells
    }
    /// Tells how many were not told, once the period is over.
    pub(crate) fn tell_the_rest(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.since(since) < PERIOD) {
            return;
        }
        let RefusalLog { more, .. } = core::mem::take(self);
        if more > 0 {
            tracing::warn!(more, "more connections were refused; 'basalt audit' shows them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_told_in_each_period_and_the_rest_is_counted() {
        let mut log = RefusalLog::default();
        let begin = Instant::default() + Duration::from_secs(5);
        let told = |log: &mut RefusalLog, at| (0..100).filter(|_| log.tells(at)).count() as u32;
        assert_eq!(told(&mut log, begin), TOLD_MAX);
        assert_eq!((told(&mut log, begin + PERIOD / 2), log.more), (0, 200 - u64::from(TOLD_MAX)));
        assert_eq!(told(&mut log, begin + PERIOD), TOLD_MAX);
        log.tell_the_rest(begin + PERIOD * 2);
        assert_eq!(log.more, 0);
    }
}
