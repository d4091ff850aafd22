//! What the daemon's log has of Connect commands, TLS handshakes and authentications that failed.
//!
//! Invariant: one core reports at most [`REPORTED_MAX`] of them in each [`PERIOD`], and how many more there were when it is over: whoever tries
//! again and again does not fill the log, and the first line of who cannot connect is there at once.
//! Never: is what an auditor relies on; that is [`crate::audit`].

use base::{Duration, Instant};

/// Refusals that are reported one by one in a period.
pub(crate) const REPORTED_MAX: u32 = 8;
/// How long a period is, from the first refusal in it.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// Of one core.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    since: Option<Instant>,
    reported: u32,
    more: u64,
}

impl RefusalLog {
    /// Something was refused: whether it is to be reported.
    pub(crate) fn reports(&mut self, now: Instant) -> bool {
        self.report_the_rest(now);
        self.since.get_or_insert(now);
        let reports = self.reported < REPORTED_MAX;
        self.reported += u32::from(reports);
        self.more += u64::from(!reports);
        reports
    }
    /// Reports how many were not reported, once the period is over.
    pub(crate) fn report_the_rest(&mut self, now: Instant) {
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
    fn a_few_are_reported_in_each_period_and_the_rest_is_counted() {
        let mut log = RefusalLog::default();
        let begin = Instant::default() + Duration::from_secs(5);
        let reported = |log: &mut RefusalLog, at| (0..100).filter(|_| log.reports(at)).count() as u32;
        assert_eq!(reported(&mut log, begin), REPORTED_MAX);
        assert_eq!((reported(&mut log, begin + PERIOD / 2), log.more), (0, 200 - u64::from(REPORTED_MAX)));
        assert_eq!(reported(&mut log, begin + PERIOD), REPORTED_MAX);
        log.report_the_rest(begin + PERIOD * 2);
        assert_eq!(log.more, 0);
    }
}
