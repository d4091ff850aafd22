//! What the daemon's log has of connections, TLS handshakes and authentications that were refused.
//!
//! Invariant: one core reports at most [`REPORTED_MAX`] of them in each [`PERIOD`], and how many more there were when it is over: whoever tries
//! again and again does not fill the log, and the first line of who cannot connect is there at once.
//! Never: is what an auditor relies on.

use base::{Duration, Instant};

/// Refusals that are reported one by one in a period.
pub const REPORTED_MAX: u32 = 8;
/// How long a period is, from the first refusal in it.
pub const PERIOD: Duration = Duration::from_secs(10);

/// Of one core.
#[derive(Debug)]
pub struct RefusalLog {
    /// Where the others are to be found.
    others: &'static str,
    since: Option<Instant>,
    reported: u32,
    more: u64,
}

impl RefusalLog {
    /// `others`, in words: where those are to be found that are not reported.
    pub fn new(others: &'static str) -> Self {
        RefusalLog { others, since: None, reported: 0, more: 0 }
    }
    /// Something was refused: whether it is to be reported.
    pub fn reports(&mut self, now: Instant) -> bool {
        self.report_the_rest(now);
        self.since.get_or_insert(now);
        let reports = self.reported < REPORTED_MAX;
        self.reported += u32::from(reports);
        self.more += u64::from(!reports);
        reports
    }
    /// Reports how many were not reported, once the period is over.
    pub fn report_the_rest(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.since(since) < PERIOD) {
            return;
        }
        let fresh = RefusalLog::new(self.others);
        let RefusalLog { more, others, .. } = core::mem::replace(self, fresh);
        if more > 0 {
            tracing::warn!(more, "more connections were refused; {others}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_reported_in_each_period_and_the_rest_is_counted() {
        let mut log = RefusalLog::new("somewhere");
        let begin = Instant::default() + Duration::from_secs(5);
        let reported = |log: &mut RefusalLog, at| (0..100).filter(|_| log.reports(at)).count() as u32;
        assert_eq!(reported(&mut log, begin), REPORTED_MAX);
        assert_eq!((reported(&mut log, begin + PERIOD / 2), log.more), (0, 200 - u64::from(REPORTED_MAX)));
        assert_eq!(reported(&mut log, begin + PERIOD), REPORTED_MAX);
        log.report_the_rest(begin + PERIOD * 2);
        assert_eq!(log.more, 0);
    }
}
