//! What a member measures of itself, from the text of its page `/metrics`.
//!
//! Invariant: what is not there is `None`, and never 0.

use std::time::Duration;

/// What is read of the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    /// How often writing the log to stable media took up to so many seconds, since the member started: bound and count, ascending.
    pub fsync: Vec<(f64, u64)>,
    /// The store's quota, in bytes.
    pub quota_bytes: Option<u64>,
    /// How often the leader has changed since the member started.
    pub leader_changes: Option<u64>,
}

const FSYNC: &str = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"";

impl Metrics {
    pub fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let whole = (value.is_finite() && value >= 0.0).then_some(value as u64);
            if let Some(bound) = name.strip_prefix(FSYNC).and_then(|n| n.strip_suffix("\"}")) {
                let bound = if bound == "+Inf" { Some(f64::INFINITY) } else { bound.parse().ok() };
                metrics.fsync.extend(bound.zip(whole));
            }
            match name {
                "etcd_server_quota_backend_bytes" => metrics.quota_bytes = whole,
                "etcd_server_leader_changes_seen_total" => metrics.leader_changes = whole,
                _ => {}
            }
        }
        metrics.fsync.sort_by(|a, b| a.0.total_cmp(&b.0));
        metrics
    }

    /// Below which 99 of 100 writes of the log took, since `before` was read; `None`: there were none. A write longer than every bound counts as
    /// the largest.
    pub fn fsync_p99(&self, before: Option<&Self>) -> Option<Duration> {
        let earlier = |bound: f64| before.and_then(|b| b.fsync.iter().find(|(at, _)| *at == bound)).map_or(0, |(_, n)| *n);
        // A member that was started anew counts from 0 again.
        let since = |(bound, count): &(f64, u64)| (*bound, count.checked_sub(earlier(*bound)).unwrap_or(*count));
        let counts: Vec<(f64, u64)> = self.fsync.iter().map(since).collect();
        let all = counts.last().map(|(_, n)| *n).filter(|n| *n > 0)?;
        let wanted = all - all / 100;
        let mut finite = counts.iter().filter(|(bound, _)| bound.is_finite());
        let bound = finite.clone().find(|(_, n)| *n >= wanted).or(finite.next_back()).map(|(bound, _)| *bound)?;
        Some(Duration::from_secs_f64(bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(counts: [u64; 4]) -> Metrics {
        let [a, b, c, all] = counts;
        Metrics::parse(&format!(
            "# HELP x\n{FSYNC}0.001\"}} {a}\n{FSYNC}0.016\"}} {b}\n{FSYNC}8.192\"}} {c}\n{FSYNC}+Inf\"}} {all}\n\
             etcd_server_quota_backend_bytes 2.147483648e+09\netcd_server_leader_changes_seen_total 3\nother{{a=\"b\"}} NaN\nx\n"
        ))
    }

    #[test]
    fn the_slowest_of_a_hundred_is_counted_since_the_look_before() {
        let (before, now) = (page([100, 100, 100, 100]), page([198, 199, 200, 200]));
        assert_eq!(now.fsync_p99(Some(&before)), Some(Duration::from_millis(16)));
        assert_eq!(before.fsync_p99(None), Some(Duration::from_millis(1)));
        assert_eq!(before.fsync_p99(Some(&before)), None, "nothing was written meanwhile");
        assert_eq!(before.fsync_p99(Some(&now)), Some(Duration::from_millis(1)), "it was started anew");
        assert_eq!(page([0, 0, 0, 10]).fsync_p99(None), Some(Duration::from_secs_f64(8.192)));
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        assert_eq!(Metrics::parse(""), Metrics::default());
        assert_eq!(Metrics::default().fsync_p99(None), None);
        assert_eq!((page([0; 4]).quota_bytes, page([0; 4]).leader_changes), (Some(2 << 30), Some(3)));
    }
}
